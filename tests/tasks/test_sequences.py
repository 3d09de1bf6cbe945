"""Rows whose columns have places: sequences of frames and images, read from files as Python reads arrays."""

import numpy as np
import pytest

import gnomon
from gnomon.cli.main import run
from gnomon.data import load
from gnomon.data.given import dataset_of
from gnomon.errors import UserValueError
from gnomon.tasks.sequences import frame_size_of

BITS = (np.random.default_rng(0).random((20, 6, 4)) < 0.4).astype(np.uint8)
FIT = ["--n-hidden", "3", "--epochs", "1", "--random-state", "0", "--holdout", "0"]


def fitted(tmp_path, system, array, *words):
    np.save(tmp_path / "x.npy", array)
    out = tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
    assert run(["fit", system, str(tmp_path / "x.npy"), *FIT, *words, "--out", str(out)]) == 0
    return gnomon.load(out)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float64, bool])
def test_frames_of_a_file_are_those_of_the_array(tmp_path, dtype):
    """An array (n, T, d) has frames of d columns, and bits are bits in whatever type: bytes are not 0 of 255."""
    machine = fitted(tmp_path, "rtrbm", BITS.astype(dtype))
    same = gnomon.RTRBM(n_hidden=3, epochs=1, random_state=0).fit(BITS.astype(np.float64))
    assert machine.arguments_["frame_size"] == 4
    assert machine.score(BITS) == pytest.approx(same.score(BITS), rel=1e-5)


def test_the_width_of_a_frame_is_said_by_columns_and_by_the_user(tmp_path):
    names = [f"frame_{t}_{c}" for t in range(3) for c in "ab"]
    assert frame_size_of(names) == 2
    for other in (names[:-1], [*names, "y"], names[::-1], [*names[:4], "frame_2_b", "frame_2_a"], []):
        assert frame_size_of(other) is None
    assert (
        gnomon.fit(gnomon.RTRBM(n_hidden=2, max_updates=1, random_state=0), "bouncing-ball").arguments_["frame_size"]
        == 25
    )
    assert fitted(tmp_path, "rtrbm", BITS, "--frame-size", "6").arguments_["frame_size"] == 6


def test_bytes_of_bits_are_two_levels_and_dark_images_are_not(tmp_path):
    dark = np.zeros((12, 4, 4), np.uint8)
    dark[:, 0] = 1
    bright = dark * 255
    assert (dataset_of(dark).levels, dataset_of(bright).levels, dataset_of(bright / 255).levels) == (2, 256, None)
    assert np.array_equal(dataset_of(dark).view("binary"), dataset_of(bright).view("binary"))
    np.save(tmp_path / "dark.npy", dark)
    np.save(tmp_path / "bright.npy", bright)
    assert load(tmp_path / "dark.npy").levels == 2
    seen = {}
    for name in ("dark", "bright"):
        out = tmp_path / name
        words = ["fit", "rbm", str(tmp_path / f"{name}.npy"), *FIT, "--out", str(out)]
        assert run(words) == 0
        for other in ("dark", "bright"):
            found = tmp_path / f"{name}-{other}.npy"
            assert run(["transform", str(out), str(tmp_path / f"{other}.npy"), "--out", str(found)]) == 0
            seen[name, other] = np.load(found)
    assert np.array_equal(seen["dark", "dark"], seen["bright", "bright"])
    assert np.array_equal(seen["dark", "dark"], seen["dark", "bright"])  # bytes brought to the levels of the fit
    assert not np.array_equal(seen["bright", "dark"], seen["bright", "bright"])  # nearly black


@pytest.mark.parametrize(
    ("system", "words"),
    [("rtrbm", ["--visible", "gaussian", "--frame-size", "3"]), ("conv-ssrbm", ["--n-maps", "2", "--kernel", "2x2"])],
)
def test_columns_with_places_stay(tmp_path, system, words, capsys):
    """A constant column is left out of a table, where it says nothing, but not of frames or images."""
    X = np.random.default_rng(1).normal(size=(20, 9)).round(3)
    X[:, 4] = 7
    header = ",".join(f"c{j}" for j in range(9))
    np.savetxt(tmp_path / "x.csv", X, delimiter=",", header=header, comments="")
    words = [*words, "--epochs", "1", "--random-state", "0", "--holdout", "0", "--out", str(tmp_path / "run")]
    assert run(["fit", system, str(tmp_path / "x.csv"), *words]) == 0
    assert gnomon.load(tmp_path / "run").n_features_in_ == 9
    text = (tmp_path / "x.csv").read_text().replace(",7.000000000000000000e+00,", ",,")
    (tmp_path / "x.csv").write_text(text)
    capsys.readouterr()
    assert run(["fit", system, str(tmp_path / "x.csv"), *words[:-1], str(tmp_path / "again")]) == 2
    assert "the column is empty" in capsys.readouterr().err


def test_images_that_are_no_squares_are_not_taken_for_lines():
    machine = gnomon.ConvRBM(n_maps=2, kernel=(2, 2), max_updates=1, random_state=0)
    with pytest.raises(UserValueError, match=r"got images of 6x4 .*; say the shape: --image-shape 6x4"):
        gnomon.fit(machine, dataset_of(BITS))
    assert gnomon.fit(machine.set_params(image_shape=(6, 4)), dataset_of(BITS)).n_features_in_ == 24


def test_a_file_that_was_never_there_is_not_found(tmp_path, capsys):
    """By its whole path as by a relative one: no run has seen it."""
    assert run(["fit", "rbm", str(tmp_path / "x.csv"), "--out", str(tmp_path / "run")]) == 2
    assert "error: file not found" in capsys.readouterr().err and not (tmp_path / "run").exists()


def test_labels_reach_a_network_that_learns_them(tmp_path, capsys):
    """`--loss labels` on the command line: y is the target, and how many are right is a score."""
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    X[:, 0] += 4 * y
    np.savetxt(
        tmp_path / "x.csv", np.c_[X, y], delimiter=",", header="a,b,c,kind", comments="", fmt="%.4f,%.4f,%.4f,%d"
    )
    words = ["fit", "mean-field-network", str(tmp_path / "x.csv"), "--loss", "labels", "--n-components", "3"]
    more = ["--epochs", "60", "--random-state", "0", "--out", str(tmp_path / "run")]
    assert run([*words, "--target", "kind", *more]) == 0
    found = gnomon.load(tmp_path / "run").evaluate(X, y)
    assert found["accuracy"].value > 0.9 and found["log_likelihood"].kind == "lower bound"
    assert "accuracy" not in gnomon.load(tmp_path / "run").evaluate(X)
    capsys.readouterr()
    assert run([*words, *more[:-1], str(tmp_path / "none")]) == 2
    assert "no labels and no target" in capsys.readouterr().err
