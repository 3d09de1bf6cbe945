"""Torch's optimizers as recipes: the slot ``optimizer``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from gnomon.recipes import Recipe

__all__ = ["SGD", "Adam"]


@dataclass(frozen=True)
class SGD(Recipe):
    """Stochastic gradient descent: theta <- theta - rate * v, v <- momentum * v + gradient.

    Parameters
    ----------
    momentum : float in [0, 1), default 0
        Share of the last step that is kept.
    """

    slot: ClassVar[str] = "optimizer"
    short: ClassVar[str] = "sgd"
    momentum: Annotated[float, "[0, 1)"] = 0.0

    def build(self, parameters: Sequence[Any], learning_rate: float) -> Any:
        """Torch's optimizer over the parameters; without momentum the bare update (docs/decisions/0004)."""
        import torch

        if not self.momentum:
            return _Descent(parameters, learning_rate)
        return torch.optim.SGD(parameters, lr=learning_rate, momentum=self.momentum)


class _Descent:
    """theta <- theta - rate * gradient, with the face of a torch optimizer and nothing to remember."""

    def __init__(self, parameters: Sequence[Any], rate: float) -> None:
        self.parameters, self.rate = list(parameters), rate
        self.values = [parameter.detach() for parameter in self.parameters]

    def step(self) -> None:
        """One update of every parameter that has a gradient."""
        for parameter, value in zip(self.parameters, self.values, strict=True):
            if parameter.grad is not None:
                value.add_(parameter.grad, alpha=-self.rate)

    def state_dict(self) -> dict[str, Any]:
        """Empty."""
        return {"state": {}, "param_groups": []}

    def load_state_dict(self, state: Any) -> None:
        """There is nothing to load."""


@dataclass(frozen=True)
class Adam(Recipe):
    """Adam (Kingma and Ba 2015, algorithm 1): steps scaled by running moments of the gradient.

    Parameters
    ----------
    beta1, beta2 : float in [0, 1), default 0.9 and 0.999
        Decay of the first and of the second moment.
    epsilon : float in (0, inf), default 1e-8
        Added to the root of the second moment.
    """

    slot: ClassVar[str] = "optimizer"
    short: ClassVar[str] = "adam"
    beta1: Annotated[float, "[0, 1)"] = 0.9
    beta2: Annotated[float, "[0, 1)"] = 0.999
    epsilon: Annotated[float, "(0, inf)"] = 1e-8

    def build(self, parameters: Sequence[Any], learning_rate: float) -> Any:
        """Torch's optimizer over the parameters."""
        import torch

        return torch.optim.Adam(parameters, lr=learning_rate, betas=(self.beta1, self.beta2), eps=self.epsilon)
