"""Files of other people: what they mean, and where they are wrong."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

import gnomon.data.sources as sources
from gnomon.data import load, read
from gnomon.errors import UserError, UserValueError


def told(action, *parts):
    """The one-line message of a user's mistake, which names these parts."""
    with pytest.raises(UserError) as caught:
        action()
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message, message
    return message


PLAIN = b"x,y\n1,2\n3,4\n"


@pytest.mark.parametrize(
    "content",
    [
        PLAIN, b"\xef\xbb\xbfx,y\r\n1,2\r\n3,4\r\n", b"x,y\r1,2\r3,4\r", PLAIN[:-1], PLAIN + b"\n", PLAIN + b"  \n\n",
        b"\xff\xfe" + PLAIN.decode().encode("utf-16-le"), b"\xfe\xff" + PLAIN.decode().encode("utf-16-be"),
        PLAIN.decode().encode("utf-32"), b"x, y\n 1 ,2\n3,\t4 \n", b'"x","y"\n"1",2\n3,"4"\n', b"x;y\n1;2\n3;4\n",
        b"x\ty\n1\t2\n3\t4\n", b"x,y\n1e0,+2\n3.,04\n", b"\nx,y\n\n1,2\n3,4\n",
    ],
)  # fmt: skip
def test_marks_line_ends_quotes_and_separators(write, content):
    data = read(write(content))
    assert data.columns == ("x", "y") and data.X.tolist() == [[1, 2], [3, 4]]
    assert read(write(content), target="x").y.tolist() == [1, 3]
    assert data.fingerprint == read(write(PLAIN)).fingerprint


@pytest.mark.parametrize(
    ("content", "name", "columns", "X"),
    [
        ("userId,movieId,rating,timestamp\n1,51,2.5,900000001\n1,52,3.0,900000002\n", "f1.csv",
         ("userId", "movieId", "rating", "timestamp"), [[1, 51, 2.5, 900000001], [1, 52, 3.0, 900000002]]),
        ("1\t2\t3\n4\t5\t1\n", "f2.tsv", ("column_1", "column_2", "column_3"), [[1, 2, 3], [4, 5, 1]]),
        ("31\t700000000001\t4.25 \n31\t700000000002\t1.75\n\n", "f3.csv", ("column_1", "column_2", "column_3"),
         [[31, 700000000001, 4.25], [31, 700000000002, 1.75]]),
        ("a,b\n1,2\n", "f4.csv", ("a", "b"), [[1, 2]]),
        ("a\n1\n2\n", "f5.csv", ("a",), [[1], [2]]),
        ("5\n", "one.csv", ("column_1",), [[5]]),
        (",b\n1,2\n", "index.csv", ("column_1", "b"), [[1, 2]]),
    ],
)  # fmt: skip
def test_headers_and_shapes(write, content, name, columns, X):
    data = read(write(content, name))
    assert data.columns == columns
    assert data.X.tolist() == X and data.X.dtype == np.float64


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("a,b\n", ["no rows"]),
        ('"a",b\n', ["no rows"]),
        ("a,b\n1,2\n3\n4,5,6\n", ["line 3", "1 field, expected 2"]),
        ("a,b\n1,2\n\n4,5,6\n", ["line 4", "3 fields, expected 2"]),
        ('a,b\n1,2\n"3"\n', ["line 3", "1 field, expected 2"]),
        ("a,b\n1,2\n3,x\n", ["line 3", "'b'", "'x'"]),
        ("a,b\n\n1,2\n3,1_0\n", ["line 4", "'b'", "'1_0'"]),
        ('a,b\n"1\n",2\n3,x\n', ["line 4", "'b'", "'x'"]),
        ("a,1\n2,3\n", ["line 1", "'column_1'", "'a'"]),  # a first line with a number is no header
        ("a,a\n1,2\n", ["duplicate column name 'a'", "columns 1 and 2"]),
        ('a,b\n1,"2\n', ["line 2"]),
        ("", ["empty"]),
        (" \n\n", ["empty"]),
        (b"a,b\n1,\xff\n", ["not UTF-8", "0xff", "line 2, column 3"]),
        ("a,b\n1,2\n3,\0\n", ["NUL", "line 3, column 3"]),
        (PLAIN.decode().encode("utf-16-le"), ["looks like UTF-16"]),
        (b"\xff\xfea", ["not UTF-16"]),
    ],
)
def test_what_is_wrong_is_said_with_its_place(write, content, parts):
    path = write(content)
    told(lambda: read(path), "t.csv", *parts)


def test_missing_numbers_and_text_targets(write):
    path = write("h,kind,w\n1.5,red, NA \n,blue,2\nnan,red,null\n")
    data = read(path, target="kind")
    assert np.array_equal(data.X, [[1.5, np.nan], [np.nan, 2], [np.nan, np.nan]], equal_nan=True)
    assert data.columns == ("h", "w") and data.y.tolist() == ["red", "blue", "red"]
    with pytest.warns(UserWarning, match="2 rows without a label are left out"):
        assert read(path, target="w", columns=["h"]).y.tolist() == [2]
    assert read(path, target=-2).y.tolist() == ["red", "blue", "red"]
    assert read(path, target="1", columns=["w"]).columns == ("w",)
    assert np.array_equal(read(path, columns=["w", "h"]).X[0], [np.nan, 1.5], equal_nan=True)


def test_kinds_of_targets(write):
    path = write("a,whole,half,text\n0,1,0.5,1\n0,2.0,1,x\n")
    assert read(path, target="whole", columns=["a"]).y.dtype == np.int64
    assert read(path, target="half", columns=["a"]).y.tolist() == [0.5, 1.0]
    assert read(path, target="text", columns=["a"]).y.tolist() == ["1", "x"]


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"target": "yy"}, ["no column 'yy'", "'y'"]),
        ({"target": 2}, ["no column number 2", "0 ... 1"]),
        ({"columns": ["x", "z"]}, ["no column 'z'"]),
        ({"columns": ["x"], "target": "x"}, ["both target and feature"]),
        ({"columns": []}, ["no column is left"]),
        ({"columns": ["x", "x"]}, ["'x' occurs twice"]),
        ({"columns": "xy"}, ["string 'xy'", "['xy']"]),
    ],
)
def test_columns_that_are_not_there(write, options, parts):
    path = write(PLAIN)
    told(lambda: read(path, **options), *parts)


def test_paths(write, tmp_path):
    path = write(PLAIN, "ratings.csv")
    assert load(path).X.tolist() == load(str(path)).X.tolist() == [[1, 2], [3, 4]]
    assert load(path).source == {"path": str(path), "target": None, "columns": None}
    told(lambda: load(tmp_path / "rating.csv"), "not found", "'ratings.csv'")
    told(lambda: load(tmp_path / "nowhere" / "t.csv"), "not found")
    told(lambda: load(tmp_path), "folder")
    told(lambda: load(write(b"PK", "t.docx")), ".docx", ".csv")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ratings.csv", "t.docx"]


def test_text_files(write):
    content = "\ufeff<s> one\r\n\r\ntwo \u00e9\r\n"
    data = load(write(content, "t.txt"))
    assert data.text == ("<s> one", "two \u00e9") and data.X is None
    assert load(write(content.replace("\r\n", "\n"), "u.txt")).fingerprint == data.fingerprint
    assert load(write(content.rstrip(), "v.txt")).fingerprint == data.fingerprint
    told(lambda: load(write("\n \n", "w.txt")), "w.txt", "no line")
    told(lambda: load(write("a", "a.txt"), target="x"), "no columns")


# --- arrays -------------------------------------------------------------------------------------------------------


def archive(**arrays):
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def array(value, **options):
    stream = io.BytesIO()
    np.save(stream, value, **options)
    return stream.getvalue()


TABLE = np.arange(12.0).reshape(4, 3)


@pytest.mark.parametrize("X", [TABLE, np.asfortranarray(TABLE), TABLE.astype(">f8"), TABLE[:, ::-1][:, ::-1]])
def test_arrays_of_every_layout(write, X):
    for path in (write(array(X), "a.npy"), write(archive(X=X), "a.npz"), write(archive(other=X), "b.npz")):
        data = read(path)
        assert data.X.dtype == np.float64 and np.array_equal(data.X, TABLE)


def test_archives_with_labels_and_images(write):
    y = np.array(["a", "b", "a", "b"])
    path = write(archive(X=TABLE, y=y, z=np.arange(4)), "a.npz")
    assert read(path).y.tolist() == y.tolist() and read(path, target="z").y.tolist() == [0, 1, 2, 3]
    images = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    data = read(write(array(images), "i.npy"))
    assert data.images == (3, 4) and data.levels == 256 and data.X.dtype == np.float32
    assert np.array_equal(data.X.reshape(2, 3, 4), images)
    last = read(write(array(TABLE), "t.npy"), target=-1)
    assert last.y.tolist() == [2, 5, 8, 11] and last.X.tolist() == TABLE[:, :2].tolist()
    assert read(write(array(TABLE), "t.npy"), columns=["column_3"]).X[:, 0].tolist() == [2, 5, 8, 11]


def bomb(shape, descr="<f8"):
    """An NPY header that promises more than follows."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": shape})
    return stream.getvalue()


def zipped(data):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("X.npy", data)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "parts"),
    [
        ("o.npy", array(np.array([[1, "a"]], object), allow_pickle=True), ["Python objects"]),
        ("o.npz", archive(X=np.array([[None]])), ["Python objects", "'X'"]),
        ("b.npy", bomb((1 << 40, 8)), ["GiB", "limit"]),
        ("b.npz", zipped(bomb((1 << 40, 8))), ["GiB", "limit", "'X'"]),
        ("c.npy", bomb((1000, 8)) + bytes(80), ["64000 bytes"]),
        ("c.npz", zipped(bomb((1000, 8)) + bytes(80)), ["64000 bytes"]),
        ("n.npy", bomb((-5, 8)), ["header"]),
        ("n.npz", b"PK\x03\x04 nothing", ["not readable as NPZ"]),
        ("j.npy", b"hello world, not an array", ["not readable as NPY"]),
        ("e.npz", zipped(b"hello"), ["not readable as NPY", "'X'"]),
        ("v.npy", array(np.arange(3.0)), ["1D array"]),
        ("s.npy", array(np.array([["a", "b"]])), ["'a'"]),
        ("z.npy", array(np.zeros((0, 3))), ["empty"]),
        ("w.npz", archive(A=TABLE, B=TABLE), ["no array X", "A, B"]),
        ("y.npz", archive(X=TABLE, y=np.arange(3)), ["(3,)", "4 rows"]),
    ],
)
def test_arrays_that_cannot_be_used(write, name, content, parts):
    path = write(content, name)
    told(lambda: read(path), name, *parts)


def test_size_limit_holds_for_text_too(write, monkeypatch):
    path = write(PLAIN)
    monkeypatch.setattr(sources, "MAX_BYTES", 5)
    with pytest.raises(UserValueError, match="limit"):
        read(path)


def test_size_limit_holds_for_all_arrays_of_an_archive_together(write, monkeypatch):
    path = write(archive(X=np.zeros((10, 10)), y=np.zeros(10), z=np.zeros((10, 10))), "many.npz")
    monkeypatch.setattr(sources, "MAX_BYTES", 2000)
    told(lambda: read(path), "many.npz, all arrays together", "limit")
