"""With no options at all every system beats its task's baseline on the task's built-in data.

What wins after the first `UPDATES` of its updates is not fitted to the end (docs/results.md has the ends): two hundred
networks still fit into a test run.
"""

import numpy as np
import pytest
from sklearn.decomposition import PCA

import gnomon
from gnomon.catalog import load_class
from gnomon.data.loading import load
from gnomon.evaluation.score import Score
from gnomon.tasks.base import task
from oracles.ways import NAMES

pytestmark = pytest.mark.slow
NARROW = ("deep-autoencoder",)
"""Codes of rows alone that are much narrower than these: a probe of them is no match for one of the rows themselves."""
UPDATES = 400


TEXTS = 500
"""About so many sentences or pairs are enough for a verdict; a recurrent network reads all of them for minutes."""


def example_data(name):
    """The task's example data, of texts a part; images or labeled texts where the system takes nothing else."""
    system = load_class(name)()
    first = task(system.tasks[0])
    data = load(
        "python-docstrings" if (first.name, system.domain.view) == ("classify", "documents") else first.example_data
    )
    if data.text is not None or data.pairs is not None:
        return data.take(np.arange(0, len(data), max(1, len(data) // TEXTS)), "some")
    return first.example_data if first.obstacle(data, system.domain, None) is None else "digits"


def against_the_baseline(name, **changes):
    """What the comparison says of the system, and the scores."""
    known = gnomon.make(name).get_params(deep=False)
    seed = {"random_state": 0} if "random_state" in known else {}
    (board,) = gnomon.compare([gnomon.make(name, **seed, **changes)], example_data(name))
    lines = {line.name: line for line in board.lines}
    return lines[name].against_baseline, {one: line.score.value for one, line in lines.items()}


def against_components(name, **changes):
    """The verdict on codes that are narrower than the rows: what they leave of held-out rows, and PCA of that width."""
    train, test = gnomon.data.split(gnomon.data.load("digits"), test=0.2, seed=0)
    X, T = train.view("unit"), test.view("unit")
    system = gnomon.make(name, random_state=0, **changes).fit(X)
    pca = PCA(system.transform(T[:1]).shape[1]).fit(X)
    found = system.evaluate(T)["squared_error"]
    linear = np.square(T - pca.inverse_transform(pca.transform(T))).mean(1)
    board = {"name": found.name, "unit": found.unit, "data_space": found.data_space, "higher_is_better": False}
    return found.against(Score.from_pointwise(linear, **board))


@pytest.mark.parametrize("name", NARROW)
def test_the_defaults_of_narrow_codes_beat_components(name):
    assert against_components(name) == "better"


@pytest.mark.filterwarnings("ignore::UserWarning")  # a fit that has not converged is judged by what it is worth
@pytest.mark.parametrize("name", [name for name in NAMES if name not in NARROW])
def test_the_defaults_beat_the_baseline(name):
    if "max_updates" in gnomon.make(name).get_params(deep=False):
        judged, _ = against_the_baseline(name, max_updates=UPDATES)
        if judged == "better":
            return
    judged, scores = against_the_baseline(name)
    assert judged == "better", scores
