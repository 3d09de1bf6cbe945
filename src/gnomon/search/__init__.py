"""Search for hyper-parameters: spaces, strategies, studies on a shared store.

The module can be called: ``gnomon.search(system, data)`` is `gnomon.search.verb.search` (see docs/decisions/0001).
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *given: Any, **options: Any) -> Any:
        """Search; see `gnomon.search.verb.search`."""
        from gnomon.search.verb import search

        return search(*given, **options)


sys.modules[__name__].__class__ = _Callable
