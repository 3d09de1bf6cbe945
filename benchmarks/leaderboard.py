"""Models of binary images on one leaderboard: exact log-likelihoods, bounds and estimates with their errors.

    OMP_NUM_THREADS=1 python benchmarks/leaderboard.py digits [--seed 0] [--out leaderboard] [ENTRY ...]
    OMP_NUM_THREADS=1 python benchmarks/leaderboard.py mnist-5k

Pixels are zeros and ones (1 from half of the highest grey level on). Of `digits` three tenths are held out, of
`mnist-5k` a fifth; a fifth of the other rows chooses among the settings of each entry, and when gradient steps end, and
is not learned from. Log-likelihoods are in nats per row:

- exact of a mixture and of chain rules;
- of models with latent variables the bound of 500 importance-weighted draws for each row, beside the evidence lower
  bound; both are below the truth in expectation;
- of the restricted machine an estimate, by annealing 100 chains; log Z is annealed from both sides, and the larger end
  chooses.

Every fit is kept in the folder `out` with what it was judged by, so that a run that was stopped goes on from there.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import gnomon
from gnomon.evaluation import Score

Options = Mapping[str, Any]
WATCHED = {"early_stopping": "patience"}
DRAWS = 500
SHARES = {"digits": 0.3, "mnist-5k": 0.2}
LARGE = "mnist-5k"
PAIRS = (
    ("nade", "bernoulli-mixture"),
    ("deep-nade", "nade"),
    ("vae, iwae", "vae"),
    ("sbn", "sbn, wake-sleep"),
    ("helmholtz-machine, reweighted", "helmholtz-machine"),
)
"""Which is to be above which."""


@dataclass(frozen=True)
class Entry:
    """A line of the leaderboard."""

    system: str
    fixed: Options
    small: tuple[Options, ...]
    """Settings to choose from for images of 8 x 8 pixels,"""
    large: tuple[Options, ...]
    """and of 28 x 28."""


NETS = ({"hidden": (64,)}, {"hidden": (64, 64)}, {"hidden": (200,)})
LARGE_NETS = tuple({"hidden": sizes, "learning_rate": 3e-3, "epochs": 60} for sizes in ((200,), (200, 200)))
CODES = ({"n_latent": 10}, {"n_latent": 20})
LARGE_CODES = ({"n_latent": 20}, {"n_latent": 50})
BELIEF = {"epochs": 200, **WATCHED}
AUTOENCODER = {"likelihood": "bernoulli", **WATCHED}

BOARD: Mapping[str, Entry] = {
    "bernoulli-mixture": Entry(
        "bernoulli-mixture",
        {},
        tuple({"n_components": k} for k in (10, 20, 40, 80)),
        tuple({"n_components": k} for k in (20, 50, 100, 200)),
    ),
    "rbm": Entry(
        "rbm",
        {},
        tuple({"n_hidden": 64, "objective": one, "epochs": n} for one in ("cd", "pcd") for n in (400, 1600)),
        tuple(
            {"n_hidden": 200, "objective": one, "epochs": n, "batch_size": 50} for one in ("cd", "pcd") for n in (300,)
        ),
    ),
    "nade": Entry(
        "nade",
        {"epochs": 100, **WATCHED},
        ({"n_hidden": 64}, {"n_hidden": 128}),
        ({"n_hidden": 500}, {"n_hidden": 200}),
    ),
    "deep-nade": Entry(
        "deep-nade",
        {**WATCHED, "early_stopping__patience": 50},
        ({"hidden": (128, 128)}, {"hidden": (256, 256)}),
        ({"hidden": (256, 256), "epochs": 100},),
    ),
    "vae": Entry("vae", {"objective": "elbo", **AUTOENCODER}, CODES, LARGE_CODES),
    "vae, iwae": Entry("vae", {"objective": "iwae", **AUTOENCODER}, CODES, LARGE_CODES),
    "sbn": Entry("sbn", {"objective": "reweighted-wake-sleep", **BELIEF}, NETS, LARGE_NETS),
    "sbn, wake-sleep": Entry("sbn", {"objective": "wake-sleep", **BELIEF}, NETS, LARGE_NETS),
    "helmholtz-machine, reweighted": Entry(
        "helmholtz-machine", {"objective": "reweighted-wake-sleep", **BELIEF}, NETS, LARGE_NETS
    ),
    "helmholtz-machine": Entry("helmholtz-machine", {"objective": "wake-sleep", **BELIEF}, NETS, LARGE_NETS),
}


@dataclass(frozen=True)
class Judged:
    """What is said of an entry."""

    score: Score
    notes: str


class Board:
    """The rows, and the folder of the fits."""

    def __init__(self, data: str, seed: int, out: str) -> None:
        self.data, self.seed, self.folder = data, seed, Path(out) / f"{data}-{seed}"
        train, test = gnomon.data.split(gnomon.data.load(data), test=SHARES[data], seed=0, how="random")
        learn, choose = gnomon.data.split(train, test=0.2, seed=1, how="random")
        self.X, self.V, self.T = (np.asarray(part.view("binary"), np.float32) for part in (learn, choose, test))

    def line(self, name: str) -> Judged:
        """Fit an entry with each of its settings, choose, and judge; or what was found before."""
        entry, folder = BOARD[name], self.folder / name.replace(", ", "-")
        kept = folder / "judged.npz"
        if kept.exists():
            return _read(kept)
        settings = entry.large if self.data == LARGE else entry.small
        tries = [self.fitted(entry, one, folder / f"{i}") for i, one in enumerate(settings)]
        best = int(np.argmax([one["chosen_by"] for one in tries]))
        judged = self.judge(gnomon.load(folder / f"{best}"), settings[best], tries[best]["seconds"])
        _write(kept, judged)
        return judged

    def fitted(self, entry: Entry, options: Options, folder: Path) -> dict[str, float]:
        """What the validation rows say of a setting, and the seconds of its fit; the fit is kept."""
        note = folder.with_suffix(".json")
        if note.exists():
            found: dict[str, float] = json.loads(note.read_text())
            return found
        system = gnomon.make(entry.system, random_state=self.seed, **{**entry.fixed, **options})
        begun = time.process_time()
        system.fit(self.X, **({"validation": (self.V, None)} if "early_stopping" in entry.fixed else {}))
        seconds = time.process_time() - begun
        found = {"chosen_by": self.worth(system), "seconds": seconds}
        print(
            f"  {entry.system} {_text(options)}: {found['chosen_by']:.2f} on validation rows, {seconds:.0f} s",
            flush=True,
        )
        system.save(folder)
        note.write_text(json.dumps(found))
        return found

    def worth(self, system: Any) -> float:
        """The log-likelihood of the validation rows; of a machine with the larger end of log Z."""
        if hasattr(system, "log_prob") or hasattr(system, "elbo"):
            return float(system.evaluate(self.V)["log_likelihood"].value)
        log_z = system.log_partition("bracket", X=self.X)
        return float(-np.mean(system.energy(self.V)) - max(log_z.lower, log_z.upper))

    def judge(self, system: Any, options: Options, seconds: float) -> Judged:
        """The log-likelihood of the rows that were held out, and how it is known."""
        notes = f"{_text(options)}; {seconds:.0f} s"
        if hasattr(system, "log_prob"):
            return Judged(system.evaluate(self.T)["log_likelihood"], notes)
        if hasattr(system, "elbo"):
            return Judged(system.log_prob_bound(self.T, DRAWS), f"evidence lower bound {system.elbo(self.T)}; {notes}")
        log_z = system.log_partition("bracket", X=self.X, schedule=1000)
        values = -np.asarray(system.energy(self.T), np.float64) - log_z.value
        space = system.outcomes.space(self.T.shape[1])
        ends = f"log Z from {log_z.lower:.2f} to {log_z.upper:.2f} (+- {log_z.gap_error:.2f})"
        score = Score.from_pointwise(values, error=log_z.error, kind="estimate", data_space=space)
        return Judged(score, f"{ends}, {log_z.missed} chains elsewhere; {notes}")


def _text(options: Options) -> str:
    return ", ".join(
        f"{key}={'x'.join(map(str, one)) if isinstance(one, tuple) else one}" for key, one in options.items()
    )


KEPT = ("error", "kind", "data_space", "note")


def _write(file: Path, judged: Judged) -> None:
    facts = {key: getattr(judged.score, key) for key in KEPT}
    np.savez(file, values=judged.score.pointwise, facts=json.dumps({**facts, "notes": judged.notes}))


def _read(file: Path) -> Judged:
    with np.load(file) as found:
        facts = json.loads(str(found["facts"]))
        notes = facts.pop("notes")
        return Judged(Score.from_pointwise(found["values"], **facts), notes)


def main() -> None:
    """The table, and the differences that matter."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", default="digits", choices=tuple(SHARES))
    parser.add_argument("entries", nargs="*", metavar="ENTRY")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="leaderboard")
    given = parser.parse_args()
    unknown = [one for one in given.entries if one not in BOARD]
    if unknown:
        parser.error(f"no entry {unknown[0]!r}; choose from {'; '.join(BOARD)}")
    board = Board(given.data, given.seed, given.out)
    print(f"{given.data}: {len(board.X)} rows, {len(board.V)} to choose, {len(board.T)} held out, seed {given.seed}")
    found = {name: board.line(name) for name in given.entries or BOARD}
    for name, one in sorted(found.items(), key=lambda item: -item[1].score.value):
        print(f"{name:30s} {one.score}  {one.notes}")
        if one.score.note:
            print(f"{'':30s} {one.score.note}")
    for better, worse in PAIRS:
        if better in found and worse in found:
            difference, error = found[better].score.difference(found[worse].score)
            beyond = "beyond" if abs(difference) > 1.96 * error else "within"
            print(f"{better} over {worse}: {difference:+.2f} +- {error:.2f}, {beyond} the error")


if __name__ == "__main__":
    main()
