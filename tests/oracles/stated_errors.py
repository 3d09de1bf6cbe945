"""Whether stated standard errors are those of the estimates: by how often their intervals hold the truth."""

import numpy as np

Z = 1.959963984540054  # half the width of a 95 % interval in standard errors
WRONG = 4.5  # standard deviations of the count, beyond which a right error comes with probability 7e-6


def coverage(estimates, errors, truth):
    """Fraction of the 95 % intervals that hold the truth: 0.83 for errors stated too small by sqrt(2), 0.994 for those
    too large by it."""
    return float(np.mean(np.abs(np.asarray(estimates) - truth) <= Z * np.asarray(errors)))


def check_coverage(estimates, errors, truth, slack=0.0):
    """Raise unless 95 % of the intervals hold the truth, up to chance (false-alarm rate 7e-6) and `slack`, by which
    intervals that are normal in the limit alone may miss it."""
    found, n = coverage(estimates, errors, truth), len(np.atleast_1d(estimates))
    allowed = WRONG * np.sqrt(0.95 * 0.05 / n) + slack
    assert n >= 700, "too few to tell a factor of sqrt(2)"
    assert abs(found - 0.95) < allowed < 0.04, f"95 % intervals hold the truth in {found:.1%} of {n}"
