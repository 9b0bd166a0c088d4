"""The list of a backup: what it holds, with checksums. It may come from anywhere, so `read_list` checks all of it."""

from __future__ import annotations

import json
import posixpath
import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from flintlog.core.dialect import dialect as dialect_of
from flintlog.core.position import Position, position_json, position_of
from flintlog.disk import Disk
from flintlog.errors import DamageError, RefusedError

BACKUP_FILE = "flintlog-backup.json"
_LIST_SIZE_MAX = 256 << 20
_FORMAT = 1
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Copied:
    """One file of a backup. `held_by` names the earlier backup that holds its bytes."""

    name: str
    size: int
    sha256: str
    held_by: str | None = None

    @property
    def content(self) -> tuple[str, int, str]:
        return self.name, self.size, self.sha256


@dataclass(frozen=True, slots=True)
class Backup:
    """What a backup holds: the files, and the positions that can be restored from them.

    `inside` is the directory below `source` that held the files, as a root has one; the restore makes it again.
    `identity` is the lasting name of the log, where its dialect gives one.
    """

    dialect: str
    edition: str | None
    version: int | None
    created: str
    source: str
    first: Position | None
    last: Position | None
    files: tuple[Copied, ...]
    inside: str = ""
    identity: str | None = None

    @property
    def kind(self) -> str:
        return "incremental" if any(item.held_by for item in self.files) else "full"

    @property
    def copied_bytes(self) -> int:
        """Bytes of the files that this backup itself holds."""
        return sum(item.size for item in self.files if item.held_by is None)

    @property
    def held_bytes(self) -> int:
        """Bytes of the files that earlier backups hold."""
        return sum(item.size for item in self.files if item.held_by is not None)

    def holds(self, position: Position) -> bool:
        """Can this position be restored from it?"""
        return self.first is not None and self.last is not None and self.first <= position <= self.last

    def json(self) -> dict[str, Any]:
        return {
            "dialect": self.dialect,
            "edition": self.edition,
            "version": self.version,
            "created": self.created,
            "source": self.source,
            "inside": self.inside,
            "identity": self.identity,
            "kind": self.kind,
            "first": position_json(self.first),
            "last": position_json(self.last),
            "files": [asdict(item) for item in self.files],
        }


def refuse_backup(disk: Disk, path: str) -> None:
    """Raise for a backup: a store that wrote to it would break the chain that builds on it."""
    if disk.stat(posixpath.join(path, BACKUP_FILE)) is not None:
        raise RefusedError("this is a backup", file=path, advice="Restore it to another place")


def timestamp() -> str:
    """The time now, as a list writes it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def write_list(disk: Disk, directory: str, backup: Backup) -> None:
    """Write the list beside the files, synced on return; the caller syncs its name."""
    content = json.dumps({"format": _FORMAT, **backup.json()}, indent=1).encode()
    disk.write_new(posixpath.join(directory, BACKUP_FILE), [content])


def read_list(disk: Disk, path: str) -> Backup:
    """The list of a backup."""
    place = posixpath.join(path, BACKUP_FILE)
    if disk.stat(place) is None:
        raise RefusedError("there is no backup here", file=path, advice=f"A backup has a {BACKUP_FILE}")
    try:
        content = json.loads(disk.read(place, _LIST_SIZE_MAX))
        if content["format"] != _FORMAT:
            raise ValueError(f"format {content['format']!r}")
        dialect = _text(content["dialect"])
        files = tuple(_copied(item, dialect) for item in content["files"])
        if len({item.name for item in files}) < len(files):
            raise ValueError("it lists a name twice")
        return Backup(
            dialect,
            None if content["edition"] is None else _text(content["edition"]),
            None if content["version"] is None else _number(content["version"]),
            _text(content["created"]),
            _text(content["source"]),
            position_of(content["first"]),
            position_of(content["last"]),
            files,
            _folder(content.get("inside", "")),
            None if content.get("identity") is None else _text(content["identity"]),
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamageError(
            "this is not the list of a backup",
            code="backup-list",
            file=place,
            expected=f"a list of format {_FORMAT}",
            found=f"{type(error).__name__}: {error}",
        ) from None


def _copied(item: dict[str, Any], dialect: str) -> Copied:
    copied = Copied(**item)
    _text(copied.name).encode("utf-8", "surrogateescape")  # raises for text that is no name
    if "\0" in copied.name or not dialect_of(dialect).is_member(copied.name):
        raise ValueError(f"{copied.name!r} is not the name of a file of {dialect}")
    if copied.held_by is not None and posixpath.basename(_text(copied.held_by)) in ("", ".", ".."):
        raise ValueError(f"{copied.held_by!r} is not the name of a backup")
    if _number(copied.size) < 0 or not _SHA256.fullmatch(_text(copied.sha256)):
        raise ValueError(f"size or checksum of {copied.name}")
    return copied


def _folder(value: object) -> str:
    """A relative directory, or "" for none; lists of earlier releases have none."""
    name = _text(value)
    if name in (".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"{name!r} is not the name of a directory")
    return name


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{value!r} is not a number")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text")
    return value
