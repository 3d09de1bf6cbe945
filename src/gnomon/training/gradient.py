"""Gradient descent on an objective, in phases: one step is one update of every phase."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

from gnomon.contracts import Array
from gnomon.objectives.base import Loss
from gnomon.recipes.recipe import Recipe
from gnomon.training.exchange import Exchange
from gnomon.training.procedure import Info, Problem, diverged
from gnomon.training.schedules import Clock, Constant, Schedule
from gnomon.training.stopping import Off, Stopping, Watch

__all__ = ["Gradient"]


@dataclass
class _State:
    problem: Problem
    exchange: Exchange
    optimizers: dict[str, torch.optim.Optimizer]
    noises: dict[str, Any]
    clock: Clock
    watch: Watch | None
    rate: float
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
    schedule : Schedule, default Constant()
        What the learning rate is multiplied by in the course of the fit.
    stopping : Stopping, default Off()
        When to end before the last epoch, by the loss on the problem's validation rows, and whose weights to keep.
    clip : float, optional
        Gradients are shortened to this norm, one phase at a time.

    Notes
    -----
    The loss on validation rows is the mean of the objective's first term, without its penalties; the objective is
    asked for it with ``phase="validation"`` and under ``torch.no_grad``.
    """

    iterates: ClassVar[bool] = True

    def __init__(
        self,
        optimizer: Recipe,
        learning_rate: float,
        epochs: int,
        tol: float = 0.0,
        *,
        schedule: Schedule | None = None,
        stopping: Stopping | None = None,
        clip: float | None = None,
    ) -> None:
        self.optimizer, self.learning_rate, self.epochs, self.tol = optimizer, learning_rate, epochs, tol
        self.schedule, self.stopping, self.clip = schedule or Constant(), stopping or Off(), clip

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
        noises = {phase: problem.noise.child(phase) for phase in phases}
        clock, watch = self.schedule.build(), self.stopping.build()
        if watch is not None and problem.validation is None:
            raise TypeError("early stopping needs validation rows")
        return _State(problem, exchange, optimizers, noises, clock, watch, self.learning_rate)

    def step(self, state: _State) -> tuple[_State, Info]:
        """One update of each phase on the next batch."""
        problem = state.problem
        epoch, place = divmod(state.update, problem.batches.steps)
        batch = problem.batches.step(epoch, place)
        self._set_rate(state, epoch)
        norm = 0.0
        for phase, optimizer in state.optimizers.items():
            noise = state.noises[phase].at(state.update)
            loss = problem.objective(problem.model, batch, noise=noise, phase=phase, group=problem.group)
            self._add(state, loss, last=place + 1 == problem.batches.steps)
            state.exchange.backward(loss)
            norm += state.exchange.finish(self.clip)
            self._move(optimizer, state.update + 1)
        state.update += 1
        if place + 1 < problem.batches.steps:
            return state, Info(monitored=norm)
        return state, self._epoch_done(state, epoch, norm)

    def _set_rate(self, state: _State, epoch: int) -> None:
        updates = self.epochs * state.problem.batches.steps
        rate = self.learning_rate * state.clock.factor(epoch, self.epochs, state.update, updates)
        if rate == state.rate:
            return
        state.rate = rate
        for optimizer in state.optimizers.values():
            for group in optimizer.param_groups:
                group["lr"] = rate

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
        means = {name: _mean(sums[name], weights[name]) for name in sums}
        record = {"epoch": epoch + 1, **means, "gradient_norm": norm}
        if not isinstance(self.schedule, Constant) or self.schedule.warmup:
            record["learning_rate"] = state.rate
        loss = next(iter(means.values()))
        if state.problem.validation is not None:
            name, loss = self._judge(state)
            record[f"validation_{name}"] = loss
            if not math.isfinite(loss):
                raise diverged(f"validation_{name}", loss, state.update)
        state.clock.observe(loss)
        done = epoch + 1 >= self.epochs or (self.tol > 0 and norm <= self.tol)
        if state.watch is not None:
            done = state.watch.update(loss, state.problem.model.state()) or done
            record["best_epoch"] = state.watch.epoch
            if done:
                state.problem.model.load(state.watch.arrays)
        return Info(done=done, record=record, monitored=norm)

    @staticmethod
    def _judge(state: _State) -> tuple[str, float]:
        """Name and mean of the objective's first term on the validation rows."""
        problem, name, total, weight = state.problem, "", 0.0, 0.0
        noise = problem.noise.child("validation").at(state.update)
        with torch.no_grad():
            for batch in problem.validation.epoch(0):
                loss = problem.objective(problem.model, batch, noise=noise, phase="validation", group=problem.group)
                name, term = next(iter(loss.terms.items()))
                total += term.scale * (term.sum() if callable(term.sum) else _number(term.sum))
                weight += term.weight
        total, weight = problem.group.sum((total, weight))
        return name, _mean(total, weight)

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
        facts = {"update": state.update, "sums": sums, "weights": weights, "schedule": state.clock.state()}
        if state.watch is not None:
            arrays |= {f"best/{name}": value for name, value in state.watch.arrays.items()}
            facts["stopping"] = state.watch.state()
        return arrays, facts

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
        state.clock.load(facts.get("schedule", {}))
        if state.watch is not None:
            state.watch.load(facts["stopping"], _below(arrays, "best/"))
        if problem.group.rank == 0:
            state.sums, state.weights = dict(facts["sums"]), dict(facts["weights"])
        return state


def _mean(total: float, weight: float) -> float:
    """0 where no row has any weight."""
    return total / weight if weight else 0.0


def _number(value: Any) -> float:
    return value.item() if isinstance(value, torch.Tensor) else float(value)


def _below(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
