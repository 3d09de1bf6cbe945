"""Fitted scikit-learn estimators as bytes: skops's format, never pickle, the same bytes for the same estimator.

skops names objects by their address in memory, stamps its archive with the time, and leaves the gaps between the fields
of a record as they lie in memory. Here objects are numbered in the order of their appearance, the time is fixed and the
gaps are zero, so that two fits can be compared to the bit.
"""

from __future__ import annotations

import io
import json
import sys
import warnings
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from gnomon.errors import UserValueError
from gnomon.recipes.imports import random_kept

__all__ = ["dumps", "loads", "types_in"]

SCHEMA = "schema.json"
PLAIN = frozenset(
    {f"builtins.{name}" for name in ("dict", "list", "tuple", "str", "set", "slice", "bytes", "int", "float", "bool")}
    | {"numpy.ndarray", "numpy.random.mtrand.RandomState", "numpy.dtype", "numpy.bool", "numpy.bool_"}
    | {f"numpy.{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
    | {"numpy.float32", "numpy.float64"}
)
"""What every estimator may consist of, besides the types that its system names."""


def dumps(estimator: Any) -> bytes:
    """The estimator as bytes that depend on its values alone.

    Parameters
    ----------
    estimator : scikit-learn estimator
        Fitted.
    """
    with random_kept(), _without_torch():
        import skops.io

    with zipfile.ZipFile(io.BytesIO(skops.io.dumps(estimator))) as archive:
        schema = json.loads(archive.read(SCHEMA))
        contents = {name: archive.read(name) for name in archive.namelist() if name != SCHEMA}
    files = _renumber(schema)
    schema.pop("_skops_version", None)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for old, new in files.items():
            archive.writestr(zipfile.ZipInfo(new), _without_gaps(contents[old]))
        archive.writestr(zipfile.ZipInfo(SCHEMA), json.dumps(schema, separators=(",", ":")))
    return out.getvalue()


def loads(content: bytes, allowed: Collection[str], *, where: str = "estimator") -> Any:
    """The estimator that `dumps` wrote, if it consists of the allowed types alone.

    Parameters
    ----------
    content : bytes
    allowed : collection of str
        ``module.Class`` of every type that the system writes, besides numbers, texts, containers and arrays.
    where : str, default "estimator"
        What error messages call it.

    Raises
    ------
    UserValueError
        No such bytes, or a type that the system does not write; nothing of it has been built by then.
    """
    with random_kept(), _without_torch():
        import skops.io
        from skops.io.exceptions import UntrustedTypesFoundException

    try:
        foreign = sorted(types_in(content) - PLAIN - set(allowed))
        if foreign:
            raise _foreign(foreign[0], where)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # another version of scikit-learn: the run says so itself
            return skops.io.loads(content, trusted=sorted(allowed))
    except UserValueError:
        raise
    except UntrustedTypesFoundException as error:
        raise _foreign(" ".join(str(error).split())[:80], where) from None
    except Exception as error:
        reason = " ".join(str(error).split())[:100] or type(error).__name__
        raise UserValueError(f"{where} cannot be read: {reason}", where, "the file is damaged: fit again") from None


@contextmanager
def _without_torch() -> Iterator[None]:
    """Keep skops from importing torch: it lists scikit-learn's estimators, for which every package there is imported.

    One of these wraps torch, which takes longer to import than most of such fits.
    """
    wrapper = "sklearn.externals.array_api_compat.torch"
    if wrapper in sys.modules:
        yield
        return
    modules: dict[str, Any] = sys.modules
    modules[wrapper] = None
    try:
        yield
    finally:
        del modules[wrapper]


def types_in(content: bytes) -> set[str]:
    """``module.Class`` of everything that the bytes name; nothing is imported or built.

    Raises
    ------
    ValueError, zipfile.BadZipFile
        Bytes that are no archive, or one that is compressed: its size would not be known before it is unpacked.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
            raise ValueError("a compressed archive")
        schema = json.loads(archive.read(SCHEMA))
    return set(_types(schema))


def _foreign(name: str, where: str) -> UserValueError:
    return UserValueError(
        f"{where} names {name}, which this system never writes", where, "the file is foreign or was tampered with"
    )


def _types(node: Any) -> Iterator[str]:
    for part in _nodes(node):
        if "__class__" in part:
            yield f"{part.get('__module__')}.{part['__class__']}"
        if "module_path" in part:  # a function or a type by name
            yield f"{part['module_path']}.{part.get('function', part.get('type', ''))}"


def _nodes(node: Any) -> Iterator[dict[str, Any]]:
    """Every mapping of the schema, outer ones first."""
    if isinstance(node, Mapping):
        yield dict(node) if not isinstance(node, dict) else node
    for value in node.values() if isinstance(node, Mapping) else node if isinstance(node, list) else ():
        yield from _nodes(value)


def _renumber(schema: dict[str, Any]) -> dict[str, str]:
    """Number the objects from 1 in order, in place; new names of the files by old ones, in order."""
    numbers: dict[Any, int] = {}
    files: dict[str, str] = {}
    for node in _nodes(schema):
        if "__id__" in node:
            # constants of one value are one object or several by accident
            same = (node["__class__"], node["content"]) if node.get("is_json") else node["__id__"]
            node["__id__"] = numbers.setdefault(same, len(numbers) + 1)
        if isinstance(node.get("file"), str):
            old = node["file"]
            node["file"] = files.setdefault(old, f"{len(files) + 1}{old[old.rfind('.') :]}")
    return files


def _without_gaps(content: bytes) -> bytes:
    """An array of records with zeros between the fields; other contents as they are."""
    if not content.startswith(b"\x93NUMPY"):
        return content
    array = np.load(io.BytesIO(content), allow_pickle=False)
    if array.dtype.names is None:
        return content
    clean = np.zeros(array.shape, array.dtype)
    for name in array.dtype.names:
        clean[name] = array[name]
    # one field after the other is copied, where a record as a whole would bring its gaps along
    out = io.BytesIO()
    np.save(out, clean, allow_pickle=False)
    return out.getvalue()
