"""Recurrent language models: exact sums over all sentences, the loss by finite differences, states carried over."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import gnomon
from gnomon.data.batches import Batches
from gnomon.data.counting import BOS, EOS
from gnomon.data.examples import Examples, Ragged
from gnomon.data.layouts import Lanes
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.decoding.ancestral import ancestral
from gnomon.nn.multiplicative import MultiplicativeRNN
from gnomon.nn.recurrent import GRU, LSTM, RNN, Bidirectional
from gnomon.numeric.noise import Noise
from gnomon.systems.sequence._lm import NextTokenLoss, bordered
from gnomon.systems.sequence._model import RecurrentLanguageModel
from gnomon.training.group import Group
from oracles.next_token import every_sequence

F64 = torch.float64
CYCLE = "a b c d"
MULTIPLICATIVE = pytest.param(MultiplicativeRNN, marks=pytest.mark.spec("PRA-172"))


def model(layer=GRU, size=5, seed=0):
    made = RecurrentLanguageModel(size, 3, layer(3, 4, dtype=F64), dtype=F64)
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=random, dtype=F64))
    return made


@pytest.mark.parametrize("layer", [RNN, GRU, LSTM, MULTIPLICATIVE])
def test_all_sentences_of_a_tiny_vocabulary_and_the_unfinished_sum_to_1(layer):
    made = model(layer)  # <unk>, two words, the end
    words, L = [0, 3, 4], 4
    finished = [list(s) for k in range(L) for s in itertools.product(words, repeat=k)]
    total = np.exp(made.log_prob(Ragged.of(finished))).sum()
    open_ended = [list(s) for s in itertools.product(words, repeat=L)]
    values, _ = made.token_log_prob(Ragged.of(open_ended))
    unfinished = np.exp(values.reshape(-1, L + 1)[:, :L].sum(1)).sum()
    assert total + unfinished == pytest.approx(1, abs=1e-12)


@pytest.mark.spec("NLP-30")
def test_a_layer_that_sees_what_it_foretells_is_refused():
    with pytest.raises(UserTypeError, match="must be one that reads forward, got Bidirectional"):
        RecurrentLanguageModel(5, 3, Bidirectional(RNN(3, 2), RNN(3, 2)))


@pytest.mark.spec("NLP-21")
@pytest.mark.parametrize("layer", [RNN, GRU, LSTM])
def test_the_chain_rule_step_by_step_causality_and_padding(layer):
    made = model(layer)
    rows = [[3, 4, 0, 3], [], [4], [3, 3, 3, 4, 4, 0, 4]]
    together = made.log_prob(Ragged.of(rows))
    for row, value in zip(rows, together, strict=True):
        assert made.log_prob(Ragged.of([row]))[0] == pytest.approx(value, abs=1e-12)  # padding is not in it
        state, total, last = made.start([[]]), 0.0, BOS
        for token in [*row, EOS]:
            log_probs, state = made.step(np.array([last]), state)
            assert np.exp(log_probs).sum() == pytest.approx(1) and log_probs[0, BOS] == -np.inf
            total, last = total + log_probs[0, token], token
        assert total == pytest.approx(value, abs=1e-12)
    # shifted by one: what is said of token t does not depend on tokens from t on
    x = made.embedding(torch.tensor([[BOS, 3, 4, 0, 3]])).detach().requires_grad_()
    scores = made.head(made.layer(x)[0])
    for t in range(5):
        (gradient,) = torch.autograd.grad(scores[0, t].square().sum(), x, retain_graph=True)
        assert (gradient[0, t + 1 :] == 0).all() and (gradient[0, t] != 0).any()
    # all strings ended within L steps and the unfinished mass: |V| = 3 outcomes, L = 4
    small = model(layer, size=4)
    finished = [list(s) for k in range(4) for s in itertools.product([0, 3], repeat=k)]
    ended = np.exp(small.log_prob(Ragged.of(finished))).sum()
    values, _ = small.token_log_prob(Ragged.of([list(s) for s in itertools.product([0, 3], repeat=4)]))
    assert ended + np.exp(values.reshape(-1, 5)[:, :4].sum(1)).sum() == pytest.approx(1, abs=1e-12)
    # <s> is read and never foretold: the loss has the tokens and the ends of <s> 3 4 </s> <s> 4 </s>
    batch = Batches(Examples({"X": bordered(Ragged.of([[3, 4], [4]]), 5)}), Lanes(1, 6)).step(0, 0)
    found = NextTokenLoss(carry=False)(made, batch, noise=Noise(0, "x"), phase="fit", group=Group())
    known = torch.log_softmax(made.scores(torch.tensor([[BOS, 3, 4, EOS, BOS, 4]]))[0], 2)[0]
    said = [
        known[t, token - 1 if token > BOS else token].item()
        for t, token in ((0, 3), (1, 4), (2, EOS), (4, 4), (5, EOS))
    ]
    term = found.terms["cross_entropy"]
    assert (term.sum.item(), term.weight) == (pytest.approx(-sum(said)), 5)
    # mean over non-pad positions: perplexity of the system
    fitted = gnomon.RNNLM(n_hidden=4, n_embedding=3, epochs=1, early_stopping="off", random_state=0).fit([CYCLE] * 9)
    text = [CYCLE, "a", "b c"]
    mean = fitted.log_prob(text).sum() / (4 + 1 + 2 + 3)
    assert fitted.perplexity(text) == pytest.approx(np.exp(-mean))
    ids, options = fitted.vocabulary_.encode(["a"]).tolist(), {"temperature": 0.5, "top_k": 3}
    drawn = ancestral(
        fitted.model_, [[BOS, *ids]] * 20, Noise(7, "sample"), max_length=4, vocabulary_size=7, end=EOS, **options
    )  # fmt: skip
    wanted = [" ".join(["a", *fitted.vocabulary_.decode([i for i in row if i > 2 or i == 0])]) for row in drawn]
    assert fitted.generate("a", 20, random_state=7, max_length=4, **options) == wanted
    assert wanted != fitted.generate("a", 20, random_state=7, max_length=4)


@pytest.mark.parametrize("layer", [RNN, GRU, LSTM, MULTIPLICATIVE])
def test_gradients_of_the_truncated_loss_are_those_of_finite_differences(layer):
    """The window's loss as a function of the weights, the state it began in held fixed."""
    made = model(layer)
    ids = np.random.default_rng(0).integers(3, 5, 60)
    text = bordered(Ragged(ids, np.array([0, 25, 60])), 5)
    batches = Batches(Examples({"X": text}), Lanes(2, 6))
    objective = NextTokenLoss(carry=True)
    objective.begin(made, batches, Noise(0, "x"), Group())
    first = objective(made, batches.step(0, 0), noise=Noise(0, "x"), phase="fit", group=Group())
    before = objective.carried.clone()
    assert before.abs().max() > 0 and first.terms["cross_entropy"].weight == 12

    def loss():
        objective.carried = before.clone()
        found = objective(made, batches.step(0, 3), noise=Noise(0, "x"), phase="fit", group=Group())
        return found.terms["cross_entropy"].sum

    loss().backward()
    for parameter in made.parameters():
        gradient = parameter.grad.flatten()
        for k in range(0, parameter.numel(), 3):
            flat, values = parameter.detach().view(-1), []
            for sign in (1, -1):
                flat[k] += sign * 1e-5
                values.append(loss().item())
                flat[k] -= sign * 1e-5
            assert gradient[k].item() == pytest.approx((values[0] - values[1]) / 2e-5, abs=1e-6)


@pytest.mark.spec("DLN-184")
@pytest.mark.parametrize("layer", [RNN, GRU, LSTM, MULTIPLICATIVE])
def test_states_carried_over_are_one_long_pass(layer):
    made = model(layer)
    text = Ragged.of([list(np.random.default_rng(1).integers(3, 5, 90))])
    batches = Batches(Examples({"X": text}), Lanes(3, 5))
    objective = NextTokenLoss(carry=True)
    objective.begin(made, batches, Noise(0, "x"), Group())
    total = weight = 0.0
    for e in range(2):  # a second epoch begins anew
        total = weight = 0.0
        for batch in batches.epoch(e):
            term = objective(made, batch, noise=Noise(0, "x"), phase="fit", group=Group()).terms["cross_entropy"]
            total, weight = total + term.sum.item(), weight + term.weight
    lanes = np.concatenate([batch.data["X"] for batch in batches.epoch(0)], 1)
    after = np.concatenate([batch.data["y"] for batch in batches.epoch(0)], 1)
    kept = np.concatenate([batch.weight for batch in batches.epoch(0)], 1) > 0
    scores, _ = made.scores(torch.from_numpy(lanes))
    log_probs = torch.log_softmax(scores, 2).numpy(force=True)
    whole = -np.take_along_axis(log_probs, np.where(after > 0, after - 1, 0)[..., None], 2)[..., 0][kept].sum()
    assert (total, weight) == (pytest.approx(whole, rel=1e-12), kept.sum())
    # judging leaves no trace
    state = objective.carried.clone()
    judged = [objective.validate(made, batch, noise=Noise(0, "x"), group=Group()) for batch in batches.epoch(0)]
    assert sum(loss.terms["cross_entropy"].sum.item() for loss in judged) == pytest.approx(whole, rel=1e-12)
    assert torch.equal(objective.carried, state)
    windows = NextTokenLoss(carry=False)
    windows.begin(made, batches, Noise(0, "x"), Group())
    again = [windows(made, batches.step(0, 2), noise=Noise(0, "x"), phase="fit", group=Group()) for _ in range(2)]
    assert torch.equal(again[0].terms["cross_entropy"].sum, again[1].terms["cross_entropy"].sum)
    assert not list(windows.buffers())


@pytest.mark.spec("DLN-181")
def test_inputs_are_the_true_tokens_whatever_the_model_would_say():
    """Teacher forcing: states do not depend on the head; free running, the same model goes its own way."""
    one, two = model(seed=1), model(seed=1)
    with torch.no_grad():
        two.head.weight.neg_()
        two.head.bias.neg_()
    ids = torch.tensor([[BOS, 3, 4, 4, 0, 3]])
    outputs = [made.layer(made.embedding(ids))[0] for made in (one, two)]
    assert torch.equal(*outputs)
    batch = Batches(Examples({"X": Ragged.of([[BOS, 3, 4, 4, 0, 3, EOS]])}), Lanes(1, 6)).step(0, 0)
    assert batch.data["X"].tolist() == [[BOS, 3, 4, 4, 0, 3]]  # y_0 ... y_(T-1)
    assert batch.data["y"].tolist() == [[3, 4, 4, 0, 3, EOS]]  # y_1 ... y_T
    from gnomon.inference.decoding.greedy import greedy

    free = [greedy(made, [[BOS]], max_length=5, end=None)[0][0].tolist() for made in (one, two)]
    assert free[0] != free[1]
    state, last = one.start([[]]), BOS
    for token in free[0]:  # what was said is what is read
        log_probs, state = one.step(np.array([last]), state)
        last = int(log_probs.argmax())
        assert last == token


@pytest.mark.spec("DLN-182")
def test_generation_warms_up_on_the_prefix_and_feeds_back_what_it_says():
    made = model()
    prefix = [BOS, 3, 4, 3]
    options = {"max_length": 6, "vocabulary_size": 5, "end": EOS}
    drawn = ancestral(made, [prefix] * 20, Noise(0, "s"), **options)
    for row in drawn:  # log_prob of what was drawn: the sum of the conditionals, and of the whole pass
        tokens = [int(t) for t in row if t >= 0]
        state, total, last = made.start([prefix[:-1]]), 0.0, prefix[-1]
        for token in tokens:
            log_probs, state = made.step(np.array([last]), state)
            total, last = total + log_probs[0, token], token
        ids = torch.tensor([prefix + tokens])
        whole = torch.log_softmax(made.scores(ids[:, :-1])[0], 2)[0, len(prefix) - 1 :]
        wanted = ids[0, len(prefix) :]
        index = (wanted - (wanted > BOS).to(wanted.dtype))[:, None]
        assert total == pytest.approx(whole.gather(1, index).sum().item(), abs=1e-12)
        assert EOS not in tokens[:-1]
    fitted = gnomon.RNNLM(
        n_hidden=16, n_embedding=8, window=5, batch_size=2, epochs=25, learning_rate=0.03, early_stopping="off",
        random_state=0,
    ).fit([CYCLE] * 20)  # fmt: skip
    assert fitted.generate("a", method="greedy") == [CYCLE]  # a deterministic text goes round
    assert fitted.generate("a b", method="beam", width=3) == [CYCLE]
    assert fitted.generate("a", 3, temperature=0.1, random_state=0) == [CYCLE] * 3
    with pytest.raises(UserValueError, match="n must be at most 1, got 2"):
        fitted.generate("a", 2, method="greedy")


@pytest.mark.spec("DLN-184")
@pytest.mark.parametrize("sampling", ["sequential", "random"])
def test_it_learns_a_text_that_goes_round(sampling):
    text = ["a b c d e f g"] * 30
    options = {"n_hidden": 16, "n_embedding": 8, "window": 6, "batch_size": 4, "sampling": sampling, "random_state": 0,
               "early_stopping": "off"}  # fmt: skip
    fitted = gnomon.RNNLM(epochs=40, learning_rate=0.03, **options).fit(text)
    assert fitted.perplexity(text) < 1.1 and fitted.clip == 1.0
    assert fitted.evaluate(text)["perplexity"].value == pytest.approx(fitted.perplexity(text))
    assert fitted.generate("a b c", method="greedy") == ["a b c d e f g"]
    untrained = gnomon.RNNLM(epochs=1, learning_rate=1e-9, **options).fit(text)
    assert untrained.perplexity(text) == pytest.approx(9, rel=0.35)  # <unk>, seven words, the end
    assert fitted.history_["cross_entropy"][-1] < np.log(1.1) < fitted.history_["cross_entropy"][0]
    assert min(fitted.history_["gradient_norm"]) > 0


@pytest.mark.parametrize("n", [2, 3])
def test_the_widest_beam_and_enumeration_agree_on_a_recurrent_model(n):
    from gnomon.inference.decoding.beam import beam_search

    made = model(size=5, seed=n)

    class Rows:
        def row(self, history):
            log_probs, _ = made.step(np.array(history[-1:]), made.start([list(history[:-1])]))
            return np.exp(log_probs[0])

    found = beam_search(made, [[BOS]], 5**n, max_length=n, end=EOS, alpha=0.75, n_best=4)[0]
    sequences = every_sequence(Rows(), [BOS], 5, n, EOS)
    scores = {t: total / len(t) ** 0.75 for t, total in sequences.items() if t[-1] == EOS}
    assert [one.tokens for one in found] == sorted(scores, key=scores.get, reverse=True)[: len(found)]
    assert found[0].log_prob == pytest.approx(made.log_prob(Ragged.of([found[0].tokens[:-1]]))[0])


@pytest.mark.spec("DLN-184")
@pytest.mark.parametrize("sampling", ["sequential", "random"])
def test_the_state_is_reset_as_the_sampler_asks(sampling):
    """Windows of one token begin nowhere else than at the first; a rate of nothing leaves the loss of one model."""
    text = ["a b c d", "d c", "b a d c a"]
    fitted = gnomon.RNNLM(
        n_hidden=4, n_embedding=3, window=1, batch_size=1, epochs=2, learning_rate=1e-30, optimizer="sgd", unknown=0.0,
        dropout=0.0, sampling=sampling, early_stopping="off", dtype="float64", random_state=0,
    ).fit(text, validation=text)  # fmt: skip
    made, ids = fitted.model_, torch.from_numpy(bordered(fitted._encoded(text), 7).values)
    whole = made.scores(ids[None, :-1])[0][0]
    alone = made.scores(ids[:-1, None])[0][:, 0]
    assert not torch.allclose(whole, alone, atol=1e-3)
    kept = ids[1:] != BOS
    target = (ids[1:] - (ids[1:] > BOS).to(ids.dtype))[kept]
    loss = torch.nn.functional.cross_entropy((whole if sampling == "sequential" else alone)[kept], target).item()
    assert fitted.history_["cross_entropy"] == pytest.approx([loss] * 2, rel=1e-12)
    assert fitted.history_["validation_cross_entropy"] == pytest.approx([loss] * 2, rel=1e-12)


@pytest.mark.parametrize("sampling", ["sequential", "random"])
def test_held_out_text_is_judged_with_its_borders(sampling):
    text = ["a b c d"] * 6
    fitted = gnomon.RNNLM(
        n_hidden=4, n_embedding=3, window=12, batch_size=1, epochs=1, sampling=sampling, dtype="float64", unknown=0.0,
        random_state=0,
    ).fit(text, validation=["d c a"])  # fmt: skip
    wanted = -fitted.log_prob(["d c a"])[0] / 4  # three words and the end
    assert fitted.history_["validation_cross_entropy"] == pytest.approx([wanted])


def test_new_words_have_a_probability():
    text = [f"w{i} a b" for i in range(40)]
    options = {"n_hidden": 8, "n_embedding": 4, "window": 4, "batch_size": 4, "epochs": 12, "learning_rate": 0.02,
               "early_stopping": "off", "random_state": 0}  # fmt: skip
    with_unknown, without = (gnomon.GRULM(unknown=u, **options).fit(text) for u in (0.5, 0.0))
    new = ["new a b"]
    assert with_unknown.log_prob(new)[0] > without.log_prob(new)[0] + 2
    assert with_unknown.next_distribution("")[0] > 0.1
    assert len(with_unknown.vocabulary_) == 3 + 42


@pytest.mark.spec("NLP-23")
def test_gradients_along_a_text_are_those_of_each_tokens_loss():
    """Across borders of sentences; what comes after an end, <s>, has no loss."""
    options = {"n_hidden": 5, "n_embedding": 4, "epochs": 1, "dtype": "float64", "early_stopping": "off"}
    fitted = gnomon.GRULM(random_state=0, **options).fit(["a b c d e f"] * 5)
    text = ["b a", "", "f f c"]
    found, made = fitted.log_gradient_norms(text, length=9), fitted.model_
    ids = bordered(fitted._encoded(text), 9).values
    first = made.layer.step(made.embedding(torch.tensor(ids[:1])), made.layer.initial(1)).detach().requires_grad_()
    state = first
    for t in range(9):
        state = state if t == 0 else made.layer.step(made.embedding(torch.tensor(ids[t : t + 1])), state)
        if ids[t + 1] == BOS:
            assert ids[t] == EOS and np.isnan(found[t])
            continue
        scores = torch.cat([made.head(state)[0, :1], torch.tensor([-torch.inf]), made.head(state)[0, 1:]])
        (slope,) = torch.autograd.grad(-torch.log_softmax(scores, 0)[int(ids[t + 1])], first, retain_graph=True)
        assert found[t] == pytest.approx(np.log(slope.norm().item()))
    assert found.shape == (9,) and np.isnan(found).sum() == 2
    assert fitted.log_gradient_norms(text, length=99).shape == (10,)  # 5 words and 6 borders
