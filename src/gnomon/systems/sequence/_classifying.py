"""What encoders of texts that learn labels have in common: texts or pairs in, tokens that attention reads."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray

from gnomon.contracts import Array
from gnomon.data.documents import Documents
from gnomon.data.examples import Examples
from gnomon.data.layouts import Padded
from gnomon.data.packing import PAD, SEP, SPECIALS, room
from gnomon.data.text import Vocabulary, plural
from gnomon.distributions.arrays import row_weights
from gnomon.errors import UserValueError, counted
from gnomon.nn.text_encoder import TextEncoder
from gnomon.numeric.ragged import Ragged
from gnomon.recipes.fields import Doc
from gnomon.systems.sequence._encoding import OnTextEncoder
from gnomon.systems.sequence._model import WithVocabulary, vocabulary_in
from gnomon.systems.sequence._published import check_settings, widths

__all__ = ["EncodedTexts", "ReadsTexts", "segments_of"]

CELLS = 1 << 15
"""Tokens that are read at once in prediction."""


def segments_of(ids: torch.Tensor) -> torch.Tensor:
    """Segments of packed rows: 1 for the second text and the ``<sep>`` behind it.

    Examples
    --------
    >>> segments_of(torch.tensor([[2, 7, 3, 8, 3, 0], [2, 7, 3, 0, 0, 0]])).tolist()
    [[0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 0, 0]]
    """
    ends = ids == SEP
    before = ends.cumsum(1) - ends.long()
    return ((before > 0) & (ids != PAD)).long()


class EncodedTexts(WithVocabulary):
    """A `TextEncoder` and what an affine layer makes of its vectors.

    Parameters
    ----------
    encoder : TextEncoder
    """

    def __init__(self, encoder: TextEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def learning_stages(self) -> list[tuple[str, ...]]:
        """The embedding, each layer, what stands behind the layers, and the output layer."""
        first = tuple(f"encoder.{name}." for name in ("tokens", "segments", "places", "norm", "widen"))
        layers = [(f"encoder.layers.{i}.",) for i in range(len(self.encoder.layers))]
        stages = [first, *layers, ("encoder.last.", "encoder.pooler."), ("head.",)]
        names = [name for name, _ in self.named_parameters()]
        return [stage for stage in stages if any(name.startswith(stage) for name in names)]

    def read(self, ids: torch.Tensor) -> torch.Tensor:
        """Vectors (n, T, width) of the tokens of packed rows (n, T)."""
        encoded: torch.Tensor = self.encoder(ids, segments_of(ids), (ids != PAD).sum(1))
        return encoded

    def ask_rows(self, method: str, rows: Ragged) -> list[tuple[NDArray[np.int64], Array]]:
        """What a method answers to packed rows, those of like length together, with the rows' indices."""
        found = []
        order, begin = np.argsort(rows.lengths, kind="stable"), 0
        while begin < len(order):
            widest = int(rows.lengths[order[-1]])
            chosen = order[begin : begin + max(1, CELLS // widest)]
            ids = torch.from_numpy(rows.take(chosen).padded()).to(self.device)
            with torch.no_grad():
                found.append((chosen, getattr(self, method)(ids).cpu().numpy()))
            begin += len(chosen)
        return found


class ReadsTexts(OnTextEncoder):
    """Base of systems that read a text, or two, to each row by attention in both directions."""

    window: Annotated[
        int, "[5, inf)", Doc("Tokens that are read of a row, special ones among them; longer texts are cut.")
    ] = 64
    epochs: int = 10

    @property
    def domain(self) -> Documents:
        """Texts cut into tokens by `unit`, one or two to a row."""
        return Documents(self.unit)

    def known_domain(self) -> Documents:
        return Documents(self.unit, self.vocabulary_, self.arguments_["pair"], self.window)

    # --- fit ----------------------------------------------------------------------------------------------------

    def _validation_rows(self, X: Any, examples: Examples) -> Ragged:
        shared = examples.shared
        return Documents(self.unit, shared["vocabulary"], bool(shared["pair"].two), self.window).ingest(X)

    def text_examples(self, X: Any, sample_weight: Any) -> Examples:
        """Rows of ids, packed, and the domain that they were read by."""
        X = X if hasattr(X, "__len__") or not hasattr(X, "__iter__") else list(X)  # gone through several times
        domain, known = Documents(self.unit, size=self.vocabulary_size), self._known_vocabulary()
        domain = domain.learn(X, self.min_count) if known is None else domain.known(X, known)
        pair = bool(domain.pair)
        whole, space = domain.ids(X), room(self.window, pair)
        lengths = whole[0].lengths + (0 if whole[1] is None else whole[1].lengths)
        self._tell_of_cuts(lengths, space)
        cut = Documents(self.unit, domain.vocabulary, pair, self.window)
        rows = cut.ingest(X)
        weight = row_weights(sample_weight, len(rows), np.dtype(getattr(self, "dtype", None) or "float32"))
        return Examples({"X": rows}, weight, shared={"vocabulary": domain.vocabulary, "pair": TwoTexts(pair)})

    def _tell_of_cuts(self, lengths: NDArray[np.int64], space: int) -> None:
        """Say once how many rows are cut."""
        n = int((lengths > space).sum())
        if n:
            what = f"{counted(n, 'row')} of {len(lengths)} {'has' if n == 1 else 'have'} more than {space}"
            remedy = f"window={int(lengths.max()) + self.window - space} reads all of them"
            warnings.warn(f"{what} {plural(self.unit)} and will be cut; {remedy}", UserWarning, stacklevel=4)

    def _known_vocabulary(self) -> Vocabulary | None:
        """That of the source of the first weights; None where the fit begins by chance."""
        if self._start is None:
            return None
        source = self._start[1]
        if source.published is not None:
            check_settings(self, source.published, ("bert", "electra", "roberta"))
            return source.published.vocabulary
        unit = getattr(source.system, "unit", self.unit)
        if unit != self.unit:
            what = f"unit must be that of {source.name}, {unit!r}, got {self.unit!r}"
            raise UserValueError(what, "unit", "its weights belong to its tokens")
        found = getattr(getattr(source.system, "model_", None), "vocabulary", None) or vocabulary_in(source.arrays)
        if found is None or found.specials != SPECIALS:
            what = f"{source.name} has no vocabulary with {', '.join(SPECIALS)}"
            raise UserValueError(what, "initial", "begin from a fit of bert, or of such a classifier")
        return found

    def arguments(self, examples: Examples) -> dict[str, Any]:
        return {
            "n_ids": len(examples.shared["vocabulary"]), "pair": bool(examples.shared["pair"].two),
            "dtype": getattr(self, "dtype", None) or "float32", **widths(self._start),
        }  # fmt: skip

    def usable_weights(self, model: Any, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        own = (*model.state_dict(), *(name for name in arrays if name.startswith("token_")))
        layers = ("encoder.layers.", "encoder.places.")  # of which the source must have as many
        return {name: value for name, value in arrays.items() if name in own or name.startswith(layers)}

    def layout(self, examples: Any) -> Padded:
        return Padded(self.batch_size or len(examples), shuffle=self.batch_size is not None)


class TwoTexts:
    """Whether rows hold two texts, as examples share it.

    Parameters
    ----------
    two : bool
    """

    def __init__(self, two: bool) -> None:
        self.two = two

    def state(self) -> dict[str, NDArray[Any]]:
        """As an array."""
        return {"two": np.array([self.two])}
