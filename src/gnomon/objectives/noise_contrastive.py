"""Noise-contrastive estimation: rows of data told from noise of a known density; log Z is learned beside the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Protocol

import numpy as np
import torch

from gnomon.contracts import Array, Group, Noise
from gnomon.distributions.units import GaussianUnits
from gnomon.errors import UserTypeError
from gnomon.inference.arrays import convert, to_numpy
from gnomon.inference.blocks import smallest_keep
from gnomon.numeric.ops import concatenate, logsumexp, sigmoid, softplus
from gnomon.numeric.tensors import is_tensor
from gnomon.objectives.base import Loss, Objective, Term
from gnomon.objectives.contrastive import EnergyObjective, InClosedForm
from gnomon.objectives.flipped import refuse_other_values
from gnomon.objectives.moments import column_moments
from gnomon.objectives.positive import observed_block
from gnomon.recipes.recipe import Recipe

__all__ = ["NCE", "Columns", "ContrastNoise", "NoiseDistribution"]

START_DRAWS = 1000
"""Draws of the noise that log Z starts from."""


class NoiseDistribution(Protocol):
    """What noise has to have: draws, and their density."""

    def sample(self, noise: Noise, n: int, draw: int, like: Array) -> Array:
        """n rows at the address of `noise` and `draw`, in the kind of an array."""

    def log_prob(self, x: Array) -> Array:
        """Log density of each row in nats, normalized."""


class ContrastNoise(Recipe):
    """Base: the noise that rows are told from."""

    def distribution(self, units: Any, mean: Array, variance: Array) -> NoiseDistribution:
        """The noise beside observed units whose columns have these weighted means and variances in the data."""
        raise NotImplementedError


@dataclass(frozen=True)
class Columns(ContrastNoise):
    """Independent columns with the data's means: units of two values, or normal ones with the data's variances too.

    Parameters
    ----------
    floor : float in (0, 0.5), default 0.01
        Each of the two values has at least this probability, so that the noise covers the data.
    """

    short: ClassVar[str] = "columns"
    floor: Annotated[float, "(0, 0.5)"] = 0.01

    def distribution(self, units: Any, mean: Array, variance: Array) -> NoiseDistribution:
        """See `ContrastNoise`."""
        if isinstance(units, GaussianUnits):
            return _Normal(mean, np.sqrt(np.maximum(variance, 1e-12)))
        low, high = units.values
        return _TwoValues(np.clip((mean - low) / (high - low), self.floor, 1 - self.floor), low, high)


@dataclass(frozen=True)
class _TwoValues:
    p: Array
    low: float
    high: float

    def sample(self, noise: Noise, n: int, draw: int, like: Array) -> Array:
        p = convert(np.broadcast_to(self.p, (n, len(self.p))).copy(), like)
        return self.low + (self.high - self.low) * noise.bernoulli(p, draw)

    def log_prob(self, x: Array) -> Array:
        on = (x - self.low) / (self.high - self.low)
        rest = convert(np.log1p(-self.p), x)
        return on @ (convert(np.log(self.p), x) - rest) + rest.sum()


@dataclass(frozen=True)
class _Normal:
    mean: Array
    sd: Array

    def sample(self, noise: Noise, n: int, draw: int, like: Array) -> Array:
        z = noise.normal((n, len(self.mean)), draw, like=like)
        return convert(self.mean, like) + convert(self.sd, like) * z

    def log_prob(self, x: Array) -> Array:
        z = (x - convert(self.mean, x)) / convert(self.sd, x)
        return -0.5 * (z * z).sum(-1) - float(np.log(self.sd * np.sqrt(2 * np.pi)).sum())


@dataclass(frozen=True)
class NCE(EnergyObjective):
    r"""Noise-contrastive estimation (Gutmann and Hyvärinen 2010): log Z is a parameter of its own.

    With :math:`G(u) = -F(u) - \log Z - \log p_n(u) - \log \nu` the loss of a row x with its noise :math:`y_1, ...,
    y_\nu` is :math:`(\text{softplus}(-G(x)) + \sum_k \text{softplus}(G(y_k))) / (1 + \nu)`: log 2 where model and
    noise are alike and nu is 1. Its optimum is the data's density, log Z included, if the noise covers the data; noise
    that is easily told from the data teaches little. The history's ``log_normalizer`` is the learned log Z, which
    starts at its importance-sampling estimate from the noise. Cost per row and update: 1 + nu energies.

    Parameters
    ----------
    nu : int in [1, inf), default 1
        Noise rows for each row of data; with more of them the estimate approaches that of maximum likelihood.
    noise : {"columns"} or recipe, default "columns"
        A `ContrastNoise`: any distribution with draws and a density.

    References
    ----------
    Gutmann and Hyvärinen (2010), "Noise-contrastive estimation: a new estimation principle for unnormalized
    statistical models"; the same (2012), section 2.2, for nu.
    """

    short: ClassVar[str] = "nce"
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"noise": ContrastNoise}
    nu: Annotated[int, "[1, inf)"] = 1
    noise: str | Recipe = "columns"

    def build(self) -> Objective:
        """The objective."""
        return _NoiseContrast(self.nu, self.recipe("noise"))


class _NoiseContrast(InClosedForm):
    def __init__(self, nu: int, noise: ContrastNoise) -> None:
        super().__init__()
        self.nu, self.noise = nu, noise
        self.log_z: torch.nn.Parameter | None = torch.nn.Parameter(torch.zeros(1))

    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        """Column means and variances of the data, and the first log Z.

        Raises
        ------
        UserTypeError
            Hidden layers that depend on each other given the data: a bound on the mass would be no density.
        """
        data = observed_block(model)
        if smallest_keep(model, (data,)) != (data,):
            what = "nce needs hidden layers that are independent given the observed one"
            raise UserTypeError(what, "objective", "use the objective cd, pcd or exact")
        if not isinstance(model.units[data], GaussianUnits) and not hasattr(model.units[data], "values"):
            what = f"nce needs observed units of two values or of real numbers, got {type(model.units[data]).__name__}"
            raise UserTypeError(what, "objective", "use the objective cd, pcd or exact")
        mean, variance = column_moments(batches, group)
        self.register_buffer("mean", torch.from_numpy(mean))
        self.register_buffer("variance", torch.from_numpy(variance))
        like = model.place(np.zeros(0))
        distribution = self._distribution(model)
        drawn = distribution.sample(noise.child("start").rows(np.arange(START_DRAWS)), START_DRAWS, 0, like)
        ratios = to_numpy(-model.marginal_energy({data: drawn}) - distribution.log_prob(drawn))
        start = float(logsumexp(ratios)) - np.log(START_DRAWS)
        kind = next(iter(model.parameters()))
        found = torch.full((1,), start, dtype=kind.dtype, device=kind.device)
        if hasattr(model, "log_c"):
            self.log_z = None
        self._learned(model).data = found

    def forward(self, model: Any, batch: Any, *, noise: Noise, phase: str, group: Group) -> Loss:
        """See `InClosedForm`."""
        if hasattr(model.units[observed_block(model)], "values"):
            refuse_other_values(model, batch, "nce")
        return super().forward(model, batch, noise=noise, phase=phase, group=group)

    def compare(self, model: Any, X: Array, weight: Array, positions: Array, noise: Noise, group: Group) -> Loss:
        """Rows and their noise, each with the row's weight."""
        distribution, places, data = self._distribution(model), noise.rows(positions), observed_block(model)
        rows = concatenate([X, *(distribution.sample(places, len(X), draw, X) for draw in range(self.nu))])
        odds = (
            -model.marginal_energy({data: rows})
            - distribution.log_prob(rows)
            - self._log_z(model, X)
            - float(np.log(self.nu))
        )
        against = convert(np.where(np.arange(len(rows)) < len(X), -1.0, 1.0), X) * odds
        share = concatenate([weight / (1 + self.nu)] * (1 + self.nu))
        slope = share * sigmoid(against)
        slope = concatenate([slope[: len(X)], -slope[len(X) :]])
        gradients = dict(model.marginal_gradient({data: rows}, slope))
        gradients["objective/log_z" if self.log_z is not None else "log_c"] = slope.sum().reshape(1)
        total = float(weight.sum())
        terms = {
            "noise_contrast": Term(float((share * softplus(against)).sum()), total),
            "log_normalizer": Term(total * float(self._learned(model).detach()[0]), total),
        }
        return Loss(terms, gradients, "noise_contrast")

    def _distribution(self, model: Any) -> NoiseDistribution:
        moments = (to_numpy(self._buffers[name]) for name in ("mean", "variance"))
        return self.noise.distribution(model.units[observed_block(model)], *moments)

    def _learned(self, model: Any) -> torch.Tensor:
        """log Z: the model's own parameter ``log_c`` where it has one."""
        return model.log_c if self.log_z is None else self.log_z

    def _log_z(self, model: Any, like: Array) -> Array:
        if is_tensor(like):
            return self._learned(model).detach()
        return (model if self.log_z is None else self).views()["log_c" if self.log_z is None else "log_z"]
