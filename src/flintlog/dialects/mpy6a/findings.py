"""Every code that a finding of mpy6a can have: how grave it is, what it means, what opening does, what repair does.

`make docs` writes the tables of findings on the format page from here.
"""

from __future__ import annotations

from flintlog.core.finding import Codes

CODES = Codes("""
# Left by a crash
record-cut | repairable or corrupt | a file that is written ends inside a record | opens: cuts it and reports it | cut
record-zeros | repairable | zeros behind the last record | opens: cuts them and reports it | cut
event-cut | repairable or corrupt | a log ends inside an event or its padding | opens: cuts it and reports it | cut
event-zeros | repairable | zeros behind the last event of `state.log` | opens: cuts them and reports it | cut
file-behind | repairable | bytes at the end of a data file are in the operation log only | opens: writes them and reports it | write
file-ahead | repairable | bytes at the end of a data file belong to no operation | opens: cuts them and reports it | cut
note-behind | repairable | the snapshot or the change log beside an operation log cannot be read, or the change log says something else | opens: writes it anew and reports it | rewrite
leftover | note | a data file that no descriptor names, and that was deleted, unfinished or empty; a scratch file | opens: removes it | nothing

# Data files
record-order | corrupt or repairable | a record is due before its predecessor | refuses | rewrite: a session whose time does not fit takes that of the next one
record-time | corrupt or repairable | the replay time is 0 or beyond the year 9999 | refuses | rewrite: without that record; cut, where nothing can be read behind it
record-term | corrupt or repairable | the session's term is 0 | refuses | rewrite: without that record; cut, where nothing can be read behind it
record-number | corrupt | a number has more than 64 bits | refuses | rewrite: without that record; cut, where nothing can be read behind it
file-short | corrupt | a file is missing, or shorter than its descriptor says | refuses | rewrite: the descriptor, with a hole in the file; cut, with a descriptor that fits; forget, where the file is missing | a lost file
file-undescribed | corrupt | a data file with sessions that nothing describes, deletes or announces | refuses | adopt: it is read from its beginning
file-long | corrupt | a closed file is longer than its descriptor says | refuses | cut: what is no record; rewrite, where good records stay and their times do not fit; two files that may have changed places are read from their beginning
file-order | corrupt | the first record of a file is due before the last one of the file before it | refuses | rewrite: as `record-order`
replay-bound | repairable or corrupt | the first record is due before the bound in the descriptor | refuses | rewrite: the bound
offset-boundary | corrupt | the read position is inside a record | refuses | rewrite: it goes back to where the record begins
two-writers | repairable or corrupt | two files of a delay are written | refuses | rewrite: only the last one is
writer-not-last | repairable or corrupt | the file that is written is not the last of its delay | refuses | rewrite: it is closed
exhausted-short | corrupt | sessions that were set aside are missing | refuses | cut: behind the last whole one | a lost file
foreign | note | no part of an mpy6a directory | opens | nothing

# Snapshot and change log
snapshot-cut | corrupt | the snapshot ends inside a descriptor | refuses | adopt: the files that nothing describes any more
snapshot-number | corrupt | a number has more than 64 bits | refuses | adopt
snapshot-name | corrupt | a name that no data file can have | refuses | adopt
snapshot-flags | corrupt | flags without a meaning | refuses | adopt
snapshot-term | corrupt | a state id of term 0 | refuses | adopt
snapshot-order | corrupt | last touched before it was created | refuses | adopt
snapshot-offset | corrupt | read further than it is long | refuses | adopt
snapshot-duplicate | repairable or corrupt | a file is described twice | refuses | rewrite: with the lower read position
changes-missing | corrupt | there is a snapshot and no change log | refuses | begin: an empty one | a lost file
descriptors-missing | corrupt | there are data files, and neither snapshot nor log | refuses | adopt: all of them | a lost file
log-header | corrupt | the 16 bytes at the beginning of a log are cut, or cannot be | refuses | begin: an empty one
event-length | corrupt or repairable | a payload of 0 bytes, or of more than the log or the frame has room for | refuses | begin
event-number | corrupt or repairable | the length has more than 64 bits | refuses | begin
event-padding | corrupt or repairable | what should fill the frame is not zero | refuses | begin
operation-unknown | corrupt | no operation has this code | refuses | begin
operation-cut | corrupt | the payload ends inside a field | refuses | begin
operation-number | corrupt | a number has more than 64 bits | refuses | begin
operation-trailing | corrupt | bytes follow the operation | refuses | begin
operation-name | corrupt | a name that no data file can have | refuses | begin
operation-file | corrupt | a file that is not known | refuses | begin
operation-order | corrupt | the state id is not after the one before it | refuses | begin
operation-delay | corrupt | a file for a delay of 0 seconds | refuses | begin
operation-time | corrupt | a time that cannot be, or one before that of the last record | refuses | begin
operation-shift | corrupt | a read position behind the end of the file | refuses | begin
operation-two-writers | corrupt | a second file that is written | refuses | begin
operation-not-written | corrupt | a file is to be written no more that is not written | refuses | begin

# Operation log
log-missing | corrupt | the change log says that there is an operation log, and there is none | refuses | rewrite: the snapshot; without the sessions that were open | a lost file
log-base | corrupt | the log has no checkpoint | refuses | rewrite: from the snapshot and the change log
operation-base | corrupt | the first event is no checkpoint, or it lacks open sessions | refuses | rewrite: from the snapshot and the change log
operation-flags | corrupt | a descriptor of the checkpoint has flags without a meaning | refuses | rewrite: from the snapshot and the change log
operation-term | corrupt | a descriptor of the checkpoint has a state id of term 0 | refuses | rewrite: from the snapshot and the change log
operation-offset | corrupt | a descriptor of the checkpoint is read further than it is long | refuses | rewrite: from the snapshot and the change log
event-checksum | corrupt or repairable | an event's checksum does not fit, and good ones follow | refuses | rewrite: up to the damage, then what the other files say
operation-session | corrupt | a session that is not open | refuses | rewrite: up to the damage, then what the other files say
operation-place | corrupt | a place without unread records | refuses | rewrite: up to the damage, then what the other files say
operation-records | corrupt | fewer records than the operation says, or none | refuses | rewrite: up to the damage, then what the other files say
operation-no-file | corrupt | records for a delay of which no file is written | refuses | rewrite: up to the damage, then what the other files say
note-ahead | corrupt | the snapshot or the change log knows of later operations: another program wrote here | refuses | rewrite: with what they know
""")
