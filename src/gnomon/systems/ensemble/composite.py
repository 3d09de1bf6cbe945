"""Systems made of Systems: their addresses, the fit of one member per step, a folder per member."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import clone, is_classifier

from gnomon.catalog import make
from gnomon.contracts import Array, Group, Noise
from gnomon.data.column_steps import NumberStep
from gnomon.data.examples import Examples
from gnomon.data.prepared import Prepared
from gnomon.distributions.domains import Labels
from gnomon.errors import UserTypeError, UserValueError
from gnomon.recipes.synonyms import advice
from gnomon.runs.codecs import decode, encode
from gnomon.runs.config import MODEL
from gnomon.runs.folder import RunFolder
from gnomon.system.base import System
from gnomon.training.context import context
from gnomon.training.driver import FitResult
from gnomon.training.procedure import Info, Problem

__all__ = ["Composite", "InTurn", "Parts", "member", "outputs"]

NAME = re.compile(r"^[a-z][a-z0-9_]*$")
SEEDS = 1 << 31


def member(value: Any, where: str) -> System:
    """The System that a parameter stands for: itself, or the name of one in the catalog.

    Raises
    ------
    UserTypeError, UserValueError
        Something else.
    """
    if isinstance(value, str):
        system: Any = make(value)
        return system
    if not isinstance(value, System):
        raise UserTypeError(
            f"a member must be a system or the name of one, got {value!r:.60}",
            where,
            "give, for example, 'decision-tree'",
        )
    return value


def outputs(part: System, X: Array, classes: Array | None) -> Array:
    """What a fitted member says of rows.

    Parameters
    ----------
    part : System
    X : array of shape (n, d)
    classes : array of shape (k,) or None
        Labels of the whole; the member may have met some of them only. None: a regression.

    Returns
    -------
    array of shape (n, k) or (n, t), float64
        Probabilities (1 for the predicted class where the member has none); the prediction for a regression.
    """
    if classes is None:
        predicted = np.asarray(part.predict(X), np.float64)
        return predicted[:, None] if predicted.ndim == 1 else predicted
    proba = np.zeros((len(X), len(classes)))
    if hasattr(part, "predict_proba"):
        _, columns = Labels().locate(part.classes_, classes)
        proba[:, columns] = part.predict_proba(X)
    else:
        _, codes = Labels().locate(part.predict(X), classes)
        proba[np.arange(len(X)), codes] = 1.0
    return proba


class Parts:
    """Fitted members by name, beside arrays of their own: the base of the models of this family.

    A subclass says ``turns``, how many steps its fit takes, and ``turn``, what each does.
    """

    turns: int = 1

    def __init__(self) -> None:
        self.parts: dict[str, System] = {}
        self.blank: dict[str, System] = {}
        """Unfitted member by the name of the part that is made of it."""
        self.own: dict[str, Array] = {}
        self.target: tuple[float, float] | None = None
        """Mean and spread of the target, for members whose answer depends on its unit."""

    def turn(self, i: int, examples: Examples, noise: Noise) -> dict[str, float] | None:
        """Step i of the fit; a line of the history, if there is something to tell."""
        raise NotImplementedError

    def fit_part(self, blank: System, X: Array, y: Array, weight: Array, seed: int, *, always: bool) -> System:
        """A fitted clone of a member; its own seed is kept unless it is None or `always` is set."""
        part = clone(blank)
        if always or part.random_state is None:
            part.set_params(random_state=seed)
        options: dict[str, Any] = {} if (weight == 1).all() else {"sample_weight": weight}
        if self.target is not None and part.scales_target:
            steps = tuple(NumberStep(f"column_{j}") for j in range(1, X.shape[1] + 1))
            options["preparation"] = Prepared(steps, target=self.target)
        with context(verbose=False, callbacks=(), checkpoint_every=None):
            return part.fit(X, y, **options)

    def state(self) -> dict[str, Array]:
        """Arrays of the members as ``name/array``, what makes them whole as ``name/facts``, and arrays of its own."""
        found: dict[str, Array] = dict(self.own)
        for name, part in self.parts.items():
            facts = part._facts(part.outcome_) | {"records": []}
            found[f"{name}/facts"] = np.frombuffer(json.dumps(encode(facts)).encode(), np.uint8)
            found |= {f"{name}/{key}": value for key, value in part.model_.state().items()}
        return found

    def load(self, state: Mapping[str, Array]) -> None:
        """Take over the arrays."""
        groups: dict[str, dict[str, Array]] = {}
        self.own = {key: np.array(value) for key, value in state.items() if "/" not in key}
        for key, value in state.items():
            name, slash, inner = key.partition("/")
            if slash:
                groups.setdefault(name, {})[inner] = value
        self.parts = {name: self._restored(name, arrays) for name, arrays in groups.items()}

    def _restored(self, name: str, arrays: dict[str, Array]) -> System:
        facts = decode(json.loads(bytes(arrays.pop("facts")).decode()))
        return clone(self._blank(name)).restore(arrays, facts)

    def _blank(self, name: str) -> System:
        return self.blank[name]


class InTurn:
    """The procedure of a model made of members: each step is one `Parts.turn`, on all processes together.

    The problem's batches are the whole `Examples`; a member shares its rows among the processes by itself. A fit that
    was stopped repeats the turn that had not ended.
    """

    def start(self, problem: Problem) -> tuple[Problem, int]:
        """No member is fitted yet."""
        return problem, 0

    def total_steps(self, state: tuple[Problem, int]) -> int:
        """Turns of the whole fit."""
        turns: int = state[0].model.turns
        return turns

    def step(self, state: tuple[Problem, int]) -> tuple[tuple[Problem, int], Info]:
        """The next turn."""
        problem, i = state
        record = problem.model.turn(i, problem.batches, problem.noise)
        return (problem, i + 1), Info(done=i + 1 == problem.model.turns, record=record)

    def save(self, state: tuple[Problem, int]) -> tuple[dict[str, Array], dict[str, Any]]:
        """The members so far and their histories."""
        problem, i = state
        records = {name: part.outcome_.records for name, part in problem.model.parts.items()}
        return problem.model.state(), {"turn": i, "records": records}

    def load(self, problem: Problem, arrays: Mapping[str, Array], facts: Mapping[str, Any]) -> tuple[Problem, int]:
        """Go on after the last turn that had ended."""
        problem.model.load(arrays)
        for name, records in facts["records"].items():
            _with_records(problem.model.parts[name], records)
        return problem, facts["turn"]


def _with_records(part: System, records: list[dict[str, float]]) -> None:
    part.outcome_.records[:] = records
    part._set_fitted(part.model_, part.outcome_)


class Composite(System):
    """Base of a System that holds Systems; it stands before `Classifier` or `Regressor` among the bases.

    A member is addressed as ``name__parameter``; what is set is a changed copy, the member itself stays as it is.
    """

    def _named(self) -> dict[str, System]:
        """Unfitted members by the name that addresses them."""
        raise NotImplementedError

    def _replace(self, name: str, system: System) -> None:
        """Put another member in the place of the one of this name."""
        raise NotImplementedError

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Hyper-parameters; with `deep` those of the members too, as ``name__parameter``."""
        found: dict[str, Any] = super().get_params(deep=False)
        if not deep:
            return found
        try:
            named = self._named()
        except (TypeError, ValueError):  # said by the fit
            return found
        for name, system in named.items():
            found |= {f"{name}__{key}": value for key, value in system.get_params(deep=True).items()}
        return found

    def set_params(self, **params: Any) -> Self:
        """Set hyper-parameters; ``name__parameter`` changes one of a member's."""
        own = self.get_params(deep=False)
        super().set_params(**{k: v for k, v in params.items() if "__" not in k or k in own})
        inner: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, dashes, rest = key.partition("__")
            if dashes:
                inner.setdefault(name, {})[rest] = value
        for name, values in inner.items():
            named = self._named()
            if name not in named:
                raise UserValueError(f"unknown parameter {name!r}", type(self).__name__, advice(name, [*own, *named]))
            self._replace(name, clone(named[name]).set_params(**values))
        return self

    @property
    def scale_dependent(self) -> bool:  # type: ignore[override]
        """Whether a member's answer depends on the columns' units."""
        return any(system.scale_dependent for system in self._named().values())

    @property
    def scales_target(self) -> bool:  # type: ignore[override]
        """Whether a member's answer depends on the unit of the target."""
        return any(system.scales_target for system in self._named().values())

    def check_parameters(self) -> None:
        super().check_parameters()
        for name, system in self._named().items():
            if not NAME.match(name):
                raise UserValueError(f"a member is called {name!r}", "members", "use lower case letters, digits and _")
            if is_classifier(system) != is_classifier(self):
                kind = "classifier" if is_classifier(self) else "regression"
                raise UserValueError(f"{name} must be a {kind}, got {system!r:.60}", name)
            system.check_parameters()

    def procedure(self, examples: Any) -> InTurn:
        return InTurn()

    def problem(self, model: Parts, examples: Examples, noise: Noise, group: Group, validation: Any = None) -> Problem:
        preparation = self._preparation
        model.target = None if preparation is None else preparation.target
        return Problem(model, examples, noise, group)

    # --- a folder per member ------------------------------------------------------------------------------------

    def _write(self, run: RunFolder, model: Parts, outcome: FitResult) -> None:
        for name, part in model.parts.items():
            inside = run.new_member(name, part._config(MODEL, part.seed_))
            part._write(inside, part.model_, part.outcome_)
        # last, since it says that the run is finished
        run.write_model(model.own, self._facts(outcome) | {"parts": list(model.parts)})

    def restore(
        self, arrays: Mapping[str, Array], facts: Mapping[str, Any], members: Mapping[str, System] | None = None
    ) -> Self:
        super().restore(arrays, facts)
        if members is not None:
            self.model_.parts = {name: members[name] for name in facts["parts"]}
        return self


def listed(value: Any) -> list[tuple[str, System]]:
    """Name and System of every member.

    Parameters
    ----------
    value : str or sequence
        ``"softmax-regression+decision-tree"``, or names, Systems and pairs (name, System). The name of a member is
        that of its system with underscores; members of one system are numbered.

    Raises
    ------
    UserTypeError, UserValueError
        No member, one that is no system, two of one name.

    Examples
    --------
    >>> [name for name, _ in listed("decision-tree+softmax-regression+decision-tree")]
    ['decision_tree', 'softmax_regression', 'decision_tree_2']
    """
    items: Sequence[Any] = value.split("+") if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not items:
        raise UserTypeError(f"members must be a list of names or systems, got {value!r:.60}", "members")
    pairs: list[tuple[str, System]] = []
    for item in items:
        if isinstance(item, list | tuple) and len(item) == 2 and isinstance(item[0], str):
            name, system = item[0], member(item[1], "members")
        else:
            system = member(item, "members")
            name = _free(system.name.replace("-", "_"), [known for known, _ in pairs])
        if name in [known for known, _ in pairs]:
            raise UserValueError(f"two members are called {name!r}", "members", "give each a name of its own")
        pairs.append((name, system))
    return pairs


def _free(stem: str, taken: list[str]) -> str:
    return next(n for n in (stem, *(f"{stem}_{i}" for i in range(2, len(taken) + 3))) if n not in taken)
