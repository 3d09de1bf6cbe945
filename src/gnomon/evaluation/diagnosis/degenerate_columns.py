"""Checks of a density of real columns: constant and repeated values, on which it grows for no good reason."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import counted
from gnomon.evaluation.degenerate import DegenerateColumn, check_degenerate, contributions, floor_note, floor_of
from gnomon.evaluation.diagnosis.records import Finding

__all__ = ["CHECKS", "RealDensity", "degenerate"]

Floats = NDArray[np.float64]
NARROWER = 0.25
"""Share of the distance of two values below which a peak on one of them says nothing of the others."""


@dataclass(frozen=True)
class RealDensity:
    """A density of real rows, and rows.

    Parameters
    ----------
    log_density : callable
        Rows (m, d) to m numbers, up to a constant.
    rows : array of shape (n, d)
    """

    log_density: Callable[[Floats], Floats]
    rows: Floats


def degenerate(found: RealDensity) -> list[Finding] | str:
    """Whether columns are constant, or the density has peaks on values that come back."""
    if not np.isfinite(found.rows).all():
        return "cells are missing"
    columns = check_degenerate(found.rows)
    held = [one for one in columns if one.kind != "few values"]
    findings = _of_peaks(found, held) + _of_gaps(found, [one for one in columns if one.kind == "few values"])
    if findings:
        return findings
    n = found.rows.shape[1]
    return [Finding("ok", "no column makes the density grow without limit", f"{counted(n, 'column')} looked at")]


def _of_peaks(found: RealDensity, columns: list[DegenerateColumn]) -> list[Finding]:
    if not columns:
        return []
    what = f"the density of {counted(len(columns), 'column')} has no limit but the model's own"
    remedy = "leave constant columns out; of others model the repeated value by itself; compare no likelihood with them"
    return [Finding("warning", what, floor_note(found.log_density, found.rows, columns), remedy)]


def _of_gaps(found: RealDensity, columns: list[DegenerateColumn]) -> list[Finding]:
    """Peaks narrower than the distance of two values: more than any probability of the values can give."""
    added = contributions(found.log_density, found.rows, columns)
    narrow = [
        f"{one} adds {value:.2f} nats at it: a deviation of {floor_of(value):.2g}, values at least {one.gap:.2g} apart"
        for one, value in zip(columns, added, strict=False)
        if math.isfinite(value) and floor_of(value) < NARROWER * one.gap
    ]
    if not narrow:
        return []
    remedy = "use a system of counts or categories, or add uniform noise as wide as the distance of two values"
    return [Finding("warning", "the density has narrow peaks on values that come back", "; ".join(narrow), remedy)]


CHECKS: dict[str, Callable[[RealDensity], list[Finding] | str]] = {"degenerate": degenerate}
