"""NADE-k: its steps by definition, one step as NADE of all orders with means for what is missing, enumeration, fits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import expit, logsumexp

import gnomon
from gnomon.errors import UserError
from gnomon.nn.activations import Sigmoid, Tanh
from gnomon.nn.likelihoods import BernoulliLikelihood, CategoricalLikelihood, GaussianLikelihood
from gnomon.nn.mixed import MixedLikelihood
from gnomon.numeric.noise import Noise
from gnomon.systems.autoregressive._deep import OwnGroup
from gnomon.systems.autoregressive.nade_k import NADEk, NADEkModel
from oracles.binary import all_states

F64 = torch.float64


def made(k=3, hidden=(5,), d=4, likelihood=None, n_orders=1, **given):
    """A model with random weights, and columns with frequencies of their own."""
    likelihood = likelihood or BernoulliLikelihood()
    head = likelihood.build(d, F64)
    options = {"k": k, "tie": False, "masked": True, "every": False} | given
    model = NADEkModel(d, hidden, Sigmoid(), head, likelihood.scales, n_orders, F64, **options)
    with torch.no_grad():
        for number, weight in enumerate(model.parameters()):
            weight.copy_(1.5 * Noise(number, "weights").normal(tuple(weight.shape), like=weight))
        if hasattr(head, "offset"):
            head.offset.copy_(Noise(9, "offset").normal(tuple(head.offset.shape), like=head.offset))
    model.order.copy_(torch.tensor(np.random.default_rng(1).permutation(d)))
    return model


def by_definition(model, x, m, unit=expit):
    """The probabilities of a 1 that each step answers of a row of bits, m of whose cells are given."""
    d = len(x)
    weight, c = (one.detach().numpy() for one in (model.first.weight, model.first.bias))
    W, M = weight[:, :d], weight[:, d:] if weight.shape[1] > d else np.zeros((len(weight), d))
    offset = model.head.offset.numpy()
    V = W.T if model.out is None else model.out.weight.detach().numpy()
    b = (model.b if model.out is None else model.out.bias).detach().numpy()
    v, found = np.where(m, x, expit(offset)), []
    for _ in range(model.k):
        p = expit(V @ unit(W @ v + M @ m + c) + b + offset)
        v = m * x + (1 - m) * p
        found.append(p)
    return found


@pytest.mark.spec("GEN-120")
@pytest.mark.parametrize("given", [{}, {"tie": True}, {"masked": False}, {"tie": True, "masked": False}])
def test_each_step_is_that_of_the_definition_with_what_is_given_put_back(given):
    model, rows = made(**given), all_states(4).astype(float)
    for mask in ([1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 1, 1]):
        m = torch.tensor(mask).bool().expand(16, 4)
        found = [model.head.mean(raw).detach().numpy() for raw in model.steps(torch.from_numpy(rows), m)]
        expected = [by_definition(model, row, np.array(mask)) for row in rows]
        np.testing.assert_allclose(np.array(found).transpose(1, 0, 2), expected, rtol=1e-11)
        assert np.abs(found[0] - found[2]).max() > 1e-3


@pytest.mark.spec("GEN-120")
def test_one_step_is_the_network_of_all_orders_with_means_for_what_is_missing():
    """v = m x + (1 - m) mu: W v + M m + c are the fields of W, M - W mu and c + W mu without it."""
    model = made(k=1)
    other = OwnGroup(4, (5,), Sigmoid(), model.head, False, 1, F64)
    mean = torch.sigmoid(model.head.offset)
    with torch.no_grad():
        W, M = model.first.weight.split(4, dim=1)
        other.first.weight.copy_(torch.cat([W, M - W * mean], 1))
        other.first.bias.copy_(model.first.bias + W @ mean)
        other.out.load_state_dict(model.out.state_dict())
    rows = torch.from_numpy(all_states(4).astype(float))
    for order in map(torch.tensor, itertools.islice(itertools.permutations(range(4)), 0, 24, 5)):
        torch.testing.assert_close(model.log_in(rows, order), other.log_in(rows, order), rtol=1e-12, atol=1e-12)


@pytest.mark.spec("GEN-120")
@pytest.mark.parametrize("likelihood", [BernoulliLikelihood(), CategoricalLikelihood(3)], ids=["bits", "codes"])
@pytest.mark.parametrize("tie", [False, True])
def test_masses_sum_to_one_in_every_order_and_in_mixtures_of_them(likelihood, tie):
    model = made(d=3, likelihood=likelihood, tie=tie, n_orders=4)
    rows = np.array(list(itertools.product(range(model.head.values), repeat=3)), float)
    for order in map(torch.tensor, itertools.permutations(range(3))):
        assert model.log_in(torch.from_numpy(rows), order).exp().sum().item() == pytest.approx(1, abs=1e-12)
    each = [model.log_in(torch.from_numpy(rows), order).detach().numpy() for order in model.orders(4)]
    np.testing.assert_allclose(model.log_prob(rows), logsumexp(each, axis=0) - np.log(4), rtol=1e-11)


@pytest.mark.spec("GEN-120")
def test_tied_weights_of_a_code_are_those_of_the_code():
    """Two columns of three codes: what enters for a code leaves for it, and shares are what is filled in."""
    model = made(k=2, d=2, likelihood=CategoricalLikelihood(3), tie=True)
    weight, c, b = (one.detach().numpy() for one in (model.first.weight, model.first.bias, model.b))
    offset, m, code = model.head.offset.numpy(), np.array([1.0, 0.0]), 2
    shares = np.exp(offset[:, 1] - logsumexp(offset[:, 1]))
    for _ in range(2):
        h = expit(weight[:, :6] @ np.concatenate([np.eye(3)[code], shares]) + weight[:, 6:] @ m + c)
        logits = np.array([weight[:, 3 + k] @ h + b[2 * k + 1] for k in range(3)]) + offset[:, 1]
        shares = np.exp(logits - logsumexp(logits))
    for k in range(3):
        row = torch.tensor([[float(code), float(k)]], dtype=F64)
        found = model.log_given(row, torch.tensor([[True, False]]))[0, 1].item()
        assert found == pytest.approx(np.log(shares[k]), rel=1e-11)


@pytest.mark.spec("GEN-120")
def test_along_an_order_each_column_is_predicted_from_those_before_it():
    model, rows = made(hidden=(5,)), all_states(4).astype(float)
    order = model.order.tolist()
    expected = np.zeros(16)
    for t, column in enumerate(order):
        m = np.isin(np.arange(4), order[:t]).astype(float)
        p = np.array([by_definition(model, row, m)[-1][column] for row in rows])
        expected += stats.bernoulli.logpmf(rows[:, column], p)
    np.testing.assert_allclose(model.log_prob(rows), expected, rtol=1e-11)
    state, whole = model.begin(16), model.numbers(torch.from_numpy(rows))
    for t, column in enumerate(order):
        torch.testing.assert_close(model.numbers_at(state, t)[:, 0], whole[:, column])
        state = model.take(state, t, torch.from_numpy(rows[:, column : column + 1]))


@pytest.mark.spec("GEN-120")
@pytest.mark.parametrize("given", [{}, {"every": True}, {"tie": True}, {"hidden": (4, 3), "masked": False}])
def test_what_is_learned_has_the_gradient_of_differences(given):
    """Of the last step, or of the mean over all of them."""
    model = made(k=2, d=3, **({"hidden": (4,)} | given))
    rows, m = torch.from_numpy(all_states(3).astype(float)[2:7]), torch.tensor([[1, 0, 0]]).bool().expand(5, 3)
    steps = [model._cells(raw, rows) for raw in model.steps(rows, m)]
    expected = sum(steps) / 2 if model.every else steps[-1]
    torch.testing.assert_close(model.log_taught(rows, m), expected)
    names, values = zip(*model.named_parameters(), strict=True)
    model.forward = model.log_taught

    def log_taught(*values):
        return torch.func.functional_call(model, dict(zip(names, values, strict=True)), (rows, m))

    assert torch.autograd.gradcheck(log_taught, values)


@pytest.mark.spec("GEN-120")
def test_all_places_go_through_at_once_in_bounded_memory(monkeypatch):
    """Rows go in chunks whose widest layer has 4,000 numbers over rows and places."""
    model, rows = made(hidden=(16,), d=6), (np.random.default_rng(0).random((200, 6)) < 0.5).astype(float)
    whole = model.log_prob(torch.from_numpy(rows)).detach().numpy()
    monkeypatch.setattr(type(model), "chunk", 4000)
    seen, given = [], model.numbers_given
    monkeypatch.setattr(model, "numbers_given", lambda z, m: seen.append(len(z)) or given(z, m), raising=False)
    np.testing.assert_allclose(model.log_prob(rows), whole, rtol=1e-12)
    assert sum(seen) == 1200 and max(seen) * 16 <= 4000


@pytest.fixture(scope="module")
def fitted():
    """Four bits: a coin, its noisy copy, another coin, and the noisy parity of the last two."""
    states = all_states(4).astype(int)
    p = np.full(16, 0.25)
    p *= np.where(states[:, 0] == states[:, 1], 0.9, 0.1)
    p *= np.where(states[:, 3] == states[:, 1] ^ states[:, 2], 0.8, 0.2)
    rows = np.repeat(states, np.round(400 * p).astype(int), axis=0).astype(float)
    way = {"hidden": (32,), "epochs": 120, "batch_size": 50, "learning_rate": 0.02, "random_state": 0}
    return states.astype(float), p, NADEk(k=3, n_orders=3, activation="tanh", **way).fit(rows)


@pytest.mark.spec("GEN-120")
def test_one_fit_predicts_every_set_of_columns_from_every_other(fitted, tmp_path):
    """On average within 0.05 nats of the conditionals of the distribution that the rows are of."""
    states, p, model = fitted
    for k in range(16):
        given = all_states(4)[k].astype(bool)
        alike = (states[:, None, given] == states[None][:, :, given]).all(2)
        found = model.conditional_log_prob(states, given)
        np.testing.assert_allclose(alike @ np.exp(found), 1, rtol=1e-9)
        assert -1e-9 < p @ (np.log(p / (alike @ p)) - found) < 0.05
    assert model.log_prob(states, n_orders=1) @ p < model.log_prob(states, n_orders=3) @ p + 0.02
    model.save(tmp_path / "run")
    np.testing.assert_array_equal(gnomon.load(tmp_path / "run").log_prob(states, n_orders=5), model.log_prob(states, 5))


@pytest.mark.spec("GEN-120")
def test_draws_follow_the_masses_and_cells_are_filled_in_by_the_last_step(fitted):
    """Chi-square over 16 states of 4,000 draws, a false alarm in a thousand."""
    states, _, model = fitted
    seen = (model.sample(4000, random_state=0)[:, None] == states[None]).all(2).sum(0)
    expected = 4000 * np.exp(model.log_prob(states))
    assert expected.min() > 5 and stats.chisquare(seen, expected).pvalue > 1e-3
    row, m = np.array([1.0, 0, 0, 0]), np.array([1, 0, 0, 1])
    expected = np.where(m, row, by_definition(model.model_, row, m, np.tanh)[-1])
    np.testing.assert_allclose(model.impute([np.where(m, row, np.nan)])[0], expected, rtol=1e-9)


def test_real_columns_and_codes_are_learned_too():
    """A pair of correlation 0.95 either way; a code that repeats another."""
    random = np.random.default_rng(0)
    x = random.normal(size=(300, 2)) @ np.linalg.cholesky([[1, 0.95], [0.95, 1]]).T
    way = {"k": 2, "hidden": (16,), "epochs": 40, "batch_size": 50, "learning_rate": 0.02, "random_state": 0}
    real = NADEk(likelihood=GaussianLikelihood("network"), activation=Tanh(), **way).fit(x)
    gap = np.array([[1.0, np.nan], [np.nan, 1.0]])
    np.testing.assert_allclose(real.impute(gap), 1, atol=0.25)
    codes = np.repeat(random.integers(0, 3, (200, 1)), 2, axis=1).astype(float)
    model = NADEk(likelihood=CategoricalLikelihood(3), **way).fit(codes)
    assert model.score(codes) > np.log(1 / 3) - 0.15


@pytest.mark.parametrize("tie", [False, True])
def test_columns_of_several_kinds_fill_in_means_and_shares(tie):
    """A number, a bit and a code: what is missing stands in as the expectation of what is seen of each."""
    likelihood = MixedLikelihood((0, 2, 3))
    model = made(k=2, d=3, likelihood=likelihood, tie=tie)
    for n in ("2", "3"):
        offset = model.head.kinds[n].offset
        offset.copy_(Noise(int(n), "offset").normal(tuple(offset.shape), like=offset))
    weight, c = (one.detach().numpy() for one in (model.first.weight, model.first.bias))
    coin, codes = (model.head.kinds[n].offset.numpy() for n in ("2", "3"))
    b = (model.b if tie else model.out.bias).detach().numpy()
    tied = weight[:, :9].T.reshape(3, 3, -1).transpose(1, 0, 2).reshape(9, -1)
    V = tied if tie else model.out.weight.detach().numpy()
    code, seen = 2, np.zeros(9)
    for step in range(3):
        raw = (V @ expit(weight[:, :9] @ seen + weight[:, 9:] @ [0, 0, 1] + c) + b) if step else np.zeros(9)
        raw = raw.reshape(3, 3)
        seen = np.concatenate([[raw[0, 0], 0, 0, expit(raw[0, 1] + coin[0]), 0, 0], np.eye(3)[code]])
    logits = raw[:, 2] + codes[:, 0]
    row, given = torch.tensor([[0.0, 1.0, float(code)]], dtype=F64), torch.tensor([[False, False, True]])
    found = model.log_given(row, given)[0].detach().numpy()
    spread = float(model.head.kinds["0"].distribution(row[:, :1]).variance.detach()) ** 0.5
    expected = [stats.norm(raw[0, 0], spread).logpdf(0), np.log(seen[3]), logits[code] - logsumexp(logits)]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tie": True, "hidden": (4, 4)}, "hidden must be one layer where weights are tied, got 2"),
        ({"tie": True, "likelihood": GaussianLikelihood("network")}, "likelihood must take a number of each column"),
        ({"k": 0}, "k must be"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(given, said):
    with pytest.raises(UserError, match=said):
        NADEk(**given).fit(all_states(3).astype(float))
