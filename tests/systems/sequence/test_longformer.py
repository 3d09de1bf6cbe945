"""The classifier of long texts: full attention where windows hold all, long texts told apart, no square."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import gnomon
from gnomon.errors import UserValueError
from gnomon.nn import attention_engine
from gnomon.nn.spans import MixedSpan, WindowSpan

OPTIONS = {"n_embedding": 16, "n_heads": 2, "n_hidden": 16, "n_layers": 2, "random_state": 0}


def texts(n, length, seed=0):
    """Noise, in which every tenth word tells the class."""
    random, words = np.random.default_rng(seed), np.array([f"w{i}" for i in range(20)])
    rows, labels = random.choice(words, (n, length)), random.integers(0, 2, n)
    told = random.random((n, length)) < 0.1
    rows = np.where(told, np.where(labels, "sun", "moon")[:, None], rows)
    return [" ".join(row) for row in rows], labels


def test_with_windows_that_hold_all_it_is_the_transformer():
    X, y = texts(12, 20)
    options = OPTIONS | {"window": 32, "batch_size": 4, "epochs": 2, "dtype": "float64"}
    for span in (WindowSpan(back=32, anchors=0), WindowSpan(back=0, anchors=32), "full"):
        ours = gnomon.Longformer(**options, span=span).fit(X, y)
        peer = gnomon.TransformerClassifier(**options).fit(X, y)
        np.testing.assert_allclose(ours.predict_proba(X), peer.predict_proba(X), rtol=1e-9)
    narrow = gnomon.Longformer(**options, span=WindowSpan(back=2, anchors=0)).fit(X, y)
    assert not np.allclose(narrow.predict_proba(X), peer.predict_proba(X))


def test_long_texts_are_told_apart():
    """All of 30 held-out texts of 150 words, by chance once in 10^9."""
    X, y = texts(90, 150)
    span = MixedSpan(windows=(4, 4), dilations=(1, 8), anchors=1)
    fitted = gnomon.Longformer(**OPTIONS | {"n_layers": 1}, window=152, span=span, epochs=6, learning_rate=0.01)
    assert (fitted.fit(X[:60], y[:60]).predict(X[60:]) == y[60:]).all()


@pytest.mark.spec("NLP-58", "NLP-61")
@pytest.mark.parametrize("span", [WindowSpan(back=4, anchors=1), MixedSpan((4,), (1, 4), anchors=1)])
def test_no_square_is_written_out(span, monkeypatch):
    """Queries times keys of the largest product of a text of 3000 tokens, beside blocks, windows and one global row."""
    sizes = []
    fused = attention_engine._fused

    def noted(q, k, *more):
        sizes.append(q.shape[-2] * k.shape[-2])
        return fused(q, k, *more)

    monkeypatch.setattr(attention_engine, "_fused", noted)
    X, y = texts(4, 2998)
    fitted = gnomon.Longformer(**OPTIONS, span=span, window=3000, batch_size=2, epochs=1).fit(X, y)
    assert fitted.model_.encoder.span == span.of(2) and max(sizes) <= 128 * (128 + 8 + 1)
    assert np.isfinite(fitted.predict_proba(X)).all()


def test_a_span_that_does_not_fit_is_refused():
    X, y = texts(4, 5)
    with pytest.raises(UserValueError, match="windows must be as many as the heads, 2, or divide them, got 3"):
        gnomon.Longformer(**OPTIONS, span=MixedSpan(windows=(1, 2, 3))).fit(X, y)
    assert torch.is_tensor(gnomon.Longformer(**OPTIONS, epochs=1).fit(X, y).model_.encoder.tokens.weight)
