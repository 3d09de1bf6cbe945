"""What adversarial systems have in common: their hyper-parameters, how the players are made and fitted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal

import torch
from sklearn.utils.validation import check_is_fitted

from gnomon import contracts
from gnomon.contracts import Array, Procedure
from gnomon.data.examples import Examples
from gnomon.data.preprocessing import standardization
from gnomon.distributions.domains import Real
from gnomon.nn.encoders import DecoderNetwork, EncoderNetwork, begin_network, build_network, image_shape_of
from gnomon.nn.initializers import Initializer
from gnomon.numeric.noise import Noise, seed_of
from gnomon.objectives.adversarial import AdversarialObjective
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import how_many
from gnomon.recipes.recipe import Recipe
from gnomon.system.base import System
from gnomon.system.codes import HasCodes
from gnomon.system.fields import Clipped, GradientSteps, HasDtype, Scheduled
from gnomon.systems.adversarial._model import GANModel, LabelVectors, Player
from gnomon.training.gradient import Budget, Gradient
from gnomon.training.optimizers import Adam

__all__ = ["Adversarial"]

LABEL_WIDTH = 16
"""Numbers that stand for a class beside noise or rows, at most."""


class Adversarial(HasCodes, GradientSteps, Scheduled, Clipped, HasDtype, System):
    """Base of the systems of a generator and a critic."""

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

    n_latent: int = 16
    noise: Annotated[
        Literal["normal", "uniform"], Doc("Law of these numbers: standard normal, or uniform on (0, 1).")
    ] = "normal"
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

    def make(self, n_features: int, dtype: str, n_classes: int | None = None) -> GANModel:
        precision = getattr(torch, dtype)
        generator = self._player("generator", self.n_latent, n_features, n_classes, precision)
        critic = self._player("critic", n_features, 1, n_classes, precision)
        return GANModel(
            n_features, self.n_latent, generator, critic, bounded=self.scaling == "range", distribution=self.noise,
            n_classes=n_classes, dtype=precision,
        )  # fmt: skip

    def _player(self, slot: str, inputs: int, outputs: int, n_classes: int | None, dtype: torch.dtype) -> Player:
        recipe, shape = self.recipe(slot), self.image_shape
        labels = None
        if n_classes is not None:
            image = image_shape_of(shape, inputs) if slot == "critic" and getattr(recipe, "images", False) else None
            width = image[0] * image[1] if image else min(n_classes, LABEL_WIDTH)
            labels = LabelVectors(n_classes, width, image, dtype)
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

    def codes(self, n: int = 1, *, random_state: Any = None) -> Array:
        """n draws of z, shape (n, n_latent): what `decode` makes rows of."""
        check_is_fitted(self)
        return self.model_.sample_prior(how_many(n), Noise(seed_of(random_state), "codes")).cpu().numpy()

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the squared maximum mean discrepancy from the rows, so that higher is better."""
        return -float(self.evaluate(X, y)["mmd"].value)
