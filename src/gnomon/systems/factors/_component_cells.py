"""Missing cells of rows under binary sparse coding: all states of the components, or chains over them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, expit, log_expit

from gnomon.contracts import Array, Noise
from gnomon.inference.exact.cells import CellMoments, chosen_components, mixed_cells
from gnomon.inference.exact.enumeration import states
from gnomon.systems.factors._mean_field_network import MeanFieldNetworkModel

__all__ = ["ComponentCells"]

EXACT_COMPONENTS = 12
"""Components up to which all their states are visited."""
NUMBERS = 1 << 21
"""Joint densities of one chunk of rows and all states: 16 MB."""
SWEEPS, ROUNDS = 500, 100
"""Of a chain, of which averages leave out the first fifth; of mean field, whose bound never falls."""

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


class ComponentCells:
    r"""What :math:`h_i \sim Bernoulli(\sigma(b_i))`, :math:`x | h \sim N(W h, \beta^{-1})` says of missing cells.

    Of the known columns it is a model of the same kind. With up to 12 components answers are sums over their states;
    beyond that averages along chains that draw each component given all others, and mean field's bound of the density.

    Parameters
    ----------
    model : MeanFieldNetworkModel
        Of which the rounds play no part here.
    noise : Noise, optional
        Of draws and chains; exact moments take none.
    """

    def __init__(self, model: MeanFieldNetworkModel, noise: Noise | None = None) -> None:
        coding = model.coding()
        scale, self.shift = (x.detach().double().cpu().numpy() for x in (model.scale, model.shift))
        self.W, self.b, self.beta, self.noise = coding.W * scale[:, None], coding.b, coding.beta / scale**2, noise

    @property
    def exact(self) -> bool:
        """Whether all states of the components are visited."""
        return len(self.b) <= EXACT_COMPONENTS

    @property
    def note(self) -> str:
        """How answers are found."""
        return "all states of the components" if self.exact else f"chains of {SWEEPS} sweeps"

    def moments(self, x: Array, missing: Mask) -> CellMoments:
        """Log density of the known cells (without all states: its bound), mean and variance of each missing one."""
        if not self.exact:
            return self._walked(x, missing)
        each = states(len(self.b)) @ self.W.T + self.shift
        parts = [
            mixed_cells(x[rows], missing[rows], self._log_joint(x[rows], missing[rows]), each, 1 / self.beta)
            for rows in self._chunks(len(x))
        ]
        return CellMoments(*(np.concatenate([part[k] for part in parts]) for k in range(3)))

    def draw(self, x: Array, missing: Mask) -> Floats:
        """The rows with a joint draw of the missing cells of each."""
        rest = self._stream.child("noise").normal(np.shape(x), like=self.beta) / np.sqrt(self.beta)
        return np.where(missing, self._components(x, missing) @ self.W.T + self.shift + rest, x)

    def _components(self, x: Array, missing: Mask) -> Floats:
        """Components drawn given the known cells of each row."""
        if not self.exact:
            *_, last = self._chain(x, missing)
            return last
        noise, every = self._stream.child("state"), states(len(self.b))
        chosen = [
            chosen_components(self._log_joint(x[rows], missing[rows]), noise.rows(rows))
            for rows in self._chunks(len(x))
        ]
        drawn: Floats = every[np.concatenate(chosen)]
        return drawn

    @property
    def _stream(self) -> Noise:
        assert self.noise is not None
        return self.noise

    # --- all states ---------------------------------------------------------------------------------------------------

    def _chunks(self, n: int) -> list[NDArray[np.int64]]:
        """Places of the rows, as many at a time as memory is there for; one chunk of no row."""
        size = max(1, NUMBERS >> len(self.b))
        return [np.arange(begin, min(begin + size, n)) for begin in range(0, max(n, 1), size)]

    def _log_joint(self, x: Array, missing: Mask) -> Floats:
        """log p(h, known cells) of each row and state, (n, 2^m)."""
        every = states(len(self.b))
        each, known = every @ self.W.T, ~missing
        weight, left = known * self.beta, np.where(known, x - self.shift, 0.0)
        fit = (weight * left) @ each.T - 0.5 * weight @ (each * each).T
        prior = every @ self.b + log_expit(-self.b).sum()
        found: Floats = fit + prior + self._own(left, known)[:, None]
        return found

    def _own(self, left: Floats, known: Mask) -> Floats:
        """Log density of what is left of the known cells."""
        found: Floats = 0.5 * (known * (np.log(self.beta / (2 * np.pi)) - self.beta * left * left)).sum(1)
        return found

    # --- one component after the other --------------------------------------------------------------------------------

    def _sweep(self, h: Floats, left: Floats, known: Mask, u: Floats | None = None) -> None:
        """Each component anew given the others: drawn by uniform numbers, or its mean; `left`, what they leave, too."""
        weight = known * self.beta
        for i, column in enumerate(self.W.T):
            own = weight @ (column * column)
            p = expit(self.b[i] + (weight * left) @ column + (h[:, i] - 0.5) * own)
            new = p if u is None else (u[:, i] < p).astype(np.float64)
            left -= known * np.outer(new - h[:, i], column)
            h[:, i] = new

    def _begun(self, x: Array, known: Mask, h: Floats) -> Floats:
        return np.where(known, x - self.shift - h @ self.W.T, 0.0)

    def _chain(self, x: Array, missing: Mask) -> Iterator[Floats]:
        """Components after each sweep."""
        noise, known, n = self._stream.child("chain"), ~missing, len(x)
        h = noise.child("start").bernoulli(np.broadcast_to(expit(self.b), (n, len(self.b)))).astype(np.float64)
        left = self._begun(x, known, h)
        for t in range(SWEEPS):
            self._sweep(h, left, known, noise.at(t).uniform(h.shape, like=h))
            yield h

    def _walked(self, x: Array, missing: Mask) -> CellMoments:
        """As `moments`, by averages along chains; of the density the bound."""
        sums, kept = np.zeros((2, *np.shape(x))), 0
        for t, h in enumerate(self._chain(x, missing)):
            if t >= SWEEPS // 5:
                each = h @ self.W.T
                sums, kept = sums + (each, each * each), kept + 1
        mean, square = sums / kept
        variance = np.maximum(square - mean * mean, 0.0) + 1 / self.beta
        return CellMoments(self.bound(x, missing), np.where(missing, mean + self.shift, x), missing * variance)

    def bound(self, x: Array, missing: Mask) -> Floats:
        """Evidence lower bound of the known cells by coordinate ascent, (n,)."""
        known: Any = ~missing
        q = np.tile(expit(self.b), (len(x), 1))
        left = self._begun(x, known, q)
        for _ in range(ROUNDS):
            self._sweep(q, left, known)
        prior = q @ log_expit(self.b) + (1 - q) @ log_expit(-self.b)
        spread = ((q * (1 - q)) @ (self.W * self.W).T * known) @ self.beta
        found = self._own(left, known) + prior + (entr(q) + entr(1 - q)).sum(1) - 0.5 * spread
        return np.where(missing.all(1), 0.0, found)
