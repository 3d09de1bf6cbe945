"""Domains name the first bad cell and treat every layout of the same numbers alike."""

from __future__ import annotations

import hashlib

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from gnomon.distributions.arrays import row_weights
from gnomon.distributions.domains import Binary, Domain, Labels, Real, UnitInterval
from gnomon.distributions.whole import Categories, Counts
from gnomon.errors import UserError, UserTypeError, UserValueError

FLOWERS = np.array([[5.1, 3.5, 1.4], [4.9, 3.0, 1.4], [6.3, 2.9, 5.6]] * 20)
TRUTH = np.array([[True, False], [False, True]] * 20)
DOMAINS = [Real(), Real(allow_missing=True), UnitInterval(), Binary(), Counts(), Categories(4)]


@pytest.mark.parametrize("domain", [UnitInterval(), Binary()])
@pytest.mark.parametrize(
    ("X", "parts"),
    [
        (FLOWERS, ["5.1", "row 0, column 0"]),
        (np.array([[0, 1], [1, 255]], np.uint8), ["255", "row 1, column 1"]),
        (np.array([[0.0, 1.0], [-0.5, 7.0]]), ["-0.5", "row 1, column 0"]),
        (pd.DataFrame({"a": [0.0, 1.0], "b": [1.0, 3.0]}), ["3.0", "row 1, column 1 'b'"]),
    ],
)
def test_values_outside_are_named_with_place_and_remedy(domain, X, parts):
    with pytest.raises(UserValueError) as caught:
        domain.check(X)
    message = str(caught.value)
    assert all(part in message for part in [*parts, "scale", "binarize", "Gaussian"])
    assert "\n" not in message


@pytest.mark.parametrize("dtype", [bool, np.int8, np.float32, np.float64, object])
def test_truth_values_of_any_dtype_are_the_same_zeros_and_ones(dtype):
    for domain in (UnitInterval(), Binary(), Real()):
        assert np.array_equal(domain.check(TRUTH.astype(dtype)), TRUTH.astype(float))


def test_rounding_noise_is_moved_to_the_border_and_more_is_refused():
    noisy = np.array([[0.0, 1.0 + 1e-9], [-1e-9, 1.0 - 1e-9]])
    before = noisy.copy()
    assert np.array_equal(Binary().check(noisy), [[0, 1], [0, 1]])
    assert np.array_equal(UnitInterval().check(noisy), np.clip(noisy, 0, 1))
    assert np.array_equal(noisy, before)
    with pytest.raises(UserValueError, match="row 0, column 1"):
        Binary(tolerance=0).check(noisy)
    with pytest.raises(UserValueError, match=r"must be 0 or 1, got 0\.5"):
        Binary().check([[0.0, 0.5]])


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_that_are_not_finite(domain, value, dtype):
    X = np.zeros((5, 3), dtype)
    X[3, 1] = value
    if np.isnan(value) and domain.allow_missing:
        assert np.isnan(domain.check(X)[3, 1])
        return
    with pytest.raises(UserValueError, match="row 3, column 1") as caught:
        domain.check(X)
    assert ("NaN" if np.isnan(value) else "inf") in str(caught.value)


def test_the_place_is_right_beyond_the_first_block():
    X = np.zeros((3, 700_000), np.float32)  # more cells than are scanned at once
    X[2, 5] = 2
    for domain in (UnitInterval(), Binary()):
        with pytest.raises(UserValueError, match="row 2, column 5"):
            domain.check(X)


def test_both_infinities_and_huge_numbers_do_not_confuse_the_scan():
    with pytest.raises(UserValueError, match="row 0, column 0"):
        Real().check([[np.inf, -np.inf]])
    huge = np.full((4, 2), 1.7e308)
    assert Real().check(huge) is huge
    with pytest.raises(UserValueError, match="float64"):
        Real().check(huge, dtype=np.float32)


def layouts(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.random((200, 64)))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    plain = np.array(mapped)  # a copy of a memory map would be one by type
    locked = plain.copy()
    locked.setflags(write=False)
    wide = np.repeat(plain, 2, axis=0)[:, ::-1].copy()
    return plain, {
        "mapped": mapped, "Fortran": np.asfortranarray(plain), "strided": wide[::2, ::-1],
        "big-endian": plain.astype(">f8"), "objects": plain.astype(object), "read-only": locked,
        "pandas": pd.DataFrame(plain), "polars": pl.DataFrame(plain), "lists": plain.tolist(),
    }  # fmt: skip


@pytest.mark.parametrize("domain", [Real(), UnitInterval()])
@pytest.mark.parametrize("dtype", [None, np.float32])
def test_every_layout_gives_the_bits_of_a_fresh_copy(tmp_path, domain, dtype):
    plain, others = layouts(tmp_path)
    mark = hashlib.sha256((tmp_path / "x.npy").read_bytes()).digest()
    expected = domain.check(plain, dtype=dtype)
    for name, X in others.items():
        found = domain.check(X, dtype=dtype)
        assert type(found) is np.ndarray and found.dtype == expected.dtype, name
        assert found.flags.c_contiguous and found.flags.writeable and found.dtype.isnative, name
        assert found.tobytes() == expected.tobytes(), name
        if isinstance(X, np.ndarray):
            assert not np.shares_memory(found, X), name
    assert hashlib.sha256((tmp_path / "x.npy").read_bytes()).digest() == mark


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        *((narrow, "f4") for narrow in ("f4", "f2", "i1", "u1", "i2", "u2", "?")),
        *((wide, "f8") for wide in ("f8", "i4", "u4", "i8", "u8", "O")),
    ],
)
def test_dtype_policy(given, expected):
    X = np.array([[0, 1], [1, 0]]).astype(given)
    assert Real().check(X).dtype == expected
    assert Real().check(X, dtype="float64").dtype == np.float64


def test_plain_input_is_taken_without_a_copy():
    X = np.zeros((3, 2), np.float32)
    assert all(domain.check(X) is X for domain in DOMAINS)


@pytest.mark.parametrize(
    ("X", "error", "parts"),
    [
        (np.array([[1.0, "x"]], object), UserValueError, ["'x'", "row 0, column 1"]),
        (np.array([[1.0, 2.0], [{}, 2.0]], object), UserTypeError,
         ["argument must be", "string", "number", "row 1, column 0"]),
        (np.array([["a", "b"]]), UserValueError, ["'a'", "row 0, column 0"]),
        (np.array([[1 + 2j]]), UserValueError, ["Complex data not supported"]),
        (sparse.csr_array(np.eye(2)), UserTypeError, ["Sparse data was passed for X, but dense data is required"]),
        ([1.0, 2.0], UserValueError, ["Expected 2D array, got 1D array instead", "Reshape your data"]),
        ([[1.0], [1.0, 2.0]], UserValueError, ["ragged"]),
        (pd.DataFrame({"h": [1.0], "s": ["x"]}), UserValueError, ["'x'", "row 0, column 1 's'"]),
    ],
)  # fmt: skip
def test_what_is_no_table_of_numbers(X, error, parts):
    with pytest.raises(error) as caught:
        Real().check(X)
    assert all(part in str(caught.value) for part in parts), str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_cells_of_frames():
    X = pd.DataFrame({"n": pd.array([1, None], dtype="Int64"), "f": [0.5, None]})
    found = Real(allow_missing=True).check(X)
    assert np.array_equal(found, [[1, 0.5], [np.nan, np.nan]], equal_nan=True)
    with pytest.raises(UserValueError, match="row 1, column 0 'n'"):
        Real().check(X)
    assert np.array_equal(
        Real(allow_missing=True).check(pl.DataFrame({"n": [1, None]})), [[1], [np.nan]], equal_nan=True
    )


def test_names_of_the_data_spaces():
    assert [domain.space(64) for domain in (Real(), UnitInterval(), Binary())] == [
        "density on R^64", "density on [0,1]^64", "pmf on {0,1}^64",
    ]  # fmt: skip
    assert len({domain.describe() for domain in DOMAINS}) == len(DOMAINS)


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (["b", "a", "b"], ["a", "b"]),
        (np.array(["b", "a", "b"], object), ["a", "b"]),
        ([3, 1, 3], [1, 3]),
        ([3.0, 1.0, 3.0], [1.0, 3.0]),
        ([True, False, True], [False, True]),
        (np.array([3, 1, 3], object), [1, 3]),
        (pd.Series(["b", "a", "b"]), ["a", "b"]),
        (pl.Series(["b", "a", "b"]), ["a", "b"]),
    ],
)
def test_labels_of_every_kind(y, classes):
    found, codes = Labels().encode(y, n=3)
    assert found.tolist() == classes
    assert codes.tolist() == [1, 0, 1] and codes.dtype == np.int64


@pytest.mark.parametrize(
    ("y", "parts"),
    [
        (None, ["requires y to be passed, but the target y is None"]),
        (["a", None, "b"], ["row 1", "missing"]),
        ([1.0, np.nan, 2.0], ["row 1", "NaN"]),
        (np.array(["a", float("nan")], object), ["row 1"]),
        ([0.5, 1.0, 2.0], ["Unknown label type", "continuous", "row 0"]),
        (np.array(["a", 1], object), ["must be all text or all numbers", "row 1"]),
        ([[1, 2], [3, 4]], ["1d array", "one label per row"]),
        ([1, 2], ["2 labels for 3 rows"]),
        ([[1], [1, 2], [3]], ["y is ragged", "one label per row"]),
        (sparse.csr_matrix([[1], [2], [3]]), ["y must be dense"]),
        (np.ma.array([1, 2, 3], mask=[0, 1, 0]), ["contains NaN", "row 1"]),
        (np.ma.array(["a", "b", "c"], mask=[0, 0, 1]), ["contains NaN or None", "row 2"]),
    ],
)
def test_labels_that_cannot_be_used(y, parts):
    with pytest.raises(UserError) as caught:
        Labels().encode(y, n=3)
    assert all(part in str(caught.value) for part in parts), str(caught.value)
    assert "\n" not in str(caught.value)


def test_labels_among_known_classes():
    classes, _ = Labels().encode(["wet", "dry"])
    known, codes = Labels().locate(["wet", "icy", "dry"], classes)
    assert known.tolist() == [True, False, True]
    assert codes.tolist() == [1, 0, 0]


def test_what_lies_under_a_mask_is_no_data():
    masked = np.ma.masked_array([[1, 9], [3, 4]], mask=[[0, 1], [0, 0]])
    for given in (masked, masked.astype(float), masked.astype(object)):
        assert np.array_equal(Real(allow_missing=True).check(given), [[1, np.nan], [3, 4]], equal_nan=True)
        with pytest.raises(UserValueError, match=r"NaN.*row 0, column 1"):
            Real().check(given)
    assert masked.data[0, 1] == 9
    with pytest.raises(UserValueError, match="'a' in X is text"):
        Real(allow_missing=True).check(np.ma.array([["a", "b"]], mask=[[0, 1]]))
    assert np.array_equal(Real().check(np.ma.masked_array([[1.0, 9.0]])), [[1, 9]])


@pytest.mark.parametrize("value", [10**400, -(10**400)], ids=["plus", "minus"])
def test_a_whole_number_beyond_float64_is_refused_by_place(value):
    with pytest.raises(UserValueError, match=r"not finite.*row 0, column 1"):
        Real().check(np.array([[1, value]], object))


def test_labels_that_pandas_and_complex_numbers_make_hard():
    with pytest.raises(UserValueError, match=r"missing.*row 1"):
        Labels().encode(pd.Series(["x", None], dtype="string"))
    with pytest.raises(UserValueError, match="Unknown label type: complex") as caught:
        Labels().encode([1j, 2j])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ([1.0, -2.0, 1.0], ["-2.0", "row 1"]),
        ([1.0, 1.0, np.nan], ["nan", "row 2"]),
        ([np.inf, 1.0, 1.0], ["inf", "row 0"]),
        ([1.0, 1.0], ["(2,)", "(3,)"]),
        ([[1.0], [1.0], [1.0]], ["(3, 1)", "(3,)"]),
        (["a", "b", "c"], ["must be one number >= 0 per row"]),
        (np.ones(3) * 1j, ["must be one number >= 0 per row"]),
        ([None, "x", 1.0], ["must be one number >= 0 per row"]),
        ([0.0, 0.0, 0.0], ["non-zero"]),
        ([1e300, 1.0, 1.0], ["inf in float32", "scale"]),
        ([1e-44, 0.0, 0.0], ["in float32", "scale"]),
        ([1e20, 0.0, 0.0], ["from 1e-19 to 1e+19", "in float32", "scale"]),
        ([[1], [1, 2], [3]], ["ragged"]),
        (np.ma.array([1.0, 1.0, 1.0], mask=[0, 1, 0]), ["nan", "row 1"]),
    ],
)
def test_weights_that_cannot_be_used(given, parts):
    with pytest.raises(UserValueError) as caught:
        row_weights(given, 3, np.float32)
    assert all(part in str(caught.value) for part in parts), str(caught.value)
    assert "\n" not in str(caught.value)


def test_weights_are_a_copy_of_their_own():
    given = np.array([1.0, 2.0, 0.5])
    given.setflags(write=False)
    for weights in (given, pd.Series(given), given.tolist()):
        found = row_weights(weights, 3, np.float64)
        assert found.flags.writeable
        assert np.array_equal(found, given)
    assert np.array_equal(row_weights(None, 2, np.float32), [1, 1])
    assert np.array_equal(row_weights(2.5, 2, np.float32), [2.5, 2.5])


def test_numbers_whose_squares_overflow_are_refused_where_it_matters():
    bounded = Real(allow_missing=True, largest=1e100)
    with pytest.raises(UserValueError, match=r"1e\+200.*row 1, column 0.*unit"):
        bounded.check([[np.nan, 1.0], [1e200, 2.0]])
    small = np.array([[np.nan, -1e99]])
    assert bounded.check(small) is small
    assert bounded.check(np.array([[3e38]], np.float32)).dtype == np.float32


def test_a_list_that_mixes_text_with_numbers_is_refused():
    for y in (["a", 1, "b"], ("a", 1.0)):
        with pytest.raises(
            UserValueError, match=r"y must be all text or all numbers, got also 1.*row 1.*make all labels text"
        ):
            Labels().encode(y)


@pytest.mark.parametrize(
    ("domain", "cell", "said"),
    [
        (Counts(), 1.5, r"X must hold a count 0, 1, 2 \.\.\., got 1\.5 \(row 1, column 2\)"),
        (Counts(), -1.0, r"got -1\.0 \(row 1, column 2\)"),
        (Counts(), 2.0**54, r"got 1\.8\d*e\+16"),
        (Categories(4), 4.0, r"X must hold a code 0 to 3, got 4\.0 \(row 1, column 2\)"),
        (Categories(4), 0.5, r"got 0\.5"),
    ],
)
def test_what_is_no_whole_number_of_the_domain_is_named(domain, cell, said):
    X = np.ones((3, 4))
    assert np.array_equal(domain.check(X), X)
    X[1, 2] = cell
    with pytest.raises(UserValueError, match=said):
        domain.check(X)


@pytest.mark.parametrize("domain", DOMAINS)
def test_examples_lie_in_the_domain_and_every_column_varies(domain):
    X = domain.example(np.random.default_rng(0), 40)
    assert np.array_equal(domain.check(X), X)
    assert (X.std(0) > 0).all()


def test_a_mass_without_a_baseline_says_who_must_give_it():
    class Letters(Domain):
        def space(self, n_columns):
            return f"pmf on letters^{n_columns}"

    with pytest.raises(UserTypeError, match="Letters must give a baseline"):
        Letters().baseline(np.zeros((2, 2)))
