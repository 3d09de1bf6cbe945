"""Write the saved folders of this format that later versions must still read: python tests/artifacts/make.py.

A system's folder of a format is written once, by the version that introduced either, and never again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
CLASSIFIERS = ("softmax-regression", "logistic-regression")
"""Systems that are called a regression and predict classes."""


def data(name: str) -> tuple[Any, Any]:
    """Rows (or sentences) and labels that a system is fitted to and asked about."""
    k, j = np.arange(40)[:, None], np.arange(5)[None, :]
    table = ((7 * k + 3 * j + k * j) % 11) / 4.0
    if name == "ngram":
        words = ["sun", "dial", "shadow", "hour", "noon", "casts", "the"]
        return [" ".join(words[(i * (3 + i // 7) + p) % 7] for p in range(3 + i % 4)) for i in range(40)], None
    if name in ("ppca", "gaussian-mixture", "kmeans"):
        return table, None
    if name in ("bernoulli-mixture", "rbm"):
        return (table > 1).astype(float), None
    labels = np.array(["low", "mid", "high"])[(table.sum(axis=1)).astype(int) % 3]
    if name == "lenet":
        return np.kron(table[:, :4, None] / 3, np.ones((1, 2, 8))), labels
    numbers = name not in CLASSIFIERS and name.endswith(("regression", "regression-tree"))
    return table, table[:, 0] - table[:, 1] ** 2 if numbers else labels


def systems() -> dict[str, Any]:
    """One fit per system: the catalog's tiny arguments, or others that put a recipe into a slot."""
    import gnomon
    from gnomon.catalog import ENTRIES, card, make
    from gnomon.objectives.contrastive import PCD

    small = {"random_state": 0, "n_trees": 2, "max_depth": 2, "n_members": 2}
    fits = {}
    for one in ENTRIES:
        known = {parameter.name for parameter in card(one).parameters}
        fits[one.name] = make(one.name, **one.tiny | {name: v for name, v in small.items() if name in known})
    return fits | {
        "softmax-regression": gnomon.SoftmaxRegression(epochs=20, learning_rate=0.1, random_state=0),
        "ppca": gnomon.PPCA(n_components=2, random_state=0),
        "bernoulli-mixture": gnomon.BernoulliMixture(n_components=2, max_iter=10, random_state=0),
        "rbm": gnomon.RBM(n_hidden=3, objective=PCD(k=2), epochs=5, random_state=0),
        "ngram": gnomon.NGram(n=2, random_state=0),
    }


def facts(system: Any, name: str) -> dict[str, Any]:
    """What must stay the same: scores, and the arrays' names and sums."""
    X, y = data(name)
    arrays = {key: np.asarray(value) for key, value in system.model_.state().items()}
    return {
        "score": system.score(X, y),
        "sums": {key: float(v.astype(float).sum()) for key, v in arrays.items() if v.dtype.kind in "fiu"},
        "steps": system.n_steps_,
    }


def write(folder: Path) -> None:
    """A folder per system, and what they answer."""
    answers = folder / "expected.json"
    known = json.loads(answers.read_text()) if answers.exists() else {}
    for name, system in systems().items():
        if name in known:
            continue
        X, y = data(name)
        system.fit(X, y).save(folder / name)
        known[name] = facts(system, name)
    answers.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    from gnomon.runs.folder import FORMAT

    write(HERE / f"format-{FORMAT}")
