"""Convolution layers against sums written out in NumPy, finite differences, scipy, and each other in limits."""

import itertools

import numpy as np
import pytest
import torch
from scipy import signal
from torch import nn
from torch.nn import functional

from gnomon.errors import UserValueError
from gnomon.nn.batch_norm import BatchNorm
from gnomon.nn.convolution import (
    Conv1d,
    Conv2d,
    Window,
    convolution,
    output_size,
    pad,
    receptive_field,
    same_padding,
)
from gnomon.nn.dropout import Dropout
from gnomon.nn.pooling import GlobalPool
from gnomon.nn.units import Max
from gnomon.numeric.convolution import convolve, correlate2d

random = np.random.default_rng(0)


def filled(layer):
    """The layer with random numbers in float64, its zeros replaced."""
    layer = layer.double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.from_numpy(random.normal(size=tuple(parameter.shape))))
    return layer


def by_index(x, weight, bias, stride, padding, dilation, groups):
    """Y_{n,o,i,j} = b_o + sum_{c,a,b} K_{o,c,a,b} X_{n, c, s i + d a - p, s j + d b - p}, one output at a time."""
    n, inputs, *sizes = x.shape
    outputs, per_group, *kernel = weight.shape
    padded = np.zeros((n, inputs, *(size + 2 * p for size, p in zip(sizes, padding, strict=True))))
    padded[:, :, padding[0] : padding[0] + sizes[0], padding[1] : padding[1] + sizes[1]] = x
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    places = [range(0, size - r + 1, s) for size, r, s in zip(padded.shape[2:], reach, stride, strict=True)]
    y = np.zeros((n, outputs, *map(len, places)))
    for m, o, (i, top), (j, left) in itertools.product(range(n), range(outputs), *map(enumerate, places)):
        first = o * groups // outputs * per_group
        total = bias[o]
        for c, a, b in itertools.product(range(per_group), *map(range, kernel)):
            total += weight[o, c, a, b] * padded[m, first + c, top + dilation[0] * a, left + dilation[1] * b]
        y[m, o, i, j] = total
    return y


SETTINGS = [
    # inputs, outputs, kernel, stride, padding, dilation, groups
    (1, 1, (2, 2), (1, 1), (0, 0), (1, 1), 1),
    (2, 3, (3, 2), (1, 2), (1, 0), (1, 1), 1),
    (3, 2, (1, 1), (2, 2), (0, 0), (1, 1), 1),
    (2, 2, (3, 3), (1, 1), (2, 1), (2, 1), 1),
    (4, 6, (2, 3), (2, 1), (1, 1), (1, 2), 2),
    (3, 6, (3, 3), (1, 1), (1, 1), (1, 1), 3),
    (2, 1, (5, 4), (3, 3), (2, 2), (1, 1), 1),
]


@pytest.mark.spec("DLN-107", "DLN-108", "DLN-109", "DLN-110", "DLN-111", "DLN-112", "DLN-117", "BAY-05")
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_layer_is_the_sum_over_indices(setting):
    inputs, outputs, kernel, stride, padding, dilation, groups = setting
    layer = filled(
        convolution(inputs, outputs, kernel, stride=stride, padding=padding, dilation=dilation, groups=groups)
    )
    x = random.normal(size=(2, inputs, 7, 6))
    expected = by_index(
        x, layer.weight.detach().numpy(), layer.bias.detach().numpy(), stride, padding, dilation, groups
    )
    found = layer(torch.from_numpy(x)).detach().numpy()
    assert found.shape == expected.shape
    assert found.shape[2:] == tuple(
        output_size(n, k, s, p, d) for n, k, s, p, d in zip((7, 6), kernel, stride, padding, dilation, strict=True)
    )
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.spec("DLN-108")
@pytest.mark.parametrize("setting", SETTINGS)
def test_gradients_by_finite_differences(setting):
    inputs, outputs, kernel, stride, padding, dilation, groups = setting
    layer = filled(
        convolution(inputs, outputs, kernel, stride=stride, padding=padding, dilation=dilation, groups=groups)
    )
    x = torch.from_numpy(random.normal(size=(1, inputs, 6, 6))).requires_grad_()
    assert torch.autograd.gradcheck(layer, (x,))
    assert torch.autograd.gradcheck(
        lambda w, b: functional.conv2d(x.detach(), w, b, stride, padding, dilation, groups), (layer.weight, layer.bias)
    )


@pytest.mark.spec("DLN-108")
def test_the_input_gradient_is_a_full_correlation_with_flipped_kernels():
    layer = filled(convolution(2, 3, (3, 2), bias=False))
    x = torch.from_numpy(random.normal(size=(1, 2, 5, 6))).requires_grad_()
    y = layer(x)
    d = random.normal(size=tuple(y.shape))
    y.backward(torch.from_numpy(d))
    kernel = layer.weight.detach().numpy()
    expected = [sum(signal.convolve2d(d[0, o], kernel[o, c], mode="full") for o in range(3)) for c in range(2)]
    np.testing.assert_allclose(x.grad[0].numpy(), expected, atol=1e-12)


@pytest.mark.spec("DLN-108")
def test_channels_of_the_row():
    layer = convolution(2, 1, 2)
    layer.weight.data.copy_(torch.tensor([[[[0.0, 1], [2, 3]], [[1, 2], [3, 4]]]]))
    x = torch.arange(9.0).reshape(1, 1, 3, 3)
    assert layer(torch.cat([x, x + 1], 1)).tolist() == [[[[56, 72], [104, 120]]]]


@pytest.mark.spec("DLN-107", "DLN-108", "BAY-05", "DLN-34")
def test_channels_add_up_and_no_kernel_is_flipped():
    layer = filled(convolution(3, 2, (3, 2)))
    x = random.normal(size=(1, 3, 5, 4))
    kernel, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    found = layer(torch.from_numpy(x)).detach().numpy()[0]
    for o in range(2):
        ours = bias[o] + sum(correlate2d(x[0, c], kernel[o, c]) for c in range(3))
        flipped = bias[o] + sum(convolve(x[0, c], kernel[o, c, ::-1, ::-1], mode="valid") for c in range(3))
        theirs = bias[o] + sum(signal.correlate2d(x[0, c], kernel[o, c], mode="valid") for c in range(3))
        for one in (ours, flipped, theirs):
            np.testing.assert_allclose(found[o], one, atol=1e-12)


@pytest.mark.spec("DLN-108", "BAY-07")
def test_a_product_with_windows_as_rows():
    x = random.normal(size=(1, 2, 5, 5))
    layer = filled(convolution(2, 3, (2, 3)))
    windows = np.lib.stride_tricks.sliding_window_view(x[0], (2, 3), axis=(1, 2)).transpose(1, 2, 0, 3, 4)
    product = windows.reshape(12, 12) @ layer.weight.detach().numpy().reshape(3, 12).T + layer.bias.detach().numpy()
    found = layer(torch.from_numpy(x)).detach().numpy()[0]
    np.testing.assert_allclose(found.transpose(1, 2, 0).reshape(12, 3), product, atol=1e-12)
    last = Conv2d(2, 3, (2, 3)).double()
    last.weight.data.copy_(layer.weight.data.permute(2, 3, 1, 0))
    last.bias.data.copy_(layer.bias.data)
    np.testing.assert_allclose(
        last(torch.from_numpy(x.transpose(0, 2, 3, 1))).detach().numpy().reshape(12, 3), product, atol=1e-12
    )


@pytest.mark.spec("DLN-109")
@pytest.mark.parametrize("stride", [1, 2])
def test_a_kernel_of_one_is_a_dense_layer_per_pixel(stride):
    layer = filled(convolution(3, 4, 1, stride=stride))
    x = torch.from_numpy(random.normal(size=(2, 3, 5, 6)))
    kept = x[:, :, ::stride, ::stride].permute(0, 2, 3, 1)
    dense = kept.reshape(-1, 3) @ layer.weight[:, :, 0, 0].T + layer.bias
    torch.testing.assert_close(layer(x).permute(0, 2, 3, 1).reshape(-1, 4), dense)


@pytest.mark.spec("DLN-112")
def test_dilation_is_a_kernel_with_zeros_between():
    x = torch.arange(25.0).reshape(1, 1, 5, 5)
    assert functional.conv2d(x, torch.arange(9.0).reshape(1, 1, 3, 3), dilation=2).item() == 624
    for d in (2, 3):
        wide = filled(convolution(2, 3, (3, 2), dilation=d, padding=2))
        stuffed = filled(convolution(2, 3, (2 * d + 1, d + 1), padding=2))
        with torch.no_grad():
            stuffed.weight.zero_()
            stuffed.weight[:, :, ::d, ::d] = wide.weight
            stuffed.bias.copy_(wide.bias)
        picture = torch.from_numpy(random.normal(size=(1, 2, 9, 8)))
        torch.testing.assert_close(wide(picture), stuffed(picture))


@pytest.mark.spec("DLN-117")
def test_groups_are_a_block_diagonal_kernel():
    assert [convolution(6, 4, 3, groups=g, bias=False).weight.numel() for g in (1, 2)] == [216, 108]
    grouped, full = filled(convolution(6, 4, 3, groups=2)), filled(convolution(6, 4, 3))
    with torch.no_grad():
        full.weight.zero_()
        full.weight[:2, :3], full.weight[2:, 3:] = grouped.weight[:2], grouped.weight[2:]
        full.bias.copy_(grouped.bias)
    x = torch.from_numpy(random.normal(size=(2, 6, 5, 5)))
    torch.testing.assert_close(grouped(x), full(x))
    deep = filled(convolution(3, 3, 3, groups=3))
    alone = [functional.conv2d(x[:, c : c + 1], deep.weight[c : c + 1], deep.bias[c : c + 1]) for c in range(3)]
    torch.testing.assert_close(deep(x[:, :3]), torch.cat(alone, 1))


NUMPY_MODES = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
ROWS = {
    "zeros": [0, 0, 1, 2, 3, 0, 0], "reflect": [3, 2, 1, 2, 3, 2, 1],
    "replicate": [1, 1, 1, 2, 3, 3, 3], "circular": [2, 3, 1, 2, 3, 1, 2],
}  # fmt: skip


@pytest.mark.spec("DLN-110")
@pytest.mark.parametrize("mode", ROWS)
def test_padding(mode):
    assert pad(torch.tensor([[[1.0, 2.0, 3.0]]]), 2, mode).flatten().tolist() == ROWS[mode]
    x = random.normal(size=(2, 3, 4, 5))
    pairs = [(1, 3), (0, 2)]  # rows first
    expected = np.pad(x, [(0, 0), (0, 0), *pairs], NUMPY_MODES[mode])
    np.testing.assert_array_equal(pad(torch.from_numpy(x), pairs, mode).numpy(), expected)


@pytest.mark.spec("DLN-110", "DLN-111", "DLN-112")
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_same_padding_keeps_the_size(k, d):
    low, high = same_padding(k, d)
    assert 0 <= high - low <= 1
    assert k % 2 == 0 or low == high == d * (k // 2)
    x = torch.zeros(1, 1, 9)
    assert functional.conv1d(pad(x, [(low, high)]), torch.zeros(1, 1, k), dilation=d).shape[-1] == 9


@pytest.mark.spec("DLN-111", "BAY-06")
def test_sizes_of_the_row_and_of_every_layer():
    assert output_size(224, 11, 4, 0) == 54
    assert [output_size(5, 2, 2, ceil_mode=c) for c in (False, True)] == [2, 3]
    assert [output_size(2, 2, 3, 1, ceil_mode=c) for c in (False, True)] == [1, 1]
    seen = 0
    for n, k, s, p, d in itertools.product(range(1, 9), (1, 2, 3, 4), (1, 2, 3), (0, 1, 2), (1, 2)):
        x = torch.zeros(1, 1, n)
        if d * (k - 1) + 1 > n + 2 * p:
            with pytest.raises(UserValueError, match="does not fit"):
                output_size(n, k, s, p, d)
            with pytest.raises(RuntimeError):
                functional.conv1d(x, torch.zeros(1, 1, k), stride=s, padding=p, dilation=d)
            continue
        seen += 1
        assert functional.conv1d(x, torch.zeros(1, 1, k), stride=s, padding=p, dilation=d).shape[-1] == output_size(
            n, k, s, p, d
        )
        if p <= k // 2:
            for ceil_mode in (False, True):
                y = functional.max_pool1d(x, k, s, p, d, ceil_mode)
                assert y.shape[-1] == output_size(n, k, s, p, d, ceil_mode=ceil_mode), (n, k, s, p, d, ceil_mode)
    assert seen > 300


LAYERS = {
    "two of 3": [Window(3), Window(3)],
    "strides": [Window(5, 2, 2), Window(3, 1, 1), Window(2, 2), Window(3, 2, 1)],
    "dilated": [Window(3, 1, 2, 2), Window(2, 3, 1), Window(3, 1, 0, 3)],
    "even": [Window(4, 2, 1), Window(2, 1, 1)],
}


@pytest.mark.spec("DLN-113")
@pytest.mark.parametrize("name", LAYERS)
def test_the_receptive_field_is_where_the_gradient_is_not_zero(name):
    windows, size = LAYERS[name], 60
    chain = nn.Sequential(
        *(
            filled(convolution(1, 1, w.size, stride=w.stride, padding=w.padding, dilation=w.dilation, axes=1))
            for w in windows
        )
    )
    field = receptive_field(windows)
    assert receptive_field(chain) == field
    dilated = any(w.dilation > 1 for w in windows)
    x = torch.zeros(1, 1, size, dtype=torch.float64, requires_grad=True)
    length = chain(x).shape[-1]
    for i in (0, 1, length // 2, length - 1):
        (gradient,) = torch.autograd.grad(chain(x)[0, 0, i], x)
        support = gradient[0, 0].nonzero().flatten().tolist()
        first, last = field.region(i)
        assert (support[0], support[-1]) == (max(first, 0), min(last, size - 1))
        assert last - first + 1 == field.size
        assert dilated or len(support) == support[-1] - support[0] + 1


@pytest.mark.spec("DLN-113")
def test_rows_and_columns_have_receptive_fields_of_their_own():
    chain = nn.Sequential(
        filled(convolution(1, 2, (3, 5), padding=(1, 2))), nn.ReLU(), nn.AvgPool2d((2, 3)),
        nn.Sequential(filled(convolution(2, 1, (2, 1), stride=(2, 1)))),
    ).double()  # fmt: skip
    linear = nn.Sequential(chain[0], chain[2], chain[3])
    x = torch.zeros(1, 1, 20, 21, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(linear(x)[0, 0, 2, 3], x)
    rows, columns = (gradient[0, 0].abs().sum(axis).nonzero().flatten() for axis in (1, 0))
    assert (rows.min(), rows.max()) == receptive_field(chain, 0).region(2)
    assert (columns.min(), columns.max()) == receptive_field(chain, 1).region(3)


@pytest.mark.spec("DLN-113")
def test_figures_of_the_rows():
    assert receptive_field([Window(3), Window(3)]).size == 5
    alex = [Window(11, 4), Window(3, 2), Window(5, 1, 2), Window(3, 2), *[Window(3, 1, 1)] * 3, Window(3, 2)]
    found = receptive_field(alex)
    assert (found.size, found.jump) == (195, 32)


@pytest.mark.spec("DLN-113")
@pytest.mark.parametrize(
    "layer",
    [
        nn.Linear(2, 2), nn.AdaptiveAvgPool2d(1), nn.ConvTranspose2d(1, 1, 2), nn.Conv1d(1, 1, 3, padding="same"),
        GlobalPool(), nn.GroupNorm(1, 2), nn.InstanceNorm2d(2), nn.Softmax(2), nn.Upsample(scale_factor=2),
        nn.LPPool2d(2, 2),
    ],
)  # fmt: skip
def test_layers_without_a_window_have_no_receptive_field(layer):
    """None is passed over in silence: behind global pooling or a norm over places the field is the whole input."""
    with pytest.raises(UserValueError, match="receptive_field"):
        receptive_field([layer])


@pytest.mark.spec("DLN-113")
def test_layers_of_single_pixels_are_passed_over():
    single = [
        nn.GELU(),
        nn.PReLU(),
        nn.BatchNorm2d(3),
        nn.Dropout2d(),
        Dropout(0.5),
        BatchNorm(3),
        nn.Identity(),
        Max(2),
    ]
    assert receptive_field([*single, Window(3), *single]) == receptive_field([Window(3)])


def reference(layer, x):
    """The channels-last layer by torch's channels-first functions, axes written out."""
    if x.ndim == 3:
        y = functional.conv1d(
            x.permute(0, 2, 1), layer.weight.permute(2, 1, 0), layer.bias, layer.stride, 0, layer.dilation, layer.groups
        )
        return y.permute(0, 2, 1)
    y = functional.conv2d(
        x.permute(0, 3, 1, 2), layer.weight.permute(3, 2, 0, 1), layer.bias, layer.stride, 0, layer.dilation,
        layer.groups,
    )  # fmt: skip
    return y.permute(0, 2, 3, 1)


@pytest.mark.spec("BAY-06")
@pytest.mark.parametrize(
    ("stride", "dilation", "groups", "kernel", "padding", "zeros"),
    [
        (1, 1, 1, 3, 0, (0, 0)),
        (2, 1, 2, 3, 2, (2, 2)),
        (1, 3, 1, 3, "same", (3, 3)),
        (1, 1, 1, 4, "same", (1, 2)),  # an even kernel: the odd zero on the right
        (3, 2, 2, 2, "causal", (2, 0)),
    ],
)
def test_channels_last_in_one_axis(stride, dilation, groups, kernel, padding, zeros):
    layer = filled(Conv1d(4, 6, kernel, stride=stride, dilation=dilation, groups=groups, padding=padding))
    x = torch.from_numpy(random.normal(size=(2, 11, 4)))
    y = layer(x)
    assert y.shape == (2, layer.output_length(11), 6)
    assert padding != "same" or y.shape[1] == 11
    given, x = x, torch.from_numpy(np.pad(x, [(0, 0), zeros, (0, 0)]))
    torch.testing.assert_close(y, reference(layer, x))
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    for n, place, o in itertools.product(range(2), range(y.shape[1]), range(6)):
        first = o * groups // 6 * (4 // groups)
        total = bias[o] + sum(
            x[n, place * stride + k * dilation, first + c].item() * weight[k, c, o]
            for k in range(kernel)
            for c in range(4 // groups)
        )
        assert y[n, place, o].item() == pytest.approx(total, abs=1e-12)
    assert torch.autograd.gradcheck(layer, (given[:1].clone().requires_grad_(),))


@pytest.mark.spec("BAY-06")
def test_the_sequence_of_the_row():
    layer = Conv1d(1, 1, 3, bias=False)
    layer.weight.data.copy_(torch.tensor([1.0, 0.0, -1.0]).reshape(3, 1, 1))
    assert layer(torch.tensor([1.0, 2.0, 3.0, 4.0]).reshape(1, 4, 1)).flatten().tolist() == [-2, -2]


@pytest.mark.spec("BAY-06")
@pytest.mark.parametrize(("k", "d"), [(2, 1), (3, 1), (3, 2), (4, 3)])
def test_causal_outputs_see_no_later_input(k, d):
    layer = filled(Conv1d(1, 1, k, dilation=d, padding="causal"))
    x = torch.from_numpy(random.normal(size=(1, 12, 1))).requires_grad_()
    y = layer(x)
    assert y.shape == x.shape
    for place in (0, 5, 11):
        (gradient,) = torch.autograd.grad(y[0, place, 0], x, retain_graph=True)
        seen = gradient.flatten().nonzero().flatten().tolist()
        assert seen == [place - j * d for j in reversed(range(k)) if place - j * d >= 0]


@pytest.mark.spec("BAY-07")
@pytest.mark.parametrize("padding", [0, (1, 2), "same", "causal"])
@pytest.mark.parametrize(("kernel", "stride", "groups"), [((2, 3), 1, 1), (3, (2, 3), 2), ((4, 1), 1, 1)])
def test_channels_last_in_the_plane(kernel, stride, padding, groups):
    layer = filled(Conv2d(4, 2, kernel, stride=stride, padding=padding, groups=groups))
    x = torch.from_numpy(random.normal(size=(2, 7, 6, 4)))
    k = (kernel, kernel) if isinstance(kernel, int) else kernel
    pairs = {
        "same": [((n - 1) // 2, n // 2) for n in k], "causal": [(n - 1, 0) for n in k], 0: [(0, 0)] * 2,
    }.get(padding) or [(p, p) for p in padding]  # fmt: skip
    widened = torch.from_numpy(np.pad(x.numpy(), [(0, 0), *pairs, (0, 0)]))
    y = layer(x)
    torch.testing.assert_close(y, reference(layer, widened))
    assert y.shape[1:3] == layer.output_sizes(7, 6)
    if padding in ("same", "causal") and stride == 1:
        assert y.shape[1:3] == (7, 6)
    assert torch.autograd.gradcheck(layer, (x[:1].clone().requires_grad_(),))


GROUPS = pytest.mark.spec("DLN-108", "DLN-117")


@pytest.mark.spec("DLN-108")
@pytest.mark.parametrize("kernel", [(6, 1), (1, 5)])
def test_a_layer_of_which_nothing_is_left_raises(kernel):
    with pytest.raises(RuntimeError, match="greater than actual input size"):
        convolution(1, 1, kernel)(torch.zeros(1, 1, 5, 4))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        pytest.param(lambda: convolution(4, 6, 3, groups=4), "groups must divide the 6 outputs, got 4", marks=GROUPS),
        pytest.param(lambda: convolution(3, 6, 3, groups=2), "groups must divide the 3 inputs, got 2", marks=GROUPS),
        (lambda: convolution(1, 1, 3, axes=4), "axes must be 1, 2 or 3, got 4"),
        (lambda: output_size(3, 5), "a window of 5 does not fit into 3"),
        (lambda: output_size(3, 1, 0), "s must be at least 1, got 0"),
        pytest.param(
            lambda: pad(torch.zeros(1, 1, 3), 3, "reflect"),
            r"reflect padding of 3 values must be 0 to 2, got \(3, 3\) \(axis 0\)",
            marks=pytest.mark.spec("DLN-110"),
        ),
        (lambda: pad(torch.zeros(1, 1, 3), 1, "symmetric"), "reflect.*got 'symmetric'"),
        (
            lambda: pad(torch.zeros(1, 1, 3), [1, 2]),
            "p must be one padding for each of the 1 axes after the channels, got 2",
        ),
        (lambda: Conv1d(1, 1, 3, padding="full"), "padding must be a number, 'same' or 'causal', got 'full'"),
        (lambda: Conv2d(1, 1, (3, 3, 3)), "kernel"),
        (
            lambda: Conv2d(1, 1, 3)(torch.zeros(1, 1, 5, 5)),
            r"x must have 4 axes, the last with 1 channels, got shape \(1, 1, 5, 5\) \(Conv2d\)",
        ),
        (lambda: Conv2d(1, 1, 3)(torch.zeros(1, 2, 5, 1)), "does not fit"),
        (lambda: Conv2d(3, 4, 3, groups=2), "groups must divide the 3 inputs, got 2"),
    ],
)
def test_settings_that_cannot_be_are_refused_in_one_line(call, words):
    with pytest.raises(UserValueError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)
