"""Running averages of a stream."""

from __future__ import annotations

import math
import warnings
from typing import Annotated, Any

import numpy as np

from gnomon.contracts import Array, State
from gnomon.errors import UserValueError
from gnomon.recipes.parameters import check_parameters

__all__ = ["ExponentialAverage", "check_robbins_monro", "robbins_monro"]


def robbins_monro(t: int, tau: float = 0.0, kappa: float = 1.0) -> float:
    """Step (t + tau)^-kappa of a stochastic approximation at time t, counted from 1.

    For kappa in (0.5, 1] the sum of the steps is infinite and that of their squares is not, so that unbiased gradients
    lead to a stationary point (Robbins and Monro 1951). With kappa = 1 and tau = 0 the running mean comes out.

    Parameters
    ----------
    t : int >= 1
    tau : float >= 0
        Delay: the first steps are shorter.
    kappa : float > 0
        How fast steps fall.

    Examples
    --------
    >>> mean = 0.0
    >>> for t, x in enumerate([3.0, 5.0, 10.0], 1):
    ...     mean += robbins_monro(t) * (x - mean)
    >>> mean
    6.0
    """
    if t < 1:
        raise UserValueError.must("t", "be at least 1", t)
    return float((t + tau) ** -kappa)


def check_robbins_monro(kappa: float) -> None:
    """Warn of steps that fall so slowly that noise stays, or so fast that the end is not reached."""
    if not 0.5 < kappa <= 1:
        what = "noise does not average out" if kappa <= 0.5 else "the steps end before the optimum"
        warnings.warn(f"kappa should be in (0.5, 1], got {kappa:g}: {what}", UserWarning, stacklevel=3)


class ExponentialAverage:
    """y_t = g y_{t-1} + (1 - g) x_t from y_0 = 0, of numbers, NumPy arrays or torch tensors of one shape.

    The weights of t values sum to 1 - g^t, so the plain value begins too near 0; ``corrected`` divides by it.

    Parameters
    ----------
    g : float in [0, 1)
        Share that is kept; about the last 1 / (1 - g) values count.

    Attributes
    ----------
    count : int
        Values so far, t.
    value : float, array or tensor
        y_t; 0.0 before the first value. Never the caller's own array, and not changed by later updates.

    Notes
    -----
    Source: Roberts (1959); the correction: Kingma and Ba (2015).

    Examples
    --------
    >>> average = ExponentialAverage(0.9)
    >>> for x in (1.0, 2.0, 3.0):
    ...     _ = average.update(x)
    >>> round(average.value, 6), round(average.corrected, 6)
    (0.561, 2.070111)
    """

    def __init__(self, g: Annotated[float, "[0, 1)"]) -> None:
        check_parameters(self, {"g": g})
        self.g = float(g)
        self.reset()

    def reset(self) -> None:
        """Forget every value."""
        self.count: int = 0
        self.value: Any = 0.0

    def update(self, x: Array | float) -> Any:
        """Take a value in, and give y_t.

        Raises
        ------
        UserValueError
            Another shape than before.
        """
        before, now = (tuple[int, ...](np.shape(a)) for a in (self.value, x))
        if self.count and before != now:
            raise UserValueError.must("x", f"keep the shape {before}", now, remedy="call reset before another shape")
        if hasattr(x, "new_tensor") and isinstance(self.value, np.ndarray):
            self.value = x.new_tensor(self.value)  # a loaded average goes on with tensors
        new = (1 - self.g) * x
        self.value = self.g * self.value + new if self.count else new
        self.count += 1
        return self.value

    @property
    def corrected(self) -> Any:
        """y_t / (1 - g^t): a weighted mean of the values.

        Raises
        ------
        UserValueError
            Before the first value.
        """
        if not self.count:
            raise UserValueError("ExponentialAverage has no value yet", "ExponentialAverage", "call update first")
        kept = -math.expm1(self.count * math.log(self.g)) if self.g else 1.0
        return self.value / kept

    def state(self) -> dict[str, Any]:
        """Value and count; g is the caller's."""
        return {"value": np.asarray(self.value), "count": np.asarray(self.count)}

    def load(self, state: State) -> None:
        """Go on from a state."""
        value = state["value"]
        self.count = int(state["count"])
        self.value = float(value) if np.ndim(value) == 0 else value
