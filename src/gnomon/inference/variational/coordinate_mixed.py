"""Factors of variables of any kind, found from a joint log density that is asked at the nodes of the other factors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Noise
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.variational.coordinate_ascent import Rows, State
from gnomon.inference.variational.coordinate_forms import FactorForm, Finite
from gnomon.inference.variational.coordinate_posterior import BlockOfValues, FactorPart, OneFactor
from gnomon.inference.variational.coordinate_tables import TableFactors, expected_over
from gnomon.numeric.given import affordable, answers, checked, floats, function

__all__ = ["MixedFactors", "described", "factorization"]

Floats = NDArray[np.float64]

_LIMIT = 1 << 24
"""Points at which a joint is asked at once."""


class MixedFactors:
    r"""The family of one factor per variable beside any positive joint density: the best factor given the others is

    .. math:: q_i(h_i) \propto \exp E_{q_{-i}}[\log p(v, h)]

    of whatever form that has. Expectations are sums over the nodes of the other factors: the values of a `Finite`, the
    cells of a `Grid`, quadrature nodes of a `GaussianFactor` or `GammaFactor`, which are exact where the log joint is a
    polynomial in the variable (and its logarithm). Conjugate factors are found from the expected log joint at three
    points and refused where a fourth tells that they are none.

    Parameters
    ----------
    log_joint : callable
        ``log_joint(name=values, ...) -> log p(v, h)`` in nats, for arrays that broadcast against each other.
    variables : mapping of name to FactorForm
        Also a number of values for a `Finite`.

    Raises
    ------
    UserValueError
        More than 2^24 points of all nodes together; a factor that cannot be normalized.

    Notes
    -----
    Cost of an update: the joint at the product of the nodes of the other variables and the points of this one, so this
    is for few variables that are not listed; many have families of their own (`NormalFactors`, `ChainFactors`). Where
    all variables are listed, `factorization` asks the joint once and makes `TableFactors`. Source: Goodfellow, Bengio
    and Courville (2016), section 19.4.3.

    Examples
    --------
    >>> from gnomon.inference.variational.coordinate_ascent import coordinate_ascent
    >>> from gnomon.inference.variational.coordinate_forms import GammaFactor, GaussianFactor
    >>> x = np.array([1.0, 2.0, 3.0])
    >>> def log_joint(mean, precision):  # normal rows, mean ~ N(0, 1 / precision), precision ~ Gamma(2, 1)
    ...     squares = mean**2 + sum((one - mean) ** 2 for one in x)
    ...     return 3 * np.log(precision) - precision * (1 + squares / 2) - 2 * np.log(2 * np.pi)
    >>> family = MixedFactors(log_joint, {"mean": GaussianFactor(), "precision": GammaFactor()})
    >>> found = coordinate_ascent(family, tol_h=1e-12)
    >>> found.state["mean"].round(6).tolist(), found.state["precision"].round(6).tolist(), found.elbo.round(6).tolist()
    ([[1.5, 0.25]], [[4.0, 4.0]], [-6.703381])
    """

    mixes, n_rows = True, 1

    @checked
    def __init__(self, log_joint: Callable[..., Any], variables: Mapping[str, Any]) -> None:
        self._log_joint, self.variables = function(log_joint, "log_joint"), described(variables)
        self.blocks: tuple[str, ...] = tuple(self.variables)
        count = math.prod(len(one.nodes(one.begun())[0]) for one in self.variables.values())
        affordable(count, "variables", "use fewer variables, or coarser grids", limit=_LIMIT)

    def start(self) -> State:
        """Parameters that the descriptions say."""
        return {name: one.begun()[None] for name, one in self.variables.items()}

    def update(self, block: str, state: State, rows: Rows) -> Floats:
        """Parameters of the best factor."""
        own = self.variables[block]
        at = own.probes(state[block][0])
        return own.solved(at, self._expected(block, at, state), block)[None]

    def elbo(self, state: State, rows: Rows) -> Floats:
        """The expected log joint and the entropies."""
        first = self.blocks[0]
        at, weight = self.variables[first].nodes(state[first][0])
        some = weight > 0
        total = float(weight[some] @ self._expected(first, at, state)[some])
        return np.array([total + sum(one.entropy(state[name][0]) for name, one in self.variables.items())])

    def residual(self, state: State, rows: Rows) -> Floats:
        """Largest distance of a parameter from its update."""
        gaps = [np.abs(self.update(name, state, rows) - state[name]).max() for name in self.blocks]
        return np.array([max(gaps)])

    def parts(self, state: State) -> list[FactorPart]:
        """The factors as distributions."""
        return [self._part(name, one, state[name][0]) for name, one in self.variables.items()]

    def _part(self, name: str, form: FactorForm, parameters: Floats) -> FactorPart:
        if isinstance(form, Finite):
            return BlockOfValues([name], [form.points()], [form.widths()], parameters)
        return OneFactor(name, form.distribution(parameters))

    def log_joint_at(self, numbers: Mapping[str, Floats]) -> Floats:
        """log p(v, h) at values of the variables."""
        return np.asarray(self._log_joint(**{name: numbers[name] for name in self.blocks}), np.float64)

    def distributions(self, state: State) -> dict[str, Any]:
        """The factors as distributions."""
        return {name: one.distribution(state[name][0]) for name, one in self.variables.items()}

    def _expected(self, block: str, at: Floats, state: State) -> Floats:
        """E_rest[log p(v, h)] at values of one variable; what has weight 0 is not asked."""
        nodes = {name: one.nodes(state[name][0]) for name, one in self.variables.items() if name != block}
        nodes = {name: (x[w > 0], w[w > 0]) for name, (x, w) in nodes.items()}
        axes = [at if name == block else nodes[name][0] for name in self.blocks]
        table = _tabulated(self._log_joint, self.blocks, axes)
        weights = [None if name == block else nodes[name][1][None] for name in self.blocks]
        return expected_over(table[None], weights)[0]


def _tabulated(log_joint: Callable[..., Any], names: Sequence[str], axes: Sequence[Floats]) -> Floats:
    """The joint at the product of the axes, one axis each."""
    grids = dict(zip(names, np.meshgrid(*axes, indexing="ij", sparse=True), strict=True))
    shape = tuple(map(len, axes))
    found = floats(log_joint(**grids), "log_joint")
    try:
        table = np.broadcast_to(found, shape)
    except ValueError:
        what = f"log_joint must return shape {shape}, or one that broadcasts to it, got {found.shape}"
        raise UserValueError(what, "log_joint", "write it in operations that broadcast") from None
    return answers(table, shape, "log_joint")


def described(variables: Mapping[str, Any]) -> dict[str, FactorForm]:
    """Descriptions of the variables; a number of values becomes a `Finite`."""
    found: dict[str, FactorForm] = {}
    for name, one in variables.items():
        found[name] = Finite(one) if isinstance(one, int | np.integer) else one
        if not isinstance(found[name], FactorForm):
            raise UserTypeError.must(
                f"variables[{name!r}]", "be Finite, Grid, GaussianFactor, GammaFactor or a number of values", one
            )
    if not found:
        raise UserValueError("variables must name at least one", "variables")
    return found


@checked
def factorization(
    log_joint: Callable[..., Any], variables: Mapping[str, Any], *, blocks: Sequence[Any] | None = None,
    noise: Noise | None = None,
) -> TableFactors | MixedFactors:  # fmt: skip
    """The family for a joint log density of named variables: tables where all are listed, else one factor each.

    Parameters
    ----------
    log_joint, variables
        As of `MixedFactors`.
    blocks : sequence of names or sequences of names, optional
        Listed variables that keep their dependence (`TableFactors`).
    noise : Noise, optional
        Moves the start of tables off lines of symmetry.

    Examples
    --------
    >>> from gnomon.inference.variational.coordinate_ascent import coordinate_ascent
    >>> spins = factorization(lambda a, b: 0.4 * (2 * a - 1) * (2 * b - 1) + 0.1 * a, {"a": 2, "b": 2})
    >>> found = coordinate_ascent(spins)
    >>> {name: float(p[0, 1].round(4)) for name, p in spins.marginals(found.state).items()}
    {'a': 0.5297, 'b': 0.5119}
    """
    found = described(variables)
    if not all(isinstance(one, Finite) for one in found.values()):
        if blocks:
            raise UserValueError("blocks must be of variables that are listed", "blocks", "describe them by Grid")
        return MixedFactors(log_joint, found)
    listed = {name: one for name, one in found.items() if isinstance(one, Finite)}
    axes = [one.points() for one in listed.values()]
    affordable(math.prod(map(len, axes)), "variables", "use fewer variables, or coarser grids", limit=_LIMIT)
    table = _tabulated(log_joint, tuple(listed), axes)
    measure = {name: one.widths() for name, one in listed.items()}
    values = dict(zip(listed, axes, strict=True))
    return TableFactors(table[None], tuple(listed), blocks=blocks, measure=measure, values=values, noise=noise)
