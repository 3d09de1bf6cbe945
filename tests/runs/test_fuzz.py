"""Run folders with changed bytes and facts: a refusal in one line or the very same answers, never anything else."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

import gnomon
from gnomon.errors import UserError
from gnomon.training.context import context

SYSTEMS: dict[str, tuple[Callable[[], Any], bool]] = {
    "gradient": (lambda: gnomon.RBM(n_hidden=3, epochs=3, batch_size=8, random_state=0), False),
    "network": (lambda: gnomon.MLP(hidden=(4,), epochs=2, batch_size=8, random_state=0), True),
    "em": (lambda: gnomon.BernoulliMixture(n_components=2, max_iter=4, tol=0.0, random_state=0), False),
    "closed form": (lambda: gnomon.PPCA(n_components=2, random_state=0), False),
    "library": (lambda: gnomon.DecisionTree(random_state=0), True),
    "members": (
        lambda: gnomon.Bagging(base="decision-tree", n_members=2, random_state=0), True),
}  # fmt: skip
X = (np.random.default_rng(0).random((30, 5)) < 0.4).astype(np.float32)
LABELS = X[:, 0].astype(int) ^ X[:, 1].astype(int)
MARKS = ("__digest__", "run")
"""Facts that a run from before digests has not."""
COUNTS = {"quick": 10, "slow": 60}
"""Changes of each file of each folder."""


def answers(system: Any) -> dict[str, bytes]:
    """What people get from a fitted system, to the bit."""
    found: dict[str, Any] = {"params": repr(system.get_params()).encode()}
    for verb in ("log_prob", "predict", "predict_proba", "transform"):
        if hasattr(system, verb):
            found[verb] = np.asarray(getattr(system, verb)(X)).tobytes()
    return found


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of each kind, and the same one before its end."""
    place = tmp_path_factory.mktemp("runs")
    for name, (make, labeled) in SYSTEMS.items():
        with context(checkpoint_every=2):
            make().fit(X, LABELS if labeled else None, run=place / name)
        shutil.copytree(place / name, place / f"{name} begun")
        (place / f"{name} begun" / "model.safetensors").unlink()
    return place


def changed(content: bytes, chance: random.Random) -> bytes:
    """One byte another, a bit flipped, some bytes gone, twice, or all that follow lost."""
    at, kind = chance.randrange(len(content)), chance.randrange(6)
    if kind < 2:
        return content[:at] + bytes([chance.randrange(256)]) + content[at + 1 :]
    if kind == 2:
        return content[:at] + bytes([content[at] ^ 1 << chance.randrange(8)]) + content[at + 1 :]
    if kind == 3:
        return content[:at] + content[at + chance.randrange(1, 9) :]
    if kind == 4:
        return content[:at] + content[at : at + 4] + content[at:]
    return content[:at]


def outcome(folder: Path, name: str) -> dict[str, bytes] | str:
    """Answers of the run, or the line that refuses it."""
    labeled = SYSTEMS[name][1]
    try:
        if folder.name.endswith("begun"):
            return answers(gnomon.resume(folder, X, LABELS if labeled else None))
        return answers(gnomon.load(folder))
    except UserError as error:
        return str(error)


def files(folder: Path) -> list[Path]:
    """Those that a run is read from."""
    return sorted(f for f in folder.rglob("*") if f.name == "config.json" or f.suffix == ".safetensors")


def copies(name: str, count: int, folders: Path, room: Path) -> Iterator[tuple[Path, Path, Path, random.Random]]:
    """Each file of a system's two runs, a copy of its run to damage, the file in the copy, and what decides how."""
    for kind in (name, f"{name} begun"):
        for file in files(folders / kind):
            chance = random.Random(f"{kind} {file.name}")
            for _ in range(count):
                other = room / kind
                shutil.copytree(folders / kind, other)
                yield file, other, other / file.relative_to(folders / kind), chance
                shutil.rmtree(other)


@pytest.mark.parametrize("count", [COUNTS["quick"], pytest.param(COUNTS["slow"], marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.filterwarnings("ignore:the fit began with other versions")
def test_changed_bytes(name: str, count: int, folders: Path, tmp_path: Path) -> None:
    """A byte changed in model.safetensors or state/ gave other predictions without a word."""
    expected = outcome(folders / name, name)
    assert isinstance(expected, dict)
    refused = 0
    for file, other, damaged, chance in copies(name, count, folders, tmp_path):
        damaged.write_bytes(changed(file.read_bytes(), chance))
        found = outcome(other, name)
        if isinstance(found, str):
            assert "\n" not in found
            refused += 1
        else:
            assert found == expected, f"other answers after a change of {damaged.name}"
    assert refused


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "state/checkpoint.safetensors"])
def test_files_of_another_run_are_refused(file: str, folders: Path, tmp_path: Path) -> None:
    """Whole files, each true to its own digest, of a fit with another seed: other predictions without a word."""
    mine, other = tmp_path / "mine", tmp_path / "other"
    shutil.copytree(folders / "gradient", mine)
    gnomon.RBM(n_hidden=3, epochs=3, batch_size=8, random_state=1).fit(X, run=other)
    shutil.copy(other / file, mine / file)
    if file.startswith("state"):
        (mine / "model.safetensors").unlink()
    with pytest.raises(UserError, match="is of another fit than its config"):
        gnomon.resume(mine, X) if file.startswith("state") else gnomon.load(mine)


def values(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a JSON value: its holder and its key."""
    for key in list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else []:
        yield node, key
        yield from values(node[key])


OTHERS: list[Any] = [None, -1, 0, 3, 10**12, 10**30, 0.5, 1e300, "", "x", "config", [], [5], {}, {"a": 1}, True]


def edited(text: str, chance: random.Random) -> str:
    """JSON with one value another, or gone."""
    whole = json.loads(text)
    holder, key = chance.choice(list(values(whole)))
    if isinstance(holder, dict) and chance.random() < 0.1:
        del holder[key]
    else:
        holder[key] = chance.choice(OTHERS)
    return json.dumps(whole)


@pytest.mark.parametrize("count", [COUNTS["quick"], pytest.param(COUNTS["slow"], marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.filterwarnings("ignore")
def test_edited_facts_of_runs_without_digests(name: str, count: int, folders: Path, tmp_path: Path) -> None:
    """Facts are checked before anything is built: an edited shape asked for 7 TiB, others ended in tracebacks."""
    for file, other, damaged, chance in copies(name, count, folders, tmp_path):
        if file.suffix == ".json":
            plain = {k: v for k, v in json.loads(file.read_text()).items() if k != "digest"}
            damaged.write_text(edited(json.dumps(plain), chance))
        else:
            with safe_open(file, framework="numpy") as opened:
                facts = {k: v for k, v in json.loads(opened.metadata()["facts"]).items() if k not in MARKS}
                arrays = {one: opened.get_tensor(one) for one in opened.keys()}  # noqa: SIM118
            save_file(arrays, damaged, metadata={"facts": edited(json.dumps(facts), chance)})
        try:
            loaded = gnomon.load(other, unfinished=True)
        except UserError as error:
            assert "\n" not in str(error)
        else:
            with suppress(UserError):
                answers(loaded)


def test_arrays_of_another_shape_are_refused_at_load(folders: Path, tmp_path: Path) -> None:
    """A run without digests whose arrays were edited failed late, in a verb."""
    file = tmp_path / "run" / "model.safetensors"
    shutil.copytree(folders / "closed form", file.parent)
    config = json.loads((file.parent / "config.json").read_text())
    (file.parent / "config.json").write_text(json.dumps({k: v for k, v in config.items() if k != "digest"}))
    with safe_open(file, framework="numpy") as opened:
        facts = {k: v for k, v in json.loads(opened.metadata()["facts"]).items() if k not in MARKS}
        arrays = {one: opened.get_tensor(one) for one in opened.keys()}  # noqa: SIM118
    save_file({**arrays, "mean": arrays["mean"][:0]}, file, metadata={"facts": json.dumps(facts)})
    with pytest.raises(UserError, match="arrays that do not fit its system"):
        gnomon.load(file.parent)


def test_counts_of_another_shape_are_refused_at_resume(tmp_path: Path) -> None:
    """A checkpoint without digests whose counts had one dimension more ended in a traceback."""
    file, texts = tmp_path / "run" / "state" / "checkpoint.safetensors", ["a b", "b a c"]
    gnomon.NGram(n=2, smoothing="dirichlet", random_state=0).fit(texts, run=tmp_path / "run")
    (tmp_path / "run" / "model.safetensors").unlink()
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    (tmp_path / "run" / "config.json").write_text(json.dumps({k: v for k, v in config.items() if k != "digest"}))
    with safe_open(file, framework="numpy") as opened:
        facts = {k: v for k, v in json.loads(opened.metadata()["facts"]).items() if k not in MARKS}
        arrays = {one: opened.get_tensor(one) for one in opened.keys()}  # noqa: SIM118
    counts = next(name for name in arrays if name.endswith("count_2"))
    save_file(arrays, file, metadata={"facts": json.dumps(facts)})
    shutil.copytree(tmp_path / "run", tmp_path / "whole")
    save_file({**arrays, counts: arrays[counts][None]}, file, metadata={"facts": json.dumps(facts)})
    with pytest.raises(UserError, match="arrays that do not fit its system"):
        gnomon.resume(tmp_path / "run", texts)
    assert gnomon.resume(tmp_path / "whole", texts).next_tokens("b", k=1)
