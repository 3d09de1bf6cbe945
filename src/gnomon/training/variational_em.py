"""Expectation maximization whose posteriors are approximations: each row's goes on from where it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gnomon.contracts import Array
from gnomon.training.em import EM, Iterations
from gnomon.training.procedure import Problem

__all__ = ["VariationalEM"]

KEPT = "posterior."
"""What the names of saved posteriors begin with."""


@dataclass
class _State(Iterations):
    posteriors: dict[str, Array] = field(default_factory=dict)
    """Of all rows, those of this process filled in; nothing before the first iteration."""


class VariationalEM(EM):
    """Alternate a better posterior of each row, within its family, with parameters fitted to it (Neal and Hinton 1998).

    Both raise the evidence lower bound, the first because it begins where the row's posterior was: begun anew it may
    settle at another of several optima, and the bound would fall. The model keeps
    `gnomon.contracts.HasVariationalExpectation`. Memory: the posteriors of all rows.

    Parameters
    ----------
    max_iter, tol
        As of `EM`, of the bound.

    References
    ----------
    Neal and Hinton (1998), "A view of the EM algorithm that justifies incremental, sparse, and other variants".
    """

    def start(self, problem: Problem) -> Any:
        """No posteriors yet."""
        return _State(problem)

    def expected(self, state: Any) -> dict[str, Array]:
        """Sums of one pass over all rows, each with a posterior that goes on from its own."""
        problem = state.problem
        total: dict[str, Array] = {}
        for batch in problem.batches.epoch(0):
            x, rows = batch.data["X"], batch.rows
            before = {name: one[rows] for name, one in state.posteriors.items()}
            found = problem.model.approximate(x, before or None)
            for name, value in found.items():
                if name not in state.posteriors:
                    state.posteriors[name] = np.zeros((problem.batches.n, *value.shape[1:]), value.dtype)
                state.posteriors[name][rows] = value
            for name, value in problem.model.expect(x, batch.weight, found).items():
                total[name] = total[name] + value if name in total else value
        sums: dict[str, Array] = problem.group.sum(total)
        return sums

    def save(self, state: Any) -> tuple[dict[str, Array], dict[str, Any]]:
        """The model, and the posteriors of all rows under names that begin with ``posterior.``."""
        arrays, facts = super().save(state)
        rows = [batch.rows for batch in state.problem.batches.epoch(0)]
        for name, one in state.posteriors.items():
            own = np.zeros_like(one)
            for some in rows:
                own[some] = one[some]
            arrays = arrays | {KEPT + name: state.problem.group.sum(own)}
        return arrays, facts

    def load(self, problem: Problem, arrays: Mapping[str, Array], facts: Mapping[str, Any]) -> Any:
        """Exactly the state that was saved."""
        begun = super().load(problem, arrays, facts)
        kept = {name.removeprefix(KEPT): np.array(one) for name, one in arrays.items() if name.startswith(KEPT)}
        return _State(problem, begun.iteration, begun.last, begun.settled, kept)
