"""What sentences are drawn from."""

from __future__ import annotations

from typing import Any

import pytest

import gnomon

TEXTS = ["a b c d", "a b d c", "b c a", "c a b a", "d d a b", "a d"]


@pytest.mark.parametrize("option", [{"top_k": 1}, {"top_p": 1e-9}, {"temperature": 1e-6}])
def test_the_likeliest_token_alone_is_greedy_search(option: dict[str, Any]) -> None:
    model = gnomon.NGram(n=3, smoothing="dirichlet").fit(TEXTS)
    best = model.generate("a", method="greedy", max_length=5)
    assert model.generate("a", n=6, max_length=5, random_state=0, **option) == best * 6
    assert len(set(model.generate("a", n=30, max_length=5, random_state=0))) > 5
