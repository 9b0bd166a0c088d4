"""The main job in small: four logs written and killed, verified, exported, recovered and compacted on Spark; a report.

| module | holds |
|---|---|
| `writer.py` | a process that writes a log of one dialect until it is killed |
| `walk.py` | the steps, in order, each with what it found |
| `picture.py` | what was found as one HTML file |
"""
