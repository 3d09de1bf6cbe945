"""Numbers of Gibbs steps that grow in the course of a fit."""

import numpy as np
import pytest

import gnomon
from gnomon.errors import UserError
from gnomon.objectives.contrastive import CD, PCD, Exact
from gnomon.objectives.fast_weights import FPCD
from gnomon.objectives.fresh_chains import MCMC
from gnomon.objectives.growth import FixedSteps, RisingSteps, StepTable
from gnomon.objectives.tempered import TemperedSML
from gnomon.systems.energy.rbm import RBMModel
from oracles.binary import Joint, all_states, marginal_kernel, rbm_energy
from oracles.layered import machine_of
from oracles.principles import begun, bits, loss_of, mean_gradient

T1 = (np.array([[1.0, -1.0], [0.5, 2.0]]), np.array([0.1, -0.2]), np.array([0.3, -0.4]))
FOUR = np.array([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
LISTED = {
    1: (0.145491, 0.073448, 0.012827, -0.017887),
    5: (0.160387, 0.079738, 0.005060, -0.029553),
}
"""Expected gradients of the log-likelihood in the couplings under CD-k, from the specification (GEN-008)."""


def enumerated(k):
    """The same from the kernel's k-th power, without code of the library."""
    W, _, c = T1
    kernel = np.linalg.matrix_power(marginal_kernel(Joint(rbm_energy(*T1), (2, 2)), 0), k)
    law = np.mean([kernel[:, int(row[0] * 2 + row[1])] for row in FOUR], axis=0)
    hidden = lambda V: 1 / (1 + np.exp(-(V @ W + c)))  # noqa: E731
    states = all_states(2)
    return FOUR.T @ hidden(FOUR) / 4 - states.T @ (law[:, None] * hidden(states))


@pytest.mark.spec("GEN-028", "GEN-008")
def test_expected_gradients_move_from_cd_1_to_maximum_likelihood():
    """n rows of statistics in [0, 1]: within 4.5 / (2 sqrt(n)), false alarm below 1e-4; the numbers to six digits."""
    exact = -mean_gradient(Exact().build(), RBMModel.of(*T1), FOUR)["weight"]
    for k, listed in LISTED.items():
        np.testing.assert_allclose(enumerated(k).ravel(), listed, atol=1e-6)
    np.testing.assert_allclose(enumerated(50), exact, atol=1e-6)
    X, n = np.repeat(FOUR, 20_000, axis=0), 80_000
    model = RBMModel.of(*T1)
    objective = begun(CD(growth=StepTable(start=(1, 2), steps=(5, 50))), model, X)
    for k in (1, 5, 50):
        loss = loss_of(objective, model, X)
        assert loss.terms["k"].sum / loss.terms["k"].weight == k
        np.testing.assert_allclose(-loss.gradients["weight"] / n, enumerated(k), atol=4.5 / (2 * np.sqrt(n)))


@pytest.mark.spec("GEN-028", "INF-34")
@pytest.mark.parametrize("recipe", [CD, PCD, FPCD, MCMC])
def test_each_epoch_takes_the_steps_of_its_number(recipe):
    """Bit for bit the objective of that k, on the same chains."""
    machine, X = machine_of("three"), bits(4, 4)
    growing = begun(recipe(k=1, growth=RisingSteps(every=2, by=2, largest=4)), machine, X, steps=3)
    fixed = {k: begun(recipe(k=k), machine, X, steps=3) for k in (1, 3, 4)}
    state = {name: value.copy() for name, value in growing.state().items() if "progress" not in name}
    for update in range(18):  # six epochs of three
        k = (1, 1, 3, 3, 4, 4)[update // 3]
        fixed[k].load(state)
        found, expected = (loss_of(one, machine, X, update) for one in (growing, fixed[k]))
        for name, value in expected.gradients.items():
            np.testing.assert_array_equal(found.gradients[name], value)
        state = {name: value.copy() for name, value in growing.state().items() if "progress" not in name}
        assert found.terms["k"].sum == k * 4 and "k" not in expected.terms


@pytest.mark.spec("INF-34")
@pytest.mark.parametrize(
    "growth", [FixedSteps(), RisingSteps(largest=2), RisingSteps(every=1, largest=1), StepTable(start=(1,), steps=(2,))]
)
def test_a_constant_number_is_contrastive_divergence_draw_for_draw(growth):
    X = bits(60, 6)
    one, other = (
        gnomon.RBM(n_hidden=4, objective=objective, epochs=4, random_state=0).fit(X)
        for objective in (CD(k=2), CD(k=2, growth=growth))
    )
    for name, value in one.model_.state().items():
        np.testing.assert_allclose(other.model_.state()[name], value, rtol=0, atol=2e-6)  # one may be compiled


@pytest.mark.spec("GEN-028")
@pytest.mark.parametrize("objective", [CD, PCD, FPCD, MCMC, TemperedSML])
def test_k_stands_in_the_history_of_the_fit(objective):
    growing = objective(k=2, growth=StepTable(start=(1, 3), steps=(3, 7)))
    options = {"n_hidden": 3, "objective": growing, "epochs": 5, "batch_size": 10, "random_state": 0}
    X, y = bits(40, 4), np.repeat([0, 1], 20)
    for system in (gnomon.RBM(**options), gnomon.GaussianRBM(**options), gnomon.LabelRBM(**options, generative=0.3)):
        assert system.fit(X, y).history_["k"] == pytest.approx([2, 3, 3, 7, 7])


@pytest.mark.spec("GEN-028")
def test_updates_count_where_they_are_asked_to():
    X = bits(40, 4)
    growing = CD(growth=RisingSteps(every=3, largest=3, per="update"))
    rbm = gnomon.RBM(n_hidden=3, objective=growing, epochs=2, batch_size=10, random_state=0).fit(X)
    assert rbm.history_["k"] == [(1 + 1 + 1 + 2) / 4, (2 + 2 + 3 + 3) / 4]


@pytest.mark.spec("GEN-028")
def test_a_stream_counts_on_from_chunk_to_chunk():
    X = bits(40, 4)
    rbm = gnomon.RBM(n_hidden=3, objective=CD(growth=RisingSteps(every=2)), batch_size=10, random_state=0)
    for _ in range(5):
        rbm.partial_fit(X)
    assert rbm.history_["k"] == [1, 1, 2, 2, 3]


@pytest.mark.spec("GEN-028")
@pytest.mark.parametrize(
    ("k", "growth", "message"),
    [
        (1, StepTable(start=(2, 2), steps=(3, 4)), "start must rise"),
        (1, StepTable(start=(2, 3), steps=(4, 3)), "steps must not fall"),
        (5, StepTable(start=(2,), steps=(4,)), "not fall, from k = 5"),
        (1, StepTable(start=(2,), steps=(4, 5)), "as many entries"),
        (1, RisingSteps(every=0), "every"),
    ],
)
def test_tables_that_fall_are_refused(k, growth, message):
    with pytest.raises(UserError, match=message):
        CD(k=k, growth=growth).build()
