"""Nothing is lost on the way in: leading zeros, words that look missing, long whole numbers, categories."""

from __future__ import annotations

import copy
import gzip
import io
import json

import numpy as np
import polars as pl
import pytest

import gnomon.data.sources as sources
from gnomon.data import load, ratings, split, split_ratings, triples
from gnomon.data.dataset import Dataset
from gnomon.errors import UserError

LONG = 2**53 + 1


@pytest.mark.parametrize(
    ("cells", "kind", "values"),
    [
        (["1", "2", "10"], "i", [1, 2, 10]),
        (["1", "2.0", "-0"], "i", [1, 2, 0]),
        (["1", "2.5", "3"], "f", [1, 2.5, 3]),
        (["007", "7", "10"], "U", ["007", "7", "10"]),
        (["red", "NA", "null"], "U", ["red", "NA", "null"]),
        ([str(LONG), str(LONG + 1), "5"], "i", [LONG, LONG + 1, 5]),
        (["123456789012345678901", "2", "3"], "U", ["123456789012345678901", "2", "3"]),
        (["True", "False", "True"], "U", ["True", "False", "True"]),
    ],
)
@pytest.mark.parametrize("quote", ["", '"'])
def test_a_target_is_what_its_column_says(write, cells, kind, values, quote):
    path = write("x,y\n" + "".join(f"0,{quote}{cell}{quote}\n" for cell in cells))
    y = load(path, target="y").y
    assert y.dtype.kind == kind and y.tolist() == values


def test_the_whole_column_decides_and_not_the_first_block(write, monkeypatch):
    monkeypatch.setattr(sources, "BLOCK", 16)
    path = write("x,y\n" + "1,10\n" * 20 + "2,NA\n3,a\n" + "4,010\n" * 5)
    assert load(path, target="y").y.tolist() == ["10"] * 20 + ["NA", "a"] + ["010"] * 5


@pytest.mark.parametrize("size", [7, 16, 64, 1 << 20])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("quote", ["", '"'])
def test_blocks_make_no_difference(write, monkeypatch, size, end, quote):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    header, blank = f"{quote}a{quote},b,c", ["", "   "]
    rows = [",".join(f"{quote if i % 7 == 3 else ''}{v!r}{quote if i % 7 == 3 else ''}" for v in row.tolist())
            for i, row in enumerate(X)]  # fmt: skip
    text = end.join([header, *blank, *rows])
    monkeypatch.setattr(sources, "BLOCK", size)
    for name, data in (
        ("t.csv", text.encode()),
        ("t.csv.gz", gzip.compress(text.encode())),
        ("u.csv", text.encode("utf-16")),
    ):
        assert np.array_equal(load(write(data, name)).X, X)
    broken = write(text.replace(repr(X[40, 1].item()), "oops"), "v.csv")
    with pytest.raises(UserError, match=r"'oops' is not a number \(v.csv, line 44, column 'b'\)"):
        load(broken)
    short = write(end.join([header, *blank, *rows[:30], "1,2", *rows[30:]]), "w.csv")
    with pytest.raises(UserError, match=r"2 fields, expected 3 \(w.csv, line 34\)"):
        load(short)


def test_line_ends_within_quotes_at_block_ends(write, monkeypatch):
    monkeypatch.setattr(sources, "BLOCK", 5)
    path = write('x,y\n1,plain\n2,"two\nlines, and a ""quote"""\n3,z\n')
    data = load(path, target="y")
    assert data.X[:, 0].tolist() == [1, 2, 3] and data.y.tolist() == ["plain", 'two\nlines, and a "quote"', "z"]


def test_float_features_are_exact_and_large_ones_are_not_refused(write):
    cells = ["9007199254740992", "1e300", "123456789012345683968", "-9007199254740994", "0.1", "5e-324"]
    data = load(write("a\n" + "\n".join(cells) + "\n"))
    assert data.X[:, 0].tolist() == [float(cell) for cell in cells]


# --- Parquet ------------------------------------------------------------------------------------------------------


def table_of_kinds():
    return pl.DataFrame(
        {
            "n": pl.Series([1, None, 3], dtype=pl.Int64),
            "f": pl.Series([0.5, 1.5, None]),
            "b": pl.Series([True, False, None]),
            "h": pl.Series([0.5, None, 2.0], dtype=pl.Float32),
            "m": pl.Series(["1.25", None, "3"]).cast(pl.Decimal(20, 2)),
            "c": pl.Series(["red", "blue", "red"], dtype=pl.Enum(["blue", "green", "red"])),
            "k": pl.Series(["red", "blue", "red"], dtype=pl.Categorical),
            "s": ["1", "NA", "007"],
            "d": [[1, 2], [3], []],
            "__index_level_0__": [10, 20, 30],
        }
    )


NUMBERS = ["n", "f", "b", "h", "m"]


@pytest.mark.parametrize("row_group", [None, 2])
def test_parquet_columns_keep_their_kinds(tmp_path, row_group):
    path = tmp_path / "t.parquet"
    table_of_kinds().write_parquet(path, row_group_size=row_group)
    data = load(path, columns=NUMBERS)
    nan = np.nan
    expected = [[1, 0.5, 1, 0.5, 1.25], [nan, 1.5, 0, nan, nan], [3, nan, nan, 2, 3]]
    assert np.array_equal(data.X, expected, equal_nan=True) and data.X.dtype == np.float64
    for column in ("c", "k"):
        y = load(path, columns=["n"], target=column).y
        assert y.tolist() == ["red", "blue", "red"]  # texts, and no class that no row has
    assert load(path, columns=["n"], target="s").y.tolist() == ["1", "NA", "007"]
    with pytest.raises(UserError, match=r"lists or records, not numbers \(t.parquet, column 'd'"):
        load(path, columns=["n", "d"])
    with pytest.raises(UserError, match="no column '__index_level_0__'"):
        load(path, columns=["__index_level_0__"])
    csv = tmp_path / "t.csv"
    table_of_kinds().select("n", "f", "h", "m").write_csv(csv)
    same = load(path, columns=["n", "f", "h", "m"]).X
    assert np.array_equal(load(csv).X, same, equal_nan=True)


def test_the_index_of_a_data_frame_is_no_feature(tmp_path):
    facts = json.dumps({"index_columns": ["when", {"kind": "range"}]})
    frame = pl.DataFrame({"a": [1.0, 2.0], "when": [5, 6]})
    frame.write_parquet(tmp_path / "t.parquet", metadata={"pandas": facts})
    assert load(tmp_path / "t.parquet").columns == ("a",)


def test_parquet_of_long_whole_numbers(tmp_path):
    frame = pl.DataFrame({"a": [0.5, 1.5], "id": pl.Series([LONG, LONG + 1], dtype=pl.UInt64)})
    frame.write_parquet(tmp_path / "t.parquet")
    assert load(tmp_path / "t.parquet", target="id").y.tolist() == [LONG, LONG + 1]


# --- JSON Lines ---------------------------------------------------------------------------------------------------


def lines(*records):
    return "\n".join(json.dumps(record) for record in records)


def test_json_lines_keep_kinds_and_take_absent_keys_as_missing(write):
    path = write("\ufeff" + lines({"a": 1, "b": True}, {"b": None, "a": 2.5}, {"a": None}) + "\r\n\r\n", "t.jsonl")
    data = load(path)
    assert data.columns == ("a", "b")
    assert np.array_equal(data.X, [[1, 1], [2.5, np.nan], [np.nan, np.nan]], equal_nan=True)
    ids = write(lines({"x": 1, "id": "007"}, {"x": 2, "id": "1"}), "u.jsonl")
    assert load(ids, target="id").y.tolist() == ["007", "1"]
    long = write(lines({"x": 1, "id": LONG}, {"x": 2, "id": 3}), "v.jsonl")
    assert load(long, target="id").y.tolist() == [LONG, 3]


def test_json_lines_of_texts_are_sentences(write):
    path = write(lines({"text": "one two", "kind": "a"}, {"text": "three", "kind": "b"}), "t.jsonl")
    data = load(path, target="kind")
    assert data.text == ("one two", "three") and data.y.tolist() == ["a", "b"] and data.X is None
    assert load(write(lines("one two", "three"), "u.jsonl")).text == ("one two", "three")


# --- arrays -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "kept"),
    [("u1", "f4"), ("i2", "f4"), ("?", "f4"), ("f2", "f4"), ("f4", "f4"), ("i4", "f8"), ("u8", "f8"), (">f8", "f8")],
)
def test_arrays_are_widened_only_where_a_value_would_be_rounded(write, dtype, kept):
    X = np.array([[1, 0], [0, 1]]).astype(dtype)
    stream = io.BytesIO()
    np.save(stream, X)
    data = load(write(stream.getvalue(), "t.npy"))
    assert data.X.dtype == kept and np.array_equal(data.X, X)
    stream = io.BytesIO()
    np.save(stream, np.array([[2**24 + 1]]))
    assert load(write(stream.getvalue(), "u.npy")).X[0, 0] == 2**24 + 1


# --- images -------------------------------------------------------------------------------------------------------


def picture(path, pixels):
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(pixels)).save(path)


def test_a_folder_of_grey_images(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 4, 3), dtype=np.uint8)
    for i, (kind, name) in enumerate(
        [("cat", "1.png"), ("cat", "2.bmp"), ("dog", "a.png"), ("dog", "b.tiff"), ("dog", "c.PNG")]
    ):
        picture(tmp_path / "pets" / kind / name, pixels[i])
    (tmp_path / "pets" / ".hidden").write_text("x")
    data = load(tmp_path / "pets")
    assert data.images == (4, 3) and data.levels == 256 and data.classes == ("cat", "dog")
    assert data.y.tolist() == ["cat"] * 2 + ["dog"] * 3 and np.array_equal(data.X.reshape(5, 4, 3), pixels)
    assert data.columns[4] == "pixel_1_1" and len(data.columns) == 12
    flat = load(tmp_path / "pets" / "dog")
    assert flat.y is None and np.array_equal(flat.X.reshape(3, 4, 3), pixels[2:])


def test_colors_and_sixteen_bits(tmp_path):
    rng = np.random.default_rng(0)
    grey, color = rng.integers(0, 256, (2, 3), dtype=np.uint8), rng.integers(0, 256, (2, 3, 3), dtype=np.uint8)
    picture(tmp_path / "a" / "x" / "1.png", grey)
    picture(tmp_path / "a" / "y" / "1.png", color)
    data = load(tmp_path / "a")
    assert data.images == (2, 3, 3) and data.columns[:3] == ("pixel_0_0_r", "pixel_0_0_g", "pixel_0_0_b")
    both = data.X.reshape(2, 2, 3, 3)
    assert np.array_equal(both[0], np.repeat(grey[..., None], 3, -1)) and np.array_equal(both[1], color)
    deep = rng.integers(0, 65536, (2, 3), dtype=np.uint16)
    picture(tmp_path / "b" / "x" / "1.png", deep)
    found = load(tmp_path / "b")
    assert found.levels == 65536 and np.array_equal(found.X.reshape(2, 3), deep)


def test_images_without_pillow_name_the_command(tmp_path, monkeypatch):
    picture(tmp_path / "a" / "x" / "1.png", np.zeros((2, 2), np.uint8))
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(UserError, match="pip install pillow"):
        load(tmp_path / "a")


# --- ratings and triples ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "users", "values", "times"),
    [
        (
            "f1.csv",
            "userId,movieId,rating,timestamp\n1,51,2.5,900000001\n1,52,3.0,900000002\n",
            [1, 1],
            [2.5, 3],
            [900000001, 900000002],
        ),
        ("f2.tsv", "1\t2\t3\n4\t5\t1\n", [1, 4], [3, 1], None),
        ("f3.tsv", "31\t700000000001\t4.25 \n31\t700000000002\t1.75\n\n", [31, 31], [4.25, 1.75], None),
        ("f4.csv", "\ufeffrating,item,user\r\n5,NA,007\r\n4,b,7\r\n", ["007", "7"], [5, 4], None),
        ("f5.csv", "user,item\nu1,a\n", ["u1"], None, None),
        ("f6.jsonl", lines({"user": "1", "item": 2, "rating": 5}), ["1"], [5], None),
    ],
)  # fmt: skip
def test_ratings_of_every_form(write, name, content, users, values, times):
    log = ratings(write(content, name))
    assert log.users.tolist() == users
    assert (log.values if values is None else log.values.tolist()) == values
    assert (log.times if times is None else log.times.tolist()) == times


def test_long_ids_stay_what_they_are(write):
    log = ratings(write(f"user,item\n{LONG},123456789012345678901\n{LONG + 1},2\n"))
    assert log.users.tolist() == [LONG, LONG + 1] and log.items.tolist() == ["123456789012345678901", "2"]
    assert ratings(write("u,i\na,b\n"), user="u", item="i").items.tolist() == ["b"]


@pytest.mark.parametrize(
    ("content", "options", "parts"),
    [
        ("user,item,rating\n1,2,3\n,2,3\n", {}, ("line 3", "'user'", "missing")),
        ("user,item,rating\n1,2,x\n", {}, ("line 2", "'rating'", "'x'")),
        ("user,item,rating\n1,2,\n", {}, ("line 2", "'rating'", "missing")),
        ("user,thing\n1,2\n", {}, ("no column is called 'item'", "item=", "--columns USER,ITEM")),
        ("user,thing\n1,2\n", {"item": "ting"}, ("no column 'ting'", "'thing'")),
        ("user,item\n1,2\n", {"item": "user"}, ("'user' must be named once, got twice",)),
        ("1\n2\n", {}, ("the table has 1 column and none for item",)),
        ("user,item\n", {}, ("no rows",)),
    ],
)
def test_ratings_that_are_wrong(write, content, options, parts):
    with pytest.raises(UserError) as caught:
        ratings(write(content), **options)
    assert all(part in str(caught.value) for part in parts) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "values"), [("plays", [3, 1, 5, 2]), ("count", [3, 1, 5, 2]), ("joy", None), ("note", None)]
)
def test_a_third_column_of_ratings_is_never_dropped_in_silence(write, name, values):
    """HB-40: a known name is the rating, another one is named in a warning, with what takes it."""
    file = write(f"user,item,{name}\n1001,7,3\n1001,9,1\n2002,7,5\n900000001,8,2\n")
    if values is not None:
        assert ratings(file).values.tolist() == values
        return
    with pytest.warns(UserWarning, match=f"column '{name}' is not used .*; value='{name}' takes it"):
        assert ratings(file).values is None
    assert ratings(file, value=name).values.tolist() == [3, 1, 5, 2]


def test_a_generator_is_a_seed_of_every_split(write):
    """HB-44: it gives one number; the same generator, the same split."""
    log = ratings(write(REPEATED))
    made = [np.random.default_rng(3), np.random.default_rng(3), np.random.RandomState(3), np.random.RandomState(3)]
    for cut in (log.split_rows, lambda test, seed: split(np.arange(20), test=test, seed=seed),
                lambda test, seed: split_ratings(log, "user", seed=seed)):  # fmt: skip
        found = [[part.tolist() for part in cut(test=0.4, seed=copy.deepcopy(one))] for one in made]
        assert found[0] == found[1] and found[2] == found[3]
    whole = Dataset("t", X=np.arange(20.0)[:, None])
    train, _ = split(whole, seed=np.random.default_rng(0))
    assert type(train.source["split_seed"]) is int
    assert split(whole, seed=train.source["split_seed"])[0].X.tolist() == train.X.tolist()


REPEATED = "user,item\nu1,a\nu1,a\nu1,a\nu1,b\nu2,b\nu2,b\nu2,c\n"


def test_repeats_are_counted_summed_or_the_last_is_kept(write):
    log = ratings(write(REPEATED))
    counted, repeats = log.distinct("count")
    assert repeats == 3 and counted.values.tolist() == [3, 1, 2, 1]
    assert list(zip(counted.users, counted.items, strict=True)) == [("u1", "a"), ("u1", "b"), ("u2", "b"), ("u2", "c")]
    timed = ratings(write("user,item,rating,time\n1,1,5,30\n1,1,3,10\n1,2,1,20\n1,1,4,30\n"))
    assert timed.distinct("last")[0].values.tolist() == [1, 4]
    assert timed.distinct("sum")[0].values.tolist() == [1, 12]
    with pytest.raises(UserError, match="repeats='sum' needs values"):
        log.distinct("sum")
    with pytest.raises(UserError, match="last, sum, count"):
        log.distinct("first")


def test_no_pair_is_on_both_sides_of_a_split(write):
    log = ratings(write(REPEATED))
    pairs = list(zip(log.users.tolist(), log.items.tolist(), strict=True))
    for seed in range(100):
        train, test = split(Dataset("log", ratings=log), test=0.5, seed=seed)
        sides = [set(zip(part.ratings.users, part.ratings.items, strict=True)) for part in (train, test)]
        assert sides[0] | sides[1] == set(pairs) and not sides[0] & sides[1] and min(map(len, sides)) == 2
        assert len(train) + len(test) == len(pairs)
    again = split(Dataset("log", ratings=log), test=0.5, seed=99)[1]
    assert again.fingerprint == test.fingerprint


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.tsv", "uk\tembassy\tusa\nusa\tvisits\t7\n"),
        ("t.csv", "head,relation,tail\nuk,embassy,usa\nusa,visits,7\n"),
        ("u.csv", "Object,Predicate,Subject\nusa,embassy,uk\n7,visits,usa\n"),
        (
            "t.jsonl",
            lines(
                {"head": "uk", "relation": "embassy", "tail": "usa"}, {"head": "usa", "relation": "visits", "tail": "7"}
            ),
        ),
    ],
)  # fmt: skip
def test_triples_of_every_form(write, name, content):
    graph = triples(write(content, name))
    assert graph.heads.tolist() == ["uk", "usa"] and graph.tails.tolist() == ["usa", "7"]
    assert graph.relations.tolist() == ["embassy", "visits"] and graph.entities.tolist() == ["7", "uk", "usa"]
