"""Layers on top of one another against torch's deep networks, and the mean of layers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gnomon.errors import UserValueError
from gnomon.nn.context import bind, training
from gnomon.nn.recurrent import GRU, LSTM, RNN
from gnomon.nn.stacked import ScalarMix, Stacked
from gnomon.numeric.noise import Noise

F64 = torch.float64
KINDS = {RNN: torch.nn.RNN, GRU: torch.nn.GRU, LSTM: torch.nn.LSTM}


def inputs(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def twins(kind, depth):
    """torch's deep network, and ours of its layers one by one."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs = KINDS[kind](3, 4, depth, batch_first=True, dtype=F64)
    layers = []
    for i in range(depth):
        with torch.random.fork_rng():
            one = KINDS[kind](3 if not i else 4, 4, batch_first=True, dtype=F64)
        one.load_state_dict({name: theirs.state_dict()[f"{name[:-1]}{i}"] for name in one.state_dict()})
        layers.append(kind.from_torch(one))
    return theirs, Stacked(layers)


@pytest.mark.spec("DLN-188")
@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("depth", [1, 3])
def test_deep_networks_are_torchs(kind, depth):
    theirs, mine = twins(kind, depth)
    x, lengths = inputs(3, 6, 3), torch.tensor([6, 2, 4])
    outputs, state = mine(x)
    expected, last = theirs(x)
    assert torch.allclose(outputs, expected)
    h, c = last if kind is LSTM else (last, None)
    wanted = torch.cat([torch.cat([h[i], *([] if c is None else [c[i]])], 1) for i in reversed(range(depth))], 1)
    assert torch.allclose(state, wanted)
    if depth == 1:  # the layer itself
        assert torch.equal(outputs, mine.layers[0](x)[0])
    before = mine.initial(3)
    for t in range(6):
        before = mine.step(x[:, t], before)
        assert torch.allclose(before[:, :4], outputs[:, t])
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    expected = torch.nn.utils.rnn.pad_packed_sequence(theirs(packed)[0], batch_first=True)[0]
    outputs, after = mine(x, None, lengths)
    assert torch.allclose(outputs, expected)
    rest, _ = mine(x[1:2, 2:], after[1:2])  # goes on where the shorter one ended
    assert torch.allclose(rest, mine(x[1:2])[0][:, 2:])


@pytest.mark.spec("DLN-188")
def test_dropout_acts_between_layers_alone():
    _, mine = twins(GRU, 2)
    deep = Stacked(list(mine.layers), dropout=1.0)
    bind(deep)
    x = inputs(2, 5, 3)
    with training(Noise(0, "test").rows(np.arange(2))):
        found = deep.outputs(x)
        after = deep.step(x[:, 0], deep.initial(2))
    assert torch.equal(found[0], mine.layers[0](x)[0])  # neither the inputs nor the first layer's state
    assert torch.equal(found[1], mine.layers[1](torch.zeros(2, 5, 4, dtype=F64))[0])  # and not the output
    assert torch.allclose(after, torch.cat([found[1][:, 0], found[0][:, 0]], 1))


def test_layers_that_do_not_fit_are_refused():
    with pytest.raises(UserValueError, match="take the 4 outputs of the one below, got one of 3 inputs"):
        Stacked([RNN(3, 4), RNN(3, 4)])
    with pytest.raises(UserValueError, match="at least 1 layer"):
        Stacked([])


@pytest.mark.spec("NLP-41")
def test_a_mix_of_layers_is_their_weighted_mean():
    layers = [inputs(2, 3, 4, seed=i) for i in range(3)]
    mix = ScalarMix(3, dtype=F64)
    assert torch.allclose(mix(layers), sum(layers) / 3)  # equal weights
    with torch.no_grad():
        mix.weight.copy_(torch.tensor([0.3, -1.0, 2.0], dtype=F64))
        mix.gamma.fill_(0.7)
    shares = np.exp([0.3, -1.0, 2.0]) / np.exp([0.3, -1.0, 2.0]).sum()
    assert torch.allclose(mix(layers), 0.7 * sum(float(s) * h for s, h in zip(shares, layers, strict=True)))
    inside = torch.tensor([[True, True, False], [True, False, False]])
    normalized = ScalarMix(3, normalize=True, dtype=F64)
    found = normalized(layers, inside)
    for i, n in enumerate((2, 1)):  # sequence by sequence: none depends on those beside it
        own = [h[i, :n] for h in layers]
        wanted = sum((h - h.mean()) / h.std(correction=0) for h in own) / 3
        assert torch.allclose(found[i, :n], wanted)
    layers[0] = layers[0].masked_fill(~inside[..., None], 1e6)  # padding has no part
    assert torch.allclose(normalized(layers, inside)[inside], found[inside])
    with pytest.raises(UserValueError, match="must be 3 layers, got 2"):
        mix(layers[:2])
