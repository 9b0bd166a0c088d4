"""taskflux: durable priority queues in a segmented Raft log of deltas, with a snapshot and metadata.

`layout` says what the bytes are, `scan` reads a segment, `replay` turns entries into the queues of `state`. `files`
reads each file of a directory, `survey` says how they fit together. `store` is the live engine, `upkeep` keeps it
in order, `entries` and `tables` show it as rows. `dialect` is what the rest of Flintlog sees.
"""
