"""A suggestion of a first system: what it is, its settings, its reasons, and the commands that fit and judge it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from gnomon.catalog import card, make
from gnomon.system.base import System
from gnomon.tasks.base import task
from gnomon.tasks.baselines import HUGE, Description, Rule, regularized
from gnomon.tasks.settings import settings_of, title_of
from gnomon.training.stopping import Off

__all__ = ["Suggestion"]

SHOWN = ("hidden", "activation", "optimizer", "learning_rate", "epochs", "early_stopping", "dropout", "l2")
"""Hyper-parameters that are named though they have their defaults."""
UNEVEN = 0.7
"""Share of one label from which on accuracy says little."""


@dataclass(frozen=True)
class Suggestion:
    """A first end-to-end system for data, and why.

    Parameters
    ----------
    description : Description
    rule : Rule
        By which it was chosen.
    passed_over : tuple of str
        Rules that came before and cannot be fitted to the data.
    metric : str or None
        The score to judge by; None where nobody has chosen one.
    words : tuple of str
        Data and options of the command line; () where the data is in memory.
    """

    description: Description
    rule: Rule
    passed_over: tuple[str, ...] = ()
    metric: str | None = None
    words: tuple[str, ...] = ()

    @property
    def system(self) -> System:
        """The system, not fitted, with seed 0."""
        found: System = make(self.rule.system, random_state=0, **regularized(self.rule, self.description.rows))
        return found

    @property
    def settings(self) -> dict[str, str]:
        """The hyper-parameters that are not the defaults, as the command line takes them."""
        return dict(one.split("=", 1) for one in settings_of(self.system).split(",") if one)

    @property
    def defaults(self) -> dict[str, Any]:
        """What the system has besides, of the hyper-parameters that matter most."""
        names = {one.name for one in card(self.rule.system).parameters}
        shown = ("l2",) if self.rule.family == "linear" else SHOWN
        return {n: getattr(self.system, n) for n in shown if n in names and n not in self.settings}

    @property
    def fit(self) -> str:
        """What fits it: a command, or Python where the data is in memory."""
        if not self.words:
            return f"{self._call}.fit({self._arguments})"
        flags = [part for key, value in self.settings.items() for part in (f"--{key.replace('_', '-')}", value)]
        return shlex.join(["gnomon", "fit", self.rule.system, *self.words, *flags])

    @property
    def judge(self) -> str:
        """What compares it with the trivial answer on rows held out."""
        if not self.words:
            metric = f", metric={self.metric!r}" if self.metric else ""
            return f"gnomon.compare([{self._call}], {self._arguments}{metric})"
        metric_words = ["--metric", self.metric] if self.metric else []
        return shlex.join(["gnomon", "compare", title_of(self.system), *self.words, *metric_words])

    @property
    def _call(self) -> str:
        return f"gnomon.{' '.join(repr(self.system).split())}"

    @property
    def _arguments(self) -> str:
        return "X" if self.description.answer == "none" else "X, y"

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why this system with these settings."""
        found = [f"not {one}" for one in self.passed_over]
        found.append(self.rule.reason)
        system = self.system
        if "activation" in self.defaults:
            found.append(f"{system.recipe('activation').short} units: piecewise linear ones are the first choice")
        if "optimizer" in self.defaults:
            name = system.recipe("optimizer").short
            found.append(f"{name}: with SGD with momentum and a falling rate one of the two first choices")
        if self.description.rows >= HUGE and regularized(self.rule, HUGE):
            found.append("tens of millions of rows regularize by themselves")
        elif mild := [name for name in regularized(self.rule, HUGE) if _regularizes(system, name)]:
            found.append(f"mild regularization from the start: {' and '.join(mild)}")
        return tuple(found)

    @property
    def score(self) -> str:
        """What it is judged by, and who has chosen that."""
        if self.metric is not None:
            return f"{self.metric}, as you chose"
        usual = task(self.rule.task).primary
        words = f"not chosen: say what counts (--metric); gnomon compare ranks by {usual} where nothing is said"
        if usual == "accuracy" and self.description.commonest > UNEVEN:
            words += (
                f"; one label has {self.description.commonest:.0%} of the rows: always answering it has that accuracy"
            )
        return words

    @property
    def later(self) -> tuple[str, ...]:
        """What to do when it is not good enough."""
        names = {one.name for one in card(self.rule.system).parameters}
        found = []
        if "learning_rate" in names and self.words and self.rule.family not in ("linear", "energy"):
            sweep = shlex.join(["gnomon", "curve", title_of(self._plain), *self.words])
            found.append(f"the learning rate first: {sweep} --over learning_rate --best-on training")
        if "batch_norm" in names:
            found.append("training rows are learned slowly: batch_norm=true at once, and then dropout may go")
        if self.rule.family == "linear" and self.description.answer != "none":
            network = "mlp" if self.rule.task == "classify" else "mlp-regression"
            found.append(f"training rows are not good enough either: a network of more capacity, {network}")
        if self.description.answer != "none":
            found.append(
                "pre-training without labels only where it overfits, or where few of many rows have labels: fit to the "
                "codes of ppca or vae (gnomon transform)"
            )
        if self.description.structure == "sequence":
            found.append("it overfits: words embedded from more text are where pre-training helps")
        return tuple(found)

    @property
    def _plain(self) -> System:
        """The system without early stopping, which a sweep of rates does not have."""
        slots = self.system.slots
        return self.system.set_params(early_stopping="off") if "early_stopping" in slots else self.system

    def to_json(self) -> dict[str, Any]:
        """As names, texts and lists."""
        return {
            "description": self.description.to_json(), "family": self.rule.family, "system": self.rule.system,
            "task": self.rule.task, "settings": self.settings, "reasons": list(self.reasons), "metric": self.metric,
            "score": self.score, "fit": self.fit, "judge": self.judge, "later": list(self.later),
        }  # fmt: skip

    def __str__(self) -> str:
        settings = [f"{key}={value}" for key, value in self.settings.items()]
        defaults = [f"{name}={_short(value)}" for name, value in self.defaults.items()]
        lines = [("proposal", f"{self.rule.system} ({self.rule.family}), for {self.rule.task}")]
        lines += [("settings", ", ".join(settings))] if settings else []
        lines += [("defaults", ", ".join(defaults))] if defaults else []
        lines += [("because", one) for one in self.reasons]
        lines += [("score", self.score), ("fit", self.fit), ("judge", self.judge)]
        lines += [("later", one) for one in self.later]
        return "\n".join(f"{name:<10} {text}" for name, text in lines)


def _regularizes(system: System, name: str) -> bool:
    """Whether early stopping or dropout is on."""
    return not isinstance(system.recipe(name), Off) if name in system.slots else bool(getattr(system, name))


def _short(value: Any) -> str:
    """A setting in a word."""
    if isinstance(value, tuple):
        return "x".join(map(str, value)) or "()"
    return str(getattr(value, "short", value))
