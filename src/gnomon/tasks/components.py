"""What a fitted model is made of, by column: components, centers, means, coefficients, weights, filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.evaluation.grids import flat_filters

__all__ = ["Components", "components", "linear_in_units"]

Floats = NDArray[np.floating[Any]]

MEAN, BIAS = "mean", "visible bias"
ASIDE = {("component", MEAN), ("unit", BIAS)}
"""Last vectors of a list that are of another kind than the others, by noun and name."""


@dataclass(frozen=True)
class Components:
    """Vectors over the columns of the data, or over the pixels of a filter.

    Parameters
    ----------
    noun : str
        What they are: "center".
    names : tuple of str
        One for each vector.
    values : array of shape (k, d)
    columns : tuple of str
    extra : mapping of str to array of shape (k,)
        A number of each that is no column of the data: its weight, its bias.
    shape : tuple of int, optional
        Of the image that each vector is.
    aside : int, default 0
        So many of the last vectors are of another kind and scale: a mean, a bias.
    unit : array of shape (d,), optional
        By which weights were divided to be those of columns as given: the spread of each in the fit.
    """

    noun: str
    names: tuple[str, ...]
    values: Floats
    columns: tuple[str, ...]
    extra: dict[str, Floats]
    shape: tuple[int, ...] | None = None
    aside: int = 0
    unit: Floats | None = None

    @property
    def alike(self) -> Floats:
        """The vectors that a picture shows on one scale: all but those aside, weights of columns of spread 1.

        A pixel that hardly varies has a huge weight in its own unit, which would outshine all others.
        """
        values = self.values[: len(self.values) - self.aside]
        return values if self.unit is None else values * self.unit

    @property
    def flat(self) -> tuple[str, ...]:
        """Those of them that cannot be seen on that scale, by name: units that are dead, or nearly."""
        return tuple(self.names[j] for j in flat_filters(self.alike.T))

    def table(self) -> dict[str, NDArray[Any]]:
        """The vectors as rows of a table: a name, further numbers, a column for each column of the data."""
        found: dict[str, NDArray[Any]] = {self.noun: np.array(self.names)}
        found |= {name: np.asarray(values) for name, values in self.extra.items()}
        return found | {name: self.values[:, j] for j, name in enumerate(self.columns)}


def components(system: Any, columns: Sequence[str], shape: tuple[int, ...] | None = None) -> Components | None:
    """What a fitted system is made of; None where that is no list of vectors over the columns.

    Parameters
    ----------
    system : System
    columns : sequence of str
        Of the rows that it was fitted to.
    shape : tuple of int, optional
        Of the images that the rows are.

    Examples
    --------
    >>> import gnomon
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [9.0, 9.0], [9.0, 8.0]])
    >>> found = components(gnomon.KMeans(n_clusters=2, random_state=0).fit(X), ["a", "b"])
    >>> found.names, sorted(found.table()["a"].tolist())
    (('center 0', 'center 1'), [0.0, 9.0])
    """
    for find in (_principal, _centers, _hidden_units, _directions, _means, _coefficients, _first_layer):
        found = find(system)
        if found is not None:
            noun, names, values, extra = found
            if values.ndim == 4:  # filters: maps, channels, rows, columns
                return _filters(noun, names, values, extra)
            if len(columns) != values.shape[1]:
                columns = [f"x{j}" for j in range(values.shape[1])]
            aside = int((noun, names[-1]) in ASIDE)
            return Components(noun, tuple(names), values, tuple(columns), extra, shape, aside, _unit(system, find))
    return None


Found = tuple[str, list[str], Floats, dict[str, Floats]]


def _principal(system: Any) -> Found | None:
    if not hasattr(system, "components_"):
        return None
    values = np.asarray(system.components_)
    names = _numbered("component", len(values))
    if not hasattr(system, "mean_"):
        return "component", names, values, {}
    return "component", [*names, MEAN], np.concatenate([values, np.asarray(system.mean_)[None]]), {}


def _centers(system: Any) -> Found | None:
    if not hasattr(system, "cluster_centers_"):
        return None
    values = np.asarray(system.cluster_centers_)
    return "center", _numbered("center", len(values)), values, {}


def _hidden_units(system: Any) -> Found | None:
    """Weights of the hidden units of an energy machine, with the biases of both sides."""
    if hasattr(system, "visible_bias_"):
        weights, visible, hidden = system.weights_, system.visible_bias_, system.hidden_bias_
    elif hasattr(system, "biases_"):  # of several layers the lowest: those above do not look at columns
        weights, (visible, hidden) = system.weights_[0], system.biases_[:2]
    else:
        return None
    if np.ndim(weights) == 4:
        return "filter", _numbered("filter", len(weights)), np.asarray(weights), {"bias": np.asarray(hidden)}
    values, visible = np.asarray(weights).T, np.asarray(visible)
    bias = np.append(np.asarray(hidden), np.nan)
    names = [*_numbered("hidden unit", len(values)), BIAS]
    return "unit", names, np.concatenate([values, visible[None]]), {"bias": bias}


def _directions(system: Any) -> Found | None:
    """Filters of the machines that shape covariances, then weights of the units that move means."""
    if isinstance(getattr(system, "filters_", None), np.ndarray):
        parts = {"filter": system.filters_, "mean unit": system.weights_}
    elif hasattr(system, "spike_precision_"):
        parts = {"slab": system.weights_}
    else:
        return None
    if np.ndim(system.weights_) == 4:
        return "filter", _numbered("filter", len(system.weights_)), np.asarray(system.weights_), {}
    values = {noun: np.asarray(weights).T for noun, weights in parts.items()}
    names = [name for noun, rows in values.items() for name in _numbered(noun, len(rows))]
    return "filter", names, np.concatenate(list(values.values())), {}


def _means(system: Any) -> Found | None:
    if not hasattr(system, "means_"):
        return None
    preparation = getattr(system, "preparation_", None)
    values = np.asarray(system.means_) if preparation is None else preparation.in_units(np.asarray(system.means_))
    if hasattr(system, "priors_"):
        return "class", [str(one) for one in system.classes_], values, {"prior": np.asarray(system.priors_)}
    return "component", _numbered("component", len(values)), values, {"weight": np.asarray(system.weights_)}


def _coefficients(system: Any) -> Found | None:
    if not hasattr(system, "coef_"):
        return None
    values, bias = linear_in_units(system)
    return "output", _outputs(system, len(values)), values, {"intercept": bias}


def linear_in_units(system: Any) -> tuple[Floats, Floats]:
    """Coefficients by output, shape (k, d), and intercepts of the columns as given, where a fit scaled them too."""
    values: Floats = np.atleast_2d(np.asarray(system.coef_, np.float64))
    bias: Any = np.broadcast_to(np.atleast_1d(np.asarray(system.intercept_, np.float64)), len(values))
    preparation = getattr(system, "preparation_", None)
    if preparation is None:
        return values, bias
    values, bias = _in_units(values, np.asarray(bias), preparation.shift, preparation.unit)
    shift, unit = getattr(preparation, "target", None) or (0.0, 0.0)
    return (values * unit, bias * unit + shift) if unit else (values, bias)


def _in_units(values: Floats, bias: Floats, shift: Any, unit: Any) -> tuple[Floats, Floats]:
    """Weights (k, d) and biases (k,) of columns (x - shift) / unit as those of x; as they are without a unit."""
    if unit is None:
        return values, bias
    values = values / unit
    return values, bias - np.matmul(values, shift)


def _outputs(system: Any, n: int) -> list[str]:
    """What each row of coefficients speaks for."""
    classes = [str(one) for one in getattr(system, "classes_", ())]
    if len(classes) == 2 and n == 1:
        return [f"{classes[1]} against {classes[0]}"]
    if classes and not hasattr(system, "predict_proba"):  # a machine of pairs of classes
        pairs = [f"{one} against {other}" for i, one in enumerate(classes) for other in classes[i + 1 :]]
        return pairs if len(pairs) == n else _numbered("output", n)
    if len(classes) == n:
        return classes
    return ["prediction"] if n == 1 else _numbered("prediction", n)


def _first_layer(system: Any) -> Found | None:
    """Weights of the first layer of a network: filters of a convolution, weights of units on columns as given."""
    modules = getattr(getattr(system, "model_", None), "modules", None)
    layers = [] if modules is None else [one for one in modules() if type(one).__name__ in ("Conv2d", "Linear")]
    if not layers:
        return None
    values = layers[0].weight.detach().cpu().numpy()
    if values.ndim == 2 and values.shape[1] != getattr(system, "n_features_in_", -1):
        return None
    offset = layers[0].bias
    bias = np.zeros(len(values)) if offset is None else offset.detach().cpu().numpy()
    for shift, unit in _scalings(system) if values.ndim == 2 else ():
        values, bias = _in_units(values, bias, shift, unit)
    extra = {} if offset is None else {"bias": bias}
    noun = "filter" if values.ndim == 4 else "unit"
    return noun, _numbered(noun, len(values)), values, extra


def _scalings(system: Any) -> list[tuple[Any, Any]]:
    """What is taken from the columns and what they are divided by on their way into a network, the last step first."""
    model, preparation = system.model_, getattr(system, "preparation_", None)
    own: list[Any] = [getattr(model, name, None) for name in ("shift", "scale")]
    found = [] if own[1] is None else [(own[0].numpy(force=True), own[1].numpy(force=True))]
    return found if preparation is None else [*found, (preparation.shift, preparation.unit)]


def _unit(system: Any, find: Any) -> Floats | None:
    """What the weights that a function finds were divided by, where these are weights and were."""
    preparation = getattr(system, "preparation_", None)
    if find is _coefficients:
        return None if preparation is None else preparation.unit
    units = [unit for _, unit in _scalings(system) if unit is not None] if find is _first_layer else []
    return np.prod(units, axis=0) if units else None


def _filters(noun: str, names: list[str], values: Floats, extra: dict[str, Floats]) -> Components:
    """Filters as images: one channel, or three colors, or the channels below one another."""
    n, channels, height, width = values.shape
    flat, shape = values.transpose(0, 2, 3, 1).reshape(n, -1), (height, width, 3)
    if channels != 3:
        flat, shape = values.reshape(n, -1), (channels * height, width)  # type: ignore[assignment]
    places = [f"{i}_{j}" for i in range(height) for j in range(width)]
    columns = [f"{place}_{c}" for place in places for c in "rgb"] if channels == 3 else places
    if channels not in (1, 3):
        columns = [f"channel {c} {place}" for c in range(channels) for place in places]
    return Components(noun, tuple(names), flat, tuple(columns), extra, shape)


def _numbered(noun: str, n: int) -> list[str]:
    return [f"{noun} {j}" for j in range(n)]
