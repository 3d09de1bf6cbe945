"""BERT: an encoder of texts that learns from a text what its hidden tokens are, and what follows what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import nn

from gnomon import contracts
from gnomon.data.packing import MASK, SPECIALS, pack, room
from gnomon.data.sequences import Pairs, held
from gnomon.data.text import listed
from gnomon.errors import UserValueError
from gnomon.evaluation.score import Score
from gnomon.nn.initializers import XavierUniform, initialize
from gnomon.nn.layers import dense
from gnomon.nn.text_encoder import TextEncoder, TokenHead
from gnomon.numeric.noise import Noise
from gnomon.numeric.ragged import Ragged
from gnomon.objectives.masked_language import MaskedLanguage
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import how_many
from gnomon.systems.sequence._masked import TextPretraining, outputs
from gnomon.systems.sequence._model import WithVocabulary

__all__ = ["BERT", "BERTModel"]

HIDDEN = SPECIALS[MASK]


class BERTModel(WithVocabulary):
    """An encoder of texts, scores of hidden tokens, and of whether a second text follows the first.

    Parameters
    ----------
    encoder : TextEncoder
    unit : nn.Module
        The activation of the scores' hidden layer.
    pairs : bool
        Whether there are scores of what follows.
    dtype : torch.dtype
    epsilon : float in (0, inf), default 1e-12
        Of the norm of the scores' hidden layer.
    """

    def __init__(
        self, encoder: TextEncoder, unit: nn.Module, pairs: bool, dtype: torch.dtype, epsilon: float = 1e-12
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = TokenHead(encoder.width, encoder.tokens, unit, epsilon=epsilon, dtype=dtype)
        self.follows = dense(encoder.width, 2, dtype=dtype) if pairs else None

    def initialize(self, noise: contracts.Noise) -> None:
        """First values of all parameters."""
        self.encoder.initialize(noise.child("encoder"))
        self.head.initialize(noise.child("head"))
        if self.follows is not None:
            initialize(self.follows, XavierUniform(), noise.child("follows"))


class BERT(TextPretraining):
    r"""Encoder of texts that is pretrained on a text without labels (BERT).

    Tokens look at all others of their passage, before and behind them. Some are hidden, and the network learns to say
    what they were; of two passages it learns whether the second follows the first. The loss is
    :math:`-\frac{1}{|C|}\sum_{t \in C} \log P(w_t | \hat w) - \log P(f | \hat w)`, with C the chosen tokens: 15% of
    all, of which 80% are hidden, 10% exchanged for others and 10% left, anew at every update.

    Attributes
    ----------
    vocabulary_ : Vocabulary
        Tokens by id; 0 to 4 are ``<pad>``, ``<unk>``, ``<cls>``, ``<sep>``, ``<mask>``, which no token of the text is.
    history_ : dict of lists
        ``masked_cross_entropy`` (nats per chosen token), ``next_cross_entropy`` where pairs are learned, and
        ``gradient_norm``, by epoch.

    Notes
    -----
    Text is a string (each line a sentence, blank lines between documents), a list of strings (sentences, empty ones
    between documents; or documents, if some have several lines), or a list of lists of tokens. Without blank lines
    `document` sentences count as a document. Half of the second passages come from another document. With the same
    weights the encoder equals ``transformers.BertModel``. ``initial`` may be the folder of a BERT or RoBERTa as
    transformers saves it, with its settings. Source: Devlin, Chang, Lee and Toutanova (2019).

    Examples
    --------
    >>> text = ["the sun casts the shadow", "the dial shows the hour"] * 20
    >>> model = BERT(n_embedding=16, n_hidden=32, n_heads=2, n_layers=1, window=16, batch_size=8, epochs=30, dropout=0,
    ...              learning_rate=0.01, random_state=0).fit(text)
    >>> model.fill_mask("the sun casts the <mask>", k=1)[0][0][0], model.transform(["the sun"]).shape
    ('shadow', (1, 16))
    """

    name: ClassVar[str] = "bert"
    model_class: ClassVar[type] = BERTModel
    published: ClassVar[tuple[str, ...]] = ("bert", "roberta")
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "vocabulary_size": {"unit": "bpe"}, "whole_words": {"unit": "wordpiece"},
    }  # fmt: skip

    next_sentence: Annotated[bool, Doc("Whether it is learned what follows what, from pairs of passages.")] = True
    segments: Annotated[
        Literal["learned", "constant"],
        Doc("Vectors of the first and the second text: learned, or all 0 and all 1."),
    ] = "learned"
    whole_words: Annotated[bool, Doc("Whether the pieces of a word, with ``wordpiece``, are chosen together.")] = False

    def wants_pairs(self) -> bool:
        return self.next_sentence

    def make(self, *, vocabulary_size: int, pairs: bool, dtype: str, epsilon: float = 1e-12) -> BERTModel:
        kind = getattr(torch, dtype)
        unit = nn.GELU() if self.activation == "gelu" else nn.ReLU()
        learned = self.segments == "learned"
        encoder = self.make_encoder(vocabulary_size, kind, learned_segments=learned, epsilon=epsilon)
        return BERTModel(encoder, unit, pairs, kind, epsilon)

    def make_objective(self) -> MaskedLanguage:
        return MaskedLanguage(self.window, self.masking, self.whole_words)

    # --- hidden tokens ------------------------------------------------------------------------------------------

    def fill_mask(self, text: str | Sequence[str], k: int = 5) -> list[list[tuple[str, float]]]:
        """The most probable tokens at each ``<mask>`` of a text, with their probabilities.

        Parameters
        ----------
        text : str or list of tokens
            At most ``window - 2`` tokens; each ``<mask>`` stands for a token.
        k : int
            How many for each.

        Returns
        -------
        list of lists of (token, probability)
            One list for each ``<mask>``; special tokens are left out.

        Raises
        ------
        UserValueError
            No ``<mask>``, too long a text.
        """
        check_is_fitted(self)
        k, ids = how_many(k, "k"), self._with_masks(text)
        packed = pack(Ragged.of([ids]))
        found: list[list[tuple[str, float]]] = []
        for _, tokens in outputs(self.model_.encoder, packed, self.model_.device):
            with torch.no_grad():
                scores = self.model_.head(tokens[torch.as_tensor(packed.ids == MASK, device=tokens.device)])
            for row in torch.softmax(scores.double(), 1).cpu().numpy():
                best = len(SPECIALS) + np.argsort(-row[len(SPECIALS) :], kind="stable")[:k]
                found.append(list(zip(self.vocabulary_.decode(best), row[best].tolist(), strict=True)))
        return found

    def _with_masks(self, text: str | Sequence[str]) -> list[int]:
        """Ids of a text, `MASK` where it says ``<mask>``."""
        domain, most = self.known_domain(), room(self.window, pair=False)
        if isinstance(text, str):
            *before, last = text.split(HIDDEN)
            if self.unit in ("bpe", "byte-bpe", "marked-bpe"):  # whose pieces hold a blank beside them
                before = [part.removesuffix(" ") for part in before]
            if self.unit == "marked-bpe":  # also the hidden one
                before, last = [*before[:1], *(part.removeprefix(" ") for part in before[1:])], last.removeprefix(" ")
            parts = [domain.tokens(part, "text") for part in (*before, last)]
            tokens: list[str | None] = list(chain.from_iterable([None, *part] for part in parts))[1:]
        else:
            tokens = [None if one == HIDDEN else one for one in domain.tokens(text, "text")]
        if None not in tokens:
            raise UserValueError(f"the text must have at least one {HIDDEN}, got none", "text", "write it for a token")
        if len(tokens) > most:
            raise UserValueError(f"the text must have at most {most} tokens, got {len(tokens)}", "text", "cut it")
        known = self.vocabulary_.encode([one or "" for one in tokens])
        return [MASK if one is None else int(i) for one, i in zip(tokens, known, strict=True)]

    def pseudo_log_likelihood(self, X: Any) -> NDArray[np.float64]:
        """Sum of the log probabilities of a text's tokens, each hidden in turn, in nats, shape (texts,).

        No normalized log probability of the text, but comparable among texts of one length. A text of more than
        ``window - 2`` tokens is scored in pieces. Cost: a text of N tokens is read N times.
        """
        return self._cloze_of(self.model_, self._texts(X), None)[0]

    # --- what follows -------------------------------------------------------------------------------------------

    def predict_is_next(self, pairs: Any) -> NDArray[np.float64]:
        """Probability that the second text of each pair follows the first, shape (pairs,).

        Parameters
        ----------
        pairs : list of (first, second)
            Strings or lists of tokens; what is too long is cut, the longer text first.

        Raises
        ------
        UserValueError
            A fit that did not learn what follows what.
        """
        check_is_fitted(self)
        if self.model_.follows is None:
            what = "the fit has not learned what follows what"
            raise UserValueError(what, "predict_is_next", "fit with next_sentence to a text of several documents")
        both = Pairs(self.unit, self.vocabulary_, self.vocabulary_, size=self.vocabulary_size).ingest(
            listed(pairs, "pairs", "pairs of texts", "")
        )
        return self._follow(both["source"], both["target"])

    def _follow(self, a: Ragged, b: Ragged) -> NDArray[np.float64]:
        packed = pack(a, b, longest=self.window)
        found = np.zeros(len(a))
        for rows, tokens in outputs(self.model_.encoder, packed, self.model_.device):
            with torch.no_grad():
                scores = self.model_.follows(self.model_.encoder.pool(tokens)).double()
            found[rows] = torch.softmax(scores, 1)[:, 1].cpu().numpy()
        return found

    # --- scores -------------------------------------------------------------------------------------------------

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Log likelihood of hidden tokens, how many are the most probable one, and of pairs how many are told right.

        Every token is hidden once, together with every seventh one before and behind it. Pairs are made as in training;
        standard errors are over sentences, and over pairs.
        """
        check_is_fitted(self)
        X = held(X)
        return self._cloze_scores(self.model_, self._texts(X)) | self._pair_scores(X)

    def _pair_scores(self, X: Any) -> dict[str, Score]:
        """Accuracy of what follows what, where it was learned and the text has pairs."""
        if self.model_.follows is None:
            return {}
        text = self.text_examples(X, self.vocabulary_, pairs=True)
        if not self._pairs(text):
            return {}
        behind: Any = text["next"]
        text = text.take(behind.lengths > 0)
        a, b, document = (cast("Any", text[name]) for name in ("X", "next", "document"))
        rows = Noise(self.seed_, "pairs").rows(np.arange(len(text)))
        second, follows = text.shared["passages"].pairs(a, b, document.values, rows)
        right = (self._follow(a, second) > 0.5) == (follows == 1)
        name = "next_accuracy"
        return {
            name: Score.from_pointwise(right.astype(float), name=name, unit="fraction", data_space="pairs of passages")
        }
