"""Optimizers, each against the recursion that defines it, in double precision."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from gnomon.errors import UserValueError
from gnomon.recipes.parameters import check_parameters
from gnomon.recipes.recipe import named, shorts
from gnomon.training.optimizers import SGD, Adadelta, Adagrad, Adam, AdamW, Optimizer, RMSprop

GRADIENTS = np.random.default_rng(0).normal(size=(12, 3, 2))
START = np.random.default_rng(1).normal(size=(3, 2))


def run(recipe: Optimizer, gradient: Any, x: Any, rate: float, steps: int) -> list[np.ndarray]:
    """x after each step, by the recipe."""
    parameter = torch.nn.Parameter(torch.tensor(x, dtype=torch.float64))
    optimizer = recipe.build([parameter], rate)
    seen = []
    for t in range(steps):
        parameter.grad = torch.as_tensor(gradient(t, parameter.detach().numpy()), dtype=torch.float64).clone()
        optimizer.step()
        seen.append(parameter.detach().numpy().copy())
    return seen


def parabola(t: int, x: np.ndarray) -> np.ndarray:
    """The gradient of x^2."""
    return 2 * x


def given(t: int, x: np.ndarray) -> np.ndarray:
    return GRADIENTS[t]


@pytest.mark.parametrize(
    ("recipe", "rate", "numbers"),
    [
        pytest.param(SGD(momentum=0.9), 0.05, (0.9, 0.72, 0.486), marks=pytest.mark.spec("DLN-91")),
        pytest.param(
            Adagrad(epsilon=1e-6, inside=True), 0.1, (0.900000, 0.833104, 0.780456), marks=pytest.mark.spec("DLN-92")
        ),
        pytest.param(RMSprop(epsilon=1e-6), 0.1, (0.683773, 0.498871, 0.369181), marks=pytest.mark.spec("DLN-93")),
        pytest.param(Adadelta(epsilon=1e-5), 1.0, (0.990000, 0.979789, 0.969469), marks=pytest.mark.spec("DLN-94")),
        pytest.param(Adam(), 0.1, (0.900000, 0.800412, 0.701586), marks=pytest.mark.spec("DLN-95")),
        pytest.param(
            Adam(bias_correction=False), 0.1, (0.683772, 0.270206, -0.162141), marks=pytest.mark.spec("DLN-95")
        ),
    ],
    ids=["momentum", "adagrad", "rmsprop", "adadelta", "adam", "adam uncorrected"],
)
def test_the_parabola(recipe: Optimizer, rate: float, numbers: tuple[float, ...]) -> None:
    """Three steps on x^2 from 1, to six digits."""
    seen = run(recipe, parabola, [1.0], rate, 3)
    np.testing.assert_allclose(np.concatenate(seen), numbers, rtol=0, atol=1.01e-6)


def sgd(x: np.ndarray, rate: float, momentum: float, nesterov: bool, decay: float) -> Any:
    v = np.zeros_like(x)
    for g in GRADIENTS:
        g = g + decay * x
        v = momentum * v + g
        x = x - rate * (g + momentum * v if nesterov else v)
        yield x


def adam(x: np.ndarray, rate: float, r: Any) -> Any:
    decoupled = isinstance(r, AdamW)
    m, s, largest = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
    for t, g in enumerate(GRADIENTS, start=1):
        if decoupled:
            x = x * (1 - rate * r.weight_decay)
        else:
            g = g + r.weight_decay * x
        m, s = r.beta1 * m + (1 - r.beta1) * g, r.beta2 * s + (1 - r.beta2) * g**2
        corrected = decoupled or r.bias_correction
        first, second = (1 - r.beta1**t, 1 - r.beta2**t) if corrected else (1.0, 1.0)
        largest = np.maximum(largest, s)
        top = largest if not decoupled and r.amsgrad else s
        x = x - rate * (m / first) / (np.sqrt(top / second) + r.epsilon)
        yield x


def adagrad(x: np.ndarray, rate: float, r: Adagrad) -> Any:
    s = np.zeros_like(x)
    for g in GRADIENTS:
        g = g + r.weight_decay * x
        s = s + g**2
        x = x - rate * g / (np.sqrt(s + r.epsilon) if r.inside else np.sqrt(s) + r.epsilon)
        yield x


def rmsprop(x: np.ndarray, rate: float, r: RMSprop) -> Any:
    s, mean, v = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
    for g in GRADIENTS:
        g = g + r.weight_decay * x
        s, mean = r.decay * s + (1 - r.decay) * g**2, r.decay * mean + (1 - r.decay) * g
        root = np.sqrt(s - mean**2 if r.centered else s) + r.epsilon
        v = r.momentum * v + g / root
        x = x - rate * v
        yield x


def adadelta(x: np.ndarray, rate: float, r: Adadelta) -> Any:
    s, d = np.zeros_like(x), np.zeros_like(x)
    for g in GRADIENTS:
        g = g + r.weight_decay * x
        s = r.decay * s + (1 - r.decay) * g**2
        step = np.sqrt((d + r.epsilon) / (s + r.epsilon)) * g
        x = x - rate * step
        d = r.decay * d + (1 - r.decay) * step**2
        yield x


CASES = [
    *[
        pytest.param(r, lambda x, rate, r=r: sgd(x, rate, r.momentum, r.nesterov, r.weight_decay), marks=mark)
        for r, mark in (
            (SGD(), pytest.mark.spec("DLN-88")),
            (SGD(momentum=0.7), pytest.mark.spec("DLN-91", "PRA-061")),
            (SGD(momentum=0.7, nesterov=True), pytest.mark.spec("DLN-91")),
            (SGD(weight_decay=0.2), pytest.mark.spec("LIN-22")),
            (SGD(momentum=0.5, weight_decay=0.2), pytest.mark.spec("PRA-061")),
        )
    ],
    *[
        pytest.param(r, lambda x, rate, r=r: adam(x, rate, r), marks=pytest.mark.spec("DLN-95", "PRA-061"))
        for r in (
            Adam(0.8, 0.6, 0.25), Adam(0.8, 0.6, 0.25, 0.3), Adam(0.8, 0.6, 0.25, bias_correction=False),
            Adam(0.8, 0.6, 0.25, amsgrad=True), Adam(0.8, 0.6, 0.25, bias_correction=False, amsgrad=True),
            AdamW(0.8, 0.6, 0.25, 0.3), AdamW(0.0, 0.6, 0.25, 0.0),
        )
    ],
    *[
        pytest.param(r, lambda x, rate, r=r: adagrad(x, rate, r), marks=pytest.mark.spec("DLN-92"))
        for r in (Adagrad(0.25), Adagrad(0.25, inside=True), Adagrad(0.25, weight_decay=0.3))
    ],
    *[
        pytest.param(r, lambda x, rate, r=r: rmsprop(x, rate, r), marks=pytest.mark.spec("DLN-93"))
        for r in (RMSprop(0.6, 0.25), RMSprop(0.6, 0.25, 0.4), RMSprop(0.6, 0.25, centered=True, weight_decay=0.3))
    ],
    *[
        pytest.param(r, lambda x, rate, r=r: adadelta(x, rate, r), marks=pytest.mark.spec("DLN-94"))
        for r in (Adadelta(0.6, 0.25), Adadelta(0.6, 0.25, 0.3))
    ],
]  # fmt: skip


@pytest.mark.parametrize(("recipe", "recursion"), CASES, ids=lambda value: repr(value) if "(" in repr(value) else "")
def test_the_recursion(recipe: Optimizer, recursion: Any) -> None:
    """Twelve arbitrary gradients, with none of the default numbers."""
    for seen, wanted in zip(run(recipe, given, START, 0.1, 12), recursion(START, 0.1), strict=True):
        np.testing.assert_allclose(seen, wanted, rtol=1e-12, atol=1e-13)


def test_every_optimizer_has_a_case() -> None:
    tried = {type(case.values[0]) for case in CASES}
    assert {named(Optimizer, short) for short in shorts(Optimizer)} == tried


@pytest.mark.spec("DLN-88", "NLP-07")
def test_descent_on_a_parabola_contracts_by_one_number() -> None:
    """x_t = (1 - rate * lambda)^t x_0 for the gradient lambda x."""
    seen = run(SGD(), lambda t, x: 3.0 * x, [2.0], 0.1, 20)
    np.testing.assert_allclose(np.concatenate(seen), 2.0 * 0.7 ** np.arange(1, 21), rtol=1e-12)


@pytest.mark.spec("DLN-91")
def test_a_constant_gradient_ends_at_a_speed() -> None:
    seen = run(SGD(momentum=0.9), lambda t, x: np.full(1, 2.0), [0.0], 0.05, 400)
    assert (seen[-2] - seen[-1])[0] == pytest.approx(0.05 * 2 / (1 - 0.9), rel=1e-12)


@pytest.mark.spec("DLN-91")
def test_the_rate_stands_outside_the_velocity() -> None:
    """After a change of rate the old velocity moves at the new rate: x_2 = x_1 - r_2 (mu g + g)."""
    parameter = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = SGD(momentum=0.5).build([parameter], 0.1)
    for rate in (0.1, 0.01):
        optimizer.param_groups[0]["lr"] = rate
        parameter.grad = torch.ones(1, dtype=torch.float64)
        optimizer.step()
    assert parameter.item() == pytest.approx(-0.1 - 0.01 * 1.5, rel=1e-12)


@pytest.mark.spec("DLN-92")
def test_adagrads_steps_do_not_know_the_scale_of_a_coordinate() -> None:
    plain = run(Adagrad(1e-30), given, START, 0.1, 12)[-1]
    scaled = run(Adagrad(1e-30), lambda t, x: 1000.0 * GRADIENTS[t], START, 0.1, 12)[-1]
    np.testing.assert_allclose(plain, scaled, rtol=1e-12)


@pytest.mark.spec("DLN-95", "PRA-061")
def test_adams_first_step_has_the_size_of_the_rate() -> None:
    gradient = GRADIENTS[0]
    step = run(Adam(epsilon=1e-3), given, START, 0.1, 1)[0] - START
    np.testing.assert_allclose(step, -0.1 * gradient / (np.abs(gradient) + 1e-3), rtol=1e-12)


@pytest.mark.spec("DLN-91", "DLN-92", "DLN-93", "DLN-94", "DLN-95", "PRA-061")
@pytest.mark.parametrize("recipe", [Adagrad(), RMSprop(), Adadelta(decay=0.7), Adam(), AdamW(), SGD(momentum=0.9)])
def test_the_defaults_are_torchs_formulas(recipe: Optimizer) -> None:
    """Against torch's own optimizer, made by hand; to the bit, but for Adam's, which gnomon takes in one kernel."""
    options: dict[type, Any] = {
        Adagrad: lambda p: torch.optim.Adagrad(p, 0.1),
        RMSprop: lambda p: torch.optim.RMSprop(p, 0.1, alpha=0.9),
        Adadelta: lambda p: torch.optim.Adadelta(p, 0.1, rho=0.7),
        Adam: lambda p: torch.optim.Adam(p, 0.1),
        AdamW: lambda p: torch.optim.AdamW(p, 0.1),
        SGD: lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
    }
    parameter = torch.nn.Parameter(torch.tensor(START))
    peer = options[type(recipe)]([parameter])
    for g, seen in zip(GRADIENTS, run(recipe, given, START, 0.1, 12), strict=True):
        parameter.grad = torch.from_numpy(g.copy())
        peer.step()
        apart = 1e-13 if isinstance(recipe, Adam | AdamW) else 0.0
        np.testing.assert_allclose(parameter.detach().numpy(), seen, rtol=apart, atol=apart)


@pytest.mark.spec("LIN-22", "LIN-04", "DLN-71")
@pytest.mark.parametrize(("decay", "w", "b"), [(0.0, 0.7666667, 0.3333333), (0.1, 1.29, 0.1333333)])
def test_one_step_of_a_line(decay: float, w: float, b: float) -> None:
    """Three points, rate 0.1; without decay from 0, with decay from w = 1, which shrinks by 1 - 0.01; b never does."""
    x, y = torch.tensor([[1.0], [2.0], [3.0]], dtype=torch.float64), torch.tensor([2.0, 3.0, 5.0], dtype=torch.float64)
    weight = torch.nn.Parameter(torch.full((1, 1), float(decay > 0), dtype=torch.float64))
    bias = torch.nn.Parameter(torch.full((1,), 0.0, dtype=torch.float64))
    optimizer = SGD(weight_decay=decay).build([weight, bias], 0.1)
    (0.5 * ((x @ weight)[:, 0] + bias - y).square().mean()).backward()
    optimizer.step()
    assert weight.item() == pytest.approx(w, abs=5e-8)
    assert bias.item() == pytest.approx(b, abs=5e-8)


@pytest.mark.spec("LIN-22", "DLN-71")
@pytest.mark.parametrize(
    "recipe", [SGD(weight_decay=0.5), Adam(weight_decay=0.5), AdamW(weight_decay=0.5), Adagrad(weight_decay=0.5),
               RMSprop(weight_decay=0.5), Adadelta(weight_decay=0.5)]
)  # fmt: skip
def test_biases_do_not_decay(recipe: Optimizer) -> None:
    """With gradients of 0 a matrix shrinks and a bias stays."""
    matrix, bias = (torch.nn.Parameter(torch.ones(shape, dtype=torch.float64)) for shape in ((2, 2), (2,)))
    optimizer = recipe.build([matrix, bias], 0.1)
    matrix.grad, bias.grad = torch.zeros(2, 2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    optimizer.step()
    assert bool((matrix < 1).all()) and bias.tolist() == [1.0, 1.0]


@pytest.mark.spec("DLN-88", "DLN-89")
def test_batches_step_as_all_rows_do_on_average() -> None:
    """The mean step over every batch of m of 6 rows is the full step; its variance is s^2 / m * (6 - m) / 5."""
    rows = np.random.default_rng(2).normal(size=(6, 2))
    gradients = rows[:, :1] * (rows @ np.array([0.5, 1.0]) - 1.0)[:, None]
    spread = gradients.var()
    for m in range(1, 7):
        steps = np.array([
            run(SGD(), lambda t, x, b=batch: gradients[list(b)].mean(0), [0.0], 0.1, 1)[0]
            for batch in itertools.combinations(range(6), m)
        ])  # fmt: skip
        np.testing.assert_allclose(steps.mean(0), -0.1 * gradients.mean(0), rtol=1e-12)
        np.testing.assert_allclose(steps.var(0), 0.01 * spread / m * (6 - m) / 5, rtol=1e-9, atol=1e-18)


def test_what_is_refused() -> None:
    with pytest.raises(UserValueError, match="give a momentum"):
        SGD(nesterov=True).build([], 0.1)
    for wrong in (SGD(momentum=1.0), Adam(beta2=1.5), Adagrad(epsilon=0.0), RMSprop(decay=1.0)):
        with pytest.raises(UserValueError, match="must be a number in"):
            check_parameters(wrong, wrong.get_params())
