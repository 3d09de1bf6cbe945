"""What a leaderboard says of a system: the settings that are not its defaults, chance, the number of parameters."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from gnomon.recipes.recipe import Recipe, resolve
from gnomon.system.base import System

__all__ = ["draws", "name_of", "parameters_of", "settings_of", "title_of"]


def draws(system: System) -> bool:
    """Whether another seed may give another fit; of closed forms and counts none does.

    Examples
    --------
    >>> import gnomon
    >>> draws(gnomon.LinearRegression()), draws(gnomon.RBM())
    (False, True)
    """
    cls = type(system)
    if "random_state" in cls.inert_fields:
        return False
    beside = cls.acts_with.get("random_state", {})
    defaults = inspect.signature(cls).parameters
    given = {name: (getattr(system, name), value, defaults[name].default) for name, value in beside.items()}
    return all(now == value or now != default for now, value, default in given.values())


def name_of(system: System) -> str:
    """The name in the catalog, of a class that has none the class's own."""
    return system.name or type(system).__name__


def title_of(system: System) -> str:
    """Name and settings, as ``SYSTEM:key=value`` has them."""
    settings = settings_of(system)
    return f"{name_of(system)}:{settings}" if settings else name_of(system)


def settings_of(system: System) -> str:
    """The hyper-parameters that are not the defaults, as the command line takes them, without the seed.

    Examples
    --------
    >>> import gnomon
    >>> settings_of(gnomon.RBM(n_hidden=16, random_state=3)), settings_of(gnomon.RBM())
    ('n_hidden=16', '')
    """
    return ",".join(_changed(system, ""))


def _changed(owner: Any, prefix: str) -> list[str]:
    defaults = {name: one.default for name, one in inspect.signature(type(owner)).parameters.items()}
    slots = getattr(owner, "slots", {})
    lines: list[str] = []
    for name, value in owner.get_params(deep=False).items():
        if name == "random_state" and not prefix:
            continue
        default = defaults.get(name, inspect.Parameter.empty)
        if name in slots:
            lines += _slot(prefix + name, *(_recipe(one, slots[name], name) for one in (value, default)))
        elif not _same(value, default):
            lines.append(f"{prefix}{name}={_text(value)}")
    return lines


def _slot(address: str, value: Any, default: Any) -> list[str]:
    """The recipe in a slot: its name where it is another one, and the fields that are not its defaults."""
    if not isinstance(value, Recipe):
        return [] if value is default else [f"{address}={_text(value)}"]
    if isinstance(default, Recipe) and _same(value, default):
        return []
    other = not isinstance(default, Recipe) or type(value) is not type(default)
    return ([f"{address}={value.short}"] if other else []) + _changed(value, f"{address}.")


def _recipe(value: Any, base: Any, name: str) -> Any:
    """What stands in a slot; a function that makes a network as it is."""
    if value is inspect.Parameter.empty:
        return None
    found = resolve(value, base, name)
    return found if getattr(found, "short", "") else value


def _same(value: Any, default: Any) -> bool:
    if default is inspect.Parameter.empty:
        return False
    if isinstance(value, np.ndarray) or isinstance(default, np.ndarray):
        return np.array_equal(value, default)
    if isinstance(value, System | Recipe):
        return type(value) is type(default) and repr(value) == repr(default)
    return (
        type(value) is type(default) and bool(value == default) if isinstance(value, bool) else bool(value == default)
    )


def _text(value: Any) -> str:
    """A value as ``SYSTEM:key=value`` has it, in one short word."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list) and value and all(isinstance(one, int | float | str) for one in value):
        return "x".join(map(str, value))
    if isinstance(value, System):
        return value.name or type(value).__name__
    if isinstance(value, str) and "\n" not in value:  # whole, since it goes back onto a command line
        return value
    text = getattr(value, "__name__", None) or str(value)
    return text if len(text) <= 40 and "\n" not in text else type(value).__name__


def parameters_of(model: Any) -> int | None:
    """Numbers that a fitted model or baseline has learned; None where they are not counted.

    Of scikit-learn's models: coefficients and intercepts; of trees and forests the nodes; of support vector machines
    the support vectors times columns, and their weights.
    """
    model = getattr(model, "model_", model)
    count = getattr(model, "n_parameters", None)
    if count:
        return int(count)
    found = _counted(getattr(model, "estimator", None))
    return count if found is None and count is not None and not hasattr(model, "estimator") else found


def _counted(estimator: Any) -> int | None:
    """What a model of scikit-learn holds."""
    if getattr(estimator, "tree_", None) is not None:
        return int(estimator.tree_.node_count)
    if hasattr(estimator, "_predictors"):  # boosting by histograms: rounds of one tree for each class
        return sum(len(tree.nodes) for trees in estimator._predictors for tree in trees)
    if hasattr(estimator, "support_vectors_"):
        return int(estimator.support_vectors_.size + np.size(estimator.dual_coef_) + np.size(estimator.intercept_))
    if hasattr(estimator, "estimators_"):
        counts = [_counted(one) for one in np.ravel(np.asarray(estimator.estimators_, object))]
        return None if None in counts else sum(count for count in counts if count is not None)
    if hasattr(estimator, "coef_"):
        return int(np.size(estimator.coef_) + np.size(getattr(estimator, "intercept_", ())))
    return None
