"""What encoders of texts that learn without labels have in common: passages in, vectors of texts out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from gnomon.data.examples import Examples
from gnomon.data.packing import Packed, pack, room
from gnomon.data.passages import Corpus, passages, stretches
from gnomon.data.sequences import Tokens
from gnomon.data.text import Vocabulary
from gnomon.errors import UserValueError
from gnomon.evaluation.score import Score
from gnomon.inference.cloze import cloze
from gnomon.nn.text_encoder import TextEncoder
from gnomon.numeric.ragged import Ragged
from gnomon.recipes.fields import Doc
from gnomon.system.fields import HasDtype
from gnomon.systems.sequence._encoding import OnTextEncoder
from gnomon.systems.sequence._published import check_settings, widths

__all__ = ["TextPretraining", "outputs", "pieces"]

APART = 7
"""Distance of the tokens that `evaluate` hides together: about as many as in training."""
CELLS = 1 << 15
"""Tokens that are read at once."""


def pieces(text: Ragged, size: int) -> tuple[Ragged, NDArray[np.int64]]:
    """Texts cut into pieces of at most so many tokens, at least one of each, and the text of each piece.

    Examples
    --------
    >>> found, owner = pieces(Ragged.of([[1, 2, 3], [], [4]]), 2)
    >>> [one.tolist() for one in found], owner.tolist()
    ([[1, 2], [3], [], [4]], [0, 0, 1, 2])
    """
    counts = np.maximum(1, -(-text.lengths // size))
    owner = np.repeat(np.arange(len(text)), counts)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    return Ragged(text.values, np.append(text.offsets[owner] + within * size, len(text.values))), owner


def outputs(
    encoder: TextEncoder, packed: Packed, device: torch.device
) -> Iterator[tuple[NDArray[np.int64], torch.Tensor]]:
    """The vectors (n, T, width) of the tokens of rows, those of like length together, with the rows' indices."""
    order, begin = np.argsort(packed.lengths, kind="stable"), 0
    while begin < len(order):
        rows = order[begin : begin + max(1, CELLS // packed.ids.shape[1])]
        T = int(packed.lengths[rows].max())
        given = (packed.ids[rows, :T], packed.segments[rows, :T], packed.lengths[rows])
        with torch.no_grad():
            yield rows, encoder(*(torch.as_tensor(one, device=device) for one in given))
        begin += len(rows)


class TextPretraining(OnTextEncoder, HasDtype):
    """Base of encoders of texts that learn from a text without labels.

    The model has an ``encoder`` (`TextEncoder`), a ``vocabulary`` and ``follows``, None where it does not learn what
    follows what.
    """

    tasks: ClassVar[tuple[str, ...]] = ("fill",)
    primary: ClassVar[str] = "masked_log_likelihood"
    published: ClassVar[tuple[str, ...]] = ()
    """Families of published encoders that a fit can begin from."""

    document: Annotated[
        int, "[2, inf)", Doc("Sentences that count as a document where no blank one separates documents.")
    ] = 8
    masking: Annotated[float, "(0, 1)", Doc("Probability of a token to be among those that are to be foretold.")] = 0.15
    pooling: Annotated[
        Literal["mean", "first"],
        Doc("The vector of a text: the mean of those of its tokens, or what the pooler makes of that of ``<cls>``."),
    ] = "mean"
    epochs: int = 50

    @property
    def domain(self) -> Corpus:
        """Text cut into tokens by `unit`."""
        return Corpus(self.unit, size=self.vocabulary_size)

    def known_domain(self) -> Tokens:
        return Tokens(self.unit, self.vocabulary_, self.vocabulary_size)

    # --- fit ----------------------------------------------------------------------------------------------------

    def wants_pairs(self) -> bool:
        """Whether rows have two passages."""
        return False

    def ingest(self, X: Any, y: Any = None, sample_weight: Any = None) -> Examples:
        if sample_weight is not None:
            raise UserValueError("sentences have no weights here", "sample_weight", "repeat a sentence instead")
        text, vocabulary = self._first_text(X)
        found = self._passages(text, vocabulary, self.wants_pairs())
        if self.wants_pairs() and not self._pairs(found):
            what = "what follows what is not learned: the text has no two documents, or none of two sentences"
            warnings.warn(f"{what}; separate documents by blank lines", UserWarning, stacklevel=3)
            return self._passages(text, vocabulary, pairs=False)
        return found

    def _first_text(self, X: Any) -> tuple[Ragged, Vocabulary | None]:
        """Ids of a text, and the vocabulary: its own, or that of a published encoder that the fit begins from."""
        published = None if self._start is None else self._start[1].published
        if published is None:
            domain, text = self.domain.read_first(X, self.min_count)
            return text, domain.vocabulary
        check_settings(self, published, self.published)
        return Corpus(self.unit, published.vocabulary, self.vocabulary_size).ingest(X), published.vocabulary

    def ingest_validation(self, validation: Any, examples: Any) -> Examples:
        return self.text_examples(validation, examples.shared["vocabulary"], pairs=self._pairs(examples))

    def text_examples(self, X: Any, vocabulary: Vocabulary, pairs: bool | None = None) -> Examples:
        """A text as examples, passage by passage, in the ids of a vocabulary."""
        text = Corpus(self.unit, vocabulary, self.vocabulary_size).ingest(X)
        return self._passages(text, vocabulary, self.wants_pairs() if pairs is None else pairs)

    def _passages(self, text: Ragged, vocabulary: Any, pairs: bool) -> Examples:
        found = passages(text, stretches(text.lengths, self.document), room(self.window, pairs), pairs=pairs)
        return Examples(found.fields, shared=found.shared | {"vocabulary": vocabulary})

    @staticmethod
    def _pairs(examples: Examples) -> bool:
        """Whether there are passages that follow others, and documents to draw others from."""
        behind: Any = examples["next"]
        return bool(examples.shared["passages"].several) and bool(behind.lengths.any())

    def arguments(self, examples: Examples) -> dict[str, Any]:
        return {
            "vocabulary_size": len(examples.shared["vocabulary"]), "pairs": self._pairs(examples),
            "dtype": self.dtype or "float32", **self._norms(),
        }  # fmt: skip

    def _norms(self) -> dict[str, Any]:
        """The term of the norms, where it is that of a source."""
        return {name: value for name, value in widths(self._start).items() if name == "epsilon"}

    # --- vectors ------------------------------------------------------------------------------------------------

    def _texts(self, X: Any) -> Ragged:
        """Ids of the texts."""
        check_is_fitted(self)
        return self.known_domain().ingest(X)

    def transform(self, X: Any) -> NDArray[Any]:
        """A vector of each text, shape (texts, n_embedding).

        A text of more than ``window - 2`` tokens is read in pieces: the mean is that over all of its tokens, and what
        is made of ``<cls>`` that of the first piece. Without any token the mean is 0.
        """
        text = self._texts(X)
        found, owner = pieces(text, room(self.window, pair=False))
        encoder, packed = self.model_.encoder, pack(found)
        means = self.pooling == "mean"
        sums = np.zeros((len(found), encoder.width), np.dtype(self.arguments_["dtype"]))
        for rows, tokens in outputs(encoder, packed, self.model_.device):
            sums[rows] = (_summed(tokens, packed.lengths[rows]) if means else encoder.pool(tokens)).cpu().numpy()
        if not means:
            return sums[np.searchsorted(owner, np.arange(len(text)))]
        total = np.zeros((len(text), sums.shape[1]), sums.dtype)
        np.add.at(total, owner, sums)
        return total / np.maximum(1, text.lengths)[:, None].astype(sums.dtype)

    def encode(self, X: Any) -> list[NDArray[Any]]:
        """Vectors of the tokens of each text, (tokens, n_embedding), which depend on what stands around them."""
        text = self._texts(X)
        flat = np.zeros((len(text.values), self.model_.encoder.width), np.dtype(self.arguments_["dtype"]))
        for index, tokens in self._own(text):
            flat[index] = tokens.cpu().numpy()
        return [flat[a:b] for a, b in zip(text.offsets[:-1], text.offsets[1:], strict=True)]

    def _own(self, text: Ragged) -> Iterator[tuple[NDArray[np.int64], torch.Tensor]]:
        """Vectors (m, width) of the texts' tokens, with their places among all of them."""
        found, _ = pieces(text, room(self.window, pair=False))
        packed = pack(found)
        for rows, tokens in outputs(self.model_.encoder, packed, self.model_.device):
            at = np.arange(tokens.shape[1])
            inside = (at >= 1) & (at < packed.lengths[rows][:, None] - 1)
            index = found.offsets[rows][:, None] + at - 1
            yield index[inside], tokens[torch.as_tensor(inside, device=tokens.device)]

    # --- hidden tokens ------------------------------------------------------------------------------------------

    def _cloze_of(self, model: Any, text: Ragged, apart: int | None) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Of each text the sum of the log probabilities of hidden tokens, and how many are the most probable one."""
        found, owner = pieces(text, room(self.window, pair=False))
        log_prob, hit = cloze(model, pack(found), apart)
        total = np.bincount(owner, log_prob.sum(1), len(text)).astype(np.float64)
        return total, np.bincount(owner, hit.sum(1), len(text)).astype(np.int64)

    def _cloze_scores(self, model: Any, text: Ragged) -> dict[str, Score]:
        """Log likelihood of hidden tokens, every seventh at a time, and how many are the most probable one."""
        counts, space = text.lengths, self.known_domain().space(len(self.vocabulary_))
        found = {}
        kinds = ((self.primary, "nats per token"), ("masked_accuracy", "fraction"))
        for (name, unit), total in zip(kinds, self._cloze_of(model, text, APART), strict=True):
            per = np.divide(total, counts, out=np.zeros(len(counts)), where=counts > 0)
            found[name] = Score.from_pointwise(per, weight=counts, name=name, unit=unit, data_space=space)
        return found


def _summed(tokens: torch.Tensor, lengths: NDArray[np.int64]) -> torch.Tensor:
    """Sum of the vectors of a row's own tokens."""
    at = torch.arange(tokens.shape[1], device=tokens.device)
    last = torch.as_tensor(lengths, device=tokens.device)[:, None] - 1
    return (tokens * ((at >= 1) & (at < last))[..., None]).sum(1)
