"""Meters on parts of the same rows: for tests that add them over processes."""

import numpy as np

from gnomon.evaluation.calibration import Reliability
from gnomon.evaluation.confusion import ConfusionMatrix
from gnomon.evaluation.ranking import Ranking
from gnomon.training.group import current


def rows():
    """Labels, predictions, scores in steps of 1/16 (many ties) and weights of 90 rows."""
    random = np.random.default_rng(3)
    y = random.integers(0, 3, size=90)
    predicted = np.where(random.random(90) < 0.6, y, random.integers(0, 3, size=90))
    score = random.integers(0, 17, size=90) / 16
    return y, predicted, score, random.integers(1, 5, size=90) / 4


def meters(part):
    """The three meters fed with some of the rows."""
    y, predicted, score, weight = (column[part] for column in rows())
    return (
        ConfusionMatrix([0, 1, 2]).update(y, predicted, weight),
        Ranking(score, y == predicted, weight),
        Reliability(5).update(score, y == predicted, weight),
    )


def arrays(made):
    """What the meters hold."""
    matrix, ranking, reliability = made
    counted = (matrix.weight, matrix.squares, matrix.n, ranking.levels, ranking.sums, ranking.n)
    return (*counted, reliability.sums, reliability.n)


def together():
    """Every process its own uneven part, then the whole."""
    group = current()
    part = slice(0, 35) if group.rank == 0 else slice(35, 90)
    return arrays([meter.across(group) for meter in meters(part)])
