"""The damage lane: whole files emptied, zeroed, swapped, copied, removed, cut; bytes flipped; then every verb is asked.

A store makes a directory and closes it, or its process is killed; then a seed decides how the directory is spoiled.
Verify, state, dump, opening, repair and its undo must agree about it:

- *clean*: it opens, can be read, and there is nothing to repair;
- *repairable*: it opens, or `repair` makes it open, and the plan loses nothing;
- *corrupt* or *unsupported*: it does not open, and the plan names a loss or refuses. After as many repairs as it takes
  it opens and is clean, or the next one is refused.

Opening that refuses changes no byte. No entry is invented. Undo is exact. Every error is a `FlintlogError`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from flintlog.core.kept import KEPT_DIRECTORY
from flintlog.core.log import Log, open_log
from flintlog.core.plan import Plan
from flintlog.core.rounds import repair
from flintlog.disk import Disk
from flintlog.errors import FlintlogError, NotALogError, UsageError
from flintlog.testing.device import ROOT, State
from flintlog.testing.kernel import MemoryKernel
from flintlog.testing.notes import Notes
from flintlog.testing.races import PATH, Subject

Content = dict[str, bytes]
_WHOLE_FILES = ("emptied", "zeroed", "removed", "swapped", "copied", "cut")
_BYTES = ("flipped", "sector", "appended")
_SECTOR = 512
_REPAIRS_MAX = 8


@dataclass
class DamageReport:
    """Totals over all directories."""

    directories: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)
    repaired: int = 0
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        told = ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(self.verdicts.items()))
        return (
            f"{self.directories:,} damaged directories ({told}), {self.repaired:,} repaired and taken back, "
            f"{len(self.violations)} violations"
        )


def explore_damage(subject: Subject, *, seeds: Iterable[int], most: int = 5) -> DamageReport:
    """Spoil one directory for each seed, and ask the verbs about it."""
    report = DamageReport()
    for seed in seeds:
        made = Spoiled(subject, seed)
        report.directories += 1
        for wrong in made.contradictions(report):
            report.violations.append(f"{subject.name}:{made.what}:seed={seed}: {wrong}")
            break
        if len(report.violations) >= most:
            break
    return report


class Spoiled:
    """One spoiled directory."""

    def __init__(self, subject: Subject, seed: int) -> None:
        chance = random.Random(seed)
        self._subject = subject
        self._notes = Notes()
        kernel = MemoryKernel()
        store = subject.open(Disk(kernel), PATH)
        names = sorted(subject.operations)
        for name in names + chance.choices(names, k=chance.randrange(8)):
            subject.operations[name](store, self._notes, chance)
        if chance.random() < 0.7:
            store.close()
        kernel.kill_processes()
        self._state = kernel.visible()
        self.whole_files = chance.random() < 0.7
        self.what = ", ".join(self._spoil(chance) for _ in range(chance.choice((1, 1, 1, 2))))

    # Spoiling

    def _spoil(self, chance: random.Random) -> str:
        files = dict(_files(self._state, ROOT, ""))
        path = chance.choice(sorted(files))
        other = chance.choice(sorted(files))
        kind = chance.choice(_WHOLE_FILES if self.whole_files else _BYTES)
        content = dict(self._state.files)
        inode, data = files[path], self._state.files[files[path]]
        match kind:
            case "emptied":
                content[inode] = b""
            case "zeroed":
                content[inode] = bytes(len(data))
            case "removed":
                self._state = State(content, _without(self._state.names, inode))
                return f"{path} removed"
            case "swapped":
                content[inode], content[files[other]] = self._state.files[files[other]], data
                kind = f"swapped with {other}"
            case "copied":
                content[inode] = self._state.files[files[other]]
                kind = f"is a copy of {other}"
            case "cut":
                at = chance.randrange(len(data) + 1)
                content[inode] = data[:at]
                kind = f"cut at {at}"
            case "flipped":
                at = chance.randrange(max(len(data), 1))
                flipped = bytes(byte ^ (1 << chance.randrange(8)) for byte in data[at : at + 1])
                content[inode] = data[:at] + flipped + data[at + 1 :]
                kind = f"flipped at {at}"
            case "sector":
                at = chance.randrange(max(len(data), 1)) // _SECTOR * _SECTOR
                content[inode] = data[:at] + bytes(len(data[at : at + _SECTOR])) + data[at + _SECTOR :]
                kind = f"zeroed from {at} to {at + _SECTOR}"
            case "appended":
                content[inode] = data + chance.randbytes(chance.randrange(1, 40))
        self._state = State(content, self._state.names)
        return f"{path} {kind}"

    def _machine(self) -> MemoryKernel:
        return MemoryKernel(self._state)

    # Asking

    def contradictions(self, report: DamageReport) -> Iterator[str]:
        disk = Disk(self._machine())
        try:
            log = open_log(PATH, disk=disk)
        except NotALogError:
            report.verdicts["not recognised"] = report.verdicts.get("not recognised", 0) + 1
            return
        verdict = self._verdict(log)
        report.verdicts[verdict] = report.verdicts.get(verdict, 0) + 1
        yield from self._fault(verdict)
        state = _outcome(lambda: list(log.state()))
        dumped = _outcome(lambda: list(log.entries()))
        plan = _outcome(log.plan_repair)
        for each in (state, dumped, plan):
            yield from self._fault(each)
        opened = yield from self._opened()
        found = plan if isinstance(plan, Plan) else None
        lost = found is not None and (bool(found.lost) or found.refusal is not None)
        if verdict == "clean":
            if not opened:
                yield "verify says clean, and it does not open"
            if isinstance(state, str) or isinstance(dumped, str):
                yield f"verify says clean; state: {_told(state)}, dump: {_told(dumped)}"
            if found is None or found.steps or lost:
                yield f"verify says clean, and repair: {_told(plan)}"
            return
        if verdict == "repairable" and (found is None or lost):
            yield f"verify says repairable, and repair: {_told(plan)}"
        if verdict in ("corrupt", "unsupported"):
            if opened:
                yield f"verify says {verdict}, and it opens"
            if found is not None and not lost:
                yield f"verify says {verdict}, and repair loses nothing"
        if found is not None and found.steps:
            yield from self._repaired(log, report)
        elif verdict == "repairable" and not opened:
            yield "verify says repairable, it does not open, and repair does nothing"

    def _verdict(self, log: Log) -> str:
        found = _outcome(log.verify)
        if isinstance(found, str):
            return found if found.startswith(_FAULT) else "corrupt"
        return str(found.verdict)

    def _fault(self, outcome: object) -> Iterator[str]:
        if isinstance(outcome, str) and outcome.startswith(_FAULT):
            yield outcome

    def _opened(self) -> Generator[str, None, bool]:
        kernel = self._machine()
        before = _content(kernel)
        opened = _outcome(lambda: self._subject.open(Disk(kernel), PATH).close())
        yield from self._fault(opened)
        if isinstance(opened, str):
            if _content(kernel) != before:
                yield f"opening refuses and changes {_differing(before, _content(kernel))}"
            return False
        found = _outcome(lambda: self._items(Disk(kernel)))  # some damage shows only when it is read
        yield from self._fault(found)
        if isinstance(found, str):
            return False
        yield from self._invented(found, "opening")
        return True

    def _repaired(self, damaged: Log, report: DamageReport) -> Iterator[str]:
        kernel = self._machine()
        log = damaged.at(Disk(kernel))
        before = _content(kernel)
        plan: Plan | None = log.plan_repair()
        repairs = 0
        while plan is not None and plan.steps and repairs < _REPAIRS_MAX:
            done = _outcome(partial(repair, log, plan))
            yield from self._fault(done)
            if isinstance(done, str):
                if not repairs and _content(kernel) != before:
                    yield f"a repair that was refused ({done}) changed {_differing(before, _content(kernel))}"
                yield f"repair plans what it cannot do: {done}"
                break
            repairs += 1
            plan = done.further  # a person may decide to lose this
        if not repairs:
            return
        report.repaired += 1
        after = MemoryKernel(kernel.visible())
        verdict = self._verdict(log.at(Disk(after)))
        found = _outcome(lambda: self._items(Disk(after)))
        if isinstance(found, str):
            if plan is None or plan.refusal is None:
                yield f"repaired, {verdict}, and it does not open: {found}"
        else:
            yield from self._invented(found, "repair")
        if plan is not None and not plan.steps and plan.refusal is None:
            yield f"repaired, {verdict}, and repair has nothing more to do"
        for _ in range(repairs):
            undone = _outcome(lambda: log.plan_undo().apply())
            if isinstance(undone, str) and undone.startswith((_FAULT, _REFUSED)):
                yield f"undo: {undone}"
        if _content(kernel) != before:
            yield f"undo leaves {_differing(before, _content(kernel))} changed"

    def _items(self, disk: Disk) -> list[str]:
        store = self._subject.open(disk, PATH)
        try:
            return list(self._subject.items(store))
        finally:
            store.close()

    def _invented(self, items: list[str], who: str) -> Iterator[str]:
        """Say which things were never put in, unless bytes inside a file changed: a format need not notice that."""
        strange = set(items) - self._notes.adding
        if self.whole_files and strange:
            yield f"{who} invents {len(strange)} things, one is {min(strange)!r}"


_FAULT = "fault: "
_REFUSED = "refused: "


def _outcome(act: Callable[[], Any]) -> Any:
    """The result of a call, or a string that says how it failed."""
    try:
        return act()
    except FlintlogError as error:
        return f"{_REFUSED}{error}"
    except Exception as error:
        return f"{_FAULT}{error!r}"


def _told(outcome: object) -> str:
    if isinstance(outcome, Plan):
        return f"{len(outcome.steps)} steps, lost {list(outcome.lost)}, refusal {outcome.refusal}"
    return outcome if isinstance(outcome, str) else "read"


def _files(state: State, inode: int, path: str) -> Iterator[tuple[str, int]]:
    for name, inner in state.names[inode].items():
        place = f"{path}/{name}"
        if inner in state.names:
            if name != KEPT_DIRECTORY:
                yield from _files(state, inner, place)
        else:
            yield place, inner


def _content(kernel: MemoryKernel) -> Content:
    """The content of every file outside `kept/`."""
    state = kernel.visible()
    return {path: state.files[inode] for path, inode in _files(state, ROOT, "")}


def _without(names: Mapping[int, Mapping[str, int]], gone: int) -> dict[int, dict[str, int]]:
    return {
        folder: {name: inode for name, inode in inside.items() if inode != gone}
        for folder, inside in names.items()
    }


def _differing(before: Content, after: Content) -> str:
    changed = [path for path in sorted({*before, *after}) if before.get(path) != after.get(path)]
    return ", ".join(changed[:3])


def spoil_again(subjects: Iterable[Subject], line: str) -> list[str]:
    """Spoil the directory of one line of a failure again; what is wrong with it now."""
    name, _, rest = line.partition(":")
    seed = rest.rpartition("seed=")[2].partition(":")[0]
    for subject in subjects:
        if subject.name == name and seed.isdecimal():
            return list(Spoiled(subject, int(seed)).contradictions(DamageReport()))
    raise UsageError(f"{line!r} tells no directory", advice="Give a line as it was printed")
