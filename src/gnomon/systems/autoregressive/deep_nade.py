"""Deep NADE: networks of several hidden layers that learn the chain rule in one order or in all orders."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

import torch

from gnomon.errors import UserValueError
from gnomon.recipes.fields import Doc
from gnomon.systems.autoregressive._base import ChainModel
from gnomon.systems.autoregressive._deep import OwnGroup, PreviousGroups
from gnomon.systems.autoregressive._orderless import OrderlessNetwork

__all__ = ["DeepNADE"]

LARGEST = 1 << 26
"""Weights between the groups of two layers."""


class DeepNADE(OrderlessNetwork):
    r"""Deep NADE: the chain rule by a network of several hidden layers, in all orders of the columns at once or in one.

    .. math:: p(x) = \frac1K \sum_{k=1}^K \prod_t p(x_{o_t} | x_{o_1}, \ldots, x_{o_{t-1}}), \quad o = o^{(k)}, \quad
        a_i = c + \sum_{j \text{ before } i} (W_j^\top x_j + M_j), \quad h^1_i = f(a_i), \quad
        h^l_i = f(U_l h^{l-1}_i + c_l)

    A group of hidden units for each column and layer; column i has the distribution that the last layer's group i
    says. Groups share W and, where each sees its own group of the layer below, all weights: then the network is one of
    rows with 0 for what is not given, beside the mask of what is (M are its weights), and learns all orders
    (``order="any"``) from random ones: what any columns are given any others. The mixture of ``n_orders`` of them is
    the density. ``connect="previous-groups"`` gives each pair of groups weights of its own, for one order.

    Attributes
    ----------
    order_ : int64 array of shape (d,)
        The column at each place of the (first) order.
    history_ : dict of lists
        ``negative_log_likelihood`` (nats per row; of all orders an estimate of its mean over them) and
        ``gradient_norm``, and with validation rows ``validation_negative_log_likelihood`` and ``best_epoch``, by epoch.

    Notes
    -----
    Orders make joint distributions of their own, which do not agree: ``n_orders`` averages their probabilities, and a
    mixture is never worse than the mean of its logs. `log_conditionals`, `conditional` and `order_` are of the first
    order; orders that are asked for beyond it are kept with the model, more of them begin with the fewer. Rows with
    gaps are answered in orders that take their known cells first: `impute` by one pass, draws and densities exactly.

    An update costs O(d h + h^2) a row, a density O(d h^2) for each order, in parts of bounded memory; with
    ``previous-groups`` both are O(d^2 h^2), and so are the weights. Source: Uria, Murray and Larochelle (2014), A deep
    and tractable density estimator; Goodfellow, Bengio and Courville (2016), section 20.10.10.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
    >>> model = DeepNADE(hidden=(16, 16), epochs=100, learning_rate=0.01, random_state=0).fit(X)
    >>> bool(model.score(X) > -0.9), model.impute([[np.nan, np.nan, 1, np.nan]]).round().tolist()
    (True, [[0.0, 0.0, 1.0, 1.0]])
    >>> bool(model.conditional_log_prob([[1, 1, 0, 0]], [False, True, False, False])[0] > -0.3)  # given column 1
    True
    """

    name: ClassVar[str] = "deep-nade"
    model_class: ClassVar[type] = OwnGroup

    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {"connect": {"order": "given"}}

    hidden: Annotated[
        tuple[Annotated[int, "[1, inf)"], ...],
        Doc("Units of a group, by layer; groups share the first layer's weights."),
    ] = (256, 256)
    connect: Annotated[
        Literal["own-group", "previous-groups"],
        Doc("What a group sees of the layer below: the group of its column, or in one order those of all up to it."),
    ] = "own-group"

    def check_parameters(self) -> None:
        """Refuse groups that see others where all orders are learned."""
        super().check_parameters()
        if self._any and self.connect != "own-group":
            what = f"connect must be own-group where all orders are learned, got {self.connect}"
            raise UserValueError(what, "connect", "use order='given', or own-group")

    def make(self, n_features: int, dtype: str) -> ChainModel:
        precision, likelihood, activation = getattr(torch, dtype), self.recipe("likelihood"), self.recipe("activation")
        head = likelihood.build(n_features, precision)
        if self.connect == "own-group":
            return OwnGroup(n_features, self.hidden, activation, head, likelihood.scales, self._count(None), precision)
        most = max((n_features**2 * a * b for a, b in pairwise(self.hidden)), default=0)
        if most > LARGEST:
            what = f"hidden layers must have at most {LARGEST} weights between two, got {most} for {n_features} columns"
            raise UserValueError(what, "hidden", "use smaller groups, or connect='own-group'")
        return PreviousGroups(n_features, self.hidden, activation, head, likelihood.scales, precision)
