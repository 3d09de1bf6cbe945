"""Slots: what fits them is found in source text, whatever was imported; recipes in recipes; callables."""

from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import pytest
import torch
from sklearn.base import clone

import gnomon
from gnomon.cli.options import parse_system
from gnomon.errors import UserTypeError, UserValueError
from gnomon.objectives.estimators import ScoreFunction
from gnomon.objectives.variational import ELBO, IWAE, VariationalObjective
from gnomon.recipes.fields import Doc, Fields
from gnomon.recipes.recipe import Factory, Recipe, Unsaved, check_recipe, named, replace, resolve, shorts
from gnomon.recipes.slots import GROUP, choices, where
from gnomon.runs.codecs import decode, encode
from gnomon.training.optimizers import Adagrad, Optimizer


@dataclass(frozen=True)
class Body(Recipe):
    """Base."""

    factory: ClassVar[bool] = True


@dataclass(frozen=True)
class Engine(Recipe):
    """Base."""


@dataclass(frozen=True)
class Fast(Engine):
    """Quick."""

    short: ClassVar[str] = "fast"
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"fuel": Optimizer, "body": Body}
    k: Annotated[int, "[1, inf)"] = 1
    fuel: str | Recipe = "adam"
    body: Any = "none"


@dataclass(frozen=True)
class NoBody(Body):
    """Nothing."""

    short: ClassVar[str] = "none"


def network(inputs: int) -> torch.nn.Module:
    """A layer."""
    return torch.nn.Linear(inputs, 1, device="meta")


# --- finding ----------------------------------------------------------------------------------------------------------


def test_every_recipe_of_gnomon_is_found_from_the_base_of_its_slot():
    for module in pkgutil.walk_packages(gnomon.__path__, "gnomon."):
        if "__main__" not in module.name:
            importlib.import_module(module.name)
    bases = [base for base in Recipe.__subclasses__() if base.__module__.startswith("gnomon.")]
    assert len(bases) > 10
    for base in bases:
        inside = {one.short: where(one) for one in below(base) if "short" in vars(one)}
        assert {short: place for short, place in inside.items() if place.startswith("gnomon.")} == dict(
            choices(where(base))
        ), base


def below(base: type[Recipe]) -> list[type[Recipe]]:
    """The class and all below it."""
    return [base, *(one for child in base.__subclasses__() for one in below(child))]


def test_what_fits_is_found_without_importing_it():
    code = (
        "import sys; from gnomon.recipes.slots import choices\n"
        "found = choices('gnomon.nn.activations:Activation')\n"
        "assert found['relu'] == 'gnomon.nn.activations:ReLU' and list(found) == sorted(found)\n"
        "assert not {'numpy', 'torch', 'gnomon.nn.activations'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_python_takes_what_the_command_line_takes_and_says_the_same_of_a_typo():
    code = (
        "import json, gnomon\n"
        "from gnomon.cli.options import parse_system\n"
        "system = gnomon.SoftmaxRegression(optimizer='adagrad')\n"
        "said = [type(system.recipe('optimizer')).__name__]\n"
        "assert parse_system('softmax-regression:optimizer=adagrad')[1] == {'optimizer': 'adagrad'}\n"
        "for wrong in ('adamm', 'zzz', 'cd'):\n"
        "    try: gnomon.SoftmaxRegression(optimizer=wrong).check_parameters()\n"
        "    except gnomon.errors.UserError as error: said.append(str(error))\n"
        "print(json.dumps(said))"
    )
    outputs = [
        json.loads(subprocess.run([sys.executable, "-c", head + code], check=True, capture_output=True).stdout)
        for head in ("", "import gnomon.training.optimizers, gnomon.objectives.contrastive\n")
    ]
    assert outputs[0] == outputs[1]
    assert outputs[0][0] == "Adagrad" and "did you mean 'adam'?" in outputs[0][1]
    assert "choose from adadelta, adagrad, adam, adamw, rmsprop, sgd" in outputs[0][2]
    assert "unknown optimizer 'cd'" in outputs[0][3]


def test_words_of_a_short_name_are_joined_either_way():
    from gnomon.cli.options import parse_system

    for spelling in ("ratio-matching", "ratio_matching"):
        assert type(gnomon.RBM(objective=spelling).recipe("objective")).__name__ == "RatioMatching"
        assert parse_system(f"rbm:objective={spelling}")[1] == {"objective": "ratio_matching"}
        with pytest.raises(UserValueError, match="unknown objective"):
            gnomon.RBM(objective=spelling + "-x").check_parameters()
    assert parse_system("gaussian-rbm:objective=score_matching")[1] == {"objective": "score-matching"}


def test_recipes_of_a_plugin_fit_too_and_nothing_of_it_is_imported_before(tmp_path):
    (tmp_path / "slotplug").mkdir()
    (tmp_path / "slotplug" / "__init__.py").write_text("")
    (tmp_path / "slotplug" / "rules.py").write_text(
        "from dataclasses import dataclass\n"
        "from typing import ClassVar\n"
        "from gnomon.training.optimizers import Adam\n\n\n"
        "@dataclass(frozen=True)\n"
        "class Mine(Adam):\n"
        '    """Mine."""\n\n'
        '    short: ClassVar[str] = "mine"\n'
        "    inner: float = 2.5\n"
    )
    metadata = tmp_path / "slotplug-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: slotplug\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{GROUP}]\nmine = slotplug\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from gnomon.cli.options import parse_system\n"
        "from gnomon.recipes.recipe import resolve, shorts\n"
        "from gnomon.training.optimizers import Optimizer\n"
        "assert 'mine' in shorts(Optimizer)\n"
        "assert parse_system('softmax-regression:optimizer=mine,optimizer.inner=3')[1]['optimizer__inner'] == 3.0\n"
        "assert 'slotplug.rules' not in sys.modules\n"
        "assert resolve('mine', Optimizer).inner == 2.5\n"
        "from gnomon.runs.codecs import decode, encode\n"
        "assert decode(encode(resolve('mine', Optimizer))) == resolve('mine', Optimizer)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_one_short_name_has_one_owner():
    with pytest.raises(TypeError, match=r"'fast' is .*Fast already"):

        @dataclass(frozen=True)
        class Quick(Engine):
            short: ClassVar[str] = "fast"


def test_a_value_of_another_slot_is_refused():
    with pytest.raises(UserTypeError, match=r"optimizer must be a short name or a recipe, got ELBO.*from adadelta"):
        resolve(ELBO(), Optimizer, "optimizer")


def test_the_command_line_reaches_the_field_of_a_recipe_in_a_recipe():
    text = "vae:objective=iwae,objective.estimator=score,objective.estimator.baseline=none"
    assert parse_system(text)[1] == {
        "objective": "iwae", "objective__estimator": "score", "objective__estimator__baseline": "none",
    }  # fmt: skip
    with pytest.raises(UserValueError, match=r"--objective\.estimator\.baseline.*choose --objective\.estimator score"):
        parse_system("vae:objective.estimator.baseline=none")
    with pytest.raises(UserValueError, match=r"unknown estimator 'drag'.*did you mean dreg"):
        parse_system("vae:objective.estimator=drag")


# --- recipes in recipes ---------------------------------------------------------------------------------------------


def test_slots_are_inherited():
    class Machine(Fields):
        slots: ClassVar[Mapping[str, type[Recipe]]] = {"engine": Engine}
        engine: Annotated[Any, Doc("What drives it.")] = "fast"

    class Ship(Machine):
        slots: ClassVar[Mapping[str, type[Recipe]]] = {"hull": Body}

    assert Ship.slots == {"engine": Engine, "hull": Body} and Machine.slots == {"engine": Engine}


def test_an_address_reaches_the_field_of_a_recipe_in_a_recipe():
    changed: Any = replace("iwae", VariationalObjective, {"estimator": "score", "estimator__baseline": "none", "k": 3})
    assert changed == IWAE(k=3, estimator=ScoreFunction(baseline="none"))
    assert changed.get_params()["estimator__baseline"] == "none"
    assert set(changed.get_params(deep=False)) == {"k", "estimator"}
    assert clone(changed, safe=False) == changed
    again: Any = replace(changed, VariationalObjective, {"estimator__baseline": "running"})
    assert again.estimator == ScoreFunction(baseline="running")
    assert decode(json.loads(json.dumps(encode(changed)))) == changed


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"kk": 1}, r"IWAE has no parameter 'kk' \(objective__kk\); known: objective__k"),
        ({"estimator__basline": 1}, "objective__estimator__basline.*known: objective__estimator__baseline"),
        ({"k__x": 1}, "IWAE has no parameter 'k__x'"),
        ({"estimator": "drag"}, "did you mean 'dreg'"),
    ],
)
def test_an_address_that_leads_nowhere_is_named(fields, said):
    with pytest.raises(UserValueError, match=said):
        found = replace(IWAE(estimator="score"), VariationalObjective, fields, "objective")
        check_recipe(found, "objective")


def test_the_parameters_of_inner_recipes_are_checked():
    with pytest.raises(UserValueError, match="baseline"):
        check_recipe(IWAE(estimator=ScoreFunction(baseline="sometimes")), "objective")  # type: ignore[arg-type]


# --- callables -------------------------------------------------------------------------------------------------------


def test_a_slot_that_takes_callables_builds_what_they_return():
    made = resolve(network, Body, "body")
    assert isinstance(made, Factory) and made.build(3).weight.shape == (1, 3)
    assert resolve(torch.nn.Identity, Body, "body").build().state_dict() == {}
    assert resolve(made, Body) is made


@pytest.mark.parametrize("value", [3, torch.nn.Identity(), Adagrad()])
def test_other_objects_are_no_factories(value):
    with pytest.raises(UserTypeError, match=r"body must be .*or a function that returns an nn\.Module, got"):
        resolve(value, Body, "body")
    with pytest.raises(UserTypeError, match="engine must be a short name or a recipe, got"):
        resolve(network, Engine, "engine")


def test_a_callable_that_returns_something_else_is_told():
    with pytest.raises(UserTypeError, match=r"must return an nn\.Module, got 3"):
        resolve(lambda: 3, Body, "body").build()


def test_what_was_saved_of_a_callable_is_its_name():
    saved = json.loads(json.dumps(encode(Fast(body=network))))
    assert decode(saved).body == Unsaved(f"{__name__}.network")
    with pytest.raises(UserValueError, match=r"body was made by .*network, which is not saved.*engine__body="):
        check_recipe(decode(saved), "engine")


class WithBody(gnomon.MLP):
    """A network with a slot that takes callables."""

    slots: ClassVar[Mapping[str, type[Recipe]]] = {"body": Body}
    body: Annotated[Any, Doc("Not used.")] = "none"


def test_a_system_made_by_a_callable_keeps_its_weights_and_asks_for_the_callable(tmp_path):
    X, y = np.eye(4), np.array([0, 1, 0, 1])
    fitted = WithBody(hidden=(2,), epochs=1, random_state=0, body=network).fit(X, y)
    folder = fitted.save(tmp_path / "model")
    loaded = gnomon.load(folder, body=network)
    assert loaded.body is network and np.array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    with pytest.raises(UserValueError, match=r"body was made by .*network, which is not saved") as caught:
        gnomon.load(folder)
    assert "\n" not in str(caught.value)
    with pytest.raises(UserTypeError, match=r"unexpected argument 'head'.*give body"):
        gnomon.load(folder, head=network)


def test_short_names_of_classes_of_ones_own():
    assert named(Engine, "fast") is Fast and shorts(Engine) == ["fast"]
