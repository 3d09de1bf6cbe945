"""The recurrent network that emits a restricted Boltzmann machine for each frame of a sequence."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import torch

from gnomon import contracts
from gnomon.contracts import Array
from gnomon.nn.recurrent import RNN
from gnomon.recipes.fields import Doc
from gnomon.systems.energy._recurrent import RecurrentMachine, RecurrentModel
from gnomon.systems.energy.conditional_rbm import ConditionalRBMModel

__all__ = ["RNNRBM", "RNNRBMModel"]


class RNNRBMModel(RecurrentModel):
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
        super().__init__(
            ConditionalRBMModel(n_recurrent, frame_size, n_hidden, kind, dtype, couplings=couplings), dtype
        )
        self.network = RNN(frame_size, n_recurrent, dtype=dtype)

    def initialize(self, noise: contracts.Noise, mean: Array) -> None:
        """Small random couplings, biases that have these means, an orthogonal recurrence, and a random start."""
        super().initialize(noise, mean)
        self.network.initialize(noise.child("network"))

    def step(self, frames: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """u_t of frames (n, d) and u_(t-1)."""
        return self.network.step(frames, state)

    def unroll(self, frames: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """The states after each frame, in one fused call."""
        return self.network.unroll(frames, state)


class RNNRBM(RecurrentMachine):
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
    >>> import numpy as np
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

    def make(self, n_features: int, dtype: str, frame_size: int, **_: Any) -> RNNRBMModel:
        kind, couplings = getattr(torch, dtype), self.emits == "all"
        return RNNRBMModel(frame_size, self.n_recurrent, self.n_hidden, self.visible, kind, couplings=couplings)
