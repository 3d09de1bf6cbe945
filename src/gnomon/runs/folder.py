"""A run is a folder: config.json, model.safetensors, state/checkpoint.safetensors, metrics.jsonl.

A run of chains has draws.safetensors in place of the model and the checkpoint.

Every file is written beside its place and renamed into it, so that a process may be killed at any moment. This module
needs the standard library only: the command line writes ``config.json`` before anything heavy is imported.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from gnomon.errors import UserTypeError, UserValueError
from gnomon.runs.atomic import TEMPORARY, remove, unwritable, write_atomically
from gnomon.runs.config import CHAINS, RunConfig
from gnomon.runs.digests import DIGEST, digest_of_config, identity

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["FORMAT", "RunFolder", "free_path", "write_atomically"]

FORMAT = 1
"""Version of the folder format that this gnomon writes."""

CONFIG, MODEL, METRICS, DRAWS = "config.json", "model.safetensors", "metrics.jsonl", "draws.safetensors"
MONITOR = "monitor.jsonl"
"""What `gnomon.training.monitor` counted, where a fit was watched."""
WATCHED = (("step", int), ("epoch", int), ("updates", int), ("parameters", dict), ("layers", dict))
"""What every line of it holds."""
CHECKPOINT = Path("state") / "checkpoint.safetensors"
MEMBERS = "members"
RUN = "run"
"""Fact beside the arrays: which fit they are of. Files from before have none."""
REOPENED = "reopened"
"""Fact of a run that had ended and goes on under a larger budget."""
RUNS = "runs"
"""Where runs go that nobody has given a place; not left behind empty."""


def _path(path: Any) -> Path:
    if not isinstance(path, str | os.PathLike) or "\0" in os.fspath(path):
        raise UserTypeError.must("folder", "be the path of a folder", path)
    return Path(path)


def free_path(stem: Path) -> Path:
    """The first of STEM, STEM-2, STEM-3 ... that is not there yet."""
    names = (stem.name if i == 1 else f"{stem.name}-{i}" for i in range(1, 1_000_000))
    return next(stem.with_name(name) for name in names if not os.path.exists(stem.with_name(name)))


class RunFolder:
    """One run on disk.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     run = RunFolder.create(pathlib.Path(parent) / "a", {"system": "rbm", "where": "m:RBM", "parameters": {}})
    ...     RunFolder.open(run.path).config["system"]
    'rbm'
    """

    def __init__(self, path: Path, config: dict[str, Any], *, sealed: bool = True) -> None:
        self.path, self.config, self.sealed = path, config, sealed

    @classmethod
    def create(cls, path: str | os.PathLike[str], config: RunConfig | Mapping[str, Any]) -> RunFolder:
        """A new folder holding config.json; it appears whole or not at all.

        Raises
        ------
        UserValueError
            The folder exists and is not empty.
        UserError
            It cannot be written.
        """
        target = _path(path)
        try:
            taken = target.exists() and (not target.is_dir() or any(target.iterdir()))
        except OSError as error:  # a name that is too long, a folder that may not be read
            raise unwritable(target, error) from None
        if taken:
            raise UserValueError(
                f"{target} exists and is not empty", "--out", f"choose another folder, or gnomon resume {target}"
            )
        whole = {"format": FORMAT, **(config.to_json() if isinstance(config, RunConfig) else config)}
        scratch = target.parent / f".{target.name}-{secrets.token_hex(8)}"
        try:
            scratch.mkdir(parents=True)
            write_atomically(scratch / CONFIG, _sealed(whole))
            if target.exists():
                target.rmdir()
            os.rename(scratch, target)
        except OSError as error:
            _remove(scratch)
            raise unwritable(target, error) from None
        except BaseException:
            _remove(scratch)
            raise
        return cls(target, whole)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, any_kind: bool = False) -> RunFolder:
        """The run in a folder.

        Parameters
        ----------
        path : path
        any_kind : bool, default False
            Whether a run of chains, which holds no system, will do too.

        Raises
        ------
        UserValueError
            No folder, no run in it, a config that cannot be read, or the format of a newer gnomon.
        """
        folder = _path(path)
        if not os.path.isdir(folder):  # unlike Path.is_dir, false for a name that no file system takes
            what = f"{folder} is not a folder" if os.path.exists(folder) else f"{folder} does not exist"
            raise UserValueError(what, "run", "check the path")
        file = folder / CONFIG
        if not file.is_file():
            raise UserValueError(f"{folder} is not a run", f"it has no {CONFIG}", "name a folder that gnomon fit wrote")
        try:
            config = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise UserValueError(f"{file} cannot be read", str(error).splitlines()[0], "fit again") from None
        if not isinstance(config, dict) or type(config.get("format")) is not int or config["format"] < 1:
            raise UserValueError(
                f"{folder} is not a run of gnomon", f"its {CONFIG} names no format", "name another folder"
            )
        if config["format"] > FORMAT:
            raise UserValueError(
                f"{folder} has format {config['format']}", f"this gnomon reads up to {FORMAT}", "upgrade gnomon"
            )
        chains = config.get("kind") == CHAINS
        if chains and not any_kind:
            raise UserValueError(
                f"{folder} holds draws of chains, not a system",
                "",
                "gnomon.load_draws reads it, gnomon diagnose looks at it",
            )
        missing = RunConfig.lacks(config)
        if missing is not None:
            raise UserValueError(
                f"{folder} is not a run of gnomon", f"its {CONFIG} names no {missing}", "name another folder"
            )
        RunConfig.check(config, str(file))
        sealed = DIGEST in config  # runs of before digests have none
        if config.pop(DIGEST, None) not in (None, digest_of_config(config)):
            what = f"{file} has been changed since it was written"
            raise UserValueError(what, DIGEST, "put back what gnomon wrote, or fit again")
        return cls(folder, config, sealed=sealed)

    @property
    def finished(self) -> bool:
        """Whether the fit has come to its end and the model stands in the folder.

        Where its budget was enlarged, the model is there all along: the one of the smaller budget.
        """
        return (self.path / MODEL).is_file() and not self.config.get(REOPENED)

    @property
    def begun(self) -> bool:
        """Whether there is a checkpoint after a first step to go on from; what is there before it is the start."""
        from gnomon.runs.codecs import unpack

        file = self.path / CHECKPOINT  # config.json may have been written again since this one was read
        return file.is_file() and unpack(file)[1].get("steps", 1) != 0

    def update(self, **facts: Any) -> None:
        """Add facts to config.json."""
        self.replace({**self.config, **facts})

    def replace(self, config: dict[str, Any]) -> None:
        """Let config.json hold these facts alone."""
        self.config = config
        write_atomically(self.path / CONFIG, _sealed(self.config))

    @contextlib.contextmanager
    def claimed(self) -> Iterator[None]:
        """Within the block no other process fits into the folder.

        Raises
        ------
        UserValueError
            One does already.
        """
        handle = None if fcntl is None else os.open(self.path, os.O_RDONLY)
        try:
            if handle is not None:
                self._lock(handle)
            yield
        finally:
            if handle is not None:
                os.close(handle)

    def _lock(self, handle: int) -> None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            what = f"another process is fitting into {self.path}"
            raise UserValueError(what, "run", "wait for its end, or choose another folder") from None
        except OSError:  # a file system without locks
            return

    def discard(self) -> None:
        """Remove the folder: the data was refused, nothing is left behind."""
        _remove(self.path)

    def sweep(self) -> None:
        """Remove temporary files that a killed process left."""
        for stale in [*self.path.glob(f"{TEMPORARY}*"), *(self.path / "state").glob(f"{TEMPORARY}*")]:
            remove(stale)

    def write_checkpoint(self, arrays: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        """Replace the checkpoint as a whole."""
        self._write(CHECKPOINT, arrays, facts)

    def read_checkpoint(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Arrays and facts of the last checkpoint, None before the first."""
        return self._read(CHECKPOINT)

    def write_model(self, arrays: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        """Put the fitted model down: from now on the run is finished."""
        self._write(MODEL, arrays, facts)
        if self.config.get(REOPENED):
            self.replace({name: value for name, value in self.config.items() if name != REOPENED})

    def read_model(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Arrays and facts of the fitted model, None while the run is not finished."""
        return self._read(MODEL)

    def write_draws(self, arrays: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        """Replace what chains drew, and where they are, as a whole."""
        self._write(DRAWS, arrays, facts)

    def read_draws(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Arrays and facts that `write_draws` put down last, None before the first time."""
        return self._read(DRAWS)

    def members(self) -> dict[str, Path]:
        """Folders of the Systems that this one is made of, by name."""
        inside = self.path / MEMBERS
        return {path.name: path for path in sorted(inside.glob("[!.]*"))} if inside.is_dir() else {}

    def new_member(self, name: str, config: RunConfig) -> RunFolder:
        """An empty folder for a System inside; what a killed process left of one gives way."""
        shutil.rmtree(self.path / MEMBERS / name, ignore_errors=True)
        return RunFolder.create(self.path / MEMBERS / name, config)

    def _write(self, name: str | Path, arrays: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        from gnomon.runs.codecs import pack

        write_atomically(self.path / name, pack(arrays, {**facts, RUN: identity(self.config)}))

    def _read(self, name: str | Path) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Arrays and facts of a file of this run; None where it is not there."""
        from gnomon.runs.codecs import unpack

        if not (self.path / name).is_file():
            return None
        arrays, facts = unpack(self.path / name)
        self._check_origin(name, facts.pop(RUN, None))
        return arrays, facts

    def bound(self) -> bool:
        """Whether what was learned says that it is of this config.json, by the facts alone; files of old runs do not.

        Raises
        ------
        UserValueError
            It is of another fit.
        """
        from gnomon.runs.codecs import facts_of

        for name in (MODEL, CHECKPOINT):
            if (self.path / name).is_file():
                self._check_origin(name, facts_of(self.path / name).get(RUN))
        return self.sealed

    def _check_origin(self, name: str | Path, of: Any) -> None:
        """Refuse a file of another fit; without a name of its fit, the run counts as one from before digests."""
        self.sealed = self.sealed and of is not None
        if of not in (None, identity(self.config)):
            what, remedy = f"{self.path / name} is of another fit than its {CONFIG}", "put back what gnomon wrote"
            raise UserValueError(what, RUN, f"{remedy}, or fit again")

    def log(self, record: Mapping[str, Any]) -> None:
        """Append a line to metrics.jsonl."""
        self._append(METRICS, record)

    def log_monitor(self, record: Mapping[str, Any]) -> None:
        """Append a line to monitor.jsonl."""
        self._append(MONITOR, record)

    def read_monitor(self) -> list[dict[str, Any]]:
        """The lines of monitor.jsonl; none where the fit was not watched.

        Raises
        ------
        UserValueError
            The file is damaged.
        """
        path = self.path / MONITOR
        if not path.exists():
            return []
        try:
            lines = path.read_bytes().splitlines(keepends=True)
            found = [json.loads(line) for line in lines if line.endswith(b"\n")]  # a killed fit leaves half a line
        except (OSError, ValueError) as error:
            raise UserValueError(f"{path} is damaged", " ".join(str(error).split()), "remove it") from None
        if not all(isinstance(one, dict) and all(isinstance(one.get(k), t) for k, t in WATCHED) for one in found):
            raise UserValueError(f"{path} is damaged", "a line is no record of an epoch", "remove it")
        return found

    def cut_monitor(self, step: int) -> None:
        """Leave out of monitor.jsonl what comes after this step, which is carried out anew."""
        if not (self.path / MONITOR).exists():
            return
        kept = [one for one in self.read_monitor() if one["step"] <= step]
        write_atomically(self.path / MONITOR, b"".join(map(_line, kept)))

    def _append(self, name: str, record: Mapping[str, Any]) -> None:
        try:
            with (self.path / name).open("ab") as file:
                file.write(_line(record))
        except OSError as error:
            raise unwritable(self.path / name, error) from None

    def rewrite_log(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Make metrics.jsonl hold exactly these lines (the log may have run ahead of, or behind, the checkpoint)."""
        records = list(records)
        if not records and not (self.path / METRICS).exists():
            return
        write_atomically(self.path / METRICS, b"".join(_line(record) for record in records))


def _sealed(config: Mapping[str, Any]) -> bytes:
    """config.json with its digest."""
    return _json({**config, DIGEST: digest_of_config(config)})


def _json(value: Any) -> bytes:
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    try:
        return text.encode()
    except UnicodeEncodeError:  # a file name that is not UTF-8
        return (json.dumps(value, indent=2, allow_nan=False) + "\n").encode()


def _line(record: Mapping[str, Any]) -> bytes:
    return (json.dumps(record, allow_nan=False) + "\n").encode()


def _remove(folder: Path) -> None:
    """Remove a folder, and ``runs`` around it where no other run is in it."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.parent.name == RUNS:
        with suppress(OSError):  # others are in it
            folder.parent.rmdir()
