"""Test-time versions against answers to versions made by hand, for classes of images and of their pixels."""

import numpy as np
import pytest

import gnomon
from gnomon import TTA
from gnomon.cli.main import run
from gnomon.data.image_geometry import resize
from gnomon.errors import UserError
from gnomon.system.versions import SETS, Crops, Flip, Plain, Shifts, versions_named
from gnomon.systems.vision.cnn import CNN
from gnomon.systems.vision.fcn import FCN

RANDOM = np.random.default_rng(0)
X = RANDOM.random((40, 8, 8))
Y = np.where(X[:, :4].mean((1, 2)) > X[:, 4:].mean((1, 2)), "up", np.where(X[:, 0, 0] > 0.5, "a", "b"))
WAYS = ("probabilities", "logits", "vote")


@pytest.fixture(scope="module")
def net():
    """Its answer depends on where things are."""
    return CNN(layers="4c3-p2-6", norm="none", epochs=3, batch_size=10, random_state=0).fit(X, Y)


@pytest.fixture(scope="module")
def blind():
    """Windows of one pixel and a mean: mirrored, turned and shuffled images look alike to it."""
    return CNN(layers="4c1-g", norm="none", epochs=2, batch_size=10, random_state=0).fit(X, Y)


@pytest.fixture(scope="module")
def pixels():
    return FCN(channels=(3, 4), convolutions=1, epochs=2, batch_size=10, random_state=0).fit(X, (X > 0.5) + 3)


def agree(found, images, parts, way):
    """What a TTA answers against answers to versions, (versions, ..., classes): its classes, and its probabilities."""
    expected = combined(parts, way)
    np.testing.assert_array_equal(found.predict(images), found.system.classes_[expected.argmax(-1)])
    if way != "vote":
        np.testing.assert_allclose(found.predict_proba(images), expected, atol=1e-6)


def combined(parts, way):
    """Probabilities (versions, ..., classes) made one, as the three ways are defined."""
    parts = np.asarray(parts, np.float64)
    if way == "probabilities":
        return parts.mean(0)
    if way == "vote":
        return np.mean(parts.argmax(-1)[..., None] == np.arange(parts.shape[-1]), axis=0)
    raised = np.exp(np.log(parts).mean(0))
    return raised / raised.sum(-1, keepdims=True)


@pytest.mark.spec("PRA-120")
@pytest.mark.parametrize("way", WAYS)
def test_the_image_alone_is_answered_as_without_versions(net, pixels, way):
    for model, y in ((net, Y), (pixels, (X > 0.5) + 3)):
        same = TTA(model, "plain", way)
        np.testing.assert_array_equal(same.predict(X), model.predict(X))
        assert same.score(X, y) == model.score(X, y)
        if way != "vote":
            np.testing.assert_array_equal(same.predict_proba(X), model.predict_proba(X))


@pytest.mark.spec("PRA-120")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sets", ["flip", "flips", "turns", "flips,turns"])
def test_a_model_that_does_not_see_the_difference_answers_the_same(blind, way, sets):
    found = TTA(blind, sets, way)
    np.testing.assert_array_equal(found.predict(X), blind.predict(X))
    if way != "vote":
        np.testing.assert_allclose(found.predict_proba(X), blind.predict_proba(X), atol=1e-6)


@pytest.mark.spec("PRA-120")
def test_ten_crops_are_ten():
    net = CNN(layers="4c3-p2-6", epochs=1, batch_size=10, random_state=0).fit(X, Y)
    assert TTA(net, "crops,flip").count(X) == 10
    counts = {name: TTA(net, name).count(X) for name in SETS}
    assert counts == {"plain": 1, "flip": 2, "flips": 4, "turns": 4, "shifts": 5, "crops": 5}
    assert TTA(net, "shifts,flips").count(X) == 20


@pytest.mark.spec("PRA-120")
@pytest.mark.parametrize("way", WAYS)
def test_ten_windows_of_larger_images_by_hand(net, way):
    large = RANDOM.random((6, 11, 10))
    corners = [(0, 0), (0, 2), (3, 0), (3, 2), (1, 1)]
    cuts = [large[:, top : top + 8, left : left + 8] for top, left in corners]
    parts = [net.predict_proba(one[:, :, ::step]) for one in cuts for step in (1, -1)]
    found = TTA(net, [Flip(), Crops()], way)
    agree(found, large, parts, way)
    with pytest.raises(UserError, match="at least 8 x 8"):
        found.predict(large[:, :5])


@pytest.mark.spec("PRA-120")
def test_windows_of_images_of_the_size_of_the_fit_are_enlarged_again(net):
    corners = [(0, 0), (0, 2), (2, 0), (2, 2), (1, 1)]
    cuts = [resize(X[:, top : top + 6, left : left + 6, None], (8, 8)) for top, left in corners]
    expected = np.mean([net.predict_proba(one) for one in cuts], axis=0)
    np.testing.assert_allclose(TTA(net, "crops=0.75").predict_proba(X), expected, atol=1e-6)


@pytest.mark.spec("PRA-120")
@pytest.mark.parametrize("way", WAYS)
def test_shifted_mirrored_and_turned_images_by_hand(net, way):
    edge = np.pad(X, ((0, 0), (2, 2), (2, 2)), mode="edge")
    moves = [(0, 0), (2, 0), (-2, 0), (0, 2), (0, -2)]
    parts = [net.predict_proba(edge[:, 2 + a : 10 + a, 2 + b : 10 + b]) for a, b in moves]
    agree(TTA(net, "shifts=2", way), X, parts, way)
    turned = [net.predict_proba(np.rot90(X, k, (1, 2))) for k in range(4)]
    agree(TTA(net, "turns", way), X, turned, way)
    mirrored = [net.predict_proba(X[:, ::a, ::b]) for a in (1, -1) for b in (1, -1)]
    agree(TTA(net, "flips", way), X, mirrored, way)


@pytest.mark.spec("PRA-120")
def test_the_mean_of_logits_is_the_softmax_of_the_mean_scores(net):
    scores = np.mean([net.model_.ask("scores", one[..., None].copy()) for one in (X, X[:, :, ::-1])], axis=0)
    expected = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    np.testing.assert_allclose(TTA(net, "flip", "logits").predict_proba(X), expected, atol=1e-6)
    assert np.abs(TTA(net, "flip").predict_proba(X) - expected).max() > 1e-5


@pytest.mark.spec("PRA-120")
@pytest.mark.parametrize("way", WAYS)
def test_labels_of_pixels_are_brought_back_before_they_are_combined(pixels, way):
    images = RANDOM.random((3, 9, 12))
    ask = pixels.predict_proba
    flips = [ask(images), ask(images[:, :, ::-1])[:, :, ::-1]]
    agree(TTA(pixels, "flip", way), images, flips, way)
    turns = [np.rot90(ask(np.rot90(images, k, (1, 2))), -k, (1, 2)) for k in range(4)]
    agree(TTA(pixels, "turns", way), images, turns, way)
    assert TTA(pixels, "turns", way).predict(images).shape == images.shape
    found = TTA(pixels, "flip", way).predict([images[0], images[1][:4]])  # images of several sizes
    assert [one.shape for one in found] == [(9, 12), (4, 12)]


@pytest.mark.spec("PRA-120")
@pytest.mark.parametrize("way", WAYS)
def test_a_pixel_is_combined_from_the_versions_that_hold_it(pixels, way):
    images = RANDOM.random((2, 8, 12))
    ask, k = pixels.predict_proba, pixels.classes_
    boxes = [(0, 0), (0, 3), (2, 0), (2, 3), (1, 1)]
    crops = np.full((5, 2, 8, 12, 2), np.nan)
    for part, (top, left) in zip(crops, boxes, strict=True):
        part[:, top : top + 6, left : left + 9] = ask(images[:, top : top + 6, left : left + 9])
    shifts = np.full((5, 2, 8, 12, 2), np.nan)
    edge = np.pad(images, ((0, 0), (1, 1), (1, 1)), mode="edge")
    for part, (a, b) in zip(shifts, ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)), strict=True):
        seen = ask(edge[:, 1 + a : 9 + a, 1 + b : 13 + b])  # the image's pixel (i, j) stands at (i - a, j - b)
        for i in range(8):
            for j in range(12):
                if 0 <= i - a < 8 and 0 <= j - b < 12:
                    part[:, i, j] = seen[:, i - a, j - b]
    for sets, parts in (("crops=0.75", crops), ("shifts", shifts)):
        found = TTA(pixels, sets, way)
        classes, proba = found.predict(images), None if way == "vote" else found.predict_proba(images)
        for i in range(8):
            for j in range(12):
                held = parts[~np.isnan(parts[:, 0, i, j, 0]), :, i, j]
                expected = combined(held, way)
                np.testing.assert_array_equal(classes[:, i, j], k[expected.argmax(-1)])
                if way != "vote":
                    np.testing.assert_allclose(proba[:, i, j], expected, atol=1e-6)


@pytest.mark.spec("PRA-120")
def test_versions_make_an_ensemble_that_errs_less_and_the_model_stays_as_it_was(net):
    before = net.predict_proba(X)
    several = TTA(net, "shifts,flip")
    found = several.evaluate(X, Y)
    mean = np.mean(list(_log_likelihoods(net)))
    assert found["log_likelihood"].value > mean  # of the mean probability, by Jensen
    np.testing.assert_array_equal(net.predict_proba(X), before)
    assert "class_log_proba" not in vars(net)
    assert "log_likelihood" not in TTA(net, "flip", "vote").evaluate(X, Y)
    assert several.system.confusion_matrix(X, Y).n == len(X)


def _log_likelihoods(net):
    edge = np.pad(X, ((0, 0), (1, 1), (1, 1)), mode="edge")
    for a, b in ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)):
        for step in (1, -1):
            images = edge[:, 1 + a : 9 + a, 1 + b : 9 + b][:, :, ::step]
            yield net.evaluate(images, Y)["log_likelihood"].value


@pytest.mark.parametrize(
    ("sets", "way", "said"),
    [
        ("flop", "vote", "no versions 'flop'"), ("flip", "mean", "combine must be"), ("flip=2", "vote", "numbers of"),
        ("crops=0.3", "vote", "fraction in"), ("shifts=0", "vote", "at least 1 pixel"), ("shifts=a", "vote", "numbers"),
        ("flip,flip", "vote", "different kinds"), ([], "vote", "list of versions"), ([3], "vote", "list of versions"),
        (None, "vote", "list of versions"),
    ],
)  # fmt: skip
def test_what_are_no_versions_is_refused(net, sets, way, said):
    with pytest.raises(UserError, match=said):
        TTA(net, sets, way)


def test_models_and_images_without_versions_are_refused(net):
    with pytest.raises(UserError, match="does not classify images"):
        TTA(gnomon.make("decision-tree").fit(X[:, 0], Y))
    with pytest.raises(UserError, match="vote has no probabilities"):
        TTA(net, "flip", "vote").predict_proba(X)
    wide = CNN(layers="2c3-4", epochs=1, batch_size=10, random_state=0).fit(X[:, :6], Y)
    with pytest.raises(UserError, match="square images"):
        TTA(wide, "turns").predict(X[:, :6])
    assert versions_named("plain,shifts=3") == [Plain(), Shifts(3)]


def test_versions_are_counted_of_images_alone(net, pixels):
    with pytest.raises(UserError, match="holds no images"):
        TTA(net).count(3)
    assert TTA(pixels, "flip,shifts").count([X[0], X[1][:5]]) == 10


@pytest.mark.spec("PRA-120")
def test_predict_and_evaluate_take_versions(capsys, tmp_path):
    folder = str(tmp_path / "run")
    words = ["--layers", "3c3-p2-4", "--max-updates", "5", "--random-state", "0"]
    assert run(["fit", "cnn", "digits", *words, "--out", folder]) == 0
    model, digits = gnomon.load(folder), gnomon.data.load("digits").view("images")
    capsys.readouterr()
    out = tmp_path / "p.npy"
    asked = ["predict", folder, "digits", "--proba", "--versions", "shifts,flip", "--combine", "logits"]
    assert run([*asked, "--out", str(out)]) == 0
    np.testing.assert_allclose(np.load(out), TTA(model, "shifts,flip", "logits").predict_proba(digits), atol=1e-6)
    capsys.readouterr()
    assert run(["evaluate", folder, "--versions", "crops,flip", "--metric", "accuracy"]) == 0
    assert "accuracy" in capsys.readouterr().out
    assert run(["predict", folder, "digits", "--combine", "vote"]) == 2
    assert "--combine needs --versions" in capsys.readouterr().err
    assert run(["predict", folder, "digits", "--proba", "--versions", "flip", "--combine", "vote"]) == 2
    assert "vote has no probabilities" in capsys.readouterr().err
