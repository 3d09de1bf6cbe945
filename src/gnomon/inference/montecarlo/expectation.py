"""Expectations as means of draws, with an error that says when it is not to be trusted."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Array, Group, Noise, Samples
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.arrays import to_numpy
from gnomon.inference.importance.weights import Estimate
from gnomon.inference.montecarlo.mean_error import MeanError
from gnomon.inference.montecarlo.tails import Tails
from gnomon.numeric.given import checked
from gnomon.recipes.parameters import how_many

__all__ = ["Expectation", "RunningMean", "expectation"]

Floats = NDArray[np.float64]
Sampler = Samples | Callable[[int, Noise], Array]


class RunningMean(MeanError):
    """Mean and variance of a stream, in float64, by batches that may come from several processes.

    The estimate of E[f] by n independent draws is their mean: unbiased, of variance Var[f] / n. Means and sums of
    squared deviations of two parts are joined by ``m = m_a + d n_b / n``, ``S = S_a + S_b + d^2 n_a n_b / n`` with
    d = m_b - m_a, which keeps the digits that sums of squares lose.

    The farthest draws on both sides are kept, at most 1,000 of each coordinate, and a generalized Pareto distribution
    is fitted to them: where it has no finite variance, `notice` says so. Fewer than 25 draws cannot tell, nor are more
    than 65,536 coordinates looked at.

    Attributes
    ----------
    count : int
        Draws so far.

    Notes
    -----
    Cost: one pass over each batch; memory of the batch and of what is kept.

    References
    ----------
    Welford (1962), "Note on a method for calculating corrected sums of squares and products"; Chan, Golub and LeVeque
    (1983), "Algorithms for computing the sample variance"; tails: Vehtari, Simpson, Gelman, Yao and Gabry (2024).

    Examples
    --------
    >>> mean = RunningMean().update([1.0, 2.0]).update([6.0])
    >>> mean.mean, mean.variance, round(mean.standard_error, 6)
    (3.0, 7.0, 1.527525)
    """

    def __init__(self) -> None:
        self.count = 0
        self._mean: Floats = np.zeros(0)
        self._scatter: Floats = np.zeros(0)
        self._tails = Tails()

    def update(self, values: Array) -> Self:
        """Take a batch in.

        Parameters
        ----------
        values : array of shape (n, ...)
            One value of f per draw; any kind of number, accumulated in float64.

        Returns
        -------
        RunningMean
            Itself.

        Raises
        ------
        UserValueError
            When a value is nan or infinite, naming the draw, or the shape differs from the batches before.
        """
        y = to_numpy(values)
        if y.ndim == 0:
            raise UserValueError("values must be an array with one value per draw, got a single number", "values")
        if self.count and y.shape[1:] != self._mean.shape:
            what = f"values must keep the shape {self._mean.shape} of f, got {y.shape[1:]}"
            raise UserValueError(what, "values")
        if not np.isfinite(y).all():
            at = tuple(int(i) for i in np.argwhere(~np.isfinite(y))[0])
            where = f"draw {self.count + at[0]}" + (f", coordinate {at[1:]}" if at[1:] else "")
            raise UserValueError(f"f must be finite wherever draws fall, got {y[at]}", where)
        if len(y):
            mean = y.mean(axis=0)
            self._join(len(y), mean, np.square(y - mean).sum(axis=0))
            self._tails.take(y.reshape(len(y), -1))
        return self

    def merge(self, other: RunningMean) -> Self:
        """Take over what another one has seen; its draws must be others than these."""
        if not other.count:
            return self
        if self.count and other._mean.shape != self._mean.shape:
            what = f"other must be a mean of the same f, of shape {self._mean.shape}, got {other._mean.shape}"
            raise UserValueError(what, "other")
        self._join(other.count, other._mean, other._scatter)
        self._tails.join(other._tails)
        return self

    def over(self, group: Group) -> RunningMean:
        """The mean of the draws of all processes, the same on each; every process needs a draw."""
        counts = group.gather(np.array([self.count]))
        if not counts.all():
            raise UserValueError("every process must have at least one draw", f"process {int(np.argmin(counts))}")
        means, scatters = group.gather(self._mean[None]), group.gather(self._scatter[None])
        total = RunningMean()
        for n, mean, scatter in zip(counts, means, scatters, strict=True):
            total._join(int(n), mean, scatter)
        total._tails = self._tails.over(group)
        return total

    @property
    def mean(self) -> Any:
        """The mean, a float or an array of the shape of one value.

        Raises
        ------
        UserValueError
            Before the first draw.
        """
        self._need(1, "mean")
        return float(self._mean) if self._mean.ndim == 0 else self._mean.copy()

    @property
    def variance(self) -> Any:
        """Unbiased variance of one draw, ``sum (f_i - mean)^2 / (n - 1)``."""
        self._need(2, "variance")
        variance = self._scatter / (self.count - 1)
        return float(variance) if variance.ndim == 0 else variance

    def __repr__(self) -> str:
        mean = f"{self._mean:.6g} ± {self.standard_error:.2g}, " if self.count > 1 and not self._mean.ndim else ""
        return f"{type(self).__name__}({mean}{self.count} draws)"

    @property
    def effective(self) -> float:
        """The draws are taken to be independent: their number."""
        return float(self.count)

    @property
    def khat(self) -> float:
        """Shape of the heaviest tail of the values: from 0.5 on their variance is infinite, from 1 on the mean.

        Of both tails, and of the 64 coordinates whose farthest draw makes up most of their scatter; nan where it cannot
        be told (fewer than 25 draws, equal values).
        """
        return self._tails.heaviest(self.count, self._mean.ravel(), self._scatter.ravel())[0]

    @property
    def notice(self) -> str:
        """A word on tails without a finite variance; empty when nothing is wrong.

        Speaks of one coordinate when `khat` exceeds 0.5; of several a higher k-hat is asked, lest chance alone speak.
        """
        k, limit, at = self._tails.heaviest(self.count, self._mean.ravel(), self._scatter.ravel())
        if not k > limit:
            return ""
        where = f" in coordinate {np.unravel_index(at, self._mean.shape)}" if self._mean.size > 1 else ""
        what = "mean" if k >= 1 else "variance"
        return (
            f"the values have a heavy tail{where} (k-hat {k:.2f}): their {what} is likely infinite and the standard "
            "error is not to be trusted"
        )

    def _join(self, n: int, mean: Floats, scatter: Floats) -> None:
        if not self.count:
            self.count, self._mean, self._scatter = n, np.array(mean), np.array(scatter)
            return
        total = self.count + n
        apart = mean - self._mean
        self._mean = np.asarray(self._mean + apart * (n / total))
        self._scatter = np.asarray(self._scatter + scatter + np.square(apart) * (self.count * (n / total)))
        self.count = total

    def _need(self, n: int, what: str) -> None:
        if self.count < n:
            raise UserValueError(f"{what} needs at least {n} draws, got {self.count}", what)


class Expectation(RunningMean):
    """E[f(x)] by draws of x, with a budget that may be raised: see `expectation`.

    Parameters
    ----------
    f : callable
        (n, ...) draws to (n,) or (n, ...) values.
    sampler : Samples, Family or callable
        ``sample(n, noise)``, a distribution of `gnomon.distributions`, or a function of (n, noise): n independent
        draws.
    noise : Noise
        Draw i uses the numbers of position i.
    batch : int, in [1, inf)
        Draws at a time; bounds the memory, changes no value beyond rounding.
    """

    @checked
    def __init__(self, f: Callable[[Array], ArrayLike], sampler: Sampler, noise: Noise, batch: int = 1 << 16) -> None:
        super().__init__()
        if batch < 1:
            raise UserValueError.must("batch", "be at least 1", batch)
        self.f, self.noise, self.batch = f, noise, batch
        self._draw = _drawing(sampler)
        if not callable(self._draw):
            raise UserTypeError(f"sampler must have sample(n, noise), got a {type(sampler).__name__}", "sampler")

    def run(self, n: int) -> Estimate:
        """Draw n more and answer the estimate from all draws so far: a value and its error, whatever the budget.

        Returns
        -------
        Estimate
            The error of a single draw is inf.
        """
        self.extend(n)
        return Estimate(self.mean, np.inf if self.count == 1 else self.standard_error, 0.0)

    @checked
    def extend(self, n: int) -> Self:
        """Draw n more."""
        if n < 1:
            raise UserValueError.must("n", "be at least 1", n)
        how_many(self.count + n)
        end = self.count + n
        while self.count < end:
            size = min(self.batch, end - self.count)
            x = self._draw(size, self.noise.take(np.arange(self.count, self.count + size)))
            values = self.values(x)
            if np.shape(values)[:1] != (size,):
                raise UserValueError(
                    f"f must return one value for each of the {size} draws, got shape {np.shape(values)}", "f"
                )
            self.update(values)
        return self

    def values(self, x: Array) -> Array:
        """What is averaged, of draws x."""
        return self.f(x)


def _drawing(sampler: Any) -> Any:
    """The function of (n, noise) that draws; a family of `gnomon.distributions` takes the noise first."""
    if not isinstance(sampler, Samples):
        return sampler
    draw: Any = sampler.sample
    if next(iter(inspect.signature(draw).parameters), "") == "noise":
        return lambda n, noise: draw(noise, 0, (n,))
    return draw


@checked
def expectation(
    f: Callable[[Array], ArrayLike], sampler: Sampler, n: int, noise: Noise, *, batch: int = 1 << 16
) -> Expectation:
    """E[f(x)] = mean of f over n independent draws of x.

    Unbiased; the error falls as ``sqrt(Var[f] / n)`` if the variance is finite. For draws of a Markov chain
    use `gnomon.inference.montecarlo.chain_mean.chain_mean`.

    Parameters
    ----------
    f : callable
        (n, ...) draws to (n,) or (n, ...) values.
    sampler : Samples, Family or callable
        ``sample(n, noise)``, a distribution of `gnomon.distributions`, or a function of (n, noise): n independent
        draws.
    n : int, in [1, inf)
        Number of draws.
    noise : Noise
        Draw i uses the numbers of position i, so that n draws are the first of more.
    batch : int, in [1, inf)
        Draws at a time; bounds the memory.

    Returns
    -------
    Expectation
        ``mean``, ``standard_error``, ``confint(level)``, ``n_for_precision(eps)``; ``run(n_more)`` goes on.

    References
    ----------
    Metropolis and Ulam (1949), "The Monte Carlo method".

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> found = expectation(
    ...     np.square, lambda n, noise: noise.normal((n,), like=np.empty(0)), 10_000, Noise(0, "square")
    ... )
    >>> low, high = found.confint(0.99)
    >>> low < 1 < high, found.n_for_precision(0.001) > 1_500_000
    (True, True)
    """
    return Expectation(f, sampler, noise, batch).extend(n)
