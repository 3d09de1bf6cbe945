"""Task rank: the items that a user will meet, from which users met which items so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gnomon.data.dataset import Dataset
from gnomon.evaluation.score import Score
from gnomon.numeric.noise import Noise
from gnomon.systems.recommend._lists import list_scores, placements
from gnomon.systems.recommend.implicit_factorization import ImplicitFactorization
from gnomon.tasks import pictures
from gnomon.tasks.recommend import Recommend

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Popularity", "Rank", "lengths_of_lists"]

LENGTHS = (1, 2, 5, 10, 20, 50, 100)
"""Of the lists of a ranking curve."""


class Popularity:
    """The same list for everybody: items by how often they were met.

    Parameters
    ----------
    X, y : pairs
        As `ImplicitFactorization.fit` takes them.
    """

    def __init__(self, X: Any, y: Any = None) -> None:
        self.system = ImplicitFactorization(n_factors=0)
        examples = self.system.ingest(X, y)
        self.model = self.system.make(**self.system.arguments(examples))
        self.system.initialize(self.model, examples, Noise(0, "popularity"))
        self.n_parameters = len(self.model.items)
        self.model.item_bias[:] = np.bincount(examples["item"].parts[0], examples.weight, self.n_parameters)

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Scores of the lists."""
        log = self.system.domain.check(X, y)
        return list_scores(self.model, log, np.ones(len(log), bool))


class Rank(Recommend):
    """What lists of ten items are worth on held-out pairs, all of which are to be found; values play no part.

    Lists leave out what a user met in the training part. The baseline is the list of the most popular items.
    """

    name: ClassVar[str] = "rank"
    title: ClassVar[str] = "Ranking of items"
    title_zh: ClassVar[str] = "物品排序"
    primary: ClassVar[str] = "ndcg@10"

    def check(self, data: Dataset, system: Any) -> None:
        """Ids."""
        system.domain.check(self.examples(data, system)[0], name=data.name)

    def baseline(self, system: Any, X: Any, y: Any) -> tuple[str, Any]:
        """The most popular items for everybody."""
        return "most popular items", Popularity(X, y)

    def figures(self, system: Any, X: Any, y: Any, shape: tuple[int, ...] | None = None) -> dict[str, Figure]:
        """Recall, precision and gain of lists of each length; items by their factors, those of many users larger."""
        return lengths_of_lists(system, X, y) | self.map_of_items(system)


def lengths_of_lists(system: Any, X: Any, y: Any = None) -> dict[str, Figure]:
    """Recall, precision and discounted gain against the length of a list; nothing where no user has items to find."""
    log = system.domain.check(X, y)
    placed = placements(system.model_, log, np.ones(len(log), bool))
    if not len(placed.users):
        return {}
    lengths = [k for k in LENGTHS if k <= len(system.model_.items)]
    series: dict[str, list[tuple[float, float] | None]] = {}
    for measure in (placed.recall, placed.precision, placed.ndcg):
        found = [measure(k) for k in lengths]
        series[measure.__name__] = [(one.value, one.stderr) for one in found]
    return {"lists": pictures.validation(lengths, series, "items on the list", "share")}
