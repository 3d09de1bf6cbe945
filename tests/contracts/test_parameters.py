"""Every hyper-parameter of every system, set to another value, changes what the fit or its answers are."""

from __future__ import annotations

import functools
import inspect
import itertools
import math
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.base import is_classifier, is_regressor

from gnomon import load
from gnomon.catalog import card, load_class
from gnomon.catalog.cards import Kind, Parameter, read_recipe
from gnomon.errors import UserError
from gnomon.recipes.fields import Doc, Fields
from gnomon.recipes.parameters import in_interval
from gnomon.recipes.recipe import resolve, shorts
from gnomon.recipes.slots import where
from gnomon.testing import arrays_of
from oracles.ways import NAMES, brief, case, made

SHORT = {"epochs": 3, "max_iter": 3, "vocabulary_size": 300}
"""A few steps, and a few pieces of words, show whether a parameter acts."""
FIELDS = [(name, p.name) for name in NAMES for p in card(name).parameters]
CLASSIFIERS, REGRESSORS = ("gaussian-classifier", "decision-tree"), ("linear-regression", "regression-tree")


OWN_DATA = (
    "image_shape",
    "stem",
    "unlabeled_weight",
    "max_iter",
    "tol",
    "unknown",
    "repeats",
    "visible",
    "outputs",
    "frame_size",
    "unit",
    "vocabulary_size",
    "span",
)
"""Fields that the example of some system has nothing for."""


def settings(name: str, field: str) -> dict[str, Any]:
    """Under which a field of a system acts: few steps, and what the class says of it."""
    system = made(name)
    few = {key: value for key, value in SHORT.items() if key in system.get_params(deep=False)}
    return {**few, **system.acts_with.get(field, {})}


def data(name: str, field: str) -> tuple[Any, Any]:
    """The system's example, or one on which the field has something to act on."""
    X, y = case(name).X, case(name).y
    partly = ("gaussian-classifier", "label-rbm", "class-gated-rbm", "dbn-classifier", "dbm-classifier")
    if name in partly and field in ("unlabeled_weight", "max_iter", "tol"):
        y = np.where(np.arange(len(y)) % 3, y, -1)
    if field == "unknown":
        X = ["qvx zj Q§", *X]
    if field == "repeats":
        pick = np.r_[: len(X), :5]  # five pairs are rated twice, and not alike
        X, y = np.column_stack([X.users[pick], X.items[pick]]), X.values[pick] + 0.5 * (np.arange(len(pick)) % 2)
    if field == "visible":
        X = (X > 0).astype(X.dtype)  # of bits alone there is a probability
    if field == "stem":
        X = X.repeat(9, 1).repeat(9, 2)  # the first layers of photographs need 67 rows and columns
    if field == "frame_size":
        X = X[:, :4]
    if field == "unit" and isinstance(X[0], tuple):
        X = [tuple(map("".join, pair)) for pair in X]  # pairs of texts, where the example has lists of tokens
    if field == "vocabulary_size":
        letters = np.random.default_rng(0).integers(97, 123, (40, 6))
        words = ["".join(map(chr, row)) for row in letters.tolist()]  # more pieces than the size allows
        text = [" ".join(words[i : i + 8]) for i in range(0, len(words), 8)]
        X = list(zip(text, text, strict=True)) if isinstance(X[0], tuple) else text
        labels = np.arange(len(text)) % 2 if name != "transformer-tagger" else ["A B " * 4] * len(text)
        y = None if y is None else labels
    if field == "span":
        longer = [" ".join(X[i : i + 12]) for i in range(0, len(X), 12)]
        X = longer if y is None else [" ".join(longer) + f" {text}" for text in X]
    if field == "outputs":
        y = (y > np.median(y)).astype(np.float64)
    if field == "image_shape":
        X = np.random.default_rng(0).random((40, 64))
        X = (X > 0.5).astype(np.float64) if name in ("conv-rbm", "conv-dbm") else X
        X, y = (X[:, :5], X) if name == "code-generator" else (X, y)  # what it draws are the images
    return X, y


@functools.cache
def trace(name: str, field: str, *changes: tuple[str, Any]) -> dict[str, Any]:
    """All that a fit has led to: arrays, history, score, answers."""
    X, y = data(name, field)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        system = made(name, **dict(changes)).fit(X, y)
        if field not in ("image_shape", "visible", "outputs", "frame_size", "stem"):
            X, y = case(name).X, case(name).y
        answers = {"score": float(system.score(X, y))}
        for verb in ("predict", "predict_proba", "transform", "log_prob"):
            if hasattr(system, verb):
                answers[verb] = getattr(system, verb)(X, y) if _needs_y(system, verb) else getattr(system, verb)(X)
    return {**arrays_of(system), **answers, "history": system.history_, "steps": system.n_steps_}


def _needs_y(system: Any, verb: str) -> bool:
    predicts = is_classifier(system) or is_regressor(system) or "caption" in system.tasks
    return verb == "log_prob" and predicts


def same(a: Any, b: Any) -> bool:
    """Whether two traces are the same to the bit."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    left, right = np.asarray(a), np.asarray(b)
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    return np.array_equal(left, right, equal_nan=left.dtype.kind == "f")


# --- other values -----------------------------------------------------------------------------------------------------


def others(system: Any, p: Parameter) -> Iterator[Any]:
    """Values of a parameter that are not the one it has."""
    now = getattr(system, p.name)
    if p.slot:
        recipe = resolve(now, system.slots[p.name])
        yield from (one for one in shorts(system.slots[p.name]) if one != recipe.short)
        for field in read_recipe(where(type(recipe)), p.name, recipe.short).parameters:
            yield from (replace(recipe, **{field.name: value}) for value in others(recipe, field))
    for kind in p.kinds:
        yield from (value for value in values(kind, now, system) if value != now)
    if p.optional and now is not None:
        yield None


def values(kind: Kind, now: Any, system: Any) -> Iterator[Any]:
    """Values of a kind, those near the present one among them."""
    if kind.name == "bool":
        yield not now
    elif kind.name == "choice":
        yield from kind.choices
    elif kind.name == "int":
        near = [now // 2, now + 1, 2 * now] if isinstance(now, int) else []
        yield from (n for n in [1, 2, 3, *near, 7, 40] if in_interval(n, kind.interval or "(-inf, inf)"))
    elif kind.name == "float":
        near = [now / 2, now * 2] if isinstance(now, float) else []
        numbers = [*near, 0.5, 1e-3, 10.0, 1e4, 0.0]
        yield from (n for n in numbers if math.isfinite(n) and in_interval(n, kind.interval or "(-inf, inf)"))
    elif kind.name == "tuple" and kind.many:
        yield from ((0.2, 0.3, 0.5),) if kind.items[0].name == "float" else ((3,), (4, 16))
    elif kind.name == "tuple":
        yield tuple(n + 1 for n in now)
    elif kind.name == "str":
        yield from ("3c3-p2-g",) if hasattr(system, "layers") else CLASSIFIERS if is_classifier(system) else REGRESSORS


# --- the contract -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "field"), FIELDS, ids=lambda value: value)
def test_another_value_reaches_what_it_speaks_of(name, field):
    system = made(name)
    if field in system.inert_fields:
        assert len(system.inert_fields[field]) > 10, "say why"
        return
    under = settings(name, field)
    system.set_params(**under)
    example = field if field in OWN_DATA else ""
    before = trace(name, example, *under.items())
    p = next(p for p in card(name).parameters if p.name == field)
    tried = []
    for value in others(system, p):
        try:
            after = trace.__wrapped__(name, example, *under.items(), (field, value))
        except UserError:
            continue  # not allowed beside the other settings
        tried.append(value)
        if not same(before, after):
            return
    remedy = "drop the field or its mixin, or name it in acts_with or inert_fields"
    pytest.fail(f"{field} makes no difference: tried {tried} with {under}; {remedy}")


@pytest.mark.filterwarnings("ignore:too little text")
@pytest.mark.parametrize("name", NAMES)
def test_what_is_saved_is_the_fit_whatever_was_set_since(name, tmp_path):
    """Every field to another value after the fit: the saved model, which is that of before, answers as it did.

    It was written beside the new values: another activation or smoothing answered in silence with other numbers, and
    another size could not be loaded.
    """
    example = case(name)
    X, y = example.X, example.y
    system = brief(name).fit(X, y)
    before, score = system.get_params(deep=False), system.score(X, y)
    for p in card(name).parameters:
        if p.name not in system.inert_fields:
            system.set_params(**{p.name: next(others(system, p), before[p.name])})
    assert len({repr(v) for v in before.values()} - {repr(v) for v in system.get_params(deep=False).values()}) > 0
    loaded = load(system.save(tmp_path / "model"))
    for field, value in before.items():
        assert repr(getattr(loaded, field)) == repr(value), field
    assert same(arrays_of(loaded), arrays_of(system)) and loaded.score(X, y) == score


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in NAMES if "partial_fit" in card(name).verbs])
def test_a_field_that_changes_between_chunks_is_taken_or_refused(name, tmp_path):
    """Never neither: a new size left the model as it was, was saved beside it, and the saved model could not be loaded.

    A change that is refused names the field and leaves the system as it was.
    """
    example = case(name)
    X, y = example.X, example.y
    first, second = ((X[half], y) if y is None else (X[half], y[half]) for half in (slice(0, 20), slice(20, 40)))
    refused, place = set(), itertools.count()
    for p in card(name).parameters:
        for value in itertools.islice(others(brief(name), p), 2):
            system = brief(name).partial_fit(*first)
            before = {key: np.array(array) for key, array in arrays_of(system).items()}
            system.set_params(**{p.name: value})
            try:
                system.partial_fit(*second)
            except UserError as error:
                refused.add(p.name)
                assert same(arrays_of(system), before), (p.name, str(error))
                continue
            loaded = load(system.save(tmp_path / str(next(place))))
            assert repr(getattr(loaded, p.name)) == repr(value) or p.name == "random_state"
            assert same(arrays_of(loaded), arrays_of(system)) and loaded.score(X, y) == system.score(X, y), p.name
    sizes = {"n_hidden", "n_latent", "hidden", "n", "n_components", "encoder", "activation", "smoothing"}
    assert refused >= sizes & {p.name for p in card(name).parameters}
    assert not refused & {"batch_size", "optimizer", "epochs", "l2", "weight_prior"}


@pytest.mark.parametrize("name", NAMES)
def test_what_a_class_says_of_its_fields_speaks_of_fields(name):
    system = made(name)
    known = set(system.get_params(deep=False))
    assert set(system.inert_fields) | set(system.acts_with) <= known
    assert not set(system.inert_fields) & set(system.acts_with)


@pytest.mark.parametrize("name", NAMES)
def test_a_type_checker_asks_the_constructor_for_parameters_alone(name):
    """To it an annotation without a value is a parameter that must be given."""
    bare = [
        (cls.__name__, annotated)
        for cls in load_class(name).__mro__
        if issubclass(cls, Fields)
        for annotated, annotation in inspect.get_annotations(cls).items()
        if annotated not in vars(cls) and "ClassVar" not in str(annotation)
    ]
    assert bare == []


def test_a_field_that_is_ignored_would_be_seen():
    """A copy of the contract on a system that forgets one of its fields."""

    class Forgetful(Fields):
        width: int = 3
        depth: int = 2
        _answer = staticmethod(lambda width, depth: width)

    def result(**changes: Any) -> dict[str, Any]:
        own = Forgetful(**changes)
        return {"answer": own._answer(own.width, own.depth)}

    p = {name: Parameter(name, (Kind("int", "[1, inf)"),), False, 3, Doc("")) for name in ("width", "depth")}
    seen = {
        name: any(not same(result(), result(**{name: value})) for value in others(Forgetful(), p[name])) for name in p
    }
    assert seen == {"width": True, "depth": False}
