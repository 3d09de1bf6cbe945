"""Gradient accumulation: pieces of a batch give what the batch gives, in the memory of a piece."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import gnomon
from gnomon.cli.main import run
from gnomon.errors import UserValueError
from gnomon.training.accumulation import pieces
from gnomon.training.group import Group

X, Y = load_digits(return_X_y=True)
X, Y = X[:100] / 16, Y[:100]
COMMON: dict[str, Any] = {"epochs": 2, "batch_size": 32, "dtype": "float64", "random_state": 0}
WEIGHT = 1.0 + np.arange(100) % 3
TEXT = ["the sun casts a shadow", "a dial", "the gnomon of the dial", "shadow", "sun and dial and shadow"] * 4
PAIRS = [(f"{i} {i + 1}", f"{i + 1} {i}") for i in range(12)]
SYSTEMS = {
    "mlp": (lambda: gnomon.MLP(hidden=(8,), dropout=0.3, l1=1e-3, l2=0.1, clip=0.5, **COMMON), (X, Y, WEIGHT)),
    "regression": (lambda: gnomon.MLPRegression(hidden=(8,), early_stopping="patience", **COMMON), (X, Y * 1.0)),
    "lenet": (lambda: gnomon.LeNet(image_shape=(8, 8), channels=(2, 3), hidden=(8, 6), **COMMON), (X, Y)),
    "mixed-rows": (lambda: gnomon.CNN(image_shape=(8, 8), augment="mixup", norm="group", **COMMON), (X, Y)),
    "transformer-lm": (
        lambda: gnomon.TransformerLM(n_embedding=8, n_hidden=8, n_heads=2, n_layers=1, window=4, **COMMON), (TEXT,),
    ),
    "seq2seq": (lambda: gnomon.Seq2Seq(n_hidden=4, n_embedding=4, **COMMON), (PAIRS,)),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(SYSTEMS))
@pytest.mark.parametrize("size", [1, 7, 500])
def test_pieces_give_what_the_batch_gives(name: str, size: int) -> None:
    """Draws of dropout and mixtures too, weights, penalties, tokens that are not counted: to rounding in double."""
    make, (X, *rest) = SYSTEMS[name]
    options = dict(zip(("y", "sample_weight"), rest, strict=False))
    whole = make().fit(X, **options)
    with gnomon.context(micro_batch=size):
        parts = make().fit(X, **options)
    for key, value in whole.model_.state().items():
        if np.asarray(value).dtype.kind == "f":
            np.testing.assert_allclose(parts.model_.state()[key], value, rtol=1e-6, atol=1e-9, err_msg=key)
    for key, values in whole.history_.items():
        np.testing.assert_allclose(parts.history_[key], values, rtol=1e-6, err_msg=key)


def test_no_more_rows_than_asked_for_are_in_the_network_at_once() -> None:
    seen: list[int] = []

    def watch(module: torch.nn.Module, given: tuple[torch.Tensor, ...]) -> None:
        if isinstance(module, torch.nn.Linear):
            seen.append(len(given[0]))

    handle = torch.nn.modules.module.register_module_forward_pre_hook(watch)
    try:
        with gnomon.context(micro_batch=10):
            gnomon.MLP(hidden=(8,), epochs=1, batch_size=64, random_state=0).fit(X, Y)
    finally:
        handle.remove()
    assert set(seen) <= {9, 10} and sum(seen) % len(X) == 0


class _Pair(Group):
    """The first of two processes, of which the other has one row more."""

    def gather(self, x: Any) -> Any:
        return np.concatenate([x, x + 1])


@pytest.mark.parametrize(("n", "size", "count"), [(16, 8, 3), (15, 8, 2), (0, 4, 1), (4, 4, 2)])
def test_processes_have_as_many_pieces_as_one_another(n: int, size: int, count: int) -> None:
    from gnomon.data.layouts import Batch

    rows = np.arange(n)
    found = pieces(Batch({"X": rows}, rows, rows + 5, rows * 1.0), size, _Pair(0, 2))
    assert len(found) == count and max(map(len, found)) <= size
    np.testing.assert_array_equal(np.concatenate([one.positions for one in found]), rows + 5)
    np.testing.assert_array_equal(np.concatenate([one.data["X"] for one in found]), rows)


@pytest.mark.parametrize(
    "system",
    [
        gnomon.RBM(n_hidden=2, epochs=1), gnomon.MetricNetwork(hidden=(2,), epochs=1),
        gnomon.GRULM(n_hidden=2, epochs=1), gnomon.GAN(epochs=1),
    ],
    ids=lambda one: one.name,
)  # fmt: skip
def test_losses_of_whole_batches_are_refused(system: Any) -> None:
    """Chains, pairs of rows, states that go on from batch to batch, games."""
    given = {"gru-lm": (TEXT,), "metric-network": (X, Y)}.get(system.name, (np.round(X),))
    with gnomon.context(micro_batch=2), pytest.raises(UserValueError, match="micro_batch must be None"):
        system.fit(*given)


def test_the_command_line_takes_it_and_the_run_keeps_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    options = ["--epochs", "2", "--hidden", "4", "--batch-size", "32", "--micro-batch", "8", "--out", str(folder)]
    assert run(["fit", "mlp", "iris", *options]) == 0
    assert '"micro_batch": 8' in (folder / "config.json").read_text()
    assert run(["fit", "rbm", "digits", "--epochs", "1", "--micro-batch", "8", "--out", str(tmp_path / "no")]) == 2
    assert "micro_batch must be None where the loss needs whole batches" in capsys.readouterr().err
    with pytest.raises(UserValueError, match="micro_batch must be at least 1"), gnomon.context(micro_batch=0):
        pass
