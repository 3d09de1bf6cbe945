"""``gnomon sample RUN -n 64``: rows (with their labels, from a model of both) or sentences drawn from a model."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from gnomon.cli import completion, output
from gnomon.cli.fitted import ask, lacks
from gnomon.cli.sample_chains import along_chains
from gnomon.cli.sample_options import PARAMETERS, arguments_of, drawing_options
from gnomon.cli.write import PICTURES, SOUNDS, TABLES, TEXTS, check_out, write_picture, write_rows
from gnomon.cli.writing_options import writing_options
from gnomon.errors import UserTypeError, UserValueError
from gnomon.runs.folder import RunFolder

__all__ = ["command"]

EVERY = 1000
"""Steps of a chain between two rows, unless another number is given."""


@click.command("sample")
@click.argument("run", shell_complete=completion.folders)
@click.option(
    "-n", "n", type=click.IntRange(0), default=10, show_default=True, metavar="N",
    help="How many; with --chains: of each.",
)  # fmt: skip
@click.option(
    "--chains", type=click.IntRange(1), metavar="M",
    help="Follow M chains of a model that is sampled by Gibbs (rbm, say): N rows of each, and how alike these are.",
)  # fmt: skip
@click.option(
    "--every", type=click.IntRange(1), metavar="K", help="Steps of a chain between two rows.  [default: 1000]"
)
@drawing_options
@click.option(
    "--given", metavar="DATA", shell_complete=completion.data,
    help="A target for each row of DATA, of a model of the target given the row.",
)  # fmt: skip
@click.option("--seed", type=int, metavar="SEED", help="The same seed draws the same; fresh entropy by default.")
@click.option(
    "--out", metavar="FILE",
    help="A new .csv, .parquet or .npy file (.txt for sentences), .png of images, .wav of waveforms; standard output "
    "by default.",
)  # fmt: skip
@click.option("--prompt", metavar="TEXT", help="Sentences of a language model that begin with this.")
@writing_options
@click.option("--rate", type=click.IntRange(1), metavar="HZ", help="Of a .wav: values of a row per second.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(
    run: str, n: int, chains: int | None, every: int | None, given: str | None, seed: int | None, out: str | None,
    rate: int | None, as_json: bool, **more: Any,
) -> None:  # fmt: skip
    """Draw N rows (or sentences, or images) from the model in the folder RUN, none of them chosen.

    With --chains a picture has a column for each chain, a line every K steps, and training images on the right. With
    --prompt a language model goes on from what is given.
    """
    if every is not None and chains is None:
        raise UserValueError("--every needs --chains", "--every", "say how many chains: --chains 8")
    check_out(out, (*TABLES, *TEXTS, *PICTURES, *SOUNDS))
    sounds = out is not None and Path(out).suffix.lower() in SOUNDS
    if sounds != (rate is not None):
        remedy = "add --rate 8000, say" if sounds else "add --out FILE.wav, or leave it out"
        raise UserValueError("a .wav file and --rate must be given together", "--rate", remedy)
    from gnomon.system.saving import load

    system = load(run)
    if not hasattr(system, "sample"):
        raise lacks(system, "sample", "draw samples", run)
    drawing = {name: more.pop(name) for name in PARAMETERS}
    if given is not None and click.get_current_context().get_parameter_source("n") is not ParameterSource.DEFAULT:
        raise UserValueError("-n does not go with --given: there is a target for each row", "-n", "leave it out")
    if ("X" in inspect.signature(system.sample).parameters) != (given is not None):
        raise _without(system, given)
    data = RunFolder.open(run).config.get("data", {})
    features = data.get("features")
    writing = {name: value for name, value in more.items() if value is not None}
    if writing and "language" not in system.tasks:
        raise lacks(system, "generate", "go on from a text", run, tasks=("language",))
    options = arguments_of(system, drawing)
    if chains is not None:
        if options:
            raise UserValueError(f"--{_option(options)} does not go with --chains", "--chains", "leave one of them out")
        names = features or [f"x{j}" for j in range(getattr(system, "n_features_in_", 0))]
        along_chains(
            system, data, names, chains=chains, rows=n, every=every or EVERY, seed=seed, out=out, as_json=as_json
        )
        return
    if writing:
        found = system.generate(writing.pop("prompt", ""), n, random_state=seed, **writing)
    elif given is not None:
        found = system.sample(ask(run, given, system).X, random_state=seed, **options)
        found = found.reshape(len(found), -1)
        n, features = len(found), targets(found)
    else:
        found = system.sample(n, random_state=seed, **options)
    across = None
    if "return_canvas" in options:
        found, across = in_lines(*found)
    rows = found[0] if isinstance(found, tuple) else found
    if out is not None and Path(out).suffix.lower() in PICTURES:
        _draw(out, rows, features, system, across)
    elif sounds:
        _play(str(out), rows, int(rate or 0))
    else:
        if isinstance(found, tuple):
            found, features = labeled(rows, found[1], features, data.get("target"))
        if out is not None:
            write_rows(out, found, header(found, features))
    if as_json:
        output.dump({"n": n, "out": out} if out else {"samples": found})
    elif out is not None:
        output.written(n, "sample", out)
    else:
        write_rows(None, found, header(found, features))


def in_lines(rows: Any, canvas: Any) -> tuple[Any, int]:
    """Each row behind what its canvas was after each step, (n * (steps + 1), d), and how many belong together."""
    import numpy as np

    lines = np.concatenate([canvas, rows[:, None]], axis=1)
    return lines.reshape(-1, rows.shape[1]), lines.shape[1]


def _draw(out: str, rows: Any, features: list[str] | None, system: Any, across: int | None = None) -> None:
    """Write images as a picture of all of them side by side."""
    from gnomon.data.images import shape_of
    from gnomon.evaluation.grids import enlargement, sample_grid

    shape = shape_of(features or ()) or getattr(system, "image_shape", None)
    if shape is None or not hasattr(rows, "shape"):
        raise UserValueError("only images have a picture", "--out", "write .csv, .parquet or .npy, .txt for sentences")
    if not len(rows):
        raise UserValueError("a picture needs at least 1 sample, got 0", "-n", "draw more")
    write_picture(out, sample_grid(rows, tuple(shape), across=across, factor=enlargement(shape)))


def _play(out: str, rows: Any, rate: int) -> None:
    """Write rows as waveforms, one after the other with a quarter of a second of silence between them."""
    import numpy as np

    from gnomon.evaluation.sounds import save_wav

    if not hasattr(rows, "shape") or rows.ndim != 2 or not len(rows):
        raise UserValueError("only rows of numbers are waveforms", "--out", "write .txt for sentences, .png of images")
    loudest = float(np.abs(rows).max())
    if loudest > 1:
        output.note(f"notice: amplitudes are divided by {loudest:.4g}, the largest, since a .wav file ends at 1")
    silence = np.zeros((len(rows), rate // 4))
    save_wav(out, np.concatenate([rows / max(loudest, 1.0), silence], axis=1).ravel(), rate)


def _without(system: Any, given: str | None) -> UserTypeError:
    """The refusal of rows that a model of targets cannot draw, or of rows that a model of rows is not options."""
    if given is None:
        what = f"{system.name} is a model of y given x and cannot draw rows x"
        return UserTypeError(what, "--given", "give the rows: --given DATA; a density of rows is gaussian-mixture, say")
    return UserTypeError(f"{system.name} is a model of rows, not of a target given them", "--given", "leave it out")


def _option(options: dict[str, Any]) -> str:
    """The option that the first argument came from."""
    return next(option for option, names in PARAMETERS.items() if next(iter(options)) in names)


def targets(found: Any) -> list[str]:
    """Names of the columns of drawn targets."""
    return ["sample"] if found.shape[1] == 1 else [f"sample_{j}" for j in range(1, found.shape[1] + 1)]


def labeled(X: Any, y: Any, features: list[str] | None, target: Any) -> tuple[Any, list[str]]:
    """Rows and labels as one table, the label last, and the names of its columns."""
    import numpy as np

    name = target if isinstance(target, str) else "label"
    return np.column_stack([output.readable(X).astype(object), y]), [*header(X, features), name]


def header(found: Any, features: list[str] | None) -> list[str]:
    """Names of the columns, those of the data where the fit had a name or file; none for sentences."""
    if not hasattr(found, "shape"):
        return []
    from gnomon.tasks.sequences import frame_names

    width = found.shape[-1]
    known = frame_names(features, width) if features and len(features) != width else features
    return known or [f"x{j}" for j in range(width)]
