"""How Boltzmann machines are judged: gradients of chains, spurious mass after each principle, brackets of log Z.

    python benchmarks/judgement.py [--seeds 5]

1. Bias and variance of the gradient of one pair, enumerated, of a machine of 8 binary columns of the digits and 6
   hidden units at three stages of its fit: exact draws, chains from the data, from other rows, persistent ones.
2. The probability that a machine of 12 columns and 8 hidden units gives to rows further than two bits from every
   training row, after contrastive divergence and after persistent chains by the same number of updates, exact by
   enumeration. The rows are four patterns in which one bit in 33 is flipped.
3. Annealing upwards and downwards of a machine of 64 columns and 64 hidden units by the number of temperatures.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import gnomon
from gnomon.evaluation import ChainEstimator, gradient_bias_variance, spurious_mass

COLUMNS = [18, 20, 26, 28, 34, 36, 42, 44, 10, 51]
"""Pixels of the digits that vary."""
ESTIMATORS = [
    ChainEstimator("model"), ChainEstimator("data", 1), ChainEstimator("data", 5), ChainEstimator("other data", 1),
    ChainEstimator("persistent"),
]  # fmt: skip


def gradients(rows: np.ndarray) -> None:
    """The table of biases and variances."""
    print(
        "1. gradient of one pair: bias (length of the exact gradient), trace of the covariance, 10 pairs negative phase"
    )
    for epochs in (1, 20, 200):
        rbm = gnomon.RBM(n_hidden=6, epochs=epochs, learning_rate=0.1, random_state=0).fit(rows[:, :8])
        ten = gradient_bias_variance(rbm, rows[:, :8], ESTIMATORS, pairs=10)
        for one, many in zip(gradient_bias_variance(rbm, rows[:, :8], ESTIMATORS), ten, strict=True):
            print(
                f"   epoch {epochs:3d}  {one.estimator!s:20s} {one.bias_norm:8.4f} ({one.exact_norm:.4f})"
                f" {one.trace:9.4f} {many.negative_trace:9.4f}"
            )


def patterns(n: int) -> np.ndarray:
    """Rows near four patterns."""
    random = np.random.default_rng(0)
    four = np.array([[1] * 4 + [0] * 8, [0] * 4 + [1] * 4 + [0] * 4, [0] * 8 + [1] * 4, [1] * 12])
    rows = four[random.integers(0, 4, n)]
    return np.where(random.random(rows.shape) < 0.03, 1 - rows, rows).astype(float)


def spurious(rows: np.ndarray, seeds: int) -> None:
    """Spurious mass side by side."""
    print("2. probability further than two bits from every row, and log-likelihood: mean ± standard error over seeds")
    for name in ("cd", "pcd", "tempered", "exact"):
        found = []
        for seed in range(seeds):
            rbm = gnomon.RBM(n_hidden=8, objective=name, epochs=20, learning_rate=0.1, random_state=seed).fit(rows)
            mass = spurious_mass(rbm, rows, r=2)
            found.append((mass.value, rbm.score(rows)))
        mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(seeds)
        print(f"   {name:10s} {mean[0]:.4f} ± {error[0]:.4f}   {mean[1]:.3f} ± {error[1]:.3f}")


def brackets(rows: np.ndarray) -> None:
    """Both ends of log Z by the length of the ladder."""
    print("3. log Z upwards and downwards (from chains), by temperatures")
    rbm = gnomon.RBM(n_hidden=64, epochs=50, learning_rate=0.05, random_state=0).fit(rows)
    for steps in (10, 100, 1000, 10_000):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = rbm.log_partition("bracket", chains=100, schedule=steps)
        print(f"   {steps:6d} {found.lower:9.3f} ± {found.error:.3f} {found.upper:9.3f} ± {found.gap_error:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    seeds = parser.parse_args().seeds
    digits = gnomon.data.load("digits").view("binary")
    gradients(digits[:, COLUMNS])
    spurious(patterns(500), seeds)
    brackets(digits[:1400])


if __name__ == "__main__":
    main()
