"""The blind test of samples: people who do not know which are real say so of each, and are counted.

Good samples do not show a good model of the data: a copy of a training row fools everyone, and nobody sees what the
model never makes. See `gnomon.evaluation.memorization` and `density_coverage` for these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise, seed_of
from gnomon.recipes.parameters import how_many

__all__ = ["MODEL", "REAL", "BlindTrial", "TrialScore", "exact_interval", "make_blind_trial", "score_trial"]

REAL, MODEL = "real", "model"
"""What an item is, and what is answered."""


@dataclass(frozen=True)
class BlindTrial:
    """Real and model items in random order.

    Parameters
    ----------
    items : array of shape (n, ...)
    truth : array of str, shape (n,)
        ``real`` or ``model``.
    places : int64 array of shape (n,)
        Where each item stands among those that were given.
    """

    items: NDArray[Any]
    truth: NDArray[np.str_]
    places: NDArray[np.int64]


def make_blind_trial(real: Any, made: Any, n: int | None = None, *, random_state: Any = None) -> BlindTrial:
    """As many real items as items of a model, drawn without choosing, in random order.

    Parameters
    ----------
    real, made : arrays of shape (m, ...), (k, ...)
        Real ones that the model has not seen, and the model's.
    n : even int in [2, 2 min(m, k)], optional
        Items in all; as many as there are by default.
    random_state : int, None or NumPy generator
        The same items in the same order.

    Returns
    -------
    BlindTrial
        n / 2 of each, none twice.

    Raises
    ------
    UserValueError
        An odd number or one that is too large, items of two shapes.

    Examples
    --------
    >>> trial = make_blind_trial(np.zeros((5, 2)), np.ones((4, 2)), 6, random_state=0)
    >>> sorted(trial.truth.tolist()), bool(((trial.items[:, 0] == 1) == (trial.truth == "model")).all())
    (['model', 'model', 'model', 'real', 'real', 'real'], True)
    """
    parts = {REAL: np.asarray(real), MODEL: np.asarray(made)}
    if parts[REAL].shape[1:] != parts[MODEL].shape[1:]:
        what = f"items must be of one shape, got {parts[REAL].shape[1:]} real and {parts[MODEL].shape[1:]} made"
        raise UserValueError(what, "made")
    most = 2 * min(map(len, parts.values()))
    n = most if n is None else how_many(n, "n")
    if n % 2 or not 2 <= n <= most:
        raise UserValueError(f"n must be an even number from 2 to {most}, got {n}", "n", "half of the items are real")
    noise = Noise(seed_of(random_state), "blind")
    half = n // 2
    places = np.concatenate([noise.child(name).order(len(rows))[:half] for name, rows in parts.items()])
    items = np.concatenate([parts[REAL][places[:half]], parts[MODEL][places[half:]]])
    order = noise.child("order").order(n)
    return BlindTrial(items[order], np.repeat([REAL, MODEL], half)[order], places[order])


def exact_interval(hits: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """The exact binomial confidence interval of a rate (Clopper and Pearson 1934): it covers at least at the level.

    Parameters
    ----------
    hits, n : int
        n at least 1, hits in [0, n].
    level : float in (0, 1), default 0.95

    Returns
    -------
    tuple of two floats
        Where the binomial tails are (1 - level) / 2 each: quantiles of Beta(hits, n - hits + 1) and
        Beta(hits + 1, n - hits).

    Examples
    --------
    >>> [round(one, 4) for one in exact_interval(4, 10)], exact_interval(0, 5)[0]
    ([0.1216, 0.7376], 0.0)
    """
    from scipy.stats import beta

    if not 0 < level < 1:
        raise UserValueError.must("level", "be in (0, 1)", level)
    if n < 1 or not 0 <= hits <= n:
        raise UserValueError(f"hits must be in [0, n] and n at least 1, got {hits} of {n}", "hits")
    tail = (1 - level) / 2
    low = 0.0 if hits == 0 else float(beta.ppf(tail, hits, n - hits + 1))
    high = 1.0 if hits == n else float(beta.isf(tail, hits + 1, n - hits))
    return low, high


@dataclass(frozen=True)
class TrialScore:
    """What one person answered.

    Parameters
    ----------
    fooled, made : int
        Model items that were taken for real, of how many.
    accepted, real : int
        Real items that were taken for real, of how many.
    level : float in (0, 1), default 0.95
        Of the intervals.

    Notes
    -----
    Who calls everything real is fooled every time: read the fooling rate beside `real_rate`. They are equal on average
    for a person who cannot tell.
    Source: Denton, Chintala, Szlam and Fergus (2015), whose model fooled people 40 % of the time.

    Examples
    --------
    >>> one = TrialScore(fooled=4, made=10, accepted=8, real=10)
    >>> one.fooling_rate, [round(end, 4) for end in one.fooling_interval], one.right, round(one.p_value, 4)
    (0.4, [0.1216, 0.7376], 14, 0.0577)
    """

    fooled: int
    made: int
    accepted: int
    real: int
    level: float = 0.95

    @property
    def fooling_rate(self) -> float:
        """Share of the model's items that were taken for real."""
        return self.fooled / self.made

    @property
    def fooling_interval(self) -> tuple[float, float]:
        """Its exact binomial interval."""
        return exact_interval(self.fooled, self.made, self.level)

    @property
    def real_rate(self) -> float:
        """Share of the real items that were taken for real."""
        return self.accepted / self.real

    @property
    def right(self) -> int:
        """Right answers."""
        return self.accepted + self.made - self.fooled

    @property
    def right_interval(self) -> tuple[float, float]:
        """Exact binomial interval of the share of right answers."""
        return exact_interval(self.right, self.made + self.real, self.level)

    @property
    def p_value(self) -> float:
        """Probability of at least so many right answers by a person who tosses a coin."""
        from scipy.stats import binom

        return float(binom.sf(self.right - 1, self.made + self.real, 0.5))

    def to_json(self) -> dict[str, Any]:
        """Counts, rates, intervals and the p value."""
        return {
            "fooled": self.fooled, "made": self.made, "fooling_rate": self.fooling_rate,
            "fooling_interval": list(self.fooling_interval), "accepted": self.accepted, "real": self.real,
            "real_rate": self.real_rate, "right": self.right, "n": self.made + self.real,
            "right_interval": list(self.right_interval), "p_value": self.p_value, "level": self.level,
        }  # fmt: skip


def score_trial(truth: Sequence[str], answers: Sequence[str], *, level: float = 0.95) -> TrialScore:
    """How often a person took a model's item for a real one.

    Parameters
    ----------
    truth, answers : sequences of ``real`` and ``model``, of one length
        In the order of the trial.
    level : float in (0, 1), default 0.95

    Returns
    -------
    TrialScore

    Raises
    ------
    UserValueError
        Other words, another number of answers, a trial without items of a kind.

    Examples
    --------
    >>> score_trial(["real", "model", "model"], ["real", "real", "model"]).fooling_rate
    0.5
    """
    known, given = np.asarray(truth, object), np.asarray(answers, object)
    if len(known) != len(given):
        raise UserValueError(f"there must be {len(known)} answers, got {len(given)}", "answers", "answer every item")
    for name, words in (("truth", known), ("answers", given)):
        other = next((i for i, word in enumerate(words) if word not in (REAL, MODEL)), None)
        if other is not None:
            raise UserValueError.must(name, f"be {REAL} or {MODEL}", words[other], f"{name}, item {other + 1}")
    made = known == MODEL
    if made.all() or not made.any():
        raise UserValueError("truth must hold real and model items", "truth", "give a trial of both")
    if not 0 < level < 1:
        raise UserValueError.must("level", "be in (0, 1)", level)
    real = given == REAL
    return TrialScore(int((real & made).sum()), int(made.sum()), int((real & ~made).sum()), int((~made).sum()), level)
