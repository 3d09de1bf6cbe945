"""The wheel: every file of the package is in it, and it runs in an empty folder, outside the checkout."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


@pytest.mark.slow
def test_the_wheel_is_whole_and_runs_outside_the_checkout(tmp_path):
    pytest.importorskip("setuptools")
    source, made, place, empty = (tmp_path / name for name in ("source", "made", "place", "empty"))
    for folder in (source, made, place, empty):
        folder.mkdir()
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    subprocess.run([sys.executable, "-c", BUILD, str(made)], cwd=source, check=True, capture_output=True)
    (wheel,) = made.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")  # nothing is compiled
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if name.startswith("gnomon/")}
        archive.extractall(place)
    files = {str(one.relative_to(source / "src")) for one in (source / "src" / "gnomon").rglob("*") if one.is_file()}
    assert inside == files
    settings = {**os.environ, "PYTHONPATH": str(place)}
    words = [sys.executable, "-P", "-m", "gnomon"]
    for command in (["fit", "decision-tree", "iris", "--out", "run"], ["report", "run"]):
        done = subprocess.run([*words, *command], cwd=empty, env=settings, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert (empty / "run" / "report.html").stat().st_size > 10_000
