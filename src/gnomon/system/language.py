"""What language models have in common: text in, the verbs of sequences of tokens."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from gnomon import contracts
from gnomon.data.counting import BOS, EOS, UNKNOWN
from gnomon.data.examples import Examples
from gnomon.data.sequences import Tokens, held
from gnomon.data.spelling import spellings
from gnomon.data.text import Vocabulary
from gnomon.errors import UserValueError
from gnomon.evaluation.perplexity import Perplexity
from gnomon.evaluation.score import Score
from gnomon.evaluation.text_scores import byte_lengths, char_lengths, text_scores
from gnomon.inference.decoding.ancestral import ancestral
from gnomon.inference.decoding.beam import beam_search
from gnomon.inference.decoding.excluding import Excluding
from gnomon.inference.decoding.greedy import greedy
from gnomon.inference.decoding.utf8 import WritesUtf8, byte_moves
from gnomon.numeric.given import checked
from gnomon.numeric.noise import Noise, seed_of
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import how_many
from gnomon.system.base import System

__all__ = ["LanguageModel"]

Method = Literal["sample", "greedy", "beam"]


class LanguageModel(System):
    """Base of systems that give probabilities to sentences of tokens.

    The model keeps `gnomon.contracts.NextToken` on ids, in which 0, 1, 2 are ``<unk>``, ``<s>``, ``</s>``. It has a
    `vocabulary` and answers ``token_log_prob(text)``: the log probability of every predicted token of a `Ragged` text
    and the sentence that it belongs to.
    """

    tasks: ClassVar[tuple[str, ...]] = ("language",)
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {"vocabulary_size": {"unit": "bpe"}}

    unit: Annotated[
        Literal["word", "char", "byte", "jieba", "bpe", "byte-bpe", "marked-bpe", "wordpiece"],
        Doc("What a string is cut into; the last four are pieces that are learned from the text."),
    ] = "word"
    vocabulary_size: Annotated[
        int, "[256, inf)", Doc("Pieces that ``bpe``, ``byte-bpe``, ``marked-bpe`` and ``wordpiece`` may learn.")
    ] = 4000
    min_count: Annotated[int, "[1, inf)", Doc("Tokens rarer than this in the training text are read as ``<unk>``.")] = 1

    @property
    def domain(self) -> Tokens:
        """Text cut into tokens by `unit`."""
        return Tokens(self.unit, size=self.vocabulary_size)

    @property
    def predicts_ends(self) -> bool:
        """Whether the end of a sentence is a token that is predicted."""
        return True

    @property
    def vocabulary_(self) -> Vocabulary:
        """Tokens by id."""
        vocabulary: Vocabulary = self.model_.vocabulary
        return vocabulary

    # --- fit ----------------------------------------------------------------------------------------------------

    def ingest(self, X: Any, y: Any = None, sample_weight: Any = None) -> Examples:
        if sample_weight is not None:
            raise UserValueError("sentences have no weights here", "sample_weight", "repeat a sentence instead")
        domain, ids = self.domain.read_first(X, self.min_count)
        return Examples({"X": ids}, shared={"vocabulary": domain.vocabulary})

    def ingest_validation(self, validation: Any, examples: Any) -> Examples:
        return self.text_examples(validation, examples.shared["vocabulary"])

    def text_examples(self, X: Any, vocabulary: Vocabulary) -> Examples:
        """A text as examples, sentence by sentence, in the ids of a vocabulary."""
        domain = Tokens(self.unit, vocabulary, self.vocabulary_size)
        return Examples({"X": domain.ingest(X)}, shared={"vocabulary": vocabulary})

    def known_domain(self) -> Tokens:
        return Tokens(self.unit, self.vocabulary_, self.vocabulary_size)

    def arguments(self, examples: Examples) -> dict[str, Any]:
        return {"vocabulary_size": len(examples.shared["vocabulary"])}

    def initialize(self, model: Any, examples: Examples, noise: contracts.Noise) -> None:
        model.vocabulary = examples.shared["vocabulary"]

    def _encoded(self, X: Any) -> Any:
        """Ids of the sentences.

        Warns
        -----
        UserWarning
            Most of the tokens are not in the vocabulary.
        """
        text = self._rows(X)
        unknown, n = int((text.values == UNKNOWN).sum()), len(text.values)
        if 2 * unknown > n:
            what = f"{unknown} of {n} tokens ({unknown / n:.0%}) are unknown to the fit, which saw another kind of text"
            warnings.warn(f"{what}: no score of them says how probable they are", UserWarning, stacklevel=3)
        return text

    # --- scores -------------------------------------------------------------------------------------------------

    def log_prob(self, X: Any) -> NDArray[np.float64]:
        """Log probability of each sentence in nats, shape (sentences,)."""
        return self._totals(self._encoded(X))

    def _totals(self, text: Any) -> NDArray[np.float64]:
        values, sentence = self.model_.token_log_prob(text)
        return np.bincount(sentence, weights=values, minlength=len(text)).astype(np.float64, copy=False)

    @checked
    def perplexity(self, X: Any, *, unknown: Literal["count", "skip"] = "count") -> float:
        """exp of the mean negative log probability per token, sentence ends included where they are predicted.

        Parameters
        ----------
        X : text
        unknown : {"count", "skip"}
            Whether tokens outside the vocabulary are among those that are averaged; as context they always stay.

        Warns
        -----
        UserWarning
            A token of probability 0, or tokens so improbable that no float64 holds the perplexity: it is inf.
        """
        if unknown not in ("count", "skip"):
            raise UserValueError.must("unknown", "be 'count' or 'skip'", unknown, "perplexity")
        text = self._encoded(X)
        values, _ = self.model_.token_log_prob(text)
        kept = None if unknown == "count" else self._known(text)
        result = Perplexity().update(values, kept).value
        if result == np.inf:
            beyond = "the tokens are so improbable that no float64 holds the perplexity"
            warnings.warn(self.impossible(text) or beyond, UserWarning, stacklevel=2)
        return result

    def _known(self, text: Any) -> NDArray[np.bool_]:
        """Which of the predicted tokens, in the order of ``token_log_prob``, are not ``<unk>``."""
        known = text.values != UNKNOWN
        return np.insert(known, text.offsets[1:], True) if self.predicts_ends else known

    def impossible(self, text: Any) -> str:
        """What has probability 0 in an encoded text, in a line; "" where nothing has."""
        return ""

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Log likelihood per token, perplexity, bits per byte and per character; standard errors are over sentences.

        Bits take the text as words joined by blanks (or as its characters or bytes), with a line end after each
        sentence where ends are predicted. The spelling of unknown tokens is not in them: then they are a lower bound.
        """
        check_is_fitted(self)
        X = held(X)
        text = self._encoded(X)
        return self._scored(X, text, self._totals(text))

    def _scored(self, X: Any, text: Any, totals: NDArray[np.float64]) -> dict[str, Score]:
        """The scores of a text whose sentences have these log probabilities."""
        domain, ends = self.known_domain(), self.predicts_ends
        sentences = self.domain.check(X) if domain.cut == self.unit else domain.check(X)
        space = domain.space(len(self.vocabulary_)) + (", ends predicted" if ends else "")
        n_bytes, n_chars = (count(sentences, domain.cut, ends=ends) for count in (byte_lengths, char_lengths))
        return text_scores(
            totals, text.lengths + ends, n_bytes, n_chars, data_space=space,
            unknown=int((text.values == UNKNOWN).sum()), of=len(text.values),
            note="" if np.isfinite(totals).all() else self.impossible(text),
        )  # fmt: skip

    def bits_per_char(self, X: Any) -> Score:
        """Bits in which the model writes a text, per character (code point) of it: comparable between units.

        See `evaluate` for what is counted.
        """
        return self.evaluate(X)["bits_per_char"]

    def bits_per_byte(self, X: Any) -> Score:
        """Bits in which the model writes a text, per byte of its UTF-8: comparable between units and scripts.

        See `evaluate` for what is counted.
        """
        return self.evaluate(X)["bits_per_byte"]

    # --- what comes next ----------------------------------------------------------------------------------------

    def next_distribution(self, context: str | Sequence[str] = "") -> NDArray[np.float64]:
        """Distribution of the token after the beginning of a sentence, by id: shape (len(vocabulary_),).

        Parameters
        ----------
        context : str or list of tokens
            The sentence so far; empty for its first token.
        """
        ids = [BOS, *self._ids(context)]
        return self._next(ids, context)

    def _next(self, ids: list[int], context: str | Sequence[str]) -> NDArray[np.float64]:
        """Distribution after these ids; a context that nothing can follow is refused by name."""
        log_probs, _ = self.model_.step(np.array(ids[-1:]), self.model_.start([ids[:-1]]))
        row = np.asarray(np.exp(log_probs[0]), np.float64)
        if not row.any():
            domain = self.known_domain()
            given = domain.text(domain.tokens(context, "context"))
            what = f"nothing has any probability after {given!r}" if given else "no token has any probability"
            raise UserValueError(what, "context", "take a smoothing that gives some to what was never seen")
        return row

    def next_tokens(self, context: str | Sequence[str] = "", k: int = 5) -> list[tuple[str, float]]:
        """The k most probable tokens after the beginning of a sentence, with their probabilities."""
        row = self.next_distribution(context)
        best = np.argsort(-row, kind="stable")[: how_many(k, "k")]
        return list(zip(self.vocabulary_.decode(best), row[best].tolist(), strict=True))

    def sample(self, n: int = 1, *, random_state: Any = None, max_length: int = 100) -> list[str]:
        """Draw n sentences of at most `max_length` tokens (exactly as many where no end is predicted).

        Two calls differ unless `random_state` is given.
        """
        return self.generate("", n, random_state=random_state, max_length=max_length)

    @checked
    def generate(
        self,
        prompt: str | Sequence[str],
        n: int = 1,
        *,
        method: Method = "sample",
        random_state: Any = None,
        max_length: int = 100,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        width: int = 5,
        length_penalty: float = 0.75,
        unknown: Literal["write", "avoid"] = "write",
    ) -> list[str]:
        """Sentences that begin with the prompt.

        Where tokens are bytes or pieces of bytes, only those are written that end as UTF-8 within `max_length`.

        Parameters
        ----------
        prompt : str or list of tokens
        n : int
            How many: draws, or the n best that a beam search finds (at most `width`); greedy search finds one.
        method : {"sample", "greedy", "beam"}
        random_state : int, Generator, RandomState or None
            Two samples differ unless it is given.
        max_length : int
            Tokens after the prompt, at most.
        temperature, top_k, top_p
            What is drawn from; see `gnomon.inference.decoding.filters.filtered`.
        width, length_penalty
            Of the beam; see `gnomon.inference.decoding.beam.beam_search`.
        unknown : {"write", "avoid"}
            Whether ``<unk>``, which stands for every token that the fit does not know, may be written.

        Returns
        -------
        list of str

        Raises
        ------
        UserValueError
            A method that there is not, more sentences than the search keeps.
        """
        return self.generate_each(
            [prompt], n, method=method, random_state=random_state, max_length=max_length, temperature=temperature,
            top_k=top_k, top_p=top_p, width=width, length_penalty=length_penalty, unknown=unknown,
        )[0]  # fmt: skip

    @checked
    def generate_each(
        self,
        prompts: Sequence[str | Sequence[str]],
        n: int = 1,
        *,
        method: Method = "sample",
        random_state: Any = None,
        max_length: int = 100,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        width: int = 5,
        length_penalty: float = 0.75,
        unknown: Literal["write", "avoid"] = "write",
        watch: Callable[[int, str], None] | None = None,
    ) -> list[list[str]]:
        """Sentences that begin with each of some prompts, which are written together.

        Parameters
        ----------
        prompts : list of str or of lists of tokens
        n : int
            How many of each prompt.
        method, random_state, max_length, temperature, top_k, top_p, width, length_penalty, unknown
            See `generate`.
        watch : callable, optional
            Called with the number of a sentence, counted over all prompts, and what it says so far, after every token
            of it; a beam search has nothing to say before its end.

        Returns
        -------
        list of lists of str

        Raises
        ------
        UserValueError
            As `generate`, and one string in place of a list.
        """
        if unknown not in ("write", "avoid"):
            raise UserValueError.must("unknown", "be 'write' or 'avoid'", unknown)
        if isinstance(prompts, str):
            raise UserValueError.must("prompts", "be a list of prompts", prompts)
        n, max_length, width = how_many(n), how_many(max_length, "max_length"), _kept(method, n, width)
        domain, end = self.known_domain(), EOS if self.predicts_ends else None
        begun = [domain.tokens(prompt, "prompt") for prompt in prompts]
        contexts = [[BOS, *self._ids(prompt)] for prompt in prompts]
        for context, prompt in zip(contexts, prompts, strict=True):
            self._next(context, prompt)
        seed = seed_of(random_state)
        writer = self.writer(seed)
        model = writer if unknown == "write" else Excluding(writer, (UNKNOWN,))
        spelled = spellings(self.vocabulary_, self.unit)
        if spelled is not None:
            model = WritesUtf8(model, byte_moves(spelled), max_length)
        tell = None if watch is None else self._telling(begun, n, watch)
        if method == "beam":
            beams = beam_search(
                model, contexts, width, max_length=max_length, end=end, alpha=length_penalty, n_best=max(1, n)
            )
            found = [[np.array(one.tokens, np.int64) for one in beam[:n]] for beam in beams]
        else:
            each = [context for context in contexts for _ in range(n)]
            if method == "greedy":
                rows = greedy(model, each, max_length=max_length, end=end, watch=tell)[0]
            else:
                rows = ancestral(
                    model, each, Noise(seed, "sample"), max_length=max_length,
                    vocabulary_size=len(self.vocabulary_), end=end, temperature=temperature, top_k=top_k, top_p=top_p,
                    watch=tell,
                )  # fmt: skip
            found = [list(rows[i * n : (i + 1) * n]) for i in range(len(prompts))]
        words = self.vocabulary_.decode
        return [
            [domain.text([*begin, *words(row[(row >= 0) & (row != EOS)])]) for row in some]
            for begin, some in zip(begun, found, strict=True)
        ]

    def writer(self, seed: int) -> Any:
        """What goes on with prompts: keeps `gnomon.contracts.NextToken`. Here the model itself."""
        return self.model_

    def _telling(self, begun: list[list[str]], n: int, watch: Callable[[int, str], None]) -> Any:
        """What a search tells of its tokens, as the texts so far."""
        domain, so_far = self.known_domain(), [[*begin] for begin in begun for _ in range(n)]

        def tell(rows: NDArray[np.int64], tokens: NDArray[np.int64]) -> None:
            for row, token in zip(rows.tolist(), tokens.tolist(), strict=True):
                if token >= 0 and token != EOS:
                    so_far[row] += self.vocabulary_.decode(np.array([token]))
                    watch(row, domain.text(so_far[row]))

        return tell

    def _ids(self, context: str | Sequence[str]) -> list[int]:
        check_is_fitted(self)
        return [int(i) for i in self.vocabulary_.encode(self.known_domain().tokens(context, "context"))]


def _kept(method: str, n: int, width: int) -> int:
    """How many sentences a search keeps, which must be enough."""
    if method == "sample":
        return n
    if method not in ("greedy", "beam"):
        raise UserValueError.must("method", "be one of sample, greedy, beam", method)
    width = 1 if method == "greedy" else how_many(width, "width")
    if width < 1:
        raise UserValueError.must("width", "be at least 1", width)
    if n > width:
        raise UserValueError(f"n must be at most {width}, got {n}", "n", f"{method} search keeps {width}")
    return width
