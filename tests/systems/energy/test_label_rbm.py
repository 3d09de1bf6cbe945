"""The machine of rows and classes: numbers of the rows, enumeration, differences, its terms, its reductions."""

import itertools

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from scipy.stats import chisquare, multivariate_normal

import gnomon
from gnomon.data.batches import Batch
from gnomon.distributions.joined import JoinedUnits
from gnomon.distributions.units import BernoulliUnits, ScaledGaussianUnits
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.partition import log_partition
from gnomon.numeric.noise import Noise
from gnomon.objectives.contrastive import CD, PCD, Exact
from gnomon.systems.energy._label_objective import LabelObjective
from gnomon.systems.energy._labeled import LabeledModel
from gnomon.systems.energy.label_rbm import LabelRBM, LabelRBMModel
from gnomon.systems.energy.rbm import RBMModel
from gnomon.training.group import Group
from oracles.binary import all_states, numerical_gradient

NAMES = ("weight", "visible_bias", "hidden_bias")
RANDOM = np.random.default_rng(5)
W, U = RANDOM.normal(size=(3, 2)), RANDOM.normal(size=(3, 2))
B, D, C = np.array([0.1, -0.3, 0.2]), np.array([0.2, -0.1, 0.4]), np.array([0.3, -0.4])
V, H, K = all_states(3), all_states(2), 3


def model_of(W=W, U=U, b=B, d=D, c=C, kind="bernoulli"):
    W, U = np.asarray(W, float), np.asarray(U, float)
    model = LabelRBMModel(len(W), len(U), W.shape[1], kind, torch.float64)
    model.load(
        {"weight": np.vstack([W, U]), "visible_bias": np.concatenate([b, d]), "hidden_bias": np.asarray(c, float)}
    )
    return model


def log_joint(p, kind="bernoulli", rows=V):
    """log of the sum over h of exp(-E(v, y, h)) of each row and class, term by term."""
    weight, bias, c = p
    W, U, b, d = weight[:3], weight[3:], bias[:3], bias[3:]
    found = np.empty((len(rows), K))
    for (i, v), k in itertools.product(enumerate(rows), range(K)):
        own = v @ b if kind == "bernoulli" else -0.5 * ((v - b) ** 2).sum()
        found[i, k] = np.logaddexp.reduce([own + d[k] + c @ h + v @ W @ h + U[k] @ h for h in H])
    return found


PARAMETERS = (np.vstack([W, U]), np.concatenate([B, D]), C)


def log_z(p):
    return float(np.logaddexp.reduce(log_joint(p).ravel()))


@pytest.mark.spec("GEN-029", "GEN-059")
def test_the_numbers_of_the_joint_machine():
    model = model_of([[1.0, -1.0], [0.5, 2.0]], [[1.0, -1.0], [-0.5, 0.3]], [0.1, -0.2], [0.1, -0.1], [0.3, -0.4])
    x = np.array([[1.0, 0.0]])
    np.testing.assert_allclose(model.class_proba(x), [[0.772757, 0.227243]], atol=5e-7)
    np.testing.assert_allclose(
        model.class_log_proba(torch.from_numpy(x)).detach().exp(), [[0.772757, 0.227243]], atol=5e-7
    )


@pytest.mark.spec("REP-091")
def test_the_numbers_of_the_classifier():
    W, U = np.array([[1.0, -1.0], [0.5, 0.5]]), np.array([[0.3, -0.3], [0.0, 1.0]])  # hidden by columns, by classes
    model = model_of(W.T, U.T, [0.7, -0.2], [0.2, 0.0], [0.0, 0.1])
    x = np.array([1.0, 0.0])
    np.testing.assert_allclose(model.class_proba(x[None]), [[0.472879, 0.527121]], atol=5e-7)
    brute = [
        np.logaddexp.reduce([[0.2, 0.0][k] + np.array([0.0, 0.1]) @ h + h @ W @ x + h @ U[:, k] for h in H])
        for k in (0, 1)
    ]
    np.testing.assert_allclose(model.class_proba(x[None])[0], softmax(brute), atol=1e-12)


@pytest.mark.spec("GEN-029", "REP-091")
def test_everything_by_enumeration():
    model, joint = model_of(), log_joint(PARAMETERS)
    rows, codes = np.repeat(V, K, axis=0), np.tile(np.arange(K), len(V))
    both = model.with_class(rows, codes)
    np.testing.assert_allclose(-model.energy(both), joint.ravel(), rtol=1e-12)
    assert model.log_partition() == pytest.approx(log_z(PARAMETERS), abs=1e-11)
    np.testing.assert_allclose(model.log_prob(both), joint.ravel() - log_z(PARAMETERS), atol=1e-11)
    np.testing.assert_allclose(model.class_log_proba(V), log_softmax(joint, 1), atol=1e-12)
    from gnomon.inference.exact.enumeration import log_partition as by_block

    assert by_block(model, keep="visible") == pytest.approx(by_block(model, keep="hidden"), abs=1e-11)
    # of the hidden units given the row alone, and of the visible ones given the hidden
    on = np.zeros((len(V), 2))
    for i, v in enumerate(V):
        mass = np.array([[D[k] + C @ h + v @ W @ h + U[k] @ h for h in H] for k in range(K)])
        on[i] = softmax(mass.ravel()).reshape(K, len(H)).sum(0) @ H
    np.testing.assert_allclose(model.hidden_means(V), on, atol=1e-12)
    given = model.conditional("visible", {"hidden": H}).mean
    np.testing.assert_allclose(given[:, :3], 1 / (1 + np.exp(-(H @ W.T + B))), atol=1e-12)
    np.testing.assert_allclose(given[:, 3:], softmax(H @ U.T + D, axis=1), atol=1e-12)


@pytest.mark.spec("GEN-029")
def test_the_class_is_drawn_as_one_of_several_values_not_as_bits():
    """Joint counts of (v, y) in long chains by a chi-square test at 1e-4, and the label group always one-hot."""
    system = LabelRBM(n_hidden=2, visible="bernoulli", epochs=1, random_state=0, dtype="float64").fit(
        V, np.arange(8) % 3
    )
    system.model_ = model_of()
    n = 20_000
    X, y = system.sample(n, steps=30, random_state=0)
    counts = np.bincount(((X @ [4, 2, 1]) * K + y).astype(int), minlength=24)
    law = np.exp(log_joint(PARAMETERS) - log_z(PARAMETERS)).ravel()
    assert chisquare(counts, n * law).pvalue > 1e-4
    drawn = system.model_.conditional("visible", {"hidden": H}).sample(Noise(0, "x").rows(np.arange(4)), 0)
    np.testing.assert_array_equal(drawn[:, 3:].sum(1), 1)
    held, same = system.sample(n, y=2, steps=30, random_state=1)
    assert (same == 2).all()
    given = np.exp(log_joint(PARAMETERS)[:, 2])
    counts = np.bincount((held @ [4, 2, 1]).astype(int), minlength=8)
    assert chisquare(counts, n * given / given.sum()).pvalue > 1e-4
    assert system.sample(0)[0].shape == (0, 3)


WEIGHT = np.linspace(0.2, 2.0, 8)
CODES = np.array([0, 2, 1, 1, 0, 2, -1, -1])
LABELED = CODES >= 0


def loss_of(discriminative, generative, joint, codes=CODES, model=None, noise=None):
    batch = Batch({"X": V, "y": codes}, np.arange(8), np.arange(8), WEIGHT)
    objective = LabelObjective(discriminative, generative, joint)
    return objective(model or model_of(), batch, noise=noise or Noise(0, "fit"), phase="fit", group=Group())


def conditional(p, codes=CODES):
    log_p = log_softmax(log_joint(p), 1)
    return -sum(WEIGHT[i] * log_p[i, codes[i]] for i in range(8) if codes[i] >= 0)


def joint(p, codes=CODES):
    return -sum(WEIGHT[i] * (log_joint(p)[i, codes[i]] - log_z(p)) for i in range(8) if codes[i] >= 0)


def marginal(p, codes=CODES):
    log_p = np.logaddexp.reduce(log_joint(p), axis=1) - log_z(p)
    return -sum(WEIGHT[i] * log_p[i] for i in range(8) if codes[i] < 0)


def slopes(f):
    found = {}
    for i, name in enumerate(NAMES):

        def at(value, i=i):
            return float(f([value if j == i else one for j, one in enumerate(PARAMETERS)]))

        found[name] = numerical_gradient(at, PARAMETERS[i])
    return found


@pytest.mark.spec("GEN-059", "REP-091")
def test_the_gradient_of_the_class_is_exact_by_differences_and_by_autograd():
    loss, model = loss_of(1.0, 0.0, None), model_of()
    assert loss.terms["cross_entropy"].sum == pytest.approx(conditional(PARAMETERS), rel=1e-12)
    log_p = model.class_log_proba(torch.from_numpy(V))[torch.arange(6), torch.from_numpy(CODES[:6])]
    (-(torch.from_numpy(WEIGHT[:6]) * log_p).sum()).backward()
    tensors = model_of().class_gradient(torch.from_numpy(V[:6]), CODES[:6], torch.from_numpy(WEIGHT[:6]))[1]
    for name, wanted in slopes(conditional).items():
        np.testing.assert_allclose(loss.gradients[name], wanted, atol=1e-7)
        np.testing.assert_allclose(loss.gradients[name], model.get_parameter(name).grad, atol=1e-11)
        np.testing.assert_allclose(tensors[name].detach(), loss.gradients[name], atol=1e-11)


@pytest.mark.spec("GEN-059")
def test_without_couplings_to_the_class_there_is_the_prior_and_scores_far_out_stay_finite():
    prior = model_of(W[:, :1], np.zeros((3, 1)), B, D, [0.5])
    np.testing.assert_allclose(prior.class_proba(V), np.tile(softmax(D), (8, 1)), atol=1e-12)
    far = model_of(1e4 * W, 1e4 * U)
    assert np.isfinite(far.class_log_proba(V)).all()
    np.testing.assert_allclose(far.class_proba(V).sum(1), 1)


@pytest.mark.spec("GEN-060", "REP-091")
def test_the_hybrid_is_the_weighted_sum_of_its_parts_exact_on_a_small_machine():
    parts = [slopes(f) for f in (conditional, joint, marginal)]
    hybrid = loss_of(0.7, 0.3, Exact().build()).gradients
    for name in NAMES:
        wanted = 0.7 * parts[0][name] + 0.3 * parts[1][name] + parts[2][name]
        np.testing.assert_allclose(hybrid[name], wanted, atol=1e-6)
    known = np.maximum(CODES, 0)
    alone = loss_of(1.0, 0.0, None, known).gradients
    none = loss_of(1.0, 0.0, Exact().build(), known).gradients
    for name in NAMES:
        np.testing.assert_allclose(none[name], alone[name], atol=1e-12)  # alpha = 0


@pytest.mark.spec("GEN-060", "REP-091")
def test_contrastive_divergence_stands_in_for_the_generative_term_alone():
    """Means over 40,000 copies of CD-25 against the exact gradient: statistics in [0, 1], 4.5 errors, seed fixed."""
    n = 40_000
    model, codes = model_of(), np.maximum(CODES, 0)
    X, many = np.repeat(V, n // 8, axis=0), np.repeat(codes, n // 8)
    batch = Batch({"X": X, "y": many}, np.arange(n), np.arange(n), np.ones(n))
    found = LabelObjective(1.0, 0.5, CD(k=25).build())(model, batch, noise=Noise(3, "fit"), phase="fit", group=Group())
    small = Batch({"X": V, "y": codes}, np.arange(8), np.arange(8), np.ones(8))
    exact = LabelObjective(1.0, 0.5, Exact().build())(model, small, noise=Noise(0, "f"), phase="fit", group=Group())
    for name in NAMES:
        np.testing.assert_allclose(
            found.gradients[name] / n, np.asarray(exact.gradients[name]) / 8, atol=0.5 * 4.5 / (2 * n**0.5)
        )


@pytest.mark.spec("GEN-029")
def test_without_classes_it_is_the_restricted_machine():
    """U = 0 and d = 0: energies, log Z and gradients are those of the RBM, but for log K."""
    model, bits = model_of(U=0 * U, d=0 * D), RBMModel.of(W, B, C)
    both = model.with_class(V, np.arange(8) % K)
    np.testing.assert_allclose(model.energy(both), bits.energy(V), rtol=1e-12)
    assert model.log_partition() == pytest.approx(bits.log_partition() + np.log(K), abs=1e-11)
    found, wanted = model.marginal_gradient({"visible": both}, WEIGHT), bits.energy_gradient(V, WEIGHT)[0]
    np.testing.assert_allclose(found["weight"][:3], wanted["weight"], atol=1e-12)
    np.testing.assert_allclose(found["hidden_bias"], wanted["hidden_bias"], atol=1e-12)


def test_annealing_crosses_numbers_beside_a_class():
    model = model_of(kind="gaussian", W=0.5 * W)
    base = model.base(np.array([0.2, -0.2, 0.1, 0.5, 0.3, 0.2]))
    given = base.conditional("visible", {"hidden": H[:1]}).mean[0]
    np.testing.assert_allclose(given, [0.2, -0.2, 0.1, 0.5, 0.3, 0.2], atol=1e-12)
    score = log_partition(model, "ais", Noise(0, "z"), schedule=200)
    assert abs(score.value - model.log_partition()) < 5 * score.error  # a fixed seed
    with pytest.raises(UserTypeError, match="parts must be units with a bias alone"):
        JoinedUnits(BernoulliUnits(2), ScaledGaussianUnits(2))


def test_the_joint_density_of_real_columns_is_in_their_own_units():
    """A mixture of one normal density for each state of the hidden units and each class."""
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 200)
    X = random.normal(size=(200, 2)) * [10.0, 0.1] + y[:, None] * [20.0, -0.3]
    options = {
        "epochs": 150,
        "learning_rate": 0.03,
        "generative": 1.0,
        "objective": "exact",
        "random_state": 0,
        "dtype": "float64",
    }
    system = LabelRBM(n_hidden=2, **options).fit(X, y)
    p = system.model_.state()
    W, U, a, d = p["weight"][:2], p["weight"][2:], p["visible_bias"][:2], p["visible_bias"][2:]
    unit, shift = X.std(0), X.mean(0)
    logs, total = [], []
    for h, k in itertools.product(H, range(2)):
        log_weight = d[k] + p["hidden_bias"] @ h + U[k] @ h + a @ W @ h + 0.5 * (W @ h) @ (W @ h)
        density = multivariate_normal(shift + unit * (a + W @ h), np.diag(unit**2)).logpdf(X)
        logs.append(np.where(y == k, log_weight + density, -np.inf))
        total.append(log_weight)
    wanted = np.logaddexp.reduce(logs) - np.logaddexp.reduce(total)
    np.testing.assert_allclose(system.log_prob(X, y), wanted, atol=1e-9)
    assert system.score(X, y) > 0.8
    drawn, _ = system.sample(2000, y=1, steps=50, random_state=0)
    assert (np.abs(drawn.mean(0) - X[y == 1].mean(0)) < 0.5 * unit).all()


@pytest.mark.spec("REP-091", "GEN-060")
def test_rows_without_a_class_are_learned_as_rows():
    """log p(v) = log of the sum over y of p(v, y) of patterns that no labeled row shows."""
    known, more = (
        np.repeat([[1.0, 1, 0, 0], [0, 0, 1, 1]], 20, axis=0),
        np.repeat([[1.0, 0, 1, 0], [0, 1, 0, 1]], 20, axis=0),
    )
    y = np.repeat([0, 1], 20)
    options = {"n_hidden": 4, "visible": "bernoulli", "generative": 1.0, "objective": "exact", "epochs": 200}
    options |= {"batch_size": None, "learning_rate": 0.05, "random_state": 0, "dtype": "float64"}

    def likelihood(fit, X):
        by_class = [fit.log_prob(X, np.full(len(X), k)) for k in (0, 1)]
        np.testing.assert_allclose(fit.log_prob(X), np.logaddexp.reduce(by_class), atol=1e-10)
        np.testing.assert_allclose(-fit.energy(X) - fit.log_partition().value, fit.log_prob(X), atol=1e-10)
        return float(fit.log_prob(X).mean())

    both, labels = np.concatenate([known, more]), np.append(y, np.full(40, -1))
    alone = LabelRBM(**options).fit(known, y)
    with pytest.warns(UserWarning, match="40 rows labeled -1 taken as without a label"):
        helped = LabelRBM(**options).fit(both, labels)
    assert likelihood(alone, more) < -4
    assert likelihood(helped, more) > -2.2  # the best is -log 4
    assert likelihood(helped, known) > -2.2
    assert helped.score(known, y) == 1
    with pytest.warns(UserWarning, match="without a label"):
        little = LabelRBM(**options, unlabeled_weight=0.1).fit(both, labels)
        none = LabelRBM(**options, unlabeled_weight=0.0).fit(both, labels)
    assert likelihood(alone, more) < likelihood(little, more) < likelihood(helped, more)
    assert likelihood(none, more) < -4 and helped.classes_.tolist() == [0, 1]


@pytest.mark.spec("GEN-060")
def test_alpha_is_the_factor_of_the_joint_term_and_both_may_not_be_zero():
    X, y = np.repeat(V, 5, axis=0), np.repeat(np.arange(8) % 3, 5)
    options = {"n_hidden": 3, "visible": "bernoulli", "epochs": 3, "random_state": 0, "dtype": "float64"}
    none = LabelRBM(**options, generative=0.0, objective="cd").fit(X, y).model_.state()
    other = LabelRBM(**options, generative=0.0, objective="pcd").fit(X, y).model_.state()
    some = LabelRBM(**options, generative=0.5).fit(X, y).model_.state()
    for name in NAMES:
        np.testing.assert_array_equal(none[name], other[name])  # at 0 the joint density is not looked at
    assert np.abs(none["weight"] - some["weight"]).max() > 1e-3
    with pytest.raises(UserValueError, match="discriminative and generative must not both be 0"):
        LabelRBM(discriminative=0.0, generative=0.0, random_state=0).fit(X, y)
    assert isinstance(LabelRBM(**options, objective=PCD(k=2)).fit(X, y).predict_proba(X), np.ndarray)
    assert isinstance(gnomon.make("label-rbm"), LabelRBM)


def test_states_of_the_visible_layer_hold_a_class_that_rows_do_not():
    X, y = np.repeat(V, 5, axis=0), np.repeat(np.arange(8) % 3, 5)
    fitted = LabelRBM(n_hidden=2, visible="bernoulli", epochs=3, random_state=0).fit(X, y)
    states = fitted.to_visible(X)
    assert states.shape == (40, 6) and (states[:, 3:].sum(axis=1) == 1).all()
    np.testing.assert_array_equal(fitted.classes_[states[:, 3:].argmax(axis=1)], fitted.predict(X))
    np.testing.assert_array_equal(fitted.from_visible(states), X)


@pytest.mark.parametrize(
    ("dtype", "scale", "close"), [("float64", 0.3, 1e-11), ("float64", 60.0, 1e-9), ("float32", 0.1, 2e-4)]
)
def test_the_compiled_gradient_of_the_classes_is_that_of_whole_arrays(dtype, scale, close):
    """More hidden units than are multiplied at a time, odds beyond what exp can hold, rows of weight 0."""
    random = np.random.default_rng(3)
    model = LabelRBMModel(6, 4, 530, "bernoulli", getattr(torch, dtype))
    model.load({name: scale * random.normal(size=value.shape) for name, value in model.state().items()})
    x, codes = random.random((9, 6)).astype(dtype), random.integers(0, 4, 9)
    weight = (np.arange(9) * 0.2).astype(dtype)
    log_p, gradients = model.class_gradient(x, codes, weight)
    expected, slopes = LabeledModel.class_gradient(model, x, codes, weight)
    assert log_p.dtype == dtype
    np.testing.assert_allclose(log_p, expected, rtol=close, atol=close)
    for name in NAMES:
        assert gradients[name].dtype == dtype
        np.testing.assert_allclose(gradients[name], slopes[name], rtol=close, atol=close)
