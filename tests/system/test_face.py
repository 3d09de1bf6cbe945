"""What a user hands over comes in as it is: whole numbers, columns by name, targets of either shape, tensors."""

import random
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import gnomon
from gnomon.distributions.domains import Real
from gnomon.distributions.whole import Counts
from gnomon.errors import UserTypeError, UserValueError
from gnomon.recipes.imports import load

A = np.random.default_rng(0).normal(size=(50, 3))
Y = A @ [3.0, -2.0, 1.0] + 0.01 * np.random.default_rng(1).normal(size=50)
SECONDS = 10**8 + np.arange(3)[:, None]


# --- HB-09: whole numbers are not rounded ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "X",
    [
        SECONDS.astype(float), SECONDS, SECONDS.astype(np.int32), SECONDS.astype(np.uint32), SECONDS.tolist(),
        pd.DataFrame(SECONDS, columns=["t"]), pl.DataFrame(SECONDS, schema=["t"]), torch.tensor(SECONDS),
        pd.DataFrame({"t": pd.array(SECONDS.ravel(), dtype="Int64")}),
    ],
    ids=["float", "int64", "int32", "uint32", "list", "pandas", "polars", "torch", "nullable"],
)  # fmt: skip
def test_whole_numbers_keep_their_digits(X):
    """HB-09: mean 100000001, variance 2/3 and the log density of three numbers, by hand."""
    fitted = gnomon.GaussianMixture(n_components=1).fit(X)
    assert fitted.means_.ravel().tolist() == [100000001.0]
    assert fitted.covariances_.ravel() == pytest.approx(2 / 3, rel=1e-5)
    assert fitted.score(X) == pytest.approx(-0.5 * np.log(2 * np.pi * 2 / 3) - 0.5, rel=1e-5)


@pytest.mark.parametrize("kind", [bool, np.int8, np.uint16, np.int16, np.float16, np.float32])
def test_what_single_precision_holds_stays_single(kind):
    assert Real().check(np.ones((2, 2), kind)).dtype == np.float32


def test_large_counts_are_counted_one_by_one():
    """HB-09: 2**24 + 1 is 2**24 in single precision."""
    assert Counts().check([[2**24 + 1]]).tolist() == [[2**24 + 1]]
    with pytest.raises(UserValueError, match="must hold a count"):
        Counts().check(np.array([[2**24 + 2]], np.float32))


# --- HB-46: a target is a column or a row of numbers ----------------------------------------------------------------


@pytest.mark.parametrize("name", ["linear-regression", "bayesian-regression", "regression-tree", "mlp-regression"])
def test_a_target_of_either_shape_scores_the_same(name):
    """HB-46."""
    steps = {"epochs": 2} if name == "mlp-regression" else {}
    noisy = Y + np.random.default_rng(1).normal(size=50)
    fitted = {d: gnomon.make(name, random_state=0, **steps) for d in (1, 2)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a column where one number is asked for, in scikit-learn's words
        given = {1: noisy, 2: noisy[:, None]}
        found = [
            [one.fit(A, given[d]).score(A, given[e]), *(v.value for v in one.evaluate(A, given[e]).values())]
            for d, one in fitted.items()
            for e in given
        ]  # fmt: skip
    for other in found[1:]:
        assert other == pytest.approx(found[0])


def test_a_chunk_may_have_the_other_shape():
    """HB-46, in a stream: the same weights."""
    one, other = (gnomon.LinearRegression().partial_fit(A, Y).partial_fit(A, again) for again in (Y[:, None], Y))
    np.testing.assert_array_equal(one.coef_, other.coef_)


# --- HB-52: columns that are not called by text ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "names",
    [[0, 1, 2], [2, 0, 1], [7, 8, 9], list(pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-03"])),
     [("a", 1), ("b", 2), ("c", 3)], [1.5, 2.5, 3.5]],
    ids=["numbers", "shuffled", "others", "dates", "pairs", "floats"],
)  # fmt: skip
def test_columns_in_another_order_are_no_others(names):
    """HB-52: never other numbers in silence."""
    T = pd.DataFrame(A)
    T.columns = pd.Index(names, tupleize_cols=False)
    fitted = gnomon.LinearRegression().fit(T, Y)
    np.testing.assert_allclose(fitted.predict(T), Y, atol=0.1)
    with pytest.raises(UserValueError, match="order"):
        fitted.predict(T.iloc[:, [2, 1, 0]])


def test_the_numbers_that_a_frame_has_by_itself_are_no_names():
    fitted = gnomon.LinearRegression().fit(pd.DataFrame(A), Y)
    np.testing.assert_array_equal(fitted.predict(A), fitted.predict(pd.DataFrame(A)))
    assert not hasattr(fitted, "feature_names_in_")
    with pytest.raises(UserValueError, match=r"0, 1, 2 .* in order, got 2, 1, 0"):
        gnomon.LinearRegression().fit(A, Y).predict(pd.DataFrame(A)[[2, 1, 0]])


# --- tensors ---------------------------------------------------------------------------------------------------------


def test_tensors_that_numpy_does_not_know():
    narrow = torch.tensor(A).to(torch.bfloat16)
    np.testing.assert_array_equal(Real().check(narrow), narrow.float().numpy())
    fitted = gnomon.LinearRegression().fit(narrow, torch.tensor(Y).to(torch.bfloat16))
    assert fitted.score(narrow, Y) > 0.99
    with pytest.raises(UserTypeError, match=r"for X, but dense data is required.*to_dense"):
        gnomon.LinearRegression().fit(torch.tensor(A).to_sparse(), Y)
    with pytest.raises(UserTypeError, match="for y, but dense data"):
        gnomon.LinearRegression().fit(A, torch.tensor(Y).to_sparse())


# --- HB-50: Python's own generator ------------------------------------------------------------------------------------


def test_an_import_that_draws_leaves_no_trace(tmp_path, monkeypatch):
    """HB-50: rich, which scikit-learn brings along, draws a number when it is imported."""
    (tmp_path / "drawing_module.py").write_text("import random\nvalue = random.random()\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = random.getstate()
    assert 0 <= load("drawing_module:value") < 1
    assert random.getstate() == before


@pytest.mark.slow
@pytest.mark.parametrize("name", ["linear-regression", "rbm", "decision-tree", "gaussian-mixture"])
def test_the_first_use_leaves_the_global_generators(name, tmp_path):
    """HB-50: the first make, fit, score and save of a process."""
    script = f"""
import random, gnomon, numpy as np
X = (np.random.default_rng(0).random((20, 3)) < 0.5).astype(float)
before = random.getstate(), np.random.get_state()[1].tobytes()
system = gnomon.make({name!r}, random_state=0).fit(X, np.arange(20) % 2)
system.score(X, np.arange(20) % 2)
gnomon.load(system.save({str(tmp_path / "run")!r}))
assert (random.getstate(), np.random.get_state()[1].tobytes()) == before
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True)
    assert not done.returncode, done.stderr
