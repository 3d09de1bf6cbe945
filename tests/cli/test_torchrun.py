"""The command line under torchrun: one folder, one report, the same bits as with --devices."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gnomon


def under_torchrun(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Two processes, as torchrun starts them, without its agent in between."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    words = [sys.executable, "-m", "gnomon", *arguments]
    options = {"cwd": folder, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    second = subprocess.Popen(words, env={**common, "RANK": "1", "LOCAL_RANK": "1"}, **options)
    first = subprocess.Popen(words, env={**common, "RANK": "0", "LOCAL_RANK": "0"}, **options)
    out, err = first.communicate(timeout=120)
    other, told = second.communicate(timeout=120)
    assert not other and not told, f"the second process printed {other}{told}"
    assert first.returncode == second.returncode
    return subprocess.CompletedProcess(words, first.returncode, out, err)


@pytest.mark.slow
def test_one_folder_one_report_and_the_bits_of_two_devices(tmp_path: Path) -> None:
    fit = ("fit", "softmax-regression", "wine", "--epochs", "5", "--random-state", "0")
    done = under_torchrun(tmp_path, *fit, "--out", "joined", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["run"] == "joined"
    assert [file.name for file in tmp_path.iterdir()] == ["joined"]
    assert json.loads((tmp_path / "joined" / "config.json").read_text())["devices"] == 2
    alone = [sys.executable, "-m", "gnomon", *fit, "--out", "spawned", "--devices", "2"]
    subprocess.run(alone, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    one, other = (gnomon.load(tmp_path / name).model_.state() for name in ("joined", "spawned"))
    assert all(np.array_equal(one[name], other[name]) for name in one)
    again = under_torchrun(tmp_path, *fit, "--out", "joined")
    assert again.returncode == 2 and "is not empty" in again.stderr
