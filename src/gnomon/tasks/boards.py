"""Leaderboards: the systems of one task on one data space, as objects, JSON and text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gnomon.evaluation.score import Score

__all__ = ["Leaderboard", "Line"]

HEADER = ("system", "score", "± examples", "± estimator", "kind", "seconds", "parameters", "against baseline")


@dataclass(frozen=True)
class Line:
    """One system (or baseline) on a leaderboard."""

    name: str
    score: Score
    others: dict[str, Score]
    seconds: float
    parameters: int
    against_baseline: str
    run: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The line as a JSON object."""
        others = {name: score.to_json() for name, score in self.others.items()}
        return {
            "name": self.name, "score": self.score.to_json(), "others": others, "seconds": round(self.seconds, 3),
            "parameters": self.parameters, "against_baseline": self.against_baseline, "run": self.run,
        }  # fmt: skip


@dataclass
class Leaderboard:
    """The systems of one task on one data space, best first."""

    task: str
    data: str
    data_space: str
    metric: str
    lines: list[Line] = field(default_factory=list)
    preparations: dict[str, list[str]] = field(default_factory=dict)
    """What was done to the columns of the table, by system."""

    def to_json(self) -> dict[str, Any]:
        """The board as a JSON object."""
        head = {"task": self.task, "data": self.data, "data_space": self.data_space, "metric": self.metric}
        return {**head, "lines": [line.to_json() for line in self.lines], "preparations": self.preparations}

    def __str__(self) -> str:
        return _text(self)


def _text(board: Leaderboard) -> str:
    """The board as a table: score with its kind and both errors, seconds, parameters, verdict against the baseline."""
    unit, best = board.lines[0].score.unit, "higher" if board.lines[0].score.higher_is_better else "lower"
    rows = [
        (
            line.name, *(_number(value) for value in (line.score.value, line.score.stderr, line.score.error)),
            line.score.kind, f"{line.seconds:.2f}", f"{line.parameters:,}", line.against_baseline,
        )
        for line in board.lines
    ]  # fmt: skip
    widths = [max(len(row[j]) for row in (HEADER, *rows)) for j in range(len(HEADER))]
    numeric = {1, 2, 3, 5, 6}

    def text(row: tuple[str, ...]) -> str:
        cells = (c.rjust(w) if j in numeric else c.ljust(w) for j, (c, w) in enumerate(zip(row, widths, strict=True)))
        return "  ".join(cells).rstrip()

    head = f"{board.task}: {board.data}, {board.data_space}; {board.metric} in {unit}, {best} is better"
    return "\n".join([head, text(HEADER), *(text(row) for row in rows)])


def _number(value: float) -> str:
    """Four decimals; five significant digits of what is large.

    Examples
    --------
    >>> _number(-0.25), _number(552811052.1815)
    ('-0.2500', '5.5281e+08')
    """
    return f"{value:.5g}" if abs(value) >= 1e5 else f"{value:.4f}"
