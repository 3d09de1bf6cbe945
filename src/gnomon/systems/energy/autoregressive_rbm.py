"""The conditional restricted Boltzmann machine of time series: biases that are linear in the frames before."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np
import torch

from gnomon import contracts
from gnomon.contracts import Array, Procedure
from gnomon.data.examples import Examples
from gnomon.numeric.tensors import is_tensor
from gnomon.recipes.fields import Doc
from gnomon.systems.energy._conditional_objective import GivenConditions
from gnomon.systems.energy._machine import GibbsSteps
from gnomon.systems.energy._sequences import SequenceMachine
from gnomon.systems.energy.conditional_rbm import ConditionalRBMModel
from gnomon.training.gradient import Budget

__all__ = ["AutoregressiveRBM", "AutoregressiveRBMModel"]


class AutoregressiveRBMModel(ConditionalRBMModel):
    """A `ConditionalRBMModel` of a frame given the `order` frames before it, the last one first.

    Parameters
    ----------
    frame_size, order, n_hidden : int
    kind : {"bernoulli", "gaussian"}
    dtype : torch.dtype
    """

    def __init__(
        self, frame_size: int, order: int, n_hidden: int, kind: str, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__(order * frame_size, frame_size, n_hidden, kind, dtype)
        self.order = order

    @property
    def machine(self) -> AutoregressiveRBMModel:
        """The machine of each frame: this one."""
        return self

    def contexts(self, frames: Array) -> Array:
        """The frames before each of some sequences (n, T, d), 0 before the first: (n, T, order d)."""
        return lagged(frames, self.order)

    def history(self, n: int) -> Array:
        """What n sequences remember before their first frame."""
        return np.zeros((n, self.sizes["condition"]))

    def condition_of(self, history: Array) -> Array:
        """What the machine of the next frame is given."""
        return self.place(history)

    def advanced(self, history: Array, frame: Array) -> Array:
        """What is remembered after one more frame."""
        d = self.sizes["visible"]
        kept = history[:, : history.shape[1] - d]
        return np.concatenate([frame.cpu().numpy() if is_tensor(frame) else frame, kept], axis=1)


def lagged(frames: Array, order: int) -> Array:
    """Frames before each of some sequences (n, T, d), the last one first, 0 before the first: (n, T, order d).

    Examples
    --------
    >>> lagged(np.array([[[1.0], [2.0], [3.0]]]), 2)[0].tolist()
    [[0.0, 0.0], [1.0, 0.0], [2.0, 1.0]]
    """
    n, steps, d = frames.shape
    padded = np.concatenate([np.zeros((n, order, d), frames.dtype), frames], axis=1)
    return np.concatenate([padded[:, order - lag : order - lag + steps] for lag in range(1, order + 1)], axis=2)


class AutoregressiveRBM(SequenceMachine):
    r"""Conditional restricted Boltzmann machine of time series: a machine of each frame, given the frames before it.

    The biases are linear in the last m frames, :math:`b_t = b + \sum_{\tau=1}^m A_\tau^T x_{t-\tau}` and
    :math:`c_t = c + \sum_{\tau=1}^m B_\tau^T x_{t-\tau}`, the couplings W those of all frames. With W = 0 and real
    frames it is a vector autoregression, with A = B = 0 a restricted machine without memory.

    Attributes
    ----------
    history_ : dict of lists
        By epoch what the objective watches, and ``gradient_norm``.

    Notes
    -----
    A sequence is a row of a table, an array of an array (n, T, d), or of a list of arrays (T, d) of different lengths;
    nothing is taken across its ends. Before its first frame there are zeros: the mean of the columns, where these are
    scaled. Every frame is a training example, in batches of any sequences. The scale of the gradient by A is that of
    the data and often far from that of W, which an optimizer with steps for each parameter (``adam``) evens out;
    ``sgd`` wants a small learning rate. Cost per update O(batch (m d (d + n_hidden) + d n_hidden) k).
    Source: Taylor, Hinton and Roweis (2007), "Modeling human motion using binary latent variables".

    Examples
    --------
    >>> frames = np.tile(np.eye(4), (3, 1))  # a spot that goes round
    >>> machine = AutoregressiveRBM(order=1, n_hidden=2, epochs=200, learning_rate=0.05, random_state=0)
    >>> machine = machine.fit([frames, frames[1:], frames[2:], frames[3:]])
    >>> machine.generate(3, frames[:2], random_state=0)[0].argmax(1).tolist()
    [2, 3, 0]
    """

    name: ClassVar[str] = "autoregressive-rbm"
    model_class: ClassVar[type] = AutoregressiveRBMModel

    order: Annotated[int, "[1, inf)", Doc("Frames before a frame that its biases depend on.")] = 2
    batch_size: int | None = 50

    def make(self, n_features: int, dtype: str, frame_size: int, **_: Any) -> AutoregressiveRBMModel:
        return AutoregressiveRBMModel(frame_size, self.order, self.n_hidden, self.visible, getattr(torch, dtype))

    def initialize(self, model: AutoregressiveRBMModel, examples: Examples, noise: contracts.Noise) -> None:
        model.initialize(noise, np.array(self.arguments_["mean"]), scale=0.1)

    def learned(self, examples: Examples) -> Examples:
        frames, inside = self.frames_of(examples.X)
        weight = np.repeat(examples.weight[:, None], frames.shape[1], axis=1)[inside]
        return Examples({"X": lagged(frames, self.order)[inside], "y": frames[inside]}, weight)

    def make_objective(self) -> GivenConditions:
        return GivenConditions(self.recipe("objective").build())

    def procedure(self, examples: Any) -> Procedure:
        return GibbsSteps(self.recipe("optimizer"), self.learning_rate, Budget.of(self.epochs, self.max_updates))
