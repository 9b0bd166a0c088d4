"""`doctor`: what this machine's disk really does, and whether everything that Flintlog uses is installed."""

from __future__ import annotations

import argparse
import importlib.util
import platform
import posixpath
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from flintlog.cli.output import Output
from flintlog.cli.terminal import human_size, visible
from flintlog.cli.verb import Verb, count
from flintlog.disk import Disk
from flintlog.disk.machine import PAGE_BYTES, compiled_cache, java_version, mount_of, room
from flintlog.errors import EXIT_OK, FlintlogError, NotALogError

_ROUNDS = 100
_BLOCK = bytes(range(256)) * 16
_MEMORY = ("tmpfs", "ramfs")
_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "glusterfs", "lustre")
_UNSAFE_OPTIONS = ("nobarrier", "barrier=0", "data=writeback")
_ROOM_MIN = 1 << 30
_SLOW_SECONDS = 0.05
_UNREAL_SECONDS = 20e-6
_PACKAGES = ("numpy", "pyarrow", "numba", "msgpack", "fastcrc", "pyspark", "deltalake")


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "place",
        metavar="DIR",
        nargs="?",
        default=".",
        help="a directory on the disk in question (. if not given)",
    )
    parser.add_argument(
        "--rounds",
        type=count,
        default=_ROUNDS,
        metavar="N",
        help=f"how many times to measure each kind of sync ({_ROUNDS} when not given; 0 writes nothing)",
    )


def _run(arguments: argparse.Namespace, output: Output) -> int:
    disk = Disk()
    place = disk.resolve(arguments.place)
    if not disk.is_directory(place):
        raise NotALogError(
            "there is no such directory", file=place, advice="Name one on the disk in question"
        )
    report = examine(disk, place, arguments.rounds)
    output.summary(report, _words(report))
    return EXIT_OK


def examine(disk: Disk, place: str, rounds: int) -> dict[str, Any]:
    """All that `doctor` looks at, as one object."""
    from flintlog.columns import compile as compiler  # brings NumPy along

    kind, options, mount = mount_of(place)
    report: dict[str, Any] = {
        "path": place,
        "file_system": kind,
        "mount": mount,
        "mount_options": options,
        **room(place),
        "page_bytes": PAGE_BYTES,
        **(_measured(disk, place, rounds) if rounds else _NOT_MEASURED),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "numba_cache": compiled_cache(compiler.__file__),
        "java": java_version(),
    }
    return {**report, "advice": list(_advice(report))}


_MEASURED = ("sync_p50_seconds", "sync_p99_seconds", "rename_p50_seconds", "rename_p99_seconds", "lock")
_NOT_MEASURED: dict[str, Any] = dict.fromkeys(_MEASURED)


def _measured(disk: Disk, place: str, rounds: int) -> dict[str, Any]:
    """Measure what a commit and a publish cost here, in files that are removed afterwards."""
    first, second = (posixpath.join(place, f".flintlog-doctor-{number}") for number in (1, 2))
    try:
        with _gone_afterwards(disk, first, second), disk.open(first, "create") as file:
            with disk.open(first, "write") as other:
                lock = file.lock() and not other.lock()

            def commit(number: int) -> None:
                file.pwrite(_BLOCK, number * len(_BLOCK))
                file.sync()

            def publish(number: int) -> None:
                disk.rename(*((second, first) if number % 2 else (first, second)))
                disk.sync_directory(place)

            syncs, renames = _times(commit, rounds), _times(publish, rounds)
    except FlintlogError as error:
        return {**_NOT_MEASURED, "refused": error.what()}
    return {
        "sync_p50_seconds": _share(syncs, 0.5),
        "sync_p99_seconds": _share(syncs, 0.99),
        "rename_p50_seconds": _share(renames, 0.5),
        "rename_p99_seconds": _share(renames, 0.99),
        "lock": lock,
    }


@contextmanager
def _gone_afterwards(disk: Disk, *paths: str) -> Iterator[None]:
    try:
        yield
    finally:
        for path in paths:
            if disk.stat(path) is not None:
                disk.unlink(path)


def _times(act: Callable[[int], None], rounds: int) -> list[float]:
    found = []
    for number in range(rounds):
        begin = time.perf_counter()
        act(number)
        found.append(time.perf_counter() - begin)
    return sorted(found)


def _share(times: list[float], share: float) -> float:
    return times[min(len(times) - 1, int(len(times) * share))]


def _version(package: str) -> str | None:
    if importlib.util.find_spec(package) is None:
        return None
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _advice(report: dict[str, Any]) -> Iterator[str]:
    kind = report["file_system"] or ""
    if kind in _MEMORY:
        yield f"{kind} lives in memory: everything is gone when the machine stops. Use it for tests only"
    if kind in _NETWORK:
        yield f"{kind} is a network file system: locks and syncs may mean less there. Prefer a local disk"
    unsafe = [option for option in _UNSAFE_OPTIONS if option in (report["mount_options"] or "").split(",")]
    if unsafe:
        yield f"mounted with {', '.join(unsafe)}: a power failure may lose what was synced"
    if report["free_bytes"] < _ROOM_MIN:
        yield f"only {human_size(report['free_bytes'])} are free: stores stop when the disk is full"
    if report["files"] and report["free_files"] < report["files"] // 100:
        yield "less than 1% of the inodes are free: no file can be made when they are used up"
    if report.get("refused"):
        yield f"nothing can be written here: {report['refused']}"
    if report["lock"] is False:
        yield "flock does not keep a second writer out here: let one process only open a directory"
    median = report["sync_p50_seconds"]
    if median is not None and median > _SLOW_SECONDS:
        yield "a sync is slow: write in batches, or let many threads commit together"
    if median is not None and median < _UNREAL_SECONDS and kind not in _MEMORY:
        yield "a sync is faster than any device: a cache may answer for it. Check that it survives a power failure"
    if report["numba_cache"] is None:
        yield "compiled code cannot be cached: each process compiles anew. Set NUMBA_CACHE_DIR to a place to write to"
    if report["java"] is None:
        yield "no Java: everything works but Spark. Install Java 17 or 21 for --engine spark"
    if report["packages"]["pyspark"] is None:
        yield "no PySpark: pip install pyspark 'pandas<3' for --engine spark"


def _words(report: dict[str, Any]) -> Iterator[str]:
    yield f"disk: {visible(report['path'])}"
    yield f"  file system: {report['file_system'] or 'unknown'}, mounted at {visible(report['mount'] or 'unknown')}"
    yield f"  mount options: {report['mount_options'] or 'unknown'}"
    yield f"  free: {human_size(report['free_bytes'])} of {human_size(report['size_bytes'])}"
    yield f"  free inodes: {report['free_files']} of {report['files']}"
    for name, words in (("sync", "write and fdatasync"), ("rename", "rename and fsync of its directory")):
        if report[f"{name}_p50_seconds"] is not None:
            half, most = (_duration(report[f"{name}_{part}_seconds"]) for part in ("p50", "p99"))
            yield f"  {words}: half within {half}, 99% within {most}"
    if report["lock"] is not None:
        yield f"  flock: {'works' if report['lock'] else 'does not work'}"
    yield f"  page: {human_size(report['page_bytes'])}"
    yield "software:"
    yield f"  Python {report['python']}"
    for name, version in report["packages"].items():
        yield f"  {name} {version or '(not installed)'}"
    yield f"  Java {report['java'] or '(not found)'}"
    yield f"  compiled code is kept in {visible(report['numba_cache'] or '(nowhere)')}"
    for line in report["advice"]:
        yield f"advice: {line}"
    if not report["advice"]:
        yield "nothing to complain about"


def _duration(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"


DOCTOR = Verb(
    name="doctor",
    summary="what this machine's disk really does, and what is installed",
    description=(
        "Tells the file system of a directory with its mount options, free space and inodes; measures a write with "
        "fdatasync and a rename with the fsync of its directory; tries the lock; and lists Python, its packages and "
        "Java. What is bad is told with what to do. Leaves nothing behind."
    ),
    examples=("flintlog doctor /var/lib/queues", "flintlog doctor --json --rounds 1000"),
    add_options=_add_options,
    run=_run,
    takes_directory=False,
)
