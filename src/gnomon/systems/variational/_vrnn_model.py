"""The model of a variational recurrent network: a prior, an encoder and a decoder of every frame, and a memory."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn
from torch.func import functional_call

from gnomon.contracts import Noise
from gnomon.distributions.latents import LOG_VARIANCE, DiagonalGaussian
from gnomon.nn.likelihoods import Head
from gnomon.nn.module import Module
from gnomon.nn.recurrent import Recurrent

__all__ = ["FrameFactors", "SequenceCodes", "VRNNModel", "moments"]


class Frames(NamedTuple):
    """Sequences of a batch, as long as the longest of them.

    Attributes
    ----------
    values : tensor of shape (n, T, d)
        In the model's units; 0 behind the end of a sequence.
    inside : tensor of shape (n, T)
        1 where there is a frame, 0 behind the end.
    """

    values: torch.Tensor
    inside: torch.Tensor


class FrameFactors:
    r"""The factors of q and of the prior that each frame's z came from: N(mean, variance) each, given those before.

    Parameters
    ----------
    q, prior : tensors of shape (n, T, 2 k)
        Means, then log variances.
    inside : tensor of shape (n, T)
    """

    def __init__(self, q: torch.Tensor, prior: torch.Tensor, inside: torch.Tensor) -> None:
        self.q, self.prior, self.inside = (moments(q), moments(prior), inside)

    def log_prob(self, z: torch.Tensor) -> torch.Tensor:
        """log q(z | x) of frames (n, T, k) in nats, shape (n,)."""
        return (self.q.log_prob(z.flatten(0, 1)).reshape(self.inside.shape) * self.inside).sum(1)

    def entropy(self) -> torch.Tensor:
        """Entropies of the factors in nats, summed over the frames: (n,)."""
        return (self.q.entropy().reshape(self.inside.shape) * self.inside).sum(1)

    def divergences(self) -> torch.Tensor:
        """KL(q(z_tj | x_t, s_(t-1)) || p(z_tj | s_(t-1))) in nats, shape (n, T, k)."""
        narrower = self.q.log_variance - self.prior.log_variance
        apart = (self.q.mean - self.prior.mean).square() * (-self.prior.log_variance).exp()
        each = 0.5 * (torch.expm1(narrower) - narrower + apart)
        return each.reshape(*self.inside.shape, each.shape[1]) * self.inside[..., None]


def moments(raw: torch.Tensor) -> DiagonalGaussian:
    """Means and log variances of a network's answer (..., 2 k), as normal distributions of flat rows."""
    mean, log_variance = raw.flatten(0, -2).chunk(2, 1)
    return DiagonalGaussian(mean, log_variance.clamp(*LOG_VARIANCE))


class SequenceCodes:
    r"""q(z | x) = prod_t q(z_t | x_t, s_(t-1)) of n sequences: drawn in turn, since s_(t-1) is made of earlier draws.

    z is flat, (n, T k), its frames one after the other, whatever stands behind the end of a sequence.

    Parameters
    ----------
    model : VRNNModel
    x : tensor of shape (n, T d)
        NaN behind the end of a sequence.
    frozen : bool, default False
        Whether the parameters take no gradient.
    """

    reparametrized = True

    def __init__(self, model: VRNNModel, x: torch.Tensor, *, frozen: bool = False) -> None:
        self.model, self.x, self.frozen = model, x, frozen

    def detached(self) -> SequenceCodes:
        """The same distribution, whose parameters take no gradient."""
        return SequenceCodes(self.model, self.x, frozen=True)

    def rsample(self, noise: Noise, draw: int = 0, *, draws: int = 1) -> torch.Tensor:
        """Draws ``mean + sigma * e`` frame by frame, shape (n * draws, T k); gradients pass."""
        model, frames = self.model, self.model.frames(self.x)
        n, k, whole = len(self.x), model.n_latent, self.x.shape[1] // model.frame_size
        length = frames.inside.shape[1]
        e = noise.normal((n, length * draws * k), draw, like=self.x.detach())  # a frame's numbers are its own
        e = e.reshape(n, length, draws, k).transpose(1, 2).reshape(n * draws, length, k)
        inputs = model.inputs(frames.values).repeat_interleave(draws, 0)
        state, found = model.layer.initial(n * draws), []
        for t in range(length):
            q = moments(model.encoder(torch.cat([inputs[:, t], state], 1)))
            z = q.mean + (0.5 * q.log_variance).exp() * e[:, t]
            state = model.layer.step(torch.cat([inputs[:, t], z], 1), state)
            found.append(z)
        return nn.functional.pad(torch.stack(found, 1).flatten(1), (0, (whole - length) * k))

    def sample(self, noise: Noise, draw: int = 0, *, draws: int = 1) -> torch.Tensor:
        """The numbers of `rsample`, without gradient."""
        with torch.no_grad():
            return self.rsample(noise, draw, draws=draws)

    def given(self, z: torch.Tensor) -> FrameFactors:
        """The factors that each draw came from, z being (n * draws, T k)."""
        x = self.x.repeat_interleave(len(z) // max(len(self.x), 1), 0)
        if not self.frozen:
            return self.model.factors(x, z)
        held = {name: value.detach() for name, value in self.model.named_parameters()}
        found: FrameFactors = functional_call(self.model, held, (x, z))
        return found

    def log_prob(self, z: torch.Tensor) -> torch.Tensor:
        """log q(z | x) in nats of one or more draws of each row, shape (len(z),)."""
        factors = self.given(z)
        return factors.log_prob(self.model.latent_frames(z, factors.inside))

    def scores(self, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """See `gnomon.distributions.latents.Codes.scores`; (n, draws, T 2 k), 0 behind the end of a sequence."""
        factors, n, draws = self.given(z), len(self.x), len(z) // max(len(self.x), 1)
        own = [parameter.detach().requires_grad_() for parameter in factors.q.parameters]
        with torch.enable_grad():
            each = self.model.latent_frames(z.detach(), factors.inside).flatten(0, 1)
            slopes = torch.autograd.grad(DiagonalGaussian(*own).log_prob(each).sum(), own)
        width = 2 * self.model.n_latent
        behind = (0, width * (z.shape[1] // self.model.n_latent - factors.inside.shape[1]))

        def flat(parts: tuple[torch.Tensor, ...]) -> torch.Tensor:
            values = torch.cat(parts, 1) * factors.inside.reshape(-1, 1)
            values = values.reshape(len(z), factors.inside.shape[1] * width)
            return nn.functional.pad(values, behind).reshape(n, draws, z.shape[1] * 2)

        return flat(factors.q.parameters), flat(slopes)


class VRNNModel(Module):
    r"""p(x, z) = prod_t p(z_t | s_(t-1)) p(x_t | z_t, s_(t-1)), and q(z_t | x_t, s_(t-1)); s_t = f(x_t, z_t, s_(t-1)).

    Parameters
    ----------
    frame_size, n_latent : int
    n_frames : int
        Of a drawn sequence where it is not said.
    layer : Recurrent
        f, of x_t and z_t side by side; s_0 is 0.
    prior : nn.Module
        From s_(t-1) to means and log variances of z_t.
    encoder : nn.Module
        From x_t and s_(t-1) to means and log variances of z_t.
    decoder : nn.Module
        From z_t and s_(t-1) to the numbers of the head.
    head : Head
    scales : bool
        Whether x_t is (x_t - shift) / scale within, and densities those of x.
    dtype : torch.dtype
    """

    shift: torch.Tensor
    scale: torch.Tensor

    def __init__(
        self, frame_size: int, n_latent: int, n_frames: int, layer: Recurrent, prior: nn.Module, encoder: nn.Module,
        decoder: nn.Module, head: Head, scales: bool, dtype: torch.dtype,
    ) -> None:  # fmt: skip
        super().__init__()
        self.frame_size, self.n_latent, self.n_frames, self.scales = frame_size, n_latent, n_frames, scales
        self.layer, self.prior, self.encoder, self.decoder, self.head = layer, prior, encoder, decoder, head
        self.register_buffer("shift", torch.zeros(frame_size, dtype=dtype))
        self.register_buffer("scale", torch.ones(frame_size, dtype=dtype))

    # --- sequences as tensors -----------------------------------------------------------------------------------------

    def frames(self, x: torch.Tensor) -> Frames:
        """Flat sequences (n, T d), NaN behind their ends, in the model's units."""
        frames = x.reshape(len(x), x.shape[1] // self.frame_size, self.frame_size)
        inside = ~frames.isnan().any(2)
        longest = max(min(2, frames.shape[1]), int(inside.any(0).sum()))  # two: the memory has a part on any process
        frames, inside = frames[:, :longest], inside[:, :longest]
        return Frames(torch.where(inside[..., None], self.scaled(frames), 0.0), inside.to(x.dtype))

    def scaled(self, x: torch.Tensor) -> torch.Tensor:
        """Frames in the model's units."""
        return (x - self.shift) / self.scale if self.scales else x

    def outside(self, x: torch.Tensor) -> torch.Tensor:
        """Frames in their own units."""
        return x * self.scale + self.shift if self.scales else x

    def inputs(self, frames: torch.Tensor) -> torch.Tensor:
        """What networks see of frames (..., d)."""
        found = self.head.inputs(frames.flatten(0, -2))
        return found.reshape(*frames.shape[:-1], found.shape[1])

    def latent_frames(self, z: torch.Tensor, inside: torch.Tensor) -> torch.Tensor:
        """Flat z (n, T k) as frames (n, T, k), as many as the sequences have."""
        return z.reshape(len(z), z.shape[1] // self.n_latent, self.n_latent)[:, : inside.shape[1]]

    def states(self, inputs: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """s_0 ... s_(T-1), what is remembered before each frame: (n, T, units)."""
        first = self.layer.initial(len(z))
        if z.shape[1] < 2:
            return first[:, None]
        return torch.cat([first[:, None], self.layer.unroll(torch.cat([inputs, z], 2)[:, :-1], first)], 1)

    # --- densities ----------------------------------------------------------------------------------------------------

    def encode(self, x: torch.Tensor) -> SequenceCodes:
        """q(z | x) of each sequence."""
        return SequenceCodes(self, x)

    def infer(self, x: torch.Tensor, noise: Noise) -> tuple[torch.Tensor, torch.Tensor]:
        """A draw of q(z | x) for each sequence, and its log density."""
        codes = self.encode(x)
        z = codes.sample(noise)
        return z, codes.log_prob(z)

    def read(self, x: torch.Tensor, z: torch.Tensor) -> tuple[Frames, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Frames, what networks see of them, z of each, and what is remembered before each."""
        frames = self.frames(x)
        inputs, each = self.inputs(frames.values), self.latent_frames(z, frames.inside)
        return frames, inputs, each, self.states(inputs, each)

    def factors(self, x: torch.Tensor, z: torch.Tensor) -> FrameFactors:
        """q and prior of each frame given the frames and the z before it."""
        frames, inputs, _, states = self.read(x, z)
        return FrameFactors(self.encoder(torch.cat([inputs, states], 2)), self.prior(states), frames.inside)

    def forward(self, x: torch.Tensor, z: torch.Tensor) -> FrameFactors:
        """`factors`."""
        return self.factors(x, z)

    def divergence(self, factors: FrameFactors) -> torch.Tensor:
        """KL(q || p) of each latent variable in nats, summed over the frames, shape (n, k)."""
        return factors.divergences().sum(1)

    def emitted(self, frames: torch.Tensor, z: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        """log p(x_tj | z_t, s_(t-1)) of each cell in nats, of the columns' own units: the shape of the frames."""
        raw = self.decoder(torch.cat([z, states], -1)).flatten(0, -2)
        found = self.head.log_probs(raw, frames.flatten(0, -2)).reshape(frames.shape)
        return found - self.scale.log() if self.scales else found

    def log_likelihoods(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """log p(x_t | z_t, s_(t-1)) of each frame in nats, shape (n, T)."""
        frames, _, each, states = self.read(x, z)
        return self.emitted(frames.values, each, states).sum(2) * frames.inside

    def log_likelihood(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Sum over the frames of log p(x_t | z_t, s_(t-1)) in nats, shape (n,)."""
        return self.log_likelihoods(x, z).sum(1)

    def log_joint(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Log p(x, z) in nats, shape (n,)."""
        frames, _, each, states = self.read(x, z)
        prior = moments(self.prior(states)).log_prob(each.flatten(0, 1)).reshape(frames.inside.shape)
        return ((self.emitted(frames.values, each, states).sum(2) + prior) * frames.inside).sum(1)

    def generative(self) -> list[nn.Parameter]:
        """Parameters of p(x, z), the memory's among them."""
        parts = (self.layer, self.prior, self.decoder, self.head)
        return [parameter for part in parts for parameter in part.parameters()]

    def recognition(self) -> list[nn.Parameter]:
        """Parameters of q(z | x) alone."""
        return [*self.encoder.parameters()]

    # --- draws --------------------------------------------------------------------------------------------------------

    def dream(self, n: int, noise: Noise) -> tuple[torch.Tensor, torch.Tensor]:
        """n draws of p(x, z): flat sequences, and what they were drawn from."""
        places = noise.rows(torch.arange(n).numpy())
        x, z = self.go_on(self.layer.initial(n), self.n_frames, places)
        return x.flatten(1), z.flatten(1)

    @torch.no_grad()
    def go_on(self, state: torch.Tensor, n_frames: int, noise: Noise) -> tuple[torch.Tensor, torch.Tensor]:
        """Frames (n, T, d) in their own units, and z (n, T, k), that come after a state, drawn one after the other."""
        n = len(state)
        x, z = (state.new_zeros(n, n_frames, width) for width in (self.frame_size, self.n_latent))
        for t in range(n_frames):
            stream = noise.at(t)
            z[:, t] = moments(self.prior(state)).sample(stream.child("latent"))
            raw = self.decoder(torch.cat([z[:, t], state], 1))
            frame = self.head.sample(raw, stream.child("frame"))
            x[:, t] = self.outside(frame)
            state = self.layer.step(torch.cat([self.inputs(frame), z[:, t]], 1), state)
        return x, z

    def sample_prior(self, n: int, noise: Noise) -> torch.Tensor:
        """n draws of z, as sequences are drawn."""
        return self.dream(n, noise)[1]

    def sample(self, n: int, noise: Noise) -> torch.Tensor:
        """n flat sequences."""
        return self.dream(n, noise)[0]
