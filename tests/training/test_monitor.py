"""What a watched fit tells: ratios by hand, counts against NumPy, and that nothing it learns depends on it."""

import json

import numpy as np
import pytest
import torch
from torch import nn

import gnomon
from gnomon.cli.main import run as command
from gnomon.evaluation.diagnosis.inside import flag
from gnomon.runs.folder import RunFolder
from gnomon.training.context import context
from gnomon.training.driver import run_procedure
from gnomon.training.gradient import Budget, Gradient
from gnomon.training.monitor import EDGES, Monitor, Tally, update_ratio
from gnomon.training.optimizers import SGD
from oracles.tasks import Line, Squares, problem


def moved(optimizer, parameter, gradient):
    """The ratio that a monitor sees of one step."""
    monitor = Monitor(nn.ParameterDict({"w": parameter}))
    parameter.grad = torch.as_tensor(gradient, dtype=parameter.dtype)
    with monitor.moving({"w": parameter}):
        optimizer.step()
    return monitor.taken()["parameters"]["w"]


@pytest.mark.spec("PRA-089")
def test_update_beside_parameter_by_hand():
    """SGD, theta 10, g 1, rate 0.1: 0.01; Adam's first step is its rate, not rate * g; zeros have none."""
    theta = nn.Parameter(torch.tensor([10.0], dtype=torch.float64))
    seen = moved(torch.optim.SGD([theta], lr=0.1), theta, [1.0])
    assert seen["ratio"] == seen["largest_ratio"] == pytest.approx(0.01, rel=1e-12)
    assert (seen["gradient_norm"], seen["size"]) == (1.0, pytest.approx(9.9, rel=1e-12))

    theta = nn.Parameter(torch.tensor([3.0, 4.0], dtype=torch.float64))
    seen = moved(torch.optim.Adam([theta], lr=0.1), theta, [1000.0, -1e-3])
    assert seen["ratio"] == pytest.approx(0.1 * 2**0.5 / 5, rel=1e-4)

    zeros = nn.Parameter(torch.zeros(3))
    assert moved(torch.optim.SGD([zeros], lr=0.1), zeros, [1.0, 1.0, 1.0])["ratio"] is None

    words = nn.Parameter(torch.tensor([[3.0, 4.0], [100.0, 100.0]], dtype=torch.float64))
    seen = moved(torch.optim.SGD([words], lr=0.1), words, [[3.0, -4.0], [0.0, 0.0]])
    assert seen["ratio"] == pytest.approx(0.1, rel=1e-12)
    still = torch.ones(2, 2)
    assert update_ratio(still, still) == 0.0
    assert [flag(one) for one in (0.5, 0.01, 1e-5, None)] == ["large", "", "small", ""]
    assert [flag(0.5, high=1), flag(0.01, low=0.1)] == ["", "small"]


@pytest.mark.spec("PRA-089")
def test_update_of_a_fit_is_that_of_its_gradient():
    """One full-batch step of SGD on the line from (0, 1): the ratio of b is rate * |dL/db| / 1; a, at 0, has none."""
    task, seen = problem(Squares(), batch_size=None), []
    X = task.batches.examples["X"].values
    weight = task.batches.step(0, 0).weight
    slope = float((2 * weight * (1 - X[:, 1])).sum() / weight.sum())
    with context(monitor=True, callbacks=(lambda step, record: seen.append(record["monitor"]),)):
        run_procedure(Gradient(SGD(), 0.1, Budget(epochs=1)), task)
    assert seen[0]["parameters"]["b"]["ratio"] == pytest.approx(abs(0.1 * slope), rel=1e-12)
    assert seen[0]["parameters"]["b"]["gradient_norm"] == pytest.approx(abs(slope), rel=1e-12)
    assert seen[0]["parameters"]["a"]["ratio"] is None and isinstance(task.model, Line)
    assert (seen[0]["updates"], seen[0]["epoch"]) == (1, 1)


@pytest.mark.spec("PRA-088")
def test_chunks_merge_to_what_numpy_says_of_all():
    values = np.concatenate([np.random.default_rng(0).normal(3, 2, 1000), np.zeros(50), [1e-3, -1e-3, 5e7, 1e9]])
    tally = Tally()
    for part in np.split(values, [1, 7, 300, 301, 900]):
        tally.add(part)
    tally.add(np.array([np.nan, np.inf]))
    assert tally.histogram.tolist() == np.histogram(np.clip(values, -1e4, 1e4), EDGES)[0].tolist()
    assert tally.histogram.sum() == tally.count == len(values) and tally.histogram[-1] == 2
    np.testing.assert_allclose([tally.mean, tally.std], [values.mean(), values.std()], rtol=1e-12)
    assert tally.zero == 50 / len(values)


@pytest.mark.spec("PRA-088")
def test_layers_against_a_forward_pass_in_numpy():
    """A bias of -100 is exactly one dead unit; rectifiers of N(0, 1) are off half the time; tanh by hand."""
    random = np.random.default_rng(1)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 5), nn.Tanh()).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.as_tensor(random.normal(size=(30, 20)) / 20**0.5))
        net[0].bias.zero_()
        net[0].bias[7] = -100
        net[2].weight.mul_(20)
    X = random.normal(size=(4000, 20))
    monitor = Monitor(net)
    for part in np.split(X, 4):
        with monitor.watching():
            out = net(torch.as_tensor(part))
        out.sum().backward()
    net(torch.as_tensor(X))  # outside: not counted
    assert not any(layer._forward_hooks for layer in net.modules())
    layers = monitor.taken()["layers"]
    W, b, V, c = (one.detach().numpy() for one in net.parameters())
    pre = X @ W.T + b
    hidden = np.maximum(pre, 0)
    late = hidden @ V.T + c
    for name, values in (("0", pre), ("1", hidden), ("2", late), ("3", np.tanh(late))):
        one = layers[name]
        assert sum(one["histogram"]) == values.size
        np.testing.assert_allclose([one["mean"], one["std"]], [values.mean(), values.std()], rtol=1e-9)
        # the very bits of the pass: saturated units of tanh lie within rounding of the edge at 1
        passes = [net[: int(name) + 1](torch.as_tensor(part)) for part in np.split(X, 4)]
        given = torch.cat(passes).detach().numpy()
        np.testing.assert_allclose(given, values, rtol=1e-9, atol=1e-12)
        assert one["histogram"] == np.histogram(np.clip(given, -1e4, 1e4), EDGES)[0].tolist()
    assert (layers["1"]["dead"], layers["1"]["units"]) == (1, 30)
    live = (layers["1"]["off"] * 30 - 1) / 29
    assert live == pytest.approx(0.5, abs=0.01) and layers["1"]["off"] == (pre <= 0).mean()
    assert layers["1"]["input_size"] == pytest.approx(np.abs(pre).mean(), rel=1e-9)
    assert layers["3"]["input_size"] == pytest.approx(np.abs(late).mean(), rel=1e-9)
    assert layers["3"]["saturated"] == pytest.approx((np.abs(np.tanh(late)) > 0.98).mean(), abs=1e-9)
    back = 1 - np.tanh(late) ** 2
    deeper = (back @ V) * (pre > 0)
    np.testing.assert_allclose(layers["2"]["gradient"]["std"], back.std(), rtol=1e-9)
    np.testing.assert_allclose(layers["0"]["gradient"]["std"], deeper.std(), rtol=1e-9)
    assert layers["0"]["gradient"]["zero"] >= (deeper == 0).mean() - 1e-12
    assert monitor.taken() == {"updates": 0, "parameters": {}, "layers": {}}


@pytest.mark.parametrize("device_way", ["auto", "torch"])
def test_what_is_learned_does_not_depend_on_it(device_way):
    X = np.random.default_rng(0).normal(size=(60, 4))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    made = gnomon.MLP(hidden=(8,), epochs=3, batch_size=16, dropout=0.2, random_state=0)
    with context(backend=device_way):
        plain = {name: np.array(one) for name, one in made.fit(X, y).model_.state().items()}
        with context(monitor=True):
            watched = made.fit(X, y).model_.state()
    assert all((plain[name] == np.array(watched[name])).all() for name in plain)


@pytest.mark.parametrize("value", [1, None, "yes"])
def test_only_true_and_false_switch_it(value):
    with pytest.raises(gnomon.errors.UserTypeError, match="monitor must be True or False"), context(monitor=value):
        pass


@pytest.mark.slow
def test_run_and_report_show_it_and_resume_repeats_no_line(tmp_path, capsys):
    path = tmp_path / "run"
    fit = ["fit", "mlp", "iris", "--epochs", "3", "--hidden", "6", "--out", str(path)]
    assert command([*fit, "--monitor"]) == 0
    lines = RunFolder.open(path).read_monitor()
    assert [one["epoch"] for one in lines] == [1, 2, 3]
    assert set(lines[0]["layers"]) >= {"layers.0", "units.0"} and lines[0]["layers"]["units.0"]["units"] == 6
    with (path / "monitor.jsonl").open("a") as file:
        file.write(json.dumps({**lines[-1], "step": 10**6, "epoch": 4}) + '\n{"half')
    assert command(["resume", str(path), "--epochs", "4"]) == 0
    assert [one["epoch"] for one in RunFolder.open(path).read_monitor()] == [1, 2, 3, 4]
    assert command(["report", str(path), "--out", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "Inside the fit" in page and "layers.0.weight" in page and "0 of 6" in page
    (path / "monitor.jsonl").write_text("[]\n")
    capsys.readouterr()
    assert command(["report", str(path), "--out", str(tmp_path / "page2.html")]) == 2
    assert "monitor.jsonl is damaged" in capsys.readouterr().err
    assert command([*fit[:-1], str(tmp_path / "other")]) == 0
    assert not (tmp_path / "other" / "monitor.jsonl").exists()
