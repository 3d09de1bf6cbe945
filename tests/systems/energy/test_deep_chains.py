"""Chains in deep representations: plain Gibbs at depth 0, kernels by enumeration, a known manifold, mixing by depth."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gnomon
from gnomon.cli.main import run
from gnomon.errors import UserValueError
from gnomon.inference.mcmc.gibbs import gibbs
from gnomon.numeric.noise import Noise
from gnomon.systems.energy.deep_chains import gap_of, nearest_center, spread_of

ROWS = np.repeat([[1.0, 1.0, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]], 30, axis=0)
CLASSES = np.repeat([0, 1], 30)


def network(hidden, rows=ROWS, scale=1.0, seed=0):
    """A fit whose parameters are large random numbers."""
    found = gnomon.DBN(hidden=hidden, epochs=1, tune_epochs=0, dtype="float64", random_state=0).fit(rows)
    random = np.random.default_rng(seed)
    found.model_.load({name: scale * random.normal(size=x.shape) for name, x in found.model_.state().items()})
    return found


@pytest.mark.spec("INF-29")
@pytest.mark.parametrize("steps", [0, 1, 7])
def test_depth_0_is_plain_gibbs_sampling_to_the_bit(steps):
    deep = network((4, 3))
    found = deep.gibbs(ROWS, steps, depth=0, random_state=5)
    plain = gibbs(
        deep.model_.pair(1), {"hidden_0": ROWS}, Noise(5, "gibbs"), steps=steps, order=("hidden_1", "hidden_0")
    )
    np.testing.assert_array_equal(found, plain["hidden_0"])
    single = network((4,))
    machine = gnomon.RBM(n_hidden=4, epochs=1, dtype="float64", random_state=0).fit(ROWS)
    state = single.model_.state()
    names = {"weight": "weight_1", "visible_bias": "bias_0", "hidden_bias": "bias_1"}
    machine.model_.load({name: state[other] for name, other in names.items()})
    theirs = machine.gibbs(ROWS, steps, random_state=5)
    np.testing.assert_array_equal(single.gibbs(ROWS, steps, random_state=5), theirs)


@pytest.mark.spec("INF-29")
def test_a_deep_walk_has_the_distribution_of_its_three_parts():
    """Up, a sweep at the top, down: the product of their transition matrices. 40,000 draws, 5 errors for each share."""
    deep = network((2, 2), np.tile([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]], (5, 1)), scale=0.8, seed=1)
    model, bits = deep.model_, {n: np.array(list(itertools.product([0.0, 1.0], repeat=n))) for n in (2, 3)}
    chance = lambda p, states: np.exp(states @ np.log(p).T + (1 - states) @ np.log(1 - p).T).T  # noqa: E731
    row = np.array([[1.0, 0.0, 1.0]])
    up = chance(model.upward(1, row).mean, bits[2])
    top = model.pair(2)
    rise = chance(top.conditional("hidden_2", {"hidden_1": bits[2]}).mean, bits[2])
    fall = chance(top.conditional("hidden_1", {"hidden_2": bits[2]}).mean, bits[2])
    down = chance(model.downward(1, bits[2]).mean, bits[3])
    expected = (up @ rise @ fall @ rise @ fall @ down)[0]
    n = 40_000
    drawn = deep.gibbs(np.repeat(row, n, 0), 2, depth=1, random_state=0)
    share = np.bincount((drawn @ [4, 2, 1]).astype(int), minlength=8) / n
    assert (np.abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / n)).all()


@pytest.mark.spec("INF-29")
def test_long_walks_at_the_top_draw_from_the_networks_own_distribution():
    """Not from that of the machine of the rows, which another fit has: 20,000 chains, 5 errors of each of 8 shares."""
    deep = network((2, 2), np.tile([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]], (5, 1)), scale=0.8, seed=2)
    every = np.array(list(itertools.product([0.0, 1.0], repeat=3)))
    expected, n = np.exp(deep.log_prob(every)), 20_000
    low = deep.model_.pair(1)
    bottom = np.exp(-low.marginal_energy({"hidden_0": every}))
    bottom /= bottom.sum()
    error = 5 * np.sqrt(expected * (1 - expected) / n)
    for depth, right, wrong in ((1, expected, bottom), (0, bottom, expected)):
        drawn = deep.gibbs(np.repeat(every[:1], n, 0), 60, depth=depth, random_state=1)
        share = np.bincount((drawn @ [4, 2, 1]).astype(int), minlength=8) / n
        assert (np.abs(share - right) < error + 1e-3).all()
        assert (np.abs(share - wrong) > error + 1e-3).any()


@pytest.mark.spec("INF-29")
def test_a_line_between_codes_stays_on_a_known_manifold_where_one_between_rows_leaves_it():
    """Rows 1...10...0 of length t: a unit that holds t / d, each column on where that is above its place."""
    d = 12
    lengths = np.arange(1, d)
    rows = (np.arange(d) < lengths[:, None]).astype(float)
    deep = network((1, 1), rows)
    zero = {name: np.zeros(value.shape) for name, value in deep.model_.state().items()}
    sharp, places = 400.0, (np.arange(d) + 0.5) / d
    gain = 4 / d  # so that sigmoid(gain (t - d / 2)) is near t / d
    deep.model_.load(zero | {
        "weight_1": np.full((d, 1), sharp), "bias_0": -sharp * places,
        "recognition_weight_1": np.full((d, 1), gain), "recognition_bias_1": np.array([-gain * d / 2]),
    })  # fmt: skip
    found = deep.interpolate(rows[1], rows[-2], 30, depth=1)
    on = (found > 0.5).astype(float)
    assert (np.diff(on, axis=1) <= 0).all()  # every point is 1...10...0
    assert (np.minimum(found, 1 - found).max(1) < 0.5).all() and (np.diff(on.sum(1)) >= 0).all()
    assert len(np.unique(on.sum(1))) >= 6  # and passes through the lengths between
    code = 1 / (1 + np.exp(-gain * (np.array([2.0, d - 2.0]) - d / 2)))
    line = np.linspace(code[0], code[1], 30)[:, None]
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-sharp * (line - places))), atol=1e-10)
    flat = deep.interpolate(rows[1], rows[-2], 30, depth=0)
    np.testing.assert_allclose(flat[1:-1, 2 : d - 2], np.linspace(0, 1, 30)[1:-1, None].repeat(d - 4, 1))
    assert len(np.unique((flat > 0.5).sum(1))) == 2  # the ends alone


@pytest.mark.spec("INF-29")
def test_mixing_of_two_modes_is_reported_beside_each_other():
    """At depth 0 chains must cross a barrier of many units; one coupling at the top lets them cross at once."""
    deep = network((2, 2))
    strong = np.repeat([[4.0, -4.0], [-4.0, 4.0]], 3, axis=0)
    zero = {name: np.zeros(value.shape) for name, value in deep.model_.state().items()}
    deep.model_.load(zero | {
        "weight_1": strong, "bias_0": -strong.sum(1) / 2, "recognition_weight_1": strong,
        "recognition_bias_1": -strong.sum(0) / 2,
        "weight_2": np.full((2, 2), 0.1),
    })  # fmt: skip
    shallow, top = deep.mixing_by_depth(ROWS, CLASSES, chains=30, steps=100)
    assert (shallow.depth, top.depth) == (0, 1)
    assert shallow.switch_rate < 0.05 < 0.3 < top.switch_rate
    assert shallow.dwell == pytest.approx(1 / shallow.switch_rate) if shallow.switch_rate else shallow.dwell == np.inf
    np.testing.assert_allclose(top.occupancy, [0.5, 0.5], atol=0.1)
    means = [ROWS, deep.model_.upward(1, ROWS).mean]
    for one, layer in zip((shallow, top), means, strict=True):
        assert one.spread == pytest.approx(spread_of(layer)) and one.gap == gap_of(layer, CLASSES)
    again = deep.mixing_by_depth(ROWS, CLASSES, chains=30, steps=100)
    assert [one.switch_rate for one in again] == [shallow.switch_rate, top.switch_rate]
    parity = deep.mixing_by_depth(ROWS, chains=5, steps=10, labeler=lambda x: (x.sum(1) % 2).astype(int))
    assert len(parity[0].occupancy) <= 2
    assert len(deep.mixing_by_depth(ROWS, chains=5, steps=10)) == 2  # clusters


@pytest.mark.spec("INF-29")
def test_the_switch_rate_of_a_pair_is_the_closed_form():
    """One unit of the rows and one hidden: a sweep flips the row with chance 2 s (1 - s). 5 errors of 40,000 steps."""
    deep = network((1,), np.array([[0.0], [1.0]] * 10))
    w = 2.0  # of bits: spins with a coupling of w / 4
    deep.model_.load({"weight_1": np.array([[w]]), "bias_0": np.array([-w / 2]), "bias_1": np.array([-w / 2])})
    (found,) = deep.mixing_by_depth(np.array([[0.0], [1.0]] * 10), [0, 1] * 10, chains=200, steps=201)
    s = 1 / (1 + np.exp(-w / 2))
    rate = 2 * s * (1 - s)
    assert abs(found.switch_rate - rate) < 5 * np.sqrt(rate * (1 - rate) / 40_000)


@pytest.mark.spec("INF-29")
def test_spread_and_gap_by_hand():
    assert spread_of(np.array([[0.5, 1.0], [0.5, 0.0]])) == 1.0
    assert spread_of(np.zeros((3, 2))) == 0.0
    assert gap_of(np.array([[0.0], [4.0]]), np.array([0, 1])) == np.inf
    assert np.isnan(gap_of(np.zeros((3, 1)), np.zeros(3, int)))
    label = nearest_center(ROWS, np.repeat(["b", "a"], 30))
    assert label(ROWS[:1]).tolist() == [1] and label(ROWS[-1:]).tolist() == [0]


@pytest.mark.spec("INF-29")
def test_the_report_of_a_run_shows_it(tmp_path):
    np.save(tmp_path / "x.npy", ROWS)
    folder, page = str(tmp_path / "run"), tmp_path / "page.html"
    options = ["--hidden", "4x3", "--epochs", "5", "--tune-epochs", "2"]
    assert run(["fit", "dbn", str(tmp_path / "x.npy"), *options, "--out", folder]) == 0
    assert run(["report", folder, "--out", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert "Mixing by depth" in text and "not the machine of the rows" in text


@pytest.mark.spec("INF-29")
@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda net: net.gibbs(ROWS, depth=2), "depth must be a layer from 0, the rows, to 1, got 2"),
        (lambda net: net.interpolate(ROWS[0], ROWS[1], depth=3), "to 2, got 3"),
        (lambda net: net.gibbs(ROWS, -1), "steps"),
        (lambda net: net.mixing_by_depth(ROWS, CLASSES, steps=1), "chains and steps must be at least 1 and 2"),
        (lambda net: net.mixing_by_depth(ROWS, CLASSES[:3]), "y must hold a class for each of 60 rows"),
    ],
)
def test_what_cannot_be_walked_is_refused(ask, words):
    with pytest.raises(UserValueError, match=words):
        ask(network((4, 3)))


def test_rows_that_are_no_bits_have_no_entropy_and_ends_of_a_line_are_rows():
    real = np.random.default_rng(0).normal(size=(20, 3))
    network = gnomon.DBN(hidden=(4, 3), visible="gaussian", epochs=1, random_state=0).fit(real)
    first, second = network.mixing_by_depth(real, np.arange(20) % 2, chains=2, steps=2)
    assert np.isnan(first.spread) and 0 < second.spread <= 1
    for start, end in ((real[0], real[1, :2]), (real[:2], real[:2]), (1.0, 2.0)):
        with pytest.raises(UserValueError, match=r"start and end must be rows of shape \(3,\)"):
            network.interpolate(start, end)
