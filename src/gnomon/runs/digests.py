"""Digests of what a run holds, so that a changed byte is told of and never computed with. Standard library only."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["DIGEST", "digest", "digest_of_config", "identity"]

DIGEST = "digest"
"""Name under which a file keeps its own."""
OWN = ("name",)
"""Facts of the data that people may change by hand: the file may have moved, and its fingerprint tells another one."""

BUDGETS = ("epochs", "max_updates", "max_iter")
"""Hyper-parameters that may grow after a fit has ended."""


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


def identity(config: Mapping[str, Any]) -> str:
    """Which fit a run is, by what it was asked for and its data: what binds its arrays to its config.json.

    Budgets are no part of it, since a fit may go on under a larger one.

    Examples
    --------
    >>> one = {"system": "rbm", "seed": 0, "parameters": {"n_hidden": 3, "epochs": 5}}
    >>> identity(one) == identity({**one, "parameters": {"n_hidden": 3, "epochs": 9}})
    True
    >>> identity(one) == identity({**one, "seed": 1})
    False
    """
    facts = {name: config.get(name) for name in ("system", "where", "seed", "parameters")}
    if isinstance(facts["parameters"], dict):
        facts["parameters"] = {name: value for name, value in facts["parameters"].items() if name not in BUDGETS}
    data = config.get("data")
    facts["fingerprint"] = data.get("fingerprint") if isinstance(data, dict) else None
    return digest([json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()])
