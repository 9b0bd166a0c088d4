"""Error injection: call N of a scenario fails, for every N and every way it can fail.

| fault | what the call does | what the store owes |
|---|---|---|
| `EIO`, `ENOSPC` | nothing, and raises | a FlintlogError; after a failed change it refuses all further work |
| `full` | half of a write arrives, the next write raises ENOSPC | the same |
| `short` | half of a write arrives and its size is returned | nothing is noticed |
| `EINTR` | raises InterruptedError once | nothing is noticed |

Then every call works again, and the kit opens the directory three times: in a new process on the living system, after a
power failure that lost everything pending, and after one that lost nothing. Nothing acknowledged may be missing.
"""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from flintlog.disk import Disk, KernelInFront
from flintlog.errors import ClosedError, FlintlogError, StoppedError, UsageError
from flintlog.testing.crash import KEPT, LOST, Image
from flintlog.testing.examine import BrokenPromiseError, Examiner, Expectation
from flintlog.testing.explore import Violation, image_key
from flintlog.testing.kernel import MemoryKernel
from flintlog.testing.oracle import History, Oracle, Scenario
from flintlog.testing.sites import Sites

T = TypeVar("T")

_CHANGES = frozenset(
    {"pwrite", "truncate", "sync", "mkdir", "rename", "link", "unlink", "rmdir", "sync_directory"}
)
_NEEDS_SPACE = _CHANGES | {"create"}
_INTERRUPTIBLE = frozenset(
    {"open", "create", "pread", "pwrite", "truncate", "sync", "sync_directory", "lock"}
)
_UNNOTICED = frozenset({"short", "EINTR"})
_LINE = re.compile(r"(.+):fault=(\d+):(EIO|ENOSPC|EINTR|short|full)")


@dataclass(frozen=True, slots=True)
class Fault:
    """The call with this number, from 1, fails in this way."""

    call: int
    kind: str

    def __str__(self) -> str:
        return f"fault={self.call}:{self.kind}"


@dataclass(frozen=True)
class FaultReport:
    """Totals of an injection."""

    scenario: str
    calls: int
    faults: int
    seconds: float
    violations: tuple[Violation, ...]

    def __str__(self) -> str:
        return (
            f"{self.scenario}: {self.calls} calls, {self.faults} faults, "
            f"{len(self.violations)} violations, {self.seconds:.1f} s"
        )

    def explain(self, target: str) -> str:
        """The violations, each with the command that shows it."""
        return "\n".join(f"{violation}\n    {violation.command(target)}" for violation in self.violations)


def _counted(call: str, name: str | None = None) -> Any:
    """Make a method that calls the kernel behind, unless this call is the one to fail; `name` is how it is counted."""
    return lambda self, *arguments: self._do(name or call, getattr(self._kernel, call), *arguments)


class FaultyKernel(KernelInFront):
    """Hands every call on to a kernel in memory, but for the one that fails."""

    def __init__(self, kernel: MemoryKernel, fault: Fault | None = None) -> None:
        super().__init__(kernel)
        self._fault = fault
        self._full = False
        self.calls: list[str] = []
        """The name of each call; an `open` that makes its file is `create`, a one-byte write `pwrite1`."""

    def heal(self) -> None:
        """Let every call work from now on."""
        self._fault = None
        self._full = False

    @property
    def failed(self) -> str | None:
        """The call that failed; None when it was not reached."""
        if self._fault is None or len(self.calls) < self._fault.call:
            return None
        return self.calls[self._fault.call - 1]

    def open(self, path: str, flags: int) -> int:
        name = "open" if self._exists(path) else "create"
        return self._do(name, self._kernel.open, path, flags)

    def pwrite(self, handle: int, data: memoryview, offset: int) -> int:
        if self._full:
            self._full = False
            raise OSError(errno.ENOSPC, "no space left behind the first half of a write")
        hit = self._fault is not None and self._fault.call == len(self.calls) + 1
        if hit and self._fault is not None and self._fault.kind in ("short", "full"):
            self.calls.append("pwrite")
            self._full = self._fault.kind == "full"
            return self._kernel.pwrite(handle, data[: len(data) // 2], offset)
        return self._do("pwrite" if len(data) > 1 else "pwrite1", self._kernel.pwrite, handle, data, offset)

    close = _counted("close")
    pread = _counted("pread")
    truncate = _counted("truncate")
    sync = _counted("sync")
    map = _counted("map")
    map_range = _counted("map_range", "map")
    lock = _counted("lock")
    stat_handle = _counted("stat_handle", "stat")
    stat = _counted("stat")
    list = _counted("list")
    mkdir = _counted("mkdir")
    rename = _counted("rename")
    link = _counted("link")
    unlink = _counted("unlink")
    rmdir = _counted("rmdir")
    sync_directory = _counted("sync_directory")

    def _exists(self, path: str) -> bool:
        try:
            self._kernel.stat(path)
        except OSError:
            return False
        return True

    def _do(self, name: str, call: Callable[..., T], *arguments: object) -> T:
        self.calls.append(name)
        if self._fault is not None and self._fault.call == len(self.calls):
            number = getattr(errno, self._fault.kind)
            raise OSError(number, f"injected {self._fault.kind}")
        return call(*arguments)


def faults_of(calls: list[str]) -> Iterator[Fault]:
    """Every fault that these calls can have."""
    for number, name in enumerate(calls, 1):
        plain = name.removesuffix("1")
        yield Fault(number, "EIO")
        if plain in _NEEDS_SPACE:
            yield Fault(number, "ENOSPC")
        if plain in _INTERRUPTIBLE:
            yield Fault(number, "EINTR")
        if name == "pwrite":
            yield Fault(number, "short")
            yield Fault(number, "full")


def inject_everywhere(
    scenario: Scenario[Any], oracle: Oracle[Any, Any], *, part: tuple[int, int] = (0, 1)
) -> FaultReport:
    """Run the scenario once for each fault of each of its calls, and judge each run.

    Pass `part=(i, n)` to make only every n-th of these runs.
    """
    started = time.perf_counter()
    clean = _Run(scenario, None)
    clean.go()
    examiner = Examiner(oracle, sites=Sites(scenario.packages), nested=False)
    faults = list(faults_of(clean.kernel.calls))[part[0] :: part[1]]
    violations = []
    for fault in faults:
        try:
            examine_fault(scenario, fault, examiner)
        except BrokenPromiseError as broken:
            violations.append(Violation(f"{scenario.name}:{fault}", broken.promise, broken.detail))
    seconds = time.perf_counter() - started
    return FaultReport(scenario.name, len(clean.kernel.calls), len(faults), seconds, tuple(violations))


def fault(line: str) -> tuple[str, Fault]:
    """The scenario and the fault that a line like `append:fault=17:EIO` names."""
    found = _LINE.fullmatch(line)
    if found is None:
        raise UsageError(f"{line!r} does not name a fault", advice="It looks like append:fault=17:EIO")
    return found[1], Fault(int(found[2]), found[3])


def examine_fault(scenario: Scenario[Any], fault: Fault, examiner: Examiner) -> None:
    """Raise `BrokenPromiseError` when this fault breaks a promise."""
    run = _Run(scenario, fault)
    raised = run.go()
    name = run.kernel.failed or "a call that was not reached"
    if raised is not None and not isinstance(raised, FlintlogError):
        raise BrokenPromiseError("one error tree", f"{name} failed, {_told(raised)} was raised") from raised
    if fault.kind in _UNNOTICED and raised is not None:
        raise BrokenPromiseError(
            "unnoticed", f"{name} had {fault.kind}, {_told(raised)} was raised"
        ) from raised
    if fault.kind not in _UNNOTICED and raised is None and name not in scenario.tolerated:
        raise BrokenPromiseError("fail-stop", f"{name} failed with {fault.kind} and no error was raised")
    run.kernel.heal()
    if raised is not None and name.removesuffix("1") in _CHANGES:
        run.probe(name)
    _reopen(run, examiner)


class _Run:
    """A scenario run on a kernel with one fault."""

    def __init__(self, scenario: Scenario[Any], fault: Fault | None) -> None:
        self.scenario = scenario
        state, self.history = scenario.prepared()
        self.memory = MemoryKernel(state, sites=Sites(scenario.packages))
        self.kernel = FaultyKernel(self.memory, fault)

    def go(self) -> Exception | None:
        # Stores that `prepare` opened are closed, and not of this run.
        self.history.opened()
        try:
            self.scenario.run(Disk(self.kernel), self.history)
        except Exception as error:
            if self.kernel.failed is None:
                raise  # not a FlintlogError: the scenario itself is wrong
            return error
        return None

    def probe(self, failed: str) -> None:
        """Check that every operation refuses and changes nothing."""
        before = len(self.memory.log)
        for operation in self.history.probes:
            try:
                operation()
            except (StoppedError, ClosedError):
                continue
            except Exception as error:
                raise BrokenPromiseError("fail-stop", f"after {failed} failed, {_told(error)}") from error
            raise BrokenPromiseError("fail-stop", f"{failed} failed, and a later operation was accepted")
        if len(self.memory.log) > before:
            raise BrokenPromiseError("fail-stop", f"{failed} failed, then: {self.memory.log[before]}")


def _reopen(run: _Run, examiner: Examiner) -> None:
    history: History[Any] = run.history
    expectation = Expectation(history.issued(), history.acknowledged())
    device = run.memory.device()
    durable, pending = device.durable(), device.pending()
    fates = [Image(run.scenario.name, len(run.memory.log), LOST, LOST, durable)]
    if pending:
        fates.append(Image(run.scenario.name, len(run.memory.log), KEPT, KEPT, device.visible()))
        fates.append(Image(run.scenario.name, len(run.memory.log), KEPT, KEPT, durable, pending))
    for image in fates:
        examiner.examine(image, image_key(image), expectation)


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
