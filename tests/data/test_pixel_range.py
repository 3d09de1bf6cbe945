"""Pixels brought to one range and back."""

import numpy as np
import pytest

from gnomon.data import check_range, from_symmetric, from_unit, to_symmetric, to_unit
from gnomon.errors import UserError

BYTES = np.arange(256, dtype=np.uint8)
DEEP = np.arange(65536, dtype=np.uint16)


@pytest.mark.spec("PRA-116")
def test_the_ends_of_bytes_are_the_ends_of_the_range_and_all_levels_come_back():
    for there, back, low in ((to_unit, from_unit, 0.0), (to_symmetric, from_symmetric, -1.0)):
        found = there(BYTES)
        assert found.dtype == np.float32 and found[0] == low and found[255] == 1
        wanted = low + (1 - low) * BYTES / 255
        assert np.allclose(found, wanted, rtol=0, atol=1e-6)
        assert back(found).dtype == np.uint8 and np.array_equal(back(found), BYTES)
        noisy = found.astype(np.float64) * (1 - 1e-6)  # a cast without rounding would lose all levels but 0
        assert there is to_symmetric or np.array_equal(back(noisy), BYTES)
        deep = there(DEEP)
        assert deep[0] == low and deep[-1] == 1
        assert back(deep, bits=16).dtype == np.uint16 and np.array_equal(back(deep, bits=16), DEEP)


@pytest.mark.spec("PRA-116")
def test_numbers_in_range_are_not_divided_again_and_levels_say_how_many_there_are():
    floats = np.array([0.0, 0.5, 1.0])
    assert np.array_equal(to_unit(floats), floats) and np.array_equal(to_unit(to_unit(BYTES)), to_unit(BYTES))
    assert to_unit([True, False]).tolist() == [1.0, 0.0]
    assert to_unit([0, 4095], bits=12).tolist() == [0.0, 1.0] and to_unit(np.array([255], np.uint16)).item() < 0.004
    for x, options, words in (
        ([0, 255], {}, "nobody can tell"), ([0, 256], {"bits": 8}, "0 to 255"), ([-1, 3], {"bits": 8}, "-1 to 3"),
        ([0.0, 255.0], {}, r"\[0, 1\]"), ([np.nan], {}, r"\[0, 1\]"), ([0.5], {"bits": 8}, "left out"),
        ([1], {"bits": 33}, "1 to 32"), (["a"], {}, "numbers"),
    ):  # fmt: skip
        with pytest.raises(UserError, match=words):
            to_unit(x, **options)
    with pytest.raises(UserError, match="finite"):
        from_unit([np.nan])
    assert from_unit([-0.2, 1.7]).tolist() == [0, 255]


@pytest.mark.spec("PRA-116")
def test_a_batch_of_several_ranges_is_refused_with_the_first_image_that_differs():
    unit, levels, symmetric = np.array([0.0, 0.25]), np.array([3.0, 255.0]), np.array([-1.0, 0.5])
    assert check_range([unit, unit * 0]) == "unit" and check_range(BYTES.reshape(4, 64)) == "levels"
    assert check_range([np.zeros(2), levels]) == "levels" and check_range([symmetric, np.zeros(2)]) == "symmetric"
    for batch, number in (([unit, levels], 1), ([levels, levels, unit], 2), ([symmetric, levels], 1)):
        with pytest.raises(UserError, match=f"image {number} has"):
            check_range(batch)
    with pytest.raises(UserError, match=r"from -3 to 200\.5"):
        check_range([np.array([-3, 200.5])])
    with pytest.raises(UserError, match="batch must be a sequence of images, got 5"):
        check_range(5)
