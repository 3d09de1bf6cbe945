"""Damaged rows are cleaned as Bayes' rule says: by hand, by enumeration, by grids, by chains of the same answer."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

import gnomon
from gnomon.catalog import entry
from gnomon.cli.main import run
from gnomon.distributions.corruption import BitFlips, GaussianNoise
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation import psnr
from gnomon.inference.exact.cells import NormalCells
from gnomon.inference.exact.channels import normal_posterior
from gnomon.numeric.noise import Noise
from gnomon.tasks.generative import generative

BITS = np.array(list(itertools.product([0.0, 1.0], repeat=5)))
MACHINE = {"epochs": 60, "learning_rate": 0.2, "batch_size": 50, "dtype": "float64", "random_state": 0}


def bits(n=300, d=5):
    random = np.random.default_rng(0)
    X = (random.random((n, d)) < 0.4).astype(float)
    for j in range(1, d):
        X[:, j] = np.where(random.random(n) < 0.8, X[:, j - 1], X[:, j])
    return X


def reals(n=300):
    random = np.random.default_rng(1)
    near = random.normal(size=(n, 3)) @ np.triu(np.ones((3, 3)))
    return near * [1.0, 2.0, 0.5] + 6 * (random.random(n) < 0.4)[:, None] * [1.0, -1.0, 0.5]


@pytest.mark.spec("REP-121")
@pytest.mark.parametrize("name", ["gaussian-mixture", "ppca", "product-of-ppca"])
def test_a_normal_prior_gives_the_wiener_filter(name):
    """m + S (S + N)^-1 (x - m), the same for the most probable row, in the units of the data."""
    given = {"n_components": 1} if name == "gaussian-mixture" else {"n_components": 2}
    X, deviation = reals(), np.array([0.5, 1.0, 0.2])
    system = gnomon.make(name, random_state=0, **given).fit(X)
    mean = system.means_[0] if name == "gaussian-mixture" else system.mean_
    S = system.covariances_[0] if name == "gaussian-mixture" else system.get_covariance()
    damaged = GaussianNoise(deviation).damage(X[:20], Noise(0, "test"))
    expected = mean + (damaged - mean) @ (S @ np.linalg.inv(S + np.diag(deviation**2))).T
    for method in ("mean", "map"):
        found = system.denoised(damaged, GaussianNoise(deviation), method=method)
        np.testing.assert_allclose(found.values, expected, rtol=1e-9, atol=1e-9)
        assert (
            found.kind == "exact" and found.note == "assuming normal noise of deviation 0.2 to 1 by column: closed form"
        )
    scaled = system.denoise(damaged, GaussianNoise(0.3))
    np.testing.assert_allclose(
        scaled, mean + (damaged - mean) @ (S @ np.linalg.inv(S + 0.09 * np.eye(3))).T, rtol=1e-9, atol=1e-9
    )


@pytest.mark.spec("REP-121")
def test_a_mixture_is_cleaned_as_a_grid_says():
    """Mean and mode over a grid of 801 x 801; they differ where two clusters may have left the row."""
    weights, means = np.array([0.4, 0.6]), np.array([[-2.0, 0.0], [2.0, 1.0]])
    covariances = np.array([[[1.0, 0.3], [0.3, 0.5]], [[0.6, -0.2], [-0.2, 0.8]]])
    variances, damaged = np.array([4.0, 1.0]), np.array([[0.1, 0.4], [3.0, -1.0], [-4.0, 2.0]])
    found = normal_posterior(NormalCells(np.log(weights), means, covariances), damaged, variances)
    ticks = np.linspace(-8, 8, 801)
    grid = np.stack(np.meshgrid(ticks, ticks, indexing="ij"), -1).reshape(-1, 2)
    prior = sum(w * multivariate_normal(m, c).pdf(grid) for w, m, c in zip(weights, means, covariances, strict=True))
    for k, row in enumerate(damaged):
        p = prior * multivariate_normal(row, np.diag(variances)).pdf(grid)
        np.testing.assert_allclose(found.mean[k], p @ grid / p.sum(), atol=1e-6)
        np.testing.assert_allclose(found.modes()[k], grid[p.argmax()], atol=0.011)
    assert np.abs(found.mean[0] - found.modes()[0]).max() > 0.5


def exact(system, damaged, flips):
    """Means and most probable rows over all rows there are."""
    p = np.exp(system.log_prob(BITS)) * np.where(damaged[:, None] == BITS, 1 - flips, flips).prod(2)
    return p @ BITS / p.sum(1, keepdims=True), BITS[p.argmax(1)]


@pytest.mark.spec("REP-121")
@pytest.mark.parametrize(
    "name", ["rbm", "boltzmann-machine", "semi-restricted-rbm", "dbm", "bernoulli-mixture", "fvbn"]
)
def test_flipped_bits_are_enumerated(name):
    given = MACHINE if "boltz" in name or name in ("rbm", "semi-restricted-rbm") else {"random_state": 0}
    extra = entry(name).tiny if name == "dbm" else {}
    system = gnomon.make(name, **given | extra).fit(bits())
    damaged, flips = BitFlips(0.2).damage(bits()[:30], Noise(1, "test")), np.array([0.1, 0.2, 0.3, 0.15, 0.25])
    if not hasattr(system, "log_prob"):
        system.log_prob = system.log_prob_observed
    mean, mode = exact(system, damaged, flips)
    found = system.denoised(damaged, BitFlips(flips))
    np.testing.assert_allclose(found.values, mean, atol=1e-6)
    np.testing.assert_array_equal(system.denoise(damaged, BitFlips(flips), method="map"), mode)
    assert found.kind == "exact" and "bits flipped with probability 0.1 to 0.3 by column: enumeration" in found.note


GIVEN = {"rbm": MACHINE | {"n_hidden": 4}, "boltzmann-machine": MACHINE}


@pytest.mark.spec("REP-121")
@pytest.mark.parametrize("name", ["rbm", "bernoulli-mixture", "boltzmann-machine"])
def test_where_rows_are_too_many_closed_forms_and_chains_say_the_same(name, monkeypatch):
    """No enumeration: hidden states exactly, 1,000 sweeps to 0.1, 40 chains of each row to 0.03 (four errors)."""
    system = gnomon.make(name, **GIVEN.get(name, {"random_state": 0})).fit(bits())
    damaged = BitFlips(0.2).damage(bits()[:8], Noise(1, "test"))
    mean, mode = exact(system, damaged, 0.2)
    monkeypatch.setattr("gnomon.system.denoising.states_of", lambda *_: None)
    found = system.denoised(damaged, BitFlips(0.2), steps=1000, random_state=0)
    closed = name in ("rbm", "bernoulli-mixture")
    assert found.kind == ("exact" if closed else "estimate")
    np.testing.assert_allclose(found.values, mean, atol=1e-6 if closed else 0.1)
    np.testing.assert_array_equal(system.denoise(damaged, BitFlips(0.2), method="map", steps=50, random_state=0), mode)
    if name != "rbm":
        return
    monkeypatch.setattr(type(system), "bits_by_state", lambda _: None)
    walked = system.denoised(np.tile(damaged, (40, 1)), BitFlips(0.2), steps=600, random_state=0)
    np.testing.assert_allclose(walked.values.reshape(40, *damaged.shape).mean(0), mean, atol=0.03)
    assert walked.kind == "estimate" and walked.note.endswith("chains of 600 sweeps")


@pytest.mark.spec("REP-121")
def test_real_columns_without_a_closed_form_walk_or_weigh(monkeypatch):
    """The mixture whose closed form is hidden: walks to 0.3 of its mean, weighted draws to 0.15, the mode to 0.6."""
    system = gnomon.GaussianMixture(n_components=2, random_state=0).fit(reals())
    damaged = GaussianNoise(1.0).damage(reals()[:3], Noise(1, "test"))
    mean, mode = (system.denoise(damaged, GaussianNoise(1.0), method=method) for method in ("mean", "map"))
    monkeypatch.setattr(type(system), "normal_density", lambda _: None)
    found = system.denoised(damaged, GaussianNoise(1.0), steps=300, random_state=0)
    assert found.note.endswith("chains of 3000 moves") and found.kind == "estimate"
    np.testing.assert_allclose(found.values, mean, atol=0.3)
    near = system.denoise(damaged, GaussianNoise(1.0), method="map", steps=300, random_state=0)
    np.testing.assert_allclose(near, mode, atol=0.6)
    monkeypatch.setattr(type(system), "complete_log_density", lambda *_: None)
    weighed = system.denoised(damaged, GaussianNoise(1.0), steps=1000, random_state=0)
    assert "20000 weighted draws of the model, worth" in weighed.note and weighed.kind == "estimate"
    np.testing.assert_allclose(weighed.values, mean, atol=0.15)
    with pytest.warns(UserWarning, match="the estimate is poor"):
        system.denoise(damaged + 30, GaussianNoise(0.01), steps=10, random_state=0)
    with pytest.raises(UserValueError, match="method must be mean, since gaussian-mixture has no density of rows"):
        system.denoise(damaged, GaussianNoise(1.0), method="map")


@pytest.mark.spec("REP-121")
def test_any_channel_with_a_log_probability_is_taken():
    class Stuck:
        """Ones fall to 0 with probability 0.3, zeros stay."""

        def log_prob(self, damaged, x):
            return np.log(np.where(x == 1, np.where(damaged == 1, 0.7, 0.3), np.where(damaged == 1, 1e-300, 1))).sum(1)

        def __str__(self):
            return "ones that fall"

    system = gnomon.make("bernoulli-mixture", n_components=3, random_state=0).fit(bits())
    damaged = np.array([[0.0, 0, 1, 0, 0]])
    p = np.exp(system.log_prob(BITS) + Stuck().log_prob(np.repeat(damaged, 32, 0), BITS))
    found = system.denoised(damaged, Stuck())
    np.testing.assert_allclose(found.values[0], p @ BITS / p.sum(), atol=1e-9)
    assert found.values[0, 2] > 1 - 1e-9 and "ones that fall" in found.note


@pytest.mark.spec("REP-121")
def test_the_mean_has_the_least_error_and_more_than_the_damaged_row():
    X = reals(600)
    system = gnomon.GaussianMixture(n_components=2, random_state=0).fit(X)
    truth = system.sample(500, random_state=3)
    damaged = GaussianNoise(1.5).damage(truth, Noise(0, "test"))
    ratio = {
        method: psnr(truth, system.denoise(damaged, GaussianNoise(1.5), method=method)) for method in ("mean", "map")
    }
    assert ratio["mean"] > ratio["map"] and ratio["mean"] > psnr(truth, damaged) + 1
    wrong = psnr(truth, system.denoise(damaged, GaussianNoise(0.2)))
    assert wrong < ratio["mean"]  # an answer is as good as the corruption assumed
    assert psnr(truth, truth + 0.5, peak=5.0) == pytest.approx(20.0)
    assert psnr([1.0, 2.0], [1.0, 2.0]) == np.inf
    with pytest.raises(UserValueError, match="peak must be positive"):
        psnr([1.0, 1.0], [1.0, 2.0])
    with pytest.raises(UserValueError, match="one shape"):
        psnr([1.0], [1.0, 2.0])


def test_wrong_questions_are_refused_in_one_line():
    system = gnomon.GaussianMixture(n_components=1, random_state=0).fit(reals())
    machine = gnomon.RBM(n_hidden=2, epochs=1, random_state=0).fit(bits())
    rows = reals()[:2]
    for call, error, match in (
        (lambda: system.denoise(rows, BitFlips(0.1)), UserTypeError, "flips must be of bits"),
        (
            lambda: machine.denoise(bits()[:2], GaussianNoise(0.1)),
            UserTypeError,
            "normal noise must be of real columns",
        ),
        (lambda: system.denoise(rows, 0.1), UserTypeError, "corruption must be GaussianNoise"),
        (lambda: system.denoise(rows, GaussianNoise([1.0, 2.0])), UserValueError, "deviation must be one number or 3"),
        (lambda: system.denoise(rows, GaussianNoise(1.0), method="median"), UserValueError, "method must be one of"),
        (lambda: system.denoise(rows * np.nan, GaussianNoise(1.0)), UserValueError, "no missing cells"),
        (lambda: system.denoise(rows, GaussianNoise(1.0), steps=1), UserValueError, "steps must be at least 2"),
        (lambda: GaussianNoise(0.0), UserValueError, "deviation must be positive"),
        (lambda: BitFlips(1.0), UserValueError, r"probability must be in \(0, 1\)"),
        (lambda: BitFlips("x"), UserValueError, "probability must be a number"),
    ):
        with pytest.raises(error, match=match):
            call()
    stated = generative(system).denoise(rows, GaussianNoise(1.0))
    assert str(stated) == ("denoised, mean of 2 rows: exact (assuming normal noise of deviation 1: closed form)")


@pytest.mark.spec("REP-121")
def test_the_command_line_says_the_same_and_what_is_assumed(tmp_path, capsys):
    X, columns = reals(), list("abc")
    damaged = GaussianNoise(0.7).damage(X, Noise(0, "test"))
    for name, rows in (("t", X), ("d", damaged)):
        pd.DataFrame(rows, columns=columns).to_csv(tmp_path / f"{name}.csv", index=False)
    folder = tmp_path / "run"
    assert run(["fit", "gaussian-mixture", str(tmp_path / "t.csv"), "--n-components", "2", "--out", str(folder)]) == 0
    asked = ["denoise", str(folder), str(tmp_path / "d.csv")]
    capsys.readouterr()
    out = tmp_path / "c.csv"
    assert run([*asked, "--noise", "0.7", "--truth", str(tmp_path / "t.csv"), "--out", str(out)]) == 0
    said = capsys.readouterr().err
    found = gnomon.load(folder).denoise(damaged, GaussianNoise(0.7))
    np.testing.assert_allclose(pd.read_csv(out)[columns].to_numpy(), found, rtol=1e-6)
    assert "exact, assuming normal noise of deviation 0.7: closed form" in said
    assert f"psnr_before {psnr(X, damaged):.4g} dB" in said and f"psnr {psnr(X, found):.4g} dB" in said
    assert run([*asked, "--noise", "0.7", "--json"]) == 0
    assert '"note": "assuming normal noise of deviation 0.7: closed form"' in capsys.readouterr().out
    assert run(asked) == 2 and "the corruption must be named once" in capsys.readouterr().err
    assert run([*asked, "--flips", "0.1"]) == 2 and "flips must be of bits" in capsys.readouterr().err
    pd.DataFrame(damaged, columns=columns).mask(np.eye(len(X), 3, -1) > 0).to_csv(tmp_path / "g.csv", index=False)
    for words in (["g.csv"], ["d.csv", "--truth", str(tmp_path / "g.csv")]):
        assert run(["denoise", str(folder), str(tmp_path / words[0]), *words[1:], "--noise", "0.7"]) == 2
        assert "row 2 has a missing cell, and denoise needs complete rows" in capsys.readouterr().err


def test_codes_are_no_cells_to_clean(tmp_path, capsys):
    table = pd.DataFrame(reals(60), columns=list("abc")).assign(kind=["red", "blue", "green"] * 20)
    table.to_csv(tmp_path / "t.csv", index=False)
    folder = str(tmp_path / "run")
    assert run(["fit", "ppca", str(tmp_path / "t.csv"), "--n-components", "1", "--out", folder]) == 0
    capsys.readouterr()
    assert run(["denoise", folder, str(tmp_path / "t.csv"), "--noise", "0.7"]) == 2
    assert "denoise needs a fit to columns of numbers, and 'kind' was coded" in capsys.readouterr().err
