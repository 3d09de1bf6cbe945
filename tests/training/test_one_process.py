"""A fit on the first process: what the others take over, and how all of them fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gnomon.errors import UserError, UserValueError
from gnomon.numeric.noise import Noise
from gnomon.training.driver import run_procedure
from gnomon.training.group import Group, current
from gnomon.training.launch import launch
from gnomon.training.one_process import OnFirst
from gnomon.training.procedure import Problem


class Bag:
    """Arrays of any kind, whose names and shapes only the fit knows."""

    def __init__(self) -> None:
        self.arrays: dict[str, Any] = {}

    def state(self) -> dict[str, Any]:
        return self.arrays

    def load(self, state: Any) -> None:
        self.arrays = {name: np.array(value) for name, value in state.items()}


def fill(problem: Problem) -> dict[str, float]:
    problem.model.arrays = {
        "bytes": np.frombuffer(b"abc", np.uint8), "flags": np.array([True, False]), "empty": np.zeros((0, 3)),
        "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "codes": np.array([3, -1]),
    }  # fmt: skip
    return {"inertia": 0.1 + 0.2}


def refuse(problem: Problem) -> None:
    raise UserValueError("one class", "y", "give two")


def fitted(group: Any) -> list[Any]:
    """What every process has at the end, and what it is told of a failure."""
    model, told = Bag(), ""
    outcome = run_procedure(OnFirst(fill), Problem(model, None, Noise(0, "fit"), group))
    try:
        run_procedure(OnFirst(refuse), Problem(Bag(), None, Noise(0, "fit"), group))
    except UserError as error:
        told = str(error)
    kinds = {name: (str(value.dtype), value.tolist()) for name, value in model.state().items()}
    return [kinds, outcome.history, told]


def on_each() -> list[list[Any]]:
    import torch.distributed as dist

    everyone: list[Any] = [None, None]
    dist.all_gather_object(everyone, fitted(current()))
    return everyone


def test_the_others_take_the_model_and_the_record_over() -> None:
    alone = fitted(Group())
    assert alone[1] == {"inertia": [0.1 + 0.2], "step": [1.0]} and alone[2] == "one class (y); give two"
    first, second = launch(on_each, devices=2)
    assert first == alone
    assert second[:2] == alone[:2]
    assert second[2].startswith("the first process could not fit")


def test_what_is_no_error_of_the_users_is_raised_as_it_is() -> None:
    def broken(problem: Problem) -> None:
        raise ZeroDivisionError("inside")

    with pytest.raises(ZeroDivisionError, match="inside"):
        run_procedure(OnFirst(broken), Problem(Bag(), None, Noise(0, "fit"), Group()))
