"""What a machine of rows and their classes is trained by: p(class | row), the joint density, or both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from gnomon.contracts import Group, Noise
from gnomon.data.batches import Batch
from gnomon.numeric.ops import concatenate
from gnomon.objectives.base import Loss, Objective, Term

__all__ = ["LabelObjective"]


class LabelObjective(Objective):
    """-discriminative log p(y | v) - generative log p(v, y) of rows with a class, -log p(v) of rows of none (code -1).

    The first is exact, with its exact gradient; the others are what an energy objective makes of log p(v, y). A row of
    no class stands there once for each class, with the weight p(y | v): the gradient of log p(v) is the mean of that of
    log p(v, y) under p(y | v).

    Parameters
    ----------
    discriminative, generative : float in [0, inf)
    joint : Objective or None
        Of the joint density; None where neither the second term nor rows without a class are there.
    """

    def __init__(self, discriminative: float, generative: float, joint: Objective | None) -> None:
        super().__init__()
        self.discriminative, self.generative, self.joint = discriminative, generative, joint

    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        """Persistent chains of the joint density."""
        if self.joint is not None:
            self.joint.begin(model, _JointBatches(self, model, batches), noise, group)
            self.sharded = tuple(f"joint.{name}" for name in self.joint.sharded)

    def forward(self, model: Any, batch: Any, *, noise: Noise, phase: str, group: Group) -> Loss:
        """The loss of a batch, as sums."""
        X, weight, codes = model.place(batch.data["X"]), model.place(batch.weight), np.asarray(batch.data["y"])
        total, labeled = float(weight.sum()), model.place(codes >= 0)
        with torch.no_grad():
            log_p, gradients = model.class_gradient(X, np.maximum(codes, 0), self.discriminative * weight * labeled)
            terms = {"cross_entropy": Term(-float((weight * labeled * log_p).sum()), total)}
            if self.joint is None:
                return Loss(terms, gradients, "cross_entropy")
            rows = self.joint_rows(model, batch)
            loss = self.joint(model, rows, noise=noise, phase=phase, group=group)
        for name, term in loss.terms.items():
            terms[name] = Term(term.sum, total if name == loss.watched else term.weight)
        gradients = {name: value + (loss.gradients or {})[name] for name, value in gradients.items()}
        return Loss(terms, gradients, "cross_entropy")

    def joint_rows(self, model: Any, batch: Any) -> Batch:
        """Rows with their class beside them; one of no class with each, by its chance. Each has a place of its own."""
        X, weight, codes = model.place(batch.data["X"]), model.place(batch.weight), np.asarray(batch.data["y"])
        positions = np.asarray(batch.positions)
        known, free = np.flatnonzero(codes >= 0), np.flatnonzero(codes < 0)
        k = model.n_classes
        rows, weights = [model.with_class(X[known], codes[known])], [self.generative * weight[known]]
        places = [positions[known] * (k + 1)]
        if len(free):
            chance = model.class_proba(X[free])
            every = np.tile(np.arange(k), len(free))
            rows.append(model.with_class(X[np.repeat(free, k)], every))
            weights.append((weight[free][:, None] * chance).reshape(-1))
            places.append(np.repeat(positions[free] * (k + 1), k) + 1 + every)
        place = np.concatenate(places)
        return Batch({"X": concatenate(rows, axis=0)}, place, place, concatenate(weights, axis=0))


class _JointBatches:
    """The batches of a fit with the classes beside the rows: what an objective of the joint density begins with."""

    def __init__(self, objective: LabelObjective, model: Any, batches: Any) -> None:
        self.objective, self.model, self.batches = objective, model, batches
        self.batch_size, self.steps = batches.batch_size, batches.steps

    def epoch(self, number: int) -> Iterator[Batch]:
        """Batch by batch."""
        return (self.objective.joint_rows(self.model, batch) for batch in self.batches.epoch(number))
