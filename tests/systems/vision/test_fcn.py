"""A label for each pixel of images of any size: equivariance, tiles, gradients, a planted rule, built-in scenes."""

import numpy as np
import pytest
import torch

import gnomon
from gnomon.errors import UserError
from gnomon.numeric.noise import Noise
from gnomon.objectives.losses import CrossEntropyLoss
from gnomon.objectives.per_place import PerPlace
from gnomon.systems.vision.fcn import FCN, FCNModel
from gnomon.training.group import current

SHAPES = [((3,), 1, 3), ((3, 4), 2, 3), ((2, 3, 4), 1, 5), ((2, 2, 2, 2), 1, 3)]
"""Maps of the stages, convolutions of each, their windows."""


def network(channels=(3, 4, 5), convolutions=1, window=3, *, image_channels=1, k=3, seed=0):
    """A network in double precision with weights at random, norms and biases among them."""
    net = FCNModel(image_channels, k, channels=channels, convolutions=convolutions, window=window, dtype=torch.float64)
    random = np.random.default_rng(seed)
    for value in [*net.parameters(), *(b for name, b in net.named_buffers() if "mean" in name)]:
        value.data = torch.from_numpy(random.normal(size=tuple(value.shape)))
    return net


def scores(net, images):
    return net.ask("scores", images)


@pytest.mark.spec("PRA-119")
@pytest.mark.parametrize(("channels", "convolutions", "window"), SHAPES)
def test_the_receptive_radius_is_the_farthest_pixel_that_a_score_depends_on(channels, convolutions, window):
    net = network(channels, convolutions, window)
    for value in net.parameters():  # no score may lose a pixel by chance: all weights > 0, no unit at rest
        value.data = value.data.abs() + 0.1
    radius, stride = net.receptive_radius, net.stride
    middle = (radius // stride + 2) * stride
    x = torch.from_numpy(np.random.default_rng(0).random((1, 2 * middle, 2 * middle, 1)) + 100.0)
    x.requires_grad_()
    seen = 0
    for place in range(middle, middle + stride):
        (slope,) = torch.autograd.grad(net.scores(x)[0, place, place].sum(), x, retain_graph=True)
        away = (torch.nonzero(slope[0, :, :, 0]) - place).abs().max()
        seen = max(seen, int(away))
    assert seen == radius


@pytest.mark.spec("PRA-119")
def test_scores_move_with_the_image_by_multiples_of_the_stride_away_from_the_border():
    net = network()
    radius, stride = net.receptive_radius, net.stride
    side = 2 * radius + 6 * stride
    images = np.random.default_rng(1).random((2, side, side, 1))
    moved = np.roll(images, (stride, -2 * stride), axis=(1, 2))
    inside = slice(radius + 2 * stride, side - radius - 2 * stride)
    expected = np.roll(scores(net, images), (stride, -2 * stride), axis=(1, 2))
    np.testing.assert_allclose(scores(net, moved)[:, inside, inside], expected[:, inside, inside], atol=1e-10)
    # by other numbers of pixels the poolings take other pixels together
    odd = scores(net, np.roll(images, 1, axis=1))[:, inside, inside]
    assert np.abs(odd - np.roll(scores(net, images), 1, axis=1)[:, inside, inside]).max() > 1e-3


@pytest.mark.spec("PRA-119")
@pytest.mark.parametrize("size", [(41, 50), (56, 47)])
def test_a_tile_gets_what_it_gets_in_the_whole_image_beyond_the_receptive_radius(size):
    net = network((2, 3, 4))
    radius, stride = net.receptive_radius, net.stride
    image = np.random.default_rng(2).random((1, *size, 1))
    whole = scores(net, image)
    assert whole.shape == (1, *size, 3)
    top, left = stride, 2 * stride
    bottom, right = top + 2 * radius + 5, size[1]
    tile = scores(net, image[:, top:bottom, left:right])
    rows, columns = slice(radius, bottom - top - radius), slice(radius, right - left)
    np.testing.assert_allclose(
        tile[:, rows, columns], whole[:, top:bottom, left:right][:, rows, columns], atol=1e-10
    )  # the right border is that of the image itself
    near = tile[:, rows, :radius] - whole[:, top:bottom, left:right][:, rows, :radius]
    assert np.abs(near).max() > 1e-6


@pytest.mark.spec("PRA-119")
@pytest.mark.parametrize("size", [(1, 1), (5, 7), (8, 8), (13, 4)])
def test_every_size_gives_a_score_for_each_pixel_and_what_is_filled_up_is_the_mean_color(size):
    net = network()
    net.shift[:] = 0.3
    image = np.random.default_rng(3).random((1, *size, 1))
    full = [-(-side // net.stride) * net.stride for side in size]
    filled = np.full((1, *full, 1), 0.3)
    filled[:, : size[0], : size[1]] = image
    found = scores(net, image)
    assert found.shape == (1, *size, 3)
    np.testing.assert_allclose(found, scores(net, filled)[:, : size[0], : size[1]], atol=1e-12)


@pytest.mark.spec("PRA-119")
def test_there_is_no_dense_layer_and_the_weights_do_not_know_the_size():
    small = FCN(channels=(2, 3), epochs=1, batch_size=8, random_state=0)
    sizes = [np.random.default_rng(0).random((8, side, side + 2)) for side in (6, 9)]
    fits = [small.fit(X, (X > 0.5).astype(int)).model_.n_parameters for X in sizes]
    assert fits[0] == fits[1]
    assert not any(isinstance(layer, torch.nn.Linear) for layer in small.model_.modules())


@pytest.mark.spec("PRA-119")
def test_the_gradient_of_the_loss_by_finite_differences_and_unlabeled_pixels_count_for_nothing():
    net = network((2, 3))
    random = np.random.default_rng(4)
    X, y = random.random((3, 5, 6, 1)), random.integers(-1, 3, (3, 5, 6))
    weight = np.array([1.0, 2.0, 0.5])

    class Part:
        data = {"X": X, "y": y}  # noqa: RUF012

    Part.weight = weight
    objective = PerPlace(CrossEntropyLoss())

    def loss():
        (term,) = objective.forward(net, Part, noise=Noise(0, "x"), phase="main", group=current()).terms.values()
        return term.sum / term.weight

    value = loss()
    s = scores(net, X)
    log_p = s - np.log(np.exp(s).sum(-1, keepdims=True))
    own = np.take_along_axis(log_p, np.maximum(y, 0)[..., None], -1)[..., 0]
    known = (y >= 0) * weight[:, None, None]
    np.testing.assert_allclose(value.item(), -(own * known).sum() / known.sum(), rtol=1e-12)
    value.backward()
    for name, parameter in net.named_parameters():
        place = tuple(0 for _ in parameter.shape)
        kept, step = parameter.data[place].item(), 1e-6
        ends = []
        for sign in (1, -1):
            parameter.data[place] = kept + sign * step
            ends.append(loss().item())
        parameter.data[place] = kept
        slope = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(parameter.grad[place].item(), slope, rtol=1e-5, atol=1e-8, err_msg=name)


def planted(n, side, seed):
    """Images of noise; a pixel has class 2 where the mean of its 3 x 3 neighbors is above 0.5, else 5."""
    X = np.random.default_rng(seed).random((n, side, side))
    around = np.pad(X, ((0, 0), (1, 1), (1, 1)))
    mean = sum(around[:, i : i + side, j : j + side] for i in range(3) for j in range(3)) / 9
    return X, np.where(mean > 0.5, 2, 5)


PLANTED = FCN(
    channels=(8,), convolutions=1, batch_norm=False, epochs=20, batch_size=10, learning_rate=0.05, random_state=0
)


@pytest.fixture(scope="module")
def fitted():
    X, y = planted(120, 16, 0)
    return PLANTED.fit(X, y)


@pytest.mark.spec("PRA-119")
def test_a_planted_rule_is_found_and_holds_in_images_of_other_sizes(fitted):
    for size in (16, 29):
        X, y = planted(10, size, 1)
        assert fitted.score(X, y) > 0.78  # a constant label has 0.25
        assert fitted.evaluate(X, y)["pixel_accuracy"].value > 0.88
        assert set(np.unique(fitted.predict(X)).tolist()) == {2, 5}


@pytest.mark.spec("PRA-119")
def test_images_of_several_sizes_are_answered_in_their_order(fitted, tmp_path):
    random = np.random.default_rng(5)
    images = [random.random(size) for size in ((7, 9), (4, 4), (7, 9), (30, 3))]
    found = fitted.predict(images)
    assert [one.shape for one in found] == [one.shape for one in images]
    for one, image in zip(found, images, strict=True):
        np.testing.assert_array_equal(one, fitted.predict(image[None])[0])
    proba = fitted.predict_proba(images)
    assert proba[3].shape == (30, 3, 2)
    np.testing.assert_allclose(proba[3].sum(-1), 1, atol=1e-6)
    np.testing.assert_allclose(np.log(proba[0]), fitted.predict_log_proba(images)[0], atol=1e-5)
    truth = [np.where(one == 2, 5, 2) for one in found]
    assert fitted.score(images, truth) == 0.0
    assert fitted.score(images, found) == 1.0
    again = gnomon.load(fitted.save(tmp_path / "net"))
    np.testing.assert_array_equal(again.predict(images[0][None]), found[0][None])


@pytest.mark.spec("PRA-119")
def test_unlabeled_pixels_teach_nothing():
    X, y = planted(24, 8, 3)
    half = np.random.default_rng(0).random(y.shape) < 0.5
    told = np.where(half, y, -1)
    first, second = (
        FCN(channels=(3,), convolutions=1, batch_norm=False, epochs=2, batch_size=8, random_state=0).fit(X, one)
        for one in (told, np.where(half, y, -1.0))
    )
    assert first.classes_.tolist() == [2, 5]
    np.testing.assert_array_equal(first.predict(X), second.predict(X))
    whole = FCN(channels=(3,), convolutions=1, batch_norm=False, epochs=2, batch_size=8, random_state=0).fit(X, y)
    assert np.abs(whole.predict_proba(X) - first.predict_proba(X)).max() > 1e-4
    assert first.evaluate(X, told)["pixel_accuracy"].value == pytest.approx(
        (first.predict(X) == y)[half].mean(), abs=1e-12
    )


def test_a_label_below_minus_one_leaves_minus_one_without_a_class():
    X, y = planted(4, 6, 0)
    y = np.where(y == y.max(), -2, y)
    y[:, 0] = -1
    net = FCN(channels=(3,), convolutions=1, epochs=1, random_state=0).fit(X, y)
    assert net.classes_.tolist() == sorted(set(y.ravel().tolist()) - {-1})
    assert net.pixel_counts(X, y).sum() == (y != -1).sum()


@pytest.mark.parametrize("wrong", [0.5, np.nan])
def test_labels_that_are_no_whole_numbers_are_refused_in_scoring_too(fitted, wrong):
    X, y = planted(2, 6, 0)
    y = y.astype(float)
    y[1, 2, 3] = wrong
    with pytest.raises(UserError, match=f"whole numbers, got {wrong}.*row 2, column 3"):
        fitted.score(X, y)


@pytest.mark.parametrize(
    ("X", "y", "said"),
    [
        (np.zeros((3, 4, 4)), np.zeros((3, 4)), "must have shape"),
        (np.zeros((3, 4, 4)), None, "requires y"),
        (np.zeros((3, 4, 4)), np.full((3, 4, 4), 0.5), "whole numbers"),
        (np.zeros((3, 4, 4)), np.full((3, 4, 4), -1), "no pixel"),
        (np.zeros((3, 4, 4)), np.ones((3, 4, 4), int), "at least 2 classes"),
        (np.zeros((3, 4, 4)), np.full((3, 4, 4), "a"), "whole numbers"),
        (np.zeros((3, 16)), np.ones((3, 16), int), "flat rows"),
        ([np.zeros((3, 4)), np.zeros((4, 4))], [np.zeros((3, 4)), np.zeros((4, 4))], "one size"),
    ],
)
def test_what_is_no_image_with_a_label_for_each_pixel_is_refused(X, y, said):
    with pytest.raises(UserError, match=said):
        FCN(epochs=1).fit(X, y)


def test_colors_that_the_fit_had_not_are_refused(fitted):
    with pytest.raises(UserError, match="one channel"):
        fitted.predict(np.zeros((2, 5, 5, 3)))
    with pytest.raises(UserError, match="labels of 2 images, got 1"):
        fitted.score(np.zeros((2, 5, 5)), np.zeros((1, 5, 5), int))
    X, y = planted(3, 6, 0)
    y[0, 0, 0] = 9
    assert fitted.evaluate(X, y)["mean_iou"].value < fitted.evaluate(X, np.where(y == 9, -1, y))["mean_iou"].value


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"channels": ()}, "at least one stage"),
        ({"channels": 4}, "tuple"),
        ({"channels": (4, 0)}, "at least 1"),
        ({"batch_size": 1}, "at least 2"),
        ({"channels": (4,) * 5}, "4 x 4 are too small for 5 stages"),
    ],
)
def test_settings_that_make_no_network(options, said):
    with pytest.raises(UserError, match=said):
        FCN(**options).fit(np.zeros((4, 4, 4)), np.arange(64).reshape(4, 4, 4) % 2)


@pytest.mark.slow
@pytest.mark.spec("PRA-119")
def test_the_digits_of_scenes_are_found():
    board = gnomon.compare([FCN(random_state=0)], "digit-scenes")[0]
    assert board.lines[0].name.startswith("fcn")
    assert board.lines[0].score.value > 0.8  # the most frequent label has 0.08
