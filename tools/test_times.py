"""Where the time of ``make test-all`` goes, and what it would be with more systems: reads its JUnit report.

    python tools/test_times.py report.xml [--systems 180] [--minutes 45]

Counted is processor time (the property ``processor`` of a test; the clock where a report has none), so that it makes no
difference what else the machine did. The status is 1 where the tests of that many systems would take longer.
"""

from __future__ import annotations

import argparse
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from gnomon.catalog import ENTRIES

CORES = 2
PARTS = {
    "test_systems": "contracts", "test_scikit_learn": "scikit-learn", "test_defaults": "defaults",
    "test_parameters": "parameters", "test_tables": "tables",
}  # fmt: skip
"""Files of tests/contracts that run once for each system, and how the table calls them."""
FAMILY = {entry.name: entry.where.split(".")[2] for entry in ENTRIES}
NAMES = sorted(FAMILY, key=len, reverse=True)


@dataclass
class Times:
    """Seconds by family and part, by system, by family for one launch of two processes, and those of all else."""

    parts: dict[str, Counter[str]] = field(default_factory=dict)
    systems: Counter[str] = field(default_factory=Counter)
    launches: Counter[str] = field(default_factory=Counter)
    fixed: float = 0.0

    def add(self, family: str, part: str, seconds: float) -> None:
        """Count seconds that a family takes because of its systems."""
        self.parts.setdefault(family, Counter())[part] += seconds

    @property
    def of_systems(self) -> float:
        """Seconds of the systems' own tests and contracts."""
        return float(sum(sum(part.values()) for part in self.parts.values()))

    def minutes(self, systems: int) -> float:
        """Time of the whole suite on two cores with so many systems, of today's kinds in families of today's size."""
        return (self.fixed + systems * self.per_system) / CORES / 60

    @property
    def per_system(self) -> float:
        """Seconds that a system adds: its own, and its part of the launch of its family."""
        return (self.of_systems + sum(self.launches.values())) / max(1, len(self.systems))


def read(report: Path) -> Times:
    """Add up the tests of a report."""
    times = Times()
    for case in ElementTree.parse(report).iter("testcase"):
        where, seconds = case.get("classname", "").split("."), _seconds(case)
        named = re.search(r"\[(.*)\]$", case.get("name", ""))
        arguments = named.group(1) if named else ""
        if where[:2] == ["tests", "contracts"] and where[2] in PARTS:
            system = next((one for one in NAMES if re.search(rf"(^|-){re.escape(one)}($|[,-])", arguments)), None)
            if system is not None:
                times.add(FAMILY[system], PARTS[where[2]], seconds)
                times.systems[system] += seconds
                continue
        if where[2:3] == ["test_processes"] and arguments in FAMILY.values():
            times.launches[arguments] += seconds
        elif where[:2] == ["tests", "systems"] and where[2] in FAMILY.values():
            times.add(where[2], "own", seconds)
        else:
            times.fixed += seconds
    return times


def _seconds(case: ElementTree.Element) -> float:
    own = next((one.get("value") for one in case.iter("property") if one.get("name") == "processor"), None)
    return float(own if own is not None else case.get("time", "0"))


def table(times: Times) -> str:
    """The table by family, as Markdown; seconds per system, and of the launch of its family."""
    columns = [*PARTS.values(), "own"]
    lines = [
        f"| family | systems | {' | '.join(columns)} | per system | launch |",
        "|---|" + "--:|" * (len(columns) + 3),
    ]
    for family, found in sorted(times.parts.items(), key=lambda pair: -sum(pair[1].values())):
        n = max(1, sum(FAMILY[one] == family for one in times.systems))
        cells = [f"{found[part] / n:.1f}" for part in columns]
        whole = f"{sum(found.values()) / n:.1f} | {times.launches[family]:.0f}"
        lines.append(f"| {family} | {n} | {' | '.join(cells)} | {whole} |")
    return "\n".join(lines)


def main() -> int:
    """Print the table and the forecast."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path)
    parser.add_argument("--systems", type=int, default=180)
    parser.add_argument("--minutes", type=float, default=45.0)
    given = parser.parse_args()
    times = read(given.report)
    forecast = times.minutes(given.systems)
    print(table(times))
    slowest = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in times.systems.most_common(6))
    print(f"\nfixed {times.fixed:.0f} s, launches {sum(times.launches.values()):.0f} s; contracts of {slowest}")
    n, most = len(times.systems), (60 * CORES * given.minutes - times.fixed) / given.systems
    print(f"{n} systems: {times.minutes(n):.0f} minutes on {CORES} cores; {given.systems}: {forecast:.0f}")
    print(f"a system adds {times.per_system:.0f} s; it may add {most:.0f} s for {given.minutes:.0f} minutes")
    return int(forecast > given.minutes)


if __name__ == "__main__":
    raise SystemExit(main())
