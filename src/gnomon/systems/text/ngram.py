"""n-gram language model: the next token from the n-1 before it, by smoothed counts."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from gnomon.contracts import Group, Noise, Procedure
from gnomon.data.batches import Batches
from gnomon.data.examples import Examples, Ragged
from gnomon.data.layouts import Blocks, Layout, Rows
from gnomon.data.text import Vocabulary, detokenize, tokenize
from gnomon.errors import UserValueError
from gnomon.evaluation.perplexity import Perplexity
from gnomon.evaluation.score import Score
from gnomon.inference.counting import BOS, EOS
from gnomon.numeric.noise import Noise as Source
from gnomon.numeric.noise import seed_of
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import how_many
from gnomon.recipes.recipe import Recipe
from gnomon.system.base import System
from gnomon.system.fields import DrawsNothing
from gnomon.systems.text import _corpus
from gnomon.systems.text._backoff import Katz, Threshold
from gnomon.systems.text._corpus import Tokens, encode
from gnomon.systems.text._mixture import Interpolated
from gnomon.systems.text._model import NGramModel
from gnomon.systems.text._scores import impossible, lengths, scores
from gnomon.systems.text._smoothing import MLE, Additive, Dirichlet, KneserNey, Smoothing
from gnomon.training.counting import Counting
from gnomon.training.procedure import Problem

__all__ = [
    "MLE", "Additive", "Dirichlet", "Interpolated", "Katz", "KneserNey", "NGram", "NGramModel", "Smoothing",
    "Threshold",
]  # fmt: skip


class NGram(DrawsNothing, System):
    r"""Language model: the next token from the n-1 tokens before it, by counts with smoothing.

    :math:`P(w_1 \dots w_T) = \prod_t P(w_t \mid w_{t-n+1} \dots w_{t-1})`, with conditionals from counts. It is a
    Markov chain of order n-1: ``n`` is that of "n-gram", 1 for the unigram.

    Attributes
    ----------
    vocabulary_ : Vocabulary
        Tokens by id; 0, 1, 2 are ``<unk>``, ``<s>``, ``</s>``, which no token of the text is.
    history_ : dict of lists
        ``tokens`` (predicted ones, sentence ends included) and the number of different n-grams, ``ngrams_1`` ...

    Notes
    -----
    Text is a string (each line a sentence), a list of strings (sentences), or a list of lists of tokens.
    A token outside the vocabulary counts as the one outcome ``<unk>``, in log probabilities and perplexity: it has what
    the smoothing gives to a token never counted, or the count of the rare ones with ``min_count`` above 1. The larger
    that class, the better all scores look; `perplexity` can leave unknown tokens out, and a score's data space names
    the size of the vocabulary. Without smoothing a sentence may have probability 0 and the perplexity be inf;
    `perplexity` and `evaluate` name the first such n-gram.

    Counting costs O(n T log T) for T tokens, a query O(n log T). Source: Shannon (1948); Chen and Goodman (1999).

    Examples
    --------
    >>> model = NGram(n=2, smoothing="dirichlet").fit(["i am here", "i am there", "you are here"])
    >>> model.next_tokens("i", k=1)[0][0]
    'am'
    >>> model.score(["you are there"]) < 0
    True
    """

    name: ClassVar[str] = "ngram"
    model_class: ClassVar[type] = NGramModel
    slots: ClassVar[tuple[str, ...]] = ("smoothing",)

    n: Annotated[int, "[1, inf)", Doc("Tokens of an n-gram: the predicted one and n-1 of context.")] = 3
    smoothing: Annotated[
        str | Recipe, Doc('How what was seen rarely or never gets its probability. Default "kneser-ney".')
    ] = "kneser-ney"
    unit: Annotated[Literal["word", "char", "byte"], Doc("What a string is cut into.")] = "word"
    min_count: Annotated[int, "[1, inf)", Doc("Tokens rarer than this in the training text are read as ``<unk>``.")] = 1
    start: Annotated[
        Literal["pad", "lower_order"],
        Doc(
            "``pad``: sentences have a beginning and an end, both part of the model, and all sentences together have "
            "probability 1. ``lower_order``: the first n-1 tokens are predicted by lower orders and no end is "
            "predicted; all sentences of one length together have probability 1. Scores of the two are not "
            "comparable."
        ),
    ] = "pad"

    # --- fit ----------------------------------------------------------------------------------------------------

    @property
    def domain(self) -> Tokens:
        """Text cut into tokens by `unit`."""
        return Tokens(self.unit)

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None, validation: Any = None, run: Any = None) -> Self:
        """Count a text.

        Parameters
        ----------
        X : str, list of str, list of lists of str, Dataset or iterable
            The text; see `gnomon.data.text.sentences`. A generator is read once and stored.
        y, sample_weight : None
            There is nothing to predict, and counts are whole numbers.
        validation : text, optional
            On which ``smoothing="interpolated"`` finds its weights; without it on `X`, each token left out in turn.
        run : path, optional
            A new folder for checkpoints, history and the fitted model.

        Raises
        ------
        UserError
            A text without tokens, or something that is no text: what, where, what to do.
        """
        if sample_weight is not None:
            raise UserValueError("sentences have no weights here", "sample_weight", "repeat a sentence instead")
        self.check_parameters()
        with self._all_or_nothing():
            examples = self.ingest(X)
            judges = None if validation is None else self._text_examples(validation, examples.shared["vocabulary"])
            return self._fit(examples, self._open(run, examples, judges), judges)

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Add a text to the counts; the first call sets the vocabulary, and later words outside of it are unknown.

        An empty text changes nothing, after the first.
        """
        if not hasattr(self, "model_"):
            return self.fit(X)
        if isinstance(X, str | list | tuple) and not X:
            return self
        self.model_.update(self._encoded(X))
        return self

    def ingest(self, X: Any, y: Any = None, sample_weight: Any = None) -> Examples:
        text = self.domain.check(X)
        return self._text_examples(text, Vocabulary.fit(text, self.min_count))

    def _text_examples(self, X: Any, vocabulary: Vocabulary) -> Examples:
        return Examples({"X": Ragged(*encode(self.domain.check(X), vocabulary))}, shared={"vocabulary": vocabulary})

    def arguments(self, examples: Examples) -> dict[str, Any]:
        return {"vocabulary_size": len(examples.shared["vocabulary"])}

    def make(self, **arguments: Any) -> NGramModel:
        return NGramModel(self.n, arguments["vocabulary_size"], self.recipe("smoothing"), self.start)

    def initialize(self, model: NGramModel, examples: Examples, noise: Noise) -> None:
        model.vocabulary = examples.shared["vocabulary"]

    def procedure(self, examples: Any) -> Procedure:
        return Counting()

    def layout(self, examples: Examples) -> Layout:
        return Blocks(_corpus.BLOCK_TOKENS)

    def problem(
        self, model: NGramModel, examples: Examples, noise: Noise, group: Group, validation: Any = None
    ) -> Problem:
        """Blocks of the text; every process smooths on the whole validation text."""
        held_out = None if validation is None else Batches(validation, Rows(shuffle=False))
        return replace(super().problem(model, examples, noise, group), validation=held_out)

    @property
    def vocabulary_(self) -> Vocabulary:
        """Tokens by id."""
        vocabulary: Vocabulary = self.model_.vocabulary
        return vocabulary

    def _encoded(self, X: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        check_is_fitted(self)
        return encode(self.domain.check(X), self.vocabulary_)

    # --- verbs --------------------------------------------------------------------------------------------------

    def log_prob(self, X: Any) -> NDArray[np.float64]:
        """Log probability of each sentence in nats, shape (sentences,)."""
        text = self._encoded(X)
        values: NDArray[np.float64] = self.model_.log_prob(text)
        return values

    def order_used(self, X: Any) -> list[NDArray[np.int64]]:
        """For each sentence the orders whose estimates its tokens (and its end, when padded) got."""
        text = self._encoded(X)
        return np.split(self.model_.order_used(text), np.cumsum(lengths(self.model_, text[1]))[:-1])

    def perplexity(self, X: Any, *, unknown: Literal["count", "skip"] = "count") -> float:
        """exp of the mean negative log probability per token, sentence ends included when padded.

        Parameters
        ----------
        X : text
        unknown : {"count", "skip"}
            Whether tokens outside the vocabulary are among those that are averaged; as context they always stay.

        Warns
        -----
        UserWarning
            The first n-gram of probability 0, which makes the perplexity inf.
        """
        if unknown not in ("count", "skip"):
            raise UserValueError(f"unknown={unknown!r} is not allowed", "perplexity", "use 'count' or 'skip'")
        text = self._encoded(X)
        values, _ = self.model_.token_log_prob(text)
        found = Perplexity().update(values, None if unknown == "count" else self.model_.known(text)).value
        if found == np.inf:
            warnings.warn(impossible(self.model_, text), UserWarning, stacklevel=2)
        return found

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Log likelihood per token, perplexity and bits per byte; standard errors are over sentences.

        Bits per byte take the text as words joined by blanks (or as its characters or bytes), with a line end after
        each sentence when padded. The spelling of unknown tokens is not in them: then they are a lower bound.
        """
        check_is_fitted(self)
        sentences = self.domain.check(X)
        space = self.domain.space(len(self.vocabulary_)) + (", ends predicted" if self.start == "pad" else "")
        return scores(self.model_, sentences, encode(sentences, self.vocabulary_), self.unit, space)

    def next_distribution(self, context: str | Sequence[str] = "") -> NDArray[np.float64]:
        """Distribution of the token after the beginning of a sentence, by id: shape (len(vocabulary_),).

        Parameters
        ----------
        context : str or list of tokens
            The sentence so far; empty for its first token.
        """
        ids = [BOS, *self._ids(context)]
        row, _ = self.model_.step(ids[-1:], self.model_.start([ids[:-1]]))
        return np.asarray(np.exp(row[0]))

    def next_tokens(self, context: str | Sequence[str] = "", k: int = 5) -> list[tuple[str, float]]:
        """The k most probable tokens after the beginning of a sentence, with their probabilities."""
        row = self.next_distribution(context)
        best = np.argsort(-row, kind="stable")[: how_many(k, "k")]
        return list(zip(self.vocabulary_.decode(best), row[best].tolist(), strict=True))

    def sample(self, n: int = 1, *, random_state: Any = None, max_length: int = 100) -> list[str]:
        """Draw n sentences of at most `max_length` tokens (exactly as many with ``start="lower_order"``).

        Two calls differ unless `random_state` is given.
        """
        return self.generate("", n, random_state=random_state, max_length=max_length)

    def generate(
        self, prompt: str | Sequence[str], n: int = 1, *, random_state: Any = None, max_length: int = 100
    ) -> list[str]:
        """Draw n sentences that begin with the prompt, with at most `max_length` tokens after it."""
        n, max_length = how_many(n), how_many(max_length, "max_length")
        begin = self._ids(prompt)
        drawn = self.model_.sample(n, Source(seed_of(random_state), "sample"), prompt=begin, max_length=max_length)
        said = self._tokens(prompt)
        texts = [self.vocabulary_.decode(row[(row >= 0) & (row != EOS)]) for row in drawn]
        return [detokenize([*said, *tokens], self.unit) for tokens in texts]

    def _tokens(self, context: str | Sequence[str]) -> list[str]:
        return tokenize(context, self.unit) if isinstance(context, str) else list(context)

    def _ids(self, context: str | Sequence[str]) -> list[int]:
        check_is_fitted(self)
        return [int(i) for i in self.vocabulary_.encode(self._tokens(context))]
