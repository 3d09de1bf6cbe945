"""Gradient: the arithmetic of terms, closed forms, phases, and resume to the bit with every optimizer."""

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
from gnomon.numeric.noise import Noise
from gnomon.objectives.base import Loss, Term
from gnomon.recipes.recipe import Recipe
from gnomon.runs.folder import RunFolder
from gnomon.training.driver import run_procedure
from gnomon.training.exchange import Exchange
from gnomon.training.gradient import Budget, Gradient
from gnomon.training.group import Group
from gnomon.training.optimizers import SGD, Adadelta, Adagrad, Adam, AdamW, RMSprop
from oracles.tasks import Duel, Line, Squares, problem, table

PLAIN = SGD()
OPTIMIZERS = [
    SGD(), SGD(momentum=0.9), SGD(momentum=0.5, nesterov=True, weight_decay=0.1), Adam(), Adam(beta1=0.0, epsilon=1e-3),
    Adam(bias_correction=False, amsgrad=True), AdamW(), Adagrad(inside=True), RMSprop(momentum=0.5, centered=True),
    Adadelta(),
]  # fmt: skip
CONFIG = {"kind": "fit", "system": "line", "where": "none:Line", "parameters": {}}


def fit(objective: Any, optimizer: Recipe = PLAIN, epochs: int = 4, **options: Any) -> tuple[Any, Any]:
    task = problem(objective, **options)
    return task, run_procedure(Gradient(optimizer, 0.1, Budget(epochs=epochs)), task)


def test_the_total_is_the_sum_of_scaled_means() -> None:
    """total = sum_k scale_k sum_k / W_k, against finite numbers: d/da of (3 a / 2 + 0.5 * 4 a^2 / 8) at a = 2."""
    model, exchange = Line(), Exchange(Group())
    model.a.data.fill_(2.0)
    exchange.prepare(model, Squares())
    a = model.a.sum()
    exchange.backward(Loss({"one": Term(3 * a, 2.0), "two": Term(4 * a**2, 8.0, 0.5)}), dict(model.named_parameters()))
    norm = exchange.finish()
    assert model.a.grad.item() == pytest.approx(3 / 2 + 0.5 * 4 * 4 / 8, rel=1e-15)
    assert norm == pytest.approx(abs(model.a.grad.item()), rel=1e-15)


@pytest.mark.spec("DLN-79")
def test_gradients_of_one_update_are_not_added_to_the_next() -> None:
    model, exchange = Line(), Exchange(Group())
    exchange.prepare(model, Squares())
    for _ in range(2):
        exchange.backward(Loss({"one": Term(3 * model.a.sum(), 1.0)}), exchange.choose(list(model.parameters())))
        exchange.finish()
    assert model.a.grad.item() == 3.0 and model.b.grad is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 1000])
def test_norm_and_scale_of_a_closed_form(dtype: torch.dtype, size: int) -> None:
    """Against NumPy, for lengths around the kernel's 16 running sums."""
    model = torch.nn.ParameterDict({"w": torch.nn.Parameter(torch.zeros(size, dtype=dtype))})
    gradient = np.random.default_rng(size).normal(size=size).astype(str(dtype).removeprefix("torch."))
    exchange = Exchange(Group())
    exchange.prepare(model, torch.nn.Module())
    exchange.backward(Loss({"e": Term(0.0, 4.0)}, {"w": gradient.copy()}, per="e"), dict(model.named_parameters()))
    norm = exchange.finish()
    assert np.allclose(model["w"].grad.numpy(), gradient / 4, rtol=1e-7)
    assert norm == pytest.approx(np.linalg.norm(gradient.astype(float) / 4), rel=1e-6)


@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_closed_form_and_autograd_take_the_same_way(penalty: float) -> None:
    auto, one = fit(Squares(penalty))
    closed, two = fit(Squares(penalty, closed=True))
    for name, value in auto.model.state().items():
        assert np.allclose(value, closed.model.state()[name], rtol=1e-12, atol=0)
    assert np.allclose(one.history["gradient_norm"], two.history["gradient_norm"], rtol=1e-10)
    assert np.allclose(one.history["error"], two.history["error"], rtol=1e-12)


@pytest.mark.spec("DLN-79")
@pytest.mark.spec("NLP-07")
def test_one_update_by_hand() -> None:
    X, weight = table()
    task, outcome = fit(Squares(), epochs=1, batch_size=None)
    error = 1.0 - X[:, 1]
    slope, offset = 2 * (weight * error * X[:, 0]).sum() / weight.sum(), 2 * (weight * error).sum() / weight.sum()
    assert task.model.a.item() == pytest.approx(-0.1 * slope, rel=1e-12)
    assert task.model.b.item() == pytest.approx(1 - 0.1 * offset, rel=1e-12)
    assert outcome.records[0]["error"] == pytest.approx((weight * error**2).sum() / weight.sum(), rel=1e-12)
    assert outcome.records[0]["gradient_norm"] == pytest.approx(np.hypot(slope, offset), rel=1e-12)


@pytest.mark.spec("NLP-07")
def test_epochs_are_torchs_descent_on_means_over_batches() -> None:
    """23 rows in batches of 5, the last of 3; every epoch has each row once, in an order of its own."""
    task, _ = fit(Squares(), epochs=3)
    X, weight = (torch.from_numpy(one) for one in table())
    a, b = (torch.nn.Parameter(torch.full((1,), value, dtype=torch.float64)) for value in (0.0, 1.0))
    theirs = torch.optim.SGD([a, b], 0.1)
    orders = [np.asarray(Noise(3, "fit").child("order").at(e).order(23)) for e in range(3)]
    assert all(sorted(order) == list(range(23)) for order in orders) and len({tuple(order) for order in orders}) == 3
    for rows in (rows for order in orders for rows in np.split(order, range(5, 23, 5))):
        theirs.zero_grad()
        losses = (a * X[rows, 0] + b - X[rows, 1]) ** 2
        ((weight[rows] * losses).sum() / weight[rows].sum()).backward()
        theirs.step()
    assert task.model.a.item() == pytest.approx(a.item(), rel=1e-12)
    assert task.model.b.item() == pytest.approx(b.item(), rel=1e-12)


def test_the_record_is_of_the_whole_epoch() -> None:
    """Of a model that stands still (no learning rate to speak of), the mean over batches is that over all rows."""
    task = problem(Squares())
    outcome = run_procedure(Gradient(SGD(), 1e-30, Budget(epochs=1)), task)
    X, weight = table()
    assert outcome.records[0]["error"] == pytest.approx((weight * (1 - X[:, 1]) ** 2).sum() / weight.sum(), rel=1e-12)
    assert outcome.steps == 5 and len(outcome.records) == 1


def test_phases_each_move_their_own_parameters_in_turn() -> None:
    """By hand: critic <- critic - 0.2 (critic - a - 1); a <- a - 0.1 critic, the new one."""
    objective = Duel()
    task, outcome = fit(objective, epochs=1)
    a, critic = 0.0, 0.5
    for _ in range(3):  # five batches, two to a step
        critic -= 0.1 * 2 * (critic - a - 1)
        a -= 0.1 * critic
    assert task.model.a.item() == pytest.approx(a, rel=1e-12)
    assert objective.critic.item() == pytest.approx(critic, rel=1e-12)
    assert task.model.b.item() == 1.0
    assert [phase for phase, _ in objective.seen] == ["up", "down"] * 3
    assert len({u for _, u in objective.seen}) == 6, "two phases or updates drew the same noise"
    assert {"critic", "model"} <= set(outcome.history)


def test_tolerance_ends_the_fit() -> None:
    task = problem(Squares(), batch_size=None)
    outcome = run_procedure(Gradient(SGD(), 0.1, Budget(epochs=5000), tol=1e-6), task)
    assert outcome.steps < 5000 and outcome.records[-1]["gradient_norm"] <= 1e-6
    X, weight = table()
    design = np.stack([X[:, 0], np.ones(len(X))], axis=1)
    best = np.linalg.lstsq(design * np.sqrt(weight)[:, None], X[:, 1] * np.sqrt(weight), rcond=None)[0]
    assert np.allclose([task.model.a.item(), task.model.b.item()], best, atol=1e-5)


@pytest.mark.spec("PRA-061")
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
@pytest.mark.parametrize(
    "make", [Squares, lambda: Squares(0.3, closed=True), Duel], ids=["autograd", "closed", "phases"]
)
def test_stopped_anywhere_it_ends_the_same(make: Any, optimizer: Recipe, tmp_path: Path) -> None:
    """Stopped within and at the end of an epoch, and started anew on other initial values, which must not matter."""
    whole = make()
    task, outcome = fit(whole, optimizer)
    for stop in (1, 5, 7, 19):
        run = RunFolder.create(tmp_path / str(stop), CONFIG)
        run_procedure(Gradient(optimizer, 0.1, Budget(epochs=4)), problem(make()), run, limit=stop)
        strange = Line()
        strange.a.data.fill_(77.0)
        objective = make()
        again = problem(objective, model=strange)
        ended = run_procedure(Gradient(optimizer, 0.1, Budget(epochs=4)), again, RunFolder.open(run.path))
        for name, value in task.model.state().items():
            assert value.tobytes() == again.model.state()[name].tobytes(), (stop, name)
        for name, value in whole.state().items():
            assert value.tobytes() == objective.state()[name].tobytes(), (stop, name)
        assert ended.records == outcome.records


def test_optimizer_state_is_what_makes_it_the_same(tmp_path: Path) -> None:
    """Without it the end is another one: the test above would be blind otherwise."""
    task, _ = fit(Squares(), Adam())
    run = RunFolder.create(tmp_path / "run", CONFIG)
    run_procedure(Gradient(Adam(), 0.1, Budget(epochs=4)), problem(Squares()), run, limit=7)
    arrays, facts = run.read_checkpoint() or ({}, {})
    assert {"optimizer/fit/0/exp_avg", "optimizer/fit/0/exp_avg_sq", "optimizer/fit/0/step"} <= arrays.keys()
    run.write_checkpoint({name: v for name, v in arrays.items() if not name.startswith("optimizer/")}, facts)
    again = problem(Squares())
    run_procedure(Gradient(Adam(), 0.1, Budget(epochs=4)), again, run)
    assert again.model.a.item() != task.model.a.item()


def test_adam_and_momentum_by_hand() -> None:
    """Two gradients in a row, with none of the default numbers."""
    gradients = np.array([[1.0, -2.0], [0.5, 3.0]])
    theta, m, v = np.zeros(2), np.zeros(2), np.zeros(2)
    for t, g in enumerate(gradients, start=1):
        m, v = 0.8 * m + 0.2 * g, 0.6 * v + 0.4 * g**2
        theta = theta - 0.1 * (m / (1 - 0.8**t)) / (np.sqrt(v / (1 - 0.6**t)) + 0.25)
    speed = 0.7 * gradients[0] + gradients[1]
    ends = {Adam(beta1=0.8, beta2=0.6, epsilon=0.25): theta, SGD(momentum=0.7): -0.1 * (gradients[0] + speed)}
    for recipe, end in ends.items():
        parameter = torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))
        optimizer = recipe.build([parameter], 0.1)
        for g in gradients:
            parameter.grad = torch.from_numpy(g.copy())
            optimizer.step()
        np.testing.assert_allclose(parameter.detach(), end, rtol=1e-12)


@pytest.mark.spec("DLN-79")
@pytest.mark.parametrize("batch_size", [1, 5, 22, 23, None])
def test_an_epoch_is_so_many_steps(batch_size: int | None) -> None:
    """ceil(n / size), the last one shorter; all rows at once are one step of gradient descent."""
    _, outcome = fit(Squares(), epochs=2, batch_size=batch_size)
    assert outcome.steps == 2 * -(-23 // (batch_size or 23))


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("clip", [0.5, 1e9])
def test_long_gradients_are_shortened(closed: bool, clip: float) -> None:
    """The step has norm rate * min(clip, norm); the record has the norm before."""
    task = problem(Squares(closed=closed), batch_size=None)
    outcome = run_procedure(Gradient(SGD(), 0.1, Budget(epochs=1), clip=clip), task)
    norm = outcome.records[0]["gradient_norm"]
    moved = np.array([task.model.a.item(), task.model.b.item() - 1.0])
    assert norm > 1
    assert np.linalg.norm(moved) == pytest.approx(0.1 * min(clip, norm), rel=1e-12)


@pytest.mark.parametrize("closed", [False, True])
def test_a_batch_whose_rows_have_no_weight_asks_for_no_step(closed: bool) -> None:
    task = problem(Squares(closed=closed))
    nothing = Examples({"X": table()[0]}, np.zeros(23))
    task = replace(task, batches=Batches(nothing, Rows(5), noise=task.noise))
    run_procedure(Gradient(SGD(), 0.1, Budget(epochs=1)), task)
    assert (task.model.a.item(), task.model.b.item()) == (0.0, 1.0)


def test_a_term_that_costs_is_computed_once_an_epoch() -> None:
    """On the last batch, whose value the record then holds."""
    calls: list[int] = []

    class Counted(Squares):
        def forward(self, model: Line, batch: Any, **options: Any) -> Loss:
            loss = super().forward(model, batch, **options)
            number = len(self.seen)
            self.seen.append(number)
            loss.terms["costly"] = Term(lambda: calls.append(number) or 2.0 * number, 4.0)  # type: ignore[func-returns-value]
            return loss

    objective = Counted(closed=True)
    objective.seen = []
    _, outcome = fit(objective, epochs=2)
    assert calls == [4, 9]
    assert outcome.history["costly"] == [2.0, 4.5]


def test_no_tolerance_runs_all_epochs() -> None:
    """Also where the gradient is zero."""

    class Flat(Squares):
        def forward(self, model: Line, batch: Any, **options: Any) -> Loss:
            return Loss({"error": Term(0.0, 1.0)}, {"a": np.zeros(1)}, per="error")

    _, outcome = fit(Flat(), epochs=3)
    assert len(outcome.records) == 3
