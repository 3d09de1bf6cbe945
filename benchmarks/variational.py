"""Variational autoencoder and adversarial network against bare torch loops of the same networks, in one run.

    python benchmarks/variational.py [--columns 784] [--rounds 8] [--threads 1]

Prints the milliseconds of an update with 64 rows of zeros and ones: ours and by hand, each the best of several rounds
in which they take turns, and their ratio, beside the median of the rounds' ratios. The networks are the defaults
(hidden layers of 256 and 256 units, 10 latent variables, 16 of the generator); the loops by hand have the same losses
and Adam, and nothing else: no record, no check for numbers that are not finite, no noise by address. The adversarial
pair is compared without the slope penalty and with it. With one thread the clock is the processor's, which other
programs disturb less.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from turns import Clock, options, seconds_of

import gnomon
from gnomon.objectives.adversarial import NonSaturating

ROWS, BATCH, EPOCHS = 4096, 64, 3


def network(inputs: int, outputs: int) -> nn.Sequential:
    """Two hidden layers of 256 rectifiers."""
    return nn.Sequential(nn.Linear(inputs, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, outputs))


def best(epoch: Callable[[torch.Tensor], None], X: np.ndarray, clock: Clock) -> float:
    """Seconds of an update in the best of two epochs after one to warm up."""
    rows, seconds = torch.from_numpy(X), []
    for _ in range(EPOCHS):
        begun = clock()
        order = torch.randperm(len(rows))
        for start in range(0, len(rows), BATCH):
            epoch(rows[order[start : start + BATCH]])
        seconds.append((clock() - begun) / (len(rows) / BATCH))
    return min(seconds[1:])


def vae_by_hand(X: np.ndarray, clock: Clock) -> float:
    """Seconds of an update of a plain variational autoencoder."""
    encoder, decoder = network(X.shape[1], 20), network(10, X.shape[1])
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)

    def update(x: torch.Tensor) -> None:
        optimizer.zero_grad()
        mean, log_variance = encoder(x).chunk(2, 1)
        z = mean + (0.5 * log_variance).exp() * torch.randn_like(mean)
        lost = functional.binary_cross_entropy_with_logits(decoder(z), x, reduction="sum")
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum()
        ((lost + divergence) / len(x)).backward()
        optimizer.step()

    return best(update, X, clock)


def gan_by_hand(X: np.ndarray, clock: Clock, penalty: float) -> float:
    """Seconds of an update of both players of a plain adversarial pair."""
    generator, critic = network(16, X.shape[1]), network(X.shape[1], 1)
    players = [torch.optim.Adam(one.parameters(), lr=1e-3, betas=(0.5, 0.999)) for one in (critic, generator)]

    def update(x: torch.Tensor) -> None:
        players[0].zero_grad()
        with torch.no_grad():
            made = generator(torch.randn(len(x), 16))
        loss = functional.softplus(-critic(x)).mean() + functional.softplus(critic(made)).mean()
        if penalty:
            rows = x.clone().requires_grad_()
            (slope,) = torch.autograd.grad(critic(rows).sum(), rows, create_graph=True)
            loss = loss + 0.5 * penalty * slope.square().sum(1).mean()
        loss.backward()
        players[0].step()
        players[1].zero_grad()
        for parameter in critic.parameters():
            parameter.requires_grad_(False)
        functional.softplus(-critic(generator(torch.randn(len(x), 16)))).mean().backward()
        for parameter in critic.parameters():
            parameter.requires_grad_(True)
        players[1].step()

    return best(update, X, clock)


def main() -> None:
    """Print the ratios."""
    given, clock = options(__doc__, columns=784, rounds=8)
    X = (np.random.default_rng(0).random((ROWS, given.columns)) < 0.3).astype(np.float32)
    small = {"epochs": EPOCHS, "random_state": 0}

    def gan(penalty: float) -> gnomon.GAN:
        return gnomon.GAN(objective=NonSaturating(penalty=penalty), **small)

    pairs = {
        "vae": (gnomon.VAE(likelihood="bernoulli", **small), lambda: vae_by_hand(X, clock)),
        "gan, no penalty": (gan(0.0), lambda: gan_by_hand(X, clock, 0.0)),
        "gan, penalty 0.1": (gan(0.1), lambda: gan_by_hand(X, clock, 0.1)),
    }
    print(f"update with {BATCH} of {ROWS} rows of {given.columns} columns, {given.threads} threads:")
    for name, (system, by_hand) in pairs.items():
        fit = partial(system.fit, X)
        times = [(seconds_of(fit, given.threads, clock), by_hand()) for _ in range(given.rounds)]
        mine, hand = (min(column) for column in zip(*times, strict=True))
        middle = float(np.median([own / plain for own, plain in times]))
        print(
            f"{name}: ours {1e3 * mine:.2f} ms   by hand {1e3 * hand:.2f} ms   ratio {mine / hand:.3f}, median of the "
            f"rounds {middle:.3f} (limit 1.15)"
        )


if __name__ == "__main__":
    main()
