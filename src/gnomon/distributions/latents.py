"""Latent variables of a network: the slot ``latents``, their priors, and the distributions that an encoder answers.

Everything here is torch, without checks of values, since it stands in the hot loop. A distribution belongs to n rows;
k draws of it are one tensor of n * k rows, the draws of a row beside each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import torch
from torch.nn import functional

from gnomon.contracts import Noise
from gnomon.distributions.relaxed import binary_concrete, gumbel_softmax
from gnomon.recipes.recipe import Recipe

__all__ = [
    "BinaryCodes", "BinaryLatents", "CategoricalCodes", "CategoricalLatents", "Codes", "DiagonalGaussian",
    "DiscreteCodes", "GaussianLatents", "Latents", "kl_standard_normal",
]  # fmt: skip

LOG_VARIANCE = (-14.0, 14.0)
"""Log variances of an encoder are held in here: below, float32 cannot tell the draws apart."""


MOST_STATES = 4096
"""As many states of discrete latent variables are enumerated at most."""


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
        return self.like(*(parameter.detach() for parameter in self.parameters))

    def like(self, *parameters: torch.Tensor) -> Self:
        """The same kind with other parameters."""
        return type(self)(*parameters)

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
        n, times = len(self.parameters[0]), len(z) // max(len(self.parameters[0]), 1)
        own = [p.detach().repeat_interleave(times, 0).requires_grad_() for p in self.parameters]
        with torch.enable_grad():
            found = torch.cat(torch.autograd.grad(self.like(*own).log_prob(z.detach()).sum(), own), 1)
        return torch.cat(self.parameters, 1)[:, None], found.reshape(n, times, found.shape[1])

    def _by_row(self, z: torch.Tensor) -> torch.Tensor:
        """The draws as (n, draws, d)."""
        n, d = self.parameters[0].shape
        return z.reshape(n, z.numel() // max(n * d, 1), d)


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


class DiscreteCodes(Codes):
    """Base of distributions of discrete latent variables, whose draws can be relaxed to ones that a gradient passes."""

    reparametrized: ClassVar[bool] = False

    def relaxed(self, noise: Noise, temperature: float, *, draws: int = 1, hard: bool = False) -> torch.Tensor:
        """Draws of the concrete relaxation, shape (n * draws, d).

        Parameters
        ----------
        noise : Noise
        temperature : float in (0, inf)
            Towards 0 they become discrete.
        draws : int
        hard : bool, default False
            The discrete draw forward, the gradient of the relaxed one backward.
        """
        raise NotImplementedError

    def states(self) -> torch.Tensor | None:
        """Every z that there is, shape (states, d), or None where there are more than 4,096 of them."""
        raise NotImplementedError


def _product(values: torch.Tensor, variables: int) -> torch.Tensor | None:
    """All combinations of the rows (k, c) for so many variables, (k ** variables, variables * c)."""
    k = len(values)
    if variables * math.log(k) > math.log(MOST_STATES) + 1e-9:
        return None
    numbers = torch.arange(k**variables, device=values.device)
    digits = torch.stack([numbers // k ** (variables - 1 - j) % k for j in range(variables)], 1)
    return values[digits].flatten(1)


class BinaryCodes(DiscreteCodes):
    """Independent variables of 0 and 1.

    Parameters
    ----------
    logits : tensor of shape (n, d)
    """

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

    def relaxed(self, noise: Noise, temperature: float, *, draws: int = 1, hard: bool = False) -> torch.Tensor:
        """`binary_concrete` of each variable."""
        logits = self.logits[:, None].expand(-1, draws, -1).reshape(len(self.logits), -1)
        return binary_concrete(logits, noise, temperature, hard=hard).reshape(-1, self.logits.shape[1])

    def states(self) -> torch.Tensor | None:
        """2 ** d rows."""
        return _product(self.logits.new_tensor([[0.0], [1.0]]), self.logits.shape[1])

    def log_prob(self, z: torch.Tensor) -> torch.Tensor:
        """Log probability of each draw."""
        logits = self.logits[:, None]
        return (self._by_row(z) * logits - functional.softplus(logits)).sum(-1).reshape(-1)

    def entropy(self) -> torch.Tensor:
        """Sum over latents."""
        return _entropies(self.logits).sum(1)


def _entropies(logits: torch.Tensor) -> torch.Tensor:
    return functional.softplus(logits) - logits * logits.sigmoid()


class CategoricalCodes(DiscreteCodes):
    """Independent variables of k categories each, as indicators side by side: z has d * k columns.

    Parameters
    ----------
    logits : tensor of shape (n, d * k)
        Log weights; a constant may be added to those of a variable.
    k : int in [2, inf)
    """

    def __init__(self, logits: torch.Tensor, k: int) -> None:
        super().__init__(logits)
        self.k = k

    def like(self, *parameters: torch.Tensor) -> Self:
        """The same kind with other log weights."""
        (logits,) = parameters
        return type(self)(logits, self.k)

    @property
    def log_probs(self) -> torch.Tensor:
        """Log probabilities, shape (n, d, k)."""
        n = len(self.parameters[0])
        return self.parameters[0].reshape(n, -1, self.k).log_softmax(2)

    @property
    def mean(self) -> torch.Tensor:
        """Probabilities, shape (n, d * k)."""
        return self.log_probs.exp().flatten(1)

    def sample(self, noise: Noise, draw: int = 0, *, draws: int = 1) -> torch.Tensor:
        """Indicators, each of the largest of log weights and Gumbel noise."""
        with torch.no_grad():
            return self._gumbel(noise, 1.0, draws, hard=True, draw=draw)

    def relaxed(self, noise: Noise, temperature: float, *, draws: int = 1, hard: bool = False) -> torch.Tensor:
        """`gumbel_softmax` of each variable; its largest entry is the draw of `sample` at the same noise."""
        return self._gumbel(noise, temperature, draws, hard=hard, draw=0)

    def states(self) -> torch.Tensor | None:
        """k ** d rows."""
        logits = self.parameters[0]
        return _product(torch.eye(self.k, dtype=logits.dtype, device=logits.device), logits.shape[1] // self.k)

    def _gumbel(self, noise: Noise, temperature: float, draws: int, *, hard: bool, draw: int) -> torch.Tensor:
        n, d = self.parameters[0].shape
        logits = self.parameters[0].reshape(n, 1, -1, self.k).expand(-1, draws, -1, -1)
        return gumbel_softmax(logits, noise, temperature, hard=hard, draw=draw).reshape(n * draws, d)

    def log_prob(self, z: torch.Tensor) -> torch.Tensor:
        """Log probability of each draw."""
        return (self._by_row(z) * self.log_probs.flatten(1)[:, None]).sum(-1).reshape(-1)

    def entropy(self) -> torch.Tensor:
        """Summed over the variables."""
        return _categorical_entropies(self.log_probs).sum(1)


def _categorical_entropies(log_probs: torch.Tensor) -> torch.Tensor:
    return -(log_probs.exp() * log_probs).sum(-1)


@dataclass(frozen=True)
class Latents(Recipe):
    """Base of the recipes of the slot ``latents``: what kind the latent variables are, and their prior."""

    reparametrized: ClassVar[bool] = False
    """Whether a gradient passes a draw."""

    @property
    def width(self) -> int:
        """Numbers that an encoder answers for each latent variable."""
        return 1

    @property
    def columns(self) -> int:
        """Columns of z that are one latent variable."""
        return 1

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
    reparametrized: ClassVar[bool] = True

    @property
    def width(self) -> int:
        """A mean and a log variance."""
        return 2

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
    """z of fair coins, and an encoder that answers log odds.

    No gradient passes a draw: take the estimator ``score``, or ``gumbel-softmax`` and its like, which are biased.
    """

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


@dataclass(frozen=True)
class CategoricalLatents(Latents):
    """z of fair dice, as indicators side by side, and an encoder that answers log weights.

    No gradient passes a draw: take the estimator ``score``, or ``gumbel-softmax`` and its like, which are biased.

    Parameters
    ----------
    n_categories : int in [2, inf), default 10
        Of each latent variable.
    """

    short: ClassVar[str] = "categorical"
    n_categories: Annotated[int, "[2, inf)"] = 10

    @property
    def width(self) -> int:
        """A log weight for each category."""
        return self.n_categories

    @property
    def columns(self) -> int:
        """An indicator for each category."""
        return self.n_categories

    def codes(self, raw: torch.Tensor) -> CategoricalCodes:
        """Log weights."""
        return CategoricalCodes(raw, self.n_categories)

    def log_prior(self, z: torch.Tensor) -> torch.Tensor:
        """-d log k."""
        return z.new_full((len(z),), -(z.shape[1] // self.n_categories) * math.log(self.n_categories))

    def sample_prior(self, shape: tuple[int, int], noise: Noise, like: torch.Tensor) -> torch.Tensor:
        """Fair dice, shape (n, d * k)."""
        n, d = shape
        return self.codes(like.new_zeros((n, d * self.n_categories)).detach()).sample(noise)

    def divergence(self, codes: CategoricalCodes) -> torch.Tensor:
        """log k - H."""
        return math.log(self.n_categories) - _categorical_entropies(codes.log_probs)
