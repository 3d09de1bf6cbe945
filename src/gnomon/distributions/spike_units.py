"""Units of the spike-and-slab machine: real ones whose precision is moved too, and a switch with amplitudes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, Distribution
from gnomon.distributions.layers import LOG_2_PI, Gaussians, exp
from gnomon.distributions.units import Own, ScaledGaussianUnits, Units, mean_of
from gnomon.numeric import ops
from gnomon.numeric.tensors import detached

__all__ = ["PrecisionGaussianUnits", "SpikeAndSlabUnits", "SpikesAndSlabs"]


class PrecisionGaussianUnits(ScaledGaussianUnits):
    """Real units of which links see x and -x^2 / 2: a field moves the mean, its second half adds to the precisions.

    Under a field (f, g) the units are normal with precision exp(log_precision) + g and mean (bias + f) / precision.

    Examples
    --------
    >>> units, own = PrecisionGaussianUnits(1), {"bias": np.ones(1), "log_precision": np.zeros(1)}
    >>> found = units.conditional(np.array([[1.0, 3.0]]), own)
    >>> found.mean.tolist(), found.variance.round(6).tolist()
    ([[0.5]], [[0.25]])
    """

    @property
    def n_features(self) -> int:
        """Two for each unit."""
        return 2 * self.n

    def features(self, x: Array | Distribution) -> Array:
        """x beside -x^2 / 2."""
        mean: Any = mean_of(x)
        square = mean * mean + (getattr(x, "variance", 0.0) if hasattr(x, "log_prob") else 0.0)
        return ops.concatenate([mean, -0.5 * square], axis=1)

    def conditional(self, field: Array, own: Own) -> Gaussians:
        """Mean (bias + f) / precision."""
        linear, precision = self._under(field, own)
        return Gaussians(linear / precision, _log(precision))

    def log_normalizer(self, field: Array, own: Own) -> Array:
        """Sum of ``(bias + f)^2 / (2 precision) + log(2 pi / precision) / 2``."""
        linear, precision = self._under(field, own)
        return 0.5 * (linear * linear / precision + LOG_2_PI - _log(precision)).sum(-1)

    def statistics(self, x: Array | Distribution, mean: Array, own: Own) -> dict[str, Array]:
        """x, and -precision x^2 / 2."""
        return {"bias": mean[:, : self.n], "log_precision": exp(own["log_precision"]) * mean[:, self.n :]}

    def _under(self, field: Array, own: Own) -> tuple[Array, Array]:
        """The linear coefficient and the precision."""
        return field[:, : self.n] + own["bias"], field[:, self.n :] + exp(own["log_precision"])


@dataclass(frozen=True)
class SpikeAndSlabUnits(Units):
    r"""n switches h of 0 and 1 (spikes) with `slabs` real amplitudes s each; links see the products s h, and h.

    A state is [s h, h], the amplitudes of a switch side by side: where h is 0 its amplitudes are exactly 0.
    :math:`w = \sum_i h_i (b_i + \sum_k \alpha_{ik} (\mu_{ik} s_{ik} - s_{ik}^2 / 2 - \mu_{ik}^2))`, with respect to a
    point mass at 0 of :math:`\prod_k (2 \pi / \alpha_{ik})^{1/2}`, which is what an amplitude without influence,
    :math:`N(0, 1 / \alpha_{ik})`, integrates to. Parameters: ``bias`` b (n), ``mean`` mu and ``log_precision``
    log alpha (n slabs).

    Parameters
    ----------
    n : int, in [1, inf)
        Switches.
    slabs : int, in [1, inf)
        Amplitudes of each.

    References
    ----------
    Courville, Bergstra and Bengio (2011), "A spike and slab restricted Boltzmann machine".

    Examples
    --------
    >>> own = {"bias": np.zeros(1), "mean": np.full(1, 2.0), "log_precision": np.zeros(1)}
    >>> SpikeAndSlabUnits(1).conditional(np.array([[1.0, 0.0]]), own).mean.round(4).tolist()
    [[1.8674, 0.6225]]
    """

    slabs: int = 1
    parameters: ClassVar[tuple[str, ...]] = ("bias", "mean", "log_precision")

    @property
    def n_slabs(self) -> int:
        """Amplitudes of all switches."""
        return self.n * self.slabs

    @property
    def size(self) -> int:
        """A column for each amplitude, then one for each switch."""
        return self.n_slabs + self.n

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """A bias for each switch, the others for each amplitude."""
        return {"bias": (self.n,), "mean": (self.n_slabs,), "log_precision": (self.n_slabs,)}

    def conditional(self, field: Array, own: Own) -> SpikesAndSlabs:
        """Amplitudes N(mu + f / alpha, 1 / alpha) behind switches of the log-odds that they and the field give."""
        return SpikesAndSlabs(*self._under(field, own), own["log_precision"])

    def log_normalizer(self, field: Array, own: Own) -> Array:
        """Sum of softplus(log-odds) and of log(2 pi / alpha) / 2."""
        logits, _ = self._under(field, own)
        return ops.softplus(logits).sum(-1) + 0.5 * (LOG_2_PI - own["log_precision"]).sum(-1)

    def log_weight(self, x: Array | Distribution, own: Own) -> Array:
        """w, with the logs of the point masses."""
        log_precision, (slab, spike) = own["log_precision"], self._parts(mean_of(x))
        alpha, each = exp(log_precision), _spread(spike, self.slabs)
        quadratic = own["mean"] * slab - 0.5 * _second(x, slab) - own["mean"] * own["mean"] * each
        mass = 0.5 * (1 - each) * (LOG_2_PI - log_precision)
        return spike @ own["bias"] + (alpha * quadratic + mass).sum(-1)

    def statistics(self, x: Array | Distribution, mean: Array, own: Own) -> dict[str, Array]:
        """h; alpha (s h - 2 mu h); the derivative by log alpha, with that of the point masses."""
        slab, spike = self._parts(mean)
        alpha, mu, each = exp(own["log_precision"]), own["mean"], _spread(spike, self.slabs)
        by_log = alpha * (mu * slab - 0.5 * _second(x, slab) - mu * mu * each) - 0.5 * (1 - each)
        return {"bias": spike, "mean": alpha * (slab - 2 * mu * each), "log_precision": by_log}

    def mix(self, start: Own, end: Own, eta: float) -> dict[str, Array]:
        """alpha and alpha mu mix linearly, and so does what a switch adds besides."""
        shares = (1 - eta, eta)
        alpha = sum(share * exp(own["log_precision"]) for share, own in zip(shares, (start, end), strict=True))
        pull = sum(
            share * exp(own["log_precision"]) * own["mean"] for share, own in zip(shares, (start, end), strict=True)
        )
        mean, log_alpha = pull / alpha, _log(alpha)
        alone = sum(
            share * (own["bias"] - self._cost(own["mean"], own["log_precision"]))
            for share, own in zip(shares, (start, end), strict=True)
        )
        return {"bias": alone + self._cost(mean, log_alpha), "mean": mean, "log_precision": log_alpha}

    def base(self, mean: NDArray[np.float64] | None, own: Own) -> dict[str, NDArray[np.float64]]:
        """Fair switches with amplitudes around 0; alpha is kept."""
        log_precision = np.asarray(own["log_precision"], np.float64)
        return {"bias": np.zeros(self.n), "mean": np.zeros(self.n_slabs), "log_precision": log_precision}

    def _cost(self, mean: Array, log_precision: Array) -> Array:
        """What the bias of a switch is set against: its density at amplitudes 0 beside the point mass."""
        each = exp(log_precision) * mean * mean - 0.5 * log_precision
        return each.reshape(self.n, self.slabs).sum(-1)

    def _parts(self, x: Any) -> tuple[Any, Any]:
        """Amplitudes and switches."""
        return x[:, : self.n_slabs], x[:, self.n_slabs :]

    def _under(self, field: Array, own: Own) -> tuple[Array, Array]:
        """Log-odds of the switches and means of the amplitudes behind them."""
        pull, odds = self._parts(field)
        alpha, mu = exp(own["log_precision"]), own["mean"]
        gain = pull * (mu + 0.5 * pull / alpha) - 0.5 * alpha * mu * mu
        logits = odds + own["bias"] + gain.reshape(len(gain), self.n, self.slabs).sum(-1)
        return logits, mu + pull / alpha


class SpikesAndSlabs:
    """Independent switches, each with real amplitudes that are normal where it is on and exactly 0 where it is off.

    Densities are with respect to lengths plus a point mass of 1 at 0.

    Parameters
    ----------
    logits : array or tensor, shape (rows, n)
        Log-odds of the switches.
    loc : array or tensor, shape (rows, n slabs)
        Means of the amplitudes where their switch is on.
    log_precision : array or tensor, shape (n slabs,)
        Log of 1 / variance of these.

    Examples
    --------
    >>> found = SpikesAndSlabs(np.zeros((1, 1)), np.ones((1, 1)), np.zeros(1))
    >>> found.log_prob(np.array([[0.0, 0.0], [1.0, 1.0]])).round(4)
    array([-0.6931, -1.6121])
    """

    __slots__ = ("loc", "log_precision", "logits")

    def __init__(self, logits: Any, loc: Any, log_precision: Any) -> None:
        self.logits, self.loc, self.log_precision = logits, loc, log_precision

    @property
    def slabs(self) -> int:
        """Amplitudes of a switch."""
        return int(self.loc.shape[1] // self.logits.shape[1])

    @property
    def spike_mean(self) -> Any:
        """Probability that each switch is on."""
        return ops.sigmoid(self.logits)

    @property
    def mean(self) -> Any:
        """[E[s h], E[h]]."""
        spike = self.spike_mean
        return ops.concatenate([_spread(spike, self.slabs) * self.loc, spike], axis=1)

    @property
    def mode(self) -> Any:
        """[s h, h] where each switch is at its more probable value, and its amplitudes are most probable given it."""
        spike = ops.positive(self.logits)
        return ops.concatenate([_spread(spike, self.slabs) * self.loc, spike], axis=1)

    @property
    def second(self) -> Any:
        """E[s^2 h]."""
        return _spread(self.spike_mean, self.slabs) * (self.loc * self.loc + exp(-self.log_precision))

    @property
    def variance(self) -> Any:
        """[Var[s h], Var[h]]."""
        spike = self.spike_mean
        amplitude = _spread(spike, self.slabs) * self.loc
        return ops.concatenate([self.second - amplitude * amplitude, spike * (1 - spike)], axis=1)

    def sample(self, noise: Any, draw: int = 0) -> Any:
        """One draw of every switch and its amplitudes; carries no gradient."""
        spike = noise.bernoulli_logits(self.logits, draw)
        step = exp(-0.5 * self.log_precision) * noise.child("slab").normal(
            tuple(self.loc.shape), draw, like=self.loc
        )  # fmt: skip
        drawn = ops.concatenate([_spread(spike, self.slabs) * (self.loc + step), spike], axis=1)
        return detached(drawn)

    def log_prob(self, x: Any) -> Any:
        """Log density of each row in nats."""
        k = self.loc.shape[1]
        slab, spike = x[:, :k], x[:, k:]
        away = slab - self.loc
        density = 0.5 * (self.log_precision - LOG_2_PI - exp(self.log_precision) * away * away)
        of_spikes = (spike * self.logits - ops.softplus(self.logits)).sum(-1)
        return of_spikes + (_spread(spike, self.slabs) * density).sum(-1)

    def entropy(self) -> Any:
        """Entropy of each row in nats, with respect to the same measure."""
        p, a = self.spike_mean, self.logits
        of_spikes = (p * ops.softplus(-a) + (1 - p) * ops.softplus(a)).sum(-1)
        return of_spikes + 0.5 * (_spread(p, self.slabs) * (1 + LOG_2_PI - self.log_precision)).sum(-1)


def _spread(spike: Any, slabs: int) -> Any:
    """Each switch once for each of its amplitudes."""
    if slabs == 1:
        return spike
    return spike[:, np.repeat(np.arange(spike.shape[1]), slabs)]


def _second(x: Any, slab: Any) -> Any:
    """(s h)^2, E[s^2 h] of a Distribution."""
    return x.second if hasattr(x, "log_prob") else slab * slab


def _log(x: Any) -> Any:
    return x.log() if hasattr(x, "log") else np.log(x)
