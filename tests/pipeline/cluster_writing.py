"""A write on a cluster, for the tests that kill it: `cluster_writing.py MASTER DIALECT LOG ROWS`."""

from __future__ import annotations

import sys

from flintlog.pipeline.session import session

COLUMNS = {
    "limestone": ("1 AS storage_id", "cast(id AS string) AS key", "repeat('v', 200) AS value"),
    "taskflux": ("cast(id AS string) AS payload", "repeat('v', 200) AS filler"),
}


def run(master: str, dialect: str, path: str, rows: int) -> None:
    spark = session(master)
    frame = spark.range(0, rows, 1, 6).selectExpr(*COLUMNS[dialect])
    if dialect == "taskflux":
        frame = frame.selectExpr("concat(payload, ':', filler) AS payload")
    options = {"dialect": dialect, "stream": "kills", "batch": "1"}
    frame.write.format("flintlog").mode("append").options(**options).save(path)
    print("written")


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
