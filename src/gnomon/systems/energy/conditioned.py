"""Boltzmann machines given a condition: biases that are functions of it, and a normalizer for each of its rows."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from gnomon.contracts import Array, State
from gnomon.distributions.given_units import GivenUnits
from gnomon.distributions.units import Units
from gnomon.errors import UserTypeError
from gnomon.inference.arrays import convert
from gnomon.inference.blocks import bits, smallest_keep
from gnomon.inference.exact.enumeration import enumerable, log_evidence
from gnomon.numeric.tensors import detached
from gnomon.systems.energy.conditioned_flips import ConditionedFlips, CopiedFlips
from gnomon.systems.energy.layered import EXACT_UNITS, EXACT_UNITS_OF_A_ROW, LayeredMachine
from gnomon.systems.energy.links import DenseLink, Link

__all__ = ["CONDITION", "ConditionedMachine"]

CONDITION = "condition"
"""The layer of the condition."""


class ConditionedMachine(LayeredMachine):
    r"""A machine of layers whose biases are affine in a condition z: :math:`E(x; z) = E(x) - \sum_l z^T A_l x_l`.

    The condition is a layer of its own that is linked to the others and never drawn: couplings, conditionals, Gibbs
    sweeps, gradients, exact sums and annealing are those of `LayeredMachine`. Given z it is the machine with the biases
    :math:`b_l + A_l^T z`, and :math:`\log p(x | z) = -F(x; z) - \log Z(z)`, with a normalizer of each z's own.

    As it is made the condition is a block, which every state has to hold: so exact sums take it, one row of it beside
    each row of data. `given` puts rows of it into the machine, which then has the other blocks alone: chains, and what
    training principles take.

    Parameters
    ----------
    n_condition : int, in [1, inf)
        Columns of the condition.
    units : mapping of str to Units
        The layers, as of `LayeredMachine`; none of them called ``condition``.
    links : iterable of pairs of str or links
        Couplings among these, and with the condition: of three layers, one of them the condition, are weights that it
        makes.
    moved : iterable of str, optional
        The layers whose biases the condition moves, each by a link ``condition_<layer>_weight`` that is added; all of
        them where left out.
    observed : str, optional
        The layer that holds the data; the first where left out.
    dtype : torch.dtype, default torch.float32

    References
    ----------
    Mnih, Larochelle and Hinton (2011), "Conditional restricted Boltzmann machines for structured output prediction";
    Taylor, Hinton and Roweis (2007), "Modeling human motion using binary latent variables".

    Examples
    --------
    >>> from gnomon.distributions.units import BernoulliUnits
    >>> layers = {"visible": BernoulliUnits(3), "hidden": BernoulliUnits(2)}
    >>> machine = ConditionedMachine(4, layers, [("visible", "hidden")])
    >>> machine.log_partitions(np.zeros((2, 4))).round(4).tolist(), machine.given(np.zeros((1, 4))).blocks
    ([3.4657, 3.4657], ('visible', 'hidden'))
    """

    held: Array | None = None
    """Rows of the condition that are in force: as many as the rows of a state, or one for all of them."""
    traced: bool = False
    """Whether gradients have ``condition`` too, those by each row of it: for what the condition is computed by."""

    def __init__(
        self,
        n_condition: int,
        units: Mapping[str, Units],
        links: Iterable[Sequence[str] | Link],
        *,
        moved: Iterable[str] | None = None,
        observed: str | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        biases: list[Sequence[str] | Link] = [
            DenseLink(CONDITION, block) for block in (units if moved is None else moved)
        ]
        layers = {CONDITION: GivenUnits(n_condition), **units}
        super().__init__(layers, [*biases, *links], observed=observed or next(iter(units)), dtype=dtype)

    # --- the condition ------------------------------------------------------------------------------------------------

    def given(self, condition: Array, *, traced: bool = False) -> Self:
        """The machine of the other layers, the condition being as these rows say; parameters are shared.

        Parameters
        ----------
        condition : array of shape (n, n_condition) or (1, n_condition)
            A row beside each row of the states that the machine will be asked about, or one row for all.
        traced : bool, default False
            Whether gradients shall have ``condition`` too, (n, n_condition): of n rows, those by each.
        """
        twin = self._twin(condition, tuple(block for block in self.blocks if block != CONDITION))
        twin.__dict__["traced"] = traced
        return twin

    @property
    def released(self) -> Self:
        """The machine of all layers, the condition among them."""
        others = tuple(block for block in self.blocks if block != CONDITION)
        return self if self.held is None else self._twin(None, (CONDITION, *others))

    def _twin(self, held: Array | None, blocks: tuple[str, ...]) -> Self:
        twin = copy.copy(self)
        twin.__dict__.update(held=held, blocks=blocks)
        twin.__dict__.pop("marginal_blocks", None)
        return twin

    @property
    def exact(self) -> bool:
        """Whether all that is asked given a row of the condition is a sum over at most 2^12 states."""
        return bits(self, smallest_keep(self.released, (CONDITION,))) <= EXACT_UNITS_OF_A_ROW

    @property
    def conditions(self) -> dict[str, Any]:
        """The rows of the condition that are in force, as a state."""
        return {CONDITION: self.held}

    def log_partitions(self, condition: Array, *, limit: int = EXACT_UNITS) -> NDArray[np.float64]:
        """Exact log Z(z) of each row of the condition in nats, shape (n,), by enumeration of the smaller side."""
        return log_evidence(self.released, {CONDITION: condition}, limit=limit)

    def log_partition(self) -> float:
        """Exact log Z given the one row of the condition that is in force, or whatever it is where it moves nothing.

        Raises
        ------
        UserTypeError
            No row, or several, each of which has a log Z of its own.
        """
        if self.held is not None and len(self.held) == 1:
            return super().log_partition()
        if any(
            self._plain()[name].any() for link in self.links if CONDITION in link.ends for name in link.names.values()
        ):
            what = f"the condition must be one row for one log Z, got {0 if self.held is None else len(self.held)}"
            raise UserTypeError(what, "condition", "use machine.given(row), or log_partitions")
        return self.given(np.zeros((1, self.sizes[CONDITION]))).log_partition()

    @available_if(lambda self: isinstance(self, type) or _has_log_prob(self))
    def log_prob(self, x: Array) -> Array:
        """Exact log p(x | z) in nats of rows given the condition that is in force, row by row."""
        return -self.energy(x) - convert(self.log_partitions(self._whole({self.observed: x})[CONDITION]), x)

    def _whole(self, state: State) -> State:
        """The state with the condition that is in force.

        Raises
        ------
        UserTypeError
            None is, and the state has none.
        """
        if CONDITION in state:
            return state
        if self.held is None:
            raise UserTypeError("a state must hold the condition", "state", "use machine.given(rows)")
        like = next((x for x in state.values() if not hasattr(x, "log_prob")), None)
        return {CONDITION: self.held if like is None else convert(self.held, like), **state}

    # --- what layers see of it ----------------------------------------------------------------------------------------

    def _field(self, block: str, state: State, arrays: Mapping[str, Any]) -> Array:
        return super()._field(block, self._whole(state), arrays)

    def _within(self, block: str, state: State) -> Any:
        return super()._within(block, self._whole(state))

    def _energy_among(self, blocks: Iterable[str], state: State, arrays: Mapping[str, Any]) -> Array:
        return super()._energy_among({*blocks, CONDITION}, self._whole(state), arrays)

    def joint_gradient(self, state: State, weight: Array) -> dict[str, Array]:
        """See `HasJointGradient`; the couplings to the condition are among the parameters."""
        whole = self._whole(state)
        found = super().joint_gradient(whole, weight)
        if self.traced:
            field = super()._field(CONDITION, whole, self._arrays(whole))
            found[CONDITION] = detached(-weight[:, None] * field)
        return found

    def summed(self, found: dict[str, Array], rows: slice, n: int) -> dict[str, Array]:
        """Gradients of several states beside each of some rows of n, those by a row of the condition added up."""
        if not self.traced:
            return found
        each = found[CONDITION].reshape(rows.stop - rows.start, -1, self.sizes[CONDITION]).sum(1)
        whole = convert(np.zeros((n, self.sizes[CONDITION])), each)
        whole[rows] = each
        return found | {CONDITION: whole}

    @available_if(lambda self: isinstance(self, type) or _has_flips(self))
    def flips(self, x: Array, rows: Array, sites: Array, active: Array | None = None) -> ConditionedFlips | CopiedFlips:
        """See `HasFlips`; each copy has the condition of its row."""
        kind = ConditionedFlips if self.bilinear else CopiedFlips
        return kind(self, x, rows, sites, active)


def _has_log_prob(machine: Any) -> bool:
    return enumerable(machine, EXACT_UNITS) and machine._hidden_bits() <= EXACT_UNITS_OF_A_ROW


def _has_flips(machine: Any) -> bool:
    return hasattr(machine.units[machine.observed], "values") and not machine._hidden_bits()
