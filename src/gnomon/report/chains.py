"""The page about a run of Markov chains: what was drawn, whether the chains agree, and how long they remember."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gnomon.errors import counted, number
from gnomon.inference.mcmc.diagnostics import Summary
from gnomon.inference.mcmc.pictures import columns_of, draw_memory, draw_ranks, draw_trace, worst_of
from gnomon.inference.mcmc.records import Draws
from gnomon.report.figures import picture, pictures
from gnomon.report.page import Section, facts, table
from gnomon.tasks import pictures as drawings
from gnomon.tasks.chains import load_draws
from gnomon.tasks.diagnose import diagnose

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ChainRun"]

FEWEST = 8
"""Draws per chain below which nothing can be said of them."""
MOST_COORDINATES = 200
"""Coordinates that are listed, those that mixed worst first."""
MOST_PICTURES = 4
"""Coordinates that are drawn."""
POINTS = 400
"""Draws of a chain that a trace shows."""

DRAWN = (
    (draw_trace, "draw", "", "Trace", "Chains that lie over one another and drift nowhere have mixed."),
    (draw_ranks, "rank", "draws", "Ranks", "Level where all chains have seen the same."),
    (draw_memory, "lag", "autocorrelation", "Memory", "The sooner a chain comes down to 0, the more its draws count."),
)
"""Of each coordinate: what draws it, the names of the axes (none: the coordinate itself), title and sentence."""


@dataclass
class ChainRun:
    """A run of `gnomon.sample_chain`, and what a report asks of it.

    Parameters
    ----------
    path : Path
    draws : Draws
    """

    path: Path
    draws: Draws

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> ChainRun:
        """The chains of a run's folder.

        Raises
        ------
        UserError
            No run, a damaged one, one without draws yet.
        """
        return cls(Path(path), load_draws(path))

    @cached_property
    def summary(self) -> Summary | None:
        """Moments and diagnostics; None of fewer than 8 draws per chain."""
        return self.draws.summary() if self.draws.shape[1] >= FEWEST else None

    @property
    def title(self) -> str:
        """The kernel and the target."""
        return f"Chains of {_last(self.draws.facts.get('kernel'))} on {_last(self.draws.facts.get('target'))}"

    @property
    def lead(self) -> str:
        """How far the chains are to be trusted, in words."""
        chains, draws = self.draws.shape
        what = f"{counted(chains, 'chain')} of {counted(draws, 'draw')}"
        if self.summary is None:
            return f"{what}: too few to say anything of."
        flagged = self.summary.flagged
        if not flagged:
            return f"{what}; nothing speaks against them, which proves nothing."
        return f"{what}; something speaks against {len(flagged)} of {counted(len(self.summary.names), 'coordinate')}."

    def sections(self) -> list[Section]:
        """Those that have something to show."""
        found = [self._table(), self._pictures(), self._diagnosis(), self._facts()]
        return [one for one in found if one is not None]

    def _table(self) -> Section | None:
        if self.summary is None:
            return None
        columns, names, marks = self.summary.columns, self.summary.names, self.summary.marks
        order = np.argsort(-np.nan_to_num(columns["r_hat"], nan=-1.0, posinf=np.inf), kind="stable")
        rows = [
            (names[j], *(number(float(columns[one][j])) for one in columns), marks[j])
            for j in order[:MOST_COORDINATES].tolist()
        ]
        more = f"the {MOST_COORDINATES} worst of {len(names)} coordinates; " if len(names) > MOST_COORDINATES else ""
        header = ["coordinate", "mean", "sd", "error of the mean", "ESS, bulk", "ESS, tail", "R-hat", "against it"]
        reading = f"{more}R-hat should be below 1.01, and effective draws (ESS) at least 100 for each chain."
        body = table(header, rows, right=range(1, 7), caption="coordinates")
        return Section("Coordinates", reading[0].upper() + reading[1:], body)

    def _pictures(self) -> Section | None:
        if self.summary is None:
            return None
        columns = columns_of(self.draws.values)
        found = []
        for name in worst_of(columns)[:MOST_PICTURES]:
            for draw, across, up, title, reading in DRAWN:
                drawn = _drawn(draw, columns[name], across, up or name)
                found.append(picture(drawn, f"{title} of {name}", reading))
        return Section("Pictures", "A color for each chain; the coordinates that mixed worst.", pictures(found))

    def _diagnosis(self) -> Section | None:
        found = diagnose(self.draws)
        rows = [(one.level, one.what, one.evidence, one.remedy) for one in found.findings]
        body = table(["level", "finding", "numbers", "what to do"], rows, caption="diagnosis")
        return Section("Diagnosis", "What the checks of chains found, the gravest first.", body) if rows else None

    def _facts(self) -> Section:
        known, info = self.draws.facts, self.draws.info
        kernel = known.get("kernel")
        own = kernel if isinstance(kernel, Mapping) else {}
        found: dict[str, Any] = {"kernel": _last(kernel), "target": _last(known.get("target"))}
        found |= {name: _short(value) for name, value in own.items() if name != "type"}
        found |= {name.replace("_", " "): known[name] for name in ("seed", "burn_in", "thin") if name in known}
        if "accept_prob" in info:
            found["acceptance"] = number(float(info["accept_prob"].mean()))
        if "divergent" in info:
            found["divergent moves"] = int(info["divergent"].sum())
        found["run"] = self.path
        return Section("What was drawn", "The target itself is code and is not kept.", facts(found))


def _drawn(draw: Any, x: Any, across: str, up: str) -> Figure:
    figure, axes = drawings.canvas(6.0, 3.0)
    draw(axes, x, **({"points": POINTS} if draw is draw_trace else {}))
    axes.set(xlabel=across, ylabel=drawings.plain(up))
    return figure


def _short(value: Any) -> Any:
    """A part of a kernel in one line: its class and fields."""
    if not isinstance(value, Mapping) or "type" not in value:
        return value
    fields = ", ".join(f"{name}={_short(one)}" for name, one in value.items() if name != "type")
    return f"{_last(value)}({fields})"


def _last(named: Any) -> str:
    """The class or function of a kernel or target, without its module."""
    kind = named.get("type", "") if isinstance(named, Mapping) else ""
    return str(kind).rpartition(":")[2] or "an unknown one"
