"""Gradients of expectations E[h(y)] by the parameters of the distribution that y is drawn from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from gnomon.contracts import Noise
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.montecarlo.expectation import RunningMean
from gnomon.numeric.given import checked

__all__ = ["pathwise_gradient", "score_gradient"]

BATCH = 1 << 14
"""Draws at a time."""

Cost = Callable[[Any, Any], Any]


@checked
def pathwise_gradient(h: Cost, distribution: Any, n: int, noise: Noise) -> dict[str, RunningMean]:
    r"""The gradient of E[h(y)] along the path of each draw: :math:`E[\partial_y h \, \partial_a g + \partial_a h]`.

    y = g(e, a) is the distribution's ``transform`` of base noise e that does not depend on its parameters a (the
    reparametrization trick, stochastic backpropagation, perturbation analysis). Unbiased where h is continuous; a jump
    of h is not seen and makes it biased, and an h that is made of jumps alone is refused.

    Parameters
    ----------
    h : callable
        ``h(y, distribution)``, one number per draw: y is a tensor of n draws along the first axis, `distribution` what
        they come from, with tensors as parameters, for an h that depends on them beside y. Further axes are summed
        over.
    distribution : distribution of `gnomon.distributions` with ``rsample``
        With one number (or one per variable of a batch) for each parameter.
    n : int in [1, inf)
        Draws.
    noise : Noise
        Draw i uses the numbers of position i.

    Returns
    -------
    dict of str to RunningMean
        For each parameter the mean over draws, with ``standard_error`` and ``variance`` (of one draw).

    Raises
    ------
    UserTypeError
        A distribution of discrete outcomes; an h that has no slope though its values differ.

    Notes
    -----
    Source: Glasserman (1991); Kingma and Welling (2014); Rezende, Mohamed and Wierstra (2014).

    Examples
    --------
    >>> from gnomon.distributions.real import Normal
    >>> from gnomon.numeric.noise import Noise
    >>> found = pathwise_gradient(lambda y, distribution: y**2, Normal(1.0, 1.0), 10_000, Noise(0, "draws"))
    >>> round(found["loc"].mean, 1), round(found["loc"].variance)  # 2 m, and 4 of a draw
    (2.0, 4)
    """
    if not hasattr(distribution, "rsample"):
        raise UserTypeError(
            f"draws of {type(distribution).__name__} have no gradient", "distribution", "use score_gradient"
        )
    means = {name: RunningMean() for name in _parameters(distribution)}
    values, sloped = RunningMean(), False
    for start in range(0, _draws(n), BATCH):
        size = min(BATCH, n - start)
        own, leaves = _apart(distribution, size)
        y = own.rsample(noise.take(np.arange(start, start + size)))
        costs = _costs(h, y, own)
        slopes = _slopes(costs.sum(), [y, *leaves])
        sloped = sloped or bool((slopes[0] != 0).any())
        values.update(costs.detach().numpy())
        for mean, slope in zip(means.values(), slopes[1:], strict=True):
            mean.update(slope.numpy())
    if not sloped and n > 1 and values.variance > 0:
        what = "h has no slope at any draw though its values differ: it is made of jumps"
        raise UserTypeError(what, "h", "use score_gradient, which asks for none")
    return means


@checked
def score_gradient(
    h: Cost, distribution: Any, n: int, noise: Noise, *, baseline: float | Literal["leave-one-out"] | None = None
) -> dict[str, RunningMean]:
    r"""The gradient of E[h(y)] by the score function: :math:`E[(h(y) - b) \, \partial_a \log p(y) + \partial_a h]`.

    It asks no slope of h by y, so y may be discrete and h may jump (the log-derivative trick, REINFORCE). The price is
    variance: h enters by its size, from which a baseline b takes what does not depend on the draw.

    Parameters
    ----------
    h : callable
        As in `pathwise_gradient`; NumPy's functions of y are not enough, tensors come and go.
    distribution : distribution of `gnomon.distributions` with ``sample`` and ``log_prob``
    n : int in [1, inf)
    noise : Noise
    baseline : float, "leave-one-out" or None, default None
        b: a number that does not depend on the draws, or for each draw the mean cost of the others (two draws or more).
        Both leave the estimate unbiased; with the latter the standard error leaves out that draws share their mean.

    Returns
    -------
    dict of str to RunningMean

    Notes
    -----
    Source: Glynn (1990); Williams (1992).

    Examples
    --------
    >>> import numpy as np
    >>> from gnomon.distributions.table import Categorical
    >>> from gnomon.numeric.noise import Noise
    >>> coin = Categorical(np.log([0.7, 0.3]))
    >>> found = score_gradient(lambda y, distribution: 1 + 4 * y, coin, 20_000, Noise(0, "draws"), baseline=2.2)
    >>> found["logits"].mean.round(1).tolist()
    [-0.8, 0.8]
    """
    if baseline == "leave-one-out" and n < 2:
        raise UserValueError(f"n must be at least 2 with the baseline 'leave-one-out', got {n}", "n")
    means = {name: RunningMean() for name in _parameters(distribution)}
    total = _total(h, distribution, n, noise) if baseline == "leave-one-out" else 0.0
    for start in range(0, _draws(n), BATCH):
        size = min(BATCH, n - start)
        own, leaves = _apart(distribution, size)
        y = own.sample(noise.take(np.arange(start, start + size)))
        costs = _costs(h, y, own)
        held = costs.detach()
        level = (total - held) / (n - 1) if baseline == "leave-one-out" else float(baseline or 0.0)
        surrogate = ((held - level) * own.log_prob(y).reshape(size, -1).sum(1)).sum()
        slopes = _slopes(surrogate + (costs.sum() if costs.requires_grad else 0.0), leaves)
        for mean, slope in zip(means.values(), slopes, strict=True):
            mean.update(slope.numpy())
    return means


def _total(h: Cost, distribution: Any, n: int, noise: Noise) -> float:
    """The sum of the costs of all draws."""
    total = 0.0
    for start in range(0, _draws(n), BATCH):
        size = min(BATCH, n - start)
        own, _ = _apart(distribution, size)
        total += float(_costs(h, own.sample(noise.take(np.arange(start, start + size))), own).detach().sum())
    return total


def _draws(n: int) -> int:
    if n < 1:
        raise UserValueError.must("n", "be at least 1", n)
    return n


def _parameters(distribution: Any) -> list[str]:
    """Names of what the distribution is made from: of a family what it declares, of a table of chances the logits."""
    names = list(getattr(distribution, "parameters", ("logits",)))
    if not all(hasattr(distribution, name) for name in names):
        what = f"distribution must be a family of numbers or of categories, got a {type(distribution).__name__}"
        raise UserTypeError(what, "distribution", "differentiate a mean over its rsample, where it has one")
    return names


def _apart(distribution: Any, n: int) -> tuple[Any, list[Any]]:
    """The distribution with parameters of its own for each of n draws, so that every draw has its gradient."""
    import torch

    leaves = []
    for name in _parameters(distribution):
        value = getattr(distribution, name)
        plain = torch.as_tensor(np.array(value.detach().cpu() if hasattr(value, "detach") else value, np.float64))
        leaves.append(plain.expand(n, *plain.shape).clone().requires_grad_())
    return type(distribution)(*leaves), leaves


def _costs(h: Cost, y: Any, distribution: Any) -> Any:
    """h of each draw, shape (n,)."""
    import torch

    costs = h(y, distribution)
    if not isinstance(costs, torch.Tensor) or costs.shape[:1] != y.shape[:1]:
        got = f"shape {tuple(costs.shape)}" if hasattr(costs, "shape") else f"a {type(costs).__name__}"
        raise UserValueError(f"h must return a tensor with one number for each of {len(y)} draws, got {got}", "h")
    return costs.double().reshape(len(costs), -1).sum(1)


def _slopes(total: Any, inputs: list[Any]) -> list[Any]:
    """Derivatives of a scalar, zeros where there is none."""
    import torch

    if not getattr(total, "requires_grad", False):
        return [torch.zeros_like(one) for one in inputs]
    gradients = torch.autograd.grad(total, inputs, allow_unused=True)
    return [torch.zeros_like(one) if slope is None else slope for one, slope in zip(inputs, gradients, strict=True)]
