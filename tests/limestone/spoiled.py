"""Directories as stores leave them, and every way in which a hand or a device spoils one file of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path

from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.store import Datastore

State = dict[tuple[int, bytes], bytes]


def laid_out(path: Path, edition: lay.Edition) -> State:
    """Compacted files, rotated and active logs of two channels, blobs; all of it acknowledged. Returns the state."""
    state: State = {}
    ticks = iter(range(10**6))
    with Datastore(
        path, edition=edition, compacted_bytes=200, clock=lambda: 1_800_000_000 + next(ticks)
    ) as store:
        channels = store.channel(), store.channel()

        def epoch(number: int) -> None:
            for which, channel in enumerate(channels):
                blobs = [store.blobs.add(b"large %d" % number)] if edition == "shipped" and which else []
                with channel.session() as session:
                    session.put(which, b"key %d" % number, b"x" * 40, blobs=blobs)
                    session.put(which, b"last", b"%d" % number)
                    if number == 1:
                        session.put(which, b"old", b"1")
                    session.remove(which, b"key %d" % (number - 2))
                state[which, b"key %d" % number] = b"x" * 40
                state[which, b"last"] = b"%d" % number
                state[which, b"old"] = b"1"
                state.pop((which, b"key %d" % (number - 2)), None)
            store.switch_epoch()

        epoch(1)
        epoch(2)
        assert store.compact() is not None
        epoch(3)
        store.rotate()
        epoch(4)
        epoch(5)
    with Datastore(path) as store:
        assert {(entry.storage, entry.key): entry.value for entry in store.snapshot.scan()} == state
    return state


def _parts(path: Path) -> list[Path]:
    """The files that count; of the blobs one."""
    found = sorted(item for item in path.rglob("*") if item.is_file())
    passing = ("kept", "data", "compaction_temp", "blob")
    blobs = [item for item in found if item.suffix == ".blob"]
    return blobs[-1:] + [item for item in found if item.relative_to(path).parts[0] not in passing]


def _swap(one: Path, other: Path) -> None:
    raw = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(raw)


ALONE: dict[str, Callable[[Path], object]] = {
    "emptied": lambda file: file.write_bytes(b""),
    "zeroed": lambda file: file.write_bytes(bytes(file.stat().st_size)),
    "halved": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "without its last byte": lambda file: file.write_bytes(file.read_bytes()[:-1]),
    "with a byte more": lambda file: file.write_bytes(file.read_bytes() + b"\xee"),
    "removed": lambda file: file.unlink(),
}
PAIRED: dict[str, Callable[[Path, Path], object]] = {
    "swapped with": _swap,
    "copied over": lambda one, other: other.write_bytes(one.read_bytes()),
}


def spoilings(path: Path) -> Iterator[tuple[str, Callable[[Path], object]]]:
    """What can be done to a directory like this one, and how it is called."""
    names = [str(item.relative_to(path)) for item in _parts(path)]
    for name in names:
        for how, act in ALONE.items():
            yield f"{name} {how}", lambda root, act=act, name=name: act(root / name)
    for one, other in permutations(names, 2):
        for how, pair in PAIRED.items():
            if how == "copied over" or one < other:
                yield (
                    f"{one} {how} {other}",
                    lambda root, pair=pair, one=one, other=other: pair(root / one, root / other),
                )
