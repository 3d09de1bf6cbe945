"""A package of somebody else's that adds a system by an entry point: found, made, fitted, saved, loaded, checked."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import gnomon
from gnomon import catalog
from gnomon.cli.main import run
from gnomon.testing import check_system

SRC = str(Path(__file__).parents[2] / "src")

MODEL = '''\
"""A Gaussian with any covariance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gnomon.distributions.domains import Real
from gnomon.system.base import System
from gnomon.system.fields import DrawsNothing
from gnomon.training.em import ClosedForm


class FullGaussianModel:
    """x ~ N(mean, covariance)."""

    def __init__(self, n_features: int) -> None:
        self.mean, self.covariance = np.zeros(n_features), np.eye(n_features)

    def state(self) -> dict[str, Any]:
        """Mean and covariance."""
        return {"mean": self.mean, "covariance": self.covariance}

    def load(self, state: Any) -> None:
        """Take the arrays over."""
        self.mean, self.covariance = (np.array(state[name], np.float64) for name in ("mean", "covariance"))

    def log_prob(self, x: Any) -> Any:
        """Log density of each row."""
        gap = np.asarray(x, np.float64) - self.mean
        squares = (gap * np.linalg.solve(self.covariance, gap.T).T).sum(1)
        volume = np.linalg.slogdet(self.covariance)[1]
        return -0.5 * (squares + volume + len(self.mean) * math.log(2 * math.pi))

    def moments(self, x: Any, weight: Any) -> dict[str, Any]:
        """Weighted sums."""
        x, weight = np.asarray(x, np.float64), np.asarray(weight, np.float64)
        return {"weight": weight.sum(), "sum": weight @ x, "square": (x * weight[:, None]).T @ x}

    def solve(self, moments: dict[str, Any]) -> dict[str, float]:
        """Maximum likelihood."""
        self.mean = moments["sum"] / moments["weight"]
        spread = moments["square"] / moments["weight"] - np.outer(self.mean, self.mean)
        self.covariance = spread + 1e-9 * np.eye(len(spread))
        return {}


class FullGaussian(DrawsNothing, System):
    """A Gaussian with any covariance."""

    name = "full-gaussian"
    tasks = ("density",)
    model_class = FullGaussianModel
    domain = Real(largest=1e100)

    def make(self, n_features: int, dtype: str) -> FullGaussianModel:
        return FullGaussianModel(n_features)

    def procedure(self, examples: Any) -> Any:
        return ClosedForm()
'''

CATALOG = '''\
"""What the package adds."""

from gnomon.catalog import Entry

ENTRIES = (
    Entry(
        "full-gaussian", "Gaussian of any covariance", "全协方差高斯分布", "model", ("density",),
        "full_gaussian.model:FullGaussian", "Gauss 1809", ("REP-003",),
    ),
)
'''


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The package as an installer leaves it: its files, and metadata with the entry point."""
    package, metadata = tmp_path / "full_gaussian", tmp_path / "full_gaussian-1.0.dist-info"
    package.mkdir()
    metadata.mkdir()
    (package / "__init__.py").write_text('"""A plug-in."""\n')
    (package / "model.py").write_text(MODEL, encoding="utf-8")
    (package / "catalog.py").write_text(CATALOG, encoding="utf-8")
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: full-gaussian\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[gnomon.systems]\nround = full_gaussian.catalog:ENTRIES\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    catalog._plugins.cache_clear()
    yield tmp_path
    catalog._plugins.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "full_gaussian"]:
        del sys.modules[name]


def command(folder: Path, *arguments: str) -> str:
    """The command in a process of its own that finds the package."""
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), SRC])}
    done = subprocess.run(
        [sys.executable, "-m", "gnomon", *arguments], capture_output=True, env=settings, timeout=120, cwd=folder
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode("utf-8")


def test_it_is_listed_after_our_own_systems(installed):
    listed = json.loads(command(installed, "list", "--json"))["systems"]
    assert listed[-1]["name"] == "full-gaussian" and listed[0]["where"].startswith("gnomon.")
    assert "全协方差高斯分布" in command(installed, "list", "高斯分布")


def test_its_page_and_help_are_read_from_its_source_without_importing_it(installed, capsys):
    assert run(["info", "full-gaussian", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"fit", "log_prob", "evaluate"} <= set(found["verbs"])
    assert run(["fit", "full-gaussian", "--help"]) == 0
    assert "full_gaussian.model" not in sys.modules


def test_it_is_made_fitted_saved_and_loaded(installed, tmp_path):
    X = np.random.default_rng(0).normal(2.0, 3.0, size=(50, 4))
    system = gnomon.make("full-gaussian").fit(X)
    loaded = gnomon.load(system.save(tmp_path / "model"))
    assert np.array_equal(loaded.log_prob(X), system.log_prob(X))
    best = multivariate_normal(X.mean(0), np.cov(X.T, bias=True)).logpdf(X)
    assert system.log_prob(X) == pytest.approx(best, abs=1e-6)


def test_it_fits_from_the_command_line_and_stands_on_a_board(installed):
    out = installed / "run"
    command(installed, "fit", "full-gaussian", "wine", "--out", str(out))
    assert json.loads((out / "config.json").read_text())["system"] == "full-gaussian"
    board = gnomon.compare(["full-gaussian"], "wine")[0]
    assert [line.against_baseline for line in board.lines] == ["better", "baseline"]
    assert board.lines[0].name == "full-gaussian"


def test_it_keeps_every_contract(installed):
    passed = check_system(catalog.load_class("full-gaussian"))
    assert {"saves", "resumes", "processes_agree", "refuses"} <= set(passed)


def test_without_it_there_is_no_such_system():
    with pytest.raises(gnomon.errors.UserValueError, match="unknown system 'full-gaussian'"):
        gnomon.make("full-gaussian")
