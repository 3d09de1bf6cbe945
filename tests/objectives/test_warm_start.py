"""One principle after another: each update is that of the part it is time for, and chains know the machine."""

import numpy as np
import pytest
from scipy.stats import chisquare

import gnomon
from gnomon.errors import UserError
from gnomon.objectives.centered import Centered
from gnomon.objectives.contrastive import CD, PCD, Exact
from gnomon.objectives.fresh_chains import MCMC
from gnomon.objectives.noise_contrastive import NCE
from gnomon.objectives.tempered import TemperedSML
from gnomon.objectives.warm_start import WarmStart
from gnomon.systems.energy.rbm import RBMModel
from oracles.layered import Table, machine_of
from oracles.principles import begun, bits, loss_of

X = np.repeat([[1.0, 1, 0, 0, 1], [0, 0, 1, 1, 0], [1, 0, 1, 1, 1]], 10, axis=0)


@pytest.mark.spec("INF-34")
@pytest.mark.parametrize(("per", "after"), [("epoch", 2), ("update", 6)])
@pytest.mark.parametrize("then", [PCD(k=2), MCMC(k=3), Exact(), TemperedSML(3), NCE()])
def test_each_update_is_that_of_its_part(then, per, after):
    """Two epochs of three updates; persistent chains are compared from where they stand."""
    model, rows = RBMModel.of(*(np.random.default_rng(0).normal(size=s) for s in ((4, 3), 4, 3))), bits(5, 4)
    both = begun(WarmStart(CD(k=2), then, after, per, settle=0), model, rows, steps=3)
    parts = {"first": begun(CD(k=2), model, rows, steps=3), "then": begun(then, model, rows, steps=3)}
    for update in range(9):
        name = "first" if update < 6 else "then"
        parts[name].load({k.removeprefix(f"{name}."): v for k, v in both.state().items() if k.startswith(f"{name}.")})
        found, expected = loss_of(both, model, rows, update), loss_of(parts[name], model, rows, update)
        assert found.terms.keys() == expected.terms.keys() and found.watched == expected.watched
        for parameter, value in expected.gradients.items():
            ours = parameter.replace("objective/", f"objective/{name}.")
            np.testing.assert_array_equal(found.gradients[ours], value)


@pytest.mark.spec("INF-34")
def test_before_the_change_it_is_contrastive_divergence_draw_for_draw():
    """The weights differ by rounding: divergence alone makes many updates in one compiled call."""
    one, other = (
        gnomon.RBM(n_hidden=3, objective=objective, epochs=4, random_state=0).fit(X)
        for objective in (CD(k=2), WarmStart(CD(k=2), "pcd", after=4))
    )
    for name, value in one.model_.state().items():
        np.testing.assert_allclose(other.model_.state()[name], value, rtol=0, atol=2e-6)


@pytest.mark.spec("INF-34")
@pytest.mark.parametrize("then", [PCD(n_chains=6000), TemperedSML(2, n_chains=6000), Centered(PCD(n_chains=6000))])
@pytest.mark.parametrize("shape", ["three", "whole"])
def test_chains_know_the_machine_at_the_change(shape, then):
    """The stored blocks after the first update of the second part, by their enumerated law; false alarm 1e-5."""
    machine = machine_of(shape, scale=1.7)
    rows = bits(4, machine.sizes[machine.observed])
    pvalues = []
    for settle in (0, 300):
        both = begun(WarmStart("cd", then, after=1, settle=settle), machine, rows)
        for update in range(2):
            loss_of(both, machine, rows, update)
        chains = {name.split("chains/")[1]: x for name, x in both.state().items() if "chains/" in name}
        block = "middle" if shape == "three" else "visible"
        powers = 2 ** np.arange(machine.sizes[block])
        counts = np.bincount((chains[block] @ powers).astype(int), minlength=2 ** len(powers))
        pvalues.append(chisquare(counts, len(chains[block]) * law_of(machine, block, powers)).pvalue)
    assert pvalues[0] < 1e-6 and pvalues[1] > 1e-5


def law_of(machine, block, powers):
    table = Table(machine)
    return np.bincount((table.state[block] @ powers).astype(int), table.p)


@pytest.mark.spec("INF-34")
def test_small_exact_steps_after_the_first_part_never_lose_what_it_has_reached():
    """Full batches: the first part's fit, and the same fit gone on for so many epochs."""
    options = {"n_hidden": 3, "batch_size": None, "learning_rate": 0.1, "random_state": 0, "dtype": "float64"}
    warm = WarmStart("cd", "exact", after=30)
    scores = [gnomon.RBM(objective=warm, epochs=30 + more, **options).fit(X).score(X) for more in range(0, 50, 5)]
    assert scores[0] == gnomon.RBM(objective="cd", epochs=30, **options).fit(X).score(X)
    assert (np.diff(scores) > 0).all()


@pytest.mark.spec("INF-34")
def test_every_system_goes_over_to_another_principle():
    y = np.repeat([0, 1, 1], 10)
    options = {"n_hidden": 3, "objective": WarmStart(NCE(), "pcd", after=2), "epochs": 4, "random_state": 0}
    history = gnomon.RBM(**options).fit(X).history_
    assert len(history["noise_contrast"]) == 2 and len(history["energy_gap"]) == 2
    gnomon.GaussianRBM(**options).fit(X + 0.1 * np.random.default_rng(0).normal(size=X.shape))
    warm = WarmStart("cd", TemperedSML(2), after=2)
    joint = gnomon.LabelRBM(**options | {"objective": warm}, generative=0.5).fit(X, y)
    assert len(joint.history_["swap_rate"]) == 2 and len(joint.history_["energy_gap"]) == 4


def test_what_cannot_be_is_refused():
    with pytest.raises(UserError, match="after"):
        gnomon.RBM(objective=WarmStart(after=0)).fit(X)
    with pytest.raises(UserError, match="means under the model"):
        Centered(WarmStart("pseudolikelihood"), "average").build()
    Centered(WarmStart(), "average").build()
