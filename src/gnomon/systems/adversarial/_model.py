"""The model of an adversarial system: a generator of rows, the critic it learned from, and noise put on its output."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from gnomon.contracts import Noise
from gnomon.distributions.table import Categorical
from gnomon.nn.module import Module

__all__ = ["GANModel", "NoisyGenerator"]


class LabelVectors(nn.Module):
    """A learned vector for each class, beside the columns of rows, or a learned map as one more channel of images.

    Parameters
    ----------
    n_classes, width : int
    shape : (rows, columns, channels), optional
        Of the images; `width` is then rows * columns.
    dtype : torch.dtype
    """

    def __init__(self, n_classes: int, width: int, shape: tuple[int, int, int] | None, dtype: torch.dtype) -> None:
        super().__init__()
        self.shape = shape
        self.vectors = nn.Parameter(torch.zeros(n_classes, width, dtype=dtype))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The rows with what stands for their classes."""
        vectors = self.vectors[y]
        if self.shape is None:
            return torch.cat([x, vectors], 1)
        rows, columns, channels = self.shape
        images = x.reshape(len(x), rows, columns, channels)
        return torch.cat([images, vectors.reshape(len(x), rows, columns, 1)], 3).reshape(len(x), -1)


class Player(nn.Module):
    """A network and, where rows have classes, what it is told of them.

    Parameters
    ----------
    network : nn.Module
    labels : LabelVectors or None
    """

    def __init__(self, network: nn.Module, labels: LabelVectors | None = None) -> None:
        super().__init__()
        self.network, self.labels = network, labels

    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
        """The network's answer to rows and their classes."""
        out: torch.Tensor = self.network(x if self.labels is None else self.labels(x, y))
        return out


class GANModel(Module):
    r"""x = shift + scale * g(z) with z of a fixed distribution, and a critic that sees (x - shift) / scale.

    Where rows have classes y it is g(z, y), a network with noise inputs, and the critic sees y too.

    Parameters
    ----------
    n_features, n_latent : int
    generator : Player
        From (n, n_latent) to (n, n_features).
    critic : Player
        From (n, n_features) to (n, 1), logits.
    bounded : bool
        Whether g ends in a hyperbolic tangent, so that rows stay within shift +- scale.
    distribution : {"normal", "uniform"}
        Of the numbers z: standard normal, or uniform on (0, 1).
    n_classes : int or None
        Where rows have classes; ``shares`` are theirs then, which draws of y follow.
    dtype : torch.dtype
    """

    shift: torch.Tensor
    scale: torch.Tensor
    shares: torch.Tensor

    def __init__(
        self, n_features: int, n_latent: int, generator: Player, critic: Player, *, bounded: bool, distribution: str,
        n_classes: int | None, dtype: torch.dtype,
    ) -> None:  # fmt: skip
        super().__init__()
        self.n_latent, self.bounded, self.distribution = n_latent, bounded, distribution
        self.generator, self.critic = generator, critic
        self.register_buffer("shift", torch.zeros(n_features, dtype=dtype))
        self.register_buffer("scale", torch.ones(n_features, dtype=dtype))
        if n_classes is not None:
            self.register_buffer("shares", torch.full((n_classes,), 1 / n_classes, dtype=torch.float64))

    @property
    def conditional(self) -> bool:
        """Whether rows have classes."""
        return self.generator.labels is not None

    def scaled(self, x: torch.Tensor) -> torch.Tensor:
        """Rows in the generator's units."""
        return (x - self.shift) / self.scale

    def rows(self, g: torch.Tensor) -> torch.Tensor:
        """What the generator answered, in the data's units."""
        return g * self.scale + self.shift

    def make(self, z: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
        """g(z), (n, n_features), in the generator's units."""
        out: torch.Tensor = self.generator(z, y)
        return out.tanh() if self.bounded else out

    def draw(self, n: int, noise: Noise, y: torch.Tensor | None = None) -> torch.Tensor:
        """g(z) of n draws of z."""
        return self.make(self.sample_prior(n, noise), y)

    def judge(self, x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
        """The critic's logits, (n,), of rows in the generator's units."""
        out: torch.Tensor = self.critic(x, y)
        return out[:, 0]

    def sample_prior(self, n: int, noise: Noise) -> torch.Tensor:
        """n draws of z."""
        draw = noise.normal if self.distribution == "normal" else noise.uniform
        z: torch.Tensor = draw((n, self.n_latent), like=self.shift)
        return z

    def log_prior(self, z: torch.Tensor) -> torch.Tensor:
        """Log density of codes that were drawn, shape (n,)."""
        if self.distribution == "uniform":
            return z.new_zeros(len(z))
        return -0.5 * (z.square() + math.log(2 * math.pi)).sum(1)

    def sample_classes(self, n: int, noise: Noise) -> torch.Tensor:
        """n draws of y, by the classes' shares in the training rows."""
        y: torch.Tensor = Categorical(self.shares.log()).sample(noise, 0, (n,))
        return y

    def decode(self, z: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
        """Rows of codes."""
        return self.rows(self.make(z, y))

    def logits(self, x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
        """The critic's logits of rows in the data's units."""
        return self.judge(self.scaled(x), y)

    def sample(self, n: int, noise: Noise, y: torch.Tensor | None = None) -> Any:
        """n rows, a NumPy array."""
        with torch.no_grad():
            return self.rows(self.draw(n, noise.child("latent"), y)).cpu().numpy()

    def with_noise(self, deviation: float) -> NoisyGenerator:
        """The density that Gaussian noise on the output gives."""
        return NoisyGenerator(self, deviation)


class NoisyGenerator:
    r"""x = g(z) + deviation * e with e standard normal: :math:`p(x) = E_z N(x; g(z), deviation^2 I)`, a density.

    Of a generator's rows alone almost none has a density; with noise every point has one. As the deviation goes to 0,
    the density of whatever the generator does not make goes to 0 too.

    Parameters
    ----------
    model : GANModel
        Without classes.
    deviation : float in (0, inf)
        Standard deviation, in the units of the data.
    """

    def __init__(self, model: GANModel, deviation: float) -> None:
        self.model, self.deviation = model, deviation

    def log_joint(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Log p(x, z) in nats, shape (n,)."""
        squares = ((x - self.model.decode(z)) / self.deviation).square().sum(1)
        constant = x.shape[1] * (math.log(2 * math.pi) + 2 * math.log(self.deviation))
        return -0.5 * (squares + constant) + self.model.log_prior(z)

    def sample_prior(self, n: int, noise: Noise) -> torch.Tensor:
        """n draws of z."""
        return self.model.sample_prior(n, noise)

    def infer(self, x: torch.Tensor, noise: Noise) -> tuple[torch.Tensor, torch.Tensor]:
        """A draw of p(z) for each row, and its log density: there is no encoder."""
        z = self.sample_prior(len(x), noise)
        return z, self.model.log_prior(z)

    def sample(self, n: int, noise: Noise) -> Any:
        """n rows, a NumPy array."""
        with torch.no_grad():
            rows = self.model.decode(self.sample_prior(n, noise.child("latent")))
            return (rows + self.deviation * noise.child("row").normal(tuple(rows.shape), like=rows)).cpu().numpy()
