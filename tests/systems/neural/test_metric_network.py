"""The network that learns distances: which rows are compared, the loss by hand, what it learns, by every pair loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, load_iris

from gnomon.errors import UserValueError
from gnomon.objectives.pairs import (
    BayesianRanking,
    CosineEmbedding,
    MarginRanking,
    MaskedBinaryCrossEntropy,
    TripletMargin,
)
from gnomon.systems.neural.metric_network import MetricNetwork
from gnomon.training.group import Group

RANDOM = np.random.default_rng(0)
POINTS = RANDOM.normal(size=(9, 3))
CODES = np.array([0, 1, 0, 2, 1, 0, 1, 3, 0])


def hardest(i: int) -> tuple[int, int]:
    """The farthest row of the class and the nearest of the others, one pair after the other."""
    gaps = np.sqrt(((POINTS - POINTS[i]) ** 2).sum(1))
    alike = [j for j in range(9) if CODES[j] == CODES[i]]
    other = [j for j in range(9) if CODES[j] != CODES[i]]
    return max(alike, key=lambda j: gaps[j]), min(other, key=lambda j: gaps[j])


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def by_hand(loss: Any, i: int) -> float:
    x, (p, n) = POINTS[i], hardest(i)
    if isinstance(loss, TripletMargin):
        near, far = (np.linalg.norm(x - POINTS[j] + 1e-6) for j in (p, n))
        return float(max(0, loss.margin + near - far))
    if isinstance(loss, MarginRanking):
        return max(0, loss.margin - cosine(x, POINTS[p]) + cosine(x, POINTS[n]))
    if isinstance(loss, BayesianRanking):
        return float(np.logaddexp(0, cosine(x, POINTS[n]) - cosine(x, POINTS[p])))
    if isinstance(loss, CosineEmbedding):
        return 1 - cosine(x, POINTS[p]) + max(0, cosine(x, POINTS[n]) - loss.margin)
    others = [j for j in range(9) if j != i]
    signs = np.array([1 if CODES[j] == CODES[i] else -1 for j in others])
    return float(np.logaddexp(0, -signs * (POINTS[others] @ x)).mean())


@pytest.mark.parametrize(
    "loss",
    [TripletMargin(0.7), MarginRanking(0.3), BayesianRanking(), CosineEmbedding(0.1), MaskedBinaryCrossEntropy()],
    ids=repr,
)
def test_each_row_is_compared_with_its_hardest_rows(loss: Any) -> None:
    """Row 3 and row 7 are alone in their classes and are their own positives."""
    weight = RANDOM.uniform(0.5, 2, size=9)
    inputs = loss.inputs(torch.from_numpy(POINTS), torch.from_numpy(CODES), Group())
    (term,) = loss.terms(*inputs, weight=torch.from_numpy(weight)).values()
    expected = sum(w * by_hand(loss, i) for i, w in enumerate(weight))
    assert float(term.sum) == pytest.approx(expected, rel=1e-6)
    comparisons = 2 if isinstance(loss, CosineEmbedding) else 1
    assert term.weight == pytest.approx(comparisons * weight.sum(), rel=1e-12)


def test_a_batch_of_one_class_has_no_negative() -> None:
    """A row is its own: what is left draws the class together."""
    points = torch.from_numpy(POINTS[:2])
    anchor, positive, negative = TripletMargin().inputs(points, torch.tensor([4, 4]), Group())
    assert torch.equal(positive, points[[1, 0]]) and torch.equal(negative, anchor)


class Half(Group):
    """The second of two processes, of which the first has rows 0 to 3."""

    def __init__(self) -> None:
        super().__init__(1, 2)

    def gather(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape == (1,):
            return torch.tensor([4, 5])
        first = torch.from_numpy(POINTS[:4] if x.ndim == 2 else CODES[:4])
        return torch.cat([first.to(x.dtype), x])


@pytest.mark.parametrize("loss", [TripletMargin(), MaskedBinaryCrossEntropy()], ids=repr)
def test_a_process_compares_its_rows_with_those_of_all(loss: Any) -> None:
    whole = loss.rows(*loss.inputs(torch.from_numpy(POINTS), torch.from_numpy(CODES), Group()))[0]
    part = loss.rows(*loss.inputs(torch.from_numpy(POINTS[4:]), torch.from_numpy(CODES[4:]), Half()))[0]
    torch.testing.assert_close(part, whole[4:], rtol=1e-12, atol=0)


@pytest.mark.parametrize("loss", ["triplet", "margin-ranking", "bpr", "cosine", "masked-binary"])
def test_every_pair_loss_brings_neighbors_of_one_class_together(loss: str) -> None:
    """Held-out digits by their nearest row, in four coordinates: better than the untrained network's."""
    X, y = load_digits(return_X_y=True)
    options: dict[str, Any] = {"n_components": 4, "hidden": (32,), "random_state": 0, "learning_rate": 0.01}
    options |= {"loss": MarginRanking(0.5)} if loss == "margin-ranking" else {"loss": loss}
    trained = MetricNetwork(epochs=8, **options).fit(X[:600], y[:600])
    begun = MetricNetwork(max_updates=1, **options | {"learning_rate": 1e-9}).fit(X[:600], y[:600])
    assert trained.score(X[600:1000], y[600:1000]) > begun.score(X[600:1000], y[600:1000]) + 0.1


def test_neighbors_are_other_rows() -> None:
    """By brute force, rows that occur twice among them."""
    X, y = load_iris(return_X_y=True)
    net = MetricNetwork(hidden=(4,), epochs=2, random_state=0).fit(X, y)
    places = net.transform(X)
    gaps = ((places[:, None] - places) ** 2).sum(2)
    np.fill_diagonal(gaps, np.inf)
    least = gaps.min(1)
    sure = np.array([len(set(y[row <= best + 1e-12])) == 1 for row, best in zip(gaps, least, strict=True)])
    found = net.evaluate(X, y)["neighbor_accuracy"].value
    right = (y[gaps.argmin(1)] == y)[sure].sum()
    assert right - 1e-9 <= found * len(y) <= right + (~sure).sum() + 1e-9


def test_one_class_has_no_distances() -> None:
    with pytest.raises(UserValueError, match="at least 2 classes"):
        MetricNetwork().fit(np.eye(3), [1, 1, 1])
