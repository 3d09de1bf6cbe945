"""E14: small fits use one thread; mlp on 1,169 x 4 took 38 to 137 s on two busy threads, 6.6 s on one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import gnomon

X = np.random.default_rng(0).random((64, 64)).astype(np.float32)
LABELS = (X[:, 0] > 0.5).astype(int)


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def threads_of(system: Any, X: Any, y: Any, **options: Any) -> set[int]:
    """Threads that torch has after each epoch of a fit."""
    seen: list[int] = []
    with gnomon.context(callbacks=(lambda step, record: seen.append(torch.get_num_threads()),), **options):
        system.fit(X, y)
    assert torch.get_num_threads() == 2
    return set(seen)


def test_a_step_of_little_work_keeps_to_one_thread() -> None:
    assert threads_of(gnomon.MLP(hidden=(100,), epochs=2, random_state=0), X, LABELS) == {1}
    assert threads_of(gnomon.LeNet(epochs=1, random_state=0), X.reshape(64, 8, 8), LABELS) == {1}
    assert threads_of(gnomon.SoftmaxRegression(epochs=2), X, LABELS) == {1}


def test_much_work_and_what_the_user_says_are_left_alone() -> None:
    wide = gnomon.MLP(hidden=(4096, 512), epochs=1, batch_size=64, random_state=0)
    assert threads_of(wide, X, LABELS) == {2}
    assert threads_of(gnomon.MLP(hidden=(8,), epochs=2, random_state=0), X, LABELS, threads=2) == {2}
