"""Cells that are not known: what a density says of them given the others of their row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from gnomon.contracts import Array
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.score import Score
from gnomon.inference.exact.cells import CellMoments, NormalCells
from gnomon.numeric.noise import Noise, seed_of
from gnomon.numeric.sparse import in_full, is_sparse
from gnomon.recipes.parameters import how_many
from gnomon.system.conditional_cells import ConditionalCells, conditional_cells
from gnomon.system.denoising import Denoises

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
    values : array of shape (n, d), or (n_draws, n, d)
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


class FillsGaps(Denoises, TakesGaps):
    """Beside a system that says what missing cells are given the known ones of their row.

    The model has ``cells`` and ``draw_cells`` in closed form; a system that finds them otherwise gives `cells_given`
    and `cells_drawn`.
    """

    def impute(
        self, X: Any, mask: Any = None, *, how: str = "mean", n_draws: int | None = None, random_state: Any = None
    ) -> Array:
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
        n_draws : int, in [1, inf), optional
            So many joint draws of the missing cells of each row in place of one answer (multiple imputation).
        random_state : int, Generator or None
            Of what is drawn.

        Returns
        -------
        array of shape (n, n_features), or (n_draws, n, n_features)
            Known cells as they were.

        Raises
        ------
        UserValueError
            An unknown choice, a mode of real numbers, draws of a mode or a deviation.

        Notes
        -----
        Cells are taken to be missing at random: that they are missing may rest on the known cells of the row, not on
        what they hold (Rubin 1976). Where large values go unreported, say, answers are biased. A row without a known
        cell has the moments and the draws of the model itself.
        """
        return self.imputed(X, mask, how=how, n_draws=n_draws, random_state=random_state).values

    def imputed(
        self, X: Any, mask: Any = None, *, how: str = "mean", n_draws: int | None = None, random_state: Any = None
    ) -> Imputed:
        """What `impute` gives, and of each row whether it is exact or an estimate. Parameters as of `impute`."""
        return self._imputed(X, mask, how, random_state, n_draws)

    def conditional_sample(self, X: Any, mask: Any = None, *, random_state: Any = None) -> Array:
        """X with the missing cells of each row drawn given the known ones.

        Parameters as of `impute`, which takes ``n_draws``.
        """
        return self.impute(X, mask, how="sample", random_state=random_state)

    def conditional_distribution(
        self, X: Any, mask: Any = None, *, n_draws: int = 500, random_state: Any = None
    ) -> ConditionalCells:
        """The joint distribution of the missing cells of each row given its known ones.

        Parameters
        ----------
        X, mask
            As of `impute`.
        n_draws : int, in [2, inf), default 500
            Draws of rows that have no closed form and more than 2^12 states; they are then an estimate.
        random_state : int, Generator or None
            Of the draws.

        Returns
        -------
        ConditionalCells
            ``mean``, ``covariance`` (n, d, d), ``kind`` of each row, and by ``found[i]`` the distribution of row i:
            normal densities, a table of the states of its missing cells, or draws.

        Notes
        -----
        Memory n d^2. That cells are missing is taken to say nothing of what they hold: see `impute`.
        """
        if how_many(n_draws, "n_draws") < 2:
            raise UserValueError.must("n_draws", "be at least 2", n_draws)
        rows, missing = self._gaps(X, mask)
        return conditional_cells(self, rows, missing, Noise(seed_of(random_state), "impute"), n_draws)

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

    def normal_density(self) -> NormalCells | None:
        """The density of rows in the columns' own units as a mixture of normal ones; None where it is none."""
        find = getattr(self.model_, "normal_cells", None)  # type: ignore[attr-defined]
        return None if find is None else self._normals_in_units(find(), self._in_units)  # type: ignore[attr-defined]

    def column_states(self) -> int | None:
        """How many values 0, 1, ... each cell may have; None of real columns."""
        return 2 if getattr(self.outcomes, "view", "") == "binary" else None  # type: ignore[attr-defined]

    def complete_log_density(self, rows: Array) -> Array | None:
        """Log density of complete rows of the model but for a constant that they share; None without a closed form."""
        log_prob = getattr(self.model_, "log_prob", None)  # type: ignore[attr-defined]
        return None if log_prob is None else log_prob(rows)

    def _normals_in_units(self, normals: NormalCells | None, in_units: Callable[[Array], Array]) -> NormalCells | None:
        """The normal densities in other units, to which rows are brought column by column."""
        if normals is None:
            return None
        shift = in_units(np.zeros((1, normals.means.shape[1])))[0]
        return normals.in_units(shift, in_units(np.ones((1, normals.means.shape[1])))[0] - shift)

    def _in_own_units(self, found: CellMoments, exact: Any, note: str) -> Cells:
        deviation = np.sqrt(found.variance)
        spread = self._in_units(deviation) - self._in_units(0 * deviation)  # type: ignore[attr-defined]
        return Cells(self._in_units(found.mean), spread, exact, note)  # type: ignore[attr-defined]

    # --- one way through ----------------------------------------------------------------------------------------------

    def _imputed(
        self, X: Any, mask: Any, how: str, random_state: Any, n_draws: int | None = None, **options: Any
    ) -> Imputed:
        check_choice("how", how, HOW)
        if n_draws is not None:
            return self._drawn(X, mask, how, random_state, n_draws, options)
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

    def _drawn(self, X: Any, mask: Any, how: str, random_state: Any, n_draws: int, options: dict[str, Any]) -> Imputed:
        """Several draws of each row: those of a row do not depend on the rows beside it."""
        if how_many(n_draws, "n_draws") < 1:
            raise UserValueError.must("n_draws", "be at least 1", n_draws)
        if how not in ("mean", "sample"):
            raise UserValueError.must("how", "be mean or sample where n_draws are asked for", how)
        rows, missing = self._gaps(X, mask)
        many, lacks = np.repeat(rows, n_draws, axis=0), np.repeat(missing, n_draws, axis=0)
        found = self.cells_drawn(many, lacks, Noise(seed_of(random_state), "impute"), **options)
        filled = np.asarray(np.where(lacks, found.values, self._in_units(many)), rows.dtype)  # type: ignore[attr-defined]
        exact = np.broadcast_to(np.asarray(found.exact), len(many)).reshape(-1, n_draws).all(1)
        kind = np.where(missing.any(1) & ~exact, "estimate", "exact")
        return Imputed(filled.reshape(len(rows), n_draws, -1).swapaxes(0, 1), kind, found.note)

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


def truths(mask: Any, shape: tuple[int, ...], name: str = "mask") -> Mask:
    """A mask of the shape of the rows."""
    try:
        also = np.asarray(mask)
    except ValueError:
        also = np.empty(0)  # of rows of several lengths
    if also.shape != shape or also.dtype.kind not in "bui":
        what = f"{name} must be truth values of shape {shape}, got {also.dtype} of shape {also.shape}"
        raise UserValueError(what, name)
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
