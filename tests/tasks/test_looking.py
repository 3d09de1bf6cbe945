"""What a network looks at, for people: commands and the section of the report against the verbs of the network."""

import numpy as np
import pytest
from PIL import Image

import gnomon
from gnomon.cli.main import run
from gnomon.evaluation.hidden_windows import occlusion
from gnomon.evaluation.overlays import overlay_heat
from gnomon.report.figures import drawn_for_a_page
from gnomon.report.looked import looked_of
from gnomon.report.subject import Subject
from gnomon.report.verb import report
from gnomon.tasks.looking import images_of, look, neighbor_grid, side_by_side
from gnomon.tasks.mistakes import mistakes
from oracles.commands import call
from oracles.written_page import Page

SIDE, N = 8, 120


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Bright squares of three sizes under noise, labels that are wrong here and there, a network and a perceptron."""
    folder, random = tmp_path_factory.mktemp("looking"), np.random.default_rng(0)
    y = np.arange(N) % 3
    X = 0.5 * random.random((N, SIDE, SIDE))
    for image, size in zip(X, y, strict=True):
        top, left = random.integers(0, SIDE - size, 2)
        image[top : top + size + 1, left : left + size + 1] = 1
    y[::10] = (y[::10] + 1) % 3
    np.savez(folder / "d.npz", X=X, y=np.array(["a", "b", "c"])[y])
    np.savez(folder / "flat.npz", X=X.reshape(N, -1), y=y)
    for words in (
        ["cnn", "d.npz", "--layers", "4c3-p2-6c3-g", "--batch-size", "16", "--learning-rate", "0.01"],
        ["mlp", "d.npz", "--hidden", "8"], ["mlp", "flat.npz", "--hidden", "8"],
    ):  # fmt: skip
        name, data, *more = words
        out = folder / (name if data == "d.npz" else "table")
        more += ["--epochs", "6", "--random-state", "0", "--json", "--out", str(out)]
        assert run(["fit", name, str(folder / data), *more]) == 0
    return folder


@pytest.fixture(scope="module")
def subject(folder):
    return Subject.of(folder / "cnn")


def drawn(file):
    return np.asarray(Image.open(file).convert("RGB")) / 255


@pytest.mark.parametrize(
    ("how", "verb"), [("grad-cam", "grad_cam"), ("gradient", "saliency"), ("occlusion", "occlusion")]
)
def test_maps_are_those_of_the_network(folder, subject, tmp_path, capsys, how, verb):
    more = [] if how == "grad-cam" else ["--how", how]
    call(capsys, "explain", folder / "cnn", *more, "-n", 5, "--out", tmp_path / "maps.npy")
    found = call(capsys, "explain", folder / "cnn", *more, "-n", 5, "--out", tmp_path / "maps.png")
    columns, (X, y), net = found["columns"], subject.examples, subject.system
    places = np.flatnonzero(np.isin(subject.held.rows, columns["row"]))
    assert len(places) == 5 and found["held_out"] and found["how"] == how
    maps = getattr(net, verb)(X[places])
    np.testing.assert_allclose(np.load(tmp_path / "maps.npy"), maps, rtol=1e-6)
    peaks = [np.unravel_index(one.argmax(), one.shape) for one in maps]
    assert columns["strongest at"] == [f"{i}, {j}" for i, j in peaks]
    assert columns["true"] == y[places].tolist() and columns["predicted"] == net.predict(X[places]).tolist()
    assert columns["probability"] == [f"{one:.3g}" for one in net.predict_proba(X[places]).max(1)]
    images = X[places].reshape(5, SIDE, SIDE)
    expected = side_by_side([np.repeat(images[..., None], 3, -1), overlay_heat(images, maps)])
    np.testing.assert_allclose(drawn(tmp_path / "maps.png"), expected, atol=1.01 / 255)


def test_a_stage_of_grad_cam(folder, subject, tmp_path, capsys):
    call(capsys, "explain", folder / "cnn", "--stage", 0, "-n", 3, "--out", tmp_path / "maps.npy")
    found = call(capsys, "explain", folder / "cnn", "--stage", 0, "-n", 3)["columns"]["row"]
    X = subject.examples[0][np.isin(subject.held.rows, found)]
    np.testing.assert_allclose(np.load(tmp_path / "maps.npy"), subject.system.grad_cam(X, stage=0), rtol=1e-6)


def test_mistakes_come_the_surest_first(folder, subject, capsys):
    X, y = subject.examples
    expected = mistakes(subject.system, X, y, most=3)
    rows = np.asarray(subject.held.rows)[expected.places].tolist()
    assert len(rows) == 3
    assert call(capsys, "explain", folder / "cnn", "--mistakes", "-n", 3)["columns"]["row"] == rows
    shown = call(capsys, "show", folder / "cnn", "--mistakes", "-n", 3)["columns"]
    assert shown["row"] == rows and shown["predicted"] == expected.predicted.tolist()
    assert all(a != b for a, b in zip(shown["true"], shown["predicted"], strict=True))


def test_feature_maps(folder, subject, tmp_path, capsys):
    words = ["explain", folder / "cnn", "--how", "features", "-n", 4, "--stage", 1]
    found = call(capsys, *words, "--out", tmp_path / "maps.npy")
    assert call(capsys, *words, "--out", tmp_path / "maps.png")["row"] == found["row"]
    maps = np.load(tmp_path / "maps.npy")
    assert maps.shape == (4, 4, 4, 4) and [one["shape"] for one in found["stages"]] == [[8, 8, 4], [4, 4, 4], [4, 4, 6]]
    place = subject.held.rows.tolist().index(found["row"])
    net = subject.system
    np.testing.assert_allclose(maps[0], net.features(subject.examples[0][[place]])[1][0], rtol=1e-5, atol=1e-7)
    assert found["stages"][1]["zero"] == pytest.approx((maps == 0).mean())
    tiles = np.moveaxis(maps[0], -1, 0)
    scaled = (tiles - tiles.min()) / np.ptp(tiles)
    assert drawn(tmp_path / "maps.png")[6, 6, 0] == pytest.approx(scaled[0, 0, 0], abs=1.01 / 255)


def test_nearest_training_images(folder, subject, tmp_path, capsys):
    words = ["explain", folder / "cnn", "--how", "nearest", "-n", 3]
    found = call(capsys, *words, "--out", tmp_path / "near.png")["images"]
    (known, labels), (X, _) = subject.seen, subject.examples
    places = [subject.held.rows.tolist().index(one["row"]) for one in found]
    near, distances = subject.system.nearest(X[places], known, 5)
    assert [one["nearest"] for one in found] == np.asarray(subject.train.rows)[near].tolist()
    assert [one["labels"] for one in found] == labels[near].tolist()
    np.testing.assert_allclose([one["distances"] for one in found], distances, rtol=1e-6)
    expected = neighbor_grid(X[places].reshape(3, SIDE, SIDE, 1), known.reshape(-1, SIDE, SIDE, 1), near)
    np.testing.assert_allclose(drawn(tmp_path / "near.png"), expected, atol=1.01 / 255)


def test_every_classifier_of_images_can_be_occluded(folder, tmp_path, capsys):
    call(capsys, "explain", folder / "mlp", "--how", "occlusion", "-n", 3, "--out", tmp_path / "maps.npy")
    found = call(capsys, "explain", folder / "mlp", "--how", "occlusion", "-n", 3)["columns"]["row"]
    other = Subject.of(folder / "mlp")
    X = np.asarray(other.examples[0])[np.isin(other.held.rows, found)]
    images, net = X.reshape(-1, SIDE, SIDE, 1), other.system
    fill, codes = images.mean((1, 2), keepdims=True), net.predict_proba(X).argmax(1)
    expected = occlusion(
        lambda one: net.predict_proba(one.reshape(-1, SIDE**2)), images, codes, window=2, stride=1, fill=fill
    )
    np.testing.assert_allclose(np.load(tmp_path / "maps.npy"), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["mlp", "--how", "gradient"], "mlp cannot be looked at by gradient"),
        (["mlp", "--how", "features"], "mlp has no feature maps"),
        (["mlp", "--how", "nearest"], "mlp has no features that images could be near in"),
        (["table", "--how", "occlusion"], "occlusion needs images, got a table"),
        (["table", "-n", "3"], "-n, --mistakes, --stage and --out are of images"),
        (["cnn", "--how", "nearest", "--stage", "1"], "--stage is of features and grad-cam"),
        (["cnn", "--stage", "9"], "stage must be a whole number from -3 to 2, got 9"),
        (["cnn", "--score", "accuracy"], "--score is of columns that are shuffled"),
        (["cnn", "--out", "x.csv"], "x.csv"),
    ],
)
def test_mistakes_of_people(folder, capsys, words, said):
    assert run(["explain", str(folder / words[0]), *words[1:]]) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1


def test_the_section_of_the_report(folder, subject):
    page = Page(report(folder / "cnn"))
    assert "What the network looks at" in page.text and "Feature maps behind stage 0" in page.text
    header, *rows = page.tables["nearest training images"]
    X, y = subject.examples
    worst = mistakes(subject.system, X, y, most=5).places
    first = np.linspace(0, len(X) - 1, 3).astype(int)
    places = [*first, *(one for one in worst if one not in first)]
    assert [int(row[0]) for row in rows] == np.asarray(subject.held.rows)[places].tolist()
    near, distances = subject.system.nearest(X[places], subject.seen[0], 5)
    assert [row[3] for row in rows] == [", ".join(one) for one in subject.seen[1][near]]
    assert [row[4] for row in rows] == [f"{one:.3g}" for one in distances[:, 0]] and header[1] == "true"
    assert looked_of(Subject.of(folder / "mlp")) is None


def test_a_search_among_many_images_is_cut(folder, subject, monkeypatch):
    monkeypatch.setattr("gnomon.report.looked.MULTIPLY_ADDS", 0)
    monkeypatch.setattr("gnomon.report.looked.LEAST", 7)
    with drawn_for_a_page():
        assert f"among 7 of {len(subject.train)} training images" in looked_of(subject).body


def test_images_on_a_scale_of_their_own_are_shown_between_black_and_white():
    assert images_of([[0.0, 0.5]], (1, 2, 1)).ravel().tolist() == [0.0, 0.5]
    assert images_of([[-1.0, 3.0]], (1, 2, 1)).ravel().tolist() == [0.0, 1.0]


def test_images_that_a_network_crops_are_shown_as_it_sees_them(subject):
    X, y = np.random.default_rng(0).random((12, 10, 10)), np.arange(12) % 2
    net = gnomon.CNN(
        layers="4c3-g", epochs=1, batch_size=6, preprocess=gnomon.data.CenterCrop(size=(6, 6)), random_state=0
    ).fit(X, y)
    found = look(net, X, np.array([0, 3]), (10, 10, 1))
    np.testing.assert_allclose(found.images[..., 0], X[[0, 3], 2:8, 2:8], rtol=1e-6)
    assert found.maps.shape == (2, 6, 6) and found.picture().shape == (2 * 49, 2 * 49, 3)
