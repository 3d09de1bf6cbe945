"""What language models that are networks have in common: how a text is cut, the loss, the fit."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from gnomon.contracts import Group, Noise
from gnomon.data.counting import BOS, UNKNOWN, TokenStream
from gnomon.data.examples import Examples
from gnomon.data.layouts import Lanes, Layout
from gnomon.data.windows import Windows
from gnomon.errors import UserValueError
from gnomon.nn.bptt import log_gradient_norms
from gnomon.nn.recurrent import Recurrent
from gnomon.numeric.ragged import Ragged
from gnomon.objectives.base import Loss, Objective, Term
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import how_many
from gnomon.recipes.recipe import Recipe
from gnomon.system.by_gradient import ByGradient
from gnomon.system.fields import HasDtype
from gnomon.system.language import LanguageModel
from gnomon.systems.sequence._model import NetworkLanguageModel, RecurrentLanguageModel, outcome
from gnomon.training.procedure import Problem

__all__ = ["NetworkLM", "NextTokenLoss", "RecurrentLM"]


class NextTokenLoss(Objective):
    """Cross-entropy of the token after each, in windows whose state may be carried over from the window before.

    What is carried over is a number, not a function of earlier weights: gradients end at the window's beginning
    (truncated back-propagation through time).

    Parameters
    ----------
    carry : bool
        Whether a lane begins in the state in which its last window ended, unless nothing came before.
    """

    sharded = ("carried",)

    def __init__(self, carry: bool) -> None:
        super().__init__()
        self.carry = carry
        self.additive = not carry
        self._judged: torch.Tensor | None = None

    def begin(self, model: RecurrentLanguageModel, batches: Any, noise: Noise, group: Group) -> None:
        """The state of this process's lanes: none yet."""
        if self.carry:
            with torch.no_grad():
                self.register_buffer("carried", model.layer.initial(len(batches.step(0, 0))))

    def forward(self, model: Any, batch: Any, *, noise: Noise, phase: str, group: Group) -> Loss:
        """The loss of a window; the state after it stays."""
        if not self.carry:
            return self._loss(model, batch, None)[0]
        before = self._continued(model, batch, self.get_buffer("carried"))
        loss, after = self._loss(model, batch, before)
        self.carried = after.detach().clone()  # not in place: the backward pass needs what was there
        return loss

    def validate(self, model: Any, batch: Any, *, noise: Noise, group: Group) -> Loss:
        """The loss of a window of text that does not train, whose lanes have a state of their own."""
        with torch.no_grad():
            before = None
            if self.carry:
                state = self._judged
                before = self._continued(model, batch, model.layer.initial(len(batch)) if state is None else state)
            loss, self._judged = self._loss(model, batch, before)
        return loss

    @staticmethod
    def _continued(model: RecurrentLanguageModel, batch: Any, state: torch.Tensor) -> torch.Tensor:
        begins = torch.as_tensor(batch.data["begins"], device=state.device)
        if not bool(batch.data["begins"].any()):
            return state
        return torch.where(begins[:, None], model.layer.initial(len(batch)), state)

    @staticmethod
    def _loss(model: NetworkLanguageModel, batch: Any, state: torch.Tensor | None) -> tuple[Loss, Any]:
        weight = batch.weight * (batch.data["y"] != BOS)
        X, y, w = (torch.as_tensor(value, device=model.device) for value in (batch.data["X"], batch.data["y"], weight))
        scores, after = model.scores(X, state)
        losses = torch.nn.functional.cross_entropy(
            scores.flatten(0, 1), outcome(y).clamp(min=0).flatten(), reduction="none"
        )
        return Loss({"cross_entropy": Term((losses * w.flatten()).sum(), float(weight.sum()))}), after


class NetworkLM(ByGradient, HasDtype, LanguageModel):
    """Base of language models that are networks, fitted to a text whose sentences follow one another."""

    unknown: Annotated[
        float,
        "[0, 1]",
        Doc(
            "Fraction of the tokens seen once that are read as ``<unk>`` in training, so that what is new has a "
            "probability."
        ),
    ] = 0.5
    batch_size: int | None = 32
    dropout: Annotated[
        float, "[0, 1)", Doc("Probability to drop an element of the embedding or of a layer's output in training.")
    ] = 0.2
    epochs: int = 50
    learning_rate: float = 2e-3
    clip: float | None = 1.0
    early_stopping: str | Recipe = "patience"

    # --- fit ----------------------------------------------------------------------------------------------------

    def arguments(self, examples: Examples) -> dict[str, Any]:
        return super().arguments(examples) | {"dtype": self.dtype or "float32"}

    def initialize(self, model: Any, examples: Examples, noise: Noise) -> None:
        super().initialize(model, examples, noise)
        model.initialize(noise)

    def problem(self, model: Any, examples: Examples, noise: Noise, group: Group, validation: Any = None) -> Problem:
        """What the text is laid out as, with some of its rare tokens unknown."""
        size = model.vocabulary_size
        train = self._laid(examples, self._thinned(examples["X"], size, noise.child("unknown")), size)
        judges = None if validation is None else self._laid(validation, validation["X"], size)
        return super().problem(model, train, noise, group, judges)

    def _laid(self, examples: Examples, text: Ragged, size: int) -> Examples:
        """The examples with this text in the form that batches are made of: sentences with their borders."""
        return examples.replace(X=bordered(text, size))

    def _thinned(self, text: Any, size: int, noise: Noise) -> Ragged:
        """The text with some of the tokens that it has once as ``<unk>``."""
        rare = np.bincount(text.values, minlength=size) == 1
        lost = rare & (np.asarray(noise.uniform((size,), like=np.zeros(1))) < self.unknown)
        return Ragged(np.where(lost[text.values], UNKNOWN, text.values), text.offsets)


class RecurrentLM(NetworkLM):
    """Base of recurrent language models; a subclass says the recurrent layer."""

    model_class: ClassVar[type] = RecurrentLanguageModel

    n_hidden: Annotated[int, "[1, inf)", Doc("Units of the recurrent layer.")] = 256
    n_embedding: Annotated[int, "[1, inf)", Doc("Width of the tokens' embedding.")] = 128
    window: Annotated[
        int, "[1, inf)", Doc("Tokens that gradients go back through: the text is read window by window.")
    ] = 35
    sampling: Annotated[
        Literal["sequential", "random"],
        Doc(
            "``sequential``: the text is cut into ``batch_size`` lanes, and every window goes on in the state in which "
            "the one before it ended. ``random``: windows come in random order, each from the state 0."
        ),
    ] = "sequential"

    def make_layer(self, inputs: int, dtype: torch.dtype) -> Recurrent:
        """The recurrent layer, before any fit."""
        raise NotImplementedError

    # --- fit ----------------------------------------------------------------------------------------------------

    def make(self, *, vocabulary_size: int, dtype: str) -> RecurrentLanguageModel:
        kind = getattr(torch, dtype)
        layer = self.make_layer(self.n_embedding, kind)
        return RecurrentLanguageModel(vocabulary_size, self.n_embedding, layer, self.dropout, kind)

    def make_objective(self) -> NextTokenLoss:
        return NextTokenLoss(self.sampling == "sequential")

    def layout(self, examples: Any) -> Layout:
        rows = self.batch_size or -(-len(examples["X"].values) // self.window)  # windows, as many as read everything
        return Lanes(rows, self.window, shift=True) if self.sampling == "sequential" else Windows(rows, self.window)

    # --- verbs --------------------------------------------------------------------------------------------------

    def log_gradient_norms(self, X: Any, length: int = 35) -> NDArray[np.float64]:
        """How well gradients reach back: see `gnomon.nn.bptt.log_gradient_norms`.

        Parameters
        ----------
        X : text
            Its sentences one after the other with their borders, of which the first `length` tokens are read.
        length : int

        Returns
        -------
        float64 array of shape (length,), or shorter where the text is
            log of the norm of the gradient in the state after the first token of the loss of what comes after each;
            NaN before the border ``<s>``, which is never predicted and has no loss.
        """
        if how_many(length, "length") < 1:
            raise UserValueError.must("length", "be at least 1", length)
        text = bordered(self._encoded(X), len(self.vocabulary_)).values[: length + 1]
        model = self.model_
        ids = torch.from_numpy(text).to(model.device)
        targets = outcome(ids[1:])[None].clamp(min=0)

        def loss(outputs: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.cross_entropy(model.head(outputs).mT, targets, reduction="none")

        norms = log_gradient_norms(model.layer, model.embedding(ids[None, :-1]).detach(), loss)
        return np.where(text[1:] == BOS, np.nan, norms.detach().cpu().numpy().astype(np.float64))


def bordered(text: Any, vocabulary_size: int) -> Ragged:
    """Sentences with ``<s>`` before and ``</s>`` after each."""
    stream = TokenStream.of(text.values, text.offsets, vocabulary_size, "pad")
    return Ragged(stream.tokens, text.offsets + 2 * np.arange(len(text.offsets)))
