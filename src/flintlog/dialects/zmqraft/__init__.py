"""zmqraft: log, snapshot and state of a Raft peer, in index files, a snapshot file and state files.

The rooms are those of every dialect; the pieces of the store are usable alone: `TokenFile`, `IndexFile`,
`FileLog`, `SnapshotFile`, `StateFile`.
"""
