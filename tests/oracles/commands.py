"""The command line as tests call it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gnomon.cli.main import run

__all__ = ["call"]


def call(capsys: pytest.CaptureFixture[str], *arguments: Any) -> Any:
    """What a command that succeeds says with --json; what is no JSON (NaN, Infinity) fails."""
    capsys.readouterr()
    status = run([*map(str, arguments), "--json"])
    out, err = capsys.readouterr()
    assert status == 0, err

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(out, parse_constant=refuse)
