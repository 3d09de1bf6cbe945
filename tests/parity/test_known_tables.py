"""Twelve tables as people have them: fitted with nothing but a target, as well as scikit-learn's pipeline does."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, SVR

import gnomon
from gnomon.catalog import entries
from gnomon.data import Preparation, load
from gnomon.runs.config import DataSpec
from gnomon.runs.folder import RunFolder
from gnomon.system.library import _global_state_kept
from gnomon.tasks.fitting import parts
from oracles.tables import KNOWN, known

LEFT_OUT = {
    "titanic": {"PassengerId", "Name", "Cabin"}, "cars": {"Name"}, "flights": {"tailnum"}, "diamonds": {""},
    "houses": {"Id", "Street"}, "churn": {"customerID"}, "wages": {"rownames"}, "airports": {"iata", "city", "country"},
}  # fmt: skip
PEERS = {
    "classify": {"logistic-regression": LogisticRegression(max_iter=2000), "svm": SVC(),
                 "random-forest": RandomForestClassifier(random_state=0)},
    "regress": {"linear-regression": LinearRegression(), "support-vector-regression": SVR(),
                "random-forest-regression": RandomForestRegressor(random_state=0)},
}  # fmt: skip


def pipeline(X: pd.DataFrame) -> ColumnTransformer:
    """scikit-learn's steps for the columns of a table."""
    numbers = [name for name in X if X[name].dtype.kind in "iufb"]
    texts = [name for name in X if name not in numbers]
    least = max(2, int(np.ceil(0.005 * len(X))))
    coder = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=least, sparse_output=False)
    first = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    return ColumnTransformer([("numbers", first, numbers), ("texts", coder, texts)])


def plain(table: pd.DataFrame) -> pd.DataFrame:
    """Dates as the numbers that they become, missing texts as a word: what scikit-learn's steps take."""
    found = table.copy()
    for name in table:
        if name in ("date", "Year"):
            at = pd.to_datetime(table[name])
            found = found.drop(columns=name)
            for part, values in (
                ("year", at.dt.year),
                ("month", at.dt.month),
                ("weekday", at.dt.day_of_week),
                ("hour", at.dt.hour),
            ):
                if values.nunique() > 1:
                    found[f"{name}.{part}"] = values.astype(float)
            found[f"{name}.days"] = (at - at.min()).dt.total_seconds() / 86400
        elif table[name].dtype.kind not in "iufb":
            found[name] = table[name].astype(object).where(table[name].notna(), "missing")
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", KNOWN)
def test_as_well_as_scikit_learns_pipeline(name: str, tmp_path: Path) -> None:
    """The same split, the same steps: scores within the error of the score, or better."""
    table, target = known(name)
    table.to_csv(tmp_path / "t.csv", index=False, date_format="%Y-%m-%d %H:%M:%S")
    task = "regress" if table[target].dtype.kind == "f" else "classify"
    board = gnomon.compare(list(PEERS[task]), str(tmp_path / "t.csv"), target=target, out=tmp_path / "runs")[0]
    lines = {line.name: line for line in board.lines if line.run}
    system = gnomon.load(lines[next(iter(lines))].run)
    assert set(system.preparation_.left_out) == {name or "column_1" for name in LEFT_OUT.get(name, set())}
    spec = DataSpec.from_json(RunFolder.open(lines[next(iter(lines))].run).config["data"])
    train, held = parts(spec, system)
    rows = plain(table.drop(columns=[target, *LEFT_OUT.get(name, set())]))
    X, Z, y, t = (
        rows.iloc[train.rows],
        rows.iloc[held.rows],
        table[target].iloc[train.rows],
        table[target].iloc[held.rows],
    )
    for called, peer in PEERS[task].items():
        steps = pipeline(X)
        with warnings.catch_warnings(), _global_state_kept():  # libsvm draws from it
            warnings.simplefilter("ignore")
            if called == "support-vector-regression":
                mean, spread = y.mean(), y.std(ddof=0)
                theirs = (
                    peer.fit(steps.fit_transform(X), (y - mean) / spread).predict(steps.transform(Z)) * spread + mean
                )
            else:
                theirs = peer.fit(steps.fit_transform(X), y).predict(steps.transform(Z))
        score = lines[called].score
        value = float((theirs == t).mean()) if task == "classify" else float(((theirs - t) ** 2).mean())
        worse = value - score.value if task == "classify" else score.value - value
        assert worse <= score.stderr + 1e-9 * abs(value) + 0.02 * (task == "classify"), (called, value, score)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", KNOWN)
def test_every_predicting_system_and_new_rows(name: str, tmp_path: Path) -> None:
    """Unseen levels, missing cells, columns in another order, from a run of ``compare``."""
    table, target = known(name, 120)
    table.to_csv(tmp_path / "t.csv", index=False, date_format="%Y-%m-%d %H:%M:%S")
    task = "regress" if table[target].dtype.kind == "f" else "classify"
    systems = [one for one in entries() if one.tasks[0] == task and one.name != "lenet"]
    made = [gnomon.make(one.name, **one.tiny) for one in systems]
    boards = gnomon.compare(made, str(tmp_path / "t.csv"), target=target, out=tmp_path / "runs")
    new = known(name, 120)[0].drop(columns=target).head(8).sample(frac=1, axis=1, random_state=0)
    for place, column in enumerate(
        name for name in new if new[name].dtype.kind == "O" or str(new[name].dtype) == "str"
    ):
        if not pd.to_datetime(new[column], errors="coerce", format="mixed").notna().all():
            new.loc[new.index[place % 8], column] = None if place % 2 else "never seen"
    for column in (name for name in new if new[name].dtype.kind == "f"):
        new.loc[new.index[0], column] = np.nan
    new.to_csv(tmp_path / "new.csv", index=False, date_format="%Y-%m-%d %H:%M:%S")
    for line in boards[0].lines:
        if line.run is None:
            continue
        system = gnomon.load(line.run)
        prepared = system.preparation_
        data = prepared.apply(load(tmp_path / "new.csv", columns=list(prepared.names_in), kinds=prepared.kinds))
        found = system.predict(data.X)
        assert len(found) == 8 and found.dtype.kind == (
            np.asarray(table[target]).dtype.kind if task == "regress" else system.classes_.dtype.kind
        )


def test_twelve_tables() -> None:
    assert len(KNOWN) == 12
    for name in KNOWN:
        table, target = known(name)
        prepared = Preparation().fit(table.drop(columns=target).rename(columns={"": "Unnamed: 0"}))
        assert set(prepared.left_out) == {one or "Unnamed: 0" for one in LEFT_OUT.get(name, set())}, name
