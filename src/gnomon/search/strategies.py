"""How the next trial is chosen: a grid, at random, by the densities of good and bad trials (TPE)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler, TPESampler

from gnomon.errors import unknown
from gnomon.numeric.noise import Noise

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial

__all__ = ["STRATEGIES", "ByNumber", "Strategy", "sampler"]

Strategy = Literal["tpe", "random", "grid"]
STRATEGIES: tuple[str, ...] = get_args(Strategy)
STARTUP = 10
"""Trials drawn at random before densities are made of them."""
SEEDS = 1 << 31
AGAIN = "failed_trial"
"""What Optuna notes of a trial that is made again: the number of the first one."""


def sampler(strategy: str, seed: int) -> BaseSampler:
    """The sampler of a strategy.

    Parameters
    ----------
    strategy : {"tpe", "random", "grid"}
        The points of a grid are put into the store beforehand; its sampler is never asked.
    seed : int

    Raises
    ------
    UserValueError
        An unknown strategy.
    """
    if strategy not in STRATEGIES:
        raise unknown("strategy", strategy, list(STRATEGIES))
    return ByNumber(seed, model_based=strategy == "tpe")


class ByNumber(BaseSampler):
    """Random numbers that belong to the place of a trial, whichever process carries it out and whenever.

    A search that is resumed, or carried on by several processes, draws what one process would have drawn; two
    processes with the same seed never begin with the same trials.

    Parameters
    ----------
    seed : int
    model_based : bool
        Whether trials after the first `STARTUP` are chosen by the tree-structured Parzen estimator: Optuna's, with
        the dimensions together, and with trials under way taken for bad ones.

    Notes
    -----
    Source: Bergstra, Bardenet, Bengio and Kegl (2011), Algorithms for hyper-parameter optimization.
    """

    def __init__(self, seed: int, *, model_based: bool) -> None:
        self.seed, self.model_based = seed, model_based
        self.inner: BaseSampler = RandomSampler(seed)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The ranges that are drawn together; a trial begins here."""
        own = int(Noise(self.seed, "search").at(_place(study, trial)).integers(SEEDS, (1,))[0])
        self.inner = (
            TPESampler(seed=own, multivariate=True, n_startup_trials=STARTUP)
            if self.model_based
            else RandomSampler(own)
        )
        return self.inner.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Values that are drawn together."""
        return self.inner.sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """A value that is drawn by itself."""
        return self.inner.sample_independent(study, trial, param_name, param_distribution)


def _place(study: Study, trial: FrozenTrial) -> int:
    """Which trial of the search it is: one that is made again has the place of the one whose process died."""
    first = trial.system_attrs.get(AGAIN, trial.number)
    return first - sum(one.number < first for one in study.get_trials(deepcopy=False) if AGAIN in one.system_attrs)
