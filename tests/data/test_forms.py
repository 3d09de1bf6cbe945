"""Files as people have them: other separators, encodings and marks within numbers, JSON arrays, workbooks."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import numpy as np
import pytest

from gnomon.cli.main import run
from gnomon.data import File, load, ratings, read
from gnomon.data import open as stream
from gnomon.data.form import Form
from gnomon.data.overview import overview
from gnomon.data.sources import likely_encoding
from gnomon.errors import UserError, UserValueError
from gnomon.runs.config import DataSpec
from gnomon.tasks.fitting import fit

MOVIES = "1::Café Noir (1999)::Drama\n2::Night: Part II (2001)::Drama|Comedy\n".encode("latin-1")
RATINGS = b"1::1::5::900000001\n1::2::3::900000002\n2::1::4::900000003\n"


@pytest.fixture
def put(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(name, content):
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return tmp_path / name

    return write


@pytest.mark.parametrize("name", ["ratings.dat", "ratings.csv"])
def test_double_colons_separate(put, name):
    """HB-55: the files of MovieLens."""
    log = ratings(put(name, RATINGS))
    assert log.values.tolist() == [5, 3, 4] and log.users.tolist() == [1, 1, 2] and log.items.tolist() == [1, 2, 1]
    assert log.times.tolist() == [900000001, 900000002, 900000003]


def test_tabs_and_blanks_separate_in_files_whose_ending_says_nothing(put):
    """HB-55: u.data has tabs; auto-mpg.data has runs of blanks, a tab and quoted names."""
    assert ratings(put("u.data", "11\t21\t3\t900000004\n12\t22\t4\t900000005\n")).values.tolist() == [3, 4]
    cars = put("auto.data", '18.0   8   307.0\t"chevrolet malibu"\n 15.5   4   98.00\t"ford pinto"  \n')
    data = load(cars, target=3)
    assert data.X.tolist() == [[18, 8, 307], [15.5, 4, 98]] and data.y.tolist() == ["chevrolet malibu", "ford pinto"]
    assert load(put("iris.data", "5.1,3.5,a\n4.9,3.0,b\n"), target=2).X.tolist() == [[5.1, 3.5], [4.9, 3.0]]
    assert load(File(put("p.csv", "1 2 3\n4  5 6\n"), separator="space")).X.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert load(File(put("q.csv", "a-b;c-d\n1-2;3-4\n"), separator=";")).frame.columns == ["a-b", "c-d"]


@pytest.mark.parametrize("name", ["movies.dat", "movies.csv"])
def test_latin_1_is_proposed_and_read_by_option(put, name):
    """HB-55: the error names the option, and the option reads the file at every door."""
    file = put(name, MOVIES)
    with pytest.raises(UserValueError, match=r"not UTF-8: byte 0xe9 \(movies.*line 1, column 7\); --encoding latin-1"):
        load(file)
    known = File(file, encoding="latin-1")
    assert load(known).frame["column_2"].to_list() == ["Café Noir (1999)", "Night: Part II (2001)"]
    assert overview(known)[0]["first"][0][1] == "Café Noir (1999)"
    assert load(File(file, encoding="cp1252", separator="::"), target=1).y[0] == "Café Noir (1999)"


@pytest.mark.parametrize(
    ("text", "encoding", "guess"),
    [
        ("naïve café\n", "latin-1", "latin-1"),
        ("5 € für dich\n", "cp1252", "cp1252"),
        ("机器学习很有意思\n", "gb18030", "gb18030"),
        ("机器学习\n", "utf-16-le", None),
    ],
)
def test_texts_of_other_encodings(put, text, encoding, guess):
    data = text.encode(encoding)
    file = put("t.txt", data)
    if guess:
        assert likely_encoding(data) == guess
    with pytest.raises(UserValueError, match=f"--encoding {guess or 'utf-16-le'}"):
        read(file)
    assert read(File(file, encoding=encoding)).text == (text.strip(),)
    assert list(stream(File(file, encoding=encoding))) == [[text.strip()]]


def test_a_decimal_comma_is_proposed_and_read_by_option(put, capsys):
    """HB-57: [[1.5, 2], [3.25, 4.75]], or one line that names the option; never a category."""
    file = put("dec.csv", "x;y\n1,5;2,0\n3,25;4,75\n")
    for door in (lambda: load(file), lambda: load(file, target="x"), lambda: next(iter(stream(file)))):
        with pytest.raises(UserValueError, match=r"is a number with a comma .*line 2, column '[xy]'.*--decimal ,"):
            door()
    assert load(File(file, decimal=",")).X.tolist() == [[1.5, 2], [3.25, 4.75]]
    assert [one.tolist() for one in stream(File(file, decimal=","))] == [[[1.5, 2], [3.25, 4.75]]]
    assert load(File(file, decimal=","), target="x").y.tolist() == [1.5, 3.25]
    file = put("dec.csv", "x;y\n1,5;2,0\n3,25;4,75\n2,5;0,5\n0,5;3,5\n1,25;1,75\n")
    assert run(["fit", "ppca", str(file), "--decimal", ",", "--n-components", "1", "--out", "r", "--holdout", "0"]) == 0
    assert json.loads(Path("r/config.json").read_text())["data"]["form"] == {"decimal": ","}
    capsys.readouterr()
    assert run(["evaluate", "r", str(file)]) == 0  # as the fit read it
    assert (
        run(
            [
                "evaluate",
                "r",
                str(put("plain.csv", "x;y\n1.5;2.0\n3.25;4.75\n2.5;0.5\n0.5;3.5\n1.25;1.75\n")),
                "--decimal",
                ".",
            ]
        )
        == 0
    )
    first, second = (text.split()[:2] for text in capsys.readouterr().out.split("log_likelihood")[1:])
    assert first == second


@pytest.mark.parametrize(
    ("content", "form", "X"),
    [
        ('a,b\n"1,234",5\n"2,000.5",6\n', {"thousands": ","}, [[1234, 5], [2000.5, 6]]),
        ("a;b\n1.234,5;5\n2;6,25\n", {"decimal": ",", "thousands": "."}, [[1234.5, 5], [2, 6.25]]),
        ("a;b\n1'234.5;5\n2;-6.25\n", {"thousands": "'"}, [[1234.5, 5], [2, -6.25]]),
        ("a;b\n1 234,5;5\n;1,5e3\n", {"decimal": ",", "thousands": " "}, [[1234.5, 5], [np.nan, 1500]]),
    ],
)
def test_marks_within_numbers(put, content, form, X):
    """HB-57."""
    np.testing.assert_array_equal(load(File(put("t.csv", content), **form)).X, X)


def test_marks_are_proposed_and_mixed_ones_are_refused(put):
    """HB-57: 12.345 under a decimal comma is not read as twelve."""
    with pytest.raises(UserValueError, match="--thousands , reads it"):
        load(put("t.csv", 'a,b\n"1,234",5\n"22,000",6\n'))
    with pytest.raises(UserValueError, match=r"--decimal , --thousands \. reads it"):
        load(put("t.csv", "a;b\n1.234,5;5\n2;6\n"))
    with pytest.raises(UserValueError, match=r"'12.345' must be written with the decimal mark ',' \(t.csv, line 3"):
        load(File(put("t.csv", "a;b\n1,5;5\n12.345;6\n"), decimal=","))
    assert load(put("t.csv", 'a,b\n"red, blue",5\n"1,5",6\n')).frame["a"].to_list() == ["red, blue", "1,5"]


def test_a_form_is_kept_with_the_run_and_refused_where_it_says_nothing(put, tmp_path):
    file = put("t.dat", "name::x::y\nb\xe9::1::0\na::2::1\n".encode("latin-1") * 1 + b"c::3::1\nd::4::0\n")
    known = File(file, encoding="latin-1", separator="::")
    fit("softmax-regression", known, target="y", run=tmp_path / "r")
    spec = DataSpec.from_json(json.loads((tmp_path / "r" / "config.json").read_text())["data"])
    assert spec.form == {"encoding": "latin-1", "separator": "::"} and spec.features == ["name", "x"]
    np.save("a.npy", np.ones((2, 2)))
    with pytest.raises(UserValueError, match=r"a \.npy file is read without encoding"):
        load(File("a.npy", encoding="latin-1"))
    with pytest.raises(UserValueError, match=r"a \.txt file is read without decimal"):
        load(File(put("t.txt", "a"), decimal=","))


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        ("iris", ["--depth", "8"], "iris is built in, and nothing is to be said of how it is read (depth)"),
        ("a.npy", ["--encoding", "latin-1"], "a .npy file is read without encoding"),
        ("a.npy", ["--backdrop", "white"], "a .npy file is read without backdrop"),
    ],
)
def test_the_command_line_refuses_what_says_nothing_of_the_data(tmp_path, monkeypatch, capsys, data, options, words):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.ones((8, 2)))
    assert run(["fit", "kmeans", data, *options, "--out", "run"]) == 2
    assert words in capsys.readouterr().err and not (tmp_path / "run").exists()
    with pytest.raises(UserValueError, match="is built in"):
        load(File("iris", depth="8"))


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"encoding": "latin-one"}, "encoding must be a name that Python knows"),
        ({"encoding": "rot13"}, "encoding must be a name that Python knows"),
        ({"encoding": 3}, "encoding must be text, got 3"),
        ({"separator": ""}, "separator must be"),
        ({"separator": "x"}, "separator must be"),
        ({"decimal": ";"}, "decimal must be . or ,"),
        ({"thousands": "x"}, "thousands must be"),
        ({"decimal": ",", "thousands": ","}, "the mark ',' must stand for one thing"),
        ({"decimal": ",", "separator": ","}, "the mark ',' must stand for one thing"),
    ],
)
def test_forms_that_are_none(options, part):
    with pytest.raises(UserError) as caught:
        Form(**options)
    assert part in str(caught.value) and "\n" not in str(caught.value)


def test_json_arrays_of_objects(put):
    rows = [{"a": 1, "b": "x", "y": 0.5}, {"a": None, "b": "y", "y": 2}]
    for file in (put("t.json", json.dumps(rows, indent=2)), put("u.json", "\n".join(map(json.dumps, rows)))):
        data = load(file, target="y")
        assert data.frame.rows() == [(1.0, "x"), (None, "y")] and data.y.tolist() == [0.5, 2.0]
    assert load(put("s.json", json.dumps(["one two", "three"]))).text == ("one two", "three")
    with pytest.raises(UserValueError, match=r"'x' is a text, the objects before hold a number \(t.json, object 2"):
        load(put("t.json", '[{"a": 1}, {"a": "x"}]'))
    for content in ('{"a": [1, 2]}', '{"a":\n 1}', "[1, 2]", "[]", "3", '[{"a": 1}', '[{"a": "\\ud800"}]'):
        with pytest.raises(UserValueError) as caught:
            load(put("t.json", content))
        assert "\n" not in str(caught.value)


def test_targets_of_long_ids_are_exact_and_the_offending_line_is_named(put):
    """B2-29."""
    whole = '{"id": 202101010000000003, "x": 1}\n'
    assert load(put("ids.jsonl", whole + whole), target="id").y.tolist() == [202101010000000003] * 2
    with pytest.raises(UserValueError, match=r"10254939386542155531 has more than 64 bits \(ids.jsonl, line 2"):
        load(put("ids.jsonl", whole + '{"id": 10254939386542155531, "x": 2}\n'), target="id")


@pytest.mark.parametrize("cell", ["inf", "-inf", "1e400"])
def test_an_infinite_target_is_refused(put, cell):
    with pytest.raises(UserValueError, match=rf"'{cell}' is not finite \(t.csv, line 3, column 'y'\)"):
        load(put("t.csv", f"x,y\n1,2.5\n2,{cell}\n"), target="y")


def workbook(path, rows):
    from openpyxl import Workbook

    book = Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path


def test_workbooks(tmp_path, monkeypatch):
    day = datetime.datetime(2024, 2, 29)
    rows = [["a", "b", "when", "ok"], [1, "x", day, True], [2.5, None, day, False], [], ["NA", "z", None, None]]
    file = workbook(tmp_path / "t.xlsx", rows)
    data = load(file)
    assert data.frame.rows() == [(1.0, "x", day, True), (2.5, None, day, False), (None, "z", None, None)]
    assert overview(file)[0]["rows"] == 3
    mixed = workbook(tmp_path / "m.xlsx", [["a"], [1], ["two"]])
    with pytest.raises(UserValueError, match=r"'two' is a text, the rows before hold a number \(m.xlsx, row 3"):
        load(mixed)
    for rows in ([], [["a"]], [["a", "a"], [1, 2]], [["a"], [1, 2]]):
        with pytest.raises(UserValueError):
            load(workbook(tmp_path / "w.xlsx", rows))
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(UserValueError, match="Excel files need openpyxl; run: pip install openpyxl"):
        load(file)
