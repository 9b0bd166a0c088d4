"""The original's ways to lose data, each as a story that ours survives; the letters are those of `docs/limestone.md`.

Directories that show a defect come from the original itself. The story is then told once more to our store.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.limestone.recorded import errs, lay_out, rows_of

from flintlog.core.log import Log
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.dialect import DIALECT
from flintlog.dialects.limestone.layout import Catalog, Manifest
from flintlog.dialects.limestone.store import Datastore
from flintlog.disk import Disk
from flintlog.errors import DamageError

BOTH = pytest.mark.parametrize("edition", ["designed", "shipped"])


def rows(path: Path | str, **options) -> dict[tuple[int, bytes], bytes]:
    """What opening gives; each directory is opened twice, because the original's second start may differ."""
    found = []
    for _ in range(2):
        with Datastore(path, **options) as store:
            found.append({(entry.storage, entry.key): entry.value for entry in store.snapshot.scan()})
    assert found[0] == found[1]
    return found[0]


def put(channel, key: bytes, value: bytes | None, *, switch: bool = True, blobs=()) -> None:
    with channel.session() as session:
        if value is None:
            session.remove(1, key)
        else:
            session.put(1, key, value, blobs=blobs)
    if switch:
        channel.store.switch_epoch()


@BOTH
def test_a_a_session_that_races_a_rotation_is_not_lost(edition, tmp_path):
    """A session of the next epoch begins before the rename and ends behind it, in the rotated log."""
    with Datastore(tmp_path, edition=edition, flush_bytes=16) as store:
        racing, other = store.channel(), store.channel()
        put(other, b"before", b"1")
        with racing.session() as session:
            session.put(1, b"racing", b"flushed before the rotation" * 2)
            assert store.compact() is not None
            session.put(1, b"racing too", b"written behind it" * 2)
        store.switch_epoch()
        assert store.durable_epoch == 2
        put(racing, b"later", b"2")
        expected = {b"before", b"racing", b"racing too", b"later"}
    assert {key for _, key in rows(tmp_path)} == expected
    with Datastore(tmp_path) as store:
        assert store.compact() is not None
    assert {key for _, key in rows(tmp_path)} == expected


@pytest.mark.parametrize("variant", ["dir", "dir_prev_not_unlinked"])
def test_b_a_compacted_file_before_the_last_is_not_taken_for_newer(variant, tmp_path):
    path = lay_out("c46_compaction_killpoints", variant, tmp_path)
    assert errs("c46_compaction_killpoints", variant)
    assert rows(path) == rows_of("c46_compaction_killpoints", variant)
    assert not (path / lay.COMPACTED_PREVIOUS).exists()
    with Datastore(path) as store:  # and it blocks no compaction
        put(store.channel(), b"k9", b"more")
        assert store.compact() is not None
    assert rows(path)[1, b"k9"] == b"more"


@pytest.mark.parametrize(
    "case", ["c26_catalog_missing_back", "c31_compacted_not_in_catalog", "c32_offline_compaction_then_remove"]
)
def test_c_a_removal_of_a_compacted_key_lasts_whatever_the_catalog_lists(case, tmp_path):
    path = lay_out(case, "dir", tmp_path)
    assert errs(case, "dir")
    assert rows(path) == rows_of(case, "dir")


def test_c_the_catalog_lists_the_compacted_file_from_then_on(tmp_path):
    """So that the original remembers removals, too."""
    path = lay_out("c32_offline_compaction_then_remove", "dir", tmp_path)
    rows(path)
    assert lay.COMPACTED_FILE in lay.decode_catalog((path / lay.CATALOG_FILE).read_bytes()).compacted


@BOTH
def test_c_a_removal_behind_a_compaction_lasts(edition, tmp_path):
    with Datastore(tmp_path, edition=edition) as store:
        channel = store.channel()
        put(channel, b"k", b"v")
        store.compact()
        put(channel, b"k", None)
    assert rows(tmp_path) == {}


@pytest.mark.parametrize("case", ["c24_catalog_incomplete_back", "c26_catalog_missing_back"])
def test_d_the_catalog_before_it_holds_alone(case, tmp_path):
    """Never a mixture of two, and never none where there is one."""
    path = lay_out(case, "dir", tmp_path)
    assert errs(case, "dir")
    back = lay.decode_catalog((path / lay.CATALOG_BACK).read_bytes())
    assert rows(path) == rows_of(case, "dir")
    assert lay.decode_catalog((path / lay.CATALOG_FILE).read_bytes()) == back


def test_e_a_compaction_in_the_process_that_migrated_leaves_no_log_out(tmp_path):
    """Of the original's directory, and in one life of ours: version 4 is opened, written to and compacted."""
    case = "c36_migration_then_compaction_stale"
    theirs = lay_out(case, "dir", tmp_path)
    assert errs(case, "dir")
    assert rows(theirs) == rows_of(case, "dir")
    path = tmp_path / "ours"
    with Datastore(path, edition="shipped") as store:
        put(store.channel(), b"k1", b"old")
    (path / lay.MANIFEST_FILE).write_bytes(Manifest(4).encode())
    with Datastore(path) as store:
        put(store.channel(), b"k1", b"new")
        done = store.compact()
        assert len(done.superseded) == 2  # the log that was rotated by the migration, and the new one
    assert rows(path) == {(1, b"k1"): b"new"}


@BOTH
def test_f_an_epoch_is_not_durable_while_its_second_session_is_open(edition, tmp_path):
    """A crash then leaves a torn session that nobody was told of, and the directory opens."""
    told = []
    with Datastore(tmp_path, edition=edition, on_durable=told.append, flush_bytes=64) as store:
        channel = store.channel()
        store.switch_epoch(5)
        told.clear()
        put(channel, b"a", b"first session", switch=False)
        session = channel.begin()
        session.put(1, b"big", b"x" * 100)
        store.switch_epoch(6)
        assert (told, store.durable_epoch) == ([], 4)
    raw = (tmp_path / "pwal_0000").read_bytes()
    (tmp_path / "pwal_0000").write_bytes(raw[:-7])
    assert rows(tmp_path) == {}


def test_f_the_directory_that_the_original_left_is_refused_with_its_place(tmp_path):
    """Its epoch file says durable and the session is torn: what is lost, nobody can tell."""
    path = lay_out("c44_second_session_same_epoch", "dir", tmp_path)
    with pytest.raises(DamageError) as caught:
        Datastore(path)
    assert (caught.value.file, caught.value.offset) == (f"{path}/pwal_0000", 4055)


def test_g_a_blob_that_is_logged_behind_a_compaction_is_still_there(tmp_path):
    with Datastore(tmp_path, edition="shipped") as store:
        channel = store.channel()
        put(channel, b"k0", b"v0")
        number = store.blobs.add(b"registered before the compaction")
        assert store.compact() is not None
        following = store.blobs.add(b"the next one")
        put(channel, b"k1", b"v1", blobs=[number])
        put(channel, b"k2", b"v2", blobs=[following])
        assert store.compact() is not None
    with Datastore(tmp_path) as store:
        assert store.blobs.read(number) == b"registered before the compaction"
        assert store.blobs.read(following) == b"the next one"
    assert Log(DIALECT, Disk(), str(tmp_path)).verify().verdict == "clean"


def test_g_the_blob_that_the_original_removed_is_missed(tmp_path):
    path = lay_out("c45_online_gc_uncommitted_blob", "dir", tmp_path)
    seen = Log(DIALECT, Disk(), str(path)).verify()
    assert [item.code for item in seen.findings] == ["blob-missing"]


def test_j_a_torn_record_of_the_epoch_file_is_cut(tmp_path):
    """It was never acknowledged. Every length of it, and in our own directory as well."""
    path = lay_out("c21_epoch_torn", "dir", tmp_path)
    assert rows(path) == {(1, b"a"): b"a1", (1, b"b"): b"b1", (1, b"c"): b"c1"}
    for edition in ("designed", "shipped"):
        for size in range(1, lay.MARKER_SIZE):
            ours = tmp_path / edition / str(size)
            with Datastore(ours, edition=edition) as store:
                put(store.channel(), b"k", b"v")
            epoch = ours / lay.EPOCH_FILE
            epoch.write_bytes(epoch.read_bytes() + lay.encode_durable(2)[:size])
            assert rows(ours) == {(1, b"k"): b"v"}
            assert epoch.stat().st_size % lay.MARKER_SIZE == 0


def test_h_a_catalog_never_names_a_compacted_file_that_is_not_whole(tmp_path):
    """The order of writes and syncs is proved by the crash suite; here is what a reader says of the contrary."""
    with Datastore(tmp_path, edition="shipped") as store:
        put(store.channel(), b"k", b"v" * 100)
        store.compact()
    compacted = tmp_path / lay.COMPACTED_FILE
    compacted.write_bytes(compacted.read_bytes()[:-10])
    with pytest.raises(DamageError) as caught:
        Datastore(tmp_path)
    assert caught.value.file == str(compacted)
    compacted.unlink()
    with pytest.raises(DamageError) as caught:
        Datastore(tmp_path)
    assert caught.value.code == "compacted-missing"
    assert lay.decode_catalog((tmp_path / lay.CATALOG_FILE).read_bytes()) != Catalog()
