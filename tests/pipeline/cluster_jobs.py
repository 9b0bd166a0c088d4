"""Every job over the samples, for `spark-submit`: `cluster_jobs.py FOLDER` prints what they gave as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from flintlog.pipeline import jobs
from flintlog.pipeline.session import session


def run(folder: Path) -> dict[str, object]:
    spark = session(None)
    report: dict[str, object] = {"master": spark.sparkContext.master}
    for name in ("taskflux", "zmqraft", "mpy6a", "limestone"):
        path = str(folder / name)
        source = spark.read.format("flintlog").load(path)
        found: dict[str, object] = {
            "entries": source.count(),
            "verdict": jobs.verify(spark, path).json()["verdict"],
            "state": jobs.state(spark, path).count(),
            "equal": jobs.diff(spark, [path, str(folder / "replica" / name)])[0].equal,
            "exported": jobs.export(spark, path, str(folder / "exported" / name)).rows,
        }
        if name == "taskflux":
            found["snapshot"] = jobs.snapshot(spark, path)
        else:
            found["compact"] = jobs.compact(spark, path)
        report[name] = found
    spark.stop()
    return report


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]))))
