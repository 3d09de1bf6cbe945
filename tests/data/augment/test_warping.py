"""Turned and bent pictures against NumPy and SciPy."""

import numpy as np
import pytest
from scipy import ndimage

from gnomon.data.augment import Elastic, RandomAffine, RandomFlip
from gnomon.data.augment.scene import Boxes, Scene
from gnomon.data.augment.warping import affine_maps, displaced, warped
from gnomon.errors import UserError
from gnomon.numeric.noise import Noise

RANDOM = np.random.default_rng(0)
SQUARE, OBLONG = RANDOM.random((1, 9, 9, 2)), RANDOM.random((1, 8, 11, 1))


def moved(images, fill=0.0, masks=None, boxes=None, **how):
    marked = None if boxes is None else Boxes.of(boxes, len(images), (1, 1))
    maps = np.repeat(affine_maps(images.shape[1:3], **how), len(images), axis=0)
    return warped(Scene(images, masks, marked), maps, fill)


@pytest.mark.spec("PRA-127")
@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_quarter_turns_are_those_of_numpy(quarters):
    mask, boxes = np.arange(81).reshape(1, 9, 9), [[[1, 2, 4, 9]]]
    found = moved(SQUARE, masks=mask, boxes=boxes, degrees=90.0 * quarters)
    np.testing.assert_allclose(found.images, np.rot90(SQUARE, quarters, axes=(1, 2)), atol=1e-12)
    assert np.array_equal(found.masks, np.rot90(mask, quarters, axes=(1, 2)))
    want = {1: [2, 5, 9, 8], 2: [5, 0, 8, 7], 3: [0, 1, 7, 4]}[quarters]
    np.testing.assert_allclose(found.boxes.corners, [want], atol=1e-12)


@pytest.mark.spec("PRA-127")
@pytest.mark.parametrize("degrees", [30.0, -17.0])
def test_turns_are_those_of_scipy(degrees):
    want = ndimage.rotate(OBLONG[0, :, :, 0], degrees, reshape=False, order=1, mode="grid-constant", cval=0.4)
    np.testing.assert_allclose(moved(OBLONG, 0.4, degrees=degrees).images[0, :, :, 0], want, atol=1e-12)


@pytest.mark.spec("PRA-127")
def test_a_whole_shift_is_roll_with_fill_and_a_map_of_nothing_is_nothing():
    found = moved(OBLONG, 0.7, shift=(2, -3))
    want = np.roll(OBLONG, (2, -3), (1, 2))
    want[:, :2], want[:, :, -3:] = 0.7, 0.7
    np.testing.assert_allclose(found.images, want, atol=1e-12)
    nothing = RandomAffine(0.0, 0.0, 0.0, 0.0)
    mask, boxes = RANDOM.integers(0, 5, (8, 11)), [[1.0, 2.0, 3.0, 4.0, 6.0]]
    same = nothing(OBLONG[0], boxes, mask)
    assert np.array_equal(same.image, OBLONG[0]) and np.array_equal(same.mask, mask) and same.boxes.tolist() == boxes
    twice = RandomFlip(1.0)(RandomFlip(1.0)(OBLONG))
    assert np.array_equal(twice, OBLONG)


@pytest.mark.spec("PRA-127")
def test_enlarging_and_shearing_move_points_as_said():
    maps = affine_maps((9, 9), scale=2.0)[0]
    np.testing.assert_allclose(maps @ [5, 3, 1], [6, 2])
    np.testing.assert_allclose(affine_maps((9, 9), shear=45.0)[0] @ [6, 4, 1], [6, 6])
    want = ndimage.affine_transform(SQUARE[0, :, :, 0], np.eye(2) / 1.5, offset=4 - 4 / 1.5, order=1)
    np.testing.assert_allclose(moved(SQUARE, scale=1.5).images[0, :, :, 0], want, atol=1e-12)


@pytest.mark.spec("PRA-127")
def test_random_maps_lie_in_their_ranges_and_reach_them():
    u = RandomAffine(degrees=20.0, translate=0.25, scale=0.3, shear=15.0)
    maps = u.maps(4000, (40, 60), Noise(0, "a"))
    angle = np.degrees(np.arctan2(-maps[:, 0, 1], maps[:, 1, 1]))
    scale = np.hypot(maps[:, 0, 1], maps[:, 1, 1])
    move = maps @ [19.5, 29.5, 1] - [19.5, 29.5]
    lean = np.degrees(np.arctan((maps[:, 0, 0] * maps[:, 0, 1] + maps[:, 1, 0] * maps[:, 1, 1]) / scale**2))
    for values, top in ((angle, 20), (scale - 1, 0.3), (move[:, 0], 10), (move[:, 1], 15), (lean, 15)):
        assert np.abs(values).max() <= top + 1e-9 and values.max() > 0.99 * top and values.min() < -0.99 * top
        # uniform: the mean is 0 within five standard deviations, a false alarm in 300,000
        assert abs(values.mean()) < 5 * top / np.sqrt(3 * 4000)
    images = RANDOM.random((3, 8, 11, 1))
    found = u(images, rng=4)
    for i, forward in enumerate(u.maps(3, (8, 11), Noise(4, "augment"))):
        back = np.linalg.inv(forward[:, :2])
        want = ndimage.affine_transform(
            images[i, :, :, 0], back, offset=-back @ forward[:, 2], order=1, mode="grid-constant"
        )
        np.testing.assert_allclose(found[i, :, :, 0], want, atol=1e-12)


@pytest.mark.spec("PRA-127")
def test_boxes_enclose_what_was_in_them_and_a_lost_one_is_gone():
    mask = np.zeros((1, 40, 40), int)
    mask[0, 10:20, 12:30] = 1
    found = moved(np.zeros((1, 40, 40, 1)), masks=mask, boxes=[[[12, 10, 30, 20, 3], [0, 0, 2, 2, 4]]], degrees=25.0)
    rows, columns = np.nonzero(found.masks[0])
    x1, y1, x2, y2 = found.boxes.corners[0]
    around = np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
    assert np.abs(around - [x1, y1, x2, y2]).max() < 1 and found.boxes.extra.tolist() == [[3]]


@pytest.mark.spec("PRA-127")
def test_a_training_set_grows_by_changed_copies():
    X, y = RANDOM.random((6, 5, 5)), np.arange(6)
    every, labels = RandomAffine().expand(X, y, k=2)
    assert every.shape == (18, 5, 5) and labels.tolist() == [*range(6)] * 3 and np.array_equal(every[:6], X)
    assert not np.array_equal(every[6:12], every[12:]) and not np.array_equal(every[6:12], X)
    assert np.array_equal(RandomAffine().expand(X, k=2), every)
    for wrong in ((X[0, 0], None, 1), (X, y[:3], 1), (X, 3, 1), (X, y, 0), (X, y, 1.5), (X, y, "a")):
        with pytest.raises(UserError, match="X must be"):
            RandomAffine().expand(*wrong)


@pytest.mark.spec("PRA-129")
def test_a_field_is_smoothed_noise_and_the_picture_is_sampled_at_it():
    elastic = Elastic(alpha=15.0, sigma=2.0, fill=0.2)
    images, masks = RANDOM.random((2, 12, 15, 2)), RANDOM.integers(0, 4, (2, 12, 15))
    uniform = 2 * Noise(7, "augment").uniform((2, 2, 12, 15), dtype=np.float64) - 1
    found = elastic(images, mask=masks, rng=7)
    for i in range(2):
        down, right = (15 * ndimage.gaussian_filter(u, 2.0, mode="constant") for u in uniform[i])
        np.testing.assert_allclose(elastic.field(2, (12, 15), Noise(7, "augment"))[i], [down, right], atol=1e-4)
        places = np.mgrid[:12, :15] + np.stack([down, right])  # rows first
        assert np.abs(down).max() > 0.5
        for k in range(2):
            want = ndimage.map_coordinates(images[i, :, :, k], places, order=1, mode="grid-constant", cval=0.2)
            np.testing.assert_allclose(found.image[i, :, :, k], want, atol=1e-3)
        nearest = ndimage.map_coordinates(masks[i], places, order=0, mode="grid-constant")
        assert (found.mask[i] == nearest).mean() > 0.99  # a place between two pixels goes either way by rounding


@pytest.mark.spec("PRA-129")
def test_no_strength_is_no_change_and_a_constant_field_a_shift():
    assert np.array_equal(Elastic(alpha=0.0)(OBLONG), OBLONG)
    mask, boxes = RANDOM.integers(1, 5, (1, 8, 11)), Boxes.of([[[2, 3, 5, 7, 1], [0, 0, 11, 1, 2]]], 1, (1, 1))
    found = displaced(Scene(OBLONG, mask, boxes), np.full((1, 8, 11), 2.0), np.full((1, 8, 11), -1.0), fill=0.5)
    want = np.roll(OBLONG, (-2, 1), (1, 2))
    want[:, -2:], want[:, :, :1] = 0.5, 0.5
    np.testing.assert_allclose(found.images, want, atol=1e-12)
    labels = np.roll(mask, (-2, 1), (1, 2))
    labels[:, -2:], labels[:, :, :1] = 0, 0
    assert np.array_equal(found.masks, labels)
    assert found.boxes.corners.tolist() == [[3, 1, 6, 5]] and found.boxes.extra.tolist() == [[1]]


@pytest.mark.spec("PRA-129")
def test_displacements_and_slopes_have_the_stated_spread_and_folds_are_refused():
    field = Elastic(alpha=8.0, sigma=2.0).field(20, (64, 64), Noise(0, "a"))[:, :, 10:-10, 10:-10].astype(float)
    assert field.std() == pytest.approx(0.16 * 8 / 2, rel=0.05)
    assert np.diff(field, axis=2).std() == pytest.approx(0.115 * 8 / 4, rel=0.05)
    with pytest.raises(UserError, match=r"alpha must be at most 34.8 with sigma 2, got 40.0; the picture would fold"):
        Elastic(alpha=40.0, sigma=2.0)(OBLONG)
    with pytest.raises(UserError, match="sigma must be"):
        Elastic(sigma=1e12)(OBLONG)
