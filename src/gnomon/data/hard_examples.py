"""Mini-batches that take difficult examples more often, with weights that keep the gradient unbiased."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Array, Noise, State
from gnomon.errors import UserTypeError, UserValueError
from gnomon.numeric.given import affordable, checked, floats, numbers
from gnomon.recipes.parameters import check_parameters

__all__ = ["HardExamples"]

Floats = NDArray[np.float64]


class HardExamples:
    """Draws rows with replacement from ``q_i = (1 - e) s_i / sum s + e / N``, s the scores, e the uniform share.

    With the weights ``w_i = 1 / (N q_i)`` the mean of ``w_i g_i`` over a batch is an unbiased estimate of the mean g
    over all N rows, whatever the scores, be they stale or wrong: they decide its variance alone. That is least for
    scores in proportion to the norm of each row's gradient, which its loss or ``|p - y|`` of a softmax stands in for.
    The uniform share bounds the weights by 1 / e and lets no row be forgotten.

    Divide the weighted sum by the number of rows in the batch, not by the sum of the weights: that would be biased.
    Momentum and Adam take the weighted gradient as any other; Adam's second moment then is that of the weighted one.

    Parameters
    ----------
    n : int, in [1, inf)
        Rows of the data, N.
    uniform : float in (0, 1], default 0.1
        Share e of uniform draws; 1 is plain sampling with replacement. 0 would never look again at a row of score 0.
    score : float, in (0, inf), default 1
        What a row's score is before it is first updated.

    Notes
    -----
    Cost: O(log N) per draw, O(N) for the running sum after scores have changed.

    References
    ----------
    Zhao and Zhang (2015), "Stochastic optimization with importance sampling for regularized loss minimization";
    Katharopoulos and Fleuret (2018), "Not all samples are created equal: deep learning with importance sampling".

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> hard = HardExamples(4, uniform=0.2)
    >>> hard.update_scores([0, 1, 2, 3], [0.0, 1.0, 1.0, 8.0])
    >>> hard.probabilities.round(3).tolist()
    [0.05, 0.13, 0.13, 0.69]
    >>> rows, weights = hard.sample_batch(3, Noise(0, "fit").child("rows").at(17))
    >>> bool(np.allclose(weights, 1 / (4 * hard.probabilities[rows])))
    True
    """

    @checked
    def __init__(
        self, n: Annotated[int, "[1, inf)"], uniform: Annotated[float, "(0, 1]"] = 0.1, score: float = 1.0
    ) -> None:
        check_parameters(self, {"n": n, "uniform": uniform})
        if not 0 < score < np.inf:
            raise UserValueError(f"score must be finite and above 0, got {score}", "score")
        affordable(int(n), "n", "keep scores of fewer rows")
        self.n, self.uniform = int(n), float(uniform)
        self._scores: Floats = np.full(self.n, float(score))
        self._cached: tuple[Floats, Floats] | None = None

    @property
    def scores(self) -> Floats:
        """The score of each row, shape (n,); a copy."""
        return self._scores.copy()

    @property
    def probabilities(self) -> Floats:
        """q of each row, shape (n,); uniform while all scores are 0."""
        return self._distribution()[0].copy()

    @checked
    def sample_batch(
        self, size: int, noise: Noise, draw: int = 0, *, weighted: bool = True
    ) -> tuple[NDArray[np.int64], Floats]:
        """Rows of a batch and their weights; a row may come twice.

        Parameters
        ----------
        size : int, in [1, inf)
            Number of draws.
        noise : Noise
            Draw i uses the number of position i, so that processes can draw a part each.
        draw : int
            Call number within the step.
        weighted : bool, default True
            False: all weights 1. This minimizes another objective, ``sum_i q_i L_i``, in which hard rows count for
            more, and which changes with the scores.

        Returns
        -------
        rows : int64 array of shape (size,)
        weights : array of shape (size,)
            In (0, 1 / uniform].
        """
        if size < 1:
            raise UserValueError(f"size must be at least 1, got {size}", "size")
        affordable(size, "size", "take smaller batches")
        _, sums = self._distribution()
        u = noise.uniform((size,), draw, like=sums)
        rows = np.searchsorted(sums, u * sums[-1], side="right")
        rows = np.minimum(rows, self.n - 1).astype(np.int64)  # rounding may carry u to the end
        return rows, self.weights(rows) if weighted else np.ones(size)

    def weights(self, rows: ArrayLike) -> Floats:
        """``1 / (N q_i)`` of some rows by the scores of now: use those that `sample_batch` gave with the rows."""
        return 1 / (self.n * self._distribution()[0][self._checked(rows)])

    def update_scores(self, rows: ArrayLike, scores: Array) -> None:
        """Give rows new scores; of a row that comes twice the last one counts.

        Parameters
        ----------
        rows : int array of shape (k,)
            In [0, n).
        scores : array of shape (k,)
            Losses or gradient norms, in [0, inf).

        Raises
        ------
        UserValueError
            For a score that is negative or not finite, or an unknown row; then nothing is changed.
        """
        index = self._checked(rows)
        new = floats(scores, "scores")
        if new.shape != index.shape:
            raise UserValueError(f"scores must hold one per row, got shape {new.shape} for {index.shape}", "scores")
        _check_scores(new, index)
        self._scores[index] = new
        self._cached = None

    def state(self) -> dict[str, Any]:
        """The scores; n and the uniform share are the caller's."""
        return {"scores": self._scores.copy()}

    def load(self, state: State) -> None:
        """Go on from a state."""
        if not isinstance(state, Mapping) or "scores" not in state:
            raise UserTypeError("the state holds no scores", "state", "pass what state() gave")
        scores = floats(state["scores"], "scores").copy()
        if scores.shape != (self.n,):
            raise UserValueError(f"state must hold scores of {self.n} rows, got shape {scores.shape}", "state")
        _check_scores(scores, np.arange(self.n))
        self._scores, self._cached = scores, None

    def _distribution(self) -> tuple[Floats, Floats]:
        """Probabilities and their running sum, made anew after scores have changed."""
        if self._cached is None:
            largest = self._scores.max()
            if largest > 0:
                shares = self._scores / largest  # a sum of scores could overflow
                q = (1 - self.uniform) * shares / shares.sum() + self.uniform / self.n
            else:
                q = np.full(self.n, 1 / self.n)
            self._cached = q, np.cumsum(q)
        return self._cached

    def _checked(self, rows: ArrayLike) -> NDArray[np.int64]:
        index = numbers(rows, "rows")
        if index.ndim != 1 or (index.size and index.dtype.kind not in "iu"):
            what = f"rows must be whole numbers on one axis, got shape {index.shape} and type {index.dtype}"
            raise UserValueError(what, "rows")
        bad = np.flatnonzero((index < 0) | (index >= self.n))
        if bad.size:
            raise UserValueError(
                f"rows must be in [0, {self.n}), got {index[bad[0]]}", f"rows, entry {bad[0]}", "give rows"
            )
        return index.astype(np.int64)


def _check_scores(scores: Floats, rows: NDArray[np.int64]) -> None:
    bad = np.flatnonzero(~(np.isfinite(scores) & (scores >= 0)))
    if bad.size:
        raise UserValueError(f"a score must be finite and at least 0, got {scores[bad[0]]}", f"row {rows[bad[0]]}")
