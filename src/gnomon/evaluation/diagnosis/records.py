"""What a diagnosis says: findings, each with its evidence and a remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from gnomon.errors import UserError

__all__ = ["Diagnosis", "Finding", "Level", "examine"]

Level = Literal["ok", "notice", "warning"]
LEVELS: tuple[Level, ...] = ("ok", "notice", "warning")
MARKS = {"ok": "ok     ", "notice": "notice ", "warning": "WARNING"}


@dataclass(frozen=True)
class Finding:
    """One thing that a check has computed.

    Parameters
    ----------
    level : {"ok", "notice", "warning"}
    what : str
        The finding in words.
    evidence : str
        The numbers it rests on.
    remedy : str
        What to do; "" where nothing is wrong.
    check : str
        Name of the check; `examine` fills it in.
    """

    level: Level
    what: str
    evidence: str
    remedy: str = ""
    check: str = ""

    def __str__(self) -> str:
        line = f"{MARKS[self.level]} {self.what}: {self.evidence}"
        return f"{line}\n        -> {self.remedy}" if self.remedy else line

    def to_json(self) -> dict[str, str]:
        """As names and texts."""
        return {name: getattr(self, name) for name in ("check", "level", "what", "evidence", "remedy")}


@dataclass(frozen=True)
class Diagnosis:
    """The findings about one result.

    Parameters
    ----------
    subject : str
        What was looked at.
    findings : tuple of Finding
        The gravest first.
    skipped : mapping of check to str
        Checks that this result does not support, and why.
    table : str
        Moments and diagnostics of chains, where it is about chains.
    plot : callable, optional
        Draws the figure, where there is one.
    """

    subject: str
    findings: tuple[Finding, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)
    table: str = ""
    plot: Callable[[], Any] | None = None

    @property
    def level(self) -> Level:
        """The gravest level; "ok" also where nothing could be looked at."""
        return max((f.level for f in self.findings), key=LEVELS.index, default="ok")

    def of(self, check: str) -> tuple[Finding, ...]:
        """The findings of one check."""
        return tuple(f for f in self.findings if f.check == check)

    def to_json(self) -> dict[str, Any]:
        """As names, texts and lists."""
        return {
            "subject": self.subject, "level": self.level, "findings": [f.to_json() for f in self.findings],
            "skipped": dict(self.skipped), "table": self.table,
        }  # fmt: skip

    def text(self, *, everything: bool = False) -> str:
        """The findings in words.

        Parameters
        ----------
        everything : bool, default False
            Also the checks that the result does not support, and why.
        """
        parts = [f"{self.subject}: {self.level}"]
        parts += [self.table] if self.table else []
        parts += [str(f) for f in self.findings]
        if everything:
            parts += [f"not looked at: {name} ({why})" for name, why in self.skipped.items()]
        return "\n".join(parts)

    def __str__(self) -> str:
        return self.text()


def examine(
    subject: Any, checks: Mapping[str, Callable[[Any], Iterable[Finding] | str]]
) -> tuple[list[Finding], dict[str, str]]:
    """Run checks on a subject: what they found, and which did not apply.

    Parameters
    ----------
    subject : object
        What the checks of this table take.
    checks : mapping of name to callable
        Each gives findings, or in words why it does not apply. One that refuses the subject (`UserError`) is named
        with its reason, so that the others are heard.

    Examples
    --------
    >>> found, skipped = examine(3, {"odd": lambda n: [Finding("ok", "odd", f"{n}")], "even": lambda n: "it is odd"})
    >>> found[0].check, skipped
    ('odd', {'even': 'it is odd'})
    """
    findings: list[Finding] = []
    skipped: dict[str, str] = {}
    for name, check in checks.items():
        try:
            answer = check(subject)
        except UserError as error:
            answer = str(error)
        if isinstance(answer, str):
            skipped[name] = answer
            continue
        findings += [replace(f, check=name) for f in answer]
    return sorted(findings, key=lambda f: -LEVELS.index(f.level)), skipped
