"""What a chain walks on: one face for log densities, energies and gradients, whoever gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np

from gnomon.contracts import Array, HasState, State
from gnomon.distributions.bernoulli import Bernoulli
from gnomon.errors import UserError, UserTypeError, UserValueError
from gnomon.inference.arrays import prototype, to_numpy
from gnomon.inference.blocks import coupled_blocks
from gnomon.numeric.tensors import is_tensor

__all__ = ["Density", "Tempered", "TemperedBlocks", "as_density", "computes_in"]


class Density:
    """An unnormalized log density over rows, with a gradient.

    Parameters
    ----------
    log_density : callable
        Array (rows, ...) -> (rows,), log of the density in nats up to a constant; -inf where it is 0. Each row must
        depend on itself alone.
    gradient : callable, optional
        Array (rows, ...) -> the same shape. Without it the gradient is torch's: `log_density` must then take tensors.

    Examples
    --------
    >>> bell = Density(lambda x: -0.5 * (x * x).sum(-1))
    >>> bell.log_prob(np.array([[1.0, 1.0]])).tolist()
    [-1.0]
    >>> bell.value_and_gradient(np.array([[1.0, 2.0]]))[1].tolist()
    [[-1.0, -2.0]]
    """

    def __init__(self, log_density: Callable[[Array], Array], gradient: Callable[[Array], Array] | None = None) -> None:
        self.log_density, self.gradient = log_density, gradient

    def log_prob(self, x: Array) -> Array:
        """Log density of each row up to a constant, shape (rows,)."""
        if not is_tensor(x):
            return self._of_numpy(x)
        import torch

        with torch.no_grad(), _explained_shape(x):
            value = self.log_density(x)
        return _per_row(value, x)

    def _of_numpy(self, x: Array) -> Array:
        """The answer to a NumPy array; a density that is written for tensors alone is given one."""
        try:
            with _explained_shape(x):
                value = self.log_density(x)
        except UserError:
            raise
        except (TypeError, AttributeError) as error:
            import torch

            try:
                with torch.no_grad():
                    value = to_numpy(self.log_density(torch.from_numpy(np.array(x))))
            except Exception:
                raise UserTypeError(
                    f"the log density does not take NumPy arrays ({error})", "target",
                    "write it for arrays or tensors of shape (rows, ...)",
                ) from error  # fmt: skip
        return _per_row(value, x)

    def value_and_gradient(self, x: Array) -> tuple[Array, Array]:
        """Log density (rows,) and its gradient (rows, ...), in the kind and type of `x`."""
        if self.gradient is not None:
            return self.log_prob(x), self.gradient(x)
        import torch

        inside = x.detach() if is_tensor(x) else torch.from_numpy(np.array(x))
        inside.requires_grad_(True)
        try:
            with torch.enable_grad():
                value = _per_row(self.log_density(inside), inside)
        except (TypeError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and "numpy" not in str(error):
                error.add_note(_shape_note(inside))
                raise
            raise UserTypeError(
                f"the log density does not take torch tensors ({error})", "target",
                "write it with torch, or pass Density(log_density, gradient)",
            ) from error  # fmt: skip
        if not is_tensor(value) or not value.requires_grad:
            raise UserTypeError(
                "the log density has no torch gradient", "target",
                "write it with torch, or pass Density(log_density, gradient)",
            )  # fmt: skip
        (slope,) = torch.autograd.grad(value, inside, torch.ones_like(value))  # of the sum, but no sum is made
        value = value.detach()
        return (value, slope) if is_tensor(x) else (value.numpy(), slope.numpy())


class Tempered(Density):
    """The density to the power beta, over a base: ``log p_beta = log p_0 + beta (log p - log p_0)``.

    With no base, p_beta is proportional to ``exp(-beta E)``: flatter for beta < 1, sharper for beta > 1, uniform at 0.
    A continuous target is then improper at small beta unless its space is bounded: give a normalized base.
    ``d log Z / d beta = -E_beta[E]`` and the second derivative is Var_beta[E].

    Parameters
    ----------
    target : anything that `as_density` takes
    beta : float or array of shape (rows,), in [0, inf)
        Inverse temperature, of all rows or of each.
    base : anything that `as_density` takes, optional
        p_0.

    Raises
    ------
    UserValueError
        For a beta below 0 or not finite.

    Examples
    --------
    >>> Tempered(lambda x: -(x * x).sum(-1), 0.5).log_prob(np.array([[2.0]])).tolist()
    [-2.0]
    """

    def __init__(self, target: Any, beta: float | Array, base: Any = None) -> None:
        betas = to_numpy(beta)
        if not (np.isfinite(betas) & (betas >= 0)).all():
            bad = betas[~(np.isfinite(betas) & (betas >= 0))].flat[0]
            raise UserValueError.must("beta", "be finite and at least 0", bad)
        self.target, self.base = as_density(target), None if base is None else as_density(base)
        self.beta = betas

    def log_prob(self, x: Array) -> Array:
        """As in `Density`; -inf wherever the target is 0, at beta = 0 too."""
        mine = self.target.log_prob(x)
        return self.combine(mine, None if self.base is None else self.base.log_prob(x))

    def value_and_gradient(self, x: Array) -> tuple[Array, Array]:
        """As in `Density`."""
        mine, slope = self.target.value_and_gradient(x)
        beta = _spread(_like(self.beta, mine), slope)
        if self.base is None:
            return self.combine(mine, None), beta * slope
        ground, ground_slope = self.base.value_and_gradient(x)
        return self.combine(mine, ground), (1 - beta) * ground_slope + beta * slope

    def combine(self, log_p: Array, log_p0: Array | None) -> Array:
        """log p_beta from log p and log p_0 (None: no base)."""
        beta = _like(self.beta, log_p)
        gone = log_p == -np.inf
        finite = log_p + 0.0
        finite[gone] = 0.0
        if log_p0 is not None:
            nowhere = log_p0 == -np.inf
            ground = log_p0 + 0.0
            ground[nowhere] = 0.0
            result = (1 - beta) * ground + beta * finite
            gone = gone | (nowhere & (beta < 1))
        else:
            result = beta * finite
        result[gone] = -np.inf
        return result


class TemperedBlocks:
    """A model of binary blocks at inverse temperatures, each row at its own (`HasBlocks`).

    Joint energies mix linearly, ``E_beta = (1 - beta) E_0 + beta E``, and with them the logits of every conditional:
    one product of the model serves all temperatures. Of a model with hidden units the JOINT is tempered; the visible
    units' distribution is the marginal of it, not their free energy times beta.

    Parameters
    ----------
    model : HasBlocks
        Whose conditionals are `Bernoulli`.
    beta : float or array of shape (rows,), in [0, inf)
    base : HasBlocks, optional
        E_0, with the blocks of the model: ``model.base(...)``. 0 by default, so that level 0 is uniform.
    """

    def __init__(self, model: Any, beta: float | Array, base: Any = None) -> None:
        if coupled_blocks(model):
            what = "the units of a block are coupled to each other, and rows of many temperatures draw a block at once"
            raise UserTypeError(what, "model", "use Gibbs, or tempered transitions")
        self.model, self.base, self.beta = model, base, Tempered(model.joint_energy, beta).beta
        self.blocks, self.sizes = tuple(model.blocks), dict(model.sizes)

    def conditional(self, block: str, state: State) -> Bernoulli:
        """Distribution of one block given the others, row by row."""
        mine = _logits(self.model.conditional(block, state))
        beta = _spread(_like(self.beta, mine), mine)
        if self.base is None:
            return Bernoulli(beta * mine)
        return Bernoulli((1 - beta) * _logits(self.base.conditional(block, state)) + beta * mine)

    def joint_energy(self, state: State) -> Array:
        """Energy of the full state in nats, (rows,)."""
        mine = self.model.joint_energy(state)
        beta = _like(self.beta, mine)
        return beta * mine if self.base is None else (1 - beta) * self.base.joint_energy(state) + beta * mine

    def state(self) -> dict[str, Array]:
        """The model's arrays: what it computes in."""
        return self.model.state() if isinstance(self.model, HasState) else {}

    def load(self, state: State) -> None:
        """Take the model's arrays over."""
        self.model.load(state)


def as_density(target: Any) -> Density:
    """The target as a Density.

    Parameters
    ----------
    target : Density, object with ``energy`` (HasEnergy) or ``log_prob``, or callable
        Of an object with both, ``energy`` is used: it is unnormalized and cheaper.

    Raises
    ------
    UserTypeError
        For anything else.
    """
    if isinstance(target, Density):
        return target
    if hasattr(target, "energy"):
        return Density(lambda x: -target.energy(x))
    if hasattr(target, "log_prob"):
        return Density(target.log_prob)
    if callable(target):
        return Density(target)
    raise UserTypeError(
        f"target must be a log density or have energy or log_prob, got a {type(target).__name__}", "target"
    )


def computes_in(target: Any, x: Array) -> Array:
    """`x` in the kind and type that the target's own arrays have, if it has any."""
    inner = target.target if isinstance(target, Tempered) else target
    like = prototype(inner)
    if is_tensor(like):
        import torch

        return torch.as_tensor(x, dtype=like.dtype, device=like.device)
    return x


def _shape_note(x: Array) -> str:
    return f"the log density was given all rows at once, an array of shape {tuple(x.shape)}: it answers ({len(x)},)"


@contextmanager
def _explained_shape(x: Array) -> Iterator[None]:
    """Add to an error inside a log density what it had been given: one written for a single row fails here."""
    try:
        yield
    except UserError:
        raise
    except (ValueError, RuntimeError, IndexError) as error:
        error.add_note(_shape_note(x))
        raise


def _per_row(value: Array, x: Array) -> Array:
    if tuple(getattr(value, "shape", ())) != (len(x),):
        raise UserValueError(
            f"target must return one number per row, ({len(x)},), got {tuple(getattr(value, 'shape', ()))}",
            "target",
            "sum over the other axes",
        )
    return value


def _like(beta: Any, like: Array) -> Array:
    if not is_tensor(like):
        return np.asarray(beta, dtype=like.dtype)
    import torch

    return torch.as_tensor(beta, dtype=like.dtype, device=like.device)


def _spread(factor: Array, x: Array) -> Array:
    """One factor per row, with axes of length 1 for the rest of x."""
    if factor.ndim == 0:
        return factor
    return cast(Array, factor.reshape((-1,) + (1,) * (x.ndim - 1)))


def _logits(conditional: Any) -> Array:
    if not isinstance(conditional, Bernoulli):
        raise UserTypeError(
            f"conditionals must be Bernoulli, got {type(conditional).__name__}",
            "target",
            "temper models of binary units",
        )
    return cast(Array, conditional.logits)
