"""Back-propagation through time against automatic differentiation and finite differences; gradients along time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gnomon.errors import UserTypeError
from gnomon.nn.bptt import bptt, log_gradient_norms, spectral_radius, unroll
from gnomon.nn.layers import dense
from gnomon.nn.recurrent import GRU, RNN

F64 = torch.float64


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def network(activation, inputs=2, units=3, outputs=4):
    layer, head = RNN(inputs, units, activation, dtype=F64), dense(units, outputs, dtype=F64)
    with torch.no_grad():
        for i, parameter in enumerate([*layer.parameters(), *head.parameters()]):
            parameter.copy_(0.7 * random(*parameter.shape, seed=20 + i))
    return layer, head


def mean_loss(scores, y):
    return torch.nn.functional.cross_entropy(scores.flatten(0, 1), y.flatten(), reduction="sum") / scores.shape[1]


def by_autograd(layer, head, x, y, state, cut=None):
    """Gradients of the loss, the state taken off the graph after every `cut` places."""
    parameters = [layer.weight_x, layer.weight_h, layer.bias, head.weight, head.bias]
    h, scores = state, []
    for t in range(x.shape[1]):
        if cut and t and t % cut == 0:
            h = h.detach()
        h = layer.step(x[:, t], h)
        scores.append(head(h))
    return torch.autograd.grad(mean_loss(torch.stack(scores, 1), y), [*parameters, state])


def closed(layer, head, x, y, state, truncate=None):
    passed = unroll(layer, head, x, state.detach())
    scores = passed.scores.requires_grad_()
    (gradient,) = torch.autograd.grad(mean_loss(scores, y), scores)
    found = bptt(layer, head, passed, gradient, truncate)
    return [found[name] for name in ("weight_x", "weight_h", "bias", "head.weight", "head.bias", "state")]


def task(n=2, T=4):
    y = torch.randint(0, 4, (n, T), generator=torch.Generator().manual_seed(3))
    return random(n, T, 2), y, random(n, 3, seed=2).requires_grad_()


@pytest.mark.spec("DLN-185")
def test_the_linear_derivation_is_autograd_finite_differences_and_powers():
    layer, head = network(lambda z: z)
    x, y, state = task()
    found = closed(layer, head, x, y, state)
    for mine, theirs in zip(found, by_autograd(layer, head, x, y, state), strict=True):
        assert torch.allclose(mine, theirs)
    weights = (layer.weight_x, layer.weight_h, layer.bias, head.weight, head.bias)
    for weight, gradient in zip(weights, found, strict=False):
        for place in np.ndindex(*weight.shape):
            values = []
            for sign in (1, -1):
                with torch.no_grad():
                    weight[place] += sign * 1e-5
                    values.append(mean_loss(unroll(layer, head, x, state.detach()).scores, y).item())
                    weight[place] -= sign * 1e-5
            assert gradient[place].item() == pytest.approx((values[0] - values[1]) / 2e-5, abs=1e-8)
    # dL/dh_0 as the sum of powers of W_h^T
    passed = unroll(layer, head, x, state.detach())
    scores = passed.scores.requires_grad_()
    (g,) = torch.autograd.grad(mean_loss(scores, y), scores)
    power, total = layer.weight_h.T, torch.zeros(2, 3, dtype=F64)
    for t in range(4):
        total += (power @ head.weight.T @ g[:, t].T).T
        power = power @ layer.weight_h.T
    assert torch.allclose(found[-1], total)
    # a spectral radius of .5 makes what reaches the first state vanish, 2 explode
    sizes = []
    for radius in (0.5, 2.0):
        layer.weight_h.data.copy_(radius * torch.eye(3))
        far, labels, before = random(1, 40, 2), torch.zeros(1, 40, dtype=torch.int64), torch.zeros(1, 3, dtype=F64)
        late = torch.zeros(1, 40, 4, dtype=F64)
        late[:, -1] = 1.0
        sizes.append(bptt(layer, head, unroll(layer, head, far, before), late)["state"].norm().item())
        assert labels.shape == (1, 40)
    assert sizes[0] < 1e-10 and sizes[1] > 1e10


@pytest.mark.spec("NLP-22")
@pytest.mark.parametrize("activation", [torch.tanh, torch.relu])
def test_truncated_or_whole_it_is_autograd(activation):
    layer, head = network(activation)
    x, y, state = task(T=7)
    whole = by_autograd(layer, head, x, y, state)
    for k in (None, 7, 12):  # k of T or more cuts nothing
        for mine, theirs in zip(closed(layer, head, x, y, state, k), whole, strict=True):
            assert torch.allclose(mine, theirs)
    for k in (1, 2, 3, 5):
        cut = by_autograd(layer, head, x, y, state, k)
        for mine, theirs in zip(closed(layer, head, x, y, state, k), cut, strict=True):
            assert torch.allclose(mine, theirs)
    # bias on a copy task: the only error is at the last place, and cut off it tells the first input nothing
    late = torch.zeros(2, 7, 4, dtype=F64)
    late[:, -1] = random(2, 4, seed=8)
    passed = unroll(layer, head, torch.cat([x[:, :1], torch.zeros(2, 6, 2, dtype=F64)], 1), state.detach())
    assert bptt(layer, head, passed, late)["weight_x"].abs().max() > 1e-4
    assert (bptt(layer, head, passed, late, 3)["weight_x"] == 0).all()


def test_other_activations_are_refused():
    layer, head = network(torch.sigmoid)
    with pytest.raises(UserTypeError, match="must be tanh, relu or the identity"):
        unroll(layer, head, random(1, 3, 2))


@pytest.mark.spec("NLP-23")
def test_gradients_vanish_stay_or_explode():
    for weight, expected in ((0.5, 0.001953125), (1.5, 38.443359)):
        layer = RNN(1, 1, lambda z: z, dtype=F64)
        layer.weight_h.data.fill_(weight)
        norms = log_gradient_norms(layer, torch.zeros(1, 10, 1, dtype=F64), lambda h: h[..., 0])
        assert norms.exp()[-1].item() == pytest.approx(expected, abs=5e-7)
        assert norms.diff().tolist() == pytest.approx([np.log(weight)] * 9)
        assert spectral_radius(layer.weight_h) == pytest.approx(weight)
    layer = RNN(2, 4, lambda z: z, dtype=F64)
    layer.weight_h.data.copy_(torch.linalg.qr(random(4, 4))[0])
    x, v = random(1, 30, 2), random(4, seed=9)
    norms = log_gradient_norms(layer, x, lambda h: h @ v)
    assert norms.tolist() == pytest.approx([v.norm().log().item()] * 30)  # orthogonal: constant
    assert spectral_radius(layer.weight_h) == pytest.approx(1.0)
    assert spectral_radius(torch.tensor([[0.0, 8.0], [0.5, 0.0]])) == pytest.approx(2.0)  # the largest stretch is 8
    # the linear form against the (t-1)-th power of the transpose; then the factors of saturation, by autograd
    layer.weight_h.data.copy_(random(4, 4, seed=4))
    norms = log_gradient_norms(layer, x[:, :6], lambda h: h @ v)
    powers = [torch.linalg.matrix_power(layer.weight_h.T, t) @ v for t in range(6)]
    assert norms.exp().tolist() == pytest.approx([one.norm().item() for one in powers])
    # of a batch from states of its own: the norm over all its rows
    rows, before = random(3, 5, 2, seed=6), random(3, 4, seed=7)
    curved = RNN(2, 4, dtype=F64)
    curved.weight_h.data.copy_(layer.weight_h)
    each = [log_gradient_norms(curved, rows[i : i + 1], lambda h: h @ v, before[i : i + 1]).exp() for i in range(3)]
    together = log_gradient_norms(curved, rows, lambda h: h @ v, before).exp()
    assert torch.allclose(together, torch.stack(each).norm(dim=0)) and not torch.allclose(each[0], each[1])
    for curved in (RNN(2, 4, dtype=F64), GRU(2, 4, dtype=F64)):
        with torch.no_grad():
            for i, parameter in enumerate(curved.parameters()):
                parameter.copy_(random(*parameter.shape, seed=30 + i))
        first = curved.step(x[:, 0], curved.initial(1)).detach().requires_grad_()
        h = first
        for t in range(1, 4):
            h = curved.step(x[:, t], h)
        (gradient,) = torch.autograd.grad((h @ v).sum(), first)
        found = log_gradient_norms(curved, x[:, :4], lambda h: h @ v)[-1]
        assert found.exp().item() == pytest.approx(gradient.norm().item())
