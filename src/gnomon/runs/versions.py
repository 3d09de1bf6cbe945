"""Versions of what a result depends on."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

__all__ = ["versions"]

NAMES = ("gnomon", "torch", "numpy", "scipy", "scikit-learn", "numba")


def versions() -> dict[str, str]:
    """Versions by name, read from the installed packages' metadata without importing them."""
    found = {"python": platform.python_version()}
    for name in NAMES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
