"""Rows whose columns are of several kinds: a likelihood of each column's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from gnomon.contracts import Noise
from gnomon.distributions.mixed_table import MixedTable
from gnomon.nn.likelihoods import (
    ALL,
    BernoulliLikelihood,
    CategoricalLikelihood,
    GaussianLikelihood,
    Head,
    Likelihood,
)

__all__ = ["MixedLikelihood"]


@dataclass(frozen=True)
class MixedLikelihood(Likelihood):
    """Columns of several kinds, independent given z: normal, zeros and ones by log odds, codes by a softmax.

    Parameters
    ----------
    values : tuple of int in {0, 2, 3 ...}, default (0,)
        How many values each column has: 0 of real numbers, 2 of zeros and ones, n of codes 0 to n - 1. The last one
        holds for the columns behind it too: (3, 2, 0) is a column of three codes, one of bits, and real ones.
    variance : {"columns", "network"}, default "columns"
        Of real columns: learned, one for each, or one that the decoder answers beside the mean.
    floor : float in (0, inf), default 0.01
        Smallest standard deviation, in the units that real columns are brought to.
    """

    short: ClassVar[str] = "mixed"
    scales: ClassVar[bool] = True
    values: tuple[Annotated[int, "[0, inf)"], ...] = (0,)
    variance: Literal["columns", "network"] = "columns"
    floor: Annotated[float, "(0, inf)"] = 0.01

    @property
    def domain(self) -> Any:
        """Columns of these kinds."""
        return MixedTable(self.values)

    def build(self, columns: int, dtype: torch.dtype) -> Head:
        """The distribution."""
        values = MixedTable(self.values).of_columns(columns)
        heads = {int(n): self._kind(int(n)).build(int((values == n).sum()), dtype) for n in np.unique(values)}
        return _Mixed(values, heads)

    def _kind(self, n: int) -> Likelihood:
        if not n:
            return GaussianLikelihood(self.variance, floor=self.floor)
        return BernoulliLikelihood() if n == 2 else CategoricalLikelihood(n)


class _Mixed(Head):
    """Heads of the kinds of columns; those that need fewer numbers than the widest leave the last ones alone."""

    def __init__(self, values: NDArray[np.int64], heads: dict[int, Head]) -> None:
        super().__init__()
        self.counts = values
        self.kinds = nn.ModuleDict({str(n): head for n, head in heads.items()})
        self.width = max(head.width for head in heads.values())
        self.seen = max(head.seen for head in heads.values())
        self.own = np.empty(len(values), np.int64)
        for n in heads:
            self.own[values == n] = np.arange((values == n).sum())

    def states(self, columns: int) -> NDArray[np.float64]:
        return np.where(self.counts > 0, self.counts, np.inf)

    def used(self, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
        seen, width = torch.zeros(columns, self.seen, dtype=torch.bool), torch.zeros(self.width, columns).bool()
        for head, at, _ in self._parts(ALL):
            seen[at, : head.seen], width[: head.width, at] = True, True
        return seen, width

    def _parts(self, at: slice) -> Iterator[tuple[Any, Any, Any]]:
        """Each kind's head, the places of its columns among those `at`, and their numbers within the kind."""
        counts, own = self.counts[at], self.own[at]
        for n, head in self.kinds.items():
            here = np.flatnonzero(counts == int(n))
            if len(here):
                yield head, torch.from_numpy(here), torch.from_numpy(own[here])

    def _split(self, raw: torch.Tensor, at: slice) -> Iterator[tuple[Any, Any, torch.Tensor, Any]]:
        """Beside the same the numbers that are answered."""
        by_column = raw.reshape(len(raw), self.width, raw.shape[1] // self.width)
        for head, here, own in self._parts(at):
            yield head, here, by_column[:, : head.width, here].flatten(1), own

    def begin(self, X: Any, weight: Any) -> None:
        for head, at, _ in self._parts(ALL):
            head.begin(np.asarray(X)[:, at.numpy()], weight)

    def inputs(self, x: torch.Tensor, at: slice = ALL) -> torch.Tensor:
        found = x.new_zeros((*x.shape, self.seen))
        for head, here, _ in self._parts(at):
            found[:, here, : head.seen] = head.inputs(x[:, here]).reshape(len(x), len(here), head.seen)
        return found.flatten(1)

    def mean_inputs(self, raw: torch.Tensor, at: slice = ALL) -> torch.Tensor:
        found = raw.new_zeros((len(raw), raw.shape[1] // self.width, self.seen))
        for head, here, numbers, own in self._split(raw, at):
            found[:, here, : head.seen] = head.mean_inputs(numbers, own).reshape(len(raw), len(here), head.seen)
        return found.flatten(1)

    def log_probs(self, raw: torch.Tensor, x: torch.Tensor, at: slice = ALL) -> torch.Tensor:
        found = torch.empty_like(x)
        for head, here, numbers, own in self._split(raw, at):
            found[:, here] = head.log_probs(numbers, x[:, here], own)
        return found

    def mean(self, raw: torch.Tensor, at: slice = ALL) -> torch.Tensor:
        found = raw.new_empty((len(raw), raw.shape[1] // self.width))
        for head, here, numbers, own in self._split(raw, at):
            found[:, here] = head.mean(numbers, own)
        return found

    def sample(self, raw: torch.Tensor, noise: Noise, at: slice = ALL) -> torch.Tensor:
        found = raw.new_empty((len(raw), raw.shape[1] // self.width))
        for k, (head, here, numbers, own) in enumerate(self._split(raw.detach(), at)):
            found[:, here] = head.sample(numbers, noise.child(f"kind/{k}"), own).detach()
        return found

    def distribution(self, raw: torch.Tensor, at: slice = ALL) -> Any:
        """Of columns of one kind its own; of several kinds the moments alone, nan where codes have none."""
        parts = list(self._split(raw, at))
        if len(parts) == 1:
            head, _, numbers, own = parts[0]
            return head.distribution(numbers, own)
        mean = raw.new_full((len(raw), raw.shape[1] // self.width), torch.nan)
        variance = mean.clone()
        for head, here, numbers, own in parts:
            if not (head.values or 0) > 2:
                one = head.distribution(numbers, own)
                mean[:, here] = one.mean
                variance[:, here] = one.mean * (1 - one.mean) if head.values else one.variance
        return KindMoments(mean, variance)


class KindMoments(NamedTuple):
    """Means and variances of cells, tensors (n, d)."""

    mean: torch.Tensor
    variance: torch.Tensor
