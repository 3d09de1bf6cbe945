"""``gnomon generate RUN --prompt TEXT``: how a language model goes on, token by token on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click
from click.core import ParameterSource

from gnomon.cli import completion, output
from gnomon.cli.fitted import lacks
from gnomon.cli.waiting import undisturbed
from gnomon.cli.write import TEXTS, check_out, write_rows
from gnomon.cli.writing_options import writing_options
from gnomon.errors import UserValueError

__all__ = ["Streamed", "command"]

OF = {"width": ("beam",), "length_penalty": ("beam",), "temperature": ("sample",), "top_k": ("sample",),
      "top_p": ("sample",), "random_state": ("sample",)}  # fmt: skip
"""Methods that an option says something to."""
NAMES = {"random_state": "seed"}
"""Options that are called otherwise than the argument."""


@click.command("generate")
@click.argument("run", shell_complete=completion.folders)
@click.option(
    "--prompt", "prompts", multiple=True, metavar="TEXT",
    help="A beginning; several, each with --prompt; - takes every line of standard input. Left out: from nothing.",
)  # fmt: skip
@click.option("-n", "n", type=click.IntRange(1), default=1, show_default=True, metavar="N", help="Texts per prompt.")
@click.option(
    "--method", type=click.Choice(["sample", "greedy", "beam"]), default="sample", show_default=True,
    help="Draws, the likeliest next token over and over, or the likeliest texts among those that a beam keeps.",
)  # fmt: skip
@click.option("--width", type=click.IntRange(1), metavar="W", help="Texts that a beam keeps.  [default: 5, at least N]")
@click.option(
    "--length-penalty", type=float, metavar="A",
    help="Of a beam: log probabilities are divided by length^A, so that long texts may win.  [default: 0.75]",
)  # fmt: skip
@writing_options
@click.option("--seed", type=int, metavar="SEED", help="The same seed draws the same; fresh entropy by default.")
@click.option("--stream/--no-stream", default=None, help="Write one text as it grows; by default on a terminal.")
@click.option("--out", metavar="FILE", help="A new .txt file; standard output by default.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(
    run: str, prompts: tuple[str, ...], n: int, method: str, seed: int | None, stream: bool | None, out: str | None,
    as_json: bool, **more: Any,
) -> None:  # fmt: skip
    """Let the language model in the folder RUN go on from each prompt, all of them together.

    Texts are written a line each, those of the first prompt first.
    """
    check_out(out, TEXTS)
    options = {name: value for name, value in {**more, "random_state": seed}.items() if value is not None}
    for name in options:
        if method not in OF.get(name, (method,)):
            option = "--" + NAMES.get(name, name).replace("_", "-")
            remedy = f"leave it out, or take --method {OF[name][0]}"
            raise UserValueError(f"{option} does not go with --method {method}", option, remedy)
    if method == "beam":
        options.setdefault("width", max(5, n))
    from gnomon.system.saving import load

    system = load(run)
    if "language" not in system.tasks:
        raise lacks(system, "generate", "go on from a text", run, tasks=("language",))
    begun = beginnings(prompts)
    alone = len(begun) * n == 1 and method != "beam" and out is None and not as_json
    if stream and not alone:
        raise UserValueError(
            "only one text can be streamed", "--stream", "leave -n, --method beam, --out, --json and other prompts out"
        )
    watch = None
    if alone and (sys.stdout.isatty() if stream is None else stream):
        watch = Streamed(lambda text: click.echo(text, nl=False))
    found = system.generate_each(begun, n, method=method, watch=watch, **options)
    if watch is not None:
        watch.end(found[0][0])
        return
    if as_json and out is None:
        output.dump({"texts": [{"prompt": a, "texts": texts} for a, texts in zip(begun, found, strict=True)]})
        return
    lines = [text for texts in found for text in texts]
    write_rows(out, lines, [])
    if as_json:
        output.dump({"n": len(lines), "out": out})
    elif out is not None:
        output.written(len(lines), "text", out)


def beginnings(prompts: tuple[str, ...]) -> list[str]:
    """The prompts, with the lines of standard input in place of "-"; from nothing where none is given."""
    given = click.get_current_context().get_parameter_source("prompts") is not ParameterSource.DEFAULT
    if not given:
        return [""]
    found: list[str] = []
    for prompt in prompts:
        found += sys.stdin.read().splitlines() if prompt == "-" else [prompt]
    if not found:
        raise UserValueError("standard input has no line", "--prompt", "write a prompt to a line")
    return found


class Streamed:
    """Writes a text as it grows, what is new each time.

    Parameters
    ----------
    write : callable
        Takes a string.
    """

    def __init__(self, write: Callable[[str], Any]) -> None:
        self.write, self.shown = write, ""

    def __call__(self, number: int, text: str) -> None:
        """What the text says so far; a character of which some bytes are still to come waits."""
        text = text.rstrip("\ufffd")
        if text.startswith(self.shown) and text != self.shown:
            self._add(text)

    def end(self, text: str) -> None:
        """The whole text, on a line of its own where what was written turned out otherwise."""
        if not text.startswith(self.shown):
            self.write("\n")
            self.shown = ""
        self._add(text + "\n")

    def _add(self, text: str) -> None:
        with undisturbed():
            self.write(text[len(self.shown) :])
            sys.stdout.flush()
        self.shown = text
