"""Deep NADE: groups in layers, their costs, all orders at once and ensembles of them, by enumeration and definition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import logsumexp
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import gnomon
from gnomon.errors import UserError
from gnomon.nn.activations import Sigmoid, Tanh
from gnomon.nn.initializers import HeNormal
from gnomon.nn.likelihoods import BernoulliLikelihood, CategoricalLikelihood, GaussianLikelihood
from gnomon.numeric.noise import Noise
from gnomon.systems.autoregressive._deep import OwnGroup, PreviousGroups
from gnomon.systems.autoregressive._nade_model import NADEModel
from gnomon.systems.autoregressive.deep_nade import DeepNADE
from oracles.binary import all_states

F64 = torch.float64
CONNECTED = {"own-group": OwnGroup, "previous-groups": PreviousGroups}


def made(connect="own-group", hidden=(5, 4), d=4, order=None, likelihood=None, activation=None, n_orders=1):
    """A model with random weights, large enough that nothing is nearly independent."""
    likelihood = likelihood or BernoulliLikelihood()
    sizes = (d, hidden, activation or Tanh(), likelihood.build(d, F64), likelihood.scales)
    model = CONNECTED[connect](*sizes, *([n_orders] if connect == "own-group" else []), F64)
    model.order.copy_(torch.as_tensor(np.random.default_rng(1).permutation(d) if order is None else order))
    model.start(HeNormal(), Noise(0, "weights"))
    with torch.no_grad():
        for k, weight in enumerate(model.parameters()):
            weight += Noise(k, "more").normal(tuple(weight.shape), like=weight)
        for layer in model.layers:
            if hasattr(layer, "clear"):
                layer.clear()
    return model


def codes(d, n):
    return np.array(list(itertools.product(range(n), repeat=d)), float)


def by_definition(model, x, order):
    """log p(x) of one row of bits in an order, a network pass for each column, in NumPy."""
    first, out = ([one.detach().numpy() for one in (layer.weight, layer.bias)] for layer in (model.first, model.out))
    d, total = len(x), 0.0
    for t, column in enumerate(order):
        given = np.isin(np.arange(d), order[:t])
        h = np.tanh(first[0] @ np.concatenate([np.where(given, x, 0), given]) + first[1])
        for layer in model.layers:
            h = np.tanh(layer.weight.detach().numpy() @ h + layer.bias.detach().numpy())
        logit = out[0][column] @ h + out[1][column]
        total += stats.bernoulli.logpmf(x[column], 1 / (1 + np.exp(-logit)))
    return total


# --- several layers ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("GEN-123")
@pytest.mark.parametrize("connect", CONNECTED)
def test_one_hidden_layer_is_nade(connect):
    random, order = np.random.default_rng(0), (2, 0, 3, 1)
    W, c, V, b = (random.normal(size=shape) for shape in ((3, 4), 3, (4, 3), 4))
    model = made(connect, (3,), order=order, activation=Sigmoid())
    mask = np.zeros((3, 4)) if connect == "own-group" else np.zeros((3, 0))
    with torch.no_grad():
        for weight, value in zip(model.parameters(), (np.hstack([W, mask]), c, V, b), strict=True):
            weight.copy_(torch.from_numpy(value))
    rows = all_states(4).astype(float)
    np.testing.assert_allclose(model.log_prob(rows), NADEModel.of(W, c, V, b, order).log_prob(rows), rtol=1e-12)


@pytest.mark.spec("GEN-123")
def test_groups_of_two_layers_are_those_of_the_definition():
    model, rows = made(hidden=(5, 4, 3)), all_states(4).astype(float)
    order = model.order.tolist()
    np.testing.assert_allclose(model.log_prob(rows), [by_definition(model, row, order) for row in rows], rtol=1e-11)


@pytest.mark.spec("GEN-123")
def test_previous_groups_are_sums_over_the_groups_up_to_the_own():
    model, x = made("previous-groups", (2, 3), d=3, order=(1, 2, 0)), np.array([1.0, 0.0, 1.0])
    W, c, U, e, V, b = (one.detach().numpy() for one in model.parameters())
    order, found = [1, 2, 0], {}
    for t, column in enumerate(order):
        found[column] = np.tanh(c + sum((W[:, j] * x[j] for j in order[:t]), np.zeros(2)))
    for t, column in enumerate(order):
        block = U[3 * column : 3 * column + 3]
        h = np.tanh(
            e[3 * column : 3 * column + 3] + sum(block[:, 2 * j : 2 * j + 2] @ found[j] for j in order[: t + 1])
        )
        found_at = model.numbers(torch.from_numpy(x[None]))[0, column].item()
        assert found_at == pytest.approx(V[column] @ h + b[column])


@pytest.mark.spec("GEN-123")
@pytest.mark.parametrize("connect", CONNECTED)
def test_the_jacobian_is_strictly_triangular_in_the_order(connect):
    model = made(connect, (5, 4, 3), d=6)
    x = torch.from_numpy(np.random.default_rng(0).random(6))
    slopes = torch.autograd.functional.jacobian(lambda x: model.numbers(x[None])[0], x)
    placed = slopes[model.order][:, model.order].abs().numpy()
    assert (placed[np.triu_indices(6)] == 0).all() and (placed[np.tril_indices(6, -1)] > 1e-9).all()


@pytest.mark.spec("GEN-123")
@pytest.mark.parametrize(("connect", "groups"), [("own-group", 1), ("previous-groups", 2)])
def test_what_a_pass_costs_grows_as_it_should(connect, groups):
    """First and last layer 2 n d h; each further one n d h^2, or n d^2 h^2 where groups see all those before them."""

    def multiplied(d, hidden):
        model = made(connect, hidden, d, likelihood=CategoricalLikelihood(2))
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            model.numbers(torch.zeros(10, d, dtype=F64))
        return counter.get_total_flops() / 2

    for d, h in ((8, 16), (16, 16), (16, 32)):
        assert multiplied(d, (h,)) == 10 * d * h * (2 + 2)
        assert multiplied(d, (h, h)) - multiplied(d, (h,)) == 10 * d**groups * h**2


class Largest(TorchDispatchMode):
    """The most numbers that one tensor held."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        if isinstance(found, torch.Tensor):
            self.numbers = max(self.numbers, found.numel())
        return found


@pytest.mark.spec("GEN-123")
def test_all_places_go_through_at_once_in_bounded_memory(monkeypatch):
    """3,000 rows of 10 columns and 16 units are 480,000 numbers at once, here 20,000 at most; two chunks are joined."""
    model, rows = made(hidden=(16, 16), d=10), (np.random.default_rng(0).random((3000, 10)) < 0.5).astype(float)
    whole = model.log_prob(torch.from_numpy(rows)).detach().numpy()
    monkeypatch.setattr(type(model), "chunk", 20_000)
    with Largest() as largest:
        found = model.log_prob(rows)
    np.testing.assert_allclose(found, whole, rtol=1e-12)
    assert largest.numbers <= 20_000


@pytest.mark.spec("GEN-123")
@pytest.mark.parametrize("connect", CONNECTED)
@pytest.mark.parametrize("likelihood", [BernoulliLikelihood(), CategoricalLikelihood(3)], ids=["bits", "codes"])
def test_masses_sum_to_one_and_gradients_are_those_of_differences(connect, likelihood):
    model = made(connect, (4, 3), 3, likelihood=likelihood)
    rows = torch.from_numpy(codes(3, model.head.values))
    assert model.log_prob(rows).exp().sum().item() == pytest.approx(1, abs=1e-12)
    names, values = zip(*model.named_parameters(), strict=True)
    model.forward = model.log_prob

    def log_prob(*values):
        return torch.func.functional_call(model, dict(zip(names, values, strict=True)), rows[:5])

    assert torch.autograd.gradcheck(log_prob, values)


@pytest.mark.spec("GEN-123")
@pytest.mark.parametrize("connect", CONNECTED)
def test_a_fit_in_one_order_draws_and_fills_in_by_its_masses(connect):
    """Chi-square over 16 states of 4,000 rows, a false alarm in a thousand; conditionals are ratios of masses."""
    random = np.random.default_rng(0)
    X = (random.random((200, 4)) < 0.5).astype(float)
    X[:, 2] = X[:, 0] != X[:, 3]
    given = {"hidden": (12, 8), "epochs": 60, "batch_size": 50, "learning_rate": 0.03, "random_state": 0}
    model = DeepNADE(connect=connect, order="random", **given).fit(X)
    states = all_states(4).astype(float)
    p = np.exp(model.log_prob(states))
    assert p.sum() == pytest.approx(1, abs=1e-9) and model.score(X) > 3 * np.log(0.5) - 0.15
    rows = model.sample(4000, random_state=0)
    seen = (rows[:, None] == states[None]).all(2).sum(0)
    often = p * 4000 >= 5
    seen, expected = (np.append(one[often], one[~often].sum()) for one in (seen, 4000 * p))
    assert stats.chisquare(seen, expected).pvalue > 1e-3
    alike = (states[:, [1, 3]] == [1, 0]).all(1)
    expected = p[alike] @ states[alike] / p[alike].sum()
    np.testing.assert_allclose(model.impute([[np.nan, 1, np.nan, 0]])[0], expected, rtol=1e-6)
    with pytest.raises(UserError, match="n_orders must be 1 for a model of one order, got 2"):
        model.log_prob(states, n_orders=2)
    found = model.conditional_log_prob(states[alike], [False, True, False, True])
    np.testing.assert_allclose(found, np.log(p[alike] / p[alike].sum()), rtol=1e-6)


def test_place_by_place_is_all_at_once():
    model, z = made(d=5), torch.from_numpy((np.random.default_rng(0).random((6, 5)) < 0.5).astype(float))
    with torch.no_grad():
        state, whole = model.begin(6), model.numbers(z)
        for t, column in enumerate(model.order.tolist()):
            torch.testing.assert_close(model.numbers_at(state, t)[:, 0], whole[:, column])
            state = model.take(state, t, z[:, column : column + 1])


# --- all orders -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("GEN-121")
@pytest.mark.parametrize("likelihood", [BernoulliLikelihood(), CategoricalLikelihood(3)], ids=["bits", "codes"])
def test_masses_sum_to_one_in_every_order_and_orders_disagree(likelihood):
    model = made(d=3, likelihood=likelihood)
    rows, found = codes(3, model.head.values), []
    for order in itertools.permutations(range(3)):
        found.append(model.log_in(torch.from_numpy(rows), torch.tensor(order)).detach().numpy())
        assert np.exp(found[-1]).sum() == pytest.approx(1, abs=1e-12)
        alike = model.log_in(torch.from_numpy(rows), torch.tensor(order).expand(len(rows), 3))
        np.testing.assert_allclose(alike.detach().numpy(), found[-1], rtol=1e-12)
    assert min(np.ptp([one[k] for one in found]) for k in range(len(rows))) > 1e-3


@pytest.mark.spec("GEN-121")
def test_any_cell_given_any_others_is_what_the_definition_says():
    model, rows = made(), all_states(4).astype(float)
    for order in itertools.islice(itertools.permutations(range(4)), 0, 24, 5):
        expected = [by_definition(model, row, order) for row in rows]
        found = model.log_in(torch.from_numpy(rows), torch.tensor(order)).detach().numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-11)
        cells = np.zeros(len(rows))
        for t, column in enumerate(order):
            given = torch.from_numpy(np.tile(np.isin(np.arange(4), order[:t]), (len(rows), 1)))
            cells += model.log_given(torch.from_numpy(rows), given).detach().numpy()[:, column]
        np.testing.assert_allclose(found, cells, rtol=1e-11)


@pytest.mark.spec("GEN-121")
def test_a_zero_is_told_from_what_is_missing_and_what_is_missing_is_not_looked_at():
    model, zeros = made(), torch.zeros(1, 4, dtype=F64)
    given = torch.tensor([[True, True, False, False]])
    seen, other = (model.log_given(zeros, one)[0, 3].item() for one in (given, given & False))
    assert abs(seen - other) > 0.01
    changed = torch.where(given, zeros, 1 - zeros)
    torch.testing.assert_close(model.numbers_given(changed, given), model.numbers_given(zeros, given))


@pytest.fixture(scope="module")
def learned():
    """Four bits of a known distribution: a coin, its noisy copy, another coin, and the noisy parity of the last two."""
    states = all_states(4).astype(int)
    p = np.full(16, 0.25)
    p *= np.where(states[:, 0] == states[:, 1], 0.9, 0.1)
    p *= np.where(states[:, 3] == states[:, 1] ^ states[:, 2], 0.8, 0.2)
    rows = np.repeat(states, np.round(400 * p).astype(int), axis=0)[:, [3, 0, 2, 1]].astype(float)
    way = {"hidden": (32, 32), "epochs": 120, "batch_size": 50, "learning_rate": 0.01, "random_state": 0}
    return states[:, [3, 0, 2, 1]].astype(float), p, DeepNADE(n_orders=3, **way).fit(rows)


@pytest.mark.spec("GEN-121")
def test_one_fit_predicts_every_set_of_columns_from_every_other(learned):
    """On average within 0.03 nats of the conditionals of the distribution that the rows are of."""
    states, p, model = learned
    for k in range(16):
        given = all_states(4)[k].astype(bool)
        alike = (states[:, None, given] == states[None][:, :, given]).all(2)
        truth = np.log(p / (alike @ p))
        found = model.conditional_log_prob(states, given)
        np.testing.assert_allclose(alike @ np.exp(found), 1, rtol=1e-9)
        assert -1e-9 < p @ (truth - found) < 0.03


@pytest.mark.spec("GEN-121")
def test_cells_are_filled_in_and_drawn_given_the_known_ones(learned):
    """Chi-square over the 8 completions of 4,000 draws, a false alarm in a thousand; means by the cells' own passes."""
    states, _, model = learned
    known = np.array([True, False, False, False])
    row = np.array([1.0, np.nan, np.nan, np.nan])
    drawn = model.conditional_sample(np.tile(row, (4000, 1)), random_state=0)
    assert (drawn[:, 0] == 1).all()
    alike = states[states[:, 0] == 1]
    expected = 4000 * np.exp(model.conditional_log_prob(alike, known))
    seen = (drawn[:, None] == alike[None]).all(2).sum(0)
    assert stats.chisquare(seen, expected).pvalue > 1e-3
    one = model.model_.log_given(torch.tensor([[1.0, 1, 1, 1]], dtype=F64), torch.from_numpy(known[None]))
    found = model.imputed([row])
    np.testing.assert_allclose(found.values[0, 1:], one[0, 1:].exp().detach(), rtol=1e-9)
    assert found.kind[0] == "estimate" and "one pass" in found.note
    first = model.model_.log_given(torch.tensor([[1.0, 0, 0, 0]], dtype=F64), torch.zeros(1, 4, dtype=torch.bool))
    assert model.log_prob_observed([row])[0] == pytest.approx(first[0, 0].item(), rel=1e-9)


@pytest.mark.spec("GEN-121")
def test_given_nothing_it_is_the_density_and_given_all_it_is_nothing(learned):
    states, _, model = learned
    np.testing.assert_allclose(
        model.conditional_log_prob(states, np.zeros(4, bool)), model.log_prob(states), rtol=1e-12
    )
    np.testing.assert_array_equal(model.conditional_log_prob(states, np.ones((16, 4), bool)), 0)
    np.testing.assert_allclose(model.log_prob_observed(states), model.log_prob(states), rtol=1e-12)


@pytest.mark.spec("GEN-121")
def test_conditionals_of_real_columns_are_densities_in_their_own_units():
    """A normal pair, correlation 0.9, in units of 100: regression both ways, from one fit."""
    random = np.random.default_rng(0)
    x = random.normal(size=(400, 2)) @ np.linalg.cholesky([[1, 0.9], [0.9, 1]]).T * 100 + 50
    way = {"hidden": (16, 16), "epochs": 60, "batch_size": 50, "learning_rate": 0.01, "random_state": 0}
    model = DeepNADE(likelihood=GaussianLikelihood("network"), **way).fit(x)
    for given in ([True, False], [False, True]):
        a, b = x[:, np.array(given)][:, 0], x[:, ~np.array(given)][:, 0]
        fit = stats.linregress(a, b)
        truth = stats.norm(fit.intercept + fit.slope * a, np.std(b - fit.intercept - fit.slope * a)).logpdf(b)
        found = model.conditional_log_prob(x, given)
        assert abs((found - truth).mean()) < 0.05
        gap = np.where(given, x[:5], np.nan)
        expected = (fit.intercept + fit.slope * a)[:5]
        np.testing.assert_allclose(model.impute(gap)[:, ~np.array(given)][:, 0], expected, atol=15)


# --- ensembles --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("GEN-122")
def test_probabilities_are_averaged_over_orders_and_not_their_logs():
    model, rows = made(n_orders=3), all_states(4).astype(float)
    model.key.fill_(7)
    orders = model.orders(5)
    assert len({tuple(one) for one in orders.tolist()}) > 3 and orders[0].tolist() == model.order.tolist()
    assert torch.equal(orders[:3], model.orders(3))
    each = np.array([[by_definition(model, row, order) for row in rows] for order in orders.tolist()])
    for k in (1, 2, 5):
        np.testing.assert_allclose(model.log_prob(rows, k), logsumexp(each[:k], axis=0) - np.log(k), rtol=1e-10)
        assert np.exp(model.log_prob(rows, k)).sum() == pytest.approx(1, abs=1e-12)
        assert (model.log_prob(rows, k) >= each[:k].mean(0) - 1e-12).all()
    assert (model.log_prob(rows, 5) > each.mean(0) + 1e-3).any()
    np.testing.assert_array_equal(model.log_prob(rows), model.log_prob(rows, 3))
    tensors = model.log_prob(torch.from_numpy(rows), 5).detach().numpy()
    np.testing.assert_allclose(tensors, model.log_prob(rows, 5), rtol=1e-12)


@pytest.mark.spec("GEN-122")
def test_draws_take_an_order_first():
    """Chi-square of 8,000 rows over 16 states, a false alarm in a thousand; that of one order sees the difference."""
    model, states = made(n_orders=4), all_states(4).astype(float)
    model.key.fill_(7)
    rows = model.sample(8000, Noise(0, "draw"))
    seen = (rows[:, None] == states[None]).all(2).sum(0)

    def chance(n_orders):
        expected = 8000 * np.exp(model.log_prob(states, n_orders))
        often = expected >= 5
        pair = (np.append(one[often], one[~often].sum()) for one in (seen, expected))
        return stats.chisquare(*pair).pvalue

    assert chance(4) > 1e-3 and chance(1) < 1e-6


@pytest.mark.spec("GEN-122")
def test_the_orders_of_a_fit_are_kept_with_it(learned, tmp_path):
    states, _, model = learned
    np.testing.assert_array_equal(model.log_prob(states), model.log_prob(states, n_orders=3))
    assert model.score(states) == pytest.approx(model.log_prob(states).mean())
    assert np.abs(model.log_prob(states, n_orders=1) - model.log_prob(states)).max() > 1e-6
    model.save(tmp_path / "run")
    again = gnomon.load(tmp_path / "run")
    for n in (1, 3, 6):
        np.testing.assert_array_equal(again.log_prob(states, n), model.log_prob(states, n))
    one = model.log_conditionals(states).sum(1)
    np.testing.assert_allclose(one, model.log_prob(states, 1), rtol=1e-9)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"connect": "previous-groups"}, "connect must be own-group where all orders are learned"),
        ({"hidden": ()}, "hidden must name at least one layer"),
        ({"hidden": (2.5,)}, "hidden must hold whole numbers, got 2.5"),
        ({"hidden": "4"}, "hidden must be a .*tuple of .*, got '4'"),
        ({"activation": "maxout"}, "activation must take one number for each of its own, got maxout"),
        ({"connect": "previous-groups", "order": "given", "hidden": (9000, 9000)}, "hidden layers must have at most"),
    ],
)
def test_what_does_not_go_together_is_said_in_a_line(given, said):
    with pytest.raises(UserError, match=said):
        DeepNADE(**given).fit(all_states(3).astype(float))


def test_numbers_of_orders_and_masks_that_make_no_sense_are_refused(learned):
    states, _, model = learned
    with pytest.raises(UserError, match="n_orders must be a whole number of at least 1, got 0"):
        model.log_prob(states, n_orders=0)
    with pytest.raises(UserError, match=r"observed must be truth values of shape \(16, 4\)"):
        model.conditional_log_prob(states, np.zeros((2, 4), bool))
    with pytest.raises(UserError, match=r"observed must be truth values of shape \(4,\)"):
        model.conditional_log_prob(states, [0.5, 1, 0, 1])
