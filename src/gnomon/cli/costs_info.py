"""``gnomon info NETWORK --input SIZE``: parameters, multiply-adds and memory by layer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from gnomon.cli import output
from gnomon.errors import UserValueError

if TYPE_CHECKING:
    from gnomon.nn.costs import NetworkCost

__all__ = ["tell"]

MOST_LINES = 40
"""Layers that a screen shows one by one; of more those of a block stand together."""
STEP = 1024.0
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
LARGE = {"T": 10**12, "G": 10**9, "M": 10**6, "k": 10**3}


def tell(name: str, size: str, classes: int | None, as_json: bool) -> None:
    """Write the costs of a network, named with or without settings, or of that of a run.

    Raises
    ------
    UserValueError, UserTypeError
        No size, no network.
    """
    from gnomon.tasks.layer_costs import layer_costs

    shape = sizes(size)
    system = _system(name)
    found = layer_costs(system, shape, n_classes=classes)
    if as_json:
        output.dump(facts_of(system.name, found))
    else:
        output.write(text_of(system.name, size, found))


def _system(name: str) -> Any:
    if os.path.isdir(name):
        from gnomon.system.saving import load

        return load(name)
    from gnomon.catalog import make
    from gnomon.cli.options import parse_system

    system, given = parse_system(name)
    return make(system, **given)


def sizes(text: str) -> tuple[int, ...]:
    """The size that a text names.

    Examples
    --------
    >>> sizes("3x224x224"), sizes("64")
    ((3, 224, 224), (64,))
    """
    parts = text.strip().lower().split("x")
    if not all(part.isdecimal() and int(part) for part in parts) or len(parts) > 3:
        raise UserValueError(f"must be a size such as 3x224x224, 28x28 or 64, got {text!r}", "--input")
    return tuple(map(int, parts))


def facts_of(name: str, found: NetworkCost) -> dict[str, Any]:
    """The costs as a JSON object, all layers one by one."""
    totals = ("parameters", "multiply_adds", "activations", "parameter_bytes", "activation_bytes")
    layers = [vars(one) | {"activation_bytes": one.activations * found.itemsize} for one in found.layers]
    whole = {part: getattr(found, part) for part in totals}
    return {"system": name, "input_shape": found.input_shape, **whole, "layers": layers}


def text_of(name: str, size: str, found: NetworkCost) -> str:
    """The costs for reading."""
    rows = [
        [one.name, one.kind, "x".join(map(str, one.shape)), f"{one.parameters:,}", count(one.multiply_adds),
         memory(one.activations * found.itemsize)]
        for one in found.grouped(MOST_LINES)
    ]  # fmt: skip
    header = ["layer", "kind", "output", "parameters", "multiply-adds", "memory"]
    table = output.table(header, rows, right=[3, 4, 5])
    lines = [
        f"{name} for one input of {size}", "", table, "",
        f"parameters     {found.parameters:,} ({memory(found.parameter_bytes)})",
        f"multiply-adds  {count(found.multiply_adds)} ({found.multiply_adds:,}); training takes three times these",
        f"memory         {memory(found.activation_bytes)} of outputs, about what training keeps of each example",
    ]  # fmt: skip
    if len(rows) < len(found.layers):
        lines.append(f"{len(found.layers)} layers; --json has them one by one")
    return "\n".join(lines)


def count(value: int) -> str:
    """A large number in three or four digits.

    Examples
    --------
    >>> count(1814073344), count(416520), count(0)
    ('1.814 G', '416.5 k', '')
    """
    for letter, size in LARGE.items():
        if value >= size:
            return f"{value / size:.4g} {letter}"
    return str(value) if value else ""


def memory(n_bytes: float) -> str:
    """Bytes in their largest whole unit.

    Examples
    --------
    >>> memory(512), memory(46758048), memory(0)
    ('512 B', '44.6 MiB', '')
    """
    if not n_bytes:
        return ""
    for unit in UNITS:
        if n_bytes < STEP or unit == UNITS[-1]:
            break
        n_bytes /= STEP
    return f"{n_bytes:.3g} {unit}"
