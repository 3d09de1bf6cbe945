"""Images as a system takes them, turned back into what a screen shows: what their view did to the levels is undone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["brightness"]


def brightness(rows: Any, view: str, levels: int) -> NDArray[np.float64]:
    """Pixels between 0, black, and 1, white, on the levels of gray of the data.

    Parameters
    ----------
    rows : array of shape (n, ...)
        Images in a view of a `gnomon.data.dataset.Dataset`, or samples of a model of these; values beyond the levels
        are cut, others go to their level.
    view : str
        ``density`` (levels and noise between 0 and 1 above them), ``unit`` and ``images`` (level / (levels - 1)),
        ``binary``, or the levels themselves (``table``).
    levels : int in [2, inf)

    Returns
    -------
    array of the shape of `rows`

    Examples
    --------
    >>> brightness([[2.7, -0.1, 4.0]], "density", 5).tolist(), brightness([[0.26, 1.0]], "unit", 5).tolist()
    ([[0.5, 0.0, 1.0]], [[0.25, 1.0]])
    """
    x, top = np.asarray(rows, np.float64), 1 if view == "binary" else levels - 1
    level = np.floor(x) if view == "density" else np.rint(x * top if view in ("unit", "images") else x)
    return np.clip(level, 0, top) / top
