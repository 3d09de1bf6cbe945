"""Every system of the catalog keeps every contract."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

import gnomon
from gnomon.catalog import entry, load_class
from gnomon.errors import UserError, UserValueError
from gnomon.objectives.contrastive import CD, PCD
from gnomon.testing import CHECKS, Mapped, arrays_of, check_system, example
from gnomon.training.launch import launch

pytestmark = pytest.mark.filterwarnings("ignore:too little text")

NAMES = [one.name for one in gnomon.catalog()]
BACKED = [
    "logistic-regression", "svm", "support-vector-regression", "decision-tree", "regression-tree", "bagging",
    "bagging-regression", "random-forest", "random-forest-regression", "extra-trees", "extra-trees-regression",
    "adaboost", "gradient-boosting", "gradient-boosting-regression", "histogram-boosting",
    "histogram-boosting-regression", "stacking", "stacking-regression",
]  # fmt: skip
MISSING = {"ppca", "decision-tree", "regression-tree", "histogram-boosting", "histogram-boosting-regression"}
COUNT_ROWS = {
    "bagging", "bagging-regression", "random-forest", "random-forest-regression", "gradient-boosting",
    "gradient-boosting-regression", "histogram-boosting", "stacking", "stacking-regression",
}  # fmt: skip
"""Systems that draw rows, deal them out or ask how many there are: for these a row of weight 2 is not two rows."""
ARRAYS = [
    "linear-regression",
    "bayesian-regression",
    "softmax-regression",
    "ppca",
    "bernoulli-mixture",
    "rbm",
    "gaussian-mixture",
    "gaussian-classifier",
    "kmeans",
    "mlp",
    "mlp-regression",
    *BACKED,
]
RECIPES = {
    "linear-regression, gradient": (
        "linear-regression",
        {"solver": "gradient", "batch_size": 7, "epochs": 20, "learning_rate": 0.1, "l2": 0.1},
    ),
    "linear-regression, L1": (
        "linear-regression",
        {"solver": "gradient", "optimizer": "sgd", "epochs": 30, "learning_rate": 0.2, "l1": 0.05},
    ),
    "bayesian-regression, law of the noise": (
        "bayesian-regression",
        {"weight_prior": "normal-inverse-gamma", "intercept": "normal", "standardize": True},
    ),
    "bagging of softmax regressions": (
        "bagging",
        {"base": "softmax-regression", "base__epochs": 5, "max_samples": 0.7, "max_features": 0.5},
    ),
    "stacking, two layers apart": ("stacking", {"layers": 2, "apart": True, "average": True}),
    "stacking regressions, two layers": ("stacking-regression", {"layers": 2}),
    "svm, polynomial": ("svm", {"kernel": "polynomial"}),
    "softmax-regression, mini-batches": ("softmax-regression", {"batch_size": 7, "epochs": 4, "optimizer": "sgd"}),
    "mlp, everything on": (
        "mlp",
        {
            "dropout": 0.3,
            "batch_norm": True,
            "early_stopping": "patience",
            "batch_size": 7,
            "epochs": 8,
            "l1": 1e-4,
            "schedule": "plateau",
            "optimizer": "rmsprop",
            "activation": "prelu",
            "hidden": (8, 6),
            "clip": 1.0,
        },
    ),
    "mlp-regression, everything on": (
        "mlp-regression",
        {"dropout": 0.2, "batch_norm": True, "early_stopping": "patience", "batch_size": 6, "epochs": 30},
    ),
    "ppca, EM": ("ppca", {"method": "em", "max_iter": 12}),
    "gaussian-mixture, diag, starts": ("gaussian-mixture", {"covariance": "diag", "n_init": 3, "max_iter": 5}),
    "gaussian-classifier, tied": ("gaussian-classifier", {"covariance": "tied", "priors": (0.2, 0.3, 0.5)}),
    "rbm, CD-2": ("rbm", {"objective": CD(k=2), "epochs": 4, "batch_size": 7}),
    "rbm, PCD-1 and Adam": ("rbm", {"objective": "pcd", "epochs": 40, "batch_size": 7, "optimizer": "adam"}),
}
"""Ways to fit that the tiny arguments of the catalog do not take."""
EVERY = {name: (name, {}) for name in NAMES} | RECIPES
ALONE = [name for name in CHECKS if name != "processes_agree"]


class MappedBernoulliMixture(gnomon.BernoulliMixture):
    """Takes any numbers."""

    domain = Mapped(gnomon.BernoulliMixture.domain)


class MappedRBM(gnomon.RBM):
    """Takes any numbers."""

    domain = Mapped(gnomon.RBM.domain)


WIDE = {"bernoulli-mixture": MappedBernoulliMixture, "rbm": MappedRBM}


def made(way):
    name, changes = EVERY[way]
    return gnomon.make(name, **{"random_state": 0, **entry(name).tiny, **changes})


@pytest.mark.parametrize("check", ALONE)
@pytest.mark.parametrize("way", EVERY)
def test_contract(way, check):
    check_system(made(way), checks=[check])


@pytest.mark.parametrize("name", ARRAYS)
def test_scikit_learns_checks(name):
    cls = WIDE.get(name, load_class(name))
    state = np.random.get_state()  # some of its checks seed and draw from the global generator
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(cls(random_state=0, **entry(name).tiny), on_skip=None, on_fail=None)
    np.random.set_state(state)
    failed = [(r["check_name"], repr(r["exception"])) for r in results if r["status"] in ("failed", "xfail")]
    if name in COUNT_ROWS:
        failed = [one for one in failed if one[0] != "check_sample_weight_equivalence_on_dense_data"]
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    assert not failed
    assert all(check.startswith("check_array_api") for check in skipped)
    assert len(results) > 40


def fit_every(dtype):
    """Arrays of every fit, in this process or this group."""
    found = {}
    for way in EVERY:
        system = made(way)
        if dtype == "float32" and (system.name in ("rbm", "ngram")):
            continue
        X, y = example(system)
        options = {}
        if isinstance(X, np.ndarray):
            X = X[:37].astype(dtype)
            options["sample_weight"] = np.random.default_rng(1).uniform(0.5, 2.0, size=37)
        known = system.get_params(deep=False)
        if "tol" in known:
            system.set_params(tol=0.0)
        if dtype == "float32" and "epochs" in known:
            system.set_params(epochs=-(-20 // -(-37 // (known["batch_size"] or 37))))
        system.fit(X[:37], None if y is None else y[:37], **options)
        found[way] = arrays_of(system)
    return found


def fit_both():
    """In double and in single precision."""
    return fit_every("float64"), fit_every("float32")


def gap(a, b):
    assert a.shape == b.shape
    return float(np.abs(a.astype(float) - b.astype(float)).max(initial=0.0))


def test_one_and_two_processes_fit_the_same():
    alone, together = fit_both(), launch(fit_both, devices=2)
    for one, two, tolerance in zip(alone, together, (1e-9, 1e-5), strict=True):
        assert one.keys() == two.keys()
        for way in one:
            for name in one[way]:
                assert gap(one[way][name], two[way][name]) <= tolerance, (way, name)


@pytest.mark.parametrize("name", ARRAYS)
def test_odd_layouts_fit_as_a_fresh_copy(name, tmp_path):
    X, y = example(made(name))
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    before = (tmp_path / "x.npy").read_bytes()
    reference = arrays_of(made(name).fit(np.ascontiguousarray(X), y))
    wide = np.zeros((2 * len(X), X.shape[1]))
    wide[::2] = X
    for other in (mapped, np.asfortranarray(X), wide[::2], X.astype(">f8"), X.astype(object)):
        found = arrays_of(made(name).fit(other, y))
        for key, value in reference.items():
            np.testing.assert_allclose(found[key], value, rtol=0, atol=1e-12)
    assert (tmp_path / "x.npy").read_bytes() == before


@pytest.mark.parametrize("way", EVERY)
def test_fitting_again_on_other_data_leaves_nothing_behind(way):
    system = made(way)
    X, y = example(system)
    first = arrays_of(system.fit(X, y))
    half = X[:30, :4] if isinstance(X, np.ndarray) else X[:10]
    system.fit(half, None if y is None else y[:30])
    again = arrays_of(system.fit(X, y))
    assert first.keys() == again.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_parameter_names_the_nearest(name):
    system = gnomon.make(name)
    known = next(iter(system.get_params(deep=False)))
    with pytest.raises(ValueError, match=known):
        system.set_params(**{known[:-1] + "q": 1})


@pytest.mark.parametrize("name", ["rbm", "bernoulli-mixture"])
def test_a_generator_advances_and_gives_two_fits(name):
    X, y = example(made(name))
    generator = np.random.default_rng(0)
    first = arrays_of(made(name).set_params(random_state=generator).fit(X, y))
    second = arrays_of(made(name).set_params(random_state=generator).fit(X, y))
    assert any(not np.array_equal(first[key], second[key]) for key in first)


@pytest.mark.parametrize("name", ARRAYS)
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
    X, y = example(made(name))
    if name in MISSING and "missing" in parts:
        return  # takes missing values
    with pytest.raises(UserError) as caught:
        made(name).fit(spoil(X), y)
    said = str(caught.value)
    assert all(part in said for part in parts), said
    assert "\n" not in said
    assert len(said) < 250


@pytest.mark.parametrize("name", ARRAYS)
def test_other_columns_are_refused_in_one_line(name):
    X, y = example(made(name))
    frame = pd.DataFrame(X, columns=list("abcde"))
    fitted = made(name).fit(frame, y)
    verb = fitted.predict if hasattr(fitted, "predict") else fitted.transform
    with pytest.raises(UserValueError, match=r"unseen at fit time: - z.*give the columns of the fit$"):
        verb(frame.rename(columns={"a": "z"}))
    with pytest.raises(UserValueError, match="expecting 5 features"):
        made(name).fit(X, y).score(X[:, :2], y)


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize(
    "options", [{"sample_weight": np.zeros(40)}, {"sample_weight": -np.ones(40)}, {"sample_weight": np.ones(3)}]
)
def test_weights_are_refused_in_one_line(name, options):
    X, y = example(made(name))
    with pytest.raises(UserError, match="sample_weight"):
        made(name).fit(X, y, **options)


@pytest.mark.parametrize("name", ARRAYS)
def test_a_fit_that_fails_leaves_the_earlier_one_whole(name):
    X, y = example(made(name))
    system = made(name).fit(X, y)
    score = system.score(X, y)
    narrow = np.ones((10, 3))
    for spoiled, options in ((np.full((10, 3), np.inf), {}), (narrow, {"sample_weight": np.zeros(10)})):
        with pytest.raises(UserError):
            system.fit(spoiled, np.arange(10) % 2, **options)
        assert system.score(X, y) == score
        assert system.n_features_in_ == 5


@pytest.mark.parametrize("name", ["ppca", "bernoulli-mixture", "rbm"])
@pytest.mark.parametrize("n", [-1, 1.5, "3", None, 2**40])
def test_numbers_of_samples_that_are_none(name, n):
    X, y = example(made(name))
    with pytest.raises(UserError, match="n is"):
        made(name).fit(X, y).sample(n)


def test_every_verb_says_that_nothing_is_fitted():
    X = np.eye(5)
    rbm, ppca = made("rbm"), made("ppca")
    verbs = [rbm.sample, rbm.log_partition, ppca.get_covariance, lambda: ppca.inverse_transform(X[:, :2])]
    for verb in [*verbs, lambda: rbm.evaluate(X), lambda: ppca.log_prob(X)]:
        with pytest.raises(NotFittedError):
            verb()


@pytest.mark.filterwarnings("ignore:.*distinct rows")
@pytest.mark.parametrize(("name", "parameter"), [("rbm", "n_hidden"), ("bernoulli-mixture", "n_components")])
def test_a_model_that_no_memory_holds_is_refused(name, parameter):
    X, y = example(made(name))
    with pytest.raises(UserValueError, match=f"too large.*{parameter}"):
        made(name).set_params(**{parameter: 10**20}).fit(X, y)


WEIGHTED = {
    "linear-regression": ("linear-regression", {"l2": 0.1}),
    "linear-regression, L1": (
        "linear-regression",
        {"solver": "gradient", "optimizer": "sgd", "epochs": 30, "learning_rate": 0.2, "l1": 0.05},
    ),
    "bayesian-regression": ("bayesian-regression", {}),
    "softmax-regression": ("softmax-regression", {"batch_size": None, "epochs": 10}),
    "mlp": ("mlp", {}),
    "mlp-regression": ("mlp-regression", {}),
    "ppca, closed form": ("ppca", {"method": "closed"}),
    "ppca, EM": ("ppca", {"method": "em", "max_iter": 12, "tol": 0.0}),
    "ppca, missing values": ("ppca", {"max_iter": 12, "tol": 0.0}),
    "bernoulli-mixture": ("bernoulli-mixture", {"max_iter": 12, "tol": 0.0}),
    "gaussian-mixture, full": ("gaussian-mixture", {"max_iter": 12, "tol": 0.0}),
    "gaussian-mixture, spherical": ("gaussian-mixture", {"covariance": "spherical", "max_iter": 12, "tol": 0.0}),
    "gaussian-classifier": ("gaussian-classifier", {}),
    "rbm, exact": ("rbm", {"objective": "exact", "batch_size": None, "epochs": 5}),
    "rbm, PCD-2": ("rbm", {"objective": PCD(k=2, n_chains=7), "batch_size": None, "epochs": 5}),
}
"""Ways to fit in which no random number belongs to a row."""


@pytest.mark.parametrize("way", WEIGHTED)
def test_a_weight_is_so_many_rows(way):
    """In every sum of the fit, the initial values' and the record's included; 0 is no row at all."""
    name, changes = WEIGHTED[way]
    system = gnomon.make(name, **{"random_state": 0, **entry(name).tiny, **changes})
    X, y = example(system)
    if "missing" in way:
        X[::6, 1] = np.nan
    weight = np.random.default_rng(1).integers(0, 4, size=len(X))
    found = arrays_of(system.fit(X, y, sample_weight=weight.astype(float)))
    history = system.history_
    system.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    for key, value in arrays_of(system).items():
        np.testing.assert_allclose(found[key], value, rtol=0, atol=1e-9, err_msg=key)
    for key, values in system.history_.items():
        np.testing.assert_allclose(history[key], values, rtol=0, atol=1e-9, err_msg=key)
