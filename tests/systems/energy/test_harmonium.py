"""Harmoniums of all pairs of kinds: torch's distributions, sums and quadrature over both layers, known machines."""

import itertools

import numpy as np
import pytest
import torch
from scipy import integrate
from scipy.special import gammaln

from gnomon.distributions.binomial_units import BinomialUnits
from gnomon.distributions.harmonium_units import Poissons, PoissonUnits, RateUnits, TruncatedExponentialUnits
from gnomon.distributions.units import BernoulliUnits, CategoricalUnits, GaussianUnits, IsingUnits
from gnomon.errors import UserValueError
from gnomon.evaluation.partition import log_partition
from gnomon.numeric.noise import Noise
from gnomon.objectives.contrastive import CD
from gnomon.systems.energy.gaussian_rbm import GaussianRBMModel
from gnomon.systems.energy.harmonium import Harmonium, HarmoniumModel
from gnomon.systems.energy.rbm import RBMModel
from oracles.binary import numerical_gradient
from oracles.principles import mean_gradient

random = np.random.default_rng(0)
KINDS = {
    "bernoulli": BernoulliUnits, "ising": IsingUnits, "softmax": lambda n: CategoricalUnits(n, 3),
    "binomial": BinomialUnits, "gaussian": GaussianUnits, "poisson": PoissonUnits, "exponential": RateUnits,
    "gamma": lambda n: RateUnits(n, 3), "truncated": TruncatedExponentialUnits,
}  # fmt: skip
UNBOUNDED = {"poisson", "exponential", "gamma"}
PAIRS = [
    (a, b)
    for a, b in itertools.combinations_with_replacement(KINDS, 2)
    if not ("gaussian" in (a, b) and {a, b} & UNBOUNDED)
]


def nodes(kind):
    """Values of one unit, and the log of their base measure times the weight of a quadrature."""
    if kind == "bernoulli":
        return np.array([0.0, 1.0]), np.zeros(2)
    if kind == "ising":
        return np.array([-1.0, 1.0]), np.zeros(2)
    if kind == "binomial":
        return np.arange(3.0), np.log([1.0, 2.0, 1.0])
    if kind == "poisson":
        k = np.arange(60.0)
        return k, -gammaln(k + 1)
    if kind == "gaussian":
        x = np.linspace(-16, 16, 1601)
        return x, -0.5 * x * x + np.log(x[1] - x[0])
    t, w = np.polynomial.legendre.leggauss(200)
    if kind == "truncated":
        return (t + 1) / 2, np.log(w / 2)
    x = 0.5 * (t + 1) * 12  # of the logarithm of 1 + x
    shape = 3 if kind == "gamma" else 1
    return np.expm1(x), (shape - 1) * np.log(np.expm1(x)) + x + np.log(6 * w)


def pair(a, b, scale=0.4):
    """A machine of one unit in each layer, couplings and biases that keep it normalizable."""
    units = KINDS[a](1), KINDS[b](1)
    weight = scale * random.normal(size=(units[0].size, units[1].size))
    if {a, b} <= UNBOUNDED:
        weight = -np.abs(weight)
    biases = [0.5 * random.normal(size=one.size) - 3.5 * isinstance(one, RateUnits) for one in units]
    return HarmoniumModel.of(*units, weight, *biases), weight, biases


def table(a, b, weight, biases):
    """log p~ of all values of one unit beside those of the other, by the definition."""
    x, log_x = (np.eye(3), np.zeros(3)) if a == "softmax" else (nodes(a)[0][:, None], nodes(a)[1])
    h, log_h = (np.eye(3), np.zeros(3)) if b == "softmax" else (nodes(b)[0][:, None], nodes(b)[1])
    joint = (log_x + x @ biases[0])[:, None] + (log_h + h @ biases[1])[None] + x @ weight @ h.T
    return x, h, joint


@pytest.mark.spec("GEN-038")
@pytest.mark.parametrize(("a", "b"), PAIRS, ids=["-".join(one) for one in PAIRS])
def test_all_pairs_against_sums_over_both_layers(a, b):
    found, weight, biases = pair(a, b)
    x, h, joint = table(a, b, weight, biases)
    log_z = np.logaddexp.reduce(joint.ravel())
    some = np.array([0, len(x) // 3, len(x) // 2])
    by_visible = np.logaddexp.reduce(joint, axis=1) - (0 if a == "softmax" else nodes(a)[1]) + base_measure(a, x)
    np.testing.assert_allclose(-found.energy(x)[some], by_visible[some], rtol=1e-6)
    tensors = found.energy(torch.from_numpy(x[some])).detach()
    np.testing.assert_allclose(tensors, found.energy(x[some]), rtol=1e-9)
    by_hidden = np.logaddexp.reduce(joint, axis=0) - (0 if b == "softmax" else nodes(b)[1]) + base_measure(b, h)
    far = -found.marginal_energy({"hidden": h})
    places = np.array([0, len(h) // 3, len(h) // 2])
    np.testing.assert_allclose(far[places], by_hidden[places], rtol=1e-6)
    mean = found.conditional("hidden", {"visible": x[some]}).mean
    share = np.exp(joint[some] - np.logaddexp.reduce(joint[some], axis=1)[:, None])
    np.testing.assert_allclose(mean, share @ h, rtol=1e-6, atol=1e-9)
    if min(found.units["visible"].n_states, found.units["hidden"].n_states) < np.inf:
        assert found.log_partition() == pytest.approx(log_z, abs=1e-6)
    rows = np.array([0.5, 1.0, -0.3])
    gradient = found.marginal_gradient({"visible": x[some]}, rows)
    names = {"weight": weight, "visible_bias": biases[0], "hidden_bias": biases[1]}
    for name, value in names.items():

        def at(value, name=name):
            p = names | {name: value}
            one = HarmoniumModel.of(KINDS[a](1), KINDS[b](1), p["weight"], p["visible_bias"], p["hidden_bias"])
            return float(rows @ one.energy(x[some]))

        np.testing.assert_allclose(gradient[name], numerical_gradient(at, value), atol=1e-5)


def base_measure(kind, x):
    """Log of the base measure of a unit's values."""
    if kind == "softmax":
        return 0.0
    x = x[:, 0]
    if kind == "poisson":
        return -gammaln(x + 1)
    return {
        "gaussian": -0.5 * x * x, "binomial": np.log(np.where(x == 1, 2.0, 1.0)),
        "gamma": 2 * np.log(np.maximum(x, 1e-300)),
    }.get(kind, 0.0 * x)  # fmt: skip


@pytest.mark.spec("GEN-038")
def test_known_machines():
    W, a, b = random.normal(size=(3, 2)), random.normal(size=3), random.normal(size=2)
    X = (random.random((5, 3)) < 0.5).astype(float)
    rbm = RBMModel(3, 2, torch.float64)
    with torch.no_grad():
        for name, value in (("weight", W), ("visible_bias", a), ("hidden_bias", b)):
            rbm.get_parameter(name).copy_(torch.from_numpy(value))
    bits = HarmoniumModel.of(BernoulliUnits(3), BernoulliUnits(2), W, a, b)
    np.testing.assert_allclose(bits.energy(X), rbm.energy(X), rtol=1e-12)
    assert bits.log_partition() == pytest.approx(rbm.log_partition(), abs=1e-12)
    real, rows = HarmoniumModel.of(GaussianUnits(3), BernoulliUnits(2), W, a, b), random.normal(size=(5, 3))
    np.testing.assert_allclose(real.log_prob(rows), GaussianRBMModel.of(W, a, b).log_prob(rows), rtol=1e-11)


@pytest.mark.spec("GEN-038")
def test_conditionals_against_torch():
    field, own = random.normal(size=(6, 2)), {"bias": np.array([0.3, -0.4])}
    both = torch.from_numpy(field + own["bias"])
    counts = torch.from_numpy(random.integers(0, 5, (6, 2)).astype(float))
    positive, unit = torch.from_numpy(random.gamma(1.0, size=(6, 2))), torch.from_numpy(random.random((6, 2)))
    d = torch.distributions
    found = PoissonUnits(2).conditional(field.copy(), own)
    np.testing.assert_allclose(found.log_prob(counts.numpy()), d.Poisson(both.exp()).log_prob(counts).sum(1), rtol=1e-9)
    falling, bias = -np.abs(field), {"bias": np.array([-0.3, -0.4])}
    rate = -torch.from_numpy(falling + bias["bias"])
    for shape in (1, 3):
        law, found = d.Gamma(float(shape), rate), RateUnits(2, shape).conditional(falling.copy(), bias)
        np.testing.assert_allclose(found.log_prob(positive.numpy()), law.log_prob(positive).sum(1), rtol=1e-9)
        np.testing.assert_allclose(found.mean, law.mean, rtol=1e-9)
    exponential = RateUnits(2).conditional(falling.copy(), bias).log_prob(positive.numpy())
    np.testing.assert_allclose(exponential, d.Exponential(rate).log_prob(positive).sum(1), rtol=1e-9)
    # torch's continuous Bernoulli is the exponential density that is cut off at 0 and 1
    law, found = d.ContinuousBernoulli(logits=both), TruncatedExponentialUnits(2).conditional(field.copy(), own)
    np.testing.assert_allclose(found.log_prob(unit.numpy()), law.log_prob(unit).sum(1), rtol=1e-6)
    np.testing.assert_allclose(found.mean, law.mean, rtol=1e-6)
    np.testing.assert_allclose(found.variance, law.variance, rtol=1e-4)


@pytest.mark.spec("GEN-038")
@pytest.mark.parametrize("f", [-300.0, -5.0, -1e-3, -1e-5, 0.0, 1e-8, 9.9e-4, 1.1e-3, 2.0, 900.0])
def test_truncated_exponentials_at_all_slopes(f):
    found = TruncatedExponentialUnits(1).conditional(np.array([[f]]), {"bias": np.zeros(1)})
    top = max(f, 0.0)
    points = sorted({0.0, 1.0, min(1.0, 40 / max(abs(f), 1)), max(0.0, 1 - 40 / max(abs(f), 1))})
    moments = [
        sum(integrate.quad(lambda x, k=k: x**k * np.exp(f * x - top), p, q)[0] for p, q in itertools.pairwise(points))
        for k in range(3)
    ]
    assert found.log_mass[0, 0] == pytest.approx(np.log(moments[0]) + top, abs=1e-8, rel=1e-10)
    assert found.mean[0, 0] == pytest.approx(moments[1] / moments[0], abs=1e-8)
    assert found.variance[0, 0] == pytest.approx(moments[2] / moments[0] - (moments[1] / moments[0]) ** 2, abs=1e-7)


@pytest.mark.spec("GEN-038")
@pytest.mark.parametrize("kind", ["poisson", "exponential", "gamma", "truncated"])
def test_draws_have_the_moments(kind):
    """Means and variances of 40,000 draws within five standard errors: a false alarm in a million."""
    field = np.repeat([[-1.5, -0.2]], 40_000, axis=0)
    found = KINDS[kind](2).conditional(field.copy(), {"bias": np.full(2, -0.1)})
    drawn = found.sample(Noise(0, "draws"))
    error = np.sqrt(found.variance[0] / len(drawn))
    assert (np.abs(drawn.mean(0) - found.mean[0]) < 5 * error).all()
    spread = np.sqrt(((drawn - found.mean) ** 2).var(0) / len(drawn))
    assert (np.abs(((drawn - found.mean) ** 2).mean(0) - found.variance[0]) < 5 * spread).all()
    own = {"bias": torch.full((2,), -0.1, dtype=torch.float64)}
    by_torch = KINDS[kind](2).conditional(torch.from_numpy(field[:50].copy()), own)
    np.testing.assert_allclose(by_torch.sample(Noise(0, "draws")), drawn[:50], rtol=1e-9)
    np.testing.assert_allclose(by_torch.entropy(), found.entropy()[:50], rtol=1e-9)
    surprise = -found.log_prob(drawn)
    assert abs(surprise.mean() - found.entropy()[0]) < 5 * surprise.std() / 200


@pytest.mark.spec("GEN-038")
def test_the_mean_log_factorial():
    rates = np.array([[0.3, 7.0], [0.0001, 900.0]])
    found = Poissons(np.log(rates)).mean_log_factorial()
    k = np.arange(3000.0)
    p = np.exp(k * np.log(rates)[..., None] - rates[..., None] - gammaln(k + 1))
    np.testing.assert_allclose(found, (p * gammaln(k + 1)).sum((-1, -2)), rtol=1e-9)


REFUSED = {
    "normal layers": (
        GaussianUnits(2),
        GaussianUnits(2),
        [[0.8, 0.7], [0.7, 0.5]],
        0.0,
        0.0,
        r"singular value .* got 1\.",
    ),
    "counts": (PoissonUnits(1), PoissonUnits(1), [[0.1]], 0.0, 0.0, "must be at most 0, got 0.1"),
    "counts and rates": (PoissonUnits(1), RateUnits(1), [[0.1]], 0.0, -9.0, "must be at most 0, got 0.1"),
    "rates": (RateUnits(1), RateUnits(1), [[-0.1]], 0.0, -9.0, "rates of the visible units must be above 0"),
    "bits and rates": (BernoulliUnits(2), RateUnits(1), [[0.6], [0.6]], 0.0, -1.0, "rates of the hidden units"),
    "spins and rates": (IsingUnits(2), RateUnits(1), [[-0.6], [0.6]], 0.0, -1.0, "rates of the hidden units"),
    "trials and rates": (BinomialUnits(1, 3), RateUnits(1), [[0.4]], 0.0, -1.0, "rates of the hidden units"),
    "categories and rates": (CategoricalUnits(1, 2), RateUnits(1), [[-9.0], [1.1]], 0.0, -1.0, "rates of the hidden"),
}


@pytest.mark.spec("GEN-038")
@pytest.mark.parametrize("case", REFUSED)
def test_parameters_that_cannot_be_normalized_are_refused(case):
    *arguments, message = REFUSED[case]
    with pytest.raises(UserValueError, match=message):
        HarmoniumModel.of(*arguments)
    model = HarmoniumModel(*arguments[:2], torch.float64)
    with torch.no_grad():
        for name, value in zip(("weight", "visible_bias", "hidden_bias"), arguments[2:], strict=True):
            model.get_parameter(name).copy_(torch.as_tensor(value))
    model.confine()
    model.check_normalizable()
    slack = {"categories and rates": -0.9, "spins and rates": -1.3, "trials and rates": -1.3, "bits and rates": -1.3}
    if case in slack:  # what is just inside is let be
        W, shrunk = np.array(arguments[2]), 0.75 if case != "categories and rates" else 0.8
        HarmoniumModel.of(*arguments[:2], shrunk * W, 0.0, -1.0)


@pytest.mark.spec("GEN-038")
@pytest.mark.parametrize("hidden", ["poisson", "exponential"])
def test_normal_units_beside_counts_are_refused(hidden):
    with pytest.raises(UserValueError, match="have no density together"):
        Harmonium(visible="gaussian", hidden=hidden, random_state=0).fit(random.normal(size=(9, 2)))


@pytest.mark.spec("GEN-038")
@pytest.mark.parametrize(("a", "b"), [("poisson", "bernoulli"), ("truncated", "exponential"), ("gaussian", "gaussian")])
def test_annealing_and_expected_contrastive_divergence(a, b):
    """The gradient of 6,000 rows after 20 steps, whose standard errors are 0.03 at most; a fixed seed."""
    found, weight, biases = pair(a, b, scale=0.6)
    joint = table(a, b, weight, biases)[2]
    score = log_partition(found, "ais", Noise(0, "z"), schedule=60, chains=200)
    assert abs(score.value - np.logaddexp.reduce(joint.ravel())) < 5 * score.error + 1e-6
    row = np.array([[1.0]])
    gradient = mean_gradient(CD(k=20).build(), found, np.repeat(row, 6000, axis=0))
    names = {"weight": weight, "visible_bias": biases[0], "hidden_bias": biases[1]}
    for name, value in names.items():

        def loss(value, name=name):
            p = names | {name: value}
            one = HarmoniumModel.of(KINDS[a](1), KINDS[b](1), *p.values())
            total = table(a, b, p["weight"], [p["visible_bias"], p["hidden_bias"]])[2]
            return float(one.energy(row)[0] + np.logaddexp.reduce(total.ravel()))

        np.testing.assert_allclose(gradient[name], numerical_gradient(loss, value), atol=0.15)


@pytest.mark.spec("GEN-038")
def test_fits_of_tables_of_each_kind():
    group = np.repeat([[0.0, 1.0]], 200, axis=0).ravel()[:, None]
    tables = {
        "bernoulli": (random.random((400, 3)) < 0.1 + 0.8 * group).astype(float),
        "poisson": random.poisson(1 + 8 * group * np.ones((1, 3))).astype(float),
        "gaussian": random.normal(size=(400, 3)) + 5 * group,
        "truncated-exponential": random.beta(1 + 8 * group, 9 - 8 * group, size=(400, 3)),
    }
    for visible, X in tables.items():
        system = Harmonium(visible=visible, n_hidden=2, epochs=30, learning_rate=0.03, random_state=0).fit(X)
        alone = system.domain.baseline(X)
        assert system.score(X) > np.asarray(alone.log_prob(X)).mean() + 0.1, visible
        codes = system.transform(X)
        assert np.abs(codes[group[:, 0] == 1].mean(0) - codes[group[:, 0] == 0].mean(0)).max() > 0.5
        system.domain.check(system.sample(20, steps=5, random_state=0))
    with pytest.raises(UserValueError, match="visible must be a kind of unit that a table can hold, got 'softmax'"):
        Harmonium(visible="softmax").fit(tables["poisson"])
