"""Fits whose steps are too little work for several threads."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from gnomon.contracts import Group
from gnomon.data.examples import Ragged
from gnomon.training.context import current

__all__ = ["threads_for"]

LITTLE = 1 << 26
"""Multiplications of a step forward, about ten milliseconds of one processor, up to which it keeps to one thread.

Below, threads that wait for each other at every layer cost more than they gain, and many times as much where another
program has the second processor.
"""


def threads_for(model: Any, batches: Any, group: Group) -> int | None:
    """Threads of a fit by gradient: those of the context, else one where a step is little work; None leaves them.

    The answer follows from sizes alone, so that a fit that is resumed has the same, and ends in the same bits.
    """
    given = current().threads
    examples = getattr(batches, "examples", None)
    torch = sys.modules.get("torch")
    if given is not None or group.size > 1 or examples is None or torch is None:
        return given
    if not isinstance(model, torch.nn.Module):
        return None
    shapes = [tuple(value.shape) for value in model.parameters()]
    return 1 if batches.batch_size * _per_row(shapes, examples) <= LITTLE else None


def _per_row(shapes: list[tuple[int, ...]], examples: Any) -> float:
    """Multiplications of a row: every weight once; once a position where it is a filter, or rows are sequences."""
    field = examples["X"] if "X" in examples.fields else next(iter(examples.fields.values()))
    if isinstance(field, Ragged):
        positions = length = len(field.values) / max(1, len(field))
    else:
        row = np.shape(field.values)[1:]
        positions, length = float(np.prod(row)), float(row[0]) if len(row) > 1 else 1.0
    filters = [shape for shape in shapes if len(shape) > 2]
    others = sum(float(np.prod(shape)) for shape in shapes if len(shape) <= 2)
    return sum(float(np.prod(shape)) for shape in filters) * positions + others * (1.0 if filters else length)
