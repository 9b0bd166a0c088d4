"""limestone: a key-value log with parallel channels, epochs and group commit, compaction and a catalog.

The rooms are those of every dialect; `merge.py` finds the newest version of every key in bounded memory.
"""
