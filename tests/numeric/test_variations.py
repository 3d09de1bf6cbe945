"""Euler-Lagrange: residuals worked out by hand, finite differences of the action, solutions known in closed form."""

import math

import numpy as np
import pytest
import torch

from gnomon.errors import Diverged, UserError
from gnomon.numeric.derivatives import numeric_gradient
from gnomon.numeric.variations import action, residual, solve_boundary_value

T = np.linspace(0.2, 1.7, 8)
SIN, COS = np.sin(T), np.cos(T)


def free_particle(t, u, v):
    return v**2 / 2


def oscillator(t, u, v):
    return (v**2 - u**2) / 2


@pytest.mark.spec("DLN-37")
@pytest.mark.parametrize(
    ("L", "u", "expected"),
    [
        (free_particle, lambda t: 3 * t - 1, 0 * T),
        (free_particle, lambda t: t**3, -6 * T),
        (oscillator, lambda t: t.sin(), 0 * T),
        (oscillator, lambda t: t**2, -(T**2) - 2),
        (oscillator, lambda t: torch.ones_like(t), 0 * T - 1),
        (lambda t, u, v: t * v * u**2, lambda t: t.sin(), -(SIN**2)),  # 2tuv - d/dt (t u^2) = -u^2
        (lambda t, u, v: torch.sqrt(1 + v**2), lambda t: t.sin(), SIN / (1 + COS**2) ** 1.5),  # minus the curvature
        (lambda t, u, v: t * u, lambda t: t.sin(), T),
        (lambda t, u, v: t * t, lambda t: t.sin(), 0 * T),
        (lambda t, u, v: u * (1 + v**2).sqrt(), lambda t: 0.7 * (t / 0.7).cosh(), 0 * T),
    ],
)
def test_residuals_worked_out_by_hand(L, u, expected):
    np.testing.assert_allclose(residual(L, u, T), expected, atol=1e-13)


@pytest.mark.spec("DLN-37")
def test_a_field_has_the_divergence_of_its_momenta():
    """Of |grad u|^2 / 2 + x u it is x - Laplacian u; of a minimal surface (Scherk's) 0."""
    points = np.random.default_rng(0).uniform(-1, 1, size=(20, 2))
    x, y = points.T
    L = lambda p, u, g: (g**2).sum(1) / 2 + p[:, 0] * u  # noqa: E731
    found = residual(L, lambda p: p[:, 0] ** 2 * p[:, 1] + p[:, 1] ** 3, points)
    np.testing.assert_allclose(found, x - 8 * y, atol=1e-13)
    area = lambda p, u, g: (1 + (g**2).sum(1)).sqrt()  # noqa: E731
    scherk = lambda p: (p[:, 1].cos() / p[:, 0].cos()).log()  # noqa: E731
    np.testing.assert_allclose(residual(area, scherk, points), 0, atol=1e-12)


@pytest.mark.spec("DLN-37")
@pytest.mark.parametrize("L", [oscillator, lambda t, u, v: t * v**2 * u + u**3 + (1 + v**2).sqrt()])
def test_the_gradient_of_the_action_is_the_residual_up_to_h_squared(L):
    errors = []
    for n in (101, 201):
        t = np.linspace(0, 1.5, n)
        u = np.exp(np.sin(2 * t))
        slope = numeric_gradient(lambda w, t=t: action(L, w, t), u)[1:-1] / (t[1] - t[0])
        np.testing.assert_allclose(residual(L, u, t), slope, atol=1e-6)
        errors.append(np.abs(slope - residual(L, lambda s: (2 * s).sin().exp(), t)[1:-1]).max())
    assert errors[0] / errors[1] == pytest.approx(4, abs=0.1)
    assert errors[1] < 0.05


@pytest.mark.spec("DLN-37")
def test_uneven_times():
    t = np.array([0.0, 0.1, 0.3, 0.7, 0.8])
    np.testing.assert_allclose(residual(free_particle, t**2, t), -2, atol=1e-13)
    assert action(lambda t, u, v: t * v, 3 * t, t) == pytest.approx(3 * 0.8**2 / 2, rel=1e-14)


@pytest.mark.spec("DLN-37")
def test_the_shortest_way_is_straight():
    for L in (free_particle, lambda t, u, v: (1 + v**2).sqrt()):
        bent = np.sin(np.linspace(0, 3, 51))
        found = solve_boundary_value(L, (1.0, 2.0), (3.0, -1.0), points=51, start=bent)
        np.testing.assert_allclose(found.u, 2 - 1.5 * (found.t - 1), atol=1e-10)
        assert found.kind == "minimum" and found.u[0] == 2 and found.u[-1] == -1
    assert found.action == pytest.approx(math.hypot(2, 3), rel=1e-12)


@pytest.mark.spec("DLN-37")
def test_a_quarter_of_an_oscillation_and_the_order_of_the_error():
    errors = []
    for points in (51, 101):
        found = solve_boundary_value(oscillator, (0.0, 0.0), (np.pi / 2, 1.0), points=points)
        errors.append(np.abs(found.u - np.sin(found.t)).max())
        assert found.kind == "minimum" and found.residual < 1e-10 and found.iterations <= 2
        assert found.curvatures[0] > 0
        np.testing.assert_allclose(residual(oscillator, found.u, found.t), 0, atol=1e-8)
    assert errors[1] < 1e-4 and errors[0] / errors[1] == pytest.approx(4, abs=0.1)


@pytest.mark.spec("DLN-37")
@pytest.mark.parametrize(
    ("L", "end", "kind"),
    [
        (oscillator, 0.9 * np.pi, "minimum"),
        (oscillator, 1.5 * np.pi, "saddle"),  # beyond the conjugate point pi
        (lambda t, u, v: -oscillator(t, u, v), 0.9 * np.pi, "maximum"),
        (lambda t, u, v: u * v, 1.0, "degenerate"),  # a total derivative: every function is stationary
    ],
)
def test_stationary_is_not_minimal(L, end, kind):
    """The kind is checked by trying: the action beside the solution is higher, lower or both."""
    found = solve_boundary_value(L, (0.0, 0.0), (end, np.sin(end)), points=61)
    assert found.kind == kind
    rise = []
    for k in range(1, 60):
        bump = np.sin(np.pi * k * (found.t - found.t[0]) / end) * 1e-2
        rise.append(action(L, found.u + bump, found.t) - found.action)
    signs = {"minimum": {1.0}, "maximum": {-1.0}, "saddle": {-1.0, 1.0}, "degenerate": {0.0}}[kind]
    assert set(np.sign(np.round(rise, 12)).tolist()) == signs


@pytest.mark.spec("DLN-37")
def test_free_ends_have_no_momentum():
    """u'' = -1 with u(0) = 0 and u'(1) = 0: t - t^2 / 2, here exact; of both ends u'' = u - t."""
    fall = solve_boundary_value(lambda t, u, v: v**2 / 2 - u, (0.0, 0.0), (1.0, None), points=41)
    np.testing.assert_allclose(fall.u, fall.t - fall.t**2 / 2, atol=1e-12)
    assert fall.kind == "minimum"
    mirrored = solve_boundary_value(lambda t, u, v: v**2 / 2 - u, (-1.0, None), (0.0, 0.0), points=41)
    np.testing.assert_allclose(mirrored.u, fall.u[::-1], atol=1e-12)
    both = solve_boundary_value(lambda t, u, v: v**2 / 2 + (u - t) ** 2 / 2, (0.0, None), (1.0, None), points=401)
    c = (np.e**-1 - 1) / (np.e - np.e**-1)
    exact = both.t + c * np.exp(both.t) + (1 + c) * np.exp(-both.t)
    assert 1 + c - (1 + c) == 0 and abs(1 + c * np.e - (1 + c) / np.e) < 1e-15
    np.testing.assert_allclose(both.u, exact, atol=1e-5)
    loose = solve_boundary_value(free_particle, (0.0, None), (1.0, None))
    assert loose.kind == "degenerate" and np.ptp(loose.u) == 0


@pytest.mark.spec("DLN-37")
def test_the_catenary_and_ends_too_far_apart_for_one():
    """u = c cosh(t / c) between (-1, y) and (1, y): two solutions for y > 1.5088795, none below."""
    soap = lambda t, u, v: u * (1 + v**2).sqrt()  # noqa: E731
    c = 0.9
    y = c * math.cosh(1 / c)
    found = solve_boundary_value(soap, (-1.0, y), (1.0, y), points=401)
    np.testing.assert_allclose(found.u, c * np.cosh(found.t / c), atol=1e-4)
    assert found.kind == "minimum"
    deep = 0.6
    y = deep * math.cosh(1 / deep)
    t = np.linspace(-1, 1, 401)
    other = solve_boundary_value(soap, (-1.0, y), (1.0, y), points=401, start=deep * np.cosh(t / deep))
    np.testing.assert_allclose(other.u, deep * np.cosh(t / deep), atol=1e-3)
    assert other.kind == "saddle"
    with pytest.raises(Diverged, match=r"no stationary point|singular") as caught:
        solve_boundary_value(soap, (-1.0, 1.0), (1.0, 1.0), points=101)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: solve_boundary_value(oscillator, (1.0, 0.0), (0.0, 1.0)), "a before b"),
        (
            lambda: solve_boundary_value(oscillator, (0.0, 0.0), (1.0, math.nan)),
            r"values must be finite, or None for a free end, got 0\.0 and nan \(a, b\)",
        ),
        (
            lambda: solve_boundary_value(oscillator, (0.0, 0.0), (1.0, 1.0), points=2),
            "points must be at least 3, got 2",
        ),
        (
            lambda: solve_boundary_value(oscillator, (0.0, 0.0), (1.0, 1.0), start=[1.0]),
            r"start must hold 101 finite values, got an array of shape \(1,\)",
        ),
        (
            lambda: solve_boundary_value(oscillator, (0.0, 0.0), (1.0, 1.0), tol=0),
            r"tol must be positive and max_iter at least 1, got 0 and 100 \(tol, max_iter\)",
        ),
        (
            lambda: solve_boundary_value(lambda t, u, v: v.sum(), (0.0, 0.0), (1.0, 1.0)),
            r"L must return one value each, \(100,\), got shape \(\)",
        ),
        (
            lambda: solve_boundary_value(lambda t, u, v: 1.0, (0.0, 0.0), (1.0, 1.0)),
            "L must return a tensor, got a float; compute with torch operations",
        ),
        (
            lambda: solve_boundary_value(lambda t, u, v: v.log(), (0.0, 0.0), (1.0, -1.0)),
            "action or its gradient is not finite",
        ),
        (lambda: solve_boundary_value(lambda t, u, v: u, (0.0, 0.0), (1.0, 1.0)), "second variation is singular"),
        (
            lambda: solve_boundary_value(lambda t, u, v: v**2 + u**4, (0.0, 0.0), (1.0, 9.0), max_iter=1),
            "no stationary point was found in 1 steps: the gradient is .*`start` or more steps",
        ),
        (lambda: residual(oscillator, [0.0, 1.0], [0.0, 1.0]), "three or more"),
        (lambda: residual(oscillator, [0.0, 1.0, 1.0], [0.0, 1.0, 1.0]), "ascending times"),
        (lambda: residual(oscillator, lambda t: t.sum(), T), r"u must return one value each, \(8,\), got shape \(\)"),
        (lambda: residual(oscillator, lambda t: t, 1.0), r"grid must be times \(n,\) or points \(n, d\), got 1\.0"),
        (
            lambda: action(oscillator, [0.0], [0.0, 1.0]),
            r"u must hold one value for each of the 2 times, got an array of shape \(1,\)",
        ),
    ],
)
def test_mistakes_are_told_in_one_line(call, message):
    with pytest.raises(UserError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
