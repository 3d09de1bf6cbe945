"""Output layer of a mixture density network: conditional mixtures of Gaussians."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from scipy.special import ndtri

from gnomon.contracts import Noise
from gnomon.distributions.domains import Real
from gnomon.distributions.mixed_normals import MixedNormals
from gnomon.errors import UserValueError
from gnomon.nn.likelihoods import Head, Likelihood
from gnomon.recipes.parameters import how_many

__all__ = ["MDNHead", "MixtureLikelihood"]

WIDEST = 20.0
"""Largest size of a log variance: beyond it the numbers of a network mean nothing."""
ALL = slice(None)
"""Every column."""
LEAST = 0.1
"""Smallest share of a column's variance that lies within its components at first."""


class MDNHead(Head):
    r"""Mixtures of k Gaussians of which a network answers weights, means and scales, for each of d columns.

    .. math:: \log p(x_j) = \log \sum_c \alpha_{jc} N(x_j; \mu_{jc}, \sigma_{jc}^2), \quad
        \alpha = \mathrm{softmax}(a), \quad \mu = m, \quad \sigma^2 = e^v + \mathrm{floor}^2

    A row of `raw` has k log weights a, k means m and k log variances v, each of d columns: all columns' first numbers,
    then all columns' second ones. `begin` puts the components beside each other, so that a network that answers zeros
    has the columns' means and variances, and no two components are alike.

    Parameters
    ----------
    k : int in [1, inf)
        Components.
    columns : int in [1, inf), default 1
        d.
    floor : float in [0, inf), default 0.01
        Smallest standard deviation: without one the density grows without bound where a value repeats.
    mean_gradient : {"plain", "scaled"}, default "plain"
        ``scaled`` multiplies the gradient by each mean by its component's :math:`\sigma`, in the backward pass alone,
        so that narrow components do not throw their means about (a gradient check fails by that factor).
    dtype : torch.dtype, default float32

    Raises
    ------
    UserValueError
        A number of components below 1, a negative floor, an unknown gradient.

    Notes
    -----
    Densities are sums of logarithms, so that no row underflows. Cost O(n d k). Source: Bishop (1994), Mixture density
    networks; the gradient by the means, Uria, Murray and Larochelle (2013), RNADE.

    Examples
    --------
    >>> head = MDNHead(2, floor=0.0, dtype=torch.float64)
    >>> a, s = torch.tensor([0.3, 0.7]), torch.tensor([0.5, 1.0])
    >>> raw = torch.cat([a.log(), torch.tensor([-1.0, 1.0]), 2 * s.log()])[None].double()
    >>> round(head.log_prob(raw, torch.tensor([[0.5]]).double()).item(), 5), round(head.mean(raw).item(), 5)
    (-1.38988, 0.4)
    """

    offset: torch.Tensor

    def __init__(
        self, k: int, columns: int = 1, *, floor: float = 0.01, mean_gradient: Literal["plain", "scaled"] = "plain",
        dtype: torch.dtype = torch.float32,
    ) -> None:  # fmt: skip
        super().__init__()
        for name, value in (("k", k), ("columns", columns)):
            if how_many(value, name) < 1:
                raise UserValueError.must(name, "be at least 1", value)
        self.k, self.columns = int(k), int(columns)
        if not floor >= 0:
            raise UserValueError.must("floor", "be at least 0", floor)
        if mean_gradient not in ("plain", "scaled"):
            raise UserValueError.must("mean_gradient", "be plain or scaled", mean_gradient)
        self.floor, self.scaled, self.width = float(floor), mean_gradient == "scaled", 3 * k
        self.register_buffer("offset", torch.zeros(3, k, columns, dtype=dtype))

    def begin(self, X: Any, weight: Any) -> None:
        """Put the components at the middles of k equal shares of N(mean, variance) of each column."""
        weight = np.asarray(weight, np.float64)
        mean = np.average(X, axis=0, weights=weight)
        spread = np.sqrt(np.average((np.asarray(X, np.float64) - mean) ** 2, axis=0, weights=weight))
        spread = np.where(spread > 0, spread, 1.0)
        places = ndtri((np.arange(self.k) + 0.5) / self.k)
        within = max(1.0 - float(np.mean(places**2)), LEAST)
        found = np.zeros((3, self.k, self.columns))
        found[1] = mean + spread * places[:, None]
        found[2] = np.log(within * spread**2)
        self.offset.copy_(torch.from_numpy(found))

    def distribution(self, raw: torch.Tensor, at: slice = ALL) -> MixedNormals:
        """The mixtures of the cells, shape (n, d)."""
        offset = self.offset[:, :, at]
        weights, mean, log_variance = (raw.reshape(len(raw), *offset.shape) + offset).unbind(1)
        variance = log_variance.clamp(-WIDEST, WIDEST).exp() + self.floor**2
        if self.scaled:
            mean = _ScaledGradient.apply(mean, variance.detach().sqrt())  # type: ignore[no-untyped-call]
        return MixedNormals(weights.transpose(1, 2), mean.transpose(1, 2), variance.transpose(1, 2))

    def log_probs(self, raw: torch.Tensor, x: torch.Tensor, at: slice = ALL) -> torch.Tensor:
        """Log density of each cell in nats, shape (n, d)."""
        found: torch.Tensor = self.distribution(raw, at).log_prob(x)
        return found

    def mean(self, raw: torch.Tensor, at: slice = ALL) -> torch.Tensor:
        """sum_c alpha_c mu_c, shape (n, d)."""
        found: torch.Tensor = self.distribution(raw, at).mean
        return found

    def sample(self, raw: torch.Tensor, noise: Noise, at: slice = ALL) -> torch.Tensor:
        """A draw of each column: its component, then its value."""
        drawn: torch.Tensor = self.distribution(raw, at).sample(noise)
        return drawn


class _ScaledGradient(torch.autograd.Function):
    """The first argument; its gradient is multiplied by the second."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(factor)
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, slope: torch.Tensor) -> tuple[torch.Tensor, None]:
        (factor,) = ctx.saved_tensors
        return slope * factor, None


@dataclass(frozen=True)
class MixtureLikelihood(Likelihood):
    """Real columns, independent given z, each a mixture of Gaussians whose numbers the decoder answers; see `MDNHead`.

    Parameters
    ----------
    k : int in [1, inf), default 5
        Components of each column.
    floor : float in (0, inf), default 0.01
        Smallest standard deviation, in the units that the columns are brought to.
    mean_gradient : {"plain", "scaled"}, default "plain"
        Whether the gradient by a mean is multiplied by its component's standard deviation.
    """

    short: ClassVar[str] = "mixture"
    domain: ClassVar[Any] = Real(largest=1e100)
    scales: ClassVar[bool] = True
    k: Annotated[int, "[1, inf)"] = 5
    floor: Annotated[float, "(0, inf)"] = 0.01
    mean_gradient: Literal["plain", "scaled"] = "plain"

    def build(self, columns: int, dtype: torch.dtype) -> Head:
        """The distribution."""
        return MDNHead(self.k, columns, floor=self.floor, mean_gradient=self.mean_gradient, dtype=dtype)
