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
        (lambda: TWO.log_prob(np.zeros(3)), r"x of shape \(3,\) does not fit \(2,\)"),
        (lambda: TWO.log_prob([["a"]]), "holds no numbers"),
        (lambda: TWO.cdf([1j]), "complex numbers"),
        (lambda: TWO.icdf([0.5, 1.5]), r"mass of 1\.5 \(u, place 1\)"),
        (lambda: TWO.sample(None), "a NoneType is no noise"),
        (lambda: TWO.sample(NOISE, 0, 3), r"shape 3 \(shape\); give a tuple"),
        (lambda: TWO.sample(NOISE, -1), "draw -1"),
        (lambda: TWO.rsample(NOISE, 0, (10**6, 10**6)), "bytes .shape"),
        (lambda: Normal([1j], 1.0), "loc is no number"),
        (lambda: Normal([[1.0], [1.0, 2.0]], 1.0), "loc is no number"),
        (lambda: kl_divergence(TWO, Normal(np.zeros(3), 1.0)), r"\(2,\) and \(3,\) laws do not fit"),
        (lambda: MultivariateNormal([0.0, 0.0], EYE).log_prob(np.ones((3, 1))), r"x has shape \(3, 1\)"),
        (lambda: MultivariateStudentT(3.0, [0.0, 0.0], EYE).log_prob(np.ones((3, 1))), r"x has shape \(3, 1\)"),
        (lambda: MultivariateStudentT(3.0, [0.0, np.nan], EYE), r"loc of shape \(2,\)"),
        (lambda: Wishart(3.0, EYE).log_prob(np.eye(3)), "give 2 x 2 on the last axes"),
        (lambda: JOINT.log_prob(np.zeros((3, 1)), EYE), r"mean has shape \(3, 1\)"),
        (lambda: JOINT.log_prob(np.zeros((3, 2)), np.stack([EYE] * 4)), "as many of both"),
        (lambda: NormalGamma("0", 1.0, 2.0, 1.0), r"NormalGamma\.loc"),
        (lambda: StickBreaking(1.0, 10**12), "bytes .sticks"),
        (lambda: StickBreaking(1.0, 2.5), r"2\.5 is not allowed \(StickBreaking\.sticks\)"),
        (lambda: weights_of([0.5, 1.5]), r"numbers in \[0, 1\]"),
        (lambda: fractions_of([0.5, np.nan]), "finite numbers >= 0"),
        (lambda: Truncated(MultivariateNormal([0.0], [[1.0]]), 0.0), "is no law of numbers"),
        (lambda: Truncated(Normal(0.0, 1.0), 0.0).icdf(-0.5), r"outside \[0, 1\]"),
        (lambda: Pushforward(Normal(0.0, 1.0), torch.exp, torch.log).log_prob([]), "no rows"),
        (lambda: invert_cdf(lambda x: x * np.nan, 0.5, (0, 1)), "answers NaN"),
        (lambda: invert_cdf(lambda x: x, 0.5, (0, 1, 2)), "support"),
        (lambda: inverse_transform_sample(3, NOISE, (0, 1), pdf=lambda x: 1.0), r"pdf answers shape \(\)"),
        (lambda: ConditionalTable([0.5, 0.4]), "sum to 1"),
        (lambda: ConditionalTable(EYE).distribution({"a": [0.5]}), r"a = 0\.5 is outside"),
        (lambda: ConditionalTable(EYE).distribution({"a": [0, 1]}).log_prob([0, 1, 1]), "does not fit"),
        (lambda: Categorical(np.zeros(3)).log_prob([0.5]), r"x = 0\.5 is no whole number"),
        (lambda: Categorical(0.0), r"logits of shape \(\)"),
        (lambda: TABLE.prob([[0.5, 0.0]]), "no whole number"),
        (lambda: TABLE.conditional("a", b=0.5), r"b = 0\.5 is outside"),
        (lambda: TABLE.sample(-1, NOISE), r"shape \(-1,\)"),
        (lambda: Table.from_counts([[0]], (2,), alpha=np.inf), "alpha"),
        (lambda: NormalMean(np.inf), "mean must be finite"),
        (lambda: NormalMean("0"), r"NormalMean\.mean"),
        (lambda: BernoulliBeta(None), r"BernoulliBeta\.ones"),
        (lambda: CategoricalDirichlet((1.0, None)), "is no number"),
        (lambda: MultivariateNormalPrecision(3.0, EYE, np.array([0.0, np.nan])), "give d finite numbers"),
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
