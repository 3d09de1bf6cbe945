"""CD-PercLoss: the gradient of its definition on the states that its own chains have reached, and what it takes."""

import numpy as np
import pytest
import torch

import gnomon
from gnomon.distributions.units import BernoulliUnits, GaussianUnits
from gnomon.errors import UserTypeError
from gnomon.objectives import perceptron
from gnomon.objectives.growth import RisingSteps
from gnomon.objectives.perceptron import CDPercLoss
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.rbm import RBMModel
from oracles.layered import filled
from oracles.principles import begun, bits, loss_of

WEIGHT = np.random.default_rng(1).uniform(0.5, 2.0, size=40)


def machine_of(kind):
    if kind == "rbm":
        return filled(RBMModel(4, 3, torch.float64), 0)
    units = GaussianUnits(4) if kind == "gaussian" else BernoulliUnits(4)
    return filled(LayeredMachine({"visible": units, "hidden": BernoulliUnits(3)}, [("visible", "hidden")],
                                 dtype=torch.float64), 0)  # fmt: skip


@pytest.mark.spec("GEN-057")
@pytest.mark.parametrize("kind", ["rbm", "layers", "gaussian"])
def test_it_is_the_rise_of_the_free_energy_above_lower_states_that_were_reached(kind, monkeypatch):
    """sum_i weight_i max(0, F(x_i) - F(end_i)), the ends being numbers, by autograd."""
    seen, original = [], perceptron.gibbs

    def spy(*given, **options):
        seen.append(original(*given, **options))
        return seen[-1]

    monkeypatch.setattr(perceptron, "gibbs", spy)
    machine = machine_of(kind)
    X = bits(40, 4) if kind != "gaussian" else np.random.default_rng(0).normal(size=(40, 4))
    loss = loss_of(begun(CDPercLoss(k=2), machine, X, WEIGHT), machine, X, weight=WEIGHT)
    end = seen[0]["visible"]
    gain = machine.marginal_energy({"visible": torch.as_tensor(X)})
    gain = gain - machine.marginal_energy({"visible": torch.as_tensor(end)})
    hinge = torch.as_tensor(WEIGHT) @ gain.clamp(min=0)
    hinge.backward()
    assert 0 < (gain > 0).sum() < 40
    assert loss.terms["perceptron_loss"].sum == pytest.approx(float(hinge.detach()), abs=1e-10)
    assert loss.terms["violations"].sum == pytest.approx(WEIGHT @ (gain > 0).detach().numpy(), abs=1e-10)
    assert loss.terms["perceptron_loss"].weight == pytest.approx(WEIGHT.sum()) and loss.per == "perceptron_loss"
    for name, parameter in machine.named_parameters():
        np.testing.assert_allclose(loss.gradients[name], parameter.grad, atol=1e-10, err_msg=name)


@pytest.mark.spec("GEN-057")
def test_rows_that_are_at_the_bottom_do_not_move_the_machine():
    """All mass at one state: no chain finds a lower one."""
    machine = machine_of("rbm")
    with torch.no_grad():
        machine.visible_bias.copy_(torch.tensor([60.0, -60.0, 60.0, -60.0]))
    X = np.tile([1.0, 0.0, 1.0, 0.0], (10, 1))
    loss = loss_of(begun(CDPercLoss(k=3), machine, X), machine, X)
    assert loss.terms["perceptron_loss"].sum == loss.terms["violations"].sum == 0
    assert all(not np.any(value) for value in loss.gradients.values())


def test_growing_chains_and_moves_along_the_slope_are_told_in_the_history():
    X = np.random.default_rng(0).normal(size=(20, 3))
    found = gnomon.GaussianRBM(
        n_hidden=2, objective=CDPercLoss(growth=RisingSteps(every=1), transition="hmc"), epochs=3, random_state=0
    ).fit(X)
    assert list(found.history_["k"]) == [1, 2, 3]
    assert {"perceptron_loss", "violations", "acceptance"} <= found.history_.keys()
    assert all(0 <= share <= 1 for share in found.history_["violations"])


def test_machines_without_a_free_energy_are_refused():
    with pytest.raises(UserTypeError, match="compares free energies"):
        gnomon.HiddenBoltzmannMachine(objective="cd-percloss", n_hidden=2, random_state=0).fit(bits(20, 3))
