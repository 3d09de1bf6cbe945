"""`gnomon.sample_chain` for people: progress, Ctrl-C, and chains as runs that go on bitwise after a kill.

A run of chains is a folder: ``config.json`` (kind ``chains``: kernel, target, counts, seed, versions) and
``draws.safetensors``: the draws, what the steps told, and where the chains are, in one file that is replaced as a
whole. The target itself is code and is not saved: give it again to go on.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gnomon.contracts import State
from gnomon.data.dataset import fingerprint
from gnomon.errors import UserError, UserValueError
from gnomon.inference.mcmc.adaptation import Adaptation
from gnomon.inference.mcmc.kernel import Info, Kernel
from gnomon.inference.mcmc.records import Draws
from gnomon.inference.mcmc.sampling import ChainDraws, begin
from gnomon.runs.codecs import encode
from gnomon.runs.config import CHAINS, RunConfig
from gnomon.runs.folder import RunFolder
from gnomon.runs.versions import changes, versions
from gnomon.training.context import current
from gnomon.training.interrupts import interruptible
from gnomon.training.progress import Progress

__all__ = ["load_draws", "sample_chain"]

CHECKPOINT_SECONDS = 10.0
PATIENCE = 20.0
"""A checkpoint waits this many times as long as the last one took to write: draws grow, the share of time does not."""
DRAWS = 1000


def sample_chain(
    target: Any,
    kernel: str | Kernel = "hmc",
    *,
    chains: int = 8,
    draws: int | None = None,
    burn_in: int = 1000,
    thin: int = 1,
    start: Any = None,
    adapt: str | Adaptation | None = "auto",
    random_state: Any = None,
    resume: bool | tuple[State, Mapping[str, Any]] = False,
    run: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> ChainDraws:
    """Draw from an unnormalized density, a model with an energy or a model with blocks, by Markov chains.

    Ctrl-C ends the chains with the next kept draw: what was drawn so far is returned, and saved where there is a run.
    A second Ctrl-C interrupts at once.

    Parameters
    ----------
    target : callable, object with ``energy`` or ``log_prob``, or HasBlocks
        A log density takes (chains, ...) to (chains,); gradients are torch's. A fitted system stands for its model.
    kernel : str or Kernel
        "hmc", "metropolis", "tempering" (several modes), "gibbs" (needs blocks), "sites" (one unit of 0 or 1 after the
        other, any energy), or a kernel of `gnomon.inference.mcmc`.
    chains : int, in [1, inf)
        All move at once.
    draws : int, in [0, inf), default 1000
        Kept draws per chain; with ``run`` and ``resume=True`` in all, by default as many as the run was begun for.
    burn_in : int, in [0, inf)
        Steps that are thrown away.
    thin : int, in [1, inf)
        Every thin-th step is kept.
    start : int, array or mapping
        The dimension, for starts uniform in (-2, 2); one position; a position per chain; or such by name of block.
    adapt : "auto", Adaptation or None
        Tuning in burn-in.
    random_state : int, None or NumPy generator
    resume : bool or (arrays, facts), default False
        True goes on with the chains in `run`, or begins them if nobody has; a pair is what ``ChainDraws.save`` gave.
        They go on bitwise; chains, burn-in, thinning and seed are the saved. Target and kernel must be the same.
    run : path, optional
        A new folder for the draws; every ten seconds what is there is saved, so that a kill costs no more.
    progress : bool, optional
        Progress on standard error after a second; by default on a terminal, or in ``gnomon.context(verbose=True)``.

    Returns
    -------
    ChainDraws
        ``draws``, ``info``, ``table()``, ``trace_picture(path)``, ``extend(n)``. Cost: ``burn_in + draws * thin`` steps
        of the kernel. With a warning where Ctrl-C cut it short.

    Raises
    ------
    UserValueError, UserTypeError
        A start where the density is 0, counts out of range, a target that the kernel cannot walk on, a folder
        that is taken or foreign, chains of another kernel or target.
    KeyboardInterrupt
        After Ctrl-C in burn-in, when there is nothing to return; a run is saved first.

    References
    ----------
    Gelman and Rubin (1992), "Inference from iterative simulation using multiple sequences".

    Examples
    --------
    >>> found = sample_chain(lambda x: -0.5 * (x * x).sum(-1), start=2, draws=500, burn_in=300, random_state=0)
    >>> found.draws.shape, found.summary().flagged
    ((8, 500, 2), {})
    """
    if draws is not None and draws < 0:
        raise UserValueError(f"draws must be at least 0, got {draws}", "draws")
    given = None if isinstance(resume, bool) else resume
    if run is None and resume is True:
        raise UserValueError("resume needs a run to go on with", "resume", "give run=folder, or what save() gave")
    if run is not None and given is not None:
        raise UserValueError(
            "resume must be True or False with run=, got saved chains", "resume", "with run= give resume=True"
        )
    folder = None if run is None else _existing(run, bool(resume))
    if folder is not None:
        found, wanted = _continued(folder, target, kernel, adapt, draws)
    else:
        wanted = DRAWS if draws is None else draws
        found = begin(target, kernel, chains, burn_in, thin, start, adapt, random_state, given)
        if run is not None:
            folder = RunFolder.create(run, _config(found, target, wanted))
            _put(folder, found)
    shown = (current().verbose or sys.stderr.isatty()) if progress is None else progress
    with interruptible(True) as interrupted, Progress(enabled=shown, name="chains") as line:
        found = _gather(found, wanted, folder, _Watch(line, interrupted, folder))
    _tell_if_cut(found, wanted, folder)
    return found


def load_draws(run: str | os.PathLike[str]) -> Draws:
    """What chains in a run have drawn so far, without their target.

    Parameters
    ----------
    run : path
        A folder of ``sample_chain(..., run=...)``, finished or not.

    Returns
    -------
    Draws
        ``facts`` holds the counts, ``wanted`` (draws that were asked for), kernel, target and seed.

    Raises
    ------
    UserValueError
        No run, one of a fit, a damaged file, a newer format.
    """
    folder = RunFolder.open(run, any_kind=True)
    if folder.config.get("kind") != CHAINS:
        raise UserValueError(f"{run} holds a system, not draws of chains", "", "gnomon.load reads it")
    arrays, _ = _read(folder)
    sampling = folder.config["sampling"]
    facts = {**sampling, "wanted": sampling.get("draws"), "seed": folder.config["seed"]}
    facts |= {name: folder.config.get(name) for name in ("kernel", "target")}
    return Draws(_inside(arrays, "values/"), _inside(arrays, "info/"), facts)


class _Watch:
    """What looks on after every step: shows progress, and ends the chains for Ctrl-C or a checkpoint."""

    def __init__(self, line: Progress, interrupted: Sequence[bool], folder: RunFolder | None) -> None:
        self.line, self.interrupted, self.folder = line, interrupted, folder
        self.every = current().checkpoint_every
        self.saved_at, self.wait = time.monotonic(), CHECKPOINT_SECONDS

    def __call__(self, t: int, total: int, info: Info) -> bool:
        now = time.monotonic()
        if not self.line.total:
            self.line.expect(total)
        if self.line.enabled and now >= self.line.next:
            acceptance = {"acceptance": float(info["accept_prob"].mean())} if "accept_prob" in info else {}
            self.line.show({"step": t, "of": total, **acceptance})
        if self.interrupted:
            return True
        if self.folder is None:
            return False
        return t % self.every == 0 if self.every else now - self.saved_at > self.wait

    def saved(self, seconds: float) -> None:
        """A checkpoint was written in so many seconds."""
        self.saved_at, self.wait = time.monotonic(), max(CHECKPOINT_SECONDS, PATIENCE * seconds)


def _gather(found: ChainDraws, wanted: int, folder: RunFolder | None, watch: _Watch) -> ChainDraws:
    """Draws until there are enough or somebody asks to stop; a checkpoint whenever the chains pause."""
    while _missing(found, wanted) and not watch.interrupted:
        found = found.extend(max(wanted - found.shape[1], 0), watch)
        if folder is not None:
            begun = time.monotonic()
            _put(folder, found)
            watch.saved(time.monotonic() - begun)
    return found


def _missing(found: ChainDraws, wanted: int) -> bool:
    return found.shape[1] < wanted or found.walk.t < found.sampler.burn_in


def _tell_if_cut(found: ChainDraws, wanted: int, folder: RunFolder | None) -> None:
    if not _missing(found, wanted):
        return
    again = "extend()" if folder is None else f"sample_chain(..., run={str(folder.path)!r}, resume=True)"
    on = f"go on with {again}"
    if not found.shape[1]:
        where = f"interrupted in burn-in, after step {found.walk.t} of {found.sampler.burn_in}"
        raise KeyboardInterrupt(where if folder is None else f"{where}; {on}")
    warnings.warn(f"interrupted after {found.shape[1]} of {wanted} draws per chain; {on}", stacklevel=3)


# --- runs -------------------------------------------------------------------------------------------------------------


def _existing(run: str | os.PathLike[str], resume: bool) -> RunFolder | None:
    """The run to go on with; None where it is to be made."""
    try:
        taken = os.path.isdir(run) and any(Path(run).iterdir())
    except (TypeError, ValueError, OSError):
        return None  # RunFolder.create says what is wrong
    if not taken:
        return None
    if not resume:
        raise UserValueError(f"{run} exists and is not empty", "run", "choose another folder, or resume=True")
    folder = RunFolder.open(run, any_kind=True)
    if folder.config.get("kind") != CHAINS:
        raise UserValueError(f"{run} holds a system, not draws of chains", "run", "choose another folder")
    return folder


def _continued(folder: RunFolder, target: Any, kernel: Any, adapt: Any, draws: int | None) -> tuple[ChainDraws, int]:
    """The chains of a run where they stand, and how many draws there shall be."""
    arrays, facts = _read(folder)
    folder.sweep()
    config, sampling = folder.config, folder.config["sampling"]
    walk = _inside(arrays, "walk/")
    for name in facts["tensors"]:
        walk[name] = _tensor(walk[name])
    try:
        saved = (walk, facts["walk"])
        found = begin(
            target, kernel, sampling["chains"], sampling["burn_in"], sampling["thin"], adapt=adapt, resume=saved
        )
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserValueError(f"the chains in {folder.path} cannot go on", repr(error), "the run is damaged") from None
    moved, now = config["kernel"], encode(_described(found.sampler.kernel))
    if moved != now or config.get("adapt") != encode(_described(found.sampler.adapt)):
        what = f"the kernel must be that of the chains in {folder.path}, a {moved.get('type', 'kernel')}"
        raise UserValueError(what, "kernel, adapt", "give the same kernel and tuning as when they were begun")
    _refuse_other_target(folder, found, target)
    changed = changes(config.get("versions", {}))
    if changed:
        warnings.warn(f"the chains began with other versions ({changed}); they may go on differently", stacklevel=3)
    wanted = sampling["draws"] if draws is None else draws
    if wanted != sampling["draws"]:
        folder.update(sampling={**sampling, "draws": wanted})
    return replace(found, values=_inside(arrays, "values/"), info=_inside(arrays, "info/")), wanted


def _refuse_other_target(folder: RunFolder, found: ChainDraws, target: Any) -> None:
    """A model is known by its arrays, a density by its value where the chains stand."""
    state = found.walk.state
    same = folder.config.get("target", {}).get("fingerprint") == _mark(target).get("fingerprint")
    if same and set(state.arrays) <= {"x", "log_p", "gradient"} and "log_p" in state.arrays:
        try:
            fresh = found.walk.kernel.init(state["x"], state.target)["log_p"]
        except UserError:
            same = False
        else:
            before, now = (np.asarray(x, np.float64) for x in (state["log_p"], fresh))
            same = bool(np.allclose(before, now, rtol=1e-4, atol=1e-4))
    if not same:
        raise UserValueError(
            f"the target must be that of the chains in {folder.path}", "target", "give the same one, or a new folder"
        )


def _config(found: ChainDraws, target: Any, draws: int) -> RunConfig:
    chains = found.shape[0]
    facts = dict(found.facts)
    seed = facts.pop("seed")
    return RunConfig(
        CHAINS, seed, versions(), kernel=encode(_described(found.sampler.kernel)),
        adapt=encode(_described(found.sampler.adapt)), sampling={"chains": chains, "draws": draws, **facts},
        target=_mark(target),
    )  # fmt: skip


def _put(folder: RunFolder, found: ChainDraws) -> None:
    walk, facts = found.save()
    arrays = {f"values/{name}": x for name, x in found.values.items()}
    arrays |= {f"info/{name}": x for name, x in found.info.items()}
    arrays |= {f"walk/{name}": x for name, x in walk.items()}
    folder.write_draws(arrays, {"walk": facts, "tensors": [name for name, x in walk.items() if hasattr(x, "detach")]})


def _read(folder: RunFolder) -> tuple[dict[str, Any], dict[str, Any]]:
    found = folder.read_draws()
    if found is None:
        raise UserValueError(f"{folder.path} holds no draws yet", "", "remove the folder and begin again")
    arrays, facts = found
    if not {"walk", "tensors"} <= facts.keys() or not _inside(arrays, "values/"):
        raise UserValueError(f"{folder.path} holds no draws", "draws.safetensors", "the file is foreign or damaged")
    return arrays, facts


def _inside(arrays: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): x for name, x in arrays.items() if name.startswith(prefix)}


def _tensor(x: Any) -> Any:
    import torch

    return torch.from_numpy(x)


def _mark(target: Any) -> dict[str, Any]:
    """What a target is called, and the fingerprint of a model's arrays."""
    model = getattr(target, "model_", target)
    found = {"type": _name(model)}
    if hasattr(model, "state") and callable(model.state):
        found["fingerprint"] = fingerprint(*(np.asarray(x) for x in _plain(model.state())))
    return found


def _plain(state: Mapping[str, Any]) -> list[Any]:
    return [x.detach().cpu().numpy() if hasattr(x, "detach") else x for x in state.values()]


def _described(part: Any) -> Any:
    """A kernel, or its tuning, as values of JSON: types, fields, and functions by name."""
    if part is None or isinstance(part, bool | int | float | str | np.generic):
        return part
    if hasattr(part, "detach") or isinstance(part, np.ndarray):
        return fingerprint(np.asarray(part.detach().cpu() if hasattr(part, "detach") else part))
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        fields = {f.name: _described(getattr(part, f.name)) for f in dataclasses.fields(part) if f.init}
        return {"type": _name(part), **fields}
    if isinstance(part, Mapping):
        return {str(name): _described(one) for name, one in part.items()}
    if isinstance(part, tuple | list):
        return [_described(one) for one in part]
    return _name(part)


def _name(part: Any) -> str:
    named = part if hasattr(part, "__qualname__") else type(part)
    return f"{named.__module__}:{named.__qualname__}"
