"""What the original recorded of its directories, and how to replay the calls that made them."""

from __future__ import annotations

import calendar
import hashlib
import json
import shutil
import time
from pathlib import Path
from typing import Any

from tests.golden_cases import GOLDEN, cases, expected

from flintlog.dialects.zmqraft.layout import Entry
from flintlog.dialects.zmqraft.store import (
    APPLIED_PROPERTIES,
    RAFT_PROPERTIES,
    FileLog,
    SnapshotFile,
    Stamps,
    StateFile,
)
from flintlog.disk import Disk

ALL = cases("zmqraft")
DAMAGED = [case for case in ALL if case.startswith("d")]
GOOD = [case for case in ALL if not case.startswith("d")]
LOGS = [case for case in GOOD if "log" in expected(case, "zmqraft")]
STATES = [case for case in GOOD if "persistence" in expected(case, "zmqraft")]


def recorded(case: str) -> dict[str, Any]:
    """What the original said of a case."""
    return expected(case, "zmqraft")


def entry(told: dict[str, Any]) -> Entry:
    """An entry as the recordings write it."""
    return Entry(told["term"], bytes.fromhex(told["data"]), told["type"], bytes.fromhex(told["requestId"]))


def operations(case: str) -> list[dict[str, Any]]:
    """The calls that made a case."""
    found: list[dict[str, Any]] = json.loads((GOLDEN / "zmqraft" / case / "ops.json").read_text())
    return found


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Replay:
    """Makes a directory anew by the recorded calls, with their clock and host name."""

    def __init__(self, target: Path, stamps: Stamps | None = None) -> None:
        self._target = target
        self._now = 0.0
        self._stamps = stamps or Stamps(clock=lambda: self._now, hostname="", software=None, process=1)
        self._log: FileLog | None = None
        self._states: dict[str, StateFile] = {}
        target.mkdir(parents=True)

    def run(self, calls: list[dict[str, Any]]) -> None:
        for call in calls:
            getattr(self, f"_{call['op']}")(call)

    def _clock(self, call: dict[str, Any]) -> None:
        seconds, milliseconds = call["now"].rstrip("Z").split(".")
        parsed = calendar.timegm(time.strptime(seconds, "%Y-%m-%dT%H:%M:%S"))
        self._now = parsed + int(milliseconds) / 1000
        self._stamps.hostname = call.get("hostname", self._stamps.hostname)

    _tick = _clock

    def _open(self, call: dict[str, Any]) -> None:
        self._log = FileLog(str(self._target), capacity=call["capacity"], stamps=self._stamps)

    @property
    def _opened(self) -> FileLog:
        assert self._log is not None
        return self._log

    def _append(self, call: dict[str, Any]) -> None:
        self._opened.append([entry(call["entry"]).encode()])

    def _append_batch(self, call: dict[str, Any]) -> None:
        if (index := call.get("index")) is not None and index <= self._opened.last:
            self._opened.truncate(index)
        self._opened.append([entry(told).encode() for told in call["entries"]])

    _log_writer = _append_batch

    def _truncate(self, call: dict[str, Any]) -> None:
        self._opened.truncate(call["index"])

    def _close(self, call: dict[str, Any]) -> None:
        self._opened.close()

    def _unlink(self, call: dict[str, Any]) -> None:
        (self._target / call["path"]).unlink()

    def _create_snapshot(self, call: dict[str, Any]) -> None:
        path = str(self._target / call["file"])
        data = bytes.fromhex(call["data"])
        snapshot = SnapshotFile(Disk(), path, call["index"], call["term"], len(data), self._stamps)
        snapshot.write(data)
        snapshot.finish()
        snapshot.file.close()
        shutil.move(snapshot.file.path, path)

    def _install_snapshot(self, call: dict[str, Any]) -> None:
        self._opened.install_snapshot(call["index"], call["term"], bytes.fromhex(call["data"]))

    def _pers_open(self, call: dict[str, Any]) -> None:
        properties = RAFT_PROPERTIES if call["op"] == "pers_open" else APPLIED_PROPERTIES
        self._states[call["file"]] = StateFile(
            str(self._target / call["file"]),
            properties,
            defaults={"peers": call["initPeers"]} if "initPeers" in call else None,
            stamps=self._stamps,
            numbers_as_original=True,
            fill_sectors=False,
        )

    _state_open = _pers_open

    def _pers_update(self, call: dict[str, Any]) -> None:
        state = self._states[call["file"]]
        # The original takes unknown names and writes none of them; here they are refused.
        state.update(**{name: value for name, value in call["data"].items() if name in state.values()})

    _state_update = _pers_update

    def _pers_close(self, call: dict[str, Any]) -> None:
        self._states[call["file"]].close()

    _state_close = _pers_close

    def _note(self, call: dict[str, Any]) -> None:
        if "peers" not in call:
            return
        state = self._states["raft.pers"]
        term = 0
        while not list(self._target.glob("raft.pers-*")):
            term += 1
            state.update(currentTerm=term, peers=call["peers"])
        state.update(votedFor="n1")

    def _dir2(self, call: dict[str, Any]) -> None:
        Replay(self._target.parent / "dir2", self._stamps).run(call["ops"])
