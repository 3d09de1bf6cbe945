"""Conjugate gradients against closed forms and SciPy, and the non-linear ones against their limits."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import optimize, sparse
from scipy.sparse import linalg

from gnomon.errors import UserValueError
from gnomon.numeric.conjugate_gradient import advance, begin, conjugate_gradient
from gnomon.numeric.minimization import minimize

A, B = np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])


def definite(n=30, seed=0, kinds=None):
    """A random positive definite matrix, of so many distinct eigenvalues."""
    random = np.random.default_rng(seed)
    values = random.uniform(1, 50, n) if kinds is None else np.resize(np.linspace(1, 9, kinds), n)
    turned = np.linalg.qr(random.normal(size=(n, n)))[0]
    return (turned * values) @ turned.T, random.normal(size=n)


@pytest.mark.spec("BAY-83")
def test_two_equations_in_two_steps():
    found = conjugate_gradient(A, B, rtol=1e-12)
    assert found.iterations == 2 and found.converged and np.allclose(found.x, [1 / 11, 7 / 11], rtol=1e-14)
    assert len(found.residuals) == 3 and found.residuals[0] == pytest.approx(math.sqrt(5))
    from_two_one = conjugate_gradient(A, B, [2.0, 1.0], rtol=1e-12)
    assert from_two_one.iterations == 2 and np.allclose(from_two_one.x, [1 / 11, 7 / 11])
    assert np.allclose(conjugate_gradient(A, B, [2.0, 1.0], max_iter=1).x, [0.2356, 0.3384], atol=5e-5)


@pytest.mark.spec("BAY-83")
@pytest.mark.parametrize("kinds", [1, 2, 5])
def test_as_many_steps_as_distinct_eigenvalues(kinds):
    matrix, b = definite(40, kinds=kinds)
    found = conjugate_gradient(matrix, b, rtol=1e-10)
    assert found.iterations == kinds and np.allclose(matrix @ found.x, b, rtol=1e-8)


@pytest.mark.spec("BAY-83")
def test_the_error_in_the_norm_of_the_matrix_falls_at_every_step():
    matrix, b = definite()
    exact, past = np.linalg.solve(matrix, b)[:, None], math.inf
    state = begin(lambda p: matrix @ p, b[:, None], np.zeros((30, 1)))
    for _ in range(25):
        state = advance(lambda p: matrix @ p, state)
        error = state.x - exact
        now = float(np.sqrt((error * (matrix @ error)).sum()))
        assert now < past
        past = now


@pytest.mark.spec("BAY-83")
def test_the_same_points_as_scipy_with_and_without_preconditioner():
    matrix, b = definite(60)
    matrix = matrix + np.diag(np.linspace(1, 500, 60))
    diagonal = np.diag(1 / np.diag(matrix))
    for mine, theirs in ((None, None), (diagonal, diagonal)):
        ends = []
        x, info = linalg.cg(matrix, b, rtol=1e-9, M=theirs, callback=lambda x, ends=ends: ends.append(x.copy()))
        found = conjugate_gradient(matrix, b, rtol=1e-9, preconditioner=mine)
        assert info == 0 and found.iterations == len(ends) and np.allclose(found.x, x, rtol=1e-7)
        five = conjugate_gradient(matrix, b, max_iter=5, preconditioner=mine)
        assert np.allclose(five.x, ends[4], rtol=1e-8) and not five.converged
    assert found.iterations < conjugate_gradient(matrix, b, rtol=1e-9).iterations
    loose = conjugate_gradient(matrix, b, rtol=0.0, atol=1.0)
    assert loose.residuals[-1] <= 1.0 < loose.residuals[-2]


@pytest.mark.spec("BAY-83")
def test_matrices_of_every_kind_and_several_right_sides():
    matrix, b = definite()
    several = np.stack([b, 0 * b, 3 * b, np.linspace(0, 1, 30)], 1)
    exact = np.linalg.solve(matrix, several)
    band = sparse.diags_array([-1.0, 2.5, -1.0], offsets=[-1, 0, 1], shape=(30, 30)).tocsr()
    for one in (matrix, sparse.csr_array(matrix), linalg.aslinearoperator(matrix), lambda p: matrix @ p):
        found = conjugate_gradient(one, several, rtol=1e-11)
        assert np.allclose(found.x, exact, rtol=1e-8, atol=1e-12) and found.residuals.shape[1] == 4
        assert (found.x[:, 1] == 0).all()  # b = 0 gives 0
        assert np.allclose(conjugate_gradient(one, b, rtol=1e-11).x, exact[:, 0])
    assert np.allclose(band @ conjugate_gradient(band, b, rtol=1e-11).x, b)
    alone = conjugate_gradient(matrix, several[:, 3], rtol=1e-11)
    assert np.allclose(alone.x, found.x[:, 3], rtol=1e-7)
    tensor = conjugate_gradient(torch.tensor(matrix), torch.tensor(b), rtol=1e-11)
    assert isinstance(tensor.x, torch.Tensor) and np.allclose(tensor.x, exact[:, 0])
    nothing = conjugate_gradient(matrix, np.zeros(30))
    assert nothing.iterations == 0 and nothing.converged and (nothing.x == 0).all()
    assert conjugate_gradient(matrix.astype(np.float32), b.astype(np.float32), rtol=1e-4).x.dtype == np.float32


@pytest.mark.spec("BAY-83")
def test_the_residual_is_that_of_the_solution_even_where_rounding_is_bad():
    """A Hilbert matrix, of condition 1e13: the recursion would claim more than there is."""
    n = 10
    hilbert = 1.0 / (np.arange(n)[:, None] + np.arange(n) + 1)
    found = conjugate_gradient(hilbert, hilbert @ np.ones(n), rtol=1e-12, max_iter=400)
    residual = np.linalg.norm(hilbert @ np.ones(n) - hilbert @ found.x)
    assert found.converged == (residual <= 1e-12 * np.linalg.norm(hilbert @ np.ones(n)))
    assert found.residuals[-1] == pytest.approx(residual, rel=0.5, abs=1e-15)
    # from a far start the recursion is wrong by the start's rounding, 1e-6 here: the residual is computed anew
    matrix, b = definite()
    found = conjugate_gradient(matrix, b, np.full(30, 1e8), rtol=1e-11)
    assert found.converged and np.linalg.norm(matrix @ found.x - b) <= 1e-11 * np.linalg.norm(b)
    large, b = definite(300, seed=1)
    large = large + np.diag(np.geomspace(1e-3, 1e4, 300))
    found = conjugate_gradient(large, b, rtol=1e-9)
    assert found.converged and np.linalg.norm(large @ found.x - b) <= 1e-9 * np.linalg.norm(b)


@pytest.mark.spec("BAY-83")
@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda: conjugate_gradient(np.diag([1.0, -1.0]), [1.0, 1.0]), r"positive definite, but p\^T A p is"),
        (lambda: conjugate_gradient(np.diag([1.0, 0.0]), [0.0, 1.0]), "positive definite"),
        (lambda: conjugate_gradient(lambda p: -p, np.ones(3)), "positive definite"),
        (lambda: conjugate_gradient([[1.0, 2.0], [0.0, 1.0]], B), "A must be symmetric"),
        (lambda: conjugate_gradient(A, np.ones(3)), r"A must have shape \(3, 3\)"),
        (lambda: conjugate_gradient(A, [1.0, np.nan]), "b must hold finite numbers"),
        (lambda: conjugate_gradient(A, B, [0.0]), "x0 must have the shape of b"),
    ],
)
def test_what_cannot_be_solved_is_refused(ask, told):
    with pytest.raises(UserValueError, match=told):
        ask()


# --- non-linear -------------------------------------------------------------------------------------------------------


def rosenbrock(x):
    return float(optimize.rosen(x)), optimize.rosen_der(x)


@pytest.mark.spec("BAY-84")
def test_rosenbrocks_valley_is_descended():
    found = minimize(rosenbrock, [-1.2, 1.0])
    theirs = optimize.minimize(optimize.rosen, [-1.2, 1.0], jac=optimize.rosen_der, method="CG", options={"gtol": 1e-8})
    assert found.value < 1e-8 and found.converged and np.allclose(found.x, theirs.x, atol=1e-4)
    assert (np.diff(found.values) <= 0).all() and found.evaluations < 200
    wide = minimize(rosenbrock, np.full(10, -1.0), 500)
    other = optimize.minimize(optimize.rosen, np.full(10, -1.0), jac=optimize.rosen_der, method="CG")
    assert wide.value < 1e-8 or wide.value == pytest.approx(other.fun, abs=1e-6)
    few = minimize(rosenbrock, [-1.2, 1.0], -20)
    assert few.evaluations <= 20 and few.value < rosenbrock(np.array([-1.2, 1.0]))[0] and not few.converged


@pytest.mark.spec("BAY-84")
def test_a_quadratic_with_exact_searches_goes_through_the_points_of_the_linear_method():
    matrix, b = definite(12)
    found = minimize(lambda x: (float(0.5 * x @ matrix @ x - b @ x), matrix @ x - b), np.zeros(12), 8, curvature=1e-9)
    for step in range(1, 9):
        assert np.allclose(found.path[step], conjugate_gradient(matrix, b, max_iter=step).x, rtol=1e-5, atol=1e-7)


@pytest.mark.spec("BAY-84")
def test_minima_are_those_of_scipy_on_a_logistic_regression():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(100, 6)), random.integers(0, 2, 100)

    def loss(w):
        z = X @ w
        return float(np.logaddexp(0, z).sum() - y @ z + w @ w / 2), X.T @ (1 / (1 + np.exp(-z)) - y) + w

    found = minimize(loss, np.zeros(6))
    theirs = optimize.minimize(loss, np.zeros(6), jac=True, method="CG", options={"gtol": 1e-8})
    assert (
        found.converged and np.allclose(found.x, theirs.x, atol=1e-6) and np.abs(found.gradient).max() < 1e-6
    )  # values end there


@pytest.mark.spec("BAY-84")
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_searches_back_off_from_what_is_not_finite(bad):
    """-log x + x with the wall at 0, and beyond 3 nothing is finite: the minimum is at 1."""

    def walled(x):
        inside = 0 < x[0] < 3
        return (float(x[0] - math.log(x[0])), 1 - 1 / x) if inside else (bad, np.full(1, bad))

    for red in (1.0, 100.0):
        found = minimize(walled, [0.05], red=red)
        assert found.converged and found.x[0] == pytest.approx(1, abs=1e-7) and found.evaluations < 20
    # a wall all around: it stays where it is
    stuck = minimize(lambda x: (0.0, np.ones(1)) if x[0] == 0 else (bad, x), [0.0])
    assert stuck.x[0] == 0 and len(stuck.values) == 1


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda: minimize(lambda x: (math.nan, x), [1.0]), "finite at the start"),
        (lambda: minimize(lambda x: (0.0, x[:1]), [1.0, 2.0]), "shape of x0"),
        (lambda: minimize(rosenbrock, [1.0, 2.0], red=0.0), "red must be in"),
        (lambda: minimize(rosenbrock, [1.0, 2.0], curvature=1.0), "curvature must be in"),
    ],
)
def test_what_cannot_be_minimized_is_refused(ask, told):
    with pytest.raises(UserValueError, match=told):
        ask()
