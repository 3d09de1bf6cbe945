"""The objective of networks that give every pixel a label."""

from __future__ import annotations

from typing import Any

import torch

from gnomon.objectives.supervised import Supervised

__all__ = ["PerPixel"]


class PerPixel(Supervised):
    r"""A loss of the scores of every pixel against its label, over the pixels that have one.

    .. math:: L = \frac{\sum_i w_i \sum_{p: y_{ip} \ge 0} \ell(o_{ip}, y_{ip})}{\sum_i w_i \, |\{p: y_{ip} \ge 0\}|}

    with the weights w of the images. A pixel whose code is -1 counts for nothing, whatever the network says of it.
    The model's outputs have shape (n, rows, columns, k), y has shape (n, rows, columns). Parameters as of `Supervised`.
    """

    def compared(self, model: Any, batch: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Scores (pixels, k), codes and weights (pixels,): the image's weight, 0 where a pixel has no label."""
        outputs, targets, weight = super().compared(model, batch)
        labeled = (targets >= 0).to(outputs.dtype)
        counts = labeled if weight is None else labeled * weight[:, None, None]
        return outputs.flatten(0, 2), targets.flatten().clamp_min(0), counts.flatten()
