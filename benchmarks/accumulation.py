"""Memory and time of a step of `resnet` whose batch is computed in pieces: python benchmarks/accumulation.py.

Each row is a process of its own, whose peak of resident memory is compared with that before the fit.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

SIZES = (None, 64, 16)


def measure(size: int | None) -> dict[str, float]:
    """Peak of memory in MB over what stood before, and processor seconds, of two updates on 256 images."""
    import numpy as np

    import gnomon

    rng = np.random.default_rng(0)
    X, y = rng.random((512, 3 * 32 * 32), dtype=np.float32), rng.integers(10, size=512)
    options = {"image_shape": (32, 32, 3), "batch_size": 256, "random_state": 0}
    gnomon.ResNet(**options | {"batch_size": 8}, max_updates=1).fit(X[:16], np.arange(16) % 10)
    before, begun = _peak(), time.process_time()
    with gnomon.context(micro_batch=size):
        gnomon.ResNet(**options, max_updates=2).fit(X, y)
    return {"MB": _peak() - before, "seconds": time.process_time() - begun}


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """One line for each size."""
    for size in SIZES:
        found = json.loads(subprocess.check_output([sys.executable, __file__, str(size or "")], text=True))
        print(f"micro_batch {size or 'None':>4}: {found['MB']:6.0f} MB, {found['seconds']:5.1f} s")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(int(sys.argv[1]) if sys.argv[1] else None)))
    else:
        main()
