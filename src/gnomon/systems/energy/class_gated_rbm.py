"""The restricted Boltzmann machine whose couplings are chosen by the class of the row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch

from gnomon.contracts import Array
from gnomon.distributions.class_units import ClassGatedUnits
from gnomon.distributions.units import BernoulliUnits, Units
from gnomon.errors import UserValueError
from gnomon.inference.arrays import convert
from gnomon.numeric.ops import concatenate, positive, sigmoid, softplus
from gnomon.recipes.fields import Doc
from gnomon.system.latent_codes import check_method
from gnomon.systems.energy._labeled import UNITS, LabeledMachine, LabeledModel
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.links import DenseLink, Own

__all__ = ["ClassGatedRBM", "ClassGatedRBMModel", "PartLink"]

GROUPS = ("class", "nuisance", "both")


class PartLink(DenseLink):
    """Some features of the units of a, next to each other, with every unit of b; the others with none.

    Parameters
    ----------
    a, b : str
    features : int
        How many there are.
    part : slice
        Those that are coupled.
    name : str, optional
        As of `Link`.

    Examples
    --------
    >>> link = PartLink("visible", "hidden", 3, slice(1, 3))
    >>> link.push("visible", {"hidden": np.ones((1, 1))}, {"weight": np.array([[5.0], [7.0]])}).tolist()
    [[0.0, 5.0, 7.0]]
    """

    def __init__(self, a: str, b: str, features: int, part: slice, *, name: str | None = None) -> None:
        self.features, self.part = features, part
        super().__init__(a, b, name=name)

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """A matrix with a row for each feature of the part."""
        return {"weight": (self.part.stop - self.part.start, sizes[self.ends[1]])}

    def field(self, block: str, x: Array, own: Own) -> Array:
        """That of the part; 0 for the other features of a."""
        if block == self.ends[1]:
            return x[:, self.part] @ own["weight"]
        sides = [np.zeros((len(x), n)) for n in (self.part.start, self.features - self.part.stop)]
        before, after = (convert(side, x) for side in sides)
        return concatenate([before, x @ own["weight"].T, after], axis=1)

    def statistics(self, left: Array, right: Array, weight: Array, own: Own) -> dict[str, Array]:
        """The weighted sum of outer products of the part and b."""
        return super().statistics(left[:, self.part], right, weight, own)


class ClassGatedRBMModel(LabeledModel):
    r"""Rows v, classes y, bits h that the class gates and bits g that it does not reach, with the energy

    .. math:: E = -w(v) - d^T y - c^T h - e^T g - \textstyle\sum_{ijk} W_{ijk} v_i h_j y_k - y^T U h - v^T R g .

    :math:`p(y | v)` is proportional to :math:`\exp(d_y + \sum_j \mathrm{softplus}(c_j + U_{yj} + v^T W_{:jy}))`: g has
    no part in it. The rows of ``weight`` are those of each class's W, one class after the other, and then those of U.

    Parameters
    ----------
    n_features, n_classes, n_hidden, n_nuisance : int
        `n_nuisance` may be 0.
    kind : {"bernoulli", "gaussian"}
        Units of v: w(v) = b^T v of bits, -\|v - b\|^2 / 2 of real numbers.
    relation : {"gated", "pairwise"}
        ``pairwise``: one W for all classes, ``weight`` being U above W, as in `LabelRBMModel`.
    dtype : torch.dtype
    """

    weight: torch.nn.Parameter
    visible_bias: torch.nn.Parameter
    hidden_bias: torch.nn.Parameter

    def __init__(
        self, n_features: int, n_classes: int, n_hidden: int, n_nuisance: int, kind: str, relation: str,
        dtype: torch.dtype = torch.float32,
    ) -> None:  # fmt: skip
        self.n_features, self.n_classes, self.gated = n_features, n_classes, relation == "gated"
        self.columns = UNITS[kind](n_features)
        visible = ClassGatedUnits(self.columns, n_classes)
        units: dict[str, Units] = {"visible": visible, "hidden": BernoulliUnits(n_hidden)}
        gated, every = n_features * n_classes, visible.n_features
        part = slice(0, gated + n_classes) if self.gated else slice(gated, every)
        links = [PartLink("visible", "hidden", every, part, name="")]
        if n_nuisance:
            units["nuisance"] = BernoulliUnits(n_nuisance)
            links.append(PartLink("visible", "nuisance", every, slice(gated + n_classes, every), name="nuisance"))
        super().__init__(units, links, dtype=dtype)

    def _weights(self, own: Mapping[str, Any]) -> tuple[Any, Any]:
        """W, of shape (n_classes, n_features, n_hidden) or (n_features, n_hidden), and U."""
        weight, k = own["weight"], self.n_classes
        if not self.gated:
            return weight[k:], weight[:k]
        return weight[:-k].reshape(k, self.n_features, -1), weight[-k:]

    def fields(self, x: Array) -> Any:
        """c_j + U_kj + (x W_k)_j, of shape (n, n_classes, n_hidden)."""
        own = self._arrays({"visible": x})
        W, U = self._weights(own)
        return (x @ W).reshape(-1, len(x), W.shape[-1]).swapaxes(0, 1) + U + own["hidden_bias"]

    def by_fields(self, x: Array, slope: Array) -> dict[str, Array]:
        """Cost O(n_classes n_features n_hidden) per row."""
        by_class, m = slope.sum(0), slope.shape[2]
        found = {name: 0 * value for name, value in self._arrays({"visible": x}).items() if name.startswith("nuisance")}
        if self.gated:
            parts = [(x.T @ slope.swapaxes(0, 1)).reshape(-1, m), by_class]
        else:
            parts = [by_class, x.T @ slope.sum(1)]
        return found | {"weight": concatenate(parts, axis=0), "hidden_bias": by_class.sum(0)}

    def row_energy(self, x: Array) -> Array:
        """-log of the sum over classes and all hidden units of exp(-E) of each row, shape (n,)."""
        energy = super().row_energy(x)
        return energy - softplus(self.nuisance_fields(x)).sum(-1) if "nuisance" in self.units else energy

    def nuisance_fields(self, x: Array) -> Any:
        """Log-odds of the hidden units that the class does not reach given the row, shape (n, n_nuisance)."""
        own = self._arrays({"visible": x})
        return x @ own["nuisance_weight"] + own["nuisance_bias"]

    def of_class(self, code: int) -> LayeredMachine:
        """The class's W, b, c + U of the class, and what the class does not reach."""
        units: dict[str, Units] = dict(self.units) | {"visible": self.columns}
        links = [DenseLink("visible", block, name=link.names["weight"].removesuffix("weight").rstrip("_"))
                 for block, link in zip(list(units)[1:], self.links, strict=True)]  # fmt: skip
        machine = LayeredMachine(units, links, dtype=self.weight.dtype)
        own = {name: value.detach() for name, value in self.named_parameters()}
        W, U = self._weights(own)
        own |= {
            "weight": W[code] if self.gated else W,
            "hidden_bias": own["hidden_bias"] + U[code],
            "visible_bias": own["visible_bias"][: self.n_features],
        }
        return machine._with(own)


class ClassGatedRBM(LabeledMachine):
    r"""Class-gated restricted Boltzmann machine: hidden bits whose couplings to the row are others for each class.

    :math:`E(v, y, h) = -\sum_{ijk} W_{ijk} v_i h_j y_k - y^T U h - d^T y - c^T h - w(v)`: the class, one of k, picks a
    slice of W, so that each class has a restricted Boltzmann machine of its own, with one log Z for all of them.
    :math:`p(y | v) \propto \exp(d_y + \sum_j \mathrm{softplus}(c_j + U_{yj} + v^T W_{:jy}))`. Trained by
    :math:`-\log p(y | v)`, whose gradient is exact, plus ``generative`` times :math:`-\log p(v, y)`, whose gradient is
    the objective's.

    With ``n_nuisance`` there is a second group of hidden bits, coupled to the row alone by :math:`-v^T R g`: it learns
    what rows of all classes have in common, and cancels in :math:`p(y | v)`.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels, sorted.
    history_ : dict of lists
        By epoch: ``cross_entropy`` (nats per row), what the objective of the joint density watches, ``gradient_norm``.

    Notes
    -----
    A row and its class are drawn at once given the hidden units: the class with the row summed out, then the row. So
    chains pass from class to class where bits of the class held beside those of the row would stand still. Parameters
    and cost per update grow with the number of classes, O(batch d k m), and a class has only its own rows to learn its
    W from: few, where classes are unequal. The second group is learned by the joint density alone, and takes over what
    the first would have learned where it is too large. log Z is exact up to 20 hidden units.

    References
    ----------
    Memisevic, Zach, Hinton and Pollefeys (2010), "Gated softmax classification"; Larochelle and Bengio (2008),
    "Classification using discriminative restricted Boltzmann machines", for the hybrid.

    Examples
    --------
    The exclusive or of two columns is a relation that changes from class to class.

    >>> import numpy as np
    >>> X = np.repeat([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], 20, axis=0)
    >>> y = (X.sum(1) == 1).astype(int)
    >>> machine = ClassGatedRBM(n_hidden=2, visible="bernoulli", learning_rate=0.05, random_state=0).fit(X, y)
    >>> machine.score(X, y), machine.sample(2, y=1, random_state=0)[0].shape
    (1.0, (2, 2))
    """

    name: ClassVar[str] = "class-gated-rbm"
    tasks: ClassVar[tuple[str, ...]] = ("classify", "represent")
    model_class: ClassVar[type] = ClassGatedRBMModel

    n_hidden: Annotated[int, "[1, inf)", Doc("Hidden units that the class gates.")] = 32
    n_nuisance: Annotated[int, "[0, inf)", Doc("Hidden units of the row alone, which the class does not reach.")] = 0
    relation: Annotated[
        Literal["gated", "pairwise"],
        Doc("``gated``: couplings of their own for each class; ``pairwise``: the class only moves hidden biases."),
    ] = "gated"

    def make(self, n_features: int, dtype: str, n_classes: int, **_: Any) -> ClassGatedRBMModel:
        return ClassGatedRBMModel(
            n_features, n_classes, self.n_hidden, self.n_nuisance, self.visible, self.relation, getattr(torch, dtype)
        )

    def transform(self, X: Any, group: str = "class", *, method: Literal["mean", "map"] = "mean") -> Array:
        """Means of hidden units given the rows, the class summed out; or the most probable class and units together.

        Parameters
        ----------
        X : array of shape (n, n_features)
        group : {"class", "nuisance", "both"}, default "class"
            The units that the class gates, (n, n_hidden), those that it does not reach, (n, n_nuisance), or both.
        method : {"mean", "map"}, default "mean"

        Raises
        ------
        UserValueError
            Another group, or one without units, or another method.
        """
        if group not in GROUPS:
            raise UserValueError.must("group", f"be one of {', '.join(GROUPS)}", group)
        if group != "class" and not self.n_nuisance:
            what = f"group must be class where no other units are there, got {group!r}"
            raise UserValueError(what, "group", "fit with n_nuisance of at least 1")
        if group == "class":
            return super().transform(X, method=method)
        check_method(method)
        free = self.model_.nuisance_fields(self._scaled(self._rows(X)))
        free = sigmoid(free) if method == "mean" else positive(free)
        return free if group == "nuisance" else np.concatenate([super().transform(X, method=method), free], axis=1)
