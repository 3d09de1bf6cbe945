"""Boxes: overlaps by counting pixels, suppression and matching one by one, average precision by its definition."""

import numpy as np
import pytest

from gnomon.errors import UserError
from gnomon.evaluation.boxes import box_iou, detection_precision, match_boxes, non_maximum_suppression

SQUARE = [0.0, 0.0, 1.0, 1.0]


def some_boxes(random, *shape, side=12):
    """Boxes with whole corners, each of an area."""
    first = random.integers(0, side - 1, (*shape, 2))
    return np.concatenate([first, first + random.integers(1, side - first + 1)], -1).astype(float)


def test_identical_boxes_overlap_wholly_and_unit_squares_shifted_by_half_by_a_third():
    shifted = [[0.5, 0, 1.5, 1], [0, 0.5, 1, 1.5], [-0.5, 0, 0.5, 1], [0.5, 0.5, 1.5, 1.5]]
    np.testing.assert_allclose(box_iou([SQUARE], [SQUARE, *shifted]), [[1, 1 / 3, 1 / 3, 1 / 3, 1 / 7]], rtol=1e-15)


def test_overlaps_are_those_of_the_pixels():
    """A box reaches from edge to edge: x over columns, y over rows."""
    boxes = some_boxes(np.random.default_rng(0), 40)
    at = np.arange(12)
    x1, y1, x2, y2 = (one[:, None, None] for one in boxes.T)
    inside = (at[:, None] >= y1) & (at[:, None] < y2) & (at >= x1) & (at < x2)
    both = (inside[:, None] & inside[None]).sum((2, 3))
    either = (inside[:, None] | inside[None]).sum((2, 3))
    np.testing.assert_allclose(box_iou(boxes, boxes), both / either, rtol=1e-14)


def test_boxes_without_area_and_none_overlap_nothing():
    flat, none = [0.5, 0.0, 0.5, 1.0], [np.nan] * 4
    assert box_iou([SQUARE, flat, none], [SQUARE, flat, none]).tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert box_iou([], [SQUARE]).shape == (0, 1)
    assert box_iou(np.zeros((3, 2, 4)), np.zeros((3, 5, 4))).shape == (3, 2, 5)


@pytest.mark.parametrize("boxes", [[[1, 0, 0, 1]], [[0, 1, 1, 0]], [[0, 0, 1]], [0, 0, 1, 1]])
def test_what_is_no_box_is_refused(boxes):
    with pytest.raises(UserError):
        box_iou(boxes, [SQUARE])


@pytest.mark.parametrize("iou", [0.0, 0.2, 0.5])
def test_suppression_keeps_what_going_through_the_boxes_keeps(iou):
    random = np.random.default_rng(1)
    boxes = some_boxes(random, 6, 30)
    scores, labels = random.integers(0, 12, (6, 30)) / 12, random.integers(0, 2, (6, 30))
    boxes[0, 5:] = np.nan
    kept = non_maximum_suppression(boxes, scores, labels, iou=iou)
    for b, s, k, found in zip(boxes, scores, labels, kept, strict=True):
        stay = []
        for one in np.argsort(-s, kind="stable"):
            alone = all(k[one] != k[other] or box_iou([b[one]], [b[other]]) <= iou for other in stay)
            if alone and not np.isnan(b[one, 0]):
                stay.append(one)
        assert np.flatnonzero(found).tolist() == sorted(stay)
    assert non_maximum_suppression(np.zeros((0, 4)), []).shape == (0,)


def matched_one_by_one(truth, found, iou):
    """Outcome of each box of one image: its overlap, None where it does not count, 0 where it is wrong."""
    left = [one for one in range(len(truth)) if truth[one, 4] >= 0]
    outcome = [0.0] * len(found)
    for one in np.argsort(-found[:, 5], kind="stable"):
        overlap = box_iou(found[one, None, :4], truth[:, :4])[0]
        fits = [other for other in left if truth[other, 4] == found[one, 4] and overlap[other] >= iou]
        if fits:
            best = max(fits, key=lambda other: overlap[other])
            left.remove(best)
            outcome[one] = overlap[best]
        elif (overlap[truth[:, 4] == -1] >= iou).any():
            outcome[one] = None
    return outcome


@pytest.mark.parametrize("iou", [0.1, 0.4])
def test_matching_is_one_to_one_the_highest_score_first(iou):
    random = np.random.default_rng(2)
    truth = np.concatenate([some_boxes(random, 20, 8), random.integers(-1, 2, (20, 8, 1))], -1)
    labels, scores = random.integers(0, 2, (20, 15, 1)), random.integers(0, 9, (20, 15, 1)) / 9
    found = np.concatenate([some_boxes(random, 20, 15), labels, scores], -1)
    matches = match_boxes(truth, found, iou=iou)
    expected = [matched_one_by_one(*pair, iou) for pair in zip(truth, found, strict=True)]
    for one, own in zip(zip(*matches, strict=True), expected, strict=True):
        assert one[0].tolist() == [value or 0.0 for value in own]
        assert one[1].tolist() == [bool(value) for value in own]
        assert one[2].tolist() == [value is not None for value in own]
    assert not matches.counted.all() and matches.right.any()


def test_filling_up_changes_no_match_and_no_boxes_are_allowed():
    truth = np.array([[[*SQUARE, 0]]])
    found = np.array([[[*SQUARE, 0, 0.5]]])
    filled = match_boxes(np.full((1, 3, 5), np.nan), np.concatenate([found, np.full((1, 2, 6), np.nan)], 1))
    assert filled.right.tolist() == [[False] * 3] and filled.counted.tolist() == [[True, False, False]]
    assert match_boxes(np.zeros((1, 0, 5)), found).counted.tolist() == [[True]]
    assert match_boxes(truth, np.zeros((1, 0, 6))).right.shape == (1, 0)


def test_average_precision_by_its_definition_and_by_hand():
    random = np.random.default_rng(3)
    scores, right = random.permutation(40) / 40, random.random(40) < 0.4
    n_true = int(right.sum()) + 3
    ordered = right[np.argsort(-scores)]
    precision = [ordered[: i + 1].mean() for i in range(40)]
    area = sum(max(precision[i:]) / n_true for i in range(40) if ordered[i])
    np.testing.assert_allclose(detection_precision(scores, right, n_true), area, rtol=1e-13)
    assert detection_precision([0.9, 0.8], [True, True], 2) == 1
    assert detection_precision([0.9, 0.8], [False, True], 1) == 0.5
    assert detection_precision([], [], 3) == 0 and np.isnan(detection_precision([], [], 0))


def test_weights_count_as_often_as_they_say():
    random = np.random.default_rng(4)
    scores, right = random.permutation(12) / 12, random.random(12) < 0.5
    counts = random.integers(0, 3, (5, 12))
    found = detection_precision(scores, right, 9, counts)
    for times, value in zip(counts, found, strict=True):
        merged = detection_precision(np.repeat(scores, times), np.repeat(right, times), 9)
        # copies of a right box stand in a row: the best precision behind the first is that of the last
        np.testing.assert_allclose(value, merged, rtol=1e-13)
