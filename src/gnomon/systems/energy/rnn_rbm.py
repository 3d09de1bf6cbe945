"""The recurrent network that emits a restricted Boltzmann machine for each frame of a sequence."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch

from gnomon import contracts
from gnomon.contracts import Array, Procedure
from gnomon.data.examples import Examples
from gnomon.nn.module import Module
from gnomon.nn.recurrent import RNN
from gnomon.recipes.fields import Doc
from gnomon.system.fields import Clipped
from gnomon.systems.energy._sequences import SequenceMachine
from gnomon.systems.energy._through_time import ThroughTime
from gnomon.systems.energy.conditional_rbm import ConditionalRBMModel
from gnomon.training.gradient import Budget, Gradient

__all__ = ["RNNRBM", "RNNRBMModel"]


class RNNRBMModel(Module):
    r"""u_t = tanh(W_u u_(t-1) + W_x x_t + b_u), and a machine of x_t whose biases are affine in u_(t-1).

    Parameters
    ----------
    frame_size, n_recurrent, n_hidden : int
    kind : {"bernoulli", "gaussian"}
    dtype : torch.dtype
    couplings : bool, default False
        Whether W is affine in u_(t-1) too: n_recurrent frame_size n_hidden numbers more.

    Notes
    -----
    ``machine`` is a `ConditionalRBMModel` given u_(t-1), ``network`` the recurrence, ``first`` u_0, learned too.
    """

    def __init__(
        self,
        frame_size: int,
        n_recurrent: int,
        n_hidden: int,
        kind: str,
        dtype: torch.dtype = torch.float32,
        *,
        couplings: bool = False,
    ) -> None:
        super().__init__()
        self.machine = ConditionalRBMModel(n_recurrent, frame_size, n_hidden, kind, dtype, couplings=couplings)
        self.network = RNN(frame_size, n_recurrent, dtype=dtype)
        self.first = torch.nn.Parameter(torch.zeros(n_recurrent, dtype=dtype))

    def initialize(self, noise: contracts.Noise, mean: Array) -> None:
        """Small random couplings, biases that have these means, an orthogonal recurrence, and a random start."""
        self.machine.initialize(noise.child("machine"), mean, scale=0.1)
        self.network.initialize(noise.child("network"))
        with torch.no_grad():
            self.first.copy_(0.1 * noise.child("first").normal(tuple(self.first.shape), like=self.first))

    def place(self, x: Any) -> Array:
        """x as the kind of array that the machine computes in."""
        return self.machine.place(x.detach().cpu() if isinstance(x, torch.Tensor) else x)

    def tensor(self, x: Any) -> torch.Tensor:
        """x as a tensor of the model's own type."""
        return torch.as_tensor(x, dtype=self.first.dtype, device=self.first.device)

    def states(self, frames: torch.Tensor) -> torch.Tensor:
        """u_0 ... u_(T-1) of sequences (n, T, d): what is known before each frame, (n, T, n_recurrent)."""
        first = self.first.expand(len(frames), -1)
        if frames.shape[1] < 2:
            return first[:, None][:, : frames.shape[1]]
        return torch.cat([first[:, None], self.network.unroll(frames[:, :-1], first)], 1)

    def contexts(self, frames: Array) -> Array:
        """`states` in the kind of the machine's arrays, without gradients."""
        with torch.no_grad():
            return self.place(self.states(self.tensor(frames)))

    def history(self, n: int) -> torch.Tensor:
        """u_0 of n sequences."""
        return self.first.detach().expand(n, -1)

    def condition_of(self, history: torch.Tensor) -> Array:
        """What the machine of the next frame is given: u itself."""
        return self.place(history)

    def advanced(self, history: torch.Tensor, frame: Array) -> torch.Tensor:
        """u after one more frame."""
        with torch.no_grad():
            return self.network.step(self.tensor(frame), history)


class RNNRBM(Clipped, SequenceMachine):
    r"""Recurrent network with a restricted Boltzmann machine of each frame: sequences of frames that hang together.

    :math:`u_t = \tanh(W_u u_{t-1} + W_x x_t + b_u)` reads a sequence, and the machine of frame t has the biases
    :math:`b + A^T u_{t-1}` and :math:`c + B^T u_{t-1}`, so that columns of a frame depend on each other and on all
    frames before; with ``emits="all"`` its couplings are affine in u too. The objective's gradient by what is emitted
    is propagated back through time.

    Attributes
    ----------
    history_ : dict of lists
        By epoch what the objective watches, and ``gradient_norm``.

    Notes
    -----
    A sequence is a row of a table, an array of an array (n, T, d), or of a list of arrays (T, d) of different lengths:
    frames behind the end of a shorter one have no part in anything. A batch holds whole sequences. Cost per update
    O(frames (d + n_recurrent) (n_hidden + n_recurrent) k). Source: Boulanger-Lewandowski, Bengio and Vincent (2012),
    "Modeling temporal dependencies in high-dimensional sequences", section 4.

    Examples
    --------
    >>> frames = np.tile(np.eye(4), (3, 1))  # a spot that goes round
    >>> machine = RNNRBM(n_recurrent=8, n_hidden=2, epochs=200, batch_size=4, learning_rate=0.02, random_state=0)
    >>> machine = machine.fit([frames, frames[1:], frames[2:], frames[3:]])
    >>> machine.generate(3, frames[:2], random_state=0)[0].argmax(1).tolist()
    [2, 3, 0]
    """

    name: ClassVar[str] = "rnn-rbm"
    model_class: ClassVar[type] = RNNRBMModel

    n_recurrent: Annotated[int, "[1, inf)", Doc("Units of the recurrent network.")] = 50
    emits: Annotated[
        Literal["biases", "all"],
        Doc("What the network emits for each frame: biases, or couplings too, n_recurrent numbers for each of W's."),
    ] = "biases"
    batch_size: int | None = 20
    clip: float | None = 5.0

    def make(self, n_features: int, dtype: str, frame_size: int, **_: Any) -> RNNRBMModel:
        kind, couplings = getattr(torch, dtype), self.emits == "all"
        return RNNRBMModel(frame_size, self.n_recurrent, self.n_hidden, self.visible, kind, couplings=couplings)

    def initialize(self, model: RNNRBMModel, examples: Examples, noise: contracts.Noise) -> None:
        model.initialize(noise, np.array(self.arguments_["mean"]))

    def learned(self, examples: Examples) -> Examples:
        frames, inside = self.frames_of(examples.X)
        return Examples({"X": frames, "inside": inside}, examples.weight)

    def make_objective(self) -> ThroughTime:
        return ThroughTime(self.recipe("objective").build())

    def procedure(self, examples: Any) -> Procedure:
        budget = Budget.of(self.epochs, self.max_updates)
        return Gradient(
            self.recipe("optimizer"), self.learning_rate, budget, clip=self.clip, clip_value=self.clip_value
        )
