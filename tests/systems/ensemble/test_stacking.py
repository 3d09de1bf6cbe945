"""Stacking: out-of-fold predictions against the peer's, one layer by hand, layers apart, resume, folders."""

import json

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import StackingClassifier, StackingRegressor
from sklearn.linear_model import LinearRegression as PeerLine
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import PredefinedSplit, cross_val_predict
from sklearn.tree import DecisionTreeClassifier

import gnomon
from gnomon.errors import UserError
from gnomon.numeric.noise import Noise
from gnomon.runs.folder import RunFolder
from gnomon.systems.ensemble.bagging import BaggingRegression
from gnomon.systems.ensemble.folds import assign, out_of_fold
from gnomon.systems.ensemble.stacking import Stacking, StackingRegression

X, Y = load_iris(return_X_y=True)
MEMBERS = "decision-tree+logistic-regression"


def arrays(system):
    return {name: np.array(value) for name, value in system.model_.state().items()}


def same(a, b):
    a, b = arrays(a), arrays(b)
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


@pytest.mark.spec("DLN-52")
def test_out_of_fold_predictions_are_the_peers():
    folds = assign(150, 5, Noise(0, "folds"), codes=Y)
    counts = np.array([np.bincount(Y[folds == f], minlength=3) for f in range(5)])
    assert (counts == 10).all()
    ours = out_of_fold(gnomon.make("decision-tree", max_depth=3, random_state=0), X, Y, folds)
    seed = gnomon.make("decision-tree", random_state=0).fit(X, Y).model_.estimator.random_state
    peer = cross_val_predict(
        DecisionTreeClassifier(max_depth=3, random_state=seed), X, Y, cv=PredefinedSplit(folds), method="predict_proba"
    )
    np.testing.assert_allclose(ours, peer, atol=1e-12)


@pytest.mark.spec("DLN-52")
def test_groups_weights_and_a_class_that_one_fold_alone_has():
    """Folds are any codes: whole groups here. By hand, fold by fold; a class unknown to a fit has probability 0."""
    random = np.random.default_rng(0)
    group = np.arange(60) % 4 * 10  # no row of a group helps to predict another of it
    points, weight = random.normal(size=(60, 2)), random.uniform(0.5, 2, size=60)
    y = np.where(
        group == 20, np.array(["a", "b", "c"])[np.arange(60) // 4 % 3], np.array(["a", "c"])[random.integers(0, 2, 60)]
    )
    system = gnomon.make("logistic-regression")
    found = out_of_fold(system, points, y, group, sample_weight=weight)
    for code in (0, 10, 20, 30):
        inside = group == code
        fitted = gnomon.make("logistic-regression").fit(points[~inside], y[~inside], sample_weight=weight[~inside])
        places = [["a", "b", "c"].index(label) for label in fitted.classes_]
        expected = np.zeros((inside.sum(), 3))
        expected[:, places] = fitted.predict_proba(points[inside])
        np.testing.assert_allclose(found[inside], expected, atol=1e-12)
    assert (found[group == 20, 1] == 0).all() and (found[group != 20, 1] > 0).all()
    target = points @ [1.0, 2.0] + random.normal(size=60)
    lines = out_of_fold(gnomon.make("linear-regression"), points, target, group, sample_weight=weight)
    for code in (0, 10, 20, 30):
        inside = group == code
        peer = PeerLine().fit(points[~inside], target[~inside], sample_weight=weight[~inside])
        np.testing.assert_allclose(lines[inside, 0], peer.predict(points[inside]), atol=1e-10)


@pytest.mark.spec("DLN-52")
def test_random_labels_give_chance_out_of_fold():
    random = np.random.default_rng(0)
    points, labels = random.normal(size=(400, 5)), random.integers(0, 2, 400)
    folds = assign(400, 5, Noise(1, "folds"), codes=labels)
    right = (out_of_fold(gnomon.make("decision-tree", random_state=0), points, labels, folds).argmax(1) == labels).sum()
    low, high = binom.ppf([5e-5, 1 - 5e-5], 400, 0.5)  # false alarm about 1e-4
    assert low <= right <= high
    # while the same tree knows all labels that it has seen
    assert gnomon.make("decision-tree", random_state=0).fit(points, labels).score(points, labels) == 1


@pytest.mark.spec("DLN-52")
def test_folds_part_the_rows():
    for n, k in ((7, 3), (10, 10), (100, 7)):
        sizes = np.bincount(assign(n, k, Noise(2, "folds")), minlength=k)
        assert sizes.sum() == n and sizes.max() - sizes.min() <= 1
    with pytest.raises(UserError, match="5 folds of n_samples = 3"):
        assign(3, 5, Noise(0, "folds"))


@pytest.mark.spec("DLN-50", "DLN-52")
def test_one_layer_by_hand():
    members = [("tree", gnomon.make("decision-tree", max_depth=2, random_state=1)),
               ("line", gnomon.make("logistic-regression", random_state=2))]  # fmt: skip
    fitted = Stacking(members=members, folds=3, random_state=5).fit(X, Y)
    folds = assign(150, 3, Noise(5, "fit").child("folds/0"), codes=Y)
    z = np.hstack([out_of_fold(system, X, Y, folds) for _, system in members])
    head = gnomon.make("logistic-regression").fit(z, Y)
    whole = np.hstack([gnomon.make(s.name, **s.get_params()).fit(X, Y).predict_proba(X) for _, s in members])
    np.testing.assert_allclose(fitted.transform(X), whole, atol=1e-12)
    np.testing.assert_allclose(fitted.predict_proba(X), head.predict_proba(whole), atol=1e-9)


@pytest.mark.spec("DLN-50")
@pytest.mark.filterwarnings("ignore:.*fitted without error")  # by the combiner, on purpose
def test_the_combiner_recovers_the_one_member_that_knows():
    points, y = load_diabetes(return_X_y=True)
    points, y = points[:200], points[:200, 2] * 1000 + 3
    noise = np.random.default_rng(0).normal(size=(200, 3))
    table = np.hstack([points, noise])
    members = [("knows", gnomon.make("linear-regression")), ("guesses", gnomon.make("regression-tree", max_leaves=2))]
    fitted = StackingRegression(members=members, folds=4, random_state=0).fit(table, y)
    np.testing.assert_allclose(fitted.predict(table), y, atol=1e-6)
    z = fitted.transform(table)
    np.testing.assert_allclose(PeerLine().fit(z, fitted.predict(table)).coef_, [1, 0], atol=1e-6)
    # one member and a combiner that finds the identity: the member itself
    alone = StackingRegression(members=[members[0]], folds=4, random_state=0).fit(points, y)
    direct = gnomon.make("linear-regression").fit(points, y)
    np.testing.assert_allclose(alone.predict(points), direct.predict(points), atol=1e-6)


PEER_FOLDS = PredefinedSplit(assign(200, 4, Noise(3, "fit").child("folds/0")))


@pytest.mark.spec("DLN-50", "DLN-52")
@pytest.mark.parametrize("weighted", [False, True])
def test_the_peers_regression_to_rounding(weighted):
    """The same folds and linear members: out-of-fold features, refits and combiner, with weights of rows."""
    points, y = (value[:200] for value in load_diabetes(return_X_y=True))
    weight = np.random.default_rng(0).uniform(0.2, 3, size=200) if weighted else None
    members = [("line", gnomon.make("linear-regression", standardize=False)),
               ("ridge", gnomon.make("linear-regression", standardize=False, l2=0.002))]  # fmt: skip
    ours = StackingRegression(members=members, folds=4, random_state=3).fit(points, y, sample_weight=weight)
    # alpha = W l2, with the weight W of the rows that a fit sees: of the folds' fits too
    peers = [("line", PeerLine()), ("ridge", _Ridge(0.002))]
    theirs = StackingRegressor(peers, PeerLine(), cv=PEER_FOLDS).fit(points, y, sample_weight=weight)
    np.testing.assert_allclose(ours.transform(points), theirs.transform(points), rtol=1e-8)
    np.testing.assert_allclose(ours.predict(points), theirs.predict(points), rtol=1e-6)


class _Ridge(Ridge):
    """Ridge whose penalty counts the rows, as ours does."""

    def fit(self, X, y, sample_weight=None):
        total = len(X) if sample_weight is None else np.sum(sample_weight)
        peer = Ridge(self.alpha * total).fit(X, y, sample_weight)
        self.coef_, self.intercept_ = peer.coef_, peer.intercept_
        return self


@pytest.mark.spec("DLN-50", "DLN-52")
@pytest.mark.parametrize("classes", [2, 3])
def test_the_peers_classifier_to_the_solvers_precision(classes):
    """Of two classes one column per member goes on, of more all of them."""
    rows = np.isin(Y, range(classes))
    points, y = X[rows] + np.random.default_rng(0).normal(size=(rows.sum(), 4)), Y[rows]
    n, l2 = len(y), 0.05
    options = {"l2": l2, "standardize": False, "tol": 1e-10}
    members = [("logit", gnomon.make("logistic-regression", **options)), ("tree", gnomon.make("decision-tree",
               max_depth=1, random_state=0))]  # fmt: skip
    ours = Stacking(members=members, final=gnomon.make("logistic-regression", **options), folds=5, random_state=1)
    ours.fit(points, y)
    seed = ours.members_["0-tree"].model_.estimator.random_state
    folds = PredefinedSplit(assign(n, 5, Noise(1, "fit").child("folds/0"), codes=y))
    exact = {"tol": 1e-12, "max_iter": 10_000}
    peers = [("logit", LogisticRegression(C=1 / (0.8 * n * l2), **exact)),
             ("tree", DecisionTreeClassifier(max_depth=1, random_state=seed))]  # fmt: skip
    # every fold leaves four fifths of the rows; the member of all rows is refitted with their own penalty
    theirs = StackingClassifier(peers, LogisticRegression(C=1 / (n * l2), **exact), cv=folds).fit(points, y)
    theirs.estimators_[0] = LogisticRegression(C=1 / (n * l2), **exact).fit(points, y)
    z = theirs.transform(points)
    assert ours.transform(points).shape == z.shape == (n, 2 if classes == 2 else 6)
    np.testing.assert_allclose(ours.transform(points), z, atol=1e-5)
    np.testing.assert_allclose(ours.predict_proba(points), theirs.predict_proba(points), atol=1e-5)


@pytest.mark.spec("DLN-51")
def test_layers_apart_share_no_row_and_take_what_the_layer_below_says():
    options = {"members": "decision-tree+logistic-regression", "folds": 3, "layers": 2, "apart": True}
    fitted = Stacking(average=True, random_state=4, **options).fit(X, Y)
    noise = Noise(4, "fit")
    table = type("Table", (), {"X": X, "y": Y})
    rows = [fitted.model_.layer_rows(i, table, noise) for i in range(2)]
    assert not set(rows[0]) & set(rows[1])
    assert sorted([*rows[0], *rows[1]]) == list(range(150))
    # the second layer's members have met nothing but the second part, as the first layer sees it
    parts = fitted.members_
    z = np.hstack([parts[f"0-{name}"].predict_proba(X[rows[1]]) for name in ("decision_tree", "logistic_regression")])
    again = gnomon.make("logistic-regression").fit(z, Y[rows[1]])
    np.testing.assert_allclose(parts["1-logistic_regression"].coef_, again.coef_, atol=1e-8)
    layers = [fitted.predict_layer(X, i) for i in range(2)]
    np.testing.assert_allclose(fitted.predict_proba(X), np.mean(layers, axis=0), atol=1e-12)
    last = Stacking(random_state=4, **options).fit(X, Y)
    np.testing.assert_allclose(last.predict_proba(X), last.predict_layer(X, 1), atol=1e-12)
    with pytest.raises(UserError, match=r"must be in 0 \.\.\. 1"):
        fitted.predict_layer(X, 2)


@pytest.mark.spec("DLN-51")
@pytest.mark.parametrize("apart", [False, True])
def test_layers_of_a_regression_and_the_mean_of_them(apart):
    """Lines on lines: by least squares on the rows of each layer, whose parts share none."""
    points, y = (value[:90] for value in load_diabetes(return_X_y=True))
    options = {"members": [("line", gnomon.make("linear-regression"))], "folds": 3, "layers": 2, "apart": apart}
    system = StackingRegression(average=True, random_state=2, **options).fit(points, y)
    part = assign(90, 2, Noise(2, "fit").child("parts"))
    rows = [np.flatnonzero(part == layer) if apart else np.arange(90) for layer in (0, 1)]
    inputs, new, answers = points[rows[0]], points, []
    for layer in (0, 1):
        target = y[rows[layer]]
        folds = assign(len(target), 3, Noise(2, "fit").child(f"folds/{layer}"))
        said = cross_val_predict(PeerLine(), inputs, target, cv=PredefinedSplit(folds))[:, None]
        new = PeerLine().fit(inputs, target).predict(new)[:, None]
        answers.append(PeerLine().fit(said, target).predict(new))
        np.testing.assert_allclose(system.predict_layer(points, layer), answers[-1], rtol=1e-7)
        inputs = new[rows[1]] if apart else said
    np.testing.assert_allclose(system.predict(points), np.mean(answers, axis=0), rtol=1e-7)
    last = StackingRegression(random_state=2, **options).fit(points, y)
    np.testing.assert_allclose(last.predict(points), answers[1], rtol=1e-7)


@pytest.mark.spec("DLN-51", "DLN-50")
def test_one_layer_of_layers_is_stacking():
    plain = Stacking(members=MEMBERS, folds=3, random_state=0).fit(X, Y)
    layered = Stacking(members=MEMBERS, folds=3, layers=1, apart=True, average=True, random_state=0).fit(X, Y)
    assert same(plain, layered)
    np.testing.assert_array_equal(plain.predict_proba(X), layered.predict_proba(X))
    deep = Stacking(members=MEMBERS, folds=3, layers=2, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(deep.predict_layer(X, 0), plain.predict_proba(X))


@pytest.mark.spec("DLN-51", "DLN-52")
def test_the_second_layer_of_all_rows_is_fitted_to_what_the_first_says_out_of_fold():
    """By hand: predictions of rows that a member has seen would leak their labels into the layer above."""
    members = [("line", gnomon.make("logistic-regression", l2=0.3)),
               ("tree", gnomon.make("decision-tree", random_state=7))]  # fmt: skip
    deep = Stacking(members=members, folds=3, layers=2, average=True, random_state=5).fit(X, Y)
    blank = [system for _, system in members]  # the tree knows every row that it has seen
    inputs, new, answers = X, X, []
    for layer in range(2):
        folds = assign(150, 3, Noise(5, "fit").child(f"folds/{layer}"), codes=Y)
        said = np.hstack([out_of_fold(system, inputs, Y, folds) for system in blank])
        new = np.hstack([gnomon.make(s.name, **s.get_params()).fit(inputs, Y).predict_proba(new) for s in blank])
        answers.append(gnomon.make("logistic-regression").fit(said, Y).predict_proba(new))
        inputs = said
        np.testing.assert_allclose(deep.predict_layer(X, layer), answers[-1], atol=1e-8)
    np.testing.assert_allclose(deep.transform(X), new, atol=1e-8)
    np.testing.assert_allclose(deep.predict_proba(X), np.mean(answers, axis=0), atol=1e-8)


@pytest.mark.spec("DLN-50")
def test_any_kind_of_member_stops_after_every_step_and_ends_the_same(tmp_path):
    make = lambda: Stacking(  # noqa: E731
        members=["softmax-regression", gnomon.make("mlp", hidden=(4,), epochs=3), "random-forest"], folds=2,
        random_state=0,
    ).set_params(softmax_regression__epochs=5, random_forest__n_trees=3)  # fmt: skip
    points, labels = X[::3], np.array(["x", "y", "z"])[Y[::3]]
    whole = make().fit(points, labels)
    assert whole.n_steps_ == 3 * 3 + 1
    for stop in (1, 5, 9):
        begun = make()
        table = begun.ingest(points, labels)
        begun._fit(table, begun._open(tmp_path / f"run-{stop}", table), limit=stop)
        fresh = make()
        again = fresh.ingest(points, labels)
        fresh._fit(again, fresh._open(RunFolder.open(tmp_path / f"run-{stop}"), again))
        assert same(whole, fresh)
        for name, part in whole.members_.items():
            assert part.history_ == fresh.members_[name].history_
    loaded = gnomon.load(tmp_path / "run-5")
    assert same(whole, loaded)
    np.testing.assert_array_equal(whole.predict_proba(points), loaded.predict_proba(points))
    assert loaded.members_["0-mlp"].history_ == whole.members_["0-mlp"].history_
    alone = gnomon.load(tmp_path / "run-5" / "members" / "0-mlp")
    np.testing.assert_array_equal(alone.predict(points), whole.members_["0-mlp"].predict(points))


def test_addresses_and_names():
    system = Stacking(members="decision-tree+decision-tree")
    assert {"decision_tree__max_depth", "decision_tree_2__max_depth", "final__l2"} <= set(system.get_params())
    tree = gnomon.make("decision-tree")
    system = Stacking(members=[("a", tree)]).set_params(a__max_depth=2, final__l2=0.5)
    assert (tree.max_depth, system.members[0][1].max_depth, system.final.l2) == (None, 2, 0.5)
    for members, said in (
        ([("a", tree), ("a", tree)], "two members"), ([], "members must be a list"), ([3], "must be a system"),
        ([("final", tree)], "final"),
        ([("A b", tree)], "called 'A b'"), ("regression-tree", "must be a classifier"),
    ):  # fmt: skip
        with pytest.raises(UserError, match=said) as caught:
            Stacking(members=members).fit(X, Y)
        assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match="max_depth"):
        system.set_params(a__max_deph=3)


def test_a_fitted_system_keeps_its_layers_when_the_parameter_is_set_anew():
    fitted = Stacking(members=MEMBERS, folds=2, layers=2, random_state=0).fit(X, Y)
    before, second = fitted.transform(X), fitted.predict_layer(X, 1)
    for layers in (1, 3):
        fitted.set_params(layers=layers)
        np.testing.assert_array_equal(fitted.transform(X), before)
        np.testing.assert_array_equal(fitted.predict_layer(X, 1), second)
        with pytest.raises(UserError, match=r"must be in 0 \.\.\. 1, got 2"):
            fitted.predict_layer(X, 2)


@pytest.mark.parametrize("layers", ["many", -1, []])
def test_a_saved_parameter_that_no_fit_takes_is_refused_when_loaded(layers, tmp_path):
    Stacking(members=MEMBERS, folds=2, random_state=0).fit(X, Y).save(tmp_path / "m")
    file = tmp_path / "m" / "config.json"
    config = json.loads(file.read_text())
    config["parameters"]["layers"] = layers
    config.pop("digest")  # as of a run from before there were any
    file.write_text(json.dumps(config))
    with pytest.raises(UserError, match=r"config\.json.*layers") as told:
        gnomon.load(tmp_path / "m")
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("given", ["stacked", "bagged", "nested"])
def test_a_member_that_depends_on_the_targets_unit_is_given_its_spread(given, tmp_path):
    """Dollars or thousands of dollars: the same answers, from the fit, its run and the saved model."""
    bagged = BaggingRegression(base="support-vector-regression", n_members=2)
    system = {
        "stacked": StackingRegression(members="support-vector-regression+linear-regression", folds=3),
        "bagged": bagged,
        "nested": StackingRegression(members=[("bagged", bagged), "linear-regression"], folds=2),
    }[given].set_params(random_state=0)
    table = gnomon.data.load("diabetes")
    X, y = table.X[:120], table.y[:120]
    found = []
    for unit, shift in ((1.0, 0.0), (1e-4, 0.0), (1e5, -3e6)):
        data = gnomon.data.Dataset("d", X=X, y=unit * y + shift, columns=table.columns)
        fitted = gnomon.fit(clone(system), data)
        assert fitted.preparation_.target == pytest.approx((data.y.mean(), data.y.std()))
        found.append((fitted.predict(X) - shift) / unit)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-3)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-3)
    run = tmp_path / "run"
    gnomon.fit(clone(system), data, run=run)
    np.testing.assert_allclose((gnomon.load(run).predict(X) + 3e6) / 1e5, found[0], rtol=1e-3)
    fitted.save(tmp_path / "saved")
    np.testing.assert_array_equal(gnomon.load(tmp_path / "saved").predict(X), fitted.predict(X))


def test_a_line_is_among_the_members_of_a_regression():
    """What a line says almost exactly no forest and no machine takes away."""
    random, slope = np.random.default_rng(0), [1.0, -2.0, 0.5]
    rows, new = random.normal(size=(80, 3)), random.normal(size=(20, 3))
    target = rows @ slope + 0.001 * random.normal(size=80)
    fitted = StackingRegression(random_state=0).set_params(random_forest_regression__n_trees=5).fit(rows, target)
    np.testing.assert_allclose(fitted.predict(new), new @ slope, atol=0.01)
