"""Pictures of chains: where they went, whether their ranks agree, how long they remember.

matplotlib is imported when a picture is drawn, through its objects: no state of pyplot is touched.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from gnomon.contracts import Array
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.arrays import to_numpy
from gnomon.inference.mcmc.diagnostics import autocorrelation, r_hat
from gnomon.runs.atomic import write_atomically

__all__ = [
    "columns_of", "draw_memory", "draw_ranks", "draw_trace", "form_of", "rank_counts", "trace_figure", "worst_of",
    "write_figure",
]  # fmt: skip

FORMS = ("png", "svg", "pdf")
MOST = 8
"""Coordinates in a picture."""
POINTS = 2000
"""Draws of a trace that are drawn: more would not be told apart."""
BINS = 20
LAGS = 100

Floats = NDArray[np.float64]


def form_of(path: str | os.PathLike[str]) -> str:
    """``png``, ``svg`` or ``pdf``, by the ending.

    Raises
    ------
    UserValueError
        Another ending.
    """
    if not isinstance(path, str | os.PathLike):
        raise UserTypeError.must("picture", "be the path of a file", path)
    form = Path(path).suffix.lower().lstrip(".")
    if form not in FORMS:
        raise UserValueError(f"a picture's name must end in .png, .svg or .pdf, got {Path(path).name!r}", str(path))
    return form


def write_figure(figure: Any, path: str | os.PathLike[str]) -> Path:
    """Write a figure in the form that the ending names; the file appears whole or not at all.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    path : path

    Raises
    ------
    UserValueError, UserError
        Another ending; a place that cannot be written.
    """
    form, room = form_of(path), io.BytesIO()
    # without the time of day, the same draws give the same file
    figure.savefig(room, format=form, metadata={"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[form])
    target = Path(path)
    write_atomically(target, room.getvalue())
    return target


def rank_counts(draws: Array, bins: int = BINS) -> NDArray[np.int64]:
    """How often the draws of each chain fall into each part of the common ranks: equal counts if all saw the same.

    Parameters
    ----------
    draws : array of shape (chains, n)
    bins : int, in [1, inf)

    Returns
    -------
    array of shape (chains, bins)
        Rows sum to n; equal draws share their mean rank.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), "Rank-normalization, folding, and localization".

    Examples
    --------
    >>> rank_counts(np.array([[1.0, 2.0], [3.0, 4.0]]), 2).tolist()
    [[2, 0], [0, 2]]
    """
    x = to_numpy(draws)
    ranks = stats.rankdata(x.ravel()).reshape(x.shape)
    bin_index = np.minimum((bins * (ranks - 0.5) / x.size).astype(np.int64), bins - 1)
    return np.stack([np.bincount(row, minlength=bins) for row in bin_index])


def trace_figure(values: Mapping[str, Array], coordinates: Sequence[str] | None = None) -> Any:
    """A row per coordinate: its trace, the ranks of each chain, the autocorrelation of each chain.

    Parameters
    ----------
    values : mapping of name to array (chains, draws, ...)
        At least 8 draws.
    coordinates : sequence of str, optional
        Names such as ``x[0]``; by default the eight of worst R-hat, the worst first.

    Returns
    -------
    matplotlib.figure.Figure
        Drawn on Agg; belongs to no window.

    Raises
    ------
    UserValueError
        Too few draws; a coordinate that is not there.
    """
    columns = columns_of(values)
    chosen = worst_of(columns) if coordinates is None else list(coordinates)
    for name in chosen:
        if name not in columns:
            few = ", ".join(list(columns)[:MOST])
            raise UserValueError(f"unknown coordinate {name!r}", "coordinates", f"choose from {few}")
    if not chosen:
        raise UserValueError("coordinates must name at least one", "coordinates")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 2.2 * len(chosen) + 0.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(chosen), 3, squeeze=False, width_ratios=(3, 1.5, 1.5))
    for row, name in zip(axes, chosen, strict=True):
        _draw(row, name, columns[name])
    for axis, title in zip(axes[0], ("trace", "ranks of each chain", "autocorrelation"), strict=True):
        axis.set_title(title, fontsize=9)
    for axis, label in zip(axes[-1], ("draw", "rank", "lag"), strict=True):
        axis.set_xlabel(label, fontsize=8)
    return figure


def columns_of(values: Mapping[str, Array]) -> dict[str, Floats]:
    """Draws (chains, n) by the coordinate's name, as the table calls them.

    Raises
    ------
    UserValueError
        Fewer than 8 draws per chain.
    """
    found = {}
    for name, value in values.items():
        x = to_numpy(value)
        if x.ndim < 2 or x.shape[1] < 8:
            raise UserValueError.must(name, "have 8 or more draws per chain", x)
        for at in np.ndindex(x.shape[2:]):
            found[name + (f"[{', '.join(map(str, at))}]" if at else "")] = x[(slice(None), slice(None), *at)]
    return found


def worst_of(columns: Mapping[str, Floats]) -> list[str]:
    """At most `MOST` names by falling R-hat; constants, which have none, come last."""
    height = {name: float(np.nan_to_num(r_hat(x), nan=-1.0, posinf=np.inf)) for name, x in columns.items()}
    return sorted(height, key=lambda name: -height[name])[:MOST]


def _draw(row: Any, name: str, x: Floats) -> None:
    trace, ranks, memory = row
    draw_trace(trace, x)
    draw_ranks(ranks, x)
    draw_memory(memory, x)
    worst = r_hat(x)
    trace.set_ylabel(f"{name}\nR-hat {worst:.3f}" if np.isfinite(worst) else name, fontsize=8)
    for axis in row:
        axis.tick_params(labelsize=7)


def draw_trace(axis: Any, x: Floats, points: int = POINTS) -> None:
    """The draws of each chain, in their order, onto axes of matplotlib.

    Parameters
    ----------
    axis : matplotlib.axes.Axes
    x : array of shape (chains, n)
    points : int in [1, inf)
        Draws of a chain that are drawn, at most.
    """
    step = -(-x.shape[1] // points)
    for i, row in enumerate(x):
        axis.plot(np.arange(0, x.shape[1], step), row[::step], color=f"C{i % 10}", linewidth=0.5)


def draw_ranks(axis: Any, x: Floats) -> None:
    """How often the draws of each chain, (chains, n), fall into each part of the common ranks; all alike is good."""
    chains, n = x.shape
    counts = rank_counts(x, min(BINS, n))
    edges = np.linspace(0, chains * n, counts.shape[1] + 1)
    for i, row in enumerate(counts):
        axis.stairs(row, edges, color=f"C{i % 10}", linewidth=0.8)
    axis.axhline(n / counts.shape[1], color="gray", linewidth=0.5, linestyle=":")
    axis.set_ylim(bottom=0)


def draw_memory(axis: Any, x: Floats) -> None:
    """The autocorrelation of each chain, (chains, n), at the first `LAGS` lags."""
    rho = autocorrelation(x)[:, : min(x.shape[1] // 2, LAGS)]
    for i, row in enumerate(rho):
        if np.isfinite(row).all():
            axis.plot(row, color=f"C{i % 10}", linewidth=0.8)
    axis.axhline(0, color="gray", linewidth=0.5)
    axis.set_xlim(0, max(rho.shape[1] - 1, 1))
