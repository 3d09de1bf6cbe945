"""Rows as points of a plane: the two directions in which they spread most, with a color for each group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnomon.tasks import pictures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Plane", "grouped", "map_of", "weighted"]

Floats = NDArray[np.float64]
MARKERS = "o^sDvP"
"""Shapes of points: the colors begin again with the next, so that 48 groups differ."""
COLORS = 8
TINY = 1e-300
MOST_GROUPS = 24
"""Groups that have a color; the rest is gray."""


class Plane(NamedTuple):
    """Points of a plane.

    Attributes
    ----------
    points : array of shape (n, 2)
    names : (str, str)
        Of the two axes.
    """

    points: Floats
    names: tuple[str, str]


def map_of(rows: Any, noun: str = "direction") -> Plane:
    """Rows in a plane: as they are where they have two columns, else their first two principal components.

    Parameters
    ----------
    rows : array of shape (n, d) or (n, ...)
        Missing values count as the mean of their column; a single column has 0 as its second.
    noun : str, default "direction"
        What a column is called on an axis: "latent".

    Returns
    -------
    Plane
        The axes of components say which share of the squares about the mean they hold. Of each direction the largest
        entry is positive, so that the same rows are never mirrored. Cost O(n d min(n, d)).

    Examples
    --------
    >>> found = map_of([[0.0, 0.0, 1.0], [2.0, 0.0, 1.0], [0.0, 1.0, 1.0], [2.0, 1.0, 1.0]])
    >>> found.points.tolist(), found.names
    ([[-1.0, -0.5], [1.0, -0.5], [-1.0, 0.5], [1.0, 0.5]], ('direction 1 (80 %)', 'direction 2 (20 %)'))
    """
    table = np.asarray(rows, np.float64)
    table = table.reshape(len(table), -1)
    known = np.isfinite(table)
    mean = np.where(known, table, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    table = np.where(known, table, mean)
    if table.shape[1] == 2:
        return Plane(table, (f"{noun} 1", f"{noun} 2"))
    if table.shape[1] < 2:
        return Plane(_two_columns(table), (f"{noun} 1", ""))
    _, size, directions = np.linalg.svd(table - mean, full_matrices=False)
    axes = directions[:2]
    largest = axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)]
    points = np.matmul(table - mean, (axes * np.where(largest < 0, -1.0, 1.0)[:, None]).T)
    shares = _two_columns((size**2 / max(float((size**2).sum()), TINY))[None])[0]
    first, second = (f"{noun} {j} ({100 * share:.0f} %)" for j, share in enumerate(shares, 1))
    return Plane(_two_columns(points), (first, second))


def _two_columns(table: Floats) -> Floats:
    """The first two columns, of zeros where there are fewer."""
    few = table[:, :2]
    return np.column_stack([few, np.zeros((len(few), 2 - few.shape[1]))])


def weighted(plane: Plane, weight: Any) -> Figure:
    """Points of a plane, the heavier the larger."""
    figure, axes = pictures.canvas(6.0, 6.0)
    weight = np.asarray(weight, np.float64)
    axes.scatter(plane.points[:, 0], plane.points[:, 1], s=2 + 60 * weight / max(weight.max(), 1), alpha=0.5)
    axes.set(xlabel=plane.names[0], ylabel=plane.names[1])
    return figure


def grouped(plane: Plane, groups: Any = None, names: Sequence[str] | None = None) -> Figure:
    """Points of a plane, at most `pictures.MOST_POINTS` of them, in the color and shape of their group.

    Parameters
    ----------
    plane : Plane
    groups : array of shape (n,), optional
        The group of each point; the commonest `MOST_GROUPS` have a color.
    names : sequence of str, optional
        What the groups are called, in ascending order; their values by default.
    """
    figure, axes = pictures.canvas(5.5, 4.5)
    chosen = pictures.some(len(plane.points))
    points = plane.points[chosen]
    axes.set(xlabel=plane.names[0], ylabel=plane.names[1])
    if groups is None:
        axes.scatter(points[:, 0], points[:, 1], s=8, alpha=0.6)
        return figure
    values, codes, counts = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    called = [str(one) for one in (values if names is None else names)]
    shown = np.sort(np.argsort(-counts, kind="stable")[:MOST_GROUPS])
    codes = codes[chosen]
    rest = ~np.isin(codes, shown)
    if rest.any():
        axes.scatter(points[rest, 0], points[rest, 1], s=6, color="gray", alpha=0.4, label="others")
    for i, code in enumerate(shown):
        here = points[codes == code]
        color, marker = f"C{i % COLORS}", MARKERS[i // COLORS % len(MARKERS)]
        axes.scatter(
            here[:, 0], here[:, 1], s=16, alpha=0.75, linewidths=0, color=color, marker=marker,
            label=pictures.plain(called[code]),
        )  # fmt: skip
    figure.legend(loc="outside right upper", fontsize=9, markerscale=1.5, handletextpad=0.2, ncols=1 + len(shown) // 16)
    return figure
