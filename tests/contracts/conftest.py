"""A budget for every contract test: a system whose tiny arguments are not tiny would make all later ones slow."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numba.core.event as events
import pytest
import torch  # noqa: F401  (loading it must not be counted as part of the first test)

BUDGETS = {"test_contract": 6.0, "test_scikit_learns_checks": 15.0, "test_the_defaults_beat_the_baseline": 90.0}
"""Seconds of this process's processor time by test, without the compilation of kernels."""


class CompilationTime(events.Listener):
    """Processor time that numba has spent compiling."""

    def __init__(self) -> None:
        self.seconds, self.depth, self.begun = 0.0, 0, 0.0

    def on_start(self, event: Any) -> None:
        """A compilation begins, maybe inside another one."""
        if not self.depth:
            self.begun = time.process_time()
        self.depth += 1

    def on_end(self, event: Any) -> None:
        """A compilation has ended."""
        self.depth -= 1
        if not self.depth:
            self.seconds += time.process_time() - self.begun


@pytest.fixture(autouse=True)
def within_the_budget(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a contract test that computes for too long, and say what to change."""
    budget = BUDGETS.get(request.node.originalname)
    if budget is None:
        yield
        return
    compilation = CompilationTime()
    begun = time.process_time()
    with events.install_listener("numba:compile", compilation):
        yield
    spent = time.process_time() - begun - compilation.seconds
    if spent > budget:
        remedy = "give the system smaller `tiny` arguments in the catalog (or cheaper defaults, if these are tested)"
        pytest.fail(f"took {spent:.1f} s of processor time of {budget:.0f}; {remedy}")
