"""The latent identity on machines and mixtures against the brute-force engine, and on models that break it."""

import numpy as np
import pytest
import torch

from gnomon.distributions.bernoulli import Bernoulli
from gnomon.errors import UserError
from gnomon.inference.exact.latent_identity import check_identity, expected_complete_gradient
from gnomon.systems.energy.rbm import RBMModel
from gnomon.systems.mixtures.bernoulli_mixture import BernoulliMixtureModel
from oracles.binary import Joint, all_states, numerical_gradient, rbm_energy
from oracles.toys import ToyRBM

random = np.random.default_rng(0)
W, B, C = random.normal(size=(3, 2)), random.normal(size=3), random.normal(size=2)
V = np.array([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 1.0]])


def log_likelihood(W, b, c):
    """Of the rows V by the brute-force table."""
    joint = Joint(rbm_energy(W, b, c), (3, 2))
    mass = dict(zip(map(tuple, all_states(3)), joint.log_marginal_mass(0) - joint.log_z, strict=True))
    return np.array([mass[tuple(v)] for v in V])


def machine():
    return RBMModel.of(W, B, C)


@pytest.mark.spec("REP-152")
@pytest.mark.parametrize("model", [machine(), ToyRBM(W, B, C)])
def test_both_sides_are_the_likelihood_of_the_table(model):
    found = check_identity(model, V)
    assert found and found.error < 1e-12 and found.gradient_error < 1e-8 and "identity holds" in str(found)
    np.testing.assert_allclose(found.log_prob, log_likelihood(W, B, C), atol=1e-13)
    np.testing.assert_allclose(found.expectation, log_likelihood(W, B, C), atol=1e-13)


@pytest.mark.spec("REP-152")
@pytest.mark.parametrize(("model", "accuracy"), [(machine(), 1e-8), (ToyRBM(W, B, C), 1e-8)])
def test_the_expected_gradient_is_that_of_the_likelihood(model, accuracy):
    found = list(expected_complete_gradient(model, V).values())
    expected = [
        numerical_gradient(lambda w: log_likelihood(w, B, C).sum(), W),
        numerical_gradient(lambda b: log_likelihood(W, b, C).sum(), B),
        numerical_gradient(lambda c: log_likelihood(W, B, c).sum(), C),
    ]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=accuracy)


@pytest.mark.spec("REP-152")
def test_the_gradient_of_a_module_is_exact_and_its_parameters_stay():
    """In closed form: data minus model, <v h> with h's means given v."""
    model = RBMModel.of(W.astype(np.float32), B.astype(np.float32), C.astype(np.float32))
    before = {name: value.copy() for name, value in model.state().items()}
    found = expected_complete_gradient(model, torch.as_tensor(V))
    w, b, c = (value.astype(np.float64) for value in (before["weight"], before["visible_bias"], before["hidden_bias"]))
    joint = Joint(rbm_energy(w, b, c), (3, 2))
    means = 1 / (1 + np.exp(-(V @ w + c)))
    np.testing.assert_allclose(
        found["weight"], V.T @ means - 3 * joint.expectation(lambda s: np.outer(s[:3], s[3:])), atol=1e-14
    )
    np.testing.assert_allclose(found["visible_bias"], V.sum(0) - 3 * joint.expectation(lambda s: s[:3]), atol=1e-14)
    np.testing.assert_allclose(found["hidden_bias"], means.sum(0) - 3 * joint.expectation(lambda s: s[3:]), atol=1e-14)
    for name, value in model.state().items():
        assert value.dtype == np.float32 and (value == before[name]).all()


@pytest.mark.spec("REP-152")
def test_a_mixture():
    weights, means = np.array([0.2, 0.5, 0.3]), random.uniform(0.1, 0.9, size=(3, 3))
    model = BernoulliMixtureModel(weights, means)
    found = check_identity(model, V)

    def by_hand(weights, means):
        return np.log(sum(p * np.prod(np.where(V == 1, m, 1 - m), axis=1) for p, m in zip(weights, means, strict=True)))

    assert found and found.error < 1e-12
    np.testing.assert_allclose(found.expectation, by_hand(weights, means), atol=1e-13)
    for gradient in (found.expected_gradient, found.gradient, expected_complete_gradient(model, V)):
        expected = numerical_gradient(lambda m: by_hand(weights, m).sum(), means)
        np.testing.assert_allclose(gradient["means"], expected, atol=1e-8)
        expected = numerical_gradient(lambda p: by_hand(p, means).sum(), weights)
        np.testing.assert_allclose(gradient["weights"], expected, atol=1e-8)


class Certain(ToyRBM):
    """Its first hidden unit is the first visible one: other states have energy inf and posterior 0."""

    def joint_energy(self, state):
        wrong = state["visible"][:, 0] != state["hidden"][:, 0]
        return np.where(wrong, np.inf, super().joint_energy(state))

    def conditional(self, block, state):
        field = self.c + state["visible"] @ self.W
        field[:, 0] = np.where(state["visible"][:, 0] == 1, 800.0, -800.0)  # e^-800 is 0 in float64
        return Bernoulli(field)


@pytest.mark.spec("REP-152")
def test_states_without_probability_add_nothing():
    class Unnormalized(Certain):
        log_prob = None

    model = Unnormalized(W, B, C)
    del Unnormalized.log_prob
    found = check_identity(model, V)
    energy = rbm_energy(W, B, C)
    joint = Joint(lambda v, h: energy(v, h) if v[0] == h[0] else 1e4, (3, 2))
    mass = dict(zip(map(tuple, all_states(3)), joint.log_marginal_mass(0) - joint.log_z, strict=True))
    assert found
    np.testing.assert_allclose(found.expectation, [mass[tuple(v)] for v in V], atol=1e-12)


@pytest.mark.spec("REP-152")
def test_a_posterior_or_a_likelihood_that_is_wrong_is_found():
    class Tilted(ToyRBM):
        def conditional(self, block, state):
            return Bernoulli(self.c + state["visible"] @ self.W + 0.1)

    found = check_identity(Tilted(W, B, C), V)
    assert not found and "broken" in str(found)
    q = 1 / (1 + np.exp(-(V @ W + C + 0.1)))
    p = 1 / (1 + np.exp(-(V @ W + C)))
    divergence = (q * np.log(q / p) + (1 - q) * np.log((1 - q) / (1 - p))).sum(1)
    np.testing.assert_allclose(found.log_prob - found.expectation, divergence, atol=1e-12)

    class Boastful(RBMModel):
        def log_prob(self, x):
            return super().log_prob(x) + 1e-6 * self.views()["visible_bias"].sum()

    boastful = Boastful.of(W, B, C)
    boastful.__class__ = Boastful
    found = check_identity(boastful, V)
    assert not found and found.error == pytest.approx(1e-6 * abs(B.sum()), rel=1e-4)


@pytest.mark.spec("REP-152")
def test_several_latent_blocks():
    class Deep:
        blocks = ("visible", "first", "second")
        sizes = {"visible": 3, "first": 2, "second": 2}  # noqa: RUF012

        def __init__(self):
            self.W, self.U = W.copy(), random.normal(size=(2, 2))

        def state(self):
            return {"W": self.W, "U": self.U}

        def load(self, state):
            self.W, self.U = state["W"], state["U"]

        def conditional(self, block, state):
            raise NotImplementedError

        def joint_energy(self, state):
            v, h, g = (state[block] for block in self.blocks)
            return -((v @ self.W) * h).sum(-1) - ((h @ self.U) * g).sum(-1)

    model = Deep()
    found = check_identity(model, V)
    flat = lambda U: Joint(lambda v, h, g: -(v @ W @ h) - h @ U @ g, (3, 2, 2))  # noqa: E731

    def likelihood(U):
        joint = flat(U)
        mass = dict(zip(map(tuple, all_states(3)), joint.log_marginal_mass(0) - joint.log_z, strict=True))
        return np.array([mass[tuple(v)] for v in V])

    assert found
    np.testing.assert_allclose(found.expectation, likelihood(model.U), atol=1e-12)
    expected = numerical_gradient(lambda U: likelihood(U).sum(), model.U)
    np.testing.assert_allclose(found.expected_gradient["U"], expected, atol=1e-8)


class Narrow:
    """A mixture that gives rows with a 0 in front no probability."""

    def state(self):
        return {}

    def load(self, state):
        pass

    def log_joint(self, x):
        return np.where(x[:, :2] * x[:, :1] == 1, -1.0, -np.inf)


class Shift(torch.nn.Module):
    """A module without latents."""

    def __init__(self):
        super().__init__()
        self.b = torch.nn.Parameter(torch.zeros(3))


class Tipped(ToyRBM):
    """A likelihood that is off by a number that depends on a parameter."""

    def log_prob(self, x):
        found = -self.marginal_energy({"visible": x}) - Joint(rbm_energy(self.W, self.b, self.c), (3, 2)).log_z
        return found + 1e-4 * self.b[0]


def test_tolerances_are_those_given():
    model = Tipped(W, B, C)
    off = 1e-4 * abs(B[0])
    strict = check_identity(model, V)
    assert not strict and strict.error == pytest.approx(off, rel=1e-6) and "is broken" in str(strict)
    assert strict.gradient_error > 1e-5
    assert not check_identity(model, V, tol=1e-3)  # its gradient is off too
    assert not check_identity(model, V, gradient_tol=1e-3)
    assert check_identity(model, V, tol=1e-3, gradient_tol=1e-3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: check_identity(RBMModel(12, 5), np.ones((1, 12))), r"17 units visits 2\^17 states, above .* 2\^16"),
        (lambda: check_identity(RBMModel(3, 13), np.ones((300, 3))), "300 rows by 2.13 latent states .* fewer rows"),
        (lambda: check_identity(machine(), V, limit=4), r"5 units visits 2\^5 states, above .* 2\^4"),
        (lambda: expected_complete_gradient(machine(), V, limit=4), r"above .* 2\^4"),
        (lambda: check_identity(machine(), np.ones((2, 4))), "v must have 3 columns, one per unit, got 4"),
        (lambda: check_identity(machine(), np.ones(3)), r"v must be rows \(n, d\), got an array of shape \(3,\)"),
        (lambda: check_identity(machine(), V, visible="data"), "block 'data' is unknown .* hidden, visible"),
        (lambda: check_identity(object(), V), "object has no state"),
        (lambda: expected_complete_gradient(Shift(), V), "neither log_joint nor joint_energy"),
        (lambda: check_identity(Narrow(), V), "the log probability of row 1 is -inf .* leave the row out"),
        (
            lambda: check_identity(BernoulliMixtureModel(np.array([1.0, 0.0]), np.full((2, 3), 0.5)), V),
            r"a probability is 0 at weights\[1\], an edge of the .*move it off the edge",
        ),
    ],
)
def test_mistakes_are_told_in_one_line(call, message):
    with pytest.raises(UserError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
