"""An address to a disk and a path on it: local paths, and addresses that pyarrow or fsspec opens."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from flintlog.core.log import Log, open_log
from flintlog.disk import Disk
from flintlog.errors import NotALogError, UsageError

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

    from flintlog.disk.remote import RemoteKernel

Storage = tuple[tuple[str, str], ...]  # options of a remote file system, such as ("region", "eu-central-1")

T = TypeVar("T")
R = TypeVar("R")

_REMOTE_THREADS = 16
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_MAGIC = re.compile(r"[*?[]")


def is_remote(address: str) -> bool:
    """Is this address on another machine?"""
    return not address.startswith("file:") and _SCHEME.match(address) is not None


def is_pattern(address: str) -> bool:
    """Can this address stand for several directories?"""
    return _MAGIC.search(address) is not None


def locate(address: str, storage: Storage = ()) -> tuple[Disk, str]:
    """The disk that an address is on, and its path there."""
    if not is_remote(address):
        return Disk(), local_path(address)
    from flintlog.disk.remote import RemoteKernel

    return _remote(RemoteKernel, address, storage)


def locate_target(address: str, storage: Storage = ()) -> tuple[Disk, str]:
    """The same for the target of an export."""
    if not is_remote(address):
        return Disk(), local_path(address)
    from flintlog.disk.remote import RemoteTarget

    return _remote(RemoteTarget, address, storage)


def _remote(kernel: type[RemoteKernel], address: str, storage: Storage) -> tuple[Disk, str]:
    plain = address.rstrip("/")
    root, prefix = _split(plain)
    return Disk(kernel(_file_system(root, storage), prefix)), plain


def open_at(address: str, storage: Storage = (), speaking: str | None = None) -> Log:
    """The log at an address, of the dialect that is named or, without one, of the dialect of its files."""
    disk, path = locate(address, storage)
    return open_log(path, disk=disk, speaking=speaking)


def local_path(address: str) -> str:
    """The local path of a directory, from a path or from a `file:` address as Hadoop writes it."""
    if is_remote(address):
        raise UsageError(
            f"{address!r} is not a local directory",
            advice="What is remote can be read only: copy the directory to a local disk first",
        )
    if address.startswith("file:"):
        return Disk.resolve("/" + address.removeprefix("file:").lstrip("/"))
    return Disk.resolve(address)


def at_once(act: Callable[[T], R], each: Sequence[T], addresses: Iterable[str]) -> list[R]:
    """Call `act` for each, in order; several at a time where addresses are remote, which is mostly waiting."""
    if not any(map(is_remote, addresses)):
        return [act(one) for one in each]
    with ThreadPoolExecutor(_REMOTE_THREADS) as pool:
        return list(pool.map(act, each))


def expand(addresses: Iterable[str], storage: Storage = ()) -> dict[str, bool]:
    """The directories that these addresses mean; for each, whether only a pattern found it.

    `*`, `?` and `[...]` stand for every directory whose name fits, sorted.
    """
    found: dict[str, bool] = {}
    for address in addresses:
        matching = _matching(address, storage) if is_pattern(address) else None
        for one in [address] if matching is None else matching:
            found[one] = found.get(one, True) and matching is not None
    return found


def _matching(address: str, storage: Storage) -> list[str] | None:
    """The directories that fit a pattern; None when a directory has that very name."""
    disk, path = locate(address, storage)
    if disk.stat(path) is not None:
        return None
    plain = posixpath.dirname(path[: _MAGIC.search(path).start()])  # type: ignore[union-attr]
    found = list(_walk(disk, plain, path.removeprefix(plain).strip("/").split("/")))
    if not found:
        raise NotALogError("no directory has such a name", file=address, advice="Check the pattern")
    return found


def _walk(disk: Disk, directory: str, parts: list[str]) -> Iterator[str]:
    if not parts:
        yield directory
        return
    for name in disk.list(directory) if disk.is_directory(directory) else ():
        hidden = name.startswith(".") and not parts[0].startswith(".")
        if not hidden and fnmatchcase(name, parts[0]):
            inside = posixpath.join(directory, name)
            if disk.is_directory(inside):
                yield from _walk(disk, inside, parts[1:])


_PYARROW = ("s3", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss")  # the others are fsspec's
_WORDS: dict[str, bool] = {"true": True, "false": False}


@lru_cache(maxsize=64)
def _file_system(root: str, storage: Storage) -> FileSystem:
    """The file system of a scheme and a host, opened once."""
    from pyarrow import fs

    scheme = root.partition("://")[0]
    options = {name: _WORDS.get(value.lower(), value) for name, value in storage}
    try:
        if scheme == "s3" and options:
            return fs.S3FileSystem(**options)
        if scheme in ("gs", "gcs") and options:
            return fs.GcsFileSystem(**options)
        if scheme in _PYARROW and not options:
            return fs.FileSystem.from_uri(root)[0]
        import fsspec

        return fs.PyFileSystem(fs.FSSpecHandler(fsspec.filesystem(scheme, **options)))
    except ImportError as error:
        raise UsageError(
            f"{scheme}:// needs a package that is not here: {error}",
            advice="pip install fsspec and the package that it names for this kind of address",
        ) from None
    except (OSError, TypeError, ValueError) as error:
        raise UsageError(
            f"{root} cannot be opened: {error}",
            advice="Check the address, the options storage.* and the credentials in the environment",
        ) from None


def _split(address: str) -> tuple[str, str]:
    """The root that decides the file system, and the part of an address before the path."""
    scheme, _, rest = address.partition("://")
    root = f"{scheme}://{rest.partition('/')[0]}"
    if scheme in ("hdfs", "viewfs"):
        return root, root
    return root if scheme in _PYARROW else f"{scheme}://", f"{scheme}://"
