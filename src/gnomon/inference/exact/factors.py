"""Factors: tables of log weights over named discrete variables, of which models are products."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.errors import UserTypeError, UserValueError, shown
from gnomon.numeric.given import floats

__all__ = ["Factor", "HasFactors", "Product"]

Floats = NDArray[np.float64]


class Factor:
    """A table of log weights over named discrete variables, one axis per name.

    Parameters
    ----------
    names : sequence of str
        Variables, each once, in the order of the axes.
    log_values : array with ``len(names)`` axes
        Log weights in nats; -inf is weight 0. Kept in float64.

    Raises
    ------
    UserValueError
        Other numbers of axes, nan or +inf, an axis of length 0.
    UserTypeError
        Names that are no texts.

    Examples
    --------
    >>> Factor.of(("rain", "wet"), [[0.9, 0.1], [0.2, 0.8]]).given({"wet": 1}).names
    ('rain',)
    """

    __slots__ = ("log_values", "names")

    def __init__(self, names: Sequence[str], log_values: ArrayLike) -> None:
        if not isinstance(names, Iterable) or not all(isinstance(name, Hashable) for name in names):
            raise UserTypeError.must("names", "be a sequence of one name per axis", names)
        self.names = tuple(names)
        wrong = [name for name in self.names if not isinstance(name, str)]
        if wrong:
            raise UserTypeError(f"names must be text, got {shown(wrong[0])}", "names", f"use for example 'x{wrong[0]}'")
        self.log_values: Floats = floats(log_values, "log_values")
        if len(set(self.names)) != len(self.names) or self.log_values.ndim != len(self.names):
            axes = self.log_values.ndim
            what = f"names must be {axes} different names, one per axis, got {shown(self.names)}"
            raise UserValueError(what, "names")
        if not self.log_values.size or not (self.log_values < math.inf).all():
            raise UserValueError("log weights must be numbers below +inf, at least one", f"factor {self.names}")

    @classmethod
    def of(cls, names: Sequence[str], values: ArrayLike) -> Factor:
        """From weights that are not negative."""
        weights = floats(values, "values")
        if not (weights >= 0).all():
            bad = weights[~(weights >= 0)].flat[0]
            raise UserValueError.must("a weight", "be at least 0", bad, f"factor {tuple(names)}")
        with np.errstate(divide="ignore"):
            return cls(names, np.log(weights))

    def __repr__(self) -> str:
        return f"Factor({', '.join(f'{n}: {k}' for n, k in self.sizes.items())})"

    @property
    def sizes(self) -> dict[str, int]:
        """Values of each variable."""
        return dict(zip(self.names, self.log_values.shape, strict=True))

    def given(self, evidence: Mapping[str, int]) -> Factor:
        """The factor with variables held at values; names that it has not are ignored."""
        if not isinstance(evidence, Mapping):
            raise UserTypeError(
                f"evidence must be a mapping {{name: value}}, got a {type(evidence).__name__}", "evidence"
            )
        for name, size in self.sizes.items():
            value = evidence.get(name, 0)
            if not isinstance(value, int | np.integer) or not 0 <= value < size:
                raise UserValueError(f"{name!r} must be an integer in [0, {size}), got {shown(value)}", "evidence")
        if not any(name in evidence for name in self.names):
            return self
        index = tuple(evidence.get(name, slice(None)) for name in self.names)
        return Factor([name for name in self.names if name not in evidence], self.log_values[index])


@runtime_checkable
class HasFactors(Protocol):
    """A model of discrete variables whose probability is a product of tables."""

    normalized: bool
    """Whether the product sums to 1."""

    def factors(self, of: Iterable[str] | None = None) -> Sequence[Factor]:
        """The tables; with `of`, those that have a say in the joint distribution of these variables are enough."""


class Product:
    """Factors as a model: their product, not normalized.

    Parameters
    ----------
    factors : iterable of Factor
    """

    normalized = False

    def __init__(self, factors: Any) -> None:
        self._factors = list(factors) if isinstance(factors, Iterable) else [factors]
        for factor in self._factors:
            if not isinstance(factor, Factor):
                name = type(factor).__name__
                raise UserTypeError(f"model must be tables or have factors(), got {name}", "model")

    def factors(self, of: Iterable[str] | None = None) -> list[Factor]:
        """All of them."""
        return self._factors
