"""Regions that a model gives probability to and that hold no data: spurious modes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon import contracts
from gnomon.errors import UserTypeError, UserValueError, number
from gnomon.evaluation.score import Kind
from gnomon.inference.arrays import convert, prototype, to_numpy
from gnomon.inference.blocks import bits, kept_blocks, part, summed_out
from gnomon.inference.exact.draws import exact_draws
from gnomon.inference.exact.enumeration import enumerable, weighted_states
from gnomon.inference.importance.ais import ais, anneal, annealing_schedule, normalizing_path
from gnomon.inference.importance.weights import WeightedSample
from gnomon.inference.mcmc.gibbs import gibbs
from gnomon.numeric.noise import Noise, seed_of
from gnomon.objectives.positive import observed_block

__all__ = ["SpuriousMass", "nearest_distances", "spurious_mass"]

Floats = NDArray[np.float64]
EXACT_BITS = 16
"""log2 of the rows that are enumerated at most."""
DRAWN_BITS = 16
"""log2 of the states of some blocks up to which a model is drawn from exactly, by their table."""
CHAINS, TEMPERATURES, BURN_IN = 200, 1000, 50
USUAL = 0.95
"""Share of the data's rows that have another one within the radius that is taken where none is given."""
CELLS = 1 << 22


@dataclass(frozen=True)
class SpuriousMass:
    """Probability of a model outside a radius around the data.

    Attributes
    ----------
    value : float in [0, 1]
    error : float
        Standard error of the estimate; 0 by enumeration.
    radius : float
        Differing columns of rows of two values, else Euclidean distance in columns of spread 1.
    usual : float in [0, 1]
        Share of the data's own rows that have no other row within the radius: what a good model has too.
    kind : {"exact", "estimate"}
    states : array of shape (n, d)
        Rows outside, the most probable first: all of them where they were enumerated, else those that were drawn.
    distance, free_energy : arrays of shape (n,)
        Of these: from the nearest row of the data; -log of the unnormalized probability, nats.
    data_free_energy : float
        Mean of the data's rows, to compare with.
    ess : float
        Effective number of draws; inf by enumeration.
    """

    value: float
    error: float
    radius: float
    usual: float
    kind: Kind
    states: Floats = field(repr=False)
    distance: Floats = field(repr=False)
    free_energy: Floats = field(repr=False)
    data_free_energy: float = float("nan")
    ess: float = float("inf")

    @property
    def excess(self) -> float:
        """By how much the mass is above the data's own share."""
        return self.value - self.usual

    def __str__(self) -> str:
        error = f" ± {number(self.error)}" if self.error else ""
        text = f"{number(self.value)}{error} of the probability is further than {number(self.radius)} from every row"
        text += f", of the rows themselves {number(self.usual)}"
        if not len(self.states):
            return text
        return (
            f"{text}; the lowest energy there is {number(float(self.free_energy[0]))}, at distance "
            f"{number(float(self.distance[0]))}, of the data on average {number(self.data_free_energy)}"
        )


def spurious_mass(
    model: Any, X: ArrayLike, r: float | None = None, *, noise: contracts.Noise | None = None, random_state: Any = None,
    chains: int = CHAINS, schedule: int = TEMPERATURES,
) -> SpuriousMass:  # fmt: skip
    """Probability that a model gives to places without data.

    Exact where the observed units have at most 2^16 states and the others can be summed out; by independent draws where
    some blocks have no more. Else chains are annealed from independent units with equal chances, not from the data,
    which would keep them near it; their weights make them draws of the model. What no chain reaches is not seen.

    Parameters
    ----------
    model : machine with blocks and a bridge to a base, or fitted System
    X : array of shape (n, d)
        The rows of the fit, as the model takes them.
    r : float in [0, inf), optional
        The radius; by default the distance within which 95 % of the rows have another one, at least 1 column.
    noise : Noise, optional
    random_state : int, optional
        Seed where no noise is given.
    chains, schedule : int
        Draws, and the temperatures of those that are annealed (`gnomon.inference.importance.ais`).

    Returns
    -------
    SpuriousMass

    Raises
    ------
    UserValueError, UserTypeError
        Rows that do not fit, fewer than 2 of them, a negative radius; a model without blocks.

    Notes
    -----
    Distance counts columns that differ, since Gibbs chains move a unit at a time; two rows may be far in that sense and
    alike to the eye. Cost: the annealing, and a distance for each pair of a state and a row. Source: Goodfellow, Bengio
    and Courville (2016), section 18.1, for the concept.

    Examples
    --------
    >>> import gnomon
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
    >>> rbm = gnomon.RBM(n_hidden=4, objective="exact", epochs=100, learning_rate=0.5, random_state=0).fit(X)
    >>> found = spurious_mass(rbm, X, r=1)
    >>> found.kind, found.value < 0.2
    ('exact', True)
    """
    system, model = model, getattr(model, "model_", model)
    if not hasattr(model, "blocks"):
        raise UserTypeError(f"{type(model).__name__} has no blocks", "model", "give an energy machine")
    rows = to_numpy(system.to_visible(X)) if hasattr(system, "to_visible") else np.asarray(X, np.float64)
    visible = observed_block(model)
    _check(rows, model.sizes[visible], r)
    stream = noise if noise is not None else Noise(seed_of(random_state), "spurious-mass")
    measure = _Measure(rows, discrete=np.isfinite(bits(model, (visible,))))
    apart = measure.within()
    radius = max(float(np.quantile(apart, USUAL, method="higher")), measure.least) if r is None else float(r)
    sample, states = _distribution(model, visible, stream, chains, schedule)
    distance = measure.to(states)
    outside = distance > radius
    exact = isinstance(sample, np.ndarray)
    share = sample if exact else sample.normalized_weights
    value = float(share[outside].sum())
    error = 0.0 if exact else _error(share, outside, value)
    energy = _energy(model, visible, states[outside])
    order = np.argsort(energy, kind="stable")
    return SpuriousMass(
        value, error, radius, float((apart > radius).mean()), "exact" if exact else "estimate",
        states[outside][order], distance[outside][order], energy[order], float(_energy(model, visible, rows).mean()),
        float("inf") if exact else sample.ess,
    )  # fmt: skip


def nearest_distances(states: ArrayLike, rows: ArrayLike, *, discrete: bool = True) -> Floats:
    """Of each state the distance of the nearest row: columns that differ, or Euclidean.

    Examples
    --------
    >>> nearest_distances([[1, 1, 0]], [[0, 0, 0], [1, 0, 0]]).tolist()
    [1.0]
    """
    return _nearest(np.asarray(states, np.float64), np.asarray(rows, np.float64), 0, discrete)


def _nearest(states: Floats, rows: Floats, after: int, discrete: bool) -> Floats:
    """Of each state the distance of the row with so many nearer ones."""
    from scipy.spatial.distance import cdist

    found, step = np.empty(len(states)), max(1, CELLS // len(rows))
    for start in range(0, len(states), step):
        part = slice(start, start + step)
        apart = cdist(states[part], rows, "hamming" if discrete else "euclidean")
        found[part] = np.partition(apart, after, axis=1)[:, after]
    return np.rint(found * rows.shape[1]) if discrete else found


class _Measure:
    """Distances from the rows of the data."""

    def __init__(self, rows: Floats, *, discrete: bool) -> None:
        spread = rows.std(axis=0)
        self.unit = np.ones(rows.shape[1]) if discrete else np.where(spread > 0, spread, 1.0)
        self.discrete, self.least = discrete, 1.0 if discrete else 0.0
        self.kinds, self.counts = np.unique(rows / self.unit, axis=0, return_counts=True)

    def to(self, states: Floats) -> Floats:
        """Of each state the distance of the nearest row."""
        return nearest_distances(states / self.unit, self.kinds, discrete=self.discrete)

    def within(self) -> Floats:
        """Of each row the distance of the nearest other one, 0 for rows that occur twice."""
        found = np.zeros(len(self.kinds))
        if len(self.kinds) > 1:  # the nearest of all is the row itself
            alone = self.counts == 1
            found[alone] = _nearest(self.kinds[alone], self.kinds, 1, self.discrete)
        return np.repeat(found, self.counts)


def _distribution(model: Any, visible: str, noise: contracts.Noise, chains: int, schedule: int) -> tuple[Any, Floats]:
    """Probabilities or weights, and the observed states that they belong to."""
    alone = any(tuple(kept) == (visible,) for kept in getattr(model, "marginal_blocks", ()))
    if alone and bits(model, (visible,)) <= EXACT_BITS and enumerable(model, EXACT_BITS + 4):
        parts = [
            (to_numpy(s[visible]), np.exp(to_numpy(p))) for s, p in weighted_states(model, visible, limit=EXACT_BITS)
        ]
        return np.concatenate([p for _, p in parts]), np.concatenate([s for s, _ in parts]).astype(np.float64)
    if enumerable(model, DRAWN_BITS):
        drawn = to_numpy(exact_draws(model, chains, noise.child("exact"), limit=DRAWN_BITS)[visible])
        return WeightedSample(np.zeros(chains)), np.asarray(drawn, np.float64)
    own = normalizing_path(model, annealing_schedule(schedule))
    if own is not None:
        sample = anneal(own, noise.child("annealed"), chains=chains)
        return sample, np.asarray(to_numpy(own.observed(sample.values, noise.child("observed"))), np.float64)
    sample = ais(model, model.base(), noise.child("annealed"), chains=chains, schedule=schedule)
    return sample, _observed(model, visible, sample, noise)


def _observed(model: Any, visible: str, sample: WeightedSample, noise: contracts.Noise) -> Floats:
    """The observed units of annealed chains, after a few sweeps that leave the model as it is."""
    kept = kept_blocks(model)
    state: dict[str, Any] = part(convert(to_numpy(sample.values), prototype(model)), model, kept)
    others = summed_out(model, kept)
    walked = gibbs(model, state, noise.child("walk"), steps=BURN_IN, order=(*others, *kept))
    return np.asarray(to_numpy(walked[visible]), np.float64)


def _error(share: Floats, outside: Any, value: float) -> float:
    n = len(share)
    return float(np.sqrt((share**2 * (outside - value) ** 2).sum() * n / max(n - 1, 1)))


def _energy(model: Any, visible: str, states: Floats) -> Floats:
    if not len(states):
        return np.zeros(0)
    placed = convert(states, prototype(model))
    found = model.energy(placed) if hasattr(model, "energy") else np.full(len(states), np.nan)
    return np.asarray(to_numpy(found), np.float64)


def _check(rows: Floats, d: int, r: float | None) -> None:
    if rows.ndim != 2 or rows.shape[1] != d or len(rows) < 2:
        raise UserValueError(f"X must be at least 2 rows of {d} columns, got shape {rows.shape}", "X")
    if not np.isfinite(rows).all():
        raise UserValueError("X must be finite", "X", "leave rows with missing cells out")
    if r is not None and not r >= 0:
        raise UserValueError.must("r", "be at least 0", r)
