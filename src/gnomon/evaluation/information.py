"""Information in nats (or another base): entropies, divergences and mutual information of tables and of samples.

A distribution is an array of probabilities that sum to 1 along `axis`; 0 log 0 is 0. What does not sum to 1 is refused
unless ``normalize=True`` says that these are weights.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation._inputs import numbers

__all__ = [
    "conditional_entropy", "cross_entropy", "differential_entropy", "entropy", "entropy_of_counts", "joint_entropy",
    "js", "kl", "kl_samples", "largest_entropy", "mutual_information", "npmi", "pmi", "ppmi", "self_information",
    "symmetric_kl",
]  # fmt: skip

Floats = NDArray[np.float64]

_SUM = 1e-6  # what probabilities may miss 1 by: those of float32 tables do


def self_information(p: ArrayLike, base: float = math.e) -> Floats:
    """Information of an outcome, -log p.

    Parameters
    ----------
    p : array of probabilities in [0, 1]
        0 gives infinity.
    base : float > 0, not 1, default e
        e gives nats, 2 bits.

    Raises
    ------
    UserValueError
        A value outside [0, 1].

    Examples
    --------
    >>> float(self_information(1 / 8, base=2))
    3.0
    """
    values = _within(p, "p")
    with np.errstate(divide="ignore"):
        return -np.log(values) / _log(base) + 0.0


def entropy(p: ArrayLike, *, axis: int = -1, base: float = math.e, normalize: bool = False) -> Floats:
    r"""Shannon entropy :math:`-\sum_i p_i \log p_i`: the least expected length of a code.

    Parameters
    ----------
    p : array of probabilities along `axis`
    axis : int, default -1
    base : float > 0, not 1, default e
    normalize : bool, default False
        Take `p` as weights of any positive sum.

    Raises
    ------
    UserValueError
        Negative entries, or a sum other than 1.

    References
    ----------
    Shannon (1948).

    Examples
    --------
    >>> float(entropy([0.5, 0.25, 0.25], base=2))
    1.5
    """
    return special.entr(_simplex(p, axis, normalize, "p")).sum(axis) / _log(base)


def entropy_of_counts(counts: ArrayLike, *, correction: str = "miller-madow", base: float = math.e) -> float:
    """Entropy of the distribution that counts were drawn from.

    The plug-in estimate is low by about (K - 1) / (2 n) nats, K the number of outcomes that can occur;
    ``"miller-madow"`` adds that with K the outcomes seen, ``"none"`` leaves it out.

    Parameters
    ----------
    counts : array of whole numbers >= 0, not all 0
    correction : {"miller-madow", "none"}
    base : float > 0, not 1, default e

    References
    ----------
    Miller (1955).

    Examples
    --------
    >>> round(entropy_of_counts([3, 1], correction="none"), 6)
    0.562335
    """
    if correction not in ("miller-madow", "none"):
        raise UserValueError.must("correction", 'be "miller-madow" or "none"', correction)
    n = _numbers(counts, "counts").ravel()
    if (n != np.floor(n)).any():
        raise UserValueError.must("counts", "be whole numbers", n[n != np.floor(n)][0])
    plug_in = float(entropy(n, normalize=True))
    bias = (np.count_nonzero(n) - 1) / (2 * n.sum()) if correction == "miller-madow" else 0.0
    return (plug_in + bias) / _log(base)


def largest_entropy(k: float, base: float = math.e) -> float:
    """The entropy that none on k outcomes (or on an interval of length k) exceeds: log k, the uniform distribution's.

    Examples
    --------
    >>> round(largest_entropy(4), 6)
    1.386294
    """
    if not k > 0:
        raise UserValueError.must("k", "be positive: the number of outcomes, or the length of the interval", k)
    return math.log(k) / _log(base)


def cross_entropy(
    p: ArrayLike, q: ArrayLike, *, axis: int = -1, base: float = math.e, normalize: bool = False
) -> Floats:
    r"""Expected surprise of one who believes q where p holds: :math:`-\sum_i p_i \log q_i = H(p) + KL(p \| q)`.

    Infinite where q is 0 and p is not; least, with the value H(p), at q = p (Gibbs' inequality).

    Examples
    --------
    >>> round(float(cross_entropy([0.5, 0.5], [0.9, 0.1])), 6)
    1.203973
    """
    p, q = _both(p, q, axis, normalize)
    return -special.xlogy(p, q).sum(axis) / _log(base) + 0.0


def kl(
    p: ArrayLike,
    q: ArrayLike,
    *,
    axis: int = -1,
    base: float = math.e,
    direction: str = "forward",
    normalize: bool = False,
    logs: bool = False,
) -> Floats:
    r"""Kullback-Leibler divergence :math:`KL(p \| q) = \sum_i p_i \log(p_i / q_i)`.

    Parameters
    ----------
    p, q : arrays of probabilities along `axis`
        Of the data and of the model. ``torch.nn.functional.kl_div`` takes them the other way round.
    axis : int, default -1
    base : float > 0, not 1, default e
    direction : {"forward", "reverse"}, default "forward"
        ``"reverse"`` is KL(q || p), which variational inference lowers.
    normalize : bool, default False
        Take both as weights of any positive sum.
    logs : bool, default False
        Whether both are given as logarithms in nats, which probabilities below 1e-308 have as well.

    Returns
    -------
    array >= 0
        0 where both agree; infinite where the second is 0 and the first is not.

    References
    ----------
    Kullback and Leibler (1951).

    Examples
    --------
    >>> round(float(kl([0.5, 0.5], [0.9, 0.1])), 6), round(float(kl([0.5, 0.5], [0.9, 0.1], direction="reverse")), 6)
    (0.510826, 0.368064)
    """
    if direction not in ("forward", "reverse"):
        raise UserValueError.must("direction", 'be "forward" or "reverse"', direction)
    p, q = _both(p, q, axis, normalize, logs)
    if direction == "reverse":
        p, q = q, p
    # terms p log(p/q) - p + q >= 0 cancel less than p log(p/q) do
    terms = _terms_of_logs(p, q) if logs else special.kl_div(p, q)
    return np.maximum(terms.sum(axis), 0.0) / _log(base)


def symmetric_kl(p: ArrayLike, q: ArrayLike, *, axis: int = -1, base: float = math.e) -> Floats:
    """KL(p || q) + KL(q || p), Jeffreys' divergence."""
    return kl(p, q, axis=axis, base=base) + kl(q, p, axis=axis, base=base)


def js(p: ArrayLike, q: ArrayLike, *, axis: int = -1, base: float = math.e) -> Floats:
    """Jensen-Shannon divergence, the mean of both KL to the middle (p + q) / 2; in [0, log 2] (Lin 1991).

    Examples
    --------
    >>> float(js([1.0, 0.0], [0.0, 1.0], base=2))
    1.0
    """
    p, q = _both(p, q, axis, False)
    middle = (p + q) / 2
    return (kl(p, middle, axis=axis, base=base) + kl(q, middle, axis=axis, base=base)) / 2


def kl_samples(log_q: ArrayLike, log_p: ArrayLike, *, positive: bool = False) -> tuple[float, float]:
    r"""KL(q || p) and its standard error from log densities at draws of q.

    Parameters
    ----------
    log_q, log_p : arrays of shape (n,), n >= 2
        Both normalized, at the same draws of q.
    positive : bool, default False
        Average :math:`r - 1 - \log r \ge 0` with r = p / q instead of :math:`-\log r`, which may come out negative.
        The same mean, and much less variance where p and q are close; but where p has the heavier tails its variance
        is infinite and the error that is told is not to be trusted.

    Returns
    -------
    estimate, standard error : float
        Infinite where p is 0 at a draw.
    """
    log_q, log_p = numbers(log_q, "log_q"), np.asarray(log_p, np.float64)
    if log_q.size < 2:
        raise UserValueError.must("log_q", "be one log density for each of two or more draws", log_q)
    if log_p.shape != log_q.shape or np.isnan(log_p).any() or np.isposinf(log_p).any():
        what = f"log_p must be {log_q.size} log densities, finite or -inf, one per draw"
        raise UserValueError(what, "log_p", "give log p at the draws of log_q")
    log_r = log_p - log_q
    if np.isneginf(log_r).any():
        return math.inf, math.inf
    values = np.expm1(log_r) - log_r if positive else -log_r
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(values.size))


def joint_entropy(pxy: ArrayLike, *, base: float = math.e) -> float:
    """Entropy of all variables of a joint table of any number of axes.

    Examples
    --------
    >>> float(joint_entropy([[0.5, 0.25], [0.0, 0.25]], base=2))
    1.5
    """
    return float(entropy(np.asarray(pxy).ravel(), base=base))


def conditional_entropy(pxy: ArrayLike, *, given: int = 0, base: float = math.e) -> float:
    """Uncertainty that remains once one axis of a joint table is known: H(all) - H(axis `given`).

    Examples
    --------
    >>> round(conditional_entropy([[0.5, 0.25], [0.0, 0.25]]), 6)
    0.477386
    """
    table = _table(pxy, None)
    if given not in range(-table.ndim, table.ndim):
        raise UserValueError.must("given", f"be an axis of a table of {table.ndim}", given)
    marginal = table.sum(tuple(axis for axis in range(table.ndim) if axis != given % table.ndim), keepdims=True)
    ratio = np.divide(table, marginal, out=np.ones_like(table), where=marginal > 0)
    return float(-special.xlogy(table, ratio).sum()) / _log(base) + 0.0


def mutual_information(
    pxy: ArrayLike | None = None, *, labels: tuple[ArrayLike, ArrayLike] | None = None, base: float = math.e
) -> float:
    r"""Information that two variables share, :math:`KL(p_{xy} \| p_x p_y)`.

    Parameters
    ----------
    pxy : array of shape (a, b), optional
        Joint table.
    labels : pair of arrays of shape (n,), optional
        Two labelings of the same rows instead: the plug-in estimate, high by about (a - 1)(b - 1) / (2 n) nats.
    base : float > 0, not 1, default e

    Returns
    -------
    float >= 0
        0 where the variables are independent, H(X) = H(Y) where each is a function of the other.

    Examples
    --------
    >>> round(mutual_information([[0.5, 0.25], [0.0, 0.25]]), 6)
    0.215762
    """
    table = _of_two(_table(pxy, labels))
    product = table.sum(1, keepdims=True) * table.sum(0, keepdims=True)
    return max(float(special.kl_div(table, product).sum()), 0.0) / _log(base)


def pmi(pxy: ArrayLike, *, base: float = math.e) -> Floats:
    """Pointwise mutual information of every pair, log p(x, y) / (p(x) p(y)): -inf for pairs that never come together.

    A pair of which one never comes at all has 0 / 0: NaN. The mean under the table is `mutual_information`.

    References
    ----------
    Church and Hanks (1990).

    Examples
    --------
    >>> round(float(pmi([[0.5, 0.25], [0.0, 0.25]])[0, 0]), 6)
    0.287682
    """
    table = _of_two(_table(pxy, None))
    rows, columns = table.sum(1, keepdims=True), table.sum(0, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        return (np.log(table) - np.log(rows) - np.log(columns)) / _log(base)


def ppmi(pxy: ArrayLike, *, base: float = math.e) -> Floats:
    """Positive pointwise mutual information: `pmi`, and 0 where that is negative or undefined."""
    return np.fmax(pmi(pxy, base=base), 0.0)


def npmi(pxy: ArrayLike) -> Floats:
    """Normalized pointwise mutual information in [-1, 1]: `pmi` / -log p(x, y) (Bouma 2009).

    -1 for pairs that never come together, 0 for independence, 1 for pairs that only come together.
    """
    table = _table(pxy, None)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = pmi(table) / -np.log(table)
    value = np.where((table == 1) & np.isnan(value), 1.0, value)
    never = (table == 0) & (table.sum(1, keepdims=True) > 0) & (table.sum(0, keepdims=True) > 0)
    return np.where(never, -1.0, value)


def differential_entropy(x: Any, *, k: int = 3, base: float = math.e) -> float:
    """Differential entropy of the density that rows were drawn from, by nearest neighbors; it may be negative.

    Parameters
    ----------
    x : array of shape (n,) or (n, d)
        More than k rows, without repeats (at repeats the density, and the estimate with it, is infinite).
    k : int in [1, n), default 3
        Neighbors: more of them mean less variance and more bias.
    base : float > 0, not 1, default e

    Returns
    -------
    float
        psi(n) - psi(k) + log V_d + d * mean log distance to the k-th neighbor.

    References
    ----------
    Kozachenko and Leonenko (1987); Kraskov, Stoegbauer and Grassberger (2004), equation 20.
    """
    from scipy.spatial import cKDTree

    rows = _numbers(x, "x")
    rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise UserValueError("x must be finite numbers, one row per draw", "x", "drop rows with missing values")
    n, d = rows.shape
    if not 1 <= k < n:
        raise UserValueError.must("k", f"be in [1, {n - 1}], fewer than the {n} rows", k)
    distance = cKDTree(rows).query(rows, k + 1)[0][:, -1]
    if not distance.all():
        row = int(np.flatnonzero(distance == 0)[0])
        raise UserValueError(f"{k + 1} equal rows have no density", f"row {row} of x", "drop repeats, or use entropy")
    ball = d / 2 * math.log(math.pi) - math.lgamma(d / 2 + 1)
    value = special.digamma(n) - special.digamma(k) + ball + d * np.log(distance).mean()
    return float(value) / _log(base)


def _log(base: float) -> float:
    if not (base > 0 and base != 1):
        raise UserValueError.must("base", "be above 0 and not 1: e for nats, 2 for bits", base)
    return math.log(base)


def _within(p: ArrayLike, name: str) -> Floats:
    values = _numbers(p, name)
    bad = ~((values >= 0) & (values <= 1))
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        where = f"{name}[{', '.join(map(str, at))}]" if at else name
        raise UserValueError.must("probabilities", "be in [0, 1]", values[bad].flat[0], where)
    return values


def _terms_of_logs(log_p: Floats, log_q: Floats) -> Floats:
    """p log(p/q) - p + q."""
    p, q = np.exp(log_p), np.exp(log_q)
    with np.errstate(invalid="ignore"):
        known = np.where(p > 0, p * (log_p - log_q), 0.0)
    return np.where(np.isneginf(log_q) & ~np.isneginf(log_p), np.inf, known) - p + q


def _both(p: ArrayLike, q: ArrayLike, axis: int, normalize: bool, logs: bool = False) -> tuple[Floats, Floats]:
    check = _log_simplex if logs else _simplex
    first, second = check(p, axis, normalize, "p"), check(q, axis, normalize, "q")
    if first.shape[axis] != second.shape[axis]:
        what = f"p and q must have the same outcomes, got {first.shape[axis]} and {second.shape[axis]}"
        raise UserValueError(what, "p, q")
    return first, second


def _numbers(p: ArrayLike, name: str) -> Floats:
    try:
        return np.asarray(p, np.float64)
    except (TypeError, ValueError):
        raise UserTypeError(f"{name} must be an array of numbers", name) from None


def _simplex(p: ArrayLike, axis: int, normalize: bool, name: str) -> Floats:
    values = _numbers(p, name)
    if normalize:
        total = values.sum(axis, keepdims=True)
        if (values < 0).any() or not (total > 0).all() or not np.isfinite(total).all():
            raise UserValueError(f"{name} must be at least 0 with a finite positive sum", name)
        return values / total
    values = _within(values, name)
    total = values.sum(axis)
    bad = ~(abs(total - 1) <= _SUM)
    if bad.any():
        what = f"{name} must sum to 1, got {total[bad].flat[0] if total.ndim else float(total)!s}"
        raise UserValueError(what, name, "normalize them, or pass normalize=True")
    return values


def _log_simplex(log_p: ArrayLike, axis: int, normalize: bool, name: str) -> Floats:
    values = _numbers(log_p, name)
    total = special.logsumexp(values, axis=axis, keepdims=True)
    if not normalize:
        _simplex(np.exp(values), axis, False, name)
        return values
    if not np.isfinite(total).all():
        raise UserValueError(f"{name} must be logarithms of weights with a finite positive sum", name)
    return np.asarray(values - total)


def _of_two(table: Floats) -> Floats:
    if table.ndim != 2:
        remedy = "sum over the other axes, or join them by reshape"
        raise UserValueError(f"pxy must be a table of two variables, got {table.ndim}", "pxy", remedy)
    return table


def _table(pxy: ArrayLike | None, labels: tuple[ArrayLike, ArrayLike] | None) -> Floats:
    if (pxy is None) == (labels is None):
        raise UserValueError(
            "exactly one of pxy and labels must be given", "pxy", "give a joint table or two labelings"
        )
    if labels is not None:
        codes = [np.unique(np.asarray(one), return_inverse=True)[1].reshape(-1) for one in labels]
        if codes[0].size != codes[1].size or not codes[0].size:
            raise UserValueError(
                f"labels must be two of the same rows, got {codes[0].size} and {codes[1].size}", "labels"
            )
        shape = tuple(int(code.max()) + 1 for code in codes)
        counts = np.bincount(np.ravel_multi_index(tuple(codes), shape), minlength=math.prod(shape))
        return counts.reshape(shape) / codes[0].size
    table = np.asarray(pxy, np.float64)
    _simplex(table.ravel(), -1, False, "pxy")
    if table.ndim < 2:
        raise UserValueError(f"pxy must have one axis per variable, got {table.ndim} axes", "pxy")
    return table
