"""Normal laws nearest to a mixture of two, in both directions: figures by quadrature."""

import math

import numpy as np
import pytest
from scipy import stats

from gnomon.distributions.family import kl_divergence
from gnomon.distributions.real import Normal
from gnomon.errors import UserValueError
from gnomon.inference.variational.projection import moment_projection, project


def bimodal(x):
    return np.logaddexp(stats.norm(-3, 1).logpdf(x), stats.norm(3, 1).logpdf(x)) - math.log(2)


@pytest.mark.spec("NLP-02", "INF-85", "GEN-147")
def test_forward_matches_the_moments():
    found = project(bimodal, "forward")
    assert abs(found.mean) < 1e-9 and abs(found.variance - 10) < 1e-8
    assert abs(found.divergence - 0.461995) < 1e-6
    for mean, scale in ((0.2, math.sqrt(10)), (0.0, 3.0), (0.0, 3.4)):  # nothing near is better
        x = np.linspace(-40, 40, 400_001)
        p = np.exp(bimodal(x))
        other = (p * (bimodal(x) - stats.norm(mean, scale).logpdf(x))).sum() * (x[1] - x[0])
        assert other > found.divergence


@pytest.mark.spec("NLP-02")
def test_on_draws_forward_is_maximum_likelihood():
    rng = np.random.default_rng(0)
    x = rng.normal(size=50_000) + np.where(rng.random(50_000) < 0.5, -3, 3)
    law = moment_projection(x)
    assert np.allclose([law.loc, law.scale], stats.norm.fit(x))
    assert abs(law.mean) < 5 * math.sqrt(10 / 50_000) and abs(law.variance - 10) < 0.2  # both beyond five errors
    grid = np.linspace(-40, 40, 20_001)
    weighted = moment_projection(grid, np.exp(bimodal(grid) + 7.0))  # importance weights, unnormalized
    assert abs(weighted.variance - 10) < 1e-6
    with pytest.raises(UserValueError, match="all draws are equal"):
        moment_projection([1.0, 1.0])


@pytest.mark.spec("NLP-03", "INF-85", "GEN-147")
def test_reverse_sits_on_a_mode_that_depends_on_the_start():
    for start, sign in ((2.0, 1), (-2.0, -1)):
        found = project(bimodal, "reverse", start=(start, 1.0))
        assert abs(found.mean - sign * 2.984306) < 1e-5
        assert abs(math.sqrt(found.variance) - 1.023369) < 1e-5 and abs(found.variance - 1.04728) < 1e-4
        assert abs(found.divergence - 0.688769) < 1e-6
    between = project(bimodal, "reverse", start=(0.0, 1.0))
    assert abs(between.mean) < 1e-6 and abs(math.sqrt(between.variance) - 2.743769) < 1e-4
    assert abs(between.divergence - 0.840621) < 1e-6
    shifted = project(lambda x: bimodal(x) + 5.0, "reverse", start=(2.0, 1.0))  # an unnormalized target
    assert abs(shifted.mean - 2.984306) < 1e-5 and abs(shifted.divergence - 0.688769 + 5) < 1e-5


@pytest.mark.spec("GEN-147", "NLP-03")
def test_a_normal_target_is_found_in_both_directions():
    target = Normal(1.0, 2.0)
    for direction in ("forward", "reverse"):
        found = project(target.log_prob, direction, start=(0.0, 1.0))
        assert abs(found.mean - 1) < 1e-5 and abs(found.variance - 4) < 1e-4 and abs(found.divergence) < 1e-8
    # the divergence that reverse reports is the closed form along the way
    assert math.isclose(kl_divergence(Normal(0.0, 1.0), target), 0.4431471805599453)
    with pytest.raises(UserValueError, match="direction"):
        project(target.log_prob, "sideways")


@pytest.mark.spec("INF-85", "NLP-02", "NLP-03")
def test_a_target_of_the_half_line_has_no_reverse_projection():
    """KL(q || p) is infinite for every normal q, wherever the search begins; forward it is 1/2 log(2 pi e) - 1."""

    def half_line(x):
        return np.where(x > 0, -x, -np.inf)

    found = project(half_line, "forward", support=(0.0, 60.0))
    assert abs(found.mean - 1) < 1e-9 and abs(found.divergence - 0.5 * math.log(2 * math.pi * math.e) + 1) < 1e-9
    assert abs(project(half_line, "forward", support=(-40.0, 60.0)).divergence - found.divergence) < 1e-9
    for start in ((0.0, 1.0), (2.0, 1.0), (2.0, 0.1), (9.0, 0.1)):
        with pytest.raises(UserValueError, match=r'KL\(q \|\| p\) is infinite: .*use direction="forward"'):
            project(half_line, "reverse", start=start)
    with pytest.raises(UserValueError, match="must be a number, got nan"):
        project(lambda x: x * np.nan, "reverse")
    with pytest.raises(UserValueError, match="the divergence has no minimum"):
        project(lambda x: 0.5 * x**2, "reverse")
