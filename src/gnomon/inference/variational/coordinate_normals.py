"""Normal factors beside a normal posterior: what mean field makes of correlated variables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.distributions.vectors import positive_definite
from gnomon.errors import UserValueError
from gnomon.inference.exact.linear_gaussian import LinearGaussian
from gnomon.inference.variational.coordinate_ascent import Rows, State
from gnomon.inference.variational.coordinate_posterior import BlockOfNormals
from gnomon.inference.variational.coordinate_tables import partition
from gnomon.numeric.given import checked, floats

__all__ = ["NormalFactors"]

Floats = NDArray[np.float64]


class NormalFactors:
    r"""The family ``q(h) = prod_B N(m_B, C_B)`` beside :math:`p(h, v) = p(v) N(h; P^{-1} r(v), P^{-1})`.

    .. math:: m_B \leftarrow P_{BB}^{-1} (r_B - P_{B,-B} m_{-B}), \qquad C_B = P_{BB}^{-1}

    The means of a fixed point are exact. The variances are those of each block given the others, too small where it is
    correlated with them, and do not depend on where the ascent is; they are the optimum and must not be mended. An
    error shrinks per cycle by a factor that tends to 1 as the correlations do.

    Parameters
    ----------
    precision : array of shape (d, d)
        P, positive definite.
    shift : array of shape (rows, d)
        r, P times the mean.
    log_evidence : float or array of shape (rows,), default 0
        log p(v) in nats, by which the bound is moved.
    names : sequence of str, optional
        ``h1``, ``h2`` ... by default.
    blocks : sequence of names or sequences of names, optional
        Variables that keep their correlations; each by itself by default.

    Raises
    ------
    UserValueError
        Shapes that do not go together, a matrix that is not positive definite.

    Notes
    -----
    Cost of a cycle O(rows d^2). Source: Bishop (2006), section 10.1.2.

    Examples
    --------
    >>> from gnomon.inference.variational.coordinate_ascent import coordinate_ascent
    >>> family = NormalFactors.of(LinearGaussian([[1.0, 2.0]]), [[3.0]])
    >>> found = coordinate_ascent(family, max_iter=2)
    >>> [float(family.mean(found.state)[0, i].round(6)) for i in (0, 1)], family.variances().round(6).tolist()
    ([0.9, 0.84], [0.5, 0.2])
    """

    mixes = True

    @checked
    def __init__(
        self, precision: ArrayLike, shift: ArrayLike, log_evidence: ArrayLike = 0.0, *,
        names: Sequence[str] | None = None, blocks: Sequence[Any] | None = None,
    ) -> None:  # fmt: skip
        self.precision = positive_definite(precision, "precision")
        d = len(self.precision)
        self.shift = floats(shift, "shift")
        if self.shift.ndim != 2 or self.shift.shape[1] != d or not np.isfinite(self.shift).all():
            raise UserValueError.must("shift", f"be finite rows of {d} numbers", self.shift)
        self.n_rows = len(self.shift)
        self.names = tuple(f"h{i + 1}" for i in range(d)) if names is None else tuple(map(str, names))
        if len(self.names) != d or len(set(self.names)) != d:
            raise UserValueError.must("names", f"be {d} different names", list(self.names))
        evidence = floats(log_evidence, "log_evidence")
        if evidence.shape not in ((), (self.n_rows,)):
            raise UserValueError.must("log_evidence", "be a number, or one for each row", evidence)
        groups = partition(self.names, blocks)
        self.groups = {",".join(group): np.array([self.names.index(name) for name in group]) for group in groups}
        self.blocks: tuple[str, ...] = tuple(self.groups)
        self.covariances = {
            block: np.linalg.inv(self.precision[np.ix_(at, at)]) for block, at in self.groups.items()
        }  # fmt: skip
        self._exact = np.linalg.solve(self.precision, self.shift.T).T
        spread = sum(np.linalg.slogdet(one)[1] for one in self.covariances.values())
        self._height = 0.5 * float(np.linalg.slogdet(self.precision)[1]) - 0.5 * d * math.log(2 * math.pi)
        """Log density of the posterior at its mode."""
        gap = -0.5 * (np.linalg.slogdet(self.precision)[1] + spread)
        self._evidence = np.broadcast_to(evidence, (self.n_rows,))
        self._best = np.broadcast_to(evidence - gap, (self.n_rows,))
        """The bound at the exact means: the evidence less what the lost correlations cost."""

    @classmethod
    @checked
    def of(cls, model: LinearGaussian, v: ArrayLike, *, blocks: Sequence[Any] | None = None) -> NormalFactors:
        """Of the hidden variables of a linear-Gaussian model, given rows v (rows, d)."""
        mean, covariance = model.posterior(floats(v, "v"))
        precision = np.linalg.inv(np.asarray(covariance))
        evidence = np.asarray(model.log_prob(floats(v, "v")))
        return cls((precision + precision.T) / 2, np.asarray(mean) @ precision, evidence, blocks=blocks)

    def start(self) -> State:
        """Means of 0."""
        return {block: np.zeros((self.n_rows, len(at))) for block, at in self.groups.items()}

    def update(self, block: str, state: State, rows: Rows) -> Floats:
        """The means of a block given those of the others."""
        at, mean = self.groups[block], self.mean(state)
        rest = self.shift[rows][:, at] - mean @ self.precision[:, at]
        return np.asarray(state[block] + rest @ self.covariances[block])

    def elbo(self, state: State, rows: Rows) -> Floats:
        """log p(v) - KL(q || p(h | v))."""
        off = self.mean(state) - self._exact[rows]
        return np.asarray(self._best[rows] - 0.5 * ((off @ self.precision) * off).sum(1))

    def residual(self, state: State, rows: Rows) -> Floats:
        """Largest ``|dL / dm|``."""
        return np.asarray(np.abs(self.shift[rows] - self.mean(state) @ self.precision).max(1))

    def parts(self, state: State) -> list[BlockOfNormals]:
        """The blocks as distributions; of several rows each variable's numbers are ``h1[0]``, ``h1[1]``, ..."""
        found = []
        for r in range(self.n_rows):
            for block, at in self.groups.items():
                names = [self.names[i] if self.n_rows == 1 else f"{self.names[i]}[{r}]" for i in at]
                found.append(BlockOfNormals(names, state[block][r], self.covariances[block]))
        return found

    def log_joint_at(self, numbers: Mapping[str, Floats]) -> Floats | None:
        """log p(v, h) at values of the only row's variables; None of several rows."""
        if self.n_rows > 1:
            return None
        off = np.stack([numbers[name] for name in self.names], -1) - self._exact
        return np.asarray(self._evidence[0] + self._height - 0.5 * ((off @ self.precision) * off).sum(1))

    def mode(self) -> tuple[dict[str, Floats], Floats, bool]:
        """The most probable values, which are the exact means, and their log joint; of real numbers.

        Of one row they are numbers, of several arrays (rows,).
        """
        shape = () if self.n_rows == 1 else (self.n_rows,)
        found = {name: column.reshape(shape) for name, column in zip(self.names, self._exact.T, strict=True)}
        return found, (self._evidence + self._height).reshape(shape), False

    def mean(self, state: State) -> Floats:
        """All means in the order of the names, (rows, d)."""
        found = np.empty((len(next(iter(state.values()))), len(self.names)))
        for block, at in self.groups.items():
            found[:, at] = state[block]
        return found

    def variances(self) -> Floats:
        """Of each variable under q, (d,)."""
        found = np.empty(len(self.names))
        for block, at in self.groups.items():
            found[at] = self.covariances[block].diagonal()
        return found

    def entropy(self) -> float:
        """H(q) in nats, whatever the means."""
        d = len(self.names)
        spread = sum(float(np.linalg.slogdet(one)[1]) for one in self.covariances.values())
        return 0.5 * (d * (1 + math.log(2 * math.pi)) + spread)
