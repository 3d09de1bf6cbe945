"""Log Z of an energy machine from update to update, followed by a filter instead of estimated anew each time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2

from gnomon.contracts import Array, HasBridge, supports
from gnomon.errors import UserError, UserTypeError, UserValueError
from gnomon.evaluation.score import Score
from gnomon.inference.arrays import to_numpy
from gnomon.inference.importance.bridge import estimate_log_ratio
from gnomon.inference.importance.ladder_filter import LadderFilter
from gnomon.inference.importance.weights import WeightedSample
from gnomon.inference.mcmc.ladders import check_falling
from gnomon.inference.mcmc.levels import machines_at
from gnomon.numeric.ops import concatenate

__all__ = ["PartitionTracker"]

Floats = NDArray[np.float64]
Particles = Sequence[Mapping[str, Array]]

FADES = 0.9
"""Share of the log weights of the chains that is left after an update."""
FEWEST = 0.5
"""Effective share of the chains below which weights fade faster, and a change is too large to be followed."""
FALSE_ALARM = 1e-3
"""Chance that an observation is called at odds with the prediction though both are right."""
FORGETS = 0.98
"""Share of what was seen of the autocorrelation that counts after an update."""
FIRST_INFLATION = 3.0
"""Of the variances, before two steps have shown how alike they are."""
MOST_ALIKE = 0.98


class PartitionTracker:
    r"""Follows log Z while a machine learns, by a Kalman filter on what chains at several temperatures say.

    Two observations are combined. Within a step the ratios of neighboring temperatures by the bridge of least variance
    (`gnomon.inference.importance.bridge.estimate_log_ratio`); the hottest level, beta = 0, has a log Z in closed form
    and anchors the ladder. Across an update the change of each level by importance weights of its chains,
    :math:`\log \mathrm{mean}\, \tilde p'_l(x) / \tilde p_l(x)`. ``gnomon fit rbm digits --objective tempered
    --monitor`` does it during a fit and writes it to the history, the report and ``log_z_``.

    Parameters
    ----------
    betas : sequence of float
        Inverse temperatures of the chains, falling from 1 to exactly 0.
    base_mean : array, optional
        Means of the observed units of the machine at beta = 0 (`model.base`); uniform by default.

    Attributes
    ----------
    log_z_ : float
        Of the machine, beta = 1; NaN while nothing is known.
    log_z_var_ : float
        Its variance; infinite while nothing is known.
    levels_ : array of shape (temperatures,)
        Log Z of each level, as `betas`.
    restarts_ : int
        How often an update was too large to follow, or prediction and observation disagreed beyond a chance of 0.001:
        the filter then went back to the ratios of the temperatures alone.

    Notes
    -----
    The errors of successive steps are correlated, since chains go on, and two things are done about it. The chains
    should not be those whose gradient moves the machine: along a gradient of their own, changes are underestimated by
    the variance of the gradient, update after update; a fit that is watched walks separate ones. And the covariances of
    both observations are inflated by :math:`(1 + \rho) / (1 - \rho)`, with the autocorrelation :math:`\rho` of the
    chains' contributions from step to step; row i of the particles must be the same chain, at all temperatures, from
    call to call.

    Chains lag behind the machine. They are corrected by importance weights that follow them over some ten updates,
    short annealed runs, and fade faster where fewer than half of the chains would count. Where steps are so large that
    chains cannot keep up a bias remains that the variance does not know: walk them further, or learn more slowly.

    Cost per update: for each temperature energies of four times the chains.

    References
    ----------
    Desjardins, Courville and Bengio (2011), "On tracking the partition function"; Bennett (1976).

    Examples
    --------
    >>> from gnomon.evaluation.partition import log_partition
    >>> from gnomon.systems.energy.rbm import RBMModel
    >>> from gnomon.inference.exact.draws import exact_draws
    >>> from gnomon.numeric.noise import Noise
    >>> model = RBMModel.of(np.ones((3, 2)), np.zeros(3), np.zeros(2))
    >>> tracker = PartitionTracker([1.0, 0.5, 0.0])
    >>> machines = [model, *(model.bridge(model.base(), beta) for beta in (0.5, 0.0))]
    >>> particles = [exact_draws(one, 500, Noise(0, str(i))) for i, one in enumerate(machines)]
    >>> tracker.observe(model, [{"hidden": level["hidden"]} for level in particles])
    >>> abs(tracker.log_z_ - float(log_partition(model).value)) < 3 * tracker.log_z_var_**0.5
    True
    """

    def __init__(self, betas: Sequence[float], base_mean: ArrayLike | None = None) -> None:
        self.betas = check_falling(betas)
        if self.betas[-1] != 0:
            raise UserValueError.must("betas", "end at 0, whose log Z is known", self.betas[-1])
        self.base_mean = base_mean
        self.filter = LadderFilter(len(self.betas) - 1)
        self.restarts_ = 0
        self.log_weights = np.zeros(0)
        self._seen: Floats | None = None
        self._squares = self._products = 0.0
        self._anchor, self._moved = math.nan, False

    @property
    def log_z_(self) -> float:
        """Log Z of the machine."""
        return float(self.levels_[0])

    @property
    def log_z_var_(self) -> float:
        """Variance of `log_z_`."""
        return math.inf if self.filter.covariance is None else max(float(self.filter.covariance[-1, -1]), 0.0)

    @property
    def levels_(self) -> Floats:
        """Log Z of every temperature, the machine's first."""
        if self.filter.mean is None:
            return np.append(np.full(len(self.betas) - 1, np.nan), self._anchor)
        return np.append(self._anchor + self.filter.mean[::-1], self._anchor)

    @property
    def score_(self) -> Score:
        """`log_z_` with its error, in nats."""
        note = f"{self.restarts_} restarts" if self.restarts_ else ""
        return Score(self.log_z_, 0.0, math.sqrt(self.log_z_var_), "estimate", name="log_partition", note=note)

    def update(self, model_before: Any, model_after: Any, particles: Particles) -> None:
        """Take over what chains of the machine before an update say of it, and follow log Z across the update.

        Parameters
        ----------
        model_before, model_after : HasBridge and HasMarginalEnergy
        particles : sequence of mappings of block to array (chains, units), one for each beta
            Chains under `model_before`, of blocks that can be kept while the others are summed out.
        """
        self.observe(model_before, particles)
        self.predict(self.log_densities(model_before, particles), self.log_densities(model_after, particles))

    def log_densities(self, model: Any, particles: Particles) -> Floats:
        """Unnormalized log density of each chain at its own level of a machine, shape (chains, levels), hottest first.

        The chains at beta = 0 are of no use there, since that level's log Z is known: levels are all others.
        """
        particles, machines = self._checked(model, particles), self._machines(model)
        found = [-to_numpy(one.marginal_energy(x)) for one, x in zip(machines[1:], particles[1:], strict=True)]
        return np.stack(found, axis=1)

    def predict(self, before: Floats, after: Floats) -> None:
        """Follow log Z across an update, from the `log_densities` of the same chains before and after it."""
        gain = np.asarray(after - before, np.float64)
        self._start(len(gain))
        if not gain.any():
            return
        self._moved = True
        if not np.isfinite(gain).all() or min(WeightedSample(one).ess for one in gain.T) < FEWEST * len(gain):
            self._restart()
            self.log_weights = np.zeros(len(gain))
            return
        now = WeightedSample(self.log_weights)
        then = [WeightedSample(self.log_weights + one) for one in gain.T]
        change = [one.log_mean_weight - now.log_mean_weight for one in then]
        influence = len(gain) * np.stack([one.normalized_weights - now.normalized_weights for one in then], axis=1)
        self.filter.predict(np.array(change), self._inflation() * _covariance(influence))
        self._weigh(gain.sum(axis=1))

    def observe(self, model: Any, particles: Particles) -> None:
        """Take over the ratios of neighboring temperatures that chains of a machine say.

        Parameters
        ----------
        model : HasBridge and HasMarginalEnergy
        particles : as of `update`
        """
        particles, machines = self._checked(model, particles), self._machines(model)
        self._start(len(next(iter(particles[0].values()))))
        self._put_anchor(float(model.base(self.base_mean).log_partition()))
        found = self._ratios(machines, particles)
        if found is None:
            return
        ratios, influence = found
        self._measure(influence)
        covariance = self._inflation() * _covariance(influence)
        limit = float(chi2.isf(FALSE_ALARM, len(ratios)))
        if self._moved and self.filter.disagreement(ratios, covariance) > limit:
            self._restart()
        self.filter.observe(ratios, covariance)
        self._moved = False

    # --- the parts ----------------------------------------------------------------------------------------------------

    def _put_anchor(self, log_z0: float) -> None:
        """Log Z of the hottest level, beside which the filter has the others."""
        if self.filter.mean is not None:
            self.filter.mean = self.filter.mean + self._anchor - log_z0
        self._anchor = log_z0

    def _machines(self, model: Any) -> list[Any]:
        """By level, the hottest first."""
        return machines_at(model, model.base(self.base_mean), self.betas.tolist())[::-1]

    def _checked(self, model: Any, particles: Particles) -> list[dict[str, Array]]:
        """The states by level, the hottest first."""
        if not supports(model, HasBridge) or not hasattr(model, "marginal_energy"):
            raise UserTypeError(f"{type(model).__name__} has no temperatures", "model", "give an energy machine")
        if len(particles) != len(self.betas):
            raise UserValueError.must("particles", f"be {len(self.betas)} states, one per beta", len(particles))
        sizes = {len(x) for level in particles for x in level.values()}
        if len(sizes) != 1 or min(sizes) < 2:
            raise UserValueError.must("particles", "be 2 chains or more, as many at each beta", sorted(sizes))
        return [dict(level) for level in particles][::-1]

    def _start(self, n: int) -> None:
        """Equal weights, where these are the first chains."""
        if not len(self.log_weights):
            self.log_weights = np.zeros(n)
        if len(self.log_weights) != n:
            raise UserValueError.must("particles", f"be the same {len(self.log_weights)} chains in every call", n)

    def _ratios(self, machines: list[Any], particles: list[dict[str, Array]]) -> tuple[Floats, Floats] | None:
        """Ratios of neighbors, and what each chain contributes to their errors; None where two do not overlap."""
        n, last = len(self.log_weights), len(machines) - 1
        at: list[dict[int, Floats]] = []
        for level, machine in enumerate(machines):
            near = [one for one in (level - 1, level, level + 1) if 0 <= one <= last]
            whole = {block: concatenate([particles[one][block] for one in near]) for block in particles[0]}
            values = -to_numpy(machine.marginal_energy(whole)).reshape(len(near), n)
            at.append(dict(zip(near, values, strict=True)))
        ratios, influence = np.empty(last), np.empty((n, last))
        weights = (self.log_weights, self.log_weights)
        for low in range(last):
            here, above = at[low], at[low + 1]
            try:
                found = estimate_log_ratio(
                    None, None, (here[low], here[low + 1]), (above[low], above[low + 1]), log_weights=weights
                )
            except UserError:
                return None
            ratios[low] = found.log_r_
            influence[:, low] = n * (found.side0.normalized_weights - found.side1.normalized_weights)
        return ratios, influence

    def _measure(self, influence: Floats) -> None:
        """Take down how alike the contributions are to those of the step before."""
        if self._seen is not None:
            self._squares = FORGETS * self._squares + (influence**2).sum(axis=0)
            self._products = FORGETS * self._products + (influence * self._seen).sum(axis=0)
        self._seen = influence

    def _inflation(self) -> Floats:
        """By what covariances are multiplied for the correlation of successive steps, (levels, levels)."""
        shape = len(self.betas) - 1
        factor = np.full(shape, FIRST_INFLATION)
        if np.any(self._squares):
            rho = np.clip(self._products / np.maximum(self._squares, 1e-300), 0.0, MOST_ALIKE)
            factor = (1 + rho) / (1 - rho)
        return np.sqrt(np.outer(factor, factor))

    def _weigh(self, gain: Floats) -> None:
        """Weights of the chains under the machine as it is now: those of the whole ladder, which swaps keep."""
        weights = FADES * self.log_weights + gain - gain.mean()
        while WeightedSample(weights).ess < FEWEST * len(weights):
            weights = FADES * weights
        self.log_weights = weights

    def _restart(self) -> None:
        """Know nothing until the next ratios."""
        if self.filter.mean is not None:
            self.restarts_ += 1
        self.filter.forget()


def _covariance(influence: Floats) -> Floats:
    """Of the mean over chains of their contributions."""
    return np.atleast_2d(np.cov(influence, rowvar=False)) / len(influence)
