"""mpy6a: unfinished sessions, kept in one chain of files for each delay until their replay time comes.

The rooms are those of every dialect.
"""
