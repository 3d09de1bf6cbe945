"""Estimators of scikit-learn inside Systems: bytes that are the same for the same fit, and that nobody can abuse."""

import json
import os
import pickle
import zipfile
from io import BytesIO

import numpy as np
import pytest
import skops.io
from sklearn.datasets import load_iris
from sklearn.linear_model import LinearRegression

import gnomon
from gnomon.errors import UserError
from gnomon.runs.codecs import pack, unpack
from gnomon.runs.estimators import PLAIN, _without_gaps, dumps, loads, types_in

X, Y = load_iris(return_X_y=True)
BACKED = ["logistic-regression", "svm", "decision-tree", "random-forest", "extra-trees", "adaboost",
          "gradient-boosting", "histogram-boosting"]  # fmt: skip


def made(name):
    return gnomon.make(name, random_state=0, **gnomon.catalog.entry(name).tiny)


class Evil:
    """Would run a command where it is unpickled."""

    def __reduce__(self):
        return os.system, ("touch /tmp/gnomon-was-here",)


@pytest.mark.parametrize("name", BACKED)
@pytest.mark.parametrize("k", [2, 3])
def test_what_is_written_are_the_types_that_the_system_names(name, k):
    fitted = made(name).fit(X[k > Y], Y[k > Y])
    content = fitted.model_.state()["estimator"].tobytes()
    assert types_in(content) <= PLAIN | set(fitted.types)
    again = loads(content, fitted.types)
    assert dumps(again) == content
    assert dumps(again) == dumps(fitted.model_.estimator)
    assert b"pickle" not in content


def test_hostile_bytes_are_refused_in_one_line_and_run_nothing(tmp_path):
    tree = made("decision-tree").fit(X, Y)
    own = tree.model_.state()["estimator"].tobytes()
    with zipfile.ZipFile(BytesIO(own)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    system = json.loads(files["schema.json"])
    system["content"]["content"]["criterion"] = {
        "__class__": "function", "__module__": "builtins", "__loader__": "FunctionNode",
        "content": {"module_path": "os", "function": "system"}, "__id__": 999,
    }  # fmt: skip

    def zipped(schema, compression=zipfile.ZIP_STORED):
        out = BytesIO()
        with zipfile.ZipFile(out, "w", compression) as archive:
            for name, content in {**files, "schema.json": json.dumps(schema).encode()}.items():
                archive.writestr(name, content)
        return out.getvalue()

    foreign = skops.io.dumps(LinearRegression().fit(X, Y))
    bomb = zipped(json.loads(files["schema.json"]), zipfile.ZIP_DEFLATED)
    for content, said in (
        (pickle.dumps(Evil()), "cannot be read"), (zipped(system), "builtins.function"), (foreign, "LinearRegression"),
        (own[:-40], "cannot be read"), (b"", "cannot be read"), (bomb, "compressed"),
    ):  # fmt: skip
        with pytest.raises(UserError, match=said) as caught:
            loads(content, tree.types)
        assert "\n" not in str(caught.value)
    assert not os.path.exists("/tmp/gnomon-was-here")


def test_a_folder_with_another_estimator_is_refused(tmp_path):
    folder = made("decision-tree").fit(X, Y).save(tmp_path / "tree")
    arrays, facts = unpack(folder / "model.safetensors")
    other = np.frombuffer(dumps(LinearRegression().fit(X, Y)), np.uint8)
    (folder / "model.safetensors").write_bytes(pack({"estimator": other}, facts))
    with pytest.raises(UserError, match="never writes"):
        gnomon.load(folder)
    (folder / "model.safetensors").write_bytes(pack({"estimator": arrays["estimator"].astype(np.int32)}, facts))
    with pytest.raises(UserError, match="do not fit"):
        gnomon.load(folder)


def test_the_gaps_between_the_fields_of_a_node_are_zero():
    dtype = np.dtype({"names": ["a", "b"], "formats": ["<i8", "u1"], "offsets": [0, 8], "itemsize": 16})
    found = []
    for junk in (0, 255):
        nodes = np.full(3 * 16, junk, np.uint8).view(dtype)
        nodes["a"], nodes["b"] = [1, 2, 3], 7
        out = BytesIO()
        np.save(out, nodes)
        found.append(_without_gaps(out.getvalue()))
    assert found[0] == found[1]
    assert np.load(BytesIO(found[1]))["a"].tolist() == [1, 2, 3]


@pytest.mark.parametrize("name", BACKED)
def test_labels_of_any_kind_give_the_same_predictions(name):
    random = np.random.default_rng(0)
    points = random.normal(size=(120, 2))
    base = (points[:, 0] > 0).astype(int) + (points[:, 1] > 1)
    plain = made(name).fit(points, base)
    for labels in (np.array(["high", "low", "mid"])[base], base * 2 - 1, base + 7, base.astype(float)):
        fitted = made(name).fit(points, labels)
        assert fitted.predict(points).dtype == labels.dtype
        np.testing.assert_array_equal(np.searchsorted(fitted.classes_, fitted.predict(points)), plain.predict(points))
    with pytest.raises(UserError, match="row 0"):
        made(name).fit(points, np.array([None, *["a", "b"] * 59, "a"], object))
    with pytest.raises(UserError, match="only one class"):
        made(name).fit(points, np.zeros(120))
    with pytest.raises(UserError, match="only one class is left"):
        made(name).fit(points, base, sample_weight=(base == 0).astype(float))
    assert made(name).fit(points, base > 0).predict(points).dtype == bool


@pytest.mark.parametrize("name", BACKED)
def test_a_row_of_no_weight_is_no_row_and_a_class_of_none_has_no_probability(name):
    weight = np.where(np.arange(150) % 5 == 0, 0.0, 1.0)
    weighted = made(name).fit(X, Y, sample_weight=weight)
    without = made(name).fit(X[weight > 0], Y[weight > 0])
    np.testing.assert_array_equal(weighted.predict(X), without.predict(X))
    lost = made(name).fit(X, Y, sample_weight=(Y != 1).astype(float))
    assert set(lost.predict(X)) <= {0, 2}
    if hasattr(lost, "predict_proba"):
        assert lost.predict_proba(X).shape == (150, 3)
        assert (lost.predict_proba(X)[:, 1] == 0).all()


@pytest.mark.parametrize("name", BACKED)
def test_single_precision_stays_and_generators_advance(name):
    single = made(name).fit(X.astype(np.float32), Y)
    if hasattr(single, "predict_proba"):
        assert single.predict_proba(X.astype(np.float32)).dtype == np.float32
        assert made(name).fit(X, Y).predict_proba(X).dtype == np.float64
    if name in ("random-forest", "extra-trees"):
        generator = np.random.default_rng(0)
        first, second = (made(name).set_params(random_state=generator).fit(X, Y) for _ in range(2))
        assert first.seed_ != second.seed_
        assert not np.array_equal(first.model_.state()["estimator"], second.model_.state()["estimator"])


@pytest.mark.parametrize("name", ["logistic-regression", "svm"])
def test_a_row_of_weight_three_is_three_rows(name):
    random = np.random.default_rng(1)
    X, y = random.normal(size=(60, 2)), random.integers(0, 2, 60)
    weight = np.where(random.random(60) < 0.3, 3, 1)
    weighted = made(name).fit(X, y, sample_weight=weight)
    repeated = made(name).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    plain = made(name).fit(X, y)
    verb = "predict_proba" if hasattr(plain, "predict_proba") else "decision_function"
    first, second, third = (getattr(fitted, verb)(X) for fitted in (weighted, repeated, plain))
    np.testing.assert_allclose(first, second, atol=2e-3)
    assert np.abs(first - third).max() > 0.05
