"""Pictures of chains: counts of ranks by hand, what is drawn, files whole or not at all, no global state."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from gnomon.errors import UserError, UserValueError
from gnomon.inference.mcmc import pictures
from gnomon.inference.mcmc.pictures import rank_counts, trace_figure
from gnomon.inference.mcmc.records import Draws
from gnomon.numeric.noise import Noise


def draws(shape=(4, 200, 3)):
    return np.array(Noise(0, "draws").normal(shape, like=np.empty(0)))


def record(x):
    return Draws({"x": x}, {}, {"seed": 0, "burn_in": 0, "thin": 1})


def test_ranks_are_counted_by_hand_and_ties_share_a_place():
    assert rank_counts(np.arange(8.0).reshape(2, 4), 4).tolist() == [
        [2, 2, 0, 0],
        [0, 0, 2, 2],
    ]
    assert rank_counts(np.zeros((2, 3)), 3).tolist() == [[0, 3, 0], [0, 3, 0]]


def test_ranks_of_equal_laws_are_uniform():
    """Chi-squared of 20 bins over 4 chains of 5000: below its 1 - 1e-6 quantile (57 degrees of freedom: 118)."""
    counts = rank_counts(np.array(Noise(1, "draws").normal((4, 5000), like=np.empty(0))))
    assert (((counts - 250) ** 2) / 250).sum() < 118
    apart = np.array(Noise(1, "draws").normal((4, 5000), like=np.empty(0))) + 0.2 * np.arange(4)[:, None]
    assert (((rank_counts(apart) - 250) ** 2) / 250).sum() > 118


def test_the_worst_coordinates_come_first_and_their_own_draws_are_drawn():
    x = draws((4, 200, 12))
    x[0, :, 7] += 5
    x[0, :, 3] += 2
    figure = trace_figure({"x": x})
    assert len(figure.axes) == 24
    labels = [axis.get_ylabel().splitlines()[0] for axis in figure.axes[::3]]
    assert labels[:2] == ["x[7]", "x[3]"]
    for place, column in ((0, 7), (3, 3)):
        lines = [line.get_ydata() for line in figure.axes[place].lines]
        assert np.array_equal(lines, x[:, :, column])


def test_long_traces_are_thinned_and_constants_are_drawn():
    x = np.stack([draws((2, 5001, 1))[..., 0], np.zeros((2, 5001))], -1)
    figure = trace_figure({"x": x}, ["x[1]", "x[0]"])
    assert len(figure.axes[3].lines[0].get_ydata()) <= 2000
    assert len(figure.axes[2].lines) == 1  # a constant has no autocorrelation


@pytest.mark.parametrize(("name", "head"), [("a.png", b"\x89PNG"), ("a.SVG", b"<?xml"), ("a.pdf", b"%PDF")])
def test_files_are_written_whole_and_the_same_again(tmp_path, name, head):
    path = record(draws()).trace_picture(tmp_path / name, ["x[0]"])
    content = path.read_bytes()
    assert content.startswith(head) and list(tmp_path.iterdir()) == [path]
    if not name.endswith("SVG"):  # its identifiers are random
        assert record(draws()).trace_picture(path, ["x[0]"]).read_bytes() == content


def test_a_failure_leaves_the_old_file(tmp_path, monkeypatch):
    path = record(draws()).trace_picture(tmp_path / "a.png", ["x[0]"])
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(UserError, match="cannot write"):
        record(draws()).trace_picture(path, ["x[1]"])
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda f: record(draws()).trace_picture(f / "a.jpg"),
            r"a picture's name must end in \.png, \.svg or \.pdf, got 'a\.jpg' \(",
        ),
        (
            lambda f: record(draws()).trace_picture(f / "a"),
            r"a picture's name must end in \.png, \.svg or \.pdf, got 'a' \(",
        ),
        (
            lambda f: record(draws()).trace_picture(f / "a.png", ["y"]),
            r"unknown coordinate 'y' \(coordinates\); choose from x\[0\], x\[1\], x\[2\]",
        ),
        (lambda f: record(draws()).trace_picture(f / "a.png", []), "coordinates must name at least one"),
        (lambda f: record(draws((4, 7, 1))).trace_picture(f / "a.png"), "8 or more"),
    ],
)
def test_refusals_in_one_line(tmp_path, call, words):
    with pytest.raises(UserValueError, match=words) as error:
        call(tmp_path)
    assert "\n" not in str(error.value) and not list(tmp_path.iterdir())


def test_pyplot_is_never_imported_and_matplotlib_only_when_drawing(tmp_path):
    code = (
        "import sys, gnomon\nimport gnomon.inference.mcmc.pictures\nassert 'matplotlib' not in sys.modules\n"
        "import numpy as np\nfrom gnomon.inference.mcmc.records import Draws\n"
        "Draws({'x': np.random.default_rng(0).normal(size=(2, 20))}, {}, {}).trace_picture(sys.argv[1])\n"
        "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.png")], check=True)


def test_memory_is_that_of_the_diagnostics():
    x = draws((2, 100, 1))
    figure = trace_figure({"x": x})
    rho = pictures.autocorrelation(x[..., 0])
    assert np.allclose([line.get_ydata() for line in figure.axes[2].lines[:2]], rho[:, :50])
