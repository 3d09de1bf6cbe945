"""What to do next to reach a goal: the four cases, and what chance could turn over."""

import math

import numpy as np
import pytest

import gnomon
from gnomon.errors import UserError
from gnomon.evaluation.diagnosis.goal import next_step
from gnomon.evaluation.score import Score


def share(right, n, first=0):
    return Score.from_pointwise(
        [1.0] * right + [0.0] * (n - right), name="accuracy", unit="fraction", rows=range(first, first + n)
    )


def errors(mean, n, first=0):
    values = mean + np.linspace(-1, 1, n)
    return Score.from_pointwise(values, name="squared_error", higher_is_better=False, rows=range(first, first + n))


@pytest.mark.spec("PRA-065")
@pytest.mark.parametrize(
    ("train", "held", "words", "remedy", "level"),
    [
        (0.80, 0.78, "training rows miss the goal", "a larger model, and a learning rate", "notice"),
        (0.99, 0.80, "held-out rows miss the goal of 0.9, training rows reach it", "more rows", "notice"),
        (0.97, 0.96, "the goal of 0.9 is reached", "", "ok"),
        (0.80, 0.97, "held-out rows reach the goal of 0.9, training rows miss it", "look at how rows", "notice"),
        (0.905, 0.80, "undecided", "more held-out rows", "notice"), (0.97, 0.905, "undecided", "more held", "notice"),
    ],
)  # fmt: skip
def test_the_four_cases_and_noise(train, held, words, remedy, level):
    found = next_step(share(round(train * 1000), 1000), share(round(held * 1000), 1000, 1000), 0.9)
    assert words in found.what and found.remedy.startswith(remedy) and found.level == level


@pytest.mark.spec("PRA-065")
def test_a_gap_that_chance_could_make_is_undecided():
    """95 of 100 against 88 of 100: the two-proportion interval, -0.7 to 14.7 points, holds 0."""
    low, high = 0.07 - 1.96 * 0.0390, 0.07 + 1.96 * 0.0390
    assert low < 0 < high
    found = next_step(share(9500, 10_000), share(83, 100, 10_000), 0.91)
    assert "training rows reach it" in found.what
    assert "undecided" in next_step(share(95, 100), share(88, 100, 100), 0.9).what


@pytest.mark.spec("PRA-065")
def test_scores_that_fall_are_the_other_way_round():
    for train, held, words in ((9, 9.1, "training rows miss"), (2, 9, "held-out rows miss"), (2, 2.1, "is reached")):
        assert words in next_step(errors(train, 400), errors(held, 400, 400), 5.0).what
    assert "undecided" in next_step(Score(0.9, math.nan, name="x"), Score(0.9, math.nan, name="x"), 0.5).what


@pytest.mark.spec("PRA-065")
def test_a_system_at_the_goal_is_seldom_called_one_that_misses_it():
    """Accuracy 0.9 and the goal 0.9: an interval of 95 % lies below it in about 2.5 % of 2,000 draws."""
    random = np.random.default_rng(0)
    counts = random.binomial(400, 0.9, size=2000)
    missed = np.mean(["training rows miss" in next_step(share(k, 400), share(k, 400, 400), 0.9).what for k in counts])
    assert missed < 0.045


def test_goals_of_other_kinds_are_refused_and_the_command_tells(tmp_path, capsys):
    from gnomon.cli.main import run

    for goal in (True, "high", math.nan):
        with pytest.raises(UserError):
            next_step(share(9, 10), share(9, 10, 10), goal)
    assert run(["fit", "decision-tree", "iris", "--out", str(tmp_path / "r"), "--json"]) == 0
    assert run(["diagnose", str(tmp_path / "r"), "--goal", "0.5"]) == 0
    assert "the goal of 0.5 is reached" in capsys.readouterr().out
    X, y = np.arange(40.0).reshape(20, 2), np.arange(20) % 2
    fitted = gnomon.DecisionTree(random_state=0).fit(X, y)
    (said,) = gnomon.diagnose(fitted, goal=0.5).of("goal")
    assert said.what == "whether the goal of 0.5 is reached cannot be said" and "no rows are known" in said.evidence
    chains = gnomon.sample_chain(lambda x: -0.5 * (x * x).sum(-1), start=1, draws=40, random_state=0)
    with pytest.raises(UserError, match="goal must be left out"):
        gnomon.diagnose(chains, goal=0.5)
    assert gnomon.diagnose(tmp_path / "r", goal=0.5).of("goal") and not gnomon.diagnose(tmp_path / "r").of("goal")
