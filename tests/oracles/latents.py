"""Models with latent variables whose likelihood, bound and gradients are known."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn

from gnomon.distributions.latents import BinaryLatents, GaussianLatents
from gnomon.numeric.noise import Noise
from gnomon.training.group import Group

F64 = torch.float64


def numbers(seed, *shape, scale=1.0):
    return nn.Parameter(scale * torch.as_tensor(np.random.default_rng(seed).normal(size=shape)))


class Line(nn.Module):
    """z ~ N(0, I), x | z ~ N(W z + b, s^2 I); q(z | x) = N(A x + a, diag exp(B x + c))."""

    latents = GaussianLatents()

    def __init__(self, seed=0, d=3, k=2):
        super().__init__()
        self.W, self.b = numbers(seed, d, k), numbers(seed + 1, d, scale=0.3)
        self.log_s = nn.Parameter(torch.tensor(-0.2, dtype=F64))
        self.A, self.a = numbers(seed + 2, k, d, scale=0.3), numbers(seed + 3, k, scale=0.3)
        self.B, self.c = numbers(seed + 4, k, d, scale=0.2), numbers(seed + 5, k, scale=0.3)

    def encode(self, x):
        return self.latents.codes(torch.cat([x @ self.A.T + self.a, x @ self.B.T + self.c], 1))

    def infer(self, x, noise):
        codes = self.encode(x)
        z = codes.sample(noise)
        return z, codes.log_prob(z)

    def log_likelihood(self, x, z):
        squares = (x - z @ self.W.T - self.b).square().sum(1) * torch.exp(-2 * self.log_s)
        return -0.5 * (squares + x.shape[1] * (math.log(2 * math.pi) + 2 * self.log_s))

    def log_joint(self, x, z):
        return self.log_likelihood(x, z) + self.latents.log_prior(z)

    def sample_prior(self, n, noise):
        return self.latents.sample_prior((n, self.W.shape[1]), noise, self.W)

    def divergence(self, codes):
        return self.latents.divergence(codes)

    def log_prob(self, x):
        """Exact: x ~ N(b, W W^T + s^2 I)."""
        covariance = self.W @ self.W.T + torch.exp(2 * self.log_s) * torch.eye(len(self.b), dtype=F64)
        return torch.distributions.MultivariateNormal(self.b, covariance).log_prob(x)

    def elbo(self, x, beta=1.0):
        """Exact."""
        codes = self.encode(x)
        lost = (self.W.square().sum(0) * codes.log_variance.exp()).sum(1) * torch.exp(-2 * self.log_s)
        return self.log_likelihood(x, codes.mean) - 0.5 * lost - beta * self.divergence(codes).sum(1)


class Coins(nn.Module):
    """k fair coins z, binary x with logits W z + b; q(z | x) with logits A x + a. Everything by enumeration."""

    latents = BinaryLatents()

    def __init__(self, seed=0, d=3, k=2):
        super().__init__()
        self.W, self.b = numbers(seed, d, k), numbers(seed + 1, d)
        self.A, self.a = numbers(seed + 2, k, d), numbers(seed + 3, k)
        self.states = torch.tensor(list(itertools.product([0.0, 1.0], repeat=k)), dtype=F64)

    def encode(self, x):
        return self.latents.codes(x @ self.A.T + self.a)

    def log_likelihood(self, x, z):
        logits = z @ self.W.T + self.b
        return (x * logits - nn.functional.softplus(logits)).sum(1)

    def log_joint(self, x, z):
        return self.log_likelihood(x, z) + self.latents.log_prior(z)

    def divergence(self, codes):
        return self.latents.divergence(codes)

    def table(self, x):
        """log p(x, z) and log q(z | x) of every state, (n, states) each."""
        n, m = len(x), len(self.states)
        rows, z = x.repeat_interleave(m, 0), self.states.repeat(n, 1)
        codes = self.encode(rows)
        return self.log_joint(rows, z).reshape(n, m), codes.log_prob(z).reshape(n, m)

    def log_prob(self, x):
        return torch.logsumexp(self.table(x)[0], 1)

    def bound(self, x, k=1):
        """Exact E log mean_k w over all k-tuples of states, shape (n,)."""
        joint, log_q = self.table(x)
        log_w, total = joint - log_q, 0.0
        for places in itertools.product(range(len(self.states)), repeat=k):
            chosen = list(places)
            total = total + log_q[:, chosen].sum(1).exp() * (torch.logsumexp(log_w[:, chosen], 1) - math.log(k))
        return total


def batch_of(x, positions=None, weight=None):
    """A batch of these rows."""
    x = np.asarray(x)
    places = np.arange(len(x)) if positions is None else np.asarray(positions)
    weight = np.ones(len(x)) if weight is None else np.asarray(weight)
    return SimpleNamespace(data={"X": x}, rows=places, positions=places, weight=weight)


def loss_of(objective, model, batch, *, seed=0, update=0):
    """The loss of a batch as the trainer sums it: a scalar, mean per unit of weight."""
    noise = Noise(seed, "fit/test").at(update)
    loss = objective(model, batch, noise=noise, phase="fit", group=Group())
    return loss.total()


def gradients(value, model):
    """Gradients by name as one flat vector each."""
    names, parameters = zip(*model.named_parameters(), strict=True)
    found = torch.autograd.grad(value, parameters, allow_unused=True)
    return {
        name: torch.zeros_like(p).ravel() if g is None else g.detach().ravel()
        for name, p, g in zip(names, parameters, found, strict=True)
    }


def flat(value, model):
    return torch.cat(list(gradients(value, model).values()))
