"""Samples along the Markov chains of a fitted model: a row every so many steps, and how alike rows still are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import HasBlocks, supports
from gnomon.errors import UserTypeError, UserValueError, counted
from gnomon.inference.mcmc.lags import LagCorrelation, lag_correlation
from gnomon.recipes.parameters import how_many
from gnomon.tasks.chains import sample_chain

__all__ = ["ChainRows", "no_chains", "sample_along_chains"]

BETWEEN = 20
"""States that are kept from one row to the next, at most: the lags at which the correlation is measured."""
ROWS = "visible"
"""The block that holds what the model was fitted to."""


@dataclass(frozen=True)
class ChainRows:
    """Rows along chains.

    Parameters
    ----------
    rows : array of shape (chains, n, d)
        Row i after (i + 1) ``every`` steps, in the units of the data.
    every : int
        Steps from one row to the next.
    correlation : LagCorrelation
        Of the whole states, measured from the first row on.
    """

    rows: NDArray[Any]
    every: int
    correlation: LagCorrelation

    @property
    def steps(self) -> NDArray[np.int64]:
        """After how many steps each row was drawn, shape (n,)."""
        return (np.arange(self.rows.shape[1]) + 1) * self.every

    @property
    def reading(self) -> str:
        """What the correlation says of the rows, in one line."""
        value, error = self.correlation.at(self.every)
        if np.isnan(value):
            return "no unit ever changes: the chains stand still"
        spread = "" if np.isnan(error) else f" ± {error:.2f}"
        start = f"autocorrelation of rows {counted(self.every, 'step')} apart {value:.2f}{spread}"
        first = self.correlation.below()
        if first is None:
            return f"{start}, not below 0.1 within {self.correlation.lag[-1]} steps: rows of a chain are alike"
        return f"{start}, below 0.1 after {counted(first, 'step')}"


def no_chains(system: Any) -> str:
    """Why there are no Gibbs chains of a fitted system whose states are rows; empty where there are."""
    model: Any = getattr(system, "model_", None)
    if not (supports(model, HasBlocks) and ROWS in model.blocks and hasattr(system, "from_visible")):
        return f"the samples of {system.name} are independent draws, not states of a chain"
    if not getattr(model, "has_conditionals", True):
        return f"the samples of {system.name} are drawn by moves along the slope of its energy, not by Gibbs sweeps"
    given = [name for name, units in getattr(model, "units", {}).items() if not getattr(units, "drawn", True)]
    if given:
        return f"the samples of {system.name} are drawn for a given length, which its chains are not told"
    return ""


def sample_along_chains(
    system: Any, *, chains: int = 8, rows: int = 10, every: int = 1000, random_state: Any = None
) -> ChainRows:
    """Rows that the chains of a fitted model pass through, one every so many steps, none left out.

    Successive states of a Gibbs chain are alike, so that a picture of them shows one sample many times; the measured
    autocorrelation says how many steps make rows nearly independent. Chains start at random states: the first row is
    drawn after `every` steps.

    Parameters
    ----------
    system : System
        Fitted, with a model of blocks: `rbm`, `gaussian-rbm`, `label-rbm` (of which the classes are left out).
    chains : int in [1, inf), default 8
        Independent of each other.
    rows : int in [2, inf), default 10
        Of each chain.
    every : int in [1, inf), default 1000
        Steps, each a sweep of the hidden and the visible units.
    random_state : int, None or NumPy generator
        The same draws the same.

    Returns
    -------
    ChainRows
        Cost: ``rows * every`` sweeps of all chains.

    Raises
    ------
    UserTypeError
        A system whose samples are independent draws.
    UserValueError
        Counts out of range.

    Notes
    -----
    Source: Goodfellow, Bengio and Courville (2016), figure 20.1: a column for each chain, a row every 1,000 steps.

    Examples
    --------
    >>> import gnomon
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
    >>> rbm = gnomon.RBM(n_hidden=2, epochs=5, random_state=0).fit(X)
    >>> found = sample_along_chains(rbm, chains=3, rows=4, every=5, random_state=0)
    >>> found.rows.shape, found.steps.tolist(), found.correlation.lag[:3].tolist()
    ((3, 4, 4), [5, 10, 15, 20], [0, 1, 2])
    """
    if why := no_chains(system):
        raise UserTypeError(why, "chains", "leave chains out")
    for name, value, least in (("chains", chains, 1), ("rows", rows, 2), ("every", every, 1)):
        if how_many(value, name) < least:
            raise UserValueError.must(name, f"be at least {least}", value)
    between = max(k for k in range(1, BETWEEN + 1) if every % k == 0)
    step = every // between
    found = sample_chain(
        system, "gibbs", chains=chains, draws=(rows - 1) * between + 1, burn_in=every - step, thin=step,
        random_state=random_state,
    )  # fmt: skip
    states = found.values[ROWS]
    if states.shape[1] <= between:
        raise UserValueError("the chains were stopped before their second row", "chains", "let them run on")
    most = min(10 * between, max(between, (states.shape[1] - 1) // 2))
    correlation = lag_correlation(states, every=step, most=most)
    shown = states[:, ::between]
    drawn = system.from_visible(shown.reshape(-1, shown.shape[-1]))
    return ChainRows(drawn.reshape(*shown.shape[:2], -1), every, correlation)
