"""One page of HTML about runs: what was fitted on what, how good it is, and pictures with a sentence each.

The module can be called: ``gnomon.report(run)`` is `gnomon.report.verb.report` (see docs/decisions/0001).
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *given: Any, **options: Any) -> Any:
        """Write the page; see `gnomon.report.verb.report`."""
        from gnomon.report.verb import report

        return report(*given, **options)


sys.modules[__name__].__class__ = _Callable
