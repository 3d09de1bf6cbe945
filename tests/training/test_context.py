"""The circumstances of a fit, and what a run remembers of them."""

import json
import subprocess
import sys
import warnings

import numba
import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

import gnomon
from gnomon.errors import UserTypeError, UserValueError
from gnomon.runs.folder import RunFolder
from gnomon.system.base import System
from gnomon.training import progress
from gnomon.training.context import context, current, limited

X = (np.random.default_rng(0).random((40, 5)) < 0.4).astype(float)


def test_threads_are_limited_inside_the_fit_and_given_back():
    seen = []

    def look(step, record):
        pools = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
        seen.append((torch.get_num_threads(), max(pools)))

    before = torch.get_num_threads()
    with gnomon.context(threads=1, callbacks=(look,)):
        gnomon.RBM(n_hidden=2, epochs=2, random_state=0).fit(X)
    assert seen == [(1, 1)] * 2
    assert torch.get_num_threads() == before


def test_threads_come_back_however_the_block_ends():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        for threads, alone, inside in ((2, False, 2), (None, False, 3), (2, True, 1), (None, True, 1)):
            with pytest.raises(KeyError), limited(threads, torch_alone=alone):
                assert torch.get_num_threads() == inside
                raise KeyError
            assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_an_inner_context_keeps_what_it_does_not_change():
    before = current()
    with context(threads=2, checkpoint_every=5):
        with context(checkpoint_every=7) as inner:
            assert (inner.threads, inner.checkpoint_every) == (2, 7) and current() is inner
        assert (current().threads, current().checkpoint_every) == (2, 5)
    assert current() == before


def test_options_that_do_not_exist():
    with pytest.raises(UserTypeError, match="threads"), gnomon.context(thread=2):
        pass
    with pytest.raises(UserValueError, match="threads must be at least 1, got 0"), gnomon.context(threads=0):
        gnomon.RBM(n_hidden=2, epochs=1, random_state=0).fit(X)


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"checkpoint_every": "ten"}, UserTypeError, "checkpoint_every must be a whole number or None, got 'ten'"),
        ({"checkpoint_every": True}, UserTypeError, "checkpoint_every must be a whole number or None, got True"),
        ({"checkpoint_every": 2.5}, UserTypeError, "whole number"),
        ({"checkpoint_every": 0}, UserValueError, "checkpoint_every must be at least 1, got 0"),
        ({"threads": "two"}, UserTypeError, "threads"),
        ({"threads": -1}, UserValueError, "threads must be at least 1, got -1"),
        ({"verbose": "yes"}, UserTypeError, "verbose"),
        ({"callbacks": 3}, UserTypeError, "callbacks"),
        ({"callbacks": (3,)}, UserTypeError, "callbacks"),
    ],
)
def test_options_of_another_kind_are_refused_before_the_fit(wrong, error, words):
    before = current()
    with pytest.raises(error, match=words), gnomon.context(**wrong):
        pass
    assert current() == before


def test_going_on_with_other_versions_is_told(tmp_path):
    def begun() -> System:
        return gnomon.RBM(n_hidden=2, epochs=3, batch_size=10, random_state=0)

    system = begun()
    table = system.ingest(X)
    system._fit(table, system._open(tmp_path / "run", table), limit=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fresh = begun()
        fresh._open(RunFolder.open(tmp_path / "run"), fresh.ingest(X))
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    config["versions"]["torch"] = "1.0"
    del config["digest"]
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    with pytest.warns(UserWarning, match=r"torch 1\.0 ->"):
        gnomon.resume(tmp_path / "run", X)


def test_a_fit_that_needs_no_torch_loads_none():
    code = (
        "import sys, gnomon; gnomon.NGram(n=2, smoothing='additive').fit(['a b', 'b a']); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_compilation_is_announced_once_and_only_when_verbose(capfd):
    progress._announce.cache_clear()  # another test may have compiled in this process

    def compiled():
        numba.njit(lambda x: x + 1)(1)

    with context(verbose=False):
        compiled()
    assert capfd.readouterr().err == ""
    with context(verbose=True):
        compiled()
        with context(verbose=True, threads=1):
            compiled()
    assert capfd.readouterr().err == "compiling kernels (once on this machine) ...\n"
