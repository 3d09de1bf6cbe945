"""What ``gnomon sample`` says to systems that can be asked in more than one way, and what has no chains."""

import json

import numpy as np
import pytest

import gnomon
from gnomon.cli.main import run
from gnomon.cli.sample_options import PARAMETERS

BITS = (np.random.default_rng(0).random((24, 6)) < 0.4).astype(int)


def call(capsys, *words):
    capsys.readouterr()
    assert run([*map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refused(capsys, *words):
    capsys.readouterr()
    assert run([*map(str, words)]) == 2
    return capsys.readouterr().err.strip().splitlines()[-1]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """One small run for each way of drawing."""
    folder = tmp_path_factory.mktemp("runs")
    kinds = np.array(["left", "right"])[BITS[:, 0]]
    counts = np.random.default_rng(1).poisson(2.0, (24, 4))
    gnomon.LabelRBM(n_hidden=2, epochs=1, random_state=0).fit(BITS, kinds, run=folder / "label-rbm")
    gnomon.FactoredConditionalRBM(frame_size=2, epochs=1, random_state=0).fit(BITS, BITS[:, 0], run=folder / "styles")
    words = gnomon.DBM(hidden=(2, 2), visible="replicated-softmax", pretrain_epochs=1, epochs=1, random_state=0)
    words.fit(counts, run=folder / "words")
    gnomon.DBN(hidden=(3, 2), epochs=1, random_state=0).fit(BITS, run=folder / "dbn")
    gnomon.ConditionalRBM(n_hidden=2, epochs=1, random_state=0).fit(BITS, BITS[:, 1] * 2.0, run=folder / "given")
    gnomon.ProductOfExperts(epochs=1, random_state=0).fit(BITS * 1.0, run=folder / "moves")
    return folder


def test_what_a_system_takes_can_be_asked_for(runs, capsys):
    found = call(capsys, "sample", runs / "label-rbm", "-n", "3", "--label", "right", "--steps", "2", "--seed", "1")
    drawn, labels = gnomon.load(runs / "label-rbm").sample(3, "right", steps=2, random_state=1)
    assert [row[-1] for row in found["samples"]] == labels.tolist() == ["right"] * 3
    assert [row[:-1] for row in found["samples"]] == drawn.tolist()
    found = call(capsys, "sample", runs / "styles", "-n", "2", "--label", "1", "--seed", "1")["samples"]
    assert found == gnomon.load(runs / "styles").sample(2, style=1, random_state=1).tolist()
    found = call(capsys, "sample", runs / "words", "-n", "3", "--length", "7")["samples"]
    assert np.sum(found, axis=1).tolist() == [7] * 3
    found = call(capsys, "sample", runs / "dbn", "-n", "2", "--means", "--steps", "3", "--seed", "2")["samples"]
    assert found == gnomon.load(runs / "dbn").sample(2, means=True, steps=3, random_state=2).tolist()
    assert not np.isin(found, (0, 1)).all()


def test_targets_are_drawn_for_given_rows(runs, tmp_path, capsys):
    np.save(tmp_path / "rows.npy", BITS[:5])
    found = call(capsys, "sample", runs / "given", "--given", tmp_path / "rows.npy", "--seed", "3")["samples"]
    assert np.ravel(found).tolist() == gnomon.load(runs / "given").sample(BITS[:5], random_state=3).tolist()
    assert "give the rows: --given DATA" in refused(capsys, "sample", runs / "given")
    assert "is a model of rows" in refused(capsys, "sample", runs / "dbn", "--given", tmp_path / "rows.npy")
    many = refused(capsys, "sample", runs / "given", "--given", tmp_path / "rows.npy", "-n", "2")
    assert "-n does not go with --given" in many


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("dbn", "--label", "3"), "samples of dbn have no --label"),
        (("moves", "--means"), "samples of product-of-experts have no --means"),
        (("styles", "--length", "3"), "samples of factored-conditional-rbm have no --length"),
        (("label-rbm", "--label", "up"), "no class 'up' (--label); the model knows left, right"),
        (("words", "--chains", "2", "--steps", "3"), "--steps does not go with --chains"),
        (("words", "--chains", "2"), "drawn for a given length, which its chains are not told"),
        (("moves", "--chains", "2"), "drawn by moves along the slope of its energy, not by Gibbs sweeps"),
        (("dbn", "--chains", "2"), "independent draws, not states of a chain"),
    ],
)
def test_what_a_system_does_not_take_is_refused(runs, capsys, words, line):
    assert line in refused(capsys, "sample", runs / words[0], *words[1:])


def test_every_way_of_drawing_has_its_option():
    """Whatever `System.sample` of some system takes can be said on the command line."""
    import inspect

    from gnomon.catalog import entries, load_class

    known = {
        "self",
        "n",
        "X",
        "random_state",
        "kernel",
        "max_length",
        *("method", "temperature"),  # of what writes texts, by the options of `gnomon generate`
        "return_ended",  # Python alone: a file of sentences has no column for it
        *(name for names in PARAMETERS.values() for name in names),
    }
    for one in entries():
        function = next((vars(cls)["sample"] for cls in load_class(one).__mro__ if "sample" in vars(cls)), None)
        function = getattr(function, "fn", function)
        assert function is None or set(inspect.signature(function).parameters) <= known, one.name


def test_cells_that_are_not_there_are_empty(runs, tmp_path, capsys):
    assert run(["components", str(runs / "dbn"), "--out", str(tmp_path / "parts.csv")]) == 0
    text = (tmp_path / "parts.csv").read_text()
    assert "nan" not in text and "visible bias,," in text
