"""The load of the kill lane: one process that appends to a toy log until it is killed."""

from __future__ import annotations

import sys

from tests.testing.toy import RIGHT, ToyLog

from flintlog.disk import Disk
from flintlog.testing import Reporter


def main(root: str, kind: str) -> None:
    log = ToyLog(Disk(), RIGHT, root)
    reporter = Reporter()
    number = len(log.records)
    if kind == "exits":
        sys.exit(7)
    while True:
        number += 1
        record = f"{number:06}" * 20
        if kind == "lies":
            reporter.issue(record)
            reporter.acknowledge(record)
            continue
        reporter.issue(record)
        log.append(record.encode())
        reporter.acknowledge(record)


if __name__ == "__main__":
    main(*sys.argv[1:])
