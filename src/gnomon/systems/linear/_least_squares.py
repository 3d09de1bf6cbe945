"""The affine model of a numeric target, and its closed form: a triangular factor of the rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from gnomon.data.examples import Examples
from gnomon.data.preprocessing import standardization, varies
from gnomon.numeric.sparse import is_sparse, units_of, wide
from gnomon.training.em import ClosedForm
from gnomon.training.group import current as current_group
from gnomon.training.procedure import Info

__all__ = ["Affine", "LeastSquares", "LinearRegressionModel", "factor", "factor_of", "merge", "tell_of_perfection"]

Floats = np.ndarray[Any, np.dtype[np.floating[Any]]]

SPARSE_ROWS = 256
"""Sparse rows that are written out together at least."""
FLOOR = 1e-12
"""Smallest variance of the noise, as a fraction of the target's variance: a perfect fit keeps a finite density."""


class Affine:
    r"""y = center + unit (W^T (x - shift) / scale + b) + noise; all but W and b fixed before the fit or by it.

    The mathematics of the arrays that ``state()`` gives: ``weight`` (n_features, n_outputs) and ``bias`` in the dtype
    of the fit, the others in float64.
    """

    sums: Floats
    """The factor of all rows after a closed form, about `origin`; neither saved nor learned."""
    origin: dict[str, Floats]
    perfect: int = 0
    """Outputs whose noise the fit found at its floor; not saved."""

    def state(self) -> dict[str, Any]:
        """The arrays by name, to be changed in place."""
        raise NotImplementedError

    def standardize(self, examples: Examples, *, scaled: bool) -> None:
        """Take columns and target about their means, and where they are `scaled` in their standard deviations."""
        target = np.asarray(examples.y).reshape(len(examples), -1)
        state = self.state()
        for rows, origin, unit in ((examples.X, "shift", "scale"), (target, "center", "unit")):
            mean, spread = (units_of if is_sparse(rows) else standardization)(rows, examples.weight)
            state[origin][:] = mean
            if scaled:
                state[unit][:] = spread

    def predict(self, x: Floats) -> Floats:
        """Predictions in float64, shape (n, n_outputs)."""
        state = self.state()
        weight = state["weight"].astype(np.float64)
        if is_sparse(x):
            weight = weight / state["scale"][:, None]
            inner = wide(x) @ weight - np.matmul(state["shift"], weight) + state["bias"]
        else:
            inner = np.matmul((x - state["shift"]) / state["scale"], weight) + state["bias"]
        answer: Floats = state["center"] + state["unit"] * inner
        return answer

    def coefficients(self) -> Floats:
        """Weights of the columns as they were given, in units of the target, shape (n_features, n_outputs)."""
        state = self.state()
        weight: Floats = state["weight"].astype(np.float64) / state["scale"][:, None] * state["unit"]
        return weight

    def measure(self, squares: Floats, variance: Floats) -> None:
        """Take the mean squared errors, one per output, as the variance of the noise: at least `FLOOR` of the target's.

        Raises the floor, and counts it in `perfect`, where a likelihood would have no bound.
        """
        noise = np.maximum(np.maximum(squares, FLOOR * variance), np.finfo(np.float64).tiny)
        self.perfect = int((noise > squares).sum())
        self.state()["noise"][:] = noise

    # --- closed form --------------------------------------------------------------------------------------------

    def moments(self, x: Any, y: Floats, weight: Floats) -> Floats:
        """Triangular factor R of the weighted rows (1, x - shift, y - center): R^T R are their products.

        Its first row holds the means and the rest is the factor of the centered rows, at the rows' own condition: the
        products themselves would square it.
        """
        state = self.state()
        if not is_sparse(x):
            return factor_of(x, y, weight, state["shift"], state["center"])
        block = max(SPARSE_ROWS, x.shape[1])  # about as many numbers as the factor has
        parts = (slice(start, start + block) for start in range(0, len(x), block))
        factors = [
            factor_of(x[part].toarray(), y[part], weight[part], state["shift"], state["center"]) for part in parts
        ]
        return merge(*factors)

    def solve(self, whole: Floats, l2: float, standardize: bool, n: int) -> dict[str, float]:
        """Minimize the mean half squared error plus ``l2 / 2 ||W||^2``; of several minima take the one of least norm.

        Parameters
        ----------
        whole : array of shape (1 + n_features + n_outputs,) * 2
            Factor of all rows.
        l2 : float
        standardize : bool
            Whether the norm is that of the weights of columns with spread 1.
        n : int
            Number of rows, for the rank: singular values up to ``eps max(n, n_features)`` of the largest are 0.
        """
        state = self.state()
        d = len(state["shift"])
        self.sums = whole
        self.origin = {name: state[name].copy() for name in ("shift", "center")}
        total = whole[0, 0] ** 2
        means = whole[0, 1:] / whole[0, 0]
        x, y = whole[1:, 1 : d + 1], whole[1:, d + 1 :]
        spread = np.sqrt((x**2).sum(0) / total)
        moving = varies(spread, state["shift"] + means[:d])
        scale = np.where(moving & standardize, spread, 1.0)
        x = np.where(moving, x / scale, 0.0)
        u, s, vt = np.linalg.svd(x, full_matrices=False)
        eps = float(np.finfo(state["weight"].dtype).eps)
        kept = s > eps * max(n, d) * s.max(initial=0.0)
        gain = np.divide(s, s**2 + total * l2, out=np.zeros_like(s), where=kept)
        weight = np.matmul(vt.T, gain[:, None] * np.matmul(u.T, y))
        squares = ((y - np.matmul(x, weight)) ** 2).sum(0) / total
        state["weight"][:] = weight
        state["bias"][:] = 0
        state["shift"] += means[:d]
        state["scale"][:] = scale
        state["center"] += means[d:]
        state["unit"][:] = 1.0
        self.measure(squares, (y**2).sum(0) / total)
        return {"half_squared_error": float(squares.sum()) / 2, "rank": int(kept.sum())}


class LinearRegressionModel(Affine):
    """The affine model as arrays: what the closed form fits.

    Parameters
    ----------
    n_features, n_outputs : int
    dtype : str, default "float32"
        Of W and b; everything else is float64.
    """

    def __init__(self, n_features: int, n_outputs: int, dtype: str = "float32") -> None:
        self.arrays = {
            "weight": np.zeros((n_features, n_outputs), dtype),
            "bias": np.zeros(n_outputs, dtype),
            **{name: np.full(sizes, value) for name, sizes, value in fixed(n_features, n_outputs)},
        }

    @property
    def n_parameters(self) -> int:
        """Numbers that are learned."""
        return self.arrays["weight"].size + self.arrays["bias"].size

    def state(self) -> dict[str, Any]:
        """The arrays by name, to be changed in place."""
        return self.arrays

    def load(self, state: Mapping[str, Any]) -> None:
        """Copy arrays of the same names and shapes into the model."""
        for name, value in self.arrays.items():
            if np.shape(state[name]) != value.shape:
                raise ValueError(f"{name} must have shape {value.shape}, got {np.shape(state[name])}")
            value[:] = state[name]


def fixed(n_features: int, n_outputs: int) -> tuple[tuple[str, int, float], ...]:
    """Names, sizes and first values of the arrays that are not learned."""
    return (
        ("shift", n_features, 0.0), ("scale", n_features, 1.0), ("center", n_outputs, 0.0), ("unit", n_outputs, 1.0),
        ("noise", n_outputs, 1.0),
    )  # fmt: skip


def factor_of(x: Floats, y: Floats, weight: Floats, shift: Floats, center: Floats) -> Floats:
    """Triangular factor of the weighted rows (1, x - shift, y - center)."""
    rows = np.concatenate([np.ones((len(x), 1)), x - shift, y.reshape(len(x), -1) - center], axis=1)
    return factor(np.sqrt(weight.astype(np.float64))[:, None] * rows)


def factor(rows: Floats) -> Floats:
    """The upper triangular R with R^T R = rows^T rows and as many rows as columns.

    Examples
    --------
    >>> np.abs(factor(np.array([[3.0], [4.0]])))
    array([[5.]])
    """
    r: Floats = np.asarray(np.linalg.qr(rows, mode="r"))
    missing = rows.shape[1] - len(r)
    return np.concatenate([r, np.zeros((missing, rows.shape[1]))]) if missing else r


def merge(*factors: Floats) -> Floats:
    """The factor of the rows of all."""
    return factor(np.concatenate(factors))


class LeastSquares(ClosedForm):
    """One pass: every process factors its rows, the factors are joined in order of rank, and the small system solved.

    Parameters
    ----------
    *arguments
        What the model's ``solve(whole, *arguments, n)`` is given between the factor of all rows and their number.
    """

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments

    def step(self, state: Any) -> tuple[Any, Info]:
        """The whole fit."""
        problem = state.problem
        parts = [
            problem.model.moments(batch.data["X"], batch.data["y"], batch.weight)
            for batch in problem.batches.epoch(0)
            if len(batch)
        ]
        arrays = problem.model.state()
        width = 1 + len(arrays["shift"]) + len(arrays["center"])
        own = merge(*parts) if parts else np.zeros((width, width))
        whole = merge(problem.group.gather(own))
        record = problem.model.solve(whole, *self.arguments, problem.batches.n)
        state.iteration += 1
        return state, Info(done=True, record=record)


def tell_of_perfection(model: Affine) -> None:
    """Warn, on the first process, where the fit found the noise at its floor."""
    if not model.perfect or current_group().rank:
        return
    n_outputs = len(model.state()["unit"])
    warnings.warn(
        f"{model.perfect} of {n_outputs} outputs fitted without error: noise_variance_ is its floor and "
        "densities of y say little; is the target among the columns, or are there too few rows?",
        UserWarning, stacklevel=5,
    )  # fmt: skip
