"""gnomon: infer hidden structure from data, with many kinds of models behind the same few verbs.

Names are loaded when they are first used: importing the package loads neither NumPy nor torch.

>>> import gnomon
>>> [entry.name for entry in gnomon.catalog()][:2]
['linear-regression', 'bayesian-regression']
"""

from __future__ import annotations

from typing import Any

from gnomon import catalog
from gnomon._version import __version__
from gnomon.recipes.imports import load as load_place

_WHERE = {
    "LayeredMachine": "gnomon.systems.energy.layered:LayeredMachine",
    "Score": "gnomon.evaluation.score:Score",
    "SubwordTokenizer": "gnomon.data.tokenizers:SubwordTokenizer",
    "TTA": "gnomon.system.versions:TTA",
    "FineTuning": "gnomon.runs.initial:FineTuning",
    "compare": "gnomon.tasks.compare:compare",
    "conjugate": "gnomon.distributions.conjugate",
    "context": "gnomon.training.context:context",
    "data": "gnomon.data",
    "diagnose": "gnomon.tasks.diagnose:diagnose",
    "errors": "gnomon.errors",
    "evaluation": "gnomon.evaluation",
    "generative": "gnomon.tasks.generative:generative",
    "launch": "gnomon.training.launch:launch",
    "layer_costs": "gnomon.tasks.layer_costs:layer_costs",
    "load": "gnomon.system.saving:load",
    "load_draws": "gnomon.tasks.chains:load_draws",
    "log_partition": "gnomon.evaluation.partition:log_partition",
    "make": "gnomon.catalog:make",
    "fit": "gnomon.tasks.fitting:fit",
    "fit_transition_model": "gnomon.inference.dreaming.learning:fit_transition_model",
    "fit_posterior": "gnomon.tasks.posterior:fit_posterior",
    "report": "gnomon.report.verb:report",
    "resume": "gnomon.tasks.fitting:resume",
    "search": "gnomon.search.verb:search",
    "sample_chain": "gnomon.tasks.chains:sample_chain",
    "suggest_baseline": "gnomon.tasks.suggest:suggest_baseline",
    "testing": "gnomon.testing",
} | {entry.class_name: entry.where for entry in catalog.ENTRIES}
"""Public names: a module, or module:name. `__init__.pyi` repeats them for type checkers (tools/write_stub.py)."""

__all__ = ["__version__", "catalog", *_WHERE]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return load_place(_WHERE[name])
    if name.startswith("__"):  # asked for by programs, often
        raise AttributeError(f"module 'gnomon' has no attribute {name!r}")
    from gnomon.errors import nearest

    close = nearest(name, list(_WHERE))
    remedy = f"; did you mean {close[0]}?" if close else ""
    raise AttributeError(f"module 'gnomon' has no attribute {name!r}{remedy}")


def __dir__() -> list[str]:
    return sorted(__all__)
