"""Contrastive divergence with small moves along the slope of log p in place of Gibbs sweeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from gnomon.contracts import Array, Group, Noise
from gnomon.inference.mcmc.langevin import langevin_step
from gnomon.numeric.ops import concatenate
from gnomon.objectives.base import Loss, Objective, Term
from gnomon.objectives.contrastive import EnergyObjective
from gnomon.objectives.positive import observed_block
from gnomon.objectives.scored import ByScores

__all__ = ["LangevinCD"]


@dataclass(frozen=True)
class LangevinCD(EnergyObjective):
    r"""Contrastive divergence whose chains go k steps of Langevin dynamics from the data.

    A step is :math:`x' = x + \frac{\epsilon^2}{2} \psi(x) + \epsilon z` with the gradient :math:`\psi` of log p by the
    row and normal z; every step is taken, without a test of Metropolis. The direction in which one step moves the
    parameters is :math:`-\frac{\epsilon^2}{2}` times the gradient of score matching, up to :math:`O(\epsilon^4)`
    (Hyvärinen 2007): short steps are score matching without second derivatives, with noise. The gradient is as small as
    :math:`\epsilon^2`, so the optimizer should be one that scales it, as Adam does.

    Real observed units; the hidden layers are independent given them and summed out, in the chains too.

    Parameters
    ----------
    step_size : float in (0, inf), default 0.1
        :math:`\epsilon`, in the units that the model computes in. Beyond twice the least standard deviation of a column
        given the hidden units chains run away.
    k : int in [1, inf), default 1
        Steps.
    antithetic : bool, default True
        Whether each row starts two chains, with noise z and -z: what is of order :math:`\epsilon` in the gradient's
        noise then cancels, at twice the cost.

    References
    ----------
    Hyvärinen (2007), "Connections between score matching, contrastive divergence, and pseudolikelihood for
    continuous-valued variables".

    Examples
    --------
    >>> import numpy as np
    >>> from gnomon.systems.energy.gaussian_rbm import GaussianRBM
    >>> X = np.random.default_rng(0).normal(size=(500, 2)) + 4 * np.random.default_rng(1).integers(0, 2, (500, 1))
    >>> machine = GaussianRBM(n_hidden=2, objective=LangevinCD(), epochs=60, random_state=0).fit(X)
    >>> bool(machine.score(X) > -4.5)  # -4.9 without hidden units
    True
    """

    short: ClassVar[str] = "langevin-cd"
    step_size: Annotated[float, "(0, inf)"] = 0.1
    k: Annotated[int, "[1, inf)"] = 1
    antithetic: bool = True

    def build(self) -> Objective:
        """The objective."""
        return _LangevinDivergence(self.step_size, self.k, self.antithetic)


class _LangevinDivergence(ByScores):
    principle: ClassVar[str] = "langevin-cd"
    descends: ClassVar[bool] = False

    def __init__(self, step_size: float, k: int, antithetic: bool) -> None:
        super().__init__()
        self.step_size, self.k, self.antithetic = step_size, k, antithetic

    def compare(self, model: Any, X: Array, weight: Array, positions: Array, noise: Noise, group: Group) -> Loss:
        """Energies of the rows against those where their chains end, each with the row's weight."""
        data, stream = observed_block(model), noise.rows(positions)
        signs = (1.0, -1.0) if self.antithetic else (1.0,)
        ends = [self._chain(model, X, stream, sign) for sign in signs]
        rows = concatenate([X, *ends])
        share = concatenate([weight, *(-weight / len(ends) for _ in ends)])
        gradients = model.marginal_gradient({data: rows}, share)

        def gap() -> float:
            return float((share * model.marginal_energy({data: rows})).sum().item())

        return Loss({"energy_gap": Term(gap, float(weight.sum()))}, gradients, "energy_gap")

    def _chain(self, model: Any, x: Array, noise: Noise, sign: float) -> Array:
        """Where a chain from each row ends."""
        for step in range(self.k):
            z = sign * noise.normal(tuple(x.shape), step, like=x)
            x = langevin_step(model, x, self.step_size, z)
        return x
