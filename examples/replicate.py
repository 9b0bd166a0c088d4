"""The storage of Raft nodes, with a leader and two followers in one process and function calls for messages.

A `ReplicaLog` keeps term, vote, entries and snapshot of one node. The Raft above it decides who leads and what is
agreed; here the script does. It shows replication, a conflict that is rolled back, and a snapshot for a node that comes
late.

    python examples/replicate.py [DIRECTORY]
"""

from __future__ import annotations

import sys
import tempfile

from flintlog import QueueStore, ReplicaLog
from flintlog.dialects.taskflux.layout import AddRecord, CreateQueue, Delta, QueueSpec, encode_delta


def propose(leader: ReplicaLog, *deltas: Delta) -> None:
    """The leader writes entries of its term, durable on return."""
    leader.append(leader.term, [encode_delta(delta) for delta in deltas])


def send_entries(leader: ReplicaLog, follower: ReplicaLog, first: int) -> None:
    """What an AppendEntries message carries; the follower drops what contradicts it."""
    follower.append_entries(first, [(entry.term, entry.data) for entry in leader.entries(first)])


def main(directory: str) -> None:
    leader, follower, late = (ReplicaLog(f"{directory}/{name}") for name in ("leader", "follower", "late"))

    for node in (leader, follower):
        node.set_term(2, vote=0)  # durable before it is answered
    propose(
        leader, CreateQueue(QueueSpec("mail")), AddRecord("mail", 0, b"one"), AddRecord("mail", 0, b"two")
    )
    send_entries(leader, follower, first=0)
    for node in (leader, follower):
        node.commit(leader.last_lsn)  # two of three have it
    print(f"agreed on LSN 0 to {follower.commit_index}")

    follower.append(2, [encode_delta(AddRecord("mail", 0, b"never agreed"))])
    leader.set_term(3, vote=0)
    propose(leader, AddRecord("mail", 0, b"three"))
    send_entries(leader, follower, first=3)
    print(f"LSN 3 of the follower is of term {follower.term_of(3)} now")
    for node in (leader, follower):
        node.commit(3)

    print(f"the leader's snapshot covers LSN {leader.snapshot()}")
    late.set_term(3)
    print(f"the late node received it up to LSN {late.receive_snapshot(leader.read_snapshot())}")
    propose(leader, AddRecord("mail", 0, b"four"))
    send_entries(leader, late, first=late.last_lsn + 1)
    send_entries(leader, follower, first=follower.last_lsn + 1)

    for node in (leader, follower, late):
        node.close()
    for name in ("leader", "follower", "late"):
        with QueueStore(f"{directory}/{name}") as store:
            print(f"{name}: {[record.payload.decode() for record in store.queue('mail').records()]}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as directory:
            main(directory)
