"""What machines share whose condition is a recurrent state: states in turn, and a fit through time."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gnomon import contracts
from gnomon.contracts import Array, Procedure
from gnomon.data.examples import Examples
from gnomon.nn.module import Module
from gnomon.system.fields import Clipped
from gnomon.systems.energy._machine import GibbsSteps
from gnomon.systems.energy._sequences import SequenceMachine
from gnomon.systems.energy._through_time import ThroughTime
from gnomon.systems.energy.conditioned import ConditionedMachine
from gnomon.training.gradient import Budget

__all__ = ["RecurrentMachine", "RecurrentModel"]


class RecurrentModel(Module):
    """Base: a state s_t of the frames so far, and a machine of each frame given the state before it.

    Parameters
    ----------
    machine : ConditionedMachine
        Its condition is the state.
    dtype : torch.dtype

    Notes
    -----
    ``first`` is s_0, learned too. A subclass gives `step`.
    """

    machine: ConditionedMachine

    def __init__(self, machine: ConditionedMachine, dtype: torch.dtype) -> None:
        super().__init__()
        self.machine = machine
        self.first = torch.nn.Parameter(torch.zeros(machine.sizes["condition"], dtype=dtype))

    def initialize(self, noise: contracts.Noise, mean: Array) -> None:
        """Small random couplings, biases that have these means, and a random start."""
        self.machine.initialize(noise.child("machine"), mean, scale=0.1)
        with torch.no_grad():
            self.first.copy_(0.1 * noise.child("first").normal(tuple(self.first.shape), like=self.first))

    def step(self, frames: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """s_t of frames (n, d) and s_(t-1), (n, n_state)."""
        raise NotImplementedError

    def unroll(self, frames: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """The states after each frame of sequences (n, T, d), T at least 1: (n, T, n_state)."""
        found = []
        for t in range(frames.shape[1]):
            state = self.step(frames[:, t], state)
            found.append(state)
        return torch.stack(found, 1)

    def place(self, x: Any) -> Array:
        """x as the kind of array that the machine computes in."""
        return self.machine.place(x.detach().cpu() if isinstance(x, torch.Tensor) else x)

    def tensor(self, x: Any) -> torch.Tensor:
        """x as a tensor of the model's own type."""
        return torch.as_tensor(x, dtype=self.first.dtype, device=self.first.device)

    def states(self, frames: torch.Tensor) -> torch.Tensor:
        """s_0 ... s_(T-1) of sequences (n, T, d): what is known before each frame, (n, T, n_state)."""
        first = self.first.expand(len(frames), -1)
        if frames.shape[1] < 2:
            return first[:, None][:, : frames.shape[1]]
        return torch.cat([first[:, None], self.unroll(frames[:, :-1], first)], 1)

    def contexts(self, frames: Array) -> Array:
        """`states` in the kind of the machine's arrays, without gradients."""
        with torch.no_grad():
            return self.place(self.states(self.tensor(frames)))

    def history(self, n: int) -> torch.Tensor:
        """s_0 of n sequences."""
        return self.first.detach().expand(n, -1)

    def condition_of(self, history: torch.Tensor) -> Array:
        """What the machine of the next frame is given: the state itself."""
        return self.place(history)

    def advanced(self, history: torch.Tensor, frame: Array) -> torch.Tensor:
        """The state after one more frame."""
        with torch.no_grad():
            return self.step(self.tensor(frame), history)


class RecurrentMachine(Clipped, SequenceMachine):
    """Base: sequences of frames by a `RecurrentModel`, whose gradients go back through time."""

    batch_size: int | None = 20
    clip: float | None = 5.0

    def initialize(self, model: RecurrentModel, examples: Examples, noise: contracts.Noise) -> None:
        model.initialize(noise, np.array(self.arguments_["mean"]))

    def learned(self, examples: Examples) -> Examples:
        frames, inside = self.frames_of(examples.X)
        return Examples({"X": frames, "inside": inside}, examples.weight)

    def make_objective(self) -> ThroughTime:
        return ThroughTime(self.recipe("objective").build())

    def procedure(self, examples: Any) -> Procedure:
        budget = Budget.of(self.epochs, self.max_updates)
        return GibbsSteps(
            self.recipe("optimizer"), self.learning_rate, budget, clip=self.clip, clip_value=self.clip_value
        )
