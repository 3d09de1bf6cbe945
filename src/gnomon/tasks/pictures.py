"""The few pictures that tasks show; matplotlib is loaded when one is drawn, and no window is opened."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gnomon.evaluation.grids import sample_grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "MOST_CLASSES", "MOST_POINTS", "SHOWN", "apart", "bars", "beside", "calibration", "canvas", "curves", "framed",
    "histogram", "importances", "learning", "matrix", "palette_png", "plain", "png", "predicted", "residuals", "rows",
    "some", "validation", "whole_numbers",
]  # fmt: skip

SHOWN = 64
"""Rows that are drawn."""
MOST_CLASSES = 60
MOST_POINTS = 2000
"""Points of a scatter plot: more hide each other."""
LONGEST_NAME = 24
LETTER, GAP = 0.021, 0.02
"""Width of a letter of a mark, and of the room between two, as shares of an axis five inches wide."""
DARK = "#11161a"
"""Of numbers on light cells; plain black would take the color of the page's text."""
MOST_SPREADS = 3.0
"""Standard deviations beyond which a value has the color of the end."""


def canvas(width: float = 5.0, height: float = 4.0) -> tuple[Figure, Axes]:
    """An empty figure of this size in inches, and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def histogram(values: Any, label: str) -> Figure:
    """How often values occur; those that are not finite are left out."""
    figure, axes = canvas()
    values = np.asarray(values, np.float64)
    axes.hist(values[np.isfinite(values)], bins=min(50, max(5, round(math.sqrt(len(values))))))
    axes.set(xlabel=label, ylabel="count")
    return figure


def bars(names: Sequence[str], values: Any, x: str, y: str) -> Figure:
    """A bar for each name."""
    figure, axes = canvas()
    axes.bar([plain(name) for name in names], np.asarray(values))
    axes.set(xlabel=x, ylabel=y)
    return figure


def matrix(counts: np.ndarray[Any, Any], names: Sequence[str]) -> Figure:
    """A confusion matrix: true classes as rows, each row's shares as shades, counts as numbers."""
    size = max(4.0, 0.45 * len(names) + 2)
    figure, axes = canvas(size, size)
    fractions = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    axes.imshow(fractions, cmap="Blues", vmin=0, vmax=1)
    for i, j in zip(*np.nonzero(counts), strict=True):
        axes.text(j, i, f"{counts[i, j]:g}", ha="center", va="center", color="white" if fractions[i, j] > 0.5 else DARK)
    axes.set(xticks=range(len(names)), yticks=range(len(names)), xlabel="predicted", ylabel="true")
    axes.set_xticklabels([plain(name) for name in names], rotation=90)
    axes.set_yticklabels([plain(name) for name in names])
    return figure


def predicted(y: np.ndarray[Any, Any], found: np.ndarray[Any, Any]) -> Figure:
    """Predicted against true numbers, with the line on which they are equal."""
    figure, axes = canvas()
    chosen = some(y.size)
    axes.scatter(y.ravel()[chosen], found.ravel()[chosen], s=8, alpha=0.6)
    ends = [min(y.min(), found.min()), max(y.max(), found.max())]
    axes.plot(ends, ends, color="gray", linewidth=1)
    axes.set(xlabel="true", ylabel="predicted")
    return figure


def residuals(y: np.ndarray[Any, Any], found: np.ndarray[Any, Any]) -> Figure:
    """True less predicted numbers against predicted ones, with the line of no error."""
    figure, axes = canvas()
    chosen = some(found.size)
    axes.scatter(found.ravel()[chosen], (y - found).ravel()[chosen], s=8, alpha=0.6)
    axes.axhline(0, color="gray", linewidth=1)
    axes.set(xlabel="predicted", ylabel="true less predicted")
    return figure


def calibration(stated: Any, observed: Any, weight: Any, sure: Any = None) -> Figure:
    """Shares that came true against stated probabilities, with bars of one standard error.

    Parameters
    ----------
    stated, observed, weight : arrays of shape (bins,)
        Of each bin the mean probability, the share that came true and the number of rows; NaN where it is empty.
    """
    figure, axes = canvas()
    full = np.asarray(weight) > 0
    stated, observed, weight = (np.asarray(one)[full] for one in (stated, observed, weight))
    error = np.sqrt(np.clip(observed * (1 - observed), 0, None) / weight)
    axes.plot([0, 1], [0, 1], color="gray", linewidth=1)
    axes.errorbar(stated, observed, error, marker="o", capsize=3)
    axes.set(xlabel="stated probability", ylabel="share that came true", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    return figure


def curves(found: dict[str, tuple[Any, Any]], x: str, y: str, *, chance: bool = False) -> Figure:
    """Curves in the unit square by name; with `chance` the diagonal too."""
    figure, axes = canvas()
    if chance:
        axes.plot([0, 1], [0, 1], color="gray", linewidth=1)
    for name, (across, up) in found.items():
        axes.plot(across, up, label=plain(name))
    axes.set(xlabel=x, ylabel=y, xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    if len(found) > 1:
        axes.legend()
    return figure


def importances(names: Sequence[str], values: Sequence[float], errors: Sequence[float]) -> Figure:
    """A bar for each column, the first at the top, with its error."""
    figure, axes = canvas(5.5, max(1.5, 0.28 * len(names) + 0.9))
    places = np.arange(len(names))[::-1]
    axes.barh(places, np.asarray(values), xerr=np.asarray(errors) if any(errors) else None, ecolor="gray")
    axes.set_yticks(places, [plain(name) for name in names])
    return figure


def learning(x: Any, lines: dict[str, Any], label: str, chosen: float | None = None) -> Figure:
    """What a fit recorded, a panel for each number, with a dashed line at what was chosen."""
    from matplotlib.figure import Figure as New

    figure = New(figsize=(6.0, 1.0 + 1.9 * len(lines)), layout="constrained")
    for axes, (name, values) in zip(
        np.atleast_1d(figure.subplots(len(lines), sharex=True)), lines.items(), strict=True
    ):
        axes.plot(np.asarray(x)[-len(values) :], np.asarray(values))
        axes.set_ylabel(name.replace("_", " "))
        if chosen is not None:
            axes.axvline(chosen, color="gray", linestyle="--", linewidth=1)
    axes.set_xlabel(label)
    whole_numbers(axes.xaxis)
    return figure


def validation(
    values: Sequence[Any], series: dict[str, list[tuple[float, float] | None]], label: str, metric: str
) -> Figure:
    """Scores with their errors against values: on logarithmic axes where values span a factor of 20, scores of 1000.

    A score that is None or not finite is a cross at the edge: its fit failed.
    """
    figure, axes = canvas()
    numeric = all(isinstance(one, int | float) and not isinstance(one, bool) for one in values)
    x = list(values) if numeric else list(range(len(values)))
    failed, means = set(range(len(x))), []
    for name, points in series.items():
        done = {j: one for j, one in enumerate(points) if one is not None and math.isfinite(one[0])}
        heights = [one[0] for one in done.values()]
        axes.errorbar(
            [x[j] for j in done], heights, [one[1] for one in done.values()], marker="o", capsize=3, label=name
        )
        means += heights
        failed -= set(done)
    if failed:
        edge = axes.get_xaxis_transform()
        axes.plot(
            [x[j] for j in sorted(failed)], [1.0] * len(failed), "rx", transform=edge, clip_on=False, label="failed"
        )
    if means and min(means) > 0 and max(means) >= 1000 * min(means):
        axes.set_yscale("log")
    logarithmic = numeric and min(x) > 0 and max(x) >= 20 * min(x)
    if logarithmic:
        axes.set_xscale("log")
        axes.xaxis.minorticks_off()
    places = np.log(np.array(x, np.float64)) if logarithmic else np.array(x, np.float64)
    axes.set_xticks(x, apart(places, [_short(one) if numeric else plain(one) for one in values]))
    axes.set(xlabel=label, ylabel=metric.replace("_", " "))
    axes.legend()
    return figure


def apart(places: Any, names: Sequence[str]) -> list[str]:
    """Names of marks along an axis of a usual figure, those empty that would touch the one before; the last stands.

    Examples
    --------
    >>> apart(np.array([0.0, 0.1, 5.0, 9.9, 10.0]), ["0", "0.1", "5", "9.9", "10"])
    ['0', '', '5', '', '10']
    """
    span = float(np.ptp(places)) or 1.0
    at = (np.asarray(places) - np.min(places)) / span
    half = [0.5 * (LETTER * len(name) + GAP) for name in names]
    shown: list[int] = []
    for j in np.argsort(at, kind="stable").tolist():
        if shown and at[j] - at[shown[-1]] < half[j] + half[shown[-1]]:
            if at[j] < 1.0:
                continue
            while len(shown) > 1 and at[j] - at[shown[-1]] < half[j] + half[shown[-1]]:
                shown.pop()
        shown.append(j)
    return [name if j in shown else "" for j, name in enumerate(names)]


def _short(value: float) -> str:
    """A number as a mark has it."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


def framed(pixels: Any, title: str = "") -> Figure:
    """A picture that is there already, as a figure without axes that leaves no room over."""
    figure, axes = canvas(6.0, 6.0 * pixels.shape[0] / pixels.shape[1] + (0.3 if title else 0.0))
    axes.set_title(title)
    axes.imshow(pixels, cmap="gray")
    axes.axis("off")
    return figure


def png(pixels: Any, **options: Any) -> bytes:
    """The bytes of a picture, pixel by pixel.

    Parameters
    ----------
    pixels : array of shape (rows, columns) or (rows, columns, 3)
        Numbers in [0, 1], or of three colors whole ones up to 255 of type uint8.
    options
        Of Pillow's writer.
    """
    from matplotlib.image import imsave

    buffer = io.BytesIO()
    imsave(buffer, pixels, format="png", cmap="gray", vmin=0.0, vmax=1.0, pil_kwargs=options)  # colors stay as they are
    return buffer.getvalue()


def palette_png(levels: Any, colors: Any) -> bytes:
    """The bytes of a picture of whole numbers up to 255, which viewers show in colors of their own.

    Parameters
    ----------
    levels : int array of shape (rows, columns)
        In [0, 255].
    colors : array of shape (256, 3)
        In [0, 1].
    """
    from PIL import Image

    image = Image.fromarray(np.asarray(levels).astype(np.uint8)).convert("P")
    image.putpalette(np.rint(np.asarray(colors) * 255).astype(np.uint8).ravel().tolist())
    buffer = io.BytesIO()
    image.save(buffer, format="png")
    return buffer.getvalue()


def plain(text: object) -> str:
    """A text as matplotlib draws it: short, on one line, with no letter that begins mathematics."""
    whole = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in str(text))
    short = whole if len(whole) <= LONGEST_NAME else f"{whole[: LONGEST_NAME - 1]}\u2026"
    return short.replace("$", r"\$")


def some(n: int, most: int = MOST_POINTS) -> np.ndarray[Any, Any]:
    """Places of at most `most` of n points, at equal distances."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(int))


def rows(X: np.ndarray[Any, Any], shape: tuple[int, ...] | None, title: str, across: int | None = None) -> Figure:
    """Images in a grid, `across` in each line; rows that are no images as one map of values."""
    shape = tuple(X.shape[1:]) if X.ndim > 2 else shape
    if shape is None or not len(X):
        figure, axes = canvas(6.0, 6.0)
        axes.set_title(title)
        axes.imshow(X.reshape(len(X), -1), aspect="auto", cmap="viridis")
        axes.set(xlabel="column", ylabel="row")
        whole_numbers(axes.xaxis)
        whole_numbers(axes.yaxis)
        return figure
    return framed(sample_grid(X, shape, across=across), title)


def beside(drawn: Any, X: Any, shape: tuple[int, ...] | None, title: str) -> dict[str, Figure]:
    """Rows of a model (``samples``) and rows of the data (``data``), alike: columns that are no pixels in spreads.

    Parameters
    ----------
    drawn, X : arrays of shape (n, ...)
    shape : tuple of int, optional
        Of the image that a row is.
    title : str
        Of the rows of the model.
    """
    made, known = np.asarray(drawn, np.float64), np.asarray(X, np.float64)
    if shape is None and known.ndim == 2:
        spread = np.nanstd(known, axis=0)
        center, unit = np.nanmean(known, axis=0), np.where(spread > 0, spread, 1.0)
        made, known = (np.clip((one - center) / unit, -MOST_SPREADS, MOST_SPREADS) for one in (made, known))
    return {"samples": rows(made, shape, title), "data": rows(known[:SHOWN], shape, "data")}


def whole_numbers(axis: Any) -> None:
    """Ticks at whole numbers alone."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))
