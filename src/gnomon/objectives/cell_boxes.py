"""The objective of networks that say for each cell of a grid what stands there and where its box lies."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from gnomon.contracts import Group, Noise
from gnomon.objectives.base import Loss, Objective, Term

__all__ = ["CellBoxes"]


class CellBoxes(Objective):
    r"""Cross-entropy of all cells, and a smooth absolute error of the boxes of cells that are responsible for one.

    .. math:: L = \frac{\sum_i w_i \big(\sum_{c: y_{ic} \ge 0} -\log p_{ic}(y_{ic}) + \lambda \sum_{c: y_{ic} > 0}
        \sum_{j=1}^4 s(t_{icj} - \hat t_{icj})\big)}{\sum_i w_i}

    with the weights w of the images, the classes y (0 the background, -1 a cell of a box to be ignored), the numbers t
    of a box and :math:`s(d) = d^2 / 2` for :math:`|d| < 1`, else :math:`|d| - 1/2`. The model's method ``cells`` gives
    (n, rows, columns, k + 4): k scores of the background and the classes, then the numbers of the box.

    Parameters
    ----------
    box_weight : float, default 1
        :math:`\lambda`.

    Notes
    -----
    Data ``y`` has shape (n, rows, columns, 5): class, then the numbers of the box. Both terms are sums over images, so
    that an image of many boxes counts for more. Source: Girshick (2015), Fast R-CNN, equations 1 to 3.
    """

    additive = True

    def __init__(self, box_weight: float = 1.0) -> None:
        super().__init__()
        self.box_weight = box_weight

    def forward(self, model: Any, batch: Any, *, noise: Noise, phase: str, group: Group) -> Loss:
        """The loss of a batch with data ``X`` and ``y``."""
        X, y, weight = (
            torch.as_tensor(one, device=model.device) for one in (batch.data["X"], batch.data["y"], batch.weight)
        )
        found = model.cells(X)
        codes = y[..., 0].long()
        of_classes = functional.cross_entropy(
            found[..., :-4].permute(0, 3, 1, 2), codes, reduction="none", ignore_index=-1
        )
        apart = functional.smooth_l1_loss(found[..., -4:], y[..., 1:].to(found.dtype), reduction="none").sum(-1)
        weight = weight.to(found.dtype)
        classes = (of_classes.sum((1, 2)) * weight).sum()
        boxes = (torch.where(codes > 0, apart, 0.0).sum((1, 2)) * weight).sum()
        total = float(batch.weight.sum())
        both = (classes + self.box_weight * boxes).detach()
        return Loss(
            {"loss": Term(float(both), total), "cross_entropy": Term(classes, total),
             "box_error": Term(boxes, total, self.box_weight)}, watch="loss",
        )  # fmt: skip
