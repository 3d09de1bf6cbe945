"""Mean field of binary sparse coding as a recurrent network: rounds of updates with the model's own weights."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch

from gnomon.contracts import Noise
from gnomon.errors import UserValueError
from gnomon.inference.variational.binary_sparse_coding import BinarySparseCoding
from gnomon.inference.variational.unrolled import unrolled
from gnomon.nn.module import Module

__all__ = ["MeanFieldNetworkModel"]


class MeanFieldNetworkModel(Module):
    r"""T rounds of :math:`h \leftarrow (1 - a) h + a \, \sigma(b + x^T \beta W - \tfrac12 \mathrm{diag}(G) - G_0 h)`.

    :math:`G = W^T \beta W` and :math:`G_0` is G with 0 on the diagonal: what drives a unit, and what units of like
    columns take from each other. x is (row - shift) / scale. A round moves by :math:`a = 1 -` damping at most, and by
    no more than :math:`1 / (1 + \|G_0\|_\infty / 4)`, with which no round swings about a fixed point.

    Parameters
    ----------
    n_features, n_components : int
    steps : int, in [1, inf)
        T.
    damping : float, in [0, 1)
        Share of the old state that a round keeps at least.
    tied : bool
        Whether all rounds have the weights of the model; otherwise each has its own, which begin there.
    n_classes : int, optional
        Classes of an output layer on the last state.
    floor : float, in (0, inf)
        Least standard deviation of the noise of a column, in units of x.
    guarded : bool, default True
        Whether the second limit of a is kept.
    dtype : torch.dtype
    """

    components: torch.nn.Parameter
    bias: torch.nn.Parameter
    log_precision: torch.nn.Parameter
    drive: torch.nn.Parameter
    inhibition: torch.nn.Parameter
    offset: torch.nn.Parameter
    readout: torch.nn.Parameter
    readout_bias: torch.nn.Parameter
    shift: torch.Tensor
    scale: torch.Tensor

    def __init__(
        self, n_features: int, n_components: int, steps: int = 10, damping: float = 0.5, *, tied: bool = True,
        n_classes: int | None = None, floor: float = 0.1, guarded: bool = True, dtype: torch.dtype = torch.float32,
    ) -> None:  # fmt: skip
        super().__init__()
        d, m = n_features, n_components
        self.steps, self.damping, self.tied, self.floor, self.guarded = steps, damping, tied, floor, guarded
        shapes: dict[str, tuple[int, ...]] = {"components": (d, m), "bias": (m,), "log_precision": (d,)}
        if not tied:
            shapes |= {"drive": (steps, d, m), "inhibition": (steps, m, m), "offset": (steps, m)}
        if n_classes is not None:
            shapes |= {"readout": (m, n_classes), "readout_bias": (n_classes,)}
        for name, shape in shapes.items():
            self.register_parameter(name, torch.nn.Parameter(torch.zeros(shape, dtype=dtype)))
        for name, value in (("shift", torch.zeros(d, dtype=dtype)), ("scale", torch.ones(d, dtype=dtype))):
            self.register_buffer(name, value)

    @classmethod
    def of(cls, coding: BinarySparseCoding, steps: int = 10, damping: float = 0.5, **options: Any) -> Any:
        """The network of a model whose parameters are given, in float64: untrained, its rounds are updates of that."""
        d, m = coding.W.shape
        network = cls(d, m, steps, damping, floor=1e-6, dtype=torch.float64, **options)
        with torch.no_grad():
            for name, value in (("components", coding.W), ("bias", coding.b)):
                network.get_parameter(name).copy_(torch.from_numpy(value))
            network.get_parameter("log_precision").copy_(torch.from_numpy(coding.beta).log())
        network.untie()
        return network

    def coding(self) -> BinarySparseCoding:
        """The model of which the rounds were updates at first, of scaled rows."""
        W, b, beta = (x.detach().double().cpu().numpy() for x in (self.components, self.bias, self.precision()))
        return BinarySparseCoding(W, b, beta)

    @torch.no_grad()
    def untie(self) -> None:
        """Begin the weights of each round, where they are its own, at those of the model."""
        if not self.tied:
            for own, shared in zip((self.drive, self.inhibition, self.offset), self._weights(), strict=True):
                own.copy_(shared.expand_as(own))

    # --- the rounds ---------------------------------------------------------------------------------------------------

    def precision(self) -> torch.Tensor:
        """beta, at most 1 / floor^2."""
        return self.log_precision.clamp(max=-2 * math.log(self.floor)).exp()

    def scaled(self, x: torch.Tensor) -> torch.Tensor:
        """Rows in the units of the model."""
        return (x - self.shift) / self.scale

    def _weights(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """beta W, G without its diagonal, and b less half of that."""
        drive = self.precision()[:, None] * self.components
        gram = self.components.T @ drive
        return drive, gram - gram.diag().diag(), self.bias - 0.5 * gram.diag()

    def _rounds(self, steps: int) -> Iterator[Any]:
        """The weights of each round."""
        if self.tied:
            return itertools.repeat(self._weights())
        if steps > self.steps:
            what = f"steps must be at most {self.steps}, each round having weights of its own, got {steps}"
            raise UserValueError(what, "steps", "use fewer, or tied weights")
        return zip(self.drive, self.inhibition, self.offset, strict=True)

    def rate(self, inhibition: torch.Tensor) -> torch.Tensor:
        """How much of the way to its update a round goes."""
        most = inhibition.new_tensor(1 - self.damping)
        if not self.guarded:
            return most
        return torch.minimum(most, 1 / (1 + 0.25 * inhibition.abs().sum(0).max()))

    def forward(
        self, x: torch.Tensor, steps: int | None = None, shown: torch.Tensor | None = None, start: float = 0.5
    ) -> torch.Tensor:
        """The state after so many rounds, (n, m); with 0 for the cells of `shown` that rounds do not see.

        The gradient goes back through all of them.
        """
        steps = self.steps if steps is None else steps
        rows, weights = self.scaled(x), self._rounds(steps)

        def update(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            drive, inhibition, offset = next(weights)
            h, a = state["h"], self.rate(inhibition)
            field = self._field(rows, h, drive, inhibition, offset, shown)
            return {"h": (1 - a) * h + a * field.sigmoid()}

        begun = {"h": rows.new_full((len(rows), len(self.bias)), start)}
        return unrolled(update, begun, steps)["h"]

    def _field(self, rows: Any, h: Any, drive: Any, inhibition: Any, offset: Any, shown: Any) -> torch.Tensor:
        """Log-odds of each unit; of the model itself where cells are missing: its sums go over the others alone."""
        if shown is None or not self.tied:
            seen = rows if shown is None else rows * shown
            return seen @ drive + offset - h @ inhibition
        W, weight = self.components, shown * self.precision()
        own = weight @ (W * W)
        left = (rows - h @ W.T) * weight
        return self.bias + left @ W + (h - 0.5) * own

    # --- what the last state is worth ---------------------------------------------------------------------------------

    def decode(self, h: torch.Tensor) -> torch.Tensor:
        """E[row | h], (n, d)."""
        return h @ self.components.T * self.scale + self.shift

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        """`forward` of rows."""
        state: torch.Tensor = self(x)
        return state

    def reconstruct(self, x: torch.Tensor) -> torch.Tensor:
        """E[row | h] at the last state."""
        return self.decode(self.encode(x))

    def log_inputs(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        """log p of each cell at the means h, in nats and units of the rows, (n, d)."""
        left, beta = self.scaled(x) - h @ self.components.T, self.precision()
        found: torch.Tensor = 0.5 * ((beta / (2 * math.pi)).log() - beta * left * left) - self.scale.log()
        return found

    def elbo(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        """E_q[log p(x, h)] + H(q) of each row in nats, for independent units of the means h, (n,)."""
        small = torch.finfo(h.dtype).eps
        q = h.clamp(small, 1 - small)
        prior = q @ torch.nn.functional.logsigmoid(self.bias) + (1 - q) @ torch.nn.functional.logsigmoid(-self.bias)
        entropy = (torch.special.entr(q) + torch.special.entr(1 - q)).sum(1)
        energy = self.precision() @ (self.components * self.components)
        spread: torch.Tensor = (q * (1 - q)) @ energy
        return self.log_inputs(x, q).sum(1) + prior + entropy - 0.5 * spread

    def bound(self, x: torch.Tensor) -> torch.Tensor:
        """`elbo` at the last state."""
        return self.elbo(x, self.encode(x))

    def residual(self, x: torch.Tensor) -> torch.Tensor:
        """How far each row's last state is from its update by the model, the largest over units, (n,)."""
        h, (drive, inhibition, offset) = self.encode(x), self._weights()
        after = self._field(self.scaled(x), h, drive, inhibition, offset, None).sigmoid()
        return (after - h).abs().amax(1)

    def class_log_proba(self, h: torch.Tensor) -> torch.Tensor:
        """log p(y) of an output layer on the state, (n, classes)."""
        found: torch.Tensor = (h @ self.readout + self.readout_bias).log_softmax(1)
        return found

    def scores(self, x: torch.Tensor) -> torch.Tensor:
        """log p(y | row), (n, classes)."""
        return self.class_log_proba(self.encode(x))

    def sample(self, n: int, noise: Noise) -> Any:
        """n rows of the model, scaled back to the units of the data."""
        p = self.bias.detach().sigmoid().expand(n, -1)
        h = noise.child("components").bernoulli(p)
        rest = noise.child("noise").normal((n, len(self.shift)), like=self.shift) / self.precision().detach().sqrt()
        return (self.decode(h).detach() + rest * self.scale).cpu().numpy()
