"""Files that are wrong: each is refused in one line with its place, in Python and by the command, with status 2."""

from __future__ import annotations

import gzip
import io
import json
import struct
import zipfile
import zlib
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest

from gnomon.cli.main import run
from gnomon.data import load, sources
from gnomon.data.images import image_names
from gnomon.errors import UserError


class Bad(NamedTuple):
    """A file (bytes), or a folder (bytes by name), what is done with it, and what the message must say."""

    name: str
    content: bytes | dict[str, bytes]
    says: tuple[str, ...]
    options: dict[str, str] = {}  # noqa: RUF012


def npy(value, **options):
    stream = io.BytesIO()
    np.save(stream, value, **options)
    return stream.getvalue()


def npz(**arrays):
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def claim(shape, descr="<f8"):
    """An NPY header that promises more than follows."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": shape})
    return stream.getvalue()


def zipped(data, name="X.npy"):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr(name, data)
    return stream.getvalue()


def parquet(**columns):
    stream = io.BytesIO()
    pl.DataFrame(columns).write_parquet(stream)
    return stream.getvalue()


def lines(*records):
    return "\n".join(r if isinstance(r, str) else json.dumps(r) for r in records).encode()


def png(width, height, pixels=None, mode=0):
    """A PNG as its specification says; without pixels it only claims its size."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, mode, 0, 0, 0))
    body = b"".join(b"\0" + row for row in pixels or [b"\0" * width])
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(body)) + chunk(b"IEND", b"")


SMALL = png(2, 2, [b"\x01\x02", b"\x03\x04"])
TABLE = np.arange(12.0).reshape(4, 3)
CSV = b"a,b\n1,2\n3,4\n"
BIG = 2**53 + 1

BAD = [
    # rows
    Bad("t.csv", b"a,b\n1,2\n3\n4,5\n", ("line 3", "1 field, expected 2")),
    Bad("t.csv", b"a,b\n1,2\n3,4,5\n", ("line 3", "3 fields, expected 2")),
    Bad("t.csv", b"a,b\n1\n3,4,5\n", ("line 2", "1 field, expected 2")),
    Bad("t.tsv", b"a\tb\n1\t2\n\n3\n", ("line 4", "1 field, expected 2")),
    Bad("t.csv", b'a,b\n"1",2\n"3"\n', ("line 3", "1 field, expected 2")),
    Bad("t.csv", b"a,b\n", ("no rows",)),
    Bad("t.csv", b"", ("empty",)),
    Bad("t.csv", b"\n \n", ("empty",)),
    Bad("t.csv", b"\xef\xbb\xbf", ("empty",)),
    # cells
    Bad("t.csv", b"a,b\n1,2\n3,x\n", ("line 3", "'b'", "'x'")),
    Bad("t.csv", b"a,b\n1,2\n3,1_000\n", ("line 3", "'b'", "'1_000'")),
    Bad("t.csv", b"a,b\n1,2\n3,0x1F\n", ("line 3", "'b'", "'0x1F'")),
    Bad("t.csv", b'a,b\n"1\n",2\n3,x\n', ("line 4", "'b'", "'x'")),
    Bad("t.csv", b"a,b\n1,2\n3,inf\n", ("line 3", "'b'", "'inf'", "not finite")),
    Bad("t.csv", b"a,b\n1,2\n-1e999,3\n", ("line 3", "'a'", "'-1e999'", "not finite")),
    Bad("t.csv", f"a,b\n1,2\n{BIG},3\n".encode(), ("line 3", "'a'", str(BIG), "digits")),
    Bad("t.csv", "a,b\n1,2\n\u0663,4\n".encode(), ("line 3", "'a'", "\u0663")),
    Bad("t.csv", b'a,b\n1,"2\n3,4\n', ("line 2", "quote")),
    Bad("t.csv", b'a,b\n1,"2"3\n', ("line 2",)),
    # header and delimiter
    Bad("t.csv", b"a,a\n1,2\n", ("duplicate column name 'a'", "columns 1 and 2")),
    Bad("t.tsv", b"a,b\n1,2\n", ("line 2", "'1,2'")),
    Bad("t.csv", CSV, ("no column 'bb'", "'b'"), {"target": "bb"}),
    Bad("t.csv", CSV, ("no column 'c'",), {"columns": "a,c"}),
    Bad("t.csv", CSV, ("no column number 7",), {"target": "7"}),
    Bad("t.csv", CSV, ("'a' is both target and feature",), {"target": "a", "columns": "a"}),
    Bad("t.csv", b"a\n1\n2\n", ("no column is left",), {"target": "a"}),
    # encoding
    Bad("t.csv", b"a,b\n1,2\n3,\xff\n", ("not UTF-8", "line 3, column 3")),
    Bad("t.csv", "a,b\n1,\u4e2d\n".encode("gbk"), ("not UTF-8", "line 2")),
    Bad("t.csv", CSV.decode().encode("utf-16-le"), ("looks like UTF-16",)),
    Bad("t.csv", b"\xff\xfea", ("not UTF-16",)),
    Bad("t.csv", b"a,b\n1,2\n3,\0\n", ("NUL", "line 3, column 3")),
    Bad("t.csv", b"\x89PNG\r\n\x1a\n\x00\x00\x01\x02\xff", ("t.csv",)),
    Bad("t.txt", b"one\ntwo \xe9t\xe9\n", ("not UTF-8", "line 2, column 5")),
    Bad("t.txt", b"one\ntwo\0\n", ("NUL", "line 2, column 4")),
    Bad("t.txt", b"\n\n", ("no line with text",)),
    Bad("t.txt", b"one\n", ("no columns",), {"target": "a"}),
    # compression
    Bad("t.csv.gz", gzip.compress(CSV * 400)[:-12], ("cut off or damaged",)),
    Bad("t.csv.gz", CSV, ("cut off or damaged",)),
    Bad("t.csv.gz", gzip.compress(CSV)[:-8] + b"\0" * 8, ("cut off or damaged",)),
    Bad("t.csv.gz", gzip.compress(b"a,b\n1,2\n3,x\n"), ("line 3", "'x'")),
    Bad("t.parquet.gz", gzip.compress(CSV), (".parquet.gz", "cannot be read")),
    # arrays
    Bad("o.npy", npy(np.array([[1, "a"]], object), allow_pickle=True), ("Python objects", "never unpickles")),
    Bad("o.npz", npz(X=np.array([[None]])), ("Python objects", "'X'")),
    Bad("b.npy", claim((1 << 40, 8)), ("GiB", "limit")),
    Bad("b.npz", zipped(claim((1 << 40, 8))), ("GiB", "limit", "'X'")),
    Bad("c.npy", claim((1000, 8)) + bytes(80), ("64000 bytes",)),
    Bad("n.npy", claim((-5, 8)), ("header",)),
    Bad("j.npy", b"hello world, not an array", ("not readable as NPY",)),
    Bad("r.npy", npy(np.zeros(3, [("a", "f8"), ("b", "i4")])), ("records", "a, b")),
    Bad("s.npy", npy(np.array([["a", "b"]])), ("'a'",)),
    Bad("v.npy", npy(np.arange(3.0)), ("1D array",)),
    Bad("z.npy", npy(np.zeros((0, 3))), ("empty",)),
    Bad("i.npy", npy(np.array([[1.0, np.inf]])), ("row 0, column 1", "not finite")),
    Bad("l.npy", npy(np.array([[1, BIG]])), ("row 0, column 1", str(BIG))),
    Bad("t.csv", b"a,kind\n1,\n2,\n", ("'kind'", "no row has a label"), {"target": "kind"}),
    Bad("m.npy", npy(np.array([[1, 0.5], [2, np.nan]])), ("row 1", "label is missing"), {"target": "1"}),
    Bad("t.npz", npz(X=TABLE, y=np.arange(4))[:-30], ("not readable as NPZ",)),
    Bad("k.npz", b"PK\x03\x04 nothing", ("not readable as NPZ",)),
    Bad("e.npz", zipped(b"hello"), ("not readable as NPY", "'X'")),
    Bad("w.npz", npz(A=TABLE, B=TABLE), ("no array X", "A, B")),
    Bad("y.npz", npz(X=TABLE, y=np.arange(3)), ("(3,)", "4 rows")),
    # JSON Lines
    Bad("t.jsonl", lines({"a": 1}, {"a": "x"}), ("line 2", "'a'", "'x' is a text", "number")),
    Bad("t.jsonl", lines({"a": 1}, {"a": True}), ("line 2", "'a'", "True is a truth value")),
    Bad("t.jsonl", lines({"a": [1, 2]}), ("line 1", "'a'", "a list")),
    Bad("t.jsonl", lines({"a": 1}, {"a": {"b": 2}}), ("line 2", "'a'", "an object")),
    Bad("t.jsonl", lines({"a": 1}, "{'a': 2}"), ("line 2", "not valid JSON")),
    Bad("t.jsonl", lines('{"a": 1, "a": 2}'), ("line 1", "'a' occurs twice")),
    Bad("t.jsonl", lines("[1, 2]"), ("line 1", "a line must be a JSON object, got a list")),
    Bad("t.jsonl", lines({"a": 1, "b": 0.5}, {"a": BIG, "b": 2}), ("line 2", "'a'", str(BIG))),
    Bad("t.jsonl", lines("{}"), ("no keys",)),
    Bad("t.jsonl", b"\n\n", ("no rows",)),
    Bad("t.jsonl", b"[" * 100_000, ("line 1", "not valid JSON")),
    # Parquet
    Bad("t.parquet", parquet(a=[1.0])[:-20], ("not readable as Parquet",)),
    Bad("t.parquet", b"PAR1 nothing at all PAR1", ("not readable as Parquet",)),
    Bad("t.parquet", parquet(a=[1, 2], d=[[1, 2], [3]]), ("'d'", "list(int64)", "lists")),
    Bad("t.parquet", parquet(a=[1, 2], s=[b"x", None]), ("'s'", "binary", "bytes or objects")),
    Bad("t.parquet", parquet(a=[1, BIG]), ("row 1", "'a'", str(BIG))),
    Bad("t.parquet", parquet(a=[1.0, float("inf")]), ("row 1", "'a'", "not finite")),
    Bad("t.parquet", parquet(a=pl.Series([], dtype=pl.Float64)), ("no rows",)),
    # folders of images
    Bad("empty", {}, ("folder is empty",)),
    Bad("pets", {"cat/1.png": SMALL, "dog/1.png": png(3, 2, [b"\0\1\2"] * 2)}, ("dog/1.png", "2 x 3", "2 x 2")),
    Bad("pets", {"cat/1.png": SMALL, "dog/1.png": SMALL[:-30]}, ("dog/1.png", "cannot be read")),
    Bad("pets", {"cat/1.png": SMALL, "dog/1.png": b"no picture"}, ("dog/1.png", "cannot be read")),
    Bad("pets", {"cat/1.png": png(1 << 15, 1 << 14)}, ("cat/1.png", "pixels", "smaller")),
    Bad("pets", {"cat/1.png": png(9000, 9000)}, ("cat/1.png", "9000 x 9000", "smaller")),
    Bad("pets", {"cat/1.png": SMALL, "dog/notes.txt": b"x"}, ("dog", "no image")),
    Bad("pets", {"notes.rst": b"x"}, ("pets", "no image", ".png")),
    Bad("pets", {"cat/1.png": SMALL, "cat/more/1.png": SMALL}, ("cat/more", "this is a folder")),
    Bad("pets", {"cat/1.png": SMALL, "dog/": b""}, ("dog", "no image")),
    Bad("pets", {"cat/1.png": SMALL, "1.png": SMALL}, ("1.png", "beside the folders")),
    Bad("pets", {"cat/1.png": png(2, 2, [b"\1\2\3\4" * 2] * 2, mode=6)}, ("cat/1.png", "transparent")),
    Bad("pets", {"cat/1.png": SMALL}, ("no columns",), {"target": "cat"}),
    # no files
    Bad("t.docx", b"PK", (".docx", ".csv")),
    Bad("noending", b"1,2\n", ("without an ending",)),
]


@pytest.fixture
def put(tmp_path):
    def write(bad):
        path = tmp_path / bad.name
        if isinstance(bad.content, bytes):
            path.write_bytes(bad.content)
            return path
        path.mkdir()
        for name, content in bad.content.items():
            file = path / name
            (file if name.endswith("/") else file.parent).mkdir(parents=True, exist_ok=True)
            if not name.endswith("/"):
                file.write_bytes(content)
        return path

    return write


def test_the_table_is_long():
    assert len(BAD) >= 40


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: f"{bad.name}-{bad.says[-1]}"[:40])
def test_a_bad_file_is_refused_in_one_line(bad, put, tmp_path, capsys, monkeypatch):
    path = put(bad)
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    options = dict(bad.options)
    with pytest.raises(UserError) as caught:
        load(path, **{k: v.split(",") if k == "columns" else v for k, v in options.items()})
    message = str(caught.value)
    assert "\n" not in message and len(message) < 500
    for part in (*bad.says, bad.name):
        assert part in message, message
    assert caught.value.remedy, message
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    status = run(["fit", "ppca", str(path), "--out", str(tmp_path / "run"), *words])
    told = capsys.readouterr()
    assert status == 2 and told.out == "" and told.err.count("\n") == 1, told.err
    assert all(part in told.err for part in bad.says), told.err
    assert sorted(tmp_path.rglob("*")) == before  # nothing half-written


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 200_000)), ("t.txt.gz", gzip.compress(b"word " * 200_000)),
        ("t.npz", zipped(npy(np.zeros((300, 300))))), ("t.parquet", parquet(a=np.zeros(100_000))),
        ("t.csv", b"a,b\n" + b"1,2\n" * 200_000), ("t.jsonl.gz", gzip.compress(b'{"a":1}\n' * 70_000)),
    ],
)  # fmt: skip
def test_what_unpacks_to_more_than_the_limit_is_refused(name, content, tmp_path, monkeypatch):
    path = tmp_path / name
    path.write_bytes(content)
    load(path)
    monkeypatch.setattr(sources, "MAX_BYTES", 500_000)
    with pytest.raises(UserError, match="limit"):
        load(path)


def test_files_that_are_not_images_are_left_out_with_a_notice(tmp_path):
    for name, content in {
        "cat/1.png": SMALL, "cat/notes.txt": b"x", "cat/Thumbs.db": b"x", "dog/2.png": SMALL, "README.md": b"x",
        "__MACOSX/cat/._1.png": b"x",
    }.items():  # fmt: skip
        (tmp_path / "pets" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pets" / name).write_bytes(content)
    with pytest.warns(UserWarning, match=r"3 files that are not images are left out \(first pets/README.md\)"):
        found = load(tmp_path / "pets")
    assert found.y.tolist() == ["cat", "dog"] and image_names(tmp_path / "pets") == ["cat/1.png", "dog/2.png"]
    for name in ("README.md", "cat/Thumbs.db"):
        (tmp_path / "pets" / name).unlink()
    with pytest.warns(UserWarning, match=r"1 file that is not an image is left out \(pets/cat/notes.txt\)"):
        load(tmp_path / "pets")


def test_a_text_broken_at_a_width_is_read_with_a_notice(tmp_path):
    prose = "it goes on where the page is at its end and the next line has the rest of what"
    (tmp_path / "a.txt").write_text("\n".join([prose] * 30))
    with pytest.warns(UserWarning, match=r"a.txt: most lines end within a sentence, .* join the lines of a paragraph"):
        load(tmp_path / "a.txt")
    (tmp_path / "b.txt").write_text("\n".join([prose + "."] * 30 + [prose] * 20))
    assert len(load(tmp_path / "b.txt").text) == 50
