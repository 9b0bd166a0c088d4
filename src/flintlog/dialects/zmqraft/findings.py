"""Every code that a finding of zmqraft can have: how grave it is, what it means, what opening does, what repair does.

`make docs` writes the tables of findings on the format page from here.
"""

from __future__ import annotations

from flintlog.core.finding import Codes

CODES = Codes("""
# Left by a crash
torn-state | repairable | the last record of a state file did not fully arrive, or zeros stand in its place | opens: keeps a copy, cuts it and reports it | cut: nothing acknowledged is lost
torn-file | repairable | the newest file ends inside its head, no slot is used, and none of its entries was applied: it was being made | opens: keeps a copy, removes it and reports it | remove
index-dirty | note | slots behind the first free one are used: a rollback or an append that did not fully arrive | opens: the next append zeroes them | nothing
unfinished-close | repairable | the last file was being closed early | opens: finishes it and reports it | rewrite: the capacity
empty-file | repairable or note | an empty last file, and slots are free in the file before it | opens: keeps a copy, removes it and reports it | remove
leftover | note | a file below a gap that the snapshot covers: a removal that was not finished; a scratch file | opens: removes it, a scratch file where its name is of this store | nothing
log-superseded | repairable | the snapshot came from another peer, and the log of the old life is still there | opens: puts that log aside as `log-<stamp>` and reports it | move aside
log-missing | repairable or corrupt | there is a snapshot and no log; the old one was put aside, or there was none | opens: begins one behind the snapshot | begin | a lost file
snapshot-missing | repairable or corrupt | the log begins at index 1 and there is no snapshot, nor a predecessor | opens: writes an empty one | write | a lost file

# Index files
index-short | corrupt | the file ends inside its header or its slots | refuses | move aside: it and all later files
index-token | repairable or corrupt | the file does not begin with `RLOG` | refuses | rewrite: the header only, when the rest is whole; otherwise move aside
index-capacity | repairable or corrupt | size and capacity disagree, or the capacity cannot be | refuses | rewrite: the header only, when one of them fits the rest; otherwise move aside
index-first | corrupt | name and first index disagree: it may be a file of another place | refuses | move aside: it and all later files
index-misplaced | repairable or corrupt | an index file that the log needs stands in a wrong directory, or has capitals in its name | refuses | move: to its place; one that does not fit there moves aside, and is lost
index-version | unsupported | a version above 1 | refuses | refused
index-marker | corrupt | the file ends before `ITMZ` | refuses | move aside: it and all later files
index-offsets | corrupt | the slots do not ascend | refuses | rewrite: the slots before the damage stay; later files move aside
entry-missing | corrupt | the file ends before the entry that a slot commits | refuses | rewrite: the slots before it stay; later files move aside
entry-short | note | an entry of less than 20 bytes, which has no head | opens | nothing
entry-term | corrupt | a term above 2^53 - 1 | refuses | rewrite: the slots before it stay; later files move aside
log-start | corrupt | the log begins behind the end of the snapshot | refuses | refused, unless a predecessor of the snapshot fits | a lost file
log-gap | corrupt | indexes are missing between two files | refuses | move aside: all files behind the gap | a lost file
log-overlap | corrupt | indexes stand in two files | refuses | move aside: the later file and all behind it
term-falls | note | an entry has a lower term than the one before it | opens | nothing

# Snapshot
snapshot-short | corrupt | the file ends inside its header, or before `DATA` | refuses | refused
snapshot-marker | corrupt | the file does not begin with `SNAP` and its size | refuses | refused
snapshot-version | unsupported | a version above 1 | refuses | refused
snapshot-number | corrupt | an index, term or size above 2^53 - 1 | refuses | refused
snapshot-size | corrupt | more or less data than the header says | refuses | refused

# State files and others
state-format | corrupt | no MessagePack object begins here, or one that is not whole is not the last, or more zeros stand here than one record leaves | refuses | rewrite: with the values before it
state-record | corrupt | an object that is no map, a value that cannot be, or a property of the other file | refuses | rewrite: with the values before it
state-missing | corrupt | a state file is gone: it has a predecessor, or `state.pers` is there and `raft.pers` is not | refuses | rewrite: with the values that follow from the log | a lost file
state-size | corrupt | above 64 MiB | refuses | rewrite: with the values that follow from the log
state-array | note | an array among the maps | opens: it changes nothing | nothing
term-behind | note | the term of `raft.pers` is below that of the last entry | opens | nothing
applied-beyond | corrupt | `state.pers` has applied more than the log holds: entries are gone | refuses | rewrite: applied up to the end of the log
foreign | note | no part of a zmqraft directory | opens | nothing
""")

# The findings of a `TokenFile` used alone.
TOKEN_CODES = Codes("""
torn-segment | repairable | the last segment did not fully arrive | opens: keeps a copy and cuts it | nothing
segment-short | corrupt | a segment with less data than it says | refuses | nothing
segment-token | corrupt | a segment that was never committed stands before others | refuses | nothing
""")
