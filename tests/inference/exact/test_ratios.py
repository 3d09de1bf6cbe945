"""Ratios and conditionals of unnormalized models: against tables of the joint from energies alone."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.exact.ratios import conditional, log_ratio
from gnomon.systems.energy.rbm import RBMModel
from oracles.binary import Joint, rbm_energy
from oracles.toys import ToyTriangle, tiny_rbm


def tiny_table():
    model = tiny_rbm()
    return Joint(rbm_energy(model.W, model.b, model.c), (3, 2))


def by_table(joint, a, given):
    """p(a | given) from the joint table by loops; units numbered over both blocks."""
    mass = dict.fromkeys(itertools.product((0.0, 1.0), repeat=len(a)), 0.0)
    for state, p in zip(joint.states, joint.p, strict=True):
        if all(state[unit] == x for unit, x in given.items()):
            mass[tuple(state[list(a)])] += p
    total = math.fsum(mass.values())
    return [m / total for m in mass.values()]


NAMES = [("visible", 0), ("visible", 1), ("visible", 2), ("hidden", 0), ("hidden", 1)]


@pytest.mark.spec("INF-42")
def test_every_split_of_the_tiny_machine_is_the_table():
    """All 3^5 ways to ask for, observe and sum out five units, to 1e-12."""
    model, joint = tiny_rbm(), tiny_table()
    rng = np.random.default_rng(0)
    for roles in itertools.product("abc", repeat=5):
        a = [i for i, role in enumerate(roles) if role == "a"]
        b = {i: float(rng.integers(2)) for i, role in enumerate(roles) if role == "b"}
        found = conditional(model, [NAMES[i] for i in a], {NAMES[i]: x for i, x in b.items()})
        assert found == pytest.approx(by_table(joint, a, b), abs=1e-12), roles


@pytest.mark.spec("INF-42")
def test_units_of_the_visible_layer_alone():
    """Units named by numbers are those of the energy, hidden ones summed out; the order is the one asked."""
    model, joint = tiny_rbm(), tiny_table()
    assert conditional(model, [2, 0], {1: 1}) == pytest.approx(by_table(joint, (2, 0), {1: 1}), abs=1e-12)
    assert conditional(model, [1]) == pytest.approx(by_table(joint, (1,), {}), abs=1e-12)
    tensors = RBMModel.of(*(torch.as_tensor(part) for part in (model.W, model.b, model.c)))
    assert conditional(tensors, [2, 0], {1: 1}) == pytest.approx(by_table(joint, (2, 0), {1: 1}), abs=1e-12)
    assert conditional(tensors, ["hidden"], {"visible": [1, 0, 1]}) == pytest.approx(
        by_table(joint, (3, 4), {0: 1, 1: 0, 2: 1}), abs=1e-12
    )


@pytest.mark.spec("INF-42")
def test_the_limit_is_that_of_the_states():
    """Two units asked about and two summed out: 16 states."""
    model, asked, given = tiny_rbm(), NAMES[:2], {NAMES[4]: 1.0}
    assert np.array_equal(conditional(model, asked, given, limit=16), conditional(model, asked, given))
    with pytest.raises(UserValueError, match=r"have 16 states.*above the limit of 15"):
        conditional(model, asked, given, limit=15)


@pytest.mark.spec("INF-42")
def test_a_single_unit_given_all_others_is_a_sigmoid_of_the_difference():
    model = ToyTriangle(np.array([0.3, -0.7, 1.1]), np.array([[0, 1.5, -2.0], [1.5, 0, 0.4], [-2.0, 0.4, 0]]))
    for b, c in itertools.product((0.0, 1.0), repeat=2):
        found = conditional(model, ["a"], {"b": [b], "c": [c]})
        state = {"b": np.array([[b]]), "c": np.array([[c]])}
        up, down = (-model.joint_energy({"a": np.array([[x]]), **state})[0] for x in (1.0, 0.0))
        assert found[1] == pytest.approx(1 / (1 + math.exp(down - up)), abs=1e-14)
        assert found[1] == pytest.approx(float(model.conditional("a", state).mean[0, 0]), abs=1e-14)


@pytest.mark.spec("INF-42")
@pytest.mark.parametrize("numbers", [1 << 21, 12])
def test_many_conditions_at_once(monkeypatch, numbers):
    monkeypatch.setattr("gnomon.inference.exact.ratios._NUMBERS", numbers)
    model, joint = tiny_rbm(), tiny_table()
    v = np.array(list(itertools.product((0.0, 1.0), repeat=3)))
    found = conditional(model, [("hidden", 1)], {"visible": v})
    assert found == pytest.approx(
        np.array([by_table(joint, (4,), dict(enumerate(row))) for row in v.tolist()]), abs=1e-12
    )
    mixed = conditional(model, [("hidden", 1), ("visible", 0)], {("visible", 1): v[:, 1], ("visible", 2): 1})
    assert mixed[5] == pytest.approx(by_table(joint, (4, 0), {1: v[5, 1], 2: 1}), abs=1e-12)


@pytest.mark.spec("INF-42")
def test_other_values_than_zero_and_one():
    J, levels = np.array([[0, 0.6, -0.3], [0, 0, 0.9], [0, 0, 0]]), (-1.0, 0.0, 1.0)
    weight = lambda x: np.einsum("ni,ij,nj->n", x, J, x)  # noqa: E731
    mass = np.zeros((3, 3))
    for i, j, k in itertools.product(range(3), repeat=3):
        mass[i, j] += math.exp(weight(np.array([[levels[i], levels[j], levels[k]]]))[0])
    found = conditional(weight, [0], {1: -1.0}, d=3, values=levels)
    assert found == pytest.approx(mass[:, 0] / mass[:, 0].sum(), abs=1e-14)


@pytest.mark.spec("INF-42")
def test_ratios_cancel_the_normalizer():
    model, joint = tiny_rbm(), tiny_table()
    v = np.array(list(itertools.product((0.0, 1.0), repeat=3)))
    log_p = np.log(joint.marginal(0))
    assert log_ratio(model, v, v[::-1]) == pytest.approx(log_p - log_p[::-1], abs=1e-12)
    assert log_ratio(model, v, v[:1]) == pytest.approx(log_p - log_p[0], abs=1e-12)
    x, y = ({"visible": s[None, :3], "hidden": s[None, 3:]} for s in (joint.states[5], joint.states[30]))
    assert log_ratio(model, x, y) == pytest.approx([math.log(joint.p[5] / joint.p[30])], abs=1e-12)
    box = lambda x: np.where(abs(x[:, 0]) <= 1, 0.0, -np.inf)  # noqa: E731
    inside, outside = np.array([[0.5]]), np.array([[2.0]])
    assert log_ratio(box, inside, outside)[0] == np.inf and log_ratio(box, outside, inside)[0] == -np.inf
    with pytest.raises(UserValueError, match=r"both states have probability 0 \(row 1\)"):
        log_ratio(box, np.array([[0.5], [2.0]]), outside)


@pytest.mark.spec("INF-42")
def test_what_cannot_be_asked_is_told():
    model = tiny_rbm()
    agree = lambda x: np.where(x[:, 0] == x[:, 1], 0.0, -np.inf)  # noqa: E731
    with pytest.raises(UserValueError, match="the condition has probability 0"):
        conditional(agree, [2], {0: 1, 1: 0}, d=3)
    with pytest.raises(
        UserValueError, match=r"1 units of interest and 49 summed out have 1\.13e\+15 states, .*or raise `limit`"
    ):
        conditional(agree, [0], d=50)
    with pytest.raises(UserValueError, match="d is required: the target does not give its number of units"):
        conditional(agree, [0])
    with pytest.raises(UserValueError, match="named twice"):
        conditional(model, [0], {0: 1})
    with pytest.raises(UserValueError, match=r"unit 3 is unknown.*\[0, 3\)"):
        conditional(model, [3])
    with pytest.raises(UserValueError, match="unit 0 names no block"):
        conditional(model, [0, "hidden"])
    with pytest.raises(UserValueError, match="block 'x' is unknown"):
        conditional(model, ["x"])
    with pytest.raises(UserValueError, match=r"2 must have 3 rows like the others, got 2 \(given\)"):
        conditional(model, [0], {1: [0, 1, 0], 2: [0, 1]})
    with pytest.raises(UserValueError, match=r"'visible' must have one value per row, got shape \(2,\) \(given\)"):
        conditional(model, ["hidden"], {"visible": [1, 0]})
    with pytest.raises(UserTypeError, match="function has no blocks"):
        conditional(agree, ["hidden"])
    with pytest.raises(UserTypeError, match="function has no joint energy"):
        log_ratio(agree, {"a": np.zeros((1, 1))}, {"a": np.zeros((1, 1))})
