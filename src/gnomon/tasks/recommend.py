"""Task recommend: ratings that nobody has seen yet, and the items that a user would like best."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gnomon.data.dataset import Dataset
from gnomon.data.loading import load
from gnomon.data.names import BUILTIN
from gnomon.data.pairs import Ratings, ratings
from gnomon.data.rating_splits import split_ratings
from gnomon.errors import UserValueError
from gnomon.systems.recommend.matrix_factorization import ALS, MatrixFactorization
from gnomon.tasks import maps, pictures
from gnomon.tasks.base import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Recommend"]


class Recommend(Task):
    """Root of the mean squared error of held-out ratings, and what lists of ten items are worth.

    A held-out item is one to be found where its rating is at least the mean of the training ratings. Lists leave out
    what a user had rated in the training part. The baseline is a mean with a bias for every user and item.
    """

    name: ClassVar[str] = "recommend"
    title: ClassVar[str] = "Recommendation"
    title_zh: ClassVar[str] = "推荐"
    primary: ClassVar[str] = "rmse"
    verbs: ClassVar[tuple[str, ...]] = ("predict", "recommend", "similar_items")
    example_data: ClassVar[str] = "movielens-100k"
    splits: ClassVar[tuple[str, ...]] = ("random", "user", "time")

    def read(
        self,
        name: str | os.PathLike[str],
        *,
        target: str | int | None = None,
        columns: Sequence[str] | None = None,
        kinds: Mapping[str, str] | None = None,
    ) -> Dataset:
        """Ratings by name, or from a table with a column of users, one of items, and one of ratings.

        Parameters
        ----------
        name : name or file
        target : str or int, optional
            Column of the ratings.
        columns : sequence of two or three str, optional
            Columns of users, of items, and of times; found by their usual names where left out.
        """
        if name in BUILTIN:
            return load(name, target=target, columns=columns)
        if columns is not None and len(columns) not in (2, 3):
            what = f"columns must be those of users and items, and of times if there are any, got {len(columns)}"
            raise UserValueError(what, "--columns", "give 2 or 3")
        places = dict(zip(("user", "item", "time"), columns or (), strict=False))
        log = ratings(name, value=target, **places)
        return Dataset(log.name, ratings=log, source={"name": str(name)})

    def check(self, data: Dataset, system: Any) -> None:
        """Ids, and a finite rating for every pair."""
        log = system.domain.check(self.examples(data, system)[0], name=data.name)
        if log.values is None:
            raise UserValueError("there must be a rating for every pair, got none", data.name, "name their column")

    def split(self, data: Dataset, *, test: float, seed: int = 0, how: str | None = None) -> tuple[Dataset, Dataset]:
        """A fraction of all pairs at random, or some rows of each user: ``user:3`` at random, ``time:3`` the latest."""
        how = how or "random"
        if not re.fullmatch(r"random|(?:user|time)(?::[1-9][0-9]{0,8})?", how):
            what = f"split must be random, user or time, or such as time:3, got {how!r}"
            raise UserValueError(what, "--split", "the number says how many rows of each user are kept out, 1 or more")
        mode, _, count = how.partition(":")
        log: Ratings = data.view("ratings")
        train, held = split_ratings(log, mode, test=test, n_test=int(count or 1), seed=seed)  # type: ignore[arg-type]
        facts = {"test": test, "split_seed": seed, "split": how}
        return data.take(train, "train", **facts), data.take(held, "test", **facts)

    def baseline(self, system: Any, X: Any, y: Any) -> tuple[str, Any]:
        """Mean and biases."""
        biases = MatrixFactorization(n_factors=0, learner=ALS(iterations=10), random_state=0)
        return "mean and biases", biases.fit(X, y)

    def figures(self, system: Any, X: Any, y: Any, shape: tuple[int, ...] | None = None) -> dict[str, Figure]:
        """How far expected ratings are off; items by their factors, those with many ratings larger."""
        log = system.domain.check(X, y)
        errors = pictures.histogram(system.predict(log) - log.values, "expected less true rating")
        return {"errors": errors} | self.map_of_items(system)

    def map_of_items(self, system: Any) -> dict[str, Figure]:
        """Items by their factors, where there are two or more, those of many users larger."""
        factors = np.asarray(system.item_factors_, np.float64)
        if min(factors.shape) < 2:
            return {}
        counts = np.bincount(system.model_.seen_items, minlength=len(factors))
        return {"items": maps.weighted(maps.map_of(factors), counts)}
