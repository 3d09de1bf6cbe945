"""What systems of rows that are made of codes share: fields, codes, missing cells, evidence."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np
import torch

from gnomon import contracts
from gnomon.contracts import Array
from gnomon.data.examples import Examples
from gnomon.data.preprocessing import standardization
from gnomon.distributions.domains import Real
from gnomon.errors import UserValueError
from gnomon.evaluation.score import Score
from gnomon.numeric.noise import Noise
from gnomon.objectives.variational import likelihood_and_divergence
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import how_many
from gnomon.recipes.recipe import Recipe
from gnomon.system.by_gradient import ByGradient
from gnomon.system.codes import HasCodes
from gnomon.system.densities import with_signature
from gnomon.system.fields import HasDtype, Standardized
from gnomon.system.gaps import Cells, Mask
from gnomon.system.latent_codes import LatentCodes
from gnomon.system.partial_fit import OnlineModel
from gnomon.systems.variational._evidence import LatentEvidence
from gnomon.systems.variational._model import CodesModel, CompletingCodes, SeeingCodes
from gnomon.systems.variational._views import LatentViews

__all__ = ["MadeOfCodes"]


class MadeOfCodes(
    LatentViews, LatentEvidence, LatentCodes, OnlineModel, HasCodes, ByGradient, Standardized, HasDtype,
):  # fmt: skip
    """Base of the systems around a `CodesModel`."""

    tasks: ClassVar[tuple[str, ...]] = ("density", "represent", "generate")
    resamples_rows: ClassVar[bool] = True

    likelihood: Annotated[
        str | Recipe,
        Doc(
            "p(x | z): ``gaussian`` for real columns, ``bernoulli`` for zeros and ones, ``categorical`` for codes, "
            "``mixed`` for columns of several kinds."
        ),
    ] = "gaussian"
    objective: Annotated[str | Recipe, Doc("The bound that is raised; see `gnomon.objectives.variational`.")] = "elbo"
    latents: Annotated[str | Recipe, Doc("Kind of the latent variables, and their prior.")] = "gaussian"
    initializer: Annotated[str | Recipe, Doc("First weights; see `gnomon.nn.initializers`.")] = "he-uniform"
    epochs: int = 100
    batch_size: int | None = 64

    @property
    def domain(self) -> Any:
        """What the likelihood asks for; real numbers by default."""
        if isinstance(self.likelihood, str) and self.likelihood == "gaussian":
            return Real(largest=1e100)
        return self.recipe("likelihood").domain

    def _begin_rows(self, model: CodesModel, examples: Examples) -> None:
        """Give the model the units of the rows, and its likelihood what their columns alone say."""
        rows: Any = examples.X
        if self.standardize and not self.recipe("likelihood").codes:
            mean, deviation = standardization(examples.X, examples.weight)
            if model.scales:
                real = np.isinf(model.head.states(len(mean)))
                mean, deviation = np.where(real, mean, 0.0), np.where(real, deviation, 1.0)
            model.shift.copy_(torch.from_numpy(mean))
            model.scale.copy_(torch.from_numpy(deviation))
            rows = (rows - mean) / deviation if model.scales else rows
        model.head.begin(rows, examples.weight)

    # --- codes --------------------------------------------------------------------------------------------------

    @property
    def n_codes(self) -> int:  # type: ignore[override]
        """Columns of the codes: of a categorical latent variable one for each category."""
        return self.n_variables * int(self.recipe("latents").columns)

    @property
    def _n_features_out(self) -> int:
        return self.n_codes

    def latent_means(self, rows: Array) -> Array:
        """Means of q(z | x), shape (n, n_codes)."""
        codes: Array = self.model_.ask("latent_mean", rows)
        return codes

    def latent_modes(self, rows: Array) -> Array:
        """Refused: what is known of p(z | x) is q(z | x)."""
        what = "the most probable z given a row is not known: q(z | x) stands for what is, highest at its mean"
        raise UserValueError(what, "method", "use mean")

    def inverse_transform(self, Z: Any) -> Array:
        """E[x | z] of codes (n, n_codes), shape (n, n_features)."""
        return self.model_.ask("decode", self._codes(Z))

    def reconstruct(self, X: Any) -> Array:
        """E[x | z] at the means of q(z | x), shape (n, n_features)."""
        return self.model_.ask("decode", self.latent_means(self._rows(X)))

    # --- rows with missing cells --------------------------------------------------------------------------------

    def latent_view(self) -> CompletingCodes:
        return CompletingCodes(self.model_)

    def cells_given(self, rows: Array, missing: Mask, noise: contracts.Noise, *, steps: int = 500) -> Cells:
        own = self.model_.head.states(missing.shape[1])
        if ((own > 2) & np.isfinite(own) & missing.any(0)).any():
            raise UserValueError("codes have no mean", "how", "use how='sample'")
        return super().cells_given(rows, missing, noise, steps=steps)

    def seeing_view(self) -> SeeingCodes:
        return SeeingCodes(self.model_)

    # --- evidence -----------------------------------------------------------------------------------------------

    def elbo(self, X: Any, n_samples: int = 16) -> Score:
        """The evidence lower bound, its divergence in closed form: the mean over rows and draws of z, and its error."""
        x = self._tensor(X)
        draws = how_many(n_samples, "n_samples")
        if draws < 2:
            raise UserValueError(f"n_samples must be at least 2, got {draws}", "n_samples", "its error needs two")
        model, noise = self.model_, Noise(self.seed_, "evaluate/elbo")
        with torch.no_grad():
            codes, bounds = model.encode(x), []
            for k in range(draws):
                likelihood, divergence = likelihood_and_divergence(model, x, codes.sample(noise, k), codes)
                bounds.append(likelihood.double().ravel() - divergence.double().sum(-1).ravel())
        found = torch.stack(bounds, 1).cpu().numpy()
        error = float(np.sqrt((found.var(1, ddof=1) / draws).sum()) / len(x))
        return Score.from_pointwise(
            found.mean(1), name="elbo", kind="lower bound", error=error, data_space=self.domain.space(x.shape[1])
        )

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """``log_likelihood``: the bound of 64 importance-weighted draws; ``elbo``: the looser one that is trained."""
        found = {"log_likelihood": self.log_prob_bound(X), "elbo": self.elbo(X)}
        return with_signature(self, found, self._rows(X))
