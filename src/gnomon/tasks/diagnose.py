"""`gnomon.diagnose`: what is wrong with a run, a fitted system or draws of chains, and what to do."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from gnomon.contracts import HasBlocks, supports
from gnomon.data.relations import Ratings
from gnomon.distributions.domains import Real
from gnomon.errors import UserError, UserTypeError, UserValueError
from gnomon.evaluation.degenerate import log_density_of
from gnomon.evaluation.diagnosis import answers, blocks, chain_health, degenerate_columns, draws, histories, inside
from gnomon.evaluation.diagnosis.answers import Answers
from gnomon.evaluation.diagnosis.blocks import Machine
from gnomon.evaluation.diagnosis.goal import next_step
from gnomon.evaluation.diagnosis.histories import History
from gnomon.evaluation.diagnosis.records import Diagnosis, Finding, examine
from gnomon.evaluation.gradient_noise import ChainEstimator
from gnomon.evaluation.overfit import overfit_tiny
from gnomon.evaluation.score import Score
from gnomon.inference.blocks import units_of
from gnomon.inference.mcmc.records import Draws
from gnomon.numeric.noise import Noise
from gnomon.runs.config import CHAINS, NAMED, DataSpec
from gnomon.runs.folder import RunFolder
from gnomon.system.base import System
from gnomon.system.saving import load
from gnomon.tasks.classify import ClassShares
from gnomon.tasks.fitting import parts, task_of
from gnomon.tasks.regress import MeanTarget

__all__ = ["diagnose", "of_scored"]

LIMITS = ("epochs", "max_iter")
"""Hyper-parameters that end a fit whatever it has reached."""
ROWS = 5000
"""Training rows that are scored at most, drawn at random."""
FEW_ROWS = 1000
"""The same where somebody waits for a page."""


def diagnose(
    subject: str | os.PathLike[str] | System | Draws,
    X: Any = None,
    y: Any = None,
    *,
    train: Any = None,
    seed: int = 0,
    goal: float | None = None,
) -> Diagnosis:
    """Look at a result with every check that it supports.

    Of chains: R-hat, effective draws, divergences, acceptance. Of fits: whether they ended, came to rest, ran away or
    overfitted; of watched ones (``fit --monitor``) dead and saturated units, gradients by depth, sizes of updates.
    Where held-out rows are known: the gap to training rows, calibration, the worst class, bias. Of models with blocks:
    dead units, mixing of Gibbs chains, weights behind log Z, probability far from the rows, bias of the gradient.
    Nothing is claimed that was not computed.

    Parameters
    ----------
    subject : path, fitted System or Draws
        A folder of ``gnomon fit``, ``System.fit(run=...)``, ``System.save`` or ``sample_chain(run=...)``.
    X, y : arrays, optional
        Rows that the fit has not seen. Where a run's data has a name or file, those that it held out are read again.
    train : array or (X, y), optional
        Rows of the fit, likewise.
    seed : int, default 0
        Of the Gibbs chains, of annealing, and of the training rows that are looked at where there are more than 5,000.
    goal : float, optional
        What the first score is to reach: the finding ``goal`` says what to do next, see
        `gnomon.evaluation.diagnosis.goal.next_step`.

    Returns
    -------
    Diagnosis
        ``print`` shows it; ``findings`` holds level, words, evidence and remedy of each.

    Raises
    ------
    UserError
        No run, a damaged one; a subject of another kind.

    Examples
    --------
    >>> import gnomon
    >>> found = gnomon.sample_chain(lambda x: -0.5 * (x * x).sum(-1), start=2, random_state=0)
    >>> gnomon.diagnose(found).level
    'ok'
    """
    if isinstance(subject, Draws):
        _refuse_goal(goal)
        return _of_draws(subject, "draws of chains")
    if isinstance(subject, System):
        return _of_system(subject, type(subject).__name__, _history(subject), X, y, train, seed, goal)
    if not isinstance(subject, str | os.PathLike):
        raise UserTypeError(
            f"subject must be a result, got {type(subject).__name__}",
            "subject",
            "give a run, a System or draws of chains",
        )
    folder = RunFolder.open(subject, any_kind=True)
    if folder.config.get("kind") == CHAINS:
        _refuse_goal(goal)
        from gnomon.tasks.chains import load_draws  # what draws chains takes a second to load

        return _of_draws(load_draws(subject), str(subject))
    return _of_run(folder, X, y, train, seed, goal)


def _refuse_goal(goal: float | None) -> None:
    if goal is not None:
        raise UserValueError("goal must be left out: chains have no score to reach", "goal")


# --- chains -----------------------------------------------------------------------------------------------------------


def _of_draws(found: Draws, name: str) -> Diagnosis:
    if hasattr(found, "kernel"):
        kernel = type(found.kernel)
        found = Draws(
            found.values, found.info, {"kernel": {"type": f"{kernel.__module__}:{kernel.__qualname__}"}, **found.facts}
        )
    findings, skipped = examine(found, draws.CHECKS)
    enough = found.shape[1] >= draws.LEAST
    return Diagnosis(name, tuple(findings), skipped, found.table() if enough else "", found.plot if enough else None)


# --- fits -------------------------------------------------------------------------------------------------------------


def _of_run(folder: RunFolder, X: Any, y: Any, train: Any, seed: int, goal: float | None) -> Diagnosis:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        system = _system(folder)
    history = _unfinished(folder, system) if not folder.finished else _history(system)
    if system is None:
        findings, skipped = examine(history, histories.CHECKS)
        missing = {**skipped, "model": "the fit has left none"}
        return _with(Diagnosis(str(folder.path), tuple(findings), missing), *_inside(folder))
    recipe = folder.config.get("data", {})
    if X is None and recipe.get("source") == NAMED:
        known, held = parts(DataSpec.from_json(recipe), system)
        task = task_of(system)
        train = task.examples(known, system)
        X, y = task.examples(held, system) if held is not None else (None, None)
    found = _of_system(system, str(folder.path), history, X, y, train, seed, goal)
    words = [Finding("notice", "the system warned", _line(w.message), check="warnings") for w in caught]
    return _with(replace(found, findings=(*found.findings, *words)), *_inside(folder))


def _inside(folder: RunFolder) -> tuple[list[Finding], dict[str, str]]:
    """The checks of what ``--monitor`` counted."""
    lines = folder.read_monitor()
    return (
        examine(lines, inside.CHECKS | chain_health.CHECKS)
        if lines
        else ([], {"inside": "the fit was not watched (fit --monitor)"})
    )


def _with(found: Diagnosis, findings: list[Finding], skipped: dict[str, str]) -> Diagnosis:
    """More findings, the gravest first."""
    order = ("warning", "notice", "ok")
    every = sorted((*found.findings, *findings), key=lambda f: order.index(f.level))
    return replace(found, findings=tuple(every), skipped={**found.skipped, **skipped})


def _system(folder: RunFolder) -> System | None:
    """The model, that of the last checkpoint where the fit has not ended; None where there is none."""
    try:
        return load(folder.path, unfinished=True)
    except UserError:
        if folder.finished:
            raise
        return None


def _history(system: Any) -> History:
    limits = [getattr(system, name) for name in LIMITS if isinstance(getattr(system, name, None), int)]
    return History.of(system, limit=limits[0] if limits else None)


def _unfinished(folder: RunFolder, system: Any) -> History:
    """What the checkpoint tells of a fit that has not ended."""
    stopped = folder.config.get("stopped", "")
    facts: dict[str, Any] = {
        "finished": False, "stopped": stopped if isinstance(stopped, str) else "",
        "resume": f"gnomon resume {folder.path}",
    }  # fmt: skip
    if system is not None:
        return History.of(system, **facts)
    checkpoint = folder.read_checkpoint()
    records = checkpoint[1].get("records", []) if checkpoint else []
    columns = {name: [r[name] for r in records if name in r] for r in records for name in r}
    return History(columns, descends=False, **facts)  # nothing tells how its numbers move


def of_scored(
    path: str | os.PathLike[str], system: System, X: Any, y: Any, train: Any, scores: Mapping[str, Score]
) -> Diagnosis:
    """`diagnose` of a run that is loaded and scored: nothing is read or computed again but some training rows' scores.

    Parameters
    ----------
    path : path
        Of the run.
    system : System
        Fitted in it.
    X, y : arrays
        Rows that the fit has not seen; None where there are none.
    train : (X, y) or None
        Rows of the fit; at most `FEW_ROWS` of them are scored.
    scores : mapping of str to Score
        What ``system.evaluate(X, y)`` says, and perhaps more.
    """
    seen = None if train is None else _sampled(train[0], train[1], 0, FEW_ROWS)
    found = _of_system(system, str(path), _history(system), X, y, seen, 0, None, scores)
    return _with(found, *_inside(RunFolder.open(path)))


def _of_system(
    system: System, name: str, history: History, X: Any, y: Any, train: Any, seed: int, goal: float | None,
    known: Mapping[str, Score] | None = None,
) -> Diagnosis:  # fmt: skip
    if not hasattr(system, "model_"):
        raise UserValueError(f"{type(system).__name__} is not fitted", "subject", "fit it first")
    findings, skipped = examine(history, histories.CHECKS)
    train = train if isinstance(train, tuple | list) else (train, None)
    with np.errstate(over="ignore", invalid="ignore"):  # a fit that diverged may leave weights whose sums overflow
        more = [
            _of_answers(system, X, y, train, seed, goal, known),
            _blocks(system, X if X is not None else train[0], seed),
            _density(system, train[0] if train[0] is not None else X, seed),
        ]
    for found, missing in more:
        findings += found
        skipped |= missing
    if goal is not None and not any(one.check == "goal" for one in findings):
        why = skipped.get("answers", "the scores of training rows are not known")
        findings.append(Finding("notice", f"whether the goal of {goal:g} is reached cannot be said", why, check="goal"))
    return _with(Diagnosis(name, ()), findings, skipped)


def _of_answers(
    system: Any, X: Any, y: Any, train: tuple[Any, Any], seed: int, goal: float | None,
    known: Mapping[str, Score] | None,
) -> tuple[list[Finding], dict[str, str]]:  # fmt: skip
    """The checks of answers, where there are rows that the fit has not seen."""
    if X is None:
        return [], {"answers": "no rows are known that the fit has not seen"}
    try:
        found = _answers(system, X, y, train, seed, known)
    except UserError as error:
        return [], {"answers": str(error)}
    findings, skipped = examine(found, answers.CHECKS)
    if goal is not None and found.train is not None:
        findings.append(next_step(found.train, found.held, goal))
    useless = any(f.check == "use" and f.level == "warning" for f in findings)
    if useless and train[0] is not None:
        findings += _by_heart(system, *train)
    return findings, skipped


def _answers(
    system: Any, X: Any, y: Any, train: tuple[Any, Any], seed: int, known: Mapping[str, Score] | None
) -> Answers:
    held = _judging(system, system.evaluate(X, y) if known is None else known)
    seen = None if train[0] is None else _judging(system, system.evaluate(*_sampled(*train, seed)))
    if y is None or not hasattr(system, "predict"):
        return Answers(held, seen)
    goal = task_of(system)
    if not goal.answers_rows:
        plain = None if train[1] is None else goal.baseline(system, *train)[1].evaluate(X, y)
        return Answers(held, seen, None if plain is None else plain.get(held.name))
    classes = getattr(system, "classes_", None)
    proba = system.predict_proba(X) if hasattr(system, "predict_proba") else None
    base = None
    if train[1] is not None:
        constant = (MeanTarget if classes is None else ClassShares)()
        base = constant.fit(*train).evaluate(X, y).get(held.name)
    return Answers(held, seen, base, np.asarray(y), np.asarray(system.predict(X)), proba, classes)


def _judging(system: Any, scores: Mapping[str, Score]) -> Any:
    """The score that the system is judged by."""
    if not scores:
        raise UserValueError("the system has no score", type(system).__name__)
    return scores.get(system.primary, next(iter(scores.values())))


def _by_heart(system: Any, X: Any, y: Any) -> list[Finding]:
    """Whether the system can learn a few rows at all; what is wrong if not."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = overfit_tiny(system, X, y, epochs=500)
    except (UserError, ValueError):
        return []
    if report:
        return [Finding("ok", "a few rows are learned by heart", str(report), check="by_heart")]
    return [Finding("warning", "not even a few rows are learned by heart", str(report), report.reason, "by_heart")]


def _density(system: Any, X: Any, seed: int) -> tuple[list[Finding], dict[str, str]]:
    """The checks of densities of real columns."""
    real = isinstance(system.outcomes, Real) and "density" in system.tasks
    if not real or X is None or not (hasattr(system, "log_prob") or hasattr(system, "energy")):
        return [], {}
    rows = np.asarray(system.own_rows(_sampled(X, None, seed, FEW_ROWS)[0]), np.float64)
    return examine(degenerate_columns.RealDensity(log_density_of(system), rows), degenerate_columns.CHECKS)


def _blocks(system: Any, X: Any, seed: int) -> tuple[list[Finding], dict[str, str]]:
    """The checks of models with blocks."""
    model = system.model_
    if not supports(model, HasBlocks):
        return [], {}
    if not all(kind.drawn for kind in units_of(model).values()):
        return [], {"blocks": "each row has a distribution of its own, given its condition"}
    size = getattr(system, "n_features_in_", None)
    names = [block for block in model.blocks if model.sizes[block] == size]
    visible = "visible" if "visible" in model.blocks else names[0] if len(names) == 1 else ""
    if not visible:
        return [], {"blocks": "it is not known which block holds the data"}
    rows = None if X is None else np.asarray(system.to_visible(X) if hasattr(system, "to_visible") else X)
    mean = rows.mean(axis=0) if rows is not None else None
    batch = getattr(system, "batch_size", None) or (1 if rows is None else len(rows))
    own = partial(system.log_partition, "bracket", X=X) if hasattr(system, "log_partition") else None
    machine = Machine(model, visible, Noise(seed, "diagnose"), rows, mean, _chains_of(system), batch, own)
    return examine(machine, blocks.CHECKS)


def _chains_of(system: Any) -> ChainEstimator | None:
    """Where the gradients of the fit took the negative phase from, where its moments can be enumerated."""
    recipe = system.recipe("objective") if "objective" in system.slots else None
    start = {"cd": "data", "pcd": "persistent"}.get(getattr(recipe, "short", ""))
    binary = len(getattr(system.model_, "units", ())) == 2 and all(
        getattr(one, "values", None) == (0.0, 1.0) for one in system.model_.units.values()
    )
    return ChainEstimator(start, recipe.k) if start and binary else None  # type: ignore[union-attr, arg-type]


def _sampled(X: Any, y: Any, seed: int, most: int = ROWS) -> tuple[Any, Any]:
    """Some rows at random: a score of training rows needs no more, and files are often sorted."""
    if len(X) <= most:
        return X, y
    rows = np.sort(Noise(seed, "diagnose").child("rows").order(len(X))[:most])
    return _rows(X, rows), None if y is None else _rows(y, rows)


def _rows(X: Any, rows: Any) -> Any:
    if isinstance(X, Ratings):
        return X.take(rows)
    return [X[i] for i in rows] if isinstance(X, list | tuple) else _safe_indexing(X, rows)


def _line(message: Any) -> str:
    return " ".join(str(message).split())
