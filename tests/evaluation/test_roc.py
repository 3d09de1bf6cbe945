"""The ROC curve is scikit-learn's, also where scores are tied."""

import numpy as np
import pytest
from sklearn.metrics import auc
from sklearn.metrics import roc_curve as peer

from gnomon.errors import UserError
from gnomon.evaluation.roc import roc_auc, roc_curve


@pytest.mark.parametrize("levels", [1, 2, 5, 1000])
def test_the_curve_is_scikit_learns_with_ties(levels):
    random = np.random.default_rng(levels)
    y = random.integers(0, 2, 300)
    score = random.integers(0, levels, 300) + (y if levels > 2 else 0)  # of one level all rows are tied
    false, true = roc_curve(y, score)
    expected = peer(y, score, drop_intermediate=False)
    np.testing.assert_allclose(false, expected[0], atol=1e-15)
    np.testing.assert_allclose(true, expected[1], atol=1e-15)
    assert len(false) == len(np.unique(score)) + 1
    assert auc(false, true) == pytest.approx(roc_auc(y, score).value, abs=1e-12)


def test_labels_by_name_and_what_has_no_curve():
    y, score = np.array(["a", "b", "b", "a"]), np.array([0.1, 0.9, 0.1, 0.3])
    false, true = roc_curve(y, score, positive="b")
    expected = peer(y, score, pos_label="b", drop_intermediate=False)
    assert false.tolist() == expected[0].tolist() and true.tolist() == expected[1].tolist()
    with pytest.raises(UserError, match="both classes"):
        roc_curve([1, 1], [0.2, 0.3])
