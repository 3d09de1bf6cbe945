"""Tables of every kind of column, written as people's files are: text, truth values, dates, missing cells, ids."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

__all__ = ["KNOWN", "known", "mixed", "shuffled_and_strange", "write"]


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


# --- small copies of tables that people know: their columns, kinds, gaps, and how the target depends on them -------

Columns = dict[str, object]


def _texts(random: np.random.Generator, n: int, levels: str, p: list[float] | None = None) -> np.ndarray:
    return random.choice(np.array([None if one == "-" else one for one in levels.split()], object), n, p=p)


def titanic(random: np.random.Generator, n: int) -> Columns:
    sex, pclass = _texts(random, n, "male female"), random.integers(1, 4, n)
    age = np.where(random.random(n) < 0.2, np.nan, random.uniform(1, 70, n).round())
    survived = ((sex == "female") * 2.0 - 0.5 * pclass + random.normal(0, 0.6, n) > 0).astype(int)
    return {
        "PassengerId": np.arange(1, n + 1),
        "Survived": survived,
        "Pclass": pclass,
        "Name": [f"Doe, Mr. John {i}" for i in range(n)],
        "Sex": sex,
        "Age": age,
        "Ticket": random.permutation(n) * 7 + 11,
        "Cabin": [f"C{i}" if i % 4 == 0 else None for i in range(n)],
        "Embarked": _texts(random, n, "S C Q -"),
    }


def penguins(random: np.random.Generator, n: int) -> Columns:
    species = _texts(random, n, "Adelie Gentoo Chinstrap")
    bill = np.select([species == "Adelie", species == "Gentoo"], [38, 47], 49) + random.normal(0, 2.5, n)
    mass = np.where(species == "Gentoo", 5000, 3700) + random.normal(0, 350, n).round()
    mass[::40] = np.nan
    return {
        "species": species,
        "island": _texts(random, n, "Biscoe Dream Torgersen"),
        "bill_length_mm": bill.round(1),
        "body_mass_g": mass,
        "sex": _texts(random, n, "male female -", [0.48, 0.48, 0.04]),
        "year": random.integers(2007, 2010, n),
    }


def cars(random: np.random.Generator, n: int) -> Columns:
    cylinders, weight = random.choice([4, 6, 8], n), random.uniform(1600, 5000, n).round()
    power = np.where(random.random(n) < 0.02, np.nan, 40 + 20 * cylinders + random.normal(0, 10, n)).round()
    return {
        "Name": [f"model {i}" for i in range(n)],
        "Miles_per_Gallon": (46 - weight / 150 + random.normal(0, 2, n)).round(1),
        "Cylinders": cylinders,
        "Horsepower": power,
        "Weight_in_lbs": weight,
        "Year": pd.to_datetime("1970-01-01") + pd.to_timedelta(365 * random.integers(0, 12, n), unit="D"),
        "Origin": _texts(random, n, "USA Japan Europe"),
    }


def flights(random: np.random.Generator, n: int) -> Columns:
    carrier, hour = _texts(random, n, "UA AA DL B6 EV"), random.integers(5, 23, n)
    delay = 3 * (hour - 5) + 8 * (carrier == "EV") + random.normal(0, 10, n)
    return {
        "date": [f"2013-{random.integers(1, 13):02d}-{random.integers(1, 29):02d} {h:02d}:00:00" for h in hour],
        "carrier": carrier,
        "tailnum": [f"N{i}" for i in random.integers(0, 2000, n)],
        "origin": _texts(random, n, "JFK LGA EWR"),
        "distance": random.integers(90, 2500, n),
        "arr_delay": delay.round(1),
    }


def diamonds(random: np.random.Generator, n: int) -> Columns:
    carat, cut = random.uniform(0.2, 2, n).round(2), _texts(random, n, "Ideal Premium Good Fair")
    return {
        "": np.arange(1, n + 1),
        "carat": carat,
        "cut": cut,
        "color": _texts(random, n, "D E F G H"),
        "depth": random.normal(61, 1.4, n).round(1),
        "price": (5000 * carat + 400 * (cut == "Ideal") + random.normal(0, 300, n)).round(),
    }


def houses(random: np.random.Generator, n: int) -> Columns:
    area, quality = random.uniform(600, 3000, n).round(), random.integers(1, 11, n)
    return {
        "Id": np.arange(1, n + 1),
        "LotFrontage": np.where(random.random(n) < 0.2, np.nan, random.uniform(20, 120, n).round()),
        "Neighborhood": _texts(random, n, "NAmes CollgCr OldTown Edwards Gilbert"),
        "Alley": _texts(random, n, "- Grvl Pave", [0.9, 0.05, 0.05]),
        "OverallQual": quality,
        "GrLivArea": area,
        "CentralAir": _texts(random, n, "Y N", [0.93, 0.07]),
        "Street": "Pave",
        "SalePrice": (60 * area + 12000 * quality + random.normal(0, 9000, n)).round(),
    }


def credit(random: np.random.Generator, n: int) -> Columns:
    months, amount = random.integers(4, 60, n), random.uniform(200, 15000, n).round()
    status = _texts(random, n, "A11 A12 A13 A14")
    bad = months / 20 - (status == "A14") * 1.5 + random.normal(0, 0.7, n) > 1.3
    return {
        "checking_status": status,
        "duration": months,
        "purpose": _texts(random, n, "car tv education business repairs"),
        "amount": amount,
        "foreign": random.random(n) < 0.05,
        "age": random.integers(19, 75, n),
        "risk": np.where(bad, "bad", "good"),
    }


def churn(random: np.random.Generator, n: int) -> Columns:
    tenure, contract = random.integers(0, 73, n), _texts(random, n, "monthly yearly")
    charges = random.uniform(18, 120, n).round(2)
    total = np.where(tenure == 0, np.nan, tenure * charges).round(2)
    left = (contract == "monthly") + charges / 120 - tenure / 40 + random.normal(0, 0.4, n) > 0.7
    return {
        "customerID": [f"{i:04d}-QX{i * 7 % 97}" for i in range(n)],
        "SeniorCitizen": random.integers(0, 2, n),
        "tenure": tenure,
        "Contract": contract,
        "MonthlyCharges": charges,
        "TotalCharges": total,
        "Churn": np.where(left, "Yes", "No"),
    }


def weather(random: np.random.Generator, n: int) -> Columns:
    rain = np.where(random.random(n) < 0.4, random.exponential(6, n), 0.0).round(1)
    return {
        "date": pd.date_range("2012-01-01", periods=n),
        "precipitation": rain,
        "temp_max": random.normal(16, 7, n).round(1),
        "wind": random.uniform(0.4, 9, n).round(1),
        "weather": np.where(rain > 0, "rain", _texts(random, n, "sun fog sun")),
    }


def wages(random: np.random.Generator, n: int) -> Columns:
    school, sector = random.integers(6, 19, n), _texts(random, n, "private public")
    return {
        "rownames": np.arange(1, n + 1),
        "exper": random.integers(0, 45, n),
        "union": _texts(random, n, "yes no"),
        "sector": sector,
        "married": random.random(n) < 0.6,
        "school": school,
        "wage": (0.6 * school + 2 * (sector == "public") + random.normal(0, 1.5, n)).round(2),
    }


def airports(random: np.random.Generator, n: int) -> Columns:
    longitude = random.uniform(-125, -65, n).round(4)
    coast = np.select([longitude < -110, longitude > -85], ["west", "east"], "middle")
    return {
        "iata": [f"{chr(65 + i % 26)}{chr(65 + i // 26 % 26)}{i}" for i in range(n)],
        "city": [f"city {i // 2}" for i in range(n)],
        "country": "USA",
        "latitude": random.uniform(25, 49, n).round(4),
        "longitude": longitude,
        "coast": coast,
    }


def stocks(random: np.random.Generator, n: int) -> Columns:
    symbol, day = _texts(random, n, "MSFT AMZN IBM"), np.arange(n)
    price = 20 + 60 * (symbol == "IBM") + 0.1 * day + random.normal(0, 3, n)
    dates = pd.Timestamp("2000-01-03") + pd.to_timedelta(7 * day, unit="D")
    return {"symbol": symbol, "date": dates.strftime("%b %d %Y"), "price": price.round(2)}


KNOWN = {
    "titanic": (titanic, "Survived"), "penguins": (penguins, "species"), "cars": (cars, "Miles_per_Gallon"),
    "flights": (flights, "arr_delay"), "diamonds": (diamonds, "price"), "houses": (houses, "SalePrice"),
    "credit": (credit, "risk"), "churn": (churn, "Churn"), "weather": (weather, "weather"), "wages": (wages, "wage"),
    "airports": (airports, "coast"), "stocks": (stocks, "price"),
}  # fmt: skip
"""Twelve tables by name: who makes the columns, and the target."""


def known(name: str, n: int = 200) -> tuple[pd.DataFrame, str]:
    """A small copy of a table, and the name of its target."""
    make, target = KNOWN[name]
    return pd.DataFrame(make(np.random.default_rng(7), n)), target
