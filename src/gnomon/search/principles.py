"""Training principles of one machine side by side: likelihood, classes from hidden features, bits made good again."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from gnomon.data.dataset import Dataset
from gnomon.data.splitting import split
from gnomon.errors import Diverged, UserTypeError, UserValueError, counted, number
from gnomon.inference.arrays import to_numpy
from gnomon.numeric.noise import Noise
from gnomon.search.judging import made_of
from gnomon.system.base import System
from gnomon.tasks.compare import data_of
from gnomon.tasks.density import IndependentBaseline
from gnomon.tasks.fitting import task_of
from gnomon.tasks.preparing import recipe_of
from gnomon.training.context import context, current
from gnomon.training.progress import count_ended

__all__ = ["PRINCIPLES", "SCORES", "Principle", "PrincipleBoard", "compare_principles", "denoised", "feature_accuracy"]

PRINCIPLES = ("pcd", "cd", "pseudolikelihood", "ratio-matching", "generalized-score-matching")
SCORES = ("log_likelihood", "feature_accuracy", "denoised")
RATES = (0.01, 0.03, 0.1, 0.3, 1.0)
PILOT = 30
"""Updates of a short fit, beside which a longer one says what an update costs."""
SURELY = 0.1
"""Seconds by which the longer one must take longer, to be measured."""
MOST_UPDATES = 1_000_000

Scores = dict[str, float]


@dataclass(frozen=True)
class Principle:
    """What one principle reaches.

    Parameters
    ----------
    objective : str
    updates : int
        Of each fit, as many as the budget of processor time allows.
    rates : dict of str to float
        By score the learning rate that was best on the validation rows, in the mean over seeds.
    mean, spread : dict of str to float
        By score over seeds, of the fits with that rate on the test rows; the spread is a standard deviation.
    notes : tuple of str
        What fits were warned of, and at which rates some diverged: such a rate is not chosen.
    """

    objective: str
    updates: int
    rates: dict[str, float]
    mean: Scores
    spread: Scores
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PrincipleBoard:
    """Principles side by side, each with the settings that its own validation scores chose.

    Parameters
    ----------
    principles : tuple of Principle
    baseline : dict of str to float
        Independent columns, a support vector machine on the columns themselves, the bits left as they are.
    rows : tuple of int
        Training, validation and test rows.
    seeds : int
    flip : float
        Share of the bits that were flipped.
    """

    principles: tuple[Principle, ...]
    baseline: Scores
    rows: tuple[int, int, int]
    seeds: int
    flip: float

    def to_json(self) -> dict[str, Any]:
        """The board as a JSON object."""
        lines = [{**vars(one), "mean": _finite(one.mean), "spread": _finite(one.spread)} for one in self.principles]
        facts = {"baseline": self.baseline, "rows": list(self.rows), "seeds": self.seeds, "flip": self.flip}
        return {"principles": lines, **facts}

    def __str__(self) -> str:
        several = self.seeds > 1
        rows = [("objective", "updates", *(f"{name} {'± seeds ' * several}(rate)" for name in SCORES))]
        rows += [
            (one.objective, f"{one.updates:,}", *(_cell(one, name, several) for name in SCORES))
            for one in self.principles
        ]
        rows.append(("baseline", "-", *(number(self.baseline[name]) for name in SCORES)))
        widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        train, valid, test = self.rows
        head = f"{train} rows to learn from, {valid} to choose the rate, {test} to judge; {counted(self.seeds, 'seed')}"
        notes = [f"{one.objective}: {note}" for one in self.principles for note in one.notes]
        return "\n".join([head, *lines, *notes])


def _finite(scores: Scores) -> dict[str, float | None]:
    """Without numbers that JSON lacks, of principles that always diverged."""
    return {name: value if np.isfinite(value) else None for name, value in scores.items()}


def _cell(one: Principle, name: str, several: bool) -> str:
    if not np.isfinite(one.mean[name]):
        return "diverged"
    spread = f" ± {number(one.spread[name])}" if several else ""
    return f"{number(one.mean[name])}{spread} ({one.rates[name]:g})"


def feature_accuracy(features: Any, labels: Any, held: Any, held_labels: Any) -> float:
    """Share of held-out rows that a linear support vector machine (C = 1) on these features puts in their class.

    Examples
    --------
    >>> feature_accuracy([[0.0], [1.0]] * 20, ["a", "b"] * 20, [[0.1], [0.9]], ["a", "b"])
    1.0
    """
    judge = LinearSVC(C=1.0, random_state=0, max_iter=5000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        judge.fit(features, labels)
    return float(np.mean(judge.predict(held) == np.asarray(held_labels)))


def flipped(X: Any, share: float, noise: Noise) -> NDArray[np.float64]:
    """Rows of bits, each flipped with this chance."""
    bits = to_numpy(X)
    flips = noise.rows(np.arange(len(bits))).uniform(bits.shape, like=np.empty(0)) < share
    return np.where(flips, 1 - bits, bits)


def denoised(system: Any, X: Any, share: float, noise: Noise) -> float:
    r"""Share of the bits that are right after some were flipped and one conditional pass made them good again.

    The pass is :math:`v' = E[v \mid E[h \mid \tilde v]]` (``reconstruct``), a bit is 1 from 0.5 on.

    Parameters
    ----------
    system : fitted System with ``reconstruct``
    X : array of shape (n, d)
        Rows of 0 and 1.
    share : float in (0, 1)
        Chance of a bit to be flipped.
    noise : Noise
        Row i uses position i.
    """
    broken = flipped(X, share, noise).astype(np.asarray(X).dtype)
    return float(np.mean((to_numpy(system.reconstruct(broken)) >= 0.5) == (to_numpy(X) >= 0.5)))


def compare_principles(
    system: str | System,
    data: Any,
    y: Any = None,
    *,
    objectives: Sequence[str] = PRINCIPLES,
    rates: Sequence[float] = RATES,
    seconds: float = 1.0,
    updates: Mapping[str, int] | None = None,
    seeds: int = 5,
    flip: float = 0.1,
    holdout: float = 0.2,
    validation: float = 0.25,
    split_seed: int = 0,
    target: str | int | None = None,
) -> PrincipleBoard:
    r"""The same machine by several training principles: likelihood, features and denoising at equal processor time.

    Every fit of a principle makes as many updates as take `seconds` by its own cost, which short fits measure. Each
    learning rate is tried with each seed; for each score the one is taken whose mean on the validation rows is the
    best, and its fits are judged on the test rows. Rows are held out twice, so that no test row chooses anything.

    Parameters
    ----------
    system : str or System
        A machine of bits with ``objective``, ``transform`` and ``reconstruct``, such as `RBM`.
    data, y : as of `gnomon.compare`
        With labels.
    objectives : sequence of str
        Short names of training principles.
    rates : sequence of float in (0, inf)
        Learning rates that are tried.
    seconds : float in (0, inf), default 1
        Processor time of each fit.
    updates : mapping of str to int, optional
        Updates by objective in place of measured ones: those of a board give it again, number for number.
    seeds : int in [1, inf), default 5
    flip : float in (0, 1), default 0.1
        Chance of a bit to be flipped, for the denoising.
    holdout, validation : float in (0, 1)
        Share of the rows that judge, and of the others that choose the rate.
    split_seed : int, default 0
        Of both.
    target : str or int, optional
        Column of the labels.

    Returns
    -------
    PrincipleBoard
        ``log_likelihood`` in nats per row, exact where the machine is small enough, else with annealed log Z;
        ``feature_accuracy`` of a linear support vector machine on E[h | v]; ``denoised``, `denoised`.

    Raises
    ------
    UserError
        Data without labels, a system that lacks one of the verbs, principles of which none ended.

    References
    ----------
    Marlin, Swersky, Chen and de Freitas (2010), "Inductive principles for restricted Boltzmann machine learning".

    Examples
    --------
    >>> import gnomon
    >>> budget = {"cd": 50, "pcd": 50}
    >>> board = compare_principles(
    ...     gnomon.RBM(n_hidden=4), "digits", objectives=["cd", "pcd"], rates=[0.1], seeds=1, updates=budget
    ... )
    >>> [one.objective for one in board.principles], board.rows
    (['cd', 'pcd'], (1078, 360, 359))
    """
    made = made_of(system)
    _check(made, objectives, rates, seconds, seeds, {"flip": flip, "holdout": holdout, "validation": validation})
    parts = _parts(made, data, y, target, holdout, validation, split_seed)
    found, begun = [], time.perf_counter()
    for done, name in enumerate(objectives, 1):
        one = made.set_params(objective=name)
        budget = _budget(made, parts[0][0], name, seconds, updates)
        found.append(_judged(one, parts, name, budget, rates, seeds, flip))
        if current().verbose:
            left = (time.perf_counter() - begun) / done * (len(objectives) - done)
            count_ended(f"{name}: {budget:,} updates a fit", done, len(objectives), left)
    if not any(np.isfinite(list(one.mean.values())).any() for one in found):
        raise Diverged("a fit must come to its end, and all diverged", "rates", "lower the learning rates")
    return PrincipleBoard(tuple(found), _baseline(made, parts, flip), tuple(len(X) for X, _ in parts), seeds, flip)  # type: ignore[arg-type]


def _check(made: System, objectives: Any, rates: Any, seconds: float, seeds: int, shares: dict[str, float]) -> None:
    for verb in ("transform", "reconstruct"):
        if not hasattr(type(made), verb):
            raise UserTypeError(f"{made.name} has no {verb}", "system", "choose a machine such as rbm")
    if getattr(made.outcomes, "view", "") != "binary":
        raise UserTypeError(f"{made.name} has no rows of bits to flip", "system", "choose a machine such as rbm")
    if isinstance(objectives, str) or not objectives:
        raise UserTypeError.must("objectives", "be a list of names", objectives)
    twice = next((one for i, one in enumerate(objectives) if one in objectives[:i]), None)
    if twice is not None:
        raise UserValueError(f"objectives must differ, got {twice!r} twice", "objectives", "leave one out")
    for name, value in (("rates", list(rates)), ("seconds", [seconds])):
        if not value or not all(one > 0 for one in value):
            raise UserValueError.must(name, "be above 0", value[0] if value else "none")
    if isinstance(seeds, bool) or not isinstance(seeds, int) or seeds < 1:
        raise UserValueError.must("seeds", "be a whole number of at least 1", seeds)
    for name, share in shares.items():
        if not 0 < share < 1:
            raise UserValueError.must(name, "be in (0, 1)", share)


Part = tuple[Any, Any]


def _parts(
    made: System, data: Any, y: Any, target: Any, holdout: float, validation: float, seed: int
) -> tuple[Part, Part, Part]:
    """Rows and labels to learn from, to choose by, and to judge by."""
    whole, _ = data_of(data, y, made, None, target=target, columns=None, prepare=recipe_of(None))
    goal = task_of(made)
    goal.check(whole, made)
    how = goal.usual_split(whole)

    def form(part: Dataset) -> Part:
        return goal.examples(part, made)[0], np.asarray(part.view("labels"))

    rest, test = split(whole, test=holdout, seed=seed, how=how)
    train, valid = split(rest, test=validation, seed=seed, how=how)
    return form(train), form(valid), form(test)


def _budget(made: System, X: Any, name: str, seconds: float, updates: Mapping[str, int] | None) -> int:
    """Updates of a principle: those that were given, else as many as its own cost allows."""
    if updates is not None:
        if name not in updates:
            raise UserValueError(f"updates must name {name}", "updates", "give each objective its number, or none")
        return int(updates[name])
    return within(seconds, lambda n: _processor_time(made, X, name, n))


def within(seconds: float, cost: Callable[[int], float]) -> int:
    """How many updates take so long, by what a short and a longer fit cost; at least one, few where they diverge.

    Parameters
    ----------
    seconds : float
    cost : callable
        Seconds of a fit of so many updates, NaN of one that diverges.

    Examples
    --------
    >>> within(1.0, lambda n: 5.0 + 0.01 * n)
    100
    """
    cost(PILOT)  # compiles
    few, n = cost(PILOT), 4 * PILOT
    while (more := cost(n) - few) < SURELY and n < MOST_UPDATES:
        n *= 4
    if not np.isfinite(more):
        return PILOT
    return max(1, int(seconds * (n - PILOT) / max(more, 1e-9) + 0.5))


def _processor_time(made: System, X: Any, name: str, n: int) -> float:
    """Seconds of a fit of so many updates; NaN of one that diverged."""
    begun = time.process_time()
    fitted, _ = _fit(made.set_params(objective=name), X, min(RATES), 0, n)
    return np.nan if fitted is None else time.process_time() - begun


def _fit(made: System, X: Any, rate: float, seed: int, updates: int) -> tuple[Any, list[str]]:
    """A fitted machine, None of a fit that diverged, and what was warned of."""
    one: Any = clone(made).set_params(learning_rate=rate, random_state=seed, max_updates=updates)
    with context(verbose=False), warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always")
        try:
            one.fit(X)
        except Diverged:
            one = None
    return one, [" ".join(str(each.message).split()) for each in messages]


def _judged(
    made: System, parts: Sequence[Part], name: str, updates: int, rates: Sequence[float], seeds: int, flip: float
) -> Principle:
    """A principle at the rate that the validation rows choose, for each score its own."""
    train, *judging = parts
    found = np.full((len(rates), seeds, len(judging), len(SCORES)), np.nan)
    notes: dict[str, None] = {}
    for i, rate in enumerate(rates):
        for seed in range(seeds):
            fitted, messages = _fit(made, train[0], rate, seed, updates)
            notes |= dict.fromkeys(messages if fitted is not None else [f"diverged at the rate {rate:g}"])
            if fitted is not None:
                found[i, seed] = [list(_scores(fitted, train, part, flip).values()) for part in judging]
    best = np.nan_to_num(found[:, :, 0].mean(axis=1), nan=-np.inf).argmax(axis=0)
    test = [found[i, :, 1, j] for j, i in enumerate(best)]
    return Principle(
        name, updates, {score: float(rates[i]) for score, i in zip(SCORES, best, strict=True)},
        {score: float(one.mean()) for score, one in zip(SCORES, test, strict=True)},
        {score: float(one.std(ddof=1)) if seeds > 1 else 0.0 for score, one in zip(SCORES, test, strict=True)},
        tuple(notes),
    )  # fmt: skip


def _scores(fitted: Any, train: Part, part: Part, flip: float) -> Scores:
    """The three scores of a fitted machine on rows that it has not seen."""
    (X, labels), (rows, held) = train, part
    features = (to_numpy(fitted.transform(one)) for one in (X, rows))
    codes, held_codes = features
    return {
        "log_likelihood": float(fitted.evaluate(rows)["log_likelihood"].value),
        "feature_accuracy": feature_accuracy(codes, labels, held_codes, held),
        "denoised": denoised(fitted, rows, flip, Noise(0, "denoise")),
    }


def _baseline(made: System, parts: Sequence[Part], flip: float) -> Scores:
    (X, labels), _, (rows, held) = parts
    columns = IndependentBaseline(made.outcomes, X).evaluate(rows)["log_likelihood"]
    left = float(np.mean(flipped(rows, flip, Noise(0, "denoise")) == to_numpy(rows)))
    return {
        "log_likelihood": float(columns.value),
        "feature_accuracy": feature_accuracy(to_numpy(X), labels, to_numpy(rows), held),
        "denoised": left,
    }
