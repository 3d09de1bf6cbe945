"""Hyper-parameters that systems share, each with its one sentence; a system inherits those that it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from gnomon.recipes.fields import Doc, Fields
from gnomon.recipes.recipe import Recipe
from gnomon.training.optimizers import Optimizer
from gnomon.training.schedules import Schedule
from gnomon.training.stopping import Stopping

__all__ = [
    "Clipped", "ComparesInSingle", "ComputesInDouble", "DrawsNothing", "GradientSteps", "HasDtype", "Iterated",
    "Scheduled", "Seeded", "Standardized", "StoppedEarly", "TrainedByGradient",
]  # fmt: skip


class Seeded(Fields):
    """What is random."""

    random_state: Annotated[
        Any,
        Doc("Seed of everything random in the fit.", type="int, Generator, RandomState or None"),
    ] = None


class DrawsNothing(Seeded):
    """A fit without chance."""

    inert_fields: ClassVar[Mapping[str, str]] = {"random_state": "every system has one; this fit draws nothing"}

    random_state: Annotated[
        Any,
        Doc("Taken as every system takes it; the fit draws nothing.", type="int, Generator, RandomState or None"),
    ] = None


class HasDtype(Fields):
    """Precision."""

    dtype: Annotated[
        Literal["float32", "float64"] | None,
        Doc("None rounds no cell: float32 of float32 and of whole numbers of 16 bits, float64 of everything else."),
    ] = None


class ComputesInDouble(HasDtype):
    """Precision of rows and answers, whatever the library takes."""

    dtype: Annotated[
        Literal["float32", "float64"] | None,
        Doc("None rounds no cell: float32 where it was given, else float64. The fit computes in double precision."),
    ] = None


class ComparesInSingle(HasDtype):
    """Precision of rows and answers of trees."""

    dtype: Annotated[
        Literal["float32", "float64"] | None,
        Doc(
            "None rounds no cell: float32 where it was given, else float64. Thresholds are compared in single "
            "precision, in a unit that keeps the column's values apart."
        ),
    ] = None


class Standardized(Fields):
    """Columns of one scale."""

    standardize: Annotated[
        bool,
        Doc("Whether columns are brought to mean 0 and standard deviation 1; the numbers are saved with the model."),
    ] = True


class Iterated(Fields):
    """A fit in iterations that ends when it has converged."""

    max_iter: Annotated[int, "[1, inf)", Doc("Iterations at most.")] = 200
    tol: Annotated[
        float,
        "[0, inf)",
        Doc("End when an iteration gained no more than this, in nats per row; 0 runs all iterations."),
    ] = 1e-5


class GradientSteps(Fields):
    """A fit by steps along the gradient."""

    slots: ClassVar[Mapping[str, type[Recipe]]] = {"optimizer": Optimizer}

    epochs: Annotated[int, "[1, inf)", Doc("Passes over the training rows at most.")] = 100
    max_updates: Annotated[int | None, "[1, inf)", Doc("Updates of the fit, in place of `epochs`.")] = None
    batch_size: Annotated[int | None, "[1, inf)", Doc("Rows per update, over all processes; None takes all rows.")] = (
        None
    )
    learning_rate: Annotated[float, "(0, inf)", Doc("Step size.")] = 1e-3
    optimizer: Annotated[str | Recipe, Doc("How a gradient becomes a step; see `gnomon.training.optimizers`.")] = "adam"


class Scheduled(Fields):
    """A step size that changes."""

    slots: ClassVar[Mapping[str, type[Recipe]]] = {"schedule": Schedule}

    schedule: Annotated[
        str | Recipe,
        Doc("What the step size is multiplied by in the course of the fit; see `gnomon.training.schedules`."),
    ] = "constant"


class StoppedEarly(Fields):
    """A fit that may end before its last epoch."""

    slots: ClassVar[Mapping[str, type[Recipe]]] = {"early_stopping": Stopping}

    early_stopping: Annotated[
        str | Recipe,
        Doc(
            "``patience``: end when the loss on validation rows (given to ``fit``, or held out) has stopped falling, "
            "and keep the weights of its best epoch."
        ),
    ] = "off"


class Clipped(Fields):
    """Gradients of bounded length."""

    clip: Annotated[float | None, "(0, inf)", Doc("Gradients are shortened to this norm.")] = None
    clip_value: Annotated[
        float | None, "(0, inf)", Doc("Components of gradients are limited to this size, before `clip`.")
    ] = None


class TrainedByGradient(GradientSteps, Scheduled, StoppedEarly, Clipped):
    """A fit by gradient with everything that it can be told."""
