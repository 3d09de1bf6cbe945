"""Two processes: sums, joins and their gradients, one fit on both, and how errors come home. One launch does it all."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gnomon.errors import UserValueError
from gnomon.runs.folder import RunFolder
from gnomon.training.context import context
from gnomon.training.driver import run_procedure
from gnomon.training.gradient import Budget, Gradient
from gnomon.training.group import Group, current
from gnomon.training.launch import launch
from gnomon.training.optimizers import Adam
from oracles.tasks import Counter, Squares, counting_problem, problem

CONFIG = {"kind": "fit", "system": "line", "where": "none:Line", "parameters": {}}


def on_each(folder: str) -> dict[str, Any]:
    """Everything that is asked of two processes."""
    group = current()
    found: dict[str, Any] = {"size": group.size, "ranks": group.gather(np.array([group.rank]))}
    tree = {
        "n": group.rank + 1,
        "x": 0.5 * group.rank,
        "yes": True,
        "a": np.arange(3.0) * group.rank,
        "l": [1, (2.5, np.int32(3))],
    }
    found["sum"] = group.sum(tree)
    found["seed"] = group.sum(2**63 - 1 if group.rank == 0 else 0)
    found["float32"] = group.sum(np.float32([0.1]))
    found["words"] = group.sum(np.array([3 if group.rank == 0 else 0], np.uint64))
    rows = np.arange(6.0).reshape(3, 2) if group.rank == 0 else 10 + np.arange(2.0).reshape(1, 2)
    found["unequal"] = group.gather(rows)
    found["empty"] = group.gather(rows[: 3 if group.rank == 0 else 0])
    found["mask"] = group.gather(np.array([True] * (1 + group.rank)))
    found["gradients"] = group.gather(gradients(group))
    fitted, _ = line(group, None)
    found["line"] = fitted
    stopped = line(group, f"{folder}/line", limit=7)
    found["resumed"] = line(group, f"{folder}/line")[0]
    found["steps"] = stopped[1]
    found["interrupted"] = interrupted(group, f"{folder}/interrupted")
    return found


def gradients(group: Group) -> np.ndarray:
    """Of (sum over processes of 3 x)^2 and of the weighted rows of a join, by each process's own x."""
    x = torch.full((1 + group.rank,), float(group.rank + 1), dtype=torch.float64, requires_grad=True)
    total = group.sum(3 * x.sum())
    # every process computes the same loss of the shared value; its share of it is one of two
    (total**2 / group.size).backward()
    first = x.grad.numpy().copy()
    x.grad = None
    joined = group.gather(x)
    ((joined * torch.arange(1.0, 4.0, dtype=torch.float64)).sum() / group.size).backward()
    return np.concatenate([first, x.grad.numpy()])


def line(group: Group, folder: str | None, limit: int | None = None) -> tuple[np.ndarray, int]:
    """The weighted line's parameters, ragged batches included."""
    run = None
    if folder is not None:
        if group.rank == 0 and not Path(folder).exists():
            RunFolder.create(folder, CONFIG)
        group.sum(0)
        run = RunFolder.open(folder)
    task = problem(Squares(0.3), group=group)
    outcome = run_procedure(Gradient(Adam(), 0.1, Budget(epochs=4)), task, run, limit=limit)
    return np.concatenate([task.model.a.detach().numpy(), task.model.b.detach().numpy()]), outcome.steps


def interrupted(group: Group, folder: str) -> list[int]:
    """Ctrl-C that only the second process hears: both stop after the same step."""
    import os
    import signal

    if group.rank == 0:
        RunFolder.create(folder, CONFIG)
    group.sum(0)
    task = counting_problem()
    object.__setattr__(task, "group", group)
    script = {5: lambda: os.kill(os.getpid(), signal.SIGINT)} if group.rank == 1 else {}
    procedure = Counter(100_000, script=script, every=100_000)
    with contextlib.suppress(KeyboardInterrupt):
        run_procedure(procedure, task, RunFolder.open(folder))
    return group.gather(np.array([procedure.taken])).tolist()


def test_two_processes(tmp_path: Path) -> None:
    found = launch(on_each, str(tmp_path), devices=2)
    assert found["size"] == 2 and found["ranks"].tolist() == [0, 1]
    total = found["sum"]
    assert (total["n"], total["x"], total["a"].tolist()) == (3, 0.5, [0.0, 1.0, 2.0])
    assert total["l"][0] == 2 and isinstance(total["l"][1], tuple) and total["l"][1][0] == 5.0 and total["l"][1][1] == 6
    assert type(total["n"]) is int and type(total["x"]) is float
    assert found["seed"] == 2**63 - 1 and found["words"].tolist() == [3] and found["words"].dtype == np.uint64
    assert found["float32"].dtype == np.float32
    assert found["unequal"].tolist() == [[0, 1], [2, 3], [4, 5], [10, 11]]
    assert found["empty"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert found["mask"].tolist() == [True] * 3 and found["mask"].dtype == bool
    # total = 3 (1 + 2 + 2) = 15: 2 * 15 * 3 = 90 for every x; the join's weights are 1 | 2, 3
    assert found["gradients"].tolist() == [90.0, 1.0, 90.0, 90.0, 2.0, 3.0]
    alone, _ = line(Group(), None)
    assert np.allclose(found["line"], alone, rtol=0, atol=1e-12)
    assert found["steps"] == 7 and found["resumed"].tobytes() == found["line"].tobytes()
    first, second = found["interrupted"]
    assert first == second and 5 <= first <= 5 + 16
    assert (RunFolder.open(tmp_path / "interrupted").read_checkpoint() or ({}, {}))[1]["steps"] == first


def fails(kind: str) -> None:
    """Only the first process fails; the second would wait for it for ever."""
    group = current()
    if group.rank == 0:
        if kind == "user":
            raise UserValueError("X must be in [0, 1], got 5", "row 3, column 1", "scale it")
        raise ZeroDivisionError("a fault of ours")
    if kind != "user":
        time.sleep(60)  # stopped by its parent; a sum would fail as well, and sometimes first
    group.sum(0)


def test_errors_come_home(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserValueError) as caught:
        launch(fails, "user", devices=2)
    assert str(caught.value) == "X must be in [0, 1], got 5 (row 3, column 1); scale it"
    assert (caught.value.what, caught.value.where) == ("X must be in [0, 1], got 5", "row 3, column 1")
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_faults_come_home_with_their_traceback() -> None:
    with pytest.raises(RuntimeError, match="a fault of ours") as fault:
        launch(fails, "fault", devices=2)
    assert "ZeroDivisionError" in str(fault.value) and "in fails" in str(fault.value)


def test_one_process_is_this_one() -> None:
    assert launch(lambda a: a + 1, 2, devices=1) == 3
    with pytest.raises(UserValueError, match="at least 1"):
        launch(on_each, devices=0)


def test_a_group_of_one_changes_nothing() -> None:
    x = np.arange(3.0)
    assert Group().sum(x) is x and Group().gather(x) is x
    with context(verbose=False):
        assert current().size == 1


@pytest.mark.parametrize("devices", [0, 10_000])
def test_a_number_of_processes_that_makes_no_sense(devices):
    with pytest.raises(UserValueError, match=f"devices must be at .*, got {devices}"):
        launch(int, devices=devices)


def seeds_of_a_fit() -> list[tuple[int, Any]]:
    """What each kind of seed becomes in this process or group, and means of a fit that follow from it."""
    from gnomon.systems.mixtures.bernoulli_mixture import BernoulliMixture

    X = (np.random.default_rng(0).random((20, 4)) < 0.5).astype(float)
    seeds: list[Any] = [5, -1, 2**63 + 11, 2**64 - 1, 2**70, np.random.default_rng(3)]
    fits = [BernoulliMixture(n_components=2, max_iter=2, tol=0, random_state=seed).fit(X) for seed in seeds]
    return [(fit.seed_, fit.means_.round(9).tolist()) for fit in fits]


def test_every_seed_means_the_same_on_two_processes() -> None:
    assert launch(seeds_of_a_fit, devices=2) == seeds_of_a_fit()


@pytest.mark.slow
def test_a_script_that_launches_itself_is_told_so(tmp_path: Path) -> None:
    """Every new process ran the script again, and a fault of gnomon's was reported."""
    (tmp_path / "s.py").write_text("import gnomon\ngnomon.launch(print, 3, devices=2)\n")
    run = subprocess.run([sys.executable, str(tmp_path / "s.py")], capture_output=True, text=True, timeout=120)
    assert run.returncode == 1 and run.stderr.count("Traceback") == 1
    assert run.stderr.splitlines()[-1].endswith('call it under if __name__ == "__main__":')
