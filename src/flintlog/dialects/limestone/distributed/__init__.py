"""The state of a directory by many workers: pointers travel, payloads stay in their files.

1. *Look.* A task for each file walks it window by window. It gives back the snippets of each window, a sample of
   the keys, and what happened to whole storages.
2. *Produce.* A task for each window reads the entries that count as candidates (`candidates.py`), drops those that
   another one of the window beats, and sorts the rest into buckets: ranges of storage and key, cut at the samples so
   that each bucket fits in a worker's memory.
3. *Reduce.* A task for each bucket finds the winners and notes where their records stand and how long they are.
4. The caller makes rows of them, or bytes. The lengths of all buckets before it say where in the sorted files
   the bytes of a bucket belong, so that the tasks write one file together.

A worker maps windows, never whole files: it may have room for few addresses.
"""

from flintlog.dialects.limestone.distributed.looking import LogFile, Looking, Looks, look
from flintlog.dialects.limestone.distributed.state import Distribution, state_frame
from flintlog.dialects.limestone.distributed.writing import write_files

__all__ = ["Distribution", "LogFile", "Looking", "Looks", "look", "state_frame", "write_files"]
