"""n-gram language model: the next token from the n-1 before it, by smoothed counts."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Group, Noise, Procedure
from gnomon.data.batches import Batches
from gnomon.data.examples import Examples
from gnomon.data.layouts import Blocks, Layout, Rows
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.system.fields import DrawsNothing
from gnomon.system.language import LanguageModel
from gnomon.systems.text._backoff import Katz, Threshold
from gnomon.systems.text._mixture import Interpolated
from gnomon.systems.text._model import NGramModel
from gnomon.systems.text._smoothing import MLE, Additive, Dirichlet, KneserNey, Smoothing
from gnomon.training.counting import Counting
from gnomon.training.procedure import Problem

__all__ = [
    "MLE", "Additive", "Dirichlet", "Interpolated", "Katz", "KneserNey", "NGram", "NGramModel", "Smoothing",
    "Threshold",
]  # fmt: skip


BLOCK_TOKENS = 1 << 22
"""Tokens that one step of a fit counts: a hundred megabytes or so of keys."""


class NGram(DrawsNothing, LanguageModel):
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
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"smoothing": Smoothing}

    n: Annotated[int, "[1, inf)", Doc("Tokens of an n-gram: the predicted one and n-1 of context.")] = 3
    smoothing: Annotated[
        str | Recipe, Doc('How what was seen rarely or never gets its probability. Default "kneser-ney".')
    ] = "kneser-ney"
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
    def predicts_ends(self) -> bool:
        """Whether sentences are padded."""
        return self.start == "pad"

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Add a text to the counts; the first call sets the vocabulary, and later words outside of it are unknown.

        An empty text changes nothing, after the first.

        Raises
        ------
        UserValueError
            Another n or smoothing than that of the texts before.
        """
        if not hasattr(self, "model_"):
            return self.fit(X)
        if isinstance(X, str | list | tuple) and not X:
            return self
        self._refuse_changes(sorted(set(self.get_params(deep=False)) - {"random_state"}))
        self.model_.update(self._encoded(X))
        return self

    def make(self, **arguments: Any) -> NGramModel:
        return NGramModel(self.n, arguments["vocabulary_size"], self.recipe("smoothing"), self.start)

    def procedure(self, examples: Any) -> Procedure:
        return Counting()

    def layout(self, examples: Examples) -> Layout:
        return Blocks(BLOCK_TOKENS)

    def problem(
        self, model: NGramModel, examples: Examples, noise: Noise, group: Group, validation: Any = None
    ) -> Problem:
        """Blocks of the text; every process smooths on the whole validation text."""
        held_out = None if validation is None else Batches(validation, Rows(shuffle=False))
        return replace(super().problem(model, examples, noise, group), validation=held_out)

    def finish(self, model: NGramModel) -> None:
        super().finish(model)
        recipe = self.recipe("smoothing")
        unsmoothed = isinstance(recipe, MLE) or (isinstance(recipe, Additive) and not np.any(recipe.alpha))
        if unsmoothed and not model.counts.counts[self.n - 1].any():
            warnings.warn(
                f"no sentence has {self.n} tokens, so that without smoothing nothing has any probability; lower n, or "
                "take a smoothing",
                UserWarning, stacklevel=2,
            )  # fmt: skip

    # --- verbs --------------------------------------------------------------------------------------------------

    def order_used(self, X: Any) -> list[NDArray[np.int64]]:
        """For each sentence the orders whose estimates its tokens (and its end, when padded) got."""
        text = self._encoded(X)
        return np.split(self.model_.order_used(text), np.cumsum(text.lengths + self.predicts_ends)[:-1])

    def impossible(self, text: Any) -> str:
        """The first n-gram of probability 0."""
        first = self.model_.first_impossible(text)
        if first is None:
            return ""
        sentence, token, ids = first
        gram = " ".join(self.vocabulary_.decode(ids))
        return f"the n-gram {gram!r} (sentence {sentence}, token {token}) has probability 0"
