"""What a client of Spark Connect sees of a log, as one JSON object; a process of its own, because a server is."""

from __future__ import annotations

import json
import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql.dataframe import DataFrame

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def main(path: str) -> None:
    builder = SparkSession.builder.remote("local[2]")  # this starts a server too
    spark = builder.config("spark.sql.python.filterPushdown.enabled", "true").getOrCreate()

    def load(**options: str) -> DataFrame:
        return spark.read.format("flintlog").options(**options).load(path)

    def refused(**options: str) -> str:
        try:
            load(**options).collect()
        except Exception as error:
            return str(error)
        return ""

    spark.sql(f"CREATE TEMPORARY VIEW log USING flintlog OPTIONS (path '{path}', `from` '3')")
    found = {
        "client": type(spark).__module__,
        "operations": [row.operation for row in load().orderBy("position").collect()],
        "filtered": load(pushdown="true").where("position >= 2 AND operation = 'add'").count(),
        "state": [bytes(row.payload).decode() for row in load(view="state").collect()],
        "sql": [row.operation for row in spark.sql("SELECT operation FROM log").collect()],
        "refused": refused(view="rows"),
    }
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
