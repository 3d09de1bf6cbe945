"""The negative phase of an energy machine: what its layers are taken to be where a chain stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from gnomon.contracts import Distribution, State
from gnomon.recipes.recipe import Recipe

__all__ = ["Conditional", "MeanFieldStep", "Negative"]


class Negative(Recipe):
    """Base: an array or a distribution for each layer, whose expected gradient of the energy is the model's side."""

    def __call__(self, model: Any, kept: State, rest: dict[str, Distribution]) -> dict[str, Any]:
        """From the layers that a chain has drawn, and the conditionals of the others given these."""
        raise NotImplementedError


@dataclass(frozen=True)
class Conditional(Negative):
    """Half of the layers as drawn, the others at their means given these: no bias, and less noise than draws of all.

    The conditional expectation of the gradient (Rao-Blackwell): of a restricted machine the visible layer is drawn and
    the hidden one is at its means.
    """

    short: ClassVar[str] = "conditional"

    def __call__(self, model: Any, kept: State, rest: dict[str, Distribution]) -> dict[str, Any]:
        """See `Negative`."""
        return {**kept, **rest}


@dataclass(frozen=True)
class MeanFieldStep(Negative):
    """All layers as independent units at their means, one round of mean field away from where the chain stands.

    The layers that are summed out are at their means given the draws, and the others then at their means given those
    means. Less noise than draws of half the layers, at the cost of a bias: what two layers have in common beyond their
    means is left out. The chain itself goes on by draws.

    References
    ----------
    Goodfellow, Bengio and Courville (2016), section 20.4.3; Salakhutdinov and Hinton (2012).
    """

    short: ClassVar[str] = "mean_field"

    def __call__(self, model: Any, kept: State, rest: dict[str, Distribution]) -> dict[str, Any]:
        """See `Negative`."""
        found: dict[str, Any] = dict(rest)
        now = {**kept, **{block: one.mean for block, one in rest.items()}}
        for block in kept:
            found[block] = model.conditional(block, now)
            now[block] = found[block].mean
        return found
