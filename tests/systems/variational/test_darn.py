"""The deep autoregressive network: probabilities by the product of all units', draws, description lengths."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import expit, logsumexp
from scipy.stats import chisquare

from gnomon.numeric.noise import Noise
from gnomon.systems.variational.darn import DARN
from gnomon.systems.variational.sbn import SBN
from oracles.belief import joint_table, net, states_of

X = np.repeat([[1.0, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]], 30, axis=0)


@pytest.mark.spec("GEN-080")
@pytest.mark.parametrize("sizes", [(3, 3), (3, 2, 2)])
def test_every_unit_is_given_those_before_it_and_the_layer_above(sizes):
    """p(v) sums to 1; of one hidden layer also by the two products of the definition, written out."""
    model = net(sizes, seed=31, layers="autoregressive", recognition="autoregressive")
    table, rows = joint_table(model), states_of(sizes[0])
    np.testing.assert_allclose(model.log_prob(rows), logsumexp(table, axis=1), atol=1e-12)
    assert logsumexp(model.log_prob(rows)) == pytest.approx(0, abs=1e-12)
    h = torch.as_tensor(states_of(sum(sizes[1:])))
    with torch.no_grad():
        log_q = model.encode(torch.as_tensor(rows)).log_prob(h.repeat(len(rows), 1)).reshape(len(rows), -1)
    np.testing.assert_allclose(torch.logsumexp(log_q, 1), 0, atol=1e-12)
    if len(sizes) > 2:
        return
    W, b, c = (one.detach().numpy() for one in (model.weights[0], *model.biases))
    U, V = model.links_down(0).detach().numpy(), model.links_down(1).detach().numpy()
    for i, x in enumerate(rows):
        for j, s in enumerate(h.numpy()):
            p = 1.0
            for k in range(3):
                on = expit(c[k] + V[k, :k] @ s[:k])
                p *= on if s[k] else 1 - on
            for k in range(3):
                on = expit(b[k] + U[k, :k] @ x[:k] + W[k] @ s)
                p *= on if x[k] else 1 - on
            assert table[i, j] == pytest.approx(np.log(p), abs=1e-12)


@pytest.mark.spec("GEN-080")
def test_without_links_it_is_the_sigmoid_belief_network():
    """The same fit by the same numbers."""
    common = {"hidden": (3,), "epochs": 5, "random_state": 0, "layers": "factorial", "objective": "nvil"}
    darn, sbn = (one(**common).fit(X) for one in (DARN, SBN))
    np.testing.assert_array_equal(darn.log_prob(X), sbn.log_prob(X))
    linked = DARN(hidden=(3,), random_state=0, max_updates=1).fit(X).model_
    assert sum(p.numel() for p in linked.down_links.parameters()) == 4 * 3 / 2 + 3 * 2 / 2


@pytest.mark.spec("GEN-080")
def test_its_draws_follow_it_and_its_bound_lies_below():
    """30,000 rows and codes of both nets; false alarm 1e-3 each at another seed."""
    model = net((3, 2), seed=32, layers="autoregressive", recognition="autoregressive", scale=0.8)
    drawn = model.sample(30_000, Noise(0, "sample"))
    counts = np.bincount((drawn @ [4, 2, 1]).astype(int), minlength=8)
    assert chisquare(counts, 30_000 * np.exp(model.log_prob(states_of(3)))).pvalue > 1e-3
    row = torch.tensor([[1.0, 0, 1]], dtype=torch.float64)
    with torch.no_grad():
        codes = model.encode(row)
        z = codes.sample(Noise(0, "codes"), draws=30_000)
        q = codes.log_prob(torch.as_tensor(states_of(2))).exp()
    counts = np.bincount((z.numpy() @ [2, 1]).astype(int), minlength=4)
    assert chisquare(counts, 30_000 * q.numpy()).pvalue > 1e-3


@pytest.mark.spec("GEN-080")
def test_a_fit_shortens_the_description_of_rows():
    system = DARN(hidden=(2,), epochs=80, learning_rate=0.03, random_state=0).fit(X)
    lengths = system.history_["negative_bound"]
    assert lengths[-1] < 0.75 * lengths[0]
    elbo, exact = system.elbo(X, 32), system.score(X)
    assert elbo.value < exact + 5 * elbo.error and exact > -1.5  # the entropy of the rows is log 3 = 1.10
    # the description length: log q(h) - log p(x, h) over all h
    h = states_of(2)
    with torch.no_grad():
        x = torch.as_tensor(X, dtype=torch.float64)
        many = torch.as_tensor(np.tile(h, (len(X), 1)))
        log_q = system.model_.encode(x).log_prob(many)
        length = (log_q.exp() * (log_q - system.model_.log_joint(x.repeat_interleave(4, 0), many))).sum() / len(X)
    assert elbo.value == pytest.approx(-length.item(), abs=5 * elbo.error)
    assert system.sample(5, random_state=0).shape == (5, 4)
