"""The life lane: a store as it lives, with threads, signals, forks, closing and kills, again and again.

A life is a process of its own. Threads make random calls; the main thread makes them too, and is interrupted by a
signal handler that raises; it forks, and the children check that every call is refused; it closes the store in the
middle of the work, or is killed. Meanwhile the parent looks at the directory from outside. Then the parent opens the
directory and judges it. The next life goes on from there. Python switches threads far more often than usual.

A seed names a life. Threads are Python's own here, so the same seed may take several tries to show the same failure; in
`races.py` a seed shows it each time.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from flintlog.disk import DEFERRED, Disk
from flintlog.errors import ClosedError, ForkedError, LockedError
from flintlog.testing.notes import Notes
from flintlog.testing.races import Subject, judge

_THREADS = 3
_LIVES_OF_A_DIRECTORY = 4
_SECONDS = 1.5  # of a life at most
_LIFE_SECONDS_MAX = 120.0
_KINDS = {"+": "adding", "=": "added", "-": "removing", "_": "removed"}
_FAULT = "!"

Look = Callable[[str], str | None]


@dataclass
class LifeReport:
    """Totals over all lives."""

    lives: int = 0
    killed: int = 0
    forks: int = 0
    interrupts: int = 0
    looks: int = 0
    acknowledged: int = 0
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.lives} lives ({self.killed} killed), {self.acknowledged:,} changes acknowledged, "
            f"{self.forks} forks, {self.interrupts} interrupts, {self.looks} looks from outside, "
            f"{len(self.violations)} violations"
        )


def live(
    target: str,
    subject: Subject,
    *,
    seeds: Iterable[int],
    until: float | None = None,
    look: Look | None = None,
) -> LifeReport:
    """Live one life for each seed, at most until a time of `time.monotonic`; stop at the first violation.

    `target` is where the child finds the subjects: `package.module:NAME`. `look` looks at the directory from outside.
    """
    report = LifeReport()
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # lives test threads and processes, not disks
    with tempfile.TemporaryDirectory(prefix="flintlog-life-", dir=memory) as folder:
        notes = Notes()
        for at, seed in enumerate(seeds):
            if until is not None and time.monotonic() >= until:
                break
            if at % _LIVES_OF_A_DIRECTORY == 0:
                notes = Notes()
                path = str(Path(folder, str(at)))
            before = notes.acknowledged
            wrong = _one_life(target, subject, path, seed, notes, report, look)
            wrong = wrong or judge(subject, Disk(), path, notes)
            report.lives += 1
            report.acknowledged += notes.acknowledged - before
            if wrong is not None:
                report.violations.append(f"{subject.name}:seed={seed}: {wrong}")
                break
    return report


# The parent's side


def _one_life(
    target: str, subject: Subject, path: str, seed: int, notes: Notes, report: LifeReport, look: Look | None
) -> str | None:
    chance = random.Random(seed)
    start = "import sys; from flintlog.testing.life import main; main(*sys.argv[1:])"
    command = [sys.executable, "-c", start, target, subject.name, path, str(seed)]
    faults: list[str] = []
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=said, stdin=subprocess.DEVNULL, start_new_session=True
        ) as child,
    ):
        assert child.stdout is not None
        started = threading.Event()
        reader = threading.Thread(target=_read, args=(child.stdout, notes, report, faults, started))
        reader.start()
        started.wait(_LIFE_SECONDS_MAX)
        kill_at = time.monotonic() + chance.uniform(0, 0.5) if chance.random() < 0.4 else None
        wrong = _watch(child, path, kill_at, report, look)
        status = child.wait()
        reader.join(_LIFE_SECONDS_MAX)
        if reader.is_alive():
            wrong = wrong or "a forked child hangs"
            os.killpg(child.pid, signal.SIGKILL)
            reader.join()
        said.seek(0)
        words = said.read().decode(errors="replace")[-40000:]
    if wrong is not None or faults:
        return f"{wrong or faults[0]}\n{words}"
    if status == -signal.SIGKILL and kill_at is not None:
        report.killed += 1
        return None
    return None if status == 0 else f"the process ended with status {status}\n{words}"


def _watch(
    child: subprocess.Popen[bytes], path: str, kill_at: float | None, report: LifeReport, look: Look | None
) -> str | None:
    """Look at the directory until the child ends, and kill it when its time has come."""
    over = time.monotonic() + _LIFE_SECONDS_MAX
    while child.poll() is None:
        if time.monotonic() > (kill_at or over):
            child.kill()
            return None if kill_at is not None else f"the process hangs for {_LIFE_SECONDS_MAX} seconds"
        if look is not None and Path(path).is_dir():
            report.looks += 1
            if wrong := look(path):
                child.kill()
                return f"a look from outside: {wrong}"
        else:
            time.sleep(0.01)
    return None


def _read(
    pipe: IO[bytes], notes: Notes, report: LifeReport, faults: list[str], started: threading.Event
) -> None:
    for line in pipe:
        if not line.endswith(b"\n"):
            break  # killed in the middle of a line
        kind, *names = line.decode().split()
        if kind in _KINDS:
            getattr(notes, _KINDS[kind]).update(names)
        elif kind == _FAULT:
            faults.append(" ".join(names))
        elif kind == "fork":
            report.forks += 1
        elif kind == "interrupt":
            report.interrupts += 1
        started.set()
    started.set()


# The child's side


class _Interrupted(Exception):  # noqa: N818
    """Raised by the signal handler."""


class _ToldNotes(Notes):
    """Notes that are reported to the parent as they are made."""

    def __init__(self) -> None:
        super().__init__()
        self._out = sys.stdout.fileno()

    def tell(self, *words: str) -> None:
        line = memoryview(" ".join(words).encode() + b"\n")
        with DEFERRED, self._mutex:
            while line:  # a full pipe takes only a part
                line = line[os.write(self._out, line) :]

    def _note(self, which: set[str], names: Sequence[str]) -> None:
        with DEFERRED:
            super()._note(which, names)
            kind = next(kind for kind, word in _KINDS.items() if getattr(self, word) is which)
            self.tell(kind, *names)


class _Life:
    def __init__(self, subject: Subject, path: str, seed: int) -> None:
        self.subject = subject
        self.path = path
        self.chance = random.Random(seed)
        self.notes = _ToldNotes()
        self.armed = False
        self.children: list[int] = []

    def run(self) -> None:
        sys.setswitchinterval(self.chance.choice((1e-6, 1e-5, 1e-4)))
        faulthandler.dump_traceback_later(_LIFE_SECONDS_MAX, exit=True)
        signal.signal(signal.SIGALRM, self._interrupt)
        self.store = self.subject.open(Disk(), self.path)
        workers = [threading.Thread(target=self._work, args=(self.chance.random(),)) for _ in range(_THREADS)]
        for worker in workers:
            worker.start()
        end = time.monotonic() + self.chance.uniform(0, _SECONDS)
        forks = self.chance.randrange(3)
        while time.monotonic() < end:
            self._call_interrupted()
            if len(self.children) < forks and self.chance.random() < 0.1:
                self._fork()
        signal.setitimer(signal.ITIMER_REAL, 0)  # a process that ends has no handler
        self.store.close()
        for worker in workers:
            worker.join()
        self._open_beside_children()
        for child in self.children:
            self._end(child)

    def _work(self, seed: float) -> None:
        chance = random.Random(seed)
        try:
            while True:
                self._call(chance)
        except ClosedError:
            return
        except BaseException:
            self._tell_fault()

    def _call(self, chance: random.Random) -> None:
        name = chance.choice(sorted(self.subject.operations))
        self.subject.operations[name](self.store, self.notes, chance)

    def _tell_fault(self) -> None:
        traceback.print_exc()
        self.notes.tell(_FAULT, *traceback.format_exc().splitlines()[-1].split())

    # Signals

    def _interrupt(self, *_: object) -> None:
        if self.armed:
            self.armed = False
            raise _Interrupted

    def _call_interrupted(self) -> None:
        try:
            self.armed = True
            signal.setitimer(signal.ITIMER_REAL, self.chance.choice((1e-5, 1e-4, 1e-3, 5e-3)))
            self._call(self.chance)
            self.armed = False
        except _Interrupted:
            self.notes.tell("interrupt")

    # Forks

    def _fork(self) -> None:
        self.notes.tell("fork")
        child = os.fork()
        if child:
            self.children.append(child)
            with contextlib.suppress(LockedError):
                self.subject.open(Disk(), self.path).close()
                raise AssertionError("a forked child took the lock away")
            return
        status = 1
        try:
            self._be_a_child()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    def _be_a_child(self) -> None:
        for name, operation in self.subject.operations.items():
            with contextlib.suppress(ForkedError):
                operation(self.store, Notes(), self.chance)
                raise AssertionError(f"{name} was not refused in a forked child")
        self.store.close()
        if self.chance.random() < 0.5:
            time.sleep(0.3)  # it outlives the parent's close

    def _open_beside_children(self) -> None:
        """Open the directory while forked children live: the lock is the parent's alone, so it is free."""
        self.subject.open(Disk(), self.path).close()

    def _end(self, child: int) -> None:
        _, status = os.waitpid(child, 0)
        if status:
            self.notes.tell(_FAULT, "a forked child failed")


def subjects_at(target: str) -> tuple[Subject, ...]:
    """The subjects at `package.module:NAME`."""
    module, _, name = target.partition(":")
    found: tuple[Subject, ...] = getattr(importlib.import_module(module), name or "SUBJECTS")
    return found


def main(target: str, name: str, path: str, seed: str) -> None:
    """One life, as the parent starts it."""
    sys.path.insert(0, "")
    [subject] = [subject for subject in subjects_at(target) if subject.name == name]
    life: Any = _Life(subject, path, int(seed))
    try:
        life.run()
    except BaseException:
        life._tell_fault()
        os._exit(1)  # running threads would keep the process alive
