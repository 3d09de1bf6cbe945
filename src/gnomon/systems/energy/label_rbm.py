"""The restricted Boltzmann machine of rows and their classes: generative, discriminative or both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from sklearn.utils.metaestimators import available_if

from gnomon import contracts
from gnomon.contracts import Array
from gnomon.data.examples import Examples
from gnomon.distributions.domains import Binary, Real, UnitInterval
from gnomon.distributions.joined import JoinedUnits
from gnomon.distributions.units import BernoulliUnits, CategoricalUnits, CenteredGaussianUnits, Units
from gnomon.errors import UserValueError
from gnomon.inference.arrays import convert
from gnomon.inference.mcmc.gibbs import gibbs
from gnomon.numeric.noise import Noise, seed_of
from gnomon.numeric.ops import concatenate, log_softmax, logsumexp, sigmoid, softplus
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import how_many
from gnomon.recipes.recipe import Recipe
from gnomon.system.partial_fit import OnlineClassifier
from gnomon.system.unlabeled import TakesUnlabeled
from gnomon.system.verbs import verb
from gnomon.systems.energy._label_objective import LabelObjective
from gnomon.systems.energy._machine import EnergyMachine, StandardizedMachine
from gnomon.systems.energy._missing import METHODS, FillsGaps, check_choice
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.links import DenseLink

__all__ = ["LabelRBM", "LabelRBMModel"]

FIRST_WEIGHTS = 0.1
"""Standard deviation of the first weights."""
UNITS: dict[str, type[Units]] = {"gaussian": CenteredGaussianUnits, "bernoulli": BernoulliUnits}


class LabelRBMModel(LayeredMachine):
    r"""E(v, y, h) = -w(v) - d^T y - c^T h - v^T W h - y^T U h: an RBM whose visible layer is a row and a one-hot class.

    p(y | v) is proportional to exp(d_y + sum_j softplus(c_j + (v W)_j + U_yj)). The rows of ``weight`` are those of W
    and then those of U, one per class; ``visible_bias`` is b and then d.

    Parameters
    ----------
    n_features, n_classes, n_hidden : int
    kind : {"bernoulli", "gaussian"}
        Units of v: w(v) = b^T v of bits, -\|v - b\|^2 / 2 of real numbers.
    dtype : torch.dtype
    """

    weight: torch.nn.Parameter
    visible_bias: torch.nn.Parameter
    hidden_bias: torch.nn.Parameter

    def __init__(
        self, n_features: int, n_classes: int, n_hidden: int, kind: str, dtype: torch.dtype = torch.float32
    ) -> None:
        self.n_features, self.n_classes = n_features, n_classes
        self.columns = UNITS[kind](n_features)
        visible = JoinedUnits(self.columns, CategoricalUnits(1, n_classes))
        units = {"visible": visible, "hidden": BernoulliUnits(n_hidden)}
        super().__init__(units, [DenseLink("visible", "hidden", name="")], dtype=dtype)

    def with_class(self, x: Array, codes: Any) -> Array:
        """Rows with the one-hot class of each beside them."""
        one_hot = np.zeros((len(x), self.n_classes))
        one_hot[np.arange(len(x)), codes] = 1
        return concatenate([x, convert(one_hot, x)], axis=1)

    def _fields(self, x: Array) -> tuple[Any, Any]:
        """c_j + (x W)_j + U_kj, of shape (n, n_classes, n_hidden), and d."""
        own, d = self._arrays({"visible": x}), self.n_features
        field = x @ own["weight"][:d] + own["hidden_bias"]
        return field[:, None, :] + own["weight"][d:][None], own["visible_bias"][d:]

    def scores(self, x: Array) -> Array:
        """Minus the free energies of each class beside the row, but for what all have alike; (n, n_classes)."""
        fields, bias = self._fields(x)
        return bias + softplus(fields).sum(-1)

    def class_log_proba(self, x: Array) -> Array:
        """log p(y | v), shape (n, n_classes)."""
        return log_softmax(self.scores(x), 1)

    def class_proba(self, x: Array) -> Array:
        """p(y | v), shape (n, n_classes)."""
        return _exp(self.class_log_proba(x))

    def hidden_means(self, x: Array) -> Array:
        """E[h | v], the class summed out, shape (n, n_hidden)."""
        return (self.class_proba(x)[:, :, None] * sigmoid(self._fields(x)[0])).sum(1)

    def row_energy(self, x: Array) -> Array:
        """-log of the sum over classes and hidden units of exp(-E) of each row, shape (n,)."""
        bias = self._arrays({"visible": x})["visible_bias"][: self.n_features]
        return -self.columns.log_weight(x, {"bias": bias}) - logsumexp(self.scores(x))

    def class_gradient(self, x: Array, codes: Any, weight: Array) -> tuple[Array, dict[str, Array]]:
        """log p(codes_i | x_i), and the sums over rows of minus weight_i times its gradient, exact.

        Cost O(n_features n_hidden + n_classes n_hidden) per row.
        """
        fields, bias = self._fields(x)
        log_p = log_softmax(bias + softplus(fields).sum(-1), 1)
        rows = np.arange(len(x))
        away = _exp(log_p)
        away[rows, codes] -= 1
        away = away * weight[:, None]
        hidden = away[:, :, None] * sigmoid(fields)
        by_row = hidden.sum(1)
        features = convert(np.zeros(self.n_features), x)
        return log_p[rows, codes], {
            "weight": concatenate([x.T @ by_row, hidden.sum(0)], axis=0),
            "visible_bias": concatenate([features, away.sum(0)], axis=0),
            "hidden_bias": by_row.sum(0),
        }


def _exp(x: Any) -> Any:
    return x.exp() if isinstance(x, torch.Tensor) else np.exp(x)


class LabelRBM(FillsGaps, StandardizedMachine, EnergyMachine, TakesUnlabeled, OnlineClassifier):
    r"""Classification restricted Boltzmann machine: hidden bits that couple a row with its class.

    :math:`p(y | v) \propto \exp(d_y + \sum_j \mathrm{softplus}(c_j + v^T W_{:j} + U_{yj}))`, the free energies of the
    classes. Trained by :math:`-\log p(y | v)`, whose gradient is exact, plus ``generative`` times
    :math:`-\log p(v, y)`, whose gradient is the objective's: the hybrid of both, either alone where the other's factor
    is 0.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels, sorted.
    history_ : dict of lists
        By epoch: ``cross_entropy`` (nats per row), what the objective of the joint density watches, ``gradient_norm``.

    Notes
    -----
    A joint log-likelihood is a sum over all columns, the class's a single number: small factors ``generative`` go a
    long way. Rows labeled -1 have no class and add :math:`-\log p(v)` each. Cost per update
    O(batch (d + classes) m). Sources: Hinton, Osindero and Teh (2006) for the joint machine; Larochelle and Bengio
    (2008), "Classification using discriminative restricted Boltzmann machines".

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> machine = LabelRBM(n_hidden=8, epochs=60, random_state=0).fit(X, y)
    >>> machine.score(X, y) > 0.9, machine.sample(2, y=1, random_state=0)[0].shape
    (True, (2, 4))
    """

    name: ClassVar[str] = "label-rbm"
    tasks: ClassVar[tuple[str, ...]] = ("classify", "represent")
    model_class: ClassVar[type] = LabelRBMModel
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

    def make(self, n_features: int, dtype: str, n_classes: int, **_: Any) -> LabelRBMModel:
        return LabelRBMModel(n_features, n_classes, self.n_hidden, self.visible, getattr(torch, dtype))

    def initialize(self, model: LabelRBMModel, examples: Examples, noise: contracts.Noise) -> None:
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

    def _visible_cells(self, rows: Array, missing: Any) -> tuple[Array, Any]:
        """Beside a row its class, which is not known."""
        none = np.zeros((len(rows), self.model_.n_classes), rows.dtype)
        return np.concatenate([self._scaled(rows), none], axis=1), np.concatenate([missing, none == 0], axis=1)

    # --- verbs --------------------------------------------------------------------------------------------------------

    def class_log_proba(self, rows: Array) -> Array:
        return self.model_.class_log_proba(self._scaled(rows))

    def transform(self, X: Any) -> Array:
        """P(h = 1 | v), the class summed out, shape (n, n_hidden)."""
        return self.model_.hidden_means(self._scaled(self._rows(X)))

    def predict_proba_observed(self, X: Any, mask: Any = None, *, method: str = "auto") -> Array:
        """Probabilities of the classes given the known cells of each row, shape (n, n_classes).

        The missing cells are summed out: exactly, where these have at most 2^12 states or the hidden units do, else
        along chains of 500 sweeps that hold the known cells.

        Parameters
        ----------
        X : array of shape (n, n_features)
            NaN where a cell is missing.
        mask : bool array of shape (n, n_features), optional
            Further cells that are missing, whatever they hold.
        method : {"auto", "exact", "mean_field", "gibbs"}
            As of `impute`; ``mean_field`` is what the objective ``multi-prediction`` teaches.
        """
        check_choice("method", method, METHODS)
        rows, missing = self._gaps(X, mask)
        found, partly = np.exp(self.class_log_proba(rows)), missing.any(1)
        if partly.any():
            mean, _ = self._moments(rows[partly], missing[partly], method, 500, self.seed_)
            found[partly] = mean[:, self.model_.n_features :]
        return found

    def predict_observed(self, X: Any, mask: Any = None, *, method: str = "auto") -> Array:
        """The likeliest class of each row given its known cells, shape (n,); as `predict_proba_observed`."""
        return self.classes_[self.predict_proba_observed(X, mask, method=method).argmax(1)]

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
        start = self._start(max(n, 1), Noise(seed, "sample/start"))
        clamp = {}
        if y is not None:
            code = self.encode_target([y], np.zeros((1, d)))
            held = self.model_.with_class(0 * start[:, :d], np.repeat(code, len(start)))
            mask = np.broadcast_to(np.arange(start.shape[1]) >= d, start.shape)
            clamp = {"visible": (held, mask)}
        state = gibbs(
            self.model_, {"visible": start}, Noise(seed, "gibbs"), steps=how_many(steps, "steps"),
            order=("hidden", "visible"), clamp=clamp,
        )["visible"][:n]  # fmt: skip
        return self.from_visible(state), self.classes_[state[:, d:].argmax(1)]
