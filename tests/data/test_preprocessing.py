"""Preprocessing: scikit-learn beside it, constant columns, outliers, chunks, processes, weights, saving."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

from gnomon.data.encoding import Indicators
from gnomon.data.preprocessing import Rescaler, Standardizer
from gnomon.errors import UserError, UserTypeError, UserValueError
from gnomon.runs.codecs import pack, unpack

RANDOM = np.random.default_rng(0)
DATA = RANDOM.normal(size=(200, 5)) * [1, 1e-3, 50, 1e6, 1] + [0, 5, -300, 1e8, 1e-9]
WEIGHT = RANDOM.uniform(0.1, 3.0, 200)
WORDS = np.array(["A", "B", "C", "A", "é"], dtype=object)


class Gathered:
    """A group whose other processes have given what is here."""

    rank, size = 0, 2

    def __init__(self, *others):
        self.others = list(others)

    def gather(self, x):
        return np.concatenate([x, self.others.pop(0)])


# --- standardizing --------------------------------------------------------------------------------------------------


@pytest.mark.spec("DLN-76", "PRA-059")
def test_mean_0_and_spread_1_and_back():
    step = Standardizer().fit(DATA)
    z = step.transform(DATA)
    np.testing.assert_allclose(z.mean(0), 0, atol=1e-8)
    np.testing.assert_allclose(z.std(0), 1, rtol=1e-12)  # divisor n
    np.testing.assert_allclose(step.inverse_transform(z), DATA, rtol=1e-14)
    np.testing.assert_allclose(z, StandardScaler().fit_transform(DATA), rtol=1e-12, atol=1e-12)


@pytest.mark.spec("DLN-76", "PRA-059")
def test_the_definition_in_numbers():
    step = Standardizer().fit([[1.0], [2.0], [6.0]])
    assert step.state()["mean"].tolist() == [3] and step.state()["variance"][0] == pytest.approx(14 / 3)
    assert step.transform([[6.0]])[0, 0] == pytest.approx(3 / np.sqrt(14 / 3), rel=1e-7)


@pytest.mark.spec("PRA-059")
@pytest.mark.parametrize("size", [1, 7, 64, 199])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
def test_chunks_of_any_size_are_one_pass(size, weight):
    """Two ways: one step fed in chunks, and one step for each chunk, merged."""
    whole = Standardizer().partial_fit(DATA, weight)
    fed, merged = Standardizer(), Standardizer()
    for start in range(0, 200, size):
        part = slice(start, start + size)
        chunk = (DATA[part], None if weight is None else weight[part])
        fed.partial_fit(*chunk)
        merged.merge(Standardizer().partial_fit(*chunk))
    for other in (fed, merged):
        for name, value in whole.state().items():
            np.testing.assert_allclose(other.state()[name], value, rtol=1e-10, err_msg=name)


@pytest.mark.spec("PRA-059")
def test_two_processes_are_one_pass():
    first, second = Standardizer().fit(DATA[:70]), Standardizer().fit(DATA[70:])
    given = np.stack([second.state()[name] for name in ("count", "mean", "variance")])[None]
    both, whole = first.over(Gathered(given)), Standardizer().fit(DATA)
    for name, value in whole.state().items():
        np.testing.assert_allclose(both.state()[name], value, rtol=1e-12)
    np.testing.assert_allclose(both.transform(DATA), whole.transform(DATA), atol=1e-7)


@pytest.mark.spec("PRA-059", "DLN-76")
def test_weights_are_repetitions():
    counts = RANDOM.integers(0, 4, 200)
    repeated = Standardizer().fit(np.repeat(DATA, counts, axis=0)).state()
    for name, value in Standardizer().fit(DATA, counts).state().items():
        np.testing.assert_allclose(value, repeated[name], rtol=1e-11, err_msg=name)


@pytest.mark.spec("DLN-76", "PRA-059")
@pytest.mark.parametrize("constant", [0.0, 0.1, -3.0, 1e8 + 0.1, 1e-200])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_constant_column_becomes_zero(constant, dtype):
    X = np.full((1000, 2), constant, dtype)
    X[:, 1] = np.arange(1000)
    for step in (Standardizer().fit(X), Standardizer().fit(X[:3]).merge(Standardizer().fit(X[3:]))):
        z = step.transform(X)
        np.testing.assert_array_equal(z[:, 0], 0)
        assert np.isfinite(z).all() and z[:, 1].std() == pytest.approx(1, rel=1e-6)
        np.testing.assert_allclose(step.inverse_transform(z), X, rtol=1e-6, atol=1e-5)


def test_units_are_what_a_model_needs_to_scale_by_itself():
    X = DATA.copy()
    X[:, 4] = 2.5
    for step, low, span in ((Standardizer(), 0, 1), (Rescaler(-1, 2), -1, 3)):
        shift, unit = step.fit(X).units()
        np.testing.assert_allclose((X - shift) / unit * span + low, step.transform(X), atol=1e-7)
        assert unit[4] == 1


def test_far_columns_keep_their_spread():
    """Mean 1e9 and spread 1: a sum of squares would lose it."""
    X = 1e9 + RANDOM.normal(size=(500, 1))
    step = Standardizer().fit(X[:250]).partial_fit(X[250:])
    assert step.transform(X).std() == pytest.approx(1, rel=1e-6)


OUTLIER = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1e12])[:, None].repeat(10, axis=0)


@pytest.mark.spec("DLN-76", "PRA-059")
def test_an_outlier_that_swallows_a_column_is_told():
    with pytest.warns(UserWarning, match="column 0: 11 distinct values became 2 after scaling in float32; remove outl"):
        Standardizer().fit(OUTLIER.astype(np.float32))
    for step, X in ((Standardizer(), OUTLIER), (Rescaler(), OUTLIER.astype(np.float32))):
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # double precision, and a scale from 0, keep them apart
            assert len(np.unique(step.fit(X).transform(X))) == 11
    with pytest.warns(UserWarning, match="column 0: 11 distinct values became 2"):
        Rescaler(-1, 1).fit(OUTLIER.astype(np.float32))


def test_data_without_outliers_is_scaled_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for X in (RANDOM.lognormal(size=(5000, 2)), RANDOM.random((5000, 2)), RANDOM.integers(0, 255, (5000, 2))):
            Standardizer().fit(X.astype(np.float32))


@pytest.mark.spec("DLN-76", "PRA-059")
def test_the_numbers_of_the_training_rows_serve_all_others():
    train, valid = RANDOM.normal(size=(90, 2)), np.full((10, 2), 1e6)
    step = Standardizer().fit(train)
    before = step.state()
    z = step.transform(valid)
    assert np.abs(before["mean"]).max() < 1 and z.min() > 1e5
    for name, value in step.state().items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.spec("PRA-059")
def test_sparse_rows_are_not_centered_silently():
    with pytest.raises(UserTypeError, match="Sparse data was passed"):
        Standardizer().fit(scipy.sparse.csr_matrix(np.eye(3)))


@pytest.mark.spec("DLN-76", "DLN-78")
@pytest.mark.parametrize("step", [Standardizer(), Rescaler(-2, 5)], ids=["standardizer", "rescaler"])
def test_the_log_jacobian_moves_a_density_to_the_units_of_the_rows(step):
    """By the determinant of finite differences, and for a normal density in closed form."""
    step.fit(DATA)
    numeric = (step.transform(DATA + 1e-3 * DATA.std(0)) - step.transform(DATA)) / (1e-3 * DATA.std(0))
    assert step.log_jacobian() == pytest.approx(np.log(numeric).sum(1).mean(), rel=1e-6)
    if isinstance(step, Standardizer):
        assert step.log_jacobian() == pytest.approx(-np.log(DATA.std(0)).sum(), rel=1e-12)


# --- min-max --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("DLN-78")
@pytest.mark.parametrize(("low", "high"), [(0, 1), (-1, 1), (2, 7.5)])
def test_extremes_become_the_ends_and_back(low, high):
    step = Rescaler(low, high).fit(DATA)
    x = step.transform(DATA)
    np.testing.assert_array_equal(x.min(0), low)
    np.testing.assert_array_equal(x.max(0), high)
    np.testing.assert_allclose(step.inverse_transform(x), DATA, rtol=1e-12)
    theirs = MinMaxScaler((low, high)).fit_transform(DATA)
    np.testing.assert_allclose(x, theirs, rtol=0, atol=1e-6)  # theirs loses digits of the column at 1e8


@pytest.mark.spec("DLN-78")
def test_the_definition_of_min_max_in_numbers():
    step = Rescaler(-1, 3).fit([[2.0], [10.0]])
    assert step.transform([[4.0], [10.0], [2.0]]).ravel().tolist() == [0, 3, -1]


@pytest.mark.spec("DLN-78")
def test_rows_outside_the_range_go_on_or_are_clipped():
    X = np.array([[0.0], [2.0]])
    assert Rescaler().fit(X).transform([[-1.0], [4.0]]).ravel().tolist() == [-0.5, 2]
    assert Rescaler(clip=True).fit(X).transform([[-1.0], [4.0], [1.0]]).ravel().tolist() == [0, 1, 0.5]


@pytest.mark.spec("DLN-78")
def test_a_constant_column_becomes_the_lower_end():
    step = Rescaler(-1, 1).fit([[7.0], [7.0]])
    assert step.transform([[7.0]]).tolist() == [[-1]] and step.inverse_transform([[-1.0]]).tolist() == [[7]]
    assert step.transform([[8.0]]).tolist() == MinMaxScaler((-1, 1)).fit([[7.0], [7.0]]).transform([[8.0]]).tolist()


@pytest.mark.spec("DLN-78")
@pytest.mark.parametrize(("low", "high"), [(1, 1), (2, 1), (0, np.inf), (np.nan, 1)])
def test_ends_in_the_wrong_order_are_refused(low, high):
    with pytest.raises(UserValueError, match="low must be below high"):
        Rescaler(low, high)


@pytest.mark.spec("DLN-78")
def test_extremes_of_chunks_and_processes():
    whole = Rescaler().fit(DATA).state()
    parts = [Rescaler().fit(DATA[s]) for s in (slice(0, 50), slice(50, 120), slice(120, 200))]
    given = np.stack([parts[2].state()[name] for name in ("minimum", "maximum")])[None]
    joined = Rescaler().merge(parts[0]).merge(parts[1]).over(Gathered(given))
    fed = Rescaler().partial_fit(DATA[:50]).partial_fit(DATA[50:])
    for other in (joined, fed):
        for name, value in whole.items():
            np.testing.assert_array_equal(other.state()[name], value)
    light = Rescaler().fit(DATA, np.arange(200) < 50).state()
    np.testing.assert_array_equal(light["maximum"], DATA[:50].max(0))


# --- what all steps on numbers share --------------------------------------------------------------------------------

STEPS = [pytest.param(make, id=make.__name__) for make in (Standardizer, Rescaler)]


@pytest.mark.spec("DLN-76", "DLN-78", "PRA-059")
@pytest.mark.parametrize("make", [*STEPS, pytest.param(Indicators, id="Indicators")])
def test_a_step_is_saved_as_arrays_and_loaded_to_the_bit(make, tmp_path):
    X = np.stack([DATA[:, 0].round(1), DATA[:, 2].round(-1)], 1)
    step, other = make().fit(X), make()
    (tmp_path / "a").write_bytes(pack(step.state(), {}))
    other.load(unpack(tmp_path / "a")[0])
    np.testing.assert_array_equal(other.transform(X), step.transform(X))
    np.testing.assert_array_equal(other.inverse_transform(step.transform(X)), step.inverse_transform(step.transform(X)))
    other.merge(make().fit(X))  # and goes on
    np.testing.assert_allclose(other.transform(X), step.transform(X), atol=1e-12)


@pytest.mark.parametrize("make", STEPS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_dtype_is_kept_the_input_is_left_alone(make, dtype):
    X = DATA.astype(dtype)
    X.flags.writeable = False
    step = make().fit(X)
    assert step.transform(X).dtype == dtype and step.n_outputs == 5
    np.testing.assert_array_equal(X, DATA.astype(dtype))
    frame = pd.DataFrame(DATA)
    np.testing.assert_array_equal(make().fit(frame).transform(frame), make().fit(DATA).transform(DATA))


def test_single_precision_is_computed_in_double():
    X = (1e6 + RANDOM.random((100, 1))).astype(np.float32)
    exact = (X.astype(float) - X.min()) / (float(X.max()) - float(X.min()))
    np.testing.assert_allclose(Rescaler().fit(X).transform(X), exact, rtol=1e-7)


def test_blocks_are_seamless(monkeypatch):
    monkeypatch.setattr("gnomon.data.steps._CELLS", 35)
    step = Standardizer().fit(DATA, WEIGHT)
    blocks = step.transform(DATA)
    monkeypatch.undo()
    np.testing.assert_allclose(blocks, Standardizer().fit(DATA, WEIGHT).transform(DATA), atol=1e-7)


@pytest.mark.parametrize("make", [Standardizer, Rescaler])
def test_missing_values_are_passed_over_and_stay(make):
    X = DATA.copy()
    X[3, 1] = X[9, 2] = np.nan
    step = make().fit(X)
    z = step.transform(X)
    assert np.argwhere(np.isnan(z)).tolist() == [[3, 1], [9, 2]]
    alone = make().fit(np.delete(X[:, [1]], 3, axis=0))
    np.testing.assert_allclose(z[5:, 1], alone.transform(X[5:, [1]])[:, 0], atol=1e-9)
    halves = make().fit(X[:5]).merge(make().fit(X[5:]))
    np.testing.assert_allclose(halves.transform(X), z, atol=1e-7)


@pytest.mark.parametrize("make", [Standardizer, Rescaler])
def test_a_column_without_any_value_is_told_only_when_it_matters(make):
    X = DATA.copy()
    X[:100, 2] = np.nan
    step = make().partial_fit(X[:100])
    with pytest.raises(UserValueError, match=r"no training row has a value \(column 2\)"):
        step.transform(X)
    for whole in (make().partial_fit(X[:100]).partial_fit(X[100:]), make().merge(step).merge(make().fit(X[100:]))):
        np.testing.assert_allclose(whole.transform(X), make().fit(X).transform(X), atol=1e-7)


@pytest.mark.parametrize("make", STEPS)
def test_mistakes_are_told(make):
    with pytest.raises(UserValueError, match=f"the {make.__name__} was not fitted"):
        make().transform(DATA)
    step = make().fit(DATA)
    with pytest.raises(UserValueError, match="X must have 5 columns, got 3"):
        step.transform(DATA[:, :3])
    with pytest.raises(UserValueError, match="X must have 5 columns, got 3"):
        step.partial_fit(DATA[:, :3])
    bad = DATA.copy()
    bad[4, 2] = np.inf
    with pytest.raises(UserValueError, match="row 4, column 2"):
        make().fit(bad)
    with pytest.raises(UserValueError, match="too large"):
        make().fit(1e150 * DATA)


@pytest.mark.parametrize("make", [Standardizer, Rescaler, Indicators])
def test_steps_of_other_columns_do_not_merge(make):
    with pytest.raises(UserValueError, match=r"the same columns, got 3 and 2|X must have 3 columns, got 2"):
        make().fit(np.eye(3)).merge(make().fit(np.eye(2)))


def test_a_process_without_rows_adds_nothing():
    empty = Standardizer().partial_fit(DATA[:0])
    given = np.stack([Standardizer().fit(DATA).state()[name] for name in ("count", "mean", "variance")])[None]
    np.testing.assert_allclose(empty.over(Gathered(given)).transform(DATA), Standardizer().fit(DATA).transform(DATA))


# --- indicators -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("DLN-77")
def test_a_b_c_are_unit_vectors():
    step = Indicators().fit([["A"], ["B"], ["C"]])
    assert step.transform([["A"], ["B"], ["C"]]).tolist() == np.eye(3).tolist()
    assert step.transform([["C"]]).dtype == np.float32 and step.n_outputs == 3


CODED = np.stack([RANDOM.integers(-2, 3, 60), RANDOM.choice([0.5, 7.0, np.nan], 60), RANDOM.integers(0, 2, 60)], 1)


@pytest.mark.spec("DLN-77")
def test_scikit_learns_encoder_and_back():
    step, theirs = Indicators().fit(CODED), OneHotEncoder(sparse_output=False).fit(CODED)
    found = step.transform(CODED)
    np.testing.assert_array_equal(found, theirs.transform(CODED))
    np.testing.assert_array_equal(found.sum(1), 3)
    np.testing.assert_array_equal(step.inverse_transform(found), CODED)
    assert found.dtype == np.float64
    for known, other in zip(step.categories, theirs.categories_, strict=True):
        np.testing.assert_array_equal(known, other)


@pytest.mark.spec("DLN-77")
def test_mixed_columns_of_text_and_numbers():
    X = pd.DataFrame({"word": WORDS, "n": [3, 1, None, 1, 3]})
    step = Indicators().fit(X)
    found = step.transform(X)
    np.testing.assert_array_equal(found, OneHotEncoder(sparse_output=False).fit_transform(X))
    back = step.inverse_transform(found)
    assert back[:, 0].tolist() == WORDS.tolist() and np.isnan(back[2, 1]) and back[0, 1] == 3


@pytest.mark.spec("DLN-77")
def test_a_category_of_no_training_row():
    step = Indicators().fit([["A"], ["B"]])
    with pytest.raises(UserValueError, match=r"category 'Z' was in no training row \(row 1, column 0\)"):
        step.transform([["A"], ["Z"]])
    for unseen in (["Z"], ["0"]):  # behind and before all others
        zeros = Indicators("zeros").fit([["A"], ["B"]])
        assert zeros.transform([["A"], unseen]).tolist() == [[1, 0], [0, 0]]
        assert zeros.inverse_transform(zeros.transform([["A"], unseen])).tolist() == [["A"], [None]]
    numbers = Indicators("zeros").fit([[1.0], [2.0]])
    assert numbers.transform([[1.5], [np.nan], [2.0]]).tolist() == [[0, 0], [0, 0], [0, 1]]
    assert np.isnan(numbers.inverse_transform([[0, 0]])).all()


@pytest.mark.spec("DLN-77")
def test_categories_of_chunks_and_processes(tmp_path):
    rows = np.stack([WORDS, ["x", "y", "x", "z", "x"]], 1)
    whole = Indicators().fit(rows)
    merged = Indicators().fit(rows[:2]).merge(Indicators().fit(rows[2:]))
    fed = Indicators().partial_fit(rows[:1]).partial_fit(rows[1:])
    second = Indicators().fit(rows[2:]).state()
    over = Indicators().fit(rows[:2]).over(Gathered(second["text/0"], second["text/1"]))
    (tmp_path / "a").write_bytes(pack(whole.state(), {}))
    loaded = Indicators()
    loaded.load(unpack(tmp_path / "a")[0])
    for other in (merged, fed, over, loaded):
        np.testing.assert_array_equal(other.transform(rows), whole.transform(rows))
    numbers = Indicators().fit([[1.0], [np.nan]]).over(Gathered(np.array([0.0, 1.0, np.nan])))
    np.testing.assert_array_equal(numbers.categories[0], [0, 1, np.nan])
    assert Indicators().fit(rows, [0, 1, 1, 0, 0]).categories[0].tolist() == ["B", "C"]


@pytest.mark.spec("DLN-77")
@pytest.mark.parametrize(
    ("X", "words"),
    [
        ([["A"], [None]], r"a text is missing \(row 1, column 0\)"),
        (np.array([["A"], [np.nan]], object), r"a text is missing \(row 1, column 0\)"),
        (np.array([["A"], [3]], object), r"'A' is text beside numbers \(row 0, column 0\)"),
        (np.array([[1, "A"], [3, ("B",)]], object), r"'A' is text beside numbers|is a tuple"),
        (["A", "B"], "Expected 2D array"),
        (scipy.sparse.eye(2).tocsr(), "Sparse data was passed"),
        (np.array([["A\0B"]], object), r"NUL character \(row 0, column 0\)"),
    ],
)
def test_cells_that_are_no_categories_are_refused(X, words):
    with pytest.raises(UserError, match=words):
        Indicators().fit(X)


def test_text_where_numbers_were_fitted_is_refused():
    with pytest.raises(UserTypeError, match=r"must hold numbers, as in the fit, got text \(column 0\)"):
        Indicators().fit([[1.0]]).transform([["A"]])
    with pytest.raises(UserValueError, match=r"X must have shape \(n, 1\), got \(1, 2\)"):
        Indicators().fit([[1.0]]).inverse_transform([[1, 0]])
    with pytest.raises(UserValueError, match="unseen"):
        Indicators("ignore")
    with pytest.raises(UserTypeError, match="no density"):
        Indicators().log_jacobian()


def test_steps_are_names_of_the_room():
    import gnomon.data as room

    assert (room.Standardizer, room.Rescaler, room.Indicators) == (Standardizer, Rescaler, Indicators)
    assert {"Standardizer", "Rescaler", "Indicators"} <= set(dir(room))
