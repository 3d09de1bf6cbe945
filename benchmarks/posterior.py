"""A variational posterior of a logistic regression against numpyro's SVI, to equal bound, in one run.

    python benchmarks/posterior.py [--rows 2000] [--columns 20] [--rounds 3] [--threads 1]

Prints the seconds to a bound within 0.1 nats of the optimum, each the best of several rounds in which they take turns:
`gnomon.fit_posterior` with independent coordinates, and numpyro's ``AutoDiagonalNormal`` under Adam in compiled loops,
at the best of three learning rates, halved eight times in 6,000 steps, and without the seconds of its compilation. All
bounds are of 400 draws and their mirror images in common. Where numpyro is not installed its line says so. With one
thread the clock is the processor's, which other programs disturb less.
"""

from __future__ import annotations

import bisect
import os
from collections.abc import Callable

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import numpy as np
import torch
from turns import Clock, options

import gnomon
from gnomon.numeric.noise import Noise

CLOSE, DRAWS = 0.1, 400
RATES, CHUNK, STEPS = (0.01, 0.03, 0.1), 100, 6000

Floats = np.ndarray
Path = list[tuple[float, Floats, Floats]]
"""Seconds so far, means and standard deviations."""


def data(rows: int, columns: int) -> tuple[Floats, Floats]:
    """Correlated columns, and labels of a logistic regression."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, columns)) @ (np.eye(columns) + 0.3 * rng.normal(size=(columns, columns)))
    return x, (rng.random(rows) < 1 / (1 + np.exp(-x @ rng.normal(size=columns) / 2))).astype(float)


def density(x: Floats, y: Floats) -> Callable[[torch.Tensor], torch.Tensor]:
    """log p(y, w) with w ~ N(0, I)."""
    signed = torch.from_numpy((2 * y - 1)[:, None] * x).T.contiguous()

    def log_joint(w: torch.Tensor) -> torch.Tensor:
        prior = -0.5 * (w * w).sum(1) - 0.5 * w.shape[1] * np.log(2 * np.pi)
        return torch.nn.functional.logsigmoid(w @ signed).sum(1) + prior

    return log_joint


def bound(log_joint: Callable[[torch.Tensor], torch.Tensor], mean: Floats, scale: Floats) -> float:
    """By the same draws for everybody."""
    e = Noise(0, "benchmark").normal((DRAWS, len(mean)), like=torch.empty(0, dtype=torch.float64))
    z = torch.from_numpy(np.array(mean)) + torch.from_numpy(np.array(scale)) * torch.cat([e, -e])
    return float(log_joint(z).mean()) + float(np.log(scale).sum() + 0.5 * len(mean) * (1 + np.log(2 * np.pi)))


def ours(log_joint: Callable[[torch.Tensor], torch.Tensor], columns: int, clock: Clock) -> tuple[Path, float]:
    """The path of the fit, by fits that end earlier and earlier; and the seconds of all that the verb does."""
    path: Path = []
    begun = clock()
    found = gnomon.fit_posterior(log_joint, start=columns, restarts=1, random_state=0)
    whole = clock() - begun
    at: list[float] = []
    with gnomon.context(callbacks=(lambda step, record: at.append(clock()),)):
        begun = clock()
        gnomon.fit_posterior(log_joint, start=columns, restarts=1, random_state=0)
    near = int(np.argmax(found.elbo_history_ > found.elbo_history_[-1] - CLOSE / 2))
    q = found.q_.marginals.values()
    path.append((at[near] - begun, np.array([one.center for one in q]), np.array([one.scale for one in q])))
    return path, whole


def numpyros(x: Floats, y: Floats, rate: float, clock: Clock) -> Path:
    """The path of numpyro's SVI in compiled chunks of steps."""
    import jax
    import numpyro
    from numpyro import distributions as dist
    from numpyro.infer import SVI, Trace_ELBO
    from numpyro.infer.autoguide import AutoDiagonalNormal

    jax.config.update("jax_enable_x64", True)
    rows, labels = jax.numpy.asarray(x), jax.numpy.asarray(y)

    def model() -> None:
        w = numpyro.sample("w", dist.Normal(0, 1).expand([rows.shape[1]]).to_event(1))
        numpyro.sample("y", dist.Bernoulli(logits=rows @ w), obs=labels)

    svi = SVI(
        model, AutoDiagonalNormal(model), numpyro.optim.Adam(lambda t: rate * 0.5 ** (t / (STEPS / 8))), Trace_ELBO()
    )
    state = svi.init(jax.random.PRNGKey(0))

    @jax.jit
    def chunk(state: object) -> object:
        return jax.lax.fori_loop(0, CHUNK, lambda _, now: svi.update(now)[0], state)

    jax.block_until_ready(chunk(state))  # compiled
    path, seconds = [], 0.0
    for _ in range(STEPS // CHUNK):
        begun = clock()
        state = jax.block_until_ready(chunk(state))
        seconds += clock() - begun
        now = svi.get_params(state)
        path.append((seconds, np.asarray(now["auto_loc"]), np.asarray(now["auto_scale"])))
    return path


def first_close(path: Path, best: float, log_joint: Callable[[torch.Tensor], torch.Tensor]) -> float:
    """Seconds after which the bound is within 0.1 nats of the best, by bisection; inf where it ends farther off."""
    ends = bisect.bisect_left(path, True, key=lambda at: bound(log_joint, *at[1:]) > best - CLOSE)
    return path[ends][0] if ends < len(path) else np.inf


def main() -> None:
    """Fit in turns and print."""
    given, clock = options(__doc__, rows=2000, columns=20, rounds=3)
    x, y = data(given.rows, given.columns)
    log_joint = density(x, y)
    ours(log_joint, given.columns, clock)  # kernels are compiled
    paths: dict[str, list[Path]] = {"gnomon": []}
    whole = []
    for _ in range(given.rounds):
        path, seconds = ours(log_joint, given.columns, clock)
        paths["gnomon"].append(path)
        whole.append(seconds)
        try:
            for rate in RATES:
                paths.setdefault(f"numpyro, rate {rate}", []).append(numpyros(x, y, rate, clock))
        except ImportError as error:
            print(f"numpyro is not installed ({error}): nothing to compare with")
    ends = [path[-1][1:] for tries in paths.values() for path in tries]
    best = max(bound(log_joint, mean, scale) for mean, scale in ends)
    print(f"{given.rows} x {given.columns}, optimum {best:.3f} nats")
    took = {name: min(first_close(path, best, log_joint) for path in tries) for name, tries in paths.items()}
    for name, seconds in took.items():
        off = min(best - bound(log_joint, *path[-1][1:]) for path in paths[name])
        print(f"  {name:22} {1e3 * seconds:9.1f} ms to within {CLOSE} nats; ends {off:.3f} below")
    print(f"  {'gnomon, whole verb':22} {1e3 * min(whole):9.1f} ms")
    others = [seconds for name, seconds in took.items() if name != "gnomon"]
    if others:
        print(f"  ratio {took['gnomon'] / min(others):.3f}, of the whole verb {min(whole) / min(others):.3f}")


if __name__ == "__main__":
    main()
