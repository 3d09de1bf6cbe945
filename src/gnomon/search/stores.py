"""Where trials are kept: memory, a file of SQLite, another database."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import InMemoryStorage, RDBStorage, RetryHeartbeatStaleTrialCallback
from sqlalchemy import Connection, event
from sqlalchemy.exc import SQLAlchemyError

from gnomon.errors import UserValueError

__all__ = ["opened", "quiet", "shown"]

HEARTBEAT_SECONDS = 5
GRACE_SECONDS = 20
"""After which a trial whose process says nothing any more is carried out by another."""
RETRIES = 2
BUSY_SECONDS = 60
"""How long a process waits for a store that another one writes to."""
OPENINGS = 5


def shown(store: str | Path | None) -> str:
    """A store as errors name it, without the name and password of a URL."""
    return re.sub(r"//[^/@]*@", "//", str(store))


def opened(store: str | Path | None) -> Any:
    """The store; two processes may make it at the same time."""
    if store is None:
        return InMemoryStorage()
    url = store if isinstance(store, str) and "://" in store else f"sqlite:///{Path(store).resolve()}"
    in_a_file = url.startswith("sqlite:")
    waits = {"connect_args": {"timeout": BUSY_SECONDS}} if in_a_file else {}
    for attempt in range(OPENINGS):
        try:
            found = RDBStorage(
                url, engine_kwargs=waits, heartbeat_interval=HEARTBEAT_SECONDS, grace_period=GRACE_SECONDS,
                heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(max_retry=RETRIES),
            )  # fmt: skip
            if in_a_file:
                event.listen(found.engine, "begin", _lock)
            return found
        except (SQLAlchemyError, ImportError, OSError) as error:
            if attempt + 1 == OPENINGS or not isinstance(error, SQLAlchemyError):
                reason = " ".join(str(getattr(error, "orig", error)).split())[:160]
                raise UserValueError(
                    f"cannot open the store: {reason}", shown(store), "give a file, or another URL"
                ) from None
            time.sleep(0.2 * (attempt + 1))
    raise AssertionError("unreachable")


def _lock(connection: Connection) -> None:
    """Take the file for the whole of a transaction, what it reads included.

    SQLite has no locks of rows: two processes that read that a trial waits would both take it.
    """
    connection.exec_driver_sql("BEGIN IMMEDIATE")


@contextmanager
def quiet() -> Iterator[None]:
    """Optuna says nothing of its own: trials are told in our words, and experimental samplers are meant."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)
