"""Matrix factorization against plain loops, ridge regressions, finite differences and singular values."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse.linalg import svds

import gnomon
from gnomon.data.pairs import Ratings
from gnomon.errors import UserError
from gnomon.numeric import threads as pools
from gnomon.numeric.noise import Noise, recording
from gnomon.systems.recommend import _fitting, _sgd
from gnomon.systems.recommend.matrix_factorization import ALS, SGD, SVD, FactorModel, MatrixFactorization
from gnomon.testing import arrays_of
from oracles.ratings import PARTS, begun, random_ratings, slopes


def objective(parts, mean, X, y, weight, l2, penalty):
    """The sum that is minimized, term by term."""
    bu, bi, P, Q = parts
    total = 0.0
    for (u, i), r, w in zip(X, y, weight, strict=True):
        total += w * (r - mean - bu[u] - bi[i] - P[u] @ Q[i]) ** 2
        if penalty == "rating":
            total += l2 * w * (P[u] @ P[u] + Q[i] @ Q[i] + bu[u] ** 2 + bi[i] ** 2)
    if penalty == "parameter":
        total += l2 * sum(np.sum(part**2) for part in parts)
    return total


def stepped(recipe, X, y, weight, steps=1, biases=True, k=3, seed=1):
    """The fitting of a recipe after some steps from random parameters, and the parameters that it began with."""
    system = MatrixFactorization(n_factors=k, learner=recipe, biases=biases, dtype="float64", random_state=seed)
    procedure, state, _, _ = begun(system, X, y, weight, seed=seed, parts=PARTS[0 if biases else 2 :])
    model = state.problem.model
    before = [getattr(model, name).copy() for name in PARTS]
    for _ in range(steps):
        state, info = procedure.step(state)
    return model, before, info, state


# --- the model ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("DLN-242", "PRA-191")
def test_score_by_hand_and_of_unknown_ids():
    model = FactorModel(1, 1, 2, np.float64)
    model.user_factors[:], model.item_factors[:] = (1, 2), (0.5, 0.25)
    model.user_bias[:], model.item_bias[:], model.mean[:] = 0.1, -0.2, 3.0
    assert model.score([0, 0, -1, -1], [0, -1, 0, -1]) == pytest.approx([3.9, 3.1, 2.8, 3.0])
    model.mean[:] = 0
    assert model.score([0], [0]) == pytest.approx([0.9])


@pytest.mark.spec("DLN-242", "PRA-191")
@pytest.mark.parametrize("exclude", [True, False])
def test_best_items_are_those_of_sorting(exclude, monkeypatch):
    monkeypatch.setattr("gnomon.systems.recommend._model.CELLS", 30)  # several pieces
    X, y, _ = random_ratings(3, users=11, items=9)
    system = MatrixFactorization(n_factors=2, learner="als", random_state=0).fit(X, y)
    system.model_.item_factors[4], system.model_.item_bias[4] = (
        system.model_.item_factors[2],
        system.model_.item_bias[2],
    )
    users = [*range(11), 99]
    found = system.recommend(users, 5, exclude_seen=exclude)
    for row, user in enumerate(users):
        scores = system.predict([(user, item) for item in range(9)])
        seen = set(X[X[:, 0] == user, 1].tolist()) if exclude else set()
        order = sorted(
            (item for item in range(9) if item not in seen), key=lambda item: (-np.float32(scores[item]), item)
        )
        there = np.isfinite(found.scores[row])
        assert there.sum() == min(5, len(order))
        assert scores[found.items[row][there]] == pytest.approx(scores[order[:5]], abs=1e-5)
        assert found.scores[row][there] == pytest.approx(scores[order[:5]], abs=1e-5)
    # equal scores, in order of ids
    level = system.recommend([99], 9).items[0].tolist()
    assert level.index(4) == level.index(2) + 1
    assert system.recommend([99], level.index(2) + 1).items[0].tolist() == level[: level.index(4)]  # at the cut too


@pytest.mark.spec("PRA-191")
def test_similar_items_are_those_of_cosines():
    X, y, _ = random_ratings(4)
    system = MatrixFactorization(n_factors=3, learner="als", random_state=0).fit(X, y)
    found = system.similar_items([2, 5], 5)
    B = system.item_factors_.astype(float)
    for row, item in enumerate((2, 5)):
        cosine = B @ B[item] / np.linalg.norm(B, axis=1) / np.linalg.norm(B[item])
        cosine[item] = -2
        assert found.items[row].tolist() == np.argsort(-cosine)[:5].tolist()
        assert found.scores[row] == pytest.approx(np.sort(cosine)[::-1][:5], abs=1e-5)
    with pytest.raises(UserError, match="items must have a rating in the fit, got 77"):
        system.similar_items(77)


# --- stochastic gradient --------------------------------------------------------------------------------------------


def plain_epoch(parts, mean, X, y, weight, order, rate, l2, penalty, biases):
    """One rating after the other, as the textbook has it."""
    bu, bi, P, Q = (part.copy() for part in parts)
    mass = [np.bincount(X[:, side], weight) for side in (0, 1)]
    for row in order:
        (u, i), w = X[row], weight[row]
        error = y[row] - mean - bu[u] - bi[i] - P[u] @ Q[i]
        own, other = (l2, l2) if penalty == "rating" else (l2 / mass[0][u], l2 / mass[1][i])
        step = rate * w
        if biases:
            bu[u] += step * (error - own * bu[u])
            bi[i] += step * (error - other * bi[i])
        P[u], Q[i] = P[u] + step * (error * Q[i] - own * P[u]), Q[i] + step * (error * P[u] - other * Q[i])
    return bu, bi, P, Q


@pytest.mark.spec("DLN-242", "PRA-191")
@pytest.mark.parametrize("penalty", ["rating", "parameter"])
@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("n", [1, 3])
def test_an_epoch_is_the_plain_loop(penalty, biases, n, monkeypatch):
    X, y, weight = random_ratings()
    monkeypatch.setattr(_sgd, "BLOCK_RATINGS", len(X) // n)
    recipe = SGD(epochs=2, learning_rate=0.1, l2=0.3, penalty=penalty)
    model, before, info, state = stepped(recipe, X, y, weight, biases=biases)
    data = state.data
    assert len(data.starts) == n * n + 1
    block = {}
    for place in range(n * n):
        for r in range(data.starts[place], data.starts[place + 1]):
            pair = data.users[r], data.items[r]
            block.setdefault(place, []).append(int(np.flatnonzero((pair == X).all(1))[0]))
    order = [row for shift in range(n) for b in range(n) for row in block.get(b * n + (b + shift) % n, [])]
    assert sorted(order) == list(range(len(X)))
    mean = np.average(y, weights=weight) if biases else 0.0
    wanted = plain_epoch(before, mean, X, y, weight, order, 0.1, 0.3, penalty, biases)
    for name, part in zip(PARTS, wanted, strict=True):
        np.testing.assert_allclose(getattr(model, name), part, rtol=0, atol=1e-12)
    # the second of two epochs, from where the first ended: the rate falls linearly to 0
    assert not info.done
    model, _, info, _ = stepped(recipe, X, y, weight, steps=2, biases=biases)
    assert info.done and info.record["epoch"] == 2
    wanted = plain_epoch(wanted, mean, X, y, weight, order, 0.05, 0.3, penalty, biases)
    for name, part in zip(PARTS, wanted, strict=True):
        np.testing.assert_allclose(getattr(model, name), part, rtol=0, atol=1e-12)
    # no two blocks of a round share a user or an item
    for shift in range(n):
        sides = [[set(X[block.get(b * n + (b + shift) % n, []), side].tolist()) for b in range(n)] for side in (0, 1)]
        for side in sides:
            assert sum(map(len, side)) == len(set().union(*side))


@pytest.mark.spec("DLN-242", "PRA-191")
@pytest.mark.parametrize("penalty", ["rating", "parameter"])
def test_steps_go_down_the_gradient(penalty):
    X, y, weight = random_ratings(5)
    rate = 1e-7
    model, before, info, _ = stepped(SGD(learning_rate=rate, l2=0.3, penalty=penalty), X, y, weight)
    mean = np.average(y, weights=weight)

    def loss(parts):
        return objective(parts, mean, X, y, weight, 0.3, penalty)

    assert info.record["loss"] == pytest.approx(loss(before) / weight.sum(), rel=1e-5)
    for name, old, slope in zip(PARTS, before, slopes(loss, before), strict=True):
        np.testing.assert_allclose((getattr(model, name) - old) / rate, -slope / 2, rtol=1e-4, atol=1e-4)


def test_any_number_of_threads_gives_the_same_bits(monkeypatch):
    X, y, weight = random_ratings(6, users=30, items=20)
    monkeypatch.setattr(pools, "SERIAL", 0)
    monkeypatch.setattr(_sgd, "BLOCK_RATINGS", len(X) // 5)
    found = []
    for learner in (SGD(epochs=3), ALS(iterations=2)):
        for threads in (1, 2, 3):
            with gnomon.context(threads=threads):
                found.append(
                    arrays_of(
                        MatrixFactorization(n_factors=5, learner=learner, random_state=0).fit(
                            X, y, sample_weight=weight
                        )
                    )
                )
        one, two, three = found[-3:]
        for name in one:
            np.testing.assert_array_equal(one[name], two[name])
            np.testing.assert_array_equal(one[name], three[name])


# --- alternating least squares --------------------------------------------------------------------------------------


@pytest.mark.spec("DLN-242", "PRA-191")
@pytest.mark.parametrize("penalty", ["rating", "parameter"])
@pytest.mark.parametrize("biases", [True, False])
def test_each_half_is_a_ridge_regression(penalty, biases):
    X, y, weight = random_ratings(7)
    model, before, info, _ = stepped(ALS(l2=0.3, penalty=penalty), X, y, weight, biases=biases)
    mean = np.average(y, weights=weight) if biases else 0.0
    parts = [getattr(model, name) for name in PARTS]
    loss = objective(parts, mean, X, y, weight, 0.3, penalty)
    if not biases:
        assert not model.user_bias.any()
    assert info.record["loss"] == pytest.approx(loss / weight.sum(), rel=1e-12)
    users, items = (model.user_bias, model.user_factors), (model.item_bias, model.item_factors)
    # users given the items that there were before, then items given these users
    for side, own, other in ((0, users, (before[1], before[3])), (1, items, users)):
        for row in range(len(own[0])):
            mine = X[:, side] == row
            there = X[mine, 1 - side]
            Z, t = other[1][there], y[mine] - mean - other[0][there]
            if biases:
                Z = np.c_[Z, np.ones(len(Z))]
            ridge = 0.3 * (weight[mine].sum() if penalty == "rating" else 1.0)
            root = np.sqrt(weight[mine])
            A = np.r_[root[:, None] * Z, np.sqrt(ridge) * np.eye(Z.shape[1])]
            wanted = np.linalg.lstsq(A, np.r_[root * t, np.zeros(Z.shape[1])], rcond=None)[0]
            found = np.r_[own[1][row], own[0][row] if biases else []]
            np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10)


def test_a_fit_makes_as_many_steps_as_it_was_told():
    X, y, weight = random_ratings(8)
    for learner, steps in ((ALS(iterations=3), 3), (SGD(epochs=4), 4), (SVD(), 1)):
        model = MatrixFactorization(n_factors=2, learner=learner, random_state=0).fit(X, y)
        assert len(model.history_["loss"]) == steps
    wanted = np.average((y - model.predict(X)) ** 2, weights=weight) / np.cov(y, aweights=weight, ddof=0)
    assert model.score(X, y, weight) == pytest.approx(1 - wanted)


def test_first_factors_are_small_and_drawn_apart():
    """800 normal numbers of standard deviation 0.1, ten standard errors."""
    model = FactorModel(400, 400, 2, np.float64)
    with recording():  # no address twice
        _fitting.first_factors(model, Noise(0, "initial"))
    for part in (model.user_factors, model.item_factors):
        assert part.std() == pytest.approx(0.1, abs=0.1 * 10 / np.sqrt(1600))


def test_iterations_never_raise_the_loss():
    X, y, weight = random_ratings(8)
    for penalty in ("rating", "parameter"):
        learner = ALS(iterations=40, l2=0.05, penalty=penalty)
        model = MatrixFactorization(n_factors=3, learner=learner, dtype="float64", random_state=0).fit(
            X, y, sample_weight=weight
        )
        loss = np.array(model.history_["loss"])
        assert (np.diff(loss) <= 1e-12).all()


def test_no_factors_are_the_biases_of_least_squares():
    X, y, weight = random_ratings(9)
    learner = ALS(iterations=300, l2=0.2)
    model = MatrixFactorization(n_factors=0, learner=learner, dtype="float64", random_state=0)
    model.fit(X, y, sample_weight=weight)
    design = np.zeros((len(X), 13))
    design[np.arange(len(X)), X[:, 0]] = design[np.arange(len(X)), 7 + X[:, 1]] = 1
    mass = design.T @ weight
    A = np.r_[np.sqrt(weight)[:, None] * design, np.diag(np.sqrt(0.2 * mass))]
    mean = np.average(y, weights=weight)
    wanted = np.linalg.lstsq(A, np.r_[np.sqrt(weight) * (y - mean), np.zeros(13)], rcond=None)[0]
    np.testing.assert_allclose(np.r_[model.user_biases_, model.item_biases_], wanted, atol=1e-9)
    # and with an endless penalty nothing is left but the mean
    for strong in (ALS(l2=1e12), SGD(l2=49.0, epochs=100)):
        flat = MatrixFactorization(n_factors=2, learner=strong, dtype="float64", random_state=0).fit(X, y)
        np.testing.assert_allclose(flat.predict(X), y.mean(), atol=0.2 if isinstance(strong, SGD) else 1e-9)


@pytest.mark.spec("DLN-242", "PRA-191", "PRA-192")
def test_a_full_matrix_without_biases_reaches_the_error_of_singular_values():
    R = np.random.default_rng(10).normal(1, 1, (12, 9))
    X, y = np.argwhere(np.ones_like(R)), R.ravel()
    values = np.linalg.svd(R, compute_uv=False)
    wanted = (values[3:] ** 2).sum()
    learned = MatrixFactorization(
        n_factors=3, biases=False, learner=ALS(iterations=500, l2=0.0), dtype="float64", random_state=0
    ).fit(X, y)
    assert np.sum((learned.predict(X) - y) ** 2) == pytest.approx(wanted, rel=1e-6)
    cut = MatrixFactorization(n_factors=3, biases=False, learner="svd", dtype="float64", random_state=0).fit(X, y)
    assert np.sum((cut.predict(X) - y) ** 2) == pytest.approx(wanted, rel=1e-10)
    left, some, right = svds(R, k=3)
    np.testing.assert_allclose(cut.predict(X).reshape(R.shape), (left * some) @ right, atol=1e-10)
    np.testing.assert_allclose(cut.user_factors_.T @ cut.user_factors_, np.diag(np.sort(some)[::-1] ** 2), atol=1e-9)
    np.testing.assert_allclose(cut.item_factors_.T @ cut.item_factors_, np.eye(3), atol=1e-10)
    assert (cut.item_factors_.max(0) == np.abs(cut.item_factors_).max(0)).all()  # the largest entry is positive
    for k in (9, 20):  # full rank, and more
        whole = MatrixFactorization(n_factors=k, biases=False, learner="svd", dtype="float64", random_state=0).fit(X, y)
        np.testing.assert_allclose(whole.predict(X), y, atol=1e-10)


def sparse_low_rank(seed=0):
    """A noise-free matrix of rank 2, 60 x 40, of which 60 % are known: known pairs, the others, and their values."""
    random = np.random.default_rng(seed)
    R = random.normal(size=(60, 2)) @ random.normal(size=(2, 40))
    known = random.random(R.shape) < 0.6
    return np.argwhere(known), R[known], np.argwhere(~known), R[~known]


@pytest.mark.spec("PRA-191", "PRA-192")
@pytest.mark.parametrize("seed", [0, 1])
def test_a_matrix_of_rank_two_is_recovered_from_sixty_percent(seed):
    X, y, hidden, truth = sparse_low_rank(seed)
    learner = ALS(iterations=300, l2=1e-9)
    model = MatrixFactorization(n_factors=2, biases=False, learner=learner, dtype="float64", random_state=0).fit(X, y)
    assert model.evaluate(hidden, truth)["rmse"].value < 1e-3
    filled = MatrixFactorization(n_factors=2, biases=False, learner="svd", dtype="float64", random_state=0).fit(X, y)
    error = filled.evaluate(hidden, truth)["rmse"].value
    assert 0.4 < error < 1.0  # a missing rating read as 0
    R = np.zeros((60, 40))
    R[tuple(X.T)] = y
    left, some, right = svds(R, k=2)
    np.testing.assert_allclose(filled.predict(hidden), ((left * some) @ right)[tuple(hidden.T)], atol=1e-9)


@pytest.mark.spec("PRA-192")
def test_missing_ratings_are_filled_with_the_biases():
    X, y, _ = random_ratings(11, users=9, items=8)
    y = y + 2 * (X[:, 1] == 3)
    alone = MatrixFactorization(n_factors=0, learner=ALS(iterations=30), dtype="float64", random_state=0).fit(X, y)
    model = MatrixFactorization(n_factors=2, learner=SVD(l2=0.1), dtype="float64", random_state=0).fit(X, y)
    every = np.argwhere(np.ones((9, 8)))
    biases = alone.predict(every).reshape(9, 8)
    filled = biases.copy()
    filled[tuple(X.T)] = y
    left, some, right = np.linalg.svd(filled - biases, full_matrices=False)
    np.testing.assert_allclose(
        model.predict(every).reshape(9, 8), biases + (left[:, :2] * some[:2]) @ right[:2], atol=1e-9
    )
    with pytest.raises(UserError, match="weights must be equal"):
        model.fit(X, y, sample_weight=np.arange(1, len(y) + 1))


# --- ids and input --------------------------------------------------------------------------------------------------


@pytest.mark.spec("PRA-191", "DLN-242")
def test_ids_of_any_kind_and_unknown_ones():
    X, y, _ = random_ratings(12)
    names = np.array([f"u{u}" for u in range(7)])[X[:, 0]]
    learner = ALS(iterations=3)
    plain = MatrixFactorization(n_factors=2, learner=learner, random_state=0).fit(X, y)
    named = MatrixFactorization(n_factors=2, learner=learner, random_state=0).fit(Ratings(names, X[:, 1], y))
    np.testing.assert_array_equal(plain.predict(X), named.predict(Ratings(names, X[:, 1])))
    assert named.users_.tolist() == [f"u{u}" for u in range(7)]
    cold = named.predict([("u1", 77), ("nobody", 3), ("nobody", 77)])
    wanted = [named.mean_ + named.user_biases_[1], named.mean_ + named.item_biases_[3], named.mean_]
    assert cold == pytest.approx(wanted, abs=1e-6)
    liked = named.recommend("nobody", 6).items[0]
    assert liked.tolist() == np.argsort(-named.item_biases_, kind="stable").tolist()


def test_ratings_in_every_form():
    X, y, _ = random_ratings(13)
    log = gnomon.data.interactions.Interactions.from_records(X[:, 0], X[:, 1], y)
    make = MatrixFactorization(n_factors=2, learner="als", random_state=0)
    wanted = arrays_of(make.fit(X, y))
    frame = pd.DataFrame({"user": X[:, 0], "item": X[:, 1]})
    data = gnomon.data.dataset.Dataset("log", ratings=log.to_ratings())
    for given, target in ((X.astype(float), y), (X.tolist(), y.tolist()), (frame, y), (log.to_sparse(), None),
                          (log.to_ratings(), None), (data, None)):  # fmt: skip
        found = arrays_of(make.fit(given, target))
        for name, value in wanted.items():
            np.testing.assert_array_equal(found[name], value)


def test_precision_follows_the_ratings_where_it_is_asked_to():
    X, y, _ = random_ratings(13)
    make = MatrixFactorization(n_factors=1, learner="als", dtype=None, random_state=0)
    for dtype, found in ((np.float64, np.float64), (np.float32, np.float32), (np.int64, np.float32)):
        assert make.fit(X, y.astype(dtype)).user_factors_.dtype == found
    assert make.set_params(dtype="float32").fit(X, y).user_factors_.dtype == np.float32


def test_repeated_ratings():
    X, y = np.array([[0, 0], [0, 1], [1, 0], [0, 0], [1, 1]]), np.array([1.0, 2.0, 3.0, 5.0, 4.0])
    make = MatrixFactorization(n_factors=1, learner="als", random_state=0)
    last, mean = make.fit(X, y).predict(X[:1]), make.set_params(repeats="mean").fit(X, y).predict(X[:1])
    assert (last == make.set_params(repeats="last").fit(X[1:], y[1:]).predict(X[:1])).all()
    assert last != mean
    with pytest.raises(UserError, match="rows 0 and 3"):
        make.set_params(repeats="error").fit(X, y)


@pytest.mark.parametrize(
    ("X", "y", "said"),
    [
        ([[1, 2]], None, "must be a rating"),
        ([[1, 2]], [np.nan], "got nan (row 0)"),
        ([[1, 2], [1, 3]], [1.0], "2"),
        ([[1, 2, 3, 4]], [1.0], "2 or 3 columns"),
        ([[1.5, 2]], [1.0], "got 1.5"),
        ([[1, "a"], [2, 3]], [1.0, 2.0], "all be text"),
        ([[1, None]], [1.0], "got None"),
        ([], [], "at least 1 record"),
        (gnomon.data.load("wine"), None, "holds no ratings"),
    ],
)
def test_bad_input_is_refused_in_one_line(X, y, said):
    with pytest.raises(UserError) as caught:
        MatrixFactorization(n_factors=1, learner="als").fit(X, y)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
