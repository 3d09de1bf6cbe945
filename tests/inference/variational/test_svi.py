"""Stochastic variational inference against closed forms, and the conjugate algebra that its steps are made of."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from gnomon.distributions.conjugate import (
    BernoulliBeta,
    CategoricalDirichlet,
    MultivariateNormalMean,
    MultivariateNormalMeanPrecision,
    MultivariateNormalPrecision,
    NormalMean,
    NormalMeanPrecision,
    NormalPrecision,
    PoissonGamma,
    UniformPareto,
)
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.variational.conjugate_models import ConjugateMixture
from gnomon.inference.variational.families import MeanField
from gnomon.inference.variational.method import VariationalProblem
from gnomon.inference.variational.svi import SVI, StreamingPosterior
from gnomon.inference.variational.windows import BoundWindows, batch_rows
from gnomon.numeric.noise import Noise
from gnomon.tasks.posterior import fit_posterior

RNG = np.random.default_rng(0)
NUMBERS, VECTORS = RNG.normal(1, 2, 12), RNG.normal(size=(12, 2))
PAIRS = {
    "normal-mean": (NormalMean(0.5, 2.0, 1.5), NUMBERS),
    "normal-precision": (NormalPrecision(2.0, 1.0, 0.5), NUMBERS),
    "normal-gamma": (NormalMeanPrecision(0.2, 0.7, 2.0, 1.5), NUMBERS),
    "beta": (BernoulliBeta(2.0, 3.0), (NUMBERS > 1).astype(float)),
    "dirichlet": (CategoricalDirichlet((1.0, 2.0, 0.5)), np.arange(12) % 3),
    "gamma": (PoissonGamma(2.0, 1.0), np.arange(12) % 5),
    "vector-mean": (MultivariateNormalMean([0.1, 0.2], [[2.0, 0.3], [0.3, 1.0]], [[1.0, 0.4], [0.4, 2.0]]), VECTORS),
    "wishart": (MultivariateNormalPrecision(4.0, [[2.0, 0.3], [0.3, 1.0]], [0.1, 0.0]), VECTORS),
    "normal-wishart": (MultivariateNormalMeanPrecision([0.1, 0.2], 0.8, 4.0, [[2.0, 0.3], [0.3, 1.0]]), VECTORS),
}


@pytest.mark.parametrize("name", PAIRS)
def test_natural_parameters_add_up_and_lead_back(name):
    prior, x = PAIRS[name]
    at = prior.update(x)
    assert at.with_natural(at.natural).natural == pytest.approx(at.natural, rel=1e-10)
    parts = sum(prior.update(row[None]).natural - prior.natural for row in np.asarray(x))
    assert prior.natural + parts == pytest.approx(at.natural, rel=1e-9)
    assert prior.update(x, 3.0).natural == pytest.approx(prior.natural + 3 * (at.natural - prior.natural), rel=1e-9)


@pytest.mark.parametrize("name", PAIRS)
def test_mean_log_likelihood_and_divergence_give_the_bound_that_evidence_gives(name):
    """E_q[log p(x)] = log evidence under q - KL(q || q given x); KL is minus 1/2 dl F dl for small moves."""
    prior, x = PAIRS[name]
    q = prior.update(x[:5])
    for row in np.asarray(x[5:9])[:, None]:
        exact = q.log_evidence(row) - q.divergence(q.update(row))
        assert float(q.mean_log_likelihood(row)[0]) == pytest.approx(exact, abs=1e-8)
    assert q.divergence(q) == pytest.approx(0, abs=1e-10)
    # KL(a || b) = <a - b, grad A(a)> - A(a) + A(b), the slope by differences
    a, b = q.natural, prior.natural
    h = 1e-4
    steps = [q.with_natural(a + s * h * (a - b)).log_normalizer for s in (-2, -1, 1, 2)]
    slope = (steps[0] - 8 * steps[1] + 8 * steps[2] - steps[3]) / (12 * h)
    assert q.divergence(prior) == pytest.approx(slope - q.log_normalizer + prior.log_normalizer, rel=1e-6)


@pytest.mark.spec("BAY-53")
@pytest.mark.parametrize("name", PAIRS)
def test_conjugate_models_reach_the_exact_posterior(name):
    prior, x = PAIRS[name]
    exact = prior.update(x)
    whole = StreamingPosterior(prior, len(x)).partial_fit(x, rate=1.0)
    assert whole.q.natural == pytest.approx(exact.natural, rel=1e-10)  # a full batch and a step of 1
    assert whole.elbo(x)[0] == pytest.approx(prior.log_evidence(x), abs=1e-8) and whole.elbo(x)[1] == 0
    stream = StreamingPosterior(prior, len(x), tau=0.0, kappa=1.0)
    for _ in range(2):
        for k in range(0, 12, 3):
            stream.partial_fit(x[k : k + 3])
    assert stream.q.natural == pytest.approx(exact.natural, rel=1e-9)  # steps 1 / t average the batches
    assert stream.n_updates == 8


@pytest.mark.spec("BAY-53")
@pytest.mark.parametrize("name", ["normal-gamma", "mixture"])
def test_gradients_and_bounds_of_batches_are_those_of_all_rows_on_average(name):
    if name == "mixture":
        prior, x, start = MIXTURE, CLOUDS, MIXTURE.begin(CLOUDS, Noise(1, "start"))
    else:
        (prior, x), start = PAIRS[name], PAIRS[name][0].update(NUMBERS[:2])
    stream = StreamingPosterior(prior, len(x), start=start)
    batches = np.split(np.asarray(x), 4)
    mean = np.mean([stream.gradient(batch) for batch in batches], axis=0)
    assert mean == pytest.approx(stream.gradient(x), rel=1e-9, abs=1e-9)
    bounds = [stream.elbo(batch) for batch in batches]
    assert np.mean([value for value, _ in bounds]) == pytest.approx(stream.elbo(x)[0], rel=1e-10)
    assert all(error > 0 for _, error in bounds)


# --- local latents ----------------------------------------------------------------------------------------------------

CLOUDS = np.random.default_rng(3).permutation(
    np.concatenate([np.random.default_rng(1).normal(-3, 1, 40), np.random.default_rng(2).normal(2, 0.5, 60)])
)
MIXTURE = ConjugateMixture(CategoricalDirichlet((1.0, 1.0)), (NormalMeanPrecision(0.0, 0.1, 1.0, 1.0),) * 2)


def coordinate_update(q, x):
    """One cycle of coordinate ascent on a mixture of two normals, written out (Bishop 2006, section 10.2)."""
    a = np.array(q.weights.concentration)
    log_r = special.digamma(a) - special.digamma(a.sum())
    log_r = log_r + np.stack([
        0.5 * (special.digamma(c.concentration) - np.log(c.rate) - np.log(2 * np.pi))
        - 0.5 * (c.concentration / c.rate * (x - c.mean) ** 2 + 1 / c.strength)
        for c in q.components
    ], axis=1)  # fmt: skip
    r = np.exp(log_r - special.logsumexp(log_r, axis=1, keepdims=True))
    parts = []
    for k in range(2):
        n, prior = r[:, k].sum(), MIXTURE.components[k]
        center = (r[:, k] * x).sum() / n
        strength = prior.strength + n
        mean = (prior.strength * prior.mean + n * center) / strength
        rate = prior.rate + 0.5 * (r[:, k] * (x - center) ** 2).sum()
        rate += 0.5 * prior.strength * n * (center - prior.mean) ** 2 / strength
        parts.append((mean, strength, prior.concentration + n / 2, rate))
    return 1.0 + r.sum(0), parts


@pytest.mark.spec("BAY-53")
def test_a_step_of_one_over_all_rows_is_coordinate_ascent():
    stream = StreamingPosterior(MIXTURE, len(CLOUDS), start=MIXTURE.begin(CLOUDS, Noise(1, "start")))
    before = -np.inf
    for _ in range(6):
        weights, parts = coordinate_update(stream.q, CLOUDS)
        stream.partial_fit(CLOUDS, rate=1.0)
        assert stream.q.weights.concentration == pytest.approx(weights, rel=1e-10)
        for found, one in zip(stream.q.components, parts, strict=True):
            assert (found.mean, found.strength, found.concentration, found.rate) == pytest.approx(one, rel=1e-9)
        bound, _ = stream.elbo(CLOUDS)
        assert bound > before - 1e-9
        before = bound
    # the local update is the best one: any other memberships bound less
    logits = stream.q._logits(CLOUDS)
    best = stream.q.row_bounds(CLOUDS)
    rng = np.random.default_rng(0)
    for r in (stream.q.responsibilities(CLOUDS), *rng.dirichlet([1, 1], (5, len(CLOUDS)))):
        value = (r * logits + special.entr(r)).sum(1)
        assert (value <= best + 1e-10).all()
    assert (stream.q.responsibilities(CLOUDS) * logits
            + special.entr(stream.q.responsibilities(CLOUDS))).sum(1) == pytest.approx(best)  # fmt: skip


@pytest.mark.spec("BAY-53")
def test_batches_and_all_rows_end_at_one_bound():
    whole = fit_posterior(MIXTURE, method="svi", data=CLOUDS, random_state=0)
    some = fit_posterior(MIXTURE, method="svi", data=CLOUDS, batch_size=25, random_state=0, method__window=50)
    assert whole.converged_ and some.converged_ and (np.diff(whole.elbo_history_) > -1e-9).all()
    assert some.elbo_.value == pytest.approx(whole.elbo_.value, abs=0.05) and whole.elbo_.error == 0
    assert np.sort(some.mean["weights"]) == pytest.approx([0.4, 0.6], abs=0.03)
    names = set(whole.marginals)
    assert names == {"weights[0]", "weights[1]", *(f"component_{k}/{n}" for k in (0, 1) for n in ("mean", "precision"))}
    draws = whole.sample(4000)
    for k in (0, 1):
        name = f"component_{k}/mean"
        assert draws[name].mean() == pytest.approx(float(whole.mean[name]), abs=0.02)
    assert whole.log_prob({name: x[:3] for name, x in draws.items()}).shape == (3,)
    assert np.isnan(whole.pareto_k_) and "component_0/mean" in whole.table()


def test_a_pair_by_the_verb():
    found = fit_posterior(NormalMean(), method="svi", data=[1.0, 2.0, 3.0])
    assert found.elbo_.value == pytest.approx(-5.949963, abs=1e-6) and found.pareto_k_ == 0
    assert found.q_.pair == NormalMean(1.5, 0.25)
    assert found.sample(5)["parameter"].shape == (5,)
    both = fit_posterior(NormalMeanPrecision(), method="svi", data=[1.0, 2.0, 3.0])
    assert set(both.mean) == {"mean", "precision"} and both.elbo_.value == pytest.approx(
        NormalMeanPrecision().log_evidence([1.0, 2.0, 3.0])
    )


@pytest.mark.parametrize("batch_size", [None, 20])
def test_an_ascent_goes_on_bitwise_from_its_state(batch_size):
    problem = VariationalProblem(MIXTURE, MeanField(), None, CLOUDS, batch_size)

    def made():
        return SVI(window=10).ascent(problem, Noise(0, "test"))

    whole, half, fresh = made(), made(), made()
    steps = [whole.step(t) for t in range(24)]
    for t in range(11):
        half.step(t)
    fresh.load({name: np.array(x) for name, x in half.state().items()})
    assert [fresh.step(t) for t in range(11, 24)] == steps[11:]
    assert (fresh.state()["natural"] == whole.state()["natural"]).all()


def test_batches_of_an_epoch_hold_every_row_once():
    rows = [batch_rows(12, 4, t, Noise(0, "order")) for t in range(6)]
    assert sorted(np.concatenate(rows[:3])) == sorted(np.concatenate(rows[3:])) == list(range(12))
    assert not np.array_equal(np.concatenate(rows[:3]), np.concatenate(rows[3:]))
    windows = BoundWindows(4)
    assert [windows.add(x) for x in (0.0, 0.1, 0.0, 0.1, 5.0, 5.1, 5.0, 5.1, 5.0, 5.1, 5.0, 5.1)][3::4] == [True] * 3
    assert windows.flat == 1  # the second window has risen, the third has not


def test_refusals():
    with pytest.raises(UserTypeError, match="data is required"):
        fit_posterior(NormalMean(), method="svi")
    with pytest.raises(UserTypeError, match="need a conjugate pair"):
        fit_posterior(lambda z: z, method="svi", data=[1.0])
    with pytest.raises(UserTypeError, match="prior must be an exponential family"):
        StreamingPosterior(UniformPareto(), 3)
    with pytest.raises(UserValueError, match="family must be 'mean-field' with method='svi'"):
        fit_posterior(NormalMean(), "full", "svi", data=[1.0])
    with pytest.raises(UserValueError, match="components must be 2"):
        ConjugateMixture(CategoricalDirichlet((1.0, 1.0)), (NormalMean(),))
    with pytest.raises(UserValueError, match=r"rate must be in \(0, 1\]"):
        StreamingPosterior(NormalMean(), 3).partial_fit([1.0], rate=1.5)
    with pytest.warns(UserWarning, match="kappa should be in"):
        StreamingPosterior(NormalMean(), 3, kappa=0.4)
