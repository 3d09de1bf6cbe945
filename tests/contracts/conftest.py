"""A budget for every contract test: a system whose tiny arguments are not tiny would make all later ones slow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch  # noqa: F401  (loading it must not be counted as part of the first test)

from oracles.computing import Computing

BUDGETS = {"test_contract": 6.0, "test_scikit_learns_checks": 15.0, "test_the_defaults_beat_the_baseline": 90.0}
"""Seconds of this process's processor time by test, without the compilation of kernels."""


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
