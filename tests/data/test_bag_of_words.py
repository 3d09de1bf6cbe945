"""Bags of words against scikit-learn, by hand, and as columns of a table that every table system takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

import gnomon
from gnomon.cli.main import run
from gnomon.data import Dataset, Preparation, Prepared
from gnomon.data.bag_of_words import BagOfWords, TfIdf
from gnomon.data.column_steps import step_from_json, step_to_json
from gnomon.data.word_steps import WordsStep, refuse_large
from gnomon.errors import UserError, UserTypeError, UserValueError

TEXTS = ["to be or not to be", "", "be \U0001f600 \u6211\u4eec na\u00efve be", "to do", "  ", "x" * 400 + " do"]


def random_texts(n: int, seed: int = 3) -> list[str]:
    draw = np.random.default_rng(seed)
    return [" ".join(f"w{i}" for i in draw.zipf(1.6, draw.integers(0, 30)) % 97) for _ in range(n)]


def vectorizer(words: Any, *, binary: bool) -> CountVectorizer:
    known = {"tokenizer": str.split, "token_pattern": None, "lowercase": False}
    return CountVectorizer(vocabulary=list(words), binary=binary, **known)


@pytest.mark.spec("DLN-191")
@pytest.mark.spec("NLP-09")
@pytest.mark.spec("PRA-166")
@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("texts", [TEXTS, random_texts(200)])
def test_counts_and_presence_are_those_of_scikit_learn(texts: list[str], binary: bool) -> None:
    bag = BagOfWords(binary=binary)
    found = bag.fit_transform(texts)
    assert isinstance(found, sp.csr_matrix) and found.has_canonical_format
    words = bag.vocabulary_.tokens
    assert set(words) == set(
        CountVectorizer(tokenizer=str.split, token_pattern=None, lowercase=False).fit(texts).vocabulary_
    )
    more = [*texts, "to w1 never-seen \U0001f680 w1"]
    peer = vectorizer(words, binary=binary)
    assert (found != peer.transform(texts)).nnz == 0
    assert (bag.transform(more) != peer.transform(more)).nnz == 0
    assert found.nnz == np.count_nonzero(found.toarray())  # nothing stored that is 0


@pytest.mark.spec("DLN-191")
@pytest.mark.spec("NLP-09")
@pytest.mark.spec("PRA-166")
def test_order_is_lost_words_come_back_and_unknown_ones_are_counted() -> None:
    bag = BagOfWords().fit(TEXTS)
    assert (bag.transform(["be to or be"]) != bag.transform(["or be be to"])).nnz == 0
    back = bag.inverse_transform(bag.transform(TEXTS))
    assert [sorted(words) for words in back] == [sorted(set(text.split())) for text in TEXTS]
    new = ["be new newer be", "", "newest", "do"]
    assert bag.unknown(new).tolist() == [2, 0, 1, 0]
    assert bag.transform(new).sum(1).A1.tolist() == [2, 0, 0, 1]


@pytest.mark.spec("PRA-166")
def test_rare_words_and_the_size_of_the_vocabulary() -> None:
    texts = ["b a b", "c a b", "d d"]
    assert BagOfWords().fit(texts).vocabulary_.tokens == ("b", "a", "d", "c")
    assert BagOfWords(min_count=2).fit(texts).vocabulary_.tokens == ("b", "a", "d")
    assert BagOfWords(max_words=2).fit(texts).vocabulary_.tokens == ("b", "a")
    assert BagOfWords(unit="char").fit(["\u6211\u4eec", "\u6211"]).vocabulary_.tokens == ("\u6211", "\u4eec")
    assert BagOfWords().fit([["a b", "c"], []]).vocabulary_.tokens == ("a b", "c")


@pytest.mark.spec("DLN-191")
@pytest.mark.spec("PRA-166")
def test_many_words_stay_sparse() -> None:
    """10^5 different words: 8 GB as a dense table, two megabytes here."""
    texts = [[f"w{i}" for i in range(j, 100_000, 10_000)] for j in range(10_000)]
    found = BagOfWords().fit_transform(texts)
    assert found.shape == (10_000, 100_000) and found.nnz == 10**5
    assert found.data.nbytes + found.indices.nbytes < 2e6


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: BagOfWords().fit("a text"), UserTypeError, "X must be a list of texts"),
        (lambda: BagOfWords().fit([1.0]), UserTypeError, "X, text 0"),
        (lambda: BagOfWords().fit(["", " "]), UserValueError, "the texts have no tokens"),
        (lambda: BagOfWords(min_count=3).fit(["a b a"]), UserValueError, "no word occurs 3 times"),
        (lambda: BagOfWords().transform(["a"]), UserValueError, "call fit first"),
        (lambda: BagOfWords(max_words=0), UserValueError, "max_words must be at least 1"),
        (lambda: BagOfWords().fit(["a b"]).inverse_transform(np.ones((1, 3))), UserValueError, "2 columns, got 3"),
        (lambda: TfIdf(norm="l1"), UserValueError, "norm must be none or l2"),  # type: ignore[arg-type]
        (lambda: TfIdf().transform(["a"]), UserValueError, "call fit first"),
        (lambda: Preparation(text="tfidf"), UserValueError, "did you mean 'tf-idf'"),
        (lambda: Preparation(words=0), UserValueError, "words must be at least 1"),
        (lambda: refuse_large(10**9, 10**6, "here"), UserValueError, "8000000.0 GB"),
    ],
)
def test_mistakes_are_named(call: Any, error: type[UserError], says: str) -> None:
    with pytest.raises(error, match=says.replace("'", ".")):
        call()


@pytest.mark.spec("DLN-194")
def test_tf_idf_by_hand() -> None:
    texts = ["all rare rare", "all two", "all two", "all"]
    weights = TfIdf()
    found = weights.fit_transform(texts).toarray()
    column = {word: i for i, word in enumerate(weights.vocabulary_.tokens)}
    assert weights.idf_[column["rare"]] == pytest.approx(1.386294, abs=1e-6)
    assert weights.idf_[column["all"]] == 0.0
    assert found[0, column["rare"]] == pytest.approx(2 * np.log(4))
    assert found[:, column["all"]].tolist() == [0] * 4
    assert found[1, column["two"]] == pytest.approx(np.log(2))
    assert weights.transform(["unseen"]).nnz == 0


@pytest.mark.spec("DLN-194")
@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("norm", ["none", "l2"])
def test_tf_idf_is_that_of_scikit_learn(smooth: bool, norm: Any) -> None:
    """Without smoothing the peer adds 1 to each logarithm, which is subtracted; then the length is made 1."""
    texts, new = random_texts(150), random_texts(40, seed=4)
    weights = TfIdf(smooth=smooth, norm=norm).fit(texts)
    peer = vectorizer(weights.vocabulary_.tokens, binary=False)
    other = TfidfTransformer(smooth_idf=smooth, norm=None).fit(peer.transform(texts))
    idf = other.idf_ if smooth else other.idf_ - 1
    np.testing.assert_allclose(weights.idf_, idf, rtol=1e-12, atol=1e-14)
    expected = peer.transform(new).toarray() * idf
    if norm == "l2":
        length = np.linalg.norm(expected, axis=1, keepdims=True)
        expected = np.divide(expected, length, out=np.zeros_like(expected), where=length > 0)
    np.testing.assert_allclose(weights.transform(new).toarray(), expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(weights.fit_transform(texts).toarray(), weights.transform(texts).toarray())


# --- columns of a table -------------------------------------------------------------------------------------------


def reviews(n: int = 120) -> pl.DataFrame:
    draw = np.random.default_rng(0)
    plain, good, bad = ["the", "a", "film"], ["fine", "great", "lovely"], ["poor", "awful", "dull"]
    texts = [" ".join([*draw.choice(plain, 5), *draw.choice(bad if i % 2 else good, 2)]) for i in range(n)]
    return pl.DataFrame({"review": texts, "label": ["bad" if i % 2 else "good" for i in range(n)]})


@pytest.mark.parametrize("weights", ["bag-of-words", "counts", "tf-idf"])
def test_a_column_of_texts_becomes_columns_of_words(weights: str) -> None:
    rows = reviews().select("review").with_columns(age=pl.Series(np.linspace(20, 60, 120)))
    found = Preparation(text=weights, words=5).fit(rows, scaled=True)
    assert len(found.names_out) == 6 and found.names_out[0].startswith("review:")
    table = Prepared.from_json(json.loads(json.dumps(found.to_json()))).transform(rows)
    texts = rows["review"].to_list()
    bag = {"bag-of-words": BagOfWords(True, max_words=5), "counts": BagOfWords(max_words=5)}.get(
        weights, TfIdf(max_words=5, norm="l2")
    )
    np.testing.assert_allclose(table[:, :5], bag.fit_transform(texts).toarray(), rtol=1e-12)
    np.testing.assert_array_equal(found.scaled(table)[:, :5], table[:, :5])


def test_without_the_option_texts_are_left_out_and_the_reason_names_it() -> None:
    rows = reviews().select("review").with_columns(age=pl.Series(np.linspace(20, 60, 120)))
    found = Preparation().fit(rows)
    assert found.names_in == ("age",)
    assert "--text tf-idf" in found.left_out["review"]


def test_missing_and_foreign_texts_are_rows_of_zeros_that_are_told() -> None:
    step = WordsStep("t", ("a", "b"), "counts")
    out = np.full((4, 2), np.nan)
    with pytest.warns(UserWarning, match="3 of 4 texts of column 't' have no word"):
        step.fill(pl.Series("t", ["b b", None, "", "foreign \U0001f600"]), out)
    assert out.tolist() == [[0, 2], [0, 0], [0, 0], [0, 0]]


def test_chinese_is_cut_into_characters() -> None:
    texts = ["\u8fd9\u4e2a\u9152\u5e97\u5f88\u597d", "\u8fd9\u4e2a\u9152\u5e97\u5f88\u5dee"] * 15
    found = Preparation(text="bag-of-words").fit(Dataset("zh", text=tuple(texts)))
    assert found.steps[0].unit == "char"  # type: ignore[attr-defined]
    assert len(found.names_out) == 7


def test_a_step_that_was_tampered_with_is_refused() -> None:
    given = step_to_json(WordsStep("t", ("a", "b"), "tf-idf", idf=(0.5, 1.0)))
    assert step_from_json(given) == WordsStep("t", ("a", "b"), "tf-idf", idf=(0.5, 1.0))
    for name, value in (
        ("idf", [0.5]),
        ("words", ["a", "a"]),
        ("weights", "none"),
        ("unit", "line"),
        ("idf", ["x", 1]),
    ):
        with pytest.raises((ValueError, TypeError)):
            step_from_json(given | {name: value})


@pytest.mark.spec("PRA-166")
@pytest.mark.spec("DLN-194")
def test_a_classifier_of_tables_learns_from_reviews_and_keeps_how(tmp_path: Path, capsys: Any) -> None:
    reviews().write_csv(tmp_path / "reviews.csv")
    folder = str(tmp_path / "run")
    options = ["--target", "label", "--text", "tf-idf", "--epochs", "10"]
    assert run(["fit", "softmax-regression", str(tmp_path / "reviews.csv"), *options, "--out", folder, "--json"]) == 0
    capsys.readouterr()
    assert gnomon.load(folder).preparation_.steps[0].weights == "tf-idf"
    pl.DataFrame({"review": ["a lovely film great", "the dull film poor"]}).write_csv(tmp_path / "new.csv")
    assert run(["predict", folder, str(tmp_path / "new.csv")]) == 0
    assert capsys.readouterr().out.split() == ["prediction", "good", "bad"]


def test_a_labeled_set_of_texts_is_a_table_of_words() -> None:
    rows = reviews()
    data = Dataset("reviews", text=tuple(rows["review"]), y=np.array(rows["label"].to_list()))
    board = gnomon.compare(["softmax-regression"], data, prepare=Preparation(text="counts"))
    assert board[0].lines[0].score.value > 0.9
    with pytest.raises(UserValueError, match="take its words as columns"):
        gnomon.compare(["softmax-regression"], data)


def test_systems_of_zeros_and_ones_ask_for_presence() -> None:
    rows = reviews().select("review")
    with pytest.raises(UserValueError, match="text must be bag-of-words where"):
        Preparation(text="tf-idf").fit(rows, within="binary")
    assert set(np.unique(Preparation(text="bag-of-words").fit(rows, within="binary").transform(rows))) == {0.0, 1.0}
