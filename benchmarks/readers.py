"""Seconds to read a CSV file of numbers as a float64 table, beside polars; memory of the same file in chunks.

    python benchmarks/readers.py [GIGABYTES]

The file (1 GB unless said otherwise) is written into a temporary folder and removed. The readers run in fresh
processes, in turn, three times each; the file is in the page cache for all. Peer: ``polars.read_csv(file).to_numpy()``,
which checks neither the width of short lines nor rounding. Limit: 1.3 times its time. In chunks the limit is on memory:
400 MB above the imports, whatever the size of the file.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

COLUMNS = 20
READERS = {
    "polars.read_csv(file).to_numpy(order='c')": "X = pl.read_csv(file).to_numpy(order='c')",
    "gnomon.data.read(file).X": "X = data.read(file).X",
    "gnomon.data.open(file), chunks summed": "X = sum(chunk.sum(axis=0) for chunk in data.open(file))[None]",
}
PROGRAM = """
import resource, sys, time
import numpy as np, polars as pl
import gnomon.data as data, gnomon.data.readers, gnomon.data.streams
file = sys.argv[1]
with open(file, "rb") as stream:
    while stream.read(1 << 26):
        pass
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
begun = time.perf_counter()
{code}
seconds = time.perf_counter() - begun
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(seconds, grown / 1024, X.shape[0], X.nbytes / 2**20, repr(float(X[0, 0])), repr(float(X[-1, -1])))
"""


def write(file: Path, gigabytes: float) -> int:
    """Write standard normal numbers with six decimals; the number of rows."""
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(0)
    rows = 0
    with file.open("wb") as stream:
        while stream.tell() < gigabytes * 1e9:
            frame = pl.DataFrame(rng.normal(size=(100_000, COLUMNS)), schema=[f"c{i}" for i in range(COLUMNS)])
            frame.write_csv(stream, include_header=not rows, float_precision=6)
            rows += len(frame)
    return rows


def measure(code: str, file: Path) -> tuple[float, float, list[str]]:
    """Seconds, MB of memory above the imports, and what was read, in a fresh process."""
    command = [sys.executable, "-c", PROGRAM.format(code=code), str(file)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(out[0]), float(out[1]), out[2:]


def main() -> None:
    """Print a line per reader: median seconds, ratio to polars, memory."""
    gigabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "numbers.csv")
        rows = write(file, gigabytes)
        print(f"{file.stat().st_size / 1e9:.2f} GB, {rows} rows x {COLUMNS} columns")
        found: dict[str, list[tuple[float, float, list[str]]]] = {name: [] for name in READERS}
        for _ in range(3):
            for name, code in READERS.items():
                found[name].append(measure(code, file))
        polars, gnomon, _ = (runs[0][2] for runs in found.values())
        assert polars == gnomon, "the two tables differ"
        peer = statistics.median(run[0] for run in next(iter(found.values())))
        for name, runs in found.items():
            seconds = statistics.median(run[0] for run in runs)
            memory = max(run[1] for run in runs)
            spread = f"{min(run[0] for run in runs):.2f} ... {max(run[0] for run in runs):.2f}"
            print(f"{name:<44} {seconds:6.2f} s ({spread}), {seconds / peer:4.2f} x polars, {memory:6.0f} MB")


if __name__ == "__main__":
    main()
