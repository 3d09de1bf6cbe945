"""A layer on top of a fitted deep belief network: p(v) as it was at first, then a bound that rises."""

import numpy as np
import pytest

import gnomon
from gnomon.errors import UserValueError
from gnomon.systems.energy.dbn import DBN
from oracles.binary import all_states


@pytest.mark.spec("GEN-013")
@pytest.mark.parametrize("hidden", [(3,), (4, 3)])
def test_a_layer_is_added_by_its_transposed_machine_and_leaves_p_as_it_was(hidden):
    X = np.random.default_rng(0).integers(0, 2, (60, 3)).astype(np.float64)
    network = DBN(hidden=hidden, epochs=8, tune_epochs=5, learning_rate=0.1, random_state=0).fit(X)
    above = (3, *hidden)[-2]
    begun = network.add_layer(X, above, learning_rate=1e-12, epochs=1)
    assert begun.hidden == (*hidden, above)
    rows = all_states(3)
    np.testing.assert_allclose(begun.log_prob(rows), network.log_prob(rows), atol=1e-8)
    np.testing.assert_allclose(np.exp(begun.log_prob(rows)).sum(), 1.0, rtol=1e-9)


@pytest.mark.spec("GEN-013")
def test_an_added_layer_learns_alone_and_raises_the_bound():
    random = np.random.default_rng(1)
    X = (random.random((600, 2)) < 0.5).repeat(3, 1) ^ (random.random((600, 6)) < 0.05)
    X = X.astype(np.float64)
    network = DBN(hidden=(6,), epochs=20, learning_rate=0.3, random_state=0).fit(X)
    before = {name: value.copy() for name, value in network.model_.state().items()}
    taller = network.add_layer(X, 6, epochs=30, learning_rate=0.05, objective="exact", random_state=3)
    np.testing.assert_array_equal(taller.weights_[0], network.weights_[0])
    np.testing.assert_array_equal(taller.biases_[0], network.biases_[0])
    for name, value in network.model_.state().items():
        np.testing.assert_array_equal(value, before[name])
    started = network.add_layer(X, 6, epochs=1, learning_rate=1e-12)
    assert taller.log_prob_bound(X).mean() > started.log_prob_bound(X).mean() + 0.1
    same = network.add_layer(X, 6, epochs=30, learning_rate=0.05, objective="exact", random_state=3)
    np.testing.assert_array_equal(same.weights_[1], taller.weights_[1])


def test_an_added_layer_keeps_real_columns_names_and_saves(tmp_path):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(np.random.default_rng(0).normal(3.0, 2.0, (50, 3)), columns=["a", "b", "c"])
    network = DBN(hidden=(4,), visible="gaussian", epochs=3, random_state=0).fit(X)
    taller = network.add_layer(X, 2, epochs=3)
    np.testing.assert_allclose(taller.precision_, network.precision_)
    assert list(taller.feature_names_in_) == ["a", "b", "c"]
    again = gnomon.load(taller.save(tmp_path / "taller"))
    np.testing.assert_array_equal(again.log_prob(X), taller.log_prob(X))


def test_an_added_layer_refuses_what_does_not_fit():
    X = np.random.default_rng(0).integers(0, 2, (20, 3)).astype(np.float64)
    network = DBN(hidden=(2,), epochs=1, random_state=0).fit(X)
    with pytest.raises(UserValueError, match="floor is that of the layers below"):
        network.add_layer(X, 2, floor=0.5)
    with pytest.raises(UserValueError, match="at least 1"):
        network.add_layer(X, 0)
    with pytest.raises(UserValueError, match="columns"):
        network.add_layer(X[:, :2], 2)
