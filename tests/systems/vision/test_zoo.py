"""Convolutional networks against their layers written out, published numbers of parameters and published sizes."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from gnomon.errors import UserValueError
from gnomon.nn.activations import ReLU
from gnomon.nn.batch_norm import BatchNorm, fold
from gnomon.nn.context import training
from gnomon.nn.inception import Widths, inception, residual_inception
from gnomon.nn.initializers import HeNormal
from gnomon.numeric.noise import Noise
from gnomon.systems.vision._layers import Layer, layers_of
from gnomon.systems.vision.alexnet import AlexNet, AlexNetModel
from gnomon.systems.vision.cnn import CNN, CNNModel
from gnomon.systems.vision.densenet import DenseNet, DenseNetModel
from gnomon.systems.vision.googlenet import GoogLeNet, GoogLeNetModel
from gnomon.systems.vision.nin import NiNModel
from gnomon.systems.vision.resnet import ResNet, ResNetModel
from gnomon.systems.vision.shufflenet import ShuffleNet, ShuffleNetModel
from gnomon.systems.vision.vgg import VGG, VGGModel, vgg_block
from oracles.networks import Weights, alexnet, densenet, googlenet, nin, resnet, shufflenet, vgg

F64 = torch.float64
PHOTO = (224, 224, 3)


def prepared(model, seed=0):
    """A model with weights, biases, gains and running statistics that are none of the first values."""
    model.initialize(HeNormal(), Noise(seed, "test"))
    random = np.random.default_rng(seed)
    with torch.no_grad():
        for name, value in [*model.named_parameters(), *model.named_buffers()]:
            noise = torch.from_numpy(random.random(tuple(value.shape)) if value.ndim else np.array(0.0))
            if name.endswith(("bias", "shift", "gain", "running_mean", "running_var", "scale")):
                value.add_(0.3 * noise)
    return model


def images(shape, n=3, seed=1):
    return torch.from_numpy(np.random.default_rng(seed).random((n, *shape)))


def normal(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def filled(module, std=1.0):
    """Every parameter with normal numbers."""
    with torch.no_grad():
        for place, parameter in enumerate(module.parameters()):
            parameter.copy_(std * normal(*parameter.shape, seed=place))


def agree(model, x, oracle):
    """Scores in prediction and, where there is a norm, of a batch in training, against the layers written out."""
    first = model.first(x)
    for trains in (False, True):
        w = Weights(model, normalize=trains)
        expected = oracle(w, first)
        expected = expected[0] if isinstance(expected, tuple) else expected
        assert w.done()
        if trains:
            model.bind()
            with training(Noise(0, "fit")):
                found = model.scores(x)
        else:
            found = model.scores(x)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.spec("DLN-119")
@pytest.mark.parametrize("groups", [1, 2])
def test_alexnet_is_its_layers(groups):
    small = {"channels": (4, 6, 4, 6, 4), "hidden": (8, 6), "dropout": 0.0, "dtype": F64, "groups": groups}
    for shape, large in (((9, 12, 1), False), ((67, 71, 3), True)):
        model = prepared(AlexNetModel(shape, 3, stem="large" if large else "small", **small))
        agree(model, images(shape), lambda w, x, large=large: alexnet(w, x, large=large, groups=groups))


@pytest.mark.spec("DLN-119")
def test_sizes_and_parameters_of_alexnet():
    with torch.device("meta"):
        model = AlexNetModel(PHOTO, 10)
        sizes = [one.shape[-1] for one in model.feature_maps(torch.zeros(1, *PHOTO))]
        assert AlexNetModel(PHOTO, 1000).n_parameters == 50_844_008
        assert [AlexNetModel((n, n, 3), 10).head[1].in_features for n in (195, 226)] == [6400, 6400]
        assert [AlexNetModel((n, n, 3), 10).head[1].in_features == 6400 for n in (194, 227)] == [False, False]
    assert model.n_parameters == 46_787_978
    assert sizes == [54, 26, 26, 12, 12, 12, 12, 5] and model.head[1].in_features == 6400
    with pytest.raises(UserValueError, match="67 x 67 pixels or more"):
        AlexNetModel((66, 80, 3), 10)
    AlexNetModel((67, 67, 1), 2, channels=(1, 1, 1, 1, 1), hidden=())


@pytest.mark.spec("DLN-119")
def test_alexnet_drops_hidden_outputs_in_training_alone():
    model = AlexNetModel((8, 8, 1), 3, channels=(2, 2, 2, 2, 2), hidden=(400, 400), stem="small", dtype=F64)
    prepared(model).bind()
    seen = []
    for place in (3, 6):
        model.head[place].register_forward_hook(lambda _, x, y: seen.append((x[0], y)))
    with training(Noise(0, "fit")):
        model.scores(images((8, 8, 1)))
    for before, after in seen:
        kept = after[before > 0] != 0
        assert abs(kept.double().mean() - 0.5) < 5 * 0.5 / len(kept) ** 0.5  # 5 deviations
        torch.testing.assert_close(after[after != 0], 2 * before[after != 0])
    seen.clear()
    model.scores(images((8, 8, 1)))
    assert all(torch.equal(before, after) for before, after in seen)


@pytest.mark.spec("DLN-121")
def test_a_vgg_block_halves_and_sees_two_more_rows_with_each_convolution():
    for n in (1, 2, 3):
        block = vgg_block(1, 2, n, unit=ReLU(), dtype=F64)
        for layer in block[:-1]:
            torch.nn.init.ones_(layer[0].weight)
        x = torch.zeros(1, 1, 15, 15, dtype=F64)
        x[0, 0, 7, 7] = 1
        reached = (block[:-1](x)[0, 0] != block[:-1](torch.zeros_like(x))[0, 0]).any(1).sum()
        assert int(reached) == 2 * n + 1
        assert block(x).shape == (1, 2, 7, 7)  # an odd row is left out
        w = Weights(block)
        h = x
        for _ in range(n):
            h = functional.relu(w.conv(h, 1, 1))
        torch.testing.assert_close(block(x), functional.max_pool2d(h, 2))


@pytest.mark.spec("DLN-122")
@pytest.mark.parametrize(("shape", "norm"), [((9, 8, 1), False), ((8, 13, 3), True)])
def test_vgg_is_its_layers(shape, norm):
    settings = {"convolutions": (1, 2, 1), "channels": (3, 4, 5), "hidden": (6,), "dropout": 0.0}
    model = prepared(VGGModel(shape, 4, batch_norm=norm, dtype=F64, **settings))
    agree(model, images(shape), lambda w, x: vgg(w, x, (1, 2, 1), norm, 1))


@pytest.mark.spec("DLN-122")
def test_parameters_of_vgg():
    with torch.device("meta"):
        assert VGGModel(PHOTO, 1000).n_parameters == 132_863_336
        assert VGGModel(PHOTO, 10).n_parameters == 128_807_306
        assert VGGModel(PHOTO, 1000, convolutions=(2, 2, 4, 4, 4)).n_parameters == 143_667_240  # VGG-19
    with pytest.raises(UserValueError, match="8 x 8 pixels or more"):
        VGGModel((8, 7, 1), 2, convolutions=(1, 1, 1), channels=(1, 1, 1))


@pytest.mark.spec("DLN-123")
@pytest.mark.parametrize("rectified", [True, False])
@pytest.mark.parametrize(("shape", "large"), [((9, 8, 1), False), ((75, 67, 3), True)])
def test_nin_is_its_layers(shape, large, rectified):
    settings = {"channels": (3, 4, 5), "dropout": 0.0, "rectified": rectified, "dtype": F64}
    model = prepared(NiNModel(shape, 4, stem="large" if large else "small", **settings))
    agree(model, images(shape), lambda w, x: nin(w, x, large=large, rectified=rectified))
    last = [one for one in model.modules() if isinstance(one, torch.nn.Conv2d)][-1]
    torch.nn.init.constant_(last.bias, -9)
    scores = model.scores(images(shape))
    assert (scores == 0).all() if rectified else (scores < 0).all()


@pytest.mark.spec("DLN-123")
def test_sizes_and_parameters_of_nin():
    with torch.device("meta"):
        model = NiNModel(PHOTO, 10)
        x = torch.zeros(1, *PHOTO)
        maps = [*model.feature_maps(x)]
        maps.append(model.head[1](maps[-1]))
        assert model.scores(x).shape == (1, 10)
    assert [one.shape[-1] for one in maps] == [54, 26, 26, 12, 12, 5, 5]
    assert model.n_parameters == 2_015_398


@pytest.mark.spec("DLN-124")
def test_an_inception_block_is_four_branches():
    widths = Widths(64, (96, 128), (16, 32), 32)
    block = inception(192, widths, unit=ReLU(), dtype=F64)
    assert sum(p.numel() for p in block.parameters()) == 163_696
    assert 192 * 256 * 25 + 256 == 1_229_056 > 163_696
    small = inception(3, Widths(2, (2, 3), (1, 2), 1), unit=ReLU(), dtype=F64)
    x = normal(2, 3, 5, 6)
    filled(small)
    found, weights = small(x), list(small.parameters())
    a, b = (functional.relu(functional.conv2d(x, *weights[i : i + 2])) for i in (0, 2))
    c = functional.relu(functional.conv2d(x, *weights[6:8]))
    parts = [
        a, functional.relu(functional.conv2d(b, *weights[4:6], padding=1)),
        functional.relu(functional.conv2d(c, *weights[8:10], padding=2)),
        functional.relu(functional.conv2d(functional.max_pool2d(x, 3, 1, 1), *weights[10:12])),
    ]  # fmt: skip
    torch.testing.assert_close(found, torch.cat(parts, 1))
    assert found.shape == (2, 8, 5, 6)


@pytest.mark.spec("DLN-125", "DLN-126", "DLN-127")
@pytest.mark.parametrize("factors", [False, True])
@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize(("shape", "large"), [((9, 8, 1), False), ((33, 40, 3), True)])
def test_googlenet_is_its_layers(shape, large, norm, factors):
    settings = {"width": 0.03, "batch_norm": norm, "factors": factors, "dtype": F64}
    model = prepared(GoogLeNetModel(shape, 4, stem="large" if large else "small", **settings))
    agree(model, images(shape), lambda w, x: googlenet(w, x, large=large, norm=norm, factors=factors))


@pytest.mark.spec("DLN-126")
def test_inception_with_norms_at_their_first_statistics_is_the_network_without():
    settings = {"width": 0.03, "stem": "small", "dtype": F64}
    normed, bare = (GoogLeNetModel((9, 8, 1), 4, batch_norm=norm, **settings) for norm in (True, False))
    for model in (normed, bare):
        model.initialize(HeNormal(), Noise(0, "test"))
    pairs = zip((one.weight for one in layers(normed)), layers(bare), strict=True)
    for weight, layer in pairs:  # the units behind the norms are numbered otherwise, so weights differ by name
        layer.weight.data.copy_(weight.data)
        assert layer.bias is not None and (layer.bias == 0).all()
    assert all(one.bias is None for one in layers(normed) if isinstance(one, torch.nn.Conv2d))
    x = images((9, 8, 1))
    torch.testing.assert_close(normed.scores(x), bare.scores(x), rtol=60 * 1e-5, atol=1e-9)
    assert not torch.equal(normed.scores(x), bare.scores(x))
    # folded into their convolutions: the same in prediction
    prepared(normed)
    for layer, norm in zip(
        (one for one in layers(normed) if isinstance(one, torch.nn.Conv2d)),
        (one for one in normed.modules() if isinstance(one, BatchNorm)), strict=True,
    ):  # fmt: skip
        twin = fold(layer, norm)
        y = normal(2, layer.in_channels, 4, 5)
        torch.testing.assert_close(twin(y), norm(layer(y)), rtol=1e-9, atol=1e-9)


def layers(model):
    """Layers with weights, in order."""
    return [one for one in model.modules() if isinstance(one, torch.nn.Conv2d | torch.nn.Linear)]


@pytest.mark.spec("DLN-125")
def test_channels_and_parameters_of_googlenet():
    with torch.device("meta"):
        model = GoogLeNetModel(PHOTO, 10)
        maps = model.feature_maps(torch.zeros(1, *PHOTO))
        assert GoogLeNetModel(PHOTO, 1000).n_parameters == 6_998_552
    channels = [one.shape[1] for one in maps if one.shape[1] >= 192]
    assert list(dict.fromkeys(channels)) == [192, 256, 480, 512, 528, 832, 1024]
    blocks = [m.shape[1] for m, s in zip(maps, model.features, strict=True) if type(s).__name__ == "Branches"]
    assert blocks == [256, 480, 512, 512, 512, 528, 832, 832, 1024]
    assert model.n_parameters == 5_983_802


@pytest.mark.spec("DLN-127")
def test_windows_in_factors():
    x = normal(2, 1, 9, 11, seed=0)
    a, b = (normal(1, 1, 3, 3, seed=i) for i in (1, 2))
    one = functional.conv2d(functional.conv2d(x, a), b)
    composed = functional.conv2d(a, b.flip(2, 3), padding=2)  # 5 x 5: a full convolution of both
    torch.testing.assert_close(one, functional.conv2d(x, composed))
    column, row = (
        torch.arange(1.0, 8, dtype=F64).reshape(1, 1, 7, 1),
        torch.arange(2.0, 9, dtype=F64).reshape(1, 1, 1, 7),
    )
    crossed = functional.conv2d(functional.conv2d(x, column, padding=(3, 0)), row, padding=(0, 3))
    torch.testing.assert_close(crossed, functional.conv2d(x, column * row, padding=3))
    widths, y = Widths(2, (2, 3), (1, 2), 1), torch.zeros(1, 4, 8, 9)
    shapes = {form: inception(4, widths, unit=ReLU(), form=form)(y).shape for form in ("whole", "A", "B", "C")}
    assert shapes["A"] == shapes["B"] == shapes["whole"] == (1, 8, 8, 9)
    assert shapes["C"] == (1, 2 + 2 * 3 + 2 * 2 + 1, 8, 9)
    with pytest.raises(UserValueError, match="form must be whole, A, B or C"):
        inception(4, widths, unit=ReLU(), form="D")


@pytest.mark.spec("DLN-128")
def test_an_inception_block_with_a_residual_connection():
    x = normal(2, 6, 5, 7, seed=0)
    for form in ("whole", "A", "B", "C"):
        settings = {"unit": ReLU(), "norm": False, "form": form, "dtype": F64}
        block = residual_inception(6, Widths(2, (2, 3), (1, 2), 1), scale=0.3, **settings)
        filled(block, 0.3)
        branches, joined = block.block
        torch.testing.assert_close(block(x), functional.relu(x + 0.3 * joined(branches(x))))
        block.scale = 0.0
        assert torch.equal(block(x), functional.relu(x))
    block.scale = 0.3
    names = [name for name, _ in block.named_parameters()]

    def call(x, *values):
        return torch.func.functional_call(block, dict(zip(names, values, strict=True)), x)

    values = [p.detach().clone().requires_grad_() for p in block.parameters()]
    assert torch.autograd.gradcheck(call, (x[:1, :, :3, :3].clone().requires_grad_(), *values))
    model = GoogLeNetModel((8, 8, 1), 3, width=0.03, residual_scale=0.2, stem="small", factors=True)
    assert model.scores(torch.zeros(2, 8, 8, 1)).shape == (2, 3)


RESNETS = [
    {"depths": (2, 1), "channels": (3, 4), "block": "basic"},
    {"depths": (1, 2), "channels": (3, 3), "block": "basic", "plain": True},
    {"depths": (2, 2), "channels": (3, 4), "block": "pre-activation"},
    {"depths": (1, 2), "channels": (2, 4), "block": "bottleneck"},
    {"depths": (1, 1), "channels": (2, 4), "block": "bottleneck", "groups": 2, "group_width": 96},
]


@pytest.mark.spec("DLN-132", "DLN-133")
@pytest.mark.parametrize("settings", RESNETS, ids=lambda one: f"{one['block']}-{len(one)}")
@pytest.mark.parametrize(("shape", "large"), [((9, 8, 1), False), ((30, 33, 3), True)])
def test_resnet_is_its_layers(shape, large, settings):
    model = prepared(ResNetModel(shape, 4, stem="large" if large else "small", dtype=F64, **settings))
    kinds = {"block": settings["block"], "plain": settings.get("plain", False), "groups": settings.get("groups", 1)}
    agree(model, images(shape), lambda w, x: resnet(w, x, settings["depths"], large=large, **kinds))


@pytest.mark.spec("DLN-132", "DLN-133")
def test_parameters_of_resnet():
    deep = {"depths": (3, 4, 6, 3), "block": "bottleneck"}
    with torch.device("meta"):
        counts = [
            ResNetModel(PHOTO, classes, **settings).n_parameters
            for classes, settings in (
                (10, {"plain": True}), (1000, {"plain": True}), (1000, {}), (1000, deep),
                (1000, deep | {"depths": (3, 4, 23, 3)}), (1000, deep | {"groups": 32, "group_width": 4}),
            )
        ]  # fmt: skip
    assert counts == [11_184_650, 11_692_520, 11_689_512, 25_557_032, 44_549_160, 25_028_904]


@pytest.mark.spec("DLN-122", "DLN-132")
def test_features_of_resnet():
    net = ResNet(depths=(1, 1), channels=(2, 4), image_shape=(8, 8), epochs=1, batch_size=8, random_state=0)
    X, y = np.random.default_rng(0).random((24, 64)), np.arange(24) % 3
    assert net.fit(X, y).predict(X).shape == (24,)
    stages = net.features(X[:5])
    assert [one.shape for one in stages] == [(5, 8, 8, 2), (5, 8, 8, 2), (5, 4, 4, 4)]
    last, first = net.features(X[:5], stages=[-1, 0])
    assert np.array_equal(last, stages[2]) and np.array_equal(first, stages[0])
    assert net.features(X[:5], stages=[]) == []
    with pytest.raises(UserValueError, match="stages must be whole numbers from -3 to 2, got 3"):
        net.features(X[:5], stages=[3])
    with pytest.raises(UserValueError, match=r"stages must be whole numbers from -3 to 2, got 0\.5"):
        net.features(X[:5], stages=[0.5])
    scores = stages[-1].mean((1, 2)) @ net.model_.head[1].weight.detach().numpy().T
    scores += net.model_.head[1].bias.detach().numpy()
    expected = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    np.testing.assert_allclose(net.predict_proba(X[:5]), expected, rtol=1e-4)


@pytest.mark.spec("DLN-134")
@pytest.mark.parametrize("bottleneck", [0, 2])
@pytest.mark.parametrize(("shape", "large"), [((9, 8, 1), False), ((30, 33, 3), True)])
def test_densenet_is_its_layers(shape, large, bottleneck):
    settings = {"depths": (2, 1), "growth": 2, "first": 3, "bottleneck": bottleneck, "dtype": F64}
    model = prepared(DenseNetModel(shape, 4, stem="large" if large else "small", **settings))
    agree(model, images(shape), lambda w, x: densenet(w, x, (2, 1), large=large, bottleneck=bottleneck > 0))


@pytest.mark.spec("DLN-134")
def test_channels_and_parameters_of_densenet():
    with torch.device("meta"):
        model = DenseNetModel(PHOTO, 10, bias=True)
        maps = model.feature_maps(torch.zeros(1, *PHOTO))
        published = DenseNetModel(PHOTO, 1000, depths=(6, 12, 24, 16), bottleneck=4)
    assert [one.shape[1] for one in maps[2:-1]] == [192, 96, 224, 112, 240, 120, 248]
    assert model.n_parameters == 764_498 and published.n_parameters == 7_978_856
    small = prepared(DenseNetModel((8, 8, 1), 2, depths=(3,), growth=2, first=3, stem="small", dtype=F64))
    stem, block, _ = small.feature_maps(images((8, 8, 1)))
    assert torch.equal(block[:, :3], stem)  # the input comes first, unchanged


@pytest.mark.spec("DLN-136")
@pytest.mark.parametrize(("shape", "large"), [((9, 8, 1), False), ((30, 33, 3), True)])
def test_shufflenet_is_its_layers(shape, large):
    settings = {"depths": (2, 3), "channels": (16, 24), "groups": 2, "first": 4, "dtype": F64}
    model = prepared(ShuffleNetModel(shape, 4, stem="large" if large else "small", **settings))
    agree(model, images(shape), lambda w, x: shufflenet(w, x, (2, 3), 2, large=large))


def test_a_text_of_layers():
    assert layers_of("4d3") == [Layer("separable", 4, 3, 1)]
    assert layers_of("6c5-P2-16c3s2-g-10") == [
        Layer("convolution", 6, 5, 1), Layer("pooling", 0, 2, 2), Layer("convolution", 16, 3, 2), Layer("mean"),
        Layer("dense", 10),
    ]  # fmt: skip
    model = prepared(CNNModel((9, 8, 2), 3, layers="3c5-p3s2-4c3s2-6", dtype=F64))

    def by_hand(w, x):
        x = functional.max_pool2d(functional.relu(w.norm(w.conv(x, 1, 2))), 3, 2)
        x = functional.relu(w.norm(w.conv(x, 2, 1)))
        return w.linear(functional.relu(w.linear(x.flatten(1))))

    agree(model, images((9, 8, 2)), by_hand)
    agree(
        prepared(CNNModel((4, 5, 1), 3, layers="g-4", dtype=F64)), images((4, 5, 1)),
        lambda w, x: w.linear(functional.relu(w.linear(x.mean((2, 3))))),
    )  # fmt: skip


def test_a_text_with_a_separable_part():
    model = prepared(CNNModel((9, 8, 2), 3, layers="4d3s2-g", dtype=F64))

    def by_hand(w, x):
        x = functional.relu(w.norm(w.conv(x, 2, 1, 2)))
        x = functional.relu(w.norm(w.conv(x)))
        return w.linear(x.mean((2, 3)))

    agree(model, images((9, 8, 2)), by_hand)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("32c", "got '32c'"), ("", "got ''"), ("0c3", "got '0c3'"), ("32c3-128-p2", "p2 stands behind a layer"),
        ("32c4", "give windows of 5"), ("32d2", "give windows of 3"),
        ("g-g", "g stands behind"), ("32c3,p2", "parts such as"), ("-3", "got ''"),
    ],
)  # fmt: skip
def test_texts_that_are_no_layers(text, said):
    with pytest.raises(UserValueError, match="layers") as told:
        CNN(layers=text).check_parameters()
    assert said in str(told.value)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ResNet(depths=(1, 1), channels=(4,)), "as many numbers as depths"),
        (lambda: ResNet(groups=2), "give block='bottleneck'"),
        (lambda: ResNet(activation="maxout"), "do not fit sums of channels"),
        (lambda: DenseNet(activation="maxout"), "do not fit sums of channels"),
        (lambda: ShuffleNet(activation="maxout"), "do not fit sums of channels"),
        (lambda: GoogLeNet(activation="maxout", residual_scale=0.2), "do not fit sums of channels"),
        (lambda: AlexNet(groups=2, channels=(3, 4, 4, 4, 4)), "groups must divide the 3 inputs"),
        (lambda: ShuffleNet(channels=(60, 100, 240)), "groups must divide the 25 outputs"),
        (lambda: ShuffleNet(depths=(1,), channels=(24,)), "outputs must be above the 24 inputs"),
        (lambda: VGG(batch_size=1), "batch_size must be at least 2"),
        (lambda: VGG(convolutions=(1,) * 4, channels=(2,) * 4), "16 x 16 pixels or more"),
        (lambda: GoogLeNet(width=0), "width must be"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(make, said):
    X, y = np.random.default_rng(0).random((12, 8, 8)), np.arange(12) % 2
    with pytest.raises(UserValueError) as told:
        make().fit(X, y)
    assert said in str(told.value) and "\n" not in str(told.value)
