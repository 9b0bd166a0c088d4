"""The second lane: a real process on a real directory, killed at a random moment, again and again.

The crash images show what a power failure may leave; this shows that the kit assumes nothing false about the system.
The child works under load and reports on its standard output what it issues and what is acknowledged. The parent kills
it, recovers the directory and checks it; the next child goes on from there.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, TypeVar

Observed = TypeVar("Observed")

_ISSUED = b"+"
_ACKNOWLEDGED = b"="


class Reporter:
    """The child's side. One line per item, so an item holds no line break; threads may share one reporter."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()

    def issue(self, item: str) -> None:
        """Report to the parent, right before you call the operation."""
        self._tell(_ISSUED, item)

    def acknowledge(self, item: str) -> None:
        """Report to the parent, right after it returned."""
        self._tell(_ACKNOWLEDGED, item)

    def _tell(self, kind: bytes, item: str) -> None:
        with self._mutex:
            sys.stdout.buffer.write(kind + item.encode() + b"\n")
            sys.stdout.buffer.flush()


@dataclass(frozen=True)
class KillReport:
    """Totals over all rounds."""

    rounds: int
    issued: int
    acknowledged: int
    violations: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.rounds} processes killed, {self.issued} items issued, "
            f"{self.acknowledged} acknowledged, {len(self.violations)} violations"
        )


def kill_rounds(
    module: str,
    arguments: Sequence[str],
    *,
    recover: Callable[[], Observed],
    check: Callable[[Observed, Sequence[str], Sequence[str]], str | None],
    rounds: int,
    seed: int = 0,
    delay_seconds_max: float = 0.3,
    start_seconds_max: float = 60.0,
) -> KillReport:
    """Run `python -m module arguments` and kill it, `rounds` times on one directory; stop at a violation.

    `recover` opens the directory in this process and returns what is there; `check` gets that with everything
    issued and acknowledged since the first round. The delay counts from the child's first line.
    """
    chance = random.Random(seed)
    issued: list[str] = []
    acknowledged: list[str] = []
    for done in range(1, rounds + 1):
        delay = chance.uniform(0, delay_seconds_max)
        wrong = _one_life(
            [sys.executable, "-m", module, *arguments], delay, start_seconds_max, issued, acknowledged
        )
        wrong = wrong or check(recover(), issued, acknowledged)
        if wrong:
            told = f"round {done}, seed {seed}, killed after {delay:.3f} s: {wrong}"
            return KillReport(done, len(issued), len(acknowledged), (told,))
    return KillReport(rounds, len(issued), len(acknowledged), ())


def nothing_lost_nothing_invented(
    observed: Sequence[str], issued: Sequence[str], acknowledged: Sequence[str]
) -> str | None:
    """A `check` for stores that only grow: all that was acknowledged, nothing that was not issued, nothing twice."""
    there = set(observed)
    if missing := [item for item in acknowledged if item not in there]:
        return f"{len(missing)} acknowledged items are gone, the first is {missing[0]!r}"
    if invented := there.difference(issued):
        return f"{len(invented)} items were never issued, one is {min(invented)!r}"
    if len(there) < len(observed):
        return f"{len(observed) - len(there)} items are there twice"
    return None


def _one_life(
    command: list[str], delay: float, start_seconds_max: float, issued: list[str], acknowledged: list[str]
) -> str | None:
    started = threading.Event()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as child:
        assert child.stdout is not None
        reader = threading.Thread(target=_read, args=(child.stdout, started, issued, acknowledged))
        reader.start()
        spoke = started.wait(start_seconds_max)
        if spoke:
            time.sleep(delay)
        child.kill()
        reader.join()
        status = child.wait()
    if not spoke:
        return f"the process said nothing for {start_seconds_max} seconds"
    if status != -signal.SIGKILL:
        return f"the process ended by itself, with status {status}"
    return None


def _read(pipe: IO[bytes], started: threading.Event, issued: list[str], acknowledged: list[str]) -> None:
    for line in pipe:
        if not line.endswith(b"\n"):
            break  # killed in the middle of a line
        item = line[1:-1].decode()
        if line.startswith(_ISSUED):
            issued.append(item)
        elif line.startswith(_ACKNOWLEDGED):
            acknowledged.append(item)
        started.set()
    started.set()
