"""Digests of what a run holds, so that a changed byte is told of and never computed with. Standard library only."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["DIGEST", "digest", "digest_of_config"]

DIGEST = "digest"
"""Name under which a file keeps its own."""
OWN = ("name",)
"""Facts of the data that people may change by hand: the file may have moved, and its fingerprint tells another one."""


def digest(parts: Iterable[Any]) -> str:
    """BLAKE2b of bytes and buffers, one after the other, each behind its length.

    Examples
    --------
    >>> digest([b"ab", b"c"]) == digest([b"a", b"bc"])
    False
    """
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        view = memoryview(part)
        state.update(view.nbytes.to_bytes(8, "little"))
        state.update(view)
    return state.hexdigest()


def digest_of_config(config: Mapping[str, Any]) -> str:
    """Of every fact but the digest itself and the place of the data; spaces and the order of names do not matter."""
    facts = {name: value for name, value in config.items() if name != DIGEST}
    if isinstance(facts.get("data"), dict):
        facts["data"] = {name: value for name, value in facts["data"].items() if name not in OWN}
    return digest([json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()])
