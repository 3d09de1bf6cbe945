"""Missing cells under a density by the chain rule: exact where they are few or last in the order, else by particles."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp

from gnomon.contracts import Array, Noise
from gnomon.errors import UserValueError
from gnomon.evaluation.score import Score
from gnomon.inference.exact.cells import CellMoments, chosen_components, patterns
from gnomon.inference.importance.particles import resampled
from gnomon.numeric.noise import Noise as Stream
from gnomon.system.gaps import Cells, FillsGaps, Mask

__all__ = ["FillsByOrder", "Particles", "filtered"]

STATES = 1 << 12
"""States of the missing cells of a row that are enumerated."""
PARTICLES = 500
"""Particles of a row whose missing cells are neither few nor last."""
NUMBERS = 1 << 22
"""Numbers that the completed rows of one chunk may take: 16 MB in float32."""

Floats = NDArray[np.float64]


class Particles(NamedTuple):
    """Completions of rows with missing cells, in the units of the head.

    Attributes
    ----------
    cells : array of shape (n, S, d)
    share : float64 array of shape (n, S)
        Weights of the completions of each row, summing to 1.
    log_prob : float64 array of shape (n,)
        Log of an estimate of p(known cells) that is unbiased, so that on average it is no more than the log itself.
    """

    cells: Any
    share: Floats
    log_prob: Floats


@torch.no_grad()
def filtered(model: Any, z: torch.Tensor, missing: torch.Tensor, particles: int, noise: Noise) -> Particles:
    """A particle filter along the order: missing cells are drawn, known ones weigh, uneven weights are drawn anew.

    Parameters
    ----------
    model : ChainModel
    z : tensor of shape (n, d)
        Rows in the units of the head.
    missing : bool tensor of shape (n, d)
    particles : int
        S, of each row.
    noise : Noise
        Of n S rows: row i has places i S to i S + S - 1.

    Notes
    -----
    Cost: n S rows through ``numbers_at`` of every place. Weights are evened out by systematic resampling where their
    effective number falls under S / 2 (Gordon, Salmond and Smith 1993; Doucet and Johansen 2009).
    """
    n, d = z.shape
    cells, gap = z.repeat_interleave(particles, 0), missing.repeat_interleave(particles, 0)
    state, log_w = model.begin(n * particles), torch.zeros(n, particles, dtype=torch.float64, device=z.device)
    total = torch.zeros(n, dtype=torch.float64, device=z.device)
    for t, column in enumerate(model.order.tolist()):
        at = slice(column, column + 1)
        raw = model.numbers_at(state, t)
        drawn = model.head.sample(raw, noise.child("cell").at(t), at)
        cells[:, at] = torch.where(gap[:, at], drawn, cells[:, at])
        gain = model.head.log_probs(raw, cells[:, at], at).masked_fill(gap[:, at], 0.0)
        log_w = log_w + gain.double().reshape(n, particles)
        state = model.take(state, t, cells[:, at])
        index, log_w, total = resampled(log_w, total, noise.child("again").at(t))
        if index is not None:
            state, cells = model.select(state, index), cells[index]
    share = log_w.softmax(1)
    total = total + log_w.logsumexp(1) - math.log(particles)
    return Particles(cells.reshape(n, particles, d).cpu().numpy(), share.cpu().numpy(), total.cpu().numpy())


class FillsByOrder(FillsGaps):
    """Beside a system around a `ChainModel`.

    Exact are rows whose missing cells come last in the order (their known ones are a prefix of the chain rule), rows
    whose missing cells have at most 2^12 states, and models that are normal densities. Of others 500 particles of a
    filter along the order give an estimate.
    """

    model_: Any

    def evaluate_observed(self, X: Any, mask: Any = None) -> Score:
        """Mean log probability (or density) of the known cells of rows in nats, of each row in ``pointwise``.

        Exact where every row is, else a lower bound: the log of an unbiased estimate by particles.
        Parameters as of `impute`.
        """
        rows, missing = self._gaps(X, mask)
        space = f"{self.outcomes.space(rows.shape[1])}, known cells"  # type: ignore[attr-defined]
        values, facts = self.observed_estimate(rows, missing)
        return Score.from_pointwise(values - self._log_units_seen(rows, missing), data_space=space, **facts)

    def log_prob_observed(self, X: Any, mask: Any = None) -> Array:
        """Exact log probability (or density) of the known cells of each row in nats, the missing ones summed out.

        A row without known cells has 0. Parameters as of `impute`.

        Raises
        ------
        UserValueError
            A row whose missing cells are neither last in the order nor few.
        """
        rows, missing = self._gaps(X, mask)
        hard = np.flatnonzero(~self._solved(missing))
        if len(hard):
            what = (
                f"missing cells must be last in the order or have at most {STATES} states, got others in row {hard[0]}"
            )
            raise UserValueError(what, "X", "use evaluate_observed, which estimates")
        return np.asarray(self.observed_estimate(rows, missing)[0] - self._log_units_seen(rows, missing))

    def observed_estimate(self, rows: Array, missing: Mask) -> tuple[Array, dict[str, Any]]:
        normal = self.model_.normal_cells()
        if normal is not None:
            return normal.moments(rows, missing).log_prob, {"kind": "exact"}
        found, last, few = np.zeros(len(rows)), self._last(missing), self._few(missing)
        cells = self.model_.ask("log_conditionals", rows[last]).astype(np.float64)
        found[last] = np.where(missing[last], 0.0, cells).sum(1)
        for at, log_p, _ in self._enumerated(rows, missing, few & ~last):
            found[at] = logsumexp(log_p, axis=1)
        hard = ~(few | last)
        for at, particles in self._filtered(rows, missing, hard, Stream(0, "evaluate/observed")):
            scale = np.log(self.model_.views()["scale"]) if self.model_.scales else np.zeros(rows.shape[1])
            found[at] = particles.log_prob - (~missing[at]) @ scale
        if not hard.any():
            return found, {"kind": "exact"}
        return found, {"kind": "lower bound", "note": f"log of an unbiased estimate by {PARTICLES} particles"}

    def cells_given(self, rows: Array, missing: Mask, noise: Noise) -> Cells:
        self._refuse_codes(missing)
        normal = self.model_.normal_cells()
        if normal is not None:
            return self._in_own_units(normal.moments(rows, missing), True, "closed form")
        mean, variance = np.array(rows, np.float64), np.zeros(rows.shape)
        few = self._few(missing)
        for at, log_p, states in self._enumerated(rows, missing, few & missing.any(1)):
            share = np.exp(log_p - logsumexp(log_p, axis=1, keepdims=True))
            gap = missing[at[0]]
            mean[np.ix_(at, gap)] = share @ states
            variance[np.ix_(at, gap)] = np.maximum(share @ states**2 - (share @ states) ** 2, 0.0)
        for at, found in self._filtered(rows, missing, ~few, noise):
            cells = self._outside(found.cells)
            middle = np.einsum("ns,nsd->nd", found.share, cells)
            spread = np.einsum("ns,nsd->nd", found.share, (cells - middle[:, None]) ** 2)
            mean[at] = np.where(missing[at], middle, mean[at])
            variance[at] = np.where(missing[at], spread, 0.0)
        note = "enumeration" if few.all() else f"{PARTICLES} particles"
        return self._in_own_units(CellMoments(np.zeros(len(rows)), mean, variance), few, note)

    def cells_drawn(self, rows: Array, missing: Mask, noise: Noise) -> Cells:
        normal = self.model_.normal_cells()
        if normal is not None:
            drawn = self._in_units(normal.draw(rows, missing, noise))  # type: ignore[attr-defined]
            return Cells(drawn, None, True, "independent draws")
        drawn, last, few = np.array(rows, np.float64), self._last(missing), self._few(missing)
        tail = np.flatnonzero(last & missing.any(1))
        if len(tail):
            drawn[tail] = self._drawn_last(rows[tail], missing[tail], noise.child("last").rows(tail))
        for at, log_p, states in self._enumerated(rows, missing, few & ~last):
            drawn[np.ix_(at, missing[at[0]])] = states[chosen_components(log_p, noise.child("state").rows(at))]
        for at, found in self._filtered(rows, missing, ~(few | last), noise):
            chosen = chosen_components(np.log(found.share), noise.child("particle").rows(at))
            drawn[at] = np.where(missing[at], self._outside(found.cells[np.arange(len(at)), chosen]), rows[at])
        exact = few | last
        note = "independent draws" if exact.all() else f"one of {PARTICLES} particles"
        return Cells(self._in_units(drawn), None, exact, note)  # type: ignore[attr-defined]

    def column_states(self) -> int | None:
        found: int | None = self.model_.head.values
        return found

    def complete_log_density(self, rows: Array) -> Array | None:
        found: Array = self.model_.ask("log_prob", rows)
        return found

    def _refuse_codes(self, missing: Mask) -> None:
        """Refuse means where cells of columns of more than two codes are missing."""
        own = self._states(missing)
        if ((own > 2) & np.isfinite(own) & missing.any(0)).any():
            raise UserValueError("codes have no mean", "how", "use how='sample'")

    # --- rows by kind -------------------------------------------------------------------------------------------------

    def _last(self, missing: Mask) -> Mask:
        """Rows whose missing cells come last in the order."""
        by_place = missing[:, self.model_.views()["order"]]
        return np.asarray((by_place[:, 1:] >= by_place[:, :-1]).all(1))

    def _few(self, missing: Mask) -> Mask:
        """Rows whose missing cells have few states."""
        logs = np.where(missing, np.log(self._states(missing)), 0.0).sum(1)
        return np.asarray(logs <= math.log(STATES) + 1e-9)

    def _states(self, missing: Mask) -> Floats:
        """How many values each column may have."""
        found: Floats = self.model_.head.states(missing.shape[1])
        return found

    def _solved(self, missing: Mask) -> Mask:
        """Rows whose known cells have an exact probability."""
        if self.model_.normal_cells() is not None:
            return np.ones(len(missing), np.bool_)
        return self._last(missing) | self._few(missing)

    def _enumerated(self, rows: Array, missing: Mask, chosen: Mask) -> Iterator[tuple[Any, Floats, Floats]]:
        """Rows of one pattern, log p of them with every state of their missing cells, (n, S), and the states (S, m)."""
        numbers = np.flatnonzero(chosen)
        for gap, at in patterns(missing[numbers]) if len(numbers) else ():
            sizes = self._states(missing)[gap].astype(np.int64)
            states = np.indices(tuple(sizes)).reshape(len(sizes), -1).T
            step = max(1, NUMBERS // (len(states) * rows.shape[1]))
            for start in range(0, len(at), step):
                here = numbers[at[start : start + step]]
                filled = np.repeat(rows[here], len(states), axis=0)
                filled[:, gap] = np.tile(states, (len(here), 1))
                log_p = self.model_.ask("log_prob", filled).astype(np.float64)
                yield here, log_p.reshape(len(here), len(states)), states.astype(np.float64)

    def _filtered(self, rows: Array, missing: Mask, chosen: Mask, noise: Noise) -> Iterator[tuple[Any, Particles]]:
        """Rows and their particles, some rows at a time."""
        numbers = np.flatnonzero(chosen)
        step = max(1, NUMBERS // (PARTICLES * rows.shape[1]))
        for start in range(0, len(numbers), step):
            at = numbers[start : start + step]
            places = (at[:, None] * PARTICLES + np.arange(PARTICLES)).ravel()
            z, gap = self._placed(rows[at], missing[at])
            yield at, filtered(self.model_, z, gap, PARTICLES, noise.child("filter").rows(places))

    def _drawn_last(self, rows: Array, missing: Mask, noise: Noise) -> Any:
        z, gap = self._placed(rows, missing)
        return self.model_.outside(self.model_.draw(z, gap, noise)).cpu().numpy()

    def _placed(self, rows: Array, missing: Mask) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows in the units of the head, where the model computes, and their missing cells."""
        x = torch.tensor(rows, device=self.model_.device).to(self.model_.shift.dtype)
        return self.model_.inside(x), torch.tensor(missing, device=self.model_.device)

    def _outside(self, cells: Any) -> Any:
        """Cells of the head, (..., d), in the units of the model's rows."""
        state = self.model_.views()
        return cells * state["scale"] + state["shift"] if self.model_.scales else cells
