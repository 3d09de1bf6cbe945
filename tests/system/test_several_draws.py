"""Several draws of missing cells, and their joint distribution: calibration, marginals, slices of a table, refusals."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chisquare, ks_2samp

import gnomon
from gnomon.cli.main import run
from gnomon.distributions.table import Table
from gnomon.errors import UserValueError
from gnomon.tasks.generative import generative

BITS = np.array(list(itertools.product([0.0, 1.0], repeat=4)))


def bits(n=300):
    """Rows of four bits that depend on each other."""
    random = np.random.default_rng(0)
    X = (random.random((n, 4)) < 0.4).astype(float)
    X[:, 1] = np.where(random.random(n) < 0.8, X[:, 0], X[:, 1])
    X[:, 3] = np.where(random.random(n) < 0.7, (X[:, 1] + X[:, 2]) % 2, X[:, 3])
    return X


def reals(n=300):
    random = np.random.default_rng(1)
    near = random.normal(size=(n, 3)) @ np.triu(np.ones((3, 3)))
    return near + 4 * (random.random(n) < 0.4)[:, None] * [1.0, -1.0, 0.5]


def mixture():
    return gnomon.GaussianMixture(n_components=2, random_state=0).fit(reals())


def table():
    return gnomon.make("fvbn", conditionals="tables", random_state=0).fit(bits())


def machine():
    return gnomon.RBM(n_hidden=4, epochs=40, learning_rate=0.2, batch_size=50, dtype="float64", random_state=0).fit(
        bits()
    )


SYSTEMS = {"mixture": (mixture, {}), "table": (table, {}), "machine": (machine, {"steps": 20})}


@pytest.mark.spec("REP-122")
@pytest.mark.parametrize("name", SYSTEMS)
def test_several_draws_are_calibrated(name):
    """Ranks of what was hidden among 9 draws are uniform, ties broken by chance: chi square, false alarm 1e-4 each."""
    make, chain = SYSTEMS[name]
    system, random = make(), np.random.default_rng(0)
    n = 300 if chain else 1500
    if chain:
        whole = BITS[random.choice(16, n, p=np.exp(system.log_prob(BITS)))]
    else:
        whole = system.sample(n, random_state=5)
    gaps = np.where(random.random((n, 1)) < 0.5, whole[:, :1] > 0.5, random.random(whole.shape) < 0.5)  # at random
    gaps[:, 0] = False
    gaps[:, -1] = True
    drawn = system.impute(np.where(gaps, np.nan, whole), n_draws=9, random_state=6, **chain)
    assert drawn.shape == (9, *whole.shape)
    np.testing.assert_array_equal(np.broadcast_to(whole, drawn.shape)[:, ~gaps], drawn[:, ~gaps])
    weight = 2.0 ** np.arange(whole.shape[1])  # one number of the missing cells, in which all of them count
    truth, others = (gaps * whole) @ weight, (gaps * drawn) @ weight
    rank = (others < truth).sum(0) + random.integers(0, (others == truth).sum(0) + 1)
    assert chisquare(np.bincount(rank, minlength=10)).pvalue > 1e-4


@pytest.mark.spec("REP-122")
def test_too_narrow_draws_would_be_found():
    """The test above sees draws of two thirds of their deviation."""
    system = mixture()
    whole = system.sample(1500, random_state=5)
    gaps = np.zeros(whole.shape, bool)
    gaps[:, 2] = True
    mean = system.impute(whole, gaps)
    drawn = mean + 2 / 3 * (system.impute(whole, gaps, n_draws=9, random_state=6) - mean)
    rank = (drawn[:, :, 2] < whole[:, 2]).sum(0)
    assert chisquare(np.bincount(rank, minlength=10)).pvalue < 1e-6


@pytest.mark.spec("REP-122")
def test_rows_without_a_known_cell_have_the_marginal():
    """Moments and tables to 1e-9, draws by two-sample tests (false alarm 1e-4 each)."""
    nothing = np.full((1, 3), np.nan)
    system = mixture()
    found = system.conditional_distribution(nothing)
    mean = system.weights_ @ system.means_
    away = system.means_ - mean
    np.testing.assert_allclose(found.mean[0], mean, rtol=1e-9)
    spread = np.einsum("k,kij->ij", system.weights_, system.covariances_ + away[:, :, None] * away[:, None])
    np.testing.assert_allclose(found.covariance[0], spread, rtol=1e-9)
    drawn, own = system.impute(nothing, n_draws=3000, random_state=0)[:, 0], system.sample(3000, random_state=1)
    for direction in np.vstack([np.eye(3), np.ones(3)]):
        assert ks_2samp(drawn @ direction, own @ direction).pvalue > 1e-4
    for one in (table(), machine()):
        found = one.conditional_distribution(np.full((1, 4), np.nan))
        np.testing.assert_allclose(found[0].probabilities.ravel(), np.exp(one.log_prob(BITS)), atol=1e-9)


@pytest.mark.spec("REP-122")
def test_a_table_is_sliced():
    system = table()
    joint = Table(np.exp(system.log_prob(BITS)).reshape(2, 2, 2, 2))
    found = system.conditional_distribution([[np.nan, 1, np.nan, 0], [1, 1, np.nan, np.nan]])
    np.testing.assert_allclose(
        found[0].probabilities, joint.conditional("x0", "x2", x1=1, x3=0).probabilities, atol=1e-12
    )
    np.testing.assert_allclose(
        found[1].probabilities, joint.conditional("x2", "x3", x0=1, x1=1).probabilities, atol=1e-12
    )


@pytest.mark.spec("REP-122")
def test_draws_of_a_row_do_not_depend_on_the_rows_beside_it():
    for system, X in ((mixture(), reals(5)), (machine(), bits(5))):
        X = X.copy()
        X[:, 1] = X[3, 2] = np.nan
        many = system.impute(X, n_draws=4, random_state=0)
        np.testing.assert_array_equal(many[:, :3], system.impute(X[:3], n_draws=4, random_state=0))
        assert len(np.unique(many[:, 3, 1:3], axis=0)) > 1
        once = system.impute(X, n_draws=1, random_state=0)
        np.testing.assert_array_equal(once[0], system.impute(X, how="sample", random_state=0))


def test_more_states_than_a_table_holds_are_drawn():
    X = np.random.default_rng(0).random((40, 30)) < 0.3
    system = gnomon.RBM(n_hidden=30, epochs=1, random_state=0).fit(X.astype(float))
    gaps = X[:2].astype(float)
    gaps[0, :14], gaps[1, 3] = np.nan, np.nan
    found = system.conditional_distribution(gaps, n_draws=20, random_state=0)
    assert found[0].shape == (20, 14) and found.kind.tolist() == ["estimate", "exact"]
    assert found.note == "20 draws, enumeration" and found[1].probabilities.shape == (2,)


def test_wrong_questions_are_refused():
    system, row = mixture(), [[0.0, np.nan, 1.0]]
    with pytest.raises(UserValueError, match="n_draws must be at least 1, got 0"):
        system.impute(row, n_draws=0)
    with pytest.raises(UserValueError, match="how must be mean or sample where n_draws are asked for, got 'deviation'"):
        system.impute(row, how="deviation", n_draws=2)
    with pytest.raises(UserValueError, match="n_draws must be at least 2, got 1"):
        system.conditional_distribution(row, n_draws=1)
    with pytest.raises(UserValueError, match="nothing is missing in row 0"):
        system.conditional_distribution([[0.0, 1.0, 2.0]])[0]
    stated = generative(system).impute(row, n_draws=3, random_state=0)
    assert stated.values.shape == (3, 1, 3) and str(stated).startswith("missing cells, 3 draws of 1 row: exact")
    assert generative(system).conditional(row).kind.tolist() == ["exact"]


@pytest.mark.spec("REP-122")
def test_the_command_line_says_the_same(tmp_path, capsys):
    """Draws one after the other, covariances by pairs, and states with their probabilities."""
    for name, X, options in (("gaussian-mixture", reals(), ["--n-components", "2"]), ("bernoulli-mixture", bits(), [])):
        folder, columns = tmp_path / name, list("abcd")[: X.shape[1]]
        pd.DataFrame(X, columns=columns).to_csv(tmp_path / "t.csv", index=False)
        gaps = X[:3].copy()
        gaps[0, 1:3] = gaps[2, 1] = np.nan
        pd.DataFrame(gaps, columns=columns).assign(id=list("uvw")).to_csv(tmp_path / "g.csv", index=False)
        assert run(["fit", name, str(tmp_path / "t.csv"), *options, "--out", str(folder)]) == 0
        system, asked = gnomon.load(folder), ["impute", str(folder), str(tmp_path / "g.csv"), "--keep", "id"]
        out = tmp_path / f"{name}.csv"
        assert run([*asked, "--n-draws", "4", "--seed", "3", "--out", str(out)]) == 0
        found = pd.read_csv(out)
        assert list(found) == ["id", "draw", *columns] and found["id"].tolist() == list("uvw") * 4
        drawn = system.impute(gaps, n_draws=4, random_state=3)
        np.testing.assert_allclose(found[columns].to_numpy().reshape(drawn.shape), drawn)
        capsys.readouterr()
        assert run([*asked, "--how", "covariance"]) == 0
        head, first, second, _ = capsys.readouterr().out.splitlines()
        assert head == "id,cov(b:b),cov(b:c),cov(c:c)" and second == "v,0.0,0.0,0.0"
        pd.DataFrame(X[:2], columns=columns).to_csv(tmp_path / "w.csv", index=False)
        whole = ["impute", str(folder), str(tmp_path / "w.csv"), "--how", "covariance"]
        assert run([*whole, "--out", str(tmp_path / "w.npy")]) == 2
        assert "no cell is missing that could have a covariance" in capsys.readouterr().err
        covariance = system.conditional_distribution(gaps).covariance[0]
        np.testing.assert_allclose([float(x) for x in first.split(",")[1:]], covariance[[1, 1, 2], [1, 2, 2]])
        code = run([*asked, "--how", "table"])
        said = capsys.readouterr()
        if name == "gaussian-mixture":
            assert code == 2 and "row 1 have no table of states" in said.err
            assert run([*asked, "--how", "table", "--steps", "3"]) == 2
            assert "--how table takes no --steps" in capsys.readouterr().err
            continue
        lines = [line.split(",") for line in said.out.splitlines()]
        assert lines[0] == ["id", "row", *columns, "probability"]
        assert [line[1] for line in lines[1:]] == ["1"] * 4 + ["2"] + ["3"] * 2
        p = system.conditional_distribution(gaps)[0].probabilities.ravel()
        np.testing.assert_allclose([float(line[-1]) for line in lines[1:5]], p)
        assert [line[3:5] for line in lines[1:5]] == [["0.0", "0.0"], ["0.0", "1.0"], ["1.0", "0.0"], ["1.0", "1.0"]]
