"""Gradient descent on an objective, in phases: one step is one update of every phase."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

from gnomon.contracts import Array
from gnomon.objectives.base import Loss
from gnomon.recipes import Recipe
from gnomon.training.exchange import Exchange
from gnomon.training.procedure import Info, Problem, diverged

__all__ = ["Gradient"]


@dataclass
class _State:
    problem: Problem
    exchange: Exchange
    optimizers: dict[str, torch.optim.Optimizer]
    noises: dict[str, Any]
    update: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)


class Gradient:
    """Forward, backward or closed form, exchange, step.

    Parameters
    ----------
    optimizer : Recipe
        Built once per phase.
    learning_rate : float
    epochs : int
        Passes over the data.
    tol : float, default 0
        End when the gradient's norm is at most this after an epoch; 0 runs all epochs.
    """

    iterates: ClassVar[bool] = True

    def __init__(self, optimizer: Recipe, learning_rate: float, epochs: int, tol: float = 0.0) -> None:
        self.optimizer, self.learning_rate, self.epochs, self.tol = optimizer, learning_rate, epochs, tol

    def start(self, problem: Problem) -> _State:
        """Optimizers and chains, before the first update."""
        problem.objective.begin(problem.model, problem.batches, problem.noise.child("begin"), problem.group)
        return self._assemble(problem)

    def _assemble(self, problem: Problem) -> _State:
        exchange = Exchange(problem.group)
        exchange.prepare(problem.model, problem.objective)
        phases = problem.objective.phases(problem.model)
        optimizers = {
            phase: self.optimizer.build(parameters, self.learning_rate)  # type: ignore[attr-defined]
            for phase, parameters in phases.items()
        }
        return _State(problem, exchange, optimizers, {phase: problem.noise.child(phase) for phase in phases})

    def step(self, state: _State) -> tuple[_State, Info]:
        """One update of each phase on the next batch."""
        problem = state.problem
        epoch, place = divmod(state.update, problem.batches.steps)
        batch = problem.batches.step(epoch, place)
        norm = 0.0
        for phase, optimizer in state.optimizers.items():
            noise = state.noises[phase].at(state.update)
            loss = problem.objective(problem.model, batch, noise=noise, phase=phase, group=problem.group)
            self._add(state, loss, last=place + 1 == problem.batches.steps)
            state.exchange.backward(loss)
            norm += state.exchange.finish()
            self._move(optimizer, state.update + 1)
        state.update += 1
        if place + 1 < problem.batches.steps:
            return state, Info(watched=norm)
        return state, self._epoch_done(state, epoch, norm)

    @staticmethod
    def _move(optimizer: torch.optim.Optimizer, step: int) -> None:
        try:
            optimizer.step()
        except RuntimeError as error:
            if "overflow" not in str(error):
                raise
            raise diverged("the step size", math.inf, step) from None

    def _add(self, state: _State, loss: Loss, *, last: bool) -> None:
        """Add the terms to the epoch's sums; one that costs a computation of its own is seen on the last batch only."""
        for name, term in loss.terms.items():
            if callable(term.sum) and not last:
                continue
            value = term.sum() if callable(term.sum) else _number(term.sum)
            state.sums[name] = state.sums.get(name, 0.0) + term.scale * value
            state.weights[name] = state.weights.get(name, 0.0) + term.weight

    def _epoch_done(self, state: _State, epoch: int, norm: float) -> Info:
        sums, weights = state.problem.group.sum((state.sums, state.weights))
        state.sums, state.weights = {}, {}
        record = {"epoch": epoch + 1, **{name: sums[name] / weights[name] for name in sums}, "gradient_norm": norm}
        done = epoch + 1 >= self.epochs or (self.tol > 0 and norm <= self.tol)
        return Info(done=done, record=record, watched=norm)

    def save(self, state: _State) -> tuple[dict[str, Array], dict[str, Any]]:
        """Model, objective with the chains of all processes, and optimizers."""
        problem = state.problem
        arrays = {f"model/{name}": value for name, value in problem.model.state().items()}
        arrays |= {f"objective/{name}": v for name, v in problem.objective.collect(problem.group).items()}
        sums, weights = problem.group.sum((state.sums, state.weights))
        for phase, optimizer in state.optimizers.items():
            for number, entry in optimizer.state_dict()["state"].items():
                arrays |= {
                    f"optimizer/{phase}/{number}/{key}": value for key, value in entry.items() if value is not None
                }
        return arrays, {"update": state.update, "sums": sums, "weights": weights}

    def load(self, problem: Problem, arrays: Mapping[str, Array], facts: Mapping[str, Any]) -> _State:
        """Exactly the state that was saved."""
        problem.model.load(_below(arrays, "model/"))
        problem.objective.begin(problem.model, problem.batches, problem.noise.child("begin"), problem.group)
        problem.objective.distribute(_below(arrays, "objective/"), problem.group)
        state = self._assemble(problem)
        for phase, optimizer in state.optimizers.items():
            entries: dict[int, dict[str, torch.Tensor]] = {}
            for address, value in _below(arrays, f"optimizer/{phase}/").items():
                number, key = address.split("/")
                entries.setdefault(int(number), {})[key] = torch.as_tensor(value)
            optimizer.load_state_dict({"state": entries, "param_groups": optimizer.state_dict()["param_groups"]})
        state.update = facts["update"]
        if problem.group.rank == 0:
            state.sums, state.weights = dict(facts["sums"]), dict(facts["weights"])
        return state


def _number(value: Any) -> float:
    return value.item() if isinstance(value, torch.Tensor) else float(value)


def _below(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
