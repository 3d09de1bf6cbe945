"""Cells that are not known: what a density says of them given the others of their row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from gnomon.contracts import Array
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.score import Score
from gnomon.inference.exact.cells import CellMoments
from gnomon.numeric.noise import Noise, seed_of
from gnomon.numeric.sparse import in_full, is_sparse

__all__ = ["HOW", "Cells", "FillsExactly", "FillsGaps", "Imputed", "TakesGaps", "check_choice", "truths"]

Mask = NDArray[np.bool_]
HOW = ("mean", "mode", "sample", "deviation")


class Cells(NamedTuple):
    """What a system says of missing cells, in the columns' own units.

    Attributes
    ----------
    values, deviation : arrays of shape (n, d)
        Means, or a draw, which has no deviation.
    exact : bool, or bool array of shape (n,)
        Whether they are those of the model, or an estimate.
    note : str
        How they were found.
    """

    values: Array
    deviation: Array | None
    exact: Any
    note: str


@dataclass(frozen=True)
class Imputed:
    """Rows with their missing cells filled in, and what the numbers are.

    Parameters
    ----------
    values : array of shape (n, d)
        Known cells as they were.
    kind : str array of shape (n,)
        ``exact`` or ``estimate`` of each row; rows without missing cells are exact.
    note : str
        How they were found.
    """

    values: Array
    kind: NDArray[np.str_]
    note: str = ""


class TakesGaps:
    """Base of what answers rows with missing cells, NaN or given by a mask."""

    def _gaps(self, X: Any, mask: Any) -> tuple[Array, Mask]:
        """Rows with 0 for what is missing, and where that is."""
        check_is_fitted(self)
        known, missing = _without_nan(X)
        if mask is not None:
            also = truths(mask, np.shape(known))
            missing = also if missing is None else missing | also
        if missing is None:
            rows = in_full(self._rows(X))  # type: ignore[attr-defined]
            return rows, np.zeros(rows.shape, np.bool_)
        rows = np.array(in_full(self._rows(known)))  # type: ignore[attr-defined]
        if rows.shape != missing.shape:
            what = "cells of encoded columns have no numbers of their own that could be missing"
            raise UserTypeError(what, "X", "fit the model to numbers")
        rows[missing] = 0
        return rows, missing

    def _log_units_seen(self, rows: Array, missing: Mask) -> Any:
        """What the log density of the known cells is larger by than in their own units, for each row."""
        return self._log_units(np.where(missing, np.nan, rows))  # type: ignore[attr-defined]


class FillsGaps(TakesGaps):
    """Beside a system that says what missing cells are given the known ones of their row.

    The model has ``cells`` and ``draw_cells`` in closed form; a system that finds them otherwise gives `cells_given`
    and `cells_drawn`.
    """

    def impute(self, X: Any, mask: Any = None, *, how: str = "mean", random_state: Any = None) -> Array:
        """X with each missing cell replaced by what the model says of it given the known cells of its row.

        Parameters
        ----------
        X : array of shape (n, n_features)
            NaN where a cell is missing.
        mask : bool array of shape (n, n_features), optional
            Further cells that are missing, whatever they hold.
        how : {"mean", "mode", "sample", "deviation"}
            The conditional mean (of bits the probability of a 1), the likelier value of each bit, one joint draw of the
            missing cells, or the conditional standard deviation of each, 0 where the cell is known.
        random_state : int, Generator or None
            Of what is drawn.

        Returns
        -------
        array of shape (n, n_features)
            Known cells as they were.

        Raises
        ------
        UserValueError
            An unknown choice, a mode of real numbers.
        """
        return self.imputed(X, mask, how=how, random_state=random_state).values

    def imputed(self, X: Any, mask: Any = None, *, how: str = "mean", random_state: Any = None) -> Imputed:
        """What `impute` gives, and of each row whether it is exact or an estimate. Parameters as of `impute`."""
        return self._imputed(X, mask, how, random_state)

    def conditional_sample(self, X: Any, mask: Any = None, *, random_state: Any = None) -> Array:
        """X with the missing cells of each row drawn given the known ones; repeat a row to see how far draws differ.

        Parameters as of `impute`.
        """
        return self.impute(X, mask, how="sample", random_state=random_state)

    def evaluate_observed(self, X: Any, mask: Any = None) -> Score:
        """Mean log probability (or density) of the known cells of rows in nats, of each row in ``pointwise``.

        It says what it is: exact where there is `log_prob_observed`, else an estimate or a bound with its error.
        Parameters as of `impute`.
        """
        rows, missing = self._gaps(X, mask)
        space = f"{self.outcomes.space(self.n_features_in_)}, known cells"  # type: ignore[attr-defined]
        if hasattr(self, "log_prob_observed"):
            return Score.from_pointwise(self.log_prob_observed(X, mask), data_space=space)
        values, facts = self.observed_estimate(rows, missing)
        return Score.from_pointwise(values - self._log_units_seen(rows, missing), data_space=space, **facts)

    # --- what a system may say ----------------------------------------------------------------------------------------

    def observed_estimate(self, rows: Array, missing: Mask) -> tuple[Array, dict[str, Any]]:
        """Log density of the known cells where it is not exact, and its kind, error and note.

        Raises
        ------
        UserTypeError
            A system that has none.
        """
        what = f"{self.name} has no density of the known cells of a row"  # type: ignore[attr-defined]
        raise UserTypeError(what, "X", "fill the gaps by impute, and evaluate complete rows")

    def cells_given(self, rows: Array, missing: Mask, noise: Noise) -> Cells:
        """Mean and deviation of each missing cell given the known ones, in the columns' own units."""
        found: CellMoments = self.model_.cells(rows, missing)  # type: ignore[attr-defined]
        return self._in_own_units(found, True, "closed form")

    def cells_drawn(self, rows: Array, missing: Mask, noise: Noise) -> Cells:
        """The rows with a joint draw of the missing cells of each, in the columns' own units."""
        drawn = self._in_units(self.model_.draw_cells(rows, missing, noise))  # type: ignore[attr-defined]
        return Cells(drawn, None, True, "independent draws")

    def _in_own_units(self, found: CellMoments, exact: Any, note: str) -> Cells:
        deviation = np.sqrt(found.variance)
        spread = self._in_units(deviation) - self._in_units(0 * deviation)  # type: ignore[attr-defined]
        return Cells(self._in_units(found.mean), spread, exact, note)  # type: ignore[attr-defined]

    # --- one way through ----------------------------------------------------------------------------------------------

    def _imputed(self, X: Any, mask: Any, how: str, random_state: Any, **options: Any) -> Imputed:
        check_choice("how", how, HOW)
        rows, missing = self._gaps(X, mask)
        if how == "mode":
            self._check_bits()
        noise = Noise(seed_of(random_state), "impute")
        found = (self.cells_drawn if how == "sample" else self.cells_given)(rows, missing, noise, **options)
        known, values = self._in_units(rows), found.values  # type: ignore[attr-defined]
        if how == "deviation":
            known, values = 0 * rows, found.deviation
        elif how == "mode":
            values = values > 0.5
        filled = np.asarray(np.where(missing, values, known), rows.dtype)
        kind = np.where(missing.any(1) & ~np.asarray(found.exact), "estimate", "exact")
        return Imputed(filled, kind, found.note)

    def _check_bits(self) -> None:
        """Refuse the likelier of two values for columns that hold others."""
        if getattr(self.outcomes, "view", "") != "binary":  # type: ignore[attr-defined]
            raise UserValueError("how must be mean, sample or deviation for real columns, got 'mode'", "how")


class FillsExactly(FillsGaps):
    """Beside a system whose model has ``cells`` and ``draw_cells`` in closed form."""

    def log_prob_observed(self, X: Any, mask: Any = None) -> Array:
        """Exact log probability (or density) of the known cells of each row in nats, the missing ones summed out.

        A row without known cells has 0. Parameters as of `impute`.
        """
        rows, missing = self._gaps(X, mask)
        log_prob = self.model_.cells(rows, missing).log_prob  # type: ignore[attr-defined]
        return np.asarray(log_prob - self._log_units_seen(rows, missing))


def truths(mask: Any, shape: tuple[int, ...]) -> Mask:
    """A mask of the shape of the rows."""
    try:
        also = np.asarray(mask)
    except ValueError:
        also = np.empty(0)  # of rows of several lengths
    if also.shape != shape or also.dtype.kind not in "bui":
        what = f"mask must be truth values of shape {shape}, got {also.dtype} of shape {also.shape}"
        raise UserValueError(what, "mask")
    return np.asarray(also != 0)


def _without_nan(X: Any) -> tuple[Any, Mask | None]:
    """A table with 0 in place of NaN, and where that is; None where nothing is missing."""
    if hasattr(X, "isna"):
        missing = X.isna().to_numpy()
        try:
            return (X.fillna(0), missing) if missing.any() else (X, None)
        except (TypeError, ValueError):  # columns of bits or of names that know what they may hold
            return _without_nan(X.astype(object).where(~missing, None).to_numpy())
    if is_sparse(X):
        X = in_full(X)
    if not isinstance(X, np.ndarray | list | tuple):
        return X, None
    try:
        known = np.array(X, np.float64 if getattr(X, "dtype", np.dtype(object)).kind == "O" else None)
    except (TypeError, ValueError):
        return X, None  # no numbers: the domain says what is wrong
    if known.dtype.kind != "f" or not np.isnan(known).any():
        return X, None
    missing = np.isnan(known)
    known[missing] = 0
    return known, missing


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuse a value that is none of the choices."""
    if value not in choices:
        raise UserValueError.must(name, f"be one of {', '.join(choices)}", value)
