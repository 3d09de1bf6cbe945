"""What a prediction rests on: coefficients with their errors, impurity importances, permutation importances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gnomon.errors import UserError
from gnomon.evaluation.coefficients import (
    Coefficients,
    least_squares_coefficients,
    logistic_coefficients,
    posterior_coefficients,
)
from gnomon.evaluation.score import Score
from gnomon.tasks.components import linear_in_units

__all__ = ["Explanation", "coefficients", "groups", "impurity"]


@dataclass
class Explanation:
    """What is known of the columns.

    Parameters
    ----------
    coefficients : list of Coefficients
        One table for each output; standard errors are NaN where there are none.
    impurity, permutation : mappings by column
    notes : list of str
    """

    coefficients: list[Coefficients] = field(default_factory=list)
    impurity: dict[str, float] = field(default_factory=dict)
    permutation: dict[str, Score] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def coefficients(system: Any, columns: Sequence[str], X: Any = None, y: Any = None) -> tuple[list[Coefficients], str]:
    """Coefficients of a linear system by column, and what has to be said of their errors.

    Parameters
    ----------
    system : System
    columns : sequence of str
        Of the rows that it was fitted to.
    X, y : arrays, optional
        The training rows, without which there are no standard errors.
    """
    if not hasattr(system, "coef_"):
        return [], ""
    names, (values, bias) = tuple(columns), linear_in_units(system)
    outputs = _outputs(system, len(values))
    if X is not None:
        try:
            found = _with_errors(system, names, values, bias, outputs, X, y)
        except UserError as error:
            return _bare(names, values, bias, outputs), error.what
        if found is not None:
            return found, "; ".join(dict.fromkeys(one.note for one in found if one.note))
    return _bare(names, values, bias, outputs), _why(
        system
    ) if X is not None else "no training rows, no standard errors"


def _with_errors(
    system: Any, names: tuple[str, ...], values: Any, bias: Any, outputs: tuple[str, ...], X: Any, y: Any
) -> list[Coefficients] | None:
    """The tables with standard errors; None of a system that has none."""
    preparation = getattr(system, "preparation_", None)
    scaled = preparation is not None and preparation.unit is not None
    if scaled and (system.name == "bayesian-regression" or not getattr(system, "standardize", True)):
        return None
    if system.name == "linear-regression" and len(values) == 1 and not system.l1:
        options = {"l2": system.l2, "standardize": system.standardize}
        return [least_squares_coefficients(X, np.ravel(y), values[0], float(bias[0]), names, **options)]
    if system.name == "logistic-regression":
        options = {"outputs": outputs, "l2": system.l2, "standardize": system.standardize}
        return logistic_coefficients(X, values, bias, names, **options)
    if system.name == "bayesian-regression":
        facts = {"about": system.intercept, "standardize": system.standardize}
        return [posterior_coefficients(X, values[0], float(bias[0]), system.covariance_, names, **facts)]
    return None


def _why(system: Any) -> str:
    """Why there are no standard errors."""
    if getattr(system, "l1", 0):
        return "no standard errors with an l1 penalty, which puts coefficients at exactly 0"
    if system.name in ("linear-regression", "logistic-regression", "bayesian-regression"):
        return "no standard errors of a penalty on columns that the preparation has scaled; leave --scale yes out"
    if system.name == "softmax-regression":
        return "no standard errors of a fit by gradient steps; logistic-regression reaches the optimum and has them"
    return f"{system.name} has no standard errors; linear-regression and logistic-regression have them"


def _bare(names: tuple[str, ...], values: Any, bias: Any, outputs: tuple[str, ...]) -> list[Coefficients]:
    nothing = np.full(len(names) + 1, np.nan)
    return [
        Coefficients((*names, "intercept"), np.append(row, own), nothing, np.inf, output)
        for row, own, output in zip(values, bias, outputs, strict=True)
    ]


def _outputs(system: Any, n: int) -> tuple[str, ...]:
    """What each row of coefficients speaks for."""
    classes = [str(one) for one in getattr(system, "classes_", ())]
    if n == 1:
        return (classes[1] if len(classes) == 2 else "",)
    return tuple(classes) if len(classes) == n else tuple(f"output {j}" for j in range(n))


def impurity(system: Any, columns: Sequence[str]) -> dict[str, float]:
    """Decrease of impurity by column of the data, the largest first; nothing of systems without trees.

    That of a category is the sum over its codes.
    """
    found = getattr(system, "feature_importances_", None)
    if found is None:
        return {}
    values = np.asarray(found, np.float64)
    sums = {name: float(values[places].sum()) for name, places in groups(system, columns).items()}
    return dict(sorted(sums.items(), key=lambda pair: -pair[1]))


def groups(system: Any, columns: Sequence[str]) -> dict[str, list[int]]:
    """Places of the columns of the fit that say one column of the data: the codes of one category."""
    preparation = getattr(system, "preparation_", None)
    sources = {} if preparation is None else preparation.sources
    found: dict[str, list[int]] = {}
    for place, column in enumerate(columns):
        found.setdefault(sources.get(column, column), []).append(place)
    return found
