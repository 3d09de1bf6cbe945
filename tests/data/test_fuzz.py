"""Small valid files of every kind with bytes changed: each is read or refused in one line, soon, at every door."""

from __future__ import annotations

import datetime
import gzip
import io
import json
import random
import time
import warnings

import numpy as np
import polars as pl
import pytest
from PIL import Image

from gnomon.data import File, load, ratings, triples
from gnomon.data import open as stream
from gnomon.data.overview import overview
from gnomon.errors import UserError

LONGEST = 10.0
"""Seconds that a door may take for a file of some hundred bytes, on a busy machine."""
TOKENS = (
    b'"', b"\n", b"\r", b",", b"\t", b";", b"::", b"\\u", b"\\ud800", b"\0", b"\xff", b"\xef\xbb\xbf", b"nan", b"inf",
    b"1e400", b"-", b"{", b"}", b"[", b"]", b"null", b"99999999999999999999", b"007", b" ", b"\x1f", b"a,b",
    b"column_2", b"\xe4\xb8", b'""', b"1,5",
)  # fmt: skip


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def npz(**arrays):
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def parquet(compression):
    out = io.BytesIO()
    columns = {"a": [1, 2, 3, None] * 5, "b": [1.5, 2.5, None, 4.0] * 5, "t": ["x", "yy", "x", "zzz"] * 5}
    pl.DataFrame({**columns, "d": [datetime.date(2020, 1, 1)] * 20}).write_parquet(out, compression=compression)
    return out.getvalue()


def image(kind):
    out = io.BytesIO()
    Image.fromarray(np.arange(30, dtype=np.uint8).reshape(6, 5) * 8).save(out, kind)
    return out.getvalue()


def workbook():
    from openpyxl import Workbook

    book = Workbook()
    for row in (["a", "b", "y"], [1, "x", 2.5], [3, "z", 1], [2, None, 4]):
        book.active.append(row)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


CSV = b'name,x,y\n"a, b",1.5,0\nc,2,1\n"d ""q""",NA,0\n,4,1\n'
ROWS = [{"a": i, "b": f"t{i}", "y": i / 2} for i in range(6)]
SEEDS = {
    "t.csv": CSV, "t.tsv": CSV.replace(b",", b"\t"), "r.dat": b"1::2::5::9\n1::3::4::8\n2::2::1::7\n",
    "c.data": b'1.5  2 "a b"\n3.5  4 "c d"\n', "r.csv": b"user,item,rating\n1,a,5\n2,b,3\n",
    "d.csv": b"x;y\n1,5;2,0\n1.003,25;4,75\n", "t.jsonl": "\n".join(map(json.dumps, ROWS)).encode(),
    "t.json": json.dumps(ROWS, indent=1).encode(), "t.txt": "one two\nthree é 中文\n".encode(),
    "u.txt": "one two\n".encode("utf-16"), "g.csv.gz": gzip.compress(CSV), "t.xlsx": workbook(),
    "t.npy": npy(np.arange(12.0).reshape(4, 3)), "i.npy": npy(np.arange(24, dtype=np.uint8).reshape(2, 3, 4)),
    "s.npy": npy(np.array([["a", "b"], ["c", "d"]])),
    "t.npz": npz(X=np.arange(12.0).reshape(4, 3), y=np.array([0, 1, 0, 1])),
    **{f"{one}.parquet": parquet(one) for one in ("snappy", "zstd", "uncompressed")},
    **{f"t.{one.lower()}": image(one) for one in ("PNG", "GIF", "TIFF", "BMP", "JPEG", "WEBP", "PPM")},
}  # fmt: skip
DOORS = {
    "load": load, "target": lambda file: load(file, target=-1), "overview": overview, "ratings": ratings,
    "triples": triples, "stream": lambda file: list(stream(file)),
    "form": lambda file: load(File(file, encoding="latin-1", decimal=",", thousands=".")),
}  # fmt: skip


def mutated(data: bytes, chance: random.Random) -> bytes:
    """The bytes with one to six changes: a bit, a byte, a token, a hole, an end, a copy, a large number."""
    found = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 3, 6])):
        kind, place = chance.randrange(7), chance.randrange(len(found) + 1)
        if kind == 0 and found:
            found[place % len(found)] ^= 1 << chance.randrange(8)
        elif kind == 1 and found:
            found[place % len(found)] = chance.randrange(256)
        elif kind == 2:
            found[place:place] = chance.choice(TOKENS)
        elif kind == 3:
            del found[place : place + chance.randrange(1, 6)]
        elif kind == 4:
            del found[place:]
        elif kind == 5:
            start = chance.randrange(len(found) + 1)
            found[place:place] = found[start : start + chance.randrange(1, 20)]
        else:
            found[place : place + 4] = chance.choice([b"\xff" * 4, b"\0" * 4, b"\xff\xff\xff\x7f", b"\0\0\0\x80"])
    return bytes(found)


def fuzz(folder, first, n):
    """Files `first` to `first + n`; what is neither read nor refused in one line in time."""
    faults = []
    for number in range(first, first + n):
        chance = random.Random(number)
        name = chance.choice(list(SEEDS))
        file = folder / name
        file.write_bytes(mutated(SEEDS[name], chance))
        for door in chance.sample(list(DOORS), 3):
            begun = time.monotonic()
            try:
                DOORS[door](file)
            except UserError as error:
                if "\n" in str(error):
                    faults.append((number, name, door, "more than one line"))
            except BaseException as error:
                faults.append((number, name, door, repr(error)[:200]))
            if time.monotonic() - begun > LONGEST:
                faults.append((number, name, door, "slow"))
    return faults


@pytest.mark.filterwarnings("ignore")
def test_damaged_files_are_read_or_refused_in_one_line(tmp_path):
    """Trials F: Parquet's panics, headers of GIF and TIFF, tokens in NPY, open quotes, half characters."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert fuzz(tmp_path, 0, 250) == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", range(1000, 8500, 2500))
def test_many_damaged_files_are_read_or_refused_in_one_line(tmp_path, first):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert fuzz(tmp_path, first, 2500) == []


@pytest.mark.parametrize("name", sorted(set(SEEDS) - {"s.npy"}))
def test_the_files_that_are_damaged_are_whole_before(tmp_path, name):
    (tmp_path / name).write_bytes(SEEDS[name])
    if name == "d.csv":
        with pytest.raises(UserError, match="--decimal"):
            load(tmp_path / name)
        assert DOORS["form"](tmp_path / name).X.tolist() == [[1.5, 2], [1003.25, 4.75]]
        return
    assert len(load(tmp_path / name)) > 0


@pytest.mark.parametrize(
    "content", [b'\x80', b"a\tb\n1\t\"2\n", b'{" a": 1, "a": 2}\n', b'{"a": "\\ud800"}\n', b'{"\\udc00": 1}\n'],
    ids=["byte", "open quote", "names", "half character", "half key"],
)  # fmt: skip
@pytest.mark.parametrize("ending", [".tsv", ".csv", ".jsonl", ".json"])
def test_what_trials_met(tmp_path, content, ending):
    file = tmp_path / f"t{ending}"
    file.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for door in DOORS.values():
            try:
                door(file)
            except UserError as error:
                assert "\n" not in str(error)


def test_faults_of_our_own_are_not_taken_for_damage(tmp_path, monkeypatch):
    """A KeyError of gnomon's own code goes out as it is; one of a library's becomes the line, with its cause."""
    from gnomon.data import boundary, readers

    file = tmp_path / "t.txt"
    file.write_text("one two\n")
    with pytest.raises(UserError, match="the file is damaged: JSONDecodeError") as found, boundary.guarded(file):
        json.loads("{")
    assert isinstance(found.value.__cause__, ValueError)
    monkeypatch.setattr(readers, "lines", lambda *_: boundary.is_ours(None))
    with pytest.raises(AttributeError, match="__traceback__"):
        load(file)


@pytest.mark.parametrize(
    ("content", "words"),
    [(npy(np.array(["", ""], dtype="U1")).replace(b"<U1", b"<U0"), "no letters"),
     (npy(np.array([["a"]]))[:-4] + b"\xff\xff\xff\x7f", "no script")],
    ids=["no letters", "no script"],
)  # fmt: skip
def test_texts_of_arrays_are_texts(tmp_path, content, words):
    file = tmp_path / "t.npy"
    file.write_bytes(content)
    for door in ("load", "stream"):
        with pytest.raises(UserError, match=words):
            DOORS[door](file)


def test_dates_lie_in_the_years_of_calendars(tmp_path):
    """Year 0 was read, and ended overview and compare in a traceback."""
    file = tmp_path / "t.csv"
    file.write_text("d,v\n2020-01-01,1\n0000-02-03,2\n")
    with pytest.raises(UserError, match=r"years 1 to 9999, got the year 0 \(t.csv, line 3, column 'd'\)"):
        load(file)
    assert "year 0" in overview(file)[0]["problem"]
    far = pl.DataFrame({"v": [1, 2, 3]}).with_columns(d=pl.Series([0, 10**7, 5], dtype=pl.Int32).cast(pl.Date))
    far.write_parquet(tmp_path / "t.parquet")
    with pytest.raises(UserError, match=r"got the year 29349 \(t.parquet, row 1, column 'd'\)"):
        load(tmp_path / "t.parquet")


def test_the_overview_of_a_large_image_is_short(tmp_path):
    """Three million pixels were described one by one: 15 seconds and 1.2 GB for a file of 152 bytes."""
    file = tmp_path / "t.png"
    Image.fromarray(np.zeros((1200, 1000), np.uint8)).save(file)
    begun = time.monotonic()
    facts, data = overview(file)
    assert time.monotonic() - begun < LONGEST
    assert len(facts["columns"]) == 1 << 16 < data.X.shape[1]
