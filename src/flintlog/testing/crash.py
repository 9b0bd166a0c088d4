"""Crash images: every file system a crash may leave behind, at every call of a recorded scenario.

An image is named by one line, and that line makes it again:

    append:call=17:data=torn[16]@133:names=lost[12]
    append:call=17:process

`call=17` is the moment after the 17th call. `data` and `names` say what became of the calls pending then:

| pick | meaning |
|---|---|
| `kept`, `lost` | all pending calls arrived; none did |
| `kept[9]`, `lost[9]` | only call 9 arrived; all but call 9 did |
| `torn[9]@133` | of write 9 the first 133 bytes arrived, of the others everything |
| `only[9]@133` | of write 9 the first 133 bytes arrived, of the others nothing |
| `zero[9]@512` | as torn, but the file has its new length and reads zero behind byte 512 of the write |
| `zero` | files have their new lengths, no byte of the pending writes arrived |
| `hole[9]@4096` | of write 9 everything arrived but the page at its byte 4096 |

`process` is a crash of the process alone: the system lives, shows everything, and made nothing durable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from flintlog.errors import UsageError
from flintlog.testing.calls import Call, DataCall, Extend, Leave, Names, Write
from flintlog.testing.device import Device, State, applied
from flintlog.testing.oracle import Recording, Scenario

SECTOR_BYTES = 512
PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Pick:
    """What became of the pending calls of one kind."""

    kind: str
    call: int | None = None
    at: int | None = None

    def __str__(self) -> str:
        call = "" if self.call is None else f"[{self.call}]"
        return f"{self.kind}{call}" if self.at is None else f"{self.kind}{call}@{self.at}"


KEPT = Pick("kept")
LOST = Pick("lost")
_PICK = r"(kept|lost|torn|only|zero|hole)(?:\[(\d+)\])?(?:@(\d+))?"
_IMAGE = re.compile(rf"(.+):call=(\d+):(?:(process)|data={_PICK}:names={_PICK})")


@dataclass(frozen=True, slots=True)
class Image:
    """One crash: when it came, what it left. `pending` is empty unless the system lived on."""

    scenario: str
    call: int
    data: Pick
    names: Pick
    state: State
    pending: tuple[Call, ...] = ()

    def __str__(self) -> str:
        what = "process" if self.pending else f"data={self.data}:names={self.names}"
        return f"{self.scenario}:call={self.call}:{what}"


def images(recording: Recording[Any], *, torn_bytes: int = PAGE_BYTES) -> Iterator[Image]:
    """Every image of a scenario, call by call. Many are equal; see `State.digest`.

    It tears writes at each of their first `torn_bytes` bytes and at sector boundaries behind them; with 0 only once, in
    the middle, for a coarse look.
    """
    device = Device(recording.base)
    for call in range(len(recording.log) + 1):
        if call:
            device.take(call, recording.log[call - 1])
        yield from _images_now(recording.scenario, call, device, torn_bytes)


def image(recording: Recording[Any], line: str) -> Image:
    """The image with this line."""
    found = _IMAGE.fullmatch(line)
    if found is None:
        raise UsageError(
            f"{line!r} does not name a crash image", advice="See flintlog.testing.crash for the form"
        )
    name, number, process, *rest = found.groups()
    call = int(number)
    if name != recording.scenario.name or call > len(recording.log):
        raise UsageError(
            f"{line!r} is not an image of {recording.scenario.name} ({len(recording.log)} calls)"
        )
    device = Device(recording.base)
    device.take_all(recording.log[:call])
    if process:
        return Image(name, call, KEPT, KEPT, device.durable(), device.pending())
    data, names = _pick(rest[:3]), _pick(rest[3:])
    held = State(_Files(device).picked(data), _names(device, names))
    return Image(name, call, data, names, held)


def _pick(groups: list[str | None]) -> Pick:
    kind, call, at = groups
    return Pick(str(kind), int(call) if call else None, int(at) if at else None)


def _images_now(held_by: Scenario[Any], call: int, device: Device, torn_bytes: int) -> Iterator[Image]:
    scenario = held_by.name
    files = _Files(device)
    names = {pick: _names(device, pick) for pick in _name_picks(device)}
    whole = [LOST, KEPT] if device.pending_data else [KEPT]
    for data in whole:
        held = files.picked(data)
        for pick, tree in names.items():
            yield Image(scenario, call, data, pick, State(held, tree))
    ends = {pick: tree for pick, tree in names.items() if pick.call is None}
    for data in _data_picks(device, torn_bytes, held_by.atomic_bytes):
        held = files.picked(data)
        for pick, tree in ends.items():
            yield Image(scenario, call, data, pick, State(held, tree))
    if device.pending_data or device.pending_names:
        yield Image(scenario, call, KEPT, KEPT, device.durable(), device.pending())


def _name_picks(device: Device) -> Iterator[Pick]:
    yield KEPT
    pending = device.pending_names
    if pending:
        yield LOST
    if len(pending) > 1:
        for call in pending:
            yield Pick("lost", call)
            yield Pick("kept", call)


def _data_picks(device: Device, torn_bytes: int, atomic_bytes: int) -> Iterator[Pick]:
    """The picks that treat one write differently; not all lost and all kept."""
    pending = device.pending_data
    writes = {call: op for call, op in pending.items() if isinstance(op, Write)}
    if len(pending) > 1:
        for call in pending:
            yield Pick("lost", call)
            yield Pick("kept", call)
    if not writes:
        return
    yield Pick("zero")
    newest = max(writes)
    for call, write in writes.items():
        yield Pick("zero", call, 0)
        if call != newest:  # a later write to the same file may arrive while this one has holes
            for at in _sectors(write, PAGE_BYTES):
                yield Pick("zero", call, at)
    if torn_bytes:
        yield from _tears(newest, writes[newest], torn_bytes, atomic_bytes, alone=len(pending) == 1)
    else:
        middle = len(writes[newest].data) // 2
        middle -= (writes[newest].offset + middle) % atomic_bytes
        if middle > 0:
            yield Pick("torn", newest, middle)


def _tears(call: int, write: Write, torn_bytes: int, atomic_bytes: int, *, alone: bool) -> Iterator[Pick]:
    size = len(write.data)
    for at in range(-write.offset % atomic_bytes or atomic_bytes, min(size, torn_bytes), atomic_bytes):
        yield Pick("torn", call, at)
        if not alone:
            yield Pick("only", call, at)
    for at in _sectors(write, size):
        if at >= torn_bytes:
            yield Pick("torn", call, at)
        yield Pick("zero", call, at)
    if size > PAGE_BYTES:
        pages = range(-write.offset % PAGE_BYTES, size, PAGE_BYTES)
        for at in sorted({0, pages[0], pages[len(pages) // 2]}):
            yield Pick("hole", call, at)


def _sectors(write: Write, upto: int) -> range:
    """Where sectors of the device begin inside a write."""
    first = -write.offset % SECTOR_BYTES or SECTOR_BYTES
    return range(first, min(len(write.data), upto), SECTOR_BYTES)


class _Files:
    """Contents for each pick at one moment; files that no pick touches are shared."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._kept = device.files_with_all()

    def picked(self, pick: Pick) -> dict[int, bytes]:
        if pick == KEPT:
            return self._kept
        if pick == LOST:
            return dict(self._device.files)
        if pick.call is None:
            return self._only_lengths()
        call = self._device.pending_data.get(pick.call)
        if call is None:
            raise UsageError(f"call {pick.call} is no pending write or truncate there")
        if pick.kind == "kept":
            return {**self._device.files, call.inode: applied(self._device.files[call.inode], [call])}
        if pick.kind == "only":
            arrived = applied(self._device.files[call.inode], _arrived(call, pick))
            return {**self._device.files, call.inode: arrived}
        return {**self._kept, call.inode: self._with_one_changed(call, pick)}

    def _with_one_changed(self, changed: DataCall, pick: Pick) -> bytes:
        calls: list[DataCall | Extend] = []
        for call in self._device.pending_data.values():
            if call is changed:
                calls.extend(_arrived(call, pick))
            elif call.inode == changed.inode:
                calls.append(call)
        return applied(self._device.files[changed.inode], calls)

    def _only_lengths(self) -> dict[int, bytes]:
        files = dict(self._device.files)
        for call in self._device.pending_data.values():
            arrived = Extend(call.inode, call.end) if isinstance(call, Write) else call
            files[call.inode] = applied(files[call.inode], [arrived])
        return files


def _arrived(call: DataCall, pick: Pick) -> list[DataCall | Extend]:
    """The part of one call that reached the device."""
    if pick.kind == "lost":
        return []
    if not isinstance(call, Write) or pick.at is None:
        raise UsageError(f"{pick} needs a write and a place in it")
    head = Write(call.path, call.inode, call.offset, call.data[: pick.at])
    if pick.kind in ("torn", "only"):
        return [head]
    if pick.kind == "zero":
        return [head, Extend(call.inode, call.end)]
    behind = min(call.offset + pick.at + PAGE_BYTES, call.end)
    page_end = behind - behind % PAGE_BYTES if behind < call.end else behind
    tail = Write(call.path, call.inode, page_end, call.data[page_end - call.offset :])
    return [head, tail] if tail.data else [head, Extend(call.inode, call.end)]


def _names(device: Device, pick: Pick) -> Names:
    pending = device.pending_names
    if pick.call is not None and pick.call not in pending:
        raise UsageError(f"call {pick.call} is no pending change of a name there")
    if pick.call is None:
        kept = set(pending) if pick.kind == "kept" else set()
    else:
        kept = {pick.call} if pick.kind == "kept" else set(pending) - {pick.call}
    names = {inode: dict(held) for inode, held in device.names.items()}
    for call in _never_neither(device, kept, add=pick.kind == "kept"):
        pending[call].apply(names)
    return names


def _never_neither(device: Device, kept: set[int], *, add: bool) -> list[int]:
    """In a rename between directories the old name goes only when the new one is there: take both calls, or neither."""
    pending = device.pending_names
    numbers = {id(call): number for number, call in pending.items()}
    chosen = set(kept)
    for number in kept:
        call = pending[number]
        arrival = numbers.get(id(call.arrival)) if isinstance(call, Leave) else None
        if arrival is not None and arrival not in kept:
            chosen ^= {arrival if add else number}
    return sorted(chosen)
