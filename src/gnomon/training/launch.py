"""Start processes that fit together on this machine."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gnomon.errors import UserError, UserValueError

__all__ = ["ProcessDied", "launch"]

UNGUARDED = 71
"""Exit status of a process that was to run a function and ran the whole script instead."""


def launch(function: Callable[..., Any], *arguments: Any, devices: int = 2) -> Any:
    """Run ``function(*arguments)`` in `devices` processes that form one group; what the first returns.

    Parameters
    ----------
    function : callable
        Defined at the top level of a module, since new processes import it: a script must call `launch` under
        ``if __name__ == "__main__":``, or every new process would run the script from its beginning.
    *arguments
        Sent to each process.
    devices : int in [1, inf), default 2

    Raises
    ------
    UserValueError
        Fewer than one process, or far more than there are processors.
    UserError
        The script has no ``if __name__ == "__main__":``; or as the first process that met one raised it, and the
        others are stopped.
    ProcessDied
        One was killed, by the system for want of memory, say; the others are stopped.
    RuntimeError
        Any other error of a process, with its traceback.
    """
    if devices < 1:
        raise UserValueError(f"devices must be at least 1, got {devices}", "devices")
    most = max(8, 4 * (os.cpu_count() or 1))
    if devices > most:
        raise UserValueError(f"devices must be at most {most} on {os.cpu_count()} processors, got {devices}", "devices")
    if devices == 1:
        return function(*arguments)
    import torch.multiprocessing as processes

    mp: Any = processes
    if getattr(mp.current_process(), "_inheriting", False):
        raise SystemExit(UNGUARDED)  # a new process that runs the script of the user from its beginning

    with tempfile.TemporaryDirectory() as folder:
        started = mp.spawn(_work, (devices, folder, function, arguments), nprocs=devices, join=False)
        try:
            _wait(started)
        except mp.ProcessRaisedException as error:
            raise (
                _own(Path(folder))
                or _killed(started.processes)
                or RuntimeError(f"process {error.error_index} of {devices} failed:{error.msg}")
            ) from None
        except mp.ProcessExitedException as error:
            raise _ended(error.error_index, devices, error.exit_code) from None
        if not (Path(folder) / "result").exists():
            raise KeyboardInterrupt  # the processes were interrupted, each in its own session
        # written by our own child a moment ago, in a folder only this user can enter
        return pickle.loads((Path(folder) / "result").read_bytes())


class ProcessDied(UserError):
    """One of several processes was killed."""

    exit_code = 1


def _ended(rank: int, size: int, code: int) -> Exception:
    """What is said of a process that is gone without an error of its own."""
    if code == UNGUARDED:
        what, remedy = (
            "launch must not be called again by the processes that it starts",
            'call it under if __name__ == "__main__":',
        )
        return UserError(what, f"process {rank} of {size}", remedy)
    return _died(rank, size, code) if code < 0 else RuntimeError(f"process {rank} of {size} ended with status {code}")


def _died(rank: int, size: int, code: int) -> ProcessDied:
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return ProcessDied(f"process {rank} of {size} was killed ({name}), the others were stopped", f"process {rank}")


def _killed(processes: Sequence[Any]) -> ProcessDied | None:
    """Who was killed, where another one fails for it: its own end may be seen later."""
    for rank, process in enumerate(processes):
        process.join(1.0)
        if process.exitcode is not None and process.exitcode < 0 and process.exitcode != -signal.SIGTERM:
            return _died(rank, len(processes), process.exitcode)
    return None


def _wait(processes: Any) -> None:
    """Until all have ended; Ctrl-C, which reaches this process alone, is handed to them."""
    logger = logging.getLogger("torch.multiprocessing.spawn")  # warns of each process that it stops after an error
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        while True:
            try:
                while not processes.join():
                    pass
                return
            except KeyboardInterrupt:
                for process in processes.processes:
                    if process.is_alive():
                        os.kill(process.pid, signal.SIGINT)
    finally:
        logger.setLevel(level)


def _work(rank: int, size: int, folder: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    import torch
    import torch.distributed as dist

    if hasattr(os, "setsid"):
        os.setsid()
    _end_with_parent()
    torch.set_num_threads(max(1, torch.get_num_threads() // size))
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=size)
    dist.barrier()  # one that fails at once must not go while another still connects to it, which gloo complains of
    try:
        result = function(*arguments)
        if rank == 0:
            (Path(folder) / "result").write_bytes(pickle.dumps(result))
        dist.barrier()
    except BaseException as error:
        if isinstance(error, UserError):
            part = Path(folder) / f".error-{rank}"
            part.write_bytes(pickle.dumps(error))
            part.rename(Path(folder) / f"error-{rank}")
        dist.destroy_process_group()
        raise
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)  # gloo's threads may abort a process that tears them down while its peer is gone already


def _end_with_parent() -> None:
    """On Linux, ask to be killed when the parent is: an orphan would write into a run that somebody resumes."""
    if sys.platform != "linux":
        return
    import ctypes

    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def _own(folder: Path) -> UserError | None:
    """The error of the user's that the first process told of, if one did."""
    files = sorted(folder.glob("error-*"))
    return pickle.loads(files[0].read_bytes()) if files else None
