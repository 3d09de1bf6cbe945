"""Normalizers by importance sampling: from draws of a proposal, or annealed along a path of distributions."""

from __future__ import annotations

from typing import Any

from gnomon.contracts import Noise
from gnomon.inference.importance.adapters import Proposal, as_proposal
from gnomon.inference.importance.weights import WeightedSample, importance_sample
from gnomon.inference.mcmc.density import as_density
from gnomon.numeric.given import checked

__all__ = ["Proposal", "as_proposal", "estimate_log_z"]


@checked
def estimate_log_z(target: Any, proposal: Any, n: int, noise: Noise) -> WeightedSample:
    r"""Log Z of a target from draws of a normalized proposal.

    .. math:: \hat Z = \frac{1}{n} \sum_i \tilde p(x_i) / q(x_i)

    The estimate of Z is unbiased; its log, ``log_mean_weight``, is too low on average. Its error in nats is ``stderr``,
    which means little where one weight dominates (`notice` says so): the proposal must cover the target.

    Parameters
    ----------
    target : object with ``energy`` or ``log_prob``, or callable
        Unnormalized log density of rows, in nats.
    proposal : Family, or object with ``sample(n, noise)`` and a normalized ``log_prob``
    n : int, in [1, inf)
    noise : Noise
        Row i uses the numbers of position i.

    Returns
    -------
    WeightedSample
        Cost: n draws and n evaluations of both densities.

    References
    ----------
    Kahn and Marshall (1953).

    Examples
    --------
    >>> from gnomon.distributions.real import Normal
    >>> from gnomon.numeric.noise import Noise
    >>> found = estimate_log_z(lambda x: -0.5 * (x * x).sum(-1), Normal(0.0, 1.5), 4000, Noise(0, "doc"))
    >>> abs(found.log_mean_weight - 0.918939) < 4 * found.stderr
    True
    """
    return importance_sample(as_density(target).log_prob, as_proposal(proposal), n, noise)
