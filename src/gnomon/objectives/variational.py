r"""Bounds on the log-likelihood of a model with latent variables: the evidence lower bound and importance weighting.

A model is asked for ``log_joint(x, z)`` and for ``encode(x)``: q(z | x), of `gnomon.distributions.latents` or, where
later variables depend on earlier ones, with ``given(z)`` (`gnomon.distributions.stepwise`).
With ``log w = log p(x, z) - log q(z | x)`` and z from q, ``E log w`` is the ELBO, ``E log mean_k w_k`` the tighter
bound. How the gradient is estimated is a slot of its own, `gnomon.objectives.estimators`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch

from gnomon.contracts import Group, Noise
from gnomon.distributions.latents import MOST_STATES
from gnomon.distributions.stepwise import StepwiseCodes
from gnomon.errors import UserValueError
from gnomon.nn.context import current, training
from gnomon.objectives.base import Loss, Objective, Term
from gnomon.objectives.baselines import LatentDraws
from gnomon.objectives.estimators import GradientEstimator
from gnomon.recipes.recipe import Recipe

__all__ = ["ELBO", "IWAE", "VariationalObjective", "codes_at", "likelihood_and_divergence",
           "log_weights"]  # fmt: skip


def log_weights(model: Any, x: torch.Tensor, z: torch.Tensor, codes: Any) -> torch.Tensor:
    """Log p(x, z) - log q(z | x) of the draws of each row, shape (n, draws).

    Parameters
    ----------
    model : object with ``log_joint(x, z)``
    x : tensor of shape (n, ...)
    z : tensor of shape (n * draws, ...)
        The draws of a row beside each other.
    codes : distribution q(z | x) of the n rows
    """
    draws = _draws_of(x, z)
    log_w: torch.Tensor = model.log_joint(_repeated(x, draws), z) - codes.log_prob(z)
    return log_w.reshape(len(x), draws)


def codes_at(codes: Any, z: torch.Tensor) -> Any:
    """What each draw came from: q itself, or, of variables that depend on earlier ones, q of each given those drawn.

    Parameters
    ----------
    codes : distribution q(z | x) of n rows
        With ``given(z)`` where it goes in steps: independent variables of n * draws rows.
    z : tensor of shape (n * draws, d)
    """
    given = getattr(codes, "given", None)
    return codes if given is None else given(z)


def likelihood_and_divergence(
    model: Any, x: torch.Tensor, z: torch.Tensor, codes: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log p(x | z) of the draws of each row, (n, draws), and KL(q || p) of the latent variables in closed form.

    Parameters
    ----------
    model : object with ``log_likelihood(x, z)`` and ``divergence(codes)``
    x : tensor of shape (n, ...)
    z : tensor of shape (n * draws, d)
        The draws of a row beside each other.
    codes : distribution q(z | x) of the n rows
        Where it has a ``log_likelihood(x, z)`` of its own, by what was found on the way to z, that is asked.

    Returns
    -------
    two tensors
        The divergence of shape (n, variables), or (n, draws, variables) where it is known given a draw alone.
    """
    n, draws, at = len(x), _draws_of(x, z), codes_at(codes, z)
    source = codes if hasattr(codes, "log_likelihood") else model
    likelihood, divergence = source.log_likelihood(_repeated(x, draws), z).reshape(n, draws), model.divergence(at)
    return likelihood, divergence if at is codes else divergence.reshape(n, draws, divergence.shape[1])


def _draws_of(x: torch.Tensor, z: torch.Tensor) -> int:
    """Draws of each row; 1 where a process has no row of the batch."""
    return len(z) // len(x) if len(x) else 1


def _repeated(x: torch.Tensor, draws: int) -> torch.Tensor:
    return x if draws == 1 else x.repeat_interleave(draws, 0)


# --- bounds ---------------------------------------------------------------------------------------------------------


class _Bound(Objective):
    """A bound on log p(x) of each row from the signals of its draws, and its loss.

    Parameters
    ----------
    estimator : GradientEstimator
    draws : int
    """

    share: float
    """What the returns of a draw are multiplied by in the gradient by q."""

    @property
    def together(self) -> int:
        """Draws whose signals the bound does not simply average."""
        return 1

    def __init__(self, estimator: GradientEstimator, draws: int) -> None:
        super().__init__()
        estimator.usable(draws)
        self.estimator, self.draws = estimator, draws
        self.control = estimator.build()

    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        """Begin what the estimator remembers."""
        self.control.begin(model, batches, noise.child("control"), group)

    def combine(self, signal: torch.Tensor) -> torch.Tensor:
        """The bound of each row from (n, draws)."""
        raise NotImplementedError

    def path_factor(self, signal: torch.Tensor) -> torch.Tensor | None:
        """What multiplies the gradient of each draw's path once more; None for nothing."""
        raise NotImplementedError

    def returns(self, signal: torch.Tensor) -> torch.Tensor:
        """What each draw is credited with, (n, draws): times `share` and its score it is the gradient by q."""
        raise NotImplementedError

    def others(self, signal: torch.Tensor) -> torch.Tensor:
        """What stands for a draw's return where the draw itself is left out, (n, draws)."""
        raise NotImplementedError

    def parts(self, model: Any, x: torch.Tensor, z: torch.Tensor, codes: Any, seen: Any) -> tuple[Any, Any]:
        """Signals of the draws, (n, draws), and what is known in closed form, by row or by row and draw; or 0."""
        return log_weights(model, x, z, seen), 0.0

    def drawn(self, codes: Any, noise: Noise) -> torch.Tensor:
        """z of each row as the estimator draws it, (n * draws, d); step by step where q goes in steps."""
        if not isinstance(codes, StepwiseCodes):
            return self.estimator.draw(codes, noise, self.draws)
        return codes.draw(lambda one, at: self.estimator.draw(one, at, 1), noise, self.draws)

    def judged(
        self, model: Any, x: torch.Tensor, z: torch.Tensor, codes: Any, seen: Any, noise: Noise | None
    ) -> tuple[torch.Tensor, Any, Any]:
        """Signals of the draws, (n, draws), what is added to the bound of each row, and what of it is recorded.

        What is in closed form given a draw belongs to the signal of that draw, which is credited with it.
        """
        signal, closed = self.parts(model, x, z, codes, seen)
        added = self.closed(closed, noise)
        if isinstance(added, torch.Tensor) and added.ndim == 2:
            signal, added = signal + added, 0.0
        return signal, added, closed

    def closed(self, closed: Any, noise: Noise | None) -> Any:
        """What of the closed form is trained on; without noise, what belongs to the bound itself."""
        return closed

    def recorded(self, closed: Any, weight: torch.Tensor) -> dict[str, Term]:
        """What else stands in the history."""
        return {}

    def forward(self, model: Any, batch: Any, *, noise: Noise, phase: str, group: Group) -> Loss:
        """Minus the bound of a batch with data ``X``."""
        x, weight = torch.as_tensor(batch.data["X"]), torch.as_tensor(batch.weight)
        codes = model.encode(x)
        z = self.drawn(codes, noise.child("latent").rows(batch.positions))
        with self._of_draws(batch, weight, noise, group):
            seen = codes if self.estimator.sees_codes else codes.detached()
            signal, added, closed = self.judged(model, x, z, codes, seen, noise)
        found = self.estimator.estimate(self, self.control, LatentDraws(x, weight, z, codes, signal, group))
        terms = {"negative_bound": _minus(found.bound + added, weight)}
        beside = {name: _minus(-loss, weight) for name, loss in found.losses.items()}
        return Loss({**terms, **self.recorded(closed, weight), **beside})

    def exact(self, model: Any, batch: Any, *, noise: Noise) -> Loss | None:
        """The loss without draws, by all states of discrete latent variables; None where they are too many.

        Its gradient is what an unbiased estimator has in mean. Of an importance-weighted bound it goes over all tuples
        of as many states as there are draws.
        """
        x, weight = torch.as_tensor(batch.data["X"]), torch.as_tensor(batch.weight)
        codes = model.encode(x)
        states = codes.states() if hasattr(codes, "states") else None
        if states is None or len(states) ** self.together > MOST_STATES:
            return None
        z = states.repeat(len(x), 1)
        signal, added, _ = self.judged(model, x, z, codes, codes, noise)
        log_q = codes.log_prob(z).reshape(len(x), -1)
        tuples = torch.cartesian_prod(*[torch.arange(len(states))] * self.together).reshape(-1, self.together)
        values = self.combine(signal[:, tuples].flatten(0, 1)).reshape(len(x), -1)
        bound = (log_q[:, tuples].sum(2).exp() * values).sum(1)
        return Loss({"negative_bound": _minus(bound + added, weight)})

    def _of_draws(self, batch: Any, weight: torch.Tensor, noise: Noise, group: Group) -> AbstractContextManager[Any]:
        """What layers are told where a row comes once for each of its draws."""
        if self.draws == 1 or current() is None:
            return nullcontext()
        places = np.asarray(batch.positions)[:, None] * self.draws + np.arange(self.draws)
        return training(noise.child("draws").rows(places.ravel()), weight.repeat_interleave(self.draws), group)

    def validate(self, model: Any, batch: Any, *, noise: Noise, group: Group) -> Loss:
        """Minus the bound itself, whatever is trained on in its place."""
        x, weight = torch.as_tensor(batch.data["X"]), torch.as_tensor(batch.weight)
        with torch.no_grad():
            codes = model.encode(x)
            z = codes.sample(noise.child("latent").rows(batch.positions), draws=self.draws)
            signal, added, _ = self.judged(model, x, z, codes, codes, None)
            return Loss({"negative_bound": _minus(self.combine(signal) + added, weight)})


def _minus(bound: torch.Tensor, weight: torch.Tensor) -> Term:
    return Term(-(bound * weight).sum(), float(weight.sum()))


class _EvidenceBound(_Bound):
    def __init__(self, recipe: ELBO, estimator: GradientEstimator) -> None:
        super().__init__(estimator, recipe.n_samples)
        self.recipe, self.share = recipe, 1 / recipe.n_samples

    def combine(self, signal: torch.Tensor) -> torch.Tensor:
        return signal.mean(1)

    def path_factor(self, signal: torch.Tensor) -> torch.Tensor | None:
        return None

    def returns(self, signal: torch.Tensor) -> torch.Tensor:
        return signal

    def others(self, signal: torch.Tensor) -> torch.Tensor:
        return (signal.sum(1, keepdim=True) - signal) / (self.draws - 1)

    def parts(self, model: Any, x: torch.Tensor, z: torch.Tensor, codes: Any, seen: Any) -> tuple[Any, Any]:
        form = self.recipe.form
        if form == "monte-carlo":
            return super().parts(model, x, z, codes, seen)
        if form == "kl":
            return likelihood_and_divergence(model, x, z, codes)
        n, draws, at = len(x), _draws_of(x, z), codes_at(codes, z)
        entropy = at.entropy()
        joint = model.log_joint(_repeated(x, draws), z).reshape(n, draws)
        return joint, entropy if at is codes else entropy.reshape(n, draws)

    def closed(self, closed: Any, noise: Noise | None) -> Any:
        if self.recipe.form != "kl":
            return closed
        if noise is None:
            return -closed.sum(-1)
        recipe = self.recipe
        held = closed.clamp_min(recipe.free_bits) if recipe.free_bits else closed
        update: int = noise.update  # type: ignore[attr-defined]
        return -recipe.factor(update + 1) * held.sum(-1)

    def recorded(self, closed: Any, weight: torch.Tensor) -> dict[str, Term]:
        if self.recipe.form != "kl":
            return {}
        each = closed.detach().sum(-1)
        total = float(((each.mean(1) if each.ndim == 2 else each) * weight).sum())
        return {"divergence": Term(total, float(weight.sum()))}


class _ImportanceBound(_Bound):
    share = 1.0

    @property
    def together(self) -> int:
        return self.draws

    def combine(self, signal: torch.Tensor) -> torch.Tensor:
        return torch.logsumexp(signal, 1) - math.log(self.draws)

    def path_factor(self, signal: torch.Tensor) -> torch.Tensor | None:
        return torch.softmax(signal, 1)

    def returns(self, signal: torch.Tensor) -> torch.Tensor:
        return self.combine(signal)[:, None].expand(signal.shape)

    def others(self, signal: torch.Tensor) -> torch.Tensor:
        k = self.draws
        rest = (signal.sum(1, keepdim=True) - signal) / (k - 1)  # log of the geometric mean of the other weights
        eye = torch.eye(k, dtype=torch.bool, device=signal.device)
        return self.combine(torch.where(eye, rest[:, :, None], signal[:, None, :]).reshape(-1, k)).reshape(-1, k)


# --- recipes --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class VariationalObjective(Recipe):
    """Base of the recipes of the slot ``objective`` of models with latent variables: lower bounds on log p(x)."""

    def build(self) -> Objective:
        """The objective."""
        raise NotImplementedError


@dataclass(frozen=True)
class ELBO(VariationalObjective):
    r"""The evidence lower bound, :math:`E_q \log p(x | z) - KL(q(z | x) \| p(z)) \le \log p(x)`.

    Parameters
    ----------
    n_samples : int in [1, inf), default 1
        Draws of z per row.
    form : {"kl", "entropy", "monte-carlo"}, default "kl"
        What is in closed form: the divergence from the prior, the entropy of q in E log p(x, z) + H(q), or nothing.
        The mean is one; the last has no variance where q is the posterior.
    beta : float in (0, inf), default 1
        Factor of the divergence; other than 1 it is no bound on log p(x) of this model for beta < 1, and a looser one
        for beta > 1 (Higgins et al. 2017).
    warm_up : int in [0, inf), default 0
        Updates over which the factor of the divergence rises from 0 to `beta` (Bowman et al. 2016).
    ramp : {"linear", "sigmoid"}, default "linear"
        How it rises: evenly, or slowly at both ends.
    cycles : int in [1, inf), default 1
        How many times it rises: after each but the last it stays at `beta` for as long, then falls to 0 (Fu et al.
        2019).
    free_bits : float in [0, inf), default 0
        Nats of divergence per latent variable and row that cost no more than these (Kingma et al. 2016, per row here).
    estimator : str or recipe, default "pathwise"
        Of the gradient.

    Notes
    -----
    Source: Kingma and Welling (2014); Goodfellow, Bengio and Courville (2016), section 20.10.3.
    """

    short: ClassVar[str] = "elbo"
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"estimator": GradientEstimator}
    n_samples: Annotated[int, "[1, inf)"] = 1
    form: Literal["kl", "entropy", "monte-carlo"] = "kl"
    beta: Annotated[float, "(0, inf)"] = 1.0
    warm_up: Annotated[int, "[0, inf)"] = 0
    ramp: Literal["linear", "sigmoid"] = "linear"
    cycles: Annotated[int, "[1, inf)"] = 1
    free_bits: Annotated[float, "[0, inf)"] = 0.0
    estimator: str | Recipe = "pathwise"

    def factor(self, step: int) -> float:
        """The factor of the divergence after so many updates: 0 at 0 where it warms up, `beta` from the end on.

        Examples
        --------
        >>> [ELBO(warm_up=4).factor(step) for step in (0, 1, 2, 4, 9)]
        [0.0, 0.25, 0.5, 1.0, 1.0]
        >>> [ELBO(warm_up=2, cycles=2).factor(step) for step in range(8)]
        [0.0, 0.5, 1.0, 1.0, 0.0, 0.5, 1.0, 1.0]
        """
        if not self.warm_up:
            return self.beta
        begun = 2 * self.warm_up * min(step // (2 * self.warm_up), self.cycles - 1)
        share = min(1.0, (step - begun) / self.warm_up)
        if self.ramp == "sigmoid":
            share = 0.5 + 0.5 * math.tanh(6 * share - 3) / math.tanh(3)
        return self.beta * share

    def build(self) -> Objective:
        """The objective."""
        estimator = self.recipe("estimator")
        if not estimator.sees_codes and self.form != "monte-carlo":
            raise UserValueError(
                f"form must be 'monte-carlo' with the estimator {estimator.short!r}, got {self.form!r}",
                "objective__form", "set it, or choose pathwise",
            )  # fmt: skip
        if not estimator.exact_draws and self.form == "monte-carlo":
            raise UserValueError(
                f"form must be 'kl' or 'entropy' with the estimator {estimator.short!r}, whose draws are not q's",
                "objective__form", "choose kl",
            )  # fmt: skip
        shaped = self.beta != 1 or self.warm_up or self.free_bits
        if shaped and self.form != "kl":
            raise UserValueError(
                f"form must be 'kl' with beta, warm_up or free_bits, got {self.form!r}", "objective__form", "set it"
            )
        return _EvidenceBound(self, estimator)


@dataclass(frozen=True)
class IWAE(VariationalObjective):
    r"""The importance-weighted bound :math:`E \log \frac1k \sum_i p(x, z_i) / q(z_i | x)`: tighter as k grows.

    Parameters
    ----------
    k : int in [1, inf), default 5
        Draws of z per row; 1 gives the ELBO.
    estimator : str or recipe, default "dreg"
        Of the gradient; the signal of ``pathwise`` for the encoder fades as k grows (Rainforth et al. 2018).

    Notes
    -----
    k times the cost of the ELBO. Source: Burda, Grosse and Salakhutdinov (2016).
    """

    short: ClassVar[str] = "iwae"
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"estimator": GradientEstimator}
    k: Annotated[int, "[1, inf)"] = 5
    estimator: str | Recipe = "dreg"

    def build(self) -> Objective:
        """The objective."""
        estimator = self.recipe("estimator")
        if not estimator.exact_draws:
            raise UserValueError(
                f"importance weights need draws of q, which {estimator.short!r} does not give",
                "objective__estimator", "use score, or set its field hard",
            )  # fmt: skip
        return _ImportanceBound(estimator, self.k)
