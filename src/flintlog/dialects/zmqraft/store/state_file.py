"""`StateFile`: the properties of a peer, appended as they change. Opening cuts and reports a half-written end."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

import msgpack

from flintlog.columns.zeros import SECTOR_SIZE
from flintlog.core.kept import keep_cut
from flintlog.dialects.zmqraft import layout as lay
from flintlog.dialects.zmqraft.state import EMPTY_MAP, Loaded, Property, read_state
from flintlog.dialects.zmqraft.store.stamp import Stamps
from flintlog.disk import Disk, FailStop, write_all
from flintlog.errors import UsageError


class StateFile:
    """Properties of one kind, durable when `update` returns.

    `numbers_as_original` writes numbers from 2^31 on as floats, and `fill_sectors=False` packs records without filling.
    Use both only to write the bytes of the original.
    """

    def __init__(
        self,
        path: str,
        properties: tuple[Property, ...],
        *,
        defaults: Mapping[str, Any] | None = None,
        disk: Disk | None = None,
        stamps: Stamps | None = None,
        numbers_as_original: bool = False,
        fill_sectors: bool = True,
        failstop: FailStop | None = None,
    ) -> None:
        self._disk = disk or Disk()
        self._path = self._disk.resolve(path)
        self._directory, self._name = posixpath.split(self._path)
        self._stamps = stamps or Stamps()
        self._properties = {prop.name: prop for prop in properties}
        self._as_original = numbers_as_original
        self._fill = fill_sectors
        self._failstop = failstop or FailStop(self._path)
        self._file = self._disk.open(self._path, "create")
        try:
            loaded = self._load()
        except BaseException:
            self._file.close()
            raise
        self._values = {**loaded.values, **self._untouched(defaults or {}, loaded)}
        self.findings = loaded.findings
        self._size = loaded.end

    def _load(self) -> Loaded:
        loaded = read_state(self._file, self._properties.values())
        if loaded.end < self._file.size():
            keep_cut(self._disk, self._directory, self._file, loaded.end)
            self._file.truncate(loaded.end)
        # The bytes that were read, and their name, must not vanish after new writes rest on them.
        self._file.sync()
        self._disk.sync_ancestors(self._path)
        return loaded

    def _untouched(self, defaults: Mapping[str, Any], loaded: Loaded) -> dict[str, Any]:
        return {
            name: value
            for name, value in defaults.items()
            if loaded.values[name] == self._properties[name].default and self._check(name, value)
        }

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def values(self) -> dict[str, Any]:
        """All properties as they are now."""
        return dict(self._values)

    def update(self, **changes: Any) -> None:
        """Set some properties; durable on return."""
        self._failstop.check()
        self.check(changes)
        record = self._encode({name: changes[name] for name in self._properties if name in changes})
        if self._size >= lay.ROLL_BYTES or (self._fill and len(record) > SECTOR_SIZE):
            self._values.update(changes)
            self.roll()
            return
        with self._failstop.guard():
            left = SECTOR_SIZE - self._size % SECTOR_SIZE
            filling = EMPTY_MAP * left if self._fill and len(record) > left else b""
            self._file.pwrite(filling + record, self._size)
            self._file.sync()
        self._size += len(filling) + len(record)
        self._values.update(changes)

    def roll(self) -> None:
        """Begin a new file with all properties; the old one is kept under a stamped name."""
        with self._failstop.guard():
            file = self._disk.create_scratch(self._stamps.scratch(self._path))
            content = self._encode(self._values)
            write_all(file, [content])
            self._disk.link(self._path, self._stamps.predecessor(self._disk, self._path))
            self._disk.install(file, self._path)
            self._file.close()
            self._file = file
            self._size = len(content)
            trim_history(self._disk, self._path)

    def check(self, changes: Mapping[str, Any]) -> None:
        """Raise for unknown properties and invalid values."""
        for name, value in changes.items():
            self._check(name, value)

    def _check(self, name: str, value: Any) -> bool:
        prop = self._properties.get(name)
        if prop is None:
            raise UsageError(
                f"{name!r} is not a property of {self._name}", advice=f"Known: {', '.join(self._properties)}"
            )
        if not prop.is_valid(value):
            raise UsageError(f"{name} cannot be {value!r}")
        return True

    def _encode(self, values: Mapping[str, Any]) -> bytes:
        packed: bytes = msgpack.packb(_as_floats(values) if self._as_original else values)
        return packed

    def close(self) -> None:
        """Close the file."""
        self._failstop.close()
        self._failstop.end()
        self._file.close()


def _as_floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_floats(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_as_floats(inner) for inner in value]
    return float(value) if isinstance(value, int) and not -(2**31) <= value < 2**31 else value


def trim_history(disk: Disk, path: str) -> None:
    """Remove the oldest predecessors of `path` when there are too many."""
    directory, name = posixpath.split(path)
    stamped = [
        (entry[: match.start(1)], int(match[1], 36), entry)
        for entry in disk.list(directory)
        if (match := lay.is_predecessor(entry, name))
    ]
    for _, _, entry in sorted(stamped)[: -lay.HISTORY_MAX]:
        disk.unlink(posixpath.join(directory, entry))
