"""Binary units of a layer, independent given the layer above, or each given those before it too.

Torch, without checks of values, since it stands in the hot loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn
from torch.nn import functional

from gnomon.contracts import Noise
from gnomon.recipes.recipe import Recipe

__all__ = ["Autoregressive", "Factorial", "InLayer", "Links", "LinkedBits"]

NUMBERS = 1 << 22
"""Numbers of a table that are looked at together."""


class LinkedBits:
    r"""Rows of binary units, :math:`p(x_j = 1 | x_{<j}) = \sigma(a_j + \sum_{i<j} U_{ji} x_i)`.

    Parameters
    ----------
    logits : tensor of shape (n, d)
        a: what comes from elsewhere.
    links : tensor of shape (d, d), optional
        U, 0 on and above its diagonal. Without it the units are independent.

    Examples
    --------
    >>> links = torch.tensor([[0.0, 0.0], [9.0, 0.0]])
    >>> bits = LinkedBits(torch.tensor([[0.0, -4.5]]), links)
    >>> bits.log_prob(torch.tensor([[1.0, 1.0]])).exp().item() > 0.49
    True
    """

    __slots__ = ("links", "logits")

    def __init__(self, logits: torch.Tensor, links: torch.Tensor | None = None) -> None:
        self.logits, self.links = logits, links

    def fields(self, x: torch.Tensor) -> torch.Tensor:
        """Log odds of each unit given those before it, shape (n, d)."""
        return self.logits if self.links is None else self.logits + x @ self.links.T

    def log_terms(self, x: torch.Tensor) -> torch.Tensor:
        """Log probability of each unit given those before it in nats, shape (n, d)."""
        field = self.fields(x)
        return x * field - functional.softplus(field)

    def log_prob(self, x: torch.Tensor) -> torch.Tensor:
        """Log probability of each row in nats, shape (n,)."""
        return self.log_terms(x).sum(-1)

    def sample(
        self, noise: Noise, draw: int = 0, *, draws: int = 1, held: tuple[torch.Tensor, torch.Tensor] | None = None
    ) -> torch.Tensor:
        """One draw for each row, without gradient.

        Parameters
        ----------
        noise : Noise
            Of n / draws rows: rows that stand beside each other share one, each with numbers of its own.
        draw : int, default 0
        draws : int, default 1
        held : (values, mask), optional
            Units that are not drawn where the mask is true; those after them are drawn given their values.
        """
        logits = self.logits.detach()
        n, d = logits.shape
        if self.links is None:
            bits: torch.Tensor = noise.bernoulli_logits(logits.reshape(n // draws, draws * d), draw).reshape(n, d)
            return bits if held is None else torch.where(held[1], held[0], bits)
        u = noise.uniform((n // draws, draws * d), draw, like=logits).reshape(n, d)
        links, x = self.links.detach(), torch.zeros_like(logits)
        for j in range(d):
            one = (u[:, j] < torch.sigmoid(logits[:, j] + x[:, :j] @ links[j, :j])).to(x.dtype)
            x[:, j] = one if held is None else torch.where(held[1][:, j], held[0][:, j], one)
        return x

    def table(self, x: torch.Tensor) -> torch.Tensor:
        """Log probability of each of m rows under each of the n distributions, shape (m, n)."""
        if self.links is None:
            return x @ self.logits.T - functional.softplus(self.logits).sum(1)
        step = max(1, NUMBERS // self.logits.numel())
        parts = []
        for some in torch.split(x, step):
            field = self.logits + (some @ self.links.T)[:, None]
            parts.append((some[:, None] * field - functional.softplus(field)).sum(-1))
        return torch.cat(parts)


class Links(nn.Module):
    """What a unit takes from those before it in its layer: d (d - 1) / 2 weights, all 0 at first.

    Parameters
    ----------
    d : int >= 1
    dtype : torch.dtype
    """

    def __init__(self, d: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.d = d
        self.weight = nn.Parameter(torch.zeros(d * (d - 1) // 2, dtype=dtype))

    def forward(self) -> torch.Tensor:
        """The weights as a matrix (d, d), 0 on and above its diagonal."""
        place = torch.tril_indices(self.d, self.d, -1, device=self.weight.device)
        return self.weight.new_zeros(self.d, self.d).index_put((place[0], place[1]), self.weight)


@dataclass(frozen=True)
class InLayer(Recipe):
    """Base of the recipes of how units of one layer depend on each other."""

    def build(self, d: int, dtype: torch.dtype) -> nn.Module | None:
        """The links within a layer of d units; None where there are none."""
        raise NotImplementedError


@dataclass(frozen=True)
class Factorial(InLayer):
    """Units that are independent given the layer that they hang on."""

    short: ClassVar[str] = "factorial"

    def build(self, d: int, dtype: torch.dtype) -> nn.Module | None:
        """None."""
        return None


@dataclass(frozen=True)
class Autoregressive(InLayer):
    """Each unit depends on those before it in its layer too. Layers are drawn unit by unit.

    Source: Gregor, Danihelka, Mnih, Blundell and Wierstra (2014); Frey (1998) for one layer.
    """

    short: ClassVar[str] = "autoregressive"

    def build(self, d: int, dtype: torch.dtype) -> nn.Module | None:
        """`Links`."""
        return Links(d, dtype)
