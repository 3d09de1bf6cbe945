"""Arrays and facts in one safetensors file: arrays as tensors, facts as JSON in its header. No pickle.

NumPy is loaded where there are arrays: the command line writes config.json before.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnomon.errors import UserValueError, shown
from gnomon.recipes.imports import load
from gnomon.recipes.recipe import Recipe, Unsaved, named
from gnomon.recipes.slots import where
from gnomon.runs.digests import digest

if TYPE_CHECKING:
    import numpy as np

__all__ = ["DAMAGE", "Placed", "decode", "encode", "facts_of", "pack", "unpack"]

DAMAGE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What comes of facts and arrays that somebody has changed, or that belong to something else."""

SEAL = ', "__digest__": "%s"}'
"""How the facts of a file end."""

SLOTS = {
    "activation": "gnomon.nn.activations:Activation",
    "covariance": "gnomon.systems.mixtures.covariances:Covariance",
    "early_stopping": "gnomon.training.stopping:Stopping",
    "initializer": "gnomon.nn.initializers:Initializer",
    "kernel": "gnomon.systems.kernel.kernels:KernelFunction",
    "objective": "gnomon.objectives.contrastive:EnergyObjective",
    "optimizer": "gnomon.training.optimizers:Optimizer",
    "pooling": "gnomon.nn.pooling:Pooling",
    "schedule": "gnomon.training.schedules:Schedule",
    "smoothing": "gnomon.systems.text._smoothing:Smoothing",
    "weight_prior": "gnomon.systems.linear.weight_priors:WeightPrior",
}
"""Bases of the recipes of early runs, which name a recipe by slot and short name."""


@dataclasses.dataclass(frozen=True)
class Placed:
    """A recipe that is not imported, by its place; `encode` writes it as it writes the recipe.

    Parameters
    ----------
    where : str
        ``module:Class``.
    fields : mapping of str to object
        Those that are set.
    """

    where: str
    fields: Mapping[str, Any]


def pack(arrays: Mapping[str, Any], facts: Mapping[str, Any]) -> bytes:
    """One safetensors file as bytes."""
    from safetensors.numpy import save

    plain = {name: _array(value) for name, value in arrays.items()}
    text = json.dumps(encode(dict(facts)), allow_nan=False)
    seal = SEAL % _digest(plain, text)
    # within the facts: safetensors writes several texts in any order, and the same fit is the same file
    sealed = text.removesuffix("}") + seal if facts else "{" + seal.removeprefix(", ")
    return save(plain, metadata={"facts": sealed})


def _digest(arrays: Mapping[str, Any], facts: str) -> str:
    """Of the facts, and of every array with its name, dtype and shape."""

    def parts() -> Iterator[Any]:
        yield facts.encode()
        for name in sorted(arrays):
            array = arrays[name]
            yield f"{name} {array.dtype.str} {array.shape}".encode()
            yield array.reshape(-1).view("u1")

    return digest(parts())


def unpack(file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arrays and facts of a file that `pack` wrote.

    Raises
    ------
    UserValueError
        The file is no safetensors file, is cut off, has no facts, or holds other bytes than were written.
    """
    with _opened(file) as opened:
        metadata = opened.metadata() or {}
        arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        facts = decode(json.loads(_verified(arrays, metadata["facts"])))
        if not isinstance(facts, dict):
            raise TypeError(f"its facts are {shown(facts)}")
    return arrays, facts


def facts_of(file: Path) -> dict[str, Any]:
    """The facts alone, in the JSON values that stand there; whether bytes have changed is not looked at.

    Raises
    ------
    UserValueError
        The file is no safetensors file, is cut off or has no facts.
    """
    with _opened(file) as opened:
        facts = json.loads((opened.metadata() or {})["facts"])
        if not isinstance(facts, dict):
            raise TypeError(f"its facts are {shown(facts)}")
    return facts


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    """A safetensors file; what goes wrong with it within the block is said in one line."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(file), framework="numpy") as opened:
            yield opened
    except (SafetensorError, OSError, *DAMAGE) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0][:200]
        raise UserValueError(f"{file} cannot be read", reason, "the file is damaged: fit again") from None


def _verified(arrays: Mapping[str, Any], text: str) -> str:
    """The facts without their seal; runs from before digests have none.

    Raises
    ------
    ValueError
        The bytes are not those that were written.
    """
    at = text.rfind(SEAL.partition("%")[0].removeprefix(", "))
    if at < 0:
        return text
    facts = text[:at].removesuffix(", ") + "}"
    if text[at:] != (SEAL % _digest(arrays, facts)).removeprefix(", "):
        raise ValueError("its bytes have changed since they were written")
    return facts


def _array(value: Any) -> np.ndarray[Any, Any]:
    import numpy as np

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
        if "<locals>" in type(value).__qualname__:
            name = type(value).__name__
            raise UserValueError(f"{value!r} cannot be saved", name, "define its class at the top of a module")
        return {"__recipe__": where(type(value)), "fields": fields}
    if isinstance(value, Placed):
        return {"__recipe__": value.where, "fields": encode(value.fields)}
    if isinstance(value, Unsaved):
        return {"__callable__": value.name}
    if callable(value):
        return {"__callable__": f"{value.__module__}.{getattr(value, '__qualname__', type(value).__qualname__)}"}
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic | numpy.ndarray):
        return _encode_array(numpy.asarray(value), scalar=isinstance(value, numpy.generic))
    if isinstance(value, float) and not math.isfinite(value):
        return {"__float__": repr(value)}
    if isinstance(value, tuple):
        return {"__tuple__": [encode(item) for item in value]}
    if isinstance(value, list):
        return [encode(item) for item in value]
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and not key.startswith("__") for key in value):
            return {key: encode(item) for key, item in value.items()}
        return {"__dict__": [[encode(key), encode(item)] for key, item in value.items()]}
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise UserValueError(f"{value!r} cannot be saved", type(value).__name__, "use numbers, text, lists or a recipe")


def _encode_array(array: np.ndarray[Any, Any], *, scalar: bool) -> dict[str, Any]:
    """Values in C order, dtype and shape: a list of lists loses the shape of an empty array."""
    if array.dtype.kind not in "?biufUO" or (array.dtype.itemsize > 8 and array.dtype.kind == "f"):
        raise UserValueError(f"{array.dtype} cannot be saved", "dtype", "convert it to numbers or text")
    dtype = "object" if array.dtype == object else array.dtype.newbyteorder("=").str
    values = [encode(item) for item in array.ravel().tolist()]
    return {"__array__": values, "dtype": dtype, "shape": list(array.shape)} | ({"scalar": True} if scalar else {})


def _recipe_class(address: Any) -> type[Recipe]:
    """The class of a saved recipe, by ``module:Class``; once by the name of its slot and its short name.

    Raises
    ------
    UserValueError
        There is none, or it is no recipe.
    """
    if isinstance(address, list):
        slot, short = address
        if slot not in SLOTS:
            raise UserValueError(f"unknown slot {slot!r}", "config.json", "the run is foreign or damaged")
        return named(load(SLOTS[slot]), short, slot)
    try:
        found = load(address)
    except (ImportError, AttributeError, ValueError) as error:
        remedy = "install the package that has it"
        raise UserValueError(f"the recipe {address} is not installed", " ".join(str(error).split()), remedy) from None
    if not (isinstance(found, type) and issubclass(found, Recipe)):
        raise UserValueError(f"{address} is not a recipe", "config.json", "the run is foreign or damaged")
    return found


def _decode_array(value: dict[str, Any]) -> Any:
    import numpy as np

    if "shape" not in value:  # written before shapes were
        array = np.array(decode(value["__array__"]), dtype=value["dtype"])
    else:
        if math.prod(value["shape"]) != len(value["__array__"]):  # before anything is allocated
            raise ValueError(f"{len(value['__array__'])} values of an array of shape {value['shape']}")
        array = np.empty(value["shape"], dtype=value["dtype"])
        flat = array.reshape(-1)
        for index, item in enumerate(value["__array__"]):
            flat[index] = decode(item)
    return array[()] if value.get("scalar") else array


def decode(value: Any) -> Any:
    """The Python value of a JSON value that `encode` made."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "__recipe__" in value:
        fields = {name: decode(item) for name, item in value["fields"].items()}
        return _recipe_class(value["__recipe__"])(**fields)
    if "__callable__" in value:
        return Unsaved(str(value["__callable__"]))
    if "__array__" in value:
        return _decode_array(value)
    if "__dict__" in value:
        return {decode(key): decode(item) for key, item in value["__dict__"]}
    if "__float__" in value:
        return float(value["__float__"])
    if "__tuple__" in value:
        return tuple(decode(item) for item in value["__tuple__"])
    return {key: decode(item) for key, item in value.items()}
