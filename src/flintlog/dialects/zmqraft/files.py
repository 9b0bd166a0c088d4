"""What lies in a peer's directory: index files in order, the snapshot, state files, leftovers. Reads only."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from flintlog.core.backup.listing import BACKUP_FILE
from flintlog.core.finding import Damage
from flintlog.core.inside import inner_directory, member
from flintlog.core.kept import KEPT_DIRECTORY, list_besides_kept
from flintlog.core.live import suppress_gone
from flintlog.dialects.zmqraft import layout as lay
from flintlog.dialects.zmqraft import scan
from flintlog.dialects.zmqraft.scan import SnapshotHead
from flintlog.disk import Disk, File, Stat
from flintlog.errors import DiskError, UsageError

_LEVELS = (re.compile(r"[0-9a-f]{5}"), re.compile(r"[0-9a-f]{2}"), re.compile(r"[0-9a-f]{2}"))
_HEAD_REST = 1 << 16
_NAME_MAX = 200  # leaves room for a stamp


@dataclass(frozen=True, slots=True)
class IndexName:
    """An index file by its name: its place in the peer's directory, and its first index."""

    name: str
    first: int
    size: int


@dataclass(frozen=True, slots=True)
class Listing:
    """The names in a peer's directory, by role."""

    path: str
    index_files: tuple[IndexName, ...]
    snapshot: str  # its name, also if it is missing
    sizes: dict[str, int]  # of the snapshot and the state files that exist
    history: tuple[str, ...]  # predecessors
    scratch: tuple[str, ...]
    foreign: tuple[str, ...]
    strays: tuple[str, ...]  # files in wrong places with the name of an index file
    superseded_by: tuple[tuple[int, int], ...]  # snapshots, by index and term, that supersede this log


@dataclass(frozen=True, slots=True)
class Stray:
    """An index file in a place where no reader looks for one."""

    name: str
    first: int  # from its header
    count: int | None  # None: its slots cannot be read
    size: int

    @property
    def agrees(self) -> bool:
        """Do its name and its header agree?"""
        match = lay.STRAY_NAME.fullmatch(posixpath.basename(self.name))
        return match is not None and int(match[1], 16) == self.first


def locate(disk: Disk, path: str) -> str | None:
    """The peer's directory: it holds a snapshot, a state file, or a log with an index file."""
    if not disk.is_directory(path):
        return None
    has_state = any(
        disk.is_file(posixpath.join(path, name)) for name in (lay.RAFT_STATE_FILE, lay.APPLIED_STATE_FILE)
    )
    return path if has_state or _has_snapshot(disk, path) or has_index_files(disk, path) else None


def _has_snapshot(disk: Disk, path: str) -> bool:
    place = posixpath.join(path, lay.SNAPSHOT_FILE)
    return disk.is_file(posixpath.join(path, lay.SNAPSHOT_FILE)) and disk.read(place, 4) == lay.SNAPSHOT_TOKEN


def can_be_snapshot(name: str) -> bool:
    """Can a snapshot have this name? It must differ from all other names there, and the original refuses `log...`."""
    taken = (lay.RAFT_STATE_FILE, lay.APPLIED_STATE_FILE, KEPT_DIRECTORY, BACKUP_FILE)
    return (
        0 < len(name) <= _NAME_MAX
        and not set(name) & {"/", "\0"}
        and not name.startswith((lay.LOG_DIRECTORY, "."))
        and name not in taken
        and _unstamped(name) == name
        and lay.SCRATCH.search(name) is None
    )


def check_snapshot_name(name: str) -> str:
    """This name, if a snapshot can have it; raises otherwise."""
    if not isinstance(name, str) or not can_be_snapshot(name):
        raise UsageError(
            f"a snapshot cannot be called {name!r}",
            advice="Take a plain name that nothing else has, and that begins neither with a dot nor with `log`",
        )
    return name


def _unstamped(entry: str) -> str:
    """The name without the stamp of a predecessor."""
    match = lay.STAMP.search(entry)
    return entry[: match.start()] if match is not None and match.end() == len(entry) else entry


def find_snapshot(disk: Disk, path: str, entries: Sequence[str]) -> str:
    """The name of the snapshot: `snap`, or the name of the only other file that begins like a snapshot."""
    if lay.SNAPSHOT_FILE in entries:
        return lay.SNAPSHOT_FILE
    names = {_unstamped(entry) for entry in entries if _begins_snapshot(disk, path, entry)}
    return names.pop() if len(names) == 1 else lay.SNAPSHOT_FILE


def _begins_snapshot(disk: Disk, path: str, entry: str) -> bool:
    place = posixpath.join(path, entry)
    found = disk.stat(place)
    if found is None or found.is_directory or found.is_special:
        return False
    if not can_be_snapshot(_unstamped(entry)):
        return False
    with suppress(DiskError):  # an unreadable file is none
        return disk.read(place, 4) == lay.SNAPSHOT_TOKEN
    return False


def list_files(disk: Disk, path: str, snapshot: str | None = None) -> Listing:
    """Every name in the peer's directory, sorted into roles. Finds the snapshot's name unless it is given."""
    sizes: dict[str, int] = {}
    history, scratch, foreign, strays = [], [], [], []
    entries = list_besides_kept(disk, path)
    snapshot = snapshot or find_snapshot(disk, path, entries)
    names = lay.names_of(snapshot)
    for name in entries:
        look = inner_directory if name == lay.LOG_DIRECTORY else member if name in names else Disk.stat
        found = look(disk, posixpath.join(path, name))
        if found is None or name == lay.LOG_DIRECTORY:
            continue
        if name in names:
            sizes[name] = found.size
        elif any(lay.is_predecessor(name, own) for own in names):
            history.append(name)
        elif any(lay.is_scratch(name, own) for own in names):
            scratch.append(name)
        else:
            foreign.append(name)
    in_log = []
    for name in _log_tree(disk, path):
        place = posixpath.join(path, name)
        found = member(disk, place) if lay.parse_index_path(name) is not None else disk.stat(place)
        if found is None:
            continue  # removed meanwhile
        if (file := _index_name(name, found)) is not None:
            in_log.append(file)
        elif _is_index_scratch(name):
            scratch.append(name)
        else:
            foreign.append(name)
            if _is_stray(disk, path, name, found):
                strays.append(name)
    in_log.sort(key=lambda file: file.first)
    marks = map(lay.SUPERSEDED.fullmatch, disk.list(posixpath.join(path, lay.LOG_DIRECTORY)))
    superseded_by = tuple((int(mark[1]), int(mark[2])) for mark in marks if mark)
    return Listing(
        path,
        tuple(in_log),
        snapshot,
        sizes,
        tuple(history),
        tuple(scratch),
        tuple(foreign),
        tuple(strays),
        superseded_by,
    )


def read_strays(disk: Disk, path: str, names: Iterable[str]) -> Iterator[Stray]:
    """Which of these files are index files, by their headers."""
    for name in names:
        with suppress_gone(), disk.open(posixpath.join(path, name)) as file:
            head = file.pread(lay.TABLE_OFFSET, 0)
            if len(head) < lay.TABLE_OFFSET:
                continue
            token, _, version, _, first = lay.INDEX_HEADER.unpack(head)
            if token == lay.INDEX_TOKEN and version == lay.VERSION and first <= lay.NUMBER_MAX:
                table = read_head(file, first, copy=True)[1]
                yield Stray(name, first, None if isinstance(table, Damage) else len(table.ends), file.size())


def has_index_files(disk: Disk, path: str) -> bool:
    """Is there a file with the directories and the name of an index file?"""
    if not disk.is_directory(posixpath.join(path, lay.LOG_DIRECTORY)):
        return False
    for name in _names_in_log(disk, path):
        found = disk.stat(posixpath.join(path, name))
        if found is not None and _index_name(name, found) is not None:
            return True
    return False


def _index_name(name: str, found: Stat) -> IndexName | None:
    first = lay.parse_index_path(name)
    if first is None or first > lay.NUMBER_MAX or found.is_directory:
        return None
    return IndexName(name, first, found.size)


def _is_stray(disk: Disk, path: str, name: str, found: Stat) -> bool:
    is_file = not (found.is_directory or found.is_special or disk.is_link(posixpath.join(path, name)))
    return is_file and lay.STRAY_NAME.fullmatch(posixpath.basename(name)) is not None


def _is_index_scratch(name: str) -> bool:
    stem = name.partition(".tmp-")[0]
    return lay.parse_index_path(stem) is not None and lay.is_scratch(name, stem)


def leaf_directories(disk: Disk, path: str) -> list[str]:
    """The directories of the log's tree for index files, in the order of their indexes."""
    found = [lay.LOG_DIRECTORY]
    for level in _LEVELS:
        found = [
            f"{directory}/{name}"
            for directory in found
            for name in disk.list(posixpath.join(path, directory))
            if level.fullmatch(name) and disk.is_directory(posixpath.join(path, directory, name))
        ]
    return found


def _log_tree(disk: Disk, path: str, directory: str = lay.LOG_DIRECTORY, level: int = 0) -> Iterator[str]:
    """All names in the directories of index files, and names elsewhere in the tree that look like index files."""
    for name in disk.list(posixpath.join(path, directory)):
        inner = f"{directory}/{name}"
        if level == len(_LEVELS) or lay.STRAY_NAME.fullmatch(name):
            yield inner
        if lay.STRAY_NAME.fullmatch(name):
            continue
        place = posixpath.join(path, inner)
        if 0 <= level < len(_LEVELS) and _LEVELS[level].fullmatch(name):
            inner_directory(disk, place)
            yield from _log_tree(disk, path, inner, level + 1)
        elif not disk.is_link(place) and disk.is_directory(place):  # a link could lead back, without end
            yield from _log_tree(disk, path, inner, -1)


def _names_in_log(disk: Disk, path: str) -> Iterator[str]:
    for directory in leaf_directories(disk, path):
        for name in disk.list(posixpath.join(path, directory)):
            yield f"{directory}/{name}"


def read_snapshot_file(disk: Disk, path: str, name: str) -> SnapshotHead:
    """The head of a snapshot file."""
    with disk.open(posixpath.join(path, name)) as file:
        return read_snapshot_head(file)


def read_snapshot_head(file: File) -> SnapshotHead:
    """The head of an open snapshot file."""
    size = file.size()
    head = memoryview(file.pread(min(size, scan.SNAPSHOT_HEAD_MAX), 0))
    return scan.read_snapshot_head(head, size, posixpath.basename(file.path))


def read_head(
    file: File, first: int, *, copy: bool, newest: bool = True
) -> tuple[memoryview, scan.Table | Damage]:
    """The head of an index file; reads the whole file only when the head is not as it should be."""
    end = _head_end(file)
    view = file.view(copy=copy, end=end)
    table = scan.read_table(view[:end], first, newest=newest)
    if isinstance(table, Damage):
        return read_whole(file, first, copy=copy, newest=newest)
    return view, table


def read_whole(
    file: File, first: int, *, copy: bool, newest: bool = True
) -> tuple[memoryview, scan.Table | Damage]:
    """All of an index file, without what a store appends after its size was read."""
    view = file.view(copy=copy)
    table = scan.read_table(view, first, newest=newest)
    if lacks_entries(view, table) and file.size() > len(view):
        assert isinstance(table, scan.Table)
        table = replace(table, ends=table.ends[table.data_start + table.ends <= len(view)])
    return view, table


def lacks_entries(view: memoryview, table: scan.Table | Damage) -> bool:
    """Does the file end before the last entry of its table?"""
    return (
        isinstance(table, scan.Table)
        and len(table.ends) > 0
        and table.data_start + int(table.ends[-1]) > len(view)
    )


def _head_end(file: File) -> int:
    """Where header and offset table end, with room for what usually follows before the entries."""
    head = file.pread(lay.TABLE_OFFSET, 0)
    if len(head) < lay.TABLE_OFFSET:
        return len(head)
    capacity = min(int(lay.INDEX_HEADER.unpack(head)[3]), lay.CAPACITY_FILE_MAX)
    return lay.TABLE_OFFSET + lay.SLOT_SIZE * capacity + _HEAD_REST
