"""Conjugate algebra: prior and statistics give posterior, evidence and predictive in closed form.

Every pair is an immutable distribution of a parameter. ``update`` adds rows, ``remove`` takes them out again, both by
sums over the rows with weights, so that the same algebra serves sequential updates, EM, Gibbs sampling and Dirichlet
processes. ``log_evidence`` is that of the rows in their order. `conjugate` finds a pair by likelihood and prior.

Source: Raiffa and Schlaifer (1961), chapter 3; Bishop (2006), chapter 2.
"""

from gnomon.distributions.conjugate.base import Pair, conjugate, is_conjugate, same_up_to_a_constant
from gnomon.distributions.conjugate.counts import BernoulliBeta, CategoricalDirichlet, PoissonGamma, UniformPareto
from gnomon.distributions.conjugate.matrices import (
    MultivariateNormalMean,
    MultivariateNormalMeanPrecision,
    MultivariateNormalPrecision,
)
from gnomon.distributions.conjugate.normals import NormalMean, NormalMeanPrecision, NormalPrecision
from gnomon.distributions.conjugate.updating import pairs, prior, update

__all__ = [
    "BernoulliBeta", "CategoricalDirichlet", "MultivariateNormalMean", "MultivariateNormalMeanPrecision",
    "MultivariateNormalPrecision", "NormalMean", "NormalMeanPrecision", "NormalPrecision", "Pair", "PoissonGamma",
    "UniformPareto", "conjugate", "is_conjugate", "pairs", "prior", "same_up_to_a_constant", "update",
]  # fmt: skip
