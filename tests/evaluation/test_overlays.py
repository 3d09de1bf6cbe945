"""Boxes on images: which pixels change, and none besides."""

import numpy as np
import pytest

from gnomon.errors import UserValueError
from gnomon.evaluation import overlay_boxes


def border(shape, top, left, bottom, right, width=1):
    """Pixel by pixel: within the box, and no further than the width from one of its sides."""
    return np.array([
        [top <= i < bottom and left <= j < right
         and min(i - top, bottom - 1 - i, j - left, right - 1 - j) < width for j in range(shape[1])]
        for i in range(shape[0])
    ])  # fmt: skip


@pytest.mark.spec("PRA-080")
@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("channels", [(), (3,)])
def test_only_pixels_of_borders_change(width, channels):
    random = np.random.default_rng(0)
    image = random.uniform(size=(12, 15, *channels))
    for _ in range(200):  # boxes within the image, over its edges, and outside
        top, left = random.integers(-6, 16, 2)
        bottom, right = top + random.integers(1, 14), left + random.integers(1, 14)
        kept = image.copy()
        drawn = overlay_boxes(image, [[top, left, bottom, right]], color=7.0, width=width)
        inside = border(image.shape, top, left, bottom, right, width)
        assert (drawn[inside] == 7).all() and np.array_equal(drawn[~inside], image[~inside])
        assert np.array_equal(image, kept) and drawn.dtype == image.dtype and drawn.shape == image.shape


@pytest.mark.spec("PRA-080")
def test_several_boxes_and_colors():
    image = np.zeros((8, 8, 3), np.uint8)
    drawn = overlay_boxes(image, [[0, 0, 4, 4], [2, 2, 8, 8]], color=(255, 0, 9))
    inside = border(image.shape, 0, 0, 4, 4) | border(image.shape, 2, 2, 8, 8)
    assert (drawn[inside] == (255, 0, 9)).all() and not drawn[~inside].any() and drawn.dtype == np.uint8
    assert np.array_equal(overlay_boxes(image, []), image)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"image": np.zeros(4)}, "image must be"),
        ({"boxes": [[0, 0, 2]]}, "boxes must be rows of four whole numbers"),
        ({"boxes": [[0, 0, 2.5, 2]]}, "four whole numbers"),
        ({"boxes": [[0, 0, np.nan, 2]]}, "four whole numbers"),
        ({"boxes": [[0, 0, 1, 1], [2, 0, 2, 2]]}, r"must end behind its beginning, got \[2, 0, 2, 2\] \(box 1\)"),
        ({"color": (1.0, 0.0)}, "color must be one number, or one for each channel"),
        ({"width": 0}, "width must be at least 1"),
    ],
)
def test_mistakes(options, message):
    given = {"image": np.zeros((4, 4)), "boxes": [[0, 0, 2, 2]], **options}
    with pytest.raises(UserValueError, match=message):
        overlay_boxes(**given)
