"""Cells that are not known: what a machine says of them given the others of their row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from gnomon.contracts import Array
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.arrays import to_numpy
from gnomon.inference.blocks import bits, smallest_keep
from gnomon.inference.exact.enumeration import log_evidence
from gnomon.inference.exact.moments import posterior_moments, variance_of
from gnomon.inference.mcmc.gibbs import gibbs, mean_field
from gnomon.numeric.noise import Noise, seed_of
from gnomon.numeric.sparse import in_full, is_sparse
from gnomon.recipes.parameters import how_many
from gnomon.systems.energy.given import Given, given_columns

__all__ = ["METHODS", "FillsGaps", "check_choice"]

EXACT_GAPS = 12
"""log2 of the states that are enumerated for the moments of a row's missing cells."""
EXACT_SEEN = 20
"""log2 of the states that are enumerated for the probability of a row's known cells."""
HOW = ("mean", "mode", "sample", "deviation")
METHODS = ("auto", "exact", "mean_field", "gibbs")

Moments = tuple[NDArray[np.float64], NDArray[np.float64]]


class FillsGaps:
    """Beside a system around a machine of layers: rows with missing cells, NaN or given by a mask."""

    def impute(
        self,
        X: Any,
        mask: Any = None,
        *,
        how: str = "mean",
        method: str = "auto",
        steps: int = 500,
        random_state: Any = None,
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
        method : {"auto", "exact", "mean_field", "gibbs"}
            Enumeration of at most 2^12 states of the missing bits, or of the hidden units where these are fewer;
            independent cells and hidden units that come closest; averages along a chain with the known cells held.
            Auto is exact where it can be, else a chain. A draw always ends a chain.
        steps : int, default 500
            Sweeps of a chain, of which averages leave out the first fifth.
        random_state : int, Generator or None

        Returns
        -------
        array of shape (n, n_features)
            Known cells as they were.

        Raises
        ------
        UserValueError
            An unknown choice, a mode of real numbers, more states than can be enumerated with method="exact".
        """
        check_choice("how", how, HOW)
        check_choice("method", method, METHODS)
        rows, missing = self._gaps(X, mask)
        if how == "sample":
            return self._filled(rows, missing, self._draw(rows, missing, steps, random_state))
        if how == "mode" and not hasattr(self.model_.units["visible"], "values"):  # type: ignore[attr-defined]
            raise UserValueError("how must be mean, sample or deviation for real columns, got 'mode'", "how")
        mean, variance = self._moments(rows, missing, method, steps, random_state)
        if how == "deviation":
            spread = self.from_visible(np.sqrt(variance)) - self.from_visible(0 * variance)  # type: ignore[attr-defined]
            return self._filled(0 * rows, missing, spread)
        filled = self.from_visible(mean)  # type: ignore[attr-defined]
        return self._filled(rows, missing, filled > 0.5 if how == "mode" else filled)

    def conditional_sample(self, X: Any, mask: Any = None, *, steps: int = 500, random_state: Any = None) -> Array:
        """X with the missing cells of each row drawn given the known ones: the end of a chain that holds these.

        Repeat a row to see how far its draws differ. Parameters as of `impute`.
        """
        return self.impute(X, mask, how="sample", steps=steps, random_state=random_state)

    @available_if(lambda self: not hasattr(self, "model_") or hasattr(self.model_, "log_prob"))
    def log_prob_observed(self, X: Any, mask: Any = None) -> Array:
        """Exact log probability (or density) of the known cells of each row in nats, the missing ones summed out.

        A row without known cells has 0. There where log Z is exact.

        Parameters
        ----------
        X, mask
            As of `impute`.

        Raises
        ------
        UserValueError
            More than 2^20 states to sum over.
        """
        rows, missing = self._gaps(X, mask)
        rows = self.outcomes.check(rows)  # type: ignore[attr-defined]
        values, gaps = self._visible_cells(rows, missing)
        log_z = self.log_partition("exact").value - self._log_volume  # type: ignore[attr-defined]
        found = np.zeros(len(rows))
        for pattern, at in _patterns(gaps):
            if not pattern.all():
                given = given_columns(self.model_, ~pattern)  # type: ignore[attr-defined]
                _check_states(given, EXACT_SEEN, "fewer cells may be missing")
                found[at] = log_evidence(given.machine, given.state(values[at]), limit=EXACT_SEEN) - log_z
        return found - (~missing) @ self._log_volumes  # type: ignore[attr-defined]

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _gaps(self, X: Any, mask: Any) -> tuple[Array, NDArray[np.bool_]]:
        """Rows with 0 for what is missing, and where that is."""
        check_is_fitted(self)
        known, missing = _without_nan(X)
        if mask is not None:
            try:
                also = np.asarray(mask)
            except ValueError:
                also = np.empty(0)  # of rows of several lengths
            if also.shape != np.shape(known) or also.dtype.kind not in "bui":
                what = f"mask must be truth values of shape {np.shape(known)}, got {also.dtype} of shape {also.shape}"
                raise UserValueError(what, "mask")
            missing = np.asarray(also != 0) if missing is None else missing | (also != 0)
        if missing is None:
            rows = self._rows(X)  # type: ignore[attr-defined]
            return rows, np.zeros(rows.shape, np.bool_)
        rows = np.array(self._rows(known))  # type: ignore[attr-defined]
        if rows.shape != missing.shape:
            what = "cells of encoded columns have no numbers of their own that could be missing"
            raise UserTypeError(what, "X", "fit the model to numbers")
        rows[missing] = 0
        return rows, missing

    def _visible_cells(self, rows: Array, missing: Any) -> tuple[Any, Any]:
        """States of the visible layer, in the model's units, and which of its columns are not known."""
        kind = self.model_.units["visible"]  # type: ignore[attr-defined]
        if kind.n_features != kind.size:
            what = f"{type(self).__name__} cannot fill in cells: its couplings see more of a column than its value"
            raise UserTypeError(what, "X", "fill them with gaussian-rbm or ppca")
        return self._scaled(rows), missing  # type: ignore[attr-defined]

    @staticmethod
    def _filled(rows: Array, missing: NDArray[np.bool_], values: Array) -> Array:
        """The rows with these values where cells are missing."""
        return np.asarray(np.where(missing, values, rows), rows.dtype)

    # --- the missing cells --------------------------------------------------------------------------------------------

    def _draw(self, rows: Array, missing: NDArray[np.bool_], steps: int, random_state: Any) -> Array:
        values, gaps = self._visible_cells(rows, missing)
        chain = _Chain(self.model_, values, gaps, Noise(seed_of(random_state), "impute"))  # type: ignore[attr-defined]
        return self.from_visible(chain.end(how_many(steps, "steps")))  # type: ignore[attr-defined]

    def _moments(self, rows: Array, missing: NDArray[np.bool_], method: str, steps: int, random_state: Any) -> Moments:
        """Means and variances of the visible layer's columns given the known ones, in the model's units."""
        values, gaps = self._visible_cells(rows, missing)
        model: Any = self.model_  # type: ignore[attr-defined]
        mean: Any = np.array(values, np.float64)
        variance: Any = np.zeros(values.shape)
        left = gaps.any(1)
        for pattern, at in _patterns(gaps) if method in ("auto", "exact") else ():
            if not pattern.any():
                continue
            given = given_columns(model, ~pattern)
            if method == "exact":
                _check_states(given, EXACT_GAPS, 'use method="gibbs" or "mean_field"')
            if _bits(given) <= EXACT_GAPS:
                left[at] = False
                found = posterior_moments(given.machine, given.state(values[at]), limit=EXACT_GAPS)
                for name, columns in given.missing.items():
                    mean[np.ix_(at, columns)], variance[np.ix_(at, columns)] = found[name]
        chosen = np.flatnonzero(left)
        if not len(chosen):
            return mean, variance
        cells = values[chosen], gaps[chosen]
        if method == "mean_field":
            estimate = _by_mean_field(model, *cells)
        else:
            noise = Noise(seed_of(random_state), "impute")
            estimate = _Chain(model, *cells, noise).moments(how_many(steps, "steps"))
        for whole, part in zip((mean, variance), estimate, strict=True):
            whole[chosen] = np.where(gaps[chosen], part, whole[chosen])
        return mean, variance


def _without_nan(X: Any) -> tuple[Any, NDArray[np.bool_] | None]:
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


def _bits(given: Given) -> float:
    """log2 of the states that are enumerated for each row."""
    kept = smallest_keep(given.machine, given.seen)
    return bits(given.machine, (block for block in kept if block not in given.seen))


def _check_states(given: Given, limit: int, remedy: str) -> None:
    if _bits(given) > limit:
        what = f"the missing cells must have at most 2^{limit} states to enumerate, got 2^{_bits(given):.6g}"
        raise UserValueError(what, "X", remedy)


def _by_mean_field(model: Any, values: Array, gaps: NDArray[np.bool_]) -> Moments:
    means = mean_field(model, {"visible": (values, ~gaps)}, steps=500, tol=1e-7)
    return to_numpy(means["visible"]), variance_of(model.conditional("visible", means))


class _Chain:
    """Chains of the visible and hidden layers, one for each row, that hold the known cells."""

    def __init__(self, model: Any, values: Array, gaps: NDArray[np.bool_], noise: Noise) -> None:
        self.model, n = model, len(values)
        hidden = tuple(block for block in model.blocks if block != "visible")
        self.order = (*hidden, "visible")
        self.clamp = {"visible": (model.place(values), ~gaps)}
        self.noise = noise.rows(np.arange(n))
        like = model.place(np.zeros(0))
        start = self.noise.child("start")
        self.state: Any = {b: model.units[b].start(start.child(b), n, like) for b in self.order}

    def walk(self, steps: int, update: int = 0) -> None:
        self.state = gibbs(
            self.model, self.state, self.noise.at(update), steps=steps, order=self.order, clamp=self.clamp
        )

    def end(self, steps: int) -> NDArray[np.float64]:
        """The visible layer after so many sweeps."""
        self.walk(steps)
        return to_numpy(self.state["visible"])

    def moments(self, steps: int) -> Moments:
        """Averages of the moments of each cell given all the rest, along the chain behind its first fifth."""
        begin, sums = steps // 5, np.zeros((2, *self.clamp["visible"][1].shape))
        self.walk(begin)
        for t in range(begin, max(steps, 1)):
            self.walk(1, t + 1)
            one = self.model.conditional("visible", self.state)
            mean = to_numpy(one.mean)
            sums += mean, variance_of(one) + mean * mean
        mean, square = sums / (max(steps, 1) - begin)
        return mean, np.maximum(square - mean * mean, 0.0)


def _patterns(gaps: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.int64]]]:
    """Each pattern of missing cells, and its rows."""
    patterns, which = np.unique(gaps, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        yield np.asarray(pattern), np.flatnonzero(which.ravel() == number)


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuse a value that is none of the choices."""
    if value not in choices:
        raise UserValueError.must(name, f"be one of {', '.join(choices)}", value)
