"""Recommenders fit the same on one process and on two, to the bit."""

import numpy as np

from gnomon.systems.recommend.matrix_factorization import ALS, SGD, SVD, MatrixFactorization
from gnomon.systems.recommend.pmf import MAP, PMF, Gibbs
from gnomon.testing import arrays_of
from gnomon.training.launch import launch

SYSTEMS = [
    *(
        MatrixFactorization(n_factors=2, learner=one, random_state=0)
        for one in (SGD(epochs=3), ALS(iterations=2), SVD())
    ),
    *(PMF(n_factors=2, inference=one, random_state=0) for one in (MAP(iterations=2), Gibbs(draws=3, burn_in=1))),
]


def fits():
    """Arrays and histories, in this process or this group."""
    random = np.random.default_rng(14)
    X = np.argwhere(random.random((7, 6)) < 0.7)
    y = random.normal(3, 1, len(X))
    return [(arrays_of(system.fit(X, y)), system.history_) for system in SYSTEMS]


def test_two_processes_fit_what_one_fits():
    for (one, record), (two, other) in zip(fits(), launch(fits, devices=2), strict=True):
        assert one.keys() == two.keys()
        assert record == other
        for name in one:
            np.testing.assert_array_equal(one[name], two[name])
