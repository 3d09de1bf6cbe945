"""The restricted machine of ratings against enumeration, finite differences and plain loops."""

import itertools

import numpy as np
import pytest
from scipy.special import expit, logsumexp
from scipy.stats import chisquare

from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise
from gnomon.systems.recommend.rating_rbm import CD, RatingRBM, RatingRBMModel
from oracles.ratings import begun, slopes

PARTS = ("bias", "coupling", "rated", "hidden_bias")
LEVELS = (1.0, 2.0, 4.0)
# user 0 has rated items 0 and 1, user 1 items 0, 2 and 3, user 2 item 1 alone
X = np.array([[0, 0], [0, 1], [1, 0], [1, 2], [1, 3], [2, 1]])
Y = np.array([4.0, 1.0, 2.0, 1.0, 4.0, 2.0])
WEIGHT = np.array([1.0, 2.0, 0.5, 1.0, 1.5, 1.0])


def model_of(weight=None, *, conditional=True, n_factors=2, seed=0):
    """A model with random parameters, before any step, and the state of its fit."""
    system = RatingRBM(n_factors=n_factors, conditional=conditional, dtype="float64")
    procedure, state, examples, _ = begun(system, X, Y, weight, seed=seed, parts=PARTS)
    return state.problem.model, procedure, state, examples


def energy(model, ratings, h):
    """E(v, h) of one user, term by term; `ratings` maps an item to its level and weight."""
    total = -model.hidden_bias @ h
    for item, (level, weight) in ratings.items():
        total -= weight * (model.bias[item, level] + model.coupling[item, level] @ h)
        if len(model.rated):
            total -= model.rated[item] @ h
    return total


def log_weight(model, ratings):
    """log sum over all hidden states of exp(-E)."""
    states = itertools.product((0, 1), repeat=len(model.hidden_bias))
    return logsumexp([-energy(model, ratings, np.array(h, float)) for h in states])


def ratings_of(user, weight=None):
    weight = np.ones(len(Y)) if weight is None else weight
    return {i: (LEVELS.index(y), w) for (u, i), y, w in zip(X.tolist(), Y, weight, strict=True) if u == user}


def log_likelihood(model, ratings):
    """log P of a user's ratings, all others summed out."""
    every = itertools.product(range(len(LEVELS)), repeat=len(ratings))
    table = [log_weight(model, {i: (k, ratings[i][1]) for i, k in zip(ratings, ks, strict=True)}) for ks in every]
    return log_weight(model, ratings) - logsumexp(table)


def log_conditional(model, ratings, item):
    """log P of each level of an item given the user's ratings of others."""
    others = {i: known for i, known in ratings.items() if i != item}
    weight = ratings[item][1] if item in ratings else 1.0
    table = np.array([log_weight(model, others | {item: (k, weight)}) for k in range(len(LEVELS))])
    return table - logsumexp(table)


@pytest.mark.spec("PRA-193")
@pytest.mark.parametrize("conditional", [True, False])
def test_conditionals_and_free_energies_are_enumerated_ones(conditional):
    model, *_ = model_of(WEIGHT, conditional=conditional)
    machines, visible = model.machines(np.arange(3))
    hidden = machines.conditional("hidden", {"visible": visible}).mean
    states = [np.array(h, float) for h in itertools.product((0, 1), repeat=2)]
    for user in range(3):
        ratings = ratings_of(user, WEIGHT)
        weights = np.exp([-energy(model, ratings, h) for h in states])
        np.testing.assert_allclose(hidden[user], weights @ np.array(states) / weights.sum(), rtol=1e-12)
    free = machines.marginal_energy({"visible": visible})
    np.testing.assert_allclose(free, [-log_weight(model, ratings_of(user, WEIGHT)) for user in range(3)], rtol=1e-12)
    h = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    joint = machines.joint_energy({"visible": visible, "hidden": h})
    np.testing.assert_allclose(
        joint, [energy(model, ratings_of(user, WEIGHT), h[user]) for user in range(3)], rtol=1e-12
    )
    found = machines.conditional("visible", {"hidden": h}).mean
    for row, ((user, item), w) in enumerate(zip(X, WEIGHT, strict=True)):
        odds = np.exp([-energy(model, {item: (k, w)}, h[user]) for k in range(3)])
        np.testing.assert_allclose(found[row], odds / odds.sum(), rtol=1e-12)


@pytest.mark.spec("PRA-193")
def test_predictions_are_exact_and_leave_their_own_rating_out():
    model, *_ = model_of()
    pairs = np.array([(user, item) for user in range(3) for item in range(4)])
    found = model.rating_proba(pairs[:, 0], pairs[:, 1])
    wanted = [np.exp(log_conditional(model, ratings_of(user), item)) for user, item in pairs]
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
    np.testing.assert_allclose(model.score(pairs[:, 0], pairs[:, 1]), wanted @ np.array(LEVELS), rtol=1e-10)
    np.testing.assert_allclose(model.rows(np.array([2, 0])), (wanted @ np.array(LEVELS)).reshape(3, 4)[[2, 0]])
    # an unknown user has no ratings; an unknown item has the couplings that items have in common
    stranger = np.exp(log_conditional(model, {}, 2))
    np.testing.assert_allclose(model.rating_proba([-1], [2])[0], stranger, rtol=1e-10)
    model.common[:] = model.coupling[3]
    model.log_base[:] = model.bias[3]
    model.rated[3] = 0
    np.testing.assert_allclose(model.rating_proba([1, 0], [-1, -1])[1:], model.rating_proba([0], [3]), rtol=1e-10)


@pytest.mark.spec("PRA-193")
def test_long_products_do_not_overflow():
    """A hundred units with couplings of 40: the product of their factors is exp(4000)."""
    model = RatingRBMModel(1, 1, 100, [1.0, 2.0], np.float64, False)
    model.users = model.items = model.items.__class__(np.zeros(1, np.int64))
    model.coupling[0, 0] = 40.0
    model.bias[0] = [-3990.0, 0.0]
    odds = 100 * np.log(0.5 + 0.5 * np.exp(40.0)) - 3990
    np.testing.assert_allclose(model.rating_proba([0], [0])[0], [expit(odds), expit(-odds)], rtol=1e-9)


@pytest.mark.spec("PRA-193")
def test_ratings_that_are_missing_contribute_nothing():
    model, *_ = model_of()
    machines, visible = model.machines(np.array([0]))
    before = machines.marginal_energy({"visible": visible}), model.rating_proba([0], [1])
    for part in (model.bias, model.coupling, model.rated):
        part[2:] += 3.0  # items that user 0 has not rated
    assert machines.marginal_energy({"visible": visible}) == pytest.approx(before[0], abs=1e-12)
    np.testing.assert_array_equal(model.rating_proba([0], [1]), before[1])
    items, found = machines.contrast(visible, visible[::-1].copy())
    assert items.tolist() == [0, 1] and len(found["coupling"]) == len(found["rated"]) == 2
    nobody, nothing = model.machines(np.array([-1, 2]))
    free = nobody.marginal_energy({"visible": nothing})
    assert free[0] == pytest.approx(-np.logaddexp(0, model.hidden_bias).sum())
    assert free[1] == pytest.approx(-log_weight(model, ratings_of(2)))


@pytest.mark.spec("PRA-193")
@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_slopes_are_finite_differences_of_enumerated_probabilities(weight):
    model, *_ = model_of(weight)
    machines, visible = model.machines(np.arange(3))
    (items, found), total = machines.conditional_slopes(visible)

    def value(_):
        known = [ratings_of(user, weight) for user in range(3)]
        return sum(
            r[item][1] * log_conditional(model, r, item)[r[item][0]] for r in known for item in r
        )  # fmt: skip

    assert items.tolist() == [0, 1, 2, 3]
    assert total == pytest.approx(value(None), rel=1e-12)
    for name in PARTS:
        (wanted,) = slopes(value, [getattr(model, name)])
        np.testing.assert_allclose(found[name], wanted, atol=1e-8)


@pytest.mark.spec("PRA-193")
def test_contrasts_are_finite_differences_of_free_energies():
    model, *_ = model_of(WEIGHT)
    machines, near = model.machines(np.arange(3))
    far = model.one_hot(np.array([0, 1, 1, 2, 0, 2]))

    def value(_):
        return float((machines.marginal_energy({"visible": far}) - machines.marginal_energy({"visible": near})).sum())

    _, found = machines.contrast(near, far)
    for name in PARTS:
        (wanted,) = slopes(value, [getattr(model, name)])
        np.testing.assert_allclose(found[name], wanted, atol=1e-8)


@pytest.mark.spec("PRA-193")
def test_long_chains_give_the_gradient_of_the_likelihood_and_one_step_goes_uphill():
    """CD-30 of 20,000 copies of a user: 22 derivatives within five standard errors, false alarm below 2e-5."""
    model, *_ = model_of()
    exact = [slopes(lambda _: log_likelihood(model, ratings_of(0)), [getattr(model, name)])[0] for name in PARTS]
    n = 20_000
    machines, visible = model.machines(np.zeros(n, np.int64))
    for k in (1, 30):
        _, found = CD(k=k).slopes(machines, visible, Noise(3, "test"))
        ours = [found[name] / n for name in PARTS]
        theirs = [wanted[:2] if name != "hidden_bias" else wanted for name, wanted in zip(PARTS, exact, strict=True)]
        flat, true = (np.concatenate([part.ravel() for part in parts]) for parts in (ours, theirs))
        cosine = flat @ true / np.linalg.norm(flat) / np.linalg.norm(true)
        assert cosine > (0.9 if k == 1 else 0.999)
    np.testing.assert_allclose(flat, true, atol=5 * 0.5 / np.sqrt(n))  # what is drawn lies in [0, 1]
    assert len(flat) == 6 + 12 + 4 + 2


def stepped(model, system, counts):
    """What one step on all three users makes of the parameters, item by item in plain loops."""
    machines, visible = model.machines(np.arange(3))
    (_, found), _ = machines.conditional_slopes(visible)
    rate, n = system.learning_rate, 3
    after = {name: getattr(model, name).copy() for name in (*PARTS, "common")}
    together = rate * found["coupling"].sum(0) / machines.weight.sum()
    after["common"] += together
    for item in range(4):
        met = 1 - (1 - counts[item] / n) ** n
        held = rate * system.l2 / met
        moved = model.coupling[item] + together
        after["coupling"][item] = (
            moved + rate * found["coupling"][item] / n - held * (moved - model.common - together)
        )  # fmt: skip
        after["bias"][item] += rate * found["bias"][item] / n - 0.1 * held * (model.bias[item] - model.log_base)
        after["rated"][item] += rate * found["rated"][item] / n - held * model.rated[item]
    after["hidden_bias"] += rate * found["hidden_bias"] / n
    return after


@pytest.mark.spec("PRA-193")
def test_a_step_is_that_of_plain_loops():
    system = RatingRBM(
        n_factors=2, objective="pseudolikelihood", epochs=1, learning_rate=0.3, l2=0.2, batch_size=3, dtype="float64"
    )
    procedure, state, *_ = begun(system, X, Y, WEIGHT, parts=PARTS)
    model = state.problem.model
    model.common[:] = 0.1
    counts = np.bincount(X[:, 1])
    wanted = stepped(model, system, counts)
    _, info = procedure.step(state)
    assert info.done
    for name, value in wanted.items():
        np.testing.assert_allclose(getattr(model, name), value, rtol=1e-9, atol=1e-12)


def test_first_parameters_are_frequencies():
    system = RatingRBM(n_factors=2, dtype="float64")
    examples = system.ingest(X, Y, None)
    model = system.make(**system.arguments(examples))
    system.initialize(model, examples, Noise(0, "fit"))
    base = np.array([2, 2, 2]) / 6
    np.testing.assert_allclose(np.exp(model.log_base), base)
    np.testing.assert_allclose(np.exp(model.bias[0]), (np.array([0, 1, 1]) + 5 * base) / 7)
    assert 0.02 < model.coupling.std() < 0.2 and not model.common.any()


def fitted():
    system = RatingRBM(n_factors=2, epochs=2, dtype="float64", random_state=0).fit(X, Y)
    random = np.random.default_rng(5)
    for name in PARTS:
        part = getattr(system.model_, name)
        part[:] = random.normal(0, 0.7, part.shape)
    return system


@pytest.mark.spec("PRA-193")
def test_drawn_ratings_have_their_joint_distribution():
    """Items 2 and 3 of user 0, whose two ratings are held: nine outcomes, chi-square, false alarm 1e-4."""
    system, n = fitted(), 1000
    pairs = [(0, 3), (2, 0), (0, 2)]
    drawn = np.array([system.sample_ratings(pairs, steps=12, random_state=seed) for seed in range(n)])
    known = ratings_of(0)
    table = np.array(
        [[log_weight(system.model_, known | {3: (a, 1.0), 2: (b, 1.0)}) for b in range(3)] for a in range(3)]
    )
    p = np.exp(table - logsumexp(table))
    place = [np.searchsorted(LEVELS, drawn[:, column]) for column in (0, 2)]
    counts = np.bincount(place[0] * 3 + place[1], minlength=9)
    assert chisquare(counts, n * p.ravel()).pvalue > 1e-4
    alone = np.exp(log_conditional(system.model_, ratings_of(2), 0))
    assert chisquare(np.bincount(np.searchsorted(LEVELS, drawn[:, 1]), minlength=3), n * alone).pvalue > 1e-4


@pytest.mark.spec("PRA-193")
def test_reconstructions_are_those_of_the_means():
    system = fitted()
    model = system.model_
    pairs = np.array([(1, 1), (0, 0), (1, 3)])
    for (user, item), answer in zip(pairs, system.reconstruct(pairs), strict=True):
        field = model.hidden_bias.copy()
        for other, (level, _) in ratings_of(user).items():
            field += model.coupling[other, level] + model.rated[other]
        odds = np.exp(model.bias[item] + model.coupling[item] @ expit(field))
        assert answer == pytest.approx(odds @ np.array(LEVELS) / odds.sum())
        assert system.user_factors_[user] == pytest.approx(expit(field))
    wanted = np.einsum("k,ikf->if", np.array(LEVELS) - np.mean(LEVELS), model.coupling)
    np.testing.assert_allclose(system.item_factors_, wanted)


@pytest.mark.spec("PRA-193")
@pytest.mark.parametrize("objective", ["cd", "pseudolikelihood"])
def test_two_tastes_are_found_which_biases_cannot(objective):
    """Users like the even items or the odd ones; a rating in ten is turned round, a third is held out."""
    random = np.random.default_rng(0)
    user, item = (part.ravel() for part in np.indices((120, 20)))
    liked = (user % 2 == item % 2) ^ (random.random(len(user)) < 0.1)
    ratings, held = np.where(liked, 5.0, 1.0), random.random(len(user)) < 0.33
    pairs = np.column_stack([user, item])
    system = RatingRBM(n_factors=8, objective=objective, random_state=0).fit(pairs[~held], ratings[~held])
    error = np.sqrt(np.mean((system.predict(pairs[held]) - ratings[held]) ** 2))
    # the noise has a deviation of 1.2; the mean alone, which biases cannot better, one of 2
    assert error < 1.4
    assert system.history_["rmse"][-1] < system.history_["rmse"][0]


def test_what_cannot_be_is_refused():
    random = np.random.default_rng(0)
    with pytest.raises(UserValueError, match="at most 64 different values, got 100"):
        RatingRBM().fit([(user, 0) for user in range(100)], random.normal(size=100))
    system = fitted()
    with pytest.raises(UserValueError, match="no rating in the fit"):
        system.sample_ratings([(0, 0)])
    with pytest.raises(UserValueError, match="no rating in the fit, and come once"):
        system.sample_ratings([(0, 2), (0, 2)])
    with pytest.raises(UserValueError, match="an item must have a rating"):
        system.sample_ratings([(0, 99)])
    with pytest.raises(UserValueError, match="an item must have a rating"):
        system.reconstruct([(0, 99)])
    with pytest.raises(UserValueError, match="steps must be at least 1"):
        system.sample_ratings([(0, 2)], steps=0)
