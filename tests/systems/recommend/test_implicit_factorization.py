"""Factorization of implicit feedback against plain loops, finite differences, torch and planted tastes."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from gnomon.data.interactions import Interactions
from gnomon.data.negatives import pairwise, pointwise
from gnomon.data.pairs import Ratings
from gnomon.errors import UserValueError
from gnomon.systems.recommend.implicit_factorization import BPR, ImplicitFactorization, PointwiseLogistic
from oracles.ratings import PARTS, begun, random_ratings


def stepped(recipe, X, weight, seed=1, epochs=1):
    """Parameters before and after epochs from random ones, the last one's record, the log and the noise of the fit."""
    system = ImplicitFactorization(n_factors=3, objective=recipe, dtype="float64", random_state=seed)
    procedure, state, examples, noise = begun(system, X, None, weight, seed=seed, parts=PARTS)
    model = state.problem.model
    if isinstance(recipe, BPR):
        model.user_bias[:] = 0
    before = [torch.tensor(getattr(model, name), requires_grad=True) for name in PARTS]
    for epoch in range(epochs):
        state, info = procedure.step(state)
        assert info.done == (epoch + 1 == recipe.epochs) and info.record["epoch"] == epoch + 1
    after = [torch.tensor(getattr(model, name)) for name in PARTS]
    return before, after, info.record["loss"], Interactions.from_examples(examples), noise


def squares(parts, users, *items):
    bu, bi, P, Q = parts
    total = bu[users] ** 2 + (P[users] ** 2).sum(1)
    return total + sum(bi[one] ** 2 + (Q[one] ** 2).sum(1) for one in items)


def scores(parts, users, items):
    bu, bi, P, Q = parts
    return bu[users] + bi[items] + (P[users] * Q[items]).sum(1)


def ranking(parts, log, noise, recipe):
    """The sum that BPR minimizes over the triples of an epoch, and the weights."""
    drawn = pairwise(log, noise.child("negatives"), by=recipe.negatives)
    users, met, unmet, weight = (torch.as_tensor(part) for part in drawn)
    gap = scores(parts, users, met) - scores(parts, users, unmet)
    terms = functional.binary_cross_entropy_with_logits(gap, torch.ones_like(gap), reduction="none")
    return (weight * (terms + recipe.l2 / 2 * squares(parts, users, met, unmet))).sum(), weight.sum()


def telling_apart(parts, log, noise, recipe):
    """The sum that logistic regression minimizes over the pairs of an epoch, and the weights."""
    drawn = pointwise(log, recipe.n_negatives, noise.child("negatives"), by=recipe.negatives)
    users, items, met, weight = (torch.as_tensor(part) for part in drawn)
    terms = functional.binary_cross_entropy_with_logits(scores(parts, users, items), met.double(), reduction="none")
    return (weight * (terms + recipe.l2 / 2 * squares(parts, users, items))).sum(), weight.sum()


@pytest.mark.parametrize(
    ("recipe", "objective"),
    [
        pytest.param(BPR(1, 1e-7, 0.3), ranking, marks=pytest.mark.spec("DLN-240", "DLN-244"), id="bpr"),
        pytest.param(
            PointwiseLogistic(1, 1e-7, 0.3, n_negatives=3),
            telling_apart,
            marks=pytest.mark.spec("DLN-240"),
            id="logistic",
        ),
        pytest.param(BPR(1, 1e-7, 0.3, "popularity"), ranking, id="bpr by popularity"),
        pytest.param(PointwiseLogistic(1, 1e-7, 0.3, "popularity", 1), telling_apart, id="logistic by popularity"),
    ],
)
def test_an_epoch_of_small_steps_is_a_step_down_the_gradient_of_the_objective(recipe, objective):
    X, _, weight = random_ratings()
    before, after, loss, log, noise = stepped(recipe, X, weight)
    total, mass = objective(before, log, noise.at(0), recipe)
    assert loss == pytest.approx((total / mass).item(), rel=1e-5)
    for name, old, new, slope in zip(PARTS, before, after, torch.autograd.grad(total, before), strict=True):
        if name == "user_bias" and isinstance(recipe, BPR):
            assert (new == 0).all()  # it cancels
            continue
        torch.testing.assert_close((old - new) / recipe.learning_rate, slope, rtol=1e-4, atol=1e-4)


def test_steps_follow_one_another():
    """Each starts where the last one ended, with items drawn anew and a lower rate in the second of two epochs."""
    X, _, weight = random_ratings(3)
    before, after, _, log, noise = stepped(BPR(2, 0.2, 0.05), X, weight, epochs=2)
    _, bi, P, Q = (part.detach().numpy().copy() for part in before)
    for now, rate in ((noise.at(0), 0.2), (noise.at(1), 0.1)):
        users, met, unmet, mass = pairwise(log, now.child("negatives"))
        for r in now.child("order").order(len(users)):
            u, i, j, step = users[r], met[r], unmet[r], rate * mass[r]
            pull = 1 / (1 + np.exp(bi[i] - bi[j] + P[u] @ (Q[i] - Q[j])))
            p, q, o = P[u].copy(), Q[i].copy(), Q[j].copy()
            bi[i] += step * (pull - 0.05 * bi[i])
            bi[j] += step * (-pull - 0.05 * bi[j])
            P[u] += step * (pull * (q - o) - 0.05 * p)
            Q[i] += step * (pull * p - 0.05 * q)
            Q[j] += step * (-pull * p - 0.05 * o)
    for new, wanted in zip(after[1:], (bi, P, Q), strict=True):
        np.testing.assert_allclose(new, wanted, rtol=1e-10)


def test_steps_of_logistic_regression_follow_one_another():
    X, _, weight = random_ratings(3)
    before, after, _, log, noise = stepped(PointwiseLogistic(2, 0.2, 0.05, n_negatives=1), X, weight)
    bu, bi, P, Q = (part.detach().numpy().copy() for part in before)
    users, items, met, mass = pointwise(log, 1, noise.at(0).child("negatives"))
    for r in noise.at(0).child("order").order(len(users)):
        u, i, step = users[r], items[r], 0.2 * mass[r]
        pull = met[r] - 1 / (1 + np.exp(-bu[u] - bi[i] - P[u] @ Q[i]))
        p, q = P[u].copy(), Q[i].copy()
        bu[u] += step * (pull - 0.05 * bu[u])
        bi[i] += step * (pull - 0.05 * bi[i])
        P[u] += step * (pull * q - 0.05 * p)
        Q[i] += step * (pull * p - 0.05 * q)
    for new, wanted in zip(after, (bu, bi, P, Q), strict=True):
        np.testing.assert_allclose(new, wanted, rtol=1e-10)


@pytest.mark.parametrize("objective", ["bpr", "logistic"])
def test_planted_tastes_are_found(objective):
    """Users of a taste meet items of its kind; held-out pairs rank above all others."""
    random = np.random.default_rng(0)
    users, items = np.divmod(np.arange(60 * 40), 40)
    alike = np.flatnonzero(users % 3 == items % 3)
    held = random.random(len(alike)) < 0.3
    train, test = (np.stack([users[rows], items[rows]], 1) for rows in (alike[~held], alike[held]))
    system = ImplicitFactorization(n_factors=4, objective=objective, random_state=0).fit(train)
    assert system.evaluate(test)["auc"].value > 0.99
    listed = system.recommend([0, 1, 2], 1).items
    assert all((row % 3 == user).all() for user, row in enumerate(listed))


def test_values_play_no_part_and_a_repeated_pair_counts_as_often():
    X, _, _ = random_ratings(2)

    def make():
        return ImplicitFactorization(n_factors=2, dtype="float64", random_state=0)

    plain = make().fit(X)
    rated = make().fit(Ratings(X[:, 0], X[:, 1], np.arange(len(X), dtype=float)))
    twice = make().fit(np.concatenate([X, X[-5:]]))
    heavy = make().fit(X, sample_weight=np.where(np.arange(len(X)) < len(X) - 5, 1.0, 2.0))
    assert (plain.item_factors_ == rated.item_factors_).all()
    assert (twice.item_factors_ == heavy.item_factors_).all()
    assert (twice.item_factors_ != plain.item_factors_).any()


def test_lists_leave_out_what_was_met_in_the_fit_unless_it_is_judged():
    X = [("a", 1), ("a", 2), ("b", 1), ("c", 3)]
    system = ImplicitFactorization(n_factors=1, random_state=0).fit(X)
    system.model_.item_bias[:], system.model_.item_factors[:] = [3, 2, 1], 0
    assert "auc" not in system.evaluate([("a", 3)])  # there is nothing else to come before
    assert "auc" not in system.evaluate([("a", 3), ("b", 9)])  # nor is there for b, who has nothing to find
    assert system.evaluate([("b", 2)])["auc"].value == 1.0  # 1 is left out
    assert system.evaluate([("b", 3)])["auc"].value == 0.0
    assert system.evaluate([("b", 1), ("b", 3)])["auc"].value == 0.5
    with pytest.raises(UserValueError, match="a known item"):
        system.evaluate([("b", 9)])


def test_a_user_who_met_everything_teaches_ranking_nothing():
    system = ImplicitFactorization(n_factors=1, random_state=0).fit([("a", 1), ("a", 2)])
    assert set(system.history_["loss"]) == {0.0}
    assert np.isfinite(system.predict([("a", 1)])).all()
