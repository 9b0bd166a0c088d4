"""A first look at a small log of any dialect, and the main job in small: four logs written and killed, verified,
exported, recovered and compacted on Spark; a report.

| module | holds |
|---|---|
| `samples.py` | the small logs, how a crash tears each, and their upkeep |
| `writer.py` | a process that writes a log of one dialect until it is killed |
| `walk.py` | the steps, in order, each with what it found |
| `picture.py` | what was found as one HTML file |
"""
