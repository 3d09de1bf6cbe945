"""The recurrent temporal restricted Boltzmann machine: what it makes of a frame is what it begins the next one with."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import torch

from gnomon.distributions.units import BernoulliUnits, Units
from gnomon.recipes.fields import Doc
from gnomon.systems.energy._recurrent import RecurrentMachine, RecurrentModel
from gnomon.systems.energy.conditional_rbm import UNITS
from gnomon.systems.energy.conditioned import ConditionedMachine
from gnomon.systems.energy.links import DenseLink

__all__ = ["RTRBM", "RTRBMModel"]


class RTRBMModel(RecurrentModel):
    r"""h_t = sigmoid(W^T x_t + c + B^T h_(t-1)), means; and a machine of x_t whose hidden biases are c + B^T h_(t-1).

    Parameters
    ----------
    frame_size, n_hidden : int
    kind : {"bernoulli", "gaussian"}
        Units of a frame: w(x) = b^T x of bits, -sum_j exp(log_precision_j) (x_j - b_j)^2 / 2 of real numbers.
    dtype : torch.dtype

    Notes
    -----
    ``machine`` has W, b, c and, as ``condition_hidden_weight``, B; ``first`` is h_0. The state is the mean of the
    hidden units under the machine that was given the state before: nothing else remembers.
    """

    def __init__(self, frame_size: int, n_hidden: int, kind: str, dtype: torch.dtype = torch.float32) -> None:
        units: dict[str, Units] = {"visible": UNITS[kind](frame_size), "hidden": BernoulliUnits(n_hidden)}
        links = [DenseLink("visible", "hidden", name="")]
        super().__init__(ConditionedMachine(n_hidden, units, links, moved=("hidden",), dtype=dtype), dtype)

    def step(self, frames: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """The means of the hidden units given the frames (n, d) and the means before, (n, n_hidden)."""
        found: torch.Tensor = self.machine.given(state).conditional("hidden", {"visible": frames}).mean
        return found


class RTRBM(RecurrentMachine):
    r"""Recurrent temporal restricted Boltzmann machine: hidden units that remember by their own means.

    Given the means :math:`\hat h_{t-1}` that the hidden units had at the frame before, frame t is a restricted machine
    with the hidden biases :math:`c + B^T \hat h_{t-1}`, and its own means are
    :math:`\hat h_t = \sigma(W^T x_t + c + B^T \hat h_{t-1})`: the `rnn-rbm` whose recurrent state is the posterior of
    the machine itself, so that W and B both make the state and are moved by it. The gradient goes through all
    :math:`\hat h` exactly; where the model's side comes from is the objective's.

    Attributes
    ----------
    history_ : dict of lists
        By epoch what the objective watches, and ``gradient_norm``.

    Notes
    -----
    A sequence is a row of a table, an array of an array (n, T, d), or of a list of arrays (T, d) of different lengths:
    frames behind the end of a shorter one have no part in anything. A batch holds whole sequences. The means before the
    first frame, :math:`\hat h_0`, are learned and bound to nothing. Cost per update
    O(frames n_hidden (d + n_hidden) k). Source: Sutskever, Hinton and Taylor (2009), "The recurrent temporal restricted
    Boltzmann machine".

    Examples
    --------
    >>> import numpy as np
    >>> frames = np.tile(np.eye(4), (3, 1))  # a spot that goes round
    >>> machine = RTRBM(n_hidden=20, epochs=300, batch_size=4, learning_rate=0.05, random_state=0)
    >>> machine = machine.fit([frames, frames[1:], frames[2:], frames[3:]])
    >>> machine.generate(3, frames[:2], random_state=0)[0].argmax(1).tolist()
    [2, 3, 0]
    """

    name: ClassVar[str] = "rtrbm"
    model_class: ClassVar[type] = RTRBMModel

    n_hidden: Annotated[int, "[1, inf)", Doc("Hidden units, whose means are the memory.")] = 30
    learning_rate: float = 0.02

    def make(self, n_features: int, dtype: str, frame_size: int, **_: Any) -> RTRBMModel:
        return RTRBMModel(frame_size, self.n_hidden, self.visible, getattr(torch, dtype))
