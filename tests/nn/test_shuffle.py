"""Channel shuffle against torch's and by its order; units of group convolutions that mix all channels."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from gnomon.errors import UserValueError
from gnomon.nn.activations import Identity
from gnomon.nn.convolution import convolution
from gnomon.nn.shuffle import ChannelShuffle, channel_shuffle, shuffle_unit

F64 = torch.float64


@pytest.mark.spec("DLN-136")
def test_channels_are_read_across_groups():
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 12, 3, 4)))
    order = channel_shuffle(torch.arange(6.0).reshape(1, 6, 1, 1), 2).flatten().tolist()
    assert order == [0, 3, 1, 4, 2, 5]
    for groups in (1, 2, 3, 4, 6, 12):
        found = channel_shuffle(x, groups)
        assert torch.equal(found, functional.channel_shuffle(x, groups))
        assert torch.equal(channel_shuffle(found, 12 // groups), x)
        assert torch.equal(ChannelShuffle(groups)(x), found)
    for groups in (0, 5):
        with pytest.raises(UserValueError, match=f"groups must divide the 12 channels, got {groups}"):
            channel_shuffle(x, groups)


@pytest.mark.spec("DLN-136")
@pytest.mark.parametrize(("channels", "groups"), [(9, 3), (8, 2), (16, 4)])
def test_two_grouped_layers_with_a_shuffle_read_every_channel(channels, groups):
    """As channels / groups is groups or more; without the shuffle each output reads its own group alone."""
    first, second = (convolution(channels, channels, 1, groups=groups, bias=False, dtype=F64) for _ in range(2))
    for layer in (first, second):
        torch.nn.init.ones_(layer.weight)
    for between, reached in ((ChannelShuffle(groups), channels), (torch.nn.Identity(), channels // groups)):
        slopes = torch.func.jacrev(lambda x, between=between: second(between(first(x))))(
            torch.ones(1, channels, 1, 1, dtype=F64)
        )
        assert ((slopes.reshape(channels, channels) != 0).sum(1) == reached).all()


@pytest.mark.spec("DLN-136")
def test_every_output_of_a_unit_depends_on_every_input():
    unit = shuffle_unit(16, 16, unit=Identity(), groups=2, dtype=F64)
    with torch.no_grad():
        for place, parameter in enumerate(unit.parameters()):
            parameter.copy_(torch.from_numpy(np.random.default_rng(place).uniform(0.5, 1, tuple(parameter.shape))))
    slopes = torch.func.jacrev(unit)(torch.ones(1, 16, 3, 3, dtype=F64)).sum((0, 2, 3, 4, 6, 7))
    assert slopes.shape == (16, 16) and (slopes != 0).all()


@pytest.mark.parametrize(
    ("sizes", "settings", "said"),
    [
        ((8, 12), {}, "outputs must be the 8 inputs at stride 1"),
        ((8, 8), {"stride": 2}, "outputs must be above the 8 inputs"),
        ((8, 20), {"stride": 2}, "groups must divide the 5 outputs"),
    ],
)
def test_units_that_cannot_be(sizes, settings, said):
    with pytest.raises(UserValueError, match=said):
        shuffle_unit(*sizes, unit=Identity(), groups=2, **settings)
