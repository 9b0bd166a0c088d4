"""The journal of a repair: the original of every file that changes, and what it takes to go back to them.

Before a repair changes anything, it writes down which files there are (`flintlog-repair.json` beside the originals),
and when it is done, what it left. So a later `repair --undo` knows what to put back and what to remove. It refuses when
a store has written to the directory since: going back would remove that too.

Originals come back by a link and a rename, which also work on a full disk. At any moment each file is the repaired or
the original one; the next undo finishes one that was cut short.
"""

from __future__ import annotations

import errno
import hashlib
import json
import posixpath
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from flintlog.core.inside import refuse_link
from flintlog.core.kept import KEPT_DIRECTORY, check_kept
from flintlog.core.plan import Plan, Step
from flintlog.disk import NOTHING_CHANGED, Disk, Mode, Stat, take_lock
from flintlog.errors import DamageError, DiskError, FlintlogError, RefusedError, UsageError

RECORD_FILE = "flintlog-repair.json"
_SCRATCH = "undo.new"
_RECORD_BYTES_MAX = 256 << 20
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)

Stage = Literal["begun", "done", "undoing", "undone"]
Digests = dict[str, str]


@dataclass(slots=True)
class Record:
    """What one repair wrote down. `after` and `originals` are known when it is done.

    `continues` names the round before it, when it is a later round of one repair. `folders` are the directories that
    were there; None: an earlier release did not write them down.
    """

    stage: Stage
    before: list[str]
    after: Digests = field(default_factory=dict)
    originals: Digests = field(default_factory=dict)
    continues: str | None = None
    folders: list[str] | None = None

    def encode(self) -> bytes:
        value = {
            "version": 1,
            "stage": self.stage,
            "before": self.before,
            "after": self.after,
            "originals": self.originals,
            "continues": self.continues,
            "folders": self.folders,
        }
        return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def read_record(disk: Disk, folder: str) -> Record | None:
    """The record of the repair whose originals lie in `folder`; None when there is none."""
    path = posixpath.join(folder, RECORD_FILE)
    if disk.stat(path) is None:
        return None
    try:
        value: Any = json.loads(disk.read(path, _RECORD_BYTES_MAX))
        known = value["version"] == 1 and value["stage"] in ("begun", "done", "undoing", "undone")
        continues, there = value.get("continues"), value.get("folders")  # earlier releases lack both
        names = [
            *value["before"],
            *value["after"],
            *value["originals"],
            *([continues] if continues else []),
            *(there or []),
        ]
        if not known or not all(_stays_inside(name) for name in names):
            raise ValueError
        after, originals = dict(value["after"]), dict(value["originals"])
        return Record(value["stage"], value["before"], after, originals, continues, there and [*there])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamageError(
            "this is not the record of a repair",
            code="repair-record",
            file=path,
            advice="The original files lie beside it; copy them back by hand",
        ) from error


def _stays_inside(name: object) -> bool:
    return isinstance(name, str) and posixpath.normpath(name) == name and name[:1] != "/" and name[:2] != ".."


def tree(disk: Disk, root: str, folder: str = "") -> Iterator[str]:
    """The files below a log directory by their names in it, without those that repairs kept. A link is refused."""
    for name in disk.list(posixpath.join(root, folder)):
        inside = posixpath.join(folder, name)
        if inside == KEPT_DIRECTORY:
            continue
        place = posixpath.join(root, inside)
        refuse_link(disk, place)
        if disk.is_directory(place):
            yield from tree(disk, root, inside)
        else:
            yield inside


def folders(disk: Disk, root: str, folder: str = "") -> Iterator[str]:
    """The directories below a log directory, without those that repairs kept; what is in one comes first."""
    for name in disk.list(posixpath.join(root, folder)):
        inside = posixpath.join(folder, name)
        if inside != KEPT_DIRECTORY and disk.is_directory(posixpath.join(root, inside)):
            yield from folders(disk, root, inside)
            yield inside


def digests(disk: Disk, root: str) -> Digests:
    """A fingerprint of every file that `tree` shows."""
    return {name: digest(disk, posixpath.join(root, name)) for name in tree(disk, root)}


def digest(disk: Disk, path: str) -> str:
    found = hashlib.blake2b(digest_size=8)
    with disk.open(path) as file:
        for chunk in file.chunks(0, file.size()):
            found.update(chunk)
    return found.hexdigest()


def kept_files(disk: Disk, folder: str) -> list[str]:
    """The originals that lie in `folder`."""
    return [name for name in tree(disk, folder) if name != RECORD_FILE]


class RepairJournal:
    """What one repair keeps, in `kept/<name>/`. It is the policy of the transaction that the repair runs in."""

    def __init__(self, disk: Disk, root: str, name: str) -> None:
        self.root = root
        self.directory = posixpath.join(root, KEPT_DIRECTORY, name)
        self._disk = disk
        self._begun = False  # until then another repair may own the directory
        self._before: dict[str, bool] = {}  # the files that were there, and whether each is kept by now
        self._originals: dict[str, Stat] = {}
        self._folders: list[str] = []

    @property
    def has_kept(self) -> bool:
        return any(self._before.values())

    def begin(self, made: str | None) -> None:
        """Write down which files there are, except `made`: taking the lock made that one. The lock is held."""
        self._begun = True
        self.directory = _unused(self._disk, self.directory)
        self._before = {name: False for name in tree(self._disk, self.root) if name != made}
        self._folders = list(folders(self._disk, self.root))
        self._write(Record("begun", list(self._before), folders=self._folders))

    def keep(self, path: str) -> list[Callable[[], None]]:
        """Copy a file, or every file below a directory, aside, durable on return; returns how to put each back."""
        name = posixpath.relpath(path, self.root)
        names = (
            [name] if name in self._before else [each for each in self._before if each.startswith(f"{name}/")]
        )
        new = [each for each in names if not self._before[each]]
        for each in new:
            with self._disk.open(posixpath.join(self.root, each)) as source:
                self._originals[each] = source.stat()
                self._set_aside(each, source.chunks(0, source.size()), self._originals[each])
            self._before[each] = True
        return [partial(self._put_back, each) for each in new]

    def finish(self) -> None:
        """Write down what the repair left, so that an undo can tell it from later writes.

        A file that replaced another gets its owner and its permissions first.
        """
        for name in self._of_others():
            with self._disk.open(posixpath.join(self.root, name)) as file:
                file.be_like(self._originals[name])
        originals = {
            name: digest(self._disk, posixpath.join(self.directory, name))
            for name, kept in self._before.items()
            if kept
        }
        after = digests(self._disk, self.root)
        self._write(Record("done", list(self._before), after, originals, folders=self._folders))

    def _of_others(self) -> list[str]:
        """The files that have another owner or other permissions than their originals."""
        now = {name: self._disk.stat(posixpath.join(self.root, name)) for name in self._originals}
        return [
            name
            for name, found in now.items()
            if found is not None and not found.is_directory and found.access != self._originals[name].access
        ]

    def discard(self) -> str:
        """Remove the copies, because everything was put back. Writes nothing: the disk may be full."""
        if not self._begun:
            return NOTHING_CHANGED
        told = ", ".join(self._of_others())
        if self._before:
            for name in (*kept_files(self._disk, self.directory), RECORD_FILE):
                if self._disk.stat(posixpath.join(self.directory, name)) is not None:
                    self._disk.unlink(posixpath.join(self.directory, name))
        for place in (self.directory, posixpath.dirname(self.directory)):
            with suppress(FlintlogError):
                if self._disk.is_directory(place) and not any(tree(self._disk, place)):
                    self._disk.remove_directory(place)
        if told:
            return f"All bytes are as they were; only root can give these files their owner back: {told}"
        return NOTHING_CHANGED

    def cannot(self, error: FlintlogError) -> str:
        return (
            f"The files could not all be put back ({error.what()}); they are in {self.directory}, and "
            "`repair --undo --force` puts them back"
        )

    def _put_back(self, name: str) -> None:
        target = posixpath.join(self.root, name)
        put_back(self._disk, posixpath.join(self.directory, name), target, self.directory)
        self._disk.sync_directory(posixpath.dirname(target))

    def _write(self, record: Record) -> None:
        self._set_aside(RECORD_FILE, [record.encode()])

    def _set_aside(self, name: str, chunks: Iterable[bytes], like: Stat | None = None) -> None:
        target = posixpath.join(self.directory, name)
        self._disk.make_directory(posixpath.dirname(target))
        self._disk.publish(target, chunks, scratch=posixpath.join(self.directory, _SCRATCH), like=like)


def _unused(disk: Disk, directory: str) -> str:
    """A free name for a repair. Numbers keep repairs of one second apart, and in order."""
    stamp = posixpath.basename(directory).partition("-")[0]
    there = [age(name) for name in disk.list(posixpath.dirname(directory))]
    numbers = [number for moment, number, _ in there if moment == stamp]
    return f"{directory}-{max(numbers) + 1}" if numbers else directory


def give_back(disk: Disk, root: str, folder: str, record: Record) -> None:
    """Put every original back and remove what was not there before, durable on return."""
    known = set(record.before)
    changed = []
    for name in kept_files(disk, folder):
        if name in known:
            put_back(disk, posixpath.join(folder, name), posixpath.join(root, name), folder)
            changed.append(name)
    for name in list(tree(disk, root)):
        if name not in known:
            disk.unlink(posixpath.join(root, name))
            changed.append(name)
    there = record.folders
    made = [] if there is None else [name for name in folders(disk, root) if name not in there]
    for name in made:
        if not disk.list(posixpath.join(root, name)):
            disk.remove_directory(posixpath.join(root, name))
            changed.append(name)
    for parent in sorted({posixpath.dirname(posixpath.join(root, name)) for name in changed}):
        if disk.is_directory(parent):
            disk.sync_directory(parent)


def put_back(disk: Disk, original: str, target: str, folder: str) -> None:
    """Put an original back under its name, by a link and a rename."""
    scratch = posixpath.join(folder, _SCRATCH)
    if disk.stat(scratch) is not None:
        disk.unlink(scratch)
    if not disk.is_directory(posixpath.dirname(target)):
        disk.make_directory(posixpath.dirname(target))
    try:
        disk.link(original, scratch)
    except DiskError as error:
        if error.errno not in _NO_LINKS:
            raise
        with disk.open(original) as source:
            disk.publish(target, source.chunks(0, source.size()), scratch=scratch)
        return
    disk.rename(scratch, target)


def plan_undo(
    disk: Disk, root: str, dialect: str, name: str | None, *, force: bool, lock: str, lock_mode: Mode
) -> Plan:
    """The plan to take back the newest repair, or the one with this name: all its rounds, the last one first."""
    rounds, left, refusal = _choose(disk, root, name)
    if refusal is None and not force:
        refusal = _refusal(disk, root, *rounds[0])
    steps = [] if refusal is not None else [step for each in rounds for step in _steps(disk, root, *each)]

    def act(disk: Disk) -> str:
        with take_lock(disk, lock, lock_mode, root):
            for folder, record in rounds:
                passing = posixpath.relpath(lock, root)
                again = None if force else _refusal(disk, root, folder, record, passing=passing)
                if again is not None:
                    raise RefusedError(again, file=root, advice="Nothing was changed")
                _take_back(disk, root, folder, record)
        more = f"; of those before it {left} can be taken back too" if left else ""
        return f"the files are as they were before the repair {posixpath.basename(rounds[-1][0])}{more}"

    facts: dict[str, Any] = {"repair": posixpath.basename(rounds[0][0])} if rounds else {}
    if len(rounds) > 1:
        facts["rounds"] = len(rounds)
    once = tuple(dict.fromkeys(steps))  # a file that one round made is there in the next
    return Plan("undo", dialect, root, once, act, refusal=refusal, facts=facts, disk=disk)


def _take_back(disk: Disk, root: str, folder: str, record: Record) -> None:
    _write(disk, folder, replace(record, stage="undoing"))
    give_back(disk, root, folder, record)
    _write(disk, folder, replace(record, stage="undone"))
    for kept in kept_files(disk, folder):
        disk.unlink(posixpath.join(folder, kept))


def continue_repair(disk: Disk, folder: str, before: str) -> None:
    """Write down that the repair in `folder` is a later round of the one whose originals are in `before`."""
    record = read_record(disk, folder)
    if record is not None:
        _write(disk, folder, replace(record, continues=before))


def _write(disk: Disk, folder: str, record: Record) -> None:
    target = posixpath.join(folder, RECORD_FILE)
    disk.publish(target, [record.encode()], scratch=posixpath.join(folder, _SCRATCH))


Rounds = list[tuple[str, Record]]


def _choose(disk: Disk, root: str, name: str | None) -> tuple[Rounds, int, str | None]:
    """The rounds of a repair, how many repairs before it stand, and why it cannot be taken back."""
    kept = posixpath.join(root, KEPT_DIRECTORY)
    check_kept(disk, root)
    for each in disk.list(kept):
        refuse_link(disk, posixpath.join(kept, each))
    found = {each: read_record(disk, posixpath.join(kept, each)) for each in disk.list(kept)}
    records = {each: record for each, record in found.items() if record is not None}
    standing = sorted((each for each, record in records.items() if record.stage != "undone"), key=age)
    if name is not None and name not in records:
        known = ", ".join(sorted(records)) or "none"
        raise UsageError(f"there is no repair {name!r} here", file=root, advice=f"Known: {known}")
    if name is None and not standing:
        return [], 0, "there is no repair to take back"
    chosen = name or standing[-1]
    if chosen not in standing:
        return [], 0, f"the repair {chosen} was taken back already"
    if chosen not in (newest := _rounds(records, standing)):
        return [], 0, f"a later repair stands on it; take {standing[-1]} back first"
    left = sum(records[each].continues not in standing for each in standing if each not in newest)
    return [(posixpath.join(kept, each), records[each]) for each in newest], left, None


def _rounds(records: dict[str, Record], standing: list[str]) -> list[str]:
    """The rounds of the newest repair that stand, the last one first."""
    found = [standing[-1]]
    while (before := records[found[-1]].continues) in standing and before not in found:
        found.append(str(before))
    return found


def age(name: str) -> tuple[str, int, str]:
    """A key that sorts repairs by age; repairs of one second have numbers."""
    stamp, _, reason = name.partition("-")
    number = reason.rpartition("-")[2]
    return stamp, int(number) if number.isdecimal() else 1, reason


def _refusal(disk: Disk, root: str, folder: str, record: Record, passing: str = "") -> str | None:
    if record.stage == "begun":
        return (
            "this repair was cut short, and no record tells whether the directory was written to since; "
            "--force goes back all the same, and takes away what was written since"
        )
    halfway = record.stage == "undoing"
    now = digests(disk, root)
    written = [
        name
        for name, found in now.items()
        if found != record.after.get(name)
        and not (halfway and found == record.originals.get(name))
        and not (name == passing and name not in record.before)  # made by taking the lock
    ]
    gone = [name for name in record.after if name not in now and (not halfway or name in record.before)]
    if not written and not gone:
        return None
    return (
        f"{(written + gone)[0]} was written to after the repair, and going back would take that away; the original "
        f"files are in {folder}, and --force goes back all the same"
    )


def _steps(disk: Disk, root: str, folder: str, record: Record) -> Iterator[Step]:
    known = set(record.before)
    chosen = posixpath.basename(folder)
    for name in kept_files(disk, folder):
        if name in known:
            yield Step("put back", name, f"as it was before the repair {chosen}")
    for name in tree(disk, root):
        if name not in known:
            yield Step("remove", name, "it was not there before the repair")
    if record.stage == "undoing":
        yield Step("finish", posixpath.relpath(folder, root), "an undo that was cut short")
