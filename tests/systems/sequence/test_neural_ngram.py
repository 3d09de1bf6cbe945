"""The neural n-gram model: its formula, exact sums, the optimum that counting gives, words of one class."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import gnomon
from gnomon.data.counting import BOS, EOS
from gnomon.data.layouts import Batch
from gnomon.numeric.ragged import Ragged
from gnomon.systems.sequence._contexts import RowLoss, contexts
from gnomon.systems.sequence.neural_ngram import NeuralNGramModel

F64 = torch.float64


def model(n=3, units=4, direct=True, size=5, seed=0):
    made = NeuralNGramModel(size, n, 3, units, direct, dtype=F64)
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=random, dtype=F64))
    return made


def batch(made, text, width):
    before, token = contexts(Ragged.of(text), width)
    rows = np.arange(len(token))
    return Batch({"X": before, "y": token}, rows, rows, np.linspace(0.5, 2, len(token)))


@pytest.mark.spec("PRA-153")
@pytest.mark.parametrize(("units", "direct"), [(4, True), (4, False), (0, True)])
def test_scores_are_the_formula_with_the_nearest_word_first_and_the_beginning_padded(units, direct):
    made = model(4, units, direct)
    state = made.state()
    C, b = state["embedding.weight"], state["net.bias"]
    sentence = [3, 0, 4, 4, 3]
    values, _ = made.token_log_prob(Ragged.of([sentence]))
    stream = [BOS, BOS, BOS, *sentence, EOS]
    for t in range(3, len(stream)):
        x = np.concatenate([C[stream[t - k]] for k in (1, 2, 3)])
        y = b + (state["net.direct.weight"] @ x if direct else 0)
        if units:
            y = y + state["net.out.weight"] @ np.tanh(state["net.hidden.bias"] + state["net.hidden.weight"] @ x)
        p = np.exp(y) / np.exp(y).sum()  # of <unk>, </s>, and the words
        assert values[t - 3] == pytest.approx(np.log(p[{0: 0, 2: 1, 3: 2, 4: 3}[stream[t]]]), abs=1e-12)


@pytest.mark.spec("PRA-153")
@pytest.mark.parametrize("n", [2, 4])
def test_all_sentences_and_the_unfinished_sum_to_1_and_steps_are_the_whole_pass(n):
    made, words, L = model(n), [0, 3, 4], 4
    finished = [list(s) for k in range(L) for s in itertools.product(words, repeat=k)]
    values, _ = made.token_log_prob(Ragged.of([list(s) for s in itertools.product(words, repeat=L)]))
    unfinished = np.exp(values.reshape(-1, L + 1)[:, :L].sum(1)).sum()
    assert np.exp(made.log_prob(Ragged.of(finished))).sum() + unfinished == pytest.approx(1, abs=1e-12)
    rows = [[3, 4, 0, 0, 3], [], [4]]
    values, sentence = made.token_log_prob(Ragged.of(rows))
    for begin in (0, 2):
        state = made.start([[BOS, *row][:begin] for row in rows])
        for i, row in enumerate(rows):
            one, whole = made.select(state, np.array([i])), [BOS, *row, EOS]
            for t in range(min(begin, len(row) + 1), len(row) + 1):
                log_probs, one = made.step(np.array([whole[t]]), one)
                assert log_probs[0, whole[t + 1]] == pytest.approx(values[sentence == i][t], abs=1e-12)
                assert np.exp(log_probs).sum() == pytest.approx(1) and log_probs[0, BOS] == -np.inf


@pytest.mark.spec("PRA-153")
@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_gradients_are_finite_differences(penalty):
    made, objective = model(), RowLoss(penalty)
    rows = batch(made, [[3, 4], [0], []], 2)

    def loss():
        return objective(made, rows, noise=None, phase="train", group=None).total()

    loss().backward()
    for parameter in made.parameters():
        flat, slope = parameter.data.view(-1), parameter.grad.view(-1)
        for i in range(0, len(flat), 3):
            h, kept = 1e-6, float(flat[i])
            flat[i] = kept + h
            above = loss().item()
            flat[i] = kept - h
            below = loss().item()
            flat[i] = kept
            assert float(slope[i]) == pytest.approx((above - below) / (2 * h), abs=1e-7)


@pytest.mark.spec("PRA-153")
def test_one_hot_vectors_without_hidden_units_learn_the_counts_of_bigrams():
    text = [[3, 4, 3, 3, 0], [4, 4, 0, 3], [0, 0, 4], [], [3]]  # every bigram occurs
    before, token = contexts(Ragged.of(text), 1)
    counts = np.zeros((5, 5))
    np.add.at(counts, (before[:, 0], token), 1)
    assert (counts[[0, 1, 3, 4]][:, [0, 2, 3, 4]] > 0).all()
    made = NeuralNGramModel(5, 2, 5, 0, dtype=F64)
    with torch.no_grad():
        made.embedding.weight.copy_(torch.eye(5))
    made.embedding.freeze()
    rows, objective = Batch({"X": before, "y": token}, token, token, np.ones(len(token))), RowLoss()
    optimizer = torch.optim.LBFGS([*made.net.parameters()], max_iter=500, tolerance_grad=1e-12, tolerance_change=0,
                                  line_search_fn="strong_wolfe")  # fmt: skip

    def closure():
        optimizer.zero_grad()
        loss = objective(made, rows, noise=None, phase="train", group=None).total()
        loss.backward()
        return loss

    optimizer.step(closure)
    for word in (0, 1, 3, 4):
        log_probs, _ = made.step(np.array([word]), made.start([[]]))
        np.testing.assert_allclose(np.exp(log_probs[0]), counts[word] / counts[word].sum(), atol=1e-6)


@pytest.mark.spec("PRA-153")
def test_words_of_one_class_share_what_was_seen_of_others():
    animals, actions = ["cat", "dog", "cow", "fox", "hen", "owl"], ["runs", "eats", "naps", "hides"]
    pairs = [(a, b) for a in animals for b in actions]
    held = [f"the {a} {b}" for i, (a, b) in enumerate(pairs) if i % 5 == 2]  # bigrams that the fit never sees
    seen = [f"the {a} {b}" for i, (a, b) in enumerate(pairs) if i % 5 != 2] * 4
    fitted = gnomon.NeuralNGram(
        n=3, n_hidden=8, n_embedding=4, batch_size=32, epochs=40, learning_rate=0.02, dropout=0.0,
        early_stopping="off", dtype="float64", random_state=0,
    ).fit(seen)  # fmt: skip
    unigram, counted = gnomon.NGram(n=1, smoothing="none").fit(seen), gnomon.NGram(n=3, smoothing="none").fit(seen)
    assert fitted.perplexity(held) < 0.7 * unigram.perplexity(held)
    assert (counted.log_prob(held) == -np.inf).all()
    assert fitted.next_distribution("the").sum() == pytest.approx(1)
    assert set(fitted.sample(5, random_state=0)) and fitted.embeddings_.shape == (len(fitted.vocabulary_), 4)
    affine = gnomon.NeuralNGram(direct="alone", n_embedding=4, epochs=1, random_state=0).fit(seen)
    assert affine.model_.net.hidden is None and np.isfinite(affine.log_prob(held)).all()
    short = fitted.log_prob(["", "the", "the zebra naps"])  # none, one, and a word that is unknown
    assert np.isfinite(short).all()


@pytest.mark.spec("PRA-153")
def test_a_vector_that_stands_in_no_context_stays_as_it_began():
    given = {"n": 3, "n_hidden": 4, "n_embedding": 3, "batch_size": 8, "early_stopping": "off", "random_state": 0}
    text = ["a b c", "b a"] * 5
    one, more = (gnomon.NeuralNGram(epochs=e, **given).fit(text).embeddings_ for e in (1, 5))
    np.testing.assert_array_equal(one[EOS], more[EOS])
    assert np.abs(one[BOS] - more[BOS]).max() > 1e-3
