"""Start processes that fit together on this machine."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gnomon.errors import UserValueError

__all__ = ["launch"]


def launch(function: Callable[..., Any], *arguments: Any, devices: int = 2) -> Any:
    """Run ``function(*arguments)`` in `devices` processes that form one group; what the first returns.

    Parameters
    ----------
    function : callable
        Defined at the top level of a module, since new processes import it.
    *arguments
        Sent to each process.
    devices : int in [1, inf), default 2

    Raises
    ------
    UserValueError
        Fewer than one process.
    """
    if devices < 1:
        raise UserValueError(f"{devices} processes", "devices", "ask for at least 1")
    if devices == 1:
        return function(*arguments)
    import torch.multiprocessing as mp

    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(_work, (devices, folder, function, arguments), nprocs=devices)
        # written by our own child a moment ago, in a folder only this user can enter
        return pickle.loads((Path(folder) / "result").read_bytes())


def _work(rank: int, size: int, folder: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(max(1, torch.get_num_threads() // size))
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=size)
    try:
        result = function(*arguments)
        if rank == 0:
            (Path(folder) / "result").write_bytes(pickle.dumps(result))
        dist.barrier()
    finally:
        dist.destroy_process_group()
