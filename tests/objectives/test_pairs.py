"""Losses of pairs, triplets and masked entries: numbers of the rows, torch beside them, gradients, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from gnomon.errors import UserValueError
from gnomon.objectives import pairs
from gnomon.objectives.criterion import Criterion
from gnomon.objectives.pairs import (
    BayesianRanking,
    CosineEmbedding,
    MarginRanking,
    MaskedBinaryCrossEntropy,
    TripletMargin,
)
from gnomon.recipes.recipe import shorts

RANDOM = np.random.default_rng(0)
A, P, N = (torch.from_numpy(RANDOM.normal(size=(7, 4))) for _ in range(3))
SIGN = torch.from_numpy(RANDOM.choice([-1.0, 1.0], 7))
LABELS, MASK = (torch.from_numpy((RANDOM.random((7, 4)) < 0.6).astype(float)) for _ in range(2))
WEIGHT = torch.from_numpy(RANDOM.uniform(0.2, 2.0, 7))


def double(*values):
    return torch.tensor(values, dtype=torch.float64)


NUMBERS = [
    pytest.param(MarginRanking(0.1), (double(1), double(1.5), double(1)), 0.6, 1e-12,
                 marks=pytest.mark.spec("DLN-24"), id="in the wrong order"),
    pytest.param(MarginRanking(0.1), (double(2), double(1), double(1)), 0.0, 0,
                 marks=pytest.mark.spec("DLN-24"), id="in the right order"),
    pytest.param(MarginRanking(0.1), (double(2), double(1), double(-1)), 1.1, 1e-12,
                 marks=pytest.mark.spec("DLN-24"), id="the other sign"),
    pytest.param(TripletMargin(6.0), (double([0, 0]), double([3, 4]), double([6, 8])), 1.0, 1e-5,
                 marks=pytest.mark.spec("DLN-25"), id="triplet"),
    pytest.param(TripletMargin(6.0, p=1.0), (double([0, 0]), double([3, 4]), double([6, 8])), 0.0, 1e-5,
                 marks=pytest.mark.spec("DLN-25"), id="triplet, 1-norm"),
    pytest.param(TripletMargin(6.0, swap=True), (double([0, 0]), double([3, 4]), double([6, 4])), 8.0, 1e-5,
                 marks=pytest.mark.spec("DLN-25"), id="triplet, the positive is nearer to the negative"),
    pytest.param(TripletMargin(0.7), (double([2, 2]), double([2, 2]), double([2, 2])), 0.7, 1e-12,
                 marks=pytest.mark.spec("DLN-25"), id="collapsed"),
    pytest.param(BayesianRanking(), (double(2), double(1)), 0.313262, 5.1e-7,
                 marks=pytest.mark.spec("DLN-244"), id="preferred"),
    pytest.param(BayesianRanking(), (double(3), double(3)), np.log(2), 1e-12,
                 marks=pytest.mark.spec("DLN-244"), id="equal scores"),
    pytest.param(CosineEmbedding(), (double([1, 0]), double([1, 1]), double(1)), 0.292893, 5.1e-7,
                 marks=pytest.mark.spec("DLN-26"), id="alike"),
    pytest.param(CosineEmbedding(0.5), (double([1, 0]), double([1, 1]), double(-1)), 0.207107, 5.1e-7,
                 marks=pytest.mark.spec("DLN-26"), id="unlike"),
    pytest.param(CosineEmbedding(0.8), (double([1, 0]), double([1, 1]), double(-1)), 0.0, 0,
                 marks=pytest.mark.spec("DLN-26"), id="unlike enough"),
    pytest.param(MaskedBinaryCrossEntropy(), (double([1, -2, 0.5]), double([1, 0, 1]), double([1, 1, 0])), 0.220095,
                 5.1e-7, marks=pytest.mark.spec("DLN-27"), id="masked"),
]  # fmt: skip


@pytest.mark.parametrize(("loss", "inputs", "expected", "tolerance"), NUMBERS)
def test_numbers_of_the_rows(loss, inputs, expected, tolerance):
    inputs = [t[None] if t.ndim == 1 and t.shape != (1,) else t for t in inputs]
    assert loss(*inputs).item() == pytest.approx(expected, abs=tolerance)


def masked(z, y, m, reduction):
    """Entries of every row, weighted by the mask, over all entries."""
    total = functional.binary_cross_entropy_with_logits(z, y, weight=m, reduction="sum")
    return total if reduction == "sum" else total / m.sum()


def difference(first, second, reduction):
    """Binary cross-entropy of the difference, whose label is that the first is preferred."""
    return functional.binary_cross_entropy_with_logits(first - second, torch.ones_like(first), reduction=reduction)


PARITY = {
    "ranking": (BayesianRanking(), (A[:, 0], P[:, 0]), difference, {}, "DLN-244"),
    "margin": (MarginRanking(0.3), (A[:, 0], P[:, 0], SIGN), functional.margin_ranking_loss, {"margin": 0.3}, "DLN-24"),
    "triplet": (TripletMargin(0.6), (A, P, N), functional.triplet_margin_loss, {"margin": 0.6}, "DLN-25"),
    "triplet, p and swap": (
        TripletMargin(2.0, 3.0, True), (A, P, N), functional.triplet_margin_loss,
        {"margin": 2.0, "p": 3.0, "swap": True}, "DLN-25"),
    "cosine": (CosineEmbedding(0.2), (A, P, SIGN), functional.cosine_embedding_loss, {"margin": 0.2}, "DLN-26"),
    "masked": (MaskedBinaryCrossEntropy("entries"), (A, LABELS, MASK), masked, {}, "DLN-27"),
}  # fmt: skip
CASES = [pytest.param(*case[:4], id=name, marks=pytest.mark.spec(case[4])) for name, case in PARITY.items()]


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize(("loss", "inputs", "theirs", "options"), CASES)
def test_torchs_losses(loss, inputs, theirs, options, reduction):
    expected = theirs(*inputs, reduction=reduction, **options).item()
    assert loss(*inputs, reduction=reduction).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("loss", "inputs", "theirs", "options"), CASES)
def test_terms_of_parts_add_up_and_gradients_are_finite_differences(loss, inputs, theirs, options):
    name = loss.short.replace("-", "_")
    parts = [loss.terms(*(x[s] for x in inputs), weight=WEIGHT[s])[name] for s in (slice(0, 3), slice(3, 7))]
    mean = sum(float(part.sum) for part in parts) / sum(part.weight for part in parts)
    assert mean == pytest.approx(loss(*inputs, weight=WEIGHT).item(), rel=1e-12)
    call = lambda x: loss.terms(x, *inputs[1:], weight=WEIGHT)[name].sum  # noqa: E731
    assert torch.autograd.gradcheck(call, inputs[0].clone().requires_grad_(), eps=1e-6, atol=1e-7)


@pytest.mark.spec("DLN-27")
def test_a_row_is_the_mean_over_its_own_valid_entries():
    found = MaskedBinaryCrossEntropy()(A, LABELS, MASK, reduction="none")
    for z, y, m, value in zip(A, LABELS, MASK, found, strict=True):
        assert value.item() == pytest.approx(masked(z, y, m, "mean").item() if m.any() else 0, rel=1e-13)
    halved = MaskedBinaryCrossEntropy()(A[:, :2], LABELS[:, :2], torch.ones(7, 2), reduction="none")
    padded = torch.cat([torch.ones(7, 2), torch.zeros(7, 2)], 1)  # a longer row of the same entries
    np.testing.assert_allclose(MaskedBinaryCrossEntropy()(A, LABELS, padded, reduction="none"), halved, rtol=1e-13)


@pytest.mark.spec("DLN-27")
@pytest.mark.parametrize("average", ["rows", "entries"])
def test_masked_entries_have_no_gradient_and_empty_rows_count_for_nothing(average):
    mask = MASK.clone()
    mask[2] = 0
    z = A.clone()
    z[2] = math.nan  # nothing that is masked may matter
    z[0, mask[0] == 0] = math.inf
    z.requires_grad_()
    loss = MaskedBinaryCrossEntropy(average)
    term = loss.terms(z, LABELS, mask)["masked_binary"]
    term.sum.backward()
    assert (z.grad[mask == 0] == 0).all() and (z.grad[mask == 1] != 0).all()
    assert term.weight == (mask.any(1).sum() if average == "rows" else mask.sum())
    with pytest.raises(UserValueError, match="every row is ignored"):
        loss(A, LABELS, 0 * mask)


@pytest.mark.spec("DLN-25")
def test_equal_embeddings_have_a_finite_gradient():
    x = double([1, 2], [3, 4]).requires_grad_()
    TripletMargin()(x, x.detach(), x.detach()).backward()
    assert x.grad.isfinite().all()


@pytest.mark.spec("DLN-26")
@pytest.mark.parametrize(("sign", "expected"), [(1.0, 1.0), (-1.0, 0.0)])
def test_a_zero_vector_has_cosine_zero_and_a_finite_gradient(sign, expected):
    x = torch.zeros(1, 3, dtype=torch.float64).requires_grad_()
    loss = CosineEmbedding()(x, torch.ones(1, 3, dtype=torch.float64), double(sign))
    loss.backward()
    assert loss.item() == pytest.approx(expected) and x.grad.isfinite().all()


REFUSED = [
    (MarginRanking(), (A[:, 0], P[:, 0], 0 * SIGN), r"y must be 1 or -1, got 0 \(row 0\)", "DLN-24"),
    (MarginRanking(), (A[:, 0], P[:, 0], SIGN[:, None]), r"must have one shape, got \(7,\) and \(7, 1\)", "DLN-24"),
    (MarginRanking(-1.0), (A[:, 0], P[:, 0], SIGN), r"\[0, inf\)", "DLN-24"),
    (TripletMargin(), (A, P, N[:1]), r"inputs must have one shape, got \(7, 4\) and \(1, 4\)", "DLN-25"),
    (TripletMargin(0.0), (A, P, N), r"\(0, inf\)", "DLN-25"),
    (TripletMargin(p=0.5), (A, P, N), r"\[1, inf\)", "DLN-25"),
    (CosineEmbedding(), (A, P, 2 * SIGN), "y must be 1 or -1", "DLN-26"),
    (CosineEmbedding(1.5), (A, P, SIGN), r"\[-1, 1\]", "DLN-26"),
    (CosineEmbedding(), (A, P, SIGN[:3]), r"inputs must have one shape, got \(7,\) and \(3,\)", "DLN-26"),
    (MaskedBinaryCrossEntropy(), (A, LABELS, MASK + 1), r"mask must be 0 or 1, got 2 \(row \d, column \d\)", "DLN-27"),
    (MaskedBinaryCrossEntropy(), (A, LABELS - 1, MASK), "label must be 0 or 1, got -1", "DLN-27"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("loss", "inputs", "words"),
    [pytest.param(*c[:3], marks=pytest.mark.spec(c[3]), id=f"{k} {c[0].short}") for k, c in enumerate(REFUSED)],
)
def test_what_has_no_meaning_is_refused_with_its_place(loss, inputs, words):
    with pytest.raises(UserValueError, match=words):
        loss(*inputs)


def test_every_recipe_has_a_short_name():
    assert {getattr(pairs, name).short for name in pairs.__all__} < set(shorts(Criterion))
