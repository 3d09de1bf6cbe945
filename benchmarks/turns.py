"""What the benchmarks of training loops share: their options, the clock, and the seconds of an update of a fit."""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable

import torch

import gnomon

__all__ = ["Clock", "options", "seconds_of"]

Clock = Callable[[], float]


def options(doc: str | None, **sizes: int) -> tuple[argparse.Namespace, Clock]:
    """The command line's answers, with one thread where it names none, and the clock.

    With one thread the clock is the processor's, which other programs disturb less.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in {**sizes, "threads": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    return given, time.process_time if given.threads == 1 else time.perf_counter


def seconds_of(fit: Callable[[], object], threads: int, clock: Clock) -> float:
    """Seconds of an update of a fit, in the best of the epochs after the first."""
    at: list[tuple[int, float]] = []
    note = (lambda step, record: at.append((step, clock())),)
    with gnomon.context(callbacks=note, threads=threads):
        fit()
    return min((t - s) / (b - a) for (a, s), (b, t) in itertools.pairwise(at))
