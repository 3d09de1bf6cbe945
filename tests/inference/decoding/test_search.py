"""Greedy and beam search against tables worked by hand and against trying every sequence."""

from __future__ import annotations

import numpy as np
import pytest

from gnomon.errors import UserValueError
from gnomon.inference.decoding.ancestral import ancestral
from gnomon.inference.decoding.beam import beam_search
from gnomon.inference.decoding.greedy import greedy
from gnomon.numeric.noise import Noise
from oracles.next_token import Told, every_sequence, random_model

START, A, B, C, END = 9, 0, 1, 2, 3
TABLE = {
    (): (0.5, 0.2, 0.2, 0.1), (A,): (0.1, 0.4, 0.3, 0.2), (A, B): (0.2, 0.2, 0.4, 0.2), (A, B, C): (0.0, 0.2, 0.2, 0.6),
    (A, C): (0.1, 0.6, 0.2, 0.1), (A, C, B): (0.1, 0.2, 0.1, 0.6),
}  # fmt: skip


def table() -> Told:
    return Told(lambda history: TABLE.get(history[1:], (0.25,) * 4))


def two_steps() -> Told:
    """First A .6, B .4; after A the best has .4, after B .9."""
    rows = {(): (0.6, 0.4), (A,): (0.4, 0.6 - 0.2), (B,): (0.1, 0.9)}
    return Told(lambda history: rows[history[1:]])


@pytest.mark.spec("DLN-232")
def test_greedy_takes_the_best_word_and_misses_the_best_sequence():
    tokens, log_prob = greedy(table(), [[START]], max_length=4, end=END)
    assert tokens.tolist() == [[A, B, C, END]] and np.exp(log_prob) == pytest.approx([0.048])
    sequences = every_sequence(table(), [START], 4, 4, END)
    assert np.exp(sequences[A, C, B, END]) == pytest.approx(0.054)
    beam = beam_search(table(), [[START]], 1, max_length=4, end=END, alpha=0.0)[0][0]
    assert (list(beam.tokens), beam.log_prob) == (tokens[0].tolist(), pytest.approx(log_prob[0]))
    ties = Told(lambda history: (0.25,) * 4)
    assert greedy(ties, [[START]], max_length=3, end=END)[0].tolist() == [[A, A, A]]  # lowest id; cut without an end


@pytest.mark.spec("NLP-34")
@pytest.mark.parametrize("seed", range(6))
def test_greedy_is_the_beam_of_width_one(seed):
    model, prompts = random_model(4, seed), [[START], [START, A], [B, B, C]]
    tokens, log_prob = greedy(model, prompts, max_length=6, end=END)
    for i, found in enumerate(beam_search(model, prompts, 1, max_length=6, end=END, alpha=0.0)):
        assert tokens[i][tokens[i] >= 0].tolist() == list(found[0].tokens)
        assert log_prob[i] == pytest.approx(found[0].log_prob)
    # until the end or the limit, and the toy: .24 although .36 is there
    assert all(END not in row[:-1][row[1:] >= 0] for row in tokens)
    found, log_prob = greedy(two_steps(), [[START]], max_length=2, end=None)
    assert found.tolist() == [[A, A]] and np.exp(log_prob) == pytest.approx([0.24])


@pytest.mark.spec("DLN-233")
def test_beam_of_the_table_by_hand():
    found = beam_search(table(), [[START]], 2, max_length=4, end=END, alpha=0.75, n_best=2)[0]
    assert [one.tokens for one in found] == [(A, C, B, END), (A, B, C, END)]
    assert np.exp([one.log_prob for one in found]) == pytest.approx([0.054, 0.048])
    assert [one.score for one in found] == pytest.approx([np.log(p) / 4**0.75 for p in (0.054, 0.048)])
    wide = beam_search(table(), [[START]], 4**3, max_length=4, end=END, alpha=0.75)[0][0]
    assert wide.tokens == _best(every_sequence(table(), [START], 4, 4, END), 0.75, END)
    one = beam_search(table(), [[START]], 1, max_length=4, end=END, alpha=0.0)[0][0]
    assert one.tokens == (A, B, C, END)


def _best(sequences, alpha, end):
    finished = {tokens: total / len(tokens) ** alpha for tokens, total in sequences.items() if tokens[-1] == end}
    return max(finished, key=finished.get)


@pytest.mark.spec("NLP-35")
@pytest.mark.parametrize("alpha", [0.0, 0.75, 1.5])
@pytest.mark.parametrize("seed", range(4))
def test_the_widest_beam_tries_everything(seed, alpha):
    model, prompts, end = random_model(3, seed), [[7], [8, 0]], 2
    found = beam_search(model, prompts, 3**4, max_length=4, end=end, alpha=alpha, n_best=5)
    for prompt, ranked in zip(prompts, found, strict=True):
        sequences = every_sequence(model, prompt, 3, 4, end)
        scores = {t: total / len(t) ** alpha for t, total in sequences.items() if t[-1] == end}
        assert [one.tokens for one in ranked] == sorted(scores, key=scores.get, reverse=True)[:5]
        assert [one.log_prob for one in ranked] == pytest.approx([sequences[one.tokens] for one in ranked])
        assert all(one.finished for one in ranked)
    toy = beam_search(two_steps(), [[START]], 2, max_length=2, end=None, alpha=alpha)[0][0]
    assert toy.tokens == (B, B) and np.exp(toy.log_prob) == pytest.approx(0.36) and not toy.finished


@pytest.mark.spec("DLN-233", "NLP-35")
@pytest.mark.parametrize("width", [1, 2, 3, 5, 40])
@pytest.mark.parametrize("seed", range(3))
def test_a_batch_of_prompts_is_searched_as_each_alone_by_the_plainest_search(seed, width):
    model, prompts, end = random_model(4, seed), [[START], [START, A], [B, C], [A, A, A]], END
    together = beam_search(model, prompts, width, max_length=5, end=end, alpha=0.6, n_best=3)
    for prompt, found in zip(prompts, together, strict=True):
        expected = _plainest(model, prompt, width, 5, end, 0.6)[: len(found)]
        assert [one.tokens for one in found] == [tokens for tokens, _ in expected]
        assert [one.score for one in found] == pytest.approx([score for _, score in expected])


def _plainest(model, prompt, width, length, end, alpha):
    """One hypothesis at a time, and never stopped early."""
    live, done, cut = [((), 0.0)], [], []
    for t in range(1, length + 1):
        pool = [
            ((*tokens, v), total + np.log(model.row((*prompt, *tokens))[v])) for tokens, total in live for v in range(4)
        ]
        pool = sorted(pool, key=lambda one: -one[1])[:width]
        done += [(tokens, total / t**alpha) for tokens, total in pool if tokens[-1] == end]
        live = [one for one in pool if one[0][-1] != end]
        cut = [(tokens, total / t**alpha) for tokens, total in live]
    return sorted(done or cut, key=lambda one: -one[1])


def test_every_prompt_may_have_a_greatest_length_of_its_own():
    model, prompts, limits = random_model(4, 2), [[START], [START, A], [B, C], [A, A, A]], np.array([5, 0, 2, 3])
    draw = {"vocabulary_size": 4, "end": END}
    tokens, log_prob = greedy(model, prompts, max_length=limits, end=END)
    drawn = ancestral(model, prompts, Noise(0, "s"), max_length=limits, **draw)
    found = beam_search(model, prompts, 3, max_length=limits, end=END, n_best=2)
    for i, (prompt, limit) in enumerate(zip(prompts, limits.tolist(), strict=True)):
        alone, total = greedy(model, [prompt], max_length=limit, end=END)
        assert tokens[i][tokens[i] >= 0].tolist() == alone[0].tolist() and log_prob[i] == pytest.approx(total[0])
        (row,) = ancestral(model, [prompt], Noise(0, "s").part(i, i + 1), max_length=limit, **draw)
        assert drawn[i][drawn[i] >= 0].tolist() == row.tolist()
        assert found[i] == beam_search(model, [prompt], 3, max_length=limit, end=END, n_best=2)[0]
    assert beam_search(model, prompts, 3, max_length=np.zeros(4, int), end=END) == [[]] * 4


@pytest.mark.spec("DLN-233", "NLP-35")
def test_the_search_stops_when_nothing_can_overtake():
    sure = Told(lambda history: (0.01, 0.01, 0.01, 0.97))
    beam_search(sure, [[START]], 3, max_length=1000, end=END, alpha=0.0)
    assert sure.steps < 20
    rows = {1: (0.3, 0.0, 0.0, 0.7), 10: (0.0, 0.0, 0.0, 1.0)}  # one that ends late overtakes one that ended at once
    late = Told(lambda history: rows.get(len(history), (1.0, 0.0, 0.0, 0.0)))
    found = beam_search(late, [[START]], 2, max_length=12, end=END, alpha=1.0)[0][0]
    assert found.tokens == (A,) * 9 + (END,) and found.score == pytest.approx(np.log(0.3) / 10)
    slow = Told(lambda history: (0.9, 0.0, 0.0, 0.1))  # with alpha = 1 longer ones are better, to the very end
    found = beam_search(slow, [[START]], 2, max_length=30, end=END, alpha=1.0)[0][0]
    assert len(found.tokens) == 30 and found.finished


@pytest.mark.spec("DLN-232", "DLN-233", "NLP-34", "NLP-35")
def test_what_has_no_mass_and_what_is_no_width():
    dead = Told(lambda history: (0.0, 0.0, 1.0, 0.0) if len(history) < 3 else (0.0,) * 4)
    assert greedy(dead, [[START]], max_length=9, end=END)[0].tolist() == [[C, C]]
    (stuck,) = beam_search(dead, [[START]], 2, max_length=9, end=END)[0]
    assert (stuck.tokens, stuck.log_prob, stuck.finished) == ((C, C), 0.0, False)
    assert beam_search(dead, [[START, A, B]], 2, max_length=9, end=END)[0][0].tokens == ()
    assert beam_search(table(), [], 2, max_length=4, end=END) == []
    assert beam_search(table(), [[START]], 2, max_length=0, end=END) == [[]]
    for options in ({"width": 0}, {"width": 2, "n_best": 0}):
        with pytest.raises(UserValueError, match="must be at least 1, got 0"):
            beam_search(table(), [[START]], **options, max_length=4, end=END)
