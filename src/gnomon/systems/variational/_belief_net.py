"""The model of sigmoid belief nets: binary layers drawn from the top down, and a way up that guesses them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from sklearn.utils.metaestimators import available_if
from torch import nn
from torch.nn import functional

from gnomon.contracts import Noise
from gnomon.distributions.linked import InLayer, LinkedBits
from gnomon.distributions.posteriors import BitStates
from gnomon.errors import UserTypeError
from gnomon.inference.variational.sigmoid_bound import UnitField, mean_field_of_sigmoids
from gnomon.nn.layers import dense
from gnomon.nn.module import Module
from gnomon.numeric.tensors import is_tensor
from gnomon.systems.variational._belief_sums import LayerSums, summable

__all__ = ["BeliefNetModel", "LayeredCodes"]


class LayeredCodes:
    r"""q(h | x) = q(h_1 | x) q(h_2 | h_1) ... of n rows; k draws of it are n * k rows, those of a row side by side.

    Parameters
    ----------
    model : BeliefNetModel
    first : tensor of shape (n, units of the lowest hidden layer)
        Log odds of the lowest layer.
    """

    reparametrized = False

    def __init__(self, model: BeliefNetModel, first: torch.Tensor) -> None:
        self.model, self.first = model, first

    def _layer(self, k: int, below: torch.Tensor) -> LinkedBits:
        """q of hidden layer k given the log odds of the first one, or the states of the layer below."""
        model = self.model
        logits = below if k == 1 else model.upper[k - 2](below)
        return LinkedBits(logits, model.links_up(k))

    def sample(self, noise: Noise, draw: int = 0, *, draws: int = 1) -> torch.Tensor:
        """Draws without gradient, shape (n * draws, units of all hidden layers)."""
        with torch.no_grad():
            below, found = self.first.repeat_interleave(draws, 0) if draws > 1 else self.first, []
            for k in range(1, self.model.depth + 1):
                below = self._layer(k, below).sample(noise.child(f"layer_{k}"), draw, draws=draws)
                found.append(below)
        return torch.cat(found, 1)

    def _given(self, z: torch.Tensor) -> list[tuple[LinkedBits, torch.Tensor]]:
        """q of each layer given the one below it, from the lowest up, and the layer itself."""
        below = self.first.repeat_interleave(len(z) // len(self.first), 0)
        found = []
        for k, layer in enumerate(self.model.layers(z), 1):
            found.append((self._layer(k, below), layer))
            below = layer
        return found

    def log_probs(self, z: torch.Tensor) -> list[torch.Tensor]:
        """log q of each layer given the one below it in nats, from the lowest up, each of shape (len(z),)."""
        return [bits.log_prob(layer) for bits, layer in self._given(z)]

    def scores(self, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Log odds of all units given those that they hang on, and derivatives of log q by them, (n, draws, units)."""
        field = torch.cat([bits.fields(layer) for bits, layer in self._given(z)], 1)
        shape = (len(self.first), -1, z.shape[1])
        return field.reshape(shape), (z - field.sigmoid()).detach().reshape(shape)

    def log_prob(self, z: torch.Tensor) -> torch.Tensor:
        """Log q(h | x) of each draw in nats, shape (len(z),)."""
        return torch.stack(self.log_probs(z)).sum(0)

    @property
    def mean(self) -> torch.Tensor:
        """Means of all hidden layers side by side; above the lowest each from the means below, an approximation."""
        below, found = self.first, []
        for k in range(1, self.model.depth + 1):
            bits = self._layer(k, below)
            below = _pass_through(bits)
            found.append(below)
        return torch.cat(found, 1)

    def entropy(self) -> torch.Tensor:
        """Entropy of each row in nats: of one layer of independent units.

        Raises
        ------
        UserTypeError
            Units that depend on each other.
        """
        _refuse_links("the entropy", self.model.depth > 1 or self.model.links_up(1) is not None)
        return (functional.softplus(self.first) - self.first * self.first.sigmoid()).sum(1)


def _pass_through(bits: LinkedBits) -> torch.Tensor:
    """Means of independent units; of linked ones each from the means of those before it."""
    if bits.links is None:
        return bits.logits.sigmoid()
    means: list[torch.Tensor] = []
    for j in range(bits.logits.shape[1]):
        field = bits.logits[:, j] + (torch.stack(means, 1) @ bits.links[j, :j] if means else 0.0)
        means.append(field.sigmoid())
    return torch.stack(means, 1)


def _refuse_links(what: str, linked: bool) -> None:
    if linked:
        raise UserTypeError(
            f"{what} of units that depend on each other has no closed form", "objective__form", "use monte-carlo"
        )


class BeliefNetModel(Module):
    r"""p(x, h) = p(h_L) p(h_{L-1} | h_L) ... p(x | h_1) of binary layers, and q(h | x) of a way up.

    Unit i of layer k is 1 with probability :math:`\sigma(b_{ki} + \sum_j W_{kij} h_{k+1,j} + \sum_{j<i} U_{kij}
    h_{kj})`, where U stands for links within the layer. Latent variables are one tensor, the layers side by side.

    Parameters
    ----------
    sizes : sequence of int
        Columns of a row, then units of the hidden layers from the lowest up. Without hidden layers the rows are the
        top, and there is no encoder.
    encoder : nn.Module or None
        From (n, sizes[0]) to log odds of the lowest hidden layer, (n, sizes[1]).
    layers, recognition : InLayer
        How units of a layer depend on each other, in the way down and in the way up.
    dtype : torch.dtype
    """

    def __init__(
        self, sizes: Sequence[int], encoder: nn.Module | None, layers: InLayer, recognition: InLayer,
        dtype: torch.dtype,
    ) -> None:  # fmt: skip
        super().__init__()
        self.sizes, self.depth = tuple(sizes), len(sizes) - 1
        self.weights = nn.ParameterList(
            nn.Parameter(torch.zeros(below, above, dtype=dtype)) for below, above in itertools.pairwise(sizes)
        )
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(size, dtype=dtype)) for size in sizes)
        self.down_links = _some({str(k): layers.build(size, dtype) for k, size in enumerate(sizes)})
        self.encoder = encoder
        self.upper = nn.ModuleList(dense(below, above, dtype=dtype) for below, above in itertools.pairwise(sizes[1:]))
        self.up_links = _some({str(k): recognition.build(size, dtype) for k, size in enumerate(sizes) if k})

    # --- parameters -------------------------------------------------------------------------------------------------

    def generative(self) -> list[nn.Parameter]:
        """Parameters of p(x, h)."""
        return [*self.weights, *self.biases, *self.down_links.parameters()]

    def recognition(self) -> list[nn.Parameter]:
        """Parameters of q(h | x)."""
        own = [] if self.encoder is None else [*self.encoder.parameters()]
        return [*own, *self.upper.parameters(), *self.up_links.parameters()]

    def links_up(self, k: int) -> torch.Tensor | None:
        """U of hidden layer k in the way up."""
        return self.up_links[str(k)]() if str(k) in self.up_links else None

    def links_down(self, k: int) -> torch.Tensor | None:
        """U of layer k in the way down."""
        return self.down_links[str(k)]() if str(k) in self.down_links else None

    def begin(self, mean: Any) -> None:
        """Give the rows' biases the log odds of these means."""
        odds = torch.as_tensor(mean).logit().to(self.biases[0])
        with torch.no_grad():
            self.biases[0].copy_(odds)

    # --- the way down -----------------------------------------------------------------------------------------------

    def layers(self, z: torch.Tensor) -> list[torch.Tensor]:
        """The hidden layers from the lowest up, of their units side by side."""
        return list(torch.split(z, list(self.sizes[1:]), 1)) if self.depth else []

    def given(self, k: int, above: torch.Tensor) -> LinkedBits:
        """p of layer k given states of the one above it; layer 0 is the row."""
        return LinkedBits(torch.addmm(self.biases[k], above, self.weights[k].T), self.links_down(k))

    def top(self, n: int) -> LinkedBits:
        """p of the topmost layer, n times."""
        return LinkedBits(self.biases[-1].expand(n, -1), self.links_down(self.depth))

    def log_probs(self, x: torch.Tensor, z: torch.Tensor) -> list[torch.Tensor]:
        """log p of each layer given the one above it in nats, from the row up, each of shape (n,)."""
        found = [x, *self.layers(z)]
        below = [self.given(k, above).log_prob(found[k]) for k, above in enumerate(found[1:])]
        return [*below, self.top(len(x)).log_prob(found[-1])]

    def log_joint(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Log p(x, h) in nats, shape (n,)."""
        return torch.stack(self.log_probs(x, z)).sum(0)

    def log_likelihood(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Log p(x | h) in nats, shape (n,)."""
        return self.rows_given(z).log_prob(x)

    def log_prior(self, z: torch.Tensor) -> torch.Tensor:
        """Log p(h) in nats, shape (n,)."""
        layers = self.layers(z)
        below = [self.given(k, above).log_prob(layers[k - 1]) for k, above in enumerate(layers[1:], 1)]
        return torch.stack([*below, self.top(len(z)).log_prob(layers[-1])]).sum(0)

    def rows_given(self, z: torch.Tensor) -> LinkedBits:
        """p(x | h)."""
        return self.given(0, z[:, : self.sizes[1]])

    def sample_prior(self, n: int, noise: Noise) -> torch.Tensor:
        """n draws of all hidden layers, in one pass from the top down."""
        with torch.no_grad():
            found = [self.top(n).sample(noise.child(f"layer_{self.depth}"))]
            for k in range(self.depth - 1, 0, -1):
                found.insert(0, self.given(k, found[0]).sample(noise.child(f"layer_{k}")))
            return torch.cat(found, 1)

    def dream(self, n: int, noise: Noise) -> tuple[torch.Tensor, torch.Tensor]:
        """n draws of p(x, h): rows, and what they were drawn from."""
        with torch.no_grad():
            z = self.sample_prior(n, noise)
            return self.rows_given(z).sample(noise.child("row")), z

    def sample(self, n: int, noise: Noise) -> Any:
        """n rows, a NumPy array."""
        with torch.no_grad():
            if not self.depth:
                return self.top(n).sample(noise.child("row")).cpu().numpy()
            return self.dream(n, noise)[0].cpu().numpy()

    # --- the way up -------------------------------------------------------------------------------------------------

    def encode(self, x: torch.Tensor) -> LayeredCodes:
        """q(h | x) of each row."""
        assert self.encoder is not None
        return LayeredCodes(self, self.encoder(x))

    def infer(self, x: torch.Tensor, noise: Noise) -> tuple[torch.Tensor, torch.Tensor]:
        """A draw of q(h | x) for each row, and its log probability."""
        codes = self.encode(x)
        z = codes.sample(noise)
        return z, codes.log_prob(z)

    def latent_mean(self, x: torch.Tensor) -> torch.Tensor:
        """Means of the way up, shape (n, units of all hidden layers)."""
        return self.encode(x).mean

    def divergence(self, codes: LayeredCodes) -> torch.Tensor:
        """KL(q(h_j | x) || p(h_j)) in nats of each unit, (n, units): of one hidden layer of independent units.

        Raises
        ------
        UserTypeError
            Units that depend on each other.
        """
        linked = self.links_up(1) is not None or self.links_down(self.depth) is not None
        _refuse_links("the divergence", self.depth > 1 or linked)
        field, prior = codes.first, self.biases[-1]
        q = field.sigmoid()
        return q * (field - prior) - functional.softplus(field) + functional.softplus(prior)

    # --- mean field -------------------------------------------------------------------------------------------------

    def fields(self, x: torch.Tensor) -> list[UnitField]:
        """The units of each layer and what they hang on, from rows up; rows are observed."""
        ends = [0, *itertools.accumulate(self.sizes[1:])]
        found = []
        for k in range(self.depth + 1):
            links, offset = self.links_down(k), self.biases[k].expand(len(x), -1)
            own = slice(ends[k - 1], ends[k]) if k else slice(0, 0)
            weight = self.weights[k] if k < self.depth else offset.new_zeros(offset.shape[1], 0)
            above = ends[k + 1] if k < self.depth else ends[k]
            if not k:
                offset = offset if links is None else offset + x @ links.T
                found.append(UnitField(x, offset, weight, slice(0, above)))
            elif links is None:
                found.append(UnitField(own, offset, weight, slice(ends[k], above)))
            else:
                found.append(UnitField(own, offset, torch.cat([links, weight], 1), slice(own.start, above)))
        return found

    def mean_field(self, x: torch.Tensor, steps: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Means of independent hidden units fitted to each row, and their bound of log p(x), (n, units) and (n,)."""
        with torch.no_grad():
            start, fields = self.latent_mean(x), self.fields(x)
        found = mean_field_of_sigmoids(fields, start, steps=steps)
        return found.mean, found.bound

    # --- sums over all states ---------------------------------------------------------------------------------------

    @property
    def is_exact(self) -> bool:
        """Whether the hidden layers have few enough units to sum them out."""
        return summable(self.sizes)

    @available_if(lambda self: isinstance(self, type) or self.is_exact)
    def log_prob(self, x: Any) -> Any:
        """Exact log p(x) in nats, shape (n,); there only while the hidden layers can be summed out."""
        return LayerSums(self).log_prob(x) if is_tensor(x) else self.ask("log_prob", x)

    def exact_mean(self, x: torch.Tensor) -> torch.Tensor:
        """E[h | x] of all hidden layers side by side, by sums over all their states."""
        return LayerSums(self).mean(x)

    def exact_posterior(self, x: torch.Tensor) -> BitStates:
        """p(h | x) of all hidden layers side by side, by the probabilities of all their states."""
        return LayerSums(self).posterior(x)

    def exact_mode(self, x: torch.Tensor) -> torch.Tensor:
        """The most probable state of all hidden layers given each row."""
        return LayerSums(self).mode(x)


def _some(modules: dict[str, nn.Module | None]) -> nn.ModuleDict:
    return nn.ModuleDict({name: module for name, module in modules.items() if module is not None})
