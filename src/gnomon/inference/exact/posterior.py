"""Exact posteriors of small discrete latents by enumeration: the reference for every approximate method."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Array, HasBlocks, Noise
from gnomon.distributions.conditional import draw_codes, running_sums
from gnomon.distributions.family import uniform
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.arrays import convert, prototype, to_numpy
from gnomon.numeric.given import affordable, checked, numbers, whole
from gnomon.numeric.ops import logsumexp
from gnomon.numeric.tensors import is_tensor

__all__ = ["ExactPosterior", "codes", "log_weights"]

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

_PAIRS = 1 << 18
"""Pairs of an observation and a state that the model is asked about at once."""


def codes(numbers: ArrayLike, sizes: Sequence[int]) -> Codes:
    """States by number in lexicographic order, the first variable the most significant: shape (n, variables).

    Examples
    --------
    >>> codes([0, 1, 5], (2, 3)).tolist()
    [[0, 0], [0, 1], [1, 2]]
    """
    rest = whole(numbers, "numbers")
    found = np.empty((rest.size, len(sizes)), np.int64)
    for j in range(len(sizes) - 1, -1, -1):
        rest, found[:, j] = np.divmod(rest, sizes[j])
    return found


class ExactPosterior:
    """p(h | v) of discrete latents, ``p(h | v) = p(h, v) / sum over h of p(h, v)``, all states of h visited.

    Parameters
    ----------
    log_joint : callable, or object with ``log_joint``
        ``(v, h) -> (rows,)``, log p(h, v) in nats, -inf where it is 0; v (rows, ...) and h (rows, latents) row by row.
    sizes : int or sequence of int
        Number of binary latents, whose values are 0 and 1, or of values 0, 1, ... of each latent.
    limit : int, default 2^20
        States of h.
    log_partition : float, default 0
        log Z in nats, for a joint that is not normalized; it moves `log_evidence` alone.

    Raises
    ------
    UserValueError
        More states than `limit`, with the cost; an observation of probability 0.

    Notes
    -----
    Cost: rows times states evaluations of the joint, in bounded memory. Where the posterior graph is sparse,
    `gnomon.inference.exact.elimination` is cheaper by orders.

    Examples
    --------
    >>> def log_joint(v, h):  # a fair coin h, and v = h but for one flip in ten
    ...     return np.log(0.5) + np.log(np.where(v[:, 0] == h[:, 0], 0.9, 0.1))
    >>> engine = ExactPosterior(log_joint, 1)
    >>> engine.posterior([[1.0]]).round(6).tolist(), engine.mean([[1.0]]).round(6).tolist()
    ([[0.1, 0.9]], [[0.9]])
    """

    @checked
    def __init__(
        self, log_joint: Any, sizes: int | Sequence[int], *, limit: int = 1 << 20, log_partition: float = 0.0
    ) -> None:
        self.log_joint: Callable[[Any, Array], Array] = getattr(log_joint, "log_joint", log_joint)
        if not callable(self.log_joint):
            name = type(log_joint).__name__
            raise UserTypeError(f"log_joint must be a function of (v, h), got a {name}", "log_joint")
        each = whole(sizes, "sizes")
        if each.ndim > 1 or (not each.ndim and not 0 <= each < 1 << 20):
            raise UserValueError.must("sizes", "be the number of values of each latent, or the number of latents", each)
        self.sizes = (2,) * int(each) if not each.ndim else tuple(each.tolist())
        if any(size < 1 for size in self.sizes):
            raise UserValueError(f"sizes must be at least 1, got {self.sizes}", "sizes")
        self.n_states = math.prod(self.sizes)
        self.limit, self.log_partition = limit, log_partition
        self._like = prototype(log_joint)
        if self.n_states > limit:
            raise UserValueError(
                f"{len(self.sizes)} latents have {_printed(self.n_states)} states: as many evaluations for each "
                f"observation and {_printed(8 * self.n_states)} bytes, above the limit of {limit}",
                remedy="use VariableElimination if their posterior graph is sparse, sample, or raise `limit`",
            )

    @classmethod
    @checked
    def of_blocks(
        cls, model: HasBlocks, observed: str = "visible", *, limit: int = 1 << 20, log_partition: float = 0.0
    ) -> ExactPosterior:
        """Of the binary units in all blocks but one; latents in the order of the model's blocks.

        Parameters
        ----------
        model : HasBlocks
            Its joint energy is used alone. `log_evidence` is up to log Z unless `log_partition` says it.
        observed : str, default "visible"
            The block that is observed.
        """
        if observed not in model.blocks:
            raise UserValueError(f"block {observed!r} is unknown", "observed", "use one of " + ", ".join(model.blocks))
        hidden = [block for block in model.blocks if block != observed]
        cuts = np.cumsum([0, *(model.sizes[block] for block in hidden)]).tolist()

        def log_joint(v: Array, h: Array) -> Array:
            parts = {block: h[:, cuts[i] : cuts[i + 1]] for i, block in enumerate(hidden)}
            return -model.joint_energy({observed: v, **parts})

        engine = cls(log_joint, cuts[-1], limit=limit, log_partition=log_partition)
        engine._like = prototype(model)
        return engine

    def states(self) -> Codes:
        """All states of the latents, in the order of `posterior`'s columns: shape (states, latents)."""
        affordable(self.n_states * max(1, len(self.sizes)), "sizes", "ask for marginals")
        return codes(np.arange(self.n_states), self.sizes)

    def log_evidence(self, v: Array) -> Floats:
        """Log p(v) in nats of each observation, shape (rows,)."""
        return np.concatenate([logsumexp(table, 1) for table in self._tables(v)]) - self.log_partition

    def posterior(self, v: Array) -> Floats:
        """p(h | v) of every state, shape (rows, states), states in lexicographic order.

        Raises
        ------
        UserValueError
            More than 8 times `limit` numbers.
        """
        v = self._placed(v)
        if len(v) * self.n_states > 8 * self.limit:
            what = f"{len(v)} tables of {self.n_states} states take {8 * len(v) * self.n_states:.2g} bytes"
            raise UserValueError(what, "v", "ask for marginals, or for fewer rows at once")
        return np.concatenate([_normalized(table) for table in self._tables(v)])

    def marginals(self, v: Array) -> tuple[Floats, ...]:
        """p(h_j | v) of every latent: arrays of shape (rows, values of h_j)."""
        parts = []
        for table in self._tables(v):
            p = _normalized(table)
            shapes = [(len(p), math.prod(self.sizes[:j]), k, -1) for j, k in enumerate(self.sizes)]
            parts.append([p.reshape(shape).sum((1, 3)) for shape in shapes])
        return tuple(np.concatenate(part) for part in zip(*parts, strict=True))

    def mean(self, v: Array) -> Floats:
        """E[h | v], shape (rows, latents): of binary latents the chance that they are 1."""
        means = [p @ np.arange(p.shape[1]) for p in self.marginals(v)]
        return np.stack(means, 1) if means else np.zeros((len(v), 0))

    def mode(self, v: Array) -> Codes:
        """The most probable state of each observation, the first of equals: shape (rows, latents)."""
        best = np.concatenate([table.argmax(1) for table in self._tables(v)])
        return codes(best, self.sizes)

    @checked
    def sample_posterior(self, v: Array, n: int, noise: Noise) -> Codes:
        """n independent exact draws of h for each observation, by inversion: shape (rows, n, latents).

        Parameters
        ----------
        v : array of shape (rows, ...)
        n : int, at least 0
        noise : Noise
            The draws of row i use position i.
        """
        v = self._placed(v)
        u = uniform(noise, (len(v), n), 0)
        parts, done = [np.empty((0, n), np.int64)], 0
        for table in self._tables(v):
            rows = np.arange(len(table))[:, None]
            parts.append(draw_codes(running_sums(_normalized(table)), (rows,), u[done : done + len(table)]))
            done += len(table)
        return codes(np.concatenate(parts).ravel(), self.sizes).reshape(len(v), n, len(self.sizes))

    def _tables(self, v: Array) -> Iterator[Floats]:
        """log p(h, v) for some rows at a time, shape (rows, states)."""
        v = self._placed(v)
        rows = max(1, _PAIRS // self.n_states)
        width = min(self.n_states, _PAIRS)
        for start in range(0, len(v), rows):
            part = v[start : start + rows]
            table = np.empty((len(part), self.n_states))
            for first in range(0, self.n_states, width):
                h = codes(np.arange(first, min(first + width, self.n_states)), self.sizes)
                table[:, first : first + len(h)] = self._pairs(part, h)
            gone = np.flatnonzero(table.max(1) == -math.inf)
            if gone.size:
                row = f"row {start + gone[0]}"
                raise UserValueError("the observation has probability 0 under every state", row, "check the data")
            yield table

    def _pairs(self, v: Array, h: Codes) -> Floats:
        """The joint of every row with every state, (rows, states)."""
        left, right = np.repeat(np.arange(len(v)), len(h)), np.tile(np.arange(len(h)), len(v))
        latents = convert(h[right].astype(np.float64), v if is_tensor(v) else np.empty(0))
        return log_weights(self.log_joint(v[left], latents), left.size).reshape(len(v), len(h))

    def _placed(self, v: Array) -> Array:
        rows = v if is_tensor(v) else numbers(v, "v")
        if not rows.ndim or not len(rows):
            raise UserValueError.must("v", "have one row per observation, at least one", rows)
        return convert(rows, self._like) if is_tensor(self._like) and not is_tensor(rows) else rows


def log_weights(found: Array, n: int) -> Floats:
    """The log densities of n rows, checked: one number each, neither nan nor +inf."""
    result = to_numpy(found, "log density")
    if result.shape != (n,):
        what = f"the log density must return one number for each of the {n} rows, got shape {result.shape}"
        raise UserValueError(what, "log density", "sum over the other axes")
    if not (result < math.inf).all():
        raise UserValueError("the log density must be a number below +inf at every state", "log density")
    return result


def _normalized(table: Floats) -> Floats:
    p = np.exp(table - table.max(1, keepdims=True))
    return np.asarray(p / p.sum(1, keepdims=True), np.float64)


def _printed(count: int) -> str:
    return str(count) if count < 10_000 else f"{float(min(count, 10**300)):.3g}"
