"""Whole files emptied, zeroed, swapped, copied, removed, cut anywhere: no entry is invented, none lost in silence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations

import pytest

from flintlog.core.log import Log
from flintlog.dialects.zmqraft.dialect import DIALECT
from flintlog.dialects.zmqraft.layout import Entry, index_path
from flintlog.dialects.zmqraft.store import IndexFile, RaftStore, Stamps
from flintlog.disk import Disk
from flintlog.errors import DamageError, FlintlogError
from flintlog.testing import MemoryKernel

ROOT = "/peer"
LAST = 14
COVERED = 9
DATAS = [b"entry %d" % number * (1 + number % 3) for number in range(LAST)]
FIRSTS = (1, 4, 8, 12)
Files = dict[str, bytes]
Damage = Callable[[Files], None]


def laid_out(files: Files) -> Disk:
    disk = Disk(MemoryKernel())
    for name, content in files.items():
        path = f"{ROOT}/{name}"
        disk.make_passing_directory(path.rpartition("/")[0])
        with disk.open(path, "create") as file:
            file.pwrite(content, 0)
    return disk


def read_back(disk: Disk, folder: str = ROOT) -> Files:
    found: Files = {}
    for name in disk.list(folder):
        path = f"{folder}/{name}"
        if disk.is_directory(path):
            found |= read_back(disk, path)
        else:
            found[path[len(ROOT) + 1 :]] = disk.read(path, 1 << 20)
    return found


def opened(disk: Disk) -> RaftStore:
    return RaftStore(ROOT, capacity=4, disk=disk, stamps=Stamps(lambda: 1_800_000_000, "host", process=7))


def made(snapshot: int, *, applied: int = LAST) -> Files:
    disk = Disk(MemoryKernel())
    with opened(disk) as store:
        store.append([Entry(2, data) for data in DATAS])
        store.set_hard_state(term=2, vote="me", applied=applied)
        if snapshot:
            store.snapshot(snapshot, b"state", prune=False)
    return read_back(disk)


def replaced(first: int, content: Callable[[bytes], bytes]) -> Damage:
    def damage(files: Files) -> None:
        files[index_path(first)] = content(files[index_path(first)])

    return damage


def copied(source: int, target: int) -> Damage:
    def damage(files: Files) -> None:
        files[index_path(target)] = files[index_path(source)]

    return damage


def arranged(order: tuple[int, ...]) -> Damage:
    def damage(files: Files) -> None:
        before = dict(files)
        for target, source in zip(FIRSTS, order, strict=True):
            files[index_path(target)] = before[index_path(source)]

    return damage


def removed(*gone: int) -> Damage:
    def damage(files: Files) -> None:
        for first in gone:
            del files[index_path(first)]

    return damage


def damages() -> Iterator[tuple[str, Damage]]:
    for first in FIRSTS:
        yield f"emptied {first}", replaced(first, lambda _: b"")
        yield f"zeroed {first}", replaced(first, lambda content: bytes(len(content)))
        yield (
            f"table zeroed {first}",
            replaced(first, lambda content: content[:24] + bytes(16) + content[40:]),
        )
        yield f"removed {first}", removed(first)
        yield f"removed all but {first}", removed(*(set(FIRSTS) - {first}))
        for other in FIRSTS:
            yield f"{first} a copy of {other}", copied(other, first)
    for order in permutations(FIRSTS):
        yield f"arranged {order}", arranged(order)
    yield "removed", removed(*FIRSTS)


def judge(name: str, files: Files, covered: int, *, silent: bool = False) -> None:
    """Whatever became of the files: verify, opening and repair agree, nothing is invented, every loss is named."""
    disk = laid_out(files)
    verdict = Log(DIALECT, disk, ROOT).verify().verdict
    plan = Log(DIALECT, disk, ROOT).plan_repair()
    assert read_back(disk) == files, name
    try:
        with opened(laid_out(files)) as store:
            found = [entry.data for entry in store.entries(store.first_index)]
    except DamageError:
        found = None
    if verdict in ("clean", "repairable") and not plan.steps:
        assert found is not None, name
    if found is not None:
        assert found == DATAS[covered : covered + len(found)], name
        assert silent or len(found) == LAST - covered, name
    if plan.refusal is not None:
        assert verdict == "corrupt", name
        return
    assert (verdict == "corrupt") == bool(plan.lost), (name, plan.lost)
    if plan.steps:
        plan.apply()
        check_repaired(name, disk, files, covered, named=silent or bool(plan.lost))


def check_repaired(name: str, disk: Disk, files: Files, covered: int, *, named: bool) -> None:
    assert Log(DIALECT, disk, ROOT).verify().verdict == "clean", name
    after = read_back(disk).values()
    assert all(content in after for content in files.values() if content.strip(b"\0")), name
    with opened(disk) as store:
        found = [entry.data for entry in store.entries(store.first_index)]
        assert found == DATAS[covered : covered + len(found)], name
        assert named or len(found) == LAST - covered, name
        store.append([Entry(3, b"one more")])


@pytest.mark.parametrize("covered", [0, COVERED])
def test_no_fate_of_whole_files_invents_an_entry_or_loses_one_in_silence(covered):
    whole = made(covered)
    for name, damage in damages():
        files = dict(whole)
        damage(files)
        judge(name, files, covered)


@pytest.mark.parametrize("covered", [0, COVERED])
@pytest.mark.parametrize("first", FIRSTS)
def test_no_cut_of_a_file_invents_an_entry_or_loses_one_in_silence(first, covered, part):
    whole = made(covered)
    begin, step = part(8)
    for size in range(begin, len(whole[index_path(first)]), step):
        judge(f"{first} cut at {size}", whole | {index_path(first): whole[index_path(first)][:size]}, covered)


def test_a_cut_of_the_newest_file_that_used_no_slot_is_a_torn_tail(part):
    """As long as nothing says that entries were there."""
    whole = made(0, applied=0)
    full = {name: content for name, content in whole.items() if name != index_path(12)}
    disk = laid_out(full)
    IndexFile.create(disk, f"{ROOT}/{index_path(12)}", 12, 4, Stamps()).close()
    fresh = read_back(disk)[index_path(12)]
    start = fresh.index(b"ITMZ") + 8
    begin, step = part(4)
    for size in range(begin, start, step):
        disk = laid_out(full | {index_path(12): fresh[:size]})
        inventory = Log(DIALECT, disk, ROOT).verify()
        assert inventory.verdict == "repairable", size
        assert [item.code for item in inventory.findings if item.severity == "repairable"] == ["torn-file"]
        with opened(disk) as store:
            assert [entry.data for entry in store.entries(1)] == DATAS[:11], size
            assert [item.code for item in store.findings] == ["torn-file"], size
            store.append([Entry(2, b"goes on")])
        kept = [name for name in read_back(disk) if name.startswith("kept/opened/")]
        assert len(kept) == (1 if size else 0), size
        assert Log(DIALECT, disk, ROOT).verify().verdict == "clean", size


@pytest.mark.parametrize("name", ["raft.pers", "state.pers", "snap"])
def test_no_fate_of_another_file_passes_in_silence(name):
    for covered in (0, COVERED):
        whole = made(covered)
        other = {"raft.pers": "state.pers", "state.pers": "raft.pers", "snap": "raft.pers"}[name]
        for content in (None, whole[other], index_path(4).encode(), b"\xc1" + whole[name][1:]):
            files = {key: value for key, value in whole.items() if key != name}
            if content is not None:
                files[name] = content
            if name == "state.pers" and content is None:
                continue  # the original has none unless its application wants one
            if name == "snap" and content is None and not covered:
                continue  # an empty one, which opening makes again
            disk = laid_out(files)
            assert Log(DIALECT, disk, ROOT).verify().verdict == "corrupt", (name, content)
            with pytest.raises(FlintlogError):
                opened(laid_out(files))
            plan = Log(DIALECT, disk, ROOT).plan_repair()
            if plan.refusal is None:
                assert plan.lost, (name, content)
                plan.apply()
                assert Log(DIALECT, disk, ROOT).verify().verdict == "clean"


def test_a_backup_of_a_directory_with_a_damaged_snapshot_is_refused_in_words():
    files = made(COVERED)
    files["snap"] = b"none" + files["snap"][4:]
    with pytest.raises(DamageError, match="not a snapshot file"):
        Log(DIALECT, laid_out(files), ROOT).picture()
    files = made(7)
    files[index_path(4)] = b"none" + files[index_path(4)][4:]
    with pytest.raises(DamageError, match="not an index file"):
        Log(DIALECT, laid_out(files), ROOT).picture((7,))
