"""Labels of pixels: pixel accuracy and overlap against plain NumPy, and their errors against resampled images."""

import numpy as np
import pytest

from gnomon.errors import UserError
from gnomon.evaluation.segmentation import pixel_counts, segmentation_scores


@pytest.mark.spec("PRA-119")
def test_scores_by_counting_pixels_one_set_at_a_time():
    random = np.random.default_rng(0)
    y, found = random.integers(-1, 4, (6, 5, 7)), random.integers(0, 4, (6, 5, 7))
    scores = segmentation_scores(pixel_counts(y, found, 4), "abcd", own=True)
    known = y >= 0
    assert scores["pixel_accuracy"].value == pytest.approx((y == found)[known].mean(), abs=1e-12)
    ious = []
    for c, name in enumerate("abcd"):
        both = ((y == c) & (found == c) & known).sum()
        either = (((y == c) | (found == c)) & known).sum()
        ious.append(both / either)
        assert scores[f"iou[{name}]"].value == pytest.approx(both / either, abs=1e-12)
    assert scores["mean_iou"].value == pytest.approx(np.mean(ious), abs=1e-12)


def test_identical_regions_have_one_and_squares_shifted_by_half_a_third():
    square = np.zeros((1, 8, 12), int)
    square[:, 2:6, 2:6] = 1
    same = segmentation_scores(pixel_counts(square, square, 2), [0, 1], own=True)
    assert same["mean_iou"].value == same["iou[1]"].value == same["pixel_accuracy"].value == 1.0
    moved = np.roll(square, 2, axis=2)
    assert segmentation_scores(pixel_counts(square, moved, 2), [0, 1], own=True)["iou[1]"].value == pytest.approx(1 / 3)


def test_a_class_that_is_nowhere_is_no_part_of_the_mean_and_said():
    y = np.array([[[0, 1]]])
    found = segmentation_scores(pixel_counts(y, y, 3), [0, 1, 2], own=True)
    assert found["mean_iou"].value == 1.0
    assert "1 of 3 classes" in found["mean_iou"].note
    assert "iou[2]" not in found


def test_errors_are_those_of_drawing_other_images():
    """The spread of the scores over 600 sets of images drawn again; a fixed seed, within 12 % (four deviations)."""
    random = np.random.default_rng(1)
    good = random.random(200) < 0.7  # images differ, and the pixels of an image do not
    y = random.integers(0, 3, (200, 6, 6))
    found = np.where(good[:, None, None], y, random.integers(0, 3, (200, 6, 6)))
    counts = pixel_counts(y, found, 3)
    scores = segmentation_scores(counts, [0, 1, 2], own=True)
    again = [segmentation_scores(counts[random.integers(0, 200, 200)], [0, 1, 2], own=True) for _ in range(600)]
    for name, score in scores.items():
        assert np.std([one[name].value for one in again]) == pytest.approx(score.stderr, rel=0.12), name


def test_what_is_no_pair_of_maps_is_refused():
    with pytest.raises(UserError, match="a label for each pixel"):
        pixel_counts([np.zeros((2, 2), int)], [np.zeros((2, 3), int)], 2)
    with pytest.raises(UserError, match="no pixel has a label"):
        segmentation_scores(pixel_counts(np.full((1, 2, 2), -1), np.zeros((1, 2, 2), int), 2), [0, 1])
