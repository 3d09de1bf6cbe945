"""NADE: worked probabilities, enumeration in every order, gradients by differences, draws, memory."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.linear_model import LogisticRegression

import gnomon
from gnomon.nn.likelihoods import CategoricalLikelihood
from gnomon.numeric.noise import Noise
from gnomon.systems.autoregressive._nade_model import NADEModel
from gnomon.systems.autoregressive._shared import _Compiled, _Looped, shared_numbers
from gnomon.systems.autoregressive.nade import NADE
from oracles.binary import all_states

F64 = torch.float64
WORKED = {
    "W": [[1, -1, 0.5], [0.5, 2, -0.3]], "c": [0.1, -0.2], "V": [[1, 0.5], [-1, 2], [0.3, -0.7]], "b": [0.2, -0.1, 0.0],
}  # fmt: skip


def worked(**changes):
    return NADEModel.of(**{name: np.array(value, float) for name, value in (WORKED | changes).items()})


def drawn(d, h, seed=0, order=None):
    random = np.random.default_rng(seed)
    W, c, V, b = (random.normal(size=shape) for shape in ((h, d), h, (d, h), d))
    return NADEModel.of(2 * W, c, 2 * V, b, order)


def by_definition(model, x):
    """log p(x) of one row, conditional by conditional, with no recursion."""
    W, c, V, b = (one.detach().numpy() for one in (model.W[:, 0].T, model.c, model.V[:, 0], model.b[:, 0]))
    total, order = 0.0, model.order.tolist()
    for t, i in enumerate(order):
        before = order[:t]
        h = 1 / (1 + np.exp(-(c + W[:, before] @ x[before])))
        p = 1 / (1 + np.exp(-(b[i] + V[i] @ h)))
        total += np.log(p if x[i] else 1 - p)
    return total


@pytest.mark.spec("GEN-116")
def test_the_worked_probabilities():
    model, rows = worked(), all_states(3).astype(float)
    found = dict(zip(map(tuple, rows), model.log_prob(rows), strict=True))
    expected = {(0, 0, 0): -2.734711, (1, 0, 1): -1.966080, (1, 1, 0): -1.364044, (1, 1, 1): -1.842764}
    for row, value in expected.items():
        assert found[row] == pytest.approx(value, abs=5e-7)
    assert np.exp(list(found.values())).sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.spec("GEN-116")
def test_masses_are_those_of_the_definition_and_sum_to_one_in_every_order():
    rows = all_states(4).astype(float)
    for order in itertools.permutations(range(4)):
        model = drawn(4, 3, order=order)
        log_p = model.log_prob(rows)
        assert np.exp(log_p).sum() == pytest.approx(1, abs=1e-12)
        np.testing.assert_allclose(log_p, [by_definition(model, row) for row in rows], rtol=1e-12)


@pytest.mark.spec("GEN-116")
@pytest.mark.parametrize(("s", "m", "scaled"), [(1, 1, False), (2, 3, True), (1, 6, True), (3, 2, False)])
def test_gradients_are_those_of_differences_on_both_ways(s, m, scaled):
    """37 rows: more than two blocks of the compiled loop, and rows left over; some numbers are 0."""
    random = np.random.default_rng(0)
    d, h = 4, 5
    x = torch.from_numpy(random.normal(size=(37, d * s)) * (random.random((37, d * s)) < 0.6))
    given = [torch.from_numpy(random.normal(size=shape)) for shape in ((d * s, h), h, (d, m, h), (d, m))]
    given.append(torch.from_numpy(random.random(d) + 0.5) if scaled else torch.empty(0, dtype=F64))
    for one in given:
        one.requires_grad_()
    slope, order = torch.from_numpy(random.normal(size=(37, m, d))), torch.tensor([2, 0, 3, 1])
    compiled, looped = (way.apply(order, x, *given) for way in (_Compiled, _Looped))
    torch.testing.assert_close(compiled, looped, rtol=1e-12, atol=1e-12)
    asked = given if scaled else given[:-1]
    slopes = [torch.autograd.grad((found * slope).sum(), asked) for found in (compiled, looped)]
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-11)

    def numbers(rows, *weights):
        return shared_numbers(order, rows, *weights[:4], weights[4] if scaled else None)

    assert torch.autograd.gradcheck(numbers, (x[:5], *asked))
    assert torch.autograd.gradcheck(numbers, (x[:5].clone().requires_grad_(), *asked))


@pytest.mark.spec("GEN-116")
def test_gradients_of_the_likelihood_are_those_of_differences_in_any_order():
    model, rows = drawn(4, 3, order=(2, 0, 3, 1)), torch.from_numpy(all_states(4).astype(float))
    names, values = zip(*model.named_parameters(), strict=True)
    model.forward = model.log_prob

    def log_prob(*values):
        return torch.func.functional_call(model, dict(zip(names, values, strict=True)), rows)

    assert torch.autograd.gradcheck(log_prob, values)


@pytest.mark.spec("GEN-116")
def test_single_precision_follows_double():
    model, rows = drawn(12, 40), (np.random.default_rng(1).random((50, 12)) < 0.5).astype(float)
    weights = (model.W[:, 0].T, model.c, model.V[:, 0], model.b[:, 0])
    single = NADEModel.of(*(value.detach().float() for value in weights))
    found = single.log_prob(rows.astype(np.float32))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, model.log_prob(rows), rtol=2e-5)


@pytest.mark.spec("GEN-116")
def test_without_weights_into_the_hidden_units_the_columns_are_independent():
    model = worked(W=np.zeros((2, 3)))
    h = 1 / (1 + np.exp(-np.array(WORKED["c"])))
    logits = np.array(WORKED["b"]) + np.array(WORKED["V"]) @ h
    rows = all_states(3).astype(float)
    expected = stats.bernoulli.logpmf(rows, 1 / (1 + np.exp(-logits))).sum(1)
    np.testing.assert_allclose(model.log_prob(rows), expected, rtol=1e-12)


@pytest.mark.spec("GEN-116")
def test_a_batch_keeps_nothing_but_its_rows_and_the_weights():
    """The hidden units of all places would be 400,000 numbers."""
    model, x = drawn(50, 40), torch.from_numpy((np.random.default_rng(0).random((200, 50)) < 0.5).astype(float))
    kept: list[int] = []

    def pack(tensor):
        kept.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model.log_prob(x)
    assert sum(kept) < 10 * (x.numel() + sum(p.numel() for p in model.parameters())) < 200 * 50 * 40


@pytest.fixture(scope="module")
def fitted():
    """Six bits: two coins, and four of which each is the parity of two others but for a little noise."""
    random = np.random.default_rng(0)
    X = random.random((600, 6)) < 0.5
    for j in range(2, 6):
        X[:, j] = (X[:, j - 1] ^ X[:, j - 2]) ^ (random.random(600) < 0.05)
    X = X[:, [3, 0, 5, 1, 4, 2]].astype(np.float64)
    return X, NADE(n_hidden=24, epochs=80, learning_rate=0.02, order="random", random_state=0).fit(X)


@pytest.mark.spec("GEN-116")
def test_a_fit_finds_what_no_product_of_logistic_regressions_finds(fitted):
    """Near the entropy of the rows: 2 bits and four coins of 1 to 19; regressions see parities as coins."""
    X, nade = fitted
    entropy = 2 * np.log(2) + 4 * stats.bernoulli(0.05).entropy()
    assert nade.score(X) > -entropy - 0.1
    linear = np.log(0.5)
    for j in range(1, 6):
        way = LogisticRegression().fit(X[:, :j], X[:, j])
        linear += np.log(way.predict_proba(X[:, :j])[np.arange(600), X[:, j].astype(int)]).mean()
    assert nade.score(X) > linear + 0.7
    assert np.exp(nade.log_prob(all_states(6).astype(float))).sum() == pytest.approx(1, abs=1e-9)


@pytest.mark.spec("GEN-116")
def test_draws_follow_the_enumerated_masses(fitted):
    """Chi-square over the states of which 5 rows or more are expected of 20,000; a false alarm in a thousand."""
    _, nade = fitted
    code = 2 ** np.arange(6)
    rows, states = nade.sample(20_000, random_state=1), all_states(6).astype(int)
    expected = 20_000 * np.exp(nade.log_prob(states.astype(float)))
    observed = np.bincount((rows @ code).astype(int), minlength=64)[states @ code]
    often = expected >= 5
    observed, expected = (np.append(one[often], one[~often].sum()) for one in (observed, expected))
    assert stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > 1e-3


@pytest.mark.spec("GEN-116")
def test_conditionals_are_ratios_of_masses_and_see_no_later_column(fitted):
    X, nade = fitted
    order, states = nade.order_.tolist(), all_states(6).astype(float)
    assert order != sorted(order)
    p = np.exp(nade.log_prob(states))
    column = order[3]
    found = nade.conditional(column, X[:20]).mean.ravel()
    for row, value in zip(X[:20], found, strict=True):
        alike = (states[:, order[:3]] == row[order[:3]]).all(1)
        assert value == pytest.approx(p[alike & (states[:, column] == 1)].sum() / p[alike].sum(), rel=1e-9)
    other = X[:20].copy()
    other[:, order[3:]] = 1 - other[:, order[3:]]
    np.testing.assert_array_equal(nade.conditional(column, other).mean.ravel(), found)
    np.testing.assert_allclose(nade.log_conditionals(X).sum(1), nade.log_prob(X), rtol=1e-12)


@pytest.mark.spec("GEN-116")
def test_the_order_is_kept_with_the_model(fitted, tmp_path):
    X, nade = fitted
    nade.save(tmp_path / "run")
    again = gnomon.load(tmp_path / "run")
    np.testing.assert_array_equal(again.order_, nade.order_)
    np.testing.assert_array_equal(again.log_prob(X), nade.log_prob(X))
    other = NADE(n_hidden=2, epochs=1, order="random", random_state=1).fit(X)
    assert other.order_.tolist() != nade.order_.tolist()


def test_place_by_place_is_all_at_once(fitted):
    X, nade = fitted
    model, z = nade.model_, torch.from_numpy(X[:9])
    with torch.no_grad():
        state, whole = model.begin(9), model.numbers(z).reshape(9, 1, 6)
        for t, column in enumerate(model.order.tolist()):
            torch.testing.assert_close(model.numbers_at(state, t), whole[:, :, column])
            state = model.take(state, t, z[:, column : column + 1])


def test_codes_are_learned_too_and_two_codes_are_bits(fitted):
    """Of three codes masses sum to one; the same bits as two codes are learned as well as bits are."""
    X, nade = fitted
    way = {"n_hidden": 24, "epochs": 80, "learning_rate": 0.02, "random_state": 0}
    two = NADE(likelihood=CategoricalLikelihood(2), order="random", **way).fit(X)
    assert two.score(X) == pytest.approx(nade.score(X), abs=0.1)
    codes = np.random.default_rng(0).integers(0, 3, (60, 3)).astype(float)
    three = NADE(likelihood=CategoricalLikelihood(3), **(way | {"epochs": 5})).fit(codes)
    states = np.array(list(itertools.product(range(3), repeat=3)), float)
    assert np.exp(three.log_prob(states)).sum() == pytest.approx(1, abs=1e-9)
    found = three.model_.sample(50, Noise(0, "rows"))
    assert found.shape == (50, 3) and set(found.ravel()) == {0.0, 1.0, 2.0}
