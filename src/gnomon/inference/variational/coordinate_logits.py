"""Independent units of 0 and 1 by any gradient method, in unconstrained log-odds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch.nn.functional import softplus

from gnomon.errors import UserTypeError, UserValueError
from gnomon.numeric.given import checked, doable, floats, function

__all__ = ["LogitAscent", "bernoulli_entropy", "expected_of_states", "logit_ascent"]

Floats = NDArray[np.float64]


class LogitAscent(NamedTuple):
    """Where the gradient ended.

    Attributes
    ----------
    logits : array of shape (rows, m)
        z, the log-odds of the units.
    means : array of shape (rows, m)
        sigmoid(z).
    elbo : array of shape (rows,)
        In nats.
    residual : array of shape (rows,)
        Largest ``|dL / dz|``.
    converged : array of shape (rows,)
        Whether that is at most the tolerance.
    n_iter : int
        Steps of the optimizer.
    trace : array of shape (1 + n_iter, rows)
        The bound before each step and at the end.
    """

    logits: Floats
    means: Floats
    elbo: Floats
    residual: Floats
    converged: NDArray[np.bool_]
    n_iter: int
    trace: Floats


def bernoulli_entropy(logits: torch.Tensor) -> torch.Tensor:
    """Entropy in nats of units with these log-odds; finite, and with finite slopes, however large they are.

    ``sigmoid(z) softplus(-z) + sigmoid(-z) softplus(z)``: no logarithm of a probability that has become 0.

    Examples
    --------
    >>> bernoulli_entropy(torch.tensor([0.0, 1000.0, -1000.0])).tolist()
    [0.6931471824645996, 0.0, 0.0]
    """
    return logits.sigmoid() * softplus(-logits) + (-logits).sigmoid() * softplus(logits)


def expected_of_states(log_joint: ArrayLike) -> Callable[[torch.Tensor], torch.Tensor]:
    """E_q[log p(v, h)] as a function of the means of independent units, from the table of all their states.

    Parameters
    ----------
    log_joint : array of shape (rows, 2, ..., 2)
        As of `TableFactors`, without states of probability 0.
    """
    table = torch.from_numpy(np.array(floats(log_joint, "log_joint")))
    if table.ndim < 2 or set(table.shape[1:]) != {2} or not bool(table.isfinite().all()):
        raise UserValueError.must("log_joint", "be finite, with an axis of 2 for each unit", log_joint)

    def expected(means: torch.Tensor) -> torch.Tensor:
        left = table
        for i in range(means.shape[1] - 1, -1, -1):
            p = means[:, i].reshape(-1, *(1,) * i)
            left = left[..., 0] * (1 - p) + left[..., 1] * p
        return left

    return expected


@checked
def logit_ascent(
    expected_log_joint: Callable[[torch.Tensor], torch.Tensor], start: ArrayLike, *,
    optimizer: Callable[[Any], torch.optim.Optimizer] | None = None, steps: int = 200, tol: float = 1e-6,
) -> LogitAscent:  # fmt: skip
    r"""Raise :math:`L(z) = E_q[\log p(v, h)] + H(q)` over the log-odds z of independent units of 0 and 1.

    It stands exactly where every mean is its own update, :math:`dL/dz_i = \hat h_i (1 - \hat h_i)\, dL/d\hat h_i`, but
    flattens out at saturated units: begin near 0. Coordinate ascent (`coordinate_ascent`) has no step size, and keeps
    nothing for a row but its means; this serves models whose updates have no closed form.

    Parameters
    ----------
    expected_log_joint : callable
        Of torch operations, means (rows, m) to (rows,), in nats: `expected_of_states`, or a closed form.
    start : array of shape (rows, m)
        Log-odds to begin at.
    optimizer : callable, optional
        Of a list of parameters, such as ``lambda z: torch.optim.Adam(z, lr=0.1)``; L-BFGS with a line search by
        default, of all rows together.
    steps : int, at least 0, default 200
        At most.
    tol : float, at least 0, default 1e-6
        End when no slope of any row is larger.

    Raises
    ------
    UserValueError
        A bound that is not one number per row.

    References
    ----------
    Goodfellow, Bengio and Courville (2016), section 19.4.1.

    Examples
    --------
    >>> table = np.log([[[0.3, 0.1], [0.2, 0.4]]])
    >>> found = logit_ascent(expected_of_states(table), [[0.0, 0.0]])
    >>> found.means.round(4).tolist(), found.elbo.round(4).tolist()
    ([[0.6218, 0.5039]], [-0.092])
    """
    function(expected_log_joint, "expected_log_joint")
    begun = floats(start, "start")
    if begun.ndim != 2 or not np.isfinite(begun).all():
        raise UserValueError.must("start", "be finite log-odds of shape (rows, m)", begun)
    if not tol >= 0:
        raise UserValueError.must("tol", "be at least 0", tol)
    z = torch.tensor(begun, requires_grad=True)
    rule = torch.optim.LBFGS([z], line_search_fn="strong_wolfe", tolerance_grad=0.0, tolerance_change=0.0)
    chosen = rule if optimizer is None else optimizer([z])
    if not isinstance(chosen, torch.optim.Optimizer):
        raise UserTypeError.must("optimizer", "make a torch.optim.Optimizer of parameters", chosen)
    bound, slope = _at(expected_log_joint, z)
    trace, taken = [bound], 0
    for _ in range(doable(steps, "steps")):
        if (slope <= tol).all():
            break
        chosen.step(lambda: _loss(expected_log_joint, z))  # type: ignore[arg-type, return-value]
        bound, slope = _at(expected_log_joint, z)
        trace.append(bound)
        taken += 1
    logits = z.detach().numpy()
    means = torch.sigmoid(z.detach()).numpy()
    return LogitAscent(logits, means, bound, slope, slope <= tol, taken, np.array(trace))


def _bound(expected: Any, z: torch.Tensor) -> torch.Tensor:
    found = expected(z.sigmoid())
    if tuple(found.shape) != (len(z),):
        what = f"expected_log_joint must return shape {(len(z),)}, got {tuple(found.shape)}"
        raise UserValueError(what, "expected_log_joint")
    total: torch.Tensor = found + bernoulli_entropy(z).sum(1)
    return total


def _loss(expected: Any, z: torch.Tensor) -> torch.Tensor:
    z.grad = None
    loss = -_bound(expected, z).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    return loss


def _at(expected: Any, z: torch.Tensor) -> tuple[Floats, Floats]:
    """The bound of each row, and its largest slope."""
    bound = _bound(expected, z)
    (slope,) = torch.autograd.grad(bound.sum(), z)
    return bound.detach().numpy(), slope.abs().amax(1).numpy()
