"""What systems around a sigmoid belief net and its recognition net share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from gnomon import contracts
from gnomon.contracts import Array
from gnomon.data.examples import Examples
from gnomon.distributions.domains import Binary
from gnomon.distributions.linked import InLayer
from gnomon.errors import UserValueError
from gnomon.evaluation.latent_likelihood import latent_score
from gnomon.evaluation.score import Score
from gnomon.nn.encoders import EncoderNetwork, begin_network, build_network
from gnomon.nn.initializers import Initializer
from gnomon.numeric.noise import Noise
from gnomon.objectives.variational import VariationalObjective
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import check_layer_sizes, how_many
from gnomon.recipes.recipe import Recipe
from gnomon.system.by_gradient import ByGradient
from gnomon.system.fields import HasDtype
from gnomon.system.gaps import check_choice
from gnomon.system.latent_codes import LatentCodes
from gnomon.system.partial_fit import OnlineModel
from gnomon.systems.variational._belief_cells import FillsByBelief
from gnomon.systems.variational._belief_net import BeliefNetModel

__all__ = ["BeliefNet"]


MEAN_FIELD_NUMBERS = 1 << 22
"""Units times parents of the rows whose means are fitted together."""


class Inferred(NamedTuple):
    """What `BeliefNet.infer` gives.

    Attributes
    ----------
    mean : array of shape (n, units of all hidden layers)
    bound : array of shape (n,)
        Lower bounds of log p(x) in nats.
    """

    mean: Array
    bound: Array


class BeliefNet(FillsByBelief, LatentCodes, OnlineModel, ByGradient, HasDtype):
    """Base of the belief nets: binary layers drawn from the top down, and a recognition net that guesses them."""

    model_class: ClassVar[Any] = BeliefNetModel
    domain = Binary()
    tasks: ClassVar[tuple[str, ...]] = ("density", "represent", "generate")
    resamples_rows: ClassVar[bool] = True
    slots: ClassVar[Mapping[str, type[Recipe]]] = {
        "objective": VariationalObjective, "encoder": EncoderNetwork, "layers": InLayer, "recognition": InLayer,
        "initializer": Initializer,
    }  # fmt: skip

    hidden: Annotated[
        tuple[Annotated[int, "[1, inf)"], ...],
        Doc("Units of the hidden layers from the rows up, ``64x64`` on the command line."),
    ] = (64, 64)
    layers: Annotated[
        str | Recipe,
        Doc(
            "How units of a layer depend on each other given the layer above: ``factorial`` or ``autoregressive``, "
            "rows included; see `gnomon.distributions.linked`."
        ),
    ] = "factorial"
    recognition: Annotated[
        str | Recipe, Doc("The same of the recognition net, given the layer below, for the hidden layers.")
    ] = "factorial"
    encoder: Annotated[
        str | Recipe | Callable[..., Any],
        Doc("Network from a row to the lowest hidden layer; those above it are affine. See `gnomon.nn.encoders`."),
    ] = "dense"
    initializer: Annotated[str | Recipe, Doc("First weights; see `gnomon.nn.initializers`.")] = "xavier-uniform"
    epochs: int = 100
    batch_size: int | None = 64
    learning_rate: float = 0.01

    # --- fit ----------------------------------------------------------------------------------------------------

    def check_parameters(self) -> None:
        super().check_parameters()
        check_layer_sizes(self.hidden)
        if not self.hidden:
            raise UserValueError("hidden must name at least one layer, got ()", "hidden", "use (64,)")

    def make(self, n_features: int, dtype: str) -> BeliefNetModel:
        import torch

        precision = getattr(torch, dtype)
        encoder = build_network(self.recipe("encoder"), n_features, self.hidden[0], None, precision)
        model: BeliefNetModel = self.model_class(
            (n_features, *self.hidden), encoder, self.recipe("layers"), self.recipe("recognition"), precision
        )
        return model

    def initialize(self, model: BeliefNetModel, examples: Examples, noise: contracts.Noise) -> None:
        initializer = self.recipe("initializer")
        begin_network(model.encoder, initializer, noise.child("encoder"))  # type: ignore[arg-type]
        begin_network(model.upper, initializer, noise.child("upper"))
        for k, weight in enumerate(model.weights):
            initializer.fill(weight, noise.child(f"weights.{k}"))
        mean = np.average(examples.X.astype(np.float64), axis=0, weights=examples.weight.astype(np.float64))
        model.begin(np.clip(mean, 0.01, 0.99))

    def min_batch_size(self) -> int:
        return 2 if getattr(self.recipe("encoder"), "batch_norm", False) else 1

    # --- the hidden layers --------------------------------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return sum(self.hidden)

    def transform(self, X: Any, *, method: Literal["mean", "map"] = "mean") -> Array:
        """What is known of the hidden layers of each row, side by side from the lowest up.

        Parameters
        ----------
        X : array of shape (n, n_features)
        method : {"mean", "map"}, default "mean"
            Posterior means, or the most probable state of all hidden layers together. Both are exact where `log_prob`
            is there; else the means are those of the recognition net, each layer's from the means below it, and
            ``map`` is refused.

        Returns
        -------
        array of shape (n, units of all hidden layers)
        """
        return super().transform(X, method=method)

    def latent_posterior(self, rows: Array) -> Any:
        """p(h | x) where `log_prob` is there; else that of the recognition net, q(h | x), of tensors."""
        import torch

        if not self.model_.is_exact:
            return super().latent_posterior(rows)
        with torch.no_grad():
            return self.model_.exact_posterior(torch.tensor(rows, device=self.model_.device))

    def latent_means(self, rows: Array) -> Array:
        """See `transform`."""
        codes: Array = self.model_.ask("exact_mean" if self.model_.is_exact else "latent_mean", rows)
        return codes

    def latent_modes(self, rows: Array) -> Array:
        """See `transform`."""
        if not self.model_.is_exact:
            what = "the most probable state of so many hidden units is not known"
            raise UserValueError(what, "method", "use mean, or 12 hidden units at most")
        codes: Array = self.model_.ask("exact_mode", rows)
        return codes

    def log_joint(self, X: Any, H: Any) -> Array:
        """Log p(x, h) of rows together with states of the hidden layers in nats, shape (n,).

        Parameters
        ----------
        X : array of shape (n, n_features)
        H : array of shape (n, units of all hidden layers)
            Zeros and ones, the layers side by side from the lowest up.
        """
        import torch

        rows = self._rows(X)
        states = np.asarray(Binary().check(H, name="H"), rows.dtype)
        if states.shape != (len(rows), sum(self.hidden)):
            what = f"H must have the shape {(len(rows), sum(self.hidden))}, got {states.shape}"
            raise UserValueError(what, "H", "give a state of every hidden unit for each row")
        with torch.no_grad():
            place = {"device": self.model_.device}
            found = self.model_.log_joint(torch.tensor(rows, **place), torch.tensor(states, **place))
        joint: Array = found.cpu().numpy()
        return joint

    def infer(self, X: Any, *, method: Literal["recognition", "saul"] = "recognition", steps: int = 200) -> Inferred:
        """Independent units in place of the posterior of each row, and the lower bound of log p(x) that they give.

        Parameters
        ----------
        X : array of shape (n, n_features)
        method : {"recognition", "saul"}, default "recognition"
            The recognition net's answer, with its evidence lower bound by 16 draws; or means fitted to each row by
            itself under the bound of Saul, Jaakkola and Jordan (1996), begun at the recognition net's, whose bound
            is no estimate. The latter is for small nets: it holds units times parents numbers for each row.
        steps : int, default 200
            Gradient steps of ``saul``.

        Returns
        -------
        Inferred
            ``mean``, (n, units of all hidden layers), and ``bound``, (n,) in nats.
        """
        import torch

        check_choice("method", method, ("recognition", "saul"))
        if method == "recognition":
            means: Array = self.model_.ask("latent_mean", self._rows(X))
            return Inferred(means, np.asarray(self.elbo(X).pointwise))
        x, parts = self._tensor(X), []
        units = sum(a * b for a, b in itertools.pairwise((*self.model_.sizes, 1)))
        for some in torch.split(x, max(1, MEAN_FIELD_NUMBERS // units)):
            parts.append([one.cpu().numpy() for one in self.model_.mean_field(some, how_many(steps, "steps"))])
        mean, bound = (np.concatenate(column) for column in zip(*parts, strict=True))
        return Inferred(mean, bound)

    # --- evidence -----------------------------------------------------------------------------------------------

    def elbo(self, X: Any, n_samples: int = 16) -> Score:
        """The evidence lower bound, E log p(x, h) - log q(h | x): the mean over rows and draws, and its error."""
        import torch

        x = self._tensor(X)
        draws = how_many(n_samples, "n_samples")
        if draws < 2:
            raise UserValueError(f"n_samples must be at least 2, got {draws}", "n_samples", "its error needs two")
        with torch.no_grad():
            return latent_score(
                self.model_, self.model_, x, 1, Noise(self.seed_, "evaluate/elbo"), repeats=draws,
                data_space=self.domain.space(x.shape[1]),
            )  # fmt: skip

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """``log_likelihood``, exact or the bound of 64 importance-weighted draws; ``elbo``: the looser bound."""
        exact = hasattr(self, "log_prob")
        found = super().evaluate(X) if exact else {self.primary: self.log_prob_bound(X)}
        return found | {"elbo": self.elbo(X)}
