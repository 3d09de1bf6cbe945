"""Models of rows made of codes: a prior, a way from codes to the numbers of a likelihood, and an encoder."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from gnomon.contracts import Noise
from gnomon.distributions.latents import Latents
from gnomon.inference.arrays import where
from gnomon.nn.likelihoods import Head
from gnomon.nn.module import Module
from gnomon.systems.variational._completing import Completing, Latent

__all__ = ["CodesModel", "CompletingCodes", "SeeingCodes", "VAEModel", "single_row_bounds"]


class CodesModel(Module):
    r"""Base: p(x, z) = p(z) p(x | z), and q(z | x) of what sees (x - shift) / scale.

    A subclass gives ``encode(x)``, q(z | x), ``raw(z)``, the numbers that the likelihood makes a distribution of, and
    the two sets of its parameters. Where the likelihood is one of real numbers it is one of (x - shift) / scale too,
    and densities are those of x.

    Parameters
    ----------
    n_features, n_latent : int
    latents : Latents
    head : Head
    scales : bool
        Whether the likelihood is one of the scaled row.
    dtype : torch.dtype
    **networks : nn.Module
        Of the subclass, by name.
    """

    shift: torch.Tensor
    scale: torch.Tensor

    def __init__(
        self, n_features: int, n_latent: int, latents: Latents, head: Head, scales: bool, dtype: torch.dtype,
        **networks: nn.Module,
    ) -> None:  # fmt: skip
        super().__init__()
        for name, network in networks.items():
            self.add_module(name, network)
        self.n_latent, self.latents, self.scales, self.head = n_latent, latents, scales, head
        self.register_buffer("shift", torch.zeros(n_features, dtype=dtype))
        self.register_buffer("scale", torch.ones(n_features, dtype=dtype))

    def encode(self, x: torch.Tensor) -> Any:
        """q(z | x) of each row."""
        raise NotImplementedError

    def raw(self, z: torch.Tensor) -> torch.Tensor:
        """Numbers of p(x | z), shape (n, n_features * head.width)."""
        raise NotImplementedError

    def seen(self, x: torch.Tensor) -> torch.Tensor:
        """What an encoder sees of rows, shape (n, n_features * head.seen)."""
        return self.head.inputs((x - self.shift) / self.scale)

    def infer(self, x: torch.Tensor, noise: Noise) -> tuple[torch.Tensor, torch.Tensor]:
        """A draw of q(z | x) for each row, and its log density."""
        codes = self.encode(x)
        z = codes.sample(noise)
        return z, codes.log_prob(z)

    def log_likelihood(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Log p(x | z) in nats, shape (n,)."""
        return self.log_of_rows(x, self.raw(z))

    def log_of_rows(self, x: torch.Tensor, raw: torch.Tensor) -> torch.Tensor:
        """Log density of rows in nats under numbers of p(x | z), shape (n,)."""
        if not self.scales:
            return self.head.log_prob(raw, x)
        return self.head.log_prob(raw, (x - self.shift) / self.scale) - self.scale.log().sum()

    def log_seen(self, x: torch.Tensor, z: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        """Log p(known cells | z) in nats, shape (n,); `seen` is 1 where a cell is known."""
        raw = self.raw(z)
        if not self.scales:
            return (self.head.log_probs(raw, x) * seen).sum(1)
        each = self.head.log_probs(raw, (x - self.shift) / self.scale) - self.scale.log()
        return (each * seen).sum(1)

    def log_joint(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Log p(x, z) in nats, shape (n,)."""
        return self.log_likelihood(x, z) + self.latents.log_prior(z)

    def log_prior(self, z: torch.Tensor) -> torch.Tensor:
        """Log p(z) in nats, shape (n,)."""
        return self.latents.log_prior(z)

    def dream(self, n: int, noise: Noise) -> tuple[torch.Tensor, torch.Tensor]:
        """n draws of p(x, z): rows, and what they were drawn from."""
        with torch.no_grad():
            z = self.sample_prior(n, noise.child("latent"))
            return self._outside(self.head.sample(self.raw(z), noise.child("row"))), z

    def divergence(self, codes: Any) -> torch.Tensor:
        """KL(q(z_j | x) || p(z_j)) in nats, shape (n, n_latent)."""
        return self.latents.divergence(codes)

    def sample_prior(self, n: int, noise: Noise) -> torch.Tensor:
        """n draws of z."""
        return self.latents.sample_prior((n, self.n_latent), noise, self.shift)

    def latent_mean(self, x: torch.Tensor) -> torch.Tensor:
        """E_q[z | x], shape (n, n_latent * latents.columns)."""
        mean: torch.Tensor = self.encode(x).mean
        return mean

    def decode(self, z: torch.Tensor) -> torch.Tensor:
        """E[x | z], shape (n, n_features)."""
        return self.expected(self.raw(z))

    def expected(self, raw: torch.Tensor) -> torch.Tensor:
        """The mean that numbers of p(x | z) say, shape (n, n_features)."""
        return self._outside(self.head.mean(raw))

    def sample(self, n: int, noise: Noise) -> Any:
        """n rows, a NumPy array: z from the prior, then x from p(x | z)."""
        return self.dream(n, noise)[0].cpu().numpy()

    def _outside(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale + self.shift if self.scales else x


class VAEModel(CodesModel):
    """Two networks: one from a row to q(z | x), one from z to the numbers of p(x | z).

    Parameters
    ----------
    n_features, n_latent : int
    encoder : nn.Module
        From (n, n_features * head.seen) to (n, n_latent * latents.width).
    decoder : nn.Module
        From (n, n_latent * latents.columns) to (n, n_features * head.width).
    latents, head, scales, dtype
        As of `CodesModel`.
    """

    encoder: nn.Module
    decoder: nn.Module

    def __init__(
        self, n_features: int, n_latent: int, encoder: nn.Module, decoder: nn.Module, latents: Latents, head: Head,
        scales: bool, dtype: torch.dtype,
    ) -> None:  # fmt: skip
        super().__init__(n_features, n_latent, latents, head, scales, dtype, encoder=encoder, decoder=decoder)

    def encode(self, x: torch.Tensor) -> Any:
        return self.latents.codes(self.encoder(self.seen(x)))

    def raw(self, z: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.decoder(z)
        return found

    def generative(self) -> list[nn.Parameter]:
        """Parameters of p(x | z)."""
        return [*self.decoder.parameters(), *self.head.parameters()]

    def recognition(self) -> list[nn.Parameter]:
        """Parameters of q(z | x)."""
        return [*self.encoder.parameters()]


class CompletingCodes(Completing):
    """A `CodesModel` whose missing cells are drawn given z."""

    @torch.no_grad()
    def refill(self, x: torch.Tensor, z: Latent, missing: Any, noise: Noise) -> torch.Tensor:
        """The row with its missing cells drawn given z."""
        drawn = self.model._outside(self.model.head.sample(self.model.raw(z[0]), noise))
        filled: torch.Tensor = where(missing, drawn, x)
        return filled

    @torch.no_grad()
    def expected(self, x: torch.Tensor, z: Latent) -> torch.Tensor:
        """E[x | z]."""
        mean: torch.Tensor = self.model.decode(z[0])
        return mean


class SeeingCodes:
    """The known cells of rows and z: rows are [x, seen], with 1 where a cell is known and a guess where it is not.

    The encoder's answer to the completed row is the proposal, which leaves every importance-weighted average a bound.

    Parameters
    ----------
    model : CodesModel
    """

    def __init__(self, model: CodesModel) -> None:
        self.model = model

    def infer(self, x: torch.Tensor, noise: Noise) -> tuple[torch.Tensor, torch.Tensor]:
        """See `Encoder`."""
        return self.model.infer(x.chunk(2, 1)[0], noise)

    def log_joint(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """log p(known cells, z)."""
        rows, seen = x.chunk(2, 1)
        return self.model.log_seen(rows, z, seen) + self.model.latents.log_prior(z)

    def sample_prior(self, n: int, noise: Noise) -> torch.Tensor:
        """See `HasLatents`."""
        return self.model.sample_prior(n, noise)


def single_row_bounds(
    model: CodesModel, x: torch.Tensor, noise: Noise, steps: int, draws: int, rate: float = 0.02
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Evidence lower bounds of each row, by the encoder and by parameters of q of its own, raised from there.

    Parameters
    ----------
    model : CodesModel
    x : tensor of shape (n, n_features)
    noise : Noise
    steps, draws : int
    rate : float, default 0.02
        Step size of Adam.

    Returns
    -------
    three float64 tensors of shape (n,)
        Both under the same draws, which are others than those that the parameters were raised under; and the variance
        of their difference over such draws, nan for a single one.
    """
    rows = x.repeat_interleave(draws, 0)
    with torch.no_grad():
        first = model.encode(x)
    own = [p.clone().requires_grad_() for p in first.parameters]
    rule = torch.optim.Adam(own, lr=rate)

    def likelihood(codes: Any, stream: Noise) -> torch.Tensor:
        return model.log_likelihood(rows, codes.rsample(stream, draws=draws)).reshape(len(x), draws)

    def bound(codes: Any, stream: Noise) -> torch.Tensor:
        return likelihood(codes, stream).mean(1) - model.divergence(codes).sum(1)

    for step in range(steps):
        stream = noise.child("raise").at(step)
        for parameter, slope in zip(
            own, torch.autograd.grad(-bound(type(first)(*own), stream).sum(), own), strict=True
        ):
            parameter.grad = slope
        rule.step()
    with torch.no_grad():
        both = first, type(first)(*own)
        judged = [likelihood(codes, noise.child("judge")).double() for codes in both]
        bounds = [at.mean(1) - model.divergence(codes).double().sum(1) for at, codes in zip(judged, both, strict=True)]
        apart = (judged[1] - judged[0]).var(1, unbiased=True) / draws if draws > 1 else 0 * bounds[0] + math.nan
    return bounds[0], bounds[1], apart
