"""The mean-field recurrent network: parallel updates, fixed points, gradients by finite differences, three losses."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.special import expit, log_expit, xlogy

import gnomon
from gnomon.cli.main import run
from gnomon.errors import UserValueError
from gnomon.inference.variational.binary_sparse_coding import BinarySparseCoding
from gnomon.numeric.noise import Noise
from gnomon.objectives.unrolled import UnrolledLoss
from gnomon.systems.factors import _component_cells
from gnomon.systems.factors.mean_field_network import MeanFieldNetwork, MeanFieldNetworkModel
from gnomon.training.group import current as current_group

D, M = 4, 3
ROWS = np.random.default_rng(0).normal(size=(6, D))


def coding(seed=1, scale=1.0):
    random = np.random.default_rng(seed)
    W = scale * random.normal(size=(D, M))
    return BinarySparseCoding(W, random.normal(size=M), np.exp(0.5 * random.normal(size=D)))


def parallel(model, rows, steps, a=1.0, start=0.5):
    """Damped updates of all units at once, unit by unit from the residual that the others leave."""
    h = np.full((len(rows), len(model.b)), start)
    for _ in range(steps):
        after = np.empty_like(h)
        for i in range(len(model.b)):
            others = np.delete(np.arange(len(model.b)), i)
            left = rows - h[:, others] @ model.W[:, others].T
            w = model.W[:, i]
            after[:, i] = expit(model.b[i] + (left * model.beta) @ w - 0.5 * (w * model.beta) @ w)
        h = (1 - a) * h + a * after
    return h


@pytest.mark.spec("INF-93")
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(("steps", "damping"), [(0, 0.0), (1, 0.0), (7, 0.0), (7, 0.3)])
def test_untrained_it_is_parallel_updates_of_the_model(tied, steps, damping):
    model = coding()
    network = MeanFieldNetworkModel.of(model, 7, damping, tied=tied, guarded=False)
    found = network(torch.tensor(ROWS), steps).detach().numpy()
    np.testing.assert_allclose(found, parallel(model, ROWS, steps, 1 - damping), atol=1e-13)


@pytest.mark.spec("INF-93")
def test_many_damped_rounds_reach_the_fixed_point_of_sweeps():
    model = coding(scale=0.5)
    network = MeanFieldNetworkModel.of(model, damping=0.5)
    found = network(torch.tensor(ROWS), 400).detach().numpy()
    np.testing.assert_allclose(found, model.infer(ROWS).means, atol=1e-9)
    pair = BinarySparseCoding([[1.0, 0.5], [0.0, 1.0]], b=[0.0, -1.0], beta=[1.0, 2.0])
    end = MeanFieldNetworkModel.of(pair)(torch.tensor([[1.0, 1.0]], dtype=torch.float64), 200)
    np.testing.assert_allclose(end.detach().numpy(), [[0.559242, 0.523827]], atol=1e-6)


@pytest.mark.spec("INF-93")
def test_rounds_that_would_swing_are_held_back():
    """Two equal columns: plain rounds swing between .99966 and .00034 for ever, guarded ones end between."""
    twins, row = BinarySparseCoding([[2.0, 2.0]], 0.0, 4.0), torch.tensor([[2.0]], dtype=torch.float64)
    free = MeanFieldNetworkModel.of(twins, damping=0.0, guarded=False)
    ends = [free(row, t, start=0.0)[0, 0].item() for t in (100, 101)]
    np.testing.assert_allclose(sorted(ends), [0.00034, 0.99966], atol=1e-5)
    held = MeanFieldNetworkModel.of(twins, damping=0.0)
    assert held(row, 200, start=0.0)[0].tolist() == pytest.approx([0.5, 0.5], abs=1e-6)
    assert held.rate(held._weights()[1]).item() == 1 / (1 + 16 / 4)
    for seed in range(5):  # far larger weights: no period of two
        large = MeanFieldNetworkModel.of(coding(seed, 4.0), damping=0.0)
        last = [large(torch.tensor(ROWS), t).detach().numpy() for t in (800, 801)]
        assert np.abs(last[0] - last[1]).max() < 1e-3 and (last[0] >= 0).all() and (last[0] <= 1).all()


@pytest.mark.spec("INF-93")
def test_the_bound_is_the_models_and_below_the_density():
    model = coding()
    network = MeanFieldNetworkModel.of(model)
    h = network(torch.tensor(ROWS))
    bound = network.elbo(torch.tensor(ROWS), h).detach().numpy()
    np.testing.assert_allclose(bound, model.elbo(ROWS, h.detach().numpy()), rtol=1e-12)
    every = np.array(list(itertools.product([0.0, 1.0], repeat=M)))
    joint = np.stack([model.log_joint(ROWS, np.tile(state, (len(ROWS), 1))) for state in every], axis=1)
    assert (bound <= np.logaddexp.reduce(joint, axis=1)).all()
    q = np.random.default_rng(2).random((len(ROWS), M))  # any means, by hand
    left = ROWS - q @ model.W.T
    terms = q @ log_expit(model.b) + (1 - q) @ log_expit(-model.b) - (xlogy(q, q) + xlogy(1 - q, 1 - q)).sum(1)
    terms += 0.5 * np.log(model.beta / (2 * np.pi)).sum()
    terms -= 0.5 * ((left**2) @ model.beta + (q * (1 - q)) @ (model.beta @ model.W**2))
    np.testing.assert_allclose(network.elbo(torch.tensor(ROWS), torch.tensor(q)).detach(), terms, rtol=1e-12)


@pytest.mark.spec("INF-93")
def test_hidden_inputs_are_left_out_of_every_sum():
    """What is hidden may hold anything, and the rounds are those of the model of the other columns."""
    model, shown = coding(), np.array([1.0, 0.0, 1.0, 1.0])
    kept = shown == 1
    part = BinarySparseCoding(model.W[kept], model.b, model.beta[kept])
    network = MeanFieldNetworkModel.of(model, 5, 0.0, guarded=False)
    mask = torch.tensor(np.tile(shown, (len(ROWS), 1)))
    found = network(torch.tensor(ROWS), shown=mask).detach().numpy()
    np.testing.assert_allclose(found, parallel(part, ROWS[:, kept], 5), atol=1e-13)
    other = network(torch.tensor(np.where(kept, ROWS, 1e3)), shown=mask).detach().numpy()
    np.testing.assert_allclose(other, found, atol=1e-13)


@pytest.mark.spec("INF-93")
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("loss", ["elbo", "held-out", "labels"])
def test_the_gradient_goes_through_all_rounds(loss, tied):
    network = MeanFieldNetworkModel(
        D, M, 4, 0.2, tied=tied, n_classes=2 if loss == "labels" else None, dtype=torch.float64
    )
    random = np.random.default_rng(3)
    with torch.no_grad():
        for value in network.parameters():
            value.copy_(torch.tensor(0.7 * random.normal(size=tuple(value.shape))))
    objective, data = UnrolledLoss(loss), {"X": ROWS, "y": np.arange(6) % 2}
    batch = SimpleNamespace(data=data, weight=np.array([1.0, 2.0, 1.0, 0.0, 1.0, 1.0]), positions=np.arange(6))

    def total():
        noise = Noise(0, "test")
        found = objective(network, batch, noise=noise, phase="main", group=current_group())
        (term,) = found.terms.values()
        return term.sum

    names = [name for name, _ in network.named_parameters()]
    slopes = torch.autograd.grad(total(), list(network.parameters()), allow_unused=True)
    checked = 0
    for name, slope in zip(names, slopes, strict=True):
        value = network.get_parameter(name).data.view(-1)
        for j in range(0, len(value), 3):
            step, old = 1e-6, value[j].item()
            with torch.no_grad():
                value[j] = old + step
                above = total().item()
                value[j] = old - step
                below = total().item()
                value[j] = old
            given = 0.0 if slope is None else slope.reshape(-1)[j].item()
            assert given == pytest.approx((above - below) / (2 * step), rel=2e-5, abs=2e-7)
            checked += given != 0
    assert checked > 5


def planted(n=400, seed=4):
    random = np.random.default_rng(seed)
    W = np.zeros((3, 6))
    for k in range(3):
        W[k, 2 * k : 2 * k + 2] = 3.0
    h = (random.random((n, 3)) < 0.4).astype(float)
    return h @ W + 0.4 * random.normal(size=(n, 6)), h


@pytest.mark.spec("INF-93")
def test_fits_find_planted_components_by_either_loss():
    X, h = planted()
    for loss in ("elbo", "held-out"):
        network = MeanFieldNetwork(n_components=5, loss=loss, epochs=60, random_state=0).fit(X[:300])
        rest, codes = X[300:], network.transform(X[300:])
        assert np.square(network.reconstruct(rest) - rest).mean() < 0.25 * rest.var(0).mean()
        agree = np.abs(np.corrcoef(codes.T, h[300:].T)[:5, 5:]).max(0)
        if loss == "elbo":
            assert (agree > 0.9).all()
            independent = -0.5 * np.log(2 * np.pi * X.var(0)).sum() - 3
            assert network.score(rest) > independent + 0.5
            history = network.history_["negative_bound"]
            assert history[-1] < history[0]
        np.testing.assert_allclose(network.inverse_transform(codes), network.reconstruct(rest), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(network.forward(rest), codes)
        assert network.forward(rest, 30).shape == codes.shape and (network.residual(rest) >= 0).all()


@pytest.mark.spec("INF-93")
@pytest.mark.parametrize("tied", [True, False])
def test_labels_are_learned_through_the_rounds(tied):
    X, h = planted()
    y = np.where(h[:, 0] == h[:, 1], "same", "other")  # no line between them in the rows
    network = MeanFieldNetwork(n_components=6, loss="labels", tied=tied, epochs=60, random_state=0).fit(
        X[:300], y[:300]
    )
    assert (network.classify(X[300:]) == y[300:]).mean() > 0.9
    assert network.classes_.tolist() == ["other", "same"]


@pytest.mark.spec("INF-93")
def test_modes_draws_and_what_is_refused():
    X, _ = planted()
    network = MeanFieldNetwork(n_components=4, epochs=20, dtype="float64", random_state=0).fit(X)
    coded = network.model_.coding()
    scaled = (X[:8] - X.mean(0)) / X.std(0)
    np.testing.assert_array_equal(network.transform(X[:8], method="map"), coded.transform(scaled, method="map"))
    drawn = network.sample(20_000, random_state=0)
    p, scale = expit(coded.b), X.std(0)
    mean = (coded.W @ p) * scale + X.mean(0)
    variance = ((coded.W**2) @ (p * (1 - p)) + 1 / coded.beta) * scale**2
    assert (np.abs(drawn.mean(0) - mean) < 5 * np.sqrt(variance / 20_000)).all()
    np.testing.assert_allclose(drawn.var(0), variance, rtol=0.08)
    own = MeanFieldNetwork(n_components=3, tied=False, steps=2, epochs=1, random_state=0).fit(X)
    with pytest.raises(UserValueError, match="steps must be at most 2"):
        own.forward(X, 3)
    with pytest.raises(UserValueError, match="steps must be a whole number of at least 0"):
        network.forward(X, -1)
    with pytest.raises(UserValueError, match="learns no classes"):
        own.classify(X)
    with pytest.raises(UserValueError, match="at least 2 classes"):
        MeanFieldNetwork(loss="labels").fit(X, np.zeros(len(X), int))


@pytest.mark.spec("INF-93")
def test_it_is_fitted_and_asked_by_name(tmp_path):
    np.save(tmp_path / "x.npy", planted()[0])
    folder, data = str(tmp_path / "run"), str(tmp_path / "x.npy")
    assert run(["fit", "mean-field-network", data, "--n-components", "3", "--epochs", "3", "--out", folder]) == 0
    assert run(["transform", folder, data, "--out", str(tmp_path / "codes.npy")]) == 0
    network = gnomon.load(folder)
    np.testing.assert_allclose(np.load(tmp_path / "codes.npy"), network.forward(np.load(data), 10), rtol=1e-6)


def test_missing_cells_by_chains_and_by_a_bound_are_near_those_of_all_states(monkeypatch):
    """Chains of 500 sweeps to 0.15 deviations, draws to 5 standard errors; the bound at most the truth, and near it."""
    random = np.random.default_rng(0)
    X = (random.random((300, 4)) < 0.4) @ random.normal(size=(4, 4)) * 2 + 0.5 * random.normal(size=(300, 4))
    system = MeanFieldNetwork(n_components=4, epochs=20, random_state=0, dtype="float64").fit(X)
    rows = X[:6].copy()
    rows[:5, 1], rows[2, 0], rows[5] = np.nan, np.nan, np.nan
    exact, spread, at = system.impute(rows), system.impute(rows, how="deviation"), system.log_prob_observed(rows)
    monkeypatch.setattr(_component_cells, "EXACT_COMPONENTS", 3)
    assert not hasattr(system, "log_prob_observed")
    found, gaps = system.imputed(rows, random_state=0), np.isnan(rows)
    assert set(found.kind) == {"estimate"} and "chains" in found.note
    assert (np.abs(found.values - exact)[gaps] <= 0.15 * spread[gaps]).all()
    near = system.impute(rows, how="deviation", random_state=0)
    np.testing.assert_allclose(near[gaps], spread[gaps], rtol=0.15)
    bound = system.evaluate_observed(rows)
    assert bound.kind == "lower bound" and (bound.pointwise <= at + 1e-9).all() and bound.pointwise[5] == 0
    assert (bound.pointwise > at - 0.7).all()
    drawn = system.conditional_sample(np.tile(rows[:1], (2000, 1)), random_state=0)[:, 1]
    assert abs(drawn.mean() - exact[0, 1]) < 5 * spread[0, 1] / 2000**0.5
    assert drawn.std() == pytest.approx(spread[0, 1], rel=0.1)


def test_the_most_probable_of_too_many_sets_is_refused():
    system = MeanFieldNetwork(n_components=21, epochs=1, random_state=0).fit(ROWS)
    with pytest.raises(UserValueError, match=r"2\^21 sets of components is beyond the limit of 2\^20"):
        system.transform(ROWS, method="map")
