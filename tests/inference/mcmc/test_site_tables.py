"""Looked-up sweeps: thresholds against tables of the joint, draws against the loop that computes every field."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gnomon.errors import UserValueError
from gnomon.inference.mcmc.chains import detailed_balance_error, invariance_error
from gnomon.inference.mcmc.sampling import sample_chain
from gnomon.inference.mcmc.site_tables import SiteTables
from gnomon.inference.mcmc.sites import PairwiseUnits, SingleSite
from gnomon.numeric.noise import Noise, recording
from oracles.binary import Joint, all_states


class Unaddressed:
    """Noise that gives numbers but no addresses, so that nothing can be drawn inside a compiled loop."""

    def __init__(self, noise):
        self.uniform = noise.uniform


def glass(rows, columns, seed):
    """A grid whose couplings and biases are all different."""
    rng, d = np.random.default_rng(seed), rows * columns
    u = np.zeros((d, d))
    for i in range(d):
        for j in (i + 1 if (i + 1) % columns else d, i + columns):
            if j < d:
                u[i, j] = rng.normal()
    return PairwiseUnits(u, rng.normal(size=d))


def alike(n, coupling):
    """A grid of spins with one coupling, as units of 0 and 1."""
    grid = glass(n, n, 0)
    u = np.triu(4 * coupling * (grid.pairs.toarray() != 0))
    return PairwiseUnits(u, -(u + u.T).sum(axis=1) / 2)


def complete(d, seed, scale=1.0):
    rng = np.random.default_rng(seed)
    return PairwiseUnits(scale * rng.normal(size=(d, d)), rng.normal(size=d))


def sweep_matrix(units, order):
    """The kernel of a sweep from the thresholds alone."""
    d, tables = units.d, units.tables
    states = all_states(d).astype(np.int64)
    padded, now, sweep = np.hstack([states, np.zeros((2**d, 1), np.int64)]), np.arange(2**d), np.eye(2**d)
    for unit in order:
        code = padded[:, tables.near[unit].astype(int)] @ (1 << np.arange(tables.near.shape[1]))
        p = tables.threshold[tables.start[unit].astype(int) + code] * 2.0**-52
        place = 2 ** (d - 1 - unit)
        off, update = now - place * states[:, unit], np.zeros((2**d, 2**d))
        update[off + place, now], update[off, now] = p, 1 - p
        sweep = update @ sweep
    return sweep


@pytest.mark.spec("INF-18", "GEN-003")
@pytest.mark.parametrize("units", [glass(2, 4, 1), glass(3, 3, 2), alike(3, 0.4), complete(5, 3), complete(1, 4)])
def test_a_colored_sweep_is_the_product_of_the_conditionals(units):
    def energy(x):
        x = np.asarray(x, float)
        return -x @ units.bias - x @ np.triu(units.pairs.toarray()) @ x

    truth, expected = Joint(energy, (units.d,)), np.eye(2**units.d)
    for unit in units.by_color:
        expected = truth.update_kernel([unit]) @ expected
    matrix = sweep_matrix(units, units.by_color)
    assert np.allclose(matrix, expected, rtol=0, atol=1e-14)
    assert invariance_error(matrix, truth.p) < 1e-12
    back = sweep_matrix(units, units.by_color[::-1])
    if units.d > 1:
        assert detailed_balance_error(matrix, truth.p) > 1e-6
    assert np.allclose(back * truth.p, (matrix * truth.p).T, rtol=0, atol=1e-13)  # its reversal


@pytest.mark.spec("INF-18", "GEN-003")
@pytest.mark.parametrize("scan", ["systematic", "backward", "colored", "colored-backward"])
@pytest.mark.parametrize("units", [glass(4, 5, 5), alike(6, 0.3), glass(1, 7, 6), complete(8, 7), complete(15, 8, 0.3)])
def test_draws_are_those_of_the_computed_fields(units, scan):
    """u < p against logit(u) < field, number for number; rounding could tell them apart once in 1e10 updates."""
    assert (units.tables is None) == (units.d == 15)
    mover = SingleSite(scan, clamp=(np.arange(units.d) % 2, np.arange(units.d) < 2))
    state = other = mover.init((np.random.default_rng(9).random((40, units.d)) < 0.5).astype(float), units)
    for t in range(20):
        noise = Noise(1, "sites").at(t)
        state, info = mover.step(state, noise)
        other, computed = mover.step(other, Unaddressed(noise))
        assert np.array_equal(state["x"], other["x"])
        assert np.array_equal(info["changed"], computed["changed"])
    assert (state["x"][:, :2] == [0, 1]).all()
    assert 0 < info["changed"].mean() < 1


@pytest.mark.spec("INF-18")
def test_colors_are_taken_in_turn():
    units, noise = glass(4, 4, 10), Noise(2, "sites").at(0)
    x = (np.random.default_rng(0).random((30, 16)) < 0.5).astype(float)
    colored, order = SingleSite("colored"), tuple(np.concatenate(units.colors()))
    assert set(order[:8]) == {i for i in range(16) if (i // 4 + i % 4) % 2 == (order[0] // 4 + order[0] % 4) % 2}
    by_hand = SingleSite(order=order)
    first = colored.step(colored.init(x, units), noise)[0]["x"]
    assert np.array_equal(first, by_hand.step(by_hand.init(x, units), noise)[0]["x"])
    some = SingleSite("colored", order=(3, 2, 1, 0))
    expected = SingleSite(order=(2, 0, 3, 1) if units.color[0] < units.color[1] else (3, 1, 2, 0))
    assert np.array_equal(
        some.step(some.init(x, units), noise)[0]["x"], expected.step(expected.init(x, units), noise)[0]["x"]
    )
    assert colored.reversed().reversed() == colored


@pytest.mark.parametrize("k", [0, 5])
def test_the_lower_bits_decide_a_tie(k):
    """A threshold is set at the very number that is drawn: below it is 0, one more is 1."""
    u = Noise(3, "tie").uniform((4, 6), dtype=np.float64)
    drawn = int(u[2, k] * 2.0**52)  # u = (w + 1/2) 2^-52
    for bound, on in ((drawn, 0), (drawn + 1, 1)):
        tables = SiteTables(
            np.zeros((6, 0), np.uint32), np.zeros(6, np.uint64), np.array([bound], np.uint64)
        )  # fmt: skip
        new, _ = tables.sweep(np.zeros((4, 6)), np.arange(6, dtype=np.uint64), Noise(3, "tie"))
        assert new[2, k] == on
        assert np.array_equal(np.delete(new.ravel(), 12 + k), np.delete((u * 2.0**52 < bound).ravel(), 12 + k))


@pytest.mark.spec("INF-18")
def test_certain_units_do_not_saturate():
    for field in (-27.631, 27.631, -40.0, 40.0):
        tables = PairwiseUnits(np.zeros((1, 1)), [field]).tables
        chance = int(tables.threshold[0]) * 2.0**-52
        assert chance == pytest.approx(1 / (1 + math.exp(-field)), rel=1e-3, abs=2.0**-53)


@pytest.mark.spec("INF-18")
def test_saved_chains_go_on_bitwise_and_addresses_are_used_once():
    options = {"chains": 3, "burn_in": 5, "random_state": 4}
    with recording():
        whole = sample_chain(alike(5, 0.4), SingleSite("colored"), draws=20, **options)
    first = sample_chain(alike(5, 0.4), SingleSite("colored"), draws=8, **options)
    rest = sample_chain(alike(5, 0.4), SingleSite("colored"), draws=12, chains=3, resume=first.save())
    assert np.array_equal(whole.draws, np.concatenate([first.draws, rest.draws], axis=1))
    one = sample_chain(alike(5, 0.4), SingleSite("colored"), draws=20, chains=1, burn_in=5, random_state=4)
    assert np.array_equal(one.draws[0], whole.draws[0])  # a chain does not depend on how many there are


def test_what_has_no_colors_is_refused():
    with pytest.raises(UserValueError, match="has no colors"):
        sample_chain(lambda x: -x.sum(-1), SingleSite("colored"), start=3, chains=2)
