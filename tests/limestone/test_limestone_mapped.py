"""Readers map rotated logs and very large ones: opening makes no such file shorter."""

from __future__ import annotations

import pytest
from tests.limestone.directories import ROTATED, Directory, session

from flintlog.core.log import Log
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.dialect import DIALECT
from flintlog.dialects.limestone.store import Datastore, healing
from flintlog.disk import Disk

BOTH = pytest.mark.parametrize("edition", ["designed", "shipped"])
TORN = session(2, *(f"key {number}" for number in range(200))).encode()[:-15]
TAILS = {
    "a torn session": TORN,
    "whole sessions": session(2, *(f"key {number}" for number in range(200)), closed=False).encode(),
    "zeros": bytes(8192),
    "a few zeros": bytes(3),
    "a marker that is cut": lay.encode_begin(2)[:4],
    "a marker before zeros": lay.encode_begin(1) + bytes(8192),
}


def keys(path) -> set[bytes]:
    return {row["key"] for batch in Log(DIALECT, Disk(), str(path)).state() for row in batch.to_pylist()}


@BOTH
@pytest.mark.parametrize("name", [ROTATED, "pwal_0003.copy"])
@pytest.mark.parametrize("tail", TAILS)
def test_a_rotated_log_is_marked_and_not_cut(tail, name, edition, tmp_path):
    made = Directory(tmp_path / "log", edition).start(1).log(session(1, "a"), name=name, tail=TAILS[tail])
    before = (made.root / name).read_bytes()
    with Disk().open(str(made.root / name)) as file:
        view = file.view()
    with Datastore(made.root) as store:
        assert [entry.key for entry in store.snapshot.scan()] == [b"a"]
        with store.channel().session() as one:
            one.put(1, b"b", b"2")
        store.switch_epoch()
        store.switch_epoch(10)
    after = (made.root / name).read_bytes()
    assert (len(after), bytes(view)) == (len(before), after)
    assert [at for at in range(len(after)) if after[at] != before[at]] == [len(before) - len(TAILS[tail])]
    assert keys(made.root) == {b"a", b"b"}
    assert Log(DIALECT, Disk(), str(made.root)).verify().verdict == "clean"


@BOTH
@pytest.mark.parametrize("tail", TAILS)
def test_a_log_too_large_to_be_copied_is_marked_and_rotated(tail, edition, tmp_path, monkeypatch):
    monkeypatch.setattr(healing, "COPY_BYTES_MAX", 8)
    made = Directory(tmp_path / "log", edition).start(1).log(session(1, "a"), tail=TAILS[tail])
    size = (made.root / "pwal_0000").stat().st_size
    with Datastore(made.root) as store, store.channel().session() as one:
        one.put(1, b"b", b"2")
    with Datastore(made.root) as store, store.channel().session() as one:
        one.put(1, b"c", b"3")
        epoch = one.epoch
    with Datastore(made.root) as store:
        assert store.epoch > epoch
    assert max(log.stat().st_size for log in made.root.glob("pwal_0000*")) >= size
    assert keys(made.root) == {b"a"}
