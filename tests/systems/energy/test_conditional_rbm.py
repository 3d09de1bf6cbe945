"""The machine given a condition: enumeration row by row, finite differences, and what it is without couplings."""

import itertools

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from sklearn.linear_model import LinearRegression, LogisticRegression

import gnomon
from gnomon.data.batches import Batch
from gnomon.distributions.units import BernoulliUnits, CenteredScaledGaussianUnits
from gnomon.errors import UserError, UserTypeError, UserValueError
from gnomon.inference.importance.by_row import log_partitions_by_annealing
from gnomon.inference.mcmc.gibbs import gibbs, kernel_matrix
from gnomon.numeric.noise import Noise
from gnomon.objectives.centered import Centered
from gnomon.objectives.contrastive import CD, PCD, Exact
from gnomon.objectives.fresh_chains import MCMC
from gnomon.objectives.perceptron import CDPercLoss
from gnomon.objectives.pseudolikelihood import Pseudolikelihood
from gnomon.objectives.ratio_matching import RatioMatching
from gnomon.systems.energy import conditional_rbm
from gnomon.systems.energy._conditional_objective import GivenConditions
from gnomon.systems.energy.conditional_rbm import ConditionalRBM, ConditionalRBMModel
from gnomon.systems.energy.conditioned import ConditionedMachine
from gnomon.systems.energy.rbm import RBMModel
from gnomon.training.group import Group
from oracles.binary import all_states, numerical_gradient
from oracles.commands import call

RANDOM = np.random.default_rng(11)
K, T, M = 3, 4, 2
NAMES = ("condition_visible_weight", "condition_hidden_weight", "weight", "visible_bias", "hidden_bias")
PARAMETERS = tuple(RANDOM.normal(size=shape) for shape in ((K, T), (K, M), (T, M), (T,), (M,)))
X = RANDOM.normal(size=(6, K))
Y = (RANDOM.random((6, T)) < 0.5).astype(float)
WEIGHT = RANDOM.uniform(0.5, 2.0, size=6)
STATES, HIDDEN = all_states(T), all_states(M)


def model_of(p=PARAMETERS, kind="bernoulli"):
    model = ConditionalRBMModel(len(p[0]), len(p[3]), len(p[4]), kind, torch.float64)
    more = {} if kind == "bernoulli" else {"visible_log_precision": np.zeros(len(p[3]))}
    model.load(dict(zip(NAMES, map(np.asarray, p), strict=True)) | more)
    return model


def log_weight(p, x, y):
    """log of the sum over h of exp(-E(y, h; x)), term by term."""
    a, b_, w, b, c = p
    return np.logaddexp.reduce([y @ b + c @ h + y @ w @ h + x @ a @ y + x @ b_ @ h for h in HIDDEN])


def log_z(p, x):
    return np.logaddexp.reduce([log_weight(p, x, y) for y in STATES])


def log_p(p):
    return np.array([log_weight(p, x, y) - log_z(p, x) for x, y in zip(X, Y, strict=True)])


def gradients(recipe, p=PARAMETERS, noise=None, rows=(X, Y), weight=WEIGHT):
    n = len(rows[0])
    batch = Batch({"X": rows[0], "y": rows[1]}, np.arange(n), np.arange(n), weight)
    objective, model = GivenConditions(recipe.build()), model_of(p)
    loss = objective(model, batch, noise=noise or Noise(0, "x"), phase="fit", group=Group())
    return loss, [np.asarray(loss.gradients[name]) for name in NAMES]


def differences(f):
    """Numerical gradient of a function of all parameters by each of them."""
    return [
        numerical_gradient(lambda one, i=i: f((*PARAMETERS[:i], one, *PARAMETERS[i + 1 :])), PARAMETERS[i])
        for i in range(len(PARAMETERS))
    ]


@pytest.mark.spec("GEN-055")
def test_everything_given_a_row_by_enumeration():
    model = model_of()
    np.testing.assert_allclose(model.log_partitions(X), [log_z(PARAMETERS, x) for x in X], atol=1e-12)
    assert np.ptp(model.log_partitions(X)) > 0.5  # each row has a normalizer of its own
    given = model.given(X)
    np.testing.assert_allclose(given.log_prob(Y), log_p(PARAMETERS), atol=1e-12)
    tensors = model.given(torch.from_numpy(X)).log_prob(torch.from_numpy(Y))
    np.testing.assert_allclose(tensors.detach(), log_p(PARAMETERS), atol=1e-12)
    a, b_, w, b, c = PARAMETERS
    np.testing.assert_allclose(given.conditional("hidden", {"visible": Y}).mean, sigmoid(c + X @ b_ + Y @ w))
    hidden = (RANDOM.random((6, M)) < 0.5).astype(float)
    np.testing.assert_allclose(given.conditional("visible", {"hidden": hidden}).mean, sigmoid(b + X @ a + hidden @ w.T))
    assert model.given(X[:1]).log_partition() == pytest.approx(log_z(PARAMETERS, X[0]), abs=1e-12)
    for wrong in (lambda: given.log_partition(), lambda: model.energy(Y), lambda: model.log_partition()):
        with pytest.raises(UserError, match="condition"):
            wrong()


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@pytest.mark.spec("GEN-055")
def test_the_exact_gradient_is_that_of_the_conditional_likelihood():
    loss, found = gradients(Exact())
    assert loss.total() * WEIGHT.sum() == pytest.approx(-WEIGHT @ log_p(PARAMETERS), abs=1e-12)
    for one, other in zip(found, differences(lambda p: -WEIGHT @ log_p(p)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-7)


@pytest.mark.spec("GEN-055")
def test_chains_of_every_row_have_the_gradient_that_their_kernel_says():
    """CD-1 and fresh chains against the enumerated kernel under each row's condition, at 5 standard errors."""
    n = 4000
    rows = (np.repeat(X, n, axis=0), np.repeat(Y, n, axis=0))
    for recipe, start in ((CD(), None), (MCMC(k=3), 0.5 ** (T + M))):
        _, found = gradients(recipe, rows=rows, weight=np.full(6 * n, 1 / n))
        expected = [np.zeros_like(one) for one in PARAMETERS]
        for x, y in zip(X, Y, strict=True):
            law = after(x, y, 1 if start is None else 3, start)
            for total, near, far in zip(expected, slope(x, y), mean_slope(x, law), strict=True):
                total -= near - far
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=5 * 2.5 * np.sqrt(6 / n))


def slope(x, y):
    """d log_weight by each parameter."""
    _, b_, w, _, c = PARAMETERS
    mean = sigmoid(c + x @ b_ + y @ w)
    return np.outer(x, y), np.outer(x, mean), np.outer(y, mean), y, mean


def mean_slope(x, law):
    return [sum(p * one[i] for p, one in zip(law, (slope(x, y) for y in STATES), strict=True)) for i in range(5)]


def after(x, y, k, start):
    """The law of y after k sweeps (hidden, then visible) from y itself or from fair bits."""
    a, b_, w, b, c = PARAMETERS
    plain = RBMModel.of(w, b + x @ a, c + x @ b_)
    kernel = kernel_matrix(plain, ("hidden", "visible"))
    joint = np.zeros(len(kernel))
    for i, (_, v) in enumerate(itertools.product(HIDDEN, STATES)):
        joint[i] = start if start else float((v == y).all()) / len(HIDDEN)
    law = np.linalg.matrix_power(kernel, k) @ joint
    return law.reshape(len(HIDDEN), len(STATES)).sum(0)


@pytest.mark.spec("GEN-057")
def test_a_row_moves_the_machine_where_a_sweep_has_found_something_better():
    """CD-PercLoss against its mean over the enumerated kernel of each row, at 5 standard errors."""
    n = 4000
    rows = (np.repeat(X, n, axis=0), np.repeat(Y, n, axis=0))
    loss, found = gradients(CDPercLoss(), rows=rows, weight=np.full(6 * n, 1 / n))
    expected, value = [np.zeros_like(one) for one in PARAMETERS], 0.0
    for x, y in zip(X, Y, strict=True):
        gain = np.array([log_weight(PARAMETERS, x, z) for z in STATES]) - log_weight(PARAMETERS, x, y)
        law = after(x, y, 1, None) * (gain > 0)
        value += law @ gain
        for total, near, far in zip(expected, slope(x, y), mean_slope(x, law), strict=True):
            total -= law.sum() * near - far
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=5 * 2.5 * np.sqrt(6 / n))
    assert loss.terms["perceptron_loss"].sum == pytest.approx(value, abs=5 * 3 * np.sqrt(6 / n))


@pytest.mark.spec("GEN-057")
def test_without_hidden_units_and_doubt_it_is_the_perceptron():
    """Where a sweep ends at the likeliest outputs the update is x (y - best), of rows that are wrong alone."""
    a, _, _, b, _ = PARAMETERS
    p = (2000 * a, np.zeros((K, 1)), np.zeros((T, 1)), 2000 * b, np.zeros(1))
    best = (X @ a + b > 0).astype(float)
    target = np.vstack([best[:2], Y[2:]])
    loss, found = gradients(CDPercLoss(), p, rows=(X, target))
    np.testing.assert_allclose(found[0], X.T @ (WEIGHT[:, None] * (best - target)), atol=1e-9)
    np.testing.assert_allclose(found[3], WEIGHT @ (best - target), atol=1e-9)
    wrong = (best != target).any(1)
    assert not wrong[:2].any() and wrong.any()
    assert loss.terms["violations"].sum == pytest.approx(WEIGHT @ wrong)
    gap = ((best - target) * (2000 * (X @ a + b))).sum(1)
    assert loss.terms["perceptron_loss"].sum == pytest.approx(WEIGHT @ gap)


@pytest.mark.spec("GEN-057")
def test_several_labels_are_learned_by_the_perceptron_loss():
    """Labels that no linear rule has, each wrong in one row of twenty: the likeliest ones of fresh rows are right."""
    random = np.random.default_rng(0)
    x = random.random((600, 2)) < 0.5
    labels = np.column_stack([x[:, 0] ^ x[:, 1], x[:, 0] & x[:, 1], ~(x[:, 0] | x[:, 1])])
    noisy = (labels ^ (random.random(labels.shape) < 0.05)).astype(float)
    options = {"n_hidden": 8, "outputs": "bernoulli", "epochs": 40, "learning_rate": 0.02, "random_state": 0}
    machine = ConditionalRBM(objective="cd-percloss", **options).fit(x[:300].astype(float), noisy[:300])
    right = (machine.most_probable(x[300:].astype(float)) == labels[300:]).all(1).mean()
    linear = [LogisticRegression().fit(x[:300], noisy[:300, j]).predict(x[300:]) for j in range(3)]
    assert right > 0.95 > (np.column_stack(linear) == labels[300:]).all(1).mean()
    assert machine.history_["violations"][-1] < machine.history_["violations"][0]


@pytest.mark.spec("GEN-055")
def test_principles_without_a_normalizer_given_a_row():
    def log_ratio(p, j):
        flipped = Y.copy()
        flipped[:, j] = 1 - flipped[:, j]
        return np.array([log_weight(p, x, y) - log_weight(p, x, z) for x, y, z in zip(X, Y, flipped, strict=True)])

    def pseudo(p):
        return sum(WEIGHT @ np.logaddexp(0, -log_ratio(p, j)) for j in range(T))

    def ratios(p):
        return sum(WEIGHT @ sigmoid(-log_ratio(p, j)) ** 2 for j in range(T))

    for recipe, f in ((Pseudolikelihood(), pseudo), (RatioMatching(), ratios)):
        loss, found = gradients(recipe)
        scale = loss.total() * WEIGHT.sum() / f(PARAMETERS)
        assert scale == pytest.approx(round(scale, 3), rel=1e-9)  # a constant factor is a matter of definition
        for one, other in zip(found, differences(f), strict=True):
            np.testing.assert_allclose(one, scale * other, atol=1e-6)


@pytest.mark.spec("GEN-055")
def test_a_constant_condition_makes_it_an_rbm():
    """Energies and gradients of the machine with shifted biases; that of its couplings to x are x times them."""
    x, (a, b_, w, b, c) = X[:1], PARAMETERS
    plain, given = RBMModel.of(w, b + x[0] @ a, c + x[0] @ b_), model_of().given(x)
    np.testing.assert_allclose(given.energy(STATES), plain.energy(STATES), atol=1e-12)
    assert given.log_partition() == pytest.approx(plain.log_partition(), abs=1e-12)
    mine, its = given.marginal_gradient({"visible": Y}, WEIGHT), plain.marginal_gradient({"visible": Y}, WEIGHT)
    for name in ("weight", "visible_bias", "hidden_bias"):
        np.testing.assert_allclose(mine[name], its[name], atol=1e-12)
    np.testing.assert_allclose(mine[NAMES[0]], np.outer(x[0], its["visible_bias"]), atol=1e-12)
    np.testing.assert_allclose(mine[NAMES[1]], np.outer(x[0], its["hidden_bias"]), atol=1e-12)


@pytest.mark.spec("GEN-055")
def test_without_interactions_bits_are_logistic_regressions():
    """The likelihood's maximum with W = 0 is scikit-learn's without a penalty, output by output."""
    rows = RANDOM.normal(size=(300, 2))
    outcomes = (RANDOM.random((300, 2)) < sigmoid(rows @ [[1.0, -0.5], [0.3, 2.0]] + [0.2, -0.4])).astype(float)
    peers = [LogisticRegression(C=np.inf, tol=1e-10).fit(rows, outcomes[:, j]) for j in range(2)]
    a = np.column_stack([one.coef_[0] for one in peers])
    b = np.array([one.intercept_[0] for one in peers])
    p = (a, np.zeros((2, 1)), np.zeros((2, 1)), b, np.zeros(1))
    model = model_of(p)
    expected = sum(
        one.predict_log_proba(rows)[np.arange(300), outcomes[:, j].astype(int)] for j, one in enumerate(peers)
    )
    np.testing.assert_allclose(model.given(rows).log_prob(outcomes), expected, atol=1e-10)
    _, slopes = gradients(Exact(), p, rows=(rows, outcomes), weight=np.ones(300))
    for one in slopes:
        np.testing.assert_allclose(one, 0, atol=1e-3)
    _, beside = gradients(Exact(), (a + 0.1, *p[1:]), rows=(rows, outcomes), weight=np.ones(300))
    assert np.abs(beside[0]).max() > 1


@pytest.mark.spec("GEN-055")
def test_without_interactions_real_outputs_are_a_linear_regression():
    rows = RANDOM.normal(size=(200, 2))
    outcomes = rows @ [[1.0], [-2.0]] + 0.5 + 0.3 * RANDOM.normal(size=(200, 1))
    peer = LinearRegression().fit(rows, outcomes)
    precision = 1 / np.mean((outcomes - peer.predict(rows)) ** 2)
    model = model_of(
        (peer.coef_.T * precision, np.zeros((2, 1)), np.zeros((1, 1)), peer.intercept_, np.zeros(1)), "gaussian"
    )
    with torch.no_grad():
        model.visible_log_precision.fill_(np.log(precision))
    log_normal = 0.5 * np.log(precision / (2 * np.pi)) - 0.5 * precision * (outcomes - peer.predict(rows)) ** 2
    np.testing.assert_allclose(model.given(rows).log_prob(outcomes), log_normal[:, 0], atol=1e-10)
    batch = Batch({"X": rows, "y": outcomes}, np.arange(200), np.arange(200), np.ones(200))
    loss = GivenConditions(Exact().build())(model, batch, noise=Noise(0, "x"), phase="fit", group=Group())
    for name in ("condition_visible_weight", "visible_bias", "visible_log_precision", "weight"):
        np.testing.assert_allclose(loss.gradients[name], 0, atol=1e-8)


@pytest.mark.spec("GEN-055")
def test_each_row_is_annealed_under_its_own_condition():
    """Within 5 standard errors of the exact log Z of each of six rows."""
    model = model_of()
    found, error = log_partitions_by_annealing(model, X, Noise(3, "ais"), chains=200, schedule=50)
    exact = np.array([log_z(PARAMETERS, x) for x in X])
    assert (error < 0.2).all()
    np.testing.assert_array_less(np.abs(found - exact), 5 * error + 1e-12)


def fitted(p=PARAMETERS, n_hidden=M, **changes):
    """A system that has these parameters."""
    system = ConditionalRBM(
        n_hidden=n_hidden, outputs="bernoulli", epochs=1, standardize=False, random_state=0, dtype="float64", **changes
    ).fit(X, np.vstack([Y[:4], 1 - Y[:2]]))
    system.model_ = model_of(p)
    return system


@pytest.mark.spec("GEN-055")
def test_marginals_modes_and_draws_of_the_system(monkeypatch):
    """Draws by a chi-square test at 1e-4 for each row."""
    system = fitted()
    law = np.array([[np.exp(log_weight(PARAMETERS, x, y) - log_z(PARAMETERS, x)) for y in STATES] for x in X])
    np.testing.assert_allclose(system.predict(X), law @ STATES, atol=1e-12)
    np.testing.assert_array_equal(system.most_probable(X), STATES[law.argmax(1)])
    monkeypatch.setattr(conditional_rbm, "_AT_ONCE", 2 * len(STATES))
    np.testing.assert_array_equal(system.most_probable(X), STATES[law.argmax(1)])
    np.testing.assert_allclose(system.log_prob(X, Y), log_p(PARAMETERS), atol=1e-12)
    np.testing.assert_allclose(system.anomaly_score(X, Y), -log_p(PARAMETERS), atol=1e-12)
    assert system.evaluate(X, Y)["log_likelihood"].value == pytest.approx(log_p(PARAMETERS).mean())
    n = 4000
    drawn = system.sample(np.repeat(X[:2], n, axis=0), steps=30, random_state=0)
    codes = (drawn @ 2 ** np.arange(T)[::-1]).astype(int).reshape(2, n)
    for row, own in zip(codes, law, strict=False):
        assert chisquare(np.bincount(row, minlength=len(STATES)), n * own).pvalue > 1e-4


@pytest.mark.spec("GEN-055")
def test_what_is_too_large_to_enumerate_is_estimated_with_its_error(monkeypatch):
    """Of a machine whose hidden units beyond the second do nothing: the same answers, by chains and annealing."""
    a, b_, w, b, c = PARAMETERS
    wide = (np.hstack([a, np.zeros((K, 12))]), np.hstack([b_, np.zeros((K, 12))]), np.zeros((T + 12, M + 12)),
            np.concatenate([b, np.full(12, -9.0)]), np.concatenate([c, np.zeros(12)]))  # fmt: skip
    wide[2][:T, :M] = w
    system = ConditionalRBM(
        n_hidden=M + 12, outputs="bernoulli", epochs=1, standardize=False, random_state=0, dtype="float64"
    ).fit(X, np.hstack([np.vstack([Y[:4], 1 - Y[:2]]), np.zeros((6, 12))]))
    system.model_ = model_of(wide)
    assert not hasattr(system, "log_prob")
    exact = fitted()
    np.testing.assert_allclose(system.predict(X)[:, :T], exact.predict(X), atol=0.05)
    np.testing.assert_array_equal(system.most_probable(X)[:, T:], 0)
    at_once = system.predict(X[:3])
    monkeypatch.setattr(conditional_rbm, "_ROWS", 2)
    np.testing.assert_allclose(system.predict(X[:3]), at_once, rtol=1e-12)
    outcomes = np.hstack([Y, np.zeros((6, 12))])
    score = system.evaluate(X, outcomes)["log_likelihood"]
    truth = log_p(PARAMETERS).mean() + 12 * np.log(sigmoid(9.0))
    assert score.kind == "estimate"
    assert abs(score.value - truth) < 5 * score.error


@pytest.mark.spec("GEN-055", "GEN-057")
def test_chains_from_the_data_leave_modes_far_from_it():
    """The pitfall of Mnih et al.: CD-1 sees no slope where a deep mode far from the data could be filled up."""
    w = np.full((T, 1), 6.0)
    p = (np.zeros((1, T)), np.zeros((1, 1)), w, np.full(T, -3.0), np.array([-12.0]))  # 0000 and 1111, of equal mass
    rows = (np.zeros((400, 1)), np.zeros((400, T)))
    one = np.ones(400)
    _, exact = gradients(Exact(), p, rows=rows, weight=one)
    _, near = gradients(CD(), p, rows=rows, weight=one)
    _, fresh = gradients(MCMC(k=5), p, rows=rows, weight=one)
    assert exact[3].min() > 120  # the likelihood wants the ones gone
    assert np.abs(near[3]).max() < 40  # 19 expected of single flips, at 5 standard errors
    assert fresh[3].min() > 60


@pytest.mark.parametrize("objective", [PCD(), "tempered", "fpcd", "nce", Centered(), "self-contrastive"])
def test_chains_that_belong_to_no_row_are_refused(objective):
    with pytest.raises(UserTypeError, match="distribution of its own"):
        ConditionalRBM(objective=objective).fit(X, Y)


def test_what_is_refused():
    with pytest.raises(UserValueError, match="n_chains"):
        ConditionalRBM(objective=MCMC(n_chains=3)).fit(X, Y)
    with pytest.raises(UserValueError, match="must be 0 or 1"):
        ConditionalRBM(outputs="bernoulli").fit(X, Y + 0.5)
    with pytest.raises(UserValueError, match="4 columns"):
        fitted().log_prob(X, Y[:, :2])
    with pytest.raises(UserTypeError, match="cannot draw rows"):
        fitted().sample(3)
    with pytest.raises(UserTypeError, match="must be bernoulli"):
        ConditionalRBM(epochs=1).fit(X, Y).most_probable(X)


def test_a_condition_moves_coupled_units_too():
    """A conditional machine whose outputs are coupled to each other: sweeps and exact sums given the row."""
    units = {"visible": BernoulliUnits(3), "hidden": BernoulliUnits(1)}
    machine = ConditionedMachine(2, units, [("visible", "hidden"), ("visible", "visible")], dtype=torch.float64)
    machine.load({name: RANDOM.normal(size=value.shape) for name, value in machine.state().items()})
    x, own = RANDOM.normal(size=(1, 2)), machine.state()
    upper = np.zeros((3, 3))
    upper[np.triu_indices(3, 1)] = own["visible_visible_weight"][0]

    def energy(y, h):
        b = own["visible_bias"] + x[0] @ own["condition_visible_weight"]
        c = own["hidden_bias"] + x[0] @ own["condition_hidden_weight"]
        return -(y @ b + h @ c + y @ own["visible_hidden_weight"] @ h + y @ upper @ y)

    states = all_states(3)
    mass = np.array([sum(np.exp(-energy(y, h)) for h in all_states(1)) for y in states])
    assert machine.given(x).log_partition() == pytest.approx(np.log(mass.sum()), abs=1e-12)
    n = 4000
    given, start = machine.given(np.repeat(x, n, axis=0)), {"visible": np.zeros((n, 3)), "hidden": np.zeros((n, 1))}
    ends = gibbs(given, start, Noise(0, "x").rows(np.arange(n)), steps=25)["visible"] @ [4, 2, 1]
    assert chisquare(np.bincount(ends.astype(int), minlength=8), n * mass / mass.sum()).pvalue > 1e-4


def test_real_outputs_by_quadrature():
    """Density, mean and units of the data of a machine of one real output, on a fine grid."""
    rows, outcomes = RANDOM.normal(size=(60, 2)) * 3 + 1, RANDOM.normal(size=60) * 5 + 100
    system = ConditionalRBM(n_hidden=2, epochs=5, random_state=0, dtype="float64").fit(rows, outcomes)
    with torch.no_grad():
        system.model_.weight.normal_(generator=torch.Generator().manual_seed(0))
    grid = np.linspace(20, 180, 4001)
    for x in rows[:3]:
        p = np.exp(system.log_prob(np.repeat(x[None], len(grid), axis=0), grid))
        assert np.trapezoid(p, grid) == pytest.approx(1, abs=1e-6)
        assert np.trapezoid(p * grid, grid) == pytest.approx(system.predict(x[None])[0], abs=1e-4)
    assert isinstance(system.model_.units["visible"], CenteredScaledGaussianUnits)
    drawn = system.sample(np.repeat(rows[:1], 2000, axis=0), steps=50, random_state=0)
    assert abs(drawn.mean() - system.predict(rows[:1])[0]) < 5 * drawn.std() / np.sqrt(2000)


def test_several_targets_on_the_command_line(tmp_path, capsys):
    np.savez(tmp_path / "both.npz", X=np.repeat(X, 5, axis=0), y=np.repeat(Y, 5, axis=0))
    out = tmp_path / "run"
    options = ("--outputs", "bernoulli", "--epochs", "2", "--out", out)
    found = call(capsys, "fit", "conditional-rbm", tmp_path / "both.npz", *options)
    assert "log_likelihood" in found["held_out"]
    assert gnomon.load(out).predict(X).shape == (6, T)
