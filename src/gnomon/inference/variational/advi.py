r"""Automatic differentiation variational inference: the bound as a mean over draws through which gradients pass.

With :math:`z = m + L e`, e standard normal, the bound is :math:`\mathcal L = E_e[\log p(m + L e)] + H(q)`; what is
asked of the target is its value and its gradient at rows of real numbers. Over fixed e it is a function like any
other, which L-BFGS maximizes in a few tens of iterations and which never falls; over fresh e, and over mini-batches of
the data, its gradient is an unbiased estimate that Adam follows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from gnomon.contracts import Array, Noise
from gnomon.errors import Diverged, UserValueError
from gnomon.inference.variational.families import Free, NormalForm, numpy_of
from gnomon.inference.variational.limited_memory import LimitedMemory
from gnomon.inference.variational.method import Iteration, VariationalAscent, VariationalMethod, VariationalProblem
from gnomon.inference.variational.nodes import half_of, standard_nodes
from gnomon.inference.variational.normal_posterior import NormalPosterior
from gnomon.inference.variational.windows import BoundWindows, batch_rows

__all__ = ["ADVI"]

Floats = NDArray[np.float64]

FIXED, FRESH = 64, 16
"""Draws of an iteration by default."""
FEW, APPROACH, NEAR = 8, 100, 1e-4
"""Draws, iterations and least relative gain of the approach that comes before the first iteration over fixed draws."""
PER_NORMAL = 4
"""Fixed draws for each standard normal number at least: fewer leave directions of q that no draw looks into."""
FAR = 300.0
"""Log of a standard deviation at which a bound is taken to have no maximum."""


@dataclass(frozen=True)
class ADVI(VariationalMethod):
    r"""Normal distributions on the whole line by the gradient of the bound through their draws.

    Parameters
    ----------
    optimizer : {"auto", "lbfgs", "adam"}, default "auto"
        ``"lbfgs"``: over fixed draws (in one and two dimensions a quadrature), which ends when an iteration gains less
        than ``tol * max(1, |bound|)`` nats and whose bound never falls. ``"adam"``: over fresh draws, which
        mini-batches need; the rate is halved whenever the mean bound of `window` iterations is not above that of the
        window before by more than the standard error of the difference, and the sixth halving ends the ascent at the
        mean of its last window.
    draws : int in [2, inf), optional
        Of an iteration: 64 fixed ones by default and 4 for every coordinate at least, 16 fresh ones.
    learning_rate : float in (0, inf), default 0.1
        Adam's first rate.
    window : int in [10, inf), default 100
        Iterations that Adam looks back over.
    scale : float in (0, inf), default 0.1
        Standard deviation that every coordinate begins with, on the whole line.

    References
    ----------
    Kucukelbir, Tran, Ranganath, Gelman and Blei (2017), "Automatic differentiation variational inference"; Giordano,
    Ingram and Broderick (2024), "Black box variational inference with a deterministic objective".

    Notes
    -----
    Cost of an iteration: the target's value and gradient at `draws` rows, and d^2 of them for a full covariance.
    """

    short: ClassVar[str] = "advi"
    optimizer: Literal["auto", "lbfgs", "adam"] = "auto"
    draws: Annotated[int, "[2, inf)"] | None = None
    learning_rate: Annotated[float, "(0, inf)"] = 0.1
    window: Annotated[int, "[10, inf)"] = 100
    scale: Annotated[float, "(0, inf)"] = 0.1

    def ascent(self, problem: VariationalProblem, noise: Noise) -> VariationalAscent:
        """By L-BFGS over fixed draws, or by Adam over fresh ones.

        Raises
        ------
        UserValueError, UserTypeError
            A density of 0 at the start, a target without a gradient, batches of a target that is no sum.
        """
        problem.refuse_data()
        stochastic = problem.batch_size is not None
        if stochastic and self.optimizer == "lbfgs":
            remedy = "leave batch_size out, or optimizer='adam'"
            raise UserValueError("L-BFGS takes all rows at once", "method__optimizer", remedy)
        return (_ByFreshDraws if stochastic or self.optimizer == "adam" else _ByFixedDraws)(self, problem, noise)


class _Ascent(VariationalAscent):
    """What both share: q by its free parameters, and the bound over some draws with its gradient."""

    def __init__(self, recipe: ADVI, problem: VariationalProblem, noise: Noise) -> None:
        self.recipe, self.problem, self.noise = recipe, problem, noise
        self.sizes = problem.parameters.sizes
        mean = problem.position(noise.child("start"))
        self.free: Free = problem.family.start(mean, recipe.scale, self.sizes, noise.child("family"))
        self.normals = self.member().normals
        with np.errstate(all="ignore"):
            first = problem.log_prob(mean[None])[0]
        if not np.isfinite(first):
            at = np.array2string(mean[:4], precision=4)
            what = f"the log density must be finite at the start, got {first} at {at}"
            raise UserValueError(what, "start", "start where the density is positive; give parameters with ends theirs")

    def member(self, free: Mapping[str, torch.Tensor] | None = None) -> NormalForm:
        return self.problem.family.member(self.free if free is None else free, self.sizes)

    def over(self, e: Floats, weights: Floats, rows: NDArray[np.int64] | None = None) -> tuple[float, Floats, Floats]:
        """The bound over draws, its gradient by the free parameters in one row, and log p of each draw."""
        free = {name: x.detach().requires_grad_(True) for name, x in self.free.items()}
        q = self.member(free)
        z = q.draw(torch.from_numpy(e))
        with np.errstate(all="ignore"):
            value, slope = self.problem.value_and_gradient(numpy_of(z), rows)
            bound = float((weights * value).sum()) + float(q.entropy().detach())
        if not np.isfinite(bound) or not np.isfinite(slope).all():
            return -math.inf, np.zeros(sum(x.numel() for x in free.values())), value
        along = torch.from_numpy(weights[:, None] * slope)  # the chain rule from here on: q's part alone is torch's
        slopes = torch.autograd.grad((along * z).sum() + q.entropy(), list(free.values()))
        return bound, np.concatenate([numpy_of(x).ravel() for x in slopes]), value

    @property
    def flat(self) -> Floats:
        return np.concatenate([numpy_of(x).ravel() for x in self.free.values()])

    def set(self, flat: Floats) -> None:
        ends = np.cumsum([x.numel() for x in self.free.values()])[:-1]
        parts = np.split(flat, ends)
        self.free = {
            name: torch.from_numpy(part.copy()).reshape(x.shape)
            for (name, x), part in zip(self.free.items(), parts, strict=True)
        }

    def refuse_improper(self) -> None:
        """End an ascent whose bound rises for ever."""
        if float(self.free["log_scale"].abs().max()) > FAR:
            what = "the bound has no maximum: a standard deviation of q leaves all ranges"
            raise Diverged(what, "target", "give a density that can be normalized")

    def state(self) -> dict[str, Array]:
        return {f"free/{name}": numpy_of(x) for name, x in self.free.items()}

    def load(self, arrays: Mapping[str, Array]) -> None:
        self.set(np.concatenate([np.ravel(arrays[f"free/{name}"]) for name in self.free]))

    def posterior(self) -> NormalPosterior:
        return NormalPosterior(self.member(), self.problem.parameters)

    def log_weights(self, n: int, noise: Noise) -> Floats:
        q = self.posterior().form
        z = q.sample(n, noise)
        with np.errstate(all="ignore"):
            found: Floats = self.problem.log_prob(numpy_of(z)) - numpy_of(q.log_prob(z))
        return found


class _ByFixedDraws(_Ascent):
    """L-BFGS over the same draws throughout."""

    def __init__(self, recipe: ADVI, problem: VariationalProblem, noise: Noise) -> None:
        super().__init__(recipe, problem, noise)
        draws = max(recipe.draws or FIXED, PER_NORMAL * self.normals)
        self.nodes = standard_nodes(self.normals, draws, noise.child("nodes"))
        self.memory = LimitedMemory()
        self.units = self._own_units()

    def _own_units(self) -> Floats:
        """Means in standard deviations of q, all else as it is: the curvature is then of one size in all directions."""
        scale = numpy_of(self.free["log_scale"].exp())
        return np.concatenate([scale if name == "mean" else np.ones(x.numel()) for name, x in self.free.items()])

    def step(self, t: int) -> Iteration:
        if t == 0:
            self._approach()
        before, bound, flat = self.memory.ascend(self.flat / self.units, self._objective)
        self.set(flat * self.units)
        self.refuse_improper()
        return Iteration(bound, 0.0, self.recipe.settled(before, bound))

    def _objective(self, flat: Floats) -> tuple[float, Floats]:
        self.set(flat * self.units)
        bound, slope, _ = self.over(*self.nodes)
        return bound, slope * self.units

    def _approach(self) -> None:
        """Come near with independent coordinates over a few draws, which cost little: before the first iteration."""
        half = np.asarray(self.noise.child("approach").normal((FEW // 2, self.normals), like=np.empty(0)))
        e = np.concatenate([half, -half]) / np.sqrt((half**2).mean(0))
        held = np.concatenate([np.full(x.numel(), name not in ("mean", "log_scale")) for name, x in self.free.items()])

        def objective(flat: Floats) -> tuple[float, Floats]:
            self.set(flat * self.units)
            bound, slope, _ = self.over(e, np.full(FEW, 1 / FEW))
            return bound, np.where(held, 0.0, slope * self.units)

        memory, flat = LimitedMemory(), self.flat / self.units
        for _ in range(APPROACH):
            before, bound, flat = memory.ascend(flat, objective)
            if bound - before <= NEAR * max(1.0, abs(bound)):
                break
        self.set(flat * self.units)
        self.refuse_improper()
        self.units = self._own_units()

    def bound(self) -> tuple[float, float] | None:
        """By quadrature, and how far half of its points are from that; None where the nodes are draws."""
        points, weights = self.nodes
        half = half_of(points, weights)
        if half is None:
            return None
        value = self.over(points, weights)[0]
        return value, abs(value - self.over(points, half)[0])

    def state(self) -> dict[str, Array]:
        return super().state() | self.memory.state() | {"units": self.units}

    def load(self, arrays: Mapping[str, Array]) -> None:
        super().load(arrays)
        self.memory.load(arrays)
        self.units = np.array(arrays["units"])


class _ByFreshDraws(_Ascent):
    """Adam over new draws, and over a batch of the data where one is asked for, in every iteration."""

    HALVINGS: ClassVar[int] = 6

    def __init__(self, recipe: ADVI, problem: VariationalProblem, noise: Noise) -> None:
        super().__init__(recipe, problem, noise)
        size = len(self.flat)
        self.moments = np.zeros((2, size))
        self.average = np.zeros(size)
        self.windows = BoundWindows(recipe.window)

    def step(self, t: int) -> Iteration:
        draws = self.recipe.draws or FRESH
        e = np.asarray(self.noise.child("draws").at(t).normal((draws, self.normals), like=np.empty(0)))
        bound, slope, log_p = self.over(e, np.full(draws, 1 / draws), self._rows(t))
        if not np.isfinite(bound):
            what = f"the bound became {bound}"
            raise Diverged(what, f"iteration {t + 1}", "lower method__learning_rate, or begin elsewhere")
        self.set(self.flat + self._adam(t, slope))
        self.refuse_improper()
        self.average += self.flat / self.recipe.window
        ended = self.windows.add(bound)
        done = ended and self.windows.flat >= self.HALVINGS
        if done:
            self.set(self.average)
        if ended:
            self.average = np.zeros_like(self.average)
        return Iteration(bound, float(log_p.std(ddof=1)) / math.sqrt(draws), done)

    def _rows(self, t: int) -> NDArray[np.int64] | None:
        size = self.problem.batch_size
        return None if size is None else batch_rows(self.problem.batched.n, size, t, self.noise.child("order"))

    def _adam(self, t: int, slope: Floats) -> Floats:
        self.moments[0] += 0.1 * (slope - self.moments[0])
        self.moments[1] += 0.001 * (slope**2 - self.moments[1])
        first, second = self.moments[0] / (1 - 0.9 ** (t + 1)), self.moments[1] / (1 - 0.999 ** (t + 1))
        step: Floats = self.recipe.learning_rate * 0.5**self.windows.flat * first / (np.sqrt(second) + 1e-8)
        return step

    def state(self) -> dict[str, Array]:
        own = {"adam/moments": self.moments, "adam/average": self.average}
        return super().state() | own | self.windows.state()

    def load(self, arrays: Mapping[str, Array]) -> None:
        super().load(arrays)
        self.moments, self.average = np.array(arrays["adam/moments"]), np.array(arrays["adam/average"])
        self.windows.load(arrays)
