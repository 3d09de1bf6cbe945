"""Conditionally conjugate models as natural gradients see them: a pair alone, and a mixture of pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from gnomon.contracts import Noise
from gnomon.distributions.conjugate import CategoricalDirichlet, Pair
from gnomon.distributions.family import Family
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.variational.method import Approximation, Marginal

__all__ = ["ConjugateMixture", "ConjugateModel", "DrawnMarginal", "PairModel", "as_conjugate"]

Floats = NDArray[np.float64]

DRAWS = 4000
"""Behind a marginal that has no closed form."""


class ConjugateModel(Approximation, Protocol):
    """q of the global parameters, in the family of their prior; local latents are found from it row by row."""

    @property
    def natural(self) -> Floats:
        """Natural parameters of q on one axis."""

    def with_natural(self, natural: Floats) -> Self:
        """q of other natural parameters."""

    def begin(self, x: ArrayLike, noise: Noise) -> Self:
        """Where an ascent from this prior begins."""

    def improved(self, prior: Self, x: ArrayLike, scale: float) -> Floats:
        """Natural parameters of the best q given these rows, each counted `scale` times, and their latents under q."""

    def row_bounds(self, x: ArrayLike) -> Floats:
        """E_q[log p(row, latents | parameters)] + H(latents) of each row, (n,), at the best latents under q."""

    def divergence(self, prior: Any) -> float:
        """KL(q || prior) of the global parameters."""

    def log_posterior_ratio(self, prior: Self, x: ArrayLike, n: int, noise: Noise) -> Floats | None:
        """log p(x, parameters) - log q at draws of q; None where p has no density at hand."""


class DrawnMarginal:
    """A number known by draws: moments and quantiles of them, and a density with a Gaussian kernel.

    Parameters
    ----------
    draws : array of shape (n,)
    """

    def __init__(self, draws: Floats) -> None:
        self.draws = draws

    @property
    def mean(self) -> float:
        """Of the draws."""
        return float(self.draws.mean())

    @property
    def variance(self) -> float:
        """Of the draws."""
        return float(self.draws.var())

    def icdf(self, u: ArrayLike) -> Floats:
        """Quantiles of the draws."""
        return np.asarray(np.quantile(self.draws, np.asarray(u, np.float64)), np.float64)

    def log_prob(self, x: ArrayLike) -> Floats:
        """Log density in nats by the kernel."""
        found: Floats = np.asarray(stats.gaussian_kde(self.draws).logpdf(np.ravel(x)))
        return found


@dataclass(frozen=True)
class PairModel:
    """A conjugate pair whose parameters are all there is to infer.

    Parameters
    ----------
    pair : Pair
        q, or the prior.
    names : tuple of str, optional
        Of its parameters, such as ``("mean", "precision")``; those by default, ``parameter`` where there is one.
    """

    pair: Pair
    names: tuple[str, ...] = ()

    @property
    def _names(self) -> tuple[str, ...]:
        both = hasattr(self.pair.distribution(), "precision_distribution")
        return self.names or (("mean", "precision") if both else ("parameter",))

    @property
    def natural(self) -> Floats:
        """Of the pair."""
        return self.pair.natural

    def with_natural(self, natural: Floats) -> Self:
        """The same model at other natural parameters."""
        return replace(self, pair=self.pair.with_natural(natural))

    def begin(self, x: ArrayLike, noise: Noise) -> Self:
        """At the prior."""
        return self

    def improved(self, prior: Self, x: ArrayLike, scale: float) -> Floats:
        """The conjugate update of the prior."""
        return prior.pair.update(x, scale).natural

    def row_bounds(self, x: ArrayLike) -> Floats:
        """Mean log-likelihood of each row."""
        return self.pair.mean_log_likelihood(x)

    def divergence(self, prior: Any) -> float:
        """In closed form."""
        return self.pair.divergence(prior.pair)

    def log_posterior_ratio(self, prior: Self, x: ArrayLike, n: int, noise: Noise) -> Floats | None:
        """From the exact posterior, which is known."""
        z = self._drawn(n, noise)
        exact = prior.pair.update(x).distribution()
        found: Floats = exact.log_prob(*z) - self.pair.distribution().log_prob(*z) + prior.pair.log_evidence(x)
        return found

    def _drawn(self, n: int, noise: Noise) -> tuple[Floats, ...]:
        z = self.pair.distribution().sample(noise, 0, (n,))
        return z if isinstance(z, tuple) else (z,)

    def sample(self, n: int, noise: Noise) -> dict[str, Floats]:
        """Draws by name."""
        return dict(zip(self._names, self._drawn(n, noise), strict=True))

    def log_prob(self, values: Mapping[str, Any]) -> Floats:
        """Log density at rows of parameters."""
        z = [np.asarray(values[name], np.float64) for name in self._names]
        return np.asarray(self.pair.distribution().log_prob(*z), np.float64)

    @property
    def mean(self) -> dict[str, Floats]:
        """In closed form."""
        q = self.pair.distribution()
        if hasattr(q, "precision_distribution"):
            return dict(zip(self._names, (np.asarray(q.loc), np.asarray(q.precision_distribution().mean)), strict=True))
        return {self._names[0]: np.asarray(q.mean, np.float64)}

    @property
    def marginals(self) -> Mapping[str, Marginal]:
        """Distributions of the library of single numbers; draws stand for those of arrays."""
        q = self.pair.distribution()
        if isinstance(q, Family) and not q.event_shape:
            return {self._names[0]: q}
        if hasattr(q, "precision_distribution") and np.ndim(q.loc) == 0:
            return dict(zip(self._names, (q.mean_distribution(), q.precision_distribution()), strict=True))
        return _drawn_marginals(self.sample(DRAWS, _fixed()))


@dataclass(frozen=True)
class ConjugateMixture:
    """A mixture of conjugate pairs with a Dirichlet distribution of its weights; which component a row is of is latent.

    .. math:: q(\\pi) \\prod_k q(\\theta_k) \\prod_n q(z_n), \\qquad
              \\log q(z_n = k) = E[\\log \\pi_k] + E[\\log p(x_n | \\theta_k)] + const

    Parameters
    ----------
    weights : CategoricalDirichlet
    components : tuple of Pair
        One for each weight, all of one likelihood.

    Raises
    ------
    UserValueError
        Numbers of weights and components that differ.
    """

    weights: CategoricalDirichlet
    components: tuple[Pair, ...] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        if len(self.weights.concentration) != len(self.components):
            what = f"components must be {len(self.weights.concentration)}, one for each weight"
            raise UserValueError(what, "components", f"got {len(self.components)}")

    @property
    def natural(self) -> Floats:
        """Of the weights, then of every component."""
        return np.concatenate([self.weights.natural, *(one.natural for one in self.components)])

    def with_natural(self, natural: Floats) -> Self:
        """The same mixture at other natural parameters."""
        sizes = [len(one.natural) for one in (self.weights, *self.components)]
        weights, *rest = np.split(np.asarray(natural, np.float64), np.cumsum(sizes)[:-1])
        components = tuple(one.with_natural(part) for one, part in zip(self.components, rest, strict=True))
        return replace(self, weights=self.weights.with_natural(weights), components=components)

    def begin(self, x: ArrayLike, noise: Noise) -> Self:
        """Each component at a random row: from equal components nothing would ever tell them apart."""
        rows = np.asarray(x, np.float64)
        chosen = noise.order(len(rows))[np.arange(len(self.components)) % len(rows)]
        share = len(rows) / len(self.components)
        components = tuple(
            one.update(rows[i : i + 1], max(1.0, share / 10)) for one, i in zip(self.components, chosen, strict=True)
        )
        return replace(self, components=components)

    def _logits(self, x: ArrayLike) -> Floats:
        codes = np.arange(len(self.components), dtype=np.float64)
        rows = np.stack([one.mean_log_likelihood(x) for one in self.components], axis=1)
        return rows + self.weights.mean_log_likelihood(codes)

    def responsibilities(self, x: ArrayLike) -> Floats:
        """q(z_n = k) of each row, (n, components)."""
        found: Floats = special.softmax(self._logits(x), axis=1)
        return found

    def improved(self, prior: Self, x: ArrayLike, scale: float) -> Floats:
        """Conjugate updates by the rows, weighted by what they belong to."""
        share = scale * self.responsibilities(x)
        parts = [prior.weights.add(share.sum(0)).natural]
        parts += [one.update(x, share[:, k]).natural for k, one in enumerate(prior.components)]
        return np.concatenate(parts)

    def row_bounds(self, x: ArrayLike) -> Floats:
        """log sum_k exp of the logits: the bound at the best q(z_n)."""
        found: Floats = special.logsumexp(self._logits(x), axis=1)
        return found

    def divergence(self, prior: Any) -> float:
        """Of the weights and of every component."""
        parts = [one.divergence(other) for one, other in zip(self.components, prior.components, strict=True)]
        return self.weights.divergence(prior.weights) + sum(parts)

    def log_posterior_ratio(self, prior: Self, x: ArrayLike, n: int, noise: Noise) -> Floats | None:
        """Unknown: the exact posterior has as many terms as rows can be assigned."""
        return None

    def _models(self) -> dict[str, PairModel]:
        each = {f"component_{k}": PairModel(one) for k, one in enumerate(self.components)}
        return {"weights": PairModel(self.weights, ("weights",)), **each}

    def sample(self, n: int, noise: Noise) -> dict[str, Floats]:
        """Draws by name: ``weights``, ``component_0/mean`` ..."""
        return {
            _joined(owner, name): x
            for owner, one in self._models().items() for name, x in one.sample(n, noise.child(owner)).items()
        }  # fmt: skip

    def log_prob(self, values: Mapping[str, Any]) -> Floats:
        """Sum of the parts'."""
        parts = [
            one.log_prob({name: values[_joined(owner, name)] for name in one._names})
            for owner, one in self._models().items()
        ]
        return np.asarray(sum(parts[1:], start=parts[0]))

    @property
    def mean(self) -> dict[str, Floats]:
        """By name."""
        return {_joined(owner, name): x for owner, one in self._models().items() for name, x in one.mean.items()}

    @property
    def marginals(self) -> Mapping[str, Marginal]:
        """Of every number."""
        return {_joined(owner, name): x for owner, one in self._models().items() for name, x in one.marginals.items()}


def as_conjugate(target: Any) -> Any:
    """A pair or a mixture of pairs as a model.

    Raises
    ------
    UserTypeError
        Anything else; a pair that is no exponential family.
    """
    if isinstance(target, Pair):
        target = PairModel(target)
    if not hasattr(target, "improved"):
        raise UserTypeError(
            f"natural gradients need a conjugate pair or a mixture of them, got a {type(target).__name__}", "target",
            "give gnomon.conjugate.NormalMean(...) or the like, or use method='advi' with batch_size",
        )  # fmt: skip
    target.natural  # noqa: B018  a pair without one says so
    return target


def _joined(owner: str, name: str) -> str:
    """``weights``, ``weights[0]`` or ``component_0/mean``."""
    return name if name.startswith(owner) else f"{owner}/{name}"


def _fixed() -> Noise:
    from gnomon.numeric.noise import Noise as Stream

    return Stream(0, "posterior/marginals")


def _drawn_marginals(draws: Mapping[str, Floats]) -> dict[str, Marginal]:
    return {
        name + (f"[{', '.join(map(str, at))}]" if at else ""): DrawnMarginal(x[(slice(None), *at)])
        for name, x in draws.items() for at in np.ndindex(*x.shape[1:])
    }  # fmt: skip
