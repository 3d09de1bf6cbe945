"""Options of the commands that let a language model write: ``gnomon generate`` and ``gnomon sample``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

__all__ = ["writing_options"]


def writing_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What is drawn from, how much is written, and what becomes of unknown tokens."""
    for option in (
        click.option("--unknown", type=click.Choice(["write", "avoid"]),
                     help="Of sentences: what to do with <unk>.  [write]"),
        click.option("--max-length", type=click.IntRange(0), metavar="N",
                     help="Of sentences: tokens, at most.  [default: 100]"),
        click.option("--top-p", type=float, metavar="P",
                     help="Of sentences: only the likeliest tokens that reach P together."),
        click.option("--top-k", type=click.IntRange(1), metavar="K",
                     help="Of sentences: only the K likeliest next tokens."),
        click.option("--temperature", type=float, metavar="T",
                     help="Of sentences: below 1 surer, above 1 more varied."),
    ):  # fmt: skip
        command = option(command)
    return command
