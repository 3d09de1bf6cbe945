"""Random numbers per second and thread: our kernels beside torch's and NumPy's generators, interleaved in one run.

    python benchmarks/noise.py [ROWS WIDTH]

Prints the best of the repetitions in million numbers per second; the last column is the ratio to the named peer.
"""

import sys
import time

import numpy as np
import torch

from gnomon.numeric import fast, philox
from gnomon.numeric.noise import Noise

REPEATS = 200


def jobs(shape):
    """Name -> (peer's name or None, function)."""
    rng = np.random.Generator(np.random.PCG64(0))
    torch.manual_seed(0)
    logits = {t: np.random.default_rng(0).normal(0, 2, shape).astype(t) for t in (np.float32, np.float64)}
    p = {t: fast.sigmoid(x) for t, x in logits.items()}
    out = {t: np.empty(shape, t) for t in (np.float32, np.float64, np.uint32)}
    tensor, tensor_p, tensor_out = (torch.from_numpy(a[np.float32]) for a in (logits, p, out))
    double = torch.empty(shape, dtype=torch.float64)
    noise = Noise(0, "benchmark")
    address = (np.arange(shape[0], dtype=np.uint32), 0, 1, *noise.address(1)[:2])
    single, wide = out[np.float32], out[np.float64]
    return {
        "torch rand float32": (None, lambda: torch.rand(shape, out=tensor_out)),
        "torch rand float64": (None, lambda: torch.rand(shape, out=double)),
        "torch randn float32": (None, lambda: torch.randn(shape, out=tensor_out)),
        "torch randn float64": (None, lambda: torch.randn(shape, out=double)),
        "torch bernoulli(p) float32": (None, lambda: torch.bernoulli(tensor_p, out=tensor_out)),
        "torch bernoulli(sigmoid(x)) float32": (None, lambda: torch.bernoulli(tensor.sigmoid())),
        "torch sigmoid float32": (None, lambda: torch.sigmoid(tensor, out=tensor_out)),
        "numpy PCG64 random float32": (None, lambda: rng.random(out=single, dtype=np.float32)),
        "numpy PCG64 random float64": (None, lambda: rng.random(out=wide)),
        "numpy PCG64 standard_normal float32": (None, lambda: rng.standard_normal(out=single, dtype=np.float32)),
        "numpy PCG64 standard_normal float64": (None, lambda: rng.standard_normal(out=wide)),
        "numpy PCG64 integers(10)": (None, lambda: rng.integers(10, size=shape)),
        "words": (None, lambda: philox.words(out[np.uint32], *address)),
        "uniform float32": ("numpy PCG64 random float32", lambda: philox.uniform32(single, *address)),
        "uniform float64": ("numpy PCG64 random float64", lambda: philox.uniform64(wide, *address)),
        "normal float32": ("torch randn float32", lambda: philox.normal32(single, *address)),
        "normal float64": ("torch randn float64", lambda: philox.normal64(wide, *address)),
        "bernoulli(p) float32": (
            "torch bernoulli(p) float32", lambda: philox.bernoulli32(p[np.float32], single, *address),
        ),
        "bernoulli_logits float32": (
            "torch bernoulli(sigmoid(x)) float32",
            lambda: philox.bernoulli_logits32(logits[np.float32], single, *address),
        ),
        "Noise.bernoulli_logits float32": (
            "torch bernoulli(sigmoid(x)) float32", lambda: noise.bernoulli_logits(logits[np.float32]),
        ),
        "bernoulli_logits float64": (None, lambda: philox.bernoulli_logits64(logits[np.float64], wide, *address)),
        "integers(10)": ("numpy PCG64 integers(10)", lambda: noise.integers(10, shape)),
        "sigmoid float32": ("torch sigmoid float32", lambda: fast.sigmoid(logits[np.float32], out=single)),
        "softplus float32": (None, lambda: fast.softplus(logits[np.float32], out=single)),
    }  # fmt: skip


def main() -> None:
    """Time every job in turn, so that a busy machine slows all of them alike."""
    torch.set_num_threads(1)
    shape = tuple(int(a) for a in sys.argv[1:3]) or (100, 500)
    table = jobs(shape)
    best = dict.fromkeys(table, np.inf)
    for _, run in table.values():
        run()
    for _ in range(REPEATS):
        for name, (_, run) in table.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    for name, (peer, _) in table.items():
        speed = f"{shape[0] * shape[1] / best[name] / 1e6:8.0f} M/s"
        print(f"{name:38s}{speed}" + (f"   {best[peer] / best[name]:5.1f} x {peer}" if peer else ""))


if __name__ == "__main__":
    main()
