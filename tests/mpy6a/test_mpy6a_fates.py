"""What becomes of a directory of which one file is emptied, zeroed, shortened, removed or put in another's place.

Verify, opening, `state` and repair say the same; what was acknowledged does not go in silence.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.mpy6a.damaged import LONG, ONCE, SHORT, T0, TOPICS, fill, logged, settled

from flintlog.core.log import Log
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a import scan
from flintlog.dialects.mpy6a.dialect import DIALECT
from flintlog.dialects.mpy6a.store import SessionStore
from flintlog.disk import Disk
from flintlog.errors import DamageError

pytestmark = pytest.mark.usefixtures("still")

DISK = Disk()
Sessions = Counter[tuple[object, bytes]]


def _strict(store: SessionStore) -> None:
    store.put(ONCE, b"tried too often", now=T0)
    for _ in range(2):
        for session in store.due(now=T0 + 200):
            session.store(now=T0 + 10)
    fill(store)


def _young(store: SessionStore) -> None:
    """A store that was never closed nor wrote a snapshot."""
    for number in range(6):
        store.put(SHORT, b"short %d" % number, now=T0 + number)
    store.put(LONG, b"long", now=T0)
    if not store._engine.strict:
        store.new(SHORT, b"open")


def _made(work: Callable[[SessionStore], None], *, strict: bool, closed: bool) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        made = root.parent / f"{root.name}-made"
        with SessionStore(made, topics=TOPICS, strict=strict, on_exhausted=print, file_bytes=100) as store:
            work(store)
            if not closed:
                shutil.copytree(made, root)
        if closed:
            shutil.copytree(made, root)

    return make


DIRECTORIES = {
    "operations, killed": logged,
    "operations, closed": settled,
    "operations, young, killed": _made(_young, strict=False, closed=False),
    "operations, young, closed": _made(_young, strict=False, closed=True),
    "strict, killed": _made(_strict, strict=True, closed=False),
    "strict, closed": _made(_strict, strict=True, closed=True),
    "strict, young, killed": _made(_young, strict=True, closed=False),
    "strict, young, closed": _made(_young, strict=True, closed=True),
}


def _zero_second(file: Path) -> None:
    """Zeros over the second record, in part."""
    raw = file.read_bytes()
    if file.suffix == ".data" and len(raw) > 100:
        file.write_bytes(raw[:37] + bytes(36) + raw[73:])


def _drop_last(file: Path) -> None:
    raw = file.read_bytes()
    if file.suffix == ".data" and len(raw):
        file.write_bytes(raw[: int(scan.scan_records(memoryview(raw))[0].offset[-1])])


def _swap(file: Path) -> None:
    for other in sorted(file.parent.iterdir()):
        if other.suffix == file.suffix and other != file:
            mine, theirs = file.read_bytes(), other.read_bytes()
            file.write_bytes(theirs)
            other.write_bytes(mine)
            return


FATES: dict[str, Callable[[Path], object]] = {
    "emptied": lambda file: file.write_bytes(b""),
    "zeroed": lambda file: file.write_bytes(bytes(file.stat().st_size)),
    "half of it": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "without its last byte": lambda file: file.write_bytes(file.read_bytes()[:-1]),
    "without its last record": _drop_last,
    "zeros inside": _zero_second,
    "removed": lambda file: file.unlink(),
    "swapped": _swap,
}

CUT = ("without its last byte", "without its last record")
EMPTY = ("emptied", "zeroed", "half of it", *CUT)
# A store that is killed has told nobody how long the files are that it was writing: their ends can be cut like a write
# that did not arrive. In a strict directory that is everything since its last snapshot, which does not tell how long
# the file of exhausted sessions is either.
UNSEEN = {
    ("operations, killed", lay.OPERATIONS_FILE): CUT,
    ("strict, killed", "30@2023111422-3.data"): CUT,
    ("strict, killed", "600@2023111422.data"): ("half of it", *CUT),
    ("strict, killed", lay.EXHAUSTED_FILE): (*EMPTY, "removed"),
    ("strict, closed", lay.EXHAUSTED_FILE): (*EMPTY, "removed"),
    ("strict, young, killed", "30@2023111422.data"): ("emptied", "without its last record"),
    ("strict, young, killed", "30@2023111422-1.data"): EMPTY,
    ("strict, young, killed", "600@2023111422.data"): (*EMPTY, "removed"),
}


def is_strict(root: Path) -> bool:
    return not (root / lay.OPERATIONS_FILE).exists()


def shown(root: Path, *, strict: bool) -> Sessions:
    """Every session that a store has: those that wait, those that are open, those that were set aside."""
    with SessionStore(root, strict=strict) as store:
        found: Sessions = Counter(
            (session.id, session.data) for session in store.due(T0 + 100_000_000, 10_000)
        )
        found.update((session.id, session.data) for session in store.sessions())
        found.update((record.id, record.data) for record in store.exhausted())
        return found


def content(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and "kept" not in path.parts
    }


def copied(root: Path, name: str) -> Path:
    return Path(shutil.copytree(root, root.parent / name))


@pytest.fixture(scope="module")
def originals(tmp_path_factory) -> dict[str, tuple[Path, Sessions]]:
    """The directories as they were, and what they held."""
    found = {}
    for name, make in DIRECTORIES.items():
        root = tmp_path_factory.mktemp("originals") / "root"
        make(root)
        found[name] = (root, shown(copied(root, "opened"), strict=name.startswith("strict")))
    return found


@pytest.mark.sampled(8)
@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("directory", DIRECTORIES)
def test_nothing_goes_in_silence_and_all_verbs_agree(directory, fate, originals, tmp_path):
    original, held = originals[directory]
    strict = directory.startswith("strict")
    for number, name in enumerate(sorted(file.name for file in original.iterdir() if file.is_file())):
        root = Path(shutil.copytree(original, tmp_path / str(number) / "root"))
        FATES[fate](root / name)
        if content(root) == content(original):
            continue
        where = (directory, name, fate)
        verdict = Log(DIALECT, DISK, str(root)).verify().verdict
        refused = _state_refuses(root)
        assert verdict != "clean" if refused else verdict != "corrupt", where
        if refused:
            before = content(root)
            with pytest.raises(DamageError):
                shown(root, strict=strict)
            assert content(root) == before, where
        else:
            lost = held - shown(copied(root, "opened"), strict=strict)
            assert not lost or fate in UNSEEN.get((directory, name), ()), (where, lost)
        _assert_repaired(root, held, where)


def _state_refuses(root: Path) -> bool:
    try:
        for _ in Log(DIALECT, DISK, str(root)).state():
            pass
    except DamageError:
        return True
    return False


def _assert_repaired(root: Path, held: Sessions, where: object) -> None:
    """What a repair leaves verifies and opens, it names what it loses and invents nothing, and it can be taken back."""
    before = content(root)
    plan = Log(DIALECT, DISK, str(root)).plan_repair()
    if not plan.steps:
        return
    refused = _state_refuses(root)
    plan.apply()
    assert Log(DIALECT, DISK, str(root)).verify().verdict == "clean", where
    found = shown(copied(root, "repaired"), strict=is_strict(root))
    ids = {session for session, _ in held - found} - {session for session, _ in found}
    assert not ids or plan.lost or not refused, (where, ids)
    assert {number for number, _ in found} <= _ever_stored(before, held), where
    Log(DIALECT, DISK, str(root)).plan_undo().apply()
    assert content(root) == before, where


def _ever_stored(files: dict[str, bytes], held: Sessions) -> set[object]:
    """Ids of sessions that are in the files, done with or not, besides those that a store shows."""
    found: set[object] = {session for session, _ in held}
    for name, raw in files.items():
        if lay.parse_name(name) is not None or name == lay.EXHAUSTED_FILE:
            records, _ = scan.scan_records(memoryview(raw), ordered=False)
            found |= {
                lay.StateID(term, index)
                for term, index in zip(records.term.tolist(), records.index.tolist(), strict=True)
            }
    return found
