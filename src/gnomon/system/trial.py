"""Whether what was read from a run without digests is of its system: it is asked once, before anybody else asks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gnomon.errors import UserError, UserValueError
from gnomon.runs.codecs import DAMAGE
from gnomon.runs.folder import RunFolder

__all__ = ["ask_once", "on_trial", "unfit"]


@contextmanager
def on_trial(run: RunFolder | None) -> Iterator[None]:
    """Within the block a fit goes on from a checkpoint; one without digests whose arrays do not fit is refused."""
    try:
        yield
    except UserError:
        raise
    except DAMAGE as error:
        if run is None or run.sealed or run.read_checkpoint() is None:
            raise
        raise unfit(run, error) from None


def ask_once(system: Any) -> None:
    """Ask a system of a table for its answers to one row, which arrays of other shapes than its own do not give.

    What is bound to its config.json by digests needs no such question.
    """
    width, supervised = getattr(system, "n_features_in_", None), system.__sklearn_tags__().target_tags.required
    if hasattr(system, "sample") and not supervised:
        system.sample(1, random_state=0)
    if not system.domain.is_table:
        return
    if width is None:
        raise ValueError("it does not say how many columns it takes")
    row = np.zeros((1, width), np.float32)
    verbs = ["predict", "predict_proba", "transform"]
    if not supervised:  # a joint density asks for y too
        verbs.append("log_prob")
    found = {verb: getattr(system, verb)(row) for verb in verbs if hasattr(system, verb)}
    classes = getattr(system, "classes_", None)
    if "predict_proba" in found and classes is not None and found["predict_proba"].shape != (1, len(classes)):
        raise ValueError(f"{len(classes)} classes for probabilities of {found['predict_proba'].shape[1]}")


def unfit(run: RunFolder, error: Exception) -> UserValueError:
    """The refusal of arrays that do not belong to the system of the run."""
    return UserValueError(
        f"{run.path} holds arrays that do not fit its system", " ".join(str(error).split()), "fit again"
    )
