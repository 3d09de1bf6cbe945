"""Arrays and facts in one safetensors file: arrays as tensors, facts as JSON in its header. No pickle."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gnomon.errors import UserValueError
from gnomon.recipes import Recipe, named

__all__ = ["decode", "encode", "pack", "unpack"]


def pack(arrays: Mapping[str, Any], facts: Mapping[str, Any]) -> bytes:
    """One safetensors file as bytes."""
    from safetensors.numpy import save

    plain = {name: _array(value) for name, value in arrays.items()}
    return save(plain, metadata={"facts": json.dumps(encode(dict(facts)), allow_nan=False)})


def unpack(file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arrays and facts of a file that `pack` wrote.

    Raises
    ------
    UserValueError
        The file is no safetensors file, is cut off, or has no facts.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(file), framework="numpy") as opened:
            metadata = opened.metadata() or {}
            arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        return arrays, decode(json.loads(metadata["facts"]))
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise UserValueError(f"{file} cannot be read", str(error).splitlines()[0], "the file is damaged: fit again") from None


def _array(value: Any) -> np.ndarray[Any, Any]:
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    array = np.asarray(value)
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")).reshape(array.shape)


def encode(value: Any) -> Any:
    """A JSON value that `decode` turns back into the same Python value.

    Examples
    --------
    >>> decode(encode((1, 2.5, None)))
    (1, 2.5, None)
    """
    if isinstance(value, Recipe):
        fields = {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value)}  # type: ignore[arg-type]
        return {"__recipe__": [value.slot, value.short], "fields": fields}
    if isinstance(value, np.generic):
        return {"__array__": value.tolist(), "dtype": str(value.dtype), "scalar": True}
    if isinstance(value, np.ndarray):
        dtype = "object" if value.dtype == object else value.dtype.newbyteorder("=").str
        return {"__array__": encode(value.tolist()), "dtype": dtype}
    if isinstance(value, float) and not np.isfinite(value):
        return {"__float__": repr(value)}
    if isinstance(value, tuple):
        return {"__tuple__": [encode(item) for item in value]}
    if isinstance(value, list):
        return [encode(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise UserValueError(f"{value!r} cannot be saved", type(value).__name__, "use numbers, text, lists or a recipe")


def decode(value: Any) -> Any:
    """The Python value of a JSON value that `encode` made."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "__recipe__" in value:
        fields = {name: decode(item) for name, item in value["fields"].items()}
        return named(*value["__recipe__"])(**fields)
    if "__array__" in value:
        array = np.array(decode(value["__array__"]), dtype=value["dtype"])
        return array[()] if value.get("scalar") else array
    if "__float__" in value:
        return float(value["__float__"])
    if "__tuple__" in value:
        return tuple(decode(item) for item in value["__tuple__"])
    return {key: decode(item) for key, item in value.items()}
