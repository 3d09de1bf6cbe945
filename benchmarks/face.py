"""What the face adds to the fits: seconds of a comparison beside those of its fits, and of a report.

    python benchmarks/face.py

Bounds: a comparison adds less than 5 % to the sum of its fits; the report of a finished run takes less than 5 s, the
interpreter and its imports included, that of a machine of which chains are drawn 6 s (docs/decisions/0056). No import
is part of a second report by the same interpreter.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import gnomon

SYSTEMS = ("mlp", "random-forest", "softmax-regression")
IMPORTS = "import torch, sklearn.base, matplotlib.figure, numba"
RUNS = {"mlp": "digits", "logistic-regression": "breast-cancer", "rbm": "digits", "linear-regression": "diabetes"}


def comparison() -> str:
    """Five seeds of each system on digits, kept as runs."""
    with gnomon.context(verbose=False), tempfile.TemporaryDirectory() as folder:
        gnomon.compare(["softmax-regression"], "digits", out=Path(folder) / "first")  # imports, compiling
        begun = time.perf_counter()
        [board] = gnomon.compare(list(SYSTEMS), "digits", seeds=5, out=Path(folder) / "runs")
        whole = time.perf_counter() - begun
    fits = sum(line.seconds for line in board.lines if line.run)
    return f"compare: {whole:.2f} s, its fits {fits:.2f} s, {whole / fits - 1:+.1%} (bound +5 %)"


def seconds(arguments: list[str]) -> float:
    """Of an interpreter, median of three."""
    took = []
    for _ in range(3):
        begun = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        took.append(time.perf_counter() - begun)
    return statistics.median(took)


def reports() -> list[str]:
    """The command on finished runs."""
    lines = [f"{IMPORTS}: {seconds(['-c', IMPORTS]):.2f} s"]
    with tempfile.TemporaryDirectory() as folder:
        for system, data in RUNS.items():
            run = str(Path(folder) / system)
            subprocess.run(
                [sys.executable, "-m", "gnomon", "fit", system, data, "--out", run], check=True, capture_output=True
            )
            whole = seconds(["-m", "gnomon", "report", run])
            gnomon.report(run)
            begun = time.perf_counter()
            gnomon.report(run)
            again = time.perf_counter() - begun
            bound = 6 if system == "rbm" else 5
            lines.append(f"report {system:<22} {whole:.2f} s (bound {bound} s), {again:.2f} s the second time")
    return lines


def main() -> None:
    """Print a line per measurement."""
    print(comparison())
    for line in reports():
        print(line)


if __name__ == "__main__":
    main()
