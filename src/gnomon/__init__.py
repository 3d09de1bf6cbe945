"""gnomon: infer hidden structure from data, with many kinds of models behind the same few verbs.

Names are loaded when they are first used: importing the package loads neither NumPy nor torch.

>>> import gnomon
>>> [entry.name for entry in gnomon.catalog()][:2]
['softmax-regression', 'ppca']
"""

from __future__ import annotations

import importlib
from typing import Any

from gnomon import catalog
from gnomon._version import __version__

_MODULES = ("data", "errors", "testing")
_FUNCTIONS = {
    "compare": "gnomon.tasks.compare",
    "context": "gnomon.training.context",
    "launch": "gnomon.training.launch",
    "load": "gnomon.restore",
    "make": "gnomon.catalog",
    "resume": "gnomon.restore",
}
_SYSTEMS = {entry.class_name: entry.where.partition(":")[0] for entry in catalog.ENTRIES}
_LAZY = {**_FUNCTIONS, **_SYSTEMS}

__all__ = ["__version__", "catalog", *_MODULES, *_LAZY]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"gnomon.{name}")
    if name in _LAZY:
        # not kept in this namespace: a submodule of the same name may come later
        return getattr(importlib.import_module(_LAZY[name]), name)
    from gnomon.errors import nearest

    close = nearest(name, list(__all__))
    raise AttributeError(f"module 'gnomon' has no attribute {name!r}" + (f"; did you mean {close[0]}?" if close else ""))


def __dir__() -> list[str]:
    return sorted(__all__)
