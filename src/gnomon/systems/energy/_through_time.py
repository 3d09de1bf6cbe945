"""Training of machines whose condition a network reads from the frames before: gradients go on through time."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gnomon.contracts import Array, Group, Noise
from gnomon.data.batches import Batch
from gnomon.objectives.base import Loss
from gnomon.systems.energy._conditional_objective import GivenConditions, Outcomes
from gnomon.systems.energy.conditioned import CONDITION

__all__ = ["ThroughTime"]


class ThroughTime(GivenConditions):
    """An energy objective of the frames of sequences, each given what ``model.states`` makes of those before it.

    The objective's gradient by each frame's condition, in closed form, is propagated back through the states: samples
    are numbers to it. Where the machine's own parameters make the states, that is added to their gradients. Batches
    have ``X``, frames (rows, T, d), and ``inside``, which of them there are.
    """

    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        """Begin the inner one with the frames."""
        self.inner.begin(model.machine, Outcomes(batches, frames_of), noise, group)
        self.sharded = tuple(f"inner.{name}" for name in self.inner.sharded)

    def forward(self, model: Any, batch: Any, *, noise: Noise, phase: str, group: Group) -> Loss:
        """The loss of the frames of a batch, as sums."""
        with torch.enable_grad():
            conditions = self._conditions(model, batch)
        machine = model.machine.given(model.place(conditions.detach()), traced=True)
        loss = self.inner(machine, frames_of(batch), noise=noise, phase=phase, group=group)
        gradients = {f"machine.{name}": value for name, value in (loss.gradients or {}).items()}
        slope = torch.as_tensor(gradients.pop(f"machine.{CONDITION}")).to(conditions)
        for name, through in self._through(model, conditions, slope).items():
            gradients[name] = gradients[name] + through if name in gradients else through
        return Loss(loss.terms, gradients, loss.per, loss.watch)

    @staticmethod
    def _through(model: Any, conditions: torch.Tensor, slope: torch.Tensor) -> dict[str, Array]:
        """Gradients by the parameters that make the states, the machine's own among them where these do."""
        learned = dict(model.named_parameters())
        slopes = torch.autograd.grad(conditions, list(learned.values()), slope, allow_unused=True)
        found = dict(zip(learned, slopes, strict=True))
        apart = {name for name, one in found.items() if one is None and name.startswith("machine.")}
        return {
            name: model.place(torch.zeros_like(learned[name]) if one is None else one)  # sequences of one frame
            for name, one in found.items() if name not in apart
        }  # fmt: skip

    def given(self, model: Any, batch: Any) -> tuple[Any, Batch]:
        """The machine under what the network has read before each frame of a batch, and the frames."""
        with torch.no_grad():
            return model.machine.given(model.place(self._conditions(model, batch))), frames_of(batch)

    @staticmethod
    def _conditions(model: Any, batch: Any) -> torch.Tensor:
        """What the machine is given at each frame that there is, (frames, n_recurrent)."""
        frames, inside = model.tensor(batch.data["X"]), torch.as_tensor(np.asarray(batch.data["inside"]))
        return model.states(frames)[inside.to(frames.device)]


def frames_of(batch: Any) -> Batch:
    """The frames of a batch of sequences as rows of their own; a frame's place is that of its sequence and its own."""
    inside = np.asarray(batch.data["inside"])
    steps = np.arange(inside.shape[1])
    places = (np.asarray(batch.positions)[:, None] * inside.shape[1] + steps)[inside]
    weight = np.repeat(np.asarray(batch.weight)[:, None], inside.shape[1], axis=1)[inside]
    return Batch({"X": np.asarray(batch.data["X"])[inside]}, places, places, weight)
