"""What is known of sequences under a variational recurrent network: bounds, the latent variables, missing cells."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from gnomon import contracts
from gnomon.contracts import Array
from gnomon.errors import UserValueError
from gnomon.evaluation.score import Score
from gnomon.inference.exact.cells import CellMoments, chosen_components
from gnomon.numeric.noise import Noise
from gnomon.recipes.parameters import how_many
from gnomon.system.densities import with_signature
from gnomon.system.gaps import Cells, Mask
from gnomon.system.sequences import MaskedFrames
from gnomon.systems.variational._vrnn_particles import chunks, filtered

__all__ = ["UNUSED", "Filtered", "SequenceEvidence"]

UNUSED = 0.01
"""Nats per frame below which latent variables are called unused."""
PARTICLES, REPEATS = 64, 4
"""Of the bound that `evaluate` gives: particles of a sequence, and filters that are averaged."""
COMPLETIONS = 500
"""Particles of a sequence whose missing cells are found."""


class Filtered(NamedTuple):
    """What is known of each frame's latent variables given this frame and those before it.

    Attributes
    ----------
    mean, deviation : float64 arrays of shape (n, T, n_latent)
        Of z_t given x_1 ... x_t; NaN behind the end of a sequence.
    effective : float64 array of shape (n,)
        Particles that the weights of the sequence's worst frame count as: with few of them the numbers are rough.
    """

    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]
    effective: NDArray[np.float64]


class SequenceEvidence(MaskedFrames):
    """Beside a system around a `VRNNModel`."""

    model_: Any
    seed_: int

    def _tensor(self, rows: Array) -> torch.Tensor:
        return torch.tensor(rows, device=self.model_.device)  # a copy: rows may be read-only

    def _frames_of_each(self, rows: Array) -> NDArray[np.int64]:
        """Frames of each sequence."""
        found: NDArray[np.int64] = (~np.isnan(rows)).sum(1) // self.model_.frame_size
        return found

    # --- bounds -------------------------------------------------------------------------------------------------------

    def elbo(self, X: Any, n_samples: int = 16, *, per: str = "sequence") -> Score:
        """The evidence lower bound with its divergences in closed form, and the error of its draws.

        Parameters
        ----------
        X : sequences
        n_samples : int in [2, inf), default 16
            Draws of z for each sequence.
        per : {"sequence", "frame"}, default "sequence"
            Mean over sequences, each whole; or over all frames, which does not grow with the length.

        Returns
        -------
        Score
            Kind ``lower bound``; its ``pointwise`` are those of each sequence, its note says of collapse.
        """
        draws = how_many(n_samples, "n_samples")
        if draws < 2:
            raise UserValueError(f"n_samples must be at least 2, got {draws}", "n_samples", "its error needs two")
        if per not in ("sequence", "frame"):
            raise UserValueError(f"per must be known, got {per!r}", "per", "choose sequence or frame")
        rows = self._rows(X)  # type: ignore[attr-defined]
        return self._bound_of(rows, *self._terms(rows, draws), per=per)

    def elbo_terms(self, X: Any, n_samples: int = 16) -> dict[str, Array]:
        """What the bound is made of, frame by frame, means over draws of z.

        Parameters
        ----------
        X : sequences
        n_samples : int in [1, inf), default 16

        Returns
        -------
        dict
            ``log_likelihood``: E log p(x_t | z_t, s_(t-1)), and ``divergence``: E KL(q(z_t | x_t, s_(t-1)) || p(z_t |
            s_(t-1))), nats, shape (n, T), NaN behind the end of a sequence.
        """
        rows = self._rows(X)  # type: ignore[attr-defined]
        draws = how_many(n_samples, "n_samples")
        if draws < 1:
            raise UserValueError.must("n_samples", "be at least 1", draws)
        likelihood, divergence = self._terms(rows, draws)
        inside = ~np.isnan(rows).reshape(len(rows), -1, self.model_.frame_size).any(2)
        found = {"log_likelihood": likelihood.mean(1), "divergence": divergence.sum(3).mean(1)}
        return {name: np.where(inside, value, np.nan) for name, value in found.items()}

    def active_latents(self, X: Any, threshold: float = UNUSED) -> dict[str, Any]:
        """Which latent variables are in use: those that tell more of a frame than their prior knows.

        Parameters
        ----------
        X : sequences
        threshold : float, default 0.01
            Nats per frame.

        Returns
        -------
        dict
            ``count``: Score, how many are active; ``divergence``: mean KL(q(z_tj | x_t, s_(t-1)) || p(z_tj | s_(t-1)))
            per frame in nats, and ``active``: bool, arrays of shape (n_latent,).
        """
        rows = self._rows(X)  # type: ignore[attr-defined]
        divergence = self._terms(rows, 16)[1].mean(1).sum((0, 1)) / self._frames_of_each(rows).sum()
        active = divergence > threshold
        count = Score(
            float(active.sum()), name="active_latents", unit=f"of {self.model_.n_latent}", n=len(rows),
            note=f"divergence from the prior above {threshold:g} nats per frame",
        )  # fmt: skip
        return {"count": count, "divergence": divergence, "active": active}

    def _terms(self, rows: Array, draws: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """log p(x_t | z_t) (n, draws, T) and divergences (n, draws, T, k) along draws of q; 0 behind the end."""
        model, frames = self.model_, rows.shape[1] // self.model_.frame_size
        likelihood, divergence = (
            np.zeros((len(rows), draws, frames)),
            np.zeros((len(rows), draws, frames, model.n_latent)),
        )
        noise = Noise(self.seed_, "evaluate/elbo")
        with torch.no_grad():
            for at in chunks(len(rows), draws * rows.shape[1]):
                x = self._tensor(rows[at])
                z = model.encode(x).sample(noise.rows(at), draws=draws)
                many = x.repeat_interleave(draws, 0)
                found = model.log_likelihoods(many, z), model.factors(many, z).divergences()
                for whole, part in zip((likelihood, divergence), found, strict=True):
                    seen = part.double().cpu().numpy().reshape(len(at), draws, *part.shape[1:])
                    whole[at, :, : seen.shape[2]] = seen
        return likelihood, divergence

    def _bound_of(
        self, rows: Array, likelihood: NDArray[np.float64], divergence: NDArray[np.float64], *, per: str
    ) -> Score:
        """The evidence lower bound from its terms."""
        frames = self._frames_of_each(rows)
        values = likelihood.sum(2) - divergence.sum((2, 3))
        variance = values.var(1, ddof=1) / values.shape[1]
        carried = divergence.sum() / (values.shape[1] * frames.sum())
        note = ""
        if carried < UNUSED:
            note = f"posterior collapse: latent variables carry {carried:.2g} nats per frame, the decoder ignores them"
        facts: dict[str, Any] = {"kind": "lower bound", "data_space": self._space(rows), "note": note}
        if per == "sequence":
            error = float(np.sqrt(variance.sum()) / len(rows))
            return Score.from_pointwise(values.mean(1), name="elbo", error=error, **facts)
        error = float(np.sqrt(variance.sum()) / frames.sum())
        return Score.from_pointwise(
            values.mean(1) / frames, name="elbo_per_frame", weight=frames, unit="nats per frame", error=error, **facts
        )

    def particle_bound(
        self, X: Any, n_particles: int = PARTICLES, *, resample: bool = True, repeats: int = REPEATS
    ) -> Score:
        """Log-likelihood by a particle filter, below the true one in expectation, and nearer the more particles.

        Parameters
        ----------
        X : sequences
        n_particles : int in [1, inf), default 64
            Of each sequence, drawn from the encoder; 1 gives the evidence lower bound.
        resample : bool, default True
            Whether particles are drawn anew where few of them count, which long sequences need (FIVO); else weights of
            whole sequences (IWAE).
        repeats : int in [2, inf), default 4
            Independent filters whose answers are averaged; their spread is the error.

        Returns
        -------
        Score
            Nats per sequence, of kind ``lower bound``.
        """
        rows, size, times = self._rows(X), how_many(n_particles, "n_particles"), how_many(repeats, "repeats")  # type: ignore[attr-defined]
        if size < 1 or times < 2:
            what = f"n_particles must be at least 1 and repeats at least 2, got {size} and {times}"
            raise UserValueError(what, "n_particles, repeats")
        noise = Noise(self.seed_, "evaluate/particles")
        found = np.stack([
            np.concatenate([part.log_prob for _, part in self._filtered(
                rows, size, noise.child(f"{r}"), share=0.5 if resample else 0.0
            )]) for r in range(times)
        ])  # fmt: skip
        error = float(np.sqrt((found.var(0, ddof=1) / times).sum()) / len(rows))
        note = f"log of an unbiased estimate by {size} particles, in expectation below log p(x)"
        facts: dict[str, Any] = {"kind": "lower bound", "data_space": self._space(rows), "note": note}
        return Score.from_pointwise(found.mean(0), error=error, **facts)

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """``log_likelihood``, the bound of 64 particles, and the looser ``elbo`` that is trained, of sequences; and
        ``elbo_per_frame``, in nats per frame."""
        rows = self._rows(X)  # type: ignore[attr-defined]
        terms = self._terms(rows, 16)
        found = {
            "log_likelihood": self.particle_bound(X),
            "elbo": self._bound_of(rows, *terms, per="sequence"),
            "elbo_per_frame": self._bound_of(rows, *terms, per="frame"),
        }
        return with_signature(self, found, rows)

    def _space(self, rows: Array) -> str:
        space: str = self.outcomes.space(rows.shape[1])  # type: ignore[attr-defined]
        return space

    # --- latent variables ---------------------------------------------------------------------------------------------

    def filter(self, X: Any, n_particles: int = COMPLETIONS) -> Filtered:
        """What is known of z_t given x_1 ... x_t, by a particle filter that the encoder proposes for.

        Parameters
        ----------
        X : sequences
        n_particles : int in [1, inf), default 500
            Of each sequence: the more, the nearer to the posterior of the model, which the encoder's answer alone is
            not.

        Returns
        -------
        Filtered
        """
        rows, size = self._rows(X), how_many(n_particles, "n_particles")  # type: ignore[attr-defined]
        if size < 1:
            raise UserValueError.must("n_particles", "be at least 1", size)
        shape = (len(rows), rows.shape[1] // self.model_.frame_size, self.model_.n_latent)
        mean, variance, effective = np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(len(rows))
        for at, part in self._filtered(rows, size, Noise(self.seed_, "filter")):
            length = part.mean.shape[1]
            mean[at, :length], variance[at, :length], effective[at] = part.mean, part.variance, part.effective
        return Filtered(mean, np.sqrt(variance), effective)

    def posterior(self, X: Any) -> Any:
        """q(z | x) of the sequences: a distribution of tensors (n, T n_latent) with ``sample`` and ``log_prob``."""
        return self.model_.encode(self._tensor(self._rows(X)))  # type: ignore[attr-defined]

    def _filtered(
        self, rows: Array, particles: int, noise: contracts.Noise, missing: Mask | None = None, share: float = 0.5
    ) -> Any:
        """Chunks of sequences: their places, and what their particles say."""
        size = rows.shape[1] + self.model_.layer.units + 4 * self.model_.n_latent
        for at in chunks(len(rows), particles * size):
            places = (at[:, None] * particles + np.arange(particles)).ravel()
            gap = None
            if missing is not None:
                gap = self._tensor(missing[at]).reshape(len(at), -1, self.model_.frame_size)
            yield at, filtered(self.model_, self._tensor(rows[at]), particles, noise.rows(places), gap, share)

    @staticmethod
    def _chosen(share: torch.Tensor, noise: contracts.Noise) -> torch.Tensor:
        """A particle of each sequence by its weights."""
        return torch.from_numpy(chosen_components(share.log().cpu().numpy(), noise)).to(share.device)

    # --- missing cells ------------------------------------------------------------------------------------------------

    def observed_estimate(self, rows: Array, missing: Mask) -> tuple[Array, dict[str, Any]]:
        noise, found = Noise(self.seed_, "evaluate/observed"), np.zeros(len(rows))
        for at, part in self._filtered(rows, COMPLETIONS, noise, missing):
            found[at] = part.log_prob
        note = f"log of an unbiased estimate by {COMPLETIONS} particles"
        return np.where((missing | np.isnan(rows)).all(1), 0.0, found), {"kind": "lower bound", "note": note}

    def cells_given(self, rows: Array, missing: Mask, noise: contracts.Noise) -> Cells:
        if self.recipe("likelihood").codes:  # type: ignore[attr-defined]
            raise UserValueError("codes have no mean", "how", "use how='sample'")
        mean, variance = np.array(rows, np.float64), np.zeros(rows.shape)
        for at, cells, share in self._completed(rows, missing, noise):
            middle = np.einsum("ns,nsd->nd", share, cells)
            width = middle.shape[1]
            mean[at, :width] = np.where(missing[at, :width], middle, mean[at, :width])
            spread = np.einsum("ns,nsd->nd", share, (cells - middle[:, None]) ** 2)
            variance[at, :width] = np.where(missing[at, :width], spread, 0.0)
        found = CellMoments(np.zeros(len(rows)), mean, variance)
        return self._in_own_units(found, ~missing.any(1), f"{COMPLETIONS} particles")

    def cells_drawn(self, rows: Array, missing: Mask, noise: contracts.Noise) -> Cells:
        drawn = np.array(rows, np.float64)
        for at, cells, share in self._completed(rows, missing, noise):
            chosen = chosen_components(np.log(share), noise.child("particle").rows(at))
            one, width = cells[np.arange(len(at)), chosen], cells.shape[2]
            drawn[at, :width] = np.where(missing[at, :width], one, drawn[at, :width])
        return Cells(self._in_units(drawn), None, ~missing.any(1), f"one of {COMPLETIONS} particles")  # type: ignore[attr-defined]

    def _completed(self, rows: Array, missing: Mask, noise: contracts.Noise) -> Any:
        """Sequences with missing cells: their places, completions (n, S, columns) in the units of rows, and weights."""
        gaps = np.flatnonzero(missing.any(1))
        for inside, part in self._filtered(rows[gaps], COMPLETIONS, noise, missing[gaps]) if len(gaps) else ():
            cells = self.model_.outside(part.cells).double().cpu().numpy()
            yield gaps[inside], cells.reshape(*cells.shape[:2], -1), part.share.cpu().numpy()
