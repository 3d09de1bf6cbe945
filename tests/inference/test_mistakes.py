"""What engines are given by mistake is refused in one line, before it costs time or memory or becomes a number."""

import numpy as np
import pytest

from gnomon.distributions.conditional import ConditionalTable
from gnomon.distributions.real import Normal
from gnomon.errors import UserError
from gnomon.graphs.directed import DirectedGraph
from gnomon.graphs.layered import LayeredGraph
from gnomon.graphs.undirected import UndirectedGraph
from gnomon.inference.directed import DirectedModel
from gnomon.inference.evidence import likelihood_weighting
from gnomon.inference.exact.factors import Factor
from gnomon.inference.exact.posterior import ExactPosterior, codes
from gnomon.inference.importance.bridge import estimate_log_ratio
from gnomon.inference.importance.proposals import optimal_proposal
from gnomon.inference.importance.weights import check_support, importance_sample
from gnomon.inference.mcmc.ladders import heat_capacity
from gnomon.inference.mcmc.metropolis import MetropolisHastings
from gnomon.inference.mcmc.paths import TemperedPath
from gnomon.inference.mcmc.sampling import sample_chain
from gnomon.inference.montecarlo.expectation import RunningMean, expectation
from gnomon.inference.montecarlo.integration import UniformBox, check_coverage, integral
from gnomon.inference.montecarlo.lasvegas import LasVegas, RejectionSampler
from gnomon.numeric.noise import Noise

NOISE, BOX = Noise(0, "mistakes"), UniformBox(0.0, 1.0)
NET = DirectedModel(
    DirectedGraph({"a": (), "b": ("a",)}), {"a": ConditionalTable([0.9, 0.1]), "b": ConditionalTable(np.eye(2))}
)
PAIR = Factor.of("ab", [[2, 1], [1, 10]])


def bell(x):
    return -0.5 * (x * x).sum(-1)


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
    ],
)
def test_mistakes_are_told_in_one_line(call, message):
    with pytest.raises(UserError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
