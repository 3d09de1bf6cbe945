"""The machine of real columns and bits: the row's numbers, the explicit mixture, quadrature, differences."""

import itertools

import numpy as np
import pytest
import torch
from scipy import integrate
from scipy.special import expit
from scipy.stats import kstest, multivariate_normal

import gnomon
from gnomon.data.batches import Batch
from gnomon.errors import UserValueError
from gnomon.evaluation.partition import log_partition
from gnomon.numeric.noise import Noise
from gnomon.objectives.contrastive import CD, Exact
from gnomon.systems.energy.gaussian_rbm import GaussianRBM, GaussianRBMModel
from gnomon.systems.energy.rbm import RBMModel
from gnomon.tasks.along_chains import sample_along_chains
from gnomon.training.group import Group
from oracles.binary import numerical_gradient

W = np.array([[1.0, 0.5], [-1.0, 0.5], [0.5, -1.0]])
A, B, BETA = np.array([0.1, -0.2, 0.3]), np.array([-0.1, 0.2]), np.array([0.5, 1.5, 2.5])
ROWS = np.random.default_rng(0).normal(size=(9, 3)) * 1.5
HIDDEN = np.array(list(itertools.product([0.0, 1.0], repeat=2)))
NAMES = ("weight", "visible_bias", "hidden_bias", "visible_log_precision")
KINDS = pytest.mark.parametrize(("beta", "quadratic"), [(BETA, False), (BETA, True), (1.7, False), (1.7, True)])


def joint_energy(v, h, W=W, A=A, B=B, log_beta=0.0, quadratic=False):
    """The energy by its definition, every term written out."""
    beta = np.exp(log_beta) * np.ones(len(A))
    total = sum(beta[i] * (v[i] - A[i]) ** 2 / 2 for i in range(len(A))) - sum(B[j] * h[j] for j in range(len(B)))
    for i in range(len(A)):
        for j in range(len(B)):
            total -= v[i] * beta[i] * W[i, j] * h[j]
            total += quadratic * h[j] * beta[i] * W[i, j] ** 2 / 2
    return total


def free_energy(rows, **given):
    return np.array([-np.logaddexp.reduce([-joint_energy(v, h, **given) for h in HIDDEN]) for v in rows])


def mixture(W=W, A=A, B=B, log_beta=0.0, quadratic=False):
    """log Z, and log weight, mean and covariance of the normal density for each state of the hidden units."""
    beta = np.exp(log_beta) * np.ones(len(A))
    offset = B - quadratic * 0.5 * (beta[:, None] * W**2).sum(0)
    normal = 0.5 * np.log(2 * np.pi / beta).sum()
    weights = [h @ offset + normal + 0.5 * (W @ h) @ (beta * (W @ h)) + (beta * A) @ (W @ h) for h in HIDDEN]
    log_z = np.logaddexp.reduce(weights)
    return log_z, [(w - log_z, A + W @ h, np.diag(1 / beta)) for w, h in zip(weights, HIDDEN, strict=True)]


def log_density(rows, **given):
    parts = [w + multivariate_normal(m, c).logpdf(rows) for w, m, c in mixture(**given)[1]]
    return np.logaddexp.reduce(parts)


@pytest.mark.spec("GEN-037")
def test_the_numbers_of_the_row():
    machine = GaussianRBMModel.of([[0.5]], [0.0], [0.3], 2.0)
    assert machine.log_partition() == pytest.approx(1.577857, abs=5e-7)
    v = np.array([[1.0]])
    assert machine.conditional("hidden", {"visible": v}).mean[0, 0] == pytest.approx(0.785835, abs=5e-7)
    assert machine.log_prob(v)[0] == pytest.approx(-1.036849, abs=5e-7)
    on = np.exp(-machine.marginal_energy({"hidden": np.ones((1, 1))})[0] - machine.log_partition())
    assert on == pytest.approx(0.634136, abs=5e-7)
    whole = integrate.quad(lambda x: np.exp(machine.log_prob(np.array([[x]]))[0]), -12, 12, epsabs=1e-12)[0]
    assert whole == pytest.approx(1, abs=1e-10)


@pytest.mark.spec("DLN-83")
def test_at_unit_variances_it_is_the_machine_of_the_other_row():
    machine = GaussianRBMModel.of(W, A, B)
    assert machine.log_partition() == pytest.approx(5.243712, abs=5e-7)
    np.testing.assert_allclose(machine.log_prob(ROWS), log_density(ROWS), rtol=1e-11)
    energy = 0.5 * ((ROWS - A) ** 2).sum(1) - np.logaddexp(0, B + ROWS @ W).sum(1)
    np.testing.assert_allclose(machine.energy(ROWS), energy, rtol=1e-12)
    given_v, given_h = (
        machine.conditional("hidden", {"visible": ROWS}),
        machine.conditional("visible", {"hidden": HIDDEN}),
    )
    np.testing.assert_allclose(given_v.mean, expit(B + ROWS @ W), rtol=1e-12)
    np.testing.assert_allclose(given_h.mean, A + HIDDEN @ W.T, rtol=1e-12)
    np.testing.assert_array_equal(given_h.variance * np.ones(3), np.ones(3))
    one = GaussianRBMModel.of(W[:1], A[:1], B)
    whole = integrate.quad(lambda v: np.exp(one.log_prob(np.array([[v]]))[0]), -15, 15, epsabs=1e-11)[0]
    assert whole == pytest.approx(1, abs=1e-9)


@pytest.mark.spec("GEN-037")
@KINDS
def test_energies_conditionals_and_density_by_definition(beta, quadratic):
    machine = GaussianRBMModel.of(W, A, B, beta, quadratic=quadratic)
    given = {"log_beta": np.log(beta), "quadratic": quadratic}
    every = np.ones(3) * beta
    joint = [joint_energy(v, h, **given) for v, h in zip(ROWS[:4], HIDDEN, strict=True)]
    np.testing.assert_allclose(machine.joint_energy({"visible": ROWS[:4], "hidden": HIDDEN}), joint, rtol=1e-11)
    np.testing.assert_allclose(machine.energy(ROWS), free_energy(ROWS, **given), rtol=1e-11)
    tensor = machine.energy(torch.from_numpy(ROWS)).detach().numpy()
    np.testing.assert_allclose(tensor, free_energy(ROWS, **given), rtol=1e-11)
    found = machine.conditional("visible", {"hidden": HIDDEN})
    np.testing.assert_allclose(found.mean, A + HIDDEN @ W.T, rtol=1e-12)
    np.testing.assert_allclose(found.variance * np.ones(3), 1 / every, rtol=1e-12)
    offset = B - quadratic * 0.5 * (every[:, None] * W**2).sum(0)
    chance = machine.conditional("hidden", {"visible": ROWS}).mean
    np.testing.assert_allclose(chance, expit(offset + (ROWS * every) @ W), rtol=1e-12)
    log_z, parts = mixture(**given)
    assert machine.log_partition() == pytest.approx(log_z, abs=1e-11)
    np.testing.assert_allclose(machine.log_prob(ROWS), log_density(ROWS, **given), rtol=1e-10)
    of_hidden = -machine.marginal_energy({"hidden": HIDDEN}) - log_z
    np.testing.assert_allclose(of_hidden, [w for w, _, _ in parts], atol=1e-11)


@pytest.mark.spec("GEN-037")
@KINDS
def test_gradients_by_finite_differences(beta, quadratic):
    """Of the likelihood, and of energies alone, where what both phases add alike would cancel."""
    parameters = [W, A, B, np.log(np.atleast_1d(beta))]
    machine, weight = GaussianRBMModel.of(W, A, B, beta, quadratic=quadratic), np.linspace(-1.0, 2.0, 9)
    likely = np.linspace(0.5, 2.0, 9)
    batch = Batch({"X": ROWS}, np.arange(9), np.arange(9), likely)
    loss = Exact().build()(machine, batch, noise=Noise(0, "fit"), phase="fit", group=Group())
    found = machine.marginal_gradient({"visible": ROWS}, weight)
    tensors = {"visible": torch.from_numpy(ROWS)}
    by_torch = machine.marginal_gradient(tensors, torch.from_numpy(weight))
    for i, name in enumerate(NAMES):

        def given(value, i=i):
            p = [value if j == i else one for j, one in enumerate(parameters)]
            return {"W": p[0], "A": p[1], "B": p[2], "log_beta": p[3], "quadratic": quadratic}

        energy = numerical_gradient(lambda x, g=given: float(weight @ free_energy(ROWS, **g(x))), parameters[i])
        np.testing.assert_allclose(found[name], energy, atol=1e-6)
        np.testing.assert_allclose(by_torch[name], found[name], atol=1e-11)
        nll = numerical_gradient(lambda x, g=given: float(-(likely @ log_density(ROWS, **g(x)))), parameters[i])
        np.testing.assert_allclose(np.asarray(loss.gradients[name]), nll, atol=1e-5)


@pytest.mark.spec("GEN-037")
def test_the_extra_term_gives_hidden_units_the_chances_of_their_biases_where_they_move_different_columns():
    W = np.array([[1.5, 0.0], [0.0, -0.7], [0.8, 0.0]])
    log_p = {}
    for quadratic in (True, False):
        machine = GaussianRBMModel.of(W, np.zeros(3), B, BETA, quadratic=quadratic)
        log_p[quadratic] = -machine.marginal_energy({"hidden": HIDDEN}) - machine.log_partition()
    independent = HIDDEN @ np.log(expit(B)) + (1 - HIDDEN) @ np.log(expit(-B))
    np.testing.assert_allclose(log_p[True], independent, atol=1e-11)
    assert np.abs(log_p[False] - independent).max() > 0.5


def test_the_extra_term_is_another_way_through_the_same_family():
    bias = B - 0.5 * (BETA[:, None] * W**2).sum(0)
    one, other = GaussianRBMModel.of(W, A, B, BETA, quadratic=True), GaussianRBMModel.of(W, A, bias, BETA)
    np.testing.assert_allclose(one.log_prob(ROWS), other.log_prob(ROWS), rtol=1e-12)
    again = one.layered()
    np.testing.assert_allclose(again.log_prob(ROWS), one.log_prob(ROWS), rtol=1e-12)
    np.testing.assert_allclose(again.energy(ROWS), one.energy(ROWS), rtol=1e-12)


def test_without_coupling_columns_are_normal_and_units_free():
    machine = GaussianRBMModel.of(0 * W, A, B, BETA)
    normal = multivariate_normal(A, np.diag(1 / BETA)).logpdf(ROWS)
    np.testing.assert_allclose(machine.log_prob(ROWS), normal, rtol=1e-12)
    found = machine.marginal_gradient({"visible": ROWS}, np.ones(9))
    np.testing.assert_allclose(found["visible_bias"], -(BETA * (ROWS - A)).sum(0), atol=1e-12)
    np.testing.assert_allclose(found["visible_log_precision"], 0.5 * (BETA * (ROWS - A) ** 2).sum(0), atol=1e-12)
    bits = RBMModel.of(0 * W, A, B)
    v = {"visible": np.ones((9, 3))}
    np.testing.assert_allclose(
        machine.marginal_gradient({"visible": ROWS}, np.ones(9))["hidden_bias"],
        bits.marginal_gradient(v, np.ones(9))["hidden_bias"], atol=1e-12,
    )  # fmt: skip


@pytest.mark.spec("GEN-037")
@pytest.mark.parametrize("quadratic", [False, True])
def test_bridges_mix_energies_and_annealing_finds_log_z(quadratic):
    machine = GaussianRBMModel.of(W, A, B, BETA, quadratic=quadratic)
    machine.spread = np.array([1.0, 2.0, 0.5])
    base = machine.base(np.array([0.5, -0.5, 1.0]))
    found = base.conditional("visible", {"hidden": HIDDEN})
    np.testing.assert_allclose(found.mean, np.tile([0.5, -0.5, 1.0], (4, 1)), atol=1e-12)
    np.testing.assert_allclose(found.variance, [1.0, 4.0, 0.25], rtol=1e-12)
    state = {"visible": ROWS[:4], "hidden": HIDDEN}
    for eta in (0.0, 0.3, 1.0):
        mixed = machine.bridge(base, eta).joint_energy(state)
        wanted = (1 - eta) * base.joint_energy(state) + eta * machine.joint_energy(state)
        np.testing.assert_allclose(np.diff(mixed), np.diff(wanted), atol=1e-11)  # up to a constant of the level
        if eta in (0.0, 1.0):
            np.testing.assert_allclose(mixed, wanted, atol=1e-11)
    score = log_partition(machine, "ais", Noise(0, "z"), schedule=200, base_mean=np.array([0.5, -0.5, 1.0]))
    exact = mixture(log_beta=np.log(BETA), quadratic=quadratic)[0]
    assert abs(score.value - exact) < 5 * score.error  # a fixed seed
    assert score.error < 0.3


@pytest.mark.spec("GEN-037")
def test_expected_contrastive_divergence_of_many_steps_is_the_exact_gradient():
    """Means of 60,000 rows, of standard errors of 0.011 at most (eight seeds): within five of these; a fixed seed."""
    n = 60_000
    X = np.repeat(ROWS[:3], n // 3, axis=0)
    machine = GaussianRBMModel.of(0.6 * W, A, B, BETA, quadratic=True)
    batch = Batch({"X": X}, np.arange(n), np.arange(n), np.ones(n))
    exact = Exact().build()(machine, Batch({"X": ROWS[:3]}, np.arange(3), np.arange(3), np.ones(3)),
                            noise=Noise(0, "fit"), phase="fit", group=Group())  # fmt: skip
    found = CD(k=25).build()(machine, batch, noise=Noise(1, "fit"), phase="fit", group=Group())
    for name in NAMES:
        wanted = np.asarray(exact.gradients[name]) / 3
        np.testing.assert_allclose(np.asarray(found.gradients[name]) / n, wanted, atol=0.05)


@pytest.mark.spec("GEN-037", "DLN-83")
def test_samples_follow_the_mixture():
    """Kolmogorov-Smirnov of each column against the mixture's own marginal, 1e-4 each: a false alarm in 3,000."""
    from scipy.stats import norm

    system = GaussianRBM(n_hidden=2, epochs=1, random_state=0, dtype="float64", standardize=False).fit(ROWS)
    system.model_ = GaussianRBMModel.of(0.7 * W, A, B, BETA)
    drawn = system.sample(20_000, steps=40, random_state=3)
    parts = mixture(W=0.7 * W, log_beta=np.log(BETA))[1]
    for i in range(3):

        def cdf(x, i=i):
            return sum(np.exp(w) * norm(m[i], np.sqrt(c[i, i])).cdf(x) for w, m, c in parts)

        assert kstest(drawn[:, i], cdf).pvalue > 1e-4
    np.testing.assert_array_equal(system.sample(5, steps=3, random_state=1), system.sample(5, steps=3, random_state=1))
    assert system.sample(0).shape == (0, 3)


@pytest.mark.spec("GEN-037")
def test_what_cannot_be_normalized_is_refused():
    with pytest.raises(UserValueError, match="precision must be finite and above 0, got -1: the density cannot be"):
        GaussianRBMModel.of(W, A, B, [1.0, -1.0, 1.0])
    with pytest.raises(UserValueError, match=r"precision must be a number or one for each column.*give the diagonal"):
        GaussianRBMModel.of(W, A, B, np.eye(3))
    with pytest.raises(UserValueError, match="variance must be one of 'diagonal', 'scalar', 'fixed', got 'full'"):
        GaussianRBM(variance="full", random_state=0).fit(ROWS)


def columns(n=600, seed=0):
    """Two groups in columns of different units, with a spread of their own."""
    random = np.random.default_rng(seed)
    group = random.integers(0, 2, (n, 1)) * 1.0
    return group * [30.0, 0.04, -2.0] + random.normal(size=(n, 3)) * [5.0, 0.01, 0.5] + [100.0, 0.0, 7.0]


@pytest.mark.spec("GEN-037", "DLN-83")
@pytest.mark.parametrize("standardize", [True, False])
def test_a_fit_finds_groups_and_its_scores_are_in_the_units_of_the_data(standardize):
    X = columns()
    system = GaussianRBM(
        n_hidden=2, objective="exact", epochs=400, batch_size=None, learning_rate=0.05, random_state=0,
        standardize=standardize, dtype="float64",
    ).fit(X)  # fmt: skip
    if standardize:  # else steps of one length for columns of a hundred and of a hundredth
        assert system.score(X) > multivariate_normal(X.mean(0), np.cov(X.T)).logpdf(X).mean() + 0.1
    W, a = system.weights_, system.visible_bias_
    assert system.precision_.shape == (3,)
    shift = X.mean(0) if standardize else np.zeros(3)
    # the explicit mixture in the data's own units from what the attributes say
    beta = system.precision_
    b = system.hidden_bias_ + ((shift * beta) @ W) * (-1 if standardize else 0)
    weights = [h @ b + (a * beta) @ (W @ h) + 0.5 * (W @ h) @ (beta * (W @ h)) for h in HIDDEN]
    weights -= np.logaddexp.reduce(weights)
    parts = [
        w + multivariate_normal(a + W @ h, np.diag(1 / beta)).logpdf(X) for w, h in zip(weights, HIDDEN, strict=True)
    ]
    np.testing.assert_allclose(system.log_prob(X), np.logaddexp.reduce(parts), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(-system.energy(X) - system.log_partition().value, system.log_prob(X), atol=1e-9)
    if standardize:
        away = np.abs(system.sample(4000, steps=60, random_state=0).mean(0) - X.mean(0)) / X.std(0)
        assert (away < 0.25).all()
        assert (((system.reconstruct(X) - X) ** 2).mean(0) < 0.5 * X.var(0)).all()


def test_annealed_scores_are_in_the_units_of_the_data_too():
    X = columns()
    small, large = (GaussianRBM(n_hidden=m, epochs=4, random_state=0, dtype="float64").fit(X) for m in (8, 24))
    assert hasattr(small, "log_prob")
    assert not hasattr(large, "log_prob")
    estimate = small.log_partition("ais", schedule=300)
    assert abs(estimate.value - small.log_partition().value) < 5 * estimate.error + 1e-3  # a fixed seed
    score = large.evaluate(X)["log_likelihood"]
    assert score.kind == "estimate"
    assert abs(score.value - small.score(X)) < 3  # standardized scores would lie 7 nats above
    assert score.data_space == "density on R^3"


@pytest.mark.spec("GEN-037")
def test_precisions_are_bounded_fixed_or_one_for_all():
    two = np.repeat([[0.0], [5.0]], 300, axis=0)
    options = {
        "n_hidden": 1, "objective": "exact", "batch_size": None, "epochs": 600, "learning_rate": 0.05,
        "random_state": 0, "dtype": "float64",
    }  # fmt: skip
    narrow = GaussianRBM(**options, floor=0.2).fit(two)
    assert 1 / np.sqrt(narrow.precision_[0]) == pytest.approx(0.2 * two.std(), rel=1e-9)
    X = columns()[:, :2]
    fixed = GaussianRBM(**options, variance="fixed").fit(X)
    np.testing.assert_allclose(fixed.precision_, 1 / X.var(0), rtol=1e-12)
    scalar = GaussianRBM(**options, variance="scalar").fit(X)
    np.testing.assert_allclose(*(scalar.precision_ * X.var(0)), rtol=1e-12)
    assert scalar.precision_[0] * X[:, 0].var() > 1.2
    constant = GaussianRBM(n_hidden=2, epochs=3, random_state=0).fit(np.column_stack([X, np.full(600, 3.0)]))
    assert np.isfinite(constant.score(np.column_stack([X, np.full(600, 3.0)])))


def test_chunks_of_a_stream_are_scaled_by_the_first():
    X = columns()
    system = GaussianRBM(n_hidden=2, random_state=0, dtype="float64").partial_fit(X[:300])
    begun = system.visible_bias_.copy()
    system.partial_fit(X[300:])
    np.testing.assert_allclose(system.arguments_["mean"], X[:300].mean(0))
    assert np.abs(begun - system.visible_bias_).max() > 0


def test_it_is_found_by_name():
    assert isinstance(gnomon.make("gaussian-rbm"), GaussianRBM)


def test_it_is_looked_at_in_the_units_of_its_columns():
    """Columns far from 0: chains are drawn in them, and units are diagnosed by what the model sees."""
    X = columns()[:, :2] * [1.0, 100.0] + [50.0, -3000.0]
    fitted = GaussianRBM(n_hidden=3, epochs=30, random_state=0).fit(X)
    np.testing.assert_allclose(fitted.from_visible(fitted.to_visible(X[:5])), X[:5], rtol=1e-5)
    rows = sample_along_chains(fitted, chains=50, rows=4, every=20, random_state=0).rows.reshape(-1, 2)
    assert (np.abs(rows.mean(axis=0) - X.mean(axis=0)) < X.std(axis=0)).all()
    found = {one.what: one.level for one in gnomon.diagnose(fitted, X).findings}
    assert found["every unit of hidden answers to the data"] == "ok"
    assert "Gibbs chains from the model mix" in found
