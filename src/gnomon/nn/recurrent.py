"""Recurrent layers: one state per sequence, one set of weights for every place.

Batches are (n, T, inputs), batch first, and padded sequences stand at the left: places from `lengths` on are padding,
which changes neither the outputs before it nor the last state. Where torch has the equation, its fused kernel runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Self

import torch
from torch import nn

from gnomon.contracts import Noise
from gnomon.nn.initializers import Initializer, Orthogonal, XavierUniform

__all__ = ["GRU", "LSTM", "RNN", "Bidirectional", "DelayedGRU", "Gate", "Recurrent", "reverse"]

Gate = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Weights of one gate: of the input (units, inputs), of the state (units, units), and the bias (units,)."""


class Recurrent(nn.Module):
    """Base of recurrent layers: a subclass says how many gates there are and what a step does.

    Parameters
    ----------
    inputs : int >= 1
    units : int >= 1
        Width of the outputs.
    gates : int >= 1
        Affine maps of input and state, whose weights stand below each other: (gates * units, ...).
    dtype : torch.dtype, optional

    Notes
    -----
    The state is one tensor (n, state_size), its first `units` columns the output. All parameters are 0 until
    `initialize`.
    """

    def __init__(self, inputs: int, units: int, gates: int, *, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.inputs, self.units, self.state_size = inputs, units, units
        self.weight_x = nn.Parameter(torch.zeros(gates * units, inputs, dtype=dtype))
        self.weight_h = nn.Parameter(torch.zeros(gates * units, units, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(gates * units, dtype=dtype))

    def initialize(self, noise: Noise) -> None:
        """Weights of the input uniform by Xavier's rule, of the state orthogonal, gate by gate; biases 0.

        An orthogonal map of the state keeps its norm, so that gradients neither vanish nor explode at first.
        """
        rules: list[tuple[str, nn.Parameter, Initializer]] = [
            ("weight_x", self.weight_x, XavierUniform()), ("weight_h", self.weight_h, Orthogonal()),
        ]  # fmt: skip
        with torch.no_grad():
            for name, weight, rule in rules:
                for gate, part in enumerate(torch.split(weight, self.units)):
                    rule.fill(part, noise.child(f"{name}.{gate}"))
            for parameter in self.parameters(recurse=False):
                if parameter.ndim == 1:
                    parameter.zero_()

    def initial(self, n: int) -> torch.Tensor:
        """The state before the first place, (n, state_size): 0."""
        return self.bias.new_zeros(n, self.state_size)

    def step(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """The next state (n, state_size) from inputs (n, inputs)."""
        raise NotImplementedError

    def unroll(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """The states after each place, (n, T, state_size)."""
        states = []
        for t in range(x.shape[1]):
            state = self.step(x[:, t], state)
            states.append(state)
        return torch.stack(states, 1)

    def forward(
        self, x: torch.Tensor, state: torch.Tensor | None = None, lengths: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Outputs at every place and the state after the last.

        Parameters
        ----------
        x : tensor of shape (n, T, inputs)
        state : tensor of shape (n, state_size), optional
            Before the first place; 0 where left out.
        lengths : int64 tensor of shape (n,), optional
            Places of each sequence; what stands after is padding. 0 is a sequence without any.

        Returns
        -------
        outputs : tensor of shape (n, T, units)
            0 at padding.
        state : tensor of shape (n, state_size)
            After the last place that is no padding; the state given where there is none.
        """
        before = self.initial(len(x)) if state is None else state
        if not x.shape[1]:
            return x.new_zeros(len(x), 0, self.units), before
        states = self.unroll(x, before)
        outputs = states[..., : self.units]
        if lengths is None:
            return outputs, states[:, -1]
        inside = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
        last = states[torch.arange(len(x), device=x.device), (lengths - 1).clamp(min=0)]
        return outputs * inside[..., None], torch.where(lengths[:, None] > 0, last, before)

    def extra_repr(self) -> str:
        """Shown by repr."""
        return f"{self.inputs}, {self.units}"


class RNN(Recurrent):
    r"""The simple (Elman) network: :math:`h_t = f(W_x x_t + W_h h_{t-1} + b)`.

    Parameters
    ----------
    inputs, units : int >= 1
    activation : function of a tensor, default torch.tanh
        f. ``torch.tanh`` and ``torch.relu`` run fused.
    dtype : torch.dtype, optional

    Notes
    -----
    ``torch.nn.RNN`` has two biases, whose sum is this one. units * (inputs + units + 1) parameters, as many
    multiplications a place.

    References
    ----------
    Elman (1990), Finding structure in time.

    Examples
    --------
    >>> layer = RNN(1, 1, torch.relu)
    >>> _ = layer.load_state_dict({"weight_x": torch.ones(1, 1), "weight_h": torch.ones(1, 1), "bias": torch.zeros(1)})
    >>> layer(torch.ones(1, 4, 1))[0].flatten().tolist()
    [1.0, 2.0, 3.0, 4.0]
    """

    def __init__(
        self,
        inputs: int,
        units: int,
        activation: Callable[[torch.Tensor], torch.Tensor] = torch.tanh,
        *,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(inputs, units, 1, dtype=dtype)
        self.activation = activation

    def step(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """f of the affine map of input and state."""
        return self.activation(torch.addmm(self.bias, x, self.weight_x.T) + state @ self.weight_h.T)

    def unroll(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """Fused for tanh and relu."""
        if self.activation not in (torch.tanh, torch.relu):
            return super().unroll(x, state)
        fused = torch.rnn_tanh if self.activation is torch.tanh else torch.rnn_relu
        weights = (self.weight_x, self.weight_h, self.bias, torch.zeros_like(self.bias))
        states: torch.Tensor = fused(
            x, state[None].contiguous(), weights, True, 1, 0.0, torch.is_grad_enabled(), False, True
        )[0]
        return states

    @classmethod
    def from_torch(cls, layer: nn.RNN) -> Self:
        """The layer that computes what one layer of ``torch.nn.RNN`` in one direction does."""
        activation = torch.relu if layer.nonlinearity == "relu" else torch.tanh
        given = layer.state_dict()
        mine = cls(layer.input_size, layer.hidden_size, activation, dtype=given["weight_ih_l0"].dtype)
        with torch.no_grad():
            mine.weight_x.copy_(given["weight_ih_l0"])
            mine.weight_h.copy_(given["weight_hh_l0"])
            mine.bias.copy_(given["bias_ih_l0"] + given["bias_hh_l0"])
        return mine


class GRU(Recurrent):
    r"""Gated recurrent unit.

    .. math::
        r &= \sigma(W_{xr} x + W_{hr} h + b_r), \quad z = \sigma(W_{xz} x + W_{hz} h + b_z) \\
        n &= \tanh(W_{xn} x + b_n + r \odot (W_{hn} h + c)) \quad\text{or}\quad
             n = \tanh(W_{xn} x + b_n + W_{hn} (r \odot h)) \\
        h' &= z \odot h + (1 - z) \odot n

    The first n has the reset gate after the recurrent product, as ``torch.nn.GRU`` (and cuDNN) have it; the second
    before it, as the unit was published. They differ wherever W_hn mixes units. The update gate z weights the old
    state; texts whose gate weights the new one have 1 - z, which is a gate of negated weights and bias.

    Parameters
    ----------
    inputs, units : int >= 1
    reset : {"after", "before"}, default "after"
        Where the reset gate acts. ``after`` runs fused; ``before`` goes place by place.
    dtype : torch.dtype, optional

    Notes
    -----
    Gates stand in torch's order r, z, n. Of torch's two biases the sums are kept, and c (named ``bias_n``) apart, which
    only ``reset="after"`` has. 3 units * (inputs + units) multiplications a place.

    References
    ----------
    Cho et al. (2014), Learning phrase representations using RNN encoder-decoder.

    Examples
    --------
    >>> one = lambda *weights: tuple(torch.tensor([[w]]) for w in weights) + (torch.zeros(1),)
    >>> layer = GRU.from_gates(reset=one(0.5, 0.5), update=one(-0.5, 0.5), candidate=one(1.0, 1.0))
    >>> round(layer.step(torch.tensor([[1.0]]), torch.tensor([[0.5]])).item(), 5)
    0.70889
    """

    def __init__(
        self,
        inputs: int,
        units: int,
        *,
        reset: Literal["after", "before"] = "after",
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(inputs, units, 3, dtype=dtype)
        self.reset = reset
        self.bias_n = nn.Parameter(torch.zeros(units, dtype=dtype)) if reset == "after" else None

    def step(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """One place."""
        return self._step(torch.addmm(self.bias, x, self.weight_x.T), state)

    def _step(self, driven: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        """One place from the affine map of its input."""
        sizes = [2 * self.units, self.units]
        r_and_z, n = torch.split(driven, sizes, 1)
        gates, candidate = torch.split(self.weight_h, sizes)
        r, z = torch.sigmoid(r_and_z + h @ gates.T).chunk(2, 1)
        if self.bias_n is not None:
            n = torch.tanh(n + r * torch.addmm(self.bias_n, h, candidate.T))
        else:
            n = torch.tanh(n + (r * h) @ candidate.T)
        return z * h + (1 - z) * n

    def unroll(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """Fused where the reset gate acts after the product, else with the inputs' products taken together."""
        if self.bias_n is None:
            driven = torch.nn.functional.linear(x, self.weight_x, self.bias)
            states = []
            for t in range(x.shape[1]):
                state = self._step(driven[:, t], state)
                states.append(state)
            return torch.stack(states, 1)
        bias_h = torch.cat([self.bias.new_zeros(2 * self.units), self.bias_n])
        weights = (self.weight_x, self.weight_h, self.bias, bias_h)
        return torch.gru(x, state[None].contiguous(), weights, True, 1, 0.0, torch.is_grad_enabled(), False, True)[0]

    @classmethod
    def from_torch(cls, layer: nn.GRU) -> Self:
        """The layer that computes what one layer of ``torch.nn.GRU`` in one direction does."""
        given = layer.state_dict()
        mine = cls(layer.input_size, layer.hidden_size, dtype=given["weight_ih_l0"].dtype)
        assert mine.bias_n is not None
        gates = 2 * mine.units
        with torch.no_grad():
            mine.weight_x.copy_(given["weight_ih_l0"])
            mine.weight_h.copy_(given["weight_hh_l0"])
            mine.bias.copy_(given["bias_ih_l0"])
            mine.bias[:gates].add_(given["bias_hh_l0"][:gates])
            mine.bias_n.copy_(given["bias_hh_l0"][gates:])
        return mine

    @classmethod
    def from_gates(
        cls,
        *,
        reset: Gate,
        update: Gate,
        candidate: Gate,
        keeps: Literal["old", "new"] = "old",
        order: Literal["after", "before"] = "before",
    ) -> Self:
        """The layer of published weights.

        Parameters
        ----------
        reset, update, candidate : Gate
            Weights of the input, of the state, and the bias.
        keeps : {"old", "new"}, default "old"
            Which state the update gate multiplies: h' = z h + (1 - z) n, or h' = z n + (1 - z) h.
        order : {"after", "before"}, default "before"
            Whether the reset gate acts after the recurrent product or before it; see the class.
        """
        sign = 1.0 if keeps == "old" else -1.0
        update = (sign * update[0], sign * update[1], sign * update[2])
        mine = cls(candidate[0].shape[1], candidate[0].shape[0], reset=order, dtype=candidate[0].dtype)
        with torch.no_grad():
            for name, parts in zip(
                ("weight_x", "weight_h", "bias"), zip(reset, update, candidate, strict=True), strict=True
            ):
                getattr(mine, name).copy_(torch.cat(parts))
        return mine


class LSTM(Recurrent):
    r"""Long short-term memory: a cell that gates write to, keep and read.

    .. math::
        i, f, o &= \sigma(W_{x} x + W_{h} h + b) \text{ each with its own weights}, \quad
        g = \tanh(W_{xg} x + W_{hg} h + b_g) \\
        c' &= f \odot c + i \odot g, \quad h' = o \odot \tanh c'

    Parameters
    ----------
    inputs, units : int >= 1
    dtype : torch.dtype, optional

    Notes
    -----
    The state holds h, then c: state_size is 2 units. Gates stand in torch's order i, f, g, o; of torch's two biases the
    sum is kept. `initialize` gives the forget gate a bias of 1, so that cells keep at first what they hold (Jozefowicz,
    Zaremba and Sutskever 2015). 4 units * (inputs + units) multiplications a place; whole sequences run fused.

    References
    ----------
    Hochreiter and Schmidhuber (1997); Gers, Schmidhuber and Cummins (2000) for the forget gate.

    Examples
    --------
    >>> layer = LSTM(3, 4)
    >>> outputs, state = layer(torch.ones(2, 5, 3), lengths=torch.tensor([5, 2]))
    >>> outputs.shape, state.shape
    (torch.Size([2, 5, 4]), torch.Size([2, 8]))
    """

    def __init__(self, inputs: int, units: int, *, dtype: torch.dtype | None = None) -> None:
        super().__init__(inputs, units, 4, dtype=dtype)
        self.state_size = 2 * units

    def initialize(self, noise: Noise) -> None:
        """As of other layers, and a bias of 1 for the forget gate."""
        super().initialize(noise)
        with torch.no_grad():
            self.bias[self.units : 2 * self.units] = 1

    def step(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """One place."""
        h, c = state.chunk(2, 1)
        i, f, g, o = (torch.addmm(self.bias, x, self.weight_x.T) + h @ self.weight_h.T).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.cat([torch.sigmoid(o) * torch.tanh(c), c], 1)

    def forward(
        self, x: torch.Tensor, state: torch.Tensor | None = None, lengths: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See `Recurrent.forward`; fused, so that cells are known after the last place alone."""
        before = self.initial(len(x)) if state is None else state
        if not x.shape[1]:
            return x.new_zeros(*x.shape[:2], self.units), before
        weights = (self.weight_x, self.weight_h, self.bias, torch.zeros_like(self.bias))
        first = tuple(part[None].contiguous() for part in before.chunk(2, 1))
        if lengths is None or not len(x):  # without rows still a part of the graph: other processes sum its gradients
            outputs, h, c = torch.lstm(x, first, weights, True, 1, 0.0, torch.is_grad_enabled(), False, True)
            return outputs, torch.cat([h[0], c[0]], 1)
        order = lengths.argsort(descending=True, stable=True)
        packed = nn.utils.rnn.pack_padded_sequence(x[order], lengths[order].clamp(min=1).cpu(), batch_first=True)
        first = tuple(part[:, order] for part in first)
        data, h, c = torch.lstm(
            packed.data, packed.batch_sizes, first, weights, True, 1, 0.0, torch.is_grad_enabled(), False
        )
        packed = nn.utils.rnn.PackedSequence(data, packed.batch_sizes)
        outputs, _ = nn.utils.rnn.pad_packed_sequence(packed, batch_first=True, total_length=x.shape[1])
        back = order.argsort()
        inside = lengths[:, None] > 0
        return outputs[back] * inside[..., None], torch.where(inside, torch.cat([h[0], c[0]], 1)[back], before)

    @classmethod
    def from_torch(cls, layer: nn.LSTM) -> Self:
        """The layer that computes what one layer of ``torch.nn.LSTM`` in one direction does."""
        given = layer.state_dict()
        mine = cls(layer.input_size, layer.hidden_size, dtype=given["weight_ih_l0"].dtype)
        with torch.no_grad():
            mine.weight_x.copy_(given["weight_ih_l0"])
            mine.weight_h.copy_(given["weight_hh_l0"])
            mine.bias.copy_(given["bias_ih_l0"] + given["bias_hh_l0"])
        return mine


class DelayedGRU(Recurrent):
    r"""A gated unit whose gates come one step late, as a textbook prints it.

    :math:`h_t = u_{t-1} \odot h_{t-1} + (1 - u_{t-1}) \odot \sigma(W_x x_t + W_h (r_{t-1} \odot h_{t-1}) + b)` with
    gates :math:`u_t, r_t` from x_t and h_t: those of step t act on the step after. Before the first input x_0 is 0.

    Parameters
    ----------
    inputs, units : int >= 1
    dtype : torch.dtype, optional

    Notes
    -----
    The state holds h, then r and u: state_size is 3 units. Goes place by place. Gates stand in the order r, u,
    candidate.

    References
    ----------
    Goodfellow, Bengio and Courville (2016), Deep Learning, equations 10.45 to 10.47.
    """

    def __init__(self, inputs: int, units: int, *, dtype: torch.dtype | None = None) -> None:
        super().__init__(inputs, units, 3, dtype=dtype)
        self.state_size = 3 * units

    def initial(self, n: int) -> torch.Tensor:
        """h = 0 and the gates of no input."""
        return self.gated(self.bias.new_zeros(n, self.inputs), self.bias.new_zeros(n, self.units))

    def gated(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        """The state whose output is h and whose gates come from x and h."""
        size = 2 * self.units
        gates = torch.addmm(self.bias[:size], x, self.weight_x[:size].T) + h @ self.weight_h[:size].T
        return torch.cat([h, torch.sigmoid(gates)], 1)

    def step(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """One place: the candidate under the gates of the step before, then the gates of this one."""
        h, r, u = state.chunk(3, 1)
        size = 2 * self.units
        driven = torch.addmm(self.bias[size:], x, self.weight_x[size:].T)
        candidate = torch.sigmoid(driven + (r * h) @ self.weight_h[size:].T)
        return self.gated(x, u * h + (1 - u) * candidate)


class Bidirectional(nn.Module):
    """One layer reads forward, another backward from each sequence's true end; their outputs stand side by side.

    Parameters
    ----------
    forward_layer, backward_layer : Recurrent

    References
    ----------
    Schuster and Paliwal (1997).
    """

    def __init__(self, forward_layer: Recurrent, backward_layer: Recurrent) -> None:
        super().__init__()
        self.forward_layer, self.backward_layer = forward_layer, backward_layer
        self.units = forward_layer.units + backward_layer.units
        self.state_size = forward_layer.state_size + backward_layer.state_size

    def initialize(self, noise: Noise) -> None:
        """Each layer from a stream of its own."""
        self.forward_layer.initialize(noise.child("forward"))
        self.backward_layer.initialize(noise.child("backward"))

    def forward(
        self, x: torch.Tensor, state: torch.Tensor | None = None, lengths: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Outputs (n, T, units) and both last states side by side; see `Recurrent.forward`."""
        one, two = (
            (None, None)
            if state is None
            else torch.split(state, [self.forward_layer.state_size, self.backward_layer.state_size], 1)
        )
        ahead, last = self.forward_layer(x, one, lengths)
        back, first = self.backward_layer(reverse(x, lengths), two, lengths)
        return torch.cat([ahead, reverse(back, lengths)], 2), torch.cat([last, first], 1)


def reverse(x: torch.Tensor, lengths: torch.Tensor | None = None) -> torch.Tensor:
    """Sequences (n, T, ...) read backward; padding stays where it is.

    Examples
    --------
    >>> reverse(torch.tensor([[1, 2, 3, 0], [1, 2, 3, 4]]), torch.tensor([3, 4])).tolist()
    [[3, 2, 1, 0], [4, 3, 2, 1]]
    """
    if lengths is None:
        return x.flip(1)
    positions = torch.arange(x.shape[1], device=x.device).expand(len(x), -1)
    back = lengths[:, None] - 1 - positions
    return x[torch.arange(len(x), device=x.device)[:, None], torch.where(back >= 0, back, positions)]
