"""The sigmoid belief network against its definition, unit by unit, and against the machines that it contains."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy.special import expit, logsumexp
from scipy.stats import chisquare

import gnomon
from gnomon.contracts import HasLatents, HasLogProb, supports
from gnomon.errors import UserTypeError, UserValueError
from gnomon.numeric.noise import Noise
from gnomon.objectives.estimators import ScoreFunction
from gnomon.objectives.variational import ELBO, IWAE
from gnomon.systems.energy._dbn_model import DBNModel
from gnomon.systems.energy.rbm import RBMModel
from gnomon.systems.variational.sbn import SBN
from oracles.belief import as_one_net, joint_table, log_p, net, states_of, t1

KINDS = [((3, 2), "factorial"), ((2, 2, 2), "factorial"), ((2, 2, 1, 2), "factorial"), ((3, 3), "autoregressive"),
         ((3, 2, 2), "autoregressive")]  # fmt: skip
X = np.repeat([[1.0, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]], 40, axis=0)


def tensor(x):
    return torch.as_tensor(np.asarray(x, np.float64))


def all_pairs(model):
    """Every row beside every state of the hidden layers, and the shape of their table."""
    D, H = model.sizes[0], sum(model.sizes[1:])
    x, h = np.repeat(states_of(D), 2**H, axis=0), np.tile(states_of(H), (2**D, 1))
    return tensor(x), tensor(h), (2**D, 2**H)


@pytest.mark.spec("GEN-074")
def test_the_toy_decoder_has_the_probabilities_of_the_page():
    found = t1().log_prob(states_of(2))
    np.testing.assert_allclose(found, [-2.037952, -1.179147, -1.602583, -1.019465], atol=5e-7)


@pytest.mark.spec("GEN-074")
@pytest.mark.parametrize(("sizes", "layers"), KINDS)
def test_each_unit_is_logistic_in_its_ancestors(sizes, layers):
    """The joint and p(v) by the definition, unit by unit; p(v) sums to 1; posterior means and modes from the table."""
    model = net(sizes, seed=sum(sizes), layers=layers)
    table = joint_table(model)
    x, h, shape = all_pairs(model)
    np.testing.assert_allclose(model.log_joint(x, h).detach().reshape(shape), table, atol=1e-12)
    split = model.log_likelihood(x, h) + model.log_prior(h)
    np.testing.assert_allclose(split.detach().reshape(shape), table, atol=1e-12)
    rows = states_of(sizes[0])
    np.testing.assert_allclose(model.log_prob(rows), logsumexp(table, axis=1), atol=1e-12)
    assert logsumexp(model.log_prob(rows)) == pytest.approx(0, abs=1e-12)
    share, hidden = np.exp(table - logsumexp(table, axis=1, keepdims=True)), states_of(sum(sizes[1:]))
    np.testing.assert_allclose(model.ask("exact_mean", rows), share @ hidden, atol=1e-12)
    np.testing.assert_array_equal(model.ask("exact_mode", rows), hidden[table.argmax(1)])


@pytest.mark.spec("GEN-074")
def test_without_links_within_layers_the_two_kinds_are_one_and_without_latents_units_are_a_chain_of_regressions():
    linked, plain = net((3, 2, 2), seed=1, layers="autoregressive"), net((3, 2, 2), seed=1)
    with torch.no_grad():
        for own in linked.down_links.parameters():
            own.zero_()
        for own, other in zip([*linked.weights, *linked.biases], [*plain.weights, *plain.biases], strict=True):
            own.copy_(other)
    np.testing.assert_allclose(linked.log_prob(states_of(3)), plain.log_prob(states_of(3)), atol=1e-13)
    chain = net((4,), seed=2, layers="autoregressive")
    A, b = as_one_net(chain)
    every = states_of(4)
    by_hand = [sum(np.log(expit((2 * s[i] - 1) * (b[i] + A[i, :i] @ s[:i]))) for i in range(4)) for s in every]
    np.testing.assert_allclose(chain.log_prob(every), by_hand, atol=1e-13)
    assert logsumexp(chain.log_prob(every)) == pytest.approx(0, abs=1e-12)
    assert chain.sample(5, Noise(0, "s")).shape == (5, 4)


@pytest.mark.spec("GEN-074")
def test_under_a_restricted_machine_it_is_a_deep_belief_network():
    """Numbers of the page for a network of two layers, and the library's own."""
    W, b, c = np.array([[1.0, -1.0], [0.5, 2.0]]), np.array([0.1, -0.2]), np.array([0.3, -0.4])
    W2, b2 = np.array([[0.5, -1.0], [1.0, 0.2]]), np.array([0.1, 0.2])
    machine = RBMModel(2, 2, torch.float64)
    machine.load({"weight": W2, "visible_bias": c, "hidden_bias": b2})
    h = states_of(2)
    log_h = -np.asarray(machine.energy(h))

    class Top:
        def table(self, states):
            assert np.array_equal(states, h)
            return tensor(log_h - logsumexp(log_h))[:, None]

    model = t1()
    model.top = lambda n: Top()
    with torch.no_grad():
        found = model.log_prob(tensor(h)).numpy()
    np.testing.assert_allclose(np.exp(found), [0.112722, 0.375543, 0.150067, 0.361668], atol=5e-7)
    network = DBNModel(2, (2, 2), torch.float64)
    network.load({"weight_1": W, "weight_2": W2, "bias_0": b, "bias_1": c, "bias_2": b2, "recognition_weight_1": W,
                  "recognition_bias_1": c})  # fmt: skip
    np.testing.assert_allclose(found, network.log_prob(h), atol=1e-12)


@pytest.mark.spec("GEN-074")
@pytest.mark.parametrize(("sizes", "layers"), [KINDS[1], KINDS[4]])
def test_one_pass_from_the_top_draws_the_net(sizes, layers):
    """Rows and hidden layers together, 40,000 draws; false alarm 1e-3 at another seed."""
    model = net(sizes, seed=3, layers=layers, scale=0.7)
    rows, z = model.dream(40_000, Noise(0, "dream"))
    drawn = torch.cat([rows, z], 1).numpy()
    width = drawn.shape[1]
    counts = np.bincount((drawn @ 2 ** np.arange(width)[::-1]).astype(int), minlength=2**width)
    assert chisquare(counts, 40_000 * np.exp(joint_table(model)).ravel()).pvalue > 1e-3
    alone = model.sample(40_000, Noise(1, "sample"))
    counts = np.bincount((alone @ 2 ** np.arange(sizes[0])[::-1]).astype(int), minlength=2 ** sizes[0])
    assert chisquare(counts, 40_000 * np.exp(model.log_prob(states_of(sizes[0])))).pvalue > 1e-3


@pytest.mark.spec("GEN-074")
def test_two_causes_of_one_row_explain_each_other_away():
    """Independent before the row is seen, given it the presence of one makes the other less likely."""
    model = net((1, 2))
    with torch.no_grad():
        model.weights[0].fill_(8.0)
        model.biases[0].fill_(-4.0)
        model.biases[1].fill_(-2.0)
    h = states_of(2)
    joint = np.exp(model.log_joint(tensor(np.ones((4, 1))), tensor(h)).detach().numpy())
    share = joint / joint.sum()
    prior = expit(-2.0)
    assert share[3] < 0.5 * share[1:4:2].sum() * share[2:].sum()  # far from independent
    assert (
        share[3] / share[2:].sum() < 1.5 * prior < 0.5 * share[1:4:2].sum()
    )  # one cause leaves the other at its prior


@pytest.mark.spec("GEN-074")
def test_a_fit_raises_the_likelihood_and_its_verbs_agree_with_the_table():
    system = SBN(hidden=(2, 2), epochs=60, learning_rate=0.05, dtype="float64", random_state=0).fit(X)
    model, few = system.model_, X[[0, 40, 80]]
    table = joint_table(model)
    at = (few @ 2 ** np.arange(4)[::-1]).astype(int)
    np.testing.assert_allclose(system.log_prob(few), logsumexp(table, axis=1)[at], atol=1e-10)
    found = system.evaluate(X)
    alone = np.clip(X.mean(0), 1e-9, 1)
    baseline = (X * np.log(alone) + (1 - X) * np.log1p(-alone)).sum(1).mean()
    assert found["log_likelihood"].kind == "exact" and found["log_likelihood"].value > baseline + 0.5
    # the bound is that of q by all its states
    h = states_of(4)
    with torch.no_grad():
        codes = model.encode(tensor(X))
        log_q = codes.log_prob(tensor(np.tile(h, (len(X), 1)))).reshape(len(X), -1).numpy()
    np.testing.assert_allclose(logsumexp(log_q, axis=1), 0, atol=1e-12)
    rows = (X @ 2 ** np.arange(4)[::-1]).astype(int)
    exact = (np.exp(log_q) * (table[rows] - log_q)).sum(1).mean()
    elbo = system.elbo(X, 64)
    assert abs(elbo.value - exact) < 5 * elbo.error and exact < found["log_likelihood"].value
    bound = system.log_prob_bound(X, 500)
    assert bound.kind == "lower bound" and abs(bound.value - found["log_likelihood"].value) < 0.02 + 5 * bound.error
    hidden = np.array([[1.0, 0, 1, 1], [0, 1, 0, 0], [1, 1, 1, 1]])
    np.testing.assert_allclose(
        system.log_joint(few, hidden), table[at, (hidden @ 2 ** np.arange(4)[::-1]).astype(int)], atol=1e-10
    )
    share = np.exp(table - logsumexp(table, axis=1, keepdims=True))
    np.testing.assert_allclose(system.transform(few), share[at] @ h, atol=1e-10)
    np.testing.assert_array_equal(system.transform(few, method="map"), h[table[at].argmax(1)])
    assert system.sample(7, random_state=0).shape == (7, 4)


@pytest.mark.spec("GEN-074")
def test_a_net_with_many_units_has_bounds_in_place_of_a_density():
    small, large = (SBN(hidden=hidden, max_updates=3, random_state=0).fit(X) for hidden in ((8,), (13,)))
    assert supports(small.model_, HasLogProb) and not supports(large.model_, HasLogProb)
    assert supports(large.model_, HasLatents) and not hasattr(large, "log_prob")
    assert large.evaluate(X)["log_likelihood"].kind == "lower bound"
    with pytest.raises(UserValueError, match="most probable state"):
        large.transform(X, method="map")
    with torch.no_grad():
        np.testing.assert_allclose(large.transform(X), large.posterior(X).mean, atol=1e-6)
    with pytest.raises(UserValueError, match=r"H must have the shape \(120, 13\)"):
        large.log_joint(X, np.zeros((120, 2)))


@pytest.mark.parametrize(("objective", "what"), [
    ("elbo", "discrete"), ("iwae", "discrete"), (ELBO(estimator="score", form="entropy"), "entropy"),
    (ELBO(estimator="score"), "divergence"),
])  # fmt: skip
def test_objectives_that_layers_do_not_allow_are_refused_and_say_why(objective, what):
    with pytest.raises(UserTypeError, match=what):
        SBN(hidden=(2, 2), objective=objective, max_updates=2).fit(X)


@pytest.mark.parametrize("objective", [
    ELBO(estimator="score"), ELBO(estimator="score", form="entropy"), ELBO(estimator="score", form="monte-carlo"),
    IWAE(k=3, estimator=ScoreFunction("leave-one-out")), "wake-sleep",
])  # fmt: skip
def test_objectives_that_one_layer_allows_raise_its_likelihood(objective):
    system = SBN(hidden=(2,), objective=objective, epochs=40, learning_rate=0.05, random_state=0).fit(X)
    assert system.score(X) > -2.0 > SBN(hidden=(2,), max_updates=1, random_state=0).fit(X).score(X)


def test_the_entropy_and_divergence_of_one_layer_are_those_of_its_units():
    model = t1()
    with torch.no_grad():
        codes = model.encode(tensor(states_of(2)))
        q = codes.first.sigmoid().numpy()
        prior = expit(np.array([0.3, -0.4]))
        np.testing.assert_allclose(codes.entropy(), -(q * np.log(q) + (1 - q) * np.log(1 - q)).sum(1), atol=1e-12)
        by_hand = q * np.log(q / prior) + (1 - q) * np.log((1 - q) / (1 - prior))
        np.testing.assert_allclose(model.divergence(codes), by_hand, atol=1e-12)


@pytest.mark.parametrize("layers", ["factorial", "autoregressive"])
def test_missing_cells_follow_from_all_completions(layers):
    """Exact where rows have no links; else 20 chains of 250 sweeps, whose means are held to 0.06, and bounds to 0.1."""
    system = SBN(hidden=(3,), layers=layers, epochs=20, learning_rate=0.05, dtype="float64", random_state=0).fit(X)
    rows = np.array([[np.nan, 1, np.nan, 0], [0, np.nan, 1, np.nan]])
    found = system.imputed(np.repeat(rows, 20, axis=0), steps=250, random_state=0)
    means = found.values.reshape(2, 20, 4).mean(1)
    for k, row in enumerate(rows):
        gap = np.isnan(row)
        filled = np.tile(row, (4, 1))
        filled[:, gap] = list(itertools.product([0.0, 1.0], repeat=2))
        log_mass = system.log_prob(filled)
        share = np.exp(log_mass - logsumexp(log_mass))
        close = 1e-9 if layers == "factorial" else 0.06
        np.testing.assert_allclose(means[k, gap], share @ filled[:, gap], atol=close)
        seen = system.evaluate_observed(row[None])
        assert seen.value == pytest.approx(logsumexp(log_mass), abs=1e-9 if layers == "factorial" else 0.1)
    assert set(found.kind) == {"exact" if layers == "factorial" else "estimate"}


def test_a_general_net_is_one_hidden_layer_with_links():
    """Rows of a net of seven units in an order, of which the first three are hidden: by the definition."""
    model = net((4, 3), seed=5, layers="autoregressive")
    A, b = as_one_net(model)
    assert np.count_nonzero(np.tril(A, -1)) == 7 * 6 / 2
    by_hand = [logsumexp([log_p(A, b, [*h, *x]) for h in states_of(3)]) for x in states_of(4)]
    np.testing.assert_allclose(model.log_prob(states_of(4)), by_hand, atol=1e-12)


def test_it_has_no_answer_to_what_it_does_not_know():
    assert "sbn" in [one.name for one in gnomon.catalog()]
    with pytest.raises(UserValueError, match="at least one layer"):
        SBN(hidden=()).fit(X)
