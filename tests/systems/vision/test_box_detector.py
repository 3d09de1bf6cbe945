"""Boxes of objects: targets of cells, decoding, the loss, real digits, files and commands."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

import gnomon
from gnomon.cli.main import run
from gnomon.data import load, split
from gnomon.data.scenes import HALF
from gnomon.errors import UserError
from gnomon.evaluation.boxes import box_iou
from gnomon.evaluation.detection import detection_scores
from gnomon.numeric.noise import Noise
from gnomon.objectives.cell_boxes import CellBoxes
from gnomon.systems.vision.box_detector import BoxDetector, BoxDetectorModel, cell_targets, decoded
from gnomon.tasks.detect import CommonestBox
from gnomon.training.group import current

TINY = {"channels": (3, 4), "convolutions": 1, "epochs": 2, "batch_size": 16, "random_state": 0}


@pytest.fixture(scope="module")
def digits():
    """The detector after a fit to scenes of digits, and scenes that it has not seen."""
    train, held = split(load("digit-boxes"), test=0.25, seed=0)
    net = BoxDetector(epochs=14, learning_rate=0.01, random_state=0)
    return net.fit(train.view("images"), train.boxes), train, held


def some_boxes(random, n, m, size, k):
    """Boxes with whole corners in images, m to each, their centers in different cells of two pixels."""
    boxes = np.full((n, m, 5), np.nan)
    for own in boxes:
        cells = random.permutation((size[0] // 2) * (size[1] // 2))[:m]
        center = np.stack([cells % (size[1] // 2), cells // (size[1] // 2)], 1) * 2 + random.uniform(0.1, 1.9, (m, 2))
        half = random.uniform(0.1, 0.9, (m, 2)) * np.minimum(center, np.array(size[::-1]) - center)
        own[:] = np.concatenate([center - half, center + half, random.integers(0, k, (m, 1))], 1)
    return boxes


# --- cells ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(8, 6), (7, 9)])
def test_what_cells_shall_say_is_decoded_to_the_boxes(size):
    boxes = some_boxes(np.random.default_rng(0), 5, 4, size, 3)
    targets = cell_targets(boxes, (5, *size), 2)
    answers = np.concatenate([30.0 * (targets[..., :1] == np.arange(4)), targets[..., 1:]], -1)
    found = decoded(answers, size, 2, 0.5, 1.0)
    for true, own in zip(boxes, found, strict=True):
        own = own[~np.isnan(own[:, 0])]
        assert len(own) == 4
        pairs = box_iou(true[:, :4], own[:, :4]).argmax(1)
        np.testing.assert_allclose(own[pairs, :5], true, atol=1e-12)


def test_the_cell_of_the_center_is_responsible_and_of_two_the_smaller_box_stays():
    large, small = [0.0, 1.0, 6.0, 5.0, 0.0], [2.0, 2.0, 4.0, 4.0, 1.0]
    for boxes in ([large, small], [small, large]):
        targets = cell_targets(np.array([boxes]), (1, 8, 8), 4)
        assert targets[..., 0].tolist() == [[[2.0, 0.0], [0.0, 0.0]]]
        np.testing.assert_allclose(targets[0, 0, 0, 1:], [0.25, 0.25, np.log(0.5), np.log(0.5)])


def test_cells_in_boxes_to_be_ignored_are_not_asked_unless_they_are_responsible():
    ignored, own = [0.0, 0.0, 4.0, 8.0, -1.0], [1.0, 1.0, 2.0, 2.0, 0.0]
    targets = cell_targets(np.array([[ignored, own]]), (1, 8, 8), 4)
    assert targets[..., 0].tolist() == [[[1.0, 0.0], [-1.0, 0.0]]]


def test_boxes_are_cut_at_the_border_and_those_of_other_classes_stay():
    answers = np.zeros((1, 1, 2, 7))
    answers[0, 0, 0, 1] = answers[0, 0, 1, 2] = 9.0
    answers[..., -4] = [0.5, -0.5]  # the same center of both
    answers[..., -2:] = 9.0
    found = decoded(answers, (4, 8), 4, 0.5, 0.5)
    assert sorted(found[0, :, :5].tolist()) == [[0, 0, 8, 4, 0], [0, 0, 8, 4, 1]]
    answers[0, 0, 1, 1:3] = [8.0, 0.0]
    assert np.isnan(decoded(answers, (4, 8), 4, 0.5, 0.5)[0, :, 0]).tolist() == [False, True]


def test_the_loss_by_its_equation_and_its_gradient_by_finite_differences():
    random = np.random.default_rng(1)
    net = BoxDetectorModel(1, 2, channels=(2, 3), convolutions=1, dtype=torch.float64)
    for value in net.parameters():
        value.data = torch.from_numpy(random.normal(size=tuple(value.shape)))
    X, weight = random.random((3, 6, 4, 1)), np.array([1.0, 2.0, 0.5])
    boxes = some_boxes(random, 3, 2, (6, 4), 2)
    boxes[1, 1, 4] = -1
    y = cell_targets(boxes, (3, 6, 4), 2)
    assert set(np.unique(y[..., 0])) >= {-1, 0, 1}

    class Part:
        data = {"X": X, "y": y}  # noqa: RUF012

    Part.weight = weight
    objective = CellBoxes(0.7)

    def loss():
        return objective.forward(net, Part, noise=Noise(0, "x"), phase="fit", group=current())

    out = net.ask("cells", X)
    log_p = out[..., :3] - np.log(np.exp(out[..., :3]).sum(-1, keepdims=True))
    expected = 0.0
    for i, row, column in np.ndindex(3, 3, 2):
        code = int(y[i, row, column, 0])
        if code >= 0:
            expected -= weight[i] * log_p[i, row, column, code]
        if code > 0:
            d = np.abs(out[i, row, column, 3:] - y[i, row, column, 1:])
            expected += 0.7 * weight[i] * np.where(d < 1, d**2 / 2, d - 0.5).sum()
    found = loss()
    np.testing.assert_allclose(found.total().item(), expected / 3.5, rtol=1e-12)
    np.testing.assert_allclose(found.terms["loss"].sum, expected, rtol=1e-12)
    found.total().backward()
    for name, parameter in net.named_parameters():
        place, step = tuple(0 for _ in parameter.shape), 1e-6
        kept, ends = parameter.data[place].item(), []
        for sign in (1, -1):
            parameter.data[place] = kept + sign * step
            ends.append(loss().total().item())
        parameter.data[place] = kept
        slope = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(parameter.grad[place].item(), slope, rtol=1e-5, atol=1e-8, err_msg=name)


# --- digits ---------------------------------------------------------------------------------------------------------


def test_the_built_in_boxes_are_the_smallest_around_the_ink_of_each_digit():
    data, scenes = load("digit-boxes"), load("digit-scenes")
    np.testing.assert_array_equal(data.X, scenes.X)
    assert data.boxes.shape == (599, 3, 5) and len(data.classes) == 10
    for image, mask, boxes in zip(data.X.reshape(-1, 24, 24)[:40], scenes.masks, data.boxes, strict=False):
        rest = image >= HALF
        for x1, y1, x2, y2, label in boxes.astype(int).tolist():
            inside = image[y1:y2, x1:x2] >= HALF
            assert inside[0].any() and inside[-1].any() and inside[:, 0].any() and inside[:, -1].any()
            assert set(mask[y1:y2, x1:x2][inside].tolist()) == {label}
            rest[y1:y2, x1:x2] = False
        assert not rest.any()


def test_digits_of_unseen_scenes_are_found(digits):
    net, train, held = digits
    X, y = held.view("images"), held.boxes
    scores, simple = net.evaluate(X, y), CommonestBox().fit(train.view("images"), train.boxes).evaluate(X, y)
    assert scores["ap50"].value > 0.7 and scores["matched_iou"].value > 0.65
    assert simple["ap50"].value < 0.1
    found = net.detect(X)
    # by counting, one image after the other: what share of the digits has a box of its label on it
    hits = sum(
        bool(((box_iou([one[:4]], own[:, :4])[0] >= 0.5) & (own[:, 4] == one[4])).any())
        for own, true in zip(found, y, strict=True) for one in true
    )  # fmt: skip
    assert hits / y[..., 0].size > 0.7
    assert abs(np.mean([len(own) for own in found]) - 3) < 0.7
    assert net.score(X, y) == scores["ap50"].value


def test_a_list_of_sizes_is_answered_in_its_order_and_the_threshold_holds(digits):
    net, _, held = digits
    X = held.view("images")[:6]
    wide = np.zeros((6, 40, 36))
    wide[:, 8:32, 4:28] = X
    for own, alone in zip(net.detect([X[0], wide[1], X[2]]), (X[:1], wide[1:2], X[2:3]), strict=True):
        np.testing.assert_allclose(own, net.detect(alone)[0], atol=1e-4)
    least = min(own[:, 5].min() for own in net.detect(X, threshold=0.9))
    assert least >= 0.9 and sum(map(len, net.detect(X, threshold=0.1))) > sum(map(len, net.detect(X, threshold=0.9)))
    for own in net.detect(X, threshold=0.0, iou=0.3):
        overlap = box_iou(own[:, :4], own[:, :4]) * (own[:, 4, None] == own[:, 4]) - np.eye(len(own))
        assert overlap.max() <= 0.3 + 1e-9 and (np.diff(own[:, 5]) <= 0).all()
    filled = net.predict(X)
    for own, row in zip(net.detect(X), filled, strict=True):
        np.testing.assert_array_equal(own, row[row[:, 4] >= 0])


def test_scores_are_those_of_what_is_found_and_ignored_boxes_do_not_count(digits):
    net, _, held = digits
    X, y = held.view("images")[:40], held.boxes[:40].copy()
    whole = net.evaluate(X, y)
    y[:, 0, 4] = -1
    less = net.evaluate(X, y)
    assert abs(less["ap50"].value - whole["ap50"].value) < 0.15  # what is found on ignored boxes would halve it
    wrong = y[:, 1:]
    assert net.evaluate(X, wrong)["ap50"].value < less["ap50"].value - 0.05
    own = detection_scores(held.boxes[:40], np.full((40, 0, 6), np.nan), own=True)
    assert own["ap50"].value == 0 and np.isnan(own["matched_iou"].value) and "ap50[3]" in own


# --- what users hand over -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (None, "target y is None"),
        ([[[0, 0, 1, 1, 0]]], "boxes of 2 images, got 1"),
        ([[[0, 0, 1, 1]], []], "shape .m, 5."),
        ([[[2, 0, 1, 1, 0]], []], "x1 < x2 and y1 < y2, got 2, 0, 1, 1, 0"),
        ([[], [[0, 0, 9, 1, 0]]], "lie in their images of 4 x 4"),
        ([[[0, 0, np.inf, 1, 0]], []], "finite"),
        ([[[0, 0, 1, 1, 0.5]], []], "whole numbers"),
        ([[], []], "no box in y has a label"),
        ([[[0, 0, 1, 1, "cat"]], []], "must hold numbers"),
    ],
)
def test_boxes_that_are_none_are_refused(y, words):
    with pytest.raises(UserError, match=words):
        BoxDetector(**TINY).fit(np.zeros((2, 4, 4)), y)


@pytest.fixture
def folder(tmp_path):
    """Eight pictures of a white bar or square on black, one of nothing, and where they are."""
    top, lines = tmp_path / "shapes", []
    (top / "images").mkdir(parents=True)
    for i in range(9):
        image = np.zeros((12, 16), np.uint8)
        if i < 8:
            x1, y1, size = 1 + i, 2, (6, 2) if i % 2 else (4, 4)
            image[y1 : y1 + size[1], x1 : x1 + size[0]] = 255
            lines.append(f"{i}.png,{x1},{y1},{x1 + size[0]},{y1 + size[1]},{'bar' if i % 2 else 'square'}")
        Image.fromarray(image).save(top / "images" / f"{i}.png")
    lines.append("0.png,8,8,12,12,")
    (top / "boxes.csv").write_text("file,x1,y1,x2,y2,label\n" + "\n".join(lines) + "\n")
    return top


def test_a_folder_of_images_and_a_table_of_boxes(folder, tmp_path, capsys):
    data = load(folder)
    assert data.classes == ("bar", "square") and data.boxes.shape == (9, 2, 5)
    assert data.boxes[0].tolist() == [[1, 2, 5, 6, 1], [8, 8, 12, 12, -1]]
    assert np.isnan(data.boxes[8]).all() and data.boxes[3, 0].tolist() == [4, 2, 10, 4, 0]
    options = [
        "--channels",
        "4x4",
        "--epochs",
        "2",
        "--batch-size",
        "4",
        "--out",
        str(tmp_path / "run"),
        "--random-state",
        "0",
    ]
    assert run(["fit", "box-detector", str(folder), *options]) == 0
    capsys.readouterr()
    assert run(["predict", str(tmp_path / "run"), str(folder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["n"] == 9 and set(told["boxes"]) == {"file", "x1", "y1", "x2", "y2", "label", "probability"}
    assert run(["predict", str(tmp_path / "run"), str(folder), "--out", str(tmp_path / "found.csv")]) == 0
    assert (tmp_path / "found.csv").read_text().startswith("file,x1,y1,x2,y2,label,probability")
    assert run(["evaluate", str(tmp_path / "run"), "--json"]) == 0
    assert "ap50" in capsys.readouterr().out
    for command, words in (
        (["predict", str(tmp_path / "run"), str(folder), "--proba"], "finds boxes"),
        (["show", str(tmp_path / "run")], "finds boxes"), (["fit", "box-detector", "digits"], "have no boxes"),
    ):  # fmt: skip
        assert run(command) == 2
        assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("0.png,1,2,17,6,bar", "lie in their images of 12 x 16.*boxes.csv"),
        ("0.png,1,2,five,6,bar", "must be numbers.*boxes.csv"),
        ("nine.png,1,2,5,6,bar", "must be an image of the folder.*boxes.csv"),
    ],
)
def test_what_is_wrong_with_a_table_is_said_with_the_place(folder, line, words):
    (folder / "boxes.csv").write_text(f"file,x1,y1,x2,y2,label\n{line}\n")
    with pytest.raises(UserError, match=words):
        load(folder)


def test_a_saved_detector_answers_the_same(digits, tmp_path):
    net, _, held = digits
    net.save(tmp_path / "net")
    np.testing.assert_array_equal(
        gnomon.load(tmp_path / "net").predict(held.view("images")), net.predict(held.view("images"))
    )
