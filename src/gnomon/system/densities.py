"""What scores of densities say of their rows: the units, and columns that make a density grow without limit."""

from __future__ import annotations

from typing import Any

from gnomon.evaluation.data_units import sign
from gnomon.evaluation.degenerate import with_floor
from gnomon.evaluation.score import Score
from gnomon.numeric.sparse import is_sparse

__all__ = ["with_signature"]


def with_signature(system: Any, scores: dict[str, Score], rows: Any) -> dict[str, Score]:
    """Scores of a fitted system, those of densities with the signature of the rows and a note of degenerate columns.

    Parameters
    ----------
    system : System
    scores : dict of str to Score
    rows : array of shape (n, ...)
        As the model takes them, scaled where the fit scales them.
    """
    if is_sparse(rows) or not any(score.data_space.startswith("density") for score in scores.values()):
        return scores
    own = system._in_units(rows)
    return {name: with_floor(score, system, own) for name, score in sign(scores, own).items()}
