"""Classifier of texts, and of pairs of texts, by attention in both directions."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch

from gnomon.contracts import Array, Noise
from gnomon.data.examples import Examples
from gnomon.data.packing import PAD
from gnomon.distributions.domains import Labels
from gnomon.errors import UserValueError
from gnomon.nn.dropout import Dropout
from gnomon.nn.initializers import XavierUniform, initialize
from gnomon.nn.layers import dense
from gnomon.nn.text_encoder import TextEncoder
from gnomon.numeric.ops import log_softmax
from gnomon.objectives.losses import CrossEntropyLoss
from gnomon.objectives.supervised import Supervised
from gnomon.recipes.fields import Doc
from gnomon.system.fields import HasDtype
from gnomon.system.prediction import Classifier
from gnomon.systems.sequence._classifying import EncodedTexts, ReadsTexts

__all__ = ["TransformerClassifier", "TransformerClassifierModel"]


class TransformerClassifierModel(EncodedTexts):
    r"""p(class j | text) = softmax(W v + b)_j of a vector v of the whole.

    Parameters
    ----------
    encoder : TextEncoder
    n_classes : int, at least 2
    pooling : {"first", "mean"}
        v is what the pooler makes of ``<cls>``, or the mean of the vectors of all tokens, special ones among them.
    dropout : float in [0, 1), default 0
        Probability to drop an element of v in training.
    dtype : torch.dtype
    """

    def __init__(
        self, encoder: TextEncoder, n_classes: int, pooling: str, dropout: float = 0.0,
        dtype: torch.dtype = torch.float32,
    ) -> None:  # fmt: skip
        super().__init__(encoder)
        self.pooling, self.drop = pooling, Dropout(dropout)
        self.head = dense(encoder.width, n_classes, dtype=dtype)

    def initialize(self, noise: Noise) -> None:
        """First values of all parameters."""
        self.encoder.initialize(noise.child("encoder"))
        initialize(self.head, XavierUniform(), noise.child("head"))

    def vectors(self, ids: torch.Tensor) -> torch.Tensor:
        """A vector (n, width) of each packed row (n, T)."""
        tokens = self.read(ids)
        if self.pooling == "first":
            return self.encoder.pool(tokens)
        inside = (ids != PAD)[..., None].to(tokens.dtype)
        return (tokens * inside).sum(1) / inside.sum(1)

    def scores(self, ids: torch.Tensor) -> torch.Tensor:
        """Scores (n, n_classes) of packed rows (n, T)."""
        found: torch.Tensor = self.head(self.drop(self.vectors(ids)))
        return found


class TransformerClassifier(ReadsTexts, HasDtype, Classifier):
    r"""Classifier of texts, or of pairs of texts: layers of attention over all tokens, and an affine layer.

    Rows are read as ``<cls> text <sep>``, pairs as ``<cls> first <sep> second <sep>``, in which every token looks at
    all others, :math:`x \leftarrow \mathrm{LN}(x + \mathrm{MHA}(x))`,
    :math:`x \leftarrow \mathrm{LN}(x + \mathrm{FF}(x))`. The probabilities are softmax(W v + b), of the mean v of the
    tokens' vectors or of what a pooler makes of ``<cls>``, the loss the mean cross-entropy.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels, sorted.
    vocabulary_ : Vocabulary
        Tokens by id; 0 ... 4 are ``<pad>``, ``<unk>``, ``<cls>``, ``<sep>``, ``<mask>``.
    history_ : dict of lists
        ``cross_entropy`` (nats per row), ``gradient_norm`` by epoch.

    Notes
    -----
    X is a list of strings, or of pairs of strings. A row of more than `window` tokens is cut, of a pair the longer text
    first, and the fit says how many are. An empty text is ``<cls> <sep>``. From another fit of the same settings, one
    of BERT say, ``initial`` takes the encoder and the vocabulary; the output layer begins anew where classes differ.
    ``initial`` may be the folder of a BERT, ELECTRA or RoBERTa as transformers saves it, with its settings; an ELECTRA
    has no pooler, so that one begins anew.

    An update costs about 6 batch_size * T * n_layers * (4 n_embedding^2 + 2 n_embedding * n_hidden + T * n_embedding)
    multiplications for rows of T tokens. Source: Devlin, Chang, Lee and Toutanova (2019).

    Examples
    --------
    >>> texts = ["the sun casts a shadow", "shadow of the dial at noon", "salt of the sea", "tide and wave"] * 8
    >>> model = TransformerClassifier(n_embedding=16, n_hidden=32, n_layers=1, epochs=20, batch_size=8,
    ...                               learning_rate=0.01, random_state=0).fit(texts, [0, 0, 1, 1] * 8)
    >>> model.predict(["the sun and the dial", "salt and tide"]).tolist()
    [0, 1]
    """

    name: ClassVar[str] = "transformer-classifier"
    model_class: ClassVar[type] = TransformerClassifierModel

    pooling: Annotated[
        Literal["mean", "first"],
        Doc("What classes are told from: the mean of the tokens' vectors, or what the pooler makes of ``<cls>``."),
    ] = "mean"

    def ingest(self, X: Any, y: Any = None, sample_weight: Any = None) -> Examples:
        examples = self.text_examples(X, sample_weight)
        self.classes_, codes = Labels().encode(y, n=len(examples))
        if len(self.classes_) < 2:
            what = f"y must hold at least 2 classes, got only one class, {self.classes_.tolist()[0]!r}"
            raise UserValueError(what, "y")
        return examples.replace(y=codes)

    def arguments(self, examples: Examples) -> dict[str, Any]:
        return ReadsTexts.arguments(self, examples) | {"n_classes": len(self.classes_)}

    def make(
        self, *, n_ids: int, pair: bool, n_classes: int, dtype: str, **published: Any
    ) -> TransformerClassifierModel:
        kind = getattr(torch, dtype)
        encoder = self.make_encoder(n_ids, kind, pooled=self.pooling == "first", **published)
        return TransformerClassifierModel(encoder, n_classes, self.pooling, self.dropout, kind)

    def make_objective(self) -> Supervised:
        return Supervised(CrossEntropyLoss())

    def class_log_proba(self, rows: Any) -> Any:
        scores = np.zeros((len(rows), len(self.classes_)), self.arguments_["dtype"])
        for chosen, some in self.model_.ask_rows("scores", rows):
            scores[chosen] = some
        return log_softmax(scores, 1)

    def transform(self, X: Any) -> Array:
        """The vector that classes are told from, of each row, shape (n, n_embedding)."""
        rows = self._rows(X)
        found = np.zeros((len(rows), self.n_embedding), self.arguments_["dtype"])
        for chosen, some in self.model_.ask_rows("vectors", rows):
            found[chosen] = some
        return found
