"""What the weight of a row means."""

import numpy as np
import pytest

import gnomon
from gnomon.catalog import entry
from gnomon.objectives.contrastive import PCD
from gnomon.testing import arrays_of, example

WEIGHTED = {
    "linear-regression": ("linear-regression", {"l2": 0.1}),
    "linear-regression, L1": (
        "linear-regression",
        {"solver": "gradient", "optimizer": "sgd", "epochs": 30, "learning_rate": 0.2, "l1": 0.05},
    ),
    "bayesian-regression": ("bayesian-regression", {}),
    "softmax-regression": ("softmax-regression", {"batch_size": None, "epochs": 10}),
    "mlp": ("mlp", {}),
    "mlp-regression": ("mlp-regression", {}),
    "ppca, closed form": ("ppca", {"method": "closed"}),
    "ppca, EM": ("ppca", {"method": "em", "max_iter": 12, "tol": 0.0}),
    "ppca, missing values": ("ppca", {"max_iter": 12, "tol": 0.0}),
    "bernoulli-mixture": ("bernoulli-mixture", {"max_iter": 12, "tol": 0.0}),
    "gaussian-mixture, full": ("gaussian-mixture", {"max_iter": 12, "tol": 0.0}),
    "gaussian-mixture, spherical": ("gaussian-mixture", {"covariance": "spherical", "max_iter": 12, "tol": 0.0}),
    "bayesian-gaussian-mixture": ("bayesian-gaussian-mixture", {"max_iter": 12, "tol": 0.0}),
    "gaussian-classifier": ("gaussian-classifier", {}),
    "rbm, exact": ("rbm", {"objective": "exact", "batch_size": None, "epochs": 5}),
    "rbm, PCD-2": ("rbm", {"objective": PCD(k=2, n_chains=7), "batch_size": None, "epochs": 5}),
}
"""Ways to fit in which no random number belongs to a row."""


@pytest.mark.parametrize("way", WEIGHTED)
def test_a_weight_is_so_many_rows(way):
    """In every sum of the fit, the initial values' and the record's included; 0 is no row at all."""
    name, changes = WEIGHTED[way]
    system = gnomon.make(name, **{"random_state": 0, **entry(name).tiny, **changes})
    X, y = example(system)
    if "missing" in way:
        X[::6, 1] = np.nan
    weight = np.random.default_rng(1).integers(0, 4, size=len(X))
    found = arrays_of(system.fit(X, y, sample_weight=weight.astype(float)))
    history = system.history_
    system.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    for key, value in arrays_of(system).items():
        np.testing.assert_allclose(found[key], value, rtol=0, atol=1e-9, err_msg=key)
    for key, values in system.history_.items():
        np.testing.assert_allclose(history[key], values, rtol=0, atol=1e-9, err_msg=key)
