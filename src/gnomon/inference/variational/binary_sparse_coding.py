"""Binary sparse coding: real rows as sums of components that are there or not, and their mean-field codes."""

from __future__ import annotations

from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit, xlogy

from gnomon.contracts import Noise
from gnomon.errors import UserValueError
from gnomon.inference.exact.posterior import ExactPosterior
from gnomon.inference.mcmc.site_updates import means_by_sites
from gnomon.numeric.given import checked, floats

__all__ = ["BinarySparseCoding", "CodeMoments", "SparseCodes"]

Floats = NDArray[np.float64]

FLOOR = 1e-6
"""Least share of rows that have a component, and least noise as a share of a column's mean square."""
LARGEST = 1e100
"""Size of a number in a row whose square is far from overflowing."""


class SparseCodes(NamedTuple):
    """What mean field says of rows.

    Attributes
    ----------
    means : array of shape (rows, m)
        Probabilities that a component is there, as of independent units.
    elbo : array of shape (rows,)
        Evidence lower bound, at most log p(v), in nats.
    residual : array of shape (rows,)
        Largest distance of a mean from its update.
    converged : array of shape (rows,)
        Whether that is at most the tolerance.
    sweeps : int
        Rounds of updates.
    """

    means: Floats
    elbo: Floats
    residual: Floats
    converged: NDArray[np.bool_]
    sweeps: int


class CodeMoments(NamedTuple):
    """What learning asks of codes.

    Attributes
    ----------
    means : array of shape (rows, m)
        E[h] of each row.
    second : array of shape (m, m)
        Sum over rows of E[h h^T].
    value : array of shape (rows,)
        log p(v) under posteriors, the evidence lower bound under mean field.
    """

    means: Floats
    second: Floats
    value: Floats


class BinarySparseCoding:
    r"""p(h_i = 1) = sigmoid(b_i) and :math:`p(v | h) = N(v; W h, \text{diag}(\beta)^{-1})`, with its parameters given.

    The components that explain a row compete: given the row they are no longer independent (explaining away), and the
    posterior has 2^m states. Mean field takes independent units of means :math:`\hat h` in its place,

    .. math:: \hat h_i = \text{sigmoid}\Bigl(b_i + v^T \beta W_i - \tfrac12 W_i^T \beta W_i - \sum_{j \ne i}
              W_j^T \beta W_i \hat h_j\Bigr),

    one unit after the other, so that none of the updates lowers the bound. A unit is driven by what the others leave
    of the row, and units of like columns of W inhibit each other.

    Parameters
    ----------
    W : array of shape (n, m)
        A component in each column.
    b : array of shape (m,) or float, default 0
        Log-odds of the components before a row is seen.
    beta : array of shape (n,) or float in (0, inf), default 1
        Precision of the noise of each column of a row.

    Raises
    ------
    UserValueError
        Shapes that do not go together, numbers that are not finite, precisions that are not positive.

    Notes
    -----
    Cost of a sweep O(rows m^2), beside O(n m^2) once for the Gram matrix. Where several sets of components explain a
    row alike mean field settles on one of them, by where it started, and the bound falls short by about the log of
    their number; the middle between them may be a saddle at which it stays. Exact codes of few components:
    ``gnomon.inference.exact.posterior.ExactPosterior(model.log_joint, m)``.

    References
    ----------
    Goodfellow, Bengio and Courville (2016), sections 19.4.1 and 13.4; Henniges, Puertas, Bornschein, Eggert and Lücke
    (2010), "Binary sparse coding".

    Examples
    --------
    >>> model = BinarySparseCoding([[1.0, 0.5], [0.0, 1.0]], b=[0.0, -1.0], beta=[1.0, 2.0])
    >>> found = model.infer([[1.0, 1.0]])
    >>> found.means.round(6).tolist(), found.elbo.round(6).tolist()
    ([[0.559242, 0.523827]], [-2.290007])
    """

    @checked
    def __init__(self, W: ArrayLike, b: ArrayLike = 0.0, beta: ArrayLike = 1.0) -> None:
        self.W = floats(W, "W")
        if self.W.ndim != 2 or not self.W.size or not np.isfinite(self.W).all():
            raise UserValueError(f"W must be a table of finite numbers, got shape {self.W.shape}", "W")
        n, m = self.W.shape
        self.b, self.beta = _spread(b, m, "b"), _spread(beta, n, "beta")
        if not (self.beta > 0).all():
            raise UserValueError.must("beta", "be positive", self.beta.min())
        with np.errstate(over="ignore", invalid="ignore"):
            gram = self.W.T @ (self.beta[:, None] * self.W)
        if not np.isfinite(gram).all():
            raise UserValueError("W and beta are so large that their products overflow", "W, beta", "scale them down")
        self._energy = np.diag(gram).copy()
        self._coupling = np.diag(self._energy) - gram
        """Minus what units of like components take from each other; 0 on the diagonal."""

    @property
    def latent_sizes(self) -> tuple[int, ...]:
        """Values of each component: 0 and 1."""
        return (2,) * len(self.b)

    def log_joint(self, v: ArrayLike, h: ArrayLike) -> Floats:
        """log p(v, h) of each row in nats, v (rows, n) and h of 0 and 1, (rows, m)."""
        rows = self._rows(v)
        states = self._means(h, "h", len(rows))
        if not ((states == 0) | (states == 1)).all():
            raise UserValueError("h must hold 0 and 1 alone", "h", "elbo takes means between them")
        left = rows - states @ self.W.T
        prior = states @ log_expit(self.b) + (1 - states) @ log_expit(-self.b)
        return np.asarray(prior + self._log_noise() - 0.5 * (left * left) @ self.beta)

    def elbo(self, v: ArrayLike, means: ArrayLike) -> Floats:
        """E_q[log p(v, h)] + H(q) of each row for independent units of these means, in nats, shape (rows,)."""
        rows = self._rows(v)
        q = self._means(means, "means", len(rows))
        left = rows - q @ self.W.T
        spread = (q * (1 - q)) @ self._energy  # of the sum of the components, weighted by the precisions
        prior = q @ log_expit(self.b) + (1 - q) @ log_expit(-self.b)
        entropy = -(xlogy(q, q) + xlogy(1 - q, 1 - q)).sum(-1)
        return np.asarray(prior + entropy + self._log_noise() - 0.5 * ((left * left) @ self.beta + spread))

    def update(self, v: ArrayLike, means: ArrayLike) -> Floats:
        """One sweep: the mean of each unit set to what it is given those of all the others, the first unit first."""
        rows = self._rows(v)
        q = np.array(np.broadcast_to(self._means(means, "means", len(rows)), (len(rows), len(self.b))))
        return np.asarray(means_by_sites(q, self.fields(rows, q), self._coupling, (0.0, 1.0)))

    def updates(self, v: ArrayLike, means: ArrayLike) -> Floats:
        """What the mean of each unit is given those of all the others, none of them moved: (rows, m)."""
        rows = self._rows(v)
        return np.asarray(expit(self.fields(rows, self._means(means, "means", len(rows)))))

    @checked
    def infer(self, v: ArrayLike, *, start: ArrayLike = 0.5, steps: int = 500, tol: float = 1e-10) -> SparseCodes:
        """Mean-field codes of rows.

        Parameters
        ----------
        v : array of shape (rows, n)
        start : array of shape (rows, m) or (m,), or float, in [0, 1], default 0.5
            Where the means begin; of several optima it decides which is found.
        steps : int, at least 0, default 500
            Sweeps at most.
        tol : float, at least 0, default 1e-10
            End when every mean is this near to its update.

        Raises
        ------
        UserValueError
            Rows of another length or that are not finite, starts outside [0, 1].
        """
        if steps < 0:
            raise UserValueError.must("steps", "be at least 0", steps)
        if tol < 0:
            raise UserValueError.must("tol", "be at least 0", tol)
        rows, m = self._rows(v), len(self.b)
        first = self._means(np.full(m, start) if np.ndim(start) == 0 else start, "start", len(rows))
        means, done = np.array(np.broadcast_to(first, (len(rows), m))), 0
        residual = self._residual(rows, means)
        while done < steps and (residual > tol).any():
            means, done = self.update(rows, means), done + 1
            residual = self._residual(rows, means)
        return SparseCodes(means, self.elbo(rows, means), residual, residual <= tol, done)

    def transform(self, v: ArrayLike, *, method: Literal["mean", "map"] = "mean") -> Floats:
        """Codes of rows.

        Parameters
        ----------
        v : array of shape (rows, n)
        method : {"mean", "map"}, default "mean"
            Mean-field means; or the most probable sets of components, exact, of which all 2^m are visited.

        Returns
        -------
        array of shape (rows, m)

        Raises
        ------
        UserValueError
            Another method, or ``map`` of more than 20 components.
        """
        if method not in ("mean", "map"):
            raise UserValueError.must("method", "be mean or map", method)
        if method == "mean":
            return self.infer(v).means
        return ExactPosterior(self.log_joint, len(self.b)).mode(self._rows(v)).astype(np.float64)

    # --- learning -----------------------------------------------------------------------------------------------------

    @classmethod
    def begin(cls, v: ArrayLike, noise: Noise, n_components: int = 2) -> Self:
        """A model to begin learning with: components at random, of the size of the rows, there or not alike."""
        rows = floats(v, "v")
        if rows.ndim != 2 or len(rows) < 2 or not np.isfinite(rows).all():
            raise UserValueError(f"v must be at least 2 finite rows, got shape {rows.shape}", "v")
        variance = np.maximum(rows.var(0), FLOOR * max(1.0, float((rows**2).mean())))
        directions = np.asarray(noise.normal((rows.shape[1], n_components), like=np.empty(0)))
        return cls(np.sqrt((rows**2).mean(0) + variance)[:, None] * directions, 0.0, 1 / variance)

    def posterior_moments(self, v: ArrayLike) -> CodeMoments:
        """Under the posteriors, all 2^m states visited."""
        rows, engine = self._rows(v), ExactPosterior(self.log_joint, len(self.b))
        p, states = engine.posterior(rows), engine.states().astype(np.float64)
        return CodeMoments(p @ states, states.T @ (p.sum(0)[:, None] * states), engine.log_evidence(rows))

    def mean_field_moments(self, v: ArrayLike, start: ArrayLike = 0.5) -> CodeMoments:
        """Under independent units, found by `infer` from these means on."""
        found = self.infer(v, start=start)
        q = found.means
        second = q.T @ q
        np.fill_diagonal(second, q.sum(0))
        return CodeMoments(q, second, found.elbo)

    def refitted(self, v: ArrayLike, moments: CodeMoments) -> Self:
        """The model of the parameters that are best for moments: a step of expectation maximization.

        A least-squares problem for W, the mean square of what is left for the noise (at least 10^-6 of the column's
        mean square), and the share of rows for each component (at least a millionth, so that no b is infinite).
        """
        rows, target = self._rows(v), moments.means.T @ self._rows(v)
        W = np.linalg.lstsq(moments.second, target, rcond=None)[0].T
        squares = (rows * rows).sum(0)
        left = squares - 2 * (W * target.T).sum(1) + ((W @ moments.second) * W).sum(1)
        share = np.clip(moments.means.mean(0), FLOOR, 1 - FLOOR)
        return type(self)(
            W, np.log(share / (1 - share)), len(rows) / np.maximum(left, FLOOR * np.maximum(squares, FLOOR))
        )

    def fields(self, rows: Floats, means: Floats) -> Floats:
        """Log-odds of each unit given the row and the means of the others."""
        return np.asarray(self.b + (rows * self.beta) @ self.W - 0.5 * self._energy + means @ self._coupling)

    def _residual(self, rows: Floats, means: Floats) -> Floats:
        return np.asarray(np.abs(self.updates(rows, means) - means).max(-1))

    def _log_noise(self) -> float:
        return 0.5 * float(np.log(self.beta / (2 * np.pi)).sum())

    def _rows(self, v: ArrayLike) -> Floats:
        rows, n = floats(v, "v"), len(self.beta)
        if rows.ndim != 2 or rows.shape[1] != n or not np.isfinite(rows).all():
            raise UserValueError(f"v must be finite rows of {n} numbers, got shape {rows.shape}", "v")
        if np.abs(rows).max(initial=0) > LARGEST:
            raise UserValueError(f"numbers in v must be at most {LARGEST:g} in size", "v", "scale the rows down")
        return rows

    def _means(self, given: ArrayLike, name: str, n_rows: int) -> Floats:
        """Numbers from 0 to 1 for each row, or for all rows alike."""
        means, m = floats(given, name), len(self.b)
        if not means.ndim or means.shape[-1] != m:
            raise UserValueError(f"{name} must have {m} columns, one for each component, got {means.shape}", name)
        if means.ndim > 2 or (means.ndim == 2 and len(means) not in (1, n_rows)):
            raise UserValueError(f"{name} must be of shape ({n_rows}, {m}) or ({m},), got {means.shape}", name)
        if not ((means >= 0) & (means <= 1)).all():
            raise UserValueError(f"{name} must be in [0, 1], got {means.min():.6g} to {means.max():.6g}", name)
        return means


def _spread(given: ArrayLike, size: int, name: str) -> Floats:
    """Finite numbers, one for each, or one for all."""
    values = floats(given, name)
    if values.shape not in ((), (size,)) or not np.isfinite(values).all():
        what = f"{name} must be {size} finite numbers, or one, got shape {values.shape}"
        raise UserValueError(what, name)
    return np.array(np.broadcast_to(values, (size,)))
