"""Word vectors by co-occurrence, against loops over pairs of places, bags of words and dense linear algebra."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer

import gnomon
from gnomon.cli.main import run
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.information import ppmi
from gnomon.evaluation.similarity import cosine_similarity, neighbors
from gnomon.evaluation.word_pairs import neighbor_auc
from gnomon.numeric.noise import Noise
from gnomon.numeric.ragged import Ragged
from gnomon.systems.text import _pair_counts
from gnomon.systems.text._pair_counts import pair_counts, positive_information, principal_rows
from gnomon.systems.text.co_occurrence import CoOccurrence

pytestmark = pytest.mark.spec("DLN-193")
HAND = ["the cat sleeps", "the dog sleeps", "a cat purrs", "the dog the dog"]
RNG = np.random.default_rng(0)
RANDOM = Ragged.of([RNG.integers(0, 7, RNG.integers(0, 12)) for _ in range(40)])  # 0 is unknown


def by_loops(text: Ragged, n: int, window: int | None, count: str) -> Any:
    """The definition, pair of places by pair of places."""
    found = np.zeros((n, n))
    for sentence in text:
        table = np.zeros((n, n))
        for i, a in enumerate(sentence):
            for j, b in enumerate(sentence):
                if a and b and abs(i - j) <= (len(sentence) if window is None else window):
                    table[a - 1, b - 1] += i != j or count != "pairs"
        found += table if count == "pairs" else table > 0
    return np.minimum(found, 1) if count == "binary" else found


def test_counts_of_the_hand_example() -> None:
    model = CoOccurrence(weighting="none", n_components=None).fit(HAND)
    assert model.words_ == ["the", "dog", "cat", "sleeps", "a", "purrs"]
    assert model.counts_.toarray().tolist() == [
        [0, 2, 1, 2, 0, 0], [2, 0, 0, 1, 0, 0], [1, 0, 0, 1, 1, 1], [2, 1, 1, 0, 0, 0], [0, 0, 1, 0, 0, 1],
        [0, 0, 1, 0, 1, 0],
    ]  # fmt: skip
    binary = CoOccurrence(count="binary", weighting="none", n_components=None, diagonal="count").fit(HAND)
    np.testing.assert_array_equal(binary.counts_.toarray(), (model.counts_.toarray() + np.eye(6)) > 0)


def test_off_the_diagonal_it_is_the_product_of_binary_bags_of_words_and_on_it_the_convention() -> None:
    B = CountVectorizer(binary=True, tokenizer=str.split, token_pattern=None, lowercase=False)
    bags = B.fit_transform(HAND).toarray().astype(float)
    for diagonal in ("zero", "count"):
        model = CoOccurrence(weighting="none", n_components=None, diagonal=diagonal).fit(HAND)
        order = [B.vocabulary_[word] for word in model.words_]
        product = (bags.T @ bags)[np.ix_(order, order)]
        np.testing.assert_array_equal(np.diag(product), bags.sum(0)[order])  # sentences that contain the word
        np.testing.assert_array_equal(
            model.counts_.toarray(), product if diagonal == "count" else product - np.diag(np.diag(product))
        )


@pytest.mark.parametrize("count", ["sentences", "binary", "pairs"])
@pytest.mark.parametrize("window", [None, 1, 2, 5, 50])
@pytest.mark.parametrize("at_once", [1, 30, 1 << 20])
def test_counts_are_those_of_the_definition(
    count: Any, window: int | None, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_pair_counts, "AT_ONCE", at_once)
    found = pair_counts(RANDOM, 7, window=window, count=count)
    assert sp.issparse(found) and found.nnz == np.count_nonzero(found.toarray())
    np.testing.assert_array_equal(found.toarray(), by_loops(RANDOM, 7, window, count))
    np.testing.assert_array_equal(found.toarray(), found.toarray().T)


def test_words_left_out_by_their_rarity_keep_their_places() -> None:
    model = CoOccurrence(min_count=2, window=1, weighting="none", n_components=None).fit(["a b", "a rare b", "b c c a"])
    assert model.words_ == ["a", "b", "c"]
    assert model.counts_.toarray().tolist() == [[0, 1, 1], [1, 0, 1], [1, 1, 0]]


def test_weights_are_the_positive_information_of_the_dense_table() -> None:
    counts = pair_counts(RANDOM, 7)
    dense = counts.toarray()
    expected = ppmi(dense / dense.sum())
    np.testing.assert_allclose(positive_information(counts).toarray(), expected, rtol=1e-12, atol=1e-15)
    p = dense / dense.sum()
    np.testing.assert_allclose(expected[0, 1], max(0, np.log(p[0, 1] / p[0].sum() / p[:, 1].sum())), rtol=1e-12)
    model = CoOccurrence(n_components=None).fit(HAND)
    table = model.counts_.toarray()
    np.testing.assert_allclose(model.vectors_.toarray(), ppmi(table / table.sum()), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("small", [0, 400])
def test_truncated_vectors_have_the_products_of_the_best_approximation(
    small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_pair_counts, "SMALL", small)
    table = RNG.random((30, 30))
    left, scale, right = np.linalg.svd(table + table.T)
    best = (left[:, :4] * scale[:4]) @ right[:4]
    rows = principal_rows(sp.csr_array(table + table.T), 4)
    np.testing.assert_allclose(rows @ rows.T, best @ best.T, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose((rows**2).sum(0), scale[:4] ** 2, rtol=1e-9)
    assert (rows[np.abs(rows).argmax(0), range(4)] > 0).all()
    assert principal_rows(sp.csr_array(table), 99).shape == (30, 30)
    assert not principal_rows(sp.csr_array((30, 30)), 4).any()


@pytest.mark.parametrize("n_components", [None, 3])
def test_similarities_and_neighbors_are_those_of_the_dense_vectors(n_components: int | None) -> None:
    text = [" ".join(f"w{i}" for i in sentence) for sentence in RANDOM if len(sentence)] + ["alone"]
    model = CoOccurrence(n_components=n_components).fit(text)
    vectors = model.vectors_ if n_components else model.vectors_.toarray()
    cosine = cosine_similarity(vectors)
    words = model.words_
    for i, a in enumerate(words):
        for j, b in enumerate(words):
            assert model.similarity(a, b) == pytest.approx(cosine[i, j], abs=1e-12)
    for i, word in enumerate(words):
        if word == "alone":
            continue
        found, others = model.nearest(word, k=3), np.delete(np.arange(len(words)), i)
        _, cosines = neighbors(vectors[i], vectors[others], 3)
        assert [b for _, b in found] == pytest.approx(cosines.tolist(), abs=1e-12)
        assert len(found) == 3 and {a for a, _ in model.nearest(word, 99)} == set(words) - {word, "alone"}
    assert model.similarity("alone", "w1") == 0.0 and model.nearest("alone") == []  # its vector has only zeros


def test_a_text_has_the_mean_of_the_vectors_of_its_known_words() -> None:
    for n_components in (None, 2):
        model = CoOccurrence(n_components=n_components).fit(HAND)
        vectors = model.vectors_ if n_components else model.vectors_.toarray()
        found = model.transform(["cat cat dog", "", "nothing known", "cat 😀"])
        cat, dog = model.words_.index("cat"), model.words_.index("dog")
        expected = [(2 * vectors[cat] + vectors[dog]) / 3, 0 * vectors[0], 0 * vectors[0], vectors[cat]]
        np.testing.assert_allclose(found, np.stack(expected), atol=1e-12)


def test_words_of_a_topic_are_near_which_held_out_text_tells() -> None:
    """Two topics of eight words that share none: their rows have no column in common."""
    random = np.random.default_rng(1)
    text = [" ".join(f"{topic}{i}" for i in random.integers(0, 8, 6)) for topic in "ab" for _ in range(60)]
    model = CoOccurrence(n_components=4).fit(text[::2])
    assert all(near[0] == word[0] for word in model.words_ for near, _ in model.nearest(word, 7))
    assert model.score(text[1::2]) > 0.7  # 3/4 at most: half of the rivals are of the same topic


def test_the_score_is_the_share_of_pairs_that_are_told_apart() -> None:
    """Within 4 standard errors of the enumeration of all partners and rivals: false alarm 6e-5 for each."""
    text = Ragged.of([RNG.integers(0, 6, RNG.integers(0, 9)) for _ in range(800)])
    cosine = RNG.random((6, 6)).round(1)  # with ties
    wins, n = 0.0, 0.0
    share = np.bincount(text.values, minlength=6) / len(text.values)
    for sentence in text:
        for i, word in enumerate(sentence):
            for j, partner in enumerate(sentence):
                if i == j or not word or not partner or partner == word:
                    continue
                for rival in set(range(1, 6)) - {word}:
                    weight = share[rival] / (len(sentence) - 1)
                    near, far = cosine[word, partner], cosine[word, rival]
                    wins, n = wins + weight * ((near > far) + 0.5 * (near == far)), n + weight
    found = neighbor_auc(text, lambda a, b: cosine[a, b], Noise(0, "x"))
    assert abs(found.value - wins / n) < 4 * found.stderr and found.stderr < 0.02
    assert np.isnan(neighbor_auc(Ragged.of([[1, 1], [2], []]), lambda a, b: cosine[a, b], Noise(0, "x")).value)


def test_it_stays_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    text = [f"w{i} w{i + 1} common" for i in range(20000)]

    def dense(*_: Any, **__: Any) -> None:
        raise MemoryError

    for kind in (sp.csr_array, sp.coo_array, sp.csc_array):
        monkeypatch.setattr(kind, "toarray", dense)
    for options in ({"weighting": "none"}, {"window": 1}):
        model = CoOccurrence(n_components=None, **options).fit(text)  # 3.2 GB as a table
        assert model.vectors_.shape == (20002, 20002) and model.counts_.nnz <= 4 * 20001


def test_what_there_is_no_vector_of_is_refused() -> None:
    model = CoOccurrence(n_components=2).fit(HAND)
    with pytest.raises(UserValueError, match=r"the fit has no word 'sleep' \(word\); did you mean 'sleeps'\?"):
        model.nearest("sleep")
    with pytest.raises(UserValueError, match="no word '<unk>'"):
        model.similarity("cat", "<unk>")
    with pytest.raises(UserTypeError, match="word must be a string"):
        model.similarity("cat", 3)  # type: ignore[arg-type]
    with pytest.raises(UserValueError, match="no word occurs 9 times"):
        CoOccurrence(min_count=9).fit(HAND)


def test_on_the_command_line_and_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = [" ".join([*RNG.permutation(HAND[i % 4].split()), "."]) for i in range(60)]
    Path("text.txt").write_text("\n".join(text), encoding="utf-8")
    assert run(["fit", "co-occurrence", "text.txt", "--window", "2", "--n-components", "3", "--out", "run"]) == 0
    assert run(["transform", "run", "text.txt", "--out", "codes.npy"]) == 0
    model = gnomon.load("run")
    assert isinstance(model, CoOccurrence) and model.window == 2 and sp.issparse(model.counts_)
    np.testing.assert_allclose(np.load("codes.npy"), model.transform(text), atol=1e-6)
    assert model.nearest("cat", 2) == gnomon.load("run").nearest("cat", 2)


def test_a_table_that_does_not_fit_is_refused_before_it_is_begun():
    """A sentence of 10^5 different words has 10^10 pairs; within a window they are few."""
    text = [[f"w{i}" for i in range(100_000)]]
    with pytest.raises(UserValueError, match=r"1e\+10 numbers would take 1.6e\+11 bytes.*choose a window"):
        gnomon.CoOccurrence().fit(text)
    model = gnomon.CoOccurrence(window=1, weighting="none", n_components=None).fit(text)
    assert model.counts_.nnz == 2 * 99_999
    with pytest.raises(UserValueError, match="choose fewer, or a larger min_count"):
        gnomon.CoOccurrence(window=1, n_components=60_000).fit(text)
