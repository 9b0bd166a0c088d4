"""Log directories put together for a test, one for every finding that the format page names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.limestone.snippets import Session, encoded

from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.layout import Catalog, Manifest

UUID = "00000000-0000-4000-8000-000000000000"
ROTATED = "pwal_0000.01700000000000.0"


def entry(key: str, value: str = "v", epoch: int = 1) -> lay.Entry:
    return lay.put(1, key.encode(), value.encode(), (epoch, 0))


def session(epoch: int, *keys: str, **options) -> Session:
    return Session(epoch, tuple(entry(key, epoch=epoch) for key in keys), **options)


@dataclass(frozen=True)
class Directory:
    """A directory of one edition with what a fresh store would have put there."""

    root: Path
    edition: lay.Edition = "shipped"

    def start(self, *durable: int) -> Directory:
        self.root.mkdir(parents=True, exist_ok=True)
        version = lay.VERSION_OF[self.edition]
        manifest = Manifest(version) if self.edition == "designed" else Manifest(version, "1.1", UUID)
        self.write(lay.MANIFEST_FILE, manifest.encode())
        self.write(lay.EPOCH_FILE, b"".join(map(lay.encode_durable, durable)))
        return self.catalog(Catalog(max_blob=None if self.edition == "designed" else 0))

    def write(self, name: str, data: bytes) -> Directory:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return self

    def remove(self, name: str) -> Directory:
        (self.root / name).unlink()
        return self

    def catalog(self, catalog: Catalog, name: str = lay.CATALOG_FILE) -> Directory:
        return self.write(name, catalog.encode())

    def log(self, *sessions: Session, name: str = "pwal_0000", tail: bytes = b"") -> Directory:
        if self.edition == "designed":
            sessions = tuple(Session(one.epoch, one.entries, False, one.invalidated) for one in sessions)
        return self.write(name, encoded(list(sessions)) + tail)

    def compacted(self, *keys: str, epoch: int = 0, name: str = lay.COMPACTED_FILE) -> Directory:
        return self.write(name, encoded([session(epoch, *keys, closed=False)]))


def shipped(root: Path, *durable: int) -> Directory:
    return Directory(root, "shipped").start(*durable)


def designed(root: Path, *durable: int) -> Directory:
    return Directory(root, "designed").start(*durable)


Make = Callable[[Path], object]
ONE = session(1, "a", "b")
BLOB = Session(1, (lay.put(1, b"a", b"", (1, 0), (7,)),))

CASES: list[tuple[str, Make]] = [
    ("manifest-missing", lambda root: shipped(root, 1).log(ONE).remove(lay.MANIFEST_FILE)),
    ("manifest-version", lambda root: shipped(root).write(lay.MANIFEST_FILE, Manifest(0).encode())),
    ("manifest-version", lambda root: shipped(root).write(lay.MANIFEST_FILE, Manifest(8).encode())),
    ("manifest-broken", lambda root: shipped(root).write(lay.MANIFEST_FILE, b"{")),
    ("manifest-back", lambda root: designed(root).write(lay.MANIFEST_BACK, Manifest(1).encode())),
    (
        "manifest-back",
        lambda root: (
            shipped(root).write(lay.MANIFEST_FILE, b"").write(lay.MANIFEST_BACK, Manifest(5).encode())
        ),
    ),
    ("catalog-incomplete", lambda root: shipped(root, 1).log(ONE).write(lay.CATALOG_FILE, b"COMPACTION")),
    (
        "catalog-lost",
        lambda root: (
            designed(root, 1).compacted("a", name="cmpct_0001").write(lay.CATALOG_FILE, b"COMPACTION")
        ),
    ),
    (
        "catalog-lost",
        lambda root: designed(root, 1).compacted("a", name="cmpct_0001").remove(lay.CATALOG_FILE),
    ),
    ("catalog-name", lambda root: designed(root, 1).catalog(Catalog({"../cmpct_0001": 1}, max_epoch=1))),
    (
        "catalog-old",
        lambda root: (
            designed(root, 3)
            .compacted("a", epoch=2, name="cmpct_0001")
            .catalog(Catalog(max_epoch=1, max_blob=None))
        ),
    ),
    (
        "catalog-version",
        lambda root: (
            designed(root, 1)
            .compacted("a", name="cmpct_0001")
            .catalog(Catalog({"cmpct_0001": 2}, max_epoch=1))
        ),
    ),
    ("catalog-back", lambda root: designed(root, 1).log(ONE).catalog(Catalog(), lay.CATALOG_BACK)),
    ("compacted-missing", lambda root: designed(root, 1).catalog(Catalog({"cmpct_0001": 1}, max_epoch=1))),
    (
        "compacted-other",
        lambda root: (
            shipped(root, 1)
            .log(ONE, name=lay.COMPACTED_FILE)
            .catalog(Catalog({lay.COMPACTED_FILE: 1}, max_epoch=1))
        ),
    ),
    (
        "compacted-previous",
        lambda root: (
            shipped(root, 1)
            .compacted("a", name=lay.COMPACTED_PREVIOUS)
            .catalog(Catalog({lay.COMPACTED_FILE: 1}, max_epoch=1))
        ),
    ),
    (
        "compacted-unnamed",
        lambda root: (
            designed(root, 3)
            .compacted("a", epoch=2, name="cmpct_0001")
            .compacted("a", epoch=2, name="cmpct_0007")
            .catalog(Catalog({"cmpct_0001": 1}, max_epoch=2, max_blob=None))
        ),
    ),
    ("epoch-missing", lambda root: shipped(root).log(ONE).remove(lay.EPOCH_FILE)),
    (
        "epoch-short",
        lambda root: (
            designed(root, 1).log(ONE, session(2, "c")).write(lay.WITNESS_FILE, lay.encode_durable(2))
        ),
    ),
    ("epoch-torn", lambda root: shipped(root, 1).write(lay.EPOCH_FILE, lay.encode_durable(1) + b"\4\2")),
    ("epoch-torn", lambda root: shipped(root, 1).write(lay.EPOCH_FILE, lay.encode_durable(1) + bytes(9))),
    ("epoch-type", lambda root: shipped(root, 1).write(lay.EPOCH_FILE, lay.encode_begin(1))),
    ("torn-tail", lambda root: shipped(root, 1).log(ONE, tail=session(2, "c").encode()[:-15])),
    ("torn-tail", lambda root: designed(root, 1).log(ONE, tail=bytes(5))),
    ("not-durable", lambda root: shipped(root, 1).log(ONE, session(2, "c"))),
    ("entry-cut", lambda root: designed(root, 1).log(tail=ONE.encode()[:-15])),
    (
        "entry-type",
        lambda root: shipped(root, 1).log(tail=lay.encode_begin(1) + entry("a").encode() + b"\x7f"),
    ),
    ("entry-outside", lambda root: shipped(root, 1).log(ONE, tail=entry("c").encode())),
    ("snippet-epochs", lambda root: shipped(root, 1).log(tail=ONE.encode()[:-10] + lay.encode_end(2))),
    ("snippet-open", lambda root: shipped(root, 2).log(ONE, session(2, "c", closed=False))),
    (
        "left-out",
        lambda root: (
            shipped(root, 3)
            .compacted("a")
            .log(session(1, "left"), name="pwal_0002")
            .log(ONE, name=ROTATED)
            .catalog(Catalog({lay.COMPACTED_FILE: 1}, frozenset({ROTATED}), 2))
        ),
    ),
    (
        "left-out-ambiguous",
        lambda root: (
            shipped(root, 3)
            .compacted("a")
            .log(session(1, "a"), name="pwal_0002")
            .catalog(Catalog({lay.COMPACTED_FILE: 1}, frozenset({ROTATED}), 2))
        ),
    ),
    (
        "snippet-old",
        lambda root: (
            designed(root, 3)
            .compacted("a", epoch=2, name="cmpct_0001")
            .log(session(2, "a"))
            .catalog(Catalog({"cmpct_0001": 1}, max_epoch=2, max_blob=None))
        ),
    ),
    ("blob-missing", lambda root: shipped(root, 1).log(BLOB)),
    ("leftover", lambda root: designed(root, 1).write("cmpct_0001.tmp", b"")),
    ("odd-name", lambda root: shipped(root, 1).log(ONE, name="pwal_0000.copy")),
    ("foreign", lambda root: shipped(root, 1).write("letter.txt", b"")),
]
