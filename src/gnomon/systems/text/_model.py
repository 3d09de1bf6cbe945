"""The mathematics of the n-gram model: counts, look-ups, sequences; token ids alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Array, Noise, State
from gnomon.data.counting import BOS, EOS, UNKNOWN, NGramCounts, Start, TokenStream, count_stream, merge_counts, stack
from gnomon.data.text import Vocabulary
from gnomon.data.tokenizers import restored
from gnomon.errors import UserValueError
from gnomon.inference.decoding.ancestral import ancestral
from gnomon.numeric.ragged import Ragged
from gnomon.recipes.parameters import check_parameters
from gnomon.recipes.recipe import resolve
from gnomon.systems.text._smoothing import Smoothed, Smoothing, possible

__all__ = ["NGramModel"]

Sentences = tuple[ArrayLike, ArrayLike] | Ragged


class NGramModel:
    """P(w_1 ... w_T) = prod_t P(w_t | w_{t-n+1} ... w_{t-1}) on token ids.

    Parameters
    ----------
    n : int, at least 1
        Order: n-1 tokens of context, a Markov chain of order n-1. 1 is the unigram, 2 the bigram.
    vocabulary_size : int, at least 3
        Ids are in [0, vocabulary_size); 0 is ``<unk>``, 1 ``<s>``, 2 ``</s>``.
    smoothing : str or Smoothing
        ``"none"``, ``"additive"``, ``"dirichlet"``, ``"interpolated"``, ``"katz"``, ``"threshold"``, ``"kneser-ney"``,
        or the recipe.
    start : {"pad", "lower_order"}
        ``"pad"``: sentences are ``<s> ... </s>``, the first token is predicted from ``<s>``, and the probabilities of
        all sentences of any length sum to 1. ``"lower_order"``: the first token is predicted by the unigram, the second
        by the bigram ..., nothing predicts the end, and the probabilities of all sentences of one length sum to 1.
        The two give different perplexities.
    unknown : bool, default True
        Whether ``<unk>`` may come: it has what the smoothing gives a token never counted, or its own count when the
        training text has it. Otherwise an unknown token has probability 0.

    vocabulary : Vocabulary, optional
        Names of the ids, kept beside the counts when the model is saved; nothing is computed from it.

    Notes
    -----
    ``<s>`` is never predicted; possible next tokens ("outcomes") are all other ids, without ``</s>`` when sentences
    are not padded and without ``<unk>`` when it may not come. Text is a pair ``(ids, offsets)``: sentence i is
    ``ids[offsets[i]:offsets[i + 1]]``. Fitting costs O(n T log T), a query O(n log entries), whatever the smoothing.

    References
    ----------
    Jelinek and Mercer (1980); Katz (1987); Chen and Goodman (1999).

    Examples
    --------
    >>> a, b, c = 3, 4, 5
    >>> model = NGramModel(2, 6, "none", start="lower_order").fit(([a, b, a, b, a, c], [0, 6]))
    >>> model.next_distribution([[a]]).round(4)[0, [a, b, c]]
    array([0.    , 0.6667, 0.3333])
    """

    def __init__(
        self,
        n: int,
        vocabulary_size: int,
        smoothing: str | Smoothing = "kneser-ney",
        start: Start = "pad",
        unknown: bool = True,
        vocabulary: Vocabulary | None = None,
    ) -> None:
        if n < 1:
            raise UserValueError(
                f"n must be at least 1, got {n}", "n", "use 1 for single tokens, 3 for two tokens of context"
            )
        if start not in ("pad", "lower_order"):
            raise UserValueError.must("start", "be 'pad' or 'lower_order'", start)
        self.n, self.vocabulary_size, self.sentence_start, self.unknown = n, vocabulary_size, start, unknown
        recipe = resolve(smoothing, Smoothing, "smoothing")
        check_parameters(recipe, recipe.get_params())
        assert isinstance(recipe, Smoothing)
        self.smoothing: Smoothing = recipe
        self.vocabulary = vocabulary
        self.parameters: dict[str, NDArray[np.float64]] | None = None
        self._estimate: Smoothed | None = None
        self.outcomes = possible(vocabulary_size, start, unknown=unknown)

    # --- counts -------------------------------------------------------------------------------------------------

    def to_stream(self, x: Sentences) -> TokenStream:
        """The sentences as one stream with their borders."""
        ids, offsets = (x.values, x.offsets) if isinstance(x, Ragged) else x
        return TokenStream.of(ids, offsets, self.vocabulary_size, self.sentence_start)

    def count(self, x: Sentences) -> NGramCounts:
        """Counts of a text, to be merged with those of others."""
        return count_stream(self.to_stream(x), self.n, self.vocabulary_size, self.sentence_start)

    def fit(self, x: Sentences, held_out: Sentences | None = None) -> Self:
        """Count a text and smooth; `held_out` serves smoothings that have weights to find."""
        return self.settle(self.count(x), held_out)

    def update(self, x: Sentences) -> Self:
        """Add the counts of more text."""
        new = self.count(x)
        return self.settle(merge_counts(self.counts, new) if hasattr(self, "counts") else new)

    def settle(self, counts: NGramCounts, held_out: Sentences | None = None) -> Self:
        """Take counts over and smooth them."""
        if counts.n_tokens == counts.counts[0][EOS]:
            raise UserValueError("the text has no tokens", "X", "pass at least one sentence with a word in it")
        if not self.unknown and counts.counts[0][UNKNOWN]:
            raise UserValueError(
                "the text has unknown tokens", "X", "allow them or use a vocabulary that has all tokens"
            )
        self.counts = counts
        self.parameters = self.smoothing.fit(
            counts, self.outcomes, None if held_out is None else self.to_stream(held_out)
        )
        self._estimate = self.smoothing.estimate(counts, self.outcomes, self.parameters)
        return self

    @property
    def estimate(self) -> Smoothed:
        """The smoothed probabilities; after `load` they are made when first asked for."""
        if self.parameters is None:  # of a fit that was stopped while it counted
            self.settle(self.counts)
        if self._estimate is None:
            assert self.parameters is not None
            self._estimate = self.smoothing.estimate(self.counts, self.outcomes, self.parameters)
        return self._estimate

    @property
    def n_parameters(self) -> int:
        """Numbers that the model keeps: an n-gram count each."""
        return sum(int((count > 0).sum()) for count in self.counts.counts)

    # --- probabilities ------------------------------------------------------------------------------------------

    def token_log_prob(self, x: Sentences) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Log probability in nats of every predicted token (``</s>`` included when padded), and its sentence."""
        stream = self.to_stream(x)
        at = np.flatnonzero(stream.predicted)
        with np.errstate(divide="ignore"):
            return np.log(self._probability(stream, at, self.counts.locate(stream))), stream.sentence[at]

    def log_prob(self, x: Sentences) -> NDArray[np.float64]:
        """Log probability of each sentence in nats, shape (sentences,)."""
        values, sentence = self.token_log_prob(x)
        n = len(x) if isinstance(x, Ragged) else np.size(x[1]) - 1
        return np.bincount(sentence, weights=values, minlength=n).astype(np.float64, copy=False)

    def _probability(
        self, stream: TokenStream, at: NDArray[np.int64], indices: list[NDArray[np.int64]]
    ) -> NDArray[np.float64]:
        found = self.estimate
        token, index = stream.tokens[at], stream.index[at]
        value = found.unigram[token]
        for order in range(2, self.n + 1):
            inside = np.flatnonzero(index >= order - 1)
            entry, context = indices[order - 1][at[inside]], indices[order - 2][at[inside] - 1]
            lower = value[inside] if found.floor is None else found.floor[token[inside]]
            lower *= _take(found.weight[order - 2], context, 1.0)
            value[inside] = np.where(entry >= 0, _take(found.probability[order - 2], entry, 0.0), lower)
        return value

    def known(self, x: Sentences) -> NDArray[np.bool_]:
        """Which of the predicted tokens are not ``<unk>``."""
        stream = self.to_stream(x)
        return np.not_equal(stream.tokens[stream.predicted], UNKNOWN)

    def order_used(self, x: Sentences) -> NDArray[np.int64]:
        """For every predicted token the order whose own estimate it got.

        The longest n-gram that was seen; for `Threshold` the order of the longest reliable context; for `MLE` and
        `Additive`, which never fall back, the order asked for.
        """
        stream = self.to_stream(x)
        at = np.flatnonzero(stream.predicted)
        index = stream.index[at]
        if self.estimate.used == "order":
            return np.minimum(index + 1, self.n)
        used, indices = np.ones(at.size, np.int64), self.counts.locate(stream)
        for order in range(2, self.n + 1):
            inside = np.flatnonzero(index >= order - 1)
            own = indices[order - 1][at[inside]] >= 0
            if self.estimate.used == "context":
                own = _take(self.estimate.weight[order - 2], indices[order - 2][at[inside] - 1], 1.0) == 0
            used[inside[own]] = order
        return used

    def first_impossible(self, x: Sentences) -> tuple[int, int, list[int]] | None:
        """Sentence, index and n-gram of the first token of probability 0, if there is one."""
        stream = self.to_stream(x)
        at = np.flatnonzero(stream.predicted)
        zero = np.flatnonzero(self._probability(stream, at, self.counts.locate(stream)) == 0)
        if not zero.size:
            return None
        end = at[zero[0]]
        begin = end - min(self.n - 1, stream.index[end])
        index = int(stream.index[end]) - stream.first
        return int(stream.sentence[end]), index, stream.tokens[begin : end + 1].tolist()

    def next_distribution(self, contexts: Sequence[Sequence[int]] | NDArray[np.int64]) -> NDArray[np.float64]:
        """Distribution of the next token after each context, shape (contexts, V).

        Parameters
        ----------
        contexts : sequence of sequences of ids
            What stands right before, oldest first; the last n-1 ids are used. An empty context gives the unigram,
            ``[1]`` (``<s>``) the first token of a padded sentence.
        """
        rows = contexts.tolist() if isinstance(contexts, np.ndarray) else contexts
        return self._rows(stack(rows, self.n - 1))

    def _rows(self, history: NDArray[np.int64]) -> NDArray[np.float64]:
        wrong = history[(history < -1) | (history >= self.vocabulary_size)]
        if wrong.size:
            raise UserValueError(
                f"ids must be in [0, {self.vocabulary_size}), got {wrong[0]}", "contexts", "encode them first"
            )
        here = np.cumprod(history[:, ::-1] >= 0, axis=1).sum(axis=1) if self.n > 1 else np.zeros(len(history), np.int64)
        return self.estimate.rows(self.counts, self.counts.contexts(history), here + 1)

    # --- sequences ----------------------------------------------------------------------------------------------

    def start(self, contexts: Sequence[Sequence[int]]) -> State:
        """State of one sequence per context; ``<s>`` forgets what stood before it."""
        return {"history": stack([self._remembered(context) for context in contexts], self.n - 1)}

    def _remembered(self, context: Sequence[int]) -> list[int]:
        ids = [int(i) for i in context]
        if BOS in ids:
            ids = ids[len(ids) - 1 - ids[::-1].index(BOS) :]
        return [i for i in ids if i != BOS] if self.sentence_start == "lower_order" else ids

    def step(self, tokens: Array, state: State) -> tuple[Array, State]:
        """Log probabilities of the next token in nats, shape (n, V), after `tokens`; and the new state."""
        history = np.concatenate([state["history"], np.asarray(tokens, np.int64)[:, None]], axis=1)[:, 1:]
        begins = np.asarray(tokens) == BOS
        if self.n > 1 and begins.any():
            history[begins, :-1] = -1
            history[begins, -1] = BOS if self.sentence_start == "pad" else -1
        with np.errstate(divide="ignore"):
            return np.log(self._rows(history)), {"history": history}

    def select(self, state: State, index: Array) -> State:
        """The state of the sequences in `index`."""
        return {"history": state["history"][index]}

    def sample(self, n: int, noise: Noise, *, prompt: Sequence[int] = (), max_length: int = 100) -> NDArray[np.int64]:
        """Draw n sentences that begin with the prompt.

        Returns
        -------
        int64 array of shape (n, at most max_length)
            The tokens after the prompt, -1 after the end; ``</s>`` is kept, so that a sentence without it was cut.
        """
        end = EOS if self.sentence_start == "pad" else None
        return ancestral(
            self, [[BOS, *prompt]] * n, noise, max_length=max_length, vocabulary_size=self.vocabulary_size, end=end
        )

    # --- saving -------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Array]:
        """Counts, fitted parameters and vocabulary; everything else follows from them."""
        fitted = {} if self.parameters is None else {f"parameter_{name}": v for name, v in self.parameters.items()}
        named = {} if self.vocabulary is None else {f"token_{name}": v for name, v in self.vocabulary.state().items()}
        settled = np.array([self.parameters is not None], np.int64)
        return self.counts.state() | fitted | named | {"settled": settled}

    def load(self, state: State) -> None:
        """Take over what `state` described.

        Raises
        ------
        ValueError
            Counts of another order or vocabulary.
        """
        counts = NGramCounts.from_state(state, self.sentence_start)
        if (counts.n, counts.vocabulary_size) != (self.n, self.vocabulary_size):
            raise ValueError(f"counts of n = {counts.n} and {counts.vocabulary_size} ids are of another model")
        self.counts = counts
        settled = bool(np.asarray(state["settled"])[0])
        self.parameters = _below(state, "parameter_") if settled else None
        names = _below(state, "token_")
        self.vocabulary = restored(names) if names else None
        self._estimate = None


def _take(values: NDArray[np.float64], index: NDArray[np.int64], otherwise: float) -> NDArray[np.float64]:
    """values[index], and `otherwise` where index is -1."""
    if not values.size:
        return np.full(index.shape, otherwise)
    return np.where(index >= 0, values[index], otherwise)


def _below(state: State, prefix: str) -> dict[str, Array]:
    return {name.removeprefix(prefix): np.asarray(v) for name, v in state.items() if name.startswith(prefix)}
