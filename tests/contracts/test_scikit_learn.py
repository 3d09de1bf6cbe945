"""scikit-learn's checks of estimators, for every system that takes rows of numbers."""

import inspect
import traceback
import warnings

import numpy as np
import pytest
from sklearn.base import is_classifier, is_regressor
from sklearn.utils.estimator_checks import check_estimator

from gnomon.catalog import entry
from gnomon.recipes.recipe import Recipe
from oracles.ways import TABLES, wide


def told(error):
    """An error with its line and its cause: many checks assert without a word."""
    line = traceback.extract_tb(error.__traceback__)[-1].line
    cause = f", from {error.__cause__!r}" if error.__cause__ else ""
    return f"{error!r} at `{line}`{cause}"


@pytest.mark.parametrize("name", TABLES)
def test_scikit_learns_checks(name):
    cls = wide(name)
    state = np.random.get_state()  # some of its checks seed and draw from the global generator
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        system = cls(random_state=0, **entry(name).tiny)
        if "epochs" in system.get_params() and not (is_classifier(system) or is_regressor(system)):
            system.set_params(epochs=2)  # what is asked of predictors alone is whether they have learned
        results = check_estimator(system, on_skip=None, on_fail=None)
    np.random.set_state(state)
    failed = [(r["check_name"], told(r["exception"])) for r in results if r["status"] in ("failed", "xfail")]
    if cls.resamples_rows:
        failed = [one for one in failed if one[0] != "check_sample_weight_equivalence_on_dense_data"]
    if not is_classifier(system) and cls.takes_sparse:
        # of what has predict_proba it asks how many classes there are; tests/system/test_sparse.py holds the numbers
        failed = [one for one in failed if "multi_class" not in one[1]]
    if any(isinstance(value, Recipe) for value in cls().get_params(deep=False).values()):
        # of objects it allows callables alone, lest systems share what one of them changes; recipes are frozen
        failed = [one for one in failed if one[0] != "check_parameters_default_constructible"]
        defaults = {name: p.default for name, p in inspect.signature(cls).parameters.items()}
        assert cls().get_params(deep=False) == defaults
        assert all(not isinstance(value, Recipe) or hash(value) for value in defaults.values())
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    assert not failed, "\n".join(f"{check}: {error}" for check, error in failed)
    assert all(check.startswith("check_array_api") for check in skipped)
    assert len(results) > 40
