"""The public face of the conjugate algebra: every pair by name, posteriors against quadrature, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

import gnomon
from gnomon import conjugate
from gnomon.errors import UserTypeError, UserValueError


def test_every_pair_is_public_and_listed():
    for (likelihood, family), words in conjugate.pairs().items():
        cls = getattr(gnomon.conjugate, words.partition("(")[0])
        assert (cls.likelihood, cls.prior) == (likelihood, family) and cls.__name__ in conjugate.__all__


@pytest.mark.parametrize(
    ("names", "parameters", "x", "log_likelihood", "log_prior", "ends"),
    [
        (
            ("bernoulli", "beta"), {"ones": 2.0, "zeros": 3.0}, [1, 0, 1],
            lambda t: 2 * np.log(t) + np.log1p(-t), lambda t: stats.beta.logpdf(t, 2, 3), (0, 1),
        ),
        (
            ("poisson", "gamma"), {"concentration": 2.0, "rate": 0.5}, [3, 1, 4],
            lambda t: stats.poisson.logpmf([[3], [1], [4]], t).sum(),
            lambda t: stats.gamma.logpdf(t, 2, scale=2), (0, 60),
        ),
        (
            ("normal", "normal"), {"mean": 1.0, "variance": 4.0, "noise_variance": 0.5}, [0.3, 0.9],
            lambda t: stats.norm.logpdf([[0.3], [0.9]], t, 0.5**0.5).sum(),
            lambda t: stats.norm.logpdf(t, 1, 2), (-20, 20),
        ),
    ],
)  # fmt: skip
def test_posterior_and_evidence_against_quadrature(names, parameters, x, log_likelihood, log_prior, ends):
    before = conjugate.prior(*names, **parameters)
    after = gnomon.conjugate.update(before, x)

    def joint(t, power=0):
        return t**power * np.exp(log_likelihood(t) + log_prior(t))

    evidence = integrate.quad(joint, *ends, limit=200)[0]
    assert before.log_evidence(x) == pytest.approx(np.log(evidence), abs=1e-7)
    mean = integrate.quad(joint, *ends, args=(1,), limit=200)[0] / evidence
    assert float(after.distribution().mean) == pytest.approx(mean, rel=1e-6)
    half = conjugate.update(conjugate.update(before, x[:1]), x[1:])
    assert vars(half) == pytest.approx(vars(after))


def test_names_stand_for_default_priors_and_weights_count():
    by_name = conjugate.update(("poisson", "gamma"), [2, 5], weight=[2, 1])
    assert by_name == conjugate.update(conjugate.PoissonGamma(), [2, 2, 5])
    assert by_name.remove([5]) == conjugate.update(("poisson", "gamma"), [2, 2])


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (
            lambda: conjugate.update("beta", [1]),
            UserTypeError,
            r"str is not a prior \(prior\); give a pair, or \(likelihood, .*normal with normal-gamma",
        ),
        (lambda: conjugate.update(("poisson", "gama"), [1]), UserValueError, "poisson with gamma"),
        (lambda: conjugate.update(("bernoulli", "beta"), [1, 2]), UserValueError, "row 1"),
        (
            lambda: conjugate.update(("bernoulli", "beta"), [1, 0], weight=[1, -1]),
            UserValueError,
            r"x must be possible under the likelihood, got -1\.0, which is .*\(row 1\); drop the row",
        ),
        (lambda: conjugate.prior("bernoulli", "beta", alpha=1), UserTypeError, "its parameters are ones, zeros"),
        (lambda: conjugate.prior("bernoulli", "beta", ones=-1), UserValueError, "must be positive"),
        (lambda: conjugate.update(("multivariate-normal", "wishart"), [[1.0]]), UserTypeError, "its parameters are"),
    ],
)
def test_refusals_in_one_line(call, kind, words):
    with pytest.raises(kind, match=words) as error:
        call()
    assert "\n" not in str(error.value)
