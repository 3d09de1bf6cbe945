"""Machines of real columns on patches of photographs: the likelihood of rows held out, and log Z from both sides.

    OMP_NUM_THREADS=1 python benchmarks/patches.py

The set photo-patches (8 x 8 pixels, uniform noise on the 256 grey levels), a fifth held out, seed 0.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.stats import multivariate_normal

import gnomon
from gnomon.distributions.domains import Real
from gnomon.tasks.density import IndependentBaseline

SYSTEMS: Mapping[str, Mapping[str, Any]] = {
    "gaussian-rbm": {},
    "mcrbm": {"n_covariance": 128, "epochs": 20},
    "product-of-t": {"n_experts": 128, "n_mean": 16, "epochs": 20},
    "spike-and-slab-rbm": {"safeguard": "phi"},
    "conv-ssrbm": {},
}
LEVELS = 300


def main() -> None:
    """A line for each system."""
    train, test = gnomon.data.split(gnomon.data.load("photo-patches"), test=0.2, seed=0, how="random")
    X, T = (np.asarray(part.view("density"), np.float32) for part in (train, test))
    independent = IndependentBaseline(Real(), X).evaluate(T)["log_likelihood"].value
    normal = multivariate_normal(X.mean(0), np.cov(X.T)).logpdf(T).mean()
    print(f"independent normal columns {independent:.2f}, one normal density {normal:.2f}", flush=True)
    for name, options in SYSTEMS.items():
        print(line(name, options, X, T), flush=True)


def line(name: str, options: Mapping[str, Any], X: Any, T: Any) -> str:
    """The likelihood with its errors, what annealing from both sides says of log Z, and seconds."""
    begun = time.perf_counter()
    system = gnomon.make(name, random_state=0, **options).fit(X)
    fitted = time.perf_counter()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        log_z = system.log_partition("bracket", schedule=LEVELS)
    values = -np.asarray(system.energy(T), np.float64) - log_z.value
    seconds = time.perf_counter() - fitted
    notes = "; ".join(str(one.message) for one in said)
    return (
        f"{name:20s} {values.mean():9.2f} +- {values.std() / len(T) ** 0.5:.2f} (examples) +- {log_z.error:.2f} (log Z)"
        f"  log Z from {log_z.lower:.2f} to {log_z.upper:.2f} (+- {log_z.gap_error:.2f} above)"
        f"  fit {fitted - begun:.0f} s, log Z {seconds:.0f} s  {notes}"
    )


if __name__ == "__main__":
    main()
