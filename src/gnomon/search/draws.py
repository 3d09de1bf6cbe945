"""Points of a space by the number of a trial: independent draws, and points of a Sobol sequence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.stats import qmc

from gnomon.numeric.noise import Noise
from gnomon.search.conditions import Conditional, Space, active
from gnomon.search.dimensions import Dimension

__all__ = ["drawn", "quantiles"]

BITS = 30
"""Of the coordinates of SciPy's Sobol sequence."""


def quantiles(names: list[str], seed: int, place: int, *, sobol: bool = False) -> dict[str, float]:
    r"""A point of the unit cube for the trial at a place of a search, by name of the coordinate.

    Independent draws are addressed by seed, name and place: another hyper-parameter beside them changes none of them.
    The coordinates of a Sobol sequence are shifted by words drawn once for each name, :math:`u = x \oplus w` in binary
    digits, so that any :math:`2^k` points from a multiple of :math:`2^k` on have one in each of the :math:`2^k` equal
    parts of every coordinate.

    Parameters
    ----------
    names : list of str
    seed, place : int in [0, inf)
    sobol : bool, default False
        The point of the sequence instead of a draw.

    Notes
    -----
    Source: Bergstra and Bengio (2012), Random search for hyper-parameter optimization, sections 2 and 3. The sequence
    is Sobol (1967), the shift is Lemieux (2009), Monte Carlo and quasi-Monte Carlo sampling, section 6.2.

    Examples
    --------
    >>> sorted(int(4 * quantiles(["x"], 0, place, sobol=True)["x"]) for place in range(4))
    [0, 1, 2, 3]
    """
    noise = Noise(seed, "search")
    if not sobol:
        one = {name: noise.child(name).at(place).uniform((1,), dtype=np.float64) for name in names}
        return {name: float(u[0]) for name, u in one.items()}
    sequence = qmc.Sobol(len(names), scramble=False, bits=BITS)
    points = (sequence.fast_forward(place) if place else sequence).random(1)[0]
    shifts = [int(noise.child(name).words((1,))[0]) >> (32 - BITS) for name in names]
    digits = [int(x * (1 << BITS)) ^ shift for x, shift in zip(points, shifts, strict=True)]
    return {name: (one + 0.5) / (1 << BITS) for name, one in zip(names, digits, strict=True)}


def drawn(
    space: Space | Mapping[str, Dimension | Conditional], seed: int, place: int, *, sobol: bool = False
) -> dict[str, Any]:
    """The values of the trial at a place: each range at its quantile, those whose condition holds.

    Examples
    --------
    >>> from gnomon.search.dimensions import OneOf, RealRange
    >>> point = drawn({"C": RealRange(0.1, 10, log=True), "kernel": OneOf(("rbf", "linear"))}, 0, place=3)
    >>> point == drawn({"kernel": OneOf(("rbf", "linear")), "C": RealRange(0.1, 10, log=True)}, 0, place=3)
    True
    """
    at = quantiles(list(space), seed, place, sobol=sobol)
    return active(space, {name: one.at(at[name]) for name, one in space.items()})
