"""Latent variables that come in steps: their bounds and gradients against sums over states and quadrature."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from gnomon.distributions.latents import BinaryLatents, CategoricalLatents, GaussianLatents
from gnomon.distributions.stepwise import StepwiseCodes
from gnomon.errors import UserTypeError
from gnomon.evaluation.gradient_estimates import gradient_variance
from gnomon.numeric.noise import Noise
from gnomon.objectives.estimators import ScoreFunction
from gnomon.objectives.relaxed import StraightThrough
from gnomon.objectives.variational import ELBO, IWAE
from gnomon.training.group import Group
from oracles.latents import F64, batch_of, gradients, loss_of, numbers

ROWS = np.array([[0.4, -1.0], [1.2, 0.3]])


class Twice(nn.Module):
    """Two steps: q of the second and the row's mean see a state that the first draw has changed."""

    n_steps = 2

    def __init__(self, latents, width=1):
        super().__init__()
        self.latents, self.width = latents, width
        self.A, self.B = numbers(0, width * latents.width, 2, scale=0.7), numbers(1, width * latents.width, 2)
        self.C, self.W = numbers(2, 2, width * latents.columns), numbers(3, 2, 2)

    def begin(self, x):
        return x, x.new_zeros(len(x), 2)

    def look(self, state, step):
        x, h = state
        return self.latents.codes(x @ self.A.T + h @ self.B.T + 0.3 * step), state

    def take(self, state, z, step):
        return state[0], torch.tanh(state[1] + z @ self.C.T)

    def encode(self, x):
        return StepwiseCodes(self, x, self.latents.reparametrized)

    def log_likelihood_along(self, x, path):
        return -0.5 * (x - path.states[-1][1] @ self.W.T).square().sum(1)

    def log_likelihood(self, x, z):
        state = x, x.new_zeros(len(x), 2)
        for step, part in enumerate(z.chunk(2, 1)):
            state = self.take(state, part, step)
        return -0.5 * (x - state[1] @ self.W.T).square().sum(1)

    def log_joint(self, x, z):
        return self.log_likelihood(x, z) + self.latents.log_prior(z)

    def divergence(self, codes):
        return self.latents.divergence(codes)


def by_states(model, beta=1.0):
    """The bound of two binary steps, all four pairs of draws written out."""
    x, total = torch.as_tensor(ROWS), 0.0
    for first in (0.0, 1.0):
        for second in (0.0, 1.0):
            state, log_q, lost = model.begin(x), 0.0, 0.0
            for step, bit in enumerate((first, second)):
                logit = model.look(state, step)[0].logits[:, 0]
                p = torch.sigmoid(logit)
                log_q = log_q + torch.log(p if bit else 1 - p)
                lost = lost + math.log(2) + p * torch.log(p) + (1 - p) * torch.log(1 - p)
                state = model.take(state, torch.full((len(x), 1), bit, dtype=F64), step)
            total = total + log_q.exp() * (-0.5 * (x - state[1] @ model.W.T).square().sum(1) - beta * lost)
    return total


def by_quadrature(model, n=12):
    """The bound of two Gaussian steps, over the noise of both by Gauss and Hermite."""
    nodes, weights = (torch.as_tensor(one) for one in np.polynomial.hermite_e.hermegauss(n))
    weights, x, total = weights / weights.sum(), torch.as_tensor(ROWS), 0.0
    for e, one in zip(nodes, weights, strict=True):
        for f, other in zip(nodes, weights, strict=True):
            state, lost = model.begin(x), 0.0
            for step, number in enumerate((e, f)):
                q = model.look(state, step)[0]
                lost = lost + 0.5 * (q.mean**2 + q.log_variance.exp() - 1 - q.log_variance).sum(1)
                state = model.take(state, q.mean + number * (0.5 * q.log_variance).exp(), step)
            total = total + one * other * (-0.5 * (x - state[1] @ model.W.T).square().sum(1) - lost)
    return total


def exact(bound, model):
    shapes = {name: one.shape for name, one in model.named_parameters()}
    return {name: one.reshape(shapes[name]).numpy() for name, one in gradients(-bound.mean(), model).items()}


def held(value, model, **options):
    """No bias beyond 5 standard errors in any of the parameters: false alarm below 1e-5."""
    found = gradient_variance(model=model, batch=ROWS, exact=value, n=150, **options)
    assert found.seems_biased is False, found


@pytest.mark.parametrize("form", ["kl", "entropy", "monte-carlo"])
def test_gradients_of_discrete_steps_are_those_of_the_sum_over_states(form):
    """With a factor of the divergence, which a draw of the first step is credited with through the second's."""
    model = Twice(BinaryLatents())
    beta = 3.0 if form == "kl" else 1.0
    true = exact(by_states(model, beta), model)
    objective = ELBO(n_samples=2, form=form, beta=beta, estimator=ScoreFunction("leave-one-out"))
    summed = objective.build().exact(model, batch_of(ROWS), noise=Noise(0, "x")).total()
    assert summed.item() == pytest.approx(-by_states(model, beta).mean().item(), abs=1e-12)
    for name, one in gradients(summed, model).items():
        np.testing.assert_allclose(one, true[name].ravel(), rtol=1e-9, atol=1e-12)
    held(true, model, objective=objective)


GAUSSIAN = (
    ELBO(n_samples=3), ELBO(form="entropy"), ELBO(form="monte-carlo", estimator="dreg"), IWAE(k=1),
    IWAE(k=1, estimator="pathwise"), ELBO(form="monte-carlo", estimator=ScoreFunction("running")),
)  # fmt: skip


@pytest.mark.parametrize("objective", GAUSSIAN)
def test_gradients_of_gaussian_steps_are_those_of_quadrature(objective):
    model = Twice(GaussianLatents())
    held(exact(by_quadrature(model), model), model, objective=objective)


def test_the_signal_of_importance_weights_is_one_mean_for_both_estimators():
    model = Twice(GaussianLatents(), width=2)
    both = {k: gradient_variance(IWAE(k=4, estimator=k), model, ROWS, n=200) for k in ("dreg", "pathwise")}
    for name, mean in both["dreg"].mean.items():
        error = np.hypot(both["dreg"].stderr[name], both["pathwise"].stderr[name])
        assert (np.abs(mean - both["pathwise"].mean[name]) < 5 * error).all()


def test_validation_is_the_bound_that_is_trained_and_draws_are_remembered_only_with_their_gradients():
    model = Twice(GaussianLatents(), width=2)
    x = torch.as_tensor(ROWS)
    codes = model.encode(x)
    z = codes.sample(Noise(0, "z"), draws=3)
    assert z.shape == (6, 4) and not z.requires_grad and codes.log_prob(z).requires_grad
    again = model.encode(x).log_prob(z)
    torch.testing.assert_close(codes.log_prob(z), again, rtol=0, atol=0)
    with torch.no_grad():
        other = codes.sample(Noise(0, "z"), draws=3)
        torch.testing.assert_close(other, z, rtol=0, atol=0)
        assert codes.follow(other) is codes.follow(other)
        torch.testing.assert_close(
            codes.log_likelihood(x.repeat_interleave(3, 0), z), model.log_likelihood(x.repeat_interleave(3, 0), z)
        )
    gone = codes.detached().log_prob(z.clone().requires_grad_())
    torch.testing.assert_close(gone, again)
    assert all(one is None for one in torch.autograd.grad(gone.sum(), list(model.parameters()), allow_unused=True))
    objective = ELBO(n_samples=2, free_bits=0.5, beta=2.0).build()
    batch, noise = batch_of(ROWS), Noise(0, "fit/test")
    plain = loss_of(ELBO(n_samples=2).build(), model, batch)
    found = objective.validate(model, batch, noise=noise.at(0), group=Group()).total()
    assert float(found) == pytest.approx(plain.item(), abs=1e-12)


def test_steps_of_categories_and_what_cannot_pass_them():
    model = Twice(CategoricalLatents(3), width=2)
    codes = model.encode(torch.as_tensor(ROWS))
    z = codes.sample(Noise(0, "z"), draws=5)
    assert z.shape == (10, 12) and set(z.unique().tolist()) == {0, 1} and (z.reshape(10, 4, 3).sum(2) == 1).all()
    assert codes.mean.shape == (2, 12) and codes.states().shape == (81, 12)
    total = codes.log_prob(codes.states().repeat(2, 1)).reshape(2, 81).exp().sum(1)
    torch.testing.assert_close(total, torch.ones_like(total))
    with pytest.raises(UserTypeError, match="discrete and have no gradient"):
        loss_of(ELBO().build(), model, batch_of(ROWS))
    loss = loss_of(ELBO(estimator=StraightThrough()).build(), model, batch_of(ROWS))
    assert all(one.abs().sum() > 0 for one in gradients(loss, model).values())
