"""Modules as arrays by name: views that stay true."""

import pickle

import numpy as np
import pytest
import torch

from gnomon.nn.module import Module
from gnomon.systems.energy.rbm import RBMModel


class Shift(Module):
    """One parameter, one buffer."""

    def __init__(self):
        super().__init__()
        self.b = torch.nn.Parameter(torch.zeros(2))
        self.register_buffer("count", torch.ones(3))


def test_views_follow_what_changes_in_place():
    module = Shift()
    views = module.views()
    module.load({"b": np.array([1.0, 2.0], np.float32), "count": np.zeros(3, np.float32)})
    with torch.no_grad():
        module.b.add_(1)
    np.testing.assert_array_equal(views["b"], [2, 3])
    np.testing.assert_array_equal(views["count"], 0)
    assert module.views() is views
    assert module.n_parameters == 2


def test_views_are_made_anew_where_memory_is():
    module = Shift()
    module.views()
    module.double()
    assert module.views()["b"].dtype == np.float64
    with torch.no_grad():
        module.b.add_(1)
    np.testing.assert_array_equal(module.views()["b"], 1)


def test_a_copy_has_views_of_its_own():
    module = Shift()
    module.views()
    copy = pickle.loads(pickle.dumps(module))
    with torch.no_grad():
        copy.b.add_(1)
    np.testing.assert_array_equal(copy.views()["b"], 1)
    np.testing.assert_array_equal(module.views()["b"], 0)


def test_what_is_loaded_is_copied():
    module, given = Shift(), np.ones(2, np.float32)
    module.load({"b": given, "count": np.ones(3, np.float32)})
    given[:] = 7
    np.testing.assert_array_equal(module.state()["b"], 1)


def test_views_follow_a_parameter_that_is_replaced():
    model = RBMModel(3, 2)
    x = np.ones((1, 3), np.float32)
    model.energy(x)
    model.weight = torch.nn.Parameter(torch.ones(3, 2))
    assert model.energy(x)[0] == pytest.approx(model.energy(torch.from_numpy(x)).item(), abs=1e-6)
    assert model.views()["weight"].base is not None
    model.register_buffer("extra", torch.zeros(2))
    assert "extra" in model.views()


def test_a_module_answers_in_chunks_what_it_answers_at_once():
    """Arguments beside each other, of rows of any rank, none at all, one answer or several."""

    class Sums(Shift):
        def pair(self, x, y):
            seen.append(len(x))
            return x.sum(tuple(range(1, x.ndim))) + y, [x[:, 0], y]

        def total(self, x, y):
            return self.pair(x, y)[0]

        def both(self, x, y):
            return self.pair(x, y)[1]

    module, random = Sums(), np.random.default_rng(0)
    for shape in ((7, 2), (7, 2, 3)):
        x, y = random.normal(size=shape), random.normal(size=7)
        for chunk, parts in ((None, [7]), (2 * x[0].size, [2, 2, 2, 1]), (1, [1] * 7)):
            seen = []
            total = module.ask("total", x, y, chunk=chunk)
            np.testing.assert_allclose(total, x.reshape(7, -1).sum(1) + y, rtol=1e-12)
            assert seen == parts
            first, second = module.ask("both", x, y, chunk=chunk)
            np.testing.assert_array_equal(first, x[:, 0])
            np.testing.assert_array_equal(second, y)
    seen = []
    assert module.ask("total", np.zeros((0, 2)), np.zeros(0)).shape == (0,)


def test_the_device_is_found_anew_after_a_move():
    module = Shift()
    assert module.device.type == "cpu"
    assert module.to("meta").device.type == "meta"
