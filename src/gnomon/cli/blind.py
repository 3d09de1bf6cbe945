"""``gnomon blind make RUN --out FOLDER`` and ``gnomon blind score FOLDER``: can people tell samples from data?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gnomon.cli import completion, output
from gnomon.cli.write import new_folder

if TYPE_CHECKING:
    from gnomon.evaluation.blind import TrialScore

__all__ = ["command"]


@click.group("blind", no_args_is_help=True)
def command() -> None:
    """A blind test of the samples of a model: make one, and score what people answered."""


@command.command("make")
@click.argument("run", shell_complete=completion.folders)
@click.option("--out", required=True, metavar="FOLDER", help="A new folder.")
@click.option(
    "-n",
    "n",
    type=int,
    default=60,
    show_default=True,
    metavar="N",
    help="Items, an even number: half are real.",
)
@click.option("--seed", type=int, metavar="SEED", help="The same seed makes the same test; fresh entropy by default.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def make(run: str, out: str, n: int, seed: int | None, as_json: bool) -> None:
    """Write samples of the model in the folder RUN among rows that its fit held out, without saying which is which.

    Numbered images and an answer sheet (of tables and texts the sheet alone), and a sealed key.
    """
    new_folder(out, "--out")
    from gnomon.tasks.blind_folders import make_blind_folder

    found = make_blind_folder(run, out, n=n, random_state=seed)
    if as_json:
        output.dump({"out": out, "n": found.n, "source": found.source})
        return
    if found.source != "held-out rows":
        output.note("notice: the fit held nothing out: the real items are rows that it has seen")
    output.write(f"the test is in {out}: let people fill in {out}/answers.csv, then gnomon blind score {out}")


@command.command("score")
@click.argument("folder", shell_complete=completion.folders)
@click.argument("answers", nargs=-1, metavar="[SHEET ...]", shell_complete=completion.data)
@click.option("--level", type=float, default=0.95, show_default=True, metavar="P", help="Of the intervals.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def score(folder: str, answers: tuple[str, ...], level: float, as_json: bool) -> None:
    """How often the people who filled in each SHEET took a sample for real; answers.csv in FOLDER by default."""
    from gnomon.tasks.blind_folders import score_blind_folder

    scores, facts = score_blind_folder(folder, answers, level=level)
    if as_json:
        output.dump({"folder": folder, "sheets": {name: one.to_json() for name, one in scores.items()}, **facts})
        return
    output.write(_table(scores, level))
    for line in _readings(facts):
        output.write(line)


def _table(scores: dict[str, TrialScore], level: float) -> str:
    exact = f"exact {100 * level:g}% interval"
    header = ["sheet", "samples taken for real", exact, "data taken for real", "right", exact, "p if guessed"]
    rows = [
        [
            name, f"{one.fooling_rate:.0%} ({one.fooled} of {one.made})", _interval(one.fooling_interval),
            f"{one.real_rate:.0%} ({one.accepted} of {one.real})", f"{one.right} of {one.made + one.real}",
            _interval(one.right_interval), f"{one.p_value:.2g}",
        ]
        for name, one in scores.items()
    ]  # fmt: skip
    return output.table(header, rows, right=range(1, 7))


def _interval(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.0%} to {ends[1]:.0%}"


def _readings(facts: dict[str, Any]) -> list[str]:
    """How to read it, and what a look cannot tell."""
    lines = ["Who cannot tell takes as many samples as data for real. A small p says that samples were told from data."]
    beside = facts["beside"]
    if beside:
        lines.append(
            f"Looks show neither copies nor gaps: {beside['memorized']:.0%} of samples are nearer to a training row "
            f"than new rows usually are (50% without copying), {beside['coverage']:.0%} of held-out rows have a sample "
            "near."
        )
    return lines
