"""The main job in small, `make demo`: four logs written and killed, verified, exported, recovered and compacted on
Spark, a fifth written by it, a copy damaged and repaired, and a report with a picture.

`python -m examples.demo` from the directory of the project. Each run gets a directory of its own below `.demo`.

| module | holds |
|---|---|
| `writer.py` | a process that writes a log of one dialect until it is killed |
| `walk.py` | the steps, in order, each with what it found |
| `picture.py` | what was found as one HTML file |
"""

from __future__ import annotations

import json
import sys
from itertools import count
from pathlib import Path

from examples.demo.walk import told, walk

from flintlog.errors import FlintlogError
from flintlog.pipeline.session import refuse_without_java


def free_place() -> Path:
    """A directory that no earlier demo used: nothing is ever overwritten."""
    places = (Path(".demo") / f"run-{number}" for number in count(1))
    return next(place for place in places if not place.exists())


def main(words: list[str]) -> int:
    place = free_place()
    try:
        refuse_without_java()
        report = walk(place, lambda text: print(f"\n{text}.", file=sys.stderr, flush=True))
    except FlintlogError as error:
        print(f"demo: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        print(f"demo: interrupted; what it had made is in {place}", file=sys.stderr)
        return 130
    print(json.dumps(report.json()) if "--json" in words else told(report))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
