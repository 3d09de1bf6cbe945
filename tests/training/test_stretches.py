"""Updates made many at a time: the numbers of single ones wherever the fit is cut, single ones where it must be."""

import numpy as np
import pytest

import gnomon
from gnomon.errors import Diverged
from gnomon.numeric.noise import Noise, recording
from gnomon.objectives.contrastive import CD, PCD
from gnomon.systems.energy._machine import GibbsSteps
from gnomon.training.optimizers import Adam
from gnomon.training.procedure import Info

DTYPES = {"float32": 2e-6, "float64": 1e-13}
"""What rounding may change of the weights in some hundred updates."""


@pytest.fixture
def made(monkeypatch):
    """How many updates each stretch made."""
    found, own = [], GibbsSteps.stretch

    def counted(self, state, most):
        outcome = own(self, state, most)
        found.append(outcome[0])
        return outcome

    monkeypatch.setattr(GibbsSteps, "stretch", counted)
    return found


def one_by_one(monkeypatch):
    monkeypatch.setattr(GibbsSteps, "stretch", lambda self, state, most: (0, Info()))


def table(n=205, d=9):
    return (np.random.default_rng(0).random((n, d)) < 0.4).astype("f4")


def fitted(objective, X, **options):
    settings = {"n_hidden": 5, "epochs": 6, "batch_size": 10, "learning_rate": 0.2, "random_state": 0} | options
    weight = np.random.default_rng(1).random(len(X))
    return gnomon.RBM(objective=objective, **settings).fit(X, sample_weight=weight)


def parameters(model):
    return np.concatenate([model.weights_.ravel(), model.visible_bias_, model.hidden_bias_])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("objective", [PCD(), PCD(k=3), PCD(n_chains=7), CD(), CD(k=2)], ids=repr)
def test_weighted_updates_many_at_a_time_are_the_single_ones(monkeypatch, made, objective, dtype):
    """205 rows make 21 batches, of which the last of each epoch is made by itself."""
    together = fitted(objective, table(), dtype=dtype)
    assert sum(made) == 6 * 20
    one_by_one(monkeypatch)
    alone = fitted(objective, table(), dtype=dtype)
    np.testing.assert_allclose(parameters(together), parameters(alone), rtol=0, atol=DTYPES[dtype])
    for name, values in alone.history_.items():
        np.testing.assert_allclose(together.history_[name], values, rtol=1e-3, atol=1e-4)


MACHINES = {
    "rbm": lambda **options: gnomon.RBM(**options),
    "gaussian-rbm": lambda **options: gnomon.GaussianRBM(**options),
    "one variance": lambda **options: gnomon.GaussianRBM(variance="scalar", floor=0.9, **options),
    "narrow": lambda **options: gnomon.GaussianRBM(standardize=False, floor=0.9, **options),
    "bits": lambda **options: gnomon.Harmonium(visible="bernoulli", **options),
    "counts": lambda **options: gnomon.Harmonium(visible="poisson", **options),
    "real": lambda **options: gnomon.Harmonium(visible="gaussian", **options),
}
"""Every kind of visible unit that is compiled; with a floor of 0.9 precisions reach their limit."""


def rows_for(name):
    bits = table(105).astype(np.float64)
    if name in ("rbm", "bits"):
        return bits
    random = np.random.default_rng(2)
    return random.poisson(1 + 20 * bits) if name == "counts" else bits + 0.1 * random.normal(size=bits.shape)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", Adam(beta1=0.5, bias_correction=False)], ids=repr)
@pytest.mark.parametrize("name", MACHINES)
def test_machines_of_every_kind_make_the_single_updates(monkeypatch, made, name, optimizer):
    """In float64, where Adam does not make steps of what rounding leaves of a gradient of 0."""
    X, weight = rows_for(name), np.random.default_rng(1).random(105)
    options = {"n_hidden": 5, "epochs": 2, "batch_size": 10, "random_state": 0, "dtype": "float64"}
    for objective in (CD(k=2), PCD(n_chains=7)):
        system = MACHINES[name](objective=objective, optimizer=optimizer, learning_rate=0.02, **options)
        made.clear()
        together = system.fit(X, sample_weight=weight).model_.state()
        assert sum(made) == 2 * 10
        with monkeypatch.context() as alone:
            one_by_one(alone)
            for key, value in system.fit(X, sample_weight=weight).model_.state().items():
                np.testing.assert_allclose(together[key], value, rtol=1e-9, atol=1e-9, err_msg=key)


@pytest.mark.parametrize("name", ["gaussian-rbm", "counts"])
def test_those_of_single_precision_differ_by_rounding(monkeypatch, made, name):
    X, options = rows_for(name).astype("f4"), {"n_hidden": 5, "epochs": 2, "batch_size": 10, "learning_rate": 0.01}
    system = MACHINES[name](random_state=0, dtype="float32", optimizer="sgd", **options)
    together = system.fit(X).model_.state()
    assert sum(made) == 2 * 10
    one_by_one(monkeypatch)
    for key, value in system.fit(X).model_.state().items():
        np.testing.assert_allclose(together[key], value, rtol=1e-4, atol=2e-5, err_msg=key)


def test_a_fit_by_adam_that_is_cut_ends_in_the_same_bits(tmp_path):
    X, system = rows_for("counts"), gnomon.Harmonium(visible="poisson", n_hidden=5, epochs=3, batch_size=10)
    system.set_params(random_state=0)
    whole = system.fit(X).model_.state()
    for limit in (1, 7, 11):
        begun = gnomon.Harmonium(**system.get_params())
        examples = begun.ingest(X)
        begun._fit(examples, begun._open(tmp_path / f"cut{limit}", examples), limit=limit)
        for key, value in gnomon.resume(tmp_path / f"cut{limit}", X).model_.state().items():
            np.testing.assert_array_equal(value, whole[key])


@pytest.mark.parametrize(
    "system",
    [
        gnomon.GaussianRBM(quadratic=True),
        gnomon.GaussianRBM(variance="fixed"),
        gnomon.Harmonium(hidden="ising"),
        gnomon.Harmonium(visible="truncated-exponential"),
        gnomon.Harmonium(groups=2),
    ],
    ids=repr,
)
def test_machines_of_other_kinds_are_made_one_by_one(made, system):
    system.set_params(n_hidden=3, epochs=2, batch_size=10, random_state=0).fit(table(50))
    assert set(made) == {0}


def test_other_shapes_and_orders_too(monkeypatch, made):
    """One column and one hidden unit, wide rows, rows in order, float64 rows that cannot be written to."""
    cases = [(table(40, 1), {"n_hidden": 1}), (table(60, 70), {"n_hidden": 66, "batch_size": 7})]
    frozen = table().astype(float)
    frozen.flags.writeable = False
    cases += [(frozen, {}), (frozen, {"dtype": "float32", "max_updates": 33})]
    together = [parameters(fitted("pcd", X, **options)) for X, options in cases]
    assert sum(made) == 6 * 3 + 6 * 8 + 6 * 20 + 20 + 11
    one_by_one(monkeypatch)
    for found, (X, options) in zip(together, cases, strict=True):
        np.testing.assert_allclose(found, parameters(fitted("pcd", X, **options)), rtol=0, atol=2e-6)


def test_a_fit_that_is_cut_anywhere_ends_in_the_same_bits(tmp_path, made):
    X, system = table(), gnomon.RBM(n_hidden=5, epochs=3, batch_size=10, random_state=0)
    whole = parameters(gnomon.RBM(**system.get_params()).fit(X))
    for every in (1, 7):
        with gnomon.context(checkpoint_every=every):
            system.fit(X, run=tmp_path / f"run{every}")
        np.testing.assert_array_equal(parameters(system), whole)
    assert max(made) == 20 and made.count(7) >= 6
    for limit in (3, 20, 21, 40):
        begun = gnomon.RBM(**system.get_params())
        examples = begun.ingest(X)
        begun._fit(examples, begun._open(tmp_path / f"cut{limit}", examples), limit=limit)
        np.testing.assert_array_equal(parameters(gnomon.resume(tmp_path / f"cut{limit}", X)), whole)


@pytest.mark.parametrize(
    "options",
    [
        {"objective": "fpcd"},
        {"objective": "tempered"},
        {"objective": PCD(positive="mean_field")},
        {"objective": PCD(negative="mean_field")},
        {"objective": PCD(growth="rising")},
        {"objective": "pseudolikelihood"},
        {"optimizer": Adam(weight_decay=0.1)},
        {"optimizer": Adam(amsgrad=True)},
        {"optimizer": "rmsprop"},
        {"optimizer": "sgd", "binarize": "dynamic"},
        {"batch_size": None},
    ],
    ids=str,
)  # fmt: skip
def test_other_principles_and_ways_are_made_one_by_one(made, options):
    gnomon.RBM(**{"n_hidden": 3, "epochs": 2, "batch_size": 10, "random_state": 0, **options}).fit(table(50))
    assert set(made) == {0}


@pytest.mark.parametrize("options", [{"backend": "torch"}, {"monitor": True}, {"precision": "bfloat16"}], ids=str)
def test_other_contexts_are_too(made, options):
    with gnomon.context(**options):
        gnomon.RBM(n_hidden=3, epochs=2, batch_size=10, random_state=0).fit(table(50))
    assert set(made) == {0}


def test_no_address_is_used_twice(made):
    with recording():
        gnomon.RBM(n_hidden=3, epochs=2, batch_size=10, random_state=0).fit(table(50))
    assert sum(made) == 8


def test_a_gradient_that_is_not_finite_ends_the_fit_at_its_update(made):
    """In the third of 19 updates a row holds what is no number; the domain would have refused it."""
    system = gnomon.RBM(n_hidden=3, epochs=2, batch_size=10, random_state=0)
    examples = system.ingest(table(200))
    row = Noise(0, "fit").child("order").at(0).order(200)[25]
    examples.X[row] = np.nan
    with pytest.raises(Diverged, match="step 3"):
        system._fit(examples)
    assert made == [3]
