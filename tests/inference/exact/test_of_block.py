"""Blocks of a machine of four layers given the lowest: against all states of the others."""

import itertools

import numpy as np
import pytest
import torch
from scipy.special import logsumexp

from gnomon.distributions.posteriors import BitStates, MixedRows
from gnomon.inference.exact.of_block import posterior_of_block
from gnomon.systems.energy.dbm import DBMModel


@pytest.mark.spec("BAY-47")
@pytest.mark.parametrize(("block", "kind"), [("hidden_1", BitStates), ("hidden_2", MixedRows), ("hidden_3", BitStates)])
def test_a_layer_is_a_table_or_a_mixture_with_the_others_summed_out(block, kind):
    model, random = DBMModel(3, (1, 4, 2), torch.float64), np.random.default_rng(0)
    model.load({name: random.normal(size=x.shape) for name, x in model.state().items()})
    v = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]])
    found = posterior_of_block(model, {"visible": v}, block)
    assert isinstance(found, kind)
    states = np.array(list(itertools.product([0.0, 1.0], repeat=7)))
    hidden = dict(zip(model.hidden, np.split(states, [1, 5], axis=1), strict=True))
    for i, row in enumerate(v):
        energy = model.joint_energy({"visible": np.repeat(row[None], 128, axis=0)} | hidden)
        mass = np.exp(-energy - logsumexp(-energy))
        np.testing.assert_allclose(found.mean[i], mass @ hidden[block], atol=1e-10)
        ones = np.ones((2, hidden[block].shape[1]))
        assert np.exp(found.log_prob(ones)[i]) == pytest.approx(mass[hidden[block].all(1)].sum(), abs=1e-10)
