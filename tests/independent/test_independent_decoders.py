"""The decoders are independent, and they can fail: a changed byte or a missing record never passes unseen."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.independent import views
from tests.independent.pieces import DamagedError, crc32_mpeg2

from flintlog import Datastore, QueueStore, RaftStore, SessionStore, Topic
from flintlog.dialects.zmqraft.layout import Entry
from flintlog.disk import Disk
from flintlog.testing import MemoryKernel

HERE = Path(__file__).parent
DECODERS = ("taskflux", "zmqraft", "mpy6a", "limestone", "pieces")
ROOT = "/srv/store"
WORDS = (b"first", b"second", b"third")


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_imports_the_standard_library_and_nothing_of_ours(name):
    tree = ast.parse((HERE / f"{name}.py").read_text())
    imported: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add(node.module or "")
    others = {module for module in imported if module.split(".")[0] not in sys.stdlib_module_names}
    assert others <= {"tests.independent.pieces"}
    assert not {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} & {
        "__import__",
        "exec",
        "eval",
    }


def test_the_checksum_is_that_of_the_known_vectors():
    vectors = {
        b"": 0xFFFFFFFF,
        b"123456789": 0x0376E6E7,
        b"hello, world": 0xBD0822B5,
        b"TaskFlux": 0xCA7E1DF2,
    }
    assert {data: crc32_mpeg2(data) for data in vectors} == vectors


def queues(disk: Disk, edition: Any) -> QueueStore:
    with QueueStore(ROOT, disk=disk, edition=edition) as store:
        for word in WORDS:
            store.queue().add(word)
    return QueueStore(ROOT, disk=disk)


def peer(disk: Disk) -> RaftStore:
    with RaftStore(ROOT, disk=disk, capacity=8) as store:
        store.append([Entry(1, word) for word in WORDS])
    return RaftStore(ROOT, disk=disk)


def sessions(disk: Disk, *, strict: bool) -> SessionStore:
    topics = [Topic(1, 60)]
    with SessionStore(ROOT, disk=disk, topics=topics, strict=strict) as store:
        for word in WORDS:
            store.put(1, word, now=1_700_000_000)
    return SessionStore(ROOT, disk=disk, topics=topics, strict=strict)


def keys(disk: Disk, edition: Any) -> Datastore:
    with Datastore(ROOT, disk=disk, edition=edition) as store:
        with store.channel().session() as session:
            for word in WORDS:
                session.put(1, word, word.upper())
        store.switch_epoch()
    return Datastore(ROOT, disk=disk)


STORES: dict[str, tuple[Callable[[Disk], Any], Callable[[Any], Any], Callable[[views.Files], Any]]] = {
    "designed queues": (lambda disk: queues(disk, "designed"), views.queues_of, views.queues_in),
    "shipped queues": (lambda disk: queues(disk, "shipped"), views.queues_of, views.queues_in),
    "peer": (peer, views.peer_of, views.peer_in),
    "sessions": (lambda disk: sessions(disk, strict=False), views.sessions_of, views.sessions_in),
    "strict sessions": (lambda disk: sessions(disk, strict=True), views.sessions_of, views.sessions_in),
    "designed keys": (lambda disk: keys(disk, "designed"), views.keys_of, views.keys_in),
    "shipped keys": (lambda disk: keys(disk, "shipped"), views.keys_of, views.keys_in),
}
# The file that holds the records, and what makes the third one of them go: the bytes before and behind its data.
RECORDS = {
    "designed queues": ("data/log/0000000000000000000.log", 30, 1),
    "shipped queues": ("data/log/0000000000000000000.log", 34, 0),
    "sessions": ("60@2023111422.data", 30, 0),
    "strict sessions": ("60@2023111422.data", 30, 0),
    "designed keys": ("pwal_0000", 17, 21),
    "shipped keys": ("pwal_0000", 17, 21),
}


def written(name: str) -> tuple[dict[str, bytes], Any, Callable[[views.Files], Any]]:
    make, told_by, found_in = STORES[name]
    disk = Disk(MemoryKernel())
    store = make(disk)
    told = told_by(store)
    store.close()
    return views.files_on(disk, ROOT), told, found_in


def seen(found_in: Callable[[views.Files], Any], files: views.Files) -> Any:
    try:
        return found_in(files)
    except DamagedError as error:
        return error


@pytest.mark.parametrize("name", STORES)
def test_a_changed_byte_of_a_record_is_seen(name):
    files, told, found_in = written(name)
    assert found_in(files) == told
    spoiled = 0
    for file, data in files.items():
        if file.startswith("data/snapshot"):
            continue  # recovery never reads it
        for word in WORDS:
            at = data.find(word)
            if at >= 0:
                other = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
                assert seen(found_in, {**files, file: other}) != told
                spoiled += 1
    assert spoiled >= len(WORDS)


@pytest.mark.parametrize("name", RECORDS)
def test_a_missing_record_is_seen(name):
    files, told, found_in = written(name)
    file, before, behind = RECORDS[name]
    at = files[file].index(WORDS[-1])
    shorter = files[file][: at - before] + files[file][at + len(WORDS[-1]) + behind :]
    assert seen(found_in, {**files, file: shorter}) != told


def test_a_missing_slot_of_a_peer_is_seen():
    files, told, found_in = written("peer")
    name = "log/00000/00/00/00000000000001.rlog"
    third = 24 + 4 * 2
    spoiled = files[name][:third] + bytes(4) + files[name][third + 4 :]
    assert any(files[name][third : third + 4])
    assert seen(found_in, {**files, name: spoiled}) != told


@pytest.mark.parametrize("name", STORES)
def test_a_missing_file_that_holds_records_is_seen(name):
    files, told, found_in = written(name)
    holding = [
        file for file, data in files.items() if WORDS[1] in data and not file.startswith("data/snapshot")
    ]
    assert holding
    for file in holding:
        left = {other: data for other, data in files.items() if other != file}
        assert seen(found_in, left) != told
