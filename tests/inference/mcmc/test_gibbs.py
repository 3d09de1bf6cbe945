"""Block Gibbs, mean field and kernel matrices, against kernels made from the joint table alone."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.mcmc.chains import detailed_balance_error, invariance_error
from gnomon.inference.mcmc.gibbs import block_kernel, gibbs, joint_states, kernel_matrix, mean_field
from gnomon.inference.mcmc.sweeps import Conditionals, Gibbs
from gnomon.numeric.noise import Noise, recording
from oracles.binary import Joint, all_states, layers_energy, marginal_kernel, rbm_energy
from oracles.toys import ToyDBM, ToyRBM, ToyTriangle, tiny_rbm

FALSE_ALARM = 1e-4
"""Of each statistical test here; the seeds are fixed, so a passing test stays passing."""


def dbm_energy(model):
    """Energy over (even, odd) blocks: layers 0 and 2 side by side, then layer 1."""
    inner, cut = layers_energy(model.weights, model.biases), model.cut
    return lambda even, odd: inner(even[:cut], odd, even[cut:])


def cases():
    rbm, dbm, rng = ToyRBM.random(4, 3, 0), ToyDBM.random((2, 3, 2), 1), np.random.default_rng(2)
    bias, coupling = rng.normal(size=3), rng.normal(size=(3, 3))
    triangle = ToyTriangle(bias, np.triu(coupling, 1) + np.triu(coupling, 1).T)
    upper = np.triu(coupling, 1)

    def triangle_energy(*x):
        x = np.concatenate(x)
        return -sum(bias[i] * x[i] for i in range(3)) - sum(
            upper[i, j] * x[i] * x[j] for i in range(3) for j in range(i + 1, 3)
        )

    yield pytest.param(tiny_rbm(), rbm_energy(tiny_rbm().W, tiny_rbm().b, tiny_rbm().c), id="tiny")
    yield pytest.param(rbm, rbm_energy(rbm.W, rbm.b, rbm.c), id="rbm")
    yield pytest.param(dbm, dbm_energy(dbm), id="dbm")
    yield pytest.param(triangle, triangle_energy, id="single units")
    warm = rbm.bridge(rbm.base(np.array([0.2, 0.5, 0.7, 0.9])), 0.3)
    yield pytest.param(warm, rbm_energy(warm.W, warm.b, warm.c), id="tempered rbm")
    cool = dbm.bridge(dbm.base(), 0.6)
    yield pytest.param(cool, lambda x, y: -sum(x * cool.even) - sum(y * cool.odd) - (x @ cool.W @ y), id="tempered dbm")


@pytest.mark.spec("INF-19")
@pytest.mark.parametrize(("model", "energy"), list(cases()))
def test_every_update_is_the_conditional_of_the_joint_and_leaves_it_invariant(model, energy):
    sizes = [model.sizes[b] for b in model.blocks]
    truth = Joint(energy, sizes)
    assert np.array_equal(np.concatenate(list(joint_states(model).values()), axis=1), truth.states)
    product = np.eye(len(truth.p))
    for k, block in enumerate(model.blocks):
        kernel = kernel_matrix(model, (block,))
        assert np.allclose(kernel, truth.update_kernel(truth.columns[k]), rtol=0, atol=1e-13)
        assert invariance_error(kernel, truth.p) < 1e-12
        assert detailed_balance_error(kernel, truth.p) < 1e-12
        product = kernel @ product
    sweep = kernel_matrix(model)
    assert np.allclose(sweep, product, rtol=0, atol=1e-13)
    assert invariance_error(sweep, truth.p) < 1e-12
    assert detailed_balance_error(sweep, truth.p) > 1e-6  # a sweep in fixed order is invariant, not reversible


@pytest.mark.spec("INF-19")
@pytest.mark.parametrize(("model", "energy"), list(cases()))
def test_clamped_kernels_leave_the_conditional_distribution_invariant(model, energy):
    sizes = [model.sizes[b] for b in model.blocks]
    truth = Joint(energy, sizes)
    first, second = model.blocks[:2]
    mask = np.arange(sizes[0]) % 2 == 0
    value = np.arange(sizes[0]) % 4 == 0
    whole = (np.ones(sizes[1]), None)
    for clamp, units, held in (
        ({first: (value, mask)}, truth.columns[0][mask], value[mask]),
        ({second: whole}, truth.columns[1], np.ones(sizes[1])),
        (
            {first: (value, mask), second: whole},
            np.concatenate([truth.columns[0][mask], truth.columns[1]]),
            np.concatenate([value[mask], np.ones(sizes[1])]),
        ),
    ):
        inside = truth.clamped(units, held)
        kernel = kernel_matrix(model, clamp=clamp)
        assert np.array_equal(np.concatenate(list(joint_states(model, clamp).values()), axis=1), truth.states[inside])
        assert np.allclose(kernel.sum(axis=0), 1, rtol=0, atol=1e-12)
        assert invariance_error(kernel, truth.p[inside]) < 1e-12


@pytest.mark.spec("INF-19")
def test_chain_of_one_block():
    model = tiny_rbm()
    truth = Joint(rbm_energy(model.W, model.b, model.c), (3, 2))
    kernel = block_kernel(model, "visible")
    assert np.allclose(kernel, marginal_kernel(truth, 0), rtol=0, atol=1e-14)
    assert np.allclose(block_kernel(model, "hidden"), marginal_kernel(truth, 1), rtol=0, atol=1e-14)
    size = np.sort(np.abs(np.linalg.eigvals(kernel)))[::-1]
    assert size[:2] == pytest.approx([1, 0.298385], abs=5e-7)
    assert invariance_error(kernel, truth.marginal(0)) < 1e-14
    assert detailed_balance_error(kernel, truth.marginal(0)) < 1e-14
    known = [0.049962, 0.157389, 0.067442, 0.231609, 0.078157, 0.122888, 0.105501, 0.187052]
    assert np.linalg.matrix_power(kernel, 200)[:, 3] == pytest.approx(known, abs=1e-6)


@pytest.mark.parametrize(("k", "known"), [(1, 0.031294), (2, 0.009198), (10, 5.8e-7)])
def test_expected_contrastive_divergence_statistics(k, known):
    """The law of CD-k negatives by the kernel gives the published deviation from the exact gradient."""
    model, x = tiny_rbm(), all_states(3)
    statistic = np.einsum("nv,nh->nvh", x, model.conditional("hidden", {"visible": x}).mean)
    data = np.isin(np.arange(8), [0b101, 0b010]) / 2.0
    truth = Joint(rbm_energy(model.W, model.b, model.c), (3, 2)).marginal(0)
    negative = np.linalg.matrix_power(block_kernel(model, "visible"), k) @ data
    gradient = np.tensordot(data - negative, statistic, axes=1)
    exact = np.tensordot(data - truth, statistic, axes=1)
    assert np.abs(gradient - exact).max() == pytest.approx(known, rel=2e-2 if k == 10 else 1e-4)
    if k == 1:
        expected = [[-0.092740, 0.047439], [-0.026363, -0.138588], [-0.046313, -0.203393]]
        assert np.allclose(gradient, expected, rtol=0, atol=1e-6)


@pytest.mark.spec("INF-19")
def test_samples_follow_the_enumerated_distribution():
    """Chi-square over the 32 joint states, 4,000 independent chains, false-alarm rate 1e-4."""
    model, n = tiny_rbm(), 4000
    truth = Joint(rbm_energy(model.W, model.b, model.c), (3, 2))
    state = gibbs(model, {"visible": np.zeros((n, 3))}, Noise(1, "chi"), steps=25, order=("hidden", "visible"))
    joint = np.concatenate([state["visible"], state["hidden"]], axis=1)
    assert _chi_square(joint, truth.p) < chi2.isf(FALSE_ALARM, 31)


@pytest.mark.spec("INF-19")
def test_a_block_of_all_units_gives_exact_draws_that_know_nothing_of_the_last():
    model, n = tiny_rbm(), 4000
    truth = Joint(rbm_energy(model.W, model.b, model.c), (3, 2))

    class Whole:
        def sample(self, noise, draw):
            return truth.states[np.searchsorted(np.cumsum(truth.p)[:-1], noise.uniform((n,), draw))]

    one, noise = Conditionals({"all": lambda state: Whole()}), Noise(7, "whole").at(0)
    ends = [Gibbs().step(Gibbs().init({"all": np.full((n, 5), x)}, one), noise)[0]["all"] for x in (0.0, 1.0)]
    assert np.array_equal(*ends)
    assert _chi_square(ends[0], truth.p) < chi2.isf(FALSE_ALARM, 31)


@pytest.mark.spec("INF-19")
def test_one_sweep_has_the_law_of_its_kernel_matrix():
    """Chi-square of one sweep from one state against a column of the matrix, false-alarm rate 1e-4 each."""
    model, n = ToyDBM.random((2, 2, 2), 4), 4000
    table = joint_states(model)
    start = {name: np.repeat(x[37:38], n, axis=0) for name, x in table.items()}
    law = kernel_matrix(model)[:, 37]
    state = gibbs(model, start, Noise(5, "free"))
    assert _chi_square(np.concatenate([state["even"], state["odd"]], axis=1), law) < chi2.isf(FALSE_ALARM, 63)

    clamp = {"even": (np.array([1.0, 0, 0, 0]), np.array([True, False, False, False]))}
    table, law = joint_states(model, clamp), kernel_matrix(model, clamp=clamp)[:, 5]
    start = {name: np.repeat(x[5:6], n, axis=0) for name, x in table.items()}
    many = {"even": (np.repeat(clamp["even"][0][None], n, axis=0), clamp["even"][1])}
    state = gibbs(model, start, Noise(6, "clamped"), clamp=many)
    assert (state["even"][:, 0] == 1).all()
    joint = np.concatenate([state["even"][:, 1:], state["odd"]], axis=1)
    assert _chi_square(joint, law) < chi2.isf(FALSE_ALARM, 31)


def _chi_square(rows, p):
    """Statistic of the counts of the rows' numbers; expectations below 1 would spoil it and are pooled."""
    number = (rows @ 2.0 ** np.arange(rows.shape[1])[::-1]).astype(int)
    observed, expected = np.bincount(number, minlength=len(p)), len(rows) * p
    small = expected < 5
    observed = np.append(observed[~small], observed[small].sum())
    expected = np.append(expected[~small], max(expected[small].sum(), 1e-9))
    return float((np.square(observed - expected) / expected).sum())


@pytest.mark.spec("INF-19")
def test_addresses_are_used_once_and_numbered_on():
    model, noise = tiny_rbm(), Noise(3, "gibbs").at(7)
    start = {"visible": np.zeros((6, 3))}
    order = ("hidden", "visible")
    with recording():
        first = gibbs(model, start, noise, steps=2, order=order)
        then = gibbs(model, first, noise, steps=3, order=order, draw0=4)
    together = gibbs(model, start, noise, steps=5, order=order)
    assert all(np.array_equal(then[name], together[name]) for name in then)


def test_a_shard_of_the_chains_is_the_same_chains():
    model, noise = tiny_rbm(), Noise(3, "gibbs")
    whole = gibbs(model, {"visible": np.zeros((9, 3))}, noise, steps=4, order=("hidden", "visible"))
    shard = noise.rows(np.arange(4, 9))
    part = gibbs(model, {"visible": np.zeros((5, 3))}, shard, steps=4, order=("hidden", "visible"))
    assert np.array_equal(whole["visible"][4:], part["visible"])


def test_arrays_keep_kind_and_type_and_the_input_is_untouched():
    model = tiny_rbm()
    start = {"visible": np.ones((5, 3), np.float32)}
    start["visible"].setflags(write=False)
    clamp = {"visible": (np.zeros((5, 3)), np.array([True, False, False]))}
    small = model.astype(lambda x: x.astype(np.float32))
    ours = gibbs(small, start, Noise(1, "x"), steps=2, order=("hidden", "visible"), clamp=clamp)
    assert ours["visible"].dtype == np.float32
    assert (start["visible"] == 1).all()
    tensors = small.astype(torch.tensor)
    theirs = gibbs(
        tensors, {"visible": torch.ones(5, 3)}, Noise(1, "x"), steps=2, order=("hidden", "visible"), clamp=clamp
    )
    assert isinstance(theirs["visible"], torch.Tensor)
    assert np.array_equal(theirs["visible"].numpy(), ours["visible"])


def test_clamps_hold_from_the_start_and_whole_blocks_stay():
    model, n = tiny_rbm(), 4
    v = np.tile([1.0, 0, 1], (n, 1))
    state = gibbs(model, {}, Noise(0, "x"), clamp={"visible": (v, None)}, order=("visible", "hidden"), steps=3)
    assert np.array_equal(state["visible"], v)
    mask = np.array([True, False, True])
    state = gibbs(model, {"visible": 1 - v}, Noise(0, "x"), steps=0, clamp={"visible": (v, mask)})
    assert state["visible"].tolist() == [[1, 1, 1]] * n


@pytest.mark.spec("INF-19")
def test_mean_field_finds_a_fixed_point_and_is_exact_where_units_are_independent():
    rbm, v = tiny_rbm(), np.array([[1.0, 0, 1], [0, 1, 1]])
    means = mean_field(rbm, {"visible": (v, None)}, steps=1)
    assert np.array_equal(means["hidden"], rbm.conditional("hidden", {"visible": v}).mean)
    dbm = ToyDBM.random((3, 2, 2), 3)
    mask = np.arange(5) < 3
    clamp = {"even": (np.tile([1.0, 0, 1, 0, 0], (2, 1)), mask)}
    means = mean_field(dbm, clamp, steps=300)
    assert (means["even"][:, :3] == [1, 0, 1]).all()
    assert np.allclose(means["odd"], dbm.conditional("odd", means).mean, rtol=0, atol=1e-12)
    assert np.allclose(means["even"][:, 3:], dbm.conditional("even", means).mean[:, 3:], rtol=0, atol=1e-12)


def test_mean_field_raises_its_bound():
    dbm = ToyDBM.random((3, 3, 2), 8)
    clamp = {"even": (np.array([[1.0, 1, 0, 0, 0]]), np.arange(5) < 3)}
    table = joint_states(dbm, clamp)
    minus_energy = -dbm.joint_energy(table)
    log_evidence = np.logaddexp.reduce(minus_energy)
    bounds = []
    for steps in range(8):
        q = mean_field(dbm, clamp, steps=steps)
        p = np.concatenate([q["even"][:, 3:], q["odd"]], axis=1)
        x = np.concatenate([table["even"][:, 3:], table["odd"]], axis=1)
        log_q = (x * np.log(p) + (1 - x) * np.log1p(-p)).sum(axis=1)
        bounds.append(float((np.exp(log_q) * (minus_energy - log_q)).sum()))
    assert (np.diff(bounds) > -1e-12).all()
    assert bounds[-1] < log_evidence


def test_wrong_use_is_named():
    model = tiny_rbm()
    with pytest.raises(UserValueError, match="'hiden' is unknown"):
        gibbs(model, {"visible": np.zeros((1, 3))}, Noise(0, "x"), order=("hiden",))
    with pytest.raises(UserValueError, match="steps must be at least 0, got -1"):
        gibbs(model, {}, Noise(0, "x"), steps=-1)
    with pytest.raises(UserValueError, match="steps must be at least 0, got -1"):
        mean_field(model, {}, steps=-1)
    with pytest.raises(UserValueError, match="2\\^20 states"):
        kernel_matrix(ToyRBM.random(10, 10, 0))
    with pytest.raises(UserValueError, match="at most 12 in each"):
        block_kernel(ToyRBM.random(13, 2, 0), "hidden")
    with pytest.raises(UserValueError, match="3 blocks"):
        block_kernel(ToyTriangle(np.zeros(3), np.zeros((3, 3))), "a")


@pytest.mark.parametrize(
    ("held", "words"),
    [
        (np.ones((2, 3)), "clamp['visible'] must be a pair (value, mask), got an array of shape (2, 3)"),
        ((np.ones((2, 4)), None), "the value of block 'visible' must have 3 columns, one for each unit, got the shape"),
        ((np.ones((2, 3)), np.ones((2, 2))), "the mask of block 'visible' must have 3 columns"),
        ((np.ones((2, 3)), "all"), "clamp['visible'] must hold numbers as its mask, got 'all'"),
        ((np.ones((4, 3)), None), "all blocks must have the same number of chains, got 4 of visible, 2 of hidden"),
        ((np.ones((4, 3)), np.eye(3)[:1]), "all blocks must have the same number of chains, got 4 of visible, 2 of"),
    ],
)
def test_a_clamp_that_does_not_fit_is_named(held, words):
    model = tiny_rbm()
    state = {"visible": np.zeros((2, 3)), "hidden": np.zeros((2, model.sizes["hidden"]))}
    with pytest.raises((UserValueError, UserTypeError), match=re.escape(words)):
        gibbs(model, state, Noise(0, "x"), clamp={"visible": held})
