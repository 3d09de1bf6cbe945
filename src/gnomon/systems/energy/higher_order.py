"""The Boltzmann machine with products of three and more columns in its energy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar

import torch

from gnomon.contracts import Array
from gnomon.distributions.units import BernoulliUnits
from gnomon.recipes.fields import Doc
from gnomon.systems.energy._general import CoupledRows
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.terms import TermFlips, TermsLink

__all__ = ["HigherOrderBoltzmannMachine", "HigherOrderModel"]

LARGEST = 2_000_000
"""Terms of a machine, at most."""


class HigherOrderModel(LayeredMachine):
    r"""E(x) = -b^T x - \sum_T w_T \prod_{i \in T} x_i over bits.

    Parameters
    ----------
    n_visible : int
    terms : iterable of tuples of int
        The sets T of columns, at least two in each.
    dtype : torch.dtype
    """

    weight: torch.nn.Parameter
    visible_bias: torch.nn.Parameter

    def __init__(self, n_visible: int, terms: Iterable[tuple[int, ...]], dtype: torch.dtype = torch.float32) -> None:
        link = TermsLink({"visible": n_visible}, terms, name="")
        super().__init__({"visible": BernoulliUnits(n_visible)}, [link], dtype=dtype)

    @property
    def terms(self) -> tuple[tuple[int, ...], ...]:
        """The sets of columns, in the order of the weights."""
        (link,) = self.links
        found: tuple[tuple[int, ...], ...] = link.terms  # type: ignore[attr-defined]
        return found

    def flips(self, x: Array, rows: Array, sites: Array, active: Array | None = None) -> Any:
        """See `HasFlips`; a flip costs the terms that its unit is in."""
        return TermFlips(self, x, rows, sites, active)


class HigherOrderBoltzmannMachine(CoupledRows):
    r"""Higher-order Boltzmann machine: binary columns, and products of two, three or more of them in the energy.

    :math:`E(x) = -b^T x - \sum_T w_T \prod_{i \in T} x_i` over sets T of columns. Given all others a column is 1 with
    the log-odds :math:`b_i + \sum_{T \ni i} w_T \prod_{j \in T \setminus i} x_j`. A product of three columns says what
    no pair of them does, such as that an even number of them is 1. With sets of two alone it is the Boltzmann machine;
    with all sets it fits any positive table of probabilities exactly.

    Attributes
    ----------
    terms_ : tuple of tuples of int
        The sets T.
    weights_ : array of shape (terms,)
        w_T.
    bias_ : array of shape (n_features,)
    history_ : dict of lists
        By epoch: ``energy_gap`` of the last batch (data minus chains, nats; not the likelihood), or what another
        objective watches, and ``gradient_norm``.

    Notes
    -----
    The sets are all those of up to ``order`` columns of which each two are connected, or those that
    ``connections="terms"`` lists: d + d^2 / 2 + d^3 / 6 numbers for order 3 and all connections, few for columns that
    are neighbors in an image. Rows hold 0 and 1. Every objective of binary rows trains it; that of
    ``"pseudolikelihood"`` is concave. Columns are drawn one after the other, so a sweep costs the units of all terms.
    log Z is exact up to 20 columns, beyond that estimated by annealed importance sampling.

    References
    ----------
    Sejnowski (1986), "Higher-order Boltzmann machines".

    Examples
    --------
    Three columns with an even number of ones: no two of them depend on each other.

    >>> import numpy as np
    >>> X = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]])
    >>> machine = HigherOrderBoltzmannMachine(objective="exact", epochs=300, learning_rate=0.5, random_state=0).fit(X)
    >>> machine.terms_, bool(machine.score(X) > -1.6)  # log 4 = 1.39, and 2.08 for independent columns
    (((0, 1), (0, 2), (1, 2), (0, 1, 2)), True)
    """

    name: ClassVar[str] = "higher-order-boltzmann-machine"
    tasks: ClassVar[tuple[str, ...]] = ("density",)
    model_class: ClassVar[type] = HigherOrderModel

    order: Annotated[int, "[2, inf)", Doc("Columns in a product, at most, where connections do not list the sets.")] = 3
    epochs: int = 20

    def make(self, n_features: int, dtype: str, mean: list[float]) -> HigherOrderModel:
        terms = self.recipe("connections").terms(n_features, self.order, LARGEST)
        return HigherOrderModel(n_features, terms, getattr(torch, dtype))

    @property
    def terms_(self) -> tuple[tuple[int, ...], ...]:
        """The sets of columns."""
        return self.model_.terms

    @property
    def weights_(self) -> Array:
        """Of each set."""
        return self.model_.state()["weight"][0]

    @property
    def bias_(self) -> Array:
        """Of each column."""
        return self.model_.state()["visible_bias"]
