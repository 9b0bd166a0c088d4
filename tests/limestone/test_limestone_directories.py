"""Directories put together by hand: what counts and what does not, in both editions, whatever a crash left."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.limestone.directories import CASES, ROTATED, Directory, designed, entry, session, shipped
from tests.limestone.snippets import Session, encoded

from flintlog.core.dialect import EntryQuery
from flintlog.core.finding import Severity, verdict
from flintlog.core.log import Log
from flintlog.dialects.limestone import entries, scan, survey
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.dialect import DIALECT
from flintlog.dialects.limestone.layout import Catalog, Manifest
from flintlog.disk import Disk
from flintlog.errors import DamageError, FlintlogError, NotALogError, UsageError
from flintlog.testing import MemoryKernel, State

pytestmark = pytest.mark.usefixtures("still")


def keys(directory: Directory, as_of: int | None = None) -> str:
    """The live keys, joined."""
    rows = state_of(directory, as_of)
    return " ".join(row["key"].decode() for row in rows)


def values(directory: Directory) -> dict[str, str]:
    return {row["key"].decode(): row["value"].decode() for row in state_of(directory)}


def state_of(directory: Directory, as_of: int | None = None):
    position = None if as_of is None else (as_of,)
    return [
        row
        for batch in Log(DIALECT, Disk(), str(directory.root)).state(position)
        for row in batch.to_pylist()
    ]


def codes(directory: Directory) -> list[str]:
    return [item.code for item in Log(DIALECT, Disk(), str(directory.root)).verify().findings]


@pytest.mark.parametrize(("code", "make"), CASES)
def test_every_finding_has_a_directory_that_shows_it_and_nothing_graver(code, make, tmp_path):
    make(tmp_path / "log")
    findings = Log(DIALECT, Disk(), str(tmp_path / "log")).verify().findings
    mine = [item for item in findings if item.code == code]
    assert mine
    assert verdict(findings) == verdict(mine)
    refused = mine[0].severity in (Severity.CORRUPT, Severity.UNSUPPORTED) and code != "blob-missing"
    try:
        for batch in Log(DIALECT, Disk(), str(tmp_path / "log")).state():
            assert batch.num_rows
    except FlintlogError as error:
        assert refused
        assert error.file == f"{tmp_path / 'log'}/{mine[0].file}"
    else:
        assert not refused


# --- what a crash leaves -----------------------------------------------------------------------------------------


@pytest.mark.sampled(8)
@pytest.mark.parametrize("edition", ["designed", "shipped"])
@pytest.mark.parametrize("durable", [5, 0x0105, 0x01FF, 0xFFFF])
def test_a_session_that_a_crash_tears_anywhere_costs_nothing_durable(edition, durable, tmp_path):
    """The next session arrives in part: cut at every byte, filled with zeros from there, or only its end."""
    directory = Directory(tmp_path, edition).start(durable)
    before = directory.log(session(3, "a"), session(durable, "b")).root.joinpath("pwal_0000").read_bytes()
    next_session = Session(durable + 1, (entry("a", "new"), entry("c"), lay.remove(1, b"b", (9, 9))), False)
    pending = next_session.encode() + (lay.encode_end(durable + 1) if edition == "shipped" else b"")
    images = {}
    for size in range(len(pending) + 1):
        images[f"cut at {size}"] = pending[:size]
        images[f"zeros from {size}"] = pending[:size] + bytes(len(pending) - size)
    for size in range(9, len(pending)):
        images[f"zeros up to {size}"] = bytes(size) + pending[size:]
    for name, image in images.items():
        directory.write("pwal_0000", before + image)
        found = survey.survey(Disk(), str(tmp_path))
        assert verdict(found.findings) in ("clean", "repairable"), name
        assert keys(directory) == "a b", name
        assert values(directory)["a"] == "v", name
        [read] = found.logs
        if read.tail is not None:
            assert read.tail.torn and read.tail.begin >= len(before), name
        if verdict(found.findings) == "clean":
            assert scan.walk(memoryview(image)).entries == 0, name
        # What an opening store cuts off leaves a directory in which nothing is found.
        cut = min([len(before + image), *read.pending(durable).offset.tolist()])
        cut = cut if read.tail is None else min(cut, read.tail.begin)
        directory.write("pwal_0000", (before + image)[:cut])
        assert set(codes(directory)) <= {"snippet-open"}, name
        assert keys(directory) == "a b", name


@pytest.mark.parametrize("edition", ["designed", "shipped"])
def test_a_durable_session_cut_inside_an_entry_is_refused_with_the_place(edition, tmp_path):
    directory = Directory(tmp_path, edition).start(2)
    directory.log(session(1, "a"), session(2, "b"))
    whole = (tmp_path / "pwal_0000").read_bytes()
    walk = scan.walk(memoryview(whole))
    begin, end = int(walk.snippets.offset[1]) + 9, len(whole)
    records = {begin, begin + len(entry("b").encode()), end}
    for size in range(begin, end):
        directory.write("pwal_0000", whole[:size])
        if size in records:
            assert keys(directory) in ("a", "a b")  # a format without checksums cannot see it
            continue
        with pytest.raises(DamageError) as caught:
            keys(directory)
        assert caught.value.code == "entry-cut"
        assert caught.value.offset == max(place for place in records if place <= size)


@pytest.mark.parametrize("edition", ["designed", "shipped"])
def test_a_zero_or_rubbish_type_byte_in_a_durable_session_is_damage(edition, tmp_path):
    directory = Directory(tmp_path, edition).start(2)
    directory.log(session(1, "a", "b"), session(2, "c", "d"))
    whole = (tmp_path / "pwal_0000").read_bytes()
    walk = scan.walk(memoryview(whole))
    [part] = scan.read_entries(memoryview(whole), walk.snippets)
    for offset in part.offset.tolist():
        for byte in (0, 4, 11, 0x7F, 0xFF):
            directory.write("pwal_0000", whole[:offset] + bytes([byte]) + whole[offset + 1 :])
            with pytest.raises(DamageError) as caught:
                keys(directory)
            assert (caught.value.code, caught.value.offset) == ("entry-type", offset)


def test_damage_in_a_session_that_does_not_count_is_no_tail_when_durable_ones_follow(tmp_path):
    directory = designed(tmp_path, 3)
    dead = Session(2, (entry("x"), entry("y")), False, invalidated=True).encode()
    broken = dead[:9] + b"\x7f" + dead[10:]
    directory.log(session(1, "a"), tail=broken)
    assert (keys(directory), codes(directory)) == ("a", ["torn-tail"])
    directory.log(session(1, "a"), tail=broken + session(3, "b", closed=False).encode())
    with pytest.raises(DamageError, match="a durable snippet follows") as caught:
        keys(directory)
    assert caught.value.offset == len(session(1, "a", closed=False).encode()) + 9


def test_a_damaged_begin_marker_behind_a_closed_session_is_no_tail(tmp_path):
    directory = shipped(tmp_path, 2)
    second = session(2, "b").encode()
    directory.log(session(1, "a"), tail=b"\x12" + second[1:])
    with pytest.raises(DamageError, match="a durable snippet follows"):
        keys(directory)
    directory.log(session(1, "a"), tail=b"\x12" + session(3, "b").encode()[1:])
    with pytest.raises(
        DamageError, match="no record begins here"
    ):  # a crash leaves a part of a marker, or zeros
        keys(directory)


def test_an_invalidated_session_does_not_count_and_what_follows_does(tmp_path):
    directory = shipped(tmp_path, 3)
    directory.log(session(1, "a"), session(2, "x", invalidated=True), session(3, "b"))
    assert (keys(directory), codes(directory)) == ("a b", [])


def test_a_begin_that_disagrees_with_its_end_counts_as_it_begins_and_is_told(tmp_path):
    directory = shipped(tmp_path, 2)
    flipped = bytearray(session(2, "b").encode())
    flipped[6] ^= 1
    directory.log(session(1, "a"), tail=bytes(flipped))
    assert keys(directory) == "a"
    assert codes(directory) == ["not-durable", "snippet-epochs"]


# --- base and logs -----------------------------------------------------------------------------------------------


def test_the_base_loses_against_every_entry_of_a_log(tmp_path):
    directory = designed(tmp_path, 5).write(
        "cmpct_0001",
        encoded([Session(3, (lay.put(1, b"a", b"old", (9, 9)), lay.put(1, b"b", b"base", (1, 0))), False)]),
    )
    directory.catalog(Catalog({"cmpct_0001": 1}, max_epoch=3, max_blob=None))
    directory.log(session(5, "a"))
    assert values(directory) == {"a": "v", "b": "base"}
    assert Log(DIALECT, Disk(), str(tmp_path)).verify().edition == "designed"


@pytest.mark.parametrize("operation", [lay.CLEAR_STORAGE, lay.REMOVE_STORAGE])
def test_clearing_a_storage_takes_what_is_older_also_in_the_base(operation, tmp_path):
    directory = shipped(tmp_path, 5).compacted("base").catalog(Catalog({lay.COMPACTED_FILE: 1}, max_epoch=2))
    clear = Session(
        4,
        (
            lay.put(1, b"older", b"", (3, 9)),
            lay.put(1, b"equal", b"", (4, 0)),
            lay.put(1, b"newer", b"", (4, 1)),
            lay.put(2, b"other storage", b"", (1, 0)),
            lay.Entry(operation, 1, version=(4, 0)),
            lay.Entry(lay.ADD_STORAGE, 2, version=(9, 0)),
        ),
    )
    directory.log(clear)
    assert keys(directory) == "equal newer other storage"
    directory.log()
    assert keys(directory) == "base"


def test_a_clearing_that_compaction_has_taken_in_does_not_act_on_the_base(tmp_path):
    cleared = Session(1, (lay.Entry(lay.CLEAR_STORAGE, 1, version=(1, 5)),))
    directory = shipped(tmp_path, 3).compacted("behind").log(cleared, name=ROTATED)
    directory.log(session(1, "left"), name="pwal_0002")
    directory.catalog(Catalog({lay.COMPACTED_FILE: 1}, frozenset({ROTATED}), 2))
    assert keys(directory) == "behind"  # the log that was left out is older than the clearing
    assert codes(directory) == ["left-out"]


def test_a_channel_that_a_compaction_left_out_is_not_lost(tmp_path):
    """A process with fewer channels compacts: the log of the channel it did not open is not in the base."""
    directory = shipped(tmp_path, 5).compacted("a")
    directory.log(session(1, "kept"), name="pwal_0002").log(session(2, "a"), name=ROTATED)
    directory.catalog(Catalog({lay.COMPACTED_FILE: 1}, frozenset({ROTATED}), 3))
    assert (keys(directory), codes(directory)) == ("a kept", ["left-out"])


def test_entries_that_a_compaction_took_in_do_not_come_back(tmp_path):
    directory = shipped(tmp_path, 5).compacted("a")
    directory.log(session(1, "removed since"), session(4, "later"), name=ROTATED)
    directory.catalog(Catalog({lay.COMPACTED_FILE: 1}, frozenset({ROTATED}), 3))
    assert (keys(directory), codes(directory)) == ("a later", [])


def test_damage_that_the_base_covers_does_not_stop_opening(tmp_path):
    directory = shipped(tmp_path, 5).compacted("a")
    directory.catalog(Catalog({lay.COMPACTED_FILE: 1}, frozenset({ROTATED}), 3))
    directory.log(name=ROTATED, tail=session(1, "a", "b").encode()[:-15])
    assert (keys(directory), codes(directory)) == ("a", ["entry-cut"])
    assert Log(DIALECT, Disk(), str(tmp_path)).verify().verdict == "repairable"
    damaged = session(1, "a", "b").encode()
    damaged = damaged[:9] + b"\x7f" + damaged[10:]
    directory.log(name=ROTATED, tail=damaged + session(4, "c").encode())
    with pytest.raises(DamageError):
        keys(directory)


def test_a_damaged_compacted_file_is_refused(tmp_path):
    directory = designed(tmp_path, 5).compacted("a", "b", epoch=3, name="cmpct_0001")
    directory.catalog(Catalog({"cmpct_0001": 1}, max_epoch=3))
    raw = (tmp_path / "cmpct_0001").read_bytes()
    directory.write("cmpct_0001", raw[:-1])
    with pytest.raises(DamageError) as caught:
        keys(directory)
    assert (caught.value.code, caught.value.offset) == ("entry-cut", 9 + (len(raw) - 9) // 2)


def test_while_the_old_catalog_is_there_a_designed_compaction_has_not_happened(tmp_path):
    """Every step of the switch: the state is the same before and behind it."""
    old, new = Catalog(max_blob=None), Catalog({"cmpct_0001": 1}, frozenset({ROTATED}), 1, None)
    directory = designed(tmp_path, 2).log(session(1, "a"), name=ROTATED).log(session(2, "b"))
    directory.catalog(old).compacted("a", epoch=1, name="cmpct_0001.tmp")
    assert (keys(directory), codes(directory)) == ("a b", ["leftover"])
    directory.remove(lay.CATALOG_FILE).catalog(old, lay.CATALOG_BACK)
    assert (keys(directory), codes(directory)) == ("a b", ["catalog-back", "leftover"])
    directory.write(lay.CATALOG_FILE, new.encode()[:40])
    assert (keys(directory), codes(directory)) == ("a b", ["catalog-back", "leftover"])
    directory.catalog(new)
    assert (keys(directory), codes(directory)) == ("a b", ["catalog-back", "leftover"])
    (tmp_path / "cmpct_0001.tmp").rename(tmp_path / "cmpct_0001")
    assert (keys(directory), codes(directory)) == ("a b", ["catalog-back", "leftover"])
    directory.remove(lay.CATALOG_BACK)
    assert (keys(directory), codes(directory)) == ("a b", [])
    directory.remove(ROTATED)
    assert (keys(directory), codes(directory)) == ("a b", [])


def test_the_version_two_of_the_program_is_told_by_its_compacted_file(tmp_path):
    directory = designed(tmp_path, 5).compacted("a").catalog(Catalog({lay.COMPACTED_FILE: 1}, max_epoch=3))
    directory.catalog(Catalog(), lay.CATALOG_BACK)  # which it never deletes
    assert keys(directory) == "a"
    assert survey.survey(Disk(), str(tmp_path)).edition == "shipped"


def test_durable_is_the_largest_epoch_of_all_epoch_files(tmp_path):
    directory = designed(tmp_path, 2, 1).log(session(2, "a"), session(3, "b"), session(4, "c"))
    assert keys(directory) == "a"
    directory.write("epoch.01700000000000.3", lay.encode_durable(3))
    assert keys(directory) == "a b"
    directory.write("epoch.bak", lay.encode_durable(4))
    assert keys(directory) == "a b"
    directory.remove("epoch").remove("epoch.01700000000000.3")
    assert keys(directory) == "a b c"  # the only one there is, as the original reads it


@pytest.mark.parametrize("version", range(1, 8))
def test_every_version_from_one_to_seven_is_read(version, tmp_path):
    directory = shipped(tmp_path, 1).log(session(1, "a"))
    form = "1.0" if version < 5 else "1.1"
    directory.write(lay.MANIFEST_FILE, Manifest(version, form, "x").encode())
    assert keys(directory) == "a"
    inventory = Log(DIALECT, Disk(), str(tmp_path)).inspect()
    assert inventory.edition == ("designed" if version <= 2 else "shipped")
    assert inventory.facts["version"] == version


def test_a_write_version_with_its_highest_bit_set_counts_as_large(tmp_path):
    low, high = lay.put(1, b"a", b"low", (2, 5)), lay.put(1, b"a", b"high", (2, 2**63))
    directory = shipped(tmp_path, 1).log(Session(1, (high, low)))
    assert values(directory) == {"a": "high"}
    [row] = state_of(directory)
    assert [int(part) for part in row["write_version"]] == [2, 2**63]


def test_of_equal_versions_the_later_one_counts_across_rotation(tmp_path):
    def one(value: str) -> Session:
        return Session(1, (lay.put(1, b"a", value.encode(), (1, 0)),))

    directory = shipped(tmp_path, 1).log(one("active")).log(one("second"), name="pwal_0000.01700000000001.0")
    directory.log(one("first"), name=ROTATED)
    assert values(directory) == {"a": "active"}
    directory.remove("pwal_0000")
    assert values(directory) == {"a": "second"}
    directory.log(one("higher channel"), name="pwal_0001.01600000000000.0")
    assert values(directory) == {"a": "higher channel"}


def test_an_empty_new_directory_is_clean(tmp_path):
    assert codes(designed(tmp_path)) == []
    assert keys(designed(tmp_path)) == ""


def test_a_directory_without_our_names_is_not_recognised(tmp_path):
    (tmp_path / "letter.txt").write_text("dear reader")
    (tmp_path / "epoch").write_bytes(b"")
    assert not DIALECT.recognise(Disk(), str(tmp_path))
    assert not DIALECT.recognise(Disk(), str(tmp_path / "letter.txt"))
    with pytest.raises(NotALogError):
        from flintlog.core.dialect import detect

        detect(Disk(), str(tmp_path))


# --- entries in pieces -------------------------------------------------------------------------------------------


def rows_of(directory: Directory, query: EntryQuery = EntryQuery(), split_bytes: int = 1 << 30):  # noqa: B008
    disk, path = Disk(), str(directory.root)
    return [
        row
        for split in entries.splits(disk, path, replace(query, split_bytes=split_bytes))
        for batch in Log(DIALECT, disk, path).read_split(split, query)
        for row in batch.to_pylist()
    ]


def test_a_large_file_is_read_in_ranges_that_together_are_the_whole(tmp_path):
    directory = shipped(tmp_path, 2).log(
        session(1, *"abc"),
        session(2, *"defg", closed=False),
        session(2, "h", invalidated=True),
        session(3, "i"),
    )
    whole = rows_of(directory)
    assert [row["key"].decode() for row in whole] == [*"abcdefghi"]
    assert [row["limestone"]["status"] for row in whole] == ["durable"] * 7 + ["invalidated", "pending"]
    for split_bytes in range(1, 200):
        assert rows_of(directory, split_bytes=split_bytes) == whole
    assert len(entries.splits(Disk(), str(tmp_path), EntryQuery(split_bytes=50))) > 5


def test_zeros_behind_entries_are_damage_wherever_a_range_begins(tmp_path):
    directory = shipped(tmp_path, 2).log(session(1, *"abc", closed=False), tail=bytes(40))
    for split_bytes in (*range(1, 200, 7), 1 << 20):
        with pytest.raises(DamageError, match="no record begins here"):
            rows_of(directory, split_bytes=split_bytes)


def test_queries_choose_by_epoch_operation_storage_and_key(tmp_path):
    long_key = b"a key of more than eight bytes"
    directory = shipped(tmp_path, 3).log(
        session(1, "a", "b"),
        Session(2, (lay.remove(7, b"a", (2, 0)), lay.put(1, long_key, b"", (2, 1)))),
        Session(3, (lay.Entry(lay.CLEAR_STORAGE, 7, version=(3, 0)),)),
    )

    def found(**question) -> list[tuple[int, str]]:
        rows = rows_of(directory, EntryQuery(**question))
        return [(row["position"], row["operation"]) for row in rows]

    assert found(first=(2,)) == [(2, "remove"), (2, "put"), (3, "clear_storage")]
    assert found(first=(2,), last=(2,)) == [(2, "remove"), (2, "put")]
    assert found(operations=frozenset({"clear_storage"})) == [(3, "clear_storage")]
    assert found(streams=frozenset({"7"})) == [(2, "remove"), (3, "clear_storage")]
    assert found(streams=frozenset({"x", "-1", str(2**64)})) == []
    assert found(key=b"a".hex()) == [(1, "put"), (2, "remove")]
    assert found(key=long_key.hex()) == [(2, "put")]
    assert found(key=(long_key[:-1] + b"!").hex()) == []
    assert found(key="a") == [(1, "put"), (2, "remove")]
    with pytest.raises(UsageError, match="one epoch"):
        found(first=(1, 2))


def test_entries_behind_damage_are_an_error_and_never_fewer_rows(tmp_path):
    directory = shipped(tmp_path, 2).log(session(1, "a"), tail=session(2, "b").encode()[:-15])
    disk, path = Disk(), str(tmp_path)
    for split_bytes in (30, 1 << 20):
        seen = []
        with pytest.raises(DamageError) as caught:
            for split in entries.splits(disk, path, EntryQuery(split_bytes=split_bytes)):
                for batch in Log(DIALECT, disk, path).read_split(split, EntryQuery()):
                    seen += batch.to_pylist()
        assert caught.value.code == "entry-cut"
        assert [row["key"] for row in seen] == [b"a"]
    assert [row["key"] for row in rows_of(directory, EntryQuery(last=(1,)))] == [b"a"]


# --- a directory that changes ------------------------------------------------------------------------------------


class Restless(MemoryKernel):
    """A kernel under which the log is rotated whenever somebody opens it, and another one begun."""

    times = 1

    def open(self, path, flags):
        if path.endswith("/pwal_0000") and self.times > 0:
            self.times -= 1
            self.rename(path, f"{path}.0170000000000{self.times}.0")
        return super().open(path, flags)

    def list(self, path):
        rotated = f"{path}/pwal_0000.0170000000000{self.times}.0"
        if self.times > 0 and "pwal_0000" not in super().list(path):
            self.link(rotated, f"{path}/pwal_0000")
        return super().list(path)


def restless(tmp_path, times: int) -> Disk:
    directory = designed(tmp_path, 1).log(session(1, "a"))
    content = {path.name: path.read_bytes() for path in directory.root.iterdir()}
    names = {1: {"log": 2}, 2: {name: at for at, name in enumerate(content, 10)}}
    kernel = Restless(State(dict(enumerate(content.values(), 10)), names))
    kernel.times = times
    return Disk(kernel)


def test_a_directory_that_changes_while_it_is_looked_at_is_looked_at_again(tmp_path):
    disk = restless(tmp_path, 1)
    found = survey.survey(disk, "/log")
    assert [read.file.name for read in found.logs] == ["pwal_0000.01700000000000.0"]


def test_one_that_never_rests_is_refused(tmp_path):
    with pytest.raises(FlintlogError, match="removed or renamed"):
        survey.survey(restless(tmp_path, 9), "/log")
