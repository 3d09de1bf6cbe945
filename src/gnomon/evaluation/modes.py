"""Whether a generator leaves modes of the data out: viewers of samples cannot see what is never made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.errors import UserValueError

__all__ = ["ModeCoverage", "mode_coverage"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ModeCoverage:
    """How often each mode was made, beside how often it should be.

    Attributes
    ----------
    modes : tuple
        Their names.
    counts : int64 array of shape (modes,)
    expected : array of shape (modes,)
        Probabilities.
    elsewhere : int
        Samples that are of no mode.
    """

    modes: tuple[Any, ...]
    counts: NDArray[np.int64]
    expected: Floats
    elsewhere: int = 0

    @property
    def covered(self) -> int:
        """How many modes were made at least once."""
        return int((self.counts[self.expected > 0] > 0).sum())

    @property
    def absent(self) -> dict[Any, float]:
        """Modes that were never made, with the chance of that: (1 - p)^n. A rare mode is easily missed by chance."""
        n = int(self.counts.sum()) + self.elsewhere
        gone = np.flatnonzero((self.counts == 0) & (self.expected > 0)).tolist()
        return {self.modes[j]: float((1 - self.expected[j]) ** n) for j in gone}

    @property
    def kl(self) -> float:
        """KL divergence of the frequencies of the modes from their probabilities, nats; infinite where one has none."""
        share = self.counts / self.counts.sum()
        there = share > 0
        with np.errstate(divide="ignore"):
            return float((share[there] * (np.log(share[there]) - np.log(self.expected[there]))).sum())

    @cached_property
    def chi_square(self) -> tuple[float, float]:
        """Pearson's statistic over the modes, and its p value; rough where fewer than five of a mode are expected."""
        from scipy.stats import chisquare

        there = self.expected > 0
        if self.counts[~there].any():
            return float("inf"), 0.0
        found = chisquare(self.counts[there], self.expected[there] * self.counts.sum())
        return float(found.statistic), float(found.pvalue)

    def __str__(self) -> str:
        statistic, p = self.chi_square
        text = f"{self.covered} of {int((self.expected > 0).sum())} modes; KL {self.kl:.4g} nats, "
        text += f"chi-square {statistic:.4g}, p {p:.2g}"
        if self.elsewhere:
            text += f"; {self.elsewhere} samples of no mode"
        gone = [f"{name} (by chance {chance:.2g})" for name, chance in self.absent.items()]
        return f"{text}; never made: {', '.join(gone)}" if gone else text


def mode_coverage(
    samples: Any, labeler: Callable[[Any], ArrayLike] | Any, reference: ArrayLike, modes: Sequence[Any] | None = None
) -> ModeCoverage:
    """Assign samples to known modes, and compare how often each occurs with what should be.

    Parameters
    ----------
    samples : array of shape (n, ...)
    labeler : callable, or object with ``predict``
        Samples -> n labels: a classifier, clusters, a rule. Labels that are no mode (-1, say) are counted apart: a
        labeler may be asked about samples that are like no data.
    reference : array
        A probability for each mode, summing to 1, where `modes` names them; else labels of real rows, whose shares are
        the probabilities.
    modes : sequence, optional
        Labels of the modes, in the order of `reference`.

    Returns
    -------
    ModeCoverage

    Raises
    ------
    UserValueError
        No sample, no mode, probabilities that do not sum to 1, another number of labels than of samples.

    References
    ----------
    Goodfellow, Bengio and Courville (2016), section 20.14; Che, Li, Jacob, Bengio and Li (2017), "Mode regularized
    generative adversarial networks".

    Examples
    --------
    >>> found = mode_coverage(np.array([0.1, 0.2, 2.1]), np.round, [0.5, 0.25, 0.25], modes=[0.0, 1.0, 2.0])
    >>> found.covered, found.counts.tolist(), round(found.absent[1.0], 4)
    (2, [2, 0, 1], 0.4219)
    """
    names, expected = _expected(reference, modes)
    labels = np.asarray(labeler.predict(samples) if hasattr(labeler, "predict") else labeler(samples)).reshape(-1)
    if not len(labels) or len(labels) != len(samples):
        what = f"labeler must give a label for each of {len(samples)} samples, got {len(labels)}"
        raise UserValueError(what, "labeler", "give at least 1 sample and a label for each")
    counts = np.array([(labels == name).sum() for name in names], np.int64)
    if not counts.sum():
        raise UserValueError("samples must include one of some mode, got none", "samples", "look at the labeler")
    return ModeCoverage(names, counts, expected, len(labels) - int(counts.sum()))


def _expected(reference: ArrayLike, modes: Sequence[Any] | None) -> tuple[tuple[Any, ...], Floats]:
    if modes is None:
        names, counts = np.unique(np.asarray(reference), return_counts=True)
        if not len(names):
            raise UserValueError("reference must hold at least 1 label, got none", "reference")
        return tuple(names.tolist()), counts / counts.sum()
    expected = np.asarray(reference, np.float64)
    if expected.shape != (len(modes),) or not (expected >= 0).all() or abs(expected.sum() - 1) > 1e-9:
        raise UserValueError.must("reference", "be a probability for each mode, summing to 1", reference)
    return tuple(modes), expected
