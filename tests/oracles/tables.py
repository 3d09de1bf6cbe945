"""Tables of every kind of column, written as people's files are: text, truth values, dates, missing cells, ids."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

__all__ = ["mixed", "shuffled_and_strange", "write"]


def mixed(n: int = 120, seed: int = 0) -> pd.DataFrame:
    """Passengers: an index, an id, text of few and of many levels, a truth value, a date, missing cells, a constant.

    ``alive`` are two classes and ``fare`` is a number; both depend on the other columns.
    """
    random = np.random.default_rng(seed)
    sex = random.choice(["male", "female"], n)
    age = np.where(random.random(n) < 0.2, np.nan, random.uniform(1, 80, n).round(1))
    deck = random.choice(["A", "B", "C", None], n, p=[0.45, 0.3, 0.05, 0.2])
    member = random.random(n) < 0.4
    joined = pd.Timestamp("2015-01-01") + pd.to_timedelta(random.integers(0, 2000, n), unit="D")
    fare = 20 + 30 * (sex == "female") + 10 * member + np.where(np.isnan(age), 30, age) / 4 + random.normal(0, 2, n)
    alive = np.where((sex == "female") + 0.5 * member + random.normal(0, 0.3, n) > 0.7, "yes", "no")
    return pd.DataFrame(
        {
            "passenger_id": 500 + random.permutation(n), "sex": sex, "age": age, "deck": deck, "member": member,
            "joined": joined, "name": [f"Name {i}" for i in range(n)], "planet": "earth", "fare": fare.round(3),
            "alive": alive,
        }
    )  # fmt: skip


def write(table: pd.DataFrame, file: Path) -> Path:
    """The table as ``to_csv`` writes it, with its unnamed index."""
    table.to_csv(file, date_format="%Y-%m-%d")
    return file


def shuffled_and_strange(table: pd.DataFrame, seed: int = 1) -> pd.DataFrame:
    """New rows: columns in another order, one more, levels that no row had, cells that are missing."""
    found = table.sample(frac=1, axis=1, random_state=seed).astype({"member": object})
    found.insert(0, "remark", "x")
    found.loc[found.index[0], "sex"] = "unknown"
    found.loc[found.index[1], ["sex", "joined", "member"]] = None
    found.loc[found.index[2], "deck"] = "Z"
    found.loc[found.index[3], "age"] = np.nan
    return found
