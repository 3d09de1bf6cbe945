"""Random search: laws of its draws, how many hit the best, seeds by trial, conditions, ranges that are narrowed."""

import numpy as np
import pytest
from scipy import stats
from scipy.stats import qmc

import gnomon
from gnomon.errors import UserTypeError, UserValueError
from gnomon.search.conditions import Conditional, ordered, size
from gnomon.search.dimensions import OneOf, RealRange, WholeRange
from gnomon.search.draws import drawn, quantiles
from gnomon.search.rounds import DRAWS, key, next_round
from gnomon.search.space import grid, space_of
from gnomon.search.study import Study
from gnomon.search.trials import SearchPlan
from oracles.searching import SPACE, bowl, finished, plan, table

FALSE_ALARM = 1e-4
RATE = RealRange(1e-5, 1e-1, log=True)


@pytest.mark.spec("PRA-072")
def test_marginals_of_what_is_tried_follow_their_laws():
    space = {"rate": RATE, "p": RealRange(0.0, 0.5), "n": WholeRange(1, 4), "kind": OneOf(("a", "b", "c"))}
    points = [drawn(space, 7, place) for place in range(2000)]
    column = {name: [one[name] for one in points] for name in space}
    assert stats.kstest(column["rate"], stats.loguniform(1e-5, 1e-1).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(column["p"], stats.uniform(0, 0.5).cdf).pvalue > FALSE_ALARM
    for name, values in (("n", (1, 2, 3, 4)), ("kind", "abc")):
        assert stats.chisquare([column[name].count(one) for one in values]).pvalue > FALSE_ALARM
    ranks = [stats.rankdata(column[name]) for name in ("rate", "p")]
    assert stats.spearmanr(*ranks).pvalue > FALSE_ALARM  # one draw for each, and not the same
    study = finished(plan("random", 25, space, seed=7), lambda parameters, report: 0.0)
    assert [one.parameters for one in study.tried] == points[:25]


@pytest.mark.spec("PRA-072")
def test_sixty_draws_hit_the_best_twentieth():
    """With probability 1 - 0.95^60 = 0.95393, whatever the function; 600 searches, binomial, false alarm 1e-4."""
    space = {"x": RealRange(0.0, 1.0), "y": RealRange(0.0, 1.0)}
    u = np.array([list(drawn(space, seed, place).values()) for seed in range(600) for place in range(60)])
    best = ((u[:, 0] - 0.5) ** 2 + (u[:, 1] - 0.5) ** 2 <= 0.05 / np.pi).reshape(600, 60)  # a disk of area 0.05
    hits = int(best.any(axis=1).sum())
    assert stats.binomtest(hits, 600, 1 - 0.95**60).pvalue > FALSE_ALARM
    assert pytest.approx(0.95393, abs=1e-5) == 1 - 0.95**60


@pytest.mark.spec("PRA-072")
def test_every_trial_tests_another_value_of_the_one_that_matters():
    """64 trials in three dimensions: 64 values of each at random, 4 on a grid."""
    axes = {name: RealRange(0.001, 1000.0, log=True) for name in "abc"}
    study = finished(plan("random", 64, axes), lambda parameters, report: abs(np.log(parameters["a"])))
    points = grid(axes, 4)
    assert len(points) == 64
    for name in axes:
        assert len({one.parameters[name] for one in study.tried}) == 64
        assert len({one[name] for one in points}) == 4
    best = min(abs(np.log(one["a"])) for one in points)
    assert study.best().value < best


@pytest.mark.spec("PRA-072")
def test_draws_belong_to_seed_name_and_place(tmp_path):
    assert drawn(SPACE, 0, 5) == drawn(SPACE, 0, 5) != drawn(SPACE, 1, 5)
    assert drawn({"x": SPACE["x"]}, 0, 5)["x"] == drawn(SPACE, 0, 5)["x"]  # others beside it change nothing
    whole = finished(plan(trials=9))
    store = tmp_path / "s.db"
    with Study(plan(trials=9), store) as one, Study(plan(trials=9), store) as other:  # two that take turns
        for turn in range(3):
            for study in (one, other):
                study.total = min(9, 2 * turn + 1 + (study is other))
                study.run(bowl)
        other.total = 9
        other.run(bowl)
        assert table(other) == table(whole) and len(other.tried) == 9


CONDITIONAL = {
    "rate": Conditional(RATE, "solver", ("gradient", "sgd")),
    "solver": OneOf(("closed", "gradient", "sgd")),
    "n": Conditional(WholeRange(1, 2), "solver", ("sgd",)),
    "flag": OneOf((True, False)),
}


@pytest.mark.spec("PRA-072")
@pytest.mark.parametrize("strategy", ["random", "sobol", "tpe", "narrow"])
def test_conditional_hyper_parameters_are_there_only_where_they_act(strategy):
    study = finished(plan(strategy, 60, CONDITIONAL), lambda parameters, report: float(len(parameters)))
    seen = {one.parameters["solver"]: set(one.parameters) for one in study.tried}
    assert seen == {
        "closed": {"solver", "flag"}, "gradient": {"solver", "flag", "rate"}, "sgd": {"solver", "flag", "rate", "n"},
    }  # fmt: skip
    assert study.best().parameters["solver"] == "closed"


@pytest.mark.spec("PRA-072")
def test_conditional_points_are_counted_and_tried_once():
    calls = []
    space = {name: one for name, one in CONDITIONAL.items() if name != "rate"}
    assert size(space) == 2 * (1 + 1 + 2) == len(grid(ordered(space))) and size(CONDITIONAL) == np.inf
    study = finished(plan("random", 200, space), lambda parameters, report: calls.append(parameters) or 1.0)
    assert len(calls) == len({key(one) for one in calls}) == 8 and len(study.tried) < 200
    rates = [one.get("rate") for one in (drawn(CONDITIONAL, 3, place) for place in range(3000))]
    there = [one for one in rates if one is not None]
    assert stats.binomtest(len(there), 3000, 2 / 3).pvalue > FALSE_ALARM
    assert stats.kstest(there, stats.loguniform(1e-5, 1e-1).cdf).pvalue > FALSE_ALARM


@pytest.mark.spec("PRA-072")
def test_conditions_are_read_and_checked_against_the_system():
    space = space_of(gnomon.RBM(), {"objective.k": "1..10 if objective=cd,pcd", "objective": "cd,pcd,exact"})
    assert list(space) == ["objective", "objective.k"] and str(space["objective.k"]) == "1..10 if objective=cd,pcd"
    for given, kind, words in (
        ({"objective.k": "1..10 if objective=cd"}, UserValueError, "depends on objective, which must be searched"),
        ({"objective.k": "1..3 if objective=exact", "objective": "cd,exact"}, UserValueError, "no hyper-parameter"),
        ({"objective.k": "1..3 if objective=pcd", "objective": "cd,exact"}, UserValueError, "must be among cd,exact"),
        ({"objective.k": "0..3 if objective=cd", "objective": "cd,exact"}, UserValueError, "k must be"),
    ):
        with pytest.raises(kind, match=words):
            space_of(gnomon.RBM(), given)
    with pytest.raises(UserTypeError, match="range must be"):
        Conditional(CONDITIONAL["n"], "solver", ("a",))
    with pytest.raises(UserValueError, match="at least one value"):
        Conditional(RATE, "solver", ())
    random = np.random.default_rng(0)
    X = (random.random((60, 6)) < 0.5).astype(float)
    found = gnomon.search(
        gnomon.RBM(n_hidden=2, epochs=1), X, trials=12, strategy="random",
        space={"objective": "cd,exact", "objective.k": "1..3 if objective=cd"},
    )  # fmt: skip
    assert {one.state for one in found.trials} == {"done"}
    assert {(one.parameters["objective"], "objective.k" in one.parameters) for one in found.trials} == {
        ("cd", True), ("exact", False),
    }  # fmt: skip


@pytest.mark.spec("PRA-072")
def test_ranges_are_narrowed_around_the_best_of_each_round():
    space = {"x": RealRange(0.0, 8.0), "rate": RATE, "n": WholeRange(1, 1000), "kind": OneOf(("a", "b"))}
    one = SearchPlan(space, "narrow", 100, 0, higher_is_better=False)

    def cost(x, rate, n, kind):
        return (x - 3) ** 2 + np.log10(rate / 1e-3) ** 2 + ((n - 700) / 100) ** 2 + (kind == "a")

    costs, best = {}, None
    for number in range(5):
        points = next_round(one, costs)
        assert len(points) == DRAWS
        for name in ("x", "n"):
            low, high = (0.0, 8.0) if name == "x" else (1, 1000)
            if best is not None:
                half = (high - low + (name == "n")) * 0.5**number / 2
                low, high = max(low, best[name] - half - 1e-9), min(high, best[name] + half + 1e-9)
            assert all(low <= point[name] <= high for point in points)
        if best is not None:
            spread = 1e4 ** (0.5**number / 2) * 1.001  # the values have four digits
            assert all(1 / spread <= point["rate"] / best["rate"] <= spread for point in points)
        costs |= {key(point): cost(**point) for point in points}
        seen = {**({} if number == 0 else seen), **{key(point): point for point in points}}  # noqa: F821
        best = min(seen.values(), key=lambda point: costs[key(point)])
    assert next_round(one, costs) == []


@pytest.mark.spec("PRA-072")
def test_narrowed_ranges_come_nearer_than_one_range():
    """Means of the best of 80 over 8 seeds; both end at the number of trials that was asked for."""
    best = {}
    for strategy in ("narrow", "random"):
        studies = [finished(plan(strategy, 80, seed=seed)) for seed in range(8)]
        assert {len(one.tried) for one in studies} == {80}
        best[strategy] = np.mean([one.best().value for one in studies])
    assert best["narrow"] < 0.3 * best["random"]


@pytest.mark.spec("PRA-072")
def test_a_narrowed_search_goes_on_from_its_store(tmp_path):
    whole = finished(plan("narrow", 50))
    for part in (7, 30, 50):
        parts = finished(plan("narrow", part), store=tmp_path / "s.db")
        assert len(parts.tried) == part
    assert table(parts) == table(whole)


def test_parts_of_ranges():
    assert RealRange(0.0, 8.0).narrowed(7.5, 0.5) == RealRange(5.5, 8.0)
    few = RATE.narrowed(1e-3, 0.5)
    assert (few.low, few.high) == pytest.approx((1e-4, 1e-2))
    assert WholeRange(1, 9).narrowed(5, 0.01) == WholeRange(4, 6) and WholeRange(1, 9).narrowed(1, 0.01).low == 1
    assert OneOf("ab").narrowed("a", 0.5) == OneOf("ab")


def test_points_of_a_sobol_sequence_fill_every_coordinate_evenly():
    """Of any 2^k from a multiple of 2^k on, one in each of 2^k equal parts; more even than draws, by discrepancy."""
    names = ["a", "b", "c", "d"]
    for start, n in ((0, 16), (48, 16), (64, 64)):
        u = np.array([list(quantiles(names, 3, start + i, sobol=True).values()) for i in range(n)])
        assert all(sorted((n * column).astype(int)) == list(range(n)) for column in u.T)
    independent = np.array([list(quantiles(names, 3, i).values()) for i in range(64)])
    assert qmc.discrepancy(u) < 0.5 * qmc.discrepancy(independent)
    shifted = [quantiles(["a"], seed, 0, sobol=True)["a"] for seed in range(1000)]
    assert stats.kstest(shifted, stats.uniform.cdf).pvalue > FALSE_ALARM
    study = finished(plan("sobol", 16, {"x": RealRange(0.0, 16.0)}), lambda parameters, report: 0.0)
    assert sorted(int(one.parameters["x"]) for one in study.tried) == list(range(16))
