"""Conditional probability tables: a row of probabilities for each state of the columns before."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gnomon.contracts import Array
from gnomon.nn.likelihoods import Head
from gnomon.systems.autoregressive._base import ChainModel

__all__ = ["TableModel"]

SMALLEST = 1e-12
"""Probabilities that are counted as 0 stand for this, so that no row has probability 0."""


class TableModel(ChainModel):
    """A table of shape (K^t, K) for each place t, K the number of values: one below the other in `table`.

    Parameters
    ----------
    n_features : int
    head : Head
        Of columns with finitely many values.
    smoothing : float in [0, inf)
        Added to every count. With 0 a state that was not seen has equal shares.
    dtype : torch.dtype
    """

    table: torch.Tensor

    def __init__(self, n_features: int, head: Head, smoothing: float, dtype: torch.dtype) -> None:
        super().__init__(n_features, head, False, dtype)
        assert head.values is not None
        self.values, self.smoothing = head.values, smoothing
        powers = [self.values**t for t in range(n_features)]
        self.powers, self.starts = torch.tensor(powers), torch.tensor([0, *np.cumsum(powers)[:-1]])
        self.register_buffer("table", torch.full((sum(powers), self.values), 1 / self.values, dtype=dtype))

    @staticmethod
    def size(n_features: int, values: int) -> int:
        """Numbers of the tables of all places."""
        return sum(values ** (t + 1) for t in range(n_features))

    @property
    def n_parameters(self) -> int:
        """Free probabilities."""
        return len(self.table) * (self.values - 1)

    def _places(self, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Row of the table for each place, and the code there, (n, d) both."""
        codes = z.long()[:, self.order]
        parts = codes * self.powers.to(z.device)
        return parts.cumsum(1) - parts + self.starts.to(z.device), codes

    def _numbers_of(self, places: torch.Tensor) -> torch.Tensor:
        """The head's numbers of rows of the table, (..., width)."""
        log_p = self.table[places].clamp_min(SMALLEST).log()
        return log_p if self.head.width > 1 else log_p[..., 1:] - log_p[..., :1]

    def numbers(self, z: torch.Tensor) -> torch.Tensor:
        by_place = self._numbers_of(self._places(z)[0])
        return by_place[:, torch.argsort(self.order)].transpose(1, 2).flatten(1)

    def begin(self, n: int) -> torch.Tensor:
        return torch.zeros(n, dtype=torch.int64, device=self.device)

    def numbers_at(self, state: torch.Tensor, t: int) -> torch.Tensor:
        return self._numbers_of(state + int(self.starts[t]))

    def take(self, state: torch.Tensor, t: int, cells: torch.Tensor) -> torch.Tensor:
        return state + cells[:, 0].long() * int(self.powers[t])

    # --- the fit ------------------------------------------------------------------------------------------------------

    def moments(self, x: Array, weight: Array) -> dict[str, Array]:
        """How often each value was seen in each state of the columns before it."""
        rows, codes = self._places(torch.from_numpy(np.array(x)))
        cells = (rows * self.values + codes).numpy().ravel()
        weights = np.repeat(np.asarray(weight, np.float64), self.n_features)
        counts = np.bincount(cells, weights, minlength=self.table.numel())
        return {"counts": counts.reshape(self.table.shape), "weight": np.asarray(weight, np.float64).sum()}

    def solve(self, moments: dict[str, Any]) -> dict[str, float]:
        """Shares of the counts; the log-likelihood per row."""
        counts: NDArray[np.float64] = moments["counts"]
        smooth = counts + self.smoothing
        total = smooth.sum(1, keepdims=True)
        table = np.divide(smooth, total, out=np.full_like(smooth, 1 / self.values), where=total > 0)
        self.table.copy_(torch.from_numpy(table))
        likelihood = (counts * np.log(np.maximum(table, SMALLEST))).sum() / moments["weight"]
        return {"log_likelihood": float(likelihood)}
