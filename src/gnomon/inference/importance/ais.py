"""Annealed importance sampling: the normalizer of a model, reached in many small steps from a known one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import AnnealingPath, Array, HasBridge, Noise
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.importance.paths import BridgePath
from gnomon.inference.importance.weights import WeightedSample

__all__ = ["ais", "annealing_schedule", "geometric_path"]

_SHARPNESS = 4.0

Progress = Callable[[int, int, Array, Array], None]


def annealing_schedule(n: int, kind: Literal["linear", "sigmoid"] = "linear") -> NDArray[np.float64]:
    """Inverse temperatures 0 = eta_0 < ... < eta_n = 1.

    Linear: eta_j = j / n. Sigmoid: ``sigma(4 (2 j / n - 1))`` stretched to [0, 1], with short steps at both ends.

    Parameters
    ----------
    n : int, in [1, inf)
        Number of steps.
    kind : {"linear", "sigmoid"}
        Spacing.

    Returns
    -------
    array of shape (n + 1,)

    References
    ----------
    Grosse, Maddison and Salakhutdinov (2013), "Annealing between distributions by averaging moments".

    Examples
    --------
    >>> annealing_schedule(4).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    if n < 1:
        raise UserValueError(f"{n} steps are not possible", "schedule", "use 1 or more")
    etas = np.linspace(0.0, 1.0, n + 1)
    if kind == "linear":
        return etas
    if kind != "sigmoid":
        raise UserValueError(f"schedule {kind!r} is unknown", "kind", "use linear or sigmoid")
    curve = 1 / (1 + np.exp(-_SHARPNESS * (2 * etas - 1)))
    etas = (curve - curve[0]) / (curve[-1] - curve[0])
    etas[0], etas[-1] = 0.0, 1.0
    return etas


def ais(
    model: HasBridge,
    base: Any,
    noise: Noise,
    *,
    chains: int = 100,
    schedule: int | ArrayLike = 1000,
    keep: str | None = None,
    progress: Progress | None = None,
) -> WeightedSample:
    """Annealed importance sampling from a base model to a model of two blocks.

    Each chain starts at a draw x_1 of the base's kept block; step j = 0, ..., n - 1 first adds ``F_{eta_j}(x_{j+1}) -
    F_{eta_{j+1}}(x_{j+1})`` to its log weight, F being the marginal energy of the kept block (the other one summed
    out), and only then moves: the other block and the kept block are redrawn at eta_{j+1}, which leaves that
    distribution invariant. Weights are computed before the move and no move follows the last weight.

    ``exp(log_weights)`` are unbiased estimates of Z, so ``log_mean_weight`` estimates log Z (too low on average) and
    `values` with the weights are draws of the model. Modes that no chain reaches do not show in the error.

    Parameters
    ----------
    model : HasBridge and HasMarginalEnergy
        The target, of two blocks. ``model.path(base, keep)``, where there is one, walks the same bridge faster.
    base : object
        A base from ``model.base(...)``: blocks independent of each other, and ``log_partition()``.
    noise : Noise
        Step j uses update j, draws 0 and 1; chain i the position i (``noise.rows(...)`` for a shard of the chains). Two
        runs need two streams: ``noise.child("first")``.
    chains : int, in [1, inf)
        Number of independent runs; the memory is that of their states.
    schedule : int or array
        Number of equal steps, or the etas themselves: strictly increasing from 0 to 1.
    keep : str, optional
        The block whose marginal energy is used; the model's first by default.
    progress : callable, optional
        Called after each step with (steps done, steps, kept block before the move, log weights so far without the
        base's log Z). It must not change them.

    Returns
    -------
    WeightedSample
        log_weights of shape (chains,), the base's log Z included, accumulated in float64; values: the kept block.
        Energies are computed in the model's own type. Cost per step: two products of all chains with the weights for
        a model that has a path of its own (``HasPath``), else four.

    Raises
    ------
    UserValueError
        For a schedule that is not strictly increasing from 0 to 1, an unknown block, no chains.
    UserTypeError
        When the model has not two blocks with a marginal energy.

    References
    ----------
    Neal (2001), "Annealed importance sampling"; Salakhutdinov and Murray (2008), "On the quantitative analysis of deep
    belief networks".
    """
    etas = _checked_schedule(schedule)
    keep = _block(model, keep)
    if chains < 1:
        raise UserValueError(f"{chains} chains are not possible", "chains", "use 1 or more")
    path: AnnealingPath = model.path(base, keep) if hasattr(model, "path") else BridgePath(model, base, keep)
    x = path.start(chains, noise.at(0))
    log_w: Array = 0.0
    steps = len(etas) - 1
    for step in range(1, steps + 1):
        eta, to = float(etas[step - 1]), float(etas[step])
        before = x if progress is None else x + 0  # a step may write over what it is given
        gain, x = path.step(x, eta, to, noise.at(step)) if step < steps else (path.weigh(x, eta, to), x)
        log_w = log_w + gain
        if progress is not None:
            progress(step, steps, before, log_w)
    return WeightedSample(log_w + float(base.log_partition()), x)


def geometric_path(
    log_p0: Callable[[Array], Array], log_p1: Callable[[Array], Array], eta: float
) -> Callable[[Array], Array]:
    """The density between two: log p_eta = (1 - eta) log p_0 + eta log p_1, unnormalized.

    ``d log Z_eta / d eta = E_eta[log p_1 - log p_0]``, whose integral from 0 to 1 is log Z_1 / Z_0. The path of
    marginals differs from the marginal of a path of joint densities.

    Parameters
    ----------
    log_p0, log_p1 : callable
        Log densities of the ends in nats, normalized or not.
    eta : float, in [0, 1]
        Place on the path; the ends are returned as they are, so zeros of the other end do no harm.

    Returns
    -------
    callable

    References
    ----------
    Gelman and Meng (1998), "Simulating normalizing constants: from importance sampling to bridge sampling to path
    sampling".

    Examples
    --------
    >>> geometric_path(lambda x: -x * x / 2, lambda x: -2 * x * x, 0.5)(2.0)
    -5.0
    """
    if not 0 <= eta <= 1:
        raise UserValueError(f"eta {eta} is outside [0, 1]", "eta", "0 is the first density, 1 the second")
    if eta in (0, 1):
        return log_p1 if eta else log_p0
    return lambda x: (1 - eta) * log_p0(x) + eta * log_p1(x)


def _checked_schedule(schedule: int | ArrayLike) -> NDArray[np.float64]:
    if isinstance(schedule, (int, np.integer)):
        return annealing_schedule(int(schedule))
    etas = np.array(schedule, dtype=np.float64)
    if etas.ndim != 1 or etas.size < 2 or etas[0] != 0 or etas[-1] != 1:
        raise UserValueError("the schedule does not run from 0 to 1", "schedule", "pass an array [0, ..., 1]")
    falls = np.flatnonzero(~(np.diff(etas) > 0))
    if falls.size:
        j = int(falls[0])
        raise UserValueError(
            f"the schedule does not increase from {etas[j]} to {etas[j + 1]}", f"schedule, entry {j + 1}", "sort it"
        )
    return etas


def _block(model: Any, keep: str | None) -> str:
    if not hasattr(model, "bridge") or not hasattr(model, "marginal_energy") or len(model.blocks) != 2:
        raise UserTypeError(
            f"{type(model).__name__} cannot be annealed", "model", "it needs two blocks, marginal_energy and bridge"
        )
    keep = model.blocks[0] if keep is None else keep
    if keep not in model.blocks:
        raise UserValueError(f"block {keep!r} is unknown", "keep", "use one of " + ", ".join(model.blocks))
    return keep
