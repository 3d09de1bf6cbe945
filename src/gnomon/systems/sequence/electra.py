"""ELECTRA: an encoder of texts that learns which tokens are not those of the text."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import nn

from gnomon import contracts
from gnomon.data.packing import pack, room
from gnomon.data.sequences import held
from gnomon.evaluation.roc import roc_auc
from gnomon.evaluation.score import Score
from gnomon.nn.positions import LearnedPlaces
from gnomon.nn.text_encoder import ReplacedHead, TextEncoder, TokenHead
from gnomon.numeric.noise import Noise, seed_of
from gnomon.numeric.ragged import Ragged
from gnomon.objectives.masked_language import IGNORED, mask_tokens
from gnomon.objectives.replaced_tokens import ReplacedTokens, corrupt
from gnomon.recipes.fields import Doc
from gnomon.systems.sequence._masked import TextPretraining, pieces
from gnomon.systems.sequence._model import WithVocabulary

__all__ = ["ELECTRA", "ELECTRAModel"]


class ELECTRAModel(WithVocabulary):
    """Two encoders of texts with one embedding: one proposes tokens, the other tells which are not of the text.

    Parameters
    ----------
    encoder, generator : TextEncoder
        The embedding of the first one becomes that of both.
    unit : nn.Module
        The activation of the outputs' hidden layers.
    dtype : torch.dtype
    epsilon : float in (0, inf), default 1e-12
        Of the norm of the generator's output.
    """

    follows = None

    def __init__(
        self, encoder: TextEncoder, generator: TextEncoder, unit: nn.Module, dtype: torch.dtype, epsilon: float = 1e-12
    ) -> None:
        super().__init__()
        self.encoder, self.generator = encoder, generator
        shared = ("tokens", "segments", "norm") + (("places",) if isinstance(encoder.places, LearnedPlaces) else ())
        for name in shared:
            setattr(generator, name, getattr(encoder, name))
        self.head = TokenHead(generator.width, encoder.tokens, unit, epsilon=epsilon, dtype=dtype)
        self.replaced = ReplacedHead(encoder.width, unit, dtype=dtype)

    def initialize(self, noise: contracts.Noise) -> None:
        """First values of all parameters."""
        for name in ("generator", "encoder", "head", "replaced"):
            getattr(self, name).initialize(noise.child(name))


class ELECTRA(TextPretraining):
    r"""Encoder of texts that learns to tell replaced tokens from those of the text (ELECTRA).

    A small generator learns to say what hidden tokens were, as `BERT` does; tokens are drawn from it in their places,
    and the encoder, a discriminator, says of every token whether it was replaced,
    :math:`P(r_t | x) = \sigma(w^T \phi(W h_t + b) + c)`. So it learns from all tokens, not from a seventh of them. Both
    learn together, :math:`L = L_G + \lambda L_D`, share their embedding, and do not play against each other: nothing
    flows back through what is drawn.

    Attributes
    ----------
    vocabulary_ : Vocabulary
        Tokens by id; 0 to 4 are ``<pad>``, ``<unk>``, ``<cls>``, ``<sep>``, ``<mask>``, which no token of the text is.
    history_ : dict of lists
        ``replaced_cross_entropy`` (of the discriminator, nats per token, times `discriminator_weight`),
        ``masked_cross_entropy`` (of the generator, nats per chosen token) and ``gradient_norm``, by epoch.

    Notes
    -----
    Text is given as to `BERT`. `transform` and `encode` are the discriminator's. A token that is drawn though it was
    there counts as original. With the same weights the encoder equals ``transformers.ElectraModel``. ``initial`` may be
    the folder of a discriminator as transformers saves it, with its settings; the generator begins anew. Source: Clark,
    Luong, Le and Manning (2020).

    Examples
    --------
    >>> text = ["the sun casts the shadow", "the dial shows the hour"] * 20
    >>> model = ELECTRA(n_embedding=16, n_hidden=32, n_heads=2, n_layers=1, window=16, batch_size=8, epochs=2,
    ...                 random_state=0).fit(text)
    >>> model.predict_replaced(["the sun casts the hour"])[0].shape, model.transform(["the sun"]).shape
    ((5,), (1, 16))
    """

    name: ClassVar[str] = "electra"
    model_class: ClassVar[type] = ELECTRAModel
    published: ClassVar[tuple[str, ...]] = ("electra",)

    embedding_width: Annotated[
        int | None,
        "[1, inf)",
        Doc("Width of the tokens' embedding, which both networks share; None takes n_embedding."),
    ] = None
    generator_share: Annotated[
        float, "(0, 1]", Doc("Width and hidden units of the generator as a share of the discriminator's.")
    ] = 0.5
    discriminator_weight: Annotated[
        float, "(0, inf)", Doc("Factor of the discriminator's loss beside the generator's.")
    ] = 50.0
    pooling: Annotated[
        Literal["mean", "first"],
        Doc("The vector of a text: the mean of those of its tokens, or that of ``<cls>``."),
    ] = "mean"

    def make(self, *, vocabulary_size: int, pairs: bool, dtype: str, epsilon: float = 1e-12) -> ELECTRAModel:
        kind = getattr(torch, dtype)
        unit = nn.GELU() if self.activation == "gelu" else nn.ReLU()
        narrow = self.embedding_width or self.n_embedding
        encoder, generator = (
            self.make_encoder(vocabulary_size, kind, share=share, pooled=False, embedding_width=narrow, epsilon=epsilon)
            for share in (1.0, self.generator_share)
        )
        return ELECTRAModel(encoder, generator, unit, kind, epsilon)

    def make_objective(self) -> ReplacedTokens:
        return ReplacedTokens(self.window, self.masking, self.discriminator_weight)

    # --- replaced tokens ----------------------------------------------------------------------------------------

    def predict_replaced(self, X: Any) -> list[NDArray[np.float64]]:
        """Probability of each token of each text not to be that of the text, (tokens,)."""
        text = self._texts(X)
        found = np.zeros(len(text.values))
        for index, tokens in self._own(text):
            with torch.no_grad():
                found[index] = torch.sigmoid(self.model_.replaced(tokens).double()).cpu().numpy()
        return [found[a:b] for a, b in zip(text.offsets[:-1], text.offsets[1:], strict=True)]

    def corrupt(self, X: Any, *, random_state: Any = None) -> tuple[list[list[str]], list[NDArray[np.bool_]]]:
        """Texts with some tokens drawn from the generator, and which tokens are others than before.

        Two calls differ unless `random_state` is given. A text of more than ``window - 2`` tokens is read in pieces.
        """
        text = self._texts(X)
        ids, replaced = self._corrupted(text, Noise(seed_of(random_state), "corrupt"))
        cuts = list(zip(text.offsets[:-1], text.offsets[1:], strict=True))
        return [list(self.vocabulary_.decode(ids[a:b])) for a, b in cuts], [replaced[a:b] for a, b in cuts]

    def _corrupted(self, text: Ragged, noise: Noise) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Ids end to end, and which are replaced."""
        found, _ = pieces(text, room(self.window, pair=False))
        packed, model = pack(found), self.model_
        rows, device = noise.rows(np.arange(len(found))), model.device
        hidden = mask_tokens(
            torch.as_tensor(packed.ids, device=device), rows, len(self.vocabulary_), fraction=self.masking,
            width=self.window,
        )  # fmt: skip
        with torch.no_grad():
            tokens = model.generator(hidden.ids, None, torch.as_tensor(packed.lengths, device=device))
            scores = model.head(tokens[hidden.labels != IGNORED])
        ids, replaced = corrupt(hidden, scores, rows.child("drawn"), self.window)
        at = np.arange(packed.ids.shape[1])
        own = (at >= 1) & (at < packed.lengths[:, None] - 1)
        return ids.cpu().numpy()[own], replaced.cpu().numpy()[own]

    # --- scores -------------------------------------------------------------------------------------------------

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Log likelihood of hidden tokens under the generator, and how well replaced tokens are told from others.

        Every token is hidden once, together with every seventh one before and behind it; tokens are replaced as in
        training. Standard errors are over sentences, and over tokens.
        """
        check_is_fitted(self)
        X = held(X)
        text, model = self._texts(X), self.model_
        found = self._cloze_scores(SimpleNamespace(encoder=model.generator, head=model.head, device=model.device), text)
        ids, replaced = self._corrupted(text, Noise(self.seed_, "evaluate"))
        again = Ragged(ids, text.offsets)
        score = np.zeros(len(ids))
        for index, tokens in self._own(again):
            with torch.no_grad():
                score[index] = model.replaced(tokens).double().cpu().numpy()
        name = "replaced_accuracy"
        found[name] = Score.from_pointwise(
            ((score > 0) == replaced).astype(float), name=name, unit="fraction", data_space="tokens, some replaced"
        )
        return found | {"replaced_auc": roc_auc(replaced, score)}
