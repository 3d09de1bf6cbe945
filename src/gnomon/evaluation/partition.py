"""Log partition functions by the method of choice, each with its error and a word on how far it can be trusted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

from gnomon.contracts import Array, Noise
from gnomon.errors import UserTypeError, UserValueError, nearest
from gnomon.evaluation._bracket import Bracket, BracketedNormalizer
from gnomon.evaluation._partition import (
    AIS,
    Auto,
    BridgeSampling,
    Eliminate,
    Enumerate,
    Exact,
    Importance,
    Linked,
    Method,
    Normalizer,
    PartitionProblem,
    Quadrature,
)
from gnomon.evaluation.score import Score
from gnomon.numeric.given import checked

__all__ = [
    "AIS",
    "METHODS",
    "Bracket",
    "BracketedNormalizer",
    "BridgeSampling",
    "Importance",
    "Linked",
    "Normalizer",
    "log_partition",
]

METHODS: dict[str, Callable[..., Method]] = {
    "auto": Auto,
    "exact": Exact,
    "enumerate": Enumerate,
    "eliminate": Eliminate,
    "quadrature": Quadrature,
    "importance": Importance,
    "ais": AIS,
    "bracket": Bracket,
    "bridge": BridgeSampling,
    "linked": Linked,
}


@checked
def log_partition(
    model: Any,
    method: str | Method = "auto",
    noise: Noise | None = None,
    *,
    random_state: Any = None,
    limit: int = 25,
    base_mean: Array | None = None,
    proposal: Any = None,
    bounds: Sequence[tuple[float, float]] | None = None,
    rows: Array | None = None,
    **options: Any,
) -> Score:
    r"""Log Z, :math:`Z = \sum_x e^{-E(x)}` or the integral: exact where that is feasible, else estimated.

    =============  ==================================================================================================
    "auto"         exact where it is cheap, else "ais"; takes the options of "ais"
    "exact"        the exact way that fits the model: one of the next three, or the model's own ``log_partition()``
    "enumerate"    all states of the blocks with the fewest, the others summed out; at most 2^`limit`
    "eliminate"    a product of tables, one variable after the other
    "quadrature"   a density of one or two columns over `bounds`
    "importance"   draws of the base or `proposal`, weighted (`draws`)
    "ais"          annealed importance sampling (`chains`, `schedule`, `kernel`)
    "bracket"      the same, with shorter ladders and annealed downwards from draws of the model, which is on average
                   not below log Z where the draws are exact, and from `rows` (`burn_in` besides): a
                   `BracketedNormalizer`
    "bridge"       draws of the base and chains on the model, joined by a bridge (`chains`, `draws`, `burn_in`,
                   `bridge`, `kernel`)
    "linked"       a ladder of chains joined by bridges (`levels`, `chain_length`, `runs`, `bridge`, `kernel`)
    =============  ==================================================================================================

    Parameters
    ----------
    model : HasMarginalEnergy, object with ``energy`` or ``log_prob``, callable, or factors
        A callable is an unnormalized log density of rows, in nats. A fitted System stands for its model. Estimates need
        blocks and a bridge to a base model, or a `proposal`.
    method : str or Method, default "auto"
        A name of the table, or one of the classes behind it with its options, such as ``Linked(levels=5)``.
    noise : Noise, optional
        Where an estimate draws from; made from `random_state` by default.
    random_state : int, None or NumPy generator
        Seed where no noise is given.
    limit : int, default 25
        log2 of the largest number of states to enumerate: units, where these are binary.
    base_mean : array, optional
        Means of the observed units that ``model.base`` takes, for example the training data's; uniform by default.
    proposal : Family, or object with ``sample(n, noise)`` and a normalized ``log_prob``
        What estimates for a density start from; it must cover the target.
    bounds : sequence of (lower, upper), optional
        Sides of the box of a quadrature; infinite ends are allowed.
    rows : array of shape (n, d), optional
        Rows of data in the model's units: of a model that is too large for exact draws, "bracket" anneals downwards
        from chains that begin there too, and says so where they are in a mode that the way up has missed.
    **options
        Those of the method, as in the table.

    Returns
    -------
    Score
        Unit nats. Exact: error 0. Estimate: the standard error of the estimator; a `note` (and a warning) says when it
        is not to be trusted. The log of an unbiased estimate of Z is too low on average, by about error^2 / 2.

    Raises
    ------
    UserValueError
        When an exact way would cost too much, the integral does not converge (the density cannot be normalized), or
        the draws of a bridge do not overlap.
    UserTypeError
        For a model that the method cannot act on, an option that it does not take.

    References
    ----------
    Neal (2001; 2005); Meng and Wong (1996); Salakhutdinov and Murray (2008); Burda, Grosse and Salakhutdinov (2015).

    Examples
    --------
    >>> infinity = float("inf")
    >>> print(log_partition(lambda x: -0.5 * x[:, 0] ** 2, "exact", bounds=[(-infinity, infinity)]))
    0.9189 exact nats
    """
    model = getattr(model, "model_", model)
    problem = PartitionProblem(model, limit, base_mean, proposal, bounds, noise, random_state, rows)
    return _method(method, options)(problem)


def _method(method: str | Method, options: dict[str, Any]) -> Method:
    if not isinstance(method, str):
        if options:
            raise UserTypeError(f"{type(method).__name__} has its options", next(iter(options)), "give them there")
        if not callable(method) or isinstance(method, type):
            given = f"the class {method.__name__}" if isinstance(method, type) else f"a {type(method).__name__}"
            what = f"method must be a name or an object such as Linked(levels=5), got {given}"
            raise UserTypeError(what, "method")
        return method
    if method not in METHODS:
        raise UserValueError.must("method", f"be one of {', '.join(METHODS)}", method)
    known = [field.name for field in fields(METHODS[method])]  # type: ignore[arg-type]
    for name in options:
        if name not in known:
            close = nearest(name, known) or known or ["no options"]
            raise UserTypeError(f"method {method!r} takes no {name}", name, "use " + ", ".join(close))
    return METHODS[method](**options)
