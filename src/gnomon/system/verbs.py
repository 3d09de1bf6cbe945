"""Verbs that a System has only where its model keeps the contract they need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.utils.metaestimators import available_if

from gnomon import contracts
from gnomon.catalog.verbs import VERBS, allows

__all__ = ["verb"]


def verb(function: Callable[..., Any]) -> Any:
    """The method, there where `gnomon.catalog.verbs.VERBS` allows it.

    Before the fit the model's class is asked, after it this very model.
    """
    need = VERBS[function.__name__]
    return available_if(lambda system: allows(need, lambda name: _has(system, name)))(function)


def _has(system: Any, name: str) -> bool:
    if name[0].islower():
        return bool(getattr(system, name))
    return contracts.supports(getattr(system, "model_", system.model_class), getattr(contracts, name))
