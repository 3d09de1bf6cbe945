"""Ctrl-C while a library fits: answered at once, in Python and on the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import sklearn
from threadpoolctl import threadpool_limits

import gnomon
from gnomon.errors import UserError
from gnomon.numeric.threads import controller
from gnomon.training.interrupts import answered

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals are POSIX")


def interrupt_after(seconds: float) -> None:
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()


def test_work_is_told_to_end_and_the_interruption_surfaces() -> None:
    looked: list[int] = []

    def work() -> None:
        while len(looked) < 2000:
            looked.append(1)
            time.sleep(0.01)

    interrupt_after(0.2)
    with pytest.raises(KeyboardInterrupt):
        answered(work)
    count = len(looked)
    time.sleep(0.1)
    assert len(looked) == count < 2000, "the work goes on"


def test_a_fit_into_a_folder_is_interrupted_in_its_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E15: Ctrl-C in a random forest, nothing for 70 s."""
    X, y = np.arange(20.0)[:, None], np.arange(20) % 2
    system = gnomon.RandomForest(n_trees=2, random_state=0)

    steps: list[int] = []

    def slow(*ignored: object) -> None:
        while len(steps) < 2000:
            steps.append(1)
            time.sleep(0.01)

    with monkeypatch.context() as patched:
        patched.setattr("gnomon.system.library.LibraryModel.fit", slow)
        interrupt_after(0.3)
        with pytest.raises(KeyboardInterrupt):
            system.fit(X, y, run=tmp_path / "run")
        assert len(steps) < 2000
    resumed = gnomon.resume(tmp_path / "run", X, y)
    expected = gnomon.RandomForest(n_trees=2, random_state=0).fit(X, y).predict_proba(X)
    assert np.array_equal(resumed.predict_proba(X), expected)


def test_the_work_sees_the_settings_of_the_caller() -> None:
    def pools() -> list[int]:
        return [pool.num_threads for pool in controller().lib_controllers if pool.user_api == "openmp"]

    with sklearn.config_context(assume_finite=True), threadpool_limits(1), gnomon.context(checkpoint_every=7):
        from gnomon.training.context import current

        found = answered(lambda: (sklearn.get_config()["assume_finite"], pools(), current().checkpoint_every))
    assert found == (True, [1] * len(found[1]), 7)
    assert threading.current_thread() is threading.main_thread()


def test_errors_of_the_work_are_the_callers() -> None:
    with pytest.raises(UserError, match="so it is"):
        answered(lambda: (_ for _ in ()).throw(UserError("so it is")))


@pytest.mark.slow
@pytest.mark.parametrize("system", ["random-forest", "svm"])
def test_the_command_ends_in_the_middle_of_a_librarys_fit(system: str, tmp_path: Path) -> None:
    """E15: trees look up between two of them, an SVM is one call of compiled code."""
    generator = np.random.default_rng(0)
    rows = np.column_stack([generator.normal(size=(30_000, 12)), generator.integers(0, 2, 30_000)])
    names = ",".join([*(f"x{i}" for i in range(12)), "y"])
    np.savetxt(tmp_path / "big.csv", rows, delimiter=",", header=names, comments="", fmt="%.6g")
    words = ["fit", system, "big.csv", "--target", "y", "--out", "run", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "gnomon", *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    fitting = f"{system}: "
    assert process.stderr is not None
    lines = iter(process.stderr.readline, "")
    assert "so far" in next((line for line in lines if line.startswith(fitting)), "")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "gnomon: interrupted; go on with: gnomon resume run\n"
    assert json.loads(out)["exit"] == 130
