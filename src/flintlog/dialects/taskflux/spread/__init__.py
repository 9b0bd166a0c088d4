"""The state of a directory by many workers: pointers travel, payloads stay in their files.

1. *Look.* A task for each segment reads it, and tells how it fits to the others and how many records each queue was
   given between its creations and deletions.
2. Ids follow from the order of entries, so whoever asked goes through these counts and knows the lives and the last
   ids that every segment begins with.
3. *Cancel.* A task for each segment replays it from there. What is added and removed in the same segment never
   leaves the task; it gives back pointers to the records that are left, and the removals of earlier ones.
4. Whoever asked strikes out what later segments removed, segment after segment: it holds what is alive, and never the
   log.
5. Tasks make rows of the pointers, or bytes of a snapshot, each at its place in one file.
"""

from flintlog.dialects.taskflux.spread.joining import Replayed, replayed
from flintlog.dialects.taskflux.spread.looking import Looked, looked
from flintlog.dialects.taskflux.spread.results import state_frame, write_snapshot

__all__ = ["Looked", "Replayed", "looked", "replayed", "state_frame", "write_snapshot"]
