"""Image models on the command line: folders, single files, arrays, sizes, names of classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gnomon
from gnomon.cli.compare import images
from gnomon.cli.main import run
from gnomon.errors import UserValueError
from oracles.commands import call

KINDS = ("1", "2", "10")


def write(folder: Path, side: int = 4, *, color: bool = False, sizes: tuple[int, ...] = ()) -> Path:
    """Three classes whose brightness tells them apart."""
    from PIL import Image

    random = np.random.default_rng(0)
    for j, kind in enumerate(KINDS):
        (folder / kind).mkdir(parents=True)
        for i in range(6):
            edge = sizes[i % len(sizes)] if sizes else side
            pixels = 100 * j + random.integers(0, 20, (edge, edge, 3) if color else (edge, edge))
            Image.fromarray(pixels.astype(np.uint8)).save(folder / kind / f"{i}.png")
    return folder


def refused(capsys: pytest.CaptureFixture[str], *arguments: Any) -> str:
    capsys.readouterr()
    assert run([*map(str, arguments)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    return err


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images")
    write(folder / "pics")
    words = ["fit", "decision-tree", str(folder / "pics"), "--holdout", "0", "--out", str(folder / "run")]
    assert run(words) == 0
    return folder


def test_labels_are_the_names_of_the_folders(fitted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """B2-30: folder 10 is "10", in Python and in what the command line predicts."""
    data = gnomon.data.load(fitted / "pics")
    assert data.y.tolist() == ["1"] * 6 + ["10"] * 6 + ["2"] * 6 and data.classes == ("1", "10", "2")
    assert gnomon.make("decision-tree").fit(data.X, data.y).predict(data.X[6:7]).tolist() == ["10"]
    run_ = fitted / "run"
    assert call(capsys, "predict", run_, fitted / "pics")["predictions"] == data.y.tolist()
    assert call(capsys, "evaluate", run_, fitted / "pics")["scores"]["accuracy"]["value"] == 1
    assert call(capsys, "predict", run_, fitted / "pics", "--proba")["columns"] == ["prediction", "1", "10", "2"]


def test_a_single_file_and_arrays(fitted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_, file = fitted / "run", fitted / "pics" / "10" / "0.png"
    assert call(capsys, "predict", run_, file)["predictions"] == ["10"]
    data = gnomon.data.load(fitted / "pics")
    assert data.X is not None
    for name, array in (
        ("a", data.X.reshape(-1, 4, 4).astype(np.uint8)), ("b", data.X.astype(np.uint8)), ("c", data.X)
    ):  # fmt: skip
        np.save(fitted / f"{name}.npy", array)
        assert call(capsys, "predict", run_, fitted / f"{name}.npy")["predictions"] == data.y.tolist()
    np.save(fitted / "one.npy", data.X[6].reshape(4, 4).astype(np.uint8))
    assert call(capsys, "predict", run_, fitted / "one.npy")["predictions"] == ["10"]
    for name, array, said in (
        ("unit", data.X / 255, "pixels must be whole numbers from 0 to 255"),
        ("large", np.zeros((2, 5, 5), np.uint8), "images of 4 x 4 pixels, got 2 x 5 x 5"),
        ("deep", np.full((1, 4, 4), 300, np.int64), "got int64 from 300 to 300"),
    ):
        np.save(fitted / f"{name}.npy", array)
        assert said in refused(capsys, "predict", run_, fitted / f"{name}.npy")


def test_sizes_are_brought_to_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """E5: images of several sizes are refused in a line that names the option; the run keeps the size."""
    pics, out = write(tmp_path / "pics", sizes=(8, 6)), tmp_path / "run"
    assert "--resize 8x8" in refused(capsys, "fit", "decision-tree", pics, "--out", out)
    assert not out.exists()
    assert "must be height x width" in refused(capsys, "fit", "decision-tree", pics, "--resize", "4", "--out", out)
    call(capsys, "fit", "decision-tree", pics, "--resize", "4x5", "--out", out, "--random-state", "0")
    assert call(capsys, "evaluate", out)["scores"]["accuracy"]["value"] == 1
    assert call(capsys, "predict", out, pics / "2" / "1.png")["predictions"] == ["2"]
    found = call(capsys, "data", pics, "--resize", "4x5")
    assert found["images"] == [4, 5] and found["labels"] == {"1": 6, "10": 6, "2": 6}
    assert "regress" not in found["systems"] and "decision-tree" in found["systems"]["classify"]
    with pytest.raises(UserValueError, match=r"must be \(height, width\)"):
        gnomon.data.load(pics, resize=4)  # type: ignore[arg-type]


def test_resized_pixels_are_means(tmp_path: Path) -> None:
    from PIL import Image

    for name, pixels in (("a", np.arange(16, dtype=np.uint8).reshape(4, 4) * 4), ("b", np.arange(16) * 4000)):
        deep = np.asarray(pixels.reshape(4, 4), np.uint16 if name == "b" else np.uint8)
        (tmp_path / name).mkdir()
        Image.fromarray(np.kron(deep, np.ones((2, 2), deep.dtype))).save(tmp_path / name / "1.png")
        small = gnomon.data.load(tmp_path / name, resize=(4, 4))
        assert small.X is not None and small.levels == (65536 if name == "b" else 256)
        middle = small.X.reshape(4, 4)[1:3, 1:3]
        assert np.allclose(middle, deep[1:3, 1:3], rtol=0, atol=0.02 * deep.max())


def test_grey_images_for_a_fit_to_colors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "fit", "decision-tree", write(tmp_path / "c", color=True), "--holdout", "0", "--out", tmp_path / "run")
    grey = write(tmp_path / "g")
    assert call(capsys, "predict", tmp_path / "run", grey)["predictions"] == ["1"] * 6 + ["10"] * 6 + ["2"] * 6


def test_images_of_other_levels_are_brought_to_those_of_the_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Digits have 17 levels: a file of 256 is read in these, not as values that no training row had."""
    from PIL import Image

    call(capsys, "fit", "decision-tree", "digits", "--holdout", "0", "--out", tmp_path / "run", "--random-state", "0")
    data = gnomon.data.load("digits")
    assert data.X is not None
    Image.fromarray(np.rint(data.X[3].reshape(8, 8) * 255 / 16).astype(np.uint8)).save(tmp_path / "three.png")
    assert call(capsys, "predict", tmp_path / "run", tmp_path / "three.png")["predictions"] == [3]


def test_comparisons_take_a_size_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The runs of a comparison read the folder in the same size."""
    pics, out = write(tmp_path / "pics", sizes=(8, 6)), tmp_path / "all"
    words = ["compare", "decision-tree", "gaussian-classifier:covariance=diag", pics, "--resize", "4x4", "--out", out]
    call(capsys, *words)
    runs = sorted(path.parent for path in out.rglob("config.json"))
    assert len(runs) == 2
    for one in runs:
        assert call(capsys, "predict", one, pics / "10" / "1.png")["predictions"] == ["10"]


def test_compare_brings_images_to_height_and_width(fitted: Path) -> None:
    assert images(str(fitted / "pics"), [6, 3]).images == (6, 3)
