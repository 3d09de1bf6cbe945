"""What people may ask of energy machines by mistake: one line each, and never another machine than was meant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import gnomon
from gnomon.errors import UserError
from gnomon.systems.energy.connections import Connections, Layers

BITS = (np.random.default_rng(0).random((30, 4)) < [0.2, 0.5, 0.6, 0.8]).astype(float)
REAL = np.random.default_rng(1).normal(size=(30, 3))
SHORT = {"epochs": 2, "random_state": 0}


@dataclass(frozen=True)
class Given(Connections):
    """A pattern as it is."""

    short: ClassVar[str] = "given-by-a-test"
    what: Any = None

    def pattern(self, n_visible, n_hidden):
        return self.what


def test_a_belief_network_of_real_columns_says_that_it_fills_in_no_cells():
    network = gnomon.DBN(hidden=(3, 2), visible="gaussian", **SHORT).fit(REAL)
    with pytest.raises(UserError, match="filled in for bits, got gaussian columns"):
        network.impute(np.where(np.eye(*REAL.shape), np.nan, REAL))


@pytest.mark.parametrize("name", ["mcrbm", "spike-and-slab-rbm", "gaussian-rbm"])
def test_no_sample_is_a_table_without_rows(name):
    assert gnomon.make(name, **SHORT).fit(REAL).sample(0).shape == (0, 3)


def test_complete_rows_need_no_enumeration():
    machine = gnomon.HiddenBoltzmannMachine(n_hidden=14, epochs=1, random_state=0).fit(BITS)
    np.testing.assert_array_equal(machine.impute(BITS[:2], method="exact"), BITS[:2])
    with pytest.raises(UserError, match="must have at most 2"):
        machine.impute(BITS[:2], np.eye(2, 4, dtype=bool), method="exact")


@pytest.mark.parametrize("kind", ["boolean", "Int64", "float64", "object"])
def test_frames_of_every_kind_may_have_gaps(kind):
    gaps = np.zeros((6, 4), bool)
    gaps[1, 2] = gaps[4, 0] = True
    values = pd.DataFrame(BITS[:6].astype(bool) if kind == "boolean" else BITS[:6].astype(int))
    frame = values.astype(kind).mask(gaps)
    machine = gnomon.RBM(n_hidden=2, **SHORT).fit(BITS)
    wanted = machine.impute(np.where(gaps, np.nan, BITS[:6]))
    np.testing.assert_allclose(np.asarray(machine.impute(frame), float), wanted)


@pytest.mark.parametrize("mask", [[[1, 0], [1]], np.ones((2, 3)), "no"])
def test_masks_of_other_shapes(mask):
    with pytest.raises(UserError, match="mask must be truth values of shape"):
        gnomon.RBM(n_hidden=2, **SHORT).fit(BITS).impute(BITS[:2], mask)


@pytest.mark.parametrize(
    ("system", "match"),
    [
        (gnomon.DBM(hidden=3), "hidden must be a whole number or a tuple of them, got 3"),
        (gnomon.DBN(hidden="3x2"), "hidden must be a whole number or a tuple of them, got '3x2'"),
        (gnomon.DBN(hidden=(2.0,)), "hidden must hold whole numbers, got 2.0"),
        (gnomon.HiddenBoltzmannMachine(n_hidden=2, connections=Layers(2)), "sizes must be a whole number or a tuple"),
        (gnomon.HiddenBoltzmannMachine(n_hidden=2, connections=Layers((1.0, 1.0))), "sizes must hold whole numbers"),
        (gnomon.BoltzmannMachine(connections=Given(np.ones((5, 5)))), "must be 4 x 4 truth values, got float64"),
        (gnomon.BoltzmannMachine(connections=Given(np.full((4, 4), 0.5))), "must be 4 x 4 truth values"),
        (gnomon.BoltzmannMachine(connections=Given(np.tril(np.ones((4, 4))))), "must be symmetric, got 0, 1 one way"),
        (gnomon.SemiRestrictedRBM(n_hidden=2, connections="layers"), "must couple visible units to each other"),
    ],
)
def test_stacks_and_patterns_that_are_none(system, match):
    with pytest.raises(UserError, match=match):
        system.set_params(**SHORT).fit(BITS)


def test_a_pattern_of_zeros_and_ones_is_one_of_truth_values():
    pattern = np.ones((4, 4))
    pattern[0, 3] = pattern[3, 0] = 0
    found, wanted = (
        gnomon.BoltzmannMachine(connections=Given(one), **SHORT).fit(BITS).couplings_ for one in (pattern, pattern > 0)
    )
    np.testing.assert_array_equal(found, wanted)
    assert found[0, 3] == 0 and found[0, 1] != 0


def test_chains_of_a_belief_network_begin_at_states_of_their_layer():
    with pytest.raises(UserError, match=r"start must have the shape \(3, 3\), got \(3, 5\)"):
        gnomon.DBN(hidden=(3, 2), **SHORT).fit(BITS).sample_layers(3, start=np.zeros((3, 5)))


def test_a_machine_that_is_not_fitted():
    with pytest.raises(NotFittedError):
        gnomon.make("spike-and-slab-rbm").check_normalizable()
