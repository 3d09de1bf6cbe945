"""What systems have in common that write a text, token by token, to what their models have read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon.data.counting import BOS, EOS
from gnomon.data.layouts import Layout, Padded
from gnomon.data.sequences import cut_by
from gnomon.data.text import Vocabulary, detokenize
from gnomon.errors import UserValueError
from gnomon.inference.decoding.ancestral import ancestral
from gnomon.inference.decoding.beam import beam_search
from gnomon.inference.decoding.greedy import greedy
from gnomon.numeric.noise import Noise, seed_of
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import how_many
from gnomon.recipes.recipe import Recipe
from gnomon.system.by_gradient import ByGradient
from gnomon.system.fields import HasDtype

__all__ = ["Writer"]


USUAL, WIDEST = 5, 10_000
"""Widths of beams: that for which the model says how many sources it reads at once, and the widest."""


class Writer(ByGradient, HasDtype):
    """Base of systems that write; the model has ``given(sources)``, a `gnomon.contracts.NextToken`."""

    inert_fields: ClassVar[Mapping[str, str]] = {"longest": "it refuses longer texts and changes nothing of a fit"}

    if TYPE_CHECKING:
        unit: Any

    min_count: Annotated[int, "[1, inf)", Doc("Tokens rarer than this in the training text are read as ``<unk>``.")] = 1
    longest: Annotated[
        int | None, "[1, inf)", Doc("Tokens that a text may have; None takes any, at any cost.")
    ] = 1000  # fmt: skip
    dropout: Annotated[
        float, "[0, 1)", Doc("Probability to drop an element of embeddings and outputs in training.")
    ] = 0.1
    epochs: int = 30
    batch_size: int | None = 32
    clip: float | None = 1.0
    early_stopping: str | Recipe = "patience"

    @property
    def target_vocabulary_(self) -> Vocabulary:
        """Tokens of targets by id."""
        vocabulary: Vocabulary = self.model_.target_vocabulary
        return vocabulary

    def layout(self, examples: Any) -> Layout:
        return Padded(self.batch_size or len(examples))

    def _limits(self, sources: Any) -> NDArray[np.int64]:
        """Tokens that the text of each source may have where nobody says."""
        raise NotImplementedError

    def _texts(
        self,
        sources: Any,
        decoder: Callable[[Any], Any],
        method: str,
        width: int,
        length_penalty: float,
        max_length: int | None,
        random_state: Any,
    ) -> list[str]:
        """Texts to sources, by a decoder that some of them give.

        Raises
        ------
        UserValueError
            An unknown method, a width or length below 1.
        """
        if method not in ("beam", "greedy", "sample"):
            raise UserValueError.must("method", "be one of beam, greedy, sample", method)
        noise, width = Noise(seed_of(random_state), "sample"), self._width(width)
        texts: list[str] = []
        for some, limits, begin in self._some(sources, max_length, width if method == "beam" else 1):
            part = noise.part(begin, begin + len(some))
            ids = self._search(decoder(some), len(some), method, width, length_penalty, limits, part)
            texts += [self._written(row) for row in ids]
        return texts

    @staticmethod
    def _width(width: Any, name: str = "width") -> int:
        """The width of a beam.

        Raises
        ------
        UserError
            No whole number, or more than memory is sure to hold.
        """
        found = how_many(width, name)
        if found > WIDEST:
            raise UserValueError.must(name, f"be at most {WIDEST}", found)
        return found

    def _some(self, sources: Any, max_length: int | None, width: int) -> Iterator[tuple[Any, NDArray[np.int64], int]]:
        """Some of the sources after some, with the greatest lengths of their texts, and the place of the first.

        Of each its own: a text does not depend on what else is asked about. Of a wide beam they are fewer.
        """
        most = None if max_length is None else how_many(max_length, "max_length")
        together = max(1, self.model_.together(sources) * USUAL // max(USUAL, width))
        for begin in range(0, len(sources), together):
            some = sources.take(slice(begin, begin + together))
            yield some, self._limits(some) if most is None else np.full(len(some), most), begin

    def _written(self, row: Any) -> str:
        row = np.asarray(row, np.int64)
        return detokenize(self.target_vocabulary_.decode(row[row != EOS]), cut_by(self.unit, self.target_vocabulary_))

    def _search(
        self, decoder: Any, n: int, method: str, width: int, alpha: float, limits: NDArray[np.int64], noise: Any
    ) -> list[Any]:
        if method == "beam":
            return [rows[0] for rows in self._beams(decoder, n, width, alpha, limits, 1)]
        prompts = [[BOS]] * n
        if method == "greedy":
            rows, _ = greedy(decoder, prompts, max_length=limits, end=EOS)
        else:
            # the whole batch is drawn together: its memory is one with the decoder's
            rows = ancestral(decoder, prompts, noise, max_length=limits, vocabulary_size=1, end=EOS)
        return [row[row >= 0] for row in rows]

    def _beams(
        self, decoder: Any, n: int, width: int, alpha: float, limits: NDArray[np.int64], n_best: int
    ) -> list[list[Any]]:
        """The best targets of each source, as ids; an empty one where none may have a token."""
        found = beam_search(decoder, [[BOS]] * n, width, max_length=limits, end=EOS, alpha=alpha, n_best=n_best)
        return [[one.tokens for one in best] or [()] for best in found]
