"""Ranges that are drawn from only where another hyper-parameter has certain values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gnomon.errors import UserTypeError, UserValueError
from gnomon.search.dimensions import Dimension, OneOf, RealRange, WholeRange, label

if TYPE_CHECKING:
    from optuna.trial import Trial

__all__ = ["Conditional", "Space", "active", "combinations", "ordered", "size"]


@dataclass(frozen=True)
class Conditional:
    """A range of a hyper-parameter that is there only beside certain values of another one.

    Where the other has none of them, a trial has no value of this one: two such trials are the same, and the densities
    of good and bad trials learn nothing of it.

    Parameters
    ----------
    range : OneOf, RealRange or WholeRange
    other : str
        Address of a hyper-parameter that is searched, too, by a choice.
    values : tuple
        Those of the other beside which this one is there.

    Raises
    ------
    UserTypeError, UserValueError
        A condition of a condition; no value.

    Examples
    --------
    >>> print(Conditional(RealRange(1e-5, 0.1, log=True), "solver", ("gradient",)))
    1e-05..0.1:log if solver=gradient
    """

    range: Dimension
    other: str
    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.range, OneOf | RealRange | WholeRange):
            raise UserTypeError.must("range", "be a OneOf, a RealRange or a WholeRange", self.range, "space")
        if not self.values:
            raise UserValueError("a condition needs at least one value, got none", "space")

    @property
    def size(self) -> float:
        """How many values there are."""
        return self.range.size

    def applies(self, parameters: Mapping[str, Any]) -> bool:
        """Whether the hyper-parameter is there beside these."""
        return self.other in parameters and label(parameters[self.other]) in map(label, self.values)

    def holds(self, value: Any) -> bool:
        """Whether a value lies in the range."""
        return self.range.holds(value)

    def at(self, u: float) -> Any:
        """The value at a quantile."""
        return self.range.at(u)

    def narrowed(self, value: Any, factor: float) -> Conditional:
        """The narrowed range under the same condition."""
        return Conditional(self.range.narrowed(value, factor), self.other, self.values)

    def only(self, value: Any) -> Dimension:
        """The range of one value."""
        return self.range.only(value)

    def grid(self, n: int) -> list[Any]:
        """Values from end to end."""
        return self.range.grid(n)

    def suggest(self, trial: Trial, name: str) -> Any:
        """The value that a trial of Optuna takes."""
        return self.range.suggest(trial, name)

    def stored(self, value: Any) -> Any:
        """The value as a trial of Optuna keeps it."""
        return self.range.stored(value)

    def read(self, stored: Any) -> Any:
        """The value from what a trial keeps."""
        return self.range.read(stored)

    def __str__(self) -> str:
        return f"{self.range} if {self.other}={','.join(map(label, self.values))}"


Space = dict[str, Dimension | Conditional]
"""Range by address of the hyper-parameter: ``n_hidden``, or ``objective.k`` in a slot."""


def ordered(space: Space) -> Space:
    """The space with what others depend on before them, checked.

    Raises
    ------
    UserValueError
        A condition on what is not searched by a choice, or on a value that it has not.
    """
    for name, one in space.items():
        if not isinstance(one, Conditional):
            continue
        other = space.get(one.other)
        if not isinstance(other, OneOf):
            what = f"{name} depends on {one.other}, which must be searched by a choice without a condition"
            raise UserValueError(what, "space", f"such as {one.other}=A,B")
        missing = set(map(label, one.values)) - set(map(label, other.values))
        if missing:
            what = f"{name} depends on {one.other}={', '.join(sorted(missing))}, which must be among {other}"
            raise UserValueError(what, "space")
    return dict(sorted(space.items(), key=lambda item: isinstance(item[1], Conditional)))


def active(space: Mapping[str, Dimension | Conditional], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values without those whose condition does not hold beside the others."""
    hidden = {name for name, one in space.items() if isinstance(one, Conditional) and not one.applies(values)}
    return {name: value for name, value in values.items() if name not in hidden}


def combinations(space: Mapping[str, Dimension | Conditional], values: Iterable[list[Any]]) -> list[dict[str, Any]]:
    """Every combination of values of each range, the last one changing fastest, each point once."""
    found = (active(space, dict(zip(space, one, strict=True))) for one in itertools.product(*values))
    return list({tuple((name, label(value)) for name, value in point.items()): point for point in found}.values())


def size(space: Mapping[str, Dimension | Conditional]) -> float:
    """How many points there are; infinite with a real number among them."""
    parents = {one.other for one in space.values() if isinstance(one, Conditional)}
    heads = {name: space[name] for name in parents}
    rest = {name: one for name, one in space.items() if name not in parents}
    points = combinations(heads, [one.grid(1) for one in heads.values()])
    return sum(
        math.prod(one.size for one in rest.values() if not isinstance(one, Conditional) or one.applies(point))
        for point in points
    )
