"""Leaderboards as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gnomon.tasks.compare import Leaderboard

__all__ = ["board_text"]

HEADER = ("system", "score", "± examples", "± estimator", "kind", "seconds", "parameters", "against baseline")


def board_text(board: Leaderboard) -> str:
    """The board as a table: score with its kind and both errors, seconds, parameters, verdict against the baseline."""
    unit = board.lines[0].score.unit
    rows = [
        (
            line.name, f"{line.score.value:.4f}", f"{line.score.stderr:.4f}", f"{line.score.error:.4f}",
            line.score.kind, f"{line.seconds:.2f}", f"{line.parameters:,}", line.against_baseline,
        )
        for line in board.lines
    ]  # fmt: skip
    widths = [max(len(row[j]) for row in (HEADER, *rows)) for j in range(len(HEADER))]
    numeric = {1, 2, 3, 5, 6}

    def text(row: tuple[str, ...]) -> str:
        cells = (c.rjust(w) if j in numeric else c.ljust(w) for j, (c, w) in enumerate(zip(row, widths, strict=True)))
        return "  ".join(cells).rstrip()

    head = f"{board.task}: {board.data}, {board.data_space}; {board.metric} in {unit}, higher is better"
    return "\n".join([head, text(HEADER), *(text(row) for row in rows)])
