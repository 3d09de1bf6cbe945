"""The variational autoencoder."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
import torch

from gnomon import contracts
from gnomon.contracts import Array
from gnomon.data.examples import Examples
from gnomon.data.preprocessing import standardization
from gnomon.distributions.domains import Real
from gnomon.distributions.latents import Latents
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.score import Score
from gnomon.nn.encoders import DecoderNetwork, EncoderNetwork, begin_network, build_network, image_shape_of
from gnomon.nn.initializers import Initializer
from gnomon.nn.likelihoods import Likelihood
from gnomon.numeric.noise import Noise
from gnomon.objectives.variational import VariationalObjective
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
from gnomon.systems.variational._model import CompletingCodes, SeeingCodes, VAEModel, single_row_bounds
from gnomon.systems.variational._views import LatentViews

__all__ = ["VAE"]


class VAE(
    LatentViews, LatentEvidence, LatentCodes, OnlineModel, HasCodes, ByGradient, Standardized, HasDtype,
):  # fmt: skip
    r"""Variational autoencoder: a decoder p(x | z) of latent variables z, and an encoder q(z | x) that infers them.

    Both are trained together by gradient ascent on a lower bound of the log-likelihood,
    :math:`E_q \log p(x | z) - KL(q(z | x) \| p(z)) \le \log p(x)`. There is no exact density: `evaluate` gives the
    bound and the tighter one of 64 importance-weighted draws, each with the error of its draws. (Some texts call the
    prior p(z) the encoding distribution.)

    Attributes
    ----------
    history_ : dict of lists
        ``negative_bound`` (nats per row, as trained on), ``divergence`` of the ELBO from the prior, ``gradient_norm``,
        and with validation rows ``validation_negative_bound`` and ``best_epoch``, by epoch.

    Notes
    -----
    The Gaussian likelihood's standard deviations are held above its ``floor``: else the density of a constant column
    would grow without bound. Rows are summed, never averaged, over columns and latent variables, so that neither term
    of the bound is scaled against the other. Codes that the decoder does not use show in `active_latents`. Cost
    O(n weights) per epoch and draw. Source: Kingma and Welling (2014); Rezende, Mohamed and Wierstra (2014);
    Goodfellow, Bengio and Courville (2016), section 20.10.3.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
    >>> vae = VAE(n_latent=1, likelihood="bernoulli", epochs=150, learning_rate=0.02, random_state=0).fit(X)
    >>> vae.score(X) > -1.5, vae.transform(X).shape
    (True, (100, 1))
    """

    name: ClassVar[str] = "vae"
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "latents": {"objective__estimator": "score"}, "image_shape": {"encoder": "conv"},
    }  # fmt: skip
    model_class: ClassVar[type] = VAEModel
    slots: ClassVar[Mapping[str, type[Recipe]]] = {
        "objective": VariationalObjective, "encoder": EncoderNetwork, "decoder": DecoderNetwork, "latents": Latents,
        "likelihood": Likelihood, "initializer": Initializer,
    }  # fmt: skip

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
    encoder: Annotated[str | Recipe | Callable[..., Any], Doc("Network of q(z | x); see `gnomon.nn.encoders`.")] = (
        "dense"
    )
    decoder: Annotated[str | Recipe | Callable[..., Any], Doc("Network of p(x | z).")] = "dense"
    latents: Annotated[str | Recipe, Doc("Kind of the latent variables, and their prior.")] = "gaussian"
    image_shape: Annotated[
        tuple[int, ...] | None,
        Doc(
            "(rows, columns) or (rows, columns, channels) of the images that rows are, for convolutions; None: square."
        ),
    ] = None
    initializer: Annotated[str | Recipe, Doc("First weights; see `gnomon.nn.initializers`.")] = "he-uniform"
    epochs: int = 100
    batch_size: int | None = 64

    @property
    def domain(self) -> Any:
        """What the likelihood asks for; real numbers by default."""
        if isinstance(self.likelihood, str) and self.likelihood == "gaussian":
            return Real(largest=1e100)
        return self.recipe("likelihood").domain

    # --- fit ----------------------------------------------------------------------------------------------------

    def make(self, n_features: int, dtype: str) -> VAEModel:
        precision = getattr(torch, dtype)
        latents, likelihood = self.recipe("latents"), self.recipe("likelihood")
        head = likelihood.build(n_features, precision)
        codes, numbers, shape = self.n_latent * latents.width, n_features * head.width, self.image_shape
        seen = shape
        if head.seen > 1 and getattr(self.recipe("encoder"), "images", False):
            rows, columns, channels = image_shape_of(shape, n_features)
            seen = (rows, columns, channels * head.seen)
        encoder = build_network(self.recipe("encoder"), n_features * head.seen, codes, seen, precision)
        decoder = build_network(self.recipe("decoder"), self.n_codes, numbers, shape, precision)
        return VAEModel(n_features, self.n_latent, encoder, decoder, latents, head, likelihood.scales, precision)

    def initialize(self, model: VAEModel, examples: Examples, noise: contracts.Noise) -> None:
        initializer = self.recipe("initializer")
        begin_network(model.encoder, initializer, noise.child("encoder"))
        begin_network(model.decoder, initializer, noise.child("decoder"))
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

    def min_batch_size(self) -> int:
        return 2 if any(getattr(self.recipe(slot), "batch_norm", False) for slot in ("encoder", "decoder")) else 1

    # --- codes --------------------------------------------------------------------------------------------------

    @property
    def n_codes(self) -> int:  # type: ignore[override]
        """Columns of the codes: of a categorical latent variable one for each category."""
        return self.n_latent * int(self.recipe("latents").columns)

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

    # --- evidence -----------------------------------------------------------------------------------------------

    # --- rows with missing cells --------------------------------------------------------------------------------------

    def latent_view(self) -> CompletingCodes:
        return CompletingCodes(self.model_)

    def cells_given(self, rows: Array, missing: Mask, noise: contracts.Noise, *, steps: int = 500) -> Cells:
        own = self.model_.head.states(missing.shape[1])
        if ((own > 2) & np.isfinite(own) & missing.any(0)).any():
            raise UserValueError("codes have no mean", "how", "use how='sample'")
        return super().cells_given(rows, missing, noise, steps=steps)

    def seeing_view(self) -> SeeingCodes:
        return SeeingCodes(self.model_)

    def elbo(self, X: Any, n_samples: int = 16) -> Score:
        """The evidence lower bound, its divergence in closed form: the mean over rows and draws of z, and its error."""
        x = self._tensor(X)
        draws = how_many(n_samples, "n_samples")
        if draws < 2:
            raise UserValueError(f"n_samples must be at least 2, got {draws}", "n_samples", "its error needs two")
        with torch.no_grad():
            codes = self.model_.encode(x)
            noise = Noise(self.seed_, "evaluate/elbo")
            found = (
                torch.stack([self.model_.log_likelihood(x, codes.sample(noise, k)).double() for k in range(draws)], 1)
                .cpu()
                .numpy()
            )
            divergence = self.model_.divergence(codes).double().sum(1).cpu().numpy()
        error = float(np.sqrt((found.var(1, ddof=1) / draws).sum()) / len(x))
        return Score.from_pointwise(
            found.mean(1) - divergence, name="elbo", kind="lower bound", error=error,
            data_space=self.domain.space(x.shape[1]),
        )  # fmt: skip

    def amortization_gap(self, X: Any, *, steps: int = 200, n_samples: int = 16) -> Score:
        """How much lower the encoder's evidence lower bound is than that of the best q for every single row.

        Means and variances of each row are raised by Adam from where the encoder puts them; both bounds are then taken
        under the same new draws.

        Parameters
        ----------
        X : array of shape (n, n_features)
        steps : int, default 200
        n_samples : int, default 16
            Draws of z per row.

        Returns
        -------
        Score
            ``error`` is that of the draws under which the two are compared; inf for a single one.

        Raises
        ------
        UserTypeError
            Latent variables of which no gradient passes a draw.
        """
        if not self.model_.latents.reparametrized:
            raise UserTypeError("draws of the latent variables have no gradient", "latents", "fit gaussian ones")
        x = self._tensor(X)
        noise = Noise(self.seed_, "evaluate/gap")
        draws = how_many(n_samples, "n_samples")
        first, own, apart = single_row_bounds(self.model_, x, noise, how_many(steps, "steps"), draws)
        error = float(apart.sum().sqrt()) / len(x) if draws > 1 else math.inf
        return Score.from_pointwise(
            (own - first).cpu().numpy(), name="amortization_gap", kind="estimate", higher_is_better=False, error=error,
            data_space=self.domain.space(x.shape[1]),
        )  # fmt: skip

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """``log_likelihood``: the bound of 64 importance-weighted draws; ``elbo``: the looser one that is trained."""
        found = {"log_likelihood": self.log_prob_bound(X), "elbo": self.elbo(X)}
        return with_signature(self, found, self._rows(X))
