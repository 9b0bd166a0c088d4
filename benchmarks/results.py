"""Results that stay: the figures of the last runs of each row, from which `make docs` writes docs/performance.md."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.table import Row, Table

RUNS_MAX = 3
ORDER = ("taskflux", "zmqraft", "mpy6a", "limestone", "spark")


@dataclass(frozen=True, slots=True)
class Run:
    """What one run found for a row."""

    ours: float
    peer: float
    peer_name: str
    ratio: float
    reached: bool | None


@dataclass(slots=True)
class Result:
    """A row with its last runs, the newest last."""

    topic: str
    name: str
    unit: str
    aim: str
    compared: str
    runs: list[Run] = field(default_factory=list)


@dataclass(slots=True)
class Results:
    """All rows, and what stands beside them."""

    facts: dict[str, str] = field(default_factory=dict)
    rows: list[Result] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Results:
        """What a file holds; nothing where there is none."""
        if not path.exists():
            return cls()
        found = json.loads(path.read_text(encoding="utf-8"))
        rows = [Result(**{**one, "runs": [Run(**run) for run in one["runs"]]}) for one in found["rows"]]
        return cls(found["facts"], rows)

    def add(self, table: Table) -> None:
        """Add the rows of a run. Rows that their topic no longer gives go."""
        self.facts |= table.facts
        topics = {one.topic for one in table.rows}
        before = {(one.topic, one.name): one for one in self.rows if one.topic in topics}
        now = [_result(one, before.get((one.topic, one.name))) for one in table.rows]
        self.rows = sorted([one for one in self.rows if one.topic not in topics] + now, key=_dialect)

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def _result(row: Row, before: Result | None) -> Result:
    run = Run(_short(row.ours), _short(row.peer), row.peer_name, _short(row.ratio), row.reached)
    same = before is not None and (before.unit, before.aim) == (row.unit, row.aim)
    earlier = before.runs if before is not None and same else []
    return Result(row.topic, row.name, row.unit, row.aim, row.compared, [*earlier, run][-RUNS_MAX:])


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def _dialect(result: Result) -> int:
    return ORDER.index(result.topic.partition("/")[0])
