"""A fit killed at any moment is resumed to the bit; Ctrl-C leaves a run to go on with."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oracles.killing import MOMENTS, run_jobs

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="signals are POSIX")

KILLS = 5
LONG = {
    "gradient": ["rbm", "digits", "--epochs", "40", "--n-hidden", "12", "--checkpoint-every", "60"],
    "em": ["bernoulli-mixture", "digits", "--max-iter", "150", "--tol", "0", "--checkpoint-every", "4"],
    "closed form": ["ppca", "digits"],
    "counting": ["ngram", "python-reference", "--checkpoint-every", "1"],
}
SHORT = {
    "gradient": ["rbm", "table.csv", "--epochs", "9", "--n-hidden", "3", "--batch-size", "20",
                 "--checkpoint-every", "7"],
    "adam": ["rbm", "table.csv", "--epochs", "5", "--n-hidden", "3", "--optimizer", "adam", "--objective", "cd",
             "--checkpoint-every", "6"],
    "em": ["bernoulli-mixture", "table.csv", "--n-components", "3", "--max-iter", "20", "--tol", "0",
           "--checkpoint-every", "3"],
    "closed form": ["ppca", "table.csv", "--n-components", "2", "--checkpoint-every", "1"],
    "counting": ["ngram", "text.txt", "--checkpoint-every", "1"],
}  # fmt: skip
OFTEN = ("before a step", "checkpoint half written", "checkpoint just renamed", "log line half written")
CHOSEN = {
    "gradient": [(moment, nth) for moment in MOMENTS for nth in ((1, 3) if moment in OFTEN else (1,))],
    "adam": [("before a step", 3), ("checkpoint half written", 3)],
    "em": [("before a step", 1), ("checkpoint half written", 1), ("checkpoint half written", 3),
           ("before the model is written", 1)],
    "closed form": [("before a step", 1), ("checkpoint half written", 1), ("before the model is written", 1)],
    "counting": [("before a step", 1), ("checkpoint half written", 1), ("before the model is written", 1)],
}  # fmt: skip


def write_data(folder: Path) -> None:
    generator = np.random.default_rng(0)
    rows = (generator.random((60, 6)) < generator.random(6)).astype(int)
    lines = ["a,b,c,d,e,f", *(",".join(map(str, row)) for row in rows)]
    (folder / "table.csv").write_text("\n".join(lines) + "\n")
    words = ["sun", "dial", "shadow", "hour", "noon", "casts", "the"]
    sentences = [" ".join(generator.choice(words, size=generator.integers(3, 9))) + "." for _ in range(60)]
    (folder / "text.txt").write_text("\n".join(sentences) + "\n")


def fit(what: list[str], out: Path) -> list[str]:
    return ["fit", *what, "--random-state", "1", "--out", str(out)]


def contents(run: Path) -> dict[str, bytes]:
    """Everything in the folder that the fit has made."""
    return {
        str(file.relative_to(run)): file.read_bytes()
        for file in run.rglob("*")
        if file.is_file() and file.name != "config.json"
    }


def assert_equal(a: Path, b: Path) -> None:
    left, right = contents(a), contents(b)
    assert set(left) >= {"model.safetensors", "state/checkpoint.safetensors"}
    assert set(left) == set(right), "the folders hold other files"
    for name in left:
        assert left[name] == right[name], f"{name} differs"


def killed_five_times(kind: str, folder: Path, first: int) -> list[dict[str, Any]]:
    """A fit, the same fit killed at random moments and resumed as often, and to its end."""
    moments = random.Random(f"moments {kind}")
    out = folder / f"{kind} b"
    jobs: list[dict[str, Any]] = [{"arguments": fit(LONG[kind], folder / f"{kind} a")}]
    for number in range(KILLS):
        arguments = ["resume", str(out)] if number else fit(LONG[kind], out)
        jobs.append({"arguments": arguments, "run": str(out), "after": 0.15 * moments.random(), "of": first})
    return [*jobs, {"arguments": ["resume", str(out)]}]


def killed_at(kind: str, folder: Path) -> list[dict[str, Any]]:
    """A fit, and for each moment a fit that ends there and its resumption."""
    jobs: list[dict[str, Any]] = [{"arguments": fit(SHORT[kind], folder / f"{kind} whole")}]
    for number, (moment, nth) in enumerate(CHOSEN[kind]):
        run = str(folder / f"{kind} {number}")
        jobs.append({"arguments": fit(SHORT[kind], Path(run)), "run": run, "moment": moment, "nth": nth})
        jobs.append({"arguments": ["resume", run]})
    return jobs


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[dict[str, Any]]]]:
    """Folder of the runs, and what became of the jobs; one process carries them all out and pays the imports once."""
    folder = tmp_path_factory.mktemp("killed")
    write_data(folder)
    jobs: list[dict[str, Any]] = []
    places: dict[str, slice] = {}
    for name in [*(f"random {kind}" for kind in LONG), *(f"chosen {kind}" for kind in SHORT)]:
        how, _, kind = name.partition(" ")
        more = killed_five_times(kind, folder, len(jobs)) if how == "random" else killed_at(kind, folder)
        places[name] = slice(len(jobs), len(jobs) + len(more))
        jobs += more
    results = run_jobs(jobs, folder)
    return folder, {name: results[place] for name, place in places.items()}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LONG)
def test_killed_five_times_at_random_moments(kind: str, killed: tuple[Path, dict[str, list[dict[str, Any]]]]) -> None:
    folder, results = killed
    whole, *kills, last = results[f"random {kind}"]
    assert whole["status"] == 0, whole["err"]
    assert last["status"] == 0, last["err"]
    assert [one["status"] for one in kills] == [-signal.SIGKILL] * KILLS, "a fit ended before it was killed"
    assert_equal(folder / f"{kind} a", folder / f"{kind} b")


@pytest.mark.slow
@pytest.mark.parametrize("kind", SHORT)
def test_killed_at_a_chosen_moment(kind: str, killed: tuple[Path, dict[str, list[dict[str, Any]]]]) -> None:
    """Wherever something is half done; where there is no config.json yet, `resume` refuses in one line."""
    folder, results = killed
    first, *rest = results[f"chosen {kind}"]
    assert first["status"] == 0, first["err"]
    for number, (moment, nth) in enumerate(CHOSEN[kind]):
        died, resumed = rest[2 * number : 2 * number + 2]
        assert died["status"] == -signal.SIGKILL, (moment, nth, died)
        run = folder / f"{kind} {number}"
        if moment == "config half written":
            assert resumed["status"] == 2 and resumed["err"].count("\n") == 1, resumed
            assert not run.exists()
            continue
        assert resumed["status"] == 0, (moment, nth, resumed)
        assert_equal(folder / f"{kind} whole", run)


def test_interrupted(tmp_path: Path) -> None:
    """Ctrl-C at three moments: status 130, one line that says how to go on, and the same end."""
    write_data(tmp_path)
    what = ["rbm", "table.csv", "--epochs", "300", "--n-hidden", "3", "--checkpoint-every", "1000000"]
    jobs: list[dict[str, Any]] = [{"arguments": fit(what, tmp_path / "whole")}]
    for number, lines in enumerate((1, 60)):
        run = str(tmp_path / str(number))
        jobs.append({"arguments": fit(what, Path(run)), "run": run, "records": lines})
        jobs.append({"arguments": ["resume", run]})
    early = str(tmp_path / "early")
    jobs.append({"arguments": fit(what, Path(early)), "run": early, "interrupt": 0.0, "of": 0})
    jobs.append({"arguments": ["resume", early]})
    first, *rest = run_jobs(jobs, tmp_path)
    assert first["status"] == 0, first["err"]
    for name, stopped, resumed in zip(("0", "1", "early"), rest[::2], rest[1::2], strict=True):
        assert stopped["status"] == 130, stopped
        assert stopped["err"].splitlines()[-1] == f"gnomon: interrupted; go on with: gnomon resume {tmp_path / name}"
        assert "Traceback" not in stopped["err"]
        assert resumed["status"] == 0, resumed["err"]
        assert_equal(tmp_path / "whole", tmp_path / name)


@pytest.mark.slow
def test_real_processes_killed_five_times(tmp_path: Path) -> None:
    """The same without shared imports, by the command as a user calls it."""
    settings = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    what = ["rbm", "digits", "--epochs", "120", "--n-hidden", "12", "--checkpoint-every", "50"]
    random_ = random.Random(5)

    def start(arguments: list[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-m", "gnomon", *arguments], env=settings, stdout=-3, stderr=-3)

    begun = time.monotonic()
    assert start(fit(what, tmp_path / "a")).wait(timeout=300) == 0
    seconds = time.monotonic() - begun
    run = tmp_path / "b"
    for number in range(KILLS):
        process = start(["resume", str(run)] if number else fit(what, run))
        while not (run / "config.json").exists():
            time.sleep(0.01)
        time.sleep(random_.random() * seconds / 4)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    assert start(["resume", str(run)]).wait(timeout=300) == 0
    assert_equal(tmp_path / "a", run)


@pytest.mark.slow
def test_interrupt_of_two_processes(tmp_path: Path) -> None:
    """Only the first process gets the signal; both stop at one step, and the run ends as an undisturbed one."""
    settings = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src"), "OMP_NUM_THREADS": "1"}
    what = ["rbm", "digits", "--epochs", "12", "--n-hidden", "8", "--devices", "2", "--json"]
    command = [sys.executable, "-m", "gnomon"]
    whole, run = tmp_path / "a", tmp_path / "b"
    assert subprocess.run([*command, *fit(what, whole)], env=settings, capture_output=True, timeout=300).returncode == 0
    process = subprocess.Popen(
        [*command, *fit(what, run)], env=settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    while not (run / "metrics.jsonl").exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert json.loads(out)["exit"] == 130
    assert not (run / "model.safetensors").exists() and (run / "state").is_dir()
    resumed = subprocess.run([*command, "resume", str(run)], env=settings, capture_output=True, timeout=300)
    assert resumed.returncode == 0, resumed.stderr
    assert_equal(whole, run)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.0, 0.7])
def test_interrupted_while_libraries_are_loaded(seconds: float, tmp_path: Path) -> None:
    settings = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    run = tmp_path / "run"
    command = [sys.executable, "-m", "gnomon", *fit(["rbm", "digits", "--epochs", "500"], run)]
    process = subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not (run / "config.json").exists():
        time.sleep(0.005)
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 130 and err == f"gnomon: interrupted; go on with: gnomon resume {run}\n"
