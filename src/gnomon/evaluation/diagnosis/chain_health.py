"""Checks of the chains of a watched fit: frozen ones, those that move together, energies that run away."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gnomon.errors import counted
from gnomon.evaluation.diagnosis.records import Finding

__all__ = ["CHECKS", "energies", "faults", "frozen", "together"]

TOGETHER, PERHAPS = 3.0, 2.0
"""Mixing ratios beyond which chains move together, or may: independent ones have 1, and with 10 updates of many units
exceed 2 hardly ever."""
MANY_FROZEN = 0.1
"""Share of the chains; a strong machine holds a few in a mode for ten updates."""
RUNAWAY = 3.0
"""Standard deviations of the data's energies between their mean and that of the chains."""

Lines = Sequence[Mapping[str, Any]]
Answer = list[Finding] | str
NONE = "the fit had no persistent chains"
SLOWER = "a lower learning rate, more steps of the chains (k) for an update, or objective tempered"


def together(lines: Lines) -> Answer:
    """Whether the mean of the chains moves more from update to update than their spread explains."""
    chains = lines[-1].get("chains")
    if chains is None:
        return NONE
    ratio = chains["mixing_ratio"]
    size = f"mixing ratio {'infinite, all the same' if ratio is None else format(ratio, '.3g')}"
    evidence = (
        f"{size}, of {counted(chains['chains'], 'chain')} over {counted(chains['updates'], 'update')}; 1 if apart"
    )
    if ratio is None or ratio > TOGETHER:
        return [Finding("warning", "the chains move together", evidence, SLOWER)]
    if ratio > PERHAPS:
        return [Finding("notice", "the chains move together a little", evidence, SLOWER)]
    return [Finding("ok", "the chains move apart from each other", evidence)]


def frozen(lines: Lines) -> Answer:
    """Whether chains stood still over the last updates."""
    chains = lines[-1].get("chains")
    if chains is None:
        return NONE
    n, moved = chains["chains"], f"{chains['moved']:.2%} of the units changed in an update of the last epoch"
    if not chains["frozen"]:
        return [Finding("ok", "every chain moved", moved)]
    evidence = (
        f"{chains['frozen']} of {counted(n, 'chain')} the same in the last {counted(chains['updates'], 'update')}"
    )
    level = "warning" if chains["frozen"] > MANY_FROZEN * n else "notice"
    return [Finding(level, "chains are frozen", f"{evidence}; {moved}", SLOWER)]  # type: ignore[arg-type]


def energies(lines: Lines) -> Answer:
    """Whether the chains are where the data are, by their energies."""
    energy = lines[-1].get("chains", {}).get("energy")
    if energy is None:
        return "the energies of chains are not known"
    data, model = energy["data"], energy["chains"]
    away = (model["mean"] - data["mean"]) / data["std"] if data["std"] > 0 else 0.0
    evidence = (
        f"mean energy of the chains {model['mean']:.4g}, of the data {data['mean']:.4g}, whose standard deviation is "
        f"{data['std']:.3g}"
    )
    if away < -RUNAWAY:
        what = "the chains have run away to lower energies than the data's: a spurious mode"
        return [Finding("warning", what, evidence, SLOWER)]
    if away > RUNAWAY:
        what = "the energies have run away: the chains lag behind at higher ones than the data's"
        return [Finding("warning", what, evidence, SLOWER)]
    return [Finding("ok", "the chains have the energies of the data", evidence)]


CHECKS: dict[str, Callable[[Lines], Answer]] = {"chains": together, "frozen": frozen, "energies": energies}


def faults(line: Mapping[str, Any]) -> list[Finding]:
    """What these checks warn of in a single line of the monitor.

    Examples
    --------
    >>> chains = {"chains": 20, "updates": 10, "moved": 0.0, "frozen": 20, "mixing_ratio": 0.5}
    >>> [one.what for one in faults({"chains": chains})]
    ['chains are frozen']
    """
    answers = [check([line]) for check in CHECKS.values()]
    return [one for answer in answers if not isinstance(answer, str) for one in answer if one.level == "warning"]
