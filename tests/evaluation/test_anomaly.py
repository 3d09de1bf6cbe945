"""The threshold for anomaly scores: its false alarms are what it says, exactly."""

import numpy as np
import pytest
from scipy import stats

from gnomon.errors import UserValueError
from gnomon.evaluation.anomaly import threshold


@pytest.mark.spec("REP-120")
@pytest.mark.parametrize(("n", "share"), [(19, 0.05), (20, 0.05), (99, 0.1), (7, 0.5)])
def test_false_alarms_by_rank(n, share):
    """Among n + 1 exchangeable scores each is equally often the new one: count those above their own threshold."""
    scores = np.random.default_rng(0).permutation(n + 1) * 1.0
    alarms = np.mean([scores[i] > threshold(np.delete(scores, i), share) for i in range(n + 1)])
    assert alarms <= share
    assert alarms > share - 1 / (n + 1) - 1e-12  # and not more careful than it must be


@pytest.mark.spec("REP-120")
def test_false_alarms_of_a_density():
    from gnomon.systems.mixtures.gaussian_mixture import GaussianMixture

    random = np.random.default_rng(0)
    draw = lambda n: random.normal(size=(n, 2)) @ [[1.0, 0.9], [0.0, 0.2]]  # noqa: E731
    mixture = GaussianMixture(n_components=3, random_state=0).fit(draw(400))
    limit = threshold(mixture.anomaly_score(draw(1999)), 0.05)
    alarms = int((mixture.anomaly_score(draw(20_000)) > limit).sum())
    # the share above a threshold of 1,999 scores is Beta(100, 1900): the count is beta-binomial
    law = stats.betabinom(20_000, 100, 1900)
    assert law.ppf(5e-5) <= alarms <= law.ppf(1 - 5e-5)  # false alarm 1e-4


def test_too_few_scores_and_shares_that_are_none():
    assert threshold(np.arange(19.0), 0.05) == 18
    with pytest.raises(UserValueError, match=r"scores must be at least 19 for a share of 0\.05, got 18"):
        threshold(np.arange(18.0), 0.05)
    with pytest.raises(UserValueError, match="share"):
        threshold(np.arange(18.0), 1.0)
    with pytest.raises(UserValueError, match="row 1"):
        threshold([0.0, np.nan], 0.5)
