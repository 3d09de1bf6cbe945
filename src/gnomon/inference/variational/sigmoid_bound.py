r"""Mean field of sigmoid belief nets: a bound on E log(1 + e^z) that factorizes, with one more parameter for each unit.

A unit with parents s has the field :math:`z = b + \sum_j w_j s_j`, and log p of its state is linear in z but for
log(1 + e^z), whose mean has no closed form under independent parents. For every :math:`\xi` in [0, 1]

.. math:: E \log(1 + e^z) \le \xi E z + \log E\left[e^{-\xi z} + e^{(1 - \xi) z}\right],

and the expectations of exponentials are products over parents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch.nn import functional

__all__ = ["UnitField", "MeanField", "best_slope", "mean_field_of_sigmoids", "softplus_bound"]

LogMoment = Callable[[torch.Tensor], torch.Tensor]
GOLDEN = (5**0.5 - 1) / 2
SEARCHES = 45
"""Steps of the search for the best slope, each of which leaves 0.62 of the interval."""


def softplus_bound(xi: torch.Tensor, mean: torch.Tensor, log_moment: LogMoment) -> torch.Tensor:
    r"""The upper bound :math:`\xi E z + \log(M(-\xi) + M(1 - \xi))` of E log(1 + e^z), in nats.

    Parameters
    ----------
    xi : tensor
        In [0, 1]; any number gives a bound.
    mean : tensor
        E z.
    log_moment : callable
        t to log E e^(t z), shape of t.

    References
    ----------
    Saul, Jaakkola and Jordan (1996), "Mean field theory for sigmoid belief networks".
    """
    return xi * mean + torch.logaddexp(log_moment(-xi), log_moment(1 - xi))


def best_slope(mean: torch.Tensor, log_moment: LogMoment) -> torch.Tensor:
    """The xi of the lowest bound, by golden section: the bound is convex in xi and lowest within [0, 1].

    Parameters
    ----------
    mean, log_moment
        As of `softplus_bound`.

    Returns
    -------
    tensor of the shape of the mean, to about 1e-8

    Examples
    --------
    >>> z, p = torch.tensor([0.0, 2.0], dtype=torch.float64), torch.tensor([0.4, 0.6], dtype=torch.float64)
    >>> def log_moment(t):
    ...     return torch.logsumexp(t[..., None] * z + p.log(), -1)
    >>> mean = (p * z).sum().reshape(1)
    >>> xi = best_slope(mean, log_moment)
    >>> round(xi.item(), 5), round(softplus_bound(xi, mean, log_moment).item(), 6)  # tight
    (0.71689, 1.553416)
    """
    low, high = torch.zeros_like(mean), torch.ones_like(mean)
    for _ in range(SEARCHES):
        width = GOLDEN * (high - low)
        left, right = high - width, low + width
        rises = softplus_bound(left, mean, log_moment) < softplus_bound(right, mean, log_moment)
        low, high = torch.where(rises, low, left), torch.where(rises, right, high)
    return (low + high) / 2


class UnitField(NamedTuple):
    """The units of a layer and what they hang on.

    Attributes
    ----------
    state : slice or tensor of shape (n, units)
        Places among the hidden units, or the states of observed ones.
    offset : tensor of shape (n, units)
        Of the field: what does not depend on hidden units.
    weight : tensor of shape (units, parents)
    parents : slice
        Places among the hidden units.
    """

    state: slice | torch.Tensor
    offset: torch.Tensor
    weight: torch.Tensor
    parents: slice


class MeanField(NamedTuple):
    """Independent units in place of the posterior.

    Attributes
    ----------
    mean : tensor of shape (n, hidden units)
    bound : tensor of shape (n,)
        The lower bound of log p of each row in nats.
    slopes : list of tensors of shape (n, units)
        xi of each field.
    """

    mean: torch.Tensor
    bound: torch.Tensor
    slopes: list[torch.Tensor]


def mean_field_of_sigmoids(
    fields: Sequence[UnitField], start: torch.Tensor, *, steps: int = 200, rate: float = 0.1
) -> MeanField:
    """Means of independent hidden units and slopes that raise the bound of every row, by gradient steps on both.

    Parameters
    ----------
    fields : sequence of UnitField
        Of all units of the net. Units that have no hidden parents have parents ``slice(0, 0)``.
    start : tensor of shape (n, hidden units)
        First means.
    steps : int, default 200
        Steps of Adam; the slopes are then brought to their best, and the best means of each row are kept.
    rate : float, default 0.1
        Of the first step; it falls evenly to a tenth.

    Returns
    -------
    MeanField

    Notes
    -----
    O(n units parents) numbers at a time: for small nets. Moments are sums of logs, so that large weights do not
    overflow.
    """
    odds = start.clamp(0.02, 0.98).logit().requires_grad_()
    tilts = [torch.zeros_like(field.offset, requires_grad=True) for field in fields]
    rule = torch.optim.Adam([odds, *tilts], lr=rate)
    best, kept = _best(fields, odds)
    for step in range(steps):
        rule.param_groups[0]["lr"] = rate * (1 - 0.9 * step / steps)
        with torch.enable_grad():
            value = _bound(fields, odds, [tilt.sigmoid() for tilt in tilts])
            slopes = torch.autograd.grad(-value.sum(), [odds, *tilts])
        for parameter, slope in zip([odds, *tilts], slopes, strict=True):
            parameter.grad = slope
        rule.step()
        if step % 20 == 19 or step == steps - 1:
            now, _ = _best(fields, odds)
            better = (now > best)[:, None]
            kept, best = torch.where(better, odds.detach(), kept), torch.maximum(now, best)
    with torch.no_grad():
        xi = [best_slope(*_moments(field, kept)) for field in fields]
        return MeanField(kept.sigmoid(), _bound(fields, kept, xi), xi)


@torch.no_grad()
def _best(fields: Sequence[UnitField], odds: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The bound of each row at the best slopes, and the log odds of the means."""
    held = odds.detach().clone()
    return _bound(fields, held, [best_slope(*_moments(field, held)) for field in fields]), held


def _moments(field: UnitField, odds: torch.Tensor) -> tuple[torch.Tensor, LogMoment]:
    """E z, and t to log E e^(t z), of the units of a field, (n, units) each."""
    parents = odds[:, field.parents]

    def log_moment(t: torch.Tensor) -> torch.Tensor:
        tilted = functional.softplus(parents[:, None] + t[:, :, None] * field.weight)
        return t * field.offset + (tilted - functional.softplus(parents)[:, None]).sum(-1)

    return field.offset + parents.sigmoid() @ field.weight.T, log_moment


def _bound(fields: Sequence[UnitField], odds: torch.Tensor, xi: Sequence[torch.Tensor]) -> torch.Tensor:
    """E[s z] - bound of E log(1 + e^z), summed over all units, and the entropy of the hidden ones; of each row."""
    mean = odds.sigmoid()
    total = (functional.softplus(odds) - odds * mean).sum(1)
    for field, slope in zip(fields, xi, strict=True):
        z, log_moment = _moments(field, odds)
        state = mean[:, field.state] if isinstance(field.state, slice) else field.state
        total = total + (state * z - softplus_bound(slope, z, log_moment)).sum(1)
    return total
