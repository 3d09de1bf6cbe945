"""Write what torchvision's transforms answer: python tests/parity/make_torchvision_transforms.py.

With torchvision on the path as the head of make_torchvision.py says.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

SHAPE = (4, 5)
FACTORS = {
    "brightness": (0.0, 0.6, 1.5),
    "contrast": (0.0, 0.6, 1.5),
    "saturation": (0.0, 0.6, 1.5),
    "hue": (-0.3, 0.2, 0.5),
}
DRAWS = 40_000
SIZE, SCALE, RATIO = (48, 64), (0.1, 1.0), (0.5, 2.0)


def picture() -> torch.Tensor:
    """Red, green and blue, channels first."""
    return torch.from_numpy(np.random.default_rng(5).random((3, *SHAPE)))


def main() -> None:
    from make_torchvision import torchvision

    package, declared = torchvision()
    from torchvision.transforms import RandomResizedCrop, functional

    found: dict[str, Any] = {"picture": picture().permute(1, 2, 0).tolist(), "adjusted": {}}
    levels = (picture() * 255).round().to(torch.uint8)
    found["levels"] = levels.permute(1, 2, 0).tolist()
    for name, factors in FACTORS.items():
        adjust = getattr(functional, f"adjust_{name}")
        answers = {str(f): adjust(picture(), f).permute(1, 2, 0).tolist() for f in factors}
        whole = {str(f): adjust(levels, f).permute(1, 2, 0).tolist() for f in factors}
        found["adjusted"][name] = {"numbers": answers, "levels": whole}
    torch.manual_seed(0)
    image = torch.zeros(1, *SIZE)
    windows = np.array([RandomResizedCrop.get_params(image, SCALE, RATIO) for _ in range(DRAWS)])
    quantiles = np.linspace(0.1, 0.9, 9)
    drawn = {"area": windows[:, 2] * windows[:, 3], "ratio": windows[:, 3] / windows[:, 2]}
    drawn |= dict(zip(("top", "left", "rows", "columns"), windows.T, strict=True))
    found["windows"] = {
        "size": SIZE, "scale": SCALE, "ratio": RATIO, "draws": DRAWS,
        "quantiles": {name: np.quantile(values, quantiles).tolist() for name, values in drawn.items()},
        "means": {name: float(values.mean()) for name, values in drawn.items()},
        "deviations": {name: float(values.std()) for name, values in drawn.items()},
    }  # fmt: skip
    del declared
    text = json.dumps({"torchvision": package.__version__, **found})
    Path(__file__).with_name("torchvision_transforms.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
