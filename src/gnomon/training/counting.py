"""Fits that count: tables of the data's batches, merged over batches and processes, then one solution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gnomon.contracts import Array
from gnomon.data.counting import NGramCounts, count_ngrams, merge_counts, sum_counts
from gnomon.training.procedure import Info, Problem

__all__ = ["Counting"]


@dataclass
class _State:
    problem: Problem
    step: int = 0
    table: NGramCounts | None = None


class Counting:
    """Count the n-grams of one batch per step; the last step merges the processes' tables and smooths them.

    A batch has a ragged field ``X``; the validation text is one batch, the same on every process. The model has
    ``count(text)``, ``settle(counts, held_out)``, ``counts`` and what it takes to be saved. Counts are whole numbers in
    sorted tables, so neither the batches nor the number of processes changes a bit of the result.
    """

    def start(self, problem: Problem) -> _State:
        """Nothing before the first batch."""
        return _State(problem)

    def total_steps(self, state: _State) -> int:
        """Batches."""
        batches: int = state.problem.batches.steps
        return batches

    def step(self, state: _State) -> tuple[_State, Info]:
        """One batch."""
        model, batches = state.problem.model, state.problem.batches
        counted = model.count(_text(batches.step(0, state.step)))
        table = counted if state.table is None else merge_counts(state.table, counted)
        state.table, state.step = table, state.step + 1
        if state.step < batches.steps:
            return state, Info()
        state.table = sum_counts(table, state.problem.group)
        held_out = state.problem.validation
        model.settle(state.table, None if held_out is None else _text(held_out.step(0, 0)))
        record = {f"ngrams_{k}": float((count > 0).sum()) for k, count in enumerate(state.table.counts, 1)}
        return state, Info(done=True, record={"tokens": float(state.table.n_tokens), **record})

    def save(self, state: _State) -> tuple[dict[str, Array], dict[str, Any]]:
        """The tables of all processes as one; after the last step the model."""
        model = state.problem.model
        if state.table is None:
            return {}, {"step": 0}
        if state.step < state.problem.batches.steps:
            model.counts = sum_counts(state.table, state.problem.group)
        return model.state(), {"step": state.step}

    def load(self, problem: Problem, arrays: Mapping[str, Array], facts: Mapping[str, Any]) -> _State:
        """Go on from the merged table, which the first process takes over."""
        if facts["step"] == 0:
            return self.start(problem)
        problem.model.load(arrays)
        table: NGramCounts = problem.model.counts
        if facts["step"] < problem.batches.steps and problem.group.rank > 0:
            table = count_ngrams([], [0], n=table.n, vocabulary_size=table.vocabulary_size, start=table.start)
        return _State(problem, facts["step"], table)


def _text(batch: Any) -> tuple[Any, Any]:
    """Tokens and offsets."""
    return batch.data["X"].parts
