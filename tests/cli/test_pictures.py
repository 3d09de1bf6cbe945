"""Pictures of filters and of samples along chains, pixel by pixel, and what is said beside them."""

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import gnomon
from gnomon.cli.main import run
from gnomon.tasks.along_chains import sample_along_chains
from oracles.commands import call


def refused(capsys, *words):
    assert run([*map(str, words)]) == 2
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert line.startswith("gnomon: error: ")
    return line


def pixels(file):
    return np.asarray(Image.open(file).convert("L")) / 255


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name, *words in (
        ("rbm", "rbm", "--epochs", "1", "--n-hidden", "5"), ("mlp", "mlp", "--epochs", "1", "--hidden", "6"),
        ("vae", "vae", "--epochs", "1", "--n-latent", "2"), ("ppca", "ppca", "--n-components", "3"),
        ("line", "logistic-regression",),
    ):  # fmt: skip
        words = ["fit", *words, "--random-state", "0", "--out", str(folder / name), "--json"]
        assert run([words[0], words[1], "digits", *words[2:]]) == 0
    return folder


@pytest.mark.spec("REP-035")
@pytest.mark.parametrize("name", ["rbm", "mlp", "vae", "ppca", "line"])
def test_filters_of_a_run_are_its_weights_on_one_scale(runs, capsys, tmp_path, name):
    """Every column of W, 8 x 8 pixels enlarged 6 times; a bias or mean of another scale does not spoil it."""
    system = gnomon.load(runs / name)
    W = {
        "rbm": lambda: system.weights_.T,
        "ppca": lambda: system.components_,
        "line": lambda: system.coef_,
    }.get(
        name, lambda: next(one for one in system.model_.modules() if hasattr(one, "weight")).weight.detach().numpy()
    )()
    assert call(capsys, "components", runs / name, "--out", tmp_path / "f.png")["n"] == len(W)
    found, across = pixels(tmp_path / "f.png"), int(np.ceil(np.sqrt(len(W))))
    for k, one in enumerate(W):
        i, j = divmod(k, across)
        part = found[49 * i : 49 * i + 48, 49 * j : 49 * j + 48]
        assert np.array_equal(part, part[::6, ::6].repeat(6, 0).repeat(6, 1))
        wanted = (one.reshape(8, 8) - W.min()) / np.ptp(W)
        assert np.abs(part[::6, ::6] - wanted).max() < 2.01 / 255


@pytest.mark.spec("REP-035")
def test_dead_units_are_named(capsys, tmp_path):
    names = [f"pixel_{i}_{j}" for i in range(8) for j in range(8)]
    X = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (40, 64)), columns=names)
    system = gnomon.RBM(n_hidden=5, epochs=1, random_state=0).fit(X)
    with torch.no_grad():
        system.model_.weight[:, 3] *= 1e-3
    system.save(tmp_path / "dead")
    found = call(capsys, "components", tmp_path / "dead", "--out", tmp_path / "a.png")
    assert found["flat"] == ["hidden unit 3"]
    assert run(["components", str(tmp_path / "dead"), "--out", str(tmp_path / "b.png"), "--scale", "each"]) == 0
    assert (
        "1 of 5 units span less than 5% of the range of all, dead or nearly so: hidden unit 3"
        in capsys.readouterr().err
    )
    assert np.ptp(pixels(tmp_path / "a.png")[49:97, :48]) < 0.01 < np.ptp(pixels(tmp_path / "b.png")[49:97, :48])
    assert "--scale is of a picture alone" in refused(capsys, "components", tmp_path / "dead", "--scale", "each")


@pytest.mark.spec("REP-035")
def test_samples_along_chains_beside_training_data(runs, capsys, tmp_path):
    words = ["sample", runs / "rbm", "--chains", "3", "--every", "40", "-n", "4", "--seed", "7"]
    found = call(capsys, *words, "--out", tmp_path / "g.png")
    system = gnomon.load(runs / "rbm")
    chains = sample_along_chains(system, chains=3, rows=4, every=40, random_state=7)
    grid = pixels(tmp_path / "g.png")
    assert grid.shape == (4 * 49, 7 * 49)
    for chain in range(3):
        for row in range(4):
            part = grid[49 * row : 49 * row + 48, 49 * chain : 49 * chain + 48][::6, ::6]
            assert np.array_equal(part, chains.rows[chain, row].reshape(8, 8))
    assert (grid[:, 3 * 49 : 4 * 49] == 1).all()
    known = {row.tobytes() for row in (gnomon.data.load("digits").X >= 8).astype(np.uint8)}
    tiles = grid[:, 4 * 49 :].reshape(4, 49, 3, 49).swapaxes(1, 2)[:, :, :48:6, :48:6]
    tiles = tiles.reshape(12, 64).astype(np.uint8)
    assert {one.tobytes() for one in tiles} <= known and len({one.tobytes() for one in tiles}) == 12
    value, error = chains.correlation.at(40)
    place = found["autocorrelation"]["lag"].index(40)
    assert found["autocorrelation"]["value"][place] == value and found["autocorrelation"]["stderr"][place] == error
    assert run([*map(str, words), "--out", str(tmp_path / "h.csv")]) == 0
    said = capsys.readouterr().err
    assert f"autocorrelation of rows 40 steps apart {value:.2f} ± {error:.2f}" in said
    lines = (tmp_path / "h.csv").read_text().splitlines()
    assert lines[0].startswith("chain,step,pixel_0_0") and [one.split(",")[:2] for one in lines[1:6]] == [
        ["1", "40"], ["1", "80"], ["1", "120"], ["1", "160"], ["2", "40"],
    ]  # fmt: skip


def test_mistakes_in_asking_for_chains(runs, capsys, tmp_path):
    assert "independent draws" in refused(capsys, "sample", runs / "vae", "--chains", "2")
    assert "--every needs --chains" in refused(capsys, "sample", runs / "rbm", "--every", "2")
    assert "rows must be at least 2" in refused(capsys, "sample", runs / "rbm", "--chains", "2", "-n", "1")
    gnomon.RBM(n_hidden=1, epochs=1, random_state=0).fit(np.eye(4)).save(tmp_path / "table")
    only = refused(capsys, "sample", tmp_path / "table", "--chains", "2", "--out", tmp_path / "x.png")
    assert "only images have a picture" in only
