"""Write what torchvision's networks answer: python tests/parity/make_torchvision.py, with torchvision on the path.

``pip install --no-deps --target FOLDER torchvision==0.28.0`` and PYTHONPATH=FOLDER:tests will do: the operators of its
compiled part are declared here and never called.
"""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import torch
from torch import nn

from oracles.published_networks import CLASSES, NETWORKS, fill, pictures, summary


def torchvision() -> tuple[Any, Any]:
    """The package, and the library that declares its operators, which must live as long."""
    spec = importlib.util.find_spec("torchvision")
    assert spec is not None and spec.origin is not None
    source = (Path(spec.origin).parent / "_meta_registrations.py").read_text()
    declared = torch.library.Library("torchvision", "DEF")
    for name in set(re.findall(r'register_(?:meta\("|fake\("torchvision::)(\w+)"', source)):
        declared.define(f"{name}(Tensor x) -> Tensor")
    import torchvision as package

    return package, declared


def stages(net: nn.Module, name: str) -> list[nn.Module]:
    """Modules behind which a stage ends."""
    if name.startswith("vgg"):
        return [one for one in net.features if isinstance(one, nn.MaxPool2d)]
    if name.startswith("densenet"):
        parts = net.features
        return [parts.pool0, parts.denseblock1, parts.denseblock2, parts.denseblock3, parts.denseblock4]
    if name == "googlenet":
        return [net.maxpool2, net.inception3b, net.inception4e, net.inception5b]
    return [net.maxpool, net.layer1, net.layer2, net.layer3, net.layer4]


@torch.no_grad()
def answers(package: Any, name: str) -> dict[str, Any]:
    """Stages and scores for the pictures in double precision."""
    options = {"init_weights": False} if name == "googlenet" else {}
    net = getattr(package.models, name)(weights=None, num_classes=CLASSES, **options).double().eval()
    if name.startswith("vgg"):  # its dense layers alone are half a gigabyte
        net.avgpool, net.classifier = nn.Identity(), nn.Linear(2048, CLASSES, dtype=torch.float64)
    fill(net.state_dict().items())
    seen: list[torch.Tensor] = []
    for one in stages(net, name):
        one.register_forward_hook(lambda _, x, y: seen.append(y))
    scores = net(pictures().permute(0, 3, 1, 2))
    return {"stages": summary(seen), "scores": scores.tolist()}


def main() -> None:
    package, declared = torchvision()
    found = {name: answers(package, name) for name in NETWORKS}
    del declared
    text = json.dumps({"torchvision": package.__version__, "networks": found}, indent=1)
    Path(__file__).with_name("torchvision.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
