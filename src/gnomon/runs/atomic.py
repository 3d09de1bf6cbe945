"""Whole files or nothing: a process may be killed at any moment. Standard library only."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from gnomon.errors import UserError

__all__ = ["TEMPORARY", "remove", "unwritable", "write_atomically"]

TEMPORARY = ".tmp-"
"""How the names of unfinished files begin."""


def write_atomically(path: Path, content: bytes) -> None:
    """Write a whole file or nothing: a temporary file in the same folder, flushed to disk, renamed over the old one."""
    scratch = path.parent / f"{TEMPORARY}{secrets.token_hex(8)}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with scratch.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except OSError as error:
        remove(scratch)
        raise unwritable(path, error) from None
    except BaseException:
        remove(scratch)
        raise
    _sync_folder(path.parent)


def remove(file: Path) -> None:
    """Remove a file that may not be there."""
    with contextlib.suppress(OSError):
        file.unlink()


def unwritable(path: Path, error: OSError) -> UserError:
    """The refusal of a file that the system did not take."""
    return UserError(f"cannot write {path}", error.strerror or str(error), "free space or choose another folder")


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":
        return
    # some network file systems do not sync folders; the file itself is safe by then
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
