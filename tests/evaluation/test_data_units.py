"""Densities in other units: closed forms of the change, refusals, pipelines, and bounds by noise."""

import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, QuantileTransformer, RobustScaler, StandardScaler

import gnomon
from gnomon.data.preprocessing import Standardizer
from gnomon.distributions.whole import Counts
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation import discrete_bound, in_original_units, log_volume, pipeline_scores
from gnomon.evaluation.data_units import DataSignature
from gnomon.tasks.density import IndependentBaseline
from oracles.commands import call

random = np.random.default_rng(0)
D = 3
X = random.normal(size=(300, D)) @ np.array([[2.0, 0.3, 0], [0, 0.5, 0.1], [0, 0, 9.0]]) + [5.0, -3.0, 0.2]
TEST = X[200:]


def normal():
    """One normal density by maximum likelihood: whatever the units, the same distribution."""
    return gnomon.GaussianMixture(n_components=1, random_state=0)


def score(rows):
    return normal().fit(rows[:200]).evaluate(rows[200:])["log_likelihood"]


@pytest.mark.spec("GEN-141")
def test_a_tenth_of_the_unit_is_d_ln_10_nats_and_is_refused_or_corrected():
    """Dividing by 10 makes the density ten times as high for each column, 10^d in d of them."""
    own, tenth = score(X), score(0.1 * X)
    truth = multivariate_normal(X[:200].mean(0), np.cov(X[:200].T, bias=True)).logpdf(TEST).mean()
    assert own.value == pytest.approx(truth, abs=1e-4)
    assert tenth.value - own.value == pytest.approx(2.302585 * D, abs=1e-4)
    with pytest.raises(UserValueError, match="in other units") as refused:
        own.against(tenth)
    assert f"{D * math.log(10):+.4f}"[:6] in str(refused.value)
    with pytest.raises(UserValueError, match="in other units"):
        tenth.difference(own)
    corrected = in_original_units(tenth, FunctionTransformer(lambda rows: 0.1 * rows), TEST)
    assert corrected.value == pytest.approx(own.value, abs=1e-4)
    assert corrected.pointwise == pytest.approx(own.pointwise, abs=1e-3)
    assert corrected.against(own) == "undecided"


@pytest.mark.spec("GEN-141")
@pytest.mark.parametrize(
    "steps",
    [
        StandardScaler(), MinMaxScaler(), RobustScaler(), PCA(), PCA(whiten=True),
        FunctionTransformer(lambda rows: rows[:, ::-1] * [1, -3, 0.2]),
    ],
    ids=["standard", "min-max", "robust", "rotation", "whitening", "turned around"],
)  # fmt: skip
def test_preprocessing_inside_a_pipeline_is_taken_back(steps):
    pipe = make_pipeline(steps, normal()).fit(X[:200])
    own = score(X)
    found = pipeline_scores(pipe, TEST)["log_likelihood"]
    assert found.value == pytest.approx(own.value, abs=1e-3)
    assert found.against(own) == "undecided"
    inside = pipeline_scores(pipe, TEST, space="model")["log_likelihood"]
    assert inside.value + log_volume(pipe[:-1], TEST) == pytest.approx(own.value, abs=1e-3)
    with pytest.raises(UserValueError, match="data_space"):
        inside.against(own)


@pytest.mark.spec("GEN-141")
def test_volumes_are_the_determinants():
    scaler = StandardScaler().fit(X)
    assert log_volume(scaler, X) == pytest.approx(-np.log(X.std(0)).sum(), abs=1e-9)
    assert log_volume(Standardizer().fit(X), X) == pytest.approx(-np.log(X.std(0)).sum(), abs=1e-9)
    whitening = PCA(whiten=True).fit(X)
    assert log_volume([scaler, PCA(whiten=True).fit(scaler.transform(X))], X) == pytest.approx(
        -0.5 * np.linalg.slogdet(np.cov(X.T))[1], abs=1e-8
    )
    assert log_volume(make_pipeline(whitening), X) == pytest.approx(-0.5 * np.linalg.slogdet(np.cov(X.T))[1], abs=1e-8)


@pytest.mark.spec("GEN-141")
def test_what_cannot_be_corrected_is_refused():
    for step, words in (
        (QuantileTransformer(n_quantiles=20), "must be an affine map"),
        (FunctionTransformer(np.arctan), "must be an affine map"),
        (PCA(2), r"all 3 columns .*got 2"), (FunctionTransformer(lambda rows: rows * [1, 0, 1]), "cannot be undone"),
    ):  # fmt: skip
        with pytest.raises(UserValueError, match=words):
            log_volume(step.fit(X), X)
    pipe = make_pipeline(PCA(2), normal()).fit(X)
    with pytest.raises(UserValueError, match=r"all 3 columns .*got 2"):
        pipeline_scores(pipe, X)
    assert pipeline_scores(pipe, X, space="model")["log_likelihood"].data_space == "density on R^2 after PCA"
    with pytest.raises(UserTypeError, match="must end in a gnomon System"):
        pipeline_scores(make_pipeline(PCA(2)).fit(X), X)
    with pytest.raises(UserValueError, match="space must be original or model"):
        pipeline_scores(pipe, X, space="other")


@pytest.mark.spec("GEN-141")
def test_a_binary_and_a_real_model_are_not_compared():
    bits = np.greater(X, X.mean(0)).astype(float)
    mass = gnomon.BernoulliMixture(n_components=2, random_state=0).fit(bits).evaluate(bits)["log_likelihood"]
    density = normal().fit(bits + 0.1 * random.normal(size=bits.shape)).evaluate(bits)["log_likelihood"]
    with pytest.raises(UserValueError, match=r"pmf on \{0,1\}\^3.*density on R\^3"):
        mass.against(density)
    with pytest.raises(UserValueError, match="must be a log density of rows"):
        in_original_units(mass, StandardScaler().fit(X), X)


@pytest.mark.spec("GEN-141")
def test_systems_that_standardize_score_rows_in_their_own_units():
    """Inside a fit the scale is taken back: the same numbers whether the rows or the system are scaled."""
    settings = {"n_hidden": 2, "epochs": 3, "random_state": 0, "dtype": "float64"}
    own = gnomon.GaussianRBM(**settings).fit(X).evaluate(X)["log_likelihood"]
    tenth = gnomon.GaussianRBM(**settings).fit(0.1 * X).evaluate(0.1 * X)["log_likelihood"]
    assert tenth.value - own.value == pytest.approx(D * math.log(10), abs=1e-3)
    with pytest.raises(UserValueError, match="in other units"):
        own.against(tenth)
    pixel = (
        gnomon.GaussianRBM(**settings).fit(X).evaluate(0.1 * X)["log_likelihood"]
    )  # other rows than those of the fit
    assert pixel.signature.same_rows(own.signature)


@pytest.mark.spec("GEN-141")
def test_uniform_noise_gives_a_bound_for_whole_numbers():
    """Of a normal density the mass on a cell is known: the bound is below it, and equals it where density is flat."""
    counts = random.poisson(4.0, size=(400, 2)).astype(float)
    rows = counts + random.random(counts.shape)
    model = normal().fit(rows)
    density = model.evaluate(rows)["log_likelihood"]
    bound = discrete_bound(density, 2)
    assert (bound.kind, bound.data_space, bound.value) == ("lower bound", "pmf on {0,1,2,...}^2", density.value)
    mean, covariance = rows.mean(0), np.cov(rows.T, bias=True)
    cells = [multivariate_normal(mean, covariance).cdf(row + 1, lower_limit=row) for row in np.unique(counts, axis=0)]
    each = dict(zip(map(tuple, np.unique(counts, axis=0)), np.log(cells), strict=True))
    mass = np.mean([each[tuple(row)] for row in counts])
    assert bound.value < mass < bound.value + 0.05
    poisson = IndependentBaseline(Counts(), counts).evaluate(counts)["log_likelihood"]
    assert (
        poisson.against(bound) == "undecided"
    )  # a bound from below can show that it is better, never that it is worse
    half = discrete_bound(density, 2, width=0.5)
    assert half.value == pytest.approx(density.value - 2 * math.log(2))
    with pytest.raises(UserValueError, match="width must be"):
        discrete_bound(density, 2, width=0)


@pytest.mark.spec("GEN-141")
def test_signatures_tell_units_apart_and_leave_other_rows_alone():
    one = DataSignature.of(X)
    assert one.log_scale == pytest.approx(np.log(X.std(0)).sum())
    assert one.apart(DataSignature.of(X.astype(np.float32))) == 0
    assert one.apart(DataSignature.of(X * [2, 1, 1])) == pytest.approx(-math.log(2))
    assert one.apart(DataSignature.of(X[::-1])) == 0
    assert one.apart(DataSignature.of(2 * random.normal(size=X.shape))) == 0
    first, second = score(X), normal().fit(X[:200]).evaluate(X[100:200])["log_likelihood"]
    first.against(second)  # other rows in the same units


@pytest.mark.spec("GEN-141")
def test_the_command_line_says_the_bound_and_keeps_the_scale(tmp_path, capsys):
    call(capsys, "fit", "ppca", "digits", "--n-components", 5, "--out", tmp_path / "run")
    scores = call(capsys, "evaluate", tmp_path / "run")["scores"]
    assert scores["log_mass"]["kind"] == "lower bound"
    assert scores["log_mass"]["data_space"].startswith("pmf on {0,1,2,...}^64")
    assert scores["log_likelihood"]["log_scale_of_rows"] is not None


def test_norm_of_a_single_column():
    x = random.normal(size=(100, 1)) * 3
    found = normal().fit(x).evaluate(x)["log_likelihood"]
    assert found.value == pytest.approx(norm(x.mean(), x.std()).logpdf(x).mean(), abs=1e-6)


def test_columns_that_are_missing_altogether_say_nothing():
    rows = np.random.default_rng(0).normal(size=(20, 2))
    with_nothing = np.column_stack([rows, np.full(20, np.nan)])
    assert DataSignature.of(with_nothing) == DataSignature.of(rows)
