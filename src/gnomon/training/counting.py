"""Fits that count: tables of the data's pieces, merged over pieces and processes, then one solution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gnomon.contracts import Array
from gnomon.inference.counting import NGramCounts, count_ngrams, merge_counts, sum_counts
from gnomon.training.procedure import Info, Problem

__all__ = ["Counting", "Pieces"]


@dataclass(frozen=True)
class Pieces:
    """What is to be counted.

    Parameters
    ----------
    parts : list
        This process's part of every piece; as many on every process.
    held_out : object, optional
        Data on which the smoothing finds its weights; the same on every process.
    """

    parts: list[Any]
    held_out: Any = None


@dataclass
class _State:
    problem: Problem
    step: int = 0
    table: NGramCounts | None = None


class Counting:
    """Count the n-grams of one piece per step; the last step merges the processes' tables and smooths them.

    The problem's batches are `Pieces`; the model has ``count(piece)``, ``settle(counts, held_out)``, ``counts`` and
    what it takes to be saved. Counts are whole numbers in sorted
    tables, so neither the pieces nor the number of processes changes a bit of the result.
    """

    def start(self, problem: Problem) -> _State:
        """Nothing before the first piece."""
        return _State(problem)

    def step(self, state: _State) -> tuple[_State, Info]:
        """One piece."""
        model, pieces = state.problem.model, _pieces(state.problem)
        counted = model.count(pieces.parts[state.step])
        table = counted if state.table is None else merge_counts(state.table, counted)
        state.table, state.step = table, state.step + 1
        if state.step < len(pieces.parts):
            return state, Info()
        state.table = sum_counts(table, state.problem.group)
        model.settle(state.table, pieces.held_out)
        record = {f"ngrams_{k}": float((count > 0).sum()) for k, count in enumerate(state.table.counts, 1)}
        return state, Info(done=True, record={"tokens": float(state.table.n_tokens), **record})

    def save(self, state: _State) -> tuple[dict[str, Array], dict[str, Any]]:
        """The tables of all processes as one; after the last step the model."""
        model = state.problem.model
        if state.table is None:
            return {}, {"step": 0}
        if state.step < len(_pieces(state.problem).parts):
            model.counts = sum_counts(state.table, state.problem.group)
        return model.state(), {"step": state.step}

    def load(self, problem: Problem, arrays: Mapping[str, Array], facts: Mapping[str, Any]) -> _State:
        """Go on from the merged table, which the first process takes over."""
        if facts["step"] == 0:
            return self.start(problem)
        problem.model.load(arrays)
        table: NGramCounts = problem.model.counts
        if facts["step"] < len(_pieces(problem).parts) and problem.group.rank > 0:
            table = count_ngrams([], [0], n=table.n, vocabulary_size=table.vocabulary_size, start=table.start)
        return _State(problem, facts["step"], table)


def _pieces(problem: Problem) -> Pieces:
    assert isinstance(problem.batches, Pieces)
    return problem.batches
