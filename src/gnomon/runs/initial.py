"""What a fit begins from, in JSON values: the weights of another fit, what of them is kept, what learns how fast.

Standard library only, as all of config.json.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import Any, Literal, Self, get_args

from gnomon.errors import UserTypeError, UserValueError

__all__ = ["FineTuning"]

Head = Literal["auto", "new", "kept"]


@dataclass(frozen=True)
class FineTuning:
    """Begin from the weights of another fit: ``fit(X, y, initial=FineTuning("runs/source", lr_backbone=1e-4))``.

    All weights are copied but those of the output layer where the classes are others; the numbers that standardize
    inputs are copied with them, so that the network sees what it was trained on.

    Parameters
    ----------
    source : path or fitted System
        A run, or a .safetensors file: of a run, of ``model_.state()``, or of torchvision's names where the system is a
        convolutional network of its; for systems that read texts in both directions the folder of a BERT, ELECTRA or
        RoBERTa, as transformers saves it.
    freeze : tuple of str, default ()
        Patterns of parameter names, such as ``"features.0*"``: these stay as they are, and norms all of whose
        parameters stay keep their running mean and variance, in training too. The name of a layer stands for all in it.
    fresh : tuple of str, default ()
        Patterns of what is not copied, beside the output layer.
    head : {"auto", "new", "kept"}, default "auto"
        Whether the output layer begins anew; "auto": unless the source has the same classes, or nothing is predicted.
    lr_backbone, lr_head : float >= 0, optional
        Step sizes of what was copied and of what begins anew (of the output layer, where that is kept); the system's
        ``learning_rate`` where left out, and a schedule moves all of them. An ``lr_backbone`` of 0 freezes.
    lr_decay : float in (0, 1], default 1
        Factor of the step size for each stage from the output layer back.

    Raises
    ------
    UserTypeError, UserValueError
        Values of another kind or size.

    Examples
    --------
    >>> FineTuning("runs/source", freeze=("features.0*",), lr_head=0.01).to_json()
    {'source': 'runs/source', 'freeze': ['features.0*'], 'lr_head': 0.01}
    """

    source: Any
    freeze: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()
    head: Head = "auto"
    lr_backbone: float | None = None
    lr_head: float | None = None
    lr_decay: float = 1.0

    def __post_init__(self) -> None:
        for name in ("freeze", "fresh"):
            value = getattr(self, name)
            if isinstance(value, str):
                value = (value,)
            if not isinstance(value, tuple | list) or not all(isinstance(one, str) and one for one in value):
                raise UserTypeError.must(name, "be a tuple of patterns of names", value)
            object.__setattr__(self, name, tuple(value))
        if self.head not in get_args(Head):
            raise UserValueError.must("head", "be auto, new or kept", self.head)
        for name in ("lr_backbone", "lr_head", "lr_decay"):
            object.__setattr__(self, name, _rate(name, getattr(self, name)))
        if self.lr_decay is None or not 0 < self.lr_decay <= 1:
            raise UserValueError.must("lr_decay", "be above 0 and at most 1", self.lr_decay)
        if self.lr_head == 0:
            raise UserValueError.must("lr_head", "be above 0", self.lr_head, remedy="freeze layers in place of it")

    @classmethod
    def of(cls, given: Any) -> Self:
        """What was given, a source alone being one with the defaults."""
        return given if isinstance(given, cls) else cls(given)

    @property
    def place(self) -> str | None:
        """The path of the source; None of a System in memory."""
        return os.fspath(self.source) if isinstance(self.source, str | os.PathLike) else None

    def at(self, place: str) -> Self:
        """The same with another source."""
        return replace(self, source=place)

    def to_json(self) -> dict[str, Any]:
        """As config.json has it: what is not the default.

        Raises
        ------
        UserValueError
            A source that is no path.
        """
        if self.place is None:
            what = "a run must begin from a path, since it is read again when the fit is resumed; got a system"
            raise UserValueError(what, "initial", 'save it, system.save("source"), and give initial="source"')
        usual = {one.name: one.default for one in fields(self)}
        values = {name: getattr(self, name) for name, value in usual.items() if getattr(self, name) != value}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in {**values, "source": self.place}.items()}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """What `to_json` gave.

        Raises
        ------
        UserValueError
            It names no source.
        """
        if not isinstance(given, Mapping) or not isinstance(given.get("source"), str):
            raise UserValueError("initial names no source", "config.json", "put back what gnomon wrote, or fit again")
        known = {one.name for one in fields(cls)}
        return cls(**{name: value for name, value in given.items() if name in known})


def _rate(name: str, value: Any) -> float | None:
    """A number that JSON takes; None as it is."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Real):
        raise UserTypeError.must(name, "be a number", value)
    rate = float(value)
    if not 0 <= rate < math.inf:
        raise UserValueError.must(name, "be at least 0 and finite", value)
    return rate
