"""What no memory holds: a line that names the hyper-parameter to lower, in place of an allocator's words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gnomon.errors import UserError, UserValueError

__all__ = ["within_memory"]

LARGE = 1_000_000
"""From here on a size may be why there is no memory."""


@contextmanager
def within_memory(parameters: Mapping[str, Any], *, making: bool = False) -> Iterator[None]:
    """Turn an allocation that fails into a mistake of the user.

    Parameters
    ----------
    parameters : mapping
        Hyper-parameters by name.
    making : bool, default False
        Whether only sizes are at work, so that any error beside a large one is about it (an overflow, say).

    Raises
    ------
    UserValueError

    Examples
    --------
    >>> with within_memory({"hidden": (10**10, 5)}):
    ...     raise MemoryError("80 GB")
    Traceback (most recent call last):
    gnomon.errors.UserValueError: 10000000000 is too large for this machine: 80 GB (hidden); choose less
    """
    try:
        yield
    except UserError:
        raise
    except (MemoryError, OverflowError, RuntimeError, TypeError, ValueError) as error:
        name, size = _largest(parameters)
        out = isinstance(error, MemoryError) or "allocate" in str(error) or "out of memory" in str(error)
        if not out and not (making and size > LARGE):
            raise
        reason = " ".join(str(error).rpartition("DefaultCPUAllocator: ")[2].split())[:100] or "no memory is left"
        if size > LARGE:
            raise UserValueError(f"{size} is too large for this machine: {reason}", name, "choose less") from None
        remedy = "take fewer rows or columns, smaller batches or a smaller model"
        raise UserValueError(f"this machine has not the memory: {reason}", "fit", remedy) from None


def _largest(parameters: Mapping[str, Any]) -> tuple[str, int]:
    sizes = [
        (name, size)
        for name, value in parameters.items()
        for size in (value if isinstance(value, tuple | list) else (value,))
        if isinstance(size, int)
    ]
    return max(sizes, key=lambda one: one[1], default=("", 0))
