"""The machine of means and covariances: the row's numbers, quadrature, the explicit mixture, differences."""

import itertools

import numpy as np
import pytest
import torch
from scipy import integrate
from scipy.special import expit
from scipy.stats import multivariate_normal

from gnomon.data.batches import Batch
from gnomon.errors import UserValueError
from gnomon.evaluation.partition import log_partition
from gnomon.numeric.noise import Noise
from gnomon.objectives.contrastive import CD, Exact
from gnomon.systems.energy.gaussian_rbm import GaussianRBMModel
from gnomon.systems.energy.mcrbm import MCRBM, MCRBMModel
from gnomon.training.group import Group
from oracles.binary import numerical_gradient

random = np.random.default_rng(0)
W, R = 0.7 * random.normal(size=(3, 2)), random.normal(size=(3, 2))
B, A = random.normal(size=4), 0.3 * random.normal(size=3)
ROWS = random.normal(size=(9, 3))
HIDDEN = np.array(list(itertools.product([0.0, 1.0], repeat=4)))
GIVEN = {"weight": W, "filters": R, "hidden_bias": B, "visible_bias": A}


def machine(**changes):
    p = {**GIVEN, **changes}
    return MCRBMModel.of(p["weight"], p["filters"], p["hidden_bias"], p["visible_bias"])


def joint_energy(x, h, weight=W, filters=R, hidden_bias=B, visible_bias=A):
    """The energy by its definition, every term written out; the offset of the columns beside it."""
    m = weight.shape[1]
    total = 0.5 * (x * x).sum() - visible_bias @ x - hidden_bias @ h
    for j in range(m):
        total -= (x @ weight[:, j]) * h[j]
    for j in range(filters.shape[1]):
        total += 0.5 * h[m + j] * (x @ filters[:, j]) ** 2
    return total


def mixture(**changes):
    """log Z, and for each state of the hidden units its log weight, and mean and covariance of x by inversion."""
    p, parts = {**GIVEN, **changes}, []
    m = p["weight"].shape[1]
    for h in itertools.product([0.0, 1.0], repeat=len(p["hidden_bias"])):
        covariance = np.linalg.inv(np.eye(len(p["weight"])) + (p["filters"] * h[m:]) @ p["filters"].T)
        linear = p["visible_bias"] + p["weight"] @ h[:m]
        weight = np.dot(p["hidden_bias"], h) + 0.5 * linear @ covariance @ linear
        weight += 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
        parts.append((weight, covariance @ linear, covariance))
    log_z = np.logaddexp.reduce([w for w, _, _ in parts])
    return log_z, [(w - log_z, mean, c) for w, mean, c in parts]


def log_density(rows, **changes):
    return np.logaddexp.reduce([w + multivariate_normal(m, c).logpdf(rows) for w, m, c in mixture(**changes)[1]])


@pytest.mark.spec("GEN-040")
def test_the_numbers_of_the_row():
    found = MCRBMModel.of([[0.5]], [[2.0]], [0.1, 0.2])
    assert found.log_partition() == pytest.approx(2.147850, abs=5e-7)
    four = sum(
        np.exp(0.1 * m + 0.2 * c + 0.5 * (0.5 * m) ** 2 / (1 + 4 * c)) * np.sqrt(2 * np.pi / (1 + 4 * c))
        for m in (0, 1) for c in (0, 1)
    )  # fmt: skip
    by_quadrature = integrate.quad(lambda x: np.exp(-found.energy(np.array([[x]]))[0]), -15, 15, epsabs=1e-12)[0]
    assert np.log([four, by_quadrature]) == pytest.approx([2.147850, 2.147850], abs=5e-7)
    given = found.conditional("hidden", {"visible": np.array([[0.5]])}).mean
    assert given[0, 1] == pytest.approx(0.425557, abs=5e-7)


@pytest.mark.spec("GEN-039", "GEN-040")
@pytest.mark.parametrize("n_mean", [0, 2])
def test_energies_conditionals_and_density_by_definition(n_mean):
    bias = B[2 - n_mean :]
    p = {"weight": W[:, :n_mean], "filters": R, "hidden_bias": bias, "visible_bias": A}
    found = machine(**p)
    hidden = np.array(list(itertools.product([0.0, 1.0], repeat=n_mean + 2)))
    rows = np.resize(ROWS, (len(hidden), 3))
    joint = [joint_energy(x, h, **p) for x, h in zip(rows, hidden, strict=True)]
    np.testing.assert_allclose(found.joint_energy({"visible": rows, "hidden": hidden}), joint, rtol=1e-11)
    free = 0.5 * (ROWS**2).sum(1) - ROWS @ A - np.logaddexp(0, bias[:n_mean] + ROWS @ W[:, :n_mean]).sum(1)
    free -= np.logaddexp(0, bias[n_mean:] - 0.5 * (ROWS @ R) ** 2).sum(1)
    np.testing.assert_allclose(found.energy(ROWS), free, rtol=1e-11)
    np.testing.assert_allclose(found.energy(torch.from_numpy(ROWS)).detach(), free, rtol=1e-11)
    chance = found.conditional("hidden", {"visible": ROWS}).mean
    np.testing.assert_allclose(chance[:, n_mean:], expit(bias[n_mean:] - 0.5 * (ROWS @ R) ** 2), rtol=1e-11)
    np.testing.assert_allclose(chance[:, :n_mean], expit(bias[:n_mean] + ROWS @ W[:, :n_mean]), rtol=1e-11)
    visible, (log_z, parts) = found.conditional("visible", {"hidden": hidden}), mixture(**p)
    np.testing.assert_allclose(visible.mean, [m for _, m, _ in parts], atol=1e-12)
    np.testing.assert_allclose(visible.covariance, [c for _, _, c in parts], atol=1e-12)
    each = [multivariate_normal(m, c).logpdf(x) for x, (_, m, c) in zip(rows, parts, strict=True)]
    np.testing.assert_allclose(visible.log_prob(rows), each, rtol=1e-10)
    np.testing.assert_allclose(visible.entropy(), [multivariate_normal(m, c).entropy() for _, m, c in parts])
    assert found.log_partition() == pytest.approx(log_z, abs=1e-11)
    np.testing.assert_allclose(found.log_prob(ROWS), log_density(ROWS, **p), rtol=1e-10)


@pytest.mark.spec("GEN-039", "GEN-040")
def test_gradients_by_finite_differences():
    weight, likely = np.linspace(-1.0, 2.0, 9), np.linspace(0.5, 2.0, 9)
    found = machine()
    near = found.marginal_gradient({"visible": ROWS}, weight)
    far = found.marginal_gradient({"hidden": HIDDEN[:9]}, weight)
    by_torch = found.marginal_gradient({"visible": torch.from_numpy(ROWS)}, torch.from_numpy(weight))
    batch = Batch({"X": ROWS}, np.arange(9), np.arange(9), likely)
    loss = Exact().build()(found, batch, noise=Noise(0, "fit"), phase="fit", group=Group())
    for name, value in GIVEN.items():

        def at(x, name=name):
            return machine(**{name: x})

        wanted = numerical_gradient(lambda x, at=at: float(weight @ at(x).energy(ROWS)), value)
        np.testing.assert_allclose(near[name], wanted, atol=1e-6)
        np.testing.assert_allclose(by_torch[name], near[name], atol=1e-11)
        wanted = numerical_gradient(
            lambda x, at=at: float(weight @ at(x).marginal_energy({"hidden": HIDDEN[:9]})), value
        )  # fmt: skip
        np.testing.assert_allclose(far[name], wanted, atol=1e-6)
        wanted = numerical_gradient(lambda x, name=name: float(-likely @ log_density(ROWS, **{name: x})), value)
        np.testing.assert_allclose(np.asarray(loss.gradients[name]), wanted, atol=1e-5)


@pytest.mark.spec("GEN-040")
def test_without_filters_it_is_the_gaussian_machine():
    found, other = machine(filters=0 * R), GaussianRBMModel.of(W, A, B[:2])
    difference = found.energy(ROWS) - other.energy(ROWS)  # the square of the offset, and units that nothing hears
    np.testing.assert_allclose(difference, -0.5 * A @ A - np.logaddexp(0, B[2:]).sum(), atol=1e-11)
    np.testing.assert_allclose(found.log_prob(ROWS), other.log_prob(ROWS), rtol=1e-11)


@pytest.mark.spec("GEN-040")
def test_bridges_mix_energies_and_annealing_finds_log_z():
    found = machine()
    base = found.base(np.array([0.5, -0.5, 0.2]))
    state = {"visible": ROWS, "hidden": HIDDEN[:9]}
    for eta in (0.0, 0.3, 1.0):
        wanted = (1 - eta) * base.joint_energy(state) + eta * found.joint_energy(state)
        np.testing.assert_allclose(found.bridge(base, eta).joint_energy(state), wanted, atol=1e-11)
    score = log_partition(found, "ais", Noise(0, "z"), schedule=200)
    assert abs(score.value - mixture()[0]) < 5 * score.error  # a fixed seed
    assert score.error < 0.2


@pytest.mark.spec("GEN-040")
def test_expected_contrastive_divergence_of_many_steps_is_the_exact_gradient():
    """Means of 60,000 rows, of standard errors of 0.01 at most: within five of these; a fixed seed."""
    n = 60_000
    X = np.repeat(ROWS[:3], n // 3, axis=0)
    batch = Batch({"X": X}, np.arange(n), np.arange(n), np.ones(n))
    found = CD(k=25).build()(machine(), batch, noise=Noise(1, "fit"), phase="fit", group=Group())
    for name, value in GIVEN.items():
        wanted = numerical_gradient(lambda x, name=name: -float(log_density(ROWS[:3], **{name: x}).mean()), value)
        np.testing.assert_allclose(np.asarray(found.gradients[name]) / n, wanted, atol=0.05)


@pytest.mark.spec("GEN-039", "GEN-040")
@pytest.mark.parametrize("n_mean", [0, 2])
def test_a_fit_finds_the_covariance_and_draws_it(n_mean):
    source = np.random.default_rng(0)
    X = source.normal(size=(500, 1)) * [2.0, 2.0, -2.0] + 0.5 * source.normal(size=(500, 3)) + [0.0, 50.0, -7.0]
    system = MCRBM(
        n_mean=n_mean, n_covariance=4, objective="exact", epochs=150, batch_size=None, learning_rate=0.05,
        random_state=0, dtype="float64",
    ).fit(X)  # fmt: skip
    independent = multivariate_normal(X.mean(0), np.diag(X.var(0))).logpdf(X).mean()
    assert system.score(X) > independent + 0.5
    assert system.transform(X).shape == (500, n_mean + 4)
    np.testing.assert_allclose(-system.energy(X) - system.log_partition().value, system.log_prob(X), atol=1e-9)
    drawn = system.sample(3000, steps=50, random_state=0)
    assert (np.abs(drawn.mean(0) - X.mean(0)) < 0.2 * X.std(0)).all()
    assert np.corrcoef(drawn.T)[0, 1] > 0.3 and np.corrcoef(drawn.T)[0, 2] < -0.3


@pytest.mark.spec("GEN-040")
def test_filters_have_a_greatest_length():
    found = machine(filters=R * [10.0, 0.1])
    found.floor = 0.25
    found.confine()
    length = np.linalg.norm(R, axis=0)
    np.testing.assert_allclose(np.linalg.norm(found.state()["filters"], axis=0), [4.0, 0.1 * length[1]], rtol=1e-12)


def test_missing_cells_of_a_large_machine_are_drawn_along_chains_or_refused():
    """Beyond 2^10 normal densities none is summed out, and independent columns come no nearer."""
    system, gaps = MCRBM(n_mean=6, n_covariance=6, epochs=1, random_state=0).fit(ROWS), ROWS[:3].copy()
    gaps[0, 1] = np.nan
    found = system.imputed(gaps, steps=20, random_state=0)
    assert found.kind.tolist() == ["estimate", "exact", "exact"] and np.isfinite(found.values).all()
    with pytest.raises(UserValueError, match=r"more than 2\^10 normal densities"):
        system.impute(gaps, method="exact")
    with pytest.raises(UserValueError, match="independent cells do not come close"):
        system.impute(gaps, method="mean_field")
