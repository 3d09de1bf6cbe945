"""Langevin contrastive divergence against the row's numbers and the gradient of score matching."""

from itertools import pairwise

import numpy as np
import pytest
import torch

import gnomon
from gnomon.data.batches import Batch
from gnomon.distributions.units import BernoulliUnits, CenteredScaledGaussianUnits, GaussianUnits
from gnomon.errors import UserTypeError
from gnomon.numeric.noise import Noise
from gnomon.objectives.langevin import LangevinCD
from gnomon.objectives.score_matching import ScoreMatching
from gnomon.systems.energy.gaussian_rbm import GaussianRBM, GaussianRBMModel
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.rbm import RBM
from gnomon.training.group import Group
from oracles.given_noise import GivenNoise, averaged_rows
from oracles.layered import assert_same, by_differences, filled


def loss_of(recipe, model, X, weight=None, noise=None):
    numbers = np.arange(len(X))
    batch = Batch({"X": X}, numbers, numbers, np.ones(len(X)) if weight is None else weight)
    return recipe.build()(model, batch, noise=noise or Noise(0, "fit"), phase="fit", group=Group())


def averaged(recipe, model, X):
    """Gradients with the noise of every row averaged out."""
    rows, z, weight = averaged_rows(X)
    return loss_of(recipe, model, rows, weight, GivenNoise(z)).gradients


def mixture():
    return GaussianRBMModel.of([[1.0, -0.5]], [0.2], [0.3, -0.4], 1.3)


@pytest.mark.spec("INF-48")
def test_the_numbers_of_the_row():
    """log p = -1.5 x^2 / 2, rows of variance 2, steps of .01: -9.999e-5 by the precision, predicted -1e-4."""
    one = LayeredMachine({"v": CenteredScaledGaussianUnits(1)}, [], dtype=torch.float64)
    one.load({"v_bias": np.zeros(1), "v_log_precision": np.log([1.5])})
    X = np.sqrt(2) * np.array([[-1.0], [1.0]])
    found = -averaged(LangevinCD(step_size=0.01, antithetic=False), one, X)["v_log_precision"][0] / 2 / 1.5
    predicted = -0.5e-4 * loss_of(ScoreMatching(), one, X).gradients["v_log_precision"][0] / 2 / 1.5
    assert predicted == pytest.approx(-1e-4, rel=1e-12)
    e, v, lam = 0.01, 2.0, 1.5
    assert found == pytest.approx(-0.5 * (v - ((1 - e * e * lam / 2) ** 2 * v + e * e)), rel=1e-9)
    assert abs(found - -9.999e-5) < 1e-8


@pytest.mark.spec("INF-48")
@pytest.mark.parametrize("antithetic", [False, True])
def test_in_the_limit_of_short_steps_it_is_score_matching(antithetic):
    """The relative error falls by 4 where the step is halved, for every parameter of a mixture."""
    one, X = mixture(), np.array([[-1.0], [0.5], [2.0]])
    wanted = loss_of(ScoreMatching(), one, X).gradients
    errors = []
    for e in (0.04, 0.02, 0.01):
        found = averaged(LangevinCD(step_size=e, antithetic=antithetic), one, X)
        errors.append({name: (found[name] / (e * e / 2) - wanted[name]) for name in wanted})
    for name, value in wanted.items():
        if name == "visible_bias":  # the energy's slope by it is linear in the row: no error
            continue
        for wide, narrow in pairwise(errors):
            np.testing.assert_allclose(wide[name] / narrow[name], 4, rtol=0.02)
        np.testing.assert_allclose(errors[-1][name], 0, atol=2e-3 * (1 + np.abs(value).max()))


@pytest.mark.spec("INF-48")
def test_chains_are_what_the_definition_says_and_carry_no_gradient():
    """Two steps written out; the gradient is that of the energies at fixed ends, by differences."""
    units = {"v": CenteredScaledGaussianUnits(3), "h": BernoulliUnits(2)}
    one = filled(LayeredMachine(units, [("v", "h")], dtype=torch.float64), seed=3, scale=0.5)
    random = np.random.default_rng(0)
    X, weight, z = random.normal(size=(5, 3)), np.linspace(0.5, 2, 5), random.normal(size=(2, 5, 3))

    def slope(x, step=1e-6):
        unit = step * np.eye(3)
        return np.stack([(one.energy(x - e) - one.energy(x + e)) / (2 * step) for e in unit], 1)

    ends = []
    for sign in (1, -1):
        x = X
        for drawn in z:
            x = x + 0.5 * 0.3**2 * slope(x) + 0.3 * sign * drawn
        ends.append(x)
    loss = loss_of(LangevinCD(step_size=0.3, k=2), one, X, weight, GivenNoise(*z))

    def gap(m):
        return weight @ (m.energy(X) - 0.5 * m.energy(ends[0]) - 0.5 * m.energy(ends[1]))

    assert loss.terms["energy_gap"].sum() == pytest.approx(gap(one), abs=1e-8)
    assert_same(loss.gradients, by_differences(one, gap), 1e-7)


@pytest.mark.spec("INF-48")
def test_pairs_of_noise_leave_out_what_is_linear_in_the_step():
    """Deviation of the gradient over 200 seeds: of the order e with single chains, of e^2 with pairs."""
    one, X = mixture(), np.random.default_rng(0).normal(size=(20, 1))
    spread = {}
    for antithetic in (False, True):
        for e in (0.02, 0.01):
            recipe = LangevinCD(step_size=e, antithetic=antithetic)
            found = [loss_of(recipe, one, X, noise=Noise(s, "fit")).gradients["weight"] for s in range(200)]
            spread[antithetic, e] = np.std(found, axis=0)
    np.testing.assert_allclose(spread[False, 0.02] / spread[False, 0.01], 2, rtol=0.05)
    np.testing.assert_allclose(spread[True, 0.02] / spread[True, 0.01], 4, rtol=0.05)
    assert (spread[True, 0.01] < 0.1 * spread[False, 0.01]).all()


@pytest.mark.spec("INF-48")
def test_a_fit_learns_groups_and_other_kinds_of_hidden_units_take_part():
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 3)) * [1, 0.5, 2] + random.integers(0, 2, (400, 1)) * [4.0, 2.0, -3.0]
    fitted = GaussianRBM(n_hidden=4, objective="langevin-cd", random_state=0, dtype="float64").fit(X)
    assert fitted.score(X) > -0.5 * np.log(2 * np.pi * np.e * X.var(0)).sum() + 0.3
    units = {"v": CenteredScaledGaussianUnits(3), "h": GaussianUnits(2)}
    one = filled(LayeredMachine(units, [("v", "h")], dtype=torch.float64), seed=3, scale=0.3)
    loss = loss_of(LangevinCD(step_size=0.2), one, X[:5])
    assert all(np.isfinite(value).all() for value in loss.gradients.values())


@pytest.mark.spec("INF-48")
def test_binary_rows_are_refused():
    with pytest.raises(UserTypeError, match="langevin-cd needs observed units that are real numbers, got Bernoulli"):
        RBM(n_hidden=2, objective="langevin-cd", random_state=0).fit(np.eye(3))


def test_the_way_of_other_devices_gives_the_same_numbers():
    X, fits = np.random.default_rng(0).normal(size=(60, 3)), []
    for backend in ("auto", "torch"):
        with gnomon.context(backend=backend):
            recipe = LangevinCD(k=2)
            fits.append(GaussianRBM(n_hidden=5, objective=recipe, epochs=3, dtype="float64", random_state=0).fit(X))
    for name, value in fits[0].model_.state().items():
        np.testing.assert_allclose(fits[1].model_.state()[name], value, rtol=1e-9, atol=1e-9)
