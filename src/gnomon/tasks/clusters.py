"""How many clusters there are: fits of one system with several numbers of them, judged without labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from gnomon.contracts import HasLogProb, supports
from gnomon.errors import UserError, UserTypeError, UserValueError
from gnomon.evaluation.clusters import silhouette, stability
from gnomon.evaluation.score import Score
from gnomon.system.base import System

__all__ = ["NUMBERS", "Choice", "choose_k", "criteria", "number_of"]

NUMBERS = ("n_clusters", "n_components")
"""Hyper-parameters that say how many clusters there are."""
STRONG = 10.0
"""A difference in BIC that is strong evidence (Kass and Raftery 1995)."""


@dataclass(frozen=True)
class Choice:
    """How many clusters there are, by a criterion.

    Parameters
    ----------
    number : str
        The hyper-parameter, for example ``n_clusters``.
    by : str
        The criterion: ``bic`` where there is a likelihood, else ``silhouette``.
    scores : dict of int to dict of str to Score
        Scores of every number of clusters, each by name.
    """

    number: str
    by: str
    scores: dict[int, dict[str, Score]]

    @property
    def best(self) -> int:
        """The number of clusters with the best value; the smallest of equals."""
        sign = 1 if next(iter(self.scores.values()))[self.by].higher_is_better else -1
        return max(self.scores, key=lambda k: (sign * self.scores[k][self.by].value, -k))

    @property
    def rivals(self) -> tuple[int, ...]:
        """Other numbers that are not clearly worse: within 10 of the best BIC, or by the errors of silhouettes."""
        top = self.scores[self.best][self.by]

        def near(score: Score) -> bool:
            if self.by == "bic":
                return score.value - top.value < STRONG
            return score.against(top) != "worse"

        return tuple(k for k in self.scores if k != self.best and near(self.scores[k][self.by]))

    def to_json(self) -> dict[str, Any]:
        """As names, numbers and lists."""
        lines = [
            {self.number: k, "scores": {name: score.to_json() for name, score in found.items()}}
            for k, found in self.scores.items()
        ]
        return {"number": self.number, "by": self.by, "best": self.best, "rivals": list(self.rivals), "lines": lines}

    def __str__(self) -> str:
        names = list(next(iter(self.scores.values())))
        head = [self.number, *names]
        body = [[str(k), *(_cell(found[name]) for name in names)] for k, found in self.scores.items()]
        widths = [max(len(row[j]) for row in (head, *body)) for j in range(len(head))]
        lines = ["  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in (head, *body)]
        also = f"; not clearly worse: {', '.join(map(str, self.rivals))}" if self.rivals else ""
        return "\n".join([*lines, f"{self.number}={self.best} by {self.by}{also}"])


def _cell(score: Score) -> str:
    error = float(np.hypot(score.stderr, score.error))
    if score.name in ("bic", "aic"):
        return f"{score.value:.1f}"
    if np.isnan(score.value):
        return "undefined"
    return f"{score.value:.3f} ± {error:.2g}" if np.isfinite(error) and error > 0 else f"{score.value:.3f}"


def number_of(system: Any) -> str:
    """The hyper-parameter that says how many clusters a system finds.

    Raises
    ------
    UserTypeError
        A system without one.

    Examples
    --------
    >>> import gnomon
    >>> number_of(gnomon.KMeans())
    'n_clusters'
    """
    known = system.get_params(deep=False)
    found = [name for name in NUMBERS if name in known]
    if "cluster" not in system.tasks or not found:
        what = f"{system.name or type(system).__name__} has no number of clusters"
        raise UserTypeError(what, "system", "choose kmeans or a mixture")
    return found[0]


def criteria(system: Any, X: Any) -> dict[str, Score]:
    """BIC and AIC of a fitted system on the rows of its fit; nothing where it has no likelihood.

    Examples
    --------
    >>> import gnomon
    >>> list(criteria(gnomon.KMeans(n_clusters=1, random_state=0).fit([[0.0], [1.0]]), [[0.0], [1.0]]))
    []
    """
    if not hasattr(system, "bic") or not supports(system.model_, HasLogProb):
        return {}
    facts: dict[str, Any] = {"unit": "", "data_space": f"fit to {len(X)} rows", "higher_is_better": False, "n": len(X)}
    return {name: Score(getattr(system, name)(X), name=name, **facts) for name in ("bic", "aic")}


def choose_k(
    system: System, X: Any, numbers: Sequence[int] = tuple(range(1, 11)), *, repeats: int = 3, seed: int = 0
) -> Choice:
    """Fit a system with several numbers of clusters and judge each without labels.

    By the Bayesian information criterion where the system has a likelihood (a mixture), else by the mean silhouette,
    which leaves one cluster out of account. `stability` stands beside them.

    Parameters
    ----------
    system : System
        ``kmeans`` or a mixture; never changed.
    X : array of shape (n, d)
        As the system takes it: brought to one scale where the columns have units of their own.
    numbers : sequence of int, default 1 to 10
    repeats : int, default 3
        Pairs of halves for the stability; 0 leaves it out.
    seed : int, default 0
        Of the halves and of the rows whose silhouette is taken.

    Raises
    ------
    UserError
        A system without a number of clusters, numbers that the rows do not allow.

    Examples
    --------
    >>> import gnomon
    >>> X = gnomon.data.load("iris").X
    >>> choose_k(gnomon.GaussianMixture(random_state=0), X, [1, 2, 3], repeats=0).best
    2
    """
    name = number_of(system)
    if not numbers:
        raise UserValueError("no number of clusters to try", "numbers", "name at least one")
    X = system.domain.check(X)
    if len(X) < 3:
        raise UserValueError(
            f"there must be at least 3 rows to tell clusters apart, got {len(X)}", "X", "give more rows"
        )
    scores = {}
    for k in numbers:
        made = clone(system).set_params(**{name: k}).fit(X)
        found = criteria(made, X) | _silhouette(X, made.predict(X), seed)
        if repeats and len(X) >= 2 * max(k, 2):
            found["stability"] = stability(made, X, repeats=repeats, seed=seed)
        elif repeats:
            found["stability"] = Score(np.nan, name="stability", unit="fraction", note="too few rows for two halves")
        scores[k] = found
    by = "bic" if "bic" in scores[numbers[0]] else "silhouette"
    if by not in scores[numbers[0]]:
        raise UserValueError("clusters of rows with missing values cannot be judged", "X", "fill in what is missing")
    return Choice(name, by, scores)


def _silhouette(X: Any, labels: Any, seed: int) -> dict[str, Score]:
    """The mean silhouette, where distances are known."""
    try:
        return {"silhouette": silhouette(X, labels, seed=seed)}
    except UserError:
        return {}
