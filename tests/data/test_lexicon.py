"""Words as concepts: a graph by hand, and nltk's reader of the same WordNet files."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import nltk
import numpy as np
import polars as pl
import pytest
from nltk.corpus.reader.wordnet import WordNetCorpusReader

import gnomon
from gnomon.cli.main import run
from gnomon.data import Lexicon, Preparation
from gnomon.errors import UserError, UserTypeError, UserValueError

pytestmark = pytest.mark.spec("DLN-192")
WORDS = {
    "bank": ["shore", "firm"],
    "store": ["shop"],
    "Rhine": ["river"],
    "beach": ["shore"],
    "plant": ["firm", "herb"],
}
ABOVE = {
    "shop": ["company", "place"], "firm": ["company"], "company": ["group"], "shore": ["land"], "land": ["place"],
    "river": ["water"],
}  # fmt: skip
LICENSE = "This software and database is provided as it is"

# word, part of speech, (offset, times met) of each sense in order
INDEX = [
    ("bank", "n", [(100, 25), (200, 20)]), ("bank", "v", [(700, 30)]), ("depository", "n", [(200, 0)]),
    ("slope", "n", [(300, 9)]), ("entity", "n", [(400, 11)]), ("institution", "n", [(500, 3)]),
    ("shop", "n", [(600, 2)]), ("rely", "v", [(800, 1)]), ("good", "a", [(900, 5), (950, 2)]),
    ("well", "r", [(960, 7)]), ("mart", "n", [(650, 0)]), ("walmart", "n", [(660, 0)]),
]  # fmt: skip
# offset, type, words, (pointer, offset)
DATA = {
    "noun": [
        (100, "n", ["bank"], [("@", 300)]), (200, "n", ["depository", "bank"], [("@", 500), ("~", 600)]),
        (300, "n", ["slope"], [("@", 400)]), (400, "n", ["entity"], []), (500, "n", ["institution"], [("@", 400)]),
        (600, "n", ["shop"], [("@", 500), ("@", 300)]), (650, "n", ["mart"], [("@", 600), ("@", 400)]),
        (660, "n", ["Walmart"], [("@i", 650)]),
    ],
    "verb": [(700, "v", ["bank"], [("@", 800)]), (800, "v", ["rely"], [])],
    "adj": [(900, "a", ["good(p)"], []), (950, "s", ["good"], [("&", 900)])],
    "adv": [(960, "r", ["well"], [])],
}  # fmt: skip


@pytest.fixture
def wordnet(tmp_path: Path) -> Path:
    """A WordNet database in small, in the format of wndb(5WN)."""
    folder, head = tmp_path / "wordnet", f"  1 {LICENSE}\n  2 WordNet 3.0 Copyright 2006 by Princeton University\n"
    folder.mkdir()
    letters = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
    numbers = {"n": 1, "v": 2, "a": 3, "r": 4, "s": 5}
    senses = []
    for name, rows in DATA.items():
        lines = [
            f"{word} {pos} {len(found)} 1 @ {len(found)} {sum(n > 0 for _, n in found)} "
            + " ".join(f"{10 * offset:08}" for offset, _ in found)
            for word, pos, found in sorted(INDEX)
            if pos == letters[name]
        ]
        (folder / f"index.{name}").write_text(head + "\n".join(f"{line}  " for line in lines) + "\n")
        # nltk seeks by the offset in bytes: lines of data stand where their offsets say
        content = head
        for offset, kind, words, pointers in rows:
            assert len(content) < 10 * offset
            content = content.ljust(10 * offset - 1, " ") + "\n"
            texts = " ".join(f"{word} 0" for word in words)
            marks = "".join(f"{mark} {10 * other:08} {letters[name]} 0000 " for mark, other in pointers)
            frames = "01 + 02 00 " if name == "verb" else ""
            content += f"{10 * offset:08} 03 {kind} {len(words):02x} {texts} {len(pointers):03} {marks}{frames}| gloss"
        (folder / f"data.{name}").write_text(content + "\n")
        (folder / f"{name}.exc").write_text("")
        kinds = {offset: numbers[kind] for offset, kind, *_ in rows}
        senses += [
            f"{word}%{kinds[offset]}:03:00:: {10 * offset:08} {i + 1} {n}"
            for word, pos, found in INDEX
            for i, (offset, n) in enumerate(found)
            if pos == letters[name]
        ]
    (folder / "index.sense").write_text("\n".join(sorted(senses)) + "\n")
    (folder / "lexnames").write_text("".join(f"{i:02}\tx{i}\t1\n" for i in range(45)))
    (folder / "cntlist.rev").write_text("")
    return folder


def test_concepts_and_distances_of_a_graph_by_hand() -> None:
    lexicon = Lexicon(WORDS, ABOVE)
    assert lexicon.concepts("bank") == ("shore", "firm") and lexicon.concepts("nothing") == ()
    assert lexicon.concepts("BANK") == ("shore", "firm") and lexicon.concepts("Rhine") == ("river",)
    distances = {
        ("shop", "shop"): 0, ("shop", "company"): 1, ("shop", "firm"): 2, ("shop", "land"): 2, ("shop", "shore"): 3,
        ("shore", "place"): 2, ("firm", "group"): 2,
    }  # fmt: skip
    for (a, b), d in distances.items():
        assert lexicon.path_similarity(a, b) == lexicon.path_similarity(b, a) == 1 / (1 + d), (a, b)
    assert lexicon.path_similarity("river", "shop") == 0.0  # nothing is above both
    assert lexicon.path_similarity("group", "place") == 0.0  # what is below both is no path
    around = Lexicon({"a": ["x"]}, {"x": ["y"], "y": ["x"]})
    assert around.path_similarity("x", "y") == 0.5


def test_tokens_become_concepts_and_what_is_ambiguous_is_told() -> None:
    lexicon = Lexicon(WORDS, ABOVE)
    tokens = ["the", "Bank", "store", "bank", "plant", "bank"]
    assert lexicon.transform(tokens) == ["the", "shore", "shop", "shore", "firm", "shore"]
    assert lexicon.transform(tokens[:3], "all", "drop") == ["shore", "firm", "shop"]
    assert lexicon.transform([]) == [] and lexicon.transform(["", "😀 中"]) == ["", "😀 中"]
    found = lexicon.ambiguity(tokens)
    assert (found.tokens, found.known, found.ambiguous) == (6, 5, 4)
    assert dict(found.words) == {"bank": 2, "Bank": 1, "plant": 1} and next(iter(found.words)) == "bank"
    assert "5 of 6 tokens have a concept, 4 of them several (bank, Bank, plant)" in str(found)
    assert str(lexicon.ambiguity(["store"])) == "1 of 1 tokens have a concept, 0 of them several"


@pytest.mark.filterwarnings("ignore:The multilingual functions")
def test_wordnets_files_say_what_nltk_reads_in_them(wordnet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names, senses and every pair of nouns; a verb has no root above it, so nltk is asked without one."""
    monkeypatch.setattr(nltk.data, "path", [str(wordnet)])
    monkeypatch.setattr(WordNetCorpusReader, "map_wn", lambda self: {})  # other languages
    peer = WordNetCorpusReader(str(wordnet), None)
    (wordnet / "index.sense").rename(wordnet / "index.none")  # nltk takes nouns before verbs, whatever is frequent
    lexicon = Lexicon.load(wordnet)
    synsets = {one.name(): one for word, *_ in INDEX for one in peer.synsets(word) if one.pos() != "s"}
    assert {"bank.n.01", "depository.n.01", "bank.v.01", "good.a.01", "walmart.n.01"} <= set(synsets)
    for word, *_ in INDEX:
        found = [
            one for one in lexicon.concepts(word) if one != "good.s.02"
        ]  # whose number differs among nltk's versions
        assert found == [one.name() for one in peer.synsets(word) if one.pos() != "s"], word
    for a, b in product(synsets, synsets):
        expected = peer.path_similarity(synsets[a], synsets[b], simulate_root=False)
        assert lexicon.path_similarity(a, b) == (expected or 0.0), (a, b)
    for file in peer._data_file_map.values():  # nltk leaves them open
        file.close()
    assert lexicon.path_similarity("walmart.n.01", "entity.n.01") == 1 / 3
    assert LICENSE in lexicon.license and "Princeton" in lexicon.license
    assert repr(lexicon) == "Lexicon(11 words, 13 concepts)" and len(lexicon) == 11


def test_the_most_frequent_concept_is_the_first(wordnet: Path) -> None:
    assert Lexicon.load(wordnet).concepts("bank") == ("bank.v.01", "bank.n.01", "depository.n.01")
    assert Lexicon.load(wordnet).concepts("good") == ("good.a.01", "good.s.02")


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (lambda folder: (folder / "data.noun").unlink(), "the file must be there"),
        (
            lambda folder: (folder / "index.verb").write_text("bank v x 1\n"),
            r"must be one of a WordNet database, got another \(.*line 1\)",
        ),
        (lambda folder: (folder / "data.adv").write_text("\n00009600 02 r zz\n"), r"data.adv, line 2"),
        (lambda folder: [one.unlink() for one in folder.glob("index.*")], "must be a WordNet database"),
    ],
)
def test_a_broken_database_is_refused_by_its_line(wordnet: Path, break_it: Callable[[Path], Any], said: str) -> None:
    break_it(wordnet)
    with pytest.raises(UserValueError, match=said):
        Lexicon.load(wordnet)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "must be JSON"),
        ("[]", "must have words and hypernyms"), ('{"words": {}}', "must have words and hypernyms"),
        ('{"words": {"a": "x"}, "hypernyms": {}}', r"list of names \(.*words, 'a'\)"),
        ('{"words": {"a": []}, "hypernyms": {}}', "a word must have a concept"),
        ('{"words": [], "hypernyms": {}}', "words must be lists of concepts by name"),
    ],
)  # fmt: skip
def test_a_broken_file_is_refused(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "l.json").write_text(content)
    with pytest.raises(UserError, match=said):
        Lexicon.load(tmp_path / "l.json")
    with pytest.raises(UserValueError, match="no such file"):
        Lexicon.load(tmp_path / "none.json")


def test_what_is_no_concept_and_no_tokens() -> None:
    lexicon = Lexicon(WORDS, ABOVE)
    with pytest.raises(UserValueError, match=r"no concept 'bank' \(path_similarity\); did you mean 'shore'"):
        lexicon.path_similarity("bank", "shop")
    for wrong in ("a text", [3]):
        with pytest.raises(UserTypeError, match="tokens must be a list of strings"):
            lexicon.transform(wrong)  # type: ignore[arg-type]
    for options in ({"choose": "last"}, {"unknown": "ask"}):
        with pytest.raises(UserValueError, match="must be"):
            lexicon.transform(["a"], **options)  # type: ignore[arg-type]
    with pytest.raises(UserValueError, match="text must be bag-of-words, counts or tf-idf beside a lexicon"):
        Preparation(lexicon="l.json")


def test_a_text_is_counted_by_its_concepts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """New rows with words of the lexicon that no training row had; the run answers without the file."""
    monkeypatch.chdir(tmp_path)
    Path("lexicon.json").write_text(json.dumps({"words": WORDS, "hypernyms": ABOVE, "license": "free"}))
    texts = ["walk along the beach today", "the store sells bread now"] * 20
    pl.DataFrame({"text": [f"{one} {i}" for i, one in enumerate(texts)], "label": ["out", "in"] * 20}).write_csv(
        "t.csv"
    )
    words = ["fit", "softmax-regression", "t.csv", "--target", "label", "--text", "counts", "--lexicon", "lexicon.json"]
    assert run([*words, "--out", "run"]) == 0
    Path("lexicon.json").unlink()
    prepared = gnomon.load("run").preparation_
    assert {"text:shore", "text:shop"} <= set(prepared.names_out) and "text:beach" not in prepared.names_out
    new = prepared.transform(pl.DataFrame({"text": ["Bank bank store", "plant"]}))
    columns = [prepared.names_out.index(f"text:{one}") for one in ("shore", "shop")]
    np.testing.assert_array_equal(new[:, columns], [[2, 1], [0, 0]])
    assert any("32 of 192 tokens have a concept, 0 of them several" in line for line in prepared.lines())
    again = gnomon.load("run").predict(pl.DataFrame({"text": ["bank", "store"]}))
    assert again.tolist() == ["out", "in"]


def test_a_word_that_is_spelled_as_a_concept_is_not_taken_for_it(tmp_path: Path) -> None:
    """``a`` means b, which is too rare to be kept, and ``c`` means a, which is."""
    (tmp_path / "l.json").write_text(json.dumps({"words": {"a": ["b"], "c": ["a"]}, "hypernyms": {}}))
    rows = pl.DataFrame({"text": [f"c and c or c {i}" for i in range(40)]})
    prepared = Preparation(text="counts", lexicon=str(tmp_path / "l.json"), words=1).fit(rows)
    assert prepared.names_out == ("text:a",)
    assert prepared.transform(pl.DataFrame({"text": ["a A", "c a"]})).tolist() == [[0.0], [1.0]]
