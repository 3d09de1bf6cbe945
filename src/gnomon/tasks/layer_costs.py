"""`gnomon.layer_costs`: parameters, multiply-adds and memory of a network by layer, for inputs of any size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gnomon.errors import UserTypeError, UserValueError, shown
from gnomon.recipes.parameters import how_many

if TYPE_CHECKING:
    from gnomon.nn.costs import NetworkCost

__all__ = ["layer_costs"]

CLASSES = 10
MOST_NUMBERS = 1 << 40
"""Of an input: far more have weights and outputs that are not counted in 64 bits."""
NETWORKS = "image networks such as resnet, mlp and mlp-regression"


def layer_costs(system: Any, shape: Sequence[int] | None = None, *, n_classes: int | None = None) -> NetworkCost:
    """What each layer of a network would cost for inputs of a size: nothing is fitted, no weight is allocated.

    Parameters
    ----------
    system : System
        A network over images, or `MLP` or `MLPRegression`; of a fitted one its own input and classes are the defaults.
    shape : sequence of int, optional
        (channels, rows, columns) or (rows, columns) of images, (columns,) of a table.
    n_classes : int in [1, inf), optional
        Classes, or numbers that are predicted; 10 classes or 1 number where left out.

    Returns
    -------
    NetworkCost
        ``layers`` one by one; ``parameters``, ``multiply_adds``, ``activations`` of one input, ``activation_bytes``.

    Raises
    ------
    UserTypeError
        A system whose layers are not counted.
    UserValueError
        A shape that is none, or images that are too small for the network.

    Notes
    -----
    A multiply-add is one of a matrix product or convolution; published figures of image networks count the same and
    call it a FLOP or a MAC. Training costs about three times as many, and keeps about the activations for each example.

    Examples
    --------
    >>> import gnomon
    >>> found = layer_costs(gnomon.LeNet(), (1, 28, 28))
    >>> found.parameters, found.multiply_adds, found.layers[0].shape
    (61706, 416520, (6, 28, 28))
    """
    import torch

    from gnomon.nn.costs import network_cost

    if not _counted(system):
        name = getattr(system, "name", None) or shown(system)
        raise UserTypeError(f"the layers of {name} are not counted", "system", f"those of {NETWORKS} are")
    known = getattr(system, "arguments_", None) or {}
    if shape is None and not known:
        raise UserValueError("the size of the input must be given", "shape", "such as (3, 224, 224)")
    images = not system.domain.is_table
    given = _as_known(known, images) if shape is None else _checked(shape, images)
    answers = _answers(known) if n_classes is None else how_many(n_classes, "n_classes")
    if answers == 0:
        raise UserValueError.must("n_classes", "be at least 1", answers)
    with torch.device("meta"):
        model = system.make(**_arguments(system, given, answers))
    return network_cost(model, model.scores, given)


def _counted(system: Any) -> bool:
    from gnomon.nn.mlp import MLPModel
    from gnomon.system.by_gradient import ByGradient

    if not isinstance(system, ByGradient) or not set(system.tasks) & {"classify", "regress"}:
        return False
    return getattr(system, "model_class", None) is MLPModel or getattr(system.domain, "view", "") == "images"


def _checked(shape: Sequence[int], images: bool) -> tuple[int, ...]:
    """The shape as a model takes it, channels last."""
    form = "(channels, rows, columns) or (rows, columns)" if images else "(columns,)"
    whole = isinstance(shape, Sequence) and not isinstance(shape, str)
    if not whole or len(shape) not in ((2, 3) if images else (1,)):
        raise UserValueError(f"shape must be {form}, got {shown(shape)}", "shape")
    sizes = [how_many(one, "shape") for one in shape]
    if min(sizes) < 1:
        raise UserValueError(f"shape must have whole numbers of at least 1, got {shown(shape)}", "shape")
    if math.prod(sizes) > MOST_NUMBERS:
        raise UserValueError(f"shape must be of at most {MOST_NUMBERS} numbers, got {shown(shape)}", "shape")
    channels, *sides = sizes if len(sizes) != 2 else (1, *sizes)
    return (*sides, channels) if images else (channels,)


def _as_known(known: Any, images: bool) -> tuple[int, ...]:
    return tuple(known["shape"]) if images else (int(known["n_features"]),)


def _answers(known: Any) -> int | None:
    found = known.get("n_classes") or known.get("n_outputs")
    return None if found is None else int(found)


def _arguments(system: Any, shape: tuple[int, ...], answers: int | None) -> dict[str, Any]:
    """What `make` takes, as a fit to examples of this size would give it."""
    from sklearn.base import clone

    from gnomon.data.examples import Examples

    unfitted = clone(system)
    unfitted.check_parameters()
    dtype = getattr(system, "dtype", None) or "float32"
    fields = {"X": np.zeros((0, *shape), dtype)}
    if "classify" in system.tasks:
        unfitted.classes_ = np.arange(answers or CLASSES)
    else:
        fields["y"] = np.zeros((0, answers) if answers else 0)
    arguments: dict[str, Any] = unfitted.arguments(Examples(fields))
    return arguments
