"""Tagger of the words of texts by attention in both directions."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from gnomon.contracts import Array, Noise
from gnomon.data.examples import Examples
from gnomon.data.tagged import ReadWords, TaggedTexts, WordTags
from gnomon.distributions.arrays import row_weights
from gnomon.errors import UserError, UserTypeError, UserValueError
from gnomon.evaluation.score import Score
from gnomon.evaluation.tagging import marks_spans, tagged_spans, tagging_scores
from gnomon.nn.dropout import Dropout
from gnomon.nn.initializers import XavierUniform, initialize
from gnomon.nn.layers import dense
from gnomon.nn.text_encoder import TextEncoder
from gnomon.numeric.ops import log_softmax
from gnomon.numeric.ragged import Ragged
from gnomon.objectives.losses import CrossEntropyLoss
from gnomon.objectives.per_place import PerPlace
from gnomon.system.fields import HasDtype
from gnomon.systems.sequence._classifying import EncodedTexts, ReadsTexts, TwoTexts

__all__ = ["TransformerTagger", "TransformerTaggerModel"]


class TransformerTaggerModel(EncodedTexts):
    r"""p(tag j of a word | text) = softmax(W h + b)_j of the vector h of the word's first token.

    Parameters
    ----------
    encoder : TextEncoder
    n_classes : int, at least 2
    dropout : float in [0, 1), default 0
        Probability to drop an element of h in training.
    dtype : torch.dtype
    """

    def __init__(
        self, encoder: TextEncoder, n_classes: int, dropout: float = 0.0, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__(encoder)
        self.drop = Dropout(dropout)
        self.head = dense(encoder.width, n_classes, dtype=dtype)

    def initialize(self, noise: Noise) -> None:
        """First values of all parameters."""
        self.encoder.initialize(noise.child("encoder"))
        initialize(self.head, XavierUniform(), noise.child("head"))

    def scores(self, ids: torch.Tensor) -> torch.Tensor:
        """Scores (n, T, n_classes) at the tokens of packed rows (n, T)."""
        found: torch.Tensor = self.head(self.drop(self.read(ids)))
        return found

    def codes(self, marks: torch.Tensor) -> torch.Tensor:
        """Tags as codes, -1 at tokens without one, of a batch in which padding and these are 0."""
        return marks - 1


class TransformerTagger(ReadsTexts, HasDtype):
    r"""Tagger of words: layers of attention over all tokens of a text, and an affine layer at each word.

    A text is read as ``<cls> text <sep>``, in which every token looks at all others,
    :math:`x \leftarrow \mathrm{LN}(x + \mathrm{MHA}(x))`, :math:`x \leftarrow \mathrm{LN}(x + \mathrm{FF}(x))`. Words
    are what stands between white space. A word that the unit cuts into several tokens has its tag at the first of
    them, with the vector h: its probabilities are softmax(W h + b). The loss is the mean cross-entropy over words;
    all other tokens count for nothing.

    Tags such as ``B-place``, ``I-place`` and ``O`` mark spans: `spans` gives them, and `evaluate` judges them.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Tags, sorted.
    vocabulary_ : Vocabulary
        Tokens by id; 0 ... 4 are ``<pad>``, ``<unk>``, ``<cls>``, ``<sep>``, ``<mask>``.
    history_ : dict of lists
        ``cross_entropy`` (nats per word), ``gradient_norm`` by epoch.

    Notes
    -----
    X is a list of strings, y a list of strings of as many tags as words, or of lists of tags. A text of more tokens
    than `window` is read in several rows, each of whole words; of a word of more tokens than half a row the first ones
    are read. From another fit of the same settings, one of BERT say, ``initial`` takes the encoder and the vocabulary;
    the output layer begins anew where tags differ. ``initial`` may be the folder of a BERT, ELECTRA or RoBERTa as
    transformers saves it, with its settings.

    An update costs about 6 batch_size * T * n_layers * (4 n_embedding^2 + 2 n_embedding * n_hidden + T * n_embedding)
    multiplications for rows of T tokens. Source: Devlin, Chang, Lee and Toutanova (2019), sections 3.2 and 5.3.

    Examples
    --------
    >>> texts = ["the dial of the sun", "salt of the sea", "a shadow"] * 8
    >>> tags = ["D N P D N", "N P D N", "D N"] * 8
    >>> model = TransformerTagger(n_embedding=16, n_hidden=32, n_layers=1, epochs=20, batch_size=8,
    ...                           learning_rate=0.01, random_state=0).fit(texts, tags)
    >>> model.predict(["the shadow of a dial", ""]).tolist()
    ['D N P D N', '']
    """

    name: ClassVar[str] = "transformer-tagger"
    tasks: ClassVar[tuple[str, ...]] = ("tag",)
    primary: ClassVar[str] = "accuracy"
    labeled: ClassVar[bool] = True
    model_class: ClassVar[type] = TransformerTaggerModel

    @property
    def domain(self) -> TaggedTexts:
        """Texts whose words are cut into tokens by `unit`."""
        return TaggedTexts(self.unit)

    def known_domain(self) -> TaggedTexts:
        return TaggedTexts(self.unit, self.vocabulary_, longest=self.window)

    # --- fit ----------------------------------------------------------------------------------------------------

    def ingest(self, X: Any, y: Any = None, sample_weight: Any = None) -> Examples:
        X = X if hasattr(X, "__len__") or not hasattr(X, "__iter__") else list(X)  # gone through several times
        known, domain = self._known_vocabulary(), TaggedTexts(self.unit, size=self.vocabulary_size)
        domain = domain.learn(X, self.min_count) if known is None else domain.known(X, known)
        read = TaggedTexts(self.unit, domain.vocabulary, longest=self.window).read(X)
        self.classes_, codes = WordTags().encode(y, read.counts)
        if len(self.classes_) < 2:
            raise UserValueError(f"y must hold at least 2 tags, got only one, {str(self.classes_[0])!r}", "y")
        weight = row_weights(sample_weight, len(read.counts), np.dtype(getattr(self, "dtype", None) or "float32"))
        shared = {"vocabulary": domain.vocabulary, "pair": TwoTexts(two=False)}
        return Examples(_fields(read, codes), weight[read.owner], shared=shared)

    def ingest_validation(self, validation: Any, examples: Any) -> Examples:
        if not isinstance(validation, tuple | list) or len(validation) != 2:
            raise UserTypeError("validation must be a pair (X, y)", "validation")
        X, y = validation
        try:
            read = TaggedTexts(self.unit, examples.shared["vocabulary"], longest=self.window).read(X)
            codes = WordTags().locate(y, self.classes_, read.counts)
            if (codes == len(self.classes_)).any():
                tag = WordTags().check(y, read.counts)[codes == len(self.classes_)][0]
                raise UserValueError(f"tag {str(tag)!r} is in no training text", "y", "add texts with it")
            if not len(read.rows):
                raise UserValueError("no text has a word", "X", "give texts with words")
        except UserError as error:
            raise type(error)(error.what, f"validation: {error.where}", error.remedy) from None
        return Examples(_fields(read, codes), shared=examples.shared)

    def arguments(self, examples: Examples) -> dict[str, Any]:
        found = ReadsTexts.arguments(self, examples) | {"n_classes": len(self.classes_)}
        return {name: value for name, value in found.items() if name != "pair"}

    def make(self, *, n_ids: int, n_classes: int, dtype: str, **published: Any) -> TransformerTaggerModel:
        kind = getattr(torch, dtype)
        encoder = self.make_encoder(n_ids, kind, pooled=False, **published)
        return TransformerTaggerModel(encoder, n_classes, self.dropout, kind)

    def make_objective(self) -> PerPlace:
        return PerPlace(CrossEntropyLoss(), targets="codes")

    # --- verbs --------------------------------------------------------------------------------------------------

    def _read(self, X: Any) -> ReadWords:
        check_is_fitted(self)
        return self.known_domain().read(X)

    def _log_proba(self, read: ReadWords) -> NDArray[np.floating[Any]]:
        """Log probabilities of the tags, (words, n_classes), of the words of all texts."""
        scores = np.zeros((len(read.heads.values), len(self.classes_)), self.arguments_["dtype"])
        for chosen, some in self.model_.ask_rows("scores", read.rows):
            heads, words = read.heads.take(chosen), Ragged(np.arange(len(scores)), read.heads.offsets).take(chosen)
            scores[words.values] = some[np.repeat(np.arange(len(chosen)), heads.lengths), heads.values]
        found: NDArray[np.floating[Any]] = log_softmax(scores, 1)
        return found

    def _tags(self, read: ReadWords) -> NDArray[np.str_]:
        """The likeliest tag of each word of all texts; ties go to the first."""
        found: NDArray[np.str_] = self.classes_[self._log_proba(read).argmax(1)]
        return found

    def predict(self, X: Any) -> NDArray[np.str_]:
        """The likeliest tag of each word, with blanks between them: a string for each text, shape (n,)."""
        read = self._read(X)
        return np.array([" ".join(tags) for tags in _split(self._tags(read), read)], np.str_)

    def tag_proba(self, X: Any) -> list[Array]:
        """Probabilities of the tags in the order of ``classes_``: for each text an array (words, n_classes)."""
        read = self._read(X)
        return _split(np.exp(self._log_proba(read)), read)

    def spans(self, X: Any) -> list[list[tuple[int, int, str]]]:
        """The spans that the likeliest tags mark in each text: first word, word behind the last, label.

        Raises
        ------
        UserValueError
            Tags that mark no spans: others than ``O``, ``B-label`` and ``I-label``, with labels or without.
        """
        read = self._read(X)
        if not marks_spans(self.classes_.tolist()):
            what = f"tags must be O, B-label and I-label to mark spans, got {', '.join(self.classes_.tolist()[:5])}"
            raise UserValueError(what, "spans", "use predict")
        found: list[list[tuple[int, int, str]]] = [[] for _ in read.counts]
        for text, start, stop, label in tagged_spans(self._tags(read), read.counts).tolist():
            found[text].append((start, stop, label))
        return found

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Fraction of words whose tag is right, and where tags mark spans their F1, precision and recall.

        A tag that the fit has not seen counts as wrong.
        """
        read = self._read(X)
        return tagging_scores(WordTags().check(y, read.counts), self._tags(read), read.counts, len(self.classes_))

    def score(self, X: Any, y: Any = None) -> float:
        """Fraction of words whose tag is right."""
        return float(self.evaluate(X, y)[self.primary].value)


def _fields(read: ReadWords, codes: NDArray[np.int64]) -> dict[str, Ragged]:
    """Rows, and at each word's first token its tag's code from 1 on; 0 at the others, as at padding."""
    marks = np.zeros(len(read.rows.values), np.int64)
    marks[np.repeat(read.rows.offsets[:-1], read.heads.lengths) + read.heads.values] = codes + 1
    return {"X": read.rows, "y": Ragged(marks, read.rows.offsets)}


def _split(of_words: Any, read: ReadWords) -> list[Any]:
    """What all words have, text by text."""
    return list(np.split(of_words, np.cumsum(read.counts)[:-1].tolist()))
