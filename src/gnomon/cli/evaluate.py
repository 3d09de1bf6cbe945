"""``gnomon evaluate RUN [DATA]``: scores with their kind and both errors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from gnomon.cli import completion, output
from gnomon.cli.fit import column_name, column_names, data_options
from gnomon.cli.form import with_form
from gnomon.cli.versions import answering, versions_options
from gnomon.cli.write import new_folder
from gnomon.errors import UserValueError, counted
from gnomon.runs.config import NAMED, DataSpec
from gnomon.runs.folder import RunFolder

__all__ = ["command"]

MOST_SHOWN = 20
"""Classes up to which the confusion matrix is shown."""


@click.command("evaluate")
@click.argument("run", shell_complete=completion.folders)
@click.argument("data", required=False, shell_complete=completion.data)
@data_options
@click.option("--metric", metavar="NAME[,NAME]", help="These scores alone, roc_auc,brier say; all where left out.")
@click.option(
    "--anomalous", metavar="LABEL", help="Rank the rows by surprise too, and see how early those of this label come."
)
@click.option("--figures", metavar="FOLDER", help="Write the task's pictures into this folder, new or empty, as SVG.")
@versions_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(
    run: str, data: str | None, target: str | None, columns: str | None, metric: str | None, anomalous: str | None,
    figures: str | None, versions: str | None, combine: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Score the model in the folder RUN on DATA; without DATA on the rows that the fit held out."""
    folder = RunFolder.open(run)
    recipe = folder.config.get("data", {})
    if data is None and not (recipe.get("source") == NAMED and recipe.get("holdout")):
        raise UserValueError(f"the fit in {run} held nothing out", "", f"name the data: gnomon evaluate {run} DATA")
    if data is None and (target is not None or columns is not None):
        option = "--columns" if target is None else "--target"
        raise UserValueError(
            f"{option} needs DATA", option, f"leave it out, or name the data: gnomon evaluate {run} DATA"
        )
    if figures is not None:
        new_folder(figures, "--figures")
    from gnomon.data.names import BUILTIN
    from gnomon.system.saving import load
    from gnomon.tasks.fitting import other_data, parts, task_of
    from gnomon.tasks.metrics import all_scores, chosen

    system = answering(load(run), versions, combine)
    if data is None:
        held = parts(DataSpec.from_json(recipe), system)[1]
        assert held is not None
    else:
        label = column_name(target) if target or data in BUILTIN else recipe.get("target")
        held = other_data(recipe, data, task_of(system), target=label, columns=column_names(columns))
        if recipe.get("source") == NAMED and recipe["name"] in (data, os.path.abspath(data)):
            output.note(
                "notice: the fit has seen rows of this data; without DATA only rows that were held out are scored"
            )
    goal = task_of(system)
    X, y = goal.examples(held, system)
    every = all_scores(system, X, y, held)
    if anomalous is not None:
        from gnomon.tasks.row_scores import ranked_by_surprise

        every |= ranked_by_surprise(system, X, held, anomalous).scores
    found = chosen(every, None if metric is None else metric.split(","))
    matrix = None if metric is not None else _confusion(system, X, y)
    drawn = [] if figures is None else _draw(goal.figures(system, X, y, held.images), Path(figures))
    if as_json:
        facts = {"run": run, "data": held.name, "n": len(held), "held_out": data is None, "scores": found}
        if figures is not None:
            facts["figures"] = drawn
        if matrix is not None:
            facts["confusion"] = {"classes": matrix.classes.tolist(), "counts": matrix.weight.tolist()}
        output.dump(facts)
        return
    what = f"{'held-out ' if data is None else ''}{'sentence' if held.text else 'row'}"
    output.write(f"{run} on {counted(len(held), what)} of {held.name}:")
    output.write(output.scores(found))
    if matrix is not None:
        output.write(f"\n{matrix}")
    if drawn:
        output.write(f"the pictures are in {figures}: {', '.join(Path(file).name for file in drawn)}")


def _draw(figures: dict[str, Any], folder: Path) -> list[str]:
    """Write figures into a folder; their files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{name}.svg" for name in figures]
    for file, figure in zip(files, figures.values(), strict=True):
        figure.savefig(file)
    return [str(file) for file in files]


def _confusion(system: Any, X: Any, y: Any) -> Any:
    """Who was taken for whom, where a screen can show it and the fit knows all classes."""
    import numpy as np

    if not hasattr(system, "confusion_matrix") or len(system.classes_) > MOST_SHOWN:
        return None
    return system.confusion_matrix(X, y) if np.isin(y, system.classes_).all() else None


with_form(command)
