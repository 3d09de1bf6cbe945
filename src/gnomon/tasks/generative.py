"""The verbs that every model of a density has, each answer with what it is: exact, an estimate, or a bound."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array
from gnomon.distributions.arrays import Floats
from gnomon.errors import UserTypeError, UserValueError, counted
from gnomon.system.gaps import FillsGaps
from gnomon.system.unlabeled import TakesUnlabeled
from gnomon.tasks.row_scores import row_scores

__all__ = ["Generative", "Stated", "generative"]


@dataclass(frozen=True)
class Stated:
    """Numbers that say what they are.

    Parameters
    ----------
    values : array
        Rows, or a number for each row.
    kind : str array of shape (n,)
        Of each row: ``exact``, ``estimate``, ``lower bound``, ``upper bound``, or ``up to a constant``.
    quantity : str
        What the values are.
    error : float, in [0, inf)
        Error that the values have in common, such as that of log Z; 0 where there is none.
    note : str
        How they were found.
    labels : array of shape (n,), optional
        Of drawn rows, from models of rows and labels.
    """

    values: Array
    kind: NDArray[np.str_]
    quantity: str
    error: float = 0.0
    note: str = ""
    labels: Array | None = None

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def is_exact(self) -> bool:
        """Whether all of them are."""
        return bool((self.kind == "exact").all())

    def __str__(self) -> str:
        kinds = ", ".join(sorted(set(self.kind.tolist())))
        return f"{self.quantity} of {counted(len(self), 'row')}: {kinds}" + (f" ({self.note})" if self.note else "")


class Generative:
    """One contract for models of densities: rows are drawn and scored, gaps filled in, rows without labels learned.

    Parameters
    ----------
    system : System
        With the task ``density``, or a classifier whose model is a density of rows and labels.

    Raises
    ------
    UserTypeError
        A system without a density of rows.

    Examples
    --------
    >>> import gnomon
    >>> X = np.random.default_rng(0).normal(size=(200, 2)) * [1.0, 2.0] + [0.0, 1.0]
    >>> model = generative(gnomon.GaussianMixture(n_components=1, random_state=0)).fit(X)
    >>> print(model.log_prob([[0.5, np.nan]]))
    log density of known cells of 1 row: exact
    >>> found = model.impute([[0.5, np.nan]])
    >>> found.kind.tolist(), model.sample(3, random_state=0).values.shape
    (['exact'], (3, 2))
    """

    def __init__(self, system: Any) -> None:
        if not isinstance(system, FillsGaps):
            what = (
                f"generative models draw, score and fill in rows, got {getattr(system, 'name', type(system).__name__)}"
            )
            raise UserTypeError(what, "system", "choose one of the task density: gnomon list --task density")
        self.system: Any = system

    @property
    def learns_from_unlabeled(self) -> bool:
        """Whether labels count in a fit, so that rows without one are told apart."""
        return isinstance(self.system, TakesUnlabeled)

    def fit(self, X: Any, y: Any = None, **options: Any) -> Self:
        """Fit to rows with labels of which any may be missing: -1, None or NaN.

        A model of rows and labels learns from all of them; a model of rows alone takes the rows of each, whatever their
        label.

        Parameters
        ----------
        X : array of shape (n, n_features)
        y : array of shape (n,), optional
        **options
            Of the system's ``fit``.
        """
        if not self.learns_from_unlabeled:
            self.system.fit(X, **options)
            return self
        if y is None:
            what = f"y must be the labels that are known, None for the others, since {self.system.name} has classes"
            raise UserValueError(what, "y", "label some rows, or fit a density of rows: gaussian-mixture, say")
        self.system.fit(X, y, **options)
        return self

    def sample(self, n: int = 1, *, random_state: Any = None) -> Stated:
        """n rows; independent draws are exact, ends of chains an estimate of draws."""
        drawn = self.system.sample(n, random_state=random_state)
        rows, labels = drawn if isinstance(drawn, tuple) else (drawn, None)
        steps = inspect.signature(self.system.sample).parameters.get("steps")
        kind = "exact" if steps is None else "estimate"
        note = "independent draws" if steps is None else f"ends of chains of {steps.default} steps"
        return Stated(rows, np.full(len(rows), kind), "draws", 0.0, note, labels)

    def log_prob(self, X: Any, mask: Any = None) -> Stated:
        """Log density (or probability) of each row in nats, of its known cells where some are missing.

        Parameters
        ----------
        X : array of shape (n, n_features)
            NaN where a cell is missing.
        mask : bool array of shape (n, n_features), optional
            Further cells that are missing.

        Returns
        -------
        Stated
            Kind ``exact`` where log Z and all sums are; a ``lower bound`` or an ``estimate`` with its error; of models
            without either the negative energy, ``up to a constant``.
        """
        if mask is None and not _has_gaps(self.system, X):
            found = row_scores(self.system, X)
            assert found is not None
            stated = np.full(len(found.values), found.kind)
            return Stated(found.values, stated, found.quantity, found.error, found.note)
        score = self.system.evaluate_observed(X, mask)
        values: Floats = np.asarray(score.pointwise, np.float64)
        what = "density" if score.data_space.startswith("density") else "probability"
        kind = np.full(len(values), score.kind)
        return Stated(values, kind, f"log {what} of known cells", score.error, score.note)

    def impute(
        self, X: Any, mask: Any = None, *, how: str = "mean", n_draws: int | None = None, random_state: Any = None
    ) -> Stated:
        """Rows with their missing cells filled in: conditional means, modes, draws or deviations, and what they are.

        Parameters
        ----------
        X, mask
            As of `log_prob`.
        how : {"mean", "mode", "sample", "deviation"}
        n_draws : int, in [1, inf), optional
            So many draws of each row, arrays (n_draws, n, n_features), in place of one answer.
        random_state : int, Generator or None
        """
        found = self.system.imputed(X, mask, how=how, n_draws=n_draws, random_state=random_state)
        what = how if n_draws is None else counted(n_draws, "draw")
        return Stated(found.values, found.kind, f"missing cells, {what}", 0.0, found.note)

    def conditional(self, X: Any, mask: Any = None, *, n_draws: int = 500, random_state: Any = None) -> Any:
        """The joint distribution of the missing cells of each row given its known ones.

        Parameters
        ----------
        X, mask
            As of `log_prob`.
        n_draws : int, in [2, inf), default 500
            Draws of rows whose distribution has no closed form and more than 2^12 states.
        random_state : int, Generator or None

        Returns
        -------
        ConditionalCells
            `gnomon.system.conditional_cells.ConditionalCells`: mean, covariance, kind and distribution of each row.
        """
        return self.system.conditional_distribution(X, mask, n_draws=n_draws, random_state=random_state)

    def denoise(
        self, X: Any, corruption: Any, *, method: str = "mean", steps: int = 500, random_state: Any = None
    ) -> Stated:
        """Damaged rows as they were under a known corruption, which the note names: see ``denoise`` of the system.

        Parameters
        ----------
        X : array of shape (n, n_features)
        corruption : GaussianNoise, BitFlips, or object with ``log_prob(damaged, x)``
        method : {"mean", "map"}
        steps : int, in [2, inf), default 500
        random_state : int, Generator or None
        """
        found = self.system.denoised(X, corruption, method=method, steps=steps, random_state=random_state)
        return Stated(found.values, np.full(len(found.values), found.kind), f"denoised, {method}", 0.0, found.note)


def generative(system: Any) -> Generative:
    """The verbs of a generative model around a system: see `Generative`."""
    return Generative(system)


def _has_gaps(system: Any, X: Any) -> bool:
    """Whether cells of a table are missing; behind the end of a sequence there are none."""
    if hasattr(system.domain, "frames"):
        return False
    try:
        return bool(np.isnan(np.asarray(X, np.float64)).any())
    except (TypeError, ValueError):
        return False
