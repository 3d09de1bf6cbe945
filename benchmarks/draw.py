"""What draw and vae reach on digits as zeros and ones: python benchmarks/draw.py, about 80 seconds of one thread."""

from __future__ import annotations

import numpy as np

import gnomon


def main() -> None:
    train, test = gnomon.data.split(gnomon.data.load("digits"), test=0.3, seed=0, how="random")
    X, T = (np.asarray(part.view("binary"), np.float32) for part in (train, test))
    for system in (gnomon.DRAW, gnomon.VAE):
        fitted = system(likelihood="bernoulli", random_state=0).fit(X)
        print(system.__name__, fitted.log_prob_bound(T), fitted.elbo(T))


if __name__ == "__main__":
    main()
