"""The section about what a watched fit did inside: updates beside parameters, activations and gradients by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gnomon.evaluation.diagnosis.inside import LARGE, SMALL, flag, gradient_norms
from gnomon.report.figures import picture, pictures
from gnomon.report.page import Section, paragraph, table
from gnomon.report.subject import Subject
from gnomon.runs.folder import RunFolder
from gnomon.tasks.pictures import canvas, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["inside_of"]

MOST_LINES = 8
"""Of one picture."""


def inside_of(subject: Subject) -> Section | None:
    """What ``gnomon fit --monitor`` wrote; None where the fit was not watched."""
    lines = RunFolder.open(subject.path).read_monitor()
    if not lines:
        return None
    last = lines[-1]
    body = paragraph(f"Of {last['updates']} updates of epoch {last['epoch']}.")
    drawn = []
    ratios = _ratios(lines)
    if ratios:
        reading = f"Mean of an epoch; between the dashed lines, {SMALL:g} and {LARGE:g}, it is as it should be."
        drawn.append(picture(_ratios_figure(ratios), "Size of an update beside its parameters", reading))
    for title, found in (
        ("Activations", {name: one["histogram"] for name, one in last["layers"].items()}),
        ("Gradients", {n: one["gradient"]["histogram"] for n, one in last["layers"].items() if "gradient" in one}),
    ):
        if found:
            reading = "Shares of the last epoch, in half decades: of what a layer gives, or of its derivatives."
            drawn.append(picture(_histograms(found), title, reading))
    norms = gradient_norms(last)
    if len(norms) > 1:
        reading = "Norm of the derivatives that came back to each layer, the first on the left: level where all learn."
        drawn.append(picture(_depth_figure(norms), "Gradients by depth", reading))
    body += pictures(drawn) if drawn else ""
    rows = [
        (name, *(_short(one[key]) for key in ("size", "gradient_norm", "ratio")), _word(name, one["ratio"], lines))
        for name, one in last["parameters"].items()
    ]
    body += table(["parameters", "size", "gradient", "update / size", ""], rows, right=range(1, 4), caption="updates")
    header = ["layer", "kind", "mean", "std", "zero", "off", "dead units", "saturated", "gradient std"]
    body += table(
        header, [_row(name, one) for name, one in last["layers"].items()], right=range(2, 9), caption="layers"
    )
    reading = "An update should move parameters by about 1 %; dead units were off for every row of the epoch."
    return Section("Inside the fit", reading, body)


def _row(name: str, one: Mapping[str, Any]) -> tuple[str, ...]:
    dead = f"{one['dead']} of {one['units']}" if "dead" in one else ""
    numbers = (one["mean"], one["std"], one["zero"], one.get("off"))
    spread = one["gradient"]["std"] if "gradient" in one else None
    return (name, one["kind"], *map(_short, numbers), dead, _short(one.get("saturated")), _short(spread))


def _word(name: str, ratio: float | None, lines: Sequence[Mapping[str, Any]]) -> str:
    """What to say of a ratio; of parameters that began at 0, what they are."""
    return "began at 0" if any(line["parameters"].get(name, {}).get("from_zero") for line in lines) else flag(ratio)


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _ratios(lines: Sequence[Mapping[str, Any]]) -> dict[str, tuple[list[int], list[float]]]:
    """Epochs and ratios by parameter, where there is one above 0."""
    found: dict[str, tuple[list[int], list[float]]] = {}
    for line in lines:
        for name, one in line["parameters"].items():
            if one["ratio"]:
                epochs, values = found.setdefault(name, ([], []))
                epochs.append(line["epoch"])
                values.append(one["ratio"])
    return found


def _ratios_figure(found: Mapping[str, tuple[Sequence[int], Sequence[float]]]) -> Figure:
    figure, axes = canvas(6.0, 4.0)
    for name, (epochs, values) in list(found.items())[:MOST_LINES]:
        axes.plot(epochs, values, marker="." if len(values) < 30 else None, label=plain(name))
    for edge in (SMALL, LARGE):
        axes.axhline(edge, color="gray", linestyle="--", linewidth=1)
    axes.set_yscale("log")
    axes.set(xlabel="epoch", ylabel="update / size")
    axes.legend()
    return figure


def _depth_figure(norms: Mapping[str, float]) -> Figure:
    figure, axes = canvas(6.0, 4.0)
    places = range(len(norms))
    axes.plot(places, list(norms.values()), marker="o")
    if all(norms.values()):
        axes.set_yscale("log")
    axes.set_xticks(places, [plain(name) for name in norms], rotation=90, fontsize=8)
    axes.set_ylabel("norm of the gradient")
    return figure


def _histograms(found: Mapping[str, Sequence[int]]) -> Figure:
    from gnomon.training.monitor import EDGES  # with torch, which a fit that was not watched may do without

    figure, axes = canvas(6.0, 4.0)
    for name, counts in list(found.items())[:MOST_LINES]:
        total = sum(counts)
        if total:
            axes.stairs(np.array(counts) / total, np.arange(len(EDGES)), label=plain(name))
    places = [j for j in range(len(EDGES)) if round(float(np.log10(abs(EDGES[j]))), 3) in (-8.0, -4.0, 0.0, 4.0)]
    axes.set_xticks(places, [f"{EDGES[j]:.0e}" for j in places], fontsize=8)
    axes.set_ylabel("share")
    axes.legend()
    return figure
