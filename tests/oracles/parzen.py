"""The tree-structured Parzen estimator, computed anew: densities of good and bad trials, and what is proposed.

The trials that were best (a tenth of them, at least one) are the good ones. A density is a mixture with equal weights
of one product of kernels for each trial of its kind, and of one wide product, the prior. On a range [a, b] (its
logarithm where that is uniform) the kernel of a trial is a normal distribution about its value truncated to [a, b],
whose width is the larger of the distances to the next values on either side among the trials of its kind (of the two
outermost ones, to the only neighbor among them where there is one), at least (b - a) / min(100, 2 + n) and at most
b - a; the prior is centered with width b - a. Of 24 draws from the density of the good ones the one is proposed at
which its ratio to that of the bad ones is largest.

Source: Bergstra, Bardenet, Bengio and Kegl (2011), section 4; Watanabe (2023), Tree-structured Parzen estimator:
understanding its algorithm components, section 3, for the widths.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

__all__ = ["Parzen", "split"]


def split(points, values):
    """Good and bad points where small values are good; of at most 250 trials."""
    order = np.argsort(values, kind="stable")
    good = np.zeros(len(values), bool)
    good[order[: math.ceil(0.1 * len(values))]] = True
    return np.asarray(points)[good], np.asarray(points)[~good]


class Parzen:
    """The density of some points (n, d) in a box of (low, high) for each of d coordinates; n below 25."""

    def __init__(self, points, box):
        points, self.box = np.atleast_2d(points), box
        self.kernels = []  # one frozen distribution of all components for each coordinate
        for x, (low, high) in zip(points.T, box, strict=True):
            mean = np.append(x, (low + high) / 2)
            width = np.append(self._widths(x, low, high), high - low)
            law = stats.truncnorm((low - mean) / width, (high - mean) / width, loc=mean, scale=width)
            self.kernels.append(law)
        self.n = len(points) + 1

    @staticmethod
    def _widths(x, low, high):
        order = np.argsort(x)
        gaps = np.diff(np.concatenate([[low], x[order], [high]]))
        widths = np.maximum(gaps[:-1], gaps[1:])
        if len(x) > 1:
            widths[0], widths[-1] = gaps[1], gaps[-2]
        found = np.empty_like(widths)
        found[order] = np.clip(widths, (high - low) / min(100, 2 + len(x)), high - low)
        return found

    def density(self, points):
        """At points (m, d)."""
        parts = [law.pdf(points[:, [j]]) for j, law in enumerate(self.kernels)]
        return np.prod(parts, axis=0).mean(axis=1)

    def draw(self, n, random):
        """Points (n, d)."""
        component = random.integers(self.n, size=n)
        columns = []
        for law in self.kernels:
            u = random.random(n)
            a, b = law.args
            mean, width = law.kwds["loc"], law.kwds["scale"]
            part = stats.truncnorm(a[component], b[component], loc=mean[component], scale=width[component])
            columns.append(part.ppf(u))
        return np.column_stack(columns)
