"""Every damaged directory of the test suite, of every dialect, and how a store opens it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from tests import damaged_directories as taskflux
from tests.damaged_directories import numbered
from tests.every_directory import every_directory
from tests.limestone import directories as limestone
from tests.limestone.spoiled import laid_out, spoilings
from tests.mpy6a import damaged as mpy6a
from tests.zmqraft import damaged as zmqraft

from flintlog import QueueStore, RaftStore, SessionStore
from flintlog.dialects.limestone.store import Datastore
from flintlog.dialects.zmqraft.layout import Entry

DIALECTS = ("taskflux", "zmqraft", "mpy6a", "limestone")
CASES = {
    "taskflux": taskflux.CASES,
    "zmqraft": zmqraft.BY_CODE,
    "mpy6a": mpy6a.BY_CODE,
    "limestone": limestone.CASES,
}
_PAIRS = 5  # one in so many: the dialects have tests of their own for all of them


def _queues(root: Path) -> None:
    taskflux.with_snapshot(root)


def _peer(root: Path) -> None:
    with RaftStore(root, capacity=4) as store:
        store.append([Entry(2, b"entry %d" % number) for number in range(14)])
        store.set_hard_state(term=2, vote="me", applied=10)
        store.snapshot(9, b"state", prune=False)


SAMPLES: dict[str, Callable[[Path], object]] = {
    "taskflux": _queues,
    "zmqraft": _peer,
    "mpy6a": mpy6a.logged,
    "limestone": lambda root: laid_out(root, "shipped"),
}


def damaged(dialect: str, home: Path) -> Iterator[tuple[str, Path]]:
    """The directories of a dialect, one after the other: golden ones, by the code of a finding, with files spoiled."""
    for case, path in every_directory(home / "golden", dialect).items():
        yield case, Path(path)
    for name, _, make in numbered(CASES[dialect]):
        root = home / "made" / name / "log"
        root.parent.mkdir(parents=True)
        make(root)
        yield f"made/{name}", root
    yield from _spoiled(dialect, home)


def _spoiled(dialect: str, home: Path) -> Iterator[tuple[str, Path]]:
    sample = home / "sample"
    SAMPLES[dialect](sample)
    inside = "data" if dialect == "taskflux" else "."
    for number, (name, spoil) in enumerate(spoilings(sample / inside)):
        if number % _PAIRS and (" swapped with " in name or " copied over " in name):
            continue
        root = home / "spoiled" / str(number)
        shutil.copytree(sample, root)
        spoil(root / inside)
        yield f"spoiled/{name}", root


def open_store(dialect: str, root: Path) -> None:
    """Open the directory as its store does, and close it."""
    match dialect:
        case "taskflux":
            QueueStore(root).close()
        case "zmqraft":
            RaftStore(root).close()
        case "mpy6a":
            SessionStore(root, strict=not (root / "operations.log").exists()).close()
        case "limestone":
            Datastore(root).close()
