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

__all__ = ["guarded", "quiet"]


@contextmanager
def guarded(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let only errors of the user out while a file is read; the library's own error is their cause.

    Examples
    --------
    >>> try:
    ...     with guarded("t.xlsx"):
    ...         {}["sheet"]
    ... except UserValueError as error:
    ...     print(error)
    the file is damaged: KeyError 'sheet' (t.xlsx); write it again, or check its ending
    """
    try:
        yield
    except (UserError, Warning, ImportError, NameError):
        raise
    except MemoryError as error:
        what = "the file needs more memory than there is"
        raise UserValueError(what, Path(path).name, "split it, or read it in chunks with gnomon.data.open") from error
    except (Exception, PanicException) as error:
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
