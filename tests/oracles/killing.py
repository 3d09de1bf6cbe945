"""Run commands of gnomon in processes that die at a chosen moment.

As a script it reads jobs as JSON from standard input, runs each in a fork of its own (so that the imports are paid for
once, and nothing else is shared) and writes what became of them as JSON. A job has ``arguments``, what follows
``gnomon``, and one of

- ``moment`` and ``nth``: the process kills itself when it comes to that moment for the nth time (see `MOMENTS`);
- ``after``: it is killed that long after the folder ``run`` holds a config.json, as a share of the time that the job
  number ``of`` took;
- ``interrupt``: the same, by SIGINT; ``records``: by SIGINT when the log has so many lines;
- nothing of these: it runs to its end.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def run_jobs(jobs: list[dict[str, Any]], cwd: Path) -> list[dict[str, Any]]:
    """Status (negative: the signal), standard output and error of each job, in order."""
    source = Path(__file__).parents[2] / "src"
    settings = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        cwd=cwd,
        env=settings,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def die() -> None:
    """As by a power cut: no handler, no clean-up, no flush."""
    os.kill(os.getpid(), signal.SIGKILL)


class Countdown:
    """Die at the nth call."""

    def __init__(self, nth: int) -> None:
        self.left = nth

    def __call__(self, *ignored: Any) -> None:
        self.left -= 1
        if self.left == 0:
            die()


def before(owner: Any, name: str, act: Any) -> None:
    """Let `act` run before every call of a function."""
    inner = getattr(owner, name)

    def outer(*arguments: Any, **options: Any) -> Any:
        act(*arguments)
        return inner(*arguments, **options)

    setattr(owner, name, outer)


def half_written(suffix: str, count: Countdown) -> None:
    """Die when half of a file is on disk under its temporary name."""
    from gnomon.runs import folder

    inner = folder.write_atomically
    writing: list[Path] = []
    sync = os.fsync

    def write(path: Path, content: bytes) -> None:
        writing.append(path)
        inner(path, content)
        writing.pop()

    def half(handle: int) -> None:
        if writing and writing[-1].name == suffix and count.left == 1:
            os.ftruncate(handle, os.fstat(handle).st_size // 2)
        sync(handle)
        if writing and writing[-1].name == suffix:
            count()

    folder.write_atomically = write
    folder.os.fsync = half


def after_rename(suffix: str, count: Countdown) -> None:
    """Die when the file has just got its name."""
    from gnomon.runs import folder

    inner = os.replace

    def replace(source: Any, target: Any) -> None:
        inner(source, target)
        if Path(target).name == suffix:
            count()

    folder.os.replace = replace


def half_a_line(count: Countdown) -> None:
    """Die when half of a line of the log is written."""
    from gnomon.runs import folder

    inner = folder._line

    def line(record: Any) -> bytes:
        whole = inner(record)
        logged = sys._getframe(2).f_code.co_name == "log"
        if count.left == 1 and logged:
            with (ARGUMENTS.run / "metrics.jsonl").open("ab") as file:
                file.write(whole[: len(whole) // 2])
        if logged:
            count()
        return whole

    folder._line = line


class ARGUMENTS:
    """What the job under way was given."""

    run = Path()


def steps(count: Countdown) -> None:
    """Die before a step."""
    from gnomon.training import counting, em, gradient

    for kind in (gradient.Gradient, em.ClosedForm, em.EM, counting.Counting):
        if "step" in vars(kind):
            before(kind, "step", count)


def _on(where: str, name: str) -> Any:
    def arm(count: Countdown) -> None:
        import importlib

        module, _, owner = where.partition(":")
        found = importlib.import_module(module)
        before(getattr(found, owner) if owner else found, name, count)

    return arm


MOMENTS = {
    "config half written": lambda count: half_written("config.json", count),
    "data about to be read": _on("gnomon.tasks.fitting", "dataset_of"),
    "before a step": steps,
    "checkpoint half written": lambda count: half_written("checkpoint.safetensors", count),
    "checkpoint just renamed": lambda count: after_rename("checkpoint.safetensors", count),
    "log line half written": half_a_line,
    "before the model is written": _on("gnomon.runs.folder:RunFolder", "write_model"),
    "model half written": lambda count: half_written("model.safetensors", count),
    "model just renamed": lambda count: after_rename("model.safetensors", count),
}
"""Moments at which a process can be told to die."""


def child(job: dict[str, Any], out: int, err: int) -> None:
    os.dup2(out, 1)
    os.dup2(err, 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from gnomon.cli.main import run

    ARGUMENTS.run = Path(job.get("run", ""))
    if "moment" in job:
        MOMENTS[job["moment"]](Countdown(job.get("nth", 1)))
    status = run(job["arguments"])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def carry_out(job: dict[str, Any], seconds: list[float]) -> dict[str, Any]:
    files = [os.memfd_create(name) if hasattr(os, "memfd_create") else _scratch() for name in ("out", "err")]
    pid = os.fork()
    if pid == 0:
        try:
            child(job, *files)
        finally:
            os._exit(99)
    begun, status = time.monotonic(), None
    wanted = [kind for kind in ("after", "interrupt", "records") if kind in job]
    if wanted:
        run = Path(job["run"])
        if wanted == ["records"]:
            status = _alive_until(pid, run / "metrics.jsonl", 0, lines=job["records"])
        else:
            status = _alive_until(pid, run / "config.json", job[wanted[0]] * seconds[job["of"]])
        if status is None:
            os.kill(pid, signal.SIGKILL if wanted == ["after"] else signal.SIGINT)
    if status is None:
        status = os.waitpid(pid, 0)[1]
    seconds.append(time.monotonic() - begun)
    texts = [os.pread(file, os.fstat(file).st_size, 0).decode() for file in files]
    for file in files:
        os.close(file)
    return {"status": os.waitstatus_to_exitcode(status), "out": texts[0], "err": texts[1]}


def _scratch() -> int:
    import tempfile

    return os.dup(tempfile.TemporaryFile().fileno())


def _alive_until(pid: int, file: Path, seconds: float, *, lines: int = 0) -> int | None:
    """Wait for the file (with so many lines) and then for so long; the status if the process ended before that."""
    until = None
    while until is None or time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        if until is None and file.exists() and (not lines or file.read_bytes().count(b"\n") >= lines):
            until = time.monotonic() + seconds
        time.sleep(0.001)
    return None


def warm_up() -> None:
    """Import what fits import, and load their compiled kernels; no backward pass, which would forbid to fork."""
    import numpy as np

    import gnomon.systems.linear.softmax_regression
    import gnomon.tasks.fitting
    import gnomon.training.counting

    X = (np.arange(12.0).reshape(6, 2) % 5 > 2).astype(float)
    for name in ("RBM", "BernoulliMixture", "PPCA"):
        small = {"epochs": 1} if name == "RBM" else {"n_components": 1}
        getattr(gnomon, name)(random_state=0, **small).fit(X.astype(np.float32)).evaluate(X)


if __name__ == "__main__":
    warm_up()
    seconds: list[float] = []
    results = [carry_out(job, seconds) for job in json.load(sys.stdin)]
    json.dump(results, sys.stdout)
