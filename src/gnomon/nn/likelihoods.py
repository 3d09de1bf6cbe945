"""What a decoder's numbers say of a row: the slot ``likelihood`` of generative systems.

A decoder answers `width` numbers for every column, all first numbers before all second ones. A likelihood makes a
distribution p(x | z) of them; log probabilities are sums over the columns. A model that goes column by column asks for
some of them: then the numbers and the cells are those of the columns `at`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from gnomon.contracts import Noise
from gnomon.distributions.bernoulli import Bernoulli
from gnomon.distributions.domains import Binary, Real
from gnomon.distributions.real import Normal
from gnomon.distributions.table import Categorical
from gnomon.distributions.whole import Categories
from gnomon.recipes.recipe import Recipe

__all__ = ["BernoulliLikelihood", "CategoricalLikelihood", "GaussianLikelihood", "Head", "Likelihood"]

ALL = slice(None)
"""Every column."""


class Head(nn.Module):
    """p(x | z) of a decoder's answer, shape (n, width * d)."""

    width: int = 1
    seen: int = 1
    """Numbers that an encoder sees of each column."""
    values: int | None = None
    """The values 0 to `values` - 1 that a cell may have; None of real numbers."""

    def begin(self, X: Any, weight: Any) -> None:
        """Take what the training rows say of the columns alone."""

    def inputs(self, x: torch.Tensor, at: slice = ALL) -> torch.Tensor:
        """What an encoder sees of the columns `at` of rows, shape (n, seen * d)."""
        return x

    def states(self, columns: int) -> NDArray[np.float64]:
        """How many values each column may have, inf of real numbers, shape (d,)."""
        return np.full(columns, self.values or np.inf)

    def used(self, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Which of the numbers seen of a column, (d, seen), and of those answered, (width, d), it makes use of."""
        return torch.ones(columns, self.seen, dtype=torch.bool), torch.ones(self.width, columns, dtype=torch.bool)

    def mean_inputs(self, raw: torch.Tensor, at: slice = ALL) -> torch.Tensor:
        """E[inputs(x) | z], shape (n, seen * d)."""
        return self.mean(raw, at)

    def log_prob(self, raw: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Log p(x | z) in nats, shape (n,)."""
        return self.log_probs(raw, x).sum(1)

    def log_probs(self, raw: torch.Tensor, x: torch.Tensor, at: slice = ALL) -> torch.Tensor:
        """Log p(x_j | z) of each cell in nats, shape (n, d)."""
        raise NotImplementedError

    def mean(self, raw: torch.Tensor, at: slice = ALL) -> torch.Tensor:
        """E[x | z], shape (n, d)."""
        raise NotImplementedError

    def sample(self, raw: torch.Tensor, noise: Noise, at: slice = ALL) -> torch.Tensor:
        """One draw of x for each row."""
        raise NotImplementedError

    def distribution(self, raw: torch.Tensor, at: slice = ALL) -> Any:
        """p(x_j | z) of each cell, shape (n, d)."""
        raise NotImplementedError


@dataclass(frozen=True)
class Likelihood(Recipe):
    """Base of the recipes of the slot ``likelihood``."""

    domain: ClassVar[Any]
    """What the rows must be."""
    scales: ClassVar[bool]
    """Whether the likelihood is one of rows that were shifted and scaled."""
    codes: ClassVar[bool] = False
    """Whether the columns are codes, of which neither mean nor scale says anything."""

    def build(self, columns: int, dtype: torch.dtype) -> Head:
        """The distribution of rows of so many columns."""
        raise NotImplementedError


@dataclass(frozen=True)
class BernoulliLikelihood(Likelihood):
    """Columns of 0 and 1, independent given z; the decoder answers log odds, beside those of the columns' means."""

    short: ClassVar[str] = "bernoulli"
    domain: ClassVar[Any] = Binary()
    scales: ClassVar[bool] = False

    def build(self, columns: int, dtype: torch.dtype) -> Head:
        """The distribution."""
        return _Bernoulli(columns, dtype)


class _Bernoulli(Head):
    values = 2
    offset: torch.Tensor

    def __init__(self, columns: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.register_buffer("offset", torch.zeros(columns, dtype=dtype))

    def begin(self, X: Any, weight: Any) -> None:
        mean = np.clip(np.average(X, axis=0, weights=np.asarray(weight, np.float64)), 0.01, 0.99)
        self.offset.copy_(torch.from_numpy(np.log(mean) - np.log1p(-mean)))

    def log_probs(self, raw: torch.Tensor, x: torch.Tensor, at: slice = ALL) -> torch.Tensor:
        return -functional.binary_cross_entropy_with_logits(raw + self.offset[at], x, reduction="none")

    def mean(self, raw: torch.Tensor, at: slice = ALL) -> torch.Tensor:
        return torch.sigmoid(raw + self.offset[at])

    def sample(self, raw: torch.Tensor, noise: Noise, at: slice = ALL) -> torch.Tensor:
        draws: torch.Tensor = noise.bernoulli_logits((raw + self.offset[at]).detach())
        return draws

    def distribution(self, raw: torch.Tensor, at: slice = ALL) -> Bernoulli:
        return Bernoulli(raw + self.offset[at])


@dataclass(frozen=True)
class CategoricalLikelihood(Likelihood):
    """Columns of codes 0 to n - 1, independent given z; the decoder answers log weights beside those of the shares.

    The encoder sees a 1 at the place of each code. What stands for a mean is the likeliest code.

    Parameters
    ----------
    n : int in [2, inf), default 2
        Categories of every column.
    """

    short: ClassVar[str] = "categorical"
    scales: ClassVar[bool] = False
    codes: ClassVar[bool] = True
    n: Annotated[int, "[2, inf)"] = 2

    @property
    def domain(self) -> Any:
        """Codes of so many categories."""
        return Categories(self.n)

    def build(self, columns: int, dtype: torch.dtype) -> Head:
        """The distribution."""
        return _Categories(columns, self.n, dtype)


class _Categories(Head):
    offset: torch.Tensor

    def __init__(self, columns: int, n: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.width = self.seen = self.values = self.n = n
        self.register_buffer("offset", torch.zeros(n, columns, dtype=dtype))

    def begin(self, X: Any, weight: Any) -> None:
        weight = np.asarray(weight, np.float64)
        frequencies = np.stack([np.average(code == X, axis=0, weights=weight) for code in range(self.n)])
        self.offset.copy_(torch.from_numpy(np.log(np.clip(frequencies, 0.01, 0.99))))

    def inputs(self, x: torch.Tensor, at: slice = ALL) -> torch.Tensor:
        return functional.one_hot(x.long(), self.n).to(x.dtype).flatten(1)

    def mean_inputs(self, raw: torch.Tensor, at: slice = ALL) -> torch.Tensor:
        return self._logits(raw, at).softmax(2).flatten(1)

    def _logits(self, raw: torch.Tensor, at: slice = ALL) -> torch.Tensor:
        """Log weights, shape (n, d, categories)."""
        offset = self.offset[:, at]
        return (raw.reshape(len(raw), *offset.shape) + offset).transpose(1, 2)

    def log_probs(self, raw: torch.Tensor, x: torch.Tensor, at: slice = ALL) -> torch.Tensor:
        log_p = self._logits(raw, at).log_softmax(2)
        return log_p.gather(2, x.long()[:, :, None])[:, :, 0]

    def mean(self, raw: torch.Tensor, at: slice = ALL) -> torch.Tensor:
        return self._logits(raw, at).argmax(2).to(raw.dtype)

    def sample(self, raw: torch.Tensor, noise: Noise, at: slice = ALL) -> torch.Tensor:
        draws: torch.Tensor = Categorical(self._logits(raw, at).detach()).sample(noise)
        return draws.to(raw.dtype)

    def distribution(self, raw: torch.Tensor, at: slice = ALL) -> Categorical:
        return Categorical(self._logits(raw, at))


@dataclass(frozen=True)
class GaussianLikelihood(Likelihood):
    r"""Real columns, independent given z: :math:`x_j \sim N(m_j(z), s_j^2)`.

    Parameters
    ----------
    variance : {"columns", "one", "network"}, default "columns"
        Learned: one for each column, one for all, or one for each column that the decoder answers beside the mean.
    fixed : float in (0, inf) or None, default None
        The standard deviation of all columns where it is not learned, in the units that the columns are brought to.
    floor : float in (0, inf), default 0.01
        Smallest learned standard deviation, in these units: without one the density of a column that is constant, or
        takes few values, grows without bound.
    """

    short: ClassVar[str] = "gaussian"
    domain: ClassVar[Any] = Real(largest=1e100)
    scales: ClassVar[bool] = True
    variance: Literal["columns", "one", "network"] = "columns"
    fixed: Annotated[float, "(0, inf)"] | None = None
    floor: Annotated[float, "(0, inf)"] = 0.01

    def build(self, columns: int, dtype: torch.dtype) -> Head:
        """The distribution."""
        if self.fixed is not None:
            return _Gaussian(columns, dtype, self.fixed)
        if self.variance == "network":
            return _TwoHeads(columns, dtype, self.floor)
        return _Gaussian(columns, dtype, None, self.floor, columns if self.variance == "columns" else 1)


class _Gaussian(Head):
    """The variance is a parameter, or a constant."""

    def __init__(
        self, columns: int, dtype: torch.dtype, fixed: float | None = None, floor: float = 0.0, variances: int = 1
    ) -> None:
        super().__init__()
        self.columns, self.floor, self.fixed = columns, floor, fixed
        if fixed is None:
            self.log_variance = nn.Parameter(torch.zeros(variances, dtype=dtype))

    def _split(self, raw: torch.Tensor, at: slice = ALL) -> tuple[torch.Tensor, torch.Tensor]:
        """Means and variances."""
        if self.fixed is not None:
            return raw, raw.new_full((), self.fixed**2)
        own = self.log_variance[at] if len(self.log_variance) == self.columns else self.log_variance
        return raw, own.exp() + self.floor**2

    def log_probs(self, raw: torch.Tensor, x: torch.Tensor, at: slice = ALL) -> torch.Tensor:
        mean, variance = self._split(raw, at)
        return -0.5 * ((x - mean).square() / variance + variance.log() + math.log(2 * math.pi))

    def mean(self, raw: torch.Tensor, at: slice = ALL) -> torch.Tensor:
        return self._split(raw, at)[0]

    def sample(self, raw: torch.Tensor, noise: Noise, at: slice = ALL) -> torch.Tensor:
        mean, variance = self._split(raw, at)
        return mean + variance.sqrt() * noise.normal(tuple(mean.shape), like=mean.detach())

    def distribution(self, raw: torch.Tensor, at: slice = ALL) -> Normal:
        mean, variance = self._split(raw, at)
        return Normal(mean, variance.sqrt().expand_as(mean))


class _TwoHeads(_Gaussian):
    """The decoder answers means, then log variances."""

    width = 2

    def __init__(self, columns: int, dtype: torch.dtype, floor: float) -> None:
        super().__init__(columns, dtype, fixed=1.0, floor=floor)

    def _split(self, raw: torch.Tensor, at: slice = ALL) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log_variance = raw.chunk(2, 1)
        return mean, log_variance.clamp(-20.0, 20.0).exp() + self.floor**2
