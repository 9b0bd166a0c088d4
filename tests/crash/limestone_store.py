"""Crash scenarios of `Datastore`. An item of the history is one session: its epoch and what it writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from flintlog.core.journal import tree
from flintlog.core.log import Log
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.dialect import DIALECT
from flintlog.dialects.limestone.store import Channel, Datastore, epoch_file
from flintlog.dialects.limestone.upkeep.migrate import plan_migrate
from flintlog.disk import Disk
from flintlog.testing import History, Scenario, Suite

ROOT = "/srv/log"
NOW = 1_800_000_000.0
State = frozenset[tuple[int, bytes, bytes]]


@dataclass(frozen=True)
class Written:
    """A session; a value of None removes the key."""

    epoch: int
    changes: tuple[tuple[int, bytes, bytes | None], ...]


@dataclass(frozen=True)
class Forgotten:
    """The directory is opened: sessions above an epoch, which was durable, are gone."""

    epoch: int


Item = Written | Forgotten


def remembered(items: Sequence[Item]) -> list[Written]:
    """The sessions that are left after each opening."""
    kept: list[Written] = []
    for item in items:
        if isinstance(item, Forgotten):
            kept = [session for session in kept if session.epoch <= item.epoch]
        else:
            kept.append(item)
    return kept


def state_at(items: Sequence[Item], epoch: int) -> State:
    state: dict[tuple[int, bytes], bytes] = {}
    sessions = (item for item in remembered(items) if item.epoch <= epoch)
    for item in sorted(sessions, key=lambda item: item.epoch):
        for storage, key, value in item.changes:
            if value is None:
                state.pop((storage, key), None)
            else:
                state[storage, key] = value
    return frozenset((storage, key, value) for (storage, key), value in state.items())


def opened(disk: Disk, **options: Any) -> Datastore:
    ticks = iter(range(10**6))
    return Datastore(
        ROOT,
        disk=disk,
        clock=lambda: NOW + next(ticks) / 100,
        instance=lambda: "f71dffa3-e8a9-4833-ab36-191b88d518e9",
        **options,
    )


class Driver:
    """An application that notes what it does: sessions are acknowledged when their epoch is durable."""

    def __init__(self, disk: Disk, history: History[Item], *, snapshot: bool = False, **options: Any) -> None:
        self.store = opened(disk, snapshot=snapshot, **options)
        self._history = history
        self._waiting: list[Written] = []
        self.channels = [self.store.channel(), self.store.channel()]
        history.opened(self._probe, self.store.switch_epoch)

    def _probe(self) -> None:
        with self.store.channel().session() as session:
            session.put(1, b"refused", b"")

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *exc: object) -> None:
        self.store.close()

    @contextmanager
    def session(self, channel: int, *changes: tuple[int, bytes, bytes | None]) -> Any:
        """A session that stays open for as long as the block."""
        item = Written(self.store.epoch, changes)
        self._history.issue(item)
        with self.channels[channel].session() as session:
            for storage, key, value in changes:
                if value is None:
                    session.remove(storage, key)
                else:
                    session.put(storage, key, value)
            yield session
        self._waiting.append(item)

    def write(self, channel: int, *changes: tuple[int, bytes, bytes | None]) -> None:
        with self.session(channel, *changes):
            pass

    def switch(self) -> None:
        self.store.switch_epoch()
        for item in [item for item in self._waiting if item.epoch <= self.store.durable_epoch]:
            self._waiting.remove(item)
            self._history.acknowledge(item)


def rows_of(disk: Disk, root: str = ROOT) -> list[dict[str, Any]]:
    return [row for batch in Log(DIALECT, disk, root).state() for row in batch.to_pylist()]


class LogOracle:
    def recover(self, disk: Disk) -> State:
        with opened(disk, snapshot=False) as store:
            return frozenset(
                (
                    int(row["storage_id"]),
                    row["key"],
                    row["value"] or b"".join(store.blobs.read(int(number)) for number in row["blob_ids"]),
                )
                for row in rows_of(disk)
            )

    def check(self, observed: State, issued: Sequence[Item], acknowledged: Sequence[Item]) -> str | None:
        least = max((item.epoch for item in acknowledged), default=0)
        epochs = {least, *(item.epoch for item in issued if item.epoch > least)}
        allowed = [state_at(issued, epoch) for epoch in epochs]
        openings = [at for at, item in enumerate(issued) if isinstance(item, Forgotten)]
        if openings and not any(item in acknowledged for item in issued[openings[-1] :]):
            allowed += [
                state_at(issued[: openings[-1]], epoch) for epoch in epochs
            ]  # it may not have happened
        return None if observed in allowed else f"{sorted(observed)} is none of {allowed}"

    def extend(self, disk: Disk, observed: State) -> State:
        with opened(disk, snapshot=False) as store:
            with store.channel().session() as session:
                session.put(9, b"one", b"more")
            store.switch_epoch()
        return frozenset(item for item in observed if item[:2] != (9, b"one")) | {(9, b"one", b"more")}


def life(disk: Disk, history: History[Item], **options: Any) -> None:
    """A new directory, two channels whose sessions overlap, epochs that wait for each other."""
    with Driver(disk, history, snapshot=True, **options) as app:
        app.write(0, (1, b"a", b"1"), (1, b"b", b"2"))
        with app.session(1, (2, b"c", b"3")):
            app.switch()
            app.write(0, (1, b"a", None))
        app.switch()
        app.write(1, (1, b"b", b"4"))
        app.write(1, (1, b"d", b"5"))
        app.switch()


def opens_again(disk: Disk, history: History[Item], **options: Any) -> None:
    """Closed with a session that is not durable, and opened."""
    with Driver(disk, history, **options) as app:
        app.write(0, (1, b"a", b"1"))
        app.switch()
        app.write(0, (1, b"a", b"never durable"))
    history.issue(Forgotten(1))
    with Driver(disk, history) as app:
        app.write(0, (1, b"b", b"2"))
        app.switch()


def rotates(disk: Disk, history: History[Item], **options: Any) -> None:
    """Logs get other names while a session is open."""
    with Driver(disk, history, **options) as app:
        app.write(0, (1, b"a", b"1"))
        app.switch()
        with app.session(1, (1, b"b", b"2")):
            app.store.rotate()
            app.write(0, (1, b"c", b"3"))
        app.switch()
        app.write(1, (1, b"d", b"4"))
        app.switch()


def begins_before_a_rotation(disk: Disk, history: History[Item], **options: Any) -> None:
    """The first session of a process is open when its log gets another name, and ends there."""
    with Driver(disk, history, **options) as app:
        with app.session(0, (1, b"a", b"1")):
            [name] = app.store.rotate()
            app.write(1, (1, b"b", b"2"))
        assert disk.stat(f"{ROOT}/pwal_0000") is None and disk.stat(f"{ROOT}/{name}") is not None
        app.switch()
        app.write(0, (1, b"c", b"3"))
        app.switch()


def compacts(disk: Disk, history: History[Item], **options: Any) -> None:
    """Two compactions, the second while a session is open."""
    with Driver(disk, history, **options) as app:
        app.write(0, (1, b"a", b"1"), (1, b"b", b"2"))
        app.switch()
        assert app.store.compact() is not None
        app.write(1, (1, b"a", None), (1, b"c", b"3"))
        app.switch()
        with app.session(0, (1, b"d", b"4")):
            assert app.store.compact() is not None
        app.switch()


def serves_a_snapshot(disk: Disk, history: History[Item], **options: Any) -> None:
    """The state at opening, whose places are too many for the memory, is written by a compaction and when asked for."""
    with Driver(disk, history, **options) as app:
        app.write(0, (1, b"a", b"1"), (1, b"b", b"2"))
        app.switch()
    with Driver(disk, history, snapshot=True, memory_bytes=1) as app:
        shot = app.store.snapshot
        assert shot is not None
        app.write(1, (1, b"a", None))
        app.switch()
        assert app.store.get(1, b"a") is None
        assert app.store.compact() is not None
        app.write(0, (1, b"c", b"3"))
        app.switch()
        assert [entry.key for entry in app.store.scan(1)] == [b"b", b"c"]
        app.store.write_snapshot()
        assert [(entry.key, entry.value) for entry in shot.scan()] == [(b"a", b"1"), (b"b", b"2")]
    with Driver(disk, history, snapshot=True) as app:
        app.write(0, (1, b"d", b"4"))
        app.switch()


def compacted_once(disk: Disk, history: History[Item], **options: Any) -> None:
    """A directory with a compacted file."""
    with Driver(disk, history, **options) as app:
        app.write(0, (1, b"a", b"1"))
        app.switch()
        assert app.store.compact() is not None


def compacts_again(disk: Disk, history: History[Item]) -> None:
    """A compaction on top of another."""
    with Driver(disk, history) as app:
        app.write(1, (1, b"a", None))
        app.switch()
        assert app.store.compact() is not None


def rolls_epochs(disk: Disk, history: History[Item]) -> None:
    """The epoch file of the shipped edition begins anew after some records."""
    usual, epoch_file.RECORDS_MAX = epoch_file.RECORDS_MAX, 2
    try:
        with Driver(disk, history, edition="shipped") as app:
            for key in (b"a", b"b", b"c"):
                app.write(0, (1, key, b"1"))
                app.switch()
    finally:
        epoch_file.RECORDS_MAX = usual


def keeps_blobs(disk: Disk, history: History[Item]) -> None:
    """A value is the number of a blob, which is there whenever the entry is."""
    with Driver(disk, history, edition="shipped") as app:
        item = Written(app.store.epoch, ((1, b"blob", b"content"),))
        history.issue(item)
        number = app.store.blobs.add(b"content")
        with app.channels[0].session() as session:
            session.put(1, b"blob", b"", blobs=[number])
        app.store.switch_epoch()
        history.acknowledge(item)


def is_aborted(disk: Disk, history: History[Item], **options: Any) -> None:
    """A session that was written in part and then given up."""
    with Driver(disk, history, flush_bytes=16, **options) as app:
        app.write(0, (1, b"a", b"1"))
        channel = app.channels[1]
        _abort(channel)
        app.switch()
        app.write(1, (1, b"b", b"2"))
        app.switch()


def _abort(channel: Channel) -> None:
    try:
        with channel.session() as session:
            session.put(1, b"given up", b"x" * 20)
            raise KeyError
    except KeyError:
        pass


def first_version(disk: Disk, history: History[Item]) -> None:
    """A directory of version 1, as the first release of the original left it."""
    item = Written(1, ((1, b"a", b"1"), (1, b"b", b"2")))
    history.issue(item)
    disk.make_directory(ROOT)
    entries = b"".join(lay.put(1, key, value or b"", (1, 0)).encode() for _, key, value in item.changes)
    for name, content in (
        (lay.MANIFEST_FILE, lay.Manifest(1).encode()),
        ("pwal_0000", lay.encode_begin(1) + entries),
        (lay.EPOCH_FILE, lay.encode_durable(1)),
    ):
        with disk.open(f"{ROOT}/{name}", "create") as file:
            file.pwrite(content, 0)
            file.sync()
    disk.sync_directory(ROOT)
    history.acknowledge(item)


def first_version_compacted(disk: Disk, history: History[Item]) -> None:
    """The same, and its only log has the name that compacted files had then."""
    first_version(disk, history)
    disk.rename(f"{ROOT}/pwal_0000", f"{ROOT}/{lay.COMPACTED_FILE}")
    disk.sync_directory(ROOT)


def fifth_version(disk: Disk, history: History[Item]) -> None:
    """A directory of version 5 of the original, before there were end markers: opening rotates its logs."""
    first_version(disk, history)
    manifest = lay.Manifest(5, "1.1", "f71dffa3-e8a9-4833-ab36-191b88d518e9")
    with disk.open(f"{ROOT}/{lay.MANIFEST_FILE}", "create") as file:
        file.truncate(0)
        file.pwrite(manifest.encode(), 0)
        file.sync()


def begun_epochs(disk: Disk, history: History[Item]) -> None:
    """A directory whose epoch file was rotated, and a crash came before there was a new one."""
    first_version(disk, history)
    with disk.open(f"{ROOT}/{lay.MANIFEST_FILE}", "create") as file:
        file.pwrite(lay.Manifest(2).encode(), 0)
        file.sync()
    disk.rename(f"{ROOT}/{lay.EPOCH_FILE}", f"{ROOT}/{lay.rotated_epoch_name(1, 1)}")
    disk.sync_directory(ROOT)


def _shipped(disk: Disk, history: History[Item], files: dict[str, bytes]) -> None:
    """A directory of the original with two keys in a compacted file, and in a log that the catalog lists."""
    item = Written(1, ((1, b"a", b"1"), (1, b"b", b"2")))
    history.issue(item)
    disk.make_directory(ROOT)
    entries = b"".join(lay.put(1, key, value or b"", (1, 0)).encode() for _, key, value in item.changes)
    rotated = lay.rotated_name(0, 1)
    log = lay.encode_begin(1) + entries + lay.encode_end(1)
    catalog = lay.Catalog({lay.COMPACTED_FILE: 1}, frozenset({rotated}), 1)
    contents = {
        lay.MANIFEST_FILE: lay.Manifest(7, "1.1", "f71dffa3-e8a9-4833-ab36-191b88d518e9").encode(),
        rotated: log,
        lay.EPOCH_FILE: lay.encode_durable(1),
        lay.CATALOG_FILE: catalog.encode(),
        lay.COMPACTED_FILE: lay.encode_begin(0) + entries,
    }
    for name, source in files.items():
        contents[name] = contents.pop(source.decode()) if source else b""
    for name, content in contents.items():
        with disk.open(f"{ROOT}/{name}", "create") as file:
            file.pwrite(content, 0)
            file.sync()
    disk.sync_directory(ROOT)
    history.acknowledge(item)


def only_previous(disk: Disk, history: History[Item]) -> None:
    """A compaction of the original was killed when it had renamed the file before."""
    _shipped(disk, history, {lay.COMPACTED_PREVIOUS: lay.COMPACTED_FILE.encode()})


def only_back(disk: Disk, history: History[Item]) -> None:
    """It was killed when it had renamed the catalog."""
    _shipped(disk, history, {lay.CATALOG_BACK: lay.CATALOG_FILE.encode()})


def two_catalogs(disk: Disk, history: History[Item]) -> None:
    """A second compaction was killed when its catalog stood beside the one before it, and nothing was removed."""
    compacted_once(disk, history)
    with Driver(disk, history) as app:
        app.write(0, (1, b"b", b"2"))
        app.switch()
        app.store.rotate()
    before = {name: disk.read(f"{ROOT}/{name}", 1 << 20) for name in tree(disk, ROOT)}
    with opened(disk, snapshot=False) as store:
        assert store.compact() is not None
    before[lay.CATALOG_BACK] = before.pop(lay.CATALOG_FILE)
    for name, content in before.items():
        if disk.stat(f"{ROOT}/{name}") is None:
            with disk.open(f"{ROOT}/{name}", "create") as file:
                file.pwrite(content, 0)
                file.sync()
    disk.sync_directory(ROOT)


def goes_on(disk: Disk, history: History[Item]) -> None:
    """A directory that a crash left is opened and written to."""
    with Driver(disk, history) as app:
        app.write(0, (1, b"a", None))
        app.switch()


def migrates(disk: Disk, history: History[Item]) -> None:
    """Version 1 becomes version 2 by opening it."""
    with Driver(disk, history) as app:
        app.write(0, (1, b"c", b"3"))
        app.switch()


def switches_by_itself(disk: Disk, history: History[Item]) -> None:
    """Epochs of the automatic mode; closing it makes durable what was put. No switch comes by the clock."""
    with opened(disk, snapshot=False) as store:
        history.opened(store.switch_epoch)
        for key in (b"a", b"b"):
            with store.automatic(interval=3600) as auto:
                first = Written(store.epoch, ((1, key, b"1"),))
                history.issue(first)
                auto.put(1, key, b"1")
                auto._switch()
                history.acknowledge(first)
                second = Written(store.epoch, ((1, key, b"2"), (2, key, b"3")))
                history.issue(second)
                auto.put(1, key, b"2")
                auto.put_many(2, [key], [b"3"])
            history.acknowledge(second)


def upgrades(disk: Disk, history: History[Item]) -> None:
    """The same by the verb."""
    plan_migrate(disk, ROOT).apply()


def _of(edition: str, *runs: Callable[..., None], atomic_bytes: int = 1) -> list[Scenario[Item]]:
    return [
        Scenario(
            f"{edition}-{run.__name__.replace('_', '-')}",
            partial(run, edition=edition),
            atomic_bytes=atomic_bytes,
        )
        for run in runs
    ]


SUITE = Suite(
    "tests.crash.limestone_store:SUITE",
    LogOracle(),
    (
        *_of("designed", opens_again),
        *_of(
            "designed", life, rotates, begins_before_a_rotation, compacts, is_aborted, atomic_bytes=4
        ),  # torn in larger pieces: they are long
        *_of("designed", serves_a_snapshot, atomic_bytes=4),
        Scenario("goes-on-without-an-epoch-file", migrates, prepare=begun_epochs),
        Scenario("migrates", migrates, prepare=first_version),
        Scenario("migrates-a-compacted-log", migrates, prepare=first_version_compacted, atomic_bytes=4),
        Scenario("upgrades", upgrades, prepare=first_version),
        Scenario("migrates-shipped", migrates, prepare=fifth_version, atomic_bytes=4),
        *_of("shipped", opens_again, rotates, begins_before_a_rotation, is_aborted, atomic_bytes=4),
        Scenario(
            "shipped-compacts",
            compacts_again,
            prepare=partial(compacted_once, edition="shipped"),
            atomic_bytes=4,
        ),
        Scenario("rolls-epochs", rolls_epochs, atomic_bytes=4),
        Scenario("switches-by-itself", switches_by_itself, atomic_bytes=4),
        Scenario("keeps-blobs", keeps_blobs),
        Scenario("goes-on-with-the-compacted-file-before", goes_on, prepare=only_previous),
        Scenario("goes-on-with-the-catalog-before", goes_on, prepare=only_back),
        Scenario("goes-on-between-two-catalogs", goes_on, prepare=two_catalogs, atomic_bytes=4),
    ),
)
