"""`python -m benchmarks`: measure, and print a table (or JSON with `--json`)."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

from benchmarks import limestone, machine, mpy6a, spark, taskflux, zmqraft
from benchmarks.results import Results
from benchmarks.table import Table


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it runs, not how fast")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--only", metavar="NAME", help="only topics whose name begins so: taskflux, zmqraft/read, ..."
    )
    parser.add_argument(
        "--directory", default=".bench", help="where to work; on the disk to measure (%(default)s)"
    )
    parser.add_argument(
        "--save",
        type=Path,
        metavar="FILE",
        help="add the figures to FILE; `make docs` makes pages of docs/performance.json",
    )
    options = parser.parse_args(arguments)
    if options.save is not None and options.quick:
        parser.error("--quick measures nothing that could be saved")

    def wanted(name: str) -> bool:
        if options.only is not None and not name.startswith(options.only):
            return False
        print(f"measuring {name}", file=sys.stderr)
        table.begin(name)
        return True

    def wanted_dialect(name: str) -> bool:
        return (
            options.only is None or f"{name}/".startswith(options.only) or options.only.startswith(f"{name}/")
        )

    there = os.path.isdir(options.directory)
    os.makedirs(options.directory, exist_ok=True)
    work = os.path.join(options.directory, f"run-{os.getpid()}")
    os.makedirs(work)
    table = Table(facts=machine.facts(work))
    try:
        if wanted_dialect("taskflux"):
            taskflux.run(table, work, taskflux.QUICK if options.quick else taskflux.Sizes(), wanted)
        if wanted_dialect("zmqraft"):
            zmqraft.run(table, work, zmqraft.QUICK if options.quick else zmqraft.Sizes(), wanted)
        if wanted_dialect("mpy6a"):
            mpy6a.run(table, work, mpy6a.QUICK if options.quick else mpy6a.Sizes(), wanted)
        if wanted_dialect("limestone"):
            limestone.run(table, work, limestone.QUICK if options.quick else limestone.Sizes(), wanted)
        if wanted_dialect("spark"):
            spark.run(table, work, spark.QUICK if options.quick else spark.Sizes(), wanted)
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if not there and not os.listdir(options.directory):
            os.rmdir(options.directory)
    table.end()
    if options.save is not None:
        results = Results.read(options.save)
        results.add(table)
        results.write(options.save)
    if options.quick:
        table.notes.insert(
            0, "Small sizes: this run shows that the benchmark works; its figures mean nothing."
        )
    if options.json:
        print(json.dumps(table.as_json(), indent=2))
    else:
        print("\n".join(table.lines()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
