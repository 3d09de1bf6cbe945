"""Sentences from codes: quadrature over one latent variable, sums over all sentences, finite differences.

Statistical checks have fixed seeds and allow 5 standard errors: a false alarm of 6e-7 each.
"""

from __future__ import annotations

import copy
import functools
import itertools
import math

import numpy as np
import pytest
import torch
from scipy.stats import chisquare, norm

import gnomon
from gnomon.data.counting import BOS, EOS
from gnomon.data.layouts import Batch
from gnomon.distributions.family import kl_divergence
from gnomon.distributions.latents import LOG_VARIANCE, DiagonalGaussian, GaussianLatents, kl_standard_normal
from gnomon.distributions.real import Normal
from gnomon.errors import UserValueError
from gnomon.evaluation.collapse import collapse_report
from gnomon.nn.context import training
from gnomon.nn.dropout import WordDropout, drop_words
from gnomon.nn.recurrent import LSTM
from gnomon.numeric.noise import Noise
from gnomon.numeric.ragged import Ragged
from gnomon.objectives.variational import ELBO, IWAE
from gnomon.runs.folder import RunFolder
from gnomon.systems.sequence._model import RecurrentLanguageModel
from gnomon.systems.sequence._sentence_codes import (
    SentenceModel,
    WritesFromCodes,
    bag_of_words_loss,
    marked,
    shift_right,
)
from gnomon.systems.sequence.sentence_vae import SentenceBound, SentenceVAE
from gnomon.training.group import Group

F64 = torch.float64
TEXT = ["a", "", "a a", "a a a"] * 3
GRID = np.linspace(-9.0, 9.0, 1801)
LOG_CELL = norm.logpdf(GRID) + math.log(GRID[1] - GRID[0])


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def wild(model, seed=0, scale=1.0):
    own = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(scale * torch.randn(parameter.shape, generator=own, dtype=F64))
    return model


def net(size=5, n_latent=1, seed=0, **given):
    return wild(SentenceModel(size, 3, 4, n_latent, dtype=F64, **given), seed)


def rows_of(sentences):
    text = Ragged.of(sentences)
    return torch.from_numpy(marked(text.padded(), text.lengths))


@functools.cache
def fitted():
    """One word, <unk> and the end; one latent variable; weights of about 1."""
    system = SentenceVAE(
        n_latent=1, n_hidden=3, n_embedding=2, epochs=1, dtype="float64", early_stopping="off", random_state=0
    )
    system.fit(TEXT)
    wild(system.model_, 3)
    with torch.no_grad():  # q not far from the posterior, so that importance sampling is not to blame
        system.model_.to_codes.weight.mul_(0.4)
        system.model_.to_codes.bias.mul_(0.4)
    return system


def on_grid(model, x):
    """log p(x | z) of sentences at every z of the grid, (sentences, grid)."""
    z = torch.from_numpy(GRID)[:, None]
    with torch.no_grad():
        return torch.stack([model.log_likelihood(one.expand(len(z), -1), z) for one in x]).numpy()


def evidence(model, x):
    return np.logaddexp.reduce(on_grid(model, x) + LOG_CELL, axis=1)


SHORT = [list(s) for k in range(4) for s in itertools.product([0, 3], repeat=k)]


# --- the density ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("NLP-62")
def test_all_sentences_and_the_unfinished_sum_to_1_over_codes():
    model = net(size=4)
    finished = np.exp(evidence(model, rows_of(SHORT))).sum()
    z = torch.from_numpy(GRID)[:, None]
    opened = 0.0
    for s in itertools.product([0, 3], repeat=4):
        with torch.no_grad():
            each = model.token_log_likelihood(rows_of([list(s)]).expand(len(z), -1), z)[:, :4].sum(1).numpy()
        opened += np.exp(each + LOG_CELL).sum()
    assert finished + opened == pytest.approx(1, abs=1e-9)


@pytest.mark.spec("NLP-62", "NLP-63", "NLP-67")
def test_the_verbs_are_what_quadrature_says():
    """log p(x), the bound below it, its reconstruction, and the gap, which is the divergence from p(z | x)."""
    system = fitted()
    model, text = system.model_, ["", "a", "a a", "a a a"]
    x = rows_of([[], [3], [3, 3], [3, 3, 3]])
    likelihood, log_p = on_grid(model, x), evidence(model, x)
    mean, variance = (one[:, 0] for one in system.encode(text))
    np.testing.assert_allclose(system.transform(text)[:, 0], mean)
    q = np.stack([norm(m, s).pdf(GRID) for m, s in zip(mean, np.sqrt(variance), strict=True)]) * (GRID[1] - GRID[0])
    assert np.allclose(q.sum(1), 1, atol=1e-6)
    log_q = np.stack([norm(m, s).logpdf(GRID) for m, s in zip(mean, np.sqrt(variance), strict=True)])
    reconstruction = (q * likelihood).sum(1)
    divergence = (q * (log_q - norm.logpdf(GRID))).sum(1)
    bound = reconstruction - divergence
    found, told = system.elbo(text, 300), system.reconstruction(text, 300)
    assert found.value == pytest.approx(bound.mean(), abs=5 * found.error) and found.kind == "lower bound"
    assert told.value == pytest.approx(reconstruction.mean(), abs=5 * told.error)
    assert found.note.startswith("reconstruction ") and found.unit == "nats per sentence"
    assert float(found.note.split()[-1]) == pytest.approx(divergence.mean(), abs=1e-5)
    posterior = likelihood + norm.logpdf(GRID) - log_p[:, None]
    gap = (q * (log_q - posterior)).sum(1)
    np.testing.assert_allclose(bound + gap, log_p, atol=1e-6)
    assert (gap > 0).all()
    half = system.elbo(text, 300, beta=0.5)
    assert half.value - found.value == pytest.approx(0.5 * divergence.mean(), abs=1e-9) and half.kind == "estimate"
    estimate = system._estimate(system._encoded(text), 4000)
    assert (abs(estimate.value - log_p) < 5 * estimate.stderr + 1e-3).all()
    np.testing.assert_array_equal(system.log_prob(text, 4000), estimate.value)
    scores, tokens = system.evaluate(text), 4 + 6
    assert scores["log_likelihood"].kind == "lower bound" and scores["perplexity"].kind == "upper bound"
    assert estimate.stderr.max() < 0.1
    assert scores["log_likelihood"].value == pytest.approx(system.log_prob(text).sum() / tokens)
    assert bound.sum() - 0.1 < tokens * scores["log_likelihood"].value < log_p.sum() + 0.2
    assert scores["elbo"].value == pytest.approx(bound.mean(), abs=5 * scores["elbo"].error)
    assert scores["perplexity"].value == pytest.approx(system.perplexity(text))
    assert scores["log_likelihood"].unit == "nats per token"


@pytest.mark.spec("NLP-63")
def test_the_bound_and_the_divergence_from_the_posterior_are_the_evidence_on_a_discrete_toy():
    model, x = net(seed=4), rows_of([[3, 4]])
    states = torch.linspace(-2, 2, 5, dtype=F64)[:, None]
    prior = np.array([0.1, 0.2, 0.4, 0.2, 0.1])
    with torch.no_grad():
        joint = np.log(prior) + model.log_likelihood(x.expand(5, -1), states).numpy()
    log_p = np.logaddexp.reduce(joint)
    for seed in range(5):
        q = np.random.default_rng(seed).dirichlet(np.ones(5))
        bound, gap = q @ (joint - np.log(q)), q @ (np.log(q) - (joint - log_p))
        assert bound + gap == pytest.approx(log_p, abs=1e-12) and gap >= 0
    exact = np.exp(joint - log_p)
    assert exact @ (joint - np.log(exact)) == pytest.approx(log_p, abs=1e-12)


@pytest.mark.spec("NLP-62")
def test_a_decoder_that_ignores_its_code_is_a_language_model():
    model = net(n_latent=2)
    with torch.no_grad():
        for layer in (model.to_state, model.to_input, model.to_codes):
            layer.weight.zero_()
            layer.bias.zero_()
    alone = RecurrentLanguageModel(5, 3, LSTM(3, 4, dtype=F64), dtype=F64)
    for one, other in (("embedding", "embedding"), ("layer", "writer"), ("head", "head")):
        getattr(alone, one).load_state_dict(getattr(model, other).state_dict())
    sentences = [[3, 4, 0], [], [4]]
    x, z = rows_of(sentences), random(3, 2)
    log_p = alone.log_prob(Ragged.of(sentences))
    np.testing.assert_allclose(model.log_likelihood(x, z).detach().numpy(), log_p, atol=1e-12)
    loss = SentenceBound(ELBO().build(), 0.0).validate(model, batch(sentences), noise=Noise(0, "x"), group=Group())
    assert float(loss.terms["negative_bound"].sum) == pytest.approx(-log_p.sum(), abs=1e-10)  # q is the prior too


@pytest.mark.spec("NLP-62")
def test_the_encoder_reads_a_sentence_to_its_end():
    model, sentences = net(n_latent=2), [[3, 4, 0], [], [4]]
    found = model.encode(rows_of(sentences))
    for i, sentence in enumerate(sentences):
        state = model.reader.initial(1)
        for token in [*sentence, EOS]:
            state = model.reader.step(model.embedding(torch.tensor([token])), state)
        mean, log_variance = model.to_codes(state[:, : model.reader.units]).chunk(2, 1)
        torch.testing.assert_close(found.mean[i], mean[0])
        torch.testing.assert_close(found.log_variance[i], log_variance[0].clamp(*LOG_VARIANCE))


@pytest.mark.parametrize("into", ["both", "state", "inputs"])
def test_a_code_enters_where_it_is_told(into):
    model, x = net(into=into), rows_of([[3, 4]])
    z = torch.zeros(1, 1, dtype=F64, requires_grad=True)
    assert torch.autograd.grad(model.log_likelihood(x, z).sum(), z)[0].abs().item() > 1e-6
    assert (model.to_state is None) == (into == "inputs") and (model.to_input is None) == (into == "state")


# --- the loss ---------------------------------------------------------------------------------------------------------


def batch(sentences, weight=None):
    text = Ragged.of(sentences)
    n = len(text)
    weight = np.ones(n) if weight is None else weight
    return Batch({"X": text.padded(), "X_length": text.lengths}, np.arange(n), np.arange(n), weight)


@pytest.mark.spec("NLP-64")
def test_the_divergence_of_codes_from_the_prior():
    assert kl_standard_normal(torch.tensor(1.0, dtype=F64), torch.tensor(0.5, dtype=F64).log()).item() == pytest.approx(
        0.5965736, abs=1e-7
    )
    mean, log_variance = random(2, 7), random(2, 7, seed=1)
    own = torch.distributions.Normal(mean, (log_variance / 2).exp())
    wanted = torch.distributions.kl_divergence(own, torch.distributions.Normal(0, 1))
    torch.testing.assert_close(kl_standard_normal(mean, log_variance), wanted.to(F64))
    assert (kl_standard_normal(torch.zeros(3), torch.zeros(3)) == 0).all()
    general = torch.distributions.kl_divergence(own, torch.distributions.Normal(torch.tensor(0.5), torch.tensor(2.0)))
    found = kl_divergence(Normal(mean.numpy(), (log_variance / 2).exp().numpy()), Normal(0.5, 2.0))
    np.testing.assert_allclose(found, general.numpy(), rtol=1e-6)
    model = net()
    with torch.no_grad():
        model.to_codes.weight.mul_(1e6)
        codes = model.encode(rows_of([[3, 4], [4]]))
    assert (codes.log_variance.abs() <= max(LOG_VARIANCE)).all()
    assert torch.isfinite(model.divergence(codes)).all()


@pytest.mark.spec("NLP-66")
def test_draws_are_differentiable_functions_of_mean_and_deviation():
    mean = torch.tensor([[0.7, -1.0]], dtype=F64, requires_grad=True)
    log_variance = torch.tensor([[0.3, -0.4]], dtype=F64, requires_grad=True)
    noise = Noise(0, "codes")
    z = DiagonalGaussian(mean, log_variance).rsample(noise)
    e = noise.normal((1, 2), 0, like=mean.detach())
    sigma = (log_variance / 2).exp()
    torch.testing.assert_close(z, torch.distributions.Normal(mean, sigma).loc + sigma * e)
    assert not e.requires_grad
    by_mean, by_log = torch.autograd.grad(z.sum(), (mean, log_variance))
    torch.testing.assert_close(by_mean, torch.ones_like(mean))
    torch.testing.assert_close(by_log, e * sigma / 2)  # dz / d sigma = e
    draws = 40_000
    squares = DiagonalGaussian(mean, log_variance).rsample(noise.rows([0]), draws=draws).square()
    slope = torch.autograd.grad(squares.mean(0).sum(), mean)[0]
    assert torch.allclose(slope, 2 * mean, atol=5 * 2 * sigma.max().item() / draws**0.5)


@pytest.mark.spec("NLP-63", "NLP-66", "NLP-71")
@pytest.mark.parametrize("objective", [ELBO(), ELBO(n_samples=3, beta=0.4), IWAE(k=3, estimator="pathwise")])
def test_gradients_are_those_of_finite_differences_under_the_same_noise(objective):
    model = wild(SentenceModel(5, 2, 3, 2, bag=True, dtype=F64), scale=0.7)
    loss, sentences = SentenceBound(objective.build(), 0.3), [[3, 4, 0], [], [4]]

    def total():
        one = loss(model, batch(sentences, np.array([1.0, 2.0, 0.5])), noise=Noise(0, "fit").at(3), phase="fit",
                   group=Group())  # fmt: skip
        return sum(term.scale * term.sum for term in one.terms.values() if isinstance(term.sum, torch.Tensor) and
                   term.sum.requires_grad)  # fmt: skip

    slopes = torch.autograd.grad(total(), list(model.parameters()))
    places = np.random.default_rng(0)
    for parameter, slope in zip(model.parameters(), slopes, strict=True):
        at, step = int(places.integers(parameter.numel())), 1e-6
        flat = parameter.detach().view(-1)
        with torch.no_grad():
            flat[at] += step
        above = total().item()
        with torch.no_grad():
            flat[at] -= 2 * step
        below = total().item()
        with torch.no_grad():
            flat[at] += step
        assert (above - below) / (2 * step) == pytest.approx(slope.view(-1)[at].item(), rel=1e-5, abs=1e-7)


@pytest.mark.spec("NLP-67")
def test_errors_fall_with_the_root_of_the_draws_and_draws_without_gradient_teach_the_encoder_nothing():
    system, text = fitted(), ["a a", "a", ""]
    few, many = system.reconstruction(text, 100), system.reconstruction(text, 1600)
    assert few.error / many.error == pytest.approx(4, rel=0.25)
    model, x = system.model_, rows_of([[3, 3]])
    codes = model.encode(x)
    path = torch.autograd.grad(model.log_likelihood(x, codes.rsample(Noise(0, "x"))).sum(), model.to_codes.bias)[0]
    naive = torch.autograd.grad(
        model.log_likelihood(x, codes.sample(Noise(0, "x"))).sum(), model.to_codes.bias, allow_unused=True
    )[0]
    assert path.abs().max() > 1e-6 and naive is None


@pytest.mark.spec("NLP-69")
def test_the_factor_of_the_divergence_rises_in_training_alone():
    for ramp in ("linear", "sigmoid"):
        rises = [ELBO(warm_up=20, ramp=ramp).factor(step) for step in range(40)]
        assert rises[0] == 0 and (np.diff(rises) >= 0).all() and rises[20:] == pytest.approx([1.0] * 20)
        assert rises[10] == pytest.approx(0.5)
    assert ELBO(warm_up=20, ramp="sigmoid").factor(2) < 0.05 < 0.1 <= ELBO(warm_up=20).factor(2)
    turns = [ELBO(beta=2.0, warm_up=5, cycles=3).factor(step) for step in range(60)]
    assert [turns[s] for s in (0, 5, 9, 10, 15, 20, 25, 30, 59)] == pytest.approx([0, 2, 2, 0, 2, 0, 2, 2, 2])
    model, sentences = net(n_latent=2), [[3, 4], [4]]

    def value(recipe, update, validates=False):
        loss, noise = SentenceBound(recipe.build(), 0.0), Noise(0, "fit").at(update)
        if validates:
            found = loss.validate(model, batch(sentences), noise=noise, group=Group())
        else:
            found = loss(model, batch(sentences), noise=noise, phase="fit", group=Group())
        return float(found.terms["negative_bound"].sum.detach())

    divergence = model.divergence(model.encode(rows_of(sentences))).sum().item()
    for update in (0, 4, 9, 30):
        plain, warm = value(ELBO(), update), value(ELBO(warm_up=10), update)
        assert plain - warm == pytest.approx((1 - min(1, (update + 1) / 10)) * divergence, abs=1e-9)
        held = value(ELBO(free_bits=50.0), update)
        assert held - plain == pytest.approx(2 * 2 * 50.0 - divergence, abs=1e-9)
        assert value(ELBO(warm_up=10), update, True) == pytest.approx(value(ELBO(), update, True), abs=1e-12)


@pytest.mark.spec("NLP-69")
def test_the_step_of_the_ramp_is_saved(tmp_path):
    """A fit that is stopped within the ramp and gone on with ends as the whole one; under another ramp it does not."""

    def make(warm_up=12):
        return SentenceVAE(
            n_hidden=3, n_embedding=2, n_latent=1, batch_size=3, epochs=3, random_state=0, early_stopping="off",
            objective=ELBO(warm_up=warm_up), word_dropout=0.4,
        )  # fmt: skip

    whole, begun, fresh = make().fit(TEXT), make(), make()
    examples = begun.ingest(TEXT)
    begun._fit(examples, begun._open(tmp_path / "run", examples), limit=5)
    fresh._fit(examples, fresh._open(RunFolder.open(tmp_path / "run"), examples))
    for name, value in whole.model_.state().items():
        np.testing.assert_array_equal(value, fresh.model_.state()[name])
    assert not np.array_equal(whole.model_.state()["head.weight"], make(3).fit(TEXT).model_.state()["head.weight"])


@pytest.mark.spec("NLP-70")
def test_words_of_the_history_are_dropped_in_training_alone():
    ids = torch.tensor([[BOS, 5, 7, 0, EOS, EOS], [BOS, 6, 6, 6, 5, EOS]])
    noise = Noise(0, "words")
    assert torch.equal(drop_words(ids, 0.0, noise), ids)
    assert drop_words(ids, 1.0, noise).tolist() == [[1, 0, 0, 0, 2, 2], [1, 0, 0, 0, 0, 2]]
    many = torch.full((400, 50), 9)
    lost = (drop_words(many, 0.3, noise) == 0).double().mean().item()
    assert lost == pytest.approx(0.3, abs=5 * (0.21 / 20_000) ** 0.5)
    part = drop_words(many[:3, :20], 0.3, noise.rows([7, 8, 9]))
    assert torch.equal(part, drop_words(many[:10], 0.3, noise.rows(range(10)))[7:, :20])  # by place, whatever is padded
    with pytest.raises(UserValueError, match="rate must be in"):
        WordDropout(1.5)
    model = net(word_dropout=1.0)
    model.bind()
    x, z = rows_of([[3, 4, 3], [4, 3, 4]]), torch.ones(2, 1, dtype=F64)
    free = model.token_log_likelihood(x, z)
    with training(Noise(0, "fit")):
        scored = model.token_log_likelihood(x, z)
        slope = torch.autograd.grad(model.token_log_likelihood(x, z).sum(), model.embedding.weight)[0]
    assert not torch.allclose(free, scored)
    assert (slope[3:] == 0).all() and slope[BOS].abs().max() > 0  # no word of the history reaches the decoder
    # targets are untouched: after the same (lost) history the words of both sentences share one distribution
    torch.testing.assert_close(scored[0, [0, 2]].flip(0), scored[0, [2, 0]])
    with training(Noise(0, "fit")):
        same = model.token_log_likelihood(rows_of([[4, 4, 3], [3, 3, 4]]), z)
    torch.testing.assert_close(same[0, 0], scored[1, 0])
    torch.testing.assert_close(same[:, 2:], scored[:, 2:])


@pytest.mark.spec("NLP-71")
def test_the_bag_of_words_is_counts_times_log_probabilities():
    scores = random(1, 6)
    one, other = bag_of_words_loss(scores, rows_of([[3, 4, 4, 6]])), bag_of_words_loss(scores, rows_of([[4, 6, 3, 4]]))
    torch.testing.assert_close(one, other)
    log_p = torch.log_softmax(scores, 1)[0]
    counts = torch.tensor([0, 0, 1, 2, 0, 1], dtype=F64)  # of <unk>, the end, and ids 3, 4, 5, 6
    torch.testing.assert_close(one[0], -(counts @ log_p))
    torch.testing.assert_close(bag_of_words_loss(torch.zeros(1, 6, dtype=F64), rows_of([[3, 4, 4, 6]]))[0],
                               4 * torch.tensor(6.0, dtype=F64).log())  # fmt: skip
    padded = torch.cat([rows_of([[3, 4]]), torch.full((1, 3), -1)], 1)
    torch.testing.assert_close(bag_of_words_loss(scores, padded), bag_of_words_loss(scores, rows_of([[3, 4]])))
    model, sentences = net(bag=True), [[3, 4], [], [4]]
    parts = {}
    for weight in (0.0, 0.5):
        loss = SentenceBound(ELBO(n_samples=2).build(), weight)
        parts[weight] = loss(model, batch(sentences), noise=Noise(0, "fit").at(0), phase="fit", group=Group()).terms
    assert parts[0.0]["negative_bound"].sum.item() == pytest.approx(parts[0.5]["negative_bound"].sum.item())
    codes = model.encode(rows_of(sentences))
    z = codes.rsample(Noise(0, "fit").at(0).child("latent").rows(np.arange(3)), draws=2)
    wanted = bag_of_words_loss(model.bag(z), rows_of(sentences).repeat_interleave(2, 0)).sum() / 2
    assert parts[0.5]["bag_of_words"].sum.item() == pytest.approx(wanted.item())
    assert parts[0.5]["bag_of_words"].scale == 0.5
    report = SentenceVAE(bag_of_words=1.0, n_hidden=3, n_embedding=2, n_latent=1, epochs=2, random_state=0).fit(TEXT)
    assert len(report.history_["bag_of_words"]) == 2


@pytest.mark.spec("NLP-73")
def test_one_pass_is_the_steps_with_true_inputs_and_no_target_is_among_the_inputs():
    """A shift that let the target through would give every true token what it likes: sums over tokens tell."""
    model, sentences = net(n_latent=2), [[3, 4, 0, 3], [], [4]]
    x, z = rows_of(sentences), random(3, 2)
    assert shift_right(x).tolist()[0] == [BOS, 3, 4, 0, 3] and shift_right(x)[1, 0] == BOS
    passed = model.token_log_likelihood(x, z).detach().numpy()
    for i, sentence in enumerate(sentences):
        writer, at = WritesFromCodes(model, lambda n, i=i: z[i][None, None]), []
        state = writer.start([[]])
        for given, wanted in zip([BOS, *sentence], [*sentence, EOS], strict=True):
            log_probs, state = writer.step(np.array([given]), state)
            at.append(log_probs[0, wanted])
        np.testing.assert_allclose(passed[i, : len(at)], at, atol=1e-12)
        assert (passed[i, len(at) :] == 0).all()
        np.testing.assert_allclose(model.log_likelihood(x, z)[i].item(), sum(at), atol=1e-12)
    for t in range(3):
        mass, wrong = 0.0, 0.0
        for token in (0, 2, 3, 4):
            one = torch.tensor([[3, 4, 0, 3, 2]])
            one[0, t] = token
            mass += model.token_log_likelihood(one, z[:1])[0, t].exp().item()
            outputs, _ = model.writer(model._driven(one, z[:1]), model.begin(z[:1]))  # unshifted: the target leaks
            wrong += model.foretell(outputs[:, t]).exp()[0, token].item()
        assert mass == pytest.approx(1, abs=1e-12) and abs(wrong - 1) > 1e-3


# --- writing ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("NLP-65")
def test_sentences_are_drawn_as_often_as_quadrature_says():
    """Chi-square over all sentences of up to two words, and the rest: a false alarm of 1e-4."""
    system = fitted()
    texts, ended = system.sample(6000, random_state=1, max_length=30, return_ended=True)
    kinds = [[], [3], [3, 3], [0], [0, 0], [0, 3], [3, 0]]
    mass = np.exp(evidence(system.model_, rows_of(kinds)))
    domain, words = system.known_domain(), system.vocabulary_.decode
    names = [domain.text(words(np.array(ids, np.int64))) for ids in kinds]
    counts = np.array([sum(text == name and end for text, end in zip(texts, ended, strict=True)) for name in names])
    observed, expected = np.append(counts, 6000 - counts.sum()), 6000 * np.append(mass, 1 - mass.sum())
    keep = expected > 5
    pooled = np.append(observed[keep], observed[~keep].sum()), np.append(expected[keep], expected[~keep].sum())
    assert chisquare(pooled[0] + 1e-9, pooled[1] + 1e-9).pvalue > 1e-4
    drawn = system.generate("", 2000, random_state=2, max_length=30)
    share = np.mean([text == "" for text in drawn])
    assert share == pytest.approx(mass[0], abs=5 * (mass[0] / 2000) ** 0.5)


@pytest.mark.spec("NLP-65")
def test_a_fixed_code_is_written_greedily_in_one_way_and_cuts_are_told():
    system = fitted()
    codes = [[0.3], [-1.0], [2.0]]
    assert system.inverse_transform(codes) == system.inverse_transform(codes)
    one, cold = (
        system.sample(50, random_state=3, max_length=12, **way) for way in ({"method": "greedy"}, {"temperature": 1e-4})
    )
    assert one == cold
    texts, ended = system.sample(200, random_state=0, max_length=1, return_ended=True)
    assert 0 < ended.sum() < 200
    assert all((text == "") == end for text, end in zip(texts, ended, strict=True))
    assert len(system.generate("a", 2, method="beam", random_state=0, max_length=6)) == 2
    with pytest.raises(UserValueError, match="method must be"):
        system.sample(1, method="beam")
    with pytest.raises(UserValueError, match="codes must be finite and of shape"):
        system.inverse_transform([[0.0, 1.0]])


@pytest.mark.spec("NLP-65")
def test_what_follows_a_beginning_is_averaged_over_codes_that_explain_it():
    """64 codes of the prior against quadrature: p(next | a a) within what 64 draws give."""
    system = fitted()
    found = system.next_distribution("a a")
    z = torch.from_numpy(GRID)[:, None]
    with torch.no_grad():
        state, log_p = system.model_.read([[BOS, 3, 3]] * len(z), z)
        each = system.model_.foretell(state).exp().numpy()
    weight = np.exp(log_p.numpy() + LOG_CELL)
    wanted = weight @ each / weight.sum()
    assert found.sum() == pytest.approx(1, abs=1e-9) and found[BOS] == 0
    np.testing.assert_allclose(found, wanted, atol=0.15)
    model = system.model_  # tokens weigh the codes, however they come
    _, state = model.step(np.array([3]), model.start([[BOS]]))
    for token in (3, 0):
        stepped, begun = (model.step(np.array([token]), one)[0] for one in (state, model.start([[BOS, 3]])))
        np.testing.assert_allclose(stepped, begun, atol=1e-12)
    drawn = system.generate("a a", 3000, random_state=5, max_length=1)
    share = np.mean([text == "a a" for text in drawn])
    assert share == pytest.approx(wanted[EOS], abs=0.045)


@pytest.mark.spec("NLP-65")
def test_a_code_is_drawn_as_often_as_the_beginning_makes_it_probable():
    """One of three codes for each of 4000 equal beginnings: chi-square, a false alarm of 1e-4."""
    model, codes = net(), torch.tensor([[-1.5], [0.0], [1.5]], dtype=F64)
    writer = WritesFromCodes(model, lambda n: codes.expand(n, 3, 1), Noise(4, "sample"))
    _, state = writer.step(np.full(4000, 3), writer.start([[BOS, 3]] * 4000))
    _, log_p = model.read([[BOS, 3, 3]] * 3, codes)
    counts = (state["z"][:, 0] == codes.T).sum(0).numpy()
    assert state["z"].shape == (4000, 1, 1) and counts.sum() == 4000
    assert chisquare(counts, 4000 * torch.softmax(log_p, 0).detach().numpy()).pvalue > 1e-4


@pytest.mark.spec("NLP-62")
def test_it_learns_codes_that_its_sentences_come_back_from():
    text = ["the sun casts the shadow", "a dial shows the hour", "noon"] * 12
    model = SentenceVAE(
        n_hidden=16, n_embedding=8, n_latent=2, batch_size=9, epochs=50, learning_rate=0.03, word_dropout=0.5,
        objective=ELBO(warm_up=200), early_stopping="off", random_state=0,
    ).fit(text)  # fmt: skip
    assert model.reconstruct(text[:3]) == text[:3]
    way = model.interpolate(text[0], text[2], 5)
    assert (way[0], way[-1]) == (text[0], text[2]) and len(way) == 5
    seen: list[np.ndarray] = []
    model.inverse_transform = lambda Z, max_length: seen.append(Z)
    model.interpolate(text[0], text[2], 3)
    first, last = model.transform([text[0], text[2]])
    np.testing.assert_allclose(seen[0], [first, first + (last - first) / 2, last], rtol=1e-6)
    del model.inverse_transform
    report = model.collapse_report(text)
    assert report.n_active >= 1 and report.loss_from_shuffling > 1
    assert report.elbo == pytest.approx(model.elbo(text).value, abs=0.3)


# --- collapse ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("NLP-68")
def test_collapse_is_told_by_divergence_activity_information_and_shuffling():
    system = copy.deepcopy(fitted())
    model, text = system.model_, ["", "a", "a a", "a a a"] * 4
    informed = system.collapse_report(text)
    assert informed.loss_from_shuffling != 0
    with torch.no_grad():
        for layer in (model.to_state, model.to_input):
            layer.weight.zero_()
    deaf = system.collapse_report(text)  # codes say something, the decoder does not listen
    assert deaf.loss_from_shuffling == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(deaf.divergence, informed.divergence)
    assert deaf.divergence.sum() > 0.01 and deaf.mutual_information == informed.mutual_information
    with torch.no_grad():
        model.to_codes.weight.zero_()
        model.to_codes.bias.zero_()
    gone = system.collapse_report(text)
    assert gone.divergence.sum() == 0 and gone.n_active == 0 and gone.mutual_information == pytest.approx(0, abs=1e-12)
    assert "0 of 1 latent variables active" in str(gone)


@pytest.mark.spec("NLP-68")
def test_codes_far_from_each_other_hold_all_that_rows_differ_in():
    mean = 50.0 * np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    found = collapse_report(mean, np.zeros((4, 2)), mean, -np.arange(4.0), -np.arange(4.0) - 3)
    assert found.n_active == 2 and found.loss_from_shuffling == 3
    assert found.mutual_information == pytest.approx(math.log(4)) and found.variance == pytest.approx([2500, 2500])
    np.testing.assert_allclose(found.divergence, [1250, 1250])
    latents = GaussianLatents()
    codes = DiagonalGaussian(torch.tensor(mean), torch.zeros(4, 2, dtype=F64))
    np.testing.assert_allclose(found.divergence, latents.divergence(codes).mean(0).numpy())


# --- texts as they come -----------------------------------------------------------------------------------------------


def test_texts_of_all_lengths_and_scripts():
    text = ["", "a", "short 🙂 текст 漢字", " ".join(["long"] * 300)] * 2
    model = SentenceVAE(n_hidden=3, n_embedding=2, n_latent=1, epochs=1, batch_size=3, random_state=0).fit(text)
    assert np.isfinite(model.log_prob(text, 4)).all() and model.transform(["", "🙂"]).shape == (2, 1)
    assert len(model.reconstruct(["", "a"], max_length=3)) == 2
    np.testing.assert_allclose(model.transform(text)[1], model.transform(["a"])[0], atol=1e-6)
    assert gnomon.make("sentence-vae").get_params()["n_latent"] == 16
