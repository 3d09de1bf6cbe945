"""Errors that fall with the number of examples as a power of it: a + b n^-c, fitted, extended, solved for n."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.optimize import least_squares

from gnomon.errors import UserValueError
from gnomon.evaluation._inputs import Floats

__all__ = ["PowerLaw"]

MOST = 10.0
"""Exponents that are looked for."""
STARTS = (0.25, 0.5, 1.0, 2.0)


@dataclass(frozen=True)
class PowerLaw:
    r"""The law :math:`err(n) = a + b n^{-c}` of a learning curve.

    Parameters
    ----------
    a, b, c : float, in [0, inf)
        The error that no number of examples removes, the rest at n = 1, and how fast that falls.
    covariance : array of shape (3, 3)
        Of a, b and c; NaN where three points leave nothing to judge them by.
    n : int
        Points that it was fitted to.

    Notes
    -----
    Source: Cortes, Jackel, Solla, Vapnik and Denker (1994), Learning curves: asymptotic values and rate of convergence.

    Examples
    --------
    >>> law = PowerLaw.fit([100, 400, 1600], [0.3, 0.2, 0.15])
    >>> round(law.a, 6), round(law.b, 6), round(law.c, 6), round(float(law.predict(6400)), 6)
    (0.1, 2.0, 0.5, 0.125)
    >>> round(law.size_for(0.12))
    10000
    """

    a: float
    b: float
    c: float
    covariance: Floats
    n: int

    @classmethod
    def fit(cls, sizes: ArrayLike, errors: ArrayLike) -> PowerLaw:
        """The law by least squares, from several starts.

        Parameters
        ----------
        sizes : array of shape (m,), m >= 3
            Different, each at least 1.
        errors : array of shape (m,)
            In [0, inf).

        Raises
        ------
        UserValueError
            Fewer than three sizes, errors that are negative or not finite.
        """
        n, e = np.asarray(sizes, np.float64), np.asarray(errors, np.float64)
        if n.ndim != 1 or n.shape != e.shape or len(np.unique(n)) < 3 or not (n >= 1).all():
            raise UserValueError("sizes must be at least three different numbers of at least 1", "sizes")
        if not (np.isfinite(e).all() and (e >= 0).all()):
            raise UserValueError("errors must be finite and at least 0", "errors")
        unit = float(np.exp(np.log(n).mean()))  # the fit is about n / unit, whose powers are of one size

        def left(p: Floats) -> Floats:
            return p[0] + p[1] * (n / unit) ** -p[2] - e

        found = [
            least_squares(left, (e.min() / 2, max(e.mean() / 2, 1e-9), c), bounds=([0, 0, 0], [np.inf, np.inf, MOST]),
                          xtol=1e-15, ftol=1e-15, gtol=1e-15)
            for c in STARTS
        ]  # fmt: skip
        best = min(found, key=lambda one: one.cost)
        a, scaled, c = (float(one) for one in best.x)
        b = scaled * unit**c
        slope = np.diag([1.0, unit**c, 1.0])
        slope[1, 2] = b * math.log(unit)
        covariance = np.full((3, 3), np.nan)
        if len(n) > 3:
            spread = 2 * best.cost / (len(n) - 3)
            covariance = spread * slope @ np.linalg.pinv(best.jac.T @ best.jac) @ slope.T
        return cls(a, b, c, covariance, len(n))

    def predict(self, n: ArrayLike) -> Floats:
        """The error at a number of examples."""
        return np.asarray(self.a + self.b * np.asarray(n, np.float64) ** -self.c)

    def interval(self, n: float, level: float = 0.95) -> tuple[float, float]:
        """An interval of the law at n, by the delta method and Student's t; NaN with three points."""
        gradient = np.array([1.0, n**-self.c, -self.b * n**-self.c * math.log(n)])
        error = math.sqrt(max(float(gradient @ self.covariance @ gradient), 0.0)) if self.n > 3 else math.nan
        width = float(stats.t.ppf((1 + level) / 2, max(self.n - 3, 1))) * error
        middle = float(self.predict(n))
        return middle - width, middle + width

    def size_for(self, target: float) -> float:
        """Examples, 1 at least, from which on the error is no more than `target`; inf where no number can say so many.

        Raises
        ------
        UserValueError
            A target that no number of examples reaches, with the error that remains.
        """
        if target >= self.a + self.b:  # one example is enough
            return 1.0
        floor = self.a if self.c else self.a + self.b
        if not target > floor:
            raise UserValueError(
                f"target must be above {floor:.4g}, which no number of examples goes below by this curve, got {target}",
                "target", "another system, or better data",
            )  # fmt: skip
        with np.errstate(over="ignore"):
            return float(np.exp(math.log(self.b / (target - self.a)) / self.c))

    def to_json(self) -> dict[str, Any]:
        """The law as a JSON object."""
        return {"a": self.a, "b": self.b, "c": self.c, "points": self.n}

    def __str__(self) -> str:
        floor = f"{self.a:.4g} + " if self.a > 1e-9 * self.b else ""
        return f"errors fall as {floor}{self.b:.4g} n^-{self.c:.3g}"
