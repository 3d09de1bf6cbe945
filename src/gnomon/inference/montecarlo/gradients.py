"""Gradients of expectations E[h(y)] by the parameters of the distribution that y is drawn from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import numpy as np

from gnomon.contracts import Noise
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.montecarlo.expectation import RunningMean
from gnomon.numeric.given import checked

__all__ = ["optimal_baseline", "pathwise_gradient", "score_gradient"]

BATCH = 1 << 14
"""Draws at a time."""

Cost = Callable[[Any, Any], Any]
Level = float | Literal["leave-one-out", "mean", "optimal"] | Callable[[Any], Any] | Mapping[str, Any]


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
    h: Cost, distribution: Any, n: int, noise: Noise, *, baseline: Level | None = None
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
    baseline : float, str, callable, mapping or None, default None
        b, which never depends on the draw that it is subtracted from, so that the estimate stays unbiased: a number;
        ``baseline(distribution)``; an array for each parameter by name; "mean" and "optimal", the mean cost and
        `optimal_baseline` of n draws apart; "leave-one-out", for each draw the mean cost of the others (two draws or
        more; its standard error leaves out that draws share their mean).

    Returns
    -------
    dict of str to RunningMean

    Notes
    -----
    "mean" and "optimal" cost n draws more. Source: Glynn (1990); Williams (1992); Weaver and Tao (2001).

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
    if isinstance(baseline, str) and baseline not in ("leave-one-out", "mean", "optimal"):
        raise UserValueError.must("baseline", "be leave-one-out, mean or optimal", baseline)
    if baseline == "leave-one-out" and n < 2:
        raise UserValueError(f"n must be at least 2 with the baseline 'leave-one-out', got {n}", "n")
    means = {name: RunningMean() for name in _parameters(distribution)}
    total = _total(h, distribution, n, noise) if baseline == "leave-one-out" else 0.0
    if baseline == "mean":
        baseline = _total(h, distribution, _draws(n), noise.child("baseline")) / n
    elif baseline == "optimal":
        baseline = optimal_baseline(h, distribution, n, noise.child("baseline"))
    for own, held, scores, slopes in _scored(h, distribution, n, noise):
        levels = (total - held) / (n - 1) if baseline == "leave-one-out" else _levels(baseline, own)
        for (name, mean), score, slope in zip(means.items(), scores, slopes, strict=True):
            level = levels[name] if isinstance(levels, Mapping) else _along(levels, score)
            mean.update(((_along(held, score) - level) * score + slope).numpy())
    return means


@checked
def optimal_baseline(h: Cost, distribution: Any, n: int, noise: Noise) -> dict[str, Any]:
    r"""The baseline of least variance of each parameter: :math:`b_i = E[h s_i^2] / E[s_i^2]`, s the score, from draws.

    Parameters
    ----------
    h, distribution, n, noise
        As of `score_gradient`.

    Returns
    -------
    dict of str to array
        In the shape of each parameter; the mean cost where every score was 0.

    Notes
    -----
    The square is that of the derivative. Use it on other draws than those it comes from. Source: Weaver and Tao (2001);
    Goodfellow, Bengio and Courville (2016), section 20.9.1.

    Examples
    --------
    >>> import numpy as np
    >>> from gnomon.distributions.bernoulli import Bernoulli
    >>> from gnomon.numeric.noise import Noise
    >>> coin = Bernoulli(np.array([np.log(0.3 / 0.7)]))
    >>> optimal_baseline(lambda y, distribution: 1 + 4 * y, coin, 20_000, Noise(0, "draws"))["logits"].round(1).tolist()
    [3.8]
    """
    sums: dict[str, list[Any]] = {name: [0.0, 0.0] for name in _parameters(distribution)}
    total = 0.0
    for _, held, scores, _ in _scored(h, distribution, n, noise):
        total += float(held.sum())
        for entry, score in zip(sums.values(), scores, strict=True):
            squares = score.square()
            entry[0], entry[1] = entry[0] + (_along(held, score) * squares).sum(0), entry[1] + squares.sum(0)
    tiny = float(np.finfo(np.float64).tiny)
    return {
        name: np.where(below > tiny, above / below.clamp_min(tiny), total / n) for name, (above, below) in sums.items()
    }


def _scored(h: Cost, distribution: Any, n: int, noise: Noise) -> Iterator[tuple[Any, Any, list[Any], list[Any]]]:
    """Draws in batches: what they come from, their costs, and by each parameter the scores and the slopes of h."""
    for start in range(0, _draws(n), BATCH):
        size = min(BATCH, n - start)
        own, leaves = _apart(distribution, size)
        y = own.sample(noise.take(np.arange(start, start + size)))
        costs = _costs(h, y, own)
        scores = _slopes(own.log_prob(y).reshape(size, -1).sum(), leaves)
        yield own, costs.detach(), scores, _slopes(costs.sum(), leaves)


def _levels(baseline: Any, distribution: Any) -> Any:
    """The baseline of a batch: a number, a tensor with one for each draw, or an array for each parameter."""
    found = baseline(distribution) if callable(baseline) else baseline
    if isinstance(found, Mapping):
        import torch

        return {name: torch.as_tensor(np.asarray(value, np.float64)) for name, value in found.items()}
    return found.detach() if hasattr(found, "detach") else float(found or 0.0)


def _along(values: Any, like: Any) -> Any:
    """A number for each draw, beside an array for each draw."""
    return values.reshape(-1, *[1] * (like.ndim - 1)) if hasattr(values, "reshape") else values


def _total(h: Cost, distribution: Any, n: int, noise: Noise) -> float:
    """The sum of the costs of all draws."""
    return sum(float(held.sum()) for _, held, _, _ in _scored(h, distribution, n, noise))


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
