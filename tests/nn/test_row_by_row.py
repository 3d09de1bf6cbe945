"""A batch is its rows: outputs, last states and gradients of every layer of the room."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import gnomon.nn
from gnomon.data.image_steps import PixelMean
from gnomon.nn.activations import Activation, ReLU
from gnomon.nn.attention import AdditiveScore, Attention, BilinearScore, DotScore, GaussianScore
from gnomon.nn.attention_masks import Causal
from gnomon.nn.batch_norm import BatchNorm
from gnomon.nn.context import ContextLayer, training
from gnomon.nn.convolution import Conv1d, Conv2d, _LastConv
from gnomon.nn.dropout import Dropout, StochasticDepth, WordDropout
from gnomon.nn.embedding import Embedding, TiedHead
from gnomon.nn.encoders import ConvDecoder, ConvEncoder, DenseDecoder, DenseEncoder
from gnomon.nn.gates import SqueezeExcitation
from gnomon.nn.glimpses import GaussianAttention, Glimpse, WithoutAttention
from gnomon.nn.grids import ImageGrid
from gnomon.nn.halves import Halves, JoinedHalves
from gnomon.nn.image_steps import ImageStepLayer, LCNLayer
from gnomon.nn.inception import Widths, inception
from gnomon.nn.layers import PHM, dense
from gnomon.nn.likelihoods import BernoulliLikelihood, CategoricalLikelihood, GaussianLikelihood, Head
from gnomon.nn.masked import masked
from gnomon.nn.mixed import MixedLikelihood
from gnomon.nn.mixture_density import MixtureLikelihood
from gnomon.nn.mlp import MLPModel
from gnomon.nn.module import Module
from gnomon.nn.multiplicative import MultiplicativeRNN
from gnomon.nn.norms import GroupNorm, LayerNorm, local_response
from gnomon.nn.pooling import AdaptivePool, AveragePooling, GlobalPool, MaxPooling, SpatialPyramid, StochasticPool2d
from gnomon.nn.positions import LearnedPlaces, Places, RelativePlaces, RotaryPlaces, SinusoidalPlaces
from gnomon.nn.readers import ConvolutionReader
from gnomon.nn.recurrent import GRU, LSTM, RNN, Bidirectional, DelayedGRU, Recurrent
from gnomon.nn.residual import bottleneck_block
from gnomon.nn.separable import SeparableConv2d
from gnomon.nn.shuffle import shuffle_unit
from gnomon.nn.stacked import ScalarMix, Stacked
from gnomon.nn.stages import DenseBlock
from gnomon.nn.text_encoder import ReplacedHead, TextEncoder, TokenHead
from gnomon.nn.transformer import DecoderLayer, EncoderLayer, MultiHeadAttention, _Layer
from gnomon.nn.unshared import LocallyConnected2d, PlacedKernels, TiledConv2d
from gnomon.nn.upsampling import Unpool2d, transposed_convolution
from gnomon.numeric.noise import Noise
from gnomon.recipes.recipe import named, shorts

F64, N = torch.float64, 5
BASES = {Attention, ContextLayer, Glimpse, Head, Module, PlacedKernels, Recurrent, _LastConv, _Layer}


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


class Density(nn.Module):
    """The log density of a likelihood, as a layer of the decoder's answer and the rows."""

    def __init__(self, recipe: Any) -> None:
        super().__init__()
        self.head = recipe.build(4, F64)

    def forward(self, raw: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        density: torch.Tensor = self.head.log_prob(raw, x)
        return density


class Looks(nn.Module):
    """What a glimpse reads and writes, as a layer of images, errors and states."""

    def __init__(self, recipe: Any) -> None:
        super().__init__()
        self.glimpse = recipe.build((4, 5, 2), 1, 2, 6, F64)

    def forward(self, x: torch.Tensor, error: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.glimpse.read(x, error, state), self.glimpse.write(state)


class Mixes(nn.Module):
    """A mean of two layers, as a layer of one."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = ScalarMix(2, dtype=F64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed: torch.Tensor = self.mix([x, x.square()])
        return mixed


class Scores(nn.Module):
    """The outputs of a perceptron, as a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.network = MLPModel(6, 3, (5, 4), ReLU(), 0.3, True, F64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.network.scores(x)


class Attends(nn.Module):
    """Causal attention of two heads that know places, of embeddings with places added."""

    def __init__(self, places: Places) -> None:
        super().__init__()
        self.places, self.layer = places, MultiHeadAttention(4, 2, dropout=0.2, places=places, dtype=F64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(self.places(x), mask=Causal())


def in_halves() -> nn.Module:
    """Two convolutions of half of the channels, and what joins them."""
    halves = [SeparableConv2d(1, 2, 3, padding=1, dtype=F64) for _ in range(2)]
    return nn.Sequential(Halves(*halves, (torch.device("cpu"),) * 2), JoinedHalves())


IDS, LENGTHS = torch.from_numpy(np.random.default_rng(1).integers(0, 6, (N, 4))), torch.tensor([6, 1, 0, 4, 6])
MASK = torch.arange(7) < torch.tensor([7, 1, 3, 0, 5])[:, None]
MIXED = torch.column_stack([normal(N, 1), IDS[:, 1] % 2, IDS[:, 2] % 3, normal(N, 1, seed=1)])
ROWS, IMAGES = normal(N, 6), normal(N, 2, 6, 8)
SEQUENCE, STATES = (normal(N, 6, 3), None, LENGTHS), (normal(N, 2, 4), normal(N, 7, 4), normal(N, 7, 3), MASK)
CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "dense": (lambda: dense(6, 4, dtype=F64), (ROWS,)), "phm": (lambda: PHM(6, 4, 2, dtype=F64), (ROWS,)),
    "masked": (lambda: masked(6, 4, dtype=F64), (ROWS,)),
    "tied head": (lambda: TiedHead(Embedding.from_pretrained(normal(5, 6).numpy()), 1), (ROWS,)),
    "text encoder": (
        lambda: TextEncoder(6, 4, [EncoderLayer(4, 2, 5, nn.ReLU(), dtype=F64)], LearnedPlaces(9, 4, dtype=F64),
                            dropout=0.1, dtype=F64),
        (IDS,),
    ),
    "replaced head": (lambda: ReplacedHead(6, nn.GELU(), dtype=F64), (ROWS,)),
    "token head": (
        lambda: TokenHead(6, Embedding.from_pretrained(normal(5, 4).numpy()), nn.GELU(), dtype=F64), (ROWS,)
    ),
    "embedding": (lambda: Embedding(6, 3, padding=0, dtype=F64), (IDS,)),
    "word dropout": (lambda: WordDropout(0.5), (IDS,)),
    "perceptron": (Scores, (ROWS,)),
    "dropout": (lambda: Dropout(0.5), (ROWS,)), "batch norm": (lambda: BatchNorm(6, dtype=F64), (ROWS,)),
    "batch norm of images": (lambda: BatchNorm(2, dtype=F64), (IMAGES,)),
    "local contrast": (lambda: LCNLayer(3), (IMAGES,)),
    "mean image": (lambda: ImageStepLayer(PixelMean(), (6, 8, 2), F64), (IMAGES.movedim(1, -1),)),
    "grid of vectors": (lambda: ImageGrid(2, 3, channels=(2, 4), dtype=F64), (IMAGES.movedim(1, -1),)),
    "halves": (in_halves, (IMAGES,)),
    "group norm": (lambda: GroupNorm(6, 2, dtype=F64), (ROWS,)),
    "instance norm": (lambda: GroupNorm(2, 2, dtype=F64), (IMAGES,)),
    "layer norm of images": (lambda: LayerNorm((2, 6, 8), dtype=F64), (IMAGES,)),
    "layer norm over steps": (lambda: LayerNorm(4, steps=True, dtype=F64), STATES[1::2]),
    "local response": (lambda: local_response(3), (IMAGES,)),
    "tiled": (lambda: TiledConv2d(2, 3, 3, 2, stride=2, padding=1, dtype=F64), (IMAGES,)),
    "locally connected": (lambda: LocallyConnected2d(2, 3, 3, (6, 8), padding=1, dtype=F64), (IMAGES,)),
    "regions": (lambda: AdaptivePool((4, 3)), (IMAGES,)),
    "pyramid": (SpatialPyramid, (IMAGES,)),
    "residual": (lambda: bottleneck_block(2, 4, unit=ReLU(), inner=2, drop=0.5, dtype=F64), (IMAGES,)),
    "shuffle": (lambda: shuffle_unit(2, 8, unit=ReLU(), groups=2, stride=2, dtype=F64), (IMAGES,)),
    "separable": (lambda: SeparableConv2d(2, 3, 3, multiplier=2, dtype=F64), (IMAGES,)),
    "channel attention": (lambda: SqueezeExcitation(2, 1, dtype=F64), (IMAGES,)),
    "inception": (lambda: inception(2, Widths(1, (1, 2), (1, 2), 1), unit=ReLU(), norm=True, dtype=F64), (IMAGES,)),
    "dense block": (lambda: DenseBlock(2, 2, 2, unit=ReLU(), bottleneck=2, dtype=F64), (IMAGES,)),
    "stochastic depth": (lambda: StochasticDepth(0.5), (IMAGES,)),
    "conv1d": (lambda: Conv1d(3, 4, 3, padding="causal", dtype=F64), (normal(N, 9, 3),)),
    "conv2d": (lambda: Conv2d(2, 4, 3, groups=2, stride=2, padding=1, dtype=F64), (normal(N, 6, 8, 2),)),
    "transposed": (lambda: transposed_convolution(2, 3, 4, stride=2, padding=1, dtype=F64), (IMAGES,)),
    "max pooling": (lambda: MaxPooling().build(2), (IMAGES,)),
    "average pooling": (lambda: AveragePooling().build(3, 2, 1), (IMAGES,)),
    "stochastic pooling": (lambda: StochasticPool2d(3, 2, 1), (IMAGES.abs(),)),
    "global average": (GlobalPool, (IMAGES,)), "global max": (lambda: GlobalPool("max"), (IMAGES,)),
    "unpooling": (lambda: Unpool2d(2), (IMAGES,)),
    "rnn": (lambda: RNN(3, 4, dtype=F64), SEQUENCE), "gru": (lambda: GRU(3, 4, dtype=F64), SEQUENCE),
    "gru, reset before": (lambda: GRU(3, 4, reset="before", dtype=F64), SEQUENCE),
    "lstm": (lambda: LSTM(3, 4, dtype=F64), SEQUENCE),
    "multiplicative": (lambda: MultiplicativeRNN(3, 4, 5, dtype=F64), SEQUENCE),
    "stacked": (lambda: Stacked([LSTM(3, 4, dtype=F64), GRU(4, 4, dtype=F64)], dropout=0.2), SEQUENCE),
    "scalar mix": (lambda: Mixes(), STATES[1:2]),
    "delayed gru": (lambda: DelayedGRU(3, 4, dtype=F64), SEQUENCE),
    "bidirectional": (lambda: Bidirectional(GRU(3, 4, dtype=F64), RNN(3, 2, dtype=F64)), SEQUENCE),
    "sequence convolution": (lambda: ConvolutionReader(2, 3, "max").build(3, 4, dtype=F64), SEQUENCE),
    "dot": (lambda: DotScore(scaled=True), STATES), "bilinear": (lambda: BilinearScore(4, 4, dtype=F64), STATES),
    "additive": (lambda: AdditiveScore(4, 4, 5, dtype=F64), STATES),
    "gaussian score": (lambda: GaussianScore(0.5), STATES),
    "no positions": (lambda: Attends(Places()), STATES[1:2]),
    "sinusoidal": (lambda: Attends(SinusoidalPlaces(9, 4, dtype=F64)), STATES[1:2]),
    "learned positions": (lambda: Attends(LearnedPlaces(9, 4, dtype=F64)), STATES[1:2]),
    "rotary": (lambda: Attends(RotaryPlaces(2, dtype=F64)), STATES[1:2]),
    "relative": (lambda: Attends(RelativePlaces(2, 3, dtype=F64)), STATES[1:2]),
    "encoder layer": (lambda: EncoderLayer(4, 2, 5, nn.ReLU(), norm_first=True, dropout=0.1, dtype=F64), STATES[1:2]),
    "decoder layer": (lambda: DecoderLayer(4, 2, 5, nn.ReLU(), dropout=0.1, dtype=F64), STATES[:2]),
    "dense encoder": (lambda: DenseEncoder((5,), batch_norm=True, dropout=0.3).build(6, 3, None, F64), (ROWS,)),
    "dense decoder": (lambda: DenseDecoder((5,)).build(6, 3, None, F64), (ROWS,)),
    "conv encoder": (lambda: ConvEncoder((3, 4), dropout=0.3).build(96, 3, (6, 8, 2), F64), (normal(N, 96),)),
    "conv decoder": (lambda: ConvDecoder((4, 3)).build(6, 96, (6, 8, 2), F64), (ROWS,)),
    "conv decoder, unpooling": (lambda: ConvDecoder((4, 3), "unpool").build(6, 96, (6, 8, 2), F64), (ROWS,)),
    "windows": (lambda: Looks(GaussianAttention(3, 2)), (normal(N, 40), normal(N, 40, seed=1), ROWS)),
    "whole images": (lambda: Looks(WithoutAttention()), (normal(N, 40), normal(N, 40, seed=1), ROWS)),
    "bernoulli": (lambda: Density(BernoulliLikelihood()), (normal(N, 4), (normal(N, 4, seed=1) > 0).double())),
    "categories": (lambda: Density(CategoricalLikelihood(6)), (normal(N, 24), IDS.double())),
    "gaussian": (lambda: Density(GaussianLikelihood()), (normal(N, 4), normal(N, 4, seed=1))),
    "mixture": (lambda: Density(MixtureLikelihood(2)), (normal(N, 24), normal(N, 4, seed=1))),
    "mixed": (lambda: Density(MixedLikelihood((0, 2, 3, 0))), (normal(N, 12), MIXED)),
    "gaussian, network": (lambda: Density(GaussianLikelihood("network")), (normal(N, 8), normal(N, 4, seed=1))),
} | {
    short: (lambda short=short: named(Activation, short)().build(6, F64), (ROWS,)) for short in shorts(Activation)
}  # fmt: skip


def made(name: str) -> nn.Module:
    """The layer with random weights and statistics."""
    layer: nn.Module = CASES[name][0]()
    with torch.no_grad():
        for i, (called, value) in enumerate([*layer.named_parameters(), *layer.named_buffers()]):
            drawn = normal(*value.shape, seed=40 + i)
            value.copy_(drawn.exp() if called.endswith("running_var") else drawn)
    return layer


def answers(layer: nn.Module, inputs: tuple[Any, ...]) -> list[torch.Tensor]:
    found = layer(*inputs)
    return list(found) if isinstance(found, tuple) else [found]


def row(inputs: tuple[Any, ...], i: int) -> tuple[Any, ...]:
    return tuple(None if one is None else one[i : i + 1] for one in inputs)


@pytest.mark.spec("NLP-17")
@pytest.mark.parametrize("name", CASES)
def test_a_batch_is_its_rows(name: str) -> None:
    """Outputs row by row; and gradients of the weights are sums over the rows."""
    layer, inputs = made(name), CASES[name][1]
    whole = answers(layer, inputs)
    rows = [answers(layer, row(inputs, i)) for i in range(N)]
    together = [torch.cat(parts) for parts in zip(*rows, strict=True)]
    weights = [p for p in layer.parameters() if p.requires_grad]
    for one, other in zip(whole, together, strict=True):
        assert one.shape == other.shape and len(one) == N
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    if not weights:
        return
    factors = [normal(*one.shape, seed=3) for one in whole]
    slopes = [
        torch.autograd.grad(sum((f * y).sum() for f, y in zip(factors, found, strict=True)), weights, allow_unused=True)
        for found in (whole, together)
    ]
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-12)


@pytest.mark.spec("NLP-17")
def test_batch_normalization_mixes_the_rows_in_training_alone() -> None:
    layer = made("batch norm")
    with training(Noise(0, "fit")):
        whole = layer(ROWS)
    with training(Noise(0, "fit")):
        two = layer(ROWS[:2])
    assert not torch.allclose(whole[:2], two, atol=1e-3)


def kinds(base: type = nn.Module) -> Iterator[type]:
    for one in base.__subclasses__():
        yield one
        yield from kinds(one)


@pytest.mark.spec("NLP-17")
def test_every_layer_of_the_room_is_tried() -> None:
    for module in pkgutil.iter_modules(gnomon.nn.__path__):
        importlib.import_module(f"gnomon.nn.{module.name}")
    room = {one for one in kinds() if one.__module__.startswith("gnomon.nn.")} - BASES
    assert room == {type(part) for name in CASES for part in made(name).modules()} & room
