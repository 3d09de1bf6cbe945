"""Mixtures of normal densities on the line, a batch of them."""

from __future__ import annotations

import math

import numpy as np

from gnomon.contracts import Array, Noise
from gnomon.distributions.table import Categorical
from gnomon.numeric import ops
from gnomon.numeric.tensors import is_tensor

__all__ = ["MixedNormals"]


class MixedNormals:
    r"""Independent real variables, each of density :math:`\sum_c \alpha_c N(x; \mu_c, s_c^2)`.

    Parameters
    ----------
    logits : array or tensor of shape (..., k)
        Log weights; a constant may be added.
    means, variances : arrays or tensors of shape (..., k)
        Everything is answered in the kind, dtype and device of these.

    Notes
    -----
    Log densities are sums of logarithms, so that a value far from all components has a finite one. O(k) for each
    variable.

    Examples
    --------
    >>> import numpy as np
    >>> mixture = MixedNormals(np.log([0.3, 0.7]), np.array([-1.0, 1.0]), np.array([0.25, 1.0]))
    >>> round(float(mixture.log_prob(0.5)), 6), round(float(mixture.mean), 6), round(float(mixture.variance), 6)
    (-1.389881, 0.4, 1.615)
    """

    __slots__ = ("log_weights", "means", "variances")

    def __init__(self, logits: Array, means: Array, variances: Array) -> None:
        self.log_weights, self.means, self.variances = ops.log_softmax(logits), means, variances

    def log_prob(self, x: Array) -> Array:
        """Log density in nats, the shape of the batch."""
        apart = (x[..., None] if getattr(x, "ndim", 0) else x) - self.means
        log = self.variances.log() if is_tensor(self.variances) else np.log(self.variances)
        return ops.logsumexp(self.log_weights - 0.5 * (apart * apart / self.variances + log + math.log(2 * math.pi)))

    @property
    def mean(self) -> Array:
        """Expected value."""
        return (self._weights * self.means).sum(-1)

    @property
    def variance(self) -> Array:
        """Variance, within the components and between them."""
        apart = self.means - self.mean[..., None]
        return (self._weights * (self.variances + apart * apart)).sum(-1)

    def sample(self, noise: Noise, draw: int = 0) -> Array:
        """One draw of each variable: its component, then its value; no gradient."""
        log_weights, means, variances = (
            one.detach() if is_tensor(one) else one for one in (self.log_weights, self.means, self.variances)
        )
        chosen = Categorical(log_weights).sample(noise.child("component"), draw)[..., None]
        normal = noise.child("value").normal(tuple(means.shape[:-1]), draw, like=means)
        if is_tensor(means):
            return means.gather(-1, chosen)[..., 0] + variances.gather(-1, chosen)[..., 0].sqrt() * normal
        mean, variance = (np.take_along_axis(one, chosen, -1)[..., 0] for one in (means, variances))
        return mean + variance**0.5 * normal

    @property
    def _weights(self) -> Array:
        return self.log_weights.exp() if is_tensor(self.log_weights) else np.exp(self.log_weights)
