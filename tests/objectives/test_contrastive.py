"""Contrastive objectives by hand: which rows, chains, weights and numbers enter the loss."""

import numpy as np
import pytest

from gnomon.data.batches import Batch
from gnomon.inference.mcmc.gibbs import gibbs
from gnomon.numeric.noise import Noise, recording
from gnomon.objectives.contrastive import CD, PCD
from gnomon.systems.energy.rbm import RBMModel
from gnomon.training.group import Group

DATA = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])


def machine(d, m):
    random = np.random.default_rng(0)
    return RBMModel.of(*(random.normal(size=shape) for shape in ((d, m), d, m)))


def batch_of(X, weight):
    return Batch({"X": X}, np.arange(len(X)), np.arange(len(X)), weight)


@pytest.mark.spec("DLN-87")
def test_one_step_of_descent_from_no_couplings_has_mean_zero():
    """W = 0: h is a fair coin beside v, so that h v^T has the mean of the data before and after a sweep.

    80,000 chains, statistics in [0, 1]: within 4.5 / (2 sqrt(n)); false alarm below 1e-4. Half the data's rows have a 1
    in each column, as the model's have at biases of 0.
    """
    X = np.repeat(np.array([[1.0, 0, 1], [0, 1, 0], [1, 1, 0], [0, 0, 1]]), 20_000, axis=0)
    model, n = RBMModel.of(np.zeros((3, 2)), np.zeros(3), np.array([0.7, -0.3])), len(X)
    loss = CD().build()(model, batch_of(X, np.ones(n)), noise=Noise(0, "fit"), phase="fit", group=Group())
    for name, shape in (("weight", (3, 2)), ("visible_bias", (3,)), ("hidden_bias", (2,))):
        assert loss.gradients[name].shape == shape
        assert np.abs(loss.gradients[name] / n).max() < 4.5 / (2 * np.sqrt(n))


@pytest.mark.spec("DLN-87")
def test_cd_weighs_each_row_with_its_chain():
    model, noise = machine(7, 5), Noise(0, "fit")
    random = np.random.default_rng(0)
    X, weight = (random.random((9, 7)) < 0.5).astype(float), random.uniform(0.5, 2.0, size=9)
    loss = CD(k=2).build()(model, batch_of(X, weight), noise=noise, phase="fit", group=Group())
    far = gibbs(model, {"visible": X}, noise.rows(np.arange(9)), steps=2, order=("hidden", "visible"))["visible"]
    term = loss.terms["energy_gap"]
    assert term.weight == pytest.approx(weight.sum(), rel=1e-12)
    assert term.sum() == pytest.approx(weight @ model.energy(X) - weight @ model.energy(far), rel=1e-12)
    np.testing.assert_allclose(loss.gradients["visible_bias"], weight @ far - weight @ X, atol=1e-12)
    W, _, c = (value.astype(float) for value in model.state().values())
    near, end = (weight[:, None] / (1 + np.exp(-(v @ W + c))) for v in (X, far))  # means, of the last h too
    np.testing.assert_allclose(loss.gradients["hidden_bias"], (end - near).sum(0), atol=1e-12)
    np.testing.assert_allclose(loss.gradients["weight"], far.T @ end - X.T @ near, atol=1e-12)


@pytest.mark.spec("INF-35")
def test_persistent_chains_of_many_steps_by_hand():
    """Eleven chains beside two rows of unequal weight; no number is drawn twice."""

    class Size:
        batch_size = 2

    model, weight, noise = machine(3, 2), np.array([0.5, 2.0]), Noise(0, "fit")
    objective = PCD(k=3, n_chains=11).build()
    objective.begin(model, Size(), Noise(0, "begin"), Group())
    assert objective.chains["hidden"].shape == (11, 2)
    for update in range(2):
        start, places = objective.chains["hidden"].numpy().copy(), noise.at(update).rows(np.arange(11))
        with recording():
            loss = objective(model, batch_of(DATA, weight), noise=noise.at(update), phase="fit", group=Group())
        v = model.conditional("visible", {"hidden": start}).sample(places, 0)
        v = gibbs(model, {"visible": v}, places, steps=2, order=("hidden", "visible"), draw0=1)["visible"]
        expected = 2.5 / 11 * v.sum(0) - weight @ DATA
        np.testing.assert_allclose(loss.gradients["visible_bias"], expected, atol=1e-12)
        gap = weight @ model.energy(DATA) - 2.5 / 11 * model.energy(v).sum()
        assert loss.terms["energy_gap"].sum() == pytest.approx(gap, rel=1e-12)
