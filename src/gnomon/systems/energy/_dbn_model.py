"""The mathematics of a deep belief network: a restricted machine at the top, directed layers down to the rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if

from gnomon.contracts import Array, Distribution, Noise
from gnomon.distributions.layers import exp
from gnomon.distributions.units import BernoulliUnits, CenteredScaledGaussianUnits, Units
from gnomon.errors import UserValueError
from gnomon.inference.arrays import convert
from gnomon.inference.exact.enumeration import states
from gnomon.nn.module import Module
from gnomon.numeric.ops import concatenate, logsumexp
from gnomon.numeric.tensors import is_tensor
from gnomon.systems.energy.layered import EXACT_UNITS, EXACT_UNITS_OF_A_ROW, LayeredMachine
from gnomon.systems.energy.real_rows import RealRowsMachine

__all__ = ["DBNModel", "Normalized"]

Layers = Sequence[Array]
"""States of the layers from the rows up to the lower one of the machine at the top."""


class DBNModel(Module):
    r"""p(v, h_1, ..., h_L) = p(v | h_1) p(h_1 | h_2) ... p(h_{L-1}, h_L) over layers of bits above a row.

    The last factor is a restricted Boltzmann machine, exp(b_{L-1}^T h_{L-1} + b_L^T h_L + h_{L-1}^T W_L h_L) / Z; below
    it p(h_{k-1} = 1 | h_k) = sigmoid(b_{k-1} + W_k h_k) for each unit. Columns that are no bits have the density of
    their exponential family with the natural parameters b_0 + W_1 h_1; real ones are normal about b_0 + W_1 h_1 with
    the variance 1, or with variances of their own that are learned. Upwards a layer is inferred by
    q(h_k = 1 | h_{k-1}) = sigmoid(r_k + h_{k-1}^T R_k), which is exact for a restricted machine only.

    Parameters
    ----------
    n_visible : int
    hidden : sequence of int
        Units of each hidden layer, from the rows up.
    dtype : torch.dtype
    columns : type of Units, default BernoulliUnits
        Kind of the rows' units: bits, `CenteredGaussianUnits` of real numbers, `CenteredScaledGaussianUnits` of real
        numbers whose variances are learned, or another family.
    top : type of Units, default BernoulliUnits
        Kind of the topmost units: bits, or `GaussianUnits` of real numbers.
    spread, floor
        Of real columns whose variances are learned: see `RealRowsMachine`.

    Notes
    -----
    Parameters are ``weight_k`` and ``bias_k``, ``recognition_weight_k`` (R_k) and ``recognition_bias_k`` (r_k), and
    ``log_precision_0`` of learned variances.
    """

    def __init__(
        self,
        n_visible: int,
        hidden: Sequence[int],
        dtype: torch.dtype = torch.float32,
        columns: type[Units] = BernoulliUnits,
        top: type[Units] = BernoulliUnits,
        *,
        spread: ArrayLike | None = None,
        floor: float = 0.0,
    ) -> None:
        super().__init__()
        learned = columns is CenteredScaledGaussianUnits
        self.real: dict[str, Any] | None = {"spread": spread, "floor": floor} if learned else None
        self.sizes = (n_visible, *hidden)
        self.kinds: tuple[Units, ...] = (
            columns(n_visible), *(BernoulliUnits(n) for n in hidden[:-1]), top(hidden[-1]),
        )  # fmt: skip
        self.depth = len(hidden)
        for k, (below, above) in enumerate(itertools.pairwise(self.sizes), 1):
            self._add(f"weight_{k}", (below, above), dtype)
            if k < self.depth:
                self._add(f"recognition_weight_{k}", (below, above), dtype)
                self._add(f"recognition_bias_{k}", (above,), dtype)
        for k, kind in enumerate(self.kinds):
            for name, shape in kind.shapes.items():
                self._add(f"{name}_{k}", shape, dtype)

    def _add(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        self.register_parameter(name, torch.nn.Parameter(torch.zeros(shape, dtype=dtype)))

    def _own(self, like: Array) -> Mapping[str, Any]:
        """The parameters in the kind of an array."""
        if is_tensor(like):
            return dict(self._parameters)
        return self.views() if self.device.type == "cpu" else self.state()

    # --- machines of two layers ---------------------------------------------------------------------------------------

    def owner(self, name: str) -> str:
        """The name here of a parameter of `pair(depth)`."""
        return self._names(self.depth)[name]

    def _names(self, k: int) -> dict[str, str]:
        """The names here of the parameters of `pair(k)`."""
        lower, upper = f"hidden_{k - 1}", f"hidden_{k}"
        found = {f"{lower}_{name}": f"{name}_{k - 1}" for name in self.kinds[k - 1].parameters}
        bias = f"bias_{k}" if k == self.depth else f"recognition_bias_{k}"
        return found | {f"{lower}_{upper}_weight": f"weight_{k}", f"{upper}_bias": bias}

    def pair(self, k: int) -> LayeredMachine:
        """The restricted machine of layers k - 1 and k, called ``hidden_<k - 1>`` and ``hidden_<k>``.

        Its parameters are this model's; its upper bias is r_k, that of the way up, but b_L at the top.
        """
        units = {f"hidden_{j}": self.kinds[j] for j in (k - 1, k)}
        if k == 1 and self.real is not None:
            machine: LayeredMachine = RealRowsMachine(units, [tuple(units)], **self.real)
        else:
            machine = LayeredMachine(units, [tuple(units)])
        for name, own in self._names(k).items():
            machine._parameters[name] = self._parameters[own]
        return machine

    @available_if(lambda self: isinstance(self, type) or self.real is not None)
    def confine(self) -> None:
        """Precisions of real columns back to where these have their least deviation."""
        cast(RealRowsMachine, self.pair(1)).confine()

    def _coupling(self, k: int, own: Mapping[str, Any]) -> Any:
        """W_k as the natural parameters have it: of real columns each row times its precision."""
        weight = own[f"weight_{k}"]
        return exp(own["log_precision_0"])[:, None] * weight if k == 1 and self.real is not None else weight

    def place(self, x: Array) -> Array:
        """See `LayeredMachine.place`."""
        return self.pair(1).place(x)

    def adopt(self, k: int) -> None:
        """Make R of layers 1 to k the couplings that their machines have learned: the way up is the machines' own."""
        with torch.no_grad():
            for j in range(1, min(k, self.depth - 1) + 1):
                self.get_parameter(f"recognition_weight_{j}").copy_(self._coupling(j, self._parameters))

    def begin(self, k: int) -> None:
        """First values of the machine of layer k from that below it: the same machine upside down, where sizes allow.

        Then p(v) is unchanged by the new layer, and every gain of its machine is one of the bound (Hinton, Osindero and
        Teh 2006). In any case its lower bias is that of the layer's units before.
        """
        self.adopt(k - 1)
        if k > 1:
            self._turn(k)

    @torch.no_grad()
    def _turn(self, k: int) -> None:
        self.get_parameter(f"bias_{k - 1}").copy_(self.get_parameter(f"recognition_bias_{k - 1}"))
        if self.kinds[k] == self.kinds[k - 2]:
            upper = f"bias_{k}" if k == self.depth else f"recognition_bias_{k}"
            self.get_parameter(f"weight_{k}").copy_(self.get_parameter(f"weight_{k - 1}").T)
            self.get_parameter(upper).copy_(self.get_parameter(f"bias_{k - 2}"))

    @torch.no_grad()
    def stand_on(self, below: DBNModel) -> None:
        """Become a network of one layer less, its machine at the top made directed, beneath a machine begun from it."""
        top = below.depth
        renamed = {f"bias_{top}": f"recognition_bias_{top}"}
        for name, own in below.named_parameters():
            self.get_parameter(renamed.get(name, name)).copy_(own)
        self.get_parameter(f"recognition_weight_{top}").copy_(self._coupling(top, self._parameters))
        self._turn(self.depth)

    def initialize(self, noise: Noise, mean: Array | None = None) -> None:
        """Small random weights, and rows of these means; the way up is the machines' own."""
        for k in range(1, self.depth + 1):
            self.pair(k).initialize(noise, mean if k == 1 else None)
        self.adopt(self.depth)

    # --- up and down --------------------------------------------------------------------------------------------------

    def _up(self, k: int) -> tuple[str, str]:
        """Names of the weight and the bias of the way up to layer k."""
        kind = "" if k == self.depth else "recognition_"
        return f"{kind}weight_{k}", f"{kind}bias_{k}"

    def way_up(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Weight (units below, units) and bias of each hidden layer given the one below it."""
        return [tuple(map(self.get_parameter, self._up(k))) for k in range(1, self.depth + 1)]  # type: ignore[misc]

    def upward(self, k: int, x: Array) -> Distribution:
        """Layer k given layer k - 1: q, of the topmost layer exact."""
        own, (weight, bias) = self._own(x), self._up(k)
        weights = self._coupling(k, own) if k == self.depth else own[weight]
        return self.kinds[k].conditional(x @ weights, {"bias": own[bias]})

    def downward(self, k: int, h: Array) -> Distribution:
        """Layer k - 1 given layer k; of the pair at the top its conditional."""
        own, kind = self._own(h), self.kinds[k - 1]
        mine = {name: own[f"{name}_{k - 1}"] for name in kind.parameters}
        return kind.conditional(h @ self._coupling(k, own).T, mine)

    def means_up(self, x: Array, last: int | None = None) -> list[Array]:
        """Means of the hidden layers up to number `last`, all by default, each from those of the layer below."""
        return [layer.mean for layer in self.layers_up(x, last)]

    def layers_up(self, x: Array, last: int | None = None) -> list[Distribution]:
        """Distributions of the hidden layers up to number `last`, each given the means of the layer below."""
        found: list[Distribution] = []
        for k in range(1, (self.depth if last is None else last) + 1):
            found.append(self.upward(k, found[-1].mean if found else x))
        return found

    def draw_up(self, x: Array, noise: Noise, last: int | None = None) -> list[Array]:
        """The rows and a draw of each layer above them, up to number `last`, the lower one of the top by default."""
        found = [x]
        for k in range(1, self.depth if last is None else last + 1):
            found.append(self.upward(k, found[-1]).sample(noise, k))
        return found

    def draw_down(self, top: Array, noise: Noise, first: int | None = None) -> list[Array]:
        """States of layer `first`, the lower one of the top by default, below it a draw of each; the rows first."""
        found = [top]
        for k in range(self.depth - 1 if first is None else first, 0, -1):
            found.insert(0, self.downward(k, found[0]).sample(noise, k))
        return found

    def log_prob_up(self, layers: Layers) -> Array:
        """log q of the hidden layers given the rows, each row in nats."""
        total: Any = 0 * layers[0].sum(-1)
        for k in range(1, self.depth):
            total = total + self.upward(k, layers[k - 1]).log_prob(layers[k])
        return total

    def log_prob_down(self, layers: Layers) -> Array:
        """log p of the layers below the machine at the top, given its lower layer, each row in nats."""
        total: Any = 0 * layers[0].sum(-1)
        for k in range(1, self.depth):
            total = total + self.downward(k, layers[k]).log_prob(layers[k - 1])
        return total

    def generative_gradient(self, layers: Layers, weight: Array) -> dict[str, Array]:
        """Sums over rows of minus weight_i * d log p(lower layers | upper layers)_i."""
        found: dict[str, Any] = {}
        for k in range(1, self.depth):
            if k == 1 and self.real is not None:
                found |= self._real_gradient(layers, weight)
                continue
            away = (self.downward(k, layers[k]).mean - layers[k - 1]) * weight[:, None]
            found |= {f"weight_{k}": away.T @ layers[k], f"bias_{k - 1}": away.sum(0)}
        return found

    def _real_gradient(self, layers: Layers, weight: Array) -> dict[str, Any]:
        """Those of real columns: log p(v | h) = F(h) - E(v, h) of their machine."""
        pair, state = self.pair(1), {"hidden_0": layers[0], "hidden_1": layers[1]}
        near, far = pair.joint_gradient(state, weight), pair.marginal_gradient({"hidden_1": layers[1]}, weight)
        kept = {name: own for name, own in self._names(1).items() if not name.startswith("hidden_1")}
        return {own: near[name] - far[name] for name, own in kept.items()}

    def recognition_gradient(self, layers: Layers, weight: Array) -> dict[str, Array]:
        """Sums over rows of minus weight_i * d log q(upper layers | lower layers)_i."""
        found: dict[str, Any] = {}
        for k in range(1, self.depth):
            away = (self.upward(k, layers[k - 1]).mean - layers[k]) * weight[:, None]
            found |= {f"recognition_weight_{k}": layers[k - 1].T @ away, f"recognition_bias_{k}": away.sum(0)}
        return found

    # --- probabilities ------------------------------------------------------------------------------------------------

    def log_weight(self, layers: Layers) -> Array:
        """log p(v, h_1, ..., h_{L-1}) + log Z of each row, the topmost layer summed out."""
        top = self.pair(self.depth).marginal_energy({f"hidden_{self.depth - 1}": layers[-1]})
        return self.log_prob_down(layers) - top

    def infer(self, x: Array, noise: Noise) -> tuple[tuple[Array, ...], Array]:
        """See `Encoder`: the layers between the rows and the top, drawn upwards."""
        layers = self.draw_up(x, noise)
        return tuple(layers[1:]), self.log_prob_up(layers)

    def _inner_bits(self) -> int:
        """Units of the layers that are enumerated beside a row."""
        return sum(self.sizes[1:-1])

    def _beside(self, row: Array) -> list[Array]:
        """A row beside every state of the layers between it and the topmost one."""
        n = self._inner_bits()
        cuts = np.cumsum([0, *self.sizes[1:-1]])
        table = states(n)
        inner = [convert(table[:, a:b], row) for a, b in itertools.pairwise(cuts)]
        return [row[None, :] + convert(np.zeros((len(table), 1)), row), *inner]

    def modes(self, x: Array) -> Array:
        """The most probable state of all hidden layers given each row, side by side, shape (n, sum of the units).

        The layers between the rows and the topmost one are enumerated, which stands at its mode given them.
        """
        n = self._inner_bits()
        if n > EXACT_UNITS_OF_A_ROW:
            what = f"the most probable values of {n} hidden bits below the topmost layer lie among 2^{n}"
            remedy = "take their means, or smaller layers"
            raise UserValueError(f"{what}, above the limit of 2^{EXACT_UNITS_OF_A_ROW}", "method", remedy)
        return _stacked([self._best(self._beside(row)) for row in x])

    def _best(self, layers: Layers) -> Array:
        """The most probable of these states of the layers below the topmost one, with that one's."""
        lower, upper = f"hidden_{self.depth - 1}", f"hidden_{self.depth}"
        top = self.pair(self.depth)
        given: Any = top.conditional(upper, {lower: layers[-1]})
        highest = given.mode
        at = (self.log_prob_down(layers) - top.joint_energy({lower: layers[-1], upper: highest})).argmax()
        return concatenate([layer[at] for layer in (*layers[1:], highest)])

    @available_if(lambda self: isinstance(self, type) or self.is_exact)
    def log_prob(self, x: Array) -> Array:
        """Exact log p(x) in nats; there only while the inner layers and the machine at the top can be enumerated."""
        log_z = self.pair(self.depth).log_partition()
        return _stacked([logsumexp(self.log_weight(self._beside(row))) for row in x]) - log_z

    @available_if(lambda self: isinstance(self, type) or self.is_exact)
    def exact_bound(self, x: Array) -> Array:
        """E_q[log p(x, h) - log q(h | x)] of each row in nats, by enumeration: a lower bound of `log_prob`."""
        log_z = self.pair(self.depth).log_partition()
        parts = []
        for row in x:
            layers = self._beside(row)
            log_q = self.log_prob_up(layers)
            parts.append((exp(log_q) * (self.log_weight(layers) - log_q)).sum())
        return _stacked(parts) - log_z

    def inner_states(self) -> list[Array]:
        """Every state of the layers between the rows and the topmost one, as arrays of these layers."""
        cuts, table = np.cumsum([0, *self.sizes[1:-1]]), states(self._inner_bits())
        return [np.ascontiguousarray(table[:, a:b]) for a, b in itertools.pairwise(cuts)]

    def log_inner(self, layers: Layers) -> Array:
        """log p + log Z of the layers between the rows and the topmost one, each row in nats."""
        total: Any = -self.pair(self.depth).marginal_energy({f"hidden_{self.depth - 1}": layers[-1]})
        for k in range(2, self.depth):
            total = total + self.downward(k, layers[k - 1]).log_prob(layers[k - 2])
        return total

    @property
    def is_exact(self) -> bool:
        """Whether the inner layers, and those of the machine at the top, have few enough units to enumerate."""
        top = min(math.log2(kind.n_states) for kind in self.kinds[-2:])
        return self._inner_bits() <= EXACT_UNITS_OF_A_ROW and top <= EXACT_UNITS


def _stacked(parts: list[Any]) -> Any:
    return torch.stack(parts) if is_tensor(parts[0]) else np.array(parts)


class Normalized:
    """A deep belief network with its log Z: a model with latent variables, and the way up to them.

    Parameters
    ----------
    model : DBNModel
    log_z : float
        Of the machine at the top, in nats.
    """

    def __init__(self, model: DBNModel, log_z: float) -> None:
        self.model, self.log_z = model, log_z

    def log_joint(self, x: Array, z: tuple[Array, ...]) -> Array:
        """See `HasLatents`."""
        return self.model.log_weight([x, *z]) - self.log_z

    def infer(self, x: Array, noise: Noise) -> tuple[tuple[Array, ...], Array]:
        """See `Encoder`."""
        return self.model.infer(x, noise)
