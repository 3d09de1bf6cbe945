"""Ids of users and items: none becomes another one unseen; ratings that would overflow are refused."""

import numpy as np
import pytest

from gnomon.data.user_items import UserItems, ids_of
from gnomon.errors import UserError


def test_whole_numbers_keep_every_digit():
    assert ids_of([2**53, 2**53 + 1, -(2**63)], "users").tolist() == [2**53, 2**53 + 1, -(2**63)]
    assert ids_of(np.array([3, 2**63 - 1], np.uint64), "users").tolist() == [3, 2**63 - 1]
    assert ids_of([1, 2.0], "users").tolist() == [1, 2]


@pytest.mark.parametrize(
    "column",
    [
        [1.0, 2.0**53], np.array([1.0, -1e30]), np.array([1, 2**63], np.uint64), [1, 2**63], [1, 10**30],
        [1, 10**400, 2.0], [1, True],
        [1, 2.5], [1, "a"], [1, None], [np.nan, 1.0],
    ],
)  # fmt: skip
def test_what_would_become_another_id_is_refused(column):
    with pytest.raises(UserError, match="must"):
        ids_of(column, "users")


@pytest.mark.parametrize("rating", [1e308, -1e16])
def test_ratings_whose_squares_overflow_are_refused(rating):
    with pytest.raises(UserError, match=r"a rating must be at most 1e\+15.*row 1"):
        UserItems().check([(1, 2), (3, 4)], [5.0, rating])
