"""Seconds from the call of a light command to its end, beside those of the bare interpreter: medians of five.

    python benchmarks/startup.py

Limits: 0.5 s for a command, 0.12 s for ``import gnomon``.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

COMMANDS = {
    "python -c pass": (["-c", "pass"], None),
    "python -c 'import gnomon'": (["-c", "import gnomon"], 0.12),
    "gnomon --help": (["-m", "gnomon", "--help"], 0.5),
    "gnomon list": (["-m", "gnomon", "list"], 0.5),
    "gnomon list 玻尔兹曼": (["-m", "gnomon", "list", "玻尔兹曼"], 0.5),
    "gnomon list parts": (["-m", "gnomon", "list", "parts"], 0.5),
    "gnomon info gibbs": (["-m", "gnomon", "info", "gibbs"], 0.5),
    "gnomon info rbm": (["-m", "gnomon", "info", "rbm"], 0.5),
    "gnomon fit rbm --help": (["-m", "gnomon", "fit", "rbm", "--help"], 0.5),
}


def seconds(arguments: list[str]) -> float:
    """Wall time of one run of the interpreter."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def main() -> None:
    """Print a line per command."""
    for name, (arguments, limit) in COMMANDS.items():
        seconds(arguments)  # compiles to bytecode
        median = statistics.median(seconds(arguments) for _ in range(5))
        print(
            f"{name:<28} {median:.3f} s" + ("" if limit is None else f"   limit {limit} s, {median / limit:.2f} of it")
        )


if __name__ == "__main__":
    main()
