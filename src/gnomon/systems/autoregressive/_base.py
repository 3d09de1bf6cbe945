"""What densities by the chain rule share: an order of the columns, a head for each, exact pmf or density, exact draws.

A model is a `ChainModel`; it says what the numbers of each column's distribution are, given the columns before it. Rows
of the system pass through `inside`, which standardizes real columns; behind it all is in these units.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from gnomon import contracts
from gnomon.contracts import Array
from gnomon.data.examples import Examples
from gnomon.data.preprocessing import standardization
from gnomon.distributions.bernoulli import Bernoulli
from gnomon.distributions.domains import Binary
from gnomon.distributions.mixed_normals import MixedNormals
from gnomon.distributions.real import Normal
from gnomon.distributions.table import Categorical
from gnomon.errors import UserValueError
from gnomon.inference.exact.cells import NormalCells
from gnomon.nn.likelihoods import Head, Likelihood
from gnomon.nn.module import Module
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.system.base import System
from gnomon.system.fields import HasDtype
from gnomon.systems.autoregressive._cells import FillsByOrder
from gnomon.systems.autoregressive.orders import Order

__all__ = ["Autoregressive", "ChainModel"]

State = Any
"""What a model remembers of the columns so far: a tensor, or a tuple of tensors, row by row."""


class ChainModel(Module):
    r"""Base of the models :math:`p(x) = \prod_t p(x_{o_t} | x_{o_1}, \ldots, x_{o_{t-1}})`, o the order of the columns.

    A subclass gives `numbers`; one that goes from place to place cheaper than by asking for all of them also gives
    `begin`, `numbers_at`, `take` and `select`.

    Parameters
    ----------
    n_features : int
    head : Head
        The distribution of each column, from ``head.width`` numbers.
    scales : bool
        Whether columns are shifted and scaled; densities are those of x.
    dtype : torch.dtype

    Attributes
    ----------
    order : int64 tensor of shape (d,)
        The column at each place.
    wide : int
        Numbers that a pass holds for a cell; what is asked of rows takes so many fewer of them at a time.
    """

    wide: int = 1
    order: torch.Tensor
    shift: torch.Tensor
    scale: torch.Tensor

    def __init__(self, n_features: int, head: Head, scales: bool, dtype: torch.dtype) -> None:
        super().__init__()
        self.n_features, self.head, self.scales = n_features, head, scales
        self.register_buffer("order", torch.arange(n_features))
        self.register_buffer("shift", torch.zeros(n_features, dtype=dtype))
        self.register_buffer("scale", torch.ones(n_features, dtype=dtype))

    # --- what a model says --------------------------------------------------------------------------------------------

    def numbers(self, z: torch.Tensor) -> torch.Tensor:
        """The head's numbers of all columns, (n, width d), those of each from the columns before it alone."""
        raise NotImplementedError

    def begin(self, n: int) -> State:
        """What is remembered of n rows before their first column."""
        return self.shift.new_zeros((n, self.n_features))

    def numbers_at(self, state: State, t: int) -> torch.Tensor:
        """The head's numbers of the column at place t, (n, width)."""
        raw = self.numbers(state).reshape(len(state), self.head.width, self.n_features)
        return raw[:, :, int(self.order[t])]

    def take(self, state: State, t: int, cells: torch.Tensor) -> State:
        """What is remembered with the cells (n, 1) of the column at place t; may write over the state."""
        state[:, self.order[t]] = cells[:, 0]
        return state

    def select(self, state: State, index: torch.Tensor) -> State:
        """The state of the rows in `index`."""
        return tuple(one[index] for one in state) if isinstance(state, tuple) else state[index]

    def normal_cells(self) -> NormalCells | None:
        """The density as a normal one, in the units of x, where it is."""
        return None

    # --- what follows -------------------------------------------------------------------------------------------------

    def ask(self, method: str | Callable[..., Any], rows: Any, *others: Any, chunk: int | None = None) -> Any:
        """As of `Module`."""
        return super().ask(method, rows, *others, chunk=chunk or max(1, self.chunk // self.wide))

    def inside(self, x: torch.Tensor) -> torch.Tensor:
        """Rows in the units of the head."""
        return (x - self.shift) / self.scale if self.scales else x

    def outside(self, z: torch.Tensor) -> torch.Tensor:
        """Rows of the head in the units of x."""
        return z * self.scale + self.shift if self.scales else z

    def log_conditionals(self, x: torch.Tensor) -> torch.Tensor:
        """Log p(x_j | columns before it) of each cell in nats, (n, d), by column and not by place."""
        z = self.inside(x)
        return self._cells(self.numbers(z), z)

    def _cells(self, raw: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Log probability, or density in the units of x, of each cell, (n, d), by the head's numbers."""
        cells = self.head.log_probs(raw, z)
        return cells - self.scale.log() if self.scales else cells

    def log_prob(self, x: Any) -> Any:
        """Log p(x) in nats, (n,), in one pass; arrays are answered by arrays, tensors with gradients."""
        if not isinstance(x, torch.Tensor):
            return self.ask("log_prob", x)
        return self.log_conditionals(x).sum(1)

    def conditional(self, column: int, x: torch.Tensor) -> Any:
        """p(x_column | the columns before it) of each row: a distribution of tensors (n, 1) in the head's units."""
        raw = self.numbers(self.inside(x)).reshape(len(x), self.head.width, self.n_features)
        return self.head.distribution(raw[:, :, column], slice(column, column + 1))

    @torch.no_grad()
    def draw(self, z: torch.Tensor, missing: torch.Tensor, noise: contracts.Noise) -> torch.Tensor:
        """The rows with the missing cells drawn place by place, each given all cells before it and none behind.

        Where the missing cells are the last ones of the order this is a draw from p(missing | known). Row i takes the
        numbers of its place. Cost: d times `numbers_at`.
        """
        state, found = self.begin(len(z)), z.clone()
        for t, column in enumerate(self.order.tolist()):
            at = slice(column, column + 1)
            drawn = self.head.sample(self.numbers_at(state, t), noise.at(t), at)
            found[:, at] = torch.where(missing[:, at], drawn, found[:, at])
            state = self.take(state, t, found[:, at])
        return found

    def sample(self, n: int, noise: contracts.Noise) -> Any:
        """n independent rows, a NumPy array: each column in turn given those before it."""
        empty = self.shift.new_zeros((n, self.n_features))
        drawn = self.draw(empty, torch.ones_like(empty, dtype=torch.bool), noise.child("cells"))
        return self.outside(drawn).cpu().numpy()


class Autoregressive(FillsByOrder, HasDtype, System):
    """Base of the systems around a `ChainModel`: exact scores and draws, one conditional at a time, gaps filled in."""

    tasks: ClassVar[tuple[str, ...]] = ("density", "generate")
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"likelihood": Likelihood, "order": Order}

    likelihood: Annotated[
        str | Recipe,
        Doc(
            "What a column is given those before it: ``bernoulli`` for zeros and ones, ``categorical``, ``gaussian``, "
            "or ``mixed`` for columns of several kinds."
        ),
    ] = "bernoulli"
    order: Annotated[
        str | Recipe,
        Doc("Which columns come before which: ``given``, ``random``, or ``columns`` with their numbers."),
    ] = "given"

    @property
    def domain(self) -> Any:
        """What the likelihood asks for; zeros and ones by default."""
        if isinstance(self.likelihood, str) and self.likelihood == "bernoulli":
            return Binary()
        return self.recipe("likelihood").domain

    def begin_model(self, model: ChainModel, examples: Examples, noise: contracts.Noise) -> None:
        """Order, scales, and what the head takes of the columns alone: for `initialize`."""
        model.order.copy_(torch.from_numpy(self.recipe("order").build(model.n_features, noise.child("order"))))
        X = examples.X
        if model.scales:
            shift, scale = standardization(X, examples.weight)
            real = np.isinf(model.head.states(model.n_features))
            shift, scale = np.where(real, shift, 0.0), np.where(real, scale, 1.0)
            model.shift.copy_(torch.from_numpy(shift))
            model.scale.copy_(torch.from_numpy(scale))
            X = (X - shift) / scale
        model.head.begin(X, examples.weight)

    # --- verbs --------------------------------------------------------------------------------------------------------

    @property
    def order_(self) -> NDArray[np.int64]:
        """The column at each place of the chain rule."""
        order: NDArray[np.int64] = self.model_.order.cpu().numpy()
        return order

    def log_conditionals(self, X: Any) -> Array:
        """Log p(x_j | columns before it) of each cell in nats, shape (n, d); the sum of a row is its `log_prob`."""
        cells = self.model_.ask("log_conditionals", self._rows(X))
        return cells - np.log(self._units()[1])

    def conditional(self, column: int, X: Any) -> Bernoulli | Categorical | MixedNormals | Normal:
        """The distribution of a column given the columns before it in the order; what the others hold is not looked at.

        Parameters
        ----------
        column : int in [0, n_features)
        X : array of shape (n, n_features)

        Returns
        -------
        Distribution
            Of n independent variables, one for each row: log probabilities, means, draws; in the units that the fit
            was given.

        Raises
        ------
        UserValueError
            A column that there is not.
        """
        rows = self._rows(X)
        if isinstance(column, bool) or not isinstance(column, int | np.integer) or not 0 <= column < rows.shape[1]:
            what = f"column must be a whole number from 0 to {rows.shape[1] - 1}, got {column!r}"
            raise UserValueError(what, "column")
        with torch.no_grad():
            one = self.model_.conditional(int(column), torch.tensor(rows, device=self.model_.device))
        if isinstance(one, Bernoulli):
            return Bernoulli(one.logits.cpu().numpy())
        if isinstance(one, Categorical):
            return Categorical(one.logits[:, 0].cpu().numpy())
        (shift, unit), state = self._units()[:, column], self.model_.views()
        scale, middle = state["scale"][column] * unit, state["shift"][column] * unit + shift
        if isinstance(one, MixedNormals):
            log_weights, means, variances = (
                part[:, 0].cpu().numpy() for part in (one.log_weights, one.means, one.variances)
            )
            return MixedNormals(log_weights, means * scale + middle, variances * scale**2)
        mean, spread = one.mean[:, 0].cpu().numpy(), np.sqrt(one.variance[:, 0].cpu().numpy())
        return Normal(mean * scale + middle, spread * scale)

    def _units(self) -> NDArray[np.float64]:
        """What was taken from each column and what it was divided by before the fit saw it, (2, d)."""
        preparation, d = self._preparation, self.n_features_in_
        if preparation is None or preparation.shift is None or preparation.unit is None:
            return np.stack([np.zeros(d), np.ones(d)])
        return np.stack([preparation.shift, preparation.unit])
