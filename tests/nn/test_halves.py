"""AlexNet over two devices: the grouped network with copied weights, its gradients, which layers read both halves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import gnomon
from gnomon.errors import UserValueError
from gnomon.nn.attribution import grad_cam
from gnomon.nn.halves import Halves, places_of
from gnomon.nn.initializers import HeNormal
from gnomon.numeric.noise import Noise
from gnomon.systems.vision.alexnet import AlexNet, AlexNetModel

F64 = torch.float64
SIZES: dict[str, Any] = {"channels": (4, 6, 8, 8, 6), "hidden": (10, 6)}


def both(stem: str = "small", shape: tuple[int, int, int] = (9, 8, 1)) -> tuple[AlexNetModel, AlexNetModel]:
    """The grouped network, and the divided one with its weights: the first half of the outputs, then the second."""
    settings: dict[str, Any] = {"stem": stem, "dropout": 0.0, "dtype": F64, **SIZES}
    whole = AlexNetModel(shape, 3, groups=2, **settings)
    whole.initialize(HeNormal(), Noise(0, "test"))
    random = np.random.default_rng(0)
    for one in whole.parameters():
        one.data.add_(torch.from_numpy(0.1 * random.random(tuple(one.shape))))
    divided = AlexNetModel(shape, 3, groups=2, halves="cpu+cpu", **settings)
    for value, parts in pairs(whole, divided):
        for part, half in zip(parts, value.chunk(len(parts)), strict=True):
            part.data.copy_(half)
    return whole, divided


def pairs(whole: AlexNetModel, divided: AlexNetModel) -> list[tuple[Any, list[Any]]]:
    """Each parameter of the grouped network with those that hold it in the divided one."""
    layers = [m for m in whole.modules() if isinstance(m, torch.nn.Conv2d | torch.nn.Linear)]
    found = [m for m in divided.modules() if isinstance(m, Halves) and list(m.parameters())]
    parts = [list(half.parameters()) for one in found for half in one.halves]
    weights, biases = [p[0] for p in parts], [p[1] for p in parts]
    last: Any = divided.head[-1]
    of_layers = [w[i : i + 2] for i in range(0, len(weights), 2) for w in (weights, biases)]
    held: list[Any] = [*of_layers, [last.weight], [last.bias]]
    return list(zip([p for m in layers for p in (m.weight, m.bias)], held, strict=True))


@pytest.mark.spec("DLN-120")
@pytest.mark.parametrize(("stem", "shape"), [("small", (9, 8, 1)), ("large", (70, 75, 3))])
def test_it_is_the_grouped_network(stem: str, shape: tuple[int, int, int]) -> None:
    """Scores, feature maps, and the gradient of every weight of both halves."""
    whole, divided = both(stem, shape)
    assert whole.n_parameters == divided.n_parameters
    x = torch.from_numpy(np.random.default_rng(1).random((3, *shape)))
    factor = torch.from_numpy(np.random.default_rng(2).normal(size=(3, 3)))
    for model in (whole, divided):
        loss: Any = (model.scores(x) * factor).sum()
        loss.backward()
    torch.testing.assert_close(divided.scores(x), whole.scores(x), rtol=1e-12, atol=1e-12)
    for a, b in zip(divided.feature_maps(x), whole.feature_maps(x), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    for value, parts in pairs(whole, divided):
        assert all(part.grad is not None and bool(part.grad.abs().sum() > 0) for part in parts)
        gradient = torch.cat([part.grad for part in parts if part.grad is not None])
        torch.testing.assert_close(gradient, value.grad, rtol=1e-10, atol=1e-12)


@pytest.mark.spec("DLN-120")
def test_the_third_convolution_and_the_dense_layers_alone_read_both_halves() -> None:
    _, divided = both()
    weighted = [m for m in divided.modules() if isinstance(m, Halves) and list(m.parameters())]
    assert [one.both for one in weighted] == [True, False, True, False, False, True, True]  # the first reads the image
    pair = (
        torch.ones(2, 3, 5, 5, dtype=F64, requires_grad=True),
        torch.ones(2, 3, 5, 5, dtype=F64, requires_grad=True),
    )
    for place, crosses in ((4, True), (5, False), (6, False)):
        layer = divided.features[place]
        inputs = [one.repeat(1, 2, 1, 1)[:, : (3 if place == 4 else 4)] for one in pair]
        low, _ = layer((inputs[0], inputs[1]))
        _, other = torch.autograd.grad(low.sum(), pair, allow_unused=True)
        assert (other is not None) is crosses


@pytest.mark.spec("DLN-120")
def test_each_half_stays_where_it_stands() -> None:
    """Moving or converting the network moves no half; a place that is missing is refused in a fit alone."""
    _, divided = both()
    kept = [half for one in divided.modules() if isinstance(one, Halves) for half in one.halves]
    for one in divided.modules():
        if isinstance(one, Halves):
            one.places = (torch.device("cpu"), torch.device("cpu"))
    divided.to(torch.float32)
    assert all(
        value.dtype == torch.float32 and value.device.type == "cpu" for half in kept for value in half.parameters()
    )
    assert places_of("cuda:77+cpu", strict=False) == (torch.device("cpu"), torch.device("cpu"))
    count = sum(value.numel() for one in kept[::2] for value in one.parameters())
    assert count == sum(value.numel() for one in kept[1::2] for value in one.parameters())
    assert divided.n_parameters == 2 * count + 3 * (SIZES["hidden"][-1] + 1)  # all but the last layer is in halves


@pytest.mark.spec("DLN-120")
def test_a_fit_in_halves(tmp_path: Any) -> None:
    random = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = 0.7 * random.random((2, 8, 8))[y] + 0.3 * random.random((40, 8, 8))
    net = AlexNet(
        groups=2, halves="cpu+cpu", dropout=0.1, epochs=20, batch_size=10, learning_rate=0.01, random_state=0, **SIZES
    )
    assert net.fit(X, y).score(X, y) > 0.9
    net.save(tmp_path / "run")
    assert np.array_equal(gnomon.load(tmp_path / "run").predict_proba(X), net.predict_proba(X))
    assert net.features(X[:3], stages=[0])[0].shape == (3, 8, 8, 4)


@pytest.mark.parametrize("stage", [0, 2, 6, 7])
def test_grad_cam_of_maps_in_halves_is_that_of_the_grouped_network(stage: int) -> None:
    x, classes = torch.from_numpy(np.random.default_rng(1).random((3, 9, 8, 1))), torch.tensor([0, 2, 1])
    whole, divided = (grad_cam(model.scores, model.features[stage], x, classes) for model in both())
    assert whole.abs().max() > 0
    torch.testing.assert_close(divided, whole, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"halves": "cpu"}, "halves must be two devices such as cuda:0+cuda:1, got 'cpu'"),
        ({"halves": "cpu+cuda:77"}, "halves must be devices that are here, got 'cuda:77'"),
        ({"halves": "cpu+meta"}, "halves must be devices that are here, got 'meta'"),
        ({"halves": "cpu+nowhere"}, "halves must be devices that are here, got 'nowhere'"),
        ({"halves": "cpu+cpu", "groups": 1}, "groups must be 2 for two halves, got 1"),
        ({"halves": "cpu+cpu", "hidden": (5,)}, "hidden must be even numbers for two halves, got 5"),
        ({"halves": "cpu+cpu", "channels": (4, 6, 8, 7, 6)}, "channels must be even numbers for two halves, got 7"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UserValueError) as told:
        AlexNet(**{"groups": 2, **SIZES, **settings}).check_parameters()
    assert said in str(told.value) and "\n" not in str(told.value)
