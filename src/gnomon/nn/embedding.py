"""Embedding: a vector for each id, looked up or summed over a bag of ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import nn

from gnomon.contracts import Noise
from gnomon.errors import UserValueError

__all__ = ["Embedding", "TiedHead"]


class Embedding(nn.Module):
    r"""Vectors of ids: the first layer of a network on words, :math:`h = W^T x` without the product.

    `forward` takes one-hot x by their ids; `bag` takes bags of words, :math:`h = \sum_i x_i W_i`.

    Parameters
    ----------
    n_ids, width : int >= 1
    padding : int, optional
        An id whose vector is 0 and stays so.
    dtype : torch.dtype, optional

    Notes
    -----
    Only the vectors of ids that occur get a gradient other than 0. All vectors are 0 until `initialize`.

    Examples
    --------
    >>> layer = Embedding.from_pretrained(np.array([[1.0, 0.0], [0.0, 2.0]]))
    >>> layer(torch.tensor([1, 0])).tolist(), layer.bag(torch.tensor([[0, 1, 1]])).tolist()
    ([[0.0, 2.0], [1.0, 0.0]], [[1.0, 4.0]])
    """

    def __init__(self, n_ids: int, width: int, *, padding: int | None = None, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_ids, width, dtype=dtype))
        self.padding = padding

    def initialize(self, noise: Noise) -> None:
        """Standard normal vectors over the root of their width: of length 1 on average."""
        with torch.no_grad():
            drawn = noise.normal(tuple(self.weight.shape), like=self.weight.detach())
            self.weight.copy_(drawn / self.weight.shape[1] ** 0.5)
            if self.padding is not None:
                self.weight[self.padding] = 0

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Vectors (..., width) of ids of any shape.

        Raises
        ------
        UserValueError
            On the CPU, an id outside [0, n_ids).
        """
        try:
            return nn.functional.embedding(ids, self.weight, self.padding)
        except IndexError:
            n_ids = len(self.weight)
            wrong = int(ids[(ids < 0) | (ids >= n_ids)][0])
            raise UserValueError.must("ids", f"be in [0, {n_ids})", wrong) from None

    def bag(
        self, ids: torch.Tensor, mask: torch.Tensor | None = None, mode: Literal["sum", "mean"] = "sum"
    ) -> torch.Tensor:
        """Sum or mean of the vectors of each row of ids, (n, width).

        Parameters
        ----------
        ids : int64 tensor of shape (n, T)
        mask : bool tensor of shape (n, T), optional
            False for padding. The padding id is left out anyhow.
        mode : {"sum", "mean"}, default "sum"
            A mean of nothing is 0.
        """
        kept = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
        if self.padding is not None:
            kept = kept & (ids != self.padding)
        total = (self(ids) * kept[..., None]).sum(1)
        return total if mode == "sum" else total / kept.sum(1, keepdim=True).clamp(min=1)

    @classmethod
    def from_pretrained(
        cls,
        vectors: Any,
        *,
        tokens: Sequence[str] | None = None,
        freeze: bool = False,
        padding: int | None = None,
        noise: Noise | None = None,
    ) -> Self:
        """The layer of vectors that were learned elsewhere, such as by word2vec or LSA.

        Parameters
        ----------
        vectors : array of shape (n_ids, width), or mapping from token to vector
        tokens : sequence of str, optional
            With a mapping: the token of each id.
        freeze : bool, default False
            Whether training leaves the vectors as they are.
        padding : int, optional
        noise : Noise, optional
            With a mapping: tokens that it has not are drawn with the mean length of the others; without it they are 0.

        Raises
        ------
        UserValueError
            A mapping without `tokens`, of which it has none, or vectors of different widths.
        """
        table = _table(vectors, tokens, noise) if isinstance(vectors, Mapping) else torch.from_numpy(np.array(vectors))
        if table.ndim != 2:
            raise UserValueError(f"vectors must have shape (ids, width), got {tuple(table.shape)}", "vectors", "")
        layer = cls(*table.shape, padding=padding, dtype=table.dtype)
        with torch.no_grad():
            layer.weight.copy_(table)
            if padding is not None:
                layer.weight[padding] = 0
        return layer.freeze(freeze)

    def freeze(self, frozen: bool = True) -> Self:
        """Whether training leaves the vectors as they are, from now on; the layer itself."""
        self.weight.requires_grad_(not frozen)
        return self

    def extra_repr(self) -> str:
        """Shown by repr."""
        return ", ".join(map(str, self.weight.shape))


def _table(vectors: Mapping[str, Any], tokens: Sequence[str] | None, noise: Noise | None) -> torch.Tensor:
    if tokens is None:
        raise UserValueError("vectors by token need the token of each id", "tokens", "give tokens")
    known = [(i, np.asarray(vectors[token])) for i, token in enumerate(tokens) if token in vectors]
    if not known:
        raise UserValueError("vectors must hold at least one of the tokens, got none", "vectors", "check the spelling")
    widths = {one.shape for _, one in known}
    if len(widths) > 1:
        raise UserValueError(f"vectors must be equally wide, got shapes {sorted(widths)}", "vectors", "")
    rows = np.stack([one for _, one in known])
    table = np.zeros((len(tokens), rows.shape[1]), rows.dtype)
    if noise is not None:
        length = np.sqrt(np.square(rows).sum(1).mean() / rows.shape[1])
        table[:] = length * np.asarray(noise.normal(table.shape, like=table))
    table[[i for i, _ in known]] = rows
    return torch.from_numpy(table)


class TiedHead(nn.Module):
    r"""Scores of ids as products with their embedding, :math:`s_j = W_j^T x + b_j`: one matrix for both.

    Parameters
    ----------
    embedding : Embedding
        Its vectors belong to the network that holds it; what is learned here are the biases.
    without : int
        An id that has no score, as the beginning of a text, which is never predicted.

    Notes
    -----
    The V - 1 scores stand in the order of the ids. Source: Press and Wolf (2017); Vaswani and others (2017).

    Examples
    --------
    >>> head = TiedHead(Embedding.from_pretrained(np.array([[1.0], [5.0], [3.0]])), without=1)
    >>> head(torch.tensor([[2.0]], dtype=torch.float64)).tolist()
    [[2.0, 6.0]]
    """

    def __init__(self, embedding: Embedding, without: int) -> None:
        super().__init__()
        self._embedding = (embedding,)  # in a tuple: its vectors are parameters of the network, once
        self.without = without
        self.bias = nn.Parameter(torch.zeros(len(embedding.weight) - 1, dtype=embedding.weight.dtype))

    @property
    def weight(self) -> torch.Tensor:
        """The vectors of the ids that have a score, (V - 1, width)."""
        rows = self._embedding[0].weight
        return torch.cat([rows[: self.without], rows[self.without + 1 :]])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores (..., V - 1) of what stands before them, (..., width)."""
        return nn.functional.linear(x, self.weight, self.bias)
