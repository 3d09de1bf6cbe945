"""``gnomon augment RUN TEXT --pairs PAIRS --out FILE``: back-translation, as a file that translators are fitted to."""

from __future__ import annotations

from pathlib import Path

import click

from gnomon.cli import completion, output
from gnomon.cli.write import check_out
from gnomon.errors import UserTypeError, UserValueError, counted
from gnomon.runs.folder import write_atomically

__all__ = ["command"]


@click.command("augment")
@click.argument("run", shell_complete=completion.folders)
@click.argument("text", shell_complete=completion.data)
@click.option("--pairs", required=True, metavar="PAIRS", help="The real pairs: a built-in set or a file.")
@click.option("--out", required=True, metavar="FILE", help="A new .tsv file: real pairs, then those that were made.")
@click.option("--method", type=click.Choice(["sample", "beam", "greedy"]), default="sample", show_default=True,
              help="How sources are written; draws are the most varied.")  # fmt: skip
@click.option("--tag", metavar="TOKEN", help="What stands before sources that were made; '' for nothing. [default ◇]")
@click.option("--ratio", type=float, metavar="R", help="Real pairs for each that is made: they are repeated.")
@click.option("--test", multiple=True, metavar="PAIRS", help="Pairs whose targets are left out of TEXT; repeatable.")
@click.option("--random-state", type=int, default=0, show_default=True, metavar="N", help="Seed of draws.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(
    run: str, text: str, pairs: str, out: str, method: str, tag: str | None, ratio: float | None,
    test: tuple[str, ...], random_state: int, as_json: bool,
) -> None:  # fmt: skip
    """Make pairs of TEXT, which is in the target language alone, by the model in RUN, which translates the other way.

    RUN was fitted to pairs of target and source. FILE holds the real pairs of --pairs and a pair for each line of TEXT:
    its source is the model's, after a tag, its target the line as it is. gnomon fit SYSTEM FILE learns from both.
    """
    check_out(out, (".tsv",))
    from gnomon.data.sources import blocks, check_file, check_sentences
    from gnomon.system.saving import load
    from gnomon.tasks.back_translation import TAG, augment
    from gnomon.tasks.translate import Translate

    backward = load(run)
    if "translate" not in backward.tasks:
        raise UserTypeError(f"{backward.name} does not translate", run, "name a run of seq2seq or transformer")
    file = Path(text)
    check_file(file)
    check_sentences(file, file.name)
    rows = (line.strip() for _, block in blocks(file) for line in block.decode().split("\n"))
    lines = [line for line in rows if line]
    if not lines:
        raise UserValueError("there must be at least 1 line, got 0", file.name, "give a text, a sentence to a line")
    if any("\t" in line for line in lines):
        raise UserValueError("a line of a text must have no tab", file.name, "give targets alone")
    goal = Translate()
    real = list(goal.read(pairs).pairs or ())
    held = {target for name in test for _, target in goal.read(name).pairs or ()}
    taken = [line for line in lines if line not in held]
    made = augment(
        real, taken, backward, method=method, tag=TAG if tag is None else tag, ratio=ratio,  # type: ignore[arg-type]
        random_state=random_state,
    )  # fmt: skip
    write_atomically(Path(out), "".join(f"{source}\t{target}\n" for source, target in made).encode())
    n_real, left_out = len(made) - len(taken), len(lines) - len(taken)
    if as_json:
        output.dump({"out": out, "real": n_real, "made": len(taken), "left_out": left_out})
        return
    if left_out:
        output.note(f"{counted(left_out, 'line')} of the text left out: among the targets of --test")
    output.written(len(made), "pair", out)
