"""Noise-contrastive estimation of words: expectations over all noise words, its optimum, its limit, its conventions."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch.nn import functional

from gnomon.distributions.table import Table
from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise
from gnomon.objectives.sampled_softmax import conditional_nce, conditional_nce_losses, word_log_prob

V = 6
Q = np.array([0.3, 0.25, 0.2, 0.1, 0.1, 0.05])
P = np.random.default_rng(0).dirichlet(np.ones(V), size=2)
"""Probabilities of six words in two contexts."""

CONTEXTS = torch.eye(2, dtype=torch.float64)
LOG_Q = torch.from_numpy(np.log(Q))
ROWS, TARGETS, SHARES = CONTEXTS.repeat_interleave(V, 0), torch.arange(V).repeat(2), torch.from_numpy(P.ravel())
"""Each word of each context, and its probability there."""


def scores(seed=1):
    """A table of scores as weights of one-hot contexts, (V, 2)."""
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(V, 2)))


def expected(weight, k, log_q=LOG_Q):
    """The mean loss over contexts, targets and all V^k lists of noise words, by their probabilities."""
    total = torch.zeros((), dtype=torch.float64)
    for words in itertools.product(range(V), repeat=k):
        chance, drawn = np.prod(Q[list(words)]), torch.tensor(words)
        losses = conditional_nce_losses(ROWS, TARGETS, weight, None, drawn, log_q[drawn], log_q[TARGETS])
        total = total + 0.5 * chance * (SHARES * losses).sum()
    return total


def by_hand(s, k):
    """The same as one sum over words: the true one against k words of q, odds exp(s) to k q."""
    total = 0.0
    for context in range(2):
        for w in range(V):
            share = math.exp(s[w, context]) / (math.exp(s[w, context]) + k * Q[w])
            total -= 0.5 * (P[context, w] * math.log(share) + k * Q[w] * math.log(1 - share))
    return total


@pytest.mark.spec("INF-56")
@pytest.mark.parametrize("k", [1, 2])
def test_the_mean_over_all_noise_words_is_the_sum_by_hand(k):
    weight = scores()
    assert float(expected(weight, k)) == pytest.approx(by_hand(weight.numpy(), k), abs=1e-12)


@pytest.mark.spec("INF-56")
def test_the_optimum_is_normalized_without_being_told():
    """Least at s(w, c) = log p(w | c): the exponentials sum to 1 in each context."""

    def objective(flat):
        weight = torch.from_numpy(flat.reshape(V, 2)).requires_grad_()
        loss = expected(weight, 1)
        loss.backward()
        return float(loss.detach()), weight.grad.numpy().ravel()

    found = minimize(objective, np.zeros(2 * V), jac=True, method="BFGS", options={"gtol": 1e-9}).x.reshape(V, 2)
    np.testing.assert_allclose(found, np.log(P).T, atol=1e-6)
    np.testing.assert_allclose(np.exp(found).sum(0), 1, atol=1e-6)
    weight = torch.from_numpy(found)
    for y in range(V):
        target = torch.full((2,), y)
        full = word_log_prob(CONTEXTS, target, weight, None)
        np.testing.assert_allclose(word_log_prob(CONTEXTS, target, weight, None, full=False), full, atol=1e-6)
        np.testing.assert_allclose(full, np.log(P[:, y]), atol=1e-6)


@pytest.mark.spec("INF-56")
def test_without_the_correction_it_is_negative_sampling_another_model():
    """Scores of words drawn from q, as if K q were 1, end at log p - log q and are not normalized."""

    def objective(flat):
        weight = torch.from_numpy(flat.reshape(V, 2)).requires_grad_()
        loss = expected(weight, 1, torch.zeros(V, dtype=torch.float64))
        loss.backward()
        return float(loss.detach()), weight.grad.numpy().ravel()

    found = minimize(objective, np.zeros(2 * V), jac=True, method="BFGS", options={"gtol": 1e-9}).x.reshape(V, 2)
    np.testing.assert_allclose(found, np.log(P / Q).T, atol=1e-6)
    assert abs(np.exp(found).sum(0) - 1).min() > 0.5


@pytest.mark.spec("INF-56")
def test_many_noise_words_give_the_gradient_of_the_softmax():
    """At scores that are normalized; each word K q(w) times, so that nothing is random. The error falls as 1 / K."""
    weight = torch.log_softmax(scores(), dim=0)
    target, apart = torch.tensor([0, 4]), []
    for k in (20, 200, 2000):
        words = torch.from_numpy(np.repeat(np.arange(V), np.rint(k * Q).astype(int)))
        assert len(words) == k
        at = weight.clone().requires_grad_()
        losses = conditional_nce_losses(CONTEXTS, target, at, None, words, LOG_Q[words], LOG_Q[target])
        found = torch.autograd.grad(losses.sum(), at)[0]
        at = weight.clone().requires_grad_()
        exact = torch.autograd.grad(functional.cross_entropy(CONTEXTS @ at.T, target, reduction="sum"), at)[0]
        apart.append(float((found - exact).abs().max()))
    np.testing.assert_allclose(np.divide(apart[:-1], apart[1:]), 10, rtol=0.35)
    assert apart[-1] < 5e-3


@pytest.mark.spec("INF-56")
def test_tensorflow_s_convention():
    """Its nce_loss: logits less the log of expected counts, labels 1 and 0, cross-entropies summed over the words."""
    random = np.random.default_rng(3)
    hidden, weight = torch.from_numpy(random.normal(size=(4, 3))), torch.from_numpy(random.normal(size=(V, 3)))
    bias, target, words = (
        torch.from_numpy(random.normal(size=V)),
        torch.tensor([0, 5, 2, 2]),
        torch.tensor([1, 1, 2, 5]),
    )
    true = (hidden * weight[target]).sum(1) + bias[target] - torch.log(4 * torch.from_numpy(Q)[target])
    sampled = hidden @ weight[words].T + bias[words] - torch.log(4 * torch.from_numpy(Q)[words])
    logits = torch.cat([true[:, None], sampled], 1)
    labels = torch.zeros_like(logits)
    labels[:, 0] = 1
    theirs = functional.binary_cross_entropy_with_logits(logits, labels, reduction="none").sum(1)
    found = conditional_nce_losses(hidden, target, weight, bias, words, LOG_Q[words], LOG_Q[target])
    np.testing.assert_allclose(found, theirs, atol=1e-12)


@pytest.mark.spec("INF-56")
def test_drawn_words_give_the_mean_loss_and_a_network_learns_the_words():
    """300 draws of 3 words: within 4.5 standard errors of the sum by hand; then a fit of fresh draws each step."""
    unigram, weight = Table(Q), scores()
    found = []
    for i in range(300):
        y = torch.from_numpy(np.array([np.searchsorted(np.cumsum(P[c]), (i + 0.5) / 300) for c in range(2)]))
        found.append(float(conditional_nce(CONTEXTS, y, weight, None, unigram, 3, Noise(0, "words").at(i)).sum) / 2)
    assert abs(np.mean(found) - by_hand(weight.numpy(), 3)) < 4.5 * np.std(found) / np.sqrt(300)
    learned = torch.zeros(V, 2, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([learned], lr=0.1)
    for i in range(100):
        optimizer.zero_grad()
        term = conditional_nce(ROWS, TARGETS, learned, None, unigram, 500, Noise(1, "words").at(i), row_weight=SHARES)
        term.sum.backward()
        optimizer.step()
    assert term.weight == pytest.approx(2)
    log_p = torch.stack([word_log_prob(CONTEXTS, torch.full((2,), y), learned, None) for y in range(V)])
    np.testing.assert_allclose(log_p.exp().sum(0).detach(), 1, atol=1e-12)
    np.testing.assert_allclose(log_p.exp().detach(), P.T, atol=0.05)
    np.testing.assert_allclose(torch.exp(learned.detach()).sum(0), 1, atol=0.15)


@pytest.mark.spec("INF-56")
def test_targets_that_are_never_noise_and_numbers_that_do_not_fit_are_refused():
    hidden, weight, target = torch.zeros(2, 3), torch.zeros(V, 3), torch.tensor([0, 5])
    never = Table([0.5, 0.5, 0.0, 0.0, 0.0, 0.0])
    with pytest.raises(UserValueError, match="the proposal gives the target probability 0"):
        conditional_nce(hidden, target, weight, None, never, 3, Noise(0, "words"))
    with pytest.raises(UserValueError, match="n_samples must be at least 1"):
        conditional_nce(hidden, target, weight, None, Table(Q), 0, Noise(0, "words"))
    with pytest.raises(UserValueError, match="log_q_target is required, one per row"):
        words = torch.tensor([1])
        conditional_nce_losses(hidden, target, weight, None, words, torch.zeros(1), torch.zeros(1))
    with pytest.raises(UserValueError, match=r"target must be in \[0, 6\)"):
        word_log_prob(hidden, torch.tensor([0, 6]), weight, None)
    large = torch.full((1, 1), 1e4)
    words = torch.tensor([1])
    loss = conditional_nce_losses(
        large, torch.tensor([0]), torch.ones(2, 1), None, words, torch.zeros(1), torch.zeros(1)
    )
    assert loss.tolist() == [1e4]
