"""Placements of relevant items: by hand, by brute force with ties, and against scikit-learn user by user."""

import math

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score

from gnomon.errors import UserError, UserValueError
from gnomon.evaluation.recommendation import Placements, rmse


def lists(mask):
    return csr_array(mask.astype(np.int8))


def random_case(seed, levels=None, users=9, items=12):
    """Scores, relevant items, seen items; with few levels there are many ties."""
    random = np.random.default_rng(seed)
    scores = random.normal(size=(users, items)) if levels is None else random.integers(levels, size=(users, items)) / 2
    kind = random.choice(3, p=[0.5, 0.3, 0.2], size=(users, items))
    kind[:, 0], kind[:, 1] = 1, 0  # every user has something to find and something else
    return scores, kind == 1, kind == 2


def brute_ranks(scores, relevant, seen, ties):
    """By sorting: irrelevant items of an equal score first (worst) or last (best)."""
    found = []
    for s, r, gone in zip(scores, relevant, seen, strict=True):
        candidates = np.flatnonzero(~gone)
        key = [(-s[j], r[j] if ties == "worst" else not r[j]) for j in candidates]
        order = [candidates[i] for i in sorted(range(len(candidates)), key=lambda i: key[i])]
        found.append([place for place, j in enumerate(order, 1) if r[j]])
    return found


def users_with_ranks(*ranks, n=20):
    """One relevant item per user at these ranks."""
    scores = np.tile(-np.arange(n, dtype=float), (len(ranks), 1))
    relevant = np.zeros(scores.shape, bool)
    relevant[np.arange(len(ranks)), np.array(ranks) - 1] = True
    return scores, lists(relevant)


@pytest.mark.spec("DLN-247")
def test_hit_rate():
    placed = Placements().update(*users_with_ranks(1, 3, 11))
    assert placed.ranks().tolist() == [1, 3, 11]
    score = placed.hit_rate(10)
    assert score.value == pytest.approx(2 / 3)
    assert score.stderr == pytest.approx(np.std([1, 1, 0], ddof=1) / math.sqrt(3))
    # items of the training part are no candidates: with the two before it seen, rank 3 is rank 1
    scores, relevant = users_with_ranks(1, 3, 11)
    seen = np.zeros(scores.shape, bool)
    seen[1, :2] = seen[2, 1:3] = True
    assert Placements().update(scores, relevant, lists(seen)).ranks().tolist() == [1, 1, 9]
    # ties at the cut: the held-out item is level with two others at ranks 1 to 3
    level = Placements().update([[1.0, 1.0, 1.0, 0.0]], csr_array([[0, 1, 0, 0]]))
    assert [level.hit_rate(k).value for k in (1, 2, 3)] == [0, 0, 1]
    assert [level.hit_rate(k, ties="best").value for k in (1, 2, 3)] == [1, 1, 1]
    # a random ranker finds l of n: 4000 users, five standard deviations (false alarm below 1e-6)
    random, n, cut = np.random.default_rng(0), 40, 7
    relevant = np.zeros((4000, n), bool)
    relevant[np.arange(4000), random.integers(n, size=4000)] = True
    share = Placements().update(random.normal(size=(4000, n)), lists(relevant)).hit_rate(cut).value
    assert abs(share - cut / n) < 5 * math.sqrt(cut / n * (1 - cut / n) / 4000)


@pytest.mark.spec("DLN-247", "DLN-248")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("levels", [None, 2, 4])
def test_ranks_are_those_of_sorting(seed, levels):
    scores, relevant, seen = random_case(seed, levels)
    placed = Placements()
    for rows in (slice(0, 4), slice(4, 9)):  # piece by piece
        placed.update(scores[rows], lists(relevant[rows]), lists(seen[rows]))
    for ties in ("worst", "best"):
        wanted = brute_ranks(scores, relevant, seen, ties)
        ranks = placed.ranks(ties)
        for user, places in enumerate(wanted):
            assert sorted(ranks[placed.users == user].tolist()) == places
        for k in (1, 3, 30):
            hits = [sum(place <= k for place in places) for places in wanted]
            assert placed.hit_rate(k, ties=ties).value == pytest.approx(np.mean([h > 0 for h in hits]))
            assert placed.precision(k, ties=ties).value == pytest.approx(np.mean(hits) / k)
            shares = [h / len(places) for h, places in zip(hits, wanted, strict=True)]
            assert placed.recall(k, ties=ties).value == pytest.approx(np.mean(shares))
            cut = [
                sum(t / place for t, place in enumerate(places, 1) if place <= k) / min(k, len(places))
                for places in wanted
            ]
            assert placed.average_precision(k, ties=ties).value == pytest.approx(np.mean(cut))
            gains = [sum(1 / math.log2(1 + place) for place in places if place <= k) for places in wanted]
            best = [sum(1 / math.log2(1 + t) for t in range(1, min(k, len(places)) + 1)) for places in wanted]
            assert placed.ndcg(k, ties=ties).value == pytest.approx(np.mean(np.divide(gains, best)))
        first = np.mean([1 / places[0] for places in wanted])
        assert placed.reciprocal_rank(ties=ties).value == pytest.approx(first)


@pytest.mark.spec("DLN-248")
@pytest.mark.parametrize("levels", [None, 2, 4])
def test_auc_is_scikit_learns_of_each_user(levels):
    scores, relevant, seen = random_case(7, levels, users=12)
    one = np.zeros_like(relevant)
    one[:, 0] = True  # one positive per user: the row's definition
    for positive in (one, relevant):
        gone = seen & ~positive
        each = [roc_auc_score(p[~g], s[~g]) for s, p, g in zip(scores, positive, gone, strict=True)]
        score = Placements().update(scores, lists(positive), lists(gone)).auc()
        assert score.value == pytest.approx(np.mean(each), abs=1e-12)
        assert score.stderr == pytest.approx(np.std(each, ddof=1) / math.sqrt(12), abs=1e-12)
        # Mann-Whitney: pairs won, a tie is half a win
        won = [
            np.mean([(a > b) + 0.5 * (a == b) for a in s[p] for b in s[~p & ~g]])
            for s, p, g in zip(scores, positive, gone, strict=True)
        ]
        assert score.value == pytest.approx(np.mean(won), abs=1e-12)


@pytest.mark.spec("DLN-248")
def test_auc_of_chance_and_users_without_negatives():
    random = np.random.default_rng(1)
    relevant = np.zeros((3000, 20), bool)
    relevant[:, 3] = True
    score = Placements().update(random.normal(size=(3000, 20)), lists(relevant)).auc()
    # uniform ranks of one positive among 20: variance close to 1 / 12; five standard deviations
    assert abs(score.value - 0.5) < 5 * math.sqrt(1 / 12 / 3000) * 1.1
    # the second user has met everything else, the third has nothing to find
    seen, positive = np.zeros((3, 4), bool), np.zeros((3, 4), bool)
    positive[:2, 0] = True
    seen[1, 1:] = True
    placed = Placements().update(np.tile([4.0, 3.0, 2.0, 1.0], (3, 1)), lists(positive), lists(seen))
    assert placed.auc().value == 1.0
    assert placed.auc().n == 1
    assert placed.auc().note == "2 of 3 users have nothing to rank"
    assert placed.hit_rate(1).note == "1 of 3 users have nothing to rank"


def test_parity_without_ties():
    scores, relevant, _ = random_case(3)
    placed = Placements().update(scores, lists(relevant))
    precision = [average_precision_score(r, s) for r, s in zip(relevant, scores, strict=True)]
    assert placed.average_precision().value == pytest.approx(np.mean(precision), abs=1e-12)
    for k in (None, 3):
        assert placed.ndcg(k).value == pytest.approx(ndcg_score(relevant, scores, k=k), abs=1e-12)


def test_rmse():
    squared = np.array([1.0, 4.0, 4.0, 0.25])
    score = rmse(squared)
    assert score.value == pytest.approx(math.sqrt(squared.mean()))
    assert score.stderr == pytest.approx(squared.std(ddof=1) / 2 / (2 * score.value))
    assert not score.higher_is_better
    assert rmse(squared + 1).against(score) == "worse"  # paired: the difference is the same everywhere
    assert rmse(np.zeros(3)).value == 0.0


@pytest.mark.parametrize(
    ("scores", "relevant", "seen", "said"),
    [
        ([1.0, 2.0], csr_array([[1, 0]]), None, "users by items"),
        ([[1.0, np.nan]], csr_array([[1, 0]]), None, "row 0, column 1"),
        ([[1.0, 2.0]], csr_array([[1, 0], [1, 0]]), None, "give 1 lists"),
        ([[1.0, 2.0]], ([0, 1], [2]), None, "columns below 2, got 2"),
        ([[1.0, 2.0]], csr_array([[1, 0]]), csr_array([[1, 1]]), "seen, got item 0"),
    ],
)
def test_mistakes(scores, relevant, seen, said):
    with pytest.raises(UserValueError, match=said):
        Placements().update(scores, relevant, seen)


def test_mistakes_of_cuts():
    placed = Placements().update(*users_with_ranks(1, 2))
    for k in (0, 1.5, True):
        with pytest.raises(UserError, match="k must be"):
            placed.hit_rate(k)
    with pytest.raises(UserValueError, match="ties must be"):
        placed.ranks("both")
    with pytest.raises(UserValueError, match="needs a user"):
        Placements().update([[1.0]], csr_array([[0]])).hit_rate(1)
