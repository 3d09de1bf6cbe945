"""Machines whose observed layer is a document's words, counted: each row given how many words it has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from gnomon.contracts import Array, State
from gnomon.distributions.units import Units, mean_of
from gnomon.errors import UserTypeError
from gnomon.inference.arrays import convert, to_numpy
from gnomon.systems.energy.conditioned import CONDITION, ConditionedMachine
from gnomon.systems.energy.layered import EXACT_UNITS
from gnomon.systems.energy.links import Link

__all__ = ["CountedRowsMachine"]

SUMS_TO_ONE = 1e-5
"""How far the log of the sum of the words' shares may be from 0."""
LENGTH = "length"
"""Of the observed units: what is handed to them beside their parameters."""


class CountedRowsMachine(ConditionedMachine):
    r"""A machine of layers over counts n of N words: :math:`E = -b^T n - n^T W h - N c^T h - \dots`, given N.

    n | h is multinomial with the chances softmax(b + W h). The biases of the layer h above the words are N c, and so do
    not vanish beside long documents. Since the counts of a row add up to N, the couplings W + c, with c in the row of
    every word, say both, and h needs no bias of its own: that is the machine of layers that this one is.

    N is read off the counts where a state has them, also off those that a chain stands at; where they are summed out it
    is the condition, `given`, and each N has a normalizer of its own.

    Parameters
    ----------
    units : mapping of str to Units
        The layers; the first holds the rows and is one of `WordCountUnits`.
    links : iterable of pairs of str or links
        One of them has the rows at its first end.
    copies : int, default 1
        How often each row stands: 2 for rows that are doubled, whose N is doubled too and the field of c is not.
    dtype : torch.dtype

    References
    ----------
    Salakhutdinov and Hinton (2009), "Replicated softmax: an undirected topic model"; Srivastava, Salakhutdinov and
    Hinton (2013), "Modeling documents with deep Boltzmann machines".

    Examples
    --------
    >>> from gnomon.distributions.units import BernoulliUnits
    >>> from gnomon.distributions.word_counts import WordCountUnits
    >>> machine = CountedRowsMachine({"words": WordCountUnits(3), "topics": BernoulliUnits(2)}, [("words", "topics")])
    >>> np.exp(machine.log_prob(np.array([[2.0, 0.0, 0.0], [1.0, 1.0, 0.0]]))).round(4).tolist()
    [0.1111, 0.2222]
    """

    rows_carry: ClassVar[bool] = True
    """Whether rows hold what no other layer knows: chains go on from them too."""

    def __init__(
        self,
        units: Mapping[str, Units],
        links: Iterable[Sequence[str] | Link],
        *,
        copies: int = 1,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(1, units, links, moved=(), dtype=dtype)
        self.rows_stand = copies
        self.blocks = tuple(units)  # lengths are read off the rows

    @property
    def _names(self) -> tuple[str, str]:
        """Of the couplings W and of the biases c."""
        link = next(link for link in self.links if link.ends[0] == self.observed)
        return link.names["weight"], f"{link.ends[1]}_bias"

    @property
    def released(self) -> Any:
        """The machine of all layers, the condition among them, N of each row."""
        others = tuple(block for block in self.blocks if block != CONDITION)
        return self._twin(None, (CONDITION, *others))

    # --- how many words -----------------------------------------------------------------------------------------------

    def _lengths(self, state: State) -> Array | None:
        """N of each row, (rows,) or (1,); None where nothing says it."""
        if self.observed in state:
            found: Array = mean_of(state[self.observed]).sum(-1)
            return found
        condition = state.get(CONDITION, self.held)
        if condition is None:
            return None
        like = next((x for x in state.values() if not hasattr(x, "log_prob")), condition)
        found = convert(condition, like)[:, 0]
        return found

    def _whole(self, state: State) -> State:
        if CONDITION in state or self.observed not in state:
            return super()._whole(state)
        lengths: Any = self._lengths(state)
        return {CONDITION: lengths[:, None], **state}

    def _own(self, block: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
        own = super()._own(block, arrays)
        return own | {LENGTH: arrays[LENGTH]} if block == self.observed and LENGTH in arrays else own

    # --- as a machine of layers ---------------------------------------------------------------------------------------

    def _arrays(self, state: State) -> Mapping[str, Any]:
        own, (weight, bias) = super()._arrays(state), self._names
        mapped = {**own, weight: own[weight] + own[bias] / self.rows_stand, bias: 0 * own[bias]}
        lengths = self._lengths(state)
        return mapped if lengths is None else mapped | {LENGTH: lengths}

    def _pulled(self, found: dict[str, Array], state: State) -> dict[str, Array]:
        weight, bias = self._names
        return found | {bias: found[weight].sum(0) / self.rows_stand}

    # --- normalizers --------------------------------------------------------------------------------------------------

    def log_partitions(self, condition: Array, *, limit: int = EXACT_UNITS) -> NDArray[np.float64]:
        """Exact log Z(N) of each row (N,) of the condition in nats, by one enumeration for each length that occurs."""
        lengths, at = np.unique(to_numpy(condition)[:, 0], return_inverse=True)
        return super().log_partitions(lengths[:, None], limit=limit)[at]

    def log_partition(self) -> float:
        """Exact log Z of the one length that is in force, or of all where they have the same, as without couplings.

        Raises
        ------
        UserTypeError
            None, or several, each of which has a log Z of its own.
        """
        if self._is_of_no_length:
            return self._log_partition_apart()
        if self.held is None or len(self.held) != 1:
            what = f"one length must be in force for one log Z, got {0 if self.held is None else len(self.held)}"
            raise UserTypeError(what, "condition", "use machine.given(np.array([[N]])), or log_partitions")
        return float(self.log_partitions(self.held)[0])

    def _log_partition_apart(self) -> float:
        """log Z of the hidden layers, without couplings among them."""
        arrays = {name: np.asarray(value, np.float64) for name, value in self._plain().items()}
        hidden = [block for block in self.blocks if block not in (CONDITION, self.observed)]
        parts = (
            self.units[block].log_normalizer(np.zeros((1, self.sizes[block])), self._own(block, arrays))
            for block in hidden
        )
        return float(sum(float(part[0]) for part in parts))

    @property
    def _is_of_no_length(self) -> bool:
        """Whether log Z is the same for each length: the layers apart, and the words' shares add up to 1."""
        own = self._plain()
        names = [*(name for link in self.links for name in link.names.values()), self._names[1]]
        total = np.logaddexp.reduce(np.asarray(own[f"{self.observed}_bias"], np.float64))
        return not any(own[name].any() for name in names) and abs(float(total)) < SUMS_TO_ONE

    @available_if(lambda self: isinstance(self, type) or (self.exact and hasattr(self, "energy")))
    def log_prob(self, x: Array) -> Array:
        """Exact log p(n | N) of each row in nats; there where up to 2^12 states are enumerated."""
        return -self.energy(x) - convert(self.log_partitions(self._whole({self.observed: x})[CONDITION]), x)
