"""The multiplicative recurrent layer: each input has a map of the state of its own."""

from __future__ import annotations

import torch
from torch import nn

from gnomon.contracts import Noise
from gnomon.nn.initializers import Normal, Orthogonal
from gnomon.nn.recurrent import Recurrent

__all__ = ["MultiplicativeRNN"]


class MultiplicativeRNN(Recurrent):
    r"""Recurrent layer in which the input chooses how the state is mapped, through factors.

    .. math::
        f_t = (W_{fx} x_t) \odot (W_{fh} h_{t-1}), \quad h_t = \tanh(W_{hf} f_t + W_{hx} x_t + b)

    The map of the state is :math:`W_{hf} \operatorname{diag}(W_{fx} x_t) W_{fh}`: a table of maps, one for each input,
    that shares its two outer factors. Where :math:`W_{fx} x_t` is 1, the layer is `gnomon.nn.recurrent.RNN` with the
    map :math:`W_{hf} W_{fh}`.

    Parameters
    ----------
    inputs, units : int >= 1
    factors : int >= 1, optional
        Width of f; `units` where left out.
    dtype : torch.dtype, optional

    Notes
    -----
    W_hx is named ``weight_x`` and W_hf ``weight_h``. `initialize` draws W_fx standard normal, so that an input of
    length 1 gives factors of variance 1, and the two maps about the factors orthogonal: then the state keeps its length
    on average. (units + factors) * inputs + 2 units * factors multiplications a place; goes place by place, with the
    products of the inputs taken together.

    References
    ----------
    Sutskever, Martens and Hinton (2011), Generating text with recurrent neural networks.

    Examples
    --------
    >>> layer = MultiplicativeRNN(2, 1)
    >>> with torch.no_grad():
    ...     _ = layer.weight_fx.copy_(torch.tensor([[1.0, 0.0]]))
    ...     _ = layer.weight_fh.fill_(1.0), layer.weight_h.fill_(0.5)
    >>> kept, dropped = layer.step(torch.eye(2), torch.ones(2, 1)).flatten().tolist()  # one input passes the state on
    >>> round(kept, 4), dropped
    (0.4621, 0.0)
    """

    def __init__(
        self, inputs: int, units: int, factors: int | None = None, *, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__(inputs, units, 1, dtype=dtype)
        self.factors = units if factors is None else factors
        self.weight_h = nn.Parameter(torch.zeros(units, self.factors, dtype=dtype))
        self.weight_fx = nn.Parameter(torch.zeros(self.factors, inputs, dtype=dtype))
        self.weight_fh = nn.Parameter(torch.zeros(self.factors, units, dtype=dtype))

    def initialize(self, noise: Noise) -> None:
        """As of other layers, and the factors as the class says."""
        super().initialize(noise)
        with torch.no_grad():
            Normal(1.0).fill(self.weight_fx, noise.child("weight_fx"))
            Orthogonal().fill(self.weight_fh, noise.child("weight_fh"))

    def step(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """One place."""
        return self._step(*self._driven(x), state)

    def unroll(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """The states after each place, with the products of the inputs taken together."""
        driven, chosen = self._driven(x)
        states = []
        for t in range(x.shape[1]):
            state = self._step(driven[:, t], chosen[:, t], state)
            states.append(state)
        return torch.stack(states, 1)

    def _driven(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What inputs add to the state, and the factors that they choose."""
        return nn.functional.linear(x, self.weight_x, self.bias), nn.functional.linear(x, self.weight_fx)

    def _step(self, driven: torch.Tensor, chosen: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        return torch.tanh(driven + (chosen * (state @ self.weight_fh.T)) @ self.weight_h.T)

    def extra_repr(self) -> str:
        """Shown by repr."""
        return f"{super().extra_repr()}, {self.factors}"
