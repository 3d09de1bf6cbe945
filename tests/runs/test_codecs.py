"""Codecs: what is saved comes back as it was; what is damaged is refused in one line; nothing is unpickled."""

from __future__ import annotations

import ast
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gnomon.errors import UserValueError
from gnomon.objectives.contrastive import PCD
from gnomon.recipes.recipe import Recipe
from gnomon.runs.codecs import decode, encode, pack, unpack
from gnomon.training.optimizers import Adam

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | TEXT
KEYS = TEXT | st.integers() | st.sampled_from(["__array__", "__tuple__", "__float__", "__recipe__", "__dict__"])
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple) | st.dictionaries(KEYS, inner, max_size=4)
    ),
)
KINDS = st.one_of(
    hnp.boolean_dtypes(), hnp.integer_dtypes(), hnp.unsigned_integer_dtypes(), hnp.floating_dtypes(sizes=(16, 32, 64)),
    hnp.unicode_string_dtypes(max_len=5),
)  # fmt: skip
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)


def alike(a: Any, b: Any) -> bool:
    """Equal in value and type, NaN equal to NaN, 0.0 apart from -0.0."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, dict):
        return list(map(repr, a)) == list(map(repr, b)) and all(
            alike(x, y) for x, y in zip(a.values(), b.values(), strict=True)
        )
    return bool(a == b)


def through_json(value: Any) -> Any:
    return decode(json.loads(json.dumps(encode(value), allow_nan=False)))


@given(VALUES)
@settings(max_examples=200, deadline=None)
def test_values_come_back(value: Any) -> None:
    assert alike(through_json(value), value)


@given(hnp.arrays(KINDS, SHAPES))
@settings(max_examples=200, deadline=None)
def test_arrays_come_back(array: np.ndarray) -> None:
    back = through_json(array)
    assert back.dtype == array.dtype.newbyteorder("=") and back.shape == array.shape
    assert alike(back.tolist(), array.tolist())


@given(hnp.arrays(KINDS, ()))
@settings(max_examples=60, deadline=None)
def test_numpy_scalars_come_back(array: np.ndarray) -> None:
    scalar = array.astype(array.dtype.newbyteorder("="))[()]
    back = through_json(scalar)
    assert type(back) is type(scalar) and alike(back.tolist(), scalar.tolist())


@pytest.mark.parametrize(
    "labels", [["no", "yes", None], [True, "yes", 3, 2.5, float("nan")], [(1, 2), (3, 4)], [[1], [2, 3]], []]
)
def test_labels_of_any_kind_come_back(labels: list[Any]) -> None:
    array = np.empty(len(labels), object)
    array[:] = labels
    back = through_json(array)
    assert back.dtype == object and back.shape == array.shape and alike(back.tolist(), array.tolist())


@pytest.mark.parametrize("recipe", [PCD(k=3), Adam(beta1=0.5), Adam()])
def test_recipes_come_back(recipe: Recipe) -> None:
    assert through_json({"slot": [recipe]}) == {"slot": [recipe]}


def test_what_has_no_name_is_refused() -> None:
    @dataclass(frozen=True)
    class Nameless(Recipe):
        k: int = 1

    for value in (
        Nameless(),
        object(),
        {1, 2},
        b"x",
        1j,
        np.array([1j]),
        np.array(["2020-01-01"], "datetime64[D]"),
        np.longdouble(1),
    ):
        with pytest.raises(UserValueError, match="cannot be saved"):
            encode(value)


def test_arrays_and_facts_of_a_file(tmp_path: Path) -> None:
    import torch

    generator = np.random.default_rng(0)
    arrays = {
        "float32": generator.normal(size=(3, 4)).astype(np.float32),
        "empty": np.zeros((0, 3)),
        "scalar": np.array(2.5),
        "big endian": np.arange(4, dtype=">i4"),
        "transposed": generator.normal(size=(3, 4)).T,
        "flags": np.array([True, False]),
        "tensor": torch.arange(3),
    }
    file = tmp_path / "a.safetensors"
    file.write_bytes(pack(arrays, {"rate": float("inf"), "shape": (2, 3)}))
    back, facts = unpack(file)
    assert facts == {"rate": float("inf"), "shape": (2, 3)}
    assert back.keys() == arrays.keys()
    for name, array in arrays.items():
        assert np.array_equal(back[name], array) and back[name].shape == np.shape(array), name
    assert back["big endian"].dtype == np.int32 and back["scalar"].shape == ()


def test_the_same_content_gives_the_same_bytes() -> None:
    arrays = {"b": np.ones(3), "a": np.zeros(2)}
    assert pack(arrays, {"x": 1}) == pack(dict(arrays), {"x": 1})


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_file_cut_off_is_refused(share: float, tmp_path: Path) -> None:
    whole = pack({"a": np.arange(100.0)}, {"x": 1})
    file = tmp_path / "a.safetensors"
    file.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(UserValueError, match="cannot be read") as caught:
        unpack(file)
    assert "\n" not in str(caught.value)


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    from safetensors.numpy import save

    file = tmp_path / "a.safetensors"
    for content in (
        b"not at all", b"\xff" * 64, save({"a": np.ones(2)}), save({"a": np.ones(2)}, metadata={"facts": "{"}),
        save({"a": np.ones(2)}, metadata={"facts": '{"x": {"__array__": ["y"], "dtype": "<f8", "shape": [1]}}'}),
        save({"a": np.ones(2)}, metadata={"facts": '{"x": {"__recipe__": ["objective", "nothing"], "fields": {}}}'}),
        save({"a": np.ones(2)}, metadata={"facts": '{"x": {"__recipe__": ["objective", "cd"], "fields": {"q": 1}}}'}),
        save({"a": np.ones(2)}, metadata={"facts": '{"x": {"__recipe__": "gnomon.data:CD", "fields": {}}}'}),
        save({"a": np.ones(2)}, metadata={"facts": '{"x": {"__recipe__": "json:JSONDecoder", "fields": {}}}'}),
    ):  # fmt: skip
        file.write_bytes(content)
        with pytest.raises(UserValueError, match="cannot be read") as caught:
            unpack(file)
        assert "\n" not in str(caught.value)


def test_shapes_were_not_always_written() -> None:
    old = {"__array__": [[1, 2], [3, 4]], "dtype": "<i8"}
    assert decode(old).tolist() == [[1, 2], [3, 4]]


def test_nothing_that_reads_a_folder_unpickles() -> None:
    import gnomon.runs
    import gnomon.system.saving

    files = [*Path(gnomon.runs.__file__).parent.glob("*.py"), Path(gnomon.system.saving.__file__)]
    for file in files:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
        imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not {"pickle", "joblib", "cloudpickle", "dill", "marshal", "shelve", "torch"} & imported, file
        called = {
            node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert not {"eval", "exec"} & called, file
