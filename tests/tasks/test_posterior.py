"""`gnomon.fit_posterior` as a verb: what comes back, Ctrl-C, pictures, and chains on the same target."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
import torch
from scipy import stats

import gnomon
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.parameters import JointDensity, Support
from gnomon.training.ascent import Ascents, Climb
from gnomon.training.driver import run_procedure
from gnomon.training.group import Group
from gnomon.training.procedure import Problem

Y = torch.tensor([1.2, 0.4, 2.2, 1.7, 0.9, 1.4], dtype=torch.float64)


def log_joint(at):
    """y ~ N(mean, scale), mean ~ N(0, 10), scale ~ exponential."""
    mean, scale = at["mean"][:, None], at["scale"][:, None]
    return (-0.5 * ((Y - mean) / scale) ** 2 - scale.log()).sum(1) - at["mean"] ** 2 / 200 - at["scale"]


NAMES = {"mean": (), "scale": Support(low=0.0)}


@pytest.fixture(scope="module")
def fitted():
    return gnomon.fit_posterior(log_joint, "full", parameters=NAMES, random_state=0)


def test_draws_density_and_marginals_are_of_one_distribution(fitted):
    draws = fitted.sample(4000, random_state=1)
    assert draws["mean"].shape == draws["scale"].shape == (4000,) and (draws["scale"] > 0).all()
    for name in ("mean", "scale"):
        one = fitted.marginals[name]
        assert stats.kstest(draws[name], _cdf(one)).pvalue > 1e-4
        assert abs(draws[name].mean() - fitted.mean[name]) < 4 * np.sqrt(one.variance / 4000)  # 1 in 16,000
    a, b = np.linspace(-1, 4, 201), np.exp(np.linspace(-4, 3, 201))
    grid = {"mean": np.repeat(a, 201), "scale": np.tile(b, 201)}
    density = np.exp(fitted.log_prob(grid)).reshape(201, 201)
    assert np.trapezoid(np.trapezoid(density, b, axis=1), a) == pytest.approx(1, abs=2e-3)


def _cdf(one):
    u = np.linspace(1e-6, 1 - 1e-6, 20_001)
    return lambda x: np.interp(x, one.icdf(u), u)


def test_chains_on_the_same_target_agree(fitted):
    target = JointDensity(log_joint, NAMES)
    found = gnomon.sample_chain(target, start=2, chains=8, draws=150, burn_in=200, random_state=0)
    named = target.named(found.draws)
    q = fitted.draws(150, chains=8, random_state=2)
    assert q.values["scale"].shape == named["scale"].shape == (8, 150)
    assert q.summary().columns["r_hat"] == pytest.approx(np.ones(2), abs=0.05)
    for name in ("mean", "scale"):
        assert named[name].mean() == pytest.approx(float(fitted.mean[name]), abs=0.1)
        quarters = np.diff(fitted.marginals[name].icdf(np.array([0.25, 0.75])))
        assert np.diff(np.quantile(named[name], [0.25, 0.75])) == pytest.approx(quarters, rel=0.2)


def test_the_bound_is_a_score_below_the_evidence(fitted):
    a, b = np.linspace(-10, 12, 601), np.exp(np.linspace(-4, 4, 601))
    at = {"mean": torch.from_numpy(np.repeat(a, 601)), "scale": torch.from_numpy(np.tile(b, 601))}
    density = log_joint(at).exp().numpy().reshape(601, 601)
    evidence = np.log(np.trapezoid(np.trapezoid(density, b, axis=1), a))
    assert fitted.elbo_.kind == "lower bound" and fitted.elbo_.unit == "nats"
    assert evidence - 0.2 < fitted.elbo_.value < evidence
    assert fitted.elbo_.error < 1e-6 and fitted.elbo_history_[-1] == fitted.elbo_.value
    assert fitted.n_iter_ == len(fitted.elbo_history_) and (np.diff(fitted.elbo_history_) >= 0).all()
    narrow = gnomon.fit_posterior(log_joint, parameters=NAMES, random_state=0)
    assert narrow.elbo_.value <= fitted.elbo_.value + 1e-9


def test_tail_of_the_weights_tells_of_a_family_that_is_too_narrow():
    precision = torch.tensor([[2.0, 2.0], [2.0, 5.0]], dtype=torch.float64)

    def normal(z):
        return -0.5 * (z @ precision * z).sum(1)

    found = [gnomon.fit_posterior(normal, start=2, random_state=seed).pareto_k_ for seed in range(3)]
    # w = exp(z (S^-1 - P) z / 2) under q: k is 1 less the least eigenvalue of S^1/2 P S^1/2
    assert np.mean(found) == pytest.approx(2 / np.sqrt(10), abs=0.2)
    exact = gnomon.fit_posterior(normal, "full", start=2, random_state=0)
    assert exact.pareto_k_ == 0 and exact.elbo_.error < 1e-4


def test_tables_and_pictures(fitted, tmp_path):
    text = fitted.table()
    assert str(fitted) == text and "scale" in text and "lower bound nats" in text and "the best of 4 starts" in text
    assert fitted.picture(tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    assert fitted.picture(tmp_path / "a.svg", ["scale"]).read_text().startswith("<?xml")
    with pytest.raises(UserValueError, match="unknown coordinate 'sd'"):
        fitted.picture(tmp_path / "b.png", ["sd"])
    with pytest.raises(UserValueError, match=r"must end in \.png"):
        fitted.picture(tmp_path / "b.gif")


def test_fits_repeat_by_their_seed(fitted):
    again = gnomon.fit_posterior(log_joint, "full", parameters=NAMES, random_state=0)
    assert (again.elbo_history_ == fitted.elbo_history_).all()
    assert (again.sample(5)["mean"] == fitted.sample(5)["mean"]).all()


def test_starts_by_name_and_fields_of_recipes():
    found = gnomon.fit_posterior(
        log_joint, "structured", parameters=NAMES, start={"mean": 1.0, "scale": 1.0}, family__rank=1, method__scale=0.5
    )
    assert len(found.starts_) == 1 and found.q_.form.factor.shape == (2, 1)
    with pytest.raises(UserValueError, match="'scale' is missing"):
        gnomon.fit_posterior(log_joint, parameters=NAMES, start={"mean": 1.0})
    with pytest.raises(UserTypeError, match="give them by name"):
        found.log_prob(np.ones(3))
    with pytest.raises(UserValueError, match="restarts must be at least 1"):
        gnomon.fit_posterior(log_joint, parameters=NAMES, restarts=0)


def test_an_ascent_that_is_cut_short_says_so():
    with pytest.warns(UserWarning, match="still rising after 2 iterations: raise method__max_iter"):
        found = gnomon.fit_posterior(log_joint, parameters=NAMES, method__max_iter=2, restarts=1)
    assert not found.converged_ and found.n_iter_ == 2 and "did not converge" in found.table()


def test_ctrl_c_hands_over_what_is_there():
    calls = []

    def interrupting(at):
        calls.append(1)
        if len(calls) == 30:
            os.kill(os.getpid(), signal.SIGINT)
        return log_joint(at)

    with pytest.warns(UserWarning, match=r"interrupted after \d+ iterations: the best so far"):
        found = gnomon.fit_posterior(interrupting, parameters=NAMES, method__optimizer="adam", random_state=0)
    assert 0 < found.n_iter_ < 30 and np.isfinite(found.elbo_.value)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_restarts_go_on_bitwise_from_a_checkpoint():
    from gnomon.inference.variational.advi import ADVI
    from gnomon.inference.variational.families import MeanField
    from gnomon.inference.variational.method import VariationalProblem
    from gnomon.numeric.noise import Noise

    noise = Noise(3, "posterior")
    target = VariationalProblem(JointDensity(log_joint, NAMES), MeanField())

    def made():
        climb = Climb(lambda i: ADVI().ascent(target, noise.child(f"start-{i}")))
        return Ascents(3, 2000, lambda ascent, start: ascent.bound()[0]), Problem(climb, None, noise, Group())

    procedure, problem = made()
    whole = run_procedure(procedure, problem)
    first, other = made()
    run_procedure(first, other, limit=whole.steps // 2)
    arrays, facts = first.save(other.model)
    second, fresh = made()
    state, done, records = second.load(fresh, arrays, facts), False, whole.records[: whole.steps // 2]
    while not done:
        state, info = second.step(state)
        done = info.done
        records.append({"step": len(records) + 1, **info.record})
    assert records == whole.records
    assert state.heights == problem.model.heights and state.best == problem.model.best
    assert all((state.bests[name] == x).all() for name, x in problem.model.bests.items())


def test_data_that_no_method_would_look_at_and_names_that_are_not_there_are_refused():
    rows = np.zeros((4, 2))
    with pytest.raises(UserTypeError, match="takes no data apart"):
        gnomon.fit_posterior(lambda x: -(x**2).sum(1), start=2, data=rows)
    with pytest.raises(UserTypeError, match="takes no data apart"):
        gnomon.fit_posterior(lambda at: -(at["w"] ** 2), method="cavi", parameters={"w": ()}, data=rows)
    with pytest.raises(UserValueError, match="asks for 'v', the parameters are w"):
        gnomon.fit_posterior(lambda at: -(at["v"] ** 2).sum(1), parameters={"w": 2}, random_state=0)
    with pytest.raises(UserTypeError, match="chains must be a whole number"):
        gnomon.fit_posterior(lambda x: -(x**2).sum(1), start=2, random_state=0).draws(10, "a")
