"""Chains as runs: killed anywhere they end bitwise as if nothing had happened; Ctrl-C keeps what is there; refusals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import gnomon
from gnomon.errors import UserError, UserValueError
from gnomon.inference.mcmc.hamiltonian import HMC
from gnomon.inference.mcmc.metropolis import MetropolisHastings, RandomWalk
from gnomon.inference.mcmc.replica_exchange import ParallelTempering
from gnomon.tasks.chains import load_draws, sample_chain
from oracles.toys import tiny_rbm


def bell(x):
    return -0.5 * (x * x).sum(-1)


def wide(x):
    return -0.125 * (x * x).sum(-1)


def options(**more):
    return {"start": 2, "chains": 3, "draws": 60, "burn_in": 40, "thin": 2, "random_state": 5, **more}


def same(one, other):
    assert one.values.keys() == other.values.keys() and one.info.keys() == other.info.keys()
    for name, x in one.values.items():
        assert x.dtype == other.values[name].dtype and np.array_equal(x, other.values[name]), name
    for name, x in one.info.items():
        assert x.dtype == other.info[name].dtype and np.array_equal(x, other.info[name]), name


@pytest.fixture(scope="module")
def whole():
    return sample_chain(bell, **options())


def test_a_run_changes_nothing_and_is_read_back(tmp_path, whole):
    found = gnomon.sample_chain(bell, run=tmp_path / "a", **options())
    same(found, whole)
    read = gnomon.load_draws(tmp_path / "a")
    same(read, whole)
    assert (read.draws == found.draws).all() and read.table() == found.table()
    assert {"seed": 5, "burn_in": 40, "thin": 2, "chains": 3, "wanted": 60}.items() <= read.facts.items()
    config = json.loads((tmp_path / "a" / "config.json").read_text())
    assert config["kind"] == "chains" and config["format"] == 1 and config["kernel"]["steps"] == 10
    assert config["kernel"]["type"].endswith(":HMC") and "torch" in config["versions"]
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["config.json", "draws.safetensors"]


@pytest.mark.parametrize("kernel", ["hmc", "metropolis", "sites", "gibbs", "tempering"])
def test_more_draws_go_on_bitwise(tmp_path, kernel):
    target, start = (tiny_rbm(), None) if kernel in ("gibbs", "sites") else (bell, 2)
    if kernel == "sites":
        start = 3
    given = options(start=start, kernel=kernel)
    whole = sample_chain(target, **given)
    sample_chain(target, run=tmp_path / "a", **{**given, "draws": 13})
    more = sample_chain(target, kernel, run=tmp_path / "a", resume=True, draws=60)
    same(more, whole)
    same(load_draws(tmp_path / "a"), whole)
    assert sample_chain(target, kernel, run=tmp_path / "a", resume=True).shape == (3, 60)  # the new count is remembered


def test_tensors_go_on_as_tensors(tmp_path):
    given = options(start=torch.zeros(3, 2, dtype=torch.float32))
    whole = sample_chain(bell, **given)
    sample_chain(bell, run=tmp_path / "a", **{**given, "draws": 7})
    found = sample_chain(bell, run=tmp_path / "a", resume=True, draws=60)
    same(found, whole)
    assert found.draws.dtype == np.float32 and isinstance(found.walk.state["x"], torch.Tensor)


SCRIPT = """
import os, signal, sys, warnings
import gnomon
import gnomon.runs.atomic
from gnomon.tasks.chains import sample_chain

run, nth, how = sys.argv[1], int(sys.argv[2]), sys.argv[3]
calls = 0

def bell(x):
    global calls
    calls += 1
    if how == "step" and calls == nth:
        os.kill(os.getpid(), signal.SIGKILL)
    return -0.5 * (x * x).sum(-1)

writes = 0
replace = os.replace

def counted(source, target):
    global writes
    writes += 1
    if how == "before" and writes == nth:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
    if how == "after" and writes == nth:
        os.kill(os.getpid(), signal.SIGKILL)

os.replace = counted
with gnomon.context(checkpoint_every=7):
    sample_chain(bell, start=2, chains=3, draws=60, burn_in=40, thin=2, random_state=5, run=run, resume=True)
"""


@pytest.mark.parametrize(
    ("how", "nth"),
    [
        ("step", 150),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in (("step", 700), ("after", 4), ("before", 15))),
    ],
)
def test_killed_chains_end_as_if_nothing_had_happened(tmp_path, whole, how, nth):
    """SIGKILL in burn-in and behind it, in a step, before and after a checkpoint gets its name."""
    run = tmp_path / "a"
    ended = subprocess.run([sys.executable, "-c", SCRIPT, str(run), str(nth), how])
    assert ended.returncode == -signal.SIGKILL
    found = sample_chain(bell, run=run, resume=True, draws=60)
    same(found, whole)
    assert not list(run.glob(".tmp-*"))


def _after(steps, walk_on=bell):
    """A log density that presses Ctrl-C in its so-manieth call."""
    calls = []

    def target(x):
        calls.append(1)
        if len(calls) == steps:
            os.kill(os.getpid(), signal.SIGINT)
        return walk_on(x)

    return target


@pytest.mark.parametrize("call", [900, 910])  # a kept step and one that thinning drops
def test_ctrl_c_leaves_what_was_drawn(whole, call):
    with pytest.warns(UserWarning, match=r"interrupted after \d+ of 60 draws per chain; go on with extend"):
        found = sample_chain(_after(call), **options())
    n = found.shape[1]
    assert 0 < n < 60 and np.array_equal(found.draws, whole.draws[:, :n])
    assert found.info["accepted"].shape == (3, 2 * n)
    same(found.extend(60 - n), whole)


def test_ctrl_c_saves_the_run(tmp_path, whole):
    with pytest.warns(UserWarning, match="resume=True"):
        found = sample_chain(_after(900), run=tmp_path / "a", **options())
    same(load_draws(tmp_path / "a"), found)
    with pytest.raises(UserValueError, match="the target must be that"):
        sample_chain(_after(10**9, wide), run=tmp_path / "a", resume=True)
    same(sample_chain(bell, run=tmp_path / "a", resume=True), whole)


def test_ctrl_c_in_burn_in_says_where(tmp_path, whole):
    with pytest.raises(KeyboardInterrupt, match=r"in burn-in, after step \d+ of 40; go on"):
        sample_chain(_after(100), run=tmp_path / "a", **options())
    assert load_draws(tmp_path / "a").shape == (3, 0)
    same(sample_chain(_after(10**9), run=tmp_path / "a", resume=True), whole)
    with pytest.raises(KeyboardInterrupt, match="in burn-in"):
        sample_chain(_after(100), **options())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_progress_is_shown_when_asked_and_never_in_pipes(capsys, monkeypatch):
    monkeypatch.setattr("gnomon.training.progress.SILENT_SECONDS", 0.0)
    sample_chain(bell, **options())
    assert capsys.readouterr().err == ""
    sample_chain(bell, **options(progress=True))
    assert "step 1  of 160  acceptance 0." in capsys.readouterr().err
    with gnomon.context(verbose=True):
        sample_chain(bell, **options())
    assert "of 160" in capsys.readouterr().err
    with gnomon.context(verbose=True):
        sample_chain(bell, **options(progress=False))
    assert capsys.readouterr().err == ""


def test_checkpoints_cost_no_more_than_their_share(tmp_path, monkeypatch):
    """A slow disk: the wait grows to 20 times what a checkpoint took."""
    from gnomon.runs.folder import RunFolder

    monkeypatch.setattr("gnomon.tasks.chains.CHECKPOINT_SECONDS", 0.0)
    inner, written = RunFolder.write_draws, []

    def slow(self, arrays, facts):
        time.sleep(0.05)
        written.append(1)
        inner(self, arrays, facts)

    monkeypatch.setattr(RunFolder, "write_draws", slow)
    begun = time.monotonic()
    sample_chain(bell, run=tmp_path / "a", **options(draws=400))
    assert len(written) <= 4 + (time.monotonic() - begun) / 1.0


def _edit(path, **changes):
    config = json.loads((path / "config.json").read_text())
    del config["digest"]
    (path / "config.json").write_text(json.dumps({**config, **changes}))


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda f: sample_chain(bell, run=f, **options()), "exists and is not empty"),
        (
            lambda f: sample_chain(bell, "metropolis", run=f, resume=True),
            "kernel and adapt must be those of the saved chains, HMC",
        ),
        (
            lambda f: sample_chain(bell, HMC(steps=3), run=f, resume=True),
            "another kernel|the kernel must be that of the chains",
        ),
        (lambda f: sample_chain(bell, adapt=None, run=f, resume=True), "tuned"),
        (lambda f: sample_chain(wide, run=f, resume=True), "the target must be that of the chains"),
        (lambda f: sample_chain(bell, resume=True, **options()), "resume needs a run to go on"),
        (
            lambda f: sample_chain(bell, run=f, resume=({}, {}), **options()),
            "resume must be True or False with run=",
        ),
        (lambda f: sample_chain(bell, run=f, resume=True, draws=-1), "draws must be at least 0, got"),
        (lambda f: gnomon.load(f), "holds draws of chains, not a system"),
        (lambda f: gnomon.resume(f), "holds draws of chains, not a system"),
        (
            lambda f: load_draws(f / "b"),
            r"/b does not exist \(run\); check the path",
        ),
        (lambda f: ((f / "draws.safetensors").write_bytes(b"12345678no"), load_draws(f)), "cannot be read"),
        (lambda f: ((f / "draws.safetensors").unlink(), load_draws(f)), "holds no draws"),
        (lambda f: (_edit(f, format=99), load_draws(f)), "format 99"),
        (lambda f: (_edit(f, kernel=3), load_draws(f)), "names no kernel"),
        (lambda f: (_edit(f, sampling={}), sample_chain(bell, run=f, resume=True)), "cannot go on|damaged"),
    ],
)
def test_refusals_in_one_line(tmp_path, act, words):
    run = tmp_path / "a"
    sample_chain(bell, run=run, **options(draws=8, burn_in=3))
    with pytest.raises(UserError, match=words) as error:
        act(run)
    assert "\n" not in str(error.value)


def test_a_kernel_that_holds_objects_and_functions_is_known_by_their_names(tmp_path):
    def kernel(base):
        return ParallelTempering((1.0, 0.4, 0.1), MetropolisHastings(RandomWalk(1.0)), base=base)

    class Ground:
        def log_prob(self, x):
            return -0.5 * (x * x).sum(-1)

    first = sample_chain(bell, run=tmp_path / "a", **options(kernel=kernel(Ground()), draws=9, burn_in=5, adapt=None))
    told = json.loads((tmp_path / "a" / "config.json").read_text())["kernel"]
    assert told["base"].endswith("Ground") and told["betas"] == [1.0, 0.4, 0.1]
    more = sample_chain(bell, kernel(Ground()), run=tmp_path / "a", resume=True, draws=12, adapt=None)
    assert np.array_equal(more.draws[:, :9], first.draws)
    with pytest.raises(UserValueError, match="the kernel must be that of the chains"):
        sample_chain(bell, kernel(None), run=tmp_path / "a", resume=True, draws=15, adapt=None)


def test_a_model_that_has_changed_is_another_target(tmp_path):
    X = (np.random.default_rng(0).random((40, 4)) < 0.5).astype(np.float64)
    rbm = gnomon.RBM(n_hidden=2, epochs=2, random_state=0).fit(X)
    first = sample_chain(rbm, "gibbs", run=tmp_path / "a", draws=5, burn_in=2, chains=2, random_state=0)
    more = sample_chain(rbm, "gibbs", run=tmp_path / "a", resume=True, draws=9)
    assert np.array_equal(more.values["visible"][:, :5], first.values["visible"])
    other = gnomon.RBM(n_hidden=2, epochs=3, random_state=0).fit(X)
    with pytest.raises(UserValueError, match="the target must be that"):
        sample_chain(other, "gibbs", run=tmp_path / "a", resume=True, draws=12)


def test_a_folder_of_a_fit_is_refused(tmp_path):
    X = (np.random.default_rng(0).random((40, 4)) < 0.5).astype(np.float64)
    gnomon.RBM(n_hidden=2, epochs=2, random_state=0).fit(X, run=tmp_path / "a")
    for act in (lambda: load_draws(tmp_path / "a"), lambda: sample_chain(bell, run=tmp_path / "a", resume=True)):
        with pytest.raises(UserValueError, match="holds a system") as error:
            act()
        assert "\n" not in str(error.value)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "notes").write_text("mine")
    with pytest.raises(UserValueError, match="not a run"):
        sample_chain(bell, run=tmp_path / "b", resume=True)
    assert [p.name for p in Path(tmp_path / "b").iterdir()] == ["notes"]
