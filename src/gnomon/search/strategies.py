"""How the next trial is chosen: at random, by a Sobol sequence, by the densities of good and bad trials, in rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, TPESampler
from optuna.trial import TrialState

from gnomon.errors import unknown
from gnomon.numeric.noise import Noise
from gnomon.search.draws import drawn
from gnomon.search.rounds import ROUNDS
from gnomon.search.trials import SearchPlan

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial

__all__ = ["POINT", "STRATEGIES", "ByNumber"]

STRATEGIES = ("tpe", "random", "sobol", *ROUNDS)
STARTUP = 10
"""Trials drawn at random before densities are made of them."""
CANDIDATES = 24
"""Draws from the density of good trials, of which the one with the largest ratio of both densities is tried."""
SEEDS = 1 << 31
POINT = "point"
"""Attribute of a trial that was put into the store with its values."""
AGAIN = "failed_trial"
"""What Optuna notes of a trial that is made again: the number of the first one."""


class ByNumber(BaseSampler):
    """Random numbers that belong to the place of a trial, whichever process carries it out and whenever.

    A search that is resumed, or carried on by several processes, draws what one process would have drawn; two
    processes with the same seed never begin with the same trials.

    Parameters
    ----------
    plan : SearchPlan
        With ``tpe`` trials after the first `STARTUP` are chosen by the tree-structured Parzen estimator: Optuna's,
        with the dimensions together, and with trials under way taken for bad ones. Trials of a strategy that goes in
        rounds have their values from the store.

    Raises
    ------
    UserValueError
        An unknown strategy.

    Notes
    -----
    Source: Bergstra, Bardenet, Bengio and Kegl (2011), Algorithms for hyper-parameter optimization.
    """

    def __init__(self, plan: SearchPlan) -> None:
        if plan.strategy not in STRATEGIES:
            raise unknown("strategy", plan.strategy, list(STRATEGIES))
        self.plan = plan
        self.inner: BaseSampler | None = None
        self.values: dict[str, Any] = {}

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The ranges that are drawn together; a trial begins here."""
        self.inner = None
        if POINT in trial.user_attrs:
            self.values = trial.user_attrs[POINT]
            return {}
        trials = study.get_trials(deepcopy=False)
        place = _place(trials, trial)
        if self.plan.strategy == "tpe" and place >= STARTUP and _ended(trials) >= STARTUP:
            seed = int(Noise(self.plan.seed, "search").at(place).integers(SEEDS, (1,))[0])
            self.inner = TPESampler(seed=seed, multivariate=True, n_startup_trials=STARTUP, n_ei_candidates=CANDIDATES)
            return self.inner.infer_relative_search_space(study, trial)
        point = drawn(self.plan.space, self.plan.seed, place, sobol=self.plan.strategy == "sobol")
        if self.plan.strategy == "tpe" and place == 0 and self.plan.first is not None:
            point = self.plan.first
        self.values = {name: self.plan.space[name].stored(value) for name, value in point.items()}
        return {}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Values that are drawn together."""
        return {} if self.inner is None else self.inner.sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """A value that is drawn by itself."""
        if self.inner is None:
            return self.values[param_name]
        return self.inner.sample_independent(study, trial, param_name, param_distribution)


def _ended(trials: list[FrozenTrial]) -> int:
    """Trials that densities can be made of."""
    return sum(one.state in (TrialState.COMPLETE, TrialState.PRUNED) for one in trials)


def _place(trials: list[FrozenTrial], trial: FrozenTrial) -> int:
    """Which trial of the search it is: one that is made again has the place of the one whose process died."""
    first = trial.system_attrs.get(AGAIN, trial.number)
    return first - sum(one.number < first for one in trials if AGAIN in one.system_attrs)
