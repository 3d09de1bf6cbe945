"""Examples: named fields of any shape that are taken, replaced and fingerprinted together."""

from __future__ import annotations

import numpy as np
import pytest

from gnomon.data.dataset import fingerprint
from gnomon.data.examples import Dense, Examples, Ragged
from gnomon.data.text import Vocabulary
from gnomon.errors import UserValueError

SEQUENCES = [[4, 5, 6], [], [7], [8, 9]]


def ragged() -> Ragged:
    return Ragged.of(SEQUENCES)


@pytest.mark.parametrize(
    "chosen", [[2, 0, 0], [], [1], slice(1, 3), slice(0, 4), slice(3, 1), slice(None, None, -2),
               np.array([True, False, False, True])],
)  # fmt: skip
def test_sequences_are_taken_as_a_list_would_be(chosen):
    expected = [SEQUENCES[i] for i in np.arange(4)[chosen]]
    assert [one.tolist() for one in ragged().take(chosen)] == expected
    assert ragged().take(chosen).values.dtype == np.int64


def test_a_slice_is_a_view():
    text = ragged()
    assert np.shares_memory(text.take(slice(2, 4)).values, text.values)
    array = np.zeros((5, 2))
    assert np.shares_memory(Dense(array).take(slice(1, 3)).values, array)


def test_padding():
    assert ragged().padded(-1).tolist() == [[4, 5, 6], [-1, -1, -1], [7, -1, -1], [8, 9, -1]]
    assert Ragged.of([[], []]).padded().shape == (2, 1)
    vectors = Ragged(np.ones((3, 2)), np.array([0, 1, 3]))
    assert vectors.padded().tolist() == [[[1, 1], [0, 0]], [[1, 1], [1, 1]]]


def test_offsets_must_rise_from_0_to_the_end():
    for offsets in ([0, 2, 1, 3], [1, 3], [0, 2], []):
        with pytest.raises(UserValueError, match="offsets"):
            Ragged(np.arange(3), np.array(offsets, np.int64))


def test_fields_go_together():
    both = Examples({"X": np.arange(8.0).reshape(4, 2), "y": None, "text": ragged()}, np.array([1.0, 2, 3, 4]))
    part = both.take(np.array([False, False, True, True]))
    assert part.X.tolist() == [[4, 5], [6, 7]] and part.weight.tolist() == [3, 4] and part.y is None
    assert [one.tolist() for one in part["text"]] == [[7], [8, 9]]
    assert list(part.replace(y=np.array([1, 0])).fields) == ["X", "text", "y"]
    assert len(both) == 4 and both.y is None


def test_weights_are_1_in_the_dtype_of_the_rows():
    assert Examples({"X": np.zeros((2, 1), np.float32)}).weight.dtype == np.float32
    assert Examples({"X": np.zeros((2, 1))}).weight.dtype == np.float64
    assert Examples({"X": ragged()}).weight.tolist() == [1, 1, 1, 1]


def test_lengths_must_agree():
    with pytest.raises(UserValueError, match="must hold one value per row, got 3 for 4 rows"):
        Examples({"X": ragged(), "y": np.zeros(3)})
    with pytest.raises(UserValueError, match="weight"):
        Examples({"X": ragged()}, np.ones(3))
    with pytest.raises(UserValueError, match="at least one field"):
        Examples({"X": None})


def test_the_fingerprint_is_of_everything_and_of_a_table_as_it_always_was():
    X, y, weight = np.eye(3), np.array([0, 1, 1]), np.ones(3)
    assert Examples({"X": X, "y": y}, weight).fingerprint() == fingerprint(X, y, weight)
    assert Examples({"X": X}, weight).fingerprint() == fingerprint(X, None, weight)
    marks = {
        Examples({"X": ragged()}).fingerprint(),
        Examples({"X": Ragged.of([[4, 5], [6], [7], [8, 9]])}).fingerprint(),
        Examples({"X": ragged()}, np.full(4, 2.0)).fingerprint(),
        Examples({"X": ragged(), "source": ragged()}).fingerprint(),
        Examples({"X": ragged(), "target": ragged()}).fingerprint(),
        Examples({"X": ragged()}, shared={"vocabulary": Vocabulary.fit([["a", "b"]])}).fingerprint(),
        Examples({"X": ragged()}, shared={"vocabulary": Vocabulary.fit([["a", "c"]])}).fingerprint(),
    }
    assert len(marks) == 7
