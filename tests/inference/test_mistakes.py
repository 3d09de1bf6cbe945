"""What engines are given by mistake is refused in one line, before it costs time or memory or becomes a number."""

import numpy as np
import pytest

from gnomon.distributions.conditional import ConditionalTable
from gnomon.distributions.real import Normal
from gnomon.errors import UserError
from gnomon.evaluation.model_comparison import compare_models
from gnomon.evaluation.partition import Linked, log_partition
from gnomon.graphs.directed import DirectedGraph
from gnomon.graphs.layered import LayeredGraph
from gnomon.graphs.orders import best_order, min_degree, min_fill, order_cost, width_at_least
from gnomon.graphs.posterior import posterior_graph, treewidth_bound
from gnomon.graphs.undirected import UndirectedGraph
from gnomon.inference.directed import DirectedModel
from gnomon.inference.evidence import likelihood_weighting
from gnomon.inference.exact.elimination import VariableElimination
from gnomon.inference.exact.factors import Factor
from gnomon.inference.exact.posterior import ExactPosterior, codes
from gnomon.inference.exact.quadrature import log_integral
from gnomon.inference.importance.ais import ais, anneal, annealing_schedule
from gnomon.inference.importance.bridge import estimate_log_ratio
from gnomon.inference.importance.linked import linked
from gnomon.inference.importance.normalizer import as_proposal
from gnomon.inference.importance.proposals import optimal_proposal
from gnomon.inference.importance.weights import WeightedSample, check_support, importance_sample
from gnomon.inference.mcmc.ladders import heat_capacity, ladder, spaced_by
from gnomon.inference.mcmc.latent import (
    conditional_entropy,
    coupled_pair_trade_off,
    estimate_mutual_information,
    mutual_information,
    trade_off,
)  # fmt: skip
from gnomon.inference.mcmc.learned import AddNormal, FiniteDenoiser, FlipBits, Replace, TransitionOperator
from gnomon.inference.mcmc.metropolis import MetropolisHastings
from gnomon.inference.mcmc.paths import TemperedPath
from gnomon.inference.mcmc.sampling import sample_chain
from gnomon.inference.mcmc.tempered_transitions import TemperedTransitions
from gnomon.inference.montecarlo.expectation import RunningMean, expectation
from gnomon.inference.montecarlo.integration import UniformBox, check_coverage, integral
from gnomon.inference.montecarlo.lasvegas import LasVegas, RejectionSampler
from gnomon.numeric.noise import Noise
from oracles.toys import tiny_rbm

NOISE, BOX = Noise(0, "mistakes"), UniformBox(0.0, 1.0)
NET = DirectedModel(
    DirectedGraph({"a": (), "b": ("a",)}), {"a": ConditionalTable([0.9, 0.1]), "b": ConditionalTable(np.eye(2))}
)
PAIR = Factor.of("ab", [[2, 1], [1, 10]])


def bell(x):
    return -0.5 * (x * x).sum(-1)


PATH = TemperedPath(bell, as_proposal(Normal(0.0, 2.0)), [0.0, 0.5, 1.0], MetropolisHastings())
ROWS = np.zeros((4, 1))


def learned():
    return TransitionOperator(Replace(0.5, 2), FiniteDenoiser(Replace(0.5, 2)))


def fair(v, h):
    return np.full(len(v), np.log(0.5))


def uniform(n, noise):
    return noise.uniform((n,), like=np.empty(0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: expectation(np.square, uniform, 10**18, NOISE), "must be from 0 to"),
        (
            lambda: expectation(np.square, uniform, 3, None),
            r"noise must be a Noise\(seed, purpose\), got None \(expectation\.noise\)",
        ),
        (lambda: expectation(None, uniform, 3, NOISE), r"f must be a function, got None \(expectation\.f\)"),
        (lambda: RunningMean().update(np.array([1j])), "complex numbers"),
        (lambda: RunningMean().update("abc"), "values must hold numbers, got a str"),
        (lambda: UniformBox("a", "b"), "lower must hold numbers, got a str"),
        (lambda: BOX.sample(10**9 * 4, NOISE), "bytes .n"),
        (lambda: BOX.log_prob(np.zeros(3)), r"x must be \(n, 1\), got an array of shape \(3,\)"),
        (lambda: integral(3, BOX, 10, NOISE), r"f must be a function, got 3 \(integral\.f\)"),
        (
            lambda: check_coverage(lambda x: np.ones(7), BOX, 0.0, 1.0, 9, NOISE),
            r"f must return shape \(9,\), got \(7,\)",
        ),
        (
            lambda: check_coverage(lambda x: x[:, 0], None, 0.0, 1.0, 9, NOISE),
            r"proposal must have log_prob\(x\), got a NoneType",
        ),
        (
            lambda: LasVegas(lambda n, noise: np.arange(n)).run(2, NOISE),
            r"attempt must return \(values, accepted\), got a ndarray",
        ),
        (
            lambda: LasVegas(lambda n, noise: (np.arange(n), np.full(n, np.nan))).run(2, NOISE),
            "attempt must return truth values as its second array",
        ),
        (
            lambda: RejectionSampler(lambda x: x, BOX, 9.0).run(2, NOISE),
            r"target must return shape \(2,\), got \(2, 1\)",
        ),
        (lambda: importance_sample(lambda x: x, BOX, 5, NOISE), r"target must return shape \(5,\), got \(5, 1\)"),
        (
            lambda: importance_sample(bell, None, 5, NOISE),
            r"proposal must have sample\(n, noise\) and log_prob\(x\), got a NoneType",
        ),
        (lambda: check_support([0.5, 0.5], [1.0]), r"shapes \(2,\), \(1,\)"),
        (lambda: check_support([0.5, np.nan], [1.0, 1.0]), "p must be finite and at least 0"),
        (lambda: optimal_proposal(["a"], [1.0]), "p must hold numbers, got dtype <U1"),
        (
            lambda: estimate_log_ratio([[0.0]], [[1.0]], bell, bell, ess=(1,)),
            r"ess must be a pair of numbers or None, got \(1,\)",
        ),
        (lambda: TemperedPath(bell, None, ["a", "b"], MetropolisHastings()), "betas must hold numbers, got dtype <U1"),
        (lambda: TemperedPath(bell, None, [0.5, 1.0], "hmc"), "kernel must be a Kernel or one per level, got a str"),
        (
            lambda: heat_capacity(0.0, [1.0, 2.0], [0.0]),
            "log_weights must be 2 numbers below inf, one per state, got 1",
        ),
        (lambda: sample_chain(bell, start=1, burn_in=1.5), r"burn_in must be a whole number, got 1\.5"),
        (lambda: sample_chain(bell, start=1, burn_in=0, draws=10**9), "bytes .draws"),
        (lambda: sample_chain(bell, start=1, thin=float("nan")), "thin must be a whole number, got nan"),
        (
            lambda: ExactPosterior(fair, 1).posterior([]),
            r"v must have one row per observation, at least one, got an array of shape \(0,\)",
        ),
        (lambda: ExactPosterior(fair, "ab"), "sizes must hold numbers, got a str"),
        (
            lambda: ExactPosterior(lambda v, h: np.array(["a"] * len(v)), 1).log_evidence([[0.0]]),
            "log density must hold numbers, got dtype <U1",
        ),
        (lambda: codes([0.5], (2,)), r"numbers must hold whole numbers, got 0\.5 \(numbers, index 0\)"),
        (lambda: NET.sample(1.5, NOISE), r"n must be a whole number, got 1\.5 \(DirectedModel\.sample\.n\)"),
        (lambda: likelihood_weighting(NET, {"b": 1}, "3", NOISE), r"\(likelihood_weighting\.n\)"),
        (lambda: PAIR.given({"a": 2}), r"'a' must be an integer in \[0, 2\), got 2 \(evidence\)"),
        (lambda: PAIR.given({"a": 0.5}), r"'a' must be an integer in \[0, 2\), got 0\.5 \(evidence\)"),
        (lambda: PAIR.given(None), r"evidence must be a mapping \{name: value\}, got a NoneType"),
        (lambda: Factor("a", ["x"]), "log_values must hold numbers, got dtype <U1"),
        (lambda: DirectedGraph({"a": 3}), "must be a list or tuple of names, got 3"),
        (lambda: DirectedGraph([("a", "b")]), r"parents must be \{node: \(its parents\)\}, got a list"),
        (lambda: DirectedGraph.from_edges(["abc"]), r"edges must be pairs of nodes, got \('a', 'b', 'c'\)"),
        (lambda: UndirectedGraph("ab", [("a", [])]), r"a node's name must be text or a number, got \[\] \(edges\)"),
        (lambda: UndirectedGraph("ab").neighbors([]), "unknown"),
        (lambda: LayeredGraph({"a": 1.5}), r"units of 'a' must be a whole number, got 1\.5"),
        (lambda: LayeredGraph({"a": 10**6, "b": 10**6}, [("a", "b")]).units(), "bytes .units"),
        (
            lambda: importance_sample(bell, Normal(0.0, 1.0), 5.5, NOISE),
            r"n must be a whole number, got 5\.5 \(importance_sample\.n\)",
        ),
        (lambda: annealing_schedule(10**18), r"schedule must be at most 1e\+09, got 1000000000000000000"),
        (lambda: annealing_schedule(float("nan")), r"n must be a whole number, got nan \(annealing_schedule\.n\)"),
        (lambda: anneal(PATH, NOISE, chains=10**18), "bytes .chains"),
        (lambda: anneal(PATH, NOISE, chains=-1), "chains must be at least 1, got -1"),
        (lambda: anneal(PATH, NOISE, chains=2.5), r"chains must be a whole number, got 2\.5 \(anneal\.chains\)"),
        (lambda: ais(tiny_rbm(), tiny_rbm().base(), NOISE, schedule=10**18), r"must be at most 1e\+09, got \d+"),
        (
            lambda: ais(tiny_rbm(), tiny_rbm().base(), NOISE, schedule=2.5),
            r"n must be a whole number, got 2\.5 \(annealing_schedule\.n\)",
        ),
        (lambda: ais(tiny_rbm(), tiny_rbm().base(), NOISE, chains=10**9), r"3e\+09 numbers"),
        (lambda: linked(PATH, NOISE, runs=10**18), "bytes .runs, chain_length"),
        (lambda: linked(PATH, NOISE, chain_length=10**18), r"must be at most 1e\+09, got \d+"),
        (
            lambda: linked(PATH, NOISE, chain_length=0),
            r"runs and chain_length must be at least 1, got 100 and 0 \(runs, chain_length\)",
        ),
        (
            lambda: TemperedPath(bell, None, [0.5, 1.0], MetropolisHastings(), steps=10**18),
            r"must be at most 1e\+09, got \d+",
        ),
        (lambda: TemperedTransitions(steps=0), "steps must be at least 1, got 0"),
        (lambda: TemperedTransitions(steps=1.5), r"\(TemperedTransitions\.steps\)"),
        (lambda: TemperedTransitions(10**18), r"n must be at most 1e\+09, got 1000000000000000000"),
        (lambda: ladder(10**18), r"n must be at most 1e\+09, got 1000000000000000000"),
        (lambda: ladder(1), "n must be at least 2, got 1"),
        (lambda: spaced_by(10**18, [1.0, 0.0], [4.0, 4.0]), r"n must be at most 1e\+09, got 1000000000000000000"),
        (lambda: WeightedSample(np.zeros(3)).resample(NOISE, 10**18), "bytes .n"),
        (lambda: WeightedSample(np.zeros(3)).resample(NOISE, -1), "n must be at least 1, got -1"),
        (
            lambda: WeightedSample(np.zeros(3)).resample(NOISE, draw=-1),
            r"draw must be in \[0, 2\*\*31\), got -1; count draws of a step from 0",
        ),
        (lambda: learned().sample(np.zeros(2, int), NOISE, steps=10**18), r"must be at most 1e\+09, got \d+"),
        (lambda: learned().sample(np.zeros(2, int), NOISE, steps=-1), "steps must be at least 0, got -1"),
        (lambda: Replace(0.5, 0), "states must be at least 1, got 0"),
        (lambda: Replace(0.5, -2), "states must be at least 1, got -2"),
        (lambda: Replace(0.5, 2.5), r"states must be a whole number, got 2\.5 \(Replace\.states\)"),
        (lambda: Replace(float("nan"), 2), r"rate must be a number, got nan \(Replace\.rate\)"),
        (lambda: Replace(0.5, 10**9), "bytes .states"),
        (
            lambda: Replace(0.5, 2)(np.array([0.0, np.nan]), NOISE),
            r"state must hold whole numbers, got nan \(state, index 1\)",
        ),
        (lambda: Replace(0.5, 2)(np.array(["a"]), NOISE), "state must hold numbers, got dtype <U1"),
        (lambda: FlipBits("a"), r"rate must be a number, got 'a' \(FlipBits\.rate\)"),
        (lambda: AddNormal(None), r"scale must be a number, got None \(AddNormal\.scale\)"),
        (
            lambda: FiniteDenoiser(None),
            r"corruption must have matrix\(\), as Replace\(rate, states\) has, got a NoneType",
        ),
        (lambda: FiniteDenoiser(Replace(0.5, 2)).fit([0, 1], ["a", "b"]), "weight must hold numbers, got dtype <U1"),
        (lambda: FiniteDenoiser(Replace(0.5, 2)).fit(0), r"x must be one state per row, \(n,\), got 0"),
        (
            lambda: TransitionOperator(Replace(0.5, 2), None),
            r"denoiser must have conditional\(corrupted\), got a NoneType",
        ),
        (lambda: log_partition(bell, None), r"method must be a name or .* Linked\(levels=5\), got a NoneType"),
        (lambda: log_partition(bell, ["ais"]), r"method must be .*, got a list"),
        (lambda: log_partition(bell, Linked), r"method must be .*, got the class Linked"),
        (
            lambda: log_partition(tiny_rbm(), limit="9"),
            r"limit must be a whole number, got '9' \(log_partition\.limit\)",
        ),
        (lambda: log_partition(bell, "ais", chains=1.5), r"chains must be a whole number, got 1\.5 \(AIS\.chains\)"),
        (lambda: log_partition(bell, chains=1.5), r"chains must be a whole number, got 1\.5 \(Auto\.chains\)"),
        (
            lambda: log_partition(tiny_rbm(), "bridge", chains=2, draws=10**18, burn_in=0),
            r"must be at most 1e\+09, got \d+",
        ),
        (lambda: log_partition(bell, "exact", bounds=3), r"bounds must be \[\(lower, upper\), \.\.\.\], got a int"),
        (
            lambda: log_partition(bell, "exact", bounds=[3]),
            r"bounds must be a pair \(lower, upper\) for each column, got an array of shape \(1,\)",
        ),
        (lambda: log_partition(bell, "exact", bounds=[("a", "b")]), "bounds must hold numbers, got dtype <U1"),
        (
            lambda: log_partition(bell, "exact", bounds=[(1.0, float("nan"))]),
            r"bounds must have lower < upper, got \(1\.0, nan\)",
        ),
        (lambda: log_integral(lambda x: x), r"log_density must return shape \(32,\), got \(32, 1\)"),
        (lambda: log_integral(lambda x: None), "log_density must hold numbers, got a NoneType"),
        (lambda: compare_models(bell, bell, ROWS, log_ratio="a"), "log_ratio must hold numbers, got a str"),
        (
            lambda: compare_models(bell, bell, ROWS, log_ratio=float("nan")),
            "log_ratio must be a Score or one finite number, got nan",
        ),
        (
            lambda: compare_models(bell, lambda x: x, ROWS, log_ratio=0.0),
            r"log density must return shape \(4,\), got \(4, 1\)",
        ),
        (
            lambda: compare_models(bell, bell, ROWS, None),
            r"method must be a name or .* Linked\(levels=5\), got a NoneType",
        ),
        (
            lambda: compare_models(bell, bell, ROWS, "bridge", samples=ROWS),
            r"samples must be \(draws of A, draws of B\), got a ndarray",
        ),
        (lambda: compare_models(bell, bell, ["a"], log_ratio=0.0), "X must hold numbers, got dtype <U1"),
        (
            lambda: conditional_entropy(tiny_rbm(), np.zeros((4, 2))),
            r"x must be \(rows, 3\) for block 'visible', got shape \(4, 2\)",
        ),
        (lambda: conditional_entropy(tiny_rbm(), None), "x must hold numbers, got a NoneType"),
        (lambda: conditional_entropy(None, np.zeros((4, 2))), "model must have two blocks, got 0"),
        (
            lambda: estimate_mutual_information(tiny_rbm(), np.zeros(3), NOISE),
            r"x must be \(rows, 3\) for block 'visible', got shape \(3,\)",
        ),
        (
            lambda: estimate_mutual_information(tiny_rbm(), np.zeros((4, 3)), None),
            r"noise must be a Noise\(seed, purpose\), got None \(estimate_mutual_information\.noise\)",
        ),
        (lambda: mutual_information(tiny_rbm(), limit="3"), r"\(mutual_information\.limit\)"),
        (lambda: trade_off(None), "model must have two blocks, got 0"),
        (lambda: coupled_pair_trade_off(float("inf")), "w must be finite, got inf"),
        (lambda: min_degree(None), "graph must be undirected, got a NoneType; give an UndirectedGraph"),
        (lambda: best_order(DirectedGraph({"a": ()})), r"graph\.moral\(\)"),
        (lambda: width_at_least([]), "graph must be undirected, got a list; give an UndirectedGraph"),
        (lambda: order_cost(UndirectedGraph("ab"), 3), "must be a list or tuple of names, got 3"),
        (
            lambda: order_cost(UndirectedGraph("ab"), "ab", {"a": 2}),
            r"the size of 'b' must be a whole number of at least 1, got none \(sizes\)",
        ),
        (
            lambda: order_cost(UndirectedGraph("ab"), "ab", {"a": 2, "b": 0}),
            r"the size of 'b' must be a whole number of at least 1, got 0 \(sizes\)",
        ),
        (lambda: order_cost(UndirectedGraph("ab"), "ab", 2), r"sizes must be \{node: number of values\}, got a int"),
        (lambda: min_fill(UndirectedGraph("ab"), 3), "must be a list or tuple of names, got 3"),
        (
            lambda: posterior_graph(None, []),
            "graph must be a DirectedGraph, UndirectedGraph or LayeredGraph, got a NoneType",
        ),
        (lambda: posterior_graph(NET.graph, 3), "must be a list or tuple of names, got 3"),
        (lambda: treewidth_bound(3), "graph must be a DirectedGraph, UndirectedGraph or LayeredGraph, got a int"),
        (lambda: NET.log_prob([[0, 1]]), r"values must be a mapping of nodes, \{node: \.\.\.\}, got a list"),
        (lambda: NET.log_prob(None), r"values must be a mapping of nodes, \{node: \.\.\.\}, got a NoneType"),
        (lambda: NET.log_prob({"a": [0, 1]}), "node 'b' has no value"),
        (
            lambda: NET.log_prob({"a": [0, 1], "b": [0]}),
            r"columns must have one length, got \{'a': 2, 'b': 1\}; give one row each per draw",
        ),
        (
            lambda: NET.log_prob({"a": 0, "b": 0}),
            r"'a' must have one value per row, \(n, \.\.\.\), got one number \(values\)",
        ),
        (lambda: NET.log_prob({"a": ["x"], "b": [0]}), "a must hold numbers, got dtype <U1"),
        (lambda: NET.sample(3, NOISE, do=3), r"do must be a mapping of nodes, \{node: \.\.\.\}, got a int"),
        (lambda: NET.sample(10**18, NOISE), "bytes .n"),
        (
            lambda: DirectedModel(NET.graph, None),
            r"conditionals must be a mapping of nodes, \{node: \.\.\.\}, got a NoneType",
        ),
        (
            lambda: VariableElimination(NET).posterior(["a"], 3),
            r"evidence must be a mapping \{name: value\}, got a int",
        ),
        (lambda: VariableElimination(NET).posterior(3), "must be a list or tuple of names, got 3"),
        (lambda: VariableElimination(NET).log_evidence(3), r"evidence must be a mapping \{name: value\}, got a int"),
        (
            lambda: VariableElimination(NET).cost(evidence=3, query=["a"]),
            r"evidence must be a mapping \{name: value\}, got a int",
        ),
        (lambda: VariableElimination(NET).marginals(3), r"evidence must be a mapping \{name: value\}, got a int"),
        (lambda: VariableElimination(NET).map(["b"]), r"evidence must be a mapping \{name: value\}, got a list"),
        (lambda: VariableElimination(NET, order=3), "must be a list or tuple of names, got 3"),
        (lambda: VariableElimination(NET, limit="9"), r"\(VariableElimination\.limit\)"),
        (
            lambda: VariableElimination(NET).sample_posterior(-1, NOISE),
            r"shape must be a tuple of integers >= 0, got \(-1,\)",
        ),
        (lambda: anneal(None, NOISE), "path must be a path, such as a TemperedPath or a BridgePath, got a NoneType"),
        (lambda: linked(None, NOISE), "path must be a path, such as a TemperedPath or a BridgePath, got a NoneType"),
        (lambda: linked(PATH, NOISE, bridge=lambda a, b: 3.0), r"bridge must return shape \(100, 20\), got \(\)"),
        (
            lambda: ais(tiny_rbm(), None, NOISE),
            r"base must have log_partition, got a NoneType; pass model\.base\(\.\.\.\)",
        ),
        (lambda: TemperedTransitions(3, kernel=3), "kernel must be a kernel or one per level, got a int"),
        (lambda: FlipBits(0.5)(None, NOISE), "x must be an array or a tensor with rows, got a NoneType"),
        (lambda: compare_models(bell, bell, ROWS, "bridge", chain=3), "takes no chain"),
        (lambda: compare_models(bell, bell, ROWS, log_ratio=0.0).verdict(None), r"\(ModelComparison\.verdict\.level\)"),
        (lambda: NET.node_log_prob("c", {"a": [0]}), "unknown"),
        (lambda: likelihood_weighting(NET, {"b": 1}, 10**18, NOISE), "bytes .n"),
        (lambda: NOISE.rows([1, 2]).take(["a"]), "indices must be whole numbers, got <U1"),
        (lambda: Noise(0, 3), "got 3"),
        (lambda: NOISE.bernoulli([0.5]), r"p must be an array or a tensor, got \[0\.5\]"),
        (lambda: VariableElimination(NET).sample_posterior(10**18, NOISE), "bytes .n"),
    ],
)
def test_mistakes_are_told_in_one_line(call, message):
    with pytest.raises(UserError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_columns_may_be_lists():
    """P(a = 0) P(b = 0 | a = 0) = 0.9 and P(a = 1) P(b = 1 | a = 1) = 0.1."""
    assert np.allclose(NET.log_prob({"a": [0, 1], "b": [0, 1]}), np.log([0.9, 0.1]), rtol=1e-14)
