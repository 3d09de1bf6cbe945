"""Forms of expectation maximization as recipes: the slot ``em`` of mixtures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np

from gnomon.contracts import Array
from gnomon.recipes.recipe import Recipe
from gnomon.training.em import EM, Iterations, per_row
from gnomon.training.procedure import Info, Problem

__all__ = ["EMForm", "Full", "Generalized", "Hard", "HardEM", "Incremental", "Online"]

KEPT = "kept."
"""What the names of the sums that are kept of every batch begin with."""


@dataclass(frozen=True)
class EMForm(Recipe):
    """Base of the recipes of the slot ``em``: how expectations and parameters take turns."""

    shuffles: ClassVar[bool] = False
    """Whether every pass has batches of its own."""

    @property
    def rows(self) -> int | None:
        """Rows of a batch; None where batches are a matter of memory alone."""
        return None

    def build(self, max_iter: int, tol: float) -> EM:
        """The procedure.

        Parameters
        ----------
        max_iter : int
            Passes over the rows at most.
        tol : float
            End when a pass gained no more than this, in nats per row.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Full(EMForm):
    """Posteriors of all rows, then the parameters that fit them best (Dempster, Laird and Rubin 1977)."""

    short: ClassVar[str] = "full"

    def build(self, max_iter: int, tol: float) -> EM:
        """Alternate until the likelihood stands."""
        return EM(max_iter, tol)


@dataclass(frozen=True)
class Generalized(EMForm):
    r"""Parameters that go part of the way: steps up the slope of the expected log joint, posteriors held.

    A step is one of the natural gradient, :math:`\mu \leftarrow \mu + a (\bar s - \mu)` in the mean parameters, where
    :math:`\bar s` are the expected statistics per row: :math:`\bar s - \mu` is the gradient of the log-likelihood by
    the natural parameters (Fisher's identity). Each raises the expected log joint, so the likelihood never falls; with
    a = 1, or many steps, it is the full form. Source: Neal and Hinton (1998); Sato (1999).

    Parameters
    ----------
    steps : int in [1, inf), default 1
        Steps for each expectation.
    step_size : float in (0, 1], default 0.5
        a.
    """

    short: ClassVar[str] = "generalized"
    steps: Annotated[int, "[1, inf)"] = 1
    step_size: Annotated[float, "(0, 1]"] = 0.5

    def build(self, max_iter: int, tol: float) -> EM:
        """Alternate until the likelihood stands."""
        return _Partial(max_iter, tol, 1.0 - (1.0 - self.step_size) ** self.steps)


@dataclass(frozen=True)
class Hard(EMForm):
    """Each row at its most probable component, which raises log p(x, h) in place of log p(x): a Dirac posterior.

    It converges in few passes and is biased: components keep apart more than those that the rows were drawn from. Of
    components that share one spherical variance and all weights it is k-means. Source: Celeux and Govaert (1992),
    "classification EM".
    """

    short: ClassVar[str] = "hard"

    def build(self, max_iter: int, tol: float) -> EM:
        """Alternate until the log joint stands; the history has ``log_joint`` in place of ``log_likelihood``."""
        return HardEM(max_iter, tol)


@dataclass(frozen=True)
class Incremental(EMForm):
    """New posteriors of one batch, the others' as they were, then new parameters; batch after batch.

    Every update raises the evidence lower bound, which is what the history has. The first pass is that of the full
    form. Memory: the expected statistics of each batch. Source: Neal and Hinton (1998), section 3.

    Parameters
    ----------
    batch_size : int in [1, inf), default 256
        Rows that are given new posteriors at a time.
    """

    short: ClassVar[str] = "incremental"
    batch_size: Annotated[int, "[1, inf)"] = 256

    @property
    def rows(self) -> int | None:
        """Rows of a batch."""
        return self.batch_size

    def build(self, max_iter: int, tol: float) -> EM:
        """Pass after pass until the bound stands."""
        return _Incremental(max_iter, tol)


@dataclass(frozen=True)
class Online(EMForm):
    r"""Running statistics that forget, :math:`s \leftarrow (1 - \rho_t) s + \rho_t \bar s_t` of each batch.

    :math:`\rho_t = (t + delay)^{-power}` for update t; one batch of all rows is taken whole. The first pass is that of
    the full form. `partial_fit` is such an update. Source: Cappe and Moulines (2009).

    Parameters
    ----------
    batch_size : int in [1, inf), default 256
        Rows of a batch.
    power : float in (0.5, 1], default 0.6
        How fast the weight of a batch falls; see `gnomon.training.schedules`.
    delay : float in [1, inf), default 2
        Updates that come before the first.
    """

    short: ClassVar[str] = "online"
    shuffles: ClassVar[bool] = True
    batch_size: Annotated[int, "[1, inf)"] = 256
    power: Annotated[float, "(0.5, 1]"] = 0.6
    delay: Annotated[float, "[1, inf)"] = 2.0

    @property
    def rows(self) -> int | None:
        """Rows of a batch."""
        return self.batch_size

    def weight(self, t: int) -> float:
        """Weight of the batch of update t, counted from 0, in (0, 1]."""
        return float((t + self.delay) ** -self.power)

    def build(self, max_iter: int, tol: float) -> EM:
        """Pass after pass until the likelihood, taken in passing, changes no more."""
        return _Online(max_iter, tol, self)


def toward(model: Any, statistics: Mapping[str, Array], share: float, rows: float) -> None:
    """Move a model towards what statistics say, by this share of the way in its mean parameters.

    Parameters
    ----------
    model : object with ``own`` and ``maximize``
    statistics : mapping
        Expected ones, with ``weight`` among them.
    share : float in (0, 1]
    rows : float
        Weight of the rows that all statistics together stand for, which a prior is set against.
    """
    own, scale = model.own(rows), share * rows / float(statistics["weight"])
    model.maximize({name: (1.0 - share) * value + scale * statistics[name] for name, value in own.items()})


class _Partial(EM):
    """EM whose parameters go a share of the way."""

    def __init__(self, max_iter: int, tol: float, share: float) -> None:
        super().__init__(max_iter, tol)
        self.share = share

    def maximize(self, model: Any, statistics: dict[str, Array]) -> None:
        """A share of the way."""
        toward(model, statistics, self.share, float(statistics["weight"]))


class HardEM(EM):
    """EM with each row at its likeliest latent value: the model gives ``expect_mode``.

    Parameters
    ----------
    max_iter, tol
        As of `EM`.
    quantity : str, default "log_joint"
        What ``log_likelihood`` of its sums is: the name that the history has for it.
    """

    def __init__(self, max_iter: int, tol: float, quantity: str = "log_joint") -> None:
        super().__init__(max_iter, tol)
        self.quantity = quantity

    def expectation(self, model: Any) -> Any:
        """The sums at the modes."""
        return model.expect_mode


@dataclass
class _Passes(Iterations):
    kept: dict[str, Array] = field(default_factory=dict)
    """Sums of every batch, batch first, ``entropy`` of its posteriors among them; nothing before the first pass."""


class _Incremental(EM):
    """EM on the bound, batch by batch."""

    quantity: str = "bound"

    def start(self, problem: Problem) -> Any:
        """No posteriors yet."""
        return _Passes(problem)

    def step(self, state: Any) -> tuple[Any, Info]:
        """One pass."""
        model, steps = state.problem.model, state.problem.batches.steps
        if not state.kept:
            for i in range(steps):
                _renew(state, i)
            reached = per_row(model, _over_batches(state))
            _move(state)
            return self.recorded(state, *reached)
        for i in range(steps):
            _renew(state, i)
            _move(state)
        sums = _over_batches(state)
        bound = model.expected_joint(sums) + float(sums["entropy"])
        return self.recorded(state, *per_row(model, {**sums, "log_likelihood": bound}))

    def save(self, state: Any) -> tuple[dict[str, Array], dict[str, Any]]:
        """The model, and the sums of every batch under names that begin with ``kept.``."""
        arrays, facts = super().save(state)
        return arrays | {KEPT + name: value for name, value in state.kept.items()}, facts

    def load(self, problem: Problem, arrays: Mapping[str, Array], facts: Mapping[str, Any]) -> Any:
        """Exactly the state that was saved."""
        begun = super().load(problem, arrays, facts)
        kept = {name.removeprefix(KEPT): np.array(one) for name, one in arrays.items() if name.startswith(KEPT)}
        return _Passes(problem, begun.iteration, begun.last, begun.settled, kept)


def _renew(state: _Passes, i: int) -> None:
    """New posteriors of batch i."""
    model, batch = state.problem.model, state.problem.batches.step(0, i)
    found: dict[str, Array] = state.problem.group.sum(model.expect(batch.data["X"], batch.weight))
    found["entropy"] = found["log_likelihood"] - model.expected_joint(found)
    for name, value in found.items():
        if name not in state.kept:
            state.kept[name] = np.zeros((state.problem.batches.steps, *np.shape(value)))
        state.kept[name][i] = value


def _over_batches(state: _Passes) -> dict[str, Array]:
    return {name: value.sum(0) for name, value in state.kept.items()}


def _move(state: _Passes) -> None:
    """New parameters; sums that are taken about the old ones are brought to the new ones."""
    model = state.problem.model
    before = {name: np.array(value) for name, value in model.state().items()}
    model.maximize(_over_batches(state))
    state.kept |= model.moved(state.kept, before)


class _Online(EM):
    """EM by running statistics."""

    def __init__(self, max_iter: int, tol: float, form: Online) -> None:
        super().__init__(max_iter, tol)
        self.form = form

    def step(self, state: Any) -> tuple[Any, Info]:
        """One pass."""
        model, batches = state.problem.model, state.problem.batches
        if state.iteration == 0 or batches.steps == 1:
            return super().step(state)
        likelihood = rows = 0.0
        whole = float(batches.examples.weight.sum(dtype=np.float64))
        for i in range(batches.steps):
            batch = batches.step(state.iteration, i)
            found = state.problem.group.sum(model.expect(batch.data["X"], batch.weight))
            likelihood, rows = likelihood + float(found["log_likelihood"]), rows + float(found["weight"])
            if found["weight"] > 0:
                toward(model, found, self.form.weight((state.iteration - 1) * batches.steps + i), whole)
        climbed = (likelihood + model.log_prior()) / rows
        state.settled = 0 < abs(climbed - state.last) <= self.tol
        state.last, state.iteration = climbed, state.iteration + 1
        record = {"iteration": state.iteration, self.quantity: likelihood / rows, "objective": climbed}
        return state, Info(done=state.settled or state.iteration >= self.max_iter, record=record, monitored=climbed)
