"""Shell completion: the scripts of three shells, and what is offered where."""

import pytest

from gnomon.cli.main import main


def ask(monkeypatch, capsys, line, shell="bash"):
    monkeypatch.setenv("_GNOMON_COMPLETE", f"{shell}_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    with pytest.raises(SystemExit) as end:
        main([])
    assert end.value.code == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("gnomon sea", ["plain,search"]), ("gnomon fit random-forest-", ["plain,random-forest-regression"]),
        ("gnomon fit rbm mov", ["plain,movielens-100k", "file,mov"]),
        ("gnomon fit rbm iris --n-hid", ["plain,--n-hidden"]), ("gnomon search sv", ["plain,svm"]),
        ("gnomon compare svm lene", ["plain,lenet", "file,lene"]), ("gnomon report ru", ["dir,ru"]),
        ("gnomon info lene", ["plain,lenet", "dir,lene"]), ("gnomon list pa", ["plain,parts"]),
        ("gnomon info Dual", ["plain,DualAveraging", "dir,Dual"]), ("gnomon list parts gr", ["plain,graphs"]),
        ("gnomon evaluate run --met", ["plain,--metric"]),
    ],
)  # fmt: skip
def test_what_is_offered(line, expected, monkeypatch, capsys):
    assert ask(monkeypatch, capsys, line) == expected


def test_what_cannot_be_completed_is_no_traceback(monkeypatch, capsys):
    monkeypatch.setenv("_GNOMON_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "gnomon fit nosuch x")
    monkeypatch.setenv("COMP_CWORD", "3")
    with pytest.raises(SystemExit) as end:
        main([])
    assert end.value.code == 1 and capsys.readouterr() == ("", "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_scripts_of_shells(shell, monkeypatch, capsys):
    monkeypatch.setenv("_GNOMON_COMPLETE", f"{shell}_source")
    with pytest.raises(SystemExit) as end:
        main([])
    assert end.value.code == 0 and "_GNOMON_COMPLETE" in capsys.readouterr().out
