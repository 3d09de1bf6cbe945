"""Costs of networks by layer against published figures, sums by hand, and what layers do when they are called."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

import gnomon
from gnomon.cli.main import run
from gnomon.errors import UserTypeError, UserValueError
from gnomon.nn.costs import LayerCost, NetworkCost, network_cost
from gnomon.tasks.layer_costs import layer_costs
from oracles.commands import call

PHOTO = (3, 224, 224)
NETWORKS = ["lenet", "cnn", "alexnet", "vgg", "nin", "googlenet", "resnet", "densenet", "shufflenet"]
LARGE = {"stem": "large"}
GROUPS = {"channels": (64, 128, 256, 512), **LARGE}
PUBLISHED = {
    "ResNet-18": ("resnet", {"depths": (2, 2, 2, 2), **GROUPS}, 1.82, 11_689_512),
    "ResNet-50": ("resnet", {"depths": (3, 4, 6, 3), "block": "bottleneck", **GROUPS}, 4.09, 25_557_032),
    "VGG-16": (
        "vgg",
        {"convolutions": (2, 2, 3, 3, 3), "channels": (64, 128, 256, 512, 512), "hidden": (4096, 4096),
         "batch_norm": False},
        15.47, 138_357_544,
    ),
    "DenseNet-121": (
        "densenet", {"depths": (6, 12, 24, 16), "growth": 32, "first": 64, "bottleneck": 4, **LARGE}, 2.83, 7_978_856
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_figures(name):
    system, settings, giga, parameters = PUBLISHED[name]
    found = layer_costs(gnomon.make(system, **settings), PHOTO, n_classes=1000)
    assert found.multiply_adds / 1e9 == pytest.approx(giga, abs=0.0101) and found.parameters == parameters


def test_resnet_18_by_hand():
    found = layer_costs(gnomon.make("resnet", **PUBLISHED["ResNet-18"][1]), PHOTO, n_classes=1000)
    expected, inputs = 112**2 * 64 * 3 * 49 + 512 * 1000, 64
    for place, width in enumerate((64, 128, 256, 512)):
        pixels = (56 >> place) ** 2
        expected += pixels * 9 * (inputs * width + 3 * width**2) + (pixels * inputs * width if place else 0)
        inputs = width
    assert found.multiply_adds == expected


def test_alexnet_by_hand():
    """The published layers on 54, 26 and 12 pixels; torchvision's has other channels and 55, 27 and 13."""
    settings = {"channels": (96, 256, 384, 384, 256), "hidden": (4096, 4096), **LARGE}
    found = layer_costs(gnomon.make("alexnet", **settings), PHOTO, n_classes=1000)
    inner = 9 * (256 * 384 + 384 * 384 + 384 * 256)
    expected = 54**2 * 96 * 3 * 121 + 26**2 * 256 * 96 * 25 + 12**2 * inner + 6400 * 4096 + 4096**2 + 4096 * 1000
    assert found.multiply_adds == expected and found.parameters == 50_844_008


def places(n, window, stride, padding):
    return [i * stride - padding for i in range((n + 2 * padding - window) // stride + 1)]


@pytest.mark.parametrize(("window", "stride", "padding", "groups"), [(3, 1, 1, 1), (2, 2, 0, 2), (5, 3, 2, 1)])
def test_a_convolution_multiplies_as_often_as_its_loops_turn(window, stride, padding, groups):
    inputs, outputs, side = 2, 4, 7
    with torch.device("meta"):
        model = nn.Conv2d(inputs, outputs, window, stride, padding, groups=groups)
    rows = places(side, window, stride, padding)
    turns = sum(
        1 for _ in itertools.product(range(outputs), rows, rows, range(inputs // groups), range(window), range(window))
    )
    found = network_cost(nn.Sequential(model), nn.Sequential(model), (inputs, side, side))
    assert found.multiply_adds == turns and found.activations == outputs * len(rows) ** 2
    assert found.parameters == outputs * (inputs // groups * window**2 + 1)


@pytest.mark.parametrize("name", NETWORKS)
def test_costs_are_those_of_layers_that_are_called(name):
    """Every network in numbers: hooks on its products, outputs that share no memory with earlier ones."""
    system, side = gnomon.make(name), 32
    images = np.random.default_rng(0).random((4, side, side, 3)).astype(np.float32)
    system.set_params(epochs=1, batch_size=4).fit(images, np.arange(4) % 3)
    products, kept, outputs = [], {}, []

    def seen(layer, given, output):
        if isinstance(layer, nn.Conv2d):
            products.append(output.numel() * layer.weight[0].numel())
        elif isinstance(layer, nn.Linear):
            products.append(layer.weight.numel())
        if output.untyped_storage().data_ptr() not in kept:
            kept[output.untyped_storage().data_ptr()] = output
            if not isinstance(layer, nn.Flatten):  # copies where maps lie channels last in memory
                outputs.append(output.numel())

    model = system.model_
    for layer in model.modules():
        if layer is not model:
            layer.register_forward_hook(seen)
    with torch.no_grad():
        x = torch.tensor(images[:1])
        kept[x.untyped_storage().data_ptr()] = x
        given = model.first(x)  # held, so that no output takes its place
        model.first = lambda _: given
        model.scores(x)
    found = layer_costs(system)
    assert found.input_shape == (side, side, 3)
    assert found.multiply_adds == sum(products) and found.parameters == model.n_parameters
    assert found.activations == sum(outputs) and found.activation_bytes == 4 * found.activations
    together = found.grouped(12)
    for part in ("parameters", "multiply_adds", "activations"):
        assert sum(getattr(one, part) for one in together) == getattr(found, part)
    again = layer_costs(gnomon.make(name), (3, side, side), n_classes=3)
    assert again.layers == found.layers


def test_what_is_shared_reshaped_or_left_out_counts_once():
    with torch.device("meta"):
        twice, spare = nn.Linear(6, 6), nn.Linear(3, 5)
        model = nn.ModuleDict({"a": twice, "flat": nn.Flatten(), "off": nn.Identity(), "spare": spare})
        model["tied"] = nn.Linear(6, 6)
        model["tied"].weight = twice.weight
    found = network_cost(model, lambda x: model["tied"](model["off"](twice(twice(model["flat"](x))))), (2, 3))
    assert found.layers == (
        LayerCost("a", "Linear", (6,), 42, 72, 12),
        LayerCost("tied", "Linear", (6,), 6, 36, 6),
        LayerCost("spare", "Linear", (), 20, 0, 0),
    )
    assert not [one for one in model.modules() if one._forward_hooks or one._forward_pre_hooks]


def test_what_stands_outside_all_layers_is_the_networks_own():
    with torch.device("meta"):
        model = nn.Linear(4, 3, bias=False)
    found = network_cost(model, lambda x: x @ model.weight.T, (4,))
    assert found.layers == (LayerCost("(network)", "Linear", (), 12, 12, 0),)


def test_blocks_stand_together_where_there_are_many():
    layers = tuple(LayerCost(name, "Linear", (k,), 1, 2, 3) for k, name in enumerate(("a.0", "a.1.0", "a.1.1", "b")))
    found = NetworkCost(layers, (1,), 4)
    assert found.grouped(4) == list(layers)
    assert found.grouped(3) == [layers[0], LayerCost("a.1", "2 layers", (2,), 2, 4, 6), layers[3]]
    assert [one.name for one in found.grouped(2)] == ["a", "b"] == [one.name for one in found.grouped(1)]


def test_nothing_is_allocated():
    found = layer_costs(gnomon.MLP(hidden=(10**6, 10**6)), (10,), n_classes=2)  # four terabytes
    assert found.parameters == 10**7 + 10**6 + 10**12 + 10**6 + 2 * 10**6 + 2
    assert found.multiply_adds == 10**7 + 10**12 + 2 * 10**6 and found.activations == 4 * 10**6 + 2


def test_numbers_as_targets_and_double_precision():
    found = layer_costs(gnomon.MLPRegression(hidden=(8,), dtype="float64"), (4,), n_classes=3)
    assert found.multiply_adds == 4 * 8 + 8 * 3 and found.itemsize == 8
    X = np.random.default_rng(0).random((12, 5))
    fitted = gnomon.MLPRegression(hidden=(8,), epochs=1).fit(X, X[:, :2])
    assert layer_costs(fitted).multiply_adds == 5 * 8 + 8 * 2
    assert layer_costs(gnomon.MLPRegression(hidden=(8,)), (4,)).multiply_adds == 4 * 8 + 8


@pytest.mark.parametrize(
    ("name", "shape", "said"),
    [
        ("ppca", (3,), "the layers of ppca are not counted"),
        ("code-generator", (3,), "the layers of code-generator are not counted"),
        ("resnet", None, "the size of the input must be given"),
        ("resnet", (3,), r"shape must be \(channels, rows, columns\) or \(rows, columns\), got \(3,\)"),
        ("resnet", (3, 0, 8), "shape must have whole numbers of at least 1"),
        ("vgg", (3, 2, 2), "give 8 x 8 pixels or more"),
        ("mlp", (3, 8, 8), r"shape must be \(columns,\)"),
        ("mlp", 3, r"shape must be \(columns,\), got 3"),
    ],
)
def test_what_is_refused(name, shape, said):
    with pytest.raises((UserTypeError, UserValueError), match=said):
        layer_costs(gnomon.make(name), shape)


def test_what_is_no_network_and_no_number_of_classes_is_refused():
    for wrong in ("resnet", None, gnomon.ResNet):
        with pytest.raises(UserTypeError, match="are not counted"):
            layer_costs(wrong, (3, 8, 8))
    with pytest.raises(UserValueError, match="n_classes must be at least 1, got 0"):
        layer_costs(gnomon.LeNet(), (1, 28, 28), n_classes=0)


def test_the_command(tmp_path, capsys):
    small = "resnet:depths=1x1,channels=4x8"
    found = call(capsys, "info", small, "--input", "8x8", "--classes", "4")
    expected = layer_costs(gnomon.ResNet(depths=(1, 1), channels=(4, 8)), (8, 8), n_classes=4)
    assert (found["system"], found["input_shape"]) == ("resnet", [8, 8, 1])
    for part in ("parameters", "multiply_adds", "activations", "parameter_bytes", "activation_bytes"):
        assert found[part] == getattr(expected, part)
    layers = [
        {**vars(one), "shape": list(one.shape), "activation_bytes": 4 * one.activations} for one in expected.layers
    ]
    assert found["layers"] == layers
    assert run(["info", "resnet:depths=3x4x6x3,channels=64x128x256x512,block=bottleneck,stem=large", "--input",
                "3x224x224", "--classes", "1000"]) == 0  # fmt: skip
    out = capsys.readouterr().out
    assert "4.089 G (4,089,184,256)" in out and "25,557,032 (97.5 MiB)" in out and len(out.splitlines()) < 50
    folder = tmp_path / "run"
    np.savez(tmp_path / "d.npz", X=np.random.default_rng(0).random((12, 8, 8)), y=np.arange(12) % 2)
    assert run(["fit", "lenet", str(tmp_path / "d.npz"), "--epochs", "1", "--out", str(folder), "--json"]) == 0
    assert call(capsys, "info", folder, "--input", "1x8x8")["layers"][-1]["shape"] == [2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["resnet", "--input", "3y3"], "must be a size such as 3x224x224, 28x28 or 64, got '3y3'"),
        (["resnet", "--input", "3x0x3"], "must be a size"),
        (["resnet", "--classes", "3"], "add --input SIZE"),
        (["resnet:depths=1"], "add --input SIZE"),
        (["resnet:depth=1", "--input", "8x8"], "resnet has no parameter 'depth'"),
        (["ppca", "--input", "8"], "are not counted"),
        (["cnn", "--input", "99999999x99999999"], "shape must be of at most"),
    ],
)
def test_mistakes_of_the_command(words, said, capsys):
    assert run(["info", *words]) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1
