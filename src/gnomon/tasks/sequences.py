"""How wide a frame is, where rows are sequences of frames and the data says it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon.data.dataset import Dataset

__all__ = ["frame_names", "frame_size_of", "in_frames"]

_NAME = re.compile(r"frame_(\d+)_(.+)")


def in_frames(X: Any, data: Dataset, system: Any) -> Any:
    """Rows as sequences (n, T, d) for the fit of a system of frames that is not told their width; others as they are.

    Parameters
    ----------
    X : array of shape (n, T * d)
    data : Dataset
        What X is of: an array (n, T, d), or columns as `frame_size_of` reads them.
    system : System
    """
    if not hasattr(system.domain, "frames") or system.frame_size is not None or np.ndim(X) != 2:
        return X
    width = frame_size_of(data.columns) if data.images is None else data.images[-1]
    return X if width is None else X.reshape(len(X), -1, width)


def frame_size_of(columns: Sequence[str]) -> int | None:
    """Columns of a frame by the names ``frame_0_a``, ``frame_0_b``, ``frame_1_a`` ..., None of other names.

    Examples
    --------
    >>> frame_size_of(["frame_0_a", "frame_0_b", "frame_1_a", "frame_1_b"])
    2
    """
    found = [_NAME.fullmatch(name) for name in columns]
    frames = [int(one[1]) for one in found if one is not None]
    if not frames or len(frames) < len(columns) or len(columns) % (frames[-1] + 1):
        return None
    width = len(columns) // (frames[-1] + 1)
    names = [one[2] for one in found if one is not None]
    regular = frames == [i // width for i in range(len(columns))] and names == names[:width] * (frames[-1] + 1)
    return width if regular else None


def frame_names(columns: Sequence[str], width: int) -> list[str] | None:
    """Names of sequences of another length than that of the columns, ``frame_0_a`` ...; None of other names.

    Examples
    --------
    >>> frame_names(["frame_0_a", "frame_0_b"], 4)
    ['frame_0_a', 'frame_0_b', 'frame_1_a', 'frame_1_b']
    """
    size = frame_size_of(columns)
    if size is None or width % size:
        return None
    inner = [name.removeprefix("frame_0_") for name in columns[:size]]
    return [f"frame_{t}_{name}" for t in range(width // size) for name in inner]
