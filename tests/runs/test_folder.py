"""The folder of a run: it appears whole or not at all, and what is no run is refused in one line."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gnomon
from gnomon.errors import UserError, UserValueError
from gnomon.runs.folder import FORMAT, RunFolder, write_atomically

CONFIG = {"kind": "fit", "system": "rbm", "where": "gnomon.systems.energy.rbm:RBM", "parameters": {}}


def files(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def refused(path: Path) -> str:
    with pytest.raises(UserValueError) as caught:
        RunFolder.open(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_created_and_opened(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "deep" / "run", CONFIG)
    assert sorted(files(tmp_path)) == ["deep/run/config.json"]
    again = RunFolder.open(run.path)
    assert again.config == {"format": FORMAT, **CONFIG} and not again.finished and not again.begun
    again.update(seed=3)
    assert RunFolder.open(run.path).config["seed"] == 3


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    assert RunFolder.create(tmp_path / "run", CONFIG).path.is_dir()


def test_a_folder_with_anything_in_it_is_not(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine").write_text("x")
    (tmp_path / "file").write_text("x")
    before = files(tmp_path)
    for name in ("run", "file"):
        with pytest.raises(UserValueError, match="not empty"):
            RunFolder.create(tmp_path / name, CONFIG)
    assert files(tmp_path) == before


def test_names_in_any_script_and_bytes(tmp_path: Path) -> None:
    config = {**CONFIG, "data": {"name": "数据", "path": os.fsdecode(b"/data/\xff.csv")}}
    run = RunFolder.create(tmp_path / "运行", config)
    assert RunFolder.open(run.path).config["data"] == config["data"]


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX")
def test_a_group_can_read_what_its_umask_lets_it(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        run = RunFolder.create(tmp_path / "run", CONFIG)
        run.write_checkpoint({"a": np.ones(2)}, {})
        run.log({"a": 1.0})
    finally:
        os.umask(before)
    modes = {file.stat().st_mode & 0o777 for file in run.path.rglob("*") if file.is_file()}
    assert modes == {0o640} and run.path.stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "cannot be read"), (b'{"format": 1, "sys', "cannot be read"), (b"\xff\xfe\x00", "cannot be read"),
        (b"[" * 100_000, "cannot be read"), (b"[1, 2]", "not a run"), (b"3", "not a run"),
        (b'{"system": "rbm"}', "names no format"),
        (b'{"format": true, "system": "rbm"}', "names no format"), (b'{"format": 1}', "names no system"),
        (b'{"format": 1, "system": "rbm"}', "names no where"), (b'{"format": 1, "system": ["rbm"]}', "names no system"),
        (b'{"format": 1, "system": "rbm", "where": "a:b", "parameters": []}', "names no parameters"),
        (b'{"format": 999, "anything": 1}', "upgrade gnomon"),
    ],
)  # fmt: skip
def test_configs_that_are_none(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(content)
    assert said in refused(tmp_path)
    assert files(tmp_path) == {"config.json": content}


def test_folders_that_are_none(tmp_path: Path) -> None:
    assert "does not exist" in refused(tmp_path / "missing")
    assert "config.json" in refused(tmp_path)
    (tmp_path / "config.json").mkdir()
    assert "config.json" in refused(tmp_path)
    (tmp_path / "file").write_text("x")
    assert "is not a folder" in refused(tmp_path / "file")


@pytest.mark.parametrize("broken", ["replace", "fsync"])
@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_failing_write_leaves_the_old_file_alone(
    broken: str, failure: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_atomically(tmp_path / "a", b"old")

    def fail(*arguments: Any) -> None:
        raise failure

    monkeypatch.setattr(os, broken, fail)
    with pytest.raises(UserError if isinstance(failure, OSError) else KeyboardInterrupt) as caught:
        write_atomically(tmp_path / "a", b"new")
    if isinstance(failure, OSError):
        assert "No space left" in str(caught.value) and str(tmp_path / "a") in str(caught.value)
    assert files(tmp_path) == {"a": b"old"}


def test_a_full_disk_leaves_no_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="cannot write"):
        RunFolder.create(tmp_path / "runs" / "run", CONFIG)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_at_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunFolder.create(tmp_path / "run", CONFIG)

    def full(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(UserError, match=r"cannot write .*metrics\.jsonl"):
        run.log({"a": 1.0})


def test_a_folder_that_cannot_be_synced_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync = os.fsync

    def fsync(handle: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{handle}"):
            raise OSError(errno.EINVAL, "Invalid argument")
        sync(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomically(tmp_path / "a", b"new")
    assert files(tmp_path) == {"a": b"new"}


def test_stale_files_are_swept(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", CONFIG)
    run.write_checkpoint({"a": np.ones(2)}, {})
    before = files(run.path)
    (run.path / ".tmp-1").write_text("x")
    (run.path / "state" / ".tmp-2").write_text("x")
    run.sweep()
    assert files(run.path) == before


def test_the_log_holds_what_the_checkpoint_knows(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", CONFIG)
    run.rewrite_log([])
    assert not (run.path / "metrics.jsonl").exists()
    run.log({"step": 1, "loss": 0.5})
    run.log({"step": 2, "loss": 0.25})
    run.rewrite_log({"step": i} for i in (1,))
    assert [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()] == [{"step": 1}]
    with pytest.raises(ValueError):
        run.log({"loss": float("nan")})


def test_checkpoint_and_model(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", CONFIG)
    assert run.read_checkpoint() is None and run.read_model() is None
    run.write_checkpoint({"a": np.arange(3)}, {"steps": 4})
    assert run.begun and not run.finished
    arrays, facts = run.read_checkpoint() or ({}, {})
    assert arrays["a"].tolist() == [0, 1, 2] and facts == {"steps": 4}
    run.write_model({"a": np.arange(2)}, {})
    assert run.finished
    run.discard()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("fact", "value", "rule"),
    [
        ("kind", "fitt", "kind must be fit, model or chains, got 'fitt'"),
        ("seed", "7", "seed must be a whole number, got '7'"),
        ("seed", True, "seed must be a whole number, got True"),
        ("devices", 0, "devices must be a whole number of at least 1, got 0"),
        ("device", 5, "device must be text, got 5"),
        ("precision", "int8", "precision must be float32 or bfloat16, got 'int8'"),
        ("checkpoint_every", -3, "checkpoint_every must be a whole number of at least 1, got -3"),
        ("versions", "1", "versions must be an object of texts, got '1'"),
        ("data.source", "web", "data.source must be 'name or file' or 'arrays', got 'web'"),
        ("data.name", None, "data.name must be text, got None"),
        ("data.target", 1.5, "data.target must be text, a whole number or null, got 1.5"),
        ("data.columns", 5, "data.columns must be a list of names or null, got 5"),
        ("data.features", "abc", "data.features must be a list of names or null, got 'abc'"),
        ("data.holdout", 7, "data.holdout must be a number in [0, 1), got 7"),
        ("data.holdout", True, "data.holdout must be a number in [0, 1), got True"),
        ("data.split", 5, "data.split must be text, got 5"),
    ],
)
def test_facts_that_no_run_has_are_refused(tmp_path: Path, fact: str, value: Any, rule: str) -> None:
    *inside, name = fact.split(".")
    data = {"source": "name or file", "name": "digits", "target": None, "columns": None, "holdout": 0.2}
    config: dict[str, Any] = {**CONFIG, "data": data}
    (data if inside else config)[name] = value
    run = RunFolder.create(tmp_path / "run", config)
    assert refused(run.path).startswith(f"{rule} ({run.path / 'config.json'}); put back")


def test_a_format_before_the_first_is_no_format(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", CONFIG)
    run.update(format=0)
    assert "names no format" in refused(run.path)


def test_a_model_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    import gnomon

    gnomon.PPCA(n_components=1).fit(np.eye(4)).save(tmp_path / "run")
    run = RunFolder.open(tmp_path / "run")
    found = run.read_model()
    assert found is not None
    arrays, facts = found
    run.write_model({**arrays, "mean": np.full_like(arrays["mean"], np.nan)}, facts)
    with pytest.raises(UserValueError, match=r"holds numbers that are not finite \(mean\)"):
        gnomon.load(run.path)


def test_a_changed_config_is_not_believed(tmp_path: Path) -> None:
    """Another or an empty name of the system was believed; the file may move, so its place is the user's."""
    gnomon.PPCA(n_components=1).fit(np.random.default_rng(0).normal(size=(9, 2)), run=tmp_path / "r")
    file = tmp_path / "r" / "config.json"
    config = json.loads(file.read_text())
    for name in ("", "rbm"):
        file.write_text(json.dumps({**config, "system": name}))
        with pytest.raises(UserValueError, match=r"config\.json has been changed since it was written"):
            gnomon.load(tmp_path / "r")
        old = {key: value for key, value in config.items() if key != "digest"}
        file.write_text(json.dumps({**old, "system": name}))
        with pytest.raises(UserValueError, match=f"system must be 'ppca', the name of .*, got '{name}'"):
            gnomon.load(tmp_path / "r")
    file.write_text(json.dumps({**config, "data": {**config["data"], "name": "/moved/here.csv"}}, indent=1))
    assert gnomon.load(tmp_path / "r").n_components == 1
