"""A row and its class as one layer, of which others see the row once for each class: 0 but at the row's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, Distribution
from gnomon.distributions.layers import OneHot
from gnomon.distributions.units import CategoricalUnits, Own, Units, mean_of
from gnomon.numeric.ops import concatenate, logsumexp

__all__ = ["ClassAndRow", "ClassGatedUnits"]


class ClassAndRow:
    """A class, and the columns of a row given the class, for each row of a batch.

    Parameters
    ----------
    label : OneHot
        The class of each of n rows, k columns.
    columns : Units
        Of d columns, that are independent given the class.
    fields : array of shape (n, k, d)
        What moves the columns of each row, given each class.
    own : mapping of str to array
        The columns' own parameters.

    Examples
    --------
    >>> from gnomon.distributions.units import BernoulliUnits
    >>> fields = np.array([[[-50.0], [50.0]]])
    >>> both = ClassAndRow(OneHot(np.zeros((1, 2)), 2), BernoulliUnits(1), fields, {"bias": np.zeros(1)})
    >>> both.mean.round(3).tolist(), both.log_prob(np.array([[1.0, 0.0, 1.0]])).round(4).tolist()
    ([[0.5, 0.5, 0.5]], [-0.6931])
    """

    __slots__ = ("columns", "fields", "label", "own")

    def __init__(self, label: OneHot, columns: Units, fields: Array, own: Own) -> None:
        self.label, self.columns, self.fields, self.own = label, columns, fields, own

    def _given(self, label: Array) -> Any:
        """The columns of each row given its class."""
        return self.columns.conditional((self.fields * label[:, :, None]).sum(1), self.own)

    def _each(self) -> Any:
        """The columns given each class, n * k rows."""
        return self.columns.conditional(self.fields.reshape(-1, self.fields.shape[2]) + 0, self.own)

    @property
    def weighed(self) -> Any:
        """Means of the columns given each class, times its probability, (n, k, d)."""
        return self._each().mean.reshape(self.fields.shape) * self.label.mean[:, :, None]

    @property
    def mean(self) -> Any:
        """Means of the columns, and the probabilities of the classes beside them."""
        return concatenate([self.weighed.sum(1), self.label.mean], axis=1)

    def expected(self, values: Array) -> Any:
        """The expectation over the classes of a number for each row and class, (n * k,)."""
        p = self.label.mean
        return (values.reshape(p.shape) * p).sum(1)

    def log_weight(self) -> Any:
        """The expected log weight of the columns without field, in nats."""
        return self.expected(self.columns.log_weight(self._each(), self.own))

    def sample(self, noise: Any, draw: int = 0) -> Any:
        """A class, and then the columns given it."""
        label = self.label.sample(noise.child("class"), draw)
        return concatenate([self._given(label).sample(noise.child("row"), draw), label], axis=1)

    def log_prob(self, x: Any) -> Any:
        """Log probability (or density) of each row and its class in nats."""
        row, label = x[:, : self.columns.size], x[:, self.columns.size :]
        return self.label.log_prob(label) + self._given(label).log_prob(row)

    def entropy(self) -> Any:
        """Entropy of each row and its class in nats."""
        return self.label.entropy() + self.expected(self._each().entropy())


@dataclass(frozen=True, init=False)
class ClassGatedUnits(Units):
    r"""A row v of d columns and one of k classes y, as d + k columns: v and then y, one-hot.

    Links see the row once for each class, :math:`y_1 v, \ldots, y_k v`, then y, then v: k d + k + d features. A link to
    the first of these has weights of its own for each class. The layer is one block all the same: given a field, the
    class has the probabilities that are left when the columns are summed out, and the columns are independent given
    the class.

    Parameters
    ----------
    columns : Units
        Kind of the columns, whose only parameter is a bias.
    n_classes : int

    Examples
    --------
    >>> from gnomon.distributions.units import BernoulliUnits
    >>> layer = ClassGatedUnits(BernoulliUnits(1), 2)
    >>> layer.size, layer.n_states, layer.features(np.array([[1.0, 0.0, 1.0]])).tolist()
    (3, 4, [[0.0, 1.0, 0.0, 1.0, 1.0]])
    """

    columns: Units
    n_classes: int

    def __init__(self, columns: Units, n_classes: int) -> None:
        for name, value in (("n", columns.n + 1), ("columns", columns), ("n_classes", n_classes)):
            object.__setattr__(self, name, value)

    @property
    def size(self) -> int:
        """Columns and classes."""
        return self.columns.size + self.n_classes

    @property
    def n_features(self) -> int:
        """The columns for each class, the classes, the columns."""
        return self.n_classes * self.columns.size + self.size

    @property
    def n_states(self) -> float:
        """Those of the columns, times the classes."""
        return self.columns.n_states * self.n_classes

    @property
    def _label(self) -> CategoricalUnits:
        return CategoricalUnits(1, self.n_classes)

    def states(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """The states with these numbers, the columns the most significant."""
        rest, number = np.divmod(numbers, self.n_classes)
        return np.concatenate([self.columns.states(rest), self._label.states(number)], axis=1)

    @property
    def center(self) -> NDArray[np.float64]:
        """Those of the columns and of the classes."""
        return np.concatenate([self.columns.center, self._label.center])

    def features(self, x: Array | Distribution) -> Array:
        """y v for each class, y, v; expectations where x is a Distribution."""
        if isinstance(x, ClassAndRow):
            gated, mean = x.weighed, x.mean
        else:
            mean = mean_of(x)
            gated = mean[:, self.columns.size :, None] * mean[:, None, : self.columns.size]
        row, label = mean[:, : self.columns.size], mean[:, self.columns.size :]
        return concatenate([gated.reshape(len(mean), -1), label, row], axis=1)

    def _parted(self, field: Array, own: Own) -> tuple[Any, Any, dict[str, Any], dict[str, Any]]:
        """Fields of the columns given each class, of the classes, and the parameters of columns and classes."""
        d, k = self.columns.size, self.n_classes
        row, label = field[:, k * d + k :], field[:, k * d : k * d + k]
        fields = field[:, : k * d].reshape(-1, k, d) + row[:, None, :]
        return fields, label, {"bias": own["bias"][:d]}, {"bias": own["bias"][d:]}

    def _masses(self, field: Array, own: Own) -> tuple[Any, Any, dict[str, Any]]:
        """Log masses of each class but for a constant, (n, k), fields of the columns given each, their parameters."""
        fields, label, mine, bias = self._parted(field, own)
        d = self.columns.size
        left = self.columns.log_normalizer(fields.reshape(-1, d) + 0, mine).reshape(-1, self.n_classes)
        return left + label + bias["bias"], fields, mine

    def conditional(self, field: Array, own: Own) -> ClassAndRow:
        """The class with the columns summed out, and the columns given each class."""
        masses, fields, mine = self._masses(field, own)
        return ClassAndRow(OneHot(masses, self.n_classes), self.columns, fields, mine)

    def log_normalizer(self, field: Array, own: Own) -> Array:
        """logsumexp over the classes of what the columns give."""
        return logsumexp(self._masses(field, own)[0])

    def log_weight(self, x: Array | Distribution, own: Own) -> Array:
        """Of the columns and the class; its expectation where x is a Distribution."""
        d = self.columns.size
        if isinstance(x, ClassAndRow):
            return x.log_weight() + x.label.mean @ own["bias"][d:]
        mean: Any = x
        return self.columns.log_weight(mean[:, :d], {"bias": own["bias"][:d]}) + mean[:, d:] @ own["bias"][d:]

    def statistics(self, x: Array | Distribution, mean: Array, own: Own) -> dict[str, Array]:
        """Those of columns and classes side by side."""
        d, k = self.columns.size, self.n_classes
        row, label = mean[:, k * d + k :], mean[:, k * d : k * d + k]
        found = self.columns.statistics(row, row, {"bias": own["bias"][:d]})["bias"]
        return {"bias": concatenate([found, label], axis=1)}

    def base(self, mean: NDArray[np.float64] | None, own: Own) -> dict[str, NDArray[np.float64]]:
        """Those of columns and classes side by side."""
        d = self.columns.size
        row, label = (None, None) if mean is None else (np.asarray(mean)[:d], np.asarray(mean)[d:])
        found = self.columns.base(row, {"bias": own["bias"][:d]})["bias"]
        return {"bias": np.concatenate([found, self._label.base(label, {"bias": own["bias"][d:]})["bias"]])}
