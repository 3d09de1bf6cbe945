"""Checks of what a watched fit did inside: dead and saturated units, gradients by depth, sizes of updates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gnomon.errors import counted
from gnomon.evaluation.diagnosis.records import Finding

__all__ = ["CHECKS", "LARGE", "SMALL", "dead", "depth", "flag", "gradient_norms", "saturated", "updates"]

SMALL, LARGE = 1e-4, 0.1
"""Between these an update beside its parameters is as it should be, about 1 %."""
RIGHT = 0.01
MANY_DEAD = 0.5
"""Share of a layer's units; networks that learn well lose fewer."""
MOSTLY_SATURATED = 0.5
"""Share of what a layer gives."""
FADED = 1e-3
"""Gradient of one end of the network beside that of the other."""
NAMED = 3
"""Layers or parameters that a finding names."""

Lines = Sequence[Mapping[str, Any]]


def flag(ratio: float | None, low: float = SMALL, high: float = LARGE) -> str:
    """What to say of a ratio of `gnomon.training.monitor.update_ratio`: "", "small" or "large".

    Examples
    --------
    >>> flag(0.01), flag(0.5), flag(1e-5), flag(None)
    ('', 'large', 'small', '')
    """
    if ratio is None or low <= ratio <= high:
        return ""
    return "small" if ratio < low else "large"


def gradient_norms(line: Mapping[str, Any]) -> dict[str, float]:
    """Norm of the derivatives that came back to each layer in an update, in the order in which the layers act.

    Root mean square over the updates of the epoch. Layers that no gradient reached are left out.

    Examples
    --------
    >>> one = {"gradient": {"mean": 3.0, "std": 4.0, "histogram": [1, 3]}}
    >>> gradient_norms({"updates": 4, "layers": {"0": one, "1": {}}})
    {'0': 5.0}
    """
    found = {}
    for name, layer in line["layers"].items():
        one = layer.get("gradient")
        if one is not None and line["updates"]:
            found[name] = math.hypot(one["mean"], one["std"]) * math.sqrt(sum(one["histogram"]) / line["updates"])
    return found


def dead(lines: Lines) -> list[Finding] | str:
    """Whether rectifiers were off for every row of the last epoch: such a unit has no gradient and learns nothing."""
    layers = {name: one for name, one in lines[-1]["layers"].items() if one.get("units")}
    if not layers:
        return "no layer of rectifiers"
    units = sum(one["units"] for one in layers.values())
    off = _range([one["off"] for one in layers.values()])
    lost = {name: one for name, one in layers.items() if one["dead"]}
    if not lost:
        evidence = f"{counted(units, 'unit')}, off {off} of the time"
        return [Finding("ok", "every rectifier was on for some row", evidence)]
    evidence = _named(f"{one['dead']} of {one['units']} in {name}" for name, one in lost.items())
    many = any(one["dead"] > MANY_DEAD * one["units"] for one in lost.values())
    remedy = "a lower learning rate, biases that start at 0, or activation leaky-relu; rare rows may need a unit later"
    what = "units were off for every row of the last epoch"
    return [Finding("warning" if many else "notice", what, f"{evidence}; off {off} of the time", remedy)]


def saturated(lines: Lines) -> list[Finding] | str:
    """Whether sigmoid or tanh units sat at an end of their range, where their derivative is near 0.

    The last layer is left out: an output at its end is sure of its answer.
    """
    names = list(lines[-1]["layers"])
    layers = {name: one for name, one in lines[-1]["layers"].items() if "saturated" in one and name != names[-1]}
    if not layers:
        return "no hidden layer of sigmoid or tanh units"
    stuck = {name: one for name, one in layers.items() if one["saturated"] > MOSTLY_SATURATED}
    if not stuck:
        share = _range([one["saturated"] for one in layers.values()])
        return [Finding("ok", "units were not saturated", f"{share} of what layers gave was at an end")]
    evidence = _named(
        f"{one['saturated']:.0%} of {name}, whose inputs have a mean size of {one['input_size']:.3g}"
        for name, one in stuck.items()
    )
    remedy = "data on one scale, smaller initial weights, a lower learning rate, or activation relu"
    return [Finding("warning", "units were saturated", evidence, remedy)]


def depth(lines: Lines) -> list[Finding] | str:
    """Whether the gradient vanished or exploded on its way from the last layer back to the first."""
    norms = gradient_norms(lines[-1])
    if len(norms) < 2:
        return "gradients came back to fewer than two layers"
    (first, begin), *_, (last, end) = norms.items()
    if not begin and not end:
        return "no gradient came back to any layer"
    evidence = f"its norm is {begin:.3g} at {first} and {end:.3g} at {last}, {len(norms) - 1} layers later"
    if begin < FADED * end:
        remedy = "activation relu, initial weights by he-normal, batch normalization, or fewer layers"
        return [Finding("warning", "the gradient vanished with depth", evidence, remedy)]
    if end < FADED * begin:
        remedy = "clipped gradients (clip=1), smaller initial weights, or a lower learning rate"
        return [Finding("warning", "the gradient exploded with depth", evidence, remedy)]
    return [Finding("ok", "the gradient reached every depth", evidence)]


def updates(lines: Lines) -> list[Finding] | str:
    """Whether updates were too large or too small beside the parameters that they moved.

    Large: in the mean of some epoch; weights that blow up hide it later. Small: in every epoch, since a schedule may
    end at 0. Parameters that were 0 at some update, as biases are at first, have no size to compare with.
    """
    ratios: dict[str, list[float]] = {}
    from_zero = {name for line in lines for name, one in line["parameters"].items() if one["from_zero"]}
    for line in lines:
        for name, one in line["parameters"].items():
            if one["ratio"] is not None and name not in from_zero:
                ratios.setdefault(name, []).append(one["ratio"])
    if not ratios:
        return "every parameter was 0 at some update"
    most = {name: max(found) for name, found in ratios.items()}
    findings = []
    large = {name: one for name, one in most.items() if flag(one) == "large"}
    if large:
        evidence = _named(f"{one:.2g} of the size of {name}" for name, one in large.items())
        remedy = f"a learning rate about {max(large.values()) / RIGHT:.0f} times lower"
        findings.append(Finding("warning", "updates were large beside their parameters", evidence, remedy))
    small = {name: one for name, one in most.items() if flag(one) == "small"}
    if small:
        evidence = _named(f"{one:.2g} of the size of {name}" for name, one in small.items())
        moved = max(small.values())
        remedy = f"a learning rate about {RIGHT / moved:.0g} times higher" if moved else "a gradient that reaches them"
        findings.append(Finding("warning", "updates were small beside their parameters", evidence, remedy))
    middle = f"{min(most.values()):.2g} to {max(most.values()):.2g}, about {RIGHT:g} is right"
    return findings or [Finding("ok", "updates had the right size beside their parameters", middle)]


CHECKS: dict[str, Callable[[Lines], list[Finding] | str]] = {
    "dead": dead, "saturated": saturated, "depth": depth, "updates": updates,
}  # fmt: skip


def _range(shares: Sequence[float]) -> str:
    low, high = f"{min(shares):.0%}", f"{max(shares):.0%}"
    return low if low == high else f"{low} to {high}"


def _named(parts: Any) -> str:
    """The first few, and how many more there are."""
    found = list(parts)
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return ", ".join(found[:NAMED]) + more
