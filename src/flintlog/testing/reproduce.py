"""Reproduces the failure of an image or a fault from its line, and explains it step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flintlog.disk import Disk
from flintlog.errors import RefusedError
from flintlog.testing.crash import Image, image
from flintlog.testing.device import Device, State
from flintlog.testing.examine import BrokenPromiseError, Examiner, Expectation
from flintlog.testing.explore import image_key
from flintlog.testing.faults import examine_fault, fault
from flintlog.testing.oracle import Recording, Suite, record
from flintlog.testing.sites import Sites


def reproduce(
    suite: Suite,
    line: str,
    *,
    elide: str | None = None,
    to: str | None = None,
    tell: Callable[[str], None] = print,
) -> BrokenPromiseError | None:
    """Make the image or fault of this line again, examine it, and print what happens.

    Writes the image to the directory `to`, for other tools. Returns the broken promise, if any.
    """
    try:
        if ":fault=" in line:
            _reproduce_fault(suite, line, tell)
        else:
            _reproduce_image(suite, line, elide, to, tell)
    except BrokenPromiseError as broken:
        tell(f"broken: {broken}")
        return broken
    tell("every promise holds")
    return None


def write_to(state: State, directory: str) -> None:
    """Write a file system from memory to a real directory, which must not exist."""
    disk = Disk()
    root = disk.resolve(directory)
    if disk.stat(root) is not None:
        raise RefusedError("this is there already", file=root, advice="Name a new directory")
    disk.make_directory(root)
    for path, content in state.tree():
        if content is None:
            disk.make_directory(f"{root}{path}")
            continue
        with disk.open(f"{root}{path}", "create") as file:
            file.pwrite(content, 0)


def _reproduce_fault(suite: Suite, line: str, tell: Callable[[str], None]) -> None:
    name, injected = fault(line)
    scenario = suite.scenario(name)
    examine_fault(scenario, injected, Examiner(suite.oracle, nested=False, tell=tell))


def _reproduce_image(
    suite: Suite, line: str, elide: str | None, to: str | None, tell: Callable[[str], None]
) -> None:
    scenario = suite.scenario(line.partition(":call=")[0])
    sites = Sites(scenario.packages)
    recording = record(scenario, elide=elide, sites=sites)
    found = image(recording, line)
    shown = _visible(found)
    _tell_image(recording, found, shown, tell)
    if to is not None:
        write_to(shown, to)
        tell(f"written to {to}")
    history = recording.history
    expectation = Expectation(history.issued(found.call), history.acknowledged(found.call))
    examiner = Examiner(suite.oracle, sites=sites, elide=elide, tell=tell)
    examiner.examine(found, image_key(found), expectation)


def _visible(found: Image) -> State:
    device = Device(found.state)
    device.take_all(found.pending)
    return device.visible()


def _tell_image(recording: Recording[Any], found: Image, shown: State, tell: Callable[[str], None]) -> None:
    device = Device(recording.base)
    device.take_all(recording.log[: found.call])
    pending = {*device.pending_data, *device.pending_names}
    tell(f"{found}: calls before the crash, * not yet durable")
    for number, call in enumerate(recording.log[: found.call], 1):
        tell(f"  {'*' if number in pending else ' '} {number}: {call}")
    tell(f"acknowledged: {recording.history.acknowledged(found.call)!r}")
    tell("files the next process finds:")
    for path, content in shown.tree():
        tell(f"    {path}/" if content is None else f"    {path}: {len(content)} bytes")
