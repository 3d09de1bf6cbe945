"""Missing cells under models with latent variables and an encoder, which only chains find."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.special import logsumexp

from gnomon.contracts import Array, Noise
from gnomon.inference.arrays import to_numpy
from gnomon.inference.exact.cells import chosen_components, mixed_cells
from gnomon.inference.mcmc.latent_cells import completed_rows
from gnomon.recipes.parameters import how_many
from gnomon.system.gaps import Cells, FillsGaps, Imputed, Mask

__all__ = ["FillsByLatents", "FillsByStates"]


class FillsByLatents(FillsGaps):
    """Beside a system that gives `latent_view`: latent variables proposed by its encoder, then cells given them."""

    def impute(
        self, X: Any, mask: Any = None, *, how: str = "mean", n_draws: int | None = None, steps: int = 500,
        random_state: Any = None,
    ) -> Array:  # fmt: skip
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
        steps : int, default 500
            Sweeps of a chain over latent variables and missing cells, of which averages leave out the first fifth.
        random_state : int, Generator or None

        Returns
        -------
        array of shape (n, n_features), or (n_draws, n, n_features)
            Known cells as they were.

        Raises
        ------
        UserValueError
            An unknown choice, a mode of real numbers, draws of a mode or a deviation.
        """
        return self.imputed(X, mask, how=how, n_draws=n_draws, steps=steps, random_state=random_state).values

    def imputed(
        self, X: Any, mask: Any = None, *, how: str = "mean", n_draws: int | None = None, steps: int = 500,
        random_state: Any = None,
    ) -> Imputed:  # fmt: skip
        """What `impute` gives, and of each row whether it is exact or an estimate. Parameters as of `impute`."""
        return self._imputed(X, mask, how, random_state, n_draws, steps=max(how_many(steps, "steps"), 1))

    def conditional_sample(self, X: Any, mask: Any = None, *, steps: int = 500, random_state: Any = None) -> Array:
        """X with the missing cells of each row drawn given the known ones: the end of a chain that holds these.

        Parameters as of `impute`, which takes ``n_draws``.
        """
        return self.impute(X, mask, how="sample", steps=steps, random_state=random_state)

    def latent_view(self) -> Any:
        """The model as a `gnomon.inference.mcmc.latent_cells.CompletesRows`, with ``place`` and ``start``."""
        raise NotImplementedError

    def cells_given(self, rows: Array, missing: Mask, noise: Noise, *, steps: int = 500) -> Cells:
        view, gap = self.latent_view(), missing.any(1)
        mean, variance = np.array(rows, np.float64), np.zeros(rows.shape)
        if gap.any():
            sums, kept = np.zeros((3, int(gap.sum()), rows.shape[1])), 0
            for t, (x, z) in enumerate(self._chain(view, rows[gap], missing[gap], noise, steps)):
                if t >= steps // 5:
                    cells = to_numpy(x)
                    sums, kept = sums + (to_numpy(view.expected(x, z)), cells, cells * cells), kept + 1
            found = sums / kept
            mean[gap], variance[gap] = found[0], np.maximum(found[2] - found[1] ** 2, 0.0)
        spread = self._in_units(np.sqrt(variance)) - self._in_units(0 * variance)  # type: ignore[attr-defined]
        return Cells(self._in_units(mean), spread, False, f"chains of {steps} sweeps")  # type: ignore[attr-defined]

    def cells_drawn(self, rows: Array, missing: Mask, noise: Noise, *, steps: int = 500) -> Cells:
        drawn = self._in_units(self.completed(rows, missing, noise, steps))  # type: ignore[attr-defined]
        return Cells(drawn, None, False, f"ends of chains of {steps} sweeps")

    def completed(self, rows: Array, missing: Mask, noise: Noise, steps: int = 500) -> Array:
        """The rows with draws of their missing cells, the ends of chains, in the model's units."""
        drawn, gap = np.array(rows, np.float64), missing.any(1)
        if gap.any():
            *_, (x, _) = self._chain(self.latent_view(), rows[gap], missing[gap], noise, steps)
            drawn[gap] = to_numpy(x)
        return drawn

    def _chain(self, view: Any, rows: Array, missing: Mask, noise: Noise, steps: int) -> Any:
        """Sweeps that begin at draws of the model."""
        begun = np.where(missing, to_numpy(view.start(len(rows), noise.child("start"))), rows)
        places = noise.child("chain").rows(np.arange(len(rows)))
        return completed_rows(view, view.place(np.asarray(begun, rows.dtype)), missing, places, steps)


class FillsByStates(FillsByLatents):
    """Beside a system of bits that are independent given latent states, all of which are visited where they are few."""

    enumerated: ClassVar[str] = "all latent states"
    """How cells are then found."""

    @property
    def _has_few_states(self) -> bool:
        """Whether all states are visited."""
        raise NotImplementedError

    def complete_log_density(self, rows: Array) -> Array | None:
        if not self._has_few_states:
            return None
        found: Array = logsumexp(self._joint_of_states(rows, np.zeros(rows.shape, np.bool_))[0], axis=1)
        return found

    def bits_by_state(self) -> Any:
        if not self._has_few_states:
            return None
        nothing = np.zeros((1, self.n_features_in_))  # type: ignore[attr-defined]
        joint, mean = self._joint_of_states(nothing, np.ones(nothing.shape, np.bool_))
        return joint[0], mean

    def _joint_of_states(self, rows: Array, missing: Mask) -> tuple[Any, Any]:
        """log p(known cells, state) of each row and state, up to a constant, and E[x | state] of each state."""
        raise NotImplementedError

    def cells_given(self, rows: Array, missing: Mask, noise: Noise, *, steps: int = 500) -> Cells:
        if not self._has_few_states:
            return super().cells_given(rows, missing, noise, steps=steps)
        joint, mean = self._joint_of_states(rows, missing)
        return self._in_own_units(mixed_cells(rows, missing, joint, mean, mean * (1 - mean)), True, self.enumerated)

    def cells_drawn(self, rows: Array, missing: Mask, noise: Noise, *, steps: int = 500) -> Cells:
        if not self._has_few_states:
            return super().cells_drawn(rows, missing, noise, steps=steps)
        joint, mean = self._joint_of_states(rows, missing)
        places = np.arange(len(rows))
        chosen = chosen_components(joint, noise.child("state").rows(places))
        bits = noise.child("cells").rows(places).bernoulli(mean[chosen])
        return Cells(self._in_units(np.where(missing, bits, rows)), None, True, "independent draws")  # type: ignore[attr-defined]
