"""Gaps of bounds and what approximate inference does to learning: enumeration, brute force over q, known normals."""

import itertools
import math
from typing import ClassVar

import numpy as np
import pytest
import torch

import gnomon
from gnomon.distributions.real import Normal
from gnomon.errors import UserError
from gnomon.evaluation import Score, harm_report, inference_gap
from gnomon.inference.variational.binary_sparse_coding import BinarySparseCoding

TWO = BinarySparseCoding([[1.0, 0.5], [0.0, 1.0]], [0.0, -1.0], [1.0, 2.0])
TWINS = BinarySparseCoding([[2.0, 2.0]], 0.0, 4.0)
STATES = np.array(list(itertools.product([0.0, 1.0], repeat=2)))


def table(model, rows):
    """log p(v, h) of every row and state of two components, from the definition."""
    left = rows[:, None] - STATES @ model.W.T
    noise = 0.5 * np.log(model.beta / (2 * np.pi)).sum() - 0.5 * (left**2 * model.beta).sum(-1)
    return noise + (STATES * model.b - np.log1p(np.exp(model.b))).sum(-1)


def evidence(model, rows):
    return np.log(np.exp(table(model, rows)).sum(1))


def highest_bound(model, rows, n=201):
    """max over q of the bound, on a grid of both means."""
    grid = np.linspace(0, 1, n)
    a, b = (x.ravel() for x in np.meshgrid(grid, grid))
    q = np.stack([(1 - a) * (1 - b), (1 - a) * b, a * (1 - b), a * b], 1)
    entropy = -(np.where(q > 0, q, 1) * np.log(np.where(q > 0, q, 1)) * (q > 0)).sum(1)
    return (table(model, rows) @ q.T + entropy).max(1)


def drawn(W, chance, n=100, seed=0):
    random = np.random.default_rng(seed)
    on = random.random((n, 2)) < chance
    return on @ np.asarray(W, float).T + 0.5 * random.normal(size=(n, len(W)))


@pytest.mark.spec("INF-100")
def test_the_gap_of_two_components_and_of_any_rows():
    found = inference_gap(TWO, [[1.0, 1.0]])
    assert found.gap.value == pytest.approx(0.007659, abs=1e-6) and found.gap.kind == "exact"
    assert found.log_prob.value == pytest.approx(-2.282347, abs=5e-7)
    assert found.bound.value == pytest.approx(-2.290007, abs=5e-7) and found.bound.kind == "lower bound"
    rows = np.random.default_rng(0).normal(size=(20, 2)) * 2
    many = inference_gap(TWO, rows)
    np.testing.assert_allclose(many.log_prob.pointwise, evidence(TWO, rows), atol=1e-10)
    np.testing.assert_allclose(many.gap.pointwise, evidence(TWO, rows) - many.bound.pointwise, atol=1e-12)
    assert (many.bound.pointwise >= highest_bound(TWO, rows) - 1e-9).all()  # no q of the grid is better
    assert (many.gap.pointwise >= -1e-10).all() and "gap" in str(many)


@pytest.mark.spec("INF-100")
def test_two_columns_alike_keep_a_gap_near_log_2():
    found = inference_gap(TWINS, [[2.0]])
    assert found.gap.value == pytest.approx(math.log(2), abs=1e-3)
    assert inference_gap(TWINS, [[2.0]], starts=1).gap.value > 3  # from the middle alone: a saddle
    assert inference_gap(TWINS, [[0.0], [4.0]]).gap.value < 0.01  # one explanation each


@pytest.mark.spec("INF-100")
@pytest.mark.parametrize("seed", range(3))
def test_both_ways_of_learning_climb_and_refit_to_the_maximum(seed):
    from gnomon.numeric.noise import Noise

    rows = drawn([[1.0, 0.7], [0.3, -1.0], [0.5, 0.5]], 0.4, seed=seed)
    begun = BinarySparseCoding.begin(rows, Noise(seed, "begin"), 2)
    p = np.exp(table(begun, rows) - evidence(begun, rows)[:, None])
    exact = begun.posterior_moments(rows)
    np.testing.assert_allclose(exact.means, p @ STATES, atol=1e-10)
    np.testing.assert_allclose(exact.second, np.einsum("rs,si,sj->ij", p, STATES, STATES), atol=1e-9)
    np.testing.assert_allclose(exact.value, evidence(begun, rows), atol=1e-10)
    mean_field = begun.mean_field_moments(rows)
    np.testing.assert_allclose(np.diag(mean_field.second), mean_field.means.sum(0))
    assert mean_field.second[0, 1] == pytest.approx(mean_field.means[:, 0] @ mean_field.means[:, 1])
    refitted = begun.refitted(rows, exact)
    best = (p * table(refitted, rows)).sum()  # expected log joint, maximal in all parameters
    for move in np.random.default_rng(seed).normal(size=(20, 3, 4)):
        h = 1e-3
        changed = BinarySparseCoding(refitted.W + h * move[:, :2], refitted.b + h * move[:2, 2],
                                     refitted.beta * np.exp(h * move[:, 3]))  # fmt: skip
        assert (p * table(changed, rows)).sum() < best
    model, q, before = begun, 0.5, -np.inf
    for _ in range(15):
        found = model.mean_field_moments(rows, q)
        assert found.value.sum() > before - 1e-8
        before, q, model = found.value.sum(), found.means, model.refitted(rows, found)
    model, before = begun, -np.inf
    for _ in range(15):
        found = model.posterior_moments(rows)
        assert found.value.sum() > before - 1e-9
        before, model = found.value.sum(), model.refitted(rows, found)


@pytest.mark.spec("INF-100")
@pytest.mark.parametrize(
    ("W", "chance"),
    [([[1.0, 0.5], [1.0, -0.5]], 0.5), ([[2.0, 2.0]], 0.4), ([[1.0, 1.0], [1.0, 0.6], [0.2, 0.8]], 0.5)],
)
def test_small_models_learned_both_ways(W, chance):
    rows = drawn(W, chance)
    report = harm_report(BinarySparseCoding, rows, restarts=3)
    best, other = report.of_exact, report.of_variational
    assert report.harm.value >= 0
    for model, part in ((report.exact, best), (report.variational, other)):
        np.testing.assert_allclose(part.log_prob.pointwise, evidence(model, rows), atol=1e-9)
        above = part.bound.pointwise - highest_bound(model, rows)
        assert (above > -1e-9).all() and (above < 5e-3).all()  # the grid is a little below the maximum
    assert report.harm.value == pytest.approx(
        evidence(report.exact, rows).mean() - evidence(report.variational, rows).mean()
    )
    assert max(report.starts) == pytest.approx(best.log_prob.value, abs=1e-9) and len(report.starts) == 4
    # the sign of harm: mean field has the higher bound where it has learned, and the lower likelihood
    assert other.bound.value > best.bound.value and other.gap.value < best.gap.value
    # theta_ML is stationary: slopes of log p by finite differences
    W, b, beta = report.exact.W, report.exact.b, report.exact.beta
    h = 1e-5
    for i, j in np.ndindex(*W.shape):
        step = np.zeros_like(W)
        step[i, j] = h
        rise = evidence(BinarySparseCoding(W + step, b, beta), rows) - evidence(
            BinarySparseCoding(W - step, b, beta), rows
        )
        assert abs(rise.mean() / (2 * h)) < 2e-3
    assert "maximum likelihood" in str(report) and "harm" in str(report)


@pytest.mark.spec("INF-100")
def test_one_start_may_be_a_local_optimum_and_more_are_not_worse():
    rows = drawn([[2.0, 2.0]], 0.4)
    few = harm_report(BinarySparseCoding, rows, restarts=1, random_state=1)
    many = harm_report(BinarySparseCoding, rows, restarts=4, random_state=1)
    assert many.of_exact.log_prob.value >= few.of_exact.log_prob.value - 1e-9
    assert max(many.starts) - min(many.starts) > 0.01  # starts end apart
    again = harm_report(BinarySparseCoding, rows, restarts=1, random_state=1)
    assert again.starts == few.starts


class Recorded(BinarySparseCoding):
    calls: ClassVar[list] = []

    def mean_field_moments(self, v, start=0.5):
        found = super().mean_field_moments(v, start)
        self.calls.append((start, found.means))
        return found


@pytest.mark.spec("INF-100")
def test_mean_field_goes_on_from_where_it_was_between_iterations():
    Recorded.calls.clear()
    harm_report(Recorded, drawn([[2.0, 2.0]], 0.4, n=30), restarts=1, max_iter=6, starts=1)
    learning = Recorded.calls[1:7]  # behind the call that tells the shape
    for (_, means), (start, _) in itertools.pairwise(learning):
        np.testing.assert_array_equal(start, means)


class Rough:
    """x ~ N(z_1 + 2 z_2, 1), z ~ N(0, I), with the best independent normals for an encoder."""

    def log_joint(self, x, z):
        total = -0.5 * (x[:, 0] - z[:, 0] - 2 * z[:, 1]) ** 2 - 0.5 * (z**2).sum(1)
        return total - 1.5 * math.log(2 * math.pi)

    def sample_prior(self, n, noise):
        return np.asarray(noise.normal((n, 2), like=np.empty(0)))

    def infer(self, x, noise):
        mean, scale = x[:, :1] / 6 * np.array([1.0, 2.0]), np.sqrt([0.5, 0.2])
        z = mean + scale * noise.normal((len(x), 2), like=np.empty(0))
        return z, Normal(mean, np.broadcast_to(scale, mean.shape)).log_prob(z).sum(1)


@pytest.mark.spec("INF-100")
def test_by_draws_of_an_encoder_the_gap_is_a_lower_bound_that_grows_with_the_draws():
    found = inference_gap(Rough(), [[3.0]], n_samples=200_000)
    assert found.gap.kind == "lower bound" and "too low by about" in found.gap.note
    assert found.log_prob.value == pytest.approx(-2.564818, abs=5 * found.log_prob.error)  # 1 in 10^6
    assert found.bound.value == pytest.approx(-2.820231, abs=5 * found.bound.error)
    assert found.gap.value == pytest.approx(0.255413, abs=5 * found.gap.error) and found.gap.error < 0.015
    rows = np.full((4000, 1), 3.0)
    few = inference_gap(Rough(), rows, n_samples=3)
    assert few.gap.value < 0.255413 - 0.05  # log p of few draws is too low, and the gap with it
    known = inference_gap(Rough(), [[3.0]], n_samples=5000, log_prob=[-2.564818])
    assert known.gap.kind == "estimate" and known.gap.value == pytest.approx(0.255413, abs=5 * known.gap.error)
    walked = Score.from_pointwise([-2.57], error=0.01, kind="lower bound", note="by AIS")
    other = inference_gap(Rough(), [[3.0]], n_samples=5000, log_prob=walked)
    assert other.gap.kind == "lower bound" and other.gap.note == "by AIS" and other.gap.error > 0.01


@pytest.mark.spec("INF-100")
def test_systems_with_an_exact_density_and_a_bound_and_with_an_encoder():
    rows = drawn([[1.0, 0.5], [1.0, -0.5], [0.3, 0.2]], 0.5)
    coding = gnomon.SpikeAndSlabSparseCoding(n_components=3, max_iter=3, random_state=0).fit(rows)
    found = inference_gap(coding, rows)
    np.testing.assert_allclose(found.gap.pointwise, coding.log_prob(rows) - coding.elbo(rows), atol=1e-10)
    assert (found.gap.pointwise >= -1e-9).all() and found.gap.kind == "exact"
    vae = gnomon.VAE(n_latent=2, epochs=1, random_state=0).fit(rows)
    found = inference_gap(vae, rows[:30], n_samples=200)
    assert found.gap.value > -4 * found.gap.error
    assert found.bound.value == pytest.approx(vae.elbo(rows[:30], 500).value, abs=6 * found.bound.error + 0.05)


@pytest.mark.spec("INF-100")
def test_what_has_no_gap_is_told_in_one_line():
    rows = np.zeros((3, 2))
    for make, message in [
        (lambda: inference_gap(gnomon.PPCA(n_components=1).fit(np.random.default_rng(0).normal(size=(9, 2))), rows),
         "PPCA has no bound and no encoder"),
        (lambda: inference_gap(TWO, rows, log_prob=[1.0]), "one value for each of 3 rows"),
        (lambda: inference_gap(TWO, rows, log_prob=Score(1.0)), "must have a value for each row"),
        (lambda: inference_gap(TWO, rows, log_prob=[1.0, np.nan, 1.0]), "must hold numbers, got NaN"),
        (lambda: inference_gap(BinarySparseCoding, rows), "BinarySparseCoding is a class"),
        (lambda: inference_gap(TWO, rows, starts=0), "starts must be at least 1"),
        (lambda: inference_gap(TWO, rows, n_samples=1), "n_samples must be at least 2"),
        (lambda: harm_report(torch.nn.Linear, rows), "model_class must have begin"),
        (lambda: harm_report(BinarySparseCoding, rows, restarts=0), "restarts must be at least 1"),
        (lambda: harm_report(BinarySparseCoding, rows[:1]), "at least 2 finite rows"),
    ]:  # fmt: skip
        with pytest.raises(UserError, match=message):
            make()
