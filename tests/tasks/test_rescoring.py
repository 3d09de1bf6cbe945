"""Proposals in the order of several models: closed forms, ties, weights found on a line by brute force."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import gnomon
from gnomon.cli.main import run
from gnomon.errors import UserError
from gnomon.evaluation.translation import bleu_of_each
from gnomon.tasks.rescoring import best_step, candidate_scores, rescore, tune

pytestmark = pytest.mark.filterwarnings("ignore:too little text")
PAIRS = [("ab", "ba"), ("abc", "cba"), ("c", "c"), ("bcab", "bacb")] * 3


@pytest.fixture(scope="module")
def translator():
    return gnomon.Seq2Seq(n_hidden=8, n_embedding=4, epochs=3, dtype="float64", random_state=0).fit(PAIRS)


@pytest.fixture(scope="module")
def grammar():
    """Adjectives before nouns."""
    text = [
        f"{a} {n}" for a in ("red", "green", "old") for n in ("apple", "house", "tree") if (a, n) != ("red", "apple")
    ]
    return gnomon.NGram(unit="word", n=2).fit(text * 3)


@pytest.mark.spec("PRA-173")
def test_a_language_model_orders_words(grammar):
    nbest = [("roter Apfel", ["apple red", "red apple"]), ("altes Haus", ["house old", "old house"])]
    for models, weights in (([grammar], None), ([lambda f, e: 0.0, grammar], [1.0, 0.3])):
        assert [rows[0][0] for rows in rescore(nbest, models, weights)] == ["red apple", "old house"]
    # the score is the weighted sum, and weights of zero keep the order that was proposed
    network = gnomon.GRULM(unit="word", n_hidden=4, n_embedding=4, epochs=1, random_state=0).fit(
        ["red apple", "old tree"]
    )
    features = [grammar, network, "length", lambda f, e: len(f) / 10]
    found = rescore(nbest, features, [0.5, 2.0, -1.0, 3.0])
    for (source, _), rows in zip(nbest, found, strict=True):
        for said, score in rows:
            wanted = 0.5 * grammar.log_prob([said])[0] + 2 * network.log_prob([said])[0] - len(said) + 0.3 * len(source)
            assert score == pytest.approx(wanted, rel=1e-5)
        assert [score for _, score in rows] == sorted((score for _, score in rows), reverse=True)
    for turned in (nbest, [(source, candidates[::-1]) for source, candidates in nbest]):
        kept = rescore(turned, features, np.zeros(4))
        assert [[one for one, _ in rows] for rows in kept] == [candidates for _, candidates in turned]


@pytest.mark.spec("PRA-173")
def test_candidates_that_are_all_empty_have_the_score_of_an_end(grammar):
    empty = float(grammar.log_prob(["", "red"])[0])
    assert rescore([("f", [""]), ("g", [])], [grammar]) == [[("", pytest.approx(empty))], []]


def test_the_order_of_candidates_is_in_no_score_and_ties_keep_it(translator):
    candidates = ["ba", "ab", "", "cab", "ba", "bacbacb", "b"]
    random, first = np.random.default_rng(0), rescore([("ab", candidates)], [translator, "length"], [1.0, 0.3])[0]
    assert [one for one, _ in first].index("ba") == [score for _, score in first].index(dict(first)["ba"])
    for _ in range(5):
        order = random.permutation(len(candidates))
        assert rescore([("ab", [candidates[i] for i in order])], [translator, "length"], [1.0, 0.3])[0] == first
    tied = rescore([("ab", candidates)], [lambda f, e: float(len(e) > 2)])[0]
    assert [one for one, _ in tied] == ["cab", "bacbacb", "ba", "ab", "", "ba", "b"]
    # what a model gives no probability comes last whatever the others say, unless its weight is 0
    never = rescore([("f", ["x", "y"])], [lambda f, e: -math.inf if e == "x" else 0.0, lambda f, e: 9.0 * (e == "x")])
    assert [one for one, _ in never[0]] == ["y", "x"]
    open_ = rescore([("f", ["y", "x"])], [lambda f, e: -math.inf * (e == "x"), lambda f, e: float(e == "x")], [0, 1])
    assert open_ == [[("x", 1.0), ("y", 0.0)]]


@pytest.mark.spec("PRA-173")
def test_a_length_feature_mends_that_sums_favor_short_ones():
    candidates = ["a" * k for k in range(1, 9)]
    per_token = [("f", candidates)], [lambda f, e: -0.5 * len(e), "length"]
    assert rescore(*per_token, [1.0, 0.0])[0][0][0] == "a"
    assert rescore(*per_token, [1.0, 0.6])[0][0][0] == "a" * 8


@pytest.mark.spec("PRA-173")
def test_a_line_is_searched_exactly():
    """Against a grid of 40001 points on each of 40 lines; ties of integers included."""
    random = np.random.default_rng(3)
    grid = np.linspace(-40, 40, 40001) + 1e-7
    for round_ in range(40):
        totals, slopes = (random.integers(-6, 7, (5, 4)).astype(float) for _ in range(2))
        totals[random.random((5, 4)) < 0.2] = -np.inf
        totals[:, 0] = 0 if round_ % 2 else 3
        quality = random.random((5, 4))
        first = np.argmax(totals[None] + grid[:, None, None] * slopes[None], 2)
        sums = np.take_along_axis(np.broadcast_to(quality, (len(grid), 5, 4)), first[:, :, None], 2)[:, :, 0].sum(1)
        now = np.take_along_axis(quality, np.argmax(totals, 1)[:, None], 1).sum()
        step, gain = best_step(totals, slopes, quality)
        assert gain + now == pytest.approx(sums.max())
        there = np.argmax(totals + step * slopes, 1)
        assert np.take_along_axis(quality, there[:, None], 1).sum() == pytest.approx(sums.max())


@pytest.mark.spec("PRA-173")
def test_weights_are_tuned_to_the_references():
    """Two noisy features and one that misleads: the weights found on one half are better on the other as well."""
    random = np.random.default_rng(0)
    words = ["ab", "ba", "aab", "bba", "abab", "baba"]
    wanted = [words[i] for i in random.integers(6, size=120)]
    nbest = [(str(i), words) for i in range(120)]
    noise = random.normal(0, 0.4, (120, 6))

    def good(f, e):
        return float(e == wanted[int(f)]) + noise[int(f), words.index(e)]

    def bad(f, e):
        return 2.0 * (e == "ab")

    def hits(part, weights):
        ranked = rescore(nbest[part], [good, bad], weights)
        return np.mean([rows[0][0] == one for rows, one in zip(ranked, wanted[part], strict=True)])

    dev, test = slice(0, 60), slice(60, 120)
    found = tune(nbest[dev], wanted[dev], [good, bad], [0.1, 1.0])
    assert hits(dev, [0.1, 1.0]) < 0.4 and hits(dev, found) > 0.8 and hits(test, found) > 0.8

    def bleu_of(weights):
        return bleu_of_each(
            [rows[0][0] for rows in rescore(nbest[dev], [good, bad], weights)], wanted[dev], "char"
        ).mean()

    for start in ([0.1, 1.0], [1.0, 0.0], [0.0, 0.0], found):
        assert bleu_of(tune(nbest[dev], wanted[dev], [good, bad], start)) >= bleu_of(start) - 1e-9
    # nothing to choose from: as they were
    assert tune([("f", ["a"])], ["b"], ["length"], [2.0]).tolist() == [2.0]
    assert tune([], [], ["length"]).tolist() == [1.0]


@pytest.mark.spec("PRA-173", "PRA-177")
def test_proposals_are_the_beam_in_order(translator, monkeypatch):
    from gnomon.data.counting import BOS, EOS
    from gnomon.inference.decoding.beam import beam_search

    beam = beam_search(
        translator.model_.given(translator._sources(["abc"])), [[BOS]], 6, max_length=5, end=EOS, n_best=6
    )
    said = ["".join(translator.target_vocabulary_.decode([t for t in one.tokens if t != EOS])) for one in beam[0]]
    found = translator.propose(["abc", "ab"], n_best=6, max_length=5)
    assert found[0] == list(dict.fromkeys(said)) and len(found[0]) > 2
    assert [rows[0] for rows in found] == translator.translate(["abc", "ab"], width=6, max_length=5)
    assert translator.propose("abc", n_best=2, width=6, max_length=5) == [found[0][:2]]
    monkeypatch.setattr(type(translator.model_), "together", lambda *_: 1)  # one by one, as of wide beams
    assert translator.propose(["abc", "ab"], n_best=6, max_length=5) == found
    for given in ({"n_best": 10_001}, {"width": 10_001}):
        with pytest.raises(UserError, match="must be at most 10000, got 10001"):
            translator.propose(["abc"], **given)
    assert translator.propose(["abc"], max_length=0) == [[""]]
    nbest = list(zip(["abc", "ab"], found, strict=True))
    table = candidate_scores(nbest, [translator])
    for (source, candidates), rows in zip(nbest, table, strict=True):
        np.testing.assert_allclose(rows[:, 0], translator.log_prob([(source, one) for one in candidates]), rtol=1e-9)


@pytest.mark.spec("PRA-177")
@pytest.mark.parametrize("system", ["seq2seq", "transformer"])
def test_pairs_of_different_lengths_score_as_one_by_one_and_rank_so(system):
    options = {"n_heads": 2} if system == "transformer" else {}
    fitted = gnomon.make(
        system, n_hidden=8, n_embedding=4, epochs=1, dtype="float64", random_state=0, **options
    ).fit(PAIRS)  # fmt: skip
    candidates = ["ba", "", "cabcabcabc", "a", "zz", "ab", "zy"]
    together = fitted.log_prob([("abc", one) for one in candidates])
    alone = [fitted.log_prob([("abc", one), ("c", "c")])[0] for one in candidates]
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-12)
    np.testing.assert_allclose(  # the sum of the steps
        together,
        [sum(rows[t, i] for t, i in enumerate([*fitted.target_vocabulary_.encode(list(one)), 2]))
         for one, rows in zip(candidates, fitted.decode([("abc", one) for one in candidates]), strict=True)],
        atol=1e-12,
    )  # fmt: skip
    for alpha in (0.0, 0.75, 1.0, -1.0):
        scores = {one: value / (len(one) + 1) ** alpha for one, value in zip(candidates, together, strict=True)}
        found = fitted.rank("abc", candidates, length_penalty=alpha)
        assert found == sorted(candidates, key=lambda one: -scores[one])
    assert fitted.rank("abc", candidates) != fitted.rank("abc", candidates, length_penalty=1.0)
    # unknown letters are one token: such candidates tie and stay in order
    assert together[4] == pytest.approx(together[6]) and found.index("zz") < found.index("zy")
    turned = fitted.rank("abc", candidates[::-1])
    assert turned.index("zy") < turned.index("zz") and [one for one in turned if "z" not in one] == [
        one for one in fitted.rank("abc", candidates) if "z" not in one
    ]
    assert fitted.rank("abc", []) == [] and fitted.rank(["a", "b"], [["b"], ["a"]]) in ([["b"], ["a"]], [["a"], ["b"]])
    with pytest.raises(UserError, match="length_penalty must be from -100 to 100"):
        fitted.rank("abc", ["a"], length_penalty=math.nan)


def test_mistakes_are_told_in_a_line(translator):
    nbest = [("ab", ["ba"])]
    for call, words in (
        (lambda: rescore(nbest, []), "at least 1 model"), (lambda: rescore(nbest, ["size"]), "'size'"),
        (lambda: rescore(nbest, [gnomon.KMeans()]), "a kmeans"),
        (lambda: rescore([("ab", "ba")], ["length"]), "list 0"),
        (lambda: rescore(nbest, ["length"], [1.0, 2.0]), "be 1 finite number"),
        (lambda: rescore(nbest, ["length"], [np.nan]), "finite"),
        (lambda: tune(nbest, [], ["length"]), "one reference for each source"),
        (lambda: translator.rank("ab", "ba"), "candidates"),
    ):  # fmt: skip
        with pytest.raises(UserError, match=words):
            call()


@pytest.mark.spec("PRA-173")
def test_the_command_line_rescores(tmp_path, capsys, monkeypatch, translator, grammar):
    monkeypatch.chdir(tmp_path)
    translator.save("net")
    gnomon.NGram(unit="char", n=2).fit(["ba", "cba", "c", "bacb"] * 3).save("lm")
    grammar.save("words")
    (tmp_path / "p.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS[:4]))

    def ask(*words):
        assert run(["predict", "net", "p.tsv", *words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    lists = translator.propose([a for a, _ in PAIRS[:4]], n_best=3)
    columns = ask("--n-best", "3")["columns"]
    assert [[columns[f"prediction_{j}"][i] for j in (1, 2, 3)][: len(one)] for i, one in enumerate(lists)] == lists
    found = ask("--n-best", "3", "--rescore", "lm=0.5", "--rescore", "length=0.2")
    lm = gnomon.load("lm")
    wanted = rescore(
        [(a, c) for (a, _), c in zip(PAIRS, lists, strict=False)], [translator, lm, "length"], [1, 0.5, 0.2]
    )
    assert found["columns"]["prediction"] == [rows[0][0] for rows in wanted]
    assert found["weights"] == {"net": 1.0, "lm": 0.5, "length": 0.2}
    assert len(ask("--rescore", "lm", "--tune", "p.tsv")["columns"]["prediction"]) == 4
    for words, said in (
        (["--tune", "p.tsv"], "--tune needs --rescore"), (["--rescore", "lm=x"], "end in =WEIGHT"),
        (["--rescore", "lm=nan"], "end in =WEIGHT, a finite number"),
        (["--n-best", "2", "--proba"], "--proba does not go"),
    ):  # fmt: skip
        assert run(["predict", "net", "p.tsv", *words]) == 2
        assert said in capsys.readouterr().err
