"""Cosines: values by hand, parity, the rule for zero vectors, neighbours."""

import math

import numpy as np
import pytest
from scipy.spatial import distance
from sklearn.metrics import pairwise

from gnomon.errors import UserError
from gnomon.evaluation.similarity import angle, cosine_distance, cosine_similarity, neighbors

E = np.array([[0.0, 2.0], [3.0, 3.0], [0.0, 0.0]])
Q = np.array([0.0, 1.0])


@pytest.mark.spec("DLN-36")
def test_forty_five_degrees():
    assert cosine_similarity([1, 0], [1, 1]) == pytest.approx(math.sqrt(0.5), abs=1e-15)
    assert cosine_distance([1, 0], [1, 1]) == pytest.approx(1 - math.sqrt(0.5), abs=1e-15)
    assert angle([1, 0], [1, 1]) == pytest.approx(math.pi / 4, abs=1e-15)
    assert (angle([1, 0], [-2, 0]), angle([1, 0], [0, 3])) == (math.pi, math.pi / 2)


@pytest.mark.spec("DLN-36")
def test_parity():
    random = np.random.default_rng(0)
    X, Y = random.normal(size=(6, 4)), random.normal(size=(5, 4))
    X[2] = 0
    assert cosine_similarity(X, Y) == pytest.approx(pairwise.cosine_similarity(X, Y), abs=1e-14)
    assert cosine_similarity(X) == pytest.approx(pairwise.cosine_similarity(X), abs=1e-14)
    assert cosine_distance(X[0], Y[0]) == pytest.approx(distance.cosine(X[0], Y[0]), abs=1e-14)
    assert cosine_similarity(X, Y[0]).shape == (6,) and cosine_similarity(X[0], Y).shape == (5,)
    parallel = X[:2] * [[3.0], [1e-3]]
    assert np.abs(cosine_similarity(X[:2], parallel)).max() <= 1.0  # arccos needs it


@pytest.mark.spec("DLN-36")
@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1.0, 1e160, 1e300])
def test_length_makes_no_difference(scale):
    v = np.array([3.0, -4.0, 1.0])
    assert cosine_similarity(v * scale, [1, 1, 1]) == pytest.approx(cosine_similarity(v, [1, 1, 1]), abs=1e-15)


@pytest.mark.spec("DLN-36")
def test_zero_vectors_follow_the_rule_asked_for():
    assert cosine_similarity(E, Q).tolist() == pytest.approx([1.0, math.sqrt(0.5), 0.0])
    assert cosine_similarity(E)[2].tolist() == [0.0, 0.0, 0.0]
    assert cosine_distance(E, Q)[2] == 1.0
    assert np.isnan(cosine_similarity(E, Q, zero="nan")).tolist() == [False, False, True]
    assert math.isnan(angle([0, 0], [1, 0]))


@pytest.mark.spec("DLN-36")
@pytest.mark.parametrize("call", [cosine_similarity, cosine_distance, angle])
def test_zero_vectors_are_refused_on_either_side(call):
    """Of Y too, as a row of a table and as the one vector; each option holds in all three functions."""
    for x, y, place in ((E, Q, "X, row 2"), (Q, E, "Y, row 2"), (E[:2], 0 * Q, "Y, row 0"), (E, None, "X, row 2")):
        with pytest.raises(UserError, match=rf"zero vector has no direction \({place}\)"):
            call(x, y, zero="raise")
        assert np.isnan(call(x, y, zero="nan")).any()
    assert call(E[:2], Q, zero="raise").tolist() == call(E[:2], Q).tolist()
    nothing = {cosine_similarity: 0.0, cosine_distance: 1.0, angle: math.pi / 2}[call]
    assert call(Q, 0 * Q, zero="zero") == nothing
    assert call(E, zero="zero")[2].tolist() == [nothing] * 3


@pytest.mark.spec("DLN-36")
def test_rounding_carries_no_cosine_beyond_1():
    """Of 500 vectors a good part has a product above 1 with its multiples, of which arccos would be NaN."""
    X = np.random.default_rng(0).normal(size=(500, 5))
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    assert ((unit * unit).sum(axis=1) > 1).sum() > 50  # the case comes up
    for factor, cosine, away in ((1.0, 1.0, 0.0), (3.0, 1.0, 0.0), (-7.0, -1.0, math.pi)):
        inside = np.diag(cosine_similarity(X, factor * X))
        assert np.abs(inside).max() <= 1.0 and inside == pytest.approx(cosine, abs=1e-15)
        assert np.diag(angle(X, factor * X)) == pytest.approx(away, abs=5e-8)
        assert ((distances := np.diag(cosine_distance(X, factor * X))) >= 0).all() and (distances <= 2).all()


@pytest.mark.spec("DLN-36")
def test_a_zero_vector_is_nobodys_neighbour():
    rows, similarity = neighbors(Q, E, 2)
    assert rows.tolist() == [0, 1] and similarity == pytest.approx([1.0, 0.7071068], abs=5e-8)
    assert neighbors(Q, E, 10)[0].tolist() == [0, 1]
    assert [len(part) for part in neighbors(np.zeros(2), E, 10)] == [0, 0]
    assert neighbors(Q, E, 0)[0].tolist() == []
    assert neighbors(Q, np.zeros((0, 2)), 3)[0].tolist() == []
    twice = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    assert neighbors(twice[0], twice, 2, exclude=[0])[0].tolist() == [2, 1]
    worst = neighbors([-1.0, 0.0], [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    assert worst[0].tolist() == [1, 2, 0] and worst[1].tolist() == [1, 0, -1]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: cosine_similarity([1, 2], [1, 2, 3]), r"X and Y must have vectors of one length, got 2 and 3 \(Y\)"),
        (lambda: cosine_similarity([[1, 2], [math.nan, 1]]), "row 1"),
        (lambda: cosine_similarity([[math.inf, 2]]), "row 0"),
        (lambda: cosine_similarity([]), "shape"),
        (lambda: cosine_similarity([1], [1], zero="one"), "zero must be 'zero', 'nan' or 'raise', got 'one'"),
        (lambda: neighbors(Q, E, -1), "k must be at least 0, got -1"),
        (lambda: neighbors(Q, E, exclude=[3]), "name rows"),
        (lambda: neighbors(Q, Q), "as rows"),
    ],
)
def test_what_has_no_cosine(call, words):
    with pytest.raises(UserError, match=words):
        call()
