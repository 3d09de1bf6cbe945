"""What densities by the chain rule in any order share: one network for all orders, ensembles of orders, gaps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
import torch

from gnomon import contracts
from gnomon.contracts import Array
from gnomon.data.examples import Examples
from gnomon.errors import UserValueError
from gnomon.inference.exact.cells import CellMoments
from gnomon.nn.activations import Activation
from gnomon.nn.initializers import Initializer
from gnomon.nn.likelihoods import Head
from gnomon.numeric.noise import Noise
from gnomon.objectives.likelihood import MaximumLikelihood
from gnomon.objectives.order_agnostic import OrderAgnostic
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import check_layer_sizes
from gnomon.recipes.recipe import Recipe
from gnomon.system.by_gradient import ByGradient
from gnomon.system.gaps import Cells, Mask, truths
from gnomon.systems.autoregressive._base import Autoregressive, ChainModel
from gnomon.systems.autoregressive.orders import AnyOrder, Orders

__all__ = ["Orderless", "OrderlessModel", "OrderlessNetwork"]


class OrderlessModel(ChainModel):
    r"""Base of the models that predict any columns from any others: :math:`p(x_i | x_G)` by one network, of any G.

    A subclass gives `numbers_given` and `wide`; one that goes along an order cheaper than by a pass for each place
    also gives `numbers_in`. Each order of the columns makes a joint distribution of its own, which need not agree with
    those of other orders; :math:`p(x) = \frac1K \sum_k p(x | o^{(k)})` over the first K orders.

    Parameters
    ----------
    n_features : int
    head : Head
    scales : bool
        Whether columns are shifted and scaled.
    n_orders : int
        K.
    dtype : torch.dtype

    Attributes
    ----------
    order : int64 tensor of shape (d,)
        The first order.
    key : int64 tensor of shape (1,)
        Seed of the others.
    """

    key: torch.Tensor

    def __init__(self, n_features: int, head: Head, scales: bool, n_orders: int, dtype: torch.dtype) -> None:
        super().__init__(n_features, head, scales, dtype)
        self.n_orders = n_orders
        self.register_buffer("key", torch.zeros(1, dtype=torch.int64))

    # --- what a model says --------------------------------------------------------------------------------------------

    def numbers_given(self, z: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        """The head's numbers of all columns, (n, width d), of each from the columns marked in `given` (n, d) alone."""
        raise NotImplementedError

    def numbers_in(self, z: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
        """The head's numbers of all columns, (n, width d), of each from those before it in an order.

        Parameters
        ----------
        z : tensor of shape (n, d)
        order : int64 tensor of shape (d,) or (n, d)
            One for all rows, or one for each.

        Notes
        -----
        d passes, made as one over n d rows.
        """
        n, d = z.shape
        place = torch.argsort(order, -1).expand(n, d)
        before = place[:, None] < torch.arange(d, device=z.device)[:, None]
        raw = self.numbers_given(z.repeat_interleave(d, 0), before.flatten(0, 1)).reshape(n, d, self.head.width, d)
        return raw.take_along_dim(place[:, None, None], 1).flatten(1)

    def numbers(self, z: torch.Tensor) -> torch.Tensor:
        return self.numbers_in(z, self.order)

    def numbers_at(self, state: Any, t: int) -> torch.Tensor:
        given = (torch.argsort(self.order) < t).expand(state.shape)
        raw = self.numbers_given(state, given).reshape(len(state), self.head.width, self.n_features)
        return raw[:, :, int(self.order[t])]

    # --- what follows -------------------------------------------------------------------------------------------------

    def conditional(self, column: int, x: torch.Tensor) -> Any:
        place = torch.argsort(self.order)
        raw = self.numbers_given(self.inside(x), (place < place[column]).expand(x.shape))
        at = slice(column, column + 1)
        return self.head.distribution(raw.reshape(len(x), self.head.width, self.n_features)[:, :, column], at)

    def orders(self, n: int) -> torch.Tensor:
        """The first n orders, (n, d): more of them begin with the fewer."""
        more = (Noise(int(self.key), "orders").at(k).order(self.n_features) for k in range(1, n))
        return torch.stack([self.order, *(torch.from_numpy(one).to(self.order) for one in more)])

    def log_given(self, x: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        """Log p(x_i | the columns marked in `given`) of each cell in nats, (n, d); those marked say nothing."""
        z = self.inside(x)
        return self._cells(self.numbers_given(z, given), z)

    def log_taught(self, x: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        """What training raises, (n, d): `log_given` where it is not said otherwise."""
        return self.log_given(x, given)

    def log_in(self, x: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
        """Log p(x) in an order (d,), or in one of each row (n, d), in nats, (n,)."""
        z = self.inside(x)
        return self._cells(self.numbers_in(z, order), z).sum(1)

    def log_parts(self, x: torch.Tensor, given: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
        """Log p of the cells marked in `given`, and of the others given these, (n, 2): the marked come first."""
        z = self.inside(x)
        cells = self._cells(self.numbers_in(z, _first(given, order)), z)
        return torch.stack([torch.where(given, cells, 0.0).sum(1), torch.where(given, 0.0, cells).sum(1)], 1)

    def averaged(self, method: str, rows: Any, *others: Any, n_orders: int | None = None) -> Any:
        """Log of the mean over orders of exp(what a method answers to rows and orders of them), a NumPy array."""
        orders = self.orders(n_orders or self.n_orders).cpu().numpy()
        found = [self.ask(method, rows, *others, np.broadcast_to(one, rows.shape)) for one in orders]
        return _mean_of_logs([torch.from_numpy(one) for one in found]).numpy()

    def log_prob(self, x: Any, n_orders: int | None = None) -> Any:
        """Log of the mean of p(x) over the orders in nats, (n,); arrays are answered by arrays."""
        if not isinstance(x, torch.Tensor):
            return self.averaged("log_in", x, n_orders=n_orders)
        return _mean_of_logs([self.log_in(x, one) for one in self.orders(n_orders or self.n_orders)])

    def moments_given(self, x: torch.Tensor, given: torch.Tensor) -> list[torch.Tensor]:
        """Mean and variance of each cell given those marked, (n, d), in the units of x: one pass."""
        raw = self.numbers_given(self.inside(x), given)
        if self.head.values == 2:
            p = self.head.log_probs(raw, torch.ones_like(x)).exp()
            return [p, p * (1 - p)]
        one = self.head.distribution(raw)
        return [self.outside(one.mean), one.variance * self.scale**2]

    @torch.no_grad()
    def draw(self, z: torch.Tensor, missing: torch.Tensor, noise: contracts.Noise) -> torch.Tensor:
        """The rows with the missing cells drawn from p(missing | known): known ones first, in an order of each row.

        Row i takes the numbers of its place. Cost: a pass for each missing cell of the row that has most.
        """
        chosen = noise.child("order").integers(self.n_orders, (len(z), 1))[:, 0]
        known = ~missing
        order = _first(known, self.orders(self.n_orders)[torch.as_tensor(chosen, device=z.device)])
        for t in range(int(known.sum(1).min()) if len(z) else 0, self.n_features):
            drawn = self.head.sample(self.numbers_given(z, known), noise.at(t))
            new = missing & torch.zeros_like(missing).scatter(1, order[:, t : t + 1], True)
            z, known = torch.where(new, drawn, z), known | new
        return z


def _first(given: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """An order (d,) or (n, d) with the columns that are marked (n, d) brought to the front, of each row."""
    order = order.expand(given.shape)
    return order.gather(1, torch.argsort(~given.gather(1, order), dim=1, stable=True))


def _mean_of_logs(found: Sequence[torch.Tensor]) -> torch.Tensor:
    """Log of the mean of exponentials."""
    return found[0] if len(found) == 1 else torch.stack([*found]).logsumexp(0) - math.log(len(found))


class Orderless(Autoregressive):
    """Base of the systems around an `OrderlessModel`: learned for all orders of the columns, or for one.

    Learned for all, rows with gaps are answered in orders that take their known cells first; these are the network's
    own predictions, which are not those that follow from the density of complete rows in another order.
    """

    slots: ClassVar[Mapping[str, type[Recipe]]] = {"order": Orders}
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {"n_orders": {"order": "any"}}

    order: Annotated[
        str | Recipe,
        Doc("``any`` learns all orders of the columns at once; ``given``, ``random`` and ``columns`` one of them."),
    ] = "any"
    n_orders: Annotated[
        int, "[1, inf)", Doc("Orders over which probabilities of rows are averaged, where all were learned.")
    ] = 1

    @property
    def _any(self) -> bool:
        return isinstance(self.recipe("order"), AnyOrder)

    def begin_model(self, model: ChainModel, examples: Examples, noise: contracts.Noise) -> None:
        super().begin_model(model, examples, noise)
        if isinstance(model, OrderlessModel):
            model.key.copy_(torch.as_tensor(noise.child("orders").integers(1 << 62, (1,))))

    def make_objective(self) -> Any:
        return OrderAgnostic() if self._any else MaximumLikelihood()

    # --- verbs --------------------------------------------------------------------------------------------------------

    def log_prob(self, X: Any, n_orders: int | None = None) -> Array:
        """Exact log probability (or density) of each row in nats, shape (n,): of the mean over orders.

        Parameters
        ----------
        X : array of shape (n, n_features)
        n_orders : int in [1, inf), optional
            Orders over which probabilities are averaged, the first of them those of fewer; of the fit where left out.

        Raises
        ------
        UserValueError
            More than one order of a model that has learned one.
        """
        rows = self._rows(X)
        if not self._any:
            self._count(n_orders)
            return super().log_prob(X)
        return np.asarray(self.model_.log_prob(rows, self._count(n_orders)) - self._log_units(rows))

    def conditional_log_prob(self, X: Any, observed: Any, n_orders: int | None = None) -> Array:
        """Log p(the other cells | those observed) of each row in nats, shape (n,): any of them given any others.

        Parameters
        ----------
        X : array of shape (n, n_features)
            Complete rows.
        observed : bool array of shape (n_features,) or (n, n_features)
            What is given; it comes first in all orders. Nothing makes it `log_prob`, all of it 0.
        n_orders : int in [1, inf), optional
            As of `log_prob`.

        Raises
        ------
        UserValueError
            A mask of another shape; of a model that has learned one order, cells that are neither last in it nor few.
        """
        rows, count = self._rows(X), self._count(n_orders)
        given = truths(observed, rows.shape[1:] if np.ndim(observed) == 1 else rows.shape, "observed")
        given = np.broadcast_to(given, rows.shape)
        if not self._any:
            return np.asarray(self.log_prob(X) - self.log_prob_observed(X, ~given))
        parts = self.model_.averaged("log_parts", rows, given, n_orders=count)
        return np.asarray(parts[:, 1] - self._log_units_seen(rows, given))

    def _count(self, n_orders: int | None) -> int:
        """How many orders are asked for."""
        if n_orders is None:
            return self.n_orders if self._any else 1
        if isinstance(n_orders, bool) or not isinstance(n_orders, int | np.integer) or n_orders < 1:
            raise UserValueError.must("n_orders", "be a whole number of at least 1", n_orders)
        if n_orders > 1 and not self._any:
            what = f"n_orders must be 1 for a model of one order, got {n_orders}"
            raise UserValueError(what, "n_orders", "fit with order='any'")
        return int(n_orders)

    # --- gaps ---------------------------------------------------------------------------------------------------------

    def observed_estimate(self, rows: Array, missing: Mask) -> tuple[Array, dict[str, Any]]:
        if not self._any:
            return super().observed_estimate(rows, missing)
        return self.model_.averaged("log_parts", rows, ~missing)[:, 0], {"kind": "exact"}

    def cells_given(self, rows: Array, missing: Mask, noise: contracts.Noise) -> Cells:
        if not self._any:
            return super().cells_given(rows, missing, noise)
        self._refuse_codes(missing)
        mean, variance = self.model_.ask("moments_given", rows, ~missing)
        found = CellMoments(np.zeros(len(rows)), np.where(missing, mean, rows), np.where(missing, variance, 0.0))
        return self._in_own_units(found, False, "one pass for each cell given the known ones")

    def cells_drawn(self, rows: Array, missing: Mask, noise: contracts.Noise) -> Cells:
        if not self._any:
            return super().cells_drawn(rows, missing, noise)
        drawn = self._in_units(self._drawn_last(rows, missing, noise))
        return Cells(drawn, None, True, "independent draws, known cells first")

    def complete_log_density(self, rows: Array) -> Array | None:
        """None of all orders: it depends on which cells were known."""
        return None if self._any else super().complete_log_density(rows)

    def _solved(self, missing: Mask) -> Mask:
        return np.ones(len(missing), np.bool_) if self._any else super()._solved(missing)


class OrderlessNetwork(ByGradient, Orderless):
    """Base of those whose model is a network of hidden layers with the method ``start``."""

    slots: ClassVar[Mapping[str, type[Recipe]]] = {"activation": Activation, "initializer": Initializer}

    hidden: Annotated[tuple[Annotated[int, "[1, inf)"], ...], Doc("Units of the hidden layers.")] = (256, 256)
    activation: Annotated[str | Recipe, Doc("What follows each hidden layer.")] = "relu"
    initializer: Annotated[str | Recipe, Doc("First weights; those of the outputs are 0.")] = "he-uniform"
    n_orders: int = 8
    epochs: int = 300
    batch_size: int | None = 100
    learning_rate: float = 3e-3
    schedule: str | Recipe = "cosine"

    def check_parameters(self) -> None:
        """Refuse no layer, what is no size of one, and activations of several numbers."""
        super().check_parameters()
        check_layer_sizes(self.hidden)
        if not self.hidden:
            raise UserValueError("hidden must name at least one layer, got none", "hidden", "use hidden=(64,)")
        if self.recipe("activation").widening != 1:
            what = f"activation must take one number for each of its own, got {self.recipe('activation').short}"
            raise UserValueError(what, "activation", "use relu or tanh")

    def initialize(self, model: Any, examples: Examples, noise: contracts.Noise) -> None:
        self.begin_model(model, examples, noise)
        model.start(self.recipe("initializer"), noise.child("weights"))
