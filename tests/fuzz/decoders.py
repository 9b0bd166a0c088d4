"""Mutated files through the decoders of every dialect, in memory: only Flintlog errors, little memory, little time.

`python -m tests.fuzz.decoders --inputs 5000000 --seed 7` is the long lane, also with `--compiled`; the tests run a
short one. Every
`DIRECTORY_EVERY`th input goes as a whole directory through `verify`.
"""

from __future__ import annotations

import argparse
import random
import resource
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.golden_cases import GOLDEN

from flintlog.columns import compile
from flintlog.core.dialect import dialect
from flintlog.core.log import Log
from flintlog.dialects.limestone import files as limestone_files
from flintlog.dialects.limestone import layout as limestone
from flintlog.dialects.limestone import scan as limestone_scan
from flintlog.dialects.mpy6a import layout as mpy6a
from flintlog.dialects.mpy6a import operations as mpy6a_operations
from flintlog.dialects.mpy6a import scan as mpy6a_scan
from flintlog.dialects.taskflux import files as taskflux_files
from flintlog.dialects.taskflux import layout as taskflux
from flintlog.dialects.taskflux import scan as taskflux_scan
from flintlog.dialects.zmqraft import scan as zmqraft_scan
from flintlog.dialects.zmqraft import state as zmqraft_state
from flintlog.disk import Disk
from flintlog.errors import FlintlogError
from flintlog.testing import MemoryKernel, State

Decode = Callable[[bytes], object]
DIRECTORY_EVERY = 200
MEMORY_FIXED = 64 << 20
MEMORY_TIMES = 4
SECONDS_MAX = 10  # of one input: a guard against a loop without end, not a measure
_FILE_BYTES_MAX = 2500
_NUMBERS = (0, 1, 3, 255, 256, 1 << 24, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)
_SIZES = ("<I", ">I", "<H", ">H", "<Q", ">Q", "B")


def _taskflux_segment(raw: bytes) -> None:
    for layout in (taskflux.DESIGNED, taskflux.SHIPPED):
        taskflux_scan.scan_segment(memoryview(raw), layout)


def _taskflux_snapshot(raw: bytes) -> None:
    taskflux_files.read_snapshot(memoryview(raw), taskflux.SHIPPED)


def _taskflux_metadata(raw: bytes) -> None:
    taskflux_files.read_metadata(raw, taskflux.DESIGNED)


def _zmqraft_index(raw: bytes) -> None:
    view = memoryview(raw)
    table = zmqraft_scan.read_table(view, 1)
    if isinstance(table, zmqraft_scan.Table):
        zmqraft_scan.read_entries(view, table)


def _zmqraft_snapshot(raw: bytes) -> None:
    zmqraft_scan.read_snapshot_head(memoryview(raw), len(raw))


def _zmqraft_state(raw: bytes) -> None:
    for name, properties in zmqraft_state.PROPERTIES_OF.items():
        zmqraft_state.load(raw, properties, name)


def _mpy6a_records(raw: bytes) -> None:
    mpy6a_scan.scan_records(memoryview(raw))


def _mpy6a_log(raw: bytes) -> None:
    for checked in (True, False):
        mpy6a_scan.scan_log(memoryview(raw), checked=checked)


def _mpy6a_snapshot(raw: bytes) -> None:
    list(mpy6a.read_snapshot(raw))


def _mpy6a_operation(raw: bytes) -> None:
    mpy6a_operations.decode(memoryview(raw))


def _limestone_log(raw: bytes) -> None:
    view = memoryview(raw)
    for _ in limestone_scan.read_entries(view, limestone_scan.walk(view).snippets):
        pass


def _limestone_epoch(raw: bytes) -> None:
    limestone_files.read_epochs(memoryview(raw), "epoch")


# By dialect: the decoder of a file, by a word in its name; the last is for all others.
DECODERS: dict[str, tuple[tuple[str, Decode], ...]] = {
    "taskflux": ((".log", _taskflux_segment), ("snapshot", _taskflux_snapshot), ("", _taskflux_metadata)),
    "zmqraft": ((".rlog", _zmqraft_index), ("snap", _zmqraft_snapshot), ("", _zmqraft_state)),
    "mpy6a": (
        (".data", _mpy6a_records),
        (".log", _mpy6a_log),
        ("snapshot", _mpy6a_snapshot),
        ("", _mpy6a_operation),
    ),
    "limestone": (
        ("epoch", _limestone_epoch),
        ("manifest", limestone.decode_manifest),
        ("catalog", limestone.decode_catalog),
        ("", _limestone_log),
    ),
}


def corpus(name: str) -> list[tuple[bytes, Decode]]:
    """The small golden files of a dialect, each once, with the decoder that reads it."""
    found: dict[bytes, Decode] = {}
    for path in sorted((GOLDEN / name).rglob("*")):
        inside = path.relative_to(GOLDEN / name).parts
        if path.is_file() and len(inside) > 2 and 0 < path.stat().st_size <= _FILE_BYTES_MAX:
            decode = next(decode for word, decode in DECODERS[name] if word in "/".join(inside[2:]))
            found.setdefault(path.read_bytes(), decode)
    return list(found.items())


def mutated(raw: bytes, other: bytes, chance: random.Random) -> bytes:
    data = bytearray(raw)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(7):
            case 0:
                del data[at:]
            case 1 if data:
                data[at % len(data)] ^= 1 << chance.randrange(8)
            case 2:
                size = chance.choice(_SIZES)
                number = chance.choice(_NUMBERS) & ((1 << 8 * struct.calcsize(size)) - 1)
                data[at : at + struct.calcsize(size)] = struct.pack(size, number)
            case 3:
                begin = chance.randrange(len(other) + 1)
                data[at : at + chance.randrange(32)] = other[begin : begin + chance.randrange(100)]
            case 4:
                data[at : at + chance.randrange(64)] = bytes(chance.randrange(64))
            case 5:
                data[at:at] = chance.randbytes(chance.randrange(1, 9))
            case _:
                data[at : at + 8] = chance.randbytes(8)
    return bytes(data)


def directories(name: str) -> list[dict[str, bytes]]:
    """Golden directories of a dialect: the files of each by name."""
    found = []
    for case in sorted((GOLDEN / name).iterdir()):
        for root in sorted(path for path in case.iterdir() if path.is_dir()) if case.is_dir() else ():
            files = {
                str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
            }
            if files and sum(map(len, files.values())) < 1 << 16:
                found.append(files)
    return found


def machine(files: dict[str, bytes]) -> MemoryKernel:
    """A kernel in memory with these files in /log."""
    names: dict[int, dict[str, int]] = {1: {"log": 2}, 2: {}}
    for number, name in enumerate(files, 1000):
        *folders, last = name.split("/")
        at = 2
        for folder in folders:
            at = names[at].setdefault(folder, len(names) + 1)
            names.setdefault(at, {})
        names[at][last] = number
    return MemoryKernel(State(dict(enumerate(files.values(), 1000)), names))


def verify_mutated(name: str, files: dict[str, bytes], chance: random.Random) -> None:
    target = chance.choice(sorted(files))
    other = files[chance.choice(sorted(files))]
    disk = Disk(machine({**files, target: mutated(files[target], other, chance)}))
    Log(dialect(name), disk, "/log").verify()


def inputs(name: str, number: int, seed: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """So many inputs of a dialect: what each is, and the decoding of it."""
    chance = random.Random(f"{name} {seed}")
    files, wholes = corpus(name), directories(name)
    for at in range(number):
        if at % DIRECTORY_EVERY == DIRECTORY_EVERY - 1:
            whole = chance.choice(wholes)
            yield "verify", lambda whole=whole: verify_mutated(name, whole, chance)
            continue
        raw, decode = chance.choice(files)
        data = mutated(raw, chance.choice(files)[0], chance)
        yield decode.__name__, lambda data=data, decode=decode: decode(data)


def fuzz(name: str, number: int, seed: int) -> dict[str, int]:
    """Run them; returns how many inputs there were and how many were refused. Anything else is raised."""
    told = {"inputs": 0, "refused": 0}
    for at, (what, decode) in enumerate(inputs(name, number, seed)):
        begin = time.monotonic()
        told["inputs"] += 1
        try:
            decode()
        except FlintlogError as error:
            told["refused"] += 1
            if not error.code or not str(error):
                raise AssertionError(
                    f"{name} input {at} of seed {seed} ({what}): an error without words"
                ) from error
        except BaseException as error:
            raise AssertionError(f"{name} input {at} of seed {seed} ({what}): {error!r}") from error
        if time.monotonic() - begin > SECONDS_MAX:
            raise AssertionError(f"{name} input {at} of seed {seed} ({what}) takes too long")
    return told


def bound_memory() -> None:
    """From now on this process gets four times the largest input, and 64 MB; more is an error."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    most = used + MEMORY_FIXED + MEMORY_TIMES * (1 << 16)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def choose_form(*, compiled: bool) -> None:
    """Kernels have two forms; the size of the input decides, and here it is to be one of them."""
    compile.COMPILE_BYTES_MIN = 0 if compiled else 1 << 62
    compile.COMPILED_BYTES_MIN = 0


def main() -> None:
    parser = argparse.ArgumentParser(description="Mutated files through the decoders of every dialect.")
    parser.add_argument("--inputs", type=int, default=1_000_000, help="how many of each dialect")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dialect", action="append", choices=tuple(DECODERS))
    parser.add_argument(
        "--compiled", action="store_true", help="the compiled form; its memory is not bounded"
    )
    arguments = parser.parse_args()
    choose_form(compiled=arguments.compiled)
    for name in arguments.dialect or DECODERS:
        fuzz(name, DIRECTORY_EVERY * 2, -1)  # loads what is loaded late
    if not arguments.compiled:
        bound_memory()
    for name in arguments.dialect or DECODERS:
        told = fuzz(name, arguments.inputs, arguments.seed)
        print(f"{name}: {told['inputs']} inputs, {told['refused']} refused")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
