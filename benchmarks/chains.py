"""Persistent chains, with fast weights and with temperatures, on data of two far modes: likelihood and mode switches.

    python benchmarks/chains.py [--seeds 10]

Rows of 10 bits, all off or all on but for one bit in twenty that is flipped. Each principle trains a machine of 6
hidden units by the same 3,000 updates of 20 rows with as many Gibbs sweeps in an update: tempered chains have five
copies and one sweep each, the others five sweeps. A chain is in the mode that its conditional visible means are nearer
to. Prints, as mean over the seeds ± standard error, the exact log-likelihood of 1,000 other rows in nats and the share
of the chains that change the mode in an update, over the second half of the fit.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch

from gnomon.data.batches import Batches
from gnomon.data.examples import Examples
from gnomon.data.layouts import Rows
from gnomon.numeric.noise import Noise
from gnomon.objectives.contrastive import PCD, EnergyObjective
from gnomon.objectives.fast_weights import FPCD
from gnomon.objectives.tempered import TemperedSML
from gnomon.systems.energy.rbm import RBMModel
from gnomon.training.group import Group

BITS, HIDDEN, UPDATES, RATE = 10, 6, 3000, 0.05
PRINCIPLES: dict[str, EnergyObjective] = {
    "pcd, 5 sweeps": PCD(k=5),
    "fpcd, 5 sweeps": FPCD(k=5),
    "tempered, 5 copies": TemperedSML(n_temperatures=5),
}


def rows(n: int, seed: int) -> np.ndarray:
    """Rows of the two modes."""
    random = np.random.default_rng(seed)
    X = np.repeat(random.integers(0, 2, (n, 1)), BITS, axis=1)
    return np.where(random.random((n, BITS)) < 0.05, 1 - X, X).astype(np.float64)


def fitted(recipe: EnergyObjective, seed: int) -> tuple[float, float]:
    """Exact mean log-likelihood of other rows, and the share of chains that switch in an update."""
    random = np.random.default_rng(seed)
    model = RBMModel.of(0.01 * random.normal(size=(BITS, HIDDEN)), np.zeros(BITS), np.zeros(HIDDEN))
    batches = Batches(Examples({"X": rows(1000, seed)}), Rows(20), noise=Noise(seed, "order"))
    objective = recipe.build()
    objective.begin(model, batches, Noise(seed, "begin"), Group())
    mode, switches = None, []
    for update in range(UPDATES):
        batch = batches.step(*divmod(update, batches.steps))
        loss = objective(model, batch, noise=Noise(seed, "fit").at(update), phase="fit", group=Group())
        with torch.no_grad():
            for name, gradient in loss.gradients.items():
                model.get_parameter(name).sub_(torch.from_numpy(RATE / len(batch.weight) * gradient))
        before, means = mode, model.conditional("visible", {"hidden": objective.chains["hidden"].numpy()}).mean
        mode = means.mean(1) > 0.5
        if update >= UPDATES // 2:
            switches.append((mode != before).mean())
    return float(model.log_prob(rows(1000, seed + 1000)).mean()), float(np.mean(switches))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    seeds = parser.parse_args().seeds
    for name, recipe in PRINCIPLES.items():
        found = np.array([fitted(recipe, seed) for seed in range(seeds)])
        (score, rate), (e1, e2) = found.mean(0), found.std(0, ddof=1) / np.sqrt(seeds)
        print(f"{name:20s} log-likelihood {score:8.3f} ± {e1:.3f}   switches per update {rate:.4f} ± {e2:.4f}")


if __name__ == "__main__":
    main()
