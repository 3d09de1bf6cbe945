"""A machine of layers in centered coordinates: states count from offsets, and biases make up for it.

With offsets mu the energy is ``E'(x) = -sum_l w_l(x_l) - sum_lm (x_l - mu_l)^T W_lm (x_m - mu_m)``. That is, up to a
constant, the plain machine of the same couplings whose natural bias of layer l is smaller by the field that the offsets
of its neighbors put on it. A machine is kept in plain coordinates; gradients pass through the centered ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from gnomon.contracts import Array
from gnomon.distributions.units import Units
from gnomon.errors import UserTypeError
from gnomon.inference.arrays import convert
from gnomon.numeric.tensors import detached

__all__ = ["centered_gradient", "mean_differences", "recentered"]


def centered_gradient(machine: Any, gradient: Mapping[str, Array], offsets: Mapping[str, Array]) -> dict[str, Array]:
    """What a step along the gradient in centered coordinates is in plain ones.

    The gradient is taken by the couplings W and centered biases b', where ``b = b' - shift(W)`` and the shift of a
    layer is the field of its neighbors' offsets over d (natural bias) / d b. By the chain rule the couplings' gradient
    loses ``d shift / d W`` times that of b; a step of W then moves b by minus the shift of that step.

    Parameters
    ----------
    machine : LayeredMachine
        Every layer has a bias; links are linear in their parameters.
    gradient : mapping of str to array
        Of any function, by parameter.
    offsets : mapping of str to array of shape (size,)
        By layer.

    Returns
    -------
    dict of str to array
        By parameter; what belongs to neither links nor biases is unchanged.

    Notes
    -----
    For two layers of bits: dW - db lambda^T - mu dc^T, and db less that times lambda (Montavon and Müller 2012).
    Linear in the gradient; with offsets of 0 it is the gradient itself. Cost: two products of a row with each link.
    """
    names = _bias_names(machine)
    like = gradient[next(iter(names.values()))]
    mu = {block: convert(offsets[block], like)[None] for block in machine.units}
    pull = {block: value[None] for block, value in mean_differences(machine, gradient).items()}
    # the bilinear form of pull and mu, by polarization: both in one, less each alone
    rows = {block: _stacked(mu[block] + pull[block], pull[block], mu[block]) for block in names}
    crossed = machine.joint_gradient(rows, convert(np.array([-1.0, 1.0, 1.0]), like))
    links = {name for link in machine.links for name in link.names.values()}
    found = {name: value - crossed[name] if name in links else value for name, value in gradient.items()}
    step = {name: found[name] for name in links}
    for block, name in names.items():
        found[name] = found[name] - _shift(machine, block, mu, step) / _per_bias(machine, block, like)
    return found


def mean_differences(machine: Any, gradient: Mapping[str, Array]) -> dict[str, Array]:
    """By layer, the gradient by what the biases are to the natural parameters, (size,).

    Of a gradient of data against model: the means under the model less those of the data, times the weight of both.
    """
    names = _bias_names(machine)
    return {block: gradient[name] / _per_bias(machine, block, gradient[name]) for block, name in names.items()}


def recentered(machine: Any, offsets: Mapping[str, Array], sign: float) -> Any:
    """The machine whose biases are greater by `sign` times the shift."""
    names, own = _bias_names(machine), {name: value.detach() for name, value in machine.named_parameters()}
    like = next(iter(own.values()))
    mu = {block: convert(offsets[block], like)[None] for block in machine.units}
    links = {name: own[name] for link in machine.links for name in link.names.values()}
    moved = {
        name: own[name] + sign * (_shift(machine, block, mu, links) / _per_bias(machine, block, like)).detach()
        for block, name in names.items()
    }
    return machine._with(own | moved)


def _bias_names(machine: Any) -> dict[str, str]:
    """Names of the biases by layer.

    Raises
    ------
    UserTypeError
        A layer that has none, or whose links couple something else than its states; a link among three layers, whose
        offsets would be couplings of two.
    """
    if not machine.bilinear:
        what = "links must join two layers each where states count from offsets, got a link of more"
        raise UserTypeError(what, "objective", "train it by the inner objective alone")
    for block, kind in machine.units.items():
        if "bias" not in kind.parameters or type(kind).features is not Units.features:
            what = f"the layer {block!r} ({type(kind).__name__}) has no bias that could make up for an offset"
            raise UserTypeError(what, "objective", "train it by the inner objective alone")
        if machine.get_parameter(machine._own_names[block]["bias"]).shape != (machine.sizes[block],):
            what = f"units of the layer {block!r} share biases, which cannot make up for an offset of each"
            raise UserTypeError(what, "objective", "train it by the inner objective alone")
    return {block: names["bias"] for block, names in machine._own_names.items()}


def _per_bias(machine: Any, block: str, like: Array) -> Array:
    """d natural parameter / d bias, (size,): by how much the derivative of w by the bias grows with x."""
    kind, one = machine.units[block], convert(np.ones((1, machine.sizes[block])), like)
    own = machine._own(block, machine._arrays({block: one}))
    slope = (kind.statistics(one, one, own)["bias"] - kind.statistics(0 * one, 0 * one, own)["bias"])[0]
    return detached(slope)


def _shift(machine: Any, block: str, mu: Mapping[str, Array], links: Mapping[str, Array]) -> Array:
    """The field of the offsets on a layer, (size,), with these parameters of the links."""
    own = {name: value.detach() for name, value in machine.named_parameters()}
    twin = machine._with(own | dict(links))
    field = twin._field(block, mu, twin._arrays(mu))[0]
    return detached(field)


def _stacked(*rows: Array) -> Array:
    if isinstance(rows[0], torch.Tensor):
        return torch.cat(rows)
    return np.concatenate(rows)
