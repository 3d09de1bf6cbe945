"""Generative adversarial networks: of rows of numbers, and of images by convolutions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from gnomon import contracts
from gnomon.contracts import Array, Procedure
from gnomon.data.examples import Examples
from gnomon.data.preprocessing import standardization
from gnomon.distributions.domains import Real
from gnomon.errors import UserValueError
from gnomon.evaluation.latent_likelihood import latent_score
from gnomon.evaluation.score import Score
from gnomon.evaluation.two_sample import sample_scores
from gnomon.nn.encoders import DecoderNetwork, EncoderNetwork, begin_network, build_network, image_shape_of
from gnomon.nn.initializers import Initializer
from gnomon.numeric.noise import Noise, seed_of
from gnomon.objectives.adversarial import AdversarialObjective
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import how_many
from gnomon.recipes.recipe import Recipe
from gnomon.system.base import System
from gnomon.system.fields import Clipped, GradientSteps, HasDtype, Scheduled
from gnomon.systems.adversarial._model import GANModel, Labels, NoisyGenerator, Player
from gnomon.training.gradient import Budget, Gradient
from gnomon.training.optimizers import Adam

__all__ = ["DCGAN", "GAN"]

LABEL_WIDTH = 16
"""Numbers that stand for a class beside noise or rows, at most."""


class GAN(GradientSteps, Scheduled, Clipped, HasDtype, System):
    r"""Generative adversarial network: a generator g(z) of rows that a critic cannot tell from the data.

    The critic d raises :math:`v = E_{data} \log d(x) + E_z \log(1 - d(g(z)))`, the generator works against it. There is
    no likelihood: `evaluate` compares rows that it makes with given ones by tests of two samples, and never by the loss
    of a game, which does not fall. Each update makes as many rows as the batch has; both players' layers are in
    training in both updates, each with masks of its own, and made and real rows pass the critic apart. The first decay
    of Adam is 1/2: the other player moves, and old gradients mislead (Radford, Metz and Chintala 2016).

    Attributes
    ----------
    history_ : dict of lists
        ``generator`` and ``critic`` (what each loses, nats per row), ``critic_accuracy``, by epoch. They say whether
        the players keep each other in check, not how good the rows are.

    Notes
    -----
    Cost O(n weights) per epoch. Source: Goodfellow et al. (2014); Goodfellow, Bengio and Courville (2016),
    section 20.10.4.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 2)) * [3, 1] + [5, 0]
    >>> gan = GAN(n_latent=2, epochs=100, random_state=0).fit(X)
    >>> bool(np.abs(gan.sample(1000, random_state=0).mean(0) - [5, 0]).max() < 1)
    True
    """

    name: ClassVar[str] = "gan"
    model_class: ClassVar[type] = GANModel
    domain = Real(largest=1e100)
    tasks: ClassVar[tuple[str, ...]] = ("generate",)
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {"image_shape": {"generator": "conv"}}
    slots: ClassVar[Mapping[str, type[Recipe]]] = {
        "objective": AdversarialObjective, "generator": DecoderNetwork, "critic": EncoderNetwork,
        "initializer": Initializer,
    }  # fmt: skip
    primary: ClassVar[str] = "coverage"
    resamples_rows: ClassVar[bool] = True

    n_latent: Annotated[int, "[1, inf)", Doc("Numbers of noise that a row is made of.")] = 16
    objective: Annotated[str | Recipe, Doc("What the generator has to lose; see `gnomon.objectives.adversarial`.")] = (
        "non-saturating"
    )
    generator: Annotated[
        str | Recipe | Callable[..., Any], Doc("Network from noise to rows; see `gnomon.nn.encoders`.")
    ] = "dense"
    critic: Annotated[str | Recipe | Callable[..., Any], Doc("Network that tells made rows from real ones.")] = "dense"
    scaling: Annotated[
        Literal["standard", "range"],
        Doc(
            "``standard``: columns of mean 0 and standard deviation 1; ``range``: smallest and largest value of all "
            "columns to -1 and 1, and a generator that ends in a hyperbolic tangent."
        ),
    ] = "standard"
    image_shape: Annotated[
        tuple[int, ...] | None,
        Doc("(rows, columns) or (rows, columns, channels) of rows that are images, for convolutions; None: square."),
    ] = None
    initializer: Annotated[str | Recipe, Doc("First weights; see `gnomon.nn.initializers`.")] = "he-uniform"
    optimizer: str | Recipe = Adam(beta1=0.5)
    epochs: int = 200
    batch_size: int | None = 64
    learning_rate: float = 1e-3

    # --- fit ----------------------------------------------------------------------------------------------------

    def make(self, n_features: int, dtype: str, n_classes: int | None = None) -> GANModel:
        precision = getattr(torch, dtype)
        generator = self._player("generator", self.n_latent, n_features, n_classes, precision)
        critic = self._player("critic", n_features, 1, n_classes, precision)
        return GANModel(n_features, self.n_latent, generator, critic, self.scaling == "range", precision)

    def _player(self, slot: str, inputs: int, outputs: int, n_classes: int | None, dtype: torch.dtype) -> Player:
        recipe, shape = self.recipe(slot), self.image_shape
        labels = None
        if n_classes is not None:
            image = image_shape_of(shape, inputs) if slot == "critic" and getattr(recipe, "images", False) else None
            width = image[0] * image[1] if image else min(n_classes, LABEL_WIDTH)
            labels = Labels(n_classes, width, image, dtype)
            inputs += width
            shape = (*image[:2], image[2] + 1) if image else shape
        return Player(build_network(recipe, inputs, outputs, shape, dtype), labels)

    def initialize(self, model: GANModel, examples: Examples, noise: contracts.Noise) -> None:
        initializer = self.recipe("initializer")
        for name, player in (("generator", model.generator), ("critic", model.critic)):
            begin_network(player.network, initializer, noise.child(name))
            if player.labels is not None:
                vectors = player.labels.vectors
                with torch.no_grad():
                    vectors.copy_(noise.child(f"{name}/labels").normal(tuple(vectors.shape), like=vectors.detach()))
        if self.scaling == "standard":
            shift, scale = standardization(examples.X, examples.weight)
            model.shift.copy_(torch.from_numpy(shift))
            model.scale.copy_(torch.from_numpy(scale))
            return
        used = examples.X[examples.weight > 0]
        low, high = float(used.min()), float(used.max())
        model.shift.fill_((low + high) / 2)
        model.scale.fill_((high - low) / 2 if high > low else 1.0)

    def make_objective(self) -> Any:
        return self.recipe("objective").build()

    def procedure(self, examples: Any) -> Procedure:
        return Gradient(
            self.recipe("optimizer"), self.learning_rate, Budget.of(self.epochs, self.max_updates),
            schedule=self.recipe("schedule"), clip=self.clip, clip_value=self.clip_value,
        )  # fmt: skip

    def min_batch_size(self) -> int:
        return 2 if any(getattr(self.recipe(slot), "batch_norm", False) for slot in ("generator", "critic")) else 1

    # --- verbs --------------------------------------------------------------------------------------------------

    def discriminate(self, X: Any) -> Array:
        """The critic's probability that a row is of the data, shape (n,); 1/2 where it cannot tell."""
        logits = self.model_.ask("logits", self._rows(X))
        return expit(logits)

    def codes(self, n: int = 1, *, random_state: Any = None) -> Array:
        """n draws of z, shape (n, n_latent): what `decode` makes rows of."""
        check_is_fitted(self)
        return self.model_.sample_prior(how_many(n), Noise(seed_of(random_state), "codes")).numpy()

    def decode(self, Z: Any) -> Array:
        """g(z), the rows of codes, shape (n, n_features)."""
        return self.model_.ask("decode", self._codes(Z))

    def _codes(self, Z: Any) -> np.ndarray[Any, Any]:
        check_is_fitted(self)
        codes: np.ndarray[Any, Any] = Real().check(Z, name="Z", dtype=self.arguments_["dtype"])
        if codes.shape[1] != self.n_latent:
            raise UserValueError(f"Z must have {self.n_latent} columns, got {codes.shape[1]}", "Z", "give codes")
        return codes

    def interpolate(self, start: Any, end: Any, n: int = 10) -> Array:
        """Rows on the line between two codes, shape (n, n_features)."""
        ends = self._codes(np.stack([np.asarray(start), np.asarray(end)]))
        share = np.linspace(0, 1, how_many(n))[:, None].astype(ends.dtype)
        return self.decode((1 - share) * ends[:1] + share * ends[1:])

    def latent_arithmetic(self, plus: Any, minus: Any) -> Array:
        """The row of sum(plus) - sum(minus), codes of shape (k, n_latent) each: shape (n_features,).

        Codes are averaged over several rows of one kind first where a single one is not typical (Radford et al. 2016).
        """
        more, less = self._codes(plus), self._codes(minus)
        return self.decode(more.sum(0, keepdims=True) - less.sum(0, keepdims=True))[0]

    def with_noise(self, deviation: float) -> NoisyGenerator:
        """x = g(z) + deviation * e: the model of Gaussian noise on the output, which has a density.

        Its ``log_joint``, ``sample_prior`` and ``infer`` are what `gnomon.evaluation.latent_likelihood` asks.
        """
        check_is_fitted(self)
        if not deviation > 0:
            raise UserValueError(f"deviation must be positive, got {deviation}", "deviation", "give 0.1, say")
        return self.model_.with_noise(float(deviation))

    def log_prob_bound(self, X: Any, deviation: float, n_samples: int = 1000) -> Score:
        """Mean log density of rows under `with_noise`, by the average over draws of z: below the true one on average.

        Few draws are dominated by the one nearest to a row, as the note says; the smaller the deviation the more so.
        """
        rows, model = self._rows(X), self.with_noise(deviation)
        noise = Noise(self.seed_, "evaluate/noise")
        with torch.no_grad():
            return latent_score(
                model, model, torch.tensor(rows), how_many(n_samples, "n_samples"), noise,
                data_space=self.domain.space(rows.shape[1]),
            )  # fmt: skip

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Rows that are made against as many given ones: `gnomon.evaluation.two_sample.sample_scores`."""
        rows = self._rows(X)
        made = self.sample(len(rows), random_state=seed_of(self.seed_))
        real, ours = (self.model_.ask("scaled", one) for one in (rows, made))
        space = self.domain.space(rows.shape[1])
        return sample_scores(real, ours, Noise(self.seed_, "evaluate"), data_space=space)

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the squared maximum mean discrepancy from the rows, so that higher is better."""
        return -float(self.evaluate(X)["mmd"].value)


class DCGAN(GAN):
    """Deep convolutional GAN: convolutions of stride 2 in both players, for rows that are images.

    Batch normalization everywhere but at the generator's output and the critic's input, rectifiers in the generator and
    leaky ones of slope 0.2 in the critic, pixels in [-1, 1], Adam with a first decay of 0.5, first weights of standard
    deviation 0.02.

    Notes
    -----
    Source: Radford, Metz and Chintala (2016).

    Examples
    --------
    >>> from gnomon.data import load
    >>> X = load("digits").view("table")[:200]
    >>> DCGAN(epochs=2, random_state=0).fit(X).sample(3, random_state=0).shape
    (3, 64)
    """

    name: ClassVar[str] = "dcgan"

    generator: str | Recipe | Callable[..., Any] = "conv"
    critic: str | Recipe | Callable[..., Any] = "conv"
    scaling: Literal["standard", "range"] = "range"
    initializer: str | Recipe = "normal-conv"
    learning_rate: float = 2e-4
