"""Densities as people write them: for tensors, for arrays, for one row by mistake."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

import gnomon
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.mcmc.density import Density


def in_torch(x):
    return torch.logsumexp(torch.stack([-0.5 * (x[:, 0] - 3) ** 2, -0.5 * (x[:, 0] + 3) ** 2]), 0)


def in_numpy(x):
    return np.logaddexp(-0.5 * (x[:, 0] - 3) ** 2, -0.5 * (x[:, 0] + 3) ** 2)


@pytest.mark.parametrize("kernel", ["metropolis", "tempering"])
def test_a_density_for_tensors_alone_is_walked_on_from_arrays(kernel):
    given = {"start": 1, "chains": 3, "draws": 30, "burn_in": 0, "random_state": 0}
    # the tempering of a density in NumPy moves by its own gradient, so that both take the same road
    twin = Density(in_numpy, lambda x: -x + 3 * np.tanh(3 * x))
    found = gnomon.sample_chain(in_torch, kernel, **given)
    assert isinstance(found.draws, np.ndarray) and found.draws.dtype == np.float64
    assert found.draws == pytest.approx(gnomon.sample_chain(twin, kernel, **given).draws, abs=1e-6)


def test_a_density_for_tensors_alone_is_integrated():
    found = gnomon.log_partition(lambda x: (-x.abs()).sum(-1), bounds=[(-60, 0), (0, 60)])
    assert found.value == pytest.approx(0.0, abs=1e-9)


def test_a_density_of_one_row_is_told_what_it_was_given():
    density = Density(lambda x: -0.5 * (x @ x))
    told = r"all rows at once, an array of shape \(4, 2\): it answers \(4,\)"
    for act, x in (
        (density.log_prob, np.ones((4, 2))),
        (density.log_prob, torch.ones(4, 2)),
        (density.value_and_gradient, np.ones((4, 2))),
    ):
        with pytest.raises((ValueError, RuntimeError)) as error:
            act(x)
        assert len(error.value.__notes__) == 1 and re.search(told, error.value.__notes__[0])


def test_mistakes_inside_a_density_keep_their_names():
    with pytest.raises(UserTypeError, match=r"does not take NumPy arrays \(.*no attribute 'nothing'\)"):
        Density(lambda x: x.nothing()).log_prob(np.ones((2, 1)))

    def refuses(x):
        raise UserTypeError("no such thing", "here", "do otherwise")

    with pytest.raises(UserTypeError, match="no such thing"):
        Density(refuses).log_prob(np.ones((2, 1)))
    with pytest.raises(
        UserValueError, match=r"target must return one number per row, \(2,\), got \(\); sum over the other axes"
    ) as error:
        Density(lambda x: x.sum()).log_prob(np.ones((2, 1)))
    assert not getattr(error.value, "__notes__", [])
