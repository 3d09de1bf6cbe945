"""Pictures of a variational fit: its bound by iteration, and the density of what it has found.

matplotlib is imported when a picture is drawn, through its objects: no state of pyplot is touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import UserValueError
from gnomon.inference.variational.method import Marginal

__all__ = ["posterior_figure"]

MOST = 8
"""Coordinates in a picture."""
ACROSS = 3
TAIL = 1e-3
"""Mass beyond each side of a density's picture."""


def posterior_figure(
    history: NDArray[np.float64], marginals: Mapping[str, Marginal], coordinates: Sequence[str] | None = None
) -> Any:
    """The bound of every iteration, and the density of some numbers.

    Parameters
    ----------
    history : array of shape (n,)
        The bound in nats.
    marginals : mapping of name to distribution
        With ``icdf`` and ``log_prob``.
    coordinates : sequence of str, optional
        Names; the first eight by default.

    Returns
    -------
    matplotlib.figure.Figure
        Drawn on Agg; belongs to no window.

    Raises
    ------
    UserValueError
        A coordinate that is not there.
    """
    chosen = list(marginals)[:MOST] if coordinates is None else list(coordinates)
    for name in chosen:
        if name not in marginals:
            few = ", ".join(list(marginals)[:MOST])
            raise UserValueError(f"unknown coordinate {name!r}", "coordinates", f"choose from {few}")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = -(-(len(chosen) + 1) // ACROSS)
    figure = Figure(figsize=(12, 2.6 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, ACROSS, squeeze=False).ravel()
    _draw_bound(axes[0], history)
    for axis, name in zip(axes[1:], chosen, strict=False):
        _draw_density(axis, name, marginals[name])
    for axis in axes[1 + len(chosen) :]:
        axis.set_axis_off()
    for axis in axes:
        axis.tick_params(labelsize=7)
    return figure


def _draw_bound(axis: Any, history: NDArray[np.float64]) -> None:
    axis.plot(np.arange(1, len(history) + 1), history, color="C0", linewidth=0.8)
    axis.set_title("bound (nats) by iteration", fontsize=9)
    shown = history[np.isfinite(history)]
    if len(shown) > 4:  # the first steps would hide all others
        low, high = float(np.quantile(shown, 0.1)), float(shown.max())
        axis.set_ylim(low - 0.1 * (high - low) - 1e-9, high + 0.1 * (high - low) + 1e-9)


def _draw_density(axis: Any, name: str, marginal: Marginal) -> None:
    low, high = np.ravel(marginal.icdf(np.array([TAIL, 1 - TAIL])))
    if high > low:  # a point has no density to draw
        x = np.linspace(low, high, 200)
        axis.fill_between(x, np.exp(np.asarray(marginal.log_prob(x))), color="C0", alpha=0.3, linewidth=0)
    axis.axvline(float(marginal.mean), color="C0", linewidth=0.8)
    axis.set_title(name, fontsize=9)
    axis.set_ylim(bottom=0)
