"""Chains in the deep representations of a stack of machines: encode a row, walk among the codes, decode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon import contracts
from gnomon.contracts import Array
from gnomon.errors import UserValueError
from gnomon.inference.arrays import to_numpy
from gnomon.inference.mcmc.gibbs import gibbs
from gnomon.inference.mcmc.mixing import mode_report
from gnomon.numeric.noise import Noise, seed_of
from gnomon.recipes.imports import random_kept
from gnomon.recipes.parameters import how_many

__all__ = ["DeepChains", "DepthMixing"]

Labeler = Callable[[NDArray[Any]], ArrayLike]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class DepthMixing:
    """How chains move at one depth, and what its representation is like.

    Attributes
    ----------
    depth : int
        0: the rows themselves; k: the k-th hidden layer.
    switch_rate : float in [0, 1]
        Share of the steps after which the decoded row is of another mode.
    dwell : float in [1, inf]
        Steps per switch.
    occupancy : array of shape (modes,)
        Share of the steps in each mode.
    spread : float in [0, 1]
        Entropy of a unit over the rows in bits, mean over the layer's units: 1 where each is on for half of the rows;
        NaN of rows that are no bits.
    gap : float in [0, inf]
        Mean distance between the centers of two modes, over the mean distance of a row from its own, in this layer; NaN
        of a single mode.
    """

    depth: int
    switch_rate: float
    dwell: float
    occupancy: Floats
    spread: float
    gap: float


class DeepChains:
    """Base: a fitted stack around a `DBNModel`, whose machines can be walked at any depth."""

    def gibbs(self: Any, X: Any, steps: int = 1, *, depth: int | None = None, random_state: Any = None) -> Array:
        """Rows after a walk at a depth of the network: up by draws, sweeps of the machine there, and down by draws.

        What comes out follows the distribution that the way down makes of the states of that machine (decoder-induced),
        not the p(x) of the machine of the rows; it is that only at depth 0. Deeper codes are more evenly spread and
        modes closer to each other there, which lets chains pass between them; see `mixing_by_depth`.

        Parameters
        ----------
        X : array of shape (n, n_features)
        steps : int in [0, inf), default 1
            Sweeps of the machine: upper layer, then lower layer.
        depth : int, optional
            The lower layer of the machine: 0 for the rows, plain Gibbs sampling of the lowest machine; by default the
            last but one, whose machine is the network's own, so that its chains are those of `sample`.
        random_state : int, Generator or None

        Returns
        -------
        array of shape (n, n_features)
        """
        rows, steps = self.model_.place(self.to_visible(X)), how_many(steps, "steps")
        noise, depth = Noise(seed_of(random_state), "gibbs"), self._checked_depth(depth)
        codes = self._walked(self._encoded(rows, depth, noise), steps, depth, noise)
        return self._decoded(codes, depth, noise)

    def interpolate(self: Any, start: Any, end: Any, n: int = 10, *, depth: int | None = None) -> Array:
        """Means of the rows on the line between the codes of two rows, the codes being means of a layer.

        Parameters
        ----------
        start, end : array of shape (n_features,)
        n : int, default 10
            Points, the ends among them.
        depth : int, optional
            The hidden layer, 0 for a line among the rows themselves; the topmost by default.

        Returns
        -------
        array of shape (n, n_features)
        """
        model = self.model_
        layer = model.depth if depth is None else self._checked_depth(depth, model.depth)
        pair = [np.asarray(start), np.asarray(end)]
        if any(one.shape != (self.n_features_in_,) for one in pair):
            shapes = " and ".join(str(one.shape) for one in pair)
            what = f"start and end must be rows of shape ({self.n_features_in_},), got {shapes}"
            raise UserValueError(what, "start, end")
        rows = model.place(self.to_visible(np.stack(pair)))
        ends = [rows, *model.means_up(rows, layer)][-1]
        share = model.place(np.linspace(0, 1, how_many(n))[:, None])
        mean = (1 - share) * ends[:1] + share * ends[1:]
        for k in range(layer, 0, -1):
            mean = model.downward(k, mean).mean
        return self.from_visible(mean)

    def mixing_by_depth(
        self: Any, X: Any, y: Any = None, *, chains: int = 20, steps: int = 200, labeler: Labeler | None = None,
        random_state: Any = 0,
    ) -> list[DepthMixing]:  # fmt: skip
        """How often chains at each depth pass from mode to mode, and how the representation there is laid out.

        Parameters
        ----------
        X : array of shape (n, n_features)
            Rows at which chains begin, and of which the representations are judged.
        y : array of shape (n,), optional
            Classes, which are the modes; left out, ten clusters of the rows.
        chains : int in [1, inf), default 20
            Begun at rows spread over X.
        steps : int in [2, inf), default 200
            Sweeps of each.
        labeler : callable, optional
            Rows (n, n_features) -> their modes, numbers from 0; by default the class or cluster of the nearest center.
        random_state : int, Generator or None, default 0

        Returns
        -------
        list of DepthMixing
            From depth 0, plain Gibbs sampling of the rows, to that of the machine at the top.

        Notes
        -----
        A count of passages, not a bound: chains that pass often may still miss modes, and decoded rows follow another
        distribution at each depth, as `gibbs` says. That faster chains help a fit is not proven. Cost: `steps` sweeps,
        encodings and decodings at each depth.

        References
        ----------
        Bengio, Mesnil, Dauphin and Rifai (2013), "Better mixing via deep representations"; Goodfellow, Bengio and
        Courville (2016), section 17.5.2.
        """
        rows, chains, steps = np.asarray(self._rows(X)), how_many(chains, "chains"), how_many(steps, "steps")
        if chains < 1 or steps < 2:
            raise UserValueError.must("chains and steps", "be at least 1 and 2", (chains, steps))
        mode_of, seen = labeler or nearest_center(rows, y), self._scaled(rows)
        modes = np.asarray(mode_of(rows))
        layers = [rows, *(to_numpy(means) for means in self.model_.means_up(self.model_.place(seen)))]
        start = self.model_.place(seen[np.linspace(0, len(rows) - 1, chains).astype(int)])
        noise, found = Noise(seed_of(random_state), "mixing"), []
        for depth in range(self.model_.depth):
            walk = self._path(start, steps, depth, noise.child(str(depth)))
            report = mode_report(np.stack([np.asarray(mode_of(x)) for x in walk], axis=1))
            spread = spread_of(layers[depth]) if depth or self.visible == "bernoulli" else float("nan")
            layout = spread, gap_of(layers[depth], modes)
            found.append(DepthMixing(depth, report.switch_rate, report.dwell, report.occupancy, *layout))
        return found

    # --- up, along, down ----------------------------------------------------------------------------------------------

    def _checked_depth(self: Any, depth: int | None, last: int | None = None) -> int:
        """The number of a layer, the last but one by default."""
        last = self.model_.depth - 1 if last is None else last
        if depth is None:
            return last
        if isinstance(depth, bool) or not hasattr(depth, "__index__") or not 0 <= depth <= last:
            raise UserValueError.must("depth", f"be a layer from 0, the rows, to {last}", depth)
        return int(depth)

    def _encoded(self: Any, rows: Array, depth: int, noise: contracts.Noise) -> Array:
        """A draw of the layer given the rows, each layer from that below."""
        return self.model_.draw_up(rows, noise.child("up"), depth)[-1]

    def _decoded(self: Any, codes: Array, depth: int, noise: contracts.Noise) -> Array:
        """A draw of the rows given the layer."""
        return self.from_visible(self.model_.draw_down(codes, noise.child("down"), depth)[0])

    def _walked(self: Any, codes: Array, steps: int, depth: int, noise: contracts.Noise, done: int = 0) -> Array:
        """The layer after sweeps of the machine above it; `done` of them have used numbers of the noise."""
        lower, upper = f"hidden_{depth}", f"hidden_{depth + 1}"
        machine = self.model_.pair(depth + 1)
        return gibbs(machine, {lower: codes}, noise, steps=steps, order=(upper, lower), draw0=2 * done)[lower]

    def _path(self: Any, rows: Array, steps: int, depth: int, noise: contracts.Noise) -> Iterator[NDArray[Any]]:
        """The rows after each sweep."""
        codes = self._encoded(rows, depth, noise)
        for step in range(steps):
            codes = self._walked(codes, 1, depth, noise, step)
            yield np.asarray(self._decoded(codes, depth, noise.child("step").at(step)))


def nearest_center(rows: NDArray[Any], y: Any = None, clusters: int = 10) -> Labeler:
    """Who says of rows which class (or cluster, without y) of these rows has the nearest mean, numbers from 0.

    Examples
    --------
    >>> nearest_center(np.array([[0.0], [1.0], [5.0]]), [3, 3, 7])(np.array([[4.0], [-2.0]])).tolist()
    [1, 0]
    """
    if y is None:
        with random_kept():
            from sklearn.cluster import KMeans

        y = KMeans(min(clusters, len(np.unique(rows, axis=0))), n_init=1, random_state=0).fit_predict(rows)
    if np.shape(y) != (len(rows),):
        raise UserValueError(f"y must hold a class for each of {len(rows)} rows, got shape {np.shape(y)}", "y")
    codes = np.unique(y, return_inverse=True)[1]
    centers = np.stack([rows[codes == k].mean(0) for k in range(codes.max() + 1)])

    def labeler(x: NDArray[Any]) -> ArrayLike:
        return np.asarray(((x * 1.0) @ centers.T - 0.5 * (centers * centers).sum(1)).argmax(1))

    return labeler


def spread_of(units: NDArray[Any]) -> float:
    """Entropy in bits of a unit over the rows, the mean over the units; these are means in [0, 1] or bits.

    Examples
    --------
    >>> spread_of(np.array([[0.0, 1.0], [1.0, 1.0]]))
    0.5
    """
    from scipy.special import entr

    p = np.clip(np.asarray(units, np.float64).mean(0), 0, 1)
    return float((entr(p) + entr(1 - p)).mean() / np.log(2))


def gap_of(units: NDArray[Any], modes: NDArray[Any]) -> float:
    """Mean distance between centers of modes over that of rows from their own; NaN of a single mode.

    Examples
    --------
    >>> gap_of(np.array([[0.0], [2.0], [9.0], [11.0]]), np.array([0, 0, 1, 1]))
    9.0
    """
    x, codes = np.asarray(units, np.float64), np.unique(modes, return_inverse=True)[1]
    centers = np.stack([x[codes == k].mean(0) for k in range(codes.max() + 1)])
    first, second = np.triu_indices(len(centers), 1)
    if not len(first):
        return float("nan")
    within = float(np.linalg.norm(x - centers[codes], axis=1).mean())
    between = float(np.linalg.norm(centers[first] - centers[second], axis=1).mean())
    return between / within if within else float("inf")
