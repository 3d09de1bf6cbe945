"""Bias and variance of the gradients that Markov chains give, exactly, where a machine's states can be enumerated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.arrays import convert, prototype, to_numpy
from gnomon.inference.exact.enumeration import states
from gnomon.inference.mcmc.gibbs import block_kernel
from gnomon.objectives.positive import observed_block

__all__ = ["ChainEstimator", "GradientMoments", "gradient_bias_variance"]

Matrix = NDArray[np.float64]
Start = Literal["model", "data", "other data", "persistent"]
LARGEST = 12
"""Units of each layer that are enumerated at most."""


@dataclass(frozen=True)
class ChainEstimator:
    """Where the negative phase of a gradient comes from.

    Parameters
    ----------
    start : {"model", "data", "other data", "persistent"}
        Independent draws of the model; chains from the row that is the positive phase (contrastive divergence); chains
        from a row drawn apart from it; successive states of one chain that has reached the model (persistent chains,
        at parameters that stand still).
    k : int in [1, inf), default 1
        Gibbs steps, each hidden then visible; from one state to the next of persistent chains.

    Examples
    --------
    >>> str(ChainEstimator("data", 2))
    'cd-2'
    """

    start: Start = "data"
    k: int = 1

    def __post_init__(self) -> None:
        if self.start not in ("model", "data", "other data", "persistent"):
            raise UserValueError.must("start", "be model, data, other data or persistent", self.start)
        if self.k < 1:
            raise UserValueError.must("k", "be at least 1", self.k)

    def __str__(self) -> str:
        if self.start == "model":
            return "exact draws"
        return {"data": "cd", "other data": "cd from other rows", "persistent": "pcd"}[self.start] + f"-{self.k}"


@dataclass(frozen=True)
class GradientMoments:
    """Mean and variance of one estimator of the gradient of the mean log-likelihood.

    Attributes
    ----------
    estimator : ChainEstimator
    exact, bias, variance : mapping of parameter to array
        The exact gradient, what the mean of the estimator is off by, and the variance of each component.
    trace : float
        Sum of the variances: trace of the covariance.
    negative_trace : float
        The same of the negative phase alone.
    """

    estimator: ChainEstimator
    exact: Mapping[str, Matrix]
    bias: Mapping[str, Matrix]
    variance: Mapping[str, Matrix]
    trace: float
    negative_trace: float

    @property
    def bias_norm(self) -> float:
        """Euclidean norm of the bias over all parameters."""
        return float(np.sqrt(sum(float((one**2).sum()) for one in self.bias.values())))

    @property
    def exact_norm(self) -> float:
        """That of the exact gradient."""
        return float(np.sqrt(sum(float((one**2).sum()) for one in self.exact.values())))

    def __str__(self) -> str:
        return (
            f"{self.estimator}: bias {self.bias_norm:.4g} of a gradient of {self.exact_norm:.4g}, variance "
            f"{self.trace:.6g} (negative phase alone {self.negative_trace:.6g})"
        )


def gradient_bias_variance(
    model: Any,
    X: ArrayLike | None = None,
    estimators: Sequence[ChainEstimator] = (
        ChainEstimator("model"),
        ChainEstimator("data"),
        ChainEstimator("other data"),
        ChainEstimator("persistent"),
    ),
    *,
    weight: ArrayLike | None = None,
    pairs: int = 1,
) -> list[GradientMoments]:
    r"""Compare estimators of the gradient of the mean log-likelihood at fixed parameters, without drawing anything.

    The gradient of a pair is :math:`s(v^+) - s(v^-)` with :math:`s(v) = -\partial F(v) / \partial\theta`, the hidden
    units at their conditional means in both phases. The law of the pair is enumerated with the transition matrix of the
    Gibbs chain, so that bias and covariance are exact.

    Parameters
    ----------
    model : machine of two layers of 0 and 1, or fitted system
        At most 12 units in each layer.
    X : array of shape (n, d), optional
        Rows of 0 and 1, the data. Where left out, the data are distributed as the model.
    estimators : sequence of ChainEstimator
    weight : array of shape (n,), optional
        Of the rows, >= 0.
    pairs : int in [1, inf), default 1
        Pairs of a positive and a negative state in the mean: a batch. They are independent but for the negative states
        of persistent chains, which are successive states of one chain.

    Returns
    -------
    list of GradientMoments

    Raises
    ------
    UserValueError, UserTypeError
        A machine that is too large or of other units; rows that are not 0 and 1.

    Notes
    -----
    Variances of estimators do not come in a fixed order: contrastive divergence is often below exact draws, since both
    phases share a row, but not always. Cost O(4^d) memory, O(4^d k) time, d the visible units.

    References
    ----------
    Goodfellow, Bengio and Courville (2016), section 18.2; Marlin, Swersky, Chen and de Freitas (2010).

    Examples
    --------
    >>> import gnomon
    >>> rbm = gnomon.RBM(n_hidden=2, epochs=2, random_state=0).fit([[1, 0, 1], [0, 1, 0]])
    >>> exact, cd, *_ = gradient_bias_variance(rbm, [[1, 0, 1], [0, 1, 0]])
    >>> exact.bias_norm < 1e-12 < cd.bias_norm
    True
    """
    model = getattr(model, "model_", model)
    visible = _visible(model)
    if pairs < 1:
        raise UserValueError.must("pairs", "be at least 1", pairs)
    table = _Table(model, visible)
    data = table.distribution if X is None else _frequencies(X, weight, model.sizes[visible])
    return [_moments(table, data, one, pairs) for one in estimators]


class _Table:
    """The law of the rows, the kernel of the chain on them, and the statistics of each."""

    def __init__(self, model: Any, visible: str) -> None:
        rows = convert(states(model.sizes[visible]), prototype(model))
        minus_energy = -to_numpy(model.marginal_energy({visible: rows})).astype(np.float64)
        distribution = np.exp(minus_energy - minus_energy.max())
        self.distribution = distribution / distribution.sum()
        self.kernel = block_kernel(model, visible)
        one = np.ones(1)
        found = [model.marginal_gradient({visible: rows[i : i + 1]}, convert(one, rows)) for i in range(len(rows))]
        self.shapes = {name: np.shape(to_numpy(value)) for name, value in found[0].items()}
        self.statistics = -np.array(
            [np.concatenate([to_numpy(value).reshape(-1) for value in one.values()]) for one in found], np.float64
        )

    def named(self, flat: Matrix) -> dict[str, Matrix]:
        """A vector by parameter."""
        cuts = np.cumsum([int(np.prod(shape)) for shape in self.shapes.values()])[:-1]
        parts = zip(self.shapes.items(), np.split(flat, cuts), strict=True)
        return {name: part.reshape(shape) for (name, shape), part in parts}


def _visible(model: Any) -> str:
    if len(getattr(model, "blocks", ())) != 2 or not hasattr(model, "marginal_gradient"):
        raise UserTypeError(
            f"model must be a machine of two layers, got {type(model).__name__}", "model", "give an rbm, say"
        )
    if any(getattr(one, "values", (0, 1)) != (0, 1) or one.n_states != 2**one.size for one in model.units.values()):
        raise UserTypeError("the machine's units must be 0 and 1", "model", "give an rbm, say")
    if max(model.sizes.values()) > LARGEST:
        what = f"layers must have at most {LARGEST} units to be enumerated, got {dict(model.sizes)}"
        raise UserValueError(what, "model", "use a smaller machine")
    return observed_block(model)


def _frequencies(X: ArrayLike, weight: ArrayLike | None, d: int) -> Matrix:
    rows = np.asarray(X, np.float64)
    if rows.ndim != 2 or rows.shape[1] != d or not len(rows) or not np.isin(rows, (0, 1)).all():
        what = f"X must be rows of {d} columns of 0 and 1, got shape {rows.shape}"
        raise UserValueError(what, "X", "binarize the data")
    share = np.ones(len(rows)) if weight is None else np.asarray(weight, np.float64)
    if share.shape != (len(rows),) or not (np.isfinite(share) & (share >= 0)).all() or not share.sum() > 0:
        raise UserValueError("weight must be a number of at least 0 for each row, not all 0", "weight")
    numbers = (rows @ 2.0 ** np.arange(d - 1, -1, -1)).astype(np.int64)
    return np.asarray(np.bincount(numbers, share, minlength=1 << d) / share.sum())


def _moments(table: _Table, data: Matrix, estimator: ChainEstimator, pairs: int) -> GradientMoments:
    s = table.statistics
    walked = np.linalg.matrix_power(table.kernel, estimator.k)
    shared = estimator.start == "data"
    distribution = table.distribution if estimator.start in ("model", "persistent") else walked @ data
    positive, negative = s.T @ data, s.T @ distribution
    apart, far = _variance(s, data, positive), _variance(s, distribution, negative) / pairs
    if estimator.start == "persistent":
        far = _successive(s, distribution, negative, walked, pairs)
    total = apart / pairs + far
    if shared:  # the two phases covary: the negative one is k steps from the positive one
        total = total - 2 * ((s - positive) * (walked.T @ (s - negative)) * data[:, None]).sum(0) / pairs
    exact = positive - s.T @ table.distribution
    return GradientMoments(
        estimator, table.named(exact), table.named(positive - negative - exact), table.named(total),
        float(total.sum()), float(far.sum()),
    )  # fmt: skip


def _variance(s: Matrix, distribution: Matrix, mean: Matrix) -> Matrix:
    return np.asarray(distribution @ (s - mean) ** 2)


def _successive(s: Matrix, distribution: Matrix, mean: Matrix, kernel: Matrix, n: int) -> Matrix:
    """Variance of the mean of n successive states of a stationary chain: sum over lags of the autocovariance."""
    centered = s - mean
    found = sum(
        ((n - lag) * (1 if lag == 0 else 2)) * (distribution[:, None] * centered * later).sum(0)
        for lag, later in enumerate(_expected_later(centered, kernel, n))
    )
    return np.asarray(found / n**2)


def _expected_later(centered: Matrix, kernel: Matrix, n: int) -> Iterator[Matrix]:
    """E[statistic after so many steps | where the chain is], for 0, ..., n - 1 steps."""
    for _ in range(n):
        yield centered
        centered = kernel.T @ centered
