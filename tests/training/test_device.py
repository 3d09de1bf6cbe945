"""Device, precision and backend: torch's way forced on the CPU, and what is said where a device is missing."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import gnomon
from gnomon.cli.main import run
from gnomon.errors import UserValueError
from gnomon.evaluation.gradients import gradient_check
from gnomon.nn.module import Module
from gnomon.training.driver import run_procedure
from gnomon.training.gradient import Budget, Gradient
from gnomon.training.optimizers import SGD, Adam
from oracles.tasks import Squares, problem
from oracles.ways import brief_case

X, Y = load_digits(return_X_y=True)
X, Y = X[:120] / 16, Y[:120]
NETWORKS = {
    "mlp": lambda: gnomon.MLP(hidden=(8,), batch_norm=True, dropout=0.2, l1=1e-3, clip=0.5, epochs=2, random_state=0),
    "regression": lambda: gnomon.MLPRegression(hidden=(8,), epochs=2, early_stopping="patience", random_state=0),
    "lenet": lambda: gnomon.LeNet(image_shape=(8, 8), channels=(2, 3), hidden=(8, 6), epochs=2, random_state=0),
    "softmax": lambda: gnomon.SoftmaxRegression(epochs=5, batch_size=32, random_state=0),
}


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_the_torch_way_gives_the_same_numbers(name: str) -> None:
    """To rounding, in double precision; predictions and history as well."""
    auto = NETWORKS[name]().set_params(dtype="float64").fit(X, Y)
    with gnomon.context(device="cpu", backend="torch"):
        forced = NETWORKS[name]().set_params(dtype="float64").fit(X, Y)
    for key, value in auto.model_.state().items():
        np.testing.assert_allclose(forced.model_.state()[key], value, rtol=1e-7, atol=1e-10, err_msg=key)
    for key, values in auto.history_.items():
        np.testing.assert_allclose(forced.history_[key], values, rtol=1e-7, err_msg=key)
    np.testing.assert_array_equal(forced.predict(X), auto.predict(X))


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("clip", [None, 0.5])
def test_gradients_stay_where_they_are(closed: bool, clip: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """No step of the torch way asks a parameter or a gradient for its memory as a NumPy array."""
    ends = []
    for backend in ("auto", "torch"):
        with gnomon.context(backend=backend):
            task, procedure = problem(Squares(closed=closed)), Gradient(Adam(), 0.1, Budget(epochs=2), clip=clip)
            state = procedure.start(task)
            with monkeypatch.context() as patch:
                if backend == "torch":
                    patch.setattr(torch.Tensor, "numpy", refuse)
                for _ in range(10):
                    state, info = procedure.step(state)
        ends.append((task.model.a.item(), task.model.b.item(), info.monitored))
    assert ends[0] == pytest.approx(ends[1], rel=1e-12)


def refuse(self: Any, *_: Any, **__: Any) -> Any:
    raise AssertionError("a trip through NumPy")


def test_the_products_of_a_fit_are_in_the_precision_that_is_asked_for() -> None:
    """Seen from within; parameters, the loss and what is answered afterwards stay in single precision."""
    seen: list[Any] = []

    class Watching(Squares):
        def forward(self, model: Any, batch: Any, **options: Any) -> Any:
            seen.append((torch.ones(2, 2) @ torch.ones(2, 2)).dtype)
            return super().forward(model, batch, **options)

    for precision in ("float32", "bfloat16"):
        with gnomon.context(precision=precision):
            run_procedure(Gradient(SGD(), 0.1, Budget(updates=1)), problem(Watching()))
    assert seen == [torch.float32, torch.bfloat16]
    with gnomon.context(precision="bfloat16"):
        half = gnomon.MLP(hidden=(16,), epochs=20, learning_rate=0.01, random_state=0, dtype="float32").fit(X, Y)
    single = gnomon.MLP(hidden=(16,), epochs=20, learning_rate=0.01, random_state=0, dtype="float32").fit(X, Y)
    assert {value.dtype.name for name, value in half.model_.state().items() if "layers" in name} == {"float32"}
    assert half.score(X, Y) > 0.95
    gap = np.abs(half.predict_proba(X) - single.predict_proba(X)).max()
    assert 0 < gap < 0.2


def test_a_module_knows_where_it_is() -> None:
    class Net(Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.zeros(2))

    net = Net()
    assert net.device == torch.device("cpu")
    assert net.to("meta").device == torch.device("meta")
    assert Module().device == torch.device("cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_missing_is_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (
        pytest.raises(UserValueError, match=r"^device must be cpu, got 'cuda'; torch finds no other"),
        gnomon.context(device="cuda"),
    ):
        pass
    folder = tmp_path / "run"
    code = run(["fit", "mlp", "digits", "--epochs", "1", "--device", "cuda", "--out", str(folder)])
    told = capsys.readouterr().err
    assert code == 2 and len(told.strip().splitlines()) == 1 and "device must be cpu, got 'cuda'" in told
    assert not folder.exists()


@pytest.mark.parametrize(
    "wrong",
    [{"device": "nowhere"}, {"device": "meta"}, {"device": ""}, {"precision": "float8"}, {"backend": "numpy"}],
)
def test_other_circumstances_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserValueError, match=r"device must be cpu|must be one of"), gnomon.context(**wrong):
        pass


def test_a_run_remembers_device_and_precision(tmp_path: Path) -> None:
    """And goes on with them."""
    folder = tmp_path / "run"
    options = ["--epochs", "2", "--hidden", "4", "--device", "cpu", "--precision", "bfloat16", "--out", str(folder)]
    assert run(["fit", "mlp", "iris", *options]) == 0
    config = (folder / "config.json").read_text()
    assert '"device": "cpu"' in config and '"precision": "bfloat16"' in config


ELSEWHERE = {
    "rbm": lambda one, X, y: [one.weights_, one.visible_bias_, one.hidden_bias_],
    "draw": lambda one, X, y: [one.active_latents(X), one.canvases(X), one.sample(2, return_canvas=True)],
    "vae": lambda one, X, y: [one.elbo(X, 2), one.active_latents(X), one.log_prob_bound(X), one.transform(X)],
    "gan": lambda one, X, y: [one.log_prob_bound(X, 0.5), one.sample(3)],
    "conditional-gan": lambda one, X, y: [one.sample(3), one.sample(2, y[0])],
    "gru-lm": lambda one, X, y: [one.log_gradient_norms(X, 5)],
}


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_a_model_that_lies_elsewhere_is_asked_and_answers_in_arrays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On torch's device of shapes alone: it refuses tensors of the CPU, as a GPU does, and NumPy cannot look at it."""
    case = brief_case(name)
    fitted = copy.deepcopy(case.fitted)
    fitted.model_.to("meta")
    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "cpu", fetched)
        assert ELSEWHERE[name](fitted, case.X, case.y)


def test_gradients_of_a_module_that_lies_elsewhere_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    module = torch.nn.Linear(2, 1, device="meta")
    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "cpu", fetched)
        found = gradient_check(module, X[:5, 2:4], Y[:5, None], objective=lambda z, y: (z - y).square().mean())
    assert found.passed


def fetched(tensor: Any) -> Any:
    """What a copy to the CPU would be: the shape and the type are known, the numbers are 0."""
    return torch.zeros(tensor.shape, dtype=tensor.dtype) if tensor.is_meta else tensor
