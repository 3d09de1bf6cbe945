"""Bounds of rows in free numbers: what a network that infers is trained by, of bits and of normal latent variables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit

from gnomon.contracts import Array, HasBlocks, supports
from gnomon.distributions.units import BernoulliUnits
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.exact.linear_gaussian import LinearGaussian
from gnomon.inference.variational.binary_sparse_coding import BinarySparseCoding
from gnomon.numeric.given import floats

__all__ = ["BitRows", "NormalRows", "RowBounds", "rows_of"]

Floats = NDArray[np.float64]

FURTHEST = 30.0
"""Log-odds of means that come back from a round at most: 1e-13 from 0 and 1."""
LONGEST = 500
"""Rounds of the iterations."""


class RowBounds(ABC):
    """A bound L(x, q) of each row, q by free numbers of which none is out of range."""

    width: int
    """Free numbers of a row."""
    d: int
    """Columns of a row."""

    def check(self, X: ArrayLike) -> Floats:
        """Finite rows of as many columns as the model has."""
        x = floats(X, "X")
        if x.ndim != 2 or x.shape[1] != self.d or not np.isfinite(x).all():
            raise UserValueError(f"X must be finite rows of {self.d} numbers, got shape {x.shape}", "X")
        return np.ascontiguousarray(x)

    @abstractmethod
    def climb(self, x: Floats, free: Floats) -> tuple[Floats, Floats]:
        """The bound of each row, (n,), and its slope by the free numbers, (n, width)."""

    @abstractmethod
    def lesson(self, target: Floats, free: Floats) -> tuple[Floats, Floats]:
        """Minus the loss of a regression to other free numbers, and its slope."""

    @abstractmethod
    def settled(self, x: Floats) -> Floats:
        """Where the model's own iterations end."""

    @abstractmethod
    def refined(self, x: Floats, free: Floats, steps: int) -> Floats:
        """After so many rounds of them from here."""

    @abstractmethod
    def named(self, free: Floats) -> dict[str, Array]:
        """The parameters of q by name."""


class BitRows(RowBounds):
    """Independent bits, free numbers their log-odds: the bound is multilinear in the means.

    The regression is the cross-entropy between means, whose slope is their difference.
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    def fields(self, x: Floats, means: Floats) -> Floats:
        """Log-odds of each unit given the row and the means of the others."""
        raise NotImplementedError

    def joint(self, x: Floats, means: Floats) -> Floats:
        """E_q log p(x, h) of each row, up to log Z."""
        raise NotImplementedError

    def climb(self, x: Floats, free: Floats) -> tuple[Floats, Floats]:
        """See `RowBounds`."""
        means = expit(free)
        entropy = -(means * log_expit(free) + (1 - means) * log_expit(-free)).sum(1)
        return self.joint(x, means) + entropy, means * expit(-free) * (self.fields(x, means) - free)

    def lesson(self, target: Floats, free: Floats) -> tuple[Floats, Floats]:
        """See `RowBounds`."""
        means = expit(target)
        return (means * log_expit(free) + (1 - means) * log_expit(-free)).sum(1), means - expit(free)

    def settled(self, x: Floats) -> Floats:
        """From means of one half."""
        return self.refined(x, np.zeros((len(x), self.width)), LONGEST)

    def named(self, free: Floats) -> dict[str, Array]:
        """``mean``."""
        return {"mean": expit(free)}


class _SparseRows(BitRows):
    """Of `BinarySparseCoding`: a round takes one component after the other."""

    def __init__(self, model: BinarySparseCoding) -> None:
        super().__init__(model)
        self.d, self.width = model.W.shape

    def fields(self, x: Floats, means: Floats) -> Floats:
        return self.model.fields(x, means)

    def joint(self, x: Floats, means: Floats) -> Floats:
        entropy = -(means * np.log(np.maximum(means, 1e-300)) + (1 - means) * np.log(np.maximum(1 - means, 1e-300)))
        return np.asarray(self.model.elbo(x, means) - entropy.sum(1))

    def refined(self, x: Floats, free: Floats, steps: int) -> Floats:
        means = self.model.infer(x, start=expit(free), steps=steps).means
        return np.clip(self.model.fields(x, means), -FURTHEST, FURTHEST)


class _MachineRows(BitRows):
    """Of a machine of two blocks: hidden units are independent given the row, so that one round is all."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.seen, self.unseen = "visible", _hidden(model)
        self.d, self.width = model.sizes[self.seen], model.sizes[self.unseen]

    def fields(self, x: Floats, means: Floats) -> Floats:
        found = self.model.conditional(self.unseen, {self.seen: x, self.unseen: means}).mean
        found = np.clip(np.asarray(found, np.float64), 1e-300, 1 - 1e-16)
        return np.asarray(np.log(found) - np.log1p(-found))

    def joint(self, x: Floats, means: Floats) -> Floats:
        return -np.asarray(self.model.joint_energy({self.seen: x, self.unseen: means}), np.float64)

    def refined(self, x: Floats, free: Floats, steps: int) -> Floats:
        return self.fields(x, expit(free)) if steps else free


class NormalRows(RowBounds):
    r"""Normal q of any covariance L L^T; free numbers: the mean, the logarithms of L's diagonal, what is below it.

    Given are bound, slope by the mean and best precision P at (mean, S): by S the slope is :math:`(S^{-1} - P) / 2`.
    """

    def __init__(self, model: Any, d: int, k: int) -> None:
        self.model, self.d, self.k = model, d, k
        self.below = np.tril_indices(k, -1)
        self.width = 2 * k + len(self.below[0])

    def _parts(self, free: Floats) -> tuple[Floats, Floats]:
        k = self.k
        lower = np.zeros((len(free), k, k))
        lower[:, self.below[0], self.below[1]] = free[:, 2 * k :]
        lower[:, np.arange(k), np.arange(k)] = np.exp(np.clip(free[:, k : 2 * k], -FURTHEST, FURTHEST))
        return free[:, :k], lower

    def _joined(self, mean: Floats, covariance: Floats) -> Floats:
        lower = np.linalg.cholesky(np.broadcast_to(covariance, (len(mean), self.k, self.k)))
        diagonal = np.log(np.diagonal(lower, axis1=1, axis2=2))
        return np.concatenate([mean, diagonal, lower[:, self.below[0], self.below[1]]], axis=1)

    def standing(self, x: Floats, mean: Floats, covariance: Floats) -> tuple[Floats, Floats, Floats]:
        """Bound, slope by the mean, best precision."""
        found: tuple[Floats, Floats, Floats] = self.model.standing(x, mean, covariance)
        return found

    def climb(self, x: Floats, free: Floats) -> tuple[Floats, Floats]:
        """See `RowBounds`."""
        mean, lower = self._parts(free)
        bound, slope, precision = self.standing(x, mean, lower @ lower.swapaxes(1, 2))
        by_factor = np.linalg.inv(lower).swapaxes(1, 2) - precision @ lower
        diagonal = np.diagonal(by_factor, axis1=1, axis2=2) * np.diagonal(lower, axis1=1, axis2=2)
        return bound, np.concatenate([slope, diagonal, by_factor[:, self.below[0], self.below[1]]], axis=1)

    def lesson(self, target: Floats, free: Floats) -> tuple[Floats, Floats]:
        """Half the squared distance."""
        away = target - free
        return -0.5 * (away * away).sum(1), away

    def settled(self, x: Floats) -> Floats:
        """See `RowBounds`."""
        return self._joined(*self.model.posterior(x))

    def refined(self, x: Floats, free: Floats, steps: int) -> Floats:
        """Natural gradient steps."""
        mean, lower = self._parts(free)
        begun = {"mean": mean, "covariance": lower @ lower.swapaxes(1, 2)}
        found = self.model.approximate(x, begun, updates=steps)
        return self._joined(found["mean"], found["covariance"])

    def named(self, free: Floats) -> dict[str, Array]:
        """``mean`` and ``covariance``."""
        mean, lower = self._parts(free)
        return {"mean": mean, "covariance": lower @ lower.swapaxes(1, 2)}


class _LinearRows(NormalRows):
    """Of `LinearGaussian`, whose posterior is in the family: one round is all."""

    def standing(self, x: Floats, mean: Floats, covariance: Floats) -> tuple[Floats, Floats, Floats]:
        best, own = self.model.posterior(x)
        precision, away = np.linalg.inv(own), best - mean
        pull = away @ precision
        trace = np.einsum("ij,nji->n", precision, covariance)
        volume = np.linalg.slogdet(own)[1] - np.linalg.slogdet(covariance)[1]
        divergence = 0.5 * (trace - self.k + (away * pull).sum(1) + volume)
        return self.model.log_prob(x) - divergence, pull, np.broadcast_to(precision, covariance.shape)

    def refined(self, x: Floats, free: Floats, steps: int) -> Floats:
        return self.settled(x) if steps else free


def rows_of(model: Any) -> RowBounds:
    """The bounds of a model's rows.

    Raises
    ------
    UserTypeError
        A model whose inference this room does not know.
    """
    if isinstance(model, BinarySparseCoding):
        return _SparseRows(model)
    if isinstance(model, LinearGaussian):
        return _LinearRows(model, *model.W.shape)
    if hasattr(model, "standing") and hasattr(model, "approximate"):
        return NormalRows(model, *model.components.shape)
    if supports(model, HasBlocks) and len(model.blocks) == 2 and "visible" in model.blocks and _hides_bits(model):
        return _MachineRows(model)
    what = f"the inference of {type(model).__name__} is not known here"
    remedy = "give BinarySparseCoding, LinearGaussian, a fitted generalized-factor-analysis or rbm"
    raise UserTypeError(what, "model", remedy)


def _hidden(model: Any) -> str:
    return next(name for name in model.blocks if name != "visible")


def _hides_bits(model: Any) -> bool:
    """Whether the hidden units of a machine are bits, none of them coupled to others of its block."""
    units = getattr(model, "units", {})
    bits = not units or isinstance(units[_hidden(model)], BernoulliUnits)
    return bits and not getattr(model, "coupled", ())
