"""Back-translation: targets stay as they are, a perfect backward model gives the truth, a toy language gains by it."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gnomon
from gnomon.cli.main import run
from gnomon.errors import UserError
from gnomon.tasks.back_translation import TAG, augment, back_translate

N_WORDS = 60


def language(n, seed=0):
    """Pairs of different targets: words are substituted one for one, and turned around."""
    random = np.random.default_rng(seed)
    become, pairs = random.permutation(N_WORDS), {}
    while len(pairs) < n:
        ids = random.integers(N_WORDS, size=random.integers(2, 6))
        target = " ".join(f"b{become[i]}" for i in ids[::-1])
        pairs[target] = (" ".join(f"a{i}" for i in ids), target)
    return list(pairs.values())


class Perfect:
    """The inverse of the language."""

    unit = "word"

    def __init__(self, pairs):
        self.back = {target: source for source, target in pairs}
        self.asked = []

    def translate(self, X, *, method, random_state):
        self.asked.append((method, random_state))
        return [self.back[one] for one in X]


@pytest.mark.spec("NLP-37")
def test_a_perfect_backward_model_gives_the_true_pairs_and_no_target_is_altered():
    pairs = language(60)
    real, others = pairs[:20], pairs[20:]
    backward, mono = Perfect(pairs), [target for _, target in others]
    assert back_translate(backward, mono, method="beam") == others
    assert augment(real, mono, backward, tag="") == pairs
    tagged = augment(real, mono, backward, method="greedy", random_state=7)
    assert tagged == [*real, *((f"{TAG} {x}", y) for x, y in others)]
    assert [y for _, y in tagged[20:]] == mono
    assert backward.asked == [("beam", None), ("sample", None), ("greedy", 7)]
    # the ratio: real ones are repeated as a whole, never left out
    for ratio, times in ((None, 1), (0.01, 1), (0.5, 1), (1.0, 2), (3.0, 6)):
        found = augment(real, mono, backward, ratio=ratio)
        assert found[: 20 * times] == real * times and len(found) == 20 * times + 40
    # what is tested is not taken
    held = {mono[3], mono[8]}
    found = [y for _, y in augment(real, mono, backward, exclude=held)[20:]]
    assert found == [one for one in mono if one not in held]


@pytest.mark.spec("NLP-37")
def test_methods_of_a_fitted_model_are_those_of_its_translations():
    pairs = [("ab", "xy"), ("c", "z"), ("ba", "yx"), ("bc", "yz")] * 2
    backward = gnomon.Seq2Seq(n_hidden=6, n_embedding=4, epochs=1, random_state=0).fit([(y, x) for x, y in pairs])
    mono = ["xyz", "z", "  y x", "zz"]
    for method in ("sample", "beam", "greedy"):
        found = back_translate(backward, mono, method=method, random_state=3)
        assert [y for _, y in found] == mono
        assert [x for x, _ in found] == backward.translate(mono, method=method, random_state=3)
    made = augment(pairs, mono, backward, method="beam")[8:]
    assert all(source.startswith(TAG) and not source.startswith(f"{TAG} ") for source, _ in made)  # one character


@pytest.mark.slow
@pytest.mark.spec("NLP-37")
def test_a_toy_language_is_translated_better_with_monolingual_text():
    """200 real pairs, and 2000 targets that a model of the other direction, fitted to the same 200, gives sources.

    With as many updates whole sentences right went from 4 % to 33 % of 300 held out, ten standard errors. The gain is
    that of a forward model that wants more pairs than there are and a backward one that is better than it: with
    `seq2seq` in both directions 200 pairs were nearly enough, and made ones added nothing (0.91 and 0.89).
    """
    pairs = language(2500)
    real, mono, test = pairs[:200], [target for _, target in pairs[200:2200]], pairs[2200:]
    options = {"unit": "word", "early_stopping": "off", "random_state": 0}
    backward = gnomon.Seq2Seq(n_hidden=64, n_embedding=32, max_updates=300, learning_rate=5e-3, **options)
    backward.fit([(target, source) for source, target in real])

    def accuracy(some):
        model = gnomon.Transformer(n_layers=1, n_hidden=64, max_updates=500, learning_rate=3e-3, **options).fit(some)
        said = model.translate([source for source, _ in test], method="greedy")
        return np.mean([a == b for a, (_, b) in zip(said, test, strict=True)])

    assert accuracy(augment(real, mono, backward, method="greedy", ratio=0.2)) > accuracy(real) + 0.1


def test_mistakes_are_told_in_a_line():
    pairs = language(4)
    backward, mono = Perfect(pairs), [pairs[0][1]]
    for call, words in (
        (lambda: back_translate(gnomon.KMeans(), mono), "fitted translator, got a kmeans"),
        (lambda: back_translate(backward, []), "at least one string"),
        (lambda: back_translate(backward, "b1"), "at least one string"),
        (lambda: augment([], mono, backward), "at least 1 pair"),
        (lambda: augment(pairs, "b1", backward), "at least one string"),
        (lambda: augment(pairs, ["b1", 3], backward), "at least one string"),
        (lambda: augment(pairs, mono, backward, ratio=0.0), "ratio must be in"),
        (lambda: augment(pairs, mono, backward, tag="a"), "tag must not begin a real source, got 'a'"),
        (lambda: augment(pairs, mono, backward, exclude=mono), "excluded"),
        (lambda: augment(pairs, None, backward), "at least one string"),
        (lambda: augment(None, mono, backward), "pairs must be a list of pairs, got NoneType"),
        (lambda: augment([("a", 3)], mono, backward), r"a row must hold two texts, got \('a', 3\) \(row 0\)"),
        (lambda: augment(pairs, mono, backward, tag="a\tb"), "tag must be a text without tabs"),
        (lambda: augment(pairs, mono, backward, tag=3), "tag must be a text without tabs"),
        (lambda: augment(pairs, mono, backward, ratio="2"), "ratio must be in"),
        (lambda: augment(pairs, mono, backward, ratio=1e12), "ratio must repeat real pairs to at most 100,000,000"),
    ):
        with pytest.raises(UserError, match=words):
            call()


@pytest.mark.spec("NLP-37")
def test_the_command_line_makes_pairs_to_fit_to(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pairs = [("ab", "xy"), ("c", "z"), ("ba", "yx"), ("bc", "yz")]
    backward = gnomon.Seq2Seq(n_hidden=6, n_embedding=4, epochs=1, random_state=0).fit([(y, x) for x, y in pairs * 2])
    backward.save("back")
    (tmp_path / "p.tsv").write_text("".join(f"{x}\t{y}\n" for x, y in pairs))
    (tmp_path / "test.tsv").write_text("cc\tzz\n")
    (tmp_path / "mono.txt").write_text("xz\n\nzz\nzyx\n", encoding="utf-8")
    words = ["augment", "back", "mono.txt", "--pairs", "p.tsv", "--test", "test.tsv", "--ratio", "4"]
    assert run([*words, "--out", "more.tsv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"out": "more.tsv", "real": 8, "made": 2, "left_out": 1}
    rows = [tuple(line.split("\t")) for line in (tmp_path / "more.tsv").read_text(encoding="utf-8").split("\n")[:-1]]
    assert rows == augment(pairs, ["xz", "zyx"], backward, ratio=4.0, random_state=0)
    fit = ["fit", "seq2seq", "more.tsv", "--n-hidden", "4", "--n-embedding", "4", "--epochs", "1", "--out", "net"]
    assert run(fit) == 0
    capsys.readouterr()
    (tmp_path / "p.txt").write_text("ab\txy\n")
    for words, said in (
        (["augment", "back", "mono.txt", "--pairs", "p.tsv", "--out", "more.tsv"], "exists"),
        (["augment", "back", "p.txt", "--pairs", "p.tsv", "--out", "x.tsv"], "must have no tab"),
        (
            ["augment", "back", "p.tsv", "--pairs", "p.tsv", "--out", "x.tsv"],
            "must be a .txt or .jsonl file, got a .tsv",
        ),
        (["augment", "back", "none.txt", "--pairs", "p.tsv", "--out", "x.tsv"], "none.txt"),
    ):
        assert run(words) == 2
        assert said in capsys.readouterr().err
    assert not (tmp_path / "x.tsv").exists()
