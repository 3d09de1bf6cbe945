"""Losses of outputs against targets: numbers of the rows, torch beside them, gradients, reductions, refusals."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import scipy.special
import torch
from torch.nn import functional

from gnomon.data.batches import Batch
from gnomon.errors import UserTypeError, UserValueError
from gnomon.nn.module import Module
from gnomon.numeric.noise import Noise
from gnomon.objectives import losses
from gnomon.objectives.criterion import Criterion
from gnomon.objectives.losses import (
    AbsoluteError,
    BinaryCrossEntropy,
    CrossEntropyLoss,
    Focal,
    Huber,
    NegativeLogLikelihood,
    ProbabilityCrossEntropy,
    SmoothL1,
    SquaredError,
    cross_entropy_backward,
)  # fmt: skip
from gnomon.objectives.supervised import Supervised
from gnomon.recipes.recipe import resolve, shorts
from gnomon.training.group import Group

RANDOM = np.random.default_rng(0)
SCORES = torch.from_numpy(RANDOM.normal(size=(7, 4), scale=2))
CLASSES = torch.from_numpy(RANDOM.integers(0, 4, 7))
SOFT = torch.from_numpy(RANDOM.dirichlet(np.ones(4), 7))
LABELS = torch.from_numpy((RANDOM.random((7, 4)) < 0.4).astype(float))
REALS = torch.from_numpy(RANDOM.normal(size=(7, 4), scale=3))
WEIGHT = torch.from_numpy(RANDOM.uniform(0.2, 2.0, 7))
CLASS_WEIGHT = (0.5, 2.0, 1.0, 3.0)


def double(*values):
    return torch.tensor(values, dtype=torch.float64)


# --- numbers that the rows state ------------------------------------------------------------------------------------

NUMBERS = [
    pytest.param(CrossEntropyLoss(), double([1, 2, 3]), torch.tensor([2]), 0.4076060,
                 marks=pytest.mark.spec("NLP-06"), id="cross-entropy"),
    pytest.param(CrossEntropyLoss(), double([1, 2, 3]), double([0, 0, 1]), 0.4076060,
                 marks=pytest.mark.spec("NLP-06"), id="cross-entropy one-hot"),
    pytest.param(BinaryCrossEntropy("probabilities"), double(0.8), double(1), 0.223144,
                 marks=pytest.mark.spec("DLN-20"), id="binary, label 1"),
    pytest.param(BinaryCrossEntropy("probabilities"), double(0.8), double(0), 1.609438,
                 marks=pytest.mark.spec("DLN-20"), id="binary, label 0"),
    pytest.param(SmoothL1(), double(0.5), double(0), 0.125, marks=pytest.mark.spec("DLN-22"), id="smooth inside"),
    pytest.param(SmoothL1(2.0), double(0.5), double(0), 0.0625, marks=pytest.mark.spec("DLN-22"), id="smooth beta 2"),
    pytest.param(SmoothL1(), double(3), double(0), 2.5, marks=pytest.mark.spec("DLN-22"), id="smooth outside"),
    pytest.param(SmoothL1(2.0), double(0), double(3), 2.0, marks=pytest.mark.spec("DLN-22"), id="smooth outside 2"),
    pytest.param(ProbabilityCrossEntropy(), double([0.1, 0.9]), double([0.5, 0.5]), 1.203973,
                 marks=pytest.mark.spec("DLN-19"), id="soft target"),
    pytest.param(SquaredError(), double(1.5, 2.0), double(1.0, 4.0), (0.25 + 4) / 4,
                 marks=pytest.mark.spec("DLN-28"), id="squared"),
]  # fmt: skip


@pytest.mark.parametrize(("loss", "outputs", "targets", "expected"), NUMBERS)
def test_numbers_of_the_rows(loss, outputs, targets, expected):
    outputs, targets = (t[None] if t.ndim == 0 else t for t in (outputs, targets))
    if outputs.shape[0] == 1 and outputs.ndim == 1 and isinstance(loss, CrossEntropyLoss | ProbabilityCrossEntropy):
        outputs, targets = outputs[None], targets[None]
    assert loss(outputs, targets).item() == pytest.approx(expected, abs=5.1e-7)


@pytest.mark.spec("DLN-23")
def test_class_weights_divide_the_mean():
    log_p = double([0.7, 0.3], [0.2, 0.8], [0.5, 0.5]).log()
    loss, classes = NegativeLogLikelihood((1.0, 3.0)), torch.tensor([0, 1, 0])
    assert loss(log_p, classes, reduction="sum").item() == pytest.approx(1.719253, abs=5e-7)
    assert loss(log_p, classes).item() == pytest.approx(0.343851, abs=5e-7)
    assert loss.terms(log_p, classes)["nll"].weight == 5.0


# --- torch's losses -------------------------------------------------------------------------------------------------

LOG_P = torch.log_softmax(SCORES, 1)
UNIT = torch.sigmoid(SCORES)
PARITY = {
    "cross-entropy": (CrossEntropyLoss(), SCORES, CLASSES, functional.cross_entropy, ("NLP-06", "DLN-18")),
    "cross-entropy of soft targets": (CrossEntropyLoss(), SCORES, SOFT, functional.cross_entropy, ("NLP-06",)),
    "cross-entropy, padding ignored": (
        CrossEntropyLoss(ignore_index=1), SCORES, CLASSES,
        lambda *a, **k: functional.cross_entropy(*a, ignore_index=1, **k), ("NLP-06", "DLN-18")),
    "cross-entropy, padding of -1": (
        CrossEntropyLoss(ignore_index=-1), SCORES, CLASSES.where(CLASSES > 0, -1),
        lambda *a, **k: functional.cross_entropy(*a, ignore_index=-1, **k), ("NLP-06",)),
    "cross-entropy with class weights": (
        CrossEntropyLoss(CLASS_WEIGHT), SCORES, CLASSES,
        lambda *a, **k: functional.cross_entropy(*a, weight=double(*CLASS_WEIGHT), **k), ("DLN-23", "DLN-18")),
    "cross-entropy with smoothing, padding ignored": (
        CrossEntropyLoss(ignore_index=1, smoothing=0.3), SCORES, CLASSES,
        lambda *a, **k: functional.cross_entropy(*a, ignore_index=1, label_smoothing=0.3, **k), ("DLN-18",)),
    "cross-entropy with class weights, padding ignored": (
        CrossEntropyLoss(CLASS_WEIGHT, 3), SCORES, CLASSES,
        lambda *a, **k: functional.cross_entropy(*a, weight=double(*CLASS_WEIGHT), ignore_index=3, **k), ("DLN-18",)),
    "cross-entropy with smoothing": (
        CrossEntropyLoss(smoothing=0.2), SCORES, CLASSES,
        lambda *a, **k: functional.cross_entropy(*a, label_smoothing=0.2, **k), ("DLN-18",)),
    "nll": (NegativeLogLikelihood(), LOG_P, CLASSES, functional.nll_loss, ("DLN-23",)),
    "nll with class weights, one ignored": (
        NegativeLogLikelihood(CLASS_WEIGHT, 2), LOG_P, CLASSES,
        lambda *a, **k: functional.nll_loss(*a, weight=double(*CLASS_WEIGHT), ignore_index=2, **k), ("DLN-23",)),
    "binary of logits": (
        BinaryCrossEntropy(), SCORES[:, 0], LABELS[:, 0], functional.binary_cross_entropy_with_logits, ("DLN-20",)),
    "binary with a positive weight": (
        BinaryCrossEntropy(positive_weight=3.0), SCORES[:, 0], LABELS[:, 0],
        lambda *a, **k: functional.binary_cross_entropy_with_logits(*a, pos_weight=double(3.0), **k), ("DLN-20",)),
    "binary of probabilities": (
        BinaryCrossEntropy("probabilities"), UNIT[:, 0], LABELS[:, 0], functional.binary_cross_entropy, ("DLN-20",)),
    "binary of soft labels": (
        BinaryCrossEntropy(), SCORES[:, 0], SOFT[:, 0], functional.binary_cross_entropy_with_logits, ("DLN-20",)),
    "smooth l1": (SmoothL1(0.7), SCORES, REALS, partial(functional.smooth_l1_loss, beta=0.7), ("DLN-22",)),
    "huber": (Huber(0.7), SCORES, REALS, partial(functional.huber_loss, delta=0.7), ("DLN-22",)),
    "squared": (SquaredError(half=False), SCORES, REALS, functional.mse_loss, ("DLN-28", "LIN-02")),
    "absolute": (AbsoluteError(), SCORES, REALS, functional.l1_loss, ()),
}  # fmt: skip


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize(
    ("loss", "outputs", "targets", "theirs"),
    [pytest.param(*case[:4], id=name, marks=pytest.mark.spec(*case[4])) for name, case in PARITY.items()],
)
def test_torchs_reductions(loss, outputs, targets, theirs, reduction):
    expected = theirs(outputs, targets, reduction=reduction)
    assert loss(outputs, targets, reduction=reduction).item() == pytest.approx(expected.item(), rel=1e-13)
    each = loss(outputs, targets, reduction="none")
    assert each.shape == (7,)
    assert each.sum().item() == pytest.approx(theirs(outputs, targets, reduction="sum").item(), rel=1e-13)


@pytest.mark.parametrize(
    ("loss", "outputs", "targets"), [pytest.param(*case[:3], id=name) for name, case in PARITY.items()]
)
def test_terms_of_parts_add_up_to_the_mean_of_the_whole(loss, outputs, targets):
    """Weights of rows count in both sums; two processes with 3 and 4 rows have the loss of one."""
    (name,) = loss.terms(outputs, targets)
    assert name == loss.short.replace("-", "_")
    parts = [loss.terms(outputs[s], targets[s], weight=WEIGHT[s])[name] for s in (slice(0, 3), slice(3, 7))]
    mean = sum(float(part.sum) for part in parts) / sum(part.weight for part in parts)
    assert mean == pytest.approx(loss(outputs, targets, weight=WEIGHT).item(), rel=1e-13)
    twice = torch.arange(7).repeat_interleave(torch.tensor([1, 2, 1, 1, 3, 1, 1]))
    repeated = loss(outputs[twice], targets[twice]).item()
    assert loss(outputs, targets, weight=double(1, 2, 1, 1, 3, 1, 1)).item() == pytest.approx(repeated, rel=1e-13)
    assert type(parts[0].weight) is float


@pytest.mark.parametrize(
    ("loss", "outputs", "targets"),
    [pytest.param(*case[:3], id=name, marks=pytest.mark.spec(*case[4])) for name, case in PARITY.items()],
)
def test_gradients_agree_with_finite_differences(loss, outputs, targets):
    """Outputs here lie away from the kinks."""
    x = outputs.clone().requires_grad_()
    call = lambda x: loss.terms(x, targets, weight=WEIGHT)[loss.short.replace("-", "_")].sum  # noqa: E731
    assert torch.autograd.gradcheck(call, x, eps=1e-6, atol=1e-7)


# --- identities -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("DLN-19")
def test_cross_entropy_on_probabilities_is_the_one_on_scores_after_softmax():
    p, one_hot = torch.softmax(SCORES, 1), functional.one_hot(CLASSES, 4).double()
    assert ProbabilityCrossEntropy()(p, one_hot).item() == pytest.approx(
        CrossEntropyLoss()(SCORES, CLASSES).item(), rel=1e-13
    )
    plain, scaled = (ProbabilityCrossEntropy(normalize_by_classes=n)(p, SOFT).item() for n in (False, True))
    assert plain == pytest.approx(-(SOFT * p.log()).sum(1).mean().item(), rel=1e-13)
    assert scaled == pytest.approx(plain / 4, rel=1e-13)


@pytest.mark.spec("DLN-19")
def test_outputs_of_other_classes_get_no_gradient_without_the_softmax():
    z = SCORES.clone().requires_grad_()
    ProbabilityCrossEntropy().terms(torch.sigmoid(z), functional.one_hot(CLASSES, 4).double())[
        "probability_cross_entropy"
    ].sum.backward()
    assert ((z.grad != 0).sum(1) == 1).all() and z.grad.gather(1, CLASSES[:, None]).all()


@pytest.mark.spec("DLN-19")
def test_zero_probability_is_minus_infinity_only_where_the_target_has_mass():
    p = double([0.0, 1.0], [0.0, 1.0])
    found = ProbabilityCrossEntropy().rows(p, double([0, 1], [1, 0]))[0]
    assert found.tolist() == [0, math.inf]


@pytest.mark.spec("DLN-20")
def test_logits_and_probabilities_agree_and_the_gradient_is_sigmoid_minus_label():
    z = SCORES[:, 0].clone().requires_grad_()
    loss = BinaryCrossEntropy()(z, SOFT[:, 0], reduction="sum")
    expected = BinaryCrossEntropy("probabilities")(torch.sigmoid(z), SOFT[:, 0], reduction="sum")
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    loss.backward()
    np.testing.assert_allclose(z.grad, scipy.special.expit(z.detach().numpy()) - SOFT[:, 0].numpy(), rtol=1e-12)


@pytest.mark.spec("DLN-20")
def test_far_logits_stay_finite_and_sure_probabilities_are_kept_at_100_nats():
    z = torch.tensor([1e4, -1e4, 1e4, -1e4])
    found = BinaryCrossEntropy()(z, torch.tensor([1.0, 0.0, 0.0, 1.0]), reduction="none")
    assert found.tolist() == [0, 0, 1e4, 1e4]
    sure = BinaryCrossEntropy("probabilities")(double(0.0, 1.0), double(1.0, 1.0), reduction="none")
    assert sure.tolist() == [100, 0]


@pytest.mark.spec("DLN-21")
def test_several_labels_are_the_sum_of_their_losses_and_the_mean_is_over_rows():
    loss = BinaryCrossEntropy()
    each = sum(loss(SCORES[:, k], LABELS[:, k], reduction="none") for k in range(4))
    np.testing.assert_allclose(loss(SCORES, LABELS, reduction="none"), each, rtol=1e-13)
    torchs = functional.binary_cross_entropy_with_logits(SCORES, LABELS)  # over labels too
    assert loss(SCORES, LABELS).item() == pytest.approx(4 * torchs.item(), rel=1e-13)


@pytest.mark.spec("DLN-21")
def test_raising_one_logit_leaves_the_other_labels_alone():
    z = SCORES.clone().requires_grad_()
    raised = SCORES.clone()
    raised[:, 2] += 1.0
    gradients = []
    for values, loss in ((z, BinaryCrossEntropy()), (raised.requires_grad_(), BinaryCrossEntropy())):
        gradients += torch.autograd.grad(loss(values, LABELS, reduction="sum"), values)
    others = [0, 1, 3]
    assert torch.equal(gradients[0][:, others], gradients[1][:, others])
    softmax = [torch.autograd.grad(CrossEntropyLoss()(v, CLASSES, reduction="sum"), v)[0] for v in (z, raised)]
    assert (softmax[0][:, others] != softmax[1][:, others]).all()


@pytest.mark.spec("DLN-22")
def test_smooth_l1_in_its_limits():
    d = double(-5, -2, -1, -0.3, 0, 0.3, 1, 2, 5)
    zero = 0 * d
    each = lambda loss: loss(d, zero, reduction="none")  # noqa: E731
    np.testing.assert_array_equal(each(SmoothL1(0.0)), d.abs())
    np.testing.assert_allclose(each(SmoothL1(1e-9)), d.abs(), atol=1e-9)
    np.testing.assert_allclose(each(SmoothL1(100.0)), d**2 / 200, rtol=1e-14)
    np.testing.assert_allclose(each(Huber(2.0)), 2 * each(SmoothL1(2.0)), rtol=1e-14)


@pytest.mark.spec("DLN-22")
@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_value_and_slope_of_smooth_l1_are_continuous_at_beta(beta):
    d = double(beta * (1 - 1e-9), beta * (1 + 1e-9)).requires_grad_()
    values = SmoothL1(beta)(d, 0 * d.detach(), reduction="none")
    values.sum().backward()
    np.testing.assert_allclose(values.detach(), beta / 2, rtol=1e-8)
    np.testing.assert_allclose(d.grad, 1, rtol=1e-8)


@pytest.mark.spec("DLN-22")
def test_smooth_l1_without_a_parabola_has_a_finite_gradient_at_zero():
    d = double(0.0).requires_grad_()
    SmoothL1(0.0)(d, double(0.0)).backward()
    assert d.grad.tolist() == [0]


@pytest.mark.spec("DLN-28", "LIN-02")
def test_the_squared_error_is_half_of_torchs_and_its_gradient_the_difference():
    outputs = SCORES[:, 0].clone().requires_grad_()
    loss = SquaredError()(outputs, REALS[:, 0], reduction="sum")
    loss.backward()
    assert loss.item() == pytest.approx(functional.mse_loss(outputs, REALS[:, 0], reduction="sum").item() / 2)
    np.testing.assert_allclose(outputs.grad, (outputs - REALS[:, 0]).detach(), rtol=1e-14)


@pytest.mark.spec("NLP-15")
def test_the_gradient_of_the_row():
    found = cross_entropy_backward(double([1, 2, 3]), torch.tensor([2]))[0]
    np.testing.assert_allclose(found, [0.0900306, 0.2447285, -0.3347590], atol=5.1e-8)
    assert abs(found.sum().item()) < 1e-15


@pytest.mark.spec("NLP-15", "LIN-13")
@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("targets", [CLASSES, SOFT], ids=["classes", "soft"])
def test_the_gradient_is_softmax_minus_target(targets, reduction):
    """Of torch's differentiation and of finite differences; divided by n only where the loss is a mean."""
    z = SCORES.clone().requires_grad_()
    CrossEntropyLoss()(z, targets, reduction=reduction).backward()
    found = cross_entropy_backward(SCORES, targets, reduction=reduction)
    np.testing.assert_allclose(found, z.grad, atol=1e-15)
    up, down = SCORES.clone(), SCORES.clone()
    up[3, 1] += 1e-6
    down[3, 1] -= 1e-6
    numeric = (
        CrossEntropyLoss()(up, targets, reduction=reduction) - CrossEntropyLoss()(down, targets, reduction=reduction)
    ) / 2e-6
    assert found[3, 1].item() == pytest.approx(numeric.item(), abs=1e-8)
    assert torch.equal(SCORES, z.detach())


@pytest.mark.spec("NLP-06")
def test_scores_of_ten_thousand_cost_what_they_should():
    found = CrossEntropyLoss()(torch.tensor([[1e4, -1e4], [1e4, -1e4]]), torch.tensor([0, 1]), reduction="none")
    assert found.tolist() == [0, 2e4]


# --- what is refused ------------------------------------------------------------------------------------------------

REFUSED = [
    (CrossEntropyLoss(), SCORES, CLASSES + 1, r"class must be in \[0, 4\), got 4 \(row \d\)", "NLP-06"),
    (CrossEntropyLoss(), SCORES, CLASSES - 4, r"class must be in \[0, 4\), got -\d", "NLP-06"),
    (NegativeLogLikelihood(), LOG_P, CLASSES + 4, r"class must be in \[0, 4\), got \d", "DLN-23"),
    (NegativeLogLikelihood(), -LOG_P, CLASSES, "log probability .* is above 0", "DLN-23"),
    (NegativeLogLikelihood(ignore_index=9), LOG_P, 0 * CLASSES + 9, "every row is ignored", "DLN-23"),
    (NegativeLogLikelihood((1.0, 2.0)), LOG_P, CLASSES, r"must be 4 finite numbers .*, got \(1", "DLN-23"),
    (NegativeLogLikelihood((1.0, 2.0, -1.0, 1.0)), LOG_P, CLASSES, "class_weight must be 4", "DLN-23"),
    (CrossEntropyLoss(CLASS_WEIGHT), SCORES, SOFT, "class weights do not go with soft targets", "NLP-06"),
    (CrossEntropyLoss(CLASS_WEIGHT, smoothing=0.1), SCORES, CLASSES, "with soft targets or smoothing", "DLN-18"),
    (CrossEntropyLoss(), SCORES, 2 * SOFT, r"target must (sum to 1 in every row, got 2|be in \[0, 1\])", "NLP-06"),
    (BinaryCrossEntropy(), SCORES[:, 0], LABELS[:, 0] + 0.5, r"label must be in \[0, 1\], got 1.5", "DLN-20"),
    (BinaryCrossEntropy(), SCORES, -LABELS, r"label must be in \[0, 1\], got -1 \(row \d, column \d\)", "DLN-21"),
    (BinaryCrossEntropy("probabilities"), SCORES[:, 0], LABELS[:, 0], r"prediction must be in \[0, 1\], got", "DLN-20"),
    (BinaryCrossEntropy("probabilities", 2.0), UNIT, LABELS, "a positive weight needs logits", "DLN-20"),
    (ProbabilityCrossEntropy(), UNIT, SOFT, "prediction must sum to 1 in every row, got", "DLN-19"),
    (ProbabilityCrossEntropy(), double([0, 1]), double([1, 0]), "probability 0 where the target is 1", "DLN-19"),
    (ProbabilityCrossEntropy(), double([-0.5, 1.5]), double([1, 0]), r"must be in \[0, 1\], got -0.5", "DLN-19"),
    (SmoothL1(-1.0), SCORES, REALS, r"beta must be a number in .0, inf\), got -1.0", "DLN-22"),
    (Huber(0.0), SCORES, REALS, r"\(0, inf\)", "DLN-22"),
    (CrossEntropyLoss(smoothing=1.0), SCORES, CLASSES, r"\[0, 1\)", "NLP-06"),
    (SquaredError(), SCORES[:, 0], REALS[:, :1], r"must have shape \(7,\) .*, got \(7, 1\)", "DLN-28", "LIN-02"),
    (CrossEntropyLoss(), SCORES, CLASSES[:5], r"targets must have shape \(7,\)", "NLP-06"),
    (BinaryCrossEntropy(), SCORES, LABELS[:, :1], r"targets must have shape \(7, 4\)", "DLN-21"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("loss", "outputs", "targets", "words"),
    [
        pytest.param(*case[:4], marks=pytest.mark.spec(*case[4:]), id=f"{k} {case[0].short}")
        for k, case in enumerate(REFUSED)
    ],
)
def test_what_has_no_meaning_is_refused_with_its_place(loss, outputs, targets, words):
    with pytest.raises(UserValueError, match=words):
        loss(outputs, targets)


def test_classes_that_are_no_whole_numbers_are_refused():
    with pytest.raises(UserTypeError, match="targets must be whole numbers"):
        CrossEntropyLoss()(SCORES, CLASSES.double())


def test_an_unknown_reduction_is_refused():
    with pytest.raises(UserValueError, match="reduction must be none, sum or mean, got 'avg'"):
        SquaredError()(SCORES, REALS, reduction="avg")


@pytest.mark.spec("DLN-23")
def test_ignored_rows_sum_to_nothing():
    loss = NegativeLogLikelihood(ignore_index=9)
    term = loss.terms(LOG_P, 0 * CLASSES + 9)["nll"]
    assert (float(term.sum), term.weight) == (0, 0)


# --- in a fit -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_focal_loss_by_its_formula_and_differences(gamma):
    """-w (1 - p)^gamma log p in NumPy; gradients by differences of 1e-6; gamma 0 is the weighted cross-entropy."""
    weights = (1.0, 2.0, 0.5, 3.0)
    loss, scores = Focal(weights, gamma=gamma), SCORES.clone().requires_grad_()
    p = np.exp(SCORES.numpy()) / np.exp(SCORES.numpy()).sum(1, keepdims=True)
    own = p[np.arange(7), CLASSES]
    expected = -np.array(weights)[CLASSES] * (1 - own) ** gamma * np.log(own)
    np.testing.assert_allclose(loss(scores, CLASSES, reduction="none").detach(), expected, rtol=1e-12)
    mean = (WEIGHT.numpy() * expected).sum() / (WEIGHT.numpy() * np.array(weights)[CLASSES]).sum()
    assert loss(scores, CLASSES, weight=WEIGHT).item() == pytest.approx(mean, rel=1e-12)
    assert torch.autograd.gradcheck(lambda x: loss(x, CLASSES), scores, eps=1e-6, atol=1e-8)
    if gamma == 0:
        assert mean == pytest.approx(CrossEntropyLoss(weights)(scores, CLASSES, weight=WEIGHT).item(), rel=1e-12)
    sure = torch.tensor([[0.0, 800.0]], dtype=torch.float64, requires_grad=True)
    Focal(gamma=gamma)(sure, torch.tensor([1])).backward()
    assert bool(torch.isfinite(sure.grad).all())
    assert Focal(ignore_index=9, gamma=gamma).rows(SCORES[:1], torch.tensor([9]))[0].item() == 0


class Linear(Module):
    """Scores that are X times 2."""

    def __init__(self):
        super().__init__()
        self.factor = torch.nn.Parameter(double(2.0))

    def scores(self, x):
        return x * self.factor


def test_the_objective_weighs_the_rows_of_a_batch():
    batch = Batch({"X": SCORES.numpy(), "y": LABELS.numpy()}, np.arange(7), np.arange(7), WEIGHT.numpy())
    model, objective = Linear(), Supervised(BinaryCrossEntropy())
    loss = objective(model, batch, noise=Noise(0, "fit"), phase="fit", group=Group())
    term = loss.terms["binary_cross_entropy"]
    assert term.weight == pytest.approx(WEIGHT.sum().item(), rel=1e-14)
    each = functional.binary_cross_entropy_with_logits(2 * SCORES, LABELS, reduction="none").sum(1)
    assert term.sum.item() == pytest.approx((WEIGHT @ each).item(), rel=1e-13)
    term.sum.backward()
    expected = ((torch.sigmoid(2 * SCORES) - LABELS) * SCORES).sum(1) @ WEIGHT
    assert model.factor.grad.item() == pytest.approx(expected.item(), rel=1e-12)
    assert objective.phases(model)["fit"].parameters == [model.factor]


def test_every_recipe_has_a_short_name():
    names = [name for name in losses.__all__ if name[0].isupper() and name != "Supervised"]
    assert {getattr(losses, name).short for name in names} < set(shorts(Criterion))
    assert resolve("smooth-l1", Criterion) == SmoothL1()
