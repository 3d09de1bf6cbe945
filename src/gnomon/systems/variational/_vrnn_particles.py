"""A particle filter of a variational recurrent network: what is known of z_t frame by frame, and of missing cells."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from gnomon.contracts import Noise
from gnomon.inference.importance.particles import resampled
from gnomon.systems.variational._vrnn_model import VRNNModel, moments

__all__ = ["NUMBERS", "SequenceParticles", "chunks", "filtered"]

NUMBERS = 1 << 22
"""Numbers that the particles of one chunk of sequences may take: 16 MB in float32."""


class SequenceParticles(NamedTuple):
    """What S particles of each of n sequences say.

    Attributes
    ----------
    log_prob : float64 array of shape (n,)
        Log of an unbiased estimate of p(known cells): on average no more than the log itself.
    mean, variance : float64 arrays of shape (n, T, k)
        Of z_t given x_1 ... x_t; NaN behind the end of a sequence.
    effective : float64 array of shape (n,)
        The fewest particles that any frame's weights count as.
    state : tensor of shape (n, S, units)
        What is remembered after the last frame.
    cells : tensor of shape (n, S, T, d), or None
        Completed frames in the model's units, where cells are missing.
    share : float64 tensor of shape (n, S)
        Weights of the particles after the last frame.
    """

    log_prob: Any
    mean: Any
    variance: Any
    effective: Any
    state: torch.Tensor
    cells: torch.Tensor | None
    share: torch.Tensor


@torch.no_grad()
def filtered(
    model: VRNNModel, x: torch.Tensor, particles: int, noise: Noise, missing: torch.Tensor | None = None,
    share: float = 0.5,
) -> SequenceParticles:  # fmt: skip
    r"""z_t is drawn from q(z_t | x_t, s_(t-1)) and weighted by p(z_t | s_(t-1)) p(x_t | z_t, s_(t-1)) / q.

    Where few particles count they are drawn anew, so that the effort goes where the sequence is (a particle filter with
    the encoder as proposal). Of a frame with missing cells the encoder sees a guess, drawn from the model; the known
    cells weigh, and the others are drawn given z_t.

    Parameters
    ----------
    model : VRNNModel
    x : tensor of shape (n, T d)
        NaN behind the end of a sequence.
    particles : int
        S, for each sequence.
    noise : Noise
        Of n S rows.
    missing : bool tensor of shape (n, T, d), optional
        Cells that are not known, whatever they hold.
    share : float, default 0.5
        Particles that count, of all, below which they are drawn anew; 0 for never: plain importance weighting.

    Notes
    -----
    Cost: n S frames through every network at each of T steps. Source: Maddison and others (2017), "Filtering
    variational objectives"; Gordon, Salmond and Smith (1993).
    """
    frames = model.frames(x)
    n, length, d = frames.values.shape
    values, inside = (part.repeat_interleave(particles, 0) for part in frames)
    gap = None if missing is None else missing[:, :length].repeat_interleave(particles, 0)
    cells = None if gap is None else values.clone()
    state = model.layer.initial(n * particles)
    log_w, total = x.new_zeros(n, particles, dtype=torch.float64), x.new_zeros(n, dtype=torch.float64)
    found = x.new_full((2, n, length, model.n_latent), torch.nan, dtype=torch.float64)
    fewest = x.new_full((n,), float(particles), dtype=torch.float64)
    for t in range(length):
        stream, frame = noise.at(t), values[:, t]
        if gap is not None:
            frame = torch.where(gap[:, t], _guess(model, state, stream.child("guess")), frame)
        prior = moments(model.prior(state))
        q = moments(model.encoder(torch.cat([model.inputs(frame), state], 1)))
        z = q.sample(stream.child("latent"))
        gain = prior.log_prob(z) - q.log_prob(z)
        each = model.emitted(frame, z, state)
        if gap is not None and cells is not None:
            raw = model.decoder(torch.cat([z, state], 1))
            frame = torch.where(gap[:, t], model.head.sample(raw, stream.child("cells")), frame)
            each, cells[:, t] = each.masked_fill(gap[:, t], 0.0), frame
        log_w = log_w + ((gain + each.sum(1)) * inside[:, t]).double().reshape(n, particles)
        found[:, :, t] = _moments(z.reshape(n, particles, -1), log_w.softmax(1), frames.inside[:, t] > 0)
        fewest = torch.minimum(fewest, 1 / log_w.softmax(1).square().sum(1))
        state = model.layer.step(torch.cat([model.inputs(frame), z], 1), state)
        index, log_w, total = resampled(log_w, total, stream.child("again"), share)
        if index is not None:
            state, cells = state[index], None if cells is None else cells[index]
    total = total + log_w.logsumexp(1) - math.log(particles)
    completed = None if cells is None else cells.reshape(n, particles, length, d)
    evidence, mean, variance, effective = (part.cpu().numpy() for part in (total, *found, fewest))
    state = state.reshape(n, particles, -1)
    return SequenceParticles(evidence, mean, variance, effective, state, completed, log_w.softmax(1))


def _guess(model: VRNNModel, state: torch.Tensor, noise: Noise) -> torch.Tensor:
    """A frame drawn given what is remembered, in the model's units."""
    z = moments(model.prior(state)).sample(noise.child("latent"))
    return model.head.sample(model.decoder(torch.cat([z, state], 1)), noise.child("frame"))


def _moments(z: torch.Tensor, weights: torch.Tensor, inside: torch.Tensor) -> torch.Tensor:
    """Weighted means and variances of particles (n, S, k): (2, n, k), NaN of sequences that have ended."""
    z = z.double()
    mean = torch.einsum("ns,nsk->nk", weights, z)
    variance = torch.einsum("ns,nsk->nk", weights, (z - mean[:, None]).square())
    return torch.where(inside[:, None], torch.stack([mean, variance]), torch.nan)


def chunks(n: int, numbers: int) -> list[NDArray[np.int64]]:
    """Places of n rows in parts, of which each takes `numbers` numbers."""
    return np.array_split(np.arange(n), max(1, -(-n * numbers // NUMBERS)))
