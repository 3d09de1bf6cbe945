"""Stacking: a combiner learns from what members say of rows that they have not seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, TransformerTags

from gnomon.contracts import Array, Noise
from gnomon.data.examples import Examples
from gnomon.distributions.domains import Real
from gnomon.errors import UserValueError
from gnomon.recipes.fields import Doc
from gnomon.system.base import System
from gnomon.system.fields import HasDtype
from gnomon.system.prediction import Classifier, Regressor
from gnomon.systems.ensemble.composite import SEEDS, Composite, Parts, listed, member, outputs
from gnomon.systems.ensemble.folds import assign

__all__ = ["Stacking", "StackingModel", "StackingRegression"]


class StackingModel(Parts):
    """Layers of members, each with a combiner; a layer's input is what the members of the layer before say.

    Parameters
    ----------
    members : dict of str to System
        Unfitted.
    final : System
        Unfitted combiner.
    classes : array of shape (k,) or None
        None: a regression.
    folds, layers : int
    apart : bool
        Whether each layer is fitted to rows of its own.
    average : bool
        Whether the answer is the mean of all layers' combiners; otherwise the last one's.
    """

    def __init__(
        self, members: dict[str, System], final: System, classes: Array | None, *, folds: int, layers: int, apart: bool,
        average: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        self.members, self.final, self.classes = members, final, classes
        self.folds, self.layers, self.apart, self.average = folds, layers, apart, average
        self.each = len(members) * (folds + 1) + 1
        self.turns = layers * self.each

    def _blank(self, name: str) -> System:
        return {**self.members, "final": self.final}[name.partition("-")[2]]

    def layer_rows(self, layer: int, examples: Examples, noise: Noise) -> Array:
        """Rows that a layer is fitted to: all of them, or a part that no other layer has."""
        if not self.apart or self.layers == 1:
            return np.arange(len(examples.X))
        codes = None if self.classes is None else examples.y
        part = assign(len(examples.X), self.layers, noise.child("parts"), codes=codes)
        return np.flatnonzero(part == layer)

    def turn(self, i: int, examples: Examples, noise: Noise) -> dict[str, float] | None:
        """Step i: a member on all folds but one, on all folds, or a combiner."""
        assert examples.y is not None
        layer, index = divmod(i, self.each)
        rows = self.layer_rows(layer, examples, noise)
        y = examples.y[rows] if self.classes is None else self.classes[examples.y[rows]]
        weight = examples.weight[rows]
        if index == self.each - 1:
            self._combine(layer, y, weight, noise)
            return None
        X = self._inputs(layer, examples.X, rows)
        which, fold = divmod(index, self.folds + 1)
        name = list(self.members)[which]
        stream = noise.child(f"{layer}/{name}").at(fold)
        seed = int(stream.integers(SEEDS, (1,))[0])
        if fold == self.folds:
            self.parts[f"{layer}-{name}"] = self.fit_part(self.members[name], X, y, weight, seed, always=False)
            return None
        codes = None if self.classes is None else examples.y[rows]
        inside = assign(len(rows), self.folds, noise.child(f"folds/{layer}"), codes=codes) == fold
        part = self.fit_part(self.members[name], X[~inside], y[~inside], weight[~inside], seed, always=False)
        predictions = self._columns(outputs(part, X[inside], self.classes))
        key = f"said-{layer}"
        if key not in self.own:
            self.own[key] = np.zeros((len(rows), predictions.shape[1] * len(self.members)))
        self.own[key][inside, which * predictions.shape[1] : (which + 1) * predictions.shape[1]] = predictions
        return None

    def _columns(self, predictions: Array) -> Array:
        """Probabilities of all classes but the first where there are two: the other is their complement."""
        return predictions[:, 1:] if self.classes is not None and len(self.classes) == 2 else predictions

    def _inputs(self, layer: int, X: Array, rows: Array) -> Array:
        """What the members of a layer are fitted to."""
        if not layer:
            return X[rows]
        if self.apart:
            return self.features(X[rows], layer)
        return self.own[f"said-{layer - 1}"].astype(X.dtype)

    def _combine(self, layer: int, y: Array, weight: Array, noise: Noise) -> None:
        seed = int(noise.child(f"{layer}/final").integers(SEEDS, (1,))[0])
        predictions = self.own[f"said-{layer}"]
        self.parts[f"{layer}-final"] = self.fit_part(self.final, predictions, y, weight, seed, always=False)

    def features(self, X: Array, layer: int) -> Array:
        """What the members of the layers before `layer` make of rows, shape (n, width); X itself for layer 0."""
        inputs = X
        for below in range(layer):
            members = [self.parts[f"{below}-{name}"] for name in self.members]
            predictions = [self._columns(outputs(member, inputs, self.classes)) for member in members]
            inputs = np.concatenate(predictions, axis=1).astype(X.dtype)
        return inputs

    def layer(self, X: Array, layer: int) -> Array:
        """What the combiner of a layer says, shape (n, k), or (n, 1) for a regression."""
        predictions = self.features(X, layer + 1).astype(np.float64)
        return outputs(self.parts[f"{layer}-final"], predictions, self.classes)

    def predict(self, X: Array) -> Array:
        """The last combiner's answer, or the mean of all, shape (n, k), or (n,) for a regression."""
        layers = range(self.layers) if self.average else [self.layers - 1]
        mean = np.mean([self.layer(X, i) for i in layers], axis=0)
        return mean if self.classes is not None else mean[:, 0]


class _Stacked(ClassNamePrefixFeaturesOutMixin, TransformerMixin, HasDtype, Composite):
    """Hyper-parameters, addresses and verbs of both."""

    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {"apart": {"layers": 2}, "average": {"layers": 2}}
    members: Annotated[
        str | Any,
        Doc(
            "Names of systems joined by +, or a list of names, systems and pairs (name, system). A parameter of a "
            "member is ``name__parameter``, the name being that of its system with underscores.",
            type="str or list",
        ),
    ] = "softmax-regression+random-forest"
    final: Annotated[str | Any, Doc("The combiner.", type="str or System")] = "logistic-regression"
    folds: Annotated[int, "[2, inf)", Doc("Folds; every one has its share of each class.")] = 5
    layers: Annotated[
        int, "[1, inf)", Doc("Layers of members of the same kinds, each with members and a combiner of its own.")
    ] = 1
    apart: Annotated[
        bool,
        Doc(
            "Whether each layer is fitted to a part of the rows that no other layer sees, whose rows go through the "
            "layers below as new rows would; otherwise every layer takes all rows, as the layer below predicted them "
            "out of fold."
        ),
    ] = False
    average: Annotated[
        bool, Doc("Whether the answer is the mean of the combiners of all layers; otherwise the last one's.")
    ] = False

    def _named(self) -> dict[str, System]:
        return {**dict(listed(self.members)), "final": member(self.final, "final")}

    def _replace(self, name: str, system: System) -> None:
        if name == "final":
            self.final = system
        else:
            self.members = [(known, system if known == name else one) for known, one in listed(self.members)]

    def _model(self, classes: Array | None) -> StackingModel:
        own = self.get_params(deep=False)
        plan = {"folds": own["folds"], "layers": own["layers"], "apart": own["apart"], "average": own["average"]}
        return StackingModel(dict(listed(self.members)), member(self.final, "final"), classes, **plan)

    def finish(self, model: StackingModel) -> None:
        # out-of-fold predictions are no longer needed
        model.own = {}

    def check_parameters(self) -> None:
        if "final" in dict(listed(self.members)):
            raise UserValueError("a member is called 'final'", "members", "the combiner is; choose another name")
        super().check_parameters()

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags()
        return tags

    @property
    def members_(self) -> dict[str, System]:
        """Fitted members and combiners by name: ``0-softmax_regression``, ..., ``0-final``."""
        return dict(self.model_.parts)

    @property
    def _n_features_out(self) -> int:
        row = np.zeros((1, self.n_features_in_), self.arguments_["dtype"])
        return int(self.model_.features(row, self.model_.layers).shape[1])

    def transform(self, X: Any) -> Array:
        """What the members of the last layer say of rows, side by side: the input of the combiner."""
        rows = self._rows(X)
        return self.model_.features(rows, self.model_.layers)

    def fit_transform(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Array:
        """`transform` of the training rows after the fit: what the members say of rows that they have seen."""
        return self.fit(X, y, sample_weight=sample_weight).transform(X)

    def _layer(self, X: Any, layer: int) -> Array:
        rows = self._rows(X)
        layers = self.model_.layers  # those of the fit, whatever the parameter was set to since
        if not 0 <= layer < layers:
            raise UserValueError(f"layer must be in 0 ... {layers - 1}, got {layer}", "layer")
        return self.model_.layer(rows, layer)


class Stacking(_Stacked, Classifier):
    r"""Stacking of any classifiers, in one layer or several.

    The members' probabilities :math:`z = [h_1(x), \ldots, h_k(x)]` (of the second class alone where there are two) are
    the input of the combiner g: :math:`y = g(z)`. g is fitted to what each member says of rows that it has not seen:
    for each fold the member is fitted to the other folds; for prediction it is fitted to all rows. With several layers
    the next members take z as their input.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    members_ : dict of str to System

    Notes
    -----
    Each fit of a member is one step and can be resumed; saved, a member has a folder of its own. Cost: folds + 1 fits
    of each member per layer. Source: Wolpert (1992); van der Laan, Polley and Hubbard (2007).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> stacked = Stacking(members="decision-tree+softmax-regression", random_state=0)
    >>> stacked.set_params(decision_tree__max_depth=3).fit(X, y).score(X, y) > 0.9
    True
    """

    name: ClassVar[str] = "stacking"
    resamples_rows: ClassVar[bool] = True
    model_class: ClassVar[type] = StackingModel
    domain = Real(largest=1e100)

    def arguments(self, examples: Examples) -> dict[str, Any]:
        return super().arguments(examples) | {"classes": self.classes_}

    def make(self, *_: Any, **arguments: Any) -> StackingModel:
        return self._model(arguments["classes"])

    def class_proba(self, rows: Array) -> Array:
        return self.model_.predict(rows).astype(rows.dtype)

    def class_log_proba(self, rows: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(self.class_proba(rows))

    def _states_frequencies(self) -> bool:
        final = member(self.final, "final")
        return isinstance(final, Classifier) and final._states_frequencies()

    def predict_layer(self, X: Any, layer: int) -> Array:
        """Probabilities by the combiner of one layer (from 0), shape (n, n_classes)."""
        return self._layer(X, layer)


class StackingRegression(_Stacked, Regressor):
    r"""Stacking of any regressions, in one layer or several.

    As `Stacking`: the combiner's input :math:`z = [h_1(x), \ldots, h_k(x)]` holds the members' predictions, and
    :math:`\hat y = g(z)`.

    Attributes
    ----------
    members_ : dict of str to System

    Notes
    -----
    Cost: folds + 1 fits of each member per layer. Source: Wolpert (1992); Breiman (1996).

    Examples
    --------
    >>> X = np.linspace(0.0, 1.0, 40)[:, None]
    >>> stacked = StackingRegression(members="regression-tree+support-vector-regression", random_state=0)
    >>> stacked.fit(X, X[:, 0] ** 2).score(X, X[:, 0] ** 2) > 0.9
    True
    """

    name: ClassVar[str] = "stacking-regression"
    resamples_rows: ClassVar[bool] = True
    model_class: ClassVar[type] = StackingModel
    domain = Real(largest=1e100)

    members: str | Any = "linear-regression+random-forest-regression+support-vector-regression"
    final: str | Any = "linear-regression"

    def make(self, *_: Any, **arguments: Any) -> StackingModel:
        return self._model(None)

    def predict_layer(self, X: Any, layer: int) -> Array:
        """Prediction by the combiner of one layer (from 0), shape (n,)."""
        return self._layer(X, layer)[:, 0]
