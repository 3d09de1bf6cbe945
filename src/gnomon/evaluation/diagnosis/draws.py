"""Checks of draws of chains: whether they differ, agree, are enough, move, and moved as they should."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gnomon.evaluation.diagnosis.records import Finding
from gnomon.inference.mcmc.diagnostics import ESS_PER_CHAIN, R_HAT_LIMIT, copies
from gnomon.inference.mcmc.records import Draws

__all__ = ["CHECKS", "acceptance", "agreement", "complete", "constants", "differ", "divergences", "enough"]

R_HAT_BAD = 1.05
"""Beyond this chains have not mixed, by any account; R-hat of 8 independent chains of 1000 draws exceeds 1.01 in fewer
than 1 of 1000 coordinates."""
R_HAT_APART = 1.5
FEW_PER_CHAIN = 10
LOW_ACCEPTANCE, HIGH_ACCEPTANCE, STUCK = 0.15, 0.99, 0.01
WALKS = (":HMC", ":MetropolisHastings")
LEAST = 8


def differ(found: Draws) -> list[Finding] | str:
    """Whether chains are copies of one, which then count as one everywhere."""
    chains, draws = found.shape
    if chains < 2 or draws < LEAST:
        return f"{chains} {'chain' if chains == 1 else 'chains'} of {draws} draws"
    groups = copies(np.concatenate([x.reshape(chains, draws, -1) for x in found.values.values()], axis=2))
    if not groups:
        return [Finding("ok", "the chains differ", f"no 2 of {chains} are the same draw for draw")]
    return [
        Finding(
            "warning",
            f"chains {_few([str(i) for i in group])} are the same draw for draw",
            f"{len(group)} chains with the draws of one",
            "one seed for all? give each chain its own",
        )
        for group in groups
    ]


def agreement(found: Draws) -> list[Finding] | str:
    """Whether the chains saw the same distribution: R-hat, the worst coordinate named, and which chains stand apart."""
    if found.shape[1] < LEAST:
        return f"{found.shape[1]} draws per chain, {LEAST} are needed"
    summary = found.summary()
    values = summary.columns["r_hat"]
    if np.isnan(values).all():
        return "no coordinate has moved"
    worst = int(np.nanargmax(values))
    name, value = summary.names[worst], float(values[worst])
    bad = int((values > R_HAT_LIMIT).sum())
    evidence = f"R-hat {value:.3f} at {name}, {bad} of {len(values)} coordinates above {R_HAT_LIMIT}"
    if value <= R_HAT_LIMIT:
        return [Finding("ok", "the chains agree", evidence)]
    if value <= R_HAT_BAD:
        return [Finding("notice", f"{name} has hardly converged", evidence, "draw more: extend(), or a longer run")]
    if value <= R_HAT_APART:
        return [Finding("warning", f"{name} has not converged", evidence, "a longer burn_in and more draws")]
    remedy = "chains sit in different modes: kernel='tempering', or another parameterization; more draws will not do"
    return [Finding("warning", f"{name} has not converged", f"{evidence}; {_apart(found, worst)}", remedy)]


def enough(found: Draws) -> list[Finding] | str:
    """Whether there are enough effective draws for means and for 5% and 95% quantiles."""
    if found.shape[1] < LEAST:
        return f"{found.shape[1]} draws per chain, {LEAST} are needed"
    summary = found.summary()
    least = np.fmin(summary.columns["ess_bulk"], summary.columns["ess_tail"])
    if np.isnan(least).all():
        return "no coordinate has moved"
    worst = int(np.nanargmin(least))
    name, value = summary.names[worst], float(least[worst])
    wanted = ESS_PER_CHAIN * summary.chains
    evidence = f"{value:.0f} effective draws at {name}, {wanted} are asked for ({ESS_PER_CHAIN} per chain)"
    if value >= wanted:
        return [Finding("ok", "there are enough draws", evidence)]
    factor = wanted / max(value, 1.0)
    remedy = f"about {factor:.1f} times as many draws"
    level = "warning" if value < FEW_PER_CHAIN * summary.chains else "notice"
    return [Finding(level, f"few effective draws of {name}", evidence, remedy)]  # type: ignore[arg-type]


def constants(found: Draws) -> list[Finding] | str:
    """Coordinates that never moved, or are not finite: no diagnostic speaks for them."""
    if not found.shape[1]:
        return "there are no draws"
    still, broken = [], []
    for name, x in found.values.items():
        flat = x.reshape(*x.shape[:2], -1)
        finite = np.isfinite(flat).all(axis=(0, 1))
        same = (flat == flat[:1, :1]).all(axis=(0, 1))
        still += [f"{name}[{i}]" for i in np.flatnonzero(finite & same)]
        broken += [f"{name}[{i}]" for i in np.flatnonzero(~finite)]
    findings = []
    if broken:
        findings.append(
            Finding("warning", "draws that are not finite", _few(broken), "the density is not finite there")
        )
    if still:
        words = "is it impossible for them to change, or are the chains stuck?"
        findings.append(Finding("notice", "coordinates that never moved", _few(still), words))
    return findings or [
        Finding("ok", "every coordinate moved", f"in {found.shape[1]} draws of {found.shape[0]} chains")
    ]


def divergences(found: Draws) -> list[Finding] | str:
    """Moves of Hamiltonian Monte Carlo whose energy ran away: parts of the distribution are not reached."""
    if "divergent" not in found.info:
        return "the kernel has no divergences"
    flags = found.info["divergent"]
    count = int(flags.sum())
    if not count:
        return [Finding("ok", "no divergent moves", f"of {flags.size}")]
    remedy = "HMC with a smaller step_size, Adaptation(acceptance=0.95), or another parameterization"
    return [Finding("warning", "divergent moves", f"{count} of {flags.size} ({count / flags.size:.1%})", remedy)]


def acceptance(found: Draws) -> list[Finding] | str:
    """Whether moves are accepted too seldom, too often, or never by some chain."""
    if "accept_prob" not in found.info or not found.info["accept_prob"].size:
        return "the kernel tells no acceptance"
    by_chain = found.info["accept_prob"].astype(np.float64).mean(axis=1)
    mean = float(by_chain.mean())
    evidence = f"mean acceptance {mean:.2f}, by chain {by_chain.min():.2f} to {by_chain.max():.2f}"
    stuck = np.flatnonzero(by_chain < STUCK)
    if len(stuck):
        words = f"{'chain' if len(stuck) == 1 else 'chains'} {_few([str(i) for i in stuck])} hardly ever moved"
        return [Finding("warning", words, evidence, "a smaller step_size, or another start")]
    if mean < LOW_ACCEPTANCE:
        return [Finding("warning", "moves are seldom accepted", evidence, "a smaller step_size, or adapt='auto'")]
    walks = str((found.facts.get("kernel") or {}).get("type", "")).endswith(WALKS)
    if walks and mean > HIGH_ACCEPTANCE:
        return [Finding("notice", "steps are very small", evidence, "a larger step_size, or adapt='auto'")]
    return [Finding("ok", "moves are accepted as they should be", evidence)]


def complete(found: Draws) -> list[Finding] | str:
    """Whether all draws are there that were asked for."""
    wanted = found.facts.get("wanted")
    if wanted is None:
        return "it is not known how many draws were asked for"
    have = found.shape[1]
    evidence = f"{have} of {wanted} draws per chain"
    if have >= wanted:
        return [Finding("ok", "the run is complete", evidence)]
    return [Finding("notice", "the run was cut", evidence, "sample_chain(..., run=..., resume=True) goes on bitwise")]


CHECKS: dict[str, Callable[[Draws], list[Finding] | str]] = {
    "differ": differ, "agreement": agreement, "enough": enough, "divergences": divergences, "acceptance": acceptance,
    "constants": constants, "complete": complete,
}  # fmt: skip


def _apart(found: Draws, index: int) -> str:
    """Which chains stand on which side of the widest gap between the chains' means."""
    flat = np.concatenate([x.reshape(*x.shape[:2], -1) for x in found.values.values()], axis=2)
    means = flat[:, :, index].astype(np.float64).mean(axis=1)
    if len(means) < 2:
        return "the halves of the chain differ"
    order = np.argsort(means)
    cut = int(np.argmax(np.diff(means[order]))) + 1
    low, high = sorted(order[:cut].tolist()), sorted(order[cut:].tolist())
    return (
        f"chains {_few([str(i) for i in low])} about {means[low].mean():.3g}, "
        f"chains {_few([str(i) for i in high])} about {means[high].mean():.3g}"
    )


def _few(names: list[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
