"""Weights broken off a stick: the distribution of the probabilities of a Dirichlet process, cut off after T of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from gnomon.distributions.bounded import Beta
from gnomon.distributions.family import Floats, axes
from gnomon.errors import UserValueError
from gnomon.numeric.given import affordable, checked, floats

__all__ = ["StickBreaking", "fractions_of", "weights_of"]


class StickBreaking:
    r"""Weights :math:`\pi_k = V_k \prod_{j<k} (1 - V_j)` with :math:`V_k \sim \mathrm{Beta}(1 - d, \alpha + k d)`.

    The last of the T weights is what is left of the stick, so that they sum to 1. With d = 0 these are Sethuraman's,
    without an end the weights of a Dirichlet process; with d > 0 those of Pitman and Yor.

    Parameters
    ----------
    concentration : float above -discount
        alpha: large values break off small pieces.
    sticks : int, in [1, inf)
        T.
    discount : float, in [0, 1), default 0
        d.

    References
    ----------
    Sethuraman (1994), "A constructive definition of Dirichlet priors"; Ishwaran and James (2001), section 3.

    Examples
    --------
    >>> StickBreaking(1.0, 4).mean.round(6).tolist()
    [0.5, 0.25, 0.125, 0.125]
    """

    @checked
    def __init__(self, concentration: float, sticks: int, *, discount: float = 0.0) -> None:
        if not 0 <= discount < 1:
            raise UserValueError.must("discount", "be in [0, 1)", discount)
        if not -discount < concentration < math.inf:
            raise UserValueError.must("concentration", f"be finite and above {-discount}", concentration)
        if sticks < 1:
            raise UserValueError.must("sticks", "be at least 1", sticks)
        affordable(sticks, "sticks", "choose fewer")
        self.concentration, self.sticks, self.discount = float(concentration), int(sticks), float(discount)
        self._a = np.full(self.sticks - 1, 1 - self.discount)
        self._b = self.concentration + self.discount * np.arange(1, self.sticks)

    @property
    def event_shape(self) -> tuple[int, ...]:
        """(T,)."""
        return (self.sticks,)

    @property
    def mean(self) -> Floats:
        """Expected weights, (T,): ``(alpha / (1 + alpha))^(k - 1) / (1 + alpha)`` and the rest, where d = 0."""
        return weights_of(self._a / (self._a + self._b))

    @property
    def expected_rest(self) -> float:
        """Expected part of an endless stick behind the first T pieces: what the cut gives to the last weight too much.

        ``(alpha / (1 + alpha))^T`` where d = 0.
        """
        b = np.append(self._b, self.concentration + self.discount * self.sticks)
        return float(np.exp(np.log(b / (1 - self.discount + b)).sum()))

    @checked
    def log_prob(self, weights: ArrayLike) -> Floats:
        """Log density in nats of weights (..., T) with respect to the first T - 1 of them; -inf where they do not fit.

        That of the fractions V, minus ``sum_{k<T} log(1 - pi_1 - ... - pi_{k-1})`` for the change of variables: powers
        of the weights and of the rests of the stick. Where weights are 0 it is infinite if the exponents of these and
        of the rests that are 0 sum to less than 0, and 0 if they sum to more.
        """
        p = np.asarray(weights, np.float64)
        if p.shape[-1:] != (self.sticks,):
            raise UserValueError.must("weights", f"have {self.sticks} entries on the last axis", p)
        possible = (p >= 0).all(-1) & (np.abs(p.sum(-1) - 1) < 1e-6)
        safe = np.where(possible[..., None], p, 1 / self.sticks)
        # the rest of the stick before each piece, summed from its small end
        rest = np.cumsum(safe[..., ::-1], axis=-1)[..., ::-1]
        base = np.concatenate([safe[..., :-1], rest], axis=-1)  # exponents from V_k = pi_k / rest_k, 1 - V_k = ...
        exponent = np.concatenate([self._a - 1, 1 - self._a - self._b, [0.0]])
        exponent[self.sticks :] += self._b - 1
        positive = base > 0
        inside = (exponent * np.log(np.where(positive, base, 1.0))).sum(-1) - special.betaln(self._a, self._b).sum()
        edge = np.where(positive, 0.0, exponent).sum(-1)
        return np.where(possible, inside + special.xlogy(edge, 0.0), -np.inf)

    def sample(self, noise: Any, draw: int = 0, shape: tuple[int, ...] = ()) -> Floats:
        """Weights of shape ``shape + (T,)``."""
        if self.sticks == 1:
            return np.ones((*axes(shape), 1))
        return weights_of(np.asarray(Beta(self._a, self._b).sample(noise, draw, shape), np.float64))


def weights_of(fractions: ArrayLike) -> Floats:
    """The T weights that T - 1 fractions V (..., T - 1) break off, the rest last; products in logs."""
    v = floats(fractions, "fractions")
    if not v.ndim or not ((v >= 0) & (v <= 1)).all():
        raise UserValueError.must("fractions", "be in [0, 1] along the last axis", v)
    with np.errstate(divide="ignore"):
        left = np.exp(np.cumsum(np.log1p(-v), axis=-1))
    before = np.concatenate([np.ones((*v.shape[:-1], 1)), left], axis=-1)
    return np.concatenate([v, np.ones((*v.shape[:-1], 1))], axis=-1) * before


def fractions_of(weights: ArrayLike) -> Floats:
    """The T - 1 fractions that break off these weights (..., T): ``V_k = pi_k / (pi_k + ... + pi_T)``; 0 of nothing."""
    p = floats(weights, "weights")
    if not p.ndim or not p.shape[-1] or not (np.isfinite(p) & (p >= 0)).all():
        raise UserValueError.must("weights", "be finite and at least 0 along the last axis", p)
    rest = np.cumsum(p[..., ::-1], axis=-1)[..., ::-1][..., :-1]
    return np.divide(p[..., :-1], rest, out=np.zeros_like(rest), where=rest > 0)
