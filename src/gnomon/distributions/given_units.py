"""The layer of an energy machine that is given and never drawn: a condition."""

from __future__ import annotations

from typing import ClassVar

from gnomon.contracts import Array, Distribution
from gnomon.distributions.units import Own, Units
from gnomon.errors import UserTypeError

__all__ = ["GivenUnits"]


class GivenUnits(Units):
    """Real numbers that others are conditioned on: no distribution, no parameters, w(x) = 0.

    Links carry them into the fields of the other layers. Given them there is one state, their own, so that they add
    nothing to what an enumeration costs.

    Examples
    --------
    >>> import numpy as np
    >>> GivenUnits(2).log_weight(np.ones((3, 2)), {}).tolist(), GivenUnits(2).n_states
    ([0.0, 0.0, 0.0], 1)
    """

    parameters: ClassVar[tuple[str, ...]] = ()
    drawn: ClassVar[bool] = False

    @property
    def n_states(self) -> float:
        """One."""
        return 1

    def log_weight(self, x: Array | Distribution, own: Own) -> Array:
        """0."""
        return self.features(x)[:, 0] * 0

    def log_normalizer(self, field: Array, own: Own) -> Array:
        """0: there is nothing to sum over."""
        return field[:, 0] * 0

    def statistics(self, x: Array | Distribution, mean: Array, own: Own) -> dict[str, Array]:
        """None."""
        return {}

    def conditional(self, field: Array, own: Own) -> Distribution:
        """There is none.

        Raises
        ------
        UserTypeError
            Always: what is given is not drawn.
        """
        raise UserTypeError("a condition has no distribution", "condition", "give its rows")
