"""Cells that are not known: what a machine says of them given the others of their row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.utils.metaestimators import available_if

from gnomon import contracts
from gnomon.contracts import Array
from gnomon.distributions.bernoulli import Bernoulli
from gnomon.distributions.units import BernoulliUnits, GaussianUnits
from gnomon.errors import UserValueError
from gnomon.inference.arrays import to_numpy
from gnomon.inference.blocks import bits, coupled_blocks, smallest_keep
from gnomon.inference.exact.cells import NormalCells, observed_by_quadrature, patterns
from gnomon.inference.exact.enumeration import log_evidence
from gnomon.inference.exact.moments import posterior_moments, variance_of
from gnomon.inference.mcmc.gibbs import beside, gibbs, mean_field
from gnomon.recipes.parameters import how_many
from gnomon.system import gaps
from gnomon.system.gaps import Cells, Imputed, check_choice
from gnomon.systems.energy.given import Given, given_columns

__all__ = ["METHODS", "FillsMachineGaps", "check_choice"]

EXACT_GAPS = 12
"""log2 of the states that are enumerated for the moments of a row's missing cells."""
EXACT_SEEN = 20
"""log2 of the states that are enumerated for the probability of a row's known cells."""
FEW_STATES = 1 << 10
"""States of hidden units of which each gives a normal density."""
METHODS = ("auto", "exact", "mean_field", "gibbs")

Mask = NDArray[np.bool_]
Moments = tuple[NDArray[np.float64], NDArray[np.float64]]


class FillsMachineGaps(gaps.FillsGaps):
    """Beside a system around a machine of layers: rows with missing cells, NaN or given by a mask."""

    def impute(
        self,
        X: Any,
        mask: Any = None,
        *,
        how: str = "mean",
        n_draws: int | None = None,
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
        n_draws : int, in [1, inf), optional
            So many joint draws of each row, ends of chains of their own, in place of one answer.
        method : {"auto", "exact", "mean_field", "gibbs"}
            Enumeration of at most 2^12 states of the missing bits, or of the hidden units where these are fewer;
            independent cells and hidden units that come closest; averages along a chain with the known cells held.
            Auto is exact where it can be, else a chain. A draw always ends a chain.
        steps : int, default 500
            Sweeps of a chain, of which averages leave out the first fifth.
        random_state : int, Generator or None

        Returns
        -------
        array of shape (n, n_features), or (n_draws, n, n_features)
            Known cells as they were.

        Raises
        ------
        UserValueError
            An unknown choice, a mode of real numbers, more states than can be enumerated with method="exact".
        """
        found = self.imputed(X, mask, how=how, n_draws=n_draws, method=method, steps=steps, random_state=random_state)
        return found.values

    def imputed(
        self,
        X: Any,
        mask: Any = None,
        *,
        how: str = "mean",
        n_draws: int | None = None,
        method: str = "auto",
        steps: int = 500,
        random_state: Any = None,
    ) -> Imputed:
        """What `impute` gives, and of each row whether it is exact or an estimate. Parameters as of `impute`."""
        check_choice("how", how, gaps.HOW)
        check_choice("method", method, METHODS)
        return self._imputed(X, mask, how, random_state, n_draws, method=method, steps=steps)

    def conditional_sample(self, X: Any, mask: Any = None, *, steps: int = 500, random_state: Any = None) -> Array:
        """X with the missing cells of each row drawn given the known ones: the end of a chain that holds these.

        Parameters as of `impute`, which takes ``n_draws``.
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
            More than 2^20 states to sum over; more than two columns to integrate over where these depend on each other.
        """
        rows, missing = self._gaps(X, mask)
        rows = self.outcomes.check(rows)  # type: ignore[attr-defined]
        values, gap = self._visible_cells(rows, missing)
        found = np.where(gap.all(1), 0.0, self._log_evidence(values, gap))
        volumes = (~missing) @ self._log_volumes  # type: ignore[attr-defined]
        return np.asarray(found - volumes - self._log_units_seen(rows, missing))

    def observed_estimate(self, rows: Array, missing: Mask) -> tuple[Array, dict[str, Any]]:
        values, gap = self._visible_cells(self.outcomes.check(rows), missing)  # type: ignore[attr-defined]
        log_z = self.log_partition()  # type: ignore[attr-defined]
        masses = _log_masses(self.model_, values, gap) - log_z.value + self._log_volume  # type: ignore[attr-defined]
        found = np.where(gap.all(1), 0.0, masses) - (~missing) @ self._log_volumes  # type: ignore[attr-defined]
        return found, {"kind": "estimate", "error": log_z.error, "note": log_z.note}

    def _log_evidence(self, values: Array, gap: Mask) -> NDArray[np.float64]:
        """Log probability of the known columns of states of the visible layer, in its units."""
        model: Any = self.model_  # type: ignore[attr-defined]
        normals = _few_normals(model) if _sees_more(model) else None
        if normals is not None:
            return normals.moments(values, gap).log_prob
        log_z = self.log_partition("exact").value - self._log_volume  # type: ignore[attr-defined]
        return _log_masses(model, values, gap) - log_z

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _visible_cells(self, rows: Array, missing: Any) -> tuple[Any, Any]:
        """States of the visible layer, in the model's units, and which of its columns are not known."""
        return self._scaled(rows), missing  # type: ignore[attr-defined]

    # --- the missing cells --------------------------------------------------------------------------------------------

    def cells_given(
        self, rows: Array, missing: Mask, noise: contracts.Noise, *, method: str = "auto", steps: int = 500
    ) -> Cells:
        mean, variance, exact = self._moments(rows, missing, method, steps, noise)
        spread = self.from_visible(np.sqrt(variance)) - self.from_visible(0 * variance)  # type: ignore[attr-defined]
        how = "independent cells that come closest" if method == "mean_field" else f"chains of {steps} sweeps"
        return Cells(self.from_visible(mean), spread, exact, "enumeration" if exact.all() else how)  # type: ignore[attr-defined]

    def cells_drawn(
        self, rows: Array, missing: Mask, noise: contracts.Noise, *, method: str = "auto", steps: int = 500
    ) -> Cells:
        values, gap = self._visible_cells(rows, missing)
        chain = _Chain(self.model_, values, gap, noise)  # type: ignore[attr-defined]
        drawn = self.from_visible(chain.end(how_many(steps, "steps")))  # type: ignore[attr-defined]
        return Cells(drawn, None, False, f"ends of chains of {steps} sweeps")

    def normal_density(self) -> NormalCells | None:
        normals = _few_normals(self.model_) or _of_hidden_states(self.model_)  # type: ignore[attr-defined]
        return self._normals_in_units(normals, self.from_visible)  # type: ignore[attr-defined]

    def column_states(self) -> int | None:
        values = getattr(self.model_.units["visible"], "values", None)  # type: ignore[attr-defined]
        return super().column_states() if values is None or tuple(values) == (0, 1) else None

    def complete_log_density(self, rows: Array) -> Array | None:
        values, gap = self._visible_cells(rows, np.zeros(rows.shape, np.bool_))
        model: Any = self.model_  # type: ignore[attr-defined]
        if not gap.any() and set(model.units) <= {"visible", "hidden"}:
            return -to_numpy(model.energy(values))
        given = given_columns(model, ~gap[0])
        if _bits(given) > EXACT_SEEN:
            return None
        return log_evidence(given.machine, given.state(values), limit=EXACT_SEEN)

    def bits_by_state(self) -> tuple[Any, Any] | None:
        found = _by_hidden_states(self.model_, BernoulliUnits, 1 << EXACT_GAPS)  # type: ignore[attr-defined]
        return None if found is None else (found[0], to_numpy(found[1].mean).astype(np.float64))

    def tilted_bits(self, rows: Array, field: Array, noise: contracts.Noise, steps: int) -> Iterator[Any] | None:
        model: Any = self.model_  # type: ignore[attr-defined]
        if coupled_blocks(model) or not isinstance(model.units["visible"], BernoulliUnits):
            return None
        return _tilted(model, model.place(np.array(rows)), model.place(field), noise, steps)

    def _check_bits(self) -> None:
        if not hasattr(self.model_.units["visible"], "values"):  # type: ignore[attr-defined]
            raise UserValueError("how must be mean, sample or deviation for real columns, got 'mode'", "how")

    def _moments(
        self, rows: Array, missing: Mask, method: str, steps: int, noise: contracts.Noise
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], Mask]:
        """Means and variances of the visible layer's columns given the known ones, in its units; which are exact."""
        values, gap = self._visible_cells(rows, missing)
        model: Any = self.model_  # type: ignore[attr-defined]
        mean, variance, left = (_of_normals if _sees_more(model) else _enumerated)(model, values, gap, method)
        chosen = np.flatnonzero(left)
        if len(chosen):
            cells = values[chosen], gap[chosen]
            if method == "mean_field":
                estimate = _near(model, *cells)
            else:
                estimate = _Chain(model, *cells, noise).moments(how_many(steps, "steps"))
            for whole, part in zip((mean, variance), estimate, strict=True):
                whole[chosen] = np.where(gap[chosen], part, whole[chosen])
        return mean, variance, ~left


def _log_masses(model: Any, values: Array, gap: Mask) -> NDArray[np.float64]:
    """Log of the sum (or integral) of exp(-E) over missing columns and hidden units of each row; 0 without a column."""
    some, found = ~gap.all(1), np.zeros(len(values))
    if _sees_more(model):
        found[some] = observed_by_quadrature(model.energy, values[some], gap[some])
        return found
    for pattern, at in patterns(gap):
        if not pattern.all():
            given = given_columns(model, ~pattern)
            _check_states(given, EXACT_SEEN, "fewer cells may be missing")
            found[at] = log_evidence(given.machine, given.state(values[at]), limit=EXACT_SEEN)
    return found


def _sees_more(model: Any) -> bool:
    """Whether couplings see more of a column than its value: a row is normal given the hidden units, not apart."""
    kind = model.units["visible"]
    return bool(kind.n_features != kind.size)


def _of_normals(model: Any, values: Array, gap: Mask, method: str) -> tuple[Any, Any, Mask]:
    """Means, variances, and which rows are left for a chain: all or none."""
    if method == "mean_field":
        what = "independent cells do not come close where columns depend on each other given the hidden units"
        raise UserValueError(what, "method", "use auto, exact or gibbs")
    if method == "gibbs" or (method == "auto" and _few_normals(model) is None):
        return np.array(values, np.float64), np.zeros(values.shape), np.asarray(gap.any(1))
    normals = _few_normals(model)
    if normals is None:
        what = f"nothing is summed out where a {type(model).__name__} is more than 2^10 normal densities"
        raise UserValueError(what, "method", 'use method="gibbs"')
    found = normals.moments(values, gap)
    return found.mean, found.variance, np.zeros(len(values), np.bool_)


def _few_normals(model: Any) -> NormalCells | None:
    """The density as a mixture of few normal ones, where it is one."""
    found: NormalCells | None = model.normal_cells() if hasattr(model, "normal_cells") else None
    return found


def _by_hidden_states(model: Any, kind: type, most: int) -> tuple[Any, Any] | None:
    """Log weights of the states of few hidden units, and columns of a kind that are independent given these."""
    units = model.units
    if set(units) != {"visible", "hidden"} or not isinstance(units["visible"], kind):
        return None
    if coupled_blocks(model) or units["hidden"].n_states > most:
        return None
    h = {"hidden": model.place(units["hidden"].states(np.arange(units["hidden"].n_states)))}
    log_weights = to_numpy(-model.marginal_energy(h)).astype(np.float64)
    return log_weights - logsumexp(log_weights), model.conditional("visible", h)


def _of_hidden_states(model: Any) -> NormalCells | None:
    """A mixture over the states of up to 10 hidden bits, given which real columns are independent and normal."""
    found = _by_hidden_states(model, GaussianUnits, FEW_STATES)
    if found is None:
        return None
    means = to_numpy(found[1].mean).astype(np.float64)
    spread = np.eye(means.shape[1]) * np.broadcast_to(variance_of(found[1]), means.shape)[:, None]
    return NormalCells(found[0], means, spread)


def _enumerated(model: Any, values: Array, gap: Mask, method: str) -> tuple[Any, Any, Mask]:
    """Means and variances by enumeration where the states are few, and which rows are left."""
    mean: Any = np.array(values, np.float64)
    variance: Any = np.zeros(values.shape)
    left = np.asarray(gap.any(1))
    for pattern, at in patterns(gap) if method in ("auto", "exact") else ():
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
    return mean, variance, left


class _Tilted:
    """A machine times exp(field . x) of its visible bits, a field for each row, as Gibbs sampling asks for it."""

    def __init__(self, model: Any, field: Array) -> None:
        self.model, self.field = model, field
        self.blocks, self.sizes, self.units = model.blocks, model.sizes, model.units
        self.joint_energy = model.joint_energy

    def conditional(self, block: str, state: Any) -> Any:
        one = self.model.conditional(block, state)
        return Bernoulli(one.logits + self.field) if block == "visible" else one


def _tilted(model: Any, x: Any, field: Any, noise: contracts.Noise, steps: int) -> Iterator[Any]:
    """Bits and their means given all the rest after each sweep, (n, d) each; chains begin at x."""
    tilted, hidden = _Tilted(model, field), [block for block in model.blocks if block != "visible"]
    rows = noise.rows(np.arange(len(x)))
    start = rows.child("start")
    state: Any = {block: model.units[block].start(start.child(block), len(x), x) for block in hidden} | {"visible": x}
    for t in range(steps):
        state = gibbs(tilted, state, rows.at(t), order=(*hidden, "visible"))
        yield to_numpy(state["visible"]), to_numpy(tilted.conditional("visible", state).mean)


def _bits(given: Given) -> float:
    """log2 of the states that are enumerated for each row."""
    kept = smallest_keep(given.machine, given.seen)
    return bits(given.machine, (block for block in kept if block not in given.seen))


def _check_states(given: Given, limit: int, remedy: str) -> None:
    if _bits(given) > limit:
        what = f"the missing cells must have at most 2^{limit} states to enumerate, got 2^{_bits(given):.6g}"
        raise UserValueError(what, "X", remedy)


def _near(model: Any, values: Array, gaps: Mask) -> Moments:
    """By independent cells and hidden units that come closest."""
    means = mean_field(model, {"visible": (values, ~gaps)}, steps=500, tol=1e-7)
    return to_numpy(means["visible"]), variance_of(model.conditional("visible", means))


class _Chain:
    """Chains of the visible and hidden layers, one for each row, that hold the known cells."""

    def __init__(self, model: Any, values: Array, gaps: Mask, noise: contracts.Noise) -> None:
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
            one = beside(self.model.conditional("visible", self.state), "visible", self.clamp)
            mean = to_numpy(one.mean)
            sums += mean, variance_of(one) + mean * mean
        mean, square = sums / (max(steps, 1) - begin)
        return mean, np.maximum(square - mean * mean, 0.0)
