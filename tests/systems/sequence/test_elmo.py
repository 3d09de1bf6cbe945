"""ELMo: two language models that never see what they foretell, and vectors of tokens in their sentences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import gnomon
from gnomon.data.counting import BOS, EOS
from gnomon.data.layouts import Batch
from gnomon.errors import UserValueError
from gnomon.nn.recurrent import LSTM
from gnomon.nn.stacked import Stacked
from gnomon.numeric.ragged import Ragged
from gnomon.systems.sequence.elmo import BidirectionalLanguageModel, BothDirections, backward, swapped
from gnomon.training.group import Group

F64 = torch.float64
TEXT = ["the sun casts a shadow", "the dial shows the hour", "a bank of the river", "the bank has the gold", "sun"] * 4


def model(seed=0, size=5, width=4, depth=2):
    layers = [Stacked([LSTM(width, width, dtype=F64) for _ in range(depth)]) for _ in range(2)]
    made = BidirectionalLanguageModel(size, width, *layers, dtype=F64)
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=random, dtype=F64) / 2)
    return made


@pytest.fixture(scope="module")
def fitted():
    return gnomon.ELMo(
        n_hidden=6, window=7, batch_size=4, epochs=4, early_stopping="off", random_state=0, dtype="float64"
    ).fit(TEXT)


@pytest.mark.spec("NLP-40")
def test_each_half_is_a_language_model_of_its_own():
    """Of all sentences and unfinished ones the probabilities sum to 1, in both directions."""
    made, words, L = model(), [0, 3, 4], 3
    finished = Ragged.of([list(s) for k in range(L) for s in itertools.product(words, repeat=k)])
    open_ended = Ragged.of([list(s) for s in itertools.product(words, repeat=L)])
    for one in (made, made.back):
        values, _ = one.token_log_prob(open_ended)
        unfinished = np.exp(values.reshape(-1, L + 1)[:, :L].sum(1)).sum()
        assert np.exp(one.log_prob(finished)).sum() + unfinished == pytest.approx(1, abs=1e-12)


@pytest.mark.spec("NLP-40")
def test_no_direction_sees_what_it_foretells():
    made = model()
    ids = torch.tensor([[BOS, 3, 4, 0, 3, EOS]])
    table = made.embedding.weight.detach()
    for depth in (1, 2):
        x = table[ids].clone().requires_grad_()
        ahead = made.layer.outputs(x)[depth - 1]
        (gradient,) = torch.autograd.grad(ahead[0, 2].sum(), x)
        assert (gradient[0, 3:] == 0).all() and (gradient[0, :3].abs().sum(1) > 0).all()
        turned = x.flip(1)
        back = made.backward_layer.outputs(turned)[depth - 1].flip(1)
        (gradient,) = torch.autograd.grad(back[0, 2].sum(), x)
        assert (gradient[0, :2] == 0).all() and (gradient[0, 2:].abs().sum(1) > 0).all()


@pytest.mark.spec("NLP-40")
def test_a_direction_on_reversed_text_is_the_other_with_swapped_weights():
    made, other = model(), model(1)
    state = made.state_dict()
    names = {"layer": "backward_layer", "backward_layer": "layer"}
    parts = {name: name.partition(".") for name in state}
    other.load_state_dict({name: state[f"{names.get(head, head)}.{rest}"] for name, (head, _, rest) in parts.items()})
    text = Ragged.of([[3, 4, 0, 3], [], [4], [3, 3, 4]])
    turned = Ragged.of([one[::-1] for one in text])
    np.testing.assert_allclose(other.log_prob(turned), made.back.log_prob(turned), rtol=1e-12)
    np.testing.assert_allclose(other.back.log_prob(text), made.log_prob(text), rtol=1e-12)


@pytest.mark.spec("NLP-40")
def test_the_loss_is_the_sum_of_both_language_models():
    """On windows that are whole sentences: minus their log probabilities; by differences too."""
    made, sentence = model(), [3, 4, 0, 3]
    full = np.array([[BOS, *sentence, EOS]])
    batch = Batch({"X": full[:, :-1], "y": full[:, 1:]}, np.arange(1), np.arange(1), np.ones((1, 5)))
    options = {"noise": None, "phase": "fit", "group": Group()}
    loss = BothDirections()(made, batch, **options)
    text, turned = Ragged.of([sentence]), Ragged.of([sentence[::-1]])
    wanted = [-made.log_prob(text)[0], -made.back.log_prob(turned)[0]]
    assert loss.terms["cross_entropy"].sum.item() == pytest.approx(sum(wanted), rel=1e-12)
    assert loss.terms["cross_entropy"].weight == 10
    assert loss.terms["forward_cross_entropy"].sum == pytest.approx(wanted[0])
    assert loss.terms["backward_cross_entropy"].sum == pytest.approx(wanted[1])
    loss.terms["cross_entropy"].sum.backward()
    for name in ("embedding.weight", "head.weight", "layer.layers.0.weight_h", "backward_layer.layers.1.weight_x"):
        parameter, step = made.get_parameter(name), 1e-6
        index = (1, 2)
        gradient = float(parameter.grad[index])
        ends = []
        for sign in (1, -1):
            with torch.no_grad():
                parameter[index] += sign * step
                ends.append(BothDirections()(made, batch, **options).terms["cross_entropy"].sum.item())
                parameter[index] -= sign * step
        assert gradient == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5, abs=1e-8), name


@pytest.mark.spec("NLP-40")
def test_windows_read_backward():
    """Borders change their names, what fills up a window stays behind, and beginnings are foretold in place of ends."""
    X, y = np.array([[BOS, 3, 4, EOS], [5, EOS, 0, 0]]), np.array([[3, 4, EOS, BOS], [EOS, 0, 0, 0]])
    weight = np.array([[1, 1, 1, 1], [1, 0, 0, 0.0]])
    found = backward(Batch({"X": X, "y": y}, np.arange(2), np.arange(2), weight))
    assert found.data["X"].tolist() == [[EOS, BOS, 4, 3], [BOS, 5, 0, 0]]
    assert found.data["y"].tolist() == [[BOS, 4, 3, EOS], [5, 0, 0, 0]]
    assert found.weight.tolist() == [[1, 1, 1, 1], [1, 0, 0, 0]]
    ids = torch.tensor([0, 1, 2, 3])
    assert torch.equal(swapped(swapped(ids)), ids)


@pytest.mark.spec("NLP-40")
def test_verbs_of_both_directions(fitted):
    ahead, back = (fitted.direction_log_prob(TEXT[:4], one) for one in ("forward", "backward"))
    np.testing.assert_allclose(ahead, fitted.log_prob(TEXT[:4]))
    turned = fitted.vocabulary_.encode(TEXT[1].split())[::-1]
    assert back[1] == pytest.approx(fitted.model_.back.log_prob(Ragged.of([turned]))[0])
    assert not np.allclose(ahead, back)
    history = fitted.history_
    both = (np.array(history["forward_cross_entropy"]) + np.array(history["backward_cross_entropy"])) / 2
    np.testing.assert_allclose(history["cross_entropy"], both, rtol=0.1)  # as many tokens each, but for the borders
    assert fitted.perplexity(TEXT) < len(fitted.vocabulary_)
    tokens = sum(len(one.split()) + 1 for one in TEXT[:4])
    for direction, total in (("forward", ahead), ("backward", back)):
        assert fitted.perplexity(TEXT[:4], direction=direction) == pytest.approx(np.exp(-total.sum() / tokens))
    some = fitted.perplexity(["sun moon the"], direction="backward", unknown="skip")  # without what it says of moon
    values, _ = fitted.model_.back.token_log_prob(Ragged.of([fitted.vocabulary_.encode(["the", "moon", "sun"])]))
    assert some == pytest.approx(np.exp(-values[[0, 2, 3]].mean()))
    with pytest.raises(UserValueError, match="direction must be forward or backward, got 'up'"):
        fitted.direction_log_prob(TEXT, "up")
    with pytest.raises(UserValueError, match="unknown must be"):
        fitted.perplexity(TEXT, direction="backward", unknown="drop")


@pytest.mark.spec("NLP-41")
def test_a_word_has_another_vector_in_another_sentence(fitted):
    river, gold = fitted.token_vectors(["a bank of the river", "the bank has the gold"])
    assert river.shape == (5, 12) and not np.allclose(river[1], gold[1], atol=1e-4)
    pair = ["a bank of the river", "the bank has the gold"]
    static = [one[1] for one in fitted.token_vectors(pair, layer_weights=[200, 0, 0])]
    np.testing.assert_allclose(static[0], static[1], rtol=1e-12)  # the embedding alone
    embedded = fitted.model_.embedding.weight.detach().numpy()[fitted.vocabulary_.encode(["bank"])[0]]
    np.testing.assert_allclose(static[0], np.concatenate([embedded, embedded]), rtol=1e-12)
    layers = [fitted.token_vectors([TEXT[0]], layer_weights=np.eye(3)[j] * 800)[0] for j in range(3)]
    np.testing.assert_allclose(fitted.token_vectors([TEXT[0]])[0], sum(layers) / 3, rtol=1e-9)
    np.testing.assert_allclose(fitted.token_vectors([TEXT[0]], scale=0.5)[0], sum(layers) / 6, rtol=1e-9)
    with pytest.raises(UserValueError, match="layer_weights must be 3 numbers"):
        fitted.token_vectors(TEXT, layer_weights=[1, 2])


@pytest.mark.spec("NLP-41")
def test_vectors_do_not_depend_on_the_sentences_beside(fitted):
    given = ["sun", "", "the dial shows the hour", "the 🌞 has gold"]
    together = fitted.token_vectors(given)
    normalized = fitted.token_vectors(given, normalize=True)
    np.testing.assert_allclose(fitted.token_vectors(["sun"], normalize=True)[0], normalized[0], rtol=1e-9)
    top = fitted.token_vectors(given[2:3], layer_weights=[0, 0, 800], normalize=True)[0]
    assert (top.mean(), top.std()) == (pytest.approx(0, abs=1e-9), pytest.approx(1))
    for sentence, found in zip(given, together, strict=True):
        if sentence:
            np.testing.assert_allclose(found, fitted.token_vectors([sentence])[0], rtol=1e-9)
        assert len(found) == len(sentence.split())
    means = fitted.transform(given)
    assert (means[1] == 0).all()
    np.testing.assert_allclose(means[2], together[2].mean(0))


@pytest.mark.spec("NLP-31")
def test_the_state_at_the_beginning_has_read_the_whole_sentence(fitted):
    given = ["sun", "the dial shows the hour", "a bank of the river"]
    together = fitted.encode(given)
    for i, sentence in enumerate(given):  # independent of padding
        np.testing.assert_allclose(fitted.encode([sentence])[0], together[i], rtol=1e-9)
        ids = torch.tensor([[BOS, *fitted.vocabulary_.encode(sentence.split())[::-1], EOS]])
        model = fitted.model_  # the last state of the network on the reversed sentence
        last = model.backward_layer(model.embedding(ids))[0][0, -1].detach().numpy()
        np.testing.assert_allclose(together[i], last, rtol=1e-9)
    both = fitted.encode(given, both=True)
    np.testing.assert_allclose(both[:, :6], together)
    ids = torch.tensor([[BOS, *fitted.vocabulary_.encode(["sun"]), EOS]])
    np.testing.assert_allclose(both[0, 6:], model.layer(model.embedding(ids))[0][0, -1].detach().numpy(), rtol=1e-9)
    x = model.embedding.weight.detach()[torch.tensor([[BOS, 3, 4, 5, EOS]])].requires_grad_()
    (gradient,) = torch.autograd.grad(model.backward_layer(x)[0][0, -1].sum(), x)
    assert (gradient[0].abs().sum(1) > 0).all()  # of all tokens
