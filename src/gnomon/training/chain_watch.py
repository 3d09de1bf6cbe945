"""What the persistent chains of a fit do: whether they move, move together, and stay where the data's energies are."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np
import torch

from gnomon.contracts import Array
from gnomon.inference.arrays import to_numpy
from gnomon.inference.mcmc.mixing import mixing_ratio
from gnomon.numeric.noise import Noise
from gnomon.numeric.sparse import in_full

__all__ = ["WINDOW", "ChainWatch"]

WINDOW = 10
"""Updates that are looked at: few, since a trend of the parameters would pass for chains that move together."""


class ChainWatch:
    """Follows the chains of an objective from update to update.

    Parameters
    ----------
    objective : Objective
        Chains are what a part of it has as ``chains``: states by block, (chains, units).
    """

    def __init__(self, objective: torch.nn.Module) -> None:
        self.objective = objective
        self.states: deque[Array] = deque(maxlen=WINDOW)
        self.moved: list[float] = []

    @property
    def chains(self) -> dict[str, torch.Tensor]:
        """Where the chains stand, by block; none of an objective without any."""
        for part in self.objective.modules():
            chains: Any = getattr(part, "chains", None)
            if chains is not None:
                return dict(chains)
        return {}

    def seen(self) -> None:
        """Take the chains down as they are after an update."""
        chains = self.chains
        if not chains:
            return
        now = np.concatenate([to_numpy(one).reshape(len(one), -1) for one in chains.values()], axis=1)
        if self.states:
            self.moved.append(float((now != self.states[-1]).mean()))
        self.states.append(np.array(now, np.float32))

    def taken(self, model: Any, rows: Any) -> dict[str, Any] | None:
        """What was seen since the last call, as a JSON object; None without chains, or of a single update.

        ``mixing_ratio`` is that of the last updates (None: infinite, the chains are identical), ``moved`` the share of
        the units that changed from update to update, ``frozen`` how many chains did not change in the last updates.
        """
        if len(self.states) < 2 or not self.moved or len(self.states[0]) < 2:
            return None
        x = np.stack(self.states)
        ratio = mixing_ratio(x)
        frozen = (x == x[:1]).all(axis=(0, 2))
        found: dict[str, Any] = {
            "chains": x.shape[1], "units": x.shape[2], "updates": len(x), "moved": float(np.mean(self.moved)),
            "frozen": int(frozen.sum()), "mixing_ratio": None if math.isinf(ratio) else float(np.nan_to_num(ratio)),
        }  # fmt: skip
        self.moved = []
        energies = self._energies(model, rows)
        return found | ({"energy": energies} if energies else {})

    def _energies(self, model: Any, rows: Any) -> dict[str, dict[str, float]] | None:
        """Mean and standard deviation of the energies of some rows, and of draws given the chains."""
        data = str(getattr(model, "observed", "visible"))
        if not hasattr(model, "energy") or data not in getattr(model, "blocks", ()):
            return None
        with torch.no_grad():
            state = {block: model.place(to_numpy(one)) for block, one in self.chains.items()}
            if data not in state:  # no draw of the fit's own noise, which would change what is learned
                state[data] = model.conditional(data, state).sample(Noise(0, "monitor"), 0)
            pairs = {"data": model.energy(model.place(in_full(rows))), "chains": model.energy(state[data])}
        return {name: _moments(to_numpy(values)) for name, values in pairs.items()}


def _moments(values: Array) -> dict[str, float]:
    finite = np.asarray(values, np.float64)
    return {"mean": float(finite.mean()), "std": float(finite.std())}
