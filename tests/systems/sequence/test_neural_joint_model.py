"""The neural joint model: alignment by enumeration, its steps, the n-gram network that it is without a source."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import gnomon
from gnomon.data.counting import BOS, EOS
from gnomon.data.layouts import Batch
from gnomon.errors import UserError
from gnomon.inference.alignment import IBM1, Diagonal, WholeSource, ibm1, transitions
from gnomon.numeric.ragged import Ragged
from gnomon.systems.sequence._contexts import RowLoss
from gnomon.systems.sequence.neural_joint_model import NeuralJointNetwork
from gnomon.tasks.rescoring import rescore

F64 = torch.float64
SOURCES, TARGETS = Ragged.of([[3, 4, 3], [4], [], [5, 3]]), Ragged.of([[4, 3], [3, 3, 4], [4], []])
TINY = {"n": 3, "radius": 1, "n_hidden": 8, "n_embedding": 4, "batch_size": 16, "dropout": 0.0, "dtype": "float64",
        "early_stopping": "off", "random_state": 0, "unit": "word", "alignment_model": "ibm1"}  # fmt: skip
PAIRS = [("one two", "eins zwei"), ("two one", "zwei eins"), ("one", "eins"), ("two three", "zwei drei"),
         ("three", "drei"), ("three one two", "drei eins zwei")] * 4  # fmt: skip


def model(aligner, units=4, direct=True, n=3, radius=1, seed=0):
    made = NeuralJointNetwork(6, 5, n, radius, 3, units, direct, aligner, dtype=F64)
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=random, dtype=F64))
    made.facts = aligner.learn(SOURCES, TARGETS)
    return made


# --- alignment ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("PRA-174")
def test_ibm_model_1_is_em_over_all_alignments(monkeypatch):
    """Every iteration against sums over all (S + 1)**T alignments, in one part and in several."""
    for cells in (1 << 21, 3):
        monkeypatch.setattr("gnomon.inference.alignment.CELLS", cells)
        table = {}
        pairs = [([-1, *s.tolist()], t.tolist()) for s, t in zip(SOURCES, TARGETS, strict=True)]
        for s, t in pairs:
            table |= {(a, b): 1.0 for a in s for b in t}
        table = {k: 1 / sum(one[0] == k[0] for one in table) for k in table}
        for k in (1, 2, 3):
            counts, likelihood = dict.fromkeys(table, 0.0), 0.0
            for s, t in pairs:
                alignments = list(itertools.product(range(len(s)), repeat=len(t)))
                weights = [np.prod([table[s[j], t[i]] / len(s) for i, j in enumerate(one)]) for one in alignments]
                likelihood += np.log(sum(weights))
                for one, weight in zip(alignments, weights, strict=True):
                    for i, j in enumerate(one):
                        counts[s[j], t[i]] += weight / sum(weights)
            table = {one: counts[one] / sum(v for o, v in counts.items() if o[0] == one[0]) for one in counts}
            found = ibm1(SOURCES, TARGETS, k)
            assert found.log_likelihood[-1] == pytest.approx(likelihood, abs=1e-12)
            said = dict(zip(zip(found.source.tolist(), found.target.tolist(), strict=True), found.probability,
                            strict=True))  # fmt: skip
            assert said == pytest.approx(table, abs=1e-12)
        rising = ibm1(SOURCES, TARGETS, 20).log_likelihood
        assert (np.diff(rising) >= -1e-12).all() and rising[-1] > rising[0]


@pytest.mark.spec("PRA-174")
def test_places_of_words_that_are_aligned_tied_or_have_none():
    facts = {"source": np.array([-1, 3, 4, 5]), "target": np.array([9, 3, 4, 5]), "probability": np.ones(4)}
    aligner = IBM1()

    def places(source, target):
        return aligner.places(facts, Ragged.of([[4], source, [4]]), Ragged.of([[4], target, [4]]), 0)[2:-2].tolist()

    assert places([3, 4, 5], [5, 3, 4]) == [2, 0, 1, 3]  # the end last
    assert places([3, 4, 3, 4], [3, 4, 3, 4]) == [0, 1, 2, 3, 4]  # tied: nearest to the diagonal
    assert places([3, 4, 5], [3, 9, 5]) == [0, 2, 2, 3]  # the empty word's: of two neighbors the right one
    assert places([3, 4, 5], [8, 8, 5, 8, 3, 8]) == [2, 2, 2, 0, 0, 0, 3]
    assert places([3], [8, 9]) == [1, 1, 1] and places([], [3]) == [0, 0] and places([3], []) == [1]
    assert places([3, 3], [3]) == [0, 2]


@pytest.mark.spec("PRA-174")
def test_places_that_follow_from_the_index():
    facts = Diagonal().learn(SOURCES, TARGETS)  # 6 source tokens for 6
    assert Diagonal().places(facts, SOURCES, TARGETS, 2).tolist() == [0, 1, 2, 0, 1, 1, 1, 0, 0, 0]
    assert WholeSource().places({}, SOURCES, TARGETS, 2).tolist() == [2] * 10
    table = transitions(IBM1().learn(SOURCES, TARGETS), SOURCES.lengths)
    assert table.shape == (4, 5, 4) and table.sum(2) == pytest.approx(1) and (table[1, :, 2:] == 0).all()


# --- the network ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("PRA-174")
@pytest.mark.parametrize("aligner", [IBM1(), Diagonal(), WholeSource()])
def test_every_step_is_the_formula_and_sums_to_1(aligner):
    """Windows are filled up beyond both ends, contexts before the first token; an empty source is all padding."""
    made = model(aligner)
    state = made.state()
    C, S = state["target.embedding.weight"], state["source_embedding.weight"]
    rows = made.next_log_probs(SOURCES, TARGETS)
    values = made.log_prob(SOURCES, TARGETS)
    places = np.split(aligner.places(made.facts, SOURCES, TARGETS, 1), np.cumsum(TARGETS.lengths + 1)[:-1])
    for k, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        stream, total = [BOS, BOS, *target.tolist(), EOS], 0.0
        for i, place in enumerate(places[k]):
            x = np.concatenate([C[stream[i + 1]], C[stream[i]]])
            around = range(place - 1, place + 2)
            z = np.concatenate([S[BOS if j < 0 else EOS if j >= len(source) else source[j]] for j in around])
            a = state["target.net.hidden.bias"] + state["target.net.hidden.weight"] @ x
            y = state["target.net.bias"] + state["target.net.direct.weight"] @ x + state["source_direct.weight"] @ z
            y = y + state["target.net.out.weight"] @ np.tanh(a + state["source_hidden.weight"] @ z)
            log_p = y - np.log(np.exp(y).sum())
            np.testing.assert_allclose(rows[k][i][[0, 2, 3, 4]], log_p, atol=1e-12)
            assert np.exp(rows[k][i]).sum() == pytest.approx(1, abs=1e-12) and rows[k][i][BOS] == -np.inf
            total += log_p[{0: 0, 2: 1, 3: 2, 4: 3}[stream[i + 2]]]
        assert values[k] == pytest.approx(total, abs=1e-12)


@pytest.mark.spec("PRA-174")
@pytest.mark.parametrize(("units", "direct"), [(4, True), (4, False), (0, True)])
def test_without_weights_of_the_source_it_is_the_neural_ngram_model_exactly(units, direct):
    made = model(IBM1(), units, direct)
    alone, _ = made.target.token_log_prob(TARGETS)
    score, log_z = made.step_scores(SOURCES, TARGETS)
    np.testing.assert_allclose(made.raw_scores(SOURCES, TARGETS), score, atol=1e-12)
    assert np.abs(score - log_z - alone).max() > 1e-3
    with torch.no_grad():
        for layer in (made.source_hidden, made.source_direct):
            if layer is not None:
                layer.weight.zero_()
    score, log_z = made.step_scores(SOURCES, TARGETS)
    np.testing.assert_array_equal(score - log_z, alone)
    log_probs, _ = made.given(SOURCES).step(np.full(4, BOS), made.given(SOURCES).start([[]] * 4))
    expected, _ = made.target.step(np.full(4, BOS), made.target.start([[]] * 4))
    np.testing.assert_allclose(log_probs, expected, atol=1e-12)


@pytest.mark.spec("PRA-174")
@pytest.mark.parametrize("aligner", [Diagonal(), WholeSource()])
def test_where_places_follow_from_the_index_all_targets_sum_to_1_and_the_decoder_says_the_same(aligner):
    made, words, L = model(aligner), [0, 3, 4], 3
    source = [3, 5]
    finished = [list(s) for k in range(L) for s in itertools.product(words, repeat=k)]
    total = np.exp(made.log_prob(Ragged.of([source] * len(finished)), Ragged.of(finished))).sum()
    whole = [list(s) for s in itertools.product(words, repeat=L)]
    rows = made.next_log_probs(Ragged.of([source] * len(whole)), Ragged.of(whole))
    unfinished = sum(np.exp(sum(row[i, w] for i, w in enumerate(s))) for s, row in zip(whole, rows, strict=True))
    assert total + unfinished == pytest.approx(1, abs=1e-12)
    rows, decoder = made.next_log_probs(SOURCES, TARGETS), made.given(SOURCES)
    state = decoder.start([[]] * 4)
    for t in range(4):
        given = [BOS if t == 0 else target[t - 1] if t <= len(target) else EOS for target in TARGETS]
        log_probs, state = decoder.step(np.array(given), state)
        for k, row in enumerate(rows):
            if t < len(row):
                np.testing.assert_allclose(log_probs[k], row[t], atol=1e-12)


@pytest.mark.spec("PRA-174")
def test_the_search_sums_over_all_places_of_what_was_written():
    made = model(IBM1())
    source, target = [3, 4], [4, 3]
    decoder = made.given(Ragged.of([source, [3, 4, 5]]))
    state = decoder.start([[], []])
    tokens, total = [BOS, *target, EOS], 0.0
    for before, after in itertools.pairwise(tokens):
        log_probs, state = decoder.step(np.array([before] * 2), state)
        total += log_probs[0, after]
    moves = transitions(made.facts, np.array([2]))[0]
    log_p, expected = np.zeros((3, 3)), 0.0
    for place in range(3):
        made.aligner = SimpleNamespace(places=lambda *_, place=place: np.full(3, place))
        rows = made.next_log_probs(Ragged.of([source]), Ragged.of([target]))[0]
        log_p[place] = rows[[0, 1, 2], tokens[1:]]
    for path in itertools.product(range(3), repeat=3):
        before = [0, *(place + 1 for place in path)]
        jumps = np.prod([moves[a, b] for a, b in zip(before, path, strict=False)])
        expected += jumps * np.exp(sum(log_p[place, i] for i, place in enumerate(path)))
    assert total == pytest.approx(np.log(expected), abs=1e-12)


@pytest.mark.spec("PRA-174")
def test_the_loss_is_its_formula_and_gradients_are_finite_differences():
    made, objective = model(IBM1()), RowLoss(0.3)
    data = made.rows(SOURCES, TARGETS)
    at = np.arange(len(data["y"]))
    rows = Batch(data, at, at, np.linspace(0.5, 2, len(at)))

    def loss():
        return objective(made, rows, noise=None, phase="train", group=None).total()

    score, log_z = made.step_scores(SOURCES, TARGETS)
    wanted = np.average(log_z - score + 0.3 * log_z**2, weights=rows.weight)
    assert loss().item() == pytest.approx(wanted, abs=1e-12)
    loss().backward()
    for parameter in made.parameters():
        flat, slope = parameter.data.view(-1), parameter.grad.view(-1)
        for i in range(0, len(flat), 5):
            h, kept = 1e-6, float(flat[i])
            flat[i] = kept + h
            above = loss().item()
            flat[i] = kept - h
            below = loss().item()
            flat[i] = kept
            assert float(slope[i]) == pytest.approx((above - below) / (2 * h), abs=1e-7)


# --- the system -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    return gnomon.NeuralJointModel(epochs=30, learning_rate=0.03, **TINY).fit(PAIRS)


@pytest.mark.spec("PRA-174")
def test_the_penalty_draws_the_normalizer_to_1():
    """One seed: the fit is the same every time."""
    far, near = (
        gnomon.NeuralJointModel(epochs=15, learning_rate=0.03, self_normalization=a, **TINY).fit(PAIRS)
        for a in (0.0, 1.0)
    )
    held = [("three two", "drei zwei"), ("one three", "eins drei")]
    for pairs, most in ((PAIRS, 0.15), (held, 1.0)):
        mean = [float(np.abs(np.concatenate(one.log_normalizers(pairs))).mean()) for one in (far, near)]
        assert mean[1] < 0.3 * mean[0] and mean[1] < most
    gaps = [np.abs(one.raw_log_prob(held) - one.log_prob(held)).max() for one in (far, near)]
    assert gaps[1] < 0.5 * gaps[0]
    log_z = [one.sum() for one in near.log_normalizers(held)]
    np.testing.assert_allclose(near.raw_log_prob(held) - log_z, near.log_prob(held), atol=1e-12)


@pytest.mark.spec("PRA-174")
def test_it_scores_ranks_and_translates(fitted):
    held = [("one three", "eins drei"), ("one three", "eins zwei")]
    assert np.subtract(*fitted.log_prob(held)) > 0.5
    assert fitted.rank("one three", ["zwei drei", "eins drei"])[0] == "eins drei"
    ranked = rescore([("one three", ["eins zwei", "eins drei"])], [fitted])[0]
    assert ranked[0][0] == "eins drei" and ranked[0][1] == pytest.approx(fitted.log_prob(held[:1])[0])
    assert fitted.translate(["two one", "three"]) == ["zwei eins", "drei"]
    assert fitted.perplexity(PAIRS) == pytest.approx(np.exp(-fitted.score(PAIRS))) and fitted.perplexity(PAIRS) < 1.5
    (weights,) = fitted.alignment([("three one two", "drei eins zwei")])
    np.testing.assert_array_equal(weights, np.eye(4)[:, :3])
    assert "places" not in gnomon.NeuralJointModel().given_beside
    assert "given their places" in fitted.evaluate(PAIRS)["log_likelihood"].data_space
    total = sum(row[i] for row, i in zip(fitted.decode(held[:1])[0],
                [*fitted.target_vocabulary_.encode(["eins", "drei"]), EOS], strict=True))  # fmt: skip
    assert total == pytest.approx(fitted.log_prob(held[:1])[0])


@pytest.mark.spec("PRA-174")
def test_empty_sides_unknown_words_and_one_word(fitted):
    odd = [("", "eins"), ("one", ""), ("one", "eins"), ("seven 😀", "sieben"), ("one " * 40, "eins " * 40)]
    together = fitted.log_prob(odd)
    assert np.isfinite(together).all()
    assert together[2:] == pytest.approx([fitted.log_prob([one])[0] for one in odd[2:]])
    assert [len(one) for one in fitted.log_normalizers(odd)] == [2, 1, 2, 2, 41]
    assert len(fitted.translate(["", "seven"])) == 2
    whole = gnomon.NeuralJointModel(epochs=2, **TINY | {"alignment_model": "whole"})
    short = whole.fit([("a", "b"), ("", "b"), ("a c", "")])
    assert np.isfinite(short.log_prob([("c", "b")])).all() and short.score([("a", "b")]) < 0
    with pytest.raises(UserError, match="'ibm1'"):
        gnomon.NeuralJointModel(alignment_model="ibm9").fit(PAIRS)
