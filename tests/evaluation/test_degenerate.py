"""Constant and repeated columns: closed forms of what they add, verdicts, notes of scores."""

import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

import gnomon
from gnomon.errors import UserValueError
from gnomon.evaluation import check_degenerate, column_densities
from gnomon.evaluation.degenerate import floor_of, log_density_of

random = np.random.default_rng(0)
ROWS = random.normal(size=(200, 3))


def with_constant(value=7.0):
    return np.column_stack([ROWS[:, 0], np.full(len(ROWS), value), ROWS[:, 1]])


@pytest.mark.spec("GEN-146")
@pytest.mark.parametrize("sigma", [1.0, 1e-1, 1e-3, 1e-6])
def test_what_a_constant_column_adds_grows_without_limit(sigma):
    """-log sigma - log(2 pi) / 2, 5.988817 for 1e-3, whatever the other columns are."""
    X = with_constant()

    def density(rows):
        return norm(7.0, sigma).logpdf(rows[:, 1]) + norm.logpdf(rows[:, 0]) + 12.0  # a constant plays no part

    found = column_densities(density, X[:3], columns=[1])
    assert found == pytest.approx(-math.log(sigma) - 0.5 * math.log(2 * math.pi), abs=2e-3)
    if sigma == 1e-3:
        assert found.mean() == pytest.approx(5.988817, abs=2e-3)
    assert floor_of(float(found.mean())) == pytest.approx(sigma, rel=2e-3)


@pytest.mark.spec("GEN-146")
def test_contributions_are_conditional_densities():
    """Of a normal density the conditional one of each column is known; of independent columns they add up."""
    C = np.array([[2.0, 0.9, 0.2], [0.9, 1.0, -0.3], [0.2, -0.3, 0.5]])
    joint = multivariate_normal(np.zeros(3), C)
    X = joint.rvs(5, random_state=0)
    P = np.linalg.inv(C)
    expected = np.stack(
        [norm(-(X @ P[:, j] - P[j, j] * X[:, j]) / P[j, j], P[j, j] ** -0.5).logpdf(X[:, j]) for j in range(3)], axis=1
    )
    assert column_densities(joint.logpdf, X) == pytest.approx(expected, abs=2e-3)
    alone = multivariate_normal(np.zeros(3), np.diag([1.0, 4.0, 0.01]))
    rows = alone.rvs(20, random_state=0)
    found = column_densities(alone.logpdf, rows[:2], among=rows)
    assert found.sum(1) == pytest.approx(alone.logpdf(rows[:2]), abs=5e-3)


@pytest.mark.spec("GEN-146")
def test_constant_repeated_and_mixed_columns_are_found():
    mixed = np.where(random.random(200) < 0.4, 0.0, ROWS[:, 2])
    nearly = np.full(200, 3.0) + 1e-7 * ROWS[:, 0]
    nearly[:2] = [0.0, 9.0]
    rounded = np.round(ROWS[:, 1], 1)
    X = np.column_stack([ROWS[:, 0], np.full(200, 1 / 3), nearly, mixed, rounded])
    found = {one.column: one for one in check_degenerate(X)}
    assert {column: one.kind for column, one in found.items()} == {
        1: "constant", 2: "nearly constant", 3: "repeated", 4: "few values",
    }  # fmt: skip
    assert found[3].share == (mixed == 0).mean()
    assert found[4].gap == pytest.approx(0.1)
    assert check_degenerate(ROWS) == ()
    gaps = ROWS.copy()
    gaps[:50, 0] = np.nan
    assert check_degenerate(gaps) == ()
    for wrong in (np.empty((0, 2)), np.zeros(3)):
        with pytest.raises(UserValueError, match="X must be a table"):
            check_degenerate(wrong)


@pytest.mark.spec("GEN-146")
def test_the_floor_stands_beside_the_score():
    """The note's deviation is the one that the model holds the column at, and the same rows without it have no note."""
    X = with_constant()
    for system in (gnomon.GaussianMixture(n_components=1), gnomon.GaussianRBM(n_hidden=2, epochs=2, random_state=0)):
        with pytest.warns(UserWarning, match="floor") if "Mixture" in type(system).__name__ else _nothing():
            score = system.fit(X).evaluate(X)["log_likelihood"]
        assert "column 1 (constant) adds" in score.note
        assert score.to_json()["note"] == score.note
        told = float(score.note.rpartition(" of ")[2])
        if hasattr(system, "covariances_"):
            assert told == pytest.approx(math.sqrt(system.covariances_[0, 1, 1]), rel=0.02)
            alone = gnomon.GaussianMixture(n_components=1).fit(X[:, [0, 2]]).evaluate(X[:, [0, 2]])["log_likelihood"]
            added = float(score.note.split(" adds ")[1].split()[0])
            assert score.value - alone.value == pytest.approx(added, abs=0.02)
            assert alone.note == ""
        else:
            assert told == pytest.approx(system.precision_[1] ** -0.5, rel=0.05)


@pytest.mark.spec("GEN-146")
def test_diagnose_warns_of_a_constant_column_and_of_peaks_on_rounded_values():
    X = with_constant()
    with pytest.warns(UserWarning, match="floor"):
        fitted = gnomon.GaussianMixture(n_components=1).fit(X)
    (finding,) = gnomon.diagnose(fitted, train=X).of("degenerate")
    assert finding.level == "warning"
    assert "column 1 (constant) adds" in finding.evidence
    (fine,) = gnomon.diagnose(gnomon.GaussianMixture(n_components=1).fit(ROWS), train=ROWS).of("degenerate")
    assert fine.level == "ok"
    whole = random.integers(0, 3, size=(300, 1)).astype(float)
    broad = gnomon.GaussianMixture(n_components=1).fit(whole)
    assert gnomon.diagnose(broad, train=whole).of("degenerate")[0].level == "ok"
    with pytest.warns(UserWarning, match="floor"):
        narrow = gnomon.GaussianMixture(n_components=3, random_state=0).fit(whole)
    (peaks,) = gnomon.diagnose(narrow, train=whole).of("degenerate")
    assert peaks.level == "warning"
    assert "uniform noise" in peaks.remedy


@pytest.mark.spec("GEN-146")
def test_an_energy_needs_no_normalizer():
    machine = gnomon.GaussianRBM(n_hidden=2, epochs=2, random_state=0, dtype="float64").fit(ROWS)
    exact = column_densities(log_density_of(machine), ROWS[:2])

    class Unnormalized:
        def energy(self, rows):
            return machine.energy(rows)

    assert column_densities(log_density_of(Unnormalized()), ROWS[:2]) == pytest.approx(exact, abs=1e-6)


class _nothing:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


def test_a_constant_column_far_from_the_model_is_no_peak_and_no_error():
    X = np.random.default_rng(0).normal(size=(100, 2)) * [0.01, 1.0]
    model, far = gnomon.make("ppca", n_components=1).fit(X), X[:30].copy()
    far[:, 0] = 7.0
    score = model.evaluate(far)["log_likelihood"]
    assert score.value < -1e5 and score.note == "" and floor_of(-1e5) == math.inf
    far[:, 1] = 7.0  # and one that raises nothing either
    assert model.evaluate(far)["log_likelihood"].note == ""


def test_columns_are_named_where_there_is_a_bound_of_the_density_alone():
    X = with_constant()[:60]
    vae = gnomon.make("vae", max_updates=5, random_state=0)
    note = vae.fit(X).evaluate(X)["log_likelihood"].note
    assert "no limit but the model's own is set to the density by column 1 (constant)" in note
