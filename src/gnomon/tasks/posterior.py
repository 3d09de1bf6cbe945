"""`gnomon.fit_posterior` for people: a distribution in place of a posterior, with its bound and what it is worth."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.score import Score
from gnomon.inference.importance.pareto import tail_shape
from gnomon.inference.mcmc.records import Draws
from gnomon.inference.parameters import JointDensity
from gnomon.inference.variational.families import VariationalFamily
from gnomon.inference.variational.method import (
    Approximation,
    Marginal,
    VariationalAscent,
    VariationalMethod,
    VariationalProblem,
)
from gnomon.inference.variational.mode import PointAscent
from gnomon.numeric.noise import Noise, seed_of
from gnomon.recipes.parameters import how_many
from gnomon.recipes.recipe import check_recipe, replace
from gnomon.training.ascent import Ascents, Climb
from gnomon.training.context import context, current
from gnomon.training.driver import run_procedure
from gnomon.training.group import Group
from gnomon.training.interrupts import interruptible
from gnomon.training.procedure import Problem

__all__ = ["SLOTS", "ModeFit", "PosteriorFit", "fit_posterior"]

SLOTS = {"family": VariationalFamily, "method": VariationalMethod}
"""What `fit_posterior` takes by name, as systems take theirs."""

DRAWS = 2000
"""Of q, for the bound, its error and the shape of the weights' tail."""
RESTARTS = 4
TRUSTED = 0.7
"""k-hat beyond which importance weights of q are not to be trusted (Vehtari and others 2024)."""
EQUAL = 1e-3
"""Nats between the largest and the smallest weight of 2,000 that tell nothing of a tail."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PosteriorFit:
    """A fitted distribution over parameters, with what it is worth.

    Attributes
    ----------
    q_ : Approximation
        The distribution itself.
    elbo_ : Score
        Lower bound of the log evidence in nats, by 2,000 new draws with their standard error, or exact.
    elbo_history_ : array of shape (n_iter_,)
        The bound of every iteration of the start that was kept.
    n_iter_ : int
    converged_ : bool
        Whether the method's own rule ended it, and not ``max_iter`` or Ctrl-C.
    pareto_k_ : float
        Shape of the tail of the weights p / q of the draws: above 0.7 q may be far off, and does not serve as a
        proposal. 0 where the weights are equal to rounding, as at the posterior itself; nan where p has no
        density at hand.
    starts_ : tuple of float
        The bound that each start ended with.
    seed : int
    """

    q_: Approximation
    elbo_: Score
    elbo_history_: Floats
    converged_: bool
    pareto_k_: float
    starts_: tuple[float, ...]
    seed: int

    @property
    def n_iter_(self) -> int:
        """Iterations of the start that was kept."""
        return len(self.elbo_history_)

    @property
    def mean(self) -> dict[str, Floats]:
        """Mean of every parameter, in its own units."""
        return self.q_.mean

    @property
    def marginals(self) -> Mapping[str, Marginal]:
        """Distribution of every number, by names such as ``w[0]``: ``mean``, ``variance``, ``icdf``, ``log_prob``."""
        return self.q_.marginals

    def sample(self, n: int, random_state: Any = None) -> dict[str, Floats]:
        """Independent draws, arrays (n, shape) by name; the seed of the fit where none is given."""
        if how_many(n, "n") < 1:
            raise UserValueError.must("n", "be at least 1", n)
        seed = self.seed if random_state is None else seed_of(random_state)
        return self.q_.sample(n, Noise(seed, "posterior/sample"))

    def draws(self, n: int = 1000, chains: int = 4, random_state: Any = None) -> Draws:
        """Draws in the form that `gnomon.sample_chain` gives: tables, pictures and diagnostics take them."""
        if how_many(chains, "chains") < 1:
            raise UserValueError.must("chains", "be at least 1", chains)
        found = self.sample(n * chains, random_state)
        values = {name: x.reshape(chains, n, *x.shape[1:]) for name, x in found.items()}
        return Draws(values, {}, {"seed": self.seed, "burn_in": 0, "thin": 1})

    def log_prob(self, z: Any) -> Floats:
        """Log density of q in nats at rows of parameters, (n,).

        Parameters
        ----------
        z : mapping of name to array (n, shape)
            An array alone where there is one parameter.
        """
        names = list(self.mean)
        if not isinstance(z, Mapping):
            if len(names) > 1:
                raise UserTypeError(f"there are several parameters: {', '.join(names)}", "z", "give them by name")
            z = {names[0]: z}
        return self.q_.log_prob(z)

    def table(self) -> str:
        """Moments and quantiles of every number as text, and below them the bound and what it is worth."""
        head = ["", "mean", "sd", "5%", "50%", "95%"]
        rows = [head]
        for name, one in self.marginals.items():
            numbers = [one.mean, np.sqrt(one.variance), *np.ravel(one.icdf(np.array([0.05, 0.5, 0.95])))]
            rows.append([name, *(f"{float(x):.4g}" for x in numbers)])
        widths = [max(len(row[k]) for row in rows) for k in range(len(head))]
        lines = ["  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
        return "\n".join([*lines, "", *self._worth()])

    def _worth(self) -> list[str]:
        ended = "converged" if self.converged_ else "did not converge"
        lines = [f"bound {self.elbo_}", f"{ended} after {self.n_iter_} iterations"]
        if len(self.starts_) > 1:
            lines[-1] += f", the best of {len(self.starts_)} starts"
        if np.isfinite(self.pareto_k_):
            verdict = "" if self.pareto_k_ <= TRUSTED else f", above {TRUSTED}: check its moments by chains"
            lines.append(f"k-hat {self.pareto_k_:.2f}{verdict}")
        return lines

    def __str__(self) -> str:
        return self.table()

    def plot(self, coordinates: Sequence[str] | None = None) -> Any:
        """The bound by iteration, and the density of some coordinates; see `gnomon.inference.variational.pictures`.

        Parameters
        ----------
        coordinates : sequence of str, optional
            Names as in the table; the first eight by default.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from gnomon.inference.variational.pictures import posterior_figure

        return posterior_figure(self.elbo_history_, self.marginals, coordinates)

    def picture(self, path: str | os.PathLike[str], coordinates: Sequence[str] | None = None) -> Path:
        """Write `plot` into a file: PNG, SVG or PDF by the ending; the file appears whole or not at all.

        Raises
        ------
        UserValueError
            Another ending, an unknown coordinate.
        """
        from gnomon.inference.mcmc.pictures import form_of, write_figure

        form_of(path)
        return write_figure(self.plot(coordinates), path)


@dataclass(frozen=True)
class ModeFit(PosteriorFit):
    """The most probable value in place of a posterior: `PosteriorFit` of ``method="map"``.

    Attributes
    ----------
    log_joint_ : float, or array of shape (rows,)
        log p(h, v) in nats at the point, in the parameters' own units; of every row of `data` where there are rows.
    elbo_ : Score
        Of discrete values their log joint. Of real ones -inf: a point has no entropy, and its log joint bounds nothing.
    elbo_history_ : array of shape (n_iter_,)
        What was raised: the log joint of all rows together, the mean of their starts where each begins several times.
    """

    log_joint_: float | Floats = float("nan")

    @property
    def mode(self) -> dict[str, Floats]:
        """The point, by name."""
        return self.mean

    def _worth(self) -> list[str]:
        total = f"log joint {np.sum(self.log_joint_):.6g} nats"
        if self.elbo_.value == -np.inf:
            total += ", no bound of log p"
        return [total, *super()._worth()[1:]]


def fit_posterior(
    target: Any,
    family: str | VariationalFamily = "mean-field",
    method: str | VariationalMethod = "advi",
    *,
    parameters: Mapping[str, Any] | None = None,
    start: Any = None,
    data: Any = None,
    batch_size: int | None = None,
    restarts: int | None = None,
    random_state: Any = None,
    progress: bool | None = None,
    **options: Any,
) -> PosteriorFit:
    r"""Fit a distribution q to an unnormalized density or a model by raising the evidence lower bound.

    :math:`\mathcal L(q) = E_q[\log p(x, z)] - E_q[\log q(z)] = \log p(x) - KL(q \| p(z | x))`: the q of the highest
    bound is the one nearest to the posterior in the reverse divergence, too narrow rather than too wide, and on one
    mode of several. Ctrl-C ends the fit with the next iteration and hands over what is there.

    Parameters
    ----------
    target : callable, object with ``energy`` or ``log_prob``, JointDensity, or a model that the method knows
        As in `gnomon.sample_chain`: a log density takes (rows, d) to (rows,); gradients are torch's. Where `parameters`
        are named it takes a mapping of name to tensor (rows, shape).
    family : {"mean-field", "full", "structured"} or VariationalFamily
        Of normal distributions on the whole line: independent coordinates, any covariance, blocks or low rank.
    method : str or VariationalMethod
        ``"advi"``: by gradients through draws, for any differentiable density. ``"svi"``: by natural gradients, for a
        conjugate pair (`gnomon.conjugate`) or a mixture of them, given `data`. ``"cavi"``: by coordinate ascent, of
        named parameters in which the density is conjugate, and of families of factors. ``"map"``: a point, the most
        probable value, of real parameters and latents by gradients, of discrete ones by search, of tables exactly.
    parameters : mapping of name to shape or Support, optional
        ``{"w": 3, "scale": Support(low=0)}``: names for the numbers, and ends, whose log derivatives are added.
    start : int, array or mapping, optional
        The dimension, for starts uniform in (-2, 2); real numbers to begin at; or parameters by name.
    data : array, or mapping of name to value, optional
        Rows, for models that are given theirs apart; of a product of tables, with ``"map"``, what was observed.
    batch_size : int, in [1, inf), optional
        Rows of an iteration, of a `DataDensity` or of `data`: their likelihood counts n / batch_size times, the prior
        once.
    restarts : int, in [1, inf), optional
        Starts, of which the best bound is kept; by default 4, and 1 from a given position or with `batch_size`.
    random_state : int, None or NumPy generator
    progress : bool, optional
        Progress on standard error after a second; by default on a terminal, or in ``gnomon.context(verbose=True)``.
    **options
        Fields of the recipes: ``method__max_iter=500``, ``family__rank=3``.

    Returns
    -------
    PosteriorFit
        ``q_``, ``elbo_``, ``pareto_k_``, ``mean``, ``sample(n)``, ``log_prob(z)``, ``marginals``, ``table()`` and
        ``picture(path)``; of ``"map"`` a `ModeFit`, with ``mode`` and ``log_joint_`` besides.

    Raises
    ------
    UserValueError, UserTypeError
        A start where the density is 0, a target without a gradient or without a dimension, unknown names.
    Diverged
        A bound without a maximum, or that is not a number.
    KeyboardInterrupt
        After Ctrl-C before the first iteration has ended.

    Warns
    -----
    UserWarning
        An ascent that Ctrl-C or ``max_iter`` has ended.

    References
    ----------
    Jordan, Ghahramani, Jaakkola and Saul (1999), "An introduction to variational methods for graphical models"; Yao,
    Vehtari, Simpson and Gelman (2018), "Yes, but did it work?".

    Examples
    --------
    >>> def log_joint(at):  # y = 1, 2, 3 ~ N(mean, scale), flat in mean, scale ~ exponential
    ...     y, mean, scale = torch.tensor([1.0, 2.0, 3.0]), at["mean"][:, None], at["scale"][:, None]
    ...     return (-0.5 * ((y - mean) / scale) ** 2 - scale.log()).sum(1) - at["scale"]
    >>> import torch
    >>> from gnomon.inference.parameters import Support
    >>> found = fit_posterior(log_joint, parameters={"mean": (), "scale": Support(low=0)}, random_state=0)
    >>> found.converged_, round(float(found.mean["mean"]), 2)
    (True, 2.0)
    """
    recipes = _recipes(family, method, options)
    problem = _problem(target, recipes["family"], parameters, start, data, batch_size)
    starts = _starts(restarts, problem, recipes["method"])
    noise = Noise(seed_of(random_state), "posterior")
    climb = Climb(lambda i: recipes["method"].ascent(problem, noise.child(f"start-{i}")))
    shown = (current().verbose or sys.stderr.isatty()) if progress is None else progress
    with interruptible(True) as interrupted, context(verbose=shown):
        procedure = Ascents(starts, recipes["method"].max_iter, _height(noise.child("height")), lambda: interrupted)
        result = run_procedure(procedure, Problem(climb, None, noise, Group()), name="posterior")
    return _finished(climb, result.records, noise, bool(interrupted))


def _recipes(family: Any, method: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The recipes of both slots, with the fields that options change."""
    inner: dict[str, dict[str, Any]] = {slot: {} for slot in SLOTS}
    for address, value in options.items():
        slot, dashes, name = address.partition("__")
        if slot not in SLOTS or not dashes:
            known = "family, method, parameters, start, data, batch_size, restarts, random_state, progress"
            raise UserTypeError(
                f"unknown option {address!r}", "fit_posterior", f"known: {known}, method__..., family__..."
            )
        inner[slot][name] = value
    given = {"family": family, "method": method}
    return {slot: check_recipe(replace(given[slot], base, inner[slot], slot), slot) for slot, base in SLOTS.items()}


def _problem(
    target: Any, family: VariationalFamily, parameters: Any, start: Any, data: Any, batch_size: Any
) -> VariationalProblem:
    if batch_size is not None and how_many(batch_size, "batch_size") < 1:
        raise UserValueError.must("batch_size", "be at least 1", batch_size)
    target = getattr(target, "model_", target)
    if parameters is not None:
        if not callable(target):
            raise UserTypeError("parameters need a log joint density as a function", "target")
        target = JointDensity(target, parameters)
    return VariationalProblem(target, family, start, data, batch_size)


def _starts(restarts: int | None, problem: VariationalProblem, method: VariationalMethod) -> int:
    if restarts is None:
        if method.starts_alike(problem):
            return 1
        placed = problem.start is not None and (isinstance(problem.start, Mapping) or np.ndim(problem.start) > 0)
        return 1 if placed or problem.batch_size is not None else RESTARTS
    if how_many(restarts, "restarts") < 1:
        raise UserValueError.must("restarts", "be at least 1", restarts)
    return restarts


def _height(noise: Noise) -> Callable[[VariationalAscent, int], float]:
    """The bound that starts are compared by: all of them at the same normal numbers."""

    def height(ascent: VariationalAscent, start: int) -> float:
        known = ascent.bound()
        if known is not None:
            return known[0]
        weights = ascent.log_weights(DRAWS, noise)
        return -np.inf if weights is None else float(weights.mean())

    return height


def _finished(climb: Climb, records: Sequence[Mapping[str, float]], noise: Noise, interrupted: bool) -> PosteriorFit:
    """What the best start has found; warns where it did not end by its own rule."""
    ascent, best = climb.chosen(), max(climb.best, 0)
    history = np.array([record["elbo"] for record in records if record["start"] == best])
    settled = climb.settled[best] if climb.best >= 0 else False
    if interrupted:
        warnings.warn(f"interrupted after {len(records)} iterations: the best so far is handed over", stacklevel=3)
    elif not settled:
        what = f"the bound was still rising after {len(history)} iterations"
        warnings.warn(f"{what}: raise method__max_iter, or begin elsewhere", stacklevel=3)
    if isinstance(ascent, PointAscent):
        return _point(ascent, history, settled, tuple(climb.heights), noise.seed)
    weights = ascent.log_weights(DRAWS, noise.child("weights"))
    return PosteriorFit(
        ascent.posterior(), _score(ascent, weights), history, settled,
        float("nan") if weights is None else _tail(weights), tuple(climb.heights), noise.seed,
    )  # fmt: skip


def _point(ascent: PointAscent, history: Floats, settled: bool, heights: tuple[float, ...], seed: int) -> ModeFit:
    found = ascent.log_joint()
    note = "" if ascent.whole else "a point of real numbers has no entropy"
    bound = Score(
        float(found.sum()) if ascent.whole else float("-inf"), kind="lower bound", name="log_evidence", note=note
    )
    log_joint = found if found.ndim else float(found)
    return ModeFit(ascent.posterior(), bound, history, settled, float("nan"), heights, seed, log_joint)


def _score(ascent: VariationalAscent, weights: Floats | None) -> Score:
    known = ascent.bound()
    if known is not None:
        return Score(known[0], error=known[1], kind="lower bound", name="log_evidence")
    assert weights is not None  # an ascent that knows no bound can be drawn from
    error = float(weights.std(ddof=1) / np.sqrt(len(weights))) if np.isfinite(weights).all() else float("inf")
    note = "" if np.isfinite(weights).all() else "q reaches where the density is 0: give parameters with ends theirs"
    return Score(float(weights.mean()), error=error, kind="lower bound", name="log_evidence", note=note)


def _tail(weights: Floats) -> float:
    """k-hat; 0 where the weights are equal to rounding."""
    if not np.isfinite(weights).all():
        return float("inf")
    return 0.0 if np.ptp(weights) < EQUAL else float(np.nan_to_num(tail_shape(weights)))
