"""Names that nothing can be written under are refused in one line by every verb that writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gnomon.cli.main import run
from gnomon.cli.write import new_folder
from gnomon.errors import UserValueError

LONG = "x" * 300 + ".csv"


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("paths")
    (folder / "t.csv").write_text("a,b\n" + "".join(f"{i},{i * i % 7}\n" for i in range(12)))
    options = ["--n-components", "1", "--out", str(folder / "run")]
    assert run(["fit", "ppca", str(folder / "t.csv"), *options]) == 0
    return folder


@pytest.mark.parametrize("name", [LONG, "a\0.csv"])
@pytest.mark.parametrize("verb", ["sample", "evaluate", "compare", "demo"])
def test_names_that_no_file_system_takes(
    fitted: Path, verb: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = {
        "sample": ["sample", str(fitted / "run"), "--out", name],
        "evaluate": ["evaluate", str(fitted / "run"), "--figures", name],
        "compare": ["compare", "ppca:n_components=1", str(fitted / "t.csv"), "--out", name],
        "demo": ["demo", "--out", name],
    }[verb]
    assert run(words) == 2
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("gnomon: error")]
    assert len(told) == 1 and "Traceback" not in told[0]


@pytest.mark.parametrize("option", ["--target", "--columns"])
def test_columns_are_those_of_data(fitted: Path, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluate", str(fitted / "run"), option, "a"]) == 2
    assert f"error: {option} needs DATA; leave it out" in capsys.readouterr().err


def test_data_by_a_name_that_is_too_long(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", LONG]) == 2
    assert capsys.readouterr().err.startswith("gnomon: error: no file has this name")


def test_rows_are_not_written_over_a_folder(fitted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (fitted / "rows.csv").mkdir()
    assert run(["sample", str(fitted / "run"), "--out", str(fitted / "rows.csv")]) == 2
    assert "rows.csv exists (--out); choose another name" in capsys.readouterr().err


def test_what_is_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("kept")
    for name, said in (("full", "exists and is not empty"), ("full/file", "file exists")):
        with pytest.raises(UserValueError, match=said):
            new_folder(str(tmp_path / name), "--out")
    assert new_folder(str(tmp_path / "new"), "--out") == tmp_path / "new"
    (tmp_path / "empty").mkdir()
    assert new_folder(str(tmp_path / "empty"), "--out") == tmp_path / "empty"
