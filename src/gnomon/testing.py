"""Checks that every System passes; public, so that a plug-in can run them on its own: ``check_system(MySystem)``."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from gnomon.data.dataset import fingerprint
from gnomon.distributions.domains import Domain, Real
from gnomon.errors import UserError
from gnomon.evaluation.diagnosis.histories import History
from gnomon.runs.folder import RunFolder
from gnomon.system.base import System
from gnomon.tasks.fitting import task_of

__all__ = ["CHECKS", "Case", "CheckFailed", "Mapped", "check_system"]


class CheckFailed(AssertionError):
    """A System broke a contract."""


def check_system(
    system: type[System] | System,
    data: Any = None,
    *,
    checks: Iterable[str] | None = None,
    processes: bool = True,
    **parameters: Any,
) -> list[str]:
    """Run the contract checks on a System.

    Parameters
    ----------
    system : class or instance
        A class is made with `parameters`; both need few steps to fit.
    data : tuple (X, y) or None
        Data in the system's domain; None takes what its domain's kind suggests.
    checks : names, optional
        The checks to run, all by default; see ``CHECKS``.
    processes : bool, default True
        Whether to start two processes for the check that needs them; a script must then run the checks under
        ``if __name__ == "__main__":``, since new processes import it.
    **parameters
        For the constructor.

    Returns
    -------
    list of str
        Names of the checks that passed.

    Raises
    ------
    CheckFailed
        The first check that does not hold, with what was seen.
    """
    case = Case(system, data, **parameters)
    names = list(CHECKS) if checks is None else list(checks)
    for name in names:
        if name != "processes_agree" or processes:
            case.check(name)
    return names


class Case:
    """A System and data for it: what the checks run on, with one fit that they share.

    Parameters
    ----------
    system : class or instance
        As in `check_system`.
    data : tuple (X, y) or None
    **parameters
        For the constructor.
    """

    def __init__(self, system: type[System] | System, data: Any = None, **parameters: Any) -> None:
        self._system, self._parameters = system, parameters
        self.X, self.y = example(self.make()) if data is None else data

    def make(self, **changes: Any) -> System:
        """An unfitted copy, with some hyper-parameters changed."""
        if isinstance(self._system, type):
            return self._system(**{"random_state": 0, **self._parameters, **changes})
        return clone(self._system).set_params(**{**self._parameters, **changes})

    @cached_property
    def fitted(self) -> System:
        """The System fitted to the data; checks look at it and leave it as it is."""
        return self.make().fit(self.X, self.y)

    def check(self, name: str) -> None:
        """Run one of the checks.

        Raises
        ------
        CheckFailed
            The contract does not hold, with what was seen.
        """
        CHECKS[name](self)


def example(system: System) -> tuple[Any, Any]:
    """Forty examples in the system's domain, and y as its task has it."""
    return task_of(system).example(system)


def _first(X: Any, n: int) -> Any:
    """The first n examples."""
    return X.take(np.arange(n)) if hasattr(X, "take") and not isinstance(X, np.ndarray) else X[:n]


def _mark(X: Any) -> str:
    """A fingerprint of data of any form."""
    return fingerprint(*X.arrays()) if hasattr(X, "arrays") else fingerprint(X)


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise CheckFailed(what)


def arrays_of(system: System) -> dict[str, np.ndarray[Any, Any]]:
    """Copies of everything the fitted model consists of."""
    return {name: np.array(value) for name, value in system.model_.state().items()}


def _same(a: System, b: System, tolerance: float = 0.0) -> bool:
    left, right = arrays_of(a), arrays_of(b)
    if left.keys() != right.keys():
        return False
    if tolerance:
        return all(
            left[k].shape == right[k].shape and np.allclose(left[k], right[k], rtol=0, atol=tolerance) for k in left
        )
    return all(left[k].dtype == right[k].dtype and np.array_equal(left[k], right[k]) for k in left)


def improves(case: Case) -> None:
    """The loss falls from first to last record, and the fit scores better than one to data without structure."""
    fitted, X, y = case.fitted, case.X, case.y
    values = History.of(fitted).loss[1]
    _require(np.isfinite(values).all(), f"the history holds a number that is not finite: {values}")
    if len(values) > 1:
        _require(values[-1] < values[0], f"the loss went from {values[0]:.6g} to {values[-1]:.6g}")
    blind = case.make().fit(fitted.outcomes.shuffled(X, np.random.default_rng(7)), y).score(X, y)
    learned = fitted.score(X, y)
    _require(learned > blind, f"it scores {learned:.6g}, and {blind:.6g} when fitted to data without structure")


def repeats(case: Case) -> None:
    """The same seed gives the same fit to the bit; the global random state is left as found."""
    before = _global_states()
    again = case.make().fit(case.X, case.y)
    after = _global_states()
    _require(_same(case.fitted, again), "two fits with one seed differ")
    _require(before == after, "the fit moved a global random generator")


def _global_states() -> tuple[object, ...]:
    """The random states that a fit must leave alone."""
    import random

    import torch

    numbers = np.random.get_state()[1]  # type: ignore[index]  # noqa: NPY002
    return numbers.tobytes(), random.getstate(), torch.get_rng_state().numpy().tobytes()


def input_untouched(case: Case) -> None:
    """Neither X nor y changes, and both may be read-only."""
    make, X, y = case.make, case.X, case.y
    if not isinstance(X, np.ndarray):
        before = _mark(X)
        make().fit(X, y)
        _require(before == _mark(X), "the fit changed X")
        return
    frozen, labels = X.copy(), None if y is None else y.copy()
    frozen.setflags(write=False)
    try:
        fitted = make().fit(frozen, labels)
    except ValueError as error:
        raise CheckFailed(f"read-only input is refused: {error}") from error
    writable = X.copy()
    make().fit(writable, labels)
    _require(np.array_equal(writable, X), "the fit changed X")
    _require(labels is None or np.array_equal(labels, y), "the fit changed y")
    fitted.score(frozen, labels)


def parameters_untouched(case: Case) -> None:
    """Fitting changes no hyper-parameter, and a clone of what was fitted fits alike."""
    before, after = (repr(sorted(one.get_params().items())) for one in (case.make(), case.fitted))
    _require(before == after, f"hyper-parameters changed: {before} -> {after}")
    _require(_same(clone(case.fitted).fit(case.X, case.y), case.fitted), "a clone fits differently")


def saves(case: Case) -> None:
    """A saved system loads as it was: arrays to the bit, and the same score."""
    from gnomon.system.saving import load

    fitted, X, y = case.fitted, case.X, case.y
    with tempfile.TemporaryDirectory() as parent:
        folder = fitted.save(Path(parent) / "model")
        again = load(folder)
    _require(type(again) is type(fitted), f"a {type(fitted).__name__} loads as {type(again).__name__}")
    _require(_same(fitted, again), "the arrays changed between save and load")
    _require(fitted.score(X, y) == again.score(X, y), "the score changed between save and load")


def resumes(case: Case) -> None:
    """A fit stopped after its first, a middle and its last step but one, reloaded from disk, ends as the whole one.

    To the bit.
    """
    make, X, y, whole = case.make, case.X, case.y, case.fitted
    for stop in sorted({1, max(1, whole.n_steps_ // 2), max(1, whole.n_steps_ - 1)}):
        with tempfile.TemporaryDirectory() as parent:
            begun = make()
            begun.check_parameters()
            table = begun.ingest(X, y)
            run = begun._open(Path(parent) / "run", table)
            begun._fit(table, run, limit=stop)
            fresh = make()
            folder = RunFolder.open(Path(parent) / "run")
            again = fresh.ingest(X, y)
            fresh._fit(again, fresh._open(folder, again))
        _require(_same(whole, fresh), f"resumed after step {stop} of {whole.n_steps_}, the fit ends differently")
        _require(whole.history_ == fresh.history_, f"resumed after step {stop}, the history differs")


def refuses(case: Case) -> None:
    """Bad input is refused by an error of gnomon's (or the ValueError of scikit-learn's checks) in one line."""
    make, y = case.make, case.y
    for spoiled in make().domain.malformed():
        try:
            make().fit(spoiled, None if y is None else y[: len(spoiled) if hasattr(spoiled, "__len__") else 1])
        except (UserError, ValueError, TypeError) as error:
            _require(bool(str(error)), "an error without words")
        else:
            raise CheckFailed(f"bad input was accepted: {spoiled!r:.80}")


def stays_finite(case: Case) -> None:
    """No parameter and no score is NaN or infinite after the fit."""
    for name, value in arrays_of(case.fitted).items():
        _require(value.dtype.kind != "f" or bool(np.isfinite(value).all()), f"{name} is not finite")
    _require(bool(np.isfinite(case.fitted.score(case.X, case.y))), "the score is not finite")


def processes_agree(case: Case) -> None:
    """One and two processes fit the same model in float64 to 1e-9, ragged batches and sample weights included."""
    from gnomon.training.launch import launch

    make, X, y = case.make, case.X, case.y
    changes: dict[str, Any] = {"tol": 0.0} if "tol" in make().get_params() else {}
    if isinstance(X, np.ndarray):
        X = X[:37].astype(np.float64)
        weight: Any = np.random.default_rng(1).uniform(0.5, 2.0, size=len(X))
    else:
        X, weight = _first(X, 37), None
        changes |= {"dtype": "float64"} if "dtype" in make().get_params() else {}
    labels = None if y is None else y[:37]
    alone = fit_alone(make(**changes), X, labels, weight)
    together = launch(fit_alone, make(**changes), X, labels, weight, devices=2)
    for name in alone:
        _require(
            name in together and alone[name].shape == together[name].shape, f"{name} has another shape on two processes"
        )
        gap = float(np.abs(alone[name].astype(float) - together[name].astype(float)).max(initial=0.0))
        _require(gap <= 1e-9, f"{name} differs by {gap:.2g} between one and two processes")


def fit_alone(system: System, X: Any, y: Any, weight: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Fit in this process (or this group) and return the arrays."""
    return arrays_of(system.fit(X, y) if weight is None else system.fit(X, y, sample_weight=weight))


CHECKS: dict[str, Callable[[Case], None]] = {
    check.__name__: check
    for check in (
        improves, repeats, input_untouched, parameters_untouched, saves, resumes, refuses, stays_finite,
        processes_agree,
    )
}  # fmt: skip
"""The checks by name, in the order in which they run."""


class Mapped(Domain):
    """A narrow domain for checks that feed any numbers: positive ones become 1, the others 0; NaN is still refused.

    ``class Any(RBM): domain = Mapped(RBM.domain)``.
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def check(self, X: Any, **options: Any) -> Any:
        """The mapped rows, checked."""
        numbers = Real().check(X, **options)
        return self.inner.check((numbers > 0).astype(numbers.dtype), **options)

    def example(self, random: np.random.Generator, n: int, groups: Any = None) -> Any:
        """The inner domain's."""
        return self.inner.example(random, n, groups)

    def describe(self) -> str:
        """The inner domain's."""
        return str(self.inner.describe())

    def space(self, n_columns: int) -> str:
        """The inner domain's."""
        return str(self.inner.space(n_columns))
