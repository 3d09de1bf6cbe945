"""``gnomon.report``: the page about one run or several."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gnomon.errors import UserTypeError, UserValueError, number
from gnomon.report.figures import drawn_for_a_page
from gnomon.report.page import Section, joined, page, paragraph, table
from gnomon.report.sections import of_run
from gnomon.report.subject import Subject
from gnomon.runs.atomic import write_atomically
from gnomon.runs.config import CHAINS
from gnomon.runs.folder import RunFolder
from gnomon.tasks.boards import Leaderboard, Line
from gnomon.tasks.settings import parameters_of

__all__ = ["of_comparison", "report"]

if TYPE_CHECKING:
    from gnomon.report.chains import ChainRun

NAME = "report.html"


def report(
    runs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], out: str | os.PathLike[str] | None = None
) -> Path:
    """Write one page of HTML about runs: self-contained, without script, in the colors of the reader's system.

    Parameters
    ----------
    runs : path, or sequence of paths
        Folders of fits, which are ranked first where there are several, by task and data space; or of chains.
    out : path, optional
        The file; ``report.html`` in the run, or beside the first of several, where left out.

    Returns
    -------
    Path
        The file that was written.

    Raises
    ------
    UserError
        No run, a damaged one, or a place that cannot be written to.

    Notes
    -----
    Cost: the held-out rows are scored, and columns shuffled where that takes less than two seconds. Texts of people's
    data are escaped; what is long is cut.
    """
    if not isinstance(runs, str | os.PathLike | Sequence):
        raise UserTypeError.must("runs", "be folders of runs", runs, "report")
    paths = [runs] if isinstance(runs, str | os.PathLike) else list(runs)
    if not paths:
        raise UserValueError("runs must name at least one run", "report")
    for one in paths:
        if not isinstance(one, str | os.PathLike):
            raise UserTypeError.must("runs", "be folders of runs", one, "report")
    subjects = [_subject(one) for one in paths]
    first = Path(paths[0])
    file = Path(out) if out is not None else (first if len(paths) == 1 else first.parent) / NAME
    with drawn_for_a_page():
        text = _page(subjects)
    write_atomically(file, text.encode())
    return file


def of_comparison(boards: Sequence[Leaderboard], out: str | os.PathLike[str]) -> Path:
    """Write the page of a comparison: its leaderboards, and the best run of each in full.

    Parameters
    ----------
    boards : sequence of Leaderboard
        Of `gnomon.compare`.
    out : path
        The folder of the runs.

    Returns
    -------
    Path
        The file that was written.
    """
    file = Path(out) / NAME
    with drawn_for_a_page():
        sections = [_board(board) for board in boards]
        for board in boards:
            best = next((line for line in board.lines if line.run), None)
            if best is not None and best.run is not None:
                sections.append(joined(f"{best.title} on {board.data}", of_run(Subject.of(best.run))))
        text = page("Comparison", "Leaderboards first, then the best run of each.", sections)
    write_atomically(file, text.encode())
    return file


def _subject(path: str | os.PathLike[str]) -> Subject | ChainRun:
    """What a run's folder holds; what draws chains is loaded for chains alone, since it takes a second."""
    if RunFolder.open(path, any_kind=True).config.get("kind") != CHAINS:
        return Subject.of(path)
    from gnomon.report.chains import ChainRun

    return ChainRun.of(path)


def _page(subjects: Sequence[Subject | ChainRun]) -> str:
    if len(subjects) == 1:
        one = subjects[0]
        if isinstance(one, Subject):
            return page(_title(one), _lead(one), of_run(one))
        return page(one.title, one.lead, one.sections())
    sections = [_board(board) for board in _boards([one for one in subjects if isinstance(one, Subject)])]
    for one in subjects:
        sections.append(joined(one.path.name, of_run(one) if isinstance(one, Subject) else one.sections()))
    return page(f"{len(subjects)} runs", "Ranked by what they score on rows that no fit has seen.", sections)


def _title(subject: Subject) -> str:
    name = subject.config.get("data", {}).get("name")
    return f"{subject.title} on {Path(name).name}" if name else subject.title


def _lead(subject: Subject) -> str:
    """The most important number, in words."""
    score = subject.scores.get(subject.task.primary)
    if score is None:
        return f"No rows to judge by: {subject.missing}." if subject.missing else "No score."
    interval = f" (95 % interval {score.interval_text})" if score.interval_text else ""
    value = f"{score.name or subject.task.primary} {number(score.value)} ± {number(score.stderr)}"
    kind = "" if score.kind == "exact" else f", {'an' if score.kind[0] in 'eu' else 'a'} {score.kind},"
    return f"{value}{interval}{kind} on rows that were held out."


def _boards(subjects: Sequence[Subject]) -> list[Leaderboard]:
    """The runs, ranked among those of the same task, data and space."""
    found: dict[tuple[str, str, str], Leaderboard] = {}
    for one in subjects:
        score = one.scores.get(one.task.primary)
        if score is None or one.held is None:
            continue
        place = (one.task.name, one.held.name, score.data_space)
        board = found.setdefault(place, Leaderboard(*place, one.task.primary))
        board.lines.append(
            Line(
                one.system.name, score, one.scores, float(one.config.get("seconds", 0.0)), parameters_of(one.system),
                "", str(one.path), one.title.partition(":")[2],
            )
        )  # fmt: skip
    for board in found.values():
        board.rank()
    return list(found.values())


def _board(board: Leaderboard) -> Section:
    header = [
        "system", board.metric, "± examples", "± seeds", "95 % interval", "seconds", "parameters", "against baseline",
        "against the best", "run",
    ]  # fmt: skip
    rows = [
        (line.title, number(line.score.value), number(line.score.stderr), line.seeds_text, line.score.interval_text,
         f"{line.seconds:.2f}", "-" if line.parameters is None else f"{line.parameters:,}", line.against_baseline,
         line.against_best, Path(line.run).name if line.run else "")
        for line in board.lines
    ]  # fmt: skip
    best = "highest" if board.lines[0].score.higher_is_better else "lowest"
    reading = (
        f'{board.data_space}; the {best} is best. "undecided" is not told apart from it at 95 %, on the same rows.'
    )
    failed = "".join(paragraph(f"{one.title} failed: {one.reason}", "warning") for one in board.failed)
    body = table(header, rows, right=[1, 2, 3, 5, 6], caption="leaderboard")
    return Section(f"Leaderboard: {board.task} on {board.data}", reading, body + failed)
