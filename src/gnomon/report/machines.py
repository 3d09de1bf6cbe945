"""Sections about models that are drawn from by chains: chains over time, modes that are covered, energy landscapes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gnomon.errors import UserError, counted, number
from gnomon.evaluation.grids import chain_grid, enlargement
from gnomon.evaluation.modes import ModeCoverage, mode_coverage
from gnomon.report.figures import picture, pictures
from gnomon.report.page import Section, paragraph, table
from gnomon.report.subject import Subject
from gnomon.runs.folder import RunFolder
from gnomon.tasks.pictures import canvas

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["chains_of_fit", "chains_of_model", "depths_of", "landscape_of", "modes_of"]

MOMENTS = (0, 1, 3, 10, 30, 100, 300)
"""Sweeps after which chains are looked at."""
CHAINS = 8
MODES, DRAWN = 10, 500
"""Clusters of the training rows that count as modes, and rows that are drawn to cover them."""
CLUSTERED, ROUNDS = 3000, 30
"""Training rows that are clustered at most, and rounds of the clustering."""
GRID = 80
"""Points of each side of a landscape."""
HIGHEST = 10.0
"""Nats above the lowest energy from which on a landscape is one color."""


def chains_of_fit(subject: Subject) -> Section | None:
    """What ``gnomon fit --monitor`` saw of the chains that the negative phase came from."""
    lines = [one for one in RunFolder.open(subject.path).read_monitor() if one.get("chains")]
    if not lines:
        return None
    epochs = [one["epoch"] for one in lines]
    chains = [one["chains"] for one in lines]
    drawn = [_lines(epochs, {"ratio": [_finite(one["mixing_ratio"]) for one in chains]}, "mixing ratio", level=1.0)]
    titles = [("Mixing ratio", "About 1 where the chains go apart; far above it they move together.")]
    drawn.append(_lines(epochs, {"moved": [one["moved"] for one in chains]}, "share of units"))
    titles.append(("Units that change in an update", "Near 0 the chains are frozen."))
    if all("energy" in one for one in chains):
        drawn.append(_bands(epochs, {name: [one["energy"][name] for one in chains] for name in ("data", "chains")}))
        titles.append(("Energies", "Mean and standard deviation, nats: chains that part from the data have run away."))
    if all("log_z" in one for one in lines):
        bands = {"log Z": [{"mean": one["log_z"]["value"], "std": 2 * one["log_z"]["error"]} for one in lines]}
        drawn.append(_bands(epochs, bands, "log Z (nats)"))
        titles.append(("Log Z", "Followed from update to update, with two standard errors."))
    if all("log_z" in one for one in lines) and all("energy" in one for one in chains):
        values = [-one["chains"]["energy"]["data"]["mean"] - one["log_z"]["value"] for one in lines]
        drawn.append(_bands(epochs, {"log p": [{"mean": one, "std": 0.0} for one in values]}, "nats per row"))
        titles.append(("Log-likelihood of the last batch", "Minus the mean energy of its rows, minus log Z."))
    body = pictures([picture(one, *title) for one, title in zip(drawn, titles, strict=True)])
    last = chains[-1]
    reading = (
        f"{counted(last['chains'], 'chain')} of {counted(last['units'], 'unit')}; {last['frozen']} stood still over "
        f"the last {counted(last['updates'], 'update')}."
    )
    return Section("Chains of the fit", reading, body)


def chains_of_model(subject: Subject) -> Section | None:
    """Gibbs chains of the fitted model, from held-out rows and from new states, after some sweeps."""
    system: Any = subject.system
    if subject.held is None or not hasattr(system, "gibbs") or not hasattr(system, "sample"):
        return None
    rows = np.asarray(subject.examples[0])[:CHAINS]
    if rows.ndim != 2:
        return None
    try:
        new = np.asarray(system.sample(len(rows), steps=0, random_state=0))
        kept = _walked(system, np.concatenate([rows, new.astype(rows.dtype)]))
    except UserError:
        return None
    shape = subject.held.images
    times = ", ".join(map(str, MOMENTS[:-1])) + f" and {MOMENTS[-1]}"
    found = []
    if shape is not None:
        for begun, part in (("held-out rows", kept[: len(rows)]), ("new states", kept[len(rows) :])):
            figure = _image(chain_grid(part, shape, factor=enlargement(shape)))
            found.append(picture(figure, f"Chains from {begun}", f"A column each; lines after {times} sweeps."))
    if hasattr(system, "energy"):
        energies = [np.asarray(system.energy(kept[:, t]), np.float64) for t in range(len(MOMENTS))]
        reading = "Nats; the chains have forgotten where they began when the two groups have the same energies."
        found.append(picture(_energies(energies, len(rows)), "Energies along the chains", reading))
    if not found:
        return None
    lead = "From rows of the data, and from independent columns with the data's means."
    return Section("Chains over time", lead, pictures(found))


def depths_of(subject: Subject) -> Section | None:
    """How chains at each depth of a stack pass from class to class, or from cluster to cluster."""
    system: Any = subject.system
    if subject.held is None or not hasattr(system, "mixing_by_depth") or len(system.hidden) < 2:
        return None
    classes = subject.held.y
    named = classes is not None and classes.dtype.kind != "f"
    found = system.mixing_by_depth(subject.examples[0], classes if named else None)
    rows = [(one.depth, *(number(x) for x in (one.switch_rate, one.dwell, one.spread, one.gap))) for one in found]
    header = ["depth", "switches per step", "steps per switch", "entropy of a unit, bits", "gap between modes"]
    return Section(
        "Mixing by depth",
        "Chains that walk at a depth and are decoded after each sweep; modes are classes, or clusters of the rows. "
        "What is decoded follows what the way down makes of that depth, not the machine of the rows.",
        table(header, rows, right=range(5), caption="mixing by depth"),
    )


def modes_of(subject: Subject) -> Section | None:
    """How often each cluster of the training rows is drawn, beside how often it occurs."""
    system: Any = subject.system
    if subject.seen is None or "density" not in system.tasks or not hasattr(system, "sample"):
        return None
    rows = np.asarray(subject.seen[0], np.float64)
    if rows.ndim != 2 or len(rows) < 5 * MODES or not np.isfinite(rows).all():
        return None
    drawn: Any = system.sample(DRAWN, random_state=0)
    samples = np.asarray(drawn[0] if isinstance(drawn, tuple) else drawn, np.float64)
    if samples.shape != (DRAWN, rows.shape[1]) or not np.isfinite(samples).all():
        return None
    found = _coverage(rows[:: -(-len(rows) // CLUSTERED)], samples)
    return Section(
        "Modes that are covered",
        f"{counted(DRAWN, 'row')} drawn from the model, by the nearest of {counted(len(found.modes), 'cluster')} of "
        "the training rows.",
        paragraph(str(found)) + pictures([picture(_shares(found), "Share of each mode", "One without a bar is lost.")]),
    )  # fmt: skip


def _coverage(rows: np.ndarray[Any, Any], samples: np.ndarray[Any, Any]) -> ModeCoverage:
    """Of samples, over clusters of rows in columns of spread 1."""
    from scipy.cluster.vq import kmeans2, vq

    spread = rows.std(axis=0)
    unit = np.where(spread > 0, spread, 1.0)
    clusters = min(MODES, len(np.unique(rows, axis=0)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a cluster that no row is left in is no mode
        centers, labels = kmeans2(rows / unit, clusters, iter=ROUNDS, minit="++", seed=0)
    centers = centers[np.unique(labels)]
    nearest, mode_of = (vq(x / unit, centers)[0] for x in (rows, samples))
    return mode_coverage(samples, lambda _: mode_of, nearest)


def landscape_of(subject: Subject) -> Section | None:
    """The energy over the plane of a model of two real columns, with the rows on it."""
    system: Any = subject.system
    if (
        not (hasattr(system, "energy") or hasattr(system, "log_prob"))
        or "density" not in system.tasks
        or subject.seen is None
    ):
        return None
    rows = np.asarray(subject.seen[0])
    real = rows.ndim == 2 and rows.shape[1] == 2 and rows.dtype.kind == "f"
    if not real or not str(system.outcomes.space(2)).startswith("density on R"):
        return None
    low, high = np.nanmin(rows, axis=0), np.nanmax(rows, axis=0)
    room = 0.15 * np.where(high > low, high - low, 1.0)
    sides = [np.linspace(low[j] - room[j], high[j] + room[j], GRID) for j in range(2)]
    points = np.stack([one.ravel() for one in np.meshgrid(*sides)], axis=1).astype(rows.dtype)
    values = np.asarray(system.energy(points) if hasattr(system, "energy") else -system.log_prob(points), np.float64)
    names = list(subject.train.columns) if subject.train is not None else ["column 1", "column 2"]
    title = "Energy" if hasattr(system, "energy") else "-log density"
    figure = _plane(sides, values.reshape(GRID, GRID), rows[:: -(-len(rows) // 1000)], names)
    reading = (
        f"Nats above the lowest; from {number(HIGHEST)} on one color. Dark valleys without rows are spurious modes."
    )
    return Section(
        "Energy landscape", "Over the plane of the two columns.", pictures([picture(figure, title, reading)])
    )


# --- pictures ---------------------------------------------------------------------------------------------------------


def _walked(system: Any, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Chains at each of the moments, (chains, moments, columns)."""
    kept, done = [rows], 0
    for moment in MOMENTS[1:]:
        kept.append(np.asarray(system.gibbs(kept[-1], moment - done, random_state=moment), rows.dtype))
        done = moment
    return np.stack(kept, axis=1)


def _finite(ratio: float | None) -> float:
    return float("nan") if ratio is None else float(ratio)


def _lines(x: Sequence[int], values: dict[str, Sequence[float]], label: str, level: float | None = None) -> Figure:
    figure, axes = canvas(6.0, 3.0)
    for name, one in values.items():
        axes.plot(x, one, marker="." if len(x) < 30 else None, label=name)
    if level is not None:
        axes.axhline(level, color="gray", linestyle="--", linewidth=1)
    axes.set(xlabel="epoch", ylabel=label)
    axes.set_ylim(0, max(1.1 * axes.get_ylim()[1], 1e-3))
    return figure


def _bands(
    x: Sequence[int], groups: Mapping[str, Sequence[Mapping[str, float]]], label: str = "energy (nats)"
) -> Figure:
    figure, axes = canvas(6.0, 3.0)
    for name, moments in groups.items():
        mean, std = (np.array([one[key] for one in moments]) for key in ("mean", "std"))
        (line,) = axes.plot(x, mean, label=name)
        axes.fill_between(x, mean - std, mean + std, color=line.get_color(), alpha=0.2, linewidth=0)
    axes.set(xlabel="epoch", ylabel=label)
    axes.legend()
    return figure


def _energies(energies: Sequence[np.ndarray[Any, Any]], n: int) -> Figure:
    figure, axes = canvas(6.0, 3.0)
    places = range(len(MOMENTS))
    for name, part in (("from rows", slice(0, n)), ("from new states", slice(n, None))):
        values = np.array([one[part] for one in energies])
        (line,) = axes.plot(places, values.mean(axis=1), marker=".", label=name)
        axes.plot(places, values, color=line.get_color(), alpha=0.25, linewidth=0.8)
    axes.set_xticks(places, [str(one) for one in MOMENTS])
    axes.set(xlabel="sweeps", ylabel="energy (nats)")
    axes.legend()
    return figure


def _image(pixels: np.ndarray[Any, Any]) -> Figure:
    figure, axes = canvas(5.0, 5.0 * pixels.shape[0] / pixels.shape[1])
    axes.imshow(pixels, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.axis("off")
    return figure


def _shares(found: ModeCoverage) -> Figure:
    figure, axes = canvas(6.0, 3.0)
    places = np.arange(len(found.modes))
    axes.bar(places - 0.2, found.expected, 0.4, label="training rows")
    axes.bar(places + 0.2, found.counts / found.counts.sum(), 0.4, label="drawn")
    axes.set(xlabel="mode", ylabel="share", xticks=places)
    axes.legend()
    return figure


def _plane(sides: Sequence[Any], values: Any, rows: Any, names: Sequence[str]) -> Figure:
    figure, axes = canvas(5.0, 4.0)
    above = np.minimum(values - np.nanmin(values), HIGHEST)
    drawn = axes.contourf(*sides, above, levels=np.linspace(0, HIGHEST, 21), cmap="viridis")
    axes.plot(*rows.T, ".", color="white", markersize=2, alpha=0.6)
    axes.set(xlabel=names[0], ylabel=names[1])
    figure.colorbar(drawn, ax=axes)
    return figure
