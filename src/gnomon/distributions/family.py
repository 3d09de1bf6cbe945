"""What the families share: densities by torch.distributions, numbers by Noise, answers in the kind of the input.

A family is a batch of independent variables. Its parameters broadcast to ``batch_shape``; ``event_shape`` is the shape
of one outcome. Parameters given as tensors make every answer a tensor, with gradients; otherwise NumPy arrays are
answered unless the argument is a tensor. Python numbers are taken as float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import UserTypeError, UserValueError, shown
from gnomon.numeric.given import affordable, outcomes
from gnomon.numeric.tensors import is_tensor

__all__ = ["Family", "cross_entropy", "kl_divergence", "normal", "uniform"]

Floats = NDArray[np.float64]

_CHECKS: dict[str, tuple[str, Callable[[Floats], NDArray[np.bool_]]]] = {
    "real": ("finite", np.isfinite),
    "positive": ("positive and finite", lambda x: np.isfinite(x) & (x > 0)),
    "nonnegative": ("at least 0 and finite", lambda x: np.isfinite(x) & (x >= 0)),
    "unit": ("inside (0, 1)", lambda x: (x > 0) & (x < 1)),
    "probability": ("in [0, 1]", lambda x: (x >= 0) & (x <= 1)),
    "count": ("a whole number of at least 0", lambda x: np.isfinite(x) & (x >= 0) & (x == np.floor(x))),
}


class Family:
    """Base of the families. A subclass names its parameters with ranges, torch distribution, support, inverse CDF."""

    parameters: ClassVar[dict[str, str]] = {}
    """Name of each parameter and its range, one of ``_CHECKS``."""
    above_zero: ClassVar[bool] = False
    """Whether outcomes are positive and the density vanishes at 0."""

    def __init__(self, **parameters: Any) -> None:
        tensors = any(is_tensor(value) for value in parameters.values())
        self.tensors = tensors
        values = _tensors(parameters) if tensors else _arrays(parameters)
        for name, value in values.items():
            _check(name, value.detach().cpu().numpy() if tensors else value, self.parameters[name])
        shapes = {name: tuple(value.shape) for name, value in values.items()}
        try:
            self.batch_shape: tuple[int, ...] = np.broadcast_shapes(*shapes.values())
        except ValueError:
            given = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
            raise UserValueError(f"shapes must broadcast, got {given}", type(self).__name__) from None
        for name, value in values.items():
            if tensors:
                setattr(self, name, value.expand(self.batch_shape))
            else:
                setattr(self, name, np.broadcast_to(value, self.batch_shape))

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={_short(getattr(self, name))}" for name in self.parameters)
        return f"{type(self).__name__}({inside})"

    @property
    def event_shape(self) -> tuple[int, ...]:
        """Shape of one outcome."""
        return ()

    # --- what a subclass says -----------------------------------------------------------------------------------

    def _torch_distribution(self) -> Any:
        """The torch.distributions object over `_own`."""
        raise NotImplementedError

    def _support(self, x: Any) -> Any:
        """Mask of the outcomes (a tensor) that can occur."""
        raise NotImplementedError

    def _inside(self) -> Any:
        """An outcome that can occur, to stand in for those that cannot: a number or a tensor."""
        raise NotImplementedError

    def _cdf(self, x: Floats) -> Floats:
        raise NotImplementedError

    def _icdf(self, u: Floats) -> Floats:
        raise NotImplementedError

    # --- parameters in the kinds that the parts need ----------------------------------------------------------------

    def _own(self, name: str) -> Any:
        """A parameter as a tensor."""
        import torch

        value = getattr(self, name)
        return value if self.tensors else torch.from_numpy(np.array(value))

    def _plain(self, name: str) -> Floats:
        """A parameter as a float64 array."""
        value = getattr(self, name)
        return np.asarray(value.detach().cpu().numpy() if self.tensors else value, np.float64)

    @cached_property
    def torch_distribution(self) -> Any:
        """The torch.distributions object behind the family."""
        return self._torch_distribution()

    @property
    def _dtype(self) -> np.dtype[Any]:
        value = getattr(self, next(iter(self.parameters)))
        return np.dtype(str(value.dtype).removeprefix("torch.")) if self.tensors else value.dtype

    def _inverse(self, u: Floats) -> Floats:
        with np.errstate(over="ignore", divide="ignore"):  # what lies beyond float64 is infinite
            return self._icdf(u)

    def _held(self, draws: Any) -> Any:
        """Draws that lie beyond what the dtype can hold, as its largest number (of a family on the line, either one).

        An infinite outcome, or a 0 of a density that has none there, would be one that cannot occur.
        """
        limits = np.finfo(self._dtype)
        least = float(limits.smallest_subnormal) if self.above_zero else float(limits.min)
        with np.errstate(over="ignore"):
            return draws.clip(least, float(limits.max))

    def _answer(self, value: Any, tensor: bool = False) -> Any:
        """A tensor or an array in the kind of the input, in the dtype of the parameters."""
        if self.tensors or tensor:
            import torch

            parameter = getattr(self, next(iter(self.parameters))) if self.tensors else torch.empty(0)
            return torch.as_tensor(value, dtype=_torch_dtype(self._dtype), device=parameter.device)
        value = value.detach().cpu().numpy() if is_tensor(value) else value
        with np.errstate(over="ignore"):  # what float32 cannot hold is infinite
            return np.asarray(value, self._dtype)

    # --- verbs ------------------------------------------------------------------------------------------------------

    def log_prob(self, x: Any) -> Any:
        """Log density (or probability) in nats; -inf outside the support, NaN where `x` is.

        Parameters
        ----------
        x : array or tensor, broadcast against ``batch_shape + event_shape``

        Returns
        -------
        array or tensor, shape of the broadcast without the event's axes
        """
        import torch

        tensor = is_tensor(x)
        like = self._own(next(iter(self.parameters)))
        whole = self.batch_shape + self.event_shape
        plain = outcomes(x, "x", whole)
        # a copy of what torch must not write to
        given = x if tensor else plain if plain.flags.writeable else plain.copy()
        values = torch.as_tensor(given, dtype=like.dtype, device=like.device)
        shape = np.broadcast_shapes(plain.shape, whole)
        values = values.expand(shape)
        possible = self._support(values)
        inner = torch.as_tensor(self._inside(), dtype=like.dtype, device=like.device)
        mask = possible[(..., *(None,) * len(self.event_shape))]
        log_p = self._log_density(torch.where(mask, values, inner))
        event = tuple(range(-len(self.event_shape), 0))
        missing = torch.isnan(values).any(dim=event) if event else torch.isnan(values)
        outside = torch.where(missing, torch.nan, -torch.inf).to(like.dtype)
        return self._answer(torch.where(possible, log_p, outside), tensor)

    def _log_density(self, x: Any) -> Any:
        return self.torch_distribution.log_prob(x)

    def pdf(self, x: Any) -> Any:
        """The density itself, of whole numbers the probability: exp of `log_prob`, 0 outside the support.

        Examples
        --------
        >>> from gnomon.distributions.real import Normal
        >>> Normal(0.0, 1.0).pdf([0.0, 1.0]).round(7).tolist()
        [0.3989423, 0.2419707]
        """
        log_p = self.log_prob(x)
        return log_p.exp() if is_tensor(log_p) else np.exp(log_p)

    @property
    def mean(self) -> Any:
        """Expected value; infinite or NaN where there is none."""
        return self._answer(self.torch_distribution.mean)

    @property
    def variance(self) -> Any:
        """Variance; infinite or NaN where there is none."""
        return self._answer(self.torch_distribution.variance)

    def entropy(self) -> Any:
        """Entropy in nats, in closed form.

        Raises
        ------
        UserTypeError
            A family without one.
        """
        try:
            return self._answer(self._entropy())
        except NotImplementedError:
            name = type(self).__name__
            remedy = "estimate it: gnomon.evaluation.information"
            raise UserTypeError(f"the entropy of {name} has no closed form", name, remedy) from None

    def _entropy(self) -> Any:
        return self.torch_distribution.entropy()

    def cdf(self, x: Any) -> Any:
        """P(X <= x), without gradient."""
        values = outcomes(x, "x", self.batch_shape).astype(np.float64, copy=False)
        return self._answer(self._cdf(values), is_tensor(x))

    def icdf(self, u: Any) -> Any:
        """The value that u of the mass lies below, 0 < u < 1: inverse of `cdf`, without gradient."""
        values = outcomes(u, "u", self.batch_shape).astype(np.float64, copy=False)
        beyond = (values < 0) | (values > 1)
        if beyond.any():
            index = int(np.argmax(beyond))
            raise UserValueError.must("u", "be in (0, 1)", values.flat[index], f"u, index {index}")
        return self._answer(self._inverse(values), is_tensor(u))

    def sample(self, noise: Any, draw: int = 0, shape: tuple[int, ...] = ()) -> Any:
        """Draws at the address of `noise` and `draw`, by inversion of the CDF; no gradient.

        Parameters
        ----------
        noise : Noise
            Its rows are the first axis of the answer.
        draw : int
            Number of this call within the step.
        shape : tuple of int, default ()
            Axes before those of the batch.

        Returns
        -------
        array or tensor of shape ``shape + batch_shape + event_shape``

        References
        ----------
        Devroye (1986), section 2.2.
        """
        return self._answer(self._held(self._inverse(uniform(noise, (*axes(shape), *self.batch_shape), draw))))

    def rsample(self, noise: Any, draw: int = 0, shape: tuple[int, ...] = ()) -> Any:
        """The numbers that `sample` draws, as a tensor that is a function of the parameters: gradients pass through it.

        `transform` of `base_noise`, in float64 inside.

        Raises
        ------
        UserTypeError
            A family whose draws jump as the parameters move: counts, and mixtures with a point mass.

        References
        ----------
        Kingma and Welling (2014), "Auto-encoding variational Bayes", section 2.4.

        Examples
        --------
        >>> import torch
        >>> from gnomon.distributions.positive import Exponential
        >>> from gnomon.numeric.noise import Noise
        >>> rate = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
        >>> draws = Exponential(rate).rsample(Noise(0, "draws"), 0, (10_000,))
        >>> round(torch.autograd.grad(draws.mean(), rate)[0].item(), 2)  # of 1 / rate
        -0.25
        """
        return self.transform(self.base_noise(noise, draw, shape))

    def base_noise(self, noise: Any, draw: int = 0, shape: tuple[int, ...] = ()) -> Any:
        """The numbers that `transform` makes draws of, whatever the parameters: uniform on the open interval (0, 1).

        A float64 tensor; arguments as of `sample`.
        """
        import torch

        return torch.from_numpy(uniform(noise, (*axes(shape), *self.batch_shape), draw))

    def transform(self, e: Any) -> Any:
        """Outcomes made of base noise, as a tensor: at held noise a function of the parameters, and gradients pass.

        The inverse CDF. Where it has no closed form its derivative is that which keeps the mass below the outcome.
        Parameters in float32 give outcomes in float32.

        Raises
        ------
        UserTypeError
            As `rsample` does.
        """
        try:
            return self._answer(self._held(self._quantile(e)), True)
        except NotImplementedError:
            name = type(self).__name__
            remedy = "use gnomon.inference.montecarlo.gradients.score_gradient"
            raise UserTypeError(f"draws of {name} have no gradient", name, remedy) from None

    def _quantile(self, u: Any) -> Any:
        """Inverse CDF of tensors, with gradient."""
        return self.torch_distribution.icdf(u)


def uniform(noise: Any, shape: tuple[int, ...], draw: int) -> Floats:
    """float64 uniform numbers of any shape, the empty one too."""
    _check_address(noise, shape, draw)
    numbers: Floats = noise.uniform(shape or (1,), draw, dtype=np.float64)
    return numbers.reshape(shape)


def normal(noise: Any, shape: tuple[int, ...], draw: int) -> Floats:
    """float64 standard normal numbers of any shape, the empty one too."""
    _check_address(noise, shape, draw)
    numbers: Floats = noise.normal(shape or (1,), draw, dtype=np.float64)
    return numbers.reshape(shape)


def axes(shape: Any) -> tuple[int, ...]:
    """The shape of draws, which must be a tuple (or list) of whole numbers of at least 0."""
    whole = isinstance(shape, tuple | list) and all(isinstance(n, int | np.integer) and n >= 0 for n in shape)
    if not whole:
        raise UserValueError.must("shape", "be a tuple of integers >= 0", shape)
    return tuple(int(n) for n in shape)


def _check_address(noise: Any, shape: Any, draw: Any) -> None:
    if not hasattr(noise, "at"):
        raise UserTypeError(
            f"noise must be a gnomon.numeric.noise.Noise(seed, purpose), got a {type(noise).__name__}", "noise"
        )
    if isinstance(draw, bool) or not isinstance(draw, int | np.integer) or not 0 <= draw < 1 << 31:
        raise UserValueError.must("draw", "be an integer in [0, 2**31)", draw)
    affordable(math.prod(int(n) for n in axes(shape)), "shape", "draw fewer at once")


def cross_entropy(p: Any, q: Any) -> Any:
    r"""H(p, q) = -E_p[log q] = H(p) + KL(p || q) in nats in closed form, shape of the broadcast batches.

    Of tables of probabilities: `gnomon.evaluation.information.cross_entropy`.

    Parameters
    ----------
    p, q : Family
        A pair of which `kl_divergence` knows the divergence, p with an entropy in closed form.

    Raises
    ------
    UserTypeError
        No closed form of the entropy or of the divergence.

    Examples
    --------
    >>> from gnomon.distributions.real import Normal
    >>> round(float(cross_entropy(Normal(0, 1), Normal(1, 2))), 7)
    1.8620857
    """
    return p.entropy() + kl_divergence(p, q)


def kl_divergence(p: Any, q: Any) -> Any:
    """KL(p || q) in nats in closed form, shape of the broadcast batches.

    Parameters
    ----------
    p, q : Family
        A pair that torch.distributions has a closed form for, or of a family that has its own (``kl(other)``).

    Raises
    ------
    UserTypeError
        A pair without a closed form: `gnomon.evaluation.information.kl_samples` estimates it.

    Examples
    --------
    >>> from gnomon.distributions.real import Normal
    >>> round(float(kl_divergence(Normal(0, 1), Normal(1, 2))), 7)
    0.4431472
    """
    import torch

    divergence = getattr(p, "_kl", None)
    if divergence is not None and type(p) is type(q):
        return p._answer(divergence(q), q.tensors) if isinstance(p, Family) else divergence(q)
    try:
        pair: Any = (getattr(p, "torch_distribution", None), getattr(q, "torch_distribution", None))
        if isinstance(p, Family) and isinstance(q, Family):
            np.broadcast_shapes(p.batch_shape, q.batch_shape)
        result = torch.distributions.kl_divergence(*pair)
    except ValueError:
        what = f"the batch shapes of p and q must broadcast, got {p.batch_shape} and {q.batch_shape}"
        raise UserValueError(what, "p, q") from None
    except NotImplementedError:
        pair = f"{type(p).__name__} and {type(q).__name__}"
        remedy = "estimate it from draws: gnomon.evaluation.information.kl_samples"
        raise UserTypeError(f"the divergence of {pair} has no closed form", "p, q", remedy) from None
    return p._answer(result, q.tensors)


def _torch_dtype(dtype: np.dtype[Any]) -> Any:
    import torch

    return torch.float32 if dtype == np.float32 else torch.float64


def _tensors(parameters: dict[str, Any]) -> dict[str, Any]:
    import torch

    given = [value for value in parameters.values() if is_tensor(value)]
    like = next((value for value in given if value.is_floating_point()), torch.empty(0, dtype=torch.float64))
    return {name: torch.as_tensor(v, dtype=like.dtype, device=like.device) for name, v in parameters.items()}


def _arrays(parameters: dict[str, Any]) -> dict[str, Any]:
    arrays = {}
    for name, value in parameters.items():
        try:
            arrays[name] = np.asarray(value)
            real = arrays[name].dtype.kind != "c"
            arrays[name].astype(np.float64 if real else np.complex128)
        except (TypeError, ValueError):
            real = False
        if not real:
            raise UserTypeError(f"{name} must be a number or an array, got {shown(value)}", name)
    single = [a for a in arrays.values() if a.dtype == np.float32]
    others = [a for a in arrays.values() if a.dtype != np.float32 and a.ndim]
    dtype = np.float32 if single and not others else np.float64
    return {name: np.asarray(a, dtype) for name, a in arrays.items()}


def _check(name: str, value: Any, kind: str) -> None:
    words, allowed = _CHECKS[kind]
    values = np.asarray(value, np.float64)
    bad = ~allowed(values)
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        where = f"{name}[{', '.join(map(str, at))}]" if at else name
        raise UserValueError.must(name, f"be {words}", values[at], where)


def _short(value: Any) -> str:
    values = np.asarray(value.detach().cpu().numpy() if is_tensor(value) else value)
    if values.ndim == 0:
        return f"{float(values):g}"
    return f"array{values.shape}" if math.prod(values.shape) > 4 else str(values.tolist())
