"""The package's names: lazy, complete, and the same in the stub."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import gnomon

ROOT = Path(__file__).parent.parent
HEAVY = "{'numpy', 'torch', 'scipy', 'sklearn', 'numba', 'polars', 'click', 'rich'}"


def test_import_loads_nothing_heavy():
    code = f"import sys, gnomon, gnomon.catalog, gnomon.errors, gnomon.data\nassert not {HEAVY} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", sorted(gnomon._WHERE))
def test_every_name_is_there(name):
    value = getattr(gnomon, name)
    _, _, attribute = gnomon._WHERE[name].partition(":")
    assert value.__name__.rpartition(".")[2] == (attribute or name)
    assert name in dir(gnomon) and name in gnomon.__all__


def test_every_name_is_documented():
    assert [name for name in gnomon._WHERE if not getattr(gnomon, name).__doc__] == []


def test_an_unknown_name_names_the_nearest():
    with pytest.raises(AttributeError, match=r"no attribute 'lod'; did you mean load\?"):
        _ = gnomon.lod


def test_the_stub_is_fresh():
    spec = importlib.util.spec_from_file_location("write_stub", ROOT / "tools" / "write_stub.py")
    write_stub = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(write_stub)
    assert write_stub.STUB.read_text(encoding="utf-8") == write_stub.render(), "run python tools/write_stub.py"
