"""Marks for the JUnit report, and a guard over the global random states."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest

with contextlib.suppress(ImportError):
    import rich.style  # noqa: F401  (scikit-learn may import it, and it draws from `random` when it is imported)

# a runner in the background ignores Ctrl-C, and the processes that tests start would inherit that
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Write the rows that a test names into the JUnit report."""
    for item in items:
        rows = [row for mark in item.iter_markers("spec") for row in mark.args]
        if rows:
            item.user_properties.append(("spec", ",".join(rows)))


def random_states() -> dict[str, Any]:
    """The global states of Python, NumPy and torch, of those that have been imported."""
    states: dict[str, Any] = {"random": random.getstate()}
    if "numpy" in sys.modules:
        kind, keys, *rest = sys.modules["numpy"].random.get_state()
        states["numpy"] = (kind, keys.tobytes(), *rest)
    if "torch" in sys.modules:
        states["torch"] = sys.modules["torch"].get_rng_state().numpy().tobytes()
    return states


@pytest.fixture(autouse=True)
def processor_time(request: pytest.FixtureRequest) -> Iterator[None]:
    """Write the processor time of a test and of processes that it started into the JUnit report."""
    begun = sum(os.times()[:4])
    yield
    request.node.user_properties.append(("processor", f"{sum(os.times()[:4]) - begun:.2f}"))


@pytest.fixture(autouse=True)
def global_random_states_are_left_as_found(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test in which something drew from a global random state."""
    # hypothesis seeds the global states itself and restores them only after the test function's fixtures
    seeded_by_others = hasattr(getattr(request, "function", None), "hypothesis")
    before = random_states()
    yield
    after = random_states()
    changed = [name for name, state in before.items() if after[name] != state]
    if changed and not seeded_by_others:
        pytest.fail(f"global random state of {', '.join(changed)} was changed")
