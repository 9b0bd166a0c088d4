"""Where an export lies: data files, and a log of commits that says which of them count.

| name | what it is |
|---|---|
| `part-NNNNNNNN-KKKK.parquet` (`.ndjson`) | rows of commit N |
| `_flintlog/NNNNNNNN.json` | commit N: its files, its rows, and the cursor up to which everything is exported |
| `_flintlog/staged/` | files that are being written |
| `_flintlog/lock` | held while an export runs |

A commit is one file, published atomically when all its data is on the device. Only then do the data files move from
`staged` to their place; if this run does not finish that, the next one does. So a reader of the directory sees whole
commits, or for a moment the beginning of one. A file that no commit names is a leftover, and the next run removes it.

In a Delta table the table's own log decides: a commit here counts once that log has a transaction of the same number.
"""

from __future__ import annotations

import io
import json
import posixpath
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from flintlog.core.follow import Cursor, beginning
from flintlog.core.inside import refuse_link
from flintlog.disk import Disk, File
from flintlog.disk.lock import take_lock
from flintlog.disk.remote import RemoteKernel
from flintlog.errors import DamageError, RefusedError

Format = Literal["parquet", "ndjson", "delta"]
View = Literal["entries", "state"]

HOME = "_flintlog"
_STAGED = f"{HOME}/staged"
_LOCK = f"{HOME}/lock"
_COMMIT = re.compile(r"(\d{8})\.json")
_PART = re.compile(r"part-(\d{8})-(\d{4,})\.(parquet|ndjson)")
_COMMIT_BYTES_MAX = 64 << 20
_VERSION = 1


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file."""

    name: str
    rows: int
    size: int


@dataclass(frozen=True, slots=True)
class Commit:
    """What one run added."""

    number: int
    place: Cursor
    parts: tuple[DataFile, ...] = ()

    def encode(self, about: dict[str, str]) -> bytes:
        parts = [{"name": part.name, "rows": part.rows, "size": part.size} for part in self.parts]
        content = {"version": _VERSION, "number": self.number, **about, "place": self.place, "files": parts}
        return json.dumps(content, indent=1).encode() + b"\n"


@dataclass(slots=True)
class Target:
    """A directory for exports. `about` says of what: source, dialect, view and format."""

    disk: Disk
    path: str
    about: dict[str, str]
    last: Commit = field(default_factory=lambda: Commit(0, beginning()))

    @property
    def replaces(self) -> bool:
        """Does a commit replace all before it? That of a state does; entries are added."""
        return self.about["view"] == "state"

    def place_of(self, name: str) -> str:
        return posixpath.join(self.path, name)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other exports out. Remote targets have no locks: there the caller must run one export at a time."""
        if isinstance(self.disk.kernel, RemoteKernel):
            self.disk.make_directory(self.place_of(_STAGED))
            yield
            return
        for name in (HOME, _STAGED):
            refuse_link(self.disk, self.place_of(name))
        self.disk.make_directory(self.place_of(_STAGED))
        with take_lock(self.disk, self.place_of(_LOCK), "create", self.path):
            yield

    def open(self, decided: int | None = None) -> None:
        """Find the last commit, finish its moves and remove what is left over."""
        undone = self.look(decided)
        for number in undone:
            self.disk.unlink(self.place_of(f"{HOME}/{number:08}.json"))
        if undone:
            self.disk.sync_directory(self.place_of(HOME))  # before another commit uses the number
        self._settle()

    def look(self, decided: int | None = None) -> list[int]:
        """Find the last commit; returns those that do not count.

        `decided` is the last number that counts in a log that decides instead.
        """
        names = self.disk.list(self.place_of(HOME))
        numbers = sorted(int(match[1]) for name in names if (match := _COMMIT.fullmatch(name)))
        if not numbers:
            undecided = decided not in (None, 0)
        else:
            newest = self._read(numbers[-1])  # also refuses what is an export of something else
            undecided = decided not in (None, newest.number, newest.number - 1)
            counting = numbers if decided in (None, newest.number) else numbers[:-1]
            if counting:
                self.last = newest if counting is numbers else self._read(counting[-1])
        if undecided:
            raise RefusedError(
                f"the table has transaction {decided} and {HOME} knows {numbers[-1] if numbers else 'none'}",
                file=self.path,
                advice="Restore the directory _flintlog or the table's log, or export to a new target",
            )
        return [number for number in numbers if number > self.last.number]

    def _read(self, number: int) -> Commit:
        name = f"{HOME}/{number:08}.json"
        try:
            content = json.loads(self.disk.read(self.place_of(name), _COMMIT_BYTES_MAX))
            parts = tuple(DataFile(file["name"], file["rows"], file["size"]) for file in content["files"])
            found = Commit(content["number"], content["place"], parts)
            about = {name: content[name] for name in self.about}
            own = (
                found.number == number
                and isinstance(found.place, dict)
                and all(_PART.fullmatch(part.name) for part in parts)
            )
        except (ValueError, KeyError, TypeError, RecursionError) as problem:
            raise DamageError(
                f"this commit cannot be read: {problem}",
                code="commit-broken",
                file=self.place_of(name),
                advice="Restore it, or export to a new target",
            ) from problem
        if content.get("version") != _VERSION or not own:
            raise DamageError(
                "this commit is of another version or names files that are not ours",
                code="commit-broken",
                file=self.place_of(name),
            )
        for what, value in self.about.items():
            if about[what] != value:
                raise RefusedError(
                    f"this is an export of {what} {about[what]!r}, not {value!r}",
                    file=self.path,
                    advice="Choose another target",
                )
        return found

    def _settle(self) -> None:
        """Make the directory what the last commit says. Removes a replaced state first: no row is ever there twice."""
        left_over = [name for name in self.disk.list(self.path) if self._is_left_over(name)]
        for name in left_over:
            self._remove(name)
        if left_over:
            self.disk.sync_directory(
                self.path
            )  # otherwise a power failure could bring them back beside the new ones
        moved = False
        for part in self.last.parts:
            staged = self.staged(part.name)
            if self.disk.stat(staged) is not None:
                self.disk.rename(staged, self.place_of(part.name))
                moved = True
            elif self.disk.stat(self.place_of(part.name)) is None and self.about["format"] != "delta":
                raise DamageError(
                    f"commit {self.last.number} names this file and it is not there",
                    code="part-missing",
                    file=self.place_of(part.name),
                    advice="Restore it, or export to a new target",
                )
        if moved:
            self.disk.sync_directory(self.path)
        for name in self.disk.list(self.place_of(_STAGED)):
            self._remove(f"{_STAGED}/{name}")

    def _is_left_over(self, name: str) -> bool:
        """Is this a file of a commit that did not happen, or of a state that a newer one replaced?"""
        match = _PART.fullmatch(name)
        if match is None:
            return False
        number = int(match[1])
        old = self.replaces and self.about["format"] != "delta" and number < self.last.number
        return number > self.last.number or old

    def _remove(self, name: str) -> None:
        place = self.place_of(name)
        if self.disk.is_directory(place) and not self.disk.is_link(place):
            for inner in self.disk.list(place):
                self._remove(f"{name}/{inner}")  # an empty directory is harmless
        else:
            self.disk.unlink(place)

    # Writing

    @property
    def next(self) -> int:
        return self.last.number + 1

    def part_name(self, at: int) -> str:
        kind = "ndjson" if self.about["format"] == "ndjson" else "parquet"
        return f"part-{self.next:08}-{at:04}.{kind}"

    def staged(self, name: str) -> str:
        return self.place_of(f"{_STAGED}/{name}")

    def prepare(self, place: Cursor, parts: list[DataFile]) -> Commit:
        """Sync the data, then publish the commit. It counts at once unless another log decides."""
        self._refuse_overtaken()
        for part in parts:
            with self.disk.open(self.staged(part.name)) as file:
                file.sync()
        self.disk.sync_directory(self.place_of(_STAGED))
        commit = Commit(self.next, place, tuple(parts))
        name = self.place_of(f"{HOME}/{commit.number:08}.json")
        self._refuse_overtaken()
        self.disk.publish(name, [commit.encode(self.about)], scratch=f"{name}.tmp")
        return commit

    def _refuse_overtaken(self) -> None:
        if f"{self.next:08}.json" in self.disk.list(self.place_of(HOME)):
            raise RefusedError(
                "another export has committed meanwhile",
                file=self.path,
                advice="Nothing of this run counts; run one export at a time",
            )

    def move_early(self, commit: Commit) -> None:
        """Move files to their names before the log that decides has them."""
        for part in commit.parts:
            self.disk.rename(self.staged(part.name), self.place_of(part.name))
        self.disk.sync_directory(self.path)

    def finish(self, commit: Commit) -> None:
        """Finish a commit that counts."""
        self.last = commit
        self._settle()


class Sink(io.RawIOBase):
    """A new file for Arrow's writers, through the disk."""

    def __init__(self, file: File) -> None:
        super().__init__()
        self.file = file
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self.file.pwrite(view, self.size)
        self.size += len(view)
        return len(view)

    def tell(self) -> int:
        return self.size
