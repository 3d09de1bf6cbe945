"""Write the saved folders of this format that later versions must still read: python tests/artifacts/make.py.

Folders of a format are written once, by the version that introduced it, and never again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent


def data(name: str) -> tuple[Any, Any]:
    """Rows (or sentences) and labels that a system is fitted to and asked about."""
    k, j = np.arange(40)[:, None], np.arange(5)[None, :]
    table = ((7 * k + 3 * j + k * j) % 11) / 4.0
    if name == "ngram":
        words = ["sun", "dial", "shadow", "hour", "noon", "casts", "the"]
        return [" ".join(words[(i * (3 + i // 7) + p) % 7] for p in range(3 + i % 4)) for i in range(40)], None
    if name == "softmax-regression":
        return table, np.array(["low", "mid", "high"])[(table.sum(axis=1)).astype(int) % 3]
    return (table, None) if name == "ppca" else ((table > 1).astype(float), None)


def systems() -> dict[str, Any]:
    """One fit per system, with a recipe in a slot where there is one."""
    import gnomon
    from gnomon.objectives.contrastive import PCD

    return {
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
    known = {}
    for name, system in systems().items():
        X, y = data(name)
        system.fit(X, y).save(folder / name)
        known[name] = facts(system, name)
    (folder / "expected.json").write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    from gnomon.runs.folder import FORMAT

    target = HERE / f"format-{FORMAT}"
    if any(target.glob("*")):
        sys.exit(f"{target} is written already")
    write(target)
