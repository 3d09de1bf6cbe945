"""The place of a bad value is that of the file: line and column by name, at every door."""

from __future__ import annotations

import pytest

import gnomon
from gnomon.cli.main import run
from gnomon.data import Preparation, load, split
from gnomon.data.places import placed
from gnomon.errors import UserError, UserValueError
from gnomon.tasks.fitting import fit

BAD = "y,a,b,c\n1,0,1,0\n\n0,1,1,5.5\n1,0,0,1\n0,1,0,1\n1,1,0,0\n"


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loc.csv").write_text(BAD)
    (tmp_path / "miss.csv").write_text(BAD.replace("5.5", ""))
    return tmp_path / "loc.csv"


@pytest.mark.parametrize(("columns", "holdout"), [("c", "0.2"), ("b,c", "0.2"), ("c,a", "0")])
def test_line_and_name_of_the_column_of_the_file(file, capsys, columns, holdout):
    """HB-02: it said (row 1, column 0), a place among the columns that were chosen; the blank line counts."""
    command = ["fit", "bernoulli-mixture", "loc.csv", "--columns", columns, "--encode", "none", "--holdout", holdout]
    assert run([*command, "--out", "o"]) == 2
    assert "(loc.csv, line 4, column 'c')" in capsys.readouterr().err
    assert not (file.parent / "o").exists()
    assert run(["fit", "softmax-regression", "miss.csv", "--target", "y", "--missing", "none", "--out", "o"]) == 2
    assert "(miss.csv, line 4, column 'c')" in capsys.readouterr().err
    with pytest.raises(UserError, match=r"\(loc.csv, line 4, column 'c'\)"):
        fit(gnomon.BernoulliMixture(n_components=2), file, columns=["b", "c"], prepare=Preparation(encode="none"))
    with pytest.raises(UserError, match=r"\(loc.csv, line 4, column 'c'\)"):
        gnomon.compare(["bernoulli-mixture"], file, columns=["b", "c"], prepare=Preparation(encode="none"))


def test_rows_of_a_part_and_other_errors(file):
    """HB-02: a row of a part is found in the whole; what names no cell stays as it is."""
    whole = load(file)
    train, _ = split(whole, test=0.4, seed=1)
    with pytest.raises(UserValueError, match=rf"line {[2, 4, 5, 6, 7][train.rows[2]]}, column 'b'"), placed(train):
        raise UserValueError("b", "row 2, column 2")
    with pytest.raises(UserValueError, match=r"what \(k\)"), placed(train):
        raise UserValueError("what", "k")
