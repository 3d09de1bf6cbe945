"""Captions of images: a convolutional encoder, a recurrent decoder that looks at the grid of its vectors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import Tags

from gnomon import contracts
from gnomon.contracts import Noise
from gnomon.data.captions import Captions
from gnomon.data.dataset import no_images
from gnomon.data.examples import Dense, Examples
from gnomon.data.frames import needs_preparation
from gnomon.data.preprocessing import channel_units
from gnomon.data.text import detokenize, plural, tokenize
from gnomon.distributions.arrays import row_weights
from gnomon.distributions.images import Images
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.score import Score
from gnomon.evaluation.translation import translation_scores
from gnomon.nn.attention import AttentionRecipe
from gnomon.nn.embedding import Embedding
from gnomon.nn.grids import ImageGrid
from gnomon.numeric.given import checked
from gnomon.numeric.ragged import Ragged
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import check_layer_sizes
from gnomon.recipes.recipe import Recipe
from gnomon.system.given_images import tell_of_bytes
from gnomon.systems.sequence._fields import Gated
from gnomon.systems.sequence._pairs import ROWS
from gnomon.systems.sequence._target_loss import TargetLoss
from gnomon.systems.sequence._translator import AttentiveModel, Memory
from gnomon.systems.sequence._writing import Writer

__all__ = ["CaptionModel", "Captioner", "Pictures"]

NUMBERS = 1 << 21
"""Of the images that are looked at together in prediction."""


class Pictures(Dense):
    """Images as sources: each as long as its grid has cells.

    Parameters
    ----------
    values : array of shape (n, rows, columns, channels)
    cells : int
    """

    __slots__ = ("cells",)

    def __init__(self, values: NDArray[Any], cells: int) -> None:
        super().__init__(values)
        self.cells = cells

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Cells of each grid."""
        return np.full(len(self), self.cells)

    def take(self, chosen: Any) -> Pictures:
        """Some of the images."""
        return Pictures(self.values[chosen], self.cells)


class CaptionModel(AttentiveModel):
    r"""P(y | x) = prod_t P(y_t | y_1 ... y_{t-1}, x): an `ImageGrid` sees x, a recurrent decoder writes y.

    Parameters
    ----------
    image_channels : int
    target_size : int, at least 3
        Ids of the vocabulary; 0, 1, 2 are ``<unk>``, ``<s>``, ``</s>``.
    width, units : int, at least 1
        Of the embeddings; of the recurrent layer and of the grid's vectors.
    attention : AttentionRecipe
    reset, dropout
        As of `Seq2SeqModel`.
    dtype : torch.dtype
    **grid
        Of `ImageGrid`.
    """

    backbone: ClassVar[tuple[str, ...]] = ("grid.shift", "grid.scale", "grid.stages.")

    def __init__(
        self,
        image_channels: int,
        target_size: int,
        width: int,
        units: int,
        attention: AttentionRecipe,
        reset: Literal["after", "before"] = "after",
        dropout: float = 0.0,
        dtype: torch.dtype = torch.float32,
        **grid: Any,
    ) -> None:
        super().__init__(target_size)
        self.grid = ImageGrid(image_channels, units, dtype=dtype, **grid)
        self.target_embedding = Embedding(target_size, width, dtype=dtype)
        self.build_decoder(width, units, units, attention, reset, dropout, dtype)

    def initialize(self, noise: Noise) -> None:
        """First values of all parameters."""
        self.grid.initialize(noise.child("grid"))
        super().initialize(noise)

    def look(self, images: torch.Tensor) -> Memory:
        """What is seen in images (n, rows, columns, channels)."""
        vectors, whole = self.grid(images)
        return self.remembered(vectors, vectors.new_ones(vectors.shape[:2], dtype=torch.bool), whole)

    def encode_batch(self, data: Mapping[str, Any]) -> Memory:
        """What is seen in the images of a batch."""
        return self.look(torch.as_tensor(data["X"], device=self.device))

    def together(self, sources: Any) -> int:
        """Images that are looked at together in prediction."""
        return max(1, min(ROWS, NUMBERS // max(1, math.prod(sources.values.shape[1:]))))

    def read(self, sources: Any) -> Memory:
        """The memory of `Pictures`, for prediction."""
        with torch.no_grad():
            return self.look(torch.tensor(sources.values, device=self.device))


class Captioner(Writer, Gated):
    r"""Captions of images: a convolutional network sees the image, a recurrent decoder writes what it shows.

    :math:`P(y \mid x) = \prod_t P(y_t \mid y_1 \dots y_{t-1}, h(x))`. Stages of convolutions make a grid of vectors
    h of the image, one for each cell of a few pixels, with the cell's place. With attention the decoder sees, at
    every step, the mean of the grid's vectors weighted by how well they fit; without it, the mean of all of them at
    all steps. The decoder, its loss and its search are those of ``seq2seq``. Captions are words, or with
    ``unit="char"`` strings of symbols as in a line of writing (`transcribe`).

    Attributes
    ----------
    target_vocabulary_ : Vocabulary
        Tokens of captions by id; 0, 1, 2 are ``<unk>``, ``<s>``, ``</s>``.
    history_ : dict of lists
        ``cross_entropy`` (nats per token, ends included), ``gradient_norm``, and with validation rows
        ``validation_cross_entropy`` and ``best_epoch``, by epoch.

    Notes
    -----
    Images are arrays (n, rows, columns) or (n, rows, columns, channels) of numbers in [0, 1], or bytes, which are
    divided by 255; captions are strings, or lists of tokens. A fitted system takes images of other sizes too. BLEU is
    counted on the tokens of `unit`, so that scores of words and of characters are not comparable, and on up to four
    tokens in a row, so that it is 0 where no caption has four: ``exact`` judges short strings better. A step of the
    decoder costs O(cells n_hidden) for attention. Source: Xu et al. (2015), Show, attend and tell; without attention
    Vinyals et al. (2015).

    Examples
    --------
    >>> X = np.zeros((4, 4, 4))
    >>> X[[0, 1], 0, 0] = X[[2, 3], 3, 3] = 1
    >>> y = ["top left", "top left", "bottom right", "bottom right"]
    >>> model = Captioner(channels=(4, 4), n_hidden=8, n_embedding=4, epochs=60, learning_rate=0.03, batch_size=4,
    ...                   early_stopping="off", random_state=0).fit(X, y)
    >>> model.caption(X[1:3])
    ['top left', 'bottom right']
    """

    name: ClassVar[str] = "captioner"
    tasks: ClassVar[tuple[str, ...]] = ("caption",)
    model_class: ClassVar[type] = CaptionModel
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"attention": AttentionRecipe}

    unit: Annotated[Literal["word", "char", "byte", "jieba"], Doc("What captions are cut into.")] = "word"
    channels: Annotated[
        tuple[Annotated[int, "[1, inf)"], ...],
        Doc("Maps of each stage of convolutions; each stage has half the resolution of the one before."),
    ] = (16, 32, 64)
    convolutions: Annotated[int, "[1, inf)", Doc("Convolutions of each stage.")] = 2
    batch_norm: Annotated[bool, Doc("Whether convolutions are normalized over the batch before their units.")] = True
    attention: Annotated[str | Recipe, Doc("How the decoder looks at the grid; see `gnomon.nn.attention`.")] = (
        "additive"
    )
    n_hidden: Annotated[int, "[1, inf)", Doc("Units of the recurrent layer, and width of the grid's vectors.")] = 64
    n_embedding: Annotated[int, "[1, inf)", Doc("Width of the tokens' embeddings.")] = 32
    teacher_forcing: Annotated[
        float,
        "[0, 1]",
        Doc("Fraction of the decoder's inputs in training that are the true tokens; the others are its own guesses."),
    ] = 1.0
    learning_rate: float = 3e-3
    schedule: str | Recipe = "cosine"

    @property
    def domain(self) -> Images:
        """Images of one size."""
        return Images()

    def known_domain(self) -> Images:
        return Images(tuple(self.arguments_["shape"]), any_size=True)

    def check_parameters(self) -> None:
        super().check_parameters()
        check_layer_sizes(self.channels, "channels", "give the maps of each stage, such as (16, 32, 64)")
        if not self.channels:
            raise UserValueError("channels must have at least one stage, got ()", "channels", "give (16, 32, 64), say")
        if self.batch_norm and self.batch_size == 1:
            what = "batch_size must be at least 2 for batch normalization, got 1"
            raise UserValueError(what, "batch_size", "give 2 or more")

    def min_batch_size(self) -> int:
        return 2 if self.batch_norm else 1

    # --- fit ----------------------------------------------------------------------------------------------------

    def ingest(self, X: Any, y: Any = None, sample_weight: Any = None) -> Examples:
        if needs_preparation(X):
            raise no_images("X")
        images = self._rows(X, reset=True)
        captions = Captions(self.unit, longest=self.longest).learn(y, len(images), self.min_count)
        tell_of_bytes(X)
        weight = row_weights(sample_weight, len(images), images.dtype)
        fields = {"X": images, "target": captions.ingest(y, len(images))}
        return Examples(fields, weight, {"target": captions.vocabulary})

    def ingest_validation(self, validation: Any, examples: Examples) -> Examples:
        if not isinstance(validation, tuple | list) or len(validation) != 2:
            raise UserTypeError("validation must be a pair (X, y)", "validation")
        self.arguments_ = self.arguments(examples)
        images = self._rows(validation[0])
        captions = Captions(self.unit, examples.shared["target"], self.longest)
        return Examples({"X": images, "target": captions.ingest(validation[1], len(images))}, shared=examples.shared)

    def arguments(self, examples: Examples) -> dict[str, Any]:
        return {
            "shape": [int(size) for size in examples.X.shape[1:]], "target_size": len(examples.shared["target"]),
            "longest_caption": int(_lengths(examples).max()), "dtype": str(examples.X.dtype),
        }  # fmt: skip

    def make(self, *, shape: Any, target_size: int, longest_caption: int, dtype: str) -> CaptionModel:
        return CaptionModel(
            shape[2], target_size, self.n_embedding, self.n_hidden, self.recipe("attention"), self.reset, self.dropout,
            getattr(torch, dtype), channels=tuple(self.channels), convolutions=self.convolutions,
            batch_norm=self.batch_norm,
        )  # fmt: skip

    def initialize(self, model: CaptionModel, examples: Examples, noise: contracts.Noise) -> None:
        model.target_vocabulary = examples.shared["target"]
        model.initialize(noise)
        shift, scale = channel_units(examples.X, examples.weight)
        model.grid.shift.copy_(torch.from_numpy(shift))
        model.grid.scale.copy_(torch.from_numpy(scale))

    def make_objective(self) -> TargetLoss:
        return TargetLoss(self.teacher_forcing)

    # --- verbs --------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> NDArray[np.str_]:
        """Captions of images, by a beam search of width 5."""
        return np.array(self.caption(X), np.str_)

    @checked
    def caption(
        self,
        X: Any,
        *,
        method: Literal["beam", "greedy", "sample"] = "beam",
        width: int = 5,
        length_penalty: float = 0.75,
        max_length: int | None = None,
        random_state: Any = None,
    ) -> list[str]:
        """Captions of images.

        Parameters
        ----------
        X : array of images
        method : {"beam", "greedy", "sample"}
        width, length_penalty
            Of the beam; see `gnomon.inference.decoding.beam.beam_search`.
        max_length : int, optional
            Tokens of a caption at most; where left out, twice those of the longest one of the fit.
        random_state : int, Generator, RandomState or None
            Two samples differ unless it is given.

        Returns
        -------
        list of str
        """
        images = self._pictures(X)
        decoder = self.model_.given
        return self._texts(images, decoder, method, width, length_penalty, max_length, random_state)

    def transcribe(self, X: Any) -> list[list[str]]:
        """The symbols that images show, in order: the tokens of their captions, by a beam search of width 5."""
        return [list(tokenize(one, self.unit)) for one in self.caption(X)]

    def log_prob(self, X: Any, y: Any = None) -> NDArray[np.float64]:
        """log P(caption | image) of each image in nats, ends included, shape (n,)."""
        images = self._pictures(X)
        values: NDArray[np.float64] = self.model_.log_likelihood(images, self._captions(y, len(images)))
        return values

    def alignment(self, X: Any, y: Any = None) -> list[NDArray[np.float64]]:
        """Where the decoder looked in each image when it wrote each token of its caption.

        Parameters
        ----------
        X : array of images
        y : list of captions, optional
            The system's own, `caption`, where left out.

        Returns
        -------
        list of arrays (tokens + 1, rows, columns) of grids
            Each adds up to 1 over its cells, of ``model_.grid.stride`` pixels either way; the last is that of the end.

        Raises
        ------
        UserValueError
            A model without attention.
        """
        images = self._pictures(X)
        captions = self._captions(self.caption(X) if y is None else y, len(images), empty=True)
        cells = self.model_.grid.cells(*images.values.shape[1:3])
        found: list[NDArray[np.float64]] = []
        most = self.model_.together(images)
        for begin in range(0, len(images), most):
            here = slice(begin, begin + most)
            found += self.model_.align(images.take(here), captions.take(here))
        return [one.reshape(-1, *cells) for one in found]

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Log likelihood per token, ends included, BLEU on the tokens of `unit`, and the fraction exactly right.

        Standard errors are over images. Captions are those of `predict`.
        """
        images = self._pictures(X)
        texts = Captions(self.unit, longest=self.longest).check(y, len(images))
        written = self.caption(X)
        likelihood = {"log_likelihood": self._likelihood(images, self._captions(y, len(images)))}
        return likelihood | translation_scores(written, [detokenize(one, self.unit) for one in texts], self.unit)

    def score(self, X: Any, y: Any = None) -> float:
        """Log likelihood per token in nats."""
        images = self._pictures(X)
        return float(self._likelihood(images, self._captions(y, len(images))).value)

    def _likelihood(self, images: Pictures, captions: Ragged) -> Score:
        counts = captions.lengths + 1
        values = self.model_.log_likelihood(images, captions) / counts
        space = f"{plural(self.unit)} given an image, vocabulary of {len(self.target_vocabulary_)}"
        return Score.from_pointwise(values, weight=counts, unit="nats per token", data_space=space)

    def _limits(self, sources: Any) -> NDArray[np.int64]:
        return np.full(len(sources), 2 * self.arguments_["longest_caption"] + 2)

    def _pictures(self, X: Any) -> Pictures:
        images = self._rows(X)
        return Pictures(images, math.prod(self.model_.grid.cells(*images.shape[1:3])))

    def _captions(self, y: Any, n: int, *, empty: bool = False) -> Ragged:
        return Captions(self.unit, self.target_vocabulary_, self.longest).ingest(y, n, empty=empty)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _lengths(examples: Examples) -> NDArray[np.int64]:
    captions = examples["target"]
    assert isinstance(captions, Ragged)
    return captions.lengths
