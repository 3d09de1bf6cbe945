"""Texts of the command line as values, and the notation SYSTEM:key=value,..."""

from __future__ import annotations

from typing import Any

import pytest

from gnomon.catalog import card, entry
from gnomon.catalog.cards import Kind, Parameter
from gnomon.cli.fit import parameter_options, recipes_placed
from gnomon.cli.info import as_facts
from gnomon.cli.main import run
from gnomon.cli.options import convert, parse_system, resolve_values
from gnomon.errors import UserValueError
from gnomon.runs.codecs import decode, encode
from gnomon.training.optimizers import Adam


def parameter(*kinds: Kind, optional: bool = False) -> Parameter:
    return Parameter("p", kinds, optional, None, "")


INT, RATE = Kind("int", "[1, inf)"), Kind("float", "(0, 1)")
SIZES = Kind("tuple", items=(Kind("int", "[1, inf)"),), many=True)


@pytest.mark.parametrize(
    ("given", "text", "value"),
    [
        (parameter(INT), "3", 3),
        (parameter(RATE), "1e-3", 1e-3),
        (parameter(INT, optional=True), "none", None),
        (parameter(INT, RATE), "0.5", 0.5),
        (parameter(RATE, INT), "2", 2),
        (parameter(Kind("bool")), "true", True),
        (parameter(Kind("bool")), "no", False),
        (parameter(Kind("choice", choices=("pad", "cut"))), "cut", "cut"),
        (parameter(Kind("choice", choices=("auto",)), RATE), "auto", "auto"),
        (parameter(SIZES), "64x32", (64, 32)),
        (parameter(SIZES), "7", (7,)),
        (parameter(Kind("str")), "3", "3"),
    ],
)
def test_texts_become_values(given: Parameter, text: str, value: Any) -> None:
    found = convert(given, text)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("given", "text", "said"),
    [
        (parameter(INT), "0", "whole number in [1, inf)"),
        (parameter(INT), "x", "must be a whole number in [1, inf), got 'x'"),
        (parameter(INT), "none", "must be a whole number"),
        (parameter(RATE), "nan", "a number in (0, 1)"),
        (parameter(RATE), "inf", "a number in (0, 1)"),
        (parameter(SIZES), "64x0", "whole numbers in [1, inf) as in 1x2x3"),
        (parameter(SIZES), "64x", "must be"),
        (parameter(Kind("choice", choices=("pad", "cut"))), "pda", "did you mean pad?"),
        (parameter(Kind("bool")), "maybe", "must be true or false"),
    ],
)
def test_other_texts_are_refused_with_the_option(given: Parameter, text: str, said: str) -> None:
    with pytest.raises(UserValueError) as caught:
        convert(given, text)
    assert said in str(caught.value) and str(caught.value).startswith("--p must be")


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        ({"optimizer.beta2": "0.99"}, {"beta1": 0.5, "beta2": 0.99}),
        ({"optimizer.beta1": "0.8"}, {"beta1": 0.8}),
        ({"optimizer": "adam", "optimizer.beta2": "0.99"}, {"beta2": 0.99}),
    ],
)
def test_a_default_recipe_keeps_what_is_not_given_until_another_is_chosen(given: Any, fields: Any) -> None:
    about = card("gan")
    params = resolve_values(about, given, "gan")
    where = "gnomon.training.optimizers:Adam"
    written = encode(recipes_placed(about, params))["optimizer"]
    assert written == {"__recipe__": where, "fields": fields}
    assert decode(written) == Adam(**fields)
    (option,) = (one for one in parameter_options(about) if one.name == "optimizer")
    assert "default adam with beta1 0.5" in str(option.help)
    shown = next(p for p in as_facts(entry("gan"), about)["parameters"] if p["name"] == "optimizer")
    assert shown["default"] == {"recipe": "adam", "fields": {"beta1": 0.5}}


@pytest.mark.parametrize(
    ("text", "params"),
    [
        ("rbm", {}),
        ("rbm:", {}),
        ("rbm:n_hidden=8", {"n_hidden": 8}),
        ("rbm:n-hidden=8,batch-size=none", {"n_hidden": 8, "batch_size": None}),
        ("rbm:objective=cd,objective.k=5", {"objective": "cd", "objective__k": 5}),
        ("rbm:objective.n-chains=7", {"objective__n_chains": 7}),
        ("bernoulli-mixture:smoothing=0.5", {"smoothing": 0.5}),
        ("gan:optimizer.beta2=0.99", {"optimizer__beta2": 0.99}),
    ],
)
def test_system_with_parameters(text: str, params: dict[str, Any]) -> None:
    assert parse_system(text) == (text.partition(":")[0], params)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rmb", "did you mean rbm?"),
        ("rbm:n_hiden=3", "did you mean n_hidden?"),
        ("rbm:n_hidden", "an option must be key=value, got 'n_hidden'"),
        ("rbm:n_hidden=1,n_hidden=2", "n_hidden is given twice"),
        ("rbm:objective.kk=2", "--objective.k"),
        ("rbm:objective=exact,objective.k=2", "choose --objective cd or cd-percloss or fpcd or"),
        ("rbm:n_hidden.k=2", "no parameter 'n_hidden.k'"),
    ],
)
def test_mistakes_in_a_system_with_parameters(text: str, said: str) -> None:
    with pytest.raises(UserValueError) as caught:
        parse_system(text)
    assert said in str(caught.value)


def test_an_option_of_another_verb_is_said_to_be_there(capsys):
    assert run(["fit", "decision-tree", "iris", "--folds", "3"]) == 2
    assert "gnomon compare, gnomon search and gnomon curve have it" in capsys.readouterr().err
