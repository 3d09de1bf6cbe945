"""A budget for every contract test: a system whose tiny arguments are not tiny would make all later ones slow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch  # noqa: F401  (loading it must not be counted as part of the first test)

from gnomon.catalog import entries
from oracles.computing import Computing

BUDGETS = {"test_contract": 6.0, "test_scikit_learns_checks": 15.0, "test_the_defaults_beat_the_baseline": 90.0}
"""Seconds of this process's processor time by test, without the compilation of kernels."""

FIRST = set({one.where.split(".")[2]: one.name for one in reversed(list(entries()))}.values())
"""The first system of every family."""
LONG = (
    "test_scikit_learns_checks",
    "test_another_value_reaches_what_it_speaks_of",
    "test_a_field_that_changes_between_chunks_is_taken_or_refused",
)
"""Contracts of many fits: `make test` holds the first system of every family to them, `make test-all` every system."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what `make test` leaves to `make test-all`."""
    for item in items:
        long = isinstance(item, pytest.Function) and item.originalname in LONG and hasattr(item, "callspec")
        if long and item.callspec.params["name"] not in FIRST:
            item.add_marker("slow")


@pytest.fixture(autouse=True)
def within_the_budget(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a contract test that computes for too long, and say what to change."""
    budget = BUDGETS.get(request.node.originalname)
    if budget is None:
        yield
        return
    with Computing() as computing:
        yield
    spent = computing.seconds
    if spent > budget:
        remedy = "give the system smaller `tiny` arguments in the catalog (or cheaper defaults, if these are tested)"
        pytest.fail(f"took {spent:.1f} s of processor time of {budget:.0f}; {remedy}")
