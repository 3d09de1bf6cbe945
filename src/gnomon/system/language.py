"""What language models have in common: text in, the verbs of sequences of tokens."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from gnomon import contracts
from gnomon.contracts import NextToken
from gnomon.data.counting import BOS, EOS, UNKNOWN
from gnomon.data.examples import Examples
from gnomon.data.sequences import Tokens, held
from gnomon.data.text import Vocabulary
from gnomon.errors import UserValueError
from gnomon.evaluation.perplexity import Perplexity
from gnomon.evaluation.score import Score
from gnomon.evaluation.text_scores import byte_lengths, text_scores
from gnomon.inference.decoding.ancestral import ancestral
from gnomon.inference.decoding.beam import beam_search
from gnomon.inference.decoding.excluding import Excluding
from gnomon.inference.decoding.greedy import greedy
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
    unit: Annotated[Literal["word", "char", "byte", "jieba"], Doc("What a string is cut into.")] = "word"
    min_count: Annotated[int, "[1, inf)", Doc("Tokens rarer than this in the training text are read as ``<unk>``.")] = 1

    @property
    def domain(self) -> Tokens:
        """Text cut into tokens by `unit`."""
        return Tokens(self.unit)

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
        text = self.domain.first(X)
        return self.text_examples(text, Vocabulary.fit(text, self.min_count))

    def ingest_validation(self, validation: Any, examples: Any) -> Examples:
        return self.text_examples(validation, examples.shared["vocabulary"])

    def text_examples(self, X: Any, vocabulary: Vocabulary) -> Examples:
        """A text as examples, sentence by sentence, in the ids of a vocabulary."""
        return Examples({"X": Tokens(self.unit, vocabulary).ingest(X)}, shared={"vocabulary": vocabulary})

    def known_domain(self) -> Tokens:
        return Tokens(self.unit, self.vocabulary_)

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
        """Log likelihood per token, perplexity and bits per byte; standard errors are over sentences.

        Bits per byte take the text as words joined by blanks (or as its characters or bytes), with a line end after
        each sentence where ends are predicted. The spelling of unknown tokens is not in them: then they are a lower
        bound.
        """
        check_is_fitted(self)
        X = held(X)
        sentences, ends = self.domain.check(X), self.predicts_ends
        text = self._encoded(X)
        totals = self._totals(text)
        space = self.known_domain().space(len(self.vocabulary_)) + (", ends predicted" if ends else "")
        return text_scores(
            totals, text.lengths + ends, byte_lengths(sentences, self.unit, ends=ends), data_space=space,
            unknown=int((text.values == UNKNOWN).sum()), of=len(text.values),
            note="" if np.isfinite(totals).all() else self.impossible(text),
        )  # fmt: skip

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
        if unknown not in ("write", "avoid"):
            raise UserValueError.must("unknown", "be 'write' or 'avoid'", unknown)
        model = self.model_ if unknown == "write" else Excluding(self.model_, (UNKNOWN,))
        n, max_length = how_many(n), how_many(max_length, "max_length")
        context, end = [BOS, *self._ids(prompt)], EOS if self.predicts_ends else None
        self._next(context, prompt)
        if method == "sample":
            drawn = ancestral(
                model, [context] * n, Noise(seed_of(random_state), "sample"), max_length=max_length,
                vocabulary_size=len(self.vocabulary_), end=end, temperature=temperature, top_k=top_k, top_p=top_p,
            )  # fmt: skip
            rows = list(drawn)
        elif method in ("greedy", "beam"):
            width = 1 if method == "greedy" else how_many(width, "width")
            if n > width:
                raise UserValueError(f"n must be at most {width}, got {n}", "n", f"{method} search keeps {width}")
            rows = self._searched(model, context, n, method, width, max_length, length_penalty, end)
        else:
            raise UserValueError.must("method", "be one of sample, greedy, beam", method)
        domain = self.known_domain()
        begin = domain.tokens(prompt, "prompt")
        texts = [self.vocabulary_.decode(row[(row >= 0) & (row != EOS)]) for row in rows]
        return [domain.text([*begin, *tokens]) for tokens in texts]

    def _searched(
        self,
        model: NextToken,
        context: list[int],
        n: int,
        method: str,
        width: int,
        max_length: int,
        alpha: float,
        end: int | None,
    ) -> list[NDArray[np.int64]]:
        if method == "greedy":
            return list(greedy(model, [context], max_length=max_length, end=end)[0])[:n]
        best = beam_search(model, [context], width, max_length=max_length, end=end, alpha=alpha, n_best=n)[0]
        return [np.array(one.tokens, np.int64) for one in best]

    def _ids(self, context: str | Sequence[str]) -> list[int]:
        check_is_fitted(self)
        return [int(i) for i in self.vocabulary_.encode(self.known_domain().tokens(context, "context"))]
