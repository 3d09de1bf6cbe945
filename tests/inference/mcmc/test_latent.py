"""Information of a code against the mixing of its chain: closed forms, brute force, bounds from draws."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.mcmc.latent import (
    conditional_entropy,
    coupled_pair_trade_off,
    estimate_mutual_information,
    mutual_information,
    trade_off,
)
from gnomon.inference.mcmc.mixing import CoupledPair, mode_report
from gnomon.inference.mcmc.sweeps import Conditionals, Gibbs
from gnomon.numeric.noise import Noise
from oracles.binary import Joint, all_states, rbm_energy
from oracles.toys import ToyRBM, ToyTriangle, tiny_rbm


def pair(w):
    """``E(a, b) = -w a b`` of -1 and 1, in units of 0 and 1, read as data and code."""
    return ToyRBM(np.array([[4.0 * w]]), np.array([-2.0 * w]), np.array([-2.0 * w]))


def brute_force(model):
    """I(x; h) from the table of the joint, and H(h | x) of each x."""
    m, n = model.sizes["visible"], model.sizes["hidden"]
    table = Joint(rbm_energy(model.W, model.b, model.c), (m, n)).p.reshape(2**m, 2**n)
    x, h = table.sum(axis=1), table.sum(axis=0)
    given = table / x[:, None]
    return float((table * np.log(table / np.outer(x, h))).sum()), -(given * np.log(given)).sum(axis=1), x


@pytest.mark.spec("INF-20")
def test_the_coupled_pair_trades_in_closed_form():
    """``I = log 2 - H_b(sigma(2 w))`` and ``tanh(w)^2`` against enumeration and the kernel's matrix; both rise."""
    w = np.array([0.0, 0.3, 1.0, 2.0, 3.0])
    closed = [coupled_pair_trade_off(value) for value in w]
    for value, found in zip(w, closed, strict=True):
        exact = trade_off(pair(value))
        s = 1 / (1 + np.exp(-2 * value))
        entropy = -s * np.log(s) - (1 - s) * np.log1p(-s)
        assert found.information == pytest.approx(np.log(2) - entropy, abs=1e-12)
        assert found.information == pytest.approx(exact.information, abs=1e-12)
        assert found.information == pytest.approx(brute_force(pair(value))[0], abs=1e-12)
        assert found.eigenvalue == pytest.approx(exact.eigenvalue, abs=1e-12)
        assert found.eigenvalue == pytest.approx(np.tanh(value) ** 2, abs=1e-15)
    assert closed[0].information == closed[0].eigenvalue == 0.0
    assert (np.diff([c.information for c in closed]) > 0).all() and (np.diff([c.eigenvalue for c in closed]) > 0).all()
    assert coupled_pair_trade_off(-2.0) == coupled_pair_trade_off(2.0)
    assert coupled_pair_trade_off(900.0).information == pytest.approx(np.log(2), abs=1e-15)


@pytest.mark.spec("INF-20")
def test_alternating_draws_flip_as_the_pair_says():
    """Latent Gibbs of the pair: sign flips per sweep are ``(1 - lambda_2) / 2``; 400 chains, 5 errors."""
    for w in (0.0, 1.0):
        kernel, n, steps = Gibbs(order=("hidden", "visible")), 400, 300
        state = kernel.init({"visible": np.ones((n, 1)), "hidden": np.ones((n, 1))}, pair(w))
        draws = []
        for t in range(steps):
            state, _ = kernel.step(state, Noise(int(w), "sweeps").at(t))
            draws.append(state["visible"][:, 0])
        rate = mode_report(np.stack(draws, axis=1).astype(int)).switch_rate
        wanted = (1 - coupled_pair_trade_off(w).eigenvalue) / 2
        assert wanted == pytest.approx(CoupledPair(w).flip_rate, abs=1e-12)
        assert abs(rate - wanted) < 5 * np.sqrt(wanted * (1 - wanted) / (n * steps))


@pytest.mark.spec("INF-20")
@pytest.mark.parametrize("model", [tiny_rbm(), ToyRBM.random(4, 3, seed=2), ToyRBM.random(2, 5, seed=3, scale=3.0)])
def test_information_by_enumeration(model):
    """Against the table of the joint, from either side, in NumPy and torch."""
    information, entropies, _ = brute_force(model)
    assert mutual_information(model) == pytest.approx(information, abs=1e-11)
    x = all_states(model.sizes["visible"])
    assert conditional_entropy(model, x) == pytest.approx(entropies, abs=1e-12)
    tensors = model.astype(torch.from_numpy)
    assert mutual_information(tensors) == pytest.approx(information, abs=1e-11)
    assert conditional_entropy(tensors, torch.from_numpy(x)) == pytest.approx(entropies, abs=1e-12)
    turned = ToyRBM(model.W.T.copy(), model.c, model.b)
    assert conditional_entropy(turned, x, "hidden") == pytest.approx(entropies, abs=1e-12)
    rows = np.tile(x, (5, 1))
    for seed in range(2):
        told = estimate_mutual_information(turned, rows, Noise(seed, "codes"), block="hidden")
        plain = estimate_mutual_information(model, rows, Noise(seed, "codes"))
        assert (told.lower, told.upper) == (pytest.approx(plain.lower), pytest.approx(plain.upper))
    largest = max(model.sizes.values())
    assert mutual_information(model, limit=largest) == pytest.approx(information, abs=1e-11)
    with pytest.raises(UserValueError, match=f"block of {largest} units"):
        mutual_information(model, limit=largest - 1)


@pytest.mark.spec("INF-20")
def test_estimates_lie_on_their_sides_of_the_truth():
    """Exact draws in 400 sets of 50: the means of the bounds are on the stated sides, and enclose the truth closely."""
    model = ToyRBM.random(6, 4, seed=5, scale=1.0)
    information, _, p = brute_force(model)
    u = Noise(0, "exact").uniform(400 * 50)
    sets = all_states(6)[np.searchsorted(np.cumsum(p), u)].reshape(400, 50, 6)
    found = [estimate_mutual_information(model, x, Noise(1, "codes").at(k)) for k, x in enumerate(sets)]
    lower, upper = (np.array([getattr(f, side) for f in found]) for side in ("lower", "upper"))
    errors = [part.std(ddof=1) / np.sqrt(400) for part in (lower, upper)]
    assert lower.mean() < information + 4 * errors[0] and upper.mean() > information - 4 * errors[1]
    assert lower.mean() < upper.mean() and upper.mean() - lower.mean() < 0.2 * information
    # the errors that are told are those that are seen, to 4.5 errors of a standard deviation of 400
    assert np.mean([f.lower_error for f in found]) == pytest.approx(lower.std(ddof=1), rel=0.16)
    assert np.mean([f.upper_error for f in found]) == pytest.approx(upper.std(ddof=1), rel=0.16)
    many = estimate_mutual_information(model, sets[:60].reshape(-1, 6), Noise(2, "codes"))
    assert many.lower == pytest.approx(information, abs=4 * many.lower_error + 0.01)
    assert many.upper == pytest.approx(information, abs=4 * many.upper_error + 0.01)
    assert "biased down, at most log n = 8.01" in str(many)


@pytest.mark.spec("INF-20")
def test_a_code_of_many_nats_is_cut_at_log_n():
    """Eight units copied exactly: 8 log 2 nats, of which 20 draws can show log 20."""
    model = ToyRBM(60.0 * np.eye(8), np.full(8, -30.0), np.full(8, -30.0))
    assert mutual_information(model) == pytest.approx(8 * np.log(2), abs=1e-9)
    x = all_states(8)[::13]  # 20 different ones
    found = estimate_mutual_information(model, x, Noise(1, "h"))
    assert found.lower == pytest.approx(np.log(20), abs=1e-9)
    assert found.upper > 8 * np.log(2)


@pytest.mark.spec("INF-20")
def test_scaling_a_biased_model_collapses_it():
    """Information rises, then goes to 0 with the scale, where one state is left."""
    model = tiny_rbm()
    scaled = [mutual_information(ToyRBM(k * model.W, k * model.b, k * model.c)) for k in (0.0, 1.0, 3.0, 40.0)]
    assert scaled[0] == pytest.approx(0.0, abs=1e-12) and scaled[2] > scaled[1] > 0.01
    assert scaled[3] < 0.01


def test_chunks_and_mistakes():
    model = ToyRBM.random(3, 2, seed=0)
    x = (Noise(0, "x").uniform((3000, 3)) < 0.5).astype(float)
    import gnomon.inference.mcmc.latent as module

    whole = estimate_mutual_information(model, x, Noise(1, "h"))
    module._CHUNK, before = 3000 * 7, module._CHUNK
    try:
        assert estimate_mutual_information(model, x, Noise(1, "h")).lower == pytest.approx(whole.lower, abs=1e-12)
    finally:
        module._CHUNK = before
    with pytest.raises(UserValueError, match=r"a block of 21 units takes 2\^21 energies"):
        mutual_information(ToyRBM.random(21, 2, seed=0))
    with pytest.raises(UserTypeError, match="model must have two blocks, got 3"):
        conditional_entropy(ToyTriangle(np.zeros(3), np.zeros((3, 3))), x)
    with pytest.raises(UserValueError, match="block 'middle' is unknown"):
        conditional_entropy(model, x, "middle")
    with pytest.raises(UserTypeError, match="object has no entropy"):
        conditional_entropy(Conditionals({"a": lambda s: None, "b": lambda s: object()}), x, "a")
    with pytest.raises(
        UserValueError, match="x must have at least 2 draws, got 1; use thousands for a code of several nats"
    ):
        estimate_mutual_information(model, x[:1], Noise(0, "h"))
