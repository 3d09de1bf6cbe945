"""Which proposal is best on a finite space, and how good another one is."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.errors import UserValueError
from gnomon.inference.importance.weights import check_support
from gnomon.numeric.given import checked, floats

__all__ = ["least_variance", "optimal_proposal", "proposal_variance"]

Floats = NDArray[np.float64]


@checked
def optimal_proposal(p: ArrayLike, f: ArrayLike) -> Floats:
    """The proposal of least variance for the expectation of f under p: ``q*(x) = p(x) |f(x)| / sum p |f|``.

    Building it costs the very sum that is wanted, so it serves to judge proposals, or as what adapted ones should come
    near. It never draws states where f is 0: for another function ask `check_support` first.

    Parameters
    ----------
    p : array of shape (K,)
        Probabilities of the target.
    f : array of shape (K,)
        The function.

    Returns
    -------
    array of shape (K,)

    Raises
    ------
    UserValueError
        When p is no distribution, a value of f is not finite, or p |f| is 0 everywhere.

    References
    ----------
    Kahn and Marshall (1953), "Methods of reducing sample size in Monte Carlo computations".

    Examples
    --------
    >>> optimal_proposal([0.5, 0.3, 0.2], [1.0, 2.0, 5.0]).round(6).tolist()
    [0.238095, 0.285714, 0.47619]
    """
    p, f = _checked(p, f)
    size = p * np.abs(f)
    total = size.sum()
    if not total > 0:
        raise UserValueError("f is 0 wherever p is not", "f", "its expectation is 0: no draw is needed")
    return np.asarray(size / total)


@checked
def proposal_variance(p: ArrayLike, f: ArrayLike, q: ArrayLike) -> float:
    """Variance of one weighted draw ``p(x) f(x) / q(x)``, x from q: of the mean of n draws it is that over n.

    ``sum (p f)^2 / q - s^2``, s the expectation, summed as ``sum q (p f / q - s)^2``, which keeps its digits near 0.

    Parameters
    ----------
    p, q : array of shape (K,)
        Probabilities of target and proposal.
    f : array of shape (K,)
        The function.

    Returns
    -------
    float
        At least `least_variance`.

    Raises
    ------
    UserValueError
        When p or q is no distribution, or q is 0 where p f is not: that estimator is biased, whatever its variance.

    Examples
    --------
    >>> p, f = [0.5, 0.3, 0.2], [1.0, 2.0, 5.0]
    >>> round(proposal_variance(p, f, [1 / 3] * 3), 6), round(proposal_variance(p, f, p), 6)
    (0.42, 2.29)
    """
    p, f = _checked(p, f)
    q = _distribution(q, "q", len(p))
    check_support(p, q, f)
    value = np.divide(p * f, q, out=np.zeros(len(p)), where=q > 0)
    return float(q @ np.square(value - p @ f))


@checked
def least_variance(p: ArrayLike, f: ArrayLike) -> float:
    """Variance of one weighted draw under `optimal_proposal`: ``(E_p|f|)^2 - (E_p f)^2``, 0 if f keeps one sign.

    Summed as ``4 E[f+] E[f-]`` of the positive and the negative part of f, which is the same and exact at 0.

    Examples
    --------
    >>> round(least_variance([0.5, 0.3, 0.2], [1.0, -2.0, 5.0]), 6)
    3.6
    """
    p, f = _checked(p, f)
    return float(4 * (p @ np.maximum(f, 0)) * (p @ np.maximum(-f, 0)))


def _checked(p: ArrayLike, f: ArrayLike) -> tuple[Floats, Floats]:
    f = floats(f, "f")
    if f.ndim != 1:
        raise UserValueError.must("f", "be one number per state", f)
    bad = np.flatnonzero(~np.isfinite(f))
    if bad.size:
        raise UserValueError.must("f", "be finite", f[bad[0]], f"state {bad[0]}")
    return _distribution(p, "p", f.size), f


def _distribution(p: ArrayLike, name: str, size: int) -> Floats:
    p = floats(p, name)
    if p.shape != (size,):
        raise UserValueError.must(name, f"be {size} numbers, one per value of f", p)
    if not (np.isfinite(p).all() and (p >= 0).all() and abs(p.sum() - 1) <= 1e-6):
        raise UserValueError(f"{name} must be at least 0 and sum to 1, got the sum {p.sum():g}", name)
    return p
