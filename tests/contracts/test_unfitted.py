"""No verb of a system that has not been fitted fails by an attribute that a fit gives: it says that there was none."""

import inspect

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from gnomon.catalog import card, entries, load_class

ROWS = ("X", "H", "Z", "A", "B", "x", "start", "end")


@pytest.mark.parametrize("one", entries(), ids=lambda one: one.name)
def test_unfitted_systems_say_so(one):
    asked = 0
    for verb in card(one).verbs:
        system = load_class(one)(**one.tiny)
        if verb.startswith(("fit", "partial_fit", "usable_weights")) or not hasattr(system, verb):
            continue
        try:
            rows = system.domain.example(np.random.default_rng(0), 6)
        except NotImplementedError:
            rows = np.zeros((6, 3))
        needed = [
            p
            for p in inspect.signature(getattr(system, verb)).parameters.values()
            if p.default is p.empty and p.kind < 2
        ]
        try:
            getattr(system, verb)(*(rows if p.name in ROWS else 2 for p in needed))
        except NotFittedError:
            asked += 1
        except AttributeError as error:
            pytest.fail(f"{verb}: {error}")
        except Exception:  # a question that could not be asked of a fitted one either
            continue
    assert asked
