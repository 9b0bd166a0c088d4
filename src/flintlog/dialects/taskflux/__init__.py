"""taskflux: durable priority queues in a segmented Raft log of deltas, with a snapshot and metadata.

`layout` says what the bytes are, `scan` reads a segment, `replay` turns entries into queues, `files` surveys a
directory, `store` is the live engine, `upkeep` keeps it in order. `dialect` is what the rest of Flintlog sees.
"""
