"""Variational EM against EM where the family of q contains the posterior, and steps that may not lower any part."""

import numpy as np
import pytest
from scipy.special import logsumexp

from gnomon.data.batches import Batches
from gnomon.data.examples import Examples
from gnomon.data.layouts import Rows
from gnomon.inference.exact.enumeration import states
from gnomon.numeric.noise import Noise
from gnomon.systems.factors.spike_and_slab_sparse_coding import SpikeAndSlabSparseCodingModel
from gnomon.training.em import EM
from gnomon.training.group import Group
from gnomon.training.procedure import Problem
from gnomon.training.variational_em import VariationalEM, by_parts


def model_of(m):
    random = np.random.default_rng(0)
    model = SpikeAndSlabSparseCodingModel(random.normal(size=(4, m)), tol=0.0)
    model.components /= np.linalg.norm(model.components, axis=0)
    model.slab_mean = np.ones(m)
    return model


ROWS = (np.random.default_rng(1).random((80, 1)) < 0.4) * [[2.0, -1.0, 0.5, 1.0]] + 0.4 * np.random.default_rng(
    2
).normal(size=(80, 4))


class Enumerated(SpikeAndSlabSparseCodingModel):
    """The same model with the posterior of its spikes, and of the slab behind each, from all states."""

    def expect(self, x, weight, posterior=None):
        joint, codes = self.log_by_spikes(x)
        share = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        spikes = share @ states(len(self.bias))
        slabs = (share[:, :, None] * codes).sum(1) / spikes
        sums = super().expect(x, weight, {"spikes": spikes, "slabs": slabs})
        return sums | {"log_likelihood": weight @ self.log_prob(x)}


def history(procedure, model, iterations):
    examples = Examples({"X": ROWS}, np.ones(len(ROWS)))
    problem = Problem(model, Batches(examples, Rows(None, shuffle=False)), Noise(0, "fit"), Group())
    state, records = procedure.start(problem), []
    for _ in range(iterations):
        state, info = procedure.step(state)
        records.append(info.record["objective"])
    return np.array(records)


@pytest.mark.spec("BAY-49", "INF-99")
def test_where_q_can_be_the_posterior_the_trace_is_that_of_em():
    """One spike and its slab: the structured q has the posterior in it."""
    exact = Enumerated(np.zeros((4, 1)))
    exact.load(model_of(1).state())
    model = model_of(1)
    np.testing.assert_allclose(history(VariationalEM(99, 0.0), model, 15), history(EM(99, 0.0), exact, 15), rtol=1e-12)
    for name, value in exact.state().items():
        np.testing.assert_allclose(model.state()[name], value, rtol=1e-9)


@pytest.mark.spec("BAY-49", "INF-99")
def test_where_it_cannot_the_bound_rises_below_the_likelihood():
    model = model_of(3)
    bounds = history(VariationalEM(99, 0.0), model, 25)
    assert (np.diff(bounds) >= -1e-12).all() and bounds[-1] > bounds[0] + 0.1
    assert (model.log_prob(ROWS) - model.codes(ROWS).elbo).min() > -1e-9
    assert (model.log_prob(ROWS) - model.codes(ROWS).elbo).max() > 1e-4


@pytest.mark.spec("INF-99")
def test_steps_that_go_too_far_are_halved_part_by_part():
    """Worth -(x - 1)^2 of each part, steps of 1, 3 and 100 from 0; a part without a way up stays."""

    class Point:
        x = np.zeros(4)

        def state(self):
            return {"x": self.x}

        def load(self, state):
            self.x = state["x"].copy()

        def move(self, direction, shares):
            self.x = self.x + shares * direction

    point = Point()
    by_parts(point, np.array([1.0, 3.0, 100.0, -1.0]), np.full(4, -1.0), lambda: -((point.x - 1) ** 2))
    np.testing.assert_allclose(point.x, [1.0, 1.5, 1.5625, 0.0])
    by_parts(point, np.ones(4), np.full(4, np.nan), lambda: np.zeros(4), share=0.5)
    np.testing.assert_allclose(point.x, [1.0, 1.5, 1.5625, 0.0])
