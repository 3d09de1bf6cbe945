"""LeNet against its layers written out in NumPy, finite differences, a training loop by hand, and forms of data."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import expit, log_softmax
from sklearn.datasets import load_digits
from torch.nn import functional

import gnomon
from gnomon.cli.main import run
from gnomon.distributions.domains import Domain, Real
from gnomon.errors import UserError, UserValueError
from gnomon.nn.activations import Activation, Sigmoid, Tanh
from gnomon.nn.context import training
from gnomon.nn.initializers import XavierUniform
from gnomon.nn.pooling import AveragePooling
from gnomon.numeric.convolution import correlate2d
from gnomon.numeric.noise import Noise
from gnomon.recipes.recipe import named, shorts
from gnomon.systems.vision.lenet import LeNet, LeNetModel
from gnomon.testing import arrays_of
from gnomon.training.stopping import EarlyStopping
from oracles.tables import mixed, write

TINY = {"channels": (2, 3), "hidden": (10, 8), "dropout": 0.0, "epochs": 4, "batch_size": 16, "random_state": 0}


def digits(n=120):
    bunch = load_digits()
    return bunch.images[:n] / 16, bunch.target[:n]


def model(shape=(28, 28, 1), classes=10, **options):
    made = LeNetModel(shape, classes, dtype=torch.float64, **options)
    made.initialize(XavierUniform(), Noise(0, "test"))
    return made


@pytest.mark.spec("DLN-118")
def test_shapes_and_parameters_of_the_row():
    net = LeNetModel((28, 28, 1), 10)
    x = torch.zeros(1, 28, 28, 1)
    first = net.features[:3](net.first(x))
    assert first.shape == (1, 6, 14, 14)
    second = net.features[3:](first)
    assert second.shape == (1, 16, 5, 5)
    assert net.dense[0].in_features == 400
    assert net.n_parameters == 61_706
    assert net.scores(x).shape == (1, 10)


def pooled(x, average):
    """Windows of 2 x 2 of a map, whole ones only."""
    rows, columns = x.shape[0] // 2, x.shape[1] // 2
    windows = x[: 2 * rows, : 2 * columns].reshape(rows, 2, columns, 2)
    return windows.mean((1, 3)) if average else windows.max((1, 3))


def by_hand(images, state, padding, average):
    """Scores with sigmoid units: correlations of every pair of maps, pooling, affine layers."""
    scores = []
    for image in images:
        maps = [(image[..., c] - state["shift"][c]) / state["scale"][c] for c in range(image.shape[2])]
        for name, pad in (("features.0", 2), ("features.3", padding)):
            kernel, bias = state[f"{name}.weight"], state[f"{name}.bias"]
            fields = [
                bias[o] + sum(correlate2d(np.pad(one, pad), kernel[o, c]) for c, one in enumerate(maps))
                for o in range(len(kernel))
            ]
            maps = [pooled(expit(field), average) for field in fields]
        h = np.concatenate([one.ravel() for one in maps])
        for name in ("dense.0", "dense.1"):
            h = expit(state[f"{name}.weight"] @ h + state[f"{name}.bias"])
        scores.append(state["dense.2.weight"] @ h + state["dense.2.bias"])
    return np.array(scores)


@pytest.mark.spec("DLN-118")
@pytest.mark.parametrize(
    ("shape", "padding"), [((28, 28, 1), 0), ((12, 13, 2), 0), ((8, 8, 1), 2), ((11, 30, 3), 2), ((4, 5, 1), 2)]
)
@pytest.mark.parametrize("average", [False, True])
def test_scores_are_the_layers_written_out(shape, padding, average):
    net = model(shape, 3, activation=Sigmoid(), **({"pooling": AveragePooling()} if average else {}))
    random = np.random.default_rng(0)
    with torch.no_grad():
        for parameter in net.parameters():  # biases too
            parameter.add_(torch.from_numpy(0.1 * random.normal(size=tuple(parameter.shape))))
        net.shift.copy_(torch.from_numpy(random.random(shape[2])))
        net.scale.copy_(torch.from_numpy(0.5 + random.random(shape[2])))
    images = random.random((2, *shape))
    found = net.scores(torch.from_numpy(images)).detach().numpy()
    np.testing.assert_allclose(found, by_hand(images, net.state(), padding, average), atol=1e-12)


@pytest.mark.spec("DLN-118")
def test_gradients_by_finite_differences():
    net = model((8, 8, 1), 3, channels=(2, 2), hidden=(4, 3), activation=Tanh(), pooling=AveragePooling())
    random = np.random.default_rng(1)
    x, y = torch.from_numpy(random.random((3, 8, 8, 1))), torch.tensor([0, 2, 1])
    names = [name for name, _ in net.named_parameters()]

    def loss(*values):
        scores = torch.func.functional_call(Scored(net), {f"net.{n}": v for n, v in zip(names, values, strict=True)}, x)
        return functional.cross_entropy(scores, y, reduction="none")

    assert torch.autograd.gradcheck(loss, tuple(p.detach().clone().requires_grad_() for p in net.parameters()))


class Scored(torch.nn.Module):
    """A module whose call gives the scores."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net.scores(x)


@pytest.mark.spec("DLN-118")
def test_it_learns_64_images_by_heart():
    X, y = digits(64)
    X = np.pad(X, [(0, 0), (2, 2), (2, 2)])
    options = {"batch_size": 16, "schedule": "constant", "dropout": 0.0, "random_state": 0}
    ways = ({"epochs": 30}, {"activation": "sigmoid", "learning_rate": 1e-2, "epochs": 80})
    for way in (*ways, {"pooling": "average", "epochs": 80}):
        fitted = LeNet(**options, **way).fit(X, y)
        assert fitted.score(X, y) == 1.0


@pytest.mark.spec("DLN-118")
def test_a_fit_is_the_loop_that_one_would_write():
    """Adam with a cosine schedule on the mean cross-entropy, from the same weights in the same order, ends alike."""
    X, y = digits(50)
    fitted = LeNet(**TINY).fit(X, y)
    noise = Noise(0, "fit")
    begun = LeNet(**TINY)
    table = begun.ingest(X, y)
    net = begun.make(**begun.arguments(table))
    begun.initialize(net, table, noise.child("initial"))
    pixels, codes = torch.from_numpy(table.X), torch.from_numpy(table.y)
    assert net.shift.item() == pytest.approx(X.mean())
    assert net.scale.item() == pytest.approx(X.std())
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    for epoch in range(4):
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * 0.5 * (1 + np.cos(np.pi * epoch / 4))
        order = torch.from_numpy(np.asarray(noise.child("order").at(epoch).order(50)))
        for rows in order.split(16):
            optimizer.zero_grad()
            functional.cross_entropy(net.scores(pixels[rows]), codes[rows]).backward()
            optimizer.step()
    for name, value in net.state().items():
        np.testing.assert_allclose(arrays_of(fitted)[name], value, rtol=0, atol=1e-10, err_msg=name)


@pytest.mark.spec("DLN-118")
def test_answers_are_the_softmax_of_the_scores():
    X, y = digits()
    fitted = LeNet(**TINY).fit(X, np.array(["zero", "one", "two"])[y % 3])
    assert fitted.classes_.tolist() == ["one", "two", "zero"]
    scores = fitted.model_.scores(torch.from_numpy(X[..., None])).detach().numpy()
    np.testing.assert_allclose(fitted.predict_proba(X), np.exp(log_softmax(scores, axis=1)), atol=1e-12)
    np.testing.assert_array_equal(fitted.predict(X), fitted.classes_[scores.argmax(1)])
    alone = np.concatenate([fitted.predict_proba(X[i : i + 1]) for i in range(9)])
    np.testing.assert_allclose(fitted.predict_proba(X)[:9], alone, atol=1e-10)


def test_many_images_are_answered_in_chunks(monkeypatch):
    X, y = digits()
    fitted = LeNet(**TINY).fit(X, y)
    whole = fitted.predict_proba(X)
    monkeypatch.setattr(type(fitted.model_), "chunk", 64 * 7)
    np.testing.assert_allclose(fitted.predict_proba(X), whole, atol=1e-12)


FORMS = {
    "three axes": ({}, lambda X: X),
    "four axes": ({}, lambda X: X[..., None]),
    "flat rows": ({"image_shape": (8, 8)}, lambda X: X.reshape(-1, 64)),
    "flat rows and a channel": ({"image_shape": (8, 8, 1)}, lambda X: X.reshape(-1, 64)),
    "a frame": ({"image_shape": (8, 8)}, lambda X: pd.DataFrame(X.reshape(-1, 64)).rename(columns="p{}".format)),
    "declared, not flat": ({"image_shape": (8, 8)}, lambda X: X),
    "another layout": ({}, lambda X: np.asfortranarray(X)),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_images_fit_alike(form):
    X, y = digits()
    reference = LeNet(**TINY).fit(X, y)
    options, shaped = FORMS[form]
    fitted = LeNet(**TINY, **options).fit(shaped(X), y)
    for name, value in arrays_of(reference).items():
        np.testing.assert_array_equal(arrays_of(fitted)[name], value)
    np.testing.assert_array_equal(fitted.predict(shaped(X)), reference.predict(X))
    assert fitted.n_features_in_ == 64
    assert hasattr(fitted, "feature_names_in_") == (form == "a frame")


def test_flat_rows_are_images_of_the_fits_shape():
    X, y = digits()
    fitted = LeNet(**TINY).fit(X, y)
    np.testing.assert_array_equal(fitted.predict(X.reshape(-1, 64)), fitted.predict(X))


def test_bytes_are_divided_by_255_with_a_notice():
    X, y = digits()
    levels = np.rint(X * 255).astype(np.uint8)
    with pytest.warns(UserWarning, match=r"bytes 0\.\.255: taken as grey levels and divided by 255"):
        fitted = LeNet(**TINY).fit(levels, y)
    plain = LeNet(**TINY).fit(levels.astype(np.float32) / np.float32(255), y)
    for name, value in arrays_of(plain).items():
        np.testing.assert_array_equal(arrays_of(fitted)[name], value)
    np.testing.assert_array_equal(fitted.predict(levels), plain.predict(levels))
    with pytest.raises(UserValueError, match=r"no byte in X is above 1.*bool or float"):
        LeNet(**TINY).fit((X > 0.5).astype(np.uint8), y)
    fitted.predict((X > 0.5).astype(np.uint8))  # a dark image may come later


@pytest.mark.parametrize(
    ("spoil", "parts"),
    [
        (lambda X: X * 16, ["image 0, row 0, column 2", "got 5", "255"]),
        (lambda X: (X * 16).astype(np.int64), ["got 5", "uint8"]),
        (lambda X: np.where(X[3, 4, 5] == X, np.nan, X), ["NaN", "image"]),
        (lambda X: X[:, :3], ["images of 3 x 8 are too small", "4 x 4"]),
        (lambda X: X.reshape(-1, 64), ["flat rows of 64", "image_shape=(8, 8)"]),
        (lambda X: X[:, None], ["channels first"]),
        (lambda X: X[:0], ["0 sample"]),
        (lambda X: gnomon.data.load("digits"), ["view('images')"]),
    ],
)
def test_what_cannot_be_fitted_is_refused_in_one_line(spoil, parts):
    X, y = digits()
    bad = spoil(X)
    with pytest.raises(UserError) as caught:
        LeNet(**TINY).fit(bad, y[: len(bad)])
    said = str(caught.value)
    assert all(part in said for part in parts), said
    assert "\n" not in said


def test_images_of_another_size_are_refused_in_one_line():
    X, y = digits()
    fitted = LeNet(**TINY).fit(X, y)
    for other, words in (
        (X[:, :7], "X must have images of 8 x 8, got 7 x 8"),
        (X[:, :7].reshape(-1, 56), "56 numbers a row"),
    ):
        with pytest.raises(UserValueError, match=words):
            fitted.predict(other)
    with pytest.raises(UserValueError, match="X must have images of 9 x 9, got 8 x 8"):
        LeNet(**TINY, image_shape=(9, 9)).fit(X, y)
    with pytest.raises(UserValueError, match=r"validation: X.*images"):
        LeNet(**TINY).fit(X, y, validation=(X[:, 1:], y))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"channels": (6,)}, "channels"),
        ({"channels": (6, 0)}, "channels"),
        ({"hidden": (120, 84, 3)}, "hidden"),
        ({"hidden": 120}, "hidden"),
        ({"image_shape": (8,)}, "image_shape"),
        ({"image_shape": (8, 8.5)}, "image_shape"),
        ({"activation": "threshold"}, "no gradient passes threshold"),
        ({"activation": "rely"}, "did you mean 'relu'"),
        ({"pooling": "mean"}, "pooling"),
        ({"epochs": 0}, "epochs"),
    ],
)
def test_parameters_are_refused_in_one_line(options, words):
    X, y = digits()
    with pytest.raises(UserError, match=words) as caught:
        LeNet(**{**TINY, **options}).fit(X, y)
    assert "\n" not in str(caught.value)


def test_colors_and_channels_of_their_own_scale():
    X, y = digits()
    color = np.stack([X, 0.1 * X + 0.2, 1 - X], axis=-1)
    fitted = LeNet(**TINY).fit(color, y, sample_weight=np.arange(120.0))
    weight = np.arange(120.0) / np.arange(120.0).sum()
    mean = np.tensordot(weight, color.mean((1, 2)), 1)
    np.testing.assert_allclose(fitted.model_.shift, mean, atol=1e-12)
    spread = np.sqrt(np.tensordot(weight, ((color - mean) ** 2).mean((1, 2)), 1))
    np.testing.assert_allclose(fitted.model_.scale, spread, atol=1e-12)
    np.testing.assert_array_equal(fitted.predict(color.reshape(120, -1)), fitted.predict(color))


def test_a_weight_is_so_many_images():
    X, y = digits(60)
    options = {**TINY, "batch_size": None, "epochs": 6, "optimizer": "sgd", "learning_rate": 0.05}
    weight = np.random.default_rng(1).integers(0, 4, size=60)
    weighted = LeNet(**options).fit(X, y, sample_weight=weight.astype(float))
    repeated = LeNet(**options).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    for name, value in arrays_of(repeated).items():
        np.testing.assert_allclose(arrays_of(weighted)[name], value, rtol=0, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("short", sorted(set(shorts(Activation)) - {"threshold"}))
def test_every_activation_learns_in_every_layer(short):
    X, y = digits(40)
    fitted = LeNet(**{**TINY, "epochs": 1}, activation=short).fit(X, y)
    begun = LeNet(**TINY, activation=short)
    table = begun.ingest(X, y)
    net = begun.make(**begun.arguments(table))
    begun.initialize(net, table, Noise(0, "fit").child("initial"))
    for name, value in arrays_of(fitted).items():
        moved = np.abs(value - net.state()[name]).max()
        assert (moved > 0) == (name not in ("shift", "scale")), name
    widening = named(Activation, short)().widening
    assert fitted.model_.features[0].out_channels == 2 * widening


def test_dropout_thins_the_dense_layers_in_training_alone():
    X, y = digits(40)
    fitted = LeNet(**{**TINY, "dropout": 0.5}).fit(X, y)
    net, noise = fitted.model_, Noise(3, "fit").rows(np.arange(40))
    net.bind()
    images = torch.from_numpy(X[..., None])
    h = net.features(net.first(images)).flatten(1)
    for k, (layer, width) in enumerate(zip(net.dense, TINY["hidden"], strict=False)):
        kept = noise.child(f"drops.{k}").uniform((40, width), like=torch.zeros((), dtype=torch.float64)) < 0.5
        h = torch.relu(layer(h)) * kept * 2
    with training(noise):
        torch.testing.assert_close(net.scores(images), net.dense[2](h))
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(X)).sum(1), 1)
    np.testing.assert_array_equal(fitted.predict_proba(X), fitted.predict_proba(X))


def test_early_stopping_keeps_the_best_weights():
    X, y = digits(200)
    validation = (X[150:], y[150:])
    stopping = EarlyStopping(patience=3)
    fitted = LeNet(**{**TINY, "epochs": 60, "learning_rate": 0.02}, early_stopping=stopping).fit(
        X[:150], y[:150], validation=validation
    )
    losses = fitted.history_["validation_cross_entropy"]
    assert len(losses) < 60
    assert -fitted.evaluate(*validation)["log_likelihood"].value == pytest.approx(min(losses), abs=1e-9)


def test_grey_levels_by_name_through_the_command_line(tmp_path, capsys):
    from gnomon.cli.main import run

    out = tmp_path / "run"
    arguments = [
        "fit",
        "lenet",
        "digits",
        "--epochs",
        "2",
        "--channels",
        "3x4",
        "--random-state",
        "0",
        "--out",
        str(out),
    ]
    assert run([*arguments, "--json"]) == 0
    fitted = gnomon.load(out)
    assert fitted.arguments_["shape"] == [8, 8, 1]
    assert fitted.model_.shift.item() == pytest.approx(load_digits().data.mean() / 16, rel=0.02)
    X, _ = digits(5)
    assert run(["predict", str(out), "digits", "--out", str(tmp_path / "p.csv")]) == 0
    predicted = pd.read_csv(tmp_path / "p.csv")["prediction"].to_numpy()
    np.testing.assert_array_equal(predicted[:5], fitted.predict(X))
    capsys.readouterr()
    assert run(["evaluate", str(out)]) == 0
    assert "accuracy" in capsys.readouterr().out


def test_it_stands_on_one_leaderboard_with_classifiers_of_tables():
    (board,) = gnomon.compare([LeNet(**TINY), "softmax-regression", LeNet(**{**TINY, "channels": (4, 6)})], "digits")
    assert sorted(line.name for line in board.lines) == ["class shares", "lenet", "lenet", "softmax-regression"]
    train, test = gnomon.data.split(gnomon.data.load("digits"), test=0.2, seed=0)
    alone = LeNet(**TINY).fit(train.view("images"), train.view("labels"))
    found = [line.score.value for line in board.lines if line.name == "lenet"]
    assert alone.evaluate(test.view("images"), test.view("labels"))["accuracy"].value in found


class Pictures(Domain):
    """Takes any table of numbers for images of 4 x 4: its columns over and over, squeezed into (0, 1)."""

    def check(self, X, **options):
        numbers = Real().check(X, **options)
        if not numbers.size:
            return numbers
        places = np.arange(16) % numbers.shape[1]
        squeezed = (0.5 + np.arctan(numbers) / np.pi).astype(numbers.dtype)
        return np.ascontiguousarray(squeezed[:, places]).reshape(-1, 4, 4, 1)

    def columns(self, X, field):
        return X if hasattr(X, "columns") else np.asarray(X)


class AnyTable(LeNet):
    """For scikit-learn's checks."""

    domain = Pictures()


def test_scikit_learns_checks():
    import warnings

    from sklearn.utils.estimator_checks import check_estimator

    state = np.random.get_state()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(
            AnyTable(**{**TINY, "epochs": 30, "batch_size": None, "learning_rate": 0.05}), on_skip=None, on_fail=None
        )
    np.random.set_state(state)
    failed = [(r["check_name"], repr(r["exception"])) for r in results if r["status"] in ("failed", "xfail")]
    assert not failed
    assert len(results) > 40


def test_shapes_by_the_rule_of_small_images():
    for side, channels in itertools.product((4, 5, 8, 11, 12, 13, 28, 32), (1, 3)):
        padding = 0 if side >= 12 else 2
        left = (side // 2 + 2 * padding - 4) // 2
        net = LeNetModel((side, side, channels), 7)
        expected = (25 * channels + 1) * 6 + (25 * 6 + 1) * 16 + (16 * left**2 + 1) * 120 + 121 * 84 + 85 * 7
        assert net.n_parameters == expected
        assert net.scores(torch.zeros(2, side, side, channels)).shape == (2, 7)
    with pytest.raises(UserValueError, match="images of 3 x 9 are too small"):
        LeNetModel((3, 9, 1), 7)


def test_a_table_of_mixed_columns_is_refused_with_what_to_use(tmp_path, capsys):
    """No advice to prepare the table: that would not make images of it."""
    table = mixed(30)
    file = write(table, tmp_path / "t.csv")
    told = r"^images are taken here, not a table of mixed columns \((t.csv|X)\); give a folder of images or an array "
    for door in (
        lambda: gnomon.fit("lenet", str(file), target="alive"),
        lambda: gnomon.compare(["lenet"], str(file), target="alive"),
        lambda: LeNet().fit(table.drop(columns="alive"), table["alive"]),
    ):
        with pytest.raises(UserError, match=told + r"\(n, rows, columns\); for a table choose mlp or random-forest"):
            door()
    assert run(["fit", "lenet", str(file), "--target", "alive", "--out", str(tmp_path / "r")]) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert "images are taken here" in said and "Preparation" not in said and not (tmp_path / "r").exists()
