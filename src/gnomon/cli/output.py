"""What the command line prints: results on standard output, everything else on standard error; strict JSON; tables."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, TextIO

from gnomon.cli.waiting import undisturbed
from gnomon.errors import counted, number

__all__ = [
    "FULL", "abandon_stdout", "announce", "dump", "first_process", "leave", "note", "readable", "scores",
    "show_warning", "strict", "table", "tolerate_any_terminal", "width", "write", "written",
]  # fmt: skip

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors that mean: the disk takes no more."""


def write(text: str) -> None:
    """A result, on standard output."""
    # line by line: without buffering (python -u), a long write into a pipe that is closed half-way succeeds in silence
    with undisturbed():
        sys.stdout.writelines((text.rstrip("\n") + "\n").splitlines(keepends=True))


def note(text: str) -> None:
    """Progress, notices and errors, on standard error; a reader that has gone is no error."""
    try:
        with undisturbed():
            sys.stderr.write(f"gnomon: {text}\n")
            sys.stderr.flush()
    except BrokenPipeError:
        pass


def written(n: int, noun: str, out: str) -> None:
    """A notice of how much is in the file that was asked for."""
    note(f"{counted(n, noun)} {'is' if n == 1 else 'are'} in {out}")


def announce(text: str) -> None:
    """What begins, before the imports that take seconds: to people alone, on a terminal."""
    if sys.stderr.isatty() and first_process():
        note(text)


def first_process() -> bool:
    """Whether this process is alone, or the first of those that torchrun has started: the one that speaks."""
    return int(os.environ.get("RANK", "0")) == 0


def leave(status: int) -> NoReturn:
    """End the process at once, whatever its other threads do; what was printed is printed."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def show_warning(
    message: Any, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """A warning as one line, without the place in the code; the same words once only."""
    text = " ".join(str(message).split())
    if text not in _shown:
        _shown.add(text)
        note("notice: " + text)


_shown: set[str] = set()


def dump(value: Any) -> None:
    """One JSON object in ASCII on standard output."""
    write(json.dumps(strict(value), allow_nan=False))


def strict(value: Any) -> Any:
    """The value in terms of JSON: NaN and infinities are None, arrays are lists, scores are objects.

    Examples
    --------
    >>> strict({"a": (1.0, float("nan"))})
    {'a': [1.0, None]}
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if hasattr(value, "to_json"):
        return strict(value.to_json())
    if isinstance(value, Mapping):
        return {str(key): strict(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return strict(readable(value).tolist())
    if isinstance(value, Iterable):
        return [strict(item) for item in value]
    return str(value)


def readable(array: Any) -> Any:
    """An array (or number) of float32 or float16 as float64 of the shortest text that says which number it is.

    Examples
    --------
    >>> import numpy as np
    >>> np.float32(0.1).tolist(), readable(np.float32(0.1)).tolist()
    (0.10000000149011612, 0.1)
    """
    if getattr(array.dtype, "kind", "") != "f" or array.dtype.itemsize >= 8:
        return array
    return array.astype(str).astype("float64")


def width(text: str) -> int:
    """Columns that a text takes in a terminal: two for a wide character, none for a combining one.

    Examples
    --------
    >>> width("rbm"), width("玻尔兹曼机")
    (3, 10)
    """
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """Columns aligned with two spaces between them; the columns in `right` end flush.

    Examples
    --------
    >>> print(table(["name", "n"], [["a", "10"], ["玻", "9"]], right=[1]))
    name   n
    a     10
    玻     9
    """
    lines = [list(header), *[list(row) for row in rows]]
    widths = [max(width(line[j]) for line in lines) for j in range(len(header))]

    def cell(text: str, j: int) -> str:
        space = " " * (widths[j] - width(text))
        return space + text if j in right else text + space

    return "\n".join("  ".join(cell(text, j) for j, text in enumerate(line)).rstrip() for line in lines)


def scores(found: Mapping[str, Any]) -> str:
    """A table of scores: value, both errors, the interval of proportions, kind, unit, data space."""
    header = ["score", "value", "± examples", "± estimator", "95 % interval", "kind", "unit", "data"]
    rows = [
        [
            name,
            *map(number, (s.value, s.stderr, s.error)),
            s.interval_text,
            s.kind,
            s.unit,
            s.data_space + (f" ({s.note})" if s.note else ""),
        ]
        for name, s in found.items()
    ]
    if not any(row[4] for row in rows):
        header, rows = header[:4] + header[5:], [row[:4] + row[5:] for row in rows]
    return table(header, rows, right=[1, 2, 3])


def tolerate_any_terminal() -> None:
    """Write what the terminal's encoding lacks as an escape instead of failing; a closed stream swallows everything."""
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def abandon_stdout() -> None:
    """Let the interpreter flush what is left into nothing when it ends."""
    sink = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(sink, _descriptor(sys.stdout))
    except (OSError, ValueError):
        pass
    finally:
        os.close(sink)


def _descriptor(stream: TextIO) -> int:
    return stream.fileno()
