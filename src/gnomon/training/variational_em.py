"""Expectation maximization whose posteriors are approximations: each row's goes on from where it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from gnomon.contracts import Array, HasVariationalExpectation
from gnomon.training.em import EM, Iterations, per_row
from gnomon.training.procedure import Info, Problem

__all__ = ["AscendingEM", "HasAscent", "VariationalEM", "by_parts"]

KEPT = "posterior."
"""What the names of saved posteriors begin with."""
HALVINGS = 30
"""Times that a step of a part of the parameters is halved before it is given up."""
SLACK = 1e-12
"""Share of its size by which rounding may lower the worth of a part."""


class HasAscent(HasVariationalExpectation, Protocol):
    """A model whose expected log joint is a sum over parts of its parameters, each raised by steps of its own.

    What ``expect`` gives has ``parts`` among it, as ``worth`` does.
    """

    def ascent(self, statistics: Mapping[str, Array]) -> Array:
        """A direction for each part, (parts, ...), along which the expected log joint and the prior rise."""

    def move(self, direction: Array, shares: Array) -> None:
        """Move each part by its share of its direction."""

    def worth(self, x: Array, weight: Array, posterior: Mapping[str, Array]) -> dict[str, Array]:
        """``parts``: the sum over rows of the expected log joint, (parts,), up to what no parameter enters."""

    def log_prior_of_parts(self) -> Array:
        """Log density of each part under its prior, (parts,); `log_prior` is their sum."""


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


class AscendingEM(VariationalEM):
    r"""Variational EM whose parameters have no closed form: Newton steps up :math:`E_q \log p(x, z)`, q held.

    Parameters come in parts, such as those of each column, that q leaves independent; a part's step is halved until
    its share of the objective does not fall, at a pass over the rows each time, so that the bound never does. At q
    held the slope of the bound by the parameters is that of the expected log joint, and where q is p(z | x) it is that
    of the log-likelihood (Fisher's identity). The model keeps `HasAscent`.

    Parameters
    ----------
    max_iter, tol
        As of `EM`, of the bound.
    outer_steps : int, in [1, inf), default 1
        Steps of the parameters in an iteration.
    """

    def __init__(self, max_iter: int, tol: float, outer_steps: int = 1) -> None:
        super().__init__(max_iter, tol)
        self.outer_steps = outer_steps

    def step(self, state: Any) -> tuple[Any, Info]:
        """One iteration."""
        model: HasAscent = state.problem.model
        statistics = self.expected(state)
        reached = per_row(model, statistics)
        for i in range(self.outer_steps):
            statistics = statistics if i == 0 else self._over_rows(state, "expect")
            worth = statistics["parts"] + model.log_prior_of_parts()
            by_parts(model, model.ascent(statistics), worth, lambda: self._worth(state))
        return self.recorded(state, *reached)

    def _worth(self, state: Any) -> Array:
        return self._over_rows(state, "worth")["parts"] + state.problem.model.log_prior_of_parts()

    def _over_rows(self, state: Any, name: str) -> dict[str, Array]:
        """Sums over all rows at the posteriors that are kept."""
        total: dict[str, Array] = {}
        for batch in state.problem.batches.epoch(0):
            held = {key: one[batch.rows] for key, one in state.posteriors.items()}
            for key, value in getattr(state.problem.model, name)(batch.data["X"], batch.weight, held).items():
                total[key] = total[key] + value if key in total else value
        sums: dict[str, Array] = state.problem.group.sum(total)
        return sums


def by_parts(model: Any, direction: Any, before: Array, worth: Callable[[], Array], share: float = 1.0) -> None:
    """Move each part of the parameters along its direction, by half as much again and again while its worth would fall.

    Parameters
    ----------
    model : object with ``state``, ``load`` and ``move(direction, share)``
    direction : object
        What `move` takes.
    before : array of shape (parts,)
        Worth of each part as it is.
    worth : callable
        Worth of each part after a move.
    share : float in (0, 1], default 1
        Of the direction, at first.
    """
    begun = {name: np.array(value) for name, value in model.state().items()}
    shares, least = np.full(len(before), share), before - SLACK * np.maximum(1.0, np.abs(before))
    for _ in range(HALVINGS):
        model.load(begun)
        model.move(direction, shares)
        fell = ~(worth() >= least)
        if not fell.any():
            return
        shares = np.where(fell, shares / 2, shares)
    model.load(begun)
    model.move(direction, np.where(fell, 0.0, shares))
