"""list, info, help and the errors of the command line; nothing here may import NumPy or torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gnomon.catalog import ENTRIES, find
from gnomon.cli.main import VERBS, run

SRC = str(Path(__file__).parents[2] / "src")


def gnomon(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own."""
    settings = {**os.environ, "PYTHONPATH": SRC, **environment}
    return subprocess.run([sys.executable, "-m", "gnomon", *arguments], capture_output=True, env=settings, timeout=120)


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Status, standard output and standard error of the command in this process."""
    status = run(arguments)
    out, err = capsys.readouterr()
    return status, out, err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["list"],
        ["list", "玻尔兹曼"],
        ["info", "rbm"],
        ["fit", "rbm", "--help"],
        ["fit", "--help"],
        ["data"],
    ],
)
def test_light_commands_import_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom gnomon.cli.main import run\n"
        f"status = run({arguments!r})\n"
        "heavy = {'numpy', 'torch', 'scipy', 'sklearn', 'numba', 'polars'} & set(sys.modules)\n"
        "sys.exit(f'heavy: {heavy}' if heavy else status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, env={**os.environ, "PYTHONPATH": SRC}, timeout=120
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout


def test_config_is_written_before_anything_heavy_is_imported() -> None:
    """With tuples and a recipe with fields of its own, which take the same codec as in a fit from Python."""
    code = (
        "import sys, json\n"
        "from gnomon.catalog import card, entry\nfrom gnomon.cli.fit import config\n"
        "from gnomon.cli.options import resolve_values\n"
        "given = {'hidden': '8x4', 'optimizer': 'adam', 'optimizer.beta1': '0.5'}\n"
        "params = resolve_values(card('mlp'), given, 'mlp')\n"
        "names = ('target', 'columns', 'resize', 'checkpoint_every', 'device', 'precision', 'micro_batch', 'monitor')\n"
        "rest = dict.fromkeys(names)\n"
        "rest |= {'encode': 'one-hot', 'missing': 'median', 'scale': 'auto'}\n"
        "rest |= {'text': 'none', 'words': 1000, 'text_unit': 'auto'}\n"
        "options = {**rest, 'holdout': 0.2, 'split': None, 'split_seed': 0, 'devices': 1}\n"
        "made = config(entry('mlp'), card('mlp'), 'iris', params, options)\n"
        "print(json.dumps(dict(made.parameters)))\n"
        "heavy = {'numpy', 'torch', 'scipy', 'sklearn', 'numba', 'polars'} & set(sys.modules)\n"
        "sys.exit(f'heavy: {heavy}' if heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, env={**os.environ, "PYTHONPATH": SRC}, timeout=120
    )
    assert done.returncode == 0, done.stderr.decode()
    from gnomon.runs.codecs import encode
    from gnomon.training.optimizers import Adam

    assert json.loads(done.stdout) == encode({"hidden": (8, 4), "optimizer": Adam(beta1=0.5)}) | {
        "optimizer": {"__recipe__": "gnomon.training.optimizers:Adam", "fields": {"beta1": 0.5}}
    }


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = call(capsys, "--help")
    assert (status, err) == (0, "")
    assert all(f"  {verb}" in out for verb in VERBS)


@pytest.mark.parametrize("verb", list(VERBS))
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = call(capsys, verb, "--help")
    assert (status, err) == (0, "")
    assert out.startswith(f"Usage: gnomon {verb}")


def test_no_arguments_shows_help(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call(capsys)
    assert status == 0 and out.startswith("Usage: gnomon")


@pytest.mark.parametrize("system", [entry.name for entry in ENTRIES])
def test_fit_help_has_an_option_for_every_parameter(system: str, capsys: pytest.CaptureFixture[str]) -> None:
    from gnomon.catalog import card

    status, out, _ = call(capsys, "fit", system, "--help")
    assert status == 0
    for p in card(system).parameters:
        assert f"--{p.option} " in out
    assert all(name in out for name in ("--out", "--target", "--holdout", "--devices", "--json"))


def test_fit_help_shows_types_ranges_and_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join(call(capsys, "fit", "rbm", "--help")[1].split())
    assert "[a whole number in [1, inf); default 64]" in text
    assert "[cd | cd-percloss | centered | " in text and "default pcd]" in text
    assert "--objective.n-chains" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["fit", "rbm", "digits", "--n-hiden", "3"],
            "unknown option --n-hiden (gnomon fit rbm); did you mean --n-hidden?",
        ),
        (["fit", "rmb", "digits"], "unknown system 'rmb'; did you mean rbm?"),
        (["info", "hmcc"], "unknown system or part 'hmcc'; did you mean HMC?"),
        (["list", "parts", "inferrence"], "unknown room 'inferrence'; did you mean inference?"),
        (["list", "parts", "nn", "--task", "classify"], "parts have no task (--task); leave it out"),
        (["fit", "rbm"], "missing argument 'DATA'"),
        (["fit", "rbm", "digits", "--n-hidden", "0"], "--n-hidden must be a whole number in [1, inf), got '0'"),
        (
            ["fit", "rbm", "digits", "--n-hidden", "3.5"],
            "--n-hidden must be a whole number in [1, inf), got '3.5'",
        ),
        (["fit", "rbm", "digits", "--learning-rate", "nan"], "--learning-rate must be a number in (0, inf), got 'nan'"),
        (["fit", "rbm", "digits", "--objective", "pdc"], "unknown objective 'pdc' (--objective); did you mean pcd?"),
        (
            ["fit", "rbm", "digits", "--objective", "exact", "--objective.k", "2"],
            "choose --objective cd or cd-percloss or fpcd",
        ),
        (["fit", "rbm", "digits", "--holdout", "1"], "--holdout must be in [0, 1), got"),
        (["fit", "rbm", "digits", "--devices", "0"], "--devices"),
        (["ift"], "unknown command 'ift'; did you mean fit?"),
        (["list", "--task", "densty"], "unknown task 'densty'"),
        (["info", "a", "b"], "unexpected extra argument"),
        (["info", "rmb"], "did you mean rbm?"),
        (["resume", "no/such/run"], "no/such/run does not exist"),
        (["evaluate", "no/such/run"], "no/such/run does not exist"),
        (["data", "digitz"], "did you mean 'digits'?"),
        (["compare", "digits"], "name at least one system"),
        (["compare", "rbm:n_hiden=3", "digits"], "n_hidden"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = call(capsys, *arguments)
    assert status == 2
    assert out == ""
    assert err.startswith("gnomon: error: ") and err.count("\n") == 1 and err.endswith("\n")
    assert said in err
    assert not list(tmp_path.iterdir())


def test_a_mistake_under_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = call(capsys, "info", "rmb", "--json")
    assert status == 2
    assert err.count("\n") == 1
    found = json.loads(out)
    assert found["exit"] == 2
    assert found["error"]["what"] == "unknown system or part 'rmb'" and found["error"]["remedy"] == "did you mean rbm?"


def test_list_finds_words_in_both_languages_and_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    found = {
        word: [one["name"] for one in json.loads(call(capsys, "list", *word.split(), "--json")[1])["systems"]]
        for word in ("玻尔兹曼", "BOLTZMANN", "GEN-005", "--task cluster", "nothing-like-it")
    }
    for word in ("玻尔兹曼", "BOLTZMANN", "GEN-005"):
        assert found[word] == [one.name for one in find(word)] and "rbm" in found[word]
    assert found["--task cluster"] == [one.name for one in find(task="cluster")]
    assert "kmeans" in found["--task cluster"] and "rbm" not in found["--task cluster"]
    assert found["nothing-like-it"] == []


def test_info_shows_parameters_verbs_and_rows(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(call(capsys, "info", "rbm", "--json")[1])
    hidden = next(p for p in found["parameters"] if p["name"] == "n_hidden")
    assert (hidden["values"], hidden["default"]) == ("a whole number in [1, inf)", 64)
    assert {"fit", "energy", "sample", "evaluate"} <= set(found["verbs"])
    assert {"cd", "exact", "pcd"} <= {recipe["name"] for recipe in found["recipes"]["objective"]}
    text = call(capsys, "info", "rbm")[1]
    assert all(part in text for part in ("受限玻尔兹曼机", "--n-hidden", "default 64", "GEN-005", "gnomon.RBM"))


def test_info_keeps_the_indent_of_wrapped_lines(capsys: pytest.CaptureFixture[str]) -> None:
    lines = call(capsys, "info", "rbm")[1].splitlines()
    first = next(i for i, line in enumerate(lines) if line.lstrip().startswith("clamped: The data held"))
    depth = len(lines[first]) - len(lines[first].lstrip())
    assert lines[first + 1].startswith(" " * (depth + 2)) and lines[first + 1][depth + 2] != " "


def test_a_fault_of_ours_is_status_1_with_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import gnomon.cli.list as verb

    def broken(*_: object) -> None:
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(verb, "find", broken)
    status, out, err = call(capsys, "list", "--json")
    assert status == 1
    assert "Traceback" in err and "broken on purpose" in err
    assert json.loads(out)["exit"] == 1


def test_interrupt_is_status_130(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import gnomon.cli.list as verb

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(verb, "find", interrupted)
    status, _, err = call(capsys, "list")
    assert status == 130
    assert "Traceback" not in err


@pytest.mark.skipif(sys.platform == "win32", reason="pipes and /dev/full are POSIX")
class TestOutput:
    """The terminal, pipe or disk at the other end."""

    def test_a_closed_pipe_is_no_traceback(self) -> None:
        read, write = os.pipe()
        os.close(read)
        settings = {**os.environ, "PYTHONPATH": SRC}
        done = subprocess.run(
            [sys.executable, "-m", "gnomon", "info", "rbm"],
            stdout=write,
            stderr=subprocess.PIPE,
            env=settings,
            timeout=120,
        )
        os.close(write)
        assert done.returncode == 141
        assert done.stderr == b""

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
    def test_a_full_disk_is_one_line(self) -> None:
        settings = {**os.environ, "PYTHONPATH": SRC}
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [sys.executable, "-m", "gnomon", "list"], stdout=full, stderr=subprocess.PIPE, env=settings, timeout=120
            )
        assert done.returncode == 2
        assert done.stderr.startswith(b"gnomon: error: cannot write the output") and done.stderr.count(b"\n") == 1

    @pytest.mark.parametrize(
        "environment", [{"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}]
    )
    def test_a_terminal_without_utf8_is_no_traceback(self, environment: dict[str, str]) -> None:
        done = gnomon("list", **environment)
        assert done.returncode == 0, done.stderr
        assert b"rbm" in done.stdout and b"Traceback" not in done.stderr

    def test_words_of_an_unknown_encoding_are_read_as_utf8(self) -> None:
        done = gnomon("list", "玻尔兹曼", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
        assert done.returncode == 0 and b"rbm" in done.stdout, done.stderr

    def test_closed_streams_are_no_traceback(self) -> None:
        settings = {**os.environ, "PYTHONPATH": SRC}
        for closed in (">&-", "2>&-"):
            shell = f'"{sys.executable}" -m gnomon info rmb {closed}'
            done = subprocess.run(["sh", "-c", shell], capture_output=True, env=settings, timeout=120)
            assert done.returncode == 2
            assert b"Traceback" not in done.stderr

    def test_json_is_ascii(self) -> None:
        done = gnomon("list", "--json")
        assert json.loads(done.stdout.decode("ascii"))["systems"]


@pytest.mark.parametrize("system", ["rbm", "gaussian-rbm", "label-rbm", "dbm", "boltzmann-machine"])
def test_a_slot_that_takes_its_like_is_shown_once(capsys: pytest.CaptureFixture[str], system: str) -> None:
    """The centered gradient takes any objective, itself too: the list of what fits must end."""
    code, text = call(capsys, "info", system)[:2]
    assert code == 0 and "--objective.inner" in text and "--objective.inner.inner" not in text
    code, text = call(capsys, "info", system, "--json")[:2]
    recipes = {one["name"]: one for one in json.loads(text)["recipes"]["objective"]}
    assert code == 0 and "recipes" not in recipes["centered"] and "growth" in recipes["pcd"]["recipes"]
    steps = {one["name"]: one for one in recipes["pcd"]["recipes"]["growth"]}
    assert not steps["fixed"]["parameters"]
    assert {p["name"]: p["values"] for p in steps["rising"]["parameters"]}["per"] == "epoch | update"
