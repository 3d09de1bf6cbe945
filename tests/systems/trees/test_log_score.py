"""The log score of shares of training rows: undefined where one of them is 0, never -inf."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.datasets import load_iris

import gnomon

X, Y = load_iris(return_X_y=True)
HELD = np.arange(len(X)) % 3 == 0


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("decision-tree", {}),
        ("random-forest", {"n_trees": 2}),
        ("extra-trees", {"n_trees": 2}),
        ("bagging", {"n_members": 2}),
        ("stacking", {"members": "decision-tree+softmax-regression", "final": "decision-tree"}),
    ],
)
def test_a_share_of_0_makes_the_log_score_undefined(name, options):
    """E7: `gnomon fit decision-tree iris` printed -inf."""
    flipped = np.where(np.random.default_rng(0).random(len(Y)) < 0.2, (Y + 1) % 3, Y)
    system = gnomon.make(name, random_state=0, **options).fit(X[~HELD], flipped[~HELD])
    zeros = (system.predict_proba(X[HELD])[np.arange(HELD.sum()), flipped[HELD]] == 0).sum()
    assert zeros > 0
    found = system.evaluate(X[HELD], flipped[HELD])["log_likelihood"]
    assert np.isnan(found.value) and found.note.startswith(f"undefined: {zeros} row") and "of 50" in found.note
    assert found.against(found) == "undecided"
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))["value"] is None
    y = np.where(np.isin(np.arange(len(Y)), np.flatnonzero(HELD)[:1]), 9, flipped)
    assert system.evaluate(X[HELD], y[HELD])["log_likelihood"].value == -np.inf  # a class unknown to the fit


def test_shares_that_are_not_0_have_a_log_score():
    stump = gnomon.make("decision-tree", max_depth=1, random_state=0).fit(X, Y % 2)
    found = stump.evaluate(X, Y % 2)["log_likelihood"]
    p = stump.predict_proba(X)[np.arange(len(X)), Y % 2]
    assert found.value == pytest.approx(np.log(p).mean()) and not found.note


def test_a_probability_of_0_that_a_model_states_is_minus_infinity():
    """Not a share of rows: a model that excludes what happens has the log score -inf."""

    class Sure(gnomon.SoftmaxRegression):
        def class_log_proba(self, rows):
            with np.errstate(divide="ignore"):
                return np.log(np.eye(3)[np.zeros(len(rows), int)])

    assert Sure(epochs=1, random_state=0).fit(X, Y).evaluate(X, Y)["log_likelihood"].value == -np.inf
