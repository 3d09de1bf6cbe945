"""Precision-recall curves and their areas: scikit-learn's points, errors by differences, ties, refusals, merging."""

import math

import numpy as np
import pytest
from sklearn import metrics

from gnomon.errors import UserError
from gnomon.evaluation.curves import auprc, average_precision, pr_area, pr_curve, threshold_for
from gnomon.evaluation.ranking import Ranking
from oracles.errors import stderr_by_differences
from oracles.stated_errors import check_coverage

Y, SCORE = [1, 0, 1, 0], [0.9, 0.8, 0.7, 0.1]


def columns(n=60, seed=0, ties=True, dtype=float):
    random = np.random.default_rng(seed)
    y = random.random(n) < 0.3
    score = random.normal(size=n) + y
    return y, (np.round(score * 2) / 2 if ties else score).astype(dtype), random.random(n) * (random.random(n) < 0.9)


def trapezoid(y, score, sample_weight):
    """scikit-learn's points, joined by straight lines."""
    precision, recall, _ = metrics.precision_recall_curve(y, score, sample_weight=sample_weight)
    return metrics.auc(recall, precision)


@pytest.mark.spec("PRA-051")
def test_the_points_of_the_example():
    curve = pr_curve(Y, SCORE)
    assert list(zip(curve.recall, curve.precision, strict=True)) == [(0.5, 1), (0.5, 0.5), (1, 2 / 3), (1, 0.5)]
    assert curve.threshold.tolist() == SCORE


@pytest.mark.spec("PRA-051")
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_points_are_scikit_learns_the_other_way_round(ties, weighted, dtype):
    y, score, weight = columns(n=400, ties=ties, dtype=dtype)
    weight = weight if weighted else None
    curve = pr_curve(y, score, sample_weight=weight)
    kept = slice(None) if weight is None else weight > 0
    precision, recall, threshold = metrics.precision_recall_curve(
        y[kept], score[kept], sample_weight=None if weight is None else weight[kept]
    )
    assert curve.threshold == pytest.approx(threshold[::-1], abs=0)
    assert curve.recall == pytest.approx(recall[-2::-1], abs=1e-12)
    assert curve.precision == pytest.approx(precision[-2::-1], abs=1e-12)
    assert len(curve.threshold) == len(np.unique(score[kept]))


@pytest.mark.spec("PRA-051")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_zeros_of_both_signs_are_one_tie(dtype):
    curve = pr_curve([1, 0, 1, 0], np.array([0.0, -0.0, -1.0, -np.finfo(dtype).tiny], dtype))
    assert curve.threshold.tolist() == [0, -np.finfo(dtype).tiny, -1]
    assert curve.precision.tolist() == [0.5, 1 / 3, 0.5]


@pytest.mark.spec("PRA-051")
def test_thresholds_by_trying_all():
    y, score, _ = columns(n=300)
    tried = {}
    for t in np.unique(score):
        fired = score >= t
        tried[t] = ((y & fired).sum() / fired.sum(), (y & fired).sum() / y.sum())
    for asked in (0.2, 0.45, 0.6):
        t = threshold_for(y, score, precision=asked)
        best = max(recall for precision, recall in tried.values() if precision >= asked)
        assert tried[t][0] >= asked and tried[t][1] == pytest.approx(best, abs=1e-12)
        t = threshold_for(y, score, recall=asked)
        best = max(precision for precision, recall in tried.values() if recall >= asked)
        assert tried[t][1] >= asked and tried[t][0] == pytest.approx(best, abs=1e-12)


@pytest.mark.spec("PRA-051")
def test_a_threshold_counts_weights_and_goes_to_the_higher_of_equal_ones():
    y, score, _ = columns(n=200, ties=True)
    whole = np.repeat([0, 1, 2, 3], 50)
    for asked in ({"precision": 0.5}, {"recall": 0.5}):
        found = threshold_for(y, score, sample_weight=whole, **asked)
        assert found == threshold_for(np.repeat(y, whole), np.repeat(score, whole), **asked)
    named = np.where(y, "ill", "well")
    assert threshold_for(named, score, positive="ill", recall=0.5) == threshold_for(y, score, recall=0.5)
    assert threshold_for([1, 0, 1, 0], [4.0, 3.0, 2.0, 1.0], recall=0.0) == 4.0
    assert threshold_for([0, 1, 0], [3.0, 2.0, 1.0], precision=0.3) == 2.0  # recall 1 at 2 and at 1


@pytest.mark.spec("PRA-053")
def test_areas_of_the_example():
    step, straight = average_precision(Y, SCORE), auprc(Y, SCORE, method="trapezoid")
    assert step.value == pytest.approx(5 / 6, abs=1e-15)
    assert straight.value == pytest.approx(0.791667, abs=5e-7)
    assert (step.name, straight.name) == ("average_precision", "auprc (trapezoid)")
    with pytest.raises(UserError, match="name"):
        step.against(straight)


@pytest.mark.spec("PRA-053")
def test_the_trapezoid_begins_at_recall_0_and_precision_1():
    """Rows of both classes tie at the highest score, so that the first point is not at precision 1."""
    y, score = [1, 0, 0], [0.9, 0.9, 0.1]
    assert auprc(y, score, method="trapezoid").value == pytest.approx(0.75, abs=1e-15)
    assert auprc(y, score).value == pytest.approx(0.5, abs=1e-15)
    weight = np.array([1.0, 3.0, 2.0])  # the first point is at precision 1 / 4
    for metric, value in ((trapezoid, 5 / 8), (metrics.average_precision_score, 1 / 4)):
        ours = auprc(y, score, method="trapezoid" if metric is trapezoid else "step", sample_weight=weight)
        assert ours.value == pytest.approx(value, abs=1e-15)
        peer = stderr_by_differences(lambda w, of=metric: of(y, score, sample_weight=w), weight)
        assert ours.stderr == pytest.approx(peer, rel=1e-6)


@pytest.mark.spec("PRA-053")
@pytest.mark.parametrize("method", ["step", "trapezoid"])
def test_the_stated_error_covers_the_area_of_all_rows(method):
    """800 samples of 300 rows of few levels: the truth is the area of the distribution they come from."""
    random = np.random.default_rng(5)
    levels, chance = np.arange(4.0), np.array([0.1, 0.25, 0.5, 0.8])  # of a positive row, at each score
    truth = auprc([0, 1] * 4, np.repeat(levels, 2), method=method,
                  sample_weight=np.stack([1 - chance, chance], 1).ravel()).value  # fmt: skip
    found = []
    for _ in range(800):
        score = random.choice(levels, 300)
        found.append(auprc(random.random(300) < chance[score.astype(int)], score, method=method))
    check_coverage([area.value for area in found], [area.stderr for area in found], truth)


@pytest.mark.spec("PRA-053")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ties", [False, True])
def test_areas_are_scikit_learns_and_errors_by_differences(ties, weighted):
    y, score, weight = columns(n=40, ties=ties)
    weight = weight if weighted else np.ones(len(y))

    def average(w):
        return metrics.average_precision_score(y, score, sample_weight=w)

    def straight(w):
        return trapezoid(y, score, w)

    for method, peer in (("step", average), ("trapezoid", straight)):
        ours = auprc(y, score, method=method, sample_weight=weight)
        assert ours.value == pytest.approx(peer(weight), abs=1e-12)
        assert ours.stderr == pytest.approx(stderr_by_differences(peer, weight, 1e-5), rel=1e-5)
        assert ours.n == np.count_nonzero(weight)


@pytest.mark.spec("PRA-053")
def test_scores_without_information_give_the_prevalence():
    """20,000 rows at random: within 4.5 standard errors of the share of positive rows (false-alarm rate 7e-6)."""
    random = np.random.default_rng(2)
    y = random.random(20_000) < 0.1
    area = average_precision(y, random.random(20_000))
    assert abs(area.value - y.mean()) < 4.5 * area.stderr + 0.001  # steps are a little high on a finite sample
    assert average_precision(y, np.zeros(20_000)).value == pytest.approx(y.mean(), abs=1e-15)


@pytest.mark.spec("PRA-051", "PRA-053")
def test_one_class():
    with pytest.raises(UserError, match="y must have at least one positive row; recall needs it"):
        pr_curve([0, 0], [0.1, 0.2])
    area = average_precision([0, 0], [0.1, 0.2])
    assert math.isnan(area.value) and area.note == "undefined: no positive row" and area.to_json()["value"] is None
    assert average_precision([1, 1], [0.1, 0.2]).value == 1.0


@pytest.mark.spec("PRA-053")
def test_chunks_add_up_to_the_whole_bit_for_bit():
    y, score, _ = columns(n=300)
    whole, parts = Ranking(score, y), Ranking(score[:77], y[:77]).merge(Ranking(score[77:], y[77:]))
    assert np.array_equal(whole.levels, parts.levels) and np.array_equal(whole.sums, parts.sums)
    assert pr_area(whole) == pr_area(parts)
    assert pr_area(Ranking(score[:77], y[:77]).update(score[77:], y[77:])) == pr_area(whole)


def test_labels_of_any_kind():
    for y in ([True, False, True, False], [1, -1, 1, -1], [1.0, 0.0, 1.0, 0.0]):
        assert average_precision(y, SCORE).value == pytest.approx(5 / 6)
    assert average_precision(["a", "b", "a", "b"], SCORE, positive="a").value == pytest.approx(5 / 6)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: pr_curve(["a", "b"], [0.1, 0.2]), "name positive"),
        (lambda: pr_curve([0, 1], [0.1, math.nan]), "row 1"),
        (lambda: pr_curve([0, 1], [0.1, math.inf]), "row 1"),
        (lambda: pr_curve([0, 1], [0.1]), r"positive must be 1 truth values, one per score, got bool of shape \(2,\)"),
        (lambda: pr_curve([], []), r"y must be one label per row, got an array of shape \(0,\)"),
        (lambda: auprc(Y, SCORE, method="linear"), "step or trapezoid"),
        (lambda: threshold_for(Y, SCORE), "exactly one"),
        (lambda: threshold_for(Y, SCORE, precision=1.5), r"precision must be in \[0, 1\], got 1\.5"),
        (lambda: threshold_for([0, 1], [0.9, 0.1], precision=0.9), "the highest is 0.5"),
    ],
)
def test_what_has_no_curve(call, words):
    with pytest.raises(UserError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)
