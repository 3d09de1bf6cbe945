"""The objective of networks that label every place of an example: the pixels of an image, the words of a text."""

from __future__ import annotations

from typing import Any

import torch

from gnomon.objectives.supervised import Supervised

__all__ = ["PerPlace"]


class PerPlace(Supervised):
    r"""A loss of the scores of every place (a pixel, a token) against its label, over the places that have one.

    .. math:: L = \frac{\sum_i w_i \sum_{p: y_{ip} \ge 0} \ell(o_{ip}, y_{ip})}{\sum_i w_i \, |\{p: y_{ip} \ge 0\}|}

    with the weights w of the examples. A place whose code is -1 counts for nothing, whatever the network says of it.
    The model's outputs have shape (n, ..., k), y has shape (n, ...). Parameters as of `Supervised`.
    """

    def compared(self, model: Any, batch: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Scores (places, k), codes and weights (places,): the example's weight, 0 where a place has no label."""
        outputs, targets, weight = super().compared(model, batch)
        labeled = (targets >= 0).to(outputs.dtype)
        counts = labeled if weight is None else labeled * weight.reshape(-1, *[1] * (targets.ndim - 1))
        return outputs.flatten(0, -2), targets.flatten().clamp_min(0), counts.flatten()
