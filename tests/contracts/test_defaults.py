"""With no options at all every system beats its task's baseline on the task's built-in data.

Systems that learn by gradient get no more than `UPDATES` of the updates that they would make: what already wins then is
not worse after all of them (docs/results.md has the ends), and two hundred such systems still fit into a test run.
"""

import numpy as np
import pytest

import gnomon
from gnomon.catalog import load_class
from gnomon.data.loading import load
from gnomon.tasks.base import task
from oracles.ways import NAMES

pytestmark = pytest.mark.slow
UPDATES = 400


TEXTS = 500
"""About so many sentences or pairs are enough for a verdict; a recurrent network reads all of them for minutes."""


def example_data(name):
    """The task's example data, of texts a part; images where the system takes nothing else."""
    system = load_class(name)()
    first = task(system.tasks[0])
    data = load(first.example_data)
    if data.text is not None or data.pairs is not None:
        return data.take(np.arange(0, len(data), max(1, len(data) // TEXTS)), "some")
    return first.example_data if first.obstacle(data, system.domain, None) is None else "digits"


@pytest.mark.filterwarnings("ignore::UserWarning")  # a fit that has not converged is judged by what it is worth
@pytest.mark.parametrize("name", NAMES)
def test_the_defaults_beat_the_baseline(name):
    system = gnomon.make(name)
    if "max_updates" in system.get_params(deep=False):
        system.set_params(max_updates=UPDATES)
    (board,) = gnomon.compare([system], example_data(name))
    lines = {line.name: line for line in board.lines}
    assert lines[name].against_baseline == "better", {one: line.score.value for one, line in lines.items()}
