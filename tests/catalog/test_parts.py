"""Parts: complete by what importing shows, found by word, fast, and shown after the systems."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import subprocess
import sys

import pytest

from gnomon.catalog.parts import ROOMS, Part, find
from gnomon.cli.main import run


def test_every_class_and_function_of_every_public_module_is_a_part_with_its_summary():
    parts = find("")
    by_module: dict[str, list[Part]] = {}
    for part in parts:
        by_module.setdefault(part.where.partition(":")[0], []).append(part)
    assert len(by_module) > 30
    for name, found in by_module.items():
        module = importlib.import_module(name)
        own = [
            one for one in module.__all__
            if getattr(getattr(module, one), "__module__", "") == name
            and (inspect.isclass(getattr(module, one)) or inspect.isroutine(getattr(module, one)))
        ]  # fmt: skip
        assert {part.name for part in found} >= set(own), name
        for part in found:
            doc = inspect.getdoc(getattr(module, part.name)) or ""
            if part.summary:
                assert doc.startswith(part.summary), part.where


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("average_precision", "gnomon.evaluation.curves:average_precision"),
        ("AVERAGE_PRECISION", "gnomon.evaluation.curves:average_precision"),
        ("cosine of the angle", "gnomon.evaluation.similarity:cosine_similarity"),
        ("evaluation.curves", "gnomon.evaluation.curves:PRCurve"),
        ("Contrastive divergence", "gnomon.objectives.contrastive:CD"),
        ("linear-Gaussian", "gnomon.inference.exact.linear_gaussian:LinearGaussian"),
        ("learned transition", "gnomon.inference.mcmc.learned:TransitionOperator"),
        ("Fourier series", "gnomon.numeric.fourier:coefficients"),
        ("sample chain", "gnomon.tasks.chains:sample_chain"),
        ("conjugate update", "gnomon.distributions.conjugate.updating:update"),
        ("compare", "gnomon.tasks.compare:compare"),
    ],
)
def test_found_by_name_summary_and_module(word, expected):
    assert expected in [part.where for part in find(word)]


def test_the_whole_phrase_comes_first_and_single_letters_are_words():
    found = find("log Z")
    whole = ["log z" in f"{part.name} {part.summary}".lower() for part in found]
    assert whole == sorted(whole, reverse=True) and 5 < sum(whole) < len(whole)
    assert "gnomon.evaluation.partition:log_partition" in [part.where for part in found[: sum(whole)]]
    assert all(re.search(r"\bz\b", f"{part.where} {part.summary}".lower().replace("_", " ")) for part in found)


def test_what_is_private_or_not_there_is_not_found():
    assert find("no such thing at all") == ()
    assert all(not part.name.startswith("_") and "._" not in part.where for part in find(""))
    assert {part.room for part in find("")} <= set(ROOMS)


def test_parts_are_found_without_arrays():
    code = (
        "import sys\nfrom gnomon.catalog.parts import find\nassert len(find('a')) > 100\n"
        "assert not {'numpy', 'torch', 'scipy', 'sklearn', 'numba'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_list_shows_systems_first_then_parts(capsys):
    assert run(["list", "softmax"]) == 0
    text = capsys.readouterr().out
    assert text.index("softmax-regression") < text.index("gnomon.nn.outputs")
    assert run(["list", "calibration_error_nowhere"]) == 0
    assert "no system and no part" in capsys.readouterr().err


def test_list_as_json(capsys):
    assert run(["list", "average_precision", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["systems"] == []
    assert found["parts"][0]["where"] == "gnomon.evaluation.curves:average_precision"
    assert set(found["parts"][0]) == {"name", "room", "where", "summary"}
    assert found["rooms"][0]["parts"] == len([part for part in found["parts"] if part["room"] == "evaluation"])
    for arguments in (["list", "--json"], ["list", "rbm", "--task", "density", "--json"]):
        assert run(arguments) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["parts"] == [] and found["systems"]


def test_the_whole_list_goes_by_families_says_what_each_needs_and_where_the_parts_are(capsys):
    assert run(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    place = lines.index("Trees")
    assert lines[place - 1] == "" and lines[place + 1].split() == [
        "decision-tree", "classify", "table*,", "labels", "Decision", "tree", "决策树",
    ]  # fmt: skip
    assert lines[-3] == "* cells may be missing; in other tables gnomon fit fills them in"
    assert lines[-1].startswith(f"and {len(find(''))} parts (") and "gnomon list parts" in lines[-1]
    assert run(["list", "--task", "language"]) == 0
    assert "parts" not in capsys.readouterr().out


def test_parts_by_room(capsys):
    assert run(["list", "parts"]) == 0
    rooms = [line.split()[:2] for line in capsys.readouterr().out.splitlines()[1:] if line and line[0].islower()]
    rooms = {name: n for name, n in rooms if n.isdigit()}
    assert sum(map(int, rooms.values())) == len(find("")) and set(rooms) == {part.room for part in find("")}
    assert run(["list", "parts", "inference", "mcmc", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["systems"] == [] and {part["room"] for part in found["parts"]} == {"inference"}
    assert all("inference.mcmc" in part["where"] for part in found["parts"])
    assert run(["list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {one["name"]: str(one["parts"]) for one in found["rooms"]} == rooms
    assert found["systems"][0]["needs"] == "table, numeric target" and found["systems"][0]["family"] == "linear"


@pytest.mark.parametrize(
    ("words", "name"),
    [("random forest", "random-forest"), ("boosting regression histogram", "histogram-boosting-regression"),
     ("图像 卷积", "lenet"), ("images", "dcgan"),
     ("missing values", "ppca"), ("缺失值", "decision-tree"), ("标签", "conditional-gan"), ("deep learning", "mlp")],
)  # fmt: skip
def test_several_words_and_what_is_fitted_to_find_systems(words, name, capsys):
    assert run(["list", *words.split()]) == 0
    assert f"  {name} " in capsys.readouterr().out


def test_a_word_that_nothing_has_proposes_the_nearest(capsys):
    assert run(["list", "randomforst"]) == 0
    assert "contains 'randomforst'; did you mean random-forest" in capsys.readouterr().err
    assert run(["list", "Dropot"]) == 0
    assert "did you mean Dropout" in capsys.readouterr().err
