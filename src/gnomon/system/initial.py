"""The first weights of a fit that come from another one: read, put into the model, told of."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import Any, cast

import numpy as np

from gnomon.data.prepared import Prepared
from gnomon.errors import UserTypeError, UserValueError, counted
from gnomon.runs.digests import digest
from gnomon.runs.initial import FineTuning
from gnomon.system.base import System
from gnomon.system.published import Published
from gnomon.system.saving import load
from gnomon.training.driver import not_finite
from gnomon.training.fine_tuning import copy_weights, freeze, matched, output_names, parameter_groups

__all__ = ["Beginning", "Source", "preparation_of", "read"]

PICKLES = (".pth", ".pt", ".bin", ".ckpt", ".pkl", ".pickle", ".tar")
ENDING = ".safetensors"
CONVERT = (
    "python -c 'import sys, torch, safetensors.torch as s; s.save_file({{k: v.clone().contiguous() for k, v in "
    "torch.load(sys.argv[1], weights_only=True).items()}}, sys.argv[2])' {old} {new}"
)


@dataclass(frozen=True)
class Source:
    """Weights by name, and the fitted system that they are of, where it is known.

    Parameters
    ----------
    name : str
        What messages call it.
    arrays : mapping of str to array
    system : System, optional
    called : mapping of str to str
        What the source itself calls the arrays, where that differs.
    published : Published, optional
        What stands beside the weights in the folder of a published encoder of texts.
    partial : bool, default False
        Whether the arrays are the backbone alone, of a network with another head.
    """

    name: str
    arrays: Mapping[str, Any]
    system: System | None = None
    called: Mapping[str, str] = field(default_factory=dict)
    published: Published | None = None
    partial: bool = False

    @property
    def preparation(self) -> Prepared | None:
        """What made numbers of the columns, where it is a system fitted to a table."""
        return getattr(self.system, "preparation_", None)

    @property
    def mark(self) -> str:
        """Digest of names and numbers."""

        def parts() -> Iterator[Any]:
            for name in sorted(self.arrays):
                value = self.arrays[name]
                array = np.ascontiguousarray(value.float().numpy() if hasattr(value, "detach") else value)
                yield f"{name} {array.shape}".encode()
                yield array.reshape(-1).view("u1") if array.dtype.kind in "biuf" else repr(array.tolist()).encode()

        return digest(parts())


def read(source: Any) -> Source:
    """The weights of a fitted system, a run, a file or the folder of a published encoder of texts.

    Raises
    ------
    UserTypeError, UserValueError
        Something else, a pickle, a file that is not there or holds no numbers.
    """
    if isinstance(source, System):
        if not hasattr(source, "model_"):
            raise UserValueError(f"the {source.name} to begin from is not fitted", "initial", "fit or load it")
        return Source(f"the fitted {source.name}", source.model_.state(), source)
    if not isinstance(source, str | os.PathLike):
        raise UserTypeError.must("initial", "be a run, a .safetensors file or a fitted system", source)
    path = Path(source)
    if path.is_dir() and Published.found(path):
        published = Published.of(path, CONVERT)
        return Source(str(path), _arrays_in(published.weights), published=published)
    if path.is_dir():
        system = load(path)
        return Source(str(path), system.model_.state(), system)
    if path.suffix.lower() in PICKLES:
        convert = CONVERT.format(old=quote(str(path)), new=quote(str(path.with_suffix(ENDING))))
        raise UserValueError(f"{path} is a pickle, which may run code", "initial", f"convert it once: {convert}")
    if not path.is_file():
        remedy = f"name a run, or a {ENDING} file"
        raise UserValueError(f"{path} does not exist", "initial", remedy)
    return Source(str(path), _arrays_in(path))


def _arrays_in(path: Path) -> dict[str, Any]:
    """Tensors of a file; wrappers of parallel training leave their prefix in the names."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as opened:
            arrays = {name.removeprefix("module."): opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0][:100] if str(error) else type(error).__name__
        remedy = f"give a {ENDING} file of weights"
        what = f"initial must be a run or a {ENDING} file, got {path}: {reason}"
        raise UserValueError(what, "", remedy) from None
    broken = not_finite({name: value.float() for name, value in arrays.items() if value.is_floating_point()})
    if broken is not None:
        raise UserValueError(f"{path} holds numbers that are not finite", broken, "take another file")
    return arrays


def preparation_of(initial: FineTuning) -> Prepared | None:
    """What made numbers of the source's columns, where it is a run of a table."""
    if initial.place is not None and not Path(initial.place).is_dir():
        return None
    return read(initial.source).preparation


@dataclass(frozen=True)
class Beginning:
    """What a fit began from.

    Attributes
    ----------
    source : str
    copied, fresh, frozen : tuple of str
        Names of arrays that were copied, of those that begin anew, of parameters that stay.
    rates : dict of str to float
        Factors of the learning rate by parameter, those of 1 left out.
    head : {"new", "kept"}
        The output layer.
    units : str
        What standardizes the inputs.
    """

    source: str
    copied: tuple[str, ...]
    fresh: tuple[str, ...]
    frozen: tuple[str, ...]
    rates: Mapping[str, float]
    head: str
    units: str

    @classmethod
    def of(cls, system: Any, model: Any, tuning: FineTuning, source: Source) -> Beginning:
        """Put the weights into a model that has its first values, freeze, and set the rates."""
        _check_columns(system, source)
        source = _tensors_alone(model, _backbone_alone(model, _renamed(system, model, source)))
        source = replace(source, arrays=system.usable_weights(model, source.arrays))
        last = output_names(model)
        if source.partial and tuning.head == "kept":
            what = f"head must be auto or new, since {source.name} has another one, got 'kept'"
            raise UserValueError(what, "head")
        new = tuning.head == "new" or (tuning.head == "auto" and not _same_outputs(system, source))
        everything = list(model.state_dict())
        begins = set(matched(everything, tuning.fresh, "fresh")) | (set(last) if new else set())
        begins |= set() if source.published is None else _absent(everything, source.arrays)
        begins |= set(everything) - set(source.arrays) if source.partial else set()
        copied = copy_weights(model, source.arrays, begins, source.name, source.called)
        fresh = [name for name in everything if name in begins]
        named = [name for name, _ in model.named_parameters()]
        patterns = list(tuning.freeze)
        if tuning.lr_backbone == 0:
            patterns += [name for name in named if name not in begins and name not in last]
        frozen = freeze(model, patterns) if patterns else []
        rates = parameter_groups(
            model, system.learning_rate, lr_backbone=tuning.lr_backbone, lr_head=tuning.lr_head,
            lr_decay=tuning.lr_decay, fresh=fresh,
        )  # fmt: skip
        model.rates = rates
        head = "new" if set(last) & begins else "kept"
        return cls(source.name, tuple(copied), tuple(fresh), tuple(frozen), rates, head, _units(model, copied))

    def lines(self) -> list[str]:
        """The same for reading."""
        found = [f"{self.source}: {counted(len(self.copied), 'array')} copied; {self.units}"]
        if self.fresh:
            found.append(f"begin anew: {_listed(self.fresh)}")
        if self.frozen:
            found.append(f"stay as they are: {counted(len(self.frozen), 'parameter')}, {_listed(self.frozen)}")
        return found


def _listed(names: tuple[str, ...], most: int = 4) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def _units(model: Any, copied: list[str]) -> str:
    """What standardizes the inputs, in words."""
    buffers = dict(model.named_buffers())
    at, to = (model.backbone or ("shift", "scale"))[:2]
    if at not in buffers:
        return "inputs are taken as they are"
    whose = "the source" if at in copied else "the new rows"
    if len(buffers[at]) > 4:
        return f"inputs are standardized by mean and spread of {whose}"
    mean, spread = (", ".join(f"{one:.4g}" for one in buffers[name].tolist()) for name in (at, to))
    return f"inputs are standardized by mean ({mean}) and spread ({spread}) of {whose}"


def _renamed(system: Any, model: Any, source: Source) -> Source:
    """The arrays by the names of the model, where the system knows those of another library."""
    found = system.foreign_weights(model, source.arrays, source.name) if source.system is None else None
    if found is not None:
        return replace(source, arrays=found[0], called=found[1])
    if source.published is not None:
        what = f"{source.name} holds an encoder of texts, {source.published.family}, got {system.name}"
        raise UserValueError(what, "initial", "fit transformer-classifier, bert or electra")
    return source


def _backbone_alone(model: Any, source: Source) -> Source:
    """The backbone by the model's names, where the source is a network with another head on one of the same layers."""
    theirs = getattr(source.system, "model_", None)
    if theirs is None or type(theirs) is type(model):
        return source
    own = [(name, value.shape) for name, value in _of_backbone(model, model.state_dict())]
    given = _of_backbone(theirs, source.arrays)
    if not own or [_layer(*one) for one in own] != [_layer(name, value.shape) for name, value in given]:
        return source
    names = [name for name, _ in own]
    arrays = {name: value for name, (_, value) in zip(names, given, strict=True)}
    called = {name: other for name, (other, _) in zip(names, given, strict=True)}
    return replace(source, arrays=arrays, called=called, partial=True)


def _of_backbone(model: Any, arrays: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """What stands under the heads, from the input on."""
    begins = getattr(model, "backbone", ())
    return [(name, value) for begin in begins for name, value in arrays.items() if name.startswith(begin)]


def _layer(name: str, shape: Any) -> tuple[str, tuple[int, ...]]:
    return name.rpartition(".")[2], tuple(shape)


def _absent(names: list[str], arrays: Mapping[str, Any]) -> set[str]:
    """Names in parts of a network, its pooler say, of which a published one has nothing."""

    def part(name: str) -> tuple[str, ...]:
        pieces = name.split(".")
        return tuple(pieces[: 2 if pieces[0] in ("encoder", "generator") else 1])

    there = {part(name) for name in arrays}
    return {name for name in names if part(name) not in there}


def _tensors_alone(model: Any, source: Source) -> Source:
    """Without what a model saves beside its tensors, a vocabulary say, which must be that of the source."""
    own = model.state()
    beside = [name for name in own if name not in model.state_dict()]
    for name in beside:
        if name in source.arrays and not np.array_equal(np.asarray(source.arrays[name]), np.asarray(own[name])):
            sizes = f"of {len(source.arrays[name])}, got {len(own[name])}"
            what = f"the {name.replace('_', ' ')} must be that of {source.name}, {sizes}"
            raise UserValueError(what, "initial", "fit to data of the same, or leave initial out")
    arrays = {name: _tensor(value) for name, value in source.arrays.items() if name not in beside}
    return replace(source, arrays=arrays)


def _tensor(value: Any) -> Any:
    import torch

    return value if hasattr(value, "detach") else torch.from_numpy(np.array(value))


def _same_outputs(system: Any, source: Source) -> bool:
    """Whether the output layer of the source answers what this system is to learn."""
    classes = getattr(system, "classes_", None)
    if classes is None:
        return not system._predicts()
    known = getattr(source.system, "classes_", None)
    return known is not None and list(known) == list(classes)


def _check_columns(system: Any, source: Source) -> None:
    """Refuse a table of other columns than the source's, or images that were made ready in another way."""
    seen, before = (getattr(one, "arguments_", {}).get("preprocess") for one in (system, source.system))
    if source.system is not None and seen != before:
        what = f"preprocess must be that of {source.name}, {before!r}, got {seen!r}"
        raise UserValueError(what, "preprocess", "its weights have learned from images made so")
    own, theirs = (getattr(one, "feature_names_in_", None) for one in (system, source.system))
    if own is None or theirs is None or list(own) == list(theirs):
        return
    named = [cast("str", one) for one in own if one not in list(theirs)]
    first = named[0] if named else next(a for a, b in zip(own, theirs, strict=False) if a != b)
    what = f"the columns must be those of {source.name}, in their order, got {first!r}"
    raise UserValueError(what, "initial", f"give {', '.join(map(str, theirs[:6]))}" + (" ..." * (len(theirs) > 6)))
