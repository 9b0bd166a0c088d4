"""Every code that a finding of taskflux can have: how grave it is, what it means, what opening does, what repair does.

`make docs` writes the tables of findings on the format page from here.
"""

from __future__ import annotations

from flintlog.core.finding import Codes

CODES = Codes("""
# The log
torn-tail | repairable | the newest segment ends in a write that a crash interrupted | opens: cuts it and reports it in `findings` | cut: nothing acknowledged is lost
torn-header | repairable | the newest segment was created and its header did not arrive | opens: begins it anew and reports it | rewrite: as an empty segment
record-behind-end | corrupt | good records stand behind an end marker of the newest segment (designed edition, where nothing leaves them there) | refuses | cut
stale-bytes | note | bytes stand behind the end marker of the newest segment, as the original leaves them when it overwrites | opens: removes them before the next append | nothing
term-falls | note | a record has a lower term than the one before it | opens | nothing
segment-header | repairable | the file marker is wrong, and all records behind it are good | refuses | rewrite: the header only
segment-marker | corrupt | the file marker is wrong, and no good records stand behind it | refuses | move aside: it and all later segments; when it is the first one, an empty one takes its place
segment-version | unsupported | a version above that of the edition | refuses | refused
segment-lsn | corrupt | a record would have an LSN above 2^63 - 2: the segment's name is wrong | refuses | cut; a segment that begins above it is moved aside
log-gap | corrupt | LSNs are missing between two segments | refuses | move aside: all segments behind the gap | a lost file
log-overlap | corrupt | LSNs stand in two segments | refuses | move aside: the later segment and all behind it
log-emptied | corrupt | designed edition: there is metadata, and not one segment, or a single one that is empty. A store has a segment before it has metadata | refuses | rewrite: as an empty segment | a lost file
log-start | corrupt | the log begins behind the snapshot, or behind LSN 0 without one | refuses | move aside: the log, when there is a snapshot; refused without one | a lost file
record-marker | corrupt | no record begins where one should | refuses | cut
record-cut | corrupt | an older segment ends inside a record | refuses | cut
record-term | corrupt | a term below 1 | refuses | cut
record-length | corrupt | a negative length | refuses | cut
record-checksum | corrupt | data and checksum do not fit | refuses | cut
record-padding | corrupt | the padding is not zero | refuses | cut

# Deltas
delta-empty | corrupt | a record without data | refuses | cut
delta-unknown-type | corrupt | the first byte is not C, D, A or R | refuses | cut
delta-queue-name | corrupt | a byte outside 0x21..0x7E in a name | refuses | cut
delta-short | corrupt | the data ends before its fields do | refuses | cut
delta-queue | corrupt | a queue that cannot be: unknown implementation, buckets without a range, a negative limit, an empty range | refuses | cut
delta-duplicate-create | corrupt | `C` for a queue that exists | refuses | cut
delta-delete-default | corrupt | `D` for the default queue | refuses | cut
delta-missing-queue | corrupt | `A` for a queue that was deleted, or `R` for one that is not there | refuses | cut
delta-never-added | corrupt | `R` for an id that was never given out | refuses | cut
delta-no-id | corrupt | `A` for a queue that has given out its last id, 2^64 - 1 | refuses | cut
create-not-logged | note | `A` for a queue that was never created | opens: the queue is made, without limits | nothing
remove-repeated | note | `R` for a record that is gone already | opens: nothing is left to remove | nothing
delete-missing-queue | note | `D` for a queue that is not there | opens: nothing is left to delete | nothing

# Snapshot
snapshot-unusable | repairable | the snapshot is damaged, and the log holds everything from LSN 0 on | opens: copies the snapshot to `kept/opened`, empties it and reports it | empty: the state comes from the log
snapshot-short | corrupt | the file ends before its fields do | refuses | refused
snapshot-marker | corrupt | not a snapshot | refuses | refused
snapshot-index | corrupt | an index below -1 | refuses | refused
snapshot-term | corrupt | a term below 1 | refuses | refused
snapshot-length | corrupt | a negative length of the state | refuses | refused
snapshot-checksum | corrupt | state and checksum do not fit | refuses | refused
snapshot-name | corrupt | a byte outside 0x21..0x7E in a name | refuses | refused
snapshot-count | corrupt | a queue with a negative number of records | refuses | refused
snapshot-id | corrupt | an id twice in one queue | refuses | refused
snapshot-queue | corrupt | a queue that cannot be: unknown implementation, buckets without a range, a negative limit, an empty range | refuses | refused
snapshot-queue-twice | corrupt | two queues of one name | refuses | refused
snapshot-no-default | corrupt | no default queue | refuses | refused
snapshot-conflict | corrupt | snapshot and log have different terms at the snapshot's index | refuses | move aside: the log

# Metadata and other files
metadata-missing | corrupt | there are entries, and no metadata or an empty file | refuses | rewrite | a lost file
metadata-short | corrupt | shorter than it must be, and not empty | refuses | rewrite
metadata-marker | corrupt | not a metadata file | refuses | rewrite
metadata-term | corrupt | a term below 1 | refuses | rewrite
metadata-vote | corrupt | a vote below -1 | refuses | rewrite
metadata-checksum | corrupt | the checksum does not fit | refuses | rewrite
metadata-version | unsupported | a version above that of the edition | refuses | refused
leftover | note | a segment that a snapshot covers and that was to be removed; a file in a scratch directory | opens: removes it | nothing
foreign | note | no part of a taskflux directory | opens | nothing
""")
