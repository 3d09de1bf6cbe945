"""The chain rule with any conditionals: enumeration, closed forms, scikit-learn, Jacobians, draws by chi-square."""

import itertools

import numpy as np
import pytest
import torch
from scipy.stats import chi2, multivariate_normal
from sklearn.linear_model import LogisticRegression

from gnomon.errors import UserError, UserValueError
from gnomon.nn.likelihoods import CategoricalLikelihood, GaussianLikelihood
from gnomon.nn.mixture_density import MixtureLikelihood
from gnomon.numeric.noise import Noise
from gnomon.systems.autoregressive._cells import filtered
from gnomon.systems.autoregressive.conditionals import Linear, Neural, Tables
from gnomon.systems.autoregressive.features import Polynomial, RadialBasis
from gnomon.systems.autoregressive.fvbn import FVBN
from gnomon.systems.autoregressive.orders import Chosen, Shuffled
from gnomon.training.optimizers import AdamW

ALARM = 1e-6
"""False-alarm rate of each chi-square test."""
WAYS = {
    "tables": Tables(), "linear": Linear(), "polynomial": Linear(Polynomial(2)), "rbf": Linear(RadialBasis(7)),
    "network": Neural((3,)), "deep": Neural((3, 2), "relu"),
}  # fmt: skip


def states(d, values=2):
    return np.array(list(itertools.product(range(values), repeat=d)), np.float64)


def table_rows(d, n, seed, values=2):
    """Rows of a random table of all states."""
    every = states(d, values)
    random = np.random.default_rng(seed)
    return every[random.choice(len(every), n, p=random.dirichlet(np.ones(len(every))))]


def fitted(X, conditionals, values=2, **options):
    kind = "bernoulli" if values == 2 else CategoricalLikelihood(values)
    options = {"epochs": 3, "learning_rate": 0.05, "random_state": 0, "order": Shuffled()} | options
    return FVBN(likelihood=kind, conditionals=conditionals, **options).fit(X)


def counts_of(X, values=2):
    place = values ** np.arange(X.shape[1] - 1, -1, -1)
    return np.bincount((X @ place).astype(int), minlength=values ** X.shape[1])


def p_value(counts, expected):
    """Of the chi-square test; states that are rarely expected count together."""
    rare = expected < 5
    if rare.any():
        counts, expected = (np.append(one[~rare], one[rare].sum()) for one in (counts, expected))
    return chi2.sf(((counts - expected) ** 2 / expected).sum(), len(counts) - 1)


# --- the chain rule -------------------------------------------------------------------------------------------------


@pytest.mark.spec("GEN-110", "GEN-113")
@pytest.mark.parametrize("values", [2, 3])
@pytest.mark.parametrize("way", WAYS)
def test_probabilities_sum_to_1_and_draws_have_them(way, values):
    model = fitted(table_rows(4, 300, 1, values), WAYS[way], values)
    every = states(4, values)
    p = np.exp(model.log_prob(every))
    assert p.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(model.log_conditionals(every).sum(1), model.log_prob(every), atol=1e-12)
    drawn = model.sample(20_000, random_state=5)
    assert p_value(counts_of(drawn, values), 20_000 * p) > ALARM


@pytest.mark.spec("GEN-110")
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("way", WAYS)
def test_a_conditional_is_that_of_the_enumerated_table_in_every_order(way, order):
    model = fitted(table_rows(3, 100, 2), WAYS[way], order=Chosen(order), epochs=2)
    every = states(3)
    p = np.exp(model.log_prob(every))
    assert model.order_.tolist() == list(order)
    for t, column in enumerate(order):
        before = list(order[:t])
        alike = (every[:, None, before] == every[None, :, before]).all(2)
        on = alike @ (p * every[:, column]) / (alike @ p)
        np.testing.assert_allclose(model.conditional(column, every).mean[:, 0], on, atol=1e-12)
        own = np.where(every[:, column] == 1, on, 1 - on)
        np.testing.assert_allclose(model.log_conditionals(every)[:, column], np.log(own), atol=1e-12)


@pytest.mark.spec("GEN-110")
@pytest.mark.parametrize("values", [2, 3])
def test_the_end_of_the_order_is_filled_in_exactly(values):
    """Scores, means and draws of the last columns given the first ones, against the enumerated table."""
    model = fitted(table_rows(4, 300, 3, values), Linear(Polynomial(2)), values, order=Chosen((2, 0, 3, 1)))
    every = states(4, values)
    p = np.exp(model.log_prob(every))
    row = np.array([[1, np.nan, 1, np.nan]])  # columns 3 and 1 come last
    alike = (every[:, [0, 2]] == 1).all(1)
    assert model.log_prob_observed(row)[0] == pytest.approx(np.log(p[alike].sum()), abs=1e-12)
    score = model.evaluate_observed(row)
    assert score.kind == "exact" and score.value == pytest.approx(np.log(p[alike].sum()), abs=1e-12)
    drawn = model.imputed(np.repeat(row, 20_000, 0), how="sample", random_state=1)
    assert (drawn.kind == "exact").all() and (drawn.values[:, [0, 2]] == 1).all()
    expected = 20_000 * (p * alike) / p[alike].sum()
    assert p_value(counts_of(drawn.values, values)[alike], expected[alike]) > ALARM
    if values == 2:
        mean = (p * alike) @ every / p[alike].sum()
        np.testing.assert_allclose(model.impute(row)[0], mean, atol=1e-12)
    else:
        with pytest.raises(UserValueError, match="codes have no mean"):
            model.impute(row)


@pytest.mark.spec("GEN-110")
def test_cells_given_later_ones_are_summed_where_few_and_estimated_where_many(monkeypatch):
    from gnomon.systems.autoregressive import _cells

    model = fitted(table_rows(5, 500, 4), Neural((3,)), order=Chosen((4, 1, 0, 3, 2)), epochs=5)
    every = states(5)
    p = np.exp(model.log_prob(every))
    row = np.array([[np.nan, np.nan, 1.0, 0.0, np.nan]])  # first in the order
    alike = (every[:, 2] == 1) & (every[:, 3] == 0)
    exact, mean = np.log(p[alike].sum()), (p * alike) @ every / p[alike].sum()
    assert model.log_prob_observed(row)[0] == pytest.approx(exact, abs=1e-12)
    np.testing.assert_allclose(model.impute(row)[0], mean, atol=1e-12)
    drawn = model.impute(np.repeat(row, 5000, 0), how="sample", random_state=2)
    assert p_value(counts_of(drawn)[alike], 5000 * p[alike] / p[alike].sum()) > ALARM
    monkeypatch.setattr(_cells, "STATES", 4)  # as if there were too many states
    with pytest.raises(UserValueError, match="last in the order"):
        model.log_prob_observed(row)
    score = model.evaluate_observed(row)
    assert score.kind == "lower bound" and score.value == pytest.approx(exact, abs=0.1)  # 500 particles
    found = model.imputed(np.repeat(row, 40, 0), random_state=3)
    assert (found.kind == "estimate").all()
    np.testing.assert_allclose(found.values.mean(0), mean, atol=0.03)  # 20,000 particles: six standard errors
    drawn = model.impute(np.repeat(row, 2000, 0), how="sample", random_state=2)
    assert p_value(counts_of(drawn)[alike], 2000 * p[alike] / p[alike].sum()) > ALARM


@pytest.mark.spec("GEN-110", "GEN-113")
def test_the_order_matters_where_the_conditionals_are_weak():
    X = table_rows(4, 400, 5)
    scores = [fitted(X, Linear(l2=0.0), order=Chosen(order)).score(X) for order in ((0, 1, 2, 3), (3, 2, 1, 0))]
    assert abs(scores[0] - scores[1]) > 1e-3
    with pytest.raises(UserValueError, match="columns 0 to 3, each once"):
        fitted(X, Linear(), order=Chosen((0, 1, 1, 2)))
    with pytest.raises(UserValueError, match="column must be a whole number"):
        fitted(X, Tables()).conditional(4, X)


# --- tables ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("GEN-111")
@pytest.mark.parametrize("values", [2, 3])
def test_tables_without_smoothing_are_the_empirical_joint_in_any_order(values):
    X = table_rows(3, 60, 6, values)
    weight = np.random.default_rng(0).random(60)
    every = states(3, values)
    seen = np.array([weight[(one == X).all(1)].sum() for one in every]) / weight.sum()
    for order in ((0, 1, 2), (2, 0, 1)):
        kind = "bernoulli" if values == 2 else CategoricalLikelihood(values)
        model = FVBN(likelihood=kind, conditionals=Tables(0.0), order=Chosen(order)).fit(X, sample_weight=weight)
        np.testing.assert_allclose(np.exp(model.log_prob(every)), seen, atol=1e-10)
        assert model.history_["log_likelihood"][0] == pytest.approx(seen[seen > 0] @ np.log(seen[seen > 0]))
        assert model.model_.n_parameters == values**3 - 1


@pytest.mark.spec("GEN-111")
def test_smoothing_gives_unseen_states_a_share():
    """By hand: a column of 0, 0, 1 and behind it 1, 0, 1: (2 + s) / (3 + 2 s), and of what never came s / (2 s)."""
    model = FVBN(conditionals=Tables(0.5)).fit([[0, 1], [0, 0], [1, 1]])
    p = np.exp(model.log_prob([[0, 0], [0, 1], [1, 0], [1, 1]]))
    np.testing.assert_allclose(p, [2.5 / 4 * 0.5, 2.5 / 4 * 0.5, 1.5 / 4 * 0.25, 1.5 / 4 * 0.75], rtol=1e-6)
    unseen = FVBN(conditionals=Tables(0.0)).fit([[0.0, 1.0], [0.0, 0.0]])
    assert unseen.conditional(1, [[1.0, 0.0]]).mean[0, 0] == 0.5  # after a 1, which never came
    assert np.isfinite(unseen.log_prob([[1.0, 0.0]]))


@pytest.mark.spec("GEN-111")
def test_tables_that_are_too_large_or_of_real_columns_are_refused():
    with pytest.raises(UserValueError, match="tables must have at most 4194304 probabilities"):
        FVBN(conditionals="tables").fit(np.eye(22))
    with pytest.raises(UserValueError, match="about 2\\^70"):
        FVBN(conditionals="tables").fit(np.eye(70))
    with pytest.raises(UserValueError, match="linear or neural"):
        FVBN(conditionals="tables", likelihood="gaussian").fit(np.random.default_rng(0).normal(size=(9, 2)))


@pytest.mark.spec("GEN-111")
def test_a_network_with_enough_units_reaches_the_full_table():
    """The optimum of the training rows is their entropy, which the tables have."""
    X = table_rows(3, 200, 7)
    best = FVBN(conditionals=Tables(0.0)).fit(X).score(X)
    model = fitted(X, Neural((6,)), epochs=400, learning_rate=0.02, batch_size=None)
    assert model.best_epoch_ == 400 and not hasattr(fitted(X, Tables()), "best_epoch_")
    assert best - 1e-3 < model.score(X) <= best + 1e-9


# --- linear conditionals --------------------------------------------------------------------------------------------


def rows_of_covariance(covariance):
    """Rows whose mean is 0 and whose covariance is the given one, exactly."""
    root = np.linalg.cholesky(covariance) * np.sqrt(len(covariance))
    return np.concatenate([root.T, -root.T])


@pytest.mark.spec("GEN-112")
def test_least_squares_in_numbers():
    X = rows_of_covariance(np.array([[2.0, 1.0], [1.0, 2.0]]))
    model = FVBN(likelihood="gaussian", conditionals=Linear(l2=0.0)).fit(X)
    first, second = (model.conditional(j, [[0.0, 0.0], [1.0, 0.0]]) for j in (0, 1))
    np.testing.assert_allclose(second.mean, [0.0, 0.5], atol=1e-12)  # B_21 = 0.5
    np.testing.assert_allclose(first.variance, 2.0)
    np.testing.assert_allclose(second.variance, 1.5)
    assert model.log_prob([[1.0, -1.0]])[0] == pytest.approx(-3.387183, abs=1e-6)


@pytest.mark.spec("GEN-112", "GEN-110")
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2), (2, 3, 1, 0)])
def test_linear_conditionals_of_real_columns_are_the_normal_density_of_maximum_likelihood_in_any_order(order):
    random = np.random.default_rng(1)
    X = random.normal(size=(300, 4)) @ random.normal(size=(4, 4)) * [1, 10, 0.1, 1] + [0, 5, 0, 1]
    weight = random.random(300)
    model = FVBN(likelihood="gaussian", conditionals=Linear(l2=0.0), order=Chosen(order)).fit(X, sample_weight=weight)
    mean = np.average(X, axis=0, weights=weight)
    covariance = np.cov(X.T, aweights=weight, bias=True)
    normal = multivariate_normal(mean, covariance)
    np.testing.assert_allclose(model.log_prob(X), normal.logpdf(X), rtol=1e-8)
    slopes = np.array(
        [model.conditional(j, np.eye(4)).mean - model.conditional(j, np.zeros((1, 4))).mean for j in order]
    )
    pull, own = np.eye(4)[list(order)] - slopes, np.array([model.conditional(j, X[:1]).variance[0] for j in order])
    np.testing.assert_allclose(pull.T @ np.diag(1 / own) @ pull, np.linalg.inv(covariance), rtol=1e-6, atol=1e-8)
    assert np.count_nonzero(slopes) == 6 and model.model_.n_parameters == 6 + 4 + 4  # B, a, D
    assert model.history_["log_likelihood"][0] == pytest.approx(np.average(normal.logpdf(X), weights=weight))
    gap = np.array([[1.0, np.nan, np.nan, 2.0]])
    seen = multivariate_normal(mean[[0, 3]], covariance[np.ix_([0, 3], [0, 3])])
    assert model.log_prob_observed(gap)[0] == pytest.approx(seen.logpdf([1.0, 2.0]), abs=1e-6)
    pulled = mean[[1, 2]] + covariance[np.ix_([1, 2], [0, 3])] @ np.linalg.solve(
        covariance[np.ix_([0, 3], [0, 3])], np.array([1.0, 2.0]) - mean[[0, 3]]
    )
    np.testing.assert_allclose(model.impute(gap)[0, 1:3], pulled, rtol=1e-6)
    drawn = model.sample(20_000, random_state=3)
    white = (drawn - mean) @ np.linalg.inv(np.linalg.cholesky(covariance)).T
    assert chi2.sf(20_000 * (white.mean(0) ** 2).sum(), 4) > ALARM
    np.testing.assert_allclose(np.cov(white.T), np.eye(4), atol=0.06)  # six standard errors


@pytest.mark.spec("GEN-112")
def test_columns_that_others_determine_take_a_ridge():
    X = np.random.default_rng(2).normal(size=(50, 2))
    X = np.column_stack([X, X.sum(1), np.ones(50)])
    with pytest.raises(UserValueError, match="columns must not depend on each other where l2 is 0"):
        FVBN(likelihood="gaussian", conditionals=Linear(l2=0.0)).fit(X)
    model = FVBN(likelihood="gaussian", conditionals=Linear(l2=1e-6)).fit(X)
    np.testing.assert_allclose(model.conditional(2, X).mean, X[:, 2], atol=1e-3)
    assert np.isfinite(model.log_prob(X)).all()


@pytest.mark.spec("GEN-113")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_bits_are_logistic_regressions_of_scikit_learn():
    X = table_rows(5, 500, 8)
    order = (3, 0, 4, 1, 2)
    model = fitted(X, Linear(l2=0.0, tol=1e-10), order=Chosen(order))
    for t, column in enumerate(order[1:], start=1):
        peer = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-10)
        expected = peer.fit(X[:, order[:t]], X[:, column]).predict_proba(X[:, order[:t]])[:, 1]
        np.testing.assert_allclose(model.conditional(column, X).mean[:, 0], expected, atol=1e-7)
    assert model.history_["gradient"][-1] <= 1e-10
    assert (np.diff(model.history_["objective"]) > -1e-12).all()


@pytest.mark.spec("GEN-113")
def test_categories_are_softmax_regressions_of_scikit_learn_on_indicators():
    X = table_rows(3, 600, 9, 3)
    model = fitted(X, Linear(l2=0.0, tol=1e-9), 3, order=Chosen((1, 2, 0)))
    inputs = np.concatenate([X[:, [1, 2]] == value for value in range(3)], axis=1).astype(float)
    peer = LogisticRegression(C=np.inf, solver="lbfgs", tol=1e-10, max_iter=5000).fit(inputs, X[:, 0])
    np.testing.assert_allclose(model.conditional(0, X).mean, peer.predict_proba(inputs), atol=1e-4)


@pytest.mark.spec("GEN-113")
def test_two_bits_fit_any_table_and_what_a_plane_separates_is_told():
    X = table_rows(2, 100, 10)
    tables = FVBN(conditionals=Tables(0.0)).fit(X)
    linear = FVBN(conditionals=Linear(l2=0.0, tol=1e-11)).fit(X)
    np.testing.assert_allclose(linear.log_prob(states(2)), tables.log_prob(states(2)), atol=1e-8)
    with pytest.warns(UserWarning, match=r"1 columns \(column 1\) are determined"):
        bound = FVBN(conditionals=Linear(l2=0.0)).fit(np.repeat(states(2)[[0, 3]], 9, 0))
    assert np.isfinite(bound.log_prob(states(2))).all()
    assert np.isfinite(FVBN(conditionals=Linear()).fit(np.repeat(states(2)[[0, 3]], 9, 0)).log_prob(states(2))).all()


@pytest.mark.spec("GEN-113", "GEN-115")
def test_a_network_without_hidden_units_is_the_logistic_one():
    X = table_rows(4, 300, 11)
    linear = fitted(X, Linear(l2=0.0), order="given")
    bare = fitted(X, Neural(()), order="given", epochs=600, learning_rate=0.05, batch_size=None)
    np.testing.assert_allclose(bare.log_prob(states(4)), linear.log_prob(states(4)), atol=2e-3)
    assert bare.model_.n_parameters == linear.model_.n_parameters == 10


# --- features -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("GEN-114")
def test_products_of_two_columns_are_the_table_of_three_bits_and_know_xor():
    X = table_rows(3, 300, 12)
    tables = FVBN(conditionals=Tables(0.0)).fit(X)
    second = FVBN(conditionals=Linear(Polynomial(2), l2=0.0, tol=1e-11)).fit(X)
    np.testing.assert_allclose(np.exp(second.log_prob(states(3))), np.exp(tables.log_prob(states(3))), atol=1e-8)
    pairs = np.repeat(states(2), 25, 0)
    xor = np.column_stack([pairs, pairs[:, 0] != pairs[:, 1]]).astype(float)
    score = {degree: FVBN(conditionals=Linear(Polynomial(degree), l2=1e-6)).fit(xor).score(xor) for degree in (1, 2)}
    assert score[1] == pytest.approx(-3 * np.log(2), abs=1e-6) and score[2] == pytest.approx(-2 * np.log(2), abs=1e-2)
    with pytest.raises(UserValueError, match="features must be at most 8192"):
        FVBN(conditionals=Linear(Polynomial(3))).fit(np.eye(64))


@pytest.mark.spec("GEN-114")
def test_powers_and_products_of_real_columns_are_least_squares_on_them():
    random = np.random.default_rng(3)
    X = random.normal(size=(200, 2))
    X = np.column_stack([X, X[:, 0] ** 2 - X[:, 0] * X[:, 1] + 0.1 * random.normal(size=200)])
    model = FVBN(likelihood="gaussian", conditionals=Linear(Polynomial(2), l2=0.0)).fit(X)
    a, b, c = X.T
    inputs = np.column_stack([np.ones(200), a, b, a * a, a * b, b * b])
    expected = inputs @ np.linalg.lstsq(inputs, c, rcond=None)[0]
    found = model.conditional(2, X)
    np.testing.assert_allclose(found.mean, expected, atol=1e-9)
    assert found.variance[0] == pytest.approx(np.mean((c - expected) ** 2))
    assert model.score(X) > FVBN(likelihood="gaussian").fit(X).score(X) + 1


@pytest.mark.spec("GEN-114")
@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
def test_bumps_are_a_kernel_regression_on_the_columns_before(likelihood):
    random = np.random.default_rng(4)
    X = random.normal(size=(60, 3))
    X[:, 2] = np.sin(3 * X[:, 0]) + 0.1 * X[:, 2]
    X = X if likelihood == "gaussian" else (X > 0).astype(float)
    l2 = 0.01
    model = FVBN(likelihood=likelihood, conditionals=Linear(RadialBasis(8), l2=l2, tol=1e-11), random_state=0).fit(X)
    basis, shift, scale = model.model_.basis, X.mean(0), X.std(0)
    Z = (X - shift) / scale if likelihood == "gaussian" else X
    rate = 1 / Z[:, :2].var(0).sum()
    apart = ((Z[:, None, :2] - basis.centers.numpy()[None, :, :2]) ** 2).sum(2)
    phi = np.column_stack([np.ones(60), np.exp(-rate * apart)])
    if likelihood == "gaussian":
        weights = np.linalg.solve(phi.T @ phi + 60 * l2 * np.eye(9), phi.T @ Z[:, 2])
        np.testing.assert_allclose(model.conditional(2, X).mean, phi @ weights * scale[2] + shift[2], atol=1e-9)
        return
    weights, p = model.model_.weight[:, 0, 2].numpy(), model.conditional(2, X).mean[:, 0]
    np.testing.assert_allclose(phi.T @ (p - X[:, 2]) / 60 + l2 * weights, 0, atol=1e-8)  # the optimum of a convex loss


@pytest.mark.spec("GEN-114")
@pytest.mark.parametrize("likelihood", ["bernoulli", "gaussian", "categorical"])
@pytest.mark.parametrize("way", [way for way in WAYS if way != "tables"])
def test_no_column_sees_itself_or_what_comes_behind(way, likelihood):
    """The Jacobian of the numbers by the inputs is strictly lower triangular in the order; the rest is used."""
    random = np.random.default_rng(5)
    X = random.normal(size=(80, 5)) if likelihood == "gaussian" else random.integers(0, 2, (80, 5)).astype(float)
    model = (
        FVBN(likelihood=likelihood, conditionals=WAYS[way], order=Shuffled(), epochs=20, random_state=1).fit(X).model_
    )
    place = np.argsort(model.order.numpy())
    z = model.inside(torch.from_numpy(X[:6]))
    inputs = model.head.inputs(z).clone().requires_grad_()
    model.head.inputs = lambda _: inputs
    by_column = model.numbers(z).reshape(6, -1, 5).square().sum((0, 1))
    seen = np.array([
        torch.autograd.grad(one, inputs, retain_graph=True)[0].reshape(6, 5, -1).abs().sum((0, 2)).numpy()
        for one in by_column
    ])  # fmt: skip
    behind = place[None] >= place[:, None]
    assert (seen[behind] == 0).all() and (seen[~behind] > 0).all()


# --- networks -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("GEN-115")
def test_masks_at_a_small_size_by_hand():
    """Three columns in the order 2, 0, 1, two units a group: a group sees up to its place, an output what is before."""
    model = fitted(table_rows(3, 20, 13), Neural((2,)), order=Chosen((2, 0, 1)), epochs=1).model_
    (layer,), out, direct = model.layers, model.out, model.direct
    assert layer.mask.int().tolist() == [[0, 0, 1], [0, 0, 1], [1, 0, 1], [1, 0, 1]]
    assert out.mask.int().tolist() == [[1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]]
    assert direct.mask.int().tolist() == [[0, 0, 1], [1, 0, 1], [0, 0, 0]]
    assert model.n_parameters == 6 + 4 + 6 + 3 + 3


@pytest.mark.spec("GEN-115")
def test_masks_hold_after_first_values_and_after_decay():
    model = fitted(
        table_rows(4, 60, 14), Neural((3, 2)), optimizer=AdamW(weight_decay=0.5), epochs=10, batch_size=16
    ).model_
    for layer in (*model.layers, model.out, model.direct):
        assert (layer.weight[~layer.mask] == 0).all() and (layer.weight[layer.mask] != 0).any()
        with torch.no_grad():
            layer.weight[~layer.mask] = 7.0  # and were they not, they would reach nothing
    assert np.exp(model.log_prob(states(4))).sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("likelihood", ["gaussian", GaussianLikelihood("network"), MixtureLikelihood(3)])
def test_heads_of_real_columns_are_densities_that_integrate_to_1(likelihood):
    random = np.random.default_rng(6)
    X = random.normal(size=(200, 2))
    X[:, 1] = np.abs(X[:, 0]) + 0.3 * X[:, 1]
    model = FVBN(
        likelihood=likelihood, conditionals=Neural((8,)), order=Chosen((0, 1)), epochs=60, learning_rate=0.02,
        random_state=0,
    ).fit(X)  # fmt: skip
    ticks = np.linspace(-8, 8, 401)
    grid = np.stack(np.meshgrid(ticks, ticks), -1).reshape(-1, 2)
    assert np.exp(model.log_prob(grid)).sum() * 0.04**2 == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(model.conditional(1, X).log_prob(X[:, 1]), model.log_conditionals(X)[:, 1], atol=1e-10)
    drawn = model.imputed(np.repeat([[1.0, np.nan]], 4000, 0), how="sample", random_state=0)  # the end of the order
    one = model.conditional(1, [[1.0, 0.0]])
    assert (drawn.kind == "exact").all()
    assert abs(drawn.values[:, 1].mean() - one.mean[0]) < 5 * np.sqrt(one.variance[0] / 4000)
    assert model.score(X) > FVBN(likelihood="gaussian").fit(X).score(X) + 0.3
    if likelihood != "gaussian":
        with pytest.raises(UserError, match="conditionals must be neural"):
            FVBN(likelihood=likelihood).fit(X)


@pytest.mark.spec("GEN-110")
def test_particles_are_drawn_anew_where_few_of_them_fit_what_is_known():
    """The last four of eight bits repeat the first ones: of those that are drawn a sixteenth fits what is known."""
    bits = np.random.default_rng(0).integers(0, 2, (400, 4)).astype(float)
    X = np.concatenate([bits, np.where(np.random.default_rng(1).random((400, 4)) < 0.1, 1 - bits, bits)], axis=1)
    model = fitted(X, Tables(), order="given")
    row = np.array([1.0, 1, 1, 1, 0, 1, 1, 0])
    every = np.concatenate([states(4), np.repeat(row[None, 4:], 16, 0)], axis=1)
    p = np.exp(model.log_prob(every))
    n = 200
    z, missing = torch.from_numpy(np.repeat(row[None], n, 0)), torch.tensor([True] * 4 + [False] * 4).expand(n, 8)
    found = filtered(model.model_, z, missing, 100, Noise(0, "test").rows(np.arange(n * 100)))
    ratio = np.exp(found.log_prob) / p.sum()  # unbiased; its spread over rows gives the standard error
    assert abs(ratio.mean() - 1) < 5 * ratio.std() / np.sqrt(n)
    means = np.einsum("ns,nsd->nd", found.share, found.cells)[:, :4] * ratio[:, None]  # and so are sums of weights
    assert (abs(means.mean(0) - p @ every[:, :4] / p.sum()) < 5 * means.std(0) / np.sqrt(n)).all()
    alone = filtered(model.model_, z[:1], missing[:1], 100, Noise(0, "test").rows(np.arange(700, 800)))
    np.testing.assert_array_equal(alone.share[0], found.share[7])  # a row's particles are its own
