"""Asymptotic covariance of what a training principle estimates, and its efficiency beside maximum likelihood."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Array
from gnomon.data.batches import Batch
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.arrays import to_numpy
from gnomon.inference.exact.enumeration import weighted_states
from gnomon.numeric.noise import Noise
from gnomon.objectives.contrastive import EnergyObjective, Exact
from gnomon.objectives.positive import observed_block

__all__ = ["Asymptotics", "asymptotic_covariance", "relative_efficiency"]

Matrix = NDArray[np.float64]
STATES = 16
"""log2 of the rows that are enumerated at most."""
STEP = 1e-3
"""Of the differences of fourth order, whose error is about its fourth power."""
SINGULAR = 1e-9
"""Least share of the largest eigenvalue that the Hessian's eigenvalues must have."""


@dataclass(frozen=True)
class Asymptotics:
    """What `asymptotic_covariance` answers.

    Attributes
    ----------
    names : list of str
        A name for each parameter, ``weight[0, 1]``, in the order of the matrices.
    hessian : array of shape (p, p)
        Mean Hessian H of the loss.
    spread : array of shape (p, p)
        Covariance C of the loss's gradient from row to row.
    covariance : array of shape (p, p)
        H^-1 C H^-1: that of the estimates times the number of rows.
    """

    names: list[str]
    hessian: Matrix
    spread: Matrix
    covariance: Matrix


def asymptotic_covariance(
    objective: EnergyObjective, model: Any, X: ArrayLike | None = None, weight: ArrayLike | None = None
) -> Asymptotics:
    r"""Covariance of estimates from many rows, times their number: the sandwich :math:`H^{-1} C H^{-1}`.

    H is the mean Hessian of the loss, C the covariance of its gradient from row to row, both at the model's
    parameters, which are to be the minimum of the mean loss over these rows: the truth, where rows follow the model.
    Rows of another distribution move the minimum, which then differs between principles. Standard errors of n rows are
    :math:`\sqrt{\text{diag} / n}`; those of maximum likelihood on the model's own rows come from the inverse Fisher
    information, the least that any unbiased estimate has.

    Parameters
    ----------
    objective : EnergyObjective
        Whose loss is a function of the row: ``exact``, ``pseudolikelihood``, ``ratio_matching``,
        ``generalized-score-matching``, ``score-matching``, without draws.
    model : machine, or fitted system with ``model_``
    X : array of shape (n, d), optional
        Rows that stand for the data. Where left out, all rows by their probability under the model, 2^16 at most.
    weight : array of shape (n,), optional
        Of these rows.

    Returns
    -------
    Asymptotics

    Raises
    ------
    UserTypeError
        An objective that draws.
    UserValueError
        A singular Hessian: parameters that the rows do not determine, as those of hidden units that are alike.

    Notes
    -----
    Cost: a gradient for each row, and 4 p of all rows together. In double precision, H by differences.

    References
    ----------
    Godambe (1960); Hyvärinen (2007), "Some extensions of score matching", for these principles.

    Examples
    --------
    >>> from gnomon.objectives.pseudolikelihood import Pseudolikelihood
    >>> from gnomon.distributions.units import BernoulliUnits
    >>> from gnomon.systems.energy.layered import LayeredMachine
    >>> coin = LayeredMachine({"x": BernoulliUnits(1)}, [])
    >>> asymptotic_covariance(Pseudolikelihood(), coin).covariance.round(6)  # 1 / (p (1 - p)) of the log-odds
    array([[4.]])
    """
    model = copy.deepcopy(getattr(model, "model_", model)).double().cpu()
    rows, share = _rows(model, X, weight)
    loss = _MeanLoss(objective, model, rows, share)
    gradients = loss.by_row()
    away = gradients - share @ gradients
    spread, hessian = (share[:, None] * away).T @ away, loss.hessian()
    inverse = _inverse(hessian)
    return Asymptotics(loss.names, hessian, spread, inverse @ spread @ inverse)


def relative_efficiency(
    objective: EnergyObjective, model: Any, X: ArrayLike | None = None, weight: ArrayLike | None = None
) -> dict[str, float]:
    """Asymptotic variance of maximum likelihood by that of a principle, for each parameter: 1 is the best there is.

    Parameters, errors and cost are those of `asymptotic_covariance`, with the exact gradient of the likelihood besides.

    Examples
    --------
    >>> from gnomon.objectives.ratio_matching import RatioMatching
    >>> from gnomon.distributions.units import BernoulliUnits
    >>> from gnomon.systems.energy.layered import LayeredMachine
    >>> relative_efficiency(RatioMatching(), LayeredMachine({"x": BernoulliUnits(1)}, []))
    {'x_bias[0]': 1.0}
    """
    found = asymptotic_covariance(objective, model, X, weight)
    best = asymptotic_covariance(Exact(), model, X, weight)
    ratios = np.diag(best.covariance) / np.diag(found.covariance)
    return {name: round(float(ratio), 9) for name, ratio in zip(found.names, ratios, strict=True)}


def _rows(model: Any, X: ArrayLike | None, weight: ArrayLike | None) -> tuple[Matrix, Matrix]:
    """Rows, and their shares of a whole."""
    if X is None:
        data = observed_block(model)
        parts = [(to_numpy(state[data]), np.exp(log_p)) for state, log_p in weighted_states(model, data, limit=STATES)]
        return np.concatenate([part for part, _ in parts]), np.concatenate([share for _, share in parts])
    rows = to_numpy(np.asarray(X, np.float64))
    share = np.ones(len(rows)) if weight is None else to_numpy(np.asarray(weight, np.float64))
    return rows, share / share.sum()


class _Alone:
    """One process."""

    rank, size = 0, 1

    def sum(self, tree: Any) -> Any:
        return tree

    def gather(self, x: Array) -> Array:
        return x


class _MeanLoss:
    """The mean loss of weighted rows as a function of all learned parameters in one vector."""

    def __init__(self, objective: EnergyObjective, model: Any, rows: Matrix, share: Matrix) -> None:
        self.model, self.rows, self.share = model, rows, share
        self.learned = {name: value for name, value in model.named_parameters() if value.requires_grad}
        places = [(name, at) for name, value in self.learned.items() for at in np.ndindex(value.shape)]
        self.names = [f"{name}[{', '.join(map(str, at))}]" for name, at in places]
        self.objective = objective.build()
        what = f"an asymptotic covariance needs a loss that is a function of the row, got {objective.short}"
        remedy = "use exact, pseudolikelihood, ratio_matching or score-matching, without draws"
        if not self.objective.descends:
            raise UserTypeError(what, "objective", remedy)
        self.objective.begin(model, self, Noise(0, "begin"), _Alone())
        if (self.gradient(0) != self.gradient(1)).any():
            raise UserTypeError(what, "objective", remedy)

    def epoch(self, e: int) -> list[Batch]:
        """All rows as one batch, for objectives that look at the data before they begin."""
        return [self._batch(self.rows, self.share)]

    @staticmethod
    def _batch(rows: Matrix, share: Matrix) -> Batch:
        return Batch({"X": rows}, np.arange(len(rows)), np.arange(len(rows)), share)

    def gradient(self, seed: int = 0, only: slice | None = None) -> Matrix:
        """Of the mean loss; of the loss of one row with `only`."""
        batch = self._batch(self.rows, self.share) if only is None else self._batch(self.rows[only], np.ones(1))
        loss = self.objective(self.model, batch, noise=Noise(seed, "fit"), phase="fit", group=_Alone())
        return np.concatenate([to_numpy(loss.gradients[name]).ravel() for name in self.learned])

    def by_row(self) -> Matrix:
        """Gradients of all rows, (n, p)."""
        return np.stack([self.gradient(only=slice(i, i + 1)) for i in range(len(self.rows))])

    def hessian(self) -> Matrix:
        """Differences of the mean gradient, of fourth order."""
        columns = []
        for value in self.learned.values():
            for at in np.ndindex(value.shape):
                ahead = [self._moved(value, at, k * STEP) for k in (-2, -1, 1, 2)]
                columns.append((ahead[0] - 8 * ahead[1] + 8 * ahead[2] - ahead[3]) / (12 * STEP))
        found = np.stack(columns, 1)
        return 0.5 * (found + found.T)

    def _moved(self, parameter: torch.nn.Parameter, at: tuple[int, ...], step: float) -> Matrix:
        """The mean gradient with one parameter moved."""
        with torch.no_grad():
            before = parameter[at].clone()
            parameter[at] = before + step
            found = self.gradient()
            parameter[at] = before
        return found


def _inverse(hessian: Matrix) -> Matrix:
    """Its inverse, if the rows determine all parameters."""
    sizes = np.abs(np.linalg.eigvalsh(hessian))
    if sizes.min() <= SINGULAR * sizes.max():
        what = "the Hessian of the mean loss must be regular, got a singular one"
        remedy = (
            "some parameters are not identified: hidden units that are alike or do nothing, or too few kinds of row"
        )
        raise UserValueError(what, "model", remedy)
    return np.asarray(np.linalg.inv(hessian), np.float64)
