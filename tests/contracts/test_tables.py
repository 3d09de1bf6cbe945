"""What every system that takes rows of numbers does with their layout, their columns, and with what is no table."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import gnomon
from gnomon.errors import UserError, UserValueError
from gnomon.testing import arrays_of
from oracles.ways import TABLES, brief, one_per_domain, takes_missing
from oracles.ways import brief_case as case


@pytest.mark.parametrize("name", TABLES)
def test_other_layouts_fit_as_a_fresh_copy(name, tmp_path):
    X, y = case(name).X, case(name).y
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    before = (tmp_path / "x.npy").read_bytes()
    reference = arrays_of(case(name).fitted)
    wide = np.zeros((2 * len(X), X.shape[1]))
    wide[::2] = X
    for other in (mapped, np.asfortranarray(X), wide[::2], X.astype(">f8"), X.astype(object)):
        found = arrays_of(brief(name).fit(other, y))
        for key, value in reference.items():
            np.testing.assert_allclose(found[key], value, rtol=0, atol=1e-12)
    assert (tmp_path / "x.npy").read_bytes() == before


@pytest.mark.parametrize("name", one_per_domain().values(), ids=one_per_domain().keys())
@pytest.mark.parametrize(
    ("spoil", "parts"),
    [
        (lambda X: X[:, 0], ["Expected 2D array, got 1D"]),
        (lambda X: X[None], ["Expected 2D array, got 3D"]),
        (lambda X: X[:0], ["0 sample(s)"]),
        (lambda X: X[:, :0], ["0 feature(s)"]),
        (lambda X: X * 1j, ["Complex data not supported"]),
        (sparse.csr_array, ["Sparse data"]),
        (lambda X: (row for row in X), ["generator"]),
        (lambda X: "digits", ["str"]),
        (lambda X: None, ["NoneType"]),
        (lambda X: gnomon.data.load("wine"), ["wine", "view"]),
        (lambda X: pd.DataFrame(), ["0 sample(s)"]),
        (lambda X: pd.DataFrame(X, columns=["a", "a", "b", "c", "d"]), ["unique column names"]),
        (lambda X: np.ma.masked_array(X, np.isin(X, X[0, 0])), ["row 0, column 0", "missing"]),
    ],
)
def test_what_is_no_table_is_refused_in_one_line(name, spoil, parts):
    X, y = case(name).X, case(name).y
    if takes_missing(name) and "missing" in parts:
        return  # takes missing values
    if "got 3D" in parts[0] and "Frames" in type(brief(name).domain).__name__:
        return  # takes sequences of frames
    if spoil is sparse.csr_array and brief(name).takes_sparse:
        return
    with pytest.raises(UserError) as caught:
        brief(name).fit(spoil(X), y)
    said = str(caught.value)
    assert all(part in said for part in parts), said
    assert "\n" not in said
    assert len(said) < 250


@pytest.mark.parametrize("name", TABLES)
def test_a_sparse_table_is_taken_as_what_it_is_or_refused_in_one_line(name):
    """One input for every system; the others are refused by the domain, once for each."""
    X, y = case(name).X, case(name).y
    if brief(name).takes_sparse:
        fitted, dense = brief(name).fit(sparse.csr_array(X), y), brief(name).fit(X, y)
        verb = "predict" if hasattr(dense, "predict") else "transform"
        np.testing.assert_allclose(getattr(fitted, verb)(sparse.csc_array(X)), getattr(dense, verb)(X), rtol=1e-6)
        return
    with pytest.raises(UserError, match=r"Sparse data.*toarray") as caught:
        brief(name).fit(sparse.csr_array(X), y)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", TABLES)
def test_other_columns_are_refused_in_one_line(name):
    X, y = case(name).X, case(name).y
    frame = pd.DataFrame(X, columns=list("abcde"))
    fitted = brief(name).fit(frame, y)
    verb = next(getattr(fitted, one) for one in ("predict", "transform", "score") if hasattr(fitted, one))
    with pytest.raises(UserValueError, match=r"unseen at fit time: - z.*give the columns of the fit$"):
        verb(frame.rename(columns={"a": "z"}))
    with pytest.raises(UserError, match="must all be text or all be something else, got int and str") as caught:
        verb(frame.set_axis(["a", 1, 2, 3, 4], axis=1))
    assert len(str(caught.value)) < 200
    with pytest.raises(UserValueError, match="expecting 5 features"):
        case(name).fitted.score(X[:, :2], y)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize(
    "options", [{"sample_weight": np.zeros(40)}, {"sample_weight": -np.ones(40)}, {"sample_weight": np.ones(3)}]
)
def test_weights_are_refused_in_one_line(name, options):
    X, y = case(name).X, case(name).y
    with pytest.raises(UserError, match="sample_weight"):
        brief(name).fit(X, y, **options)
