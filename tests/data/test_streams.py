"""Files in chunks: the values and errors of `read`, in bounded memory, and fits that equal one fit."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import gnomon.data as data
import gnomon.data.sources as sources
import gnomon.data.streams as streams
from gnomon import PPCA, NGram
from gnomon.errors import UserError
from gnomon.systems.text.ngram import Dirichlet

X = np.random.default_rng(0).normal(size=(103, 4))
COLUMNS = ["a", "b", "c", "d"]


def csv(array):
    return "".join(f"{','.join(map(repr, row))}\n" for row in [COLUMNS, *array.tolist()]).replace("'", "").encode()


def written(folder, kind):
    """The table in a file of this kind."""
    path = folder / f"t{kind}"
    if kind == ".parquet":
        pl.DataFrame(X, schema=COLUMNS).write_parquet(path, row_group_size=17)
    elif kind == ".npy":
        np.save(path, np.asfortranarray(X))
    elif kind == ".jsonl":
        path.write_text("\n".join(json.dumps(dict(zip(COLUMNS, row, strict=True))) for row in X.tolist()))
    else:
        path.write_bytes(gzip.compress(csv(X)) if kind.endswith(".gz") else csv(X))
    return path


@pytest.mark.parametrize("kind", [".csv", ".csv.gz", ".parquet", ".npy", ".jsonl"])
@pytest.mark.parametrize("rows", [1, 10, 103, 1000])
def test_chunks_joined_are_the_table(tmp_path, monkeypatch, kind, rows):
    monkeypatch.setattr(streams, "_BLOCK", 300)
    stream = data.open(written(tmp_path, kind), rows=rows)
    chunks = list(stream)
    assert [len(chunk) for chunk in chunks[:-1]] == [rows] * (len(chunks) - 1) and 1 <= len(chunks[-1]) <= rows
    assert np.array_equal(np.concatenate(chunks), X)
    assert stream.columns == (() if kind == ".npy" else tuple(COLUMNS))
    assert np.array_equal(np.concatenate(list(stream)), X)  # each iteration begins anew


@pytest.mark.parametrize("rows", [20, 64])
def test_a_fit_to_chunks_is_one_fit(tmp_path, monkeypatch, rows):
    monkeypatch.setattr(streams, "_BLOCK", 500)
    path = written(tmp_path, ".csv")
    parts = PPCA(n_components=2, random_state=0)
    for chunk in data.open(path, rows=rows):
        parts.partial_fit(chunk)
    whole = PPCA(n_components=2, random_state=0).fit(data.load(path).X)
    assert np.allclose(parts.log_prob(X), whole.log_prob(X), rtol=1e-12, atol=1e-12)


def test_a_language_model_of_chunks_is_one_fit(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "_BLOCK", 64)
    path = tmp_path / "t.txt"
    text = data.load("python-reference").text[:200]
    text = (" ".join(sorted({word for sentence in text for word in sentence.split()})), *text)  # chunk 1 has all words
    path.write_text("\r\n".join(text))
    parts = NGram(n=3, smoothing=Dirichlet(1.0))
    for chunk in data.open(path, rows=30):
        assert len(chunk) <= 30
        parts.partial_fit(chunk)
    whole = NGram(n=3, smoothing=Dirichlet(1.0)).fit(list(text))
    assert np.allclose(parts.log_prob(list(text)), whole.log_prob(list(text)), rtol=1e-13, atol=0)


@pytest.mark.parametrize(
    "labels", [["1", "2"] * 9, ["0.5", "2"] * 9, ["1"] * 9 + ["NA"] + ["b"] * 8, ["1"] * 17 + ["01"]]
)
def test_labels_have_the_kind_of_the_whole_column(tmp_path, monkeypatch, labels):
    monkeypatch.setattr(streams, "_BLOCK", 8)
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"{i},{label}\n" for i, label in enumerate(labels)))
    whole = data.load(path, target="y")
    chunks = list(data.open(path, target="y", rows=4))
    assert np.array_equal(np.concatenate([x for x, _ in chunks]), whole.X)
    y = np.concatenate([y for _, y in chunks])
    assert y.tolist() == whole.y.tolist() and all(part.dtype.kind == whole.y.dtype.kind for _, part in chunks)


def spoilt(change):
    lines = csv(X).decode().split("\n")
    lines[90] = change(lines[90])
    return "\n".join(lines)


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line + ",1", lambda line: "x" + line, lambda line: line.replace(",", ";"),
        lambda line: "inf" + line[line.index(","):], lambda line: '"' + line, lambda line: "\udcff" + line,
        lambda line: "9007199254740993" + line[line.index(","):],
    ],
)  # fmt: skip
def test_a_stream_refuses_what_read_refuses_in_the_same_words(tmp_path, monkeypatch, change):
    path = tmp_path / "t.csv"
    path.write_bytes(spoilt(change).encode("utf-8", "surrogateescape"))
    with pytest.raises(UserError) as whole:
        data.read(path)
    monkeypatch.setattr(streams, "_BLOCK", 200)
    with pytest.raises(UserError) as parts:
        list(data.open(path, rows=10))
    assert str(parts.value) == str(whole.value) and "line 91" in str(parts.value)


@pytest.mark.parametrize("kind", [".csv", ".parquet", ".npy", ".jsonl"])
def test_missing_values_are_refused_by_place_or_taken_as_nan(tmp_path, kind):
    holed = X.copy()
    holed[70, 2] = np.nan
    path = tmp_path / f"t{kind}"
    frame = pl.DataFrame(holed, schema=COLUMNS)
    if kind == ".csv":
        frame.fill_nan(None).write_csv(path)
    elif kind == ".parquet":
        frame.write_parquet(path)
    elif kind == ".jsonl":
        frame.fill_nan(None).write_ndjson(path)
    else:
        np.save(path, holed)
    place = {".csv": "line 72, column 'c'", ".jsonl": "line 71, column 'c'", ".npy": "row 70, column 2"}
    with pytest.raises(UserError, match=f"missing .*{place.get(kind, chr(114) + 'ow 70, column .c.')}"):
        list(data.open(path, rows=16))
    found = np.concatenate(list(data.open(path, rows=16, missing=True)))
    assert np.array_equal(found, holed, equal_nan=True)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("t.csv", {"rows": 0}, "rows must be at least 1, got 0"), ("t.csv", {"target": "z"}, "no column 'z'"),
        ("t.npz", {}, "cannot be read in chunks"), ("nothing.csv", {}, "not found"),
        ("", {}, "cannot be read in chunks"),
        ("t.npy", {"target": 0}, "no columns"), ("t.txt", {"columns": ["a"]}, "no columns"),
    ],
)  # fmt: skip
def test_streams_that_cannot_be(tmp_path, name, options, said):
    (tmp_path / "t.csv").write_bytes(csv(X))
    (tmp_path / "t.txt").write_text("a\n")
    np.save(tmp_path / "t.npy", X)
    np.savez(tmp_path / "t.npz", X=X)
    with pytest.raises(UserError, match=said):
        data.open(tmp_path / name, **options)


def test_cut_off_arrays_are_refused(tmp_path):
    stream = io.BytesIO()
    np.save(stream, X)
    path = tmp_path / "t.npy"
    path.write_bytes(stream.getvalue()[:-8])
    with pytest.raises(UserError, match=r"cut off|the file has"):
        list(data.open(path))


MEASURE = """
import resource, sys
import numpy, polars, gnomon.data as data
first = next(iter(data.open(sys.argv[1], rows=1000)))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
total = sum(chunk.sum() for chunk in data.open(sys.argv[1], rows=1000))
print(total, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


def test_memory_does_not_grow_with_the_file(tmp_path):
    path = tmp_path / "t.csv"
    block = csv(np.round(np.random.default_rng(0).normal(size=(50_000, 4)), 6))
    path.write_bytes(block + block[block.index(b"\n") + 1 :] * 24)
    size = path.stat().st_size / 2**20
    run = subprocess.run([sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True)
    total, grown = map(float, run.stdout.split())
    assert np.isfinite(total) and size > 40
    assert grown < 60, f"{grown} MiB more for a file of {size} MiB"  # the table alone would be 38, text and parts 100


def test_the_size_limit_does_not_hold_for_streams(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "MAX_BYTES", 100)
    path = written(tmp_path, ".csv.gz")
    with pytest.raises(UserError, match="limit"):
        data.read(path)
    assert np.array_equal(np.concatenate(list(data.open(path))), X)
