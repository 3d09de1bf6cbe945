"""Data that does not suit the task or the fit: what was expected, in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gnomon.cli.main import run
from gnomon.errors import UserValueError
from gnomon.tasks.base import task
from gnomon.tasks.fitting import other_data


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("other")
    (folder / "t.csv").write_text("a,b,y\n" + "".join(f"{i},{i % 3},{i + i * i % 5}\n" for i in range(12)))
    assert run(["fit", "linear-regression", str(folder / "t.csv"), "--target", "y", "--out", str(folder / "run")]) == 0
    return folder


@pytest.mark.parametrize(
    ("verb", "name", "content", "said"),
    [
        ("predict", "other.csv", "c,d\n1,2\n", "no column 'a' (other.csv); the fit needs 'a', 'b'"),
        ("evaluate", "other.csv", "c,d\n1,2\n", "the fit needs 'a', 'b', and the target 'y'"),
        ("predict", "text.txt", "a line\n", "a text has no columns (text.txt); the fit needs 'a', 'b'"),
        ("predict", "pictures", None, "a folder of images has no columns (pictures); the fit needs 'a', 'b'"),
    ],
)
def test_what_the_fit_needs_is_said(
    fitted: Path, verb: str, name: str, content: str | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = fitted / name
    if content is None:
        file.mkdir(exist_ok=True)
    else:
        file.write_text(content)
    assert run([verb, str(fitted / "run"), str(file)]) == 2
    told = capsys.readouterr().err
    assert said in told and told.count("\n") == 1


def test_columns_that_were_asked_for_are_looked_up_as_ever(fitted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", str(fitted / "run"), str(fitted / "t.csv"), "--columns", "a,bb"]) == 2
    assert "no column 'bb' (t.csv, columns); did you mean 'b'?" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["predict", "evaluate"])
def test_an_empty_name_is_no_folder(fitted: Path, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([verb, str(fitted / "run"), ""]) == 2
    assert "no data set and no file ''" in capsys.readouterr().err


def test_tables_and_folders_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("one two\n")
    for name, what in (("t.tsv", "a .tsv file"), ("", "a folder")):
        with pytest.raises(UserValueError, match=f"a text must be a .txt or .jsonl file, got {what}"):
            task("language").read(tmp_path / name)
    (tmp_path / "t.txt").write_text("one two\n")
    assert task("language").read(tmp_path / "t.txt").text == ("one two",)


def test_a_file_without_an_ending(fitted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (fitted / "noending").write_text("1,2\n")
    assert run(["predict", str(fitted / "run"), str(fitted / "noending")]) == 2
    assert "error: files without an ending cannot be read" in capsys.readouterr().err


def write_images(folder: Path, side: int, color: bool = False) -> None:
    from PIL import Image

    random = np.random.default_rng(side)
    for label in ("cat", "dog"):
        (folder / label).mkdir(parents=True)
        for i in range(5):
            pixels = random.integers(0, 256, (side, side, 3) if color else (side, side)).astype(np.uint8)
            Image.fromarray(pixels).save(folder / label / f"{i}.png")


def test_a_fit_to_images_is_asked_about_a_folder_of_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_images(tmp_path / "pets", 4)
    words = ["fit", "softmax-regression", str(tmp_path / "pets"), "--epochs", "2", "--out", str(tmp_path / "run")]
    assert run(words) == 0
    capsys.readouterr()
    assert run(["predict", str(tmp_path / "run"), str(tmp_path / "pets")]) == 0
    told = capsys.readouterr().out.split()
    assert len(told) == 11 and set(told) <= {"prediction", "cat", "dog"}
    assert run(["evaluate", str(tmp_path / "run"), str(tmp_path / "pets")]) == 0
    capsys.readouterr()
    for name, side, color, got in (("large", 5, False, "5 x 5"), ("colored", 4, True, "4 x 4 x 3")):
        write_images(tmp_path / name, side, color)
        assert run(["predict", str(tmp_path / "run"), str(tmp_path / name)]) == 2
        told = capsys.readouterr().err
        assert f"images must have 4 x 4 pixels, as the fit has them, got {got} ({name})" in told
        assert told.count("\n") == 1


def test_a_fit_that_needs_a_target_alone_says_so(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("user,item,rating\na,b,1\nc,d,2\n")
    with pytest.raises(UserValueError, match=r"the fit needs the target 'stars'$"):
        other_data({"features": None}, str(tmp_path / "r.csv"), task("recommend"), target="stars", columns=None)
