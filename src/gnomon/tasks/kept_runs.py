"""The runs of a comparison: found again in its folder when the same command is given once more."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gnomon.errors import UserError, UserValueError
from gnomon.runs.config import RunConfig
from gnomon.runs.folder import RunFolder

__all__ = ["KeptRuns"]

DATA = (
    "source", "name", "target", "columns", "holdout", "split", "split_seed", "folds", "fold", "whole", "prepare",
    "form", "resize",
)  # fmt: skip
"""Facts of the data that two runs of one comparison have in common."""


class KeptRuns:
    """Runs below one folder, one for each fit.

    Parameters
    ----------
    out : path
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self.fresh = not os.path.exists(out)  # unlike Path.exists, false for a name that no file system takes
        self.used: set[Path] = set()

    def open(self, stem: str, config: RunConfig, *, seeded: bool) -> RunFolder:
        """The run of an earlier call with the same system, seed and data, finished or not; else a new one.

        Parameters
        ----------
        stem : str
            Name of the folder; a number follows where another run has it.
        config : RunConfig
            Of the fit that is to be kept.
        seeded : bool
            Whether the seed was given, so that another one is another run.

        Raises
        ------
        UserValueError
            A run of the same system on other data, or rows held out in another way.
        """
        wanted = json.loads(json.dumps({"format": 1, **config.to_json()}))
        for i in range(1, 1_000_000):
            path = self.out / (stem if i == 1 else f"{stem}-{i}")
            if not os.path.exists(path):
                break
            if path in self.used:
                continue
            run = _run(path)
            if run is None or not _same_system(run.config, wanted, seeded):
                continue
            _refuse_other_data(run, wanted["data"])
            self.used.add(path)
            return run
        self.used.add(path)
        return RunFolder.create(path, config)

    def discard(self, run: RunFolder) -> None:
        """Remove the run of a fit that was refused, and the folder if it was made for it."""
        run.discard()
        if self.fresh and not any(self.out.iterdir()):
            self.out.rmdir()


def _run(path: Path) -> RunFolder | None:
    """The run in a folder, if there is one."""
    try:
        return RunFolder.open(path)
    except UserError:
        return None


def _same_system(config: Mapping[str, Any], wanted: Mapping[str, Any], seeded: bool) -> bool:
    names = ("kind", "where", "parameters", *(("seed",) if seeded else ()))
    return all(config.get(name) == wanted.get(name) for name in names)


def _refuse_other_data(run: RunFolder, wanted: Mapping[str, Any]) -> None:
    """One line where the rows of a run are not those that are asked for."""
    known = run.config.get("data", {})
    other = next((name for name in DATA if known.get(name) != wanted.get(name)), None)
    if other is not None:
        what = "other data" if other in ("source", "name", "whole") else f"another {other} of its data"
        raise UserValueError(f"{run.path} holds a run with {what}", "--out", "choose another folder, or remove it")
