"""Pictures of machines in a report: each is there where it has something to show, with the numbers that it says."""

import numpy as np
import pytest

import gnomon
from gnomon.cli.main import run as command
from gnomon.report import machines
from gnomon.report.figures import drawn_for_a_page
from gnomon.report.machines import MOMENTS, chains_of_model, landscape_of, modes_of
from gnomon.report.subject import Subject
from gnomon.report.weights import weights_of
from gnomon.tasks.components import components


def fitted(tmp_path, system, X, names):
    np.savetxt(tmp_path / "rows.csv", X, fmt="%.5g", delimiter=",", header=",".join(names), comments="")
    out = str(tmp_path / "run")
    assert command(["fit", *system, str(tmp_path / "rows.csv"), "--out", out]) == 0
    return Subject.of(out)


@pytest.fixture(autouse=True)
def page():
    with drawn_for_a_page():
        yield


@pytest.fixture
def drawn(monkeypatch):
    """The numbers that pictures were made of."""
    seen = {}
    for name in ("_energies", "_shares", "_plane", "_image"):
        plain = getattr(machines, name)
        monkeypatch.setattr(
            machines,
            name,
            lambda *given, plain=plain, name=name: (seen.setdefault(name, []).append(given), plain(*given))[1],
        )
    return seen


def test_two_real_columns_have_a_landscape_modes_and_chains(tmp_path, drawn):
    random = np.random.default_rng(0)
    X = np.array([[0, 0], [6, 0], [0, 6]])[random.integers(0, 3, 300)] + random.normal(size=(300, 2))
    subject = fitted(
        tmp_path, ["gaussian-rbm", "--n-hidden", "4", "--epochs", "10", "--learning-rate", "0.02"], X, "ab"
    )
    section = landscape_of(subject)
    assert section.title == "Energy landscape" and "<svg" in section.body
    ((sides, values, *_),) = drawn["_plane"]
    grid = np.stack([one.ravel() for one in np.meshgrid(*sides)], axis=1)
    np.testing.assert_allclose(values.ravel(), subject.system.energy(grid), rtol=1e-5)
    section = modes_of(subject)
    (((found,)),) = drawn["_shares"]
    assert found.counts.sum() == 500 and found.expected.sum() == pytest.approx(1)
    assert f"{found.covered} of {len(found.modes)} modes" in section.body
    section = chains_of_model(subject)
    ((energies, n),) = drawn["_energies"]
    assert len(energies) == len(MOMENTS) and n == 8
    np.testing.assert_allclose(energies[0][:n], subject.system.energy(subject.examples[0][:n]), rtol=1e-5)
    moved = subject.system.gibbs(subject.examples[0][:n], 1, random_state=1)
    assert moved.shape == (8, 2) and "Chains over time" in section.title


@pytest.mark.parametrize(
    ("name", "options"),
    [("mcrbm", {"n_mean": 2, "n_covariance": 3}), ("product-of-t", {"n_mean": 2, "n_experts": 3}),
     ("product-of-t", {}), ("spike-and-slab-rbm", {"n_hidden": 3}), ("conv-ssrbm", {"n_maps": 3, "kernel": (2, 2)})],
)  # fmt: skip
def test_filters_of_machines_that_shape_covariances_are_images(name, options):
    X = np.random.default_rng(0).normal(size=(60, 9))
    system = gnomon.make(name, epochs=1, random_state=0, **options).fit(X)
    found = components(system, [f"x{j}" for j in range(9)], (3, 3))
    weights = np.asarray(system.weights_)
    if name == "conv-ssrbm":
        np.testing.assert_array_equal(found.alike, weights.reshape(3, 4))
        return
    columns = [system.filters_, weights] if hasattr(system, "filters_") else [weights]
    np.testing.assert_array_equal(found.alike, np.concatenate(columns, axis=1).T)
    assert found.shape == (3, 3) and len(found.names) == len(found.alike)


def test_images_show_chains_as_images_and_large_machines_the_weights_of_both_ways(tmp_path, drawn):
    out = str(tmp_path / "run")
    assert command(["fit", "rbm", "digits", "--epochs", "1", "--n-hidden", "24", "--out", out]) == 0
    subject = Subject.of(out)
    section = chains_of_model(subject)
    assert section.body.count("<figure>") == 3 and len(drawn["_image"]) == 2
    assert landscape_of(subject) is None  # not of two real columns
    section = weights_of(subject)
    bracket = subject.system.log_partition("bracket")
    assert "annealed downwards" in section.body and "ladders" in section.body
    assert f">{bracket.ladder[0].steps}<" in section.body and f">{bracket.ladder[1].steps}<" in section.body


def test_other_systems_have_none_of_these(tmp_path):
    out = str(tmp_path / "run")
    assert command(["fit", "kmeans", "iris", "--n-clusters", "3", "--out", out]) == 0
    subject = Subject.of(out)
    assert chains_of_model(subject) is None and landscape_of(subject) is None
    assert modes_of(subject) is None and machines.chains_of_fit(subject) is None
