"""Sums over all states of the layers of a belief net: a layer at a time, since a layer sees its neighbors alone."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from gnomon.distributions.posteriors import BitStates
from gnomon.inference.arrays import to_numpy
from gnomon.inference.exact.enumeration import states

if TYPE_CHECKING:
    from gnomon.systems.variational._belief_net import BeliefNetModel

__all__ = ["LayerSums", "summable"]

LOWEST, PAIR = 12, 20
"""Units of the lowest hidden layer, whose states stand beside each row; of two neighbors, with a table of both."""
NUMBERS = 1 << 23
"""Numbers of a table of rows by states that are looked at together."""


def summable(sizes: Sequence[int]) -> bool:
    """Whether hidden layers of these sizes, behind that of the rows, are summed out."""
    hidden = sizes[1:]
    return all(size <= LOWEST for size in hidden[:1]) and all(a + b <= PAIR for a, b in itertools.pairwise(hidden))


class LayerSums:
    r"""log p of every state of every hidden layer, :math:`p(h_k) = \sum_{h_{k+1}} p(h_k | h_{k+1}) p(h_{k+1})`.

    Cost: 2^(n_k + n_{k+1}) products for two neighboring layers, 2^(n_1) for a row.

    Parameters
    ----------
    model : BeliefNetModel
    """

    def __init__(self, model: BeliefNetModel) -> None:
        self.model = model
        like = model.biases[0]
        self.states = [torch.as_tensor(states(size)).to(like) for size in model.sizes[1:]]
        self.tables = [model.given(k, self.states[k]).table(self.states[k - 1]) for k in range(1, model.depth)]
        """Of layer k given the one above it, (states of the layer, states of the one above)."""
        self.marginals = [model.top(1).table(self.states[-1])[:, 0]] if model.depth else []
        for table in reversed(self.tables):
            self.marginals.insert(0, torch.logsumexp(table + self.marginals[0], 1))

    def log_prob(self, x: torch.Tensor) -> torch.Tensor:
        """Log p(x) in nats, shape (n,)."""
        if not self.model.depth:
            return self.model.top(len(x)).log_prob(x)
        return torch.cat([torch.logsumexp(joint, 1) for joint in self._joints(x)])

    def _joints(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Log p(x, h_1), (rows, states), of some rows at a time."""
        below = self.model.given(0, self.states[0])
        return [
            below.table(some) + self.marginals[0] for some in torch.split(x, max(1, NUMBERS // len(self.states[0])))
        ]

    def mean(self, x: torch.Tensor) -> torch.Tensor:
        """E[h | x], shape (n, units of all hidden layers)."""
        found = []
        for joint in self._joints(x):
            share = joint.softmax(1)
            layers = [share @ self.states[0]]
            for k, table in enumerate(self.tables):
                share = share @ (table + self.marginals[k + 1]).softmax(1)
                layers.append(share @ self.states[k + 1])
            found.append(torch.cat(layers, 1))
        return torch.cat(found)

    def posterior(self, x: torch.Tensor) -> BitStates:
        """p(h_1 | x), and p(h_{k+1} | h_k) of each further layer, by their states."""
        upper = [table + self.marginals[k + 1] for k, table in enumerate(self.tables)]
        return BitStates(to_numpy(torch.cat(self._joints(x))), [to_numpy(table) for table in upper])

    def mode(self, x: torch.Tensor) -> torch.Tensor:
        """The most probable state of all hidden layers together given each row."""
        best = self.model.top(1).table(self.states[-1])[:, 0]
        above: list[torch.Tensor] = []
        for table in reversed(self.tables):
            best, which = (table + best).max(1)
            above.insert(0, which)
        found = []
        below = self.model.given(0, self.states[0])
        for some in torch.split(x, max(1, NUMBERS // len(best))):
            at = (below.table(some) + best).argmax(1)
            layers = [self.states[0][at]]
            for k, which in enumerate(above, 1):
                at = which[at]
                layers.append(self.states[k][at])
            found.append(torch.cat(layers, 1))
        return torch.cat(found)
