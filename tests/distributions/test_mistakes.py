"""What the families refuse: arguments that would broadcast, be cut or become NaN unseen."""

import numpy as np
import pytest
import torch

from gnomon.distributions.conditional import ConditionalTable
from gnomon.distributions.conjugate.counts import BernoulliBeta, CategoricalDirichlet
from gnomon.distributions.conjugate.matrices import MultivariateNormalPrecision
from gnomon.distributions.conjugate.normals import NormalMean
from gnomon.distributions.family import kl_divergence
from gnomon.distributions.normal_wishart import NormalGamma, NormalWishart
from gnomon.distributions.real import Normal
from gnomon.distributions.sticks import StickBreaking, fractions_of, weights_of
from gnomon.distributions.table import Categorical, Table
from gnomon.distributions.transformed import Pushforward, Truncated, inverse_transform_sample, invert_cdf
from gnomon.distributions.vectors import MultivariateNormal, MultivariateStudentT, Wishart
from gnomon.errors import UserError
from gnomon.numeric.noise import Noise

NOISE, EYE = Noise(0, "mistakes"), np.eye(2)
TWO = Normal(np.zeros(2), 1.0)
JOINT = NormalWishart([0.0, 0.0], 1.0, 3.0, EYE)
TABLE = Table([[0.2, 0.3], [0.4, 0.1]], ("a", "b"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: TWO.log_prob(np.zeros(3)), r"x must broadcast against shape \(2,\), got shape \(3,\)"),
        (lambda: TWO.log_prob([["a"]]), "x must hold numbers, got dtype <U1"),
        (lambda: TWO.cdf([1j]), "complex numbers"),
        (lambda: TWO.icdf([0.5, 1.5]), r"u must be in \(0, 1\), got 1\.5 \(u, index 1\)"),
        (lambda: TWO.sample(None), r"noise must be a gnomon\.numeric\.noise\.Noise\(seed, purpose\), got a NoneType"),
        (lambda: TWO.sample(NOISE, 0, 3), "shape must be a tuple of integers >= 0, got 3"),
        (lambda: TWO.sample(NOISE, -1), r"draw must be an integer in \[0, 2\*\*31\), got -1"),
        (lambda: TWO.rsample(NOISE, 0, (10**6, 10**6)), "bytes .shape"),
        (lambda: Normal([1j], 1.0), r"loc must be a number or an array, got \[1j\]"),
        (
            lambda: Normal([[1.0], [1.0, 2.0]], 1.0),
            r"loc must be a number or an array, got \[\[1\.0\], \[1\.0, 2\.0\]\]",
        ),
        (
            lambda: kl_divergence(TWO, Normal(np.zeros(3), 1.0)),
            r"the batch shapes of p and q must broadcast, got \(2,\) and \(3,\) \(p, q\)",
        ),
        (
            lambda: MultivariateNormal([0.0, 0.0], EYE).log_prob(np.ones((3, 1))),
            r"x must have 2 on the last axis, got shape \(3, 1\)",
        ),
        (
            lambda: MultivariateStudentT(3.0, [0.0, 0.0], EYE).log_prob(np.ones((3, 1))),
            r"x must have 2 on the last axis, got shape \(3, 1\)",
        ),
        (
            lambda: MultivariateStudentT(3.0, [0.0, np.nan], EYE),
            r"loc must be d finite numbers, got an array of shape \(2,\)",
        ),
        (lambda: Wishart(3.0, EYE).log_prob(np.eye(3)), r"x must have 2 x 2 on the last axes, got shape \(3, 3\)"),
        (lambda: JOINT.log_prob(np.zeros((3, 1)), EYE), r"mean must have 2 on the last axis, got shape \(3, 1\)"),
        (
            lambda: JOINT.log_prob(np.zeros((3, 2)), np.stack([EYE] * 4)),
            r"mean and precision must broadcast, got \(3,\) means and \(4,\) precisions \(mean, precision\)",
        ),
        (lambda: NormalGamma("0", 1.0, 2.0, 1.0), r"NormalGamma\.loc"),
        (lambda: StickBreaking(1.0, 10**12), "bytes .sticks"),
        (lambda: StickBreaking(1.0, 2.5), r"sticks must be a whole number, got 2\.5 \(StickBreaking\.sticks\)"),
        (
            lambda: weights_of([0.5, 1.5]),
            r"fractions must be in \[0, 1\] along the last axis, got an array of shape \(2,\)",
        ),
        (
            lambda: fractions_of([0.5, np.nan]),
            r"weights must be finite and at least 0 along the last axis, got an array of shape \(2,\)",
        ),
        (
            lambda: Truncated(MultivariateNormal([0.0], [[1.0]]), 0.0),
            "base must be a distribution of numbers with log_prob, got MultivariateNormal",
        ),
        (lambda: Truncated(Normal(0.0, 1.0), 0.0).icdf(-0.5), r"u must be in \[0, 1\]"),
        (lambda: Pushforward(Normal(0.0, 1.0), torch.exp, torch.log).log_prob([]), "x must have at least one row"),
        (lambda: invert_cdf(lambda x: x * np.nan, 0.5, (0, 1)), r"cdf must return numbers in \[0, 1\], got NaN"),
        (lambda: invert_cdf(lambda x: x, 0.5, (0, 1, 2)), "support"),
        (
            lambda: inverse_transform_sample(3, NOISE, (0, 1), pdf=lambda x: 1.0),
            r"pdf must return shape \(20001,\), got \(\)",
        ),
        (lambda: ConditionalTable([0.5, 0.4]), "sum to 1"),
        (
            lambda: ConditionalTable(EYE).distribution({"a": [0.5]}),
            r"a must be in \[0, 2\), got 0\.5 \(row 0\); encode its values as 0, 1, \.\.\.",
        ),
        (
            lambda: ConditionalTable(EYE).distribution({"a": [0, 1]}).log_prob([0, 1, 1]),
            r"x must broadcast against shape \(2,\), got shape \(3,\)",
        ),
        (lambda: Categorical(np.zeros(3)).log_prob([0.5]), r"x must hold whole numbers, got 0\.5 \(x, index 0\)"),
        (lambda: Categorical(0.0), r"logits must have one entry per category on the last axis, got 0\.0"),
        (lambda: TABLE.prob([[0.5, 0.0]]), r"rows must hold whole numbers, got 0\.5 \(rows, index 0\)"),
        (lambda: TABLE.conditional("a", b=0.5), r"b must be in \[0, 2\), got 0\.5"),
        (lambda: TABLE.sample(-1, NOISE), r"shape must be a tuple of integers >= 0, got \(-1,\)"),
        (lambda: Table.from_counts([[0]], (2,), alpha=np.inf), "alpha"),
        (lambda: NormalMean(np.inf), "mean must be finite"),
        (lambda: NormalMean("0"), r"NormalMean\.mean"),
        (lambda: BernoulliBeta(None), r"BernoulliBeta\.ones"),
        (lambda: CategoricalDirichlet((1.0, None)), "concentration must hold numbers, got a NoneType"),
        (
            lambda: MultivariateNormalPrecision(3.0, EYE, np.array([0.0, np.nan])),
            r"mean must be d finite numbers, got an array of shape \(2,\)",
        ),
    ],
)
def test_mistakes_are_told_in_one_line(call, message):
    with pytest.raises(UserError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_outcomes_that_cannot_be_have_density_zero():
    assert Wishart(3.0, EYE).log_prob([[1.0, 0.9], [0.0, 1.0]]) == -np.inf
    assert MultivariateNormal([0.0, 0.0], EYE).log_prob([np.inf, 0.0]) == -np.inf
    assert MultivariateStudentT(3.0, [0.0, 0.0], EYE).log_prob([[np.inf, -np.inf]]).tolist() == [-np.inf]
    assert JOINT.log_prob([np.inf, 0.0], EYE) == -np.inf


def test_a_read_only_outcome_is_no_obstacle():
    x = np.zeros(2)
    x.setflags(write=False)
    assert np.allclose(TWO.log_prob(x), -0.9189385)
