"""The domain of images: forms that hold the same pixels, grey levels, and refusals by place."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse

from gnomon.distributions.images import Images, is_bytes, size_of
from gnomon.errors import UserError, UserTypeError, UserValueError

GREY = np.random.default_rng(0).random((5, 3, 4))
COLOR = np.random.default_rng(1).random((5, 3, 4, 2))
FRAME = pd.DataFrame(GREY.reshape(5, 12), columns=[f"p{i}" for i in range(12)])


@pytest.mark.parametrize(
    "X",
    [
        GREY, GREY[..., None], GREY.reshape(5, 12), FRAME, list(GREY), GREY.tolist(), torch.from_numpy(GREY),
        torch.from_numpy(GREY).requires_grad_(), np.asfortranarray(GREY), GREY.astype(">f8"), GREY.astype(object),
        np.ma.masked_array(GREY), np.concatenate([GREY, GREY])[::1][5:],
    ],
)  # fmt: skip
def test_every_form_gives_the_same_pixels(X):
    found = Images((3, 4)).check(X)
    assert found.dtype == np.float64
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, GREY[..., None])


def test_channels_of_a_flat_row_lie_side_by_side():
    np.testing.assert_array_equal(Images((3, 4, 2)).check(COLOR.reshape(5, 24)), COLOR)
    np.testing.assert_array_equal(Images().check(COLOR), COLOR)


def test_the_precision_is_kept_or_asked_for():
    assert Images().check(GREY.astype(np.float32)).dtype == np.float32
    assert Images().check(GREY, dtype="float32").dtype == np.float32
    assert Images().check(GREY.astype(np.float32), dtype=np.float64).dtype == np.float64


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bytes_are_levels_up_to_255(dtype):
    levels = np.arange(256, dtype=np.uint8).reshape(1, 16, 16)
    found = Images().check(levels, dtype=dtype)
    np.testing.assert_allclose(found.ravel(), np.arange(256) / 255, rtol=1e-7)
    assert levels[0, 15, 15] == 255
    frame = pd.DataFrame(levels.reshape(1, 256), columns=[str(i) for i in range(256)])
    np.testing.assert_array_equal(Images((16, 16)).check(frame, dtype=dtype), found)
    assert is_bytes(levels)
    assert is_bytes(frame)
    assert not is_bytes(GREY)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.float32])
def test_zeros_and_ones_of_any_kind(dtype):
    X = np.array([[[1, 0], [0, 1]]], dtype)
    np.testing.assert_array_equal(Images().check(X)[0, :, :, 0], [[1, 0], [0, 1]])


def test_rounding_noise_is_clipped_in_a_copy():
    X = np.array([[[1 + 1e-9, -1e-9], [0.5, 0.0]]])
    before = X.copy()
    np.testing.assert_array_equal(Images().check(X)[0, :, :, 0], [[1, 0], [0.5, 0]])
    np.testing.assert_array_equal(X, before)


def test_the_input_is_never_written_to():
    X = GREY.copy()
    X.setflags(write=False)
    Images().check(X)
    np.testing.assert_array_equal(X, GREY)


def spoiled(value, image=2, row=1, column=3):
    X = GREY.copy()
    X[image, row, column] = value
    return X


PIXEL = "image 2, row 1, column 3"
BAD = {
    "missing": (spoiled(np.nan), {}, ["NaN", PIXEL, "drop the image"]),
    "infinite": (spoiled(np.inf), {}, ["inf", PIXEL]),
    "too light": (spoiled(1.5), {}, ["got 1.5", PIXEL, "divide by", "255"]),
    "negative": (spoiled(-0.25), {}, ["got -0.25", PIXEL]),
    "flat, missing": (spoiled(np.nan).reshape(5, 12), {"shape": (3, 4)}, ["NaN", PIXEL]),
    "a column's name": (FRAME.replace(FRAME.iloc[4, 7], 7.0), {"shape": (3, 4)}, ["got 7", "row 4, column 7 'p7'"]),
    "a channel": (np.where(COLOR[1, 2, 3, 1] == COLOR, 9.0, COLOR), {}, ["image 1, row 2, column 3, channel 1"]),
    "whole numbers": (np.full((1, 2, 2), 255, np.int64), {}, ["got 255", "uint8"]),
    "masked": (np.ma.masked_array(GREY, GREY[2, 1, 3] == GREY), {}, ["NaN", PIXEL]),
    "text": (np.where(GREY[0, 0, 0] == GREY, "x", GREY.astype("U9")).astype(object), {}, ["'x'"]),
    "flat": (GREY.reshape(5, 12), {}, ["flat rows of 12 numbers", "image_shape=(rows, columns)"]),
    "flat square": (np.zeros((2, 784)), {}, ["image_shape=(28, 28)"]),
    "other length": (np.zeros((2, 10)), {"shape": (3, 4)}, ["10 numbers a row", "3 x 4 has 12"]),
    "other size": (GREY, {"shape": (4, 4)}, ["must have images of 4 x 4, got 3 x 4"]),
    "channels first": (np.zeros((2, 3, 32, 32)), {}, ["channels first", "np.moveaxis(X, 1, -1)"]),
    "one number": (np.zeros(3), {}, ["shape (3,)", "(n, rows, columns)"]),
    "too deep": (np.zeros((1, 1, 1, 1, 1)), {}, ["shape (1, 1, 1, 1, 1)"]),
    "no array": (None, {}, ["NoneType"]),
    "a name": ("digits", {}, ["str"]),
    "sizes differ": ([np.zeros((2, 2)), np.zeros((3, 2))], {}, ["ragged", "one size"]),
    "complex": (GREY * 1j, {}, ["Complex"]),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_image_is_refused_in_one_line(case):
    X, options, parts = BAD[case]
    with pytest.raises(UserError) as caught:
        Images(**options).check(X)
    said = str(caught.value)
    assert all(part in said for part in parts), said
    assert "\n" not in said


def test_sparse_tables_are_refused():
    with pytest.raises(UserTypeError, match="toarray"):
        Images((3, 4)).check(sparse.csr_array(GREY.reshape(5, 12)))


def test_words():
    assert size_of((28, 28, 1)) == "28 x 28"
    assert size_of((2, 3, 4)) == "2 x 3 x 4"
    assert "[0, 1]" in Images().describe()
    assert Images().space(64).startswith("density")
    with pytest.raises(UserValueError, match=r"pictures must be in \[0, 1\], got 2"):
        Images().check(np.full((1, 2, 2), 2.0), name="pictures")
