"""Cards of parts: the signature that importing shows, the sections of the docstring, and how both are shown."""

from __future__ import annotations

import importlib
import inspect
import json
import subprocess
import sys

import pytest

from gnomon.catalog.part_cards import read
from gnomon.catalog.parts import find, named, within
from gnomon.cli.main import run


def test_every_part_is_called_as_its_card_says():
    """Names of arguments in order, which have defaults, and the docstring; nobody calls a protocol."""
    looked = 0
    for part in find(""):
        card, made = read(part), getattr(importlib.import_module(part.module), part.name)
        assert (card.kind == "function") == inspect.isroutine(made), part.where
        assert card.text.partition("\n")[0].strip() == part.summary, part.where
        home = getattr(getattr(made, "__init__", None), "__module__", "") or ""
        if card.kind == "protocol" or (card.kind == "class" and not card.call and not home.startswith("gnomon")):
            continue  # nobody calls it, or by the constructor of a base that is not gnomon's
        try:
            expected = inspect.signature(made).parameters.values()
        except ValueError:  # an exception's
            continue
        assert [one.name for one in expected] == [one.name.lstrip("*") for one in card.arguments], part.where
        assert [one.default is not one.empty for one in expected] == [bool(one.default) for one in card.arguments]
        example = (inspect.getdoc(made) or "").partition("Examples\n--------\n")[2]
        assert bool(card.example) == bool(example), part.where
        looked += 1
    assert looked > 1000


def test_a_recipe_a_function_and_a_class_with_methods():
    card = read(named("CD")[0])
    assert (card.short, card.kind) == ("cd", "class") and card.signature.startswith("CD(k: int = 1, growth: ")
    assert card.arguments[0].kind == "int in [1, inf)" and "a Gibbs sweep" in card.arguments[0].description
    card = read(named("average_precision")[0])
    assert card.signature.endswith(" -> Score") or "->" in card.signature
    assert "Returns" in card.sections and card.example.startswith(">>> ")
    card = read(named("PowerLaw")[0])
    assert card.methods["size_for"].startswith("Examples, 1 at least")
    card = read(named("ConvEncoder")[0])  # fields that are given by name alone stand behind the others
    assert [one.name for one in card.arguments] == ["channels", "slope", "batch_norm", "dropout"]
    assert ", *, batch_norm" in card.signature and "Annotated" not in card.signature


def test_names_in_several_rooms():
    assert {part.room for part in named("softmax")} == {"numeric", "nn"}
    assert [part.room for part in named("nn.softmax")] == ["nn"] == [p.room for p in named("gnomon.nn.outputs:softmax")]
    assert {part.name for part in named("GIBBS")} == {"gibbs", "Gibbs"}
    assert named("no.softmax") == named("nothing_of_the_kind") == within("no") == ()
    assert all(part.module.startswith("gnomon.inference.mcmc") for part in within("inference.mcmc"))


def test_info_of_a_part_says_how_it_is_called(capsys):
    assert run(["info", "average_precision"]) == 0
    text = capsys.readouterr().out
    places = [
        text.index(words)
        for words in ("from gnomon.evaluation.curves import average_precision", "average_precision(", "Parameters\n",
                      "Returns\n", "Example\n  >>> ")
    ]  # fmt: skip
    assert places == sorted(places)


def test_info_of_a_name_in_several_rooms_shows_all_or_the_one_asked_for(capsys):
    assert run(["info", "softmax"]) == 0
    text = capsys.readouterr().out
    assert "softmax: function of gnomon.numeric.ops" in text and "softmax: function of gnomon.nn.outputs" in text
    assert text.endswith("gnomon info numeric.ops.softmax, nn.outputs.softmax\n")
    assert run(["info", "nn.outputs.softmax"]) == 0
    text = capsys.readouterr().out
    assert "gnomon.numeric" not in text and "have this name" not in text


def test_info_of_a_part_as_json_is_one_object(capsys):
    assert run(["info", "softmax", "--json"]) == 0
    parts = json.loads(capsys.readouterr().out)["parts"]
    assert [part["room"] for part in parts] == ["numeric", "nn"]
    assert set(parts[0]) == {
        "name", "room", "where", "summary", "kind", "short", "signature", "text", "parameters", "sections", "methods",
        "example",
    }  # fmt: skip
    assert parts[1]["parameters"][-1]["name"] == "temperature" and parts[1]["parameters"][-1]["default"] == "1.0"


@pytest.mark.parametrize(("typed", "meant"), [("softmx", "softmax"), ("nn.softmx", "softmax"), ("rmb", "rbm")])
def test_a_name_that_nothing_has_proposes_the_nearest(typed, meant, capsys):
    assert run(["info", typed]) == 2
    assert f"unknown system or part '{typed}'; did you mean {meant}?" in capsys.readouterr().err


def test_a_system_comes_before_a_part_and_says_what_it_needs(capsys):
    assert run(["info", "ppca"]) == 0
    assert "needs    table (cells may be missing)" in capsys.readouterr().out


def test_info_of_parts_imports_no_arrays():
    code = (
        "import sys\nfrom gnomon.cli.main import run\nassert run(['info', 'gibbs']) == 0\n"
        "assert run(['list']) == 0 == run(['list', 'parts'])\n"
        "assert not {'numpy', 'torch', 'scipy', 'sklearn', 'numba', 'polars'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
