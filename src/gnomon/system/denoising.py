"""Rows that a known corruption has damaged: what a density says they were."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from gnomon import contracts
from gnomon.contracts import Array
from gnomon.distributions.corruption import BitFlips, GaussianNoise, check_corruption
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.exact.channels import bits_given_flips, normal_posterior
from gnomon.inference.mcmc.metropolis import MetropolisHastings
from gnomon.inference.mcmc.sampling import sample_chain
from gnomon.inference.mcmc.sites import SingleSite
from gnomon.numeric.noise import Noise, seed_of
from gnomon.recipes.parameters import how_many
from gnomon.system.conditional_cells import states_of

__all__ = ["Denoised", "Denoises"]

METHODS = ("mean", "map")
CELLS = 1 << 22
"""Numbers of the pairs of rows and states of one chunk: 32 MB."""
MOVES, DRAWS = 10, 20
"""Moves of a random walk, and draws of a model, for each step that is asked for."""
FEW = 10
"""Effective draws below which an estimate is worth little."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Denoised:
    """Rows as they were before a corruption, and what the numbers are.

    Parameters
    ----------
    values : array of shape (n, d)
    kind : str
        ``exact`` or ``estimate``.
    note : str
        The corruption that was assumed, and how the rows were found.
    """

    values: Array
    kind: str
    note: str


class Denoises:
    """Beside a system with a density of rows: `FillsGaps` says in which forms it may have it."""

    def denoise(
        self, X: Any, corruption: Any, *, method: str = "mean", steps: int = 500, random_state: Any = None
    ) -> Array:
        r"""An estimate of the rows that a known corruption has damaged.

        :math:`E[x | \tilde x]`, which has the least mean squared error, or :math:`\arg\max_x p(x) C(\tilde x | x)`, the
        one most probable row. They differ: a mean of bits is no row of bits, and a mean may lie between two clusters
        where no row is.

        Parameters
        ----------
        X : array of shape (n, n_features)
            The damaged rows, complete.
        corruption : GaussianNoise, BitFlips, or object with ``log_prob(damaged, x)``
            What has happened to them, in the units of the columns (`gnomon.distributions.corruption`). An answer is as
            good as this assumption.
        method : {"mean", "map"}
        steps : int, in [2, inf), default 500
            Sweeps of chains, of which the first half is left out, where there is no closed form; ten moves each of real
            columns, and 20 draws of models that only draw.
        random_state : int, Generator or None
            Of the chains.

        Returns
        -------
        array of shape (n, n_features)

        Raises
        ------
        UserValueError, UserTypeError
            Rows with missing cells, an unknown method, bits under normal noise or flips of real numbers, the most
            probable row of a model without a density of rows.

        Warns
        -----
        UserWarning
            Weighted draws of which fewer than 10 count.
        """
        return self.denoised(X, corruption, method=method, steps=steps, random_state=random_state).values

    def denoised(
        self, X: Any, corruption: Any, *, method: str = "mean", steps: int = 500, random_state: Any = None
    ) -> Denoised:
        """What `denoise` gives, whether it is exact, and the corruption assumed. Parameters as of `denoise`."""
        if method not in METHODS:
            raise UserValueError.must("method", f"be one of {', '.join(METHODS)}", method)
        if how_many(steps, "steps") < 2:
            raise UserValueError.must("steps", "be at least 2", steps)
        channel, system = check_corruption(corruption), self
        rows, missing = system._gaps(X, None)  # type: ignore[attr-defined]
        if missing.any() or np.isnan(rows).any():
            raise UserValueError("X must have no missing cells to denoise", "X", "fill them in first: impute")
        own = np.asarray(system._in_units(rows), np.float64)  # type: ignore[attr-defined]
        if own.shape[1] != np.shape(X)[1]:
            raise UserTypeError("encoded columns have no numbers of their own to denoise", "X", "fit to numbers")
        _check_channel(channel, system.column_states(), own.shape[1])  # type: ignore[attr-defined]
        values, exact, how = _Damaged(
            system, channel, rows, own, steps, Noise(seed_of(random_state), "denoise")
        ).solved(method)
        values = np.asarray(values, rows.dtype)
        return Denoised(values, "exact" if exact else "estimate", f"assuming {channel}: {how}")

    def bits_by_state(self) -> tuple[Floats, Floats] | None:
        """Log weights (K,) of hidden states and the means (K, d) of bits independent given these; None without."""
        return None

    def tilted_bits(self, rows: Array, field: Array, noise: contracts.Noise, steps: int) -> Iterator[Any] | None:
        """Sweeps of chains of p(x) exp(field . x) from `rows`: pairs of bits and their means; None without."""
        return None


def _check_channel(channel: Any, levels: int | None, d: int) -> None:
    if isinstance(channel, GaussianNoise):
        channel.variances(d)
        if levels is not None:
            raise UserTypeError(
                "normal noise must be of real columns, got columns of codes", "corruption", "BitFlips(0.1)"
            )
    if isinstance(channel, BitFlips):
        channel.probabilities(d)
        if levels != 2:
            raise UserTypeError("flips must be of bits, got other columns", "corruption", "GaussianNoise(0.1)")


class _Damaged:
    """Damaged rows under a system: in the model's units, and in the columns' own."""

    def __init__(self, system: Any, channel: Any, rows: Array, own: Floats, steps: int, noise: Noise) -> None:
        self.system, self.channel, self.rows, self.own = system, channel, rows, own
        self.steps, self.noise, self.levels = steps, noise, system.column_states()
        self.flips = isinstance(channel, BitFlips)

    def solved(self, method: str) -> tuple[Floats, bool, str]:
        """The rows, whether they are exact, and how they were found."""
        normals = self.system.normal_density() if isinstance(self.channel, GaussianNoise) else None
        if normals is not None:
            found = normal_posterior(normals, self.own, self.channel.variances(self.own.shape[1]))
            if method == "mean":
                return found.mean, True, "closed form"
            one = len(normals.log_weights) == 1
            return found.modes(), one, "closed form" if one else "the highest of the modes that ascents ended at"
        states = states_of(self.levels, self.own.shape[1])
        log_p = None if states is None else self.system.complete_log_density(states.astype(self.rows.dtype))
        if states is not None and log_p is not None:
            return self._enumerated(states, np.asarray(log_p, np.float64), method), True, "enumeration"
        by_state = self.system.bits_by_state() if self.flips else None
        if by_state is not None and method == "mean":
            flips = self.channel.probabilities(self.own.shape[1])
            return bits_given_flips(by_state[0], by_state[1], self.own, flips), True, "closed form"
        walks = self.levels in (None, 2) and self._has_density()
        return self._walked(method) if walks else self._weighed(method)

    def _has_density(self) -> bool:
        return len(self.rows) == 0 or self.system.complete_log_density(self.rows[:1]) is not None

    def _log_posterior(self, rows: Array, damaged: Floats) -> Floats:
        """log p(x) C(damaged | x) but for a constant."""
        log_p = np.asarray(self.system.complete_log_density(rows.astype(self.rows.dtype)), np.float64)
        return log_p + self.channel.log_prob(damaged, np.asarray(self.system._in_units(rows), np.float64))

    def _enumerated(self, states: Floats, log_p: Floats, method: str) -> Floats:
        """Over all rows there are."""
        parts = [states[p.argmax(1)] if method == "map" else p @ states for p in self._shares(states, log_p)]
        return np.concatenate(parts) if parts else np.empty(self.own.shape)

    def _shares(self, states: Floats, log_p: Floats) -> Iterator[Floats]:
        """p(state | damaged row), some rows at a time, (rows, S)."""
        step = max(1, CELLS // states.size)
        for start in range(0, len(self.own), step):
            here = self.own[start : start + step]
            pairs = np.repeat(here, len(states), axis=0), np.tile(states, (len(here), 1))
            joint = log_p + self.channel.log_prob(*pairs).reshape(len(here), len(states))
            yield np.exp(joint - logsumexp(joint, axis=1, keepdims=True))

    def _walked(self, method: str) -> tuple[Floats, bool, str]:
        """By a chain for each row, which begins at the damaged one."""
        swept = (
            self.system.tilted_bits(self.rows, self._field(), self.noise.child("sweeps"), self.steps)
            if self.flips
            else None
        )
        if swept is not None:
            x, mean = self._swept(swept)
            walked = f"chains of {self.steps} sweeps"
        else:
            x, mean, walked = self._moved()
        if method == "mean":
            return np.asarray(self.system._in_units(mean), np.float64), False, walked
        if self.levels == 2:
            x = self._climbed(x)
        return np.asarray(self.system._in_units(x), np.float64), False, f"the most probable row along {walked}"

    def _field(self) -> Floats:
        """log C(damaged | 1) - log C(damaged | 0) of each bit."""
        p = self.channel.probabilities(self.own.shape[1])
        return (2 * self.own - 1) * (np.log1p(-p) - np.log(p))

    def _swept(self, sweeps: Iterator[Any]) -> tuple[Floats, Floats]:
        """The most probable rows of the second half of the sweeps, and the mean of their means."""
        best, total = _Best(lambda x: self._log_posterior(x, self.own)), np.zeros(self.own.shape)
        for t, (x, mean) in enumerate(sweeps):
            if t >= self.steps // 2:
                best.see(np.asarray(x, np.float64))
                total += mean
        return best.x, total / (self.steps - self.steps // 2)

    def _moved(self) -> tuple[Floats, Floats, str]:
        """The same of single bits that are drawn, or of random walks."""
        kernel: Any = SingleSite() if self.levels == 2 else MetropolisHastings()
        many, half = (1, "sweeps") if self.levels == 2 else (MOVES, "moves"), self.steps // 2
        chains = sample_chain(
            lambda x: self._log_posterior(x, self.own), kernel, chains=len(self.rows), draws=self.steps - half,
            burn_in=half * many[0], thin=many[0], start=np.asarray(self.rows, np.float64),
            random_state=int(self.noise.integers(2**31 - 1, (1,))[0]),
        ).draws  # fmt: skip
        best = _Best(lambda x: self._log_posterior(x, self.own))
        for t in range(chains.shape[1]):
            best.see(chains[:, t])
        return best.x, chains.mean(1), f"chains of {self.steps * many[0]} {many[1]}"

    def _climbed(self, x: Floats) -> Floats:
        """Bits flipped one by one where that is more probable, until none is: iterated conditional modes."""
        now, moved = self._log_posterior(x, self.own), True
        while moved:
            moved = False
            for j in range(x.shape[1]):
                other = x.copy()
                other[:, j] = 1 - other[:, j]
                height = self._log_posterior(other, self.own)
                better = height > now
                x, now = np.where(better[:, None], other, x), np.where(better, height, now)
                moved |= bool(better.any())
        return x

    def _weighed(self, method: str) -> tuple[Floats, bool, str]:
        """By draws of the model, each with the weight that the corruption gives it: importance sampling."""
        if method == "map":
            what = f"method must be mean, since {self.system.name} has no density of rows, got 'map'"
            raise UserValueError(what, "method")
        n = DRAWS * self.steps
        found = self.system.sample(n, random_state=int(self.noise.integers(2**31 - 1, (1,))[0]))
        drawn = np.asarray(found[0] if isinstance(found, tuple) else found, np.float64)
        parts, least = [np.empty((0, self.own.shape[1]))], np.inf
        for share in self._shares(drawn, np.zeros(n)):
            parts.append(share @ drawn)
            least = min(least, float((1 / (share**2).sum(1)).min()))
        how = f"{n} weighted draws of the model, worth {least:.0f} or more"
        if least < FEW:
            warnings.warn(f"{how}: the estimate is poor; raise steps, or take a density in closed form", stacklevel=5)
        return np.concatenate(parts), False, how


class _Best:
    """Of rows that are seen one after the other the most probable of each place."""

    def __init__(self, height: Callable[[Floats], Floats]) -> None:
        self.height = height
        self.x: Any = None
        self.top: Any = None

    def see(self, x: Floats) -> None:
        now = self.height(x)
        if self.x is None:
            self.x, self.top = x.copy(), now
            return
        better = now > self.top
        self.x, self.top = np.where(better[:, None], x, self.x), np.where(better, now, self.top)
