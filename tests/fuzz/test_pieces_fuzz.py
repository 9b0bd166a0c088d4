"""Mutated directories of all dialects: pieces of any size read what whole files read, and damage is always told."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from tests.every_directory import every_directory

from flintlog.core.dialect import EntryQuery, detect
from flintlog.core.entries import plan_entries, read_entries
from flintlog.core.log import Log
from flintlog.disk import Disk
from flintlog.errors import DamageError, FlintlogError, UnsupportedError

DISK = Disk()
ROUNDS = 60


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    return every_directory(tmp_path_factory.mktemp("golden"))


def mutate(directory: Path, chance: random.Random) -> None:
    files = sorted(path for path in directory.rglob("*") if path.is_file() and path.stat().st_size)
    for _ in range(chance.choice([1, 1, 2, 4]) if files else 0):
        path = chance.choice(files)
        raw = bytearray(path.read_bytes())
        if not raw:
            continue
        at = chance.randrange(min(len(raw), chance.choice([64, 1000, 1 << 30])))
        match chance.randrange(5):
            case 0:
                raw[at] ^= 1 << chance.randrange(8)
            case 1:
                raw[at : at + chance.randrange(20)] = bytes(chance.randrange(20))
            case 2:
                del raw[at:]
            case 3:
                raw[at:at] = chance.randbytes(chance.randrange(1, 40))
            case 4:
                raw[at : at + 8] = chance.randbytes(8)
        path.write_bytes(raw)


def read(path, query):
    """The rows, or our own error; any other one fails the test."""
    try:
        found = detect(DISK, path)
        return [
            row
            for split in plan_entries(Log(found, DISK, path), query)
            for batch in read_entries(Log(found, DISK, path), split, query)
            for row in batch.to_pylist()
        ]
    except FlintlogError as error:
        return error


@pytest.mark.parametrize("seed", range(2))
def test_pieces_and_reports_of_mutated_directories(directories, tmp_path, seed):
    chance = random.Random(seed)
    whole_files = damaged = 0
    for number in range(ROUNDS):
        name = chance.choice(sorted(directories))
        root = tmp_path / str(number)
        shutil.copytree(directories[name], root)
        mutate(root, chance)
        path, place = str(root), f"{name}, seed {seed}, round {number}"
        whole = read(path, EntryQuery(split_bytes=1 << 40))
        cut = read(path, EntryQuery(split_bytes=chance.choice([60, 200, 1000])))
        stopped, reported = (read(path, EntryQuery(on_damage=word)) for word in ("stop", "report"))
        if isinstance(whole, list):
            assert cut == stopped == reported == whole, place
            whole_files += 1
        elif isinstance(whole, DamageError | UnsupportedError):
            assert isinstance(cut, DamageError | UnsupportedError), place
            assert isinstance(stopped, list), place
            assert any(row["operation"] == "damage" for row in reported), place
            damaged += 1
        shutil.rmtree(root)
    assert min(whole_files, damaged) > 10
