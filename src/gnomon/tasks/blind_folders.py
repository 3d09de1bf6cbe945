"""A blind test as a folder: numbered items of a run's model and of its data, an answer sheet, and a sealed key.

Nothing about a file but its pixels says which kind it is: numbers are given in random order, and all images have one
size, one form, as many bytes and the same time. The key is packed so that nobody reads it by chance; it is no secret
from somebody who unpacks it on purpose.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.data.brightness import brightness
from gnomon.data.dataset import Dataset
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.blind import MODEL, REAL, TrialScore, make_blind_trial, score_trial
from gnomon.evaluation.grids import enlargement
from gnomon.numeric.noise import seed_of
from gnomon.recipes.parameters import how_many
from gnomon.runs.atomic import write_atomically
from gnomon.runs.config import NAMED, DataSpec
from gnomon.runs.digests import digest
from gnomon.runs.folder import RunFolder
from gnomon.system.saving import load
from gnomon.tasks.base import task
from gnomon.tasks.blind_sheets import COLUMNS, read_answers, sheet
from gnomon.tasks.fitting import parts, task_of
from gnomon.tasks.pictures import png

__all__ = ["BlindFolder", "make_blind_folder", "score_blind_folder"]

KEY, SHEET, TEXT = "key.sealed", "answers.csv", "instructions.txt"
ITEMS = 60
SEAL = b"gnomon blind test, sealed key: do not unpack it before you have answered\n"
LEAST_ROWS = 12
"""Held-out rows from which on the model is looked at for copies and gaps."""
FINEST = 6
"""Decimals of a number in a sheet, at most."""


@dataclass(frozen=True)
class BlindFolder:
    """What a blind test consists of.

    Parameters
    ----------
    path : Path
    n : int
        Items, half of them real.
    source : str
        Where the real ones are from: ``held-out rows`` or ``training rows``.
    """

    path: Path
    n: int
    source: str


def make_blind_folder(
    run: str | os.PathLike[str], out: str | os.PathLike[str], *, n: int = ITEMS, random_state: Any = None
) -> BlindFolder:
    """Write a blind test of the samples of a run: images, or a sheet with rows or sentences.

    Parameters
    ----------
    run : path
        Of a fit to data by name or file, which is read again.
    out : path
        A new folder, or an empty one.
    n : even int in [2, inf), default 60
        Items: half of them rows that the fit held out (those of the fit where it held none out), half samples, the
        first that the model draws.
    random_state : int, None or NumPy generator
        The same test. Keep it from those who are asked.

    Returns
    -------
    BlindFolder
        ``001.png`` ..., ``answers.csv`` to be filled in, ``instructions.txt``, ``key.sealed``.

    Raises
    ------
    UserError
        A model without samples, data that cannot be read again, too few rows, a folder that is taken.

    Notes
    -----
    Images have the levels of gray of the data (`gnomon.data.brightness`): a model is not found out by half a level.
    Numbers are rounded to the decimals of their column. The key keeps the share of samples that are nearer to a
    training row than new rows are, and the share of held-out rows that have a sample near.
    """
    folder, seed = Path(out), seed_of(random_state)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserValueError(f"{folder} exists", "out", "choose another name")
    if how_many(n, "n") % 2 or n < 2:
        raise UserValueError.must("n", "be an even number of at least 2", n, remedy="half of the items are real")
    system = load(run)
    if not hasattr(system, "sample") or "regress" in system.tasks:
        raise UserTypeError(f"{system.name} does not draw samples", str(run), "give a run of a generative model")
    train, held = _parts(run, system)
    real_data = train if held is None else held
    goal = task_of(system)
    real, _ = goal.examples(real_data, system, answers=False)
    if n > 2 * len(real):
        raise UserValueError(f"n must be at most {2 * len(real)}, got {n}", "n", "half of the items are real rows")
    drawn = system.sample(n // 2, random_state=seed)
    made = drawn[0] if isinstance(drawn, tuple) else drawn
    truth, files, more = _items(real_data, goal.view(system.outcomes), real, made, n, seed)
    key = {
        "items": list(files), "truth": truth, "seed": seed, "run": os.fspath(run),
        "files": {name: digest([content]) for name, content in files.items() if content},
        "source": "training rows" if held is None else "held-out rows",
        "beside": _beside(system, train, held),
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if content:
            write_atomically(folder / name, content)
    write_atomically(folder / TEXT, _instructions(n, bool(key["files"])).encode())
    write_atomically(folder / SHEET, sheet(list(files), more))
    write_atomically(folder / KEY, _sealed(key))
    moment = (folder / KEY).stat().st_mtime
    for one in folder.iterdir():
        os.utime(one, (moment, moment))
    return BlindFolder(folder, n, str(key["source"]))


def score_blind_folder(
    folder: str | os.PathLike[str], answers: Sequence[str | os.PathLike[str]] = (), *, level: float = 0.95
) -> tuple[dict[str, TrialScore], dict[str, Any]]:
    """What people answered to a blind test.

    Parameters
    ----------
    folder : path
        Of `make_blind_folder`.
    answers : sequence of paths
        A sheet for each person; ``answers.csv`` in the folder where there is none.
    level : float in (0, 1), default 0.95
        Of the intervals.

    Returns
    -------
    scores : dict of str to TrialScore
        By the name of the sheet. They are not pooled: answers to the same items are not independent.
    facts : dict
        ``source`` of the real items, and ``beside``: shares of samples that are copies and of data that is covered.

    Raises
    ------
    UserError
        A folder without a key, a damaged key, an image that was changed, mistakes in a sheet.
    """
    place = Path(folder)
    key = _opened(place / KEY)
    for name, mark in key["files"].items():
        if (place / name).exists() and digest([(place / name).read_bytes()]) != mark:
            raise UserValueError(f"{name} has been changed since the test was made", str(place), "make another test")
    sheets = [Path(one) for one in answers] or [place / SHEET]
    scores: dict[str, TrialScore] = {}
    for one in sheets:
        name = one.name if [other.name for other in sheets].count(one.name) == 1 else str(one)
        if name in scores:
            raise UserValueError(f"{one} is given twice", "answers", "name each sheet once")
        scores[name] = score_trial(key["truth"], read_answers(one, key["items"]), level=level)
    return scores, {"source": key["source"], "beside": key["beside"]}


def _parts(run: str | os.PathLike[str], system: Any) -> tuple[Dataset, Dataset | None]:
    recipe = RunFolder.open(run).config.get("data", {})
    if recipe.get("source") != NAMED:
        what = "the run was fitted to arrays, which it does not keep"
        raise UserValueError(what, str(run), "fit to data by name or file")
    return parts(DataSpec.from_json(recipe), system)


def _items(
    data: Dataset, view: str, real: Any, made: Any, n: int, seed: int
) -> tuple[list[str], dict[str, bytes], dict[str, list[str]]]:
    """What each item is, the content of its file by name (none where a sheet shows it), and columns of the sheet."""
    width = max(3, len(str(n)))
    numbers = [f"{i:0{width}}" for i in range(1, n + 1)]
    if data.text is not None:
        sentences = [np.array([" ".join(str(one).split()) for one in part], object) for part in (real, made)]
        trial = make_blind_trial(sentences[0], sentences[1], n, random_state=seed)
        return trial.truth.tolist(), dict.fromkeys(numbers, b""), {"text": trial.items.tolist()}
    known, drawn = (np.asarray(part, np.float64).reshape(len(part), -1) for part in (real, made))
    trial = make_blind_trial(known, drawn, n, random_state=seed)
    if data.images is None:
        columns = {name: _written(trial.items[:, j], known[:, j]) for j, name in enumerate(data.columns)}
        return trial.truth.tolist(), dict.fromkeys(numbers, b""), columns
    assert data.levels is not None
    files = [_file(one, data.images) for one in brightness(trial.items, view, data.levels)]
    return trial.truth.tolist(), {f"{name}.png": file for name, file in zip(numbers, files, strict=True)}, {}


def _file(row: NDArray[np.float64], shape: tuple[int, ...]) -> bytes:
    """An image as PNG without compression, so that its length says nothing of what is on it."""
    image = np.rint(255 * row).astype(np.uint8).reshape(*shape[:2], -1)
    factor = 2 * enlargement(shape)
    large = np.broadcast_to(image, (*shape[:2], 3)).repeat(factor, axis=0).repeat(factor, axis=1)
    return png(np.ascontiguousarray(large), compress_level=0)


def _written(values: NDArray[Any], known: NDArray[Any]) -> list[str]:
    """Numbers with as many decimals as those of the column have."""
    known = known[np.isfinite(known)]
    places = next((d for d in range(FINEST) if np.allclose(np.round(known, d), known, rtol=0, atol=1e-9)), FINEST)
    return [f"{value:.{places}f}" for value in values]


def _beside(system: Any, train: Dataset, held: Dataset | None) -> dict[str, float]:
    """What a look cannot tell: the shares of samples that are copies, and of held-out rows that have one near."""
    if held is None or len(held) < LEAST_ROWS or held.text is not None:
        return {}
    goal = task_of(system)
    known, rows = (goal.examples(part, system)[0] for part in (train, held))
    found = task("generate").scores(system, rows, None, (known, None))
    return {name: found[name].value for name in ("memorized", "coverage")}


def _sealed(key: Mapping[str, Any]) -> bytes:
    content = json.dumps(key).encode()
    return SEAL + base64.b64encode(zlib.compress(digest([content]).encode() + content)) + b"\n"


def _opened(file: Path) -> dict[str, Any]:
    """The key of a test.

    Raises
    ------
    UserValueError
        No key, or a damaged one.
    """
    if not file.is_file():
        remedy = "make one: gnomon blind make RUN --out FOLDER"
        raise UserValueError("the folder holds no key of a blind test", str(file), remedy)
    try:
        content = zlib.decompress(base64.b64decode(file.read_bytes().removeprefix(SEAL), validate=False))
    except (binascii.Error, zlib.error):
        content = b""
    mark, content = content[:32].decode("ascii", "replace"), content[32:]
    if not content or digest([content]) != mark:
        raise UserValueError("the key must be as it was written", str(file), "the file is damaged; make another test")
    found: dict[str, Any] = json.loads(content)
    return found


def _instructions(n: int, pictures: bool) -> str:
    where = "the images 001.png and so on" if pictures else f"the lines of {SHEET}"
    return (
        f"Some of {where} are real, the others were made by a model. There are {n}, half of each, in random order.\n"
        f"Look at each once, and write {REAL} or {MODEL} into the column {COLUMNS[1]} of {SHEET}, beside its number in "
        f"the column {COLUMNS[0]}.\nGuess where you do not know. Do not open {KEY}.\n"
    )
