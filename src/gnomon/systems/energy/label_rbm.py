"""The restricted Boltzmann machine of rows and their classes: generative, discriminative or both."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch

from gnomon.contracts import Array
from gnomon.distributions.joined import JoinedUnits
from gnomon.distributions.units import BernoulliUnits, CategoricalUnits, Units
from gnomon.numeric.noise import Noise
from gnomon.numeric.ops import concatenate
from gnomon.systems.energy._class_slopes import class_slopes
from gnomon.systems.energy._labeled import UNITS, LabeledMachine, LabeledModel
from gnomon.systems.energy._missing import METHODS, FillsMachineGaps, check_choice
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.links import DenseLink

__all__ = ["LabelRBM", "LabelRBMModel"]


class LabelRBMModel(LabeledModel):
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

    def fields(self, x: Array) -> Any:
        """c_j + (x W)_j + U_kj, of shape (n, n_classes, n_hidden)."""
        own, d = self._arrays({"visible": x}), self.n_features
        field = x @ own["weight"][:d] + own["hidden_bias"]
        return field[:, None, :] + own["weight"][d:][None]

    def by_fields(self, x: Array, slope: Array) -> dict[str, Array]:
        """Cost O(n_features n_hidden + n_classes n_hidden) per row."""
        by_row = slope.sum(1)
        return {"weight": concatenate([x.T @ by_row, slope.sum(0)], axis=0), "hidden_bias": by_row.sum(0)}

    def class_gradient(self, x: Array, codes: Any, weight: Array) -> tuple[Array, dict[str, Array]]:
        """Two products, and between them one compiled pass over rows and classes where `x` is of NumPy."""
        if not isinstance(x, np.ndarray):
            return super().class_gradient(x, codes, weight)
        own, d = self._arrays({"visible": x}), self.n_features
        field = np.matmul(x, own["weight"][:d])
        field += own["hidden_bias"]
        of_classes = own["weight"][d:], own["visible_bias"][d:]
        log_p, by_field, by_class, by_bias = class_slopes(field, *of_classes, np.asarray(codes, np.int64), weight)
        return log_p, {
            "weight": np.concatenate([np.matmul(x.T, by_field), by_class]), "hidden_bias": by_field.sum(0),
            "visible_bias": np.concatenate([np.zeros(d, by_bias.dtype), by_bias]),
        }  # fmt: skip

    def of_class(self, code: int) -> LayeredMachine:
        """W, b, and c + U of the class."""
        units: dict[str, Units] = {"visible": self.columns, "hidden": self.units["hidden"]}
        machine = LayeredMachine(units, [DenseLink("visible", "hidden", name="")], dtype=self.weight.dtype)
        d = self.n_features
        values = {
            "weight": self.weight[:d], "visible_bias": self.visible_bias[:d],
            "hidden_bias": self.hidden_bias + self.weight[d + code],
        }  # fmt: skip
        return machine._with({name: value.detach() for name, value in values.items()})


class LabelRBM(FillsMachineGaps, LabeledMachine):
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

    def make(self, n_features: int, dtype: str, n_classes: int, **_: Any) -> LabelRBMModel:
        return LabelRBMModel(n_features, n_classes, self.n_hidden, self.visible, getattr(torch, dtype))

    def _visible_cells(self, rows: Array, missing: Any) -> tuple[Array, Any]:
        """Beside a row its class, which is not known."""
        none = np.zeros((len(rows), self.model_.n_classes), rows.dtype)
        return np.concatenate([self._scaled(rows), none], axis=1), np.concatenate([missing, none == 0], axis=1)

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
            noise = Noise(self.seed_, "impute")
            mean, _, _ = self._moments(rows[partly], missing[partly], method, 500, noise)
            found[partly] = mean[:, self.model_.n_features :]
        return found

    def predict_observed(self, X: Any, mask: Any = None, *, method: str = "auto") -> Array:
        """The likeliest class of each row given its known cells, shape (n,); as `predict_proba_observed`."""
        return self.classes_[self.predict_proba_observed(X, mask, method=method).argmax(1)]
