"""Users by items, negatives, and cuts of ratings."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from gnomon.data.interactions import Ids, Interactions
from gnomon.data.negatives import pairwise, pointwise, unobserved
from gnomon.data.pairs import Ratings
from gnomon.data.rating_splits import split_ratings
from gnomon.errors import UserError, UserValueError
from gnomon.numeric.noise import Noise

USERS = ["ann", "ann", "bob", "cat", "cat"]
ITEMS = [7, 3, 3, 9, 1]
VALUES = [5.0, 0.0, 2.0, 1.0, 0.0]


@pytest.mark.spec("DLN-236")
def test_sparsity_and_round_trip():
    log = Interactions.from_records(USERS, ITEMS, VALUES)
    assert log.shape == (3, 4)
    assert log.sparsity == pytest.approx(7 / 12)
    matrix = log.to_sparse()
    assert matrix.nnz == 5  # two of the ratings are 0: they are not missing
    table = dict(zip(zip(USERS, ITEMS, strict=True), VALUES, strict=True))
    for u, user in enumerate(log.users.values):
        for i, item in enumerate(log.items.values):
            assert matrix.toarray()[u, i] == table.get((user, item), 0.0)
    again = log.to_ratings()
    assert dict(zip(zip(again.users, again.items, strict=True), again.values, strict=True)) == table
    other = Interactions.from_ratings(again)
    assert other.to_examples().fingerprint() == log.to_examples().fingerprint()
    shuffled = np.random.default_rng(0).permutation(5)
    mixed = Interactions.from_records(np.array(USERS)[shuffled], np.array(ITEMS)[shuffled], np.array(VALUES)[shuffled])
    assert mixed.to_examples().fingerprint() == log.to_examples().fingerprint()


@pytest.mark.spec("DLN-236")
def test_repeated_pairs():
    users, items, values = ["u", "v", "u", "u"], ["a", "a", "b", "a"], [1.0, 2.0, 3.0, 5.0]
    with pytest.raises(UserValueError, match="rows 0 and 3"):
        Interactions.from_records(users, items, values)
    assert Interactions.from_records(users, items, values, repeats="last").values.tolist() == [5.0, 3.0, 2.0]
    assert Interactions.from_records(users, items, values, repeats="mean").values.tolist() == [3.0, 3.0, 2.0]
    by_time = Interactions.from_records(users, items, values, times=[9, 1, 1, 8], repeats="last")
    assert by_time.values.tolist() == [1.0, 3.0, 2.0]
    level = Interactions.from_records(users, items, values, times=[9, 1, 1, 9], repeats="last")
    assert level.values.tolist() == [5.0, 3.0, 2.0]
    heavy = Interactions.from_records(users, items, values, weight=[3, 1, 1, 1], repeats="mean")
    assert (heavy.values.tolist(), heavy.weight.tolist()) == ([2.0, 3.0, 2.0], [4.0, 1.0, 1.0])
    dated = Ratings(np.array(users), np.array(items), np.array(values), times=np.array([9, 1, 1, 8]))
    assert Interactions.from_ratings(dated, repeats="last").values.tolist() == [1.0, 3.0, 2.0]
    late = Interactions.from_records(users, items, values, times=[9, 1, 1, 8], weight=[1, 0, 1, 1], repeats="last")
    assert late.values.tolist() == [1.0, 3.0]
    alone = Interactions.from_records(users, items, values, weight=[0, 1, 1, 1])  # a record of weight 0 is none
    assert alone.values.tolist() == [5.0, 3.0, 2.0]


@pytest.mark.parametrize(
    ("users", "items", "options", "said"),
    [
        (["u"], ["a", "b"], {}, "items must have one entry"),
        (["u", "v"], ["a", "b"], {"values": [1.0, np.nan]}, "values must be finite, got nan: row 1"),
        (["u", "v"], ["a", "b"], {"values": [1.0, "x"]}, "values must be numbers"),
        (["u"], ["a"], {"weight": [-1.0]}, "weight must be at least 0"),
        (["u"], ["a"], {"weight": [0.0]}, "at least 1 record"),
        ([], [], {}, "at least 1 record"),
        (["u"], ["a"], {"repeats": "first"}, "repeats must be one of"),
    ],
)
def test_bad_records(users, items, options, said):
    with pytest.raises(UserError) as caught:
        Interactions.from_records(users, items, **options)
    assert said in str(caught.value).replace(" (row 1)", ": row 1")


def test_codes_of_ids():
    assert Ids([1, 3]).codes([3, 8, 1]).tolist() == [1, -1, 0]
    assert Ids(["a", "b"]).codes(["b", "z"]).tolist() == [1, -1]
    assert Ids(["10", "7"]).codes([10, 2]).tolist() == [0, -1]
    assert Ids([2, 10]).codes(["10", "2", "02"]).tolist() == [1, 0, -1]


@pytest.mark.parametrize("values", [[-3, 5, 10**15], ["", "a b", "\u5f20\u4e09", "z"]])
def test_ids_come_back_from_their_arrays(values):
    again = Ids.from_state(Ids(values).state())
    assert again.values.tolist() == values
    assert all(part.dtype.kind in "iu" for part in Ids(values).state().values())


# --- negatives ------------------------------------------------------------------------------------------------------


def random_log(seed=0, users=6, items=8):
    mask = np.random.default_rng(seed).random((users, items)) < 0.4
    mask[:, 0], mask[0] = True, True  # user 0 met everything, everybody met item 0
    mask[1] = False
    mask[1, 5] = True
    rows, columns = np.nonzero(mask)
    return Interactions.from_records(rows, columns), mask


@pytest.mark.spec("DLN-240")
@pytest.mark.parametrize("by", ["uniform", "popularity"])
def test_negatives_are_unmet_items_of_the_user(by):
    log, mask = random_log()
    noise = Noise(0, "negatives")
    triples = pairwise(log, noise, by=by)
    assert len(triples.users) == mask[1:].sum()  # one per pair, none of the user who met everything
    assert mask[triples.users, triples.met].all()
    assert not mask[triples.users, triples.unmet].any()
    points = pointwise(log, 3, noise, by=by)
    assert points.met.sum() == mask.sum()
    assert (~points.met).sum() == 3 * mask[1:].sum()
    np.testing.assert_array_equal(mask[points.users, points.items], points.met)
    again = pairwise(log, noise.at(1), by=by)
    assert (again.unmet != triples.unmet).any()  # another epoch draws anew
    np.testing.assert_array_equal(pairwise(log, noise, by=by).unmet, triples.unmet)


@pytest.mark.spec("DLN-240")
@pytest.mark.parametrize("by", ["uniform", "popularity"])
def test_a_user_without_items_has_no_pairs(by):
    offsets, codes = np.array([0, 0, 2, 2, 3]), np.array([0, 2, 1])  # the first and the third of four users
    log = Interactions(Ids([1, 2, 3, 4]), Ids([7, 8, 9]), offsets, codes, np.ones(3), np.ones(3))
    triples, points = pairwise(log, Noise(0, "n"), by=by), pointwise(log, 2, Noise(0, "n"), by=by)
    assert triples.users.tolist() == [1, 1, 3]
    assert triples.unmet[:2].tolist() == [1, 1] and triples.unmet[2] in (0, 2)
    assert points.users.tolist() == [1, 1, 3, 1, 1, 1, 1, 3, 3]


@pytest.mark.spec("DLN-240")
@pytest.mark.parametrize("by", ["uniform", "popularity"])
def test_distribution_of_negatives(by):
    log, mask = random_log(2)
    for user in range(1, 6):
        drawn = unobserved(log, np.full(20_000, user), Noise(user, "negatives"), by=by)
        mass = np.where(mask[user], 0.0, 1.0 if by == "uniform" else mask.sum(0))
        mass = mass / mass.sum()
        gap = np.bincount(drawn, minlength=8) / 20_000 - mass
        # 80 shares in all, six standard deviations each: false alarm below 1e-6
        assert (np.abs(gap) <= 6 * np.sqrt(mass * (1 - mass) / 20_000)).all()
    assert (unobserved(log, np.zeros(5, np.int64), Noise(0, "negatives"), by=by) == -1).all()


def test_mistakes_of_negatives():
    log, _ = random_log()
    with pytest.raises(UserValueError, match="n_negatives"):
        pointwise(log, -1, Noise(0, "n"))
    with pytest.raises(UserValueError, match="by must be"):
        pairwise(log, Noise(0, "n"), by="even")


# --- splits ---------------------------------------------------------------------------------------------------------


def timed_log(seed=0):
    random = np.random.default_rng(seed)
    users = random.integers(12, size=60)
    return Ratings(np.append(users, 99), np.arange(61), times=np.append(random.integers(8, size=60), 3))


@pytest.mark.spec("DLN-241")
@pytest.mark.parametrize("n_test", [1, 3])
def test_split_by_time(n_test):
    log = timed_log()
    train, test = split_ratings(log, "time", n_test=n_test)
    assert sorted([*train, *test]) == list(range(61))
    for user in np.unique(log.users):
        mine = np.flatnonzero(log.users == user)
        held = test[log.users[test] == user]
        assert len(held) == (n_test if len(mine) > n_test else 0)  # the user of one row stays in the training part
        kept = np.setdiff1d(mine, held)
        if len(held):
            assert log.times[held].min() >= log.times[kept].max()
            # of equal times the rows that stand later are held out
            by_hand = sorted(mine, key=lambda row: (log.times[row], row))[-n_test:]
            assert sorted(by_hand) == held.tolist()
    twice = split_ratings(log, "time", n_test=n_test)
    assert all(np.array_equal(a, b) for a, b in zip((train, test), twice, strict=True))


@pytest.mark.spec("DLN-241")
def test_split_by_user_and_at_random():
    log = timed_log()
    train, test = split_ratings(log, "user", n_test=2, seed=1)
    counts = np.bincount(log.users[test])
    sizes = np.bincount(log.users)
    assert (counts == np.where(sizes > 2, 2, 0)[: len(counts)]).all()
    assert sorted([*train, *test]) == list(range(61))
    assert (split_ratings(log, "user", n_test=2, seed=2)[1] != test).any()
    assert not np.array_equal(split_ratings(log, "time", n_test=2)[1], test)
    train, test = split_ratings(log, "random", test=0.25, seed=3)
    assert (len(train), len(test)) == (46, 15)


def test_mistakes_of_splits():
    log = timed_log()
    with pytest.raises(UserValueError, match="mode must be one of"):
        split_ratings(log, "seq")
    with pytest.raises(UserValueError, match="needs times"):
        split_ratings(Ratings(log.users, log.items), "time")
    with pytest.raises(UserValueError, match="n_test must be"):
        split_ratings(log, "user", n_test=0)
    with pytest.raises(UserValueError, match="no user has more"):
        split_ratings(log, "user", n_test=60)


def test_a_sparse_matrix_is_recovered():
    matrix = csr_array(np.array([[0, 2.0], [1.0, 0]]))
    rows, columns = matrix.nonzero()
    log = Interactions.from_records(rows, columns, matrix.data)
    np.testing.assert_array_equal(log.to_sparse().toarray(), matrix.toarray())
