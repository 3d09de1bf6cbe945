"""What machines of rows and their classes have in common: p(class | row) in closed form, the hybrid fit, the verbs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from sklearn.utils.metaestimators import available_if

from gnomon import contracts
from gnomon.contracts import Array
from gnomon.data.class_vectors import one_hot
from gnomon.data.examples import Examples
from gnomon.distributions.bernoulli import Bernoulli
from gnomon.distributions.domains import Binary, Real, UnitInterval
from gnomon.distributions.posteriors import MixedRows
from gnomon.distributions.units import BernoulliUnits, CenteredGaussianUnits, Units
from gnomon.errors import UserValueError
from gnomon.inference.arrays import convert, to_numpy
from gnomon.inference.mcmc.gibbs import gibbs
from gnomon.numeric.noise import Noise, seed_of
from gnomon.numeric.ops import concatenate, log_softmax, logsumexp, positive, sigmoid, softplus
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import how_many
from gnomon.recipes.recipe import Recipe
from gnomon.system.partial_fit import OnlineClassifier
from gnomon.system.unlabeled import TakesUnlabeled
from gnomon.system.verbs import verb
from gnomon.systems.energy._label_objective import LabelObjective
from gnomon.systems.energy._machine import EnergyMachine, StandardizedMachine
from gnomon.systems.energy.layered import LayeredMachine

__all__ = ["UNITS", "LabeledMachine", "LabeledModel"]

FIRST_WEIGHTS = 0.1
"""Standard deviation of the first weights."""
UNITS: dict[str, type[Units]] = {"gaussian": CenteredGaussianUnits, "bernoulli": BernoulliUnits}


class LabeledModel(LayeredMachine):
    """Base: a machine whose layer ``visible`` is a row and its one-hot class, beside bits independent given both.

    A subclass sets `n_features`, `n_classes` and `columns`, the kind of the row, and gives `fields`, `by_fields` and
    `of_class`.
    """

    n_features: int
    n_classes: int
    columns: Units

    def fields(self, x: Array) -> Any:
        """Log-odds of the hidden units that have to do with the class, beside each class; (n, n_classes, n_hidden)."""
        raise NotImplementedError

    def by_fields(self, x: Array, slope: Array) -> dict[str, Array]:
        """Gradients by the parameters of `fields` of what has this gradient, (n, n_classes, n_hidden), by them."""
        raise NotImplementedError

    def of_class(self, code: int) -> LayeredMachine:
        """The machine of the rows of a class: layers ``visible``, the row alone, and the hidden ones."""
        raise NotImplementedError

    def with_class(self, x: Array, codes: Any) -> Array:
        """Rows with the one-hot class of each beside them."""
        return concatenate([x, convert(one_hot(codes, self.n_classes), x)], axis=1)

    def scores(self, x: Array) -> Array:
        """Minus the free energies of each class beside the row, but for what all have alike; (n, n_classes)."""
        return self._scored(x, self.fields(x))

    def _scored(self, x: Array, fields: Any) -> Any:
        return self._arrays({"visible": x})["visible_bias"][self.n_features :] + softplus(fields).sum(-1)

    def class_log_proba(self, x: Array) -> Array:
        """log p(y | v), shape (n, n_classes)."""
        return log_softmax(self.scores(x), 1)

    def class_proba(self, x: Array) -> Array:
        """p(y | v), shape (n, n_classes)."""
        return _exp(self.class_log_proba(x))

    def hidden_means(self, x: Array) -> Array:
        """E[h | v] of the hidden units of `fields`, the class summed out, shape (n, n_hidden)."""
        return (self.class_proba(x)[:, :, None] * sigmoid(self.fields(x))).sum(1)

    def hidden_posterior(self, x: Array) -> MixedRows:
        """p(h | v), the class summed out: a mixture over the classes of independent bits."""
        fields, log_p = to_numpy(self.fields(x)), to_numpy(self.class_log_proba(x))
        return MixedRows(log_p, lambda rows, codes: Bernoulli(fields[rows, codes]))

    def hidden_modes(self, x: Array) -> Array:
        """The h of the class and hidden bits that are most probable together, shape (n, n_hidden)."""
        fields = self.fields(x)
        bias = self._arrays({"visible": x})["visible_bias"][self.n_features :]
        best = (bias + (fields * positive(fields)).sum(-1)).argmax(1)
        return positive(fields[np.arange(len(x)), best])

    def row_energy(self, x: Array) -> Array:
        """-log of the sum over classes and hidden units of exp(-E) of each row, shape (n,)."""
        bias = self._arrays({"visible": x})["visible_bias"][: self.n_features]
        return -self.columns.log_weight(x, {"bias": bias}) - logsumexp(self.scores(x))

    def class_gradient(self, x: Array, codes: Any, weight: Array) -> tuple[Array, dict[str, Array]]:
        """log p(codes_i | x_i), and the sums over rows of minus weight_i times its gradient, exact."""
        fields = self.fields(x)
        log_p = log_softmax(self._scored(x, fields), 1)
        rows = np.arange(len(x))
        away = _exp(log_p)
        away[rows, codes] -= 1
        away = away * weight[:, None]
        features = convert(np.zeros(self.n_features), x)
        found = self.by_fields(x, away[:, :, None] * sigmoid(fields))
        return log_p[rows, codes], found | {"visible_bias": concatenate([features, away.sum(0)], axis=0)}


def _exp(x: Any) -> Any:
    return x.exp() if isinstance(x, torch.Tensor) else np.exp(x)


class LabeledMachine(StandardizedMachine, EnergyMachine, TakesUnlabeled, OnlineClassifier):
    r"""Base: trained by :math:`-\log p(y | v)`, exact, plus ``generative`` times :math:`-\log p(v, y)`."""

    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {"objective": {"generative": 1.0}}

    n_hidden: Annotated[int, "[1, inf)", Doc("Hidden units.")] = 64
    visible: Annotated[
        Literal["gaussian", "bernoulli"],
        Doc("Units of the columns: ``gaussian`` takes real numbers, ``bernoulli`` numbers in [0, 1], never scaled."),
    ] = "gaussian"
    discriminative: Annotated[float, "[0, inf)", Doc("Factor of -log p(y | v).")] = 1.0
    generative: Annotated[float, "[0, inf)", Doc("Factor of -log p(v, y), a sum over all columns.")] = 0.01
    objective: Annotated[str | Recipe, Doc("How the joint density is learned.")] = "cd"
    epochs: int = 100
    batch_size: int | None = 50
    learning_rate: float = 0.01
    optimizer: str | Recipe = "adam"

    @property
    def domain(self) -> Any:
        """Real numbers, or numbers in [0, 1]."""
        if self.visible == "bernoulli":
            return UnitInterval()
        return Real(largest=1e100)

    @property
    def outcomes(self) -> Any:
        """Of a row: a density of real numbers, or a probability of zeros and ones."""
        if self.visible == "bernoulli":
            return Binary()
        return Real(largest=1e100)

    # --- fit ----------------------------------------------------------------------------------------------------------

    def check_parameters(self) -> None:
        super().check_parameters()
        if not (self.discriminative or self.generative):
            raise UserValueError("discriminative and generative must not both be 0", "generative", "set one above 0")

    def arguments(self, examples: Examples) -> dict[str, Any]:
        known = np.asarray(examples.y)
        counts = np.bincount(known[known >= 0], examples.weight[known >= 0], len(self.classes_))
        shares = (counts / counts.sum()).tolist()
        return super().arguments(examples) | {"shares": shares, "partly": bool((known < 0).any())}

    def initialize(self, model: LabeledModel, examples: Examples, noise: contracts.Noise) -> None:
        model.initialize(noise, self._start_mean(), scale=FIRST_WEIGHTS)

    def make_objective(self) -> LabelObjective:
        needs = self.generative > 0 or self.arguments_["partly"]
        joint = self.recipe("objective").build() if needs else None
        return LabelObjective(self.discriminative, self.generative, joint)

    def _scales(self) -> bool:
        return self.standardize and self.visible == "gaussian"

    def _start_mean(self) -> Array:
        return np.concatenate([super()._start_mean(), self.arguments_["shares"]])

    def to_visible(self, X: Any) -> Array:
        """Rows as states of the visible layer, each beside its most probable class."""
        return self.model_.with_class(super().to_visible(X), self.class_codes(self._rows(X)))

    def from_visible(self, states: Array) -> Array:
        """Rows in the units of the data, shape (n, n_features), without the classes that states hold too."""
        return super().from_visible(states[:, : self.model_.n_features])

    # --- verbs --------------------------------------------------------------------------------------------------------

    def class_log_proba(self, rows: Array) -> Array:
        return self.model_.class_log_proba(self._scaled(rows))

    def _hidden_posterior(self, rows: Array) -> MixedRows:
        return self.model_.hidden_posterior(rows)

    def latent_means(self, rows: Array) -> Array:
        return self.model_.hidden_means(self._scaled(rows))

    def _hidden_modes(self, rows: Array) -> Array:
        return self.model_.hidden_modes(rows)

    def transform(self, X: Any, *, method: Literal["mean", "map"] = "mean") -> Array:
        """P(h = 1 | v), the class summed out; or the bits of the most probable class and hidden bits together.

        Parameters
        ----------
        X : array of shape (n, n_features)
        method : {"mean", "map"}, default "mean"

        Returns
        -------
        array of shape (n, n_hidden)
        """
        return super().transform(X, method=method)

    @verb
    def energy(self, X: Any) -> Array:
        """-log of the sum over classes and hidden units of exp(-E) of each row: log p(v) = -energy - log Z."""
        return self.model_.row_energy(self._scaled(self._rows(X)))

    @available_if(lambda self: not hasattr(self, "model_") or hasattr(self.model_, "log_prob"))
    def log_prob(self, X: Any, y: Any = None) -> Array:
        """Exact log p(v, y) in nats, of a row and its class; without `y` log p(v). Up to 20 hidden units."""
        rows = self.outcomes.check(self._rows(X))
        scaled, model = self._scaled(rows), self.model_
        energy = model.row_energy(scaled)
        if y is not None:
            energy = model.energy(model.with_class(scaled, self.encode_target(y, rows)))
        return -energy - self.log_partition("exact").value - self._log_units(rows)

    def sample(self, n: int = 1, y: Any = None, *, steps: int = 1000, random_state: Any = None) -> tuple[Array, Array]:
        """n rows and the class of each, the ends of Gibbs chains of `steps` sweeps begun at the data's means.

        Parameters
        ----------
        n : int, default 1
        y : label, optional
            The class that is held; drawn with the rows where left out.
        steps : int, default 1000
        random_state : int, Generator or None

        Returns
        -------
        X : array of shape (n, n_features)
        y : array of shape (n,), in the dtype of the labels
        """
        n, seed, d = how_many(n), seed_of(random_state), self.model_.n_features
        machine, start = self.model_, self._start(max(n, 1), Noise(seed, "sample/start"))
        if y is not None:
            code = int(self.encode_target([y], np.zeros((1, d)))[0])
            machine, start = self.model_.of_class(code), start[:, :d]
        hidden = tuple(block for block in machine.blocks if block != "visible")
        noise, sweeps = Noise(seed, "gibbs"), how_many(steps, "steps")
        state = gibbs(machine, {"visible": start}, noise, steps=sweeps, order=(*hidden, "visible"))["visible"][:n]
        if y is not None:
            return self.from_visible(state), np.repeat(self.classes_[[code]], n)
        return self.from_visible(state), self.classes_[state[:, d:].argmax(1)]
