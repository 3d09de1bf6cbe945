"""``gnomon evaluate RUN --figures FOLDER``: the task's pictures as SVG."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gnomon.cli.main import run


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (
            ("softmax-regression", "wine", "--epochs", "3"),
            {"confusion.svg", "calibration.svg", "roc.svg", "precision_recall.svg"},
        ),
        (("linear-regression", "diabetes"), {"predictions.svg", "residuals.svg"}),
        (("ppca", "digits"), {"log_prob.svg", "samples.svg", "data.svg"}),
    ],
)
def test_pictures_of_the_held_out_rows(arguments, names, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, folder = str(tmp_path / "run"), tmp_path / "pictures"
    assert run(["fit", *arguments, "--out", made, "--random-state", "0"]) == 0
    capsys.readouterr()
    assert run(["evaluate", made, "--figures", str(folder), "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["figures"]
    assert {Path(file).name for file in listed} == names == {file.name for file in folder.iterdir()}
    assert all(file.read_text().lstrip().startswith("<?xml") for file in folder.iterdir())
    assert run(["evaluate", made, "--figures", str(folder)]) == 2
    assert "is not empty" in capsys.readouterr().err
