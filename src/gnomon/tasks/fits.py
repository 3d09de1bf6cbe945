"""The fits of a comparison: every system with its seeds and on its folds, kept as runs where a folder is given."""

from __future__ import annotations

import time
from typing import Any

from sklearn.base import clone

from gnomon.errors import Diverged, UserError
from gnomon.numeric.noise import seed_of
from gnomon.runs.config import FIT
from gnomon.system.base import System
from gnomon.system.saving import load
from gnomon.tasks.fitting import kept
from gnomon.tasks.kept_runs import KeptRuns
from gnomon.tasks.rooms import Room
from gnomon.tasks.sequences import in_frames
from gnomon.tasks.settings import draws, name_of, title_of
from gnomon.training.context import current as current_context
from gnomon.training.progress import announced_as, count_ended

__all__ = ["Fits"]


class Fits:
    """Fits systems, once for each seed and fold, into runs where these are kept, and says how far it has come.

    Parameters
    ----------
    room : Room
        The rows.
    seeds : int
        Fits of each system that draws.
    runs : KeptRuns or None
    """

    def __init__(self, room: Room, seeds: int, runs: KeptRuns | None) -> None:
        self.room, self.seeds, self.runs = room, seeds, runs
        self.begun, self.done, self.total = time.perf_counter(), 0, 0
        self.made = 0  # of the done, without the runs that were found

    def expect(self, systems: list[System]) -> None:
        """These are to be fitted."""
        self.total = sum(len(self.of(system)) for system in systems) * len(self.room.folds)

    def of(self, system: System) -> list[System]:
        """The system with each of its seeds, not fitted; the given one where it has one seed."""
        if self.seeds == 1 or not draws(system):
            return [system]
        return [clone(system).set_params(random_state=seed) for seed in range(self.seeds)]

    def fitted(self, one: System, fold: int, seed: int | None) -> tuple[System, float, str | None]:
        """A fitted system, the seconds of its fit and its run; the given system itself where there are no folds."""
        train = self.room.parts(one, fold)[0]
        system: System = clone(one) if self.room.spec.folds else one
        marks = ([f"seed{seed}"] if seed is not None else []) + ([f"fold{fold}"] if self.room.spec.folds else [])
        words = [mark.replace("seed", "seed ").replace("fold", "fold ") for mark in marks]
        title = ", ".join([title_of(system), *words])
        with announced_as(title):
            found = self._fit(system, train, fold, "-".join([name_of(system), *marks]))
        self.done += 1
        self._tell(f"{title}: {found[1]:.2f} s")
        return found

    def given_up(self, system: System, before: int) -> None:
        """The fits of a system end here, of which `before` others had been made when they began."""
        self.done = before + len(self.of(system)) * len(self.room.folds)
        self._tell(f"{title_of(system)}: failed")

    def _tell(self, text: str) -> None:
        if current_context().verbose and self.total > 1:
            each = (time.perf_counter() - self.begun) / self.made if self.made else 0.0
            count_ended(text, self.done, self.total, each * (self.total - self.done))

    def _fit(self, system: System, train: Any, fold: int, stem: str) -> tuple[System, float, str | None]:
        options = kept(self.room.preparation(system, fold))
        if self.runs is None:
            return system, self._seconds(system, train, **options), None
        seeded = system.random_state is not None
        config = system._config(FIT, seed_of(system.random_state), data=self.room.spec_of(system, fold), devices=1)
        run = self.runs.open(stem, config, seeded=seeded)
        if run.finished:
            return load(run.path), float(run.config.get("seconds", 0.0)), str(run.path)
        try:
            seconds = self._seconds(system, train, run=run, **options)
        except Diverged:
            raise
        except UserError:
            if not run.begun:
                self.runs.discard(run)  # refused before the first step
            raise
        run.update(seconds=round(seconds, 3))
        return system, seconds, str(run.path)

    def _seconds(self, system: System, train: Any, **options: Any) -> float:
        """Fit, and say how long it took."""
        begun = time.perf_counter()
        system.fit(in_frames(train.X, train.data, system), train.y, **options)
        self.made += 1
        return time.perf_counter() - begun
