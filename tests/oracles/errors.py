"""Standard errors of any weighted metric by finite differences in the weights of the rows."""

import numpy as np


def stderr_by_differences(metric, weight, step=1e-6):
    """sqrt(n/(n-1) sum_i w_i^2 (d metric / d w_i)^2), for a metric that all weights may be multiplied in."""
    weight = np.asarray(weight, float)
    total = 0.0
    for i in np.flatnonzero(weight):
        up, down = weight.copy(), weight.copy()
        up[i] += step
        down[i] -= step
        total += (weight[i] * (metric(up) - metric(down)) / (2 * step)) ** 2
    n = np.count_nonzero(weight)
    return np.sqrt(n / (n - 1) * total)
