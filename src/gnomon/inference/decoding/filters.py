"""What is drawn from: a distribution sharpened by a temperature, or cut to its most probable tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import UserValueError
from gnomon.numeric.given import checked

__all__ = ["best", "check_filters", "filtered"]

Floats = NDArray[np.floating]

HOTTEST = 1e30
"""Temperatures lie between its inverse and it."""


@checked
def check_filters(temperature: float, top_k: int | None, top_p: float | None) -> None:
    """Refuse what `filtered` has no meaning for.

    Raises
    ------
    UserValueError
        A temperature that is not positive or leaves single precision, a `top_k` below 1, a `top_p` outside (0, 1].
    """
    if not 1 / HOTTEST <= temperature <= HOTTEST:
        remedy = "choose 1 for the model's own distribution; greedy search is the limit of 0"
        rule = f"be from {1 / HOTTEST:g} to {HOTTEST:g}"
        raise UserValueError.must("temperature", rule, temperature, remedy=remedy)
    if top_k is not None and top_k < 1:
        raise UserValueError(f"top_k must be at least 1, got {top_k}", "top_k", "choose None to keep all tokens")
    if top_p is not None and not 0 < top_p <= 1:
        raise UserValueError(f"top_p must be in (0, 1], got {top_p}", "top_p", "choose None to keep all tokens")


def filtered(
    log_probs: Floats, *, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> Floats:
    r"""Unnormalized log probabilities to draw from.

    Parameters
    ----------
    log_probs : array of shape (n, V)
        Normalized, in nats.
    temperature : float > 0, default 1
        Probabilities become :math:`p^{1/T}`: below 1 sharper, above 1 flatter.
    top_k : int >= 1, optional
        Only the k most probable tokens stay; of equal ones, those with the lowest ids.
    top_p : float in (0, 1], optional
        Only the most probable tokens stay whose probabilities reach this sum together (the one that crosses it is
        kept): nucleus sampling. It is taken after the temperature and after `top_k`.

    Returns
    -------
    array of shape (n, V)
        -inf for tokens that were cut.

    References
    ----------
    Fan, Lewis and Dauphin (2018); Holtzman, Buys, Du, Forbes and Choi (2020).

    Examples
    --------
    >>> row = np.log([[0.5, 0.3, 0.2]])
    >>> np.exp(filtered(row, top_k=2)).round(3).tolist(), np.exp(filtered(row, top_p=0.5)).round(3).tolist()
    ([[0.5, 0.3, 0.0]], [[0.5, 0.0, 0.0]])
    """
    check_filters(temperature, top_k, top_p)
    result = log_probs if temperature == 1 else log_probs / temperature
    if top_k is not None and top_k < log_probs.shape[1]:
        kept = np.full(result.shape, -np.inf, result.dtype)
        chosen = best(result, top_k)
        np.put_along_axis(kept, chosen, np.take_along_axis(result, chosen, axis=1), axis=1)
        result = kept
    return result if top_p is None or top_p == 1 else _nucleus(result, top_p)


def _nucleus(log_probs: Floats, top_p: float) -> Floats:
    order = np.argsort(-log_probs, axis=1, kind="stable")
    ordered = np.take_along_axis(log_probs, order, axis=1)
    with np.errstate(invalid="ignore"):
        mass = np.exp(ordered - ordered[:, :1]).astype(np.float64)
    before = np.cumsum(mass, axis=1) - mass
    dropped = before >= top_p * mass.sum(axis=1, keepdims=True) * (1 - 1e-12)
    result = np.array(log_probs)
    np.put_along_axis(result, order, np.where(dropped, -np.inf, ordered), axis=1)
    return result


def best(values: NDArray[Any], k: int) -> NDArray[np.int64]:
    """Columns of the k largest values of each row, largest first; of equal values the lowest columns.

    Parameters
    ----------
    values : array of shape (n, m)
    k : int, 1 <= k <= m

    Notes
    -----
    One partition and one sort of k values per row: O(n m + n k log k).

    Examples
    --------
    >>> best(np.array([[1.0, 3.0, 3.0, 2.0]]), 3).tolist()
    [[1, 2, 3]]
    """
    n, m = values.shape
    if k == 1:
        return values.argmax(axis=1)[:, None].astype(np.int64)
    if k >= m:
        return np.argsort(-values, axis=1, kind="stable").astype(np.int64)
    least = np.partition(values, m - k, axis=1)[:, m - k, None]
    above, equal = values > least, values == least
    room = k - above.sum(axis=1, keepdims=True)
    chosen = above | (equal & (np.cumsum(equal, axis=1) <= room))
    columns = np.nonzero(chosen)[1].reshape(n, k)
    order = np.argsort(-np.take_along_axis(values, columns, axis=1), axis=1, kind="stable")
    return np.take_along_axis(columns, order, axis=1).astype(np.int64)
