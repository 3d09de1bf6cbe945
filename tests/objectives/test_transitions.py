"""Chains that move along the slope of log p in place of Gibbs sweeps: laws by quadrature, steps written out."""

import numpy as np
import pytest
import torch

import gnomon
from gnomon.distributions.units import BernoulliUnits, CenteredScaledGaussianUnits
from gnomon.errors import Diverged, UserTypeError
from gnomon.numeric.noise import Noise, recording
from gnomon.objectives.contrastive import CD, PCD
from gnomon.objectives.fresh_chains import MCMC
from gnomon.objectives.transitions import HamiltonianMoves, LangevinMoves
from gnomon.objectives.warm_start import WarmStart
from gnomon.systems.energy.gaussian_rbm import GaussianRBMModel
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.product_of_t import ProductOfT, ProductOfTModel
from gnomon.systems.energy.rbm import RBM
from gnomon.training.group import Group
from oracles.given_noise import GivenNoise
from oracles.layered import by_differences
from oracles.principles import batch_of, begun, loss_of

GRID = np.linspace(-15, 15, 20_001)[:, None]
X = np.array([[-1.0], [0.4], [2.5]])


def gaussian():
    return GaussianRBMModel.of([[1.5, -0.5]], [0.2], [0.3, -0.4], 1.3)


def student():
    return ProductOfTModel.of([[1.2, 0.5]], [2.0, 1.5])


def exact(model):
    """The gradient of the mean negative log-likelihood of X, by the trapezoidal rule and central differences."""
    return by_differences(
        model, lambda m: m.energy(X).mean() + np.log(np.trapezoid(np.exp(-m.energy(GRID)), dx=GRID[1, 0] - GRID[0, 0]))
    )


def normal(deviation=1.0):
    model = LayeredMachine({"v": CenteredScaledGaussianUnits(1)}, [], dtype=torch.float64)
    model.load({"v_bias": np.zeros(1), "v_log_precision": -2 * np.log([deviation])})
    return model


def walked(recipe, model, x, k, seed=0):
    return recipe.build().walk(model, x, Noise(seed, "walk").rows(np.arange(len(x))), k)


@pytest.mark.parametrize("model", [gaussian(), student()], ids=["gaussian-rbm", "product-of-t"])
@pytest.mark.parametrize("fresh", [False, True])
def test_hamiltonian_chains_have_the_gradient_of_the_likelihood(model, fresh):
    """Means of 12 independent runs of 1,500 chains against quadrature: within 6 standard errors, t of 11 degrees of
    freedom beyond 6 has 1e-4, less than ten numbers."""
    wanted, found = exact(model), []
    moves = HamiltonianMoves(step_size=0.5, steps=5)
    for seed in range(12):
        recipe = MCMC(k=15, n_chains=1500, transition=moves) if fresh else PCD(n_chains=1500, transition=moves)
        objective = begun(recipe, model, X)
        if not fresh:
            objective.settle(model, Noise(seed, "settle"), 15)
        with recording():
            loss = loss_of(objective, model, X, seed=seed)
        found.append({name: value / 3 for name, value in loss.gradients.items()})
    for name, value in wanted.items():
        one = np.array([run[name] for run in found])
        error = one.std(0, ddof=1) / np.sqrt(len(one))
        assert (error < 0.05).all()
        assert (np.abs(one.mean(0) - value) <= 6 * error + 1e-7).all(), name


def test_what_chains_leave_invariant():
    """N(0, 1) by Hamiltonian moves of a wide step, N(0, 4/3) by Langevin steps of 1: variances of 20,000 chains within
    4.5 standard errors, false alarm below 1e-5."""
    start = np.random.default_rng(0).normal(size=(20_000, 1))
    for recipe, variance in ((HamiltonianMoves(1.4, steps=2), 1.0), (LangevinMoves(1.0), 4 / 3)):
        found = walked(recipe, normal(), start, 20).var()
        assert abs(found - variance) < 4.5 * variance * np.sqrt(2 / 20_000)


def test_langevin_steps_and_their_gradient_written_out():
    """Two steps from the data by finite differences of the energy; the gradient is that of the gap at fixed ends."""
    model, weight, z = gaussian(), np.array([0.5, 1.0, 2.0]), np.random.default_rng(1).normal(size=(2, 3, 1))
    ends = X
    for drawn in z:
        slope = (model.energy(ends - 1e-6) - model.energy(ends + 1e-6))[:, None] / 2e-6
        ends = ends + 0.5 * 0.3**2 * slope + 0.3 * drawn

    class Given(GivenNoise):
        def child(self, purpose):
            return self

    objective = begun(CD(k=2, transition=LangevinMoves(0.3)), model, X)
    loss = objective(model, batch_of(X, weight), noise=Given(*z), phase="fit", group=Group())
    wanted = by_differences(model, lambda m: weight @ (m.energy(X) - m.energy(ends)))
    for name, value in wanted.items():
        np.testing.assert_allclose(loss.gradients[name], value, atol=1e-7)


def test_persistent_chains_stay_where_they_have_gone():
    """What an update compares is what it stores, and the next one begins there."""
    model, moves = gaussian(), LangevinMoves(0.2)
    objective = begun(PCD(k=3, n_chains=5, transition=moves), model, X)
    assert set(objective.chains) == {"visible"}
    before = objective.chains["visible"].numpy().copy()
    loss_of(objective, model, X, update=7)
    after = moves.build().walk(model, before, Noise(0, "fit").at(7).rows(np.arange(5)), 3)
    np.testing.assert_array_equal(objective.chains["visible"].numpy(), after)


def test_the_step_size_is_led_to_its_aim():
    """log epsilon moves by .1 (a - .9); of N(0, .1^2) it ends where the acceptance is the aim, of N(0, 1) too."""
    objective = begun(PCD(n_chains=200, transition=HamiltonianMoves(0.5, steps=3)), normal(), X)
    first = loss_of(objective, normal(), X)
    acceptance = first.terms["acceptance"].sum / 3
    assert first.terms["step_size"].sum / 3 == pytest.approx(0.5)
    assert float(objective.moves.step_size) == pytest.approx(0.5 * np.exp(0.1 * (acceptance - 0.9)))
    ends = []
    for deviation in (0.1, 1.0):
        recipe = PCD(n_chains=200, transition=HamiltonianMoves(0.1 if deviation == 1 else 0.3, steps=3, aim=0.8))
        objective, seen = begun(recipe, normal(deviation), X), []
        for step in range(250):
            loss = loss_of(objective, normal(deviation), X, update=step)
            seen.append(loss.terms["acceptance"].sum / 3)
        assert np.mean(seen[-30:]) == pytest.approx(0.8, abs=0.05)
        ends.append(float(objective.moves.step_size))
    assert ends[1] / ends[0] == pytest.approx(10, rel=0.15)


def test_what_has_no_slope_is_refused():
    for moves in ("hmc", "langevin"):
        for recipe in (CD, PCD, MCMC):
            with pytest.raises(
                UserTypeError, match=f"{moves} needs observed units that are real numbers, got Bernoull"
            ):
                RBM(n_hidden=2, objective=recipe(transition=moves), random_state=0).fit(np.eye(3))
    units = {"v": CenteredScaledGaussianUnits(2), "h": BernoulliUnits(2), "g": BernoulliUnits(2)}
    deep = LayeredMachine(units, [("v", "h"), ("h", "g")], dtype=torch.float64)
    with pytest.raises(UserTypeError, match="hmc needs hidden layers that are independent given the observed one"):
        begun(PCD(transition="hmc"), deep, np.zeros((2, 2)))
    with pytest.raises(Diverged, match="chains have run to where the energy is no longer a number"):
        walked(LangevinMoves(50.0), normal(0.1), X, 200)


def test_fits_learn_resume_and_take_turns(tmp_path):
    """A product of experts by Hamiltonian chains is as likely as by Gibbs sweeps; a resumed run ends bitwise equal."""
    rows = np.random.default_rng(0).standard_t(3, size=(400, 2)) @ [[1.0, 1.0], [0.0, 0.5]]
    options = {"learning_rate": 0.02, "random_state": 0, "dtype": "float64"}
    recipe = PCD(transition=HamiltonianMoves(step_size=0.3, steps=5))
    scores = [ProductOfT(epochs=25, objective=one, **options).fit(rows).score(rows) for one in ("cd", recipe)]
    assert scores[1] > scores[0] - 0.03 and scores[1] > -3.75  # -4.0 as a normal density
    whole = ProductOfT(epochs=4, objective=recipe, **options).fit(rows)
    ProductOfT(epochs=2, objective=recipe, **options).fit(rows, run=tmp_path / "run")
    resumed = gnomon.resume(tmp_path / "run", rows, epochs=4)
    for name, value in whole.model_.state().items():
        np.testing.assert_array_equal(resumed.model_.state()[name], value)
    assert resumed.history_["step_size"][-1] == whole.history_["step_size"][-1] != 0.3
    mixed = ProductOfT(epochs=2, objective=WarmStart("cd", recipe, after=1, settle=3), **options).fit(rows)
    assert np.isfinite(mixed.score(rows))
