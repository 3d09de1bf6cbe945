"""Machines of real columns on patches of photographs: the likelihood of rows held out, and log Z from both sides.

    OMP_NUM_THREADS=1 python benchmarks/patches.py [natural-patches | photo-patches] [SYSTEM ...]

8 x 8 pixels, uniform noise on the 256 grey levels; of natural-patches (scikit-image's photographs) every third, of
photo-patches (scikit-learn's) all; a fifth held out, seed 0. Chains of the way down begin at rows of the fit too.
"""

from __future__ import annotations

import sys
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
    "spike-and-slab-rbm": {"safeguard": "phi"},
    "conv-ssrbm": {},
    "product-of-t": {"n_experts": 128, "n_mean": 16, "epochs": 20},
    "mcrbm": {"n_covariance": 128, "epochs": 20},
}
SETS: Mapping[str, int] = {"natural-patches": 3, "photo-patches": 1}
"""And of how many rows each one is taken."""
LEVELS, BURN_IN = 300, 100


def main(name: str = "natural-patches", *systems: str) -> None:
    """A line for each system."""
    data = gnomon.data.load(name)
    data = data.take(np.arange(0, len(data), SETS[name]), f"every {SETS[name]}")
    train, test = gnomon.data.split(data, test=0.2, seed=0, how="random")
    X, T = (np.asarray(part.view("density"), np.float32) for part in (train, test))
    independent = IndependentBaseline(Real(), X).evaluate(T)["log_likelihood"].value
    normal = multivariate_normal(X.mean(0), np.cov(X.T)).logpdf(T).mean()
    print(f"{name}: {len(X)} rows, {len(T)} held out", flush=True)
    print(f"independent normal columns {independent:.2f}, one normal density {normal:.2f}", flush=True)
    for system in systems or SYSTEMS:
        print(line(system, SYSTEMS[system], X, T), flush=True)


def line(name: str, options: Mapping[str, Any], X: Any, T: Any) -> str:
    """The likelihood with its errors, what annealing from both sides says of log Z, and seconds."""
    begun = time.perf_counter()
    system = gnomon.make(name, random_state=0, **options).fit(X)
    fitted = time.perf_counter()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        log_z = system.log_partition("bracket", schedule=LEVELS, burn_in=BURN_IN, X=X)
    values = -np.asarray(system.energy(T), np.float64) - log_z.value
    seconds = time.perf_counter() - fitted
    notes = "; ".join(str(one.message) for one in said)
    return (
        f"{name:20s} {values.mean():9.2f} +- {values.std() / len(T) ** 0.5:.2f} (examples) +- {log_z.error:.2f} (log Z)"
        f"  log Z from {log_z.lower:.2f} to {log_z.upper:.2f} (+- {log_z.gap_error:.2f} above),"
        f" {log_z.weights.ess:.1f} effective weights, {log_z.missed} chains elsewhere"
        f"  fit {fitted - begun:.0f} s, log Z {seconds:.0f} s  {notes}"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
