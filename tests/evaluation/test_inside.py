"""What checks say of a watched fit: each planted fault is named and nothing else is, in a network and in a run."""

import json

import numpy as np
import pytest
import torch
from torch import nn

import gnomon
from gnomon.cli.main import run as command
from gnomon.data import load
from gnomon.evaluation.diagnosis.inside import CHECKS, LARGE, SMALL, flag, gradient_norms
from gnomon.evaluation.diagnosis.records import examine
from gnomon.runs.folder import RunFolder
from gnomon.systems.neural.mlp import MLPModel
from gnomon.training.context import context
from gnomon.training.monitor import Monitor

GAIN = 2**0.5


def network(hidden=(60, 60), unit=nn.ReLU, spread=GAIN, seed=0):
    """Layers of 20 features, each weight with the standard deviation spread / sqrt(inputs), biases 0."""
    random, layers, n = np.random.default_rng(seed), [], 20
    for width in (*hidden, 1):
        linear = nn.utils.skip_init(nn.Linear, n, width, dtype=torch.float64)
        with torch.no_grad():
            linear.weight.copy_(torch.as_tensor(random.normal(size=(width, n)) * spread / n**0.5))
            linear.bias.zero_()
        layers += [linear, unit()]
        n = width
    return nn.Sequential(*layers[:-1])


def watched(net, rate=1e-3, epochs=2, optimizer=torch.optim.SGD):
    """The lines of a fit of a sine by 20 updates an epoch."""
    random = np.random.default_rng(1)
    X = torch.as_tensor(random.normal(size=(640, 20)))
    y = torch.sin(X[:, :1]) + X[:, 1:2]
    steps, monitor, lines = optimizer(net.parameters(), rate), Monitor(net), []
    for epoch in range(epochs):
        for rows, targets in zip(X.split(32), y.split(32), strict=True):
            steps.zero_grad()
            with monitor.watching():
                loss = ((net(rows) - targets) ** 2).mean()
            loss.backward()
            with monitor.moving(dict(net.named_parameters())):
                steps.step()
        lines.append({"epoch": epoch + 1, **monitor.taken()})
    return lines


def levels(lines):
    found, skipped = examine(lines, CHECKS)
    return {one.check: one.level for one in found} | dict.fromkeys(skipped, "skipped")


HEALTHY = {"dead": "ok", "saturated": "skipped", "depth": "ok", "updates": "ok"}


def test_a_healthy_fit_is_not_warned_of():
    assert levels(watched(network())) == HEALTHY
    assert levels(watched(network(unit=nn.Tanh, spread=1.0))) == {**HEALTHY, "dead": "skipped", "saturated": "ok"}
    assert levels(watched(network(), optimizer=torch.optim.Adam)) == HEALTHY


@pytest.mark.spec("PRA-088")
def test_one_bias_of_minus_100_is_one_dead_unit():
    net = network()
    with torch.no_grad():
        net[2].bias[7] = -100
    lines = watched(net)
    assert {**levels(lines), "updates": "ok"} == {**HEALTHY, "dead": "notice"}  # beside 100 an update is small
    (found,) = CHECKS["dead"](lines)
    assert found.evidence.startswith("1 of 60 in 3;") and "leaky-relu" in found.remedy
    with torch.no_grad():
        net[2].bias[:31] = -100
    assert levels(watched(net))["dead"] == "warning"


@pytest.mark.spec("PRA-088")
def test_saturated_units_are_named_and_outputs_are_not():
    lines = watched(network(unit=nn.Tanh, spread=20.0))
    (found,) = CHECKS["saturated"](lines)
    share = lines[-1]["layers"]["1"]["saturated"]
    assert found.level == "warning" and f"{share:.0%} of 1" in found.evidence and share > 0.5
    net = nn.Sequential(*network(hidden=()), nn.Sigmoid())
    with torch.no_grad():
        net[0].weight.mul_(1000)
    assert levels(watched(net))["saturated"] == "skipped"


@pytest.mark.spec("PRA-088")
def test_gradients_by_depth_against_autograd():
    """Norms are those of autograd's derivatives; eight layers that halve or treble them fade or blow up, 3^-8, 3^8."""
    net = network()
    X = torch.as_tensor(np.random.default_rng(0).normal(size=(50, 20)))
    monitor = Monitor(net)
    with monitor.watching():
        (net(X) ** 2).mean().backward()
    outputs = [X]
    for layer in net:
        outputs.append(layer(outputs[-1]))
    expected = torch.autograd.grad((outputs[-1] ** 2).mean(), outputs[1:])
    found = gradient_norms({**monitor.taken(), "updates": 1})
    assert list(found) == [str(j) for j in range(len(net))]
    np.testing.assert_allclose(list(found.values()), [float(one.norm()) for one in expected], rtol=1e-9)
    for factor, words in ((1 / 3, "vanished"), (3.0, "exploded")):
        deep = network((40,) * 8, spread=GAIN * factor)
        lines = watched(deep, rate=1e-12, epochs=1)
        (one,) = CHECKS["depth"](lines)
        assert one.level == "warning" and words in one.what
        norms = list(gradient_norms(lines[0]).values())
        assert norms[0] / norms[-1] == pytest.approx(factor**8, rel=2)  # width 40: a factor of 3 either way
    assert levels([{"updates": 1, "parameters": {}, "layers": {}}])["depth"] == "skipped"


@pytest.mark.spec("PRA-089")
@pytest.mark.parametrize(("rate", "words"), [(1e-9, "small"), (1.0, "large")])
def test_a_rate_far_off_is_named_with_its_factor(rate, words):
    lines = watched(network(), rate, optimizer=torch.optim.Adam)
    (found,) = CHECKS["updates"](lines)
    assert found.level == "warning" and words in found.what and "learning rate about" in found.remedy
    weights = [one["ratio"] for name, one in lines[0]["parameters"].items() if name.endswith("weight")]
    assert all(one > LARGE if words == "large" else one < SMALL for one in weights[1:-1])


@pytest.mark.spec("PRA-089")
def test_parameters_that_began_at_0_have_no_size_to_compare_with():
    """Biases move by more than their size at first; a line of weights at 0 is all from zero and says nothing."""
    lines = watched(network(), epochs=1)
    biases = [one for name, one in lines[0]["parameters"].items() if name.endswith("bias")]
    assert all(one["from_zero"] == 1 and flag(one["largest_ratio"]) == "large" for one in biases)
    line = nn.Sequential(nn.utils.skip_init(nn.Linear, 20, 1, bias=False, dtype=torch.float64))
    nn.init.zeros_(line[0].weight)
    assert levels(watched(line))["updates"] == "skipped"


def test_a_schedule_that_ends_at_0_is_not_small_and_a_first_epoch_counts():
    lines = [{"updates": 1, "layers": {}, "parameters": {"w": {"ratio": r, "from_zero": 0}}} for r in (1e-2, 1e-6)]
    assert levels(lines)["updates"] == "ok"
    lines[0]["parameters"]["w"]["ratio"] = 0.5  # weights that have blown up move little afterwards
    assert levels(lines)["updates"] == "warning"
    for one in lines:
        one["parameters"]["w"]["ratio"] = 0.0
    (found,) = CHECKS["updates"](lines)
    assert found.remedy == "a gradient that reaches them"


@pytest.fixture
def planted(monkeypatch):
    """Of every multilayer perceptron, the third hidden unit is dead from the start."""
    initialize = gnomon.MLP.initialize

    def plant(self, model: MLPModel, *rest):
        initialize(self, model, *rest)
        with torch.no_grad():
            next(layer for layer in model.modules() if isinstance(layer, nn.Linear)).bias[2] = -100

    monkeypatch.setattr(gnomon.MLP, "initialize", plant)


def test_run_and_report_name_what_is_planted(planted, tmp_path, capsys):
    data = load("iris")
    path = tmp_path / "run"
    with context(monitor=True):
        gnomon.MLP(hidden=(8,), epochs=2, learning_rate=1e-8, random_state=0).fit(data.X, data.y, run=path)
    assert command(["diagnose", str(path), "--json"]) == 0
    found = {one["check"]: one for one in json.loads(capsys.readouterr().out)["findings"]}
    assert found["dead"]["evidence"].startswith("1 of 8 in units.0") and found["dead"]["level"] == "notice"
    assert found["updates"]["level"] == "warning" and "small" in found["updates"]["what"]
    assert command(["report", str(path), "--out", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    for words in ("Gradients by depth", "began at 0", "units were off for every row", "1 of 8", "small"):
        assert words in page
    lines = RunFolder.open(path).read_monitor()
    del lines[0]["layers"]
    (path / "monitor.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    assert command(["diagnose", str(path)]) == 2
    assert "monitor.jsonl is damaged" in capsys.readouterr().err


def test_a_run_that_was_not_watched_says_so(tmp_path, capsys):
    path = tmp_path / "run"
    assert command(["fit", "ppca", "iris", "--n-components", "1", "--out", str(path)]) == 0
    capsys.readouterr()
    assert command(["diagnose", str(path), "--all"]) == 0
    assert "not looked at: inside (the fit was not watched (fit --monitor))" in capsys.readouterr().out
