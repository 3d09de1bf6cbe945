"""Latent variables of a network: the slot ``latents``, their priors, and the distributions that an encoder answers.

Everything here is torch, without checks of values, since it stands in the hot loop. A distribution belongs to n rows;
k draws of it are one tensor of n * k rows, the draws of a row beside each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch.nn import functional

from gnomon.contracts import Noise
from gnomon.recipes.recipe import Recipe

__all__ = [
    "BinaryCodes", "BinaryLatents", "Codes", "DiagonalGaussian", "GaussianLatents", "Latents", "kl_standard_normal",
]  # fmt: skip

LOG_VARIANCE = (-14.0, 14.0)
"""Log variances of an encoder are held in here: below, float32 cannot tell the draws apart."""


def kl_standard_normal(mean: torch.Tensor, log_variance: torch.Tensor) -> torch.Tensor:
    r"""KL(N(mean, variance) || N(0, 1)) of every element in nats: (mean^2 + variance - 1 - log variance) / 2.

    Parameters
    ----------
    mean, log_variance : tensors of one shape

    Examples
    --------
    >>> round(kl_standard_normal(torch.tensor(1.0), torch.tensor(0.5).log()).item(), 7)
    0.5965736
    """
    return 0.5 * (mean.square() + torch.expm1(log_variance) - log_variance)


class Codes:
    """Base of the distributions q(z | x) of independent latent variables, for n rows."""

    reparametrized: ClassVar[bool]
    """Whether `rsample` exists."""
    parameters: tuple[torch.Tensor, ...]

    def __init__(self, *parameters: torch.Tensor) -> None:
        self.parameters = parameters

    def detached(self) -> Self:
        """The same distribution, whose parameters take no gradient."""
        return type(self)(*(parameter.detach() for parameter in self.parameters))

    @property
    def mean(self) -> torch.Tensor:
        """Expected value, shape (n, d)."""
        raise NotImplementedError

    def sample(self, noise: Noise, draw: int = 0, *, draws: int = 1) -> torch.Tensor:
        """Draws without gradient, shape (n * draws, d); `draw` is the number of this call within the step."""
        raise NotImplementedError

    def log_prob(self, z: torch.Tensor) -> torch.Tensor:
        """Log q(z | x) in nats of one or more draws of each row, shape (len(z),)."""
        raise NotImplementedError

    def entropy(self) -> torch.Tensor:
        """Entropy in nats, shape (n,)."""
        raise NotImplementedError

    def scores(self, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The parameters side by side, (n, 1, p), and the derivatives of log q(z | x) by them at each draw.

        Parameters
        ----------
        z : tensor of shape (n * draws, d)

        Returns
        -------
        two tensors
            The latter of shape (n, draws, p), without gradient. What depends on a draw itself may answer parameters of
            shape (n, draws, p).
        """
        n, times = len(self.parameters[0]), len(z) // len(self.parameters[0])
        own = [p.detach().repeat_interleave(times, 0).requires_grad_() for p in self.parameters]
        with torch.enable_grad():
            found = torch.autograd.grad(type(self)(*own).log_prob(z.detach()).sum(), own)
        return torch.cat(self.parameters, 1)[:, None], torch.cat(found, 1).reshape(n, times, -1)

    def _by_row(self, z: torch.Tensor) -> torch.Tensor:
        """The draws as (n, draws, d)."""
        n, d = self.parameters[0].shape
        return z.reshape(n, -1, d)


class DiagonalGaussian(Codes):
    """N(mean, variance) for every latent variable.

    Parameters
    ----------
    mean, log_variance : tensors of shape (n, d)
    """

    reparametrized: ClassVar[bool] = True

    def __init__(self, mean: torch.Tensor, log_variance: torch.Tensor) -> None:
        super().__init__(mean, log_variance)

    @property
    def mean(self) -> torch.Tensor:
        """The means."""
        return self.parameters[0]

    @property
    def log_variance(self) -> torch.Tensor:
        """Log variances."""
        return self.parameters[1]

    def rsample(self, noise: Noise, draw: int = 0, *, draws: int = 1) -> torch.Tensor:
        """Draws ``mean + sigma * e`` with e standard normal: a function of mean and sigma, so gradients pass.

        References
        ----------
        Kingma and Welling (2014), section 2.4; Rezende, Mohamed and Wierstra (2014).
        """
        n, d = self.mean.shape
        e = noise.normal((n, draws * d), draw, like=self.mean.detach())
        sigma = (0.5 * self.log_variance).exp()
        if draws == 1:
            return self.mean + sigma * e
        return (self.mean[:, None] + sigma[:, None] * e.reshape(n, draws, d)).reshape(n * draws, d)

    def sample(self, noise: Noise, draw: int = 0, *, draws: int = 1) -> torch.Tensor:
        """The numbers of `rsample`, without gradient."""
        with torch.no_grad():
            return self.rsample(noise, draw, draws=draws)

    def log_prob(self, z: torch.Tensor) -> torch.Tensor:
        """Log density of each draw."""
        squares = (self._by_row(z) - self.mean[:, None]).square() * (-self.log_variance).exp()[:, None]
        return -0.5 * (squares + self.log_variance[:, None] + math.log(2 * math.pi)).sum(-1).reshape(-1)

    def entropy(self) -> torch.Tensor:
        """Sum over latents of (log variance + log 2 pi e) / 2."""
        return 0.5 * (self.log_variance + (1 + math.log(2 * math.pi))).sum(1)


class BinaryCodes(Codes):
    """Independent variables of 0 and 1.

    Parameters
    ----------
    logits : tensor of shape (n, d)
    """

    reparametrized: ClassVar[bool] = False

    def __init__(self, logits: torch.Tensor) -> None:
        super().__init__(logits)

    @property
    def logits(self) -> torch.Tensor:
        """Log odds of a 1."""
        return self.parameters[0]

    @property
    def mean(self) -> torch.Tensor:
        """Probabilities of a 1."""
        return self.logits.sigmoid()

    def sample(self, noise: Noise, draw: int = 0, *, draws: int = 1) -> torch.Tensor:
        """Zeros and ones."""
        n, d = self.logits.shape
        codes: torch.Tensor = noise.bernoulli_logits(self.logits.detach().repeat(1, draws), draw)
        return codes.reshape(n * draws, d)

    def log_prob(self, z: torch.Tensor) -> torch.Tensor:
        """Log probability of each draw."""
        logits = self.logits[:, None]
        return (self._by_row(z) * logits - functional.softplus(logits)).sum(-1).reshape(-1)

    def entropy(self) -> torch.Tensor:
        """Sum over latents."""
        return _entropies(self.logits).sum(1)


def _entropies(logits: torch.Tensor) -> torch.Tensor:
    return functional.softplus(logits) - logits * logits.sigmoid()


@dataclass(frozen=True)
class Latents(Recipe):
    """Base of the recipes of the slot ``latents``: what kind the latent variables are, and their prior."""

    width: ClassVar[int] = 1
    """Numbers that an encoder answers for each latent variable."""
    reparametrized: ClassVar[bool] = False
    """Whether a gradient passes a draw."""

    def codes(self, raw: torch.Tensor) -> Any:
        """q(z | x) of an encoder's answer, shape (n, d * width)."""
        raise NotImplementedError

    def log_prior(self, z: torch.Tensor) -> torch.Tensor:
        """Log p(z) in nats, shape (n,)."""
        raise NotImplementedError

    def sample_prior(self, shape: tuple[int, int], noise: Noise, like: torch.Tensor) -> torch.Tensor:
        """Draws of p(z), in the dtype and on the device of a tensor."""
        raise NotImplementedError

    def divergence(self, codes: Any) -> torch.Tensor:
        """KL(q(z_j | x) || p(z_j)) in nats, shape (n, d), in closed form."""
        raise NotImplementedError


@dataclass(frozen=True)
class GaussianLatents(Latents):
    """z ~ N(0, I), and an encoder that answers means and log variances."""

    short: ClassVar[str] = "gaussian"
    width: ClassVar[int] = 2
    reparametrized: ClassVar[bool] = True

    def codes(self, raw: torch.Tensor) -> DiagonalGaussian:
        """Means, then log variances, which are held in [-14, 14]."""
        mean, log_variance = raw.chunk(2, 1)
        return DiagonalGaussian(mean, log_variance.clamp(*LOG_VARIANCE))

    def log_prior(self, z: torch.Tensor) -> torch.Tensor:
        """Standard normal log density."""
        return -0.5 * (z.square() + math.log(2 * math.pi)).sum(1)

    def sample_prior(self, shape: tuple[int, int], noise: Noise, like: torch.Tensor) -> torch.Tensor:
        """Standard normal numbers."""
        draws: torch.Tensor = noise.normal(shape, like=like.detach())
        return draws

    def divergence(self, codes: DiagonalGaussian) -> torch.Tensor:
        """`kl_standard_normal`."""
        return kl_standard_normal(codes.mean, codes.log_variance)


@dataclass(frozen=True)
class BinaryLatents(Latents):
    """z of fair coins, and an encoder that answers log odds. No gradient passes a draw: use the score function."""

    short: ClassVar[str] = "binary"

    def codes(self, raw: torch.Tensor) -> BinaryCodes:
        """Log odds."""
        return BinaryCodes(raw)

    def log_prior(self, z: torch.Tensor) -> torch.Tensor:
        """-d log 2."""
        return z.new_full((len(z),), -z.shape[1] * math.log(2))

    def sample_prior(self, shape: tuple[int, int], noise: Noise, like: torch.Tensor) -> torch.Tensor:
        """Fair coins."""
        coins: torch.Tensor = noise.bernoulli_logits(like.new_zeros(shape).detach())
        return coins

    def divergence(self, codes: BinaryCodes) -> torch.Tensor:
        """log 2 - H."""
        return math.log(2) - _entropies(codes.logits)
