"""Latent expectations and most probable values as features: enumeration, closed forms, stationary points."""

from __future__ import annotations

import itertools
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from scipy import optimize
from sklearn.pipeline import make_pipeline

import gnomon
from gnomon.catalog import entry, load_class
from gnomon.cli.main import run
from gnomon.distributions.bernoulli import Bernoulli
from gnomon.distributions.binomial_units import Binomials
from gnomon.distributions.gamma_units import Gammas
from gnomon.distributions.harmonium_units import Poissons, TruncatedExponentials
from gnomon.distributions.layers import Gaussians, OneHot, Spins
from gnomon.distributions.pooled_units import DeterministicMaxUnits, ProbabilisticMaxUnits
from gnomon.errors import UserValueError
from gnomon.inference.exact.modes import most_probable
from gnomon.inference.exact.posterior import ExactPosterior
from gnomon.inference.variational.binary_sparse_coding import BinarySparseCoding
from gnomon.numeric.noise import Noise
from gnomon.systems.energy.dbm import DBMModel

D = 4
BITS = (np.random.default_rng(0).random((12, D)) < 0.5).astype(float)
REALS = np.random.default_rng(1).normal(size=(12, D))
LABELS = np.arange(12) % 3


def fitted(name, X, y=None, **options):
    """A system with large random parameters, none of which a fit has smoothed."""
    fields = {"epochs": 1, "dtype": "float64", "random_state": 0} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        system = load_class(entry(name))(**fields).fit(X, y)
    random, model = np.random.default_rng(2), system.model_
    state = model.state()
    model.load({key: value + 0.8 * random.normal(size=value.shape) for key, value in state.items()})
    return system


def best_of_all(model, visible, blocks):
    """The states of these blocks of least joint energy beside each of the visible states, one by one."""
    every = [model.units[block].states(np.arange(int(model.units[block].n_states))) for block in blocks]
    found = []
    for row in visible:
        least, best = np.inf, None
        for choice in itertools.product(*every):
            state = {block: x[None] for block, x in zip(blocks, choice, strict=True)}
            energy = float(model.joint_energy({"visible": row[None], **state})[0])
            if energy < least:
                least, best = energy, np.concatenate(choice)
        found.append(best)
    return np.array(found)


ENUMERATED = {
    "rbm": (BITS, {"n_hidden": 4}, ("hidden",)),
    "gaussian-rbm": (REALS, {"n_hidden": 4}, ("hidden",)),
    "hidden-boltzmann-machine": (BITS, {"n_hidden": 4}, ("hidden",)),
    "semi-restricted-rbm": (BITS, {"n_hidden": 4}, ("hidden",)),
    "dbm": (BITS, {"hidden": (3, 2), "pretrain_epochs": 0}, ("hidden_1", "hidden_2")),
    "mcrbm": (REALS, {"n_mean": 2, "n_covariance": 2}, ("hidden",)),
    "harmonium": (BITS, {"n_hidden": 2, "hidden": "softmax"}, ("hidden",)),
}


@pytest.mark.spec("REP-151")
@pytest.mark.parametrize("name", ENUMERATED)
def test_the_map_is_the_best_of_all_states_and_the_mean_their_average(name):
    X, options, blocks = ENUMERATED[name]
    system = fitted(name, X, **options)
    codes = system.transform(X, method="map")
    visible = system.to_visible(X)
    np.testing.assert_array_equal(codes, best_of_all(system.model_, visible, blocks))
    assert list(system.get_feature_names_out()) == [
        f"{type(system).__name__.lower()}{j}" for j in range(codes.shape[1])
    ]
    np.testing.assert_array_equal(system.transform(X), system.transform(X, method="mean"))


@pytest.mark.spec("REP-151")
def test_the_mean_of_a_restricted_machine_is_that_of_all_states():
    system = fitted("rbm", BITS, n_hidden=4)
    engine = ExactPosterior.of_blocks(system.model_)
    np.testing.assert_allclose(system.transform(BITS), engine.mean(BITS), rtol=1e-12)
    np.testing.assert_array_equal(system.transform(BITS, method="map"), engine.mode(BITS))


@pytest.mark.spec("REP-151")
@pytest.mark.parametrize("pooling", ["none", "probabilistic", "deterministic"])
def test_pooled_maps_stand_at_the_best_of_all_states(pooling):
    system = fitted("conv-rbm", BITS, n_maps=1, kernel=(1, 1), image_shape=(2, 2), pooling=pooling, region=(2, 2))
    best = best_of_all(system.model_, system.to_visible(BITS), ("hidden",))
    np.testing.assert_array_equal(system.transform(BITS, method="map"), system.model_.code("hidden", best))


@pytest.mark.spec("REP-151")
@pytest.mark.parametrize("kind", [ProbabilisticMaxUnits, DeterministicMaxUnits])
def test_regions_stand_at_their_best_states_under_fields_from_above_too(kind):
    units = kind(1, 4, 2, 2, 2)
    field, own = np.random.default_rng(8).normal(0, 2, size=(40, units.size)), {"bias": np.full(8, -1.0)}
    found = units.conditional(field, own)
    every = units.states(np.arange(units.n_states))
    log_p = np.stack([found.log_prob(np.tile(state, (40, 1))) for state in every], axis=1)
    np.testing.assert_array_equal(found.mode, every[log_p.argmax(1)])
    there = units.conditional(torch.tensor(field), {"bias": torch.full((8,), -1.0)})
    np.testing.assert_array_equal(there.mode.numpy(), found.mode)


@pytest.mark.spec("REP-151")
def test_hidden_layers_of_every_kind_stand_at_the_best_of_all_states():
    for kind in ("bernoulli", "ising", "binomial"):
        system = fitted("harmonium", BITS, n_hidden=3, visible="bernoulli", hidden=kind)
        best = best_of_all(system.model_, system.to_visible(BITS), ("hidden",))
        np.testing.assert_array_equal(system.transform(BITS, method="map"), best)
    system = fitted("harmonium", BITS, n_hidden=3, visible="bernoulli", hidden="poisson")
    grid, visible = np.arange(60.0), system.to_visible(BITS)
    for j, column in enumerate(system.transform(BITS, method="map").T):
        states = [{"visible": visible, "hidden": np.eye(3)[[j] * len(BITS)] * k} for k in grid]
        energies = np.array([system.model_.joint_energy(state) for state in states])
        np.testing.assert_array_equal(column, grid[energies.argmin(0)])


@pytest.mark.spec("REP-151")
def test_modes_are_the_most_probable_of_many_draws_in_numpy_and_torch():
    field = np.random.default_rng(7).normal(size=(3, 4))
    kinds = (
        Bernoulli, Spins, partial(OneHot, levels=2), partial(Binomials, trials=3), Poissons, TruncatedExponentials,
        Gaussians, partial(Gammas, np.array([0.5, 1.0, 2.0, 5.0])),
    )  # fmt: skip
    for kind in kinds:
        given = np.exp(field) if getattr(kind, "func", None) is Gammas else field
        here = kind(given)
        there = partial(Gammas, torch.tensor(here.shape)) if given is not field else kind
        np.testing.assert_allclose(there(torch.tensor(given)).mode.numpy(), here.mode, rtol=1e-12)
        if given is field:
            draws = np.stack([here.sample(Noise(0, "mode"), draw) for draw in range(200)])
            assert (here.log_prob(here.mode) >= np.stack([here.log_prob(x) for x in draws]).max(0) - 1e-12).all()


@pytest.mark.spec("REP-151")
@pytest.mark.parametrize(("name", "options"), [("label-rbm", {}), ("class-gated-rbm", {"n_nuisance": 2})])
def test_classes_and_hidden_bits_are_taken_together(name, options):
    system = fitted(name, BITS, LABELS, n_hidden=3, visible="bernoulli", **options)
    model, blocks = system.model_, ("hidden", "nuisance") if options else ("hidden",)
    best, least = np.zeros((len(BITS), 3 + 2 * bool(options))), np.full(len(BITS), np.inf)
    for code in range(3):
        visible = model.with_class(BITS, np.full(len(BITS), code))
        states = best_of_all(model, visible, blocks)
        parts = dict(zip(blocks, np.split(states, [3], axis=1), strict=False))
        energy = model.joint_energy({"visible": visible, **parts})
        best[energy < least], least = states[energy < least], np.minimum(energy, least)
    group = {"group": "both"} if options else {}
    np.testing.assert_array_equal(system.transform(BITS, method="map", **group), best)


@pytest.mark.spec("REP-151")
def test_two_hidden_sets_that_gate_each_other():
    system = fitted("pointwise-gated-rbm", BITS, n_hidden=2)
    blocks = tuple(block for block in system.model_.blocks if block != "visible")
    best = dict(
        zip(
            blocks, np.split(best_of_all(system.model_, BITS, blocks), [system.model_.sizes[blocks[0]]], 1), strict=True
        )
    )
    np.testing.assert_array_equal(system.transform(BITS, method="map"), best["hidden"])


@pytest.mark.spec("REP-151")
def test_mapping_units_of_pairs_and_of_first_rows_alone():
    Y = (np.random.default_rng(3).random((12, 2)) < 0.5).astype(float)
    system = fitted("gated-rbm", BITS, Y, n_hidden=2, outputs="bernoulli")
    codes, alone = system.transform(BITS, Y, method="map"), system.transform(BITS, method="map")
    scaled = system._scaled(BITS)
    for i in range(len(BITS)):
        given = system.model_.given(scaled[i : i + 1])
        np.testing.assert_array_equal(codes[i : i + 1], best_of_all(given, Y[i : i + 1], ("hidden",)))
        every = np.array(list(itertools.product([0.0, 1.0], repeat=2)))
        bests = best_of_all(given, every, ("hidden",))
        energies = [
            given.joint_energy({"visible": y[None], "hidden": h[None]})[0] for y, h in zip(every, bests, strict=True)
        ]
        np.testing.assert_array_equal(alone[i], bests[int(np.argmin(energies))])


@pytest.mark.spec("REP-151")
@pytest.mark.parametrize("hidden", [(3,), (3, 2), (2, 2, 3)])
def test_the_map_of_a_deep_belief_network_is_of_its_joint_distribution(hidden):
    system = fitted("dbn", BITS, hidden=hidden, tune_epochs=0)
    model, every = system.model_, np.array(list(itertools.product([0.0, 1.0], repeat=sum(hidden))))
    layers = np.split(every, np.cumsum(hidden)[:-1], axis=1)
    top = model.pair(model.depth)
    names = [f"hidden_{model.depth - 1}", f"hidden_{model.depth}"]
    for row, code in zip(BITS, system.transform(BITS, method="map"), strict=True):
        below = [np.repeat(row[None], len(every), 0), *layers[:-1]]
        log_p = model.log_prob_down(below) - top.joint_energy({names[0]: below[-1], names[1]: layers[-1]})
        np.testing.assert_array_equal(code, every[log_p.argmax()])


@pytest.mark.spec("REP-151")
def test_a_normal_posterior_has_its_mode_at_the_linear_formula():
    X = REALS.copy()
    model = gnomon.PPCA(n_components=2).fit(X)
    W, s = model.components_.T, model.noise_variance_
    linear = (X - model.mean_) @ W @ np.linalg.inv(W.T @ W + s * np.eye(2))
    for method in ("mean", "map"):
        np.testing.assert_allclose(model.transform(X, method=method), linear, atol=1e-10)
    X[0, 1] = np.nan
    code = model.transform(X, method="map")[0]
    seen = ~np.isnan(X[0])
    slope = W[seen].T @ (X[0, seen] - model.mean_[seen] - W[seen] @ code) / s - code
    np.testing.assert_allclose(slope, 0, atol=1e-9)


@pytest.mark.spec("REP-151")
@pytest.mark.parametrize("name", ["gaussian-mixture", "bernoulli-mixture"])
def test_indicators_of_a_mixture(name):
    X = BITS if name == "bernoulli-mixture" else np.random.default_rng(6).normal(size=(60, D))
    system = load_class(entry(name))(n_components=3, random_state=0).fit(X)
    codes, p = system.transform(X, method="map"), system.predict_proba(X)
    np.testing.assert_array_equal(system.transform(X), p)
    np.testing.assert_array_equal(codes, np.eye(3)[p.argmax(1)])
    np.testing.assert_array_equal(codes.argmax(1), system.predict(X))


def coding(m=3):
    """A fit of sparse coding with parameters by chance, components that overlap."""
    system = gnomon.SpikeAndSlabSparseCoding(n_components=m, standardize=False, max_iter=2, random_state=0).fit(REALS)
    model, random = system.model_, np.random.default_rng(4)
    model.components, model.bias = random.normal(size=(D, m)), random.normal(size=m)
    model.slab_mean, model.slab_precision = random.normal(size=m), np.exp(random.normal(size=m))
    model.noise_precision = np.exp(random.normal(size=D))
    return system


@pytest.mark.spec("REP-151")
def test_sparse_codes_are_where_no_other_set_and_no_other_amplitude_is_more_probable():
    system = coding()
    model = system.model_
    every = np.array(list(itertools.product([0.0, 1.0], repeat=3)))
    for row, code in zip(REALS, system.transform(REALS, method="map"), strict=True):
        least, best = np.inf, None
        for h in every:  # the density of h and all slabs, those of spikes that are off too, climbed numerically
            found = optimize.minimize(
                lambda s, h=h, row=row: -model.log_joint(row[None], (h[None], s[None]))[0], np.zeros(3), tol=1e-12
            )
            if found.fun < least:
                least, best = found.fun, h * found.x
        np.testing.assert_allclose(code, best, atol=1e-5)
        on = np.flatnonzero(code)  # the slope by each amplitude that is there is 0
        pull = model.components.T @ (model.noise_precision * (row - model.components @ code))
        slope = pull - model.slab_precision * (code - model.slab_mean)
        np.testing.assert_allclose(slope[on], 0, atol=1e-9)


@pytest.mark.spec("REP-151")
def test_binary_sparse_codes_by_enumeration():
    random = np.random.default_rng(5)
    model = BinarySparseCoding(random.normal(size=(D, 3)), random.normal(size=3), np.exp(random.normal(size=D)))
    every = np.array(list(itertools.product([0.0, 1.0], repeat=3)))
    log_p = np.stack([model.log_joint(REALS, h[None].repeat(len(REALS), 0)) for h in every], axis=1)
    np.testing.assert_array_equal(model.transform(REALS, method="map"), every[log_p.argmax(1)])
    np.testing.assert_array_equal(model.transform(REALS), model.infer(REALS).means)
    with pytest.raises(UserValueError, match="above the limit"):
        BinarySparseCoding(np.zeros((D, 30))).transform(REALS, method="map")


@pytest.mark.spec("REP-151")
@pytest.mark.parametrize("slabs", [1, 2])
def test_spikes_and_slabs_of_the_undirected_machine(slabs):
    """The joint density of h and s, in which a slab behind a spike that is off is N(0, 1 / alpha): enumeration of h."""
    system = fitted("spike-and-slab-rbm", REALS, n_hidden=3, slab_dim=slabs, codes="slabs")
    states = system.transform(REALS, method="map")
    spikes = system.set_params(codes="spikes").transform(REALS, method="map")
    alpha = np.exp(system.model_.state()["hidden_log_precision"])
    visible, best, least = system.to_visible(REALS), None, np.full(len(REALS), np.inf)
    for h in itertools.product([0.0, 1.0], repeat=3):
        each = np.repeat(h, slabs)

        def energies(s, h=h, each=each):
            state = np.concatenate([s * each, np.tile(h, (len(s), 1))], axis=1)
            mass = 0.5 * ((1 - each) * np.log(2 * np.pi / alpha)).sum()  # of the point masses, which have no density
            return system.model_.joint_energy({"visible": visible, "hidden": state}) + mass

        s, step = np.zeros((len(visible), 3 * slabs)), np.eye(3 * slabs)
        low, middle, high = ([energies(s + t * e) for e in step] for t in (-1, 0, 1))
        s = np.array(
            [
                (a - b) / 2 / np.where(a + b == 2 * m, 1, a + b - 2 * m)
                for a, m, b in zip(low, middle, high, strict=True)
            ]
        ).T
        energy = energies(s)
        if best is None:
            best = [np.zeros_like(s), np.zeros((len(s), 3))]
        better = energy < least
        best[0][better], best[1][better] = (s * each)[better], np.array(h)
        least = np.minimum(least, energy)
    np.testing.assert_array_equal(spikes, best[1])
    np.testing.assert_allclose(states, best[0], atol=1e-8)


@pytest.mark.spec("REP-151")
def test_gamma_units_stand_where_the_joint_density_has_no_slope():
    system = fitted("product-of-t", REALS, n_experts=4, n_mean=2)
    system.model_.load(system.model_.state() | {"hidden_log_shape": np.log([1.5, 2.0, 3.0, 0.5])})
    codes = system.transform(REALS, method="map")
    visible, (bits, gammas) = system.to_visible(REALS), np.split(codes, [2], axis=1)
    energy = lambda m, g: system.model_.joint_energy({"visible": visible, "mean": m, "hidden": g})  # noqa: E731
    assert (gammas[:, 3] == 0).all()  # a shape below 1: the density rises towards 0 without end
    inside = np.maximum(gammas, [0, 0, 0, 1e-3])
    for j in range(3):
        for away in (-1e-3, 1e-3):
            assert (energy(bits, inside + away * np.eye(4)[j]) > energy(bits, inside)).all()
    for j in range(2):
        flipped = np.abs(bits - np.eye(2)[j])
        assert (energy(flipped, inside) > energy(bits, inside)).all()


@pytest.mark.spec("REP-151")
def test_between_two_explanations_the_mean_is_neither():
    """Two hidden layers that agree with each other and not with the row: 00 and 11 are as good, the mean is 1/2."""
    model = DBMModel(1, (1, 1))
    model.load({name: np.zeros(value.shape) for name, value in model.state().items()})
    names = [link.names["weight"] for link in model.links]
    model.load(
        model.state()
        | {names[1]: np.array([[8.0]]), "hidden_1_bias": np.array([-4.0]), "hidden_2_bias": np.array([-4.0])}
    )
    found = most_probable(model, {"visible": np.array([[1.0]])})
    together = np.concatenate([found["hidden_1"], found["hidden_2"]], axis=1)
    assert together.tolist() == [[0.0, 0.0]]  # the first of equals
    pairs = np.array([[0.0, 0.0], [1.0, 1.0], [0.5, 0.5]])
    states = {"visible": np.ones((3, 1)), "hidden_1": pairs[:, :1], "hidden_2": pairs[:, 1:]}
    energies = model.joint_energy(states).tolist()
    assert energies[0] == energies[1] < energies[2]


@pytest.mark.spec("REP-151")
def test_what_cannot_be_found_exactly_is_refused_in_one_line():
    deep = fitted("dbm", BITS, hidden=(13, 13), pretrain_epochs=0)
    coupled = fitted("hidden-boltzmann-machine", BITS, n_hidden=13)
    network = fitted("dbn", BITS, hidden=(13, 2), tune_epochs=0)
    for system in (deep, coupled, network):
        with pytest.raises(UserValueError, match=r"lie among 2\^13, above the limit of 2\^12"):
            system.transform(BITS, method="map")
    many = gnomon.SpikeAndSlabSparseCoding(n_components=11, max_iter=1, random_state=0).fit(REALS)
    with pytest.raises(UserValueError, match=r"one of 2\^11, above the limit"):
        many.transform(REALS, method="map")
    with pytest.raises(UserValueError, match="use mean"):
        gnomon.VAE(n_latent=2, epochs=1, random_state=0).fit(REALS).transform(REALS, method="map")
    with pytest.raises(UserValueError, match="method must be one of mean, map, got 'mode'"):
        gnomon.PPCA(n_components=1).fit(REALS).transform(REALS, method="mode")
    big = fitted("rbm", BITS, n_hidden=300)  # nothing to enumerate: of any size
    np.testing.assert_array_equal(big.transform(BITS, method="map"), big.transform(BITS) > 0.5)


@pytest.mark.spec("REP-151")
def test_the_verb_and_pipelines_take_it(tmp_path, capsys):
    np.save(tmp_path / "x.npy", BITS)
    data, folder = str(tmp_path / "x.npy"), str(tmp_path / "run")
    assert run(["fit", "rbm", data, "--n-hidden", "3", "--epochs", "5", "--out", folder]) == 0
    system = gnomon.load(folder)
    expected = system.transform(BITS, method="map")
    out = str(tmp_path / "codes.npy")
    assert run(["transform", folder, data, "--method", "map", "--out", out]) == 0
    np.testing.assert_array_equal(np.load(out), expected)
    assert system.set_output(transform="pandas").transform(BITS, method="map").columns.tolist() == [
        "rbm0",
        "rbm1",
        "rbm2",
    ]
    assert make_pipeline(gnomon.PPCA(n_components=2)).fit(REALS).transform(REALS).shape == (12, 2)
    kmeans = str(tmp_path / "kmeans")
    assert run(["fit", "kmeans", data, "--n-clusters", "2", "--out", kmeans]) == 0
    capsys.readouterr()
    assert run(["transform", kmeans, data, "--method", "map"]) == 2
    assert "kmeans has no latent variables with a distribution" in capsys.readouterr().err
