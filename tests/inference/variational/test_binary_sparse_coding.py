"""Mean field of binary sparse coding: the bound by enumeration, its slopes, closed cases, and where it goes astray."""

import itertools
import math

import numpy as np
import pytest

from gnomon.errors import UserValueError
from gnomon.inference.exact.posterior import ExactPosterior
from gnomon.inference.variational.binary_sparse_coding import BinarySparseCoding
from oracles.binary import all_states, log_sum, numerical_gradient

W2, B2, BETA2, V2 = np.array([[1.0, 0.5], [0.0, 1.0]]), np.array([0.0, -1.0]), np.array([1.0, 2.0]), np.ones((1, 2))
TWINS = BinarySparseCoding([[2.0, 2.0]], 0.0, 4.0)
"""Two components alike, of which one explains the row 2."""


def log_joint(W, b, beta, v, h):
    """Term by term."""
    total = sum(-math.log1p(math.exp(-x)) if on else -math.log1p(math.exp(x)) for x, on in zip(b, h, strict=True))
    for i in range(len(v)):
        left = v[i] - sum(W[i, j] * h[j] for j in range(len(h)))
        total += 0.5 * math.log(beta[i] / (2 * math.pi)) - 0.5 * beta[i] * left**2
    return total


def bound(W, b, beta, v, q):
    """E_q[log p(v, h) - log q(h)] over all states, and log p(v)."""
    states = all_states(len(b))
    joint = np.array([log_joint(W, b, beta, v, h) for h in states])
    chance = np.array([np.prod(np.where(h == 1, q, 1 - np.asarray(q))) for h in states])
    return float(chance @ joint - sum(p * math.log(p) for p in chance if p > 0)), log_sum(joint)


def drawn(n, m, seed):
    random = np.random.default_rng(seed)
    return random.normal(size=(n, m)), random.normal(size=m), random.gamma(2.0, size=n), random.normal(size=(5, n))


@pytest.mark.spec("INF-90")
def test_the_numbers_of_two_components():
    model = BinarySparseCoding(W2, B2, BETA2)
    first = model.update(V2, np.full((1, 2), 0.5))
    np.testing.assert_allclose(first[0], (0.562177, 0.523461), atol=5e-7)
    np.testing.assert_allclose(model.update(V2, first)[0], (0.559287, 0.523821), atol=5e-7)
    found = model.infer(V2)
    np.testing.assert_allclose(found.means[0], (0.559242, 0.523827), atol=5e-7)
    assert found.elbo[0] == pytest.approx(-2.290007, abs=5e-7)
    assert found.converged.all()
    assert found.residual[0] <= 1e-10
    value, evidence = bound(W2, B2, BETA2, V2[0], found.means[0])
    assert found.elbo[0] == pytest.approx(value, abs=1e-12)
    assert evidence == pytest.approx(-2.282347, abs=5e-7)
    assert evidence - value == pytest.approx(0.007659, abs=1e-6)
    exact = ExactPosterior(model.log_joint, 2)
    assert exact.log_evidence(V2)[0] == pytest.approx(evidence, abs=1e-12)
    np.testing.assert_array_equal(model.transform(V2), found.means)


@pytest.mark.spec("INF-90")
@pytest.mark.parametrize("seed", range(4))
def test_each_update_is_the_sigmoid_of_what_the_others_leave_and_never_lowers_the_bound(seed):
    """The two forms of the update by plain loops, unit by unit; the bound by enumeration after each."""
    W, b, beta, rows = drawn(4, 5, seed)
    model, q = BinarySparseCoding(W, b, beta), np.random.default_rng(seed).uniform(size=(5, 5))
    swept = model.update(rows, q)
    for r, v in enumerate(rows):
        h, before = q[r].copy(), bound(W, b, beta, v, q[r])[0]
        for i in range(5):
            others = [j for j in range(5) if j != i]
            pull = sum(W[:, j] @ (beta * W[:, i]) * h[j] for j in others)
            gram = b[i] + v @ (beta * W[:, i]) - 0.5 * W[:, i] @ (beta * W[:, i]) - pull
            left = v - sum(W[:, j] * h[j] for j in others)
            residual = b[i] + (left - 0.5 * W[:, i]) @ (beta * W[:, i])
            assert gram == pytest.approx(residual, abs=1e-11)
            h[i] = 1 / (1 + math.exp(-gram))
            after = bound(W, b, beta, v, h)[0]
            assert after > before - 1e-12
            before = after
        np.testing.assert_allclose(swept[r], h, atol=1e-12)
        assert model.elbo(v[None], h[None])[0] == pytest.approx(before, abs=1e-11)


@pytest.mark.spec("INF-90")
@pytest.mark.parametrize("seed", range(3))
def test_the_bound_has_no_slope_where_the_updates_end(seed):
    W, b, beta, rows = drawn(6, 4, seed)
    found = BinarySparseCoding(W, b, beta).infer(rows)
    assert found.converged.all()
    for v, q, elbo in zip(rows, found.means, found.elbo, strict=True):
        logits = np.log(q / (1 - q))
        slope = numerical_gradient(lambda z, v=v: bound(W, b, beta, v, 1 / (1 + np.exp(-z)))[0], logits)
        np.testing.assert_allclose(slope, 0, atol=1e-6)
        value, evidence = bound(W, b, beta, v, q)
        assert elbo == pytest.approx(value, abs=1e-10)
        assert elbo < evidence + 1e-12


@pytest.mark.spec("INF-90")
def test_components_at_right_angles_take_one_sweep_and_are_exact():
    """Right angles under the precisions: W_i' beta W_j = 0."""
    W, beta = np.array([[1.0, 2.0], [2.0, -1.0], [0.5, 0.0]]), np.array([1.0, 1.0, 3.0])
    rows = np.random.default_rng(0).normal(size=(6, 3))
    model = BinarySparseCoding(W, [0.3, -0.7], beta)
    found = model.infer(rows)
    assert found.sweeps == 1
    exact = ExactPosterior(model.log_joint, 2)
    np.testing.assert_allclose(found.means, exact.mean(rows), atol=1e-12)
    np.testing.assert_allclose(found.elbo, exact.log_evidence(rows), atol=1e-12)


@pytest.mark.spec("INF-90")
@pytest.mark.parametrize(
    ("start", "means", "gap"), [((0.6, 0.4), (0.99966, 0.00034), 0.692810), ((0.5, 0.5), (0.5, 0.5), 3.307188)]
)
def test_mean_field_takes_one_of_two_explanations_or_stays_between_them(start, means, gap):
    exact = ExactPosterior(TWINS.log_joint, 2)
    np.testing.assert_allclose(exact.posterior([[2.0]])[0][[1, 2]], 0.4998, atol=5e-5)
    found = TWINS.infer([[2.0]], start=start)
    np.testing.assert_allclose(found.means[0], means, atol=5e-6)
    assert exact.log_evidence([[2.0]])[0] - found.elbo[0] == pytest.approx(gap, abs=1e-6)
    other = TWINS.infer([[2.0]], start=start[::-1])
    np.testing.assert_allclose(other.means[0], means[::-1], atol=5e-6)


@pytest.mark.spec("INF-90")
def test_rows_end_apart_and_steps_that_run_out_are_told():
    W, b, beta, rows = drawn(4, 6, 9)
    model = BinarySparseCoding(W, b, beta)
    whole = model.infer(rows)
    one_by_one = np.concatenate([model.infer(row[None]).means for row in rows])
    np.testing.assert_allclose(whole.means, one_by_one, atol=1e-9)
    short = model.infer(rows, steps=1)
    assert short.sweeps == 1
    assert not short.converged.all()
    sums = itertools.accumulate(range(8), lambda q, _: model.update(rows, q), initial=np.full((5, 6), 0.5))
    bounds = np.array([model.elbo(rows, q) for q in sums])
    assert (np.diff(bounds, axis=0) > -1e-12).all()
    far = BinarySparseCoding(1e3 * W, b, beta).infer(rows, steps=5)
    assert np.isfinite(far.elbo).all()


@pytest.mark.spec("INF-90")
def test_what_does_not_fit_is_refused():
    model = BinarySparseCoding(W2, B2, BETA2)
    for make, message in [
        (lambda: BinarySparseCoding([1.0, 2.0]), "W must be a table of finite numbers"),
        (lambda: BinarySparseCoding([[np.nan]]), "W must be a table of finite numbers"),
        (lambda: BinarySparseCoding(W2, [0.0]), "b must be 2 finite numbers, or one"),
        (lambda: BinarySparseCoding(W2, 0.0, [1.0, 0.0]), "beta must be positive"),
        (lambda: model.infer([[1.0]]), "v must be finite rows of 2 numbers"),
        (lambda: model.infer([[1.0, np.inf]]), "v must be finite rows of 2 numbers"),
        (lambda: model.infer(V2, start=[0.5, 1.5]), r"start must be in \[0, 1\], got 0.5 to 1.5"),
        (lambda: model.infer(V2, start=np.full((3, 2), 0.5)), "start must be of shape"),
        (lambda: model.infer(V2, start=[0.5]), "start must have 2 columns"),
        (lambda: model.infer(V2, steps=-1), "steps must be at least 0"),
        (lambda: model.infer(V2, tol=-1.0), "tol must be at least 0"),
        (lambda: model.infer([[1e200, 1.0]]), "numbers in v must be at most 1e\\+100"),
        (lambda: BinarySparseCoding([[1e200]]), "so large that their products overflow"),
        (lambda: model.log_joint(V2, [[1.0, 0.0, 0.0]]), "h must have 2 columns"),
        (lambda: model.log_joint(V2, [[0.5, 0.0]]), "h must hold 0 and 1 alone"),
        (lambda: model.elbo(V2, np.full((3, 2), 0.5)), r"means must be of shape \(1, 2\) or \(2,\)"),
        (lambda: model.update(V2, np.full((3, 2), 0.5)), r"means must be of shape \(1, 2\) or \(2,\)"),
        (lambda: model.elbo(V2, [[0.5, np.nan]]), "means must be in"),
    ]:
        with pytest.raises(UserValueError, match=message):
            make()
    assert model.infer(np.zeros((0, 2))).means.shape == (0, 2)
