"""Networks that infer against posteriors in closed form, the iterations they replace, and finite differences."""

import numpy as np
import pytest
import torch
from scipy.special import logit

import gnomon
from gnomon.errors import UserError
from gnomon.inference.exact.linear_gaussian import LinearGaussian
from gnomon.inference.variational.amortized import AmortizedInference
from gnomon.inference.variational.amortized_rows import rows_of
from gnomon.inference.variational.binary_sparse_coding import BinarySparseCoding
from gnomon.systems.energy.rbm import RBMModel
from oracles.binary import all_states, numerical_gradient

LEARN = ["bound", "regression"]


def linear():
    random = np.random.default_rng(0)
    return LinearGaussian(random.normal(size=(4, 2)), random.normal(size=4), random.uniform(0.5, 2, size=4))


def coding():
    random = np.random.default_rng(1)
    return BinarySparseCoding(
        1.5 * random.normal(size=(4, 3)), b=random.normal(size=3), beta=random.uniform(0.5, 2, size=4)
    )


def machine():
    random = np.random.default_rng(2)
    model = RBMModel(4, 3, dtype=torch.float64)
    model.load({name: random.normal(size=np.shape(value)) for name, value in model.state().items()})
    return model


def traits():
    X = rows(80, binary=True)
    model = gnomon.make("generalized-factor-analysis", n_components=2, max_iter=5, random_state=0).fit(X).model_
    model.components = np.random.default_rng(4).normal(scale=2.5, size=(4, 2))
    return model


def rows(n=60, binary=False, seed=3):
    X = np.random.default_rng(seed).normal(size=(n, 4))
    return (X > 0.2).astype(float) if binary else X


MODELS = {"linear": linear, "coding": coding, "machine": machine, "traits": traits}


@pytest.mark.spec("INF-101")
@pytest.mark.parametrize("name", MODELS)
def test_the_slope_of_a_bound_by_free_numbers(name):
    bounds = rows_of(MODELS[name]())
    x = rows(3, name in ("machine", "traits"))
    free = 0.5 * np.random.default_rng(0).normal(size=(3, bounds.width)) - 1.5
    slope = bounds.climb(x, free)[1]
    found = numerical_gradient(lambda f: bounds.climb(x, f.reshape(free.shape))[0].sum(), free.ravel())
    np.testing.assert_allclose(slope.ravel(), found, rtol=1e-3, atol=1e-4)
    target = np.random.default_rng(1).normal(size=free.shape)
    found = numerical_gradient(lambda f: bounds.lesson(target, f.reshape(free.shape))[0].sum(), free.ravel())
    np.testing.assert_allclose(bounds.lesson(target, free)[1].ravel(), found, rtol=1e-5, atol=1e-6)


@pytest.mark.spec("INF-101")
def test_bounds_are_those_of_the_models():
    model, x = coding(), rows(5)
    means = np.random.default_rng(0).uniform(0.1, 0.9, size=(5, 3))
    np.testing.assert_allclose(rows_of(model).climb(x, logit(means))[0], model.elbo(x, means), rtol=1e-12)
    model, v = machine(), rows(5, True)
    exact = logit(np.asarray(model.conditional("hidden", {"visible": v}).mean))
    np.testing.assert_allclose(rows_of(model).climb(v, exact)[0], -model.energy(v), rtol=1e-10)


@pytest.mark.spec("INF-101")
@pytest.mark.parametrize("learn", LEARN)
def test_the_affine_encoder_of_a_linear_model_is_its_gain_and_exact(learn):
    """Sigma W^T Psi^-1 (x - b) and Sigma for every row, on rows that it has not seen too."""
    model = linear()
    amortized = AmortizedInference(model, learn=learn, tol=1e-14).fit(rows())
    precision = np.diag(1 / model.noise)
    sigma = np.linalg.inv(np.eye(2) + model.W.T @ precision @ model.W)
    x = rows(10, seed=9)
    found = amortized.infer(x)
    np.testing.assert_allclose(found["mean"], (x - model.b) @ (sigma @ model.W.T @ precision).T, atol=1e-4)
    np.testing.assert_allclose(found["covariance"], np.broadcast_to(sigma, (10, 2, 2)), atol=1e-4)
    np.testing.assert_allclose(amortized.elbo(x), model.log_prob(x), atol=1e-6)
    assert amortized.amortization_gap(x).max() == pytest.approx(0, abs=1e-6)


@pytest.mark.spec("INF-101")
@pytest.mark.parametrize("learn", LEARN)
def test_one_sigmoid_layer_with_the_weights_of_the_machine_is_exact(learn):
    model = machine()
    every = all_states(4)
    amortized = AmortizedInference(model, learn=learn, tol=1e-15, max_iter=2000).fit(every)
    expected = np.asarray(model.conditional("hidden", {"visible": every}).mean)
    np.testing.assert_allclose(amortized.transform(every), expected, atol=1e-4)
    network = amortized.network_
    weight = network.layers[0].weight.detach().numpy() / network.scale.numpy()
    np.testing.assert_allclose(weight, np.reshape(model.state()["weight"], (4, 3)).T, atol=0.01)
    assert -1e-12 <= amortized.amortization_gap(every).mean() < 1e-7


@pytest.mark.spec("INF-101")
@pytest.mark.parametrize("learn", LEARN)
@pytest.mark.parametrize("name", ["coding", "traits"])
def test_a_network_misses_some_of_the_bound_that_further_rounds_close(name, learn):
    model, binary = MODELS[name](), name == "traits"
    x = rows(60, binary)
    coarse = AmortizedInference(model, learn=learn).fit(x)
    fine = AmortizedInference(model, (12,), learn=learn).fit(x)
    gaps = [coarse.amortization_gap(x, refine=k) for k in (0, 1, 3, 10)]
    assert all((gap >= -1e-9).all() for gap in gaps)
    assert [gap.mean() for gap in gaps] == sorted((gap.mean() for gap in gaps), reverse=True)
    assert gaps[0].mean() > 3e-4 and gaps[3].mean() < 0.05 * gaps[0].mean()
    if learn == "bound":
        assert fine.elbo(x).mean() > coarse.elbo(x).mean()
    iterated = coarse.bounds.climb(x, coarse.bounds.settled(x))[0]
    assert (coarse.elbo(x) <= iterated + 1e-7).all() or name == "coding"
    assert coarse.elbo(x).mean() < iterated.mean()
    assert coarse.elbo(x, refine=2).mean() > coarse.elbo(x).mean()


@pytest.mark.spec("INF-101")
def test_the_bound_is_higher_where_it_is_learned_itself():
    x = rows(60)
    by_bound, by_regression = (AmortizedInference(coding(), learn=learn).fit(x) for learn in LEARN)
    assert by_bound.elbo(x).mean() >= by_regression.elbo(x).mean() - 1e-9
    assert (np.diff(by_bound.history_) >= 0).all()


@pytest.mark.spec("INF-101")
def test_rows_from_elsewhere_have_a_larger_gap():
    x = rows(200)
    amortized = AmortizedInference(coding(), (8,)).fit(x)
    near, far = amortized.amortization_gap(rows(200, seed=5)), amortized.amortization_gap(rows(200, seed=5) + 4)
    assert far.mean() > 3 * near.mean()


@pytest.mark.spec("INF-101")
def test_targets_that_are_not_converged_are_told_of(monkeypatch):
    monkeypatch.setattr("gnomon.inference.variational.amortized_rows.LONGEST", 1)
    with pytest.warns(UserWarning, match="targets are not converged"):
        AmortizedInference(coding(), learn="regression", max_iter=3).fit(rows())


def test_mistakes_are_told():
    with pytest.raises(UserError, match="inference of PPCAModel is not known here"):
        AmortizedInference(gnomon.make("ppca", n_components=1).fit(rows()))
    with pytest.raises(UserError, match="learn must be bound or regression"):
        AmortizedInference(linear(), learn="elbo")
    with pytest.raises(UserError, match="hidden must be a whole number or a tuple"):
        AmortizedInference(linear(), 5)
    with pytest.raises(UserError, match=r"tol must be in \[0, inf\)"):
        AmortizedInference(linear(), tol=-1.0)
    with pytest.raises(UserError, match="call fit first"):
        AmortizedInference(linear()).infer(rows())
    with pytest.raises(UserError, match="finite rows of 4 numbers"):
        AmortizedInference(linear()).fit(rows()[:, :2])
    with pytest.raises(UserError, match="at least 1 row"):
        AmortizedInference(linear()).fit(rows()[:0])
    with pytest.raises(UserError, match="refine must be from 0"):
        AmortizedInference(linear()).fit(rows()).infer(rows(), refine=-1)
