"""The room's names: lazy, complete, light."""

import importlib
import pkgutil
import subprocess
import sys

import pytest

from gnomon import evaluation


def test_every_public_name_of_every_module_is_there():
    for module in pkgutil.iter_modules(evaluation.__path__):
        if module.name.startswith("_"):
            continue
        room = importlib.import_module(f"gnomon.evaluation.{module.name}")
        named = set(evaluation._WHERE[module.name])
        assert named <= set(room.__all__)
        for name in named - {"perplexity"}:
            assert getattr(evaluation, name) is getattr(room, name)


def test_the_room_loads_no_array_library():
    code = "import sys, gnomon.evaluation; assert not {'numpy', 'torch', 'sklearn'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_name():
    with pytest.raises(AttributeError, match="acuracy"):
        _ = evaluation.acuracy
