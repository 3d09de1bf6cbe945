"""Accuracy, precision, recall, F-score: scikit-learn's numbers, errors by finite differences, conventions, refusals."""

import json
import math

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn import metrics

import gnomon
from gnomon.errors import UserError
from gnomon.evaluation.confusion import ConfusionMatrix, confusion_matrix
from gnomon.evaluation.decisions import (
    accuracy,
    error_rate,
    f_score,
    precision,
    precision_recall,
    recall,
    share_interval,
)  # fmt: skip
from gnomon.evaluation.score import Score
from oracles.errors import stderr_by_differences
from oracles.meters import arrays, meters, together

RARE = 1_000_000


def columns(k=4, n=200, seed=0):
    """Labels of k classes, predictions that are often right, and weights of which some are 0."""
    random = np.random.default_rng(seed)
    y = random.integers(0, k, size=n)
    predicted = np.where(random.random(n) < 0.5, y, random.integers(0, k, size=n))
    return y, predicted, random.random(n) * (random.random(n) < 0.9)


# --- accuracy -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("PRA-047")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", [int, str, float, bool])
def test_accuracy_is_scikit_learns(kind, weighted):
    y, predicted, weight = columns(k=2 if kind is bool else 4)
    y, predicted, weight = y.astype(kind), predicted.astype(kind), weight if weighted else None
    expected = metrics.accuracy_score(y, predicted, sample_weight=weight)
    right, wrong = accuracy(y, predicted, sample_weight=weight), error_rate(y, predicted, sample_weight=weight)
    assert float(right) == pytest.approx(expected, abs=1e-14)
    assert float(wrong) == pytest.approx(1 - expected, abs=1e-14)
    assert (right.higher_is_better, wrong.higher_is_better) == (True, False)
    by_rows = Score.from_pointwise(y == predicted, weight=weight)
    assert right.stderr == wrong.stderr == pytest.approx(by_rows.stderr, rel=1e-12)
    assert (right.n, right.value) == (by_rows.n, pytest.approx(by_rows.value, abs=1e-14))
    assert np.array_equal(right.pointwise, by_rows.pointwise) and np.array_equal(wrong.pointwise, 1 - by_rows.pointwise)


@pytest.mark.spec("PRA-047")
def test_a_detector_that_always_says_no():
    y = np.zeros(RARE, int)
    y[7] = 1
    assert accuracy(y, np.zeros(RARE, int)).value == 0.999999
    assert error_rate(y, np.zeros(RARE, int)).value == pytest.approx(1e-6, rel=1e-9)


@pytest.mark.spec("PRA-047")
@pytest.mark.parametrize("right", [0, 1, 9, 20])
def test_the_interval_of_a_share_is_wilsons(right):
    y = np.ones(20, int)
    score = accuracy(y, np.arange(20) < right)
    expected = binomtest(right, 20).proportion_ci(0.9, method="wilson")
    assert share_interval(score, 0.9) == pytest.approx((expected.low, expected.high), abs=1e-12)
    doubled = accuracy(y, np.arange(20) < right, sample_weight=np.full(20, 2.0))
    assert share_interval(doubled, 0.9) == pytest.approx((expected.low, expected.high), abs=1e-12)


@pytest.mark.spec("PRA-047")
def test_the_interval_holds_the_truth_where_rows_weigh_unequally():
    """1,000 samples of 80 rows: 95 %, up to 4.5 errors of the count (false-alarm rate 7e-6) and the 1 % that Wilson's
    formula may miss. Counted as 80 equal rows they would have 89 %, as half the right number 99.4 %."""
    random = np.random.default_rng(0)
    weight = random.choice([1.0, 2.0, 6.0], 80)
    held = 0
    for _ in range(1000):
        low, high = share_interval(accuracy(np.ones(80, int), random.random(80) < 0.8, sample_weight=weight))
        held += low <= 0.8 <= high
    assert 0.95 - 0.041 < held / 1000 < 0.95 + 0.041


def test_scores_of_two_systems_are_compared_row_by_row():
    y = np.zeros(400, int)
    hard = np.arange(400) % 2
    better = hard.copy()
    better[1:41:2] = 0
    a, b = accuracy(y, better), accuracy(y, hard)
    assert a.against(b) == "better"
    weight = np.ones(400)
    weight[-10:] = 0
    assert accuracy(y, better, sample_weight=weight).against(accuracy(y, hard, sample_weight=weight)) == "better"


@pytest.mark.spec("PRA-047")
@pytest.mark.parametrize(
    ("y", "predicted", "words"),
    [
        ([], [], "at least one row"),
        ([0, 1], [0], "1 labels for 2 rows"),
        ([0, 1], ["0", "1"], r"y and predicted must be of one kind, got labels 0 and .*as text or both as numbers"),
        ([[0, 1], [1, 1]], [[0, 1], [1, 0]], "1d array"),
        ([0.0, math.nan], [0.0, 1.0], "row 1"),
        (["a", None], ["a", "b"], "row 1"),
    ],
)
def test_columns_that_cannot_be_compared(y, predicted, words):
    with pytest.raises(UserError, match=words) as caught:
        accuracy(y, predicted)
    assert "\n" not in str(caught.value)


def test_whole_numbers_far_apart_and_negative():
    y, predicted = np.array([-5, 10**12, 7]), np.array([-5, 7, 7])
    matrix = confusion_matrix(y, predicted)
    assert matrix.classes.tolist() == [-5, 7, 10**12]
    assert matrix.weight.tolist() == metrics.confusion_matrix(y, predicted).tolist()
    near = confusion_matrix(np.array([-2, 3]), np.array([3, 3]))
    assert (near.classes.tolist(), near.weight.tolist()) == ([-2, 3], [[0, 1], [0, 1]])


# --- precision, recall, F -------------------------------------------------------------------------------------------


@pytest.mark.spec("PRA-050", "PRA-052")
@pytest.mark.parametrize("average", ["macro", "micro", "weighted", None])
@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_parity_with_scikit_learn_and_errors_by_differences(average, beta):
    k = 2 if average is None else 4
    y, predicted, weight = columns(k=k, n=24)
    options = {"average": average or "binary", "beta": beta, "zero_division": 0}

    def peer(which):
        return lambda w: metrics.precision_recall_fscore_support(y, predicted, sample_weight=w, **options)[which]

    ours = (
        precision(y, predicted, average=average, sample_weight=weight),
        recall(y, predicted, average=average, sample_weight=weight),
        f_score(y, predicted, beta=beta, average=average, sample_weight=weight),
    )
    for which, score in enumerate(ours):
        assert score.value == pytest.approx(peer(which)(weight), abs=1e-12)
        assert score.stderr == pytest.approx(stderr_by_differences(peer(which), weight), rel=1e-6)
        assert score.n == np.count_nonzero(weight)


@pytest.mark.spec("PRA-050", "PRA-052")
def test_every_class_on_its_own():
    y, predicted, _ = columns()
    found = metrics.precision_recall_fscore_support(y, predicted)
    for j in range(4):
        ours = [metric(y, predicted, positive=j).value for metric in (precision, recall, f_score)]
        assert ours == pytest.approx([found[which][j] for which in range(3)], abs=1e-14)


@pytest.mark.spec("PRA-050", "PRA-052")
def test_rare_events():
    y = np.zeros(RARE, int)
    y[7] = 1
    always, never = np.ones(RARE, int), np.zeros(RARE, int)
    p, r = precision_recall(y, always)
    assert (p.value, r.value) == (1e-6, 1.0)
    assert f_score(y, always).value == pytest.approx(2e-6, rel=1e-5)
    p, r = precision_recall(y, never, zero_division=1)
    assert (p.value, r.value) == (1.0, 0.0)
    assert f_score(y, never).value == 0.0


@pytest.mark.spec("PRA-052")
def test_f_from_precision_and_recall_by_hand():
    y, predicted = [1, 1, 1, 1, 0], [1, 0, 0, 0, 1]
    p, r = precision_recall(y, predicted)
    assert (p.value, r.value) == (0.5, 0.25)
    assert f_score(y, predicted).value == pytest.approx(1 / 3, abs=1e-15)
    assert f_score(y, predicted, beta=2).value == pytest.approx(5 * 0.5 * 0.25 / (4 * 0.5 + 0.25), abs=1e-15)
    assert f_score([1, 0], [0, 1]).value == 0.0  # p = r = 0


@pytest.mark.spec("PRA-050")
def test_zero_over_zero_is_undefined_unless_said_otherwise():
    undefined = precision([1, 0], [0, 0])
    assert math.isnan(undefined.value) and "nothing was predicted" in undefined.note
    record = json.loads(json.dumps(undefined.to_json(), allow_nan=False))
    assert record["value"] is None and "nan" in record["reason"] and "0/0" in record["note"]
    assert [precision([1, 0], [0, 0], zero_division=z).value for z in (0, 1)] == [0, 1]
    both = precision_recall([1, 0, 2], [1, 1, 0], positive=2, zero_division=0, sample_weight=[1, 2, 3])
    assert [score.value for score in both] == [0, 0] and both[0].n == 3
    assert math.isnan(recall([0, 0], [0, 1]).value)
    assert math.isnan(f_score([0, 0], [0, 0]).value)  # the positive class is not there at all
    with pytest.raises(UserError, match="zero_division"):
        precision([1, 0], [0, 0], zero_division=3)


@pytest.mark.spec("PRA-052")
def test_averages_leave_classes_without_a_value_out_and_say_so():
    y, predicted = [0, 0, 1, 1], [0, 0, 0, 2]
    for metric in (precision, recall, f_score):
        score = metric(y, predicted, average="macro")
        peer = getattr(metrics, f"{metric.__name__}_score" if metric is not f_score else "f1_score")
        assert score.value == pytest.approx(peer(y, predicted, average="macro", zero_division=np.nan), abs=1e-14)
    assert "left out without a value: 1 of 3 classes" in precision(y, predicted, average="macro").note
    filled = precision(y, predicted, average="macro", zero_division=1)
    assert filled.value == pytest.approx(metrics.precision_score(y, predicted, average="macro", zero_division=1))
    by_shares = precision(y, predicted, average="weighted", zero_division=1)
    assert by_shares.value == pytest.approx(metrics.precision_score(y, predicted, average="weighted", zero_division=1))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "positive or average is required for the classes 'a', 'b'"),
        ({"average": "makro"}, "did you mean 'macro'"),
        ({"average": "macro", "positive": "a"}, "leave out"),
    ],
)
def test_which_class_is_asked_for(options, words):
    with pytest.raises(UserError, match=words):
        precision(["a", "b"], ["a", "a"], **options)


def test_one_row_has_no_error_and_one_class_is_fine():
    one = accuracy(["a"], ["a"])
    assert one.value == 1.0 and math.isnan(one.stderr)
    assert f_score(["a", "a"], ["a", "a"], average="macro").value == 1.0


# --- the matrix -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("PRA-047", "PRA-050", "PRA-052")
def test_parts_add_up_to_the_whole():
    whole = arrays(meters(slice(None)))
    for parts in ([slice(0, 1), slice(1, 90)], [slice(0, 30), slice(30, 60), slice(60, 90)]):
        first, *rest = (meters(part) for part in parts)
        for more in rest:
            for meter, other in zip(first, more, strict=True):
                meter.merge(other)
        for a, b in zip(arrays(first), whole, strict=True):
            assert np.array_equal(a, b)


def test_processes_add_up_to_the_whole():
    for a, b in zip(gnomon.launch(together, devices=2), arrays(meters(slice(None))), strict=True):
        assert np.array_equal(a, b)


def test_the_matrix_shows_true_classes_as_rows():
    y, predicted, _ = columns()
    matrix = confusion_matrix(y, predicted)
    assert np.array_equal(matrix.weight, metrics.confusion_matrix(y, predicted))
    text = str(confusion_matrix(["wet", "dry", "wet"], ["wet", "wet", "wet"]))
    assert text.splitlines()[1].split() == ["dry", "0", "1"] and text.splitlines()[2].split() == ["wet", "0", "2"]


def test_matrices_that_cannot_be():
    with pytest.raises(UserError, match="classes must be different from each other"):
        ConfusionMatrix([1, 1])
    with pytest.raises(UserError, match=r"both matrices must have the same classes \(merge\)"):
        ConfusionMatrix([0, 1]).merge(ConfusionMatrix([0, 2]))
    with pytest.raises(UserError, match=r"unknown label 2 \(predicted, row 1\); add it to classes"):
        ConfusionMatrix([0, 1]).update([0, 1], [0, 2])
    with pytest.raises(UserError, match="at least one row"):
        ConfusionMatrix([0, 1]).accuracy()


@pytest.mark.spec("PRA-052")
def test_the_stated_error_covers_the_truth():
    """95 % intervals of 2,000 samples of a macro F-score: coverage within 4.5 errors of 0.93 ... 0.97 (< 1e-5)."""
    random, n = np.random.default_rng(0), 2000
    p = np.array([[0.3, 0.1], [0.15, 0.45]])
    truth = np.mean([2 * p[j, j] / (p[j].sum() + p[:, j].sum()) for j in range(2)])
    covered = 0
    for counts in random.multinomial(300, p.ravel(), size=n):
        y, predicted = np.repeat([0, 0, 1, 1], counts), np.repeat([0, 1, 0, 1], counts)
        score = f_score(y, predicted, average="macro")
        covered += abs(score.value - truth) <= 1.96 * score.stderr
    assert 0.93 - 4.5 * math.sqrt(0.05 * 0.95 / n) < covered / n < 0.97 + 4.5 * math.sqrt(0.05 * 0.95 / n)


@pytest.mark.parametrize(
    ("y", "predicted", "classes"), [([3, 5, 4], [4, 4, 3], [3, 4, 5]), ([-2, 5], [5, 5], [-2, 5]), ([7], [7], [7])]
)
def test_classes_are_the_labels_that_occur(y, predicted, classes):
    assert confusion_matrix(y, predicted).classes.tolist() == classes


@pytest.mark.parametrize("low", [0, -1])
def test_one_is_the_positive_class_beside_zero_and_minus_one(low):
    y, predicted = np.where([1, 1, 0, 0, 0, 1], 1, low), np.where([1, 0, 1, 1, 0, 1], 1, low)
    assert f_score(y, predicted).value == pytest.approx(metrics.f1_score(y, predicted))
    assert f_score(y, predicted).value != pytest.approx(metrics.f1_score(y, predicted, pos_label=low))
