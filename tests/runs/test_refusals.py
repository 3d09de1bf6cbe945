"""What `gnomon resume` and `gnomon fit` refuse: status 2, one line on standard error, nothing changed on disk."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gnomon
from gnomon.cli.main import run as gnomon_command
from gnomon.errors import UserError, UserValueError
from gnomon.runs.codecs import pack, unpack
from gnomon.runs.folder import RunFolder
from gnomon.training.context import context

FIT = {
    "rbm": ["--epochs", "3", "--n-hidden", "3", "--checkpoint-every", "4"],
    "bernoulli-mixture": ["--n-components", "2", "--max-iter", "5", "--tol", "0"],
    "ppca": ["--n-components", "2"],
    "softmax-regression": ["--target", "f", "--epochs", "3"],
}


def snapshot(folder: Path) -> dict[str, Any]:
    """Names, contents and times of everything below."""
    return {
        str(f.relative_to(folder)): (f.read_bytes() if f.is_file() else None, f.stat().st_mtime_ns)
        for f in sorted(folder.rglob("*"))
    }


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of each system and the same one, stopped, beside the table that all were fitted to."""
    folder = tmp_path_factory.mktemp("originals")
    rows = (np.random.default_rng(0).random((40, 6)) < 0.4).astype(int)
    (folder / "t.csv").write_text("\n".join(["a,b,c,d,e,f", *(",".join(map(str, row)) for row in rows)]) + "\n")
    for name, options in FIT.items():
        out = folder / name
        assert (
            gnomon_command(["fit", name, str(folder / "t.csv"), *options, "--random-state", "0", "--out", str(out)])
            == 0
        )
        shutil.copytree(out, folder / f"{name} stopped")
        (folder / f"{name} stopped" / "model.safetensors").unlink()
    return folder


@pytest.fixture
def place(originals: Path, tmp_path: Path) -> Path:
    """The same, to be damaged; the runs know the table by its path, so that comes along."""
    shutil.copytree(originals, tmp_path / "w")
    for file in (tmp_path / "w").glob("*/config.json"):
        file.write_text(file.read_text().replace(str(originals), str(tmp_path / "w")))
    return tmp_path / "w"


def refuse(arguments: list[str], place: Path, capsys: pytest.CaptureFixture[str], said: str) -> str:
    before = snapshot(place)
    capsys.readouterr()
    status = gnomon_command(arguments)
    out, err = capsys.readouterr()
    assert status == 2, err
    assert out == "" and err.count("\n") == 1 and err.startswith("gnomon: error: "), err
    assert said in err
    assert snapshot(place) == before
    return err.strip()


def edit(file: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    config = json.loads(file.read_text())
    del config["digest"]  # as runs have it from before there were digests
    file.write_text(json.dumps(change(config) or config))


CONFIGS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "newer": (lambda c: {**c, "format": 2}, "upgrade gnomon"),
    "a list": (lambda c: [c], "not a run"),
    "foreign": (lambda c: {"model_type": "bert", "hidden_size": 3}, "not a run"),
    "foreign with a format": (lambda c: {"format": 1, "system": "x"}, "not a run"),
    "unknown system": (lambda c: {**c, "system": "mine", "where": "not_there.at_all:Mine"}, "not installed"),
    "class that is gone": (lambda c: {**c, "where": "gnomon.systems.energy.rbm:Gone"}, "not installed"),
    "no class": (lambda c: {**c, "where": "json:loads"}, "not a system"),
    "no module": (lambda c: {**c, "where": ""}, "not installed"),
    "unknown parameter": (lambda c: {**c, "parameters": {"new": 3}}, "cannot be made"),
    "bad parameter": (lambda c: {**c, "parameters": {**c["parameters"], "n_hidden": -3}}, "n_hidden"),
    "unknown recipe": (
        lambda c: {**c, "parameters": {"objective": {"__recipe__": ["objective", "x"], "fields": {}}}},
        "unknown",
    ),
    "damaged recipe": (
        lambda c: {**c, "parameters": {"objective": {"__recipe__": ["objective", "cd"]}}},
        "cannot be made",
    ),
    "no seed": (lambda c: {k: v for k, v in c.items() if k != "seed"}, "names no seed"),
    "no data": (lambda c: {k: v for k, v in c.items() if k != "data"}, "not begun by gnomon fit"),
    "data of another kind": (lambda c: {**c, "data": [1]}, "names no data"),
    "data without a name": (lambda c: {**c, "data": {"source": "name or file"}}, "names no name"),
}


@pytest.mark.parametrize("case", CONFIGS)
def test_configs(case: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change, said = CONFIGS[case]
    edit(place / "rbm stopped" / "config.json", change)
    refuse(["resume", str(place / "rbm stopped")], place, capsys, said)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.95])
def test_a_config_cut_off(share: float, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = place / "rbm stopped" / "config.json"
    file.write_bytes(file.read_bytes()[: int(share * file.stat().st_size)])
    refuse(["resume", str(place / "rbm stopped")], place, capsys, "cannot be read")


def test_folders(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "empty").mkdir()
    (place / "foreign").mkdir()
    (place / "foreign" / "weights.bin").write_text("x")
    refuse(["resume", str(place / "missing")], place, capsys, "does not exist")
    refuse(["resume", str(place / "empty")], place, capsys, "not a run")
    refuse(["resume", str(place / "foreign")], place, capsys, "not a run")
    refuse(["resume", str(place / "t.csv")], place, capsys, "not a folder")
    for out in ("foreign", "rbm", "t.csv"):
        refuse(["fit", "rbm", str(place / "t.csv"), "--out", str(place / out)], place, capsys, "not empty")


@pytest.mark.parametrize("name", FIT)
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.98])
def test_checkpoints_cut_off(name: str, share: float, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = place / f"{name} stopped" / "state" / "checkpoint.safetensors"
    file.write_bytes(file.read_bytes()[: int(share * file.stat().st_size)])
    refuse(["resume", str(place / f"{name} stopped")], place, capsys, "the file is damaged")


@pytest.mark.parametrize("name", FIT)
def test_checkpoints_of_other_shapes(name: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = place / f"{name} stopped" / "state" / "checkpoint.safetensors"
    arrays, facts = unpack(file)
    largest = max(arrays, key=lambda key: arrays[key].size)
    file.write_bytes(pack({**arrays, largest: arrays[largest][:-1]}, facts))
    refuse(["resume", str(place / f"{name} stopped")], place, capsys, "does not fit")
    file.write_bytes(pack({key: value for key, value in arrays.items() if key != largest}, facts))
    refuse(["resume", str(place / f"{name} stopped")], place, capsys, "does not fit")
    other = next(one for one in FIT if one != name)
    shutil.copy(place / other / "state" / "checkpoint.safetensors", file)
    refuse(["resume", str(place / f"{name} stopped")], place, capsys, "is of another fit")


@pytest.mark.parametrize("name", FIT)
def test_checkpoints_with_numbers_that_are_not_finite(
    name: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The fit did not diverge, and no learning rate mends the file: none is written so."""
    file = place / f"{name} stopped" / "state" / "checkpoint.safetensors"
    arrays, facts = unpack(file)
    first = next(key for key, value in arrays.items() if value.dtype.kind == "f" and value.size)
    broken = arrays[first].copy()
    broken.flat[0] = np.nan
    file.write_bytes(pack({**arrays, first: broken}, facts))
    said = refuse(["resume", str(place / f"{name} stopped")], place, capsys, "numbers that are not finite")
    assert first in said and said.endswith("the file is damaged: fit again")


@pytest.mark.parametrize("verb", [["evaluate"], ["sample", "-n", "2"], ["resume"]])
def test_models_that_are_damaged(verb: list[str], place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = place / "rbm" / "model.safetensors"
    whole = file.read_bytes()
    command = [verb[0], str(place / "rbm"), *verb[1:]]
    shutil.copy(place / "ppca" / "model.safetensors", file)
    before = snapshot(place)
    capsys.readouterr()
    assert gnomon_command(command) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("gnomon: error: ")
    file.write_bytes(whole[:-5])
    assert gnomon_command(command) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert "the file is damaged" in last
    file.write_bytes(whole)
    assert snapshot(place).keys() == before.keys()


@pytest.mark.parametrize("begun", [True, False])
def test_data_that_changed_or_is_gone(begun: bool, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before the first step, too, a resumed run is not removed."""
    run, table = place / "rbm stopped", place / "t.csv"
    if not begun:
        shutil.rmtree(run / "state")
        (run / "metrics.jsonl").unlink()
    text = table.read_text()
    head, _, rest = text.partition("\n")
    table.write_text(f"{head}\n{'1' if rest[0] == '0' else '0'}{rest[1:]}")
    refuse(["resume", str(run)], place, capsys, "the data has changed")
    table.write_text(text + "0,1,0,1,0,1\n")
    refuse(["resume", str(run)], place, capsys, "the data has changed")
    table.unlink()
    refuse(["resume", str(run)], place, capsys, "t.csv")
    table.write_text(text)
    assert gnomon_command(["resume", str(run)]) == 0
    assert unpack(run / "model.safetensors")[0].keys() == unpack(place / "rbm" / "model.safetensors")[0].keys()


def test_a_finished_run_says_so(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshot(place)
    capsys.readouterr()
    assert gnomon_command(["resume", str(place / "rbm")]) == 0
    out, err = capsys.readouterr()
    assert "has ended already" in err and str(place / "rbm") in out
    assert snapshot(place) == before


def test_a_saved_model_is_not_resumed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gnomon.load(place / "rbm").save(place / "saved")
    refuse(["resume", str(place / "saved")], place, capsys, "not begun by gnomon fit")


def test_a_disk_that_fills_up(place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of the fit: one line, status 2; with space again it is resumed to the same end."""
    import errno
    import os

    sync, calls = os.fsync, [0]

    def fsync(handle: int) -> None:
        calls[0] += 1
        if calls[0] > 12:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    out = place / "full"
    fit = ["fit", "rbm", str(place / "t.csv"), *FIT["rbm"], "--random-state", "0", "--out", str(out)]
    assert gnomon_command(fit) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "No space left on device" in err and str(out) in err
    assert not list(out.rglob(".tmp-*")) and not (out / "model.safetensors").exists()
    monkeypatch.setattr(os, "fsync", sync)
    assert gnomon_command(["resume", str(out)]) == 0
    assert (out / "model.safetensors").read_bytes() == (place / "rbm" / "model.safetensors").read_bytes()


def test_in_python(place: Path) -> None:
    X = (np.random.default_rng(0).random((20, 4)) < 0.5).astype(float)
    out = place / "arrays"
    with context(checkpoint_every=5):
        whole = gnomon.RBM(n_hidden=2, epochs=4, random_state=0).fit(X, run=out)
    (out / "model.safetensors").unlink()
    with pytest.raises(UserValueError, match="no finished fit"):
        gnomon.load(out)
    before = snapshot(out)
    with pytest.raises(UserValueError, match="the data has changed"):
        gnomon.resume(out, 1 - X)
    with pytest.raises(UserValueError, match="the data has changed"):
        gnomon.resume(out, X, sample_weight=np.arange(1.0, 21))
    with pytest.raises(UserValueError, match="same arrays again"):
        gnomon.resume(out)
    assert snapshot(out) == before
    again = gnomon.resume(out, X)
    assert again.weights_.tobytes() == whole.weights_.tobytes()
    assert gnomon.resume(out).weights_.tobytes() == whole.weights_.tobytes()


def test_a_checkpoint_can_be_taken_home(place: Path) -> None:
    for name in FIT:
        system = gnomon.load(place / f"{name} stopped", unfinished=True)
        whole = gnomon.load(place / name)
        for key, value in whole.model_.state().items():
            assert np.array_equal(value, system.model_.state()[key]), (name, key)
        assert system.n_steps_ == whole.n_steps_


@pytest.mark.parametrize("path", [None, 3, "a\0b"])
def test_paths_that_are_none(path: Any) -> None:
    with pytest.raises(UserError, match="folder must be the path of a folder, got "):
        gnomon.load(path)
    with pytest.raises(UserError, match="folder must be the path of a folder, got "):
        RunFolder.create(path, {"system": "rbm"})
