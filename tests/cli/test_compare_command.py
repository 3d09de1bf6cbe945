"""``gnomon compare`` with its options: settings that vary, splits, folds and seeds, and what a run keeps of them."""

import json

import numpy as np
import pytest

from gnomon.cli.compare import varied
from gnomon.cli.main import run as command
from gnomon.errors import UserValueError


def run(capsys, *words):
    code = command(list(words))
    return (code, *capsys.readouterr())


@pytest.fixture
def table(tmp_path):
    random = np.random.default_rng(0)
    rows = [f"{random.normal() + i % 2:.4f},{i // 5},{i},{'ab'[i % 2]}" for i in range(60)]
    file = tmp_path / "t.csv"
    file.write_text("\n".join(["size,patient,day,kind", *rows]) + "\n")
    return file


def test_every_pair_of_varied_values_is_a_line():
    found = varied(["rbm:epochs=1"], ("objective=cd,pcd", "n_hidden=4,8"))
    assert found == [f"rbm:epochs=1,objective={o},n_hidden={n}" for o in ("cd", "pcd") for n in (4, 8)]
    for wrong in ("objective", "=cd", "objective=cd,,pcd", "objective="):
        with pytest.raises(UserValueError, match=r"--vary must be KEY=A,B,\.\.\., got"):
            varied(["rbm"], (wrong,))


@pytest.mark.parametrize(
    ("names", "vary", "words"),
    [
        (["decision-tree"], ("max_depth=1, 1",), "1 is given twice among the values of max_depth"),
        (["rbm", "rbm"], (), "rbm is given twice among the systems"),
        (["rbm:k=1", "rbm:k=1"], ("epochs=1,2",), "rbm:k=1,epochs=1 is given twice among the systems"),
    ],
)
def test_no_line_stands_twice(names: list[str], vary: tuple[str, ...], words: str) -> None:
    with pytest.raises(UserValueError, match=words):
        varied(names, vary)


def test_varied_settings_over_folds_and_seeds(capsys, table):
    words = ["compare", "softmax-regression:batch_size=16", str(table), "--target", "kind", "--vary", "epochs=1,2"]
    code, out, _ = run(capsys, *words, "--folds", "3", "--seeds", "2", "--metric", "log_likelihood", "--json")
    (board,) = json.loads(out)["leaderboards"]
    assert code == 0 and board["metric"] == "log_likelihood" and board["held_out"] == "3 folds, stratified, seed 0"
    lines = {line["settings"]: line for line in board["lines"] if line["name"] == "softmax-regression"}
    assert sorted(lines) == ["batch_size=16,epochs=1", "batch_size=16,epochs=2"]
    assert all(line["seeds"] == 2 and line["spread"] > 0 and line["score"]["n"] == 60 for line in lines.values())


@pytest.mark.parametrize(
    ("split", "said"),
    [("group=patient", ["size", "day"]), ("time=day", ["size", "patient"]), ("random", None), (None, None)],
)
def test_fit_and_evaluate_hold_out_the_same_rows(capsys, table, tmp_path, split, said):
    """E12: the split, its seed and its column are kept with the run."""
    words = ["fit", "softmax-regression", str(table), "--target", "kind", "--epochs", "2", "--out", str(tmp_path / "r")]
    words += ["--split-seed", "4", *(["--split", split] if split else [])]
    code, fitted, _ = run(capsys, *words, "--json")
    data = json.loads((tmp_path / "r" / "config.json").read_text())["data"]
    assert code == 0 and data.get("split", "random") == (split or "stratified") and data["split_seed"] == 4
    assert said is None or data["features"] == said
    code, judged, _ = run(capsys, "evaluate", str(tmp_path / "r"), "--json")
    first, again = json.loads(fitted)["held_out"], json.loads(judged)
    assert code == 0 and first["accuracy"]["n"] == (10 if split == "group=patient" else 12), "whole groups of five"
    scores = again.get("scores", again)
    assert scores["accuracy"]["value"] == first["accuracy"]["value"]
    assert scores["log_likelihood"]["value"] == first["log_likelihood"]["value"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--split", "time=day", "--folds", "3"], "rows in order of time cannot be dealt into folds (folds)"),
        (["--split", "group=patent"], "no column 'patent' (t.csv, split); did you mean 'patient'?"),
        (["--split", "stratifed"], "split must be"),
        (["--folds", "99"], "folds must be from 2 to the number of rows, 60, got 99"),
        (["--metric", "acuracy"], "did you mean accuracy?"),
    ],
)
def test_options_that_cannot_be_are_refused_in_one_line(capsys, table, words, said):
    code, out, err = run(capsys, "compare", "softmax-regression", str(table), "--target", "kind", *words)
    last = err.splitlines()[-1]
    assert code == 2 and not out and last.startswith("gnomon: error") and said in last and "baseline" not in last


def test_every_option_is_handed_on(capsys, table, tmp_path, monkeypatch):
    """Each with a value that is not its default, so that one that is lost shows."""
    seen = {}

    def asked(systems, data, **options):
        seen.update(options, systems=systems, data=data)
        return []

    monkeypatch.setattr("gnomon.tasks.compare.compare", asked)
    options = {
        "task": "classify", "target": "kind", "columns": "size,day", "holdout": 0.3, "split": "random",
        "split_seed": 5, "folds": 4, "seeds": 3, "metric": "accuracy", "out": str(tmp_path / "runs"),
    }  # fmt: skip
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    prepared = ["--drop", "patient", "--encode", "ordinal", "--missing", "mean", "--scale", "no"]
    code, _, err = run(capsys, "compare", "decision-tree:max_depth=2", str(table), *words, *prepared)
    assert code == 0, err
    recipe, made = seen.pop("prepare"), seen.pop("systems")
    assert seen == {**options, "columns": ["size", "day"], "data": str(table)}
    assert recipe.to_json() == {"encode": "ordinal", "missing": "mean", "scale": "no", "drop": ["patient"]}
    assert [(one.name, one.max_depth, one.random_state) for one in made] == [("decision-tree", 2, 0)]


def test_a_setting_of_all_systems_may_be_an_option(capsys, table):
    words = ["compare", "decision-tree", "random-forest", str(table), "--target", "kind", "--json"]
    alone = run(capsys, *words[:1], "decision-tree:max_depth=2", "random-forest:max_depth=2", *words[3:])
    for option in (["--max-depth", "2"], ["--max-depth=2"], ["--vary", "max_depth=2"]):
        code, out, _ = run(capsys, *words, *option)
        boards = [json.loads(text)["leaderboards"][0]["lines"] for text in (out, alone[1])]
        found, expected = ({(line["name"], line["settings"]): line["score"] for line in lines} for lines in boards)
        assert code == 0 and found == expected and ("decision-tree", "max_depth=2") in found


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rbm:epochs=2", "ppca", "digits", "--n-hidden", "12"], "stand behind its name: rbm:n_hidden=VALUE"),
        (["rbm", "digits", "--seed", "2"], "unknown option --seed (gnomon compare); did you mean --seeds"),
        (["rbm", "digits", "-q", "2"], "unknown option -q"),
        (["rbm", "digits", "--n-hidden"], "--n-hidden needs a value"),
        (["rbm", "digits", "--n-hidden=3", "--n-hidden", "4"], "--n-hidden is given twice"),
        (["rbm:n_hidden=3", "digits", "--n-hidden", "4"], "n-hidden is given twice (rbm:n_hidden=3,n-hidden=4)"),
        (["rbm", "digits", "--n-hidden", "4", "--vary", "n_hidden=5,6"], "n_hidden is given twice"),
        (["--n-hidden", "4"], "no system to compare"),
    ],
)  # fmt: skip
def test_options_that_cannot_be_are_refused(words, said, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["gnomon", "compare", *words])
    assert command(["compare", *words]) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1
