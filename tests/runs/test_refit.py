"""Fitting twice, cloning and failing, with run folders: nothing leaks from one fit into another (HB-53)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import gnomon
from gnomon.errors import Diverged, UserError, UserValueError
from gnomon.runs.folder import RunFolder
from gnomon.training.context import context

random = np.random.default_rng(0)
X, X2 = ((random.random(shape) < 0.4).astype(float) for shape in ((50, 8), (40, 6)))
LABELS, LABELS2 = X[:, 0].astype(int), X2[:, 1].astype(int)
SMALL: dict[str, dict[str, Any]] = {
    "softmax-regression": {"epochs": 5},
    "ppca": {"n_components": 2},
    "bernoulli-mixture": {"n_components": 2, "max_iter": 6},
    "rbm": {"n_hidden": 3, "epochs": 3},
}


def bits(system: Any) -> dict[str, bytes]:
    return {name: np.asarray(value).tobytes() for name, value in system.model_.state().items()}


@pytest.mark.parametrize("name", SMALL)
def test_a_second_fit_begins_anew(name: str, tmp_path: Path) -> None:
    system = gnomon.make(name, random_state=0, **SMALL[name])
    before = repr(system.get_params())
    first = bits(system.fit(X, LABELS, run=tmp_path / "1"))
    system.fit(X2, LABELS2, run=tmp_path / "2")
    assert bits(system.fit(X, LABELS, run=tmp_path / "3")) == first
    assert bits(clone(system).fit(X, LABELS)) == first
    assert repr(system.get_params()) == before
    assert (tmp_path / "1" / "model.safetensors").read_bytes() == (tmp_path / "3" / "model.safetensors").read_bytes()
    assert bits(gnomon.load(tmp_path / "2")) == bits(clone(system).fit(X2, LABELS2))


@pytest.mark.parametrize("name", SMALL)
def test_the_folder_of_another_fit_is_left_alone(name: str, tmp_path: Path) -> None:
    system = gnomon.make(name, random_state=0, **SMALL[name]).fit(X, LABELS, run=tmp_path / "run")
    before = {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()}
    fitted = bits(system)
    with pytest.raises(UserValueError, match="not empty"):
        system.fit(X2, LABELS2, run=tmp_path / "run")
    assert {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()} == before
    assert bits(system) == fitted


@pytest.mark.parametrize("name", SMALL)
def test_a_generator_advances_and_its_run_resumes(name: str, tmp_path: Path) -> None:
    """The run keeps the seed that the generator gave, so it is resumed without the generator."""
    generator = np.random.default_rng(5)
    system = gnomon.make(name, random_state=generator, **SMALL[name])
    with context(checkpoint_every=2):
        first = bits(system.fit(X, LABELS, run=tmp_path / "1"))
        system.fit(X, LABELS, run=tmp_path / "2")
    assert system.random_state is generator
    seeds = [RunFolder.open(tmp_path / number).config["seed"] for number in "12"]
    assert seeds[0] != seeds[1]
    (tmp_path / "1" / "model.safetensors").unlink()
    assert bits(gnomon.resume(tmp_path / "1", X, LABELS)) == first
    assert bits(gnomon.make(name, random_state=seeds[0], **SMALL[name]).fit(X, LABELS)) == first


def test_parameters_survive_a_fit_that_fails(tmp_path: Path) -> None:
    system = gnomon.RBM(n_hidden=2, epochs=2, learning_rate=1e38, dtype="float32", random_state=0)
    before = repr(system.get_params())
    for rows in (X, X - 0.5, X[:0]):
        with pytest.raises((UserError, ValueError)):
            system.fit(rows, run=tmp_path / str(id(rows)))
        assert repr(system.get_params()) == before
    with pytest.raises(Diverged):
        system.fit(X)
    finite = system.set_params(learning_rate=0.1).fit(X)
    assert bits(finite) == bits(clone(finite).fit(X))


def test_a_run_is_moved_and_resumed_where_it_is_now(tmp_path: Path) -> None:
    system = gnomon.RBM(n_hidden=2, epochs=3, random_state=0)
    whole = bits(system.fit(X, run=tmp_path / "here"))
    (tmp_path / "here" / "model.safetensors").unlink()
    (tmp_path / "here").rename(tmp_path / "there")
    assert bits(gnomon.resume(tmp_path / "there", X)) == whole
