"""Every code that a finding of limestone can have: how grave it is, what it means, what opening does, what repair does.

`make docs` writes the tables of findings on the format page from here.
"""

from __future__ import annotations

from flintlog.core.finding import Codes

CODES = Codes("""
# Findings
manifest-missing | unsupported | there is no manifest: version 0, or not a log directory | refuses | refused
manifest-version | unsupported | a version that is not from 1 to 7 | refuses | refused
manifest-broken | corrupt | the manifest cannot be read, and there is no other; repair makes it again where a log or a compacted file shows the edition | refuses | refused
manifest-back | repairable | a change of the manifest was not finished | opens | restore
catalog-incomplete | repairable | the catalog is not whole, and there is nothing that it could name | opens | rewrite
catalog-back | repairable | a switch of catalogs was not finished; the one before it holds | opens | restore
catalog-lost | corrupt | no whole catalog says which compacted files count | refuses | rewrite | a lost file
catalog-name | corrupt | the catalog names a file that no writer names so | refuses | move aside
catalog-old | corrupt | a compacted file holds a later epoch than the catalog reaches, so this is an older catalog | refuses | rewrite
catalog-version | unsupported | a compacted file of another version than 1 | refuses | refused
compacted-missing | corrupt | the catalog names a file that is not there | refuses | refused | a lost file
compacted-other | corrupt | a compacted file has other markers than one of this catalog: it is another file | refuses | refused
compacted-previous | repairable | shipped: a compaction was interrupted; the file before it holds | opens | restore
compacted-unnamed | repairable | designed: the catalog does not name this compacted file, so it does not count | opens | remove
epoch-missing | repairable | there are logs and no epoch file: nothing counts as durable. Put the file back; a store refuses to open the directory | opens | write | a lost file
epoch-short | corrupt | an epoch was durable that the epoch files do not have: they lost records, and there are sessions above those that are left | refuses | write
epoch-torn | repairable | the last durable record did not arrive whole | opens | cut
epoch-type | corrupt | an epoch file holds something else than durable records | refuses | write
torn-tail | repairable or note | see above; a note in a rotated log whose last snippet is invalidated already | opens | cut
not-durable | repairable | sessions above the durable epoch, which were never acknowledged | opens | forget
entry-cut | corrupt | the file ends inside a record of a durable snippet. Repairable where compacted files hold what the log held: opening removes it then, with a copy in `kept/opened` | refuses | rewrite
entry-type | corrupt | no record begins so, inside a durable snippet; the same holds | refuses | rewrite
entry-outside | corrupt | an entry, or an end marker, outside a snippet | refuses | rewrite
snippet-epochs | repairable | begin and end marker differ in their epoch, so one of them is damaged; the begin counts | opens | rewrite
snippet-open | note | a durable snippet without an end marker in a log that has some: entries may be missing at its end | opens | nothing
left-out | repairable | shipped: a compaction left this log out; all logs count by their versions | opens | compact
left-out-ambiguous | corrupt | the same, and a log that the compaction took in is gone | refuses | rewrite | a lost file
snippet-old | corrupt | designed: an active log holds sessions that are compacted, and a compaction rotates every log first: it is another file | refuses | refused
blob-missing | corrupt | a live entry names a blob that is not there; the other data is whole | opens | nothing | a lost file
leftover | note | left over from an unfinished operation | opens | nothing
odd-name | note | a log with a name that no writer makes | opens | nothing
foreign | note | no part of the format; not touched | opens | nothing
""")
