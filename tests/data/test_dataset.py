"""Data sets, their views, fingerprints and splits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gnomon
from gnomon.data import Dataset, fingerprint, load, names, split
from gnomon.data.holdout import split_rows
from gnomon.data.names import PACKAGED
from gnomon.errors import UserError, UserTypeError, UserValueError
from gnomon.tasks.compare import compare

SHAPES = {"breast-cancer": (569, 30), "diabetes": (442, 10), "digits": (1797, 64), "iris": (150, 4), "wine": (178, 13)}


@pytest.mark.parametrize("name", list(SHAPES))
def test_built_in_tables(name):
    data = load(name)
    assert data.X.shape == SHAPES[name] and data.y.shape == (SHAPES[name][0],)
    assert len(data.columns) == data.X.shape[1] and np.isfinite(data.X).all()
    assert data.classes is None or sorted(set(data.y.tolist())) == list(range(len(data.classes)))
    assert data.fingerprint == load(name).fingerprint


def test_digits_are_those_of_scikit_learn():
    from sklearn.datasets import load_digits

    found, theirs = load("digits"), load_digits()
    np.testing.assert_array_equal(found.X, theirs.data)
    np.testing.assert_array_equal(found.y, theirs.target)
    assert found.columns == tuple(theirs.feature_names) and found.classes == tuple(map(str, theirs.target_names))


def test_every_name_loads_and_every_set_has_a_line():
    others = {"linnerud", "photo-patches", "python-reference", "python-docstrings", "python-statements", "dates",
              "reversed", "bouncing-ball", "digit-scenes", "digit-boxes", "colored-shapes", "digit-lines"}  # fmt: skip
    assert set(SHAPES) | others == set(names()) - set(PACKAGED)
    assert set(PACKAGED) < set(names())
    assert all(len(line) > 20 and "\n" not in line for line in names().values())


def test_patches_are_those_of_the_photographs():
    """Grey as Pillow has it, to a level; every second patch in order, as on a chessboard."""
    from PIL import Image
    from sklearn.datasets import load_sample_images

    data = load("photo-patches")
    assert data.X.shape == (4240, 64) and data.images == (8, 8) and data.levels == 256
    first, second = (np.asarray(Image.fromarray(one).convert("L"), float) for one in load_sample_images().images)
    for row, patch in (
        (0, first[:8, :8]), (1, first[:8, 16:24]), (40, first[8:16, 8:16]), (2120, second[:8, :8]),
        (4239, second[416:424, 624:632]),
    ):  # fmt: skip
        assert np.abs(data.X[row].reshape(8, 8) - patch).max() <= 1
    assert np.array_equal(np.floor(data.view("density")), data.X)


def test_the_built_in_text_is_english_sentences():
    text = load("python-reference").view("text")
    words = [word for sentence in text for word in sentence.split()]
    assert len(text) > 1500 and len(words) > 30_000
    assert text[0] == load("python-reference").text[0]
    # prose, not code: the commonest words of English are the commonest here
    counts = {word: words.count(word) for word in ("the", "of", "a", "is", "to")}
    assert all(count > 0.01 * len(words) for count in counts.values())
    assert len(set(text)) > 0.95 * len(text)


def test_importing_the_room_loads_no_array_library():
    code = "import sys, gnomon.data; gnomon.data.names(); print('numpy' in sys.modules, 'torch' in sys.modules)"
    where = os.pathsep.join([str(Path(gnomon.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": where}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["False", "False"]


def test_views_of_digits():
    data = load("digits")
    binary, grey = data.view("binary"), data.view("density")
    assert np.array_equal(binary, data.X >= 8)
    assert np.array_equal(np.floor(grey), data.X) and (grey > data.X).all()
    assert np.array_equal(grey, load("digits").view("density"))
    # u is uniform: the mean of 115,008 numbers lies within 5 standard errors (false alarm 6e-7)
    u = grey.astype(float) - data.X
    assert abs(u.mean() - 0.5) < 5 * np.sqrt(1 / 12 / u.size)
    assert data.view("table") is data.X and data.view("labels") is data.y


def test_a_row_is_dequantized_alike_in_every_split():
    data = load("digits")
    train, test = split(data, seed=1)
    whole = data.view("density")
    assert np.array_equal(train.view("density"), whole[train.rows])
    inner, _ = split(test, seed=2)
    assert np.array_equal(inner.view("density"), whole[inner.rows])


@pytest.mark.parametrize(
    ("name", "kind", "part"),
    [
        ("wine", "binary", "row 0, column 0"), ("wine", "text", "not a text"),
        ("python-reference", "table", "not a table"), ("python-reference", "labels", "no labels"),
        ("wine", "densty", "density"),
    ],
)  # fmt: skip
def test_views_that_the_data_has_not(name, kind, part):
    with pytest.raises(UserValueError, match=part) as caught:
        load(name).view(kind)
    assert "\n" not in str(caught.value)


def test_a_table_of_zeros_and_ones_is_binary_and_a_density():
    X = np.array([[0.0, 1.0], [1.0, 1.0]])
    data = Dataset("mine", X)
    assert np.array_equal(data.view("binary"), X) and data.view("density") is X


def test_fingerprint_sees_values_shapes_and_kinds_but_not_layout():
    X = np.arange(12.0).reshape(3, 4)
    same = [X.copy(), np.asfortranarray(X), X.astype(">f8"), np.repeat(X, 2, axis=0)[::2]]
    assert len({fingerprint(a) for a in same}) == 1
    changed = X.copy()
    changed[2, 3] += 1e-9
    others = [
        X,
        changed,
        X.astype("f4"),
        X.reshape(4, 3),
        X.T.copy(),
        X.ravel(),
        None,
        "x",
        ["x"],
        ["x", ""],
        [],
        ["", "x"],
    ]
    assert len({fingerprint(a) for a in others}) == len(others)
    assert fingerprint(X, None) != fingerprint(None, X)
    assert fingerprint(np.array(["a", "b"], object)) != fingerprint(np.array(["a", "c"], object))


def test_split_is_a_partition_by_seed():
    train, test = split(load("wine"), test=0.25, seed=3)
    assert len(test) == round(178 * 0.25)
    rows = np.concatenate([train.rows, test.rows])
    assert sorted(rows.tolist()) == list(range(178))
    assert np.array_equal(test.X, load("wine").X[test.rows]) and np.array_equal(test.y, load("wine").y[test.rows])
    assert np.array_equal(split(load("wine"), test=0.25, seed=3)[1].rows, test.rows)
    assert not np.array_equal(split(load("wine"), test=0.25, seed=4)[1].rows, test.rows)
    assert test.source == {"name": "wine", "part": "test", "test": 0.25, "split_seed": 3, "split": "stratified"}


def test_split_of_text_arrays_and_lists():
    whole = load("python-reference")
    train, test = split(whole)
    assert len(train.text) + len(test.text) == len(whole.text)
    assert test.text == tuple(whole.text[i] for i in test.rows)
    (X, y), (Xt, yt) = split((np.arange(20.0).reshape(10, 2), np.arange(10.0)))
    assert np.array_equal(X[:, 0], 2 * y) and np.array_equal(Xt[:, 0], 2 * yt) and len(yt) == 2
    a, b = split(["a b", "c", "d"], test=0.3)
    assert sorted([*a, *b]) == ["a b", "c", "d"]


def test_a_lost_class_is_told():
    y = np.array([0] * 20 + [1])
    with pytest.warns(UserWarning, match="no row of class 1"):
        split(Dataset("one", np.zeros((21, 1)), y), how="random")


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, float("nan")])
def test_shares_that_are_none(share):
    with pytest.raises(UserValueError, match="test"):
        split_rows(10, test=share)


def test_both_parts_have_a_row():
    assert [len(part) for part in split_rows(2, test=0.01)] == [1, 1]
    assert [len(part) for part in split_rows(2, test=0.99)] == [1, 1]
    with pytest.raises(UserValueError, match="data must have at least 2 rows to be split, got 1"):
        split_rows(1)


@pytest.mark.parametrize(("name", "part"), [("digit", "'digits'"), ("zzz", "built in are"), ("wnie", "'wine'")])
def test_unknown_names(name, part):
    with pytest.raises(UserError, match=part):
        load(name)


def test_chosen_columns_of_a_built_in_set():
    data = load("wine", columns=["ash", "alcohol"])
    assert data.columns == ("ash", "alcohol")
    assert np.array_equal(data.X[:, 1], load("wine").X[:, 0])
    with pytest.raises(UserValueError, match="'alcohol'"):
        load("wine", columns=["alcohl"])
    with pytest.raises(UserValueError, match="target"):
        load("wine", target="ash")


@pytest.mark.parametrize("what", [None, 3, b"t.csv", ["t.csv"], np.ones((2, 2)), "x" * 400, "x" * 400 + ".csv"])
def test_what_is_no_name_of_data_is_refused_in_one_line(what):
    with pytest.raises(UserError) as caught:
        load(what)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("systems", ["ppca", [3], [None]])
def test_what_is_no_list_of_systems_is_refused(systems):
    with pytest.raises(UserError, match="list"):
        compare(systems, "wine")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"test": "half"}, "test must be between 0 and 1, got 'half'"),
        ({"test": True}, "test must be between 0 and 1, got True"),
        ({"test": None}, "test must be between 0 and 1, got None"),
        ({"seed": 1.5}, "seed must be a whole number, got 1.5"),
    ],
)
def test_shares_and_seeds_that_are_no_numbers(options, words):
    with pytest.raises(UserTypeError, match=words):
        split(np.arange(10), **options)
