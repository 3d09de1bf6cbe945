"""Sampled softmax: the exact loss when every word is used once, the gradient's formula, its limit, conventions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from gnomon.distributions.table import Table
from gnomon.errors import UserError
from gnomon.numeric.noise import Noise
from gnomon.objectives.sampled_softmax import effective_words, sampled_softmax, sampled_softmax_losses

V, D, N = 6, 3, 4
Q = np.array([0.3, 0.25, 0.2, 0.1, 0.1, 0.05])
TARGET = torch.tensor([0, 5, 2, 2])


def problem():
    draw = Noise(0, "problem")
    like = torch.empty(0, dtype=torch.float64)
    hidden, weight, bias = (
        draw.child(name).normal(shape, like=like).requires_grad_()
        for name, shape in (("hidden", (N, D)), ("weight", (V, D)), ("bias", (V,)))
    )
    return hidden, weight, bias


def gradients(loss, inputs):
    return [g.numpy() for g in torch.autograd.grad(loss, inputs)]


def exact(inputs, row_weight=None):
    hidden, weight, bias = inputs
    losses = functional.cross_entropy(hidden @ weight.T + bias, TARGET, reduction="none")
    return (losses if row_weight is None else losses * row_weight).sum()


@pytest.mark.spec("INF-09")
@pytest.mark.parametrize("own", ["exact", "sampled"])
def test_every_word_once_under_a_uniform_proposal_is_the_softmax(own):
    inputs = problem()
    words = torch.tensor([3, 1, 0, 5, 2, 4])
    log_q = torch.full((V,), -math.log(V), dtype=torch.float64)
    losses = sampled_softmax_losses(inputs[0], TARGET, inputs[1], inputs[2], words, log_q, own=own)
    assert losses.sum().item() == pytest.approx(exact(inputs).item(), rel=1e-14)
    for a, b in zip(gradients(losses.sum(), inputs), gradients(exact(inputs), inputs), strict=True):
        assert np.allclose(a, b, rtol=0, atol=1e-14)


@pytest.mark.spec("INF-09")
def test_the_gradient_is_that_of_self_normalized_sampling():
    """grad a_y - sum_k v_k grad a_wk with v ~ exp(a) / q, written out for draws with repeats and hits."""
    hidden, weight, bias = inputs = problem()
    words = torch.tensor([0, 0, 3, 2, 5, 1, 1])
    log_q = torch.from_numpy(np.log(Q))[words]
    losses = sampled_softmax_losses(hidden, TARGET, weight, bias, words, log_q, own="sampled")
    found = gradients(losses.sum(), inputs)
    h, W, b, w = hidden.detach().numpy(), weight.detach().numpy(), bias.detach().numpy(), words.numpy()
    d_hidden, d_weight, d_bias = np.zeros_like(h), np.zeros_like(W), np.zeros_like(b)
    for i, y in enumerate(TARGET.tolist()):
        v = np.exp(W[w] @ h[i] + b[w]) / Q[w]
        v /= v.sum()
        for word, share in [(y, -1.0), *zip(w, v, strict=True)]:
            d_hidden[i] += share * W[word]
            d_weight[word] += share * h[i]
            d_bias[word] += share
    for a, c in zip(found, (d_hidden, d_weight, d_bias), strict=True):
        assert np.allclose(a, c, rtol=0, atol=1e-13)


@pytest.mark.spec("INF-09")
@pytest.mark.parametrize("own", ["exact", "sampled"])
def test_the_normalizer_is_unbiased_and_the_gradient_tends_to_the_exact_one(own):
    """Over all 36 pairs of words E[Z_hat] = Z; the mean gradient of 150 losses comes near as K grows (4.5 errors)."""
    hidden, weight, bias = inputs = problem()
    mean = torch.zeros(N, dtype=torch.float64)
    for pair in itertools.product(range(V), repeat=2):
        words = torch.tensor(pair)
        losses = sampled_softmax_losses(
            hidden, TARGET, weight, bias, words, torch.from_numpy(np.log(Q))[words], own=own
        )
        scores = (hidden * weight[TARGET]).sum(1) + bias[TARGET]
        mean += Q[list(pair)].prod() * (losses + scores).exp().detach()
    z = (hidden @ weight.T + bias).exp().sum(1).detach()
    assert torch.allclose(mean, z, rtol=1e-13, atol=0)
    truth = gradients(exact(inputs), inputs)[2]
    bias_of = {}
    for k in (10, 1000):
        draws = []
        for seed in range(150):
            noise = Noise(seed, "words").child(str(k))
            draws.append(gradients(sampled_softmax(hidden, TARGET, weight, bias, Table(Q), k, noise, own=own).sum,
                                   inputs)[2])  # fmt: skip
        off, error = np.mean(draws, axis=0) - truth, np.std(draws, axis=0) / math.sqrt(150)
        bias_of[k] = np.abs(off).max()
        if k == 1000:
            assert (abs(off) < 4.5 * error + 2e-3).all()
            assert error.max() < 0.02
    assert bias_of[10] > 3 * bias_of[1000]


@pytest.mark.spec("INF-09")
def test_accidental_hits_as_in_tensorflow():
    """logits - log(K q) for target and draws, hits out, softmax cross-entropy with the target first."""
    hidden, weight, bias = problem()
    words = torch.tensor([0, 2, 2, 4, 5])
    log_q = torch.from_numpy(np.log(Q))
    for own, correction in (("expected", True), ("exact", False)):
        losses = sampled_softmax_losses(
            hidden, TARGET, weight, bias, words, log_q[words], log_q[TARGET], own=own
        ).detach()
        for i, y in enumerate(TARGET.tolist()):
            score = (weight @ hidden[i] + bias).detach().numpy()
            first = score[y] - (math.log(5 * Q[y]) if correction else 0.0)
            rest = [score[w] - math.log(5 * Q[w]) for w in words.tolist() if w != y]
            row = np.array([first, *rest])
            assert losses[i].item() == pytest.approx(np.log(np.exp(row).sum()) - first, rel=1e-13)
    only = torch.full((3,), 2)
    hit = sampled_softmax_losses(hidden[2:], TARGET[2:], weight, bias, only, log_q[only])
    assert torch.equal(hit, torch.zeros(2, dtype=torch.float64))
    unbounded = sampled_softmax_losses(hidden[:1] * 0, TARGET[:1], weight * 0, bias * 0 + torch.eye(V)[0] * 50,
                                       torch.tensor([3]), log_q[[3]], own="sampled")  # fmt: skip
    assert unbounded.item() < -40


@pytest.mark.spec("INF-09")
def test_sums_over_rows_and_their_weights():
    hidden, weight, bias = inputs = problem()
    row_weight = torch.tensor([1.0, 2.0, 0.0, 0.5], dtype=torch.float64)

    def term(rows=slice(None), **options):
        return sampled_softmax(hidden[rows], TARGET[rows], weight, bias, Table(Q), 50, Noise(1, "words"), **options)

    whole = term()
    assert whole.weight == N
    parts = [term(slice(0, 1)), term(slice(1, 4))]
    assert sum(part.sum.item() for part in parts) == pytest.approx(whole.sum.item(), rel=1e-13)
    weighted = term(row_weight=row_weight)
    assert weighted.weight == 3.5
    single = [term(slice(i, i + 1)).sum.item() for i in range(N)]
    assert weighted.sum.item() == pytest.approx(float(np.dot(single, row_weight.numpy())), rel=1e-13)
    with torch.no_grad():
        words = torch.as_tensor(np.asarray(Table(Q).sample(50, Noise(1, "words"))).reshape(-1))
        log_q = torch.log(torch.as_tensor(Q, dtype=torch.float64))
        found = set()
        for own in ("exact", "sampled", "expected"):
            given = hidden, TARGET, weight, bias, words, log_q[words], log_q[TARGET]
            by_rows = sampled_softmax_losses(*given, own=own)
            assert term(own=own).sum.item() == pytest.approx(by_rows.sum().item(), rel=1e-13)
            found.add(round(by_rows.sum().item(), 9))
        assert len(found) == 3 and term().sum.item() == term(own="exact").sum.item()
    no_bias = sampled_softmax(hidden, TARGET, weight, None, Table(Q), 50, Noise(1, "words"))
    zero_bias = sampled_softmax(hidden, TARGET, weight, bias * 0, Table(Q), 50, Noise(1, "words"))
    assert no_bias.sum.item() == pytest.approx(zero_bias.sum.item(), rel=1e-14)
    large = sampled_softmax(hidden * 1e4, TARGET, weight, bias, Table(Q), 50, Noise(1, "words"))
    assert torch.isfinite(large.sum)
    assert torch.autograd.gradcheck(
        lambda h, w, b: sampled_softmax(h, TARGET, w, b, Table(Q), 9, Noise(2, "words")).sum, inputs
    )


@pytest.mark.spec("INF-09")
def test_words_count_equally_where_the_model_is_the_proposal():
    words = torch.tensor([0, 1, 1, 4, 5, 3, 2, 0])
    log_q = torch.from_numpy(np.log(Q))
    zero = torch.zeros(2, D, dtype=torch.float64)
    flat = effective_words(zero, torch.zeros(V, D, dtype=torch.float64), log_q, words, log_q[words])
    assert torch.allclose(flat, torch.full((2,), 8.0, dtype=torch.float64))
    v = np.exp(np.eye(V)[5] * 4)[words.numpy()] / Q[words.numpy()]
    steep = effective_words(zero, torch.zeros(V, D, dtype=torch.float64), torch.eye(V, dtype=torch.float64)[5] * 4,
                            words, log_q[words])  # fmt: skip
    assert steep[0].item() == pytest.approx(v.sum() ** 2 / (v**2).sum(), rel=1e-12)


def test_what_cannot_be_scored_is_refused():
    hidden, weight, bias = problem()
    words, log_q = torch.tensor([0, 1]), torch.tensor([-1.0, -1.0], dtype=torch.float64)

    def run(h=hidden, y=TARGET, w=weight, b=bias, k=words, q=log_q, **options):
        return sampled_softmax_losses(h, y, w, b, k, q, **options)

    cases = [
        (
            lambda: run(y=torch.tensor([0, 1, 6, 2])),
            r"target must be in \[0, 6\), got 6 \(row 2\); encode words as 0, 1, \.\.\.",
        ),
        (
            lambda: run(y=torch.tensor([0, 1])),
            r"target must be 4 int64 words, one per row, got torch\.int64 of shape \(2,\)",
        ),
        (
            lambda: run(y=TARGET.double()),
            r"target must be 4 int64 words, one per row, got torch\.float64 of shape \(4,\)",
        ),
        (
            lambda: run(h=hidden[:, :2]),
            r"hidden and weight must be \(n, d\) and \(V, d\), got \(4, 2\) and \(6, 3\) \(hidden, weight\)",
        ),
        (lambda: run(b=bias[:2]), r"bias must have one entry per word, \(6,\), got \(2,\)"),
        (
            lambda: run(q=log_q[:1]),
            r"words and log_q must be one each per draw, got \(2,\) and \(1,\) \(words, log_q\)",
        ),
        (
            lambda: run(k=torch.tensor([0, 9])),
            r"a word must be in \[0, 6\) with finite log_q, got 9 and -1\.0 .*from the proposal itself",
        ),
        (lambda: run(q=torch.tensor([-1.0, -math.inf])), "draw 1"),
        (lambda: run(own="none"), "got 'none'"),
        (lambda: run(own="expected"), "log_q_target"),
        (
            lambda: run(own="expected", log_q_target=torch.full((4,), -math.inf)),
            r"the proposal gives the target probability 0 \(row 0\); make it positive everywhere",
        ),
        (
            lambda: sampled_softmax(hidden, TARGET, weight, bias, Table(Q), 0, Noise(0, "bad")),
            "n_samples must be at least 1, got 0",
        ),
        (
            lambda: sampled_softmax(
                hidden, TARGET, weight, bias, Table(Q), 3, Noise(0, "bad"), row_weight=torch.ones(2)
            ),
            "row_weight",
        ),
        (lambda: run(h=hidden.detach().numpy()), r"hidden must be a tensor, got a ndarray; use torch\.as_tensor"),
        (lambda: run(h=None), "hidden must be a tensor, got a NoneType; give a torch tensor"),
        (lambda: run(y=TARGET.numpy()), "target must be a tensor, got a "),
        (lambda: run(y=None), "target must be a tensor, got a "),
        (
            lambda: run(w=weight.float()),
            r"weight and hidden must be of one floating-point type, got torch\.float32 and torch\.float64",
        ),
        (
            lambda: run(b=bias.float()),
            r"bias and hidden must be of one floating-point type, got torch\.float32 and torch\.float64",
        ),
        (
            lambda: run(h=hidden.long(), w=weight.long()),
            r"hidden must be floating-point, got torch\.int64",
        ),
        (lambda: run(k=words.double()), r"words must be int64 and log_q floating-point, got .*\(words, log_q\)"),
        (lambda: run(k=words.numpy()), r"words must be a tensor, got a ndarray; use torch\.as_tensor"),
        (lambda: run(q=None), "log_q must be a tensor, got a NoneType; give a torch tensor"),
        (
            lambda: run(own="expected", log_q_target=np.zeros(4)),
            r"log_q_target must be a tensor, got a ndarray; use torch\.as_tensor",
        ),
        (
            lambda: effective_words(None, weight, bias, words, log_q),
            "hidden must be a tensor, got a NoneType; give a torch tensor",
        ),
        (
            lambda: effective_words(hidden[:, :2], weight, bias, words, log_q),
            r"hidden and weight must be \(n, d\) and \(V, d\), got \(4, 2\) and \(6, 3\) \(hidden, weight\)",
        ),
        (
            lambda: sampled_softmax(hidden, TARGET, weight, bias, None, 3, Noise(0, "bad")),
            r"proposal must have sample\(k, noise\) and log_prob\(words\), got a NoneType",
        ),
        (
            lambda: sampled_softmax(hidden, TARGET, weight, bias, Table(Q), 2.5, Noise(0, "bad")),
            r"n_samples must be a whole number, got 2\.5 \(sampled_softmax\.n_samples\)",
        ),
        (lambda: sampled_softmax(hidden, TARGET, weight, bias, Table(Q), 10**18, Noise(0, "bad")), "bytes .n_samples"),
        (lambda: sampled_softmax(hidden, TARGET, weight, bias, Table(Q), 3, None), r"\(sampled_softmax\.noise\)"),
        (
            lambda: sampled_softmax(hidden, TARGET, weight, bias, Table(Q), 3, Noise(0, "bad"), row_weight=np.ones(4)),
            r"row_weight must be a tensor, got a ndarray; use torch\.as_tensor",
        ),
    ]
    for call, match in cases:
        with pytest.raises(UserError, match=match) as caught:
            call()
        assert "\n" not in str(caught.value)
