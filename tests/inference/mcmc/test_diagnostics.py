"""R-hat, effective sample size and Monte Carlo error: known processes, the definitions by plain loops, parity."""

from __future__ import annotations

import math
import warnings
from statistics import NormalDist

import numpy as np
import pytest
from arviz_stats.base import array_stats

from gnomon.errors import UserValueError
from gnomon.inference.mcmc.diagnostics import autocorrelation, copies, ess, integrated_time, mcse, r_hat, summarize
from gnomon.numeric.noise import Noise


def normals(shape, seed):
    return Noise(seed, "draws").normal(shape, like=np.empty(0))


def ar1(a, chains, n, seed, d=1):
    """x' = a x + sqrt(1 - a^2) e, from its stationary law."""
    e = normals((chains, n, d), seed)
    x = e.copy()
    for t in range(1, n):
        x[:, t] = a * x[:, t - 1] + math.sqrt(1 - a * a) * e[:, t]
    return x


# the definitions, by plain loops over numbers


def loop_scores(chains):
    flat = [v for chain in chains for v in chain]
    order = sorted(flat)
    rank = {v: sum(i + 1 for i, w in enumerate(order) if w == v) / order.count(v) for v in set(flat)}
    return [[NormalDist().inv_cdf((rank[v] - 3 / 8) / (len(flat) + 1 / 4)) for v in chain] for chain in chains]


def loop_halves(chains):
    h = len(chains[0]) // 2
    return [c[:h] for c in chains] + [c[-h:] for c in chains]


def loop_variance(x):
    m = math.fsum(x) / len(x)
    return math.fsum((v - m) ** 2 for v in x) / (len(x) - 1)


def loop_r_hat(chains):
    n = len(chains[0])
    within = math.fsum(map(loop_variance, chains)) / len(chains)
    between = loop_variance([math.fsum(c) / n for c in chains])
    return math.sqrt(((n - 1) / n * within + between) / within)


def loop_rank_r_hat(chains):
    halves = loop_halves(chains)
    middle = float(np.median(halves))
    return max(loop_r_hat(loop_scores(halves)), loop_r_hat(loop_scores([[abs(v - middle) for v in c] for c in halves])))


def loop_ess(chains):
    m, n = len(chains), len(chains[0])
    means = [math.fsum(c) / n for c in chains]
    within = math.fsum(map(loop_variance, chains)) / m
    total = (n - 1) / n * within + (loop_variance(means) if m > 1 else 0)

    def rho(t):
        lagged = [
            math.fsum((c[i] - u) * (c[i + t] - u) for i in range(n - t)) / n for c, u in zip(chains, means, strict=True)
        ]
        return 1.0 if t == 0 else 1 - (within - math.fsum(lagged) / m) / total

    time, least, t = -1.0, math.inf, 0
    while t + 4 < n and rho(t) + rho(t + 1) >= 0:
        least = min(least, rho(t) + rho(t + 1))
        time, t = time + 2 * least, t + 2
    return m * n / max(time + max(rho(t), 0), 1 / math.log10(m * n))


@pytest.mark.spec("INF-17")
@pytest.mark.parametrize("a", [0.9, 0.3, -0.5])
@pytest.mark.parametrize(("chains", "n"), [(4, 60), (1, 41), (3, 101)])
def test_numbers_are_those_of_the_definitions(a, chains, n):
    x = ar1(a, chains, n, seed=n, d=3)
    x[..., 2] = x[..., 2].round(0)  # ties
    for j in range(3):
        plain = x[..., j].tolist()
        halves = loop_halves(plain)
        assert r_hat(x)[j] == pytest.approx(loop_rank_r_hat(plain), rel=1e-10)
        assert ess(x, "mean")[j] == pytest.approx(loop_ess(halves), rel=1e-9)
        assert ess(x)[j] == pytest.approx(loop_ess(loop_scores(halves)), rel=1e-9)
        tails = []
        for p in (0.05, 0.95):
            bound = float(np.quantile(x[..., j], p))
            below = loop_halves([[float(v <= bound) for v in c] for c in plain])
            tails.append(loop_ess(below) if len({v for c in below for v in c}) == 2 else math.inf)
        assert ess(x, "tail")[j] == pytest.approx(min(tails), rel=1e-9)
        sd = math.sqrt(loop_variance([v for c in plain for v in c]))
        assert mcse(x)[j] == pytest.approx(sd / math.sqrt(loop_ess(halves)), rel=1e-9)


@pytest.mark.spec("INF-17")
@pytest.mark.parametrize(("chains", "n"), [(4, 500), (8, 333), (1, 100)])
@pytest.mark.parametrize("a", [0.95, 0.5, 0.0, -0.7])
def test_parity_with_arviz(a, chains, n):
    x = ar1(a, chains, n, seed=7, d=2)
    x[..., 1] = np.exp(3 * x[..., 1])  # heavy tails
    for j in range(2):
        one = x[..., j]
        for kind in ("bulk", "tail", "mean"):
            prob = (0.05, 0.95) if kind == "tail" else None
            assert ess(one, kind) == pytest.approx(float(array_stats.ess(one, method=kind, prob=prob)), rel=1e-9)
        assert mcse(one) == pytest.approx(float(array_stats.mcse(one, method="mean")), rel=1e-9)
        if chains > 1:
            assert r_hat(one) == pytest.approx(float(array_stats.rhat(one, method="rank")), rel=1e-9)
        for chain in one:
            theirs = np.ravel(array_stats.autocorr(chain))
            assert np.allclose(autocorrelation(chain[None])[0], theirs, rtol=0, atol=1e-10)


@pytest.mark.spec("INF-17")
@pytest.mark.parametrize("a", [0.9, 0.5, -0.4])
def test_ar1_has_its_known_correlations_and_time(a):
    """rho_k = a^k and tau = (1 + a) / (1 - a); 64 coordinates of 4 x 8000 draws settle tau to a percent or so."""
    x = ar1(a, 4, 8000, seed=1, d=64)
    rho = autocorrelation(x).mean(axis=(0, 2))
    assert np.allclose(rho[:8], a ** np.arange(8.0), rtol=0, atol=0.01)
    time = (1 + a) / (1 - a)
    assert np.mean(integrated_time(x)) == pytest.approx(time, rel=0.03)
    assert np.mean(ess(x)) == pytest.approx(4 * 8000 / time, rel=0.03)
    # the error of the mean is what it says: 256 z-scores have variance 1 within 5 of its errors sqrt(2 / 64)
    z = x.mean(axis=(0, 1)) / mcse(x)
    assert np.mean(z**2) == pytest.approx(1, abs=5 * math.sqrt(2 / 64))


@pytest.mark.spec("INF-17")
def test_gibbs_on_a_normal_with_correlation_099():
    """One coordinate of a two-block sweep is AR(1) with rho^2: tau = 99.5025."""
    rho, n = 0.99, 40_000
    e = normals((8, n, 2, 4), 3)
    x, kept = e[:, 0, 0].copy(), np.empty((8, n, 4))
    for t in range(n):
        y = rho * x + math.sqrt(1 - rho * rho) * e[:, t, 0]
        x = rho * y + math.sqrt(1 - rho * rho) * e[:, t, 1]
        kept[:, t] = x
    assert np.mean(integrated_time(kept)) == pytest.approx(99.5025, rel=0.06)
    assert autocorrelation(kept)[:, 1].mean() == pytest.approx(rho**2, abs=1e-3)


@pytest.mark.spec("INF-17")
def test_independent_draws_look_so_and_divided_chains_do_not():
    x = normals((4, 2000, 200), 5)
    assert np.mean(ess(x, "mean")) == pytest.approx(8000, rel=0.03)
    assert (r_hat(x) < 1.01).all()
    apart = x + 0.5 * np.arange(4)[:, None, None]  # the same spread, other places
    assert (r_hat(apart) > 1.05).all()
    wide = x * np.array([1.0, 1, 1, 3])[:, None, None]  # the same place, another spread: seen by the folded one
    assert (r_hat(wide) > 1.05).all()
    drift = x + np.linspace(0, 2, 2000)[None, :, None]  # seen by the halves
    assert (r_hat(drift) > 1.05).all()
    cauchy = 1 / x
    assert np.isfinite(r_hat(cauchy)).all()
    assert np.allclose(r_hat(cauchy[..., :3]), r_hat(np.arctan(cauchy[..., :3])), rtol=0.01)  # ranks alone count


@pytest.mark.spec("INF-17")
def test_chains_that_stand_still_are_flagged():
    stuck = np.repeat(np.array([0.1, 0.7, 0.3, 0.9])[:, None], 100, axis=1)
    assert r_hat(stuck) == math.inf
    assert ess(stuck) < 10
    x = np.stack([stuck, np.full((4, 100), 0.1), normals((4, 100), 1)], axis=2)
    x[2, 3, 2] = np.nan
    found = summarize({"theta": x})
    assert found.marks == ("not mixed, few", "constant or not finite", "constant or not finite")
    assert np.isnan(r_hat(x)[1:]).all()
    assert np.isnan(ess(x)[1:]).all()
    assert np.isnan(autocorrelation(x)[:, :, 1]).all()
    assert "theta[1]" in str(found)
    assert "constant or not finite" in str(found).splitlines()[2]


@pytest.mark.spec("INF-17")
def test_the_table_names_every_coordinate():
    x = {"mu": normals((4, 800), 1), "w": normals((4, 800, 2, 2), 2)}
    found = summarize(x)
    assert found.names == ("mu", "w[0, 0]", "w[0, 1]", "w[1, 0]", "w[1, 1]")
    assert found.columns["mean"][3] == pytest.approx(x["w"][:, :, 1, 0].mean())
    assert found.columns["sd"][3] == pytest.approx(x["w"][:, :, 1, 0].std(ddof=1))
    assert found.columns["ess_tail"][0] == pytest.approx(ess(x["mu"], "tail"))
    assert found.flagged == {}
    assert summarize(x["mu"][:, :50]).flagged.keys() == {"x"}


def test_more_coordinates_than_one_block_and_bad_shapes():
    x = ar1(0.5, 2, 50, 3, d=150)
    assert np.array_equal(ess(x)[[0, 149]], ess(x[..., [0, 149]]))
    assert ess(x.reshape(2, 50, 10, 15)).shape == (10, 15)
    with pytest.raises(
        UserValueError,
        match=r"draws must be \(chains, draws, \.\.\.\) with 4 draws or more, got an array of shape \(5,\)",
    ):
        r_hat(np.zeros(5))
    with pytest.raises(UserValueError, match="8 or more"):
        ess(np.zeros((2, 6)))
    with pytest.raises(UserValueError, match=r"kind must be .* got 'median'"):
        ess(x, "median")


@pytest.mark.parametrize("scale", [2.0**-700, 1e-200, 1e-6, 1e200, 2.0**1000])
def test_every_diagnostic_at_every_scale(scale):
    """B2-21: mean, sd and error in the units of the draws, all else without units."""
    x = np.random.default_rng(0).normal(size=(4, 400, 2))
    x[1, :, 1] += 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain, scaled = summarize(x), summarize(x * scale)
        for name in plain.columns:
            units = scale if name in ("mean", "sd", "mcse") else 1.0
            rtol = 1e-4 if name == "r_hat" else 1e-10  # two distances from the median may tie in one unit only
            np.testing.assert_allclose(scaled.columns[name], plain.columns[name] * units, rtol=rtol)
        np.testing.assert_allclose(ess(x * scale, "mean"), ess(x, "mean"), rtol=1e-10)
        np.testing.assert_allclose(mcse(x * scale), mcse(x) * scale, rtol=1e-10)
        np.testing.assert_allclose(autocorrelation(x * scale), autocorrelation(x), atol=1e-12)
    assert plain.marks == scaled.marks == ("", "not mixed, few")
    np.testing.assert_allclose(plain.columns["sd"], x.std(axis=(0, 1), ddof=1), rtol=1e-12)
    np.testing.assert_allclose(plain.columns["mean"], x.mean(axis=(0, 1)), rtol=1e-12)


def test_a_copy_of_a_chain_counts_once():
    """HB-08: four processes with one seed draw no more than one does."""
    one = np.random.default_rng(0).normal(size=(1, 500, 2))
    four = np.repeat(one, 4, axis=0)
    assert copies(four) == [[0, 1, 2, 3]]
    for number in (r_hat, ess, lambda x: ess(x, "tail"), lambda x: ess(x, "mean")):
        np.testing.assert_array_equal(number(four), number(one))
    np.testing.assert_allclose(mcse(four), mcse(one), rtol=2e-3)
    four[2, 7, 1] += 1e-9
    assert copies(four) == [[0, 1, 3]]
    still = np.zeros((3, 20))
    assert copies(still) == []  # chains that stand still are no copies; that they do is said elsewhere


def test_copies_are_found_by_the_diagnosis():
    """HB-08: named in a warning, and the draws of one chain are too few for two."""
    import gnomon
    from gnomon.inference.mcmc.records import Draws

    x = np.random.default_rng(0).normal(size=(3, 150, 1))
    found = gnomon.diagnose(Draws({"x": x[[0, 1, 0]]}, {}, {}))
    assert found.level == "warning"
    assert "chains 0, 2 are the same draw for draw" in str(found)
    assert "one seed for all?" in str(found)
    assert "same draw for draw" not in str(gnomon.diagnose(Draws({"x": x}, {}, {})).findings[1:])
    apart = np.concatenate([x, x[:, ::-1]], axis=2)[[0, 1, 2]]
    assert gnomon.diagnose(Draws({"x": apart}, {}, {})).findings[0].level == "ok"
