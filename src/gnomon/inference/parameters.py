"""Log joint densities of named parameters, positive and bounded ones among them, as densities on the whole line.

Chains and variational fits move on rows of real numbers, (rows, d). A parameter with an end is the image of one that
has none, by an exponential beside one end or a logistic function between two, and the log derivative is added,

.. math:: \\log p(z) = \\log p(\\theta(z)) + \\sum_k \\log |d\\theta_k / dz_k|.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Array
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.arrays import to_numpy
from gnomon.inference.mcmc.density import Density
from gnomon.numeric.ops import sigmoid, softplus
from gnomon.numeric.tensors import is_tensor

__all__ = ["DataDensity", "JointDensity", "Support", "Parameters"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Support:
    """What a parameter may be.

    Parameters
    ----------
    shape : int or tuple of int, default ()
        Of its array; () is one number.
    low, high : float
        Open ends of every entry; -inf and inf leave a side free. ``Support(low=0)`` is positive.

    Raises
    ------
    UserValueError
        A size below 1, or ``low >= high``.

    Examples
    --------
    >>> Support(low=0.0, high=1.0).inside(np.array([0.0])).tolist()
    [0.5]
    """

    shape: int | tuple[int, ...] = ()
    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        if not all(isinstance(side, int | np.integer) and side >= 1 for side in self.sizes):
            raise UserValueError.must("shape", "be whole numbers of at least 1", self.shape)
        if not self.low < self.high:
            raise UserValueError(f"low must be below high, got {self.low} and {self.high}", "low, high")

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape, always as a tuple."""
        return (self.shape,) if isinstance(self.shape, int | np.integer) else tuple(self.shape)

    @property
    def size(self) -> int:
        """How many numbers it is."""
        return math.prod(self.sizes)

    def inside(self, z: Any) -> Any:
        """The parameter of real numbers z; increasing in z."""
        if math.isfinite(self.low) and math.isfinite(self.high):
            return self.low + (self.high - self.low) * sigmoid(z)
        if math.isfinite(self.low):
            return self.low + _exp(z)
        return self.high - _exp(-z) if math.isfinite(self.high) else z

    def log_slope(self, z: Any) -> Any:
        """log of d parameter / d z, entry by entry."""
        if math.isfinite(self.low) and math.isfinite(self.high):
            return math.log(self.high - self.low) - softplus(z) - softplus(-z)
        if math.isfinite(self.low):
            return z
        return -z if math.isfinite(self.high) else 0.0 * z

    def outside(self, value: ArrayLike, name: str = "value") -> Floats:
        """The real numbers of a parameter.

        Raises
        ------
        UserValueError
            At or beyond an end.
        """
        x = np.asarray(value, np.float64)
        bad = ~((x > self.low) & (x < self.high))
        if bad.any():
            raise UserValueError(f"{name} must be in ({self.low:g}, {self.high:g}), got {x[bad].flat[0]:g}", name)
        if math.isfinite(self.low) and math.isfinite(self.high):
            return np.log(x - self.low) - np.log(self.high - x)
        if math.isfinite(self.low):
            return np.log(x - self.low)
        return -np.log(self.high - x) if math.isfinite(self.high) else x


class Parameters:
    """Named parameters side by side in a row of real numbers.

    Parameters
    ----------
    given : mapping of name to Support
        An integer or a tuple stands for ``Support(shape)``.

    Examples
    --------
    >>> both = Parameters({"mean": 2, "scale": Support(low=0.0)})
    >>> both.size, both.coordinates
    (3, ['mean[0]', 'mean[1]', 'scale'])
    """

    def __init__(self, given: Mapping[str, Support | int | tuple[int, ...]]) -> None:
        if not isinstance(given, Mapping) or not given:
            raise UserTypeError.must("parameters", "be a mapping of name to Support", given)
        self.given = {name: one if isinstance(one, Support) else Support(one) for name, one in given.items()}
        ends = np.cumsum([0, *(one.size for one in self.given.values())]).tolist()
        self.slices = {name: slice(*pair) for name, pair in zip(self.given, pairwise(ends), strict=True)}
        self.size = int(ends[-1])

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of each parameter."""
        return tuple(one.size for one in self.given.values())

    @property
    def coordinates(self) -> list[str]:
        """A name for every number, such as ``mean[0]``."""
        return [
            name + (f"[{', '.join(map(str, at))}]" if at else "")
            for name, one in self.given.items() for at in np.ndindex(*one.sizes)
        ]  # fmt: skip

    def named(self, z: Array) -> dict[str, Any]:
        """The parameters of rows of real numbers, (..., size): arrays (..., shape) by name."""
        return {
            name: one.inside(z[..., self.slices[name]]).reshape((*z.shape[:-1], *one.sizes))
            for name, one in self.given.items()
        }

    def log_slope(self, z: Array) -> Array:
        """log of the determinant of the map at each row, (rows,)."""
        parts = [one.log_slope(z[..., self.slices[name]]).sum(-1) for name, one in self.given.items()]
        return sum(parts[1:], start=parts[0])

    def row(self, values: Mapping[str, ArrayLike]) -> Floats:
        """Real numbers (..., size) of parameters by name: what `named` undoes.

        Raises
        ------
        UserValueError
            A parameter that is missing, of another shape, or at an end.
        """
        missing = [name for name in self.given if name not in values]
        if missing:
            raise UserValueError(f"{missing[0]!r} is missing", "values", f"give {', '.join(self.given)}")
        parts = []
        for name, one in self.given.items():
            x = to_numpy(values[name], name)
            lead = x.shape[: x.ndim - len(one.sizes)]
            if x.shape[len(lead) :] != one.sizes:
                raise UserValueError(f"{name} must have shape {one.sizes}, got {x.shape}", name)
            parts.append(one.outside(x, name).reshape(*lead, one.size))
        return np.concatenate(parts, axis=-1)


class JointDensity(Density):
    """The log joint density of named parameters, on rows of real numbers.

    `gnomon.sample_chain` and `gnomon.fit_posterior` take it alike; ``named(draws)`` gives what they drew its names.

    Parameters
    ----------
    log_joint : callable
        Mapping of name to tensor (rows, shape) -> (rows,): log of prior times likelihood, in nats, up to a constant.
    parameters : mapping of name to Support
        A shape stands for real numbers: ``{"w": 3, "scale": Support(low=0)}``.

    Examples
    --------
    >>> rate = JointDensity(lambda at: -at["rate"], {"rate": Support(low=0.0)})  # of an exponential distribution
    >>> rate.log_prob(np.array([[0.0]])).tolist()
    [-1.0]
    >>> rate.named(np.array([[0.0]]))["rate"].tolist()
    [1.0]
    """

    def __init__(self, log_joint: Callable[[dict[str, Any]], Any], parameters: Mapping[str, Any] | Parameters) -> None:
        self.parameters = parameters if isinstance(parameters, Parameters) else Parameters(parameters)
        self.log_joint = log_joint
        super().__init__(self._on_rows)

    def named(self, z: Array) -> dict[str, Any]:
        """The parameters of rows of real numbers, (..., d): arrays by name."""
        return self.parameters.named(z)

    def _on_rows(self, z: Array) -> Array:
        if z.shape[-1] != self.parameters.size:
            what = f"rows must have {self.parameters.size} numbers, got {z.shape[-1]}"
            raise UserValueError(what, "start", "give the dimension that the parameters have together")
        values = self.named(z)
        try:
            found = self.log_joint(values)
        except KeyError as error:
            if len(error.args) != 1 or not isinstance(error.args[0], str) or error.args[0] in values:
                raise
            what = f"the log joint asks for {error.args[0]!r}, the parameters are {', '.join(values)}"
            raise UserValueError(what, "parameters", "name it there") from error
        return found + self.parameters.log_slope(z)


class DataDensity(JointDensity):
    """A log joint density whose likelihood is a sum over rows of data: `gnomon.fit_posterior` takes it in batches.

    Parameters
    ----------
    log_prior : callable
        Mapping of name to tensor (rows, shape) -> (rows,).
    log_likelihood : callable
        The same mapping and some rows of the data, b of them -> (rows, b): log p of each row of data.
    data : array or tensor, or tuple of them
        Rows on axis 0; floating ones are handed on as float64 tensors.
    parameters : mapping of name to Support
    """

    def __init__(
        self,
        log_prior: Callable[[dict[str, Any]], Any],
        log_likelihood: Callable[..., Any],
        data: Any,
        parameters: Mapping[str, Any] | Parameters,
    ) -> None:
        self.log_prior, self.log_likelihood = log_prior, log_likelihood
        self.data = tuple(_tensor(part) for part in (data if isinstance(data, tuple) else (data,)))
        lengths = {len(part) for part in self.data}
        if len(lengths) != 1 or not min(lengths):
            raise UserValueError(f"data must have one number of rows, at least 1, got {sorted(lengths)}", "data")
        super().__init__(lambda values: self._joint(values, self.data, 1.0), parameters)

    @property
    def n(self) -> int:
        """Rows of data."""
        return len(self.data[0])

    def on(self, rows: NDArray[np.int64]) -> JointDensity:
        """The unbiased estimate from some rows: their likelihood counts n / b times, the prior once."""
        import torch

        index = torch.from_numpy(np.ascontiguousarray(rows))
        some, scale = tuple(part[index] for part in self.data), self.n / len(rows)
        return JointDensity(lambda values: self._joint(values, some, scale), self.parameters)

    def _joint(self, values: dict[str, Any], data: tuple[Any, ...], scale: float) -> Any:
        by_row = self.log_likelihood(values, *data)
        b = len(data[0])
        if getattr(by_row, "ndim", 0) != 2 or by_row.shape[-1] != b:
            shape = tuple(getattr(by_row, "shape", ()))
            what = f"log_likelihood must return one number for each of {b} rows of data, (rows, {b}), got {shape}"
            raise UserValueError(what, "log_likelihood", "do not sum over the rows of data")
        return self.log_prior(values) + scale * by_row.sum(-1)


def _tensor(part: Any) -> Any:
    import torch

    if is_tensor(part):
        return part
    array = np.asarray(part)
    return torch.from_numpy(np.array(array, np.float64 if array.dtype.kind == "f" else array.dtype))


def _exp(z: Any) -> Any:
    return z.exp() if is_tensor(z) else np.exp(z)
