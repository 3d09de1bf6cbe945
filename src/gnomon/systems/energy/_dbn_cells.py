"""Missing bits of rows under a deep belief network: all states of its inner layers, or chains over them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.utils.metaestimators import available_if

from gnomon.contracts import Array, Noise
from gnomon.errors import UserTypeError
from gnomon.evaluation.latent_likelihood import latent_log_prob
from gnomon.inference.arrays import where
from gnomon.inference.exact.cells import mixed_cells, patterns
from gnomon.inference.exact.enumeration import log_evidence
from gnomon.numeric.noise import Noise as Stream
from gnomon.numeric.tensors import is_tensor
from gnomon.system.gaps import Mask
from gnomon.system.latent_gaps import FillsByStates
from gnomon.systems.energy._dbn_model import DBNModel
from gnomon.systems.energy.given import given_columns

__all__ = ["FillsByLayers"]

DRAWS = 64
"""Draws of the inner layers for each row of a bound."""
TINY = 1e-300
"""Least probability of a bit, of which the log is taken."""


class CompletingLayers:
    """The network as `gnomon.inference.mcmc.latent_cells` asks for it, up to log Z.

    Of one hidden layer it is the restricted machine, whose hidden units are then the latent variables.

    Parameters
    ----------
    model : DBNModel
    """

    def __init__(self, model: DBNModel) -> None:
        self.model, self.place = model, model.place

    def start(self, n: int, noise: Noise) -> Array:
        """n rows of fair bits."""
        return noise.bernoulli(np.full((n, self.model.sizes[0]), 0.5))

    def infer(self, x: Array, noise: Noise) -> tuple[tuple[Array, ...], Array]:
        """See `Encoder`: the layers drawn upwards."""
        if self.model.depth > 1:
            return self.model.infer(x, noise)
        upper = self.model.upward(1, x)
        h = upper.sample(noise, 1)
        return (h,), upper.log_prob(h)

    def log_proposal(self, x: Array, z: tuple[Array, ...]) -> Array:
        """log q(z | x)."""
        return self.model.log_prob_up([x, *z]) if self.model.depth > 1 else self.model.upward(1, x).log_prob(z[0])

    def log_joint(self, x: Array, z: tuple[Array, ...]) -> Array:
        """See `HasLatents`."""
        if self.model.depth > 1:
            return self.model.log_weight([x, *z])
        return -self.model.pair(1).joint_energy({"hidden_0": x, "hidden_1": z[0]})

    def refill(self, x: Array, z: tuple[Array, ...], missing: Array, noise: Noise) -> Array:
        """The row with its missing cells drawn given the layer above it."""
        return where(missing, self.model.downward(1, z[0]).sample(noise, 0), x)

    def expected(self, x: Array, z: tuple[Array, ...]) -> Array:
        """E[x | z]."""
        return self.model.downward(1, z[0]).mean


class SeeingLayers:
    """The known cells of rows and the inner layers, up to log Z: rows are [x, seen], completed where cells lack.

    Parameters
    ----------
    model : DBNModel
    """

    def __init__(self, model: DBNModel) -> None:
        self.model = model

    def _split(self, x: Array) -> tuple[Array, Array]:
        d = self.model.sizes[0]
        return x[:, :d], x[:, d:]

    def infer(self, x: Array, noise: Noise) -> tuple[tuple[Array, ...], Array]:
        """See `Encoder`."""
        return self.model.infer(self._split(x)[0], noise)

    def log_joint(self, x: Array, z: tuple[Array, ...]) -> Array:
        """log p(known cells, z) + log Z."""
        rows, seen = self._split(x)
        mean = self.model.downward(1, z[0]).mean
        chance = seen * (rows * mean + (1 - rows) * (1 - mean)) + (1 - seen)
        log_p = (chance + TINY).log() if is_tensor(chance) else np.log(chance + TINY)
        return log_p.sum(1) + self.model.log_inner(z)


class FillsByLayers(FillsByStates):
    """Beside a deep belief network of bits."""

    enumerated: ClassVar[str] = "all states of the inner layers"

    model_: Any

    @available_if(lambda self: not hasattr(self, "model_") or hasattr(self.model_, "log_prob"))
    def log_prob_observed(self, X: Any, mask: Any = None) -> Array:
        """Exact log probability of the known cells of each row in nats; of networks that have `log_prob`."""
        rows, missing = self._gaps(X, mask)
        rows = self.outcomes.check(rows)  # type: ignore[attr-defined]
        if self.model_.depth > 1:
            joint, mean = self._joint_of_states(rows, missing)
            found = mixed_cells(rows, missing, joint, mean, mean).log_prob
        else:
            found = np.zeros(len(rows))
            for gap, at in patterns(missing):
                given = given_columns(self.model_.pair(1), ~gap)
                found[at] = 0.0 if gap.all() else log_evidence(given.machine, given.state(rows[at]), limit=20)
        return np.where(missing.all(1), 0.0, found - self.log_partition().value)  # type: ignore[attr-defined]

    def observed_estimate(self, rows: Array, missing: Mask) -> tuple[Array, dict[str, Any]]:
        noise, log_z = Stream(self.seed_, "evaluate/observed"), self.log_partition()  # type: ignore[attr-defined]
        if self.model_.depth == 1:
            return super().observed_estimate(rows, missing)
        filled = self.completed(self.outcomes.check(rows), missing, noise.child("guess"))  # type: ignore[attr-defined]
        pairs = self.model_.place(np.concatenate([filled, ~missing], axis=1))
        view: Any = SeeingLayers(self.model_)
        values = latent_log_prob(view, view, pairs, DRAWS, noise).value - log_z.value
        kind = "lower bound" if log_z.kind == "exact" else "estimate"
        note = f"bound of {DRAWS} weighted draws of the way up from completed rows"
        return np.where(missing.all(1), 0.0, values), {"kind": kind, "error": log_z.error, "note": note}

    def _gaps(self, X: Any, mask: Any) -> tuple[Array, Mask]:
        if self.visible != "bernoulli":  # type: ignore[attr-defined]
            what = f"cells of a deep belief network are filled in for bits, got {self.visible} columns"  # type: ignore[attr-defined]
            raise UserTypeError(what, "X", "fit visible='bernoulli', or fill them in by dbm")
        return super()._gaps(X, mask)

    def latent_view(self) -> CompletingLayers:
        return CompletingLayers(self.model_)

    @property
    def _has_few_states(self) -> bool:
        return self.model_.is_exact and self.model_.depth > 1

    def _joint_of_states(self, rows: Array, missing: Mask) -> tuple[Any, Any]:
        layers = self.model_.inner_states()
        mean = np.asarray(self.model_.downward(1, layers[0]).mean, np.float64)
        on, off, seen = np.log(np.maximum(mean, TINY)), np.log(np.maximum(1 - mean, TINY)), ~missing
        log_p = np.asarray(self.model_.log_inner(layers), np.float64)
        return (seen * rows) @ on.T + (seen * (1 - rows)) @ off.T + log_p, mean
