"""Schedules: closed forms, torch's own, Robbins and Monro's condition, and what a fit does with them."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gnomon.errors import UserValueError
from gnomon.recipes.recipe import named, shorts
from gnomon.runs.folder import RunFolder
from gnomon.training import schedules
from gnomon.training.driver import run_procedure
from gnomon.training.gradient import Budget, Gradient
from gnomon.training.optimizers import SGD
from gnomon.training.schedules import (
    Constant,
    Cosine,
    Exponential,
    InverseTime,
    Linear,
    Plateau,
    Polynomial,
    RobbinsMonro,
    Schedule,
    Step,
    WarmupLinear,
)  # fmt: skip
from oracles.tasks import Squares, problem

FORMS: dict[str, tuple[Schedule, Any]] = {
    "constant": (Constant(), lambda t: 1.0),
    "inverse-time": (InverseTime(rate=0.25), lambda t: 4 / (4 + t)),
    "robbins-monro": (RobbinsMonro(tau=3.0, kappa=0.6), lambda t: math.exp(-0.6 * math.log(t + 4))),
    "exponential": (Exponential(gamma=0.9), lambda t: math.exp(t * math.log(0.9))),
    "step": (Step(every=3, gamma=0.5), lambda t: 2.0 ** -(t // 3)),
    "linear": (Linear(floor=0.01, length=10), lambda t: 0.01 if t > 10 else 1 - 0.099 * t),
    "polynomial": (Polynomial(floor=0.2, power=2.0), lambda t: 0.2 + 0.8 * (1 - t / 20) ** 2),
    "warmup-linear": (WarmupLinear(floor=0.2), lambda t: t / 2 if t <= 2 else 0.2 + 0.8 * (20 - t) / 18),
    "cosine": (Cosine(floor=0.1), lambda t: 0.1 + 0.9 * math.cos(math.pi * t / 40) ** 2),
    "plateau": (Plateau(), lambda t: 1.0),
}


@pytest.mark.spec("DLN-90", "PRA-063")
@pytest.mark.parametrize("short", FORMS)
def test_the_closed_form(short: str) -> None:
    schedule, form = FORMS[short]
    assert schedule.short == short
    found = [schedule.factor(t, 20) for t in range(20)]
    np.testing.assert_allclose(found, [form(t) for t in range(20)], rtol=1e-12)


def test_every_schedule_has_a_form() -> None:
    assert set(shorts(schedules.Schedule)) == FORMS.keys()
    public = {named(schedules.Schedule, short).__name__ for short in FORMS}
    assert public | {"Schedule"} == set(schedules.__all__)


@pytest.mark.spec("PRA-063")
def test_linear_to_a_floor_in_numbers() -> None:
    """0.1 to 0.001 in 10: 0.0505 at 5."""
    assert 0.1 * Linear(floor=0.01, length=10).factor(5, 1000) == pytest.approx(0.0505, rel=1e-12)


@pytest.mark.spec("DLN-90", "PRA-063")
@pytest.mark.parametrize(
    ("schedule", "peer"),
    [
        (Exponential(gamma=0.8), lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.8)),
        (Step(every=4, gamma=0.3), lambda o: torch.optim.lr_scheduler.StepLR(o, 4, 0.3)),
        (Cosine(floor=0.25), lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 20, 0.025)),
        (Polynomial(power=3.0), lambda o: torch.optim.lr_scheduler.PolynomialLR(o, 20, 3.0)),
        (Linear(floor=0.01, length=10), lambda o: torch.optim.lr_scheduler.LinearLR(o, 1.0, 0.01, 10)),
    ],
    ids=["exponential", "step", "cosine", "polynomial", "linear"],
)
def test_torchs_own(schedule: Schedule, peer: Any) -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.1)
    other = peer(optimizer)
    for t in range(20):
        assert 0.1 * schedule.factor(t, 20) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9)
        optimizer.step()
        other.step()


LOSSES = [5.0, 4.0, 4.0, 4.0, 4.0, 3.0, 3.0, 3.0, 2.99995, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 1.0]


@pytest.mark.spec("PRA-063")
@pytest.mark.parametrize("cooldown", [0, 2])
@pytest.mark.parametrize("patience", [1, 2, 4])
def test_a_plateau_cuts_as_torch_does_one_epoch_later(patience: int, cooldown: int) -> None:
    """torch acts after patience + 1 bad epochs."""
    clock = Plateau(patience=patience, cooldown=cooldown, floor=0.1).build()
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.4)
    peer = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, factor=0.5, patience=patience - 1, threshold=1e-4, threshold_mode="abs", cooldown=cooldown,
        min_lr=0.04, eps=0.0,
    )  # fmt: skip
    for loss in LOSSES:
        clock.observe(loss)
        peer.step(loss)
        assert 0.4 * clock.factor(0, 1, 0, 1) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-12)


@pytest.mark.spec("PRA-063")
def test_a_plateau_by_hand() -> None:
    clock = Plateau(patience=2, shrink=0.1).build()
    factors = []
    for loss in (3.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0):
        clock.observe(loss)
        factors.append(clock.factor(0, 1, 0, 1))
    np.testing.assert_allclose(factors, [1, 1, 1, 0.1, 0.1, 0.1, 0.01])
    again = Plateau(patience=2, shrink=0.1).build()
    again.load(clock.state())
    assert again.state() == clock.state() and again.factor(0, 1, 0, 1) == clock.factor(0, 1, 0, 1)


@pytest.mark.spec("DLN-90")
def test_warm_up_comes_before() -> None:
    plain, warm = Exponential(gamma=0.5), Exponential(gamma=0.5, warmup=3)
    assert [warm.factor(t, 10) for t in range(3)] == [0.25, 0.5, 0.75]
    assert [warm.factor(t, 10) for t in range(3, 10)] == [plain.factor(t, 7) for t in range(7)]


@pytest.mark.spec("NLP-50")
def test_up_and_down_in_numbers() -> None:
    """A peak of 1e-3 after 100 of 1000 updates."""
    schedule = WarmupLinear(warmup=100)
    rates = [1e-3 * schedule.factor(t, 1000) for t in (0, 1, 50, 100, 550, 999, 1000, 2000)]
    assert rates == pytest.approx([0, 1e-5, 5e-4, 1e-3, 5e-4, 1e-3 / 900, 0, 0], rel=1e-12)
    assert schedule.per == "update" and schedule.counts_down
    assert [WarmupLinear(rise=0.0).factor(t, 4) for t in range(6)] == [1, 0.75, 0.5, 0.25, 0, 0]  # W = 0
    assert [WarmupLinear(rise=1.0).factor(t, 4) for t in range(4)] == [0, 0.25, 0.5, 0.75]
    assert [WarmupLinear(warmup=9).factor(t, 3) for t in range(3)] == [0, 1 / 9, 2 / 9]  # a fit shorter than that
    assert WarmupLinear(warmup=2, length=4).factor(3, 100) == 0.5


@pytest.mark.spec("NLP-50")
@pytest.mark.parametrize(("warmup", "total"), [(0, 7), (1, 7), (3, 10), (10, 10), (5, 3)])
def test_up_and_down_is_that_of_transformers(warmup: int, total: int) -> None:
    peer = pytest.importorskip("transformers").get_linear_schedule_with_warmup
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.4)
    other = peer(optimizer, warmup, total)
    schedule = WarmupLinear(warmup=warmup, rise=0.0)
    for t in range(total + 4):
        assert 0.4 * schedule.factor(t, total) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-12)
        assert other.get_last_lr() == [pytest.approx(0.4 * schedule.factor(t, total), rel=1e-12)]
        optimizer.step()
        other.step()


@pytest.mark.spec("DLN-90")
def test_one_over_t_reaches_the_optimum_and_a_constant_rate_does_not() -> None:
    """Descent on x^2 / 2 with noise N(0, 1) in the gradient, 200 paths of 4,000 updates.

    With rates r_t = 1 / (1 + t) x is the mean of the noise: variance 1 / 4000, here within a factor 1.5 (a chi-square
    of 200 degrees leaves that once in 10^4). A constant rate r = 0.2 stays at variance r / (2 - r) = 0.111.
    """
    noise = np.random.default_rng(0).normal(size=(4000, 200))
    ends = {}
    for name, schedule, rate in (("fall", InverseTime(rate=1.0), 1.0), ("constant", Constant(), 0.2)):
        x = np.ones(200)
        for t in range(4000):
            x = x - rate * schedule.factor(t, 4000) * (x + noise[t])
        ends[name] = float(np.mean(x**2))
    assert 1 / 1.5 < ends["fall"] * 4000 < 1.5
    assert 1 / 1.5 < ends["constant"] / (0.2 / 1.8) < 1.5


RATES: dict[str, tuple[Any, Any]] = {
    "exponential": (lambda per: Exponential(gamma=0.5, per=per), lambda t, whole: 0.5**t),
    "linear": (lambda per: Linear(floor=0.2, per=per), lambda t, whole: 1 - 0.8 * t / whole),
    "warmup-linear": (
        lambda per: WarmupLinear(warmup=1, per=per), lambda t, whole: float(t > 0) * (whole - t) / (whole - 1)
    ),
}  # fmt: skip


@pytest.mark.spec("DLN-90", "DLN-79", "PRA-063", "NLP-50")
@pytest.mark.parametrize("per", ["epoch", "update"])
@pytest.mark.parametrize("kind", RATES)
def test_a_fit_moves_at_the_scheduled_rate(kind: str, per: Any) -> None:
    """Ten updates of two epochs by hand, the schedule's t and its end counted in epochs or in updates."""
    make, factor = RATES[kind]
    schedule, whole = make(per), 2 if per == "epoch" else 10

    def rate_at(t: int) -> float:
        return float(0.1 * factor(t, whole))

    task = problem(Squares())
    outcome = run_procedure(Gradient(SGD(), 0.1, Budget(epochs=2), schedule=schedule), task)
    other = problem(Squares())
    model = other.model
    for update in range(10):
        epoch, place = divmod(update, 5)
        batch = other.batches.step(epoch, place)
        loss = other.objective(model, batch, noise=None, phase="fit", group=other.group).terms["error"]
        rate = rate_at(epoch if per == "epoch" else update)
        a, b = torch.autograd.grad(loss.sum / loss.weight, [model.a, model.b])
        with torch.no_grad():
            model.a -= rate * a
            model.b -= rate * b
    assert task.model.a.item() == pytest.approx(model.a.item(), rel=1e-12)
    assert task.model.b.item() == pytest.approx(model.b.item(), rel=1e-12)
    assert outcome.history["learning_rate"][-1] == pytest.approx(rate_at(whole - 1), rel=1e-12)


@pytest.mark.spec("NLP-50")
@pytest.mark.parametrize("stop", [1, 4, 9])
def test_a_fit_goes_on_at_the_rate_it_was_stopped_at(stop: int, tmp_path: Path) -> None:
    def procedure() -> Gradient:
        return Gradient(SGD(), 0.1, Budget(epochs=2), schedule=WarmupLinear(warmup=4))

    task, again = problem(Squares()), problem(Squares())
    run_procedure(procedure(), task)
    run = RunFolder.create(tmp_path / "run", {"kind": "fit", "system": "line", "where": "none:Line", "parameters": {}})
    run_procedure(procedure(), problem(Squares()), run, limit=stop)
    run_procedure(procedure(), again, RunFolder.open(run.path))
    assert again.model.a.item() == task.model.a.item() and again.model.b.item() == task.model.b.item()


def test_a_plateau_without_validation_rows_watches_the_training_loss() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        procedure = Gradient(SGD(), 1e-12, Budget(epochs=6), schedule=Plateau(patience=2))
        outcome = run_procedure(procedure, problem(Squares()))
    assert outcome.history["learning_rate"] == [1e-12, 1e-12, 1e-12, 5e-13, 5e-13, 2.5e-13]


@pytest.mark.spec("BAY-90")
def test_robbins_and_monros_steps() -> None:
    schedule = RobbinsMonro(tau=0.0, kappa=1.0)
    x, mean = np.random.default_rng(0).normal(size=500), 0.0
    for t, value in enumerate(x, 1):
        mean += schedule(t) * (value - mean)
        assert mean == pytest.approx(x[:t].mean(), rel=1e-9)
    t = np.arange(1, 1_000_001, dtype=float)
    for kappa in (0.51, 0.7, 1.0):  # each doubling adds to the sum as much as the one before or more, to squares less
        steps = (t + 1) ** -kappa
        assert RobbinsMonro(kappa=kappa)(5) == pytest.approx(steps[4])
        doubled = [slice(125_000, 250_000), slice(250_000, 500_000), slice(500_000, 1_000_000)]
        first, second, third = (steps[part].sum() for part in doubled)
        assert third >= second - 1e-5 >= first - 2e-5 and third > 0.69
        first, second, third = ((steps[part] ** 2).sum() for part in doubled)
        assert third < second < first
    assert [schedule.factor(k, 9) for k in range(3)] == [1.0, 0.5, 1 / 3]
    for kappa, words in ((0.5, "noise does not average out"), (0.3, "noise"), (1.1, "end before the optimum")):
        with pytest.warns(UserWarning, match=f"kappa should be in .0.5, 1.*{words}"):
            RobbinsMonro(kappa=kappa)
    with pytest.raises(UserValueError, match="t must be at least 1"):
        schedule(0)


@pytest.mark.spec("BAY-90")
def test_noisy_ascent_under_these_steps_reaches_the_stationary_point() -> None:
    rng, ends = np.random.default_rng(1), {}
    for kappa in (0.7, 1.0):
        schedule, x = RobbinsMonro(tau=5.0, kappa=kappa), 4.0
        for t in range(1, 20_001):
            x -= schedule(t) * (x - 1.0 + rng.normal())
        ends[kappa] = x
    assert all(abs(x - 1.0) < 0.12 for x in ends.values())  # 4 standard deviations of about 0.03: 1 in 16,000
