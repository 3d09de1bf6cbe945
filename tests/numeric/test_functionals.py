"""Functional derivatives: closed forms, directional differences, and the shortest path."""

import numpy as np
import pytest
import torch

from gnomon.errors import UserValueError
from gnomon.inference.variational.coordinate_ascent import coordinate_ascent
from gnomon.inference.variational.coordinate_forms import Grid
from gnomon.inference.variational.coordinate_mixed import factorization
from gnomon.numeric.functionals import cell_widths, functional_derivative
from gnomon.numeric.variations import residual, solve_boundary_value

X = np.sort(np.random.default_rng(0).uniform(0.0, 3.0, 40))
F = 0.3 + np.sin(X) ** 2
W = torch.from_numpy(cell_widths(X))


def entropy(f):
    return -(W * f * f.log()).sum()


@pytest.mark.spec("INF-94")
def test_an_entropy_has_minus_one_minus_the_log_whatever_the_grid():
    np.testing.assert_allclose(functional_derivative(entropy, F, X), -1 - np.log(F), atol=1e-12)
    fine = np.linspace(0, 3, 2001)  # a gradient that is not divided by the width would be some 700 times as small
    w = torch.from_numpy(cell_widths(fine))
    found = functional_derivative(lambda f: -(w * f * f.log()).sum(), 1 + fine, fine)
    np.testing.assert_allclose(found, -1 - np.log(1 + fine), atol=1e-10)


@pytest.mark.spec("INF-94")
def test_the_change_along_a_direction_is_the_integral_with_it():
    phi = np.cos(3 * X)
    J = lambda f: (W * (f**3 * torch.from_numpy(X) - f.log())).sum()  # noqa: E731
    found = functional_derivative(J, F, X)
    np.testing.assert_allclose(found, 3 * F**2 * X - 1 / F, atol=1e-12)
    e = 1e-5
    there, back = (J(torch.from_numpy(F + sign * e * phi)).item() for sign in (1, -1))
    assert (there - back) / (2 * e) == pytest.approx(float((cell_widths(X) * phi * found).sum()), rel=1e-8)


@pytest.mark.spec("INF-94")
def test_the_shortest_path_is_straight_and_has_no_residual():
    length = lambda t, u, v: (1 + v**2).sqrt()  # noqa: E731
    path = solve_boundary_value(length, (0.0, 1.0), (2.0, 4.0), start=np.linspace(0, 1, 41) ** 3 * 3 + 1, points=41)
    np.testing.assert_allclose(path.u, 1 + 1.5 * path.t, atol=1e-9)
    assert path.kind == "minimum"
    np.testing.assert_allclose(residual(length, path.u, path.t), 0, atol=1e-8)
    # the same expression by the derivative of the functional at the inner points
    step = torch.from_numpy(np.diff(path.t))
    J = lambda u: (step * (1 + (torch.diff(u) / step) ** 2).sqrt()).sum()  # noqa: E731
    bent = path.u + 0.2 * np.sin(path.t)
    np.testing.assert_allclose(functional_derivative(J, bent, path.t)[1:-1], residual(length, bent, path.t), atol=1e-10)


@pytest.mark.spec("INF-94")
def test_the_bound_stands_at_the_best_factor_but_for_its_normalization():
    """dL / dq(x) = E[log p] - log q - 1 is the same everywhere: the multiplier of the constraint that q sums to 1."""
    family = factorization(
        lambda a, b: -0.5 * a**2 - 0.5 * (b - np.sin(2 * a)) ** 2, {"a": Grid(cells=61), "b": Grid(cells=61)}
    )
    found = coordinate_ascent(family, tol_h=1e-14)
    a = Grid(cells=61).points()
    width = torch.full((61,), 10 / 61, dtype=torch.float64)
    qb = torch.from_numpy(found.state["b"][0])
    log_p = torch.from_numpy(-0.5 * a[:, None] ** 2 - 0.5 * (a[None] - np.sin(2 * a[:, None])) ** 2)

    def bound(q):
        return (width * q * (log_p @ qb)).sum() - (width * q * q.log()).sum()

    slope = functional_derivative(bound, found.state["a"][0] / width.numpy(), a, weights=width.numpy())
    np.testing.assert_allclose(slope, slope[0], atol=1e-8)


@pytest.mark.spec("INF-94")
def test_what_does_not_fit_is_refused():
    for act, words in [
        (lambda: functional_derivative(entropy, F[1:], X), "a number for each of 40 points"),
        (lambda: functional_derivative(entropy, F - 1, X), "J must return one finite number"),
        (lambda: functional_derivative(entropy, F, X[::-1]), "grid must hold two or more finite, ascending points"),
        (lambda: functional_derivative(entropy, F, X, weights=0 * X), "weights must be positive"),
        (lambda: functional_derivative(lambda f: 1.0, F, X), "J must return one finite number"),
    ]:
        with pytest.raises(UserValueError, match=words):
            act()
