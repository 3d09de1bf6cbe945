"""Small models that keep the contracts of blocks and bridges, to try the inference engines on."""

from __future__ import annotations

import itertools

import numpy as np

from gnomon.distributions.bernoulli import Bernoulli
from gnomon.numeric.ops import softplus


def _total(x):
    return x.sum(-1)


class ToyRBM:
    """Restricted Boltzmann machine, E(v, h) = -b'v - c'h - v'W h; NumPy or torch arrays."""

    blocks = ("visible", "hidden")
    marginal_blocks = (("visible",), ("hidden",))

    def __init__(self, W, b, c) -> None:
        self.W, self.b, self.c = W, b, c
        self.sizes = {"visible": len(b), "hidden": len(c)}

    @classmethod
    def random(cls, n_visible, n_hidden, seed, scale=1.0):
        rng = np.random.default_rng(seed)
        shapes = ((n_visible, n_hidden), n_visible, n_hidden)
        return cls(*(rng.normal(0, scale, shape) for shape in shapes))

    def astype(self, convert):
        return ToyRBM(convert(self.W), convert(self.b), convert(self.c))

    def state(self):
        return {"W": self.W, "b": self.b, "c": self.c}

    def load(self, state):
        self.W, self.b, self.c = state["W"], state["b"], state["c"]

    def conditional(self, block, state):
        if block == "visible":
            return Bernoulli(self.b + state["hidden"] @ self.W.T)
        return Bernoulli(self.c + state["visible"] @ self.W)

    def joint_energy(self, state):
        v, h = state["visible"], state["hidden"]
        return -_total(v * self.b) - _total(h * self.c) - _total((v @ self.W) * h)

    def marginal_energy(self, kept):
        if "visible" in kept:
            value = kept["visible"]
            return -_total(value * self.b) - _total(softplus(self.c + value @ self.W))
        value = kept["hidden"]
        return -_total(value * self.c) - _total(softplus(self.b + value @ self.W.T))

    def energy(self, x):
        return self.marginal_energy({"visible": x})

    def base(self, mean=None):
        bias = self.b * 0 if mean is None else np.log(mean / (1 - mean))
        return ToyBase(self.W * 0, bias, self.c * 0)

    def bridge(self, base, eta):
        mix = [(1 - eta) * old + eta * new for old, new in ((base.W, self.W), (base.b, self.b), (base.c, self.c))]
        return ToyRBM(*mix)


class ToyBase(ToyRBM):
    """The same without coupling, so log Z is known."""

    def log_partition(self):
        return float(_total(softplus(self.b)) + _total(softplus(self.c)))


class ToyDBM:
    """Three layers in a chain; the blocks are the even layers side by side, and the odd one."""

    blocks = ("even", "odd")
    marginal_blocks = (("even",), ("odd",))

    def __init__(self, weights, biases) -> None:
        self.weights, self.biases = weights, biases
        self.cut = len(biases[0])
        self.sizes = {"even": len(biases[0]) + len(biases[2]), "odd": len(biases[1])}
        self.W = np.concatenate([weights[0], weights[1].T])  # rows: even units; columns: odd units
        self.even, self.odd = np.concatenate([biases[0], biases[2]]), biases[1]

    @classmethod
    def random(cls, sizes, seed):
        rng = np.random.default_rng(seed)
        weights = [rng.normal(0, 1, shape) for shape in itertools.pairwise(sizes)]
        return cls(weights, [rng.normal(0, 1, n) for n in sizes])

    def conditional(self, block, state):
        if block == "even":
            return Bernoulli(self.even + state["odd"] @ self.W.T)
        return Bernoulli(self.odd + state["even"] @ self.W)

    def joint_energy(self, state):
        x, y = state["even"], state["odd"]
        return -_total(x * self.even) - _total(y * self.odd) - _total((x @ self.W) * y)

    def marginal_energy(self, kept):
        ((block, value),) = kept.items()
        mine, others, W = (self.even, self.odd, self.W) if block == "even" else (self.odd, self.even, self.W.T)
        return -_total(value * mine) - _total(softplus(others + value @ W))

    def base(self, mean=None):
        base = ToyDBM([0 * W for W in self.weights], [0 * b for b in self.biases])
        if mean is not None:
            base.even = np.log(mean / (1 - mean))
        base.log_partition = lambda: float(_total(softplus(base.even)) + _total(softplus(base.odd)))
        return base

    def bridge(self, base, eta):
        mixed = ToyDBM(self.weights, self.biases)
        for name in ("W", "even", "odd"):
            setattr(mixed, name, (1 - eta) * getattr(base, name) + eta * getattr(self, name))
        return mixed


class ToyTriangle:
    """Three single units in three blocks, each coupled to the two others."""

    blocks = ("a", "b", "c")
    sizes = {"a": 1, "b": 1, "c": 1}  # noqa: RUF012

    def __init__(self, bias, coupling) -> None:
        self.bias, self.coupling = bias, coupling

    def conditional(self, block, state):
        i = self.blocks.index(block)
        field = sum(self.coupling[i, j] * state[name] for j, name in enumerate(self.blocks) if j != i)
        return Bernoulli(self.bias[i] + field)

    def joint_energy(self, state):
        x = np.concatenate([state[name] for name in self.blocks], axis=1)
        return -x @ self.bias - np.einsum("ni,ij,nj->n", x, np.triu(self.coupling, 1), x)


def tiny_rbm() -> ToyRBM:
    """Three visible and two hidden units with known numbers: log Z = 4.163709."""
    W = np.array([[1.0, -1.0], [0.5, 0.5], [-1.0, 2.0]])
    return ToyRBM(W, np.array([0.1, -0.2, 0.3]), np.array([0.0, -0.5]))
