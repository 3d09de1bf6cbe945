"""What may be a proposal: families, fitted systems and objects, all drawn and scored as rows."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from gnomon.contracts import Array, Noise
from gnomon.errors import UserTypeError, UserValueError

__all__ = ["Proposal", "as_proposal"]


class Proposal:
    """A family of `gnomon.distributions` as rows that are drawn and scored: ``sample(n, noise)``, ``log_prob(x)``.

    Parameters
    ----------
    family : Family
        Of one number or one vector, or a batch of independent ones: the columns of a row.
    """

    def __init__(self, family: Any) -> None:
        event = getattr(family, "event_shape", None)
        event = np.shape(family.mean) if event is None else event  # distributions of one vector have no batches
        shape = (*getattr(family, "batch_shape", ()), *event)
        if len(shape) > 1:
            raise UserValueError(
                f"proposal must be one vector or a batch of numbers, got a family of shape {shape}", "proposal"
            )
        self.family, self.size = family, 1 if not shape else int(np.prod(shape))
        self._column, self._whole = not shape, bool(event)

    def sample(self, n: int, noise: Noise) -> Array:
        """n rows, (n, size)."""
        return self.family.sample(noise, 0, (n,)).reshape((n, self.size))

    def log_prob(self, x: Array) -> Array:
        """Normalized log density of each row in nats, (n,)."""
        if self._column:
            return self.family.log_prob(x[:, 0])
        value = self.family.log_prob(x)
        return value if self._whole else value.sum(-1)


def as_proposal(proposal: Any) -> Any:
    """The proposal as an object with ``sample(n, noise)`` and a normalized ``log_prob(x)``.

    Parameters
    ----------
    proposal : Family, fitted System, or object with both

    Raises
    ------
    UserTypeError
        For anything else; a distribution of torch, whose draws no noise decides.
    """
    inner = getattr(proposal, "model_", proposal)
    if callable(getattr(inner, "sample", None)) and callable(getattr(inner, "log_prob", None)):
        first = next(iter(inspect.signature(inner.sample).parameters), "")
        if first != "sample_shape":
            return Proposal(inner) if first == "noise" else inner
        raise UserTypeError(
            f"proposal must take its noise, got a {type(inner).__name__} of torch", "proposal",
            "use one of gnomon.distributions, such as gnomon.distributions.real.Normal",
        )  # fmt: skip
    raise UserTypeError(
        f"proposal must have sample(n, noise) and log_prob(x), got a {type(inner).__name__}", "proposal"
    )
