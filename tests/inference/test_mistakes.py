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
        (lambda: expectation(np.square, uniform, 10**18, NOISE), "ask for 0 to"),
        (lambda: expectation(np.square, uniform, 3, None), r"None is not allowed \(expectation\.noise\)"),
        (lambda: expectation(None, uniform, 3, NOISE), r"None is not allowed \(expectation\.f\)"),
        (lambda: RunningMean().update(np.array([1j])), "complex numbers"),
        (lambda: RunningMean().update("abc"), "holds no numbers"),
        (lambda: UniformBox("a", "b"), "holds no numbers"),
        (lambda: BOX.sample(10**9 * 4, NOISE), "bytes .n"),
        (lambda: BOX.log_prob(np.zeros(3)), r"points of shape \(3,\)"),
        (lambda: integral(3, BOX, 10, NOISE), r"3 is not allowed \(integral\.f\)"),
        (lambda: check_coverage(lambda x: np.ones(7), BOX, 0.0, 1.0, 9, NOISE), r"f answers shape \(7,\), not \(9,\)"),
        (lambda: check_coverage(lambda x: x[:, 0], None, 0.0, 1.0, 9, NOISE), "has no density"),
        (lambda: LasVegas(lambda n, noise: np.arange(n)).run(2, NOISE), "the attempt answers a ndarray"),
        (lambda: LasVegas(lambda n, noise: (np.arange(n), np.full(n, np.nan))).run(2, NOISE), "neither true nor false"),
        (lambda: RejectionSampler(lambda x: x, BOX, 9.0).run(2, NOISE), r"target answers shape \(2, 1\)"),
        (lambda: importance_sample(lambda x: x, BOX, 5, NOISE), r"target answers shape \(5, 1\)"),
        (lambda: importance_sample(bell, None, 5, NOISE), "a NoneType is no proposal"),
        (lambda: check_support([0.5, 0.5], [1.0]), r"shapes \(2,\), \(1,\)"),
        (lambda: check_support([0.5, np.nan], [1.0, 1.0]), "p holds a mass"),
        (lambda: optimal_proposal(["a"], [1.0]), "holds no numbers"),
        (lambda: estimate_log_ratio([[0.0]], [[1.0]], bell, bell, ess=(1,)), "ess is"),
        (lambda: TemperedPath(bell, None, ["a", "b"], MetropolisHastings()), "holds no numbers"),
        (lambda: TemperedPath(bell, None, [0.5, 1.0], "hmc"), "a str is no kernel"),
        (lambda: heat_capacity(0.0, [1.0, 2.0], [0.0]), "1 log weights of 2 states"),
        (lambda: sample_chain(bell, start=1, burn_in=1.5), r"burn_in is 1\.5 \(burn_in\)"),
        (lambda: sample_chain(bell, start=1, burn_in=0, draws=10**9), "bytes .draws"),
        (lambda: sample_chain(bell, start=1, thin=float("nan")), "thin is nan"),
        (lambda: ExactPosterior(fair, 1).posterior([]), r"v of shape \(0,\)"),
        (lambda: ExactPosterior(fair, "ab"), "holds no numbers"),
        (lambda: ExactPosterior(lambda v, h: np.array(["a"] * len(v)), 1).log_evidence([[0.0]]), "holds no numbers"),
        (lambda: codes([0.5], (2,)), "no whole number"),
        (lambda: NET.sample(1.5, NOISE), r"1\.5 is not allowed \(DirectedModel\.sample\.n\)"),
        (lambda: likelihood_weighting(NET, {"b": 1}, "3", NOISE), r"\(likelihood_weighting\.n\)"),
        (lambda: PAIR.given({"a": 2}), r"a = 2 is outside \[0, 2\)"),
        (lambda: PAIR.given({"a": 0.5}), r"a = 0\.5 is outside"),
        (lambda: PAIR.given(None), "evidence is a NoneType"),
        (lambda: Factor("a", ["x"]), "holds no numbers"),
        (lambda: DirectedGraph({"a": 3}), "3 is no list of names"),
        (lambda: DirectedGraph([("a", "b")]), "parents are a list"),
        (lambda: DirectedGraph.from_edges(["abc"]), "an edge with 3 ends"),
        (lambda: UndirectedGraph("ab", [("a", [])]), "is no name of a node"),
        (lambda: UndirectedGraph("ab").neighbors([]), "unknown"),
        (lambda: LayeredGraph({"a": 1.5}), r"units of 'a' is 1\.5"),
        (lambda: LayeredGraph({"a": 10**6, "b": 10**6}, [("a", "b")]).units(), "bytes .units"),
        (lambda: importance_sample(bell, Normal(0.0, 1.0), 5.5, NOISE), r"5\.5 is not allowed"),
        (lambda: annealing_schedule(10**18), r"1e\+18 steps would not end"),
        (lambda: annealing_schedule(float("nan")), r"nan is not allowed \(annealing_schedule\.n\)"),
        (lambda: anneal(PATH, NOISE, chains=10**18), "bytes .chains"),
        (lambda: anneal(PATH, NOISE, chains=-1), "-1 chains are not possible"),
        (lambda: anneal(PATH, NOISE, chains=2.5), r"2\.5 is not allowed \(anneal\.chains\)"),
        (lambda: ais(tiny_rbm(), tiny_rbm().base(), NOISE, schedule=10**18), "would not end"),
        (lambda: ais(tiny_rbm(), tiny_rbm().base(), NOISE, schedule=2.5), r"2\.5 is not allowed"),
        (lambda: ais(tiny_rbm(), tiny_rbm().base(), NOISE, chains=10**9), r"3e\+09 numbers"),
        (lambda: linked(PATH, NOISE, runs=10**18), "bytes .runs, chain_length"),
        (lambda: linked(PATH, NOISE, chain_length=10**18), "would not end"),
        (lambda: linked(PATH, NOISE, chain_length=0), "100 runs of 0 states"),
        (lambda: TemperedPath(bell, None, [0.5, 1.0], MetropolisHastings(), steps=10**18), "would not end"),
        (lambda: TemperedTransitions(steps=0), "0 steps are not possible"),
        (lambda: TemperedTransitions(steps=1.5), r"\(TemperedTransitions\.steps\)"),
        (lambda: TemperedTransitions(10**18), "temperatures would not end"),
        (lambda: ladder(10**18), r"1e\+18 temperatures"),
        (lambda: ladder(1), "1 temperatures are not possible"),
        (lambda: spaced_by(10**18, [1.0, 0.0], [4.0, 4.0]), r"1e\+18 temperatures"),
        (lambda: WeightedSample(np.zeros(3)).resample(NOISE, 10**18), "bytes .n"),
        (lambda: WeightedSample(np.zeros(3)).resample(NOISE, -1), "-1 draws"),
        (lambda: WeightedSample(np.zeros(3)).resample(NOISE, draw=-1), "draw -1 is outside"),
        (lambda: learned().sample(np.zeros(2, int), NOISE, steps=10**18), "would not end"),
        (lambda: learned().sample(np.zeros(2, int), NOISE, steps=-1), "-1 steps are not possible"),
        (lambda: Replace(0.5, 0), "0 states are not possible"),
        (lambda: Replace(0.5, -2), "-2 states"),
        (lambda: Replace(0.5, 2.5), r"2\.5 is not allowed \(Replace\.states\)"),
        (lambda: Replace(float("nan"), 2), r"nan is not allowed \(Replace\.rate\)"),
        (lambda: Replace(0.5, 10**9), "bytes .states"),
        (lambda: Replace(0.5, 2)(np.array([0.0, np.nan]), NOISE), "nan is no whole number"),
        (lambda: Replace(0.5, 2)(np.array(["a"]), NOISE), "holds no numbers"),
        (lambda: FlipBits("a"), r"'a' is not allowed \(FlipBits\.rate\)"),
        (lambda: AddNormal(None), r"None is not allowed \(AddNormal\.scale\)"),
        (lambda: FiniteDenoiser(None), "has no matrix of states"),
        (lambda: FiniteDenoiser(Replace(0.5, 2)).fit([0, 1], ["a", "b"]), "holds no numbers"),
        (lambda: FiniteDenoiser(Replace(0.5, 2)).fit(0), r"states of shape \(\)"),
        (lambda: TransitionOperator(Replace(0.5, 2), None), "is no denoiser"),
        (lambda: log_partition(bell, None), "a NoneType is no method"),
        (lambda: log_partition(bell, ["ais"]), "a list is no method"),
        (lambda: log_partition(bell, Linked), "the class Linked is no method"),
        (lambda: log_partition(tiny_rbm(), limit="9"), r"'9' is not allowed \(log_partition\.limit\)"),
        (lambda: log_partition(bell, "ais", chains=1.5), r"1\.5 is not allowed \(AIS\.chains\)"),
        (lambda: log_partition(bell, chains=1.5), r"1\.5 is not allowed \(Auto\.chains\)"),
        (lambda: log_partition(tiny_rbm(), "bridge", chains=2, draws=10**18, burn_in=0), "would not end"),
        (lambda: log_partition(bell, "exact", bounds=3), "bounds are a int"),
        (lambda: log_partition(bell, "exact", bounds=[3]), r"bounds of shape \(1,\)"),
        (lambda: log_partition(bell, "exact", bounds=[("a", "b")]), "holds no numbers"),
        (lambda: log_partition(bell, "exact", bounds=[(1.0, float("nan"))]), "are empty"),
        (lambda: log_integral(lambda x: x), r"log_density answers shape \(32, 1\), not \(32,\)"),
        (lambda: log_integral(lambda x: None), "a NoneType is no number"),
        (lambda: compare_models(bell, bell, ROWS, log_ratio="a"), r"\(log_ratio\)"),
        (lambda: compare_models(bell, bell, ROWS, log_ratio=float("nan")), "a log ratio of nan"),
        (lambda: compare_models(bell, lambda x: x, ROWS, log_ratio=0.0), r"log density answers shape \(4, 1\)"),
        (lambda: compare_models(bell, bell, ROWS, None), "a NoneType is no method"),
        (lambda: compare_models(bell, bell, ROWS, "bridge", samples=ROWS), "samples are a ndarray"),
        (lambda: compare_models(bell, bell, ["a"], log_ratio=0.0), r"\(X\)"),
        (lambda: conditional_entropy(tiny_rbm(), np.zeros((4, 2))), r"states of shape \(4, 2\) for 3 units"),
        (lambda: conditional_entropy(tiny_rbm(), None), "a NoneType is no number"),
        (lambda: conditional_entropy(None, np.zeros((4, 2))), "NoneType has 0 blocks"),
        (lambda: estimate_mutual_information(tiny_rbm(), np.zeros(3), NOISE), r"states of shape \(3,\)"),
        (lambda: estimate_mutual_information(tiny_rbm(), np.zeros((4, 3)), None), "None is not allowed"),
        (lambda: mutual_information(tiny_rbm(), limit="3"), r"\(mutual_information\.limit\)"),
        (lambda: trade_off(None), "NoneType has 0 blocks"),
        (lambda: coupled_pair_trade_off(float("inf")), "a coupling of inf"),
        (lambda: min_degree(None), "a NoneType is no undirected graph"),
        (lambda: best_order(DirectedGraph({"a": ()})), r"graph\.moral\(\)"),
        (lambda: width_at_least([]), "a list is no undirected graph"),
        (lambda: order_cost(UndirectedGraph("ab"), 3), "3 is no list of names"),
        (lambda: order_cost(UndirectedGraph("ab"), "ab", {"a": 2}), "'b' has no size"),
        (lambda: order_cost(UndirectedGraph("ab"), "ab", {"a": 2, "b": 0}), "'b' has 0 values"),
        (lambda: order_cost(UndirectedGraph("ab"), "ab", 2), "sizes are a int"),
        (lambda: min_fill(UndirectedGraph("ab"), 3), "3 is no list of names"),
        (lambda: posterior_graph(None, []), "a NoneType is no graph"),
        (lambda: posterior_graph(NET.graph, 3), "3 is no list of names"),
        (lambda: treewidth_bound(3), "a int is no graph"),
        (lambda: NET.log_prob([[0, 1]]), "a list names no nodes"),
        (lambda: NET.log_prob(None), "a NoneType names no nodes"),
        (lambda: NET.log_prob({"a": [0, 1]}), "node 'b' has no value"),
        (lambda: NET.log_prob({"a": [0, 1], "b": [0]}), "columns of unlike lengths"),
        (lambda: NET.log_prob({"a": 0, "b": 0}), "'a' has one number for all rows"),
        (lambda: NET.log_prob({"a": ["x"], "b": [0]}), "holds no numbers"),
        (lambda: NET.sample(3, NOISE, do=3), r"a int names no nodes \(do\)"),
        (lambda: NET.sample(10**18, NOISE), "bytes .n"),
        (lambda: DirectedModel(NET.graph, None), "a NoneType names no nodes"),
        (lambda: VariableElimination(NET).posterior(["a"], 3), "evidence is a int"),
        (lambda: VariableElimination(NET).posterior(3), "3 is no list of names"),
        (lambda: VariableElimination(NET).log_evidence(3), "evidence is a int"),
        (lambda: VariableElimination(NET).cost(evidence=3, query=["a"]), "evidence is a int"),
        (lambda: VariableElimination(NET).marginals(3), "evidence is a int"),
        (lambda: VariableElimination(NET).map(["b"]), "evidence is a list"),
        (lambda: VariableElimination(NET, order=3), "3 is no list of names"),
        (lambda: VariableElimination(NET, limit="9"), r"\(VariableElimination\.limit\)"),
        (lambda: VariableElimination(NET).sample_posterior(-1, NOISE), r"shape \(-1,\)"),
        (lambda: anneal(None, NOISE), "a NoneType is no path"),
        (lambda: linked(None, NOISE), "a NoneType is no path"),
        (lambda: linked(PATH, NOISE, bridge=lambda a, b: 3.0), r"bridge answers shape \(\)"),
        (lambda: ais(tiny_rbm(), None, NOISE), "a NoneType is no base"),
        (lambda: TemperedTransitions(3, kernel=3), "a int is no kernel"),
        (lambda: FlipBits(0.5)(None, NOISE), "a NoneType holds no rows"),
        (lambda: compare_models(bell, bell, ROWS, "bridge", chain=3), "takes no chain"),
        (lambda: compare_models(bell, bell, ROWS, log_ratio=0.0).verdict(None), r"\(ModelComparison\.verdict\.level\)"),
        (lambda: NET.node_log_prob("c", {"a": [0]}), "unknown"),
        (lambda: likelihood_weighting(NET, {"b": 1}, 10**18, NOISE), "bytes .n"),
        (lambda: NOISE.rows([1, 2]).take(["a"]), "no whole numbers"),
        (lambda: Noise(0, 3), "got 3"),
        (lambda: NOISE.bernoulli([0.5]), "a list is no array"),
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
