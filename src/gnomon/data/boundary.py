"""The edge of the readers: whatever a damaged file makes a library say becomes one line."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from polars.exceptions import PanicException

from gnomon.errors import UserError, UserValueError

__all__ = ["guarded", "is_ours", "quiet"]


def is_ours(error: BaseException) -> bool:
    """Whether an error arose in gnomon's own code, not in a library that it called: a fault of ours, then.

    Examples
    --------
    >>> import json
    >>> try:
    ...     json.loads("{")
    ... except ValueError as error:
    ...     is_ours(error)
    False
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and str(trace.tb_frame.f_globals.get("__name__", "")).startswith("gnomon.")


@contextmanager
def guarded(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let only errors of the user, and faults of our own, out while a file is read.

    What a library says of the file becomes one line, with the library's own error as its cause. An error that arose in
    gnomon's own code would be hidden by such a line, and goes out as it is; those of the system, such as a disk that
    fails, are the file's wherever they are met.

    Examples
    --------
    >>> import json
    >>> try:
    ...     with guarded("t.json"):
    ...         json.loads("{")
    ... except UserValueError as error:
    ...     print(str(error)[:60])
    the file is damaged: JSONDecodeError Expecting property name
    """
    try:
        yield
    except (UserError, Warning, ImportError, NameError):
        raise
    except MemoryError as error:
        what = "the file needs more memory than there is"
        raise UserValueError(what, Path(path).name, "split it, or read it in chunks with gnomon.data.open") from error
    except (Exception, PanicException) as error:
        if is_ours(error) and not isinstance(error, OSError):
            raise
        reason = f"{type(error).__name__} {' '.join(str(error).split())[:120]}".strip()
        raise UserValueError(
            f"the file is damaged: {reason}", Path(path).name, "write it again, or check its ending"
        ) from error


@contextmanager
def quiet() -> Iterator[None]:
    """Hold back what compiled code writes to standard error; it is dropped where an error follows, else handed on.

    A panic is written there before Python hears of it.
    """
    sys.stderr.flush()
    try:
        kept = os.dup(2)
    except OSError:  # there is no standard error
        yield
        return
    failed = False
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            failed = True
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            held.seek(0)
            if not failed and (text := held.read()):
                os.write(2, text)
