"""Estimators of gradients on a coin and a die whose costs, exact gradients and variances are known.

A coin that shows 1 with p = 0.3, given by its log odds, earns 5 or 1: E[J] = 2.2, slope 0.84 by the log odds, variance
of a single score function 3.0324, 0.5376 less the mean, and 0 less the optimal 0.798 / 0.21 = 3.8.
"""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from gnomon.distributions.latents import BinaryLatents
from gnomon.errors import UserError
from gnomon.numeric.noise import Noise
from gnomon.objectives.baselines import ConstantBaseline
from gnomon.objectives.estimators import ScoreFunction
from gnomon.objectives.relaxed import GumbelSoftmax, StraightThrough
from gnomon.objectives.variational import ELBO, IWAE
from gnomon.recipes.recipe import check_recipe
from gnomon.training.group import Group
from oracles.latents import Line, batch_of, loss_of

F64 = torch.float64
ROWS = np.ones((2, 3))
CHANCES = np.array([0.7, 0.3])


class Coin(nn.Module):
    """The coin as a model whose bound is E[J]: q does not look at x, and its draws may be given."""

    latents = BinaryLatents()

    def __init__(self, returns=(1.0, 5.0)):
        super().__init__()
        self.logit = nn.Parameter(torch.tensor([math.log(0.3 / 0.7)], dtype=F64))
        self.returns, self.given = torch.tensor(returns, dtype=F64), None

    def encode(self, x):
        codes = self.latents.codes(self.logit.expand(len(x), 1))
        if self.given is not None:
            codes.sample = lambda noise, draws=1: self.given
        return codes

    def log_likelihood(self, x, z):
        return self.returns[z[:, 0].long()]

    def divergence(self, codes):
        return 0 * codes.logits


def begun(model, estimator, draws=1):
    """An objective with what it needs made, and a batch of rows that are all alike."""
    objective = ELBO(n_samples=draws, estimator=estimator).build()
    rows = np.ones((8, 2))
    batches = SimpleNamespace(step=lambda e, i: batch_of(rows), epoch=lambda e: [batch_of(rows)])
    objective.begin(model, batches, Noise(0, "begin"), Group())
    return objective


def slopes(objective, model, n=1, weight=None, update=0):
    """Gradient of the bound by the log odds, of a batch of n rows, and the loss."""
    batch = batch_of(np.ones((n, 2)), weight=weight)
    loss = objective(model, batch, noise=Noise(0, "fit/test").at(update), phase="fit", group=Group())
    (found,) = torch.autograd.grad(loss.terms["negative_bound"].sum, model.logit, retain_graph=True)
    return -found.item() / batch.weight.sum(), loss


def moments(objective, model):
    """Mean and variance of the estimate from one draw, by both outcomes; the objective is left as it was."""
    before = {name: value.clone() for name, value in objective.state_dict().items()}
    found = []
    for outcome in (0.0, 1.0):
        model.given = torch.tensor([[outcome]], dtype=F64)
        found.append(slopes(objective, model)[0])
        objective.load_state_dict(before)
    model.given = None
    mean = CHANCES @ found
    return mean, CHANCES @ (np.array(found) - mean) ** 2


def see(objective, model):
    """Let it see both outcomes with their chances."""
    model.given = torch.tensor([[0.0], [1.0]], dtype=F64)
    found = slopes(objective, model, 2, CHANCES)
    model.given = None
    return found


@pytest.mark.spec("GEN-070", "GEN-071")
@pytest.mark.parametrize(("value", "variance"), [(0.0, 3.0324), (2.2, 0.5376), (3.8, 0.0)])
def test_a_constant_leaves_the_mean_and_changes_the_variance(value, variance):
    model = Coin()
    found = moments(begun(model, ScoreFunction(ConstantBaseline(value))), model)
    assert found == pytest.approx((0.84, variance), abs=1e-12)


@pytest.mark.spec("GEN-070", "GEN-071")
def test_the_running_mean_and_the_optimal_baseline_have_the_published_variances_once_they_know():
    model = Coin()
    for name, variance in (("running", 0.5376), ("optimal", 0.0)):
        objective = begun(model, ScoreFunction(name))
        assert moments(objective, model) == pytest.approx((0.84, 3.0324), abs=1e-12)  # nothing is known yet
        see(objective, model)
        assert moments(objective, model) == pytest.approx((0.84, variance), abs=1e-12)


@pytest.mark.spec("GEN-072")
@pytest.mark.parametrize(("name", "variance"), [("learned", 0.5376), ("learned-optimal", 0.0)])
@pytest.mark.parametrize("drawn", [True, False])
def test_learned_baselines_find_the_mean_and_the_optimum_and_pass_nothing_to_the_model(name, variance, drawn):
    model = Coin()
    objective = begun(model, ScoreFunction(name))
    rule = torch.optim.Adam(objective.parameters(), lr=0.02)
    for update in range(300):
        _, loss = slopes(objective, model, 64, update=update) if drawn else see(objective, model)
        error = loss.terms["baseline"].sum / loss.terms["baseline"].weight
        assert torch.autograd.grad(error, model.logit, allow_unused=True, retain_graph=True) == (None,)
        rule.zero_grad()
        error.backward(inputs=list(objective.parameters()))
        rule.param_groups[0]["lr"] = 0.02 * 0.99**update
        rule.step()
    mean, found = moments(objective, model)
    assert mean == pytest.approx(0.84, abs=1e-12)  # whatever the heads answer
    assert found == pytest.approx(variance, abs=0.15 if drawn else 1e-4)  # slope 0.67 by the level at 2.2


@pytest.mark.spec("GEN-073")
def test_a_normalized_signal_has_steps_of_one_size():
    model, large = Coin((10.0, 50.0)), Coin((100.0, 500.0))
    ways = [begun(one, ScoreFunction("running", normalize_signal=True)) for one in (model, large)]
    for update in range(30):
        found = [slopes(way, one, 20, update=update)[0] for way, one in zip(ways, (model, large), strict=True)]
        assert found[0] == pytest.approx(found[1], rel=1e-9)
    plain = begun(model, "score")
    assert abs(slopes(plain, model, 20, update=3)[0]) > 5 * abs(found[0])
    small = Coin((0.01, 0.05))  # a deviation below 1 is let alone
    for estimator in ("score", ScoreFunction(normalize_signal=True)):
        assert moments(begun(small, estimator), small)[0] == pytest.approx(0.0084, abs=1e-12)
    constant = Coin((7.0, 7.0))  # without any deviation: nothing to divide by
    assert moments(begun(constant, ScoreFunction("none", normalize_signal=True)), constant)[1] == pytest.approx(10.29)
    for way in (ScoreFunction("none", normalize_signal=True), ScoreFunction(normalize_signal=True)):
        objective = begun(constant, way)
        assert all(math.isfinite(slopes(objective, constant, n, update=n)[0]) for n in (1, 2, 50))


class Curve(Coin):
    """The same coin with the return 5 (z - 0.3)^2 between 0 and 1 too: 2.45 and 0.45, slope 2 * 0.21 = 0.42."""

    def log_likelihood(self, x, z):
        return 5 * (z[:, 0] - 0.3).square()


@pytest.mark.spec("BAY-73")
def test_relaxed_draws_are_biased_less_at_a_low_temperature_where_their_variance_is_higher():
    """Means of 40,000 draws, within 6 standard errors of sums over a grid of uniform numbers."""
    model, n, found = Curve(), 40_000, {}
    grid = (torch.arange(200_000, dtype=F64) + 0.5) / 200_000
    for temperature in (0.1, 0.5, 2.0):
        logit = model.logit.detach().expand(len(grid)).clone().requires_grad_()
        z = ((logit + torch.logit(grid)) / temperature).sigmoid()
        (each,) = torch.autograd.grad(5 * (z - 0.3).square().sum(), logit)
        mine = slopes(begun(model, GumbelSoftmax(temperature)), model, n)[0]
        assert abs(mine - each.mean()) < 6 * each.std() / math.sqrt(n)
        found[temperature] = abs(each.mean().item() - 0.42), each.var().item()
    assert found[0.1][0] < 0.06 < found[0.5][0] < found[2.0][0]
    assert found[0.1][1] > found[0.5][1] > found[2.0][1]
    # straight through: E[f'(z)] p (1 - p) = (0.3 * 7 - 0.7 * 3) 0.21 = 0, where the gradient is 0.42
    assert moments(begun(model, "straight-through"), model)[0] == pytest.approx(0, abs=1e-12)
    assert abs(slopes(begun(model, GumbelSoftmax(0.5, hard=True)), model, n)[0] - 0.42) > 0.02
    assert GumbelSoftmax.biased and StraightThrough.biased and not ScoreFunction.biased


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: loss_of(ELBO(estimator="gumbel-softmax").build(), Line(), batch_of(np.ones((2, 3)))), "not discrete"),
        (
            lambda: loss_of(ELBO(estimator="straight-through").build(), Line(), batch_of(np.ones((2, 3)))),
            "not discrete",
        ),
        (lambda: ELBO(estimator="gumbel-softmax", form="monte-carlo").build(), "form must be 'kl' or 'entropy'"),
        (lambda: IWAE(estimator="gumbel-softmax").build(), "importance weights need draws of q"),
        (lambda: check_recipe(GumbelSoftmax(0.0), "estimator"), "temperature"),
    ],
)
def test_what_cannot_be_relaxed_is_refused(make, told):
    with pytest.raises(UserError, match=told):
        make()
