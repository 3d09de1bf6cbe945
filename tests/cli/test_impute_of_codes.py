"""``gnomon impute`` of a fit to coded columns: refused, since codes are no cells of the file."""

from __future__ import annotations

import numpy as np
import pytest

from gnomon.cli.main import run


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "words", [["ppca", "--n-components", "1"], ["gaussian-rbm", "--epochs", "1"], ["ppca", "--encode", "ordinal"]]
)
def test_codes_are_no_cells(words, tmp_path, capsys):
    random = np.random.default_rng(0)
    lines = [
        f"{a:.3f},{b:.3f},{['red', 'blue', 'green'][i % 3]}" for i, (a, b) in enumerate(random.normal(size=(40, 2)))
    ]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,color", *lines]))
    (tmp_path / "gaps.csv").write_text("a,b,color\n0.5,,red\n,1,blue\n")
    name, *options = words
    assert run(["fit", name, str(tmp_path / "t.csv"), *options, "--out", str(tmp_path / "run")]) == 0
    capsys.readouterr()
    assert run(["impute", str(tmp_path / "run"), str(tmp_path / "gaps.csv")]) == 2
    said = capsys.readouterr()
    assert "'color' was coded" in said.err and not said.out
    assert run(["fit", name, str(tmp_path / "t.csv"), *options, "--drop", "color", "--out", str(tmp_path / "two")]) == 0
    capsys.readouterr()
    assert run(["impute", str(tmp_path / "two"), str(tmp_path / "gaps.csv")]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    (known, _), (_, other) = ([float(cell) for cell in row.split(",")] for row in rows)
    assert header == "a,b" and known == pytest.approx(0.5, rel=1e-12) and other == pytest.approx(1.0, rel=1e-12)
