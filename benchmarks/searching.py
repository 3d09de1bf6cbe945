"""What a search brings beyond the defaults, on rows that no trial has seen; and what its trials cost beside their fits.

    OMP_NUM_THREADS=1 python benchmarks/searching.py gain [SYSTEM DATA] [--splits 5] [--trials 30] [--out FILE]
    OMP_NUM_THREADS=1 python benchmarks/searching.py cost [--trials 60]

``gain`` searches once for each split (its seed is that of the search, too) and prints the scores of the best and of the
system as it was on the same rows held out, and the mean of their differences with its error over the splits, of the
metric of the search and of the log likelihood. Splits share rows, so that the error speaks of other splits of the same
data. With ``--out`` every trial is written as JSON.

``cost`` prints the milliseconds of a trial of a function that costs nothing, in memory and on a store of SQLite.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import gnomon
from gnomon.search.dimensions import RealRange, WholeRange
from gnomon.search.found import Found
from gnomon.search.study import Study
from gnomon.search.trials import SearchPlan


def paired(found: Found) -> dict[str, tuple[float, float]]:
    """Test scores of the best and of the system as it was."""
    lines = {line.settings: line for line in found.board.lines if line.name == found.system.name}
    if len(lines) == 1:
        lines[""] = next(iter(lines.values()))  # the best is the system as it was
    default = lines.pop("")
    best = next(iter(lines.values()), default)
    scores = {found.metric: (best.score.value, default.score.value)}
    return scores | {name: (best.others[name].value, default.others[name].value) for name in best.others}


def gain(given: argparse.Namespace) -> None:
    """Print the scores of every split, and the differences."""
    kept: list[dict[str, Any]] = []
    for seed in range(given.splits):
        begun = time.perf_counter()
        found = gnomon.search(
            given.system, given.data, trials=given.trials, strategy=given.strategy, seed=seed, split_seed=seed,
            metric=given.metric,
        )  # fmt: skip
        scores = paired(found)
        chosen = ", ".join(f"{name}={value}" for name, value in found.best.parameters.items())
        text = "  ".join(f"{name} {best:.4f} / {was:.4f}" for name, (best, was) in scores.items())
        print(f"split {seed}: {text}  ({chosen}; {time.perf_counter() - begun:.0f} s)", flush=True)
        kept.append({"scores": scores, "trials": [one.to_json() for one in found.trials]})
        if given.out:
            Path(given.out).write_text(json.dumps(kept))
    for name in kept[0]["scores"]:
        found_, was = np.array([one["scores"][name] for one in kept]).T
        differences = found_ - was
        error = differences.std(ddof=1) / np.sqrt(len(differences)) if len(differences) > 1 else np.nan
        print(
            f"{name}: {found_.mean():.4f} searched, {was.mean():.4f} default, {differences.mean():+.4f} ± {error:.4f}"
        )


def stores(folder: str) -> dict[str, Path | None]:
    """Where trials can be kept."""
    return {"memory": None, "SQLite": Path(folder) / "s.db"}


def cost(given: argparse.Namespace) -> None:
    """Print milliseconds of a trial."""
    space = {"x": RealRange(-5.0, 5.0), "y": RealRange(1e-3, 1.0, log=True), "n": WholeRange(1, 1000, log=True)}
    for strategy in ("random", "tpe"):
        plan = SearchPlan(space, strategy, given.trials, 0, higher_is_better=False)
        for where in ("memory", "SQLite"):
            with tempfile.TemporaryDirectory() as folder, Study(plan, stores(folder)[where]) as study:
                begun = time.perf_counter()
                study.run(lambda values, report: (values["x"] - 2) ** 2 + np.log(values["y"]) ** 2)
                each = (time.perf_counter() - begun) / given.trials
            print(f"{strategy} in {where}: {1e3 * each:.1f} ms for each of {given.trials} trials", flush=True)


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("gain", "cost"))
    parser.add_argument("system", nargs="?", default="mlp")
    parser.add_argument("data", nargs="?", default="digits")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--strategy", default="tpe")
    parser.add_argument("--metric")
    parser.add_argument("--out")
    given = parser.parse_args()
    (gain if given.what == "gain" else cost)(given)


if __name__ == "__main__":
    main()
