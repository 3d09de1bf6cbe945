"""Directed models: the random stream led through every case, enumerated tables, interventions, evidence anywhere."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats

from gnomon.distributions.bernoulli import Bernoulli
from gnomon.distributions.conditional import ConditionalTable
from gnomon.distributions.real import Normal
from gnomon.errors import UserTypeError, UserValueError
from gnomon.graphs.directed import DirectedGraph
from gnomon.graphs.undirected import UndirectedGraph
from gnomon.inference.directed import DirectedModel, NamedDraws
from gnomon.inference.evidence import likelihood_weighting, rejection_sample
from gnomon.inference.exact.elimination import VariableElimination
from gnomon.numeric.noise import Noise, recording
from oracles.scripted import Scripted
from oracles.toys import tiny_rbm

FALSE_ALARM = 1e-4
P_SICK, P_HOLIDAY = 0.1, 0.3
P_ABSENT = np.array([[0.05, 0.6], [0.8, 0.95]])  # [sick, holiday]
P_CALL = np.array([0.1, 0.7])  # [absent]
NAMES = ("sick", "holiday", "absent", "call")


def office():
    """Two causes, their effect, a report of it; listed effects first."""
    graph = DirectedGraph({"call": ("absent",), "absent": ("sick", "holiday"), "holiday": (), "sick": ()})
    tables = {
        "sick": ConditionalTable([1 - P_SICK, P_SICK]),
        "holiday": ConditionalTable([1 - P_HOLIDAY, P_HOLIDAY]),
        "absent": ConditionalTable(np.stack([1 - P_ABSENT, P_ABSENT], -1)),
        "call": ConditionalTable(np.stack([1 - P_CALL, P_CALL], -1)),
    }
    return DirectedModel(graph, tables)


def table_of(do=None):
    """The joint table by the product rule, cell by cell; set nodes lose their factor."""
    do, p = do or {}, np.zeros((2, 2, 2, 2))
    for s, h, a, c in itertools.product((0, 1), repeat=4):
        ones = {"sick": P_SICK, "holiday": P_HOLIDAY, "absent": P_ABSENT[s, h], "call": P_CALL[a]}
        value = dict(zip(NAMES, (s, h, a, c), strict=True))
        terms = [float(value[k] == do[k]) if k in do else (q if value[k] else 1 - q) for k, q in ones.items()]
        p[s, h, a, c] = math.prod(terms)
    return p


def counts_of(draws):
    return np.bincount(np.ravel_multi_index([draws[name] for name in NAMES], (2,) * 4), minlength=16)


def fits(count, p):
    """Chi-square of counts against probabilities; cells that cannot be must be empty."""
    p = p.ravel()
    assert (count[p == 0] == 0).all()
    expected = p[p > 0] * count.sum()
    assert expected.min() > 5
    return ((count[p > 0] - expected) ** 2 / expected).sum() < stats.chi2.isf(FALSE_ALARM, (p > 0).sum() - 1)


@pytest.mark.spec("INF-11", "REP-132")
def test_the_random_stream_led_through_every_case_gives_the_table():
    """Every node's uniform number at the midpoints of 200 cells: 3 nodes at a time, shares exact to the cell."""
    model, m = office(), 40
    middle = (np.arange(m) + 0.5) / m
    u = dict(zip(("sick", "holiday", "absent"), (g.ravel() for g in np.meshgrid(*[middle] * 3)), strict=True))
    noise = Scripted({name: Scripted(uniform=x) for name, x in u.items()} | {"call": Scripted(uniform=0.999)})
    draws = model.sample(m**3, noise)
    share = np.bincount(np.ravel_multi_index([draws[n] for n in NAMES[:3]], (2,) * 3), minlength=8) / m**3
    assert share == pytest.approx(table_of().sum(3).ravel(), abs=1e-12)  # all chances are multiples of 1 / 40
    assert (draws["call"] == 1).all()


@pytest.mark.spec("INF-11", "REP-132")
def test_draws_follow_the_enumerated_table_and_interventions():
    """100,000 draws each; chi-square over 16 cells, false-alarm rate 1e-4 for each of four."""
    model = office()
    for seed, do in enumerate((None, {"absent": 1}, {"sick": 1, "call": 0}, {"holiday": 0})):
        assert fits(counts_of(model.sample(100_000, Noise(seed, "office"), do=do)), table_of(do))
    seen = model.sample(50_000, Noise(9, "office"), do={"absent": 1})["sick"].mean()
    assert abs(seen - P_SICK) < stats.norm.isf(FALSE_ALARM / 2) * math.sqrt(0.09 / 50_000)  # acting tells nothing


@pytest.mark.spec("INF-11", "REP-132")
def test_every_order_and_every_number_of_draws_gives_the_same_numbers():
    model, noise = office(), Noise(3, "office")
    with recording():
        draws = model.sample(500, noise)
    orders = [o for o in itertools.permutations(NAMES) if o.index("absent") > max(o.index("sick"), o.index("holiday"))]
    orders = [o for o in orders if o.index("call") > o.index("absent")]
    assert len(orders) == 2
    for order in orders:
        again = model.sample(200, noise, order=order)
        assert all((again[name] == draws[name][:200]).all() for name in NAMES)
    other = model.sample(500, Noise(4, "office"))
    assert any((other[name] != draws[name]).any() for name in NAMES)
    with pytest.raises(UserValueError, match="order must put parents first, got 'call' before its parent 'absent'"):
        model.sample(3, noise, order=("call", "sick", "holiday", "absent"))


@pytest.mark.spec("INF-11", "REP-132")
def test_the_density_is_the_product_of_the_conditionals():
    model = office()
    cells = np.array(list(itertools.product((0, 1), repeat=4)))
    values = dict(zip(NAMES, cells.T, strict=True))
    assert np.exp(model.log_prob(values)) == pytest.approx(table_of().ravel(), abs=1e-15)
    assert np.exp(model.log_prob(NamedDraws(values))).sum() == pytest.approx(1.0, abs=1e-14)
    del values["absent"]
    with pytest.raises(UserValueError, match="'absent' has no value"):
        model.log_prob(values)


@pytest.mark.spec("REP-132", "REP-133")
def test_evidence_on_effects_is_refused_and_on_causes_conditions():
    model = office()
    for evidence in ({"call": 1}, {"absent": 1, "sick": 0}):
        with pytest.raises(UserValueError, match=r"is not: drawing causes first.*likelihood_weighting.*MCMC"):
            model.sample(10, Noise(0, "x"), evidence=evidence)
    roots = {"sick": 1, "holiday": 0}
    p = table_of()[1, 0] / table_of()[1, 0].sum()
    draws = model.sample(50_000, Noise(1, "x"), evidence=roots)
    assert fits(counts_of(draws).reshape(4, 4)[2], p)
    assert counts_of(draws).reshape(4, 4)[2].sum() == 50_000
    held = model.sample(100, Noise(1, "x"), do={"absent": 1}, evidence={"call": 0})
    assert (held["absent"] == 1).all() and (held["call"] == 0).all()  # its only cause is set


@pytest.mark.spec("REP-133")
def test_weights_give_the_exact_conditionals():
    """z-tests of three estimates and of the evidence's probability, false-alarm rate 1e-4 each."""
    model, p, limit = office(), table_of(), stats.norm.isf(FALSE_ALARM / 2)
    for seed, evidence in enumerate(({"call": 1}, {"absent": 0, "call": 1}, {"absent": 1, "sick": 0})):
        index = tuple(evidence.get(name, slice(None)) for name in NAMES)
        sample = likelihood_weighting(model, evidence, 50_000, Noise(seed, "weights"))
        assert abs(sample.log_mean_weight - math.log(p[index].sum())) < limit * sample.stderr
        for name in set(NAMES) - set(evidence):
            one = tuple(evidence.get(other, 1 if other == name else slice(None)) for other in NAMES)
            found = sample.estimate(lambda draws, name=name: draws[name])
            assert abs(found.value - p[one].sum() / p[index].sum()) < limit * found.stderr
        assert all((sample.values[name] == value).all() for name, value in evidence.items())
        kept = sample.values[sample.resample(Noise(seed, "again"), 100)]
        assert len(kept) == 100 and set(kept.keys()) == set(NAMES)
        assert kept[7] == list(kept)[7] == {name: kept[name][7] for name in NAMES}


@pytest.mark.spec("REP-133")
def test_each_weight_is_the_chance_of_the_evidence_given_its_parents():
    """Led through the cases of the causes: weights are entries of the tables; on roots they are all equal."""
    model = office()
    u = np.array([[0.5, 0.5], [0.5, 0.9], [0.95, 0.5], [0.95, 0.9]])  # sick when u > 0.9, holiday when u > 0.7
    noise = Scripted({"sick": Scripted(uniform=u[:, 0]), "holiday": Scripted(uniform=u[:, 1])})
    sample = likelihood_weighting(model, {"absent": 1, "call": 0}, 4, noise)
    assert np.exp(sample.log_weights) == pytest.approx(P_ABSENT.ravel() * 0.3, abs=1e-15)
    roots = {"sick": 1, "holiday": 0}
    flat = likelihood_weighting(model, roots, 300, Noise(0, "x"))
    assert flat.log_weights == pytest.approx(np.full(300, math.log(0.1 * 0.7)), abs=1e-15)
    plain = model.sample(300, Noise(0, "x"), evidence=roots)
    assert all((flat.values[name] == plain[name]).all() for name in NAMES)
    acted = likelihood_weighting(model, {"call": 1}, 10, Noise(0, "x"), do={"absent": 1})
    assert np.exp(acted.log_weights) == pytest.approx(np.full(10, 0.7), abs=1e-15)


@pytest.mark.spec("REP-133")
def test_rare_evidence_is_reported():
    graph = DirectedGraph({"cause": (), "effect": ("cause",)})
    tables = {"cause": ConditionalTable([1 - 1e-3, 1e-3]), "effect": ConditionalTable([[1 - 1e-6, 1e-6], [0.1, 0.9]])}
    model = DirectedModel(graph, tables)
    with pytest.warns(UserWarning, match=r"count as 1?\d\.\d of 10000; use more draws"):
        sample = likelihood_weighting(model, {"effect": 1}, 10_000, Noise(0, "x"))
    assert sample.ess < 30
    single = Scripted({"cause": Scripted(uniform=np.append(np.full(299, 0.5), 0.9995))})
    with pytest.warns(UserWarning, match="one of 300 weights makes up"):
        likelihood_weighting(model, {"effect": 1}, 300, single)
    tables["effect"] = ConditionalTable([[1.0, 0.0], [1.0, 0.0]])
    with pytest.raises(
        UserValueError, match=r"none of 50 draws agrees with the evidence effect = 1 .*or VariableElimination"
    ):
        likelihood_weighting(DirectedModel(graph, tables), {"effect": 1}, 50, Noise(0, "x"))
    with pytest.raises(
        UserValueError, match=r"0 of 1000 draws agree with the evidence effect = 1, fewer .*or raise max_attempts"
    ):
        rejection_sample(DirectedModel(graph, tables), {"effect": 1}, 5, Noise(0, "x"), max_attempts=1000)


@pytest.mark.spec("REP-133")
def test_what_is_kept_follows_the_conditional_law_exactly():
    """40,000 kept draws, chi-square with false-alarm rate 1e-4; attempts within the law of their number."""
    model, evidence = office(), {"call": 1, "holiday": 0}
    p = np.zeros((2, 2, 2, 2))
    p[:, 0, :, 1] = table_of()[:, 0, :, 1]
    chance = p.sum()
    values, attempts = rejection_sample(model, evidence, 40_000, Noise(2, "kept"))
    assert len(values) == 40_000 and fits(counts_of(values), p / chance)
    spread = math.sqrt(40_000 * (1 - chance)) / chance
    assert abs(attempts - 40_000 / chance) < stats.norm.isf(FALSE_ALARM / 2) * spread
    plain = model.sample(attempts, Noise(2, "kept"))  # attempt k is draw k, however they were batched
    agree = (plain["call"] == 1) & (plain["holiday"] == 0)
    assert agree.sum() == 40_000 and agree[-1]
    assert all((plain[name][agree] == values[name]).all() for name in NAMES)
    later = model.sample(attempts + 3000, Noise(2, "kept"))[np.arange(attempts, attempts + 3000)]
    agree = np.flatnonzero((later["call"] == 1) & (later["holiday"] == 0))[:5]
    part = rejection_sample(model, evidence, 5, Noise(2, "kept").part(attempts, attempts + 3000)).values
    assert all((later[name][agree] == part[name]).all() for name in NAMES)
    early = rejection_sample(model, {"holiday": 1}, 500, Noise(2, "kept")).values  # the effects are drawn afterwards
    agree = np.flatnonzero(plain["holiday"] == 1)[:500]
    assert all((plain[name][agree] == early[name]).all() for name in NAMES)
    acted, _ = rejection_sample(model, {"call": 1}, 50, Noise(2, "kept"), do={"absent": 0, "sick": 1})
    assert (acted["absent"] == 0).all() and (acted["sick"] == 1).all()


@pytest.mark.spec("REP-133", "INF-71")
def test_sampling_agrees_with_elimination():
    """The same model object: tables by elimination are those of the enumeration."""
    engine, p = VariableElimination(office()), table_of()
    assert engine.log_evidence({"call": 1}) == pytest.approx(math.log(p[..., 1].sum()), abs=1e-13)
    assert engine.log_partition() == pytest.approx(0.0, abs=1e-14)
    sick = engine.posterior(["sick"], {"call": 1}).probabilities[1]
    assert sick == pytest.approx(p[1, :, :, 1].sum() / p[..., 1].sum(), abs=1e-13)
    away = engine.posterior(["sick"], {"call": 1, "holiday": 1}).probabilities[1]
    assert away < sick  # explained away through the report


@pytest.mark.spec("INF-71", "INF-72")
def test_effects_that_nobody_saw_have_no_say_and_no_cost():
    """60 causes, 300 effects of three causes each: all at once is refused, a query about two reports is small."""
    rng = np.random.default_rng(0)
    parents = {f"c{i}": () for i in range(60)}
    parents |= {f"e{i}": tuple(f"c{j}" for j in rng.choice(60, 3, replace=False)) for i in range(300)}
    chance = {name: rng.uniform(0.05, 0.95, (2,) * len(above)) for name, above in parents.items()}
    model = DirectedModel(
        DirectedGraph(parents), {name: ConditionalTable(np.stack([1 - p, p], -1)) for name, p in chance.items()}
    )
    engine, seen = VariableElimination(model), {"e0": 1, "e1": 0}
    with pytest.raises(UserValueError, match="entries"):
        engine.marginals(seen)
    causes = list(dict.fromkeys(parents["e0"] + parents["e1"]))
    assert engine.cost(seen, [causes[0]]).largest <= 16
    mass = np.zeros(2)
    for state in itertools.product((0, 1), repeat=len(causes)):
        x = dict(zip(causes, state, strict=True))
        p = math.prod(float(chance[c] if x[c] else 1 - chance[c]) for c in causes)
        on, off = (chance[e][tuple(x[c] for c in parents[e])] for e in ("e0", "e1"))
        mass[state[0]] += p * on * (1 - off)
    assert engine.posterior([causes[0]], seen).probabilities == pytest.approx(mass / mass.sum(), abs=1e-13)
    assert engine.log_evidence(seen) == pytest.approx(math.log(mass.sum()), abs=1e-13)


def linear():
    """x ~ N(1, 2^2), y | x ~ N(3 x, 0.5^2), two numbers z | y, and a switch of vectors b."""
    graph = DirectedGraph({"x": (), "b": (), "y": ("x",), "z": ("y", "b")})
    return DirectedModel(graph, {
        "x": Normal(1.0, 2.0),
        "b": Bernoulli(np.array([0.0, 1.0, -1.0])),
        "y": lambda parents: Normal(3.0 * parents["x"], 0.5),
        "z": lambda parents: Normal(parents["y"][:, None] + parents["b"][:, :2], 1.0),
    })  # fmt: skip


@pytest.mark.spec("INF-11", "REP-133")
def test_continuous_nodes_and_vectors():
    """A Gaussian chain against closed forms: joint density, moments, and x given y by weights."""
    model, n, limit = linear(), 40_000, stats.norm.isf(FALSE_ALARM / 2)
    draws = model.sample(n, Noise(0, "line"))
    assert draws["b"].shape == (n, 3) and draws["z"].shape == (n, 2)
    expected = stats.norm(1, 2).logpdf(draws["x"]) + stats.norm(3 * draws["x"], 0.5).logpdf(draws["y"])
    expected += stats.norm(draws["y"][:, None] + draws["b"][:, :2], 1).logpdf(draws["z"]).sum(1)
    logit = np.array([0.0, 1.0, -1.0])
    expected += (draws["b"] * logit - np.logaddexp(0, logit)).sum(1)
    assert model.log_prob(draws) == pytest.approx(expected, abs=1e-10)
    variance = 9 * 4 + 0.25
    assert abs(draws["y"].mean() - 3) < limit * math.sqrt(variance / n)
    assert abs(np.corrcoef(draws["x"], draws["y"])[0, 1] - 12 / math.sqrt(4 * variance)) < 0.001
    sample = likelihood_weighting(model, {"y": 4.0}, n, Noise(1, "line"))
    precision = 1 / 4 + 9 / 0.25
    found = sample.estimate(lambda d: d["x"])
    assert abs(found.value - (1 / 4 + 3 * 4 / 0.25) / precision) < limit * found.stderr
    assert abs(sample.log_mean_weight - stats.norm(3, math.sqrt(variance)).logpdf(4.0)) < limit * sample.stderr
    with pytest.raises(UserValueError, match="'y' is continuous"):
        rejection_sample(model, {"y": 4.0}, 10, Noise(0, "x"))
    with pytest.raises(UserTypeError, match=r"node 'x' has no table"):
        VariableElimination(model)


@pytest.mark.spec("INF-11")
def test_held_values_have_the_shape_of_what_they_replace():
    model, n = linear(), 3  # as many draws as the vector has entries
    assert (model.sample(n, Noise(0, "x"), do={"b": 1})["b"] == np.ones((3, 3))).all()
    one = model.sample(n, Noise(0, "x"), do={"b": [[0, 1, 0]]})
    assert (one["b"] == [[0, 1, 0]] * 3).all()
    each = model.sample(n, Noise(0, "x"), do={"x": [1.0, 2.0, 3.0]})
    assert each["x"].tolist() == [1.0, 2.0, 3.0] and abs(each["y"] - 3 * each["x"]).max() < 3
    with pytest.raises(
        UserValueError,
        match=r"'b' must be fixed at values of shape \(3, 3\), got \(3, 2\) .*with an axis for the draws",
    ):
        model.sample(n, Noise(0, "x"), do={"b": np.zeros((1, 2))})
    with pytest.raises(UserValueError, match=r"'x' must be a number or have 1 or 3 rows, got 2 \(do, evidence\)"):
        model.sample(n, Noise(0, "x"), do={"x": [1.0, 2.0]})
    with pytest.raises(UserValueError, match=r"'b' must have values of shape \(3, 3\), got \(3,\) \(values\)"):
        model.log_prob({**dict(each), "b": np.ones(3)})


def test_tensors_stay_tensors_with_gradients():
    slope = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    graph = DirectedGraph({"x": (), "y": ("x",)})
    model = DirectedModel(graph, {
        "x": Normal(torch.zeros((), dtype=torch.float64), 1.0),
        "y": lambda parents: Normal(slope * parents["x"], 1.0),
    })  # fmt: skip
    draws = model.sample(50, Noise(0, "x"))
    assert isinstance(draws["y"], torch.Tensor)
    model.log_prob(draws).sum().backward()
    assert float(slope.grad) == pytest.approx(float(((draws["y"] - 2 * draws["x"]) * draws["x"]).sum()), abs=1e-9)
    cause = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    held = model.sample(4, Noise(0, "x"), do={"x": cause})
    assert isinstance(held["x"], torch.Tensor) and held["x"].tolist() == [0.5] * 4
    model.node_log_prob("y", held).sum().backward()
    gap = (held["y"] - slope * cause).detach()
    assert float(cause.grad) == pytest.approx(2 * float(gap.sum()), abs=1e-9)


@pytest.mark.spec("INF-11", "REP-132")
def test_undirected_models_and_cycles_are_refused():
    for wrong in (tiny_rbm(), UndirectedGraph("ab", ["ab"])):
        with pytest.raises(
            UserTypeError,
            match=r"is undirected: it has no order of nodes \(model\); use gnomon\.sample_chain",
        ):
            DirectedModel(wrong, {})
    with pytest.raises(UserTypeError, match=r"ToyRBM is undirected.*sample_chain"):
        likelihood_weighting(tiny_rbm(), {}, 5, Noise(0, "x"))
    with pytest.raises(UserTypeError, match="ToyRBM is undirected"):
        rejection_sample(tiny_rbm(), {}, 5, Noise(0, "x"))
    with pytest.raises(UserValueError, match=r"cycle a -> b -> a|cycle b -> a -> b"):
        DirectedGraph({"a": ("b",), "b": ("a",)})


def test_wrong_models_and_values_are_named():
    graph = DirectedGraph({"a": (), "b": (), "c": ("a", "b")})
    three, two = ConditionalTable(np.full(3, 1 / 3)), ConditionalTable([0.5, 0.5])
    right = {"a": two, "b": three, "c": ConditionalTable(np.full((2, 3, 2), 0.5))}
    swapped = right | {"c": ConditionalTable(np.full((3, 2, 2), 0.5))}
    with pytest.raises(
        UserValueError, match=r"the table of 'c' must fit parents of \(2, 3\) values, got .*order its axes as a, b"
    ):
        DirectedModel(graph, swapped)
    with pytest.raises(UserValueError, match="'c' has no conditional"):
        DirectedModel(graph, {"a": two, "b": three})
    with pytest.raises(UserValueError, match=r"unknown node 'd' \(conditionals\); leave it out"):
        DirectedModel(graph, right | {"d": two})
    with pytest.raises(UserTypeError, match=r"node names must be text that is not empty, got 1 \(graph\)"):
        DirectedModel(DirectedGraph({1: ()}), {1: two})
    with pytest.raises(
        UserTypeError,
        match=r"the conditional of 'c' must be a function of its parents, .*distribution \(conditionals\)",
    ):
        DirectedModel(graph, right | {"c": Normal(0.0, 1.0)}).sample(2, Noise(0, "x"))
    with pytest.raises(
        UserValueError,
        match=r"the distribution of 'c' must give 2 rows, one per row of the parents, got 7 \(conditionals\)",
    ):
        DirectedModel(graph, right | {"c": lambda p: Normal(np.zeros(7), 1.0)}).sample(2, Noise(0, "x"))
    model = DirectedModel(graph, right)
    for bad, told in (
        ({"b": 3}, r"b must be in \[0, 3\), got 3 \(row 0\); encode its values as 0, 1, \.\.\."),
        ({"x": 0}, "'x' is unknown"),
        ({"a": 0.5}, r"a must be in \[0, 2\), got 0\.5 \(row 0\); encode its values as 0, 1, \.\.\."),
    ):
        with pytest.raises(UserValueError, match=told):
            model.sample(2, Noise(0, "x"), do=bad)
    with pytest.raises(
        UserValueError, match=r"'a' is both set and observed \(do, evidence\); leave it out of one of them"
    ):
        model.sample(2, Noise(0, "x"), do={"a": 1}, evidence={"a": 1})
    with pytest.raises(UserValueError, match=r"row \(1,\) must be >= 0 and sum to 1, got \[0.5, 0.6\]"):
        ConditionalTable([[0.5, 0.5], [0.5, 0.6]])
    assert right["c"].n_parameters == 6
