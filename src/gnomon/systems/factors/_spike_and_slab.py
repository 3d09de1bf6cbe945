"""The directed spike-and-slab model of real rows: its density, structured mean field, and an EM step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, logsumexp, xlogy
from sklearn.utils.metaestimators import available_if

from gnomon.contracts import Array, Noise
from gnomon.distributions.posteriors import FamilyRows
from gnomon.distributions.spike_and_slab import SpikeAndSlab
from gnomon.errors import UserValueError
from gnomon.inference.exact.enumeration import states

__all__ = ["EXACT_SPIKES", "SpikeAndSlabCodes", "SpikeAndSlabSparseCodingModel"]

EXACT_SPIKES = 10
"""Spikes of which all states are visited for an exact density, each a determinant."""
KEPT = 1e-6
"""Weight, in rows, of what an M step keeps of the parameters from before: all of them where no row has the spike."""
PSEUDO = 1.0
"""Rows with, and rows without each spike that are added to those that were seen, so that no probability is 0 or 1."""
NARROWEST = 1e-6
"""Least variance of a slab, as a share of its mean square."""
BY_COLUMN = ("components", "noise_precision", "shift", "unit")
STATE = ("components", "bias", "slab_mean", "slab_precision", "noise_precision", "shift", "unit")

kernel = numba.njit(cache=True, error_model="numpy")
Floats = NDArray[np.float64]


class SpikeAndSlabCodes(NamedTuple):
    """What structured mean field says of rows: Q(h_i) Q(s_i | h_i) for each component by itself.

    Attributes
    ----------
    spikes : array of shape (rows, m)
        Q(h_i = 1).
    slabs : array of shape (rows, m)
        Mean of Q(s_i | h_i = 1); its variance is the same for all rows.
    elbo : array of shape (rows,)
        Evidence lower bound in nats, at most log p(x).
    residual : array of shape (rows,)
        Largest distance of a mean of h s from its update.
    """

    spikes: Floats
    slabs: Floats
    elbo: Floats
    residual: Floats


class SpikeAndSlabSparseCodingModel:
    r"""h_i ~ Bernoulli(sigmoid(b_i)), s_i | h_i ~ N(h_i mu_i, 1/alpha_i), x | s, h ~ N(W (h s), diag(beta)^-1).

    x is (row - shift) / unit. Where h_i = 0 nothing depends on s_i, whose Q is then its prior.

    Parameters
    ----------
    components : array of shape (d, m)
        W.
    updates : {"sequential", "parallel"}
        One component after the other, or all at once by a step that is halved where the bound would fall.
    damping : float in [0, 1)
        Share of the old means in a parallel step.
    sweeps : int, in [1, inf)
        Rounds of updates at most.
    tol : float, in [0, inf)
        End when the means of h s are this near to their updates.
    floor : float in (0, inf)
        Least standard deviation of the noise that an M step gives, in units of x.
    """

    def __init__(
        self,
        components: Array,
        *,
        updates: Literal["sequential", "parallel"] = "sequential",
        damping: float = 0.5,
        sweeps: int = 100,
        tol: float = 1e-6,
        floor: float = 0.1,
    ) -> None:
        self.components: Floats = np.array(components, np.float64)
        d, m = self.components.shape
        self.bias, self.slab_mean, self.slab_precision = np.zeros(m), np.zeros(m), np.ones(m)
        self.noise_precision: Array = np.ones(d)
        self.shift: Array = np.zeros(d)
        self.unit: Array = np.ones(d)
        self.updates, self.damping, self.sweeps, self.tol, self.floor = updates, damping, sweeps, tol, floor

    @property
    def n_parameters(self) -> int:
        """W, b, mu, alpha and beta, less the lengths of the columns of W, which slabs make up for."""
        d, m = self.components.shape
        return d * m + 2 * m + d

    def state(self) -> dict[str, Array]:
        """The parameters, and the units of the rows."""
        return {name: getattr(self, name) for name in STATE}

    def load(self, state: Mapping[str, Array]) -> None:
        """Take the arrays over."""
        for name in STATE:
            setattr(self, name, np.array(state[name], np.float64))

    def seeing(self, columns: NDArray[np.bool_]) -> SpikeAndSlabSparseCodingModel:
        """The model of these columns alone: their noise being independent, the others are just not there."""
        part = SpikeAndSlabSparseCodingModel(
            self.components[columns], updates=self.updates, damping=self.damping, sweeps=self.sweeps, tol=self.tol,
            floor=self.floor,
        )  # fmt: skip
        part.load(self.state() | {name: self.state()[name][columns] for name in BY_COLUMN})
        return part

    # --- the joint distribution ---------------------------------------------------------------------------------------

    def scaled(self, rows: Array) -> Floats:
        """Rows in the units of the model."""
        return np.asarray((np.asarray(rows, np.float64) - self.shift) / self.unit)

    def decode(self, codes: Array) -> Array:
        """E[row | h s], shape (n, d)."""
        found: Array = codes @ self.components.T * self.unit + self.shift
        return found

    def _log_noise(self) -> float:
        return 0.5 * float(np.log(self.noise_precision / (2 * np.pi)).sum()) - float(np.log(self.unit).sum())

    def _log_prior(self, spikes: Array) -> Array:
        found: Array = spikes @ log_expit(self.bias) + (1 - spikes) @ log_expit(-self.bias)
        return found

    def log_joint(self, x: Array, z: tuple[Array, Array]) -> Array:
        """log p(x, h, s) of each row in nats; z is (h, s), (n, m) each."""
        h, s = z
        left = self.scaled(x) - (h * s) @ self.components.T
        away = s - h * self.slab_mean
        slabs = 0.5 * (np.log(self.slab_precision / (2 * np.pi)) - self.slab_precision * away * away).sum(1)
        found: Array = self._log_prior(h) + slabs + self._log_noise() - 0.5 * (left * left) @ self.noise_precision
        return found

    def sample_prior(self, n: int, noise: Noise) -> tuple[Array, Array]:
        """h and s of n rows, (n, m) each."""
        shape = (n, len(self.bias))
        h = noise.child("spikes").bernoulli_logits(np.broadcast_to(self.bias, shape))
        return h, h * self.slab_mean + noise.child("slabs").normal(shape, like=self.bias) / self.slab_precision**0.5

    def sample(self, n: int, noise: Noise) -> Array:
        """n rows."""
        h, s = self.sample_prior(n, noise)
        rest = noise.child("noise").normal((n, len(self.unit)), like=self.unit) / self.noise_precision**0.5
        return self.decode(h * s) + rest * self.unit

    # --- all states of the spikes -------------------------------------------------------------------------------------

    @available_if(lambda self: isinstance(self, type) or len(self.bias) <= EXACT_SPIKES)
    def log_prob(self, x: Array) -> Array:
        """Exact log density of each row in nats, of up to 10 spikes."""
        return np.asarray(logsumexp(self.log_by_spikes(x)[0], axis=1))

    def log_by_spikes(self, x: Array) -> tuple[Floats, Floats]:
        r"""log p(x, h) of each row and each of the 2^m states of the spikes, (n, 2^m), and E[h s | x, h], (n, 2^m, m).

        Given h a row is normal with mean :math:`W (h \mu)` and covariance :math:`\beta^{-1} + W diag(h / \alpha) W^T`;
        its quadratic form is taken as what the best slabs leave over plus what they cost, which keeps its digits.
        """
        rows, root = self.scaled(x), self.slab_precision**-0.5
        every, m = states(len(self.bias)), len(self.bias)
        scaled = self.components * root
        gram = scaled.T @ (self.noise_precision[:, None] * scaled)
        log_p, codes = np.empty((len(rows), len(every))), np.empty((len(rows), len(every), m))
        for k, h in enumerate(every):
            inner = np.eye(m) + np.outer(h, h) * gram
            left = rows - (h * self.slab_mean) @ self.components.T
            slabs = np.linalg.solve(inner, ((left * self.noise_precision) @ scaled * h).T).T
            rest = left - (h * slabs) @ scaled.T
            quadratic = (rest * rest) @ self.noise_precision + (slabs * slabs).sum(1)
            log_p[:, k] = -0.5 * (quadratic + np.linalg.slogdet(inner)[1])
            codes[:, k] = h * (self.slab_mean + slabs * root)
        return log_p + self._log_prior(every) + self._log_noise(), codes

    def modes(self, x: Array) -> Floats:
        """h s of each row at the h and s of which p(x, h, s) is largest, (n, m), of up to 10 spikes.

        Given h the best s is the mean of its normal posterior, `log_by_spikes`, and 0 where a spike is off.
        """
        m = len(self.bias)
        if m > EXACT_SPIKES:
            what = f"the most probable set of {m} components is one of 2^{m}, above the limit of 2^{EXACT_SPIKES}"
            raise UserValueError(what, "method", "take their means, or fewer components")
        codes, every = self.log_by_spikes(x)[1], states(m)
        log_p = np.stack([self.log_joint(x, (h, codes[:, k])) for k, h in enumerate(every)], axis=1)
        return np.asarray(codes[np.arange(len(codes)), log_p.argmax(1)])

    # --- structured mean field ----------------------------------------------------------------------------------------

    def _weights(self) -> tuple[Floats, Floats, Floats]:
        """W^T beta W with 0 on the diagonal, its diagonal, and the variance of Q(s_i | h_i = 1)."""
        gram = self.components.T @ (self.noise_precision[:, None] * self.components)
        own = np.diag(gram).copy()
        return gram - np.diag(own), own, 1 / (self.slab_precision + own)

    def elbo(self, x: Array, spikes: Array, slabs: Array) -> Floats:
        """E_Q[log p(x, h, s)] + H(Q) of each row in nats, for any means of the spikes and of the slabs behind them."""
        _, own, variance = self._weights()
        h, s, u = spikes, slabs, spikes * slabs
        left, away = self.scaled(x) - u @ self.components.T, s - self.slab_mean
        slab = h @ (0.5 * np.log(self.slab_precision * variance)) - 0.5 * (h * away * away) @ self.slab_precision
        entropy = -(xlogy(h, h) + xlogy(1 - h, 1 - h)).sum(1)
        fit = (left * left) @ self.noise_precision + (h * s * s - u * u) @ own
        return np.asarray(self._log_prior(h) + slab + entropy + self._log_noise() - 0.5 * fit)

    def best(self, drive: Array, slabs: Array | None = None) -> tuple[Floats, Floats]:
        """Means of the spikes and slabs that raise the bound most, the others given; of these slabs where they are.

        `drive` is what the other components leave of the row, seen by each: :math:`(x - sum_j W_j u_j)^T beta W_i`.
        """
        _, own, variance = self._weights()
        s = (self.slab_precision * self.slab_mean + drive) * variance if slabs is None else slabs
        away = s - self.slab_mean
        logit = self.bias + 0.5 * np.log(self.slab_precision * variance) - 0.5 * self.slab_precision * away * away
        return expit(logit + s * drive - 0.5 * own * s * s), np.asarray(s)

    def drive(self, x: Array, codes: Array) -> Floats:
        """What the other components leave of each row, seen by each component, (n, m); codes are means of h s."""
        return np.asarray((self.scaled(x) * self.noise_precision) @ self.components - codes @ self._weights()[0])

    def damped(self, x: Array, spikes: Array, slabs: Array, step: Array | float) -> tuple[Floats, Floats]:
        """All slabs moved so much of the way to their updates, then all spikes, (n, m) each."""
        s = slabs + step * (self.best(self.drive(x, spikes * slabs))[1] - slabs)
        return spikes + step * (self.best(self.drive(x, spikes * s), s)[0] - spikes), s

    def codes(self, x: Array, start: Mapping[str, Array] | None = None) -> SpikeAndSlabCodes:
        """Mean field from given means on, or from those of the prior; no round lowers the bound of a row."""
        found = self.approximate(x, start)
        h, s = found["spikes"], found["slabs"]
        after = np.multiply(*self.best(self.drive(x, h * s)))
        return SpikeAndSlabCodes(h, s, self.elbo(x, h, s), np.abs(after - h * s).max(1))

    def posterior(self, x: Array) -> FamilyRows:
        """Structured mean field of h s: 0, or normal where the spike is on, each component by itself."""
        found, (_, _, variance) = self.codes(x), self._weights()
        return FamilyRows(SpikeAndSlab(found.spikes, found.slabs, np.broadcast_to(variance**0.5, found.spikes.shape)))

    def approximate(self, x: Array, start: Mapping[str, Array] | None = None) -> dict[str, Array]:
        """``spikes`` and ``slabs`` of each row, (n, m) each: see `codes`."""
        begin = start or {"spikes": expit(self.bias), "slabs": self.slab_mean}
        h, s = (np.array(np.broadcast_to(begin[name], (len(x), len(self.bias)))) for name in ("spikes", "slabs"))
        if self.updates == "sequential":
            self._in_turn(x, h, s)
        else:
            self._together(x, h, s)
        return {"spikes": h, "slabs": s}

    def _in_turn(self, x: Array, h: Floats, s: Floats) -> None:
        """Rounds over the components, in place."""
        coupling, own, variance = self._weights()
        constant = self.bias + 0.5 * np.log(self.slab_precision * variance)
        arrays = (constant, self.slab_mean, self.slab_precision, own, variance, coupling)
        _rounds(h, s, self.drive(x, h * s), *arrays, self.sweeps, self.tol)

    def _together(self, x: Array, h: Floats, s: Floats) -> None:
        """Damped steps of all components at once, in place; half of it for a row whose bound would fall."""
        bound, step = self.elbo(x, h, s), np.full((len(x), 1), 1 - self.damping)
        for _ in range(self.sweeps):
            new_h, new_s = self.damped(x, h, s, step)
            moved, raised = np.abs(new_h * new_s - h * s).max(initial=0), self.elbo(x, new_h, new_s)
            good = raised >= bound
            h[good], s[good], bound[good] = new_h[good], new_s[good], raised[good]
            step[~good] *= 0.5
            if moved <= self.tol:
                break

    def infer(self, x: Array, noise: Noise) -> tuple[tuple[Array, Array], Array]:
        """One draw of (h, s) of each row from its mean-field Q, and log Q."""
        return self.drawn(self.codes(x), noise)

    def drawn(self, found: SpikeAndSlabCodes, noise: Noise) -> tuple[tuple[Array, Array], Array]:
        """One draw of (h, s) of each row from a mean-field Q, and log Q."""
        _, _, variance = self._weights()
        h = noise.child("spikes").bernoulli(found.spikes)
        precision = np.where(h > 0, 1 / variance, self.slab_precision)
        z = noise.child("slabs").normal(h.shape, like=self.bias)
        log_q = np.log(np.where(h > 0, found.spikes, 1 - found.spikes)) + 0.5 * (
            np.log(precision / (2 * np.pi)) - z * z
        )
        return (h, h * found.slabs + z / precision**0.5), log_q.sum(1)

    def sweep(self, x: Array, h: Floats, s: Floats, u: Array, z: Array) -> None:
        """Each spike with its slab drawn given all others, in place, by uniform and standard normal numbers (n, m)."""
        coupling, own, variance = self._weights()
        constant = self.bias + 0.5 * np.log(self.slab_precision * variance)
        arrays = (constant, self.slab_mean, self.slab_precision, own, variance, coupling)
        _draws(h, s, self.drive(x, h * s), *arrays, u, z)

    # --- EM -----------------------------------------------------------------------------------------------------------

    def expect(self, x: Array, weight: Array, posterior: Mapping[str, Array]) -> dict[str, Array]:
        """Sums of means of h, h s, (h s)^2 and products with the row, under Q; ``log_likelihood`` is the bound."""
        weight, rows = np.asarray(weight, np.float64), self.scaled(x)
        h, s = posterior["spikes"], posterior["slabs"]
        u, squares = h * s, h * (s * s + self._weights()[2])
        both = (u * weight[:, None]).T @ u
        return {
            "weight": weight.sum(),
            "log_likelihood": weight @ self.elbo(x, h, s),
            "spikes": weight @ h,
            "codes": weight @ u,
            "squares": weight @ squares,
            "pairs": both + np.diag(weight @ (squares - u * u)),
            "cross": (rows * weight[:, None]).T @ u,
            "rows": weight @ (rows * rows),
        }

    def maximize(self, statistics: Mapping[str, Array]) -> None:
        """W, beta, b, mu and alpha that raise the bound most, the Q given, and columns of W brought to length 1.

        W and the slabs are tied to what they were by a millionth of a row, so that a component that no row uses stays.
        The slabs that count are those behind spikes that are on: s_i where h_i = 0 is in no row.
        """
        n, on = float(statistics["weight"]), statistics["spikes"]
        ties = KEPT * np.eye(len(on))
        W = np.linalg.solve(statistics["pairs"] + ties, (statistics["cross"] + KEPT * self.components).T).T
        left = statistics["rows"] - 2 * (W * statistics["cross"]).sum(1) + ((W @ statistics["pairs"]) * W).sum(1)
        self.noise_precision = 1 / np.maximum(left / n, self.floor**2)
        self.bias = np.log((on + PSEUDO) / (n - on + PSEUDO))
        total = on + KEPT
        mean = (statistics["codes"] + KEPT * self.slab_mean) / total
        square = (statistics["squares"] + KEPT * (self.slab_mean**2 + 1 / self.slab_precision)) / total
        spread = np.maximum(square - mean * mean, NARROWEST * square)
        length = np.sqrt((W * W).sum(0))
        length = np.where(length > 0, length, 1.0)
        self.components = W / length
        self.slab_mean, self.slab_precision = mean * length, 1 / (spread * length**2)

    def log_prior(self) -> float:
        """Log of the prior of the probabilities of the spikes, up to a constant: a row with and one without each."""
        return PSEUDO * float((log_expit(self.bias) + log_expit(-self.bias)).sum())


@kernel
def _spike(slab, drive, constant, mean, precision, own):  # type: ignore[no-untyped-def]
    """Probability of a spike given all other components, of which `drive` is what they leave of the row."""
    away = slab - mean
    logit = constant - 0.5 * precision * away * away + slab * drive - 0.5 * own * slab * slab
    return 1 / (1 + math.exp(-logit))


@kernel
def _draws(h, s, field, constant, mean, precision, own, variance, coupling, u, z):  # type: ignore[no-untyped-def]
    """A round over the components of each row, in place: each spike and its slab drawn given all others."""
    n, m = h.shape
    for r in range(n):
        for i in range(m):
            drive, before = field[r, i], h[r, i] * s[r, i]
            slab = (precision[i] * mean[i] + drive) * variance[i]
            if u[r, i] < _spike(slab, drive, constant[i], mean[i], precision[i], own[i]):
                h[r, i], s[r, i] = 1.0, slab + math.sqrt(variance[i]) * z[r, i]
            else:
                h[r, i], s[r, i] = 0.0, z[r, i] / math.sqrt(precision[i])
            change = h[r, i] * s[r, i] - before
            if change != 0:
                for j in range(m):
                    field[r, j] -= change * coupling[i, j]


@kernel
def _rounds(h, s, field, constant, mean, precision, own, variance, coupling, sweeps, tol):  # type: ignore[no-untyped-def]
    """Rounds over the components of each row, in place, until the means of its h s stand."""
    n, m = h.shape
    for r in range(n):
        for _ in range(sweeps):
            moved = 0.0
            for i in range(m):
                drive = field[r, i]
                slab = (precision[i] * mean[i] + drive) * variance[i]
                spike = _spike(slab, drive, constant[i], mean[i], precision[i], own[i])
                change = spike * slab - h[r, i] * s[r, i]
                h[r, i], s[r, i] = spike, slab
                if change != 0:
                    for j in range(m):
                        field[r, j] -= change * coupling[i, j]
                moved = max(moved, abs(change))
            if moved <= tol:
                break
