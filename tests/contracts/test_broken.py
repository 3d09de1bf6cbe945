"""A system broken on purpose fails the check that guards against it, and passes the others."""

import numpy as np
import pytest
import torch

import gnomon
from gnomon.testing import CheckFailed, check_system

TINY = {"epochs": 6, "batch_size": 10, "learning_rate": 0.1, "random_state": 0}


class Climbs(gnomon.SoftmaxRegression):
    """Goes uphill."""

    def procedure(self, examples):
        procedure = super().procedure(examples)
        procedure.learning_rate = 1e-9
        inner = procedure.step

        def step(state):
            state, info = inner(state)
            with torch.no_grad():
                state.problem.model.weight.add_(0.5)
                state.problem.model.weight[:, 0].add_(0.5)
            return state, info

        procedure.step = step
        return procedure


class Forgets(gnomon.SoftmaxRegression):
    """Starts from the global generator."""

    def initialize(self, model, table, noise):
        with torch.no_grad():
            model.weight.copy_(torch.from_numpy(np.random.normal(size=tuple(model.weight.shape))))


class Writes(gnomon.SoftmaxRegression):
    """Changes the caller's array."""

    def _rows(self, X, *, reset=False):
        if isinstance(X, np.ndarray) and X.flags.writeable:
            X[0, 0] += 1
        return super()._rows(X, reset=reset)


class Remembers(gnomon.SoftmaxRegression):
    """Changes a hyper-parameter by fitting."""

    def fit(self, X, y=None, **options):
        super().fit(X, y, **options)
        self.epochs = self.epochs + 1
        return self


class Loses(gnomon.SoftmaxRegression):
    """Does not save all of itself."""

    def restore(self, arrays, facts):
        return super().restore({**arrays, "bias": np.zeros_like(arrays["bias"])}, facts)


class Restarts(gnomon.SoftmaxRegression):
    """Its procedure forgets the optimizer on resume."""

    def procedure(self, examples):
        procedure = super().procedure(examples)
        inner = procedure.load
        procedure.load = lambda problem, arrays, facts: inner(
            problem, {k: v for k, v in arrays.items() if not k.startswith("optimizer/")}, facts
        )
        return procedure


class Swallows(gnomon.SoftmaxRegression):
    """Takes anything for numbers."""

    def _rows(self, X, *, reset=False):
        try:
            return super()._rows(X, reset=reset)
        except (ValueError, TypeError):
            return super()._rows(np.zeros((40, 5)), reset=reset)

    def ingest(self, X, y=None, sample_weight=None):
        return super().ingest(X, np.arange(40) % 3 if y is not None and len(y) != 40 else y, sample_weight)


class Overflows(gnomon.SoftmaxRegression):
    """Ends with an infinite weight."""

    def finish(self, model):
        with torch.no_grad():
            model.weight[0, 0] = float("inf")


class Divides(gnomon.SoftmaxRegression):
    """Takes the mean of its own rows where sums belong."""

    def make_objective(self):
        objective = super().make_objective()
        inner = objective.forward

        def forward(model, batch, **options):
            loss = inner(model, batch, **options)
            term = loss.terms["cross_entropy"]
            loss.terms["cross_entropy"] = type(term)(term.sum / max(term.weight, 1e-9), 1.0)
            return loss

        objective.forward = forward
        return objective


class Strays(gnomon.SoftmaxRegression):
    """Has a score that is no number."""

    def score(self, X, y=None, sample_weight=None):
        return float("nan")


class Recounts(gnomon.SoftmaxRegression):
    """Forgets on resume what the epoch's record had summed."""

    def procedure(self, examples):
        procedure = super().procedure(examples)
        inner = procedure.load
        procedure.load = lambda problem, arrays, facts: inner(problem, arrays, {**facts, "sums": {}, "weights": {}})
        return procedure


GUARDS = {
    Climbs: "improves", Forgets: "repeats", Writes: "input_untouched",
    Remembers: "parameters_untouched", Loses: "saves",
    Restarts: "resumes", Swallows: "refuses", Overflows: "stays_finite",
    Strays: "stays_finite", Recounts: "resumes",
}  # fmt: skip


@pytest.mark.parametrize("broken", GUARDS, ids=lambda cls: cls.__name__)
def test_the_check_fails_on_the_broken_system(broken):
    import random

    state, python_state = np.random.get_state(), random.getstate()
    try:
        with pytest.raises(CheckFailed):
            check_system(broken, checks=[GUARDS[broken]], **TINY)
    finally:
        np.random.set_state(state)
        random.setstate(python_state)
    check_system(gnomon.SoftmaxRegression, checks=[GUARDS[broken]], **TINY)


@pytest.mark.slow
def test_two_processes_disagree_on_a_mean_of_means():
    with pytest.raises(CheckFailed, match="between one and two processes"):
        check_system(Divides, checks=["processes_agree"], **TINY)
