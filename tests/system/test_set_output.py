"""Data frames out of transformers, in scikit-learn's way, and what frames go through on their way in."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import gnomon
from gnomon import catalog

RANDOM = np.random.default_rng(0)
X = (RANDOM.random((60, 5)) < 0.4).astype(float)
Y = (X[:, 0] + X[:, 1] > 0).astype(int)
READERS = {"bert", "co-occurrence", "electra", "elmo", "longformer", "sentence-vae", "transformer-classifier"}
"""Systems of texts, which have no columns."""
TRANSFORMERS = [one for one in catalog() if hasattr(catalog.load_class(one), "transform") and one.name not in READERS]
WIDTH = {"metric-network": 3, "vae": 2, "ppca": 2}


def made(entry):
    system = gnomon.make(entry.name, random_state=0, **entry.tiny)
    names = {"metric-network": "n_components", "vae": "n_latent", "ppca": "n_components"}
    return system.set_params(**{names[entry.name]: WIDTH[entry.name]}) if entry.name in names else system


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("entry", TRANSFORMERS, ids=lambda one: one.name)
def test_frames_have_the_numbers_of_arrays(entry):
    """set_output("pandas"), ("polars") and ("default"): names and index there, the same numbers, clones alike."""
    system = made(entry).fit(X, Y)
    plain = system.transform(X)
    names = system.get_feature_names_out().tolist()
    assert names == [f"{type(system).__name__.lower()}{i}" for i in range(plain.shape[1])]
    rows = pd.DataFrame(X, index=np.arange(60) + 100)
    found = system.set_output(transform="pandas").transform(rows)
    assert found.columns.tolist() == names
    assert found.index.tolist() == rows.index.tolist()
    np.testing.assert_array_equal(found.to_numpy(), plain)
    assert isinstance(clone(system).fit(X, Y).transform(X), pd.DataFrame)
    wide = system.set_output(transform="polars").transform(X)
    assert isinstance(wide, pl.DataFrame)
    assert wide.columns == names
    if hasattr(system, "inverse_transform"):
        np.testing.assert_array_equal(system.inverse_transform(found), system.inverse_transform(plain))
    if hasattr(system, "reconstruct"):
        np.testing.assert_array_equal(system.reconstruct(X), made(entry).fit(X, Y).reconstruct(X))
    assert isinstance(system.set_output(transform="default").transform(X), np.ndarray)


def test_names_survive_a_pipeline():
    """ColumnTransformer and steps with frames between them, a grid over a step: the same as with arrays."""
    T = pd.DataFrame({"a": RANDOM.normal(size=60), "b": RANDOM.normal(size=60), "c": RANDOM.choice(list("xyz"), 60)})
    y = (T.a + (T.c == "x") > 0).astype(int)
    columns = ColumnTransformer([("n", StandardScaler(), ["a", "b"]), ("c", OneHotEncoder(sparse_output=False), ["c"])])
    pipe = make_pipeline(columns, gnomon.PPCA(n_components=2), gnomon.LogisticRegression())
    expected = clone(pipe).fit(T, y).predict_proba(T)
    frames = clone(pipe).set_output(transform="pandas").fit(T, y)
    np.testing.assert_array_equal(frames.predict_proba(T), expected)
    assert frames[1].feature_names_in_.tolist() == ["n__a", "n__b", "c__c_x", "c__c_y", "c__c_z"]
    assert frames[2].feature_names_in_.tolist() == ["ppca0", "ppca1"]
    assert frames[:-1].get_feature_names_out().tolist() == ["ppca0", "ppca1"]
    grid = GridSearchCV(pipe.set_output(transform="pandas"), {"ppca__n_components": [1, 2]}, cv=3).fit(T, y)
    assert grid.best_estimator_[2].n_features_in_ == grid.best_params_["ppca__n_components"]
