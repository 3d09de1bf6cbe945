"""Sums inside compiled kernels that may be reordered into vector registers."""

from __future__ import annotations

import math

import numba

from gnomon.numeric.fast import f64

__all__ = ["log_product", "reordered"]

# The order depends on the length alone, so that bits repeat; nothing else of fast arithmetic is allowed.
reordered = numba.njit(cache=True, error_model="numpy", nogil=True, fastmath={"reassoc"})


@reordered
def log_product(factors):  # type: ignore[no-untyped-def]
    """Log of the product of factors in [1/2, 2]: one logarithm for 512 of them, whose product is far from overflow."""
    total = 0.0
    for begin in range(0, factors.size, 512):
        product = 1.0
        for j in range(begin, min(begin + 512, factors.size)):
            product *= f64(factors[j])
        total += math.log(product)
    return total
