"""Probability where there are no data: planted in enumerable machines, and found from outside."""

import numpy as np
import pytest
from tests.oracles.binary import all_states, rbm_energy

import gnomon
from gnomon.cli.main import run as command
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation import spurious
from gnomon.evaluation.spurious import nearest_distances, spurious_mass
from gnomon.systems.energy.rbm import RBMModel

D, MASS = 8, 0.3
DATA = np.tile(np.r_[np.ones(4), np.zeros(4)], (40, 1))
EXTRA = np.r_[np.zeros(5), np.ones(3)]


def planted(mass=MASS, strength=12.0):
    """Two hidden units that each hold one pattern: the data's, and another one that has `mass` of the probability.

    With h = (1, 0) or (0, 1) the visible units sit at a pattern; the biases of the hidden units set the masses, and
    make the two at once, or none, all but impossible.
    """
    W = 2 * strength * (np.array([DATA[0], EXTRA]).T - 0.5)
    normalizers = np.log1p(np.exp(W)).sum(0)  # log sum over v of exp(v W_j)
    c = np.log([1 - mass, mass]) - normalizers + normalizers.sum() / 2
    return RBMModel.of(W, np.zeros(D), c)


def by_hand(model, radius):
    """Mass outside by a sum over rows and hidden states."""
    W, b, c = (np.asarray(model.state()[name], float) for name in ("weight", "visible_bias", "hidden_bias"))
    energy = rbm_energy(W, b, c)
    v, h = all_states(D), all_states(2)
    minus = np.array([[-energy(x, y) for y in h] for x in v])
    p = np.exp(minus - minus.max()).sum(1)
    return float(p[np.abs(v - DATA[0]).sum(1) > radius].sum() / p.sum())


@pytest.mark.spec("INF-37")
def test_a_planted_mode_is_found_exactly_by_enumeration():
    model = planted()
    found = spurious_mass(model, DATA, r=2)
    assert found.kind == "exact" and found.error == 0
    assert found.value == pytest.approx(by_hand(model, 2), abs=1e-12)
    assert found.value == pytest.approx(MASS, abs=2e-3)
    assert (found.states[0] == EXTRA).all() and found.distance[0] == 7
    assert (np.diff(found.free_energy) >= 0).all()
    assert found.usual == 0 and found.excess == found.value


@pytest.mark.spec("INF-37")
@pytest.mark.parametrize("annealed", [True, False])
def test_and_within_its_error_by_draws(monkeypatch, annealed):
    """2,000 chains from random starts, or independent draws: within 4.5 errors of the exact mass, the error about
    sqrt(0.3 * 0.7 / 2000)."""
    monkeypatch.setattr(spurious, "EXACT_BITS", 2)
    monkeypatch.setattr(spurious, "DRAWN_BITS", 1 if annealed else 16)
    model = planted(strength=3.0)
    assert by_hand(model, 3) == pytest.approx(MASS, abs=0.02)
    found = spurious_mass(model, DATA, r=3, random_state=0, chains=2000, schedule=200)
    assert found.kind == "estimate" and found.ess > 500
    assert 0.005 < found.error < 0.03
    assert abs(found.value - by_hand(model, 3)) < 4.5 * found.error
    assert (nearest_distances(found.states, DATA) == found.distance).all()


@pytest.mark.spec("INF-37")
def test_chains_that_begin_at_the_data_would_miss_it():
    """What the detector does not do: Gibbs chains of 200 sweeps from the rows never leave the data's mode."""
    from gnomon.inference.mcmc.gibbs import gibbs
    from gnomon.numeric.noise import Noise

    model = planted()
    state = gibbs(model, {"visible": DATA}, Noise(0, "chains"), steps=200, order=("hidden", "visible"))
    assert nearest_distances(state["visible"], DATA).max() <= 2 < spurious_mass(model, DATA, r=2).distance[0]


@pytest.mark.spec("INF-37")
def test_distance_counts_units_and_the_radius_comes_from_the_rows():
    """Distances by a double loop; the default radius leaves as many rows without another one as it says."""
    random = np.random.default_rng(0)
    rows, states = (random.random((60, 10)) < 0.5).astype(float), (random.random((30, 10)) < 0.5).astype(float)
    by_loop = [min(int((a != b).sum()) for b in rows) for a in states]
    assert nearest_distances(states, rows).tolist() == by_loop
    model = RBMModel.of(np.zeros((10, 2)), np.zeros(10), np.zeros(2))
    found = spurious_mass(model, rows)
    own = [min(int((rows[i] != rows[j]).sum()) for j in range(60) if j != i) for i in range(60)]
    assert found.radius == sorted(own)[int(np.ceil(0.95 * 59))]
    assert found.usual == np.mean(np.array(own) > found.radius) <= 0.05
    every = all_states(10)
    outside = [min(int((a != b).sum()) for b in rows) > found.radius for a in every]
    assert found.value == pytest.approx(np.mean(outside), abs=1e-12)  # all rows have the same probability


@pytest.mark.spec("INF-37")
def test_diagnosis_warns_of_a_planted_mode_and_not_of_a_good_machine(tmp_path, capsys):
    random = np.random.default_rng(0)
    rows = np.where(random.random((200, D)) < 0.05, 1 - DATA[:1], DATA[:1])
    np.savetxt(tmp_path / "bits.csv", rows, fmt="%d", delimiter=",", header=",".join("abcdefgh"), comments="")
    out = str(tmp_path / "run")
    assert command(["fit", "rbm", str(tmp_path / "bits.csv"), "--n-hidden", "2", "--epochs", "30", "--out", out]) == 0
    assert command(["diagnose", out]) == 0
    assert "ok      the model has its mass where the rows are" in capsys.readouterr().out
    machine = gnomon.load(out)
    machine.model_.load({name: value.astype(np.float32) for name, value in planted(0.6, 3.0).state().items()})
    (found,) = gnomon.diagnose(machine, rows).of("spurious")
    assert found.level == "warning" and "far from every row" in found.what and "tempered" in found.remedy


def test_real_columns_and_wrong_input():
    random = np.random.default_rng(0)
    X = random.normal(size=(100, 2)) * [1.0, 50.0]
    machine = gnomon.GaussianRBM(n_hidden=2, epochs=5, random_state=0).fit(X)
    found = spurious_mass(machine, X, random_state=0, chains=50, schedule=50)
    assert found.kind == "estimate" and 0 <= found.value < 0.5
    rows = np.concatenate([X[:30], X[:5]])  # five of them twice: these have another one at distance 0
    spread = machine.to_visible(rows) / machine.to_visible(rows).std(axis=0)
    own = [min(np.linalg.norm(spread[i] - spread[j]) for j in range(35) if j != i) for i in range(35)]
    twice = spurious_mass(machine, rows, random_state=0, chains=10, schedule=10)
    assert twice.radius == pytest.approx(sorted(own)[int(np.ceil(0.95 * 34))], rel=1e-5)
    assert twice.usual == pytest.approx(1 / 35)  # one is farther: 0.95 of 34 is 32.3
    rbm = RBMModel.of(np.zeros((3, 2)), np.zeros(3), np.zeros(2))
    with pytest.raises(UserValueError, match="at least 2 rows of 3 columns"):
        spurious_mass(rbm, np.zeros((4, 2)))
    with pytest.raises(UserValueError, match="r must be at least 0"):
        spurious_mass(rbm, np.zeros((4, 3)), r=-1)
    with pytest.raises(UserValueError, match="finite"):
        spurious_mass(rbm, np.full((4, 3), np.nan))
    with pytest.raises(UserTypeError, match="no blocks"):
        spurious_mass(object(), np.zeros((4, 3)))
