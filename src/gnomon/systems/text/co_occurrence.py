"""Word vectors by counting which words come together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from gnomon.contracts import Array, Noise, Procedure, State
from gnomon.data.examples import Examples
from gnomon.data.text import Vocabulary
from gnomon.data.tokenizers import restored
from gnomon.data.word_contexts import WordContexts
from gnomon.errors import UserTypeError, UserValueError, nearest
from gnomon.evaluation.score import Score
from gnomon.evaluation.word_pairs import neighbor_auc
from gnomon.numeric.given import affordable
from gnomon.numeric.noise import Noise as Addressed
from gnomon.numeric.ragged import Ragged
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import how_many
from gnomon.system.base import System
from gnomon.system.fields import DrawsNothing
from gnomon.systems.text._pair_counts import Count, pair_counts, positive_information, principal_rows
from gnomon.training.one_process import OnFirst

__all__ = ["CoOccurrence", "CoOccurrenceModel"]

AT_ONCE = 1 << 14
"""Pairs of words whose similarities are computed at once."""


class CoOccurrenceModel:
    """Counts X of pairs of words, and the vectors that are made of them.

    Parameters
    ----------
    n_words : int
    weighting : {"none", "ppmi"}
        Rows of X, or of its positive pointwise mutual information.
    n_components : int, optional
        Numbers that a truncated singular value decomposition leaves of each.
    """

    vocabulary: Vocabulary

    def __init__(self, n_words: int, weighting: str = "none", n_components: int | None = None) -> None:
        self.n_words, self.weighting, self.n_components = n_words, weighting, n_components
        self._take(sp.csr_array((n_words, n_words)), None)

    def _take(self, counts: sp.csr_array, vectors: Any) -> None:
        self.counts = counts
        weighted = positive_information(counts) if self.weighting == "ppmi" else counts
        if self.n_components is None:
            vectors = weighted
        elif vectors is None:
            vectors = principal_rows(weighted, self.n_components)
        self.vectors = vectors
        squares = vectors.multiply(vectors).sum(1) if sp.issparse(vectors) else (vectors * vectors).sum(1)
        self.lengths = np.sqrt(squares)

    def fit(self, counts: sp.csr_array) -> None:
        """Vectors of a symmetric table of counts."""
        self._take(counts, None)

    def cosines(self, a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.float64]:
        """Cosines of the angles between the vectors of pairs of words; 0 where one has only zeros."""
        found = np.zeros(len(a))
        for start in range(0, len(a), AT_ONCE):
            some = slice(start, start + AT_ONCE)
            left, right = self.vectors[a[some]], self.vectors[b[some]]
            found[some] = left.multiply(right).sum(1) if sp.issparse(left) else (left * right).sum(1)
        scale = self.lengths[a] * self.lengths[b]
        return np.divide(found, scale, out=np.zeros(len(a)), where=scale > 0).clip(-1.0, 1.0)

    def cosines_of(self, word: int) -> NDArray[np.float64]:
        """Cosines of the vector of a word with those of all, (n_words,)."""
        row = self.vectors[[word]]
        products = (self.vectors @ row.T).toarray()[:, 0] if sp.issparse(row) else self.vectors @ row[0]
        scale = self.lengths * self.lengths[word]
        found: NDArray[np.float64] = np.divide(products, scale, out=np.zeros(self.n_words), where=scale > 0)
        return found.clip(-1.0, 1.0)

    @property
    def n_parameters(self) -> int:
        """Numbers of the vectors that are stored."""
        return int(self.vectors.nnz if sp.issparse(self.vectors) else self.vectors.size)

    def state(self) -> dict[str, Array]:
        """Counts by row, vectors where they are not the counts' own, and the words."""
        x = self.counts
        parts = {"data": x.data, "indices": x.indices.astype(np.int64), "indptr": x.indptr.astype(np.int64)}
        dense = {} if sp.issparse(self.vectors) else {"vectors": self.vectors}
        return parts | dense | {f"token_{name}": value for name, value in self.vocabulary.state().items()}

    def load(self, state: State) -> None:
        """Take over what `state` described."""
        shape = (self.n_words, self.n_words)
        data, indices, indptr = (np.array(state[name]) for name in ("data", "indices", "indptr"))
        if len(indptr) != self.n_words + 1:
            raise ValueError(f"counts of {len(indptr) - 1} words are of another model")
        named = {k.removeprefix("token_"): value for k, value in state.items() if k.startswith("token_")}
        self.vocabulary = restored(named)
        self._take(sp.csr_array((data, indices, indptr), shape), state.get("vectors"))


class CoOccurrence(DrawsNothing, System):
    r"""Vectors of words: the row of each in the table of which words come together, and how often.

    :math:`X_{xy}` is the number of sentences that contain the words x and y. By default its rows are weighed by
    positive pointwise mutual information, :math:`\max(0, \log(p_{xy} / (p_x p_y)))`, since frequent words come together
    with every other, and brought to `n_components` numbers by a truncated singular value decomposition. With
    ``weighting="none"`` and ``n_components=None`` the vectors are the counts themselves.

    Attributes
    ----------
    vocabulary_ : Vocabulary
        Tokens by id; 0 is ``<unk>``, which has no vector.
    words_ : list of str
        The words in the order of their vectors, most frequent first.
    counts_ : scipy sparse array of shape (words, words)
        X, symmetric.
    vectors_ : array of shape (words, n_components), or sparse of shape (words, words)

    Notes
    -----
    Text is a string (each line a sentence), a list of strings (sentences), or a list of lists of tokens. The table is
    sparse: without a window it is :math:`B^T B` of the bags of words B, which costs for each sentence the square of
    its different words; long sentences ask for a window. Words that are rarer than `min_count` keep their places in
    the window. Source: Church and Hanks (1990); Bullinaria and Levy (2007); Levy, Goldberg and Dagan (2015).

    Examples
    --------
    >>> text = ["the cat sleeps", "the dog sleeps", "a cat purrs", "the dog barks"]
    >>> model = CoOccurrence(weighting="none", n_components=None).fit(text)
    >>> model.words_[:3], model.counts_.toarray()[:3, :3].astype(int).tolist()
    (['the', 'cat', 'dog'], [[0, 1, 2], [1, 0, 0], [2, 0, 0]])
    >>> round(model.similarity("cat", "dog"), 4)
    0.6124
    """

    name: ClassVar[str] = "co-occurrence"
    model_class: ClassVar[type] = CoOccurrenceModel
    tasks: ClassVar[tuple[str, ...]] = ("embed",)
    primary: ClassVar[str] = "neighbor_auc"
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {"vocabulary_size": {"unit": "bpe"}}

    unit: Annotated[
        Literal["word", "char", "byte", "jieba", "bpe", "byte-bpe", "marked-bpe", "wordpiece"],
        Doc("What a string is cut into; the last four are pieces that are learned from the text."),
    ] = "word"
    vocabulary_size: Annotated[
        int, "[256, inf)", Doc("Pieces that ``bpe``, ``byte-bpe``, ``marked-bpe`` and ``wordpiece`` may learn.")
    ] = 4000
    min_count: Annotated[int, "[1, inf)", Doc("Tokens rarer than this in the training text have no vector.")] = 1
    count: Annotated[
        Literal["sentences", "binary", "pairs"],
        Doc("Sentences in which two words come together; 1 where they ever do; or pairs of two places."),
    ] = "sentences"
    window: Annotated[
        int | None, "[1, inf)", Doc("Places that two words may be apart; any within a sentence where left out.")
    ] = None
    diagonal: Annotated[
        Literal["zero", "count"],
        Doc("A word with itself: 0, or what is counted: its sentences, 1, or pairs of its different places."),
    ] = "zero"
    weighting: Annotated[
        Literal["none", "ppmi"], Doc("Counts as they are, or positive pointwise mutual information.")
    ] = "ppmi"
    n_components: Annotated[
        int | None,
        "[1, inf)",
        Doc("Numbers of a vector, at most one for each word; None: the sparse row of the table itself."),
    ] = 50

    @property
    def domain(self) -> WordContexts:
        """Text cut into tokens by `unit`."""
        return WordContexts(self.unit, size=self.vocabulary_size)

    def known_domain(self) -> WordContexts:
        return WordContexts(self.unit, self.vocabulary_, self.vocabulary_size)

    @property
    def vocabulary_(self) -> Vocabulary:
        """Tokens by id; 0 is ``<unk>``."""
        vocabulary: Vocabulary = self.model_.vocabulary
        return vocabulary

    @property
    def words_(self) -> list[str]:
        """The words in the order of their vectors."""
        return self.vocabulary_.decode(np.arange(1, len(self.vocabulary_)))

    @property
    def counts_(self) -> sp.csr_array:
        """How often each two words come together, (words, words)."""
        return self.model_.counts

    @property
    def vectors_(self) -> Any:
        """The vectors of the words, a row for each."""
        return self.model_.vectors

    # --- fit ----------------------------------------------------------------------------------------------------

    def ingest(self, X: Any, y: Any = None, sample_weight: Any = None) -> Examples:
        if sample_weight is not None:
            raise UserValueError("sentences have no weights here", "sample_weight", "repeat a sentence instead")
        domain, ids = self.domain.read_first(X, self.min_count, ("<unk>",))
        if len(domain.vocabulary or ()) < 2:
            what = f"no word occurs {self.min_count} times"
            raise UserValueError(what, "X", "give more text, or choose a smaller min_count")
        return Examples({"X": ids}, shared={"vocabulary": domain.vocabulary})

    def arguments(self, examples: Examples) -> dict[str, Any]:
        return {"n_words": len(examples.shared["vocabulary"]) - 1}

    def make(self, **arguments: Any) -> CoOccurrenceModel:
        return CoOccurrenceModel(arguments["n_words"], self.weighting, self.n_components)

    def initialize(self, model: CoOccurrenceModel, examples: Examples, noise: Noise) -> None:
        model.vocabulary = examples.shared["vocabulary"]

    def procedure(self, examples: Any) -> Procedure:
        return OnFirst(lambda problem: self._count(problem.model, examples["X"]))

    def _count(self, model: CoOccurrenceModel, text: Ragged) -> dict[str, float]:
        kind: Count = self.count
        counts = pair_counts(text, model.n_words, window=self.window, count=kind)
        if self.diagonal == "zero":
            counts.setdiag(0.0)
            counts.eliminate_zeros()
        model.fit(counts)
        return {"tokens": float(len(text.values)), "pairs": float(counts.nnz)}

    # --- verbs --------------------------------------------------------------------------------------------------

    def similarity(self, a: str, b: str) -> float:
        """Cosine of the angle between the vectors of two words, in [-1, 1]; 0 where one of them has only zeros.

        Raises
        ------
        UserValueError
            A word that the fit did not have, with near ones.
        """
        return float(self.model_.cosines(np.array([self._index(a)]), np.array([self._index(b)]))[0])

    def nearest(self, word: str, k: int = 5) -> list[tuple[str, float]]:
        """The k words whose vectors have the smallest angle with that of a word, and their cosines.

        Words of the same cosine come in the order of `words_`. The word itself is none of them, nor is one whose vector
        has only zeros, which has no direction.
        """
        index = self._index(word)
        cosines = self.model_.cosines_of(index)
        there = self.model_.lengths > 0
        order = np.argsort(-cosines, kind="stable")
        best = order[there[order] & there[index] & (order != index)][: how_many(k, "k")]
        return list(zip(self.vocabulary_.decode(best + 1), cosines[best].tolist(), strict=True))

    def transform(self, X: Any) -> NDArray[np.float64]:
        """The mean of the vectors of the known words of each text, shape (texts, width); 0 where there is none."""
        text = self._rows(X)
        width = self.vectors_.shape[1]
        affordable(float(len(text)) * width, "X", "choose fewer n_components, or give fewer texts")
        owner, known = np.repeat(np.arange(len(text)), text.lengths), text.values > 0
        shape = (len(text), self.model_.n_words)
        bags = sp.csr_array((np.ones(int(known.sum())), (owner[known], text.values[known] - 1)), shape)
        sums = bags @ self.vectors_
        dense = sums.toarray() if sp.issparse(sums) else sums
        return np.asarray(dense / np.maximum(1.0, bags.sum(1))[:, None], np.float64)

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """How often a word is closer to another word of its sentence than to a random word; see `neighbor_auc`."""
        text = self._rows(X)
        space = self.known_domain().space(self.model_.n_words)

        def cosines(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.float64]:
            found: NDArray[np.float64] = self.model_.cosines(a - 1, b - 1)
            return found

        found = neighbor_auc(text, cosines, Addressed(0, "evaluate"), data_space=space)
        return {found.name: found}

    def _index(self, word: str) -> int:
        check_is_fitted(self)
        if not isinstance(word, str):
            raise UserTypeError.must("word", "be a string", word)
        found = int(self.vocabulary_.encode([word])[0])
        if found == 0:
            close = nearest(word, self.words_)
            remedy = f"did you mean {close[0]!r}?" if close else "choose one of words_"
            raise UserValueError(f"the fit has no word {word!r}", "word", remedy)
        return found - 1
