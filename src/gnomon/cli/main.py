"""The command ``gnomon``: verbs that are imported when they are called, and what becomes of errors.

Exit status: 0 success; 2 the user's mistake, in one line; 1 a fault of ours, with its traceback; 130 after Ctrl-C;
141 when the reader of the output has gone.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import warnings
from collections.abc import Mapping, Sequence

import click

from gnomon import __version__
from gnomon.cli import output
from gnomon.cli.completion import VARIABLE, answer
from gnomon.cli.interrupts import held_back_in_loading
from gnomon.cli.waiting import waiting
from gnomon.errors import UserError, UserValueError, nearest
from gnomon.recipes.synonyms import ELSEWHERE, SYNONYMS, suggestions

__all__ = ["VERBS", "main", "run"]

INTERRUPTED = 130

VERBS = {
    "list": "Systems by family, and parts: gnomon list [WORD | parts [ROOM]] [--task TASK].",
    "info": "What a system, a part or a run is: gnomon info NAME|RUN.",
    "fit": "Fit a system to data: gnomon fit SYSTEM DATA [OPTIONS].",
    "resume": "Go on with a fit that was stopped: gnomon resume RUN.",
    "evaluate": "Scores of a fitted model: gnomon evaluate RUN [DATA].",
    "predict": "Labels, numbers or clusters of rows: gnomon predict RUN DATA.",
    "show": "Predictions of a few rows at random, beside the truth: gnomon show RUN [DATA].",
    "score": "How likely each row is, and outliers: gnomon score RUN DATA --rate 0.01.",
    "transform": "Codes of rows, such as principal components: gnomon transform RUN DATA.",
    "impute": "Missing cells filled in from the known ones of their row: gnomon impute RUN DATA.",
    "denoise": "What damaged rows were, under noise that is named: gnomon denoise RUN DATA --noise 0.1.",
    "components": "What a model is made of, by column: gnomon components RUN.",
    "explain": "Coefficients, and what each column is worth: gnomon explain RUN [DATA].",
    "recommend": "Items that users would like: gnomon recommend RUN --user ID -k 10.",
    "sample": "Rows or sentences drawn from a model: gnomon sample RUN -n 64.",
    "generate": "Texts that a language model writes: gnomon generate RUN --prompt TEXT.",
    "augment": "Pairs of text in one language, by back-translation: gnomon augment RUN TEXT --pairs PAIRS --out FILE.",
    "blind": "Can people tell samples from data: gnomon blind make RUN --out FOLDER.",
    "compare": "Several systems on the same data: gnomon compare SYSTEM[:KEY=VALUE,...] ... DATA.",
    "search": "Hyper-parameters chosen by trials: gnomon search SYSTEM DATA --trials 50.",
    "curve": "Scores against one hyper-parameter or the number of rows: gnomon curve SYSTEM DATA.",
    "principles": "One machine by several training principles: gnomon principles SYSTEM DATA.",
    "clusters": "How many clusters there are: gnomon clusters SYSTEM DATA [--most 10].",
    "diagnose": "What is wrong with a run, and what to do: gnomon diagnose RUN [--out FILE.png].",
    "report": "A page about runs, for the browser: gnomon report RUN ... [--out FILE.html].",
    "suggest": "The first system to fit to data, and why: gnomon suggest DATA [--target COLUMN].",
    "data": "The built-in data sets, or what a file holds: gnomon data [NAME|FILE].",
    "demo": "Systems of five tasks on built-in data, against their baselines.",
}
"""Verbs that work, each with its line of help; the body of one is ``gnomon.cli.VERB:command``."""
WAITED_FOR = (
    "evaluate", "predict", "show", "score", "transform", "impute", "denoise", "components", "explain", "recommend",
    "sample", "generate", "diagnose", "report",
)  # fmt: skip
"""Those without progress of their own, some of which take long: they say for how long they have been at work."""


class Verbs(click.Group):
    """A group whose commands are imported only when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every verb, in the order in which they are used."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command:
        """The verb's command.

        Raises
        ------
        UserValueError
            A verb that does not exist, with the nearest that does.
        """
        if name not in VERBS:
            close = nearest(name, list(VERBS))
            remedy = f"did you mean {close[0]}?" if close else "gnomon --help shows them all"
            raise UserValueError(f"unknown command {name!r}", remedy=remedy)
        command: click.Command = importlib.import_module(f"gnomon.cli.{name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The verbs with their lines of help, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.group(
    cls=Verbs,
    help="Infer hidden structure from data: many kinds of models behind the same few verbs, judged by honest scores.",
    epilog="gnomon COMMAND --help explains a command; gnomon fit SYSTEM --help the parameters of a system.",
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
)
@click.version_option(__version__, prog_name="gnomon", message="%(prog)s %(version)s")
def group() -> None:
    """The command without a verb."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit status."""
    if VARIABLE in os.environ:
        sys.exit(answer(group))
    status = run(sys.argv[1:] if arguments is None else arguments)
    if status == INTERRUPTED:  # a library's thread may still be at work: it ends with the process, now
        output.leave(status)
    gc.freeze()  # the last search for garbage would go through all that was imported, for half a second
    sys.exit(status)


def run(arguments: Sequence[str]) -> int:
    """Run the command line; its exit status.

    Parameters
    ----------
    arguments : sequence of str
        What follows ``gnomon``.
    """
    as_json = "--json" in arguments
    output.tolerate_any_terminal()
    with warnings.catch_warnings(), held_back_in_loading():
        warnings.showwarning = output.show_warning
        try:
            status = _call([_readable(word) for word in arguments])
            sys.stdout.flush()
        except BrokenPipeError:
            output.abandon_stdout()
            return 141
        except (KeyboardInterrupt, click.Abort) as stop:
            facts = {"what": "interrupted", **getattr(stop, "facts", {})}
            return _fail(str(stop) or "interrupted", facts, INTERRUPTED, as_json)
        except UserError as error:
            facts = {"what": error.what, "where": error.where, "remedy": error.remedy}
            return _fail(str(error), facts, error.exit_code, as_json)
        except OSError as error:
            if error.errno not in output.FULL:
                return _fault(error, as_json)
            output.abandon_stdout()
            return _fail(f"cannot write the output ({error.strerror}); free space", {}, 2, as_json=False)
        except Exception as error:
            return _fault(error, as_json)
    return status


def _readable(word: str) -> str:
    """A word that Python could not decode, in a locale without UTF-8, as UTF-8 after all."""
    return word if word.isprintable() else os.fsencode(word).decode("utf-8", "replace")


def _call(arguments: list[str]) -> int:
    """Run click, with its own complaints turned into ours."""
    try:
        # not group.main(), which has its own way with closed pipes and statuses
        with group.make_context("gnomon", arguments) as ctx:
            if arguments[:1] and arguments[0] in WAITED_FOR:
                with waiting(f"gnomon {arguments[0]}"):
                    group.invoke(ctx)
            else:
                group.invoke(ctx)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        output.write(error.format_message())
        return 0
    except click.NoSuchOption as error:
        known = [name for p in (error.ctx.command.params if error.ctx else []) for name in p.opts]
        where = error.ctx.command_path if error.ctx else "gnomon"
        remedy = _setting(error) or _meant(error.option_name, [*known, "--help"]) or f"{where} --help shows them all"
        raise UserValueError(f"unknown option {error.option_name}", where, remedy) from None
    except click.ClickException as error:
        where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "gnomon"
        message = error.format_message().rstrip(".").replace("\n", " ")
        raise UserValueError(message[:1].lower() + message[1:], where, f"{where} --help") from None
    return 0


def _setting(error: click.NoSuchOption) -> str:
    """Where a hyper-parameter goes that was given to `compare` as an option; "" for any other."""
    if error.ctx is None or error.ctx.command.name != "compare":
        return ""
    from gnomon.catalog import card, entries

    word = error.option_name.lstrip("-").replace("-", "_")
    typed = {text.partition(":")[0] for text in sys.argv}
    names = [one.name for one in entries() if one.name in typed]
    taker = next((name for name in names if word in [p.name for p in card(name).parameters]), "")
    return f"settings of a system stand behind its name: {taker}:{word}=VALUE" if taker else ""


def _meant(option: str, known: list[str]) -> str:
    """What to do about an option that is not known; "" where nothing is like it."""
    names = {name.lstrip("-").replace("-", "_"): name for name in known}
    word = option.lstrip("-").replace("-", "_")
    if word in ELSEWHERE:
        return ELSEWHERE[word]
    foreign = [names[name] for name in suggestions(word, list(names), n=1)] if word in SYNONYMS else []
    if not foreign and (others := _verbs_with(option)):
        *first, last = others
        return f"{', '.join(first)} and {last} have it" if first else f"{last} has it"
    close = foreign or nearest(option, known, n=1)
    return f"did you mean {close[0]}?" if close else ""


def _verbs_with(option: str) -> list[str]:
    """The verbs that have an option of exactly this name."""
    found = {verb: importlib.import_module(f"gnomon.cli.{verb}").command for verb in VERBS}
    return [f"gnomon {verb}" for verb, command in found.items() if any(option in one.opts for one in command.params)]


def _fail(message: str, facts: Mapping[str, object], status: int, as_json: bool) -> int:
    line = " ".join(message.split())
    if not output.first_process():  # the first one says it
        return status
    output.note(f"error: {line}" if status != INTERRUPTED else line)
    if as_json:
        output.dump({"error": {"message": line, **facts}, "exit": status})
    return status


def _fault(error: Exception, as_json: bool) -> int:
    import traceback

    sys.stderr.write("".join(traceback.format_exception(error)))
    return _fail(
        f"{type(error).__name__}: {error} (a fault of gnomon's; please report it)", {"what": str(error)}, 1, as_json
    )


if __name__ == "__main__":
    main()
