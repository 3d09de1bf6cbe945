"""What happens to a run from outside: another process, a full disk, an end by the system; it goes on to the bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gnomon
from gnomon.cli.main import run as gnomon_command
from gnomon.errors import UserValueError
from gnomon.runs.folder import RunFolder

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals are POSIX")
COMMAND = [sys.executable, "-m", "gnomon"]
LONG = ["rbm", "digits", "--n-hidden", "12", "--checkpoint-every", "20", "--random-state", "1", "--epochs"]


def test_two_fits_into_one_folder(tmp_path: Path) -> None:
    X = np.eye(6, dtype=np.float32)
    refused: list[str] = []

    def second(step: int, record: Any) -> None:
        if step == 1:
            with pytest.raises(UserValueError) as caught:
                gnomon.resume(tmp_path / "r", X)
            refused.append(str(caught.value))

    with gnomon.context(callbacks=(second,)):
        whole = gnomon.RBM(n_hidden=2, epochs=3, random_state=0).fit(X, run=tmp_path / "r")
    assert refused == [
        f"another process is fitting into {tmp_path / 'r'} (run); wait for its end, or choose another folder"
    ]
    assert np.array_equal(gnomon.load(tmp_path / "r").log_prob(X), whole.log_prob(X))
    with RunFolder.open(tmp_path / "r").claimed():
        pass


def begun(words: list[str], run: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [*COMMAND, "fit", *words, "--out", str(run)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not (run / "metrics.jsonl").exists() and process.poll() is None:
        time.sleep(0.02)
    return process


def assert_it_goes_on(run: Path, epochs: str, tmp_path: Path, *more: str) -> None:
    assert subprocess.run([*COMMAND, "resume", str(run)], capture_output=True).returncode == 0
    whole = [*COMMAND, "fit", *LONG, epochs, *more, "--out", str(tmp_path / "whole")]
    assert subprocess.run(whole, capture_output=True).returncode == 0
    assert (run / "model.safetensors").read_bytes() == (tmp_path / "whole" / "model.safetensors").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=str)
def test_ended_by_the_system(number: signal.Signals, tmp_path: Path) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("these tests run under nohup, which ignores the signal, and so do their children")
    process = begun([*LONG, "400"], tmp_path / "r")
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == -number
    assert_it_goes_on(tmp_path / "r", "400", tmp_path)


@pytest.mark.slow
def test_a_full_disk(tmp_path: Path) -> None:
    """No file may grow beyond 2,000 bytes: the checkpoint does not fit."""
    small = (
        "import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000)); "
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    words = [*COMMAND[1:], "fit", *LONG, "5", "--out", str(tmp_path / "r")]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.run(
        [sys.executable, "-c", small, *words], capture_output=True, text=True, timeout=120, env=environment
    )
    err = process.stderr
    lines = [line for line in err.splitlines() if line.startswith("gnomon: error: ")]
    assert process.returncode == 2 and len(lines) == 1 and "cannot write" in lines[0], err
    assert "Traceback" not in err


@pytest.mark.slow
def test_one_of_two_processes_is_killed(tmp_path: Path) -> None:
    """One line says which process died and how to go on."""
    process = begun([*LONG, "12", "--devices", "2"], tmp_path / "r")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    workers = [int(c) for c in children if b"spawn_main" in Path(f"/proc/{c}/cmdline").read_bytes()]
    os.kill(workers[1], signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    *progress, last = err.splitlines(keepends=True)
    assert all(line.startswith("rbm: step ") for line in progress)
    assert last == (
        "gnomon: error: process 1 of 2 was killed (SIGKILL), the others were stopped; "
        f"go on with: gnomon resume {tmp_path / 'r'}\n"
    )
    assert_it_goes_on(tmp_path / "r", "12", tmp_path, "--devices", "2")


def test_a_refusal_at_the_first_step_leaves_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Weights for three classes of two: the checkpoint of the start was there, and the folder stayed."""
    rows = "\n".join(f"{i % 7},{i % 2}" for i in range(40))
    (tmp_path / "t.csv").write_text(f"a,y\n{rows}\n")
    options = ["--target", "y", "--epochs", "1", "--loss.class-weight", "1x2x3", "--out", str(tmp_path / "run")]
    assert gnomon_command(["fit", "mlp", str(tmp_path / "t.csv"), *options]) == 2
    assert "one per class" in capsys.readouterr().err
    assert sorted(one.name for one in tmp_path.iterdir()) == ["t.csv"]
