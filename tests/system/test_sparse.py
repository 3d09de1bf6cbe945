"""Sparse tables: the numbers of dense ones in memory of what is not 0."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

import gnomon
from gnomon.errors import UserError, UserTypeError, UserValueError

RANDOM = np.random.default_rng(0)
BINARY = (RANDOM.random((80, 12)) < 0.25).astype(float)
REAL = np.where(RANDOM.random((80, 6)) < 0.3, RANDOM.normal(3, 2, size=(80, 6)), 0.0)
Y = (REAL[:, 0] + RANDOM.normal(size=80) > 0.5).astype(int) + (REAL[:, 1] > 3)
FORMS = [sparse.csr_array, sparse.csc_array, sparse.coo_array, sparse.csr_matrix, sparse.lil_array]


@pytest.mark.parametrize("form", FORMS, ids=lambda one: one.__name__)
def test_a_mixture_of_bernoullis_has_the_numbers_of_dense_rows(form):
    options = {"n_components": 3, "random_state": 0, "max_iter": 20, "tol": 0.0}
    dense = gnomon.BernoulliMixture(**options).fit(BINARY)
    table = form(BINARY)
    before = table.toarray()
    found = gnomon.BernoulliMixture(**options).fit(table)
    for name in ("weights_", "means_"):
        np.testing.assert_allclose(getattr(found, name), getattr(dense, name), rtol=1e-10)
    np.testing.assert_allclose(found.history_["objective"], dense.history_["objective"], rtol=1e-10)
    np.testing.assert_allclose(found.log_prob(table), dense.log_prob(BINARY), rtol=1e-10)
    np.testing.assert_allclose(found.predict_proba(table), found.predict_proba(BINARY), rtol=1e-10)
    assert found.score(table) == pytest.approx(dense.score(BINARY), rel=1e-10)
    assert found.labels_.tolist() == dense.labels_.tolist()
    np.testing.assert_array_equal(table.toarray(), before)


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("y", [Y > 0, Y], ids=["two", "three"])
def test_logistic_regression_has_the_numbers_of_dense_rows(standardize, y):
    """The same optimum, reached to 1e-10 by Newton's steps; rows with weights too."""
    weight = RANDOM.random(80) + (np.arange(80) % 7 > 0) - 0.5
    weight = np.maximum(weight, 0)
    options = {"standardize": standardize, "l2": 0.01, "tol": 0.0, "method": "newton"}
    for given in (None, weight):
        dense = gnomon.LogisticRegression(**options).fit(REAL, y, sample_weight=given)
        found = gnomon.LogisticRegression(**options).fit(sparse.csr_array(REAL), y, sample_weight=given)
        table = sparse.csc_array(REAL)
        np.testing.assert_allclose(found.coef_, dense.coef_, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(found.predict_proba(table), dense.predict_proba(REAL), rtol=1e-8, atol=1e-10)
        assert found.evaluate(table, y)["log_likelihood"].value == pytest.approx(
            dense.evaluate(REAL, y)["log_likelihood"].value, rel=1e-10
        )
    assert found.predict(table).tolist() == dense.predict(REAL).tolist()


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("d", [2, 1])
def test_linear_regression_has_the_numbers_of_dense_rows(standardize, d, monkeypatch):
    """In blocks of rows, with weights, of one target and of two; a stream of chunks too."""
    monkeypatch.setattr("gnomon.systems.linear._least_squares.SPARSE_ROWS", 10)
    y = REAL[:, :2] @ [[1.0, 2.0], [0.5, -1.0]] + RANDOM.normal(size=(80, 2))
    y, weight, table = (y if d == 2 else y[:, 0]), RANDOM.random(80), sparse.csr_array(REAL)
    dense = gnomon.LinearRegression(standardize=standardize, l2=0.01).fit(REAL, y, sample_weight=weight)
    found = gnomon.LinearRegression(standardize=standardize, l2=0.01).fit(table, y, sample_weight=weight)
    np.testing.assert_allclose(found.coef_, dense.coef_, rtol=1e-10)
    np.testing.assert_allclose(found.predict(table), dense.predict(REAL), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.noise_variance_, dense.noise_variance_, rtol=1e-10)
    chunks = gnomon.LinearRegression().partial_fit(table[:40], y[:40]).partial_fit(table[40:], y[40:])
    np.testing.assert_allclose(chunks.coef_, gnomon.LinearRegression().fit(REAL, y).coef_, rtol=1e-9)
    with pytest.raises(UserTypeError, match=r"toarray.*solver=.closed"):
        gnomon.LinearRegression(solver="gradient").fit(table, y)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("options", [{"batch_size": 16}, {"batch_size": 16, "optimizer": "sgd"}, {}], ids=str)
def test_softmax_regression_has_the_numbers_of_dense_rows(options, standardize, dtype):
    """In the same batches, or all rows at once; with weights, penalty, verbs, a stream of chunks."""
    options = options | {"standardize": standardize, "epochs": 20, "l2": 0.01, "random_state": 0, "dtype": dtype}
    weight, table = RANDOM.random(80), sparse.csc_array(REAL)
    close = {"rtol": 1e-8, "atol": 1e-10} if dtype == "float64" else {"rtol": 1e-3, "atol": 1e-4}
    dense = gnomon.SoftmaxRegression(**options).fit(REAL, Y, sample_weight=weight)
    found = gnomon.SoftmaxRegression(**options).fit(table, Y, sample_weight=weight)
    np.testing.assert_allclose(found.coef_, dense.coef_, **close)
    np.testing.assert_allclose(found.intercept_, dense.intercept_, **close)
    np.testing.assert_allclose(found.history_["cross_entropy"], dense.history_["cross_entropy"], **close)
    np.testing.assert_allclose(found.predict_proba(table), dense.predict_proba(REAL), **close)
    np.testing.assert_allclose(found.predict_log_proba(table), found.predict_log_proba(REAL), **close)
    np.testing.assert_allclose(found.decision_function(table), found.decision_function(REAL), **close)
    assert found.decision_function(table).dtype == dtype
    assert found.predict(table).tolist() == found.predict(REAL).tolist()
    assert found.score(table, Y) == found.score(REAL, Y)
    found.partial_fit(table, Y)
    np.testing.assert_allclose(found.coef_, dense.partial_fit(REAL, Y).coef_, **close)
    stream = [gnomon.SoftmaxRegression(**options) for _ in range(2)]
    for start in range(0, 80, 40):
        for system, rows in zip(stream, (REAL, sparse.csr_array(REAL)), strict=True):
            system.partial_fit(rows[start : start + 40], Y[start : start + 40], classes=[0, 1, 2])
    np.testing.assert_allclose(stream[1].coef_, stream[0].coef_, **close)


def test_softmax_regression_says_of_sparse_rows_that_a_plane_separates_them():
    with pytest.warns(UserWarning, match="separates"):
        gnomon.SoftmaxRegression(l2=0.0, epochs=100).fit(sparse.csr_array(np.eye(4)), [0, 0, 1, 1])


@pytest.mark.parametrize("batch_size", [500, None])
def test_softmax_regression_keeps_memory_to_the_entries(batch_size):
    """20,000 rows of 20,000 columns with 3 entries each: 3.2 GB as an array, 80 MB as one batch of 500."""
    n = d = 20_000
    table = sparse.csr_array((np.ones(3 * n), RANDOM.integers(0, d, size=3 * n), np.arange(n + 1) * 3), shape=(n, d))
    y = RANDOM.integers(0, 2, size=n)
    tracemalloc.start()
    fitted = gnomon.SoftmaxRegression(epochs=1, learning_rate=1e-4, batch_size=batch_size, random_state=0).fit(table, y)
    fitted.predict_proba(table)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6, peak


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("objective", "n_hidden"), [("pcd", 3), ("cd", 24), ("exact", 4)])
def test_a_machine_has_the_bits_of_dense_rows(objective, n_hidden, dtype, monkeypatch):
    """The batches are the same, so is the fit, with weights too; the verbs take seven rows at a time."""
    monkeypatch.setattr("gnomon.numeric.sparse.AT_ONCE", 7 * 12)
    options = {"n_hidden": n_hidden, "objective": objective, "epochs": 3, "random_state": 0, "dtype": dtype}
    table, weight = sparse.csc_array(BINARY), RANDOM.random(80)
    dense = gnomon.RBM(**options).fit(BINARY, sample_weight=weight)
    found = gnomon.RBM(**options).fit(table, sample_weight=weight)
    for name in ("weights_", "visible_bias_", "hidden_bias_"):
        np.testing.assert_array_equal(getattr(found, name), getattr(dense, name))
    assert found.history_ == dense.history_
    close = {"rtol": 1e-10 if dtype == "float64" else 1e-4}
    for verb in ("transform", "energy", "free_energy", "reconstruct"):
        np.testing.assert_allclose(getattr(found, verb)(table), getattr(dense, verb)(BINARY), **close)
    np.testing.assert_array_equal(found.gibbs(table, random_state=1), dense.gibbs(BINARY, random_state=1))
    for verb in ("pseudo_log_likelihood", "evaluate"):
        values = [getattr(one, verb)(X) for one, X in ((found, table), (dense, BINARY))]
        got, expected = (one["log_likelihood"] if verb == "evaluate" else one for one in values)
        assert got.value == pytest.approx(expected.value, rel=close["rtol"])
        assert got.data_space == expected.data_space
    with pytest.raises(UserValueError, match=r"must be 0 or 1, got 0.5 \(row 7, column 3\)"):
        found.pseudo_log_likelihood(sparse.coo_array(([0.5], ([7], [3])), shape=(9, 12)))


def test_a_machine_keeps_memory_to_one_batch():
    """20,000 rows of 20,000 columns with 3 entries each: 3.2 GB as an array, 3.2 MB as a batch of 20."""
    n = d = 20_000
    table = sparse.csr_array((np.ones(3 * n), RANDOM.integers(0, d, size=3 * n), np.arange(n + 1) * 3), shape=(n, d))
    table.sum_duplicates()
    table.data[:] = 1
    tracemalloc.start()
    fitted = gnomon.RBM(n_hidden=2, max_updates=20, random_state=0).fit(table)
    fitted.transform(table[:2000])
    fitted.energy(table[:2000])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150e6, peak


def test_entries_that_are_stored_twice_count_once_added():
    twice = sparse.coo_array((np.array([0.5, 0.5, 1.0]), (np.array([0, 0, 1]), np.array([1, 1, 0]))), shape=(4, 2))
    options = {"n_components": 1, "random_state": 0}
    found = gnomon.BernoulliMixture(**options).fit(twice)
    np.testing.assert_array_equal(found.means_, gnomon.BernoulliMixture(**options).fit(twice.toarray()).means_)


def test_memory_is_that_of_the_entries():
    """100,000 rows of 2,000 columns with 4 ones each: 1.6 GB as an array, 5 MB as entries."""
    n, d = 100_000, 2_000
    columns = RANDOM.integers(0, d, size=4 * n)
    table = sparse.csr_array((np.ones(4 * n), columns, np.arange(n + 1) * 4), shape=(n, d))
    table.sum_duplicates()
    table.data[:] = 1
    tracemalloc.start()
    gnomon.BernoulliMixture(n_components=2, max_iter=2, random_state=0).fit(table)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6, peak


def test_a_saved_fit_and_bad_entries(tmp_path):
    table = sparse.csr_array(BINARY)
    fitted = gnomon.BernoulliMixture(n_components=2, random_state=0).fit(table, run=tmp_path / "run")
    np.testing.assert_array_equal(gnomon.load(tmp_path / "run").predict(table), fitted.labels_)
    bad = BINARY.copy()
    bad[7, 3] = 5.0
    with pytest.raises(UserValueError, match=r"must be 0 or 1, got 5.0 \(row 7, column 3\)"):
        gnomon.BernoulliMixture().fit(sparse.csr_array(bad))
    with pytest.raises(UserError, match="12"):
        fitted.predict(sparse.csr_array(BINARY[:, :5]))
    with pytest.raises(UserError, match="0 sample"):
        gnomon.BernoulliMixture().fit(sparse.csr_array((0, 3)))


@pytest.mark.parametrize("name", ["KMeans", "PPCA", "MLP", "GaussianMixture", "RandomForest", "VAE", "SVM"])
def test_other_systems_refuse_a_sparse_table_in_one_line(name):
    with pytest.raises(UserTypeError, match=r"use '.toarray\(\)' to convert") as refusal:
        getattr(gnomon, name)().fit(sparse.csr_array(REAL), Y)
    assert "\n" not in str(refusal.value)


def test_a_sparse_table_whose_indices_lie_outside_is_refused():
    """It ended in an IndexError, or in numbers of other memory."""
    table = sparse.csr_matrix(REAL)
    table.indices[0] = 99
    for system in (
        gnomon.RBM(),
        gnomon.SoftmaxRegression(),
        gnomon.LogisticRegression(),
        gnomon.LinearRegression(),
        gnomon.BernoulliMixture(),
    ):
        with pytest.raises(UserValueError, match="X is a sparse table whose indices lie outside"):
            system.fit(table, Y)
