"""Annealed importance sampling, Hamiltonian Monte Carlo and single-site Gibbs against peers and limits, in one run.

    python benchmarks/inference.py [--small] [--all] [ais] [hmc] [sites]

Every figure is the best of several rounds in which all sides take turns.

- ais: 100 chains, 784 x 500 units, float32; the peer is plain torch (the same two products per step, torch's Bernoulli
  draws), the limit the two bare products. ``--all`` runs all 10,000 temperatures, otherwise 200.
- hmc: a normal law of 100 dimensions and a logistic regression, float64, 8 chains; numpyro has the same number of
  leapfrog steps and the same warm-up, its chains vectorized, its compilation left out. A figure is effective samples
  per second of the worst coordinate (and the median one), the smaller of bulk and tail; sampling alone and with the
  warm-up. numpyro has no jitter, so gnomon runs without it ("same") and with its own default.
- sites: spins on a 100 x 100 grid; there is no peer, the limit are the random words that the updates need.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from scipy import sparse

from gnomon.inference.importance.ais import ais
from gnomon.inference.mcmc.diagnostics import summarize
from gnomon.inference.mcmc.hamiltonian import HMC
from gnomon.inference.mcmc.sampling import sample_chain
from gnomon.inference.mcmc.sites import PairwiseUnits, SingleSite
from gnomon.numeric.noise import Noise
from gnomon.systems.energy.rbm import RBMModel


def seconds(function: Callable[[], object]) -> float:
    """Seconds of a call."""
    begun = time.perf_counter()
    function()
    return time.perf_counter() - begun


def in_turns(sides: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Best seconds of each, all taking turns; one round before them is not counted."""
    for side in sides.values():
        side()
    found = [{name: seconds(side) for name, side in sides.items()} for _ in range(rounds)]
    return {name: min(one[name] for one in found) for name in sides}


# --- annealed importance sampling -------------------------------------------------------------------------------


def plain_torch(W: torch.Tensor, b: torch.Tensor, c: torch.Tensor, b0: torch.Tensor, chains: int, steps: int) -> Any:
    """What one writes with torch: fields computed once per step, draws by torch.bernoulli."""
    softplus, etas = torch.nn.functional.softplus, torch.linspace(0, 1, steps + 1)
    with torch.inference_mode():
        v, log_w = torch.bernoulli(torch.sigmoid(b0).expand(chains, -1)), torch.zeros(chains)
        for eta, to in itertools.pairwise(etas):
            field = v @ W + c
            log_w += (to - eta) * (v @ (b - b0)) + softplus(to * field).sum(1) - softplus(eta * field).sum(1)
            h = torch.bernoulli(torch.sigmoid(to * field))
            v = torch.bernoulli(torch.sigmoid(to * (h @ W.T + b) + (1 - to) * b0))
    return log_w


def annealing(steps: int, rounds: int) -> None:
    """Print the figures of annealed importance sampling."""
    chains, d, m = 100, 784, 500
    random = np.random.default_rng(0)
    W, b, c = (random.normal(0, s, n).astype("f4") for s, n in ((0.05, (d, m)), (0.3, d), (0.3, m)))
    model, b0 = RBMModel.of(W, b, c), np.full(d, -2, "f4")
    base = RBMModel.of(0 * W, b0, 0 * c)
    x, h = ((random.random((chains, n)) < 0.5).astype("f4") for n in (d, m))
    field, back = np.empty_like(h), np.empty_like(x)
    tensors = [torch.from_numpy(array) for array in (W, b, c, b0)]
    tx, th, tfield, tback = (torch.from_numpy(array) for array in (x, h, field, back))

    def numpy_two() -> None:
        for _ in range(steps):
            np.matmul(x, W, out=field)
            np.matmul(h, W.T, out=back)

    def torch_two() -> None:
        for _ in range(steps):
            torch.mm(tx, tensors[0], out=tfield)
            torch.mm(th, tensors[0].T, out=tback)

    best = in_turns(
        {
            "gnomon": lambda: ais(model, base, Noise(0, "ais"), chains=chains, schedule=steps, keep="visible"),
            "torch": lambda: plain_torch(*tensors, chains, steps),
            "numpy_two": numpy_two,
            "torch_two": torch_two,
        },
        rounds,
    )
    ms = {name: 1e3 * value / steps for name, value in best.items()}
    limit = min(ms["numpy_two"], ms["torch_two"])
    print(f"AIS, {chains} chains, {d} x {m}, {steps} temperatures, float32; milliseconds per temperature")
    print(
        f"  gnomon {ms['gnomon']:.3f}   plain torch {ms['torch']:.3f}   two products {ms['numpy_two']:.3f} (numpy), "
        f"{ms['torch_two']:.3f} (torch); of 10,000: {10 * ms['gnomon']:.1f} s, torch {10 * ms['torch']:.1f} s"
    )
    print(f"  gnomon / plain torch {ms['gnomon'] / ms['torch']:.3f}   gnomon / products {ms['gnomon'] / limit:.2f}")


# --- Hamiltonian Monte Carlo ------------------------------------------------------------------------------------


def normal() -> tuple[int, Any, Any]:
    """Independent coordinates with standard deviations from 1/2 to 2: dimension, for torch's rows, for jax's point."""
    import jax.numpy as jnp

    p = 1 / np.linspace(0.5, 2, 100) ** 2
    tensor = torch.from_numpy(p)
    return 100, lambda x: -0.5 * ((x * x) @ tensor), lambda x: -0.5 * jnp.sum(x * x * p)


def logistic() -> tuple[int, Any, Any]:
    """scikit-learn's breast_cancer, standardized, with a constant and a standard normal prior."""
    import jax.numpy as jnp
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    X = np.hstack([np.ones((len(X), 1)), (X - X.mean(0)) / X.std(0)])
    columns, outcome = torch.from_numpy(X.T.copy()), torch.from_numpy(y.astype(float))

    def rows(w: torch.Tensor) -> torch.Tensor:
        field = w @ columns
        return field @ outcome - torch.nn.functional.softplus(field).sum(-1) - 0.5 * (w * w).sum(-1)

    def point(w: Any) -> Any:
        field = X @ w
        return field @ y - jnp.logaddexp(0.0, field).sum() - 0.5 * jnp.sum(w * w)

    return X.shape[1], rows, point


def effective(x: np.ndarray) -> tuple[float, float]:
    """The smaller effective sample size, bulk or tail: of the worst coordinate, and of the median one."""
    columns = summarize(x).columns
    smaller = np.minimum(columns["ess_bulk"], columns["ess_tail"])
    return float(smaller.min()), float(np.median(smaller))


def ours(rows: Any, start: np.ndarray, steps: int, burn_in: int, draws: int, jitter: float) -> tuple[Any, ...]:
    """Effective samples, seconds of the warm-up, seconds of the draws."""
    begun = time.perf_counter()
    warm = sample_chain(
        rows, HMC(steps=steps, jitter=jitter), chains=len(start), draws=0, burn_in=burn_in, start=start, random_state=0
    )
    middle = time.perf_counter()
    found = warm.extend(draws)
    return effective(found.draws), middle - begun, time.perf_counter() - middle


def peer(point: Any, steps: int, burn_in: int, draws: int) -> Callable[[np.ndarray], tuple[Any, ...]]:
    """The same of numpyro, compiled before the clock starts."""
    import jax
    from numpyro.infer import HMC as Peer
    from numpyro.infer import MCMC

    kernel = Peer(potential_fn=lambda x: -point(x), num_steps=steps, trajectory_length=None)
    compiled: dict[int, Any] = {}

    def run(start: np.ndarray) -> tuple[Any, ...]:
        begin = jax.numpy.asarray(start)
        if not compiled:
            compiled[0] = MCMC(
                kernel, num_warmup=burn_in, num_samples=draws, num_chains=len(start), chain_method="vectorized",
                progress_bar=False,
            )  # fmt: skip
            compiled[0].warmup(jax.random.PRNGKey(0), init_params=begin)
            compiled[0].run(jax.random.PRNGKey(1))
        chains = compiled[0]
        chains.post_warmup_state = None
        begun = time.perf_counter()
        chains.warmup(jax.random.PRNGKey(0), init_params=begin)
        jax.block_until_ready(chains.post_warmup_state.z)
        middle = time.perf_counter()
        chains.run(jax.random.PRNGKey(1))
        x = np.asarray(jax.block_until_ready(chains.get_samples(group_by_chain=True)))
        return effective(x), middle - begun, time.perf_counter() - middle

    return run


def hamiltonian(name: str, made: tuple[int, Any, Any], steps: int, burn_in: int, draws: int, rounds: int) -> None:
    """Print the figures of one target."""
    d, rows, point = made
    start = np.random.default_rng(0).uniform(-2, 2, (8, d))
    theirs = peer(point, steps, burn_in, draws)
    sides = {
        "gnomon, same": lambda: ours(rows, start, steps, burn_in, draws, 0.0),
        "gnomon, jitter 0.2": lambda: ours(rows, start, steps, burn_in, draws, 0.2),
        "numpyro": lambda: theirs(start),
    }
    found = [{label: side() for label, side in sides.items()} for _ in range(rounds)]
    print(f"HMC, {name}, d = {d}, 8 chains, {steps} leapfrog steps, warm-up {burn_in}, draws {draws}, float64")
    rates = {}
    for label in sides:
        worst, median = found[0][label][0]
        warm, sampling = (min(one[label][k] for one in found) for k in (1, 2))
        rates[label] = worst / sampling, worst / (warm + sampling), median / sampling
        print(
            f"  {label:18} effective {worst:5.0f} (median {median:5.0f}), warm-up {warm:.2f} s, draws {sampling:.2f} "
            f"s: {rates[label][0]:6.1f} per second of draws, {rates[label][1]:6.1f} with the warm-up"
        )
    for label in list(sides)[:2]:
        alone, whole, middle = (mine / other for mine, other in zip(rates[label], rates["numpyro"], strict=True))
        print(
            f"  {label} / numpyro: {alone:.2f} (draws), {whole:.2f} (with the warm-up); "
            f"median coordinate {middle:.2f} (draws)"
        )


# --- single-site Gibbs ------------------------------------------------------------------------------------------


def grid(n: int, coupling: float) -> PairwiseUnits:
    """Spins on an n x n grid with one coupling, as units of 0 and 1."""
    place = np.arange(n * n).reshape(n, n)
    first = np.concatenate([place[:, :-1].ravel(), place[:-1].ravel()])
    second = np.concatenate([place[:, 1:].ravel(), place[1:].ravel()])
    u = sparse.csr_array((np.full(first.size, 4 * coupling), (first, second)), shape=(n * n, n * n))
    return PairwiseUnits(u, -np.asarray((u + u.T).sum(axis=1)).ravel() / 2)


def sites(chains: int, rounds: int) -> None:
    """Print the figures of sweeps over a grid."""
    n, sweeps = 100, max(1, 16 // chains)
    units, noise = grid(n, 0.4), Noise(0, "sites")
    start = (np.random.default_rng(0).random((chains, n * n)) < 0.5).astype(float)

    def sweep(scan: str) -> Callable[[], object]:
        mover = SingleSite(scan)
        begun = mover.init(start, units)

        def run() -> None:
            state = begun
            for t in range(sweeps):
                state, _ = mover.step(state, noise.at(t))

        return run

    def words() -> None:
        for t in range(sweeps):
            noise.at(t).words((chains, n * n))

    sides = {scan: sweep(scan) for scan in ("colored", "systematic", "random")} | {"words": words}
    best = in_turns(sides, rounds)
    rate = {name: sweeps * chains * n * n / value / 1e6 for name, value in best.items()}
    print(f"Single-site Gibbs, {n} x {n} spins, chains {chains}, one thread; millions of updates per second")
    print(
        f"  checkerboard {rate['colored']:.0f}   row by row {rate['systematic']:.0f}   random scan {rate['random']:.0f}"
        f"   random words alone {rate['words']:.0f}   checkerboard / words {rate['colored'] / rate['words']:.2f}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Inference engines against peers and limits.")
    parser.add_argument("parts", nargs="*", default=[], help="ais, hmc, sites; all by default")
    parser.add_argument("--small", action="store_true", help="fewer steps, one round")
    parser.add_argument("--all", action="store_true", help="all 10,000 temperatures, one round")
    arguments = parser.parse_args()
    parts = arguments.parts or ["ais", "hmc", "sites"]
    rounds = 1 if arguments.small else 3
    warnings.simplefilter("ignore")
    if "ais" in parts:
        annealing(10_000 if arguments.all else 50 if arguments.small else 200, 1 if arguments.all else rounds + 1)
    if "sites" in parts:
        for chains in (1, 16):
            sites(chains, 20 * rounds)
    if "hmc" in parts:
        import numpyro

        numpyro.enable_x64()
        burn_in, draws = (200, 300) if arguments.small else (500, 1000)
        hamiltonian("normal law", normal(), 10, burn_in, draws, rounds)
        hamiltonian("logistic regression", logistic(), 10, burn_in, draws, rounds)


if __name__ == "__main__":
    main()
