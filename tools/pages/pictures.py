"""A picture of every system, drawn again only when what it depends on has changed.

A picture is a PNG in the folder of the cache, under the name of the system and a digest: of every file of gnomon that
the system's module imports, directly or through others, of the drawings and their arguments, and of the versions of the
libraries.
"""

from __future__ import annotations

import ast
import hashlib
import os
import sys
import warnings
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path

from gnomon import catalog
from gnomon.catalog.line import Entry
from pages.rst import ROOT

SOURCE = ROOT / "src"
LIBRARIES = ("matplotlib", "numpy", "scikit-learn", "torch")
DOTS = 110
"""In an inch."""
ARGUMENTS: Mapping[str, Mapping[str, object]] = {
    "ppca": {"n_components": 1}, "gaussian-mixture": {"n_components": 3}, "kmeans": {"n_clusters": 3},
    "bayesian-gaussian-mixture": {"n_components": 6},
    "bernoulli-mixture": {"n_components": 16}, "rbm": {"n_hidden": 36, "max_updates": 9000},
    "gaussian-rbm": {"n_hidden": 8}, "hidden-boltzmann-machine": {"max_updates": 1500},
    "spike-and-slab-rbm": {"n_hidden": 8},
    "mean-field-network": {"n_components": 8, "epochs": 30},
    "spike-and-slab-sparse-coding": {"n_components": 3},
    "mcrbm": {"n_mean": 4, "n_covariance": 4}, "fcn": {"epochs": 10},
    "vae": {"max_updates": 2000}, "vrnn": {"max_updates": 400},
    "nade": {"max_updates": 800}, "rnade": {"max_updates": 300},
    "deep-nade": {"epochs": 100}, "nade-k": {"epochs": 40}, "draw": {"max_updates": 600},
    "gan": {"max_updates": 2000}, "conditional-gan": {"max_updates": 2000},
    "dcgan": {"max_updates": 250}, "rnn-lm": {"max_updates": 200}, "gru-lm": {"max_updates": 120},
    "lstm-lm": {"max_updates": 120}, "elmo": {"max_updates": 80}, "sentence-vae": {"max_updates": 120},
    "mrnn-lm": {"max_updates": 60},
    "neural-ngram": {"max_updates": 400},
    "transformer-lm": {"max_updates": 120}, "bert": {"max_updates": 60}, "electra": {"max_updates": 60},
    "longformer-lm": {"max_updates": 120}, "transformer-classifier": {"max_updates": 120},
    "transformer-tagger": {"max_updates": 120},
    "longformer": {"max_updates": 120}, "captioner": {"max_updates": 400},
    "matrix-factorization": {"n_factors": 3, "learner": "als"},
    "implicit-factorization": {"n_factors": 3, "objective__epochs": 400, "objective__l2": 0.002},
    "pmf": {"n_factors": 3},
    "rating-rbm": {"n_factors": 8}, "conv-rbm": {"max_updates": 600},
    "conv-ssrbm": {"n_maps": 4}, "conv-dbm": {"max_updates": 200},
    "factored-conditional-rbm": {"max_updates": 800},
}  # fmt: skip
"""Where the defaults are not those of data as small as that of the drawings."""

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""What a process that is started reads how many threads it has from."""


def file_of(module: str) -> Path | None:
    """The file of a module of gnomon."""
    base = SOURCE / Path(*module.split("."))
    return next((file for file in (base.with_suffix(".py"), base / "__init__.py") if file.exists()), None)


@cache
def imports(file: Path) -> frozenset[Path]:
    """The files of gnomon that a file imports, early or late."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {str(node.module), *(f"{node.module}.{one.name}" for one in node.names)}
    found = (file_of(name) for name in names if name.partition(".")[0] == "gnomon")
    return frozenset(one for one in found if one is not None)


def needed(files: list[Path]) -> list[Path]:
    """The files, and all that they import through others."""
    known, waiting = set[Path](), list(files)
    while waiting:
        file = waiting.pop()
        if file not in known:
            known.add(file)
            waiting += imports(file)
    return sorted(known)


def digest(one: Entry) -> str:
    """Of all that the picture of a system depends on."""
    own = file_of(one.where.partition(":")[0])
    assert own is not None, one.where
    made = hashlib.sha256(repr([(name, version(name)) for name in LIBRARIES]).encode())
    for file in (*needed([own]), Path(__file__), Path(__file__).with_name("drawings.py")):
        made.update(hashlib.sha256(file.read_bytes()).digest())
    return made.hexdigest()[:16]


def draw(name: str, file: Path) -> str:
    """Draw a system into a file; why that could not be, or nothing."""
    import matplotlib as mpl

    from pages.drawings import STYLE, drawing

    system = catalog.make(name, **ARGUMENTS.get(name, {}))
    way = drawing(system)
    assert way is not None, name
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a short fit says of itself
        part = file.with_suffix(f".{os.getpid()}")
        try:
            way(system).savefig(part, format="png", dpi=DOTS, metadata={"Software": None})
        except Exception as error:  # of any system, a new one too: its page goes without, and a test says so
            return f"{type(error).__name__}: {error}"
    os.replace(part, file)
    return ""


def files(folder: Path) -> dict[str, Path]:
    """Where the picture of every system that has one belongs, by name."""
    return {one.name: folder / f"{one.name}-{digest(one)}.png" for one in catalog.ENTRIES if one.name in captions()}


def pictures(folder: Path, workers: int = 2) -> dict[str, Path]:
    """The picture of every system that has one, by name; what the folder held of other states of the source is removed.

    A system that cannot be drawn is left out, and a line on standard error says why.

    Parameters
    ----------
    folder : Path
        The cache.
    workers : int, default 2
        Processes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = files(folder)
    for old in set(folder.iterdir()) - set(found.values()):
        old.unlink(missing_ok=True)
    missing = {name: file for name, file in found.items() if not file.exists()}
    if missing:
        for name in THREADS:  # two processes of two threads each wait for one another: a fit took 50 times as long
            os.environ.setdefault(name, "1")
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            for name, why in zip(missing, pool.map(draw, missing, missing.values()), strict=True):
                if why:
                    print(f"no picture of {name}: {why}; see ARGUMENTS in {__file__}", file=sys.stderr)
    return {name: file for name, file in found.items() if file.exists()}


@cache
def captions() -> Mapping[str, str]:
    """What the picture of a system shows, by name, of those that have one."""
    from pages.drawings import CAPTIONS, drawing

    ways = {one.name: drawing(catalog.make(one.name)) for one in catalog.ENTRIES}
    return {name: CAPTIONS[way] for name, way in ways.items() if way is not None}
