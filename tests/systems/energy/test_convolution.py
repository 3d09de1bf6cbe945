"""Couplings that are shared over an image against the matrix that they stand for, written out place by place."""

import numpy as np
import pytest
import torch

from gnomon.distributions.units import BernoulliUnits
from gnomon.errors import UserValueError
from gnomon.systems.energy.convolution import ConvolutionalLink
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.links import DenseLink

CASES = [
    ((3, 3, 1), 2, (2, 2), "valid"), ((3, 3, 1), 2, (2, 2), "same"), ((5, 4, 2), 3, (3, 2), "valid"),
    ((5, 4, 2), 3, (3, 2), "same"), ((4, 4, 3), 2, (3, 3), "same"), ((1, 7, 1), 2, (1, 3), "valid"),
    ((1, 7, 2), 2, (1, 4), "same"), ((3, 3, 1), 4, (3, 3), "valid"), ((2, 2, 2), 3, (1, 1), "same"),
]  # fmt: skip


def toeplitz(weight, shape, mode):
    """M[pixel and channel, place and map], entry by entry: the weight at their distance."""
    maps, channels, high, wide = weight.shape
    rows, columns, _ = shape
    above, left = ((high - 1) // 2, (wide - 1) // 2) if mode == "same" else (0, 0)
    down, across = (rows, columns) if mode == "same" else (rows - high + 1, columns - wide + 1)
    matrix = np.zeros((rows, columns, channels, down, across, maps))
    for i, j, c, y, x, k in np.ndindex(matrix.shape):
        m, n = i - y + above, j - x + left
        if 0 <= m < high and 0 <= n < wide:
            matrix[i, j, c, y, x, k] = weight[k, c, m, n]
    return matrix.reshape(rows * columns * channels, -1)


def drawn(shape, maps, kernel, seed=0):
    return np.random.default_rng(seed).normal(size=(maps, shape[2], *kernel))


@pytest.mark.spec("GEN-050")
@pytest.mark.parametrize(("skip", "extra"), [(0, 0), (2, 3)])
@pytest.mark.parametrize(("shape", "maps", "kernel", "mode"), CASES)
def test_fields_statistics_and_pulls_are_those_of_the_toeplitz_matrix(shape, maps, kernel, mode, skip, extra):
    link = ConvolutionalLink("v", "h", shape, maps, kernel, mode=mode, skip=skip, extra=extra)
    own = {"weight": drawn(shape, maps, kernel)}
    M = np.pad(toeplitz(own["weight"], shape, mode), ((skip, 0), (0, extra)))
    random = np.random.default_rng(1)
    v, h, share = random.normal(size=(6, M.shape[0])), random.normal(size=(6, M.shape[1])), random.normal(size=6)
    np.testing.assert_allclose(link.matrix(own), M, atol=1e-14)
    np.testing.assert_allclose(link.field("h", v, own), v @ M, atol=1e-12)
    np.testing.assert_allclose(link.field("v", h, own), h @ M.T, atol=1e-12)
    slope = (v * share[:, None]).T @ h  # of sum_i share_i v_i M h_i by M, then by the weights: where each one stands
    by_weight = np.zeros_like(own["weight"])
    for at in np.ndindex(by_weight.shape):
        one = np.zeros_like(by_weight)
        one[at] = 1
        by_weight[at] = (slope * np.pad(toeplitz(one, shape, mode), ((skip, 0), (0, extra)))).sum()
    np.testing.assert_allclose(link.statistics(v, h, share, own)["weight"], by_weight, atol=1e-12)
    np.testing.assert_allclose(link.pull(slope, own)["weight"], by_weight, atol=1e-12)


@pytest.mark.spec("GEN-050")
@pytest.mark.parametrize(("shape", "maps", "kernel", "mode"), CASES)
def test_correlation_and_transposed_convolution_are_adjoint_and_are_those_of_torch(shape, maps, kernel, mode):
    link, own = ConvolutionalLink("v", "h", shape, maps, kernel, mode=mode), {"weight": drawn(shape, maps, kernel)}
    random = np.random.default_rng(2)
    v, h = random.normal(size=(4, link.image_size)), random.normal(size=(4, link.maps_size))
    up, down = link.field("h", v, own), link.field("v", h, own)
    np.testing.assert_allclose((up * h).sum(1), (v * down).sum(1), atol=1e-12)
    planes = torch.from_numpy(v.reshape(4, *shape)).permute(0, 3, 1, 2)
    if mode == "same":
        (high, wide), pad = kernel, torch.nn.functional.pad
        planes = pad(planes, ((wide - 1) // 2, wide // 2, (high - 1) // 2, high // 2))
    expected = torch.nn.functional.conv2d(planes, torch.from_numpy(own["weight"]))
    np.testing.assert_allclose(up.reshape(4, *link.places, maps), expected.permute(0, 2, 3, 1), atol=1e-12)
    if mode == "valid":
        maps_first = torch.from_numpy(h.reshape(4, *link.places, maps)).permute(0, 3, 1, 2)
        back = torch.nn.functional.conv_transpose2d(maps_first, torch.from_numpy(own["weight"]))
        np.testing.assert_allclose(down.reshape(4, *shape), back.permute(0, 2, 3, 1), atol=1e-12)


@pytest.mark.spec("GEN-050")
@pytest.mark.parametrize("mode", ["valid", "same"])
def test_tensors_with_gradients_single_precision_and_read_only_rows(mode):
    shape, maps, kernel = (4, 3, 2), 3, (2, 2)
    link, weight = ConvolutionalLink("v", "h", shape, maps, kernel, mode=mode), drawn((4, 3, 2), 3, (2, 2))
    v = np.random.default_rng(0).normal(size=(3, link.image_size))
    v.flags.writeable = False
    plain = link.field("h", v, {"weight": weight})
    tensor = torch.from_numpy(weight).requires_grad_()
    x = torch.tensor(v)
    found = link.field("h", x, {"weight": tensor})
    np.testing.assert_allclose(found.detach().numpy(), plain, atol=1e-12)
    h = torch.from_numpy(np.random.default_rng(1).normal(size=(3, link.maps_size)))
    (slope,) = torch.autograd.grad((found * h).sum(), tensor)
    sums = link.statistics(x, h, torch.ones(3, dtype=torch.float64), {"weight": tensor})
    np.testing.assert_allclose(sums["weight"].numpy(), slope.numpy(), atol=1e-12)
    single = link.field("h", v.astype(np.float32), {"weight": weight.astype(np.float32)})
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, plain, atol=1e-5)
    assert link.field("h", v, {"weight": weight.astype(np.float32)}).dtype == np.float64
    assert link.matrix({"weight": tensor}).requires_grad


@pytest.mark.spec("GEN-050")
def test_a_machine_with_shared_kernels_is_the_machine_of_its_matrix():
    link = ConvolutionalLink("visible", "hidden", (3, 3, 1), 2, (2, 2))
    units = {"visible": BernoulliUnits(9), "hidden": BernoulliUnits(8)}
    machine = LayeredMachine(units, [link], dtype=torch.float64)
    dense = LayeredMachine(units, [DenseLink("visible", "hidden")], dtype=torch.float64)
    random = np.random.default_rng(0)
    state = {name: 0.7 * random.normal(size=tuple(value.shape)) for name, value in machine.named_parameters()}
    machine.load(state)
    dense.load(state | {"visible_hidden_weight": toeplitz(state["visible_hidden_weight"], (3, 3, 1), "valid")})
    v = (random.random((20, 9)) < 0.5).astype(float)
    assert machine.log_partition() == pytest.approx(dense.log_partition(), abs=1e-10)
    np.testing.assert_allclose(machine.log_prob(v), dense.log_prob(v), atol=1e-10)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ConvolutionalLink("v", "h", (3, 3, 1), 1, (4, 2)), "kernel must be at most 3 x 3, got 4 x 2"),
        (lambda: ConvolutionalLink("v", "h", (3, 3, 1), 1, (2, 2), mode="full"), "mode must be valid or same"),
        (
            lambda: LayeredMachine(
                {"v": BernoulliUnits(9), "h": BernoulliUnits(5)}, [ConvolutionalLink("v", "h", (3, 3, 1), 1, (2, 2))]
            ),
            r"the layers must have \(9, 4\) columns, got \(9, 5\)",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(call, words):
    with pytest.raises(UserValueError, match=words):
        call()
