"""Centered and enhanced gradients beside the plain one, on digits and on their negatives.

    python benchmarks/centering.py [--seeds 3]

Binary digits of 8 x 8, 1,400 rows to learn from and the rest to judge by; 12 hidden units, 30 epochs, one rate.
Prints the exact log-likelihood of the others in nats, as mean over the seeds ± standard deviation.
"""

from __future__ import annotations

import argparse

import numpy as np

import gnomon


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    seeds = parser.parse_args().seeds
    rows = np.asarray(gnomon.data.load("digits").view("binary"))
    order = np.random.default_rng(0).permutation(len(rows))
    for objective in ("pcd", "centered", "enhanced"):
        for name, flip in (("digits", 0), ("negatives", 1)):
            train, test = (abs(flip - rows[part]) for part in (order[:1400], order[1400:]))
            scores = [
                gnomon.RBM(n_hidden=12, objective=objective, epochs=30, learning_rate=0.05, random_state=seed)
                .fit(train)
                .score(test)
                for seed in range(seeds)
            ]
            print(f"{objective:10s} {name:10s} {np.mean(scores):8.3f} ± {np.std(scores, ddof=1):.3f}", flush=True)


if __name__ == "__main__":
    main()
