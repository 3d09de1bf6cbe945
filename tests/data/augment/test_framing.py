"""Mirrored, shifted and cropped pictures, with their boxes and masks."""

import json
from pathlib import Path

import numpy as np
import pytest

from gnomon.data.augment import Chain, PadAndCrop, RandomFlip, RandomResizedCrop
from gnomon.data.augment.framing import _stretched
from gnomon.data.augment.scene import Boxes, Scene
from gnomon.data.image_geometry import resize
from gnomon.errors import UserError
from gnomon.numeric.noise import Noise

RANDOM = np.random.default_rng(0)
KNOWN = json.loads((Path(__file__).parents[2] / "parity" / "torchvision_transforms.json").read_text())["windows"]


def raster(boxes, rows, columns):
    """Masks of boxes with whole corners, one number for each."""
    mask = np.zeros((rows, columns), np.int64)
    for number, (x1, y1, x2, y2) in enumerate(np.asarray(boxes)[:, :4].astype(int), 1):
        mask[y1:y2, x1:x2] = number
    return mask


@pytest.mark.spec("DLN-137")
def test_a_mirrored_box_is_that_of_the_row_and_of_the_mirrored_mask():
    image, boxes = RANDOM.random((7, 10, 3)), np.array([[1, 2, 4, 5, 8.5], [6, 0, 10, 1, 2.0]])
    flip = RandomFlip(p=1.0)
    found = flip(image, boxes, raster(boxes, 7, 10))
    assert found.boxes.tolist() == [[6, 2, 9, 5, 8.5], [0, 0, 4, 1, 2.0]]
    assert np.array_equal(found.image, image[:, ::-1]) and np.array_equal(found.mask, raster(found.boxes, 7, 10))
    down = RandomFlip(1.0, "up-down")(image, boxes, raster(boxes, 7, 10))
    assert down.boxes.tolist() == [[1, 2, 4, 5, 8.5], [6, 6, 10, 7, 2.0]]
    assert np.array_equal(down.image, image[::-1]) and np.array_equal(down.mask, raster(down.boxes, 7, 10))
    relative = flip(image, boxes[:1] / [10, 7, 10, 7, 1], relative=True).boxes
    np.testing.assert_allclose(relative, [[0.6, 2 / 7, 0.9, 5 / 7, 8.5]], rtol=1e-12)
    twice = flip(*found[:2], mask=found.mask)
    assert np.array_equal(twice.image, image) and np.array_equal(twice.boxes, boxes)
    assert np.array_equal(twice.mask, raster(boxes, 7, 10))
    never = RandomFlip(p=0.0)(image, boxes)
    assert np.array_equal(never.image, image) and np.array_equal(never.boxes, boxes)


@pytest.mark.spec("DLN-137", "PRA-127")
@pytest.mark.parametrize("p", [0.5, 0.2])
def test_so_many_pictures_are_mirrored(p):
    """Binomial, n = 4000: five standard deviations, a false alarm in 2 million."""
    images = np.tile(np.array([0.0, 1.0], np.float32).reshape(1, 1, 2, 1), (4000, 1, 1, 1))
    boxes = [[[0, 0, 1, 1]]] * 4000
    changed, moved, _ = RandomFlip(p=p)(images, boxes, rng=3)
    flipped = changed[:, 0, 0, 0] == 1
    assert abs(flipped.mean() - p) < 5 * np.sqrt(p * (1 - p) / 4000)
    assert [one[0, 0] == 1 for one in moved] == flipped.tolist()


def test_a_seed_is_one_picture_and_another_row_another():
    images = RANDOM.random((5, 6, 6, 1))
    crop = PadAndCrop(padding=2)
    assert np.array_equal(crop(images, rng=1), crop(images, rng=1))
    assert not np.array_equal(crop(images, rng=1), crop(images, rng=2))
    part = crop(images[3:], rng=Noise(1, "augment").rows(np.array([3, 4])))
    assert np.array_equal(part, crop(images, rng=1)[3:])


@pytest.mark.spec("PRA-127")
def test_a_shift_is_roll_with_fill_and_carries_boxes_and_masks():
    images = RANDOM.random((40, 6, 8, 2))
    masks, boxes = RANDOM.integers(1, 5, (40, 6, 8)), [[[2, 1, 5, 4, i], [0, 0, 1, 1, -1]] for i in range(40)]
    crop = PadAndCrop(padding=3, fill=0.25)
    found = crop(images, boxes, masks, rng=5)
    shifts = Noise(5, "augment").integers(7, (40, 2)) - 3
    assert len(np.unique(shifts)) == 7
    kept = 0
    for i, (down, right) in enumerate(shifts):
        rows, columns = np.arange(6) + down, np.arange(8) + right
        inside = ((rows >= 0) & (rows < 6))[:, None] & ((columns >= 0) & (columns < 8))
        rolled = np.roll(images[i], (-down, -right), (0, 1))
        assert np.array_equal(found.image[i], np.where(inside[..., None], rolled, 0.25))
        assert np.array_equal(found.mask[i], np.where(inside, np.roll(masks[i], (-down, -right), (0, 1)), 0))
        own = found.boxes[i][found.boxes[i][:, 4] == i][0]
        assert own[:4].tolist() == np.clip([2 - right, 1 - down, 5 - right, 4 - down], 0, [8, 6, 8, 6]).tolist()
        corner = found.boxes[i][found.boxes[i][:, 4] == -1]
        assert len(corner) == (down <= 0 and right <= 0)
        kept += len(corner)
    assert 0 < kept < 40
    assert np.array_equal(PadAndCrop(padding=0)(images), images)


@pytest.mark.spec("DLN-138")
def test_a_remnant_below_a_tenth_of_a_box_is_dropped_and_others_are_cut():
    boxes = Boxes.of([[[0, 0, 10, 10]], [[-9.1, 0, 0.9, 10], [-8.9, 0, 1.1, 10], [20, 0, 30, 5]]], 2, (1, 1))
    kept = boxes.clipped((10, 20))
    assert kept.owner.tolist() == [0, 1]
    assert kept.corners.tolist() == [[0, 0, 10, 10], [0, 0, 1.1, 10]]


@pytest.mark.spec("DLN-138")
def test_windows_lie_within_their_bounds():
    crop = RandomResizedCrop((0.2, 0.6), (0.7, 1.6))
    top, left, rows, columns = crop.windows(5000, (100, 140), Noise(0, "a")).T
    assert top.min() >= 0 and left.min() >= 0 and (top + rows).max() <= 100 and (left + columns).max() <= 140
    area, ratio = rows * columns / 14000, columns / rows
    assert area.min() > 0.2 - 0.02 and area.max() < 0.6 + 0.02  # sides are rounded
    assert ratio.min() > 0.7 - 0.03 and ratio.max() < 1.6 + 0.06
    assert area.min() < 0.22 and area.max() > 0.58 and ratio.min() < 0.73 and ratio.max() > 1.55


@pytest.mark.spec("DLN-138")
def test_windows_have_the_law_of_torchvision():
    """54 quantiles of two samples of 40,000 within five standard deviations: a false alarm in 20,000."""
    n, crop = KNOWN["draws"], RandomResizedCrop(tuple(KNOWN["scale"]), tuple(KNOWN["ratio"]))
    windows = crop.windows(n, tuple(KNOWN["size"]), Noise(1, "law"))
    drawn = {"area": windows[:, 2] * windows[:, 3], "ratio": windows[:, 3] / windows[:, 2]}
    drawn |= dict(zip(("top", "left", "rows", "columns"), windows.T, strict=True))
    slack = 5 * np.sqrt(2 * 0.25 / n)
    for name, values in drawn.items():
        for q, value in zip(np.linspace(0.1, 0.9, 9), KNOWN["quantiles"][name], strict=True):
            assert (values < value).mean() <= q + slack and (values <= value).mean() >= q - slack, (name, q)
        gap = abs(values.mean() - KNOWN["means"][name])
        assert gap < 5 * KNOWN["deviations"][name] * np.sqrt(2 / n), name


@pytest.mark.spec("DLN-138")
def test_where_no_window_fits_the_largest_central_one_is_taken():
    wide = RandomResizedCrop((1.0, 1.0), (1.0, 1.0))
    assert wide.windows(2, (10, 20), Noise(0, "a")).tolist() == [[0, 5, 10, 10]] * 2
    assert wide.windows(1, (21, 10), Noise(0, "a")).tolist() == [[5, 0, 10, 10]]
    assert RandomResizedCrop((1.0, 1.0), (0.5, 2.0))._central(10, 20) == (0, 0, 10, 20)


@pytest.mark.spec("DLN-138")
def test_a_crop_of_everything_is_a_plain_resize_and_a_window_that_of_its_cut():
    square = RANDOM.random((2, 12, 12, 3))
    whole = RandomResizedCrop((1.0, 1.0), (1.0, 1.0))
    np.testing.assert_allclose(whole(square), square, atol=1e-12)
    for size in ((20, 17), (5, 7), (12, 9)):
        np.testing.assert_allclose(whole(square, size=size), resize(square, size), atol=1e-12)
    windows = np.array([[1, 2, 5, 9], [4, 0, 8, 3]])
    for size in ((12, 12), (4, 4), (3, 25)):
        found = _stretched(Scene(square, np.arange(288).reshape(2, 12, 12)), windows, size)
        for i, (top, left, rows, columns) in enumerate(windows):
            cut = (slice(top, top + rows), slice(left, left + columns))
            np.testing.assert_allclose(found.images[i], resize(square[i][cut], size), atol=1e-12)
            mask = np.arange(288).reshape(2, 12, 12)[i][cut]
            assert np.array_equal(found.masks[i], resize(mask, size, mode="nearest"))


@pytest.mark.spec("DLN-138")
def test_boxes_are_stretched_with_the_picture():
    boxes = Boxes.of([[[2, 1, 11, 6, 7], [0, 0, 3, 12, 8], [0, 8, 12, 12, 9]]], 1, (1, 1))
    scene = Scene(np.zeros((1, 12, 12, 1)), boxes=boxes)
    found = _stretched(scene, np.array([[1, 2, 5, 9]]), (10, 18)).boxes
    np.testing.assert_allclose(np.hstack([found.corners, found.extra]), [[0, 0, 18, 10, 7], [0, 0, 2, 10, 8]])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: RandomFlip(p=1.5)(np.zeros((2, 2))), "p must be"),
        (lambda: RandomFlip(direction="left")(np.zeros((2, 2))), "direction must be"),
        (lambda: PadAndCrop(padding=2)(np.zeros((2, 5))), "padding must be below the 2 pixels"),
        (lambda: RandomResizedCrop((0.0, 1.0))(np.zeros((2, 2))), "scale must be"),
        (lambda: RandomResizedCrop(ratio=(2.0, 1.0))(np.zeros((2, 2))), "ratio must be"),
        (lambda: RandomResizedCrop()(np.zeros((2, 2)), size=(0, 2)), "size must be"),
        (lambda: RandomResizedCrop()(np.zeros((2, 2)), size=3), "size must be"),
        (lambda: RandomResizedCrop(scale=1)(np.zeros((2, 2))), "scale must be"),
        (lambda: RandomResizedCrop(scale=(0.5,))(np.zeros((2, 2))), "scale must be"),
        (lambda: RandomResizedCrop(ratio=(0.1, "a"))(np.zeros((2, 2))), "ratio must be"),
        (lambda: RandomResizedCrop(ratio=(0.5, np.inf))(np.zeros((2, 2))), "ratio must be"),
        (lambda: Chain("flip(p={[]: 1})")(np.zeros((2, 2))), "p must be"),
        (lambda: RandomFlip() + 3, "augment must be joined with an augmentation, got 3"),
        (lambda: Chain("flip(p=1, p=0)")(np.zeros((2, 2))), "flip has p twice"),
        (lambda: RandomFlip()(np.zeros((2, 2)), boxes="a"), "boxes must be numbers"),
        (lambda: RandomFlip()(np.zeros((1, 2, 2, 1)), boxes=3), "boxes must be an array"),
        (lambda: RandomFlip()([np.zeros((2, 2)), np.zeros((3, 3))]), "images is ragged"),
        (lambda: RandomFlip()(np.zeros((2, 2)), boxes=[[1, 0, 0, 1]]), "boxes must be finite"),
        (lambda: RandomFlip()(np.zeros((2, 2)), boxes=[[1, 0, 0]]), "boxes must be an array"),
        (lambda: RandomFlip()(np.zeros((2, 2)), mask=np.zeros((2, 3))), "mask must have"),
        (lambda: RandomFlip()(np.full((2, 2), 7.0)), r"image must be in \[0, 1\], got 7"),
        (lambda: RandomFlip()(np.zeros((2, 2), int)), "image must hold"),
        (lambda: RandomFlip()(np.zeros((0, 2))), "image must have"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(call, said):
    with pytest.raises(UserError, match=said) as error:
        call()
    assert "\n" not in str(error.value)
