"""The schema of config.json: what a run was asked to do, in JSON values.

Standard library only: the command line writes it before anything heavy is imported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from gnomon.errors import UserValueError, shown

__all__ = [
    "ARRAYS", "CHAINS", "FIT", "MODEL", "NAMED", "USUAL", "DataSpec", "RunConfig", "check_checkpoint", "check_facts",
]  # fmt: skip

NAMED, ARRAYS = "name or file", "arrays"
"""Sources of a run's data: one that can be read again, and arrays that were handed over."""
USUAL = "usual"
"""The split of a run whose data has not been read yet, where none was asked for."""
FIT, MODEL, CHAINS = "fit", "model", "chains"
"""Kinds of runs: a fit, a saved model, draws of Markov chains."""
NEEDED = {"system": str, "where": str, "parameters": dict}
NEEDED_BY_CHAINS = {"kernel": dict, "sampling": dict, "seed": int}
DAMAGED = "the file is damaged: fit again"
Rule = tuple[str, Callable[[Any], bool]]


def _is_whole(value: Any, least: float = -math.inf) -> bool:
    return type(value) is int and value >= least


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_names(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(one, str | int) for one in value))


def _are_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())


def _is_size(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(_is_whole(one, 1) for one in value)


def _is_fraction(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < 1


def _are_attributes(value: Any) -> bool:
    return isinstance(value, dict) and all(_is_text(name) and name.endswith("_") for name in value)


def _are_records(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, dict) and all(type(number) in (int, float) for number in one.values()) for one in value
    )


def check_facts(facts: Mapping[str, Any], where: str) -> None:
    """Refuse facts beside the arrays of a model that no run has, before anything is made of them.

    Raises
    ------
    UserValueError
        The first such fact, or one that is missing.
    """
    _require(facts, MODEL_RULES, where)
    given, known = facts["arguments"].get("n_features"), facts["attributes"].get("n_features_in_")
    if None not in (given, known) and (type(given) is not int or given != known):
        raise UserValueError.must("n_features", f"be {shown(known)}, that of the fit", given, where, DAMAGED)


def check_checkpoint(facts: Mapping[str, Any], where: str) -> None:
    """The same of a checkpoint."""
    _require(facts, CHECKPOINT_RULES, where)


def _require(facts: Mapping[str, Any], rules: Mapping[str, Rule], where: str) -> None:
    if not isinstance(facts, Mapping):
        raise UserValueError.must("facts", "be an object", facts, where, DAMAGED)
    for name, (rule, holds) in rules.items():
        if name not in facts:
            raise UserValueError(f"{where} does not fit its system", f"it names no {name}", DAMAGED)
        if not holds(facts[name]):
            raise UserValueError.must(name, rule, facts[name], where, DAMAGED)


RULES: Mapping[str, Rule] = {
    "kind": (f"be {FIT}, {MODEL} or {CHAINS}", lambda value: value in (FIT, MODEL, CHAINS)),
    "seed": ("be a whole number", _is_whole),
    "versions": ("be an object of texts", lambda value: isinstance(value, dict) and all(map(_is_text, value.values()))),
    "devices": ("be a whole number of at least 1", lambda value: _is_whole(value, 1)),
    "checkpoint_every": ("be a whole number of at least 1", lambda value: _is_whole(value, 1)),
    "reopened": ("be true or false", lambda value: isinstance(value, bool)),
    "monitor": ("be true or false", lambda value: isinstance(value, bool)),
    "device": ("be text", _is_text),
    "precision": ("be float32 or bfloat16", lambda value: value in ("float32", "bfloat16")),
    "micro_batch": ("be a whole number of at least 1", lambda value: _is_whole(value, 1)),
    "initial": ("name a source", lambda value: isinstance(value, dict) and _is_text(value.get("source"))),
}
"""What the facts of a run must be, where they are there."""

MODEL_RULES: Mapping[str, Rule] = {
    "arguments": ("be an object", lambda value: isinstance(value, dict)),
    "attributes": ("be an object of names that end with _", lambda value: _are_attributes(value)),
    "records": ("be a list of objects of numbers", lambda value: _are_records(value)),
    "steps": ("be a whole number of at least 0", lambda value: _is_whole(value, 0)),
    "seed": ("be a whole number", _is_whole),
}
"""What the facts beside the arrays of a model must be."""

CHECKPOINT_RULES: Mapping[str, Rule] = {
    "steps": MODEL_RULES["steps"],
    "records": MODEL_RULES["records"],
    "done": ("be true or false", lambda value: isinstance(value, bool)),
    "procedure": ("be an object", lambda value: isinstance(value, dict)),
}
"""What the facts of a checkpoint must be."""

DATA_RULES: Mapping[str, Rule] = {
    "source": (f"be {NAMED!r} or {ARRAYS!r}", lambda value: value in (NAMED, ARRAYS)),
    "name": ("be text", _is_text),
    "target": ("be text, a whole number or null", lambda value: value is None or _is_text(value) or _is_whole(value)),
    "columns": ("be a list of names or null", _are_names),
    "holdout": ("be a number in [0, 1)", _is_fraction),
    "features": ("be a list of names or null", _are_names),
    "whole": ("be text", _is_text),
    "fingerprint": ("be text", _is_text),
    "split": ("be text", _is_text),
    "levels": ("be a whole number of at least 2", lambda value: _is_whole(value, 2)),
    "form": ("be an object of texts or null", lambda value: value is None or _are_texts(value)),
    "resize": ("be [height, width] or null", lambda value: value is None or _is_size(value)),
    "prepare": ("be an object", lambda value: isinstance(value, dict)),
    "preparation": ("be an object", lambda value: isinstance(value, dict)),
    "split_seed": ("be a whole number", _is_whole),
    "folds": ("be a whole number of at least 2", lambda value: _is_whole(value, 2)),
    "fold": ("be a whole number of at least 0", lambda value: _is_whole(value, 0)),
}
"""What the facts of a run's data must be, where they are there."""


@dataclass(frozen=True)
class DataSpec:
    """The data of a run, from which the same rows are read again.

    Parameters
    ----------
    source : {"name or file", "arrays"}
    name : str
        Name of a set, or absolute path of a file.
    target, columns
        As they were asked for.
    holdout : float in [0, 1)
        Fraction of the rows kept out of the fit.
    features : list of str, optional
        The columns that were fitted to, by name and in order.
    whole, fingerprint : str, optional
        Of the whole data set, and of what the fit saw.
    split : str, default "random"
        How the rows were held out; `USUAL` until the data is read: stratified where there are classes.
    levels : int, optional
        Grey levels of the images that were fitted to.
    resize : list of int, optional
        Height and width to which images are brought.
    form : dict, optional
        Encoding, separator and marks of a text file, see `gnomon.data.form.Form`.
    prepare : mapping, optional
        How raw columns are prepared, where it was asked for: the fields of a `gnomon.data.Preparation`.
    preparation : mapping, optional
        What was learned of the training rows: a `gnomon.data.Prepared`.
    split_seed : int, default 0
        Seed of the rows that were held out.
    folds, fold : int, default 0
        Of how many folds the rows are those of which one.

    Examples
    --------
    >>> DataSpec(ARRAYS).to_json()
    {'source': 'arrays'}
    """

    source: str
    name: str | None = None
    target: str | int | None = None
    columns: list[str] | None = None
    holdout: float = 0.0
    features: list[str] | None = None
    whole: str | None = None
    fingerprint: str | None = None
    split: str = "random"
    levels: int | None = None
    resize: list[int] | None = None
    form: dict[str, str] | None = None
    prepare: Mapping[str, Any] | None = None
    preparation: Mapping[str, Any] | None = None
    split_seed: int = 0
    folds: int = 0
    fold: int = 0

    @property
    def how(self) -> str | None:
        """How rows are held out; None where that is to be settled by the data."""
        return None if self.split == USUAL else self.split

    def to_json(self) -> dict[str, Any]:
        """As config.json has it."""
        usual = {"split": "random", "split_seed": 0, "folds": 0, "fold": 0}
        held = {name: getattr(self, name) for name, value in usual.items() if getattr(self, name) != value}
        if self.source == ARRAYS:
            known = {name: getattr(self, name) for name in ("whole", "holdout", "fingerprint", "preparation")}
            return {"source": ARRAYS} | {name: value for name, value in known.items() if value} | held
        late_ones = ("features", "whole", "fingerprint", "levels", "resize", "form", "prepare", "preparation")
        late = {name: getattr(self, name) for name in late_ones}
        first = {name: getattr(self, name) for name in ("source", "name", "target", "columns", "holdout")}
        return first | held | {name: value for name, value in late.items() if value not in (None, {})}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """The data that a run can read again.

        Raises
        ------
        UserValueError
            Arrays, or a fact that is missing.
        """
        if given.get("source") != NAMED:
            raise UserValueError("the run was fitted to arrays", "data", "name the data, or use Python")
        missing = [name for name in ("name", "target", "columns", "holdout") if name not in given]
        if missing:
            where = f"config.json names no {missing[0]}"
            raise UserValueError("the data of the run cannot be read again", where, "fit again")
        known = {one.name for one in fields(cls)}
        return cls(**{name: value for name, value in given.items() if name in known})


@dataclass(frozen=True)
class RunConfig:
    """What config.json says.

    Parameters
    ----------
    kind : {"fit", "model", "chains"}
    seed : int
    versions : mapping
        Of the packages.
    system, where : str
        Name of the system, and its ``module:Class``.
    parameters : mapping
        Its hyper-parameters, encoded.
    data : DataSpec, optional
    devices : int, optional
        Processes that fit together.
    checkpoint_every : int, optional
        Steps between checkpoints.
    device, precision : str, optional
        Where and how networks compute; see `gnomon.training.context.Context`.
    micro_batch : int, optional
        Rows that are computed at once; likewise.
    monitor : bool, optional
        Whether the fit is watched inside; likewise.
    initial : mapping, optional
        What the fit begins from, see `gnomon.runs.initial.FineTuning`.
    kernel, adapt, target, sampling : mapping, optional
        Of chains.

    Examples
    --------
    >>> RunConfig(FIT, 0, {}, "rbm", "m:RBM", {}, DataSpec(ARRAYS)).to_json()["data"]
    {'source': 'arrays'}
    """

    kind: str
    seed: int | None
    versions: Mapping[str, str]
    system: str | None = None
    where: str | None = None
    parameters: Mapping[str, Any] | None = None
    data: DataSpec | None = None
    devices: int | None = None
    checkpoint_every: int | None = None
    device: str | None = None
    precision: str | None = None
    monitor: bool | None = None
    initial: Mapping[str, Any] | None = None
    kernel: Mapping[str, Any] | None = None
    adapt: Any = None
    target: Mapping[str, Any] | None = None
    sampling: Mapping[str, Any] | None = None
    micro_batch: int | None = None

    def to_json(self) -> dict[str, Any]:
        """As config.json has it; what is None is left out."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        if self.data is not None:
            found["data"] = self.data.to_json()
        return {name: value for name, value in found.items() if value is not None}

    @staticmethod
    def lacks(config: Mapping[str, Any]) -> str | None:
        """The first fact that a config.json lacks, or has in another form; None where it is whole."""
        needed = NEEDED_BY_CHAINS if config.get("kind") == CHAINS else NEEDED
        missing = [name for name, kind in needed.items() if not isinstance(config.get(name), kind)]
        if not isinstance(config.get("data", {}), dict):
            missing.append("data")
        return missing[0] if missing else None

    @staticmethod
    def check(config: Mapping[str, Any], where: str) -> None:
        """Refuse facts that no run has, which somebody wrote into its config.json.

        Parameters
        ----------
        config : mapping
            Whole, by `lacks`.
        where : str
            The file, for messages.

        Raises
        ------
        UserValueError
            The first such fact: what it must be, and what it is.

        Examples
        --------
        >>> RunConfig.check({"kind": "fit", "devices": 2}, "config.json")  # says nothing: all is well
        """
        facts = {name: (config[name], rule) for name, rule in RULES.items() if name in config}
        data = config.get("data", {})
        facts |= {f"data.{name}": (data[name], rule) for name, rule in DATA_RULES.items() if name in data}
        for name, (value, (rule, holds)) in facts.items():
            if not holds(value):
                remedy = "put back what gnomon wrote, or fit again"
                raise UserValueError(f"{name} must {rule}, got {shown(value)}", where, remedy)
