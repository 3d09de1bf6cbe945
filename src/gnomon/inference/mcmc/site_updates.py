"""Units of one layer that are coupled to each other, taken one after the other: draws, and means of mean field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from gnomon.contracts import Array
from gnomon.inference.arrays import convert
from gnomon.numeric import ops
from gnomon.numeric.tensors import is_tensor

__all__ = ["drawn_by_sites", "means_by_sites"]

kernel = numba.njit(cache=True, error_model="numpy")

CACHED = 1 << 16
"""Fields that are held at a time: 256 KB in float32."""


def drawn_by_sites(
    x: Array,
    field: Array,
    coupling: Array,
    values: tuple[float, float],
    u: Array,
    held: Array | None = None,
    *,
    backward: bool = False,
) -> Array:
    r"""A sweep: each unit of every chain drawn given all the others as they are by then.

    A unit of the values a < b is b where :math:`\log(u / (1 - u)) < (b - a) f_i`, f_i the derivative of minus the
    energy by x_i. A change of one unit moves the fields of those it is coupled to, so a chain costs d times the units
    that change, not d^2. In a fixed order the sweep leaves the distribution as it is and is not reversible; `backward`
    is its reversal.

    Parameters
    ----------
    x : array of shape (chains, d)
        Where the chains are; left as it is.
    field : array of shape (chains, d)
        f at x, from the other layers and from this one.
    coupling : array of shape (d, d)
        Symmetric, 0 on the diagonal.
    values : pair of float
        a and b.
    u : array of shape (chains, d)
        Uniform numbers in (0, 1).
    held : array broadcast to (chains, d), optional
        Units that keep their values.
    backward : bool, default False
        From the last unit to the first.

    Returns
    -------
    array of shape (chains, d)

    References
    ----------
    Geman and Geman (1984), "Stochastic relaxation, Gibbs distributions, and the Bayesian restoration of images".

    Examples
    --------
    >>> strong = np.array([[0.0, 50.0], [50.0, 0.0]])
    >>> drawn_by_sites(np.zeros((1, 2)), np.full((1, 2), -25.0), strong, (0.0, 1.0), np.full((1, 2), 0.5)).tolist()
    [[0.0, 0.0]]
    >>> drawn_by_sites(np.ones((1, 2)), np.full((1, 2), 25.0), strong, (0.0, 1.0), np.full((1, 2), 0.5)).tolist()
    [[1.0, 1.0]]
    """
    low, high = values
    if not is_tensor(x):
        return _compiled(x, field, coupling, values, u, held, backward)
    if x.device.type == "cpu":
        import torch

        x, field, coupling = (one.detach().numpy() for one in (x, field, coupling))
        return torch.from_numpy(_compiled(x, field, coupling, values, u.numpy(), held, backward))
    threshold = (u.log() - (-u).log1p()) / (high - low)

    def drawn(f: Any, i: int) -> Any:
        return low + (high - low) * (f > threshold[:, i]).to(x.dtype)

    return _one_by_one(x, field, coupling, held, drawn, backward)


def means_by_sites(
    x: Array, field: Array, coupling: Array, values: tuple[float, float], held: Array | None = None
) -> Array:
    """A round of mean field: each unit's mean set to what it is given the means of all the others.

    Each update raises the evidence lower bound; all at once might lower it. Parameters as in `drawn_by_sites`, x and
    what is returned being means. Cost d^2 per row.

    References
    ----------
    Peterson and Anderson (1987), "A mean field theory learning algorithm for neural networks".
    """
    low, high = values

    def mean(f: Any, i: int) -> Any:
        return low + (high - low) * ops.sigmoid((high - low) * f)

    return _one_by_one(x, field, coupling, held, mean, False)


def _one_by_one(x: Any, field: Any, coupling: Any, held: Any, new: Callable[[Any, int], Any], backward: bool) -> Any:
    """The units in turn, all chains at once."""
    x, field = x + 0, field + 0
    free = None if held is None else 1 - convert(np.broadcast_to(_plain(held), tuple(x.shape)).astype(float), x)
    sites = range(x.shape[1])
    for i in reversed(sites) if backward else sites:
        change = new(field[:, i], i) - x[:, i]
        if free is not None:
            change = change * free[:, i]
        x[:, i] += change
        field += change[:, None] * coupling[i]
    return x


def _compiled(x: Any, field: Any, coupling: Any, values: Any, u: Any, held: Any, backward: bool) -> Any:
    kind = x.dtype.type
    # logit(u) < logit(p) keeps the tails that the sigmoid rounds away
    threshold = (np.log(u) - np.log1p(-u)) / kind(values[1] - values[0])
    mask = np.zeros(x.shape, np.bool_)
    if held is not None:
        mask[...] = _plain(held) != 0
    new = np.array(x, order="C")
    moving = np.array(field, dtype=x.dtype, order="C")
    whole = np.ascontiguousarray(coupling, dtype=x.dtype)
    _sweep(new, moving, whole, threshold.astype(x.dtype), mask, kind(values[0]), kind(values[1]), backward)
    return new


def _plain(x: Any) -> Any:
    return x.cpu().numpy() if is_tensor(x) else np.asarray(x)


@kernel
def _add(field, change, near):  # type: ignore[no-untyped-def]
    """field + change near, in place: a loop of its own becomes vector instructions."""
    for j in range(field.size):
        field[j] += change * near[j]


@kernel
def _sweep(x, field, coupling, threshold, held, low, high, backward):  # type: ignore[no-untyped-def]
    """Updates of every chain, in place: of some chains at a time, whose fields and one row of couplings stay cached."""
    n, d = x.shape
    together = max(1, CACHED // max(d, 1))
    for begin in range(0, n, together):
        for k in range(d):
            i = d - 1 - k if backward else k
            start, stop = (0, i) if backward else (i + 1, d)  # what has been drawn needs no field any more
            near = coupling[i, start:stop]
            for c in range(begin, min(begin + together, n)):
                if held[c, i]:
                    continue
                new = high if field[c, i] > threshold[c, i] else low
                change = new - x[c, i]
                if change != 0:
                    x[c, i] = new
                    _add(field[c, start:stop], change, near)
