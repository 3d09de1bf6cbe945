"""The options of test-time versions: ``--versions flip,crops --combine logits``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from gnomon.errors import UserValueError

__all__ = ["answering", "versions_options"]

Command = TypeVar("Command", bound=Callable[..., Any])
VERSIONS = "Answer for several versions of each image: plain, flip, flips, turns, shifts (=PIXELS), crops (=FRACTION)."
COMBINE = "How answers of versions become one: means of probabilities (the default) or logits, or a vote."


def versions_options(command: Command) -> Command:
    """Give a command ``--versions`` and ``--combine``."""
    combine = click.option("--combine", type=click.Choice(["probabilities", "logits", "vote"]), help=COMBINE)
    return click.option("--versions", metavar="A,B,...", help=VERSIONS)(combine(command))


def answering(system: Any, versions: str | None, combine: str | None) -> Any:
    """The system, which answers for several versions of each image where these are named.

    Raises
    ------
    UserError
        A system that does not classify images; unknown versions; a way to combine none.
    """
    if versions is None:
        if combine is not None:
            raise UserValueError("--combine needs --versions", "--combine", "add --versions flip, say")
        return system
    from gnomon.system.versions import TTA

    return TTA(system, versions, combine or "probabilities").system  # type: ignore[arg-type]
