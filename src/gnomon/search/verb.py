"""``gnomon.search``: hyper-parameters chosen by validation rows, judged once on rows that no trial has seen."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnomon.data.preparation import Preparation
from gnomon.errors import UserTypeError, UserValueError
from gnomon.runs.atomic import unwritable
from gnomon.search.found import Found
from gnomon.search.judging import TrialJudge, judge_of, made_of
from gnomon.search.space import derived, intervals_of, space_of, values_of
from gnomon.search.trials import SearchPlan, Tried
from gnomon.system.base import System
from gnomon.tasks.compare import compare
from gnomon.tasks.settings import title_of
from gnomon.training.context import current
from gnomon.training.progress import count_ended

if TYPE_CHECKING:
    from gnomon.search.study import Study

__all__ = ["search"]

STORE = "search.db"


def search(
    system: str | System,
    data: Any,
    y: Any = None,
    *,
    trials: int = 50,
    space: Mapping[str, Any] | None = None,
    strategy: str = "tpe",
    seed: int = 0,
    validation: float = 0.25,
    folds: int | None = None,
    seconds: float | None = None,
    limits: Mapping[str, float] | None = None,
    metric: str | None = None,
    task: str | None = None,
    holdout: float = 0.2,
    split: str | None = None,
    split_seed: int = 0,
    target: str | int | None = None,
    columns: Sequence[str] | None = None,
    prepare: Preparation | None = None,
    store: str | Path | None = None,
    out: str | Path | None = None,
) -> Found:
    """Choose hyper-parameters by trials on the training rows, then fit the best and score it on rows held out.

    Parameters
    ----------
    system : str or System
        Its own hyper-parameters are those that the search does not change, and its rival in the end.
    data, y, task, holdout, split, split_seed, metric, target, columns, prepare
        As in `gnomon.compare`; the rows held out are looked at once, when the search is over.
    trials : int in [1, inf), default 50
        In all, those that the store holds and those of other processes included.
    space : mapping of str to str, sequence, OneOf, RealRange, WholeRange or Conditional, optional
        ``{"n_hidden": "16..512:log", "activation": ["relu", "tanh"]}``, ``"1..10 if objective=cd"`` for what is there
        only beside certain values; ranges around the values that the system has, within its declared intervals, where
        left out.
    strategy : {"tpe", "random", "sobol", "narrow", "grid", "refine"}, default "tpe"
        Optuna's tree-structured Parzen estimator after the system's own values and random draws; independent draws;
        points of a Sobol sequence, which fill the space more evenly; draws from ranges that are halved around the best
        after each 20; every combination of five values of each range of numbers; a grid of three values of each,
        shifted to the best where it lies at an end (beyond the range, too, within the declared interval) and refined
        tenfold around it where it lies inside.
    seed : int in [0, inf), default 0
        Of the search. Every fit has the system's own seed, 0 where it has none.
    validation : float in (0, 1), default 0.25
        Fraction of the training rows that trials are judged on.
    folds : int in [2, inf), optional
        Judge by cross-validation on the training rows in place of that; a trial whose folds so far are worse than the
        median of the others ends early. Without folds a fit that records a loss on rows of its own (``early_stopping``)
        ends early by that.
    seconds : float, optional
        No trial begins after this long.
    limits : mapping of str to float, optional
        ``{"fit_seconds": 10, "predict_milliseconds": 0.1, "megabytes": 5}``, any of them: of one fit, of the answer to
        one row, of the model as it is saved. A trial over a limit has no score and never wins.
    store : path or URL, optional
        Where trials are kept, for several processes and for going on: a file of SQLite, or what Optuna takes. By
        default ``search.db`` in `out`, or memory.
    out : path, optional
        Folder for the runs of the best and of its rival.

    Returns
    -------
    Found

    Raises
    ------
    UserError
        Data, a space or a store that cannot be used, or no trial with a score.

    Notes
    -----
    Cost: `trials` fits (times `folds`) on the training rows without the validation rows, then one or two on all of
    them. The best score on validation rows is the best of many, and so better than the truth; the leaderboard is not.

    Examples
    --------
    >>> import gnomon
    >>> found = gnomon.search(gnomon.SVM(), "iris", trials=6, space={"C": "0.01..100:log"})
    >>> found.board.lines[0].against_baseline
    'better'
    """
    made = made_of(system)
    if isinstance(trials, bool) or not isinstance(trials, int) or trials < 1:
        raise UserValueError(f"trials must be a whole number of at least 1, got {trials!r}", "trials")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise UserValueError(f"seed must be a whole number of at least 0, got {seed!r}", "seed")
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float)):
        raise UserTypeError.must("seconds", "be a number", seconds, "search")
    ranges = derived(made) if space is None else space_of(made, space)
    if not ranges:
        raise UserValueError(f"space must be given for {title_of(made)}: it declares no range", "space")
    held: dict[str, Any] = {
        "task": task, "metric": metric, "holdout": holdout, "split": split, "split_seed": split_seed, "target": target,
        "columns": columns, "prepare": prepare,
    }  # fmt: skip
    judge = judge_of(made, data, y, validation=validation, folds=folds, limits=limits, **held)
    plan = SearchPlan(
        ranges, strategy, trials, seed, judge.higher_is_better, judge.facts, first=values_of(made, ranges),
        intervals=intervals_of(made, ranges),
    )  # fmt: skip
    with _opened(plan, _store(store, out)) as study:
        study.run(judge, _Teller(study, judge), seconds)
        best, tried = study.best(), study.tried
    chosen = judge.system(best.parameters)
    entrants = [chosen] if repr(chosen) == repr(made) else [chosen, made]
    board = compare(entrants, data, y, out=out, **held)[0]
    return Found(chosen, best, tried, judge.metric, judge.words, ranges, board)


def _opened(plan: SearchPlan, store: str | Path | None) -> Study:
    """The study of a plan; its module needs Optuna."""
    try:
        from gnomon.search.study import Study
    except ModuleNotFoundError as error:
        raise UserValueError(
            f"a search needs Optuna ({error})", "search", 'run: pip install "gnomon[search]"'
        ) from None
    return Study(plan, store)


def _store(store: str | Path | None, out: str | Path | None) -> str | Path | None:
    for name, place in (("store", store), ("out", out)):
        if place is not None and not isinstance(place, str | os.PathLike):
            raise UserTypeError.must(name, "be a path", place, "search")
    if store is not None or out is None:
        return store
    try:
        Path(out).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(Path(out), error) from None
    return Path(out) / STORE


class _Teller:
    """Says after each trial what it was, which is the best, and how long the others may take."""

    def __init__(self, study: Study, judge: TrialJudge) -> None:
        self.study, self.judge = study, judge
        self.begun, self.here = time.perf_counter(), 0

    def __call__(self, tried: Tried, done: int) -> None:
        self.here += 1
        if not current().verbose:
            return
        each = (time.perf_counter() - self.begun) / self.here
        settings = ", ".join(f"{name}={_short(value)}" for name, value in tried.parameters.items())
        outcome = tried.state if tried.value is None else f"{self.judge.metric} {tried.value:.4f}"
        left = each * (self.study.total - done)
        count_ended(f"{settings}: {outcome}", done, self.study.total, left)


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
