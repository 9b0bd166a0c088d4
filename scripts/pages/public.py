"""The public names of Flintlog: what the API reference shows and the tests want described."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from flintlog.disk import Kernel

# Each module with a title and its names; None: those of its `__all__`.
MODULES: dict[str, tuple[str, tuple[str, ...] | None]] = {
    "flintlog": (  # it has the errors and the parts of the queue store, too
        "Stores, and reading",
        (
            "Datastore",
            "Log",
            "QueueStore",
            "RaftStore",
            "ReplicaLog",
            "Rows",
            "Session",
            "SessionStore",
            "Topic",
            "open",
            "read",
            "write",
        ),
    ),
    "flintlog.dialects.taskflux.store": ("Parts of the queue store", ("Entry", "Queue", "Taken")),
    "flintlog.dialects.mpy6a.store": (
        "Parts of the session store",
        ("Operations", "Progress", "Record", "Replays", "StateID"),
    ),
    "flintlog.dialects.limestone.store": (
        "Parts of the key-value store",
        (
            "Automatic",
            "Channel",
            "Session",
            "Snapshot",
            "back_up",
            "check_backup",
            "restore",
            "restore_files",
        ),
    ),
    "flintlog.dialects.zmqraft.store": (
        "Parts of the Raft store",
        ("Entry", "FileLog", "HardState", "IndexFile", "SnapshotFile", "StateFile", "TokenFile"),
    ),
    "flintlog.errors": (
        "Errors",
        (
            "ClosedError",
            "DamageError",
            "DiskError",
            "FlintlogError",
            "ForkedError",
            "LockedError",
            "NotALogError",
            "RefusedError",
            "SettingsError",
            "StoppedError",
            "UnsupportedError",
            "UsageError",
        ),
    ),
    "flintlog.pipeline.session": ("The Spark session", ("session",)),
    "flintlog.pipeline.jobs": ("Jobs on Spark", None),
    "flintlog.testing": ("The fault kit", None),
}


def names(module: str) -> tuple[str, ...]:
    """The public names of a module, in the order of the alphabet."""
    return tuple(sorted(MODULES[module][1] or importlib.import_module(module).__all__))


def found(module: str, name: str) -> Any:
    """What a public name stands for."""
    return getattr(importlib.import_module(module), name)


def home_of(module: str, name: str) -> str:
    """Where it is defined, with dots: what a reader of the source looks for."""
    thing = found(module, name)
    if isinstance(thing, ModuleType) or not hasattr(thing, "__module__"):
        return f"{module}.{name}"
    return f"{thing.__module__}.{thing.__qualname__}"


def first_sentence(thing: Any) -> str:
    """What its docstring says first, on one line."""
    text = (inspect.getdoc(thing) or "").split("\n\n")[0]
    return re.split(r"(?<=[.:]) |(?<=\.)$", " ".join(text.split()))[0].rstrip(":.") + "."


def without_docstring(thing: Any) -> Iterator[str]:
    """The public calls of a class that say nothing. Those of a kernel are the system's, and `Kernel` lists them."""
    if not inspect.isclass(thing):
        return
    kernel = hasattr(thing, "pwrite")
    for name in dir(thing):
        if name.startswith("_") or (kernel and hasattr(Kernel, name)):
            continue
        member = inspect.getattr_static(thing, name)
        call = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if inspect.isfunction(call) and not call.__doc__:
            yield name
