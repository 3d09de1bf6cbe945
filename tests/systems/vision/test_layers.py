"""The text of a network's layers: every word against torch's functions, norms, images of other sizes, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as f

from gnomon.errors import UserValueError
from gnomon.nn.context import training
from gnomon.nn.initializers import HeNormal
from gnomon.nn.norms import GroupNormalization, InstanceNormalization, LayerNormalization, NoNorm, Norm
from gnomon.nn.pooling import AveragePooling
from gnomon.numeric.noise import Noise
from gnomon.systems.vision._layers import Layer, layers_of
from gnomon.systems.vision.cnn import CNN, CNNModel

F64 = torch.float64
Weights = dict[str, torch.Tensor]


def prepared(shape: tuple[int, int, int], layers: str, norm: Norm, **settings: Any) -> CNNModel:
    model = CNNModel(shape, 3, layers=layers, norm=norm, dtype=F64, **settings)
    model.initialize(HeNormal(), Noise(0, "test"))
    random = np.random.default_rng(0)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if not name.endswith("weight"):
                value.add_(torch.from_numpy(0.3 * random.random(tuple(value.shape))))
    return model


def tiled(w: Weights, x: torch.Tensor, padding: int) -> torch.Tensor:
    kernels, bias = w["features.0.0.weight"], w["features.0.0.bias"]
    whole = [[f.conv2d(x, kernels[i, j], bias[i, j], padding=padding) for j in range(2)] for i in range(2)]
    out = torch.empty_like(whole[0][0])
    for i in range(2):
        for j in range(2):
            out[:, :, i::2, j::2] = whole[i][j][:, :, i::2, j::2]
    return out


def local(w: Weights, x: torch.Tensor) -> torch.Tensor:
    kernels, padded = w["features.0.0.weight"], f.pad(x, (1, 1, 1, 1))
    rows, columns = kernels.shape[:2]
    out = [
        [(padded[:, None, :, 2 * i :, 2 * j :][..., :3, :3] * kernels[i, j]).sum((2, 3, 4)) for j in range(columns)]
        for i in range(rows)
    ]  # fmt: skip
    return torch.stack([torch.stack(row, -1) for row in out], -2) + w["features.0.0.bias"].permute(2, 0, 1)


def conv(w: Weights, x: torch.Tensor, number: int = 0, **settings: Any) -> torch.Tensor:
    return f.conv2d(x, w[f"features.{number}.0.weight"], w[f"features.{number}.0.bias"], **settings)


def transposed(w: Weights, x: torch.Tensor, **settings: Any) -> torch.Tensor:
    return f.conv_transpose2d(x, w["features.0.0.weight"], w["features.0.0.bias"], **settings)


WORDS: dict[str, Any] = {
    "4c3x2": lambda w, x: f.relu(conv(w, x, padding=2, dilation=2)),
    "4c3s2x3": lambda w, x: f.relu(conv(w, x, padding=3, dilation=3, stride=2)),
    "4c3t2": lambda w, x: f.relu(tiled(w, x, 1)),
    "4l3s2": lambda w, x: f.relu(local(w, x)),
    "4u2": lambda w, x: f.relu(transposed(w, x, stride=2)),
    "4u4s2": lambda w, x: f.relu(transposed(w, x, stride=2, padding=1)),
    "4u3s2": lambda w, x: f.relu(transposed(w, x, stride=2, padding=1, output_padding=1)),
    "4c3-r3": lambda w, x: f.local_response_norm(f.relu(conv(w, x, padding=1)), 3, 1e-4, 0.75, 2.0),
    "4c3-a2": lambda w, x: f.adaptive_max_pool2d(f.relu(conv(w, x, padding=1)), 2),
    "a5": lambda w, x: f.adaptive_max_pool2d(x, 5),
    "y1x3": lambda w, x: torch.cat([f.adaptive_max_pool2d(x, k).flatten(1) for k in (1, 3)], 1),
}  # fmt: skip


@pytest.mark.spec("PRA-118", "PRA-221")
@pytest.mark.parametrize("text", WORDS)
def test_words(text: str) -> None:
    model = prepared((7, 8, 2), f"{text}-6", NoNorm())
    x = torch.from_numpy(np.random.default_rng(1).random((3, 7, 8, 2)))
    w = dict(model.named_parameters())
    rows = WORDS[text](w, model.first(x)).flatten(1)
    hidden = f.relu(rows @ w["head.1.weight"].T + w["head.1.bias"])
    expected = hidden @ w["head.3.weight"].T + w["head.3.bias"]
    torch.testing.assert_close(model.scores(x), expected, rtol=1e-10, atol=1e-10)
    spreads = {name: value.std() for name, value in w.items() if name.endswith("weight")}
    assert all(spread > 0.02 for spread in spreads.values()), "every layer has initial weights"


NORMS: dict[str, tuple[Norm, Any]] = {
    "layer": (LayerNormalization(), lambda x: f.group_norm(x, 1)),
    "group": (GroupNormalization(2), lambda x: f.group_norm(x, 2)),
    "instance": (InstanceNormalization(), f.instance_norm),
    "none": (NoNorm(), lambda x: x),
}


@pytest.mark.parametrize("kind", NORMS)
def test_norms_between_convolutions_and_units(kind: str) -> None:
    norm, apply = NORMS[kind]
    model = CNNModel((6, 7, 1), 3, layers="4c3-4d3-g", norm=norm, dtype=F64)
    model.initialize(HeNormal(), Noise(0, "test"))
    x = torch.from_numpy(np.random.default_rng(1).random((3, 6, 7, 1)))
    w = dict(model.named_parameters())
    assert ("features.0.0.bias" in w) is not norm.takes_bias
    maps = f.relu(apply(f.conv2d(model.first(x), w["features.0.0.weight"], padding=1)))
    first, second = (name for name, value in w.items() if name.startswith("features.1.") and value.ndim == 4)
    maps = f.relu(apply(f.conv2d(maps, w[first], padding=1, groups=4)))
    maps = f.relu(apply(f.conv2d(maps, w[second])))
    expected = maps.mean((2, 3)) @ w["head.1.weight"].T
    torch.testing.assert_close(model.scores(x), expected, rtol=1e-10, atol=1e-10)
    model.bind()
    with training(Noise(0, "fit")):
        torch.testing.assert_close(model.scores(x), expected, rtol=1e-10, atol=1e-10)


def test_the_kinds_of_a_text() -> None:
    assert layers_of("8c3s2x3t2-4d3-r5-a4-y1x2x4-10") == [
        Layer("convolution", 8, 3, 2, 3, 2), Layer("separable", 4, 3), Layer("response", 5), Layer("regions", 4),
        Layer("pyramid", levels=(1, 2, 4)), Layer("dense", 10),
    ]  # fmt: skip
    assert layers_of("4u3") == [Layer("transposed", 4, 3, 3)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("4d3x2", "x and t must follow a convolution"), ("4l3t2", "x and t must follow"), ("4l4", "give windows of 5"),
        ("4u2s3", "as large as their step"), ("4u2s1", "with step 1 must be odd"), ("y1x2-p2", "p2 stands behind"),
        ("g-y2", "y2 stands behind"), ("y", "got 'y'"), ("4c3t0", "got '4c3t0'"), ("4c3x2s2", "got '4c3x2s2'"),
    ],
)  # fmt: skip
def test_texts_that_are_no_layers(text: str, said: str) -> None:
    with pytest.raises(UserValueError, match="layers") as told:
        CNN(layers=text).check_parameters()
    assert said in str(told.value) and "\n" not in str(told.value)


def fitted(layers: str, **settings: Any) -> CNN:
    random = np.random.default_rng(0)
    X, y = random.random((24, 8, 8)), np.arange(24) % 3
    return CNN(layers=layers, epochs=1, batch_size=8, random_state=0, dtype="float64", **settings).fit(X, y)


@pytest.mark.spec("PRA-118")
@pytest.mark.parametrize("layers", ["4c3-a4-8", "4c3-p2-g", "4c3-y1x2-6"])
def test_images_of_other_sizes(layers: str) -> None:
    """A network fitted to images 8 x 8 answers to others, by the same layers."""
    net = fitted(layers, norm=GroupNormalization(2))
    random = np.random.default_rng(1)
    for size in ((8, 8), (11, 6), (3, 20)):
        X = random.random((5, *size))
        scores = net.model_.scores(torch.from_numpy(X[..., None])).detach().numpy()
        expected = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        np.testing.assert_allclose(net.predict_proba(X), expected, rtol=1e-9)
        assert net.predict(X).shape == (5,)
    with pytest.raises(UserValueError, match="X must have images of 1 channel, got 3"):
        net.predict(random.random((5, 8, 8, 3)))


def test_images_of_other_sizes_are_refused_where_the_network_has_one() -> None:
    random = np.random.default_rng(1)
    for layers in ("4c3-8", "4l3-g"):
        with pytest.raises(UserValueError, match="X must have images of 8 x 8"):
            fitted(layers).predict(random.random((5, 9, 8)))
    with pytest.raises(UserValueError, match="too small for the convolutions and poolings") as told:
        fitted("4c3-p3-p2-a2").predict(random.random((5, 3, 8)))
    assert "give 6 x 6 pixels or more" in str(told.value) and "\n" not in str(told.value)


def test_every_word_learns_and_is_saved(tmp_path: Any) -> None:
    import gnomon

    random = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = 0.7 * random.random((3, 8, 8))[y] + 0.3 * random.random((60, 8, 8))
    text = "6c3x2-r3-6c3t2-p2-6l3-6u2-a4-y1x2-12"
    net = CNN(layers=text, norm="layer", dropout=0.0, epochs=25, batch_size=10, learning_rate=0.01, random_state=0)
    assert net.fit(X, y).score(X, y) > 0.9
    net.save(tmp_path / "run")
    np.testing.assert_array_equal(gnomon.load(tmp_path / "run").predict_proba(X), net.predict_proba(X))


def test_regions_take_the_pooling_of_the_slot() -> None:
    model = prepared((6, 6, 1), "a2", NoNorm(), pooling=AveragePooling())
    x = torch.from_numpy(np.random.default_rng(1).random((2, 6, 6, 1)))
    found = model.feature_maps(x)[0]
    torch.testing.assert_close(found, f.avg_pool2d(model.first(x), 3), rtol=1e-10, atol=1e-10)
    with pytest.raises(UserValueError, match="must be pooled by max or average, got 'stochastic'"):
        fitted("4c3-a2", pooling="stochastic")
