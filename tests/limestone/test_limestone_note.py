"""What the design note says of files and their order, in directories of the designed edition."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.golden_cases import snapshot_of
from tests.limestone.directories import Directory, session

from flintlog.core.log import Log
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.dialect import DIALECT
from flintlog.dialects.limestone.layout import Manifest
from flintlog.dialects.limestone.store import Datastore
from flintlog.disk import Disk
from flintlog.testing import MemoryKernel
from flintlog.testing.calls import Create, Rename, Unlink


def write(store: Datastore, key: bytes, value: bytes = b"v") -> None:
    with store.channel().session() as one:
        one.put(1, key, value)
    store.switch_epoch()


def keys(path: Path) -> list[bytes]:
    with Datastore(path) as store:
        return [entry.key for entry in store.snapshot.scan()]


def catalog(path: Path) -> lay.Catalog:
    return lay.decode_catalog((path / lay.CATALOG_FILE).read_bytes())


@pytest.mark.parametrize("empty", [False, True])
def test_a_new_directory_has_version_2_an_empty_catalog_and_an_epoch_file(empty, tmp_path):
    root = tmp_path / "log"
    if empty:
        root.mkdir()
    Datastore(root, snapshot=False).close()
    assert snapshot_of(root) == {
        lay.MANIFEST_FILE: b'{\n    "format_version": "1.0",\n    "persistent_format_version": 2\n}',
        lay.CATALOG_FILE: b"COMPACTION_CATALOG_HEADER\nMAX_EPOCH_ID 0\nCOMPACTION_CATALOG_FOOTER\n",
        lay.EPOCH_FILE: b"",
    }


def test_a_session_is_its_epoch_and_its_entries_without_an_end(tmp_path):
    with Datastore(tmp_path, snapshot=False) as store:
        store.switch_epoch(7)
        with store.channel().session() as one:
            one.put(1, b"k1", b"v1", (7, 0))
            store.switch_epoch(9)  # its epoch stays the one that it began in
            one.remove(2, b"k2", (7, 1))
        store.switch_epoch()
    assert (tmp_path / "pwal_0000").read_bytes().hex() == (
        "02" "0700000000000000"
        "01" "02000000" "02000000" "0100000000000000" "6b31" "0700000000000000" "0000000000000000" "7631"
        "05" "02000000" "0200000000000000" "6b32" "0700000000000000" "0100000000000000"
    )  # fmt: skip


def test_durable_epochs_are_appended_to_the_epoch_file_and_no_record_goes(tmp_path):
    with Datastore(tmp_path, snapshot=False) as store:
        channel = store.channel()
        for _ in range(120):
            with channel.session() as one:
                one.put(1, b"k", b"v")
            store.switch_epoch()
    records = b"".join(lay.encode_durable(epoch) for epoch in range(1, 121))
    assert (tmp_path / lay.EPOCH_FILE).read_bytes() == records


def test_a_session_that_is_open_at_a_rotation_ends_in_the_rotated_file_and_no_other_does(tmp_path):
    with Datastore(tmp_path, clock=lambda: 1_700_000_000.5, flush_bytes=1) as store:
        busy, idle = store.channel(), store.channel()
        for channel in (busy, idle):
            with channel.session() as one:
                one.put(1, b"before", b"")
        with busy.session() as one:
            one.put(1, b"open", b"")
            rotated = {name[:9]: tmp_path / name for name in store.rotate() if name.startswith("pwal_")}
            left = {name: path.read_bytes() for name, path in rotated.items()}
            one.put(1, b"until its end", b"")
        for channel in (busy, idle):
            with channel.session() as one:
                one.put(1, b"behind", b"")
        store.switch_epoch()
        assert sorted(rotated) == ["pwal_0000", "pwal_0001"]
        grown = {name: path.read_bytes()[len(left[name]) :] for name, path in rotated.items()}
        assert b"until its end" in grown["pwal_0000"] and b"behind" not in grown["pwal_0000"]
        assert grown["pwal_0001"] == b""
        for name in rotated:
            assert b"behind" in (tmp_path / name).read_bytes()
    assert keys(tmp_path) == [b"before", b"behind", b"open", b"until its end"]


def test_the_snapshot_is_that_of_the_last_start_and_stays_when_the_store_is_closed(tmp_path):
    with Datastore(tmp_path) as store:
        write(store, b"a")
    with Datastore(tmp_path) as store:
        write(store, b"b")
        store.write_snapshot()
    first = (tmp_path / lay.SNAPSHOT_FILE).read_bytes()
    assert first == lay.encode_begin(0) + lay.put(1, b"a", b"v", (1, 0)).encode()
    with Datastore(tmp_path) as store:
        assert not (tmp_path / lay.SNAPSHOT_FILE).exists()
        store.write_snapshot()
    assert (tmp_path / lay.SNAPSHOT_FILE).read_bytes() == first + lay.put(1, b"b", b"v", (2, 0)).encode()
    shutil.rmtree(tmp_path / "data")
    assert keys(tmp_path) == [b"a", b"b"]


@pytest.mark.parametrize("main", [None, b"", b'{\n    "format', Manifest(2).encode()])
def test_while_the_old_manifest_is_there_it_is_the_truth(main, tmp_path):
    """The change from version 1 to 2 was interrupted: it is taken back, and made again."""
    made = Directory(tmp_path / "log", "designed").start(1).log(session(1, "a")).remove(lay.CATALOG_FILE)
    made.remove(lay.MANIFEST_FILE).write(lay.MANIFEST_BACK, Manifest(1).encode())
    if main is not None:
        made.write(lay.MANIFEST_FILE, main)
    assert Log(DIALECT, Disk(), str(made.root)).inspect().facts["version"] == 1
    assert keys(made.root) == [b"a"]
    assert (made.root / lay.MANIFEST_FILE).read_bytes() == Manifest(2).encode()
    assert not (made.root / lay.MANIFEST_BACK).exists()


def test_a_catalog_lists_what_was_compacted_and_no_log_that_is_gone(tmp_path):
    with Datastore(tmp_path) as store:
        seen = set()
        for number in range(3):
            write(store, b"%d" % number)
            there = set(store.rotate())
            done = store.compact()
            found = catalog(tmp_path)
            assert found.compacted == dict.fromkeys(done.files, 1)
            assert all(lay.CMPCT_NAME.fullmatch(name) for name in done.files)
            assert found.detached == {name for name in there if name.startswith("pwal_")}
            assert not found.detached & seen
            seen |= found.detached
            assert (tmp_path / done.files[0]).read_bytes()[:9] == lay.encode_begin(found.max_epoch)


def test_the_switch_of_catalogs_has_the_notes_order():
    kernel = MemoryKernel()
    with Datastore("/log", disk=Disk(kernel)) as store:
        write(store, b"a")
        store.compact()
        write(store, b"b")
        begin = len(kernel.log)
        done = store.compact()
    [name] = done.files
    calls = [call for call in kernel.log[begin:] if isinstance(call, Create | Rename | Unlink)]
    switch = [
        (type(call), call.name, getattr(call, "new_name", None))
        for call in calls
        if call.name.startswith(("compaction_catalog", "cmpct_"))
    ]
    assert switch == [
        (Create, f"{name}.tmp", None),
        (Rename, lay.CATALOG_FILE, lay.CATALOG_BACK),
        (Create, lay.CATALOG_FILE, None),
        (Rename, f"{name}.tmp", name),
        (Unlink, lay.CATALOG_BACK, None),
        *((Unlink, gone, None) for gone in done.superseded if gone.startswith("cmpct_")),
    ]
    unlinked = [call.name for call in calls if isinstance(call, Unlink)]
    assert unlinked[0] == lay.CATALOG_BACK and set(done.superseded) < set(unlinked)  # only then old files go


def test_an_unfinished_switch_is_rolled_back_by_opening(tmp_path):
    """From before the switch to its last step; the compacted files go under both their names, rotated logs stay."""
    with Datastore(tmp_path / "log", keep_superseded=True) as store:
        write(store, b"a")
        [first] = store.compact().files
        write(store, b"b")
        old, kept = ((tmp_path / "log" / name).read_bytes() for name in (lay.CATALOG_FILE, first))
        [second] = store.compact().files
    new = (tmp_path / "log" / lay.CATALOG_FILE).read_bytes()
    logs = {path.name for path in (tmp_path / "log").glob("pwal_*")}
    steps = {
        "in the making": (old, None, f"{second}.tmp"),
        "renamed": (None, old, f"{second}.tmp"),
        "torn": (new[:60], old, f"{second}.tmp"),
        "written": (new, old, f"{second}.tmp"),
        "named": (new, old, second),
    }
    for step, (main, back, compacted) in steps.items():
        root = tmp_path / step.replace(" ", "-")
        shutil.copytree(tmp_path / "log", root)
        (root / second).rename(root / compacted)
        (root / first).write_bytes(kept)
        for name, raw in ((lay.CATALOG_FILE, main), (lay.CATALOG_BACK, back)):
            (root / name).unlink(missing_ok=True)
            if raw is not None:
                (root / name).write_bytes(raw)
        assert keys(root) == [b"a", b"b"], step
        names = {name.partition("/")[0] for name in snapshot_of(root)}
        assert {name for name in names if name.startswith(("cmpct_", "compaction_catalog"))} == {
            first,
            lay.CATALOG_FILE,
        }, step
        assert (root / lay.CATALOG_FILE).read_bytes() == old, step
        assert {name for name in names if name.startswith("pwal_")} == logs, step
