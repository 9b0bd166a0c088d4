"""What we write in the shipped edition has the bytes of the original, file for file.

The recorded scenarios are driven through our store with the recorded times and identity, and the directories that the
original was given are opened, and asked for `data/snapshot`. It differs where there is a compacted file: the original
leaves its part out of the snapshot, ours is the whole state. `data/durable` and `kept/` are ours alone, and the
original passes them over. Other differences are in the tables, each with its reason.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.golden_cases import snapshot_of
from tests.limestone.recorded import ROOT, aborted, every, lay_out

from flintlog.core.kept import KEPT_DIRECTORY
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.store import Datastore

_ROTATED = re.compile(r"(?:pwal_[0-9]{4}|epoch)\.([0-9]{14})\.[0-9]+")


def recorded_times(path: Path) -> list[float]:
    """When files were rotated, in the order of the calls: by time, the epoch file first, then by channel."""
    names = [match for item in path.iterdir() if (match := _ROTATED.fullmatch(item.name))]
    return [int(match[1]) / 1000 for match in sorted(names, key=lambda match: (match[1], match[0]))]


def text(word: str) -> bytes:
    if word == "@empty":
        return b""
    if word.startswith("hex:"):
        return bytes.fromhex(word[4:])
    if word.startswith("rep:"):
        _, byte, count = word.split(":")
        return bytes.fromhex(byte) * int(count)
    return word.encode()


class Replay:
    """The commands of a scenario, as calls of our store."""

    def __init__(self, path: Path, theirs: Path) -> None:
        self._path = path
        self._times = iter(recorded_times(theirs))
        self._instance = lay.decode_manifest((theirs / lay.MANIFEST_FILE).read_bytes()).instance
        self._blobs: dict[str, int] = {}

    def run(self, scenario: str) -> None:
        for line in scenario.splitlines():
            if line and not line.startswith("#"):
                command, *words = line.split()
                getattr(self, f"do_{command}")(*words)

    def do_open(self, count: str) -> None:
        self._store = Datastore(
            self._path,
            edition="shipped",
            clock=lambda: next(self._times),
            instance=lambda: self._instance,
            keep_superseded=True,
        )
        self._store.write_snapshot()
        self._channels = [self._store.channel() for _ in range(int(count))]
        self._sessions = {}

    def do_ready(self) -> None: ...

    def do_pool(self) -> None: ...

    def do_release(self) -> None: ...

    def do_switch(self, epoch: str) -> None:
        self._store.switch_epoch(int(epoch))

    def do_begin(self, channel: str) -> None:
        self._sessions[channel] = self._channels[int(channel)].begin()

    def do_end(self, channel: str) -> None:
        self._channels[int(channel)].end()

    def do_put(self, channel, storage, key, value, major, minor, *blobs) -> None:
        numbers = [self._blobs[name] for name in blobs]
        version = (int(major), int(minor))
        self._sessions[channel].put(int(storage), text(key), text(value), version, blobs=numbers)

    def do_puts(self, channel, storage, key, first, end, value, major) -> None:
        for number in range(int(first), int(end)):
            name, content = b"%s%05d" % (text(key), number), b"%s%d" % (text(value), number)
            self._sessions[channel].put(int(storage), name, content, (int(major), number))

    def do_remove(self, channel, storage, key, major, minor) -> None:
        self._sessions[channel].remove(int(storage), text(key), (int(major), int(minor)))

    def do_add_storage(self, channel, storage, major, minor) -> None:
        self._sessions[channel].add_storage(int(storage), (int(major), int(minor)))

    def do_clear_storage(self, channel, storage, major, minor) -> None:
        self._sessions[channel].clear_storage(int(storage), (int(major), int(minor)))

    def do_remove_storage(self, channel, storage, major, minor) -> None:
        self._sessions[channel].remove_storage(int(storage), (int(major), int(minor)))

    def do_blob(self, name: str, content: str) -> None:
        self._blobs[name] = self._store.blobs.add(content.encode())

    def do_compact(self, epoch: str) -> None:
        """The original waits for another thread to switch to this epoch."""
        self._store.switch_epoch(int(epoch))
        assert self._store.compact() is not None

    def do_backup(self, epoch: str, *_: str) -> None:
        with self._store.held():
            self._store.switch_epoch(int(epoch))

    def do_shutdown(self) -> None:
        self._store.close()
        assert next(self._times, None) is None


def files_of(path: Path) -> dict[str, bytes]:
    ours_alone = (lay.WITNESS_FILE, f"{KEPT_DIRECTORY}/")
    return {
        name: raw
        for name, raw in snapshot_of(path).items()
        if raw is not None and not name.startswith(ours_alone)
    }


def differing(ours: dict[str, bytes], theirs: dict[str, bytes]) -> set[str]:
    return {name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)}


WRITTEN = [
    "c01_basic_multichannel/dir",
    "c03_storage_ops/dir",
    "c05_backup_rotation/dir",
    "c06_online_compaction/dir",
    "c07_offline_compaction/dir",
    "c10_ended_not_durable/dir",
    "c46_compaction_killpoints/dir_uncrashed",
]


@pytest.mark.parametrize("directory", WRITTEN)
def test_a_recorded_scenario_gives_the_recorded_files(directory, tmp_path):
    case, variant = directory.split("/")
    theirs = lay_out(case, variant, tmp_path)
    Replay(tmp_path / "ours", theirs).run((ROOT / case / "scenario.txt").read_text())
    assert differing(files_of(tmp_path / "ours"), files_of(theirs)) == set()


# Which files differ when we open a directory of the original, from what it made of it.
SNAPSHOT = lay.SNAPSHOT_FILE
CATALOG, BACK, PREVIOUS = lay.CATALOG_FILE, lay.CATALOG_BACK, lay.COMPACTED_PREVIOUS
OPENED = {
    "c06_online_compaction": {SNAPSHOT},
    # The original mixes the broken catalog with the one before it, and forgets one that was only renamed.
    "c24_catalog_incomplete_back": {SNAPSHOT},
    "c26_catalog_missing_back": {SNAPSHOT, CATALOG, BACK},
    # It leaves the file before the last compaction where its next start takes it for newer entries.
    "c29_prev_before_catalog": {SNAPSHOT, PREVIOUS},
    "c46_compaction_killpoints": {SNAPSHOT, PREVIOUS},
    # It forgets removals where its catalog does not list the compacted file; we list it.
    "c31_compacted_not_in_catalog": {CATALOG},
    "c32_offline_compaction_then_remove": {CATALOG},
    # Its compaction has left a log out, and what stands in that log wins over what is newer.
    "c36_migration_then_compaction_stale": {SNAPSHOT},
    "c45_online_gc_uncommitted_blob": {SNAPSHOT},
}
# Version 1 belongs to both editions; ours becomes version 2 of the designed one.
DESIGNED = "c34_log05_v1_migration"
# Without an epoch file it marks every session and comes up empty; a store of ours refuses to.
FORGETS = "c20_epoch_missing"
AFTER = [
    case
    for case, variant in every()
    if variant == "dir_after" and case not in (DESIGNED, FORGETS) and not aborted(case, "dir")
]


@pytest.mark.parametrize("case", AFTER)
def test_a_directory_that_was_opened_has_the_recorded_files(case, tmp_path):
    ours, theirs = lay_out(case, "dir", tmp_path), lay_out(case, "dir_after", tmp_path)
    times = iter(recorded_times(theirs))
    instance = lay.decode_manifest((theirs / lay.MANIFEST_FILE).read_bytes()).instance
    with Datastore(ours, clock=lambda: next(times), instance=lambda: instance, keep_superseded=True) as store:
        store.write_snapshot()
    assert differing(files_of(ours), files_of(theirs)) == OPENED.get(case, set())
