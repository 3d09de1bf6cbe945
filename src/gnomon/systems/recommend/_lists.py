"""What the lists of a recommender are worth on ratings that it has not seen."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.data.relations import Ratings
from gnomon.evaluation.recommendation import Placements
from gnomon.evaluation.score import Score
from gnomon.systems.recommend._model import CELLS, FactorModel

__all__ = ["list_scores", "placements"]

LIST = 10
"""Items on a list that is judged."""


def list_scores(model: FactorModel, log: Ratings, relevant: NDArray[np.bool_]) -> dict[str, Score]:
    """Hit rate, precision, recall, average precision and gain of lists of ten, and the area under the ROC curve.

    To be found are the items of the relevant rows. Nothing where there are none.
    """
    placed = placements(model, log, relevant)
    if not len(placed.users):
        return {}
    measures = (placed.hit_rate, placed.precision, placed.recall, placed.average_precision, placed.ndcg)
    found = [measure(LIST) for measure in measures]
    if placed.n_others[placed.users].any():
        found.append(placed.auc())
    return {score.name: score for score in found}


def placements(model: FactorModel, log: Ratings, relevant: NDArray[np.bool_]) -> Placements:
    """Where the relevant items of each user stand among those that the user had not met in the fit.

    Items that the fit has not seen take no part; a relevant pair does, whether the fit has seen it or not.

    Parameters
    ----------
    model : FactorModel
    log : Ratings
        Held out.
    relevant : bool array of shape (n,)
        Which rows are to be found.
    """
    kept = np.flatnonzero(relevant)
    users = np.unique(log.users)
    rows = np.searchsorted(users, log.users[kept])
    codes, columns = model.users.codes(users), model.items.codes(log.items[kept])
    n_items = len(model.items)
    seen_rows, seen_columns = model.seen_by(codes)
    seen = np.unique(seen_rows * n_items + seen_columns)
    wanted = np.unique((rows * n_items + columns)[columns >= 0])
    seen = seen[~np.isin(seen, wanted)]
    found = Placements()
    size = max(1, CELLS // n_items)
    for begin in range(0, len(users), size):
        stop = min(begin + size, len(users))
        lists = [_lists(keys, begin, stop, n_items) for keys in (wanted, seen)]
        found.update(model.rows(codes[begin:stop]), *lists)
    return found


def _lists(keys: NDArray[np.int64], begin: int, stop: int, width: int) -> tuple[Any, Any]:
    """Offsets and columns of the rows from begin to stop, of sorted keys row * width + column."""
    cuts = np.searchsorted(keys, np.arange(begin, stop + 1) * width)
    return cuts - cuts[0], keys[cuts[0] : cuts[-1]] % width
