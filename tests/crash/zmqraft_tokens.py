"""Crash scenarios of `TokenFile` alone: what is shown is a prefix of what was appended."""

from __future__ import annotations

from collections.abc import Sequence

from flintlog.dialects.zmqraft.layout import segment
from flintlog.dialects.zmqraft.store import TokenFile
from flintlog.disk import Disk
from flintlog.testing import History, Scenario, Suite

PATH = "/srv/notes/tokens"
Item = tuple[bytes, bytes]
ITEMS: tuple[Item, ...] = (
    (b"PAD_", b""),
    (b"NEST", segment(b"INSI", b"12345678") * 257),  # in the next page other segments seem to begin
    (b"ONE_", b"1"),
    (b"NONE", b""),
    (b"LONG", bytes(range(1, 200)) * 6),
    (b"ZERO", bytes(40)),
    (b"LAST", b"LASTLASTLAST"),
)


def opened(disk: Disk) -> TokenFile:
    disk.make_passing_directory(PATH.rpartition("/")[0])
    return TokenFile(PATH, disk=disk)


def append(disk: Disk, history: History[Item]) -> None:
    file = opened(disk)
    history.opened(lambda: file.append(b"LATE", b"probe"))
    for item in ITEMS:
        history.issue(item)
        file.append(*item)
        history.acknowledge(item)
    file.close()


class TokenOracle:
    def recover(self, disk: Disk) -> tuple[Item, ...]:
        file = opened(disk)
        found = tuple((segment.token, file.read(segment)) for segment in file.segments())
        file.close()
        return found

    def check(
        self, observed: tuple[Item, ...], issued: Sequence[Item], acknowledged: Sequence[Item]
    ) -> str | None:
        if len(observed) < len(acknowledged):
            return f"{len(acknowledged)} segments were acknowledged and {len(observed)} are there"
        return None if observed == tuple(issued[: len(observed)]) else f"{observed} was never appended"

    def extend(self, disk: Disk, observed: tuple[Item, ...]) -> tuple[Item, ...]:
        file = opened(disk)
        file.append(b"MORE", b"one more")
        file.close()
        return (*observed, (b"MORE", b"one more"))


SUITE = Suite(
    "tests.crash.zmqraft_tokens:SUITE",
    TokenOracle(),
    (Scenario("tokens-alone", append),),
)
