"""Published networks against torchvision 0.28, whose answers to the same weights are in torchvision.json."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from gnomon.systems.vision._torchvision import by_our_names
from gnomon.systems.vision.densenet import DenseNetModel
from gnomon.systems.vision.googlenet import GoogLeNetModel
from gnomon.systems.vision.resnet import ResNetModel
from gnomon.systems.vision.vgg import VGGModel
from oracles.published_networks import CLASSES, NETWORKS, SIZE, fill, pictures, summary
from oracles.torchvision_names import NAMES

KNOWN = json.loads(Path(__file__).with_name("torchvision.json").read_text())["networks"]
DEEP = {"depths": (3, 4, 6, 3), "block": "bottleneck"}
MODELS = {
    "vgg11": (VGGModel, {"hidden": ()}, (0, 1, 2, 3, 4)),
    "resnet18": (ResNetModel, {}, (0, 1, 2, 3, 4)),
    "resnet50": (ResNetModel, DEEP, (0, 1, 2, 3, 4)),
    "resnext50_32x4d": (ResNetModel, DEEP | {"groups": 32, "group_width": 4}, (0, 1, 2, 3, 4)),
    "googlenet": (
        GoogLeNetModel,
        {"stem": "large", "batch_norm": True, "variant": "torchvision"},
        (4, 6, 12, 15),
    ),
    "densenet121": (DenseNetModel, {"depths": (6, 12, 24, 16), "bottleneck": 4}, (1, 2, 4, 6, 8)),
}
"""Class, settings, and which of our stages end where torchvision's do."""


@pytest.mark.spec("DLN-122", "DLN-132", "DLN-133")
@pytest.mark.parametrize("name", NETWORKS)
def test_answers_to_the_same_weights(name):
    make, settings, stages = MODELS[name]
    model = make((SIZE, SIZE, 3), CLASSES, dtype=torch.float64, **settings)
    with torch.no_grad():
        fill(model.state_dict().items())
        maps, scores = model.feature_maps(pictures()), model.scores(pictures())
    np.testing.assert_allclose(summary([maps[i] for i in stages]), KNOWN[name]["stages"], rtol=1e-9)
    np.testing.assert_allclose(scores, KNOWN[name]["scores"], rtol=1e-9)
    theirs = {one: torch.zeros(shape, dtype=torch.float64) for one, shape in NAMES[name](CLASSES)}
    fill(theirs.items())
    system = next(one for one in ("vgg", "resnet", "densenet", "googlenet") if name.startswith(one[:3]))
    arrays, _ = by_our_names(model, dict(sorted(theirs.items())), system, "the file")
    own = {one: value for one, value in model.state_dict().items() if one not in ("shift", "scale")}
    assert arrays.keys() - own.keys() == {"shift", "scale"}
    assert float(arrays["shift"][0]) == pytest.approx(0.5 if name == "googlenet" else 0.485)
    assert all(torch.equal(arrays[one], value) for one, value in own.items())  # the same weights under its names
