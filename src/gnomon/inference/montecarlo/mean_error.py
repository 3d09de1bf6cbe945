"""What a mean and a variance tell: errors, intervals, the draws that a precision takes."""

from __future__ import annotations

import math
import warnings
from typing import Any, Literal

import numpy as np
from scipy.special import ndtri, stdtrit

from gnomon.errors import UserValueError
from gnomon.numeric.given import checked

__all__ = ["MeanError"]


class MeanError:
    """What a mean and a variance tell: the standard error, an interval, how many draws a precision takes.

    Subclasses have ``count`` (draws), ``mean``, ``variance`` (of one draw), ``effective`` (independent draws that would
    do as well) and ``notice``.
    """

    count: int
    mean: Any
    variance: Any
    effective: Any

    @property
    def notice(self) -> str:
        """Why the error should not be trusted, in one line; empty when nothing is wrong."""
        raise NotImplementedError

    @property
    def standard_error(self) -> Any:
        """``sqrt(v / n)`` with v the variance of one draw and n the effective number of draws.

        Issues `notice` as a warning, where there is one: of draws of infinite variance this number says nothing.

        Raises
        ------
        UserValueError
            For a single draw, which has no variance.
        """
        if self.notice:
            warnings.warn(self.notice, stacklevel=2)
        return self._stderr()

    @checked
    def confint(self, level: float = 0.95, kind: Literal["normal", "student"] = "normal") -> tuple[Any, Any]:
        """Ends of the interval ``mean -+ z sqrt(v / n)`` that covers the truth with probability `level`, for large n.

        Parameters
        ----------
        level : float, in (0, 1)
            Fraction of such intervals that cover the truth.
        kind : {"normal", "student"}
            z of the normal distribution, or of Student's with n - 1 degrees of freedom, which is exact for normal draws
            and wider for few of them.

        Returns
        -------
        (low, high)
            Floats, or arrays of the shape of the mean.
        """
        if kind not in ("normal", "student"):
            raise UserValueError.must("kind", "be normal or student", kind)
        z = _quantile(level)
        if kind == "student":
            z = stdtrit(np.asarray(self.effective) - 1.0, (1 + level) / 2)
        reach = z * self.standard_error
        low, high = self.mean - reach, self.mean + reach
        return (float(low), float(high)) if np.ndim(low) == 0 else (low, high)

    @checked
    def n_for_precision(self, eps: float, level: float | None = None) -> int:
        """Draws in total that bring the error of every coordinate down to `eps`, by the variance seen so far.

        Parameters
        ----------
        eps : float, in (0, inf)
            The standard error wanted; with `level`, half the width of the normal interval.
        level : float, in (0, 1), optional
            Level of that interval.

        Returns
        -------
        int
            At least 2. For chains, draws that are as dependent as these.
        """
        if not 0 < eps < math.inf:
            raise UserValueError.must("eps", "be finite and positive", eps)
        z = 1.0 if level is None else _quantile(level)
        needed = float(np.max(self.standard_error**2 * self.count)) * (z / eps) ** 2
        return max(2, math.ceil(needed * (1 - 1e-12)))  # 400 draws stay 400 after rounding

    def _stderr(self) -> Any:
        error = np.sqrt(np.asarray(self.variance) / self.effective)
        return float(error) if error.ndim == 0 else error


def _quantile(level: float) -> float:
    if not 0 < level < 1:
        raise UserValueError.must("level", "be in (0, 1)", level)
    return float(ndtri((1 + level) / 2))
