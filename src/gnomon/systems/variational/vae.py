"""The variational autoencoder."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar

import torch

from gnomon import contracts
from gnomon.data.examples import Examples
from gnomon.distributions.latents import Latents
from gnomon.errors import UserTypeError
from gnomon.evaluation.score import Score
from gnomon.nn.encoders import DecoderNetwork, EncoderNetwork, begin_network, build_network, image_shape_of
from gnomon.nn.initializers import Initializer
from gnomon.nn.likelihoods import Likelihood
from gnomon.numeric.noise import Noise
from gnomon.objectives.variational import VariationalObjective
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import how_many
from gnomon.recipes.recipe import Recipe
from gnomon.systems.variational._codes import MadeOfCodes
from gnomon.systems.variational._model import VAEModel, single_row_bounds

__all__ = ["VAE"]


class VAE(MadeOfCodes):
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

    encoder: Annotated[str | Recipe | Callable[..., Any], Doc("Network of q(z | x); see `gnomon.nn.encoders`.")] = (
        "dense"
    )
    decoder: Annotated[str | Recipe | Callable[..., Any], Doc("Network of p(x | z).")] = "dense"
    image_shape: Annotated[
        tuple[int, ...] | None,
        Doc(
            "(rows, columns) or (rows, columns, channels) of the images that rows are, for convolutions; None: square."
        ),
    ] = None
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
        self._begin_rows(model, examples)

    def min_batch_size(self) -> int:
        return 2 if any(getattr(self.recipe(slot), "batch_norm", False) for slot in ("encoder", "decoder")) else 1

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
