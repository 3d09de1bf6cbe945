"""Order-agnostic training: without bias by enumeration of orders and splits, splits by their frequencies."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats

from gnomon.nn.activations import Tanh
from gnomon.nn.likelihoods import BernoulliLikelihood, CategoricalLikelihood
from gnomon.numeric.noise import Noise
from gnomon.objectives.order_agnostic import OrderAgnostic
from gnomon.systems.autoregressive._deep import OwnGroup
from gnomon.training.group import Group

F64 = torch.float64


def made(likelihood):
    model = OwnGroup(3, (5, 4), Tanh(), likelihood.build(3, F64), likelihood.scales, 1, F64)
    with torch.no_grad():
        for k, weight in enumerate(model.parameters()):
            weight.copy_(Noise(k, "weights").normal(tuple(weight.shape), like=weight))
    return model


@pytest.mark.spec("GEN-121")
@pytest.mark.parametrize("likelihood", [BernoulliLikelihood(), CategoricalLikelihood(3)], ids=["bits", "codes"])
def test_over_all_orders_and_splits_the_loss_is_the_mean_over_orders_and_so_is_its_gradient(likelihood):
    model = made(likelihood)
    x = torch.from_numpy(np.array(list(itertools.product(range(model.head.values), repeat=3)), float))
    exact, mean = 0.0, 0.0
    for order in map(torch.tensor, itertools.permutations(range(3))):
        exact = exact - model.log_in(x, order) / 6
        for split in range(3):
            given = torch.isin(torch.arange(3), order[:split]).expand(len(x), 3)
            mean = mean + OrderAgnostic().losses(model, x, given) / 18
    torch.testing.assert_close(mean, exact, rtol=1e-12, atol=1e-12)
    slopes = [torch.autograd.grad(one.sum(), list(model.parameters())) for one in (mean, exact)]
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.spec("GEN-121")
def test_splits_are_the_beginnings_of_random_orders():
    """Chi-square over the 15 sets of less than four columns, of 12,000; a false alarm in a thousand."""
    x, noise = torch.zeros(12_000, 4, dtype=F64), Noise(0, "split").rows(np.arange(12_000))
    given = OrderAgnostic().given(x, noise)
    seen = np.bincount((given.numpy() @ 2 ** np.arange(4)), minlength=16)
    size = np.array([bin(k).count("1") for k in range(16)])
    expected = 12_000 / 4 / np.array([1, 4, 6, 4, 1])[size]
    assert seen[15] == 0 and stats.chisquare(seen[:15], expected[:15]).pvalue > 1e-3
    part = OrderAgnostic().given(x[:3], Noise(0, "split").rows(np.array([7, 0, 9])))
    torch.testing.assert_close(part, given[[7, 0, 9]])


@pytest.mark.spec("GEN-121")
def test_the_loss_of_batches_is_without_bias_and_rows_that_judge_have_the_same_splits_every_time():
    """1,000 updates with 8 rows, within 4 standard errors of the mean over orders: false alarm 1e-4."""
    model, objective = made(BernoulliLikelihood()), OrderAgnostic()
    x = torch.from_numpy(np.array(list(itertools.product([0.0, 1.0], repeat=3))))
    weight = np.arange(1.0, 9.0)
    batch = SimpleNamespace(data={"X": x.numpy()}, weight=weight, positions=np.arange(8))
    orders = map(torch.tensor, itertools.permutations(range(3)))
    with torch.no_grad():
        exact = float(sum(-(model.log_in(x, order) * torch.from_numpy(weight)).sum() for order in orders) / 6)
        found = [
            float(objective(model, batch, noise=Noise(0, "fit").at(k), phase="fit", group=Group()).total())
            for k in range(1000)
        ]
    exact /= weight.sum()
    assert abs(np.mean(found) - exact) < 4 * np.std(found) / np.sqrt(1000) < 0.1
    judged = {float(objective.validate(model, batch, noise=Noise(0, "v").at(k), group=Group()).total()) for k in (0, 5)}
    assert len(judged) == 1 and abs(judged.pop() - exact) < 1
