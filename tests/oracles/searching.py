"""A search whose optimum is known, and a process of its own that joins it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from gnomon.search import stores
from gnomon.search.dimensions import OneOf, RealRange, WholeRange
from gnomon.search.study import Study
from gnomon.search.trials import SearchPlan

__all__ = ["SPACE", "bowl", "finished", "plan", "table", "work"]

SPACE = {"x": RealRange(-5.0, 5.0), "n": WholeRange(1, 64, log=True), "kind": OneOf(("a", "b", (1, 2)))}


def plan(strategy="random", trials=12, space=None, seed=0, **facts):
    return SearchPlan(SPACE if space is None else space, strategy, trials, seed, higher_is_better=False, facts=facts)


def bowl(parameters, report=None):
    """Smallest, 0, at x = 2, n = 8, kind b."""
    return (parameters["x"] - 2) ** 2 + np.log2(parameters["n"] / 8) ** 2 + (parameters["kind"] != "b")


def table(search):
    return {tuple(map(str, one.parameters.values())): one.value for one in search.tried}


def finished(one, judge=bowl, store=None, **options):
    found = Study(one, store)
    found.run(judge, **options)
    found.close()  # a store that is closed opens again when it is asked
    return found


def work(
    store: Path, log: Path, trials: int, seconds: float, strategy: str = "random", times: tuple[int, int] | None = None
) -> None:
    """Carry out trials and note each in a file; `times` are the seconds of the heartbeat and of the grace."""
    if times is not None:
        stores.HEARTBEAT_SECONDS, stores.GRACE_SECONDS = times

    def judge(parameters: dict[str, Any], report: Any) -> float:
        with open(log, "a") as lines:
            lines.write(
                f"{os.getpid()} {parameters['x']:.17g} {parameters['n']} {parameters['kind']}\n".replace(", ", "x")
            )
        time.sleep(seconds)
        return bowl(parameters)

    finished(plan(strategy, trials), judge, store)
