"""Systems that wrap an estimator of scikit-learn: fitted in one step, by one process, saved without pickle."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning

from gnomon.contracts import Array, Group, Noise, Procedure
from gnomon.errors import UserValueError
from gnomon.numeric.ops import log_softmax
from gnomon.runs.estimators import dumps, loads
from gnomon.system.base import System
from gnomon.system.prediction import Classifier, Regressor
from gnomon.training.context import current as current_context
from gnomon.training.one_process import OnFirst
from gnomon.training.procedure import Problem

__all__ = ["Library", "LibraryClassifier", "LibraryModel", "LibraryRegressor", "LogitClassifier"]

SEEDS = 1 << 31
"""Seeds that scikit-learn takes from every system of gnomon."""


class LibraryModel:
    """A scikit-learn estimator as a model: its state is one array of bytes.

    Parameters
    ----------
    estimator : scikit-learn estimator
        Not fitted.
    types : collection of str
        ``module.Class`` of everything that the fitted estimator consists of; a file that names another is refused.

    Notes
    -----
    The bytes are those of `gnomon.runs.estimators`: skops's format, the same for the same estimator. Loading them
    builds objects of the named types alone and runs nothing that the file brings along.
    """

    def __init__(self, estimator: Any, types: Collection[str]) -> None:
        self.estimator, self.types = estimator, tuple(types)
        self._content: np.ndarray[Any, Any] | None = None

    def fit(self, X: Array, y: Array | None, weight: Array, seed: int) -> None:
        """Fit the estimator here.

        Parameters
        ----------
        X : array of shape (n, d)
        y : array of shape (n,) or (n, t), or None
        weight : array of shape (n,)
            A row of weight 0 is no row.
        seed : int in [0, 2**31)

        Raises
        ------
        UserValueError
            Data that the library refuses, in its words, in one line.
        """
        there = weight > 0
        if not there.all():
            X, y, weight = X[there], None if y is None else y[there], weight[there]
        _require_two_classes(self.estimator, y)
        # weights that are all 1 change nothing but the path through the library
        options = {} if (weight == 1).all() else {"sample_weight": weight.astype(np.float64)}
        settings: dict[str, Any] = {"random_state": seed, "n_jobs": current_context().threads}
        known = self.estimator.get_params()
        self.estimator.set_params(**{name: value for name, value in settings.items() if name in known})
        with warnings.catch_warnings(record=True) as caught, _global_state_kept():
            warnings.simplefilter("always")
            try:
                self.grow(X, y, options)
            except ValueError as error:
                raise UserValueError(
                    " ".join(str(error).split())[:200], "fit", "change the data or the parameters"
                ) from None
        if "n_jobs" in known:
            self.estimator.set_params(n_jobs=None)  # what is saved and predicted depends on no thread
        _tell(caught)
        self._content = None

    def grow(self, X: Array, y: Array | None, options: Mapping[str, Any]) -> None:
        """Call the estimator's own fit."""
        self.estimator.fit(X, y, **options)

    def reached(self) -> tuple[int, int]:
        """How much of the fit under way is done, of how much: trees that are grown; (0, 0) where that is not known."""
        return 0, 0

    def rows(self, X: Array) -> Array:
        """Rows as the estimator takes them."""
        return X

    def numbers(self, answer: Any) -> Array:
        """Predicted numbers of a regression as they are given out."""
        return np.asarray(answer, np.float64)

    def ask_estimator(self, verb: str, X: Array) -> Any:
        """What a method of the estimator says about rows."""
        return getattr(self.estimator, verb)(self.rows(X))

    def state(self) -> dict[str, Array]:
        """The estimator as an array of bytes; nothing before the fit."""
        if self._content is None:
            if not hasattr(self.estimator, "n_features_in_"):
                return {}
            self._content = np.frombuffer(dumps(self.estimator), np.uint8)
        return {"estimator": self._content}

    def load(self, state: Mapping[str, Array]) -> None:
        """Take over an estimator of this kind; bytes of another are refused."""
        content = np.ascontiguousarray(state["estimator"])
        if content.dtype != np.uint8 or content.ndim != 1:
            raise ValueError(f"estimator is {content.dtype} of shape {content.shape}, not bytes")
        estimator = loads(content.tobytes(), self.types)
        if type(estimator) is not type(self.estimator):
            raise UserValueError(
                f"estimator is a {type(estimator).__name__}, not a {type(self.estimator).__name__}", "estimator",
                "the file is foreign: fit again",
            )  # fmt: skip
        self.estimator, self._content = estimator, content


@contextmanager
def _global_state_kept() -> Iterator[None]:
    """Leave NumPy's global generator as it was found: some estimators draw from it whatever their seed."""
    state = np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002


def _require_two_classes(estimator: Any, y: Array | None) -> None:
    if y is not None and is_classifier(estimator) and (y == y[0]).all():
        raise UserValueError(
            "only one class is left among the rows whose weight is not 0", "sample_weight",
            "a classifier needs at least 2 classes",
        )  # fmt: skip


def _tell(caught: list[warnings.WarningMessage]) -> None:
    """Pass warnings on, each in one line; what only a developer of the library would change stays unsaid."""
    for one in caught:
        if issubclass(one.category, DeprecationWarning | PendingDeprecationWarning):
            continue
        text = " ".join(str(one.message).split())
        if issubclass(one.category, ConvergenceWarning):
            text = f"the fit stopped before it converged: {text[:120]}"
        warnings.warn(text, one.category, stacklevel=2)


def seed_for(noise: Noise) -> int:
    """A seed that the library takes, from the address ``library`` of the fit."""
    return int(noise.child("library").integers(SEEDS, (1,))[0])


class Library(System):
    """Base of a System that wraps an estimator; it stands before `Classifier` or `Regressor` among the bases.

    A subclass gives `make_estimator`, the unfitted estimator with its hyper-parameters, and `types`, what it is saved
    as.
    """

    model_class: ClassVar[type] = LibraryModel
    types: ClassVar[tuple[str, ...]] = ()

    def make_estimator(self, n_features: int) -> Any:
        """The unfitted estimator of scikit-learn."""
        raise NotImplementedError

    def make(self, *_: Any, **arguments: Any) -> LibraryModel:
        return self.model_class(self.make_estimator(arguments["n_features"]), self.types)

    def procedure(self, examples: Any) -> Procedure:
        def fit(problem: Problem) -> None:
            problem.model.fit(examples.X, examples.y, examples.weight, seed_for(problem.noise))

        return OnFirst(fit)

    def problem(
        self, model: LibraryModel, examples: Any, noise: Noise, group: Group, validation: Any = None
    ) -> Problem:
        return Problem(model, examples, noise, group)


class LibraryClassifier(Library, Classifier):
    """A classifier of scikit-learn that gives probabilities."""

    def class_log_proba(self, rows: Array) -> Array:
        with np.errstate(divide="ignore"):  # a leaf may rule a class out
            log_p: Array = np.log(self.class_proba(rows))
        return log_p

    def class_proba(self, rows: Array) -> Array:
        estimator = self.model_.estimator
        known = np.asarray(self.model_.ask_estimator("predict_proba", rows)).astype(rows.dtype, copy=False)
        if known.shape[1] == len(self.classes_):
            return known
        # a class all of whose rows have weight 0 is unknown to the library
        proba = np.zeros((len(rows), len(self.classes_)), rows.dtype)
        proba[:, estimator.classes_] = known
        return proba


class LogitClassifier(LibraryClassifier):
    """One whose probabilities are the logistic function, or the softmax, of the estimator's ``decision_function``."""

    def class_log_proba(self, rows: Array) -> Array:
        """From the scores: far from the boundary a probability rounds to 0, and its logarithm would be -inf."""
        scores = np.asarray(self.model_.ask_estimator("decision_function", rows))
        if scores.ndim == 1:
            scores = np.column_stack([np.zeros_like(scores), scores])
        known: Array = log_softmax(scores, 1).astype(rows.dtype, copy=False)
        if known.shape[1] == len(self.classes_):
            return known
        log_p = np.full((len(rows), len(self.classes_)), -np.inf, rows.dtype)
        log_p[:, self.model_.estimator.classes_] = known
        return log_p


class LibraryRegressor(Library, Regressor):
    """A regression of scikit-learn."""

    def predict_rows(self, rows: Array) -> Array:
        model: LibraryModel = self.model_
        return model.numbers(model.ask_estimator("predict", rows))
