"""Folders that earlier versions saved still load and answer as they did."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import gnomon
from gnomon.catalog import ENTRIES
from gnomon.runs.folder import FORMAT

ARTIFACTS = Path(__file__).parents[1] / "artifacts"
_spec = importlib.util.spec_from_file_location("artifacts_make", ARTIFACTS / "make.py")
assert _spec is not None and _spec.loader is not None
make = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make)

FOLDERS = sorted(file.parent for file in ARTIFACTS.glob("format-*/*/config.json"))


def test_every_format_is_kept() -> None:
    assert {folder.parent.name for folder in FOLDERS} == {f"format-{number}" for number in range(1, FORMAT + 1)}
    assert {folder.name for folder in FOLDERS} <= {entry.name for entry in ENTRIES}
    for folder in FOLDERS:
        assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) < 100_000, folder


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_loads_and_scores_the_same(folder: Path) -> None:
    """The arrays to the bit; scores to 1e-6, since other library versions may add in another order."""
    system = gnomon.load(folder)
    expected = json.loads((folder.parent / "expected.json").read_text())[folder.name]
    found = make.facts(system, folder.name)
    assert found["sums"] == expected["sums"] and found["steps"] == expected["steps"]
    assert np.isclose(found["score"], expected["score"], rtol=1e-6, atol=0)
    assert json.loads((folder / "config.json").read_text())["system"] == system.name == folder.name


def test_an_old_folder_is_saved_in_the_new_format(tmp_path: Path) -> None:
    for folder in FOLDERS:
        old = gnomon.load(folder)
        new = gnomon.load(old.save(tmp_path / folder.parent.name / folder.name))
        assert make.facts(new, folder.name) == make.facts(old, folder.name)
        assert repr(new.get_params()) == repr(old.get_params())
        assert json.loads((tmp_path / folder.parent.name / folder.name / "config.json").read_text())["format"] == FORMAT
