"""Torch's optimizers as recipes: the slot ``optimizer``.

``MLP(optimizer="adamw")`` is ``MLP(optimizer=AdamW())``. The learning rate is the system's, since a schedule moves it.
Weight decay shrinks matrices, kernels and other arrays of two axes or more, not biases and the gains of norms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from gnomon.errors import UserValueError
from gnomon.recipes.recipe import Recipe

__all__ = ["SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "RMSprop", "Optimizer", "apart"]

FACTOR = "factor"
"""Name in a group of parameters of what its rate is multiplied by."""
SETTLED = 1e9
"""So many steps that every bias correction 1 - beta**t is 1 in double precision for beta up to 0.99999996."""


@dataclass(frozen=True)
class Optimizer(Recipe):
    """Base of the recipes of the slot ``optimizer``: how a gradient g becomes a step of the parameters x."""

    def build(self, parameters: Sequence[Any], learning_rate: float) -> Any:
        """Torch's optimizer over the parameters.

        Parameters
        ----------
        parameters : sequence of nn.Parameter
        learning_rate : float
            Of the first step; a schedule sets ``param_groups[i]["lr"]`` later.
        """
        raise NotImplementedError


def _groups(parameters: Sequence[Any], decay: float) -> Any:
    """The parameters, those that decay in a group of their own."""
    if not decay:
        return parameters
    wide, flat = [p for p in parameters if p.ndim > 1], [p for p in parameters if p.ndim <= 1]
    groups = [{"params": wide, "weight_decay": decay}, {"params": flat, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


def apart(optimizer: Any, factors: Mapping[int, float]) -> None:
    """Give parameters of other rates groups of their own, with the factor of the rate under `FACTOR`.

    Parameters
    ----------
    optimizer : what `Optimizer.build` gave
    factors : mapping of int to float
        By the ``id`` of parameters; 1 where left out. Without any the optimizer stays as it is.
    """
    if not factors:
        return
    groups: list[dict[str, Any]] = []
    for group in optimizer.param_groups:
        by_factor: dict[float, list[Any]] = {}
        for parameter in group["params"]:
            by_factor.setdefault(factors.get(id(parameter), 1.0), []).append(parameter)
        rate = group["lr"]
        groups += [{**group, "params": p, "lr": rate * factor, FACTOR: factor} for factor, p in by_factor.items()]
    optimizer.param_groups[:] = groups


@dataclass(frozen=True)
class SGD(Optimizer):
    """Stochastic gradient descent: v <- momentum * v + g, x <- x - rate * v.

    The rate stands outside the velocity, as in torch: texts with v <- momentum * v + rate * g, x <- x - v take the same
    steps while the rate is constant, and after a change of rate others until the old velocity has faded.

    Parameters
    ----------
    momentum : float in [0, 1), default 0
        Fraction of the last velocity that is kept: a constant gradient ends at steps of ``rate * g / (1 - momentum)``.
    nesterov : bool, default False
        Step by ``g + momentum * v`` instead (Sutskever et al. 2013); needs momentum.
    weight_decay : float in [0, inf), default 0
        Adds ``weight_decay * x`` to the gradient of x: without momentum the weights shrink by ``1 - rate *
        weight_decay`` before the step.
    """

    short: ClassVar[str] = "sgd"
    momentum: Annotated[float, "[0, 1)"] = 0.0
    nesterov: bool = False
    weight_decay: Annotated[float, "[0, inf)"] = 0.0

    def build(self, parameters: Sequence[Any], learning_rate: float) -> Any:
        """Torch's optimizer; without momentum and decay the bare update (docs/decisions/0004).

        Raises
        ------
        UserValueError
            Nesterov's step without momentum.
        """
        if self.nesterov and not self.momentum:
            raise UserValueError(
                "nesterov needs a momentum above 0", "optimizer__momentum", "give a momentum, such as 0.9"
            )
        if not self.momentum and not self.weight_decay:
            return PlainDescent(parameters, learning_rate)
        import torch

        groups = _groups(parameters, self.weight_decay)
        return torch.optim.SGD(groups, lr=learning_rate, momentum=self.momentum, nesterov=self.nesterov)


class PlainDescent:
    """x <- x - rate * g, with the face of a torch optimizer and nothing to remember."""

    def __init__(self, parameters: Sequence[Any], rate: float) -> None:
        self.parameters = list(parameters)
        self.param_groups: list[dict[str, Any]] = [{"params": self.parameters, "lr": rate}]
        self.values = {id(parameter): parameter.detach() for parameter in self.parameters}

    def step(self) -> None:
        """One update of every parameter that has a gradient."""
        for group in self.param_groups:
            factor = -group["lr"]
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self.values[id(parameter)].add_(parameter.grad, alpha=factor)

    def state_dict(self) -> dict[str, Any]:
        """Empty."""
        return {"state": {}, "param_groups": []}

    def load_state_dict(self, state: Any) -> None:
        """There is nothing to load."""


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam: steps by the running mean of the gradient over the root of the running mean of its square.

    m <- beta1 m + (1 - beta1) g, s <- beta2 s + (1 - beta2) g^2, both divided by 1 - beta^t at step t so that their
    weights sum to 1; x <- x - rate * m / (sqrt(s) + epsilon). The first step is ``rate * sign(g)``.
    Source: Kingma and Ba (2015), algorithm 1.

    Parameters
    ----------
    beta1, beta2 : float in [0, 1), default 0.9 and 0.999
        Decay of the first and of the second moment.
    epsilon : float in (0, inf), default 1e-8
        Added to the root of the second moment.
    weight_decay : float in [0, inf), default 0
        Adds ``weight_decay * x`` to the gradient, which the root then divides: AdamW decays apart from it.
    bias_correction : bool, default True
        Whether the moments are divided by 1 - beta^t; without it the first steps are up to (1 - beta1) / sqrt(1 -
        beta2) times as long.
    amsgrad : bool, default False
        Divide by the largest second moment so far (Reddi, Kale and Kumar 2018).
    """

    short: ClassVar[str] = "adam"
    beta1: Annotated[float, "[0, 1)"] = 0.9
    beta2: Annotated[float, "[0, 1)"] = 0.999
    epsilon: Annotated[float, "(0, inf)"] = 1e-8
    weight_decay: Annotated[float, "[0, inf)"] = 0.0
    bias_correction: bool = True
    amsgrad: bool = False

    def build(self, parameters: Sequence[Any], learning_rate: float) -> Any:
        """Torch's optimizer."""
        import torch

        betas, parameters = (self.beta1, self.beta2), list(parameters)
        optimizer = torch.optim.Adam(
            _groups(parameters, self.weight_decay), lr=learning_rate, betas=betas, eps=self.epsilon,
            amsgrad=self.amsgrad, fused=fusable(parameters),
        )  # fmt: skip
        if not self.bias_correction:
            _settle(optimizer, parameters, self.amsgrad)
        return optimizer


def fusable(parameters: Sequence[Any]) -> bool:
    """Whether torch can take Adam's step in one kernel: a third of the time, the same step to the last bits."""
    return all(one.device.type in ("cpu", "cuda") and one.is_floating_point() for one in parameters)


def _settle(optimizer: Any, parameters: Sequence[Any], amsgrad: bool) -> None:
    """Let the steps be counted from where the corrections have become 1, with moments of 0 all the same."""
    import torch

    moments = ("exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if amsgrad else []))
    for parameter in parameters:
        optimizer.state[parameter] = {"step": torch.tensor(SETTLED, dtype=torch.float32)} | {
            name: torch.zeros_like(parameter) for name in moments
        }


@dataclass(frozen=True)
class AdamW(Optimizer):
    """Adam with decoupled weight decay: x <- (1 - rate * weight_decay) x, then Adam's step of the bare gradient.

    Source: Loshchilov and Hutter (2019).

    Parameters
    ----------
    beta1, beta2 : float in [0, 1), default 0.9 and 0.999
        Decay of the first and of the second moment.
    epsilon : float in (0, inf), default 1e-8
        Added to the root of the second moment.
    weight_decay : float in [0, inf), default 0.01
        Share, times the rate, by which weights shrink at every step.
    """

    short: ClassVar[str] = "adamw"
    beta1: Annotated[float, "[0, 1)"] = 0.9
    beta2: Annotated[float, "[0, 1)"] = 0.999
    epsilon: Annotated[float, "(0, inf)"] = 1e-8
    weight_decay: Annotated[float, "[0, inf)"] = 0.01

    def build(self, parameters: Sequence[Any], learning_rate: float) -> Any:
        """Torch's optimizer."""
        import torch

        betas, groups = (self.beta1, self.beta2), _groups(parameters, self.weight_decay)
        return torch.optim.AdamW(
            groups, lr=learning_rate, betas=betas, eps=self.epsilon, weight_decay=0.0, fused=fusable(parameters)
        )


@dataclass(frozen=True)
class Adagrad(Optimizer):
    """AdaGrad: s <- s + g^2, x <- x - rate * g / (sqrt(s) + epsilon): a rate of its own for every parameter.

    The rates only fall, and may stall. Source: Duchi, Hazan and Singer (2011).

    Parameters
    ----------
    epsilon : float in (0, inf), default 1e-10
        Keeps the division finite.
    inside : bool, default False
        Divide by sqrt(s + epsilon) instead, as many texts do.
    weight_decay : float in [0, inf), default 0
        Adds ``weight_decay * x`` to the gradient.
    """

    short: ClassVar[str] = "adagrad"
    epsilon: Annotated[float, "(0, inf)"] = 1e-10
    inside: bool = False
    weight_decay: Annotated[float, "[0, inf)"] = 0.0

    def build(self, parameters: Sequence[Any], learning_rate: float) -> Any:
        """Torch's optimizer; an epsilon inside the root is what the sum of squares begins with."""
        import torch

        start, epsilon = (self.epsilon, 0.0) if self.inside else (0.0, self.epsilon)
        return torch.optim.Adagrad(
            _groups(list(parameters), self.weight_decay), lr=learning_rate, eps=epsilon, initial_accumulator_value=start
        )


@dataclass(frozen=True)
class RMSprop(Optimizer):
    """RMSProp: s <- decay s + (1 - decay) g^2, x <- x - rate * g / (sqrt(s) + epsilon): AdaGrad that forgets.

    The first steps are up to 1 / sqrt(1 - decay) times as long as later ones, since s begins at 0.
    Source: Hinton, Srivastava and Swersky (2012).

    Parameters
    ----------
    decay : float in [0, 1), default 0.9
        Fraction of the second moment that is kept.
    epsilon : float in (0, inf), default 1e-8
        Added to the root.
    momentum : float in [0, 1), default 0
        Fraction of the last step that is kept.
    centered : bool, default False
        Divide by the root of the variance, s minus the squared running mean of g.
    weight_decay : float in [0, inf), default 0
        Adds ``weight_decay * x`` to the gradient.
    """

    short: ClassVar[str] = "rmsprop"
    decay: Annotated[float, "[0, 1)"] = 0.9
    epsilon: Annotated[float, "(0, inf)"] = 1e-8
    momentum: Annotated[float, "[0, 1)"] = 0.0
    centered: bool = False
    weight_decay: Annotated[float, "[0, inf)"] = 0.0

    def build(self, parameters: Sequence[Any], learning_rate: float) -> Any:
        """Torch's optimizer."""
        import torch

        return torch.optim.RMSprop(
            _groups(parameters, self.weight_decay), lr=learning_rate, alpha=self.decay, eps=self.epsilon,
            momentum=self.momentum, centered=self.centered,
        )  # fmt: skip


@dataclass(frozen=True)
class Adadelta(Optimizer):
    """AdaDelta: g' = sqrt((D + epsilon) / (s + epsilon)) g, x <- x - rate * g', with running means s of g^2, D of g'^2.

    D is that of the steps before. It has its own measure of length: a rate of 1 is the method as it was published.
    Source: Zeiler (2012).

    Parameters
    ----------
    decay : float in [0, 1), default 0.9
        Fraction of both means that is kept.
    epsilon : float in (0, inf), default 1e-6
        What the very first steps are made of.
    weight_decay : float in [0, inf), default 0
        Adds ``weight_decay * x`` to the gradient.
    """

    short: ClassVar[str] = "adadelta"
    decay: Annotated[float, "[0, 1)"] = 0.9
    epsilon: Annotated[float, "(0, inf)"] = 1e-6
    weight_decay: Annotated[float, "[0, inf)"] = 0.0

    def build(self, parameters: Sequence[Any], learning_rate: float) -> Any:
        """Torch's optimizer."""
        import torch

        groups = _groups(parameters, self.weight_decay)
        return torch.optim.Adadelta(groups, lr=learning_rate, rho=self.decay, eps=self.epsilon)
