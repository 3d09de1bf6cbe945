"""Sequences in styles: enumeration by loops, differences, the machine of one style, and what factors leave open."""

import numpy as np
import pytest
import torch
from scipy.special import logsumexp, softmax
from scipy.stats import chisquare

from gnomon.data.batches import Batch
from gnomon.distributions.units import BernoulliUnits
from gnomon.errors import UserError, UserTypeError, UserValueError
from gnomon.numeric.noise import Noise
from gnomon.objectives.contrastive import Exact
from gnomon.systems.energy._conditional_objective import GivenConditions
from gnomon.systems.energy.autoregressive_rbm import AutoregressiveRBM, AutoregressiveRBMModel
from gnomon.systems.energy.factored_conditional_rbm import FactoredConditionalRBM, FactoredConditionalRBMModel
from gnomon.systems.energy.given import given_columns
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.three_way import FactoredLink, PartsLink
from gnomon.training.group import Group
from oracles.binary import all_states, numerical_gradient
from oracles.layered import filled

RANDOM = np.random.default_rng(5)
D, M, F, ORDER, STYLES = 3, 2, 3, 2, ("calm", "wild")
STATES, HIDDEN = all_states(D), all_states(M)
SEQUENCES = [(RANDOM.random((n, D)) < 0.5).astype(float) for n in (4, 2, 1, 3)]
LABELS = np.array(["calm", "wild", "wild", "calm"])
CODES = (LABELS == "wild").astype(int)
WEIGHT = np.array([1.0, 0.5, 2.0, 1.5])
SHARES = np.array([2.5, 2.5]) / 5
OPTIONS = {"order": ORDER, "n_hidden": M, "n_factors": F, "epochs": 1, "dtype": "float64", "random_state": 0}


def model_of(seed=0, kind="bernoulli"):
    return filled(FactoredConditionalRBMModel(D, ORDER, 2, M, F, kind, torch.float64), seed)


def system_of(model):
    system = FactoredConditionalRBM(**OPTIONS).fit(SEQUENCES, LABELS, sample_weight=WEIGHT)
    system.model_ = model
    return system


def coupling(p, ends, style):
    """The couplings of one style that the factors make, by loops: visible and hidden, or past and a layer."""
    place = ends.index("style")
    filters = [p["_".join((*ends, short))] for short in ("first", "second", "third")]
    gate = filters.pop(place)[style]
    a, b = filters
    return sum(gate[f] * np.outer(a[:, f], b[:, f]) for f in range(F))


def of_one_style(p, style):
    """W, A and B of a style."""
    triples = (("style", "visible", "hidden"), ("past", "style", "visible"), ("past", "style", "hidden"))
    return [coupling(p, ends, style) for ends in triples]


def log_p(p, x, style):
    """log p(x | style), frame by frame and state by state."""
    w, a, b = of_one_style(p, style)
    total = 0.0
    for t in range(len(x)):
        past = np.concatenate([x[t - lag] if t >= lag else np.zeros(D) for lag in range(1, ORDER + 1)])
        bias, field = p["visible_bias"] + past @ a, p["hidden_bias"] + past @ b
        rows = np.vstack([x[t], STATES])
        mass = logsumexp((rows @ bias)[:, None] + HIDDEN @ field + rows @ w @ HIDDEN.T, axis=1)
        total += mass[0] - logsumexp(mass[1:])
    return total


@pytest.mark.spec("GEN-057")
def test_the_likelihood_in_each_style_by_enumeration():
    model = model_of()
    system, p = system_of(model), model.state()
    own = np.array([[log_p(p, x, style) for style in range(2)] for x in SEQUENCES])
    np.testing.assert_allclose(system.log_prob(SEQUENCES, LABELS), own[np.arange(4), CODES], atol=1e-11)
    np.testing.assert_allclose(system.log_prob(SEQUENCES, LABELS[::-1]), own[np.arange(4), CODES[::-1]], atol=1e-11)
    joint = own + np.log(SHARES)
    np.testing.assert_allclose(system.log_prob(SEQUENCES), logsumexp(joint, axis=1), atol=1e-11)
    np.testing.assert_allclose(system.style_proba(SEQUENCES), softmax(joint, axis=1), atol=1e-11)
    score = system.evaluate(SEQUENCES)["log_likelihood"]
    assert score.kind == "exact" and score.value == pytest.approx(logsumexp(joint, axis=1).mean())


@pytest.mark.spec("GEN-057")
def test_a_likelihood_that_is_estimated_has_its_error(monkeypatch):
    """Annealing of every frame under every style: within 5 errors of the enumeration."""
    system = system_of(model_of())
    exact = system.log_prob(SEQUENCES).mean()
    monkeypatch.setattr(FactoredConditionalRBM, "_exact", lambda self: False)
    score = system.evaluate(SEQUENCES)["log_likelihood"]
    assert score.kind == "estimate" and 0 < score.error < 0.1
    assert abs(score.value - exact) < 5 * score.error


@pytest.mark.spec("GEN-057")
def test_the_gradient_is_that_of_the_likelihood_in_the_own_style():
    """Ragged weighted sequences, all parameters, by finite differences of the enumeration."""
    model = model_of()
    system = system_of(model)
    examples = system.learned(system.ingest(SEQUENCES, LABELS, WEIGHT))
    n = len(examples)
    assert n == sum(map(len, SEQUENCES))
    batch = Batch({"X": examples.X, "y": examples.y}, np.arange(n), np.arange(n), examples.weight)
    loss = GivenConditions(Exact().build())(model, batch, noise=Noise(0, "x"), phase="fit", group=Group())
    p = {name: np.array(value) for name, value in model.state().items()}

    def total(q):
        return -WEIGHT @ [log_p(q, x, style) for x, style in zip(SEQUENCES, CODES, strict=True)]

    assert loss.total() * WEIGHT @ [4, 2, 1, 3] == pytest.approx(total(p), abs=1e-10)
    for name, value in p.items():
        found = numerical_gradient(lambda one, name=name: total(p | {name: one}), value)
        np.testing.assert_allclose(loss.gradients[name], found, atol=1e-6, err_msg=name)


@pytest.mark.spec("GEN-057")
@pytest.mark.parametrize("kind", ["bernoulli", "gaussian"])
def test_a_constant_style_is_the_factored_machine_of_time_series(kind):
    """Energies, log Z, likelihoods, gradients by the chain rule, and draws of the same noise."""
    model, style = model_of(kind=kind), 1
    p = {name: np.array(value) for name, value in model.state().items()}
    w, a, b = of_one_style(p, style)
    plain = AutoregressiveRBMModel(D, ORDER, M, kind, torch.float64)
    units = {name: value for name, value in p.items() if name in plain.state()}
    plain.load(units | {"weight": w, "condition_visible_weight": a, "condition_hidden_weight": b})
    past, frames, weight = RANDOM.normal(size=(6, ORDER * D)), STATES[:6], np.linspace(-1, 2, 6)
    beside = np.hstack([past, np.tile([0.0, 1.0], (6, 1))])
    mine, its = model.given(beside), plain.given(past)
    np.testing.assert_allclose(mine.energy(frames), its.energy(frames), atol=1e-12)
    np.testing.assert_allclose(model.log_partitions(beside), plain.log_partitions(past), atol=1e-12)
    found, slopes = (one.marginal_gradient({"visible": frames}, weight) for one in (mine, its))
    for name in units:
        np.testing.assert_allclose(found[name], slopes[name], atol=1e-12, err_msg=name)
    gate, v, h = (p[f"style_visible_hidden_{short}"] for short in ("first", "second", "third"))
    np.testing.assert_allclose(found["style_visible_hidden_second"], slopes["weight"] @ h * gate[1], atol=1e-12)
    np.testing.assert_allclose(
        found["style_visible_hidden_first"][1], np.einsum("ij,if,jf->f", slopes["weight"], v, h), atol=1e-12
    )
    assert not found["style_visible_hidden_first"][0].any()
    first, gate, last = (p[f"past_style_hidden_{short}"] for short in ("first", "second", "third"))
    by_past = slopes["condition_hidden_weight"]
    np.testing.assert_allclose(found["past_style_hidden_first"], by_past @ last * gate[1], atol=1e-12)
    np.testing.assert_allclose(found["past_style_hidden_third"], by_past.T @ first * gate[1], atol=1e-12)
    if kind == "gaussian":
        return
    system, peer = system_of(model), AutoregressiveRBM(order=ORDER, n_hidden=M, epochs=1, dtype="float64")
    peer.fit(SEQUENCES).model_ = plain
    np.testing.assert_allclose(system.log_prob(SEQUENCES, ["wild"] * 4), peer.log_prob(SEQUENCES), atol=1e-11)
    drawn = system.generate(3, SEQUENCES[0], style="wild", n=20, random_state=4)
    np.testing.assert_array_equal(drawn, peer.generate(3, SEQUENCES[0], n=20, random_state=4))


@pytest.mark.spec("GEN-057")
def test_what_is_generated_has_the_law_of_its_style():
    """Counts of the next frame after a given beginning, by a chi-square test at 1e-4 for each style."""
    system, begun, n = system_of(model_of()), SEQUENCES[0][:3], 4000
    for style in STYLES:
        drawn = system.generate(1, begun, style=[style] * n, n=n, steps=30, random_state=0)[:, 0]
        both, own = [np.vstack([begun, v]) for v in STATES], [style] * len(STATES)
        law = np.exp(system.log_prob(both, own) - system.log_prob([begun], [style]))
        counts = np.bincount((drawn @ [4, 2, 1]).astype(int), minlength=8)
        assert chisquare(counts, n * law / law.sum()).pvalue > 1e-4
    assert system.sample(3, style="calm", random_state=0).shape == (3, 4 * D)


@pytest.mark.spec("GEN-057")
def test_styles_that_are_not_asked_for_come_by_their_shares():
    """Two of three sequences are wild: 5 standard errors of a share."""
    system = FactoredConditionalRBM(**OPTIONS).fit([*SEQUENCES[:2], SEQUENCES[2]], ["calm", "wild", "wild"])
    codes = system._codes(None, 4000, 0)
    assert abs(codes.mean() - 2 / 3) < 5 * np.sqrt(2 / 9 / 4000)


@pytest.mark.spec("GEN-057")
def test_the_scale_of_a_factor_is_settled_by_one_norm_for_its_filters():
    """Filters that others of the same product have rescaled are the same machine, and come out the same."""
    model, other = model_of(), model_of()
    scale = np.exp(RANDOM.normal(size=(2, F)))
    p = {name: np.array(value) for name, value in model.state().items()}
    for short, factor in (("first", scale[0]), ("second", scale[1]), ("third", 1 / scale.prod(0))):
        p[f"past_style_visible_{short}"] = p[f"past_style_visible_{short}"] * factor
    other.load(p)
    condition = np.hstack([RANDOM.normal(size=(8, ORDER * D)), np.eye(2)[[0, 1] * 4]])
    before = model.given(condition).energy(STATES)
    np.testing.assert_allclose(other.given(condition).energy(STATES), before, atol=1e-10)
    for one in (model, other):
        one.balance()
        np.testing.assert_allclose(one.given(condition).energy(STATES), before, atol=1e-10)
    for name, value in model.state().items():
        np.testing.assert_allclose(value, other.state()[name], rtol=1e-10, err_msg=name)
    with torch.no_grad():
        model.past_style_hidden_second[:, 0] = 0
    model.balance()
    assert all(np.isfinite(value).all() for value in model.state().values())
    fitted = FactoredConditionalRBM(**OPTIONS).fit(SEQUENCES, LABELS).model_
    for link in fitted.links:
        norms = [np.linalg.norm(fitted.state()[name], axis=0) for name in link.names.values()]
        np.testing.assert_allclose(norms[1:], [norms[0]] * 2, rtol=1e-10)


def test_what_is_refused():
    system = system_of(model_of())
    with pytest.raises(UserValueError, match="class 'odd' is in no training row"):
        system.generate(1, style="odd")
    with pytest.raises(UserValueError, match=r"style must be one label or 2, got shape \(3,\)"):
        system.generate(1, style=["calm"] * 3, n=2)
    with pytest.raises(UserError, match="y"):
        FactoredConditionalRBM(**OPTIONS).fit(SEQUENCES)
    link = PartsLink(
        FactoredLink("x", "z", "hidden", 2), {"x": ("visible", slice(0, 2)), "z": ("visible", slice(2, 3))}
    )
    machine = LayeredMachine({"visible": BernoulliUnits(3), "hidden": BernoulliUnits(2)}, [link])
    with pytest.raises(UserTypeError, match="cannot be cut"):
        given_columns(machine, np.array([True, False, True]))
