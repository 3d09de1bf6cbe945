"""Analytic gradients against central differences in float64: of functions, of modules, of whole systems."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.errors import UserTypeError, UserValueError
from gnomon.numeric.noise import Noise

__all__ = ["GradientReport", "ParameterCheck", "gradcheck", "gradient_check", "problem_of"]

ROUNDING = 20 * float(np.finfo(np.float64).eps)
"""Error of a loss of size 1: what differences of it cannot see below."""

KINK = 1e-3
"""Relative gap between the one-sided slopes from which on an entry may stand on a kink."""


@dataclass(frozen=True)
class ParameterCheck:
    """One parameter's gradient.

    Parameters
    ----------
    name : str
    error : float
        ||a - n|| / (||a|| + ||n|| + rounding) over the entries looked at.
    index : tuple of int
        The worst entry.
    analytic, numeric : float
        Its two values.
    entries, size : int
        How many entries were looked at, of how many.
    kinks : int
        Entries left out because the loss has a kink there, where no derivative exists.
    """

    name: str
    error: float
    index: tuple[int, ...]
    analytic: float
    numeric: float
    entries: int
    size: int
    kinks: int


@dataclass(frozen=True)
class GradientReport:
    """What a gradient check found, the worst parameter first.

    Parameters
    ----------
    parameters : tuple of ParameterCheck
    loss : float
    tol : float
    """

    parameters: tuple[ParameterCheck, ...]
    loss: float
    tol: float

    @property
    def passed(self) -> bool:
        """Whether every parameter's error is at most the tolerance."""
        return all(one.error <= self.tol for one in self.parameters)

    @property
    def worst(self) -> ParameterCheck:
        """The parameter with the largest error."""
        return self.parameters[0]

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        verdict = "the gradients agree" if self.passed else f"the gradient of {self.worst.name} is wrong"
        lines = [f"{verdict}: loss {self.loss:.6g}, tolerance {self.tol:g}"]
        for one in self.parameters:
            place = ", ".join(map(str, one.index))
            kinks = f", {one.kinks} on a kink" if one.kinks else ""
            lines.append(
                f"{one.name}: error {one.error:.2g}; worst entry [{place}] analytic {one.analytic:.6g}, "
                f"numeric {one.numeric:.6g}; {one.entries} of {one.size} entries{kinks}"
            )
        return "\n".join(lines)


def gradcheck(
    f: Callable[[Mapping[str, NDArray[np.float64]]], float],
    params: Mapping[str, ArrayLike],
    gradient: Callable[[Mapping[str, NDArray[np.float64]]], Mapping[str, ArrayLike]],
    *,
    eps: float = 1e-6,
    tol: float = 1e-5,
    entries: int = 200,
    random_state: int = 0,
) -> GradientReport:
    r"""Compare a gradient with central differences :math:`(f(p + e) - f(p - e)) / 2e`, entry by entry.

    Parameters
    ----------
    f : callable
        Takes the parameters by name, float64 arrays, and gives a number.
    params : mapping of str to array
        Where to compare. Copied.
    gradient : callable
        Takes the same and gives arrays by name; a name left out stands for zeros.
    eps : float in (0, inf), default 1e-6
        Half the step. The error falls with its square until rounding takes over.
    tol : float in (0, inf), default 1e-5
        Largest norm ratio that passes.
    entries : int in [1, inf), default 200
        Entries of each parameter to look at; more are sampled.
    random_state : int, default 0
        Seed of that sample.

    Raises
    ------
    UserValueError
        A loss that is not finite, or that changes from call to call; a gradient of another shape.

    Notes
    -----
    Cost: 2 evaluations per entry. An entry whose one-sided slopes differ at both eps and eps / 10 stands on a kink and
    is left out; choose another point if many are. Source: Goodfellow, Bengio and Courville (2016), section 11.5.

    Examples
    --------
    >>> p = {"x": [1.0, -2.0]}
    >>> gradcheck(lambda p: (p["x"] ** 2).sum(), p, lambda p: {"x": 2 * p["x"]}).passed
    True
    >>> print(gradcheck(lambda p: (p["x"] ** 2).sum(), p, lambda p: {"x": -2 * p["x"]}).worst.name)
    x
    """
    point = {name: np.array(value, dtype=np.float64) for name, value in params.items()}
    analytic = {name: np.asarray(value, dtype=np.float64) for name, value in gradient(point).items()}
    return _compare(lambda: float(f(point)), point, analytic, eps, tol, entries, random_state)


def _compare(
    loss: Callable[[], float],
    point: Mapping[str, NDArray[np.float64]],
    analytic: Mapping[str, NDArray[np.float64]],
    eps: float,
    tol: float,
    entries: int,
    seed: int,
) -> GradientReport:
    """Move the arrays of `point` in place, entry by entry, and put them back."""
    for name, value in (("eps", eps), ("tol", tol), ("entries", entries)):
        if not 0 < value < math.inf:
            raise UserValueError.must(name, "be positive", value)
    base = loss()
    if not math.isfinite(base):
        raise UserValueError(f"the loss must be finite, got {base}", "gradient check", "choose another point")
    if loss() != base:
        raise UserValueError("the loss changes from call to call", "gradient check", "give what is random a fixed seed")
    if not point:
        raise UserValueError("the model has no parameters", "gradient check", "give a model that has some")
    noise = Noise(seed, "gradient-check")
    checks = []
    for name, array in point.items():
        own = analytic.get(name, np.zeros_like(array))
        if own.shape != array.shape:
            raise UserValueError(
                f"a gradient must have the shape of its parameter, {array.shape}, got {own.shape}", name
            )
        places = np.arange(array.size)
        if array.size > entries:
            places = np.sort(np.asarray(noise.child(name).order(array.size))[: int(entries)])
        checks.append(_parameter(name, loss, base, array, own, places, eps, tol))
    return GradientReport(tuple(sorted(checks, key=lambda one: -one.error)), base, tol)


def _parameter(
    name: str, loss: Callable[[], float], base: float, array: Any, own: Any, places: Any, eps: float, tol: float
) -> ParameterCheck:
    slopes = [_slope(loss, base, array, int(place), eps) for place in places]
    kept = np.array([slope is not None for slope in slopes], dtype=bool)
    numeric = np.array([slope for slope in slopes if slope is not None], dtype=np.float64)
    given = own.reshape(-1)[places[kept]]
    gap = np.abs(given - numeric)
    gap[np.isnan(gap)] = math.inf
    kinks = int((~kept).sum())
    if not len(gap):
        return ParameterCheck(name, 0.0, (), math.nan, math.nan, 0, array.size, kinks)
    rounding = math.sqrt(len(gap)) * ROUNDING * max(abs(base), 1e-3) / eps
    norm = float(np.linalg.norm(given) + np.linalg.norm(numeric) + rounding / tol)
    error = float(np.linalg.norm(gap)) / norm if np.isfinite(gap).all() else math.inf
    worst = int(gap.argmax())
    index = tuple(int(i) for i in np.unravel_index(int(places[kept][worst]), array.shape))
    return ParameterCheck(name, error, index, float(given[worst]), float(numeric[worst]), len(gap), array.size, kinks)


def _slope(loss: Callable[[], float], base: float, array: Any, place: int, eps: float) -> float | None:
    """The central difference; None on a kink."""
    up, down = _sides(loss, base, array, place, eps)
    if abs(up - down) <= KINK * max(1.0, abs(up), abs(down)):
        return (up + down) / 2
    near = _sides(loss, base, array, place, eps / 10)
    smooth = abs(near[0] - near[1]) < abs(up - down) / 3  # a curvature's gap shrinks with the step, a kink's does not
    return (up + down) / 2 if smooth else None


def _sides(loss: Callable[[], float], base: float, array: Any, place: int, eps: float) -> tuple[float, float]:
    """Slopes to the right and to the left."""
    index = np.unravel_index(place, array.shape)
    before = array[index].item()
    step = eps * max(1.0, abs(before))
    try:
        array[index] = before + step
        above = loss()
        array[index] = before - step
        below = loss()
    finally:
        array[index] = before
    return (above - base) / step, (base - below) / step


def gradient_check(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    objective: Any = None,
    sample_weight: Any = None,
    eps: float = 1e-6,
    tol: float = 1e-5,
    entries: int = 200,
    jitter: float | None = None,
    random_state: int = 0,
) -> GradientReport:
    """Compare the gradients that a model learns by with central differences, in float64.

    Parameters
    ----------
    model : System or torch module
        A system is checked with its own objective, penalties and closed-form gradients included; neither it nor a
        module is changed.
    X, y : arrays
        A few rows in the model's form; for a module they become tensors.
    objective : callable, for a module only
        ``objective(output, y)``, or ``objective(output)`` without y, gives a scalar tensor.
    sample_weight : array of shape (n,), optional
        For a system.
    jitter : float in [0, inf), optional
        Standard deviation of what is added to every parameter first, so that a penalty on weights that start at zero
        has a slope; 0.1, and 0 for a fitted system.
    eps, tol, entries, random_state
        As in `gradcheck`.

    Returns
    -------
    GradientReport
        ``report.passed``, ``report.worst``; printed, one line per parameter, the worst first.

    Raises
    ------
    UserTypeError
        A system that learns without gradients, or by gradients of samples that are no derivative of its loss.
    UserValueError
        As `gradcheck` does.

    Notes
    -----
    Cost: 2 losses per entry. Noise keeps its addresses, so that dropout is the same in every evaluation; torch's own
    layers draw from a seed that is set anew each time, and its global state is left as found.

    Examples
    --------
    >>> import gnomon
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> gradient_check(gnomon.SoftmaxRegression(), X[::15], y[::15]).passed
    True
    """
    if hasattr(model, "problem") and hasattr(model, "get_params"):
        if objective is not None:
            raise UserTypeError("a system has its own objective", "objective", "leave it out")
        parts = _of_system(model, X, y, sample_weight, jitter, random_state)
    else:
        parts = [_of_module(model, X, y, objective, jitter, random_state)]
    comparisons = [_compare(*part, eps, tol, entries, random_state) for part in parts]
    checks = sorted((one for report in comparisons for one in report.parameters), key=lambda one: -one.error)
    return GradientReport(tuple(checks), comparisons[0].loss, tol)


_Part = tuple[Callable[[], float], dict[str, Any], dict[str, Any]]


class _Alone:
    """A group of one process."""

    rank, size = 0, 1

    def sum(self, tree: Any) -> Any:
        return tree

    def gather(self, x: Any) -> Any:
        return x


def _of_system(system: Any, X: Any, y: Any, sample_weight: Any, jitter: float | None, seed: int) -> list[_Part]:
    """For each phase of the objective: its loss, parameters and analytic gradients."""
    noise = Noise(seed, "gradient-check")
    scale = (0.0 if hasattr(system, "model_") else 0.1) if jitter is None else jitter
    problem = problem_of(system, X, y, sample_weight, noise, change=lambda model: _move(model, scale, noise))
    model, batch = problem.model, problem.batches.step(0, 0)
    parts = []
    phases = problem.objective.phases(model)
    for name, phase in phases.items():
        named = [*model.named_parameters(), *((f"objective/{n}", p) for n, p in problem.objective.named_parameters())]
        mine = {name: p for name, p in named if any(p is one for one in phase.parameters)}
        prefix = f"{name}: " if len(phases) > 1 else ""
        parts.append(_of_phase(problem, batch, name, mine, noise, prefix))
    return parts


def problem_of(
    system: Any, X: Any, y: Any, sample_weight: Any, noise: Noise, *, change: Callable[[Any], None] | None = None
) -> Any:
    """What a fit of a copy of the system would begin with, in float64: of a fitted one with the weights that it has.

    Parameters
    ----------
    system : System
    X, y, sample_weight
    noise : Noise
    change : callable, optional
        Is given the model before its objective begins.

    Raises
    ------
    UserTypeError
        A system that learns without gradients.
    """
    from sklearn.base import clone

    double = {"dtype": "float64"} if "dtype" in system.get_params(deep=False) else {}
    own = clone(system).set_params(**double)
    own.check_parameters()
    plain = X.astype(np.float64) if isinstance(X, np.ndarray) and X.dtype.kind == "f" else X
    table = own.ingest(plain, y, sample_weight)
    own.arguments_ = own.arguments(table)
    model = own.make(**own.arguments_)
    own.initialize(model, table, noise.child("initial"))
    if hasattr(system, "model_"):
        model.load(system.model_.state())
    if not hasattr(model, "named_parameters"):
        raise UserTypeError(f"{system.name} learns without gradients", "model", "check a system that has an objective")
    model.double()
    problem = own.problem(model, table, noise, _Alone())
    if problem.objective is None:
        raise UserTypeError(f"{system.name} learns without gradients", "model", "check a system that has an objective")
    if change:
        change(model)
    from gnomon.nn.context import bind

    bind(model)
    bind(problem.objective, "objective/")
    problem.objective.begin(model, problem.batches, noise.child("begin"), problem.group)
    problem.objective.double()
    return problem


def _of_phase(problem: Any, batch: Any, phase: str, named: dict[str, Any], noise: Noise, prefix: str) -> _Part:
    model, objective = problem.model, problem.objective

    def answer(purpose: str = "") -> Any:
        source = noise.child(phase + purpose).at(0)
        return objective.in_training(model, batch, noise=source, phase=phase, group=problem.group)

    def loss() -> float:
        with _as_found(model, objective):
            value = answer().total()
            return float(value.detach() if hasattr(value, "detach") else value)

    with _as_found(model, objective):
        analytic = _closed_form(answer, named)
    if analytic is None:
        with _as_found(model, objective):
            analytic = _automatic(answer().total(), named)
    point = {prefix + name: p.detach().numpy() for name, p in named.items()}
    return loss, point, {prefix + name: value for name, value in analytic.items()}


def _closed_form(answer: Callable[..., Any], named: Mapping[str, Any]) -> dict[str, Any] | None:
    loss, other = answer(), answer("/other")
    if loss.gradients is None:
        return None
    if any(not np.array_equal(loss.gradients[name], other.gradients[name]) for name in loss.gradients):
        raise UserTypeError(
            "the objective's gradient is estimated from samples, so it is not the derivative of its loss",
            "model",
            "check an objective that is exact",
        )
    weight = loss.terms[loss.per or next(iter(loss.terms))].weight
    return {name: np.asarray(value) / weight for name, value in loss.gradients.items() if name in named}


def _automatic(total: Any, named: Mapping[str, Any]) -> dict[str, Any]:
    import torch

    if not (isinstance(total, torch.Tensor) and total.requires_grad):
        raise UserTypeError("the loss has no gradient", "model", "let it depend on the parameters through torch")
    gradients = torch.autograd.grad(total, list(named.values()), allow_unused=True)
    return {
        name: np.zeros(p.shape) if g is None else g.detach().numpy()
        for (name, p), g in zip(named.items(), gradients, strict=True)
    }


def _of_module(module: Any, X: Any, y: Any, objective: Any, jitter: float | None, seed: int) -> _Part:
    import torch

    if not isinstance(module, torch.nn.Module):
        raise UserTypeError(f"model must be a System or a torch module, got a {type(module).__name__}", "model")
    if not callable(objective):
        raise UserTypeError("a module alone has no loss", "objective", "give objective(output, y) -> scalar tensor")
    own = copy.deepcopy(module).double().cpu()  # its parameters are moved through NumPy
    data = [torch.as_tensor(value).cpu() for value in (X, y) if value is not None]
    data = [value.double() if value.is_floating_point() else value for value in data]
    _move(own, jitter or 0.0, Noise(seed, "gradient-check"))

    def loss() -> float:
        with _as_found(own), torch.no_grad():
            return float(objective(own(data[0]), *data[1:]))

    named = {name: p for name, p in own.named_parameters() if p.requires_grad}
    point = {name: p.detach().numpy() for name, p in named.items()}
    with _as_found(own):
        analytic = _automatic(objective(own(data[0]), *data[1:]), named)
    return loss, point, analytic


def _move(model: Any, jitter: float, noise: Noise) -> None:
    if not jitter >= 0:
        raise UserValueError.must("jitter", "be at least 0", jitter)
    for name, parameter in model.named_parameters():
        array = parameter.detach().numpy()
        array += jitter * np.reshape(noise.child(f"jitter/{name}").normal((array.size,), like=np.zeros(1)), array.shape)


@contextmanager
def _as_found(*modules: Any) -> Iterator[None]:
    """The same random numbers for every evaluation, and buffers (running means, chains) put back after it."""
    import torch

    buffers = [(buffer, buffer.clone()) for module in modules for buffer in module.buffers()]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield
    with torch.no_grad():  # after a backward, which needs them as they were
        for buffer, before in buffers:
            buffer.copy_(before)
