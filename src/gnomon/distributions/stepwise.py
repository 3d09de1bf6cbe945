"""Latent variables that come in steps: q(z | x) is the product over steps of q(z_t | z_1 ... z_{t-1}, x).

Given a draw, q of every step has a closed form (`Codes`), and so have its entropy and its divergence from a prior; the
means of these over draws are those of the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from torch import nn

from gnomon.contracts import Noise
from gnomon.distributions.latents import Codes

__all__ = ["GoesInSteps", "Path", "StepwiseCodes"]


class GoesInSteps(Protocol):
    """A model whose latent variables are inferred step by step; its states hold whatever it carries along."""

    n_steps: int

    def begin(self, x: torch.Tensor) -> Any:
        """The state before the first step."""

    def look(self, state: Any, step: int) -> tuple[Codes, Any]:
        """q(z_t | z_1 ... z_{t-1}, x) of a step, and the state with what was seen."""

    def take(self, state: Any, z: torch.Tensor, step: int) -> Any:
        """The state after a step that has drawn z_t."""

    def log_likelihood_along(self, x: torch.Tensor, path: Path) -> torch.Tensor:
        """Log p(x | z) in nats of rows and the paths of their draws, shape (len(x),)."""


class Path(NamedTuple):
    """What a draw of z has led along.

    Attributes
    ----------
    codes : Codes
        q of every step given the draw's earlier ones, side by side: independent variables that belong to this draw.
    states : list
        Of the model after each step.
    """

    codes: Codes
    states: list[Any]


Chooses = Callable[[Any, int], torch.Tensor]


class StepwiseCodes:
    """q(z | x) of n rows, step by step; z has the columns of all steps side by side.

    Parameters
    ----------
    model : GoesInSteps
    x : tensor of shape (n, ...)
    reparametrized : bool
        Whether a gradient passes the draws of a step.
    """

    def __init__(self, model: Any, x: torch.Tensor, reparametrized: bool) -> None:
        self.model, self.x, self.reparametrized = model, x, reparametrized
        self._last: tuple[torch.Tensor, Path] | None = None

    def _walk(self, x: torch.Tensor, choose: Chooses) -> tuple[torch.Tensor, Path]:
        """All steps, with what is chosen from q of each."""
        state, drawn, codes, states = self.model.begin(x), [], [], []
        for step in range(self.model.n_steps):
            one, state = self.model.look(state, step)
            drawn.append(choose(one, step))
            state = self.model.take(state, drawn[-1], step)
            codes.append(one)
            states.append(state)
        columns = zip(*(one.parameters for one in codes), strict=True)
        return torch.cat(drawn, 1), Path(codes[0].like(*(torch.cat(column, 1) for column in columns)), states)

    def draw(self, choose: Callable[[Any, Noise], torch.Tensor], noise: Noise, draws: int = 1) -> torch.Tensor:
        """Draws of all steps, shape (n * draws, d), those of a row beside each other.

        Parameters
        ----------
        choose : callable
            Draws from q of a step, given as one row with the variables of all its draws for each of the n rows.
        noise : Noise
        draws : int
        """
        n = len(self.x)

        def chosen(codes: Any, step: int) -> torch.Tensor:
            rows = codes.like(*(one.reshape(n, draws * one.shape[1]) for one in codes.parameters))
            z = choose(rows, noise.child(f"step_{step}"))
            return z.reshape(n * draws, z.shape[1] // draws)

        self._last = self._walk(self.x if draws == 1 else self.x.repeat_interleave(draws, 0), chosen)
        return self._last[0]

    def sample(self, noise: Noise, draw: int = 0, *, draws: int = 1) -> torch.Tensor:
        """Draws without gradient, shape (n * draws, d); `draw` is the number of this call within the step."""
        learning = torch.is_grad_enabled()
        with torch.no_grad():
            z = self.draw(lambda codes, at: codes.sample(at, draw), noise, draws)
        if learning:
            self._last = None  # its path has no gradients
        return z

    def follow(self, z: torch.Tensor) -> Path:
        """The path of given draws, shape (n * draws, d); that of the draws just made is remembered."""
        if self._last is not None and self._last[0] is z:
            return self._last[1]
        steps = z.chunk(self.model.n_steps, 1)
        return self._walk(self.x.repeat_interleave(self._draws_of(z), 0), lambda codes, step: steps[step])[1]

    def _draws_of(self, z: torch.Tensor) -> int:
        """Draws of each row; 1 where a process has no row of the batch."""
        return len(z) // len(self.x) if len(self.x) else 1

    def given(self, z: torch.Tensor) -> Codes:
        """q of every step given the earlier ones of each draw: independent variables of n * draws rows."""
        return self.follow(z).codes

    def log_likelihood(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Log p(x | z) in nats of draws and their rows, each repeated, shape (len(z),)."""
        found: torch.Tensor = self.model.log_likelihood_along(x, self.follow(z))
        return found

    def detached(self) -> Detached:
        """The same distribution, whose parameters take no gradient; z does."""
        return Detached(self)

    def log_prob(self, z: torch.Tensor) -> torch.Tensor:
        """Log q(z | x) in nats of one or more draws of each row, shape (len(z),)."""
        return self.given(z).log_prob(z)

    def scores(self, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Parameters of all steps along each draw, and derivatives of log q(z | x) by them, (n, draws, p)."""
        both = self.given(z).scores(z)
        parameters, found = (one.reshape(len(self.x), self._draws_of(z), one.shape[-1]) for one in both)
        return parameters, found

    def states(self) -> torch.Tensor | None:
        """Every z that there is of discrete variables, shape (states, d), or None where they are too many."""
        codes: Any = self.mean_path().codes
        return codes.states() if hasattr(codes, "states") else None

    def mean_path(self) -> Path:
        """The path on which every step takes the mean of q given the means before it."""
        return self._walk(self.x, lambda codes, step: codes.mean)[1]

    @property
    def mean(self) -> torch.Tensor:
        """Means of all steps, shape (n, d), each given the means before it: an approximation but for the first step."""
        return self.mean_path().codes.mean


class Detached(nn.Module):
    """Log densities of `StepwiseCodes` that pass a gradient to z alone.

    Parameters
    ----------
    codes : StepwiseCodes
    """

    def __init__(self, codes: StepwiseCodes) -> None:
        super().__init__()
        self.model, self.codes = codes.model, codes

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        """As of `StepwiseCodes.log_prob`."""
        return StepwiseCodes(self.model, self.codes.x, self.codes.reparametrized).log_prob(z)

    def log_prob(self, z: torch.Tensor) -> torch.Tensor:
        """Log q(z | x) in nats."""
        held = {name: value.detach() for name, value in self.named_parameters()}
        found: torch.Tensor = torch.func.functional_call(self, held, (z,))
        return found
