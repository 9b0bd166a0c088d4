"""Contests, the rows they give, and the table that shows them.

A contest runs every contender once per round, one after the other, in an order that changes. A neighbour who
takes the disk or a core for a while therefore hits all of them, and nobody always follows the same one.
Columns show medians over the rounds; the ratio is the median of the ratios inside each round, so that slow
and fast minutes do not mix.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Unit:
    """What is counted, and whether more of it is better."""

    name: str
    more_is_better: bool = True

    def ratio(self, ours: float, other: float) -> float:
        """Above one when ours is better."""
        return ours / other if self.more_is_better else other / ours


RECORDS_PER_SECOND = Unit("records/s")
MEGABYTES_PER_SECOND = Unit("MB/s")
SECONDS_PER_MILLION = Unit("s/million", more_is_better=False)
MEGABYTES = Unit("MB", more_is_better=False)
MILLISECONDS = Unit("ms", more_is_better=False)


@dataclass(frozen=True, slots=True)
class Contender:
    """Who takes part; `measure` gives one figure per round."""

    name: str
    measure: Callable[[], float]


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison. A ratio above one says that ours is better, whatever the unit."""

    name: str
    ours: float
    peer: float
    peer_name: str
    ratio: float
    unit: str
    compared: str
    everyone: dict[str, float]
    aim: str = ""
    reached: bool | None = None
    topic: str = ""


Figures = dict[str, list[float]]


def contest(ours: Contender, peers: Sequence[Contender], rounds: int) -> Figures:
    """The figures of every contender, round by round."""
    contenders = [ours, *peers]
    figures: Figures = {contender.name: [] for contender in contenders}
    order = random.Random(0)
    for _ in range(rounds):
        for contender in order.sample(contenders, len(contenders)):
            figures[contender.name].append(contender.measure())
    return figures


def row(
    name: str,
    unit: Unit,
    figures: Figures,
    against: Sequence[str],
    *,
    compared: str,
    ratio_min: float | None = None,
    ours_max: float | None = None,
    ours_min: float | None = None,
) -> Row:
    """Compare the first one in `figures` with the best of those named in `against`.

    The aim is a ratio to reach, or a figure of our own to reach or to stay below.
    """
    medians = {key: statistics.median(values) for key, values in figures.items()}
    ours = next(iter(figures))
    best = max(against, key=lambda key: unit.ratio(medians[key], 1))
    ratio = statistics.median(map(unit.ratio, figures[ours], figures[best]))
    aim, reached = "", None
    if ratio_min is not None:
        aim, reached = f"{ratio_min:.3g} times", ratio >= ratio_min
    elif ours_max is not None:
        aim, reached = f"{ours_max:g} {unit.name}", medians[ours] <= ours_max
    elif ours_min is not None:
        aim, reached = f"{ours_min:,g} {unit.name}", medians[ours] >= ours_min
    return Row(name, medians[ours], medians[best], best, ratio, unit.name, compared, medians, aim, reached)


@dataclass(slots=True)
class Table:
    """Everything a run found out: rows, facts that compare nothing, and notes for the reader."""

    rows: list[Row] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    topic: str = ""

    def begin(self, topic: str) -> None:
        """The rows from here on are of this topic."""
        self.end()
        self.topic = topic

    def end(self) -> None:
        """The rows that came since `begin` get their topic."""
        self.rows = [replace(one, topic=one.topic or self.topic) for one in self.rows]

    def as_json(self) -> dict[str, object]:
        return {"rows": [asdict(one) for one in self.rows], "facts": self.facts, "notes": self.notes}

    def lines(self) -> list[str]:
        """The table as text: aligned columns, then what was compared, facts and notes."""
        cells = [("", "ours", "peer", "", "ratio", "aim", "", "best peer")]
        for one in self.rows:
            reached = {True: "reached", False: "missed", None: ""}[one.reached]
            ratio = f"{one.ratio:.2f}"
            ours, peer = figure(one.ours), figure(one.peer)
            cells.append((one.name, ours, peer, one.unit, ratio, one.aim, reached, one.peer_name))
        result = [*aligned(cells, right={1, 2, 4}), "", "Compared:"]
        for one in self.rows:
            everyone = "; ".join(f"{name} {figure(value)}" for name, value in one.everyone.items())
            result += [f"  {one.name}: {one.compared}", f"    {one.unit}: {everyone}"]
        result += ["", "Facts:", *(f"  {name}: {value}" for name, value in self.facts.items())]
        result += ["", "Notes:", *(f"  {note}" for note in self.notes)]
        return result


def aligned(rows: Sequence[Sequence[str]], right: set[int]) -> list[str]:
    """Columns of equal width; those in `right` stand to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def figure(value: float) -> str:
    """Three figures that count; thousands apart."""
    if value == 0 or not math.isfinite(value):
        return str(value)
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}"
