"""Rankings by surprise against scikit-learn's curves, with ties, signs and what complexity alone does."""

import json

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score

import gnomon
from gnomon.cli.main import run as command
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.anomaly_ranking import complexity, rank_anomalies


def planted(n=200, odd=20, seed=0):
    random = np.random.default_rng(seed)
    X = np.concatenate([random.normal(size=(n, 3)), 2.5 * random.normal(size=(odd, 3))])
    return X, np.r_[np.zeros(n, int), np.ones(odd, int)]


@pytest.mark.spec("GEN-140")
@pytest.mark.parametrize("levels", [None, 4])
def test_curves_and_areas_are_scikit_learns(levels):
    """Also where scores tie in four levels; a low likelihood is an anomaly."""
    X, y = planted()
    log_p = -0.5 * (X**2).sum(1)
    if levels:
        log_p = np.round(log_p / 3).clip(-levels, 0)
    found = rank_anomalies(log_p, X, y)
    assert found.average_precision.value == pytest.approx(average_precision_score(y, -log_p), rel=1e-12)
    assert found.roc_auc.value == pytest.approx(roc_auc_score(y, -log_p), rel=1e-12)
    assert found.roc_auc.value > 0.7
    precision, recall, thresholds = precision_recall_curve(y, -log_p)
    np.testing.assert_allclose(found.curve.precision, precision[:-1][::-1], rtol=1e-12)
    np.testing.assert_allclose(found.curve.recall, recall[:-1][::-1], rtol=1e-12)
    np.testing.assert_allclose(found.curve.threshold, thresholds[::-1], rtol=1e-12)


@pytest.mark.spec("GEN-140")
def test_precision_and_recall_at_k_with_ties_are_those_of_a_random_order():
    """Mean over all orders of the tied rows, by 2,000 shuffles: within 4.5 standard errors."""
    scores, y = np.array([-5.0, -3, -3, -3, -3, -1, -1, 0]), np.array([1, 1, 0, 0, 1, 0, 1, 0])
    found, random = rank_anomalies(scores, np.zeros((8, 1)), y, k=[1, 3, 8]), np.random.default_rng(0)
    hits = []
    for _ in range(2000):
        order = np.lexsort((random.random(8), scores))
        hits.append([y[order[:k]].sum() for k in (1, 3, 8)])
    mean, error = np.mean(hits, axis=0), np.std(hits, axis=0) / np.sqrt(2000)
    for j, k in enumerate((1, 3, 8)):
        precision, recall = found.at[k]
        assert abs(precision * k - mean[j]) <= 4.5 * error[j] + 1e-12
        assert recall == pytest.approx(precision * k / 4)
    assert found.at[1] == (1.0, 0.25) and found.at[8] == (0.5, 1.0)


@pytest.mark.spec("GEN-140")
def test_scores_of_different_kinds_rank_alike():
    """Exact log probabilities, and the energy alone, without log Z: the same ranking of the same machine."""
    random = np.random.default_rng(0)
    bits = (random.random((200, 8)) < 0.2).astype(float)
    odd = (random.random((30, 8)) < 0.5).astype(float)
    X, y = np.concatenate([bits, odd]), np.r_[np.zeros(200), np.ones(30)]
    rbm = gnomon.RBM(n_hidden=3, epochs=20, random_state=0).fit(bits)

    class EnergyAlone:
        energy = staticmethod(rbm.energy)

    exact, energy = rank_anomalies(rbm, X, y), rank_anomalies(EnergyAlone(), X, y)
    assert exact.average_precision.value == pytest.approx(energy.average_precision.value, abs=1e-3)
    assert exact.roc_auc.value == pytest.approx(roc_auc_score(y, rbm.anomaly_score(X)), rel=1e-12)
    large = gnomon.RBM(n_hidden=25, epochs=2, random_state=0).fit(np.tile(bits, 3))  # log Z by annealing, no log_prob
    wide = np.tile(X, 3)
    found = rank_anomalies(large, wide, y)
    assert found.roc_auc.value == pytest.approx(roc_auc_score(y, large.energy(wide)), rel=1e-6)


@pytest.mark.spec("GEN-140")
def test_a_ranking_by_complexity_alone_is_told():
    """Surprise that grows with the noise of a row says so; odd rows that are simple then come last."""
    random = np.random.default_rng(0)
    amount = np.r_[np.linspace(1, 200, 200).astype(int), np.zeros(20, int)]
    X = np.array([np.r_[random.random(n), np.zeros(200 - n)] for n in amount])
    y = np.r_[np.zeros(200), np.ones(20)]
    found = rank_anomalies(-amount.astype(float), X, y)
    assert found.confounded and found.correlation > 0.95 and "goes with complexity" in str(found)
    assert found.by_complexity.value < 0.05 and found.roc_auc.value < 0.05
    other = rank_anomalies(random.normal(size=220), X, y)
    assert not other.confounded and abs(other.correlation) < 5 / np.sqrt(220)
    sizes = complexity(X)
    assert sizes[199] > sizes[100] > sizes[0]
    assert np.isnan(rank_anomalies(np.zeros(220), X, y).correlation)


@pytest.mark.spec("GEN-140")
def test_infinite_surprise_is_the_oddest_and_wrong_input_is_refused():
    X, y = np.zeros((4, 2)), [1, 0, 0, 0]
    assert rank_anomalies(np.array([-np.inf, -1, -2, 0]), X, y, k=[1]).at == {1: (1.0, 1.0)}
    with pytest.raises(UserValueError, match="NaN"):
        rank_anomalies(np.array([np.nan, 0, 0, 0]), X, y)
    with pytest.raises(UserValueError, match="anomalous rows and ordinary ones"):
        rank_anomalies(np.zeros(4), X, [0, 0, 0, 0])
    with pytest.raises(UserValueError, match="one label for each of 4"):
        rank_anomalies(np.zeros(4), X, [0, 1])
    with pytest.raises(UserValueError, match="k must be"):
        rank_anomalies(np.zeros(4), X, y, k=[0])
    with pytest.raises(UserTypeError, match="a density or an energy"):
        rank_anomalies(object(), X, y)
    regression = gnomon.make("bayesian-regression").fit(np.eye(4), np.arange(4.0))  # a density of y, not of rows
    with pytest.raises(UserTypeError, match="a density or an energy"):
        rank_anomalies(regression, np.eye(4), y)


def test_sparse_rows_are_ranked_as_full_ones():
    from scipy.sparse import csr_matrix

    X = (np.random.default_rng(0).random((30, 6)) < 0.3).astype(float)
    rbm, y = gnomon.RBM(n_hidden=2, epochs=1, random_state=0).fit(X), np.arange(30) < 5
    full, sparse = rank_anomalies(rbm, X, y), rank_anomalies(rbm, csr_matrix(X), y)
    assert sparse.by_complexity.value == full.by_complexity.value
    assert sparse.roc_auc.value == pytest.approx(full.roc_auc.value)


@pytest.mark.spec("GEN-140")
def test_from_the_command_line(tmp_path, capsys):
    X, y = planted()
    names = np.array(["fine", "broken"])[y]
    lines = ["a,b,c,kind"] + [f"{','.join(f'{v:.6f}' for v in row)},{name}" for row, name in zip(X, names, strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    data, out = str(tmp_path / "rows.csv"), str(tmp_path / "run")
    assert (
        command(["fit", "gaussian-rbm", data, "--target", "kind", "--n-hidden", "2", "--epochs", "5", "--out", out])
        == 0
    )
    capsys.readouterr()
    assert command(["evaluate", out, data, "--anomalous", "broken", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    machine = gnomon.load(out)
    rows = np.array([[float(v) for v in line.split(",")[:3]] for line in lines[1:]])
    expected = roc_auc_score(y, machine.anomaly_score(rows))
    assert scores["anomaly_roc_auc"]["value"] == pytest.approx(expected, rel=1e-9)
    assert {"anomaly_precision@10", "anomaly_recall@10", "complexity_roc_auc"} <= set(scores)
    assert command(["evaluate", out, data, "--anomalous", "brokn"]) == 2
    assert "choose from broken" in capsys.readouterr().err
