"""Scores: means and their errors, comparisons and what they may claim, strict JSON."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from scipy import stats

from gnomon.errors import UserValueError
from gnomon.evaluation.score import Score


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_mean_and_standard_error(rng):
    x = rng.normal(size=40)
    score = Score.from_pointwise(x, name="log_likelihood", data_space="pmf on {0,1}^3")
    assert score.value == pytest.approx(x.mean(), abs=1e-15)
    assert score.stderr == pytest.approx(x.std(ddof=1) / math.sqrt(40), rel=1e-12)
    assert (score.n, score.kind, score.error) == (40, "exact", 0.0)
    assert np.array_equal(score.pointwise, x)


def test_equal_weights_are_no_weights_and_zero_weights_are_no_rows(rng):
    x = rng.normal(size=12)
    plain, equal = Score.from_pointwise(x), Score.from_pointwise(x, weight=np.full(12, 3.0))
    assert equal.value == pytest.approx(plain.value, abs=1e-15)
    assert equal.stderr == pytest.approx(plain.stderr, rel=1e-12)
    w = np.array([1.0] * 8 + [0.0] * 4)
    part = Score.from_pointwise(np.append(x[:8], [math.nan] * 4), weight=w)
    assert part.value == pytest.approx(x[:8].mean(), abs=1e-15)
    assert part.n == 8


def test_weighted_mean_and_its_error():
    x, w = np.array([1.0, 2.0, 4.0]), np.array([3.0, 1.0, 2.0])
    score = Score.from_pointwise(x, weight=w)
    assert score.value == pytest.approx(13 / 6, abs=1e-15)
    s = w / 6
    assert score.stderr == pytest.approx(math.sqrt(1.5 * (s**2 * (x - 13 / 6) ** 2).sum()), rel=1e-12)


def test_order_of_the_rows_changes_no_bit(rng):
    x = rng.normal(size=1001) * 10.0 ** rng.integers(-8, 8, size=1001)
    w = rng.random(1001)
    for weight in (None, w):
        one = Score.from_pointwise(x, weight=weight)
        two = Score.from_pointwise(x[::-1], weight=None if weight is None else weight[::-1])
        assert one.value == two.value
        assert one.stderr == two.stderr


def test_the_input_is_copied():
    x = np.arange(3.0)
    score = Score.from_pointwise(x)
    x[0] = 9
    assert score.pointwise[0] == 0


@pytest.mark.parametrize(
    ("values", "weight", "match"),
    [
        ([], None, "values must have at least one entry; score at least one example"),
        ([1, 2], [1], "weight must be one number for each of the 2 values, got 1"),
        ([1, 2], [1, -1], "row 1"),
        ([1, 2], [math.nan, 1], "row 0"),
        ([1, 2], [0, 0], "weight must be positive for at least one example"),
    ],
)
def test_wrong_values_and_weights(values, weight, match):
    with pytest.raises(UserValueError, match=match):
        Score.from_pointwise(values, weight=weight)


def test_wrong_fields():
    with pytest.raises(UserValueError, match="got 'guess'"):
        Score(1.0, kind="guess")
    with pytest.raises(UserValueError, match="stderr must be at least 0, got -1"):
        Score(1.0, stderr=-1)
    with pytest.raises(UserValueError, match="rows must be one number for each of the 2 values, got 3"):
        Score.from_pointwise([1, 2], rows=[1, 2, 3])


def test_pairing_finds_small_differences_that_unpaired_scores_hide(rng):
    hard = rng.normal(0, 10, size=200)
    a = Score.from_pointwise(hard + 0.1 + rng.normal(0, 0.1, 200))
    b = Score.from_pointwise(hard + rng.normal(0, 0.1, 200))
    assert a.against(b) == "better"
    assert b.against(a) == "worse"
    elsewhere = Score.from_pointwise(b.pointwise, rows=np.arange(200) + 200)
    assert a.against(elsewhere) == "undecided"
    assert a.against(Score(b.value, b.stderr, n=200)) == "undecided"
    same_rows = Score.from_pointwise(b.pointwise, rows=np.arange(200))
    assert a.against(same_rows) == "better"
    weighted = Score.from_pointwise(b.pointwise, weight=rng.random(200))
    assert a.against(weighted) == "undecided"
    w = rng.random(200) + 0.5
    assert Score.from_pointwise(a.pointwise, weight=w).against(Score.from_pointwise(b.pointwise, weight=w)) == "better"


def test_rate_of_false_verdicts():
    """Equally good systems on 6 rows, 4,000 repetitions: 5 % verdicts, within 4.5 errors (false-alarm rate 7e-6)."""
    rng, n = np.random.default_rng(5), 4000
    verdicts = [
        Score.from_pointwise(rng.normal(size=6)).against(Score.from_pointwise(rng.normal(size=6))) for _ in range(n)
    ]
    rate = np.mean([v != "undecided" for v in verdicts])
    assert abs(rate - 0.05) < 4.5 * math.sqrt(0.05 * 0.95 / n)


def test_level(rng):
    a = Score.from_pointwise(rng.normal(0.25, 1, 100))
    b = Score.from_pointwise(np.zeros(100))
    t = abs(a.value) / a.stderr
    assert 1.3 < t < 4
    assert a.against(b, level=0.5) == "better"
    assert a.against(b, level=0.99999) == "undecided"
    with pytest.raises(UserValueError, match=r"level must be in \(0, 1\), got 95"):
        a.against(b, level=95)


def test_estimator_errors_are_added(rng):
    x = rng.normal(size=50)
    exact = Score.from_pointwise(x)
    above = Score.from_pointwise(x + 1.0, kind="estimate", error=0.1)
    vague = Score.from_pointwise(x + 1.0, kind="estimate", error=1.0)
    assert above.against(exact) == "better"
    assert vague.against(exact) == "undecided"
    assert exact.against(Score.from_pointwise(x + 1, kind="estimate", error=math.inf)) == "undecided"


@pytest.mark.parametrize("higher", [True, False])
def test_bounds_are_used_in_their_sound_direction_alone(higher):
    kinds = ("exact", "estimate", "lower bound", "upper bound")
    for a_kind, b_kind in itertools.product(kinds, repeat=2):
        a = Score(2.0, 0.0, kind=a_kind, higher_is_better=higher)
        b = Score(1.0, 0.0, kind=b_kind, higher_is_better=higher)
        sound = a_kind != "upper bound" and b_kind != "lower bound"  # the truths are then at least / at most these
        good, bad = ("better", "worse") if higher else ("worse", "better")
        assert a.against(b) == (good if sound else "undecided")
        assert b.against(a) == (bad if sound else "undecided")


@pytest.mark.parametrize(
    ("field", "value"),
    [("unit", "bits"), ("data_space", "density on R^2"), ("name", "accuracy"), ("higher_is_better", False)],
)
def test_unlike_scores_are_never_compared(field, value):
    with pytest.raises(UserValueError, match=field):
        Score(1.0).against(Score(1.0, **{field: value}))


def test_differences_within_the_rounding_of_float32_are_none():
    """The same rows scored by another order of sums: a shift of 1e-7 of the value is certain, and says nothing."""
    x = -25.0 - np.arange(8.0)
    base = Score.from_pointwise(x)
    for shift, verdict in ((5e-7, "undecided"), (2e-6, "better"), (-5e-7, "undecided"), (-2e-6, "worse")):
        assert Score.from_pointwise(x + shift * abs(base.value)).against(base) == verdict
        moved = Score(base.value + shift * abs(base.value))
        assert moved.against(Score(base.value)) == verdict
    assert Score(1e-30).against(Score(0.0)) == "better"  # of nothing the floor is nothing
    assert Score(math.inf).against(Score(-math.inf)) == "better"


def test_equal_and_single_and_infinite_scores():
    assert Score(1.0).against(Score(1.0)) == "undecided"
    assert Score.from_pointwise([3.0]).against(Score.from_pointwise([1.0])) == "undecided"
    impossible = Score.from_pointwise([-1.0, -math.inf])
    assert impossible.value == -math.inf
    assert "row 1" in impossible.note
    fine = Score.from_pointwise([-1.0, -2.0])
    assert fine.against(impossible) == "better"
    assert impossible.against(fine) == "worse"
    assert impossible.against(impossible) == "undecided"
    unknown = Score.from_pointwise([-1.0, math.nan], rows=[4, 9])
    assert math.isnan(unknown.value)
    assert "row 9 is nan" in unknown.note
    assert fine.against(unknown) == "undecided"
    assert math.isnan(Score.from_pointwise([math.inf, -math.inf]).value)
    low = Score(math.inf, name="perplexity", higher_is_better=False)
    assert low.against(Score(20.0, name="perplexity", higher_is_better=False)) == "worse"


def test_json_is_strict_and_says_why():
    score = Score.from_pointwise([-1.0, -2.0, -4.0], kind="estimate", error=0.1, data_space="pmf on {0,1}^2", note="x")
    record = json.loads(json.dumps(score.to_json(), allow_nan=False))
    assert record["value"] == score.value
    assert record["note"] == "x"
    assert "reason" not in record
    assert "pointwise" not in record
    for values in ([-1.0, -math.inf], [math.nan, 1.0], [2.0]):
        record = Score.from_pointwise(values).to_json()
        json.dumps(record, allow_nan=False)
        assert "is" in record["reason"]
    assert Score.from_pointwise([2.0]).to_json()["reason"] == "stderr is nan (one example)"
    infinite = Score.from_pointwise([-1.0, -math.inf]).to_json()
    assert infinite["value"] is None
    assert infinite["reason"].startswith("value is -inf")


def test_text():
    assert str(Score(-62.3141, 0.25, 0.031, "estimate")) == "-62.314 ± 0.250 ± 0.031 estimate nats"
    assert str(Score(0.9712, 0.012, unit="fraction")) == "0.971 ± 0.012 exact fraction"
    assert str(Score(4.16370937)) == "4.1637 exact nats"
    assert "nan" in str(Score.from_pointwise([2.0]))
    assert "pointwise" not in repr(Score.from_pointwise([1.0, 2.0]))
    assert Score.from_pointwise([1.0, 2.0]) == Score.from_pointwise([1.0, 2.0])


def test_the_error_of_large_values_is_that_of_small_ones_times_their_unit(rng):
    values = rng.normal(size=50)
    small, large, least = (Score.from_pointwise(values * unit) for unit in (1.0, 2.0**700, 2.0**-700))
    assert large.stderr == small.stderr * 2.0**700
    assert least.stderr == small.stderr * 2.0**-700


# --- proportions ------------------------------------------------------------------------------------------------------


def hits(right, n, **more):
    return Score.from_pointwise(np.arange(n) < right, unit="fraction", name="accuracy", **more)


@pytest.mark.parametrize(("right", "n"), [(12, 12), (0, 7), (9, 12), (1, 1)])
def test_the_interval_of_a_proportion_is_wilsons(right, n):
    """E6: accuracy 1 on 12 rows is 0.76 to 1, not 1 ± 0."""
    from scipy.stats import binomtest

    expected = binomtest(right, n).proportion_ci(0.95, method="wilson")
    score = hits(right, n)
    assert score.interval() == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert score.to_json()["interval"] == list(score.interval()) and score.trials == n
    assert hits(right, n, weight=np.full(n, 3.0)).interval() == pytest.approx(score.interval())


def test_the_interval_is_printed_where_all_rows_agree():
    assert str(hits(12, 12)) == "1 (0.76 to 1) exact fraction"
    assert str(hits(9, 12)) == "0.75 ± 0.13 exact fraction"


def test_the_interval_of_other_scores_is_students(rng):
    x = rng.normal(size=20)
    from scipy.stats import ttest_1samp

    expected = ttest_1samp(x, 0).confidence_interval(0.9)
    assert Score.from_pointwise(x).interval(0.9) == pytest.approx((expected.low, expected.high))
    assert "interval" not in Score.from_pointwise(x).to_json()
    assert Score.from_pointwise([0.5, 1.0], unit="fraction").trials == 0
    with pytest.raises(UserValueError, match=r"level must be in \(0, 1\), got 1"):
        hits(1, 2).interval(1)


def test_proportions_of_few_rows_are_not_called_apart_for_want_of_an_error():
    assert hits(3, 3).against(hits(0, 3)) == "undecided"  # 3 rows: their spread is 0
    assert hits(12, 12).against(hits(0, 12)) == "better"
    one, two = hits(3, 3, rows=[0, 1, 2]), hits(0, 3, rows=[7, 8, 9])
    assert one.against(two) == "undecided" and one.difference(two)[0] == 1.0
    p = 4 / 5
    assert one.difference(two)[1] == pytest.approx(math.sqrt(2 * p * (1 - p) / 5))
    b, c, n = 5.5, 0.5, 14  # of 12 rows the first alone has 5 right: half a row in each cell
    assert hits(12, 12).difference(hits(7, 12))[1] == pytest.approx(math.sqrt(b + c - (b - c) ** 2 / n) / n)


@pytest.mark.parametrize(("n", "p"), [(12, 0.95), (40, 0.8)])
@pytest.mark.parametrize("paired", [True, False])
def test_rate_of_false_verdicts_of_proportions(rng, n, p, paired):
    """5 % asked for; 400 pairs of equally good classifiers: more than 36 by chance in 1 of 1,000 runs."""
    wrong = 0
    for _ in range(400):
        a, b = (
            Score.from_pointwise(rng.random(n) < p, unit="fraction", rows=None if paired else np.arange(n) + k * n)
            for k in (0, 1)
        )
        wrong += a.against(b) != "undecided"
    assert wrong <= 36


def accuracy_of(right, **options):
    return Score.from_pointwise(np.array(right, float), unit="fraction", **options)


def edge_of(difference, spread, n):
    """The level at which a difference is just told."""
    return 2 * stats.t.cdf(difference / spread, n - 1) - 1


@pytest.mark.parametrize("weight", [None, np.full(60, 2.0)])
def test_proportions_on_the_same_rows_are_told_apart_at_one_level(weight):
    """Agresti and Min (2005): 12 rows for one, 3 for the other, half a row more of each, of 62."""
    a = accuracy_of([1] * 12 + [0] * 3 + [1] * 45, weight=weight)
    b = accuracy_of([0] * 12 + [1] * 3 + [1] * 45, weight=weight)
    difference = (12.5 - 3.5) / 62
    edge = edge_of(difference, math.sqrt((16 / 62 - difference**2) / 62), 60)
    assert a.against(b, level=edge - 1e-6) == "better" and b.against(a, level=edge - 1e-6) == "worse"
    assert a.against(b, level=edge + 1e-6) == "undecided"


def test_proportions_on_other_rows_are_told_apart_at_one_level():
    """Agresti and Caffo (2000): one more right and one more wrong row of each."""
    a, b = accuracy_of([1] * 42 + [0] * 8), accuracy_of([1] * 24 + [0] * 16)
    p, q = 43 / 52, 25 / 42
    edge = edge_of(p - q, math.sqrt(p * (1 - p) / 52 + q * (1 - q) / 42), 40)
    assert a.against(b, level=edge - 1e-6) == "better" and a.against(b, level=edge + 1e-6) == "undecided"
