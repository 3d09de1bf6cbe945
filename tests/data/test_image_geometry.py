"""Sampling between pixels, sizes, grey and hue, against SciPy, torch and the standard library."""

import colorsys

import numpy as np
import pytest
import torch
from scipy import ndimage

from gnomon.data.image_geometry import batched, grey, resize, sample, to_hsv, to_rgb
from gnomon.errors import UserError

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize(("border", "mode"), [("constant", "grid-constant"), ("nearest", "nearest")])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sampling_is_that_of_map_coordinates(border, mode, dtype):
    images = RANDOM.random((3, 6, 9, 2)).astype(dtype)
    rows, columns = RANDOM.uniform(-4, 10, (3, 5, 7)), RANDOM.uniform(-4, 13, (3, 5, 7))
    found = sample(images, rows, columns, border=border, fill=0.3)
    for i in range(3):
        for k in range(2):
            want = ndimage.map_coordinates(images[i, :, :, k], [rows[i], columns[i]], order=1, mode=mode, cval=0.3)
            np.testing.assert_allclose(found[i, :, :, k], want, atol=1e-12 if dtype == np.float64 else 1e-6)
    assert found.dtype == dtype


def test_sampling_at_centers_gives_the_pixels_and_nearest_makes_no_new_values():
    images = RANDOM.integers(0, 200, (2, 4, 5, 3)).astype(np.uint8)
    rows, columns = (np.broadcast_to(one, (2, 4, 5)) for one in np.mgrid[:4, :5])
    assert np.array_equal(sample(images, rows, columns), images)
    assert np.array_equal(sample(images, rows + 0.4, columns - 0.4, mode="nearest"), images)
    shifted = sample(images, rows + 1.4, columns, mode="nearest", fill=7)
    assert np.array_equal(shifted[:, :3], images[:, 1:]) and (shifted[:, 3] == 7).all()


@pytest.mark.parametrize("size", [(4, 4), (9, 3), (7, 20)])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [True, False])
def test_sizes_are_those_of_torch(size, mode, antialias):
    images = RANDOM.random((2, 7, 10, 3))
    maps = torch.from_numpy(images).permute(0, 3, 1, 2).contiguous()
    want = torch.nn.functional.interpolate(maps, size, mode=mode, align_corners=False, antialias=antialias)
    found = resize(images, size, mode=mode, antialias=antialias)
    np.testing.assert_allclose(found, want.permute(0, 2, 3, 1).numpy(), atol=1e-12)
    np.testing.assert_allclose(resize(np.full((5, 6), 0.7), size, mode=mode, antialias=antialias), 0.7)


def test_nearest_sizes_and_bytes():
    maps = torch.arange(35.0).reshape(1, 1, 5, 7)
    want = torch.nn.functional.interpolate(maps, (8, 3), mode="nearest-exact")
    assert np.array_equal(resize(maps[0, 0].numpy(), (8, 3), mode="nearest"), want[0, 0].numpy())
    levels = np.array([[0, 255], [255, 0]], np.uint8)
    assert resize(levels, (2, 4)).dtype == np.uint8 and resize(levels, (2, 4)).tolist()[0] == [0, 64, 191, 255]


def test_smooth_borders_are_bilinear_sampling_of_the_stated_places():
    image = RANDOM.random((1, 5, 6, 1))
    rows, columns = (np.arange(8) + 0.5) * 5 / 8 - 0.5, (np.arange(9) + 0.5) * 6 / 9 - 0.5
    places = (np.broadcast_to(one, (1, 8, 9)) for one in (rows[:, None], columns))
    np.testing.assert_allclose(resize(image, (8, 9)), sample(image, *places, border="nearest"), atol=1e-12)


def test_hue_saturation_and_value_are_those_of_the_standard_library():
    colors = np.concatenate([RANDOM.random((200, 3)), np.eye(3), 1 - np.eye(3), [[0.5] * 3, [0.0] * 3, [1, 1, 0.3]]])
    np.testing.assert_allclose(to_hsv(colors), [colorsys.rgb_to_hsv(*c) for c in colors], atol=1e-12)
    triples = RANDOM.random((200, 3))
    np.testing.assert_allclose(to_rgb(triples), [colorsys.hsv_to_rgb(*c) for c in triples], atol=1e-12)
    np.testing.assert_allclose(to_rgb(to_hsv(colors)), colors, atol=1e-12)
    np.testing.assert_allclose(grey(colors), colors @ [0.2989, 0.587, 0.114])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: resize(np.zeros((2, 2)), (0, 3)), "size must be"),
        (lambda: resize(np.zeros((2, 2)), (2, 3), mode="cubic"), "mode must be"),
        (lambda: resize(np.zeros((2, 0)), (2, 3)), "images must have at least one pixel"),
        (lambda: batched(np.zeros(3)), "images must be"),
        (lambda: sample(np.zeros((2, 2)), np.zeros((1, 1, 1)), np.zeros((1, 1, 1))), "images must be"),
        (lambda: sample(np.zeros((1, 2, 2, 1)), np.zeros((1, 1, 1)), np.zeros((1, 1, 2))), "rows and columns must"),
        (lambda: sample(np.zeros((1, 2, 2, 1)), *np.zeros((2, 1, 1, 1)), border="wrap"), "mode must be"),
        (lambda: grey(np.zeros((2, 2))), "images must be"),
        (lambda: to_hsv(np.zeros((2, 3), int)), "images must be"),
        (lambda: resize(np.array([["a"]]), (2, 2)), "images must hold real numbers"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(call, said):
    with pytest.raises(UserError, match=said) as error:
        call()
    assert "\n" not in str(error.value)
