"""Stores in memory for the tests of sessions, and what their directories hold."""

from __future__ import annotations

from typing import Any

from flintlog.dialects.mpy6a.store import SessionStore, Topic
from flintlog.disk import Disk
from flintlog.testing import MemoryKernel

ROOT = "/srv/sessions"
T0 = 1_700_000_000  # 2023-11-14 22:13:20 UTC
FAR = T0 + 100_000_000
SHORT, LONG, ONCE = 1, 2, 3
TOPICS = (Topic(SHORT, 30), Topic(LONG, 600), Topic(ONCE, 30, 1))


def opened(disk: Disk | None = None, **options: Any) -> SessionStore:
    defaults: dict[str, Any] = {"topics": TOPICS, "reserve_bytes": 64}
    if options.get("strict"):  # which sets nothing aside by itself
        defaults["on_exhausted"] = lambda record: None
    return SessionStore(ROOT, disk=disk or Disk(MemoryKernel()), **(defaults | options))


def reopened(store: SessionStore, **options: Any) -> SessionStore:
    """The same directory in the next process."""
    store.close()
    return opened(store._engine.disk, **options)


def crashed(store: SessionStore, **options: Any) -> SessionStore:
    """The same directory after a power failure that took everything that was not synced."""
    kernel = store._engine.disk.kernel
    assert isinstance(kernel, MemoryKernel)
    return opened(Disk(MemoryKernel(kernel.device().durable())), **options)


def files_of(store: SessionStore) -> dict[str, bytes]:
    """Every file of a store's directory."""
    disk = store._engine.disk
    found = {}
    for name in disk.list(store.path):
        if disk.is_directory(f"{store.path}/{name}"):
            continue
        with disk.open(f"{store.path}/{name}") as file:
            found[name] = bytes(file.view(copy=True))
    return found


def names_of(store: SessionStore) -> list[str]:
    """The data files, sorted."""
    return sorted(name for name in store._engine.disk.list(store.path) if name.endswith(".data"))


def waiting(store: SessionStore, now: float = FAR) -> list[bytes]:
    """The data of what is handed out, in order."""
    return [session.data for session in store.due(now, 1_000_000)]
