"""Fits that begin from the weights of other fits: what is copied, what stays, what learns how fast."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import gnomon
import gnomon.system.initial as initial_weights
from gnomon.errors import UserError, UserTypeError, UserValueError
from gnomon.nn.batch_norm import BatchNorm
from gnomon.nn.context import training
from gnomon.numeric.noise import Noise
from gnomon.runs.initial import FineTuning
from gnomon.testing import arrays_of
from gnomon.training.context import context
from gnomon.training.gradient import Gradient
from gnomon.training.launch import launch
from gnomon.training.optimizers import SGD


def blobs(classes, n=120, seed=0, columns=12):
    """Rows (n, columns) about centers on the first four columns, mixed by one matrix that all sets share."""
    mix = np.random.default_rng(99).normal(size=(columns, columns))
    random = np.random.default_rng(seed)
    y = random.integers(0, len(classes), n)
    centers = np.random.default_rng(7).normal(size=(10, columns)) * (np.arange(columns) < 4) * 2.0
    return np.tanh((centers[np.array(classes)[y]] + random.normal(size=(n, columns))) @ mix), np.array(classes)[y]


def pictures(classes, n=60, seed=0):
    """Images (n, 8, 8) of bars at places that say the class."""
    random = np.random.default_rng(seed)
    y = np.array(classes)[random.integers(0, len(classes), n)]
    X = 0.3 * random.random((n, 8, 8))
    X[np.arange(n), y % 8] += 0.6
    return X, y


def mlp(**settings):
    return gnomon.MLP(**{"hidden": (16, 8), "epochs": 4, "random_state": 0, **settings})


def resnet(**settings):
    return gnomon.ResNet(**{"depths": (1, 1), "channels": (4, 8), "epochs": 2, "random_state": 0, **settings})


@pytest.fixture(scope="module")
def source():
    """A network of tables, with norms."""
    return mlp(batch_norm=True).fit(*blobs([0, 1, 2]))


@pytest.fixture(scope="module")
def images():
    """A network of images."""
    return resnet().fit(*pictures([0, 1, 2]))


@pytest.fixture
def first(monkeypatch):
    """The arrays of the last model that a descent began with."""
    seen = {}
    start = Gradient.start

    def spy(self, problem):
        seen.clear()
        seen.update({name: np.array(value) for name, value in problem.model.state().items()})
        return start(self, problem)

    monkeypatch.setattr(Gradient, "start", spy)
    return seen


# --- what is copied -----------------------------------------------------------------------------------------------


@pytest.mark.spec("DLN-140")
def test_all_but_the_output_layer_is_copied_before_training(source, images, first):
    for old, X, y in ((source, *blobs([4, 5, 6, 7])), (images, *pictures([4, 5, 6, 7]))):
        new = type(old)(**old.get_params()).fit(X, y, initial=old)
        theirs, last = arrays_of(old), new.initial_.fresh
        assert {name for name in first if name not in last} == set(new.initial_.copied)
        for name in new.initial_.copied:
            np.testing.assert_array_equal(first[name], theirs[name])
        assert all(first[name].shape != theirs[name].shape for name in last)
        assert {"shift", "scale"} <= set(new.initial_.copied)  # the standardization of the source
        assert list(new.classes_) == [4, 5, 6, 7]
        # the new layer is the one that chance would have given
        type(old)(**old.get_params()).fit(X, y)
        kept = [name for name in last if name.endswith("weight")]
        chance = {name: first[name].copy() for name in kept}
        type(old)(**old.get_params()).fit(X, y, initial=old)
        for name in kept:
            np.testing.assert_array_equal(first[name], chance[name])


def test_the_same_classes_keep_the_output_layer_unless_told_otherwise(source, first):
    X, y = blobs([0, 1, 2], seed=1)
    assert mlp(batch_norm=True).fit(X, y, initial=source).initial_.head == "kept"
    for name, value in arrays_of(source).items():
        np.testing.assert_array_equal(first[name], value)
    again = mlp(batch_norm=True).fit(X, y, initial=FineTuning(source, head="new"))
    assert again.initial_.head == "new" and "layers.2.weight" in again.initial_.fresh
    # other classes, as many
    other = mlp(batch_norm=True).fit(*blobs([5, 6, 7]), initial=source)
    assert other.initial_.head == "new"
    fixed = mlp(batch_norm=True).fit(*blobs([5, 6, 7]), initial=FineTuning(source, head="kept"))
    assert fixed.initial_.fresh == ()


def test_models_without_labels_keep_all_of_it_and_regressions_their_new_units(first):
    X = (blobs([0, 1])[0] > 0).astype(float)
    net = gnomon.NADE(n_hidden=4, epochs=1, random_state=0).fit(X)
    assert gnomon.NADE(n_hidden=4, epochs=1, random_state=0).fit(X, initial=net).initial_.fresh == ()
    for name, value in arrays_of(net).items():
        np.testing.assert_array_equal(first[name], value)
    old = gnomon.MLPRegression(hidden=(4,), epochs=1, random_state=0).fit(X, X[:, 0])
    gnomon.MLPRegression(hidden=(4,), epochs=1, random_state=0).fit(X, 100 * X[:, 1], initial=old)
    assert first["out_scale"][0] == pytest.approx(100 * X[:, 1].std(), rel=0.05)
    np.testing.assert_array_equal(first["layers.0.weight"], arrays_of(old)["layers.0.weight"])


def test_a_block_of_outputs_begins_anew_as_a_whole(first):
    settings = {"channels": (4, 4, 4), "epochs": 1, "random_state": 0}
    old = gnomon.NiN(**settings).fit(*pictures([0, 1]))
    new = gnomon.NiN(**settings).fit(*pictures([0, 1, 2]), initial=old)
    assert all(name.startswith("head.1.") for name in new.initial_.fresh)
    assert not any(name.startswith("head.1.") for name in new.initial_.copied)


@pytest.mark.spec("DLN-140")
def test_the_source_keeps_its_units_for_rows_of_other_units(source, first):
    X, y = blobs([4, 5])
    net = mlp(batch_norm=True).fit(100 + 5 * X, y, initial=source)
    np.testing.assert_array_equal(first["shift"], arrays_of(source)["shift"])
    assert "of the source" in net.initial_.lines()[0]


# --- what stays ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("DLN-140")
@pytest.mark.parametrize("optimizer", ["sgd", SGD(0.9, weight_decay=0.1), "adamw"])
def test_a_rate_of_zero_leaves_the_copied_as_it_is_to_the_bit(images, optimizer):
    settings = {"optimizer": optimizer, "learning_rate": 0.05, "batch_size": 7}
    X, y = pictures([4, 5, 6])
    net = resnet(**settings).fit(X, y, initial=FineTuning(images, lr_backbone=0))
    old, new = arrays_of(images), arrays_of(net)
    for name in net.initial_.copied:  # the running means of norms among them
        np.testing.assert_array_equal(new[name], old[name])
    free = arrays_of(resnet(**settings).fit(X, y, initial=images))
    moved = [name for name in net.initial_.copied if not np.array_equal(free[name], old[name])]
    assert len(moved) == len(net.initial_.copied) - 2  # all but the standardization
    assert any(name.endswith("running_mean") for name in moved)
    # afterwards everything can be learned again
    assert all(one.requires_grad for one in net.model_.parameters())
    assert not any(layer.frozen for layer in net.model_.modules() if isinstance(layer, BatchNorm))
    assert net.model_.rates == {}


@pytest.mark.spec("DLN-140")
def test_frozen_layers_are_chosen_by_pattern_and_their_norms_predict_in_training(images):
    X, y = pictures([4, 5, 6])
    net = resnet().fit(X, y, initial=FineTuning(images, freeze=("features.0*", "features.1.0.block.0")))
    old, new = arrays_of(images), arrays_of(net)
    for name in net.initial_.copied:
        stays = name.startswith(("features.0.", "features.1.0.block.0.")) or name in ("shift", "scale")
        assert np.array_equal(old[name], new[name]) == stays, name
    norm = BatchNorm(3, dtype=torch.float64)
    norm.running_mean.copy_(torch.tensor([1.0, 2.0, 3.0]))
    norm.frozen = True
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(5, 3)))
    with training(Noise(0, "fit")):
        np.testing.assert_allclose(norm(x).detach(), (x - norm.running_mean) / np.sqrt(1 + 1e-5), rtol=1e-12)
    np.testing.assert_array_equal(norm.running_mean, [1, 2, 3])


# --- what learns how fast -----------------------------------------------------------------------------------------


@pytest.mark.spec("DLN-140")
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_first_steps_are_in_the_ratio_of_the_rates(optimizer, first):
    X, y = blobs([0, 1, 2])
    old = mlp().fit(X, y)
    one = {
        "optimizer": optimizer,
        "learning_rate": 0.01,
        "max_updates": 1,
        "batch_size": None,
        "l2": 0.0,
        "dtype": "float64",
    }
    same = {"head": "kept"}

    def moves(**tuning):
        net = mlp(**one).fit(X, y, initial=FineTuning(old, **same, **tuning))
        return {name: value - first[name] for name, value in arrays_of(net).items() if name.startswith("layers")}

    whole = moves()
    apart = moves(lr_backbone=0.001, lr_head=0.5)
    decayed = moves(lr_decay=0.25)
    both = moves(lr_backbone=0.02, lr_decay=0.5)
    for name, step in whole.items():
        depth = 2 - int(name.split(".")[1])
        assert np.abs(step).max() > 0
        np.testing.assert_allclose(apart[name], step * (0.1 if depth else 50.0), rtol=1e-6, atol=1e-13)
        np.testing.assert_allclose(decayed[name], step * 0.25**depth, rtol=1e-6, atol=1e-13)
        np.testing.assert_allclose(both[name], step * ((2.0 if depth else 1.0) * 0.5**depth), rtol=1e-6, atol=1e-13)


def test_a_schedule_moves_all_rates_and_norms_are_as_deep_as_their_layers(source):
    seen = []
    step = Gradient.set_rate

    def spy(self, state, epoch):
        step(self, state, epoch)
        rates = {}
        for part in state.parts:
            for group in part.optimizer.param_groups:
                members = {id(one) for one in group["params"]}
                rates |= {name: group["lr"] for name, one in part.parameters.items() if id(one) in members}
        seen.append(rates)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Gradient, "set_rate", spy)
        net = mlp(batch_norm=True, schedule="linear", epochs=3, learning_rate=0.1)
        net.fit(*blobs([4, 5]), initial=FineTuning(source, lr_decay=0.5))
    for rates in seen:
        top = rates["layers.2.weight"]
        assert rates["layers.1.weight"] == rates["norms.1.gain"] == pytest.approx(top / 2)
        assert rates["layers.0.weight"] == rates["norms.0.shift"] == pytest.approx(top / 4)
    assert seen[0]["layers.2.weight"] == pytest.approx(0.1) and seen[-1]["layers.2.weight"] < 0.1


def parities(n, seed, related=False):
    """Rows of ten columns, and which of two pairs of columns have the same sign; of the related task, whether none."""
    X = np.random.default_rng(seed).normal(size=(n, 10))
    odd = [(X[:, k] > 0) ^ (X[:, k + 1] > 0) for k in (0, 2)]
    return X, 5 + (odd[0] & odd[1]) if related else 2 * odd[0] + odd[1]


@pytest.mark.spec("DLN-140")
def test_the_loss_of_a_related_task_is_lower_than_from_chance():
    """Fixed seeds: 60 rows, for which signs have to be multiplied as the source has learned to."""
    settings = {"hidden": (32,), "batch_size": 64, "learning_rate": 0.01, "epochs": 20}
    old = mlp(**settings).fit(*parities(1600, 0))
    rows, labels = parities(500, 1, related=True)
    for seed in range(3):
        X, y = parities(60, 10 + seed, related=True)

        def loss(initial, seed=seed, X=X, y=y):
            p = mlp(**{**settings, "random_state": seed}).fit(X, y, initial=initial).predict_proba(rows)
            return -np.log(p[np.arange(len(rows)), labels - 5]).mean()

        chance = loss(None)
        assert loss(old) < chance - 0.1
        assert loss(FineTuning(old, lr_backbone=0)) < chance - 0.1


# --- runs ---------------------------------------------------------------------------------------------------------


class Stop(Exception):
    """Raised in the midst of a fit."""


@pytest.mark.parametrize("early", ["off", "refit"])
def test_a_killed_fit_ends_as_a_whole_one_to_the_bit(images, tmp_path, early):
    folder = str(images.save(tmp_path / "source"))
    X, y = pictures([4, 5, 6])
    tuning = FineTuning(folder, freeze=("features.0",), lr_backbone=5e-4, lr_decay=0.5)
    settings = {"epochs": 4, "batch_size": 9}
    if early == "refit":
        settings["early_stopping"] = "refit"
    whole = resnet(**settings).fit(X, y, initial=tuning)

    def stop(step, record):
        if record.get("epoch") == 2:
            raise Stop

    with context(checkpoint_every=1, callbacks=(stop,)), pytest.raises(Stop):
        resnet(**settings).fit(X, y, initial=tuning, run=tmp_path / "run")
    again = gnomon.resume(tmp_path / "run", X, y)
    for name, value in arrays_of(whole).items():
        np.testing.assert_array_equal(arrays_of(again)[name], value)
    assert again.initial_ == whole.initial_


def test_a_run_refuses_weights_that_have_changed_or_cannot_be_read_again(source, tmp_path):
    X, y = blobs([4, 5])
    with pytest.raises(UserValueError, match="must begin from a path"):
        mlp(batch_norm=True).fit(X, y, initial=source, run=tmp_path / "no")
    assert not (tmp_path / "no").exists()
    file = tmp_path / "w.safetensors"
    save_file({name: torch.tensor(value) for name, value in arrays_of(source).items()}, file)

    def stop(step, record):
        raise Stop

    with context(checkpoint_every=1, callbacks=(stop,)), pytest.raises(Stop):
        mlp(batch_norm=True).fit(X, y, initial=file, run=tmp_path / "run")
    other = mlp(batch_norm=True, random_state=5).fit(*blobs([0, 1, 2]))
    save_file({name: torch.tensor(value) for name, value in arrays_of(other).items()}, file)
    with pytest.raises(UserValueError, match="have changed since the fit began"):
        gnomon.resume(tmp_path / "run", X, y)


def of_processes(folder):
    """Arrays of a fit in this process, or in this group."""
    X, y = pictures([4, 5, 6], n=31)
    tuning = FineTuning(folder, freeze=("features.0",), lr_backbone=5e-4, lr_decay=0.5)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    return arrays_of(resnet(batch_size=7, dtype="float64").fit(X, y, sample_weight=weight, initial=tuning))


@pytest.mark.slow
def test_one_and_two_processes_fit_the_same(images, tmp_path):
    folder = str(images.save(tmp_path / "source"))
    alone, together = of_processes(folder), launch(of_processes, folder, devices=2)
    for name, value in alone.items():
        np.testing.assert_allclose(together[name], value, rtol=0, atol=1e-9)


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "tuning", "words"),
    [
        ({"hidden": (16, 9)}, {}, r"layers.1.weight has shape \(9, 16\) in this network, and \(8, 16\) in the fitted"),
        ({"hidden": (16, 8, 4)}, {}, r"layers.2.weight has shape \(4, 8\) in this network, and \(3, 8\)"),
        ({"hidden": (16,)}, {"fresh": "layers.1"}, r"the fitted mlp has layers.2.weight with shape \(3, 8\), which"),
        ({"batch_norm": False}, {}, "has no layers.0.bias, which this network has"),
        ({}, {"freeze": "stem*"}, "freeze: 'stem\\*' is the name of no parameter"),
        ({}, {"freeze": "*"}, "freeze must leave something to learn"),
        ({}, {"fresh": "stem"}, "fresh: 'stem' is the name of no parameter"),
        ({}, {"fresh": "*"}, "fresh must leave something to copy"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(source, settings, tuning, words):
    net = mlp(**{"batch_norm": True, **settings})
    with pytest.raises(UserError, match=words):
        net.fit(*blobs([4, 5]), initial=FineTuning(source, **tuning))
    assert not hasattr(net, "initial_") and not hasattr(net, "model_")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"freeze": 3}, "freeze must be a tuple of patterns"),
        ({"fresh": ("",)}, "fresh must be a tuple of patterns"),
        ({"head": "old"}, "head must be auto, new or kept"),
        ({"lr_backbone": -1}, "lr_backbone must be at least 0"),
        ({"lr_backbone": "1"}, "lr_backbone must be a number"),
        ({"lr_head": float("nan")}, "lr_head must be at least 0 and finite"),
        ({"lr_head": 0}, "lr_head must be above 0"),
        ({"lr_decay": 0}, "lr_decay must be above 0 and at most 1"),
        ({"lr_decay": 2.0}, "lr_decay must be above 0 and at most 1"),
        ({"lr_decay": None}, "lr_decay must be above 0 and at most 1"),
        ({"lr_decay": True}, "lr_decay must be a number"),
    ],
)
def test_settings_of_another_kind_are_refused(values, words):
    with pytest.raises(UserError, match=words):
        FineTuning("runs/a", **values)


def test_rates_of_numpy_are_those_of_python():
    tuning = FineTuning("runs/a", lr_backbone=np.float32(0.5), lr_head=np.int64(2))
    assert json.dumps(tuning.to_json()) == '{"source": "runs/a", "lr_backbone": 0.5, "lr_head": 2.0}'


def test_a_run_that_is_begun_from_is_read_once(source, tmp_path, monkeypatch):
    pandas = pytest.importorskip("pandas")
    X, y = blobs([0, 1])
    frame = pandas.DataFrame(X, columns=[f"c{i}" for i in range(12)]).assign(kind=np.where(y == 1, "a", "b"))
    old = mlp().fit(frame, y).save(tmp_path / "a run")
    loaded, load = [], initial_weights.load
    monkeypatch.setattr(initial_weights, "load", lambda path: loaded.append(path) or load(path))
    mlp().fit(frame, y, initial=old)
    assert len(loaded) == 1
    with pytest.raises(UserValueError, match=r"'.*/a run/net.pt' '.*/a run/net.safetensors'"):
        mlp().fit(X, y, initial=tmp_path / "a run" / "net.pt")


def test_sources_of_another_kind_are_refused(source, tmp_path):
    X, y = blobs([4, 5])
    (tmp_path / "bad.safetensors").write_bytes(b"no")
    for name, words in {
        "net.pth": "is a pickle, which may run code",
        "nowhere": "does not exist",
        "bad.safetensors": "must be a run or a .safetensors file",
    }.items():
        with pytest.raises(UserValueError, match=words) as caught:
            mlp().fit(X, y, initial=tmp_path / name)
        assert "\n" not in str(caught.value)
    with pytest.raises(UserValueError, match="the mlp to begin from is not fitted"):
        mlp().fit(X, y, initial=mlp())
    with pytest.raises(UserTypeError, match="must be a run"):
        mlp().fit(X, y, initial=3)
    with pytest.raises(UserTypeError, match="networks learning by gradient, got rbm"):
        gnomon.fit("rbm", "digits", initial=source)
    save_file({"layers.0.weight": torch.full((16, 12), torch.nan)}, tmp_path / "nan.safetensors")
    with pytest.raises(UserValueError, match="not finite"):
        mlp().fit(X, y, initial=tmp_path / "nan.safetensors")


def test_a_vocabulary_and_columns_must_be_those_of_the_source():
    pandas = pytest.importorskip("pandas")
    settings = {"n_embedding": 4, "n_hidden": 4, "epochs": 1, "early_stopping": "off", "random_state": 0}
    net = gnomon.RNNLM(**settings).fit("the cat sat on the mat . " * 20)
    again = gnomon.RNNLM(**settings).fit("the mat sat on the cat . " * 20, initial=net)
    assert again.initial_.fresh == ()
    with pytest.raises(UserValueError, match="the token vocabulary must be that of the fitted rnn-lm"):
        gnomon.RNNLM(**settings).fit("a dog ran by the sea . " * 20, initial=net)
    X, y = blobs([0, 1])
    frame = pandas.DataFrame(X, columns=[f"c{i}" for i in range(12)])
    old = mlp().fit(frame, y)
    with pytest.raises(UserValueError, match="the columns must be those of the fitted mlp, in their order, got 'c1'"):
        mlp().fit(frame[[f"c{i}" for i in (1, 0, *range(2, 12))]], y, initial=old)


@pytest.mark.spec("DLN-140")
def test_images_must_be_made_ready_as_those_of_the_source(images, first):
    X, y = pictures([4, 5, 6])
    with pytest.raises(UserValueError, match="preprocess must be that of the fitted resnet, None, got GCN"):
        resnet(preprocess="gcn").fit(X, y, initial=images)
    old = resnet(preprocess="pixel-mean").fit(*pictures([0, 1, 2]))
    new = resnet(preprocess="pixel-mean").fit(X, y, initial=old)
    learned = [name for name in first if name.startswith("preparation.")]
    assert learned and set(learned) <= set(new.initial_.copied)
    for name in learned:
        np.testing.assert_array_equal(first[name], arrays_of(old)[name])


# --- the command line, files of others ----------------------------------------------------------------------------


def test_the_command_line_begins_from_a_run(tmp_path, monkeypatch, capsys):
    from gnomon.cli.main import run as main
    from gnomon.runs.folder import RunFolder

    monkeypatch.chdir(tmp_path)
    fit = ["fit", "mlp", "iris", "--hidden", "4", "--epochs", "2", "--random-state", "0"]
    assert main([*fit, "--out", "a"]) == 0
    assert (
        main([*fit, "--out", "b", "--initial", "a", "--head", "new", "--freeze", "layers.0*", "--lr-head", "0.1"]) == 0
    )
    said = capsys.readouterr()
    assert "begin anew: out_shift, out_scale, layers.1.weight, layers.1.bias" in said.err
    a, b = (arrays_of(gnomon.load(name)) for name in "ab")
    np.testing.assert_array_equal(a["layers.0.weight"], b["layers.0.weight"])
    begun = RunFolder.open("b").config["initial"]
    assert begun["freeze"] == ["layers.0*"] and begun["lr_head"] == 0.1 and begun["source"].endswith("/a")
    assert main(["info", "b"]) == 0
    assert "lr_head 0.1" in capsys.readouterr().out
    assert main([*fit, "--freeze", "x"]) == 2
    assert "--freeze needs --initial" in capsys.readouterr().err
    assert main([*fit, "--initial", "a", "--hidden", "5", "--out", "c"]) == 2
    assert "layers.0.weight has shape (5, 4)" in capsys.readouterr().err and not (tmp_path / "c").exists()


def torch_vgg(path):
    """A small network as torchvision's vgg with norms names it, saved; the network."""
    layers, inputs = [], 3
    with torch.random.fork_rng():
        for channels in (4, 6):
            layers += [nn.Conv2d(inputs, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(), nn.MaxPool2d(2)]
            inputs = channels
        net = nn.Sequential()
        net.features, net.flat = nn.Sequential(*layers), nn.Flatten()
        net.classifier = nn.Sequential(nn.Linear(24, 5), nn.ReLU(), nn.Dropout(), nn.Linear(5, 3))
    random = torch.Generator().manual_seed(0)
    for name, value in net.state_dict().items():
        if value.is_floating_point():
            value.copy_(torch.rand(value.shape, generator=random) + (0.5 if "var" in name else -0.5))
    save_file(net.state_dict(), path)
    return net.double().eval()


def test_weights_of_torchvision_names_answer_as_torch_does(tmp_path):
    """Biases before norms, as its vgg has them, and the standardization of its weights."""
    theirs = torch_vgg(tmp_path / "vgg.safetensors")
    X = np.random.default_rng(0).random((12, 8, 8, 3))
    settings = {"convolutions": (1, 1), "channels": (4, 6), "hidden": (5,), "max_updates": 1, "random_state": 0}
    tuning = FineTuning(tmp_path / "vgg.safetensors", head="kept", lr_head=1e-30, lr_backbone=0)
    net = gnomon.VGG(**settings, dtype="float64").fit(X, np.arange(12) % 3, initial=tuning)
    mean, spread = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    with torch.no_grad():
        answers = theirs(torch.from_numpy((X - mean) / spread).permute(0, 3, 1, 2)).softmax(1)
    np.testing.assert_allclose(net.predict_proba(X), answers, rtol=1e-6)
    assert "0.485" in net.initial_.lines()[0]
    with pytest.raises(UserValueError, match=r"features.1.0.0.weight \(features.4.weight\) has shape \(7, 4, 3, 3\)"):
        gnomon.VGG(**{**settings, "channels": (4, 7)}).fit(X, np.arange(12) % 3, initial=tuning)
    with pytest.raises(UserValueError, match="the layers of torchvision's vgg or alexnet, got resnet"):
        resnet().fit(X, np.arange(12) % 3, initial=tuning)
    save_file({"inception3a.branch1.conv.weight": torch.zeros(1)}, tmp_path / "g.safetensors")
    with pytest.raises(UserValueError, match="torchvision's googlenet, which has windows 3 x 3"):
        gnomon.GoogLeNet(epochs=1).fit(X, np.arange(12) % 3, initial=tmp_path / "g.safetensors")
