"""Units by gradient on their log-odds: the fixed points of mean field, slopes by differences, saturated units."""

import itertools
import math

import numpy as np
import pytest
import torch

from gnomon.errors import UserError, UserValueError
from gnomon.inference.variational.binary_sparse_coding import BinarySparseCoding
from gnomon.inference.variational.coordinate_ascent import coordinate_ascent
from gnomon.inference.variational.coordinate_logits import bernoulli_entropy, expected_of_states, logit_ascent
from gnomon.inference.variational.coordinate_tables import TableFactors
from oracles.binary import numerical_gradient

CODING = BinarySparseCoding([[1.0, 0.5], [0.0, 1.0]], b=[0.0, -1.0], beta=[1.0, 2.0])
STATES = np.array(list(itertools.product([0.0, 1.0], repeat=2)))
TABLE = CODING.log_joint(np.ones((4, 2)), STATES).reshape(1, 2, 2)


@pytest.mark.spec("INF-86")
@pytest.mark.parametrize(
    ("optimizer", "steps"),
    [(None, 50), (lambda z: torch.optim.Adam(z, lr=0.1), 400), (lambda z: torch.optim.SGD(z, lr=2.0), 400)],
)
def test_any_optimizer_ends_at_the_fixed_point_of_two_units(optimizer, steps):
    found = logit_ascent(expected_of_states(TABLE), np.zeros((1, 2)), optimizer=optimizer, steps=steps, tol=1e-7)
    assert found.converged.all()
    np.testing.assert_allclose(found.means[0], (0.559242, 0.523827), atol=2e-6)
    assert found.elbo[0] == pytest.approx(-2.290007, abs=5e-7)
    np.testing.assert_allclose(np.log(found.means / (1 - found.means)), found.logits, atol=1e-12)
    assert found.trace[-1] == found.elbo
    assert len(found.trace) == found.n_iter + 1


@pytest.mark.spec("INF-86")
def test_the_closed_form_of_a_model_serves_as_well():
    """Binary sparse coding without a table of states, its quadratic form in torch; rows at once."""
    W, b, beta = (torch.tensor(x) for x in ([[1.0, 0.5], [0.0, 1.0]], [0.0, -1.0], [1.0, 2.0]))
    rows = torch.tensor([[1.0, 1.0], [0.2, -0.7], [2.0, 0.3]], dtype=torch.float64)
    W, b, beta = W.double(), b.double(), beta.double()

    def expected(h):
        left = rows - h @ W.T
        spread = (h * (1 - h)) @ ((W * W).T @ beta)
        prior = h @ torch.nn.functional.logsigmoid(b) + (1 - h) @ torch.nn.functional.logsigmoid(-b)
        return prior + 0.5 * (beta / (2 * math.pi)).log().sum() - 0.5 * ((left * left) @ beta + spread)

    found = logit_ascent(expected, np.zeros((3, 2)))
    known = CODING.infer(rows.numpy())
    np.testing.assert_allclose(found.means, known.means, atol=1e-6)
    np.testing.assert_allclose(found.elbo, known.elbo, atol=1e-10)


@pytest.mark.spec("INF-86")
def test_it_stands_where_coordinate_ascent_does_and_nowhere_else():
    table = np.random.default_rng(0).normal(size=(20, 2, 2, 2))
    family = TableFactors(table)
    found = logit_ascent(expected_of_states(table), np.zeros((20, 3)))
    assert found.converged.all()
    state = {f"h{i + 1}": np.stack([1 - found.means[:, i], found.means[:, i]], 1) for i in range(3)}
    assert (family.residual(state, np.arange(20)) < 1e-4).all()
    ends = coordinate_ascent(family, tol_h=1e-12)
    at = np.stack([np.log(ends.state[f"h{i + 1}"][:, 1] / ends.state[f"h{i + 1}"][:, 0]) for i in range(3)], 1)
    still = logit_ascent(expected_of_states(table), at)
    assert still.n_iter == 0
    moved = logit_ascent(expected_of_states(table), at + 0.01, steps=0)
    assert (moved.residual > 1e-5).all()


@pytest.mark.spec("INF-86")
def test_slopes_and_saturated_units():
    table = np.random.default_rng(1).normal(size=(1, 2, 2, 2))
    z = np.array([0.3, -1.2, 2.0])

    def bound(z):
        q = [np.array([1 / (1 + math.exp(x)), 1 / (1 + math.exp(-x))]) for x in z]
        p = q[0][:, None, None] * q[1][:, None] * q[2]
        return float((p * (table[0] - np.log(p))).sum())

    here = logit_ascent(expected_of_states(table), z[None], steps=0)
    assert here.elbo[0] == pytest.approx(bound(z), abs=1e-12)
    assert here.residual[0] == pytest.approx(np.abs(numerical_gradient(bound, z)).max(), abs=1e-8)
    ends = torch.tensor([1000.0, -1000.0, 40.0, -40.0], dtype=torch.float64, requires_grad=True)
    entropy = bernoulli_entropy(ends)
    (slope,) = torch.autograd.grad(entropy.sum(), ends)
    assert torch.isfinite(entropy).all()
    assert torch.isfinite(slope).all()
    np.testing.assert_allclose(entropy[:2].detach(), 0.0)
    assert entropy[2].item() == pytest.approx(41 * math.exp(-40), rel=1e-12)
    far = logit_ascent(expected_of_states(table), [[1000.0, -1000.0, 0.0]], steps=3)
    assert np.isfinite(far.elbo).all()
    assert far.elbo[0] >= far.trace[0, 0]


@pytest.mark.spec("INF-86")
def test_what_does_not_fit_is_refused():
    good = expected_of_states(TABLE)
    for act, words in [
        (lambda: expected_of_states([[0.0, 1.0, 2.0]]), "log_joint must be finite, with an axis of 2"),
        (lambda: logit_ascent(good, [0.0, 0.0]), "start must be finite log-odds"),
        (lambda: logit_ascent(good, [[0.0, np.nan]]), "start must be finite log-odds"),
        (lambda: logit_ascent(good, [[0.0, 0.0]], tol=-1), "tol must be at least 0"),
        (lambda: logit_ascent(lambda h: h, [[0.0, 0.0]]), r"expected_log_joint must return shape \(1,\)"),
        (lambda: logit_ascent(good, [[0.0, 0.0]], optimizer=lambda z: 3), "optimizer must make a torch"),
    ]:
        with pytest.raises(UserError, match=words):
            act()
    assert issubclass(UserValueError, UserError)
