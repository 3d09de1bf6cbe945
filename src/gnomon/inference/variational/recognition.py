"""A network that guesses the hidden means of a deep machine in one pass, for mean field to go on from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch

from gnomon.contracts import Array
from gnomon.nn.module import Module
from gnomon.numeric.ops import sigmoid, softplus
from gnomon.numeric.tensors import is_tensor

__all__ = ["RecognitionNetwork"]


class RecognitionNetwork(Module):
    r"""One pass up: :math:`\nu_l = \sigma(\nu_{l-1} R_l + r_l)` with :math:`\nu_0 = v`, for layers of 0 and 1.

    It is taught to say what mean field makes of its own guess: with :math:`\mu` the means after some rounds from
    :math:`\nu`, the loss is :math:`-\sum_l \mu_l \log \nu_l + (1 - \mu_l) \log (1 - \nu_l)`, with :math:`\mu` held. Its
    derivative by the field of a unit is :math:`\nu - \mu`: it stands still where the guess is a solution.

    Parameters
    ----------
    sizes : mapping of str to int
        Units by layer, from the observed layer up.
    dtype : torch.dtype

    References
    ----------
    Salakhutdinov and Larochelle (2010), "Efficient learning of deep Boltzmann machines".

    Examples
    --------
    >>> import numpy as np
    >>> network = RecognitionNetwork({"visible": 2, "hidden_1": 1}).begin([np.ones((2, 1))], [np.zeros(1)])
    >>> network(np.array([[1.0, 1.0]]))["hidden_1"].round(4).tolist()
    [[0.8808]]
    """

    def __init__(self, sizes: Mapping[str, int], dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.observed, *self.layers = sizes
        for lower, upper in zip((self.observed, *self.layers), self.layers, strict=False):
            shape = (sizes[lower], sizes[upper])
            self.register_parameter(f"{upper}_weight", torch.nn.Parameter(torch.zeros(shape, dtype=dtype)))
            self.register_parameter(f"{upper}_bias", torch.nn.Parameter(torch.zeros(shape[1:], dtype=dtype)))

    def begin(self, weights: Sequence[Array], biases: Sequence[Array]) -> RecognitionNetwork:
        """Take the couplings of a machine, twice below the top: a layer has no layer above it yet that speaks too.

        Parameters
        ----------
        weights : sequence of arrays of shape (units of the layer below, units)
            Of each hidden layer, from the lowest up.
        biases : sequence of arrays of shape (units,)
        """
        with torch.no_grad():
            for name, weight, bias in zip(self.layers, weights, biases, strict=True):
                times = 1 if name == self.layers[-1] else 2
                self.get_parameter(f"{name}_weight").copy_(times * torch.as_tensor(weight))
                self.get_parameter(f"{name}_bias").copy_(torch.as_tensor(bias))
        return self

    def _own(self, like: Array) -> Mapping[str, Any]:
        if is_tensor(like):
            return cast(Mapping[str, Any], self._parameters)
        return self.views() if self.device.type == "cpu" else self.state()

    def _fields(self, v: Array) -> dict[str, Array]:
        own, below, found = self._own(v), v, {}
        for name in self.layers:
            found[name] = below @ own[f"{name}_weight"] + own[f"{name}_bias"]
            below = sigmoid(found[name])
        return found

    def forward(self, v: Array) -> dict[str, Array]:
        """The guess, by hidden layer; NumPy is answered in NumPy, tensors with gradients."""
        return {name: sigmoid(field) for name, field in self._fields(v).items()}

    def lesson(self, v: Array, means: Mapping[str, Array], weight: Array) -> tuple[float, dict[str, Array]]:
        """The loss against means that are held, and its gradients.

        Parameters
        ----------
        v : array of shape (n, columns)
        means : mapping of str to array of shape (n, units)
            Of each hidden layer: what mean field made of the guess.
        weight : array of shape (n,)

        Returns
        -------
        loss : float
            Sum over rows of weight times the cross-entropy, nats.
        gradients : dict of str to array
            By parameter, sums over rows.
        """
        own, fields, loss = self._own(v), self._fields(v), 0.0
        guess = {name: sigmoid(field) for name, field in fields.items()}
        gradients: dict[str, Array] = {}
        from_above: Any = 0.0
        for lower, name in reversed(list(zip((self.observed, *self.layers), self.layers, strict=False))):
            field, nu = fields[name], guess[name]
            loss += float((weight @ (softplus(field) - means[name] * field)).sum())
            slope = weight[:, None] * (nu - means[name]) + from_above * nu * (1 - nu)
            below = v if lower == self.observed else guess[lower]
            gradients[f"{name}_weight"], gradients[f"{name}_bias"] = below.T @ slope, slope.sum(0)
            from_above = slope @ own[f"{name}_weight"].T
        return loss, gradients
