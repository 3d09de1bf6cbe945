"""Small fits whose course is known, to try driver and procedures on."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch

from gnomon.data.batches import Batches
from gnomon.data.examples import Examples
from gnomon.data.layouts import Rows
from gnomon.nn.module import Module
from gnomon.numeric.noise import Noise
from gnomon.objectives.base import Loss, Objective, Phase, Term
from gnomon.training.group import Group
from gnomon.training.procedure import Info, Problem


class Line(Module):
    """y = a x + b, two parameters in two phases if asked."""

    def __init__(self, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.a = torch.nn.Parameter(torch.zeros(1, dtype=dtype))
        self.b = torch.nn.Parameter(torch.ones(1, dtype=dtype))


class Squares(Objective):
    """Weighted squared error, plus `penalty` / 2 of the squared slope per row; by autograd or in closed form."""

    def __init__(self, penalty: float = 0.0, *, closed: bool = False) -> None:
        super().__init__()
        self.penalty, self.closed = penalty, closed

    def forward(self, model: Line, batch: Any, *, noise: Any, phase: str, group: Any) -> Loss:
        x, y = torch.from_numpy(batch.data["X"][:, 0]), torch.from_numpy(batch.data["X"][:, 1])
        weight = torch.from_numpy(batch.weight)
        total = float(batch.weight.sum())
        if not self.closed:
            error = model.a * x + model.b - y
            terms = {"error": Term((weight * error**2).sum(), total)}
            if self.penalty:
                terms["penalty"] = Term((0.5 * model.a**2).sum() * total, total, self.penalty)
            return Loss(terms)
        with torch.no_grad():
            error = model.a * x + model.b - y
            slope = (2 * weight * error * x).sum() + self.penalty * model.a[0] * total
            terms = {"error": Term(float((weight * error**2).sum()), total)}
            if self.penalty:
                terms["penalty"] = Term(lambda: 0.5 * model.a.item() ** 2 * total, total, self.penalty)
            gradients = {"a": slope.reshape(1), "b": (2 * weight * error).sum().reshape(1)}
        return Loss(terms, gradients, per="error")


class Duel(Objective):
    """Two phases: `up` moves a critic of its own to the slope, `down` moves the model away from the critic."""

    def __init__(self) -> None:
        super().__init__()
        self.critic = torch.nn.Parameter(torch.full((1,), 0.5, dtype=torch.float64))
        self.seen: list[tuple[str, float]] = []

    def phases(self, model: Line) -> dict[str, Phase]:
        return {"up": Phase([self.critic]), "down": Phase([model.a])}

    def forward(self, model: Line, batch: Any, *, noise: Any, phase: str, group: Any) -> Loss:
        n = len(batch)
        self.seen.append((phase, float(noise.uniform((1,))[0])))
        if phase == "up":
            return Loss({"critic": Term(n * ((self.critic - model.a.detach() - 1) ** 2).sum(), n)})
        return Loss({"model": Term(n * (model.a * self.critic.detach()).sum(), n)})


def table(n: int = 23, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows (x, y) near a line, and weights."""
    random = np.random.default_rng(seed)
    x = random.normal(size=n)
    return np.stack([x, 2 * x - 1 + 0.1 * random.normal(size=n)], axis=1), random.uniform(0.5, 2.0, size=n)


def problem(
    objective: Objective,
    *,
    batch_size: int | None = 5,
    group: Group | None = None,
    seed: int = 3,
    model: Line | None = None,
) -> Problem:
    """The line's fit."""
    X, weight = table()
    noise, group = Noise(seed, "fit"), group or Group()
    batches = Batches(Examples({"X": X}, weight), Rows(batch_size, shuffle=batch_size is not None), noise=noise)
    return Problem(model or Line(), batches.shard(group), noise, group, objective)


class Counter:
    """A procedure that counts to `end`, with a record at every `every`-th step; `script` says what goes wrong where."""

    iterates: ClassVar[bool] = True

    def __init__(self, end: int, *, every: int = 1, script: dict[int, Any] | None = None) -> None:
        self.end, self.every, self.script = end, every, script or {}
        self.started = self.loaded = self.taken = 0

    def start(self, problem: Problem) -> dict[str, np.ndarray]:
        self.started += 1
        return {"n": np.zeros(1)}

    def step(self, state: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], Info]:
        self.taken += 1
        n = self.taken
        state = {"n": state["n"] + 1}
        act = self.script.get(n)
        if callable(act):
            act()
        if isinstance(act, Info):
            return state, act
        if isinstance(act, float):
            state = {"n": np.array([act])}
        record = {"n": float(n)} if n % self.every == 0 else None
        return state, Info(done=n >= self.end, record=record)

    def save(self, state: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        return state, {"end": self.end}

    def load(self, problem: Problem, arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> dict[str, np.ndarray]:
        self.loaded, self.taken = self.loaded + 1, int(arrays["n"][0])
        return {"n": arrays["n"]}


class Nothing:
    """A model without parameters."""

    def state(self) -> dict[str, np.ndarray]:
        return {}

    def load(self, state: dict[str, np.ndarray]) -> None:
        pass


def counting_problem() -> Problem:
    return Problem(Nothing(), None, Noise(0, "fit"), Group())
