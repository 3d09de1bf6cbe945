"""Parts of one computation side by side: how many threads there are, and the matrix products held to one each."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import ContextVar
from typing import TypeVar

from threadpoolctl import ThreadpoolController

__all__ = ["at_most", "controller", "in_threads", "lanes", "n_threads", "one_thread_each"]

SERIAL = 1 << 20
"""Numbers touched up to which threads would cost more than they gain."""

Part = TypeVar("Part")
Result = TypeVar("Result")

_most: ContextVar[int | None] = ContextVar("threads", default=None)


def n_threads() -> int:
    """Threads that a computation may use.

    What the context says; else the smaller of ``OMP_NUM_THREADS`` and the processors of this process.

    Examples
    --------
    >>> with at_most(1):
    ...     n_threads()
    1
    """
    given = _most.get()
    if given is not None:
        return given
    free = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return min(free, int(wanted)) if wanted.isdigit() and int(wanted) > 0 else free


@contextlib.contextmanager
def at_most(threads: int | None) -> Iterator[None]:
    """Let `n_threads` be this number for a while; None leaves it."""
    if threads is None:
        yield
        return
    token = _most.set(threads)
    try:
        yield
    finally:
        _most.reset(token)


def controller() -> ThreadpoolController:
    """The thread pools of the BLAS and OpenMP libraries that are loaded.

    To look for them takes milliseconds, so they are looked for again only once a package that brings its own was
    imported.
    """
    return _controller(tuple(name in sys.modules for name in ("numpy", "scipy.linalg", "sklearn", "torch")))


@functools.cache
def _controller(loaded: tuple[bool, ...]) -> ThreadpoolController:
    return ThreadpoolController()


@contextlib.contextmanager
def one_thread_each() -> Iterator[None]:
    """Hold every BLAS library to one thread, for parts that have threads of their own."""
    with controller().limit(limits=1, user_api="blas"):
        yield


def lanes(n: int, parts: int | None = None) -> list[slice]:
    """n rows cut into parts of like size: one per thread where the result does not depend on where they are cut.

    Examples
    --------
    >>> lanes(5, 2)
    [slice(0, 2, None), slice(2, 5, None)]
    """
    parts = parts or n_threads()
    return [slice(n * i // parts, n * (i + 1) // parts) for i in range(parts)]


def in_threads(
    work: Callable[[Part], Result],
    parts: Sequence[Part],
    *,
    size: float = math.inf,
    stop: threading.Event | None = None,
) -> list[Result]:
    """What the work gives for each part, in their order; side by side where there are threads.

    The work must release Python's lock to gain by it, as compiled loops and matrix products do. The results do not
    depend on the number of threads unless the work does.

    Parameters
    ----------
    work : callable
    parts : sequence
    size : float, default inf
        Numbers that the work touches in all; where they are few the parts are taken one after the other.
    stop : Event, optional
        Set once a part has failed or Ctrl-C has come, before the other parts are waited for: long work looks at it.

    Examples
    --------
    >>> in_threads(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    threads = 1 if getattr(_here, "within", False) else min(len(parts), n_threads())
    if threads < 2 or size < SERIAL:
        return [work(part) for part in parts]
    started = [_pool(os.getpid(), threads).submit(work, part) for part in parts]
    try:
        return [future.result() for future in started]
    except BaseException:
        if stop is not None:
            stop.set()
        for future in started:
            future.cancel()
        raise
    finally:
        wait(started)


_here = threading.local()


@functools.cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Threads that wait for work, since to start them takes longer than a part; those of a parent process are gone."""

    def mark() -> None:
        _here.within = True  # one level of parallelism: what such a thread does is not divided again

    return ThreadPoolExecutor(threads, "gnomon", mark)
