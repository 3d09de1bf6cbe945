"""Conditionals that are linear in features of the columns before: least squares and logistic regression, solved."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from gnomon.contracts import Array
from gnomon.data.class_vectors import one_hot
from gnomon.errors import UserValueError
from gnomon.inference.exact.cells import NormalCells
from gnomon.nn.likelihoods import Head
from gnomon.systems.autoregressive._base import ChainModel
from gnomon.systems.autoregressive.features import Basis
from gnomon.training.em import same_shapes
from gnomon.training.procedure import Info, Problem

__all__ = ["LinearModel", "Newton"]

ARMIJO, HALVINGS = 1e-4, 30
"""Share of the slope that a step must gain, and how often it is halved at most."""
INNER = 100
"""Steps of conjugate gradients in an iteration at most."""


class LinearModel(ChainModel):
    r"""The numbers of column j are :math:`\sum_k W_{k,j} \phi_k(x_{<j})`, of features of the columns before it.

    Parameters
    ----------
    n_features : int
    head : Head
    scales : bool
    basis : Basis
    normal : bool
        Whether the density is a normal one.
    dtype : torch.dtype
        Of rows and answers; the weights are float64.
    """

    weight: torch.Tensor

    def __init__(
        self, n_features: int, head: Head, scales: bool, basis: Basis, normal: bool, l2: float, dtype: torch.dtype
    ) -> None:
        super().__init__(n_features, head, scales, dtype)
        self.basis, self.normal, self.l2 = basis, normal and head.values is None, l2
        self.register_buffer("weight", torch.zeros(basis.count, head.width, n_features, dtype=torch.float64))

    @property
    def n_parameters(self) -> int:
        """Weights of what each column sees, and the variances."""
        return int(self.basis.mask().sum()) * self.head.width + sum(p.numel() for p in self.head.parameters())

    def numbers(self, z: torch.Tensor) -> torch.Tensor:
        return self.basis.sums(self.head.inputs(z), self.weight).to(z.dtype).flatten(1)

    def numbers_at(self, state: torch.Tensor, t: int) -> torch.Tensor:
        return self.basis.sums_at(self.head.inputs(state), self.weight, t).to(state.dtype)

    def design(self, x: Any) -> Any:
        """The features of rows."""
        rows = torch.from_numpy(np.array(x))
        return self.basis.design(self.head.inputs(self.inside(rows)))

    # --- real columns: closed form ------------------------------------------------------------------------------------

    def moments(self, x: Array, weight: Array) -> dict[str, Array]:
        """Products of the features with each other and with the columns, summed over the rows."""
        z, w = self.inside(torch.from_numpy(np.array(x))).double(), torch.from_numpy(np.array(weight, np.float64))
        design = self.basis.design(z)
        cross = design.adjoint((z * w[:, None])[:, None])
        sums = {"gram": design.gram(w), "cross": cross, "squares": (z * z * w[:, None]).sum(0), "weight": w.sum()}
        return {name: value.numpy() for name, value in sums.items()}

    def solve(self, moments: dict[str, Array]) -> dict[str, float]:
        """Weights of least squares, and the mean squares that they leave, for the head's variances."""
        gram, cross, squares = (torch.from_numpy(moments[name]) for name in ("gram", "cross", "squares"))
        total = float(moments["weight"])
        weight = NestedEquations(gram, self.basis.mask(), self.l2 * total).solve(cross)
        own = gram if gram.ndim == 3 else gram[None]
        bent = (own @ weight.permute(2, 0, 1)).permute(1, 2, 0)
        left = squares - 2 * (weight * cross).sum((0, 1)) + (weight * bent).sum((0, 1))
        self.weight.copy_(weight)
        variance = self._measure(left.clamp_min(0.0) / total)
        each = -0.5 * (left.clamp_min(0.0) / total / variance + variance.log() + np.log(2 * np.pi))
        return {"log_likelihood": float((each - self.scale.double().log()).sum())}

    def _measure(self, squares: torch.Tensor) -> torch.Tensor:
        """Give the head the variances, one for each column or one for all; what they are then."""
        head: Any = self.head
        if head.fixed is not None:
            return torch.full_like(squares, head.fixed**2)
        found = squares if len(head.log_variance) == len(squares) else squares.mean()[None]
        above = (found - head.floor**2).clamp_min(1e-20 * head.floor**2)
        with torch.no_grad():
            head.log_variance.copy_(above.log())
        return (above + head.floor**2).expand_as(squares)

    def normal_cells(self) -> NormalCells | None:
        if not self.normal:
            return None
        state = {name: np.asarray(value, np.float64) for name, value in self.state().items()}
        d, scale = self.n_features, state["scale"]
        pull = np.eye(d)
        rows: Any = self.basis.design(torch.cat([torch.zeros(1, d), torch.eye(d)]).double()).apply(self.weight)
        intercept = rows[0, 0].numpy()
        pull -= (rows[1:, 0] - rows[0, 0]).numpy().T
        head: Any = self.head
        variance = head.distribution(torch.zeros(1, d)).variance[0].detach().double().numpy()
        root = np.linalg.solve(pull, np.diag(np.sqrt(variance))) * scale[:, None]
        mean = np.linalg.solve(pull, intercept) * scale + state["shift"]
        return NormalCells([0.0], [mean], [root @ root.T])

    # --- columns with finitely many values: a convex loss -------------------------------------------------------------

    def codes(self, x: Any) -> torch.Tensor:
        """Indicators of what was seen, (n, width, d): of bits the bit itself."""
        rows = torch.from_numpy(np.array(x))
        if self.head.width == 1:
            return rows.double()[:, None]
        return one_hot(rows.long(), self.head.width, dtype=torch.float64, name="X").transpose(1, 2)

    def losses(self, raw: torch.Tensor, codes: torch.Tensor, weight: torch.Tensor) -> tuple[Any, Any]:
        """Sums over rows of -log p by column, (d,), and the probabilities (n, width, d); `raw` are (n, width, d)."""
        offset: Any = self.head.offset
        logits = raw + (offset.double() if offset.ndim == 2 else offset.double()[None])
        if self.head.width == 1:
            each = torch.nn.functional.softplus(logits) - logits * codes
            return (each * weight[:, None, None]).sum((0, 1)), torch.sigmoid(logits)
        log_p = logits.log_softmax(1)
        return -(log_p * codes * weight[:, None, None]).sum((0, 1)), log_p.exp()

    def bend(self, p: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        """Second derivative of -log p by the head's numbers, times u, (n, width, d)."""
        if self.head.width == 1:
            return p * (1 - p) * u
        return p * (u - (p * u).sum(1, keepdim=True))


class NestedEquations:
    """Normal equations of all columns at once: a column's are the leading block of those of all features.

    With features in an order in which each column sees the first of them, one Cholesky factor serves every column: the
    forward substitution is shared, and what is behind a column's last feature is put to 0 before the way back.

    Parameters
    ----------
    gram : tensor of shape (p, p), or (d, p, p) of features of their own
    mask : tensor of shape (p, d)
    ridge : float in [0, inf)
        Added to the diagonal.

    Raises
    ------
    UserValueError
        Features that depend on each other, and no ridge.
    """

    def __init__(self, gram: torch.Tensor, mask: torch.Tensor, ridge: float) -> None:
        self.mask, p = mask, gram.shape[-1]
        own = gram + ridge * torch.eye(p, dtype=gram.dtype)
        if gram.ndim == 3:
            own = own + torch.diag_embed(1 - mask.T)
        self.lower, info = torch.linalg.cholesky_ex(own)
        small = torch.diagonal(self.lower, dim1=-2, dim2=-1).square() <= 1e-13 * torch.diagonal(own, dim1=-2, dim2=-1)
        if info.any() or (small.any() and not ridge):
            what = "columns must not depend on each other where l2 is 0"
            raise UserValueError(what, "conditionals__l2", "set it above 0, or drop columns that others determine")

    def solve(self, right: torch.Tensor) -> torch.Tensor:
        """The solutions of right sides (p, width, d), each within what its column sees."""
        p, width, d = right.shape
        if self.lower.ndim == 3:
            found = torch.cholesky_solve(right.permute(2, 0, 1), self.lower).permute(1, 2, 0)
            return found * self.mask[:, None]
        half = torch.linalg.solve_triangular(self.lower, right.reshape(p, -1), upper=False)
        half = (half.reshape(p, width, d) * self.mask[:, None]).reshape(p, -1)
        return torch.linalg.solve_triangular(self.lower.T, half, upper=True).reshape(p, width, d)


@dataclass
class _State:
    problem: Problem
    parts: list[tuple[Any, torch.Tensor, torch.Tensor]]
    """Features, indicators of what was seen, and weights of the rows of each batch."""
    normals: NestedEquations
    total: float
    iteration: int = 0
    settled: bool = False


class Newton:
    """Newton's method on the convex losses of all columns at once, by conjugate gradients, each column by itself.

    A step of the fit is an iteration: the Newton equations are solved by conjugate gradients with the Gram matrix of
    the features as preconditioner (which bounds the Hessian, Boehning 1992), in products with the features alone; then
    each column halves its step until its own loss has fallen.

    Parameters
    ----------
    max_iter : int
    tol : float
        End when no component of the gradient of the mean loss is larger.
    """

    iterates: ClassVar[bool] = True

    def __init__(self, max_iter: int, tol: float) -> None:
        self.max_iter, self.tol = max_iter, tol

    def start(self, problem: Problem) -> _State:
        """Features of all rows."""
        model, parts = problem.model, []
        for batch in problem.batches.epoch(0):
            x = batch.data["X"]
            parts.append((model.design(x), model.codes(x), torch.from_numpy(np.array(batch.weight, np.float64))))
        gram = _summed(problem, sum(design.gram(w) for design, _, w in parts))
        total = float(_summed(problem, sum(w.sum() for _, _, w in parts)))
        bound = (0.25 if model.head.width == 1 else 0.5) * gram
        ridge = (model.l2 + 1e-9) * total
        return _State(problem, parts, NestedEquations(bound, model.basis.mask(), ridge), total)

    def goes_on(self, state: _State) -> bool:
        """Whether a fit that had ended has iterations left since their number was enlarged."""
        return not state.settled and state.iteration < self.max_iter

    def total_steps(self, state: _State) -> int:
        """Iterations at most."""
        return self.max_iter

    def step(self, state: _State) -> tuple[_State, Info]:
        """One iteration."""
        model, l2 = state.problem.model, state.problem.model.l2 * state.total
        w = model.weight
        raw = [design.apply(w) for design, _, _ in state.parts]
        loss, slope, p = self._slope(state, raw)
        loss, slope = loss + 0.5 * l2 * (w * w).sum((0, 1)), slope + l2 * w
        largest = float(slope.abs().max()) / state.total
        if largest > self.tol:
            way = self._direction(state, slope, p, l2)
            moved = self._halved(state, raw, way, loss, (slope * way).sum((0, 1)), l2)
            w += moved * way
            state.settled = not bool(moved.any())
        else:
            state.settled = True
        state.iteration += 1
        done = state.settled or state.iteration >= self.max_iter
        if done and not l2:
            _tell_of_separation(state, p)
        record = {"iteration": state.iteration, "objective": -float(loss.sum()) / state.total, "gradient": largest}
        return state, Info(done=done, record=record, monitored=largest)

    def _slope(self, state: _State, raw: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]:
        """Loss by column, gradient, and the probabilities of each batch."""
        losses: Any = 0.0
        slope: Any = 0.0
        shares = []
        for (design, codes, weight), numbers in zip(state.parts, raw, strict=True):
            each, p = state.problem.model.losses(numbers, codes, weight)
            losses, slope = losses + each, slope + design.adjoint((p - codes) * weight[:, None, None])
            shares.append(p)
        return _summed(state.problem, losses), _summed(state.problem, slope), shares

    def _direction(self, state: _State, slope: torch.Tensor, p: list[torch.Tensor], l2: float) -> torch.Tensor:
        """Conjugate gradients of all columns, each stopping where its residual is small against its gradient."""
        model = state.problem.model
        way, rest = torch.zeros_like(slope), -slope
        first = rest.square().sum((0, 1))
        goal = (first.sqrt() / state.total).sqrt().clamp_max(0.1).square() * first
        front = state.normals.solve(rest)
        ahead, strength = front, (rest * front).sum((0, 1))
        for _ in range(INNER):
            open_ = rest.square().sum((0, 1)) > goal
            if not open_.any():
                break
            bent = sum(
                design.adjoint(model.bend(one, design.apply(ahead)) * weight[:, None, None])
                for (design, _, weight), one in zip(state.parts, p, strict=True)
            )
            curved = _summed(state.problem, bent) + l2 * ahead
            along = (ahead * curved).sum((0, 1))
            going = open_ & (along > 0)
            length = torch.where(going, strength / along.clamp_min(1e-300), 0.0)
            way, rest = way + length * ahead, rest - length * curved
            front = state.normals.solve(rest)
            now = (rest * front).sum((0, 1))
            ahead = front + torch.where(going & (strength > 0), now / strength.clamp_min(1e-300), 0.0) * ahead
            strength = now
            if not going.any():
                break
        return way

    def _halved(
        self,
        state: _State,
        raw: list[torch.Tensor],
        way: torch.Tensor,
        loss: torch.Tensor,
        gain: torch.Tensor,
        l2: float,
    ) -> torch.Tensor:
        """The length of each column's step, 0 where none lowers its loss."""
        model, w = state.problem.model, state.problem.model.weight
        moves = [design.apply(way) for design, _, _ in state.parts]
        length, left = torch.ones_like(loss), gain < 0
        length[~left] = 0.0
        slack = 1e-14 * loss.abs()
        for _ in range(HALVINGS):
            new: Any = sum(
                model.losses(numbers + length * move, codes, weight)[0]
                for (_, codes, weight), numbers, move in zip(state.parts, raw, moves, strict=True)
            )
            moved = w + length * way
            new = _summed(state.problem, new) + 0.5 * l2 * (moved * moved).sum((0, 1))
            left = left & ~(new <= loss + ARMIJO * length * gain + slack)
            if not left.any():
                return length
            length = torch.where(left, 0.5 * length, length)
        return torch.where(left, 0.0, length)

    def save(self, state: _State) -> tuple[dict[str, Array], dict[str, Any]]:
        """The model."""
        return state.problem.model.state(), {"iteration": state.iteration, "settled": state.settled}

    def load(self, problem: Problem, arrays: Mapping[str, Array], facts: Mapping[str, Any]) -> _State:
        """Exactly the state that was saved."""
        same_shapes(problem.model, arrays)
        problem.model.load(arrays)
        state = self.start(problem)
        state.iteration, state.settled = facts["iteration"], facts["settled"]
        return state


def _tell_of_separation(state: _State, p: list[torch.Tensor]) -> None:
    """Weights that get every row of a column right can be doubled for ever: then none are the best."""
    wrong: Any = 0.0
    for (_, codes, weight), one in zip(state.parts, p, strict=True):
        seen = (codes * one).sum(1) if one.shape[1] > 1 else (codes * one + (1 - codes) * (1 - one))[:, 0]
        wrong = wrong + ((seen <= 0.5) * weight[:, None]).sum(0)
    always = torch.nonzero(_summed(state.problem, wrong) == 0)[:, 0].tolist()
    if always and not state.problem.group.rank:
        warnings.warn(
            f"{len(always)} columns (column {always[0]}) are determined by those before them: without a penalty no "
            "weights are the best, they only stopped growing; set conditionals__l2 above 0",
            UserWarning, stacklevel=2,
        )  # fmt: skip


def _summed(problem: Problem, part: Any) -> torch.Tensor:
    """Summed over the processes."""
    found: torch.Tensor = problem.group.sum(part)
    return found
