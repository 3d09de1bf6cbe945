"""Leaderboards: the systems of one task on one data space, as objects, JSON and text."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from gnomon.errors import number
from gnomon.evaluation.score import Score

__all__ = ["Failure", "Leaderboard", "Line"]

HEADER = (
    "system", "score", "± examples", "± estimator", "± seeds", "kind", "seconds", "parameters", "against baseline",
    "against best",
)  # fmt: skip
NUMERIC = {1, 2, 3, 4, 6, 7}
MOST_OTHERS = 3
"""Further scores that the text shows; the JSON object has them all."""


@dataclass
class Line:
    """One system (or baseline) on a leaderboard.

    Parameters
    ----------
    name : str
    score : Score
        What the board is ranked by: with several seeds their mean, whose error has their spread in it.
    others : dict of str to Score
    seconds : float
        Of all fits of the line.
    parameters : int or None
        None where nobody counts them.
    against_baseline : str
    run : str, optional
        Folder of the run; the first one, where there are several.
    settings : str
        Hyper-parameters that are not the defaults.
    seeds : int
        Fits with other seeds that the score is the mean of.
    spread : float or None
        Standard deviation over the seeds; 0 where the fit draws nothing, None for one seed of a fit that does.
    against_best : str
        ``best``, or what a paired comparison with the best system says.
    """

    name: str
    score: Score
    others: dict[str, Score]
    seconds: float
    parameters: int | None
    against_baseline: str
    run: str | None = None
    settings: str = ""
    seeds: int = 1
    spread: float | None = 0.0
    against_best: str = ""

    @property
    def title(self) -> str:
        """Name and settings."""
        return f"{self.name}:{self.settings}" if self.settings else self.name

    @property
    def seeds_text(self) -> str:
        """What another seed would change, in words where there is no number."""
        return "one seed" if self.spread is None else "exact" if self.seeds == 1 else number(self.spread)

    def to_json(self) -> dict[str, Any]:
        """The line as a JSON object."""
        others = {name: score.to_json() for name, score in self.others.items()}
        spread = self.spread if self.spread is not None and math.isfinite(self.spread) else None
        return {
            "name": self.name, "settings": self.settings, "score": self.score.to_json(), "others": others,
            "seeds": self.seeds, "spread": spread, "seconds": round(self.seconds, 3), "parameters": self.parameters,
            "against_baseline": self.against_baseline, "against_best": self.against_best, "run": self.run,
        }  # fmt: skip


@dataclass
class Failure:
    """A system that could not be fitted or scored, and why."""

    name: str
    settings: str
    reason: str

    @property
    def title(self) -> str:
        """Name and settings."""
        return f"{self.name}:{self.settings}" if self.settings else self.name


@dataclass
class Leaderboard:
    """The systems of one task on one data space, best first."""

    task: str
    data: str
    data_space: str
    metric: str
    lines: list[Line] = field(default_factory=list)
    preparations: dict[str, list[str]] = field(default_factory=dict)
    """What was done to the columns for each system, in words."""
    held_out: str = ""
    """How rows were held out, in words."""
    failed: list[Failure] = field(default_factory=list)
    """Systems that have no line, and why."""

    @property
    def paired(self) -> bool:
        """Whether verdicts compare row by row, and not one number with another."""
        return all(one.score.pointwise is not None or not math.isfinite(one.score.value) for one in self.lines)

    def rank(self) -> None:
        """Best first, each judged against the best one."""
        if not self.lines:
            return
        sign = -1 if self.lines[0].score.higher_is_better else 1
        self.lines.sort(key=lambda line: (math.isnan(line.score.value), sign * line.score.value))
        best = self.lines[0]
        for line in self.lines:
            line.against_best = "best" if line is best else line.score.against(best.score)

    def to_json(self) -> dict[str, Any]:
        """The board as a JSON object."""
        head: dict[str, Any] = {
            "task": self.task,
            "data": self.data,
            "data_space": self.data_space,
            "metric": self.metric,
        }
        head |= {"held_out": self.held_out, "paired": self.paired}
        lines, failed = [line.to_json() for line in self.lines], [asdict(one) for one in self.failed]
        return {**head, "lines": lines, "failed": failed, "preparations": self.preparations}

    def __str__(self) -> str:
        return _text(self)


def _text(board: Leaderboard) -> str:
    """The board as a table: score with its kind and errors, seconds, parameters, verdicts, a few other scores."""
    unit, best = board.lines[0].score.unit, "higher" if board.lines[0].score.higher_is_better else "lower"
    others = [name for name in board.lines[0].others if all(name in line.others for line in board.lines)][:MOST_OTHERS]
    proportion = ["95 % interval"] if any(line.score.interval_text for line in board.lines) else []
    rows = [(*HEADER, *proportion, *others)]
    rows += [_cells(line, [line.score.interval_text] * len(proportion), others) for line in board.lines]
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    numeric = NUMERIC | set(range(len(HEADER), len(rows[0])))

    def text(row: tuple[str, ...]) -> str:
        cells = (c.rjust(w) if j in numeric else c.ljust(w) for j, (c, w) in enumerate(zip(row, widths, strict=True)))
        return "  ".join(cells).rstrip()

    head = f"{board.task}: {board.data}, {board.data_space}; {board.metric} in {unit}, {best} is better"
    held = f"; {board.held_out}" if board.held_out else ""
    failed = [f"{one.title} failed: {one.reason}" for one in board.failed]
    return "\n".join([head + held, *(text(row) for row in rows), *_unpaired(board), *failed])


def _unpaired(board: Leaderboard) -> list[str]:
    """What verdicts compare where no row has a value of its own."""
    if board.paired or len(board.lines) < 2:
        return []
    return [f"{board.metric} has no value for each row: verdicts add the errors of both scores, less sharp than pairs"]


def _cells(line: Line, proportion: list[str], others: list[str]) -> tuple[str, ...]:
    return (
        line.title, *map(number, (line.score.value, line.score.stderr, line.score.error)), line.seeds_text,
        line.score.kind, f"{line.seconds:.2f}", "-" if line.parameters is None else f"{line.parameters:,}",
        line.against_baseline, line.against_best, *proportion, *(number(line.others[name].value) for name in others),
    )  # fmt: skip
