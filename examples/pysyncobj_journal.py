"""PySyncObj, a Raft library, with its journal on a `RaftStore`: three processes, killed and started again.

PySyncObj decides who leads and what is agreed. What it must not forget (entries, term, vote) it hands to a journal,
and `StoreJournal` below is one: when a call returns, its change is on disk. The configuration of PySyncObj has no place
for a journal class, so `main` of a node puts ours where the library looks: `pysyncobj.syncobj.createJournal`.

The script starts three nodes on loopback, writes, kills the leader with SIGKILL in the middle of writing, goes on with
the other two, brings it back, then kills all three at once and starts them again. Everything that a node acknowledged
must be there every time, on every node.

    python examples/pysyncobj_journal.py [DIRECTORY]
"""

from __future__ import annotations

import json
import select
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pysyncobj.syncobj
from pysyncobj import SyncObj, SyncObjConf, SyncObjException
from pysyncobj.batteries import ReplDict
from pysyncobj.journal import Journal

from flintlog import RaftStore
from flintlog.dialects.zmqraft.store import Entry

LoggedEntry = tuple[bytes, int, int]  # command, index, term: an entry as PySyncObj wants it

SECONDS_MAX = 35.0
VALUES_EACH = 12


class StoreJournal(Journal):  # type: ignore[misc]  # the library has no types
    """The journal of one node. Indexes of PySyncObj and of the store are the same; both begin at 1.

    A snapshot of the store marks where the journal begins. It is empty: the data is in PySyncObj's own dump file.
    """

    def __init__(self, path: str) -> None:
        self._store = RaftStore(path)
        begin = self._store.first_index
        self._entries: list[LoggedEntry] = [
            (entry.data, index, entry.term) for index, entry in enumerate(self._store.entries(begin), begin)
        ]
        self._commit_index = max(self._store.hard_state.applied, 1)

    # Entries

    def add(self, command: bytes, idx: int, term: int) -> None:
        """Durable on return: PySyncObj answers the leader right after it."""
        # An empty journal begins with an entry that says nothing. When ours was emptied for a dump and the process
        # died then, the dump will be loaded next and that entry goes again: the store has nothing to note.
        if not (idx == 1 and self._store.snapshot_index > 0):
            if idx != self._store.last_index + 1:  # after `clear`: the journal goes on where a dump ends
                self._store.install_snapshot(idx - 1, term, b"")
            self._store.append([Entry(term, command)])
        self._entries.append((command, idx, term))

    def deleteEntriesFrom(self, entryFrom: int) -> None:  # noqa: N802, N803
        """Another leader says otherwise: forget this place and everything behind it."""
        if entryFrom < len(self._entries):
            self._store.truncate(self._entries[entryFrom][1])
            del self._entries[entryFrom:]

    def deleteEntriesTo(self, entryTo: int) -> None:  # noqa: N802, N803
        """A dump covers everything before this place: a snapshot says so, and the files below it go."""
        if entryTo > 0:
            self._store.snapshot(self._entries[entryTo - 1][1], b"")
            del self._entries[:entryTo]

    def clear(self) -> None:
        self._store.truncate(self._store.first_index)
        self._entries.clear()

    def __getitem__(self, item: Any) -> Any:
        return self._entries[item]

    def __len__(self) -> int:
        return len(self._entries)

    # Term, vote, commit index

    def setCurrentTerm(self, term: int, votedForNodeId: str | None) -> None:  # noqa: N802, N803
        """Durable on return; the store refuses a second vote in one term, and a term that goes back."""
        self._store.set_hard_state(term=term, vote=votedForNodeId)

    def getCurrentTerm(self) -> int:  # noqa: N802
        return self._store.hard_state.term

    def getVotedForNodeId(self) -> str | None:  # noqa: N802
        return self._store.hard_state.vote

    def setRaftCommitIndex(self, raftCommitIndex: int) -> None:  # noqa: N802, N803
        """Need not be durable, a leader knows it; written once per second, so that a restart applies at once."""
        self._commit_index = raftCommitIndex

    def getRaftCommitIndex(self) -> int:  # noqa: N802
        return self._commit_index

    def onOneSecondTimer(self) -> None:  # noqa: N802
        applied = min(self._commit_index, self._store.last_index)  # the store refuses more than it holds
        if applied != self._store.hard_state.applied:
            self._store.set_hard_state(applied=applied)

    def _destroy(self) -> None:
        self._store.close()


# A node: one process, which reads a command per line and answers with JSON


def run_node(directory: str, address: str, *others: str) -> None:
    pysyncobj.syncobj.createJournal = StoreJournal
    conf = SyncObjConf(
        journalFile=f"{directory}/store",
        fullDumpFile=f"{directory}/dump",
        useFork=False,
        raftMinTimeout=1.0,  # patient enough for a disk that syncs slowly
        raftMaxTimeout=2.0,
        connectionRetryTime=0.3,
    )
    values = ReplDict()
    node = SyncObj(address, list(others), conf=conf, consumers=[values])
    for line in sys.stdin:
        print(json.dumps(answer(node, values, *line.split())), flush=True)
    node.destroy()


def answer(node: SyncObj, values: ReplDict, command: str, *arguments: str) -> object:
    if command == "put":
        try:
            values.set(*arguments, sync=True, timeout=3)
        except SyncObjException:
            return False  # it may still be agreed on, or not
        return True
    if command == "compact":
        node.forceLogCompaction()
        return True
    leader = node._getLeader()
    return {
        "ready": node.isReady(),
        "leader": None if leader is None else leader.id,
        "values": values.rawData(),
        "journal": node._getRaftLogSize(),
    }


# The driver


class Node:
    """One process, from outside."""

    def __init__(self, directory: str, address: str, others: list[str]) -> None:
        self.address = address
        self._log = Path(directory, "stderr")
        self._command = [sys.executable, __file__, "--node", directory, address, *others]
        self._log.parent.mkdir(parents=True)
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )

    def send(self, *words: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{' '.join(words)}\n".encode())
        self._process.stdin.flush()

    def receive(self) -> Any:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], 10)[0]:
            raise TimeoutError(f"a node does not answer; see {self._log}")
        return json.loads(self._process.stdout.readline())

    def ask(self, *words: str) -> Any:
        self.send(*words)
        return self.receive()

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, nothing is closed."""
        self._process.kill()
        self._process.communicate()


class Cluster:
    """Three nodes, and what they have acknowledged."""

    def __init__(self, directory: str) -> None:
        self._end = time.monotonic() + SECONDS_MAX
        addresses = free_addresses(3)
        self.nodes = [
            Node(f"{directory}/{number}", address, [other for other in addresses if other != address])
            for number, address in enumerate(addresses)
        ]
        self.acknowledged: dict[str, str] = {}

    def put(self, node: Node, key: str, value: str) -> None:
        """Write until it is acknowledged."""
        while not node.ask("put", key, value):
            self.pause("a write")
        self.acknowledged[key] = value

    def agreed(self, nodes: list[Node]) -> Node:
        """Wait until these nodes follow the same leader among them, and hold the same values; the leader."""
        while True:
            states = [node.ask("show") for node in nodes]
            leaders = {state["leader"] for state in states}
            leader = next((node for node in nodes if {node.address} == leaders), None)
            same = all(state["ready"] and state["values"] == states[0]["values"] for state in states)
            if leader is not None and same and self.acknowledged.items() <= states[0]["values"].items():
                return leader
            self.pause(f"{len(nodes)} nodes that agree and hold what was acknowledged; last seen: {states}")

    def compact(self) -> None:
        """Let every node write its dump and forget the entries that it covers."""
        for node in self.nodes:
            node.ask("compact")
        while any(node.ask("show")["journal"] > 3 for node in self.nodes):
            self.pause("shorter journals")

    def pause(self, awaited: str) -> None:
        if time.monotonic() > self._end:
            raise TimeoutError(f"waited too long for {awaited}")
        time.sleep(0.05)

    def kill_all(self) -> None:
        for node in self.nodes:
            node.kill()


def free_addresses(count: int) -> list[str]:
    """Free addresses on loopback."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    finally:
        for one in sockets:
            one.close()


def main(directory: str) -> None:
    cluster = Cluster(directory)
    try:
        play(cluster)
    finally:
        cluster.kill_all()
    compare_stores([f"{directory}/{number}/store" for number in range(len(cluster.nodes))])


def play(cluster: Cluster) -> None:
    leader = cluster.agreed(cluster.nodes)
    for number in range(VALUES_EACH):
        cluster.put(cluster.nodes[number % 3], f"first-{number}", str(number))
    cluster.agreed(cluster.nodes)
    print(f"three nodes agree on {len(cluster.acknowledged)} values")

    cluster.compact()
    cluster.put(leader, "compacted", "yes")
    print("every journal begins behind a dump now")

    leader = cluster.agreed(cluster.nodes)
    others = [node for node in cluster.nodes if node is not leader]
    others[0].send("put", "in-flight", "perhaps")  # on its way while the leader dies
    leader.kill()
    if others[0].receive():
        cluster.acknowledged["in-flight"] = "perhaps"
    cluster.agreed(others)
    print("the leader was killed, another one leads, nothing acknowledged is lost")

    for number in range(VALUES_EACH):
        cluster.put(others[number % 2], f"second-{number}", str(number))
    leader.start()
    cluster.agreed(cluster.nodes)
    print("the killed node is back and has caught up")

    cluster.kill_all()
    for node in cluster.nodes:
        node.start()
    cluster.agreed(cluster.nodes)
    print("all three were killed at once and hold every acknowledged value again")


def compare_stores(paths: list[str]) -> None:
    """What the killed nodes left on disk, read without them."""
    stores = [RaftStore(path) for path in paths]
    first = max(store.first_index for store in stores)
    last = min(store.last_index for store in stores)
    logs = [list(store.entries(first, last)) for store in stores]
    for store in stores:
        store.close()
    if len(logs[0]) < VALUES_EACH or logs.count(logs[0]) != len(logs):
        raise RuntimeError(f"the stores disagree between index {first} and {last}")
    print("the three stores hold the same entries")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--node"]:
        run_node(*sys.argv[2:])
    elif len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as directory:
            main(directory)
