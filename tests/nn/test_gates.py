"""Channel attention against its formula."""

import numpy as np
import pytest
import torch
from torch import nn

from gnomon.errors import UserValueError
from gnomon.nn.gates import SqueezeExcitation
from gnomon.systems.vision.resnet import ResNetModel

F64 = torch.float64


def normal(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def filled(module):
    with torch.no_grad():
        for place, parameter in enumerate(module.parameters()):
            parameter.copy_(normal(*parameter.shape, seed=place))
    return module


@pytest.mark.spec("DLN-135")
@pytest.mark.parametrize("gate", ["sigmoid", "softmax"])
def test_channels_times_what_their_means_say(gate):
    x, layer = normal(3, 6, 4, 5), filled(SqueezeExcitation(6, 2, gate=gate, dtype=F64))
    z = x.mean((2, 3))
    first, second = layer.squeeze, layer.excite
    scores = (z @ first.weight.T + first.bias).clamp(min=0) @ second.weight.T + second.bias
    assert first.weight.shape == (3, 6) and second.weight.shape == (6, 3)
    s = 1 / (1 + (-scores).exp()) if gate == "sigmoid" else scores.exp() / scores.exp().sum(1, keepdim=True)
    torch.testing.assert_close(layer(x), s[:, :, None, None] * x)
    for parameter in (second.weight, second.bias):
        nn.init.zeros_(parameter)
    assert torch.equal(layer(x), x / 2) if gate == "sigmoid" else torch.allclose(layer(x), x / 6, rtol=1e-15)


@pytest.mark.spec("DLN-135")
def test_gates_of_two_scores():
    for gate, expected in (("sigmoid", [0.7311, 0.8808]), ("softmax", [0.2689, 0.7311])):
        layer = SqueezeExcitation(2, 1, gate=gate, dtype=F64)
        with torch.no_grad():
            layer.excite.weight.zero_()
            layer.excite.bias.copy_(torch.tensor([1.0, 2.0]))
        np.testing.assert_allclose(layer.factors(torch.zeros(1, 2, 3, 3, dtype=F64)).detach()[0], expected, atol=5e-5)


@pytest.mark.spec("DLN-135")
def test_gradients_and_few_channels():
    layer = filled(SqueezeExcitation(3, 16, dtype=F64))  # fewer channels than the reduction: one unit
    assert layer.squeeze.out_features == 1
    names = [name for name, _ in layer.named_parameters()]

    def call(x, *values):
        return torch.func.functional_call(layer, dict(zip(names, values, strict=True)), x)

    values = [p.detach().clone().requires_grad_() for p in layer.parameters()]
    assert torch.autograd.gradcheck(call, (normal(2, 3, 2, 2).requires_grad_(), *values))
    for wrong, said in (({"gate": "tanh"}, "gate must be"), ({"reduction": 0}, "reduction must be")):
        with pytest.raises(UserValueError, match=said):
            SqueezeExcitation(4, **wrong)


def test_residual_blocks_with_gates():
    for block in ("basic", "bottleneck", "pre-activation"):
        settings = {"depths": (1, 1), "channels": (2, 4), "block": block, "stem": "small"}
        plain = ResNetModel((6, 6, 1), 3, **settings)
        gated = ResNetModel((6, 6, 1), 3, squeeze=2, **settings)
        gates = [one for one in gated.modules() if isinstance(one, SqueezeExcitation)]
        assert len(gates) == 2 and gated.scores(torch.zeros(2, 6, 6, 1)).shape == (2, 3)
        more = sum(p.numel() for one in gates for p in one.parameters())
        assert gated.n_parameters == plain.n_parameters + more
