"""Phases, budgets, and what judges a fit: by hand, against scripted batches, and resumed anywhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gnomon.data.batches import Batches
from gnomon.data.examples import Examples
from gnomon.data.layouts import Rows
from gnomon.objectives.base import Loss, Objective, Phase, Term
from gnomon.runs.folder import RunFolder
from gnomon.training.driver import run_procedure
from gnomon.training.exchange import Exchange
from gnomon.training.gradient import Budget, Gradient
from gnomon.training.group import Group
from gnomon.training.optimizers import SGD, Adam
from gnomon.training.schedules import Linear
from oracles.tasks import Line, Squares, problem

CONFIG = {"kind": "fit", "system": "line", "where": "none:Line", "parameters": {}}


class Unequal(Objective):
    """Two updates of a critic with momentum at twice the rate, then one of the model; says what it was given."""

    def __init__(self, data: Any = "train") -> None:
        super().__init__()
        self.critic = torch.nn.Parameter(torch.full((1,), 0.5, dtype=torch.float64))
        self.seen: list[tuple[str, tuple[int, ...], int]] = []
        self.data = data

    def phases(self, model: Line) -> dict[str, Phase]:
        critic = Phase([self.critic], steps=2, optimizer=SGD(momentum=0.5), rate=2.0, data=self.data)
        return {"critic": critic, "model": Phase([model.a])}

    def forward(self, model: Line, batch: Any, *, noise: Any, phase: str, group: Any) -> Loss:
        self.seen.append((phase, tuple(batch.rows), noise.update))
        n = len(batch)
        if phase == "critic":
            return Loss({"critic": Term(n * ((self.critic - model.a - 1) ** 2).sum(), n)})
        return Loss({"model": Term(n * (model.a * self.critic).sum(), n)}, watch="model")


def by_hand(steps: int) -> tuple[float, float]:
    a, critic, speed = 0.0, 0.5, 0.0
    for _ in range(steps):
        for _ in range(2):
            speed = 0.5 * speed + 2 * (critic - a - 1)
            critic -= 0.2 * speed
        a -= 0.1 * critic
    return a, critic


def test_a_phase_has_its_own_steps_optimizer_and_rate() -> None:
    """Against the recursion by hand, though the losses of both phases depend on the parameters of both."""
    objective = Unequal()
    task = problem(objective)
    outcome = run_procedure(Gradient(SGD(), 0.1, Budget(updates=7)), task)
    assert outcome.steps == 7
    assert (task.model.a.item(), objective.critic.item()) == pytest.approx(by_hand(7), rel=1e-12)
    assert task.model.b.item() == 1.0


def test_every_update_has_a_batch_and_noise_of_its_own() -> None:
    """Five batches an epoch, three to a step: the order is that of one pass after the other."""
    objective = Unequal()
    task = problem(objective)
    outcome = run_procedure(Gradient(SGD(), 0.1, Budget(epochs=3)), task)
    given = [tuple(task.batches.step(e, i).rows) for e in range(3) for i in range(5)]
    assert [rows for _, rows, _ in objective.seen] == given
    assert [phase for phase, _, _ in objective.seen] == ["critic", "critic", "model"] * 5
    assert [update for phase, _, update in objective.seen if phase == "critic"] == list(range(10))
    assert [update for phase, _, update in objective.seen if phase == "model"] == list(range(5))
    assert outcome.steps == 5 and outcome.history["epoch"] == [1, 2, 3]
    assert outcome.history["step"] == [2, 4, 5]


def test_a_phase_may_take_the_validation_rows() -> None:
    """DARTS's alternation: architecture by held-out rows, weights by the others, each in its own order."""
    objective = Unequal("validation")
    held = Batches(Examples({"X": np.arange(8.0).reshape(4, 2)}), Rows(2, shuffle=False))
    task = replace(problem(objective), validation=held)
    run_procedure(Gradient(SGD(), 0.1, Budget(epochs=1)), task)
    fits = [one for one in objective.seen if one[0] != "validation"]
    assert [rows for phase, rows, _ in fits if phase == "critic"] == [(0, 1), (2, 3)] * 5
    assert [rows for phase, rows, _ in fits if phase == "model"] == [
        tuple(task.batches.step(0, i).rows) for i in range(5)
    ]
    with pytest.raises(TypeError, match="'critic' needs validation rows"):
        run_procedure(Gradient(SGD(), 0.1, Budget(epochs=1)), problem(Unequal("validation")))


def test_gradient_norm_and_clip_are_those_of_the_phase_alone() -> None:
    """The loss pulls at the critic a thousand times harder than at the model, which must not shorten the model's."""

    class Lopsided(Objective):
        def __init__(self) -> None:
            super().__init__()
            self.critic = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))

        def phases(self, model: Line) -> dict[str, Phase]:
            return {"model": Phase([model.a])}

        def forward(self, model: Line, batch: Any, **options: Any) -> Loss:
            return Loss({"loss": Term((0.5 * model.a + 1000 * self.critic).sum(), 1.0)})

    objective = Lopsided()
    objective.critic.grad = torch.full((1,), 7.0, dtype=torch.float64)
    task = problem(objective, batch_size=None)
    outcome = run_procedure(Gradient(SGD(), 0.1, Budget(epochs=1), clip=1.0), task)
    assert outcome.records[0]["gradient_norm"] == pytest.approx(0.5, rel=1e-12)
    assert task.model.a.item() == pytest.approx(-0.05, rel=1e-12)
    assert objective.critic.item() == 1.0 and objective.critic.grad.item() == 7.0


def test_parameters_of_the_objective_may_have_closed_form_gradients() -> None:
    """Noise-contrastive estimation's log Z, say: by the name ``objective/<name>``, divided by the same weight."""

    class Normalizer(Objective):
        def __init__(self) -> None:
            super().__init__()
            self.log_z = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))

        def forward(self, model: Line, batch: Any, **options: Any) -> Loss:
            gradients = {"a": np.array([4.0]), "objective/log_z": np.array([6.0])}
            return Loss({"loss": Term(0.0, 2.0)}, gradients, "loss")

    objective = Normalizer()
    task = problem(objective, batch_size=None)
    run_procedure(Gradient(SGD(), 0.1, Budget(updates=1)), task)
    assert (task.model.a.item(), objective.log_z.item()) == pytest.approx((-0.2, -0.3), rel=1e-12)


def test_a_phase_knows_the_parameters_that_are_learned_and_no_foreign_ones() -> None:
    model, exchange = Line(), Exchange(Group())
    model.b.requires_grad_(False)
    exchange.prepare(model, Squares())
    assert list(exchange.choose(list(model.parameters()))) == ["a"]
    with pytest.raises(TypeError, match="neither"):
        exchange.choose([torch.nn.Parameter(torch.zeros(1))])


class Wandering(Squares):
    """An objective with memory: a buffer changed in place, and one that is replaced, at every call."""

    sharded = ("chains",)

    def __init__(self, *, wander: bool = True) -> None:
        super().__init__()
        self.wander = wander
        self.register_buffer("chains", torch.zeros(4, dtype=torch.float64))
        self.register_buffer("carried", torch.zeros(1, dtype=torch.float64))

    def forward(self, model: Line, batch: Any, *, noise: Any, phase: str, group: Any) -> Loss:
        if self.wander or phase != "validation":
            self.views()["chains"][:] += 1.0
            self.carried = self.carried + 1.0
        return super().forward(model, batch, noise=noise, phase=phase, group=group)


def test_validation_leaves_no_trace() -> None:
    """The fit is that of an objective which knows to keep still while it is judged."""
    held, ended = Batches(Examples({"X": np.array([[0.5, 1.0], [1.0, -1.0]])}), Rows(1, shuffle=False)), []
    for wander in (True, False):
        objective = Wandering(wander=wander)
        task = replace(problem(objective), validation=held)
        outcome = run_procedure(Gradient(Adam(), 0.1, Budget(epochs=2)), task)
        ended.append([outcome.history, objective.chains.tolist(), objective.carried.tolist(), task.model.a.item()])
    assert ended[0] == ended[1]
    assert ended[0][1:3] == [[10.0] * 4, [10.0]]


def test_what_is_watched_stands_first_and_judges() -> None:
    """A term named later: the record begins with it, the validation rows are judged by it alone."""

    class Watched(Squares):
        def forward(self, model: Line, batch: Any, **options: Any) -> Loss:
            loss = super().forward(model, batch, **options)
            return Loss({**loss.terms, "units": Term(6.0, 2.0)}, watch="units")

    task = replace(problem(Watched()), validation=Batches(Examples({"X": np.ones((2, 2))}), Rows(shuffle=False)))
    outcome = run_procedure(Gradient(SGD(), 0.1, Budget(epochs=2)), task)
    assert list(outcome.records[0]) == ["step", "epoch", "units", "error", "gradient_norm", "validation_units"]
    assert outcome.history["validation_units"] == [3.0, 3.0]
    plain = problem(Squares())
    run_procedure(Gradient(SGD(), 0.1, Budget(epochs=2)), plain)
    assert plain.model.a.item() == task.model.a.item(), "a number without a gradient changed the fit"


@pytest.mark.parametrize(("updates", "epochs"), [(3, [1]), (5, [1]), (12, [1, 2, 3])])
def test_a_budget_in_updates_ends_within_an_epoch(updates: int, epochs: list[int]) -> None:
    """The last record is of the updates since the one before; the schedule ends with the budget."""
    seen: list[int] = []

    class Rates(Squares):
        def forward(self, model: Line, batch: Any, **options: Any) -> Loss:
            seen.append(options["noise"].update)
            return super().forward(model, batch, **options)

    task = problem(Rates())
    outcome = run_procedure(Gradient(SGD(), 0.1, Budget(updates=updates), schedule=Linear(per="update")), task)
    assert outcome.steps == updates and outcome.history["epoch"] == epochs
    assert outcome.records[-1]["learning_rate"] == pytest.approx(0.1 / updates, rel=1e-12)
    assert seen == list(range(updates))


def test_a_budget_is_one_of_the_two() -> None:
    for wrong in ({}, {"epochs": 1, "updates": 1}):
        with pytest.raises(TypeError, match="epochs or updates"):
            Budget(**wrong)


@pytest.mark.parametrize("make", [Unequal, Wandering], ids=["phases", "memory"])
@pytest.mark.parametrize("stop", [1, 2, 3, 4, 6])
def test_stopped_anywhere_it_ends_the_same(make: Any, stop: int, tmp_path: Path) -> None:
    """Also where an epoch ends within a step of several updates, and where the budget ends within an epoch."""
    whole = make()
    task = problem(whole)
    outcome = run_procedure(Gradient(Adam(), 0.1, Budget(updates=8)), task)
    run = RunFolder.create(tmp_path / "run", CONFIG)
    run_procedure(Gradient(Adam(), 0.1, Budget(updates=8)), problem(make()), run, limit=stop)
    objective, again = make(), problem(make())
    again = replace(again, objective=objective)
    ended = run_procedure(Gradient(Adam(), 0.1, Budget(updates=8)), again, RunFolder.open(run.path))
    assert ended.records == outcome.records
    for one, other in ((task.model, again.model), (whole, objective)):
        for name, value in one.state().items():
            assert value.tobytes() == other.state()[name].tobytes(), name
