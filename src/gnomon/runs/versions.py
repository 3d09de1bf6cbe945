"""Versions of what a result depends on."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType

__all__ = ["changes", "versions"]

NAMES = ("gnomon", "torch", "numpy", "scipy", "scikit-learn", "numba", "jieba")


def versions() -> dict[str, str]:
    """Versions by name, read from the packages' metadata without importing them, and the number of processors."""
    return {"python": platform.python_version(), "processors": str(os.cpu_count()), **_of_packages()}


@cache
def _of_packages() -> Mapping[str, str]:
    """Those of packages, which stay as they are while the process runs."""
    found = {}
    for name in NAMES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return MappingProxyType(found)


def changes(recorded: Mapping[str, str]) -> str:
    """What is no longer as it was recorded, in words; empty where nothing changed.

    Examples
    --------
    >>> changes(versions())
    ''
    """
    now = versions()
    return ", ".join(
        f"{name} {old} -> {now.get(name, 'absent')}" for name, old in recorded.items() if now.get(name) != old
    )
