"""Learning and validation curves against scikit-learn on the same rows, and power laws of errors."""

import itertools
import json

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression as Peer
from sklearn.linear_model import Ridge
from sklearn.model_selection import PredefinedSplit
from sklearn.model_selection import validation_curve as peer_curve
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import gnomon
from gnomon.cli.main import run as command
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.power_law import PowerLaw
from gnomon.evaluation.score import Score
from gnomon.search.curves import learning_curve, validation_curve
from gnomon.search.records import Curve, Point, capacity_effect


@pytest.mark.spec("PRA-066")
def test_an_exact_power_law_is_recovered_extended_and_solved():
    for a, b, c in ((0.1, 2.0, 0.5), (0.0, 3.0, 1.0), (0.25, 0.4, 0.3)):
        n = 100 * 2.0 ** np.arange(3 if a == 0.1 else 6) ** (2 if a == 0.1 else 1)
        law = PowerLaw.fit(n, a + b * n**-c)
        np.testing.assert_allclose([law.a, law.b, law.c], [a, b, c], rtol=1e-5, atol=1e-7)
        target = a + b * 1e6**-c
        assert law.size_for(target) == pytest.approx(1e6, rel=1e-3)
    law = PowerLaw.fit([100, 400, 1600], [0.3, 0.2, 0.15])
    assert law.predict(6400) == pytest.approx(0.125, abs=1e-7)
    with pytest.raises(UserValueError, match=r"target must be above 0.1, which no number of examples goes below"):
        law.size_for(0.09)
    assert np.isnan(law.interval(6400)).all()  # three points leave nothing to judge by


@pytest.mark.parametrize(
    ("a", "b", "c", "target", "size"),
    [
        (0.1, 2, 0.5, 2.1, 1), (0.1, 2, 0.5, 5.0, 1), (0.1, 2, 0.5, 0.1, None), (0.1, 2, 0.5, 0.3, 100),
        (0.1, 0, 0.5, 0.2, 1), (0.1, 0, 0.5, 0.1, 1), (0.1, 0, 0.5, 0.09, None),
        (0.1, 2, 0, 2.2, 1), (0.1, 2, 0, 2.1, 1), (0.1, 2, 0, 1.0, None), (0.0, 2, 1e-4, 1.0, np.inf),
        (0.1, 2, 0.5, np.nan, None),
    ],
)  # fmt: skip
def test_the_size_for_a_target_at_the_edges_of_the_law(a, b, c, target, size):
    """A law that is level says 1 or never; no target asks for less than one example."""
    law = PowerLaw(a, b, c, np.full((3, 3), np.nan), 3)
    if size is None:
        floor = a + b if c == 0 else a
        with pytest.raises(UserValueError, match=f"target must be above {floor:.4g}, which"):
            law.size_for(target)
    else:
        assert law.size_for(target) == pytest.approx(size)


@pytest.mark.spec("PRA-066")
def test_intervals_of_extensions_cover():
    """Errors of 8 sizes with known noise: the 95 % interval at four times the last covers in 85 to 100 % of 200."""
    random, n = np.random.default_rng(0), 50 * 2.0 ** np.arange(8)
    truth = lambda x: 0.1 + 2 * x**-0.5  # noqa: E731
    hits = 0
    for _ in range(200):
        law = PowerLaw.fit(n, truth(n) + 0.004 * random.normal(size=8))
        low, high = law.interval(4 * n[-1])
        hits += low <= truth(4 * n[-1]) <= high
    assert 170 <= hits <= 200


@pytest.mark.parametrize(
    ("sizes", "errors"),
    [
        ([1, 2], [0.2, 0.1]), ([1, 1, 2], [1, 1, 1]), ([0, 1, 2], [1, 1, 1]), ([1, 2, 3], [1, np.nan, 1]),
        ([1, 2, 3], [1, -1, 1]),
    ],
)  # fmt: skip
def test_errors_that_are_none_are_refused(sizes, errors):
    with pytest.raises(UserValueError):
        PowerLaw.fit(sizes, errors)


def line(n=90, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 4))
    return X, X @ [1.0, -2.0, 0.5, 0.0] + random.normal(size=n)


@pytest.mark.spec("PRA-066")
def test_a_learning_curve_is_the_mean_over_subsets_that_the_peer_finds():
    X, y = line()
    curve = learning_curve("linear-regression", X, y, sizes=[10, 20, 54], repeats=3, seed=5)
    train, _ = gnomon.data.split((X, y), test=0.2)
    own, held = gnomon.data.split(train, test=0.25)
    random = np.random.default_rng(5)
    assert len(own[0]) == 54
    for point, size in zip(curve.points, (10, 20, 54), strict=True):
        errors = []
        for _ in range(3 if size < 54 else 1):
            rows = random.permutation(54)[:size]
            peer = Peer().fit(own[0][rows], own[1][rows])
            errors.append([np.mean((b - peer.predict(a)) ** 2) for a, b in ((own[0][rows], own[1][rows]), held)])
        assert (point.value, point.train.value, point.validation.value) == pytest.approx(
            (size, *np.mean(errors, axis=0))
        )
    assert curve.best.value == min(curve.points, key=lambda one: one.validation.value).value


@pytest.mark.spec("PRA-066")
def test_sizes_double_and_a_law_is_fitted_where_there_is_one():
    random = np.random.default_rng(1)
    y = np.arange(1000) % 2
    X = random.normal(size=(1000, 30)) + 0.35 * y[:, None]
    curve = learning_curve("logistic-regression", X, y, repeats=2)
    assert [point.value for point in curve.points] == [16, 32, 64, 128, 256, 512, 600]
    errors = [1 - one.validation.value for one in curve.points]
    assert curve.trend.predict(600) == pytest.approx(errors[-1], abs=0.05) and curve.trend.n == 7
    assert "errors fall as" in str(curve) and curve.to_json()["trend"]["points"] == 7
    for sizes in ([1, 20], [20, 601], []):
        with pytest.raises(UserValueError, match=r"sizes must be in \[2, 600\]"):
            learning_curve("logistic-regression", X, y, sizes=sizes)


@pytest.mark.spec("PRA-067")
def test_a_validation_curve_is_the_peers_on_the_same_folds():
    x, y = line(80)
    X = PolynomialFeatures(3, include_bias=False).fit_transform(x[:, :2])
    penalties = [1e-4, 1e-2, 1.0, 100.0]
    curve = validation_curve("linear-regression", X, y, over="l2", values=penalties, folds=4)
    (train, target), _ = gnomon.data.split((X, y), test=0.2)
    from gnomon.data.given import dataset_of
    from gnomon.tasks.base import task

    fold = np.empty(len(train), int)
    for k, (_, held) in enumerate(task("regress").folds(dataset_of(train, target), 4)):
        fold[np.asarray(held.rows)] = k
    scaled = make_pipeline(StandardScaler(), Ridge())
    n = len(train) * 3 / 4
    own, held = peer_curve(
        scaled, train, target, param_name="ridge__alpha", param_range=[n * one for one in penalties],
        cv=PredefinedSplit(fold), scoring="neg_mean_squared_error",
    )  # fmt: skip
    found = np.array([[one.train.value, one.validation.value] for one in curve.points])
    np.testing.assert_allclose(found, np.column_stack([-own.mean(1), -held.mean(1)]), rtol=0.02)
    # exact: less is learned of the training rows the more is paid for size
    assert (np.diff(found[:, 0]) >= 0).all() and found[-1, 0] > 2 * found[0, 0]
    assert curve.best.value in penalties and "raising l2: capacity down" in str(curve)


@pytest.mark.spec("PRA-067")
def test_what_raising_a_hyper_parameter_does_to_capacity():
    table = {"n_hidden": "up", "kernel_size": "up", "padding": "up", "l2": "down", "dropout": "down",
             "learning_rate": "highest at its optimum", "random_state": ""}  # fmt: skip
    assert {name: capacity_effect(name) for name in table} == table


def test_a_fit_that_fails_is_a_point_and_the_worst():
    curve = validation_curve("kmeans", line(60)[0], over="n_clusters", values=[2, 3, 500])
    assert curve.points[-1].validation is None and "500" in curve.points[-1].reason
    assert curve.best.value in (2, 3) and "failed" in str(curve)
    with pytest.raises(UserValueError, match="every fit failed: no"):
        _ = Curve("k", "accuracy", True, [Point(1, None, None, "no")]).best


def test_the_command_draws_and_tells(capsys, tmp_path):
    words = ["curve", "decision-tree", "iris", "--over", "max_depth=1,2,3", "--out", str(tmp_path / "c.svg")]
    assert command(words) == 0
    out = capsys.readouterr().out
    assert out.startswith("accuracy on training and validation rows\nmax_depth  training") and "best" in out
    assert (tmp_path / "c.svg").read_text().lstrip().startswith("<?xml")
    assert command(["curve", "logistic-regression", "iris", "--sizes", "20,60", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["over"] == "rows" and [one["value"] for one in found["points"]] == [20, 60]
    for wrong, said in ((["--sizes", "a"], "whole numbers"), (["--sizes", "9", "--over", "max_depth=1"], "one axis")):
        assert command(["curve", "decision-tree", "iris", *wrong]) == 2
        assert said in capsys.readouterr().err


def test_folds_are_joined_row_by_row_and_subsets_are_no_copies_of_the_same_rows():
    """The error over the examples of four folds is that of all their rows, not of rows averaged place by place."""
    X, y = line(60)
    options = {"over": "l2", "values": [1e-4], "folds": 4}
    (point,) = validation_curve("linear-regression", X, y, **options).points
    train, _ = gnomon.data.split((X, y), test=0.2)
    lines = gnomon.compare([gnomon.LinearRegression(l2=1e-4)], *train, folds=4)[0].lines
    score = next(one.score for one in lines if one.name == "linear-regression")
    assert (point.validation.value, point.validation.stderr) == pytest.approx((score.value, score.stderr))
    assert point.validation.n == 48
    curve = learning_curve("linear-regression", X, y, sizes=[20], repeats=3)
    assert curve.points[0].train.pointwise is None  # three subsets are no 20 rows measured three times


def test_sizes_of_folds_that_differ_by_one_row():
    X, y = line(61)
    curve = learning_curve("linear-regression", X, y, folds=4, repeats=1)
    assert all(not one.reason for one in curve.points) and curve.points[-1].value == 36
    for sizes in ("20", [20.5], [True]):
        with pytest.raises(UserTypeError):
            learning_curve("linear-regression", X, y, sizes=sizes)


def bowl(rates, epochs, curvature=4.0):
    """A sweep of f(w) = a w^2 / 2 from one weight w: rows x = +-sqrt(a), y = 0, so that the mean of (w x)^2 / 2 is f.

    The squares of its points are a w_k^2, beside that of a rate of 0.
    """
    x = curvature**0.5 * np.resize([1.0, -1.0], 80)[:, None]
    system = gnomon.MLPRegression(
        hidden=(), standardize=False, optimizer="sgd", batch_size=None, epochs=epochs, l2=0.0, random_state=0
    )
    options = {"over": "learning_rate", "best_on": "training", "folds": 4}
    curve = validation_curve(system, x, np.zeros(80), values=[1e-15, *rates], **options)
    begin = curve.points[0].train.value
    return curve, [None if one.train is None else one.train.value / begin for one in curve.points[1:]]


@pytest.mark.filterwarnings("ignore:the loss .squared_error. grew")  # which a sweep is to see
@pytest.mark.spec("PRA-068")
@pytest.mark.parametrize("curvature", [1.0, 4.0])
def test_a_sweep_of_rates_on_a_bowl_by_closed_form(curvature):
    """After k steps w_k = (1 - rate a)^k w_0: 1 / a solves in one, 2 / a keeps |w|, 2.1 / a grows as 1.1^k."""
    factors = np.array([0.01, 0.1, 0.5, 1.0, 1.5, 2.0, 2.1])
    for steps in (1, 2, 7):
        curve, found = bowl(list(factors / curvature), steps, curvature)
        np.testing.assert_allclose(found, (1 - factors) ** (2 * steps), rtol=1e-5, atol=1e-12)
        assert curve.best.value == 1 / curvature and curve.best_on == "training"
        assert found[-2] == pytest.approx(1, rel=1e-5) and found[-1] == pytest.approx(1.1 ** (2 * steps), rel=1e-5)
        # beyond twice the best rate the error grows, below it falls
        assert [one > 1 + 1e-5 for one in found] == [False] * 6 + [True]


@pytest.mark.filterwarnings("ignore:the loss .squared_error. grew")  # which a sweep is to see
@pytest.mark.spec("PRA-068")
def test_rates_that_run_away_are_shown_and_the_worst(tmp_path):
    """Infinite after one step, refused after more: neither is left out or wins; alone they say why."""
    curve, found = bowl([0.25, 1e200], 1)
    assert found[1] == np.inf and curve.best.value == 0.25 and "1e+200" in str(curve)
    curve, found = bowl([0.25, 1.0, 1e200], 2000)
    assert found[1:] == [None, None] and all("lower the learning rate" in one.reason for one in curve.points[2:])
    assert curve.best.value == 0.25 and str(curve).count("failed") == 2
    figure = curve.figure()
    (crosses,) = [one for one in figure.axes[0].lines if one.get_label() == "failed"]
    assert list(crosses.get_xdata()) == [1.0, 1e200] and figure.axes[0].get_xscale() == "log"
    assert [one["value"] for one in curve.to_json()["points"]] == [1e-15, 0.25, 1.0, 1e200]
    both = Curve("learning_rate", "error", False, [Point(1, None, None, "ran away")] * 2, best_on="training")
    with pytest.raises(UserValueError, match="every fit failed: ran away"):
        _ = both.best


@pytest.mark.spec("PRA-068")
def test_a_sweep_has_rates_factors_apart_and_the_same_training_for_each(capsys):
    """Seven rates from a thirtieth to thirty times that of the system; the least training error, not validation."""
    words = ["curve", "mlp:epochs=2,hidden=8", "iris", "--over", "learning-rate", "--best-on", "training", "--json"]
    assert command(words) == 0
    found = json.loads(capsys.readouterr().out)
    rates = [one["value"] for one in found["points"]]
    np.testing.assert_allclose(rates, gnomon.MLP().learning_rate * 30.0 ** np.linspace(-1, 1, 7), rtol=1e-3)
    best = max(found["points"], key=lambda one: one["train"]["value"])
    assert (found["best_on"], found["best"]) == ("training", best["value"])
    wrong = (
        (["mlp:early_stopping=patience", "iris", "--over", "learning_rate", "--best-on", "training"], "same training"),
        (["mlp", "iris", "--over", "learning_rate", "--best-on", "test"], "best_on must be one of"),
        (["mlp", "iris", "--best-on", "training"], "must be left out without --over"),
        (["mlp", "iris", "--over", "epochs"], "epochs has no range of its own"),
        (["mlp", "iris", "--over", "learn"], "learn"),
    )
    for arguments, said in wrong:
        assert command(["curve", *arguments]) == 2
        assert said in capsys.readouterr().err


def test_the_best_of_training_and_of_validation_rows_may_differ():
    scores = {1: (0.1, 0.4), 2: (0.2, 0.3)}
    points = [Point(k, *(Score(one, 0.0) for one in pair)) for k, pair in scores.items()]
    for rows, best in (("training", 1), ("validation", 2)):
        assert Curve("k", "error", False, points, best_on=rows).best.value == best


def test_a_best_rate_at_the_end_of_the_range_says_to_go_on():
    points = [Point(k, *(Score(k, 0.0),) * 2) for k in (1.0, 2.0, 3.0, 4.0)]
    assert "the best is the lowest value: try beyond it" in str(Curve("learning_rate", "error", False, points))
    assert "beyond" not in str(Curve("learning_rate", "error", False, points[1:2] + points[:1] + points[2:]))
    assert "beyond" not in str(Curve("max_depth", "error", False, points))


@pytest.mark.parametrize(
    "values", [(16, 32, 64, 128, 256, 341), (2, 3, 4, 6), (1e-4, 1e-3, 0.01, 0.1), tuple(range(2, 21)) + (35, 40, 45)]
)
def test_the_marks_of_a_picture_are_the_values_that_were_tried(values):
    """Names of marks that would touch are left out, not the marks; read off the drawn figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    points = [Point(one, Score(0.9, 0.01, name="accuracy"), Score(0.8, 0.01, name="accuracy")) for one in values]
    figure = Curve("max_depth", "accuracy", True, points).figure()
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    axis = figure.axes[0].xaxis
    assert axis.get_majorticklocs().tolist() == list(values) and not len(axis.get_minorticklocs())
    labels = [one for one in axis.get_ticklabels() if one.get_text()]
    boxes = [one.get_window_extent(canvas.get_renderer()) for one in labels]
    assert all(left.x1 + 1 < right.x0 for left, right in itertools.pairwise(boxes))
    assert float(labels[0].get_text()) == values[0] and float(labels[-1].get_text()) == values[-1]
    assert len(values) > 6 or len(labels) == len(values)
