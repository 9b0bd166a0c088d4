"""Records, one by one and as columns: what is encoded is read again, compiled and not, whole, cut and mutated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.limestone.snippets import ENTRIES, SESSIONS, Session, encoded, read_plainly

from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone import scan
from flintlog.dialects.limestone.layout import Catalog, IncompleteCatalogError, Manifest
from flintlog.dialects.limestone.scan import Around
from flintlog.errors import DamageError, UsageError

REASONS = {"edge": scan.EDGE, "type": scan.TYPE, "cut": scan.CUT, "outside": scan.OUTSIDE}


@pytest.fixture(params=["compiled", "uncompiled"])
def form(request, monkeypatch):
    """The kernels in one of their two lives, however small the input."""
    compiled = request.param == "compiled"
    for kernel in (scan._walk, scan._read):
        monkeypatch.setattr(type(kernel), "worth_compiling", lambda self, size: compiled)
    return request.param


def check(data: bytes) -> None:
    """Scanning agrees with reading record by record."""
    view = memoryview(data)
    plain = read_plainly(data)
    walk = scan.walk(view, chunk=2)
    found = walk.snippets
    assert (walk.stop.offset, walk.stop.reason, walk.stop.inside) == (
        plain.stop,
        REASONS[plain.reason],
        plain.inside,
    )
    rows = zip(found.offset, found.end, found.kind, found.epoch, found.entries, strict=True)
    assert [tuple(map(int, row)) for row in rows] == [(*row[:4], len(row[4])) for row in plain.snippets]
    entries = [(which, at, entry) for which, row in enumerate(plain.snippets) for at, entry in row[4]]
    seen = []
    for part in scan.read_entries(view, found, chunk=3):
        columns = zip(
            part.snippet, part.offset, part.length, part.type, part.storage, part.major, part.minor,
            part.key, part.key_length, part.value, part.value_length, part.blob_count, part.prefix,
            strict=True,
        )  # fmt: skip
        for row in columns:
            which, at, length, kind, storage, major, minor, key, keys, value, values, blobs, prefix = map(
                int, row
            )
            entry = entries[len(seen)][2]
            seen.append((which, at, entry))
            assert (kind, storage, (major, minor)) == (entry.type, entry.storage, entry.version)
            assert (data[key : key + keys], data[value : value + values]) == (entry.key, entry.value)
            assert (length, blobs) == (len(entry.encode()), len(entry.blobs))
            assert prefix == int.from_bytes(entry.key[:8].ljust(8, b"\0"), "big")
    assert seen == entries


@settings(derandomize=True, max_examples=200, deadline=None)
@given(entry=ENTRIES, before=st.binary(max_size=9), behind=st.binary(max_size=9))
def test_an_entry_is_read_as_it_was_written(entry, before, behind):
    raw = before + entry.encode() + behind
    assert lay.decode(raw, len(before)) == (entry, len(raw) - len(behind))
    assert lay.record_size(raw, len(before)) == len(entry.encode())


@settings(derandomize=True, max_examples=60, deadline=None)
@given(entry=ENTRIES)
def test_an_entry_that_is_cut_anywhere_is_damage(entry):
    raw = entry.encode()
    for size in range(len(raw)):
        with pytest.raises(DamageError) as caught:
            lay.decode(raw[:size])
        assert caught.value.code == ("entry-cut" if size else "entry-type")


@pytest.mark.parametrize(
    "entry",
    [
        lay.put(-1, b"k", b"v", (1, 0)),
        lay.put(1, b"k", b"v", (1, 2**64)),
        lay.remove(2**64, b"k", (1, 0)),
        lay.Entry(2, 1),
        lay.Entry(lay.PUT, 1, blobs=(1,)),
        lay.put(1, b"k", b"v", (1, 0), (2**64,)),
    ],
)
def test_what_does_not_fit_the_format_is_wrong_usage(entry):
    with pytest.raises(UsageError):
        entry.encode()


def test_the_layout_is_pinned_byte_by_byte():
    assert lay.put(1, b"k1", b"v1", (1, 0)).encode().hex() == (
        "01" "02000000" "02000000" "0100000000000000" "6b31" "0100000000000000" "0000000000000000" "7631"
    )  # fmt: skip
    assert lay.remove(2, b"k2", (2, 1)).encode().hex() == (
        "05" "02000000" "0200000000000000" "6b32" "0200000000000000" "0100000000000000"
    )  # fmt: skip
    assert lay.Entry(lay.CLEAR_STORAGE, 10, version=(2, 5)).encode().hex() == (
        "07" "0a00000000000000" "0200000000000000" "0500000000000000"
    )  # fmt: skip
    assert lay.put(1, b"k1", b"v1", (1, 0), (1, 2)).encode().hex().endswith(
        "7631" "02000000" "0100000000000000" "0200000000000000"
    )  # fmt: skip
    assert lay.encode_begin(1).hex() == "020100000000000000"
    assert lay.encode_end(2).hex() == "03020000000000000001"
    assert lay.encode_durable(3).hex() == "040300000000000000"


@settings(derandomize=True, max_examples=120, deadline=None)
@given(sessions=SESSIONS)
@pytest.mark.parametrize("life", [True, False])
def test_columns_agree_with_reading_record_by_record(life, sessions):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(scan._walk), "worth_compiling", lambda self, size: life)
        check(encoded(sessions))


SAMPLE = encoded(
    [
        Session(1, (lay.put(1, b"key", b"value", (1, 0)), lay.remove(1, b"a longer key", (1, 1)))),
        Session(2, (lay.Entry(lay.CLEAR_STORAGE, 3, version=(2, 0)),), closed=False),
        Session(2, (lay.put(1, b"", b"", (2, 1), (7, 8)),), invalidated=True),
    ]
)


def test_a_file_cut_at_every_byte_is_read_up_to_the_cut(form):
    for size in range(len(SAMPLE) + 1):
        check(SAMPLE[:size])


def test_a_file_with_any_byte_changed_is_read_up_to_the_damage(form):
    for at in range(len(SAMPLE)):
        for flip in (0x01, 0x02, 0x04, 0x80, 0xFF):
            check(SAMPLE[:at] + bytes([SAMPLE[at] ^ flip]) + SAMPLE[at + 1 :])


@settings(derandomize=True, max_examples=150, deadline=None)
@given(data=st.binary(max_size=120))
@pytest.mark.parametrize("life", [True, False])
def test_any_bytes_at_all_are_read_alike(life, data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(scan._walk), "worth_compiling", lambda self, size: life)
        check(data)


def test_a_length_in_the_file_takes_no_memory(form):
    for field in (1, 5):
        entry = bytearray(lay.put(1, b"k", b"v", (1, 0)).encode())
        entry[field : field + 4] = b"\xff\xff\xff\xff"
        check(lay.encode_begin(1) + bytes(entry))
    blobs = bytearray(lay.put(1, b"k", b"v", (1, 0), (1,)).encode())
    blobs[-12:-8] = b"\xff\xff\xff\xff"
    check(lay.encode_begin(1) + bytes(blobs))


def test_a_file_is_scanned_in_ranges_that_begin_anywhere(form):
    view = memoryview(SAMPLE)
    whole = scan.walk(view)
    columns = scan.Entries.__dataclass_fields__.keys() - {"snippet"}
    [all_entries] = scan.read_entries(view, whole.snippets)
    for cut in range(1, len(SAMPLE)):
        first = scan.walk(view, 0, cut)
        middle = first.stop.offset
        around = None
        if first.stop.inside:
            last = first.snippets[-1:]
            around = Around(int(last.offset[0]), int(last.epoch[0]), int(last.kind[0]))
        second = scan.walk(view, middle, None, around)
        assert second.stop == whole.stop
        assert first.entries + second.entries == whole.entries
        parts = [*scan.read_entries(view, first.snippets, 0, middle)]
        parts += scan.read_entries(view, second.snippets, middle)
        for name in columns:
            joined = np.concatenate([getattr(part, name) for part in parts])
            assert joined.tolist() == getattr(all_entries, name).tolist(), (cut, name)


def test_a_walk_by_pieces_is_the_same(form, monkeypatch):
    view = memoryview(SAMPLE)
    for end in (None, len(SAMPLE) - 1, len(SAMPLE) // 2):
        monkeypatch.setattr(scan, "_WALK_BYTES", len(SAMPLE))
        whole = scan.walk(view, 0, end)
        for piece in (1, 7, 50):
            monkeypatch.setattr(scan, "_WALK_BYTES", piece)
            found = scan.walk(view, 0, end, chunk=2)
            assert found.stop == whole.stop
            for name in whole.snippets.types():
                one, other = getattr(found.snippets, name), getattr(whole.snippets, name)
                assert one.tolist() == other.tolist(), (end, piece, name)


def test_manifests_are_written_as_the_note_and_the_program_write_them():
    assert Manifest(2).encode() == b'{\n    "format_version": "1.0",\n    "persistent_format_version": 2\n}'
    uuid = "f71dffa3-e8a9-4833-ab36-191b88d518e9"
    raw = Manifest(7, "1.1", uuid).encode()
    assert raw == (
        b'{"format_version":"1.1","instance_uuid":"f71dffa3-e8a9-4833-ab36-191b88d518e9",'
        b'"persistent_format_version":7}'
    )
    assert lay.decode_manifest(raw) == Manifest(7, "1.1", uuid)
    assert lay.decode_manifest(Manifest(1).encode()) == Manifest(1)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"format_version": "1.0"}',
        b'{"format_version": 1, "persistent_format_version": 1}',
        b'{"format_version": "1.0", "persistent_format_version": true}',
        b'{"format_version": "1.1", "persistent_format_version": 7}',
        b'{"format_version": "1.0", "persistent_format_version": ' + b"9" * 5000 + b"}",
    ],
)
def test_a_manifest_that_is_none_is_damage(raw):
    with pytest.raises(DamageError) as caught:
        lay.decode_manifest(raw)
    assert caught.value.code == "manifest-broken"


CATALOG = Catalog({"cmpct_0001": 1, "cmpct_0002": 1}, frozenset({"pwal_0000.01794726954958.0"}), 6, 9)


def test_a_catalog_is_read_as_it_was_written():
    assert lay.decode_catalog(CATALOG.encode()) == CATALOG
    assert Catalog().encode() == (
        b"COMPACTION_CATALOG_HEADER\nMAX_EPOCH_ID 0\nMAX_BLOB_ID 0\nCOMPACTION_CATALOG_FOOTER\n"
    )
    assert lay.decode_catalog(Catalog(max_blob=None).encode()).max_blob is None
    assert lay.decode_catalog(CATALOG.encode() + b"anything\n") == CATALOG


def test_a_catalog_cut_anywhere_before_its_footer_is_incomplete():
    raw = CATALOG.encode()
    for size in range(len(raw) - 1):
        with pytest.raises(IncompleteCatalogError):
            lay.decode_catalog(raw[:size])
    assert lay.decode_catalog(raw[:-1]) == CATALOG


@pytest.mark.parametrize("name", ["../epoch", "/etc/passwd", "cmpct_0001/..", "data", "pwal_0000", "cmpct_1"])
def test_a_catalog_that_names_a_strange_file_is_not_followed(name):
    raw = Catalog({name: 1}).encode()
    with pytest.raises(DamageError) as caught:
        lay.decode_catalog(raw)
    assert (caught.value.code, caught.value.offset) == ("catalog-name", 26)
    assert not isinstance(caught.value, IncompleteCatalogError)


def test_a_catalog_that_lists_a_strange_log_is_not_followed():
    with pytest.raises(DamageError, match="names a file"):
        lay.decode_catalog(Catalog(detached=frozenset({"pwal_0000.../../x"})).encode())
