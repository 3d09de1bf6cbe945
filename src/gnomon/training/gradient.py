"""Gradient descent on an objective, in phases: in one step every phase makes its updates, in turn."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch

from gnomon.contracts import Array, Batches, Noise
from gnomon.errors import UserValueError
from gnomon.evaluation.diagnosis.chain_health import faults
from gnomon.nn.context import bind
from gnomon.objectives.base import Loss, Phase
from gnomon.recipes.recipe import Recipe
from gnomon.training.accumulation import check_pieces, pieces
from gnomon.training.context import current
from gnomon.training.exchange import Exchange
from gnomon.training.monitor import Monitor
from gnomon.training.optimizers import FACTOR, apart
from gnomon.training.procedure import Info, Problem, compare_losses, diverged, refuse_ruin
from gnomon.training.schedules import Clock, Constant, Schedule
from gnomon.training.stopping import Off, Stopping, Watch

__all__ = ["Budget", "Gradient"]

FIRST_ROWS = 8
"""Rows that the first batch must have for its loss to be what the last one is compared with."""


@dataclass(frozen=True)
class Budget:
    """How long a fit goes on: so many passes over the data, or so many steps.

    Parameters
    ----------
    epochs : int, optional
    updates : int, optional
        Steps; where there are several phases each of them makes its updates in a step.

    Raises
    ------
    TypeError
        Both, or neither.
    """

    epochs: int | None = None
    updates: int | None = None

    def __post_init__(self) -> None:
        if (self.epochs is None) == (self.updates is None):
            raise TypeError("a budget has epochs or updates")

    @classmethod
    def of(cls, epochs: int, max_updates: int | None = None) -> Budget:
        """Updates where they are given, else epochs: as systems take the two."""
        return cls(epochs=epochs) if max_updates is None else cls(updates=max_updates)

    def amounts(self, per_epoch: int, batches: int = 1) -> tuple[int, int]:
        """Epochs and updates of the whole fit.

        Parameters
        ----------
        per_epoch : int >= 1
            Batches of an epoch.
        batches : int >= 1, default 1
            Batches that a step takes.

        Examples
        --------
        >>> Budget(epochs=3).amounts(10), Budget(updates=25).amounts(10), Budget(epochs=1).amounts(10, batches=6)
        ((3, 30), (3, 25), (1, 2))
        """
        if self.updates is not None:
            return -(-self.updates * batches // per_epoch), self.updates
        epochs = self.epochs or 0
        return epochs, -(-epochs * per_epoch // batches)


@dataclass
class _Part:
    """A phase within a fit."""

    phase: str
    parameters: Mapping[str, torch.nn.Parameter]
    optimizer: torch.optim.Optimizer
    noise: Noise
    steps: int
    rate: float
    batches: Batches
    """What its batches are taken from: `taken` of them in a step by all phases, from `first` on by this one."""
    first: int
    taken: int = 1


@dataclass
class _State:
    problem: Problem
    exchange: Exchange
    parts: list[_Part]
    clock: Clock
    watch: Watch | None
    epochs: int
    updates: int
    end: int
    """Updates after which the fit ends."""
    taken: int
    """Batches of the training rows that a step takes."""
    objective: Any
    """The objective, with the layers of the networks in training where some ask."""
    rate: float
    monitor: Monitor | None = None
    update: int = 0
    settled: bool = False
    """Whether the fit has ended by itself, and not because its budget was spent."""
    last: Mapping[str, Array] = field(default_factory=dict)
    """The last weights, where a fit whose budget was spent has gone back to its best ones."""
    first: float = math.nan
    """The watched loss before the first update; NaN where no loss is lowered."""
    watched: str = ""
    sums: dict[str, float] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)

    @property
    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """By phase."""
        return {part.phase: part.optimizer for part in self.parts}

    def adopt(self, optimizers: Mapping[str, torch.optim.Optimizer]) -> None:
        """Go on with the memory of an earlier fit's optimizers; the parameters and the rate are those of this one."""
        for part in self.parts:
            part.optimizer.load_state_dict(optimizers[part.phase].state_dict())
        self.rate = math.nan


class Gradient:
    """Forward, backward or closed form, exchange, step.

    Parameters
    ----------
    optimizer : Recipe
        Of every phase that has none of its own.
    learning_rate : float
    budget : Budget
    tol : float, default 0
        End when the gradient's norm is at most this after an epoch; 0 goes on until the budget is spent.
    schedule : Schedule, default Constant()
        What the learning rate is multiplied by in the course of the fit.
    stopping : Stopping, default Off()
        When to end before the budget is spent, by the loss on the problem's validation rows, and whose weights to keep.
    clip : float, optional
        Gradients are shortened to this norm, one phase at a time.
    clip_value : float, optional
        Components of gradients are limited to this size, before they are shortened.
    last_epoch : int, optional
        End after this many epochs, though the schedule counts towards the whole budget.

    Notes
    -----
    Batch number k of a fit is batch k mod m of epoch k div m, where m is the number of batches of an epoch; step u
    takes the numbers u b, ..., u b + b - 1 for the b updates of its phases. Where an epoch ends within a step, that
    step closes the record. The loss on validation rows is the mean of the watched term of ``Objective.validate``.
    """

    iterates: ClassVar[bool] = True
    compares: bool = True
    """Whether the last loss is compared with the first: not where rows come chunk by chunk."""

    def __init__(
        self,
        optimizer: Recipe,
        learning_rate: float,
        budget: Budget,
        tol: float = 0.0,
        *,
        schedule: Schedule | None = None,
        stopping: Stopping | None = None,
        clip: float | None = None,
        clip_value: float | None = None,
        last_epoch: int | None = None,
    ) -> None:
        self.optimizer, self.learning_rate, self.budget, self.tol = optimizer, learning_rate, budget, tol
        self.schedule, self.stopping, self.clip = schedule or Constant(), stopping or Off(), clip
        self.clip_value = clip_value
        self.last_epoch = last_epoch

    def start(self, problem: Problem) -> _State:
        """Optimizers and chains, before the first update."""
        _put(problem)
        problem.objective.begin(problem.model, problem.batches, problem.noise.child("begin"), problem.group)
        return self._assemble(problem)

    def _assemble(self, problem: Problem) -> _State:
        check_pieces(problem.objective)
        exchange = Exchange(problem.group)
        exchange.prepare(problem.model, problem.objective)
        parts: list[_Part] = []
        taken = {"train": 0, "validation": 0}
        for name, phase in problem.objective.phases(problem.model).items():
            parts.append(self._part(name, phase, exchange, problem, taken[phase.data]))
            taken[phase.data] += phase.steps
        for part in parts:
            part.taken = taken["train" if part.batches is problem.batches else "validation"]
        clock, watch = self.schedule.build(), self.stopping.build()
        if watch is not None and problem.validation is None:
            raise TypeError("early stopping needs validation rows")
        per_step = max(1, taken["train"])
        epochs, updates = self.budget.amounts(problem.batches.steps, per_step)
        end = updates
        if self.last_epoch is not None:
            end = min(updates, Budget(epochs=self.last_epoch).amounts(problem.batches.steps, per_step)[1])
        asking = bind(problem.model) + bind(problem.objective, "objective/")
        objective = problem.objective.in_training if asking else problem.objective
        if current().precision != "float32":
            objective = _autocast(objective, problem.model)
        return _State(
            problem, exchange, parts, clock, watch, epochs, updates, end, per_step, objective, self.learning_rate,
            Monitor(problem.model, problem.objective) if current().monitor else None,
        )  # fmt: skip

    def _part(self, name: str, phase: Phase, exchange: Exchange, problem: Problem, first: int) -> _Part:
        batches = problem.batches if phase.data == "train" else problem.validation
        if batches is None:
            raise TypeError(f"the phase {name!r} needs validation rows")
        parameters = exchange.choose(phase.parameters)
        recipe: Any = phase.optimizer or self.optimizer
        optimizer = recipe.build(list(parameters.values()), self.learning_rate * phase.rate)
        rates = getattr(problem.model, "rates", {})
        apart(optimizer, {id(one): rates[name] for name, one in parameters.items() if name in rates})
        noise = problem.noise.child(name)
        return _Part(name, parameters, optimizer, noise, phase.steps, phase.rate, batches, first)

    def step(self, state: _State) -> tuple[_State, Info]:
        """The updates of each phase, in turn."""
        problem, exchange = state.problem, state.exchange
        epoch, index = divmod(state.update * state.taken, problem.batches.steps)
        ends = index + state.taken >= problem.batches.steps or state.update + 1 >= state.end
        self.set_rate(state, epoch)
        norm = 0.0
        for part in state.parts:
            for number in range(part.steps):
                batch = part.batches.step(*divmod(state.update * part.taken + part.first + number, part.batches.steps))
                noise = part.noise.at(state.update * part.steps + number)
                with state.monitor.watching() if state.monitor else nullcontext():
                    loss = self._derived(state, part, batch, noise)
                self._add(state, loss, last=ends and number + 1 == part.steps)
                if not state.update and part is state.parts[0] and not number:
                    state.first = _first_loss(state, loss)
                norm += exchange.finish(self.clip, self.clip_value)
                with state.monitor.moving(part.parameters) if state.monitor else nullcontext():
                    self._move(part.optimizer, state.update + 1)
                exchange.release(part.parameters)
        state.update += 1
        if not ends:
            return state, Info(monitored=norm)
        return state, self._epoch_done(state, norm, batch.data.get("X"))

    @staticmethod
    def _derived(state: _State, part: _Part, batch: Any, noise: Noise) -> Loss:
        """The loss of a batch, whose gradient lies ready for the exchange."""
        problem, size = state.problem, current().micro_batch

        def loss_of(rows: Any) -> Loss:
            loss: Loss = state.objective(problem.model, rows, noise=noise, phase=part.phase, group=problem.group)
            return loss

        if size is not None:
            return state.exchange.accumulate(map(loss_of, pieces(batch, size, problem.group)), part.parameters)
        loss = loss_of(batch)
        state.exchange.backward(loss, part.parameters)
        return loss

    def goes_on(self, state: _State) -> bool:
        """Whether a fit that had ended has updates left since its budget was enlarged; with its last weights, if so.

        Raises
        ------
        UserValueError
            It ended within an epoch, whose sums are closed.
        """
        if state.settled or state.update >= state.end:
            return False
        if state.update * state.taken % state.problem.batches.steps:
            raise UserValueError(
                f"the fit ended after {state.update} updates, within an epoch of {state.problem.batches.steps}",
                "max_updates", "fit again with the larger budget",
            )  # fmt: skip
        if state.last:
            state.problem.model.load(state.last)
            state.last = {}
        elif state.watch is not None and state.watch.epoch != state.watch.seen:
            raise UserValueError("the run kept its best weights alone", "early_stopping", "fit again")
        return True

    @staticmethod
    def total_steps(state: _State) -> int:
        """Updates of the whole fit at most."""
        return state.end

    def set_rate(self, state: _State, epoch: int) -> None:
        """Give the optimizers the rate of the next update."""
        rate = self.learning_rate * state.clock.factor(epoch, state.epochs, state.update, state.updates)
        if rate == state.rate:
            return
        state.rate = rate
        for part in state.parts:
            for group in part.optimizer.param_groups:
                group["lr"] = rate * part.rate * group.get(FACTOR, 1.0)

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
        if loss.watch or not state.watched:
            state.watched = loss.watched
        for name, term in loss.terms.items():
            if callable(term.sum) and not last:
                continue
            value = _number(term.sum() if callable(term.sum) else term.sum)
            state.sums[name] = state.sums.get(name, 0.0) + term.scale * value
            state.weights[name] = state.weights.get(name, 0.0) + term.weight

    def _epoch_done(self, state: _State, norm: float, rows: Any = None) -> Info:
        sums, weights = state.problem.group.sum((state.sums, state.weights))
        state.sums, state.weights = {}, {}
        means = {name: _mean(sums[name], weights[name]) for name in sorted(sums, key=lambda n: n != state.watched)}
        spent = state.update >= state.end
        seen, per_epoch = state.update * state.taken, state.problem.batches.steps
        epoch = -(-seen // per_epoch) if spent else seen // per_epoch
        record = {"epoch": epoch, **means, "gradient_norm": norm}
        if not isinstance(self.schedule, Constant) or self.schedule.warmup:
            record["learning_rate"] = state.rate
        loss = means[state.watched]
        if state.problem.validation is not None:
            name, loss = _watched_loss(
                state.problem,
                state.problem.validation.epoch(0),
                state.problem.noise.child("validation").at(state.update),
            )
            record[f"validation_{name}"] = loss
            if not math.isfinite(loss):
                raise diverged(f"validation_{name}", loss, state.update)
        state.clock.observe(loss)
        state.settled = self.tol > 0 and norm <= self.tol
        if state.watch is not None:
            state.settled = state.watch.update(loss, state.problem.model.state()) or state.settled
            record["best_epoch"] = state.watch.epoch
            if state.settled or spent:
                state.last = {} if state.settled else copied(state.problem.model.state())
                state.problem.model.load(state.watch.arrays)
        if spent or state.settled:
            for name, value in means.items():
                refuse_ruin(name, value, state.problem.objective.largest, state.update)
            if self.compares:
                end = state.watch.best if state.watch else means[state.watched]
                tell = state.watch is None and state.problem.group.rank == 0
                compare_losses(state.watched, state.first, end, state.update, tell=tell)
        inside = {"epoch": epoch, **state.monitor.taken(rows)} if state.monitor else None
        if inside is not None and (spent or state.settled) and state.problem.group.rank == 0:
            for one in faults(inside):
                warnings.warn(f"{one.what}: {one.evidence}; {one.remedy}", stacklevel=2)
        return Info(done=spent or state.settled, record=record, monitored=norm, inside=inside)

    def save(self, state: _State) -> tuple[dict[str, Array], dict[str, Any]]:
        """Model, objective with the chains of all processes, and optimizers."""
        problem = state.problem
        arrays = {f"model/{name}": value for name, value in problem.model.state().items()}
        arrays |= {f"objective/{name}": v for name, v in problem.objective.collect(problem.group).items()}
        sums, weights = problem.group.sum((state.sums, state.weights))
        for phase, optimizer in state.optimizers.items():
            for number, entry in optimizer.state_dict()["state"].items():
                arrays |= {f"optimizer/{phase}/{number}/{key}": v.cpu() for key, v in entry.items() if v is not None}
        arrays |= {f"last/{name}": value for name, value in state.last.items()}
        facts = {"update": state.update, "sums": sums, "weights": weights, "schedule": state.clock.state()}
        facts["settled"] = state.settled
        if math.isfinite(state.first):
            facts["first"] = state.first
        if state.watch is not None:
            arrays |= {f"best/{name}": value for name, value in state.watch.arrays.items()}
            facts["stopping"] = state.watch.state()
        return arrays, facts

    def load(self, problem: Problem, arrays: Mapping[str, Array], facts: Mapping[str, Any]) -> _State:
        """Exactly the state that was saved."""
        _put(problem)
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
        state.update, state.settled = facts["update"], facts.get("settled", False)
        state.last = _below(arrays, "last/")
        state.first = float(facts.get("first", math.nan))
        state.clock.load(facts.get("schedule", {}))
        if state.watch is not None:
            state.watch.load(facts["stopping"], _below(arrays, "best/"))
        if problem.group.rank == 0:
            state.sums, state.weights = dict(facts["sums"]), dict(facts["weights"])
        return state


def _watched_loss(problem: Problem, batches: Iterable[Any], noise: Noise) -> tuple[str, float]:
    """Name and mean of the objective's watched term on rows that do not train meanwhile."""
    name, total, weight = "", 0.0, 0.0
    for batch in batches:
        loss = problem.objective.validate(problem.model, batch, noise=noise, group=problem.group)
        name, term = loss.watched, loss.terms[loss.watched]
        total += term.scale * _number(term.sum() if callable(term.sum) else term.sum)
        weight += term.weight
    total, weight = problem.group.sum((total, weight))
    return name, _mean(total, weight)


def _first_loss(state: _State, loss: Loss) -> float:
    """The watched mean before the first update, if the rows of its batch are enough to tell; else NaN."""
    term = loss.terms.get(state.watched)
    if not state.problem.objective.descends or term is None or callable(term.sum):
        return math.nan
    total, weight = state.problem.group.sum((term.scale * _number(term.sum), term.weight))
    return _mean(total, weight) if weight >= FIRST_ROWS else math.nan


def _put(problem: Problem) -> None:
    """Model and objective to the device of the context."""
    device = current().device
    if device is not None:
        problem.model.to(device)
        problem.objective.to(device)


def _autocast(objective: Any, model: Any) -> Any:
    """The objective with the products of the network in the context's precision."""
    kind, dtype = model.device.type, getattr(torch, current().precision)

    def call(*arguments: Any, **options: Any) -> Loss:
        with torch.autocast(kind, dtype):
            loss: Loss = objective(*arguments, **options)
        return loss

    return call


def copied(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays as they are now."""
    return {
        name: np.array(value.detach().cpu() if hasattr(value, "detach") else value) for name, value in arrays.items()
    }


def _mean(total: float, weight: float) -> float:
    """0 where no row has any weight."""
    return total / weight if weight else 0.0


def _number(value: Any) -> float:
    return value.item() if isinstance(value, torch.Tensor) else float(value)


def _below(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
