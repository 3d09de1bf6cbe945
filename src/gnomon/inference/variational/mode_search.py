"""The most probable values of discrete latents that are too many to be listed: one latent after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, Noise
from gnomon.errors import UserValueError
from gnomon.inference.arrays import convert
from gnomon.inference.exact.posterior import log_weights
from gnomon.numeric.given import function, whole
from gnomon.numeric.tensors import is_tensor

__all__ = ["DiscreteLatents", "ModeSearch"]

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

PAIRS = 1 << 18
"""Pairs of a row and a state that the model is asked about at once."""


@dataclass(frozen=True)
class DiscreteLatents:
    """A joint of rows and of discrete latents, as many as there may be: none of it is visited here.

    Parameters
    ----------
    log_joint : callable
        ``(v, h) -> (rows,)``, log p(v, h) in nats, -inf where it is 0; v (rows, ...) and h (rows, latents) row by row.
    sizes : sequence of int
        Values 0, 1, ... of each latent.
    like : array or tensor, optional
        Of the kind, type and device that the joint computes in; float64 arrays by default.
    """

    log_joint: Callable[[Any, Array], Array]
    sizes: Sequence[int]
    like: Any = field(default_factory=lambda: np.empty(0), repr=False)

    def __post_init__(self) -> None:
        function(self.log_joint, "log_joint")
        sizes = whole(self.sizes, "sizes")
        if sizes.ndim != 1 or (sizes < 1).any():
            raise UserValueError.must("sizes", "be the number of values of each latent, at least 1", self.sizes)


class ModeSearch:
    r"""Iterated conditional modes: each latent in turn at its best value given the others, from several starts a row.

    .. math:: h_j \leftarrow \arg\max_{h_j} \log p(v, h)

    The joint never falls. It ends where no change of a single latent raises it, which need not be the highest: every
    row keeps the best of its own starts.

    Parameters
    ----------
    model : DiscreteLatents
    v : array of shape (rows, ...)
    starts : int >= 1
        Of each row; independent, every value alike.
    noise : Noise

    Notes
    -----
    Cost of a sweep: the joint at every value of every latent for each row and start. Source: Besag (1986), "On the
    statistical analysis of dirty pictures".

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> def log_joint(v, h):  # h is near v, and neighbors are alike
    ...     return -((v - h) ** 2).sum(1) - 0.1 * np.abs(np.diff(h, axis=1)).sum(1)
    >>> search = ModeSearch(DiscreteLatents(log_joint, (2,) * 40), np.ones((1, 40)), 4, Noise(0, "modes"))
    >>> while search.sweep():
    ...     pass
    >>> search.best()[0].sum()
    np.int64(40)
    """

    def __init__(self, model: DiscreteLatents, v: Array, starts: int, noise: Noise) -> None:
        self.model, self.starts, self.n_rows = model, starts, len(v)
        self.sizes: tuple[int, ...] = tuple(int(size) for size in model.sizes)
        rows = convert(v, model.like) if is_tensor(model.like) else v
        self.v = rows[np.repeat(np.arange(len(v)), starts)]
        u = np.asarray(noise.uniform((len(self.v), max(1, len(self.sizes))), like=np.empty(0)))
        self.codes: Codes = np.floor(u[:, : len(self.sizes)] * np.array(self.sizes)).astype(np.int64)
        self.log_p = self._at(np.arange(len(self.v)), self.codes)

    def sweep(self) -> bool:
        """Every latent once; whether anything has risen."""
        before = self.log_p.copy()
        for j, size in enumerate(self.sizes):
            for part in np.array_split(np.arange(len(self.v)), -(-len(self.v) * size // PAIRS)):
                self._renew(part, j, size)
        return bool((self.log_p > before).any())

    def _renew(self, rows: Codes, j: int, size: int) -> None:
        """Latent j of these rows at its best value; where it is among the best already it stays."""
        tried = np.repeat(self.codes[rows], size, axis=0)
        tried[:, j] = np.tile(np.arange(size), len(rows))
        found = self._at(np.repeat(rows, size), tried).reshape(len(rows), size)
        best = found.argmax(1)
        top = found[np.arange(len(rows)), best]
        up = top > self.log_p[rows]
        self.codes[rows[up], j] = best[up]
        self.log_p[rows[up]] = top[up]

    def best(self) -> tuple[Codes, Floats]:
        """The best codes of each row so far, (rows, latents), and their log joint."""
        table = self.log_p.reshape(self.n_rows, self.starts)
        at = table.argmax(1)
        chosen = np.arange(self.n_rows) * self.starts + at
        return self.codes[chosen], self.log_p[chosen]

    def _at(self, rows: Codes, codes: Codes) -> Floats:
        latents = convert(codes.astype(np.float64), self.v if is_tensor(self.v) else np.empty(0))
        return log_weights(self.model.log_joint(self.v[rows], latents), len(rows))
