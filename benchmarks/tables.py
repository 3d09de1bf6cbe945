"""Systems with their defaults beside scikit-learn's on people's tables: paired differences over several splits.

    python benchmarks/tables.py [FILE:TARGET[:TASK] ...] [--splits 8] [--rows 3000] [--systems mlp,bagging,...]

A table is read as ``gnomon fit FILE --target TARGET`` reads it; TASK is classify or regress where the target does not
say it. Without a table those of installed packages are taken (of scikit-learn, and of ISLP, palmerpenguins and
vega_datasets where these are there). For each split both sides are given the same training rows, prepared as the
system's defaults have it, and are asked about the same rows held out. Scikit-learn's lines, machines and networks stand
in a pipeline with StandardScaler, which leaves columns of 0 and 1 as they are.

Printed: both mean scores, and the mean of the differences with its error over the splits; accuracy in points, squared
error in hundredths of the target's variance, positive where gnomon is better. Splits share rows, so that the error
speaks of other splits of the same table. A line is marked where gnomon is behind (<) or ahead (>) by more than two
errors; by chance about one line in twelve is, with eight splits.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import ensemble, linear_model, neural_network, svm, tree
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import gnomon
from gnomon.data import load, split
from gnomon.tasks.preparing import are_numbers

BUILT_IN = ("iris", "wine", "breast-cancer", "diabetes")
PACKAGED = {
    "palmerpenguins/data/penguins.csv": "species", "vega_datasets/_data/cars.json": "Miles_per_Gallon",
    "vega_datasets/_data/seattle-weather.csv": "weather", "ISLP/data/Auto.csv": "mpg",
    "ISLP/data/Bikeshare.csv": "bikers", "ISLP/data/Carseats.csv": "Sales", "ISLP/data/College.csv": "Private",
    "ISLP/data/Default.csv": "default", "ISLP/data/Hitters.csv": "Salary", "ISLP/data/OJ.csv": "Purchase",
    "ISLP/data/Wage.csv": "wage",
}  # fmt: skip
"""Tables in the folders of packages, with their targets."""


def _of_spread(model: Any) -> Any:
    """A regression whose answer depends on the unit of its target, given the target at mean 0 and spread 1."""
    return TransformedTargetRegressor(model, transformer=StandardScaler())


SCALED: dict[str, Callable[[int], Any]] = {
    "softmax-regression": lambda n: linear_model.LogisticRegression(C=1e4 / n, max_iter=5000),
    "logistic-regression": lambda n: linear_model.LogisticRegression(max_iter=5000),
    "gaussian-classifier": lambda n: LinearDiscriminantAnalysis(),
    "svm": lambda n: svm.SVC(),
    "mlp": lambda n: neural_network.MLPClassifier(),
    "stacking": lambda n: ensemble.StackingClassifier(
        [("line", SCALED["softmax-regression"](n)), ("forest", ensemble.RandomForestClassifier())]
    ),
    "linear-regression": lambda n: linear_model.LinearRegression(),
    "bayesian-regression": lambda n: linear_model.BayesianRidge(),
    "support-vector-regression": lambda n: _of_spread(svm.SVR()),
    "mlp-regression": lambda n: _of_spread(neural_network.MLPRegressor()),
    "stacking-regression": lambda n: ensemble.StackingRegressor(
        [("forest", ensemble.RandomForestRegressor()), ("machine", _of_spread(svm.SVR()))],
        linear_model.LinearRegression(),
    ),
}
RAW: dict[str, Callable[[int], Any]] = {
    "decision-tree": lambda n: tree.DecisionTreeClassifier(),
    "bagging": lambda n: ensemble.BaggingClassifier(),
    "random-forest": lambda n: ensemble.RandomForestClassifier(),
    "extra-trees": lambda n: ensemble.ExtraTreesClassifier(),
    "adaboost": lambda n: ensemble.AdaBoostClassifier(),
    "gradient-boosting": lambda n: ensemble.GradientBoostingClassifier(),
    "histogram-boosting": lambda n: ensemble.HistGradientBoostingClassifier(),
    "regression-tree": lambda n: tree.DecisionTreeRegressor(),
    "bagging-regression": lambda n: ensemble.BaggingRegressor(),
    "random-forest-regression": lambda n: ensemble.RandomForestRegressor(),
    "extra-trees-regression": lambda n: ensemble.ExtraTreesRegressor(),
    "gradient-boosting-regression": lambda n: ensemble.GradientBoostingRegressor(),
    "histogram-boosting-regression": lambda n: ensemble.HistGradientBoostingRegressor(),
}


def peer(name: str, X: np.ndarray[Any, Any], seed: int) -> Any:
    """Scikit-learn's estimator for a system, with its defaults, in a pipeline that scales where it must."""
    model = (SCALED | RAW)[name](len(X))
    model.set_params(**{key: seed for key in model.get_params() if key.rpartition("__")[2] == "random_state"})
    if name in RAW:
        return model
    measured = [j for j in range(X.shape[1]) if not np.isin(X[:, j], (0, 1)).all()]
    return make_pipeline(make_column_transformer((StandardScaler(), measured), remainder="passthrough"), model)


def tables() -> Iterator[str]:
    """Tables of installed packages, as they are asked for on the command line."""
    yield from BUILT_IN
    for place, target in PACKAGED.items():
        package, _, rest = place.partition("/")
        found = importlib.util.find_spec(package)
        for folder in (found.submodule_search_locations or []) if found else []:
            if (Path(folder) / rest).exists():
                yield f"{Path(folder) / rest}:{target}"


def scores(name: str, data: Any, seed: int) -> tuple[float, float]:
    """Points of a system and of its peer on one split."""
    train, held = split(data, test=0.2, seed=seed)
    system = gnomon.make(name, random_state=seed)
    gnomon.fit(system, train)
    train, held = system.preparation_.apply(train), system.preparation_.apply(held)
    theirs = peer(name, train.X, seed).fit(train.X, train.y)
    answers = [np.asarray(one.predict(held.X)) for one in (system, theirs)]
    if "classify" in system.tasks:
        ours, other = (float(np.mean(answer == held.y)) for answer in answers)
    else:
        ours, other = (-float(np.mean((answer - held.y) ** 2) / held.y.var()) for answer in answers)
    return 100 * ours, 100 * other


def line(table: str, name: str, pairs: list[tuple[float, float]]) -> str:
    """Means, and the mean difference with its error over the splits."""
    ours, theirs = np.transpose(pairs)
    difference = ours - theirs
    mean, error = difference.mean(), difference.std(ddof=1) / math.sqrt(len(pairs))
    mark = "" if abs(mean) <= 2 * error else "<" if mean < 0 else ">"
    return f"{table:<16} {name:<30} {ours.mean():9.3f} {theirs.mean():9.3f}   {mean:+8.3f} ± {error:.3f} {mark}"


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    asked.add_argument("tables", nargs="*", metavar="FILE:TARGET[:TASK]")
    asked.add_argument("--splits", type=int, default=8)
    asked.add_argument("--rows", type=int, default=3000, help="rows of a table at most")
    asked.add_argument("--systems", default=",".join([*SCALED, *RAW]))
    given = asked.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'table':<16} {'system':<30} {'gnomon':>9} {'theirs':>9}   difference over {given.splits} splits")
    for asked_for in given.tables or tables():
        place, target, task = [*asked_for.split(":"), "", ""][:3]
        data = load(place, target=target or None)
        if len(data) > given.rows:
            data = split(data, test=given.rows / len(data), seed=0)[1]
        task = task or ("regress" if are_numbers(data.y) else "classify")
        for name in given.systems.split(","):
            if task in gnomon.make(name).tasks:
                pairs = [scores(name, data, seed) for seed in range(given.splits)]
                print(line(Path(place).stem, name, pairs), flush=True)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
