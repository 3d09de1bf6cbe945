"""Gradients limited by value and by norm: worked numbers, torch's own, the cliff of a recurrent network."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import gnomon
from gnomon.errors import Diverged, UserValueError
from gnomon.objectives.base import Loss, Term
from gnomon.training.clipping import clip_by_norm, clip_by_value, global_norm
from gnomon.training.exchange import Exchange
from gnomon.training.group import Group

KINDS = [np.array, lambda values: torch.tensor(values, dtype=torch.float64)]


def gradients(seed=0):
    random = np.random.default_rng(seed)
    return [random.normal(size=shape) * 3 for shape in ((4, 3), (5,), (2, 2, 2))]


def by_torch(rule, *arguments):
    parameters = [torch.nn.Parameter(torch.zeros(g.shape, dtype=torch.float64)) for g in gradients()]
    for parameter, g in zip(parameters, gradients(), strict=True):
        parameter.grad = torch.from_numpy(g.copy())
    rule(parameters, *arguments)
    return [parameter.grad.numpy() for parameter in parameters]


@pytest.mark.spec("DLN-178", "PRA-029")
@pytest.mark.parametrize("kind", KINDS)
def test_by_value(kind):
    g = kind([3.0, 4.0])
    clip_by_value([g], -1.0, 1.0)
    assert g.tolist() == [1.0, 1.0]
    mine = [kind(one) for one in gradients()]
    clip_by_value(mine, -0.8, 0.8)
    for a, b, before in zip(mine, by_torch(torch.nn.utils.clip_grad_value_, 0.8), gradients(), strict=True):
        assert np.array_equal(np.asarray(a), b)
        assert (np.asarray(a) * before).sum() >= 0  # still a descent direction
    uneven = kind([-9.0, -0.5, 0.2, 9.0])
    clip_by_value([uneven], -1.0, 0.1)
    assert uneven.tolist() == [-1.0, -0.5, 0.1, 0.1]
    lost = kind([np.nan, 5.0])
    clip_by_value([lost], -1.0, 1.0)
    assert np.isnan(float(lost[0])) and lost[1] == 1  # a NaN is not hidden
    for low, high in ((1.0, -1.0), (0.0, 0.0)):
        with pytest.raises(UserValueError, match="clip_value must have limits low < high"):
            clip_by_value([g], low, high)


@pytest.mark.spec("DLN-179", "NLP-24")
@pytest.mark.parametrize("kind", KINDS)
def test_by_norm(kind):
    g = kind([3.0, 4.0])
    assert clip_by_norm([g], 1.0) == 5.0
    assert g.tolist() == pytest.approx([0.6, 0.8])
    short = kind([0.3, 0.4])
    assert clip_by_norm([short], 1.0) == pytest.approx(0.5) and short.tolist() == [0.3, 0.4]
    mine = [kind(one) for one in gradients()]
    norm = clip_by_norm(mine, 2.0)  # one norm over all of them
    assert norm == pytest.approx(np.sqrt(sum((one**2).sum() for one in gradients())))
    for a, b, before in zip(mine, by_torch(torch.nn.utils.clip_grad_norm_, 2.0), gradients(), strict=True):
        assert np.allclose(np.asarray(a), b, rtol=2e-7)
        assert np.allclose(np.asarray(a), before * 2.0 / norm)
    assert global_norm(mine) == pytest.approx(2.0)
    zero = kind([0.0, 0.0])
    assert clip_by_norm([zero], 1.0) == 0.0 and zero.tolist() == [0.0, 0.0]
    for bad in (np.nan, np.inf):
        spoiled = kind([bad, 1.0])
        with pytest.raises(Diverged, match="norm of the gradient"):
            clip_by_norm([spoiled], 1.0)
        assert spoiled[1] == 1.0  # nothing is changed
    with pytest.raises(UserValueError, match="clip must be positive, got 0"):
        clip_by_norm([g], 0)


def descend(most):
    """50 steps of h = sigmoid(w h + b) from 0.5, loss (h - 0.7)^2; 200 steps of rate 0.1 from (4.5, -2.8)."""
    at, norms, path = torch.tensor([4.5, -2.8], dtype=torch.float64), [], []
    for _ in range(200):
        p = at.clone().requires_grad_()
        h = torch.tensor(0.5, dtype=torch.float64)
        for _ in range(50):
            h = torch.sigmoid(p[0] * h + p[1])
        loss = (h - 0.7) ** 2
        (g,) = torch.autograd.grad(loss, p)
        norms.append(g.norm().item())
        if most is not None:
            clip_by_norm([g], most)
        at = at - 0.1 * g
        path.append((at.abs().max().item(), loss.item()))
    return at, norms, path


@pytest.mark.spec("PRA-030")
def test_the_cliff_of_a_recurrent_network():
    g = np.array([3.0, 4.0])
    assert clip_by_norm([g], 1.0) == 5.0 and g.tolist() == pytest.approx([0.6, 0.8])
    at, norms, path = descend(None)
    assert max(norms) == pytest.approx(567, rel=0.02)
    assert at[0] > 20 and at[1] > 30 and path[-1][1] == pytest.approx(0.09, abs=1e-3)
    at, norms, path = descend(1.0)
    assert max(size for size, _ in path) < 4.7
    assert at.tolist() == pytest.approx([4.20, -2.09], abs=0.05) and path[-1][1] < 1e-3
    mine, theirs = [torch.from_numpy(one.copy()) for one in gradients()], by_torch(torch.nn.utils.clip_grad_norm_, 1.0)
    clip_by_norm(mine, 1.0)
    assert all(np.allclose(a, b, rtol=1e-6) for a, b in zip(mine, theirs, strict=True))
    # the mean of shortened gradients is not the shortened mean
    a, b = np.array([10.0, 0.0]), np.array([0.0, 0.1])
    mean = (a + b) / 2
    for one in (a, b, mean):
        clip_by_norm([one], 1.0)
    assert not np.allclose((a + b) / 2, mean, atol=0.1)


class Pair(Group):
    """The first of two processes, of which the other has the same weights and these gradients."""

    def __init__(self, other):
        super().__init__(0, 2)
        self.other = other

    def sum(self, tree):
        if isinstance(tree, dict):
            return {name: 2 * weight for name, weight in tree.items()}
        return tree + (torch.from_numpy(self.other) if isinstance(tree, torch.Tensor) else self.other)


def exchanged(backend, closed, clip, clip_value, other):
    """The gradient (3, 4) of this process and the other's, exchanged and limited; the norm before, the result."""
    model = torch.nn.Module()
    model.weight = torch.nn.Parameter(torch.zeros(1, 2, dtype=torch.float64))
    g = torch.tensor([[3.0, 4.0]], dtype=torch.float64)
    with gnomon.context(backend=backend):
        exchange = Exchange(Pair(np.asarray(other)))
        exchange.prepare(model, torch.nn.Module())
        loss = Loss({"loss": Term(0.0, 1.0)}, {"weight": 2 * g.numpy()}, per="loss")
        if not closed:
            loss = Loss({"loss": Term((2 * g * model.weight).sum(), 1.0)})
        exchange.backward(loss, exchange.choose(list(model.parameters())))
        return exchange.finish(clip, clip_value), model.weight.grad.flatten().tolist()


@pytest.mark.spec("DLN-178", "DLN-179", "NLP-24", "PRA-029", "PRA-030")
@pytest.mark.parametrize("backend", ["auto", "torch"])
@pytest.mark.parametrize("closed", [False, True])
def test_a_step_limits_the_sum_over_the_processes(backend, closed):
    """Each process's part is longer than the sum, so that shortening the parts would be seen."""
    other = np.array([[-3.0, 0.0]]) * (2 if closed else 1)  # closed forms are divided after they are summed
    norm, found = exchanged(backend, closed, 1.0, None, other)
    assert (norm, found) == (pytest.approx(4.0), pytest.approx([0.0, 1.0]))
    _, found = exchanged(backend, closed, None, 2.5, other)
    assert found == pytest.approx([0.0, 2.5])
    none = np.zeros((1, 2))
    assert exchanged(backend, closed, 1.0, None, none) == (pytest.approx(5.0), pytest.approx([0.6, 0.8]))
    assert exchanged(backend, closed, 5.5, 4.5, none) == (pytest.approx(5.0), pytest.approx([3.0, 4.0]))
    assert exchanged(backend, closed, None, 1.0, none) == (pytest.approx(5.0), [1.0, 1.0])
    _, found = exchanged(backend, closed, 4.0, 3.0, none)  # by value first, then to the norm, of what is left
    assert found == pytest.approx([np.sqrt(8), np.sqrt(8)])
    for bad in (np.nan, np.inf):
        norm, _ = exchanged(backend, closed, 1.0, 1.0, np.array([[bad, 0.0]]))
        assert not np.isfinite(norm)  # the driver then ends the fit


@pytest.mark.spec("DLN-178", "DLN-179", "NLP-24")
@pytest.mark.parametrize("backend", ["auto", "torch"])
def test_a_fit_limits_its_components_then_its_norm(monkeypatch, backend):
    seen, before = [], Exchange.finish

    def finish(self, clip=None, clip_value=None):
        norm = before(self, clip, clip_value)
        seen.append((norm, [np.array(one.tolist()) for one in self.arrays], clip, clip_value))
        return norm

    monkeypatch.setattr(Exchange, "finish", finish)
    X, y = np.random.default_rng(0).normal(size=(60, 4)) * 30, np.arange(60) % 2
    options = {"epochs": 2, "random_state": 0, "standardize": False}
    with gnomon.context(backend=backend):
        fitted = gnomon.MLP(hidden=(3,), clip_value=1e-3, clip=2e-3, batch_size=16, **options).fit(X, y)
    assert len(seen) == 8
    told = fitted.history_["gradient_norm"]
    assert told == pytest.approx([seen[3][0], seen[7][0]])  # before it was limited
    for norm, arrays, clip, clip_value in seen:
        assert (clip, clip_value) == (2e-3, 1e-3)
        assert global_norm(arrays) <= 2e-3 * (1 + 1e-6) < norm
        assert max(np.abs(one).max() for one in arrays) <= 1e-3 * (1 + 1e-6)
    for name in ("clip", "clip_value"):
        with pytest.raises(UserValueError, match=f"{name} must be .*, got 0"):
            gnomon.MLP(**{name: 0.0}).fit(X, y)
    with gnomon.context(backend=backend), pytest.raises(Diverged):  # an endless gradient is not hidden by the limits
        gnomon.MLP(hidden=(3,), clip_value=1.0, clip=1.0, dtype="float32", **options).fit(X * 1e25, y)
