"""Evidence of systems with latent variables and an encoder: importance-weighted bounds, of rows and of known cells."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from scipy.special import logsumexp

from gnomon import contracts
from gnomon.contracts import Array
from gnomon.data.examples import Examples
from gnomon.errors import UserValueError
from gnomon.evaluation.latent_likelihood import latent_log_prob, latent_score
from gnomon.evaluation.score import Score
from gnomon.numeric.noise import Noise
from gnomon.recipes.parameters import how_many
from gnomon.system.gaps import Mask
from gnomon.system.latent_gaps import FillsByLatents

__all__ = ["DRAWS", "LatentEvidence"]

DRAWS = 64
"""Draws per row of the importance-weighted bound."""
COMPLETIONS = 32
"""Ways in which a row with missing cells is completed for the encoder to see."""
GUESSED = 100
"""Sweeps of the chains that complete them."""


class Prior(NamedTuple):
    """The prior as a proposal for the latent variables: plain averaging of p(x | z)."""

    model: Any

    def infer(self, x: torch.Tensor, noise: contracts.Noise) -> tuple[torch.Tensor, torch.Tensor]:
        """A draw of p(z) for each row, and its log density."""
        z = self.model.sample_prior(len(x), noise)
        return z, self.model.log_prior(z)


class LatentEvidence(FillsByLatents):
    """Beside a system whose model keeps `HasLatents` and `Encoder` and has ``log_prior(z)``."""

    model_: Any
    seed_: int
    domain: ClassVar[Any]
    _rows: Any

    def make_objective(self) -> Any:
        return self.recipe("objective").build()  # type: ignore[attr-defined]

    def _refuse_clocks(self, examples: Examples) -> None:
        super()._refuse_clocks(examples)  # type: ignore[misc]
        if getattr(self.recipe("objective"), "warm_up", 0):  # type: ignore[attr-defined]
            raise UserValueError("a stream has no first update to warm up from", "objective__warm_up", "use 0, or fit")

    def _tensor(self, X: Any) -> torch.Tensor:
        """The rows where the model computes."""
        return torch.tensor(self._rows(X), device=self.model_.device)  # a copy: rows may be read-only

    def latent_posterior(self, rows: Array) -> Any:
        """q(z | x) of the encoder, an approximation: a distribution of tensors."""
        with torch.no_grad():
            return self.model_.encode(torch.tensor(rows, device=self.model_.device))

    def log_prob_bound(self, X: Any, n_samples: int = DRAWS, *, proposal: str = "encoder") -> Score:
        """Mean log-likelihood by importance sampling, below the true one in expectation; its rows in ``pointwise``.

        Parameters
        ----------
        X : array of shape (n, n_features)
        n_samples : int in [1, inf), default 64
            Draws per row: 1 gives the evidence lower bound, and more a tighter one.
        proposal : {"encoder", "prior"}, default "encoder"
            Where z is drawn from. With the prior it is the plain average of p(x | z), which needs very many draws where
            there are many latent variables.

        Returns
        -------
        Score
            Kind ``lower bound``; ``error`` is that of the draws, and the note says how far below it is likely to lie.
        """
        if proposal not in ("encoder", "prior"):
            raise UserValueError(f"proposal must be known, got {proposal!r}", "proposal", "choose encoder or prior")
        x = self._tensor(X)
        infers = self.model_ if proposal == "encoder" else Prior(self.model_)
        noise = Noise(self.seed_, f"evaluate/{proposal}")
        with torch.no_grad():
            return latent_score(
                self.model_, infers, x, how_many(n_samples, "n_samples"), noise,
                data_space=self.domain.space(x.shape[1]),
            )  # fmt: skip

    def seeing_view(self) -> Any:
        """Known cells and latent variables, as `HasLatents` and `Encoder`; rows are [x, seen], completed by a guess."""
        raise NotImplementedError

    def observed_estimate(self, rows: Array, missing: Mask) -> tuple[Array, dict[str, Any]]:
        noise = Noise(self.seed_, "evaluate/observed")
        many, lacks = np.repeat(rows, COMPLETIONS, axis=0), np.repeat(missing, COMPLETIONS, axis=0)
        filled = self.completed(many, lacks, noise.child("guess"), steps=GUESSED)
        pairs, view = self.latent_view().place(np.concatenate([filled, ~lacks], axis=1)), self.seeing_view()
        with torch.no_grad():
            found = latent_log_prob(view, view, pairs, DRAWS, noise).value
        values = logsumexp(found.reshape(-1, COMPLETIONS), axis=1) - math.log(COMPLETIONS)
        note = f"bound of {COMPLETIONS * DRAWS} weighted draws of the encoder given {COMPLETIONS} completed rows"
        return np.where(missing.all(1), 0.0, values), {"kind": "lower bound", "note": note}
