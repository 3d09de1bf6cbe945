"""The tree-structured Parzen estimator: what is proposed, against densities that are computed anew."""

from dataclasses import replace

import numpy as np
import optuna
import pytest
from scipy import integrate, stats

from gnomon.search import strategies
from gnomon.search.dimensions import OneOf, RealRange, WholeRange
from gnomon.search.study import Study
from gnomon.search.trials import OverLimit
from oracles.parzen import Parzen, split
from oracles.searching import finished, plan

FALSE_ALARM = 1e-4
LINE = {"x": RealRange(-2.0, 6.0)}
RATE = {"x": RealRange(1e-4, 1.0, log=True)}
PLANE = {"x": RealRange(0.0, 1.0), "y": RealRange(0.0, 1.0)}

ON_LINE = np.array([-1.9, -1.2, -0.6, 0.1, 0.8, 1.7, 2.4, 2.9, 3.3, 4.1, 4.6, 5.2, 5.8])[:, None]
COSTS = np.abs(ON_LINE[:, 0] - 2.7) + 0.1 * np.sin(9 * ON_LINE[:, 0])
AT_BOUND = np.abs(ON_LINE[:, 0] - 5.9)  # the best lies beside the upper bound
DIAGONAL = np.array([[0.1, 0.1], [0.9, 0.9]])
OFF = np.array([[0.1, 0.9], [0.9, 0.1], [0.5, 0.1], [0.5, 0.9], [0.1, 0.5], [0.9, 0.5], [0.3, 0.7], [0.7, 0.3],
                [0.2, 0.6], [0.6, 0.2]])  # fmt: skip
CASES = {
    "line": (LINE, ON_LINE, COSTS),
    "bound": (LINE, ON_LINE, AT_BOUND),
    "rate": (RATE, 10 ** (-4 + (ON_LINE + 2) / 2), COSTS),
    "plane": (PLANE, np.vstack([DIAGONAL, OFF]), np.arange(12.0)),
}


def box_of(space):
    return [tuple(np.log([one.low, one.high])) if one.log else (one.low, one.high) for one in space.values()]


def observed(space, points, costs, seed=0):
    """A study of ours that holds these trials."""
    study = Study(plan("tpe", 1000, space, seed=seed))
    distributions = {
        name: optuna.distributions.FloatDistribution(one.low, one.high, log=one.log) for name, one in space.items()
    }
    for point, cost in zip(points, costs, strict=True):
        params = dict(zip(space, map(float, point), strict=True))
        study.study.add_trial(optuna.create_trial(params=params, distributions=distributions, value=float(cost)))
    return study


def proposals(space, points, costs, n):
    """What searches with `n` different seeds try next, before it is rounded for people."""
    found = []
    for seed in range(n):
        trial = observed(space, points, costs, seed).study.ask()
        found.append([trial.suggest_float(name, one.low, one.high, log=one.log) for name, one in space.items()])
    return np.array(found)


def densities(space, points, costs):
    box = box_of(space)
    inner = np.log(points) if any(one.log for one in space.values()) else points
    good, bad = split(inner, costs)
    return Parzen(good, box), Parzen(bad, box)


@pytest.mark.spec("PRA-076")
@pytest.mark.parametrize("case", ["line", "bound", "rate"])
def test_densities_integrate_to_one_within_the_bounds(case):
    space, points, costs = CASES[case]
    for one in densities(space, points, costs):
        (low, high) = box_of(space)[0]
        total = integrate.quad(lambda x, one=one: one.density(np.array([[x]]))[0], low, high, limit=400)[0]
        assert total == pytest.approx(1, abs=1e-6)
        assert one.density(np.array([[low - 1e-9], [high + 1e-9]])).tolist() == [0, 0]  # kernels are truncated


@pytest.mark.spec("PRA-076")
@pytest.mark.parametrize("case", list(CASES))
def test_what_is_proposed_is_the_best_of_24_draws_by_the_ratio(case):
    """The ratio of a proposal has the distribution of the largest of 24; exact by the probability transform.

    The expected improvement (g + (1 - g) bad / good)^-1 grows with the ratio good / bad, whatever the share g.
    """
    space, points, costs = CASES[case]
    good, bad = densities(space, points, costs)
    found = proposals(space, points, costs, 300)
    inner = np.log(found) if case == "rate" else found
    drawn = good.draw(100_000, np.random.default_rng(0))
    ratios = np.sort(good.density(drawn) / bad.density(drawn))
    below = np.searchsorted(ratios, good.density(inner) / bad.density(inner)) / len(ratios)
    assert stats.kstest(below**24, stats.uniform.cdf).pvalue > FALSE_ALARM
    assert stats.kstest(below**12, stats.uniform.cdf).pvalue < 1e-6  # the test would see another number of draws
    assert stats.kstest(below, stats.uniform.cdf).pvalue < 1e-6


@pytest.mark.spec("PRA-076")
@pytest.mark.parametrize("case", ["line", "bound", "rate"])
def test_with_many_candidates_the_proposal_is_the_maximum_found_by_a_grid(case, monkeypatch):
    monkeypatch.setattr(strategies, "CANDIDATES", 20_000)
    space, points, costs = CASES[case]
    good, bad = densities(space, points, costs)
    low, high = box_of(space)[0]
    line = np.linspace(low, high, 20_001)[:, None]
    ratio = good.density(line) / bad.density(line)
    improvement = 1 / (0.15 + 0.85 / ratio)
    assert ratio.argmax() == improvement.argmax()
    for proposal in proposals(space, points, costs, 3):
        inner = np.log(proposal) if case == "rate" else proposal
        assert good.density(inner[None]) / bad.density(inner[None]) == pytest.approx(ratio.max(), rel=1e-3)
        assert inner[0] == pytest.approx(line[ratio.argmax(), 0], abs=0.02 * (high - low))


@pytest.mark.spec("PRA-076")
def test_dimensions_are_modeled_together():
    """Good trials at two corners of a diagonal: a product of two densities would propose the other corners as often."""
    space, points, costs = CASES["plane"]
    x, y = proposals(space, points, costs, 200).T
    assert np.mean((x > 0.5) == (y > 0.5)) > 0.75


@pytest.mark.spec("PRA-076")
def test_trials_begin_at_random_after_the_systems_own_values():
    space = {"x": RealRange(0.0, 1.0), "n": WholeRange(1, 50), "kind": OneOf(("a", "b"))}
    judge = lambda parameters, report: (parameters["x"] - 0.3) ** 2 + parameters["n"]  # noqa: E731
    by_model, at_random = (finished(plan(one, 14, space), judge).tried for one in ("tpe", "random"))
    assert [one.parameters for one in by_model[:10]] == [one.parameters for one in at_random[:10]]
    assert all(one.parameters != other.parameters for one, other in zip(by_model[10:], at_random[10:], strict=True))
    own = {"x": 0.5, "n": 7, "kind": "b"}
    first = finished(replace(plan("tpe", 12, space), first=own), judge).tried
    assert first[0].parameters == own
    assert [one.parameters for one in first[1:10]] == [one.parameters for one in at_random[1:10]]


@pytest.mark.spec("PRA-076")
def test_the_trend_is_that_of_optunas_sampler():
    """Means over 8 seeds of the logarithm of the best after 30 and 60 trials: within three errors of each other."""
    space = {"x": RealRange(-5.0, 5.0), "y": RealRange(1e-4, 1.0, log=True)}

    def cost(x, y):
        return (x - 2) ** 2 + np.log10(y / 0.03) ** 2

    def ours(seed):
        done = finished(plan("tpe", 60, space, seed=seed), lambda one, report: cost(**one)).tried
        return [one.value for one in done]

    def peer(seed):
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, multivariate=True))
        study.optimize(
            lambda trial: cost(trial.suggest_float("x", -5, 5), trial.suggest_float("y", 1e-4, 1, log=True)), 60
        )
        return [one.value for one in study.trials]

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    values = np.log([[one(seed) for seed in range(8)] for one in (ours, peer)])
    optuna.logging.set_verbosity(before)
    for n in (30, 60):
        best = values[:, :, :n].min(axis=2)
        error = np.sqrt(best.var(axis=1, ddof=1).sum() / 8)
        assert abs(best[0].mean() - best[1].mean()) < 3 * error
    early, late = values[0, :, :10].mean(), values[0, :, -10:].mean()
    assert late < early - 1  # later trials are better by a factor of e and more


@pytest.mark.spec("PRA-069")
def test_a_search_learns_from_trials_over_a_limit():
    """A twentieth of the range is within the limit: the excess of the others leads there, in each of 10 searches."""

    def judge(parameters, report):
        if parameters["x"] < 4.5:
            raise OverLimit("megabytes", 5.5 - parameters["x"], 1.0)
        return parameters["x"]

    for seed in range(10):
        study = finished(plan("tpe", 40, {"x": RealRange(-5.0, 5.0)}, seed=seed), judge)
        assert [one.state for one in study.tried[10:]].count("done") >= 5 and study.best().parameters["x"] >= 4.5
