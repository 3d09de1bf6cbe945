"""Scores of models as exact values, estimates and bounds: what may be concluded of them, and what a table says."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import gnomon
from gnomon.errors import UserValueError
from gnomon.evaluation.likelihood import log_likelihood, log_likelihood_bound
from gnomon.evaluation.score import Score
from gnomon.systems.energy.dbm import DBMModel

LOWER, UPPER = [[1.0, -1.0], [0.5, 2.0]], [[0.7, -0.5], [0.2, 1.0]]
ROWS = np.array(list(itertools.product([0.0, 1.0], repeat=2)))
BOUNDS = (-2.772829, -0.799499, -2.658663, -0.945829)
EXACT = (-2.723386, -0.773165, -2.611881, -0.917788)
"""Of the toy with two hidden layers without biases, by row."""


def toy(upper=UPPER):
    model = DBMModel(2, (2, 2), torch.float64)
    with torch.no_grad():
        model.visible_hidden_1_weight.copy_(torch.tensor(LOWER))
        model.hidden_1_hidden_2_weight.copy_(torch.tensor(upper))
    return model


def exact_log_z(model):
    return Score(model.log_partition(), kind="exact", unit="nats", name="log_partition")


@pytest.mark.spec("GEN-138")
@pytest.mark.parametrize("row", range(4))
def test_a_bound_of_the_same_model_is_never_called_worse(row):
    """The model loses 0.03 to 0.05 nats to itself, and no verdict is drawn from that."""
    model, x = toy(), ROWS[[row] * 3]
    bound = log_likelihood_bound(model, x, exact_log_z(model))
    exact = log_likelihood(model, x, exact_log_z(model))
    assert (bound.kind, exact.kind) == ("lower bound", "exact")
    assert bound.value == pytest.approx(BOUNDS[row], abs=2e-6) and exact.value == pytest.approx(EXACT[row], abs=2e-6)
    assert bound.against(exact) == exact.against(bound) == "undecided"


@pytest.mark.spec("GEN-138")
def test_a_bound_that_passes_an_exact_value_decides():
    better, worse = toy(), toy([[0.0, 0.0], [0.0, 0.0]])
    x = ROWS[[1] * 3]
    bound, exact = (log_likelihood_bound(better, x, exact_log_z(better)), log_likelihood(worse, x, exact_log_z(worse)))
    assert bound.value > exact.value
    assert bound.against(exact) == "better" and exact.against(bound) == "worse"
    estimated = Score(exact.value - 1.0, kind="estimate", error=0.1, unit=exact.unit, name=exact.name)
    assert bound.against(estimated) == "better"
    vague = Score(exact.value, kind="estimate", error=1.0, unit=exact.unit, name=exact.name)
    assert bound.against(vague) == vague.against(bound) == "undecided"


VERDICTS = {
    ("exact", "exact"): "better", ("exact", "estimate"): "better", ("exact", "upper bound"): "better",
    ("exact", "lower bound"): "undecided", ("estimate", "exact"): "better", ("estimate", "estimate"): "better",
    ("estimate", "upper bound"): "better", ("estimate", "lower bound"): "undecided",
    ("lower bound", "exact"): "better", ("lower bound", "estimate"): "better",
    ("lower bound", "upper bound"): "better", ("lower bound", "lower bound"): "undecided",
    ("upper bound", "exact"): "undecided", ("upper bound", "estimate"): "undecided",
    ("upper bound", "upper bound"): "undecided", ("upper bound", "lower bound"): "undecided",
}  # fmt: skip
"""Of a score of the first kind that is higher by far than one of the second."""


@pytest.mark.spec("GEN-138")
@pytest.mark.parametrize("kinds", VERDICTS)
def test_the_table_of_kinds(kinds):
    high, low = (
        Score(value, 0.01, kind=kind, error=0.01 if kind == "estimate" else 0.0)
        for value, kind in zip((2.0, 1.0), kinds, strict=True)
    )
    assert high.against(low) == VERDICTS[kinds]
    assert low.against(high) == {"better": "worse"}.get(VERDICTS[kinds], "undecided")


@pytest.mark.spec("GEN-138")
@pytest.mark.parametrize("field", [{"unit": "bits"}, {"unit": "nats per column"}, {"data_space": "pmf on {0,1}^3"}])
def test_other_units_are_not_compared(field):
    facts = {"unit": "nats", "data_space": "pmf on {0,1}^2"}
    with pytest.raises(UserValueError, match=next(iter(field))):
        Score(1.0, **facts).against(Score(1.0, **(facts | field)))


@pytest.mark.spec("GEN-138")
def test_leaderboards_name_the_kind_and_draw_no_false_verdict():
    """A machine whose likelihood is exact beside one of which only a bound is known."""
    random = np.random.default_rng(0)
    X = np.repeat(random.integers(0, 2, (120, 1)), 6, axis=1) ^ (random.random((120, 6)) < 0.1)
    data = gnomon.data.Dataset("bits", X.astype(float), columns=tuple("abcdef"))
    deep = gnomon.DBM(hidden=(14, 13), pretrain_epochs=1, epochs=1, random_state=0)
    with gnomon.context(verbose=False):
        [board] = gnomon.compare([gnomon.RBM(n_hidden=3, epochs=2, random_state=0), deep], data, task="density")
    kinds = {line.title.split(":")[0]: line.score.kind for line in board.lines}
    assert kinds == {"rbm": "exact", "dbm": "lower bound", "independent Bernoulli": "exact"}
    of_deep = next(line for line in str(board).splitlines() if line.startswith("dbm"))
    assert "lower bound" in of_deep
